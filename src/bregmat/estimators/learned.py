"""Learned kernels on any points (Kulis 2009, section 6.1; Davis 2007, the kernelised form). See :class:`KernelLearner`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.kernels import KernelFunction
from bregmat.kernels.lowrank import Pivots, pivots_of
from bregmat.result import MatrixResult

MOST_POINTS = 10_000  # of which the features of a full-rank kernel are computed: memory 16 n^2 bytes, time n^3 / 3
BLOCK = 10_000_000  # kernel values at a time
REST_TOL = 1e-10  # squared distance to the touched points' span, relative to the largest k(x, x), that is rounding


@dataclass(frozen=True, eq=False)
class FactorMap:
    """Points are rows of the factor: ``k(x, y) = (B'x) . (B'y)``."""

    result: MatrixResult
    width: int  # columns of what the result transforms

    def transform(self, X: Any, train: Any) -> np.ndarray:
        """Features of the learned kernel, shape (n, r)."""
        return np.asarray(self.result.transform(X))

    def kernel(self, X: Any, Y: Any, train: Any) -> np.ndarray:
        """Learned kernel, shape (n, m); Y None means X."""
        F = self.transform(X, train)
        return F @ (F if Y is None else self.transform(Y, train)).T

    def training_kernel(self, train: Any) -> np.ndarray:
        """Learned kernel on the training points."""
        if self.result.coordinates.base is None:
            raise ValueError(
                "kernel_ needs the training points, which pickles and model files do not keep in this form: use "
                "learner.kernel(X) with the points at hand."
            )
        return self.result.kernel()

    def n_columns(self, train: Any) -> int:
        """Number of features."""
        return self.result.transform(np.zeros((1, self.width))).shape[1]

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays."""
        return {"map": "factor", "width": self.width}, {}


@dataclass(frozen=True, eq=False)
class LowRankMap(FactorMap):
    """Coordinates by pivots, then the learned map: ``k(x, y) = (B'g(x)) . (B'g(y))``, ``g(x) = L^-1 k0(pivots, x)``."""

    base: KernelFunction
    points: Any  # the pivots, or their column numbers
    pivots: Pivots

    def coordinates(self, X: Any) -> np.ndarray:
        """``g(x)`` as rows."""
        return self.pivots.coordinates(self.base.columns(X, self.points))

    def transform(self, X: Any, train: Any) -> np.ndarray:
        """Features of the learned kernel, shape (n, r)."""
        return np.asarray(self.result.transform(self.coordinates(X)))

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays."""
        arrays = {"pivots.rows": self.pivots.rows, "pivots.L": self.pivots.L}
        meta = {"map": "low_rank", "captured": self.pivots.captured, "base": self.base.to_state()}
        return meta, arrays | points_state("points", self.points)


@dataclass(frozen=True, eq=False)
class SpanMap(LowRankMap):
    """The prior kernel outside the span of the touched points S, the learned one inside.

    ``k(x, y) = k0(x, y) + g(x)' (B B' - I) g(y)``, which is ``k0(x, y) + k0(x, S) C k0(S, y)``.
    """

    @cached_property
    def change(self) -> np.ndarray:
        """``B B' - I``."""
        B = self.result.B
        return B @ B.T - np.eye(len(B))

    def kernel(self, X: Any, Y: Any, train: Any) -> np.ndarray:
        """Learned kernel, shape (n, m); Y None means X, for "precomputed" the training points."""
        if self.base.is_precomputed:
            return np.asarray(X, dtype=float) + self._change_between(X, train)
        if Y is None:
            K = self.base(X) + self._change_between(X, X)
            return (K + K.T) / 2
        return self.base(X, Y) + self._change_between(X, Y)

    def _change_between(self, X: Any, Y: Any) -> np.ndarray:
        """``k - k0``, shape (n, m): triangular solves for the smaller set only, the larger one block by block."""
        if X.shape[0] > Y.shape[0]:
            return self._change_between(Y, X).T
        A = self.pivots.dual(self.coordinates(X) @ self.change)
        out = np.empty((X.shape[0], Y.shape[0]))
        step = max(1, BLOCK // max(1, A.shape[1]))
        for start in range(0, Y.shape[0], step):
            part = slice(start, start + step)
            out[:, part] = A @ self.base.columns(Y[part], self.points).T
        return out

    def training_kernel(self, train: Any) -> np.ndarray:
        """Learned kernel on the training points."""
        return self.kernel(train, None, train)

    def transform(self, X: Any, train: Any) -> np.ndarray:
        """Features: those of the span, mapped, and those of the prior outside the span."""
        points, rest = self._rest(train)
        g = self.coordinates(X)
        if not len(rest.rows):
            return np.asarray(self.result.transform(g))
        h = rest.coordinates(self.base.columns(X, points) - g @ self.coordinates(self._as_rows(points, train)).T)
        return np.hstack([self.result.transform(g), h])

    def n_columns(self, train: Any) -> int:
        """Number of features."""
        return super().n_columns(train) + len(self._rest(train)[1].rows)

    def _as_rows(self, points: Any, train: Any) -> Any:
        return train[points] if self.base.is_precomputed else points

    def _rest(self, train: Any) -> tuple[Any, Pivots]:
        """Pivots of ``k0(x, y) - g(x)'g(y)`` on the training points."""
        if "rest" not in vars(self):
            n = train.shape[0]
            if n > MOST_POINTS:
                raise ValueError(
                    f"transform of a full-rank kernel needs features of all {n} training points, which is not done above "
                    f"{MOST_POINTS}: pass rank=..., or use kernel(X, Y), which needs the points in constraints only."
                )
            g = self.coordinates(train)
            K0 = train if self.base.is_precomputed else self.base(train)
            left = K0 - g @ g.T
            scale = float(np.abs(np.diag(K0)).max())
            pivots = pivots_of((left + left.T) / 2, scale=scale, tol=max(REST_TOL, self.base.rounding))
            vars(self)["rest"] = self.base.points(train, pivots.rows), pivots
        return vars(self)["rest"]

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays; what transform needs beyond the span is computed again."""
        meta, arrays = super().to_state()
        return {**meta, "map": "span"}, arrays


def map_restored(meta: dict[str, Any], arrays: dict[str, np.ndarray], result: MatrixResult) -> FactorMap:
    """Inverse of ``to_state``."""
    if meta["map"] == "factor":
        return FactorMap(result, int(meta["width"]))
    pivots = Pivots(arrays["pivots.rows"], arrays["pivots.L"], float(meta["captured"]))
    kind = LowRankMap if meta["map"] == "low_rank" else SpanMap
    base = KernelFunction.from_state(meta["base"])
    return kind(result, len(pivots.rows), base, points_restored("points", arrays), pivots)


def points_state(name: str, X: Any) -> dict[str, np.ndarray]:
    """An array, or the three arrays of a CSR matrix and its shape."""
    if not sp.issparse(X):
        return {name: np.asarray(X)}
    X = sp.csr_array(X)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    return {f"{name}.{part}": a for part, a in parts.items()}


def points_restored(name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`points_state`; None if there are none."""
    if f"{name}.data" not in arrays:
        return arrays.get(name)
    data, indices, indptr, shape = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr", "shape"))
    return sp.csr_array((data, indices, indptr), shape=tuple(int(s) for s in shape))
