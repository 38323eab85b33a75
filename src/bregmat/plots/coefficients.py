"""The coefficients of a margin machine, example by example: Figure 1 of Sha 2002, and the same of a fitted machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bregmat.base.html import number
from bregmat.plots._style import DISSIMILAR, NEUTRAL, SIMILAR, Display, plain, tidy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SUPPORT, OUTSIDE, OPEN = 0, 1, 2  # what is known of an example
_LOOKS = {
    SUPPORT: ("support vector", SIMILAR),
    OUTSIDE: ("no support vector", NEUTRAL),
    OPEN: ("not proven", DISSIMILAR),
}
_WORDS = {SUPPORT: "support", OUTSIDE: "not", OPEN: "open"}
_MOST_PANELS = 12


@dataclass(eq=False, repr=False)
class CoefficientDisplay(Display):
    """Coefficients alpha_i of the training examples, support vectors on the left; one panel per iteration or machine.

    Parameters
    ----------
    coefficients : list of ndarray, each of shape (n,)
        Nonnegative; in the order of drawing. The panels of one training run share it.
    kinds : list of ndarray of int, each of shape (n,)
        Of every example: 0 support vector, 1 none, 2 not known.
    titles, notes : list of str
        What stands above each panel on the left (iteration, classes) and on the right (errors).
    bound : float, optional
        The largest value a coefficient may have; drawn as a line.
    proven : bool
        Whether the kinds are proven, for the words of the legend.
    bound_name : str
        What the line is called.

    Attributes
    ----------
    ax_ : ndarray of Axes, one per panel
    figure_ : Figure
    lines_ : list of dict of int to LineCollection
        Per panel the stems of every kind that occurs.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MarginSVC
    >>> from bregmat.plots import CoefficientDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = CoefficientDisplay.from_estimator(MarginSVC().fit(X, y))
    >>> len(display.ax_)  # one panel for each pair of classes
    3
    >>> plt.close("all")
    """

    coefficients: list[NDArray[np.float64]]
    kinds: list[NDArray[np.int64]]
    _: KW_ONLY
    titles: list[str]
    notes: list[str]
    bound: float | None = None
    proven: bool = False
    bound_name: str = "C"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        pairs: Sequence[int] | None = None,
        ax: Any = None,
    ) -> CoefficientDisplay:
        """Draw a fitted :class:`MarginSVC`: which examples are proven to be support vectors, proven to be none, or neither.

        Parameters
        ----------
        estimator : MarginSVC
        X, y : array-like, optional
            Points with labels, both or none; the share that is misclassified is written above.
        pairs : sequence of int, optional
            With more than two classes: positions in ``estimator.result_``; by default all of them, 12 at most.
        ax : Axes or sequence of Axes, optional

        Notes
        -----
        The largest value that a coefficient may have is drawn where it is the same for all examples: not with weights.

        Raises
        ------
        TypeError, ValueError
            No MarginSVC; X without y; too many panels.
        NotFittedError
            The estimator is not fitted.
        """
        if not hasattr(estimator, "fit") or not hasattr(estimator, "squared_hinge"):
            raise TypeError(f"estimator must be a MarginSVC; got {type(estimator).__name__}.")
        check_is_fitted(estimator)
        if X is not None and y is None:
            raise ValueError("y must be given with X: the labels of its points.")
        results, certified = (
            value if isinstance(value, list) else [value] for value in (estimator.result_, estimator.certified_)
        )
        chosen = range(len(results)) if pairs is None else pairs
        if len(chosen) > _MOST_PANELS:
            raise ValueError(
                f"{len(chosen)} pairs of classes are too many panels: choose up to {_MOST_PANELS} with pairs=."
            )
        classes = [str(label) for label in estimator.classes_]
        names = [f"{a} and {b}" for k, a in enumerate(classes) for b in classes[k + 1 :]]
        error = "" if X is None else f"error {_percent(1.0 - estimator.score(X, y))}"
        coefficients, kinds, notes = [], [], []
        for k in chosen:
            alpha = results[k].alpha
            kind = np.array([OPEN, SUPPORT, OUTSIDE])[certified[k]]  # certified: 0, 1, -1
            order = np.lexsort((-alpha, np.array([0, 2, 1])[kind]))
            coefficients.append(alpha[order])
            kinds.append(kind[order])
            counts = [f"{(kind == which).sum():,} {word}" for which, word in _WORDS.items() if (kind == which).any()]
            notes.append(", ".join([*counts, error] if error and k == chosen[0] else counts))
        # one line for all panels: not where examples or classes have weights of their own
        prices = {results[k].price for k in chosen}
        bound = prices.pop() if len(prices) == 1 else np.inf
        display = cls(
            coefficients, kinds, titles=[names[k] for k in chosen], notes=notes, proven=True,
            bound=bound if np.isfinite(bound) else None, bound_name="C" if bound == estimator.C else "C × weight",
        )  # fmt: skip
        return display.plot(ax=ax)

    @classmethod
    def from_iterates(
        cls,
        iterations: ArrayLike,
        coefficients: Any,
        *,
        train_error: ArrayLike | None = None,
        test_error: ArrayLike | None = None,
        support: ArrayLike | None = None,
        ax: Any = None,
    ) -> CoefficientDisplay:
        """Draw the coefficients after several iterations, one panel each (Sha 2002, Figure 1).

        Parameters
        ----------
        iterations : array-like of int, shape (p,)
            Ascending; the paper has 0, 1, 2, 4, ..., 64.
        coefficients : array-like, shape (p, n)
            Nonnegative.
        train_error, test_error : array-like, shape (p,), optional
            Shares of misclassified examples, 0 to 1.
        support : array-like of bool, shape (n,), optional
            The support vectors of the machine. By default, examples whose last coefficient is a thousandth of the largest
            at least.
        ax : Axes or sequence of p Axes, optional
            One axes is divided.
        """
        steps = np.asarray(iterations)
        values = np.asarray(coefficients, dtype=float)
        if steps.ndim != 1 or len(steps) == 0:
            raise ValueError(f"iterations must be 1-dimensional and not empty; got shape {steps.shape}.")
        if values.ndim != 2 or len(values) != len(steps) or values.shape[1] == 0:
            raise ValueError(
                f"coefficients must have shape ({len(steps)}, n), one row per iteration; got {values.shape}."
            )
        if not (values >= 0).all():
            raise ValueError("coefficients must be nonnegative numbers.")
        last = values[-1]
        is_support = last >= 1e-3 * last.max() if support is None else np.asarray(support, dtype=bool)
        if is_support.shape != last.shape:
            raise ValueError(f"support must have shape ({len(last)},), one entry per example; got {is_support.shape}.")
        order = np.lexsort((-last, ~is_support))
        kind = np.where(is_support, SUPPORT, OUTSIDE)[order]
        errors = [
            (name, _per_iteration(f"{name}_error", given, len(steps)))
            for name, given in (("train", train_error), ("test", test_error))
            if given is not None
        ]
        notes = [", ".join(f"{name} error {_percent(share[k])}" for name, share in errors) for k in range(len(steps))]
        display = cls(
            [row[order] for row in values], [kind] * len(steps),
            titles=[f"iteration {int(step)}" for step in steps], notes=notes,
        )  # fmt: skip
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> CoefficientDisplay:
        """Draw; `ax` is one axes (divided) or one per panel. Returns self."""
        p = len(self.coefficients)
        height = 3.2 if p == 1 else 1.15 * p + 0.9
        self.ax_ = self._panels(ax, (p, 1), (6.4, height))
        self.lines_: list[Any] = []
        for panel, values, kind, title, note in zip(
            self.ax_, self.coefficients, self.kinds, self.titles, self.notes, strict=True
        ):
            self.lines_.append(self._draw(panel, values, kind))
            tidy(panel)
            panel.set_title(plain(title, 60), loc="left", fontsize="medium")
            panel.set_title(note, loc="right", fontsize="medium")
            panel.set_ylabel("α", rotation=0, labelpad=8, fontsize="large")
        same_examples = len({len(values) for values in self.coefficients}) == 1 and not self.proven
        for panel in self.ax_[:-1] if same_examples else []:
            panel.tick_params(labelbottom=False)
        self.ax_[-1].set_xlabel("training example, support vectors first")
        strips: dict[str, Any] = {}
        for panel in self.ax_:
            for strip, label in zip(*panel.get_legend_handles_labels(), strict=True):
                strips.setdefault(label, strip)
        if not self.proven:
            counts = np.bincount(self.kinds[0], minlength=3)
            strips = {f"{counts[k]:,} {name}s": strips[name] for k, (name, _) in _LOOKS.items() if name in strips}
        from matplotlib.transforms import offset_copy

        above = offset_copy(self.ax_[0].transAxes, self.figure_, y=22, units="points")  # above the titles
        self.ax_[0].legend(
            strips.values(), strips.keys(), frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0),
            bbox_transform=above, borderaxespad=0.0, borderpad=0.0, columnspacing=1.2, handlelength=1.2,
        )  # fmt: skip
        return self

    def _draw(self, panel: Any, values: NDArray[np.float64], kind: NDArray[np.int64]) -> dict[int, Any]:
        """Stems of one panel, and a line under the examples that have none."""
        n = len(values)
        place = np.arange(n)
        top = float(values.max(initial=0.0)) or 1.0
        lines = {}
        width = float(np.clip(300.0 / n, 0.6, 4.0))
        for which, (name, color) in _LOOKS.items():
            rows = np.flatnonzero(kind == which)
            if len(rows) == 0:
                continue
            lines[which] = panel.vlines(place[rows], 0.0, values[rows], color=color, linewidth=width, snap=False)
            label = f"{name} (proven)" if self.proven and which != OPEN else name
            ends = [rows[0] - 0.5, rows[-1] + 0.5]
            panel.plot(ends, [-0.04 * top] * 2, color=color, linewidth=3, solid_capstyle="butt", label=label)
        if self.bound is not None:
            panel.axhline(self.bound, color=NEUTRAL, linewidth=0.9, linestyle="--")
            panel.annotate(
                f"{self.bound_name} = {number(self.bound, 3)}", (1.0, self.bound), xycoords=("axes fraction", "data"), xytext=(-4, 3),
                textcoords="offset points", fontsize="small", ha="right", color=NEUTRAL,
            )  # fmt: skip
            top = max(top, self.bound) if self.bound < 3 * top else top
        panel.set_xlim(-0.02 * n - 0.5, 1.02 * n - 0.5)
        panel.set_ylim(-0.08 * top, 1.15 * top)
        panel.xaxis.get_major_locator().set_params(integer=True)
        return lines


def _percent(share: float) -> str:
    return f"{100 * float(share):.1f} %"


def _per_iteration(name: str, share: ArrayLike, p: int) -> NDArray[np.float64]:
    share = np.asarray(share, dtype=float)
    if share.shape != (p,) or not ((share >= 0) & (share <= 1)).all():
        raise ValueError(f"{name} must be {p} shares from 0 to 1, one per iteration; got {share!r}.")
    return share
