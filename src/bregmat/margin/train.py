"""Training of a margin machine: the support in float32, the exact weights in float64, and the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np

from bregmat.base.checks import as_choice, check_flag, check_limits, check_positive
from bregmat.base.threads import returns_result, single_thread_blas
from bregmat.engine.loop import Run, RunLog, compose, repeat
from bregmat.engine.problem import Proof
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.kernels.definite import IndefiniteKernelError
from bregmat.kernels.sources import Part
from bregmat.margin.certificate import Machine, MarginCertificate
from bregmat.margin.finish import finish
from bregmat.margin.hulls import nearest_points
from bregmat.margin.kernel_cache import run_of_buffers
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.margin.updates import run_on_machine
from bregmat.margin.working_set import FINE, FORMED, SupportSearch
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.typing import MarginSolverName


@dataclass(frozen=True)
class ActiveSet:
    """Settings of the default solver, for ``solver=`` of the margin machines.

    Parameters
    ----------
    violation_tol : float, optional
        Stop when the optimality conditions hold to this tolerance, in units of the margin, as LIBSVM does with its ``tol``, instead of
        at a duality gap. The exact last stage then runs only if the search does not reach the tolerance.
    certify : bool, default True
        Compute the duality gap. It is always computed unless ``violation_tol`` is given. Without it the result has no bound, and
        the history has dual values from float32 kernel rows.
    cache_mb : float, default 400.0
        Memory for kernel rows, and as much again for the working set, in MB (10^6 bytes). Rows beyond it are computed again.

    Notes
    -----
    A linear kernel of at least 1000 samples, and 16 samples per feature, is never formed: an interior-point method finds the support of
    a hinge and Newton's method the weights of a squared hinge, in n d^2 operations a step (Fine and Scheinberg 2001).
    Up to 900 samples the whole kernel is computed, in float64; otherwise the working set grows by the samples that violate their
    conditions most. Sequential minimal optimisation (Fan, Chen, Lin 2005, "WSS 2") is followed by an active set in float64 on the samples
    near the margin, unless Newton's method on the whole kernel has given exact weights. The active set costs |F|^3 / 3 for |F| weights
    strictly between their bounds, and several times 8 |F|^2 bytes. Two buffers of up to 300 MB each are kept for the next run.
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


@returns_result
def train_margin(
    problem: MarginProblem,
    *,
    solver: str | ActiveSet | MultiplicativeUpdates = "active_set",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
    random_state: Any = 0,
) -> MarginResult:
    """Train a margin machine to a proven relative duality gap.

    Parameters
    ----------
    problem : MarginProblem
    solver : {"active_set", "multiplicative"}, ActiveSet or MultiplicativeUpdates, default "active_set"
        "active_set" is fast and exact. "multiplicative" applies the updates of Sha 2002. For a hard margin without intercept they
        start at ones, as in the paper, otherwise at ones scaled to the smallest objective. The result is divided by the
        smallest margin (see :class:`MarginResult`).
    tol : float, default 1e-6
        Relative duality gap ``(primal - dual) / |primal|``, dimensionless.
    max_iter : int, optional
        Limit on coordinate steps (active set, before the exact last stage) or on passes over the kernel (multiplicative).
    max_seconds : float, optional
        Time limit. It is checked every few milliseconds of the search and between rounds of the last stage. The gap is computed
        after it has passed, which takes one pass over the kernel values between samples and support vectors.
    callback : callable, optional
        Called with each :class:`bregmat.Record`; True stops the run. The gap of a record is estimated from float32.
    random_state : int or numpy Generator, default 0
        Draws the first working set. The result does not depend on it beyond ``tol``.

    Returns
    -------
    MarginResult
        Numerical outcomes never raise. Ctrl-C returns the best weights so far, with a RuntimeWarning.

    Raises
    ------
    TypeError, ValueError
        Arguments out of range; a kernel that returns NaN, a wrong shape, or values k(x, x) outside of 1e-25 to 1e25; or a kernel with
        negative curvature beyond rounding that the exact last stage meets: such a kernel has no optimum to prove
        (``ActiveSet(violation_tol=..., certify=False)`` stops at a stationary point, as LIBSVM does).

    Notes
    -----
    The proof assumes a positive semidefinite kernel, which is not checked here, and does not include the rounding of float64.
    """
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback, fewest=1)
    check_gap(tol)
    settings, rng = settings_of(solver), np.random.default_rng(random_state)
    with margin_runs():
        log = RunLog(callback, max_seconds)
        return trained(problem, settings, tol=tol, max_iter=max_iter, log=log, rng=rng)


@contextmanager
def margin_runs() -> Iterator[None]:
    """Context of one or several calls of :func:`trained`."""
    # BLAS uses one thread: its threads would compete with those of our compiled loops.
    with single_thread_blas(), run_of_buffers(), np.errstate(over="ignore", invalid="ignore"):
        yield


def trained(
    problem: MarginProblem,
    settings: ActiveSet | MultiplicativeUpdates,
    *,
    tol: float,
    max_iter: int | None,
    log: RunLog,
    rng: np.random.Generator,
) -> MarginResult:
    """As :func:`train_margin`, with arguments that have been checked, for use within :func:`margin_runs`.

    Parameters
    ----------
    problem, settings, tol, max_iter, log, rng
        The result does not remember them: its ``call`` is None.
    """
    rough = 2e-3  # violation at which the exact last stage takes over
    problem.check_range()
    if isinstance(settings, MultiplicativeUpdates):
        outcome = run_on_machine(problem, settings, tol=tol, max_iter=max_iter, log=log)
    else:
        if problem.n <= FORMED and problem.kernel.formed is None:
            every = np.arange(problem.n)
            problem = replace(problem, kernel=Part(problem.kernel, every, problem.kernel.block(every, every)))
        search = SupportSearch(
            problem,
            settings.violation_tol or rough,
            goal=FINE if settings.violation_tol is None else 0.8 * settings.violation_tol,
            rng=rng,
            budget=int(settings.cache_mb * 1e6),
            max_steps=np.inf if max_iter is None else max_iter,
            late=log.is_late,
        )
        outcome = MarginTraining(search, settings, tol).run(log)
    proof = outcome.certificate
    point: dict[str, Any] = {"alpha": proof.dual, "decision": proof.decision + proof.intercept}
    return compose(MarginResult, outcome, **point)


def settings_of(solver: Any) -> Any:
    """The settings of a solver that is given by name or by its settings."""
    if isinstance(solver, ActiveSet | MultiplicativeUpdates):
        return solver
    if not (solver is None or isinstance(solver, str)):
        raise TypeError(f"solver must be a name, ActiveSet or MultiplicativeUpdates; got {solver!r}.")
    as_choice("solver", solver, get_args(MarginSolverName), hint=" or a settings object")
    return ActiveSet() if solver == ActiveSet.name else MultiplicativeUpdates()


def check_gap(tol: float) -> None:
    """Raise for a relative gap of 1 or more, which every machine meets."""
    if not tol < 1:
        raise ValueError(f"tol is a relative duality gap and must be below 1; got {tol!r}.")


@dataclass(eq=False)
class MarginTraining:
    """A run of the default solver: rounds of the search, the exact last stage, and the certificate at the end."""

    search: SupportSearch
    settings: ActiveSet
    tol: float
    exit_reason: ExitReason | None = None
    proof: MarginCertificate | None = None  # of the last weights

    def run(self, log: RunLog) -> Run:
        """Train the machine."""
        search, no_limit = self.search, 2**62  # the search counts coordinate steps itself
        reason, _ = repeat(self, no_limit, log)
        is_stopped = reason in (ExitReason.TIME, ExitReason.INTERRUPTED)
        certificate = self.certificate() if self.proof is None or is_stopped else self.proof
        search.problem.kernel.formed = None  # the result may be kept for long
        proof = Proof(search.x, np.flatnonzero(search.x)) if reason is ExitReason.CERTIFICATE else None
        return Run(log, certificate, self.tol, reason, self.settings.name, search.steps, proof, by_own_rule=True)

    def measure(self, is_last: bool) -> dict[str, float]:
        """Objectives, their gap and the violation, from float32 rows; at the end those of the certificate."""
        if self.exit_reason is not None:
            self.proof = self.certificate()
            return self.proof.figures
        search, data = self.search, self.search.problem
        x, ridge = search.x, data.ridge
        margin, q = data.signs * (search.f + search.shift), float(x @ search.f)
        slack = np.maximum(1.0 - margin, 0.0)
        # dual sum |x| - 1/2 x'(K + ridge) x, primal 1/2 x'Kx + sum C_i xi_i (or xi_i^2 / 2 r_i)
        dual = float(data.signs @ x) - 0.5 * (q + float(ridge @ (x * x)))
        if data.loss == "hard":
            least = float(margin.min())
            primal = 0.5 * q / least**2 if least > 0 else np.inf
        elif data.loss == "hinge":
            primal = 0.5 * q + float(data.upper @ slack)
        else:
            on = ridge > 0
            primal = 0.5 * q + 0.5 * float((slack[on] ** 2 / ridge[on]).sum())
        gap = (primal - dual) / abs(primal) if np.isfinite(primal) and primal != 0 else np.inf
        return {"objective": primal, "dual_bound": dual, "gap": gap, "violation": search.violation}

    def ended(self) -> ExitReason | None:
        """TOLERANCE if the gap is reached, CERTIFICATE if the classes cannot be separated, otherwise why the search ended."""
        if self.proof is None:
            return None
        if self.proof.status(self.tol) is Status.OPTIMAL:
            return ExitReason.TOLERANCE
        return ExitReason.CERTIFICATE if np.isfinite(self.search.margin_bound) else self.exit_reason

    def step(self) -> None:
        """Do one round of the search, or the exact last stage after the search has ended."""
        search = self.search
        if not search.done:
            search.round()
            if np.isnan(search.violation):
                raise OverflowError
            if search.done and search.stuck and search.steps >= search.max_steps:
                self.exit_reason = ExitReason.MAX_ITER
            elif search.done and self.settings.violation_tol is not None and not search.stuck:
                self.exit_reason = ExitReason.TOLERANCE
            if search.exact is None or self.exit_reason is not None:
                return
        try:
            if search.exact is None:
                self._finish()
        except IndefiniteKernelError as error:
            if not error.negative.rounding:
                raise
            search.continue_alone()
        self.exit_reason = ExitReason.TIME if search.late() else ExitReason.STALLED

    def _finish(self) -> None:
        """Compute exact weights; if those of a hard margin are too large for float32, by the nearest points of the hulls."""
        search, data = self.search, self.search.problem
        if data.loss != "hard" or not (search.stuck or np.abs(search.x).max() >= 0.999 * search.ceiling):
            finish(search)
            return
        slope = data.signs - search.f - search.shift
        hulls = nearest_points(data, np.abs(search.x), slope, stop=search.late)
        search.steps += hulls.n_iter
        search.x = data.signs * hulls.alpha
        if not hulls.separable:
            search.margin_bound = hulls.margin

    def certificate(self) -> MarginCertificate:
        """The machine of the weights with its duality gap; without a gap if no proof is wanted."""
        search = self.search
        is_finite = not np.isnan(search.violation)
        violation = float(np.maximum(search.violation, 0.0))  # it is negative if all conditions hold strictly
        # without a last stage the caller may not want a proof
        is_wanted = self.settings.certify or self.exit_reason in (ExitReason.TIME, ExitReason.STALLED)
        if not (is_wanted and is_finite):
            machine = Machine(search.problem, search.x, search.f, np.zeros(0), search.shift, violation=violation)
            # the dual value comes from float32 rows and may exceed the optimum, so it is no bound
            return machine.unproven(-np.inf, is_finite=is_finite)
        search.x = np.where(np.isfinite(search.x), search.x, 0.0)  # an interrupted round may leave NaN
        machine = search.exact or Machine.from_float32(search.problem, search.x, search.cache)
        machine.violation = violation
        if np.isfinite(search.margin_bound):
            return machine.unproven(np.inf, margin_bound=search.margin_bound)
        machine.intercept = search.shift
        return machine.certify()
