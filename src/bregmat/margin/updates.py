"""Training by the multiplicative updates: the kernel as a difference of nonnegative matrices, the gap as stopping rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.kernels.sources import Subset
from bregmat.margin.certificate import Machine, MarginCertificate
from bregmat.margin.finish import nearest_points
from bregmat.margin.problem import MarginProblem
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.split_program import Point, SplitProgram
from bregmat.quadratic.splits import ClassBlocks, margin_split
from bregmat.run.loop import Outcome, RunLog
from bregmat.run.result import ExitReason, Status

SEARCHED = (ExitReason.MAX_ITER, ExitReason.STALLED)  # ends of a run that has had its chance


def run_on_machine(
    problem: MarginProblem,
    settings: MultiplicativeUpdates,
    start: np.ndarray | None,
    *,
    tol: float,
    max_iter: int | None,
    log: RunLog,
) -> Outcome:
    """Sha 2002, eq. 7 (hard margin) and its versions with bounds and a sum constraint, to a relative duality gap.

    The kernel over the samples that count is kept: 4 n^2 bytes where no entry is negative, else 16 n^2.

    Parameters
    ----------
    problem : MarginProblem
    settings : MultiplicativeUpdates
    start : ndarray of shape (n,), optional
        Weights.
    tol, max_iter, log
        As in :func:`bregmat.quadratic.multiplicative.run_updates`.

    Returns
    -------
    Outcome
        With a :class:`MarginCertificate`.
    """
    rows, others = np.flatnonzero(problem.counts), np.flatnonzero(~problem.counts)
    y, ridge = problem.signs[rows], problem.ridge[rows]
    part = MarginProblem(Subset(problem.kernel, rows), y, problem.upper[rows], ridge, problem.intercept)
    program = _Dual(part)
    warm = None if start is None else start[rows]
    outcome = run_updates(program, settings, warm, tol=tol, max_iter=max_iter, log=log)
    end = outcome.certificate.state
    machine, proof, reason = program.machine(end.point), outcome.certificate.proof, outcome.exit_reason
    status = proof.status(tol)
    if not np.isfinite(end.point.v).all():
        reason = ExitReason.NONFINITE
    elif reason is ExitReason.CERTIFICATE:
        reason = ExitReason.STALLED
    elif problem.loss == "hard" and reason in SEARCHED and np.isinf(proof.gap):
        # The updates have no end where nothing separates the classes; the hulls' nearest points tell.
        hulls = nearest_points(part, np.abs(machine.x), y - machine.f)
        if not hulls.separable:
            x = y * hulls.alpha
            f = part.kernel.sums(program.whole, program.whole, x)
            proof = Machine(part, x, f, np.zeros(part.n)).unproven(np.inf, margin_bound=hulls.margin)
            status, reason = Status.INFEASIBLE, ExitReason.CERTIFICATE
    alpha, decision = np.zeros(problem.n), np.zeros(problem.n)
    certified, support = ~problem.counts, np.zeros(problem.n, dtype=bool)
    alpha[rows], decision[rows], certified[rows], support[rows] = (
        proof.dual,
        proof.decision,
        proof.certified,
        proof.support,
    )
    if len(others):
        decision[others] = problem.kernel.sums(others, rows, y * proof.dual)
    more: dict[str, Any] = {"certified": certified, "support": support, "violation": end.miss}
    return replace(
        outcome,
        certificate=replace(proof, dual=alpha, decision=decision, **more),
        status=status,
        exit_reason=reason,
        seconds=log.seconds(),
        conflict=None,
    )


class _Dual(SplitProgram):
    """The dual of a margin machine as the updates see it: ``1/2 alpha'A alpha - sum alpha``, with the machine's own gap."""

    is_certified = True

    def __init__(self, data: MarginProblem) -> None:
        y = data.signs
        self.data, self.whole = data, np.arange(len(y))
        if data.kernel.nonnegative:
            split: Any = ClassBlocks(data.kernel, y, ridge=data.ridge)
        else:
            split = margin_split(data.kernel.block(self.whole, self.whole), y, ridge=data.ridge)
        upper = data.upper if data.loss == "hinge" else None
        super().__init__(split, -np.ones(len(y)), upper=upper, signs=y if data.intercept else None)

    def machine(self, point: Point) -> Machine:
        """Signed weights with their values."""
        y, f = self.data.signs, point.p - point.q - self.data.ridge * point.v
        return Machine(self.data, y * point.v, y * f, np.zeros(len(f)))

    def prove(self, point: Point) -> MarginCertificate:
        """The machine's certificate; its weights are scaled where no bound forbids."""
        return self.machine(point).certify()
