"""Reading and writing of points: selection of feature columns, and treatment of missing cells."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bregmat.base.checks import as_choice
from bregmat.io import tables
from bregmat.io.paths import TABLES, atomic_write, kind_of, known_path

__all__ = ["Points", "read_points", "write_points"]

KINDS = (*TABLES, ".npy")
MISSING = ("error", "drop", "median")
INDEX = "index"  # the name here of
_INDEX_NAMES = ("", "__index_level_0__")  # names that pandas writes for an unnamed index


def is_id(name: str) -> bool:
    """Whether a column of that name holds sample ids by default."""
    return name.lower() in ("id", "sample_id")


class NoNumbersError(ValueError):
    """A table has no column that can be a feature."""


@dataclass(frozen=True, eq=False)
class Points:
    """The features of a table as a matrix, and its other columns by name.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Features; a read-only memory map for .npy, float64 otherwise.
    names : tuple of str
        Feature names; "x0", "x1", ... where the file has none.
    columns : dict of str -> ndarray of shape (n,)
        Columns that are not features: words (as strings), sample ids, and those in `exclude`.
    rows : ndarray of int of shape (n,), optional
        Row numbers in the file, if rows were dropped.
    n_missing : dict of str -> int
        Number of missing cells of each feature that has any.
    medians : dict of str -> float
        The values that replace them if ``missing="median"``.
    """

    X: np.ndarray
    names: tuple[str, ...]
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    rows: np.ndarray | None = None
    n_missing: dict[str, int] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    table: tables.Table | None = field(default=None, repr=False)

    @property
    def has_decimal_commas(self) -> bool:
        """Whether the numbers in the file have decimal commas."""
        return self.table is not None and self.table.has_decimal_commas

    def where(self, row: int) -> str:
        """The line of a row in a text file, otherwise its row number."""
        row = row if self.rows is None else int(self.rows[row])
        return f"row {row}" if self.table is None else self.table.where(row)


def read_points(
    path: str | os.PathLike[str],
    *,
    exclude: Iterable[str] = (),
    features: Sequence[str] | None = None,
    missing: str = "error",
    medians: Mapping[str, float] | None = None,
    encoding: str | None = None,
) -> Points:
    """Read points from a file.

    Parameters
    ----------
    path : path
        .csv or .tsv (comma, semicolon, bar or tab; with or without a header line; also .csv.gz), .parquet, or .npy
        (2-D, memory-mapped). A first line without numbers is a header. A column of true and false becomes
        1 and 0. A column with more words than numbers is a column of words; in any other column, a word is an error. If cells are
        not separated by commas, numbers may have decimal commas, which must occur in the first 20 lines.
    exclude : iterable of str
        Numeric columns that are not features (labels, sample ids). Always excluded: columns of words, columns named "id"
        or "sample_id", and the unnamed index column that pandas writes.
    features : sequence of str, optional
        Use exactly these columns, in this order (for example, those of the training data of a model). An empty list reads a table
        without features.
    missing : {"error", "drop", "median"}
        Treatment of missing features (an empty cell, NA, NaN, null, None, "?"): raise an error that names the first such
        cell, drop the row, or use the median of the column. An infinite number is always an error.
    medians : mapping of str -> float, optional
        For "median": values to use instead of the medians of the file.
    encoding : str, optional
        Encoding of a text file; by default UTF-8.

    Returns
    -------
    Points

    Raises
    ------
    ValueError
        Unknown ending, a row that is too long, a cell of a column of numbers that is not a finite number, no rows, no features,
        an unknown column; the message names file, line (or row) and column.
    ImportError
        pandas is not installed; for .parquet, pyarrow.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bregmat.io import read_points
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "points.csv"
    ...     _ = path.write_text("height,width\\n1,2\\n3,4\\n")
    ...     read_points(path).X.shape
    (2, 2)
    """
    as_choice("missing", missing, MISSING)
    path = known_path(path, "read points from", KINDS)
    exclude = tuple(exclude)
    if kind_of(path) == ".npy":  # searched for missing cells only if these are to be replaced
        points = _from_npy(path, exclude, features)
        return points if missing == "error" else _complete(points, missing, medians)
    return _complete(_from_table(path, exclude, features, encoding), missing, medians)


def write_points(
    path: str | os.PathLike[str],
    X: np.ndarray,
    *,
    names: Sequence[str],
    columns: dict[str, np.ndarray] | None = None,
    has_decimal_commas: bool = False,
) -> None:
    """Write points to a file that `read_points` can read.

    Parameters
    ----------
    path : path
        .csv or .tsv (also .gz), .parquet or .npy.
    X : array of shape (n, d)
    names : sequence of d str
        Names of the columns of X; not in .npy.
    columns : dict of str -> array of shape (n,), optional
        Columns of words or ids, which come first; not in .npy.
    has_decimal_commas : bool
        Whether numbers in .csv and .tsv have decimal commas; semicolons separate the cells of .csv then.
    """
    path = known_path(path, "write points to", KINDS)
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != len(names):
        raise ValueError(f"X must have shape (n, {len(names)}) to match names; got {X.shape}")
    if kind_of(path) == ".npy":
        with atomic_write(path) as handle:
            np.lib.format.write_array(handle, X, allow_pickle=False)
    else:
        cells = {**(columns or {}), **{name: X[:, k] for k, name in enumerate(names)}}
        tables.write(path, cells, has_decimal_commas=has_decimal_commas)


def _is_other(name: str, exclude: Iterable[str]) -> bool:
    """Whether the name of a column says that it is not a feature."""
    return name in exclude or name in _INDEX_NAMES or is_id(name)


def has_index(table: tables.Table) -> bool:
    """Whether a table has the column without a name that pandas writes for an index; it is called "index" here."""
    return INDEX not in table.columns and any(name in _INDEX_NAMES for name in table.columns)


def _from_table(path: Path, exclude: tuple[str, ...], features: Sequence[str] | None, encoding: str | None) -> Points:
    """The columns of a table, with NaN for missing cells of features."""
    asked = tuple(features or ())
    table = tables.read(path, is_word=lambda name: name not in asked and _is_other(name, exclude), encoding=encoding)
    named = [name for name in (*exclude, *asked) if name not in (INDEX, *_INDEX_NAMES) or not has_index(table)]
    tables.require_columns(table.path, named, table.columns)
    X: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    for name, values in table.columns.items():
        is_wanted = name in asked if features is not None else not _is_other(name, exclude)
        numbers = _numbers(table, name, required=features is not None) if is_wanted else None
        if numbers is not None:
            X[name] = numbers
        else:
            others[INDEX if name in _INDEX_NAMES else name] = np.asarray(values)
    if not X and features is None:
        listed = ", ".join(map(repr, table.columns))
        raise NoNumbersError(f"{table.path}: no column of numbers to learn from; the columns are {listed}")
    order = asked or tuple(X)
    matrix = np.column_stack([np.empty((len(next(iter(table.columns.values()))), 0)), *(X[name] for name in order)])
    return Points(matrix, order, others, table=table)


def _numbers(table: tables.Table, name: str, *, required: bool) -> np.ndarray | None:
    """The column as float64, NaN where a cell is missing; None for a column with more words than numbers."""
    numbers, is_word = table.numbers(name)
    if is_word.any():
        words = np.char.lower(table.columns[name].astype(str))
        if np.isin(words, ("true", "false", "")).all():
            return np.where(words == "", np.nan, words == "true")
        if not required and 2 * is_word.sum() + np.isnan(numbers[~is_word]).sum() > len(numbers):
            return None
        raise table.bad_cell(int(np.flatnonzero(is_word)[0]), name)
    if np.isinf(numbers).any():
        raise table.bad_cell(int(np.flatnonzero(np.isinf(numbers))[0]), name)
    return numbers


def _complete(points: Points, missing: str, medians: Mapping[str, float] | None) -> Points:
    """Report, drop or replace missing cells."""
    absent = np.isnan(points.X)
    counts = {name: int(n) for name, n in zip(points.names, absent.sum(axis=0)) if n}
    if not counts:
        return points
    path = "the points" if points.table is None else points.table.path
    if missing == "error":
        assert points.table is not None
        name = next(iter(counts))
        row = int(np.flatnonzero(absent[:, points.names.index(name)])[0])
        advice = "; missing='drop' leaves out such rows, missing='median' fills such cells"
        raise tables.CellError(points.table.place(row), name, points.table.cell(row, name), advice=advice)
    if missing == "drop":
        rows = np.flatnonzero(~absent.any(axis=1))
        if not len(rows):
            emptiest = sorted(counts, key=lambda name: -counts[name])[:3]
            listed = ", ".join(f"{name!r} ({counts[name]})" for name in emptiest)
            raise ValueError(f"{path}: every row has a missing cell; columns with many: {listed}")
        columns = {name: values[rows] for name, values in points.columns.items()}
        return replace(points, X=points.X[rows], columns=columns, rows=rows, n_missing=counts)
    X, filled = np.array(points.X, dtype=np.float64), {}
    for name in counts:
        column, gaps = X[:, points.names.index(name)], absent[:, points.names.index(name)]
        if medians is not None and name in medians:
            filled[name] = float(medians[name])
        elif gaps.all():
            what = "no cell holds a number, so there is no median; leave the column out"
            raise ValueError(f"{path}, column {name!r}: {what}")
        else:
            filled[name] = float(np.median(column[~gaps]))
        column[gaps] = filled[name]
    return replace(points, X=X, n_missing=counts, medians=filled)


def _from_npy(path: Path, exclude: tuple[str, ...], features: Sequence[str] | None) -> Points:
    X = tables.read_npy(path, mmap=True)
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        got = f"shape {X.shape}, dtype {X.dtype}"
        raise ValueError(f"{path}: points must be a 2-D array of numbers, one point per row; got {got}")
    names = tuple(f"x{k}" for k in range(X.shape[1]))
    if exclude:
        raise ValueError(f"{path}: no column {exclude[0]!r}; a .npy file has no named columns")
    if features is not None and len(features) != X.shape[1]:
        raise ValueError(f"{path}: {X.shape[1]} columns, expected {len(features)}")
    return Points(X, tuple(features) if features is not None else names)
