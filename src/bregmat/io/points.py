"""Points from .csv, .parquet and .npy, and back."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.io import tables
from bregmat.io.paths import atomic_write

__all__ = ["Points", "read_points", "write_points"]

KINDS = (".csv", ".parquet", ".npy")
_INDEX_NAMES = ("", "__index_level_0__")  # what pandas writes for an unnamed index


def is_id(name: str) -> bool:
    """Whether a column of that name holds sample ids unless something else is said."""
    return name.lower() in ("id", "sample_id")


@dataclass(frozen=True, eq=False)
class Points:
    """Numeric columns as a matrix, everything else by name.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Features; a read-only memory map for .npy, float64 otherwise.
    names : tuple of str
        Feature names; "x0", "x1", ... where the file has none.
    columns : dict of str -> ndarray of shape (n,)
        Columns that are no features: words, sample ids, and those asked for by `exclude`. Words are strings.
    lines : list of int of length n, optional
        Line of each row in a .csv file.
    """

    X: np.ndarray
    names: tuple[str, ...]
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    lines: list[int] | None = None


def read_points(
    path: str | os.PathLike[str], *, exclude: Iterable[str] = (), features: Sequence[str] | None = None
) -> Points:
    """Read points from a file.

    Parameters
    ----------
    path : path
        .csv (comma, semicolon or tab; with or without a header line), .parquet, or .npy (2-D, memory-mapped).
        A column of true and false becomes 1 and 0. A column is one of words where more of its cells are words than numbers;
        else the first word in it is an error.
    exclude : iterable of str
        Numeric columns that are no features (labels, sample ids). Always excluded: columns of words, columns named "id"
        or "sample_id", and the unnamed index column that pandas writes.
    features : sequence of str, optional
        Take exactly these columns, in this order (the ones a model was learned on).

    Returns
    -------
    Points

    Raises
    ------
    ValueError
        Unknown ending, ragged rows, a cell that is not a finite number in a column of numbers, no rows, no features, an
        unknown column; with file, line (or row) and column.
    ImportError
        .parquet without pyarrow.

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
    path, kind = tables.file_kind(path, "read points from", KINDS)
    exclude = tuple(exclude)
    if kind == ".npy":
        return _from_npy(path, exclude, features)
    return _split(tables.read(path), exclude, features)


def write_points(
    path: str | os.PathLike[str], X: np.ndarray, *, names: Sequence[str], columns: dict[str, np.ndarray] | None = None
) -> None:
    """Write points where `read_points` can read them.

    Parameters
    ----------
    path : path
        .csv, .parquet or .npy.
    X : array of shape (n, d)
    names : sequence of d str
        Names of the columns of X; not in .npy.
    columns : dict of str -> array of shape (n,), optional
        Columns of words or ids, which come first; not in .npy.
    """
    path, kind = tables.file_kind(path, "write points to", KINDS)
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != len(names):
        raise ValueError(f"X must have shape (n, {len(names)}) to match names; got {X.shape}")
    if kind == ".npy":
        with atomic_write(path) as handle:
            np.lib.format.write_array(handle, X, allow_pickle=False)
    else:
        tables.write(path, {**(columns or {}), **{name: X[:, k] for k, name in enumerate(names)}})


def _split(table: tables.Table, exclude: tuple[str, ...], features: Sequence[str] | None) -> Points:
    tables.require_columns(table.path, (*exclude, *(features or ())), table.columns)
    X: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    for name, values in table.columns.items():
        is_index = name in _INDEX_NAMES
        if features is not None:
            numbers = _numbers(table, name, required=True) if name in features else None
        else:
            numbers = None if name in exclude or is_index or is_id(name) else _numbers(table, name, required=False)
        if numbers is not None:
            X[name] = numbers
        else:
            others["index" if is_index else name] = np.asarray(values)
    if not X:
        listed = ", ".join(map(repr, table.columns))
        raise ValueError(f"{table.path}: no column of numbers to learn from; the columns are {listed}")
    order = tuple(features) if features is not None else tuple(X)
    return Points(np.column_stack([X[name] for name in order]), order, others, table.lines)


def _numbers(table: tables.Table, name: str, *, required: bool) -> np.ndarray | None:
    """The column as finite float64; None for a column of words, of which more cells are words than numbers."""
    values = table.columns[name]
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if (truth := _truth(values)) is not None:
            return truth
        words = [row for row, value in enumerate(values) if not tables.is_number(value)]
        written = sum(bool(str(values[row]).strip()) for row in words)
        if not required and written > len(values) - len(words):
            return None
        row = next((row for row in words if str(values[row]).strip()), words[0])
        raise tables.not_a_number(table.place(row), name, values[row]) from error
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(f"{table.place(row)}, column {name!r}: {values[row]} is not finite")
    return numbers


def _truth(values: Any) -> np.ndarray | None:
    """1.0 and 0.0 for a column of "true" and "false"; None for any other."""
    words = np.char.lower(np.asarray(values).astype(str))
    is_true = words == "true"
    return is_true.astype(np.float64) if (is_true | (words == "false")).all() else None


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
