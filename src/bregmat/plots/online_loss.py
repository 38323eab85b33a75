"""Display of the total loss of an online learner and its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, NEUTRAL, SIMILAR, Display, columns_of, curve, log_scale, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(eq=False, repr=False)
class OnlineLossDisplay(Display):
    """Total loss of an online learner against the number of examples, and the bound that it cannot exceed.

    As in the left panel of Figure 2 of Tsuda 2004. A second line, ``comparison``, is the loss of another learner on the same
    stream, or of the best fixed matrix in hindsight. Bounds that are unknown (NaN) or infinite are left out. If there is no
    bound at the end, the legend says why.

    Parameters
    ----------
    position : ndarray of shape (m,)
        Examples seen; increasing.
    loss, bound : ndarray of shape (m,)
        Total loss so far and its bound, in units of the loss.
    comparison : ndarray of shape (m,), optional
        Total loss to compare with.
    comparison_name : str
        Its name in the legend.
    void : str, optional
        Why there is no bound at the end.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : dict of str to Line2D
        "loss" and, where known, "bound" and "comparison".

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.online import run_stream
    >>> from bregmat.plots import OnlineLossDisplay
    >>> run = run_stream(MatrixExponentiatedGradient(3, trace=2.0), [((0, 1), 0.5), ((0, 2), 1.0)] * 10, every=2)
    >>> display = OnlineLossDisplay.from_run(run)
    >>> display.ax_.get_xlabel()
    'examples'
    >>> plt.close("all")
    """

    position: NDArray[np.float64]
    loss: NDArray[np.float64]
    bound: NDArray[np.float64]
    _: KW_ONLY
    comparison: NDArray[np.float64] | None = None
    comparison_name: str = "comparison"
    void: str | None = None

    @classmethod
    def from_run(cls, run: Any, **options: Any) -> OnlineLossDisplay:
        """Draw the records of a :class:`bregmat.online.StreamRun`; options as in `from_data`."""
        return cls.from_data(run.history, **options)

    @classmethod
    def from_data(
        cls,
        records: Sequence[Any],
        *,
        comparison: Any = None,
        comparison_name: str = "comparison",
        scale: str = "linear",
        ax: Any = None,
    ) -> OnlineLossDisplay:
        """Draw a list of records.

        Parameters
        ----------
        records : sequence of StreamRecord
            With position, loss, bound and void.
        comparison : array-like of shape (m,) or scalar, optional
            Total loss to compare with, at the same positions.
        comparison_name : str
            Its name in the legend.
        scale : {"linear", "log"}
            Scale of the number of examples. Most of the loss occurs early, where "log" shows more.
        ax : Axes, optional
            Where to draw.
        """
        columns = columns_of("records", records, ("position", "loss", "bound"))
        other = None
        if comparison is not None:
            other = np.asarray(comparison, dtype=float)
            if other.ndim > 1 or (other.ndim == 1 and len(other) != len(records)):
                raise ValueError(
                    f"comparison must have one entry per record ({len(records)}); got shape {other.shape}."
                )
            other = np.broadcast_to(other, len(records))
        void = getattr(records[-1], "void", None)
        return cls(*columns, comparison=other, comparison_name=comparison_name, void=void).plot(ax=ax, scale=scale)

    def plot(self, ax: Any = None, *, scale: str = "linear") -> OnlineLossDisplay:
        """Draw, with the number of examples on a "linear" or "log" axis. Returns self."""
        if scale not in ("linear", "log"):
            raise ValueError(f'scale must be "linear" or "log"; got {scale!r}.')
        (self.ax_,) = self._panels(ax, (1, 1), (6.4, 4.0))
        self.lines_: dict[str, Any] = {}
        for name, values, label, color, dash in (
            ("bound", self.bound, "bound", DISSIMILAR, "--"),
            ("loss", self.loss, "total loss", SIMILAR, "-"),
            ("comparison", self.comparison, self.comparison_name, NEUTRAL, ":"),
        ):
            if values is None:
                continue
            known = np.isfinite(values) & (self.position > 0 if scale == "log" else True)
            if known.any():
                x, y = self._from_zero(self.position[known], values[known], joins=scale == "linear" and name != "bound")
                self.lines_[name] = curve(self.ax_, x, y, dash, color=color, label=label, few=21)
        self._axes(scale)
        tidy(self.ax_, grid="y")
        if self.lines_:
            title = fill(self._end(), 48)  # in the legend, which keeps clear of the lines
            self.ax_.legend(frameon=False, title=title, title_fontsize="small", alignment="left")
        return self

    def _from_zero(self, x: NDArray, y: NDArray, *, joins: bool) -> tuple[NDArray, NDArray]:
        """Let a line begin at zero examples with loss zero."""
        if not joins or x[0] == 0:
            return x, y
        return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])

    def _axes(self, scale: str) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        drawn = [line.get_ydata() for line in self.lines_.values()]
        high = max((float(np.max(y)) for y in drawn), default=1.0)
        self.ax_.set_ylim(0.0, 1.08 * high if high > 0 else 1.0)
        self.ax_.set(xlabel="examples", ylabel="total loss")
        last = max(float(self.position[-1]), 1.0)
        if scale == "log":
            first = float(self.position[self.position > 0][0]) if (self.position > 0).any() else last
            log_scale(self.ax_.xaxis, first, max(last, 2 * first))
            return
        self.ax_.set_xlim(0.0, last)
        self.ax_.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        self.ax_.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    def _end(self) -> str:
        """Describe the last total loss and its bound."""
        loss, bound = self.loss[-1], self.bound[-1]
        if not np.isfinite(loss):
            return ""
        text = f"at the end {number(loss, 3)}"
        if self.void is not None:
            return f"{text}; no bound: {self.void}"
        if not np.isfinite(bound):
            return text
        if bound < loss:
            return f"{text}, above the bound: nothing fits as well as was assumed"
        return f"{text}; the bound is {number(bound / loss, 3)} times that" if loss > 0 else text
