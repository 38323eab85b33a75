"""What MetricLearner and KernelLearner share: constraints from labels and from the caller, the course of a fit, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from bregmat.checks import check_integer, check_positive, rows_text
from bregmat.constraints import Constraints
from bregmat.estimators.base import AllOrNothing, callback_of, check_run
from bregmat.estimators.state import (
    constraints_restored,
    constraints_state,
    estimator_restored,
    estimator_state,
    prefixed,
    unprefixed,
)
from bregmat.labels import check_percentiles
from bregmat.result import MatrixResult, check

Draw = Callable[[Callable[..., Constraints]], Constraints]  # all rows of a fit, given what draws pairs from labels
Solve = Callable[..., MatrixResult]  # nearest_..., its first two arguments, more of them


@dataclass(frozen=True, eq=False)
class Learned:
    """MatrixResult and rows used; of a kernel also the kernel on any points, the captured share of the trace, points to keep."""

    result: MatrixResult
    rows: Constraints
    map: Any = None
    captured: float = 1.0
    points: Any = None


class ConstraintLearner(AllOrNothing, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer that learns from labels, constraints or both; subclasses say what they learn."""

    divergence: Any
    slack_weight: Any
    loss: Any
    n_constraints: Any
    percentiles: Any
    unlabeled: Any
    solver: Any
    tol: Any
    max_iter: Any
    warm_start: Any
    random_state: Any

    # Whole by default when metadata routing is enabled: no set_fit_request is needed.
    __metadata_request__fit = {"constraints": True, "sample_id": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True  # unless constraints are given
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ what subclasses give
    def _checked_points(self, X: Any) -> Any:
        """The training points, checked against the parameters."""
        raise NotImplementedError

    def _learn(self, X: Any, draw: Draw, solve: Solve) -> Learned:
        """The result, and its constraints in row numbers of X."""
        raise NotImplementedError

    def _keep(self, X: Any, learned: Learned) -> None:
        """Set the fitted attributes of the subclass."""
        raise NotImplementedError

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any = None, *, constraints: Constraints | None = None, sample_id: Any = None) -> Self:
        """Learn from labels, constraints or both.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d), or Factor
            Points; finite. For a :class:`bregmat.KernelLearner` kernel values (n, n) with "precomputed"; with "linear" a
            memory-mapped array or a :class:`bregmat.Factor` of one is read only where constraints touch it ("logdet", without
            y), else once.
        y : array-like, shape (n,), optional
            Class labels of any type; rows labelled ``unlabeled``, None or NaN take no part in the pairs.
        constraints : Constraints, optional
            Name values of ``sample_id``, or row numbers of X.
        sample_id : array-like, shape (n,), optional
            Name of each row of X; unique. By default the row numbers; the index of a pandas DataFrame if the
            constraints name samples by anything but numbers.

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
        """
        previous = vars(self).get("result_") if self.warm_start else None
        with self._fitting():
            self._check_parameters()
            names = row_names(X, constraints, sample_id)
            X = self._checked_points(X)
            given, self.n_dropped_constraints_ = given_constraints(constraints, names, X.shape[0])
            y = self._checked_labels(X, y, constraints)
            learned = self._learn(X, partial(self._rows, given, y), partial(self._solve, previous))
            check(learned.result)
            self._keep(X, learned)
            self.constraints_ = named_constraints(learned.rows, names)
            self.n_iter_ = learned.result.n_iter
            self.result_ = learned.result
        return self

    def _checked_labels(self, X: Any, y: Any, constraints: Any) -> Any:
        """Labels as one column, None without any."""
        if y is None and constraints is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None "
                "and so is constraints."
            )
        if y is not None:
            y = column_or_1d(y, warn=True) if len(getattr(y, "shape", ())) == 2 else y
            check_consistent_length(X, y)
        return None if self.n_constraints == 0 else y

    def _rows(self, given: Constraints | None, y: Any, draw: Callable[..., Constraints]) -> Constraints:
        """Rows drawn from the labels by ``draw``, joined with those given."""
        drawn = None
        if y is not None:
            labels = {"percentiles": self.percentiles, "unlabeled": self.unlabeled, "random_state": self.random_state}
            drawn = draw(y, self.n_constraints, **labels)
        return joined_constraints(drawn, given, self.n_dropped_constraints_)

    def _solve(
        self,
        previous: MatrixResult | None,
        nearest: Callable[..., MatrixResult],
        points: Any,
        rows: Constraints,
        **more: Any,
    ) -> MatrixResult:
        """The result of ``nearest_kernel`` or ``nearest_metric`` by the parameters."""
        return nearest(
            points,
            rows,
            divergence=self.divergence,
            loss=self.loss,
            slack_weight=float(self.slack_weight),
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=previous if previous is not None and len(previous.dual) == rows.n_constraints else None,
            callback=callback_of(self),
            **more,
        )

    def _check_parameters(self) -> None:
        """Raise for a hyper-parameter that no data could make valid."""
        check_integer("n_constraints", self.n_constraints, 0)
        check_positive("slack_weight", self.slack_weight)
        check_percentiles(self.percentiles)
        check_run(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "result_" in vars(self)

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays that :meth:`from_state` makes the fitted learner from; for :func:`bregmat.save`."""
        check_is_fitted(self)
        meta, arrays = estimator_state(self, self.get_params(deep=False))
        meta["result"], result_arrays = self.result_.to_state()
        meta["n_dropped_constraints"] = self.n_dropped_constraints_
        arrays |= prefixed("result", result_arrays) | (constraints_state(self.constraints_) or {})
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """The fitted learner; without ``constraints_`` if these had matrices or names that files cannot hold."""
        learner = estimator_restored(cls, meta, arrays)
        learner.result_ = MatrixResult.from_state(meta["result"], unprefixed("result", arrays))
        learner.n_iter_ = learner.result_.n_iter
        learner.n_dropped_constraints_ = int(meta["n_dropped_constraints"])
        constraints = constraints_restored(arrays)
        if constraints is not None:
            learner.constraints_ = constraints
        return learner


# ---------------------------------------------------------------------- constraints and the rows at hand
def row_names(X: Any, constraints: Any, sample_id: Any) -> np.ndarray | None:
    """Name of each row of X, None for row numbers.

    A pandas index is used when constraints name samples by something else than numbers and no ``sample_id`` is given.
    """
    if sample_id is None:
        if getattr(constraints, "ids", None) is None or not hasattr(X, "iloc"):
            return None
        sample_id = X.index
    names = np.asarray(sample_id)
    if names.ndim != 1:
        raise ValueError(f"sample_id must be 1-dimensional, one name per row of X; got shape {names.shape}.")
    if names.dtype.kind == "O" and all(isinstance(v, str) for v in names):
        names = names.astype(str)
    return names


def given_constraints(constraints: Any, names: np.ndarray | None, n: int) -> tuple[Constraints | None, int]:
    """Constraints in row numbers (None if none applies), and how many name a sample that is not there.

    Without names, a number beyond the data is an error: it would mean that the numbers are not those of these rows.
    """
    if constraints is None:
        return None, 0
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be a bregmat.Constraints object; got {type(constraints).__name__}.")
    if names is None:
        named = ~constraints.where("is_whole")
        outside = np.flatnonzero((constraints.index >= n).any(axis=1) & named)
        if constraints.ids is None and len(outside):
            raise ValueError(
                f"constraints name samples up to {constraints.index[named].max()} but X has {n} rows "
                f"({rows_text(outside)} of the constraints). In cross-validation, or if these are not row numbers of "
                "X, pass sample_id."
            )
    elif len(names) != n:
        raise ValueError(f"sample_id must name each of the {n} rows of X; got {len(names)}.")
    located, kept = constraints.locate(names, n)
    return located, int((~kept).sum())


def joined_constraints(drawn: Constraints | None, given: Constraints | None, n_dropped: int) -> Constraints:
    """Both, or the one there is; an error if there is none."""
    if drawn is not None and given is not None:
        return drawn + given
    rows = drawn if drawn is not None else given
    if rows is None:
        raise ValueError(
            f"no constraint is left: {n_dropped} name a sample that is not in sample_id, and no labels are used."
            if n_dropped
            else "no constraint is left: n_constraints=0 ignores y, and constraints is None."
        )
    return rows


def named_constraints(rows: Constraints, names: np.ndarray | None) -> Constraints:
    """Constraints in row numbers, named by ``names``."""
    if names is None:
        return rows
    if names.dtype.kind not in "iu" or (names < 0).any():
        return replace(rows, ids=names)
    index = rows.index.copy()
    used = (index >= 0) & ~rows.where("is_whole")[:, None]
    index[used] = names[index[used]]
    return replace(rows, index=index)
