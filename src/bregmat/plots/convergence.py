"""Display of the convergence of a solver: objective, lower bound, gap, violation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, EQUAL, SIMILAR, Display, columns_of, curve, log_scale, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RELATIVE = ("gap", "violation")  # the lines of the lower panel
FLOOR = 1e-16  # smaller values are drawn here on a logarithmic axis; below the rounding error of float64


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Objective and dual bound above; relative gap and violation, on a logarithmic axis, below.

    Objective, bound and gap are the best values up to each iteration, because a second solver may start from a worse
    point. Objectives below a proven bound belong to points that violate hard constraints. They are left out, and so are
    values that a record does not have (NaN); lines join the others.

    Parameters
    ----------
    iteration, objective, dual_bound, gap, violation : ndarray of shape (m,)
        One entry per record of the solver's history. `gap` and `violation` are relative (dimensionless).
    tol : float, optional
        The tolerance asked for; drawn as a line.

    Attributes
    ----------
    ax_, figure_ : ndarray of 2 Axes, Figure
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
    objective: NDArray[np.float64]
    dual_bound: NDArray[np.float64]
    gap: NDArray[np.float64]
    violation: NDArray[np.float64]
    _: KW_ONLY
    tol: float | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> ConvergenceDisplay:
        """Draw ``estimator.result_``; options as in `from_data`."""
        return cls.from_result(estimator.result_, **options)

    @classmethod
    def from_result(cls, result: Any, **options: Any) -> ConvergenceDisplay:
        """Draw ``result.history`` with ``result.tol``; options as in `from_data`.

        If the history holds several problems that were solved one after another, the last one is drawn.
        """
        last = [record for record in result.history if record.stage == result.history[-1].stage]
        return cls.from_data(last, **{"tol": result.tol, **options})

    @classmethod
    def from_data(cls, history: Sequence[Any], *, tol: float | None = None, ax: Any = None) -> ConvergenceDisplay:
        """Draw a list of records.

        Parameters
        ----------
        history : sequence of Record
            With iteration, objective, dual_bound, gap, violation.
        tol : float, optional
            Relative gap asked for.
        ax : Axes or 2 Axes, optional
            Where to draw; one axes is divided in two.
        """
        names = ("iteration", "objective", "dual_bound", "gap", "violation")
        return cls(*columns_of("history", history, names), tol=tol).plot(ax=ax)

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw; `ax` is one axes (divided in two) or two. Returns self."""
        self.ax_ = self._panels(ax, (2, 1), (6.4, 5.2), sharex=True)
        self._best = self._best_so_far()
        self._draw_lines()
        upper, lower = self.ax_
        self._scale_objective(upper)
        upper.set_ylabel("objective")
        self._scale_gap(lower)
        lower.set_xlabel("iteration")
        lower.xaxis.get_major_locator().set_params(integer=True)
        for panel in self.ax_:
            tidy(panel, grid="y")
            if panel.get_legend_handles_labels()[0]:
                panel.legend(frameon=False)
            else:
                panel.text(0.5, 0.5, "not recorded", ha="center", va="center", transform=panel.transAxes)
        self.figure_.align_ylabels(list(self.ax_))
        return self

    def _draw_lines(self) -> None:
        """Draw the lines of both panels."""
        upper, lower = self.ax_
        self.lines_: dict[str, Any] = {}
        for panel, name, label, color, dash in (
            (upper, "objective", "objective, best so far", SIMILAR, "-"),
            (upper, "dual_bound", "proven lower bound, best so far", DISSIMILAR, "--"),
            (lower, "gap", "relative gap, best so far", EQUAL, "-"),
            (lower, "violation", "largest violation of hard constraints", "#CC79A7", ":"),
        ):
            values = self._best[name]
            known = np.isfinite(values)
            if not known.any() or (name == "violation" and not values[known].any()):  # it is 0 without hard constraints
                continue
            shown = np.maximum(values[known], FLOOR) if panel is lower else values[known]
            points = self.iteration[known], shown
            self.lines_[name] = curve(panel, points, 40, color=color, label=label, linestyle=dash)

    def _scale_gap(self, panel: Any) -> None:
        """Make the axis of gap and violation logarithmic and mark the tolerance."""
        drawn = np.concatenate([[1.0], *(line.get_ydata() for name, line in self.lines_.items() if name in _RELATIVE)])
        low, high = min(drawn.min(), self.tol or 1.0) / 3, drawn.max() * 3
        log_scale(panel.yaxis, low, high)
        panel.set_ylim(low, high)
        panel.set_ylabel("relative, log scale")
        if self.tol is not None:
            panel.axhline(self.tol, color=EQUAL, linewidth=0.9, alpha=0.7)
            panel.annotate(
                f"tolerance {number(self.tol, 3)}", (0.0, self.tol), xycoords=("axes fraction", "data"), xytext=(4, 3),
                textcoords="offset points", fontsize="small", color=EQUAL,
            )  # fmt: skip

    def _best_so_far(self) -> dict[str, NDArray[np.float64]]:
        """Return the values of each line: lowest objective and gap and highest bound up to each record."""
        bound = self.dual_bound[np.isfinite(self.dual_bound)]
        proven = bound.max(initial=-np.inf)
        # an objective below a proven bound belongs to a point that is not feasible
        reached = self.objective >= proven - 1e-6 * max(1.0, abs(proven)) if len(bound) else True
        best = {"objective": np.where(reached, self.objective, np.nan), "dual_bound": self.dual_bound, "gap": self.gap}
        for name, values in best.items():
            best[name] = (np.fmax if name == "dual_bound" else np.fmin).accumulate(_known(values))
            best[name][~np.isfinite(values)] = np.nan
        return best | {"violation": _known(self.violation)}

    def _scale_objective(self, panel: Any) -> None:
        """Choose the axis of the objective so that early bounds far below do not flatten it; logarithmic if it falls by decades."""
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
        if 2 * len(objective) < len(bound):  # a dual method, which has many bounds and few objectives
            reach = max(reach, 3.0 * (last - bound[len(bound) // 2]))
        low = max(bound.min(), last - reach)
        edge = 0.06 * max(high - low, 1e-9 * max(1.0, abs(last)))
        panel.set_ylim(low - edge, high + edge)


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with NaN in the place of infinite ones."""
    return np.where(np.isfinite(values), values, np.nan)
