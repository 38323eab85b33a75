"""Training by the multiplicative updates: the kernel as a difference of nonnegative matrices, the gap as stopping rule."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.kernels.sources import Subset
from bregmat.margin.certificate import MarginCertificate, Values, certify
from bregmat.margin.finish import nearest_points
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.splits import ClassBlocks, margin_split
from bregmat.result import ExitReason, Status

SEARCHED = (ExitReason.MAX_ITER, ExitReason.STALLED)  # ends of a run that has had its chance


def train_by_updates(
    problem: MarginProblem,
    settings: MultiplicativeUpdates,
    *,
    start: np.ndarray | None,
    tol: float,
    max_iter: int | None,
    max_seconds: float | None,
    callback: Callable[[Any], Any] | None,
) -> MarginResult:
    """Sha 2002, eq. 7 (hard margin) and its versions with bounds and a sum constraint, to a relative duality gap.

    The kernel over the samples that count is kept: 4 n^2 bytes where no entry is negative, else 16 n^2.
    """
    begun = time.perf_counter()
    rows = np.flatnonzero(problem.counts)
    y, ridge = problem.signs[rows], problem.ridge[rows]
    whole = np.arange(len(rows))
    part = MarginProblem(Subset(problem.kernel, rows), y, problem.upper[rows], ridge, problem.intercept)
    if problem.kernel.nonnegative:
        split: Any = ClassBlocks(part.kernel, y, ridge=ridge)
    else:
        split = margin_split(part.kernel.block(whole, whole), y, ridge=ridge)

    def proof_of(alpha: np.ndarray, slope: np.ndarray) -> tuple[MarginCertificate, np.ndarray, np.ndarray]:
        """Certificate of weights whose ``A alpha`` (with ridge) is ``slope``; they are scaled where no bound forbids."""
        x, f = y * alpha, y * (slope - ridge * alpha)
        return certify(part, x, Values(f, np.zeros(len(f))), 0.0), x, f

    def gap(alpha: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> float:
        return proof_of(alpha, positive - negative)[0].gap

    end = run_updates(
        split,
        -np.ones(len(rows)),
        None if start is None else start[rows],
        upper=part.upper if problem.loss == "hinge" else None,
        signs=y if problem.intercept else None,
        settings=settings,
        tol=tol,
        max_iter=max_iter,
        max_seconds=max_seconds,
        callback=callback,
        certify=gap,
    )
    proof, x, f = proof_of(end.x, end.positive - end.negative)
    hulls = None
    if problem.loss == "hard" and end.exit_reason in SEARCHED and np.isinf(proof.gap) and np.isfinite(end.x).all():
        # The updates have no end where nothing separates the classes; the hulls' nearest points tell.
        hulls = nearest_points(part, np.abs(x), y - f)
        if not hulls.separable:
            x, f = y * hulls.alpha, part.kernel.sums(whole, whole, y * hulls.alpha)
            proof = replace(
                proof, objective=np.inf, distance=np.inf, dual_bound=np.inf, intercept=0.0, certified=~part.counts
            )
    alpha, decision = np.zeros(problem.n), np.zeros(problem.n)
    certified, support = np.ones(problem.n, dtype=bool), np.zeros(problem.n, dtype=bool)
    alpha[rows], decision[rows] = np.abs(x) * proof.scale, f * proof.scale
    certified[rows], support[rows] = proof.certified, proof.support
    other = np.flatnonzero(~problem.counts)
    if len(other):
        decision[other] = problem.kernel.sums(other, rows, x) * proof.scale
    met = proof.gap <= tol
    impossible = hulls is not None and not hulls.separable
    reason = ExitReason.CERTIFICATE if impossible else end.exit_reason
    if end.exit_reason is ExitReason.CERTIFICATE or not np.isfinite(end.x).all():
        reason = ExitReason.NONFINITE if not np.isfinite(end.x).all() else ExitReason.STALLED
    return MarginResult(
        status=Status.INFEASIBLE if impossible else Status.OPTIMAL if met else Status.FEASIBLE,
        exit_reason=reason,
        alpha=alpha,
        intercept=proof.intercept * proof.scale,
        decision=decision + proof.intercept * proof.scale,
        objective=proof.objective,
        dual_bound=proof.dual_bound,
        gap=proof.gap,
        certified=certified,
        certified_support=support,
        max_violation=float(end.violation),
        margin_bound=hulls.margin if hulls is not None and impossible else np.nan,
        price=problem.price,
        n_iter=end.n_iter,
        seconds=time.perf_counter() - begun,
        history=list(end.history),
        solver="multiplicative",
        tol=tol,
    )
