"""The free variables of an active set and their Cholesky factor, which is updated if few variables change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import get_lapack_funcs

from bregmat._kernels import free_factor
from bregmat._kernels.arrays import FreeSet, Quadratic

if TYPE_CHECKING:  # programs use this module
    from bregmat.quadratic.program import QuadraticProgram

SINGULAR = 1e-12  # pivot of the scaled matrix below which a variable does not join


class FreeFactor:
    """``U'U = A_FF + rho E_F' E_F`` for the free set F.

    Both terms are of similar size; rho = 0 without rows E. A_FF may be singular.
    """

    def __init__(self, program: QuadraticProgram) -> None:
        E, rho = program.E, 0.0
        if len(E):
            size = float(program.root @ program.root) or float(program.n)
            rho = size / max(float((E * E).sum()), 1e-300)
        self.problem, self.n = Quadratic(program.A, E, program.upper, program.weights, rho), program.n
        self.n_factor = 0  # factorisations from scratch
        self._potrf, self._pstrf = get_lapack_funcs(("potrf", "pstrf"), dtype=np.float64)
        self.rebuild(np.zeros(0, np.int64))

    @property
    def size(self) -> int:
        """Number of free variables."""
        return int(self.state.size[0])

    @property
    def free(self) -> np.ndarray:
        """The free variables in the order of the factor."""
        return self.state.order[: self.size]

    def rebuild(self, F: np.ndarray) -> None:
        """Factor from scratch; variables whose columns depend on others are left out."""
        k = len(F)
        U = np.empty((k, k))
        if k > 0:
            self.n_factor += 1
            free_factor.gather_upper_inplace(U, F, self.problem)
            d = U.diagonal().copy()
            L, info = self._potrf(U.T, lower=1, overwrite_a=1, clean=0)
            U = L.T
            if info or not (np.square(U.diagonal()) > SINGULAR * d).all():
                U, F = self._pivoted(F)
        self.state = FreeSet.of(U, F, self.problem.E.shape)

    def _pivoted(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The factor of a largest independent subset of F, found with the diagonal scaled to 1, and the subset."""
        k = len(F)
        M = np.zeros((k, k))
        free_factor.gather_upper_inplace(M, F, self.problem)
        scale = np.sqrt(np.maximum(M.diagonal(), 0.0))
        usable = scale > 0.0
        inverse = np.where(usable, 1.0 / np.where(usable, scale, 1.0), 0.0)
        M *= inverse
        M *= inverse[:, None]
        c, pivots, rank, _ = self._pstrf(M.T, lower=1, tol=SINGULAR)
        order = pivots[:rank] - 1
        U = np.ascontiguousarray(c.T[:rank, :rank]) * scale[order]
        return U, F[order]

    def grow(self) -> None:
        """Reserve memory for more variables."""
        k = self.size
        if len(self.state.U) > k + 8 or len(self.state.U) == self.n:
            return
        order = min(self.n, k + max(32, k // 4))
        U = np.empty((order, order))
        U[:k, :k] = self.state.U[:k, :k]
        self.state = FreeSet.of(U, self.free, self.problem.E.shape)

    def join(self, new: np.ndarray) -> None:
        """Add variables to the free set, unless their columns depend on those of the others."""
        for j in new:
            self.grow()
            free_factor.join_inplace(self.state, self.problem, int(j), SINGULAR)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """``A_FF^-1 rhs``, for a program without rows."""
        d, none = rhs.copy(), np.zeros(0)
        free_factor.constrained_solve_inplace(d, none, none, self.state, self.problem)
        return d
