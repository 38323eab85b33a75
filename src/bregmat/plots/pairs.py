"""Display of squared distances of constrained pairs before and after learning, with their bounds."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.constraints.constraints import excess_of
from bregmat.plots._style import DISSIMILAR, EQUAL, SIMILAR, BeforeAndAfter, histogram, log_scale, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray

# sense code, name, symbol, colour, line style of the bound
GROUPS = (
    (1, "similar", "≤", SIMILAR, "--"),
    (-1, "dissimilar", "≥", DISSIMILAR, "-."),
    (0, "fixed", "=", EQUAL, ":"),
)


@dataclass(eq=False, repr=False)
class PairDistanceDisplay(BeforeAndAfter):
    """Histograms of squared distances of similar ("<=") and dissimilar (">=") pairs, before and after learning.

    If all pairs of a kind have the same bound, the axis is the squared distance. If bounds differ from pair to pair, the
    axis is the squared distance divided by its bound: similar pairs should be left of 1, dissimilar pairs right of it.

    Parameters
    ----------
    sq_before, sq_after, bound : ndarray of shape (c,)
        Squared distances and their bounds, data units squared.
    sense : ndarray of shape (c,)
        +1 for "<=", -1 for ">=", 0 for "==".
    violation_tol : float
        Relative violation up to which a pair counts as met.

    Attributes
    ----------
    ax_, figure_ : ndarray of 2 Axes, Figure
    is_relative_ : bool
    met_ : dict of str to (float, float)
        Fraction of the pairs of each kind that meet their bounds, before and after.
    ordered_ : (float, float)
        Probability that a similar pair is closer than a dissimilar one, before and after (the area under the ROC curve);
        NaN if a kind is absent.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import PairDistanceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(strategy="random", prior="identity", random_state=0).fit(X, y)
    >>> display = PairDistanceDisplay.from_estimator(learner, X)
    >>> len(display.ax_)
    2
    >>> plt.close("all")
    """

    sq_before: NDArray[np.float64]
    sq_after: NDArray[np.float64]
    bound: NDArray[np.float64]
    sense: NDArray[np.int8]
    _: KW_ONLY
    violation_tol: float = 1e-3

    @classmethod
    def from_data(
        cls,
        before: Any,
        after: Any,
        constraints: Any,
        *,
        violation_tol: float = 1e-3,
        ax: Any = None,
    ) -> PairDistanceDisplay:
        """Draw points and their images under the learned map.

        Parameters
        ----------
        before : array or scipy.sparse of shape (n, d)
            Points, data units.
        after : array of shape (n, k)
            The same points after the learned map.
        constraints : Constraints
            In row numbers; constraints other than squared distances are left out.
        violation_tol : float
            As in the class.
        ax : Axes or 2 Axes, optional
            Where to draw; one axes is divided in two.
        """
        rows = constraints.where("is_sq_distance")
        if not rows.any():
            hint = "; ComparisonDisplay draws comparisons" if constraints.where("is_comparison").any() else ""
            raise ValueError(f"constraints hold no squared distances; there is nothing to draw{hint}.")
        pairs = constraints.select(rows)
        before = before if hasattr(before, "tocsr") else np.asarray(before, dtype=float)
        display = cls(
            pairs.values(before), pairs.values(np.asarray(after, dtype=float)), pairs.bound, pairs.sense,
            violation_tol=violation_tol,
        )  # fmt: skip
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> PairDistanceDisplay:
        """Draw; `ax` is one axes (divided in two) or two. Returns self."""
        self.ax_ = self._panels(ax, (2, 1), (7.0, 5.4), sharex=True)
        self.is_relative_ = any(len(np.unique(self.bound[self.sense == code])) > 1 for code, *_ in GROUPS)
        self.ordered_ = tuple(share_ordered(sq, self.sense) for sq in (self.sq_before, self.sq_after))
        edges, is_log = self._draw_bars()
        for panel, title, ordered in zip(self.ax_, ("before", "after"), self.ordered_, strict=True):
            if self.is_relative_:
                panel.axvline(1.0, color="0.5", linestyle="--", linewidth=1.4)
            if is_log:
                log_scale(panel.xaxis, edges[0], edges[-1])
            known = f"\na similar pair is closer than a dissimilar one in {ordered:.0%} of cases"
            panel.set_title(title + (known if np.isfinite(ordered) else ""), loc="left", fontsize="medium")
            panel.set_ylabel("% of the pairs")
            tidy(panel)
            panel.legend(frameon=False)
        self.ax_[1].set_xlabel(self._x_label(is_log))
        return self

    def _draw_bars(self) -> tuple[NDArray[np.float64], bool]:
        """Draw the histograms of each kind of pairs; return the edges of the bars and whether they are logarithmic."""
        # a bound of zero cannot be divided by
        usable = self.bound > 0 if self.is_relative_ else np.ones(len(self.bound), dtype=bool)
        unit = np.where(usable, self.bound, 1.0) if self.is_relative_ else np.ones(len(self.bound))
        values = (self.sq_before / unit, self.sq_after / unit)
        marks = [1.0] if self.is_relative_ else list(np.unique(self.bound))
        edges, is_log = _edges(np.concatenate([v[usable] for v in values]), marks)
        self.met_: dict[str, tuple[float, ...]] = {}
        for code, name, symbol, color, dash in GROUPS:
            rows = self.sense == code
            if not rows.any():
                continue
            self.met_[name] = tuple(float(self._holds(sq)[rows].mean()) for sq in (self.sq_before, self.sq_after))
            shown = rows & usable
            for k, panel in enumerate(self.ax_):
                label = f"{name} ({symbol}): {self.met_[name][k]:.0%} met"
                placed = _beside_bound(values[k][shown], (self.bound / unit)[shown], code * self.violation_tol)
                histogram(panel, placed, edges, color=color, label=label)
                if not self.is_relative_:
                    panel.axvline(self.bound[rows][0], color=color, linestyle=dash, linewidth=1.4)
        return edges, is_log

    def _holds(self, sq_distance: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which pairs meet their bounds up to the relative tolerance."""
        return excess_of(sq_distance, self.bound, self.sense) <= self.violation_tol * np.where(
            self.bound > 0, self.bound, 1.0
        )

    def _x_label(self, is_log: bool) -> str:
        scale = ", log scale" if is_log else ""
        if self.is_relative_:
            left_out = int((self.bound <= 0).sum())
            note = f"; {left_out:,} pairs with bound 0 left out" if left_out else ""
            return f"squared distance / its bound{scale}{note}"
        bounds = [
            f"{name} {symbol} {number(self.bound[self.sense == code][0], 3)}"
            for code, name, symbol, *_ in GROUPS
            if (self.sense == code).any()
        ]
        return f"squared distance{scale}\n(bounds: {', '.join(bounds)})"


def _beside_bound(values: NDArray[np.float64], bound: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    """Move values that equal their bound up to `margin` to the side where the bound is met, so that they count in its bar."""
    return np.where(np.abs(values - bound) <= abs(margin) * bound, bound * (1 - margin), values)


def share_ordered(sq_distance: NDArray[np.float64], sense: NDArray[np.int8]) -> float:
    """Return the probability that a similar pair is closer than a dissimilar one; ties count half, NaN without both kinds."""
    similar, dissimilar = np.sort(sq_distance[sense == 1]), sq_distance[sense == -1]
    if len(similar) == 0 or len(dissimilar) == 0:
        return float("nan")
    below = np.searchsorted(similar, dissimilar, "left") + np.searchsorted(similar, dissimilar, "right")
    return float(below.mean() / (2 * len(similar)))


def _edges(values: NDArray[np.float64], marks: list[float]) -> tuple[NDArray[np.float64], bool]:
    """Return edges of bars over values and marks, and whether they are logarithmic, as over more than a factor of 30.

    Up to three marks are edges themselves, so that no bar extends over a bound.
    """
    n_bins = int(np.clip(2 * np.sqrt(len(values) / 2), 8, 60))
    marks = [m for m in marks if m > 0]
    positive = np.concatenate([values[values > 0], marks])
    if len(positive) == 0:
        return np.linspace(0.0, 1.0, n_bins + 1), False
    # The quantile keeps a few pairs of almost identical points from stretching the axis over empty decades.
    low = max(min([np.quantile(positive, 0.002), *marks]) / 2, positive.min() * 0.999)
    high = positive.max() * 1.001
    is_log = high > 30 * low
    stops = [low if is_log else 0.0, *(marks if len(marks) <= 3 else []), high]
    spaced = np.geomspace if is_log else np.linspace
    size = np.log(stops) if is_log else np.array(stops)
    share = np.diff(size) / (size[-1] - size[0])
    pieces = [
        spaced(start, stop, max(1, round(n_bins * part)) + 1)
        for start, stop, part in zip(stops[:-1], stops[1:], share, strict=True)
    ]
    return np.unique(np.concatenate(pieces)), is_log
