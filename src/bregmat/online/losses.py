"""Losses of a prediction against a label, with their derivatives, for online learning (Tsuda 2004, footnotes 1 and 3).

The losses of :mod:`bregmat.objective.losses` are others: they measure the violation of a bound in a nearness problem.

The squared loss of the paper is compiled, so that one compiled loop learns a whole block of examples. A user may pass any object with
``value(prediction, label)`` and ``derivative(prediction, label)`` that is convex in the prediction; it costs two Python calls per example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import as_choice
from bregmat.typing import OnlineLoss


@dataclass(frozen=True)
class SquaredLoss:
    """``(p - y)^2``, without a half, as in Tsuda 2004; the loss of Lemmas 3.1 and 3.2."""

    name: ClassVar[str] = "squared"

    def value(self, prediction: Any, label: Any) -> Any:
        """Value of the loss; arrays are broadcast."""
        return np.subtract(prediction, label, dtype=float) ** 2

    def derivative(self, prediction: Any, label: Any) -> Any:
        """Derivative in the prediction; arrays are broadcast."""
        return 2.0 * np.subtract(prediction, label, dtype=float)


def as_online_loss(loss: Any) -> Any:
    """A loss object, from itself or from the name "squared"."""
    if isinstance(loss, str):
        as_choice("loss", loss, (SquaredLoss.name,), hint=" or an object")
        return SquaredLoss()
    if isinstance(loss, type) or not isinstance(loss, OnlineLoss):
        raise TypeError(
            f"loss must be 'squared' or an object with value(prediction, label) and derivative(prediction, label); got {loss!r}."
        )
    return loss
