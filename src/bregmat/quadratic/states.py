"""The state of an exact method for quadratic programs, and its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bregmat.engine.loop import State
from bregmat.engine.status import ExitReason


class QPState(State):
    """What the iteration loop and certificates read of a state of an exact method."""

    x: np.ndarray  # (n,) point inside the box
    # (m,) of E x = e, with the reduced gradient A x + b + E' multiplier; of length 0 if it is not known
    multiplier: np.ndarray
    tol: float = 0.0  # relative gap that was asked for; more work is done for a certificate while its gap is larger
    is_rough: bool = False  # whether the point is no solution, so that a certificate is not worth a factorisation
    ray: np.ndarray | None = None  # (n,) proven direction along which the objective falls without bound
    signal = np.inf
    ended: ExitReason | None = None  # type: ignore[assignment]

    def reduced(self) -> np.ndarray:
        """The reduced gradient, shape (n,)."""
        raise NotImplementedError

    def rising(self) -> Iterable[np.ndarray]:
        """Directions w, shape (n,), that raise the reduced gradient, such as ``A w = sqrt(A_ii)`` on the free variables."""
        return ()

    def possible_rays(self) -> Iterable[np.ndarray]:
        """Directions along which the objective may fall without bound."""
        return ()

    def is_finite(self) -> bool:
        """Whether no variable has overflowed."""
        return bool(np.isfinite(self.x).all())


@dataclass(eq=False)
class Minimum(QPState):
    """The end of a method."""

    x: np.ndarray
    multiplier: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tol: float = 0.0
    n_iter: int = 0
    n_factor: int = 0  # factorisations from scratch
    violation: float = np.nan  # largest violation of the optimality conditions by the reduced gradient, in its units
    directions: Iterable[np.ndarray] = ()  # for `rising`
    falling: np.ndarray | None = None  # a direction along which the objective seems to fall without bound

    def rising(self) -> Iterable[np.ndarray]:
        """The directions of the method."""
        return self.directions
