"""Files: their kinds, opening text, checks before the work starts, and writing that leaves the old or the new file after a crash."""

import gzip
import os
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

__all__ = ["atomic_write", "check_writable"]

TEXT = (".csv", ".tsv")
TABLES = (*TEXT, ".parquet")
PACKED = ".gz"

_TEMPORARY = ".bregmat-tmp"  # the end of the names of temporary files


def as_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file; TypeError for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file; got {path!r}.")
    return Path(path)


def check_readable(path: Path) -> None:
    """Raise OSError for a pipe, a socket or a device, which could be waited for without end; what does not exist is left to `open`."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(f"cannot read {os.fspath(path)!r}: it is not a regular file; copy it to one")


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


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written at `path`, without changing it.

    Parameters
    ----------
    path : path
        The file to write later. Its folder must exist. Links are followed.

    Returns
    -------
    Path
        Absolute path with links resolved.

    Raises
    ------
    FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, OSError
        If the file cannot be written; the message says why.
    """
    target = as_path(path).expanduser().resolve()
    folder, what = os.fspath(target.parent), f"cannot write {os.fspath(path)!r}"
    if target.is_dir():
        raise IsADirectoryError(f"{what}: it is a folder, give a file name")
    if not target.parent.exists():
        raise FileNotFoundError(f"{what}: the folder {folder!r} does not exist")
    if not target.parent.is_dir():
        raise NotADirectoryError(f"{what}: {folder!r} is no folder")
    if target.exists() and not target.is_file():
        raise OSError(f"{what}: it is not a regular file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{what}: the file is read-only")
    probe = _sibling(target)
    try:
        os.close(_new(probe, 0o600))
    except OSError as error:
        raise type(error)(f"{what}: {error.strerror or error}") from error
    probe.unlink(missing_ok=True)  # another process may have removed it
    return target


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of `path`; it replaces `path` when the block ends without an error.

    A process that is killed leaves its temporary file, whose name begins with a dot and ends in ".bregmat-tmp".
    """
    target = check_writable(path)
    temporary = _sibling(target)
    try:
        with os.fdopen(_new(temporary, 0o666), "w+b") as handle:  # the umask applies
            if target.exists():
                os.chmod(temporary, target.stat().st_mode & 0o777)
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _sibling(target: Path) -> Path:
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}{_TEMPORARY}")


def _new(path: Path, permissions: int) -> int:
    """File descriptor of a new file; raises if a file or link exists."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, permissions)
