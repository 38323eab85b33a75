"""Elimination of directions in which hard rows force M to vanish; their Lagrange multipliers would grow without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.linalg import eigh
from bregmat.base.tolerances import IDENTICAL, RANK_TOL, VANISHING
from bregmat.coordinates.priors import Coordinates
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.linear_maps import Operator


@dataclass(frozen=True, eq=False)
class Elimination:
    """Coordinates without the eliminated directions, the operator in them, and the change of the objective."""

    coordinates: Coordinates
    operator: Operator
    offset: float
    met: np.ndarray  # rows that hold by construction
    # (c,): A*(weights) is semidefinite, 0 on the directions that are left, and about 1 on the others
    weights: np.ndarray


def eliminate(
    coordinates: Coordinates,
    operator: Operator,
    rows: np.ndarray,
    divergence: SpectralDivergence,
    holds: np.ndarray,
    faces: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]] = (),
) -> Elimination | None:
    """Substitute ``M = N M' N'`` for rows ``v' M v <= 0``, where N is an orthonormal basis of all directions orthogonal to every v.

    ``T0' = N' T0 N`` is diagonalised again, and the divergence of M' differs from that of M by a constant. The ranges of
    semidefinite ``A*(y)`` with ``<A*(y), M> = 0`` are eliminated in the same way. The result is None if no direction is left, if no
    direction is eliminated, or if another row becomes 0 that does not hold there.

    Parameters
    ----------
    coordinates : Coordinates
    operator : Operator
        Of all rows, in these coordinates.
    rows : ndarray of int
        Rows whose value must be 0.
    divergence : Divergence
    holds : ndarray of bool, shape (c,)
        Whether a row holds if its value is 0.
    faces : sequence of (ndarray of int, ndarray, ndarray)
        Rows, their weights y, and ``A*(y)`` of norm 1 (r, r) (:func:`bregmat.certificates.faces.exposed`).
    """
    before = operator.norms()
    weights = np.zeros(operator.c)
    for own, y, _ in faces:
        weights[own] += y
    weights[rows] += 1.0 / np.where(before[rows] > 0, before[rows], np.inf)
    N = np.eye(operator.r)
    if faces:
        values, V = eigh(np.sum([A for _, _, A in faces], axis=0))
        N = V[:, values <= RANK_TOL * values[-1]]
    while N.shape[1]:  # vectors that are nearly parallel to others show after these are eliminated
        left = operator.restrict(rows).congruence(N)
        norms = left.norms()
        is_left = norms > IDENTICAL * before[rows]
        if not left.is_rank_one:  # the terms of a sum may cancel
            is_left &= left.exact_norms() > VANISHING * norms
        weight = np.where(is_left, 1.0 / np.where(norms > 0, norms, 1.0), 0.0)
        if not weight.any():
            break
        values, V = eigh(left.adjoint(weight))
        N = N @ V[:, values <= RANK_TOL * values[-1]]
    vanishing = operator.vanishing(N)
    vanishing[rows] = False
    if N.shape[1] in (0, operator.r) or (vanishing & ~holds).any():
        return None
    met = np.union1d(rows, np.flatnonzero(vanishing))
    t0, Q = eigh((N.T * coordinates.t0) @ N)
    N = N @ Q
    R = N if coordinates.R is None else coordinates.R @ N
    offset = divergence.constant(coordinates.t0) - divergence.constant(t0)
    offset += (operator.r - len(t0)) * divergence.phi_at_zero()
    moved = replace(coordinates, t0=t0, R=R, identity=False)
    return Elimination(moved, operator.congruence(N), offset, met, weights)
