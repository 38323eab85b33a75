"""Correlation matrices of a given rank, ``X = V V'`` with unit rows, or with k factors: a local search beside a proven bound.

If ``X = L L' + D`` with k factors and diagonal D has a unit diagonal, the rows of L have length at most 1. L is then the first k
columns of a matrix V with k + 1 columns and unit rows, so that one method solves both problems.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.applications.correlation.problem import CorrelationCertificate
from bregmat.base.linalg import eigh, eigvalsh
from bregmat.base.threads import take_interrupt
from bregmat.engine.loop import Run
from bregmat.engine.status import ExitReason

STEPS = 4000  # default limit on the steps of both searches together
LONGEST = 0.99  # largest length of a row of L at the start: at length 1 the gradient with respect to its D vanishes


def factor_bound(C: np.ndarray, k: int) -> float:
    """A lower bound of ``|L L' + D - C|^2 / 2`` over all correlation matrices with k factors; C has shape (n, n).

    Let ``E = C - D``. The distance of E from all L L' is at least that of their eigenvalues (Mirsky), and each eigenvalue of E is that of
    C minus a number in [0, 1] (Weyl). A block off the diagonal of X is L_1 L_2', of rank at most k: its squared distance is at least
    the sum of the squares of the further singular values (Eckart and Young). The blocks on the diagonal have bounds of their own.
    """
    t, half = eigvalsh(C)[::-1], len(C) // 2
    outside = np.minimum(t, 0.0)
    outside[k:] += np.maximum(t[k:] - 1.0, 0.0)
    bound = 0.5 * float(outside @ outside)
    if half <= k:
        return bound
    rest = np.linalg.svd(C[:half, half:], compute_uv=False)[k:]
    parts = float(rest @ rest) + factor_bound(C[:half, :half], k) + factor_bound(C[half:, half:], k)
    return max(bound, parts)


class _Ended(Exception):
    """Ends a search; the argument is the exit reason."""


@dataclass(eq=False)
class FactorSearch:
    """``minimize |L L' - C|^2 / 2`` over the first `rank` columns L of V, which has unit rows, from two starts.

    V has `rank` columns. With ``has_variances`` it has one more column, the root of D, and X has a diagonal of ones. The method is
    limited-memory BFGS for rows W of any length, ``V = W / |W|`` (Grubisic and Pietersz 2007 state the problem).

    Parameters
    ----------
    convex : Run
        Of the problem without a rank, whose bound is used and whose log is continued.
    C : ndarray, shape (n, n)
    rank : int
        From 1 to n.
    max_iter : int or None
        Limit on the steps of both searches together.
    has_variances : bool
        Whether to find ``L L' + D`` with so many factors, which has a bound of its own.
    """

    convex: Run
    C: np.ndarray
    rank: int
    max_iter: int | None
    has_variances: bool = False
    n_iter: int = 0

    def __post_init__(self) -> None:
        self.proof: CorrelationCertificate = self.convex.certificate
        self.log = self.convex.log
        self.size = max(1.0, float(np.abs(self.C).sum(axis=1).max()))  # unit of the objective and its gradient
        self.best = self._start(self.proof.X)
        self.least = self.size * self._cost(self.best)[0]
        self.limit = STEPS if self.max_iter is None else self.max_iter

    def continued(self) -> Run:
        """The run with the best matrix of both searches, or with the first start if the convex problem was stopped."""
        reason, tol = self.convex.exit_reason, self.convex.tol
        if self.has_variances:
            bound = factor_bound(self.C, self.rank)
            if bound > self.proof.dual_bound:  # no multipliers prove this bound
                self.proof = replace(self.proof, dual_bound=bound, dual=np.zeros_like(self.proof.dual))
        self.log.before = self.convex.n_iter
        if reason not in (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.NONFINITE):
            reason = self.run()
        L = self.factor(self.best)[0][:, : self.rank]
        X = L @ L.T
        np.fill_diagonal(X, 1.0)
        proof = replace(self.proof, objective=self.least, upper=self.least, max_violation=0.0, X=X, factor=L)
        name = f"{self.convex.solver} + factor_descent"
        return Run(self.log, proof, tol, reason, name, self.convex.n_iter + self.n_iter, by_own_rule=True)

    def run(self) -> ExitReason:
        """Search from the nearest matrix without a rank, then from C; return why the search ended."""
        from scipy.optimize import minimize  # loads on first use, which keeps ``import bregmat`` quick

        options = {"gtol": 1e-9, "ftol": 1e-15, "maxiter": self.limit + 1, "maxfun": 20 * self.limit + 20}
        A = self.C.copy()
        if self.has_variances:
            # principal factors: the largest correlation of a variable estimates the variance that it shares with others
            np.fill_diagonal(A, 0.0)
            A[np.diag_indices(len(A))] = np.minimum(np.abs(A).max(axis=1), 1.0)

        def follow(intermediate_result: Any) -> None:  # SciPy passes the point to an argument of this name
            self.n_iter += 1
            self._look(intermediate_result.x, self.size * intermediate_result.fun)

        try:
            with np.errstate(all="ignore"):
                for start in (self.best, self._start(A)):
                    self._look(start, self.size * self._cost(start)[0])
                    minimize(self._cost, start, jac=True, method="L-BFGS-B", callback=follow, options=options)
        except _Ended as ended:
            return ExitReason(ended.args[0])
        except KeyboardInterrupt:
            take_interrupt()
            return ExitReason.INTERRUPTED
        return ExitReason.TOLERANCE

    def _look(self, w: np.ndarray, value: float) -> None:
        """Record a point, keep it if it is the best one, and raise ``_Ended`` if the search ends with it."""
        if value < self.least:
            self.best, self.least = w.copy(), value
        bound, log, tol = self.proof.dual_bound, self.log, self.convex.tol
        gap = max(value - bound, 0.0) / max(1.0, value)
        row = log.note(self.n_iter, objective=value, dual_bound=bound, gap=gap, violation=0.0)
        if log.callback is not None and log.callback(row):
            raise _Ended(ExitReason.INTERRUPTED)
        if self.least - bound <= tol * max(1.0, self.least):
            raise _Ended(ExitReason.TOLERANCE)
        if self.n_iter >= self.limit:
            raise _Ended(ExitReason.MAX_ITER)
        if log.is_late():
            raise _Ended(ExitReason.TIME)

    def _start(self, A: np.ndarray) -> np.ndarray:
        """The rows, as one vector, of the factor of rank `rank` that is nearest to A."""
        t, U = eigh(A)
        L = U[:, -self.rank :] * np.sqrt(np.maximum(t[-self.rank :], 0.0))
        length = np.linalg.norm(L, axis=1)[:, None]
        if not self.has_variances:  # the gradient is in inverse proportion to the lengths, so all of them are 1
            return (np.where(length > 0, L, np.eye(1, self.rank)) / np.where(length > 0, length, 1.0)).ravel()
        L *= LONGEST / np.maximum(length, LONGEST)
        return np.hstack([L, np.sqrt(1.0 - np.minimum(length, LONGEST) ** 2)]).ravel()

    def factor(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V, whose rows are those of W divided by their lengths, and the lengths; w has all entries of W."""
        W = w.reshape(len(self.C), -1)
        length = np.linalg.norm(W, axis=1)[:, None]
        return W / length, length

    def _cost(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective at the rows W, and its gradient with respect to them, both over ``size``."""
        V, length = self.factor(w)
        L = V[:, : self.rank]
        # E = L L' - C; the diagonal of X is 1
        E = L @ L.T
        E -= self.C
        diagonal = 1.0 - np.diag(self.C)
        np.fill_diagonal(E, 0.0)
        # gradient 2 E L with respect to V, orthogonal to the rows of V, over their lengths
        G = np.zeros_like(V)
        G[:, : self.rank] = 2.0 * (E @ L)
        G -= np.einsum("ij,ij->i", G, V)[:, None] * V
        G /= length * self.size
        return 0.5 * (float(np.vdot(E, E)) + float(diagonal @ diagonal)) / self.size, G.ravel()
