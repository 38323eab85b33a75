"""The kernel that learning starts from: a name, a function of two sets of points, or values that are handed over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils.validation import check_array

from bregmat.columns import rows_text
from bregmat.constraints import Constraints
from bregmat.labels import PERCENTILE_PAIRS, constraints_from_labels, label_codes
from bregmat.sampling import generator

NAMES = tuple(sorted(PAIRWISE_KERNEL_FUNCTIONS))
POSITIVE_ONLY = ("additive_chi2", "chi2")  # kernels of histograms
DENSE_ONLY = ("additive_chi2", "chi2", "laplacian")
BLOCK = 64  # points per block where only the diagonal of a block is wanted
CHECKED = 1_000_000  # squared distances at a time
SINGLE = 1e-6  # relative rounding of a kernel in single precision
INDEFINITE = 1e-8  # what rounding may make of a positive semidefinite kernel, relative to its largest value
COINCIDENT = 1e-12  # squared distance relative to k(x, x) + k(y, y) below which it is rounding


@dataclass(frozen=True, eq=False)
class BaseKernel:
    """``k0(x, y)``. With "precomputed" a point is its row of kernel values with all training points.

    Attributes
    ----------
    kernel : str or callable
        A name of scikit-learn's pairwise kernels, "precomputed", or a function of (X, Y) that returns an (n, m) array.
    params : dict
        Passed on; values of None are left to the kernel.
    rounding : float
        Relative rounding of the values, where it is more than that of double precision.
    """

    kernel: str | Callable[..., Any]
    params: dict[str, Any] = field(default_factory=dict)
    rounding: float = 0.0

    @classmethod
    def of(cls, kernel: Any, gamma: Any, degree: Any, coef0: Any, kernel_params: Any) -> BaseKernel:
        """From the parameters of an estimator, checked."""
        if not callable(kernel) and kernel != "precomputed" and kernel not in NAMES:
            raise ValueError(
                f'kernel must be "precomputed", a function of (X, Y), or one of {", ".join(NAMES)}; got {kernel!r}.'
            )
        if kernel_params is not None and not isinstance(kernel_params, dict):
            raise TypeError(f"kernel_params must be a dict or None; got {kernel_params!r}.")
        if callable(kernel):
            return cls(kernel, dict(kernel_params or {}))
        if kernel_params:
            raise ValueError(
                f"kernel_params are for a kernel that is a function; give gamma, degree and coef0 to {kernel!r}."
            )
        for name, value in (("gamma", gamma), ("degree", degree), ("coef0", coef0)):
            if name == "gamma" and value is None:
                continue
            if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
                raise TypeError(f"{name} must be a number; got {value!r}.")
            if not np.isfinite(value) or (name == "gamma" and not value > 0):
                raise ValueError(f"{name} must be {'positive and ' * (name == 'gamma')}finite; got {value!r}.")
        return cls(kernel, {"gamma": gamma, "degree": degree, "coef0": coef0})

    @property
    def is_precomputed(self) -> bool:
        """Whether points are rows of kernel values."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def given(self, X: Any) -> BaseKernel:
        """The same for data handed over as X: a precomputed kernel in single precision is rounded."""
        single = self.is_precomputed and getattr(X, "dtype", None) in (np.float32, np.float16)
        return replace(self, rounding=SINGLE) if single else self

    @property
    def takes_sparse(self) -> bool:
        """Whether X may be a scipy.sparse matrix."""
        return callable(self.kernel) or (not self.is_precomputed and self.kernel not in DENSE_ONLY)

    def check_square(self, X: Any) -> None:
        """Raise unless a precomputed kernel on the training points is square and symmetric."""
        n = X.shape[0]
        if X.shape != (n, n):
            raise ValueError(
                f"X must be square with kernel='precomputed': training points x training points; got {X.shape}."
            )
        top = max(float(X.max()), -float(X.min()))
        for start in range(0, n, 1000):
            part = X[start : start + 1000, start:] - X[start:, start : start + 1000].T
            if np.abs(part).max() > 1e-8 * top:
                raise ValueError(
                    f"X must be symmetric with kernel='precomputed'; the largest asymmetry is {np.abs(part).max():.3g}."
                )

    def check_definite(self, K: np.ndarray) -> None:
        """Raise for a kernel on the training points that has NaN, a negative k(x, x), or a negative squared distance.

        It costs n^2, and so does not find every kernel that is not positive semidefinite.
        """
        name = repr(self.kernel) if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "a function")
        bad = np.flatnonzero(~np.isfinite(K).all(axis=1))
        if len(bad):
            raise ValueError(f"kernel {name} has NaN or infinite values in {rows_text(bad)}.")
        diagonal = np.diag(K)
        least = -max(INDEFINITE, self.rounding) * max(float(K.max()), -float(K.min()))
        i = int(diagonal.argmin())
        if diagonal[i] < least:
            raise ValueError(f"kernel {name} must be positive semidefinite; got K[{i}, {i}] = {diagonal[i]:.6g}.")
        step = max(1, CHECKED // len(K))
        for start in range(0, len(K), step):
            sq = diagonal[start : start + step, None] + diagonal - 2.0 * K[start : start + step]
            i, j = divmod(int(sq.argmin()), len(K))
            if sq[i, j] < least:
                raise ValueError(
                    f"kernel {name} must be positive semidefinite; got the squared distance K_ii + K_jj - 2 K_ij = "
                    f"{sq[i, j]:.6g} at i = {start + i}, j = {j}."
                )

    def to_state(self) -> dict[str, Any]:
        """Plain values; a function has none."""
        if callable(self.kernel):
            raise TypeError("an estimator whose kernel is a function cannot be saved: files hold no code.")
        params = {name: value.item() if isinstance(value, np.generic) else value for name, value in self.params.items()}
        return {"kernel": self.kernel, "params": params, "rounding": self.rounding}

    @classmethod
    def from_state(cls, meta: dict[str, Any]) -> BaseKernel:
        """Inverse of :meth:`to_state`."""
        return replace(cls.of(meta["kernel"], **meta["params"], kernel_params=None), rounding=float(meta["rounding"]))

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        """Values between two sets of points, shape (n, m); not for "precomputed"."""
        if callable(self.kernel):
            Y = X if Y is None else Y
            K = np.asarray(self.kernel(X, Y, **self.params), dtype=float)
            if K.shape != (X.shape[0], Y.shape[0]):
                raise ValueError(
                    f"kernel must return an array of shape {(X.shape[0], Y.shape[0])} for that many points; got {K.shape}. A "
                    "function of two single points goes through sklearn.metrics.pairwise.pairwise_kernels(X, Y, metric=...)."
                )
            return K
        given = {name: value for name, value in self.params.items() if value is not None}
        return np.asarray(pairwise_kernels(X, Y, metric=self.kernel, filter_params=True, **given), dtype=float)

    def points(self, X: Any, rows: np.ndarray) -> Any:
        """What :meth:`columns` needs of training points: the points, or their column numbers."""
        return rows if self.is_precomputed else X[rows]

    def columns(self, X: Any, points: Any) -> np.ndarray:
        """Values between points X and training points, shape (n, m)."""
        return np.asarray(X[:, points], dtype=float) if self.is_precomputed else self(X, points)

    def block(self, X: Any, rows: np.ndarray | None, columns: np.ndarray) -> np.ndarray:
        """Values between training points given by row numbers; rows None means all."""
        some = X if rows is None else X[rows]
        return self.columns(some, self.points(X, columns))

    def diagonal(self, X: Any) -> np.ndarray:
        """``k0(x, x)`` of training points."""
        n = X.shape[0]
        every = np.arange(n)
        return self.pairs(X, every, every)

    def pairs(self, X: Any, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """``k0(x_i, x_j)`` for pairs of training points: diagonals of small blocks."""
        if self.is_precomputed:
            return np.asarray(X[i, j], dtype=float)
        out = np.empty(len(i))
        for start in range(0, len(i), BLOCK):
            part = slice(start, start + BLOCK)
            out[part] = np.diagonal(self(X[i[part]], X[j[part]]))
        return out

    def sq_distances(self, X: Any, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances of pairs in the space of the kernel, and ``k(x, x) + k(y, y)``."""
        size = self.pairs(X, i, i) + self.pairs(X, j, j)
        return np.maximum(size - 2.0 * self.pairs(X, i, j), 0.0), size

    def constraints_from_labels(
        self,
        X: Any,
        y: Any,
        n_constraints: int | None,
        percentiles: tuple[float, float],
        unlabeled: Any,
        random_state: Any,
    ) -> Constraints:
        """Pairs as :func:`bregmat.constraints_from_labels` draws them, bounded by percentiles of the *kernel's* distances.

        Pairs that coincide in the space of the kernel are left out.
        """
        rng = generator(random_state)
        drawn = constraints_from_labels(X, y, n_constraints, unlabeled=unlabeled, random_state=rng)
        rows = np.flatnonzero(label_codes(y, unlabeled=unlabeled) >= 0)
        a, b = rng.integers(0, len(rows), (2, PERCENTILE_PAIRS))
        sq, size = self.sq_distances(X, rows[a[a != b]], rows[b[a != b]])
        apart = sq > COINCIDENT * size
        if not apart.any():
            raise ValueError(f"the kernel maps all labelled points of X to one: see {rows_text(rows)}.")
        near, far = np.percentile(sq[apart], percentiles)
        i, j = drawn.index[:, 0], drawn.index[:, 1]
        sq, size = self.sq_distances(X, i, j)
        keep, same = sq > COINCIDENT * size, drawn.sense > 0
        if not keep.any():
            raise ValueError("the kernel maps the two points of every pair drawn from y to one.")
        return Constraints.sq_distance(
            i[keep], j[keep], np.where(same, near, far)[keep], np.where(same, "<=", ">=")[keep]
        )


def as_points(X: Any, n_features: int, name: str, *, sparse: bool) -> Any:
    """A checked float64 array (or CSR matrix) with ``n_features`` columns, without the checks of column names."""
    X = check_array(X, accept_sparse="csr" if sparse else False, dtype=np.float64, input_name=name)
    if X.shape[1] != n_features:
        raise ValueError(f"{name} has {X.shape[1]} features, but the estimator was fitted with {n_features}.")
    return X
