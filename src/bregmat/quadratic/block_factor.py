"""A Cholesky factor that is reused while few of the free variables change."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from bregmat._kernels import vectors


class BlockFactor:
    """Solves with ``A_FF`` for changing F: the Cholesky factor for an old free set, and a Schur complement for what has changed since.

    Let D be the variables that joined and R those that left. Then ``A_FF x = r`` is part of ``[[A_00, B], [B', C]] [x; z] = [r; ...]`` with
    the columns ``B = (A_0D, I_0R)`` and ``C = (A_DD, 0)``; z on R are the multipliers of ``x_R = 0``. The columns of ``L^-1 B`` are kept.

    Parameters
    ----------
    A : ndarray, shape (n, n)
    dtype : dtype
        float32 or float64: precision of the factor.
    """

    def __init__(self, A: np.ndarray, dtype: Any) -> None:
        self.A, self.dtype = A, np.dtype(dtype)
        self._potrf = get_lapack_funcs("potrf", dtype=self.dtype)
        self._trsv, self._trsm = get_blas_funcs(("trsv", "trsm"), dtype=self.dtype)
        self._base = np.zeros(0, np.int64)  # the free set of the factor; empty if there is none
        self._memory = np.empty(0, self.dtype)

    @property
    def is_single(self) -> bool:
        """Whether the factor is float32."""
        return self.dtype == np.float32

    def prepare(self, F: np.ndarray) -> bool:
        """Prepare solves on F (ascending); False if A_FF is not positive definite in this precision."""
        self.F = F
        return (len(self._base) > 0 and self._change(F)) or self._factor(F)

    def _factor(self, F: np.ndarray) -> bool:
        """Factor A_FF from scratch."""
        k = len(F)
        if self._memory.size < k * k:
            self._memory = np.empty(min(k + k // 8 + 8, len(self.A)) ** 2, self.dtype)
        M = self._memory[: k * k].reshape(k, k)
        vectors.gather_inplace(M, self.A, F, F)
        diagonal = M.diagonal().copy()
        L, info = self._potrf(M.T, lower=1, overwrite_a=1, clean=0)
        pivots = L.diagonal()
        # With a pivot that is all rounding, the factor exists but its solutions are useless.
        if info or not (pivots * pivots > 8 * np.finfo(self.dtype).eps * diagonal).all():
            self._base = np.zeros(0, np.int64)
            return False
        self._L, self._base = L, F
        self._place = np.full(len(self.A), -1, np.int64)
        self._place[F] = np.arange(k)
        self._names = np.zeros(0, np.int64)
        self._Y = np.zeros((k, 0), self.dtype, order="F")
        self._joined = self._left = np.zeros(0, np.int64)
        self._used = np.zeros(0, np.int64)
        return True

    def _change(self, F: np.ndarray) -> bool:
        """Update the Schur complement for F; False if too many variables changed."""
        share = 0.12  # number of changed variables, relative to the free ones, up to which the old factor is used
        joined = F[self._place[F] < 0]
        left = np.setdiff1d(self._base, F, assume_unique=True)
        if len(joined) + len(left) > share * len(F):
            return False
        changed = np.concatenate([joined, left])
        new = np.setdiff1d(changed, self._names)
        if len(new):
            self._Y = np.concatenate([self._Y, self._columns(new)], axis=1)
            self._names = np.concatenate([self._names, new])
        where = np.empty(len(self.A), np.int64)
        where[self._names] = np.arange(len(self._names))
        self._used = where[changed]
        # S = C - B' A_00^-1 B = C - Y'Y
        Y = self._Y[:, self._used]
        S = -(Y.T @ Y).astype(np.float64)
        k = len(joined)
        corner = np.empty((k, k))
        vectors.gather_inplace(corner, self.A, joined, joined)
        S[:k, :k] += corner
        if not np.isfinite(S).all():
            return False
        self._S, self._joined, self._left, self._Yused = S, joined, left, Y
        return True

    def _columns(self, names: np.ndarray) -> np.ndarray:
        """``L^-1 B`` of some variables: B has their column of A if they joined, a unit vector if they left."""
        B = np.zeros((len(self._L), len(names)), self.dtype, order="F")
        outside = self._place[names] < 0
        rows = names[outside]
        part = np.empty((len(rows), len(self._L)), self.dtype)
        vectors.gather_inplace(part, self.A, rows, self._base)
        B[:, outside] = part.T
        B[self._place[names[~outside]], np.flatnonzero(~outside)] = 1.0
        return self._trsm(1.0, self._L, B, lower=1, overwrite_b=1)

    def solve(self, r: np.ndarray) -> np.ndarray | None:
        """``A_FF^-1 r`` to the precision of the factor, shape (|F|,); None if the Schur complement is singular."""
        full = np.zeros(len(self.A))
        full[self.F] = r
        y = self._trsv(self._L, full[self._base].astype(self.dtype), lower=1)
        if len(self._used):
            rhs = np.concatenate([full[self._joined], np.zeros(len(self._left))]) - self._Yused.T @ y
            try:
                z = np.linalg.solve(self._S, rhs)
            except np.linalg.LinAlgError:
                return None
            y = y - self._Yused @ z.astype(self.dtype)
        x = self._trsv(self._L, y, lower=1, trans=1)
        full[self._base] = x
        if len(self._used):
            full[self._left] = 0.0
            full[self._joined] = z[: len(self._joined)]
        return full[self.F]
