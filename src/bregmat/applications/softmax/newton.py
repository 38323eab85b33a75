"""Semismooth Newton for the softmax loss over groups, with conjugate gradients and products of matrices only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.softmax.problem import Point, SoftmaxGroups
from bregmat.base.linalg import conjugate_gradients
from bregmat.objective.divergences import Frobenius
from bregmat.run.loop import State

LOOSEST = 0.1  # largest residual of the linear system, relative to its right-hand side (Eisenstat and Walker 1996)
MAX_PRODUCTS = 50  # products with the curvature in a step
SHORTEST_STEP = 1e-9  # step length at which the objective does not decrease by more than rounding


@dataclass(eq=False)
class NewtonState(State):
    """A point with its bound."""

    point: Point
    stalled: bool = False

    @property
    def objective(self) -> float:  # type: ignore[override]
        """The primal value."""
        return self.point.objective

    @property
    def signal(self) -> float:  # type: ignore[override]
        """The absolute gap."""
        return self.point.objective - self.point.dual_bound


@dataclass(frozen=True)
class SemismoothNewton:
    """Newton's method for ``R(W) = W - (I + A* mu(W))_+ = 0``, where mu(W) are the multipliers of the softmax of the scores at W.

    With ``T = I + A* mu = V diag(t) V'``, the projection has the derivative ``Theta o .`` in the basis V, and ``A* mu`` the derivative
    ``-H``, the curvature of the loss. The step E solves ``(1 + Theta H) E = -R``:

        E = -R + Theta^1/2 u,    (1 + Theta^1/2 H Theta^1/2) u = Theta^1/2 H R

    which is positive definite, so that conjugate gradients solve it (Qi and Sun 2006, for nearest correlation matrices). Products are in
    float32: the direction needs no more digits, while points and bounds are in float64. Convergence is quadratic.

    Cost per step: two eigenvalue problems of order d, and for each product with H about 8 n m d + 4 (n + m) d^2 operations.
    """

    max_iter: int = 100

    name: ClassVar[str] = "semismooth_newton"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: SoftmaxGroups) -> None:
        """Every problem of this kind can be solved."""

    def init(self, problem: SoftmaxGroups, tol: float, start: Any) -> NewtonState:
        """The state at a matrix (d, d), by default at the prior."""
        d = problem.scores.queries.shape[1]
        return NewtonState(problem.point(np.eye(d) if start is None else np.array(start, dtype=float)))

    def step(self, problem: SoftmaxGroups, state: NewtonState) -> NewtonState:
        """A Newton step, or a step towards the target ``(I + A* mu)_+`` where it does not decrease the objective."""
        at = state.point
        t, V = at.mirror
        target = (V * np.maximum(t, 0.0)) @ V.T
        E = self._direction(problem, at, target)
        length = 1.0
        while length > 1e-3:
            new = problem.point(at.W + length * E)
            if new.objective < at.objective:
                return NewtonState(new)
            length /= 2.0
        # <gradient, target - W> <= -|target - W|^2: a short step towards the target decreases the objective
        length = 0.5
        while length > SHORTEST_STEP:
            new = problem.point(at.W + length * (target - at.W))
            if new.objective < at.objective:
                return NewtonState(new)
            length /= 4.0
        return NewtonState(at, stalled=True)

    def _direction(self, problem: SoftmaxGroups, at: Point, target: np.ndarray) -> np.ndarray:
        """The solution E (d, d) of the Newton system, to the accuracy that the gap asks for."""
        t, V = at.mirror
        single = np.float32
        scores, P = problem.scores.in_basis(V, single), at.softmax.astype(single)
        R = V.T @ (at.W - target) @ V
        root = np.sqrt(Frobenius().divided(t)).astype(single)

        def curved(X: np.ndarray) -> np.ndarray:
            return root * problem.curvature(scores, P, X)

        right = curved(R.astype(single))
        gap = max(at.objective - at.dual_bound, 0.0) / max(problem.size, abs(at.objective))
        goal = min(LOOSEST, np.sqrt(gap)) * float(np.linalg.norm(right))
        found = conjugate_gradients(
            lambda u: u + curved(root * u), right, goal=goal, most=MAX_PRODUCTS, is_euclidean=True
        )
        return V @ (root * found.x - R) @ V.T

