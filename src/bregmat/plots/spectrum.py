"""Which directions the learned matrix stretches and which it shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import NEUTRAL, SIMILAR, ResultDisplay, curve, log_scale, tidy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(eq=False, repr=False)
class SpectrumDisplay(ResultDisplay):
    """Eigenvalues of the learned matrix, largest first, against those of the prior; logarithmic axis.

    Above the prior a direction was stretched, below it was shrunk; eigenvalues of 0 (directions given up) are counted
    in the legend, not drawn.

    Parameters
    ----------
    learned, prior : ndarray of shape (r,)
        Eigenvalues, largest first, at least 0; dimensionless.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    lines_ : dict of str to Line2D
        "learned" and "prior".

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import SpectrumDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(random_state=0).fit(X, y)
    >>> display = SpectrumDisplay.from_estimator(learner)
    >>> len(display.learned)
    4
    >>> plt.close("all")
    """

    learned: NDArray[np.float64]
    prior: NDArray[np.float64]

    @classmethod
    def from_result(cls, result: Any, **options: Any) -> SpectrumDisplay:
        """Draw ``result.spectrum()`` against the prior it was learned from; options as in `from_data`."""
        return cls.from_data(result.spectrum(), **{"prior": _prior(result), **options})

    @classmethod
    def from_data(cls, learned: ArrayLike, *, prior: ArrayLike | None = None, ax: Any = None) -> SpectrumDisplay:
        """Draw given eigenvalues.

        Parameters
        ----------
        learned : array of shape (r,)
            Eigenvalues in any order.
        prior : array of shape (r,) or (d, d), optional
            The prior's eigenvalues, or the prior itself; the identity where not given.
        ax : Axes, optional
        """
        learned = _descending(learned)
        if prior is None:
            prior = np.ones(len(learned))
        else:
            prior = np.asarray(prior, dtype=float)
            prior = _descending(np.linalg.eigvalsh(prior) if prior.ndim == 2 else prior)
        return cls(learned, prior).plot(ax=ax)

    def plot(self, ax: Any = None) -> SpectrumDisplay:
        """Draw. Returns self."""
        (self.ax_,) = self._panels(ax, (1, 1), (6.4, 4.0))
        self.lines_: dict[str, Any] = {}
        for name, values, color, dash in (
            ("prior", self.prior, NEUTRAL, "--"),
            ("learned", self.learned, SIMILAR, "-"),
        ):
            top = values.max(initial=0.0)
            drawn = values[values > 1e-14 * top] if top > 0 else values[:0]
            place, label = np.arange(1, len(drawn) + 1), _label(name, drawn, len(values) - len(drawn))
            few = 100 if name == "learned" else 0
            self.lines_[name] = curve(self.ax_, place, drawn, dash, color=color, label=label, few=few)
        log_scale(self.ax_.yaxis, *_range(self.prior, self.learned))
        most = max(len(self.prior), len(self.learned), 1)
        self.ax_.set_xlim(max(1 - 0.03 * most, 0.3), most + max(0.03 * most, 0.7))
        self.ax_.set_xlabel("direction, most stretched first")
        self.ax_.set_ylabel("eigenvalue, log scale")
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        tidy(self.ax_, grid="y")
        self.ax_.legend(frameon=False)
        return self


def _descending(values: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"eigenvalues must be 1-dimensional; got shape {values.shape}.")
    return np.sort(values)[::-1]


def _prior(result: Any) -> NDArray[np.float64]:
    """Eigenvalues of the prior in the coordinates of ``result.spectrum()``; 1 where these make it the identity."""
    iterate = result.iterate
    if iterate.x is None:
        return np.ones(len(result.spectrum()))
    return result.coordinates.scale * iterate.divergence.inverse_link(result.coordinates.t0)


def _range(*spectra: NDArray[np.float64]) -> tuple[float, float]:
    """Smallest positive and largest eigenvalue of all."""
    values = np.concatenate(spectra)
    values = values[values > 1e-14 * values.max(initial=0.0)]
    return (float(values.min()), float(values.max())) if len(values) else (1.0, 1.0)


def _label(name: str, drawn: NDArray[np.float64], zeros: int) -> str:
    """The legend entry: the range of the values, and how many are zero."""
    parts = [name]
    if len(drawn):
        low, high = number(drawn[-1], 3), number(drawn[0], 3)
        parts.append(f"all {low}" if low == high else f"{low} to {high}")
    if zeros:
        parts.append(f"{zeros:,} zero")
    return f"{parts[0]}: {', '.join(parts[1:])}" if len(parts) > 1 else name
