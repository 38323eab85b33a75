"""What the displays share: colours, panels, axes without chartjunk, lines, rows found or sampled in the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from bregmat.base.html import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import ArrayLike, NDArray

    from bregmat.constraints.constraints import Constraints

# Okabe and Ito: told apart with every common colour-vision deficiency, on white and on dark grey.
SIMILAR, DISSIMILAR, EQUAL, NEUTRAL = "#0072B2", "#D55E00", "#009E73", "#8A8F98"
_UP_TO_SEVEN = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#BFB01A")
# Petroff (2021), ten colours optimised for the same purpose.
_UP_TO_TEN = (
    "#3F90DA", "#FFA90E", "#BD1F01", "#94A4A2", "#832DB6", "#A96B59", "#E76300", "#B9AC70", "#717581", "#92DADD",
)  # fmt: skip
PAPER = "#FFFFFE"  # the halo of names: white, but a white of its own, which a report turns into the colour of its page
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FEW = 60  # values beside which each one is shown, too
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")


def class_colors(n_classes: int) -> tuple[str, ...]:
    """Colours of 1 to 10 classes."""
    return _UP_TO_SEVEN[:n_classes] if n_classes <= len(_UP_TO_SEVEN) else _UP_TO_TEN[:n_classes]


def require_matplotlib(what: str) -> None:
    """Raise, with the way to install it, where Matplotlib is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{what} needs Matplotlib: pip install "bregmat[plot]"') from error


def panels(ax: Any, shape: tuple[int, int], figsize: tuple[float, float], **subplots: Any) -> NDArray[np.object_]:
    """Axes to draw in, flat: a new figure's, the caller's, or the caller's single axes cut into `shape`."""
    n_panels = shape[0] * shape[1]
    if ax is None:
        require_matplotlib("a picture")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(*shape, figsize=figsize, layout="constrained", squeeze=False, **subplots)
        return axes.ravel()
    given = np.asarray(ax, dtype=object).ravel()
    if len(given) == n_panels:
        return given
    if len(given) != 1:
        raise ValueError(f"ax must be one axes or {n_panels} axes; got {len(given)}.")
    outer = given[0]
    grid = outer.get_subplotspec()
    if grid is None:
        raise ValueError(f"ax was not made by subplots, so it cannot be divided; hand over {n_panels} axes.")
    outer.remove()
    axes = grid.subgridspec(*shape).subplots(squeeze=False, **subplots)
    return axes.ravel()


def tidy(ax: Axes, *, grid: Literal["x", "y"] | None = None) -> None:
    """No box around the data, ticks without marks; grid lines along one axis where values are read off."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)
    if grid is not None:
        ax.grid(axis=grid, linewidth=0.6, alpha=0.5)
        ax.set_axisbelow(True)


def log_scale(axis: Any, low: float, high: float) -> None:
    """Make an axis logarithmic, with plain text at its ticks: 1, 2, 5 and multiples over less than three decades."""
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
    """A power of ten: 0.01, 1, 100 as they are, else 10⁻⁶."""
    exponent = round(np.log10(value))
    if -2 <= exponent <= 3:
        return f"{value:,.{max(-exponent, 0)}f}"
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def centred_note(ax: Axes, text: str) -> None:
    """A sentence in place of a picture when there is nothing to draw."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)


def curve(ax: Axes, x: NDArray[Any], y: NDArray[Any], dash: str, *, color: str, label: str, few: int) -> Line2D:
    """A line.

    Parameters
    ----------
    ax : Axes
    x, y : ndarray, shape (k,)
    dash, color, label : str
        As Matplotlib takes them.
    few : int
        Up to so many points are marked, so that one is seen, too.
    """
    marker = "o" if len(x) <= few else None
    return ax.plot(x, y, dash, color=color, label=label, marker=marker, markersize=4, linewidth=1.6)[0]


def histogram(
    ax: Axes,
    values: NDArray[np.float64],
    edges: NDArray[np.float64],
    *,
    color: str,
    label: str | None = None,
    n_all: int | None = None,
) -> None:
    """Bars, in per cent of `n_all` values (by default these); values outside are in the last bars, few are ticks as well.

    Parameters
    ----------
    ax : Axes
    values : ndarray, shape (k,)
    edges : ndarray, shape (b + 1,)
        Ends of the bars.
    color, label : str
        As Matplotlib takes them.
    n_all : int, optional
    """
    if len(values) == 0:
        return
    n_all = len(values) if n_all is None else n_all
    placed = np.clip(values, edges[0], edges[-1])
    weights = np.full(len(values), 100 / n_all)
    ax.hist(placed, edges.tolist(), weights=weights, histtype="stepfilled", color=color, alpha=0.45, label=label)
    if n_all <= FEW:
        height = np.full(len(values), 0.03)
        ax.plot(placed, height, "|", color=color, markersize=9, transform=ax.get_xaxis_transform())


def columns_of(name: str, records: Sequence[Any], fields: Iterable[str]) -> list[NDArray[np.float64]]:
    """One array for each field of the records."""
    if len(records) == 0:
        raise ValueError(f"{name} is empty; there is nothing to draw.")
    return [np.array([getattr(record, field) for record in records], dtype=float) for field in fields]


def constraints_among(estimator: Any, X: Any, constraints: Any, sample_id: Any) -> tuple[Any, Constraints, Any]:
    """X as an array or frame, constraints in its row numbers (default: those the estimator was fitted on), names of the rows.

    Rows that name a sample which is not in X are left out, as in ``fit``.

    Parameters
    ----------
    estimator : MetricLearner or KernelLearner
        Fitted.
    X : array-like, shape (n, d)
    constraints : Constraints or None
    sample_id : array-like, shape (n,), or None
        As in ``fit``.
    """
    from bregmat.base.points import row_names
    from bregmat.estimators.learner import given_constraints  # here: pictures of plain data load less

    X = X if hasattr(X, "shape") else np.asarray(X)
    constraints = estimator.constraints_ if constraints is None else constraints
    names = row_names(X, constraints, sample_id)
    located, n_dropped = given_constraints(constraints, names, X.shape[0])
    if located is None:
        raise ValueError(f"constraints: none of the {n_dropped} rows has all its samples in X.")
    return X, located, names


class Display:
    """A picture: what is drawn is computed once, ``plot`` draws it as often as wanted."""

    figure_: Any

    def _panels(self, ax: Any, shape: tuple[int, int], figsize: tuple[float, float], **subplots: Any) -> NDArray[Any]:
        """Axes to draw in, of :func:`panels`; sets the figure."""
        axes = panels(ax, shape, figsize, **subplots)
        self.figure_ = axes[0].figure
        return axes


class ResultDisplay(Display):
    """A display of what a result says."""

    from_result: Any  # (result, **options): each class has its own

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> Self:
        """Draw ``estimator.result_``; options as in `from_data`."""
        return cls.from_result(estimator.result_, **options)


class ConstraintDisplay(Display):
    """A display of what constraints say of points."""

    from_data: Any  # each class has its own

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, constraints: Any = None, *, sample_id: ArrayLike | None = None, **options: Any
    ) -> Self:
        """Draw the rows of constraints whose points are among given ones.

        Parameters
        ----------
        estimator : fitted estimator
        X : array, scipy.sparse or data frame of shape (n, d)
            Constraints of points that are not among its rows are left out.
        constraints : Constraints, optional
            By default those it was fitted on.
        sample_id : array of shape (n,), optional
            Names of the rows of `X`, as in ``fit``.
        **options
            As in `from_data`.
        """
        X, located, names = constraints_among(estimator, X, constraints, sample_id)
        return cls._of_points(X, np.asarray(estimator.transform(X)), located, names, **options)

    @classmethod
    def _of_points(cls, X: Any, after: Any, constraints: Any, names: Any, **options: Any) -> Any:
        """Draw for points X (n, d) that are mapped to ``after``, with constraints in row numbers and names of the points."""
        return cls.from_data(X, after, constraints, **options)


class BeforeAndAfter(ConstraintDisplay):
    """A display of what constraints say, at the points as given and at the learned ones."""

    @classmethod
    def from_result(cls, result: Any, X: Any, constraints: Any, **options: Any) -> Self:
        """Draw `constraints` (in row numbers of `X`); options as in `from_data`."""
        return cls.from_data(X, result.transform(X), constraints, **options)


def sample_rows(n: int, most: int, random_state: Any) -> NDArray[np.int64]:
    """At most `most` of the row numbers 0 ... n - 1, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, size=most, replace=False))


def take_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of an array, sparse matrix or data frame, in the same kind of container."""
    if len(rows) == X.shape[0]:
        return X
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    return X[rows]


def plain(text: Any, most: int) -> str:
    """A user's word as Matplotlib shall show it: not as a formula, not hidden from the legend, not too long."""
    text = " ".join(str(text).split())
    text = text if len(text) <= most else text[: most - 1] + "…"
    return ("\u200b" + text if text.startswith("_") else text).replace("$", r"\$")
