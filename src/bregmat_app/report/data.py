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
from bregmat_app.report.held_out import FoldScores

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from bregmat.certificates.result import MatrixResult
    from bregmat.constraints.constraints import Constraints


TOLERANCE = 1e-3  # relative violation up to which a row counts as met, as in Constraints.satisfied


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
    warnings: Sequence[str] = ()  # remarks at the top of the page
    has_hard: bool | None = None  # whether any constraint must hold; None if that is not known
    held_out: FoldScores | None = None  # nearest-neighbour test of classes, for the headline
    model_path: Any = None  # file of the model, for the lines of Python to copy

    def __post_init__(self) -> None:
        if len(getattr(self.X, "shape", ())) != 2:
            raise ValueError(f"X must have shape (n, d); got {np.shape(self.X)}.")
        n = self.X.shape[0]
        for name in ("y", "sample_id"):
            if (value := getattr(self, name)) is None:
                continue
            value = np.asarray(value)
            if value.shape != (n,):
                raise ValueError(f"{name} must have shape ({n},), one entry per row of X; got {value.shape}.")
            object.__setattr__(self, name, value)
        if self.constraints is not None:
            if self.constraints.ids is not None:
                raise TypeError("constraints must be in row numbers; call constraints.locate(sample_id) first.")
            self.constraints.check_range(n)
        for row in self.summary:
            if isinstance(row, str) or len(row) != 1 + len(SUMMARY_COLUMNS):
                raise TypeError(f"a row of summary is (name, before, scaled, after); got {row!r}.")

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


def counted(count: int, noun: str) -> str:
    """A number of things in words, such as "1 point" or "1,200 points"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
