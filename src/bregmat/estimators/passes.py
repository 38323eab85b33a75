"""Constraints between neighbours, drawn and solved several times, each time in the metric that was learned before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bregmat.base.checks import generator
from bregmat.base.sampling import NothingToCompare
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.estimators.base import callback_of, say
from bregmat.estimators.given import weighted
from bregmat.estimators.selection import drawn_rows
from bregmat.from_labels.groups import LabelGroups
from bregmat.from_labels.neighbors import Drawing, neighbor_constraints

ACTIVE = 1e-9  # multiplier, relative to the largest, above which a constraint is active
MANY_POINTS = 5000  # above, all passes but the last use a sample of the points
SAMPLED_POINTS = 2500
SAMPLED_PER_CLASS = 25  # least mean number of sampled points per class: with fewer, neighbours would be other points
MOST_SEARCHED = 200_000  # rows among which neighbours are searched: copies of them fill a few GB in 768 dimensions
SAMPLE_TOL = 1e-3  # relative gap of a pass over a sample
SAME = 1e-3  # smaller relative changes of bounds are ignored: with the default tol, the error of the metric is larger


@dataclass(frozen=True, eq=False)
class _Pass:
    """One problem of several: its result, its rows and their keys.

    ``active`` are the keys and bounds of the active rows, those with a multiplier: without the other rows the optimum is the same.
    """

    result: MatrixResult
    rows: Constraints
    keys: np.ndarray
    active: tuple[np.ndarray, np.ndarray]

    def repeats(self, other: _Pass) -> bool:
        """Whether the active rows are those of another pass, and their bounds agree within the tolerance of the metric."""
        (keys, bounds), (other_keys, other_bounds) = self.active, other.active
        if not np.array_equal(keys, other_keys):
            return False
        change = np.abs(bounds - other_bounds).max(initial=0.0)
        return bool(change <= SAME * np.abs(other_bounds).max(initial=0.0))


@dataclass(eq=False)
class Passes:
    """Constraints between neighbours, drawn and solved several times, each time in the metric learned before.

    Passes end when the active rows no longer change, or when an earlier problem is repeated: since a pass depends on the metric of
    the last pass only, all passes after the earlier one would be repeated, too. If there are many points, all passes but the last use
    a sample; if there are very many, neighbours are drawn and searched in a sample in the last one, too.

    All passes have the median margin of the first pass. Comparisons do not determine the scale of the metric. With
    changing margins the scale would drift, and with it the influence of the prior.
    """

    task: Any
    settings: dict[str, Any]
    after: MatrixResult | None
    seed: int
    typical: float | None = None  # median margin of the first pass
    last: _Pass | None = None
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    stage: int = 0

    def sample(self, problem: Any) -> tuple[Any, Any, np.ndarray] | None:
        """A sample of the points: its problem, its labels and its row numbers; None if all points are needed."""
        task = self.task
        if not (task.X.shape[0] > MANY_POINTS and task.given is None and task.weight is None and task.previous is None):
            return None
        rows = np.sort(generator(self.seed).choice(task.X.shape[0], SAMPLED_POINTS, replace=False))
        sampled = problem.sampled(rows)
        if sampled is None:
            return None
        labels = task.labels.of_rows(rows)
        return (sampled, labels, rows) if len(labels.labelled) >= SAMPLED_PER_CLASS * len(labels.relation) else None

    def run(self, n_passes: int, problem: Any, labels: Any, sample: np.ndarray | None = None) -> None:
        """Up to ``n_passes`` passes over all points, or over a sample of them.

        Parameters
        ----------
        n_passes : int
        problem : TrainingProblem
        labels : LabelGroups or BlockLabels
        sample : ndarray of int, optional
            Row numbers of the points, if these are a sample.
        """
        task, learner = self.task, self.task.learner
        drawing = Drawing(learner.n_neighbors, learner.n_impostors, n_constraints=learner.n_constraints)
        warn, rng = self.after is None and sample is None, generator(self.seed)
        searched, labels, among = self._searched(problem, labels, rng)
        points = labels.compared(drawing.most_points, rng, warn=warn)
        earlier: list[_Pass] = []
        for left in range(n_passes - 1, -1, -1):
            self.stage += 1
            before = earlier[-1] if earlier else None
            try:
                space = searched.space(None if self.last is None else self.last.result, labels.ordered)
                told = warn and before is None
                rows = neighbor_constraints(space, labels, points, drawing, typical=self.typical, warn=told)
                if among is not None:
                    rows = replace(rows, index=rows.renumbered(among.__getitem__))
                del space  # its arrays are as large as the points, and the solve needs memory of its own
            except NothingToCompare as nothing:
                if self.last is not None:  # the learned metric maps points of different classes to one point
                    return
                rows = task.without_labels(nothing)
            else:
                if self.typical is None:
                    self.typical = float(np.median(np.abs(rows.bound[rows.sense > 0])))
                if task.weight is not None:
                    rows = weighted(rows, task.weight, is_drawn=True)
                if task.given is not None:
                    rows = rows + task.given
            found = self._solved(problem, rows, before, sample)
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
            if left and [one for one in earlier[:-1] if found.repeats(one)]:
                if result.status is Status.OPTIMAL:
                    self.last = replace(found, result=replace(result, exit_reason=ExitReason.CYCLE))
                return
            earlier.append(found)

    def _searched(self, problem: Any, labels: Any, rng: np.random.Generator) -> tuple[Any, Any, np.ndarray | None]:
        """The problem and the labels of the rows among which neighbours are searched, and their row numbers; None for all rows."""
        if len(labels.labelled) <= MOST_SEARCHED or not isinstance(labels, LabelGroups):
            return problem, labels, None
        among = np.sort(drawn_rows(labels, rng, MOST_SEARCHED))
        part = problem.sampled(among)
        if part is None:
            return problem, labels, None
        if self.task.learner.verbose:
            n = len(labels.labelled)
            say(
                f"{type(self.task.learner).__name__}: neighbours are searched among {len(among):,} of {n:,} labelled rows, drawn at random"
            )
        return part, labels.of_rows(among), among

    def _solved(self, problem: Any, rows: Constraints, before: _Pass | None, sample: np.ndarray | None) -> _Pass | None:
        """The result for some rows; None if they are the rows of the pass before over the same points."""
        task, learner, stage = self.task, self.task.learner, self.stage
        # one number for the points and the sense of a row: unique up to 2 million points, and nearly always beyond
        n, index = task.X.shape[0] + 1, rows.index.astype(np.int64) + 1
        i, j, l = [index[:, m] if m < index.shape[1] else 0 for m in (0, 1, 3)]
        keys = ((i * n + j) * n + l) * 4 + rows.sense
        start = task.previous if self.after is None else None
        if before is not None:
            if np.array_equal(keys, before.keys):
                return None
            # the multipliers of rows that the pass before had, too; 0 for new ones
            order = np.argsort(before.keys, kind="stable")
            place = np.minimum(np.searchsorted(before.keys, keys, sorter=order), len(order) - 1)
            same = before.keys[order[place]] == keys
            start = replace(before.result, dual=np.where(same, before.result.dual[order[place]], 0.0))
        elif start is not None and len(start.dual) != rows.n_constraints:
            start = None
        settings = self.settings | {"warm_start": start}
        if learner.loss is None:
            settings["loss"] = "squared_hinge"
        if learner.verbose or learner.callback is not None:
            told: Any = callback_of(learner)
            settings["callback"] = lambda record: told(replace(record, stage=stage))
        if sample is not None:
            weight = task.slack_weight(task.labels.of_rows(sample))
            settings |= {"slack_weight": weight, "tol": max(learner.tol, SAMPLE_TOL)}
        result = problem.solve(rows, **settings)
        if sample is not None:
            rows = replace(rows, index=rows.renumbered(sample.__getitem__))
        size = np.abs(result.dual)
        is_active = size > ACTIVE * size.max(initial=0.0)
        active, first = np.unique(keys[is_active], return_index=True)
        return _Pass(result, rows, keys, (active, rows.bound[is_active][first]))
