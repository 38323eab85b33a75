"""Kernels as a margin machine needs them: rows in float32 to find the support, blocks in float64 to prove it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from bregmat._kernels import kernel_rows
from bregmat.checks import check_number, check_positive

UNIT = 2.0**-24  # float32 rounds by at most this, relatively
PARALLEL_FLOP = 2e8  # below, starting threads costs more than they save
FEW_FEATURES = 8  # up to here differences are as quick as products, and do not cancel
CANCELS, OVERFLOWS = 1e5, 1e30  # mean and largest gamma |x - mean|^2 beyond which differences are taken
SAMPLED = 64  # rows and columns of a given matrix that are compared
_TOLERANCE = 1e-8  # asymmetry of a given matrix that counts as rounding


_TEAM = threading.Lock()  # Numba's simplest scheduler cannot serve two threads at once


def _run(work: float, serial: Callable[..., None], parallel: Callable[..., None], *arguments: Any) -> None:
    """The parallel loop where there is enough to do and nobody else runs one, else the serial one."""
    if work > PARALLEL_FLOP and _TEAM.acquire(blocking=False):
        try:
            parallel(*arguments)
        finally:
            _TEAM.release()
    else:
        serial(*arguments)


class KernelSource(Protocol):
    """A kernel matrix over n samples that is never formed as a whole.

    ``nonnegative`` says that no entry is below 0, as far as is known without looking; ``given`` is the whole matrix where there
    is one; ``rounding`` what its entries may be off by, relative to the largest.
    """

    n: int
    nonnegative: bool
    given: np.ndarray | None
    rounding: float

    def diagonal(self) -> np.ndarray:
        """``K_ii``, float64 of shape (n,)."""

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """``K[rows][:, columns]``, a new C-contiguous array; in float64 to full accuracy."""

    def fill(self, out: np.ndarray, first: int, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        """``out[first + i, j] = K[rows_i, columns_j]`` in float32, ``out`` C-contiguous; all columns by default."""

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """``K[rows][:, columns] @ weight`` in float64, shape (len(rows),), without the block; half the work for ``rows is columns``."""

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """``signs_i signs_j K_ij`` over ``rows``, float64, symmetric; ``signs`` has one entry per entry of ``rows``."""

    def fill_error(self) -> np.ndarray:
        """Proven bound of the relative error of the entries that :meth:`fill` gives, per column; shape (n,)."""


class Blocks:
    """What follows from ``block`` in float64 alone."""

    n: int
    nonnegative = False
    given: np.ndarray | None = None  # the whole matrix, where there is one
    rounding = 16 * float(np.finfo(float).eps)

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        raise NotImplementedError

    def fill(self, out: np.ndarray, first: int, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        columns = np.arange(self.n) if columns is None else columns
        for some in _strips(len(rows), len(columns)):
            out[first : first + len(rows), : len(columns)][some] = self.block(rows[some], columns, np.float32)

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        out = np.zeros(len(rows))
        if len(columns) == 0:
            return out
        for some in _strips(len(rows), len(columns)):
            out[some] = self.block(rows[some], columns) @ weight
        return out

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        K = self.block(rows, rows)
        K *= signs
        K *= signs[:, None]
        return K

    def fill_error(self) -> np.ndarray:
        return np.full(self.n, UNIT)


class Gaussian(Blocks):
    """``exp(-gamma |x - x'|^2)``.

    Points are centred, so that ``exp(z.z' - |z|^2/2 - |z'|^2/2)`` with ``z = sqrt(2 gamma) (x - mean)`` loses little in float32.
    """

    nonnegative = True

    def __init__(self, X: np.ndarray, gamma: float) -> None:
        self.n, self.n_features = X.shape
        self.X, self.gamma, self.mean = X, gamma, X.mean(0, dtype=np.float64)
        self.Z = np.empty(X.shape, np.float32)
        root = np.sqrt(2.0 * gamma)
        step = max(1, 200_000 // max(1, X.shape[1]))
        for start in range(0, self.n, step):
            self.Z[start : start + step] = (X[start : start + step] - self.mean) * root
        self.h = 0.5 * np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64 if self.n_features > 64 else None)
        self.h = self.h.astype(np.float32, copy=False)
        self.ZT = np.ascontiguousarray(self.Z.T) if self.n_features <= FEW_FEATURES else None

    def diagonal(self) -> np.ndarray:
        return np.ones(self.n)

    def fill(self, out: np.ndarray, first: int, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        work = len(rows) * (self.n if columns is None else len(columns)) * (2.0 * self.n_features + 20)
        if self.ZT is not None:
            ZT = self.ZT if columns is None else np.ascontiguousarray(self.ZT[:, columns])
            near = kernel_rows.gaussian_near_rows_inplace, kernel_rows.gaussian_near_rows_parallel_inplace
            _run(work, *near, out, first, self.Z[rows], ZT)
            return
        Z, h = (self.Z, self.h) if columns is None else (self.Z[columns], self.h[columns])
        kernels = kernel_rows.gaussian_rows_inplace, kernel_rows.gaussian_rows_parallel_inplace
        _run(work, *kernels, out, first, self.Z[rows], self.h[rows], Z, h)

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        out = np.empty((len(rows), len(columns)), dtype)
        if out.dtype == np.float32:
            self.fill(out, 0, rows, columns)
        else:
            self._block64(out, rows, np.ones(len(rows)), columns, np.ones(len(columns)))
        return out

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), len(rows)))
        self._block64(out, rows, signs, rows, signs)
        np.fill_diagonal(out, 1.0)
        return out

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        (A, hA), out = self._exact(rows), np.zeros(len(rows))
        B, hB = (A, hA) if rows is columns else self._exact(columns)
        work = len(rows) * len(columns) * (2.0 * self.n_features + 40)
        kernels = kernel_rows.gaussian_sums_inplace, kernel_rows.gaussian_sums_parallel_inplace
        _run(work, *kernels, out, A, hA, B, hB, weight, 2.0 * self.gamma, rows is columns)
        return out

    def _block64(self, out: np.ndarray, rows: np.ndarray, sA: np.ndarray, columns: np.ndarray, sB: np.ndarray) -> None:
        A, hA = self._exact(rows)
        B, hB = (A, hA) if rows is columns else self._exact(columns)
        work = out.size * (2.0 * self.n_features + 40)
        kernels = kernel_rows.gaussian_block_inplace, kernel_rows.gaussian_block_parallel_inplace
        _run(work, *kernels, out, A, hA, sA, B, hB, sB, 2.0 * self.gamma, rows is columns)

    def _exact(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centred points in float64 and ``gamma |x|^2``."""
        A = self.X[rows] - self.mean
        return A, self.gamma * np.einsum("ij,ij->i", A, A)

    def fill_error(self) -> np.ndarray:
        # With a = |z_i|, b = |z_j|, u = UNIT, d features, the exponent -|z_i - z_j|^2 / 2 is off by at most
        #   u (a + b)^2         z rounded to float32, every component by u (and the half u^2 (a + b)^2, in the factor 1.01)
        #   d u a b             a product of d terms in any order, with or without fused multiply-add
        #   u (a^2 + b^2) / 2   h rounded (times d more where it is summed in float32, d <= 64: in the bound through a b, b b)
        #   u 2 (ab + a^2/2 + b^2/2)   two subtractions
        # and exp_f32 adds 2e-7 of its own. Cutting the exponent at 0 brings it nearer; at -87 it changes 2e-38.
        a = np.sqrt(2.0 * self.h.astype(float)) * (1 + 1e-6)
        b = float(a.max())
        d = float(self.n_features)
        summed = d if self.n_features <= 64 else 1.0
        exponent = 1.01 * UNIT * (2.5 * (a + b) ** 2 + d * a * b + 0.5 * summed * (a * a + b * b))
        return np.expm1(np.minimum(exponent, 50.0)) * (1 + 2e-7) + 2e-7


class Precomputed(Blocks):
    """A kernel matrix that is given. Symmetry is checked on a sample of its entries, NaN where entries are used."""

    def __init__(self, K: np.ndarray) -> None:
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(
                f"a precomputed kernel must be square, one row and column per sample; got shape {K.shape}."
            )
        self.n, self.given, self.K = len(K), K, K
        self.own = np.array(np.diagonal(K), dtype=float)
        if K.dtype == np.float32:
            self.rounding = float(np.finfo(np.float32).eps)
        self._check_sample()

    def _check_sample(self) -> None:
        rng = np.random.default_rng(0)
        rows, columns = (np.sort(rng.permutation(self.n)[:SAMPLED]) for _ in range(2))
        there, back = self.block(rows, columns), self.block(columns, rows).T
        allowed = (_TOLERANCE if self.K.dtype == np.float64 else 1e-5) * np.abs(there).max(initial=0.0)
        off = np.argwhere(np.abs(there - back) > allowed)
        if len(off):
            i, j = rows[off[0, 0]], columns[off[0, 1]]
            raise ValueError(
                f"the precomputed kernel must be symmetric; got {self.K[i, j]:.8g} in row {i}, column {j} and "
                f"{self.K[j, i]:.8g} the other way round."
            )

    def fill(self, out: np.ndarray, first: int, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        kernel_rows.gather_inplace(out, first, self.K, rows, np.arange(self.n) if columns is None else columns)

    def diagonal(self) -> np.ndarray:
        return self.own

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        out = np.empty((len(rows), len(columns)), dtype)
        kernel_rows.gather_inplace(out, 0, self.K, rows, columns)
        bad = np.flatnonzero(~np.isfinite(out @ np.ones(len(columns), dtype)))
        if len(bad):
            raise ValueError(f"the precomputed kernel must be finite; row {rows[bad[0]]} is not.")
        return out


class Pairwise(Blocks):
    """Any function of two arrays of points, called block by block; checked for shape and NaN at every call."""

    def __init__(self, X: np.ndarray, function: Callable[..., Any], name: str) -> None:
        self.n, self.X, self.function, self.name = len(X), X, function, name
        self.own: np.ndarray | None = None

    def diagonal(self) -> np.ndarray:
        if self.own is None:
            self.own = np.empty(self.n)
            for start in range(0, self.n, 64):
                some = np.arange(start, min(start + 64, self.n))
                self.own[some] = np.diagonal(self.block(some, some))
        return self.own

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        K = np.asarray(self.function(self.X[rows], self.X[columns]), dtype=float)
        if K.shape != (len(rows), len(columns)):
            raise ValueError(
                f"kernel {self.name} must return an array of shape (n, m) for n and m points; "
                f"got {K.shape} for {len(rows)} and {len(columns)}."
            )
        bad = np.flatnonzero(~np.isfinite(K).all(1))
        if len(bad):
            raise ValueError(f"kernel {self.name} is not finite in row {rows[bad[0]]}.")
        return np.ascontiguousarray(K, dtype=dtype)


def _strips(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows whose blocks of ``width`` columns have at most 2 million entries."""
    step = max(1, 2_000_000 // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def kernel_source(
    X: Any,
    kernel: str | Callable[..., Any] = "rbf",
    *,
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 0.0,
) -> KernelSource:
    """A kernel over the rows of X.

    Parameters
    ----------
    X : array_like of shape (n, d), float
        Samples; for "precomputed" the kernel matrix (n, n). float32 stays float32 in memory.
    kernel : str or callable, default "rbf"
        "rbf", "linear", "poly", "sigmoid", "precomputed", any other name of ``sklearn.metrics.pairwise``, or a function of
        ``(X, Y)`` that returns an array of shape (n, m).
    gamma : float, "scale" or "auto", default "scale"
        Kernel coefficient in 1 / units of X squared; "scale" is ``1 / (d * X.var())``, "auto" ``1 / d``.
    degree : float, default 3
        Of "poly".
    coef0 : float, default 0.0
        Added to the inner product in "poly" and "sigmoid".

    Raises
    ------
    TypeError, ValueError
        For bad shapes, NaN in X, unknown names and parameters out of range.
    """
    X = np.asarray(X)
    X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be two-dimensional with at least one row and column; got shape {X.shape}.")
    if isinstance(kernel, str) and kernel == "precomputed":
        return Precomputed(X)
    bad = np.flatnonzero(~np.isfinite(X.sum(1)))
    if len(bad):
        raise ValueError(f"X must be finite; row {bad[0]} is not ({len(bad)} such rows).")
    if callable(kernel):
        return Pairwise(X, kernel, getattr(kernel, "__name__", "function"))
    if not isinstance(kernel, str):
        raise TypeError(f"kernel must be a name or a function of (X, Y); got {kernel!r}.")
    for name, value in (("degree", degree), ("coef0", coef0)):
        check_number(name, value)
    width = _width(X, gamma)
    if kernel == "rbf":
        with np.errstate(over="ignore", invalid="ignore"):
            source = Gaussian(X, width)
            fits = bool(source.h.max() <= OVERFLOWS) and float(source.h.mean(dtype=np.float64)) <= CANCELS
        return source if fits else _wide_gaussian(X, width)
    if kernel == "linear":
        return Pairwise(X, lambda A, B: A @ B.T, kernel)
    if kernel in ("poly", "polynomial"):
        return Pairwise(X, lambda A, B: (width * (A @ B.T) + coef0) ** degree, kernel)
    if kernel == "sigmoid":
        return Pairwise(X, lambda A, B: np.tanh(width * (A @ B.T) + coef0), kernel)
    from sklearn.metrics.pairwise import KERNEL_PARAMS, PAIRWISE_KERNEL_FUNCTIONS

    if kernel not in PAIRWISE_KERNEL_FUNCTIONS:
        known = sorted({"rbf", "linear", "poly", "sigmoid", "precomputed", *PAIRWISE_KERNEL_FUNCTIONS})
        raise ValueError(f"kernel must be a function or one of {', '.join(known)}; got {kernel!r}.")
    function = PAIRWISE_KERNEL_FUNCTIONS[kernel]
    given = {"gamma": width} if "gamma" in KERNEL_PARAMS.get(kernel, ()) else {}
    return Pairwise(X, lambda A, B: function(A, B, **given), kernel)


def _wide_gaussian(X: np.ndarray, gamma: float) -> Pairwise:
    """The Gaussian kernel from differences, where products would overflow in float32 or cancel in float64."""

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(-gamma * cdist(A, B, "sqeuclidean"))

    source = Pairwise(X, kernel, "rbf")
    source.nonnegative = True
    return source


def _width(X: np.ndarray, gamma: float | str) -> float:
    """The kernel coefficient as a number."""
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be positive, 'scale' or 'auto'; got {gamma!r}.")
        spread = float(X.var(dtype=np.float64)) if gamma == "scale" else 1.0
        return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
    check_positive("gamma", gamma, finite=True)
    return float(gamma)
