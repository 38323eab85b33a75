"""How a table of points is read for a command: which columns are what, what becomes of missing cells, and what is to be said of it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.html import listed
from bregmat.from_labels.labels import is_continuous, label_codes
from bregmat.io import Points, parse_sample_ids, read_points, tables
from bregmat.io.points import is_id
from bregmat.io.texts import NOT_AVAILABLE
from bregmat_app.cli.messages import for_labels

__all__ = ["Intake", "class_names", "find_labels", "find_sample_ids", "label_remarks"]

_ID_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:id|key|index|idx|uuid|row|nr)$)|(?<=[a-z])(?:Id|ID|Key)$")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
MANY_CLASSES = 20  # and more than a quarter of the points: whole numbers that may be values


@dataclass(frozen=True)
class Intake:
    """What was asked for of a table of points.

    Parameters
    ----------
    labels : str, optional
        Column of labels, or a .npy file of them.
    id_column : str, optional
        Column that names the rows; by default one called "id" or "sample_id", else row numbers.
    drop : tuple of str
        Columns of numbers that are no features.
    columns : tuple of str
        The only columns that are features, in this order; by default all of numbers.
    unlabeled : str, optional
        Label that means "not known", beside empty cells.
    missing, encoding : str
        As in :func:`bregmat.io.read_points`.
    """

    labels: str | None = None
    id_column: str | None = None
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    unlabeled: str | None = None
    missing: str = "error"
    encoding: str | None = None

    @property
    def has_label_file(self) -> bool:
        """Whether the labels are in a file of their own."""
        return self.labels is not None and Path(self.labels).suffix.lower() == ".npy"

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are something else than features."""
        named = (None if self.has_label_file else self.labels, self.id_column, *self.drop)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def arguments(self, *others: str) -> dict[str, Any]:
        """Of :func:`bregmat.io.read_points`, beside the file; without those that say nothing. More columns may be no features."""
        given: dict[str, Any] = {
            "exclude": [*dict.fromkeys((*self.others, *others))] or None,
            "features": list(self.columns) or None,
            "missing": None if self.missing == "error" else self.missing,
            "encoding": self.encoding,
        }
        return {name: value for name, value in given.items() if value is not None}

    def read(self, path: Path, *others: str) -> Points:
        """The points of a file; `ValueError` names what is wrong."""
        if both := [name for name in self.columns if name in (*self.others, *others)]:
            raise ValueError(
                f"column {both[0]!r} cannot be a feature (--columns) and something else (--labels, --id, --drop)"
            )
        return read_points(path, **self.arguments(*others))

    def label_values(self, points: Points) -> Any:
        """The cells of the column of labels, or what their file holds for the rows that are left."""
        assert self.labels is not None
        if not self.has_label_file:
            words = points.columns[self.labels]
            if points.table is not None and points.has_decimal_commas:  # numbers are words there
                numbers, is_word = points.table.numbers(self.labels)
                if not (is_word & ~np.isin(points.table.columns[self.labels], NOT_AVAILABLE)).any():
                    return numbers if points.rows is None else numbers[points.rows]
            return words
        values = tables.read_npy(self.labels)
        is_longer = points.rows is not None and len(values) > points.rows[-1]
        return values[points.rows] if is_longer else values

    def remarks(self, points: Points) -> list[str]:
        """What somebody should know of what became features, and of missing cells."""
        return _remarks(points, chosen=bool(self.columns))

    def unused(self, points: Points, *others: str | None) -> list[str]:
        """What is to be said of columns that are neither features nor asked for."""
        known = (*self.others, *others, "index")
        unused = [name for name in points.columns if name not in known and not is_id(name)]
        if not unused or self.columns:
            return []
        said = [f"not used: {listed(unused)} (not numeric)"]
        for name in unused:
            if (cell := _decimal_comma(points.columns[name])) is not None:
                said.append(
                    f"{name} holds numbers such as '{cell}'; where commas part the cells they are not read as decimal commas: "
                    "write semicolons between the cells, or points in the numbers"
                )
        return said


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
    if points.has_decimal_commas:
        remarks.append("numbers are read with decimal commas")
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


def find_sample_ids(points: Points, id_column: str | None) -> tuple[str | None, np.ndarray | None]:
    """The column that names the rows: the one asked for, or one called "id" or "sample_id"; None: row numbers."""
    name = id_column
    if name is None:
        name = next((column for column in points.columns if is_id(column)), None)
    return name, None if name is None else parse_sample_ids(points.columns[name])


def find_labels(values: Any, n: int, name: str, unlabeled: str | None) -> np.ndarray:
    """Class numbers 0, 1, ... by first appearance, -1 where there is no label; of numbers that are not all whole these, NaN where
    there is none, as :class:`bregmat.MetricLearner` tells them apart.

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
    if is_continuous(y):
        return y
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


def label_remarks(labels: np.ndarray, name: str) -> list[str]:
    """What somebody should know of labels as :func:`find_labels` gave them."""
    n = len(labels)
    if labels.dtype.kind == "f":
        n_known = int(np.isfinite(labels).sum())
        said = [f"labels {name!r} are numbers that are not all whole: values to be near in, not classes"]
    else:
        n_known, n_classes = int((labels >= 0).sum()), int(labels.max()) + 1
        said = []
        if n_classes > max(MANY_CLASSES, n_known // 4):
            said.append(
                f"labels {name!r} are {n_classes:,} classes of {n_known:,} points; whole numbers are classes: were they values to be near "
                "in, some must not be whole (divide them by 10, say)"
            )
    return [*said, f"{n - n_known:,} of {n:,} rows have no label"] if n_known < n else said
