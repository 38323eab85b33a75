"""Kernel matrices that are never formed as a whole: rows in float32 to find a solution, blocks in float64 to prove it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat._kernels import kernel_rows, vectors
from bregmat.base.checks import SINGLE_SYMMETRY, SYMMETRY, as_numbers, asymmetry
from bregmat.base.linalg import EPS, blocks, sq_norms
from bregmat.base.threads import cached_property, in_parts
from bregmat.kernels.functions import KernelFunction, check_gamma_rule, gamma_of, pair_values

UNIT = 2.0**-24  # float32 rounds by at most this, relatively
DOUBLE = 2.0**-53  # and float64 by this
FLOPS = 20.0  # operations that a product or an exponential does in a nanosecond
PARTS = 16  # vectors that the sums of a large symmetric block are taken in, whatever the threads
SMALL = 16_384  # entries of a block up to which its sums are taken of all of it: what is compiled for the block serves
FEW_FEATURES = 8  # up to here differences are as quick as products, and do not cancel
CANCELS, OVERFLOWS = 1e5, 1e30  # mean and largest gamma |x - mean|^2 beyond which differences are taken
STRIP = 2_000_000  # entries of a block at a time
SAMPLED = 64  # rows and columns of a given matrix that are compared


class KernelSource(ABC):
    """A kernel matrix over n samples that is never formed as a whole.

    A subclass gives ``n``, :meth:`diagonal` and :meth:`block`; the rest follows from ``block`` in float64, unless the subclass
    knows a faster way.

    Attributes
    ----------
    n : int
        Number of samples.
    nonnegative : bool
        No entry is below 0, as far as is known without looking.
    given : ndarray, shape (n, n), or None
        The whole matrix, where there is one.
    rounding : float
        What the entries may be off by, relative to the largest.
    """

    n: int
    nonnegative: bool = False
    given: np.ndarray | None = None
    rounding: float = 16 * EPS

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """``K_ii``, float64 of shape (n,)."""

    @abstractmethod
    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """``K[rows][:, columns]``, a new C-contiguous array; in float64 to full accuracy."""

    @abstractmethod
    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        """Numbers without rounding that tell some samples apart, shape (len(rows), m), and whether their sums are those of the samples.

        For a matrix that is given these are its entries. For other kernels these are the points, and sums are known for the linear
        kernel alone: the values of others are rounded.
        """

    def fill(self, out: np.ndarray, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        """``out[i, j] = K[rows_i, columns_j]`` in float32, ``out`` C-contiguous and at least that large; all columns by default."""
        columns = np.arange(self.n) if columns is None else columns
        for some in blocks(len(rows), len(columns), STRIP):
            out[: len(rows), : len(columns)][some] = self.block(rows[some], columns, np.float32)

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """``K[rows][:, columns] @ weight`` in float64, shape (len(rows),), without the block; half the work for ``rows is columns``."""
        out = np.zeros(len(rows))
        if len(columns) == 0:
            return out
        for some in blocks(len(rows), len(columns), STRIP):
            out[some] = self.block(rows[some], columns) @ weight
        return out

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """``signs_i signs_j K_ij`` over ``rows``, float64, symmetric; ``signs`` has one entry per entry of ``rows``."""
        K = self.block(rows, rows)
        K *= signs
        K *= signs[:, None]
        return K

    def fill_error(self) -> np.ndarray:
        """Proven bound of the relative error of the entries that :meth:`fill` gives, per column; shape (n,)."""
        return np.full(self.n, UNIT)

    def block_error(self) -> float:
        """Proven bound of the error of the entries in float64, relative to ``sqrt(K_ii K_jj)``."""
        return self.rounding


class Gaussian(KernelSource):
    """``exp(-gamma |x - x'|^2)``.

    Points are centred, so that ``exp(z.z' - |z|^2/2 - |z'|^2/2)`` with ``z = sqrt(2 gamma) (x - mean)`` loses little in float32.
    """

    nonnegative = True

    def __init__(self, X: np.ndarray, gamma: float) -> None:
        self.n, self.n_features = X.shape
        self.X, self.gamma, self.mean = X, gamma, X.mean(0, dtype=np.float64)
        self.Z = np.empty(X.shape, np.float32)
        root = np.sqrt(2.0 * gamma)
        for part in blocks(self.n, X.shape[1], 200_000):
            self.Z[part] = (X[part] - self.mean) * root
        self.h = 0.5 * np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64 if self.n_features > 64 else None)
        self.h = self.h.astype(np.float32, copy=False)
        self.ZT = np.ascontiguousarray(self.Z.T) if self.n_features <= FEW_FEATURES else None

    def diagonal(self) -> np.ndarray:
        return np.ones(self.n)

    def fill(self, out: np.ndarray, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        n = self.n if columns is None else len(columns)
        work = len(rows) * n * (2.0 * self.n_features + 20) / FLOPS
        if self.ZT is not None:
            ZT = self.ZT if columns is None else np.ascontiguousarray(self.ZT[:, columns])
            near = out, self.Z[rows], ZT
            in_parts(lambda *part: kernel_rows.gaussian_near_rows_inplace(*near, *part), n, work, kernel_rows.CHUNK)
            return
        Z, h = (self.Z, self.h) if columns is None else (self.Z[columns], self.h[columns])
        ones = np.empty(0, np.float32)
        far = out, self.Z[rows], self.h[rows], ones, Z, h, ones, 1.0, False
        in_parts(lambda *part: kernel_rows.gaussian_block_inplace(*far, *part), n, work, kernel_rows.CHUNK)

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        out = np.empty((len(rows), len(columns)), dtype)
        if out.dtype == np.float32:
            self.fill(out, rows, columns)
        else:
            self._block64(out, rows, np.ones(len(rows)), columns, np.ones(len(columns)))
        return out

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), len(rows)))
        self._block64(out, rows, signs, rows, signs)
        np.fill_diagonal(out, 1.0)
        return out

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if len(rows) * len(columns) <= SMALL:
            return self.block(rows, columns) @ weight
        A, hA = self._exact(rows)
        is_square = rows is columns
        B, hB = (A, hA) if is_square else self._exact(columns)
        out = np.zeros((min(PARTS, -(-len(rows) // kernel_rows.HALF)) if is_square else 1, len(rows)))
        both = out, A, hA, B, hB, weight, 2.0 * self.gamma, is_square
        work = len(rows) * len(columns) * (2.0 * self.n_features + 40) / FLOPS
        whole = (len(out), work) if is_square else (len(rows), work, kernel_rows.HALF)
        in_parts(lambda *part: kernel_rows.gaussian_sums_inplace(*both, *part), *whole)
        return out.sum(axis=0) if is_square else out[0]

    def _block64(self, out: np.ndarray, rows: np.ndarray, sA: np.ndarray, columns: np.ndarray, sB: np.ndarray) -> None:
        A, hA = self._exact(rows)
        B, hB = (A, hA) if rows is columns else self._exact(columns)
        work = out.size * (2.0 * self.n_features + 40) / FLOPS
        both = out, A, hA, sA, B, hB, sB, 2.0 * self.gamma, rows is columns
        in_parts(lambda *part: kernel_rows.gaussian_block_inplace(*both, *part), len(columns), work, kernel_rows.HALF)

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.X[rows], False

    def _exact(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centred points in float64 and ``gamma |x|^2``."""
        A = self.X[rows] - self.mean
        return A, self.gamma * sq_norms(A)

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

    def block_error(self) -> float:
        # With h = gamma |z|^2 at most, the exponent 2 gamma z.z' - h - h' is off by at most 2 h DOUBLE times
        #   2 d + 4   a product of d terms, two squared lengths, the coefficient
        #   4 + 6     z rounded by the subtraction of the mean, and two subtractions
        # and exp_f64 adds 4e-16.
        exponent = 4.0 * DOUBLE * (self.n_features + 8.0) * 1.01 * float(self.h.max())
        return float(np.expm1(min(exponent, 50.0))) + 4e-16


class Precomputed(KernelSource):
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
        allowed = (SYMMETRY if self.K.dtype == np.float64 else SINGLE_SYMMETRY) * np.abs(there).max(initial=0.0)
        off = np.argwhere(np.abs(there - back) > allowed)
        if len(off):
            i, j = rows[off[0, 0]], columns[off[0, 1]]
            raise ValueError(
                f"the precomputed kernel must be symmetric; got {self.K[i, j]:.8g} in row {i}, column {j} and "
                f"{self.K[j, i]:.8g} the other way round."
            )

    def fill(self, out: np.ndarray, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        vectors.gather_inplace(out[: len(rows)], self.K, rows, np.arange(self.n) if columns is None else columns)

    def diagonal(self) -> np.ndarray:
        return self.own

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.K[np.ix_(rows, rows)], True

    @cached_property
    def _asymmetry(self) -> float:
        return asymmetry(self.K)[0] / max(float(self.own[self.own > 0].min(initial=np.inf)), 1e-300)

    def block_error(self) -> float:
        return self.rounding + self._asymmetry

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        out = np.empty((len(rows), len(columns)), dtype)
        vectors.gather_inplace(out, self.K, rows, columns)
        bad = np.flatnonzero(~np.isfinite(out @ np.ones(len(columns), dtype)))
        if len(bad):
            raise ValueError(f"the precomputed kernel must be finite; row {rows[bad[0]]} is not.")
        return out


class Pairwise(KernelSource):
    """Any function of two arrays of points, called block by block; checked for NaN at every call."""

    def __init__(self, X: np.ndarray, function: Callable[..., Any], name: str) -> None:
        self.n, self.X, self.function, self.name = len(X), X, function, name
        self.points = X  # before any shift of the origin
        self.own: np.ndarray | None = None

    def diagonal(self) -> np.ndarray:
        if self.own is None:
            every = np.arange(self.n)
            self.own = pair_values(self.block, every, every)
        return self.own

    def block_error(self) -> float:
        # sums over d features, the points' own rounding, and a power; of other functions the values are the kernel
        params = self.function.params if isinstance(self.function, KernelFunction) else {}
        power = float(params.get("degree") or 1.0)
        return max(self.rounding, 2.0 * DOUBLE * (self.X.shape[1] + 16.0) * max(power, 1.0))

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        K = np.asarray(self.function(self.X[rows], self.X[columns]), dtype=float)
        bad = np.flatnonzero(~np.isfinite(K).all(1))
        if len(bad):
            raise ValueError(f"kernel {self.name} is not finite in row {rows[bad[0]]}.")
        return np.ascontiguousarray(K, dtype=dtype)

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.points[rows], isinstance(self.function, KernelFunction) and self.function.kernel == "linear"


class Subset(KernelSource):
    """A kernel restricted to some samples."""

    def __init__(self, kernel: KernelSource, rows: np.ndarray) -> None:
        self.kernel, self.chosen, self.n = kernel, rows, len(rows)
        self.nonnegative, self.rounding = kernel.nonnegative, kernel.rounding

    def diagonal(self) -> np.ndarray:
        return self.kernel.diagonal()[self.chosen]

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return self.kernel.block(self.chosen[rows], self.chosen[columns], dtype)

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.kernel.exact(self.chosen[rows])

    def fill(self, out: np.ndarray, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        self.kernel.fill(out, self.chosen[rows], self.chosen if columns is None else self.chosen[columns])

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return self.kernel.sums(self.chosen[rows], self.chosen[columns], weight)

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return self.kernel.signed_block(self.chosen[rows], signs)

    def fill_error(self) -> np.ndarray:
        return self.kernel.fill_error()[self.chosen]

    def block_error(self) -> float:
        return self.kernel.block_error()


class Scaled(KernelSource):
    """A kernel times a positive number, multiplied in float64."""

    def __init__(self, kernel: KernelSource, factor: float) -> None:
        self.kernel, self.factor, self.n = kernel, factor, kernel.n
        self.nonnegative, self.rounding = kernel.nonnegative, kernel.rounding

    def diagonal(self) -> np.ndarray:
        return self.factor * self.kernel.diagonal()

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.kernel.exact(rows)

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return np.ascontiguousarray(self.factor * self.kernel.block(rows, columns), dtype=dtype)

    def block_error(self) -> float:
        return self.kernel.block_error() + DOUBLE


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
    degree, coef0 : float
        As in :meth:`KernelFunction.of`.

    Raises
    ------
    TypeError, ValueError
        For bad shapes, NaN in X, unknown names and parameters out of range.
    """
    X = np.asarray(X)
    X = np.ascontiguousarray(X if X.dtype in (np.float32, np.float64) else as_numbers("X", X, booleans=True))
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be two-dimensional with at least one row and column; got shape {X.shape}.")
    check_gamma_rule(gamma)
    function = KernelFunction.of(kernel, None if isinstance(gamma, str) else gamma, degree, coef0)
    if function.is_precomputed:
        return Precomputed(X)
    bad = np.flatnonzero(~np.isfinite(X.sum(1)))
    if len(bad):
        raise ValueError(f"X must be finite; row {bad[0]} is not ({len(bad)} such rows).")
    if isinstance(gamma, str) and function.takes_gamma:
        gamma = gamma_of(X, gamma)
        function = function.with_gamma(gamma)
    return _gaussian(X, float(gamma)) if function.kernel == "rbf" else Pairwise(X, function, function.name)


def _gaussian(X: np.ndarray, gamma: float) -> KernelSource:
    """The Gaussian kernel; from differences where products would overflow in float32 or cancel in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        source = Gaussian(X, gamma)
        if source.h.max() <= OVERFLOWS and float(source.h.mean(dtype=np.float64)) <= CANCELS:
            return source
    from scipy.spatial.distance import cdist

    def values(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(-gamma * cdist(A, B, "sqeuclidean"))

    wide = Pairwise(X, values, "'rbf'")
    wide.nonnegative = True
    return wide
