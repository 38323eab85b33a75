"""Pairs with labels as a stream from a .csv or .parquet file of any size."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.io import tables
from bregmat.io.sources import TEXT, Source, file_kind
from bregmat.io.texts import Text, pandas_package

__all__ = ["PairFile"]

COLUMNS = ("a", "b", "y")
KINDS = (*TEXT, ".parquet")
CHUNK = 32768  # rows in memory at a time


class PairFile:
    """Pairs of points with labels, read a chunk at a time: a stream for :func:`bregmat.online.run_stream`.

    Parameters
    ----------
    path : path
        .csv or .tsv (also .gz) or .parquet, with the columns `a`, `b` (point numbers from 0) and `y`; other columns are
        ignored. A file of text without a header line has exactly these three.
    squared : bool
        `y` holds squared distances; they are halved. By default it holds *half* squared distances, as in Tsuda 2004,
        section 5, which is what the learner predicts.

    Attributes
    ----------
    name : str
        Name of the file without its folder.

    Raises
    ------
    ValueError
        On reading: a column that is missing, a cell that is not a number, a point number that is not whole; the message names
        file and line (row from 0 for .parquet). The learner checks the range of point numbers and whether labels are finite.
    ImportError
        For .parquet, pyarrow is not installed.

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
        self.path, kind = file_kind(path, "read pairs from", KINDS)
        self.squared, self.name = bool(squared), self.path.name
        source = Source(self.path, kind)
        self._rows: _TextRows | _ParquetRows = _ParquetRows(source) if kind == ".parquet" else _TextRows(source)
        first = next(self._rows.chunks(1), None)
        if first is None:
            raise ValueError(f"{self.path}: no rows")
        self._split(*first)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks (pairs (m, 2), labels (m,))."""
        for start, table in self._rows.chunks(CHUNK):
            yield self._split(start, table)

    def place(self, row: int) -> str:
        """The file and the line (for .parquet the row) of a pair, for messages."""
        return self._rows.place(row)

    def in_its_words(self, text: str) -> str:
        """A message of a learner, with the names of the columns in place of its arguments."""
        text = re.sub(r"^X must hold (one )?pair", r"columns 'a' and 'b' must hold \1pair", text)
        text = re.sub(r"^X must hold (?=point|whole)", "columns 'a' and 'b' must hold ", text)
        halved = " (half of what the column holds)" if self.squared and re.match(r"y must .*; got", text) else ""
        return re.sub(r"^y must", "column 'y' must", text).removesuffix(".") + halved + "."

    def _split(self, start: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns a, b, y as pairs and labels."""
        pairs = table[:, :2]
        # excludes NaN, which differs from itself, and infinity, which exceeds 2^53
        whole = (pairs == np.rint(pairs)) & (np.abs(pairs) < 2.0**53)
        bad = np.flatnonzero(~whole.all(axis=1))
        if len(bad):
            k = int(np.flatnonzero(~whole[bad[0]])[0])
            raise ValueError(
                f"{self.place(start + int(bad[0]))}, column {COLUMNS[k]!r}: {pairs[bad[0], k]} is no point number"
            )
        return pairs.astype(np.int64), 0.5 * table[:, 2] if self.squared else table[:, 2].copy()


class _TextRows:
    """Rows of a file of text as chunks of floats, columns in the order a, b, y."""

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self.text = Text.of(source)
        if not self.text.has_header:
            if len(self.text.names) != 3:
                n = len(self.text.names)
                raise ValueError(f"{self.path}: {n} cells in the first line; without a header they must be a, b, y")
            self.text = replace(self.text, names=list(COLUMNS))
        tables.require_columns(self.path, COLUMNS, self.text.names)

    def chunks(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        at = 0
        for frame in filter(len, self.text.chunks(size, COLUMNS)):
            yield at, np.column_stack([self._floats(at, name, frame[name]) for name in COLUMNS])
            at += len(frame)

    def place(self, row: int) -> str:
        """The line of a row; the file is read again to find it."""
        return f"{self.path}, line {self.text.lines[row]}"

    def _floats(self, at: int, name: str, cells: Any) -> np.ndarray:
        if cells.dtype.kind in "iuf" and not cells.hasnans:
            return cells.to_numpy(dtype=np.float64)
        numbers = pandas_package().to_numeric(cells.astype(str), errors="coerce").to_numpy(dtype=np.float64)
        for row in np.flatnonzero(np.isnan(numbers)):
            if (cell := self.text.cell(at + int(row), name)).lower() != "nan":
                raise tables.not_a_number(self.place(at + int(row)), name, cell)
        return numbers


class _ParquetRows:
    """Rows of a .parquet file as chunks of floats, columns in the order a, b, y."""

    def __init__(self, source: Source) -> None:
        self.source, self.path = source, source.path
        with tables.open_parquet(source) as file:
            schema = file.schema_arrow
        tables.require_columns(self.path, COLUMNS, schema.names)
        for name in COLUMNS:
            if not tables.is_numeric(kind := schema.field(name).type):
                raise ValueError(f"{self.path}: column {name!r} must hold numbers; it holds {kind}")

    def chunks(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        with tables.open_parquet(self.source) as file:
            at = 0
            for batch in file.iter_batches(batch_size=size, columns=list(COLUMNS)):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS]
                yield at, np.column_stack(columns).astype(np.float64, copy=False)
                at += batch.num_rows

    def place(self, row: int) -> str:
        return f"{self.path}, row {row}"
