"""Scores of nearest neighbours on held-out points: as given, with scaled columns, and learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bregmat.base.html import SummaryRow

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldScores:
    """Scores of nearest neighbours on the same held-out folds for points as given, scaled, and learned."""

    n_neighbors: int
    n_folds: int
    n_repeats: int
    scores: NDArray[np.float64]  # (n_folds * n_repeats, 3): R² of values, or accuracy of classes
    has_values: bool = False

    @property
    def accuracy(self) -> tuple[float, float, float]:
        """Mean score as given, scaled, and learned."""
        before, among_scaled, after = self.scores.mean(axis=0).tolist()
        return before, among_scaled, after

    @property
    def spread(self) -> tuple[float, float, float]:
        """Standard deviation of the score over folds."""
        before, among_scaled, after = self.scores.std(axis=0, ddof=1).tolist()
        return before, among_scaled, after

    @property
    def best_without(self) -> int:
        """The better one without learning: 0 for points as given, 1 for scaled ones."""
        return int(self.accuracy[1] >= self.accuracy[0])

    @property
    def is_gained(self) -> bool:
        """Whether neighbours in the learned metric score higher than either without learning."""
        return self.accuracy[2] > max(self.accuracy[:2])

    def summary_row(self) -> SummaryRow:
        """The row of the summary, with the standard deviation over folds."""
        before, among_scaled, after = (f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(self.accuracy, self.spread))
        what = "R²" if self.has_values else "accuracy"
        repeats = f"{self.n_repeats} x " if self.n_repeats > 1 else ""
        return f"{self.n_neighbors}-NN {what}, {repeats}{self.n_folds}-fold", before, among_scaled, after

    def compared(self) -> tuple[int, int, int]:
        """Count the folds in which the learned metric is better than, equal to, and worse than the better one without learning."""
        gain = self.scores[:, 2] - self.scores[:, self.best_without]
        better, worse = int((gain > 0).sum()), int((gain < 0).sum())
        return better, len(gain) - better - worse, worse
