"""From the files and options of `bregmat learn` to points, labels and constraints in row numbers."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.constraints import Constraints
from bregmat.io import Points, parse_sample_ids, read_constraints, read_points
from bregmat.labels import label_codes

__all__ = ["Task", "find_labels", "find_sample_ids", "read_task"]

_ID_NAMES = ("id", "sample_id")


@dataclass
class Task:
    """Everything that `learn` works on. `given` names rows of X by number; in a part of X, values of `row_numbers`."""

    name: str
    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None = None
    given: Constraints | None = None
    sample_id: np.ndarray | None = None
    row_numbers: np.ndarray | None = None
    warnings: list[str] = field(default_factory=list)
    title: str = ""

    def __post_init__(self) -> None:
        self.title = self.title or f"{self.name}: {self.X.shape[0]:,} points, {self.X.shape[1]:,} features"

    @property
    def y(self) -> np.ndarray:
        """The labels, of a task that has them."""
        if self.labels is None:
            raise ValueError(f"{self.name} has no labels")
        return self.labels

    @property
    def n_classes(self) -> int:
        """Number of classes among the labelled rows; 0 without labels."""
        return 0 if self.labels is None else int(self.labels.max(initial=-1)) + 1


def read_task(
    path: Path,
    *,
    constraints: Path | None,
    labels: str | None,
    id_column: str | None,
    exclude: list[str],
    unlabeled: str | None,
) -> Task:
    """Read all inputs; `ValueError` names the file, line and column of what is wrong."""
    is_label_file = labels is not None and Path(labels).suffix.lower() == ".npy"
    wanted = [name for name in (None if is_label_file else labels, id_column, *exclude) if name is not None]
    points = read_points(path, exclude=dict.fromkeys(wanted))
    task = Task(path.name, points.X, points.names)
    id_name, task.sample_id = find_sample_ids(points, id_column)
    if labels is not None:
        values = np.load(labels, allow_pickle=False) if is_label_file else points.columns[labels]
        task.labels = find_labels(values, len(points.X), labels, unlabeled)
    if constraints is not None:
        _locate(task, read_constraints(constraints, id_type=_kind(task.sample_id)), constraints, id_name)
    return task


def find_sample_ids(points: Points, id_column: str | None) -> tuple[str | None, np.ndarray | None]:
    """The column that names the rows: the one asked for, or one called "id" or "sample_id"; None: row numbers."""
    name = id_column
    if name is None:
        name = next((column for column in points.columns if column.lower() in _ID_NAMES), None)
    return name, None if name is None else parse_sample_ids(points.columns[name])


def find_labels(values: Any, n: int, name: str, unlabeled: str | None) -> np.ndarray:
    """Class numbers 0, 1, ... by first appearance; -1 where the cell is empty or says `unlabeled`."""
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"labels {name!r} have shape {values.shape}, but there are {n} points")
    if values.dtype.kind in "US":
        words = values.astype(str)
        missing = (words == "") | (words == (unlabeled if unlabeled is not None else ""))
        try:
            y: np.ndarray = np.full(n, np.nan)
            y[~missing] = words[~missing].astype(float)
        except ValueError:
            y = words.astype(object)
            y[missing] = None
    else:
        y = values.astype(float)
        if unlabeled is not None:
            y[y == float(unlabeled)] = np.nan
    codes = label_codes(y, unlabeled=None)
    if (codes < 0).all():
        raise ValueError(f"labels {name!r}: no row has a label")
    return codes


def _kind(sample_id: np.ndarray | None) -> type:
    return int if sample_id is None or sample_id.dtype.kind == "i" else str


def _locate(task: Task, rows: Constraints, path: Path, id_name: str | None) -> None:
    located, kept = rows.locate(task.sample_id, len(task.X))
    if located is None:
        raise ValueError(f"{path}: no constraint names two points of {task.name} (column {id_name!r} names the points)")
    n_dropped = int((~kept).sum())
    if n_dropped:
        task.warnings.append(
            f"{n_dropped:,} of {rows.n_constraints:,} constraints of {path.name} name points that are not in "
            f"{task.name} (column {id_name!r}); they were left out"
        )
    task.given = located
