"""The nearest distribution as a problem that owns its proofs, and the state that its solvers move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bregmat.applications.simplex.proofs import DistributionCertificate, certify, proves, separation
from bregmat.applications.simplex.rows import LinearRows
from bregmat.proofs import Certificate, Problem, Proof
from bregmat.solve import State


@dataclass(frozen=True, eq=False)
class DistributionState(State):
    """``x(mu)`` with ``v = A'mu``, values p and the dual bound as objective; ``kept`` is what a solver carries along."""

    mu: np.ndarray
    v: np.ndarray
    logx: np.ndarray
    x: np.ndarray
    p: np.ndarray
    objective: float
    signal: float
    stalled: bool = False
    finished: bool = False
    kept: Any = None
    steps: dict[str, list] = field(default_factory=dict)

    @classmethod
    def at(cls, problem: LinearRows, mu: np.ndarray, v: np.ndarray | None = None, **more: Any) -> Self:
        """All that is known at mu."""
        v = problem.adjoint(mu) if v is None else v
        logx = problem.log_point(problem.log0 - v)
        x = np.exp(logx)
        p, bound = problem.A @ x, problem.bound(mu, v)
        worst = float(problem.violation(p).max(initial=0.0))
        slack = abs(float(mu @ (p - problem.b))) / max(1.0, abs(bound))
        return cls(mu, v, logx, x, p, bound, max(worst, slack), **more)

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """One array per name, an entry a step."""
        return {name: np.array(x, dtype=int if name == "row" else float) for name, x in self.steps.items()}

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.p).all() and np.isfinite(self.mu).all())


class NearestDistribution(LinearRows, Problem):
    """``minimize KL(x, x0)`` over ``x >= 0``, ``A x <sense> b``, ``sum x = total``, with its proofs."""

    @property
    def certifies_cheaply(self) -> bool:
        """A point off its rows is moved onto them by Newton's method first."""
        return False

    def certify(self, state: DistributionState) -> DistributionCertificate:
        """The certificate of a state's vector and weights."""
        return certify(self, state.logx, state.p, state.mu)

    def is_due(self, state: DistributionState, tol: float) -> bool:
        """The signal is a violation, of first order; the gap is of second."""
        return state.signal <= 10.0 * np.sqrt(tol)

    def retry_below(self, certificate: Certificate, state: DistributionState) -> float:
        """The next one once the signal has fallen by a factor of four."""
        return 0.25 * state.signal

    def estimate(self, state: DistributionState, works_on: str) -> dict[str, float]:
        """The dual bound and the largest violation are known at every step."""
        worst = float(self.violation(state.p).max(initial=0.0))
        return {"objective": np.nan, "dual_bound": state.objective, "violation": worst}

    def dual_size(self, state: DistributionState) -> float:
        """The largest weight, in units of the rows; inf where the weights are a proof themselves."""
        return np.inf if proves(self, state.mu, state.v) else float(np.abs(state.mu * self.unit).max(initial=0.0))

    def contradiction(self, state: DistributionState) -> Proof | None:
        """Weights that separate the rows from all vectors."""
        y = separation(self, state.mu, state.v)
        return None if y is None else Proof(y, np.flatnonzero(y))
