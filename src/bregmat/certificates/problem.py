"""Problem (P), the nearest matrix to a prior under weighted bounds: built from arguments, certificates of its points.

``minimize over M >= 0:  D(M, M0) + sum_i loss_i(p_i),  p = A(M)``, in coordinates where the prior is diagonal.

For dual weights ``mu`` of feasible signs, with ``T(mu) = T0 - A*(mu)`` in the domain of the inverse link,
``g(mu) = phi*(T0) - phi*(T(mu)) - sum loss*_i(mu_i)`` is a lower bound of (P). Certificates are in float64, on unscaled data.

The largest rounding error of the bound is subtracted from it, and that of the objective is added to ``upper``. The computed
eigenvalues of a matrix T are wrong by at most ``E``, a few roundings of its norm and of the terms that it is the sum of, which changes
``phi*`` by at most ``E |psi(T + E)|``. A sum is wrong by a few roundings of the sizes of its terms.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.checks import as_column, rows_text
from bregmat.base.linalg import add_diagonal, eigh, eigvalsh
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS, FEASIBLE, VANISHING
from bregmat.certificates.given_rows import MAX_SIZE, check_given_rows, check_reachable
from bregmat.certificates.infeasibility import contradiction_of_few, impossible_rows, infeasibility, singular_rows
from bregmat.certificates.restoration import MetRows, with_met_rows
from bregmat.constraints.constraints import Constraints, excess_of
from bregmat.coordinates.priors import Coordinates, Iterate
from bregmat.engine.loop import Run, compose
from bregmat.engine.problem import Certificate, Problem, Proof
from bregmat.engine.result import Result
from bregmat.engine.status import Record
from bregmat.objective.losses import LOSSES, OWN_SLACK
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import RowErrors
from bregmat.operators.foreign import on_space
from bregmat.operators.linear_maps import Operator
from bregmat.operators.parallel_rows import ParallelRows, find_parallel_rows

MODEST = 8.0  # roundings of a few operations, in units of EPS
UNCERTAIN = 1e-6  # rounding of the value of a hard row, relative to its unit, from which on the row may be missed
SURE = 4.0  # ratio of slack to rounding from which on a hard row counts as met; `verify` requires a smaller ratio


_R = TypeVar("_R", bound=Result)


@dataclass(frozen=True, eq=False, kw_only=True)
class MatrixCertificate(Certificate):
    """Certificate of a matrix, with the values of its rows and their signed dual weights."""

    iterate: Iterate
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class NearestMatrix(Problem):
    """Problem (P) in coordinates in which the prior is diagonal.

    Attributes
    ----------
    divergence : SpectralDivergence
    t0 : ndarray, shape (r,)
        Mirror coordinates of the prior, which is diagonal.
    operator : Operator
        Constraints bound to the rows of the touched points.
    losses : RowLosses
        Bounds, senses, weights and scalar losses of the rows.
    unit : ndarray, shape (c,)
        Unit in which the violation of each row is measured.
    offset : float
        Constant of the objective, from eliminated directions.
    scale : float
        Size of 1 in M, bounds and values, in the user's units. If the divergence is homogeneous, the prior has mean eigenvalue 1.
    linked : ndarray of int or None
        Rows that force directions of M to vanish; None if there are none, they are eliminated, or the divergence excludes them.
    weight_span : float
        Largest over smallest finite slack weight; 1 if there is none.
    errors : RowErrors or None
        Errors of the rows of the operator; None if they are as exact as products of their vectors.
    prior : ndarray, shape (r,)
        Diagonal of M0.
    c, r : int
        Number of rows, and order of M.
    objective_scale : float
        Size of 1 in the objective, in the user's units: ``scale^degree``.
    rounding_share : float
        Largest error of eigenvalues of order r, and of products of that order, relative to the norm of the matrix.
    is_always_feasible : bool
        Whether no row is hard.
    """

    divergence: SpectralDivergence
    t0: np.ndarray
    operator: Operator
    losses: RowLosses
    unit: np.ndarray
    offset: float = 0.0
    scale: float = 1.0
    linked: np.ndarray | None = None
    weight_span: float = 1.0
    errors: RowErrors | None = None
    prior: np.ndarray = field(init=False)
    c: int = field(init=False)
    r: int = field(init=False)
    objective_scale: float = field(init=False)
    rounding_share: float = field(init=False)
    is_always_feasible: bool = field(init=False)
    size: ClassVar[float] = 1e-3  # smallest unit of the gap, in units of the prior

    def __post_init__(self) -> None:
        r = self.operator.r
        objective_scale = self.scale ** (self.divergence.degree or 0)
        share = (MODEST + np.sqrt(r)) * EPS
        facts = {"c": self.operator.c, "r": r, "objective_scale": objective_scale, "rounding_share": share}
        prior = self.divergence.inverse_link(self.t0)
        vars(self).update(facts, prior=prior, is_always_feasible=not self.losses.has_hard)

    @cached_property
    def parallel_rows(self) -> ParallelRows:
        """Hard rows whose matrices are multiples of each other."""
        return find_parallel_rows(self.operator, self.losses)

    @cached_property
    def trace_row(self) -> tuple[int, float] | None:
        """A hard equality with ``A_i = kappa I``, which fixes the trace, and kappa."""
        L = self.losses
        rows = np.flatnonzero(L.hard & (L.sense == 0) & (L.bound > 0))
        if not len(rows):
            return None
        some = self.operator.restrict(rows)
        kappa = some.values_diagonal(None) / self.r
        same = kappa > 0
        for seed in range(2):  # <kappa I, M> = kappa tr M for every M, here for two random ones
            X = np.random.default_rng(seed).normal(size=(self.r, self.r))
            same &= np.abs(some.values(X @ X.T) - kappa * np.vdot(X, X)) <= 1e-6 * kappa * np.vdot(X, X)
        trace_rows = np.flatnonzero(same)
        return (int(rows[trace_rows[0]]), float(kappa[trace_rows[0]])) if len(trace_rows) else None

    def violation(self, p: np.ndarray) -> np.ndarray:
        """Relative violation of each row."""
        return np.maximum(excess_of(p, self.losses.bound, self.losses.sense), 0.0) / self.unit

    def result(self, cls: type[_R], run: Run, coordinates: Any, **point: Any) -> _R:
        """The result of a run, with all numbers in the user's units.

        Parameters
        ----------
        cls : type
            ``MatrixResult``, or a subclass whose further fields are in ``point``.
        run : Run
            With a certificate in the units of the problem.
        coordinates : Coordinates
            From the data to the coordinates of the problem.
        """
        own, objective_scale, scale = run.certificate, self.objective_scale, self.scale
        in_units = replace(
            own,
            objective=own.objective * objective_scale,
            dual_bound=own.dual_bound * objective_scale,
            upper=own.upper * objective_scale,
            size=own.size * objective_scale,
            dual=own.dual * (objective_scale / scale),
            values=own.values * scale,
            missed=None if own.missed is None else own.missed * scale,
        )
        how = {"last": run.state.iterate, "violation": self.violation(own.values), "weight_span": self.weight_span}
        return compose(cls, run, **vars(in_units) | how | {"coordinates": coordinates} | point)

    def certify(self, state: Any, allowed: float = FEASIBLE) -> MatrixCertificate:
        """The certificate of a matrix and dual weights; hard rows are restored to feasibility first, if that succeeds.

        Parameters
        ----------
        state : object
            With the matrix ``iterate``, the ``values`` of the rows at it, and signed ``dual`` weights, shape (c,).
        allowed : float
            Relative violation above which rows are restored; at most ``FEASIBLE``.
        """
        L, eps = self.losses, self.rounding_share
        bound, mu = dual_bound(self, self.clip_dual(state.dual))
        iterate, p, objective, upper = state.iterate, state.values, np.nan, np.inf
        met = MetRows(iterate, p, 0.0 if np.isfinite(p).all() else np.inf)
        if np.isfinite(met.max_violation):
            if L.has_hard:
                met = with_met_rows(self, iterate, p, mu, allowed)
                p = np.where(L.hard, L.bound, met.values)
            # D(M, M0) + sum loss; divergences and losses are negative by rounding only
            objective = float(np.maximum(self.offset + met.iterate.value() + L.value(p), 0.0))
        if met.max_violation <= FEASIBLE and not np.isinf(objective):
            p, norms = met.values, self.operator.norms()
            norm, terms = met.iterate.sizes()
            rounding = eps * (abs(self.offset) + terms)
            if not L.hard.all():
                error = eps * norms if self.errors is None else eps * norms + self.errors.of_matrices(norms)
                rounding += L.value_rounding(p, error * norm, eps)
            upper = self.upper_bound(met, mu, objective + rounding, norm)
        return MatrixCertificate(
            **met._asdict(), dual=mu, objective=objective, dual_bound=bound, upper=upper, size=self.size
        )

    def clip_dual(self, mu: np.ndarray) -> np.ndarray:
        """The nearest dual weights in their box; at an open end of the box, at most 1 - 1e-12 times that end."""
        lower, upper = self.losses.dual_box
        inside = 1.0 - 1e-12  # leaves infinite ends infinite
        return np.minimum(np.maximum(mu, inside * lower), inside * upper)

    def upper_bound(self, met: MetRows, mu: np.ndarray, objective: float, norm: float) -> float:
        """The objective, and what it costs that hard rows are missed by rounding; inf if rounding may hide that one is violated.

        Rounding may hide it if it is not small relative to the unit of the row, and the slack of the row is not clearly larger.

        Parameters
        ----------
        met, mu, objective : MetRows, ndarray (c,), float
            The restored matrix, the dual weights, and the objective with its rounding.
        norm : float
            Norm of the matrix.
        """
        if met.missed is None:
            return objective
        L, p = self.losses, met.values
        slack = np.where(L.sense == 0, 0.0, -L.sense * (p - L.bound))
        limit = np.where(L.hard, np.maximum(UNCERTAIN * self.unit, slack / SURE), np.inf)
        rounding = self._rounding_of_values(met.iterate, p, self.operator.norms(), norm, limit)
        return objective + float(np.abs(mu) @ met.missed) if (rounding <= limit).all() else np.inf

    def _rounding_of_values(
        self, iterate: Iterate, p: np.ndarray, norms: np.ndarray, norm: float, limit: np.ndarray
    ) -> np.ndarray:
        """Largest rounding of the value of each row at a matrix of this norm, with more care where it is above ``limit`` (c,).

        ``norms`` (c,) are those of the rows.
        """
        # the entries of F'a are wrong by eps |F| |a|, and the value p = |F'a|^2 by twice that times sqrt(p)
        op, terms = self.operator, np.abs(p)
        if not op.is_rank_one:
            terms = np.maximum(terms, op.absolute().congruence(iterate.F).values_diagonal(iterate.x))
        root = 2.0 * self.rounding_share * np.sqrt(np.maximum(terms, self.unit))
        lengths, errors = np.sqrt(norm * norms), self.errors
        if errors is None:
            return root * lengths
        constant, crude = norm * errors.constant, np.maximum(lengths, np.sqrt(norm) * errors.lengths)
        vague = np.flatnonzero(root * crude + constant > limit)
        if errors.mapped is not None and len(vague):
            sharp = errors.mapped(vague, np.abs(iterate.factor()))
            crude[vague] = np.minimum(crude[vague], np.maximum(lengths[vague], sharp))
        return root * crude + constant

    # ------------------------------------------------------------------ what the loop asks
    def estimate(self, state: Any, works_on: str) -> dict[str, float]:
        """The numbers of a step without a certificate; with hard rows, the solver says whether its objective is that of the dual."""
        figures = {"objective": np.nan, "dual_bound": np.nan, "violation": np.nan}
        if self.is_always_feasible:
            return figures | {"objective": state.objective}
        return figures | {works_on: state.objective, "violation": state.violation(self)}

    def record_in_units(self, row: Record) -> Record:
        """A record of the history in the user's units."""
        return replace(
            row, objective=row.objective * self.objective_scale, dual_bound=row.dual_bound * self.objective_scale
        )

    def proof_beforehand(self) -> Proof | None:
        """Hard rows that only singular matrices meet although the divergence excludes these, or that must-links exclude."""
        return singular_rows(self) if self.linked is None else impossible_rows(self, self.linked)

    def dual_size(self, state: Any) -> float:
        """The largest dual weight; 0 if the problem is nearly solved."""
        if state.signal <= 1e-2 * max(1.0, abs(state.objective)):
            return 0.0
        return float(np.abs(state.dual * self.unit).max(initial=0.0))

    def contradiction(self, state: Any) -> Proof | None:
        """A proof from the dual weights of a state that the hard rows contradict each other."""
        return infeasibility(self, state.dual)

    def last_contradiction(self, state: Any) -> Proof | None:
        """A proof from a search over the hard rows with the largest dual weights."""
        return contradiction_of_few(self, state.dual)


def dual_bound(problem: NearestMatrix, mu: np.ndarray) -> tuple[float, np.ndarray]:
    """``g(mu)`` less its rounding, and the weights that it holds for: ``theta mu`` if T(mu) is outside the domain of the inverse link."""
    D, L, t0 = problem.divergence, problem.losses, problem.t0
    on = np.flatnonzero(mu)
    if not len(on):  # exact where the prior is semidefinite: both terms are the same sum
        constant, conjugate = D.constant(t0), D.conjugate(t0)
        lost = 0.0 if constant == conjugate else problem.rounding_share * (constant + conjugate)
        return problem.offset + constant - conjugate - lost, mu
    rows = problem.operator.restrict(on)
    A = rows.adjoint(mu[on])
    T = add_diagonal(-A, t0)
    if not np.isfinite(T).all():
        return -np.inf, mu
    t = eigvalsh(T)
    norms = rows.norms()
    known = (MODEST + len(on)) * EPS * float(np.abs(mu[on]) @ norms) + problem.rounding_share * float(np.linalg.norm(t))
    of_points = 0.0 if problem.errors is None else float(np.abs(mu[on]) @ problem.errors.of_matrices(norms, on))
    error = known + of_points
    if not D.in_domain(t + error):
        theta = _share_in_domain(problem, A)
        if theta == 0.0:
            return -np.inf, mu
        mu, A = theta * mu, theta * A
        T = add_diagonal(-A, t0)
        t = eigvalsh(T)
        if not D.in_domain(t + error):
            return -np.inf, mu
    # g(mu) = (phi*(T0) - phi*(T)) - sum loss*(mu), and the largest rounding of its terms
    size = float(np.linalg.norm(D.inverse_link(t + error)))
    rounding = error * size
    if problem.errors is not None and problem.errors.mapped is not None and of_points > known:
        rounding = min(rounding, known * size + _rounding_of_points(problem, rows, on, mu[on], T, error))
    gain, size = D.dual_gain(t0, A, t)
    conjugate, conjugate_size = L.conjugate_sum(mu)
    rounding += MODEST * EPS * float(abs(problem.offset) + size + conjugate_size)
    bound = problem.offset + gain - float(conjugate) - rounding
    return bound if np.isfinite(bound) else -np.inf, mu


def _rounding_of_points(
    problem: NearestMatrix, rows: Operator, on: np.ndarray, mu: np.ndarray, T: np.ndarray, error: float
) -> float:
    """Change of ``<A*(mu), M>`` at ``M = F F' = psi(T)`` by the rounding e_t of mapped points: ``2 sum |mu_i coef_t| |F'v_t| |F'e_t|``."""
    errors = problem.errors
    assert errors is not None and errors.mapped is not None
    t, U = eigh(T)
    x = problem.divergence.inverse_link(t + error)
    pulled = np.sqrt(np.abs(rows.absolute().congruence(U).values_diagonal(x)))
    moved = 2.0 * EPS * errors.mapped(on, np.abs(U * np.sqrt(x)))
    constant = float(np.linalg.norm(x)) * errors.constant[on]
    return 2.0 * float(np.abs(mu) @ (2.0 * pulled * moved + moved * moved + constant))


def _share_in_domain(problem: NearestMatrix, A: np.ndarray) -> float:
    """A theta <= 1 with ``T0 - theta A`` in the domain; 0 if none is known.

    For T0 < 0 and the domain T < 0: ``theta lambda_max(|T0|^-1/2 (-A) |T0|^-1/2) < 1``.
    """
    t0 = problem.t0
    if not (t0 < 0).all() or not problem.divergence.keeps_range:
        return 0.0
    root = 1.0 / np.sqrt(-t0)
    top = float(eigvalsh(root[:, None] * -A * root)[-1])
    return min(1.0, 0.999 / top) if top > 0 else 0.0


# ---------------------------------------------------------------------- the problem of constraints and a prior
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
    space: ArraySpace | None = None,
) -> NearestMatrix:
    """The problem of constraints: each row's scalar loss and unit are chosen, and bounds brought to the units of the prior.

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
    space : ArraySpace, optional
        Where the points are, if that is not the host's memory.

    Raises
    ------
    ValueError
        For slack weights that are not positive, rows that no finite matrix can meet, and rows whose values are lost by rounding.
    TypeError
        For a loss that is neither None nor a loss nor the name of one.
    """
    if space is not None:
        operator = on_space(operator, space)
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
    losses = (OWN_SLACK if loss is None else LOSSES.resolve(loss)).bind(weighted)
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
        check_reachable(operator, losses, constraints, size)
    soft = gamma[np.isfinite(gamma)]
    span = float(soft.max() / soft.min()) if len(soft) else 1.0
    return NearestMatrix(divergence, t0, operator, losses, unit / scale, scale=scale, weight_span=span, errors=errors)


def _natural_sizes(rows: Operator, prior: np.ndarray) -> np.ndarray:
    """``tr(|A_i| M0)``, the unit of violations of rows with bound 0.

    A row that vanishes on the range of the prior, which the matrix may leave, has a rounding error there instead. Its unit is
    ``tr |A_i|`` times the largest eigenvalue of M0. The unit of a row that is 0 is 1.
    """
    at_prior, whole = rows.sizes(prior), rows.sizes(np.full(len(prior), prior.max(initial=0.0) or 1.0))
    size = np.where(at_prior > VANISHING * whole, at_prior, whole)
    return np.where(size > 0, size, 1.0)
