"""What fixed matrices would have lost on a recorded stream, and the best of them: a nearness problem for the core."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bregmat.base.linalg import eigh
from bregmat.constraints.columns import LowRankMatrix
from bregmat.constraints.constraints import Constraints
from bregmat.nearest import nearest_kernel
from bregmat.objective.scalar_losses import Squared
from bregmat.online.bounds import largest_divergence, relative_entropy
from bregmat.online.instances import is_complex
from bregmat.online.records import KeptExamples, PairTally
from bregmat.online.settings import GradientSettings
from bregmat.run.result import MatrixResult


@dataclass(frozen=True, eq=False)
class BestInHindsight:
    """The fixed matrix with (nearly) the least total squared loss.

    Attributes
    ----------
    matrix : ndarray, shape (d, d)
        U, of the learner's trace.
    loss : float
        Its total loss on the stream.
    lower_bound : float
        No matrix of that trace has a smaller total loss: the core's certificate.
    divergence : float
        ``Delta(U, W1)``.
    result : MatrixResult
        Of the nearness problem, in units of the trace: its matrices have the trace one.
    """

    matrix: np.ndarray
    loss: float
    lower_bound: float
    divergence: float
    result: MatrixResult


def total_loss(U: np.ndarray, settings: GradientSettings, record: PairTally | KeptExamples) -> float:
    """Total loss of a fixed matrix on the recorded stream."""
    block, counts, labels = record.rows()
    if not len(labels):
        return 0.0
    values, V = eigh(U)
    p = settings.kind.values(block, V * np.sqrt(np.maximum(values, 0.0)))
    value = settings.loss.value  # of arrays, if it is compiled
    paid = value(p, labels) if settings.is_compiled else [float(value(x, label)) for x, label in zip(p, labels)]
    return float(counts @ paid) + record.within


def _realified(A: np.ndarray) -> np.ndarray:
    """A complex Hermitian matrix as a real symmetric one of twice the order, every eigenvalue twice."""
    return np.block([[A.real, -A.imag], [A.imag, A.real]])


def best_in_hindsight(
    settings: GradientSettings, record: PairTally | KeptExamples, log_prior: np.ndarray, *, weight: float, tol: float
) -> BestInHindsight:
    """Minimise ``sum_t (tr(U X_t) - y_t)^2 + weight Delta(U, W1)`` over ``U >= 0`` of the given trace, by the core.

    All in units of the trace, so that any scale gives the same problem: the loss is trace^2 and the divergence trace times
    that of matrices of trace one.

    Parameters
    ----------
    settings : GradientSettings
        Of the learner; its loss is the squared one.
    record : PairTally or KeptExamples
        The stream.
    log_prior : ndarray, shape (d, d)
        ``log W_1``, Hermitian.
    weight : float
        Of the divergence; units of the trace.
    tol : float
        Relative gap of the nearness problem; dimensionless.
    """
    block, counts, labels = record.rows()
    kind, trace = settings.kind, settings.trace
    d, labels, weight = len(log_prior), labels / trace, weight / trace
    log_prior = log_prior - math.log(trace) * np.eye(d)
    rows = [kind.terms(block, t, d) for t in range(len(labels))]
    doubled = is_complex(block) or log_prior.dtype.kind == "c"
    values, Q = eigh(log_prior)
    prior = (Q * np.exp(values)) @ Q.conj().T
    if doubled:  # W -> half of its real form: same trace, same divergence; X -> its real form
        prior = 0.5 * _realified(prior)
        rows = [
            (np.vstack([np.hstack([V.real, V.imag]), np.hstack([-V.imag, V.real])]), np.tile(mu, 2)) for V, mu in rows
        ]
    # the core's loss is gamma / 2 ((p - b) / b)^2, over the weight of the divergence here; a label 0 has no |b|
    least = 1e-12 * (float(np.abs(labels).max()) or 1.0)
    b = np.where(np.abs(labels) < least, least, labels)
    constraints = Constraints.linear([LowRankMatrix(V.T, mu) for V, mu in rows], b, "==") + Constraints.trace(1.0)
    gamma = np.append(2.0 * counts * b * b / weight, np.inf)
    result = nearest_kernel(prior, constraints, divergence="vonneumann", loss=Squared(), slack_weight=gamma, tol=tol)
    U = result.kernel()
    if doubled:
        U = (U[:d, :d] + U[d:, d:]) + 1j * (U[d:, :d] - U[:d, d:])
    U = 0.5 * (U + U.conj().T)
    U /= float(np.trace(U).real)
    divergence = relative_entropy(U, log_prior)
    U *= trace
    loss = total_loss(U, settings, record)
    # every U: loss >= weight (objective - Delta(U, W1)) >= weight (dual bound - largest divergence), less the rounding of
    # both and of the terms they consist of; the roots of losses for b and for the labels differ by at most `moved`
    farthest, terms = largest_divergence(log_prior), float(np.abs(result.dual) @ np.abs(constraints.bound))
    rounding = 1e-14 * d * (farthest + abs(result.dual_bound) + terms)
    moved = math.sqrt(float(counts @ (b - labels) ** 2))
    lowest = math.sqrt(max(0.0, weight * (result.dual_bound - farthest - rounding)))
    root = trace * max(0.0, lowest - moved)
    return BestInHindsight(U, loss, root * root + record.within, trace * divergence, result)
