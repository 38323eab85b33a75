"""Display of relative comparisons of distances before and after learning."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import SUMMARY_COLUMNS
from bregmat.constraints.constraints import Constraints
from bregmat.plots._style import DISSIMILAR, SIMILAR, BeforeAndAfter, histogram, log_scale, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

TAIL = 0.005  # fraction of the comparisons at either end that may be counted in the outermost bar


@dataclass(eq=False, repr=False)
class ComparisonDisplay(BeforeAndAfter):
    """Histograms of distance ratios for comparisons "i and j are closer than k and l", before and after learning.

    The ratio is the distance of the pair that should be farther, divided by the distance of the pair that should be nearer.
    It has no unit, so the panels can be compared. A comparison holds if its ratio is above 1.

    Parameters
    ----------
    before, after, scaled : ndarray of shape (c,)
        Ratios of (unsquared) distances; `scaled` is optional and drawn between the two.
    met : float
        Fraction of the comparisons that hold by their margin after learning.

    Attributes
    ----------
    ax_, figure_ : ndarray of 2 or 3 Axes, Figure
    ordered_ : dict of str to float
        Fraction of the comparisons that hold, by the name of the panel: "as given", "scaled", "learned". Equal distances do not count.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import ComparisonDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> display = ComparisonDisplay.from_estimator(MetricLearner(strategy="neighbors").fit(X, y), X)
    >>> display.ordered_["learned"] > display.ordered_["as given"]
    True
    >>> plt.close("all")
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    _: KW_ONLY
    scaled: NDArray[np.float64] | None = None
    met: float = np.nan

    @classmethod
    def from_data(
        cls,
        before: Any,
        after: Any,
        constraints: Any,
        *,
        scaled: Any = None,
        violation_tol: float = 1e-3,
        ax: Any = None,
    ) -> ComparisonDisplay:
        """Draw points and their images under the learned map.

        Parameters
        ----------
        before : array or scipy.sparse of shape (n, d)
            Points, data units.
        after : array of shape (n, k)
            The same points after the learned map.
        constraints : Constraints
            In row numbers; constraints other than comparisons are left out.
        scaled : array or scipy.sparse of shape (n, d), optional
            The points with scaled columns.
        violation_tol : float
            Relative violation up to which a comparison counts as met by its margin.
        ax : Axes or one for each panel, optional
            Where to draw; one axes is divided.
        """
        rows = constraints.where("is_comparison") & (constraints.sense != 0)
        if not rows.any():
            raise ValueError("constraints hold no comparisons; there is nothing to draw.")
        asked = constraints.select(rows)
        after = np.asarray(after, dtype=float)
        met = float((asked.violation(after) <= violation_tol).mean())
        middle = None if scaled is None else _ratios(scaled, asked)
        return cls(_ratios(before, asked), _ratios(after, asked), scaled=middle, met=met).plot(ax=ax)

    def plot(self, ax: Any = None) -> ComparisonDisplay:
        """Draw; `ax` is one axes, which is divided, or one for each panel. Returns self."""
        values = zip(SUMMARY_COLUMNS, (self.before, self.scaled, self.after), strict=True)
        views = {name: ratio for name, ratio in values if ratio is not None}
        self.ax_ = self._panels(ax, (len(views), 1), (7.0, 2.4 * len(views)), sharex=True, sharey=True)
        self.ordered_ = {name: float((ratio > 1.0).mean()) for name, ratio in views.items()}
        edges = _edges(np.concatenate(list(views.values())))
        for panel, (name, ratio) in zip(self.ax_, views.items(), strict=True):
            self._draw(panel, ratio, edges)
            by_margin = f", {_percent(self.met)} by their margin" if name == "learned" and np.isfinite(self.met) else ""
            title = f"{name}: {_percent(self.ordered_[name])} the right way round{by_margin}"
            panel.set_title(title, loc="left", fontsize="medium")
            panel.set_ylabel("% of the comparisons")
            log_scale(panel.xaxis, edges[0], edges[-1])
            tidy(panel)
        self.ax_[-1].set_xlabel("times as far as the pair that should be nearer, log scale")
        return self

    @staticmethod
    def _draw(panel: Axes, ratio: NDArray[np.float64], edges: NDArray[np.float64]) -> None:
        """Draw the bars of one panel, in one colour left of 1 and in another right of it."""
        half = len(edges) // 2
        for chosen, bins, color in (
            (ratio <= 1.0, edges[: half + 1], DISSIMILAR),
            (ratio > 1.0, edges[half:], SIMILAR),
        ):
            histogram(panel, ratio[chosen], bins, color=color, n_all=len(ratio))
        panel.axvline(1.0, color="0.5", linestyle="--", linewidth=1.4)


def _percent(share: float) -> str:
    """Write a fraction in per cent; 0 and 100 only if they are exact."""
    return f"{share:.0%}" if share in (0.0, 1.0) else f"{min(max(share, 0.001), 0.999):.1%}"


def _ratios(X: Any, comparisons: Constraints) -> NDArray[np.float64]:
    """Return the distance ratio of each comparison; 1 if both distances are zero."""
    X = X if hasattr(X, "tocsr") else np.asarray(X, dtype=float)
    i, j, k, l = comparisons.index[:, :4].T
    one, other = (np.sqrt(Constraints.sq_distance(*pair, 1.0, "<=").values(X)) for pair in ((i, j), (k, l)))
    near, far = np.where(comparisons.sense > 0, (one, other), (other, one))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((near == 0) & (far == 0), 1.0, far / near)


def _edges(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logarithmic edges of bars, symmetric around 1, which is an edge itself."""
    size = np.abs(np.log(ratio[(ratio > 0) & np.isfinite(ratio)]))
    reach = max(float(np.quantile(size, 1 - TAIL)) if len(size) else 0.0, np.log(1.5))
    n_bins = int(np.clip(np.sqrt(len(ratio)) / 2, 4, 30))  # on each side
    outer = np.exp(np.linspace(0.0, reach * 1.001, n_bins + 1))
    return np.concatenate([1 / outer[:0:-1], outer])
