"""Constraints and points that stay in their files: read a shard at a time, by whoever works on it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import RELATIONS, SAMPLES
from bregmat.constraints.tables import COLUMNS
from bregmat.io import tables
from bregmat.io.paths import check_readable
from bregmat.sharded.sources import LazyConstraints

__all__ = ["ConstraintFiles", "StoredPoints", "open_constraints", "open_points"]


Stamp = tuple[int, int, int]  # size, time of the last change and inode


def _stamp(path: Path) -> Stamp:
    """What changes when a file is replaced or written to."""
    check_readable(path)
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


@contextmanager
def _unchanged(path: Path, stamp: Stamp) -> Iterator[None]:
    """Read a file; raise unless it is that of the stamp, before and after."""
    for is_read in (False, True):
        try:
            now = _stamp(path)
        except OSError as error:
            raise ValueError(f"{path}: the file that was opened is gone ({error})") from error
        if now != stamp:
            what = "the file has changed since it was opened; what was computed holds for neither version"
            raise ValueError(f"{path}: {what}")
        if not is_read:
            yield


def open_constraints(path: str | os.PathLike) -> "ConstraintFiles":
    """Constraints in files too large for memory, for the argument ``constraints`` of :func:`bregmat.nearest_metric`.

    Parameters
    ----------
    path : path
        A .parquet file or a folder of them, in the order of their names, with the columns of :func:`read_constraints`; a row group is
        a shard, or several where it has more than ``block_size`` constraints. Samples are row numbers of the points, and every constraint
        has a bound and a sense; without a column `relation` all constraints are squared distances.

    Returns
    -------
    ConstraintFiles

    Raises
    ------
    ValueError
        No such files. What is in them is looked at when they are read: then it names file, row group and row.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pandas as pd
    >>> from bregmat.io import open_constraints
    >>> frame = pd.DataFrame({"i": [0, 1], "j": [1, 2], "bound": [4.0, 9.0], "sense": ["<=", ">="]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pairs.parquet"
    ...     frame.to_parquet(path)
    ...     open_constraints(path).n_constraints
    2
    """
    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path] * (path.suffix.lower() == ".parquet")
    if files:
        return ConstraintFiles(tuple(files))
    raise ValueError(f"{path}: neither a .parquet file nor a folder of them")


@dataclass(frozen=True)
class ConstraintFiles(LazyConstraints):
    """What :func:`open_constraints` found."""

    files: tuple[Path, ...]

    @property
    def n_constraints(self) -> int:
        """Number of rows."""
        return sum(shard.count for shard in self.shards(2**62))

    def shards(self, block_size: int) -> list[Any]:
        """What is read at once: at most so many rows."""
        return [
            FileShard(path, group, start, min(block_size, c - start), stamp)
            for path in self.files
            for stamp in [_stamp(path)]
            for group, c in _groups(path)
            for start in range(0, c, block_size)
        ]


def _groups(path: Path) -> Iterator[tuple[int, int]]:
    """Row groups of a file and how many rows they have."""
    with tables.open_parquet(path) as file:
        counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    yield from enumerate(counts)


@dataclass(frozen=True)
class FileShard:
    """Some rows of a row group (:class:`bregmat.sharded.sources.ShardSource`)."""

    path: Path
    group: int
    start: int
    count: int
    stamp: Stamp

    @property
    def place(self) -> str:
        """Name of the rows in messages."""
        return f"{self.path}, row group {self.group}{f', counted from row {self.start}' if self.start else ''}"

    def read(self) -> Constraints:
        """The rows; a copy, because the file may change later."""
        with _unchanged(self.path, self.stamp):
            with tables.open_parquet(self.path) as file:
                table = file.read_row_group(self.group).slice(self.start, self.count)
            return _constraints_of(table)


def _constraints_of(table: Any) -> Constraints:
    """Constraints from a table of pyarrow, made for one relation after the other; messages count among the rows of a relation.

    :mod:`bregmat.constraints.tables` reads cells of any kind one by one. Here samples are row numbers of the data, and numbers are used
    as they are stored.
    """
    columns = table.column_names
    if unknown := [name for name in columns if name not in COLUMNS]:
        raise ValueError(f"unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    if missing := [name for name in ("bound", "sense") if name not in columns]:
        raise ValueError(f"no column {missing[0]!r}; needed: bound, sense and samples")
    cells = {name: _numbers(table, name) for name in columns if name not in ("relation", "sense")}
    sense_code, senses = _words(table, "sense")
    sense = np.array([*senses, ""], dtype=object)[sense_code]
    code, names = _words(table, "relation") if "relation" in columns else (np.zeros(len(sense), int), ["sq_distance"])
    if (code < 0).any():
        raise ValueError(f"row {np.argmin(code)}: the relation is empty")
    parts, order = [], []
    for k, name in enumerate(names):
        rows, relation = np.flatnonzero(code == k), RELATIONS.resolve(name)
        samples, beyond = SAMPLES[: relation.arity], SAMPLES[relation.arity :]
        if absent := [letter for letter in samples if letter not in cells]:
            raise ValueError(f"there is no column {absent[0]!r}, which the relation {name!r} needs")
        if more := [letter for letter in beyond if letter in cells and not np.isnan(cells[letter][rows]).all()]:
            raise ValueError(f"the relation {name!r} takes no sample in column {more[0]!r}")
        settings: Any = {
            "bound": cells["bound"][rows],
            "sense": sense[rows],
            "weight": cells["weight"][rows] if "weight" in cells else 1.0,
        }
        try:
            parts.append(Constraints.of(relation, *(cells[letter][rows] for letter in samples), **settings))
        except ValueError as error:
            raise ValueError(f"among the rows with the relation {name!r}, counted from 0: {error}") from error
        order.append(rows)
    joined = reduce(add, parts)
    return joined if len(parts) == 1 else joined.select(np.argsort(np.concatenate(order)))


def _numbers(table: Any, name: str) -> np.ndarray:
    """A column of numbers, with NaN in empty cells."""
    column = table.column(name)
    if not tables.is_numeric(column.type):
        raise ValueError(f"column {name!r} must hold numbers; got {column.type}")
    return np.asarray(column.to_numpy())


def _words(table: Any, name: str) -> tuple[np.ndarray, list[str]]:
    """The different words of a column, and the position of that of each row, -1 in empty cells."""
    column = table.column(name).cast("string").dictionary_encode().combine_chunks()
    return column.indices.fill_null(-1).to_numpy(zero_copy_only=False), column.dictionary.to_pylist()


# ---------------------------------------------------------------------- points
def open_points(path: str | os.PathLike) -> "StoredPoints":
    """Points in a file too large for memory, for the argument ``X`` of :func:`bregmat.nearest_metric`.

    Parameters
    ----------
    path : path
        A .npy file, which is mapped.

    Returns
    -------
    StoredPoints
        Has a ``shape`` and gives points by a slice or by ascending numbers.

    Raises
    ------
    ValueError
        Not two-dimensional, or no numbers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from bregmat.io import open_points
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "points.npy"
    ...     np.save(path, np.eye(3))
    ...     open_points(path)[1:2]
    array([[0., 1., 0.]])
    """
    path = Path(path)
    if path.suffix.lower() != ".npy":
        raise ValueError(f"{path}: points that stay in their file are .npy")
    points = StoredPoints(path)
    if len(points.shape) != 2 or 0 in points.shape:
        raise ValueError(f"{path}: points must be a 2-D array of numbers, one point per row; got shape {points.shape}")
    return points


@dataclass(frozen=True)
class StoredPoints:
    """Points (n, d) of a .npy file, mapped by every process that reads them (:class:`bregmat.sharded.sources.LazyPoints`)."""

    path: Path
    stamp: Stamp = field(init=False, repr=False)
    ndim: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "stamp", _stamp(self.path))

    def _open(self) -> Any:
        return tables.read_npy(self.path, mmap=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""
        return tuple(int(size) for size in self._open().shape)

    def read_rows(self, rows: slice | np.ndarray) -> np.ndarray:
        """Some rows, by a slice or by ascending numbers, as a copy."""
        with _unchanged(self.path, self.stamp):
            return self._read(rows)

    __getitem__ = read_rows

    def _read(self, rows: slice | np.ndarray) -> np.ndarray:
        try:
            return np.array(self._open()[rows], dtype=float)
        except (TypeError, OSError) as error:
            raise ValueError(f"{self.path}: cannot be read as numbers ({error})") from error
