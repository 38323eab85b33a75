"""The constraints that `bregmat learn` is given: in row numbers, with their places in the file, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.html import listed
from bregmat.constraints.columns import similar_name
from bregmat.estimators.priors import POINTS_PRIORS, points_in_prior
from bregmat.io.constraints import PlacedConstraints, read_placed_constraints
from bregmat.io.sources import STANDARD_INPUT
from bregmat_app.cli.learn_input import LearnInput

__all__ = ["give_constraints"]

MOST_NAMED = 3  # points that are not there


def give_constraints(task: LearnInput, path: Path, id_name: str | None, *, prior: str, encoding: str | None) -> None:
    """Set what is given to a task, from a file; rows that name other points are left out, with a warning that names these.

    Parameters
    ----------
    task : LearnInput
    path : Path
        A table of constraints, or of pairs or triplets.
    id_name : str or None
        The column that names the points.
    prior : str
        Bounds that the table leaves open are measured in it; "auto": in scaled columns.
    encoding : str or None
    """
    names = task.sample_id
    id_type = int if names is None or names.dtype.kind == "i" else str
    table = read_placed_constraints(path, id_type=id_type, encoding=encoding)
    file = "standard input" if str(path) == STANDARD_INPUT else path.name
    _check_header(table, task, file)
    located, kept = table.rows.locate(names, len(task.X))
    if not kept.all():
        strangers = _strangers(task, table, np.flatnonzero(~kept), id_name)
        if located is None:
            read = "" if table.found.tuples is None else f" (it was read as {table.found.tuples.said})"
            raise ValueError(f"{file}: no constraint has all its points in {task.name}; not there: {strangers}{read}")
        task.warnings.append(
            f"{(~kept).sum():,} of {table.rows.n_constraints:,} constraints of {file} were left out, because they name "
            f"points that are not in {task.name}: {strangers}"
        )
    assert located is not None
    if table.found.tuples is not None:
        task.warnings.append(f"{file} was read as {table.found.tuples.said}")
    if table.found.is_open and prior == "within":
        raise ValueError(
            f"{file} has no bounds, and --prior within has no scale to measure them in: take another prior"
        )
    if table.found.is_open and (prior in POINTS_PRIORS or prior == "auto"):
        task.has_measured_bounds = True
        seen = points_in_prior(np.asarray(task.X), "variance" if prior == "auto" else prior)
        located = located.with_bounds_from(seen, random_state=0)
    task.given = located
    task.places = Places(file, table.where, np.flatnonzero(kept))


def _check_header(table: PlacedConstraints, task: LearnInput, file: str) -> None:
    """Raise where the first line of a table of pairs or triplets names points, which would be lost as names of columns."""
    if table.found.tuples is None or task.sample_id is None:
        return
    known = set(task.sample_id.tolist())
    if named := [name for name in table.found.tuples.called.values() if name in known]:
        raise ValueError(
            f"{file}, line 1: {named[0]!r} is a point; give the table a first line of names, such as a,b,link"
        )


def _strangers(task: LearnInput, table: PlacedConstraints, rows: np.ndarray, id_name: str | None) -> str:
    """The first names of some rows that no point has, with their places and what is much like them."""
    names = [] if task.sample_id is None else task.sample_id.tolist()
    known = {str(name) for name in names}
    words = [name for name in names if isinstance(name, str)]
    first: dict[str, int] = {}
    for row in rows.tolist():
        for name in table.found.samples[row]:
            if name not in known:
                first.setdefault(name, row)
    said = [
        f"{name!r} ({table.where(row)}{similar_name(name, words) if k < MOST_NAMED else ''})"
        for k, (name, row) in enumerate(first.items())
    ]
    by = "numbers of their rows name the points" if id_name is None else f"column {id_name!r} names the points"
    return f"{listed(said, MOST_NAMED)}; {by}"


@dataclass(frozen=True, eq=False)
class Places(Sequence[str]):
    """File and line of each constraint, looked up when a message asks."""

    file: str
    place: Callable[[int], str]
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, k: Any) -> Any:
        return f"{self.file}, {self.place(int(self.rows[k]))}"
