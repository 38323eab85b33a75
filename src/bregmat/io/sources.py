"""The kinds of files that hold tables, compressed or not."""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from bregmat.io.paths import check_readable

TEXT = (".csv", ".tsv")
TABLES = (*TEXT, ".parquet")
PACKED = ".gz"


def kind_of(path: Path) -> str:
    """The ending of a file, without that of a compressed table of text."""
    inner = path.with_suffix("").suffix.lower()
    return inner if path.suffix.lower() == PACKED and inner in TEXT else path.suffix.lower()


def known_path(path: str | os.PathLike[str], to_do: str, known: Sequence[str]) -> Path:
    """A path whose kind is `known`; ValueError for any other kind. `to_do` ("read points from") is part of the message."""
    path = Path(path)
    if (kind := kind_of(path)) not in known:
        listed = (", " if len(known) > 2 else " or ").join(known)
        packed = f" ({', '.join(name + PACKED for name in known if name in TEXT)})" if set(known) & set(TEXT) else ""
        raise ValueError(f"{path}: cannot {to_do} {kind or 'a file without ending'}; use {listed}{packed}")
    return path


@contextmanager
def opened_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open the decompressed text of a file; ValueError while it is read, if it is damaged or has another encoding."""
    check_readable(path)
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        with (gzip.open if path.suffix.lower() == PACKED else open)(path, "rt", encoding=name, newline="") as text:
            yield text  # type: ignore[misc]
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: not a {PACKED} file, or damaged ({error})") from error
    except UnicodeDecodeError as error:
        hint = "; if it is in another encoding, such as cp1252, give its name as the encoding"
        name, hint = ("UTF-8", hint) if encoding == "utf-8" else (encoding, "")
        raise ValueError(f"{path}: not a text file in {name} ({error}){hint}") from error


def require_distinct(path: Path, names: Sequence[str]) -> None:
    """Raise ValueError for a name of two columns, of which one would be lost."""
    if len(set(names)) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{path}: column {repeated!r} occurs twice")
