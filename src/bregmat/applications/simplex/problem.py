"""The nearest distribution as a problem: rows on the support of the prior, certificates, restoration, proofs of infeasibility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from bregmat.applications.simplex.subproblems import log_sum, newton_direction
from bregmat.base.checks import as_column, as_matrix
from bregmat.base.linalg import blocks
from bregmat.base.threads import cached_property, seconds_left
from bregmat.base.tolerances import EPS, FEASIBLE, TINY
from bregmat.constraints.columns import sense_codes
from bregmat.constraints.constraints import excess_of
from bregmat.engine.loop import State
from bregmat.engine.problem import CLEAR, Certificate, Problem, Proof

SUM_ROUNDINGS = 16.0  # roundings of a few operations and of pairwise sums, in units of EPS


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
    def at(cls, problem: NearestDistribution, mu: np.ndarray, v: np.ndarray | None = None, **more: Any) -> Self:
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


@dataclass(frozen=True, eq=False)
class NearestDistribution(Problem):
    """``minimize KL(x, prior)`` over ``x >= 0``, ``A x <sense> b``, ``sum x = total``, on the support of the prior.

    Attributes
    ----------
    A : ndarray, shape (c, n)
        The user's rows divided by ``factor``, so that the largest entry of each is between 1/2 and 2.
    b, sense, unit : ndarray, shape (c,)
        Right-hand sides divided by ``factor``; 1 for "<=", -1 for ">=", 0 for "=="; units of violations.
    factor : ndarray, shape (c,)
        Powers of two, so that the division is exact.
    prior, log0 : ndarray, shape (n,)
        The prior, positive, and its logarithm.
    total : float or None
        The sum of x; None if it is free.
    """

    A: np.ndarray
    b: np.ndarray
    sense: np.ndarray
    unit: np.ndarray
    factor: np.ndarray
    prior: np.ndarray
    log0: np.ndarray
    total: float | None
    # a certificate restores rows, so the signal must fall before the next one
    retries_feasible: ClassVar[bool] = False

    @classmethod
    def build(cls, prior: Any, A: Any, b: Any, sense: Any, total: float | None) -> tuple[Self, np.ndarray]:
        """Checked rows on the support of prior, and the support.

        Parameters
        ----------
        prior, A, b, sense, total
            As in :func:`bregmat.nearest_distribution`.
        """
        prior = as_column("prior", prior, per="column of A", lowest=0.0)
        support = prior > 0
        if not support.any():
            raise ValueError(f"prior must have a positive entry; all {len(prior)} are 0.")
        A = np.ascontiguousarray(as_matrix("A", A, empty=True))
        if A.shape[1] != len(prior):
            raise ValueError(f"A must have one column per entry of prior ({len(prior)}); got shape {A.shape}.")
        c = A.shape[0]
        b, sense = as_column("b", b, c, scalar=True), sense_codes(sense, c).astype(float)
        if not support.all():
            A, prior = A[:, support], prior[support]
        largest = np.maximum(A.max(axis=1, initial=0.0), -A.min(axis=1, initial=0.0))
        factor = np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1.0))))
        A, b = A / factor[:, None], b / factor
        mass = 1.0 if total is None else total / prior.sum()
        unit = np.abs(b)
        if (unit == 0).any():
            size = mass * np.array([np.abs(A[[j]]) @ prior for j in np.flatnonzero(unit == 0)])[:, 0]
            unit[unit == 0] = np.where(size > 0, size, 1.0)
        return cls(A, b, sense, unit, factor, prior, np.log(prior), None if total is None else float(total)), support

    @property
    def mass(self) -> float:
        """The natural size of KL(x, prior): the sum of x, or of the prior if that of x is free."""
        return float(self.prior.sum()) if self.total is None else self.total

    @property
    def sign(self) -> np.ndarray:
        """-1 for ">=", else 1: ``sign * mu >= 0`` wherever a row is an inequality."""
        return np.where(self.sense < 0, -1.0, 1.0)

    @cached_property
    def varies(self) -> np.ndarray:
        """Whether a row can change: with a fixed sum, rows of one number repeated have one value, and no weight of theirs moves x."""
        if self.total is None:
            return np.ones(len(self.b), dtype=bool)
        high, low = self.A.max(axis=1), self.A.min(axis=1)
        return high - low > SUM_ROUNDINGS * EPS * np.maximum(np.abs(high), np.abs(low))

    def adjoint(self, mu: np.ndarray) -> np.ndarray:
        """``A' mu``, without the rows of weight 0."""
        on = np.flatnonzero(mu)
        if len(on) < 0.5 * len(mu):
            return mu[on] @ self.A[on] if len(on) else np.zeros(len(self.prior))
        return mu @ self.A

    def log_point(self, T: np.ndarray) -> np.ndarray:
        """The logarithm of ``x ~ exp(T)`` with the sum ``total``."""
        if self.total is None:
            return T
        # steps along rows that have little left to change are large: the rounding of a common part must not stay in x
        T = T - T.max()
        return T - np.log(np.exp(T).sum()) + np.log(self.total)

    def bound(self, mu: np.ndarray, v: np.ndarray) -> float:
        """The dual bound g(mu) with ``v = A'mu``."""
        if self.total is None:
            return float(-(mu @ self.b) - self.prior @ np.expm1(-v))
        log_mass = log_sum(self.log0 - v) - np.log(self.total)
        return float(self.prior.sum() - self.total - self.total * log_mass - mu @ self.b)

    def bound_rounding(self, mu: np.ndarray, v: np.ndarray) -> float:
        """The largest rounding of :meth:`bound`: of the exponents, weighted with x, and of the sums."""
        on = np.flatnonzero(mu)
        exponents = np.abs(self.log0) + np.abs(v)
        if len(on):
            exponents += (SUM_ROUNDINGS + len(on)) * (np.abs(mu[on]) @ abs(self.A[on]))
        if self.total is None:
            x, sums = np.exp(self.log0 - v), float(self.prior @ np.abs(np.expm1(-v)))
        else:
            T = self.log0 - v
            x = np.exp(self.log_point(T))
            sums = float(self.prior.sum()) + self.total * (1.0 + abs(log_sum(T)) + abs(np.log(self.total)))
        sums += (1.0 + len(on)) * float(np.abs(mu) @ np.abs(self.b))
        return EPS * (float(x @ exponents) + SUM_ROUNDINGS * sums)

    def divergence(self, logx: np.ndarray) -> tuple[float, float]:
        """KL(x, prior), without cancellation for x near prior, and its largest rounding."""
        d, x = logx - self.log0, np.exp(logx)
        size = np.abs(d)
        terms = np.where(size > 1, x * d - (x - self.prior), self.prior * (d * np.exp(d) - np.expm1(d)))
        sizes = x * size * (1.0 + np.abs(logx) + np.abs(self.log0)) + np.minimum(size, 1.0) * (x + self.prior)
        return float(terms.sum()), SUM_ROUNDINGS * EPS * float(sizes.sum())

    def excess(self, p: np.ndarray) -> np.ndarray:
        """``sign * (p - b)``: positive for violated inequalities."""
        return self.sign * (p - self.b)

    def violation(self, p: np.ndarray) -> np.ndarray:
        """Relative violation of each row."""
        return np.maximum(excess_of(p, self.b, self.sense), 0.0) / self.unit

    def worst(self, p: np.ndarray) -> float:
        """The largest relative violation."""
        return float(self.violation(p).max(initial=0.0))

    def hessian(self, rows: np.ndarray, x: np.ndarray, p: np.ndarray) -> np.ndarray | None:
        """The Hessian of -g in ``sign * mu`` for some rows: ``A diag(x) A'``, or the covariance of the rows if the sum is fixed.

        None if the time limit is exceeded before it is complete.
        """
        mean = p[rows] / self.total if self.total is not None else np.zeros(len(rows))
        H = np.zeros((len(rows), len(rows)))
        numbers = min(2_000_000, 8192 * max(1, len(rows)))
        for some in blocks(len(x), len(rows), numbers):
            if seconds_left() < 0:
                return None
            part = self.A[rows, some] - mean[:, None]
            H += (part * x[some]) @ part.T
        return H * np.multiply.outer(self.sign[rows], self.sign[rows])

    # ------------------------------------------------------------------ certificates
    def certify(self, state: DistributionState) -> DistributionCertificate:
        """The certificate of a state's vector and dual weights; violated rows are restored first, if that succeeds."""
        logx, p, mu = state.logx, state.p, state.mu
        if FEASIBLE < self.worst(p) < 0.5:
            logx, p = self._restored(logx, p, mu) or (logx, p)
        violation, (objective, rounding) = self.violation(p), self.divergence(logx)
        worst, missed = float(violation.max(initial=0.0)), violation * self.unit
        v = self.adjoint(mu)  # not the v of the state, a sum of steps
        return DistributionCertificate(
            logx=logx,
            values=p,
            dual=mu,
            objective=objective,
            dual_bound=self.bound(mu, v) - self.bound_rounding(mu, v),
            missed=missed,
            upper=objective + rounding + float(np.abs(mu) @ missed) if worst <= FEASIBLE else np.inf,
            max_violation=worst,
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
                [[scipy.sparse.csr_array(self.A[:, columns][rows].T * -w), slack], [np.ones((1, len(w))), None]]
            )
            solution = scipy.optimize.linprog(cost, table, np.append(np.zeros(len(columns)), 1.0), bounds=bounds)
            if solution.status != 0 or -solution.fun <= CLEAR:
                break
            y, s = np.zeros_like(self.b), float(solution.x[-1])
            np.add.at(y, rows, w * solution.x[:-1])
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
            rows = np.flatnonzero(self.varies & (equal | (y > 0) | (q < 0.1 * self.unit)))
            H = self.hessian(rows, x, p)
            if H is None:
                return None
            H[np.diag_indices_from(H)] += 1e-12 * np.diag(H) + TINY
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
        part = self.A[:, tight][on] / unit[:, None]
        y = y.copy()
        y[on] -= np.linalg.lstsq(part.T, v[tight], rcond=None)[0] / unit
        return y if (self.sense * y >= 0).all() else np.zeros_like(y)
