"""What a fit of MetricLearner or KernelLearner works on: its settings, checked input (:class:`Task`), and the problem to be solved.

With "neighbors", constraints are drawn and solved several times, each time in the metric that was learned before (:class:`Passes`).
"""

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
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.estimators.base import callback_of, say
from bregmat.estimators.given import weighted
from bregmat.from_labels.groups import LabelGroups, drawn_rows
from bregmat.from_labels.labels import random_pairs
from bregmat.from_labels.neighbors import MOST_DEFAULT_ROWS, neighbor_constraints
from bregmat.typing import MetricKind, MetricStrategy

USUAL_ROWS = 500  # labelled rows up to which slack weights do not grow
USUAL_OF_CLASS = 25  # mean number of rows of a class up to which they do not grow either
MOST_GROWTH = 5.0  # on 50,000 images a factor of 20 is worse than 5
ACTIVE = 1e-9  # multiplier, relative to the largest, above which a constraint is active
MANY_POINTS = 5000  # above, all passes but the last use a sample of the points
SAMPLED_POINTS = 2500
SAMPLED_PER_CLASS = 25  # least mean number of sampled points per class: with fewer, neighbours would be other points
MOST_SEARCHED = 200_000  # rows among which neighbours are searched: copies of them fill a few GB in 768 dimensions
SAMPLE_TOL = 1e-3  # relative gap of a pass over a sample
SAME = 1e-3  # smaller relative changes of bounds are ignored: with the default tol, the error of the metric is larger


@dataclass(frozen=True)
class Candidate:
    """Settings that are chosen together.

    Attributes
    ----------
    strategy : str or None
        How labels become constraints; None if nothing is learned.
    slack_weight : float
        For at most 500 rows (see :func:`growth`).
    prior : str or None
        Name of the prior metric; None if the learner has no such parameter.
    passes : int
        How often neighbours are searched.
    metric : str
        Whether mapped rows are compared by their distance or by their cosine.
    """

    strategy: MetricStrategy | None
    slack_weight: float = 1.0
    prior: str | None = None
    passes: int = 1
    metric: MetricKind = "euclidean"

    def __str__(self) -> str:
        learned = "not learned" if self.strategy is None else f"{self.strategy}, {self.slack_weight:g}"
        named = learned if self.prior is None else f"{self.prior}, {learned}"
        named = named if self.passes == 1 else f"{named}, {self.passes} passes"
        return f"{named}, cosine" if self.metric == "cosine" else named


def growth(labels: LabelGroups, strategy: str | None) -> float:
    """Factor of the slack weight for the rows of some labels, 1 to 5; 1 for random pairs.

    The total weight of the constraints or losses of labels does not depend on their number. Without a correction, each row would count
    less, relative to the prior, the more rows there are. With "neighbors", rows of small classes have few constraints that differ, so
    the factor also depends on the mean number of rows of a class.
    """
    if strategy not in ("neighbors", "softmax"):
        return 1.0
    n, n_classes = int(labels.sizes.sum()), np.count_nonzero(labels.sizes)
    per_class = n / (USUAL_OF_CLASS * n_classes) if strategy == "neighbors" else np.inf
    return float(np.clip(min(n / USUAL_ROWS, per_class), 1.0, MOST_GROWTH))


class TrainingProblem(ABC):
    """Training points and their prior: distances before and after learning, and the problem that is solved."""

    @abstractmethod
    def space(self, result: MatrixResult | None, among: Any) -> Any:
        """Distances to some points (row numbers) before learning (None), or as learned."""

    @abstractmethod
    def pairs(self, task: Task) -> Constraints:
        """Random pairs, as :func:`bregmat.constraints_from_labels` draws them."""

    @abstractmethod
    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        """The result of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric` with these settings."""

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
    constraints : Constraints or None
        Constraints of the caller in row numbers of X, with the weights of their points.
    labels : LabelGroups or None
        Labels; None if there are none or if they are ignored.
    settings : dict
        Arguments of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric`, without the slack weight.
    previous : MatrixResult or None
        Result of the fit before, for a warm start.
    weight : ndarray, shape (n,), or None
        Weights of the points, positive, with mean 1.
    space : ArraySpace or None
        Library and device of X if it was not NumPy.
    names : ndarray, shape (n,), or None
        Names of the points; None if they are row numbers.
    is_in_blocks : bool
        Whether X is a :class:`bregmat.sharded.points.PointsInBlocks`.
    candidate : Candidate
        Settings that may be "auto": strategy, slack weight, prior.
    """

    learner: Any
    X: Any
    constraints: Constraints | None
    labels: Any
    settings: dict[str, Any]
    previous: MatrixResult | None = None
    weight: np.ndarray | None = None
    space: ArraySpace | None = None
    names: np.ndarray | None = None
    is_in_blocks: bool = False
    candidate: Candidate = Candidate("neighbors")

    def slack_weight(self, labels: Any = None) -> float:
        """The slack weight for the labels of a part of the points, by default of all points."""
        asked, labels = self.learner.slack_weight, self.labels if labels is None else labels
        is_growing = isinstance(asked, str) and labels is not None
        return self.candidate.slack_weight * (growth(labels, self.candidate.strategy) if is_growing else 1.0)

    def learn(self, problem: TrainingProblem, after: MatrixResult | None = None) -> tuple[MatrixResult, Constraints]:
        """The result and its rows in row numbers: rows drawn from labels, then given ones.

        ``after`` is an earlier result of the same task with another prior. Its passes are counted and stay in the history.
        """
        n_passes = self.candidate.passes
        if self.labels is None or self.candidate.strategy != "neighbors":
            return self._learn_once(problem)
        # if points are drawn, every pass draws the same
        passes = Passes(self, after, seed=int(generator(self.learner.random_state).integers(2**63)))
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

    def _learn_once(self, problem: TrainingProblem) -> tuple[MatrixResult, Constraints]:
        """The result without comparisons of neighbours: the given rows, random pairs, or the prior."""
        settings = self.settings | {"slack_weight": self.slack_weight(), "callback": callback_of(self.learner)}
        rows, start = self.constraints, self.previous
        if self.labels is None and rows is None:
            n_dropped = self.learner.n_dropped_constraints_
            why = "n_constraints=0 ignores y, and constraints is None."
            if n_dropped:
                why = f"{n_dropped} name a sample that is not in sample_id, and no labels are used."
            raise ValueError(f"no constraint is left: {why}")
        if self.labels is not None:
            try:
                if self.candidate.strategy is None:  # one constraint that the prior satisfies
                    sq_distance = float(problem.space(None, np.array([0, 1])).sq_distances(np.array([0]))[0, 1])
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
        return problem.solve(rows, warm_start=start, **settings), rows

    def random_pairs(self, points: Any, **options: Any) -> Constraints:
        """Random pairs of points, drawn with the parameters of the learner."""
        learner = self.learner
        how: dict[str, Any] = {"rng": generator(learner.random_state), "percentiles": PERCENTILES} | options
        return random_pairs(points, self.labels, learner.n_constraints, **how)

    def without_labels(self, nothing: NothingToCompare) -> Constraints:
        """The given rows, or one that every metric meets, if no constraint can be drawn from the labels."""
        kept = "Only the constraints given are learned from." if self.constraints is not None else "The prior is kept."
        warn_caller(f"{nothing} {kept}")
        return Constraints.sq_distance(*nothing.pair, 1.0, "<=") if self.constraints is None else self.constraints


# ---------------------------------------------------------------------- passes over neighbours
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
    a sample; if there are very many, neighbours are searched in a sample in the last one, too.

    All passes have the median margin of the first pass. Comparisons do not determine the scale of the metric. With
    changing margins the scale would drift, and with it the influence of the prior.
    """

    task: Any
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
        if not (
            task.X.shape[0] > MANY_POINTS and task.constraints is None and task.weight is None and task.previous is None
        ):
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
        labels : LabelGroups
        sample : ndarray of int, optional
            Row numbers of the points, if these are a sample.
        """
        task, learner = self.task, self.task.learner
        k, l, max_rows = learner.n_neighbors, learner.n_impostors, learner.n_constraints or MOST_DEFAULT_ROWS
        warn = self.after is None and sample is None
        max_points, among, rng = -(-max_rows // (k * l)), labels.ordered, generator(self.seed)
        if len(among) > MOST_SEARCHED and not self.task.is_in_blocks:
            points, among = self._searched(labels, max_points, rng, warn)
        else:
            points = labels.compared(max_points, rng, warn=warn)
        earlier: list[_Pass] = []
        for left in range(n_passes - 1, -1, -1):
            self.stage += 1
            before = earlier[-1] if earlier else None
            try:
                space = problem.space(None if self.last is None else self.last.result, among)
                told = warn and before is None
                rows = neighbor_constraints(space, labels, points, k, l, max_rows, typical=self.typical, warn=told)
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
                if task.constraints is not None:
                    rows = rows + task.constraints
            solved = self._solved(problem, rows, before, sample)
            if solved is None:
                return
            self.last, result = solved, solved.result
            n_iter, seconds = self.history[-1].iteration if self.history else 0, self.seconds
            self.history += [
                replace(row, iteration=n_iter + row.iteration, seconds=seconds + row.seconds, stage=self.stage)
                for row in result.history
            ]
            self.seconds += result.seconds
            if before is not None and np.array_equal(solved.active[0], before.active[0]):
                return
            if result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
                return
            if left and [one for one in earlier[:-1] if solved.repeats(one)]:
                if result.status is Status.OPTIMAL:
                    self.last = replace(solved, result=replace(result, exit_reason=ExitReason.CYCLE))
                return
            earlier.append(solved)

    def _searched(
        self, labels: LabelGroups, max_points: int, rng: np.random.Generator, warn: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of points to compare, and of those among which neighbours are searched, by group, of very many points."""
        n, learner = len(labels.labelled), self.task.learner
        among = drawn_rows(labels, rng, MOST_SEARCHED)
        among = among[np.argsort(labels.codes[among], kind="stable")]
        able = np.intersect1d(labels.compared(warn=warn), among)
        if learner.verbose:
            say(
                f"{type(learner).__name__}: neighbours are searched among {len(among):,} of {n:,} labelled rows, drawn at random"
            )
        return able if len(able) <= max_points else np.sort(rng.choice(able, max_points, replace=False)), among

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
        labels = None if sample is None else task.labels.of_rows(sample)
        settings = task.settings | {"warm_start": start, "slack_weight": task.slack_weight(labels)}
        if learner.loss is None:
            settings["loss"] = "squared_hinge"
        if learner.verbose or learner.callback is not None:
            told: Any = callback_of(learner)
            settings["callback"] = lambda record: told(replace(record, stage=stage))
        if sample is not None:
            settings["tol"] = max(learner.tol, SAMPLE_TOL)
        result = problem.solve(rows, **settings)
        if sample is not None:
            rows = replace(rows, index=rows.renumbered(sample.__getitem__))
        size = np.abs(result.dual)
        is_active = size > ACTIVE * size.max(initial=0.0)
        active, first = np.unique(keys[is_active], return_index=True)
        return _Pass(result, rows, keys, (active, rows.bound[is_active][first]))
