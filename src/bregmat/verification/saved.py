"""Verification of saved models: what can be recomputed without the data."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from bregmat.applications.correlation.result import RepairedMatrix
from bregmat.applications.semidefinite.program import SemidefiniteResult
from bregmat.applications.simplex.nearest import DistributionResult
from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.engine.result import Result
from bregmat.engine.status import Status
from bregmat.margin.result import MarginResult
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.losses import SquaredHinge
from bregmat.objective.row_losses import WeightedBounds
from bregmat.objective.spectral import SpectralDivergence
from bregmat.quadratic.result import QPResult
from bregmat.verification.extended import arithmetic, eigenvalues, evaluate, precision_text
from bregmat.verification.figures import Verification, own_figures, with_right_signs
from bregmat.verification.written_losses import WrittenLosses, distance

NO_DATA = "the data is not in the file: the dual bound was not recomputed"


def verify_saved(model: Any) -> list[Verification]:
    """Verify a result, or each result of a loaded model, as far as this is possible without the data."""
    results = model if isinstance(model, Result) else getattr(model, "result_", [])
    verified = []
    for result in results if isinstance(results, list) else [results]:
        verified.append(own_figures(result))
        check_without_data(result, model, verified[-1])
        verified[-1].unchecked.append(NO_DATA)
    return verified


def check_without_data(result: Result, model: Any, report: Verification) -> None:
    """Compare the history with the objective, and recompute eigenvalues and signs of the point and its distance from the prior.

    If the model, which is the learner of the result or the result itself, has its constraints, signs of the weights, violations and
    losses are recomputed.
    """
    with np.errstate(all="ignore"):
        _history(result, report)
        _point(result, model, report)


def _history(result: Result, report: Verification) -> None:
    """Check that no lower bound in the history of the same problem is above the objective."""
    stage = result.history[-1].stage if result.history else 1
    bounds = [row.dual_bound for row in result.history if row.stage == stage and np.isfinite(row.dual_bound)]
    if isinstance(result, MarginResult):  # whose records are estimates from float32
        return
    if not bounds or result.status not in (Status.OPTIMAL, Status.FEASIBLE) or not np.isfinite(result.objective):
        return
    best = max(bounds)
    # the objective, and the cost of hard rows that are violated by rounding
    paid = result.dual_bound + result.gap * result.unit
    report.figures["best bound in the history"] = (result.dual_bound, best)
    if best > max(result.objective, paid) + HALF_DIGITS * max(result.unit, abs(result.objective)):
        report.problem(f"the history has the lower bound {best:.9g}, above the objective {result.objective:.9g}")


@singledispatch
def _point(result: Any, model: Any, report: Verification) -> None:
    """Check the point of a result; registered for each kind of result."""
    report.unchecked.append("nothing of the point can be recomputed without the data")


@_point.register
def _(result: QPResult | MarginResult | DistributionResult, model: Any, report: Verification) -> None:
    x = result.alpha if isinstance(result, MarginResult) else result.x
    if report.claimed in (Status.OPTIMAL, Status.FEASIBLE) and not (np.isfinite(x).all() and (x >= 0).all()):
        report.problem("the point is not a nonnegative vector", Status.UNKNOWN)
    report.unchecked.append("of the point only its signs were looked at")


@_point.register
def _(result: RepairedMatrix, model: Any, report: Verification) -> None:
    if report.claimed is Status.INFEASIBLE:
        return
    X = result.X.astype(arithmetic(80.0 * len(result.X) ** 3))
    report.precision = precision_text(X.dtype)
    values = eigenvalues((X + X.T) / 2)
    report.compare("smallest_eigenvalue", values[0], 64 * EPS * float(values[-1]))
    if (np.diag(result.X) != 1).any() or (result.X != result.X.T).any():
        report.problem("X is not symmetric with a diagonal of 1", Status.UNKNOWN)


@_point.register
def _(result: SemidefiniteResult, model: Any, report: Verification) -> None:
    if not np.isfinite(result.iterate.matrix()).all():  # a product of factors, which is semidefinite
        report.problem("the matrix is not finite", Status.UNKNOWN)
    report.unchecked.append("of the matrix only its entries were looked at")


@_point.register
def _(result: MatrixResult, model: Any, report: Verification) -> None:
    D = _divergence(result)
    M = result.iterate.matrix()
    if not np.isfinite(M).all():
        report.problem("the matrix is not finite", Status.UNKNOWN)
        return
    real = arithmetic(60.0 * len(M) ** 3)
    report.precision = precision_text(real)
    scale, t0 = float(result.coordinates.scale), result.coordinates.t0.astype(real)
    values = scale * eigenvalues(M.astype(real))
    allowed = 256 * EPS * len(M) * float(values[-1])
    claimed, least = float(result.spectrum()[0]), float(values[0])
    report.figures["smallest eigenvalue"] = (claimed, least)
    if not abs(claimed - least) <= allowed:
        report.problem(f"the smallest eigenvalue is {least:.9g}; the result says {claimed:.9g}")
    if values[0] < -allowed:
        report.problem("the matrix is not positive semidefinite", Status.UNKNOWN)
    if report.claimed is Status.INFEASIBLE:
        return
    least = scale ** (D.degree or 0) * distance(D, M.astype(real), evaluate(D.inverse_link, t0))
    report.figures["distance from the prior"] = (np.nan, least)
    room = HALF_DIGITS * max(result.unit, abs(least)) + float(result.tol) * 1e-2 * result.unit
    constraints = getattr(model, "constraints_", None)
    costs = [] if constraints is None else _rows(result, model, constraints, report)
    if costs:
        best = min((least + cost for cost in costs), key=lambda value: abs(value - result.objective))
        report.compare("objective", best, room)
    elif result.objective < least - room:
        report.problem(f"the objective {result.objective:.9g} is below the distance from the prior, {least:.9g}")


def _divergence(result: MatrixResult) -> SpectralDivergence:
    """The divergence of the problem: factored matrices are those of LogDet."""
    divergence: SpectralDivergence = getattr(result.iterate, "divergence", DIVERGENCES.resolve("logdet"))
    return divergence


def _rows(result: MatrixResult, learner: Any, constraints: Constraints, report: Verification) -> list[float]:
    """Check signs and violations of the rows by the values in the result; return the costs of the losses that the learner may have."""
    mu, p, b = result.dual, result.values, constraints.bound
    weight = float(getattr(learner, "slack_weight_", learner.slack_weight))
    D, gamma, zero = _divergence(result), weight * constraints.weight, b == 0
    weighted = WeightedBounds(D, b, constraints.sense, gamma, np.abs(b) + zero)
    losses = [WrittenLosses(weighted, learner.loss)]
    # the default loss of constraints from labels; files do not contain whether there were labels
    strategy = getattr(learner, "strategy_", getattr(learner, "strategy", None))
    if learner.loss is None and strategy in ("neighbors", None):
        losses.append(WrittenLosses(weighted, SquaredHinge()))
    if learner.loss is not None and strategy is None:  # a fit to labels that does not learn has no loss of its own
        losses.append(WrittenLosses(weighted, None))
    with_right_signs(mu, losses[0].sense, report)
    excess = losses[0].excess(p)  # the senses depend on the loss
    hard = np.isinf(gamma)
    known = hard & ~zero
    worst = float((excess[known] / np.abs(b[known])).max(initial=0.0))
    if not (hard & zero).any():
        report.compare("max_violation", worst, HALF_DIGITS)
    elif worst > result.max_violation + HALF_DIGITS:
        report.problem(f"a hard constraint is missed by {worst:.2g}; the result says {result.max_violation:.2g}")
    report.unchecked.append("values of the constraints are those of the result")
    if (zero & (hard | (excess > 0))).any():  # their unit depends on the data, and hard ones may have been eliminated
        report.unchecked.append(
            "constraints with the bound 0 have no unit without the data: the objective was not recomputed"
        )
        return []
    return [loss.cost(p) for loss in losses]
