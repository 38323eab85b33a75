"""The content of a report, collected by the caller, and the scores of nearest neighbours on held-out points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from bregmat.base.html import SUMMARY_COLUMNS, SummaryRow
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.linear_maps import inverse_deviations

TOLERANCE = 1e-3  # relative violation up to which a row counts as met, as in Constraints.satisfied


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldScores:
    """Scores of nearest neighbours on the same held-out folds for points as given, scaled, and learned."""

    n_neighbors: int
    n_folds: int
    n_repeats: int
    scores: NDArray[np.float64]  # (n_folds * n_repeats, 3): R² of values, or accuracy of classes
    has_values: bool = False

    @property
    def accuracy(self) -> list[float]:
        """Mean score as given, scaled, and learned."""
        return self.scores.mean(axis=0).tolist()

    @property
    def best_without(self) -> int:
        """The better one without learning: 0 for points as given, 1 for scaled ones."""
        return int(self.accuracy[1] >= self.accuracy[0])

    def summary_row(self) -> SummaryRow:
        """The row of the summary, with the standard deviation over folds."""
        spreads = self.scores.std(axis=0, ddof=1)
        before, among_scaled, after = (f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(self.accuracy, spreads))
        what = "R²" if self.has_values else "accuracy"
        repeats = f"{self.n_repeats} x " if self.n_repeats > 1 else ""
        return f"{self.n_neighbors}-NN {what}, {repeats}{self.n_folds}-fold", before, among_scaled, after

    def compared(self) -> tuple[int, int, int]:
        """Count the folds in which the learned metric is better than, equal to, and worse than the better one without learning."""
        gain = self.scores[:, 2] - self.scores[:, self.best_without]
        better, worse = int((gain > 0).sum()), int((gain < 0).sum())
        return better, len(gain) - better - worse, worse


@dataclass(frozen=True, eq=False)
class ReportData:
    """The content of a report of a learned matrix. The certificate is read from `result`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat_app.report import ReportData
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(random_state=0).fit(X, y)
    >>> data = ReportData("Iris", learner.result_, X, learner.constraints_, y, learner=learner)
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

    def __post_init__(self) -> None:
        if self.result.status in ("INFEASIBLE", "UNBOUNDED"):
            raise ValueError(f"no matrix was learned, so there is nothing to report: {self.result.proof_text()}")
        if self.sample_id is not None and len(np.asarray(self.sample_id)) != (n := np.shape(self.X)[0]):
            raise ValueError(f"sample_id must have one entry per row of X, {n}; got {len(np.asarray(self.sample_id))}.")
        for row in self.summary:
            if len(row) != (k := 1 + len(SUMMARY_COLUMNS)):
                raise ValueError(f"a row of summary must have {k} entries, a name and {k - 1} values; got {row!r}.")

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
