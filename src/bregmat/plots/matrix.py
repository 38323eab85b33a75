"""Display of the entries of a learned Mahalanobis matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.plots._style import DISSIMILAR, SIMILAR, Display, plain

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST = 30  # with more features the names would not be legible


@dataclass(eq=False, repr=False)
class MatrixDisplay(Display):
    """Entries of the learned matrix between features; positive entries are blue, negative entries red.

    If the standard deviations of the columns are given, the entries are those for columns scaled to unit variance, so that
    features with different units can be compared. If there are many features, those with the largest diagonal entries are drawn.

    Parameters
    ----------
    matrix : ndarray of shape (k, k)
        Symmetric; dimensionless if columns were scaled, else in one over squared data units.
    names : sequence of k str
    n_features : int
        Number of features, including those that are not drawn.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
    image_ : AxesImage

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import MatrixDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> display = MatrixDisplay.from_estimator(MetricLearner(random_state=0).fit(X, y))
    >>> display.names[0]
    'sepal length (cm)'
    >>> plt.close("all")
    """

    matrix: NDArray[np.float64]
    names: Sequence[str]
    n_features: int

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> MatrixDisplay:
        """Draw ``estimator.get_mahalanobis_matrix()``; options as in `from_data`."""
        names = getattr(estimator, "feature_names_in_", None)
        return cls.from_data(estimator.get_mahalanobis_matrix(), **{"names": names, **options})

    @classmethod
    def from_data(
        cls,
        matrix: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        deviations: ArrayLike | None = None,
        ax: Any = None,
    ) -> MatrixDisplay:
        """Draw a matrix.

        Parameters
        ----------
        matrix : array of shape (d, d)
        names : sequence of d str, optional
            Names of the features; by default "0", "1", ...
        deviations : array of shape (d,), optional
            Standard deviations of the columns, data units.
        ax : Axes, optional

        Raises
        ------
        ValueError
            If `matrix` is not square, or `names` or `deviations` have a length other than d.
        """
        matrix = np.asarray(matrix, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix must be square; got shape {matrix.shape}.")
        d = len(matrix)
        names = [str(k) for k in range(d)] if names is None else [str(name) for name in names]
        if len(names) != d:
            raise ValueError(f"names must have one entry for each of the {d} features; got {len(names)}.")
        if deviations is not None:
            deviations = np.asarray(deviations, dtype=float)
            if deviations.shape != (d,):
                raise ValueError(f"deviations must have shape ({d},); got {deviations.shape}.")
            matrix = matrix * np.outer(deviations, deviations)
        shown = np.sort(np.argsort(-np.diagonal(matrix), kind="stable")[:MOST])
        return cls(matrix[np.ix_(shown, shown)], [names[k] for k in shown], d).plot(ax=ax)

    def plot(self, ax: Any = None) -> MatrixDisplay:
        """Draw. Returns self."""
        (self.ax_,) = self._panels(ax, (1, 1), (5.6, 4.8))
        most = np.abs(self.matrix).max(initial=0.0) or 1.0
        self.image_ = self.ax_.imshow(self.matrix, cmap=_colors(), vmin=-most, vmax=most, interpolation="nearest")
        places, texts = np.arange(len(self.names)), [plain(name, 22) for name in self.names]
        size = float(np.clip(160 / max(len(self.names), 1), 5.5, 9))
        self.ax_.set_xticks(places, texts, rotation=90, fontsize=size)
        self.ax_.set_yticks(places, texts, fontsize=size)
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        bar = self.figure_.colorbar(self.image_, ax=self.ax_, shrink=0.7)
        bar.outline.set_visible(False)
        return self


def _colors() -> Any:
    """Return a colour map: red below 0, blue above, transparent at 0, so that it suits light and dark pages."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    red, blue = to_rgb(DISSIMILAR), to_rgb(SIMILAR)
    ends = [(0.0, (*red, 1.0)), (0.5, (*red, 0.0)), (0.5, (*blue, 0.0)), (1.0, (*blue, 1.0))]
    return LinearSegmentedColormap.from_list("bregmat", ends)
