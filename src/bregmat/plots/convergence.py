"""How the objective and its proven lower bound met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, EQUAL, SIMILAR, ResultDisplay, columns_of, curve, log_scale, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RELATIVE = ("gap", "violation")  # the lines of the lower panel
FLOOR = 1e-16  # where zero and below is drawn on a logarithmic axis: under float64 rounding


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(ResultDisplay):
    """Objective and dual bound above; relative gap and violation, on a logarithmic axis, below.

    Objective, bound and gap are drawn as the best so far: what is proven at that iteration, whatever a solver did
    since (a second solver starts anew). Objectives below a proven bound belong to points that violate hard rows; they
    are left out, as are values that a record does not know (NaN). Lines join the known ones.

    Parameters
    ----------
    iteration, seconds, objective, dual_bound, gap, violation : ndarray of shape (m,)
        One entry per record of the solver's history. `gap` and `violation` are relative (dimensionless), `seconds`
        count from the start.
    tol : float, optional
        The tolerance asked for; drawn as a line.

    Attributes
    ----------
    ax_ : ndarray of 2 Axes
    figure_ : Figure
    lines_ : dict of str to Line2D
        "objective", "dual_bound", "gap" and, where known, "violation".

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import ConvergenceDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_result(learner.result_)
    >>> display.figure_.savefig  # doctest: +ELLIPSIS
    <bound method ...>
    >>> plt.close("all")
    """

    iteration: NDArray[np.float64]
    seconds: NDArray[np.float64]
    objective: NDArray[np.float64]
    dual_bound: NDArray[np.float64]
    gap: NDArray[np.float64]
    violation: NDArray[np.float64]
    _: KW_ONLY
    tol: float | None = None

    @classmethod
    def from_result(cls, result: Any, **options: Any) -> ConvergenceDisplay:
        """Draw ``result.history`` with ``result.tol``, of several problems solved in a row the last; options as in `from_data`."""
        last = [record for record in result.history if record.stage == result.history[-1].stage]
        return cls.from_data(last, **{"tol": result.tol, **options})

    @classmethod
    def from_data(
        cls, history: Sequence[Any], *, tol: float | None = None, x: str = "iterations", ax: Any = None
    ) -> ConvergenceDisplay:
        """Draw a list of records.

        Parameters
        ----------
        history : sequence of Record
            With iteration, seconds, objective, dual_bound, gap, violation.
        tol : float, optional
            Relative gap asked for.
        x : {"iterations", "seconds"}
            What the horizontal axis counts.
        ax : Axes or 2 Axes, optional
            Where to draw; one axes is divided in two.
        """
        fields = ("iteration", "seconds", "objective", "dual_bound", "gap", "violation")
        return cls(*columns_of("history", history, fields), tol=tol).plot(ax=ax, x=x)

    def plot(self, ax: Any = None, *, x: str = "iterations") -> ConvergenceDisplay:
        """Draw against "iterations" or "seconds"; `ax` is one axes (divided in two) or two. Returns self."""
        if x not in ("iterations", "seconds"):
            raise ValueError(f'x must be "iterations" or "seconds"; got {x!r}.')
        at = self.iteration if x == "iterations" else self.seconds
        self.ax_ = self._panels(ax, (2, 1), (6.4, 5.2), sharex=True)
        upper, lower = self.ax_
        self.lines_: dict[str, Any] = {}
        self._best = self._best_so_far()
        for panel, name, label, color, dash in (
            (upper, "objective", "objective, best so far", SIMILAR, "-"),
            (upper, "dual_bound", "proven lower bound, best so far", DISSIMILAR, "--"),
            (lower, "gap", "relative gap, best so far", EQUAL, "-"),
            (lower, "violation", "largest violation of hard rows", "#CC79A7", ":"),
        ):
            values = self._best[name]
            known = np.isfinite(values)
            if not known.any() or (name == "violation" and not values[known].any()):  # without hard rows it is 0
                continue
            shown = np.maximum(values[known], FLOOR) if panel is lower else values[known]
            self.lines_[name] = curve(panel, at[known], shown, dash, color=color, label=label, few=40)
        self._scale_objective(upper)
        upper.set_ylabel("objective")
        drawn = np.concatenate([[1.0], *(line.get_ydata() for name, line in self.lines_.items() if name in _RELATIVE)])
        low, high = min(drawn.min(), self.tol or 1.0) / 3, drawn.max() * 3
        log_scale(lower.yaxis, low, high)
        lower.set_ylim(low, high)
        lower.set_ylabel("relative, log scale")
        lower.set_xlabel("iteration" if x == "iterations" else "seconds")
        if self.tol is not None:
            lower.axhline(self.tol, color=EQUAL, linewidth=0.9, alpha=0.7)
            lower.annotate(
                f"tolerance {number(self.tol, 3)}", (0.0, self.tol), xycoords=("axes fraction", "data"), xytext=(4, 3),
                textcoords="offset points", fontsize="small", color=EQUAL,
            )  # fmt: skip
        if x == "iterations":
            lower.xaxis.get_major_locator().set_params(integer=True)
        for panel in self.ax_:
            tidy(panel, grid="y")
            if panel.get_legend_handles_labels()[0]:
                panel.legend(frameon=False)
            else:
                panel.text(0.5, 0.5, "not recorded", ha="center", va="center", transform=panel.transAxes)
        self.figure_.align_ylabels(list(self.ax_))
        return self

    def _best_so_far(self) -> dict[str, NDArray[np.float64]]:
        """Per line what is drawn: the lowest objective and gap and the highest bound up to each record."""
        bound = self.dual_bound[np.isfinite(self.dual_bound)]
        proven = bound.max(initial=-np.inf)
        reached = self.objective >= proven - 1e-6 * max(1.0, abs(proven)) if len(bound) else True
        drawn = {
            "objective": (np.where(reached, self.objective, np.nan), np.minimum),
            "dual_bound": (self.dual_bound, np.maximum),
            "gap": (self.gap, np.minimum),
            "violation": (self.violation, None),
        }
        best = {}
        for name, (values, choose) in drawn.items():
            best[name] = np.array(values, dtype=float)
            known = np.isfinite(best[name])
            if choose is not None:
                best[name][known] = choose.accumulate(best[name][known])
        return best

    def _scale_objective(self, panel: Any) -> None:
        """Logarithmic where the objective falls by decades; either way the far-off early bounds do not flatten it."""
        objective, bound = (v[np.isfinite(v)] for v in (self._best["objective"], self._best["dual_bound"]))
        panel.ticklabel_format(axis="y", useOffset=False)
        if len(objective) == 0 or len(bound) == 0:
            return
        last, high = objective[-1], objective.max()
        if objective.min() > 0 and high > 100 * last:
            low = max(bound.min(), last / 10)
            log_scale(panel.yaxis, low, high)
            panel.set_ylim(low / 1.3, high * 1.3)
            return
        reach = 1.5 * max(high - last, 1e-9 * max(1.0, abs(last)))
        if 2 * len(objective) < len(bound):  # a dual method: the bound tells the story
            reach = max(reach, 3.0 * (last - bound[len(bound) // 2]))
        low = max(bound.min(), last - reach)
        edge = 0.06 * max(high - low, 1e-9 * max(1.0, abs(last)))
        panel.set_ylim(low - edge, high + edge)
