"""What a fit learns from: rows given and rows drawn from labels, once or pass by pass in the metric learned so far."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.interrupts import take_interrupt
from bregmat.base.sampling import NothingToCompare, generator
from bregmat.base.threads import cached_property
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.base import callback_of
from bregmat.from_labels.labels import as_kinds
from bregmat.from_labels.neighbors import Kinds, Space, median_margin, neighbor_constraints
from bregmat.run.result import ExitReason, MatrixResult, Record, Status

ACTIVE = 1e-9  # dual weight, relative to the largest, from which on a row takes part in the optimum
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
            slack_weight=learner.slack_weight_,
            warm_start=start if start is not None and len(start.dual) == rows.n_constraints else None,
            **given | settings,
        )


@dataclass(eq=False)
class _Passes:
    """Rows of neighbours drawn and learned from again and again, each time in the metric learned before.

    This ends when the rows that are active in the optimum no longer change, or when the problem of an earlier pass comes round again:
    a pass is drawn from the metric of the last one alone, so all that followed it before would follow again.

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
        learner, task = self.task.learner, self.task
        self.kinds = self.problem.kinds(task.labels)
        self.seed = int(generator(learner.random_state).integers(2**63))  # every pass leaves out the same points
        names = ("n_neighbors", "n_impostors", "form", "n_constraints")
        self.options: dict[str, Any] = {name: getattr(learner, name) for name in names}
        if self.after is not None:
            self.history, self.seconds = list(self.after.history), self.after.seconds
        self.first = 1 + (self.history[-1].stage or 0 if self.history else 0)

    def learn(self) -> tuple[MatrixResult, Constraints]:
        """The result of the last pass with the history of all, and its rows."""
        end = self.first + self.task.learner.passes
        for stage in range(self.first, end):
            try:
                following = self._pass(stage)
            except KeyboardInterrupt:  # between two passes, or before the first point of this one
                if self.last is None:
                    raise
                take_interrupt()
                self.last = replace(self.last, result=cut_short(self.last.result))
                break
            if following is None:
                break
            self._add_history(following.result, stage)
            before, self.last = self.last, following
            is_settled = before is not None and np.array_equal(following.active, before.active)
            result = following.result
            if is_settled or result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
                break
            if any(following.repeats(one) for one in self.earlier) and stage + 1 < end:
                if result.status is Status.OPTIMAL:
                    self.last = replace(following, result=replace(result, exit_reason=ExitReason.CYCLE))
                break
            self.earlier.append(following)
        assert self.last is not None
        n_iter = self.history[-1].iteration
        return replace(self.last.result, history=self.history, n_iter=n_iter, seconds=self.seconds), self.last.rows

    def _pass(self, stage: int) -> _Pass | None:
        """Rows drawn in the metric of the last pass, and their result; None where the rows are those of the last pass."""
        task, last = self.task, self.last
        try:
            drawn = self.problem.neighbors(
                None if last is None else last.result,
                self.kinds,
                rng=generator(self.seed),
                is_first=stage == 1,
                **self.options,
            )
            self.options.setdefault("typical", median_margin(drawn))
            rows = task.with_given(drawn)
        except NothingToCompare as nothing:
            if last is not None:  # the learned metric maps to one point what belongs apart
                return None
            rows = task.without_labels(nothing)
        keys = _keys(rows, task.n_points)
        if last is None:
            start = task.previous if self.after is None else None
        elif np.array_equal(keys, last.keys):
            return None
        else:
            start = replace(last.result, dual=last.carried_to(keys))
        learner, settings = task.learner, {}
        if learner.loss is None:
            settings["loss"] = "squared_hinge"
        callback = callback_of(learner)
        if callback is not None:
            settings["callback"] = lambda row: callback(replace(row, stage=stage))
        return _Pass(task.solve(self.problem, rows, start, **settings), rows, keys)

    def _add_history(self, result: MatrixResult, stage: int) -> None:
        steps, seconds = 0 if not self.history else self.history[-1].iteration, self.seconds
        self.history += [
            replace(row, iteration=steps + row.iteration, seconds=seconds + row.seconds, stage=stage)
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
