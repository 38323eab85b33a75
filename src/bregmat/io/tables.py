"""Tables as files: named columns from .csv, .parquet and .npy, and back; what is wrong is said with file, line and column."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, TextIO
from zipfile import BadZipFile

import numpy as np

from bregmat.io.paths import atomic_write

LARGE, EXPANDS = 2**30, 1000  # bytes, and times its size, that a .parquet file may unpack to, whichever is more
# what NumPy says of damaged headers and shapes, and zipfile of what it takes for an archive
NOT_NPY = (ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError, TokenError, BadZipFile)


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file, as words (.csv) or as arrays (.parquet), and the line of each row of a .csv file."""

    path: Path
    columns: Mapping[str, Any]
    lines: list[int] | None = None

    def where(self, row: int) -> str:
        """Where a row is: its line in a .csv file, else its number."""
        return f"line {self.lines[row]}" if self.lines is not None else f"row {row}"

    def place(self, row: int) -> str:
        """The file, and where the row is in it."""
        return f"{self.path}, {self.where(row)}"


def file_kind(path: str | os.PathLike[str], to_do: str, known: Sequence[str]) -> tuple[Path, str]:
    """Path and ending of a file that is among the `known` kinds; `to_do` is what cannot be done otherwise, "read points from"."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in known:
        listed = (", " if len(known) > 2 else " or ").join(known)
        raise ValueError(f"{path}: cannot {to_do} {kind or 'a file without ending'}; use {listed}")
    return path, kind


def require_columns(path: Path, wanted: Iterable[str], present: Iterable[str]) -> None:
    """Raise for the first column that the file does not have."""
    present = list(present)
    for name in wanted:
        if name not in present:
            raise ValueError(f"{path}: no column {name!r}; the columns are {', '.join(map(repr, present))}")


def is_number(value: Any) -> bool:
    """Whether `value` reads as a float."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def not_a_number(place: str, column: str, value: Any) -> ValueError:
    """The error of a cell in a column of numbers that is none."""
    shown = repr(value) if str(value).strip() else "an empty cell"
    return ValueError(f"{place}, column {column!r}: {shown} is not a number")


def read(path: Path, *, has_header: bool | None = None) -> Table:
    """All columns of a .csv (cells as stripped words) or .parquet file (numbers; words, where "" is a missing one).

    Without a header line, of which a .csv file is asked where `has_header` is None, columns are called "x0", "x1", ...
    """
    return _read_csv(path, has_header) if path.suffix.lower() == ".csv" else Table(path, _read_parquet(path))


def write(path: Path, columns: Mapping[str, Any]) -> None:
    """Named columns of equal length to .csv (floats so that they read back to the same bits) or .parquet."""
    with atomic_write(path) as handle:
        if path.suffix.lower() == ".csv":
            text = io.TextIOWrapper(handle, encoding="utf-8", newline="", write_through=True)
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values())))
            text.detach()
        else:
            pyarrow = _pyarrow()
            table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
            pyarrow.parquet.write_table(table, handle)


# ---------------------------------------------------------------- .npy
def read_npy(path: str | os.PathLike[str], *, mmap: bool = False) -> np.ndarray:
    """The array of a .npy file, read or mapped; nothing is unpickled."""
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except NOT_NPY as error:
        raise ValueError(f"{path}: not a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{path}: not a .npy file of numbers (an archive of several arrays)")
    return array


# ---------------------------------------------------------------- .csv
@contextmanager
def open_csv(path: Path) -> Iterator[TextIO]:
    """A file of text in UTF-8, with or without a mark at its beginning."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            yield handle
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8 ({error})") from error


def delimiter_of(line: str) -> str:
    """Comma, semicolon or tab, whichever a line has most."""
    return max(",;\t", key=line.count)


def _read_csv(path: Path, has_header: bool | None) -> Table:
    rows: list[list[str]] = []
    lines: list[int] = []
    with open_csv(path) as handle:
        first = handle.readline()
        handle.seek(0)
        reader = csv.reader(handle, delimiter=delimiter_of(first), skipinitialspace=True)
        try:
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    rows.append([cell.strip() for cell in row])
                    lines.append(reader.line_num)
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    if not rows:
        raise ValueError(f"{path}: the file is empty")
    for row, line in zip(rows, lines):
        if len(row) != len(rows[0]):
            raise ValueError(f"{path}, line {line}: {len(row)} cells, but line {lines[0]} has {len(rows[0])}")
    header = [f"x{k}" for k in range(len(rows[0]))]
    if has_header or (has_header is None and _looks_like_header(rows)):
        header, rows, lines = rows[0], rows[1:], lines[1:]
        if repeated := [name for k, name in enumerate(header) if name in header[:k]]:
            raise ValueError(f"{path}: column {repeated[0]!r} occurs twice")
        if not rows:
            raise ValueError(f"{path}: a header line, but no rows")
    return Table(path, {name: list(cells) for name, cells in zip(header, zip(*rows))}, lines)


def _looks_like_header(rows: list[list[str]]) -> bool:
    """A first line without any number, or with a word above a number and no number that could not be the name of a column."""
    numeric = [is_number(cell) for cell in rows[0]]
    if not any(numeric) or len(rows) == 1:
        return not any(numeric)
    names = [cell for cell, known in zip(rows[0], numeric) if known]
    if not all(name.isdigit() for name in names) or any(int(a) >= int(b) for a, b in zip(names, names[1:])):
        return False  # a row of data, the word in it a typo
    return any(is_number(below) and cell and not top for cell, top, below in zip(rows[0], numeric, rows[1]))


# ---------------------------------------------------------------- .parquet
def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('.parquet needs pyarrow: pip install "bregmat[frames]"') from error
    return pyarrow


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile``; ValueError where the file is none."""
    pyarrow = _pyarrow()
    path.open("rb").close()  # OSError that names a file which is not there
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        # pyarrow says OSError of damaged pages, MemoryError of sizes that cannot be
        raise ValueError(f"{path}: not a parquet file, or damaged ({error})") from error


def is_numeric(kind: Any) -> bool:
    """Whether a type of pyarrow is one of numbers (truths are none)."""
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind)


def _read_parquet(path: Path) -> dict[str, np.ndarray]:
    with open_parquet(path) as file:
        size = 8 * file.metadata.num_rows * file.metadata.num_columns
        if size > max(LARGE, EXPANDS * path.stat().st_size):
            raise ValueError(
                f"{path}: a file of {path.stat().st_size} bytes that unpacks to {size}: damaged, or a trap"
            )
        table = file.read()
    if table.num_rows == 0:
        raise ValueError(f"{path}: no rows")
    columns = {}
    for name, column in zip(table.column_names, table.columns):
        if is_numeric(column.type) or str(column.type) == "bool":
            columns[name] = column.to_numpy()
        else:
            columns[name] = np.array(["" if value is None else str(value) for value in column.to_pylist()])
    return columns
