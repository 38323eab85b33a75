"""The methods of a learned Mahalanobis metric: points in the learned map, and distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from bregmat.base.arrays import array_space, is_foreign
from bregmat.base.checks import rows_text, to_numpy
from bregmat.base.linalg import blocks, product, unit_rows
from bregmat.base.points import as_array_points, check_dense_size, check_numeric
from bregmat.base.threads import on_one_blas_thread
from bregmat.certificates.result import MatrixResult
from bregmat.estimators.base import validated
from bregmat.typing import MetricKind, Pairs, Points

CHUNK = 1_000_000  # numbers in the pairs that are transformed at a time


@dataclass(frozen=True, eq=False)
class MahalanobisDistance:
    """The learned distance (not squared) between two points; picklable.

    Attributes
    ----------
    n_features : int
    mapped : callable
        Rows (n, d) -> their images under the learned map, (n, r).
    is_cosine : bool
        Whether images are divided by their lengths.
    """

    n_features: int
    mapped: Callable[[Any], Any]
    is_cosine: bool = False

    def differences(self, U: Any, V: Any) -> Any:
        """Differences (n, r) of the images of the rows of U and V."""
        return unit_rows(self.mapped(U)) - unit_rows(self.mapped(V)) if self.is_cosine else self.mapped(U - V)

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """Distance of two 1-D points; its square if asked for."""
        u, v = (np.atleast_1d(np.asarray(to_numpy("u and v", point), dtype=float).squeeze()) for point in (u, v))
        d = self.n_features
        if u.shape != (d,) or v.shape != (d,):
            raise ValueError(f"u and v must have shape ({d},); got {u.shape} and {v.shape}.")
        t = self.differences(u[None], v[None])[0]
        sq_distance = float(t @ t)
        return sq_distance if squared else float(np.sqrt(sq_distance))

    @classmethod
    def of_map(cls, components: np.ndarray, is_cosine: bool = False) -> MahalanobisDistance:
        """The distance between points mapped by ``components`` (r, d)."""
        return cls(components.shape[1], partial(product, B=components.T), is_cosine)


@on_one_blas_thread
class MahalanobisMetric:
    """Methods of an estimator with a learned map ``components_`` (r, d): mapped points and distances.

    ``fit`` sets ``_fit_components``. With very many features they stay None, and ``result_`` maps the points.
    """

    _fit_components: np.ndarray | None = None
    _fit_metric: MetricKind = "euclidean"
    result_: MatrixResult
    n_features_in_: int

    def transform(self, X: Points) -> np.ndarray:
        """Map points so that Euclidean distances are the learned distances; with the metric "cosine" to points of length 1.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)

        Returns
        -------
        ndarray, shape (n, r)
            ``X @ components_.T``, with the metric "cosine" divided by the lengths of the rows; float32 if X is, otherwise float64. If X
            is an array of torch, CuPy or another library of the array API standard, so is the result, on the same device.

        Raises
        ------
        ValueError
            X is sparse, and the result, which is dense, would have more than 2^28 numbers (2 GiB).
        """
        mapped = self._mapped(X)
        return unit_rows(mapped) if self._fit_metric == "cosine" else mapped

    def _mapped(self, X: Points) -> Any:
        """``X @ components_.T``."""
        check_is_fitted(self)
        if is_foreign(X):
            X = as_array_points("X", X, self.n_features_in_)
            return self.result_.transform(X) if self._fit_components is None else product(X, self._fit_components.T)
        X = validated(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if self._fit_components is None:
            return np.asarray(self.result_.transform(X)).astype(X.dtype, copy=False)
        if issparse(X):
            check_dense_size("transform of sparse X", X.shape[0], len(self._fit_components))
        return np.asarray(X @ self._fit_components.T.astype(X.dtype, copy=False))

    @property
    def components_(self) -> np.ndarray:
        """The learned map, shape (r, d); formed when asked for if d is large, up to 2^28 numbers."""
        check_is_fitted(self)
        if self._fit_components is not None:
            return self._fit_components
        check_dense_size("components_", self._n_features_out, self.n_features_in_)
        return self.result_.B.T

    @property
    def _n_features_out(self) -> int:
        if self._fit_components is None:
            return self.result_.transform(np.zeros((1, self.n_features_in_))).shape[1]
        return self._fit_components.shape[0]

    def to_torch(self) -> Any:
        """The learned map as a ``torch.nn.Linear`` without bias, for the last layer of a network.

        Returns
        -------
        torch.nn.Linear
            Of float64: ``layer(torch.from_numpy(X))`` is ``transform(X)``, before rows are divided by their lengths with the metric
            "cosine". ``layer.float()`` makes it one of float32.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from bregmat import MetricLearner
        >>> X, y = load_wine(return_X_y=True)
        >>> MetricLearner(random_state=0).fit(X, y).to_torch()  # doctest: +SKIP
        Linear(in_features=13, out_features=13, bias=False)
        """
        import torch

        r, d = self.components_.shape
        layer = torch.nn.utils.skip_init(torch.nn.Linear, d, r, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(self.components_))
        return layer

    def get_mahalanobis_matrix(self) -> np.ndarray:
        """The learned matrix ``W = components_.T @ components_``, shape (d, d)."""
        C = self.components_
        return C.T @ C

    def get_metric(self) -> MahalanobisDistance:
        """The learned distance as a picklable function of two points, for scikit-learn's ``metric=``.

        Slow there (one Python call per pair): prefer ``transform``.
        """
        check_is_fitted(self)
        if self._fit_components is None:  # no (d, d) matrix is formed
            return MahalanobisDistance(self.n_features_in_, self.result_.transform, self._fit_metric == "cosine")
        return MahalanobisDistance.of_map(self._fit_components, self._fit_metric == "cosine")

    def pair_distance(self, pairs: Pairs) -> np.ndarray:
        """Learned distances, *not* squared.

        Parameters
        ----------
        pairs : array-like, shape (m, 2, d)

        Returns
        -------
        ndarray, shape (m,)
            For a tensor, a tensor on the same device.
        """
        points: Any = pairs
        metric = self.get_metric()
        d = metric.n_features
        if not is_foreign(points):
            check_numeric("pairs", points)
            points = np.asarray(points)
        if points.ndim != 3 or tuple(points.shape[1:]) != (2, d):
            raise ValueError(f"pairs must have shape (m, 2, {d}); got {tuple(points.shape)}.")
        space = array_space(points)
        if space is not None:
            flat = as_array_points("pairs", space.xp.reshape(points, (points.shape[0], 2 * d)))
            apart = metric.differences(flat[:, :d], flat[:, d:])
            return space.xp.sqrt(space.xp.sum(apart * apart, axis=1))
        out = np.empty(len(points))
        for part in blocks(len(points), d, CHUNK):
            some = np.asarray(points[part], dtype=float)
            bad = np.flatnonzero(~np.isfinite(some).all(axis=(1, 2)))
            if len(bad):
                raise ValueError(f"pairs contains NaN or infinity in {rows_text(part.start + bad)}.")
            out[part] = np.linalg.norm(metric.differences(some[:, 0], some[:, 1]), axis=1)
        return out

    def pair_score(self, pairs: Pairs) -> np.ndarray:
        """Minus :meth:`pair_distance`: larger for more similar pairs."""
        return -self.pair_distance(pairs)
