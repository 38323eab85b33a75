"""How commands read a table of points: which columns are features, labels and ids, and remarks on them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.html import listed
from bregmat.from_labels.kinds import is_continuous, label_codes
from bregmat.io import Points, parse_sample_ids, read_points, tables
from bregmat.io.points import is_id
from bregmat.io.texts import NOT_AVAILABLE
from bregmat_app.cli.messages import for_labels
from bregmat_app.cli.options import ColumnOptions, names_in

__all__ = ["PointTable", "class_names", "find_labels", "find_sample_ids", "label_remarks", "read_table", "why_not_used"]

# Names of columns of whole numbers that name rows or stand for categories. The second kind has other uses, such as glycemic_index.
_ID_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:id|key|uuid)$)|(?<=[a-z])(?:Id|ID|Key)$")
_ROW_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:index|idx|row|nr)$)")
_CODE_NAME = re.compile(
    r"(?i:(?:^|[^a-z])(?:code|zip|zipcode|postcode|plz|ean|sku|isbn|phone|tel)$)|(?<=[a-z])(?:Code|Zip)$"
)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_THOUSANDS = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+(,\d+)?|\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,})")
MANY_CLASSES = 20  # more whole-number classes than this and than a quarter of the points may be values


@dataclass(frozen=True, eq=False)
class PointTable:
    """A table of points as a command reads it.

    Attributes
    ----------
    points : Points
        With the features that are used.
    options : ColumnOptions
    left_out : dict of str to str
        Columns of numbers that are not used, and why.
    """

    points: Points
    options: ColumnOptions
    left_out: dict[str, str]

    def label_values(self) -> Any:
        """Return the cells of the column of labels, or the content of their file for the rows that are left."""
        points, labels = self.points, self.options.labels
        assert labels is not None
        if not _is_file(labels):
            words = points.columns[labels]
            if points.table is not None and points.has_decimal_commas:  # numbers are words there
                numbers, is_word = points.table.numbers(labels)
                if not (is_word & ~np.isin(points.table.columns[labels], NOT_AVAILABLE)).any():
                    return numbers if points.rows is None else numbers[points.rows]
            return words
        values = tables.read_npy(labels)
        is_longer = points.rows is not None and len(values) > points.rows[-1]
        return values[points.rows] if is_longer else values

    def remarks(self) -> list[str]:
        """Remarks on columns that are left out, on decimal commas and on missing cells."""
        points, remarks = self.points, []
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            keep = " ".join(f"--keep {name}" for name in names[:3])
            remarks.append(f"left out: {listed(names)} ({why}); to use them as features: {keep}")
        if points.has_decimal_commas:
            remarks.append("numbers are read with decimal commas")
        if points.n_missing:
            counts = listed([f"{name} ({count:,})" for name, count in points.n_missing.items()])
            done = (
                f"{len(points.X):,} rows are left"
                if points.rows is not None
                else "filled with the medians of their columns"
            )
            remarks.append(f"missing cells in {counts}: {done}")
        return remarks

    def unused(self, *others: str | None) -> list[str]:
        """Remarks on columns of words that are neither features nor asked for."""
        known = (*_others(self.options), *others, *self.left_out, "index")
        unused = [name for name in self.points.columns if name not in known and not is_id(name)]
        if not unused or self.options.columns:
            return []
        remark = f"not used: {listed(unused)} (not numeric)"
        n_distinct = {name: len(np.unique(self.points.columns[name])) for name in unused}
        if words := [name for name in unused if n_distinct[name] <= MANY_CLASSES]:
            remark += f"; one-hot encoded with --categorical {','.join(words[:3])}"
        names_rows = [name for name in unused if n_distinct[name] == len(self.points.X)]
        if names_rows and self.options.id_column is None and not any(map(is_id, self.points.columns)):
            remark += f"; rows are named by their number, or by a column with --id {names_rows[0]}"
        remarks = [remark]
        for name in unused:
            if (cell := _first_if_all(_DECIMAL_COMMA, self.points.columns[name])) is not None:
                remarks.append(
                    f"{name} holds numbers such as '{cell}'. Commas separate the cells, so these are not read as decimal commas: "
                    "separate the cells by semicolons, or write points in the numbers"
                )
        return remarks


def read_table(path: Path, options: ColumnOptions, *others: str) -> PointTable:
    """Read a table of points; the columns `others` are no features. `ValueError` names what is wrong."""
    columns = names_in(options.columns)
    if both := [name for name in columns if name in (*_others(options), *others)]:
        raise ValueError(
            f"column {both[0]!r} cannot be a feature (--columns) and something else (--labels, --id, --drop, --categorical)"
        )
    try:
        points = read_points(path, **reading_arguments(options, *others))
    except ValueError as error:
        raise ValueError(f"{error}{_advice(str(error), columns)}") from error
    known = (*_others(options), *others)
    for name in () if columns else points.columns:
        cell = _first_if_all(_THOUSANDS, points.columns[name], some=True)
        if cell is not None and name not in known:
            raise ValueError(
                f"{path}, column {name!r}: numbers such as '{cell}' have separators between thousands; write {_plain(cell)}, or leave the "
                f"column out with --drop {name}"
            )
    return _without_constants_and_codes(points, options)


def reading_arguments(options: ColumnOptions, *others: str) -> dict[str, Any]:
    """Arguments of :func:`bregmat.io.read_points` other than the file and defaults; the columns `others` are no features."""
    given: dict[str, Any] = {
        "exclude": [*dict.fromkeys((*_others(options), *others))] or None,
        "features": list(names_in(options.columns)) or None,
        "missing": None if options.missing == "error" else options.missing,
        "encoding": options.encoding,
    }
    return {name: value for name, value in given.items() if value is not None}


def _is_file(labels: str) -> bool:
    """Whether labels are in a file of their own."""
    return Path(labels).suffix.lower() == ".npy"


def _others(options: ColumnOptions) -> tuple[str, ...]:
    """The columns that the options say are not features."""
    labels = None if options.labels is None or _is_file(options.labels) else options.labels
    named = (labels, options.id_column, *(options.drop or ()))
    return tuple(dict.fromkeys(name for name in named if name is not None))


def _advice(error: str, columns: Sequence[str]) -> str:
    """How to go on after an error about a cell that is not a number."""
    cell = re.search(r"column '(.*)': '(.*)' is not a number", error)
    if cell is None:
        return ""
    name, text = cell.groups()
    if _THOUSANDS.fullmatch(text):
        return f"; separators between thousands are not read: write {_plain(text)}"
    return f"; leave out a column of words here and give it to --categorical {name}" if name in columns else ""


def _plain(number: str) -> str:
    """A number without separators between thousands."""
    last = max(number.rfind("."), number.rfind(","))
    is_decimal = number.count(number[last]) == 1 and len({".", ","} & set(number)) == 2
    head, tail = (number[:last], number[last:]) if is_decimal else (number, "")
    return head.replace(".", "").replace(",", "") + tail


def _without_constants_and_codes(points: Points, options: ColumnOptions) -> PointTable:
    """Leave out columns that carry no distances, unless they are asked for."""
    if points.table is None or options.columns:
        return PointTable(points, options, {})
    kept = set(names_in(options.keep))
    tables.require_columns(points.table.path, kept, points.names)
    found = {name: why_not_used(name, x) for name, x in zip(points.names, points.X.T) if name not in kept}
    left_out = {name: why for name, why in found.items() if why is not None}
    names = [name for name in points.names if name not in left_out]
    if not names:
        raise ValueError(
            f"{points.table.path}: no feature is left; left out were {listed([f'{n} ({w})' for n, w in left_out.items()])}"
        )
    if not left_out:
        return PointTable(points, options, {})
    positions = [points.names.index(name) for name in names]
    others = {name: points.X[:, points.names.index(name)] for name in left_out}
    points = replace(points, X=points.X[:, positions], names=tuple(names), columns=points.columns | others)
    return PointTable(points, options, left_out)


def why_not_used(name: str, values: np.ndarray) -> str | None:
    """Say why a column of numbers is no feature: it is constant, an identifier or a code. None if it may be a feature."""
    if (values == values[0]).all():
        return "constant"
    if not (values == np.rint(values)).all():
        return None
    if _CODE_NAME.search(name):
        return "looks like a code"
    is_distinct = len(np.unique(values)) == len(values)
    is_consecutive = is_distinct and len(values) > 2 and np.ptp(values) == len(values) - 1
    if _ID_NAME.search(name) or (_ROW_NAME.search(name) and is_distinct) or is_consecutive:
        return "looks like the name of a row"
    return None


def find_sample_ids(points: Points, id_column: str | None) -> tuple[str | None, np.ndarray | None]:
    """Find the column that names the rows, and its values: `id_column`, or a column "id" or "sample_id"; None for row numbers."""
    name = id_column
    if name is None:
        name = next((column for column in points.columns if is_id(column)), None)
    return name, None if name is None else parse_sample_ids(points.columns[name])


def find_labels(values: Any, n: int, name: str, unlabeled: str | None) -> np.ndarray:
    """Turn labels into class numbers, or keep them as values, by the same rule as :class:`bregmat.MetricLearner`.

    Classes are numbered 0, 1, ... by first appearance, -1 without a label. Numbers that are not all whole are values, NaN
    without a label.

    Parameters
    ----------
    values : array of shape (n,)
        Words or numbers.
    n : int
        Number of points.
    name : str
        Name of the column or file, for messages.
    unlabeled : str or None
        Label that means "not known", as empty cells and NaN do.
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


def _first_if_all(pattern: re.Pattern[str], values: Any, *, some: bool = False) -> str | None:
    """Return the first cell that matches if all cells of a column of words are empty or match; with `some`, or are numbers."""
    if np.asarray(values).dtype.kind != "U":
        return None
    cells = [cell for cell in np.asarray(values).tolist() if cell not in NOT_AVAILABLE]
    matches = [cell for cell in cells if pattern.fullmatch(cell)]
    others = len(cells) - len(matches)
    if some:
        others = sum(not re.fullmatch(r"[+-]?\d+([.,]\d+)?", cell) for cell in cells if not pattern.fullmatch(cell))
    return matches[0] if matches and not others else None


def class_names(values: Any, codes: np.ndarray) -> tuple[Any, ...]:
    """Names of the classes 0, 1, ... in the file: whole numbers if all are, else words."""
    values = np.asarray(values)
    first = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    names = [str(values[row]) for row in first]
    try:
        return tuple(int(float(name)) for name in names)
    except (ValueError, OverflowError):
        return tuple(names)


def label_remarks(labels: np.ndarray, name: str) -> list[str]:
    """Remarks on labels as :func:`find_labels` returns them."""
    n = len(labels)
    if labels.dtype.kind == "f":
        n_known = int(np.isfinite(labels).sum())
        said = [f"labels {name!r} are numbers that are not all whole: values, not classes"]
    else:
        n_known, n_classes = int((labels >= 0).sum()), int(labels.max()) + 1
        said = []
        if n_classes > max(MANY_CLASSES, n_known // 4):
            said.append(
                f"labels {name!r} are {n_classes:,} classes of {n_known:,} points; whole numbers are classes. If they are values, "
                "make some of them not whole, for example by a division by 10"
            )
    return [*said, f"{n - n_known:,} of {n:,} rows have no label"] if n_known < n else said
