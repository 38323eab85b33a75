"""Problem (P): the nearest matrix to a prior under weighted bounds, built, checked once, and with its proofs.

``minimize over M >= 0:  D(M, M0) + sum_i loss_i(p_i),  p = A(M)``, in coordinates where the prior is diagonal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.base.checks import as_column, rows_text
from bregmat.certificates.certify import MatrixCertificate, certify
from bregmat.certificates.infeasibility import contradiction_of_few, impossible_rows, infeasibility, singular_rows
from bregmat.certificates.nearness import Nearness
from bregmat.certificates.problem import Problem, Proof
from bregmat.certificates.status import Record
from bregmat.constraints.constraints import Constraints
from bregmat.objective.losses import OwnSlack, as_loss
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.linear_maps import VANISHING, Operator


class NearestMatrix(Nearness, Problem):
    """Problem (P) with its proofs: certificates of points, and contradictions between hard rows."""

    @property
    def certifies_cheaply(self) -> bool:
        """Hard rows have to be restored first."""
        return self.is_soft

    def certify(self, state: Any) -> MatrixCertificate:
        """The certificate of the matrix and the dual weights of a state."""
        return certify(self, state.iterate, state.values, state.dual)

    def estimate(self, state: Any, works_on: str) -> dict[str, float]:
        """What a step knows without a certificate: where rows are hard, its objective may be the dual's."""
        return super().estimate(state, works_on if self.losses.has_hard else "objective") | {
            "violation": state.violation(self)
        }

    def record_in_units(self, row: Record) -> Record:
        """A line of a history in the user's units."""
        if self.worth == 1.0:
            return row
        return replace(row, objective=row.objective * self.worth, dual_bound=row.dual_bound * self.worth)

    def proof_beforehand(self) -> Proof | None:
        """Rows that only a singular matrix meets, where the divergence admits none."""
        if not self.losses.has_hard:
            return None
        return singular_rows(self) if self.linked is None else impossible_rows(self, self.linked)

    def dual_size(self, state: Any) -> float:
        """The largest weight; 0 where the problem is about to be solved, or has no hard rows."""
        if not self.losses.has_hard or state.signal <= 1e-2 * max(1.0, abs(state.objective)):
            return 0.0
        return float(np.abs(state.dual * self.unit).max(initial=0.0))

    def contradiction(self, state: Any) -> Proof | None:
        """Weights that prove that the hard rows contradict each other."""
        return infeasibility(self, state.dual) if self.losses.has_hard else None

    def last_contradiction(self, state: Any) -> Proof | None:
        """Weights of a few hard rows, whatever the state's own say."""
        return contradiction_of_few(self, state.dual) if self.losses.has_hard else None


def _natural_sizes(rows: Operator, prior: np.ndarray) -> np.ndarray:
    """``tr(|A_i| M0)``, which values are measured in where the bound is 0.

    Where that may be rounding, as of rows that vanish on the range of a prior that the matrix may leave, ``tr |A_i|`` times the
    largest eigenvalue of M0, which it is the rounding of; 1 for rows that are 0.
    """
    at_prior, whole = rows.sizes(prior), rows.sizes(np.full(len(prior), prior.max(initial=0.0) or 1.0))
    size = np.where(at_prior > VANISHING * whole, at_prior, whole)
    return np.where(size > 0, size, 1.0)


def slack_weights(slack_weight: Any, constraints: Constraints) -> np.ndarray:
    """The papers' gamma of each row; a column of its own."""
    given: dict[str, Any] = {"per": "constraint", "scalar": True, "infinite": True, "positive": True, "copy": True}
    return (
        as_column("slack_weight", slack_weight, constraints.n_constraints, hint=" (inf = hard)", **given)
        * constraints.weight
    )


def build_problem(
    divergence: SpectralDivergence,
    t0: np.ndarray,
    operator: Operator,
    constraints: Constraints,
    loss: Any,
    slack_weight: Any,
    *,
    met: np.ndarray | None = None,
    offset: float = 0.0,
    scale: float = 1.0,
) -> NearestMatrix:
    """Choose each row's scalar loss and unit, and bring bounds to the units of the prior.

    Parameters
    ----------
    divergence : Divergence
    t0 : ndarray, shape (r,)
        Mirror coordinates of the prior, which is diagonal.
    operator : Operator
        The rows, bound to their points.
    constraints : Constraints
        In row numbers, in the operator's order.
    loss : None, Loss or str
        What a violated bound costs; None is the divergence's own slack.
    slack_weight : float or array-like, shape (c,)
        Positive, dimensionless; inf is hard.
    met : ndarray of int, optional
        Rows that hold by construction (:func:`bregmat.coordinates.priors.eliminate`); they get a bound that never binds.
    offset : float
        Constant of the objective, of the divergence in these coordinates.
    scale : float
        What the learned matrix is over that in these coordinates (:class:`bregmat.coordinates.priors.Coordinates`).

    Raises
    ------
    ValueError
        For slack weights that are not positive, and rows that no finite matrix can meet.
    TypeError
        For a loss that is neither None nor a loss nor the name of one.
    """
    gamma = slack_weights(slack_weight, constraints)
    worth = scale ** (divergence.degree or 0)
    if not divergence.in_domain(t0) or not (np.abs(t0) < 1e150).all() or not 1e-150 < worth < 1e150:
        largest = scale * np.abs(divergence.inverse_link(t0)).max()
        raise ValueError(
            f"the prior has eigenvalues up to {largest:.3g}, which {divergence.name} cannot compute with. Scale the data and the bounds."
        )
    bound, sense = constraints.bound.copy(), constraints.sense.copy()
    if met is not None:
        bound[met], sense[met] = 1.0, 1
    unit = np.abs(bound)
    zero = np.flatnonzero(bound == 0)
    if len(zero):
        unit[zero] = scale * _natural_sizes(operator.restrict(zero), divergence.inverse_link(t0))
    weighted = WeightedBounds(divergence, bound, sense, gamma, unit)
    losses = (as_loss(loss) or OwnSlack(divergence)).bind(weighted)
    bad = np.flatnonzero(~np.isfinite(losses.gamma))
    if len(bad):
        raise ValueError(
            f"constraint {rows_text(bad)}: the weight of {constraints.describe(int(bad[0]))} over its bound overflows. Scale the "
            "data and the bounds."
        )
    _check_reachable(operator, losses, constraints)
    return NearestMatrix(divergence, t0, operator, losses.in_units(scale, worth), unit / scale, offset, scale)


def must_link_rows(constraints: Constraints, hard: np.ndarray) -> np.ndarray:
    """Hard rows that force a positive semidefinite form between samples to 0, such as a squared distance."""
    zero = hard & (constraints.bound == 0) & (constraints.sense >= 0) & ~constraints.where("is_whole")
    if zero.any():
        zero &= constraints.psd_rows()
    return np.flatnonzero(zero)


def _check_reachable(operator: Operator, losses: RowLosses, constraints: Constraints) -> None:
    """Refuse rows whose values leave the range of numbers, and rows that are 0 for every matrix but may not be."""
    size = np.abs(operator.values_diagonal(None))
    bad = np.flatnonzero(~((size < 1e150) & ((size > 1e-150) | (size == 0))))
    if len(bad):
        raise ValueError(
            f"constraint {rows_text(bad)}: {constraints.describe(int(bad[0]))} has the value {size[bad[0]]:.3g} at the identity, too "
            f"{'small' if size[bad[0]] < 1 else 'large'} to compute with. Scale the data and the bounds."
        )
    too_low = (losses.bound > 0) & (losses.sense <= 0) & losses.needs_positive
    too_high = (losses.bound < 0) & (losses.sense >= 0) & losses.hard
    bad = np.flatnonzero((size == 0) & (too_low | too_high))
    bad = bad[operator.restrict(bad).norms() == 0]
    if len(bad):
        first = constraints.select(bad[:1])
        why = "the points are identical" if first.where("is_sq_distance")[0] else "its value is 0 for every matrix"
        raise ValueError(
            f"constraint {rows_text(bad)}: {first.describe(0)} can never hold, because {why} in the range of the prior, up to "
            "rounding (eigenvalues of a prior below 1e-12 of the largest count as 0). Drop these rows, use "
            "loss=SquaredHinge(), or open the null space of a kernel's prior with widen_range."
        )
