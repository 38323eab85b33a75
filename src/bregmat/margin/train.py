"""Training a margin machine: the support in float32, the exact weights in float64, and the proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np

from bregmat.base.checks import as_choice, as_column, check_flag, check_limits, check_positive
from bregmat.base.interrupts import tells_interrupts
from bregmat.base.threads import single_thread_blas
from bregmat.certificates.problem import Problem, Proof
from bregmat.kernels.definite import IndefiniteKernelError
from bregmat.margin.certificate import Machine, MarginCertificate
from bregmat.margin.finish import finish, nearest_points
from bregmat.margin.kernel_cache import run_of_buffers
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.margin.updates import run_on_machine
from bregmat.margin.working_set import SupportSearch
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.run.loop import RunLog, solve
from bregmat.run.result import ExitReason, Record, Status
from bregmat.typing import MarginSolverName

ROUGH = 2e-3  # violation at which the exact finish takes over
LOOSE = 1e-4  # gaps from which float32 weights may do


@dataclass(frozen=True)
class ActiveSet:
    """Settings of the default solver, for ``solver=`` of the margin machines.

    Parameters
    ----------
    violation_tol : float, optional
        Stop when the optimality conditions hold to this, in units of the margin, as LIBSVM does with its ``tol``, instead of at a
        duality gap. The weights are then those of float32 kernel rows, unless those are too coarse for it.
    certify : bool, default True
        Compute the duality gap. It is always computed unless ``violation_tol`` is given. Without it the result has no bound: the
        history has the dual values by float32 kernel rows.
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
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 2**62  # the search counts coordinate steps itself

    def __post_init__(self) -> None:
        if self.violation_tol is not None:
            check_positive("violation_tol", self.violation_tol, finite=True)
        check_flag("certify", self.certify)
        check_positive("cache_mb", self.cache_mb, finite=True)

    def check(self, problem: MarginTraining) -> None:
        """Every machine is taken."""

    def init(self, problem: MarginTraining, tol: float, start: SupportSearch) -> SupportSearch:
        """A search that has been set up, with its limits."""
        start.wants_proof = self.certify
        start.estimate_tol = 0.3 * tol if self.violation_tol is None and tol >= LOOSE else 0.0
        return start

    def step(self, problem: MarginTraining, state: SupportSearch) -> SupportSearch:
        """A round of the search, or, where that is over, the exact finish or the hulls."""
        if not state.done:
            state.round()
            if not state.done and 0 <= problem.estimate(state, self.works_on)["gap"] <= state.estimate_tol:
                state.done = state.is_close = True
            if state.done and state.stuck and state.steps >= state.max_steps:
                state.ended = ExitReason.MAX_ITER
            elif state.done and self.violation_tol is not None and not state.stuck:
                state.ended = ExitReason.TOLERANCE
            return state
        state.wants_proof = True
        try:
            self._finish(state)
        except IndefiniteKernelError as error:
            if not error.negative.rounding:
                raise
        state.ended = ExitReason.TIME if state.late() else ExitReason.STALLED
        return state

    def _finish(self, state: SupportSearch) -> None:
        """Exact weights; where those of a hard margin are out of reach of float32, the nearest points of the classes' hulls."""
        data = state.problem
        if data.loss != "hard" or not (state.stuck or np.abs(state.x).max() >= 0.999 * state.ceiling):
            finish(state)
            return
        slope = data.signs - state.f - state.shift
        hulls = nearest_points(data, np.abs(state.x), slope, stop=state.late)
        state.steps += hulls.n_iter
        state.x = data.signs * hulls.alpha
        if not hulls.separable:
            state.margin_bound = hulls.margin


@tells_interrupts
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
        "active_set" is fast and exact; "multiplicative" are the updates of Sha 2002. Of a hard margin without intercept, these
        begin at ones as in the source; else at ones scaled to the least objective. What is returned is divided by the smallest
        margin (see :class:`MarginResult`).
    tol : float, default 1e-6
        Relative duality gap ``(primal - dual) / |primal|``, dimensionless.
    max_iter : int, optional
        Limit on coordinate steps (active set, before the exact finish) or on passes over the kernel (multiplicative).
    max_seconds : float, optional
        Looked at every few milliseconds of the search and between rounds of the finish; the gap of what has been reached is
        computed after it has passed, which takes one pass over the kernel values between samples and support.
    start : array_like of shape (n,), optional
        Dual weights to start from, dimensionless; made feasible first.
    callback : callable, optional
        Called with each :class:`bregmat.Record`; True stops the run. The gap of a record is estimated from float32.
    random_state : int or numpy Generator, default 0
        Draws the first working set; the result does not depend on it beyond ``tol``.

    Returns
    -------
    MarginResult
        Never raises for a numerical outcome; Ctrl-C returns the best weights so far, with a RuntimeWarning.

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
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback, fewest=1)
    check_gap(tol)
    settings: Any = solver
    if isinstance(solver, str):
        as_choice("solver", solver, get_args(MarginSolverName), hint=" or a settings object")
        settings = ActiveSet() if solver == "active_set" else MultiplicativeUpdates()
    if not isinstance(settings, ActiveSet | MultiplicativeUpdates):
        raise TypeError(f"solver must be a name, ActiveSet or MultiplicativeUpdates; got {solver!r}.")
    alpha = _start(problem, start)
    # One BLAS thread: its own threads would compete with those of shared loops, and wait for each other on blocks of this size.
    with single_thread_blas(), run_of_buffers(), np.errstate(over="ignore", invalid="ignore"):
        factor = problem.factor
        near = problem if factor == 1.0 else problem.multiplied(factor)
        log = RunLog(callback, max_seconds, None if factor == 1.0 else lambda record: _in_units(record, factor))
        alpha = alpha / factor
        if isinstance(settings, MultiplicativeUpdates):
            begin = None if start is None else alpha
            if start is None and problem.loss == "hard" and not problem.intercept:
                begin = np.where(problem.counts, 1.0 / factor, 0.0)  # the source's machine begins at ones, as they are
            outcome = run_on_machine(near, settings, begin, tol=tol, max_iter=max_iter, log=log)
        else:
            search = SupportSearch(
                near,
                alpha,
                settings.violation_tol or ROUGH,
                rng=np.random.default_rng(random_state),
                budget=int(settings.cache_mb * 1e6),
                max_steps=np.inf if max_iter is None else max_iter,
                late=log.is_late,
            )
            outcome = solve(MarginTraining(near), settings, tol=tol, start=search, log=log)
    proof, inseparable = _in_units(outcome.certificate, factor), outcome.status is Status.INFEASIBLE
    shared = outcome.shared()
    return MarginResult(
        **shared
        | {"objective": proof.objective, "dual_bound": proof.dual_bound, "unit": shared["unit"] * factor, "trace": {}}
        | {"n_iter": int(outcome.trace.get("n_iter", outcome.n_iter))},
        # the weights of hull points have no units
        alpha=proof.dual if inseparable else proof.dual * factor,
        intercept=proof.intercept,
        decision=(proof.decision + proof.intercept) / (factor if inseparable else 1.0),
        certified=proof.certified,
        certified_support=proof.support,
        margin_bound=proof.margin_bound / np.sqrt(factor),
        price=problem.price,
    )


def check_gap(tol: float) -> None:
    """Raise for a tolerance that says nothing."""
    if not tol < 1:
        raise ValueError(f"tol is a relative duality gap and must be below 1; got {tol!r}.")


def _in_units(figures: Any, factor: float) -> Any:
    """A record or certificate of the problem with ``factor`` times the kernel, in units of the given one."""
    return replace(figures, objective=figures.objective * factor, dual_bound=figures.dual_bound * factor)


def _start(problem: MarginProblem, start: Any) -> np.ndarray:
    """Feasible weights near those given."""
    if start is None:
        return np.zeros(problem.n)
    alpha = np.clip(as_column("start", start, problem.n, per="sample"), 0.0, problem.upper)
    if problem.intercept:
        # The heavier class is scaled down to the weight of the other.
        plus = problem.signs > 0
        sums = alpha[plus].sum(), alpha[~plus].sum()
        if max(sums) > 0:
            alpha[plus if sums[0] > sums[1] else ~plus] *= min(sums) / max(sums)
    return alpha


class MarginTraining(Problem):
    """The training of a margin machine as a problem that owns its proofs."""

    def __init__(self, problem: MarginProblem) -> None:
        self.data = problem
        self.price = np.where(np.isfinite(problem.upper), problem.upper, 0.0)
        self.has_ridge = problem.ridge > 0

    @property
    def certifies_cheaply(self) -> bool:
        """The rigorous gap costs a pass over kernel values."""
        return False

    def is_due(self, state: SupportSearch, tol: float) -> bool:
        """Where float32 weights may do, and where training ends."""
        return state.is_close

    def estimate(self, state: SupportSearch, works_on: str) -> dict[str, float]:
        """Objectives, their gap and the violation, from float32 rows."""
        data, x, ridge = self.data, state.x, self.data.ridge
        margin = data.signs * (state.f + state.shift)
        slack = np.maximum(1.0 - margin, 0.0)
        q, total, linear = float(x @ state.f), float(data.signs @ x), float(self.price @ slack)
        squares = quadratic = 0.0
        if self.has_ridge.any():
            squares = float(ridge @ (x * x))
            quadratic = 0.5 * float((slack[self.has_ridge] ** 2 / ridge[self.has_ridge]).sum())
        primal, dual = 0.5 * q + linear + quadratic, total - 0.5 * (q + squares)
        if data.loss == "hard":
            least = float(margin.min())
            primal = 0.5 * q / least**2 if least > 0 else np.inf
        gap = (primal - dual) / abs(primal) if np.isfinite(primal) and primal != 0 else np.inf
        return {"objective": primal, "dual_bound": dual, "gap": gap, "violation": state.violation}

    def certify(self, state: SupportSearch) -> MarginCertificate:
        """The machine of the weights and its duality gap, rigorous; nothing is proven where no proof is wanted."""
        if not (state.wants_proof and state.is_finite()):
            machine = Machine(self.data, state.x, state.f, np.zeros(0), state.shift)
            # the dual value is of float32 rows, and may be above the optimum
            proof = machine.unproven(-np.inf, is_finite=state.is_finite())
        else:
            state.x = np.where(np.isfinite(state.x), state.x, 0.0)  # an interrupted round
            machine = state.exact or Machine.rough(self.data, state.x, state.cache)
            if np.isfinite(state.margin_bound):
                proof = machine.unproven(np.inf, margin_bound=state.margin_bound)
            else:
                machine.intercept = state.shift
                proof = machine.certify()
        return replace(
            proof, violation=float(np.maximum(state.violation, 0.0))
        )  # below 0 where conditions hold with room

    def contradiction(self, state: SupportSearch) -> Proof | None:
        """Points of the two classes' hulls that coincide."""
        alpha = np.abs(state.x)
        return Proof(alpha, np.flatnonzero(alpha)) if np.isfinite(state.margin_bound) else None
