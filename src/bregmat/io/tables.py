"""Reading and writing of tables with named columns (.csv, .tsv, .parquet, .npy) by pandas, pyarrow and NumPy."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

from bregmat.base.checks import similar_name
from bregmat.io.paths import PACKED, TABLES, TEXT, atomic_write, check_readable, kind_of, known_path, require_distinct
from bregmat.io.texts import Text, pandas_package

# A columnar file may decompress to at most LARGE bytes or EXPANDS times its size, whichever is larger.
LARGE, EXPANDS = 2**30, 1000
# Errors of NumPy for damaged headers and shapes, and of zipfile for damaged archives.
NOT_NPY = (ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError, TokenError, BadZipFile)


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file: arrays of numbers and arrays of words. A missing cell is NaN or the empty word."""

    path: Path
    columns: Mapping[str, Any]
    text: Text | None = None  # of a text file, to locate lines and cells

    @property
    def has_decimal_commas(self) -> bool:
        """Whether the numbers in the file have decimal commas."""
        return self.text is not None and self.text.decimal == ","

    def where(self, row: int) -> str:
        """The line of a row in a text file, otherwise its number."""
        return f"row {row}" if self.text is None else f"line {self.text.lines[row]}"

    def place(self, row: int) -> str:
        """The file and the line or number of a row."""
        return f"{self.path}, {self.where(row)}"

    def cell(self, row: int, name: str) -> str:
        """The text of a cell in the file."""
        return str(self.columns[name][row]) if self.text is None else self.text.cell(row, name)

    def bad_cell(self, row: int, name: str, what: str | None = None) -> "CellError":
        """The error for a cell of a column of numbers that holds no finite number."""
        cell = self.cell(row, name)
        if what is None:
            what = "is not finite" if _is_infinite(cell) else "is not a number"
        hint = "" if self.text is None else self.text.hint(cell)
        return CellError(self.place(row), name, cell, f"{what}{hint}")

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A column as float64 with NaN for missing cells and words, and the mask of words."""
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return values.astype(np.float64), np.zeros(len(values), bool)
        words = pandas_package().Series(values, dtype=object)
        if self.has_decimal_commas:
            words = words.str.replace(",", ".", regex=False)
        numbers = pandas_package().to_numeric(words, errors="coerce").to_numpy(dtype=np.float64)
        return numbers, np.isnan(numbers) & (values != "")


def require_columns(path: Path, wanted: Iterable[str], present: Iterable[str]) -> None:
    """Raise ValueError for the first wanted column that the file does not have."""
    present = list(present)
    for name in wanted:
        if name not in present:
            like = similar_name(name, present)
            columns = f"columns are {', '.join(map(repr, present))}"
            raise ValueError(f"{path}: no column {name!r}{f'{like} The' if like else '; the'} {columns}")


def _is_infinite(cell: str) -> bool:
    """Whether a cell is a number beyond all floats, such as 1e999, which versions of pandas read as infinity or as a word."""
    try:
        return bool(np.isinf(float(cell)))
    except ValueError:
        return False


class CellError(ValueError):
    """A cell that holds no finite number where one is needed; `problem` is the message without the advice."""

    def __init__(self, place: str, column: str, cell: Any, what: str = "is not a number", advice: str = "") -> None:
        shown = repr(cell) if str(cell).strip() else "an empty cell"
        self.column, self.cell, self.problem = column, str(cell), f"{place}, column {column!r}: {shown} {what}"
        super().__init__(f"{self.problem}{advice}")


def read(
    path: Path,
    *,
    has_header: bool | None = None,
    is_word: Callable[[str], bool] = lambda name: False,
    encoding: str | None = None,
    may_be_short: bool = False,
) -> Table:
    """All columns of a table.

    Parameters
    ----------
    path : Path
    has_header : bool, optional
        Whether a file of text has one; by default, if the first line holds no number. Otherwise the columns are "x0", "x1", ...
    is_word : callable
        Whether a column of a file of text, by its name, holds words, which are kept as they stand ("NA", "007").
    encoding : str, optional
        Of a file of text; by default UTF-8.
    may_be_short : bool
        Whether rows of a file of text may have fewer cells than the first line; those at the end are missing then.
    """
    if kind_of(path) not in TEXT:
        return Table(path, _read_parquet(path))
    text = Text.of(path, has_header, encoding)
    return Table(path, text.columns(is_word, may_be_short=may_be_short), text)


def column_names(path: Path, encoding: str | None = None) -> list[str]:
    """Names of the columns of a table; a .npy file has none."""
    if kind_of(path) in TEXT:
        return Text.of(path, None, encoding).names
    if kind_of(path) == ".parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    return []


def write(path: Path, columns: Mapping[str, Any], *, has_decimal_commas: bool = False) -> None:
    """Write named columns of equal length; floats are read back to the same bits. With decimal commas, semicolons separate cells."""
    kind = kind_of(known_path(path, "write a table to", TABLES))
    with atomic_write(path) as handle:
        if kind in TEXT:
            packed = {"method": "gzip", "mtime": 0} if path.suffix.lower() == PACKED else None
            delimiter, decimal = (";", ",") if has_decimal_commas else (",", ".")
            frame = pandas_package().DataFrame(dict(columns))
            frame.to_csv(
                handle,
                sep="\t" if kind == ".tsv" else delimiter,
                decimal=decimal,
                index=False,
                lineterminator="\n",
                encoding="utf-8",
                compression=packed,
            )
        else:
            pyarrow = _pyarrow()
            table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
            pyarrow.parquet.write_table(table, handle)


# ---------------------------------------------------------------- .npy
def read_npy(path: str | os.PathLike[str], *, mmap: bool = False) -> np.ndarray:
    """The array of a .npy file, read or mapped; nothing is unpickled."""
    check_readable(Path(path))
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except NOT_NPY as error:
        raise ValueError(f"{path}: not a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{path}: not a .npy file of numbers (an archive of several arrays)")
    return array


# ---------------------------------------------------------------- .parquet
def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('.parquet needs pyarrow: pip install "bregmat[frames]"') from error
    return pyarrow


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetFile``; ValueError for what pyarrow raises while it is open, because the file is damaged."""
    check_readable(path)
    pyarrow = _pyarrow()
    with path.open("rb") as handle:
        try:
            with pyarrow.parquet.ParquetFile(handle) as file:
                require_distinct(path, file.schema_arrow.names)
                yield file
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
            # pyarrow raises OSError for damaged pages and MemoryError for impossible sizes
            raise ValueError(f"{path}: not a parquet file, or damaged ({error})") from error


def is_numeric(kind: Any) -> bool:
    """Whether a type of pyarrow is one of numbers; booleans are not."""
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind)


def _read_parquet(path: Path) -> dict[str, np.ndarray]:
    with open_parquet(path) as file:
        n, size = file.metadata.num_rows, 8 * file.metadata.num_rows * file.metadata.num_columns
        if size > max(LARGE, EXPANDS * (packed := path.stat().st_size)):
            what = f"a file of {packed} bytes that decompresses to {size}"
            raise ValueError(f"{path}: {what}: it is damaged or malicious")
        if n == 0:
            raise ValueError(f"{path}: no rows")
        table, columns = file.read(), {}
        for name, column in zip(table.column_names, table.columns):
            if is_numeric(column.type) or str(column.type) == "bool":
                columns[name] = column.to_numpy()
            else:
                columns[name] = np.array(["" if value is None else str(value) for value in column.to_pylist()])
    return columns
