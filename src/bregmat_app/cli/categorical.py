"""Columns of words or codes as features: one column of 0 and 1 for each category."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bregmat.io import Points
from bregmat.io.texts import NOT_AVAILABLE

__all__ = ["Categories"]

MOST = 100  # categories of one column; a column with more of them rather names its rows


@dataclass(frozen=True)
class Categories:
    """The categories of each encoded column. A missing cell, and a category that was not seen, is 0 in all features."""

    of_column: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, points: Points, columns: Sequence[str]) -> "Categories":
        """Find the categories of some columns; `ValueError` names a column with too many or too few."""
        found = {}
        for name in columns:
            values = sorted(set(_words(points, name).tolist()) - set(NOT_AVAILABLE))
            if not 2 <= len(values) <= MOST:
                raise ValueError(
                    f"--categorical {name}: the column has {len(values):,} categories; 2 to {MOST} can be encoded"
                )
            found[name] = values
        return cls(found)

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> "Categories":
        """Restore the categories of a model from its file."""
        return cls(info.get("categories", {}))

    def info(self) -> dict[str, Any]:
        """The entry of a model file."""
        return {"categories": {name: list(values) for name, values in self.of_column.items()}} if self.of_column else {}

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [f"{name}={value}" for name, values in self.of_column.items() for value in values]

    @property
    def n_features(self) -> int:
        return len(self.names)

    def encode(self, points: Points) -> np.ndarray:
        """Return the features, shape (n, n_features)."""
        blocks = [
            _words(points, name)[:, None] == np.array(values, dtype=str) for name, values in self.of_column.items()
        ]
        return np.hstack([np.empty((len(points.X), 0)), *blocks]).astype(np.float64)


def _words(points: Points, name: str) -> np.ndarray:
    """A column as words."""
    if name not in points.columns:
        raise ValueError(f"--categorical: no column {name!r}; a .npy file has no named columns")
    return np.asarray(points.columns[name]).astype(str)
