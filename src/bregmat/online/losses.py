"""What an online learner pays for a prediction: value and derivative (Tsuda 2004, footnotes 1 and 3).

Not the losses of :mod:`bregmat.objective.losses`: those say what a violated bound costs in a problem, with a sense, a weight and a
conjugate for its dual; these compare one prediction with one label. The two meet in :mod:`bregmat.online.hindsight`.

The built-in losses but :class:`ForwardEntropicLoss` are compiled, so that a block of examples is one compiled loop. Any object with
``value(prediction, label)`` and ``derivative(prediction, label)``, convex in the prediction, does as well, one Python call per example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import lanczos
from bregmat.base.checks import as_choice, rows_text
from bregmat.typing import OnlineLoss


class BuiltInLoss:
    """A loss that files know by its name and one parameter."""

    name: ClassVar[str]
    is_measured: ClassVar[bool] = False  # whether the loss is zero at prediction = label, for labels of any size

    @property
    def parameter(self) -> float:
        """The number that the formula needs beside prediction and label: the field of the loss, 0 if it has none."""
        return float(next(iter(vars(self).values()), 0.0))

    def check_labels(self, y: np.ndarray) -> None:
        """Raise ``ValueError`` for labels that the loss has no value for."""


class _Compiled(BuiltInLoss):
    """A loss whose formula is in the kernels, by code and one parameter."""

    code: ClassVar[int]

    def _both(self, prediction: Any, label: Any) -> tuple[Any, Any]:
        p, y = np.broadcast_arrays(np.asarray(prediction, dtype=float), np.asarray(label, dtype=float))
        values, slopes = np.empty(p.size), np.empty(p.size)
        lanczos.losses_inplace(values, slopes, p.ravel(), y.ravel(), self.code, self.parameter)
        return values.reshape(p.shape)[()], slopes.reshape(p.shape)[()]

    def value(self, prediction: Any, label: Any) -> Any:
        """The loss; arrays are broadcast."""
        return self._both(prediction, label)[0]

    def derivative(self, prediction: Any, label: Any) -> Any:
        """Its derivative in the prediction; arrays are broadcast."""
        return self._both(prediction, label)[1]


@dataclass(frozen=True)
class SquaredLoss(_Compiled):
    """``(p - y)^2``, without a half, as in Tsuda 2004; the loss of Lemmas 3.1 and 3.2."""

    name: ClassVar[str] = "squared"
    code: ClassVar[int] = lanczos.SQUARED
    is_measured: ClassVar[bool] = True


@dataclass(frozen=True)
class AbsoluteLoss(_Compiled):
    """``|p - y|``; the derivative at 0 is taken as 0. For labels with outliers."""

    name: ClassVar[str] = "absolute"
    code: ClassVar[int] = lanczos.ABSOLUTE
    is_measured: ClassVar[bool] = True


@dataclass(frozen=True)
class LogisticLoss(_Compiled):
    """``log(1 + exp(-y (p - threshold)))`` for labels -1 and 1.

    Parameters
    ----------
    threshold : float
        Prediction at which both labels are equally likely, in units of the prediction. Half squared distances are never
        negative, so pairs and vectors want a positive one.
    """

    threshold: float = 0.0
    name: ClassVar[str] = "logistic"
    code: ClassVar[int] = lanczos.LOGISTIC

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise ValueError(f"threshold must be finite; got {self.threshold!r}.")

    def check_labels(self, y: np.ndarray) -> None:
        """Only -1 and 1."""
        bad = np.flatnonzero(np.abs(y) != 1.0)
        if len(bad):
            raise ValueError(f"y must be -1 or 1 for the logistic loss; got {y[bad[0]]} in {rows_text(bad)}.")


@dataclass(frozen=True)
class _OfProbabilities(BuiltInLoss):
    """A loss for labels in [0, 1]: probabilities, such as measured frequencies."""

    floor: float = 1e-3

    def __post_init__(self) -> None:
        if not 0.0 < self.floor < 0.5:
            raise ValueError(f"floor must be in (0, 0.5); got {self.floor!r}.")

    def check_labels(self, y: np.ndarray) -> None:
        """Only numbers in [0, 1]."""
        bad = np.flatnonzero((y < 0.0) | (y > 1.0))
        if len(bad):
            raise ValueError(f"y must be in [0, 1] for the {self.name} loss; got {y[bad[0]]} in {rows_text(bad)}.")


@dataclass(frozen=True)
class EntropicLoss(_OfProbabilities, _Compiled):
    """``y log(y / p) + (1 - y) log((1 - y) / (1 - p))`` for labels in [0, 1]: the relative entropy of the label to the prediction.

    Parameters
    ----------
    floor : float
        Labels count as at least it and at most ``1 - floor``, and outside these predictions the loss goes on along its
        tangents: still convex and never negative, with a derivative below ``1 / floor``. In (0, 0.5).
    """

    name: ClassVar[str] = "entropic"
    code: ClassVar[int] = lanczos.ENTROPIC


@dataclass(frozen=True)
class ForwardEntropicLoss(_OfProbabilities):
    """``p log(p / y) + (1 - p) log((1 - p) / (1 - y))`` for labels in [0, 1]: the relative entropy of the prediction to the label.

    With it and a learning rate of one, a step is an approximate Bregman projection onto ``tr(W C) <= 0`` as long as that is violated
    (Tsuda 2004, section 4.2 and footnote 3): the instance is ``(C - low I) / (high - low)`` and the label ``-low / (high - low)``, for
    the interval [low, high] of the eigenvalues of C. It costs one Python call per example.

    Parameters
    ----------
    floor : float
        As in :class:`EntropicLoss`; the derivative is below ``2 log(1 / floor)``.
    """

    name: ClassVar[str] = "forward_entropic"

    def value(self, prediction: Any, label: Any) -> Any:
        """The loss; arrays are broadcast."""
        x, y = self._inside(prediction), self._inside(label)
        value = x * np.log(x / y) + (1.0 - x) * np.log((1.0 - x) / (1.0 - y))
        # at x = y rounding may leave less than 0
        return np.maximum(value + self.derivative(x, y) * (np.asarray(prediction, dtype=float) - x), 0.0)[()]

    def derivative(self, prediction: Any, label: Any) -> Any:
        """Its derivative in the prediction, ``log(p / (1 - p)) - log(y / (1 - y))``; arrays are broadcast."""
        x, y = self._inside(prediction), self._inside(label)
        return (np.log(x / y) - np.log((1.0 - x) / (1.0 - y)))[()]

    def _inside(self, p: Any) -> np.ndarray:
        return np.clip(np.asarray(p, dtype=float), self.floor, 1.0 - self.floor)


_BUILT_IN = (SquaredLoss, AbsoluteLoss, LogisticLoss, EntropicLoss, ForwardEntropicLoss)
ONLINE_LOSSES: dict[str, type] = {cls.name: cls for cls in _BUILT_IN}


def as_online_loss(loss: Any) -> Any:
    """A loss object from an object, or from the name of a built-in one."""
    if isinstance(loss, str):
        return ONLINE_LOSSES[as_choice("loss", loss, ONLINE_LOSSES, hint=" or an object")]()
    if isinstance(loss, type) or not isinstance(loss, OnlineLoss):
        raise TypeError(
            f"loss must be one of {', '.join(ONLINE_LOSSES)} or an object with value(prediction, label) and "
            f"derivative(prediction, label); got {loss!r}."
        )
    return loss
