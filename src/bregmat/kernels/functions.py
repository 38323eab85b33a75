"""Kernel functions: names of scikit-learn's pairwise kernels, functions of two sets of points, or precomputed values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy  # scipy.sparse is loaded on first use, which keeps `import bregmat` fast

from bregmat.base.checks import as_numbers, check_number, check_positive, rows_text
from bregmat.base.linalg import blocks, sq_norms


class KernelFacts(NamedTuple):
    """Properties of a named kernel."""

    parameters: tuple[str, ...] = ()  # its parameters among gamma, degree and coef0
    is_definite: bool = False  # positive semidefinite for all values of its parameters
    is_positive_only: bool = False  # defined for nonnegative features (histograms)
    takes_sparse: bool = True


NAMED = {  # scikit-learn's pairwise kernels
    "additive_chi2": KernelFacts(is_positive_only=True, takes_sparse=False),
    "chi2": KernelFacts(("gamma",), is_definite=True, is_positive_only=True, takes_sparse=False),
    "cosine": KernelFacts(is_definite=True),
    "laplacian": KernelFacts(("gamma",), is_definite=True, takes_sparse=False),
    "linear": KernelFacts(is_definite=True),
    "poly": KernelFacts(("gamma", "degree", "coef0")),
    "polynomial": KernelFacts(("gamma", "degree", "coef0")),
    "rbf": KernelFacts(("gamma",), is_definite=True),
    "sigmoid": KernelFacts(("gamma", "coef0")),
}
PRODUCTS = ("linear", "poly", "polynomial", "sigmoid")  # functions of the scalar product
OTHER = KernelFacts()  # of a function or precomputed values
CACHED = 100_000  # numbers that are processed at a time, so that a second pass finds them in the processor's cache
SINGLE = 1e-6  # relative rounding of a float32 kernel


@dataclass(frozen=True, eq=False)
class KernelFunction:
    """A kernel ``k(x, y)`` with its parameters. With "precomputed", a point is its row of kernel values with all training points.

    Attributes
    ----------
    kernel : str or callable
        A name of scikit-learn's pairwise kernels, "precomputed", or a function of (X, Y) that returns an (n, m) array.
    params : dict
        Parameters of the kernel; None stands for the kernel's own default.
    rounding : float
        Relative rounding of the values if it exceeds that of float64, else 0.
    """

    kernel: str | Callable[..., Any]
    params: dict[str, Any] = field(default_factory=dict)
    rounding: float = 0.0

    @classmethod
    def of(
        cls, kernel: Any, gamma: Any = None, degree: Any = 3, coef0: Any = 1, kernel_params: Any = None
    ) -> KernelFunction:
        """Check the parameters of an estimator and make the kernel.

        Parameters
        ----------
        kernel : str or callable
            As the attribute.
        gamma : float, optional
            Coefficient of "rbf", "poly", "sigmoid", "laplacian" and "chi2", in 1 / (X units)^2 for "rbf"; positive. None is
            1 / n_features (1 for "chi2").
        degree, coef0 : float
            Of "poly" and (coef0) "sigmoid"; finite.
        kernel_params : dict, optional
            Keyword arguments of a kernel that is a function.

        Raises
        ------
        TypeError, ValueError
            For unknown names and parameters out of range.
        """
        known = f'"precomputed", a function of (X, Y), or one of {", ".join(NAMED)}'
        if not callable(kernel) and not isinstance(kernel, str):
            raise TypeError(f"kernel must be {known}; got {kernel!r}.")
        if isinstance(kernel, str) and kernel not in ("precomputed", *NAMED):
            raise ValueError(f"kernel must be {known}; got {kernel!r}.")
        if kernel_params is not None and not isinstance(kernel_params, dict):
            raise TypeError(f"kernel_params must be a dict or None; got {kernel_params!r}.")
        if callable(kernel):
            return cls(kernel, dict(kernel_params or {}))
        if kernel_params:
            raise ValueError(
                f"kernel_params are for a kernel that is a function; give gamma, degree and coef0 to {kernel!r}."
            )
        if gamma is not None:
            check_positive("gamma", gamma, finite=True)
        for name, value in (("degree", degree), ("coef0", coef0)):
            check_number(name, value)
            if not np.isfinite(value):
                raise ValueError(f"{name} must be finite; got {value!r}.")
        return cls(kernel, {"gamma": gamma, "degree": degree, "coef0": coef0})

    @property
    def name(self) -> str:
        """Name of the kernel for messages."""
        return repr(self.kernel) if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "a function")

    @property
    def is_precomputed(self) -> bool:
        """Whether points are rows of kernel values."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def facts(self) -> KernelFacts:
        """Properties that follow from the name of the kernel."""
        return NAMED.get(self.kernel, OTHER) if isinstance(self.kernel, str) else OTHER

    @property
    def is_definite(self) -> bool:
        """Whether the kernel is known to be positive semidefinite, with its parameters."""
        if self.kernel in ("poly", "polynomial"):
            degree, coef0 = self.params["degree"], self.params["coef0"]
            return bool(coef0 >= 0 and degree >= 0 and float(degree).is_integer())
        return self.facts.is_definite

    @property
    def takes_gamma(self) -> bool:
        """Whether the kernel has a coefficient gamma."""
        return "gamma" in self.facts.parameters

    @property
    def accept_sparse(self) -> str | bool:
        """The ``accept_sparse`` argument of scikit-learn's checks."""
        return "csr" if self.facts.takes_sparse and not self.is_precomputed else False

    def given(self, X: Any) -> KernelFunction:
        """The kernel for data X: a precomputed kernel in float32 or float16 has the rounding of single precision."""
        single = self.is_precomputed and getattr(X, "dtype", None) in (np.float32, np.float16)
        return replace(self, rounding=SINGLE) if single else self

    def with_gamma(self, gamma: float) -> KernelFunction:
        """The same kernel with another gamma."""
        return replace(self, params={**self.params, "gamma": gamma})

    # ------------------------------------------------------------------ values
    def __call__(self, X: Any, Y: Any = None, *, last_bit: bool = True) -> np.ndarray:
        """Values between two sets of points, shape (n, m); not for "precomputed".

        Without ``last_bit``, cubes are products, which differ from scikit-learn's in the last bit and take a fifth of the time.
        """
        Y = X if Y is None else Y
        if not Y.shape[0]:  # an interrupted fit may have no support vectors
            return np.zeros((X.shape[0], 0))
        if not callable(self.kernel):
            return np.asarray(_named_values(self.kernel, X, Y, self.params, last_bit), dtype=float)
        K = as_numbers(f"values of kernel {self.name}", self.kernel(X, Y, **self.params), booleans=True)
        if K.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"kernel must return an array of shape {(X.shape[0], Y.shape[0])} for that many points; got {K.shape}. A "
                "function of two single points goes through sklearn.metrics.pairwise.pairwise_kernels(X, Y, metric=...)."
            )
        return K

    def points(self, X: Any, rows: np.ndarray) -> Any:
        """Training points as :meth:`columns` takes them: the points, or their numbers for a precomputed kernel."""
        return rows if self.is_precomputed else X[rows]

    def columns(self, X: Any, points: Any) -> np.ndarray:
        """Values between points X and training points, shape (n, m)."""
        return np.asarray(X[:, points], dtype=float) if self.is_precomputed else self(X, points)

    def block(self, X: Any, rows: np.ndarray | None, columns: np.ndarray) -> np.ndarray:
        """Values between training points given by their numbers; ``rows=None`` means all."""
        some = X if rows is None else X[rows]
        return self.columns(some, self.points(X, columns))

    def diagonal(self, X: Any) -> np.ndarray:
        """``k(x, x)`` of training points."""
        every = np.arange(X.shape[0])
        return self.pairs(X, every, every)

    def pairs(self, X: Any, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """``k(x_i, x_j)`` for pairs of training points."""
        if self.is_precomputed:
            return np.asarray(X[i, j], dtype=float)
        if isinstance(self.kernel, str) and self.kernel in PRODUCTS and isinstance(X, np.ndarray):
            products = np.einsum("ij,ij->i", X[i], X[j], dtype=float)
            return _of_products(self.kernel, products, X.shape[1], self.params)
        return pair_values(lambda rows, columns: self(X[rows], X[columns]), i, j)

    def sq_distances(self, X: Any, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances of pairs in the space of the kernel, and ``k(x, x) + k(y, y)``."""
        size = self.pairs(X, i, i) + self.pairs(X, j, j)
        return np.maximum(size - 2.0 * self.pairs(X, i, j), 0.0), size


def _named_values(name: str, X: Any, Y: Any, params: dict[str, Any], last_bit: bool) -> Any:
    """Values of one of scikit-learn's kernels.

    Kernels that are a function of the scalar product are computed here, in the same order and so with the same rounding as in
    scikit-learn. Its checks of arguments take 0.2 ms per call, 10 times as long as a block of 10 x 500 values.
    """
    if name in PRODUCTS and all(isinstance(Z, np.ndarray) and Z.dtype.kind == "f" for Z in (X, Y)):
        return _of_products(name, X @ Y.T, X.shape[1], params, last_bit)
    settings = {key: params[key] for key in NAMED[name].parameters if params.get(key) is not None}
    from sklearn import config_context
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

    # Points and parameters have been checked before.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return PAIRWISE_KERNEL_FUNCTIONS[name](X, Y, **settings)


def _of_products(name: str, K: np.ndarray, d: int, params: dict[str, Any], last_bit: bool = True) -> np.ndarray:
    """Values of a kernel that is a function of the scalar products K of points with d features; K is overwritten."""
    if name == "linear":
        return K
    gamma, degree, coef0 = (params.get(key) for key in ("gamma", "degree", "coef0"))
    K *= 1.0 / d if gamma is None else gamma
    if coef0 != 0:
        K += 1 if coef0 is None else coef0
    if name == "sigmoid":
        return np.tanh(K, out=K)
    degree = 3 if degree is None else degree
    if degree == 3 and not last_bit:
        K *= K * K
    else:
        K **= degree
    return K


def pair_values(
    block: Callable[[np.ndarray, np.ndarray], np.ndarray], first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Entries (first_k, second_k) of the matrix that ``block(rows, columns)`` computes, from diagonals of small blocks."""
    block_rows = 64  # points per block if only the diagonals of blocks are needed
    out = np.empty(len(first))
    for part in blocks(len(first), 1, block_rows):
        out[part] = np.diagonal(block(first[part], second[part]))
    return out


# The end of messages about a kernel that is not positive semidefinite.
INDEFINITE_KERNEL = (
    "Use another kernel. If the kernel is a given matrix, use it with its negative eigenvalues cut to 0."
)


def check_values(values: np.ndarray, name: str, what: str = "") -> None:
    """Raise for NaN and infinite kernel values, shape (n,) or (n, m); ``what`` describes the values in the message."""
    bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if len(bad):
        raise ValueError(f"{name} has NaN or infinite values {what}in {rows_text(bad)}.")


def check_gamma_rule(gamma: Any) -> None:
    """Raise for a string that names no rule of :func:`gamma_of`."""
    if isinstance(gamma, str) and gamma not in ("scale", "auto"):
        raise ValueError(f'gamma must be "scale", "auto" or a positive number; got {gamma!r}.')


def gamma_of(X: Any, rule: str, weights: np.ndarray | None = None) -> float:
    """The coefficient gamma by one of the rules of scikit-learn's ``SVC``, for points X (n, d), dense or sparse.

    "scale" is 1 / (d var) with the variance of all entries of X, or 1 if they are all equal; "auto" is 1 / d. A point of weight 2 counts
    twice in the variance.
    """
    check_gamma_rule(rule)
    n, d = X.shape
    if rule == "auto":
        return 1.0 / d
    if weights is None:
        weights = np.ones(n)
    share, rounding = weights / (d * weights.sum()), (n + d) * np.finfo(float).eps
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(share @ np.asarray(X.sum(axis=1, dtype=float)).ravel())
        if scipy.sparse.issparse(X):
            variance, least = float(share @ sq_norms(X) - mean**2), rounding * mean**2
        else:
            variance, least = 0.0, (rounding * mean) ** 2  # variance that rounding of the mean gives equal entries
            for part in blocks(n, d, CACHED):
                variance += float(share[part] @ sq_norms(X[part] - mean))
    if not variance < 1e305:
        raise ValueError(f"X is too large for gamma='scale': its variance is {variance:.3g}. Scale the features.")
    return 1.0 / (d * variance) if variance > least else 1.0
