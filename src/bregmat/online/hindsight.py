"""The loss of fixed matrices on a recorded stream, and the best of them, which is the solution of a nearness problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.linalg import eigh
from bregmat.constraints.columns import LowRankMatrix
from bregmat.constraints.constraints import Constraints
from bregmat.nearest import nearest_kernel
from bregmat.objective.scalar_losses import Squared
from bregmat.online.bounds import largest_divergence, relative_entropy
from bregmat.online.instances import is_complex
from bregmat.online.losses import CompiledLoss
from bregmat.online.records import KeptExamples, PairTally
from bregmat.online.settings import GradientSettings
from bregmat.run.result import MatrixResult


@dataclass(frozen=True, eq=False)
class BestInHindsight:
    """The fixed matrix with (nearly) the smallest total squared loss on a stream.

    Attributes
    ----------
    matrix : ndarray, shape (d, d)
        U, of the learner's trace.
    loss : float
        Its total loss on the stream.
    lower_bound : float
        No matrix of that trace has a smaller total loss; from the certificate of the nearness problem.
    divergence : float
        ``Delta(U, W_1)``.
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
    loss = settings.loss
    losses = (
        loss.value(p, labels)
        if isinstance(loss, CompiledLoss)
        else [float(loss.value(x, label)) for x, label in zip(p, labels)]
    )
    return float(counts @ losses) + record.within


def best_in_hindsight(
    settings: GradientSettings, record: PairTally | KeptExamples, log_prior: np.ndarray, *, weight: float, tol: float
) -> BestInHindsight:
    """Minimise ``sum_t (tr(U X_t) - y_t)^2 + weight Delta(U, W_1)`` over PSD matrices U of the given trace.

    The problem is solved in units of the trace, so that it does not depend on the scale: the loss has the unit trace^2, and the
    divergence is the trace times that of matrices of trace one.

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
    trace, d = settings.trace, len(log_prior)
    labels, weight = labels / trace, weight / trace
    log_prior = log_prior - math.log(trace) * np.eye(d)
    # gamma / 2 ((p - b) / b)^2 of the nearness problem is (p - b)^2 / weight for gamma = 2 b^2 / weight; b must not be 0
    least = 1e-12 * (float(np.abs(labels).max()) or 1.0)
    b = np.where(np.abs(labels) < least, least, labels)
    gamma = np.append(2.0 * counts * b * b / weight, np.inf)
    doubled = is_complex(block) or log_prior.dtype.kind == "c"
    prior, instances = _real_problem(settings.kind, block, len(labels), log_prior, doubled=doubled)
    constraints = Constraints.linear(instances, b, "==") + Constraints.trace(1.0)
    result = nearest_kernel(prior, constraints, divergence="vonneumann", loss=Squared(), slack_weight=gamma, tol=tol)
    U = _from_real(result.kernel(), d) if doubled else result.kernel()
    U = 0.5 * (U + U.conj().T)
    U /= float(np.trace(U).real)
    divergence = relative_entropy(U, log_prior)
    U *= trace
    # For every U: loss >= weight (objective - Delta(U, W_1)) >= weight (dual bound - largest divergence). The rounding of both, and of
    # the terms that they are sums of, is subtracted.
    farthest, terms = largest_divergence(log_prior), float(np.abs(result.dual) @ np.abs(constraints.bound))
    rounding = 1e-14 * d * (farthest + abs(result.dual_bound) + terms)
    lowest = math.sqrt(max(0.0, weight * (result.dual_bound - farthest - rounding)))
    # sqrt(loss) is a norm of the errors: for the labels b it differs by at most |b - labels| from that for the true labels
    root = trace * max(0.0, lowest - math.sqrt(float(counts @ (b - labels) ** 2)))
    loss = total_loss(U, settings, record)
    return BestInHindsight(U, loss, root * root + record.within, trace * divergence, result)


# ---------------------------------------------------------------------- complex matrices as real ones of twice the order
def _real_problem(
    kind: Any, block: Any, n: int, log_prior: np.ndarray, *, doubled: bool
) -> tuple[np.ndarray, list[LowRankMatrix]]:
    """The prior and the instances as real matrices; ``doubled``: a complex A becomes ``[[Re A, -Im A], [Im A, Re A]]``.

    Every eigenvalue of the real form occurs twice. Half of it has the trace and the divergence of the complex matrix.
    """
    values, Q = eigh(log_prior)
    prior = (Q * np.exp(values)) @ Q.conj().T
    rows = [kind.terms(block, t, len(log_prior)) for t in range(n)]
    if doubled:
        prior = 0.5 * np.block([[prior.real, -prior.imag], [prior.imag, prior.real]])
        rows = [
            (np.vstack([np.hstack([V.real, V.imag]), np.hstack([-V.imag, V.real])]), np.tile(mu, 2)) for V, mu in rows
        ]
    return prior, [LowRankMatrix(V.T, mu) for V, mu in rows]


def _from_real(U: np.ndarray, d: int) -> np.ndarray:
    """The complex matrix (d, d) of half the real form (2 d, 2 d)."""
    return (U[:d, :d] + U[d:, d:]) + 1j * (U[d:, :d] - U[:d, d:])
