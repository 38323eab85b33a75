"""The distribution nearest to a given one in relative entropy under linear rows: the vector case of (P), certified.

``minimize KL(x, x0) = sum x log(x / x0) - x + x0`` over ``x >= 0``, ``A x <sense> b`` and, usually, ``sum x = total``
(Kulis 2009, Appendix B, eq. 24; Tsuda 2004, section 4, for diagonal matrices). For sign-feasible mu the minimiser of the
Lagrangian is ``x(mu) ~ x0 exp(-A'mu)``, and every solver here moves mu; all sums are taken in log space.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.applications.simplex.proofs import Certificate, certify, proves, separation
from bregmat.applications.simplex.result import DistributionResult
from bregmat.applications.simplex.rows import Point, Rows, build
from bregmat.applications.simplex.steppers import STEPPERS
from bregmat.checks import check_integer, check_positive
from bregmat.result import ExitReason, Record, Status

SOLVERS: dict[str, Any] = {cls.name: cls for cls in STEPPERS}


def nearest_distribution(
    x0: Any,
    A: Any,
    b: Any,
    sense: Any,
    *,
    total: float | None = 1.0,
    solver: Any = "auto",
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> DistributionResult:
    """The vector nearest to ``x0`` in relative entropy that meets linear rows.

    ``minimize sum x log(x / x0) - x + x0`` subject to ``A x <sense> b`` and ``sum x = total`` (Kulis 2009, eq. 24).

    Parameters
    ----------
    x0 : array-like, shape (n,)
        Prior, >= 0; it need not sum to ``total``. Zeros stay zero.
    A : array-like or scipy.sparse, shape (c, n)
    b : float or array-like, shape (c,)
        Right-hand sides, in the units of the rows.
    sense : str or sequence of str
        "<=", ">=" or "==", one for all rows or one per row.
    total : float or None
        What x sums to; None leaves the sum free.
    solver : {"auto", "dual_newton", "cyclic_projection", "definite_boost"} or object
        "auto" is the dual Newton method. The others are the papers' methods, for comparison: ``CyclicProjection(...)``, one
        row at a time, and ``DefiniteBoost(...)``, the most violated row. Their objects' settings mean here what they mean
        for matrices; of ``DualNewton`` only ``proximal`` is used, and ``DefiniteBoost`` records every step (no ``block``).
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on Newton steps (200), cycles (10,000) or steps (100,000).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    DistributionResult
        With status, gap and violation that hold for ``result.x``.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no problem; numerical outcomes never raise.

    Notes
    -----
    A Newton step costs one Gram matrix of the active rows, n c_active^2 operations. Corrected methods tend to the
    optimum; as published, without dual corrections, they end at a feasible point and the gap tells how far it is off.
    """
    clock = time.perf_counter()
    if isinstance(solver, str):
        if solver != "auto" and solver not in SOLVERS:
            raise ValueError(f"solver must be 'auto' or one of {', '.join(SOLVERS)}; got {solver!r}.")
        solver = SOLVERS["dual_newton" if solver == "auto" else solver]()
    elif not isinstance(solver, tuple(SOLVERS.values())):
        names = ", ".join(cls.__name__ for cls in SOLVERS.values())
        raise TypeError(f"solver must be a string or one of the objects {names}; got {solver!r}.")
    for name, value in {"tol": tol, "total": total, "max_seconds": max_seconds}.items():
        if value is not None or name == "tol":
            check_positive(name, value, finite=True)
    check_integer("max_iter", max_iter, 0)
    problem, support = build(x0, A, b, sense, total)
    step = STEPPERS[type(solver)](solver, problem)
    with np.errstate(all="ignore"):  # overflow far from the solution is part of the search
        result = _iterate(
            problem, step, tol, step.max_iter if max_iter is None else max_iter, max_seconds, callback, clock
        )
    result.x, found = np.zeros(len(support)), result.x
    result.x[support] = found
    result.solver = solver.name
    return result


def _iterate(
    problem: Rows,
    step: Any,
    tol: float,
    limit: int,
    max_seconds: float | None,
    callback: Callable[[Record], Any] | None,
    clock: float,
) -> DistributionResult:
    """Step until the certificate closes or a limit is reached; the best point is kept."""
    run = _Run(problem, tol, callback, clock)
    at, iteration = problem.point(np.zeros(len(problem.b))), 0
    try:
        while True:
            last = at.stalled or at.done or iteration >= limit
            if run.record(iteration, at, last):
                reason = ExitReason.INTERRUPTED
            elif run.best is not None and abs(run.best.gap) <= tol:
                reason = ExitReason.TOLERANCE
            elif run.contradiction(iteration, at, last):
                reason = ExitReason.CERTIFICATE
            elif at.done:
                reason = ExitReason.TOLERANCE
            elif at.stalled:
                reason = ExitReason.STALLED
            elif iteration >= limit:
                reason = ExitReason.MAX_ITER
            elif max_seconds is not None and run.seconds() > max_seconds:
                reason = ExitReason.TIME
            else:
                following = step(at)
                iteration += 1
                if np.isfinite(following.p).all() and np.isfinite(following.mu).all():
                    at = following
                    continue
                reason = ExitReason.NONFINITE
            break
    except KeyboardInterrupt:
        reason = ExitReason.INTERRUPTED
    if run.best is None or reason in (ExitReason.INTERRUPTED, ExitReason.TIME):
        run.certify(at)
    return run.outcome(reason, iteration, step.trace)


class _Run:
    """Bookkeeping of one run: clock, history, best certificate, proof of infeasibility. The twin of the one in solve.py."""

    def __init__(self, problem: Rows, tol: float, callback: Callable[[Record], Any] | None, clock: float) -> None:
        self.problem, self.tol, self.callback, self.clock = problem, tol, callback, clock
        self.history: list[Record] = []
        self.best: Certificate | None = None
        self.proof: np.ndarray | None = None
        self._largest_dual = 0.0
        self._retry_below = np.inf

    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.clock

    def certify(self, at: Point) -> Certificate:
        """The certificate of a point; the best of all is kept."""
        new = certify(self.problem, at)
        self.best = new if self.best is None else self.best.joined(new)
        return new

    def record(self, iteration: int, at: Point, last: bool) -> bool:
        """Certify where it is worth it, write the history, call back; whether the callback asks to stop."""
        worst = float(self.problem.violation(at.p).max(initial=0.0))
        signal = max(worst, abs(float(at.mu @ (at.p - self.problem.b))) / max(1.0, abs(at.bound)))
        known = (np.nan, at.bound, np.nan, worst)
        if last or (signal <= 10.0 * np.sqrt(self.tol) and signal <= self._retry_below):
            self._retry_below = 0.25 * signal
            new = self.certify(at)
            known = (new.objective, new.bound, new.gap, new.violation)
        self.history.append(Record(iteration, self.seconds(), *known))
        return self.callback is not None and bool(self.callback(self.history[-1]))

    def contradiction(self, iteration: int, at: Point, last: bool) -> bool:
        """Look for a proof of infeasibility when the weights have doubled or prove it themselves, and once more at the end."""
        if self.best is None or not self.best.is_feasible:
            size = float(np.abs(at.mu * self.problem.unit).max(initial=0.0))
            if last or (iteration >= 3 and size > 2.0 * self._largest_dual) or proves(self.problem, at.mu, at.v):
                self._largest_dual = size
                self.proof = separation(self.problem, at)
        return self.proof is not None

    def outcome(self, reason: ExitReason, iteration: int, trace: dict[str, list]) -> DistributionResult:
        """The certified end of the run; its x is on the support of the prior."""
        best, gap, status, conflict = self.best, np.inf, Status.UNKNOWN, None
        assert best is not None
        if self.proof is not None:
            status, best, conflict = Status.INFEASIBLE, replace(best, mu=self.proof), np.flatnonzero(self.proof)
        elif best.is_feasible:
            gap = best.gap
            status = Status.OPTIMAL if abs(gap) <= self.tol else Status.FEASIBLE
        return DistributionResult(
            x=np.exp(best.logx),
            dual=best.mu,
            values=best.p,
            violation=self.problem.violation(best.p),
            objective=best.objective,
            dual_bound=best.bound,
            gap=gap,
            max_violation=best.violation,
            status=status,
            exit_reason=reason,
            tol=self.tol,
            n_iter=iteration,
            seconds=self.seconds(),
            history=self.history,
            conflict=conflict,
            trace={name: np.array(column, dtype=int if name == "row" else float) for name, column in trace.items()},
        )
