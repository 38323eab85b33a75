"""Low-rank factors of kernels that are never formed: pivoted incomplete Cholesky (Fine and Scheinberg 2001)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from bregmat.base.checks import is_exactly_symmetric
from bregmat.kernels.functions import check_values

PIVOT_TOL = 1e-12  # squared distance to the span of the pivots, relative to the largest k(x, x), that is rounding
INDEFINITE_TOL = 1e-8  # what is left of a PSD kernel may be this negative by rounding, relative to the largest k(x, x)
BLOCK = 32  # pivots chosen at a time
NEARLY_GREEDY = 0.5  # share of the largest squared distance outside the block that a pivot of a block must reach


@dataclass(frozen=True, eq=False)
class Pivots:
    """Points whose span stands for the kernel: ``k(x, y)`` is about ``g(x)' g(y)`` with ``g(x) = L^-1 k(pivots, x)``.

    Exact where x or y lies in the span of the pivots. This is the Nystroem approximation with these points as landmarks.

    Attributes
    ----------
    rows : ndarray of int, shape (r,)
        Row numbers of the pivots, in the order they were chosen.
    L : ndarray, shape (r, r)
        Lower Cholesky factor of the kernel between the pivots.
    captured : float
        Share of the trace of the kernel that the approximation holds, 0 to 1.
    """

    rows: np.ndarray
    L: np.ndarray
    captured: float

    def coordinates(self, columns: np.ndarray) -> np.ndarray:
        """``g(x)`` as rows (n, r), from the kernel between points and pivots (n, r)."""
        return solve_triangular(self.L, columns.T, lower=True, check_finite=False).T

    def dual(self, vectors: np.ndarray) -> np.ndarray:
        """Rows ``L^-T v``: ``v . g(x)`` is ``dual(v) . k(pivots, x)``."""
        return solve_triangular(self.L, vectors.T, lower=True, trans="T", check_finite=False).T


def pivoted_cholesky(K: Any, name: str = "kernel", *, scale: float | None = None, tol: float = PIVOT_TOL) -> Pivots:
    """Pivots of a kernel matrix up to its numerical rank, by LAPACK's pivoted Cholesky; O(n r^2).

    Parameters
    ----------
    K : array-like, shape (n, n)
    name : str
        What messages call it.
    scale : float, optional
        What ``tol`` is relative to, in units of K; by default the largest diagonal entry. A zero matrix has no pivots, and is
        an error unless ``scale`` is given.
    tol : float
        Squared distance to the span of the pivots that is rounding.

    Raises
    ------
    ValueError
        For NaN, asymmetric and indefinite matrices.
    """
    K = np.asarray(K, dtype=float)
    check_values(K, name)
    diagonal = np.diag(K)
    top = float(np.abs(K).max(initial=0.0)) if scale is None else scale
    is_exactly_symmetric(name, K, tol=max(INDEFINITE_TOL, tol), scale=top)
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
    tol: float = PIVOT_TOL,
) -> tuple[np.ndarray, Pivots]:
    """Factor G (n, r) with ``K`` about ``G G'`` from r columns of K, and its pivots.

    Each pivot is the point farthest from the span of those before it. Pivots are chosen in blocks, so that nearly all work
    is in products of matrices: within a block every pivot is at least half as far (squared) as the farthest point outside.

    Parameters
    ----------
    kernel : callable
        ``kernel(rows, columns)`` is that block of K; rows None means all.
    diagonal : ndarray, shape (n,)
        ``K_ii``.
    rank : int
        Most columns, at least 1. Fewer are returned where K has a smaller rank.
    tol : float
        Squared distance to the span of the pivots, relative to the largest diagonal entry, that is rounding.

    Returns
    -------
    G : ndarray, shape (n, r)
    pivots : Pivots

    Raises
    ------
    ValueError
        For NaN, and where K turns out to be indefinite.

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
        near = np.argpartition(left, -min(n, 4 * BLOCK))[-min(n, 4 * BLOCK) :]
        near = np.sort(near[left[near] > tol * top])
        if not len(near):
            break
        outside = np.delete(left, near).max(initial=0.0)
        part = kernel(near, near) - G[near, :k] @ G[near, :k].T
        C, order, found, _ = dpstrf((part + part.T) / 2, lower=1, tol=tol * top)
        reached = np.diag(C)[:found] ** 2 >= NEARLY_GREEDY * outside
        b = min(BLOCK, rank - k, max(1, int(np.argmin(reached)) if not reached.all() else found))
        if found == 0:
            break
        chosen = near[order[:b] - 1]
        columns = np.array(kernel(None, chosen), dtype=float)
        check_values(columns, "kernel")
        columns -= G[:, :k] @ G[chosen, :k].T
        G[:, k : k + b] = solve_triangular(C[:b, :b], columns.T, lower=True, check_finite=False).T
        left -= np.einsum("ij,ij->i", G[:, k : k + b], G[:, k : k + b])
        left[chosen] = 0.0
        _check_left(-float(left.min()), top, "kernel", tol)
        rows[k : k + b] = chosen
        k += b
    G, rows = G[:, :k], rows[:k]
    captured = 1.0 - float(np.maximum(left, 0.0).sum() / diagonal.sum())
    return G, Pivots(rows, np.tril(G[rows]), captured)


def _check_positive(diagonal: np.ndarray, name: str) -> None:
    if not diagonal.max() > 0.0:
        top = f"{diagonal.max():.3g}"
        raise ValueError(f"{name} must have a positive value k(x, x) for some point; the largest is {top}.")


def _check_left(excess: float, top: float, name: str, tol: float) -> None:
    if excess > max(INDEFINITE_TOL, 100.0 * tol) * top:
        raise ValueError(
            f"{name} must be positive semidefinite; beyond its positive part it has entries of size {excess:.3g} "
            f"where the largest is {top:.3g}."
        )
