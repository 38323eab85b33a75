"""What an online learner is shown: pairs, vectors, Hermitian matrices. Reading, checking, and what a state has to do with them.

Every kind answers the same questions. A *block* is many checked instances; a *factor* G stands for ``W = G G*``.

* ``read(X, dim)`` -> block; raises before anything is learned. ``one(x)`` wraps a single instance.
* ``spreads(block, dim)``: largest minus smallest eigenvalue of each, or an upper bound where that settles the question.
* ``beyond(block, dim, p)``: how far each number is above the largest (+) or below the smallest (-) eigenvalue; 0 between.
* ``reach(block)``: an upper bound of all their norms.
* ``values(block, G)``: ``tr(W X_t)`` of each.
* ``add_inplace(H, block, weights)``: ``H += sum_t w_t X_t``.
* ``terms(block, t, dim)``: vectors (k, d) and weights (k,) with ``X_t = sum_k w_k v_k v_k*``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.checks import as_matrix, as_numbers, check_finite, rows_text
from bregmat.linalg import eigh, eigvalsh


def point_numbers(name: str, values: Any, dim: int) -> np.ndarray:
    """Numbers of points, 1-D or a single one, each from 0 to ``dim - 1``."""
    try:
        numbers = np.asarray(values)
    except ValueError as error:
        raise TypeError(f"{name} must hold point numbers: {error}.") from error
    if numbers.dtype.kind not in "iuf" and numbers.size:
        raise TypeError(f"{name} must hold point numbers; got {numbers.dtype}.")
    if numbers.ndim > 1:
        raise ValueError(f"{name} must hold one point number per row; got shape {numbers.shape}.")
    good = (numbers >= 0) & (numbers < dim)
    good &= np.rint(numbers) == numbers
    bad = np.flatnonzero(~good)
    if len(bad):
        raise ValueError(
            f"{name} must hold whole point numbers from 0 to {dim - 1}; got {numbers.flat[bad[0]]} in {rows_text(bad)}."
        )
    return numbers.astype(np.int64)


class Pairs:
    """Pairs (a, b) for ``X = (e_a - e_b)(e_a - e_b)' / 2`` (Tsuda 2004, section 5): eigenvalues 0 and 1.

    A label is *half* the squared distance of the two points.
    """

    name = "pairs"

    def read(self, X: Any, dim: Any) -> np.ndarray:
        """Indices, shape (n, 2)."""
        try:
            pairs = np.asarray(X)
        except ValueError as error:
            raise ValueError(f"X must be an array of pairs of point numbers, shape (n, 2): {error}.") from error
        if pairs.dtype.kind not in "iuf":
            raise TypeError(f"X must hold pairs of point numbers; got {pairs.dtype}.")
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"X must hold one pair of point numbers per row, shape (n, 2); got shape {pairs.shape}.")
        if pairs.dtype.kind == "f":
            bad = np.flatnonzero(~(pairs == np.rint(pairs)).all(axis=1))
            if len(bad):
                raise ValueError(f"X must hold whole numbers; got {tuple(pairs[bad[0]].tolist())} in {rows_text(bad)}.")
        bad = np.flatnonzero(((pairs < 0) | (pairs >= dim)).any(axis=1))
        if len(bad):
            raise ValueError(
                f"X must hold point numbers from 0 to {dim - 1}; got {tuple(pairs[bad[0]].tolist())} in {rows_text(bad)}."
            )
        bad = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if len(bad):
            raise ValueError(
                f"X must hold pairs of different points; got {tuple(pairs[bad[0]].tolist())} in {rows_text(bad)}."
            )
        return pairs.astype(np.int64)

    def one(self, x: Any) -> Any:
        """A block of one."""
        return [x]

    def size(self, block: np.ndarray) -> int:
        """The dimension that the instances have; pairs do not tell."""
        raise ValueError("dim must be given for instances='pairs': it is the number of points.")

    def spreads(self, block: np.ndarray, dim: int, spread: float) -> np.ndarray:
        """1 for every pair."""
        return np.ones(len(block))

    def beyond(self, block: np.ndarray, dim: int, p: np.ndarray) -> np.ndarray:
        """Above 1 or below 0."""
        return p - np.minimum(np.maximum(p, 0.0), 1.0)

    def reach(self, block: np.ndarray) -> float:
        """1."""
        return 1.0

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|g_a - g_b|^2 / 2``."""
        D = G[block[:, 0]] - G[block[:, 1]]
        return 0.5 * np.einsum("ij,ij->i", D, D.conj()).real

    def add_inplace(self, H: np.ndarray, block: np.ndarray, weights: np.ndarray) -> None:
        """Four entries per pair."""
        a, b, half = block[:, 0], block[:, 1], 0.5 * weights
        rows, columns = np.column_stack([a, b, a, b]), np.column_stack([a, b, b, a])
        np.add.at(H, (rows.ravel(), columns.ravel()), np.column_stack([half, half, -half, -half]).ravel())  # in order

    def terms(self, block: np.ndarray, t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """One vector."""
        z = np.zeros((1, dim))
        z[0, block[t]] = np.sqrt(0.5), -np.sqrt(0.5)
        return z, np.ones(1)


class Vectors:
    """Vectors v for ``X = v v*``, real or complex: eigenvalues 0 and ``|v|^2``."""

    name = "vectors"

    def read(self, X: Any, dim: int | None) -> np.ndarray:
        """Rows, shape (n, d), float or complex."""
        dense = X.toarray() if scipy.sparse.issparse(X) else X
        V = np.ascontiguousarray(as_numbers("X", dense, booleans=True, complex_too=True))
        if V.ndim != 2 or V.shape[1] == 0 or (dim is not None and V.shape[1] != dim):
            raise ValueError(f"X must hold one vector of {dim or 'd'} numbers per row; got shape {V.shape}.")
        check_finite("X", V)
        return V

    def one(self, x: Any) -> Any:
        """A block of one."""
        return x if scipy.sparse.issparse(x) else np.asarray(x)[None]

    def size(self, block: np.ndarray) -> int:
        """d."""
        return block.shape[1]

    def spreads(self, block: np.ndarray, dim: int, spread: float) -> np.ndarray:
        """``|v|^2``."""
        return np.einsum("ij,ij->i", block, block.conj()).real if dim > 1 else np.zeros(len(block))

    def beyond(self, block: np.ndarray, dim: int, p: np.ndarray) -> np.ndarray:
        """Above ``|v|^2`` or below 0, which is no eigenvalue where d is 1."""
        high = np.einsum("ij,ij->i", block, block.conj()).real
        return p - np.minimum(np.maximum(p, 0.0 if dim > 1 else high), high)

    def reach(self, block: np.ndarray) -> float:
        """The largest ``|v|^2``."""
        return float(np.einsum("ij,ij->i", block, block.conj()).real.max())

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|G* v|^2``."""
        P = block.conj() @ G
        return np.einsum("ij,ij->i", P, P.conj()).real

    def add_inplace(self, H: np.ndarray, block: np.ndarray, weights: np.ndarray) -> None:
        """One product for the whole block."""
        H += (block.T * weights) @ block.conj()

    def terms(self, block: np.ndarray, t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """The vector itself."""
        return block[t : t + 1], np.ones(1)


@dataclass(frozen=True, eq=False)
class Supported:
    """A Hermitian matrix by its rows and columns that are not all zero."""

    index: np.ndarray
    block: np.ndarray
    dim: int

    @property
    def dtype(self) -> np.dtype:
        """float64 or complex128."""
        return self.block.dtype

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue."""
        return self.around(eigvalsh(self.block))

    def around(self, values: np.ndarray) -> tuple[float, float]:
        """First and last of sorted values, and 0 where rows outside the support add it."""
        low, high = float(values[0]), float(values[-1])
        return (low, high) if len(self.index) == self.dim else (min(low, 0.0), max(high, 0.0))


class Matrices:
    """Hermitian matrices: observables, density matrices, sums of few pairs; dense or scipy.sparse."""

    name = "matrices"

    def read(self, X: Any, dim: int | None) -> list[Supported]:
        """One checked matrix per instance."""
        if scipy.sparse.issparse(X) or getattr(X, "ndim", 3) != 3:
            raise ValueError(
                f"X must hold matrices: an array of shape (n, d, d) or a list; got shape {getattr(X, 'shape', None)}."
            )
        out: list[Supported] = []
        for t, x in enumerate(X):
            out.append(self._read(f"X[{t}]", x, dim))
            dim = out[0].dim if dim is None else dim
        return out

    def _read(self, name: str, x: Any, dim: int | None) -> Supported:
        if not scipy.sparse.issparse(x):
            A = as_matrix(name, x, order=dim, symmetric=True, complex_too=True, booleans=True, copy=True)
            index = np.flatnonzero(A.any(axis=1))
            return Supported(index, A if len(index) == len(A) else A[np.ix_(index, index)], len(A))
        if x.shape[0] != x.shape[1] or (dim is not None and x.shape[0] != dim):
            raise ValueError(f"{name} must have shape ({dim or 'd'}, {dim or 'd'}); got {x.shape}.")
        C = scipy.sparse.csr_array(x)
        index = np.union1d(np.flatnonzero(np.diff(C.indptr)), C.indices)
        if not len(index):
            return Supported(index, np.zeros((0, 0)), C.shape[0])
        block = as_matrix(name, C[index][:, index], symmetric=True, complex_too=True, sparse="dense")
        return Supported(index, block, C.shape[0])

    def one(self, x: Any) -> Any:
        """A block of one."""
        return [x]

    def size(self, block: list[Supported]) -> int:
        """d."""
        return block[0].dim

    def spreads(self, block: list[Supported], dim: int, spread: float) -> np.ndarray:
        """Exact, except that matrices whose Frobenius norm keeps them within ``spread`` get that bound."""
        out = np.zeros(len(block))
        for t, x in enumerate(block):
            if len(x.index):
                centred = float((np.abs(x.block) ** 2).sum()) - float(np.trace(x.block).real) ** 2 / dim
                out[t] = np.sqrt(2.0 * max(centred, 0.0))
                if out[t] > spread:
                    low, high = x.extremes
                    out[t] = high - low
        return out

    def beyond(self, block: list[Supported], dim: int, p: np.ndarray) -> np.ndarray:
        """Exact; most numbers are settled by the diagonal, which eigenvalues surround."""
        out = np.zeros(len(block))
        for t, x in enumerate(block):
            if not len(x.index):
                out[t] = p[t]
                continue
            low, high = x.around(np.sort(x.block.diagonal().real))
            if not low <= p[t] <= high:
                low, high = x.extremes
                out[t] = p[t] - min(max(p[t], low), high)
        return out

    def reach(self, block: list[Supported]) -> float:
        """The largest Frobenius norm."""
        return max(float(np.linalg.norm(x.block)) for x in block)

    def values(self, block: list[Supported], G: np.ndarray) -> np.ndarray:
        """``tr(G* X G)``."""
        out = np.zeros(len(block))
        for t, x in enumerate(block):
            rows = G[x.index]
            out[t] = np.vdot(rows, x.block @ rows).real
        return out

    def add_inplace(self, H: np.ndarray, block: list[Supported], weights: np.ndarray) -> None:
        """The entries of the support."""
        for x, w in zip(block, weights, strict=True):
            if len(x.index) == len(H):
                H += w * x.block
            else:
                H[np.ix_(x.index, x.index)] += w * x.block

    def terms(self, block: list[Supported], t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvectors of the support."""
        x = block[t]
        weights, U = eigh(x.block) if len(x.index) else (np.zeros(0), x.block)
        V = np.zeros((len(weights), dim), dtype=x.block.dtype)
        V[:, x.index] = U.T
        return V, weights


INSTANCES: dict[str, type] = {cls.name: cls for cls in (Pairs, Vectors, Matrices)}


def is_complex(block: Any) -> bool:
    """Whether any instance of a block is complex."""
    return any(x.dtype.kind == "c" for x in block) if isinstance(block, list) else block.dtype.kind == "c"
