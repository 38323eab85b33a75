"""What MetricLearner and KernelLearner share: parameters, the course of a fit, and passes over the neighbours of each point.

How a fit runs:

1. ``fit`` checks parameters and input and collects them in a :class:`Task`.
2. ``_decide`` sets ``strategy_`` and ``slack_weight_``, by a comparison on held-out rows if they are "auto" (``choice``).
3. ``_problem``, which each learner defines, combines the points and their prior into a ``TrainingProblem``.
4. ``_learn`` calls ``Task.learn``, which draws constraints from the labels (``from_labels``), joins those of the caller, and has the
   problem solved by :func:`bregmat.nearest_metric` or :func:`bregmat.nearest_kernel`. With "neighbors" this is repeated: each pass
   searches neighbours in the metric of the pass before.
5. ``_keep_all`` raises if the result is not usable; otherwise it sets the fitted attributes, including those that the learner adds
   in ``_keep``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bregmat.base.arrays import ArraySpace, working_space
from bregmat.base.checks import (
    as_choice,
    as_percentiles,
    check_flag,
    check_integer,
    check_positive,
    generator,
    to_numpy,
)
from bregmat.base.points import row_names
from bregmat.base.sampling import NothingToCompare
from bregmat.base.threads import held_interrupts, on_one_blas_thread, take_interrupt
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import ResultLearner, callback_of, check_run, say
from bregmat.estimators.choice import MOST_COMPARED, QUICKLY, RANDOM_WEIGHT, best_strategy, compared_rows, usual_weight
from bregmat.estimators.given import given_constraints, none_is_left, nothing_given, point_weights, present, weighted
from bregmat.from_labels.labels import random_pairs
from bregmat.from_labels.neighbors import STRATEGIES, Drawing, Space, as_kinds, neighbor_constraints
from bregmat.objective.losses import LOSSES, Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import Solver
from bregmat.run.result import ExitReason, MatrixResult, Record, SolverError, Status, check
from bregmat.typing import DivergenceName, Form, Labels, LossName, Points, RandomState, SolverName, Strategy, Values

ACTIVE = 1e-9  # multiplier, relative to the largest, above which a row is active
MANY_POINTS = 5000  # above, all passes but the last use a sample of the points
SAMPLED_POINTS = 2500
SAMPLED_PER_CLASS = 25  # least mean number of sampled points per class: with fewer, neighbours would be other points
SAMPLE_TOL = 1e-3  # relative gap of a pass over a sample
SAME = 1e-3  # smaller relative changes of bounds are ignored: with the default tol, the error of the metric is larger


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
        learner, n_passes = self.learner, self.learner.passes
        settings = {name: getattr(learner, name) for name in ("divergence", "loss", "solver", "tol", "max_iter")}
        settings["slack_weight"] = learner.slack_weight_
        if self.kinds is None or learner.strategy_ != "neighbors":
            return self._learn_once(problem, settings)
        # if points are drawn, every pass draws the same
        passes = _Passes(self, settings, after, seed=int(generator(learner.random_state).integers(2**63)))
        if after is not None:
            passes.history, passes.seconds, passes.stage = list(after.history), after.seconds, after.history[-1].stage
        sample = passes.sample(problem) if n_passes > 1 and self.X.shape[0] > MANY_POINTS else None
        try:
            if sample is not None:
                passes.run(n_passes - 1, *sample)
                n_passes = 1
            if passes.last is None or passes.last.result.exit_reason is not ExitReason.INTERRUPTED:
                passes.run(n_passes, problem, self.kinds)
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
        if self.kinds is None and rows is None:
            n_dropped = self.learner.n_dropped_constraints_
            why = "n_constraints=0 ignores y, and constraints is None."
            if n_dropped:
                why = f"{n_dropped} name a sample that is not in sample_id, and no labels are used."
            raise ValueError(f"no constraint is left: {why}")
        if self.kinds is not None:
            try:
                if self.learner.strategy_ is None:  # one constraint that the prior satisfies
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
        rng, is_balanced = generator(learner.random_state), learner.strategy_ == "random"
        given = {"rng": rng, "percentiles": learner.percentiles, "is_balanced": is_balanced} | options
        return random_pairs(points, self.kinds, learner.n_constraints, **given)

    def without_labels(self, nothing: NothingToCompare) -> Constraints:
        """The given rows, or one that every metric meets, if no constraint can be drawn from the labels."""
        kept = "Only the constraints given are learned from." if self.given is not None else "The prior is kept."
        warnings.warn(f"{nothing} {kept}", UserWarning, stacklevel=2)
        return Constraints.sq_distance(*nothing.pair, 1.0, "<=") if self.given is None else self.given


# ---------------------------------------------------------------------- passes
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
class _Passes:
    """Constraints between neighbours, drawn and solved several times, each time in the metric learned before.

    Passes end when the active rows no longer change, or when an earlier problem is repeated: since a pass depends on the metric of
    the last pass only, all passes after the earlier one would be repeated, too. If there are many points, all passes but the last use
    a sample.

    All passes have the median margin of the first pass. Comparisons do not determine the scale of the metric. With
    changing margins the scale would drift, and with it the influence of the prior.
    """

    task: Task
    settings: dict[str, Any]
    after: MatrixResult | None
    seed: int
    typical: float | None = None  # median margin of the first pass
    last: _Pass | None = None
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    stage: int = 0

    def sample(self, problem: TrainingProblem) -> tuple[TrainingProblem, Any, np.ndarray] | None:
        """A sample of the points: its problem, its kinds and its row numbers; None if all points are needed."""
        task = self.task
        if not (task.given is None and task.weight is None and task.previous is None):
            return None
        rows = np.sort(generator(self.seed).choice(task.X.shape[0], SAMPLED_POINTS, replace=False))
        sampled = problem.sampled(rows)
        if sampled is None:
            return None
        kinds = task.kinds.of_rows(rows)
        return (sampled, kinds, rows) if len(kinds.labelled) >= SAMPLED_PER_CLASS * len(kinds.relation) else None

    def run(self, n_passes: int, problem: TrainingProblem, kinds: Any, sample: np.ndarray | None = None) -> None:
        """Up to ``n_passes`` passes over all points, or over a sample of them."""
        task, learner = self.task, self.task.learner
        drawing = Drawing(learner.n_neighbors, learner.n_impostors, learner.form, learner.n_constraints)
        is_told = self.after is None and sample is None
        points = kinds.compared(drawing.most_points, generator(self.seed), is_told=is_told)
        earlier: list[_Pass] = []
        for left in range(n_passes - 1, -1, -1):
            self.stage += 1
            before = earlier[-1] if earlier else None
            try:
                space = problem.space(None if self.last is None else self.last.result, kinds.ordered)
                told = is_told and before is None
                rows = neighbor_constraints(space, kinds, points, drawing, typical=self.typical, is_told=told)
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

    def _solved(
        self, problem: TrainingProblem, rows: Constraints, before: _Pass | None, sample: np.ndarray | None
    ) -> _Pass | None:
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
            weight = learner.usual_slack_weight(len(sample))
            settings |= {"slack_weight": weight, "tol": max(learner.tol, SAMPLE_TOL)}
        result = problem.solve(rows, **settings)
        if sample is not None:
            rows = replace(rows, index=rows.renumbered(sample.__getitem__))
        size = np.abs(result.dual)
        is_active = size > ACTIVE * size.max(initial=0.0)
        active, first = np.unique(keys[is_active], return_index=True)
        return _Pass(result, rows, keys, (active, rows.bound[is_active][first]))


# ---------------------------------------------------------------------- the learner
@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class ConstraintLearner(ResultLearner, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer that learns from labels, constraints or both. Subclasses define the problem that is solved."""

    divergence: DivergenceName | SpectralDivergence = "logdet"
    slack_weight: Literal["auto"] | float = 1.0
    loss: LossName | Loss | None = None
    strategy: Literal["auto"] | Strategy | None = "random"
    passes: int = 3
    n_neighbors: int = 3
    n_impostors: int = 10
    form: Form = "comparison"
    n_constraints: int | None = None
    percentiles: tuple[float, float] = (5, 95)
    unlabeled: Any = -1
    solver: SolverName | Solver = "auto"
    tol: float = 1e-4
    max_iter: int | None = None
    warm_start: bool = False
    verbose: int = 0
    callback: Callable[[Any], Any] | None = None
    random_state: RandomState = None

    # If metadata routing is enabled, these are passed whole without set_fit_request.
    __metadata_request__fit = {"constraints": True, "sample_id": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True  # unless constraints are given
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ what subclasses define
    @abstractmethod
    def _checked_points(self, X: Any) -> Any:
        """The training points, checked together with the parameters that depend on them."""

    @abstractmethod
    def _problem(self, task: Task) -> TrainingProblem:
        """The points and their prior."""

    def _learn(self, problem: Any, task: Task) -> tuple[MatrixResult, Constraints]:
        """The result, and its constraints in row numbers of X."""
        return task.learn(problem)

    @abstractmethod
    def _keep(self, problem: Any, task: Task, result: MatrixResult) -> None:
        """Set the fitted attributes that only this learner has."""

    # ------------------------------------------------------------------ settings that are "auto"
    def _decide(self, task: Task) -> None:
        """Set ``strategy_`` and ``slack_weight_``; add the accuracies that decided them to ``comparison_``."""
        factor, weight = 1.0, self.slack_weight
        self.strategy_: Strategy | None = self.strategy if self.strategy != "auto" else "neighbors"
        if self.strategy == "auto" and task.kinds is not None and task.given is None:
            self.strategy_, factor = self._compared_strategy(task)
        if isinstance(weight, str):  # "auto"
            weight = factor * self.usual_slack_weight(task.X.shape[0], None if task.kinds is None else self.strategy_)
        self.slack_weight_: float = float(weight)
        if self.comparison_ and self.verbose:
            found = ", ".join(f"{name} {value:.3f}" for name, value in self.comparison_.items())
            n = min(task.X.shape[0], MOST_COMPARED)
            say(f"accuracy of 4 neighbours on {n} training rows: {found}")

    def _compared_strategy(self, task: Task, **settings: Any) -> tuple[Strategy | None, float]:
        """The strategy that is best on held-out halves of some rows, and the factor of its slack weight.

        ``settings`` are those of the learners that are compared, besides ``QUICKLY``.
        """
        rows, codes = compared_rows(task.X.shape[0], task.kinds)
        sample = task.X[np.ix_(rows, rows)] if get_tags(self).input_tags.pairwise else task.X[rows]
        quick = type(self)(**self.get_params(deep=False) | QUICKLY | settings)

        def mapped(strategy: Strategy | None, train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
            quick.set_params(strategy=strategy, slack_weight=self.usual_slack_weight(len(train), strategy))
            A, y = _safe_split(quick, sample, codes, train)
            B, _ = _safe_split(quick, sample, codes, test, train)
            ConstraintLearner.fit(quick, A, y)  # a subclass may count its own fits
            return np.asarray(quick.transform(A)), np.asarray(quick.transform(B))

        strategy, factor, found = best_strategy(mapped, codes)
        self.comparison_ |= found
        return strategy, factor

    def usual_slack_weight(self, n: int, strategy: Strategy | None | Literal["own"] = "own") -> float:
        """The value of ``slack_weight`` for n training points, where "auto" depends on the strategy (by default the learner's own)."""
        weight: Any = self.slack_weight
        if not isinstance(weight, str):
            return float(weight)
        if strategy == "own":
            strategy = "neighbors" if self.strategy == "auto" else self.strategy
        elif strategy == "random" and self.strategy == "auto":
            return RANDOM_WEIGHT
        return usual_weight(1.0, n) if strategy == "neighbors" else 1.0

    # ------------------------------------------------------------------ fit
    def fit(
        self,
        X: Points | Factor,
        y: Labels | None = None,
        *,
        constraints: Constraints | None = None,
        sample_id: Labels | None = None,
        sample_weight: Values | None = None,
    ) -> Self:
        """Learn from labels, constraints or both.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d), or Factor
            Points; finite. For a :class:`bregmat.KernelLearner` kernel values (n, n) with "precomputed". With "linear" also a
            memory-mapped array or a :class:`bregmat.Factor` of one; with "logdet" and without y only its rows in constraints are read. For
            a :class:`bregmat.MetricLearner` also a tensor on a GPU, where the solver then computes its long sums.
        y : array-like, shape (n,), optional
            Class labels of any type. Rows with the label ``unlabeled``, None or NaN are not used in pairs.
        constraints : Constraints, optional
            Their samples are values of ``sample_id``, or row numbers of X.
        sample_id : array-like, shape (n,), optional
            Name of each row of X; unique. By default the row numbers; the index of a pandas DataFrame if the
            constraints name samples by anything but numbers.
        sample_weight : array-like, shape (n,), optional
            Weight of each point: at least 0, not all 0; only ratios matter. The weight of a constraint is multiplied by the weights of its
            different points. Constraints drawn from labels are then scaled back to the sum of their weights. For given constraints the
            points have mean weight 1, and hard constraints stay hard. Bounds, margins, neighbours and the prior do not depend on
            the weights, except that points of weight 0 are absent: constraints that name them are dropped and counted. With
            kernel="precomputed" and for memory maps, weights must be positive.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            A parameter or an input is invalid, and the message names it; a kernel is not positive semidefinite on the points that
            were checked; or there are neither labels nor constraints.
        SolverError
            The constraints contradict each other, or the computation is not finite. No fitted attributes are set.
        KeyboardInterrupt
            After Ctrl-C. If an iterate was reached, all fitted attributes are set, and a RuntimeWarning says so.
        """
        previous = vars(self).get("result_") if self.warm_start else None
        with self._fitting():
            self._check_parameters()
            is_given = sample_id is not None or constraints is not None
            names = row_names(X, constraints, sample_id) if is_given else None
            space = None if isinstance(X, np.ndarray) else working_space(X)
            y = to_numpy("y", y)
            X, given, self.n_dropped_constraints_ = self._checked_points(X), None, 0
            if is_given:
                given, self.n_dropped_constraints_ = given_constraints(constraints, names, X.shape[0])
            weight = None if sample_weight is None else point_weights(sample_weight, X.shape[0])
            if y is None and constraints is None:
                raise nothing_given(self)
            if given is None and constraints is not None and (y is None or self.n_constraints == 0):
                raise none_is_left(constraints, names)
            if y is not None:
                shape: tuple[int, ...] = getattr(y, "shape", ())
                if len(shape) == 2 and (shape[1] == 1 or self.strategy in ("random", "uniform")):
                    y = column_or_1d(y, warn=True)
                check_consistent_length(X, y)
            if weight is not None and not weight.all():
                here = present(self, X, weight)
                y = None if y is None else _safe_indexing(y, here)
                X, weight, names = X[here], weight[here], here if names is None else names[here]
                given, self.n_dropped_constraints_ = given_constraints(constraints, names, len(here))
            kinds = None
            if y is not None and self.n_constraints != 0:
                kinds = as_kinds(y, X.shape[0], self.strategy, unlabeled=self.unlabeled)
            if given is not None and weight is not None:
                given = weighted(given, weight)
            task = Task(self, X, given, kinds, previous, weight, space, names)
            self.comparison_: dict[str, float] = {}
            self._decide(task)
            problem = self._problem(task)
            self._keep_all(problem, task, *self._learn(problem, task))
        return self

    def _keep_all(self, problem: Any, task: Task, result: MatrixResult, rows: Constraints) -> None:
        """Set the fitted attributes if the result is usable; constraints name their samples as the caller does."""
        names = task.names
        if names is not None and names.dtype.kind in "iu" and (names >= 0).all():
            rows = replace(rows, index=rows.renumbered(names.__getitem__))
        elif names is not None:
            rows = replace(rows, ids=names)
        try:
            check(result)
        except SolverError as error:
            error.constraints = rows
            raise
        with held_interrupts():
            self._keep(problem, task, result)
            self.constraints_: Constraints = rows
            self.n_iter_: int = max(1, result.n_iter)  # scikit-learn wants at least one step
            self.result_: MatrixResult = result

    def _check_parameters(self) -> None:
        """Raise for a hyper-parameter that no data could make valid."""
        check_integer("n_constraints", self.n_constraints, 0)
        if not (isinstance(self.slack_weight, str) and self.slack_weight == "auto"):
            check_positive("slack_weight", self.slack_weight)
        if self.loss is not None:
            LOSSES.resolve(self.loss)
        is_open = self.strategy is None or (isinstance(self.strategy, str) and self.strategy == "auto")
        as_choice("strategy", "neighbors" if is_open else self.strategy, STRATEGIES)
        as_percentiles(self.percentiles)
        Drawing(self.n_neighbors, self.n_impostors, self.form)
        check_integer("passes", self.passes, 1, optional=False)
        check_flag("warm_start", self.warm_start)
        check_run(self)
