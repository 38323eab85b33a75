"""Training a margin machine: the support in float32, the exact weights in float64, and the proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels.violators import objectives
from bregmat.checks import as_choice, as_column, check_flag, check_limits, check_positive
from bregmat.kernels.definite import IndefiniteKernelError
from bregmat.linalg import single_thread_blas
from bregmat.margin.buffers import run_of_buffers
from bregmat.margin.certificate import MarginCertificate, Values, certify, rough_values
from bregmat.margin.finish import Hulls, finish, nearest_points
from bregmat.margin.problem import MarginProblem
from bregmat.margin.rescaled import divided_record, divided_result, factor_of, multiplied
from bregmat.margin.result import MarginResult
from bregmat.margin.updates import train_by_updates
from bregmat.margin.working_set import Support, SupportSearch, new_support
from bregmat.proofs import Problem, Proof
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.result import ExitReason, Record
from bregmat.solve import Outcome, State, solve

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
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback, fewest=1)
    if not tol < 1:
        raise ValueError(f"tol is a relative duality gap and must be below 1; got {tol!r}.")
    settings: Any = solver
    if isinstance(solver, str):
        as_choice("solver", solver, ("active_set", "multiplicative"), hint=" or a settings object")
        settings = ActiveSet() if solver == "active_set" else MultiplicativeUpdates()
    if not isinstance(settings, ActiveSet | MultiplicativeUpdates):
        raise TypeError(f"solver must be a name, ActiveSet or MultiplicativeUpdates; got {solver!r}.")
    alpha = _start(problem, start)
    # One BLAS thread: its own threads fight with Numba's for the cores, and wait for each other on blocks of this size.
    with single_thread_blas(0), run_of_buffers(), np.errstate(over="ignore", invalid="ignore"):
        factor, told = factor_of(problem), callback
        if factor != 1.0:
            problem, alpha = multiplied(problem, factor), alpha / factor
            told = None if callback is None else (lambda record: callback(divided_record(record, factor)))
        limits: dict[str, Any] = {"tol": tol, "max_seconds": max_seconds, "callback": told}
        if isinstance(settings, MultiplicativeUpdates):
            warm = None if start is None else alpha
            result = train_by_updates(problem, settings, start=warm, max_iter=max_iter, **limits)
        else:
            late = (lambda: False) if max_seconds is None else _alarm(max_seconds)
            rng = np.random.default_rng(random_state)
            steps = np.inf if max_iter is None else max_iter
            result = _trained(
                problem, solve(MarginTraining(problem), _Training(settings, steps, rng, late), start=alpha, **limits)
            )
        return result if factor == 1.0 else divided_result(result, factor)


def _alarm(max_seconds: float) -> Callable[[], bool]:
    """Whether the time is over, from now on: rounds look at it themselves, because some take seconds."""
    end = time.perf_counter() + max_seconds
    return lambda: time.perf_counter() > end


def _trained(problem: MarginProblem, outcome: Outcome) -> MarginResult:
    """The result of a run of the active set, whose effort is counted in coordinate steps and factorisations."""
    proof = outcome.certificate
    intercept = proof.intercept * proof.scale
    return MarginResult(
        **outcome.shared() | {"trace": {}, "n_iter": int(outcome.trace["n_iter"])},
        alpha=proof.dual,
        intercept=intercept,
        decision=proof.decision + intercept,
        certified=proof.certified,
        certified_support=proof.support,
        margin_bound=proof.margin_bound,
        price=problem.price,
    )


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


@dataclass(eq=False)
class TrainingState(State):
    """Where training stands: the support, then the exact weights with their values, or the nearest points of the hulls."""

    search: SupportSearch
    estimate_tol: float = 0.0  # gap by float32 at which the search may be over
    is_close: bool = False  # whether that ended it
    signal: float = 0.0
    ended: ExitReason | None = None  # type: ignore[assignment]
    values: Values | None = None
    hulls: Hulls | None = None
    finish_iter: int = 0
    wants_proof: bool = True

    @property
    def support(self) -> Support:
        """Weights and what is known of them."""
        return self.search.support

    @property
    def objective(self) -> float:  # type: ignore[override]
        """Dual objective of the weights, with ``K x`` as it is carried along."""
        x, f = self.support.x, self.support.f
        return float(np.abs(x).sum()) - 0.5 * float(x @ f) - 0.5 * float(self.search.problem.ridge @ (x * x))

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """The effort so far."""
        return {"n_iter": np.array(self.support.steps + self.finish_iter)}

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return self.support.finite


class MarginTraining(Problem):
    """The training of a margin machine as a problem that owns its proofs."""

    def __init__(self, problem: MarginProblem) -> None:
        self.data = problem
        self.price = np.where(np.isfinite(problem.upper), problem.upper, 0.0)

    @property
    def certifies_cheaply(self) -> bool:
        """The rigorous gap costs a pass over kernel values."""
        return False

    def is_due(self, state: TrainingState, tol: float) -> bool:
        """Where float32 weights may do, and where training ends."""
        return state.is_close

    def estimate(self, state: TrainingState, works_on: str) -> dict[str, float]:
        """Objectives, their gap and the violation, from float32 rows."""
        primal, dual = self.objectives(state.support)
        gap = (primal - dual) / abs(primal) if np.isfinite(primal) and primal != 0 else np.inf
        return {"objective": primal, "dual_bound": dual, "gap": gap, "violation": state.support.violation}

    def objectives(self, state: Support) -> tuple[float, float]:
        """Primal and dual value, from float32 rows."""
        data = self.data
        q, total, squares, linear, quadratic, least = objectives(
            state.x, state.f, data.signs, self.price, data.ridge, state.shift
        )
        primal = 0.5 * q + linear + quadratic
        if data.loss == "hard":
            primal = 0.5 * q / least**2 if least > 0 else np.inf
        return primal, total - 0.5 * (q + squares)

    def certify(self, state: TrainingState) -> MarginCertificate:
        """The machine of the weights and its duality gap, rigorous; the dual value alone where no proof is wanted."""
        data, support = self.data, state.support
        violation: dict[str, Any] = {"violation": float(support.violation)}
        if state.hulls is not None and not state.hulls.separable:
            values = rough_values(data, support.x, support.cache)
            nothing = np.zeros(data.n, dtype=bool)
            bound = {"certified": nothing, "decision": values.f, "margin_bound": state.hulls.margin}
            return MarginCertificate.without_machine(data, np.inf, support.x, 0.0, **bound, **violation)
        if not (state.wants_proof and support.finite):
            bare = {"decision": support.f, "is_finite": support.finite}
            return MarginCertificate.without_machine(
                data, state.objective, support.x, support.shift, **bare, **violation
            )
        support.x = np.where(np.isfinite(support.x), support.x, 0.0)  # an interrupted round
        values = state.values or rough_values(data, support.x, support.cache)
        proof = certify(data, support.x, values, support.shift)
        return replace(proof, dual=proof.dual * proof.scale, decision=values.f * proof.scale, **violation)

    def contradiction(self, state: TrainingState) -> Proof | None:
        """Points of the two classes' hulls that coincide."""
        if state.hulls is None or state.hulls.separable:
            return None
        alpha = np.abs(state.support.x)
        return Proof(alpha, np.flatnonzero(alpha))


@dataclass(frozen=True, eq=False)
class _Training:
    """The active set in the words of the loop: rounds of the search, then the exact finish or the hulls."""

    settings: ActiveSet
    max_steps: float
    rng: np.random.Generator
    late: Callable[[], bool]
    name: ClassVar[str] = ActiveSet.name
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 2**62  # the search counts coordinate steps itself

    def check(self, problem: MarginTraining) -> None:
        """Every machine is taken."""

    def init(self, problem: MarginTraining, tol: float, start: np.ndarray) -> TrainingState:
        """At the given weights."""
        data, settings = problem.data, self.settings
        ceiling = HARD / max(data.largest, 1e-300) if data.loss == "hard" else np.inf
        support = new_support(data, start, budget=settings.budget, ceiling=ceiling)
        more: dict[str, Any] = {
            "rng": self.rng,
            "budget": settings.budget,
            "max_steps": self.max_steps,
            "late": self.late,
        }
        search = SupportSearch(data, support, settings.violation_tol or ROUGH, **more)
        loose = settings.violation_tol is None and tol >= LOOSE
        return TrainingState(search, estimate_tol=0.3 * tol if loose else 0.0, wants_proof=settings.certify)

    def step(self, problem: MarginTraining, state: TrainingState) -> TrainingState:
        """A round of the search, or, where that is over, the exact finish or the hulls."""
        search, support = state.search, state.support
        if not search.done:
            search.round()
            if not search.done and 0 <= problem.estimate(state, self.works_on)["gap"] <= state.estimate_tol:
                search.done = state.is_close = True
            if search.done and support.stuck and support.steps >= self.max_steps:
                state.ended = ExitReason.MAX_ITER
            elif search.done and self.settings.violation_tol is not None and not support.stuck:
                state.ended = ExitReason.TOLERANCE
            return state
        state.wants_proof = True
        try:
            self._finish(problem.data, state)
        except IndefiniteKernelError as error:
            if not error.negative.rounding:
                raise
        state.ended = ExitReason.TIME if self.late() else ExitReason.STALLED
        return state

    def _finish(self, data: MarginProblem, state: TrainingState) -> None:
        """Exact weights; where those of a hard margin are out of reach of float32, the nearest points of the classes' hulls."""
        support = state.support
        slope = data.signs - support.f - data.ridge * support.x - support.shift
        if data.loss == "hard" and (support.stuck or np.abs(support.x).max() >= 0.999 * support.ceiling):
            state.hulls = nearest_points(data, np.abs(support.x), slope, stop=self.late)
            state.finish_iter += state.hulls.n_iter
            support.x = data.signs * state.hulls.alpha
            return
        exact = finish(data, support.x, slope, support.cache, stop=self.late)
        state.finish_iter += exact.n_iter
        support.x, support.shift, support.violation = exact.x, exact.shift, exact.violation
        state.values = exact.values
