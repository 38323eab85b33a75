"""The three kinds of instances of the matrix exponentiated gradient learner: pairs, vectors and Hermitian matrices.

Every kind has the same methods. A *block* holds many checked instances ``X_t``; G is a matrix with ``W = G G*``.

* ``read(X, dim)`` checks instances and returns a block; ``one(x)`` makes the argument of ``read`` from a single instance.
* ``extremes(block, dim)``: the smallest and the largest eigenvalue of each instance.
* ``values(block, G)``: ``tr(W X_t)`` of each instance.
* ``vector(block, t, dim)``, not for matrices: v with ``X_t = v v*``, shape (1, d).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_matrix, as_numbers, check_finite, rows_text

NO_DIM = "dim must be given for instances='pairs': it is the number of points."


def point_numbers(name: str, values: Any, dim: int, *, pairs: bool = False) -> np.ndarray:
    """Point numbers, checked to be integers from 0 to ``dim - 1``.

    Parameters
    ----------
    name, values, dim, pairs
        ``name`` is the argument's name for messages. ``values`` has shape (n,) or (); with ``pairs``, shape (n, 2).
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
        return [x]

    def extremes(self, block: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """0 and 1 for every pair."""
        return np.zeros(len(block)), np.ones(len(block))

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|g_a - g_b|^2 / 2``."""
        return 0.5 * _sq_lengths(G[block[:, 0]] - G[block[:, 1]])

    def vector(self, block: np.ndarray, t: int, dim: int) -> np.ndarray:
        """``(e_a - e_b) / sqrt(2)``."""
        z = np.zeros((1, dim))
        z[0, block[t]] = np.sqrt(0.5), -np.sqrt(0.5)
        return z


class VectorInstances:
    """Vectors v, real or complex, which stand for ``X = v v*``, with the eigenvalues 0 and ``|v|^2``."""

    name = "vectors"

    def read(self, X: Any, dim: int | None) -> np.ndarray:
        """Rows, shape (n, d), float or complex."""
        return vectors("X", X, dim)

    def one(self, x: Any) -> Any:
        return x if scipy.sparse.issparse(x) else np.asarray(x)[None]

    def extremes(self, block: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """0 and ``|v|^2``; for d = 1 there is one eigenvalue only."""
        high = _sq_lengths(block)
        return (np.zeros(len(block)) if dim > 1 else high), high

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``|G* v|^2``."""
        return _sq_lengths(block.conj() @ G)

    def vector(self, block: np.ndarray, t: int, dim: int) -> np.ndarray:
        """The instance itself."""
        return block[t : t + 1]


def _sq_lengths(V: np.ndarray) -> np.ndarray:
    """``|v|^2`` of every row."""
    return np.einsum("ij,ij->i", V, V.conj()).real


class MatrixInstances:
    """Hermitian matrices, such as observables; dense, or scipy.sparse, which become dense."""

    name = "matrices"

    def read(self, X: Any, dim: int | None) -> np.ndarray:
        """The checked matrices, shape (n, d, d), float or complex."""
        if scipy.sparse.issparse(X) or getattr(X, "ndim", 3) != 3:
            raise ValueError(
                f"X must hold matrices: an array of shape (n, d, d) or a list; got shape {getattr(X, 'shape', None)}."
            )
        matrices: list[np.ndarray] = []
        for t, x in enumerate(X):
            matrices.append(hermitian(f"X[{t}]", x, dim))
            dim = len(matrices[0])
        return np.array(matrices) if matrices else np.zeros((0, dim or 0, dim or 0))

    def one(self, x: Any) -> Any:
        return [x]

    def extremes(self, block: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """By an eigendecomposition of each matrix."""
        values = np.linalg.eigvalsh(block)
        return values[:, 0], values[:, -1]

    def values(self, block: np.ndarray, G: np.ndarray) -> np.ndarray:
        """``tr(G* X G)``."""
        return np.array([np.vdot(G, x @ G).real for x in block])


INSTANCES: dict[str, type] = {cls.name: cls for cls in (PairInstances, VectorInstances, MatrixInstances)}
