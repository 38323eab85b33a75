"""What a fit learns from: rows given and rows drawn from labels, once or pass by pass in the metric learned so far."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.sampling import NothingToCompare, generator
from bregmat.base.threads import cached_property, take_interrupt
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.base import callback_of
from bregmat.from_labels.kinds import Kinds
from bregmat.from_labels.labels import as_kinds
from bregmat.from_labels.neighbors import Space, median_margin, neighbor_constraints
from bregmat.run.result import ExitReason, MatrixResult, Record, Status

ACTIVE = 1e-9  # dual weight, relative to the largest, from which on a row takes part in the optimum
MANY_POINTS = 5000  # above, all passes but the last are over a sample
SAMPLED_POINTS = 2500
SAMPLED_PER_CLASS = 25  # at least, on average: less would change who the neighbours are
SAMPLE_TOL = 1e-3  # relative gap of a pass over a sample
SAME = 1e-3  # change of bounds, relative to the largest, that counts as none: metrics of the default tol differ by more


@dataclass(frozen=True, eq=False)
class PointLabels:
    """Labels of points in memory: classes, numbers or sets."""

    values: Any
    n_points: int
    unlabeled: Any

    @cached_property
    def kinds(self) -> Kinds:
        """Who belongs together."""
        return as_kinds(self.values, self.n_points, "neighbors", unlabeled=self.unlabeled)

    def kinds_of(self, rows: Any) -> Kinds:
        """Who belongs together among some rows."""
        return replace(self.kinds, codes=self.kinds.codes[rows])


class TrainingProblem(ABC):
    """Training points and their prior: where distances are measured before and after learning, and the problem that is solved."""

    @abstractmethod
    def space(self, result: MatrixResult | None) -> Space:
        """Distances before learning (None), or as learned."""

    @abstractmethod
    def pairs(self, labels: Any, n_constraints: int | None, **options: Any) -> Constraints:
        """Random pairs, as :func:`bregmat.constraints_from_labels` draws them."""

    @abstractmethod
    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        """The result of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric`, which takes the settings."""

    def kinds(self, labels: Any) -> Any:
        """Who belongs together, as :meth:`neighbors` takes it."""
        return labels.kinds

    def sampled(self, rows: np.ndarray) -> TrainingProblem | None:
        """The problem of some points, whose results place the others, too; None where that cannot be."""
        return None

    def neighbors(self, result: MatrixResult | None, kinds: Any, **options: Any) -> Constraints:
        """Rows between neighbours, as :func:`bregmat.from_labels.neighbors.neighbor_constraints` draws them."""
        return neighbor_constraints(self.space(result), kinds, **options)

    def sq_distance(self, i: int, j: int) -> float:
        """Squared distance of two points before learning."""
        return float(self.space(None).sq_distances_to(np.array([j]))(np.array([i]))[0, 0])


@dataclass(frozen=True, eq=False)
class Task:
    """What a fit learns from: parameters, number of points, constraints given (in row numbers), labels, an earlier result, weights."""

    learner: Any  # the estimator
    n_points: int
    given: Constraints | None
    labels: Any  # PointLabels, or those of points in blocks; None where there are none
    previous: MatrixResult | None
    weight: np.ndarray | None = None  # of points, positive, of mean 1
    space: ArraySpace | None = None  # where the points were handed in, if not in the host's memory

    def learn(self, problem: TrainingProblem, after: MatrixResult | None = None) -> tuple[MatrixResult, Constraints]:
        """The result, and its rows in row numbers: those drawn from the labels, then those given.

        ``after``: the result of the same task in another range, of neighbours; passes are counted and told on from there.
        """
        learner = self.learner
        if self.labels is None and self.given is None:
            n_dropped = learner.n_dropped_constraints_
            raise ValueError(
                f"no constraint is left: {n_dropped} name a sample that is not in sample_id, and no labels are used."
                if n_dropped
                else "no constraint is left: n_constraints=0 ignores y, and constraints is None."
            )
        strategy = learner.strategy_
        if self.labels is None:
            assert self.given is not None
            rows = self._weighed(self.given)
        elif strategy is None:
            return self._keep_prior(problem)
        elif strategy == "neighbors":
            return _Passes(self, problem, after).learn()
        else:
            options = {name: getattr(learner, name) for name in ("percentiles", "unlabeled", "random_state")}
            try:
                rows = self.with_given(problem.pairs(self.labels, learner.n_constraints, strategy=strategy, **options))
            except NothingToCompare as nothing:
                rows = self.without_labels(nothing)
        return self.solve(problem, rows, self.previous), rows

    def _keep_prior(self, problem: TrainingProblem) -> tuple[MatrixResult, Constraints]:
        """The prior as a result, of one row that it meets and of those given."""
        bound = 2.0 * max(0.0, problem.sq_distance(0, 1)) or 1.0
        rows = self.with_given(Constraints.sq_distance([0], [1], bound, "<="))
        return self.solve(problem, rows, None, loss=None), rows

    def with_given(self, drawn: Constraints) -> Constraints:
        """Rows that were drawn, then those given."""
        drawn = self._weighed(drawn, is_drawn=True)
        return drawn if self.given is None else drawn + self._weighed(self.given)

    def without_labels(self, nothing: NothingToCompare) -> Constraints:
        """The rows given, or one that every metric meets, where the labels ask for nothing that can be met."""
        kept = "Only the constraints given are learned from." if self.given is not None else "The prior is kept."
        warnings.warn(f"{nothing} {kept}", UserWarning, stacklevel=2)
        return Constraints.sq_distance(*nothing.pair, 1.0, "<=") if self.given is None else self._weighed(self.given)

    def _weighed(self, rows: Constraints, is_drawn: bool = False) -> Constraints:
        """Rows that count as much as the points they name; those that are drawn still weigh as much together."""
        if self.weight is None:
            return rows
        factor = rows.factors(self.weight)
        weight = rows.weight * (factor / factor.mean() if is_drawn else factor)
        return replace(rows, weight=np.maximum(weight, np.finfo(float).tiny))

    def solve(
        self, problem: TrainingProblem, rows: Constraints, start: MatrixResult | None, **settings: Any
    ) -> MatrixResult:
        """The problem of some rows by the parameters, or other settings."""
        learner = self.learner
        names = ("divergence", "loss", "solver", "tol", "max_iter")
        given = {name: getattr(learner, name) for name in names} | {"callback": callback_of(learner)}
        return problem.solve(
            rows,
            warm_start=start if start is not None and len(start.dual) == rows.n_constraints else None,
            **given | {"slack_weight": learner.slack_weight_} | settings,
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """All points, or a sample of them, as some passes learn from them."""

    problem: TrainingProblem
    kinds: Any
    n_points: int
    sample: np.ndarray | None = None  # the rows of X, ascending
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class _Passes:
    """Rows of neighbours drawn and learned from again and again, each time in the metric learned before.

    This ends when the rows that are active in the optimum no longer change, or when the problem of an earlier pass comes round again:
    a pass is drawn from the metric of the last one alone, so all that followed it before would follow again. Of many points a sample
    takes part in all passes but the last.

    Margins keep the median of the first pass. A metric has no scale of its own, and one that drifted would change from pass to pass
    how far the prior counts.
    """

    task: Task
    problem: TrainingProblem
    after: MatrixResult | None
    last: _Pass | None = None
    earlier: list[_Pass] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        learner = self.task.learner
        self.seed = int(generator(learner.random_state).integers(2**63))  # every pass leaves out the same points
        names = ("n_neighbors", "n_impostors", "form", "n_constraints")
        self.options: dict[str, Any] = {name: getattr(learner, name) for name in names}
        if self.after is not None:
            self.history, self.seconds = list(self.after.history), self.after.seconds
        self.stage = self.history[-1].stage or 0 if self.history else 0

    def learn(self) -> tuple[MatrixResult, Constraints]:
        """The result of the last pass with the history of all, and its rows."""
        task, n_passes = self.task, self.task.learner.passes
        whole = _Part(self.problem, self.problem.kinds(task.labels), task.n_points)
        sample = self._sample() if n_passes > 1 else None
        try:
            if sample is None:
                self._run(whole, n_passes)
            else:
                self._run(sample, n_passes - 1)
                if self.last is None or self.last.result.exit_reason is not ExitReason.INTERRUPTED:
                    self._run(whole, 1)
        except KeyboardInterrupt:  # between two passes, or before the first point of this one
            if self.last is None:
                raise
            take_interrupt()
            self.last = replace(self.last, result=cut_short(self.last.result))
        assert self.last is not None
        n_iter = self.history[-1].iteration
        return replace(self.last.result, history=self.history, n_iter=n_iter, seconds=self.seconds), self.last.rows

    def _sample(self) -> _Part | None:
        """Some of many points; None where there are few, or where points are in constraints or have weights."""
        task = self.task
        if (
            task.n_points <= MANY_POINTS
            or task.given is not None
            or task.weight is not None
            or task.previous is not None
        ):
            return None
        rows = np.sort(generator(self.seed).choice(task.n_points, SAMPLED_POINTS, replace=False))
        problem = self.problem.sampled(rows)
        if problem is None:
            return None
        kinds = task.labels.kinds_of(rows)
        if (kinds.codes >= 0).sum() < SAMPLED_PER_CLASS * len(kinds.relation):
            return None
        learner = task.learner
        settings = {"slack_weight": learner.usual_slack_weight(len(rows)), "tol": max(learner.tol, SAMPLE_TOL)}
        return _Part(problem, kinds, len(rows), rows, settings)

    def _run(self, part: _Part, n_passes: int) -> None:
        """Up to so many passes over all points, or over a sample."""
        self.earlier, start = [], None
        for left in range(n_passes - 1, -1, -1):
            self.stage += 1
            following = self._pass(part, start)
            if following is None:
                return
            self._add_history(following.result)
            is_settled = start is not None and np.array_equal(following.active, start.active)
            self.last = start = following
            result = following.result
            if is_settled or result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
                return
            if left and any(following.repeats(one) for one in self.earlier):
                if result.status is Status.OPTIMAL:
                    self.last = replace(following, result=replace(result, exit_reason=ExitReason.CYCLE))
                return
            self.earlier.append(following)

    def _pass(self, part: _Part, before: _Pass | None) -> _Pass | None:
        """Rows drawn in the last metric, and their result; None where the rows are those of the pass before over the same points."""
        task, learner = self.task, self.task.learner
        metric = None if self.last is None else self.last.result
        try:
            is_first = before is None and self.after is None and part.sample is None
            drawn = part.problem.neighbors(
                metric, part.kinds, rng=generator(self.seed), is_first=is_first, **self.options
            )
            self.options.setdefault("typical", median_margin(drawn))
            rows = task.with_given(drawn)
        except NothingToCompare as nothing:
            if metric is not None:  # the learned metric maps to one point what belongs apart
                return None
            rows = task.without_labels(nothing)
        keys = _keys(rows, part.n_points)
        if before is not None:
            if np.array_equal(keys, before.keys):
                return None
            start: MatrixResult | None = replace(before.result, dual=before.carried_to(keys))
        else:
            start = task.previous if self.after is None else None
        settings = dict(part.settings)
        if learner.loss is None:
            settings["loss"] = "squared_hinge"
        callback, stage = callback_of(learner), self.stage
        if callback is not None:
            settings["callback"] = lambda row: callback(replace(row, stage=stage))
        result = task.solve(part.problem, rows, start, **settings)
        if part.sample is not None:
            rows = replace(rows, index=rows.renumbered(part.sample.__getitem__))
        return _Pass(result, rows, keys)

    def _add_history(self, result: MatrixResult) -> None:
        steps, seconds = 0 if not self.history else self.history[-1].iteration, self.seconds
        self.history += [
            replace(row, iteration=steps + row.iteration, seconds=seconds + row.seconds, stage=self.stage)
            for row in result.history
        ]
        self.seconds += result.seconds


@dataclass(frozen=True, eq=False)
class _Pass:
    """One problem of several: its result, rows and their keys."""

    result: MatrixResult
    rows: Constraints
    keys: np.ndarray

    @cached_property
    def active(self) -> np.ndarray:
        """Keys of the rows with a dual weight: the optimum of the others is the same without them."""
        return np.unique(self.keys[self._takes_part])

    @property
    def active_bounds(self) -> np.ndarray:
        """The bounds of those rows."""
        _, first = np.unique(self.keys[self._takes_part], return_index=True)
        return self.rows.bound[self._takes_part][first]

    @property
    def _takes_part(self) -> np.ndarray:
        size = np.abs(self.result.dual)
        return np.asarray(size > ACTIVE * size.max(initial=0.0))

    def repeats(self, other: _Pass) -> bool:
        """Whether the active rows and their bounds are those of another pass, up to what the metric's own tolerance changes."""
        if not np.array_equal(self.active, other.active):
            return False
        bounds = other.active_bounds
        return bool(np.abs(self.active_bounds - bounds).max(initial=0.0) <= SAME * np.abs(bounds).max(initial=0.0))

    def carried_to(self, keys: np.ndarray) -> np.ndarray:
        """Dual weights for other rows: 0 for those that are new."""
        order = np.argsort(self.keys, kind="stable")
        place = np.minimum(np.searchsorted(self.keys, keys, sorter=order), len(order) - 1)
        found = order[place]
        return np.where(self.keys[found] == keys, self.result.dual[found], 0.0)


def cut_short(result: MatrixResult) -> MatrixResult:
    """A result after which more would have been done, but for an interrupt."""
    return replace(result, exit_reason=ExitReason.INTERRUPTED)


def _keys(rows: Constraints, n: int) -> np.ndarray:
    """One number for the samples of each row: its own up to 2 million points, and nearly always beyond."""
    width = rows.index.shape[1]
    i, j, l = (rows.index[:, m].astype(np.int64) + 1 if m < width else 0 for m in (0, 1, 3))
    return ((i * (n + 1) + j) * (n + 1) + l) * 4 + rows.sense
