"""What MetricLearner and KernelLearner share: constraints from labels and from the caller, the course of a fit, files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bregmat.base.arrays import to_numpy, working_space
from bregmat.base.checks import as_column, check_flag, check_integer, check_positive, rows_text
from bregmat.base.html import listed
from bregmat.base.points import row_names
from bregmat.base.sampling import check_percentiles
from bregmat.base.threads import held_interrupts, on_one_blas_thread
from bregmat.constraints.columns import check_unique, similar_name
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import AllOrNothing, check_run, say
from bregmat.estimators.choice import MOST_COMPARED, QUICKLY, RANDOM_WEIGHT, best_strategy, usual_weight
from bregmat.estimators.task import PointLabels, Task
from bregmat.from_labels.labels import check_drawing
from bregmat.objective.losses import as_loss
from bregmat.objective.scalar_losses import Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import Solver
from bregmat.run.result import MatrixResult, SolverError, check
from bregmat.typing import DivergenceName, Form, Labels, LossName, Points, RandomState, SolverName, Strategy, Values


@on_one_blas_thread
class ResultLearner(AllOrNothing):
    """A learner with a ``result_`` and the constraints it is of; in files, both go along."""

    result_: MatrixResult
    constraints_: Constraints
    n_iter_: int


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class ConstraintLearner(ResultLearner, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer that learns from labels, constraints or both; subclasses say what they learn."""

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

    _decided: ClassVar[tuple[str, ...]] = ()  # parameters that may be "auto"

    # Whole by default when metadata routing is enabled: no set_fit_request is needed.
    __metadata_request__fit = {"constraints": True, "sample_id": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True  # unless constraints are given
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ what subclasses give
    @abstractmethod
    def _checked_points(self, X: Any) -> Any:
        """The training points, checked against the parameters."""

    @abstractmethod
    def _learn(self, X: Any, task: Task) -> tuple[MatrixResult, Constraints]:
        """The result, and its constraints in row numbers of X."""

    def _keep(self, X: Any, task: Task, result: MatrixResult) -> None:
        """Set what else the subclass has to say once the result is known to be one."""

    # ------------------------------------------------------------------ what "auto" stands for
    def _decide(self, X: Any, task: Task, compared: Mapping[str, float] = MappingProxyType({})) -> None:
        """Set :attr:`strategy_`, :attr:`slack_weight_`, and the accuracies that decided, after those compared before."""
        self.comparison_: dict[str, float] = dict(compared)
        self.strategy_: Strategy | None
        self.strategy_, factor = self._decided_strategy(X, task)
        self.slack_weight_: float = self._decided_weight(task, factor)
        if self.comparison_ and self.verbose:
            found = ", ".join(f"{name} {value:.3f}" for name, value in self.comparison_.items())
            n = min(X.shape[0], MOST_COMPARED)
            say(f"accuracy of 4 neighbours on {n} training rows: {found}")

    def _decided_strategy(self, X: Any, task: Task) -> tuple[Strategy | None, float]:
        """The strategy, and the factor of its slack weight."""
        if self.strategy != "auto":
            return self.strategy, 1.0
        if task.labels is None or task.given is not None or not self._may_compare:
            return "neighbors", 1.0
        rows, codes = self._sample(X, task)
        quick = type(self)(**self.get_params(deep=False) | QUICKLY | self._quickly)

        def mapped(strategy: Strategy | None, train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
            quick.set_params(strategy=strategy, slack_weight=self._usual_weight(strategy, len(train)))
            A, y = _safe_split(quick, sample, codes, train)
            B, _ = _safe_split(quick, sample, codes, test, train)
            ConstraintLearner.fit(quick, A, y)  # a subclass may count its own fits
            return np.asarray(quick.transform(A)), np.asarray(quick.transform(B))

        sample = X[np.ix_(rows, rows)] if get_tags(self).input_tags.pairwise else X[rows]
        best, factor, found = best_strategy(mapped, codes)
        self.comparison_ |= found
        return best, factor

    @property
    def _may_compare(self) -> bool:
        """Whether a part of the points can be learned from as all of them are."""
        return True

    @property
    def _quickly(self) -> dict[str, Any]:
        """Further settings of learners that are compared."""
        return {}

    def _decided_weight(self, task: Task, factor: float) -> float:
        weight: Any = self.slack_weight
        if weight != "auto":
            return float(weight)
        return factor * self._usual_weight(None if task.labels is None else self.strategy_, task.n_points)

    def _usual_weight(self, strategy: Strategy | None, n: int) -> float:
        """The slack weight of a strategy that is to be compared or was chosen."""
        weight: Any = self.slack_weight
        if weight != "auto":
            return float(weight)
        if strategy == "random" and self.strategy == "auto":
            return RANDOM_WEIGHT
        return usual_weight(1.0, n) if strategy == "neighbors" else 1.0

    def usual_slack_weight(self, n: int) -> float:
        """What ``slack_weight`` is for n training points, apart from what their labels decide."""
        return self._usual_weight("neighbors" if self.strategy == "auto" else self.strategy, n)

    def _sample(self, X: Any, task: Task) -> tuple[np.ndarray, np.ndarray]:
        """Some rows, evenly spaced, and their classes (-1: not known); none known where y is no class labels."""
        rows = np.arange(X.shape[0])[:: -(-X.shape[0] // MOST_COMPARED)]
        kinds = task.labels.kinds_of(rows)
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
            Points; finite. For a :class:`bregmat.KernelLearner` kernel values (n, n) with "precomputed"; with "linear" a
            memory-mapped array or a :class:`bregmat.Factor` of one is read only where constraints touch it ("logdet", without
            y), else once. For a :class:`bregmat.MetricLearner` also a tensor on a GPU, where the long sums of the solver are made then.
        y : array-like, shape (n,), optional
            Class labels of any type; rows labelled ``unlabeled``, None or NaN take no part in the pairs.
        constraints : Constraints, optional
            Name values of ``sample_id``, or row numbers of X.
        sample_id : array-like, shape (n,), optional
            Name of each row of X; unique. By default the row numbers; the index of a pandas DataFrame if the
            constraints name samples by anything but numbers.
        sample_weight : array-like, shape (n,), optional
            How much each point counts; at least 0, not all 0; only ratios matter. The weight of a row is multiplied by the weights of
            the different points it names, as often as the row would be drawn from points repeated that often; then rows drawn from
            labels are scaled back to their sum, and those given to points of mean weight 1 (hard ones stay hard). What rows ask for
            does not change: bounds, margins, neighbours and the prior count each point once. A point of weight 0 is absent: from
            all of this, and constraints that name it are dropped and counted. With a kernel that is "precomputed" and for memory
            maps weights are positive.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad parameter or input, named in the message; a kernel that is not positive semidefinite on the points looked
            at; neither labels nor constraints.
        SolverError
            The constraints are contradictory, or the computation is not finite. No fitted attribute is left.
        KeyboardInterrupt
            Ctrl-C. What was learned by then, if anything, is kept: ``result_`` and all else, named in a RuntimeWarning.
        """
        previous = vars(self).get("result_") if self.warm_start else None
        with self._fitting():
            self._check_parameters()
            names = row_names(X, constraints, to_numpy("sample_id", sample_id))
            space, y = working_space(X), to_numpy("y", y)
            X = self._checked_points(X)
            given, self.n_dropped_constraints_ = given_constraints(constraints, names, X.shape[0])
            weight = point_weights(sample_weight, X.shape[0])
            self._check_asked(y, constraints)
            if given is None and constraints is not None and (y is None or self.n_constraints == 0):
                raise _none_is_left(constraints, names)
            if y is not None:
                shape: tuple[int, ...] = getattr(y, "shape", ())
                if len(shape) == 2 and (shape[1] == 1 or self.strategy not in ("auto", "neighbors", None)):
                    y = column_or_1d(y, warn=True)
                check_consistent_length(X, y)
            if weight is not None and not weight.all():
                here = present(self, X, weight)
                y = None if y is None else _safe_indexing(y, here)
                X, weight, names = X[here], weight[here], here if names is None else names[here]
                given, self.n_dropped_constraints_ = given_constraints(constraints, names, len(here))
            is_used = y is not None and self.n_constraints != 0
            labels = PointLabels(y, X.shape[0], self.unlabeled) if is_used else None
            task = Task(self, X.shape[0], given, labels, previous, weight, space)
            result, rows = self._learn(X, task)
            self._keep_all(X, task, result, _named_constraints(rows, names))
        return self

    def _check_asked(self, y: Any, constraints: Any) -> None:
        """Raise where there is nothing to learn from."""
        if y is None and constraints is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None "
                "and so is constraints."
            )

    def _keep_all(self, X: Any, task: Task, result: MatrixResult, named: Any) -> None:
        """Set the fitted attributes, unless the result is none."""
        try:
            check(result)
        except SolverError as error:
            error.constraints = named
            raise
        with held_interrupts():
            self._keep(X, task, result)
            self.constraints_: Constraints = named
            self.result_: MatrixResult = result
            self.n_iter_: int = max(1, result.n_iter)  # scikit-learn wants one step at least

    def _check_parameters(self) -> None:
        """Raise for a hyper-parameter that no data could make valid."""
        check_integer("n_constraints", self.n_constraints, 0)
        if not is_auto(self.slack_weight):
            check_positive("slack_weight", self.slack_weight)
        as_loss(self.loss)
        check_percentiles(self.percentiles)
        is_drawn = self.strategy is not None and not is_auto(self.strategy)
        check_drawing(self.strategy if is_drawn else "neighbors", self.n_neighbors, self.n_impostors, self.form)
        check_integer("passes", self.passes, 1, optional=False)
        check_flag("warm_start", self.warm_start)
        check_run(self)


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the learner."""
    return isinstance(value, str) and value == "auto"


# ---------------------------------------------------------------------- constraints and the rows at hand
def point_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights of points, of mean 1 where they are not 0; None where none are given."""
    if sample_weight is None:
        return None
    weight = as_column("sample_weight", sample_weight, n, per="row of X", scalar=True, lowest=0.0)
    if not weight.any():
        raise ValueError("sample_weight must not be zero for every row of X: no point with a weight is left.")
    top = weight.max()  # huge and tiny ones have a mean, too
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


def given_constraints(constraints: Any, names: np.ndarray | None, n: int) -> tuple[Constraints | None, int]:
    """Constraints in row numbers (None if none applies), and how many name a sample that is not there.

    Without names, a number beyond the data is an error: it would mean that the numbers are not those of these rows.
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
    """The error of constraints all of which name a sample that is not there: the first of these, and what is much like them."""
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


def _named_constraints(rows: Constraints, names: np.ndarray | None) -> Constraints:
    """Constraints in row numbers, named by ``names``."""
    if names is None:
        return rows
    if names.dtype.kind not in "iu" or (names < 0).any():
        return replace(rows, ids=names)
    return replace(rows, index=rows.renumbered(names.__getitem__))
