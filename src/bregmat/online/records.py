"""Records of a stream, from which the loss of any fixed matrix on it can be computed.

For pairs with the squared loss, the count and the mean of the labels of each pair are enough: one d x d array. Other streams need the
examples themselves, which are kept on request only.
"""

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


class KeptExamples:
    """The examples themselves as columns, the instances first; memory grows with the stream."""

    within = 0.0  # as in PairTally; examples are not merged here

    def __init__(self) -> None:
        self.blocks: list[tuple[np.ndarray, ...]] = []

    def mark(self, block: np.ndarray) -> Any:
        """What :meth:`go_back` needs to remove a block that is about to be added."""
        return len(self.blocks)

    def go_back(self, mark: Any) -> None:
        """Restore what was marked."""
        del self.blocks[mark:]

    def add(self, *columns: np.ndarray) -> None:
        """Add a block of examples; arrays are copied, since the caller may change them."""
        self.blocks.append(tuple(column.copy() for column in columns))

    def columns(self) -> list[np.ndarray]:
        """Each column of the whole stream; an empty list before the first block."""
        return [np.concatenate(parts) for parts in zip(*self.blocks)]

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Instances, their counts (1 each), and labels."""
        X, y = self.columns() or (np.zeros((0, 2)), np.zeros(0))
        return X, np.ones(len(y)), y
