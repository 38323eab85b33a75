"""Verification of metrics under softmax losses: scores, objective, and the bound of the distributions that the dual weights hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.applications.softmax.nearest import SoftmaxResult
from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.engine.status import Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.verification.extended import arithmetic, eigenvalues, precision_text, unit_of
from bregmat.verification.figures import Verification, check_arguments, recompute
from bregmat.verification.written_losses import distance, least_of_lagrangian


@recompute.register
def _(result: SoftmaxResult, problem: Any, report: Verification) -> None:
    check_arguments(
        problem, "the arguments scores, targets and temperature of softmax_metric", "scores targets temperature"
    )
    claims = _Claims(problem)
    if result.values.shape != claims.y.shape or result.dual.shape != claims.y.shape:
        raise ValueError(f"the result has scores of shape {result.values.shape}; the problem has {claims.y.shape}.")
    report.precision = precision_text(claims.real)
    claims.report(result, report)


class _Claims:
    """``D(W, I) + sum_i gamma_i (T logsumexp_j(v_ij / T) - sum_j y_ij v_ij)`` from the arguments of the call."""

    def __init__(self, problem: Any) -> None:
        scores = problem["scores"]
        (n, m), d = scores.shape, scores.queries.shape[1]
        self.real = real = arithmetic(6.0 * n * m * d + 60.0 * d**3)
        self.Q, self.D = scores.queries.astype(real), scores.documents.astype(real)
        self.h, self.c = (np.broadcast_to(np.asarray(x, dtype=real), (n, m)) for x in (scores.share, scores.constant))
        y = np.asarray(problem["targets"], dtype=real)
        self.y, self.heat = (
            y / y.sum(axis=1, keepdims=True),
            real(problem["temperature"]),
        )  # their sums are 1 up to rounding
        self.gamma = np.broadcast_to(np.asarray(problem.get("weights", 1.0), dtype=real), (n,))
        self.divergence = DIVERGENCES.resolve(problem.get("divergence", "frobenius"))
        allowed = problem.get("allowed")
        self.allowed = np.ones((n, m), dtype=bool) if allowed is None else np.asarray(allowed)
        self.eps = unit_of(real) * (n + m + d)

    def scores(self, W: np.ndarray) -> np.ndarray:
        """``q' W d - h (q' W q + d' W d)``, shape (n, m)."""
        QW, DW = self.Q @ W, self.D @ W
        own = (QW * self.Q).sum(axis=1)[:, None] + (DW * self.D).sum(axis=1)
        return np.asarray(QW @ self.D.T - self.h * own)

    def adjoint(self, mu: np.ndarray) -> np.ndarray:
        """``sum_ij mu_ij C_ij``, shape (d, d), with ``v_ij = <C_ij, W>``."""
        cross, H = self.Q.T @ (mu @ self.D), mu * self.h
        own = self.Q.T @ (H.sum(axis=1)[:, None] * self.Q) + self.D.T @ (H.sum(axis=0)[:, None] * self.D)
        return np.asarray((cross + cross.T) / 2 - (own + own.T) / 2)

    def loss(self, v: np.ndarray) -> Any:
        """The weighted sum of the losses of scores (n, m)."""
        inside = np.where(self.allowed, v, -np.inf)
        top = inside.max(axis=1)
        total = np.exp((inside - top[:, None]) / self.heat).sum(axis=1)
        return self.gamma @ (self.heat * np.log(total) + (self.y * (top[:, None] - v)).sum(axis=1))

    def bound(self, mu: np.ndarray, report: Verification) -> Any:
        """The bound of ``mu = gamma (y - P)`` for the distributions P nearest to the claimed ones."""
        P = self.y - mu / self.gamma[:, None]
        if (
            (P < -HALF_DIGITS).any()
            or (np.abs(P[~self.allowed]) > HALF_DIGITS).any()
            or (np.abs(P.sum(axis=1) - 1) > HALF_DIGITS).any()
        ):
            report.problem("the dual weights hold no distributions over the groups", Status.FEASIBLE)
        # the change of P is computed by itself: beside the sums of P, which are 1, small multipliers would lose their digits
        raised = np.where(self.allowed, np.maximum(P, 0), 0) - P
        excess = (raised - mu / self.gamma[:, None]).sum(axis=1, keepdims=True)
        change = (raised - P * excess) / (1 + excess)
        P, mu = P + change, mu - self.gamma[:, None] * change
        entropy = self.heat * (self.gamma @ np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0).sum(axis=1))
        gain, _, _ = least_of_lagrangian(self.divergence, np.ones(self.Q.shape[1], dtype=self.real), -self.adjoint(mu))
        return gain - (mu * self.c).sum() - entropy

    def report(self, result: SoftmaxResult, report: Verification) -> None:
        """Compare all figures of the result."""
        W, span = result.iterate.matrix().astype(self.real), result.coordinates.span
        d = self.Q.shape[1]
        if len(W) != d and span is not None:  # the problem was solved in the span of its rows
            V = np.asarray(span.basis, dtype=self.real)
            W = np.eye(d, dtype=self.real) + V @ (W - np.eye(len(W), dtype=self.real)) @ V.T
        least, largest = eigenvalues(W)[[0, -1]]
        if not least >= -64 * EPS * d * max(float(largest), 1.0):
            report.problem("the matrix is not positive semidefinite", Status.UNKNOWN)
        v = self.scores(W)
        size = (
            np.abs(self.Q) @ np.abs(W) @ np.abs(self.D).T
            + np.abs(self.h) * self.scores_size(np.abs(W))
            + np.abs(self.c)
        )
        noise = 64 * EPS * d * np.asarray(size, dtype=float)
        report.compare_all("values", v + self.c, noise + HALF_DIGITS)
        objective = distance(self.divergence, W, np.ones(d, dtype=self.real)) + self.loss(v + self.c)
        bound = self.bound(result.dual.astype(self.real), report)
        counts = self.allowed.sum(axis=1)
        unit = max(
            abs(float(objective)), 1e-3 * float(self.heat * (self.gamma @ np.log(counts.astype(self.real)))) or 1.0
        )
        gap = float(objective - bound) / unit
        allowed = float(self.gamma @ noise.max(axis=1)) + 64 * EPS * d * float(np.abs(W).sum()) + HALF_DIGITS * unit
        report.conclude((float(objective), float(bound), unit, gap), allowed, True)

    def scores_size(self, W: np.ndarray) -> np.ndarray:
        """The sum of the sizes of the terms of ``q' W q + d' W d``, shape (n, m)."""
        Q, D = np.abs(self.Q), np.abs(self.D)
        return np.asarray(((Q @ W) * Q).sum(axis=1)[:, None] + ((D @ W) * D).sum(axis=1))
