"""One machine for every pair of classes. See :class:`MarginSVC`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.interrupts import take_interrupt
from bregmat.base.sampling import generator
from bregmat.estimators.base import callback_of
from bregmat.kernels import KernelFunction, kernel_source
from bregmat.kernels.definite import (
    WHOLE,
    IndefiniteKernelError,
    check_given,
    check_spectrum,
    check_support,
    checked_values,
    refuse,
)
from bregmat.margin import MarginProblem, MarginResult, train_margin
from bregmat.run.result import ExitReason, SolverError, Status

_EPS = float(np.finfo(float).eps)  # coefficients below it, relative to the largest, count as 0 (Sha 2002, footnote 2)


@dataclass(frozen=True, eq=False)
class PairMachine:
    """A trained machine: row numbers of its training examples, positions of its two classes, its result."""

    rows: np.ndarray
    signs: np.ndarray  # 1 for the second class
    first: int
    second: int
    result: MarginResult

    @property
    def coefficients(self) -> np.ndarray:
        """``y_i alpha_i``, shape (m,), 0 where the example does not support."""
        alpha = self.result.alpha
        return np.where(alpha > _EPS * alpha.max(initial=0.0), self.signs * alpha, 0.0)

    @property
    def certified(self) -> np.ndarray:
        """1 where every optimal machine has the example as a support vector, -1 where none has, 0 unproven; int8, (m,)."""
        proven = np.where(self.result.certified_support, 1, -1)
        return np.where(self.result.certified, proven, 0).astype(np.int8)


@dataclass(frozen=True, eq=False)
class Examples:
    """Checked training points, positions of their classes, what multiplies the C of each, and the kernel with its coefficient."""

    X: Any
    codes: np.ndarray
    weights: np.ndarray
    base: KernelFunction


def train_pairs(machine: Any, examples: Examples) -> list[PairMachine]:
    """Train one machine per pair of classes, with the (checked) parameters of a :class:`MarginSVC`.

    ``OneVsOneClassifier`` would do the same fits, but takes weights only under a global switch (metadata routing), copies
    a kernel that is a function (with a learner and its data) for every pair, knows no time limit for all pairs together, and
    evaluates the kernel twice per pair to predict.

    Raises
    ------
    ValueError
        A kernel that is not positive semidefinite, or has NaN.
    SolverError
        At the first machine without a solution.
    """
    X, codes, base = examples.X, examples.codes, examples.base
    # A linear machine with an intercept does not depend on the origin; products of centred points round less.
    center = X.mean(axis=0) if machine.fit_intercept and base.kernel == "linear" and not sp.issparse(X) else None
    source = _kernel_of_rows(X if center is None else X - center, base)
    end = None if machine.max_seconds is None else time.monotonic() + machine.max_seconds
    callback, rng = callback_of(machine), generator(machine.random_state)
    done: list[PairMachine] = []
    stop = _StopRequest(callback)
    for first, second in combinations(range(len(machine.classes_)), 2):
        rows = np.flatnonzero((codes == first) | (codes == second))
        signs = np.where(codes[rows] == second, 1.0, -1.0)
        kernel = source(rows)
        if center is not None:  # what centring rounds counts as given where a proof is exact
            kernel.points = X[rows]
        problem = MarginProblem.build(
            kernel,
            signs,
            C=float(machine.C),
            sample_weight=examples.weights[rows],
            squared_hinge=bool(machine.squared_hinge),
            intercept=bool(machine.fit_intercept),
        )
        train = partial(
            train_margin,
            problem,
            solver=machine.solver,
            tol=float(machine.tol),
            max_iter=machine.max_iter,
            max_seconds=None if end is None else max(end - time.monotonic(), 1e-3),
            random_state=rng,
        )
        try:
            try:
                result = train(callback=stop if callback is not None or stop.asked else None)
            except KeyboardInterrupt:  # before its first point
                if not done:
                    raise
                take_interrupt()
                stop.asked = True
                result = train(callback=stop)
        except IndefiniteKernelError as error:
            refuse(replace(error.negative, rows=rows[error.negative.rows]), error.n, base)
        except ValueError as error:  # the arguments are checked: it is the kernel
            if "kernel" in str(error):
                raise
            raise ValueError(f"kernel {base.name}: {error}") from error
        if base.is_precomputed and X.shape[0] > WHOLE:
            check_support(X, rows[result.support], base)
        if center is not None:
            weights_of_features = (signs * result.alpha) @ (X[rows] - center)
            result = replace(result, intercept=result.intercept - float(weights_of_features @ center))
        stop.asked = stop.asked or result.exit_reason is ExitReason.INTERRUPTED
        if result.status in (Status.INFEASIBLE, Status.UNBOUNDED) or result.exit_reason is ExitReason.NONFINITE:
            failure = SolverError(result)
            if result.exit_reason is ExitReason.NONFINITE:  # its status has words for other problems only
                failure.args = (f"No machine was found. {result.advice}",)
            failure.add_note(f"Classes {machine.classes_[first]} and {machine.classes_[second]}.")
            raise failure
        done.append(PairMachine(rows, signs, first, second, result))
    return done


class _StopRequest:
    """The user's callback; once it has asked to stop, every later machine stops at its first record."""

    def __init__(self, callback: Callable[[Any], Any] | None) -> None:
        self.callback, self.asked = callback, False

    def __call__(self, record: Any) -> bool:
        self.asked = self.asked or bool(self.callback is not None and self.callback(record))
        return self.asked


def _kernel_of_rows(X: Any, base: KernelFunction) -> Callable[[np.ndarray], Any]:
    """What :func:`train_margin` takes as kernel, for any rows of X.

    A function is evaluated once, on all of X: a learned kernel solves triangular systems at every call. So is a kernel
    that may not be positive semidefinite.
    """
    n = X.shape[0]
    if base.is_precomputed or not base.is_definite:
        if base.is_precomputed:
            check_given(X)
            if X.shape[0] <= WHOLE:
                check_spectrum(X, np.arange(len(X)), base)
        K = X if base.is_precomputed else checked_values(X, base)
        whole = kernel_source(K, "precomputed")
        return lambda rows: whole if len(rows) == n else kernel_source(K[np.ix_(rows, rows)], "precomputed")
    if sp.issparse(X):
        return lambda rows: kernel_source(base(X[rows]), "precomputed")
    given = {"gamma": 1.0} | {name: value for name, value in base.params.items() if value is not None}
    return lambda rows: kernel_source(X if len(rows) == n else X[rows], base.kernel, **given)


# ---------------------------------------------------------------------- decisions
def sums_of_pairs(K: np.ndarray, dual_coef: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Decision values of all pairs but for the offsets, shape (m, n_pairs).

    Every support vector is used for the pairs of its own class only: m s (k - 1) multiplications in all.

    Parameters
    ----------
    K : ndarray, shape (m, s)
        Kernel values with the support.
    dual_coef : ndarray, shape (k - 1, s)
    n_support : ndarray of int, shape (k,)
    """
    k = len(n_support)
    if k == 2:
        return K @ dual_coef.T
    ends = np.cumsum(n_support)
    parts = [K[:, end - n : end] @ dual_coef[:, end - n : end].T for n, end in zip(n_support, ends)]
    return np.stack([parts[i][:, j - 1] + parts[j][:, i] for i, j in combinations(range(k), 2)], axis=1)


def votes(pairs: np.ndarray, k: int) -> np.ndarray:
    """How many pairs each of k classes wins, shape (m, k); values of pairs are positive for the first class of the pair."""
    won = np.zeros((len(pairs), k))
    for column, (first, second) in enumerate(combinations(range(k), 2)):
        won[:, first] += pairs[:, column] > 0
        won[:, second] += ~(pairs[:, column] > 0)
    return won
