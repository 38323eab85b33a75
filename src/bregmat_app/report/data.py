"""The content of a report, collected by the caller and checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.html import SUMMARY_COLUMNS, SummaryRow
from bregmat.estimators.linear_maps import inverse_deviations
from bregmat_app.report.held_out import HeldOut

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from bregmat.certificates.result import MatrixResult
    from bregmat.constraints.constraints import Constraints


TOLERANCE = 1e-3  # relative violation up to which a row counts as met, as in Constraints.satisfied
MOST_FEATURES = 1000  # with more features they are not listed


@dataclass(frozen=True, eq=False)
class ReportData:
    """The content of a report. Certificate and history are read from `result`.

    An argument that does not fit the points `X` raises `TypeError` or `ValueError`.
    """

    title: str  # heading of the page, e.g. "Metric learned from wine.csv"
    result: MatrixResult
    X: Any  # array, scipy.sparse or data frame (n, d): the points as they were passed to the learner
    constraints: Constraints | None  # of the problem, in row numbers of X (see Constraints.locate); None if it has none
    # (n,): labels of any dtype for the colours of the embedding; points with None or NaN are drawn in grey
    y: ArrayLike | None = None
    learner: Any = None  # has transform(X), the learned map; by default `result`
    # The table "before and after": values for the points as given, with columns scaled to unit variance, and learned. A float in
    # [0, 1] is shown with three digits, None as a dash.
    summary: Sequence[SummaryRow] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the learner: divergence, slack weight, ...
    sample_id: ArrayLike | None = None  # (n,): names of the rows of X, by default their numbers
    feature_names: Sequence[str] | None = None  # d names; by default those of the data frame, or "column 0", ...
    warnings: Sequence[str] = ()  # remarks at the top of the page
    has_hard: bool | None = None  # whether any constraint must hold; None if that is not known
    held_out: HeldOut | None = None  # nearest-neighbour test, for the headline, changed neighbours and confused classes
    class_names: Sequence[Any] | None = None  # of the classes 0, 1, ... of `held_out`
    model_path: Any = None  # file of the model, for the lines of Python to copy

    def __post_init__(self) -> None:
        if len(getattr(self.X, "shape", ())) != 2:
            raise ValueError(f"X must have shape (n, d); got {np.shape(self.X)}.")
        n, d = self.X.shape
        if self.feature_names is None:
            names = getattr(self.X, "columns", [f"column {k}" for k in range(d)])
            object.__setattr__(self, "feature_names", [str(name) for name in names])
        for name, size, what in (("y", n, "row"), ("sample_id", n, "row"), ("feature_names", d, "column")):
            if (value := getattr(self, name)) is None:
                continue
            value = np.asarray(value)
            if value.shape != (size,):
                raise ValueError(f"{name} must have shape ({size},), one entry per {what} of X; got {value.shape}.")
            object.__setattr__(self, name, value)
        if self.constraints is not None:
            if self.constraints.ids is not None:
                raise TypeError("constraints must be in row numbers; call constraints.locate(sample_id) first.")
            self.constraints.check_range(n)
        for row in self.summary:
            if isinstance(row, str) or len(row) != 1 + len(SUMMARY_COLUMNS):
                raise TypeError(f"a row of summary is (name, before, scaled, after); got {row!r}.")
        if self.held_out is not None:
            if self.held_out.labels.shape != (n,):
                raise ValueError(f"held_out has labels of {len(self.held_out.labels)} rows, but X has {n}.")
            k = self.held_out.confusion.shape[1]
            if self.class_names is not None and len(self.class_names) != k:
                raise ValueError(
                    f"class_names must have one entry for each of the {k} classes; got {len(self.class_names)}."
                )

    @cached_property
    def points(self) -> Any:
        """The points before learning, (n, d): a dense or sparse array."""
        return self.X if sp.issparse(self.X) else np.asarray(self.X, dtype=float)

    @cached_property
    def mapped(self) -> NDArray[np.float64]:
        """The points after the learned map, (n, k)."""
        learned = self.result if self.learner is None else self.learner
        return np.asarray(learned.transform(self.X), dtype=float)

    @cached_property
    def scaled(self) -> Any:
        """The points with their columns scaled to unit variance, (n, d); sparse ones stay sparse."""
        scale = inverse_deviations(self.points)
        return self.points @ sp.diags_array(scale) if sp.issparse(self.X) else self.points * scale

    @property
    def lists_features(self) -> bool:
        """Whether the report lists features: points are dense, and have two features or more, but not too many."""
        return not sp.issparse(self.X) and 2 <= self.X.shape[1] <= MOST_FEATURES

    def row_name(self, row: int) -> str:
        """The name of a point."""
        return f"row {row}" if self.sample_id is None else str(np.asarray(self.sample_id)[row])

    def class_name(self, code: int) -> str:
        """The name of a class of `held_out`."""
        return str(code if self.class_names is None else self.class_names[code])


def counted(count: int, noun: str) -> str:
    """A number of things in words, such as "1 point" or "1,200 points"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
