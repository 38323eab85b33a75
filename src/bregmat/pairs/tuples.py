"""Checks of tuples of points, given by value or by indices that a preprocessor maps to points.

The messages about shapes and labels are those of metric-learn, word for word, for code that matches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import as_column, rows_text, to_numpy
from bregmat.base.points import check_numeric


@dataclass(frozen=True, eq=False)
class PointTuples:
    """Points, and the row numbers of the points of each tuple.

    Attributes
    ----------
    points : ndarray or scipy.sparse or data frame, shape (n, d)
    index : ndarray of int, shape (m, size)
    """

    points: Any
    index: np.ndarray

    @property
    def size(self) -> int:
        """Number of points of a tuple."""
        return self.index.shape[1]

    def distinct(self) -> PointTuples:
        """The same tuples with every distinct point once; sparse points stay as they are."""
        if sp.issparse(self.points):
            return self
        points, inverse = np.unique(self.points, axis=0, return_inverse=True)
        return PointTuples(points, inverse.reshape(-1)[self.index])


def as_tuples(learner: Any, tuples: Any, sizes: Sequence[int]) -> PointTuples:
    """Checked tuples of points, or of indices if the learner has a preprocessor.

    Raises ``ValueError`` or ``TypeError`` if the array has another number of dimensions, tuples have a number of points that is not in
    ``sizes``, there is no tuple, or entries are not numbers.
    """
    preprocessor, name = as_preprocessor(learner.preprocessor), type(learner).__name__
    tuples = to_numpy("tuples", tuples)
    try:
        array = np.asarray(tuples)
    except ValueError as error:
        raise ValueError(f"tuples must be an array, each tuple with as many points as the others; {error}") from error
    indices = array.ndim == 2 and preprocessor is not None
    if not (indices and array.dtype.kind in "OUS"):
        check_numeric("tuples", tuples)
    if array.ndim != 3 and not indices:
        raise _wrong_shape(learner, array, "3D array of formed tuples", "2D array of indicators")
    if array.shape[1] not in sizes:
        wanted = " or ".join(map(str, sizes))
        raise ValueError(
            f"Tuples of {wanted} element(s) expected by {name}. Got tuples of {array.shape[1]} element(s) instead "
            f"(shape={array.shape}):\ninput={array}.\n"
        )
    if len(array) == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required by {name}."
        )
    if indices:
        names, inverse = np.unique(array, return_inverse=True)
        return PointTuples(_applied(preprocessor, names), inverse.reshape(array.shape))
    m, size, d = array.shape
    return PointTuples(array.reshape(m * size, d), np.arange(m * size).reshape(m, size))


def as_plain_points(learner: Any, X: Any) -> Any:
    """Points (n, d) as they are, or the points of indices (n,) if the learner has a preprocessor."""
    if sp.issparse(X) or hasattr(X, "iloc") or getattr(X, "ndim", None) == 2:
        return X
    array, preprocessor = np.asarray(X), as_preprocessor(learner.preprocessor)
    if array.ndim == 1 and preprocessor is not None and array.dtype != object:
        return _applied(preprocessor, array)
    if array.ndim != 2:
        raise _wrong_shape(learner, array, "2D array of formed points", "1D array of indicators")
    return array


def _wrong_shape(learner: Any, array: np.ndarray, formed: str, indices: str) -> ValueError:
    """The error about the number of dimensions; ``formed`` and ``indices`` name the arrays that are expected."""
    name, wanted, when, hint = type(learner).__name__, formed, "", ""
    if learner.preprocessor is not None:
        wanted, when = f"{indices} or {formed}", " when using a preprocessor"
    elif indices.startswith(f"{array.ndim}D"):
        hint = " and/or use a preprocessor"
        if "preprocessor" in learner._left_out:  # the learner was loaded from a file
            hint += (
                ": files do not keep it, so give the one that was there to set_params(preprocessor=...) after loading"
            )
    return ValueError(
        f"{wanted} expected by {name}{when}. Found {array.ndim}D array instead:\ninput={array}. Reshape your data{hint}.\n"
    )


# ---------------------------------------------------------------------- preprocessors
class RowsOf:
    """The preprocessor made from an array-like: maps row numbers to rows, and names in the index of a pandas data frame to its rows."""

    def __init__(self, X: Any) -> None:
        self.X: Any = X if sp.issparse(X) or hasattr(X, "columns") else np.asarray(X)
        if len(self.X.shape) != 2:
            raise ValueError(f"preprocessor must have one row a point, shape (n, d); got shape {self.X.shape}.")

    def __call__(self, indices: np.ndarray) -> Any:
        n = self.X.shape[0]
        if indices.dtype.kind in "OUS" and hasattr(self.X, "iloc") and all(isinstance(name, str) for name in indices):
            indices = self._rows_of(indices)
        if indices.dtype.kind not in "iu":
            raise TypeError(
                f"indices of tuples must be whole numbers, rows of the preprocessor; got {indices.dtype} such as {indices[0]!s}. "
                "Names need a pandas DataFrame whose index holds them, or a function from names to points."
            )
        bad = np.unique(indices[(indices < 0) | (indices >= n)])
        if len(bad):
            raise ValueError(f"indices must be rows of the preprocessor, 0 to {n - 1}; got {bad[:5].tolist()}.")
        return self.X.iloc[indices] if hasattr(self.X, "iloc") else self.X[indices]

    def _rows_of(self, names: np.ndarray) -> np.ndarray:
        """Row numbers of names in the index of the data frame."""
        index = self.X.index
        if not index.is_unique:
            raise ValueError(
                f"the index of the preprocessor must name every row once; {index[index.duplicated()][0]!r} occurs again."
            )
        rows = index.get_indexer(names)
        if (rows < 0).any():
            raise ValueError(
                f"names of tuples must be in the index of the preprocessor; not there: {names[rows < 0][:5].tolist()}."
            )
        return rows


def as_preprocessor(preprocessor: Any) -> Any:
    """A callable from indices to points, or None."""
    if preprocessor is None:
        return None
    if hasattr(preprocessor, "__len__") or hasattr(preprocessor, "shape") or hasattr(preprocessor, "__array__"):
        return RowsOf(preprocessor)
    if callable(preprocessor):
        return preprocessor
    raise ValueError(
        f"Invalid type for the preprocessor: {type(preprocessor)}. You should provide either None, an array-like object, "
        "or a callable."
    )


def _applied(preprocessor: Any, indices: np.ndarray) -> Any:
    """The points of 1-dimensional indices, checked."""
    points = preprocessor(indices)
    points = points if sp.issparse(points) or hasattr(points, "columns") else np.asarray(points)
    if len(points.shape) != 2 or points.shape[0] != len(indices):
        raise ValueError(
            f"the preprocessor must give one point an index, shape ({len(indices)}, d); got shape {tuple(points.shape)}."
        )
    return points


# ---------------------------------------------------------------------- labels
def as_signs(y: Any, n: int) -> np.ndarray:
    """Labels of tuples, each 1 or -1, as float64, shape (n,)."""
    values = as_column("y", y, n, per="tuple")
    wrong = np.flatnonzero(np.abs(values) != 1)
    if len(wrong):
        error = ValueError(
            "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found an incorrect value."
        )
        error.add_note(f"y[{wrong[0]}] = {values[wrong[0]]}; wrong in {rows_text(wrong)}.")
        raise error
    return values
