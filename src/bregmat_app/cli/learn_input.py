"""What `bregmat learn` works on: points, labels, constraints, and what has to be said of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints

__all__ = ["LearnInput"]


@dataclass
class LearnInput:
    """Everything that `learn` works on. `given` names rows of X by number; in a part of X, values of `row_numbers`.

    `class_names` names the classes 0, 1, ... of `labels`; `places` says where each row of `given` stands in its file; its bounds are in
    units of scaled columns where they were measured and nothing else was asked for (`has_measured_bounds`).
    """

    name: str
    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None = None
    given: Constraints | None = None
    sample_id: np.ndarray | None = None
    row_numbers: np.ndarray | None = None
    warnings: list[str] = field(default_factory=list)
    title: str = ""
    class_names: tuple[Any, ...] = ()
    places: Sequence[str] = ()
    label_column: str = "y"
    has_medians: bool = False
    has_measured_bounds: bool = False

    def __post_init__(self) -> None:
        self.title = self.title or f"{self.name}: {self.X.shape[0]:,} points, {self.X.shape[1]:,} features"

    @property
    def medians(self) -> dict[str, float] | None:
        """Of the features, where missing cells were filled up: for points to come."""
        return dict(zip(self.feature_names, np.median(self.X, axis=0).tolist())) if self.has_medians else None

    @property
    def y(self) -> np.ndarray:
        """The labels, of a task that has them."""
        if self.labels is None:
            raise ValueError(f"{self.name} has no labels")
        return self.labels

    @property
    def has_values(self) -> bool:
        """Whether the labels are values to be near in, NaN where there is none, rather than class numbers."""
        return self.labels is not None and self.labels.dtype.kind == "f"

    @property
    def named_labels(self) -> np.ndarray | None:
        """The classes by their names, None where a row has none."""
        if self.labels is None or self.has_values:
            return None
        names = self.class_names or range(self.n_classes)
        named = np.full(len(self.labels), None, dtype=object)
        for code, name in enumerate(names):
            named[self.labels == code] = name
        return named

    @property
    def n_classes(self) -> int:
        """Number of classes among the labelled rows; 0 without classes."""
        return 0 if self.labels is None or self.has_values else int(self.labels.max(initial=-1)) + 1
