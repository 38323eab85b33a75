"""What MetricLearner and KernelLearner share: parameters, the course of a fit, and constraints named by samples.

How a fit runs:

1. ``fit`` checks parameters and input and collects them in a :class:`bregmat.estimators.task.Task`.
2. ``_decide`` sets ``strategy_`` and ``slack_weight_``, by a comparison on held-out rows if they are "auto" (``choice``).
3. ``_problem``, which each learner defines, combines the points and their prior into a ``TrainingProblem``.
4. ``_learn`` calls ``Task.learn``, which draws constraints from the labels (``from_labels``), joins those of the caller, and has the
   problem solved by :func:`bregmat.nearest_metric` or :func:`bregmat.nearest_kernel`. With "neighbors" this is repeated: each pass
   searches neighbours in the metric of the pass before.
5. ``_keep_all`` raises if the result is not usable; otherwise it sets the fitted attributes, including those that the learner adds
   in ``_keep``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bregmat.base.arrays import working_space
from bregmat.base.checks import (
    as_choice,
    as_column,
    as_percentiles,
    check_flag,
    check_integer,
    check_positive,
    rows_text,
    to_numpy,
)
from bregmat.base.html import listed
from bregmat.base.points import row_names
from bregmat.base.threads import held_interrupts, on_one_blas_thread
from bregmat.constraints.columns import check_unique, similar_name
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import AllOrNothing, check_run, say
from bregmat.estimators.choice import MOST_COMPARED, QUICKLY, RANDOM_WEIGHT, best_strategy, usual_weight
from bregmat.estimators.task import Task, TrainingProblem, weighted
from bregmat.from_labels.kinds import as_kinds
from bregmat.from_labels.neighbors import STRATEGIES, Drawing
from bregmat.objective.losses import Loss, as_loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import Solver
from bregmat.run.result import MatrixResult, SolverError, check
from bregmat.typing import DivergenceName, Form, Labels, LossName, Points, RandomState, SolverName, Strategy, Values


@on_one_blas_thread
class ResultLearner(AllOrNothing):
    """A learner with a ``result_`` and its constraints; model files contain both."""

    result_: MatrixResult
    constraints_: Constraints
    n_iter_: int


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
        rows, codes = self._sample(task)
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

    def _sample(self, task: Task) -> tuple[np.ndarray, np.ndarray]:
        """Evenly spaced rows and their classes. The class is -1 if it is unknown, and for all rows if y does not contain classes."""
        n = task.X.shape[0]
        rows = np.arange(n)[:: -(-n // MOST_COMPARED)]
        kinds = task.kinds.of_rows(rows)
        return rows, kinds.codes if kinds.are_classes else np.full(len(rows), -1)

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
            names = row_names(X, constraints, sample_id)
            space = None if isinstance(X, np.ndarray) else working_space(X)
            y = to_numpy("y", y)
            X = self._checked_points(X)
            given, self.n_dropped_constraints_ = given_constraints(constraints, names, X.shape[0])
            weight = None if sample_weight is None else point_weights(sample_weight, X.shape[0])
            if y is None and constraints is None:
                raise nothing_given(self)
            if given is None and constraints is not None and (y is None or self.n_constraints == 0):
                raise _none_is_left(constraints, names)
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
            as_loss(self.loss)
        as_percentiles(self.percentiles)
        is_open = self.strategy is None or (isinstance(self.strategy, str) and self.strategy == "auto")
        as_choice("strategy", "neighbors" if is_open else self.strategy, STRATEGIES)
        Drawing(self.n_neighbors, self.n_impostors, self.form)
        check_integer("passes", self.passes, 1, optional=False)
        check_flag("warm_start", self.warm_start)
        check_run(self)


# ---------------------------------------------------------------------- constraints and the rows at hand
def point_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Weights of points: those that are not 0 have mean 1."""
    weight = as_column("sample_weight", sample_weight, n, per="row of X", scalar=True, lowest=0.0)
    if not weight.any():
        raise ValueError("sample_weight must not be zero for every row of X: no point with a weight is left.")
    top = weight.max()  # so that the sum does not overflow
    return weight / top / (weight[weight > 0] / top).mean()


def present(estimator: Any, X: Any, weight: np.ndarray) -> np.ndarray:
    """Numbers of the rows whose weight is not 0."""
    here = np.flatnonzero(weight)
    if len(here) < 2:
        raise ValueError(f"sample_weight must be positive for at least 2 points; got {len(here)} of {len(weight)}.")
    is_mapped = isinstance(X, np.memmap)
    if len(here) < len(weight) and (is_mapped or get_tags(estimator).input_tags.pairwise):
        rows = rows_text(np.flatnonzero(weight == 0))
        which = "a memory-mapped X" if is_mapped else "a precomputed kernel"
        raise ValueError(f"sample_weight must be positive for {which}; got 0 in {rows}: leave these points out of X.")
    return here


def nothing_given(learner: Any) -> ValueError:
    """The error if there are neither labels nor constraints."""
    return ValueError(
        f"This {type(learner).__name__} estimator requires y to be passed, but the target y is None "
        "and so is constraints."
    )


def given_constraints(constraints: Any, names: np.ndarray | None, n: int) -> tuple[Constraints | None, int]:
    """Constraints in row numbers (None if none is left), and how many were dropped because they name a sample that is not there.

    Without names, a number beyond the rows of X is an error, because the numbers can then not be those of these rows.
    """
    if names is not None:
        if len(names) != n:
            raise ValueError(f"sample_id must name each of the {n} rows of X; got {len(names)}.")
        check_unique(names)
    if constraints is None:
        return None, 0
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be a bregmat.Constraints object; got {type(constraints).__name__}.")
    if names is None and constraints.ids is None:
        hint = "In cross-validation, or if these are not row numbers of X, pass sample_id."
        constraints.check_range(n, "X", hint)
    located, kept = constraints.locate(names, n)
    return located, int((~kept).sum())


def _none_is_left(constraints: Constraints, names: Any) -> ValueError:
    """The error if every constraint names an unknown sample; it names the first of these, and known samples of similar names."""
    used = constraints.index[~constraints.where("is_whole")]
    used = used[used >= 0]
    asked = dict.fromkeys((used if constraints.ids is None else constraints.ids[used]).tolist())
    known = [] if names is None else names.tolist()
    there = set(known)
    strangers = [name for name in asked if name not in there]
    said = [f"{name!r}{similar_name(name, known)}" for name in strangers[:3]] + strangers[3:]
    more = f" ({listed(said, 3)}; it has {listed(map(repr, known), 3)})" if strangers else ""
    return ValueError(
        f"no constraint is left: {constraints.n_constraints} name a sample that is not in sample_id{more}, and no labels are used."
    )
