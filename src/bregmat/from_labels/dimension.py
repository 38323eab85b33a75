"""Few components for nearest neighbours: the leading ones of a learned metric, or a low-rank map that is optimised instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bregmat.base.linalg import eigh
from bregmat.from_labels.groups import LabelGroups
from bregmat.from_labels.neighbors import Neighbors, PointSpace

# searches for neighbours in the map found so far, and steps of L-BFGS between two of them
DRAWS, STEPS = 8, 10
STEEPNESS = 4.0  # of the sigmoid: at 10 % difference its value is 0.60
MOST_COMPARISONS = 50_000  # of one search


@dataclass(eq=False)
class Neighborhood:
    """Points (n, r) with the nearest points of the same kind (targets) and apart (impostors) of each of them.

    Attributes
    ----------
    Z : ndarray, shape (n, r)
    groups : LabelGroups
        Which points belong together.
    n_neighbors, n_impostors : int
        Number of targets and of impostors of each point.
    found : Neighbors
        The m points that have both targets and impostors, and these.
    right : ndarray of bool, shape (m,)
        Which of these points have a target as their nearest neighbour.
    """

    Z: np.ndarray
    groups: LabelGroups
    n_neighbors: int
    n_impostors: int

    def __post_init__(self) -> None:
        groups, space = self.groups, PointSpace(self.Z, self.groups.ordered)
        self.neighbors: Neighbors = space.nearest(groups, groups.labelled, self.n_neighbors, self.n_impostors)
        self.right = self.neighbors.near[:, 0] < self.neighbors.far[:, 0]

    def spread(self, nearest: np.ndarray) -> np.ndarray:
        """Mean of ``(z - z') (z - z')'`` over points compared and their nearest (m, k), shape (r, r)."""
        S, count = np.zeros((self.Z.shape[1],) * 2), 0
        for column in nearest.T:
            has = column >= 0
            D = self.Z[self.neighbors.points[has]] - self.Z[column[has]]
            S, count = S + D.T @ D, count + len(D)
        return S / max(1, count)

    def ordered(self) -> np.ndarray:
        """Orthogonal directions as columns (r, r), by how much farther impostors are than targets along them, most first."""
        return eigh(self.spread(self.neighbors.impostors) - self.spread(self.neighbors.targets))[1][:, ::-1]

    def mapped(self, V: np.ndarray) -> Neighborhood:
        """The same points at ``Z V``."""
        return Neighborhood(self.Z @ V, self.groups, self.n_neighbors, self.n_impostors)

    def comparisons(self) -> np.ndarray:
        """Points, targets and impostors, shape (m, 3); of evenly spaced points if there are too many."""
        each = self.n_neighbors * self.n_impostors
        some = slice(None, None, -(-len(self.neighbors.points) * each // MOST_COMPARISONS))
        rows, near, far = self.neighbors.points[some], self.neighbors.targets[some], self.neighbors.impostors[some]
        p, a, b = ((near[:, :, None] >= 0) & (far[:, None, :] >= 0)).nonzero()
        return np.stack([rows[p], near[p, a], far[p, b]], axis=1)


def few_components(points: Neighborhood, n_components: int) -> np.ndarray | None:
    """A map V (r, n_components) of points that a learned metric has mapped; None if its leading components do as well,
    or if no optimised map is better.

    Truncation is accepted if the fraction of points whose nearest neighbour is of their kind falls by at most one standard error.
    If truncation loses accuracy, a map of that rank is optimised instead:

        minimize over V:   mean over (i, j, l) of sigmoid(4 (near - far) / (near + far))
                           near = |V' (z_i - z_j)|^2,   far = |V' (z_i - z_l)|^2

    The comparisons are those of nearest targets j and impostors l in all maps found so far. With those of the last map alone, the
    search would alternate between sets of impostors. The problem is not convex: the map with the best share is returned. A comparison
    costs at most 1, so those that cannot hold in few dimensions do not dominate the others.

    Parameters
    ----------
    points : Neighborhood
        Of n points (n, r).
    n_components : int

    Returns
    -------
    ndarray, shape (r, n_components), or None
    """
    if n_components >= points.Z.shape[1] or not len(points.neighbors.points):
        return None
    leading = points.mapped(points.ordered()[:, :n_components])
    gained, lost = np.mean(points.right & ~leading.right), np.mean(~points.right & leading.right)
    behind = gained - lost
    if behind <= np.sqrt((gained + lost - behind**2) / max(1, len(points.right))):
        return None
    rows, V, best = np.zeros((0, 3), np.int64), _start(points, n_components), leading
    for _ in range(DRAWS):
        rows = np.unique(np.concatenate([rows, points.mapped(V).comparisons()]), axis=0)
        V = _descended(points.Z, V, rows)
        images = points.mapped(V)
        if images.right.mean() > best.right.mean():
            best, kept = images, V
    return None if best is leading else kept


def _start(points: Neighborhood, n_components: int) -> np.ndarray:
    """Directions of most variance relative to the spread of neighbours, as in a discriminant analysis."""
    ridge = 1e-2  # added to the covariance of neighbours in the starting point, relative to its mean eigenvalue
    near = points.spread(points.neighbors.targets)
    values, vectors = eigh(near)
    root = vectors / np.sqrt(np.maximum(values, 0.0) + ridge * max(np.trace(near) / len(near), np.finfo(float).tiny))
    centred = (points.Z - points.Z.mean(axis=0)) @ root
    return root @ eigh(centred.T @ centred)[1][:, ::-1][:, :n_components]


def _descended(Z: np.ndarray, V: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """V after some steps of L-BFGS on the mean sigmoid of the comparisons; its largest singular value is 1."""
    i, j, l = rows.T  # points, targets and impostors

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        P = Z @ flat.reshape(V.shape)
        near, far = P[i] - P[j], P[i] - P[l]
        a, b = np.einsum("ij,ij->i", near, near), np.einsum("ij,ij->i", far, far)
        total = np.maximum(a + b, np.finfo(float).tiny)
        share = 1.0 / (1.0 + np.exp(-STEEPNESS * (a - b) / total))
        pull = 4.0 * STEEPNESS / len(rows) * share * (1.0 - share) / total
        near, far = (pull * (b / total))[:, None] * near, (pull * (a / total))[:, None] * far
        slope = np.zeros_like(P)
        for column in range(P.shape[1]):
            for points, push in ((i, near - far), (j, -near), (l, far)):
                slope[:, column] += np.bincount(points, push[:, column], len(P))
        return float(share.mean()), (Z.T @ slope).ravel()

    components = minimize(cost, V.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x.reshape(V.shape)
    return np.asarray(components / np.linalg.norm(components, 2))
