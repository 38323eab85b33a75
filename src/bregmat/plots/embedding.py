"""Display of points in two dimensions: as given, with scaled columns, and after the learned map."""

from __future__ import annotations

from collections import Counter
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.checks import is_missing
from bregmat.base.html import SUMMARY_COLUMNS
from bregmat.plots._style import MARKERS, NEUTRAL, PAPER, class_colors, require_matplotlib, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Group = tuple[Any, str, NDArray[np.bool_], str, str]  # label, name, which points, colour, marker

COLORS_SUFFICE = 7  # with more classes, their names are also written among the points


@dataclass(eq=False, repr=False)
class EmbeddingDisplay:
    """First two principal components of the points before and after the learned map, coloured by label.

    Panels have equal units on both axes. A distance in the picture is the part of the (unsquared) distance along the two
    components; the axis labels contain their share of the variance.

    Parameters
    ----------
    before, after, scaled : ndarray of shape (m, 2)
        Coordinates of the drawn points; `scaled` is optional, with columns scaled to unit variance, for a third panel.
    share_before, share_after, share_scaled : (float, float)
        Fraction of the variance along each axis.
    y : ndarray of shape (m,), optional
        Label of each drawn point; None or NaN if there is none.
    rows : ndarray of shape (m,), optional
        Row numbers of the drawn points among the `n_points` of the data.

    Attributes
    ----------
    ax_, figure_ : ndarray of 2 or 3 Axes, Figure
    classes_ : list
        Classes with a colour, in the order of the legend.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import EmbeddingDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(random_state=0).fit(X, y)
    >>> display = EmbeddingDisplay.from_estimator(learner, X, y)
    >>> display.before.shape, display.after.shape
    ((150, 2), (150, 2))
    >>> plt.close("all")
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    _: KW_ONLY
    y: ArrayLike | None = None
    share_before: tuple[float, float] = (np.nan, np.nan)
    share_after: tuple[float, float] = (np.nan, np.nan)
    rows: NDArray[np.int64] | None = None
    n_points: int | None = None
    scaled: NDArray[np.float64] | None = None
    share_scaled: tuple[float, float] = (np.nan, np.nan)

    def __post_init__(self) -> None:
        n = len(self.before)
        self.rows = np.arange(n) if self.rows is None else self.rows
        self.n_points = n if self.n_points is None else self.n_points

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike | None = None, **options: Any) -> EmbeddingDisplay:
        """Draw `X` before and after ``estimator.transform``; options as in `from_data`."""
        return cls.from_data(X, lambda points: np.asarray(estimator.transform(points)), y, **options)

    @classmethod
    def from_data(
        cls,
        before: Any,
        after: Any,
        y: ArrayLike | None = None,
        *,
        scaled: Any = None,
        unlabeled: Any = None,
        ax: Any = None,
        draw: bool = True,
    ) -> EmbeddingDisplay:
        """Draw points and their images.

        Parameters
        ----------
        before : array or scipy.sparse of shape (n, d)
            Points in data units. Of more than 2,000, a sample without replacement is drawn, with the components of the sample.
        after : array of shape (n, k), or callable
            Images of the points under the learned map, or the map itself, which is called with the drawn points only.
        y : array of shape (n,), optional
            Labels, any dtype.
        scaled : array or scipy.sparse of shape (n, d), optional
            The points with scaled columns, for a panel between the two.
        unlabeled : scalar, optional
            The value in `y` that means "no label".
        ax : array of 2 or 3 Axes, optional
            Where to draw: one for each panel.
        draw : bool, default True
            Draw at once; otherwise `plot` and `plot_view` do.
        """
        most_points = 2000
        before = before if hasattr(before, "shape") else np.asarray(before)
        n = before.shape[0]
        rows = np.arange(n)
        if n > most_points:  # always the same ones
            rows = np.sort(np.random.default_rng(0).choice(n, size=most_points, replace=False))
        before = _take_rows(before, rows)
        after = after(before) if callable(after) else _take_rows(after, rows)
        if y is not None:
            y = np.asarray(y)
            if y.shape != (n,):
                raise ValueError(f"y must have shape ({n},), one label per point; got {y.shape}.")
            y = y[rows].astype(object)
            y[[is_missing(label) or (unlabeled is not None and label == unlabeled) for label in y]] = None
        first, share = _principal(before)
        fields: dict[str, Any] = {"y": y, "rows": rows, "n_points": n, "share_before": share}
        second, fields["share_after"] = _principal(after)
        if scaled is not None:
            middle, fields["share_scaled"] = _principal(_take_rows(scaled, rows))
            fields["scaled"] = _turned(middle, first)
        display = cls(first, _turned(second, first), **fields)
        return display.plot(ax=ax) if draw else display

    def plot(self, ax: Any = None) -> EmbeddingDisplay:
        """Draw, in a new figure unless `ax` has one axes for each panel. Returns self."""
        names = [name for name in SUMMARY_COLUMNS if self._view(name)[0] is not None]
        if ax is None:
            require_matplotlib("a picture")
            import matplotlib.pyplot as plt

            ax = plt.subplots(1, len(names), figsize=(4.5 * len(names), 4.3), layout="constrained")[1]
        self.ax_ = np.asarray(ax, dtype=object).ravel()
        if len(self.ax_) != len(names):
            raise ValueError(f"ax must be {len(names)} axes, one for each panel; got {len(self.ax_)}.")
        self.figure_ = self.ax_[0].figure
        for panel, name in zip(self.ax_, names):
            self.plot_view(name, panel)
        if self.y is not None:
            place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
            scale = max(1.0, (30 / self._size) ** 0.5)
            self.ax_[-1].legend(*self.ax_[0].get_legend_handles_labels(), markerscale=scale, **place)
        return self

    def plot_view(self, name: str, panel: Axes) -> None:
        """Draw one panel: `name` is "as given", "scaled" or "learned"."""
        points, share = self._view(name)
        if points is None:
            raise ValueError(f"there is no panel {name!r}; from_data(..., scaled=...) has it drawn.")
        groups = self._groups()
        self.classes_ = [label for label, *_ in groups if label is not None]
        for _, text, mask, color, marker in groups:
            panel.scatter(
                points[mask, 0], points[mask, 1], s=self._size, c=color, marker=marker, alpha=0.75, linewidths=0, label=text,
                rasterized=len(points) > 600,
            )  # fmt: skip
        if len(self.classes_) > COLORS_SUFFICE:
            self._name_classes(panel, points, groups)
        panel.set_aspect("equal", adjustable="datalim")
        panel.margins(0.06)
        panel.locator_params(nbins=5)
        panel.set_title(name)
        for axis, part, number in ((panel.xaxis, share[0], "1st"), (panel.yaxis, share[1], "2nd")):
            digits = 0 if 0.01 <= part <= 0.99 else 1
            known = f" ({part:.{digits}%} of variance)" if np.isfinite(part) else ""
            axis.set_label_text(f"{number} component{known}")
        tidy(panel)

    def legend_entries(self) -> list[tuple[str, str, str]]:
        """Return (name, colour, marker) of each group, for a legend outside of the figure."""
        return [] if self.y is None else [(name, color, marker) for _, name, _, color, marker in self._groups()]

    def _view(self, name: str) -> tuple[NDArray[np.float64] | None, tuple[float, float]]:
        """Return the coordinates of a panel and the shares of variance along its axes."""
        points = (self.before, self.scaled, self.after)
        shares = (self.share_before, self.share_scaled, self.share_after)
        return dict(zip(SUMMARY_COLUMNS, zip(points, shares)))[name]

    @property
    def _size(self) -> float:
        """Area of a marker in points squared."""
        return float(np.clip(9000 / max(len(self.before), 1), 9, 36))

    def _name_classes(self, panel: Axes, points: NDArray[np.float64], groups: list[Group]) -> None:
        """Write the name of each class at the median of its points, with an outline."""
        from matplotlib.patheffects import withStroke

        halo = [withStroke(linewidth=4, foreground=PAPER)]
        for label, name, mask, *_ in groups:
            if label is not None:
                x, y = np.median(points[mask], axis=0)
                panel.text(x, y, name, weight="bold", fontsize=12, ha="center", va="center", path_effects=halo)

    def _groups(self) -> list[Group]:
        """Return the groups of points to draw; grey ones come first, so that they are below the others."""
        most_classes = 10
        everything = np.ones(len(self.before), dtype=bool)
        if self.y is None:
            return [(None, "points", everything, class_colors(1)[0], MARKERS[0])]
        y = np.asarray(self.y, dtype=object)
        missing = np.array([is_missing(label) for label in y], dtype=bool)
        largest = [label for label, _ in Counter(y[~missing]).most_common()]
        shown = sorted(largest if len(largest) <= most_classes else largest[: most_classes - 1], key=_order)
        other = ~missing & ~np.array([label in shown for label in y], dtype=bool)
        groups: list[Group] = []
        if missing.any():
            groups.append((None, "unlabelled", missing, NEUTRAL, "."))
        if other.any():
            groups.append((None, f"{len(largest) - len(shown)} other classes", other, NEUTRAL, MARKERS[0]))
        colors = class_colors(len(shown))
        return groups + [(label, _plain(label, 24), y == label, colors[k], MARKERS[k]) for k, label in enumerate(shown)]


def _plain(text: Any, max_length: int) -> str:
    """Prepare text of a user for Matplotlib: shortened, not a formula, and not hidden from the legend by an underscore."""
    text = " ".join(str(text).split())
    text = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return ("\u200b" + text if text.startswith("_") else text).replace("$", r"\$")


def _take_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Return rows of an array, sparse matrix or data frame in the same kind of container."""
    if len(rows) == X.shape[0]:
        return X
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    return X[rows]


def _principal(points: Any) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Return the coordinates on the first two principal components and their shares of the variance."""
    from sklearn.decomposition import PCA

    sparse = hasattr(points, "tocsr")
    points = points if sparse else np.asarray(points, dtype=float)
    if sparse and min(points.shape) < 3:  # ARPACK needs more rows and columns
        sparse, points = False, points.toarray()
    pca = PCA(n_components=min(2, *points.shape), svd_solver="arpack" if sparse else "auto", random_state=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # all points equal: no variance to divide by
        coordinates = np.asarray(pca.fit_transform(points))
    share = pca.explained_variance_ratio_
    missing = 2 - coordinates.shape[1]
    return np.pad(coordinates, ((0, 0), (0, missing))), tuple(np.pad(share, (0, missing)))


def _turned(points: NDArray[np.float64], like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip components whose sign, which is arbitrary, differs from that of `like`."""
    return points * np.where((like * points).sum(axis=0) < 0, -1.0, 1.0)


def _order(label: Any) -> tuple[bool, Any]:
    """Sort key of labels: numbers by value, then all others by name."""
    number = isinstance(label, int | float | np.number) and not isinstance(label, bool)
    return (not number, label if number else str(label))
