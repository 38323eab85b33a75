"""The loss of fixed matrices on a recorded stream, and the best of them, which is the solution of a nearness problem."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bregmat.base.checks import check_positive
from bregmat.base.linalg import eigh
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.columns import LowRankMatrix
from bregmat.constraints.constraints import Constraints
from bregmat.nearest import nearest_kernel
from bregmat.objective.losses import Squared
from bregmat.online.bounds import largest_divergence, relative_entropy
from bregmat.online.gradient_state import GradientState
from bregmat.online.losses import BuiltInLoss
from bregmat.online.records import KeptExamples, PairTally
from bregmat.online.settings import GradientSettings


@dataclass(frozen=True, eq=False)
class BestInHindsight:
    """The fixed matrix with (nearly) the smallest total squared loss on a stream."""

    matrix: np.ndarray  # U (d, d), of the learner's trace
    loss: float  # its total loss on the stream
    lower_bound: float  # no matrix of that trace has a smaller total loss, by the certificate of the nearness problem
    divergence: float  # Delta(U, W_1)
    result: MatrixResult  # of the nearness problem, in units of the trace: its matrices have the trace one


def total_loss(U: np.ndarray, settings: GradientSettings, record: PairTally | KeptExamples) -> float:
    """Total loss of a fixed matrix on the recorded stream."""
    block, counts, labels = record.rows()
    if not len(labels):
        return 0.0
    values, V = eigh(U)
    p = settings.kind.values(block, V * np.sqrt(np.maximum(values, 0.0)))
    loss = settings.loss
    if isinstance(loss, BuiltInLoss):
        losses = loss.value(p, labels)
    else:
        losses = [float(loss.value(x, label)) for x, label in zip(p, labels)]
    return float(counts @ losses) + record.within


def best_in_hindsight(
    settings: GradientSettings, state: GradientState | None, *, weight: float | None, tol: float
) -> BestInHindsight:
    """Minimise ``sum_t (tr(U X_t) - y_t)^2 + weight Delta(U, W_1)`` over PSD matrices U of the given trace.

    The problem is solved in units of the trace, so that it does not depend on the scale: the loss has the unit trace^2, and the
    divergence is the trace times that of matrices of trace one.

    Parameters
    ----------
    settings, state, weight, tol
        See :meth:`bregmat.MatrixExponentiatedGradient.best_in_hindsight`.
    """
    if not settings.is_squared:
        raise ValueError(f"best_in_hindsight needs loss='squared'; got {settings.loss!r}.")
    if state is None or state.record is None or not state.n_seen:
        raise ValueError("best_in_hindsight needs at least one example.")
    if state.H.dtype.kind == "c":
        raise ValueError("best_in_hindsight needs real instances and a real prior; got complex ones.")
    trace, d, record = settings.trace, len(state.H), state.record
    if weight is None:
        weight = max(1e-3 * state.loss / trace, 1e-12 * trace)
    check_positive("weight", weight, finite=True)
    check_positive("tol", tol, finite=True)
    block, counts, labels = record.rows()
    labels, weight = labels / trace, float(weight) / trace
    log_prior = state.first_exponent() - math.log(trace) * np.eye(d)
    # gamma / 2 ((p - b) / b)^2 of the nearness problem is (p - b)^2 / weight for gamma = 2 b^2 / weight; b must not be 0
    least = 1e-12 * (float(np.abs(labels).max()) or 1.0)
    b = np.where(np.abs(labels) < least, least, labels)
    gamma = np.append(2.0 * counts * b * b / weight, np.inf)
    values, Q = eigh(log_prior)
    prior = (Q * np.exp(values)) @ Q.T
    terms = [settings.kind.terms(block, t, d) for t in range(len(labels))]
    constraints = Constraints.linear([LowRankMatrix(V.T, mu) for V, mu in terms], b, "==") + Constraints.trace(1.0)
    result = nearest_kernel(prior, constraints, divergence="vonneumann", loss=Squared(), slack_weight=gamma, tol=tol)
    U = result.kernel()
    U /= float(np.trace(U))
    divergence = relative_entropy(U, log_prior)
    U *= trace
    # For every U: loss >= weight (objective - Delta(U, W_1)) >= weight (dual bound - largest divergence). The rounding of both, and of
    # the terms that they are sums of, is subtracted.
    farthest, size = largest_divergence(log_prior), float(np.abs(result.dual) @ np.abs(constraints.bound))
    rounding = 1e-14 * d * (farthest + abs(result.dual_bound) + size)
    lowest = math.sqrt(max(0.0, weight * (result.dual_bound - farthest - rounding)))
    # sqrt(loss) is a norm of the errors: for the labels b it differs by at most |b - labels| from that for the true labels
    root = trace * max(0.0, lowest - math.sqrt(float(counts @ (b - labels) ** 2)))
    loss = total_loss(U, settings, record)
    return BestInHindsight(U, loss, root * root + record.within, trace * divergence, result)
