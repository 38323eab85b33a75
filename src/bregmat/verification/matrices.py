"""Verification of nearest kernels and metrics: objective, dual bound, violation, definiteness and proofs of infeasibility."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.points import CheckedPoints, as_points
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.engine.status import Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.row_losses import WeightedBounds
from bregmat.verification import extended
from bregmat.verification.extended import numbers
from bregmat.verification.figures import (
    EXACT,
    Verification,
    allowance,
    check_arguments,
    check_dual,
    recompute,
    with_right_signs,
)
from bregmat.verification.prior import DecomposedPrior
from bregmat.verification.written_losses import WrittenLosses, distance, least_of_lagrangian
from bregmat.verification.written_rows import NOISE, WrittenRows

MAX_COLUMNS = 300  # columns of data up to which the learned matrix is read from its map B; above, from the factor
WORTH = 10.0  # a proof of infeasibility must exceed the effect of rounding of the prior's range by this factor
OPTIONS = "prior X constraints divergence loss slack_weight"


@recompute.register
def _(result: MatrixResult, problem: Any, report: Verification) -> None:
    Recomputation(problem, result).report(report)


class Recomputation:
    """A problem (P), built again from the arguments of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric`.

    P (N, r) is a basis of the range of the prior with orthogonal columns. The prior is ``P diag(l) P'``, the learned matrix
    ``P F F' P'``, and points X have the coordinates ``X P``.

    Parameters
    ----------
    arguments : mapping
        ``prior`` and ``constraints`` for a kernel; ``X``, ``constraints`` and optionally ``prior`` for a metric; ``divergence``,
        ``loss`` and ``slack_weight`` if they are not the defaults.
    result : MatrixResult
    """

    def __init__(self, arguments: Mapping[str, Any], result: MatrixResult) -> None:
        wanted = "the arguments of nearest_kernel (prior, constraints, ...) or nearest_metric (X, constraints, ...)"
        check_arguments(arguments, wanted, "prior constraints", "X constraints", known=OPTIONS.split())
        self.result, self.constraints = result, arguments["constraints"]
        if not isinstance(self.constraints, Constraints):
            raise TypeError(f"constraints must be Constraints; got {type(self.constraints).__name__}.")
        self.divergence = DIVERGENCES.resolve(arguments.get("divergence", "logdet"))
        self.is_metric = "X" in arguments
        check_dual(result, self.constraints)
        self.points: Any = as_points("X", arguments["X"]) if self.is_metric else None
        prior: Any = arguments.get("prior")
        if isinstance(prior, Factor) and isinstance(prior.G0, CheckedPoints):  # of a learner
            prior = Factor(prior.G0.points)
        if prior is not None and not isinstance(prior, Factor):
            prior = as_matrix("prior", prior, symmetric=True, sparse="dense")
        elif prior is None and not self.is_metric:
            raise TypeError("prior must be a matrix or a Factor; got None.")
        n = (prior.G0 if isinstance(prior, Factor) else prior).shape[0] if self.points is None else self.points.shape[0]
        self.constraints.check_range(n)
        order, c = len(result.coordinates.t0), self.constraints.n_constraints
        within = order if prior is None else min(np.shape(prior.G0)) if isinstance(prior, Factor) else len(prior)
        self.real = extended.arithmetic(60.0 * max(order, within) ** 3 + 4.0 * c * order**2)
        self.eps = extended.unit_of(self.real)
        self.prior = DecomposedPrior(prior, self.divergence, self.points, self.constraints, order, self.real)
        self.P, self.l = self.prior.P, self.prior.l
        # Differences of data are exact; differences of rows of the learned factor may be rounding.
        self.data: np.ndarray | None = None
        if self.is_metric and len(self.P) <= MAX_COLUMNS and not scipy.sparse.issparse(self.points):
            self.data = np.asarray(self.points)
        elif isinstance(prior, Factor) and not self.is_metric and prior.G0.shape[1] <= MAX_COLUMNS:
            self.data = numbers(prior.G0)
        factors = None if self.data is None else (self.data, self.P if self.is_metric else self.prior.map)
        self.rows = WrittenRows(self.constraints, self.P, self.points, self.prior.floor, factors)
        weight: Any = arguments.get("slack_weight", np.inf)
        weight = as_column("slack_weight", weight, c, per="constraint", scalar=True, infinite=True, positive=True)
        self.gamma = weight * self.constraints.weight
        self.hard, self.unit = np.isinf(self.gamma), self.rows.units(self.l, result.coordinates.scale)
        bounds = WeightedBounds(self.divergence, self.constraints.bound, self.constraints.sense, self.gamma, self.unit)
        self.losses = WrittenLosses(bounds, arguments.get("loss"))

    @cached_property
    def F(self) -> np.ndarray:
        """The learned matrix in the basis, as a factor (r, k)."""
        if self.is_metric and self.P.shape[0] != self.P.shape[1] and self.P.shape[0] > 300:
            return np.asarray(self.result.transform(self.P.T.astype(float))).astype(self.real)
        if not self.is_metric and self.B is not None and self.prior.map is not None:
            # G0 B = P F with P = G0 map, whose columns are orthogonal
            return self.prior.map.T @ self.B / (self.prior.map**2).sum(axis=0)[:, None]
        scale = self.prior.row_scale
        return (scale * self.P).T @ (scale * self.claimed) / self.prior.sq_norms[:, None]

    @cached_property
    def B(self) -> np.ndarray | None:
        """Map from the data to the learned factor; None if it is not used."""
        if self.data is None:
            return None
        B = np.asarray(self.result.B)
        if len(B) != self.data.shape[1]:
            raise ValueError(f"the result is for {len(B)} columns; the problem has {self.data.shape[1]}.")
        return B.astype(self.real)

    @cached_property
    def claimed(self) -> np.ndarray:
        """The factor of the result; for a prior ``G0 G0'``, the product ``G0 B`` in extended precision."""
        if not self.is_metric and self.data is not None:
            return np.asarray(self.data.astype(self.real) @ self.B)
        factor = np.asarray(self.result.B if self.is_metric else self.result.factor)
        if len(factor) != len(self.P):
            raise ValueError(f"the result has {len(factor)} rows; the problem has {len(self.P)}.")
        return factor.astype(self.real)

    def _check_factor(self, report: Verification) -> None:
        """Check that the factor of a learned kernel is ``G0 B`` up to rounding."""
        if self.is_metric or self.data is None or self.B is None:
            return
        factor, size = np.asarray(self.result.factor), (np.abs(self.data) @ np.abs(self.B)).max(axis=1, initial=0.0)
        if (
            factor.shape != self.claimed.shape
            or not (np.abs(factor - self.claimed) <= HALF_DIGITS * size[:, None]).all()
        ):
            report.problem("the factor is not that of the learned matrix", Status.UNKNOWN)

    def outside(self) -> float:
        """Relative size of the part of the learned matrix outside of the prior's range; 0 if it is rounding of the prior."""
        if self.is_metric and self.P.shape[0] > 300:
            return 0.0
        claimed, P = (self.prior.row_scale * x for x in (self.claimed, self.P))
        size = float(np.abs(claimed).max(initial=0.0)) or 1.0
        lengths = np.sqrt(self.prior.sq_norms * (self.F * self.F).sum(axis=1)).astype(float)
        off = float(np.abs(claimed - P @ self.F).max(initial=0.0))
        return (
            off / size if off > HALF_DIGITS * size + float((np.minimum(self.prior.vague, 1.0) * lengths).sum()) else 0.0
        )

    def lifted(self) -> np.ndarray:
        """Rows of the factor of the result at the touched points."""
        if not self.is_metric:
            return self.claimed[self.rows.touched]
        if scipy.sparse.issparse(self.points) or self.P.shape[0] > 300:
            return np.asarray(self.result.transform(self.points[self.rows.touched])).astype(self.real)
        return self.points[self.rows.touched].astype(self.real) @ self.claimed

    # ------------------------------------------------------------------ the figures
    def distance(self) -> float:
        """``D(M, diag(l))``."""
        return distance(self.divergence, self.F @ self.F.T, self.l)

    def dual_bound(self, mu: np.ndarray) -> tuple[float, float]:
        """The lower bound that dual weights prove, and its error due to rounding of the arithmetic and of the data."""
        lost, terms = self.losses.conjugates(mu, self.real)
        gain, size, M = least_of_lagrangian(self.divergence, self.l, self.rows.adjoint(mu))
        if M is None or not np.isfinite(lost):
            return -np.inf, 0.0
        return gain - lost, self.eps * len(self.l) * (size + terms) + self.rows.blur(mu, M)

    def gap_unit(self, objective: float) -> float:
        """Unit of the gap: the objective, or 1e-3 times the mean eigenvalue of the prior to the power of the divergence's degree."""
        degree = self.divergence.degree or 0
        mean = float(self.l.sum()) / self.P.shape[0] if degree and not self.prior.is_identity else 1.0
        own = 1e-3 * mean**degree if mean > 0 else self.result.unit
        return max(own, abs(objective))

    def from_the_prior(self, mu: np.ndarray) -> tuple[float, float]:
        """Change of objective and dual bound due to rounding of the prior, and the further change of the bound."""
        M = (self.F * self.F).sum(axis=1)
        if self.divergence.takes_indefinite:
            return float(8.0 * EPS * float(self.l.max(initial=0)) * (np.abs(M - self.l)).sum()), 0.0
        worth = float((np.minimum(self.prior.vague, 1.0) * np.abs(M - self.l).astype(float)).sum())
        if not self.prior.turned.any():
            return worth, 0.0
        return worth, self.rows.objective_change_from_rotation(mu, (self.F @ self.F.T).astype(float), self.prior.turned)

    # ------------------------------------------------------------------ the report
    def report(self, report: Verification) -> None:
        """Compare all figures of the result."""
        result = self.result
        report.precision = extended.precision_text(self.real)
        mu = np.asarray(result.dual, dtype=float)
        if not np.isfinite(mu).all():
            report.problem("the dual weights are not finite", Status.UNKNOWN)
            return
        is_factor = self.data is not None and not self.is_metric and self.prior.map is not None
        if is_factor and len(self.l) < len(result.coordinates.t0):
            # the result keeps short directions of the factor that are rounding in the decomposition here
            report.unchecked.append("the rank of the prior's factor is not known in this precision")
            return
        mu = with_right_signs(mu, self.losses.sense, report)
        if result.singular is not None:
            report.unchecked.append("that only singular matrices meet some constraints was not recomputed")
        if report.claimed is Status.INFEASIBLE:
            turning, keeps_rank = partial(self._turning, mu), self.divergence.keeps_rank
            self.rows.check_contradiction(mu, self.hard, result.conflict, report, turning, keeps_rank)
            return
        if not np.isfinite(self.claimed).all():
            report.problem("the matrix is not finite", Status.UNKNOWN)
            return
        self._check_factor(report)
        p, noise = self.rows.values(self.lifted(), self.B)
        excess = self.losses.excess(p)
        is_feasible = self._report_rows(p, noise, excess, report)
        bound, lost = self.dual_bound(mu)
        ended = self.losses.ended(p, allowance(noise, self.unit))
        objective = self.distance() + self.losses.cost(p + ended)
        upper = objective + float((np.abs(mu) * self.losses.excess(p))[self.hard].sum() + np.abs(mu) @ ended)
        # an infinite objective beside UNKNOWN claims nothing, nor does that of a point that is not feasible
        claims_objective = is_feasible and not (report.claimed is Status.UNKNOWN and result.objective == np.inf)
        blur = self.losses.rounding_of_cost(p, noise) if claims_objective else 0.0  # of 16 roundings
        (prior, turned), size = self.from_the_prior(mu), self.gap_unit(objective)
        # rounding of a singular dense prior decides its range: a bound that differs by no more counts, up to the tolerance
        known = max(bound, min(float(result.dual_bound), bound + min(turned, result.tol * size)))
        gap = (upper + blur / 16.0 - known + lost) / size if is_feasible and np.isfinite(bound) else np.inf
        # rounding of the bound grows with the dual weights, which are part of the claim: it is not allowed to the objective
        allowed = HALF_DIGITS * self.gap_unit(objective if np.isfinite(objective) else 0.0)
        allowed += prior + self.eps * float((self.l * self.l).sum())
        if claims_objective:
            report.compare("objective", objective, allowed + blur)
        report.bound_from_below("dual_bound", bound, allowed + min(turned, CANCELLED * size), lost, size)
        if claims_objective:
            report.compare("unit", size, EXACT * size + allowed + blur)
        prior += turned
        if prior > result.tol * size:
            report.notes.append(f"the last digits of the prior are worth {prior:.2g} in the objective")
        report.judge(gap, is_feasible)

    def _report_rows(self, p: np.ndarray, noise: np.ndarray, excess: np.ndarray, report: Verification) -> bool:
        """Compare values and violations of the rows; return whether the hard rows and the range of the prior are met."""
        lost = self.rows.rounding_of_matrices(float(np.linalg.norm((self.F @ self.F.T).astype(float))))
        report.compare_rows(p, excess, self.unit, noise + lost / 16.0, self.hard)
        report.compare_span(self.gamma)
        missed = self.hard & ~(excess <= allowance(noise, self.unit))
        row = int(np.argmax(missed))
        text = f"constraint {row} is missed by {float(excess[row] / self.unit[row]):.2g}"
        is_feasible = report.check_feasible(not missed.any(), text)
        # mapped points are computed in float64 where the map of the data is not used
        eps = EPS if self.is_metric and self.data is None else self.eps
        own = self.rows.values(self.lifted(), self.B, eps)[1]
        vague = np.flatnonzero(self.hard & self.rows.is_uncertain(p, own, self.unit))
        if len(vague) and report.claimed is not Status.UNKNOWN:
            is_feasible = False
            report.problem(f"constraint {vague[0]}: its value is nothing but rounding of what it is made of")
        if (off := self.outside()) > 0:
            is_feasible = False
            report.problem(f"the matrix leaves the range of the prior by {off:.2g} of its size")
        return is_feasible

    def _turning(self, y: np.ndarray, N: np.ndarray, total: float) -> tuple[float, np.ndarray]:
        """Error of ``S = sum y_i A_i`` if rounding of the prior rotates its range: a multiple of N, and a diagonal matrix (r, r).

        If terms ``w f f'`` of S have the errors e of f, then ``f e' + e f' <= share f f' + e e' / share``, and
        ``e e' <= diag(e_k^2 / q_k)`` for any weights q with the sum 1. The weights q minimize that matrix at the prior. The share is
        the smallest for which the matrix is at most ``1 / WORTH`` of ``-y . b``. If the share itself costs more, no error is allowed.
        """
        l, e = self.l.astype(float), self.prior.turned * np.sqrt(self.rows.weight_of_turning(y))
        at_prior, none = e * np.sqrt(l), np.zeros_like(N)
        # rounding of the entries of the rows' matrices, which may cancel in the sum
        entries = NOISE * np.count_nonzero(y) * EPS * self.rows.rounded_entries(y)
        entries = entries if WORTH * float(np.diag(entries) @ l) <= -total else none
        share = WORTH * float(at_prior.sum()) ** 2 / -total if total < 0 else 0.0
        if not share or not WORTH * share * float(np.diag(N) @ l) <= -total:
            return 0.0, none + entries
        return share, np.diag(e * float(at_prior.sum()) / np.sqrt(l) / share) + entries
