"""Points from .csv, .parquet and .npy, and back."""

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.io.paths import atomic_write

__all__ = ["Points", "read_points", "write_points"]

SUFFIXES = (".csv", ".parquet", ".npy")
_ID_NAMES = ("id", "sample_id")
_INDEX_NAMES = ("", "__index_level_0__")  # what pandas writes for an unnamed index


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
    path: str | os.PathLike, *, exclude: Iterable[str] = (), features: Sequence[str] | None = None
) -> Points:
    """Read points from a file.

    Parameters
    ----------
    path : path
        .csv (comma, semicolon or tab; with or without a header line), .parquet, or .npy (2-D, memory-mapped).
        A column of true and false becomes 1 and 0.
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
    """
    path = Path(path)
    exclude = tuple(exclude)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: cannot read points from {suffix or 'a file without ending'}; use {', '.join(SUFFIXES)}"
        )
    if suffix == ".npy":
        return _from_npy(path, exclude, features)
    columns: dict[str, Any]
    if suffix == ".csv":
        header, cells, lines = read_csv(path)
        if header is None:
            header = [f"x{k}" for k in range(len(cells))]
        columns = dict(zip(header, cells))
        place = _Place(path, lines)
    else:
        columns = read_parquet(path)
        place = _Place(path, None)
    return _split(place, columns, exclude, features)


def write_points(
    path: str | os.PathLike, X: np.ndarray, *, names: Sequence[str], columns: dict[str, np.ndarray] | None = None
) -> None:
    """Write points where `read_points` can read them; `columns` (words, ids) come first and are left out of .npy."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: cannot write points to {suffix or 'a file without ending'}; use {', '.join(SUFFIXES)}"
        )
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != len(names):
        raise ValueError(f"X must have shape (n, {len(names)}) to match names; got {X.shape}")
    columns = columns or {}
    with atomic_write(path) as handle:
        if suffix == ".npy":
            np.lib.format.write_array(handle, X, allow_pickle=False)
        elif suffix == ".csv":
            table = [*(values.tolist() for values in columns.values()), *X.T.tolist()]
            write_csv(handle, [*columns, *names], table)
        else:
            write_parquet(handle, {**columns, **{name: X[:, k] for k, name in enumerate(names)}})


@dataclass(frozen=True)
class _Place:
    """Where a row is, in words."""

    path: Path
    lines: list[int] | None

    def __call__(self, row: int) -> str:
        return f"{self.path}, line {self.lines[row]}" if self.lines is not None else f"{self.path}, row {row}"


def _split(place: _Place, columns: dict[str, Any], exclude: tuple[str, ...], features: Sequence[str] | None) -> Points:
    unknown = [name for name in (*exclude, *(features or ())) if name not in columns]
    if unknown:
        raise ValueError(f"{place.path}: no column {unknown[0]!r}; the columns are {', '.join(map(repr, columns))}")
    wanted = set(features) if features is not None else None
    X: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    for name, values in columns.items():
        is_index = name.lower() in _ID_NAMES or name in _INDEX_NAMES
        if wanted is not None:
            numbers = _numbers(place, name, values, required=True) if name in wanted else None
        else:
            numbers = None if name in exclude or is_index else _numbers(place, name, values, required=False)
        if numbers is not None:
            X[name] = numbers
        else:
            others["index" if name in _INDEX_NAMES else name] = np.asarray(values)
    if not X:
        raise ValueError(
            f"{place.path}: no column of numbers to learn from; the columns are {', '.join(map(repr, columns))}"
        )
    order = tuple(features) if features is not None else tuple(X)
    return Points(np.column_stack([X[name] for name in order]), order, others, place.lines)


def _numbers(place: _Place, name: str, values: Any, *, required: bool) -> np.ndarray | None:
    """The column as finite float64; None for a column of words, that is one that does not begin with a number."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if (truth := _truth(values)) is not None:
            return truth
        row = next(k for k, value in enumerate(values) if not is_number(value))
        if row == 0 and not required and str(values[0]).strip():
            return None
        shown = repr(values[row]) if str(values[row]).strip() else "an empty cell"
        raise ValueError(f"{place(row)}, column {name!r}: {shown} is not a number") from error
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(f"{place(row)}, column {name!r}: {values[row]} is not finite")
    return numbers


def _truth(values: Any) -> np.ndarray | None:
    """1.0 and 0.0 for a column of "true" and "false"; None for any other."""
    words = np.char.lower(np.asarray(values).astype(str))
    is_true = words == "true"
    return is_true.astype(np.float64) if (is_true | (words == "false")).all() else None


def is_number(value: Any) -> bool:
    """Whether `value` reads as a float."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _from_npy(path: Path, exclude: tuple[str, ...], features: Sequence[str] | None) -> Points:
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a .npy file of numbers ({error})") from error
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        shape = f"shape {X.shape}, dtype {X.dtype}" if isinstance(X, np.ndarray) else "an archive"
        raise ValueError(f"{path}: points must be a 2-D array of numbers, one point per row; got {shape}")
    names = tuple(f"x{k}" for k in range(X.shape[1]))
    if exclude:
        raise ValueError(f"{path}: no column {exclude[0]!r}; a .npy file has no named columns")
    if features is not None and len(features) != X.shape[1]:
        raise ValueError(f"{path}: {X.shape[1]} columns, expected {len(features)}")
    return Points(X, tuple(features) if features is not None else names)


def read_csv(path: Path, *, has_header: bool | None = None) -> tuple[list[str] | None, list[list[str]], list[int]]:
    """Header (None if there is none), columns of stripped cells, and the line number of every row."""
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            first = handle.readline()
            handle.seek(0)
            reader = csv.reader(handle, delimiter=max(",;\t", key=first.count), skipinitialspace=True)
            for row in reader:
                if not row or (len(row) == 1 and not row[0].strip()):
                    continue
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8 ({error})") from error
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    if not rows:
        raise ValueError(f"{path}: the file is empty")
    for row, line in zip(rows, lines):
        if len(row) != len(rows[0]):
            raise ValueError(f"{path}, line {line}: {len(row)} cells, but line {lines[0]} has {len(rows[0])}")
    header = None
    if has_header or (has_header is None and _looks_like_header(rows)):
        header = rows.pop(0)
        lines.pop(0)
        repeated = [name for k, name in enumerate(header) if name in header[:k]]
        if repeated:
            raise ValueError(f"{path}: column {repeated[0]!r} occurs twice")
        if not rows:
            raise ValueError(f"{path}: a header line, but no rows")
    return header, [list(column) for column in zip(*rows)], lines


def _looks_like_header(rows: list[list[str]]) -> bool:
    """A first line without any number, or with a word above a number."""
    numeric = [is_number(cell) for cell in rows[0]]
    if not any(numeric) or len(rows) == 1:
        return not any(numeric)
    return any(is_number(below) and cell and not top for cell, top, below in zip(rows[0], numeric, rows[1]))


def write_csv(handle: Any, header: list[str], columns: list[list]) -> None:
    """Rows in UTF-8 to a binary stream; floats so that they read back to the same bits."""
    import io

    text = io.TextIOWrapper(handle, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns))
    text.flush()
    text.detach()


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('.parquet needs pyarrow: pip install "bregmat[frames]"') from error
    return pyarrow


def read_parquet(path: Path) -> dict[str, np.ndarray]:
    """Columns by name; numbers as NumPy arrays, words as strings, missing values as nan or ""."""
    pyarrow = _pyarrow()
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise ValueError(f"{path}: not a parquet file ({error})") from error
    if table.num_rows == 0:
        raise ValueError(f"{path}: no rows")
    columns = {}
    for name, column in zip(table.column_names, table.columns):
        kind = column.type
        if pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind):
            columns[name] = column.to_numpy()
        else:
            columns[name] = np.array(["" if value is None else str(value) for value in column.to_pylist()])
    return columns


def write_parquet(handle: Any, columns: dict[str, Any]) -> None:
    """Named columns to a binary stream."""
    pyarrow = _pyarrow()
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    pyarrow.parquet.write_table(table, handle)
