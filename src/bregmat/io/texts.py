"""Text tables: detection of encoding, delimiter and header for pandas, and locations of rows for error messages."""

import codecs
import csv
import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.constraints.columns import is_number_word
from bregmat.io.paths import kind_of, opened_text, require_distinct

SHOWN = 20  # first lines, from which delimiter, header and decimal comma are detected
LONGEST = 2**26  # maximum number of characters of one of these lines
NOT_AVAILABLE = (  # cells that pandas reads as missing
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "#N/A N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
MISSING = (*NOT_AVAILABLE, "?")  # in columns of numbers; "?" is used by the UCI repository


def pandas_package() -> Any:
    """The module pandas, or ImportError with the command that installs it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError('tables are read with pandas: pip install "bregmat[cli]"') from error
    return pandas


@dataclass(frozen=True, eq=False)
class Text:
    """A text table: its encoding, delimiter, decimal point, and names of columns."""

    path: Path
    encoding: str
    delimiter: str
    decimal: str = "."
    names: list[str] = field(default_factory=list)
    has_header: bool = True

    @classmethod
    def of(cls, path: Path, has_header: bool | None = None, encoding: str | None = None) -> "Text":
        """Detect the format from the first lines; by default, a first line without numbers is a header."""
        encoding = "utf-8" if encoding is None else encoding
        lines = _first_lines(path, encoding)
        if not lines:
            raise ValueError(f"{path}: the file is empty")
        delimiter = "\t" if kind_of(path) == ".tsv" else _delimiter_of(lines)
        rows = _cells(lines, delimiter)
        if not rows:
            raise ValueError(f"{path}: the first line cannot be read as a row of a table")
        has_comma = delimiter != "," and any(_has_decimal_comma(cell) for row in rows for cell in row)
        decimal = "," if has_comma else "."
        if has_header is None:
            has_header = not any(is_number_word(cell.replace(decimal, ".")) for cell in rows[0])
        names = rows[0] if has_header else [f"x{k}" for k in range(len(rows[0]))]
        require_distinct(path, names)
        return cls(path, encoding, delimiter, decimal, names, has_header)

    # ------------------------------------------------------------------ reading by pandas
    def columns(self, is_word: Callable[[str], bool], *, may_be_short: bool = False) -> dict[str, np.ndarray]:
        """All columns, of numbers or words; the cells of columns for which ``is_word(name)`` holds are not converted."""
        words = [name for name in self.names if is_word(name)]
        missing = {name: list(MISSING) for name in self.names if name not in words}
        pandas, errors = pandas_package(), pandas_package().errors
        # since version 3.1, pandas reads all numbers exactly
        is_exact = tuple(int(part) for part in pandas.__version__.split(".")[:2]) >= (3, 1)
        try:
            with warnings.catch_warnings(), opened_text(self.path, self.encoding) as text:
                warnings.simplefilter("error", errors.ParserWarning)
                frame = pandas.read_csv(
                    text,
                    sep=self.delimiter,
                    decimal=self.decimal,
                    header=0 if self.has_header else None,
                    names=self.names,
                    index_col=False,
                    skipinitialspace=True,
                    dtype=dict.fromkeys(words, str),
                    na_values=missing,
                    keep_default_na=False,
                    low_memory=False,
                    **({} if is_exact else {"float_precision": "round_trip"}),
                )
        except (errors.ParserWarning, errors.ParserError, errors.EmptyDataError) as error:
            self._refuse_rows(operator.gt)
            said = str(error).rpartition("C error: ")[2].strip()
            raise ValueError(f"{self.path}: cannot be read as a table: {said}") from error
        except (OverflowError, MemoryError) as error:
            raise ValueError(f"{self.path}: cannot be read as a table ({error})") from error
        if frame.empty:
            raise ValueError(f"{self.path}: a header line, but no rows")
        last = frame[self.names[-1]]
        if not may_be_short and (last.isna() | (last.astype(object) == "")).any():  # as in a short row
            self._refuse_rows(operator.lt)
        return {name: _column(frame[name]) for name in self.names}

    # ------------------------------------------------------------------ locations of rows
    @contextmanager
    def _rows(self) -> Iterator[Any]:
        """Pairs (line, cells) of all rows including the header, without blank lines, as pandas counts rows."""
        with opened_text(self.path, self.encoding) as text:
            reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True)
            try:
                yield ((reader.line_num, cells) for cells in reader if len(cells) > 1 or (cells and cells[0].strip()))
            except csv.Error as error:
                raise ValueError(f"{self.path}, line {reader.line_num}: {error}") from error

    @cached_property
    def lines(self) -> list[int]:
        """The line number of each row; computed when a message needs it."""
        with self._rows() as rows:
            return [line for line, _ in islice(rows, int(self.has_header), None)]

    def _refuse_rows(self, is_wrong: Callable[[int, int], bool]) -> None:
        """Raise for the first row whose number of cells is wrong beside that of the first line."""
        n = len(self.names)
        with self._rows() as rows:
            for line, cells in rows:
                if is_wrong(len(cells), n):
                    raise ValueError(f"{self.path}, line {line}: {len(cells)} cells, and the first line has {n}")

    def cell(self, row: int, name: str) -> str:
        """The text of a cell; empty if the row is too short."""
        with self._rows() as rows:
            _, cells = next(islice(rows, row + self.has_header, None), (0, []))
            column = self.names.index(name)
            return str(cells[column]).strip() if column < len(cells) else ""

    def hint(self, cell: str) -> str:
        """Advice for a cell with an unexpected decimal comma; else empty."""
        if self.delimiter == "," or self.decimal == "," or not _has_decimal_comma(cell):
            return ""
        return f"; decimal commas are recognised by the first {SHOWN} lines: write them there, too, or write points"


def _first_lines(path: Path, encoding: str) -> list[str]:
    """The first `SHOWN` lines that are not blank."""
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ValueError(f"encoding {encoding!r} is not known.") from error
    lines: list[str] = []
    with opened_text(path, encoding) as text:
        while len(lines) < SHOWN and (line := text.readline(LONGEST)):
            if len(line) == LONGEST:
                raise ValueError(f"{path}: no table of text, a line has {LONGEST} characters or more")
            lines += [line] if line.strip() else []
    return lines


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    """Stripped cells of lines; empty if they cannot be read."""
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
    except csv.Error:
        return []


def _delimiter_of(lines: list[str]) -> str:
    """The first of tab, semicolon, bar and comma that splits all lines into equally many cells; else the most frequent one."""
    for delimiter in "\t;|,":
        widths = {len(cells) for cells in _cells(lines, delimiter)}
        if len(widths) == 1 and widths != {1}:
            return delimiter
    return max(",;\t|", key=lines[0].count)


def _has_decimal_comma(cell: str) -> bool:
    return "," in cell and is_number_word(cell.replace(",", "."))


def _column(series: Any) -> np.ndarray:
    """A column of numbers, with NaN for missing cells, or of stripped words, with "" for missing cells."""
    if series.dtype.kind in "biuf":
        return np.asarray(series.to_numpy())
    words = [word if isinstance(word, str) else "" if word != word else str(word) for word in series.astype(object)]
    return np.char.strip(np.array(words, dtype=str))
