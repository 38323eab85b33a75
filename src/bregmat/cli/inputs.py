"""From the files and options of `bregmat learn` to points, labels and constraints in row numbers."""

import importlib
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bregmat._html import listed
from bregmat.cli.messages import for_labels
from bregmat.constraints import Constraints
from bregmat.io import Points, parse_sample_ids, read_placed_constraints, read_points, tables
from bregmat.io.points import is_id
from bregmat.labels import label_codes

__all__ = ["Task", "class_names", "find_labels", "find_sample_ids", "import_terms", "read_task"]


def import_terms(name: str) -> None:
    """Import a module by its name or from a .py file, for what it registers."""
    path = Path(name)
    if path.suffix != ".py":
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # any .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where worker processes and pickles look for its classes
    spec.loader.exec_module(module)


@dataclass
class Task:
    """Everything that `learn` works on. `given` names rows of X by number; in a part of X, values of `row_numbers`.

    `class_names` names the classes 0, 1, ... of `labels`; `places` says where each row of `given` stands in its file.
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
    places: tuple[str, ...] = ()
    label_column: str = "y"

    def __post_init__(self) -> None:
        self.title = self.title or f"{self.name}: {self.X.shape[0]:,} points, {self.X.shape[1]:,} features"

    @property
    def y(self) -> np.ndarray:
        """The labels, of a task that has them."""
        if self.labels is None:
            raise ValueError(f"{self.name} has no labels")
        return self.labels

    @property
    def named_labels(self) -> np.ndarray | None:
        """The labels as their names, None where a row has none."""
        if self.labels is None:
            return None
        names = self.class_names or range(self.n_classes)
        named = np.full(len(self.labels), None, dtype=object)
        for code, name in enumerate(names):
            named[self.labels == code] = name
        return named

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
    """Read all inputs; `ValueError` names the file, line and column of what is wrong.

    Parameters
    ----------
    path, constraints : path
        Files of the points and, optionally, of constraints on them.
    labels : str, optional
        Column of class labels, or a .npy file of them.
    id_column : str, optional
        Column that names the rows; by default one called "id" or "sample_id", else row numbers.
    exclude : list of str
        Columns of numbers that are no features.
    unlabeled : str, optional
        Label that means "not known", beside empty cells.
    """
    is_label_file = labels is not None and Path(labels).suffix.lower() == ".npy"
    wanted = [name for name in (None if is_label_file else labels, id_column, *exclude) if name is not None]
    points = read_points(path, exclude=dict.fromkeys(wanted))
    task = Task(path.name, points.X, points.names)
    id_name, task.sample_id = find_sample_ids(points, id_column)
    if labels is not None:
        values = tables.read_npy(labels) if is_label_file else points.columns[labels]
        task.labels = find_labels(values, len(points.X), labels, unlabeled)
        task.class_names, task.label_column = class_names(values, task.labels), labels
    unused = [name for name in points.columns if name not in (*wanted, id_name, "index") and not is_id(name)]
    if unused:
        task.warnings.append(f"not used: {listed(unused)} (not numeric)")
    if constraints is not None:
        if task.sample_id is not None:
            _require_unique(path, id_name, task.sample_id, points.lines)
        _locate(task, constraints, id_name)
    return task


def _require_unique(path: Path, id_name: str | None, sample_id: np.ndarray, lines: list[int] | None) -> None:
    """Raise for a sample id that names two rows."""
    first: dict[Any, int] = {}
    for row, name in enumerate(sample_id.tolist()):
        if (other := first.setdefault(name, row)) != row:
            where = f"lines {lines[other]} and {lines[row]}" if lines is not None else f"rows {other} and {row}"
            raise ValueError(f"{path}, {where}: {id_name} {name!r} occurs twice")


def find_sample_ids(points: Points, id_column: str | None) -> tuple[str | None, np.ndarray | None]:
    """The column that names the rows: the one asked for, or one called "id" or "sample_id"; None: row numbers."""
    name = id_column
    if name is None:
        name = next((column for column in points.columns if is_id(column)), None)
    return name, None if name is None else parse_sample_ids(points.columns[name])


def find_labels(values: Any, n: int, name: str, unlabeled: str | None) -> np.ndarray:
    """Class numbers 0, 1, ... by first appearance; -1 where there is no label.

    Parameters
    ----------
    values : array of shape (n,)
        Words or numbers.
    n : int
        How many points there are.
    name : str
        Of the column or file, for messages.
    unlabeled : str or None
        What means "no label", beside empty cells and NaN.
    """
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
            try:
                y[y == float(unlabeled)] = np.nan
            except ValueError as error:
                raise ValueError(f"--unlabeled {unlabeled!r} is no number, but the labels {name!r} are") from error
    try:
        codes = label_codes(y, unlabeled=None)
    except ValueError as error:
        raise ValueError(for_labels(str(error), name)) from error
    if (codes < 0).all():
        raise ValueError(f"labels {name!r}: no row has a label")
    return codes


def class_names(values: Any, codes: np.ndarray) -> tuple[Any, ...]:
    """What the classes 0, 1, ... are called in the file: whole numbers if all are, else words."""
    values = np.asarray(values)
    first = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    names = [str(values[row]) for row in first]
    try:
        return tuple(int(float(name)) for name in names)
    except (ValueError, OverflowError):
        return tuple(names)


def _kind(sample_id: np.ndarray | None) -> type:
    return int if sample_id is None or sample_id.dtype.kind == "i" else str


def _locate(task: Task, path: Path, id_name: str | None) -> None:
    rows, places, samples = read_placed_constraints(path, id_type=_kind(task.sample_id))
    located, kept = rows.locate(task.sample_id, len(task.X))
    dropped = np.flatnonzero(~kept).tolist()
    if dropped:
        known = set() if task.sample_id is None else {str(name) for name in task.sample_id.tolist()}
        strangers: dict[str, str] = {}
        for row in dropped:
            for name in samples[row]:
                if name not in known:
                    strangers.setdefault(name, f"{name!r} ({places[row]})")
        named = f"{listed(strangers.values(), 3)}; column {id_name!r} names the points"
        if located is None:
            raise ValueError(f"{path}: no constraint has all its points in {task.name}; not there: {named}")
        task.warnings.append(
            f"{len(dropped):,} of {rows.n_constraints:,} constraints of {path.name} were left out, because they name "
            f"points that are not in {task.name}: {named}"
        )
    task.given = located
    task.places = tuple(f"{path.name}, {places[row]}" for row in np.flatnonzero(kept).tolist())
