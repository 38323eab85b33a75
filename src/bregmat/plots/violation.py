"""The constraints that are violated most, by row."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, ConstraintDisplay, centred_note, log_scale, plain, tidy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(eq=False, repr=False)
class ViolationDisplay(ConstraintDisplay):
    """Bars of the largest relative violations; each names its constraint row, relation, points and bound.

    Parameters
    ----------
    rows : ndarray of shape (m,)
        Constraint rows, worst first.
    labels : list of m str
        Each row in words.
    violation : ndarray of shape (m,)
        Relative violation: excess divided by the absolute value of the bound; dimensionless.
    n_violated, n_constraints : int
        How many rows are violated beyond `tol`, and how many there are.
    tol : float
        Relative violation up to which a row counts as met.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    bars_ : BarContainer or None
        None if nothing is violated.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.plots import ViolationDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(strategy="random", prior="identity", random_state=0).fit(X, y)
    >>> display = ViolationDisplay.from_estimator(learner, X)
    >>> display.n_constraints == learner.constraints_.n_constraints
    True
    >>> plt.close("all")
    """

    rows: NDArray[np.int64]
    labels: list[str]
    violation: NDArray[np.float64]
    _: KW_ONLY
    n_violated: int
    n_constraints: int
    tol: float = 1e-3

    @classmethod
    def _of_points(cls, X: Any, after: Any, constraints: Any, names: Any, **options: Any) -> Any:
        return cls.from_data(after, constraints, sample_id=names, **options)

    @classmethod
    def from_result(cls, result: Any, constraints: Any, X: Any = None, **options: Any) -> ViolationDisplay:
        """Draw for ``result.transform(X)``, or for the learned kernel without `X`; options as in `from_data`."""
        return cls.from_data(result.factor if X is None else result.transform(X), constraints, **options)

    @classmethod
    def from_data(
        cls,
        after: Any,
        constraints: Any,
        *,
        sample_id: ArrayLike | None = None,
        most: int = 15,
        tol: float = 1e-3,
        ax: Any = None,
    ) -> ViolationDisplay:
        """Draw for given points.

        Parameters
        ----------
        after : array of shape (n, k)
            The points after the learned map; their inner products are the learned kernel.
        constraints : Constraints
            In row numbers.
        sample_id : array of shape (n,), optional
            Names of the points.
        most : int
            Number of rows to draw at most.
        tol : float
            Relative violation up to which a row counts as met.
        ax : Axes, optional
        """
        violation = constraints.violation(np.asarray(after, dtype=float))
        worst, n_violated = worst_violated(violation, most, tol)
        labels = [constraints.describe(row, sample_id) for row in worst]
        n = constraints.n_constraints
        return cls(worst, labels, violation[worst], n_violated=n_violated, n_constraints=n, tol=tol).plot(ax=ax)

    def plot(self, ax: Any = None) -> ViolationDisplay:
        """Draw. Returns self."""
        (self.ax_,) = self._panels(ax, (1, 1), (7.4, 1.1 + 0.28 * max(len(self.rows), 3)))
        self.bars_: Any = None
        if len(self.rows) == 0:
            centred_note(self.ax_, f"All {self.n_constraints:,} constraints are met (to a relative {self.tol:g}).")
            return self
        place = np.arange(len(self.rows))
        self.bars_ = self.ax_.barh(place, self.violation, height=0.62, color=DISSIMILAR)
        names = [f"row {row}: {plain(_signs(label), 60)}" for row, label in zip(self.rows, self.labels, strict=True)]
        self.ax_.set_yticks(place, names)
        self.ax_.invert_yaxis()
        self.ax_.bar_label(self.bars_, [number(v, 3) for v in self.violation], padding=3, fontsize="small")
        finite = self.violation[np.isfinite(self.violation)]
        if len(finite) and finite.max() > 100 * finite.min():
            log_scale(self.ax_.xaxis, finite.min(), finite.max())
        self.ax_.margins(x=0.12)
        self.ax_.set_xlabel("relative violation (excess / bound)")
        self.ax_.set_title(
            f"{len(self.rows)} worst of {self.n_violated:,} violated constraints ({self.n_constraints:,} in all)",
            loc="left",
        )
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.spines["left"].set_visible(False)
        tidy(self.ax_, grid="x")
        return self


def worst_violated(violation: NDArray[np.float64], most: int, tol: float) -> tuple[NDArray[np.int64], int]:
    """The rows violated most, worst first, at most so many; and how many are violated beyond `tol` (or not known)."""
    n_violated = int((~(violation <= tol)).sum())
    return np.argsort(-violation, kind="stable")[: min(most, n_violated)], n_violated


def _signs(label: str) -> str:
    """Mathematical signs for the ASCII ones."""
    return label.replace("<=", "≤").replace(">=", "≥").replace("==", "=")
