"""Verification of semidefinite programs and unfoldings: objective, violation, dual bound, infeasible and unbounded programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.applications.semidefinite.program import SemidefiniteResult
from bregmat.applications.unfolding import RTOL, UnfoldResult, distance_rows
from bregmat.base.checks import as_column, as_matrix
from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS, REPEATED, TINY
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates, Factor, Factored
from bregmat.engine.loop import compose
from bregmat.engine.status import Status
from bregmat.verification.extended import arithmetic, eigenvalues, numbers, precision_text, unit_of
from bregmat.verification.figures import (
    EXACT,
    Verification,
    allowance,
    check_arguments,
    check_dual,
    excess_of,
    recompute,
    with_right_signs,
)
from bregmat.verification.written_rows import WrittenRows

SIZE = 1e-3  # the unit of the gap is at least this times ``|C| max |b_i| / |A_i|``
SLACK = 64.0  # rounding errors up to which eigenvalues of ``C + A*(mu)`` may be negative, in units of its columns
LEVEL = 64.0  # rounding errors up to which a row counts as constant along a direction
FALLING = 1e-9  # the objective must decrease along a direction by this fraction of its absolute terms


@recompute.register
def _(result: SemidefiniteResult, problem: Any, report: Verification) -> None:
    known = {"C", "constraints", "slack_weight"}
    check_arguments(problem, "the arguments C and constraints of semidefinite_program", "C constraints", known=known)
    C, rows = as_matrix("C", problem["C"], symmetric=True, sparse="dense"), problem["constraints"]
    check_dual(result, rows)
    G = np.asarray(result.factor)
    if len(G) != len(C):
        raise ValueError(f"the result has {len(G)} rows; C has {len(C)}.")
    program = _Program(C, rows, problem.get("slack_weight", np.inf), np.eye(len(C)))
    report.compare_span(program.gamma)
    if result.singular is not None:
        report.problem("no divergence is infinite at singular matrices here, and singular names constraints")
    program.report(result, G, report)


class _Program:
    """``minimize tr(C X) + losses`` over ``X = P M P'`` with M semidefinite, for a basis P."""

    def __init__(self, C: np.ndarray, constraints: Constraints, slack_weight: Any, P: np.ndarray) -> None:
        c, r = constraints.n_constraints, P.shape[1]
        self.real = arithmetic(60.0 * r**3 + 4.0 * c * r**2)
        self.constraints, self.P, self.C = constraints, P.astype(self.real), C.astype(self.real)
        self.rows = WrittenRows(constraints, self.P, None, None)
        gamma = as_column("slack_weight", slack_weight, c, per="constraint", scalar=True, infinite=True, positive=True)
        self.gamma = gamma * constraints.weight
        self.hard, self.unit = np.isinf(self.gamma), self.rows.units(np.ones(r), 1.0)

    def report(self, result: Any, G: np.ndarray, report: Verification) -> None:
        """Compare all figures of a result whose matrix is ``G G'``."""
        report.precision = precision_text(self.real)
        mu, b, sense = np.asarray(result.dual, dtype=float), self.constraints.bound, self.constraints.sense
        if not np.isfinite(mu).all():
            report.problem("the dual weights are not finite", Status.UNKNOWN)
            return
        mu = with_right_signs(mu, sense, report)
        if report.claimed is not Status.UNBOUNDED and getattr(result, "ray", None) is not None:
            report.problem(f"{report.claimed} beside a direction in which the objective has no bound")
        if report.claimed is Status.INFEASIBLE:
            self.rows.check_contradiction(mu, self.hard, result.conflict, report)
            return
        if not np.isfinite(G).all():
            report.problem("the matrix is not finite", Status.UNKNOWN)
            return
        G = G.astype(self.real)
        p, noise = self.rows.values(G[self.rows.touched])
        excess = excess_of(p - b, sense)
        report.compare_rows(p, excess, self.unit, noise, self.hard)
        missed = excess > allowance(noise, self.unit)
        own = self.rows.values(G[self.rows.touched], eps=unit_of(self.real))[1]
        is_feasible = not (self.hard & (missed | self.rows.is_uncertain(p, own, self.unit))).any()
        if report.claimed is Status.UNBOUNDED:
            self.report_unbounded(result, is_feasible, report)
            return
        X = G @ G.T
        # soft rows cost gamma / 2 (excess / unit)^2
        q, gamma = (np.where(self.hard, 0, x) for x in (excess / self.unit, self.gamma))
        loss = (gamma * q * q).sum() / 2
        objective, terms = float((self.C * X).sum() + loss), float((np.abs(self.C) * np.abs(X)).sum() + loss)
        size = max(abs(objective), self.natural_size())
        is_feasible &= EPS * terms <= CANCELLED * size  # an objective made of rounding is none
        rounding = min(EPS * len(X) * terms, CANCELLED * size) + HALF_DIGITS * size
        bound, lost = self.dual_bound(mu)
        gap = (objective + float(np.abs(mu) @ np.where(self.hard, excess, 0)) - bound) / size
        if is_feasible or np.isfinite(result.objective):
            report.compare("objective", objective, rounding)
        report.bound_from_below("dual_bound", bound, HALF_DIGITS * size, lost, size)
        report.compare("unit", size, EXACT * size)
        report.judge(gap - lost / size if is_feasible and np.isfinite(bound) else np.inf, is_feasible)

    def natural_size(self) -> float:
        """``SIZE |C| max |b_i| / |A_i|``, or 1 if it is 0; ``|A_i|`` is the sum of the norms of the terms of row i."""
        norms = np.zeros(self.constraints.n_constraints, dtype=self.real)
        np.add.at(norms, self.rows.owner, np.abs(self.rows.coef) * (self.rows.V * self.rows.V).sum(axis=1))
        for row, (A, _) in self.rows.matrices.items():
            norms[row] = np.sqrt((A * A).sum())
        reach = (np.abs(self.constraints.bound) / np.where(norms > 0, norms, np.inf)).max()
        C = self.P.T @ self.C @ self.P
        return float(SIZE * np.sqrt((C * C).sum()) * reach) or 1.0

    def dual_bound(self, mu: np.ndarray) -> tuple[float, float]:
        """The bound ``-b . mu - sum mu^2 unit^2 / (2 gamma)`` of weights with the right signs, and its rounding."""
        C = self.P.T @ self.C @ self.P
        S, N = C + self.rows.adjoint(mu), self.rows.adjoint(mu, absolute=True)
        # The terms have size 1 in every column, so the rounding error is the same in all.
        s = np.abs(C).sum(axis=1) + np.abs(N).sum(axis=1)
        scale = 1 / np.sqrt(np.where(s > 0, s, 1))
        S, rounding = scale[:, None] * S * scale, SLACK * np.sqrt(1 + np.count_nonzero(mu)) * len(S) * EPS
        if not float(eigenvalues((S + S.T) / 2)[0]) >= -rounding:
            return -np.inf, 0.0
        m, b = mu.astype(self.real), self.constraints.bound.astype(self.real)
        soft = (m * self.unit) ** 2 / (2.0 * self.gamma)  # 0 for hard rows, whose gamma is infinite
        return -float((m * b + soft).sum()), 16.0 * EPS * float((np.abs(m * b) + soft).sum())

    def report_unbounded(self, result: Any, is_feasible: bool, report: Verification) -> None:
        """Check that the matrix is feasible, and that the objective decreases along the ray while no violation increases."""
        ray = result.ray
        if not is_feasible:
            report.problem("no matrix is given that meets the constraints", Status.UNKNOWN)
        if ray is None or np.shape(ray)[:1] != (len(self.C),) or not np.isfinite(ray).all() or not np.any(ray):
            report.problem("no direction is given in which the objective has no bound", Status.UNKNOWN)
            return
        G = np.asarray(ray).astype(self.real)
        p, noise = self.rows.values(G[self.rows.touched])
        if (excess_of(p, self.constraints.sense) > LEVEL * noise).any():
            report.problem("constraints get worse along the direction", Status.UNKNOWN)
        X = G @ G.T
        if not float((self.C * X).sum()) < -FALLING * float((np.abs(self.C) * np.abs(X)).sum()):
            report.problem("the objective does not fall along the direction", Status.UNKNOWN)


# -------------------------------------------------------------------- unfolding
@recompute.register
def _(result: UnfoldResult, problem: Any, report: Verification) -> None:
    known = {"X", "n_neighbors", "n_components", "divergence", "objective", "slack_weight", "rtol", "prior_scale"}
    check_arguments(problem, "the arguments of unfold", "X", known=known)
    X, defaults = numbers(problem["X"]), {"n_neighbors": 6, "n_components": 2, "rtol": RTOL}
    settings: dict[str, Any] = defaults | dict(problem)
    n = len(X)
    if len(result.factor) != n:
        raise ValueError(f"the result has {len(result.factor)} points; X has {n}.")
    first, group = _joined(X)
    is_known = np.isin(result.pairs, first).all()
    if not is_known or not _are_neighbours(X[first], np.searchsorted(first, result.pairs), settings["n_neighbors"]):
        report.problem("the pairs are not those of nearest neighbours", Status.UNKNOWN)
        return
    difference = X[result.pairs[:, 0]].astype(np.longdouble) - X[result.pairs[:, 1]]
    sq = (difference * difference).sum(axis=1).astype(float)
    report.compare_all("sq_distances", sq, 1e-12 * float(sq.max(initial=0.0)))
    report.compare("rtol", settings["rtol"], 0.0)
    report.compare("n_components", settings["n_components"], 0.0)
    G = np.asarray(result.factor, dtype=float)
    lengths = (G * G).sum(axis=0)
    if not np.abs(G - G[first][group]).max() <= HALF_DIGITS * np.sqrt(lengths.max(initial=0.0)):
        report.problem("repeated points have different places", Status.UNKNOWN)
    off = np.abs(G.T @ G - np.diag(lengths)).max(initial=0.0)
    if (
        not off <= HALF_DIGITS * lengths.max(initial=0.0)
        or (np.diff(lengths) > HALF_DIGITS * lengths.max(initial=0.0)).any()
    ):
        report.problem("the columns of the factor are not the principal axes of the kernel", Status.UNKNOWN)
    if not np.abs(G.sum(axis=0)).max() <= HALF_DIGITS * np.sqrt(n * lengths.max(initial=0.0)):
        report.problem("the kernel is not centred", Status.UNKNOWN)
    if report.problems:
        return
    rows = distance_rows(result.pairs, result.sq_distances, result.rtol)
    unit = float(result.sq_distances.mean()) * n**2
    # an orthonormal basis of the vectors that are constant on groups of repeated points and sum to 0
    root = np.sqrt(np.bincount(group))
    N = (np.linalg.svd(np.eye(len(root)) - np.outer(root, root) / n)[0][:, :-1] / root[:, None])[group]
    weight = settings.get("slack_weight", np.inf)
    if settings.get("objective", "divergence") == "variance":
        report.compare("prior_scale", 0.0, 0.0)
        _Program(-np.eye(n), rows, weight * unit, N).report(result, G, report)
        return
    scale = settings.get("prior_scale") or unit
    report.compare("prior_scale", scale, 1e-12 * scale)
    G0 = np.sqrt(scale) * N
    point = {"iterate": Factored(N.T @ G / np.sqrt(scale), 0.0), "coordinates": Coordinates(G0, np.ones(N.shape[1]))}
    inner = compose(MatrixResult, result, **point)
    arguments = {"prior": Factor(G0), "constraints": rows, "slack_weight": weight}
    report.result = inner
    recompute(inner, arguments | {"divergence": settings.get("divergence", "logdet")}, report)
    report.result = result


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
