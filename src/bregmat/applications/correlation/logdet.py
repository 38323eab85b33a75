"""Newton's method for the LogDet-nearest matrix with a unit diagonal, where the Hessian is an explicit matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.newton import EPS, DenseIterate
from bregmat.linalg import add_diagonal, cholesky, cholesky_solve
from bregmat.numerics import armijo
from bregmat.problems import NearestMatrix
from bregmat.solve import MatrixState

QUICK = 20  # steps after which the path, which always arrives, is taken: what ends sooner takes 3 to 10


@dataclass(frozen=True, eq=False)
class _LogDetState(MatrixState):
    """A point of the dual with ``X = (C^-1 + diag(mu))^-1``."""

    solver: LogDetNewton
    problem: NearestMatrix
    dual: np.ndarray
    logdet: float  # of C^-1 + diag(mu)
    X: np.ndarray
    signal: float
    stalled: bool = False
    idle: int = 0
    steps: int = 0
    share: float | None = None  # of C^-1 that X is for, on the path; None: Newton's method on the whole of it

    @property
    def objective(self) -> float:  # type: ignore[override]
        """``g(mu) = logdet(I + A*(mu)) - sum mu``."""
        return self.logdet + self.solver.logdet - float(self.problem.losses.bound @ self.dual)

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.logdet) and np.isfinite(self.X).all())

    @cached_property
    def iterate(self) -> Any:
        """X with an exact unit diagonal."""
        d = 1.0 / np.sqrt(np.diag(self.X))
        X = self.X * np.multiply.outer(d, d)
        np.fill_diagonal(X, 1.0)
        K, ok = cholesky(X)
        if not ok:
            return DenseIterate(X, np.inf)
        # D(X, C) = |F|^2 - 2 logdet F - n with F = L^-1 K: no difference of large traces
        F = triangular_solve(self.solver.L, K)
        return DenseIterate(X, float(np.vdot(F, F)) - 2.0 * float(np.log(np.diag(F)).sum()) - len(X))

    @property
    def values(self) -> np.ndarray:  # type: ignore[override]
        """The diagonal of the iterate, once that is asked for; that of the iterate before, which costs nothing."""
        return np.ones(len(self.dual)) if "iterate" in self.__dict__ else np.diag(self.X)


@dataclass(frozen=True, eq=False)
class LogDetNewton:
    """Newton's method for the LogDet-nearest unit diagonal: ``X = (C^-1 + diag(mu))^-1``, Hessian of -g is ``X o X``.

    Parameters
    ----------
    L : ndarray, shape (n, n)
        Lower Cholesky factor of C.

    Notes
    -----
    Kulis 2009, Algorithm 1 projects onto one diagonal entry at a time; this moves all together. Where ``X_ii > 1`` the equation
    solved is ``1 / X_ii = 1``, linear in mu for a diagonal C: same Hessian, fewer steps. Cost 4/3 n^3 operations a step.

    A prior with tiny eigenvalues, or variables of very different scale, can take thousands of such steps. So after ``QUICK`` of them,
    or a stall, the path ``X(s) = (s C^-1 + diag(mu))^-1`` is followed from s near 0, where X is near I, to 1: each point is the centre
    of a self-concordant function, which damped Newton steps, ``1 / (1 + lambda)``, find from anywhere.
    """

    L: np.ndarray
    name: ClassVar[str] = "logdet_newton"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 200

    @cached_property
    def inverse(self) -> np.ndarray:
        """``C^-1``."""
        return inverse_from_cholesky(self.L)

    @cached_property
    def logdet(self) -> float:
        """``logdet C``."""
        return 2.0 * float(np.log(np.diag(self.L)).sum())

    def check(self, problem: NearestMatrix) -> None:
        """LogDet and one row for each diagonal entry."""
        if not problem.divergence.is_congruence_invariant or problem.c != len(self.L):
            raise TypeError(f"logdet_newton cannot handle {problem.divergence.name} with {problem.c} rows.")

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> _LogDetState:
        """The prior, or where its diagonal is far off what answers for a diagonal one, shrunk into the domain."""
        X = self.L @ self.L.T
        first = self._measured(problem, np.zeros(problem.c), X, -self.logdet)
        size = np.diag(X)
        if size.max() <= 2.0 and size.min() >= 0.5:
            return first
        d = 1.0 / np.sqrt(size)
        share = 0.9 / float((d * (np.abs(X) @ d)).max())  # C^-1 >= share diag(1 / C_ii)
        mu = 1.0 - share / size
        L, ok = cholesky(add_diagonal(self.inverse.copy(), mu))
        logdet = 2.0 * float(np.log(np.diag(L)).sum()) if ok else -np.inf
        if logdet - float(mu.sum()) <= first.logdet:
            return first
        return self._measured(problem, mu, inverse_from_cholesky(L), logdet)

    def step(self, problem: NearestMatrix, state: _LogDetState) -> _LogDetState:
        """One damped Newton step, on the path once the plain method has been slow."""
        if state.share is not None:
            return self._along(problem, state)
        new = self._plain(problem, state)
        if new.stalled or new.steps >= QUICK:
            share = 0.1 / float(np.trace(self.inverse))
            new = replace(self._on_path(problem, state, np.ones(problem.c), share), steps=state.steps + 1)
        return new

    def _on_path(self, problem: NearestMatrix, state: _LogDetState, mu: np.ndarray, share: float) -> _LogDetState:
        """The point mu of the path, or a stalled state where rounding ends it."""
        L, ok = cholesky(add_diagonal(share * self.inverse, mu))
        whole, fits = (L, ok) if share == 1.0 else cholesky(add_diagonal(self.inverse.copy(), mu))
        if not (ok and fits):
            return replace(state, stalled=True)
        logdet = 2.0 * float(np.log(np.diag(whole)).sum())
        new = self._measured(problem, mu, inverse_from_cholesky(L), logdet)
        # off its end the path has no gap worth computing
        return replace(new, share=share, signal=new.signal if share == 1.0 else np.inf, steps=state.steps + 1)

    def _along(self, problem: NearestMatrix, state: _LogDetState) -> _LogDetState:
        """One damped Newton step for this share of C^-1, or a larger share."""
        assert state.share is not None
        x = np.diag(state.X)
        H, ok = cholesky(state.X * state.X)
        if not ok:
            return replace(state, stalled=True)
        d = cholesky_solve(H, x - 1.0)
        decrement = float(np.sqrt(max(0.0, (x - 1.0) @ d)))
        damped = 1.0 / (1.0 + decrement) if decrement > 0.25 else 1.0
        mu, share = state.dual + damped * d, state.share
        if decrement <= 0.25 and share < 1.0:
            # the tangent of the path, in log(share), as far as X stays positive definite
            slope = cholesky_solve(H, -np.diag(state.X @ self.inverse @ state.X)) * share
            for factor in (10.0, 4.0, 2.0, 1.3):
                larger = min(1.0, factor * share)
                new = self._on_path(problem, state, mu + (larger / share - 1.0) * slope, larger)
                if not new.stalled and np.diag(new.X).max() < 4.0:
                    return new
            return self._on_path(problem, state, mu, min(1.0, 1.3 * share))
        new = self._on_path(problem, state, mu, share)
        if share == 1.0 and decrement < 1e-3:
            idle = state.idle + 1  # quadratic convergence is through after two such steps
            return replace(new, idle=idle, stalled=new.stalled or idle >= 6)
        return new

    def _plain(self, problem: NearestMatrix, state: _LogDetState) -> _LogDetState:
        """One Newton step with Armijo's rule."""
        x = np.diag(state.X)
        H, ok = cholesky(state.X * state.X)
        if not ok:
            H, ok = cholesky(add_diagonal(state.X * state.X, 1e-10 * x * x))
        if not ok:
            return replace(state, stalled=True)
        d = cholesky_solve(H, (x - 1.0) * np.maximum(x, 1.0))
        slope = float((x - 1.0) @ d)
        if not slope > 0:
            d = cholesky_solve(H, x - 1.0)
            slope = float((x - 1.0) @ d)
        rounding = EPS * (
            8.0 * abs(self.logdet) + 8.0 * float(np.abs(state.dual).sum()) + float(np.trace(self.inverse))
        )

        def trial(alpha: float) -> tuple[tuple[np.ndarray, np.ndarray, float, float], float] | None:
            mu = state.dual + alpha * d
            L, ok = cholesky(add_diagonal(self.inverse.copy(), mu))
            if not ok:
                return None
            logdet = 2.0 * float(np.log(np.diag(L)).sum())
            gain = logdet - state.logdet - float((mu - state.dual).sum())
            return (mu, L, logdet, gain), -gain

        found = armijo(trial, 0.0, -slope, rounding=rounding)
        if found is None:
            return replace(state, signal=slope, stalled=True)
        mu, L, logdet, gain = found[0]
        new = self._measured(problem, mu, inverse_from_cholesky(L), logdet)
        idle = 0 if gain > rounding else state.idle + 1
        return replace(new, idle=idle, stalled=idle >= 3, steps=state.steps + 1)

    def _measured(self, problem: NearestMatrix, mu: np.ndarray, X: np.ndarray, logdet: float) -> _LogDetState:
        """The state with a generous estimate of its gap: a certificate costs as much as a step."""
        x = np.diag(X)
        return _LogDetState(self, problem, mu, logdet, X, 2.0 * float(((x - 1.0) ** 2 / (x * x)).sum()))


def inverse_from_cholesky(L: np.ndarray) -> np.ndarray:
    """``(L L')^-1``, symmetric, from the lower Cholesky factor, whose upper triangle is 0."""
    from scipy.linalg import get_lapack_funcs

    lower = get_lapack_funcs("potri", dtype=np.float64)(L, lower=1)[0]
    X = lower + lower.T
    np.fill_diagonal(X, np.diag(lower))
    return X


def triangular_solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``L^-1 B`` for a lower triangular L."""
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs("trtrs", dtype=np.float64)(L, B, lower=1)[0]
