"""Output files: checks before the work starts, and writing that leaves the old or the new file after a crash."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["atomic_write", "check_writable"]

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

    Temporary files of killed processes in this folder are removed first.
    """
    target = check_writable(path)
    _tidy(target.parent)
    temporary, handle = _temporary(target)
    try:
        with handle:
            if target.exists():
                os.chmod(temporary, target.stat().st_mode & 0o777)
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
            if fcntl is not None:  # before the lock is released
                os.replace(temporary, target)
        if fcntl is None:  # Windows cannot rename open files
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(target: Path) -> tuple[Path, BinaryIO]:
    """A new file in the folder of ``target``, locked so that other processes do not remove it."""
    while True:
        path = _sibling(target)
        handle = os.fdopen(_new(path, 0o666), "w+b")  # the umask applies
        if fcntl is None:
            return path, handle
        with suppress(OSError):  # a file system without locks, where temporary files are not removed either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle.fileno()).st_nlink:
            return path, handle
        handle.close()  # another process removed the file before it was locked


def _sibling(target: Path) -> Path:
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}{_TEMPORARY}")


def _new(path: Path, permissions: int) -> int:
    """File descriptor of a new file; raises if a file or link exists."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, permissions)


def _tidy(folder: Path) -> None:
    """Remove temporary files without a lock, which belong to killed processes."""
    if fcntl is None:
        return
    for path in folder.glob(f".*{_TEMPORARY}"):
        try:
            with path.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except OSError:  # locked, removed already, or another user's
            continue
