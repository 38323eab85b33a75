"""How pictures look: colours, markers, axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito (2008): distinguishable with every common colour-vision deficiency, on white and on dark grey.
SIMILAR, DISSIMILAR, EQUAL, NEUTRAL = "#0072B2", "#D55E00", "#009E73", "#8A8F98"
_UP_TO_SEVEN = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#BFB01A")
# Petroff (2021): ten colours optimised for the same purpose.
_UP_TO_TEN = (
    "#3F90DA", "#FFA90E", "#BD1F01", "#94A4A2", "#832DB6", "#A96B59", "#E76300", "#B9AC70", "#717581", "#92DADD",
)  # fmt: skip
PAPER = "#FFFFFE"  # outline of names: a white that no other part uses, so that a report can replace it by the colour of its page
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
