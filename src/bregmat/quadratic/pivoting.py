"""Block principal pivoting: exact solutions of positive definite problems from a handful of factorisations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from bregmat._kernels import descent, vectors
from bregmat.base.numerics import Exchanges
from bregmat.quadratic.active_set import Watch
from bregmat.quadratic.program import Minimum, QuadraticProgram

RELAXATION = 1.4  # of the sweeps that find the first free set
SWEEPS = 12
FLAT = 1e-8  # curvature along (1, ..., 1), relative to the most there could be, below which it is no start
SLOW = 0.6  # gain of a sweep over that of the one before it: from here on, factorisations are quicker
SINGLE_PRECISION = 256  # free variables from which the first factors are float32
COARSE = 1e-5  # conditions are tested to this in float32, relative to the largest entry
REFINEMENTS = 12
SHARE = 0.12  # changed variables, relative to the free ones, up to which the old factor is used
SINGLES = 10  # exchanges of one variable before the active set, which is monotone, takes over


def first_sides(program: QuadraticProgram, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """A guess of the active set by relaxed coordinate descent: point, side (-1 at zero, 0 free, 1 at the upper bound)."""
    A, b, upper = program.A, program.b, program.upper
    if start is None:
        along = A.sum(axis=0)
        total = float(along.sum())
        # along a direction with next to no curvature the minimum is far from all that follows
        curved = total > FLAT * float(program.root.sum()) ** 2
        length = max(0.0, -float(b.sum()) / total) if curved else 0.0
        x = np.minimum(length, upper)
        g = b + length * along if not (upper < length).any() else A @ x + b
    else:
        x = np.minimum(np.maximum(start, 0.0), upper)
        g = A @ x + b
    last = np.inf
    for k in range(SWEEPS):
        gain, changed = descent.sweep_inplace(x, g, A, upper, RELAXATION)
        if not gain > 0.0 or changed == 0 or (k >= 3 and gain > SLOW * last):
            break
        last = gain
    d = np.maximum(A.diagonal(), 1e-300)
    guess = x - g / d
    side = np.where(guess <= 0.0, -1, np.where(guess >= upper, 1, 0))
    side[upper <= 0.0] = -1
    return x, side


@dataclass(frozen=True)
class BlockPivoting:
    """The quickest exact method for positive definite A; elsewhere it gives up soon, and an active set goes on.

    Solve on the free variables, let every variable that violates its condition change sides, and again (Portugal, Judice and
    Vicente 1994; with Murty's single exchanges where blocks do not help). Equality rows are solved along with the free
    variables. Single exchanges would end for positive definite A, but not soon, and with upper bounds or rows nothing ensures it:
    they are limited.

    Parameters
    ----------
    tol : float
        Conditions on the gradient are tested to this, relative to the largest b that matters, both in units of sqrt(A_ii).
    max_iter : int
        Limit on free sets.

    Notes
    -----
    From 256 free variables on the factors are float32; a free set without violation is then refined with float64 residuals and
    tested again, and float64 factors take over only where refinement fails. Cost: |F|^3 / 3 per factor, n^2 per step.
    """

    tol: float = 1e-12
    max_iter: int = 60

    def minimize(self, program: QuadraticProgram, start: np.ndarray | None, watch: Watch | None = None) -> Minimum:
        """From a guess of the free set to the solution; ``is_done`` is False where A is singular on a free set, or none came back.

        Parameters
        ----------
        program : QuadraticProgram
        start : ndarray, shape (n,), optional
            Where the coordinate descent that guesses the free set begins.
        watch : callable, optional
            Gets (point, reduced gradient, free sets so far) after every step; True stops.

        Returns
        -------
        Minimum
            Where it is not done, ``x`` is the guess, unless ``watch`` has stopped the run.
        """
        guess, side = first_sides(program.without_rows(), start)
        if program.m and not (side == 0).any():
            side[:] = np.where(program.upper > 0, 0, -1)
        return _Pivots(program, self.tol, side).minimize(guess, self.max_iter, watch)


class _Pivots:
    """One run: the side of every variable, the free ones F, their stationary point x with gradient g and multipliers, and its units."""

    def __init__(self, program: QuadraticProgram, tol: float, side: np.ndarray) -> None:
        self.program, self.tol, self.side = program, tol, side
        self.A, self.b, self.upper = program.A, program.b, program.upper
        self.E, self.e = program.E, program.e
        self.weight = program.weights
        self.scale = program.unit(self.b, weighted=True)  # what a gradient is called small beside
        self.multiplier = np.zeros(program.m)
        self.x = self.g = np.zeros(program.n)
        self.F = np.flatnonzero(side == 0)
        strongest = float(np.abs(self.b * self.weight).max()) or 1.0
        sizes = np.array([self.A.diagonal().max(), strongest, np.abs(self.b).max(), strongest * self.weight.max()])
        is_coarse = len(self.F) >= SINGLE_PRECISION and bool(((sizes > 1e-25) & (sizes < 1e25)).all())
        self.factor = _BlockFactor(self.A, np.float32 if is_coarse else np.float64)

    def minimize(self, guess: np.ndarray, max_iter: int, watch: Watch | None) -> Minimum:
        """Free sets until every condition holds."""
        n, side = len(self.b), self.side
        exchanges = Exchanges(patience=3, singles=SINGLES)
        done, stopped, exact, n_iter = False, False, False, 0
        while n_iter < max_iter:
            n_iter += 1
            self.F = np.flatnonzero(side == 0)
            solved, single = self.solve(), self.factor.dtype == np.float32
            if solved:
                self.scale = self.program.unit(self.g, weighted=True)
                wrong = self.wrong(COARSE if single else None)
                # few wrong, or no progress: their signs may be rounding, so from here on they are tested after refinement
                if single and not exact and (len(wrong) <= max(8, n // 20) or len(wrong) >= exchanges.fewest):
                    exact = True
                    exchanges.restart()
                if single and exact:
                    solved = self.refine()
                    wrong = self.wrong(None) if solved else wrong
            if not solved:
                if not single:
                    break
                self.factor = _BlockFactor(self.A, np.float64)
                exchanges.restart()
                continue
            if watch is not None:
                stopped = watch(np.minimum(np.maximum(self.x, 0.0), self.upper), self.g, n_iter)
                if stopped:
                    break
            if not len(wrong):
                done = True
                break
            moved = exchanges.choose(wrong)
            if moved is None:
                break
            side[moved] = np.where(side[moved] != 0, 0, np.where(self.x[moved] <= 0.0, -1, 1))
        if done and self.factor.dtype == np.float64:
            self.refine(most=2)
        if not done and not stopped:
            return Minimum(x=guess, n_iter=n_iter, guess=guess)
        x = np.minimum(np.maximum(self.x, 0.0), self.upper)
        rising = self.rising if done else None
        return Minimum(x=x, multiplier=self.multiplier, is_done=done, n_iter=n_iter, rising=rising, guess=guess)

    def rising(self) -> Iterator[np.ndarray]:
        """The w with ``A w = sqrt(A_ii)`` on the free variables."""
        solved = self.factor.solve(self.program.root[self.F]) if len(self.F) else None
        if solved is not None:
            w = np.zeros(len(self.b))
            w[self.F] = solved
            yield w

    def solve(self) -> bool:
        """The stationary point of the free set and the gradient there; False where there is none."""
        F = self.F
        x = np.where(self.side > 0, self.upper, 0.0)
        fixed = self.b + self.A @ x if (self.side > 0).any() else self.b
        if len(F) == 0:
            self.x, self.g = x, fixed.copy()
            return len(self.E) == 0
        if not self.factor.prepare(F):
            return False
        step = self.bordered(-fixed[F], self.e - self.E @ x)
        if step is None:
            return False
        x[F], self.multiplier = step
        if not np.isfinite(x).all():
            return False
        self.x, self.g = x, self.gradient(x)
        return True

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """``A x + b + E' multiplier``, from the rows of the symmetric A where x is not 0."""
        g, rows = self.b.copy(), np.flatnonzero(x)
        vectors.add_rows_inplace(g, self.A, rows, x[rows])
        return g + self.multiplier @ self.E if len(self.E) else g

    def bordered(self, r: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """d and mu with ``A_FF d + E_F' mu = r``, ``E_F d = residual``."""
        d = self.factor.solve(r)
        if d is None or len(self.E) == 0:
            return None if d is None else (d, self.multiplier)
        E = self.E[:, self.F]
        W = [self.factor.solve(row) for row in E]
        if any(w is None for w in W):
            return None
        columns = np.array(W)
        S = columns @ E.T
        if not np.isfinite(S).all() or np.linalg.cond(S) > 1e10:
            return None
        mu = np.linalg.solve(S, E @ d - residual)
        return d - mu @ columns, mu

    def refine(self, most: int = REFINEMENTS) -> bool:
        """Residuals in float64, corrections by the factor. False where they do not become small."""
        x, g, F, last = self.x, self.g, self.F, np.inf
        for k in range(most + 1):
            g[:] = self.A @ x + self.b
            if len(self.E):
                g += self.multiplier @ self.E
            if len(F) == 0:
                return True
            missing = self.e - self.E @ x
            size = float(np.abs(g[F] * self.weight[F]).max()) / self.scale
            if not np.isfinite(size):
                return False
            if size > 0.5 * last or size <= 1e-16 or k == most:
                return size <= 1e-13
            last = size
            step = self.bordered(-g[F], missing)
            if step is None:
                return False
            x[F] += step[0]
            if len(self.E):
                self.multiplier = self.multiplier + step[1]
        return False

    def wrong(self, coarse: float | None) -> np.ndarray:
        """Variables that violate the condition of their side."""
        x, g, side = self.x, self.g, self.side
        largest = float(np.abs(x / self.weight).max())
        slack_x = (1e-15 if coarse is None else coarse) * largest * self.weight
        slack_g = (self.tol if coarse is None else coarse) * self.scale / self.weight
        bad = (side == 0) & ((x < -slack_x) | (x > self.upper + slack_x))
        bad |= (side < 0) & (g < -slack_g) & (self.upper > 0.0)
        bad |= (side > 0) & (g > slack_g)
        return np.flatnonzero(bad)


class _BlockFactor:
    """``A_FF^-1`` for changing F: Cholesky of ``A_00`` for an old free set and a Schur complement of what changed since.

    With D the variables that joined and R those that left, ``A_FF x = r`` is ``[[A_00, B], [B', C]] [x; z] = [r; ...]`` with the
    columns ``B = (A_0D, I_0R)``, ``C = (A_DD, 0)``: z on R are the multipliers of ``x_R = 0``. ``L^-1 B`` is kept column by column.
    """

    def __init__(self, A: np.ndarray, dtype: Any) -> None:
        self.A, self.dtype = A, np.dtype(dtype)
        self._potrf = get_lapack_funcs("potrf", dtype=self.dtype)
        self._trsv, self._trsm = get_blas_funcs(("trsv", "trsm"), dtype=self.dtype)
        self._base: np.ndarray | None = None
        self._memory = np.empty(0, self.dtype)

    def prepare(self, F: np.ndarray) -> bool:
        """Ready for solves on F (ascending); False where A_FF is not positive definite in this precision."""
        self.F = F
        if self._base is not None and self._change(F):
            return True
        return self._factor(F)

    def _factor(self, F: np.ndarray) -> bool:
        """A new factor."""
        k = len(F)
        if self._memory.size < k * k:
            self._memory = np.empty(min(k + k // 8 + 8, len(self.A)) ** 2, self.dtype)
        M = self._memory[: k * k].reshape(k, k)
        vectors.gather_inplace(M, self.A, F, F)
        diagonal = M.diagonal().copy()
        L, info = self._potrf(M.T, lower=1, overwrite_a=1, clean=0)
        pivots = L.diagonal()
        # a pivot that is all rounding: the factor would hold, its solution would not
        if info or not (pivots * pivots > 8 * np.finfo(self.dtype).eps * diagonal).all():
            self._base = None
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
        """Use the old factor if few changed; False where a new one is due."""
        joined = F[self._place[F] < 0]
        kept = np.zeros(len(self.A), bool)
        kept[F] = True
        left = self._base[~kept[self._base]]  # type: ignore[index]
        if len(joined) + len(left) > SHARE * len(F):
            return False
        changed = np.concatenate([joined, left])
        if len(changed) == 0:
            self._joined, self._left, self._used = joined, left, changed
            return True
        new = np.setdiff1d(changed, self._names)
        if len(new):
            self._Y = np.concatenate([self._Y, self._columns(new)], axis=1)
            self._names = np.concatenate([self._names, new])
        where = np.empty(len(self.A), np.int64)
        where[self._names] = np.arange(len(self._names))
        self._used = where[changed]
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
        """``L^-1 B`` of some variables: their column of A if they joined, a unit vector if they left."""
        B = np.zeros((len(self._L), len(names)), self.dtype, order="F")
        outside = self._place[names] < 0
        rows = names[outside]
        part = np.empty((len(rows), len(self._L)), self.dtype)
        vectors.gather_inplace(part, self.A, rows, self._base)
        B[:, outside] = part.T
        B[self._place[names[~outside]], np.flatnonzero(~outside)] = 1.0
        return self._trsm(1.0, self._L, B, lower=1, overwrite_b=1)

    def solve(self, r: np.ndarray) -> np.ndarray | None:
        """``A_FF^-1 r`` to the precision of the factor, shape (|F|,); None where the Schur complement is singular."""
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
