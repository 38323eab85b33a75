"""The nearest distribution as a problem: certificates, restoration of the rows, proofs of infeasibility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy

from bregmat.applications.simplex.linear_rows import LinearRows, newton_direction
from bregmat.base.linalg import EPS
from bregmat.certificates.infeasibility import CLEAR
from bregmat.certificates.problem import FEASIBLE, Certificate, Problem, Proof
from bregmat.run.loop import State


@dataclass(frozen=True, eq=False, kw_only=True)
class DistributionCertificate(Certificate):
    """A vector, given by its logarithm, with the values of its rows and signed dual weights."""

    logx: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class DistributionState(State):
    """The vector ``x(mu)`` with ``v = A'mu`` and the values p of the rows; the objective is the dual bound."""

    mu: np.ndarray
    v: np.ndarray
    logx: np.ndarray
    x: np.ndarray
    p: np.ndarray
    objective: float
    signal: float
    stalled: bool = False
    finished: bool = False
    cycles: int = 0  # of projections
    largest: float = 0.0  # largest norm of a Newton step
    idle: int = 0  # successive Newton steps without a gain

    @classmethod
    def at(cls, problem: LinearRows, mu: np.ndarray, v: np.ndarray | None = None, **more: Any) -> Self:
        """The state at the dual weights mu."""
        v = problem.adjoint(mu) if v is None else v
        logx = problem.log_point(problem.log0 - v)
        x = np.exp(logx)
        p, bound = problem.A @ x, problem.bound(mu, v)
        slack = abs(float(mu @ (p - problem.b))) / max(problem.mass, abs(bound))
        return cls(mu, v, logx, x, p, bound, max(problem.worst(p), slack), **more)

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.p).all() and np.isfinite(self.mu).all())


class NearestDistribution(LinearRows, Problem):
    """``minimize KL(x, x0)`` over ``x >= 0``, ``A x <sense> b``, ``sum x = total``, with its proofs."""

    retries_feasible = False  # a certificate restores rows, so the signal must fall before the next one

    @property
    def certifies_cheaply(self) -> bool:
        """A certificate first restores violated rows by Newton's method."""
        return False

    def certify(self, state: DistributionState) -> DistributionCertificate:
        """The certificate of a state's vector and dual weights; violated rows are restored first, if that succeeds."""
        logx, p, mu = state.logx, state.p, state.mu
        if FEASIBLE < self.worst(p) < 0.5:
            logx, p = self._restored(logx, p, mu) or (logx, p)
        violation, objective = self.violation(p), self.divergence(logx)
        worst, missed = float(violation.max(initial=0.0)), violation * self.unit
        v, rounding = self.adjoint(mu), self.divergence_rounding(logx)  # not the v of the state, a sum of steps
        return DistributionCertificate(
            logx=logx,
            values=p,
            dual=mu,
            objective=objective,
            dual_bound=self.bound(mu, v) - self.bound_rounding(mu, v),
            missed=missed,
            upper=objective + rounding + float(np.abs(mu) @ missed) if worst <= FEASIBLE else np.inf,
            violation=worst,
            size=self.mass,
        )

    def is_due(self, state: DistributionState, tol: float) -> bool:
        """The signal is a violation, and the gap is of second order in it."""
        return state.signal <= 10.0 * np.sqrt(tol)

    def estimate(self, state: DistributionState, works_on: str) -> dict[str, float]:
        """The dual bound and the largest violation are known at every step."""
        return {"objective": np.nan, "dual_bound": state.objective, "violation": self.worst(state.p)}

    def dual_size(self, state: DistributionState) -> float:
        """The largest dual weight, in units of the rows; inf if the weights are a proof of infeasibility."""
        return np.inf if self.proves(state.mu, state.v) else float(np.abs(state.mu * self.unit).max(initial=0.0))

    def contradiction(self, state: DistributionState) -> Proof | None:
        """Dual weights y that prove the rows infeasible, from a linear program; otherwise those of the state if they are a proof.

        ``max total * s - b . y`` over ``A'y >= s`` (s = 0 with a free sum) and ``sum |y| unit <= 1``. The program starts with a few
        columns of A and doubles them by those at which ``A'y`` is too small, because all columns of a large dense A take a minute.
        """
        rows = np.concatenate([np.flatnonzero(self.sense == s) for s in (1, -1, 0, 0)])
        sign = self.sign[rows]
        sign[len(self.b) :] = -1.0  # equalities are listed twice, once with each sign
        w, fixed = sign / self.unit[rows], self.total is not None
        cost = np.append(w * self.b[rows], -(self.total or 0.0))
        bounds = [(0, None)] * len(w) + [(None, None) if fixed else (0, 0)]
        columns = np.argsort(state.v)[:64]
        while True:
            slack = scipy.sparse.csr_array(np.full((len(columns), 1), float(fixed)))
            table = scipy.sparse.block_array(
                [[self.part(rows, columns).T * -w[None], slack], [np.ones((1, len(w))), None]]
            )
            found = scipy.optimize.linprog(cost, table, np.append(np.zeros(len(columns)), 1.0), bounds=bounds)
            if found.status != 0 or -found.fun <= CLEAR:
                break
            y, s = np.zeros_like(self.b), float(found.x[-1])
            np.add.at(y, rows, w * found.x[:-1])
            y[np.abs(y) * self.unit <= 1e-9] = 0.0
            at = self.adjoint(y)
            if self.proves(y, at):
                return Proof(y, np.flatnonzero(y))
            short = np.setdiff1d(np.flatnonzero(at < s - 1e-9 * np.abs(at).max()), columns)
            if len(short) == 0:
                y = self.mended(y, at)
                if self.proves(y):
                    return Proof(y, np.flatnonzero(y))
                break
            columns = np.append(columns, short[np.argsort(at[short])[: len(columns)]])
        return Proof(state.mu, np.flatnonzero(state.mu)) if self.proves(state.mu) else None

    def _restored(self, logx: np.ndarray, p: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Newton steps ``x <- x exp(-A'd)`` towards the violated rows; None if these stay violated.

        Rows with dual weights that are nearly equalities are kept as equalities as long as the steps allow it.
        """
        x, sign, equal = np.exp(logx), self.sign, self.sense == 0
        worst = self.worst(p)
        near = np.abs(self.excess(p)) <= 10.0 * worst * self.unit
        y = np.where(near, sign * mu, 0.0)
        for _ in range(8):
            margin = np.where(equal, 0.0, 1e-6 * worst + 1e-13) * self.unit
            q = -(self.excess(p) + margin)
            rows = np.flatnonzero(equal | (y > 0) | (q < 0.1 * self.unit))
            H = self.hessian(rows, x, p)
            H[np.diag_indices_from(H)] += 1e-12 * np.diag(H) + 1e-300
            d = np.zeros_like(p)
            d[rows] = newton_direction(H, q[rows], y[rows], ~equal[rows])
            y = y + d
            logx = self.log_point(logx - self.adjoint(sign * d))
            x = np.exp(logx)
            p = self.A @ x
            last, worst = worst, self.worst(p)
            if worst <= 0.1 * FEASIBLE or not worst < 0.7 * last:
                break
        return (logx, p) if worst <= FEASIBLE else None

    def proves(self, y: np.ndarray, v: np.ndarray | None = None) -> bool:
        """Whether sign-feasible weights y prove that no vector meets the rows, with rounding taken into account.

        Every x that meets the rows has ``y . b >= y . A x >= total * min(A'y)``; with a free sum, ``A'y >= 0`` and ``y . b < 0``.
        """
        on = np.flatnonzero(y)
        if len(on) == 0 or not np.isfinite(y).all():
            return False
        v = self.adjoint(y) if v is None else v
        value, clear = float(y @ self.b), CLEAR * float(np.abs(y) @ self.unit)
        low = np.flatnonzero(v == v.min()) if self.total is not None else np.flatnonzero(v < 0)
        noise = 8.0 * EPS * len(on) * (np.abs(y[on]) @ abs(self.A[on][:, low]))
        if self.total is None:
            return value < -clear and bool((v[low] >= -noise).all())
        return self.total * float((v[low] - noise).min()) - value > clear

    def mended(self, y: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Weights with ``A'y = 0`` in columns in which it is nearly 0, by least squares; all 0 if a sign would change."""
        on = np.flatnonzero(y)
        unit, size = self.unit[on], np.abs(y[on]) @ abs(self.A[on])
        tight = np.flatnonzero(np.abs(v) <= 1e-6 * size.max())[:5000]
        part = self.part(on, tight).toarray() / unit[:, None]
        y = y.copy()
        y[on] -= np.linalg.lstsq(part.T, v[tight], rcond=None)[0] / unit
        return y if (self.sense * y >= 0).all() else np.zeros_like(y)
