"""Facial reduction: hard rows that only singular matrices meet, and the face of the cone that they leave.

Weights y with ``A*(y)`` positive semidefinite and ``y . b = 0`` force ``<A*(y), M> = 0``. Then every M that meets the rows vanishes on
the range of ``A*(y)``, and the problem has no finite Lagrange multipliers. Two kinds of such weights are found: positive
semidefinite rows with bound 0 (must-links), and cliques of points whose mutual distances are all given and fit into fewer
dimensions than there are points less one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from bregmat.base.linalg import eigh
from bregmat.constraints.constraints import Constraints
from bregmat.operators.linear_maps import Operator

GONE = 1e-12  # norm of A*(y) of a clique, relative to its terms, below which the range of the prior excludes it already
FLAT = 1e-12  # eigenvalue of the Gram matrix of a clique, relative to the largest, that counts as 0


def must_link_rows(constraints: Constraints, hard: np.ndarray) -> np.ndarray:
    """Numbers of the hard rows that force a positive semidefinite form between samples to 0, such as a squared distance of 0."""
    zero = hard & (constraints.bound == 0) & (constraints.sense >= 0) & ~constraints.where("is_whole")
    if zero.any():
        zero &= constraints.psd_rows()
    return np.flatnonzero(zero)


def clique_weights(constraints: Constraints, hard: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and weights of every clique of given distances that fits into fewer dimensions than it has points less one.

    The Gram matrix ``-J D J / 2`` of its centred points has null vectors u, and ``u u'`` is the sum of ``-u_i u_j`` times the rows (i, j).

    Parameters
    ----------
    constraints : Constraints
        In row numbers.
    hard : ndarray of bool, shape (c,)
    """
    if not hard.any():
        return []
    rows = np.flatnonzero(
        hard & (constraints.sense == 0) & (constraints.bound > 0) & constraints.where("is_sq_distance")
    )
    row_of: dict[int, dict[int, int]] = {}
    for row in rows:
        i, j = (int(k) for k in constraints.index[row, :2])
        row_of.setdefault(i, {})[j] = row_of.setdefault(j, {})[i] = int(row)
    found = []
    for clique in _cliques(row_of):
        k, l = np.triu_indices(len(clique), 1)
        own = np.array([row_of[clique[a]][clique[b]] for a, b in zip(k, l, strict=True)])
        D = np.zeros((len(clique), len(clique)))
        D[k, l] = D[l, k] = constraints.bound[own]
        J = np.eye(len(clique)) - 1.0 / len(clique)
        values, U = eigh(D.max() / len(clique) - 0.5 * J @ D @ J)  # shifts the constant vector away from 0
        flat = np.abs(values) <= FLAT * values[-1]
        if flat.any() and values[0] >= -FLAT * values[-1]:
            outer = U[:, flat] @ U[:, flat].T
            found.append((own, -outer[k, l]))
    return found


def exposed(
    operator: Operator, cliques: Iterable[tuple[np.ndarray, np.ndarray]]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, weights y and ``A*(y)`` of norm 1 (r, r) of the cliques that force directions to vanish in these coordinates."""
    for rows, y in cliques:
        some = operator.restrict(rows)
        A = some.adjoint(y)
        size = float(np.linalg.norm(A))
        if size > GONE * float(np.abs(y) @ some.norms()):
            yield rows, y / size, A / size


def _cliques(neighbours: dict[int, dict[int, int]]) -> list[list[int]]:
    """One maximal clique of at least three points from every point, found greedily; none is inside another."""
    found: list[set[int]] = []
    for start in sorted(neighbours, key=lambda k: -len(neighbours[k])):
        clique = [start]
        for other in sorted(neighbours[start], key=lambda k: -len(neighbours[k].keys() & neighbours[start].keys())):
            if all(other in neighbours[k] for k in clique):
                clique.append(other)
        if len(clique) > 2 and not any(known.issuperset(clique) for known in found):
            found.append(set(clique))
    return [sorted(clique) for clique in found]
