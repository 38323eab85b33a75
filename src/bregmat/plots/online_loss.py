"""Display of the total loss of an online learner and its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, SIMILAR, Display, columns_of, curve, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(eq=False, repr=False)
class OnlineLossDisplay(Display):
    """Total loss of an online learner against the number of examples, and the bound that it cannot exceed.

    As in the left panel of Figure 2 of Tsuda 2004. Bounds that are unknown (NaN) or infinite are left out. If there is no
    bound at the end, the legend says why.

    Parameters
    ----------
    position : ndarray of shape (m,)
        Examples seen; increasing.
    loss, bound : ndarray of shape (m,)
        Total loss so far and its bound, in units of the loss.
    void : str, optional
        Why there is no bound at the end.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    lines_ : dict of str to Line2D
        "loss" and, if known, "bound".

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
    void: str | None = None

    @classmethod
    def from_run(cls, run: Any, *, ax: Any = None) -> OnlineLossDisplay:
        """Draw the records of a :class:`bregmat.online.StreamRun`."""
        return cls.from_data(run.history, ax=ax)

    @classmethod
    def from_data(cls, records: Sequence[Any], *, ax: Any = None) -> OnlineLossDisplay:
        """Draw a sequence of records with position, loss, bound and void; `ax` says where."""
        columns = columns_of("records", records, ("position", "loss", "bound"))
        return cls(*columns, void=records[-1].void).plot(ax=ax)

    def plot(self, ax: Any = None) -> OnlineLossDisplay:
        """Draw. Returns self."""
        (self.ax_,) = self._panels(ax, (1, 1), (6.4, 4.0))
        self.lines_: dict[str, Any] = {}
        for name, values, label, color, dash in (
            ("bound", self.bound, "bound", DISSIMILAR, "--"),
            ("loss", self.loss, "total loss", SIMILAR, "-"),
        ):
            known = np.isfinite(values)
            if not known.any():
                continue
            x, y = self.position[known], values[known]
            if name == "loss" and x[0] > 0:  # the total loss of no examples is zero
                x, y = np.concatenate([[0.0], x]), np.concatenate([[0.0], y])
            self.lines_[name] = curve(self.ax_, (x, y), 21, color=color, label=label, linestyle=dash)
        self._set_axes()
        tidy(self.ax_, grid="y")
        if self.lines_:
            title = fill(self._end(), 48)  # as the title of the legend, which is placed away from the lines
            self.ax_.legend(frameon=False, title=title, title_fontsize="small", alignment="left")
        return self

    def _set_axes(self) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        drawn = [line.get_ydata() for line in self.lines_.values()]
        high = max((float(np.max(y)) for y in drawn), default=1.0)
        self.ax_.set_ylim(0.0, 1.08 * high if high > 0 else 1.0)
        self.ax_.set_xlim(0.0, max(float(self.position[-1]), 1.0))
        self.ax_.set(xlabel="examples", ylabel="total loss")
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
