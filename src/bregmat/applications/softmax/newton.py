"""Newton's method for the softmax loss over groups, with conjugate gradients and products of matrices only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.softmax.problem import ScoredMatrix, SoftmaxGroups
from bregmat.base.linalg import add_diagonal, armijo, conjugate_gradients, eigh
from bregmat.coordinates.priors import Spectral
from bregmat.objective.divergences import Frobenius

MAX_PRODUCTS = 50  # products with the curvature in a step
# Factor of the gradient step: the largest one after a shortened Newton step, and the one after a full Newton step.
SHORTER, LONGER = 0.25, 4.0
SHORTEST_GRADIENT = 30.0  # gradient step from which on it is not shortened, over the inverse of the largest curvature
LEAST_SLOPE = 1e-100  # slope of the inverse link that counts as 0
SHORT, SHORTEST = 0.4, 1e-10  # step lengths below which alpha is reduced, and below which only rounding is left


@dataclass(frozen=True)
class SemismoothNewton:
    """Newton's method for ``R(W) = W - (W - alpha grad)_+ = 0``, with conjugate gradients.

    The gradient is ``W - T`` with ``T = I + A* mu(W)``, where mu(W) are the multipliers of the softmax of the scores at W; its derivative
    is ``1 + H``, with the curvature H of the loss. In the basis of the eigenvectors of ``W - alpha grad`` the projection onto the cone
    has the derivative ``Theta o .``, the divided differences of ``max(t, 0)``. So the Newton step E solves

        E - Theta o ((1 - alpha) E - alpha H E) = -R

    and ``E = Theta^1/2 u - R`` makes the system positive definite, for conjugate gradients:

        ((1 - (1 - alpha) Theta) / alpha + Theta^1/2 H Theta^1/2) u = Theta^1/2 (H R - (1 - alpha) / alpha R)

    ``alpha = 1`` is the step of Qi and Sun 2006 (nearest correlation matrices): it needs one eigenvalue problem less, and convergence is
    quadratic. Where the loss is strongly curved, a gradient step of that length points to other zero eigenvalues than those of
    the solution. Therefore alpha decreases after a Newton step that has to be shortened, at least to the length of Cauchy's gradient
    step, and grows after a full one. Products are in float32: a direction needs no more digits. Points and bounds are in float64.

    Cost per step: two or three eigenvalue problems of order d, and for each product with H 8 n m d + 4 (n + m) d^2 operations.
    """

    max_iter: int = 200

    name: ClassVar[str] = "semismooth_newton"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: SoftmaxGroups) -> None:
        """Every problem of this kind can be solved."""

    def init(self, problem: SoftmaxGroups, tol: float, start: Any) -> ScoredMatrix:
        """The state at a matrix (d, d), by default at the prior."""
        d = problem.scores.queries.shape[1]
        return problem.projected(np.eye(d) if start is None else np.array(start, dtype=float))

    def step(self, problem: SoftmaxGroups, at: ScoredMatrix) -> ScoredMatrix:
        """A Newton step that decreases the objective: its length is halved, and then its alpha is decreased."""
        alpha, shortest = at.alpha, SHORTEST_GRADIENT / max(problem.largest_curvature, SHORTEST_GRADIENT)
        while True:
            E, is_last = self._direction(problem, at, alpha), alpha <= shortest
            length = 1.0
            while length > (SHORTEST if is_last else SHORT):
                new = problem.projected(at.W + length * E)
                if new.objective < at.objective:
                    return replace(new, alpha=min(1.0, LONGER * alpha) if length == 1.0 else alpha)
                length /= 2.0
            if is_last:
                return replace(at, alpha=alpha, stalled=True)
            alpha = max(shortest, min(SHORTER * alpha, self._steepest(problem, at)))

    def _steepest(self, problem: SoftmaxGroups, at: ScoredMatrix) -> float:
        """The length of the gradient step that minimises the quadratic model (Cauchy's)."""
        G = add_diagonal(at.W - problem.scores.adjoint(at.bound.mu), -1.0).astype(np.float32)
        eye = np.eye(len(G), dtype=np.float32)
        along = problem.curvature(problem.scores.in_basis(eye, np.float32), at.softmax.astype(np.float32), G)
        size = float(np.vdot(G, G))
        return size / (size + max(float(np.vdot(G, along)), 0.0)) if size > 0 else 1.0

    def _direction(self, problem: SoftmaxGroups, at: ScoredMatrix, alpha: float) -> np.ndarray:
        """The solution E (d, d) of the Newton system, to the accuracy that the gap asks for."""
        _, _, t, V = at.bound
        if alpha < 1.0:
            t, V = eigh((1.0 - alpha) * at.W + alpha * (V * t) @ V.T)
        theta = Frobenius().divided(t)
        scores, P = problem.scores.in_basis(V, np.float32), at.softmax.astype(np.float32)
        R = V.T @ at.W @ V
        R.flat[:: len(t) + 1] -= np.maximum(t, 0.0)
        root, diagonal, r = (x.astype(np.float32) for x in (np.sqrt(theta), (1.0 - (1.0 - alpha) * theta) / alpha, R))

        def product(u: np.ndarray) -> np.ndarray:
            return diagonal * u + root * problem.curvature(scores, P, root * u)

        right = root * (problem.curvature(scores, P, r) - np.float32((1.0 - alpha) / alpha) * r)
        u = conjugate_gradients(
            product,
            right,
            goal=at.residual_goal(right),
            max_iter=MAX_PRODUCTS,
            is_euclidean=True,
            precondition=lambda v: v / diagonal,
        ).x
        return V @ (root * u - R) @ V.T


@dataclass(frozen=True)
class MirrorSteps:
    """Newton's method in mirror coordinates, for divergences with a smooth conjugate, such as LogDet and von Neumann.

    With ``R = phi'(W) - T0 - A* mu(W)`` and the square roots S of the divided differences of the inverse link, in the basis of the
    eigenvectors of W, the step E solves ``E + S o H(S o E) = -S o R``, and phi'(W) moves by ``E / S`` (Armijo's rule).
    """

    max_iter: int = 200

    name: ClassVar[str] = "mirror_newton"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: SoftmaxGroups) -> None:
        """Every problem of this kind can be solved."""

    def init(self, problem: SoftmaxGroups, tol: float, start: Any) -> ScoredMatrix:
        """The state at a positive definite matrix (d, d), by default at the prior."""
        prior = Spectral(problem.divergence, problem.t0, problem.t0, np.eye(len(problem.t0)))
        iterate = None
        if start is not None:
            x, U = eigh(np.asarray(start, dtype=float))
            iterate = prior.with_factor(U * np.sqrt(np.maximum(x, 0.0)))
        return problem.point(prior if iterate is None else iterate)

    def step(self, problem: SoftmaxGroups, at: ScoredMatrix) -> ScoredMatrix:
        """A Newton step that decreases the objective."""
        scores, S = problem.scores.in_basis(at.iterate.F), at.iterate.S
        R = at.iterate.residual(-scores.adjoint(problem.multipliers(at.softmax)))
        B = -S * R

        def curvature(X: np.ndarray) -> np.ndarray:
            return problem.curvature(scores, at.softmax, X)

        E = conjugate_gradients(
            lambda E: E + S * curvature(S * E), B, goal=at.residual_goal(B), max_iter=MAX_PRODUCTS, is_euclidean=True
        ).x
        tiny = S < LEAST_SLOPE
        dT = np.where(tiny, -R - curvature(S * E), E / np.where(tiny, 1.0, S))

        def trial(alpha: float) -> tuple[ScoredMatrix, float] | None:
            iterate = at.iterate.moved(E, dT, alpha)
            if iterate is None:
                return None
            point = problem.point(iterate)
            return point, point.objective

        accepted = armijo(trial, at.objective, float(np.vdot(R, S * E)), rounding=at.rounding)
        if accepted is None or not accepted[0].objective < at.objective:
            return replace(at, stalled=True)
        return accepted[0]
