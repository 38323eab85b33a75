"""What nearest neighbours say of points that took no part in learning: before, with columns scaled, and learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bregmat.base.html import SummaryRow

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldScores:
    """What nearest neighbours score on held-out folds, three times on the same folds: points as given, scaled, and learned.

    Parameters
    ----------
    n_neighbors, n_folds, n_repeats : int
    scores : ndarray of shape (n_folds * n_repeats, 3)
        On each fold: the share of values explained (R²), 1 at most; of classes (:class:`HeldOut`) accuracy, 0 to 1.
    """

    n_neighbors: int
    n_folds: int
    n_repeats: int
    scores: NDArray[np.float64]

    what: ClassVar[str] = "R²"

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
        """Which of the two is better without learning: 0 as given, 1 scaled."""
        return int(self.accuracy[1] >= self.accuracy[0])

    @property
    def is_gained(self) -> bool:
        """Whether neighbours in the learned metric score higher than either without learning."""
        return self.accuracy[2] > max(self.accuracy[:2])

    @property
    def folds_text(self) -> str:
        """ "5-fold", "2 x 5-fold"."""
        return f"{self.n_repeats} x {self.n_folds}-fold" if self.n_repeats > 1 else f"{self.n_folds}-fold"

    def summary_row(self) -> SummaryRow:
        """Its row in the table of the three, with the spread over folds."""
        texts = [f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(self.accuracy, self.spread)]
        return (f"{self.n_neighbors}-NN {self.what}, {self.folds_text}", texts[0], texts[1], texts[2])

    def compared(self) -> tuple[int, int, int]:
        """Folds in which the learned metric is better than, as good as, and worse than the better one without learning."""
        gain = self.scores[:, 2] - self.scores[:, self.best_without]
        better, worse = int((gain > 0).sum()), int((gain < 0).sum())
        return better, len(gain) - better - worse, worse


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOut(FoldScores):
    """A nearest-neighbour test of classes, with what was taken for what.

    Parameters
    ----------
    n_neighbors, n_folds, n_repeats, scores
        As in :class:`FoldScores`.
    labels : ndarray of shape (n,)
        Class numbers 0, 1, ...; -1 for rows without a label, which take part in no fold.
    confusion : ndarray of shape (3, k, k)
        How often a point of class a (row) was taken for class b (column), summed over all folds.
    predicted, nearest : ndarray of shape (3, n)
        Of the first repeat: the class each point was taken for, and the row number of its nearest point in the training part;
        -1 where there is none.
    """

    labels: NDArray[np.int64]
    confusion: NDArray[np.int64]
    predicted: NDArray[np.int64]
    nearest: NDArray[np.int64]

    what: ClassVar[str] = "accuracy"

    def changed(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Points of the first repeat that only the learned metric has right, and that it alone has wrong."""
        among = self.labels >= 0
        right = self.predicted == self.labels
        without, learned = right[self.best_without] & among, right[2] & among
        return np.flatnonzero(learned & ~without), np.flatnonzero(without & ~learned)
