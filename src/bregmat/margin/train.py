"""Training a margin machine: the support in float32, the exact weights in float64, and the proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels.violators import objectives
from bregmat.checks import check_flag, check_integer, check_positive
from bregmat.kernels.definite import IndefiniteKernelError
from bregmat.linalg import single_thread_blas
from bregmat.margin.buffers import run_of_buffers
from bregmat.margin.certificate import MarginCertificate, Values, certify, rough_values
from bregmat.margin.finish import finish, nearest_points
from bregmat.margin.problem import MarginProblem
from bregmat.margin.rescaled import divided_record, divided_result, factor_of, multiplied
from bregmat.margin.result import MarginResult
from bregmat.margin.updates import train_by_updates
from bregmat.margin.working_set import Support, find_support, new_support
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.result import ExitReason, Record, Status

ROUGH = 2e-3  # violation at which the exact finish takes over
LOOSE = 1e-4  # gaps from which float32 weights may do
HARD = 1e6  # ceiling of the weights, in units of 1 / K_ii, while the support of a hard margin is looked for


@dataclass(frozen=True)
class ActiveSet:
    """Settings of the default solver, for ``solver=`` of the margin machines.

    Parameters
    ----------
    violation_tol : float, optional
        Stop when the optimality conditions hold to this, in units of the margin, as LIBSVM does with its ``tol``, instead of at a
        duality gap. The weights are then those of float32 kernel rows, unless those are too coarse for it.
    certify : bool, default True
        Compute the duality gap. It is always computed unless ``violation_tol`` is given.
    cache_mb : float, default 400.0
        Memory for kernel rows, and as much again for the working set, in MB (10^6 bytes). Rows beyond it are computed again.

    Notes
    -----
    Working set of samples that grows by the worst violators; sequential minimal optimisation on it (Fan, Chen, Lin 2005,
    "WSS 2"); then an active set in float64 on the samples near the margin. The finish costs |F|^3 / 3 for |F| weights strictly
    between their bounds, and several times 8 |F|^2 bytes. Two buffers of up to 300 MB each stay with the thread for the next run.
    """

    violation_tol: float | None = None
    certify: bool = True
    cache_mb: float = 400.0
    name: ClassVar[str] = "active_set"

    def __post_init__(self) -> None:
        if self.violation_tol is not None:
            check_positive("violation_tol", self.violation_tol, finite=True)
        check_flag("certify", self.certify)
        check_positive("cache_mb", self.cache_mb, finite=True)

    @property
    def budget(self) -> int:
        """Bytes of kernel rows."""
        return int(self.cache_mb * 1e6)


def train_margin(
    problem: MarginProblem,
    *,
    solver: str | ActiveSet | MultiplicativeUpdates = "active_set",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    start: Any = None,
    callback: Callable[[Record], Any] | None = None,
    random_state: Any = 0,
) -> MarginResult:
    """Train a margin machine to a proven relative duality gap.

    Parameters
    ----------
    problem : MarginProblem
    solver : {"active_set", "multiplicative"}, ActiveSet or MultiplicativeUpdates, default "active_set"
        "active_set" is fast and exact; "multiplicative" are the updates of Sha 2002.
    tol : float, default 1e-6
        Relative duality gap ``(primal - dual) / |primal|``, dimensionless.
    max_iter : int, optional
        Limit on coordinate steps (active set, before the exact finish) or on passes over the kernel (multiplicative).
    max_seconds : float, optional
        Looked at every few milliseconds of the search and between rounds of the finish; the gap of what has been reached is
        computed after it has passed, which takes one pass over the kernel values between samples and support.
    start : array_like of shape (n,), optional
        Dual weights to start from; made feasible first.
    callback : callable, optional
        Called with each :class:`bregmat.Record`; True stops the run. The gap of a record is estimated from float32.
    random_state : int or numpy Generator, default 0
        Draws the first working set; the result does not depend on it beyond ``tol``.

    Returns
    -------
    MarginResult
        Never raises for a numerical outcome; Ctrl-C returns the best weights so far.

    Raises
    ------
    TypeError, ValueError
        For arguments out of range, from a kernel that returns NaN or a wrong shape, and where the exact finish meets a
        direction of negative curvature beyond rounding: such a kernel has no optimum to prove
        (``ActiveSet(violation_tol=..., certify=False)`` stops at a stationary point, as LIBSVM does).

    Notes
    -----
    The proof presumes a positive semidefinite kernel, which is not checked here, and leaves out the rounding of float64.
    """
    check_positive("tol", tol, finite=True)
    if not tol < 1:
        raise ValueError(f"tol is a relative duality gap and must be below 1; got {tol!r}.")
    check_integer("max_iter", max_iter, 1)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    alpha = _start(problem, start)
    settings: ActiveSet | MultiplicativeUpdates
    if isinstance(solver, str):
        if solver not in ("active_set", "multiplicative"):
            raise ValueError(f"solver must be 'active_set', 'multiplicative' or a settings object; got {solver!r}.")
        settings = ActiveSet() if solver == "active_set" else MultiplicativeUpdates()
    else:
        settings = solver
    # One BLAS thread: its own threads fight with Numba's for the cores, and wait for each other on blocks of this size.
    if not isinstance(settings, ActiveSet | MultiplicativeUpdates):
        raise TypeError(f"solver must be a name, ActiveSet or MultiplicativeUpdates; got {solver!r}.")
    with single_thread_blas(0), run_of_buffers(), np.errstate(over="ignore", invalid="ignore"):
        factor, told = factor_of(problem), callback
        if factor != 1.0:
            problem, alpha = multiplied(problem, factor), alpha / factor
            told = None if callback is None else (lambda record: callback(divided_record(record, factor)))
        if isinstance(settings, MultiplicativeUpdates):
            result = train_by_updates(
                problem,
                settings,
                start=None if start is None else alpha,
                tol=tol,
                max_iter=max_iter,
                max_seconds=max_seconds,
                callback=told,
            )
        else:
            run = _Run(problem, settings, tol, max_iter, max_seconds, told)
            result = run.train(alpha, np.random.default_rng(random_state))
        return result if factor == 1.0 else divided_result(result, factor)


def _start(problem: MarginProblem, start: Any) -> np.ndarray:
    """Feasible weights near those given."""
    if start is None:
        return np.zeros(problem.n)
    alpha = np.asarray(start, dtype=float)
    if alpha.shape != (problem.n,):
        raise ValueError(f"start must have shape ({problem.n},); got {alpha.shape}.")
    bad = np.flatnonzero(~np.isfinite(alpha))
    if len(bad):
        raise ValueError(f"start must be finite; got {alpha[bad[0]]!r} in row {bad[0]}.")
    alpha = np.clip(alpha, 0.0, problem.upper)
    if problem.intercept:
        # The heavier class is scaled down to the weight of the other.
        plus = problem.signs > 0
        sums = alpha[plus].sum(), alpha[~plus].sum()
        if max(sums) > 0:
            alpha[plus if sums[0] > sums[1] else ~plus] *= min(sums) / max(sums)
    return alpha


@dataclass(eq=False)
class _Run:
    """One run of the active set: limits, history, and the last point."""

    problem: MarginProblem
    settings: ActiveSet
    tol: float
    max_iter: int | None
    max_seconds: float | None
    callback: Callable[[Record], Any] | None

    def __post_init__(self) -> None:
        self.begun = time.perf_counter()
        self.history: list[Record] = []
        self.reason: ExitReason | None = None
        self.finish_iter = 0
        self.price = np.where(np.isfinite(self.problem.upper), self.problem.upper, 0.0)
        loose = self.settings.violation_tol is None and self.tol >= LOOSE
        self.estimate_tol = 0.3 * self.tol if loose else 0.0

    def train(self, alpha: np.ndarray, rng: np.random.Generator) -> MarginResult:
        problem, settings = self.problem, self.settings
        hard = problem.loss == "hard"
        ceiling = HARD / max(problem.largest, 1e-300) if hard else np.inf
        state = new_support(problem, alpha, budget=settings.budget, ceiling=ceiling)
        tol = settings.violation_tol or ROUGH
        try:
            find_support(
                problem,
                state,
                tol,
                rng=rng,
                budget=settings.budget,
                max_steps=np.inf if self.max_iter is None else self.max_iter,
                on_round=self.look,
                late=self.late,
            )
            if not state.finite:
                return self.end(state, None, ExitReason.NONFINITE)
            return self.conclude(state, ceiling)
        except KeyboardInterrupt:
            state.x = np.where(np.isfinite(state.x), state.x, 0.0)
            return self.judge(state, ExitReason.INTERRUPTED)

    def conclude(self, state: Support, ceiling: float) -> MarginResult:
        """From the support to the result: as it is where that is enough or all there is time for, else exactly."""
        settings = self.settings
        if self.max_iter is not None and state.steps >= self.max_iter and state.stuck:
            return self.judge(state, ExitReason.MAX_ITER)
        if self.reason is not None:
            return self.judge(state, self.reason)
        if settings.violation_tol is not None and not state.stuck:
            if settings.certify:
                return self.judge(state, ExitReason.TOLERANCE)
            return self.end(state, None, ExitReason.TOLERANCE)
        try:
            return self.exactly(state, ceiling)
        except IndefiniteKernelError as error:
            if not error.negative.rounding:
                raise
            return self.judge(state, ExitReason.STALLED)

    def exactly(self, state: Support, ceiling: float) -> MarginResult:
        """The exact finish, or the hulls; raises where the kernel has negative curvature."""
        problem = self.problem
        if problem.loss == "hard" and (state.stuck or np.abs(state.x).max() >= 0.999 * ceiling):
            return self.by_hulls(state)
        if self.estimate_tol and state.stopped:
            result = self.judge(state, ExitReason.TOLERANCE)
            if result.gap <= self.tol:
                return result
        slope = problem.signs - state.f - problem.ridge * state.x - state.shift
        exact = finish(problem, state.x, slope, state.cache, stop=self.late)
        self.finish_iter += exact.n_iter
        state.x, state.shift, state.violation = exact.x, exact.shift, exact.violation
        return self.judge(state, ExitReason.TIME if self.late() else ExitReason.STALLED, exact.values)

    def by_hulls(self, state: Support) -> MarginResult:
        """A hard margin whose weights are out of reach of float32: the nearest points of the classes' hulls."""
        problem = self.problem
        slope = problem.signs - state.f - state.shift
        hulls = nearest_points(problem, np.abs(state.x), slope, stop=self.late)
        self.finish_iter += hulls.n_iter
        state.x = problem.signs * hulls.alpha
        if hulls.separable:
            return self.judge(state, ExitReason.TIME if self.late() else ExitReason.STALLED)
        values = rough_values(problem, state.x, state.cache)
        proof = MarginCertificate(np.inf, np.inf, np.inf, 0.0, *np.zeros((2, problem.n), dtype=bool))
        result = self.result(state, proof, values, Status.INFEASIBLE, ExitReason.CERTIFICATE)
        result.margin_bound = hulls.margin
        return result

    # ------------------------------------------------------------------ while it runs
    def look(self, state: Support) -> bool:
        """Record a round; True ends the search."""
        problem = self.problem
        q, total, squares, linear, quadratic, least = objectives(
            state.x, state.f, problem.signs, self.price, problem.ridge, state.shift
        )
        dual = total - 0.5 * (q + squares)
        primal = 0.5 * q + linear + quadratic
        if problem.loss == "hard":
            primal = 0.5 * q / least**2 if least > 0 else np.inf
        gap = (primal - dual) / abs(primal) if np.isfinite(primal) and primal != 0 else np.inf
        record = Record(state.rounds, time.perf_counter() - self.begun, primal, dual, gap, state.violation)
        self.history.append(record)
        if self.callback is not None and self.callback(record):
            self.reason = ExitReason.INTERRUPTED
        elif self.late():
            self.reason = ExitReason.TIME
        return self.reason is not None or 0 <= gap <= self.estimate_tol

    def late(self) -> bool:
        return self.max_seconds is not None and time.perf_counter() - self.begun > self.max_seconds

    # ------------------------------------------------------------------ at the end
    def judge(self, state: Support, reason: ExitReason, values: Values | None = None) -> MarginResult:
        """The certified result; ``reason`` is why it ended if the tolerance is not met."""
        problem = self.problem
        if values is None:
            values = rough_values(problem, state.x, state.cache)
        proof = certify(problem, state.x, values, state.shift)
        if proof.scale != 1.0:
            state.x, state.f = state.x * proof.scale, state.f * proof.scale
            state.shift *= proof.scale
            values = Values(values.f * proof.scale, values.error * proof.scale)
        met = proof.gap <= self.tol
        wanted = self.settings.violation_tol is not None and reason is ExitReason.TOLERANCE
        if reason is ExitReason.INTERRUPTED or wanted:
            pass
        elif met:
            reason = ExitReason.TOLERANCE
        elif reason is ExitReason.TOLERANCE:
            reason = ExitReason.STALLED
        return self.result(state, proof, values, Status.OPTIMAL if met else Status.FEASIBLE, reason)

    def end(self, state: Support, values: Values | None, reason: ExitReason) -> MarginResult:
        """The result without a proof."""
        problem, alpha = self.problem, np.abs(state.x)
        dual = float(alpha.sum()) - 0.5 * float(state.x @ state.f) - 0.5 * float(problem.ridge @ alpha**2)
        proof = MarginCertificate(np.inf, dual, np.inf, state.shift, ~problem.counts, np.zeros(problem.n, dtype=bool))
        values = Values(state.f, np.zeros(0)) if values is None else values
        status = Status.UNKNOWN if reason is ExitReason.NONFINITE else Status.FEASIBLE
        return self.result(state, proof, values, status, reason)

    def result(
        self, state: Support, proof: MarginCertificate, values: Values, status: Status, reason: ExitReason
    ) -> MarginResult:
        seconds = time.perf_counter() - self.begun
        intercept = proof.intercept * proof.scale
        self.history.append(
            Record(state.rounds + 1, seconds, proof.objective, proof.dual_bound, proof.gap, float(state.violation))
        )
        return MarginResult(
            status=status,
            exit_reason=reason,
            alpha=np.abs(state.x),
            intercept=intercept,
            decision=values.f + intercept,
            objective=proof.objective,
            dual_bound=proof.dual_bound,
            gap=proof.gap,
            certified=proof.certified,
            certified_support=proof.support,
            max_violation=float(state.violation),
            price=self.problem.price,
            n_iter=state.steps + self.finish_iter,
            seconds=seconds,
            history=self.history,
            solver="active_set",
            tol=self.tol,
        )
