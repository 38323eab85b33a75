"""Streams of labelled pairs from .csv or .parquet files of any size."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.io import tables
from bregmat.io.paths import check_readable
from bregmat.io.sources import TEXT, Source, file_kind
from bregmat.io.texts import Text, pandas_package

__all__ = ["PairFile"]

COLUMNS = ("a", "b", "y")
KINDS = (*TEXT, ".parquet")
CHUNK = 32768  # rows in memory at a time


class PairFile:
    """A stream of labelled pairs for :func:`bregmat.online.run_stream`, which reads a file in chunks.

    Parameters
    ----------
    path : path
        .csv or .tsv (also .gz) or .parquet, with the columns `a`, `b` (point numbers from 0) and `y`; other columns are
        ignored. A text file without a header line has exactly these three.
    squared : bool
        If True, `y` contains squared distances, which are halved. By default it contains *half* squared distances, as in Tsuda
        2004, section 5, which the learner predicts.

    Attributes
    ----------
    name : str
        Name of the file without its folder.

    Raises
    ------
    ValueError
        If a column is missing, a cell is not a number, or a point number is not an integer; the message names file and line (row
        from 0 for .parquet). The learner checks the range of point numbers and whether labels are finite.
    ImportError
        If pyarrow is not installed, for .parquet.

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
        check_readable(self.path)
        self.squared, self.name = bool(squared), self.path.name
        self._text = None if kind == ".parquet" else _text_of(Source(self.path, kind))
        tables.require_columns(self.path, COLUMNS, self._checked_names() if self._text is None else self._text.names)
        first = next(self._chunks(1), None)
        if first is None:
            raise ValueError(f"{self.path}: no rows")
        self._split(*first)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks (pairs (m, 2), labels (m,))."""
        for start, table in self._chunks(CHUNK):
            yield self._split(start, table)

    def place(self, row: int) -> str:
        """The file and the line (for .parquet, the row) of a pair, for messages; finding the line reads the file again."""
        return f"{self.path}, row {row}" if self._text is None else f"{self.path}, line {self._text.lines[row]}"

    def _split(self, start: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns a, b, y as pairs and labels."""
        pairs = table[:, :2]
        # excludes NaN, which differs from itself, and infinity, which exceeds 2^53
        whole = (pairs == np.rint(pairs)) & (np.abs(pairs) < 2.0**53)
        bad = np.flatnonzero(~whole.all(axis=1))
        if len(bad):
            k = int(np.flatnonzero(~whole[bad[0]])[0])
            what = f"column {COLUMNS[k]!r}: {pairs[bad[0], k]} is no point number"
            raise ValueError(f"{self.place(start + int(bad[0]))}, {what}")
        return pairs.astype(np.int64), 0.5 * table[:, 2] if self.squared else table[:, 2].copy()

    def _chunks(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        """Pairs of the number of the first row and the columns a, b, y, as floats, of at most ``size`` rows."""
        at = 0
        for columns in self._of_parquet(size) if self._text is None else self._of_text(self._text, size):
            yield at, np.column_stack(columns).astype(np.float64, copy=False)
            at += len(columns[0])

    def _of_parquet(self, size: int) -> Iterator[list[np.ndarray]]:
        with tables.open_parquet(self.path) as file:
            for batch in file.iter_batches(batch_size=size, columns=list(COLUMNS)):
                yield [batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS]

    def _checked_names(self) -> list[str]:
        """Names of the columns of a .parquet file; raises if a, b or y does not contain numbers."""
        with tables.open_parquet(self.path) as file:
            schema = file.schema_arrow
        for name in set(COLUMNS) & set(schema.names):
            if not tables.is_numeric(kind := schema.field(name).type):
                raise ValueError(f"{self.path}: column {name!r} must hold numbers; it holds {kind}")
        return list(schema.names)

    def _of_text(self, text: Text, size: int) -> Iterator[list[np.ndarray]]:
        at = 0
        for frame in filter(len, text.chunks(size, COLUMNS)):
            yield [self._floats(at, text, name, frame[name]) for name in COLUMNS]
            at += len(frame)

    def _floats(self, at: int, text: Text, name: str, cells: Any) -> np.ndarray:
        """A column of a chunk that begins at row ``at``."""
        if cells.dtype.kind in "iuf" and not cells.hasnans:
            return np.asarray(cells.to_numpy(dtype=np.float64))
        numbers = pandas_package().to_numeric(cells.astype(str), errors="coerce").to_numpy(dtype=np.float64)
        for row in at + np.flatnonzero(np.isnan(numbers)):
            if (cell := text.cell(int(row), name)).lower() != "nan":
                raise tables.CellError(self.place(int(row)), name, cell)
        return np.asarray(numbers)


def _text_of(source: Source) -> Text:
    """A text table, with columns a, b, y if it has no header line."""
    text = Text.of(source)
    if not text.has_header:
        if len(text.names) != len(COLUMNS):
            n = len(text.names)
            raise ValueError(f"{source.path}: {n} cells in the first line; without a header they must be a, b, y")
        text = replace(text, names=list(COLUMNS))
    return text
