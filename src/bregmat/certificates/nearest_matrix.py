"""Problem (P), the nearest matrix to a prior under weighted bounds: built from arguments, reduced to a face, certified.

``minimize over M >= 0:  D(M, M0) + sum_i loss_i(p_i),  p = A(M)``, in coordinates where the prior is diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.checks import as_column, rows_text
from bregmat.certificates.faces import clique_weights, exposed, must_link_rows
from bregmat.certificates.given_rows import check_given_rows
from bregmat.certificates.problem import MatrixCertificate, NearestMatrix, dual_bound
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.elimination import Elimination, eliminate
from bregmat.coordinates.priors import Coordinates
from bregmat.engine.status import Status
from bregmat.objective.losses import LOSSES, DivergenceSlack
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import RowErrors
from bregmat.operators.foreign import on_space
from bregmat.operators.linear_maps import VANISHING, Operator

ROUNDED = 1e-14  # relative violation of rows that are met up to rounding
MAX_SIZE = 1e150  # of eigenvalues, values and units, so that their squares do not overflow


def _natural_sizes(rows: Operator, prior: np.ndarray) -> np.ndarray:
    """``tr(|A_i| M0)``, the unit of violations of rows with bound 0.

    A row that vanishes on the range of the prior, which the matrix may leave, has a rounding error there instead. Its unit is
    ``tr |A_i|`` times the largest eigenvalue of M0. The unit of a row that is 0 is 1.
    """
    at_prior, whole = rows.sizes(prior), rows.sizes(np.full(len(prior), prior.max(initial=0.0) or 1.0))
    size = np.where(at_prior > VANISHING * whole, at_prior, whole)
    return np.where(size > 0, size, 1.0)


def build_problem(
    divergence: SpectralDivergence,
    t0: np.ndarray,
    operator: Operator,
    constraints: Constraints,
    loss: Any,
    slack_weight: Any,
    *,
    scale: float = 1.0,
    place: Coordinates | None = None,
    errors: RowErrors | None = None,
) -> NearestMatrix:
    """Choose each row's scalar loss and unit, and bring bounds to the units of the prior.

    Parameters
    ----------
    divergence, t0, operator
        As in :class:`bregmat.certificates.problem.NearestMatrix`.
    constraints : Constraints
        In row numbers, in the operator's order.
    loss : None, Loss or str
        What a violated bound costs; None is the divergence's own slack.
    slack_weight : float or array-like, shape (c,)
        Positive, dimensionless; inf is hard.
    scale : float
        The learned matrix over M (:class:`bregmat.coordinates.priors.Coordinates`).
    place : Coordinates, optional
        Of the points, if rows are to be compared with the data as given.
    errors : RowErrors, optional
        Errors of the rows of the operator, beside the rounding of products.

    Raises
    ------
    ValueError
        For slack weights that are not positive, rows that no finite matrix can meet, and rows whose values are lost by rounding.
    TypeError
        For a loss that is neither None nor a loss nor the name of one.
    """
    gamma = as_column(
        "slack_weight",
        slack_weight,
        len(constraints.bound),
        per="constraint",
        scalar=True,
        infinite=True,
        positive=True,
        hint=" (inf = hard)",
    )
    gamma = gamma * constraints.weight
    objective_scale = scale ** (divergence.degree or 0)
    if (
        not divergence.in_domain(t0)
        or not (np.abs(t0) < MAX_SIZE).all()
        or not 1.0 / MAX_SIZE < objective_scale < MAX_SIZE
    ):
        largest = scale * np.abs(divergence.inverse_link(t0)).max()
        raise ValueError(
            f"the prior has eigenvalues up to {largest:.3g}, which {divergence.name} cannot compute with. Scale the data and the bounds."
        )
    bound, sense = constraints.bound.copy(), constraints.sense.copy()
    # violations are relative to the bound, and to tr(|A_i| M0) where the bound is 0
    unit = np.abs(bound)
    zero = np.flatnonzero(bound == 0)
    if len(zero):
        unit[zero] = scale * _natural_sizes(operator.restrict(zero), divergence.inverse_link(t0))
    weighted = WeightedBounds(divergence, bound, sense, gamma, unit, scale, objective_scale)
    losses = (DivergenceSlack() if loss is None else LOSSES.resolve(loss)).bind(weighted)
    bad = np.flatnonzero(~np.isfinite(losses.gamma))
    if len(bad):
        raise ValueError(
            f"{rows_text(bad, 'constraint')}: the weight of {constraints.describe(int(bad[0]))} over its bound overflows. Scale the "
            "data and the bounds."
        )
    size = np.abs(operator.values_diagonal(None))
    # points that were computed from a prior are as exact as the prior's eigenvectors
    if place is not None and not place.owns_base and place.base is not None:
        zero = np.flatnonzero(size == 0)
        if len(zero):
            zero = zero[operator.restrict(zero).norms() == 0]
        # differences of the given points are accurate, unless they vanish or leave the range of the prior
        if len(zero) or place.dropped is not None or not constraints.where("is_difference").all():
            check_given_rows(place, scale * divergence.inverse_link(t0), constraints, zero)
    if not ((size > 1.0 / MAX_SIZE) & (size < MAX_SIZE)).all():
        _check_reachable(operator, losses, constraints, size)
    soft = gamma[np.isfinite(gamma)]
    span = float(soft.max() / soft.min()) if len(soft) else 1.0
    return NearestMatrix(divergence, t0, operator, losses, unit / scale, scale=scale, weight_span=span, errors=errors)


def _check_reachable(operator: Operator, losses: RowLosses, constraints: Constraints, size: np.ndarray) -> None:
    """Raise for rows whose values (c,) at the identity overflow, and for rows that are 0 although their bound excludes 0."""
    bad = np.flatnonzero(~((size < MAX_SIZE) & ((size > 1.0 / MAX_SIZE) | (size == 0))))
    if len(bad):
        raise ValueError(
            f"{rows_text(bad, 'constraint')}: {constraints.describe(int(bad[0]))} has the value {size[bad[0]]:.3g} at the identity, too "
            f"{'small' if size[bad[0]] < 1 else 'large'} to compute with. Scale the data and the bounds."
        )
    too_low = (losses.bound > 0) & (losses.sense <= 0) & (losses.hard | losses.is_positive)
    too_high = (losses.bound < 0) & (losses.sense >= 0) & losses.hard
    bad = np.flatnonzero((size == 0) & (too_low | too_high))
    if len(bad):
        bad = bad[operator.restrict(bad).norms() == 0]
    if len(bad):
        first = constraints.select(bad[:1])
        why = "the points are identical" if first.where("is_sq_distance")[0] else "its value is 0 for every matrix"
        raise ValueError(
            f"{rows_text(bad, 'constraint')}: {first.describe(0)} can never hold, because {why} in the range of the prior, up to "
            "rounding (eigenvalues of a prior below 1e-12 of the largest count as 0). Drop these constraints, use "
            "loss=SquaredHinge(), or open the null space of a kernel's prior with Factor.widened."
        )


# ---------------------------------------------------------------------- the problem that is solved
@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """Problem (P) as it was asked for, and the problem that is solved in its place.

    They differ only if hard rows force M to be singular and the divergence allows that: the smaller problem has the directions
    that are left. On these, the Lagrange multipliers of the other rows are finite.

    Attributes
    ----------
    whole, problem : NearestMatrix
        As asked for, and as solved.
    coordinates : Coordinates
        Of ``problem``.
    elimination : Elimination or None
        How ``problem`` came from ``whole``; None if they are the same.
    whole_coordinates : Coordinates
    """

    whole: NearestMatrix
    problem: NearestMatrix
    coordinates: Coordinates
    whole_coordinates: Coordinates
    elimination: Elimination | None = None

    def unreduced(self) -> ReducedProblem:
        """The same, with nothing eliminated."""
        return replace(self, problem=self.whole, coordinates=self.whole_coordinates, elimination=None)

    def certificate(self, found: MatrixCertificate, tol: float) -> MatrixCertificate:
        """The certificate for all rows, from one of the problem that was solved."""
        certificate = self._with_eliminated_rows(found)
        if certificate.status(tol) is not Status.FEASIBLE:
            return certificate
        # Large multipliers amplify constraint violations, so the rows are restored to rounding accuracy.
        exact = self.problem.certify(found, allowed=ROUNDED)
        return certificate.joined(self._with_eliminated_rows(exact))

    def _with_eliminated_rows(self, found: MatrixCertificate) -> MatrixCertificate:
        """The certificate with finite multipliers for the eliminated rows, which are infinite in theory.

        The larger they are, the nearer the bound is to that of the smaller problem, and the more is lost to rounding of the bound and
        to violations by rounding. So several sizes are tried.
        """
        assert self.elimination is not None
        whole, weights = self.whole, self.elimination.weights
        own = found.dual.copy()
        own[self.elimination.met] = 0.0  # rows that are met have another bound and sense in the smaller problem
        size = max(1.0, float(np.abs(whole.operator.adjoint(own)).max()))
        tried = []
        for factor in 10.0 ** np.arange(3.0, 12.0, 0.25):
            bound, dual = dual_bound(whole, own + factor * size * weights)
            tried.append(found.with_dual(dual, min(bound, found.dual_bound)))
        return max(tried, key=lambda one: one.dual_bound - (one.upper if one.is_feasible else 0.0))


def build_reduced_problem(
    coordinates: Coordinates,
    constraints: Constraints,
    divergence: SpectralDivergence,
    loss: Any,
    slack_weight: Any,
    space: ArraySpace | None = None,
    *,
    in_span: bool = True,
) -> ReducedProblem:
    """Bind constraints to points, build problem (P), and eliminate the directions in which hard rows force M to be 0.

    Parameters
    ----------
    coordinates : Coordinates
        Of the prior and the points.
    constraints : Constraints
        In row numbers of the points.
    divergence, loss, slack_weight
        As in :func:`build_problem`.
    space : ArraySpace, optional
        Where the points are, if that is not the host's memory.
    in_span : bool
        Whether the span of the touched points may take the place of the columns of the data.
    """
    place, operator, errors = coordinates.bind(constraints, in_span=in_span)
    if space is not None:
        operator = on_space(operator, space)
    whole = build_problem(
        divergence, place.t0, operator, constraints, loss, slack_weight, scale=place.scale, place=place, errors=errors
    )
    hard = whole.losses.hard
    if divergence.keeps_rank or whole.is_always_feasible:
        return ReducedProblem(whole, whole, place, place)
    linked, cliques = must_link_rows(constraints, hard), clique_weights(constraints, hard)
    if not len(linked) and not cliques:
        return ReducedProblem(whole, whole, place, place)
    if place.span is not None:  # directions are eliminated in the columns of the data
        return build_reduced_problem(coordinates, constraints, divergence, loss, slack_weight, space, in_span=False)
    faces = list(exposed(whole.operator, cliques))
    # rows that hold if their value is 0: b >= 0 for "<=", b <= 0 for ">=", b = 0 for "=="
    holds = constraints.sense * constraints.bound >= np.where(constraints.sense == 0, np.abs(constraints.bound), 0.0)
    if len(linked):
        whole = replace(whole, linked=linked)
    elimination = eliminate(place, whole.operator, linked, divergence, holds, faces) if len(linked) or faces else None
    if elimination is None:
        return ReducedProblem(whole, whole, place, place)
    return ReducedProblem(whole, _on_face(whole, elimination), elimination.coordinates, place, elimination)


def _on_face(whole: NearestMatrix, elimination: Elimination) -> NearestMatrix:
    """The problem in the directions that are left; rows that are 0 there get a bound that never binds."""
    L = whole.losses
    bound, sense = L.bound.copy(), L.sense.copy()
    bound[elimination.met], sense[elimination.met] = 1.0, 1
    return replace(
        whole,
        t0=elimination.coordinates.t0,
        operator=elimination.operator,
        losses=RowLosses(bound, sense, L.gamma, L.scale, L.kinds, L.kind),
        offset=elimination.offset,
        linked=None,
        errors=None if whole.errors is None else whole.errors._replace(mapped=None),
    )


def singular_rows_of(problem: NearestMatrix, constraints: Constraints) -> np.ndarray | None:
    """Ascending numbers of the hard rows that, up to rounding, only singular matrices meet; None if there are none."""
    faces = list(exposed(problem.operator, clique_weights(constraints, problem.losses.hard)))
    return np.unique(np.concatenate([rows for rows, _, _ in faces])) if faces else None
