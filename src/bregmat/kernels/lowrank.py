"""Low-rank factors of kernels that are never formed: pivoted incomplete Cholesky (Fine and Scheinberg 2001)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from bregmat.base.checks import asymmetry
from bregmat.base.tolerances import HALF_DIGITS, RANK_TOL
from bregmat.kernels.functions import INDEFINITE_KERNEL, check_values

NEARLY_GREEDY = 0.5  # a pivot's squared distance must be at least this share of the largest one outside of its block


@dataclass(frozen=True, eq=False)
class Pivots:
    """Points of a Nystroem approximation: ``k(x, y)`` is about ``g(x)' g(y)`` with ``g(x) = L^-1 k(pivots, x)``.

    The approximation is exact if x or y lies in the span of the pivots in feature space.
    """

    rows: np.ndarray  # row numbers (r,) of the pivots in the order in which they were chosen
    L: np.ndarray  # lower Cholesky factor (r, r) of the kernel between the pivots
    captured: float  # trace of the approximation over the trace of the kernel, 0 to 1

    def coordinates(self, columns: np.ndarray) -> np.ndarray:
        """Rows ``g(x)``, shape (n, r), from kernel values between points and pivots, shape (n, r)."""
        return solve_triangular(self.L, columns.T, lower=True, check_finite=False).T

    def dual(self, vectors: np.ndarray) -> np.ndarray:
        """Rows ``L^-T v``, for which ``v . g(x) = dual(v) . k(pivots, x)``."""
        return solve_triangular(self.L, vectors.T, lower=True, trans="T", check_finite=False).T


def pivoted_cholesky(K: Any, name: str = "kernel", *, scale: float | None = None, tol: float = RANK_TOL) -> Pivots:
    """Find the pivots of a kernel matrix up to its numerical rank by LAPACK's pivoted Cholesky factorisation; O(n r^2).

    Parameters
    ----------
    K : array-like, shape (n, n)
    name : str
        Name of the kernel in messages.
    scale : float, optional
        ``tol`` is relative to it; in units of K, by default the largest diagonal entry. A zero matrix has no pivots, and raises
        unless ``scale`` is given.
    tol : float
        Squared distance to the span of the pivots that counts as rounding.

    Raises
    ------
    ValueError
        For NaN, asymmetric and indefinite matrices.
    """
    K = np.asarray(K, dtype=float)
    check_values(K, name)
    diagonal = np.diag(K)
    top = float(np.abs(K).max(initial=0.0)) if scale is None else scale
    asymmetry(name, K, tol=max(HALF_DIGITS, tol), scale=top)
    if scale is None:
        _check_positive(diagonal, name)
    least = tol * (float(diagonal.max()) if scale is None else scale)
    if not diagonal.max(initial=0.0) > least:
        return Pivots(np.zeros(0, np.int64), np.zeros((0, 0)), 0.0)
    C, order, rank, _ = dpstrf(K, lower=1, tol=least)
    C = np.tril(C)[:, :rank]
    rows = order.astype(np.int64) - 1
    left = K[np.ix_(rows[rank:], rows[rank:])] - C[rank:] @ C[rank:].T
    _check_left(float(np.abs(left).max(initial=0.0)), top, name, tol)
    captured = float(np.einsum("ij,ij->", C, C) / diagonal.sum())
    return Pivots(rows[:rank], np.ascontiguousarray(C[:rank]), min(1.0, captured))


def incomplete_cholesky(
    kernel: Callable[[np.ndarray | None, np.ndarray], np.ndarray],
    diagonal: np.ndarray,
    rank: int,
    *,
    tol: float = RANK_TOL,
) -> tuple[np.ndarray, Pivots]:
    """Compute a factor G (n, r) with ``K`` about ``G G'`` from r columns of K, and its pivots.

    Each pivot is a point far from the span of the earlier pivots. Pivots are chosen in blocks, so that nearly all work consists of
    matrix products. The squared distance of every pivot of a block is at least half of the largest one outside of the block.

    Parameters
    ----------
    kernel : callable
        ``kernel(rows, columns)`` returns that block of K; ``rows=None`` means all.
    diagonal : ndarray, shape (n,)
        ``K_ii``.
    rank : int
        Largest number of columns, at least 1. Fewer are returned if K has a smaller rank.
    tol : float
        Squared distance to the span of the pivots, relative to the largest diagonal entry, that counts as rounding.

    Returns
    -------
    G : ndarray, shape (n, r)
    pivots : Pivots

    Raises
    ------
    ValueError
        K has NaN or is found to be indefinite.

    Notes
    -----
    O(n r^2) time and 8 n (r + 64) bytes. Deterministic.
    """
    n = len(diagonal)
    check_values(diagonal, "kernel", "k(x, x) ")
    _check_positive(diagonal, "kernel")
    top = float(diagonal.max())
    rank = min(rank, n)
    G = np.empty((n, rank))
    left = np.array(diagonal, dtype=float)
    rows = np.empty(rank, dtype=np.int64)
    k = 0
    while k < rank:
        chosen, L = _next_pivots(kernel, G[:, :k], left, tol * top, rank - k)
        b = len(chosen)
        if b == 0:
            break
        columns = np.array(kernel(None, chosen), dtype=float)
        check_values(columns, "kernel")
        # the residual K - G G' in the columns of the new pivots, then divided by their own Cholesky factor
        columns -= G[:, :k] @ G[chosen, :k].T
        G[:, k : k + b] = solve_triangular(L, columns.T, lower=True, check_finite=False).T
        left -= np.einsum("ij,ij->i", G[:, k : k + b], G[:, k : k + b])
        left[chosen] = 0.0
        _check_left(-float(left.min()), top, "kernel", tol)
        rows[k : k + b] = chosen
        k += b
    G, rows = G[:, :k], rows[:k]
    captured = 1.0 - float(np.maximum(left, 0.0).sum() / diagonal.sum())
    return G, Pivots(rows, np.tril(G[rows]), captured)


def _next_pivots(
    kernel: Callable[[np.ndarray | None, np.ndarray], np.ndarray],
    G: np.ndarray,
    left: np.ndarray,
    least: float,
    max_pivots: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The next block of pivots, and the Cholesky factor of the residual between them.

    ``G`` (n, k) is the factor so far, ``left`` (n,) the diagonal of the residual ``K - G G'``, which holds squared distances to the span of
    the pivots; ``least`` counts as rounding, and ``max_pivots`` is the largest number of pivots.
    """
    block = 32  # number of pivots chosen at a time
    candidates = min(len(left), 4 * block)
    near = np.argpartition(left, -candidates)[-candidates:]
    near = np.sort(near[left[near] > least])
    if not len(near):
        return near, np.zeros((0, 0))
    outside = np.delete(left, near).max(initial=0.0)
    part = kernel(near, near) - G[near] @ G[near].T
    C, order, rank, _ = dpstrf((part + part.T) / 2, lower=1, tol=least)
    reached = np.diag(C)[:rank] ** 2 >= NEARLY_GREEDY * outside
    # up to the first pivot that is too near to the span of the others, but at least one
    b = min(block, max_pivots, rank, max(1, int(np.argmin(np.append(reached, False)))))
    return near[order[:b] - 1], C[:b, :b]


def _check_positive(diagonal: np.ndarray, name: str) -> None:
    """Raise unless some k(x, x) is positive."""
    if not diagonal.max() > 0.0:
        raise ValueError(
            f"{name} must have a positive value k(x, x) for some point; the largest is {diagonal.max():.3g}."
        )


def _check_left(excess: float, top: float, name: str, tol: float) -> None:
    """Raise if the residual of the factorisation is larger than rounding explains."""
    if excess > max(HALF_DIGITS, 100.0 * tol) * top:
        raise ValueError(
            f"{name} must be positive semidefinite; beyond its positive part it has entries of size {excess:.3g} "
            f"where the largest is {top:.3g}. {INDEFINITE_KERNEL}"
        )
