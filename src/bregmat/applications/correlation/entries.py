"""The entries that are prescribed - a unit diagonal, and those to keep - and what blocks of them imply.

Where all entries among a few variables are fixed, such a block B (with its unit diagonal) that has a negative eigenvalue proves
that there is no such matrix. A null vector v of B is one of X, because ``v' X v = v' B v = 0``: Newton's multipliers for it would
grow without end, so it is taken out first. An eigenvalue t > 0, however small, leaves X room of the order ``sqrt(t)``: only what
is 0 up to rounding is taken for 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import Labels
from bregmat.base.linalg import EPS
from bregmat.constraints.constraints import Constraints
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import Operator, RankOneRows

NEAR = 1e-6  # eigenvalue of a fixed block below which Newton's method may stall


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that rows prescribe: every diagonal entry in order, then pairs i < j.

    ``A*(mu)`` is the symmetric matrix Y(mu) with ``<Y(mu), X> = mu . of(X)``, so that the operator costs nothing beside products
    with eigenvectors.

    Attributes
    ----------
    n : int
    i, j : ndarray of int, shape (m,)
        Pairs; the c = n + m rows are ``X_kk`` and then ``X_ij``.
    labels : pair of lists, or None
        Names of the rows and columns, where C has them.
    """

    n: int
    i: np.ndarray
    j: np.ndarray
    labels: Labels = None

    @classmethod
    def of_diagonal(cls, n: int, labels: Labels = None) -> Entries:
        """The diagonal alone."""
        none = np.zeros(0, np.int64)
        return cls(n, none, none, labels)

    @property
    def has_pairs(self) -> bool:
        """Whether there is more than the diagonal."""
        return len(self.i) > 0

    @property
    def rows(self) -> np.ndarray:
        """The two numbers of each entry, shape (c, 2)."""
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
        """What is prescribed, shape (c,): ones on the diagonal, and the fixed entries of C."""
        return np.concatenate([np.ones(self.n), C[self.i, self.j]])

    def prescribed(self, C: np.ndarray, min_eig: float = 0.0) -> np.ndarray:
        """The matrix of what is prescribed less ``min_eig I``, shape (n, n); 0 elsewhere."""
        B = (1.0 - min_eig) * np.eye(self.n)
        B[self.i, self.j] = B[self.j, self.i] = C[self.i, self.j]
        return B

    def adjoint(self, mu: np.ndarray) -> Any:
        """``Y(mu)``, dense."""
        Y = np.diag(mu[: self.n])
        Y[self.i, self.j] = Y[self.j, self.i] = 0.5 * mu[self.n :]
        return Y

    def times(self, mu: np.ndarray, U: np.ndarray) -> np.ndarray:
        """``Y(mu) U``."""
        if not self.has_pairs:
            return mu[:, None] * U
        if len(self.i) > 0.05 * self.n**2:
            return self.adjoint(mu) @ U
        half = scipy.sparse.csr_array((0.5 * mu[self.n :], (self.i, self.j)), shape=(self.n, self.n))
        return mu[: self.n, None] * U + half @ U + half.T @ U

    def of_product(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``of(U V' + V U')``."""
        diagonal = 2.0 * np.einsum("ij,ij->i", U, V)
        if not self.has_pairs:
            return diagonal
        if len(self.i) > 0.05 * self.n**2:
            Z = U @ V.T
            pairs = Z[self.i, self.j] + Z[self.j, self.i]
        else:
            pairs = np.einsum("ij,ij->i", U[self.i], V[self.j]) + np.einsum("ij,ij->i", U[self.j], V[self.i])
        return np.concatenate([diagonal, pairs])

    def operator(self, basis: np.ndarray) -> Operator:
        """``M -> of(basis M basis')`` for any solver."""
        if not self.has_pairs:
            return RankOneRows(basis)
        rows = Constraints.diagonal(np.ones(self.n)) + Constraints.similarity(
            self.i, self.j, np.zeros(len(self.i)), "=="
        )
        return bind(rows, basis)


@dataclass(frozen=True, eq=False)
class FixedBlocks:
    """What the fixed blocks of a matrix imply.

    Attributes
    ----------
    proof : ndarray, shape (c,), or None
        Multipliers that prove that no matrix has these entries.
    basis : ndarray, shape (n, r), or None
        Orthonormal basis of what is orthogonal to the null vectors; None where there are none.
    null : ndarray, shape (n, n - r), or None
        Orthonormal basis of the span of the null vectors.
    part : ndarray, shape (n, n), or 0
        What the fixed entries are on the null vectors, where those are eigenvectors of eigenvalues that are not 0.
    fold : ndarray, shape (c,)
        Multipliers of the sum of ``v v'`` over the null vectors.
    """

    proof: np.ndarray | None = None
    basis: np.ndarray | None = None
    null: np.ndarray | None = None
    part: np.ndarray | float = 0.0
    fold: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def rows(self) -> np.ndarray:
        """Rows of the entries that make the null vectors."""
        return np.flatnonzero(self.fold)


def fixed_blocks(entries: Entries, B: np.ndarray, *, strict: bool = False, near: float = 0.0) -> FixedBlocks:
    """Look at the blocks that are prescribed altogether.

    Parameters
    ----------
    entries : Entries
    B : ndarray, shape (n, n)
        The prescribed diagonal and fixed entries.
    strict : bool
        Whether X must be positive definite, so that a singular block is a contradiction too.
    near : float
        Eigenvalues up to it count as 0, which proves nothing but leads to a matrix that is allowed.
    """
    vectors, fold, part = [], np.zeros(entries.n + len(entries.i)), np.zeros((entries.n, entries.n))
    for block in _cliques(entries):
        t, U = np.linalg.eigh(B[np.ix_(block, block)])
        rounding = 8.0 * len(block) * EPS * max(1.0, float(t[-1]))
        if t[0] < (rounding if strict else -rounding):
            few = _irreducible(B, block, rounding if strict else min(-64.0 * rounding, 1e-3 * float(t[0])))
            U = np.linalg.eigh(B[np.ix_(few, few)])[1]
            return FixedBlocks(proof=_proof(entries, few, U[:, 0]))
        for k in np.flatnonzero(t < max(near, rounding)):
            v = np.zeros(entries.n)
            v[block] = U[:, k]
            vectors.append(v)
            fold += _proof(entries, block, U[:, k])
            if t[k] >= rounding:
                part += t[k] * np.outer(v, v)
    if not vectors:
        return FixedBlocks()
    U, sigma, _ = np.linalg.svd(np.array(vectors).T, full_matrices=True)
    rank = int((sigma > 1e-8).sum())
    if rank == entries.n:
        return FixedBlocks()
    return FixedBlocks(basis=U[:, rank:], null=U[:, :rank], part=part, fold=fold)


def _cliques(entries: Entries) -> list[np.ndarray]:
    """Sets of variables with all entries among them fixed, grown greedily from each variable that is in none yet.

    Finding all of them is hard; pairs that no set covers are added as they are.
    """
    n = entries.n
    mask = np.zeros((n, n), dtype=bool)
    mask[entries.i, entries.j] = mask[entries.j, entries.i] = True
    degree, covered, found = mask.sum(axis=1), np.zeros((n, n), dtype=bool), []
    for seed in np.argsort(-degree, kind="stable"):
        while (mask[seed] & ~covered[seed]).any():
            second = int(np.argmax(np.where(mask[seed] & ~covered[seed], degree, -1)))
            block, free = [int(seed), second], mask[seed] & mask[second]
            while free.any():
                block.append(int(np.argmax(np.where(free, degree, -1))))
                free &= mask[block[-1]]
            chosen = np.sort(block)
            covered[np.ix_(chosen, chosen)] = True
            found.append(chosen)
    return found


def _irreducible(B: np.ndarray, block: np.ndarray, limit: float) -> np.ndarray:
    """A deletion filter: variables of a block are left out while an eigenvalue of the rest is below the limit.

    Without any variable that it keeps there is none, by Cauchy's interlacing: smaller blocks have larger smallest eigenvalues.
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
    """``Y = v v'``: ``<Y, X> = v' B v < 0`` for a matrix X >= 0."""
    n = entries.n
    w, y = np.zeros(n), np.zeros(n + len(entries.i))
    w[block] = np.where(np.abs(v) > 1e-14, v, 0.0)
    y[:n] = w * w
    y[n:] = 2.0 * w[entries.i] * w[entries.j]
    return y
