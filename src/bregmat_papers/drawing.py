"""How the pictures look: a name, a colour and a marker for each divergence, means with standard errors, the paper's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, EQUAL, NEUTRAL, SIMILAR, class_colors, tidy
from bregmat.typing import DivergenceName

__all__ = [
    "COLORS",
    "DISSIMILAR",
    "DIVERGENCES",
    "EQUAL",
    "MARKERS",
    "NEUTRAL",
    "SIMILAR",
    "STAR",
    "class_colors",
    "log_scale",
    "mean_line",
    "tidy",
]

DIVERGENCES: dict[DivergenceName, str] = {"logdet": "LogDet", "vonneumann": "von Neumann"}
COLORS: dict[DivergenceName, str] = {"logdet": SIMILAR, "vonneumann": DISSIMILAR}
MARKERS = {"logdet": "o", "vonneumann": "s"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# a number that the paper prints
STAR: dict[str, Any] = {"marker": "*", "markersize": 13, "markeredgecolor": "black", "linestyle": "none"}


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


def mean_line(ax: Any, x: Sequence[float], runs: Any, **style: Any) -> None:
    """Means over runs, shape (runs, len(x)), with standard errors."""
    values = np.asarray(runs, dtype=float)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    ax.errorbar(x, values.mean(axis=0), error, capsize=2, markersize=4, **style)
