"""A divergence as a user would write it: between von Neumann's and LogDet's, registered by name."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import wrightomega

import bregmat


@bregmat.register
@dataclass(frozen=True)
class EntropyWithBarrier(bregmat.SpectralDivergence):
    """``phi(x) = x log x - x - share log x``: the entropy, with a barrier that keeps small eigenvalues away from 0."""

    name: ClassVar[str] = "entropy_with_barrier"
    share: float = 0.5

    def phi(self, x):
        return x * np.log(x) - x - self.share * np.log(x)

    def link(self, x):
        return np.log(x) - self.share / x

    def inverse_link(self, t):
        return self.share / wrightomega(np.log(self.share) - t)
