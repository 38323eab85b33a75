"""Verification of nearest kernels and metrics: objective, dual bound, violation, definiteness and proofs of infeasibility."""

from __future__ import annotations

from collections.abc import Mapping
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
from bregmat.verification.extended import LONG, is_semidefinite, numbers
from bregmat.verification.prior import DecomposedPrior
from bregmat.verification.verifier import ROUNDINGS, RowVerifier, allowance
from bregmat.verification.written_losses import WrittenLosses, distance, least_of_lagrangian
from bregmat.verification.written_rows import WrittenRows

NOISE = 32.0  # rounding errors that a proof of infeasibility may contain
MAX_COLUMNS = 300  # columns of data up to which the learned matrix is read from its map B; above, from the factor
WORTH = 10.0  # a proof of infeasibility must exceed the effect of rounding of the prior's range by this factor


class MatrixRowVerifier(RowVerifier):
    """A problem over matrices ``P M P'`` with M semidefinite and a basis P (N, r), and the rows of :class:`bregmat.Constraints`."""

    P: np.ndarray
    B: np.ndarray | None = None  # map from the data to the factor, if the rows of data are exact
    claimed: np.ndarray  # the factor of the result
    point_eps: float  # relative rounding of its entries
    divergence: Any = None
    keeps_rank = False  # whether M is positive definite

    def bind(self, rows: WrittenRows, prior: tuple[np.ndarray, float], loss: Any) -> None:
        """Set the rows, their units in terms of the eigenvalues and the scale of the prior, and their losses."""
        self.rows, self.constraints, c = rows, rows.constraints, rows.constraints.n_constraints
        if len(self.result.dual) != c:
            raise ValueError(f"the result has {len(self.result.dual)} dual weights but there are {c} constraints.")
        weight: Any = self.arguments.get("slack_weight", np.inf)
        weight = as_column("slack_weight", weight, c, per="constraint", scalar=True, infinite=True, positive=True)
        self.gamma = weight * self.constraints.weight
        self.hard, self.unit = np.isinf(self.gamma), rows.units(*prior)
        bounds = (self.constraints.bound, self.constraints.sense, self.gamma, self.unit)
        self.losses = WrittenLosses(WeightedBounds(self.divergence, *bounds), loss)
        self.bound, self.sense = self.losses.bound, self.losses.sense

    def check_claims(self) -> bool:
        """Compare the ratio of the largest and the smallest finite slack weight."""
        soft = self.gamma[~self.hard]
        span = float(soft.max() / soft.min()) if len(soft) else 1.0
        self.report.compare("weight_span", span, HALF_DIGITS * span)
        return True

    def check_contradiction(self) -> None:
        """Check that ``S = sum y_i A_i`` is semidefinite and ``y . b`` negative: then ``0 <= <S, M> <= y . b < 0``.

        If M must be positive definite, ``y . b = 0`` suffices.
        """
        y, b = self.mu, self.constraints.bound
        roundings = NOISE * np.count_nonzero(y) * EPS
        total, size = float(y.astype(LONG) @ b.astype(LONG)), float(np.abs(y) @ np.abs(b))
        self.report.figures["y . b"] = (np.nan, total)
        if y[~self.hard].any():
            self.refuse("the proof uses soft constraints")
        self.check_conflict(self.result.conflict, np.flatnonzero(y), len(b))
        S, N = self.rows.adjoint(y), self.rows.adjoint(y, absolute=True)
        share, more = self.rounding_of_proof(N, total)
        if not is_semidefinite(S + more, N + more, roundings + share):
            self.refuse("the weighted sum of the constraints is not positive semidefinite")
        is_singular = self.keeps_rank and size == 0 and float(np.trace(S)) > 1e3 * roundings * float(np.trace(N))
        if not (total < -roundings * size or is_singular):
            self.refuse(f"the weighted sum of the bounds is {total:.3g}, which is not below 0")

    def rounding_of_proof(self, N: np.ndarray, total: float) -> tuple[float, Any]:
        """Rounding error of ``S = sum y_i A_i`` due to the basis, as a multiple of ``N = sum |y_i| |A_i|`` and a matrix."""
        return 0.0, 0.0

    def rounding_of_values(self) -> Any:
        """Rounding of the values that the result shows, beside that of the recomputed ones."""
        return 0.0

    def lifted(self) -> np.ndarray:
        """Rows of the factor of the result at the touched points."""
        return np.asarray(self.claimed[self.rows.touched])

    def check_rows(self) -> bool:
        """Compare values and violations of the rows; whether the hard rows are met, and their values are more than rounding."""
        G, report = self.lifted(), self.report
        self.p, self.noise = self.rows.values(G, self.B)
        is_feasible = self.compare_rows(self.p, self.noise, self.rounding_of_values() / ROUNDINGS)
        own = self.rows.values(G, self.B, self.point_eps)[1]
        vague = np.flatnonzero(self.hard & self.rows.is_uncertain(self.p, own, self.unit))
        text = "".join(
            f"constraint {row}: its value is nothing but rounding of what it is made of" for row in vague[:1]
        )
        return report.check_feasible(not len(vague), text) and is_feasible


class MatrixVerifier(MatrixRowVerifier):
    """A problem (P), built again from the arguments of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric`.

    P (N, r) is a basis of the range of the prior with orthogonal columns. The prior is ``P diag(l) P'``, the learned matrix
    ``P F F' P'``, and points X have the coordinates ``X P``.
    """

    kind = MatrixResult
    wanted = "the arguments of nearest_kernel (prior, constraints, ...) or nearest_metric (X, constraints, ...)"
    required, optional = "prior constraints | X constraints", "divergence loss slack_weight"

    def __init__(self, arguments: Mapping[str, Any], result: MatrixResult) -> None:
        super().__init__(arguments, result)
        constraints = arguments["constraints"]
        if not isinstance(constraints, Constraints):
            raise TypeError(f"constraints must be Constraints; got {type(constraints).__name__}.")
        self.divergence = DIVERGENCES.resolve(arguments.get("divergence", "logdet"))
        self.keeps_rank, self.data = self.divergence.keeps_rank, None
        self.is_metric = "X" in arguments
        self.points: Any = as_points("X", arguments["X"]) if self.is_metric else None
        prior: Any = arguments.get("prior")
        if isinstance(prior, Factor) and isinstance(prior.G0, CheckedPoints):  # of a learner
            prior = Factor(prior.G0.points)
        if prior is not None and not isinstance(prior, Factor):
            prior = as_matrix("prior", prior, symmetric=True, sparse="dense")
        elif prior is None and not self.is_metric:
            raise TypeError("prior must be a matrix or a Factor; got None.")
        n = (prior.G0 if isinstance(prior, Factor) else prior).shape[0] if self.points is None else self.points.shape[0]
        constraints.check_range(n)
        order, c = len(result.coordinates.t0), constraints.n_constraints
        within = order if prior is None else min(np.shape(prior.G0)) if isinstance(prior, Factor) else len(prior)
        self.real = extended.arithmetic(60.0 * max(order, within) ** 3 + 4.0 * c * order**2)
        self.eps = extended.unit_of(self.real)
        self.prior = DecomposedPrior(prior, self.divergence, self.points, constraints, order, self.real)
        P, self.l = self.prior.P, self.prior.l
        self.P = P
        # Differences of data are exact; differences of rows of the learned factor may be rounding.
        if self.is_metric and len(P) <= MAX_COLUMNS and not scipy.sparse.issparse(self.points):
            self.data = np.asarray(self.points)
        elif isinstance(prior, Factor) and not self.is_metric and prior.G0.shape[1] <= MAX_COLUMNS:
            self.data = numbers(prior.G0)
        factors = None if self.data is None else (self.data, P if self.is_metric else self.prior.map)
        rows = WrittenRows(constraints, P, self.points, self.prior.floor, factors)
        self.bind(rows, (self.l, result.coordinates.scale), arguments.get("loss"))
        # mapped points are computed in float64 where the map of the data is not used
        self.point_eps = EPS if self.is_metric and self.data is None else self.eps

    @cached_property
    def F(self) -> np.ndarray:
        """The learned matrix in the basis, as a factor (r, k)."""
        if self.is_metric and self.P.shape[0] != self.P.shape[1] and self.P.shape[0] > MAX_COLUMNS:
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

    def outside(self) -> float:
        """Relative size of the part of the learned matrix outside of the prior's range; 0 if it is rounding of the prior."""
        if self.is_metric and self.P.shape[0] > MAX_COLUMNS:
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
        if scipy.sparse.issparse(self.points) or self.P.shape[0] > MAX_COLUMNS:
            return np.asarray(self.result.transform(self.points[self.rows.touched])).astype(self.real)
        return np.asarray(self.points[self.rows.touched].astype(self.real) @ self.claimed)

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
    def check_claims(self) -> bool:
        """Compare attributes that repeat arguments, and the rank."""
        if self.result.singular is not None:
            self.report.unchecked.append("that only singular matrices meet some constraints was not recomputed")
        is_factor = self.data is not None and not self.is_metric and self.prior.map is not None
        if is_factor and len(self.l) < len(self.result.coordinates.t0):
            # the result keeps short directions of the factor that are rounding in the decomposition here
            self.report.unchecked.append("the rank of the prior's factor is not known in this precision")
            return False
        return super().check_claims()

    def check_point(self) -> bool:
        """Whether the matrix is finite, and its factor is ``G0 B`` up to rounding."""
        if not np.isfinite(self.claimed).all():
            return self.refuse("the matrix is not finite")
        if not self.is_metric and self.data is not None:
            factor, size = np.asarray(self.result.factor), (np.abs(self.data) @ np.abs(self.B)).max(axis=1, initial=0.0)
            is_same = factor.shape == self.claimed.shape
            if not is_same or not (np.abs(factor - self.claimed) <= HALF_DIGITS * size[:, None]).all():
                self.refuse("the factor is not that of the learned matrix")
        return True

    def rounding_of_values(self) -> Any:
        """One rounding of the rows' matrices, in which the solvers compute the values."""
        return self.rows.rounding_of_matrices(float(np.linalg.norm((self.F @ self.F.T).astype(float))))

    def check_rows(self) -> bool:
        """Compare the rows; whether they are met within the range of the prior."""
        is_feasible = super().check_rows()
        if (off := self.outside()) > 0:
            self.report.problem(f"the matrix leaves the range of the prior by {off:.2g} of its size")
        return is_feasible and not off > 0

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare divergence and losses with the bound of the dual weights."""
        result, p, noise, mu, losses = self.result, self.p, self.noise, self.mu, self.losses
        bound, lost = self.dual_bound(mu)
        ended = losses.ended(p, allowance(noise, self.unit))
        objective = self.distance() + losses.cost(p + ended)
        above = float((np.abs(mu) * self.excess(p))[self.hard].sum() + np.abs(mu) @ ended)
        # an infinite objective beside UNKNOWN claims nothing, nor does that of a point that is not feasible
        is_claimed = is_feasible and not (self.report.claimed is Status.UNKNOWN and result.objective == np.inf)
        blur = losses.rounding_of_cost(p, noise) if is_claimed else 0.0  # of 16 roundings
        (prior, turned), unit = self.from_the_prior(mu), self.gap_unit(objective)
        # rounding of the bound grows with the dual weights, which are part of the claim: it is not allowed to the objective
        allowed = HALF_DIGITS * self.gap_unit(objective if np.isfinite(objective) else 0.0)
        allowed += prior + self.eps * float((self.l * self.l).sum())
        if prior + turned > result.tol * unit:
            self.report.notes.append(f"the last digits of the prior are worth {prior + turned:.2g} in the objective")
        # rounding of a singular dense prior decides its range: a bound that differs by no more counts, up to the tolerance
        known = max(bound, min(float(result.dual_bound), bound + min(turned, result.tol * unit)))
        above += blur / ROUNDINGS + bound - known if np.isfinite(bound) else 0.0
        how: dict[str, Any] = {"of_bound": allowed + min(turned, CANCELLED * unit), "lost": lost, "above": above}
        self.report.conclude((objective, bound, unit), allowed + blur, is_feasible, is_claimed=is_claimed, **how)

    def rounding_of_proof(self, N: np.ndarray, total: float) -> tuple[float, Any]:
        """Error of ``S = sum y_i A_i`` if rounding of the prior rotates its range: a multiple of N, and a diagonal matrix (r, r).

        If terms ``w f f'`` of S have the errors e of f, then ``f e' + e f' <= share f f' + e e' / share``, and
        ``e e' <= diag(e_k^2 / q_k)`` for any weights q with the sum 1. The weights q minimize that matrix at the prior. The share is
        the smallest for which the matrix is at most ``1 / WORTH`` of ``-y . b``. If the share itself costs more, no error is allowed.
        """
        l, y = self.l.astype(float), self.mu
        e = self.prior.turned * np.sqrt(self.rows.weight_of_turning(y))
        at_prior, none = e * np.sqrt(l), np.zeros_like(N)
        # rounding of the entries of the rows' matrices, which may cancel in the sum
        entries = NOISE * np.count_nonzero(y) * EPS * self.rows.rounded_entries(y)
        entries = entries if WORTH * float(np.diag(entries) @ l) <= -total else none
        share = WORTH * float(at_prior.sum()) ** 2 / -total if total < 0 else 0.0
        if not share or not WORTH * share * float(np.diag(N) @ l) <= -total:
            return 0.0, none + entries
        return share, np.diag(e * float(at_prior.sum()) / np.sqrt(l) / share) + entries
