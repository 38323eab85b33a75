"""Unfolding of points on a curved surface: centred kernels that keep the distances between neighbours, and embeddings from them.

Kulis 2009, section 6.3; Weinberger 2004.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import scipy
from scipy.spatial.distance import pdist, squareform

from bregmat.applications.semidefinite.path import LogDetPath
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.applications.semidefinite.program import SemidefiniteResult
from bregmat.base.checks import as_choice, as_matrix, check_integer, check_limits, check_positive
from bregmat.base.threads import returns_result
from bregmat.base.tolerances import REPEATED, TINY
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates, Factor
from bregmat.engine.loop import RunLog, compose, solve
from bregmat.engine.result import Kind, Result
from bregmat.engine.status import Record
from bregmat.nearest import nearest_kernel
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import bind
from bregmat.typing import DivergenceName, SolverName, Table, UnfoldObjective

RTOL = 1e-3  # relative accuracy of squared distances, by default
# an edge is a short cut if the path around it is longer than these multiples of the edge and of the median edge
DETOUR, TYPICAL_DETOUR = 5.0, 10.0
SMALLEST_START = 1e-3  # squared distance, over the mean, from which on slacks start at the width of the band


@dataclass(eq=False, repr=False, kw_only=True)
class UnfoldResult(Result):
    """A centred kernel that keeps the distances between neighbours, with its certificate (:func:`unfold`).

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    factor : ndarray, shape (n, r)
        ``K = factor factor'``; columns are the principal axes of K, the longest first.
    dual, values, violation : ndarray, shape (c,)
        Dual weight, value and relative violation of each of the :attr:`constraints`.
    pairs : ndarray of int, shape (m, 2)
        Pairs of neighbours, with the smaller number first.
    sq_distances : ndarray, shape (m,)
        Their squared distances in the data.
    prior_scale : float
        The prior is this number times the projection onto the vectors whose entries sum to 0; 0 for the objective "variance".
    rtol : float
        Relative accuracy to which squared distances are kept.
    n_components : int
        Dimensions of :attr:`embedding`.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import unfold
    >>> angle = np.linspace(0.0, 3.0, 12)
    >>> arc = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> result = unfold(arc, n_neighbors=2, n_components=1, objective="variance")
    >>> steps = np.abs(np.diff(result.embedding[:, 0]))
    >>> print(result.status, bool(steps.std() < 0.01 * steps.mean()))
    OPTIMAL True
    """

    factor: np.ndarray
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray
    pairs: np.ndarray
    sq_distances: np.ndarray
    prior_scale: float
    rtol: float
    n_components: int

    _kind: ClassVar[Kind] = Kind("kernel")

    @property
    def embedding(self) -> np.ndarray:
        """Coordinates of the points on the first principal axes of the kernel, shape (n, n_components)."""
        return self.factor[:, : self.n_components]

    @property
    def spectrum(self) -> np.ndarray:
        """Eigenvalues of the kernel, descending, shape (r,): the variance along each axis times n."""
        return (self.factor * self.factor).sum(axis=0)

    @property
    def constraints(self) -> Constraints:
        """The constraints on the distances of neighbours: an equality, or an upper and a lower bound for each pair."""
        return distance_rows(self.pairs, self.sq_distances, self.rtol)

    def kernel(self) -> np.ndarray:
        """``K``, shape (n, n); its rows sum to 0."""
        return self.factor @ self.factor.T


@returns_result
def unfold(
    X: Table,
    *,
    n_neighbors: int = 6,
    n_components: int = 2,
    divergence: DivergenceName | SpectralDivergence = "logdet",
    objective: UnfoldObjective = "divergence",
    slack_weight: float = np.inf,
    rtol: float = RTOL,
    prior_scale: float | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> UnfoldResult:
    """Embed points of a curved surface so that the distances between neighbours are kept.

    ``minimize D(K, c (I - ee'/n))``, or maximise ``tr K``, over ``K >= 0`` with ``K e = 0`` and
    ``|K_ii + K_jj - 2 K_ij - d_ij^2| <= rtol d_ij^2`` for all neighbours i, j (Kulis 2009, section 6.3; Weinberger 2004). Use it with
    up to about 600 points for "variance" and 200 for "divergence". Isomap handles more points and proves nothing.

    Parameters
    ----------
    X : array-like, shape (n, d)
        Points.
    n_neighbors : int
        Number of nearest different points to which each point keeps its distance.
    n_components : int
        Dimensions of the embedding, 1 to n - 1.
    divergence : {"logdet", "vonneumann", "frobenius"} or object
        For the objective "divergence".
    objective : {"divergence", "variance"}
        "variance" is maximum variance unfolding, which concentrates the variance in few dimensions. LogDet spreads it over all
        dimensions that the distances allow.
    slack_weight : float
        Weight gamma of a distance that is not kept, positive; inf makes all distances hard. Noisy points need a finite weight, because
        exact distances between noisy neighbours prevent unfolding. "divergence" uses the divergence's own slack, "variance" the squared
        hinge, in units of the mean squared distance between neighbours times n^2.
    rtol : float
        Relative accuracy to which squared distances are kept, at least 0. With 0, points on a flat surface have only singular feasible
        kernels, whose dual weights are not finite; with a positive value there are definite ones.
    prior_scale : float, optional
        c, in the units of squared distances; a larger value unfolds more. By default n^2 times the mean squared distance between
        neighbours, which exceeds the largest eigenvalue of an unfolded surface. Not used for "variance".
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on steps.
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    UnfoldResult
        With embedding, kernel(), spectrum, status, gap and dual_bound. For "variance", ``objective`` is ``-tr K``.

    Raises
    ------
    ValueError
        If the neighbourhood graph is not connected.

    Warns
    -----
    UserWarning
        If edges of the graph look like short cuts between layers of a folded surface.

    Notes
    -----
    Points that are repeated, up to rounding, are joined: they have the same row of the factor. ``K = N M N'`` with an orthonormal basis
    N of the vectors that are the same at joined points and whose entries sum to 0, so that no constraint is needed to centre K. Each of
    the 20 to 50 steps costs about ``40 n^3 + c^2 (c + 6 n) / 3`` operations for c constraints, two for each pair of neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import unfold
    >>> plane = np.random.default_rng(0).normal(size=(20, 2)) @ [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]]
    >>> result = unfold(plane, n_neighbors=6)
    >>> print(result.status, bool(result.spectrum[:2].sum() > 0.99 * result.spectrum.sum()))
    OPTIMAL True
    """
    clock = time.perf_counter()
    points: np.ndarray = as_matrix("X", X)
    n = len(points)
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "max_seconds": max_seconds, "callback": callback}
    check_limits(**limits)
    as_choice("objective", objective, get_args(UnfoldObjective))
    for name, value in (("n_neighbors", n_neighbors), ("n_components", n_components)):
        check_integer(name, value, 1, optional=False)
    check_positive("slack_weight", slack_weight)
    check_positive("rtol", rtol, finite=True, zero=True)
    first, group = distinct_points(points)
    for name, value in (("n_neighbors", n_neighbors), ("n_components", n_components)):
        if value >= len(first):
            kind = "points" if len(first) == n else "different points"
            raise ValueError(f"{name} must be below the number of {kind}, {len(first)}; got {value}.")
    pairs, sq = neighbour_pairs(points[first], n_neighbors)
    _warn_of_short_cuts(points[first], first, n_neighbors, pairs, sq)
    pairs = first[pairs]
    rows, N = distance_rows(pairs, sq, rtol), centred_basis(group)
    largest = float(n**2 * sq.mean())  # exceeds the largest eigenvalue of an unfolded surface
    scale = 0.0
    if objective == "variance":
        r = N.shape[1]
        program = SemidefiniteProgram.build(-np.eye(r), bind(rows, N), rows, slack_weight * largest)
        start = rtol * np.tile(np.maximum(sq, SMALLEST_START * sq.mean()), 2) if rtol > 0 else None
        log = RunLog(callback, max_seconds, clock=clock)
        run = solve(program, LogDetPath(), tol=tol, max_iter=max_iter, start=start, log=log)
        result: MatrixResult = program.rows.result(SemidefiniteResult, run, Coordinates(N, np.ones(r)))
    else:
        scale = largest if prior_scale is None else prior_scale
        check_positive("prior_scale", scale, finite=True)
        # if narrow bands around the distances have definite kernels only near the boundary, the interior point is the fastest solver
        solver: SolverName = "interior_point" if np.isinf(slack_weight) and rtol > 0 else "auto"
        result = nearest_kernel(
            Factor(np.sqrt(scale) * N), rows, divergence=divergence, slack_weight=slack_weight, solver=solver, **limits
        )
    G = result.factor
    G = G @ np.linalg.eigh(G.T @ G)[1][:, ::-1]  # columns are orthogonal, the longest first
    return compose(
        UnfoldResult,
        result,
        seconds=time.perf_counter() - clock,
        factor=G,
        pairs=pairs,
        sq_distances=sq,
        prior_scale=float(scale),
        rtol=float(rtol),
        n_components=int(n_components),
    )


def distance_rows(pairs: np.ndarray, sq: np.ndarray, rtol: float) -> Constraints:
    """Squared distances of pairs (m, 2), kept to a relative accuracy: upper bounds, then lower bounds; or equalities for 0."""
    i, j = pairs.T
    if rtol == 0:
        return Constraints.sq_distance(i, j, sq, "==")
    upper = Constraints.sq_distance(i, j, sq * (1.0 + rtol), "<=")
    return upper + Constraints.sq_distance(i, j, sq * (1.0 - rtol), ">=")


def distinct_points(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending numbers of points that stand for all, and for each point the place of its representative among them."""
    near = pdist(X) <= REPEATED * np.sqrt(float(((X - X.mean(axis=0)) ** 2).sum()) / len(X))
    label = scipy.sparse.csgraph.connected_components(squareform(near), directed=False)[1]
    return np.unique(np.unique(label, return_index=True)[1][label], return_inverse=True)


def neighbour_pairs(X: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i < j, shape (c, 2), of which one point is among the nearest of the other, and their squared distances (c,).

    Raises
    ------
    ValueError
        If the graph is not connected: distances between its parts could be anything.
    """
    from sklearn.neighbors import kneighbors_graph  # loads on first use, which keeps `import bregmat` quick

    graph = kneighbors_graph(X, n_neighbors)
    pairs = np.argwhere(scipy.sparse.triu(graph + graph.T, 1).toarray() > 0)
    difference = X[pairs[:, 0]] - X[pairs[:, 1]]
    sq = np.einsum("ij,ij->i", difference, difference)
    edges = scipy.sparse.csr_array((np.ones(len(pairs)), pairs.T.astype(np.int32)), shape=(len(X), len(X)))
    parts, part = scipy.sparse.csgraph.connected_components(edges, directed=False)
    if parts > 1:
        sizes = np.sort(np.bincount(part))[::-1]
        raise ValueError(
            f"the graph of {n_neighbors} neighbours has {parts} separate parts, of {', '.join(map(str, sizes[:5]))} points"
            f"{', ...' if parts > 5 else ''}: the distance between them is open. Raise n_neighbors, or unfold the parts one by one."
        )
    return pairs, sq


def _warn_of_short_cuts(X: np.ndarray, names: np.ndarray, n_neighbors: int, pairs: np.ndarray, sq: np.ndarray) -> None:
    """Warn of pairs, with squared distances sq, that may join layers of a folded surface.

    Their points are far apart along the edges of the graph of half as many neighbours. ``names`` are their numbers in the message.
    """
    from sklearn.neighbors import kneighbors_graph

    lengths, n = np.sqrt(sq), len(X)
    every = scipy.sparse.csr_array((np.maximum(lengths, TINY), tuple(pairs.T.astype(np.int32))), shape=(n, n))
    nearest = kneighbors_graph(X, min(n_neighbors, max(3, n_neighbors // 2)), mode="distance")
    tree = scipy.sparse.csgraph.minimum_spanning_tree(every)  # makes the graph connected
    around = scipy.sparse.csgraph.dijkstra(nearest.maximum(nearest.T).maximum(tree), directed=False)[tuple(pairs.T)]
    ratio = np.where(around > TYPICAL_DETOUR * float(np.median(lengths)), around / np.maximum(lengths, TINY), 0.0)
    if (ratio > DETOUR).any():
        i, j = names[pairs[np.argmax(ratio)]]
        warnings.warn(
            f"{int((ratio > DETOUR).sum())} edges of the neighbourhood graph look like short cuts between layers: points {i} and {j} are "
            f"{ratio.max():.0f} times as far apart along edges of fewer neighbours. Lower n_neighbors, or take more points.",
            UserWarning,
            stacklevel=5,
        )


def centred_basis(group: np.ndarray) -> np.ndarray:
    """Orthonormal basis (n, u - 1) of the vectors that are constant on each of the u groups and whose entries sum to 0.

    A reflection maps the roots of the sizes of the groups to the first axis. Its other axes are the basis, spread over the groups.
    """
    size = np.bincount(group)
    v = np.sqrt(size / len(group))
    v[0] += 1.0
    H = np.eye(len(v))[:, 1:] - np.outer(v, v[1:] / v[0])
    return (H / np.sqrt(size)[:, None])[group]
