"""Training by the multiplicative updates of Sha 2002; the duality gap of the machine ends the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bregmat.base.linalg import add_diagonal
from bregmat.engine.loop import Run, RunLog
from bregmat.engine.problem import Proof
from bregmat.engine.status import ExitReason
from bregmat.margin.certificate import Machine, MarginCertificate
from bregmat.margin.hulls import nearest_points
from bregmat.margin.problem import MarginProblem
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, Point, UpdatesState, run_updates
from bregmat.quadratic.program import QuadraticProgram

COMPLETE = (ExitReason.MAX_ITER, ExitReason.STALLED)  # a run that ended so was neither interrupted nor out of time


def run_on_machine(
    problem: MarginProblem,
    settings: MultiplicativeUpdates,
    *,
    tol: float,
    max_iter: int | None,
    log: RunLog,
) -> Run:
    """Run the updates of Sha 2002, eq. 7 (hard margin), and their versions with bounds and a sum constraint.

    The kernel is kept during the run: 8 n^2 bytes.

    Parameters
    ----------
    problem, settings, tol, max_iter, log
        As in :func:`bregmat.quadratic.multiplicative.run_updates`; ``tol`` is a relative duality gap.
    """
    program, start = _margin_dual(problem), None
    if problem.loss == "hard" and not problem.intercept:
        start = np.where(problem.counts, 1.0, 0.0)  # Sha 2002 starts at ones, without scaling

    def prove(state: UpdatesState) -> MarginCertificate:
        return _machine(problem, state.point).certify()

    run = run_updates(program, settings, start, prove=prove, tol=tol, max_iter=max_iter, log=log)
    end, certificate, reason, proof = run.state, run.proof, run.exit_reason, None
    if not np.isfinite(end.point.v).all():
        reason = ExitReason.NONFINITE
    elif reason is ExitReason.CERTIFICATE:
        reason = ExitReason.STALLED
    elif problem.loss == "hard" and reason in COMPLETE and np.isinf(certificate.gap):
        # Without a separating hyperplane the weights grow without end; the nearest points of the hulls prove that there is none.
        machine = _machine(problem, end.point)
        hulls = nearest_points(problem, np.abs(machine.x), problem.signs - machine.f)
        if not hulls.separable:
            x = problem.signs * hulls.alpha
            every = np.arange(problem.n)
            f = problem.kernel.sums(every, every, x)
            certificate = Machine(problem, x, f, np.zeros(problem.n)).unproven(np.inf, margin_bound=hulls.margin)
            proof, reason = Proof(certificate.dual), ExitReason.CERTIFICATE
    certificate = replace(certificate, max_violation=end.residual)
    return Run(log, certificate, tol, reason, settings.name, run.n_iter, proof)


def _margin_dual(problem: MarginProblem) -> QuadraticProgram:
    """The negative dual ``1/2 alpha'A alpha - sum alpha`` (Sha 2002, eq. 6) as a program for the updates."""
    y, every = problem.signs, np.arange(problem.n)
    A = problem.kernel.signed_block(every, y)
    equality = (y[None, :], np.zeros(1)) if problem.intercept else None
    return QuadraticProgram.of(add_diagonal(A, problem.ridge), -np.ones(len(y)), problem.upper, equality)


def _machine(problem: MarginProblem, point: Point) -> Machine:
    """The machine of the weights, whose values are known in float64."""
    # (A+ - A-) alpha = signs * K x + ridge alpha
    y, f = problem.signs, point.p - point.q - problem.ridge * point.v
    return Machine(problem, y * point.v, y * f, np.zeros(len(f)))
