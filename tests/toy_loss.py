"""A loss as a user would write it: quadratic near the bound, linear far from it, registered by name."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import bregmat


@bregmat.register
@dataclass(frozen=True)
class PseudoHuber(bregmat.ScalarLoss):
    """``width^2 (sqrt(1 + x^2) - 1)`` with ``x = (q - c) / width``: a few wrong bounds do not spoil the rest."""

    name: ClassVar[str] = "pseudo_huber"
    width: float = 1.0

    def cost(self, q, c):
        x2 = ((q - c) / self.width) ** 2
        return self.width**2 * x2 / (1 + np.sqrt(1 + x2))  # the same without cancellation

    def slope(self, q, c):
        return (q - c) / np.hypot(1, (q - c) / self.width)

    def at_slope(self, m, c):
        return c + m / np.sqrt(1 - (m / self.width) ** 2)

    def slopes(self, c):
        return -self.width, self.width

    def curvature(self, q, c):
        return np.hypot(1, (q - c) / self.width) ** -3.0
