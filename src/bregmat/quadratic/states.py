"""States of the exact methods for quadratic programs, and the point at which such a method ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bregmat.engine.loop import State


@dataclass(eq=False)
class QPState(State):
    """A point with multipliers, as certificates need it; the states of the solvers also have ``reduced()``, the reduced gradient."""

    x: np.ndarray  # (n,) point inside the box
    # (m,) of E x = e, with the reduced gradient A x + b + E' multiplier; of length 0 if it is not known
    multiplier: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tol: float = 0.0  # relative gap that was asked for; more work is done for a certificate while its gap is larger
    # directions w, shape (n,), that raise the reduced gradient, such as A w = sqrt(A_ii) on the free variables
    directions: Iterable[np.ndarray] = ()
    ray: np.ndarray | None = None  # (n,) proven direction along which the objective falls without bound
    is_rough = False  # whether the point is no solution, so that a certificate is not worth a factorisation
    signal = np.inf
    stalled: bool = False

    def rising(self) -> Iterable[np.ndarray]:
        """The directions that raise the reduced gradient."""
        return self.directions

    def possible_rays(self) -> Iterable[np.ndarray]:
        """Directions along which the objective may fall without bound."""
        return ()

    def is_finite(self) -> bool:
        """Whether no variable has overflowed."""
        return bool(np.isfinite(self.x).all())


@dataclass(eq=False, kw_only=True)
class Minimum(QPState):
    """The end of a method that ran without certificates."""

    n_iter: int = 0
    n_factor: int = 0  # factorisations from scratch
    violation: float = np.nan  # largest violation of the optimality conditions by the reduced gradient, in its units
    falling: np.ndarray | None = None  # a direction along which the objective seems to fall without bound
