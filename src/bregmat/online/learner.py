"""What the online learners share: a block is learned as a whole or not at all, and what fixed matrices would have lost."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import column_or_1d

from bregmat.base.arrays import to_numpy
from bregmat.base.checks import check_flag, check_positive
from bregmat.estimators.base import check_labelled
from bregmat.typing import Table


class Undo:
    """What is done to a learner within is taken back if anything goes wrong, Ctrl-C included.

    Attributes that were set or deleted come back by themselves. ``marks``: what is changed in place, each object with what
    its ``go_back`` wants to hear.
    """

    def __init__(self, learner: Any, marks: list[tuple[Any, Any]]) -> None:
        self.learner, self.marks, self.before = learner, marks, dict(vars(learner))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self.learner.__dict__ = self.before
            for part, mark in self.marks:
                part.go_back(mark)


class StreamLearner(BaseEstimator):
    """An estimator of scikit-learn that can be cloned as river's are."""

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """A copy, as river's models make one of themselves.

        Parameters
        ----------
        new_params : dict, optional
            Parameters that the copy has in place of these.
        include_attributes : bool
            Whether it has learned what this one has; not with new parameters. By default it has seen nothing.
        """
        check_flag("include_attributes", include_attributes)
        if new_params is not None and not isinstance(new_params, Mapping):
            raise TypeError(f"new_params must be a dict of parameters; got {new_params!r}.")
        if include_attributes:
            if new_params:
                raise ValueError(
                    f"include_attributes: what was learned belongs to the old parameters; got {new_params!r}."
                )
            return copy.deepcopy(self)
        fresh: Self = clone(self)
        return fresh.set_params(**(new_params or {}))


def whole_labels(learner: Any, y: Any) -> Any:
    """Labels of many examples, those refused that scikit-learn has words for: none, complex ones; a column becomes flat, with a warning."""
    check_labelled(learner, y)
    try:
        array = y if isinstance(y, np.ndarray) else np.asarray(to_numpy("y", y))
    except ValueError:
        return y  # refused by name later
    if array.dtype.kind == "c":
        raise ValueError("y must be real; got complex numbers. Complex data not supported.")
    return column_or_1d(array, warn=True) if array.ndim == 2 and array.shape[1] == 1 else array


class OnlineLearner(StreamLearner, ABC):
    """The loss so far beside that of fixed matrices.

    Subclasses keep a ``_record`` of the stream (None where nothing is recorded yet), and say whether there is one, how a
    matrix is read and what it loses on the record.
    """

    _record: Any
    _hint: ClassVar[str] = ""  # when a stream need not be kept

    def loss_of(self, U: Table) -> float:
        """Total loss of a fixed matrix U (d, d) on the stream so far; needs a record of it (``keep_examples=True``)."""
        U = self._read_comparison(U)
        self._check_recorded()
        return 0.0 if self._record is None else self._total_loss(U, self._record)

    def regret(self, U: Table | None = None, *, loss_of_U: float | None = None) -> float:
        """Total loss so far minus that of a fixed matrix U (d, d); None is the best one in hindsight, where that is known.

        ``loss_of_U`` spares the learner from knowing the stream; otherwise it needs what :meth:`loss_of` needs.
        """
        if loss_of_U is not None:
            check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        else:
            loss_of_U = self._best_loss() if U is None else self.loss_of(U)
        return self.cumulative_loss_ - float(loss_of_U)

    # ------------------------------------------------------------------ of the subclass
    @property
    @abstractmethod
    def cumulative_loss_(self) -> float:
        """Total loss of the predictions so far, each made before its label was used."""

    @abstractmethod
    def _is_recorded(self) -> bool:
        """Whether the stream is recorded, from its beginning."""

    @abstractmethod
    def _read_comparison(self, U: Table) -> np.ndarray:
        """A matrix to compare with, checked."""

    @abstractmethod
    def _total_loss(self, U: np.ndarray, record: Any) -> float:
        """Total loss of a fixed matrix on the record."""

    def _best_loss(self) -> float:
        """Total loss of the best matrix in hindsight."""
        raise ValueError(
            f"regret needs the matrix U to compare with: {type(self).__name__} does not look for the best one."
        )

    def _check_recorded(self) -> None:
        if not self._is_recorded():
            raise ValueError(
                f"the stream was not kept: make the learner with keep_examples=True, or give loss_of_U{self._hint}."
            )
