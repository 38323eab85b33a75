"""The files that tables are read from, compressed or not."""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bregmat.io.paths import check_readable

TEXT = (".csv", ".tsv")
TABLES = (*TEXT, ".parquet")
PACKED = ".gz"


@dataclass(frozen=True, eq=False)
class Source:
    """A file and its kind."""

    path: Path
    kind: str

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the decompressed content."""
        with self.path.open("rb") as raw:
            if self.path.suffix.lower() != PACKED:
                yield raw
                return
            try:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield unpacked  # type: ignore[misc]
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise ValueError(f"{self.path}: not a {PACKED} file, or damaged ({error})") from error

    @property
    def size(self) -> int:
        """Size in bytes, compressed."""
        return self.path.stat().st_size


def file_kind(path: str | os.PathLike[str], to_do: str, known: Sequence[str]) -> tuple[Path, str]:
    """Path and kind of a file; ValueError for a kind that is not `known`. `to_do` ("read points from") is part of the message."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind == PACKED and path.with_suffix("").suffix.lower() in TEXT:
        kind = path.with_suffix("").suffix.lower()
    if kind not in known:
        listed = (", " if len(known) > 2 else " or ").join(known)
        packed = f" ({', '.join(name + PACKED for name in known if name in TEXT)})" if set(known) & set(TEXT) else ""
        raise ValueError(f"{path}: cannot {to_do} {kind or 'a file without ending'}; use {listed}{packed}")
    return path, kind


def require_distinct(path: Path, names: Sequence[str]) -> None:
    """Raise ValueError for a name of two columns, of which one would be lost."""
    if len(set(names)) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{path}: column {repeated!r} occurs twice")


def source_of(path: str | os.PathLike[str], to_do: str, known: Sequence[str]) -> Source:
    """A file of one of the `known` kinds."""
    source = Source(*file_kind(path, to_do, known))
    check_readable(source.path)
    return source
