"""The three kinds of instances of the matrix exponentiated gradient learner: pairs, vectors and Hermitian matrices.

Every kind has the same methods. A *block* holds many checked instances ``X_t``; G is a matrix with ``W = G G*``.

* ``read(X, dim)`` checks instances and returns a block; ``one(x)`` makes the argument of ``read`` from a single instance.
* ``size(block)``: the order d of the instances.
* ``spreads(block, dim)``: the largest minus the smallest eigenvalue of each instance.
* ``beyond(block, dim, p)``: how far each number is above the largest (+) or below the smallest (-) eigenvalue; 0 between the two.
* ``largest_norm(block)``: an upper bound of the spectral norms of all instances.
* ``values(block, G)``: ``tr(W X_t)`` of each instance.
* ``add_inplace(H, block, t, weight)``: ``H += weight X_t``.
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
    """Point numbers, checked to be integers from 0 to ``dim - 1``; shape (n,) or (), with ``pairs`` shape (n, 2).

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
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
    """A finite, exactly Hermitian matrix from a dense or sparse one, float or complex; a copy."""
    return as_matrix(name, A, symmetric=True, order=dim, sparse="dense", booleans=True, complex_too=True, copy=True)


class PairInstances:
    """Pairs (a, b), which stand for ``X = (e_a - e_b)(e_a - e_b)' / 2`` (Tsuda 2004, section 5), with the eigenvalues 0 and 1.

    ``tr(W X)`` is *half* the squared distance of the two points.
    """

    name = "pairs"

    def read(self, X: Any, dim: Any) -> np.ndarray:
        """Point numbers, shape (n, 2)."""
        pairs = point_numbers("X", X, dim, pairs=True)
        bad = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if len(bad):
            raise ValueError(
                f"X must hold pairs of different points; got {tuple(pairs[bad[0]].tolist())} in {rows_text(bad)}."
            )
        return pairs

    def one(self, x: Any) -> Any:
        """The argument of :meth:`read` for one instance."""
        return [x]

    def size(self, block: np.ndarray) -> int:
        """Pairs do not determine the order."""
        raise ValueError(NO_DIM)

    def spreads(self, block: np.ndarray, dim: int) -> np.ndarray:
        """1 for every pair."""
        return np.ones(len(block))

    def beyond(self, block: np.ndarray, dim: int, p: np.ndarray) -> np.ndarray:
        """Distance from the interval [0, 1]."""
        return p - np.minimum(np.maximum(p, 0.0), 1.0)

    def largest_norm(self, block: np.ndarray) -> float:
        """1 for every pair."""
        return 1.0

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|g_a - g_b|^2 / 2``."""
        return 0.5 * _sq_lengths(G[block[:, 0]] - G[block[:, 1]])

    def add_inplace(self, H: np.ndarray, block: np.ndarray, t: int, weight: float) -> None:
        """Change four entries."""
        a, b = block[t]
        H[[a, b, a, b], [a, b, b, a]] += 0.5 * weight * np.array([1.0, 1.0, -1.0, -1.0])

    def terms(self, block: np.ndarray, t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """The vector ``(e_a - e_b) / sqrt(2)``."""
        z = np.zeros((1, dim))
        z[0, block[t]] = np.sqrt(0.5), -np.sqrt(0.5)
        return z, np.ones(1)


class VectorInstances:
    """Vectors v, real or complex, which stand for ``X = v v*``, with the eigenvalues 0 and ``|v|^2``."""

    name = "vectors"

    def read(self, X: Any, dim: int | None) -> np.ndarray:
        """Rows, shape (n, d), float or complex."""
        return vectors("X", X, dim)

    def one(self, x: Any) -> Any:
        """The argument of :meth:`read` for one instance."""
        return x if scipy.sparse.issparse(x) else np.asarray(x)[None]

    def size(self, block: np.ndarray) -> int:
        """d."""
        return block.shape[1]

    def spreads(self, block: np.ndarray, dim: int) -> np.ndarray:
        """``|v|^2``; 0 for d = 1, where there is one eigenvalue only."""
        return _sq_lengths(block) if dim > 1 else np.zeros(len(block))

    def beyond(self, block: np.ndarray, dim: int, p: np.ndarray) -> np.ndarray:
        """Distance from the interval [0, ``|v|^2``]; for d = 1 from ``|v|^2``, the only eigenvalue."""
        high = _sq_lengths(block)
        return p - np.minimum(np.maximum(p, 0.0 if dim > 1 else high), high)

    def largest_norm(self, block: np.ndarray) -> float:
        """The largest ``|v|^2``."""
        return float(_sq_lengths(block).max())

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|G* v|^2``."""
        return _sq_lengths(block.conj() @ G)

    def add_inplace(self, H: np.ndarray, block: np.ndarray, t: int, weight: float) -> None:
        """Add an outer product."""
        H += np.outer(weight * block[t], block[t].conj())

    def terms(self, block: np.ndarray, t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """The vector itself."""
        return block[t : t + 1], np.ones(1)


def _sq_lengths(V: np.ndarray) -> np.ndarray:
    """``|v|^2`` of every row."""
    return np.einsum("ij,ij->i", V, V.conj()).real


@dataclass(frozen=True, eq=False)
class SupportedMatrix:
    """A Hermitian matrix, stored as the rows and columns that are not all zero.

    Attributes
    ----------
    index : ndarray of int, shape (k,)
        Numbers of these rows.
    block : ndarray, shape (k, k)
        The entries between them.
    dim : int
        Order of the matrix.
    """

    index: np.ndarray
    block: np.ndarray
    dim: int

    @property
    def dtype(self) -> np.dtype:
        """float64 or complex128."""
        return self.block.dtype

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue; a row of zeros adds the eigenvalue 0."""
        if not len(self.index):
            return 0.0, 0.0
        low, high = eigvalsh(self.block)[[0, -1]].tolist()
        return (low, high) if len(self.index) == self.dim else (min(low, 0.0), max(high, 0.0))


class MatrixInstances:
    """Hermitian matrices, dense or scipy.sparse: observables, density matrices, sums of few pairs."""

    name = "matrices"

    def read(self, X: Any, dim: int | None) -> list[SupportedMatrix]:
        """The checked matrices."""
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
        """The argument of :meth:`read` for one instance."""
        return [x]

    def size(self, block: list[SupportedMatrix]) -> int:
        """d."""
        return block[0].dim

    def spreads(self, block: list[SupportedMatrix], dim: int) -> np.ndarray:
        """By the eigenvalues of each matrix."""
        return np.array([high - low for low, high in (x.extremes for x in block)])

    def beyond(self, block: list[SupportedMatrix], dim: int, p: np.ndarray) -> np.ndarray:
        """By the eigenvalues of each matrix."""
        low, high = np.array([x.extremes for x in block]).T
        return p - np.clip(p, low, high)

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

    def add_inplace(self, H: np.ndarray, block: list[SupportedMatrix], t: int, weight: float) -> None:
        """Change the entries of the support."""
        x = block[t]
        H[np.ix_(x.index, x.index)] += weight * x.block

    def terms(self, block: list[SupportedMatrix], t: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of the support."""
        x = block[t]
        weights, U = eigh(x.block) if len(x.index) else (np.zeros(0), x.block)
        V = np.zeros((len(weights), dim), dtype=x.block.dtype)
        V[:, x.index] = U.T
        return V, weights


INSTANCES: dict[str, type] = {cls.name: cls for cls in (PairInstances, VectorInstances, MatrixInstances)}


def is_complex(block: Any) -> bool:
    """Whether a block has a complex instance."""
    return any(x.dtype.kind == "c" for x in block) if isinstance(block, list) else block.dtype.kind == "c"
