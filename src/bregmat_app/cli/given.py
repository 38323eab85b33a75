"""Constraints from a file of `bregmat learn`: in row numbers, with their places in the file and remarks on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.html import listed
from bregmat.constraints.columns import similar_name
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.linear_maps import POINTS_PRIORS, points_in_prior
from bregmat.io.constraints import PlacedConstraints, read_placed_constraints
from bregmat.io.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from bregmat_app.cli.learn_input import LearnInput

__all__ = ["Given", "read_given"]

MOST_NAMED = 3  # unknown points that a message names


@dataclass(frozen=True, eq=False)
class Given:
    """Constraints from a file.

    Attributes
    ----------
    rows : Constraints
        In row numbers of the points.
    places : sequence of str
        File and line of each row.
    remarks : list of str
        What to tell the user.
    has_measured_bounds : bool
        Whether the file has no bounds, so that they were measured at the points with scaled columns or in the prior.
    """

    rows: Constraints
    places: Sequence[str]
    remarks: list[str]
    has_measured_bounds: bool


def read_given(task: LearnInput, path: Path, id_name: str | None, *, prior: str, encoding: str | None) -> Given:
    """Read constraints on the points of a task. Rows that name other points are left out with a remark.

    Parameters
    ----------
    task : LearnInput
    path : Path
        A table of constraints, or of pairs or triplets.
    id_name : str or None
        The column that names the points.
    prior : str
        Bounds that the table does not give are measured in it; for "auto", in scaled columns.
    encoding : str or None
    """
    names = task.sample_id
    id_type = int if names is None or names.dtype.kind == "i" else str
    table = read_placed_constraints(path, id_type=id_type, encoding=encoding)
    file = "standard input" if str(path) == STANDARD_INPUT else path.name
    _check_header(table, task, file)
    tuples = None if table.found.tuples is None else table.found.tuples.said
    remarks = []
    located, kept = table.rows.locate(names, len(task.X))
    if not kept.all():
        strangers = _strangers(task, table, np.flatnonzero(~kept), id_name)
        if located is None:
            read = "" if tuples is None else f" (it was read as {tuples})"
            raise ValueError(f"{file}: no constraint has all its points in {task.name}; not there: {strangers}{read}")
        remarks.append(
            f"{(~kept).sum():,} of {table.rows.n_constraints:,} constraints of {file} were left out, because they name "
            f"points that are not in {task.name}: {strangers}"
        )
    assert located is not None
    if tuples is not None:
        remarks.append(f"{file} was read as {tuples}")
    if table.found.is_open and prior == "within":
        raise ValueError(
            f"{file} has no bounds, and --prior within has no scale to measure them in: take another prior"
        )
    is_measured = table.found.is_open and prior in ("auto", *POINTS_PRIORS)
    if is_measured:
        seen = points_in_prior(np.asarray(task.X), "variance" if prior == "auto" else prior)
        located = located.with_bounds_from(seen, random_state=0)
    return Given(located, Places(file, table.where, np.flatnonzero(kept)), remarks, is_measured)


def _check_header(table: PlacedConstraints, task: LearnInput, file: str) -> None:
    """Raise ValueError if the first line of a table of pairs or triplets names points and would be lost as a header."""
    if table.found.tuples is None or task.sample_id is None:
        return
    known = set(task.sample_id.tolist())
    if named := [name for name in table.found.tuples.called.values() if name in known]:
        raise ValueError(
            f"{file}, line 1: {named[0]!r} is a point; give the table a first line of names, such as a,b,link"
        )


def _strangers(task: LearnInput, table: PlacedConstraints, rows: np.ndarray, id_name: str | None) -> str:
    """List the first unknown points of some rows, with their places and similar names of known points."""
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
