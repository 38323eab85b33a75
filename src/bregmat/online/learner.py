"""Common parts of the online learners: warnings, labels, and undoing a failed block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from bregmat.base.checks import to_numpy
from bregmat.estimators.base import check_labelled


class SpectralSpreadWarning(UserWarning):
    """An instance has a larger spectral spread than promised; the loss bound no longer holds."""


class UnreachableLabelWarning(UserWarning):
    """A label cannot be predicted by any matrix of the learner's trace within the loss budget, or by any metric."""


@contextmanager
def undone_on_error(learner: Any, go_back: Callable[[], None] | None = None) -> Iterator[None]:
    """A context in which an exception, also `KeyboardInterrupt`, resets a learner to what it was before.

    Attributes that were set or deleted are reset by themselves; ``go_back`` undoes what was changed in place.
    """
    before = dict(vars(learner))
    try:
        yield
    except BaseException:
        learner.__dict__ = before
        if go_back is not None:
            go_back()
        raise


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
