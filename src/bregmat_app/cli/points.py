"""A table of points as commands read it: which columns are features, categories, labels and names of rows, and remarks on them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from bregmat.base.checks import as_choice, rows_text
from bregmat.base.html import listed
from bregmat.constraints.columns import is_number_word
from bregmat.from_labels.groups import are_numbers, label_codes
from bregmat.io import Points, parse_sample_ids, read_points, tables
from bregmat.io.points import INDEX, MISSING, NoNumbersError, has_index, is_id
from bregmat.io.tables import CellError
from bregmat.io.texts import MISSING as MISSING_CELLS
from bregmat.io.texts import NOT_AVAILABLE
from bregmat_app.cli.options import ColumnOptions, names_in

# Names of columns of whole numbers that name rows or stand for categories. The second kind has other uses, such as glycemic_index.
_ID_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:id|key|uuid)$)|(?<=[a-z])(?:Id|ID|Key)$")
_ROW_NAME = re.compile(r"(?i:(?:^|[^a-z])(?:index|idx|row|nr)$)")
_CODE_NAME = re.compile(
    r"(?i:(?:^|[^a-z])(?:code|zip|zipcode|postcode|plz|ean|sku|isbn|phone|tel)$)|(?<=[a-z])(?:Code|Zip)$"
)
_THOUSANDS = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+(,\d+)?|\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,})")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
MANY_CLASSES = 20  # more whole-number classes than this and than a quarter of the points may be values
WORDS_OF_TEXT = 4
MOST_CATEGORIES = 100  # a column with more of them rather names its rows


@dataclass(frozen=True, eq=False)
class PointTable:
    """A table of points, with the features that are used, the options, and why columns of numbers are left out."""

    points: Points
    options: ColumnOptions
    left_out: Mapping[str, str]

    def label_values(self) -> Any:
        """Return the cells of the column of labels, or the content of their file for the rows that are left."""
        points, labels = self.points, self.options.labels
        assert labels is not None
        if _is_file(labels):
            values = tables.read_npy(labels)
            is_longer = points.rows is not None and len(values) > points.rows[-1]
            return values[points.rows] if is_longer else values
        if points.table is not None and points.has_decimal_commas:  # numbers are words there
            numbers, is_word = points.table.numbers(labels)
            if not (is_word & ~np.isin(points.table.columns[labels], NOT_AVAILABLE)).any():
                return numbers if points.rows is None else numbers[points.rows]
        return points.columns[labels]

    def remarks(self) -> list[str]:
        """Remarks on columns that are left out, on decimal commas and on missing cells."""
        points, remarks = self.points, []
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            keep = " ".join(f"--keep {quote(name)}" for name in names[:3])
            remarks.append(f"left out: {listed(names)} ({why}); to use them as features: {keep}")
        if points.has_decimal_commas:
            remarks.append("numbers are read with decimal commas")
        if points.n_missing:
            counts = listed([f"{name} ({count:,})" for name, count in points.n_missing.items()])
            filled = "filled with the medians of their columns"
            done = filled if points.rows is None else f"{len(points.X):,} rows are left"
            remarks.append(f"missing cells in {counts}: {done}")
        return remarks

    def unused(self, *others: str | None, can_encode: bool = True) -> list[str]:
        """Remark on columns of words that are neither features nor asked for; `can_encode`: the command has ``--categorical``."""
        known = (*_no_features(self.options), *others, *self.left_out, INDEX)
        columns = {name: x for name, x in self.points.columns.items() if name not in known and not is_id(name)}
        if self.options.columns:
            return []
        texts = [name for name, x in columns.items() if _are_texts(x)]
        remarks = (
            [f"not used: {listed(texts)} (texts); they need numbers first, such as their embeddings"] if texts else []
        )
        if not (columns := {name: x for name, x in columns.items() if name not in texts}):
            return remarks
        remark = f"not used: {listed(columns)} (not numeric)"
        n_distinct = {name: len(np.unique(x)) for name, x in columns.items()}
        if can_encode and (words := [name for name, count in n_distinct.items() if count <= MANY_CLASSES]):
            remark += f"; one-hot encoded with --categorical {quote(','.join(words[:3]))}"
        names_rows = [name for name, count in n_distinct.items() if count == len(self.points.X)]
        if names_rows and self.options.id_column is None and not any(map(is_id, self.points.columns)):
            remark += f"; rows are named by their number, or by a column with --sample-id {quote(names_rows[0])}"
        return [*remarks, remark]


def read_table(path: Path, options: ColumnOptions, *others: str, may_lack_numbers: bool = False) -> PointTable:
    """Read a table of points; the columns `others` are no features. `ValueError` names what is wrong."""
    as_choice("--missing", options.missing, MISSING)
    try:
        return _read_features(path, options, others)
    except NoNumbersError:
        if not may_lack_numbers:
            raise
        points = read_points(path, **_reading_arguments(options, *others, has_features=False))
        return PointTable(points, options, {})


def _read_features(path: Path, options: ColumnOptions, others: Sequence[str]) -> PointTable:
    """Read a table with columns of numbers, and leave out those that are no features."""
    columns, known = names_in(options.columns), (*_no_features(options), *others)
    if both := [name for name in columns if name in known]:
        raise ValueError(
            f"column {both[0]!r} cannot be a feature (--columns) and something else (--labels, --sample-id, --drop, --categorical)"
        )
    with advice_on_cells(columns):
        points = read_points(path, **_reading_arguments(options, *others))
    for name in () if columns else points.columns:
        if name not in known and (cell := _with_thousands(points.columns[name])) is not None:
            raise ValueError(
                f"{path}, column {name!r}: numbers such as '{cell}' have separators between thousands; write {_plain(cell)}, or leave the "
                f"column out with --drop {quote(name)}"
            )
    return _without_constants_and_codes(points, options)


def _reading_arguments(options: ColumnOptions, *others: str, has_features: bool = True) -> dict[str, Any]:
    """Arguments of :func:`bregmat.io.read_points` other than the file; the columns `others` are no features."""
    return {
        "exclude": [*dict.fromkeys((*_no_features(options), *others))],
        "features": (list(names_in(options.columns)) or None) if has_features else [],
        "missing": options.missing,
        "encoding": options.encoding,
    }


def _are_texts(values: Any) -> bool:
    """Whether the cells of a column are texts rather than names or categories: half of them are different and of several words."""
    cells = np.unique(np.asarray(values).astype(str))
    return 2 * sum(len(cell.split()) >= WORDS_OF_TEXT for cell in cells.tolist()) > len(values)


def _is_file(labels: str) -> bool:
    """Whether labels are in a file of their own."""
    return Path(labels).suffix.lower() == ".npy"


def _no_features(options: ColumnOptions) -> tuple[str, ...]:
    """The columns that the options say are not features."""
    labels = None if options.labels is None or _is_file(options.labels) else options.labels
    return tuple(name for name in (labels, options.id_column, *(options.drop or ())) if name is not None)


@contextmanager
def advice_on_cells(columns: Sequence[str] = ()) -> Iterator[None]:
    """Say which options help after an error about a cell that is not a number; `columns` are those that were asked for."""
    try:
        yield
    except CellError as error:
        raise ValueError(f"{error.problem}{_advice(error, columns)}") from error


def _advice(error: CellError, columns: Sequence[str]) -> str:
    if error.cell in MISSING_CELLS:
        return "; --missing drop leaves out such rows, --missing median fills such cells"
    if is_number_word(error.cell):  # an infinite one
        return "; write a finite number, or leave the cell empty and give --missing drop or --missing median"
    if _THOUSANDS.fullmatch(error.cell):
        return f"; separators between thousands are not read: write {_plain(error.cell)}"
    if error.column not in columns:
        return ""
    return f"; leave out a column of words here and give it to --categorical {quote(error.column)}"


def _with_thousands(values: Any) -> str | None:
    """The first number with separators between thousands in a column of words that are all numbers; None if there is none."""
    cells = [cell for cell in np.asarray(values).tolist() if cell not in NOT_AVAILABLE]
    if not all(isinstance(cell, str) and (_NUMBER.fullmatch(cell) or _THOUSANDS.fullmatch(cell)) for cell in cells):
        return None
    return next((cell for cell in cells if _THOUSANDS.fullmatch(cell)), None)


def _plain(number: str) -> str:
    """A number without separators between thousands, which are equal to the first separator in it."""
    return number.replace("." if "," not in number.partition(".")[0] else ",", "")


def _without_constants_and_codes(points: Points, options: ColumnOptions) -> PointTable:
    """Leave out columns that carry no distances, unless they are asked for."""
    if points.table is None or options.columns:
        return PointTable(points, options, {})
    kept = names_in(options.keep)
    tables.require_columns(points.table.path, kept, points.names)
    found = {name: why_not_used(name, x) for name, x in zip(points.names, points.X.T) if name not in kept}
    left_out = {name: why for name, why in found.items() if why is not None}
    names = tuple(name for name in points.names if name not in left_out)
    if not names:
        reasons = listed([f"{name} ({why})" for name, why in left_out.items()])
        raise NoNumbersError(f"{points.table.path}: no feature is left; left out were {reasons}")
    if left_out:
        X = dict(zip(points.names, points.X.T))
        others = {name: X[name] for name in left_out}
        X_left = points.X[:, [points.names.index(name) for name in names]]
        points = replace(points, X=X_left, names=names, columns=points.columns | others)
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


def find_categories(points: Points, columns: Sequence[str]) -> dict[str, list[str]]:
    """Find the categories of some columns; `ValueError` names a column with too many or too few."""
    found = {name: sorted({*_words(points, name).tolist()} - {*NOT_AVAILABLE}) for name in columns}
    for name, values in found.items():
        if not 2 <= len(values) <= MOST_CATEGORIES:
            raise ValueError(
                f"--categorical {name}: the column has {len(values):,} categories; 2 to {MOST_CATEGORIES} can be encoded"
            )
    return found


def encoded(points: Points, categories: Mapping[str, Sequence[str]]) -> tuple[np.ndarray, list[str]]:
    """Return one feature of 0 and 1 for each category, (n, k), and their names. A missing or unknown category is 0 in all."""
    blocks = [_words(points, name)[:, None] == np.array(values, str) for name, values in categories.items()]
    names = [f"{name}={value}" for name, values in categories.items() for value in values]
    return np.hstack([np.empty((len(points.X), 0)), *blocks]), names


def _words(points: Points, name: str) -> np.ndarray:
    """A column as words."""
    if name not in points.columns:
        raise ValueError(f"--categorical: no column {name!r}; a .npy file has no named columns")
    return np.asarray(points.columns[name]).astype(str)


def find_sample_ids(points: Points, id_column: str | None) -> tuple[str | None, np.ndarray | None]:
    """Find the column that names the rows, and its values: `id_column`, or a column "id" or "sample_id"; None for row numbers.

    The column without a name that pandas writes names the rows if its cells differ. Its name is "index" here, and also "" as an option.
    """
    name = id_column or next((column for column in points.columns if is_id(column)), None)
    index = points.columns[INDEX] if points.table is not None and has_index(points.table) else None
    if id_column == "" or (name is None and index is not None and len(np.unique(index)) == len(index)):
        name = INDEX
    return name, None if name is None else parse_sample_ids(points.columns[name])


def find_labels(values: Any, n: int, name: str, unlabeled: str | None) -> np.ndarray:
    """Turn labels into class numbers, or keep them as values, by the same rule as :class:`bregmat.MetricLearner`.

    Classes are numbered 0, 1, ... by first appearance, -1 without a label. Numbers that are not all whole are values, NaN
    without a label. The label `unlabeled` means "not known", as empty cells and NaN do. Messages use the name.
    """
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"labels {name!r} have shape {values.shape}, but there are {n} points")
    words = values.astype(str)
    missing = np.isin(words, [*NOT_AVAILABLE, *([] if unlabeled is None else [unlabeled])])
    try:
        y: np.ndarray = np.full(n, np.nan)
        y[~missing] = words[~missing].astype(float)
        if unlabeled is not None and is_number_word(unlabeled):
            y[y == float(unlabeled)] = np.nan
    except ValueError:
        y = words.astype(object)
        y[missing] = None
    is_number = y.dtype.kind == "f"
    if is_number and np.isinf(y).any():
        raise ValueError(f"labels {name!r} must be finite; see {rows_text(np.flatnonzero(np.isinf(y)))}")
    codes = y if is_number and are_numbers(y) else label_codes(y, unlabeled=None)
    if (np.isnan(codes) if codes is y else codes < 0).all():
        raise ValueError(f"labels {name!r}: no row has a label")
    return codes


def class_names(values: Any, codes: np.ndarray) -> tuple[Any, ...]:
    """Names of the classes 0, 1, ... in the file: whole numbers if all are, else words."""
    first = [int(np.argmax(codes == code)) for code in range(int(codes.max(initial=-1)) + 1)]
    names = [str(np.asarray(values)[row]) for row in first]
    try:
        return tuple(int(float(name)) for name in names)
    except (ValueError, OverflowError):
        return tuple(names)


def label_remarks(labels: np.ndarray, name: str, classes: Sequence[Any], unlabeled: str | None) -> list[str]:
    """Remarks on labels as :func:`find_labels` returns them, and on the names of their classes."""
    n, said = len(labels), []
    if -1 in classes and unlabeled is None:
        said.append(f"labels {name!r}: -1 is a class; if it means 'not known', give --unlabeled -1")
    n_known = int((labels >= 0).sum())
    if labels.dtype.kind == "f":
        n_known = int(np.isfinite(labels).sum())
        said.append(f"labels {name!r} are numbers that are not all whole: values, not classes")
    elif (n_classes := int(labels.max()) + 1) > max(MANY_CLASSES, n_known // 4):
        said.append(
            f"labels {name!r} are {n_classes:,} classes of {n_known:,} points; whole numbers are classes. If they are values, "
            "make some of them not whole, for example by a division by 10"
        )
    return [*said, f"{n - n_known:,} of {n:,} rows have no label"] if n_known < n else said
