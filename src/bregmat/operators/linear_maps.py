"""The linear map of bound constraints, ``p_i = <A_i, X>``, and its adjoint ``sum w_i A_i``, in forms that differ in cost only.

====================  =============================================================  ===========================
:class:`RankOneRows`  one vector per row, ``p_i = v_i' X v_i``                        c r^2 a product, c r memory
:class:`PairGraph`    vectors ``z_a + s z_b`` named by pairs, never built            c r + n r^2, n r memory
:class:`MatrixRows`   a symmetric r x r matrix per row                               c r^2
====================  =============================================================  ===========================

Others are made of these (:mod:`bregmat.operators.compound`): signed sums of rows, and several operators side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from bregmat._kernels.arrays import OuterRows
from bregmat.base.linalg import blocks

VANISHING = 1e-13  # an entry below this share of the terms that it is the sum of may be rounding


class Operator(Protocol):
    """A linear map of symmetric r x r matrices to c values, with its adjoint."""

    c: int
    r: int
    is_rank_one: ClassVar[bool] = False  # whether every A_i is an outer product v_i v_i'
    # whether rows, values and weights are distributed, so that single rows cannot be read
    is_sharded: ClassVar[bool] = False

    @property
    def n_vectors(self) -> int:
        """Number of vectors that a product of all rows with a matrix multiplies."""
        return self.c

    def values(self, X: np.ndarray) -> np.ndarray:
        """``<A_i, X>`` for every row."""

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``sum_i w_i A_i``."""

    def weighted(self, h: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """``X -> A*(h . A(X))``, for many X."""
        return lambda X: self.adjoint(h * self.values(X))

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""

    def congruence(self, F: np.ndarray) -> Operator:
        """The operator of ``X -> F X F'``."""

    def restrict(self, rows: np.ndarray) -> Operator:
        """Some of the rows."""

    def drawn(self, share: float) -> np.ndarray:
        """Numbers of a pseudo-random sample of about this share of the rows, the same in every call."""
        return drawn_numbers(0, self.c, share)

    def astype(self, dtype: type) -> Operator:
        """The same in another precision."""

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``, shape (c, r (r + 1) / 2); None stands for 1."""

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The vectors ``v_i`` of some rows (numbers of any shape), shape (..., r); only if ``is_rank_one``."""
        raise TypeError(f"{type(self).__name__} has rows that are not outer products.")

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))``: the unit of a row with bound 0."""

    def norms(self) -> np.ndarray:
        """Frobenius norms of the A_i, or upper bounds of them."""

    def exact_norms(self) -> np.ndarray:
        """Frobenius norms of the A_i; forms a few megabytes of matrices at a time."""
        out = np.empty(self.c)
        for part in blocks(self.c, self.r * (self.r + 1) // 2, 2**22):
            out[part] = np.linalg.norm(self.restrict(np.arange(self.c)[part]).features(None), axis=1)
        return out

    def vanishing(self, N: np.ndarray) -> np.ndarray:
        """Whether each row is 0 up to rounding on the directions N (r, k) without being 0 itself; boolean, shape (c,)."""
        before = self.norms()
        if not N.shape[1]:
            return before > 0
        inside = self.congruence(N)
        norms = inside.norms()
        gone = norms <= VANISHING**2 * before
        rest = np.flatnonzero(~gone)
        if len(rest) and not self.is_rank_one:  # the terms of a sum may cancel
            gone[rest] = inside.restrict(rest).exact_norms() <= VANISHING * norms[rest]
        return gone & (before > 0)

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        """``<A_i, Psi o A_i>`` of every row, or bounds of them; None stands for 1."""

    def extents(self, w: np.ndarray) -> np.ndarray:
        """s (r,) with ``sum_i w_i |A_i|_kl <= sqrt(s_k s_l)``, also for the terms that the A_i are sums of; w >= 0."""

    def normal_matrix(self, h: np.ndarray, S: np.ndarray | None) -> np.ndarray:
        """``sum_i h_i f_i f_i'`` for the rows f_i of :meth:`features`, of order r (r + 1) / 2."""
        m = self.r * (self.r + 1) // 2
        H = np.zeros((m, m))
        block = max(m, 2**23 // m)  # rows at a time, at most as many numbers as H has
        for first in range(0, self.c, block):
            rows = slice(first, first + block)
            Phi = (self if self.c <= block else self.restrict(np.arange(self.c)[rows])).features(S)
            Phi *= np.sqrt(h[rows])[:, None]
            H += Phi.T @ Phi
        return H

    def product_flops(self) -> float:
        """Floating point operations of :meth:`values` and :meth:`adjoint` together."""
        return 4.0 * self.c * self.r**2

    def factor_flops(self) -> float:
        """Operations of a factorisation, over rows or over entries of a matrix."""
        m = self.r * (self.r + 1) // 2
        return float(min(self.c, m)) ** 2 * max(self.c, m)

    def outer(self) -> OuterRows:
        """The rows as sums of outer products and multiples of the identity."""

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        """``<S o A_i, S o A_j>`` of all pairs of rows, shape (c, c); None stands for 1."""
        Phi = self.features(S)
        return Phi @ Phi.T


def drawn_numbers(first: int, count: int, share: float) -> np.ndarray:
    """The numbers in ``first + range(count)`` that are in the sample, less ``first``, by their hashes (SplitMix64, Steele et al. 2014)."""
    x = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.flatnonzero((x ^ (x >> np.uint64(31))) < np.uint64(min(share, 0.5) * 2.0**64))


@lru_cache(maxsize=16)
def svec_index(r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Upper triangle and the weights (1 or sqrt 2) that make svec an isometry."""
    k, l = np.triu_indices(r)
    return k, l, np.where(k == l, 1.0, np.sqrt(2.0))


def svec(X: np.ndarray) -> np.ndarray:
    """Upper triangle of symmetric matrices (..., r, r) as vectors; an isometry."""
    k, l, weight = svec_index(X.shape[-1])
    return X[..., k, l] * weight


def smat(x: np.ndarray, r: int) -> np.ndarray:
    """Inverse of :func:`svec` for one vector."""
    k, l, weight = svec_index(r)
    X = np.empty((r, r))
    X[k, l] = X[l, k] = x / weight
    return X


class OuterProducts(Operator):
    """``A_i = v_i v_i'``: trace and Frobenius norm are both ``|v_i|^2``."""

    is_rank_one = True

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        return self.values_diagonal(prior)

    def norms(self) -> np.ndarray:
        return self.values_diagonal(None)

    def exact_norms(self) -> np.ndarray:
        return self.norms()

    def extents(self, w: np.ndarray) -> np.ndarray:
        return np.diag(self.adjoint(w))


class RankOneRows(OuterProducts):
    """One vector per row: ``p_i = v_i' X v_i``."""

    def __init__(self, V: np.ndarray) -> None:
        self.V = V
        self.c, self.r = V.shape

    def values(self, X: np.ndarray) -> np.ndarray:
        """``v_i' X v_i`` for every row."""
        return np.einsum("ij,ij->i", self.V @ X, self.V)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``sum_i w_i v_i v_i'``."""
        return (self.V.T * w) @ self.V

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        return np.einsum("ij,ij->i", self.V, self.V) if x is None else (self.V * self.V) @ x

    def congruence(self, F: np.ndarray) -> RankOneRows:
        return RankOneRows(self.V @ F)

    def restrict(self, rows: np.ndarray) -> RankOneRows:
        return RankOneRows(self.V[rows])

    def astype(self, dtype: type) -> RankOneRows:
        return RankOneRows(self.V.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        k, l, weight = svec_index(self.r)
        weight = weight if S is None else weight * S[k, l]
        columns = np.ascontiguousarray(self.V.T)  # reading whole rows is faster than reading columns
        found = columns[k]
        found *= columns[l]
        found *= weight[:, None]
        return found.T

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some rows (numbers of any shape), shape (..., r)."""
        return self.V[rows]

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        squares = self.V * self.V
        if Psi is None:
            return squares.sum(axis=1) ** 2
        return np.einsum("ij,ij->i", squares @ Psi, squares)

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        if S is not None:
            return super().gram(S)
        G = self.V @ self.V.T
        G *= G
        return G

    def outer(self) -> OuterRows:
        """One term a row."""
        return one_term_a_row(self.V, np.arange(self.c), np.arange(self.c), np.zeros(self.c, np.int8))


class MatrixRows(Operator):
    """A symmetric r x r matrix per row."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A
        self.c, self.r = A.shape[0], A.shape[1]

    def values(self, X: np.ndarray) -> np.ndarray:
        """``tr(A_i X)``."""
        return self.A.reshape(self.c, self.r**2) @ X.ravel()

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        return (w @ self.A.reshape(self.c, self.r**2)).reshape(self.r, self.r)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        d = np.einsum("ikk->ik", self.A)
        return d.sum(axis=1) if x is None else d @ x

    def congruence(self, F: np.ndarray) -> MatrixRows:
        return MatrixRows(F.T @ self.A @ F)

    def restrict(self, rows: np.ndarray) -> MatrixRows:
        return MatrixRows(self.A[rows])

    def astype(self, dtype: type) -> MatrixRows:
        return MatrixRows(self.A.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        return svec(self.A if S is None else self.A * S)

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        values, U = np.linalg.eigh(self.A)
        return np.einsum("ik,ijk,j->i", np.abs(values), U * U, prior)

    def norms(self) -> np.ndarray:
        return np.linalg.norm(self.A, axis=(1, 2))

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        squares = self.A * self.A if Psi is None else self.A * self.A * Psi
        return squares.sum(axis=(1, 2))

    def extents(self, w: np.ndarray) -> np.ndarray:
        S = np.einsum("i,ikl->kl", w, np.abs(self.A))
        s = np.full(self.r, S.max(initial=0.0))
        for _ in range(20):  # equilibrates S (Ruiz 2001): each round halves the remaining imbalance, in logarithms
            root = np.sqrt(s)
            s = root * (S / np.where(root > 0, root, 1.0)).max(axis=1, initial=0.0)
        root = np.where(s > 0, np.sqrt(s), 1.0)
        return s * (S / root / root[:, None]).max(initial=1.0)

    def outer(self) -> OuterRows:
        """Eigenvectors of each matrix; a multiple of the identity is stored as a shift."""
        coef, vectors, counts, shift = [], [], np.zeros(self.c, np.int64), np.zeros(self.c)
        for i, A in enumerate(self.A):
            values, U = np.linalg.eigh(A)
            size = np.abs(values).max(initial=0.0)
            if values[-1] - values[0] <= 1e-14 * size:
                shift[i] = values[-1]
                continue
            keep = np.abs(values) > 1e-15 * size * self.r
            coef.append(values[keep])
            vectors.append(U[:, keep].T)
            counts[i] = keep.sum()
        Z = np.ascontiguousarray(np.concatenate(vectors)) if vectors else np.zeros((1, self.r))
        rows = one_term_a_row(Z, np.arange(len(Z)), np.arange(len(Z)), np.zeros(len(Z), np.int8))
        ptr = np.concatenate([[0], np.cumsum(counts)])
        return rows._replace(ptr=ptr, coef=np.concatenate([*coef, np.zeros(0)]), shift=shift)


def one_term_a_row(Z: np.ndarray, a: np.ndarray, b: np.ndarray, sign: np.ndarray) -> OuterRows:
    """One term with coefficient 1 for each row.

    Parameters
    ----------
    Z : ndarray, shape (n, r)
        Points.
    a, b : ndarray of int, shape (c,)
        Rows of Z that make the vectors ``z_a + sign z_b``.
    sign : ndarray of int8, shape (c,)
        +1, -1, or 0 for ``z_a`` alone.
    """
    c = len(a)
    index = np.arange(c + 1, dtype=np.int64)
    Z = np.ascontiguousarray(Z, dtype=float)
    return OuterRows(index, np.ones(c), Z, a.astype(np.int32), b.astype(np.int32), sign.astype(np.int8), np.zeros(c))
