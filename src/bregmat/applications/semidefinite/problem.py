"""A semidefinite program: certificates of its points, and proofs that it is infeasible.

``minimize tr(C M) + sum_i loss_i(p_i)`` over ``M >= 0`` with ``p = A(M)``. For dual weights mu of feasible signs with
``S = C + A*(mu)`` positive semidefinite, ``-sum loss*_i(mu_i)`` is a lower bound (weak duality); for hard rows it is ``-b . mu``.

Where no trace is bounded and the objective is constant along a direction, S is singular for all mu. So S counts as positive semidefinite
if its eigenvalues are not negative by more than rounding of S. What this costs at a matrix of a large trace (``TRACE``) is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.linalg import eigvalsh
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import CANCELLED, EPS, FEASIBLE, TINY
from bregmat.certificates.faces import ROUNDED
from bregmat.certificates.problem import MatrixCertificate, NearestMatrix, build_problem
from bregmat.certificates.restoration import with_met_rows
from bregmat.constraints.constraints import Constraints
from bregmat.engine.problem import Problem, Proof
from bregmat.objective.divergences import Frobenius
from bregmat.objective.losses import SquaredHinge
from bregmat.operators.linear_maps import Operator

SIZE = 1e-3  # natural size of the objective, over the norm of C times the largest bound over the norm of its row
ROUNDINGS = 8.0  # of a few operations, in units of EPS
DUE = 1e-2  # estimate of the relative gap below which certificates are computed
NEGLIGIBLE = 1e-10  # norm of a weighted row, relative to the sum of all and C, below which its weight may be 0
TRACE = 1e4  # trace for which rounding of S is subtracted, over the largest bound over the norm of its row


@dataclass(frozen=True, eq=False)
class SemidefiniteProgram(Problem):
    """A linear objective under constraints.

    Attributes
    ----------
    C : ndarray, shape (r, r)
    rows : NearestMatrix
        The constraints as a nearness problem, whose losses, restoration of hard rows and proofs of infeasibility are used.
    is_psd : ndarray of bool, shape (c,)
        Whether the matrix of a row is known to be positive semidefinite.
    """

    C: np.ndarray
    rows: NearestMatrix
    is_psd: np.ndarray

    @classmethod
    def build(
        cls, C: np.ndarray, operator: Operator, constraints: Constraints, slack_weight: Any
    ) -> SemidefiniteProgram:
        """Build a program; rows with a finite slack weight have the squared hinge loss.

        Parameters
        ----------
        C : ndarray, shape (r, r)
        operator : Operator
            The constraints, bound to the coordinates.
        constraints : Constraints
        slack_weight : float or array-like, shape (c,)
        """
        prior = np.ones(operator.r)
        rows = build_problem(Frobenius(), prior, operator, constraints, SquaredHinge(), slack_weight)
        return cls(C, rows, constraints.psd_rows())

    @cached_property
    def natural_size(self) -> float:
        """The smallest unit of the gap; 1 if C or all bounds are 0."""
        return SIZE * float(np.linalg.norm(self.C)) * self.reach or 1.0

    @cached_property
    def reach(self) -> float:
        """The largest bound over the norm of its row: the size of a matrix that meets the rows."""
        norms = self.rows.operator.norms()
        return float((np.abs(self.rows.losses.bound) / np.where(norms > 0, norms, np.inf)).max())

    def is_due(self, state: Any, tol: float) -> bool:
        """Whether the state's estimate of its gap is small: if no bound is proven, the iterates may diverge after their best one."""
        return state.signal <= max(DUE, 10.0 * tol) * max(self.natural_size, abs(state.objective))

    def certify(self, state: Any) -> MatrixCertificate:
        """The certificate of the iterate and the dual weights of a state or certificate; hard rows are restored, if that succeeds."""
        L, iterate, size = self.rows.losses, state.iterate, self.natural_size
        p = iterate.values(self.rows.operator)
        bound, mu = self.dual_bound(state.dual)
        for allowed in (FEASIBLE, ROUNDED):
            met, upper = with_met_rows(self.rows, iterate, p, mu, allowed), np.inf
            M = met.iterate.matrix()
            soft = float(L.value(np.where(L.hard, L.bound, met.values)))
            objective, terms = float(np.vdot(self.C, M)) + soft, float(np.vdot(np.abs(self.C), np.abs(M))) + soft
            if objective >= bound:  # rows that are missed by rounding may be worth more than the gap
                break
        rounding = self.rows.rounding_share * terms
        if met.max_violation <= FEASIBLE and rounding <= CANCELLED * max(size, abs(objective)):
            upper = self.rows.upper_bound(met, mu, objective + rounding, float(np.linalg.norm(M)))
        return MatrixCertificate(
            **met._asdict(), dual=mu, objective=objective, dual_bound=bound, upper=upper, size=size
        )

    def dual_bound(self, mu: np.ndarray) -> tuple[float, np.ndarray]:
        """The lower bound that dual weights prove, or -inf, and the weights.

        They are changed if S is not positive semidefinite: if weights y0 have ``A*(y0) >= I``, which bounds the trace of every feasible
        M by ``b . y0``, then ``-lambda_min(S) y0`` is added; otherwise weights that are small beside C, or all,
        are replaced by 0.
        """
        mu = self.rows.clip_dual(mu)
        share = np.abs(mu) * self.rows.operator.norms()
        size = float(np.linalg.norm(self.C) + share.sum())
        for weights in (mu, np.where(share > NEGLIGIBLE * size, mu, 0.0), np.zeros_like(mu)):
            S, lost = self.C + self.rows.operator.adjoint(weights), np.inf
            if not np.isfinite(S).all():
                continue
            if self.trace_weights is None:
                lost = self._lost_trace(S, weights)
            else:
                # a bound of the rounding of S in the Frobenius norm
                lowest = _lowest(S, (ROUNDINGS + np.sqrt(np.count_nonzero(mu))) * EPS * size)
                weights, lost = weights - min(lowest, 0.0) * (1.0 + 1e-9) * self.trace_weights, 0.0
            conjugate, terms = self.rows.losses.conjugate_sum(weights)
            bound = -float(conjugate) - lost - 2.0 * ROUNDINGS * EPS * float(terms)  # at least what `verify` subtracts
            if np.isfinite(bound):
                return bound, weights
        return -np.inf, mu

    def _lost_trace(self, S: np.ndarray, mu: np.ndarray) -> float:
        """What rounding of ``S = C + A*(mu)`` costs at a matrix of a large trace: 0 if S is definite, inf if it is indefinite.

        The entries of S are wrong by at most a few roundings of ``sqrt(s_k s_l)``, where s are sums of the absolute terms.
        """
        s = np.abs(self.C).sum(axis=1) + self.rows.operator.extents(np.abs(mu))
        scale = 1.0 / np.sqrt(np.where(s > 0, s, 1.0))
        noise = (ROUNDINGS + np.sqrt(np.count_nonzero(mu))) * len(s) * EPS
        lowest = _lowest(scale[:, None] * S * scale, noise)
        if lowest >= 0.0:
            return 0.0
        return -lowest * float(s.max()) * TRACE * self.reach if lowest >= -3.0 * noise else np.inf

    @cached_property
    def trace_weights(self) -> np.ndarray | None:
        """Nonnegative weights y0 (c,) of semidefinite rows with upper bounds and ``A*(y0) >= I``; None if their sum is singular."""
        norms = self.rows.operator.norms()
        y = np.where(self.is_psd & (self.rows.losses.sense >= 0) & (norms > 0), 1.0 / np.maximum(norms, TINY), 0.0)
        lowest = _lowest(self.rows.operator.adjoint(y), EPS * self.rows.c)
        return y / lowest if lowest > 1e-9 * float(y.sum()) else None

    # ------------------------------------------------------------------ proofs that hard rows contradict each other
    def dual_size(self, state: Any) -> float:
        """The largest dual weight, which diverges if the rows are infeasible."""
        return float(np.abs(state.dual * self.rows.unit).max(initial=0.0)) if self.rows.losses.has_hard else 0.0

    def contradiction(self, state: Any) -> Proof | None:
        """Dual weights that prove that the hard rows contradict each other."""
        return self.rows.contradiction(state)

    def last_contradiction(self, state: Any) -> Proof | None:
        """The same from a search over few hard rows."""
        return self.rows.last_contradiction(state)


def _lowest(S: np.ndarray, error: float) -> float:
    """A lower bound of the smallest eigenvalue of a matrix that S approximates up to ``error``."""
    t = eigvalsh(S)
    return float(t[0]) - error - (ROUNDINGS + np.sqrt(len(t))) * EPS * float(np.linalg.norm(t))
