"""How the pictures look: a name, a colour and a marker for each divergence, means with standard errors, the paper's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bregmat.plots._style import DISSIMILAR, EQUAL, NEUTRAL, SIMILAR, class_colors, log_scale, tidy
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
# a number that the paper prints
STAR: dict[str, Any] = {"marker": "*", "markersize": 13, "markeredgecolor": "black", "linestyle": "none"}


def mean_line(ax: Any, x: Sequence[float], runs: Any, **style: Any) -> None:
    """Means over runs, shape (runs, len(x)), with standard errors."""
    values = np.asarray(runs, dtype=float)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    ax.errorbar(x, values.mean(axis=0), error, capsize=2, markersize=4, **style)
