"""What a search over slack weights found, beside not learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.plots._style import NEUTRAL, Display, class_colors, log_scale, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(eq=False, repr=False)
class SearchDisplay(Display):
    """Mean score on the inner folds against slack weight, a line for each way to learn; dashed, what there is before learning.

    Bars are one standard error over the folds; a ring is around what was chosen.

    Parameters
    ----------
    params : list of dict
        prior, or kernel, gamma and rank; strategy (None: not learned), slack_weight and n_components of each candidate.
    mean, error : ndarray of shape (m,)
        Mean score and its standard error; NaN where the time was up.
    chosen : int
        Place of the choice.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : dict of str to Line2D
        By label.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearnerCV
    >>> from bregmat.plots import SearchDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> search = MetricLearnerCV(cv=2, random_state=0).fit(X, y)
    >>> display = SearchDisplay.from_estimator(search)
    >>> len(display.params) == len(search.cv_results_["params"])
    True
    >>> plt.close("all")
    """

    params: list[dict[str, Any]]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    chosen: int

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> SearchDisplay:
        """Draw the search of a fitted :class:`bregmat.MetricLearnerCV` or :class:`bregmat.KernelLearnerCV`."""
        table = estimator.cv_results_
        error = np.asarray(table["std_test_score"]) / np.sqrt(np.maximum(1, np.asarray(table["n_folds"]) - 1))
        mean = np.asarray(table["mean_test_score"])
        return cls(list(table["params"]), mean, error, estimator.best_index_).plot(ax=ax)

    def plot(self, ax: Any = None) -> SearchDisplay:
        """Draw; returns self."""
        (ax,) = (self.ax_,) = self._panels(ax, (1, 1), (6.4, 4.2))
        self.lines_: dict[str, Any] = {}
        labels = [self._label(row) for row in self.params]
        names = list(dict.fromkeys(labels))
        colors = dict(zip(names, class_colors(max(2, min(10, len(names)))) * (1 + len(names) // 10)))
        weights = [row["slack_weight"] for row in self.params if row["strategy"]]
        for name in names:
            rows = np.array([k for k, label in enumerate(labels) if label == name and np.isfinite(self.mean[k])], int)
            if not len(rows):
                continue
            if self.params[rows[0]]["strategy"] is None:
                self.lines_[name] = ax.axhline(self.mean[rows[0]], color=colors[name], linestyle="--", label=name)
                continue
            x = [self.params[k]["slack_weight"] for k in rows]
            bars = ax.errorbar(
                x, self.mean[rows], self.error[rows], color=colors[name], marker="o", capsize=3, label=name
            )
            self.lines_[name] = bars.lines[0]
        at = self.params[self.chosen].get("slack_weight") or min(weights, default=1.0)
        ax.plot([at], [self.mean[self.chosen]], "o", ms=14, mfc="none", mec=NEUTRAL, mew=1.5, label="chosen")
        if weights:
            log_scale(ax.xaxis, min(weights) / 1.5, max(weights) * 1.5)
        ax.set(xlabel="slack weight", ylabel="mean score on the inner folds")
        ax.legend(frameon=False, fontsize="small")
        tidy(ax, grid="y")
        return self

    @staticmethod
    def _label(row: dict[str, Any]) -> str:
        """What a line stands for."""
        start: Any = row.get("prior", row.get("kernel"))
        parts = [start if isinstance(start, str) else start.__name__]
        if (gamma := row.get("gamma")) is not None:
            parts.append(f"gamma {gamma if isinstance(gamma, str) else format(gamma, '.3g')}")
        if row.get("rank"):
            parts.append(f"rank {row['rank']}")
        parts.append(row["strategy"] or "not learned")
        if row.get("n_components"):
            parts.append(f"{row['n_components']} components")
        return ", ".join(parts)
