"""Archives of arrays: a zip of uncompressed .npy members with a JSON manifest that contains the sha256 of each member.

Layout of format 3::

    manifest.json      class, format_version, bregmat version, info, state; shape, dtype and sha256 of every array
    arrays/NAME.npy    one per array, not compressed, so that other programs can map them
    (zip comment)      sha256 of manifest.json
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import zipfile
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from bregmat import __version__
from bregmat.io.paths import as_path, atomic_write, check_readable
from bregmat.io.state import ARRAY_NAME, MAX_DEPTH, STORED_KINDS, depth_of

__all__ = ["ModelFileError", "read_archive", "write_archive"]

FORMAT = "bregmat-model"
FORMAT_VERSION = 3
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_EMPTY = 2**20  # product of the nonzero dimensions of an array without entries
CHUNK = 2**20  # bytes that are read at a time
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
            records[name] = {"shape": array.shape, "dtype": array.dtype.str, "sha256": hashed.sha256.hexdigest()}
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
        archive = _Archive(path, handle)
        names = archive.manifest["arrays"] if has_arrays else ()
        return archive.manifest, {name: archive.array(name) for name in names}


class _Archive:
    """An open model file. Members and manifest are checked when it is opened, each array when it is read."""

    def __init__(self, path: Path, handle: BinaryIO) -> None:
        self._path, self._size = path, os.fstat(handle.fileno()).st_size
        try:
            self._zip = zipfile.ZipFile(handle)
        except (*_BROKEN_ZIP, ValueError, OverflowError) as error:
            raise self._wrong(f"not a bregmat model, or cut off ({error})") from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            self._check_member(info)
            self._members[info.filename] = info
        if sum(info.file_size for info in self._members.values()) > self._size:
            raise self._wrong("members overlap")
        if MANIFEST not in self._members:
            raise self._wrong(f"no {MANIFEST}: not a bregmat model")
        if self._members[MANIFEST].file_size > MAX_MANIFEST_BYTES:
            raise self._wrong(f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES} bytes")
        self.manifest = self._checked_manifest(bytes(self._read(MANIFEST)))

    def _wrong(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self._path}: {what}")

    def _check_member(self, info: zipfile.ZipInfo) -> None:
        name = info.filename
        is_array = name.startswith("arrays/") and name.endswith(".npy") and ARRAY_NAME.fullmatch(name[7:-4])
        if name != MANIFEST and not is_array:
            raise self._wrong(f"unexpected member {name!r}")
        if name in self._members:
            raise self._wrong(f"member {name!r} occurs twice")
        # A member without compression cannot exceed the file, so a small file never causes a large allocation.
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1 or info.file_size != info.compress_size:
            raise self._wrong(f"member {name!r} is compressed or encrypted")
        if info.file_size + info.header_offset > self._size:
            raise self._wrong(f"cut off inside member {name!r}")

    def _read(self, name: str) -> bytearray:
        """Content of one member, whose CRC is checked."""
        buffer, at = bytearray(self._members[name].file_size), 0
        try:
            with self._zip.open(self._members[name]) as stream:
                while chunk := stream.read(CHUNK):
                    buffer[at : at + len(chunk)] = chunk
                    at += len(chunk)
        except (*_BROKEN_ZIP, RuntimeError) as error:
            raise self._wrong(f"member {name!r} is damaged ({error})") from error
        if at < len(buffer):
            raise self._wrong(f"cut off inside member {name!r}")
        return buffer

    def _checked_manifest(self, text: bytes) -> dict[str, Any]:
        try:
            manifest = json.loads(text.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"{MANIFEST} cannot be read ({error})") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise self._wrong(f"not a bregmat model: {MANIFEST} does not say format {FORMAT!r}")
        if depth_of(manifest) > MAX_DEPTH:
            raise self._wrong(f"{MANIFEST} is nested more than {MAX_DEPTH} deep")
        version = manifest.get("format_version")
        if version != FORMAT_VERSION or type(version) is not int:
            is_newer = type(version) is int and version > FORMAT_VERSION
            advice = "Update bregmat" if is_newer else "Fit and save the model again"
            written = f"written in format {version!r} by bregmat {manifest.get('bregmat')}"
            raise self._wrong(
                f"{written}; this is bregmat {__version__}, which reads format {FORMAT_VERSION}. {advice}"
            )
        if self._zip.comment != comment_of(text):
            raise self._wrong(f"{MANIFEST} was altered: its sha256 is not the recorded one")
        if not all(isinstance(manifest.get(key), dict) for key in ("info", "state", "arrays")):
            raise self._wrong(f"{MANIFEST} lacks info, state or arrays")
        expected = {_member(name) for name in manifest["arrays"]}
        if missing := sorted(expected - set(self._members)):
            raise self._wrong(f"members are missing: {', '.join(missing)}")
        if extra := sorted(set(self._members) - expected - {MANIFEST}):
            raise self._wrong(f"members that the manifest does not name: {', '.join(extra)}")
        return manifest

    def array(self, name: str) -> np.ndarray:
        """One array; the sha256 is checked, and the .npy header must state the size of the member."""
        record = self.manifest["arrays"][name]
        data = self._read(_member(name))
        if not isinstance(record, dict) or hashlib.sha256(data).hexdigest() != record.get("sha256"):
            raise self._wrong(f"array {name!r} was altered: its sha256 is not the recorded one")
        stream = io.BytesIO(memoryview(data)[:65536])
        try:
            shape, is_fortran, dtype = _npy_header(stream)
        except (ValueError, TypeError, EOFError) as error:
            raise self._wrong(f"array {name!r} has no valid .npy header ({error})") from error
        offset, size = stream.tell(), math.prod(shape)
        if dtype.kind not in STORED_KINDS or dtype.itemsize == 0 or size * dtype.itemsize != len(data) - offset:
            raise self._wrong(f"array {name!r} does not have the size its header states, or holds objects")
        # The size of the member does not limit the dimensions of an array without entries.
        if size == 0 and math.prod(filter(None, shape)) > max(MAX_EMPTY, self._size):
            raise self._wrong(f"array {name!r} has no entries, but its header states the shape {shape}")
        return np.ndarray(shape, dtype, data, offset, order="F" if is_fortran else "C")


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the order is Fortran order, and dtype."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"header version {version}")
