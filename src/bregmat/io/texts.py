"""Tables of text, read by pandas: how cells are told apart, what columns are called, and where a row stands."""

import codecs
import csv
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.constraints.columns import is_number_word
from bregmat.io.sources import Source

# Bytes at the beginning of a text that its delimiter and header are told by; more where the first two lines are longer.
HEAD = 2**16
LONGEST = 2**26  # characters that the first two lines may have
SHOWN = 20  # lines that the delimiter and header are told by
NOT_AVAILABLE = (  # what pandas takes for a missing cell
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "#N/A N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
MISSING = (*NOT_AVAILABLE, "?")  # and the question mark of the UCI repository, which may be the name of a class


def pandas_package() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError('tables are read with pandas: pip install "bregmat[cli]"') from error
    return pandas


@dataclass(frozen=True, eq=False)
class Text:
    """A table of text: how its cells are told apart, and what its columns are called."""

    source: Source
    encoding: str
    delimiter: str
    names: list[str] = field(default_factory=list)
    has_header: bool = True

    @classmethod
    def of(cls, source: Source, has_header: bool | None = None, encoding: str | None = None) -> "Text":
        """What the beginning of a file tells."""
        encoding = _encoding_of(source) if encoding is None else encoding
        lines = _first_lines(source, encoding)
        if not lines:
            raise ValueError(f"{source.path}: the file is empty")
        delimiter = "\t" if source.kind == ".tsv" else _delimiter_of(lines)
        rows = _cells(lines, delimiter)
        if not rows:
            raise ValueError(f"{source.path}: the first line cannot be read as a row of a table")
        names = [f"x{k}" for k in range(len(rows[0]))]
        if has_header is None:
            has_header = _looks_like_header(rows, has_commas=delimiter != ",")
        if has_header:
            names = rows[0]
            if len(set(names)) < len(names):
                repeated = next(name for k, name in enumerate(names) if name in names[:k])
                raise ValueError(f"{source.path}: column {repeated!r} occurs twice")
        return cls(source, encoding, delimiter, names, bool(has_header))

    # ------------------------------------------------------------ all of it
    def columns(self, is_word: Callable[[str], bool]) -> dict[str, np.ndarray]:
        """Columns of numbers and of words; those of which `is_word` is true as they stand."""
        words = [name for name in self.names if is_word(name)]
        missing = {name: list(MISSING) for name in self.names if name not in words}
        with self.source.open() as handle, self._errors():
            frame = self._read(handle, dtype=dict.fromkeys(words, str), na_values=missing)
        if frame.empty:
            raise ValueError(f"{self.source.path}: a header line, but no rows")
        columns = {name: self._column(frame[name]) for name in self.names}
        last = columns[self.names[-1]]
        if (np.isnan(last) if last.dtype.kind == "f" else last == "").any():
            self.check_rows()
        return columns

    def chunks(self, size: int, wanted: Sequence[str]) -> Iterator[Any]:
        """Some columns as data frames of so many rows; cells that are no numbers as they stand."""
        with self.source.open() as handle:
            with self._errors():
                frames = self._read(handle, chunksize=size, usecols=list(wanted))
            while True:
                with self._errors():
                    frame = next(frames, None)
                if frame is None:
                    return
                yield frame

    def _read(self, handle: Any, **more: Any) -> Any:
        # from 3.1 on every number is read to the last bit
        exact = {} if _version(pandas_package()) >= (3, 1) else {"float_precision": "round_trip"}
        return pandas_package().read_csv(
            handle,
            sep=self.delimiter,
            header=0 if self.has_header else None,
            names=self.names,
            index_col=False,
            skipinitialspace=True,
            encoding=self.encoding,
            keep_default_na=False,
            low_memory=False,
            **exact,
            **more,
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What pandas says of a table, with the file and the line."""
        errors = pandas_package().errors
        with warnings.catch_warnings():
            warnings.simplefilter("error", errors.ParserWarning)
            try:
                yield
            except UnicodeDecodeError as error:
                raise self._not_text(error) from error
            except (errors.ParserError, errors.EmptyDataError, errors.ParserWarning) as error:
                self.check_rows()
                raise ValueError(f"{self.source.path}: {str(error).strip()}") from error
            except (OverflowError, MemoryError) as error:
                raise ValueError(f"{self.source.path}: cannot be read as a table ({error})") from error

    def _not_text(self, error: Exception) -> ValueError:
        name = "UTF-8" if self.encoding == "utf-8" else self.encoding
        hint = "; if it is in another encoding, say so: encoding='cp1252'" if name == "UTF-8" else ""
        return ValueError(f"{self.source.path}: not a text file in {name} ({error}){hint}")

    def _column(self, series: Any) -> np.ndarray:
        if series.dtype.kind in "biuf":
            return np.asarray(series.to_numpy())
        words = [word if isinstance(word, str) else "" if word != word else str(word) for word in series.astype(object)]
        return np.char.strip(np.array(words, dtype=str))

    # ------------------------------------------------------------ its lines
    @contextmanager
    def _rows(self) -> Iterator[Any]:
        """Pairs (line, cells) of the rows, the header among them."""
        with self.source.open() as handle:
            text = io.TextIOWrapper(handle, encoding=_with_mark(self.encoding), newline="")
            reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True)
            try:
                yield ((reader.line_num, cells) for cells in reader if len(cells) > 1 or (cells and cells[0].strip()))
            except csv.Error as error:
                raise ValueError(f"{self.source.path}, line {reader.line_num}: {error}") from error
            except UnicodeDecodeError as error:
                raise self._not_text(error) from error
            finally:
                text.detach()

    @cached_property
    def lines(self) -> list[int]:
        """Line of each row; counted when a message asks."""
        with self._rows() as rows:
            return [line for line, _ in islice(rows, int(self.has_header), None)]

    def cell(self, row: int, name: str) -> str:
        """What stands in a cell."""
        with self._rows() as rows:
            _, cells = next(islice(rows, row + self.has_header, None), (0, []))
            return cells[self.names.index(name)].strip() if len(cells) == len(self.names) else ""

    def check_rows(self) -> None:
        """Raise for a row that has more or fewer cells than the first; pandas fills up short ones, which shows in the last column."""
        with self._rows() as rows:
            first, names = next(rows)
            for line, cells in rows:
                if len(cells) != len(names):
                    raise ValueError(
                        f"{self.source.path}, line {line}: {len(cells)} cells, but line {first} has {len(names)}"
                    )


def _version(package: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in package.__version__.split(".")[:2])


def _encoding_of(source: Source) -> str:
    """What a mark at the beginning says, else UTF-8."""
    with source.open() as handle:
        head = handle.read(4)
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _with_mark(encoding: str) -> str:
    return "utf-8-sig" if encoding == "utf-8" else encoding


def _first_lines(source: Source, encoding: str) -> list[str]:
    """The first lines that are not blank, whole ones: at least two, where there are as many."""
    try:
        decoder = codecs.getincrementaldecoder(_with_mark(encoding))()
    except LookupError as error:
        raise ValueError(f"encoding {encoding!r} is not known.") from error
    text, is_all = "", False
    lines: list[str] = []
    with source.open() as handle:
        while not is_all and len(lines) < 3:  # the last one may be cut off
            if len(text) > LONGEST:
                raise ValueError(
                    f"{source.path}: no table of text, the first two lines have more than {LONGEST} characters"
                )
            wanted = max(HEAD, len(text))
            part = handle.read(wanted)
            is_all = len(part) < wanted
            try:
                text += decoder.decode(part, final=is_all)
            except UnicodeDecodeError as error:
                raise Text(source, encoding, ",")._not_text(error) from error
            lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    return lines[: SHOWN if is_all else min(SHOWN, len(lines) - 1)]


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    """Stripped cells of some lines; none where they cannot be read."""
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
    except csv.Error:
        return []


def _delimiter_of(lines: list[str]) -> str:
    """Tab, semicolon, bar or comma: the first that cuts all lines into as many cells; else the one that the first line has most."""
    for delimiter in "\t;|,":
        widths = {len(cells) for cells in _cells(lines, delimiter)}
        if len(widths) == 1 and widths != {1}:
            return delimiter
    return max(",;\t|", key=lines[0].count)


def _looks_like_header(rows: list[list[str]], *, has_commas: bool) -> bool:
    """A first line without any number, or with a word above a number and no number that could not be the name of a column."""
    if has_commas:
        rows = [[cell.replace(",", ".", 1) for cell in row] for row in rows[:2]]
    numeric = [is_number_word(cell) for cell in rows[0]]
    if not any(numeric) or len(rows) == 1:
        return not any(numeric)
    names = [cell for cell, known in zip(rows[0], numeric) if known]
    if not all(name.isdigit() for name in names) or any(int(a) >= int(b) for a, b in zip(names, names[1:])):
        return False  # a row of data, the word in it a typo
    return any(is_number_word(below) and cell and not top for cell, top, below in zip(rows[0], numeric, rows[1]))
