"""The journal of answers: one line of JSON per event, written to disk before anything is computed from it."""

import errno
import json
import os
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = "bregmat label journal 1"
BEGINNING = f'{{"format":"{FORMAT}"'.encode()  # of a journal


class Journal:
    """An append-only file of events; its first line is the `head`: a digest of the points, and the settings.

    With `resume`, an existing file is continued. Otherwise the file must not exist, or must not contain an answer. It is a ValueError
    if the file belongs to other points or settings, if another process has it open, or if a line is damaged. An incomplete last
    line, as a killed process leaves it, is removed.
    """

    def __init__(self, path: Path, head: dict[str, Any], *, resume: bool) -> None:
        self.path = path
        if not (exists := path.exists()) and resume:
            raise ValueError(f"{path}: there is no journal to resume")
        # Unbuffered, so that an event whose write failed is not written later.
        self._file = open(path, "r+b" if exists else "x+b", buffering=0)  # noqa: SIM115
        self.events: list[dict[str, Any]] = []
        try:
            self._lock()
            if resume:
                self._read({"format": FORMAT, **head})
            else:
                first, *answers = self._file.readall().split(b"\n")[:-1] or [b""]
                if exists and (answers or not first.startswith(BEGINNING)):
                    raise ValueError(
                        f"{path}: this journal exists; continue it with --resume, or name another with --journal"
                    )
                self._file.truncate(0)
                self._file.seek(0)
                self._write({"format": FORMAT, **head})
                self._sync_folder()
        except BaseException:
            self._file.close()
            raise

    def append(self, event: dict[str, Any]) -> None:
        """Write one event and wait until it is on the disk. If that raises OSError, the file is unchanged."""
        self._write(event)
        self.events.append(event)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: dict[str, Any]) -> None:
        """Write one line to the disk, or nothing."""
        line, start = json.dumps(event, separators=(",", ":")).encode() + b"\n", self._file.tell()
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(start)  # no partial line
            self._file.seek(start)
            raise

    def _lock(self) -> None:
        """Raise ValueError if another process has the file open."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"{self.path}: another bregmat label has this journal open") from error

    def _sync_folder(self) -> None:
        """Wait until the entry of the file in its folder is on the disk."""
        if os.name == "posix":
            folder = os.open(self.path.resolve().parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _read(self, head: dict[str, Any]) -> None:
        """Read the events, and remove an incomplete last line."""
        whole = 0
        # after the last line break there is nothing, or an incomplete line
        for number, line in enumerate(self._file.readall().split(b"\n")[:-1], 1):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{self.path}, line {number}: damaged ({error})") from error
            if number == 1:
                self._check_head(event, head)
            else:
                self.events.append(event)
            whole += len(line) + 1
        if not whole:
            raise ValueError(f"{self.path}: this is no journal of bregmat label")
        self._file.truncate(whole)
        self._file.seek(whole)

    def _check_head(self, found: Any, head: dict[str, Any]) -> None:
        """Raise ValueError if the first line is of other points or settings."""
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"{self.path}: this is no journal of bregmat label")
        for name, value in head.items():
            if found.get(name) != value:
                what = "other points" if name == "points" else f"{name} {found.get(name)!r}, not {value!r}"
                raise ValueError(f"{self.path}: its answers are about {what}")
