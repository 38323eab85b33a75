"""Output paths: checked before the work starts, and written so that a crash leaves the old file or the new one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write", "check_writable"]


def check_writable(path: str | os.PathLike) -> Path:
    """Make sure a file can be written at `path`; the file itself is not touched.

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
        Naming the path and what is in the way.
    """
    target = Path(path).expanduser().resolve()
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {os.fspath(path)!r}: it is a folder, give a file name")
    if not target.parent.exists():
        raise FileNotFoundError(
            f"cannot write {os.fspath(path)!r}: the folder {os.fspath(target.parent)!r} does not exist"
        )
    if not target.parent.is_dir():
        raise NotADirectoryError(f"cannot write {os.fspath(path)!r}: {os.fspath(target.parent)!r} is no folder")
    if target.exists():
        if not target.is_file():
            raise OSError(f"cannot write {os.fspath(path)!r}: it is not a regular file")
        if not os.access(target, os.W_OK):
            raise PermissionError(f"cannot write {os.fspath(path)!r}: the file is read-only")
    probe = _sibling(target)
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise type(error)(f"cannot write {os.fspath(path)!r}: {error.strerror or error}") from error
    probe.unlink()
    return target


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; it takes the place of `path` when the block ends without an error."""
    target = check_writable(path)
    temporary = _sibling(target)
    try:
        # O_EXCL: never through a link someone else has put there; 0o666 leaves the permissions to the umask.
        with os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), "w+b") as handle:
            if target.exists():
                os.chmod(temporary, target.stat().st_mode & 0o777)
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _sibling(target: Path) -> Path:
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.tmp")
