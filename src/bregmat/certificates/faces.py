"""Facial reduction: hard rows that only singular matrices meet, and the face of the cone that they leave.

Weights y with ``A*(y)`` positive semidefinite and ``y . b = 0`` force ``<A*(y), M> = 0``. Then every M that meets the rows vanishes on
the range of ``A*(y)``, and the problem has no finite Lagrange multipliers. Two kinds of such weights are found: positive
semidefinite rows with bound 0 (must-links), and cliques of points whose mutual distances are all given and fit into fewer
dimensions than there are points less one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.linalg import eigh
from bregmat.base.threads import on_one_blas_thread
from bregmat.base.tolerances import RANK_TOL, TINY
from bregmat.certificates.problem import MatrixCertificate, NearestMatrix, dual_bound
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.elimination import Elimination, eliminate
from bregmat.coordinates.priors import Coordinates
from bregmat.engine.status import Status
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.linear_maps import Operator, svec, weighted_by

ROUNDED = 1e-14  # relative violation of rows that are met up to rounding
GONE = 1e-12  # norm of A*(y) of a clique, relative to its terms, below which the range of the prior excludes it already
FIT_FLOPS = 3e8  # operations of a least-squares fit of multipliers up to which it is made: a few tenths of a second
FLAT = 1e-12  # eigenvalue of the Gram matrix of a clique, relative to the largest, that counts as 0


Cliques = list[tuple[np.ndarray, np.ndarray]]  # the rows of each clique, and their weights


def hard_faces(constraints: Constraints, hard: np.ndarray) -> tuple[np.ndarray, Cliques]:
    """What forces matrices that meet the hard rows (a mask) to be singular: numbers of must-link rows, and cliques.

    A must-link row forces a positive semidefinite form between samples to 0, such as a squared distance of 0.
    """
    zero = hard & (constraints.bound == 0) & (constraints.sense >= 0) & ~constraints.is_whole
    if zero.any():
        zero &= constraints.psd_rows()
    return np.flatnonzero(zero), clique_weights(constraints, hard)


def clique_weights(constraints: Constraints, hard: np.ndarray) -> Cliques:
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
    weights = []
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
            weights.append((own, -outer[k, l]))
    return weights


def exposed(operator: Operator, cliques: Cliques) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, weights y and ``A*(y)`` of norm 1 (r, r) of the cliques that force directions to vanish in these coordinates."""
    for rows, y in cliques:
        some = operator.restrict(rows)
        A = some.adjoint(y)
        size = float(np.linalg.norm(A))
        if size > GONE * float(np.abs(y) @ some.norms()):
            yield rows, y / size, A / size


def _cliques(neighbours: dict[int, dict[int, int]]) -> list[list[int]]:
    """One maximal clique of at least three points from every point, found greedily; none is inside another."""
    cliques: list[set[int]] = []
    for start in sorted(neighbours, key=lambda k: -len(neighbours[k])):
        clique = [start]
        for other in sorted(neighbours[start], key=lambda k: -len(neighbours[k].keys() & neighbours[start].keys())):
            if all(other in neighbours[k] for k in clique):
                clique.append(other)
        if len(clique) > 2 and not any(known.issuperset(clique) for known in cliques):
            cliques.append(set(clique))
    return [sorted(clique) for clique in cliques]


# ---------------------------------------------------------------------- the problem that is solved
@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """Problem (P) as it was asked for, and the problem that is solved in its place.

    They differ only if hard rows force M to be singular and the divergence allows that: the smaller problem has the directions
    that are left. On these, the Lagrange multipliers of the other rows are finite.

    Attributes
    ----------
    whole, problem : NearestMatrix
        As asked for, and as solved.
    coordinates : Coordinates
        Of ``problem``.
    elimination : Elimination or None
        How ``problem`` came from ``whole``; None if they are the same.
    """

    whole: NearestMatrix
    problem: NearestMatrix
    coordinates: Coordinates
    elimination: Elimination | None = None

    @on_one_blas_thread
    def certificate(self, inner: MatrixCertificate, tol: float) -> MatrixCertificate:
        """The certificate for all rows, from one of the problem that was solved.

        If that leaves a gap, rows are restored to rounding accuracy, and multipliers are fitted to the restored matrix.
        """
        certificate = self._with_eliminated_rows(inner)
        n, m = len(fitted_rows(self.problem, inner)), self.problem.r * (self.problem.r + 1) // 2
        is_fitted = 0 < n * m * min(n, m) <= FIT_FLOPS
        if certificate.status(tol) is not Status.FEASIBLE or not (is_fitted or self.elimination is not None):
            return certificate
        # large multipliers amplify constraint violations
        exact = self.problem.certify(inner, allowed=ROUNDED)
        certificate = certificate.joined(self._with_eliminated_rows(exact))
        if certificate.status(tol) is not Status.FEASIBLE or not is_fitted:
            return certificate
        bound, dual = dual_bound(self.problem, fitted_multipliers(self.problem, exact))
        return certificate.joined(self._with_eliminated_rows(exact.with_dual(dual, bound)))

    def _with_eliminated_rows(self, inner: MatrixCertificate) -> MatrixCertificate:
        """The certificate with finite multipliers for the eliminated rows, which are infinite in theory.

        With larger multipliers, the bound is closer to that of the smaller problem, but rounding of the bound and of the violations costs
        more. Therefore several sizes are tried, and the certificate with the smallest gap is returned.
        """
        if self.elimination is None:
            return inner
        whole, weights = self.whole, self.elimination.weights
        own = inner.dual.copy()
        own[self.elimination.met] = 0.0  # rows that are met have another bound and sense in the smaller problem
        size = max(1.0, float(np.abs(whole.operator.adjoint(own)).max()))
        tried = []
        for factor in 10.0 ** np.arange(3.0, 12.0, 0.25):
            bound, dual = dual_bound(whole, own + factor * size * weights)
            tried.append(inner.with_dual(dual, min(bound, inner.dual_bound)))
        return max(tried, key=lambda one: one.dual_bound - (one.upper if one.is_feasible else 0.0))


def fitted_rows(problem: NearestMatrix, certificate: MatrixCertificate) -> np.ndarray:
    """Numbers of the hard rows that hold with equality: equalities, and inequalities with a multiplier."""
    L = problem.losses
    return np.flatnonzero(L.hard & ((L.sense == 0) | (certificate.dual != 0)))


def fitted_multipliers(problem: NearestMatrix, certificate: MatrixCertificate) -> np.ndarray:
    """Multipliers with ``T0 - A*(mu) = phi'(M)`` at the matrix M of a certificate, by least squares in the local metric of M.

    Solvers use the normal equations of this problem, which nearly equal points make singular to working precision. Soft rows
    keep their multipliers.
    """
    L, iterate, rows = problem.losses, certificate.iterate, fitted_rows(problem, certificate)
    mu = certificate.dual.copy()
    mu[rows] = 0.0
    frame = problem.operator.congruence(iterate.F)
    Phi = frame.restrict(rows).features(iterate.S)
    size = np.linalg.norm(Phi, axis=1)
    unit = np.where(size > 0, 1.0 / np.maximum(size, TINY), 0.0)
    table = (Phi * unit[:, None]).T
    # each fit gains the digits that the one before has left, without the rows whose sign was wrong there
    for _ in range(3):
        left = -svec(weighted_by(iterate.S, iterate.residual(frame.adjoint(mu))))
        if not (np.isfinite(left).all() and np.isfinite(table).all()):
            break
        mu[rows] += unit * np.linalg.lstsq(table, left, rcond=RANK_TOL)[0]
        mu = problem.clip_dual(mu)
        table[:, (L.sense[rows] != 0) & (mu[rows] == 0)] = 0.0
    return mu


def reduced_problem(
    whole: NearestMatrix, place: Coordinates, constraints: Constraints, linked: np.ndarray, cliques: Cliques
) -> ReducedProblem:
    """The problem without the directions in which hard rows force M to be 0.

    Parameters
    ----------
    whole : NearestMatrix
        Of a divergence that allows singular matrices.
    place : Coordinates
        Of the columns of the data, not of a span.
    constraints : Constraints
        In row numbers of the points.
    linked, cliques
        As from :func:`hard_faces`.
    """
    exposing = list(exposed(whole.operator, cliques))
    # rows that hold if their value is 0: b >= 0 for "<=", b <= 0 for ">=", b = 0 for "=="
    holds = constraints.sense * constraints.bound >= np.where(constraints.sense == 0, np.abs(constraints.bound), 0.0)
    if len(linked):
        whole = replace(whole, linked=linked)
    elimination = None
    if len(linked) or exposing:
        elimination = eliminate(place, whole.operator, linked, whole.divergence, holds, exposing)
    if elimination is None:
        return ReducedProblem(whole, whole, place)
    # rows that are 0 in the directions that are left get a bound that never binds
    L = whole.losses
    bound, sense = L.bound.copy(), L.sense.copy()
    bound[elimination.met], sense[elimination.met] = 1.0, 1
    problem = replace(
        whole,
        t0=elimination.coordinates.t0,
        operator=elimination.operator,
        losses=RowLosses(bound, sense, L.gamma, L.scale, L.kinds, L.kind),
        offset=elimination.offset,
        linked=None,
        errors=None if whole.errors is None else whole.errors._replace(mapped=None),
    )
    return ReducedProblem(whole, problem, elimination.coordinates, elimination)


def singular_rows_of(problem: NearestMatrix, constraints: Constraints) -> np.ndarray | None:
    """Ascending numbers of the hard rows that, up to rounding, only singular matrices meet; None if there are none."""
    faces = list(exposed(problem.operator, clique_weights(constraints, problem.losses.hard)))
    return np.unique(np.concatenate([rows for rows, _, _ in faces])) if faces else None
