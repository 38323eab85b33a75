"""Mirror Newton on a sample of the rows first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Iterate
from bregmat.solvers.base import MatrixState
from bregmat.solvers.continuation import Stage
from bregmat.solvers.mirror_newton import (
    MirrorNewton,
    MirrorNewtonState,
    drawn_sample,
    first_point,
    first_stage,
    point_at,
    state_at,
)

SAMPLE_STEPS = 12  # steps on a sample, at most


@dataclass(frozen=True, eq=False)
class SampledState(MatrixState):
    """An iterate for a sample of the rows, from which the solver starts on all rows.

    Values and dual weights are those of all rows, computed when a certificate needs them.
    """

    stage: Stage  # of all rows
    sample: NearestMatrix
    inner: MirrorNewtonState
    first: float  # objective of the sample at its start
    steps: int = 0
    signal: float = np.inf
    stalled: bool = False

    @property
    def iterate(self) -> Iterate:
        """The iterate of the sample."""
        return self.inner.iterate

    @property
    def objective(self) -> float:  # type: ignore[override]
        """The objective of the sample, whose rows have weights that stand for the others."""
        return self.inner.objective

    @cached_property
    def values(self) -> np.ndarray:
        """Values of all rows at the iterate."""
        return self.iterate.values(self.stage.problem.operator)

    @cached_property
    def dual(self) -> np.ndarray:
        """Derivatives of the losses of all rows."""
        return self.stage.problem.losses.derivatives(self.values)[0]

    def is_finite(self) -> bool:
        """Whether all numbers of the sample are finite."""
        return self.inner.is_finite()


@dataclass(frozen=True)
class SampledNewton(MirrorNewton):
    """Mirror Newton, which first solves a sample of many rows roughly; the default for losses and slack.

    Without a start, and from 200,000 rows and 400 per entry of the matrix on, the sample has an eighth of the rows. Three or four steps
    remain for all rows. Certificates always refer to all rows.
    """

    def init(  # type: ignore[override]
        self, problem: NearestMatrix, tol: float, start: np.ndarray | Iterate | None
    ) -> MirrorNewtonState | SampledState:
        """The first point of a sample, whose weights stand for all rows; that of all rows if there are few, or with a start."""
        drawn = None if start is not None else drawn_sample(problem.operator)
        if drawn is None:
            return super().init(problem, tol, start)
        stage, (rows, weight) = first_stage(problem), drawn
        losses = stage.problem.losses.restrict(rows)
        sample = replace(
            problem,
            operator=problem.operator.restrict(rows),
            losses=losses.weighted(losses.gamma * weight),
            unit=problem.unit[rows],
        )
        inner = state_at(sample, Stage(sample, 1.0), first_point(sample), tol)
        return SampledState(stage, sample, inner, inner.objective)

    def step(  # type: ignore[override]
        self, problem: NearestMatrix, state: MirrorNewtonState | SampledState
    ) -> MirrorNewtonState | SampledState:
        """A step on the sample; the first state of all rows if the sample is solved roughly; then steps on all rows."""
        if not isinstance(state, SampledState):
            return super().step(problem, state)
        # relative decrease of a step below which the sample is solved, and fraction of its progress that may be lost on all rows
        least_decrease, most_lost = 1e-3, 0.25
        inner = super().step(state.sample, state.inner)
        if inner.is_finite():
            last, state = state.objective, replace(state, inner=inner, steps=state.steps + 1)
            is_falling = inner.objective < (1.0 - least_decrease) * last
            if is_falling and not inner.stalled and state.steps < SAMPLE_STEPS:
                return state
        whole = state.stage.problem
        point = point_at(whole, state.iterate)
        # a point that fits the sample much better than all rows is a bad start
        is_good = point.cost - state.objective <= most_lost * (state.first - state.objective)
        if not is_good or len(whole.losses.outside(point.values)):
            point = first_point(whole)
        return state_at(problem, state.stage, point, inner.tol)
