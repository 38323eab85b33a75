"""What MetricLearner and KernelLearner share: parameters, and the course of a fit.

How a fit runs:

1. ``fit`` checks parameters and input and collects them in a :class:`bregmat.estimators.task.Task`.
2. ``_choose`` compares candidates for the settings that are "auto" on held-out rows (``selection``).
3. ``_problem``, which each learner defines, combines the points and their prior into a ``TrainingProblem``.
4. ``_learn`` calls ``Task.learn``, which draws constraints from the labels (``from_labels``), joins those of the caller, and has the
   problem solved by :func:`bregmat.nearest_metric` or :func:`bregmat.nearest_kernel`. With "neighbors" this is repeated
   (:class:`bregmat.estimators.task.Passes`): each pass searches neighbours in the metric of the pass before.
5. ``_fit_task``, which calls 2 to 4, raises if the result is not usable; otherwise it sets the fitted attributes, including those that the
   learner adds in ``_keep``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from bregmat.base.arrays import working_space
from bregmat.base.checks import (
    as_choice,
    check_flag,
    check_integer,
    check_positive,
    to_numpy,
)
from bregmat.base.html import escape, measured, table
from bregmat.base.points import row_names
from bregmat.base.threads import held_interrupts, on_one_blas_thread, warn_caller
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.engine.loop import Solver
from bregmat.engine.result import SolverError, check
from bregmat.engine.status import Status
from bregmat.estimators.base import ResultLearner, check_run
from bregmat.estimators.given import (
    given_constraints,
    none_is_left,
    nothing_given,
    point_groups,
    point_weights,
    present,
    weighted,
)
from bregmat.estimators.linear_maps import has_unit_rows
from bregmat.estimators.selection import FEW_ROWS, MORE_PASSES, NOT_COMPARED, Trials, matching, select
from bregmat.estimators.softmax import why_no_softmax
from bregmat.estimators.task import Candidate, Task, TrainingProblem
from bregmat.from_labels.groups import NEED_CLASSES, TARGET_TYPES, label_groups
from bregmat.from_labels.neighbors import STRATEGIES
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.losses import LOSSES, Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.solvers.base import SOLVERS
from bregmat.typing import (
    DivergenceName,
    Labels,
    LossName,
    MetricStrategy,
    Points,
    RandomState,
    SolverName,
    TargetType,
    Values,
)


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class ConstraintLearner(ResultLearner, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer that learns from labels, constraints or both. Subclasses define the problem that is solved."""

    divergence: Literal["auto"] | DivergenceName | SpectralDivergence = "auto"
    slack_weight: Literal["auto"] | float = "auto"
    loss: LossName | Loss | None = None
    strategy: Literal["auto"] | MetricStrategy | None = "auto"
    target_type: Literal["auto"] | TargetType = "auto"
    n_neighbors: int = 3
    n_impostors: int = 10
    n_constraints: int | None = None
    unlabeled: Any = -1
    solver: SolverName | Solver = "auto"
    tol: float = 1e-4
    max_iter: int | None = None
    warm_start: bool = False
    verbose: int = 0
    callback: Callable[[Any], Any] | None = None
    random_state: RandomState = None

    _strategies: ClassVar[tuple[str, ...]] = STRATEGIES
    # the settings that may be "auto", with the values that "auto" has for given constraints
    _usual: ClassVar[dict[str, Any]] = {"strategy": "neighbors", "slack_weight": 1.0}

    # If metadata routing is enabled, these are passed whole without set_fit_request.
    __metadata_request__fit = {"constraints": True, "sample_id": True, "groups": True}

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

    def _learn(self, problem: Any, task: Task) -> tuple[MatrixResult, Constraints | None]:
        """The result, and its constraints in row numbers of X; None with "softmax"."""
        return task.learn(problem)

    @abstractmethod
    def _keep(self, problem: Any, task: Task, result: MatrixResult) -> None:
        """Set the fitted attributes that only this learner has."""

    # ------------------------------------------------------------------ settings that are "auto"
    @abstractmethod
    def _candidates(self, task: Task) -> list[Candidate]:
        """All candidates for the settings that may be "auto", simpler ones first."""

    def _trials(self, sample: Task, task: Task) -> Trials:
        """Quick fits of candidates to rows of a sample of a task."""
        return Trials(self, sample)

    def _choose(self, task: Task, groups: Any) -> Candidate:
        """The candidate that is fitted; sets ``selection_``.

        Nothing is compared if all settings are fixed, or if constraints are given, whose bounds have the units of the data.
        """
        if self.strategy == "softmax" and task.labels is not None and (why := why_no_softmax(task)):
            raise ValueError(why)
        asked = {name: getattr(self, name) for name in self._usual}
        fixed = {name: value for name, value in asked.items() if not (isinstance(value, str) and value == "auto")}
        if not isinstance(fixed.get("prior", ""), str):
            fixed["prior"] = "given"
        is_given = task.labels is None or task.constraints is not None
        free = asked.keys() - fixed.keys()
        if "metric" in free and not (is_given or task.is_in_blocks) and has_unit_rows(task.X):
            fixed["metric"] = "cosine"
        best = Candidate(**(self._usual | fixed))
        is_repeated, selection = best.strategy == "neighbors", None
        if is_given:
            best = replace(best, passes=MORE_PASSES if is_repeated else 1)
        elif free - {"metric"} or (is_repeated and len(task.labels.labelled) > FEW_ROWS):
            candidates = self._candidates(replace(task, candidate=best))
            selection = select(self, task, matching(candidates, **fixed), groups)
            best = selection.candidates[selection.best]
        cells: dict[str, Any] = {"candidate": str(best)} | NOT_COMPARED
        self._fit_selection: dict[str, list[Any]] = {name: [value] for name, value in cells.items()}
        if selection is not None:
            self._fit_selection = selection.table()
            if best.strategy is None and self.strategy == "auto":
                warn_caller(
                    "no candidate that learns is better than not learning on held-out rows: the result is the prior "
                    f"({best}). See selection_; strategy='neighbors' learns all the same."
                )
        return best

    @property
    def selection_(self) -> Any:
        """The candidates that were compared: a pandas data frame, or a dict of its columns if pandas is not installed.

        Columns: ``candidate``, its mean ``score`` on held-out rows with the ``standard_error`` over these rows, ``n_folds`` on which it was
        tried, ``seconds``, and ``chosen``. There is one row without a score if nothing was compared.
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError:
            return self._fit_selection
        return pd.DataFrame(self._fit_selection)

    @property
    def _repr_html_(self) -> Any:
        inner = super()._repr_html_  # scikit-learn has none if it displays estimators as text
        return lambda: inner() + self._fit_summary()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._fit_summary()
        return bundle

    def _fit_summary(self) -> str:
        """HTML of the certificate and of the candidates that were compared; empty before a fit."""
        if not self.__sklearn_is_fitted__():
            return ""
        columns = {
            name: self._fit_selection[name] for name in ("candidate", "score", "standard_error", "n_folds", "chosen")
        }
        rows = [
            (escape(row[0]), *map(measured, row[1:4]), "chosen" if row[4] else "") for row in zip(*columns.values())
        ]
        header = ("candidate", "score on held-out rows", "standard error", "folds", "")
        return f"<p>{escape(self.result_.ending)}</p>{table(header, rows)}{self._gain(columns)}"

    def _gain(self, columns: dict[str, list[Any]]) -> str:
        """HTML of how much better the chosen candidate is than not learning; empty if not both were tried."""
        scores = dict(zip(columns["candidate"], columns["score"]))
        chosen = columns["candidate"][columns["chosen"].index(True)]
        unlearned = [score for name, score in scores.items() if "not learned" in name]
        if not unlearned or "not learned" in chosen:
            return ""
        return f"<p>{escape(chosen)} was chosen: its score is {scores[chosen] - max(unlearned):.3f} above not learning.</p>"

    # ------------------------------------------------------------------ fit
    def fit(
        self,
        X: Points | Factor,
        y: Labels | None = None,
        *,
        constraints: Constraints | None = None,
        sample_id: Labels | None = None,
        sample_weight: Values | None = None,
        groups: Labels | None = None,
    ) -> Self:
        """Learn from labels, constraints or both.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d), or Factor
            Points; finite. For a :class:`bregmat.KernelLearner` kernel values (n, n) with "precomputed". With "linear" also a
            memory-mapped array or a :class:`bregmat.Factor` of one; with "logdet" and without y only its rows in constraints are read. For
            a :class:`bregmat.MetricLearner` also a tensor on a GPU, where the solver then computes its long sums.
        y : array-like, shape (n,) or (n, n_labels), optional
            Class labels of any type, numbers, or sets of labels as 0 and 1: see ``target_type``. Rows with the label ``unlabeled``, None
            or NaN, and sets without a label, are unknown.
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
        groups : array-like, shape (n,), optional
            Rows of one group (a person, a document) are held out together when settings that are "auto" are compared.

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
            settings = self._check_parameters()
            is_given = sample_id is not None or constraints is not None
            names = row_names(X, constraints, sample_id) if is_given else None
            space = None if isinstance(X, np.ndarray) else working_space(X)
            y = to_numpy("y", y)
            X, located, self.n_dropped_constraints_ = self._checked_points(X), None, 0
            if is_given:
                located, self.n_dropped_constraints_ = given_constraints(constraints, names, X.shape[0])
            weight = None if sample_weight is None else point_weights(sample_weight, X.shape[0])
            groups = None if groups is None else point_groups(groups, X.shape[0])
            if y is None and constraints is None:
                raise nothing_given(self)
            if located is None and constraints is not None and (y is None or self.n_constraints == 0):
                raise none_is_left(constraints, names)
            if y is not None:
                shape: tuple[int, ...] = getattr(y, "shape", ())
                if len(shape) == 2 and (shape[1] == 1 or self.strategy in NEED_CLASSES):
                    y = column_or_1d(y, warn=True)
                check_consistent_length(X, y)
            if weight is not None and not weight.all():
                here = present(self, X, weight)
                y = None if y is None else _safe_indexing(y, here)
                X, weight, names = X[here], weight[here], here if names is None else names[here]
                groups = None if groups is None else groups[here]
                located, self.n_dropped_constraints_ = given_constraints(constraints, names, len(here))
            labels = None
            if y is not None and self.n_constraints != 0:
                how = {"unlabeled": self.unlabeled, "target_type": self.target_type}
                labels = label_groups(y, X.shape[0], self.strategy, **how)
            if located is not None and weight is not None:
                located = weighted(located, weight)
            task = Task(self, X, located, labels, settings, previous, weight, space, names)
            self._fit_task(task, groups, self._problem)
        return self

    def _fit_task(self, task: Task, groups: Any, problem_of: Callable[[Task], TrainingProblem]) -> None:
        """Choose settings and learn; set the fitted attributes if the result is usable.

        Constraints name their samples as the caller does.
        """
        task = replace(task, candidate=self._choose(task, groups))
        problem, names = problem_of(task), task.names
        result, rows = self._learn(problem, task)
        if rows is not None and names is not None:
            if names.dtype.kind in "iu" and (names >= 0).all():
                rows = replace(rows, index=rows.renumbered(names.__getitem__))
            else:
                rows = replace(rows, ids=names)
        try:
            if result.status is not Status.OPTIMAL:
                check(result)
        except SolverError as error:
            error.constraints = rows
            raise
        with held_interrupts():
            self._keep(problem, task, result)
            self.strategy_: MetricStrategy | None = task.candidate.strategy
            self.slack_weight_: float = task.slack_weight()
            self.constraints_: Constraints | None = rows
            self.n_iter_: int = max(1, result.n_iter)  # scikit-learn wants at least one step
            self.result_: MatrixResult = result

    def _check_parameters(self) -> dict[str, Any]:
        """Raise for a hyper-parameter that no data could make valid. Returns the arguments of the problem that is solved."""
        check_integer("n_constraints", self.n_constraints, 0)
        if not (isinstance(self.slack_weight, str) and self.slack_weight == "auto"):
            check_positive("slack_weight", self.slack_weight)
        if self.loss is not None:
            LOSSES.resolve(self.loss)
        is_auto = isinstance(self.divergence, str) and self.divergence == "auto"
        divergence = DIVERGENCES.resolve("logdet" if is_auto else self.divergence)
        if not (isinstance(self.solver, str) and self.solver == "auto"):
            SOLVERS.resolve(self.solver)
        as_choice("target_type", self.target_type, TARGET_TYPES)
        is_open = self.strategy is None or (isinstance(self.strategy, str) and self.strategy == "auto")
        as_choice("strategy", "neighbors" if is_open else self.strategy, self._strategies)
        check_integer("n_neighbors", self.n_neighbors, 1, optional=False)
        check_integer("n_impostors", self.n_impostors, 1, optional=False)
        check_flag("warm_start", self.warm_start)
        check_run(self)
        return {name: getattr(self, name) for name in ("loss", "solver", "tol", "max_iter")} | {
            "divergence": divergence
        }
