"""The task of a fit: draw constraints from labels and solve their problem, several times if neighbours are compared."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.checks import generator
from bregmat.base.sampling import NothingToCompare
from bregmat.base.threads import cached_property, take_interrupt
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.base import callback_of
from bregmat.from_labels.labels import random_pairs
from bregmat.from_labels.neighbors import Drawing, Space, neighbor_constraints
from bregmat.run.result import ExitReason, MatrixResult, Record, Status

ACTIVE = 1e-9  # multiplier, relative to the largest, above which a row is active
MANY_POINTS = 5000  # above, all passes but the last use a sample of the points
SAMPLED_POINTS = 2500
SAMPLED_PER_CLASS = 25  # least mean number of sampled points per class: with fewer, neighbours would be other points
SAMPLE_TOL = 1e-3  # relative gap of a pass over a sample
SAME = 1e-3  # smaller relative changes of bounds are ignored: with the default tol, the error of the metric is larger


class TrainingProblem(ABC):
    """Training points and their prior: distances before and after learning, and the problem that is solved."""

    @abstractmethod
    def space(self, result: MatrixResult | None) -> Space:
        """Distances before learning (None), or as learned."""

    @abstractmethod
    def pairs(self, task: Task) -> Constraints:
        """Random pairs, as :func:`bregmat.constraints_from_labels` draws them."""

    @abstractmethod
    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        """The result of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric` with these settings."""

    def sampled(self, rows: np.ndarray) -> TrainingProblem | None:
        """The problem of some points, whose results also map the other points; None if there is no such problem."""
        return None

    def neighbors(self, result: MatrixResult | None, *drawing: Any, **options: Any) -> Constraints:
        """Comparisons of neighbours, as :func:`bregmat.from_labels.neighbors.neighbor_constraints` draws them."""
        return neighbor_constraints(self.space(result), *drawing, **options)

    def sq_distance(self, i: int, j: int) -> float:
        """Squared distance of two points before learning."""
        return float(self.space(None).sq_distances_to(np.array([j]))(np.array([i]))[0, 0])


@dataclass(frozen=True, eq=False)
class Task:
    """Checked input of a fit, and the learner with its parameters.

    Attributes
    ----------
    learner : ConstraintLearner
    X : ndarray, scipy.sparse or PointsInBlocks, shape (n, d)
    given : Constraints or None
        Constraints of the caller in row numbers of X, with the weights of their points.
    kinds : Kinds, BlockLabels or None
        Labels; None if there are none or if they are ignored.
    previous : MatrixResult or None
        Result of the fit before, for a warm start.
    weight : ndarray, shape (n,), or None
        Weights of the points, positive, with mean 1.
    space : ArraySpace or None
        Library and device of X if it was not NumPy.
    names : ndarray, shape (n,), or None
        Names of the points; None if they are row numbers.
    """

    learner: Any
    X: Any
    given: Constraints | None
    kinds: Any
    previous: MatrixResult | None = None
    weight: np.ndarray | None = None
    space: ArraySpace | None = None
    names: np.ndarray | None = None

    def learn(self, problem: TrainingProblem, after: MatrixResult | None = None) -> tuple[MatrixResult, Constraints]:
        """The result and its rows in row numbers: rows drawn from labels, then given ones.

        ``after`` is an earlier result of the same task with another prior. Its passes are counted and stay in the history.
        """
        strategy = self.learner.strategy_
        if self.kinds is None:
            if self.given is None:
                raise ValueError(self._nothing_left())
            rows = self.given
        elif strategy == "neighbors":
            return _Passes(self, problem, after).learn()
        elif strategy is None:  # the result is the prior if there is one constraint that the prior satisfies
            bound = 2.0 * max(0.0, problem.sq_distance(0, 1)) or 1.0
            rows = self.with_given(Constraints.sq_distance([0], [1], bound, "<="))
            return self.solve(problem, rows, None, loss=None), rows
        else:
            try:
                rows = self.with_given(problem.pairs(self))
            except NothingToCompare as nothing:
                rows = self.without_labels(nothing)
        return self.solve(problem, rows, self.previous), rows

    def random_pairs(self, points: Any, **options: Any) -> Constraints:
        """Random pairs of points, drawn with the parameters of the learner."""
        learner = self.learner
        rng, is_balanced = generator(learner.random_state), learner.strategy_ == "random"
        given = {"rng": rng, "percentiles": learner.percentiles, "is_balanced": is_balanced} | options
        return random_pairs(points, self.kinds, learner.n_constraints, **given)

    def with_given(self, drawn: Constraints) -> Constraints:
        """Rows that were drawn, then the given ones."""
        if self.weight is not None:
            drawn = weighted(drawn, self.weight, is_drawn=True)
        return drawn if self.given is None else drawn + self.given

    def without_labels(self, nothing: NothingToCompare) -> Constraints:
        """The given rows, or one that every metric meets, if no constraint can be drawn from the labels."""
        kept = "Only the constraints given are learned from." if self.given is not None else "The prior is kept."
        warnings.warn(f"{nothing} {kept}", UserWarning, stacklevel=2)
        return Constraints.sq_distance(*nothing.pair, 1.0, "<=") if self.given is None else self.given

    def solve(
        self, problem: TrainingProblem, rows: Constraints, start: MatrixResult | None, **settings: Any
    ) -> MatrixResult:
        """The result for some rows with the parameters of the learner, or with other settings; a ``stage`` is stored in every record."""
        learner, stage = self.learner, settings.pop("stage", None)
        told = callback_of(learner)
        given = {name: getattr(learner, name) for name in ("divergence", "loss", "solver", "tol", "max_iter")}
        given["slack_weight"] = learner.slack_weight_
        given["callback"] = told if told is None or stage is None else lambda row: told(replace(row, stage=stage))
        if start is not None and len(start.dual) != rows.n_constraints:
            start = None
        return problem.solve(rows, warm_start=start, **given | settings)

    def _nothing_left(self) -> str:
        """The message of the error if there is neither a constraint nor a label."""
        n_dropped = self.learner.n_dropped_constraints_
        if n_dropped:
            return f"no constraint is left: {n_dropped} name a sample that is not in sample_id, and no labels are used."
        return "no constraint is left: n_constraints=0 ignores y, and constraints is None."


def weighted(rows: Constraints, weight: np.ndarray, is_drawn: bool = False) -> Constraints:
    """Rows whose weights are multiplied by those of their points; drawn rows keep the sum of their weights."""
    factor = rows.factors(weight)
    product = rows.weight * (factor / factor.mean() if is_drawn else factor)
    return replace(rows, weight=np.maximum(product, np.finfo(float).tiny))


# ---------------------------------------------------------------------- passes
class _Passes:
    """Constraints between neighbours, drawn and solved several times, each time in the metric learned before.

    Passes end when the active rows no longer change, or when an earlier problem is repeated: since a pass depends on the metric of
    the last pass only, all passes after the earlier one would be repeated, too. If there are many points, all passes but the last use
    a sample.

    All passes have the median margin of the first pass. Comparisons do not determine the scale of the metric. With
    changing margins the scale would drift, and with it the influence of the prior.
    """

    def __init__(self, task: Task, problem: TrainingProblem, after: MatrixResult | None) -> None:
        learner = task.learner
        self.task, self.problem, self.after = task, problem, after
        self.seed = int(
            generator(learner.random_state).integers(2**63)
        )  # if points are drawn, every pass draws the same
        self.drawing = Drawing(learner.n_neighbors, learner.n_impostors, learner.form, learner.n_constraints)
        self.typical: float | None = None
        self.last: _Pass | None = None
        self.history: list[Record] = [] if after is None else list(after.history)
        self.seconds = 0.0 if after is None else after.seconds
        self.stage = self.history[-1].stage or 0 if self.history else 0

    def learn(self) -> tuple[MatrixResult, Constraints]:
        """The result of the last pass with the history of all passes, and its rows."""
        n_passes = self.task.learner.passes
        sample = self._sample() if n_passes > 1 and self.task.X.shape[0] > MANY_POINTS else None
        try:
            if sample is not None:
                self._run(n_passes - 1, *sample)
                n_passes = 1
            if self.last is None or self.last.result.exit_reason is not ExitReason.INTERRUPTED:
                self._run(n_passes, self.problem, self.task.kinds)
        except KeyboardInterrupt:  # between two passes, or before the first iterate of this one
            if self.last is None:
                raise
            take_interrupt()
            self.last = replace(self.last, result=replace(self.last.result, exit_reason=ExitReason.INTERRUPTED))
        assert self.last is not None
        n_iter = self.history[-1].iteration
        return replace(self.last.result, history=self.history, n_iter=n_iter, seconds=self.seconds), self.last.rows

    def _sample(self) -> tuple[TrainingProblem, Any, np.ndarray] | None:
        """A sample of the points: its problem, its kinds and its row numbers; None if all points are needed."""
        task = self.task
        if not (task.given is None and task.weight is None and task.previous is None):
            return None
        rows = np.sort(generator(self.seed).choice(task.X.shape[0], SAMPLED_POINTS, replace=False))
        problem = self.problem.sampled(rows)
        if problem is None:
            return None
        kinds = task.kinds.of_rows(rows)
        return (problem, kinds, rows) if len(kinds.labelled) >= SAMPLED_PER_CLASS * len(kinds.relation) else None

    def _run(self, n_passes: int, problem: TrainingProblem, kinds: Any, sample: np.ndarray | None = None) -> None:
        """Up to ``n_passes`` passes over all points, or over a sample of them."""
        earlier: list[_Pass] = []
        for left in range(n_passes - 1, -1, -1):
            self.stage += 1
            before = earlier[-1] if earlier else None
            found = self._pass(problem, kinds, sample, before)
            if found is None:
                return
            self.last, result = found, found.result
            n_iter, seconds = self.history[-1].iteration if self.history else 0, self.seconds
            self.history += [
                replace(row, iteration=n_iter + row.iteration, seconds=seconds + row.seconds, stage=self.stage)
                for row in result.history
            ]
            self.seconds += result.seconds
            if before is not None and np.array_equal(found.active[0], before.active[0]):
                return
            if result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
                return
            if [one for one in earlier if left and found.repeats(one)]:
                if result.status is Status.OPTIMAL:
                    self.last = replace(found, result=replace(result, exit_reason=ExitReason.CYCLE))
                return
            earlier.append(found)

    def _pass(self, problem: TrainingProblem, kinds: Any, sample: Any, before: _Pass | None) -> _Pass | None:
        """Rows drawn in the last metric, and their result; None if the rows are those of the pass before over the same points."""
        task, learner = self.task, self.task.learner
        metric = None if self.last is None else self.last.result
        is_first = before is None and self.after is None and sample is None
        try:
            options = {"is_first": is_first, "typical": self.typical}
            drawn = problem.neighbors(metric, kinds, self.drawing, generator(self.seed), **options)
            if self.typical is None:
                self.typical = float(np.median(np.abs(drawn.bound[drawn.sense > 0])))
            rows = task.with_given(drawn)
        except NothingToCompare as nothing:
            if metric is not None:  # the learned metric maps points of different classes to one point
                return None
            rows = task.without_labels(nothing)
        # one number for the points and the sense of a row: unique up to 2 million points, and nearly always beyond
        n, index = task.X.shape[0] + 1, rows.index.astype(np.int64) + 1
        i, j, l = [index[:, m] if m < index.shape[1] else 0 for m in (0, 1, 3)]
        keys = ((i * n + j) * n + l) * 4 + rows.sense
        start = task.previous if self.after is None else None
        if before is not None:
            if np.array_equal(keys, before.keys):
                return None
            start = replace(before.result, dual=before.carried_to(keys))
        settings: dict[str, Any] = {"stage": self.stage}
        if learner.loss is None:
            settings["loss"] = "squared_hinge"
        if sample is not None:
            weight = learner.usual_slack_weight(len(sample))
            settings |= {"slack_weight": weight, "tol": max(learner.tol, SAMPLE_TOL)}
        result = task.solve(problem, rows, start, **settings)
        if sample is not None:
            rows = replace(rows, index=rows.renumbered(sample.__getitem__))
        return _Pass(result, rows, keys)


@dataclass(frozen=True, eq=False)
class _Pass:
    """One problem of several: its result, its rows and their keys."""

    result: MatrixResult
    rows: Constraints
    keys: np.ndarray

    @cached_property
    def active(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and bounds of the active rows, those with a multiplier: without the other rows the optimum is the same."""
        size = np.abs(self.result.dual)
        is_active = size > ACTIVE * size.max(initial=0.0)
        keys, first = np.unique(self.keys[is_active], return_index=True)
        return keys, self.rows.bound[is_active][first]

    def repeats(self, other: _Pass) -> bool:
        """Whether the active rows are those of another pass, and their bounds agree within the tolerance of the metric."""
        (keys, bounds), (other_keys, other_bounds) = self.active, other.active
        if not np.array_equal(keys, other_keys):
            return False
        change = np.abs(bounds - other_bounds).max(initial=0.0)
        return bool(change <= SAME * np.abs(other_bounds).max(initial=0.0))

    def carried_to(self, keys: np.ndarray) -> np.ndarray:
        """Multipliers for other rows: 0 for new ones."""
        order = np.argsort(self.keys, kind="stable")
        place = np.minimum(np.searchsorted(self.keys, keys, sorter=order), len(order) - 1)
        found = order[place]
        return np.where(self.keys[found] == keys, self.result.dual[found], 0.0)
