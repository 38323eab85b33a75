"""What the matrix exponentiated gradient learner is shown: pairs, vectors, Hermitian matrices; and what a state has to do with them.

Every kind answers the same questions. A *block* is many checked instances; G is a matrix with ``W = G G*``.

* ``read(X, dim)`` -> block; raises before anything is learned. ``one(x)`` wraps a single instance.
* ``size(block)``: the dimension that the instances have.
* ``spreads(block, dim, spread)``: largest minus smallest eigenvalue of each, or an upper bound where that settles the question.
* ``beyond(block, dim, p)``: how far each number is above the largest (+) or below the smallest (-) eigenvalue; 0 between.
* ``largest_norm(block)``: an upper bound of all their norms.
* ``values(block, G)``: ``tr(W X_t)`` of each.
* ``add_inplace(H, block, weights)``: ``H += sum_t w_t X_t``.
* ``terms(block, t, dim)``: vectors (k, d) and weights (k,) with ``X_t = sum_k w_k v_k v_k*``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_matrix, as_numbers, check_finite, rows_text
from bregmat.base.linalg import eigh, eigvalsh
from bregmat.base.threads import cached_property

NO_DIM = "dim must be given for instances='pairs': it is the number of points."


def point_numbers(name: str, values: Any, dim: int, *, pairs: bool = False) -> np.ndarray:
    """Numbers of points, whole and from 0 to ``dim - 1``: shape (n,), or a single one; of ``pairs`` shape (n, 2).

    Parameters
    ----------
    name : str
        The argument, as the caller knows it.
    values : array-like, shape (n,), (n, 2) or ()
    dim : int
        Number of points.
    pairs : bool
        Whether a row is a pair.
    """
    words = "pairs of point numbers" if pairs else "point numbers"
    try:
        numbers = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must hold {words}: {error}.") from error
    if numbers.dtype.kind not in "iuf" and (numbers.size or pairs):
        raise TypeError(f"{name} must hold {words}; got {numbers.dtype}.")
    if numbers.shape[1:] != (2,) if pairs else numbers.ndim > 1:
        one, shape = ("pair of point numbers", "(n, 2)") if pairs else ("point number", "(n,)")
        raise ValueError(f"{name} must hold one {one} per row, shape {shape}; got shape {numbers.shape}.")
    good = (numbers >= 0) & (numbers < dim)
    if numbers.dtype.kind == "f":
        good &= np.rint(numbers) == numbers
    if not good.all():
        bad = np.flatnonzero(~(good.all(axis=1) if pairs else good))
        got = tuple(numbers[bad[0]].tolist()) if pairs else numbers.flat[bad[0]]
        raise ValueError(f"{name} must hold whole point numbers from 0 to {dim - 1}; got {got} in {rows_text(bad)}.")
    return numbers.astype(np.int64)


def vectors(name: str, X: Any, dim: int | None) -> np.ndarray:
    """Finite rows, shape (n, d), float or complex."""
    V = as_numbers(name, X.toarray() if scipy.sparse.issparse(X) else X, booleans=True, complex_too=True)
    if V.ndim != 2 or V.shape[1] == 0 or (dim is not None and V.shape[1] != dim):
        raise ValueError(f"{name} must hold one vector of {dim or 'd'} numbers per row; got shape {V.shape}.")
    check_finite(name, V)
    return np.ascontiguousarray(V)


def hermitian(name: str, A: Any, dim: int | None = None) -> np.ndarray:
    """A finite Hermitian matrix from a dense or sparse one, float or complex; the caller's own, exactly Hermitian on return."""
    return as_matrix(name, A, symmetric=True, order=dim, sparse="dense", booleans=True, complex_too=True, copy=True)


class PairInstances:
    """Pairs (a, b) for ``X = (e_a - e_b)(e_a - e_b)' / 2`` (Tsuda 2004, section 5): eigenvalues 0 and 1.

    A label is *half* the squared distance of the two points.
    """

    name = "pairs"

    def read(self, X: Any, dim: Any) -> np.ndarray:
        """Indices, shape (n, 2)."""
        pairs = point_numbers("X", X, dim, pairs=True)
        bad = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if len(bad):
            raise ValueError(
                f"X must hold pairs of different points; got {tuple(pairs[bad[0]].tolist())} in {rows_text(bad)}."
            )
        return pairs

    def one(self, x: Any) -> Any:
        """A block of one."""
        return [x]

    def size(self, block: np.ndarray) -> int:
        """The dimension that the instances have; pairs do not tell."""
        raise ValueError(NO_DIM)

    def spreads(self, block: np.ndarray, dim: int, spread: float) -> np.ndarray:
        """1 for every pair."""
        return np.ones(len(block))

    def beyond(self, block: np.ndarray, dim: int, p: np.ndarray) -> np.ndarray:
        """Above 1 or below 0."""
        return p - np.minimum(np.maximum(p, 0.0), 1.0)

    def largest_norm(self, block: np.ndarray) -> float:
        """1."""
        return 1.0

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|g_a - g_b|^2 / 2``."""
        return 0.5 * _sq_lengths(G[block[:, 0]] - G[block[:, 1]])

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


class VectorInstances:
    """Vectors v for ``X = v v*``, real or complex: eigenvalues 0 and ``|v|^2``."""

    name = "vectors"

    def read(self, X: Any, dim: int | None) -> np.ndarray:
        """Rows, shape (n, d), float or complex."""
        return vectors("X", X, dim)

    def one(self, x: Any) -> Any:
        """A block of one."""
        return x if scipy.sparse.issparse(x) else np.asarray(x)[None]

    def size(self, block: np.ndarray) -> int:
        """d."""
        return block.shape[1]

    def spreads(self, block: np.ndarray, dim: int, spread: float) -> np.ndarray:
        """``|v|^2``."""
        return _sq_lengths(block) if dim > 1 else np.zeros(len(block))

    def beyond(self, block: np.ndarray, dim: int, p: np.ndarray) -> np.ndarray:
        """Above ``|v|^2`` or below 0, which is no eigenvalue where d is 1."""
        high = _sq_lengths(block)
        return p - np.minimum(np.maximum(p, 0.0 if dim > 1 else high), high)

    def largest_norm(self, block: np.ndarray) -> float:
        """The largest ``|v|^2``."""
        return float(_sq_lengths(block).max())

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|G* v|^2``."""
        return _sq_lengths(block.conj() @ G)

    def add_inplace(self, H: np.ndarray, block: np.ndarray, weights: np.ndarray) -> None:
        """One product for the whole block."""
        H += (block.T * weights) @ block.conj()

    def terms(self, block: np.ndarray, t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """The vector itself."""
        return block[t : t + 1], np.ones(1)


def _sq_lengths(V: np.ndarray) -> np.ndarray:
    """``|v|^2`` of every row."""
    return np.einsum("ij,ij->i", V, V.conj()).real


@dataclass(frozen=True, eq=False)
class SupportedMatrix:
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


class MatrixInstances:
    """Hermitian matrices: observables, density matrices, sums of few pairs; dense or scipy.sparse."""

    name = "matrices"

    def read(self, X: Any, dim: int | None) -> list[SupportedMatrix]:
        """One checked matrix per instance."""
        if scipy.sparse.issparse(X) or getattr(X, "ndim", 3) != 3:
            raise ValueError(
                f"X must hold matrices: an array of shape (n, d, d) or a list; got shape {getattr(X, 'shape', None)}."
            )
        out: list[SupportedMatrix] = []
        for t, x in enumerate(X):
            out.append(self._read(f"X[{t}]", x, dim))
            dim = out[0].dim if dim is None else dim
        return out

    def _read(self, name: str, x: Any, dim: int | None) -> SupportedMatrix:
        if not scipy.sparse.issparse(x):
            A = hermitian(name, x, dim)
            index = np.flatnonzero(A.any(axis=1))
            return SupportedMatrix(index, A if len(index) == len(A) else A[np.ix_(index, index)], len(A))
        if x.shape[0] != x.shape[1] or (dim is not None and x.shape[0] != dim):
            raise ValueError(f"{name} must have shape ({dim or 'd'}, {dim or 'd'}); got {x.shape}.")
        C = scipy.sparse.csr_array(x)
        index = np.union1d(np.flatnonzero(np.diff(C.indptr)), C.indices)
        return SupportedMatrix(
            index, hermitian(name, C[index][:, index]) if len(index) else np.zeros((0, 0)), C.shape[0]
        )

    def one(self, x: Any) -> Any:
        """A block of one."""
        return [x]

    def size(self, block: list[SupportedMatrix]) -> int:
        """d."""
        return block[0].dim

    def spreads(self, block: list[SupportedMatrix], dim: int, spread: float) -> np.ndarray:
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

    def beyond(self, block: list[SupportedMatrix], dim: int, p: np.ndarray) -> np.ndarray:
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

    def largest_norm(self, block: list[SupportedMatrix]) -> float:
        """The largest Frobenius norm."""
        return max(float(np.linalg.norm(x.block)) for x in block)

    def values(self, block: list[SupportedMatrix], G: np.ndarray) -> np.ndarray:
        """``tr(G* X G)``."""
        out = np.zeros(len(block))
        for t, x in enumerate(block):
            rows = G[x.index]
            out[t] = np.vdot(rows, x.block @ rows).real
        return out

    def add_inplace(self, H: np.ndarray, block: list[SupportedMatrix], weights: np.ndarray) -> None:
        """The entries of the support."""
        for x, w in zip(block, weights, strict=True):
            if len(x.index) == len(H):
                H += w * x.block
            else:
                H[np.ix_(x.index, x.index)] += w * x.block

    def terms(self, block: list[SupportedMatrix], t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvectors of the support."""
        x = block[t]
        weights, U = eigh(x.block) if len(x.index) else (np.zeros(0), x.block)
        V = np.zeros((len(weights), dim), dtype=x.block.dtype)
        V[:, x.index] = U.T
        return V, weights


INSTANCES: dict[str, type] = {cls.name: cls for cls in (PairInstances, VectorInstances, MatrixInstances)}


def is_complex(block: Any) -> bool:
    """Whether any instance of a block is complex."""
    return any(x.dtype.kind == "c" for x in block) if isinstance(block, list) else block.dtype.kind == "c"
