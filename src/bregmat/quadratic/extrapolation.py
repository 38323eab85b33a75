"""Anderson's acceleration of a fixed-point iteration on positive numbers, in their logarithms."""

from __future__ import annotations

import numpy as np

_LEAST = 1e-300  # stands for zero under the logarithm
_RIDGE = 1e-10  # of the small system, relative to its trace
_LEAP = 10.0  # logarithm of the largest factor between an entry and its plain update


class Extrapolation:
    """Remembers the last steps and proposes where their errors cancel.

    The logarithms keep every proposal positive. Errors are weighed by ``sqrt(v_i length_i / max)``: an entry that
    vanishes has large relative errors that matter to nobody.

    Parameters
    ----------
    depth : int
        Differences that are remembered.
    length : ndarray, shape (n,)
        ``sqrt(A_ii)``, which makes entries of different units comparable.
    """

    def __init__(self, depth: int, length: np.ndarray) -> None:
        self._depth, self._length = depth, length
        self._from: list[np.ndarray] = []
        self._to: list[np.ndarray] = []

    def forget(self) -> None:
        """Keep the last step only."""
        del self._from[:-1], self._to[:-1]

    def propose(self, v: np.ndarray, new: np.ndarray) -> np.ndarray | None:
        """Learn the step from ``v`` to ``new``; the extrapolated point, or None where nothing is to be had.

        ``x = log v`` and ``g = log new``. The combination of the last differences of ``g - x`` nearest to the last
        ``g - x`` is taken off ``g``.
        """
        self._from = [*self._from, np.log(np.maximum(v, _LEAST))][-self._depth - 1 :]
        self._to = [*self._to, np.log(np.maximum(new, _LEAST))][-self._depth - 1 :]
        size = new * self._length
        largest = float(size.max(initial=0.0))
        if len(self._to) < 2 or not (largest > 0 and np.isfinite(largest)):
            return None
        ends = np.array(self._to)
        errors = (ends - np.array(self._from)) * np.sqrt(size / largest)
        changes = np.diff(errors, axis=0)
        system = changes @ changes.T
        system.reshape(-1)[:: len(system) + 1] += _RIDGE * np.trace(system)
        if not (np.isfinite(system).all() and system.trace() > 0):
            return None
        try:
            weights = np.linalg.solve(system, changes @ errors[-1])
        except np.linalg.LinAlgError:
            return None
        logs = ends[-1] - weights @ np.diff(ends, axis=0)
        guess = np.exp(np.clip(logs, ends[-1] - _LEAP, ends[-1] + _LEAP))
        return np.where((new > 0) & (v > 0), guess, 0.0)
