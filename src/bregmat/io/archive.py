"""Archives of arrays: a zip of uncompressed .npy members with a JSON manifest that contains the sha256 of each member.

Layout of format 3::

    manifest.json      class, format_version, bregmat version, info, state; shape, dtype and sha256 of every array
    arrays/NAME.npy    one per array, not compressed, so that other programs can map them
    (zip comment)      sha256 of manifest.json
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zipfile
from collections import Counter
from typing import IO, Any

import numpy as np

from bregmat import __version__
from bregmat.io.paths import as_path, atomic_write, check_readable
from bregmat.io.state import MAX_DEPTH, STORED_KINDS, depth_of

__all__ = ["ModelFileError", "read_archive", "write_archive"]

FORMAT = "bregmat-model"
FORMAT_VERSION = 3
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
DTYPE = re.compile(rf"[<>|][{STORED_KINDS}][1-9][0-9]*")  # NumPy evaluates parts of other descriptions
CHUNK = 2**20  # bytes that are read at a time
MAX_EMPTY = 2**20  # product of the nonzero dimensions of an array without entries
_BROKEN_ZIP = (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, struct.error, EOFError, OSError)


class ModelFileError(ValueError):
    """A file is not a model, is damaged or incomplete, or has another format or an unknown class.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import bregmat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "notes.bm"
    ...     _ = path.write_text("no model")
    ...     try:
    ...         bregmat.load(path)
    ...     except bregmat.ModelFileError:
    ...         print("refused")
    refused
    """


# ---------------------------------------------------------------------- writing
def write_archive(path: str | os.PathLike[str], manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a manifest (class, info, state) and arrays; a crash leaves the old file unchanged."""
    records: dict[str, Any] = {}
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "bregmat": __version__}
    manifest = head | manifest | {"arrays": records}
    with atomic_write(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(_member(name)), "w", force_zip64=array.nbytes > 2**30) as stream:
                hashed = _Hashed(stream)
                np.lib.format.write_array(hashed, array, allow_pickle=False)
            is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            records[name] = {"shape": array.shape, "dtype": array.dtype.str, "is_fortran": is_fortran}
            records[name]["sha256"] = hashed.sha256.hexdigest()
        text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=True).encode("ascii")
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        archive.comment = comment_of(text)


class _Hashed:
    """A write-only stream that computes the sha256 of the data."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.sha256 = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._stream.write(data)


def _member(name: str) -> str:
    return f"arrays/{name}.npy"


def comment_of(manifest: bytes) -> bytes:
    """The comment of the zip: the sha256 of the manifest."""
    return b"sha256:" + hashlib.sha256(manifest).hexdigest().encode("ascii")


# ---------------------------------------------------------------------- reading
def read_archive(
    path: str | os.PathLike[str], *, has_arrays: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays of a model file; each array is writable and owns its memory."""
    path = as_path(path)
    check_readable(path)
    with path.open("rb") as handle:
        try:
            with zipfile.ZipFile(handle) as archive:
                size = os.fstat(handle.fileno()).st_size
                manifest = _manifest(archive, size)
                records = manifest["arrays"].items() if has_arrays else ()
                return manifest, {name: _array(archive, name, record, size) for name, record in records}
        except (*_BROKEN_ZIP, OverflowError, RuntimeError) as error:
            raise ModelFileError(f"{path}: not a bregmat model, or damaged ({error})") from error
        except ValueError as error:
            raise ModelFileError(f"{path}: {error}") from error


def _manifest(archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    """The manifest of a file of `size` bytes, which names all other members."""
    infos = archive.infolist()
    for info in infos:
        # A member without compression cannot exceed the file, so a small file never causes a large allocation.
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1 or info.file_size != info.compress_size:
            raise ValueError(f"member {info.filename!r} is compressed or encrypted")
    if sum(info.file_size for info in infos) > size:
        raise ValueError("members overlap, or the file is cut off")
    names = Counter(info.filename for info in infos)
    if MANIFEST not in names:
        raise ValueError(f"no {MANIFEST}: not a bregmat model")
    if archive.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
        raise ValueError(f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES} bytes")
    text = archive.read(MANIFEST)
    try:
        manifest = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"not a bregmat model: {MANIFEST} does not say format {FORMAT!r}")
    if depth_of(manifest) > MAX_DEPTH:
        raise ValueError(f"{MANIFEST} is nested more than {MAX_DEPTH} deep")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION or type(version) is not int:
        is_newer = type(version) is int and version > FORMAT_VERSION
        advice = "Update bregmat" if is_newer else "Fit and save the model again"
        written = f"written in format {version!r} by bregmat {manifest.get('bregmat')}"
        raise ValueError(f"{written}; this is bregmat {__version__}, which reads format {FORMAT_VERSION}. {advice}")
    if archive.comment != comment_of(text):
        raise ValueError(f"{MANIFEST} was altered: its sha256 is not the recorded one")
    if not all(isinstance(manifest.get(key), dict) for key in ("info", "state", "arrays")):
        raise ValueError(f"{MANIFEST} lacks info, state or arrays")
    expected = Counter([MANIFEST, *map(_member, manifest["arrays"])])
    if missing := sorted(expected - names):
        raise ValueError(f"members are missing: {', '.join(missing)}")
    if extra := sorted(names - expected):
        raise ValueError(
            f"members that the manifest does not name, or that occur more than once: {', '.join(map(repr, extra))}"
        )
    return manifest


def _array(archive: zipfile.ZipFile, name: str, record: Any, size: int) -> np.ndarray:
    """One array of a file of `size` bytes. Its record says what it is; the header of the .npy member is for other programs."""
    data, at = bytearray(archive.getinfo(_member(name)).file_size), 0
    stream: Any = archive.open(_member(name))
    with stream:
        while n_read := stream.readinto(memoryview(data)[at : at + CHUNK]):
            at += n_read
    if at < len(data) or not isinstance(record, dict) or hashlib.sha256(data).hexdigest() != record.get("sha256"):
        raise ValueError(f"array {name!r} was altered: its sha256 is not the recorded one")
    try:
        if not DTYPE.fullmatch(record["dtype"]):
            raise ValueError(f"its dtype is {record['dtype']}")
        shape, dtype = tuple(record["shape"]), np.dtype(record["dtype"])
        offset = len(data) - math.prod(shape) * dtype.itemsize
        if data[:8] != b"\x93NUMPY\x01\x00" or offset != 10 + int.from_bytes(data[8:10], "little"):
            raise ValueError("its size is not that of its shape and dtype")
        # The size of the member does not limit the dimensions of an array without entries.
        if 0 in shape and math.prod(filter(None, shape)) > max(MAX_EMPTY, size):
            raise ValueError(f"it has no entries, but the shape {shape}")
        return np.ndarray(shape, dtype, data, offset, order="F" if record["is_fortran"] else "C")
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"array {name!r} cannot be restored ({error})") from error
