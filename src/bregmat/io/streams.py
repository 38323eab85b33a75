"""Pairs with labels as a stream from a .csv or .parquet file of any size, and checkpoints of a run over it."""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.io import tables
from bregmat.io.models import load, read_manifest, save
from bregmat.io.paths import check_writable

__all__ = ["Checkpoint", "PairFile"]

COLUMNS = ("a", "b", "y")
CHUNK = 32768  # rows in memory at a time


class PairFile:
    """Pairs of points with labels, read a chunk at a time: a stream for :func:`bregmat.online.run_stream`.

    Parameters
    ----------
    path : path
        .csv (comma, semicolon or tab) or .parquet, with the columns `a`, `b` (point numbers from 0) and `y`; others are
        passed over. A .csv without a header line has just these three.
    squared : bool
        `y` holds squared distances; they are halved. By default it holds *half* squared distances, as in Tsuda 2004,
        section 5, which is what the learner predicts.

    Attributes
    ----------
    name : str
        Of the file, without its folder.

    Raises
    ------
    ValueError
        On reading: a column that is missing, a cell that is not a number, a point number that is not whole; with file
        and line (row from 0 for .parquet). Point numbers out of range and labels that are not finite are the learner's
        business.
    ImportError
        .parquet without pyarrow.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.io import PairFile
    >>> from bregmat.online import run_stream
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pairs.csv"
    ...     _ = path.write_text("a,b,y\\n0,1,0.5\\n1,2,0.5\\n0,2,1.0\\n")
    ...     run = run_stream(MatrixExponentiatedGradient(3, trace=2.0), PairFile(path))
    >>> run.loss <= run.bound
    True
    """

    def __init__(self, path: str | os.PathLike[str], *, squared: bool = False) -> None:
        self.path, kind = tables.file_kind(path, "read pairs from", (".csv", ".parquet"))
        self.squared, self.name = bool(squared), self.path.name
        self._rows: _CsvRows | _ParquetRows = _CsvRows(self.path) if kind == ".csv" else _ParquetRows(self.path)
        first = next(self._rows.chunks(1), None)
        if first is None:
            raise ValueError(f"{self.path}: no rows")
        self._split(*first)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks (pairs (m, 2), labels (m,))."""
        for start, table in self._rows.chunks(CHUNK):
            yield self._split(start, table)

    def place(self, row: int) -> str:
        """Where a row is, in words: its line in a .csv file."""
        return self._rows.place(row)

    def in_its_words(self, text: str) -> str:
        """A message of a learner in terms of the columns."""
        text = re.sub(r"^X must hold (one )?pair", r"columns 'a' and 'b' must hold \1pair", text)
        text = re.sub(r"^X must hold (?=point|whole)", "columns 'a' and 'b' must hold ", text)
        halved = " (half of what the column holds)" if self.squared and re.match(r"y must .*; got", text) else ""
        return re.sub(r"^y must", "column 'y' must", text).removesuffix(".") + halved + "."

    def _split(self, start: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns a, b, y as pairs and labels."""
        pairs = table[:, :2]
        # NaN compares unequal to itself, infinity is equal but beyond 2^53
        whole = (pairs == np.rint(pairs)) & (np.abs(pairs) < 2.0**53)
        bad = np.flatnonzero(~whole.all(axis=1))
        if len(bad):
            k = int(np.flatnonzero(~whole[bad[0]])[0])
            raise ValueError(
                f"{self.place(start + int(bad[0]))}, column {COLUMNS[k]!r}: {pairs[bad[0], k]} is no point number"
            )
        return pairs.astype(np.int64), 0.5 * table[:, 2] if self.squared else table[:, 2].copy()


class _CsvRows:
    """Rows of a .csv file as chunks of floats, columns in the order a, b, y."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tables.open_csv(path) as handle:
            first = next((line for line in handle if line.strip()), "")
        if not first:
            raise ValueError(f"{path}: the file is empty")
        self.delimiter = tables.delimiter_of(first)
        cells = self._cells(first)
        self.n_cells = len(cells)
        self.has_header = not all(map(tables.is_number, cells))
        if not self.has_header and len(cells) != 3:
            raise ValueError(f"{path}: {len(cells)} cells in the first line; without a header they must be a, b, y")
        names = cells if self.has_header else list(COLUMNS)
        tables.require_columns(path, COLUMNS, names)
        self.columns = [names.index(name) for name in COLUMNS]

    def chunks(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        at = 0
        with tables.open_csv(self.path) as handle:
            lines = (line for line in handle if line.strip())
            if self.has_header:
                next(lines)
            while block := list(islice(lines, size)):
                yield at, self._numbers(at, block)
                at += len(block)

    def place(self, row: int) -> str:
        """Counted again from the start, for blank lines are no rows."""
        with tables.open_csv(self.path) as handle:
            filled = (number for number, line in enumerate(handle, 1) if line.strip())
            number = next(islice(filled, row + self.has_header, None), None)
        return f"{self.path}, line {number}"

    def _cells(self, line: str) -> list[str]:
        return [cell.strip().strip('"') for cell in line.split(self.delimiter)]

    def _numbers(self, at: int, block: list[str]) -> np.ndarray:
        try:
            return np.loadtxt(
                block, delimiter=self.delimiter, usecols=self.columns, comments=None, quotechar='"', ndmin=2
            )
        except ValueError as error:
            raise self._first_wrong(at, block) from error

    def _first_wrong(self, at: int, block: list[str]) -> ValueError:
        for row, line in enumerate(block, at):
            cells = self._cells(line)
            if len(cells) != self.n_cells:
                return ValueError(f"{self.place(row)}: {len(cells)} cells, but the first line has {self.n_cells}")
            for name, k in zip(COLUMNS, self.columns):
                if not tables.is_number(cells[k]):
                    return tables.not_a_number(self.place(row), name, cells[k])
        return ValueError(f"{self.place(at)} and the {len(block) - 1} rows after it cannot be read as numbers")


class _ParquetRows:
    """Rows of a .parquet file as chunks of floats, columns in the order a, b, y."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tables.open_parquet(path) as file:
            schema = file.schema_arrow
        tables.require_columns(path, COLUMNS, schema.names)
        for name in COLUMNS:
            if not tables.is_numeric(kind := schema.field(name).type):
                raise ValueError(f"{path}: column {name!r} must hold numbers; it holds {kind}")

    def chunks(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        with tables.open_parquet(self.path) as file:
            at = 0
            for batch in file.iter_batches(batch_size=size, columns=list(COLUMNS)):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS]
                yield at, np.column_stack(columns).astype(np.float64, copy=False)
                at += batch.num_rows

    def place(self, row: int) -> str:
        return f"{self.path}, row {row}"


class Checkpoint:
    """A model file that also holds how far a stream was learned; `bregmat.load` reads it as any other model.

    Parameters
    ----------
    path : path
        Replaced in one step at every checkpoint: after a crash it is the last one or the one before. Its folder must exist.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.io import Checkpoint
    >>> from bregmat.online import run_stream
    >>> stream = [((0, 1), 0.5), ((1, 2), 0.5)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(pathlib.Path(folder) / "stream.bm")
    ...     first = run_stream(MatrixExponentiatedGradient(3, trace=2.0), stream, checkpoint=checkpoint)
    ...     longer = run_stream(MatrixExponentiatedGradient(3, trace=2.0), [*stream, ((0, 2), 1.0)], checkpoint=checkpoint)
    >>> first.position, longer.position
    (2, 3)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_writable(path)

    def load(self) -> tuple[Any, dict[str, Any]] | None:
        """The learner and the state of the run; None where there is no file yet.

        Raises
        ------
        ModelFileError
            A damaged file.
        ValueError
            A model that is no checkpoint of a stream.
        """
        if not self.path.exists():
            return None
        state = read_manifest(self.path)["info"].get("stream")
        if not isinstance(state, dict):
            raise ValueError(f"{self.path}: a model, but no checkpoint of a stream")
        return load(self.path), state

    def write(self, learner: Any, state: dict[str, Any]) -> None:
        """Replace the file."""
        save(self.path, learner, info={"stream": state})

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r})"
