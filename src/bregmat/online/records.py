"""What learners remember of a stream, so that the loss of fixed matrices can be told.

A stream of pairs with the squared loss is told by the number and the mean of the labels of each pair: one d x d array.
Anything else needs the examples themselves, and those are kept only on request.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._kernels import lanczos
from bregmat.online.instances import SupportedMatrix


class PairTally:
    """Labels of pairs: counts in the upper triangle, means in the lower, and the squares about the means in one number."""

    def __init__(self, dim: int) -> None:
        self.table, self.within = np.zeros((dim, dim)), 0.0

    def mark(self, block: np.ndarray) -> Any:
        """What :meth:`go_back` needs to forget a block that is about to be added."""
        a, b = block[0].tolist() if len(block) == 1 else block.T
        return a, b, self.table[a, b], self.table[b, a], self.within

    def go_back(self, mark: Any) -> None:
        """As it was when marked."""
        a, b, upper, lower, self.within = mark
        self.table[a, b], self.table[b, a] = upper, lower

    def add(self, block: np.ndarray, y: np.ndarray) -> None:
        """Count examples."""
        a, b = np.ascontiguousarray(block[:, 0]), np.ascontiguousarray(block[:, 1])
        self.within += lanczos.tally_pairs_inplace(self.table, a, b, y)

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs seen (k, 2), how often, and their mean label."""
        a, b = np.nonzero(np.triu(self.table, 1))
        return np.column_stack([a, b]), self.table[a, b], self.table[b, a]

    def arrays(self) -> dict[str, np.ndarray]:
        """For files."""
        return {"tally": self.table, "tally_within": np.array([self.within])}

    def restore(self, arrays: dict[str, np.ndarray], dim: int) -> None:
        """Inverse of :meth:`arrays`."""
        self.table, self.within = arrays["tally"].copy(), float(arrays["tally_within"][0])


class KeptExamples:
    """The examples themselves, a column for each thing that is told about them; memory grows with the stream.

    ``names``: of the columns, in files; instances come first.
    """

    within = 0.0  # loss that no prediction avoids: nothing is merged here

    def __init__(self, *names: str) -> None:
        self.names = names
        self.blocks: list[tuple[Any, ...]] = []

    def mark(self, block: Any) -> Any:
        """What :meth:`go_back` needs to forget a block that is about to be added."""
        return len(self.blocks)

    def go_back(self, mark: Any) -> None:
        """As it was when marked."""
        del self.blocks[mark:]

    def add(self, *columns: Any) -> None:
        """Keep examples; copies, for columns are read where the caller has them."""
        self.blocks.append(tuple(c if isinstance(c, list) else c.copy() for c in columns))

    def columns(self) -> list[Any]:
        """Every column as a whole; none before the first block."""
        parts = [list(column) for column in zip(*self.blocks)]
        return [[x for b in part for x in b] if isinstance(part[0], list) else np.concatenate(part) for part in parts]

    def rows(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Instances, weight 1 each, labels."""
        X, y = self.columns() or (np.zeros((0, 2)), np.zeros(0))
        return X, np.ones(len(y)), y

    def arrays(self) -> dict[str, np.ndarray]:
        """For files: matrices by support, one after the other."""
        found = dict(zip(self.names, self.columns()))
        matrices = found.get("X")
        if isinstance(matrices, list):
            found["X"] = np.concatenate([x.block.ravel() for x in matrices])
            found["index"] = np.concatenate([x.index for x in matrices])
            found["sizes"] = np.array([len(x.index) for x in matrices])
        return {f"kept_{name}": column for name, column in found.items()}

    def restore(self, arrays: dict[str, np.ndarray], dim: int) -> None:
        """Inverse of :meth:`arrays`."""
        columns: list[Any] = [arrays[f"kept_{name}"].copy() for name in self.names if f"kept_{name}" in arrays]
        if "kept_sizes" in arrays:
            sizes = arrays["kept_sizes"]
            entries = np.split(columns[0], np.cumsum(sizes**2)[:-1])
            index = np.split(arrays["kept_index"], np.cumsum(sizes)[:-1])
            parts = zip(index, entries, sizes, strict=True)
            columns[0] = [SupportedMatrix(i, e.reshape(k, k), dim) for i, e, k in parts]
        self.blocks = [tuple(columns)] if columns and len(columns[1]) else []
