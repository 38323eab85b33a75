"""The record of a stream of pairs with the squared loss, from which the loss of any fixed matrix on it can be computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._kernels import lanczos


class PairTally:
    """Counts and means of the labels of all pairs, and the sum of squares about these means.

    ``sum_t (p - y_t)^2 = n (p - mean)^2 + sum_t (y_t - mean)^2`` for the n examples of one pair with prediction p.
    """

    def __init__(self, dim: int) -> None:
        self.table = np.zeros((dim, dim))  # for a < b the count at [a, b] and the mean label at [b, a]
        self.within = 0.0  # sum_t (y_t - mean)^2 over all pairs: the loss that no prediction avoids

    def mark(self, block: np.ndarray) -> Any:
        """What :meth:`go_back` needs to remove a block that is about to be added."""
        a, b = block[0].tolist() if len(block) == 1 else block.T
        return a, b, self.table[a, b], self.table[b, a], self.within

    def go_back(self, mark: Any) -> None:
        """Restore what was marked."""
        a, b, upper, lower, self.within = mark
        self.table[a, b], self.table[b, a] = upper, lower

    def add(self, block: np.ndarray, y: np.ndarray) -> None:
        """Add a block of examples."""
        a, b = np.ascontiguousarray(block[:, 0]), np.ascontiguousarray(block[:, 1])
        self.within += lanczos.tally_pairs_inplace(self.table, a, b, y)

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs that occurred (k, 2), their counts, and their mean labels."""
        a, b = np.nonzero(np.triu(self.table, 1))
        return np.column_stack([a, b]), self.table[a, b], self.table[b, a]
