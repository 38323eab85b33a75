"""The softmax loss over groups of scores as a problem with its own proof.

Group i is a query with the scores ``v_i1 .. v_im`` of its documents, linear in W, and a distribution ``y_i`` over its right answers:

    minimize over W >= 0:   D(W, I)  +  sum_i gamma_i [ log(sum_j exp(s v_ij)) / s  -  sum_j y_ij v_ij ]

A right answer among m - 1 wrong ones costs ``gamma / s log(1 + sum_k exp(-s p_k))``, where p_k is how far it is ahead of wrong answer k.
Several right answers cost the mean of ``-log softmax``, weighted by y, which is convex; the log of the mean is not.

For any distributions P_i over the groups, ``mu_ij = gamma_i (y_ij - P_ij)`` gives a lower bound. The conjugate of the loss is an entropy:

    g(P) = phi*(T0) - phi*(T0 + A* mu) - <mu, c> - sum_ij gamma_i P_ij log(P_ij) / s,    T0 = phi'(I)

The softmax of the current scores is such a P, so that a certificate needs no restoration. At the optimum ``phi'(W) = T0 + A* mu``; for the
Frobenius divergence ``W = (I + A* mu)_+``. If ``T0 + A* mu`` is outside of the domain of phi*, as it can be with LogDet far from the
optimum, P is moved towards y, and mu towards 0 with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from bregmat.applications.softmax.scores import PairScores
from bregmat.base.linalg import add_diagonal, eigh, sq_norms
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS
from bregmat.certificates.problem import MODEST, MatrixCertificate
from bregmat.coordinates.priors import Spectral
from bregmat.engine.loop import State
from bregmat.engine.problem import Problem
from bregmat.objective.divergences import Frobenius
from bregmat.objective.spectral import SpectralDivergence

SHORTER = 0.9  # factor on the multipliers while they are outside of the domain
LOOSEST = 0.1  # largest residual of a Newton system, relative to its right-hand side (Eisenstat and Walker 1996)
SIZE = 1e-3  # smallest unit of the gap, as a share of the loss of equal scores


@dataclass(frozen=True, eq=False)
class ScoredMatrix(State):
    """A matrix with its scores and its objective; the bound that their softmax proves is computed when it is first asked for.

    Attributes
    ----------
    problem : SoftmaxGroups
    iterate : Spectral
        W, by its eigenvalues and eigenvectors.
    W : ndarray, shape (d, d)
    values : ndarray, shape (n, m)
        Scores at W.
    softmax : ndarray, shape (n, m)
        Distribution P_i over the documents of each query.
    objective : float
    rounding : float
        Largest rounding error of the objective.
    alpha : float
        Length of the gradient step of the next Newton system.
    """

    problem: SoftmaxGroups
    iterate: Spectral
    W: np.ndarray
    values: np.ndarray
    softmax: np.ndarray
    objective: float
    rounding: float
    alpha: float = 1.0
    stalled: bool = False

    @cached_property
    def bound(self) -> Bound:
        """The bound that the softmax proves."""
        return self.problem.dual_bound(self.softmax)

    @property
    def signal(self) -> float:  # type: ignore[override]
        """The absolute gap."""
        return self.objective - self.bound.value

    @property
    def gap(self) -> float:
        """The relative gap."""
        return max(self.objective - self.bound.value, 0.0) / max(self.problem.natural_size, abs(self.objective))

    def residual_goal(self, right: np.ndarray) -> float:
        """The residual to which a Newton system with this right-hand side is solved: the smaller, the smaller the gap."""
        return min(LOOSEST, np.sqrt(self.gap)) * float(np.linalg.norm(right))


class Bound(NamedTuple):
    """A lower bound less its rounding, its multipliers mu (n, m), and the eigenvalues (d,) and eigenvectors (d, d) of ``T0 + A* mu``."""

    value: float
    mu: np.ndarray
    t: np.ndarray
    V: np.ndarray


def softmax_loss(
    V: np.ndarray, targets: np.ndarray, weights: np.ndarray, temperature: float, allowed: np.ndarray | None
) -> tuple[float, np.ndarray, float]:
    """The loss of scores V (n, m), their softmax (n, m), and the sum of the sizes of the terms of the loss.

    Parameters
    ----------
    V : ndarray, shape (n, m)
    targets, weights, temperature, allowed
        As in :class:`SoftmaxGroups`.
    """
    inside = V if allowed is None else np.where(allowed, V, -np.inf)
    top = inside.max(axis=1, keepdims=True)
    P = np.exp((inside - top) / temperature)
    total = P.sum(axis=1, keepdims=True)
    P /= total
    # differences from the largest score: the loss of a well-separated group keeps its digits
    behind = (targets * (top - V)).sum(axis=1)
    loss = float(weights @ (temperature * np.log(total[:, 0]) + behind))
    return loss, P, float(weights @ (np.abs(top[:, 0]) + (targets * np.abs(V)).sum(axis=1)))


@dataclass(frozen=True, eq=False)
class SoftmaxGroups(Problem):
    """The softmax loss over groups of scores, with the identity as prior.

    Parameters
    ----------
    scores : PairScores
    targets : ndarray, shape (n, m)
        Distribution y_i over the right answers of each query: nonnegative, rows of sum 1.
    weights : ndarray, shape (n,)
        Weight gamma_i of each query; positive.
    temperature : float
        ``1 / s``, in units of the scores; positive.
    allowed : ndarray of bool, shape (n, m), or None
        Which documents are in the group of a query; None for all. Right answers must be allowed.
    divergence : SpectralDivergence
    """

    scores: PairScores
    targets: np.ndarray
    weights: np.ndarray
    temperature: float
    allowed: np.ndarray | None = None
    divergence: SpectralDivergence = field(default_factory=Frobenius)
    is_always_feasible: bool = field(init=False, default=True)

    @cached_property
    def natural_size(self) -> float:
        """The smallest unit of the gap: a thousandth of the loss of equal scores, ``sum_i gamma_i / s log(m_i)``."""
        n, m = self.scores.shape
        counts = np.full(n, m) if self.allowed is None else self.allowed.sum(axis=1)
        return SIZE * self.temperature * float(self.weights @ np.log(counts)) or 1.0

    def loss(self, V: np.ndarray) -> tuple[float, np.ndarray, float]:
        """The loss of scores V (n, m), their softmax (n, m), and the sum of the sizes of the terms of the loss."""
        return softmax_loss(V, self.targets, self.weights, self.temperature, self.allowed)

    def multipliers(self, P: np.ndarray) -> np.ndarray:
        """``mu = gamma (y - P)``, minus the gradient of the loss in the scores; shape (n, m)."""
        return self.weights[:, None] * (self.targets - P)

    def curvature(self, scores: PairScores, P: np.ndarray, X: np.ndarray) -> np.ndarray:
        """The second derivative of the loss in W along X: the covariance of the scores under P, ``gamma s (P v - P <P, v>)``.

        ``scores`` are those of the problem in the basis of X, and all arrays have the precision of X.
        """
        Pv = P * scores.linear(X)
        Pv -= P * Pv.sum(axis=1, keepdims=True)
        return scores.adjoint(Pv * (self.weights / self.temperature).astype(X.dtype)[:, None])

    @cached_property
    def t0(self) -> np.ndarray:
        """Mirror coordinates (d,) of the prior."""
        return self.divergence.link(np.ones(self.scores.queries.shape[1]))

    def projected(self, X: np.ndarray) -> ScoredMatrix:
        """The nearest positive semidefinite matrix to a symmetric X, with its scores and its objective; for the Frobenius divergence."""
        t, F = eigh(X)
        return self.point(Spectral(self.divergence, self.t0, t, F))

    def point(self, iterate: Spectral) -> ScoredMatrix:
        """A matrix with its scores and its objective."""
        W = iterate.matrix()
        values = self.scores.linear(W) + self.scores.constant
        loss, P, sizes = self.loss(values)
        rounding = self._share * (sizes + iterate.sizes()[1])
        return ScoredMatrix(self, iterate, W, values, P, max(iterate.value(), 0.0) + loss, rounding)

    def dual_bound(self, P: np.ndarray) -> Bound:
        """The bound ``g(P)`` of distributions P (n, m), moved towards y until ``T0 + A* mu`` is in the domain of phi*."""
        mu, D, t0 = self.multipliers(P), self.divergence, self.t0
        A = -self.scores.adjoint(mu)
        t, V = eigh(add_diagonal(-A, t0))
        while True:
            # the entries of A are wrong by a few roundings of their terms, and the eigenvalues of T0 - A also by some of its norm
            in_terms = self._share * float(np.abs(mu).sum()) * self._longest
            in_eigenvalues = self._share * float(np.linalg.norm(t))
            wrong = in_terms + in_eigenvalues
            if D.in_domain(t + wrong):
                break
            # T0 is a multiple of the identity: the eigenvalues move in proportion to A
            P = SHORTER * P + (1.0 - SHORTER) * self.targets
            mu, A, t = SHORTER * mu, SHORTER * A, t0 + SHORTER * (t - t0)
        gain, size = D.dual_gain(t0, A, t)
        entropy = self.temperature * float(self.weights @ xlogy(P, P).sum(axis=1))
        shift = mu * self.scores.constant
        slope = D.inverse_link(t + wrong)  # the derivative of phi*
        # with the Frobenius divergence and a small A, the gain is computed from A and from the negative eigenvalues
        used = np.minimum(t, 0.0) if D.takes_indefinite and np.linalg.norm(A) <= np.linalg.norm(t0) else slope
        rounding = in_terms * float(np.linalg.norm(slope)) + in_eigenvalues * float(np.linalg.norm(used))
        rounding += MODEST * EPS * (size + float(np.abs(shift).sum()) + abs(entropy))
        return Bound(float(gain - shift.sum() - entropy - rounding), mu, t, V)

    @property
    def _share(self) -> float:
        """Largest rounding error of a product or of an eigenvalue, relative to the size of its terms."""
        return (MODEST + np.sqrt(self.scores.queries.shape[1])) * EPS

    @property
    def largest_curvature(self) -> float:
        """A bound of the second derivative of the loss along a matrix of norm 1: ``sum_i gamma_i s max_j |C_ij|^2``."""
        return float(self.weights.sum()) / self.temperature * self._longest**2

    @cached_property
    def _longest(self) -> float:
        """A bound of the norms of the matrices of the scores."""
        longest = max(float(sq_norms(X).max(initial=0.0)) for X in (self.scores.queries, self.scores.documents))
        return longest * (1.0 + 2.0 * float(np.abs(self.scores.share).max(initial=0.0)))

    def certify(self, state: ScoredMatrix) -> MatrixCertificate:
        """The certificate of the point of a state; every matrix is feasible, and P is dual feasible."""
        return MatrixCertificate(
            iterate=state.iterate,
            values=state.values,
            dual=state.bound.mu,
            objective=state.objective,
            upper=state.objective + state.rounding,
            dual_bound=state.bound.value,
            size=self.natural_size,
        )

    def is_due(self, state: Any, tol: float) -> bool:
        """Every step is certified: the solver needs the bound anyway."""
        return True
