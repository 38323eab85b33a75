"""A learned Mahalanobis matrix as a map of its entries, rows and columns named by feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.plots._style import DISSIMILAR, SIMILAR, Display, plain

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST = 30  # features whose names can be read


@dataclass(eq=False, repr=False)
class MatrixDisplay(Display):
    """Entries of the learned matrix between features: blue where two features together count more than alone, red where less.

    With the standard deviations of the columns, entries are those for columns scaled to unit variance, so that features of
    different units can be compared. Of many features, those with the largest diagonal entries are drawn.

    Parameters
    ----------
    matrix : ndarray of shape (k, k)
        Symmetric; dimensionless where columns were scaled, else one over squared data units.
    names : sequence of k str
    n_features : int
        How many features the matrix has in all.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
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
    def from_result(cls, result: Any, **options: Any) -> MatrixDisplay:
        """Draw ``result.metric()``; options as in `from_data`."""
        return cls.from_data(result.metric(), **options)

    @classmethod
    def from_data(
        cls,
        matrix: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        deviations: ArrayLike | None = None,
        most: int = MOST,
        ax: Any = None,
    ) -> MatrixDisplay:
        """Draw a given matrix.

        Parameters
        ----------
        matrix : array of shape (d, d)
        names : sequence of d str, optional
            Of the features; "0", "1", ... where not given.
        deviations : array of shape (d,), optional
            Standard deviations of the columns, data units.
        most : int
            More features than this are not drawn.
        ax : Axes, optional

        Raises
        ------
        ValueError
            If `matrix` is not square, or `names` or `deviations` have another length.
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
        shown = np.sort(np.argsort(-np.diagonal(matrix), kind="stable")[:most])
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
    """Red below 0, blue above, and nothing at 0: the paper is seen, light or dark."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    red, blue = to_rgb(DISSIMILAR), to_rgb(SIMILAR)
    ends = [(0.0, (*red, 1.0)), (0.5, (*red, 0.0)), (0.5, (*blue, 0.0)), (1.0, (*blue, 1.0))]
    return LinearSegmentedColormap.from_list("bregmat", ends)
