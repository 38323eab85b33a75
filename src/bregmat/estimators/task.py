"""What a fit of MetricLearner or KernelLearner works on: checked input (:class:`Task`), and the problem that is posed from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.checks import generator
from bregmat.base.sampling import PERCENTILES, NothingToCompare
from bregmat.base.threads import take_interrupt, warn_caller
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.engine.status import ExitReason
from bregmat.estimators.base import callback_of
from bregmat.estimators.given import weighted
from bregmat.estimators.passes import Passes
from bregmat.estimators.selection import Candidate, growth
from bregmat.from_labels.labels import random_pairs
from bregmat.from_labels.neighbors import Space


class TrainingProblem(ABC):
    """Training points and their prior: distances before and after learning, and the problem that is solved."""

    @abstractmethod
    def space(self, result: MatrixResult | None, among: Any) -> Space:
        """Distances to some points (row numbers) before learning (None), or as learned."""

    @abstractmethod
    def pairs(self, task: Task) -> Constraints:
        """Random pairs, as :func:`bregmat.constraints_from_labels` draws them."""

    @abstractmethod
    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        """The result of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric` with these settings."""

    def softmax(self, task: Task) -> MatrixResult:
        """The result of the strategy "softmax"."""
        raise NotImplementedError

    @abstractmethod
    def mapped(self, result: MatrixResult, X: Any) -> np.ndarray:
        """Points, given like the training points, in the learned map."""

    def sampled(self, rows: np.ndarray) -> TrainingProblem | None:
        """The problem of some points, whose results also map the other points; None if there is no such problem."""
        return None


@dataclass(frozen=True, eq=False)
class Task:
    """Checked input of a fit, and the learner with its parameters.

    Attributes
    ----------
    learner : ConstraintLearner
    X : ndarray, scipy.sparse or PointsInBlocks, shape (n, d)
    given : Constraints or None
        Constraints of the caller in row numbers of X, with the weights of their points.
    labels : LabelGroups, BlockLabels or None
        Labels; None if there are none or if they are ignored.
    previous : MatrixResult or None
        Result of the fit before, for a warm start.
    weight : ndarray, shape (n,), or None
        Weights of the points, positive, with mean 1.
    space : ArraySpace or None
        Library and device of X if it was not NumPy.
    names : ndarray, shape (n,), or None
        Names of the points; None if they are row numbers.
    candidate : Candidate
        Settings that may be "auto": strategy, slack weight, prior.
    """

    learner: Any
    X: Any
    given: Constraints | None
    labels: Any
    previous: MatrixResult | None = None
    weight: np.ndarray | None = None
    space: ArraySpace | None = None
    names: np.ndarray | None = None
    candidate: Candidate = field(default_factory=lambda: Candidate("neighbors"))

    def slack_weight(self, labels: Any = None) -> float:
        """The slack weight for the labels of a part of the points, by default of all points."""
        asked, labels = self.learner.slack_weight, self.labels if labels is None else labels
        is_growing = isinstance(asked, str) and labels is not None
        return self.candidate.slack_weight * (growth(labels, self.candidate.strategy) if is_growing else 1.0)

    def learn(
        self, problem: TrainingProblem, after: MatrixResult | None = None
    ) -> tuple[MatrixResult, Constraints | None]:
        """The result and its rows in row numbers: rows drawn from labels, then given ones; no rows with "softmax".

        ``after`` is an earlier result of the same task with another prior. Its passes are counted and stay in the history.
        """
        learner, n_passes = self.learner, self.candidate.passes
        settings = {name: getattr(learner, name) for name in ("loss", "solver", "tol", "max_iter")}
        settings |= {"slack_weight": self.slack_weight(), "divergence": learner._divergence}
        if self.candidate.strategy == "softmax" and self.labels is not None:
            return problem.softmax(self), None
        if self.labels is None or self.candidate.strategy != "neighbors":
            return self._learn_once(problem, settings)
        # if points are drawn, every pass draws the same
        passes = Passes(self, settings, after, seed=int(generator(learner.random_state).integers(2**63)))
        if after is not None:
            passes.history, passes.seconds, passes.stage = list(after.history), after.seconds, after.history[-1].stage
        sample = passes.sample(problem) if n_passes > 1 else None
        try:
            if sample is not None:
                passes.run(n_passes - 1, *sample)
                n_passes = 1
            if passes.last is None or passes.last.result.exit_reason is not ExitReason.INTERRUPTED:
                passes.run(n_passes, problem, self.labels)
        except KeyboardInterrupt:  # between two passes, or before the first iterate of this one
            if passes.last is None:
                raise
            take_interrupt()
            passes.last = replace(passes.last, result=replace(passes.last.result, exit_reason=ExitReason.INTERRUPTED))
        last, history = passes.last, passes.history
        assert last is not None
        return replace(last.result, history=history, n_iter=history[-1].iteration, seconds=passes.seconds), last.rows

    def _learn_once(self, problem: TrainingProblem, settings: dict[str, Any]) -> tuple[MatrixResult, Constraints]:
        """The result without comparisons of neighbours: the given rows, random pairs, or the prior."""
        rows, start = self.given, self.previous
        if self.labels is None and rows is None:
            n_dropped = self.learner.n_dropped_constraints_
            why = "n_constraints=0 ignores y, and constraints is None."
            if n_dropped:
                why = f"{n_dropped} name a sample that is not in sample_id, and no labels are used."
            raise ValueError(f"no constraint is left: {why}")
        if self.labels is not None:
            try:
                if self.candidate.strategy is None:  # one constraint that the prior satisfies
                    sq_distance = float(problem.space(None, np.array([1])).sq_distances(np.array([0]))[0, 0])
                    drawn = Constraints.sq_distance([0], [1], 2.0 * max(0.0, sq_distance) or 1.0, "<=")
                    start = settings["loss"] = None
                else:
                    drawn = problem.pairs(self)
                if self.weight is not None:
                    drawn = weighted(drawn, self.weight, is_drawn=True)
                rows = drawn if rows is None else drawn + rows
            except NothingToCompare as nothing:
                rows = self.without_labels(nothing)
        assert rows is not None
        if start is not None and len(start.dual) != rows.n_constraints:
            start = None
        return problem.solve(rows, warm_start=start, callback=callback_of(self.learner), **settings), rows

    def random_pairs(self, points: Any, **options: Any) -> Constraints:
        """Random pairs of points, drawn with the parameters of the learner."""
        learner = self.learner
        how: dict[str, Any] = {"rng": generator(learner.random_state), "percentiles": PERCENTILES} | options
        return random_pairs(points, self.labels, learner.n_constraints, **how)

    def without_labels(self, nothing: NothingToCompare) -> Constraints:
        """The given rows, or one that every metric meets, if no constraint can be drawn from the labels."""
        kept = "Only the constraints given are learned from." if self.given is not None else "The prior is kept."
        warn_caller(f"{nothing} {kept}")
        return Constraints.sq_distance(*nothing.pair, 1.0, "<=") if self.given is None else self.given
