"""What a fit learns from and on: rows given and rows drawn from labels, once or pass by pass in the metric learned so far."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
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


class Ground(ABC):
    """Training points as one form of learning sees them: what it measures before and after, and the problem it solves."""

    @abstractmethod
    def space(self, result: MatrixResult | None) -> Space:
        """Distances before learning (None), or as learned."""

    @abstractmethod
    def pairs(self, y: Any, n_constraints: int | None, **options: Any) -> Constraints:
        """Random pairs, as :func:`bregmat.constraints_from_labels` draws them."""

    def kinds(self, y: Any, n: int, unlabeled: Any) -> Any:
        """Who belongs together, as :meth:`neighbors` takes it."""
        return as_kinds(y, n, "neighbors", unlabeled=unlabeled)

    def neighbors(self, result: MatrixResult | None, kinds: Any, **options: Any) -> Constraints:
        """Rows between neighbours, as :func:`bregmat.from_labels.neighbors.neighbor_constraints` draws them."""
        return neighbor_constraints(self.space(result), kinds, **options)

    @abstractmethod
    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        """The result of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric`, which takes the settings."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a fit learns from: parameters, number of points, constraints given (in row numbers), labels, an earlier result, weights."""

    learner: Any  # the estimator
    n_points: int
    given: Constraints | None
    y: Any
    previous: MatrixResult | None
    weight: np.ndarray | None = None  # of points, positive, of mean 1
    space: ArraySpace | None = None  # where the points were handed in, if not in the host's memory

    @property
    def strategy(self) -> str | None:
        """What is asked of the labels; None: nothing, since not learning was better."""
        return getattr(self.learner, "strategy_", self.learner.strategy)

    def kinds_at(self, rows: np.ndarray) -> Kinds:
        """Who belongs together among some rows, by row numbers."""
        kinds = as_kinds(self.y, self.n_points, "neighbors", unlabeled=self.learner.unlabeled)
        return replace(kinds, codes=kinds.codes[rows])

    def learn(self, ground: Ground, after: MatrixResult | None = None) -> tuple[MatrixResult, Constraints]:
        """The result, and its rows in row numbers: those drawn from the labels, then those given.

        ``after``: the result of the same task on another ground, of neighbours; passes are counted and told on from there.
        """
        learner = self.learner
        if self.y is None and self.given is None:
            n_dropped = learner.n_dropped_constraints_
            raise ValueError(
                f"no constraint is left: {n_dropped} name a sample that is not in sample_id, and no labels are used."
                if n_dropped
                else "no constraint is left: n_constraints=0 ignores y, and constraints is None."
            )
        if self.y is None:
            assert self.given is not None
            rows = self._weighed(self.given)
        elif self.strategy == "neighbors":
            return self._learn_neighbors(ground, after)
        elif self.strategy is None:
            rows = self._unlearned(ground)
        else:
            options = {name: getattr(learner, name) for name in ("percentiles", "unlabeled", "random_state")}
            options["strategy"] = self.strategy
            try:
                rows = self._with_given(ground.pairs(self.y, learner.n_constraints, **options))
            except NothingToCompare as nothing:
                rows = self._without_labels(nothing)
        return self._solve(ground, rows, self.previous), rows

    def _learn_neighbors(self, ground: Ground, after: MatrixResult | None) -> tuple[MatrixResult, Constraints]:
        """Rows are drawn again in the learned metric until those that are active in the optimum no longer change, or come round again.

        A pass is drawn from the metric of the last one alone, so a problem that comes again is followed by all that followed it before.

        Margins keep the median of the first pass: a metric has no scale of its own, and one that drifted would change from pass to pass
        how far the prior counts.
        """
        learner, last = self.learner, None
        earlier: list[tuple[np.ndarray, np.ndarray]] = []
        kinds = ground.kinds(self.y, self.n_points, learner.unlabeled)
        seed = int(generator(learner.random_state).integers(2**63))  # every pass leaves out the same points
        names = ("n_neighbors", "n_impostors", "form", "n_constraints")
        options: dict[str, Any] = {name: getattr(learner, name) for name in names}
        history: list[Record] = [] if after is None else list(after.history)
        seconds = 0.0 if after is None else after.seconds
        before = history[-1].stage or 0 if history else 0
        for stage in range(before + 1, before + learner.passes + 1):
            try:
                before_it = None if last is None else last.result
                try:
                    drawn = ground.neighbors(before_it, kinds, rng=generator(seed), is_first=stage == 1, **options)
                    options.setdefault("typical", median_margin(drawn))
                    rows = self._with_given(drawn)
                except NothingToCompare as nothing:
                    if last is not None:  # the learned metric maps to one point what belongs apart
                        break
                    rows = self._without_labels(nothing)
                keys = _keys(rows, self.n_points)
                if last is None:
                    start = self.previous if after is None else None
                elif np.array_equal(keys, last.keys):
                    break
                else:
                    start = replace(last.result, dual=last.carried_to(keys))
                result = self._solve(ground, rows, start, stage)
            except KeyboardInterrupt:  # between two passes, or before the first point of this one
                if last is None:
                    raise
                take_interrupt()
                last = replace(last, result=cut_short(last.result))
                break
            steps = 0 if not history else history[-1].iteration
            history += [
                replace(row, iteration=steps + row.iteration, seconds=seconds + row.seconds, stage=stage)
                for row in result.history
            ]
            seconds += result.seconds
            following = _Pass(result, rows, keys)
            is_settled = last is not None and np.array_equal(following.active, last.active)
            last = following
            if is_settled or result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
                break
            if any(following.repeats(*one) for one in earlier) and stage < before + learner.passes:
                if result.status is Status.OPTIMAL:
                    last = replace(last, result=replace(result, exit_reason=ExitReason.CYCLE))
                break
            earlier.append((following.active, following.active_bounds))
        assert last is not None
        return replace(last.result, history=history, n_iter=history[-1].iteration, seconds=seconds), last.rows

    def _with_given(self, drawn: Constraints) -> Constraints:
        drawn = self._weighed(drawn, is_drawn=True)
        return drawn if self.given is None else drawn + self._weighed(self.given)

    def _unlearned(self, ground: Ground) -> Constraints:
        """One row that the prior meets, and so leaves as it is."""
        names = ("n_neighbors", "n_impostors", "form")
        options = {name: getattr(self.learner, name) for name in names} | {"n_constraints": 1}
        kinds = ground.kinds(self.y, self.n_points, self.learner.unlabeled)
        drawn = ground.neighbors(None, kinds, rng=generator(self.learner.random_state), is_first=False, **options)
        first = drawn.select(
            np.arange(drawn.n_constraints) == 0
        )  # near points are at most as far apart as half of its margin
        return replace(first, bound=np.abs(first.bound))

    def _without_labels(self, nothing: NothingToCompare) -> Constraints:
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

    def _solve(
        self, ground: Ground, rows: Constraints, start: MatrixResult | None, stage: int | None = None
    ) -> MatrixResult:
        """The problem of some rows by the parameters; rows of neighbours (in a stage) have the squared hinge unless told."""
        learner = self.learner
        settings = {name: getattr(learner, name) for name in ("divergence", "loss", "solver", "tol", "max_iter")}
        callback = callback_of(learner)
        if stage is not None:
            settings["loss"] = "squared_hinge" if settings["loss"] is None else settings["loss"]
            if callback is not None:
                settings["callback"] = lambda row: callback(replace(row, stage=stage))
        return ground.solve(
            rows,
            slack_weight=float(getattr(learner, "slack_weight_", learner.slack_weight)),
            warm_start=start if start is not None and len(start.dual) == rows.n_constraints else None,
            **{"callback": callback} | settings,
        )


@dataclass(frozen=True, eq=False)
class _Pass:
    """One problem of several: its result, rows and their keys."""

    result: MatrixResult
    rows: Constraints
    keys: np.ndarray

    @cached_property
    def active(self) -> np.ndarray:
        """Keys of the rows that hold the optimum in its place."""
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

    def repeats(self, active: np.ndarray, bounds: np.ndarray) -> bool:
        """Whether the active rows and their bounds are those of an earlier pass, up to what the metric's own tolerance changes."""
        if not np.array_equal(self.active, active):
            return False
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
