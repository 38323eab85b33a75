"""The data of `bregmat learn`: points, labels and constraints, and remarks on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.io import Points
from bregmat.io.sources import STANDARD_INPUT
from bregmat_app.cli.categorical import Categories
from bregmat_app.cli.given import Given, read_given
from bregmat_app.cli.intake import PointTable, class_names, find_labels, find_sample_ids, label_remarks, read_table
from bregmat_app.cli.options import ColumnOptions

__all__ = ["LearnInput", "read_input"]


@dataclass
class LearnInput:
    """The data of `bregmat learn`.

    Parameters
    ----------
    name, title : str
        Of the file of points, and the line that describes it.
    X : ndarray of shape (n, d)
    feature_names : tuple of d str
    labels : ndarray of shape (n,), optional
        Class numbers, -1 if a row has no label; or values, NaN if a row has none.
    given : Given, optional
        Constraints of a file, in row numbers of X.
    sample_id : ndarray of shape (n,), optional
        Names of the rows.
    warnings : list of str
        Remarks to show.
    class_names : tuple
        Names of the classes 0, 1, ... of `labels`.
    label_column : str
        Where the labels come from.
    has_medians : bool
        Whether missing cells were filled with medians.
    categories : Categories
        How columns of words became features.
    """

    name: str
    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None = None
    given: Given | None = None
    sample_id: np.ndarray | None = None
    warnings: list[str] = field(default_factory=list)
    title: str = ""
    class_names: tuple[Any, ...] = ()
    label_column: str = "y"
    has_medians: bool = False
    categories: Categories = field(default_factory=Categories)

    def __post_init__(self) -> None:
        self.title = self.title or f"{self.name}: {self.X.shape[0]:,} points, {self.X.shape[1]:,} features"

    def info(self) -> dict[str, Any]:
        """What a model file says of the data, so that new points can be read in the same way."""
        info: dict[str, Any] = {"source": self.name, "feature_names": list(self.feature_names)}
        if self.has_medians:
            n_numbers = len(self.feature_names) - self.categories.n_features
            medians = np.median(self.X[:, :n_numbers], axis=0).tolist()
            info["medians"] = dict(zip(self.feature_names, medians))
        return info | self.categories.info()

    @property
    def constraints(self) -> Constraints | None:
        """The constraints of the file, in row numbers."""
        return None if self.given is None else self.given.rows

    @property
    def y(self) -> np.ndarray:
        """The labels of data that has them."""
        if self.labels is None:
            raise ValueError(f"{self.name} has no labels")
        return self.labels

    @property
    def has_values(self) -> bool:
        """Whether the labels are values rather than class numbers."""
        return self.labels is not None and self.labels.dtype.kind == "f"

    @property
    def named_labels(self) -> np.ndarray | None:
        """The classes by their names, None if a row has no label."""
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


def read_input(
    path: Path,
    options: ColumnOptions,
    *,
    categorical: Sequence[str] = (),
    constraints: Path | None = None,
    prior: str = "auto",
) -> LearnInput:
    """Read all inputs; `ValueError` names the file, line and column of what is wrong.

    Parameters
    ----------
    path, constraints : path
        Files of the points and, optionally, of constraints on them.
    options : ColumnOptions
    categorical : sequence of str
        Columns to encode as one feature for each category.
    prior : str
        Prior of the metric; bounds that the file does not give are measured in it.
    """
    if constraints is not None and str(path) == str(constraints) == STANDARD_INPUT:
        raise ValueError("standard input holds points or constraints, not both; write one of them to a file")
    table = read_table(path, options, *categorical)
    points = table.points
    categories = Categories.of(points, categorical)
    X = np.column_stack([points.X, categories.encode(points)]) if categorical else points.X
    name = "standard input" if str(path) == STANDARD_INPUT else path.name
    task = LearnInput(name, X, (*points.names, *categories.names), warnings=table.remarks(), categories=categories)
    task.has_medians = options.missing == "median"
    id_name, task.sample_id = find_sample_ids(points, options.id_column)
    if task.sample_id is None and points.rows is not None:
        task.sample_id = points.rows  # constraints count the rows of the file
    if options.labels is not None:
        _add_labels(task, table, options.labels)
    task.warnings += table.unused(id_name, *categorical)
    if constraints is not None:
        if task.sample_id is not None:
            _require_unique(task.name if path.name == STANDARD_INPUT else str(path), id_name, points, task.sample_id)
        task.given = read_given(task, constraints, id_name, prior=prior, encoding=options.encoding)
        task.warnings += task.given.remarks
    return task


def _add_labels(task: LearnInput, table: PointTable, name: str) -> None:
    """Set the labels of the data, and what is to be said of them."""
    values = table.label_values()
    task.labels = find_labels(values, len(task.X), name, table.options.unlabeled)
    task.label_column = name
    task.warnings += label_remarks(task.labels, name)
    if not task.has_values:
        task.class_names = class_names(values, task.labels)


def _require_unique(path: str, id_name: str | None, points: Points, sample_id: np.ndarray) -> None:
    """Raise ValueError for a sample id that names two rows."""
    first: dict[Any, int] = {}
    for row, name in enumerate(sample_id.tolist()):
        if (other := first.setdefault(name, row)) != row:
            kind, here = points.where(row).split(" ", 1)
            there = points.where(other).split(" ", 1)[1]
            raise ValueError(f"{path}, {kind}s {there} and {here}: {id_name} {name!r} occurs twice")
