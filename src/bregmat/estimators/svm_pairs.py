"""One machine for every pair of classes, and their joint layout. See :class:`MarginSVC`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

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
from bregmat.result import ExitReason, SolverError, Status

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
class SupportLayout:
    """Machines in the order of :class:`sklearn.svm.SVC`: support by class, one row of coefficients per other class."""

    support: np.ndarray  # (s,) row numbers, ascending within a class
    n_support: np.ndarray  # (k,)
    dual_coef: np.ndarray  # (k - 1, s)
    intercept: np.ndarray  # (k (k - 1) / 2,)

    @classmethod
    def of(cls, pairs: list[PairMachine], codes: np.ndarray) -> SupportLayout:
        """Collect the machines of all pairs; with more than two classes the first of a pair is the positive one."""
        k = pairs[-1].second + 1
        table = np.zeros((k - 1, len(codes)))
        for pair in pairs:
            coefficients = pair.coefficients if k == 2 else -pair.coefficients
            in_first = codes[pair.rows] == pair.first
            table[pair.second - 1, pair.rows[in_first]] = coefficients[in_first]
            table[pair.first, pair.rows[~in_first]] = coefficients[~in_first]
        used = np.flatnonzero(table.any(axis=0))
        support = used[np.argsort(codes[used], kind="stable")]
        intercept = np.array([pair.result.intercept for pair in pairs])
        counts = np.bincount(codes[support], minlength=k).astype(np.int32)
        return cls(support.astype(np.int32), counts, table[:, support], intercept if k == 2 else -intercept)


def pair_decisions(K: np.ndarray, n_support: np.ndarray, dual_coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Decision values of all pairs, shape (m, n_pairs), from kernel values with the support (m, s).

    Every support vector is used for the pairs of its own class only: m s (k - 1) multiplications in all.
    """
    k = len(n_support)
    if k == 2:
        return K @ dual_coef.T + intercept
    ends = np.cumsum(n_support)
    parts = [K[:, end - n : end] @ dual_coef[:, end - n : end].T for n, end in zip(n_support, ends)]
    pairs = combinations(range(k), 2)
    return np.stack([parts[i][:, j - 1] + parts[j][:, i] for i, j in pairs], axis=1) + intercept


@dataclass(frozen=True)
class TrainingSettings:
    """What every pair is trained with; times in seconds."""

    C: float
    squared_hinge: bool
    fit_intercept: bool
    solver: Any
    tol: float
    max_iter: int | None
    max_seconds: float | None
    callback: Callable[[Any], Any] | None
    random_state: Any

    def problem(self, kernel: Any, signs: np.ndarray, weights: np.ndarray) -> MarginProblem:
        """The program of one pair; ``weights`` multiply C."""
        return MarginProblem.build(
            kernel,
            signs,
            C=self.C,
            sample_weight=weights,
            squared_hinge=self.squared_hinge,
            intercept=self.fit_intercept,
        )


def train_pairs(
    X: Any, base: KernelFunction, codes: np.ndarray, weights: np.ndarray, settings: TrainingSettings
) -> Iterator[PairMachine]:
    """Train one machine per pair of classes.

    ``OneVsOneClassifier`` would do the same fits, but takes weights only under a global switch (metadata routing), copies
    a kernel that is a function (with a learner and its data) for every pair, knows no time limit for all pairs together, and
    evaluates the kernel twice per pair to predict.

    Raises
    ------
    ValueError
        A kernel that is not positive semidefinite, or has NaN.
    """
    # A linear machine with an intercept does not depend on the origin; products of centred points round less.
    center = X.mean(axis=0) if settings.fit_intercept and base.kernel == "linear" and not sp.issparse(X) else None
    source = kernel_of_rows(X if center is None else X - center, base)
    n_classes = int(codes.max()) + 1
    end = None if settings.max_seconds is None else time.monotonic() + settings.max_seconds
    stop = _StopRequest(settings.callback)
    for first, second in combinations(range(n_classes), 2):
        rows = np.flatnonzero((codes == first) | (codes == second))
        signs = np.where(codes[rows] == second, 1.0, -1.0)
        problem = settings.problem(source(rows), signs, weights[rows])
        try:
            result = train_margin(
                problem,
                solver=settings.solver,
                tol=settings.tol,
                max_iter=settings.max_iter,
                max_seconds=None if end is None else max(end - time.monotonic(), 1e-3),
                callback=stop if settings.callback is not None or stop.asked else None,
                random_state=settings.random_state,
            )
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
        yield PairMachine(rows, signs, first, second, result)


class _StopRequest:
    """The user's callback; once it has asked to stop, every later machine stops at its first record."""

    def __init__(self, callback: Callable[[Any], Any] | None) -> None:
        self.callback, self.asked = callback, False

    def __call__(self, record: Any) -> bool:
        self.asked = self.asked or bool(self.callback is not None and self.callback(record))
        return self.asked


def example_weights(
    X: Any, y: np.ndarray, codes: np.ndarray, classes: np.ndarray, sample_weight: Any, class_weight: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the examples, shape (n,), without those of the classes, which come second, shape (k,)."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    counts = np.bincount(codes, weights, minlength=len(classes))
    if not (counts > 0).all():
        raise ValueError(f"sample_weight must not be 0 for every example of class {classes[counts.argmin()]}.")
    if isinstance(class_weight, str) and class_weight == "balanced":
        by_class = counts.sum() / (len(classes) * counts)
    else:
        by_class = compute_class_weight(class_weight, classes=classes, y=y)
    if not (np.isfinite(by_class).all() and (by_class > 0).all()):
        raise ValueError(f"class_weight must be positive and finite; got {class_weight!r}.")
    return weights, by_class


def kernel_of_rows(X: Any, base: KernelFunction) -> Callable[[np.ndarray], Any]:
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


def solved_machines(pairs: Iterator[PairMachine], classes: np.ndarray) -> list[PairMachine]:
    """All machines; the first without a solution raises ``SolverError``."""
    done = []
    for pair in pairs:
        result = pair.result
        if result.status in (Status.INFEASIBLE, Status.UNBOUNDED) or result.exit_reason is ExitReason.NONFINITE:
            error = SolverError(result)
            if result.exit_reason is ExitReason.NONFINITE:  # its status has words for other problems only
                error.args = (f"No machine was found. {result.advice}",)
            error.add_note(f"Classes {classes[pair.first]} and {classes[pair.second]}.")
            raise error
        done.append(pair)
    return done
