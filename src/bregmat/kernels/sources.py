"""Kernel matrices that are never formed as a whole: float32 rows for the search of a solution, float64 blocks for its proof."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat._kernels import kernel_rows, vectors
from bregmat.base.checks import SINGLE_SYMMETRY, as_numbers
from bregmat.base.linalg import blocks, sq_norms
from bregmat.base.threads import in_parts
from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.kernels.functions import KernelFunction, check_gamma_rule, gamma_of, pair_values

FLOAT32_ROUNDOFF = 2.0**-24  # largest relative rounding of float32
FLOPS = 20.0  # operations per nanosecond: estimates the work of a loop, which decides whether it uses several threads
PARTS = 16  # partial sums of a large symmetric block; a fixed number, so that results do not depend on the number of threads
CANCELS = 1e5  # mean of gamma |x - mean|^2 above which distances are computed from differences
STRIP = 2_000_000  # entries of a block that are computed at a time
SAMPLED = 64  # rows and columns of a precomputed matrix on which symmetry is checked


class KernelSource(ABC):
    """A kernel matrix over n samples that is never formed as a whole.

    A subclass defines ``n``, :meth:`diagonal`, :meth:`block` and :meth:`exact`. The other methods use ``block``; a subclass may override
    them by something faster.

    Attributes
    ----------
    n : int
        Number of samples.
    nonnegative : bool
        Whether it is known that no entry is negative.
    matrix : ndarray, shape (n, n), or None
        The whole matrix if it was passed by the user.
    formed : ndarray, shape (n, n), or None
        The whole matrix in float64 if it has been computed.
    factor : ndarray, shape (n, r), or None
        V with ``K = V V'``, float64, if it is known: products with K then take O(n r) operations.
    rounding : float
        Rounding of the entries, relative to the largest.
    """

    n: int
    nonnegative: bool = False
    matrix: np.ndarray | None = None
    formed: np.ndarray | None = None
    factor: np.ndarray | None = None
    rounding: float = 16 * EPS

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """``K_ii``, float64 of shape (n,)."""

    @abstractmethod
    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """``K[rows][:, columns]`` as a new C-contiguous array; to full accuracy in float64."""

    @abstractmethod
    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        """Exact coordinates of some samples, shape (len(rows), m), and whether linear relations among them hold in feature space.

        For a precomputed matrix the coordinates are its entries, otherwise the points. Equal coordinates mean equal samples. Linear
        relations carry over for a precomputed matrix and for the linear kernel.
        """

    def fill(self, out: np.ndarray, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        """Set ``out[i, j] = K[rows_i, columns_j]``; ``out`` is float32, C-contiguous and may be larger. Default: all columns."""
        columns = np.arange(self.n) if columns is None else columns
        for some in blocks(len(rows), len(columns), STRIP):
            out[: len(rows), : len(columns)][some] = self.block(rows[some], columns, np.float32)

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """``K[rows][:, columns] @ weight`` in float64, shape (len(rows),), in strips; half the work if ``rows is columns``."""
        out = np.empty(len(rows))
        for some in blocks(len(rows), len(columns), STRIP):
            out[some] = self.block(rows[some], columns) @ weight
        return out

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """``signs_i signs_j K_ij`` over ``rows`` in float64; ``signs`` has one entry per entry of ``rows``."""
        K = self.block(rows, rows)
        K *= signs
        K *= signs[:, None]
        return K

    def fill_error(self) -> np.ndarray:
        """Proven bound of the relative error of the entries of :meth:`fill`, one number per column; shape (n,)."""
        return np.full(self.n, FLOAT32_ROUNDOFF)


class Gaussian(KernelSource):
    """The Gaussian kernel ``exp(-gamma |x - x'|^2)``.

    It is computed as ``exp(z.z' - |z|^2/2 - |z'|^2/2)`` with ``z = sqrt(2 gamma) (x - mean)``. Subtracting the mean keeps the terms small,
    which limits the cancellation in float32.
    """

    nonnegative = True

    def __init__(self, X: np.ndarray, gamma: float) -> None:
        # number of features up to which squared distances from differences, which do not cancel, cost no more than from products
        few_features = 8
        self.n, self.n_features = X.shape
        self.X, self.gamma, self.mean = X, gamma, X.mean(0, dtype=np.float64)
        self.Z = np.empty(X.shape, np.float32)
        root = np.sqrt(2.0 * gamma)
        for part in blocks(self.n, X.shape[1], 200_000):
            self.Z[part] = (X[part] - self.mean) * root
        self.h = 0.5 * np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64 if self.n_features > 64 else None)
        self.h = self.h.astype(np.float32, copy=False)
        self.ZT = np.ascontiguousarray(self.Z.T) if self.n_features <= few_features else None

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
            self._fill64(out, rows, np.ones(len(rows)), columns, np.ones(len(columns)))
        return out

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), len(rows)))
        self._fill64(out, rows, signs, rows, signs)
        np.fill_diagonal(out, 1.0)
        return out

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        small = 16_384  # entries of a block up to which sums are computed from the whole block
        if len(rows) * len(columns) <= small:
            return self.block(rows, columns) @ weight
        A, hA = self._centred(rows)
        is_square = rows is columns
        B, hB = (A, hA) if is_square else self._centred(columns)
        out = np.zeros((min(PARTS, -(-len(rows) // kernel_rows.HALF)) if is_square else 1, len(rows)))
        both = out, A, hA, B, hB, weight, 2.0 * self.gamma, is_square
        work = len(rows) * len(columns) * (2.0 * self.n_features + 40) / FLOPS
        whole = (len(out), work) if is_square else (len(rows), work, kernel_rows.HALF)
        in_parts(lambda *part: kernel_rows.gaussian_sums_inplace(*both, *part), *whole)
        return out.sum(axis=0) if is_square else out[0]

    def _fill64(self, out: np.ndarray, rows: np.ndarray, sA: np.ndarray, columns: np.ndarray, sB: np.ndarray) -> None:
        """Set ``out`` to the kernel of some rows and columns, times signs ``sA_i sB_j``, in float64."""
        A, hA = self._centred(rows)
        B, hB = (A, hA) if rows is columns else self._centred(columns)
        work = out.size * (2.0 * self.n_features + 40) / FLOPS
        both = out, A, hA, sA, B, hB, sB, 2.0 * self.gamma, rows is columns
        in_parts(lambda *part: kernel_rows.gaussian_block_inplace(*both, *part), len(columns), work, kernel_rows.HALF)

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.X[rows], False

    def _centred(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centred points in float64, and ``gamma |x - mean|^2`` of each."""
        A = self.X[rows] - self.mean
        return A, self.gamma * sq_norms(A)

    def fill_error(self) -> np.ndarray:
        # With a = |z_i|, b = |z_j|, u = FLOAT32_ROUNDOFF and d features, the error of the exponent -|z_i - z_j|^2 / 2 is at most the sum of
        #   u (a + b)^2         rounding of z to float32 (and a term u^2 (a + b)^2 / 2, covered by the factor 1.01)
        #   d u a b             a product of d terms in any order, with or without fused multiply-add
        #   u (a^2 + b^2) / 2   rounding of h (times d if it is summed in float32, which is the case for d <= 64)
        #   u 2 (ab + a^2/2 + b^2/2)   two subtractions
        # exp_f32 has a relative error of 2e-7. Exponents are limited to at most 0, which reduces the error, and to at least -87,
        # which changes values by 2e-38.
        a = np.sqrt(2.0 * self.h.astype(float)) * (1 + 1e-6)
        b = float(a.max())
        d = float(self.n_features)
        summed = d if self.n_features <= 64 else 1.0
        exponent = 1.01 * FLOAT32_ROUNDOFF * (2.5 * (a + b) ** 2 + d * a * b + 0.5 * summed * (a * a + b * b))
        return np.expm1(np.minimum(exponent, 50.0)) * (1 + 2e-7) + 2e-7


class Precomputed(KernelSource):
    """A precomputed kernel matrix. Symmetry is checked on a sample of its entries; entries are checked for NaN when they are used."""

    def __init__(self, K: np.ndarray) -> None:
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(
                f"a precomputed kernel must be square, one row and column per sample; got shape {K.shape}."
            )
        self.n, self.matrix, self.K = len(K), K, K
        self.own = np.array(np.diagonal(K), dtype=float)
        if K.dtype == np.float32:
            self.rounding = float(np.finfo(np.float32).eps)
        self._check_sample()

    def _check_sample(self) -> None:
        """Raise if a sample of the entries is not symmetric."""
        rng = np.random.default_rng(0)
        rows, columns = (np.sort(rng.permutation(self.n)[:SAMPLED]) for _ in range(2))
        there, back = self.block(rows, columns), self.block(columns, rows).T
        allowed = (HALF_DIGITS if self.K.dtype == np.float64 else SINGLE_SYMMETRY) * np.abs(there).max(initial=0.0)
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

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        out = np.empty((len(rows), len(columns)), dtype)
        vectors.gather_inplace(out, self.K, rows, columns)
        bad = np.flatnonzero(~np.isfinite(out @ np.ones(len(columns), dtype)))
        if len(bad):
            raise ValueError(f"the precomputed kernel must be finite; row {rows[bad[0]]} is not.")
        return out


class Part(KernelSource):
    """The kernel of the samples ``rows`` of another source; ``formed`` is the whole matrix of these samples, if it has been computed."""

    def __init__(self, source: KernelSource, rows: np.ndarray, formed: np.ndarray | None = None) -> None:
        self.n, self.source, self.rows, self.formed = len(rows), source, rows, formed
        self.nonnegative, self.rounding = source.nonnegative, source.rounding
        if formed is not None:
            np.fill_diagonal(formed, self.source.diagonal()[rows])  # which has less rounding

    def diagonal(self) -> np.ndarray:
        return self.source.diagonal()[self.rows] if self.formed is None else self.formed.diagonal()

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        if self.formed is None:
            return self.source.block(self.rows[rows], self.rows[columns], dtype)
        out = np.empty((len(rows), len(columns)), dtype)
        vectors.gather_inplace(out, self.formed, rows, columns)
        return out

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.source.exact(self.rows[rows])


class Pairwise(KernelSource):
    """A kernel that is a function of two arrays of points. It is called block by block, and its values are checked for NaN."""

    def __init__(self, X: np.ndarray, function: Callable[..., Any], name: str) -> None:
        self.n, self.X, self.function, self.name = len(X), X, function, name
        self.points = X  # as given by the user, if X was centred
        self.own: np.ndarray | None = None

    def diagonal(self) -> np.ndarray:
        if self.own is None:
            every = np.arange(self.n)
            if isinstance(self.function, KernelFunction):
                self.own = self._checked(self.function.diagonal(self.X))
            else:
                self.own = pair_values(self.block, every, every)
        return self.own

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        # the last bit may be wrong
        rough = {"last_bit": False} if isinstance(self.function, KernelFunction) else {}
        K = self._checked(np.asarray(self.function(self.X[rows], self.X[columns], **rough), dtype=float), rows)
        return np.ascontiguousarray(K, dtype=dtype)

    def _checked(self, values: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Raise for values of some rows (all by default) that are not finite."""
        if not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
            raise ValueError(f"kernel {self.name} is not finite in row {bad[0] if rows is None else rows[bad[0]]}.")
        return values

    def exact(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        return self.points[rows], isinstance(self.function, KernelFunction) and self.function.kernel == "linear"


class Linear(Pairwise):
    """The linear kernel, whose factor is the points."""

    def __init__(self, X: np.ndarray, function: KernelFunction) -> None:
        super().__init__(X, function, function.name)
        self.factor: np.ndarray = np.asarray(X, dtype=float)

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return self.factor[rows] @ (weight @ self.factor[columns])


def kernel_source(
    X: Any,
    kernel: str | Callable[..., Any] = "rbf",
    *,
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 0.0,
) -> KernelSource:
    """Make a :class:`KernelSource` over the rows of X.

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
    if function.kernel == "linear":
        return Linear(X, function)
    return _gaussian(X, float(gamma)) if function.kernel == "rbf" else Pairwise(X, function, function.name)


def _gaussian(X: np.ndarray, gamma: float) -> KernelSource:
    """The Gaussian kernel; distances come from differences if products would overflow in float32 or cancel in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        source = Gaussian(X, gamma)
        if float(source.h.mean(dtype=np.float64)) <= CANCELS:  # False for NaN, after an overflow
            return source
    from scipy.spatial.distance import cdist

    def values(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(-gamma * cdist(A, B, "sqeuclidean"))

    wide = Pairwise(X, values, "'rbf'")
    wide.nonnegative = True
    return wide
