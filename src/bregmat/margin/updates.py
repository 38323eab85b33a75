"""Training by the multiplicative updates: the kernel as a difference of nonnegative matrices, the gap as stopping rule."""

from __future__ import annotations

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
from bregmat.quadratic.split_program import Point, SplitProgram
from bregmat.quadratic.splits import ClassBlocks, margin_split
from bregmat.result import ExitReason, Status
from bregmat.solve import RunLog

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
    log = RunLog(callback, max_seconds)
    rows = np.flatnonzero(problem.counts)
    y, ridge = problem.signs[rows], problem.ridge[rows]
    part = MarginProblem(Subset(problem.kernel, rows), y, problem.upper[rows], ridge, problem.intercept)
    program = _Dual(part)
    warm = None if start is None else start[rows]
    outcome = run_updates(program, settings, warm, tol=tol, max_iter=max_iter, log=log)
    end = outcome.certificate.state
    proof, x, f = outcome.certificate.proof, *program.signed(end.point)
    hulls = None
    finite = bool(np.isfinite(end.point.v).all())
    if problem.loss == "hard" and outcome.exit_reason in SEARCHED and np.isinf(proof.gap) and finite:
        # The updates have no end where nothing separates the classes; the hulls' nearest points tell.
        hulls = nearest_points(part, np.abs(x), y - f)
        if not hulls.separable:
            x, f = y * hulls.alpha, part.kernel.sums(program.whole, program.whole, y * hulls.alpha)
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
    reason = ExitReason.CERTIFICATE if impossible else outcome.exit_reason
    if outcome.exit_reason is ExitReason.CERTIFICATE or not finite:
        reason = ExitReason.STALLED if finite else ExitReason.NONFINITE
    told = {
        "status": Status.INFEASIBLE if impossible else Status.OPTIMAL if met else Status.FEASIBLE,
        "exit_reason": reason,
        "objective": proof.objective,
        "dual_bound": proof.dual_bound,
        "gap": proof.gap,
        "seconds": log.seconds(),
        "conflict": None,
        "trace": {},
    }
    return MarginResult(
        **outcome.shared() | told,
        alpha=alpha,
        intercept=proof.intercept * proof.scale,
        decision=decision + proof.intercept * proof.scale,
        certified=certified,
        certified_support=support,
        margin_bound=hulls.margin if hulls is not None and impossible else np.nan,
        price=problem.price,
    )


class _Dual(SplitProgram):
    """The dual of a margin machine as the updates see it: ``1/2 alpha'A alpha - sum alpha``, with the machine's own gap."""

    is_certified = True

    def __init__(self, machine: MarginProblem) -> None:
        y = machine.signs
        self.machine, self.whole = machine, np.arange(len(y))
        if machine.kernel.nonnegative:
            split: Any = ClassBlocks(machine.kernel, y, ridge=machine.ridge)
        else:
            split = margin_split(machine.kernel.block(self.whole, self.whole), y, ridge=machine.ridge)
        upper = machine.upper if machine.loss == "hinge" else None
        super().__init__(split, -np.ones(len(y)), upper=upper, signs=y if machine.intercept else None)

    def signed(self, point: Point) -> tuple[np.ndarray, np.ndarray]:
        """Signed weights and their decision values without intercept, shapes (n,)."""
        y = self.machine.signs
        return y * point.v, y * (point.p - point.q - self.machine.ridge * point.v)

    def prove(self, point: Point) -> MarginCertificate:
        """The machine's certificate; its weights are scaled where no bound forbids."""
        x, f = self.signed(point)
        return certify(self.machine, x, Values(f, np.zeros(len(f))), 0.0)
