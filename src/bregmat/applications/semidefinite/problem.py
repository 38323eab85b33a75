"""A semidefinite program: certificates of its points, and proofs that it is infeasible.

``minimize tr(C M) + sum_i loss_i(p_i)`` over ``M >= 0`` with ``p = A(M)``. For dual weights mu of feasible signs with
``S = C + A*(mu)`` positive semidefinite, ``-sum loss*_i(mu_i)`` is a lower bound (weak duality); for hard rows it is ``-b . mu``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.linalg import EPS, eigvalsh
from bregmat.base.threads import cached_property
from bregmat.certificates.nearest_matrix import NearestMatrix, build_problem
from bregmat.certificates.problem import FEASIBLE, MatrixCertificate, Problem, Proof, clip_dual, with_met_rows
from bregmat.constraints.constraints import Constraints
from bregmat.objective.divergences import Frobenius
from bregmat.objective.losses import SquaredHinge
from bregmat.operators.linear_maps import Operator

SIZE = 1e-3  # natural size of the objective, over the norm of C times the largest bound over the norm of its row
ROUNDINGS = 8.0  # of a few operations, in units of EPS


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
        norms = self.rows.operator.norms()
        reach = float((np.abs(self.rows.losses.bound) / np.where(norms > 0, norms, np.inf)).max())
        return SIZE * float(np.linalg.norm(self.C)) * reach or 1.0

    @property
    def certifies_cheaply(self) -> bool:
        """A certificate first restores hard rows."""
        return False

    def certify(self, state: Any) -> MatrixCertificate:
        """The certificate of the iterate and the dual weights of a state or certificate; hard rows are restored, if that succeeds."""
        L, iterate = self.rows.losses, state.iterate
        p = self.rows.operator.congruence(iterate.F).values_diagonal(iterate.x)
        bound, mu = self.dual_bound(state.dual)
        met, upper = with_met_rows(self.rows, iterate, p, mu), np.inf
        M = met.iterate.matrix()
        soft = float(L.value(np.where(L.hard, L.bound, met.values)))
        objective, terms = float(np.vdot(self.C, M)) + soft, float(np.vdot(np.abs(self.C), np.abs(M))) + soft
        if met.violation <= FEASIBLE:
            missed = 0.0 if met.missed is None else float(np.abs(mu) @ met.missed)
            upper = objective + missed + self.rows.rounding_share * terms
        size = self.natural_size
        return MatrixCertificate(
            **met._asdict(), dual=mu, objective=objective, dual_bound=bound, upper=upper, size=size
        )

    def dual_bound(self, mu: np.ndarray) -> tuple[float, np.ndarray]:
        """The lower bound that dual weights prove, or -inf, and the weights, which are shifted if S is not positive semidefinite.

        If weights y0 have ``A*(y0) >= I``, which bounds the trace of every feasible M by ``b . y0``, then adding
        ``-lambda_min(S) y0`` makes S positive semidefinite.
        """
        mu = clip_dual(self.rows, mu)
        # a bound of the rounding of C + A*(mu) in the Frobenius norm
        size = float(np.linalg.norm(self.C)) + float(np.abs(mu) @ self.rows.operator.norms())
        error = (ROUNDINGS + np.sqrt(np.count_nonzero(mu))) * EPS * size
        lowest = _lowest(self.C + self.rows.operator.adjoint(mu), error)
        if not lowest >= 0.0:
            if self.trace_weights is None or not np.isfinite(lowest):
                return -np.inf, mu
            mu = mu - lowest * (1.0 + 1e-9) * self.trace_weights
        conjugate, terms = self.rows.losses.conjugate_sum(mu)
        bound = -float(conjugate) - ROUNDINGS * EPS * float(terms)
        return (bound if np.isfinite(bound) else -np.inf), mu

    @cached_property
    def trace_weights(self) -> np.ndarray | None:
        """Nonnegative weights y0 (c,) of semidefinite rows with upper bounds and ``A*(y0) >= I``; None if their sum is singular."""
        norms = self.rows.operator.norms()
        y = np.where(self.is_psd & (self.rows.losses.sense >= 0) & (norms > 0), 1.0 / np.maximum(norms, 1e-300), 0.0)
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
    """A lower bound of the smallest eigenvalue of a matrix that S approximates up to ``error``; NaN if S is not finite."""
    if not np.isfinite(S).all():
        return np.nan
    t = eigvalsh(S)
    return float(t[0]) - error - (ROUNDINGS + np.sqrt(len(t))) * EPS * float(np.linalg.norm(t))
