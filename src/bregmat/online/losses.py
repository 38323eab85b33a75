"""Losses of a prediction against a label, with their derivatives, for online learning (Tsuda 2004, footnotes 1 and 3).

The losses of :mod:`bregmat.objective.losses` are others: they measure the violation of a bound in a nearness problem.

The built-in losses are compiled, so that one compiled loop learns a whole block of examples. A user may pass any object with
``value(prediction, label)`` and ``derivative(prediction, label)`` that is convex in the prediction; it costs two Python calls per example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import lanczos
from bregmat.base.checks import as_choice, rows_text
from bregmat.typing import OnlineLoss


class BuiltInLoss:
    """A compiled loss: ``code`` selects its formula in the kernels. A file stores its name and its parameter."""

    name: ClassVar[str]
    code: ClassVar[int]
    is_measured: ClassVar[bool] = False  # whether the loss is zero at prediction = label, for labels of any size

    @property
    def parameter(self) -> float:
        """The field of the loss; 0 if it has none."""
        return float(next(iter(vars(self).values()), 0.0))

    def check_labels(self, y: np.ndarray) -> None:
        """Raise ``ValueError`` for labels that the loss is not defined for."""

    def value(self, prediction: Any, label: Any) -> Any:
        """Value of the loss; arrays are broadcast."""
        return self._both(prediction, label)[0]

    def derivative(self, prediction: Any, label: Any) -> Any:
        """Derivative in the prediction; arrays are broadcast."""
        return self._both(prediction, label)[1]

    def _both(self, prediction: Any, label: Any) -> tuple[Any, Any]:
        p, y = np.broadcast_arrays(np.asarray(prediction, dtype=float), np.asarray(label, dtype=float))
        values, slopes = np.empty(p.size), np.empty(p.size)
        lanczos.losses_inplace(values, slopes, p.ravel(), y.ravel(), self.code, self.parameter)
        return values.reshape(p.shape)[()], slopes.reshape(p.shape)[()]


@dataclass(frozen=True)
class SquaredLoss(BuiltInLoss):
    """``(p - y)^2``, without a half, as in Tsuda 2004; the loss of Lemmas 3.1 and 3.2."""

    name: ClassVar[str] = "squared"
    code: ClassVar[int] = lanczos.SQUARED
    is_measured: ClassVar[bool] = True


@dataclass(frozen=True)
class AbsoluteLoss(BuiltInLoss):
    """``|p - y|``, for labels with outliers; its derivative at ``p = y`` is taken as 0."""

    name: ClassVar[str] = "absolute"
    code: ClassVar[int] = lanczos.ABSOLUTE
    is_measured: ClassVar[bool] = True


@dataclass(frozen=True)
class LogisticLoss(BuiltInLoss):
    """``log(1 + exp(-y (p - threshold)))`` for labels -1 and 1.

    Parameters
    ----------
    threshold : float
        Prediction at which both labels are equally likely, in units of the prediction. Predictions for pairs and vectors are
        never negative, so choose a positive threshold for them.
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
class EntropicLoss(BuiltInLoss):
    """``y log(y / p) + (1 - y) log((1 - y) / (1 - p))`` for labels in [0, 1]: the relative entropy of the label to the prediction.

    Parameters
    ----------
    floor : float
        In (0, 0.5). Labels are clipped to [floor, 1 - floor]. For predictions outside of this interval the loss continues along
        its tangents, so that it stays convex and nonnegative, with a derivative below ``1 / floor``.
    """

    floor: float = 1e-3
    name: ClassVar[str] = "entropic"
    code: ClassVar[int] = lanczos.ENTROPIC

    def __post_init__(self) -> None:
        if not 0.0 < self.floor < 0.5:
            raise ValueError(f"floor must be in (0, 0.5); got {self.floor!r}.")

    def check_labels(self, y: np.ndarray) -> None:
        """Only numbers in [0, 1]."""
        bad = np.flatnonzero((y < 0.0) | (y > 1.0))
        if len(bad):
            raise ValueError(f"y must be in [0, 1] for the {self.name} loss; got {y[bad[0]]} in {rows_text(bad)}.")


@dataclass(frozen=True)
class ForwardEntropicLoss(EntropicLoss):
    """``p log(p / y) + (1 - p) log((1 - p) / (1 - y))`` for labels in [0, 1]: the relative entropy of the prediction to the label.

    With it and a learning rate of one, a step is an approximate Bregman projection onto ``tr(W C) <= 0`` while that is violated
    (Tsuda 2004, section 4.2 and footnote 3): the instance is ``(C - low I) / (high - low)`` and the label ``-low / (high - low)``, where
    [low, high] is the interval of the eigenvalues of C. The parameter is that of :class:`EntropicLoss`; the derivative is below
    ``2 log(1 / floor)``.
    """

    name: ClassVar[str] = "forward_entropic"
    code: ClassVar[int] = lanczos.FORWARD_ENTROPIC


ONLINE_LOSSES: dict[str, type] = {
    cls.name: cls for cls in (SquaredLoss, AbsoluteLoss, LogisticLoss, EntropicLoss, ForwardEntropicLoss)
}


def as_online_loss(loss: Any) -> Any:
    """A loss object, from itself or from the name of a built-in loss."""
    if isinstance(loss, str):
        return ONLINE_LOSSES[as_choice("loss", loss, ONLINE_LOSSES, hint=" or an object")]()
    if isinstance(loss, type) or not isinstance(loss, OnlineLoss):
        raise TypeError(
            f"loss must be one of {', '.join(ONLINE_LOSSES)} or an object with value(prediction, label) and "
            f"derivative(prediction, label); got {loss!r}."
        )
    return loss
