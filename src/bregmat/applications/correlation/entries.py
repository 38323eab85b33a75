"""The prescribed entries of a correlation matrix, a unit diagonal and fixed entries, and consequences of fully fixed blocks.

Let B be a block of X in which all entries are fixed. If B has a negative eigenvalue, no correlation matrix has these entries.
If ``B v = 0``, then v is also a null vector of X, because ``v' X v = v' B v = 0``. The multipliers of Newton's method would diverge
in the direction of v, so null vectors are eliminated first. Only eigenvalues that are 0 up to rounding count as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bregmat.base.linalg import cholesky
from bregmat.base.tolerances import EPS
from bregmat.constraints.constraints import Constraints
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import Operator, RankOneRows

DISTINCT = 1e-4  # singular value of null vectors of blocks below which their difference may be rounding: an eigenvalue is its square


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that the rows of the problem prescribe: every diagonal entry in order, then the pairs i < j.

    ``A*(mu)`` is the symmetric matrix Y(mu) with ``<Y(mu), X> = mu . of(X)``.

    Attributes
    ----------
    n : int
    i, j : ndarray of int, shape (m,)
        Pairs; the c = n + m rows are ``X_kk`` and then ``X_ij``.
    one : float
        The prescribed diagonal.
    """

    n: int
    i: np.ndarray
    j: np.ndarray
    one: float = 1.0

    @classmethod
    def of_diagonal(cls, n: int, one: float = 1.0) -> Entries:
        """The diagonal without further entries."""
        none = np.zeros(0, np.int64)
        return cls(n, none, none, one)

    @property
    def has_pairs(self) -> bool:
        """Whether entries beside the diagonal are prescribed."""
        return len(self.i) > 0

    @property
    def n_free(self) -> int:
        """Number of entries i < j that are not prescribed."""
        return self.n * (self.n - 1) // 2 - len(self.i)

    @property
    def rows(self) -> np.ndarray:
        """Row and column number of each entry, shape (c, 2)."""
        k = np.arange(self.n)
        return np.column_stack([np.r_[k, self.i], np.r_[k, self.j]])

    def of(self, X: np.ndarray) -> np.ndarray:
        """The entries of a symmetric matrix, shape (c,)."""
        return np.concatenate([np.diag(X), X[self.i, self.j]])

    def write_inplace(self, X: np.ndarray, values: np.ndarray) -> None:
        """Set the entries of a symmetric matrix."""
        X[self.i, self.j] = X[self.j, self.i] = values[self.n :]
        np.fill_diagonal(X, values[: self.n])

    def wanted(self, C: np.ndarray) -> np.ndarray:
        """The prescribed values, shape (c,): the diagonal, and the fixed entries of C."""
        return np.concatenate([np.full(self.n, self.one), C[self.i, self.j]])

    def prescribed(self, C: np.ndarray) -> np.ndarray:
        """The matrix of the prescribed values, shape (n, n); 0 elsewhere."""
        B = np.zeros((self.n, self.n))
        self.write_inplace(B, self.wanted(C))
        return B

    def adjoint(self, mu: np.ndarray) -> Any:
        """``Y(mu)`` as a dense array."""
        Y = np.diag(mu[: self.n])
        Y[self.i, self.j] = Y[self.j, self.i] = 0.5 * mu[self.n :]
        return Y

    def times(self, mu: np.ndarray, U: np.ndarray) -> np.ndarray:
        """``Y(mu) U``."""
        return self.adjoint(mu) @ U if self.has_pairs else mu[:, None] * U

    def of_product(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``of(U V' + V U')``."""
        diagonal = 2.0 * np.einsum("ij,ij->i", U, V)
        if not self.has_pairs:
            return diagonal
        Z = U @ V.T
        return np.concatenate([diagonal, Z[self.i, self.j] + Z[self.j, self.i]])

    def operator(self, basis: np.ndarray) -> Operator:
        """The operator ``M -> of(basis M basis')``."""
        if not self.has_pairs:
            return RankOneRows(basis)
        pairs = Constraints.similarity(self.i, self.j, np.zeros(len(self.i)), "==")
        return bind(Constraints.diagonal(np.ones(self.n)) + pairs, basis)


@dataclass(frozen=True, eq=False)
class FixedBlocks:
    """Consequences of the fixed blocks of a matrix.

    Attributes
    ----------
    proof : ndarray, shape (c,), or None
        Multipliers that prove that no matrix has these entries.
    basis : ndarray, shape (n, r), or None
        Orthonormal basis of the complement of the null vectors; None if there are none.
    null : ndarray, shape (n, n - r), or None
        Orthonormal basis of the span of the null vectors.
    rows : ndarray of int
        Rows of the entries that imply the null vectors.
    reach : float
        Largest ``sqrt(tr V' X V)`` for the null vectors V, because the eigenvalue 0 of a block is known up to rounding.
    excess : float
        The same, without the part that is due to rounding of the entries of a singular block.
    """

    proof: np.ndarray | None = None
    basis: np.ndarray | None = None
    null: np.ndarray | None = None
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    reach: float = 0.0
    excess: float = 0.0

    def largest_decrease(self, Y: np.ndarray, reach: float) -> float:
        """Largest amount by which the part of X in the span of the null vectors lowers ``<Y, X>``, for X with trace n and this reach."""
        return 0.0 if self.null is None else 2.0 * np.sqrt(len(Y)) * reach * float(np.linalg.norm(Y @ self.null))


def fixed_blocks(entries: Entries, B: np.ndarray) -> FixedBlocks:
    """A fixed block with a negative eigenvalue, or the null vectors of all fixed blocks, from the prescribed entries B (n, n)."""
    vectors, squares, excess, rows = [], 0.0, 0.0, np.zeros(entries.n + len(entries.i), dtype=bool)
    for block in _cliques(entries):
        inside = B[np.ix_(block, block)]
        if cholesky(inside - 16.0 * len(block) * EPS * inside.trace() * np.eye(len(block)))[1]:
            continue  # every eigenvalue is positive beyond rounding
        t, U = np.linalg.eigh(inside)
        rounding = 8.0 * len(block) * EPS * max(1.0, float(t[-1]))
        if t[0] < -rounding:
            few = _irreducible(B, block, min(-64.0 * rounding, 1e-3 * float(t[0])))
            U = np.linalg.eigh(B[np.ix_(few, few)])[1]
            return FixedBlocks(proof=_proof(entries, few, U[:, 0]))
        for k in np.flatnonzero(t < rounding):
            v = np.zeros(entries.n)
            v[block] = U[:, k]
            vectors.append(v)
            squares += rounding
            u = U[:, k].astype(np.longdouble)  # u'Bu is more exact than t
            excess += max(float(u @ B[np.ix_(block, block)] @ u) - len(block) * EPS, 0.0)
            rows |= _proof(entries, block, U[:, k]) != 0
    if not vectors:
        return FixedBlocks()
    U, sigma, _ = np.linalg.svd(np.array(vectors).T, full_matrices=True)
    rank = int((sigma > DISTINCT).sum())
    if rank == entries.n:  # the null vectors contradict each other, which the multipliers have to prove
        return FixedBlocks()
    reach, excess = (float(np.sqrt(x * (sigma[:rank] ** -2.0).sum())) for x in (squares, excess))
    return FixedBlocks(basis=U[:, rank:], null=U[:, :rank], rows=np.flatnonzero(rows), reach=reach, excess=excess)


def _cliques(entries: Entries) -> list[np.ndarray]:
    """Sets of variables with all entries among them fixed, which cover every fixed pair.

    They are grown greedily from each variable, because finding all maximal cliques takes exponential time. A set is an integer
    with one bit for each variable. Variables with more fixed entries have lower bits, so the lowest bit is the variable to add next.
    """
    n = entries.n
    mask = np.zeros((n, n), dtype=bool)
    mask[entries.i, entries.j] = mask[entries.j, entries.i] = True
    order = np.argsort(-mask.sum(axis=1), kind="stable")
    packed = np.packbits(mask[np.ix_(order, order)], axis=1, bitorder="little")
    near, cliques = [int.from_bytes(row.tobytes(), "little") for row in packed], []
    left = near.copy()  # fixed pairs that no set covers yet
    for seed in range(n):
        while free := left[seed]:
            block, bits = [seed], 1 << seed
            while free:
                lowest = free & -free
                block.append(lowest.bit_length() - 1)
                bits |= lowest
                free = (near[seed] if len(block) == 2 else free) & near[block[-1]]
            for k in block:
                left[k] &= ~bits
            cliques.append(np.sort(order[block]))
    return cliques


def _irreducible(B: np.ndarray, block: np.ndarray, limit: float) -> np.ndarray:
    """Remove variables from a block as long as the remaining block has an eigenvalue below the limit.

    Each variable is tried once, because smaller blocks have larger smallest eigenvalues (Cauchy's interlacing theorem).
    """
    t, U = np.linalg.eigh(B[np.ix_(block, block)])
    if t[0] >= limit:
        return block
    for k in block[np.argsort(np.abs(U[:, 0]))]:
        rest = block[block != k]
        if len(rest) > 1 and np.linalg.eigvalsh(B[np.ix_(rest, rest)])[0] < limit:
            block = rest
    return block


def _proof(entries: Entries, block: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Multipliers of ``Y = v v'``: every X >= 0 has ``<Y, X> >= 0``, and the block prescribes ``<Y, X> = v' B v``."""
    n = entries.n
    w, y = np.zeros(n), np.zeros(n + len(entries.i))
    w[block] = np.where(np.abs(v) > 1e-14, v, 0.0)
    y[:n] = w * w
    y[n:] = 2.0 * w[entries.i] * w[entries.j]
    return y
