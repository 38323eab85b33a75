"""Training of one machine for every pair of classes. See :class:`MarginSVC`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import generator
from bregmat.base.threads import cached_property, take_interrupt
from bregmat.base.tolerances import EPS
from bregmat.engine.loop import RunLog
from bregmat.engine.result import SolverError
from bregmat.engine.status import ExitReason, Status
from bregmat.estimators.base import callback_of
from bregmat.kernels import KernelFunction, KernelSource, kernel_source
from bregmat.kernels.definite import (
    MAX_TESTED,
    IndefiniteKernelError,
    check_given,
    check_spectrum,
    check_support,
    checked_values,
    refuse,
)
from bregmat.kernels.sources import Part
from bregmat.margin import MarginProblem, MarginResult
from bregmat.margin.problem import bounds_and_ridge
from bregmat.margin.train import margin_runs, settings_of, trained
from bregmat.margin.working_set import FORMED


@dataclass(frozen=True, eq=False)
class PairMachine:
    """A trained machine with the row numbers of its training examples and the positions of its two classes."""

    rows: np.ndarray
    signs: np.ndarray  # 1 for the second class
    first: int
    second: int
    result: MarginResult

    @property
    def coefficients(self) -> np.ndarray:
        """``y_i alpha_i``, shape (m,), 0 for examples that are not support vectors."""
        alpha = self.result.alpha
        return np.where(alpha > EPS * alpha.max(initial=0.0), self.signs * alpha, 0.0)


@dataclass(frozen=True, eq=False)
class Examples:
    """Checked training points, the position of the class of each, the factor of C of each, and the kernel with its gamma."""

    X: Any
    codes: np.ndarray
    weights: np.ndarray
    base: KernelFunction


def train_pairs(machine: Any, examples: Examples, begun: float) -> list[PairMachine]:
    """Train one machine per pair of classes, with the (checked) parameters of a :class:`MarginSVC`; the fit began at ``begun``.

    ``OneVsOneClassifier`` would do the same fits. However, it needs metadata routing for weights, copies a kernel that is a function
    for every pair, has no time limit for all pairs together, and evaluates the kernel twice per pair to predict.

    Raises
    ------
    ValueError
        The kernel is not positive semidefinite, or has NaN.
    SolverError
        A machine has no solution.
    """
    training = _PairTraining(machine, examples, begun)
    done: list[PairMachine] = []
    with margin_runs():
        for first, second in combinations(range(len(machine.classes_)), 2):
            done.append(training.train(first, second, is_first=not done))
    return done


class _PairTraining:
    """Kernel, time limit, random generator and request to stop, common to the machines of all pairs."""

    def __init__(self, machine: Any, examples: Examples, begun: float) -> None:
        self.machine, self.examples, self.settings = machine, examples, settings_of(machine.solver)
        X, base = examples.X, examples.base
        # A linear machine with an intercept does not depend on the origin; products of centred points have less rounding.
        is_centred = machine.fit_intercept and base.kernel == "linear" and not sp.issparse(X)
        self.center = X.mean(axis=0) if is_centred else None
        self.source = _kernel_of_rows(X if self.center is None else X - self.center, base)
        self.rows = [np.flatnonzero(examples.codes == code) for code in range(len(machine.classes_))]
        self.upper, self.ridge = bounds_and_ridge(float(machine.C), examples.weights, machine.squared_hinge)
        self.own: dict[int, np.ndarray] = {}  # kernel of the examples of each class, for all of its machines
        self.in_memory = -1  # the class whose kernel is in the first rows and columns of ``memory``
        self.end = None if machine.max_seconds is None else begun + machine.max_seconds
        self.rng = generator(machine.random_state)
        self.callback, self.is_stopped = callback_of(machine), False

    def train(self, first: int, second: int, *, is_first: bool) -> PairMachine:
        """Train the machine of two classes, check its kernel and raise if it has no solution."""
        base, X = self.examples.base, self.examples.X
        kernel, rows = self._kernel(first, second)
        is_by_class = kernel.formed is not None
        signs = np.where(self.examples.codes[rows] == second, 1.0, -1.0)
        problem = MarginProblem(kernel, signs, self.upper[rows], self.ridge[rows], self.machine.fit_intercept)
        try:
            result = self._train(problem, may_raise=is_first)
        except IndefiniteKernelError as error:
            refuse(replace(error.negative, rows=rows[error.negative.rows]), error.n, base)
        except ValueError as error:  # all other arguments have been checked: the kernel is to blame
            if "kernel" in str(error):
                raise
            raise ValueError(f"kernel {base.name}: {error}") from error
        if base.is_precomputed and X.shape[0] > MAX_TESTED:
            check_support(X, rows[result.support], base)
        if self.center is not None:
            # w'(x - center) + b = w'x + (b - w'center)
            on = result.support
            weights_of_features = (problem.signs * result.alpha)[on] @ (X[rows[on]] - self.center)
            result.intercept -= float(weights_of_features @ self.center)
        self.is_stopped = self.is_stopped or result.exit_reason is ExitReason.INTERRUPTED
        if is_by_class:
            rows, problem = _in_order(result, problem, rows, self.whole)
        self._raise_without_solution(result, first, second)
        result.call = {"problem": problem}
        return PairMachine(rows, problem.signs, first, second, result)

    def _kernel(self, first: int, second: int) -> tuple[KernelSource, np.ndarray]:
        """The kernel of two classes, and the row numbers of its samples.

        Small kernels are computed in full. The samples are then ordered by class, and each class's own part is kept for other pairs.
        """
        rows = np.concatenate([self.rows[first], self.rows[second]])
        if len(self.rows) == 2 or len(rows) > FORMED or sp.issparse(self.examples.X):
            rows = np.sort(rows)
            return self._source(rows), rows
        for code in (first, second):
            if code not in self.own:
                self.own[code] = self.whole.block(self.rows[code], self.rows[code])
        m, n = len(self.rows[first]), len(rows)
        K = self.memory[:n, :n]
        if self.in_memory != first:
            K[:m, :m], self.in_memory = self.own[first], first
        K[m:, m:] = self.own[second]
        K[:m, m:] = self.whole.block(self.rows[first], self.rows[second])
        K[m:, :m] = K[:m, m:].T
        return Part(self.whole, rows, K), rows

    @cached_property
    def memory(self) -> np.ndarray:
        """Memory for the kernel of one pair; new memory for each of them would cost more than the values."""
        size = min(FORMED, sum(sorted(len(rows) for rows in self.rows)[-2:]))
        return np.empty((size, size))

    @cached_property
    def whole(self) -> KernelSource:
        """The kernel of all examples."""
        return self._source(np.arange(len(self.examples.codes)))

    def _source(self, rows: np.ndarray) -> KernelSource:
        """The kernel of some rows."""
        kernel = self.source(rows)
        if self.center is not None:  # exact proofs of separability use the points as they were given
            kernel.points = self.examples.X[rows]
        return kernel

    def _train(self, problem: MarginProblem, *, may_raise: bool) -> MarginResult:
        """Train a machine. After Ctrl-C before its first iterate it stops there; if no machine is trained yet, the interrupt is raised."""
        try:
            return self._run(problem)
        except KeyboardInterrupt:
            if may_raise:
                raise
            take_interrupt()
            self.is_stopped = True
            return self._run(problem)

    def _run(self, problem: MarginProblem) -> MarginResult:
        """Train a machine within the time that is left."""
        machine = self.machine
        seconds = None if self.end is None else max(self.end - time.monotonic(), 1e-3)
        log = RunLog(self._stop if self.is_stopped or self.callback is not None else None, seconds)
        tol = float(machine.tol)
        return trained(problem, self.settings, tol=tol, max_iter=machine.max_iter, log=log, rng=self.rng)

    def _stop(self, record: Any) -> bool:
        """The user's callback; after it has asked to stop, every later machine stops at its first record."""
        self.is_stopped = self.is_stopped or bool(self.callback is not None and self.callback(record))
        return self.is_stopped

    def _raise_without_solution(self, result: MarginResult, first: int, second: int) -> None:
        """Raise :class:`SolverError`, which names the classes, if there is no usable machine."""
        is_overflow = result.exit_reason is ExitReason.NONFINITE
        if result.status not in (Status.INFEASIBLE, Status.UNBOUNDED) and not is_overflow:
            return
        failure = SolverError(result)
        if is_overflow:  # the text of the status does not fit
            failure.args = (f"No machine was found. {result.advice}",)
        failure.add_note(f"Classes {self.machine.classes_[first]} and {self.machine.classes_[second]}.")
        raise failure


def _in_order(
    result: MarginResult, problem: MarginProblem, rows: np.ndarray, whole: KernelSource
) -> tuple[np.ndarray, MarginProblem]:
    """Sort the samples of a result, which are the ``rows`` of a kernel, by row number; the rows and the problem in that order."""
    order = np.argsort(rows, kind="stable")  # faster on two sorted parts
    result.alpha, result.decision = result.alpha[order], result.decision[order]
    if result.conflict is not None:
        result.conflict = np.flatnonzero(np.isin(order, result.conflict))
    arrays = {name: getattr(problem, name)[order] for name in ("signs", "upper", "ridge")}
    return rows[order], replace(problem, kernel=Part(whole, rows[order]), **arrays)


def _kernel_of_rows(X: Any, base: KernelFunction) -> Callable[[np.ndarray], Any]:
    """The function from row numbers of X to the :class:`KernelSource` of these rows.

    A kernel that is a function is evaluated once, on all of X, because a learned kernel solves triangular systems at every call. So
    is a kernel that may not be positive semidefinite, because all of it is checked.
    """
    n = X.shape[0]
    if base.is_precomputed or not base.is_definite:
        if base.is_precomputed:
            check_given(X)
            if X.shape[0] <= MAX_TESTED:
                check_spectrum(X, np.arange(len(X)), base)
        K = X if base.is_precomputed else checked_values(X, base)
        whole = kernel_source(K, "precomputed")
        return lambda rows: whole if len(rows) == n else kernel_source(K[np.ix_(rows, rows)], "precomputed")
    if sp.issparse(X):
        return lambda rows: kernel_source(base(X[rows]), "precomputed")
    settings = {"gamma": 1.0} | {name: value for name, value in base.params.items() if value is not None}
    return lambda rows: kernel_source(X if len(rows) == n else X[rows], base.kernel, **settings)


# ---------------------------------------------------------------------- decisions
def pair_decisions(K: np.ndarray, dual_coef: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Decision values of all pairs without the offsets, shape (m, n_pairs).

    Every support vector is used for the pairs of its own class only, which takes m s (k - 1) multiplications.

    ``K`` (m, s) are kernel values between points and support vectors, ``dual_coef`` has shape (k - 1, s), ``n_support`` (k,).
    """
    k = len(n_support)
    if k == 2:
        return K @ dual_coef.T
    ends = np.cumsum(n_support)
    parts = [K[:, end - n : end] @ dual_coef[:, end - n : end].T for n, end in zip(n_support, ends)]
    return np.stack([parts[i][:, j - 1] + parts[j][:, i] for i, j in combinations(range(k), 2)], axis=1)
