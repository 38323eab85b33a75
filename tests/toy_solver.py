"""A solver of one's own, as a user would write it: mirror descent, which halves its step until the objective falls."""

from dataclasses import dataclass

import numpy as np

from bregmat import register
from bregmat.coordinates.priors import iterate_at_prior
from bregmat.solvers.base import MatrixState


class Point(MatrixState):
    def __init__(self, problem, iterate, length=1.0, stalled=False):
        self.iterate, self.length, self.signal, self.stalled = iterate, length, np.inf, stalled
        self.values = problem.operator.congruence(iterate.F).values_diagonal(iterate.x)
        self.dual = problem.losses.derivatives(self.values)[0]
        self.objective = iterate.value() + problem.losses.value(self.values)


@register
@dataclass(frozen=True)
class MirrorDescent:
    name, works_on, max_iter = "mirror_descent", "objective", 5000

    def check(self, problem):
        if problem.losses.has_hard or not problem.divergence.keeps_range:
            raise TypeError('mirror_descent needs soft rows and a link that is one to one. Use solver="auto".')

    def init(self, problem, tol, start):
        return Point(problem, iterate_at_prior(problem.divergence, problem.t0))

    def step(self, problem, state):
        T = state.iterate.mirror()
        direction = np.diag(problem.t0) - problem.operator.adjoint(state.dual) - T
        for length in 2.0 * state.length * 0.5 ** np.arange(60):
            moved = state.iterate.at(T + length * direction)
            if moved is not None and (new := Point(problem, moved, length)).objective < state.objective:
                new.signal = state.objective - new.objective
                return new
        return Point(problem, state.iterate, stalled=True)
