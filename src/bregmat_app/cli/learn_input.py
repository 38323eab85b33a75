"""The data of `bregmat learn`: points, labels and constraints, and remarks on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.checks import similar_name
from bregmat.base.html import listed
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.tables import TableRows
from bregmat.estimators.linear_maps import POINTS_PRIORS, points_in_prior
from bregmat.io import Points
from bregmat.io.constraints import read_placed_constraints
from bregmat.io.points import NoNumbersError
from bregmat_app.cli.options import ColumnOptions
from bregmat_app.cli.points import (
    class_names,
    encoded,
    find_categories,
    find_labels,
    find_sample_ids,
    label_remarks,
    read_table,
)

MOST_NAMED = 3  # unknown points that a message names


@dataclass
class LearnInput:
    """The data of `bregmat learn`."""

    name: str  # of the points
    X: np.ndarray  # (n, d)
    feature_names: tuple[str, ...]
    labels: Any = None  # (n,): class numbers, -1 if a row has no label; or values, NaN if a row has none
    title: str = ""  # the line that describes the points
    class_names: tuple[Any, ...] = ()  # of the classes 0, 1, ...
    label_column: str = "y"
    sample_id: np.ndarray | None = None  # (n,): names of the rows
    constraints: Constraints | None = None  # those of a file, in row numbers of X
    place: Callable[[int], str] = str  # file and line of a constraint of the file, by its number
    has_measured_bounds: bool = False  # the file has no bounds; they were measured with scaled columns or in the prior
    warnings: list[str] = field(default_factory=list)
    # written to the model file, so that new points can be read in the same way: medians and categories
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.title = self.title or f"{self.name}: {self.X.shape[0]:,} points, {self.X.shape[1]:,} features"
        self.info = {"source": self.name, "feature_names": list(self.feature_names), **self.info}

    @property
    def target(self) -> Any:
        """The labels as the learner takes them, NaN for rows without one."""
        return self.labels if self.labels is None or self.has_values else np.where(self.labels < 0, np.nan, self.labels)

    @property
    def has_values(self) -> bool:
        """Whether the labels are values rather than class numbers."""
        return self.labels is not None and self.labels.dtype.kind == "f"


def read_input(
    path: Path,
    options: ColumnOptions,
    *,
    categorical: Sequence[str] = (),
    constraints: Path | None = None,
    prior: str = "auto",
) -> LearnInput:
    """Read all inputs; `ValueError` names the file, line and column of what is wrong.

    Bounds that the file of constraints does not give are measured in the prior; for "auto", in scaled columns.
    """
    if both := [name for name in categorical if name in (options.labels, options.id_column)]:
        raise ValueError(
            f"--categorical {both[0]}: the column of labels, or of names of rows, cannot be a feature, too"
        )
    try:
        table = read_table(path, options, *categorical, may_lack_numbers=bool(categorical))
    except NoNumbersError as error:
        advice = "columns of words can be encoded with --categorical COLUMN,...; texts need numbers first, such as their embeddings"
        raise ValueError(f"{error}; {advice}") from error
    points, info = table.points, {}
    X, names = points.X, points.names
    if options.missing == "median":
        info["medians"] = dict(zip(names, np.median(X, axis=0).tolist()))
    if categorical:
        info["categories"] = find_categories(points, categorical)
        features, more = encoded(points, info["categories"])
        X, names = np.column_stack([X, features]), (*names, *more)
    task = LearnInput(path.name, X, names, warnings=table.remarks(), info=info)
    id_name, task.sample_id = find_sample_ids(points, options.id_column)
    if task.sample_id is None and points.rows is not None:
        task.sample_id = points.rows  # constraints count the rows of the file
    if (labels := options.labels) is not None:
        values = table.label_values()
        task.label_column, task.labels = labels, find_labels(values, len(X), labels, options.unlabeled)
        n_known = int((np.isfinite(task.labels) if task.has_values else task.labels >= 0).sum())
        if n_known < 2 and constraints is None:
            raise ValueError(f"labels {labels!r}: rows with a label: {n_known} of {len(X):,}; at least 2 are needed")
        task.class_names = () if task.has_values else class_names(values, task.labels)
        task.warnings += label_remarks(task.labels, labels, task.class_names, options.unlabeled)
    else:
        task.info["has_labels"] = False  # so the strategy has no effect
    task.warnings += table.unused(id_name, *categorical)
    if constraints is not None:
        if task.sample_id is not None:
            _require_unique(str(path), id_name, points, task.sample_id)
        _add_constraints(task, constraints, id_name, prior, options.encoding)
    return task


def _require_unique(path: str, id_name: str | None, points: Points, sample_id: np.ndarray) -> None:
    """Raise ValueError for a sample id that names two rows."""
    first: dict[Any, int] = {}
    for row, name in enumerate(sample_id.tolist()):
        if (other := first.setdefault(name, row)) != row:
            kind, here = points.where(row).split(" ", 1)
            there = points.where(other).split(" ", 1)[1]
            raise ValueError(f"{path}, {kind}s {there} and {here}: {id_name} {name!r} occurs twice")


def _add_constraints(task: LearnInput, path: Path, id_name: str | None, prior: str, encoding: str | None) -> None:
    """Read constraints on the points of a task. Rows that name other points are left out with a remark."""
    names, file = task.sample_id, path.name
    id_type = int if names is None or names.dtype.kind == "i" else str
    table = read_placed_constraints(path, id_type=id_type, encoding=encoding)
    said = ""
    if (tuples := table.tuples) is not None:
        said = f"read as {tuples.said}"
        known = set() if names is None else set(names.tolist())
        if named := [name for name in tuples.called.values() if name in known]:  # a pair would be lost as a header
            raise ValueError(
                f"{file}, line 1: {named[0]!r} is a point; give the table a first line of names, such as a,b,link"
            )
    rows, kept = table.rows.locate(names, len(task.X))
    if not kept.all():
        unknown = _unknown_points(task, table, np.flatnonzero(~kept), id_name)
        if rows is None:
            read = f" (it was {said})" if said else ""
            raise ValueError(f"{file}: no constraint has all its points in {task.name}; not there: {unknown}{read}")
        task.warnings.append(
            f"{(~kept).sum():,} of {table.rows.n_constraints:,} constraints of {file} were left out, because they name "
            f"points that are not in {task.name}: {unknown}"
        )
    assert rows is not None
    if said:
        task.warnings.append(f"{file} was {said}")
    if tuples is not None and prior == "within":
        raise ValueError(
            f"{file} has no bounds, and --prior within has no scale to measure them in: take another prior"
        )
    if tuples is not None and prior in ("auto", *POINTS_PRIORS):
        seen = points_in_prior(np.asarray(task.X), "variance" if prior == "auto" else prior)
        rows, task.has_measured_bounds = replace(table, rows=rows).measured(seen), True
    places = np.flatnonzero(kept)
    task.constraints, task.place = rows, lambda k: f"{file}, {table.where(int(places[k]))}"


def _unknown_points(task: LearnInput, table: TableRows, rows: np.ndarray, id_name: str | None) -> str:
    """List the first unknown points of some rows, with their places and similar names of known points."""
    names = [] if task.sample_id is None else task.sample_id.tolist()
    known = {str(name) for name in names}
    words = [name for name in names if isinstance(name, str)]
    first: dict[str, int] = {}
    ids, index = table.rows.ids, table.rows.index
    for row in rows.tolist():
        for sample in index[row][index[row] >= 0]:
            if (name := str(sample if ids is None else ids[sample])) not in known:
                first.setdefault(name, row)
    said = [
        f"{name!r} ({table.where(row)}{similar_name(name, words) if k < MOST_NAMED else ''})"
        for k, (name, row) in enumerate(first.items())
    ]
    by = "numbers of their rows name the points" if id_name is None else f"column {id_name!r} names the points"
    return f"{listed(said, MOST_NAMED)}; {by}"
