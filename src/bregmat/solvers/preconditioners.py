"""Preconditioners for ``E + S o A*(h . A(S o E)) = B`` with rows of rank one, ``A_i = v_i v_i'``.

Each function returns ``R -> P^-1 R`` for a positive definite P near the system, or None if it does not suit the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve, eigh, symmetrize
from bregmat.base.tolerances import TINY
from bregmat.operators.linear_maps import Operator, smat, svec

Preconditioner = Callable[[np.ndarray], np.ndarray]

LIGHT = 0.1  # rows and entries of at most this size, beside the identity's 1, are left to the diagonal
BLOCK = 1400  # largest order of a factorised block
ROWS = 4  # rows of a sample for each entry of the block, at most
SAMPLE_FLOPS = 4e9  # more rows are taken if the block costs no more than this


def heavy_rows(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Preconditioner | None:
    """All rows of a size above ``LIGHT`` by Woodbury's formula, and the diagonal of the others; the size is ``h <A, S o S o A>``.

    Near the end of a path a few hundred active rows cause the ill-conditioning, in more entries than one block can hold. If there are more
    than ``BLOCK`` such rows, only the heaviest are taken. None if rows that are left out would exceed the identity, or if no row is heavy.
    """
    if S is None or not op.is_rank_one or op.is_sharded:
        return None
    heavy_row = 10.0  # size of the largest row from which this pays
    size = h * op.squared_norms(S * S)
    level = LIGHT
    while level < 1.0 and (size > level).sum() > BLOCK:
        level *= 2.0
    rows = np.flatnonzero(size > level)
    if len(rows) > BLOCK or not size.max(initial=0.0) > heavy_row:
        return None
    # P = D + sum_heavy h (S o A) (S o A)' with D the identity and the diagonal of the light rows
    diagonal = 1.0 + S * S * _squares(op, np.where(size > level, 0.0, h))
    heavy, root = op.restrict(rows), np.sqrt(h[rows])
    # Woodbury: P^-1 = D^-1 - D^-1 U (I + U' D^-1 U)^-1 U' D^-1
    few: np.ndarray = heavy.features(S / np.sqrt(diagonal)).astype(_dtype(size.max()))
    few *= root[:, None]
    C, ok = cholesky(add_diagonal((few @ few.T).astype(np.float64), 1.0))
    if not ok:
        return None
    back = S / diagonal

    def inverse(R: np.ndarray) -> np.ndarray:
        return R / diagonal - back * heavy.adjoint(root * cholesky_solve(C, root * heavy.values(back * R)))

    return inverse


def _squares(op: Operator, h: np.ndarray) -> np.ndarray:
    """``sum_i h_i A_i o A_i``, for rows of rank one."""
    root, squares = np.sqrt(h), np.zeros((op.r, op.r))
    for first in range(0, op.c, 4096):
        rows = np.arange(first, min(first + 4096, op.c))
        V = op.vectors(rows) * np.sqrt(root[rows])[:, None]
        V *= V
        squares += V.T @ V
    return squares


def _dtype(largest: float) -> type[np.floating]:
    """float32 if its rounding of the largest entry is far below 1, the smallest eigenvalue of the system."""
    return np.float32 if largest < 1e6 else np.float64


def heavy_block(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Preconditioner | None:
    """The block of the heaviest entries of E, from a sample of the rows, and the diagonal of the other entries.

    With heavy slack, and a metric S that falls over many decades, a few entries cause the ill-conditioning. Returns None without
    a metric, because most entries are heavy then, or if no entry is heavy.
    """
    heavy = 100.0  # largest diagonal entry, beside the identity's 1, from which this pays
    if S is None or not op.is_rank_one or op.is_sharded:
        return None
    k, l = np.triu_indices(op.r)
    root = np.sqrt(h)
    squares = _squares(op, h)
    # entry (k, l) of svec: diagonal of the system is 1 + S_kl^2 sum_i h_i v_ik^2 v_il^2, twice that off the diagonal
    weight = np.where(k == l, 1.0, np.sqrt(2.0)) * S[k, l]
    diagonal = weight * weight * squares[k, l]
    if not diagonal.max(initial=0.0) > heavy:
        return None
    top = np.argsort(-diagonal, kind="stable")[:BLOCK]
    top = top[diagonal[top] > LIGHT]
    rows, share = _systematic_sample(
        h * op.squared_norms(S * S), max(ROWS * len(top), int(SAMPLE_FLOPS / len(top) ** 2))
    )
    # block H = sum_rows (h / share) phi phi' + I, scaled to a unit diagonal
    unit = np.sqrt(1.0 + diagonal[top])
    scale = (weight[top] / unit)[:, None]
    dtype = _dtype(diagonal.max())
    columns = np.ascontiguousarray((op.vectors(rows) * np.sqrt(root[rows] / np.sqrt(share))[:, None]).T.astype(dtype))
    scale = scale.astype(dtype)
    H: np.ndarray = np.zeros((len(top), len(top)), dtype)
    for first in range(0, len(rows), 4096):
        part = columns[:, first : first + 4096]
        Phi = part[k[top]]
        Phi *= part[l[top]]
        Phi *= scale
        H += Phi @ Phi.T
    C, ok = cholesky(add_diagonal(H.astype(np.float64), 1.0 / (unit * unit)))
    if not ok:
        return None

    def inverse(R: np.ndarray) -> np.ndarray:
        x = svec(R)
        y = x / (1.0 + diagonal)
        y[top] = cholesky_solve(C, x[top] / unit) / unit
        return smat(y, op.r)

    return inverse


def _systematic_sample(size: np.ndarray, max_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, each taken with probability ``min(1, size / level)``, and their probabilities; about ``max_rows`` at most.

    The size bounds a leverage score (Cohen et al. 2015, "Uniform sampling for matrix approximation"): thousands of light rows count in
    the mean. Evenly spaced places on the sum of the probabilities give the same rows every time.
    """
    level = LIGHT
    while (chance := np.minimum(1.0, size / level)).sum() > max_rows:
        level *= 2.0
    places = np.floor(np.cumsum(chance) + 0.5)
    rows = np.flatnonzero(np.diff(places, prepend=0.0) > 0)
    return rows, chance[rows]


def fourth_moment(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Preconditioner | None:
    """Rows as if drawn from a Gaussian with their second moment (Isserlis' theorem); None for few rows.

    With ``C = sum h v v' / N``, ``N = sum h``, the map ``A* h A`` becomes ``s N (2 C E C + tr(C E) C)``, s fitted to the
    trace: diagonal plus rank one in the eigenbasis of C, so its inverse costs four products of order r. A metric S other
    than 1 enters through its diagonal.
    """
    if not op.is_rank_one or op.c < 10 * op.r:
        return None
    N = float(h.sum())
    C = op.adjoint(h) / N
    p = op.values_diagonal(None if S is None else np.diag(S))
    if S is not None:
        root = np.sqrt(np.diag(S))
        root[root < 1e-5 * root.max()] = 0.0  # not mixed with others, which keeps the relative accuracy of E / S
        C = C * np.multiply.outer(root, root)
    c, V = eigh(symmetrize(C))
    c = np.maximum(c, 0.0)
    # trace of A* h A over that of 2 C E C + tr(C E) C
    s = float((h * p * p).sum()) / max(N * (c.sum() ** 2 + 2.0 * float(c @ c)), TINY)
    # I + s N (2 C E C + tr(C E) C) = D o X + (s N c.diag X) diag(c); Sherman-Morrison for the rank-one term
    D = 1.0 + 2.0 * s * N * np.multiply.outer(c, c)
    u = c / np.diag(D)
    bend = s * N / (1.0 + s * N * float((c * u).sum()))

    def inverse(R: np.ndarray) -> np.ndarray:
        X = V.T @ R @ V
        Y = X / D
        add_diagonal(Y, -bend * float(u @ np.diag(X)) * u)
        return V @ Y @ V.T

    return inverse
