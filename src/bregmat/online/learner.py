"""Common parts of the online learners: warnings, labels, undoing a failed block, and losses of fixed matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d

from bregmat.base.checks import check_positive, to_numpy
from bregmat.estimators.base import check_labelled
from bregmat.typing import Table


class SpectralSpreadWarning(UserWarning):
    """An instance has a larger spectral spread than promised; the loss bound no longer holds."""


class UnreachableLabelWarning(UserWarning):
    """A label cannot be predicted by any matrix of the learner's trace within the loss budget, or by any metric."""


@contextmanager
def undone_on_error(learner: Any, marks: Sequence[tuple[Any, Any]] = ()) -> Iterator[None]:
    """A context in which an exception, also `KeyboardInterrupt`, resets a learner to what it was before.

    Attributes that were set or deleted are reset by themselves. ``marks`` has the objects that are changed in place, each with the
    argument of its method ``go_back``.
    """
    before = dict(vars(learner))
    try:
        yield
    except BaseException:
        learner.__dict__ = before
        for part, mark in marks:
            part.go_back(mark)
        raise


class StreamLearner(BaseEstimator):
    """An estimator that :func:`bregmat.online.run_stream` can train."""

    _takes_labels: ClassVar[bool] = True  # whether learn_one takes a label
    _takes_senses: ClassVar[bool] = False  # whether learn_one takes a sense

    def _check_early(self) -> None:
        """Check the parameters as far as this is possible before the first example."""

    def _claimed_bound(self) -> float:
        """The bound on the total loss that needs no comparison matrix; NaN if there is none."""
        return float("nan")

    def _why_no_bound(self) -> str | None:
        """The reason why :meth:`_claimed_bound` is infinite, if it is."""
        return None


def as_labels(learner: Any, y: Any) -> Any:
    """Labels of many examples; raises in scikit-learn's words for none and for complex ones, and flattens a column with a warning."""
    check_labelled(learner, y)
    try:
        array = y if isinstance(y, np.ndarray) else np.asarray(to_numpy("y", y))
    except ValueError:
        return y  # as_column refuses it later and names the argument
    if array.dtype.kind == "c":
        raise ValueError("y must be real; got complex numbers. Complex data not supported.")
    return column_or_1d(array, warn=True) if array.ndim == 2 and array.shape[1] == 1 else array


class OnlineLearner(StreamLearner, ABC):
    """A learner whose total loss is compared with the loss of fixed matrices on the same stream."""

    @property
    @abstractmethod
    def cumulative_loss_(self) -> float:
        """Total loss of the predictions so far, each made before its label was used."""

    @abstractmethod
    def loss_of(self, U: Any) -> float:
        """Total loss of a fixed matrix U (d, d) on the stream so far, which has to be recorded."""

    def regret(self, U: Table | None = None, *, loss_of_U: float | None = None) -> float:
        """Total loss so far minus that of a fixed matrix U (d, d), which is :meth:`loss_of` U unless it is given."""
        if loss_of_U is not None:
            check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        return self.cumulative_loss_ - float(self.loss_of(U) if loss_of_U is None else loss_of_U)


def check_recorded(is_recorded: bool, hint: str = "") -> None:
    """Raise unless the stream is recorded from its beginning."""
    if not is_recorded:
        raise ValueError(f"the stream was not kept: make the learner with keep_examples=True, or give loss_of_U{hint}.")
