"""The kinds of files of tables, by the endings of their names."""

import os
from collections.abc import Sequence
from pathlib import Path

from bregmat.io.paths import check_readable

TEXT = (".csv", ".tsv")
TABLES = (*TEXT, ".parquet")


def check_kind(path: str | os.PathLike[str], to_do: str, known: Sequence[str]) -> Path:
    """The path of a file; ValueError for an ending that is not `known`. `to_do` ("read points from") is part of the message."""
    path = Path(path)
    if (kind := path.suffix.lower()) not in known:
        listed = (", " if len(known) > 2 else " or ").join(known)
        raise ValueError(f"{path}: cannot {to_do} {kind or 'a file without ending'}; use {listed}")
    return path


def source_of(path: str | os.PathLike[str], to_do: str, known: Sequence[str]) -> Path:
    """The path of a file of one of the `known` kinds that can be read."""
    path = check_kind(path, to_do, known)
    check_readable(path)
    return path


def is_text(path: Path) -> bool:
    """Whether a table is a file of text."""
    return path.suffix.lower() in TEXT


def require_distinct(path: Path, names: Sequence[str]) -> None:
    """Raise ValueError for a name of two columns, of which one would be lost."""
    if len(set(names)) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{path}: column {repeated!r} occurs twice")
