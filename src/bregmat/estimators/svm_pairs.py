"""One machine for every pair of classes, and their joint layout. See :class:`MarginSVC`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from bregmat._kernels.kernel_rows import asymmetry
from bregmat.estimators.kernels import BaseKernel
from bregmat.margin import MarginProblem, MarginResult, kernel_source, train_margin
from bregmat.margin.definite import IndefiniteKernelError, Negative, described, negative_eigenvalue
from bregmat.result import ExitReason, SolverError, Status

CACHED = 100_000  # numbers at a time, where a second pass over them shall not go to memory
WHOLE = 500  # training examples up to which the spectrum of a given kernel is looked at as a whole
MOST_SUPPORT, SAMPLE = 1000, 300  # beyond: on so many support vectors, and so many examples at random
ASYMMETRY, SINGLE_ASYMMETRY = 1e-8, 1e-5  # of a kernel, relative to its largest value, that is taken for rounding
DEFINITE = ("rbf", "linear", "laplacian", "chi2", "cosine")
_EPS = float(np.finfo(float).eps)  # coefficients below it, relative to the largest, count as 0 (Sha 2002, footnote 2)


@dataclass(frozen=True, eq=False)
class Pair:
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
class Layout:
    """Machines in the order of :class:`sklearn.svm.SVC`: support by class, one row of coefficients per other class."""

    support: np.ndarray  # (s,) row numbers, ascending within a class
    n_support: np.ndarray  # (k,)
    dual_coef: np.ndarray  # (k - 1, s)
    intercept: np.ndarray  # (k (k - 1) / 2,)

    @classmethod
    def of(cls, pairs: list[Pair], codes: np.ndarray) -> Layout:
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
class Machine:
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


def train_pairs(X: Any, base: BaseKernel, codes: np.ndarray, weights: np.ndarray, machine: Machine) -> Iterator[Pair]:
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
    center = X.mean(axis=0) if machine.fit_intercept and base.kernel == "linear" and not sp.issparse(X) else None
    source = kernel_of_rows(X if center is None else X - center, base)
    n_classes = int(codes.max()) + 1
    end = None if machine.max_seconds is None else time.monotonic() + machine.max_seconds
    stop = _Stop(machine.callback)
    for first, second in combinations(range(n_classes), 2):
        rows = np.flatnonzero((codes == first) | (codes == second))
        signs = np.where(codes[rows] == second, 1.0, -1.0)
        problem = machine.problem(source(rows), signs, weights[rows])
        try:
            result = train_margin(
                problem,
                solver=machine.solver,
                tol=machine.tol,
                max_iter=machine.max_iter,
                max_seconds=None if end is None else max(end - time.monotonic(), 1e-3),
                callback=stop if machine.callback is not None or stop.asked else None,
                random_state=machine.random_state,
            )
        except IndefiniteKernelError as error:
            refuse(replace(error.negative, rows=rows[error.negative.rows]), error.n, base)
        except ValueError as error:  # the arguments are checked: it is the kernel
            if "kernel" in str(error):
                raise
            raise ValueError(f"kernel {name_of(base)}: {error}") from error
        if base.is_precomputed and X.shape[0] > WHOLE:
            check_support(X, rows[result.support], base)
        if center is not None:
            weights_of_features = (signs * result.alpha) @ (X[rows] - center)
            result = replace(result, intercept=result.intercept - float(weights_of_features @ center))
        stop.asked = stop.asked or result.exit_reason is ExitReason.INTERRUPTED
        yield Pair(rows, signs, first, second, result)


class _Stop:
    """The user's callback; once it has asked to stop, every later machine stops at its first record."""

    def __init__(self, callback: Callable[[Any], Any] | None) -> None:
        self.callback, self.asked = callback, False

    def __call__(self, record: Any) -> bool:
        self.asked = self.asked or bool(self.callback is not None and self.callback(record))
        return self.asked


def gamma_of(X: Any, weights: np.ndarray, gamma: str) -> float:
    """1 / (d var) or 1 / d, as in ``SVC``; with the weights in the variance, so that weight 2 is the point twice."""
    d = X.shape[1]
    if gamma == "auto":
        return 1.0 / d
    share = weights / (d * weights.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            squares, sums = (np.asarray(part.sum(axis=1)).ravel() for part in (X.multiply(X), X))
            variance = float(share @ squares - (share @ sums) ** 2)
        else:
            mean, variance = float(share @ X.sum(axis=1)), 0.0
            step = max(1, CACHED // d)
            for start in range(0, len(X), step):
                Z = X[start : start + step] - mean
                variance += float(share[start : start + step] @ np.einsum("ij,ij->i", Z, Z))
    if not variance < 1e305:
        raise ValueError(f"X is too large for gamma='scale': its variance is {variance:.3g}. Scale the features.")
    return 1.0 / (d * variance) if variance > 0 else 1.0


def kernel_of_rows(X: Any, base: BaseKernel) -> Callable[[np.ndarray], Any]:
    """What :func:`train_margin` takes as kernel, for any rows of X.

    A function is evaluated once, on all of X: a learned kernel solves triangular systems at every call. So is a kernel
    that may not be positive semidefinite.
    """
    n = X.shape[0]
    if base.is_precomputed or not is_definite(base):
        if base.is_precomputed:
            check_given(X, base)
        K = X if base.is_precomputed else function_values(X, base)
        whole = kernel_source(K, "precomputed")
        return lambda rows: whole if len(rows) == n else kernel_source(K[np.ix_(rows, rows)], "precomputed")
    if sp.issparse(X):
        return lambda rows: kernel_source(base(X[rows]), "precomputed")
    given = {"gamma": 1.0} | {name: value for name, value in base.params.items() if value is not None}
    return lambda rows: kernel_source(X if len(rows) == n else X[rows], base.kernel, **given)


def function_values(X: Any, base: BaseKernel) -> np.ndarray:
    """Values of a kernel that is a function, or none, between all training points, checked."""
    K = base(X)
    base.check_definite(K)
    off = float(np.abs(K - K.T).max())
    if off > ASYMMETRY * float(np.abs(K).max()):
        raise ValueError(f"kernel {name_of(base)} must be symmetric; the largest difference K_ij - K_ji is {off:.3g}.")
    K = (K + K.T) / 2
    check_spectrum(K, np.arange(len(K)), base)
    return K


def check_given(K: np.ndarray, base: BaseKernel) -> None:
    """Raise for a precomputed kernel that is not symmetric, or not positive semidefinite on up to ``WHOLE`` examples."""
    off, i, j = asymmetry(K)
    tolerance = ASYMMETRY if K.dtype == np.float64 else SINGLE_ASYMMETRY
    if off > tolerance * float(np.abs(np.diagonal(K)).max()):  # which bounds all entries, or the spectrum shows it
        raise ValueError(
            f"X must be symmetric with kernel='precomputed'; X[{i}, {j}] is {K[i, j]:.8g} and X[{j}, {i}] is {K[j, i]:.8g}. "
            "If that is rounding, pass (X + X.T) / 2."
        )
    if len(K) <= WHOLE:
        check_spectrum(K, np.arange(len(K)), base)


def check_support(K: np.ndarray, support: np.ndarray, base: BaseKernel) -> None:
    """Raise for a negative eigenvalue between a machine's support vectors, ``MOST_SUPPORT`` at most, and others at random."""
    rng = np.random.default_rng(0)
    chosen = rng.permutation(support)[:MOST_SUPPORT]
    rows = np.union1d(chosen, rng.permutation(len(K))[:SAMPLE])
    check_spectrum(K[np.ix_(rows, rows)], rows, base)


def check_spectrum(K: np.ndarray, rows: np.ndarray, base: BaseKernel) -> None:
    """Raise if ``K``, the kernel between training examples ``rows``, has a negative eigenvalue beyond rounding."""
    single = K.dtype == np.float32 or base.rounding > 0
    found = negative_eigenvalue(K, float(np.finfo(np.float32 if single else np.float64).eps))
    if found is not None:
        refuse(replace(found, rows=rows[found.rows]), len(K), base)


def refuse(negative: Negative, n: int, base: BaseKernel) -> NoReturn:
    """The error for a kernel with a negative eigenvalue; ``negative.rows`` are rows of the training data."""
    text = described(negative, n)
    raise ValueError(f"kernel {name_of(base)} must be positive semidefinite on the training data; {text}")


def name_of(base: BaseKernel) -> str:
    """The kernel in words."""
    return repr(base.kernel) if isinstance(base.kernel, str) else getattr(base.kernel, "__name__", "a function")


def is_definite(base: BaseKernel) -> bool:
    """Whether the kernel is known to be positive semidefinite without looking at its values."""
    if base.kernel in ("poly", "polynomial"):
        degree, coef0 = base.params["degree"], base.params["coef0"]
        return bool(coef0 >= 0 and degree >= 0 and float(degree).is_integer())
    return base.kernel in DEFINITE


def settled(pairs: Iterator[Pair], classes: np.ndarray) -> list[Pair]:
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
