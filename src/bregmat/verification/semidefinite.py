"""Verification of semidefinite programs and unfoldings: objective, violation, dual bound, infeasible and unbounded programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.semidefinite.program import SemidefiniteResult
from bregmat.applications.unfolding import RTOL, UnfoldResult, distance_rows
from bregmat.base.checks import as_matrix
from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS, REPEATED, TINY
from bregmat.certificates.result import MatrixResult
from bregmat.coordinates.priors import Coordinates, Factor, Factored
from bregmat.engine.loop import compose
from bregmat.engine.status import Status
from bregmat.objective.losses import SquaredHinge
from bregmat.verification.extended import LONG, arithmetic, eigenvalues, numbers, unit_of
from bregmat.verification.matrices import MatrixRowVerifier, MatrixVerifier
from bregmat.verification.report import Verification
from bregmat.verification.verifier import Verifier, excess_of
from bregmat.verification.written_rows import WrittenRows

SIZE = 1e-3  # the unit of the gap is at least this times ``|C| max |b_i| / |A_i|``
SLACK = 64.0  # rounding errors up to which eigenvalues of ``C + A*(mu)`` may be negative, in units of its columns
LEVEL = 64.0  # rounding errors up to which a row counts as constant along a direction
FALLING = 1e-9  # the objective must decrease along a direction by this fraction of its absolute terms


class SemidefiniteVerifier(MatrixRowVerifier):
    """``minimize tr(C X) + losses`` over ``X = P M P'`` with M semidefinite, for a basis P (by default, the identity)."""

    kind = SemidefiniteResult
    wanted, required = "the arguments C and constraints of semidefinite_program", "C constraints"
    optional = "slack_weight"

    def __init__(self, arguments: Mapping[str, Any], result: SemidefiniteResult, P: np.ndarray | None = None) -> None:
        super().__init__(arguments, result)
        C, constraints = as_matrix("C", arguments["C"], symmetric=True, sparse="dense"), arguments["constraints"]
        P = np.eye(len(C)) if P is None else P
        r = P.shape[1]
        self.real = arithmetic(60.0 * r**3 + 4.0 * constraints.n_constraints * r**2)
        self.C, self.claimed = C.astype(self.real), np.asarray(result.factor).astype(self.real)
        if len(self.claimed) != len(C):
            raise ValueError(f"the result has {len(self.claimed)} rows; C has {len(C)}.")
        self.P = P.astype(self.real)
        # soft rows cost gamma / 2 (excess / unit)^2
        self.bind(WrittenRows(constraints, self.P, None, None), (np.ones(r), 1.0), SquaredHinge())
        self.point_eps = unit_of(self.real)
        self.C_in_P = self.P.T @ self.C @ self.P

    def check_claims(self) -> bool:
        """Compare what only some results have."""
        if self.result.singular is not None:
            self.report.problem("no divergence is infinite at singular matrices here, and singular names constraints")
        if self.report.claimed is not Status.UNBOUNDED and self.result.ray is not None:
            self.report.problem(f"{self.report.claimed} beside a direction in which the objective has no bound")
        return super().check_claims()

    def check_point(self) -> bool:
        """Whether the matrix is finite."""
        return bool(np.isfinite(self.claimed).all()) or self.refuse("the matrix is not finite")

    def check_ray(self) -> None:
        """Check that the matrix is feasible, and that the objective decreases along the ray while no violation increases."""
        ray = self.result.ray
        if not self.check_point() or not self.check_rows():
            self.refuse("no matrix is given that meets the constraints")
        if ray is None or np.shape(ray)[:1] != (len(self.C),) or not np.isfinite(ray).all() or not np.any(ray):
            self.refuse("no direction is given in which the objective has no bound")
            return
        G = np.asarray(ray).astype(self.real)
        p, noise = self.rows.values(G[self.rows.touched])
        if (excess_of(p, self.sense) > LEVEL * noise).any():
            self.refuse("constraints get worse along the direction")
        fall, terms = self._linear(G)
        if not fall < -FALLING * terms:
            self.refuse("the objective does not fall along the direction")

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare objective and bound; an objective that is made of rounding is none."""
        (linear, terms), loss, mu = self._linear(self.claimed), self.losses.cost(self.p), self.mu
        objective, terms = linear + loss, terms + loss
        unit = max(abs(objective), self._natural_size())
        is_feasible &= EPS * terms <= CANCELLED * unit
        rounding = min(EPS * len(self.C) * terms + HALF_DIGITS * unit, CANCELLED * unit)
        bound, lost = self._bound(mu)
        above = float(np.abs(mu) @ np.where(self.hard, self.excess(self.p), 0))
        if not is_feasible and np.isfinite(self.result.objective):
            self.report.compare("objective", objective, rounding)
        how: dict[str, Any] = {"of_bound": HALF_DIGITS * unit, "lost": lost, "above": above}
        self.report.conclude((objective, bound, unit), rounding, is_feasible, **how)

    def _linear(self, G: np.ndarray) -> tuple[float, float]:
        """``tr(C G G')``, and the sum of its absolute terms."""
        X = G @ G.T
        return float((self.C * X).sum()), float((np.abs(self.C) * np.abs(X)).sum())

    def _natural_size(self) -> float:
        """``SIZE |C| max |b_i| / |A_i|``, or 1 if it is 0; ``|A_i|`` is the sum of the norms of the terms of row i."""
        rows, norms = self.rows, np.zeros(self.constraints.n_constraints, dtype=self.real)
        np.add.at(norms, rows.owner, np.abs(rows.coef) * (rows.V * rows.V).sum(axis=1))
        for row, (A, _) in rows.matrices.items():
            norms[row] = np.sqrt((A * A).sum())
        reach = (np.abs(self.constraints.bound) / np.where(norms > 0, norms, np.inf)).max()
        return float(SIZE * np.sqrt((self.C_in_P**2).sum()) * reach) or 1.0

    def _bound(self, mu: np.ndarray) -> tuple[float, float]:
        """The bound ``-sum loss_i^*(mu_i)`` of weights for which ``C + sum mu_i A_i`` is semidefinite, and its rounding."""
        S, N = self.C_in_P + self.rows.adjoint(mu), self.rows.adjoint(mu, absolute=True)
        # The terms have size 1 in every column, so the rounding error is the same in all.
        s = np.abs(self.C_in_P).sum(axis=1) + np.abs(N).sum(axis=1)
        scale = 1 / np.sqrt(np.where(s > 0, s, 1))
        S, rounding = scale[:, None] * S * scale, SLACK * np.sqrt(1 + np.count_nonzero(mu)) * len(S) * EPS
        if not float(eigenvalues((S + S.T) / 2)[0]) >= -rounding:
            return -np.inf, 0.0
        lost, terms = self.losses.conjugates(mu, self.real)
        return -lost, 16.0 * EPS * (terms + abs(lost))


# -------------------------------------------------------------------- unfolding
class UnfoldVerifier(Verifier):
    """A semidefinite program or a problem (P) over the centred kernels of points, whose rows are the distances between neighbours."""

    kind = UnfoldResult
    wanted, required = "the arguments of unfold", "X"
    optional = "n_neighbors n_components divergence objective slack_weight rtol prior_scale"

    def run(self, report: Verification) -> None:
        """Compare neighbours, distances and principal axes; the rest is verified as a result of the program or of (P)."""
        result, n, X = self.result, len(self.result.factor), numbers(self.arguments["X"])
        settings: dict[str, Any] = {"n_neighbors": 6, "n_components": 2, "rtol": RTOL} | dict(self.arguments)
        if n != len(X):
            raise ValueError(f"the result has {n} points; X has {len(X)}.")
        first, group = _joined(X)
        is_known = np.isin(result.pairs, first).all()
        if not is_known or not _are_neighbours(X[first], np.searchsorted(first, result.pairs), settings["n_neighbors"]):
            report.problem("the pairs are not those of nearest neighbours", Status.UNKNOWN)
            return
        difference = X[result.pairs[:, 0]].astype(LONG) - X[result.pairs[:, 1]]
        sq = (difference * difference).sum(axis=1).astype(float)
        report.compare("sq_distances", sq, 1e-12 * float(sq.max(initial=0.0)))
        report.compare("rtol", settings["rtol"], 0.0)
        report.compare("n_components", settings["n_components"], 0.0)
        _check_axes(np.asarray(result.factor, dtype=float), first, group, report)
        unit, weight = float(result.sq_distances.mean()) * n**2, settings.get("slack_weight", np.inf)
        is_variance = settings.get("objective", "divergence") == "variance"
        scale = 0.0 if is_variance else settings.get("prior_scale") or unit
        report.compare("prior_scale", scale, 1e-12 * scale)
        if report.problems:
            return
        rows = distance_rows(result.pairs, result.sq_distances, result.rtol)
        # an orthonormal basis of the vectors that are constant on groups of repeated points and sum to 0
        root = np.sqrt(np.bincount(group))
        N = (np.linalg.svd(np.eye(len(root)) - np.outer(root, root) / n)[0][:, :-1] / root[:, None])[group]
        inner: MatrixRowVerifier
        if is_variance:
            point = {"iterate": Factored(result.factor, 0.0), "coordinates": Coordinates(np.eye(n), np.ones(n))}
            program = {"C": -np.eye(n), "constraints": rows, "slack_weight": weight * unit}
            inner = SemidefiniteVerifier(program, compose(SemidefiniteResult, result, **point), N)
        else:
            G0, G = np.sqrt(scale) * N, N.T @ result.factor / np.sqrt(scale)
            point = {"iterate": Factored(G, 0.0), "coordinates": Coordinates(G0, np.ones(N.shape[1]))}
            problem = {"prior": Factor(G0), "constraints": rows, "slack_weight": weight}
            problem["divergence"] = settings.get("divergence", "logdet")
            inner = MatrixVerifier(problem, compose(MatrixResult, result, **point))
        report.result = inner.result
        inner.run(report)
        report.result = result


def _check_axes(G: np.ndarray, first: np.ndarray, group: np.ndarray, report: Verification) -> None:
    """Check that repeated points have one place, and that the columns of G are the principal axes of a centred kernel."""
    lengths = (G * G).sum(axis=0)
    longest = float(lengths.max(initial=0.0))
    if not np.abs(G - G[first][group]).max() <= HALF_DIGITS * np.sqrt(longest):
        report.problem("repeated points have different places", Status.UNKNOWN)
    off = np.abs(G.T @ G - np.diag(lengths)).max(initial=0.0)
    if not off <= HALF_DIGITS * longest or (np.diff(lengths) > HALF_DIGITS * longest).any():
        report.problem("the columns of the factor are not the principal axes of the kernel", Status.UNKNOWN)
    if not np.abs(G.sum(axis=0)).max() <= HALF_DIGITS * np.sqrt(len(G) * longest):
        report.problem("the kernel is not centred", Status.UNKNOWN)


def _joined(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each group of points that chains of distances which are rounding join, and the number of the group of each point."""
    near = np.array([((X - x) ** 2).sum(axis=1) for x in X]) <= (REPEATED**2) * ((X - X.mean(axis=0)) ** 2).sum() / len(
        X
    )
    group = np.arange(len(X))
    while (lowest := np.where(near, group, len(X)).min(axis=1)).tolist() != group.tolist():
        group = lowest
    return np.unique(group, return_inverse=True)


def _are_neighbours(X: np.ndarray, pairs: np.ndarray, k: int) -> bool:
    """Whether the pairs (m, 2) are those of points and their k nearest neighbours, up to ties."""
    pairs, n = np.asarray(pairs), len(X)
    if pairs.shape != (len(pairs), 2) or pairs.min() < 0 or pairs.max() >= n or (np.diff(pairs) <= 0).any():
        return False
    D = np.array([((X - x) ** 2).sum(axis=1) for x in X])
    np.fill_diagonal(D, np.inf)
    reach = np.maximum(np.sort(D, axis=1)[:, k - 1], TINY)
    share = D / reach[:, None]  # points at the distance `reach` up to rounding may be neighbours or not
    near, must = share <= 1.0 + 1e-9, share < 1.0 - 1e-9
    joined = np.zeros((n, n), bool)
    joined[tuple(pairs.T)] = joined[tuple(pairs.T)[::-1]] = True
    is_distinct = len(np.unique(pairs, axis=0)) == len(pairs)
    return bool(is_distinct and (joined <= (near | near.T)).all() and (must <= joined).all())
