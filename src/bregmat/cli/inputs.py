"""From the files and options of `bregmat learn` to points, labels and constraints in row numbers."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bregmat._html import listed
from bregmat.cli.given import give_constraints
from bregmat.cli.messages import for_labels
from bregmat.cli.task import Task
from bregmat.io import Points, parse_sample_ids, read_points, tables
from bregmat.io.points import is_id
from bregmat.io.sources import STANDARD_INPUT
from bregmat.io.texts import NOT_AVAILABLE
from bregmat.labels import label_codes

__all__ = ["class_names", "find_labels", "find_sample_ids", "import_terms", "read_task"]


_ID_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:id|key|index|idx|uuid|row|nr)$)|(?<=[a-z])(?:Id|ID|Key)$")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


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


def read_task(
    path: Path,
    *,
    constraints: Path | None,
    labels: str | None,
    id_column: str | None,
    drop: Sequence[str] = (),
    columns: Sequence[str] = (),
    unlabeled: str | None = None,
    missing: str = "error",
    encoding: str | None = None,
    prior: str = "auto",
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
    drop : sequence of str
        Columns of numbers that are no features.
    columns : sequence of str
        The only columns that are features, in this order; by default all of numbers.
    unlabeled : str, optional
        Label that means "not known", beside empty cells.
    missing, encoding : str
        As in :func:`bregmat.io.read_points`.
    prior : str
        Of the metric to be learned: bounds that are not given are measured in it.
    """
    if constraints is not None and str(path) == str(constraints) == STANDARD_INPUT:
        raise ValueError("standard input holds points or constraints, not both; write one of them to a file")
    is_label_file = labels is not None and Path(labels).suffix.lower() == ".npy"
    wanted = [name for name in (None if is_label_file else labels, id_column, *drop) if name is not None]
    if both := [name for name in columns if name in wanted]:
        raise ValueError(
            f"column {both[0]!r} cannot be a feature (--columns) and something else (--labels, --id, --drop)"
        )
    points = read_points(
        path, exclude=dict.fromkeys(wanted), features=columns or None, missing=missing, encoding=encoding
    )
    name = "standard input" if str(path) == STANDARD_INPUT else path.name
    task = Task(name, points.X, points.names, warnings=_remarks(points, chosen=bool(columns)))
    task.has_medians = missing == "median"
    id_name, task.sample_id = find_sample_ids(points, id_column)
    if task.sample_id is None and points.rows is not None:
        task.sample_id = points.rows  # constraints count the rows of the file
    if labels is not None:
        values = tables.read_npy(labels) if is_label_file else points.columns[labels]
        if is_label_file and points.rows is not None and len(values) > points.rows[-1]:
            values = values[points.rows]
        task.labels = find_labels(values, len(points.X), labels, unlabeled)
        task.class_names, task.label_column = class_names(values, task.labels), labels
        if n_unlabeled := int((task.labels < 0).sum()):
            task.warnings.append(f"{n_unlabeled:,} of {len(task.labels):,} rows have no label")
    unused = [name for name in points.columns if name not in (*wanted, id_name, "index") and not is_id(name)]
    if unused and not columns:
        task.warnings.append(f"not used: {listed(unused)} (not numeric)")
        for name in unused:
            if (cell := _decimal_comma(points.columns[name])) is not None:
                task.warnings.append(
                    f"{name} holds numbers such as '{cell}'; where commas part the cells they are not read as decimal commas: "
                    "write semicolons between the cells, or points in the numbers"
                )
    if constraints is not None:
        if task.sample_id is not None:
            _require_unique(task.name if path.name == STANDARD_INPUT else str(path), id_name, points, task.sample_id)
        give_constraints(task, constraints, id_name, prior=prior, encoding=encoding)
    return task


def _remarks(points: Points, *, chosen: bool) -> list[str]:
    """What somebody should know of what became features, and of missing cells."""
    remarks = []
    strangers = (
        []
        if chosen or points.table is None
        else [name for name, x in zip(points.names, points.X.T) if looks_like_id(name, x)]
    )
    if strangers:
        what = (
            "looks like the name of a row, not like a feature"
            if len(strangers) == 1
            else ("look like names of rows, not like features")
        )
        options = " ".join(f"--drop {name}" for name in strangers[:3])
        remarks.append(f"{listed(strangers)} {what}; leave out with {options}")
    if points.decimal_commas:
        remarks.append(f"read with decimal commas: {listed(points.decimal_commas)}")
    if points.n_missing:
        counts = listed([f"{name} ({count:,})" for name, count in points.n_missing.items()])
        done = (
            f"{len(points.X):,} rows are left"
            if points.rows is not None
            else "filled up with the medians of their columns"
        )
        remarks.append(f"missing cells in {counts}: {done}")
    return remarks


def looks_like_id(name: str, values: np.ndarray) -> bool:
    """Whether a column of numbers names rows: whole numbers under a name that says so, or one after the other."""
    if not (values == np.rint(values)).all():
        return False
    return bool(_ID_NAME.search(name)) or (len(values) > 2 and bool((np.diff(np.sort(values)) == 1).all()))


def _require_unique(path: str, id_name: str | None, points: Points, sample_id: np.ndarray) -> None:
    """Raise for a sample id that names two rows."""
    first: dict[Any, int] = {}
    for row, name in enumerate(sample_id.tolist()):
        if (other := first.setdefault(name, row)) != row:
            kind, here = points.where(row).split(" ", 1)
            there = points.where(other).split(" ", 1)[1]
            raise ValueError(f"{path}, {kind}s {there} and {here}: {id_name} {name!r} occurs twice")


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
        missing = np.isin(words, [*NOT_AVAILABLE, *([] if unlabeled is None else [unlabeled])])
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


def _decimal_comma(values: Any) -> str | None:
    """The first cell of a column whose cells are all empty or numbers with decimal commas; None for any other column."""
    cells = [cell for cell in np.asarray(values).astype(str).tolist() if cell not in NOT_AVAILABLE]
    return cells[0] if cells and all(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) else None


def class_names(values: Any, codes: np.ndarray) -> tuple[Any, ...]:
    """What the classes 0, 1, ... are called in the file: whole numbers if all are, else words."""
    values = np.asarray(values)
    first = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    names = [str(values[row]) for row in first]
    try:
        return tuple(int(float(name)) for name in names)
    except (ValueError, OverflowError):
        return tuple(names)
