"""A semidefinite program in coordinates of order r: certificates of its points, and proofs that it is infeasible or unbounded.

``minimize tr(C M) + sum_i loss_i(p_i)`` over ``M >= 0`` with ``p = A(M)``. For weights mu of the right signs with
``S = C + A*(mu)`` positive semidefinite, ``-sum loss*_i(mu_i)`` is a lower bound (weak duality); for hard rows it is ``-b . mu``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.base.linalg import EPS, eigvalsh
from bregmat.base.threads import cached_property
from bregmat.certificates.nearest_matrix import NearestMatrix, build_problem
from bregmat.certificates.problem import FEASIBLE, MatrixCertificate, Problem, Proof, clip_dual, with_met_rows
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.iterates import Iterate
from bregmat.objective.divergences import Frobenius
from bregmat.objective.scalar_losses import SquaredHinge
from bregmat.operators.linear_maps import Operator

SIZE = 1e-3  # natural size of objectives, in units of the norm of C times the largest bound over the norm of its row
ROUNDINGS = 8.0  # of a few operations


class SemidefiniteProgram(Problem):
    """A linear objective under constraints.

    Attributes
    ----------
    C : ndarray, shape (r, r)
    rows : NearestMatrix
        The constraints as a nearness problem. Its losses, units, restoration of hard rows and proofs of infeasibility do not depend
        on the objective.
    is_psd : ndarray of bool, shape (c,)
        Whether the matrix of a row is known to be positive semidefinite.
    """

    def __init__(self, C: np.ndarray, rows: NearestMatrix, is_psd: np.ndarray) -> None:
        self.C, self.rows, self.is_psd = C, rows, is_psd

    @classmethod
    def build(
        cls, C: np.ndarray, operator: Operator, constraints: Constraints, slack_weight: Any
    ) -> SemidefiniteProgram:
        """From constraints that are bound to the coordinates.

        Parameters
        ----------
        C : ndarray, shape (r, r)
        operator : Operator
            The rows, bound to the coordinates.
        constraints : Constraints
            In row numbers, in the operator's order.
        slack_weight : float or array-like, shape (c,)
            Finite weights give a row the squared hinge; inf makes it hard.
        """
        prior = np.ones(operator.r)
        rows = build_problem(Frobenius(), prior, operator, constraints, SquaredHinge(), slack_weight)
        return cls(C, rows, constraints.psd_rows())

    @cached_property
    def natural_size(self) -> float:
        """What small objectives are measured in; 1 where C or all bounds are 0."""
        norms = self.rows.operator.norms()
        reach = float((np.abs(self.rows.losses.bound) / np.where(norms > 0, norms, np.inf)).max())
        return SIZE * float(np.linalg.norm(self.C)) * reach or 1.0

    @property
    def certifies_cheaply(self) -> bool:
        """Hard rows have to be restored first."""
        return False

    def certify(self, state: Any) -> MatrixCertificate:
        """The certificate of the matrix and the dual weights of a state."""
        return self.certify_matrix(state.iterate, state.dual)

    def certify_matrix(self, iterate: Iterate, dual: np.ndarray) -> MatrixCertificate:
        """The same from the matrix and the weights; hard rows are restored to feasibility first, if they can be."""
        L = self.rows.losses
        p = self.rows.operator.congruence(iterate.F).values_diagonal(iterate.x)
        bound, mu = self.dual_bound(dual)
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
        """The lower bound that weights prove, -inf if none, and these weights, shifted where S is not positive semidefinite.

        If other weights y0 have ``A*(y0) >= I``, which bounds the trace of every feasible M by ``b . y0``, then adding
        ``-lambda_min(S) y0`` makes S positive semidefinite.
        """
        mu = clip_dual(self.rows, mu)
        lowest = _lowest(self.C + self.rows.operator.adjoint(mu), self._forming_error(mu))
        if not lowest >= 0.0:
            if self.trace_weights is None or not np.isfinite(lowest):
                return -np.inf, mu
            mu = mu - lowest * (1.0 + 1e-9) * self.trace_weights
        L = self.rows.losses
        bound = -float(L.conjugate(mu).sum()) - ROUNDINGS * EPS * float(L.conjugate_size(mu))
        return (bound if np.isfinite(bound) else -np.inf), mu

    def _forming_error(self, mu: np.ndarray) -> float:
        """What rounding changes of ``C + A*(mu)``, in the Frobenius norm."""
        size = float(np.linalg.norm(self.C)) + float(np.abs(mu) @ self.rows.operator.norms())
        return (ROUNDINGS + np.sqrt(np.count_nonzero(mu))) * EPS * size

    @cached_property
    def trace_weights(self) -> np.ndarray | None:
        """Nonnegative weights y0 (c,) of semidefinite rows with upper bounds and ``A*(y0) >= I``; None if their sum is singular."""
        norms = self.rows.operator.norms()
        y = np.where(self.is_psd & (self.rows.losses.sense >= 0) & (norms > 0), 1.0 / np.maximum(norms, 1e-300), 0.0)
        lowest = _lowest(self.rows.operator.adjoint(y), EPS * self.rows.c)
        return y / lowest if lowest > 1e-9 * float(y.sum()) else None

    # ------------------------------------------------------------------ proofs that hard rows contradict each other
    def dual_size(self, state: Any) -> float:
        """The largest weight: the weights of infeasible rows grow without end."""
        return float(np.abs(state.dual * self.rows.unit).max(initial=0.0)) if self.rows.losses.has_hard else 0.0

    def contradiction(self, state: Any) -> Proof | None:
        """Weights that prove that the hard rows contradict each other."""
        return self.rows.contradiction(state)

    def last_contradiction(self, state: Any) -> Proof | None:
        """Weights of a few hard rows."""
        return self.rows.last_contradiction(state)


def _lowest(S: np.ndarray, error: float) -> float:
    """A lower bound of the smallest eigenvalue of S, which may be wrong by an error; NaN if S is not finite."""
    if not np.isfinite(S).all():
        return np.nan
    t = eigvalsh(S)
    return float(t[0]) - error - (ROUNDINGS + np.sqrt(len(t))) * EPS * float(np.linalg.norm(t))
