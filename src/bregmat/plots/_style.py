"""What the displays share: colours, panels, axes, lines, samples of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bregmat.base.html import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

# Okabe and Ito (2008): distinguishable with every common colour-vision deficiency, on white and on dark grey.
SIMILAR, DISSIMILAR, EQUAL, NEUTRAL = "#0072B2", "#D55E00", "#009E73", "#8A8F98"
_UP_TO_SEVEN = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#BFB01A")
# Petroff (2021): ten colours optimised for the same purpose.
_UP_TO_TEN = (
    "#3F90DA", "#FFA90E", "#BD1F01", "#94A4A2", "#832DB6", "#A96B59", "#E76300", "#B9AC70", "#717581", "#92DADD",
)  # fmt: skip
PAPER = "#FFFFFE"  # outline of names: a white that no other part uses, so that a report can replace it by the colour of its page
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")


def class_colors(n_classes: int) -> tuple[str, ...]:
    """Return the colours of 1 to 10 classes."""
    return _UP_TO_SEVEN[:n_classes] if n_classes <= len(_UP_TO_SEVEN) else _UP_TO_TEN[:n_classes]


def require_matplotlib(what: str) -> None:
    """Raise ImportError with the command that installs Matplotlib if it is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{what} needs Matplotlib: pip install "bregmat[plot]"') from error


def tidy(ax: Axes, *, grid: Literal["x", "y"] | None = None) -> None:
    """Remove the box around the data, shorten the ticks and add grid lines along one axis if asked."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)
    if grid is not None:
        ax.grid(axis=grid, linewidth=0.6, alpha=0.5)
        ax.set_axisbelow(True)


def log_scale(axis: Any, low: float, high: float) -> None:
    """Make an axis logarithmic with readable ticks: 1, 2, 5 and multiples over less than three decades, else powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if low > 0 and high / low < 1e3:
        subs = (1.0, 2.0, 5.0) if high / low > 5 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=20))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 3)))
    else:
        axis.set_major_locator(LogLocator(numticks=8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    axis.set_minor_formatter(NullFormatter())


def _power(value: float) -> str:
    """Write a power of ten: 0.01, 1 or 100 as a decimal number, others such as 10⁻⁶."""
    exponent = round(np.log10(value))
    if -2 <= exponent <= 3:
        return f"{value:,.{max(-exponent, 0)}f}"
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def curve(ax: Axes, points: tuple[NDArray[Any], NDArray[Any]], few: int, **style: Any) -> Line2D:
    """Draw a line and return it; up to `few` points have markers, so that a single point is visible."""
    marker = "o" if len(points[0]) <= few else None
    return ax.plot(*points, marker=marker, markersize=4, linewidth=1.6, **style)[0]


def columns_of(name: str, records: Sequence[Any], fields: Iterable[str]) -> list[NDArray[np.float64]]:
    """Return one array for each field of the records."""
    if len(records) == 0:
        raise ValueError(f"{name} is empty; there is nothing to draw.")
    return [np.array([getattr(record, field) for record in records], dtype=float) for field in fields]


class Display:
    """Base of the displays. The numbers to draw are computed once; ``plot`` draws them as often as needed."""

    figure_: Any

    def _panels(self, ax: Any, shape: tuple[int, int], figsize: tuple[float, float], **subplots: Any) -> NDArray[Any]:
        """Return a flat array of axes to draw in, and store their figure.

        These are the axes of a new figure if `ax` is None, the axes in `ax`, or the single axes `ax` divided into `shape`.
        """
        axes = np.asarray(ax, dtype=object).ravel()
        n_panels = shape[0] * shape[1]
        if ax is None:
            require_matplotlib("a picture")
            import matplotlib.pyplot as plt

            axes = plt.subplots(*shape, figsize=figsize, layout="constrained", squeeze=False, **subplots)[1].ravel()
        elif len(axes) == 1 < n_panels:
            grid = axes[0].get_subplotspec()
            if grid is None:
                raise ValueError(f"ax was not made by subplots, so it cannot be divided; pass {n_panels} axes.")
            axes[0].remove()
            axes = grid.subgridspec(*shape).subplots(squeeze=False, **subplots).ravel()
        elif len(axes) != n_panels:
            raise ValueError(f"ax must be one axes or {n_panels} axes; got {len(axes)}.")
        self.figure_ = axes[0].figure
        return axes


def sample_rows(n: int, max_rows: int) -> NDArray[np.int64]:
    """Draw at most `max_rows` of the row numbers 0 ... n - 1, without replacement, in increasing order; always the same ones."""
    if n <= max_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size=max_rows, replace=False))


def plain(text: Any, max_length: int) -> str:
    """Prepare text of a user for Matplotlib: shortened, not a formula, and not hidden from the legend by an underscore."""
    text = " ".join(str(text).split())
    text = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return ("\u200b" + text if text.startswith("_") else text).replace("$", r"\$")
