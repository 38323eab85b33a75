"""Verification of metrics under softmax losses: scores, objective, and the bound of the distributions that the dual weights hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.softmax.nearest import SoftmaxResult
from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.engine.status import Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.verification.extended import arithmetic, eigenvalues
from bregmat.verification.verifier import Verifier
from bregmat.verification.written_losses import distance, least_of_lagrangian


class SoftmaxVerifier(Verifier):
    """``D(W, I) + sum_i gamma_i (T logsumexp_j(v_ij / T) - sum_j y_ij v_ij)``."""

    kind = SoftmaxResult
    wanted = "the arguments scores, targets and temperature of softmax_metric"
    required = "scores targets temperature"

    def __init__(self, arguments: Mapping[str, Any], result: SoftmaxResult) -> None:
        super().__init__(arguments, result)
        scores = arguments["scores"]
        (n, m), d = scores.shape, scores.queries.shape[1]
        if result.values.shape != (n, m) or result.dual.shape != (n, m):
            raise ValueError(f"the result has scores of shape {result.values.shape}; the problem has {(n, m)}.")
        self.real = real = arithmetic(6.0 * n * m * d + 60.0 * d**3)
        self.Q, self.D = scores.queries.astype(real), scores.documents.astype(real)
        self.h, self.c = (np.broadcast_to(np.asarray(x, dtype=real), (n, m)) for x in (scores.share, scores.constant))
        y = np.asarray(arguments["targets"], dtype=real)
        self.y = y / y.sum(axis=1, keepdims=True)  # their sums are 1 up to rounding
        self.heat, self.one = real(arguments["temperature"]), np.ones(d, dtype=real)
        self.gamma = np.broadcast_to(np.asarray(arguments.get("weights", 1.0), dtype=real), (n,))
        self.divergence = DIVERGENCES.resolve(arguments.get("divergence", "frobenius"))
        allowed = arguments.get("allowed")
        self.allowed = np.ones((n, m), dtype=bool) if allowed is None else np.asarray(allowed)

    def scores(self, W: np.ndarray, of: Any = np.asarray) -> np.ndarray:
        """``q' W d - h (q' W q + d' W d)``, shape (n, m); with ``of=np.abs``, of absolute values with the sign + between them."""
        Q, D, h = of(self.Q), of(self.D), self.h if of is not np.abs else -np.abs(self.h)
        QW, DW = Q @ W, D @ W
        own = (QW * Q).sum(axis=1)[:, None] + (DW * D).sum(axis=1)
        return np.asarray(QW @ D.T - h * own)

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

    def bound(self, mu: np.ndarray) -> Any:
        """The bound of ``mu = gamma (y - P)`` for the distributions P nearest to the claimed ones."""
        P = self.y - mu / self.gamma[:, None]
        sums = np.abs(P.sum(axis=1) - 1)
        if max(-P.min(initial=0), np.abs(P[~self.allowed]).max(initial=0), sums.max(initial=0)) > HALF_DIGITS:
            self.report.problem("the dual weights hold no distributions over the groups", Status.FEASIBLE)
        # the change of P is computed by itself: beside the sums of P, which are 1, small multipliers would lose their digits
        raised = np.where(self.allowed, np.maximum(P, 0), 0) - P
        excess = (raised - mu / self.gamma[:, None]).sum(axis=1, keepdims=True)
        change = (raised - P * excess) / (1 + excess)
        P, mu = P + change, mu - self.gamma[:, None] * change
        entropy = self.heat * (self.gamma @ np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0).sum(axis=1))
        gain, _, _ = least_of_lagrangian(self.divergence, self.one, -self.adjoint(mu))
        return gain - (mu * self.c).sum() - entropy

    def check_claims(self) -> bool:
        """There are no hard constraints, no slack weights, and no unit of the matrix."""
        if self.result.coordinates.scale != 1.0:
            self.report.problem(f"the matrix is multiplied by {self.result.coordinates.scale:g}")
        if self.result.singular is not None:
            self.report.problem("there are no constraints here, and singular names some")
        for name, value in (("violation", np.zeros(0)), ("max_violation", 0.0), ("weight_span", 1.0)):
            self.report.compare(name, value, 0.0)
        return True

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare the matrix, the scores, and the figures; there are no hard constraints."""
        W, span, d = self.result.iterate.matrix().astype(self.real), self.result.coordinates.span, len(self.one)
        if len(W) != d and span is not None:  # the problem was solved in the span of its rows
            V = np.asarray(span.basis, dtype=self.real)
            W = np.eye(d, dtype=self.real) + V @ (W - np.eye(len(W), dtype=self.real)) @ V.T
        least, largest = eigenvalues(W)[[0, -1]]
        if not least >= -64 * EPS * d * max(float(largest), 1.0):
            self.refuse("the matrix is not positive semidefinite")
        v = self.scores(W) + self.c
        sizes = self.scores(np.abs(W), np.abs) + np.abs(self.c)
        noise = 64 * EPS * d * sizes.astype(float)
        self.report.compare("values", v, noise + HALF_DIGITS)
        objective = float(distance(self.divergence, W, self.one) + self.loss(v))
        bound = float(self.bound(self.result.dual.astype(self.real)))
        entropy = float(self.heat * (self.gamma @ np.log(self.allowed.sum(axis=1).astype(self.real))))
        unit = max(abs(objective), 1e-3 * entropy or 1.0)
        allowed = float(self.gamma @ noise.max(axis=1)) + 64 * EPS * d * float(np.abs(W).sum()) + HALF_DIGITS * unit
        self.report.conclude((objective, bound, unit), allowed, is_feasible)
