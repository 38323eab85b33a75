"""Models as files: a zip of uncompressed .npy members, a JSON manifest and a sha256 for each; never pickle.

Layout of format 1::

    manifest.json      class, format_version, bregmat version, state, info, and for every array its member and sha256
    arrays/NAME.npy    one per array, stored (not deflated), so that other programs can map them
    (zip comment)      sha256 of manifest.json

A damaged file raises `ModelFileError`; it never loads as something else.
"""

import hashlib
import importlib
import io
import json
import math
import os
import re
import struct
import warnings
import zipfile
from typing import IO, Any

import numpy as np

from bregmat import __version__
from bregmat.io.paths import as_path, atomic_write

__all__ = ["ModelFileError", "load", "read_manifest", "save"]

FORMAT = "bregmat-model"
FORMAT_VERSION = 1

# Class name in the file -> module it is imported from when such a file is read.
SAVABLE = {
    "BoostResult": "bregmat.applications.simplex.boosting",
    "CorrelationResult": "bregmat.applications.correlation.result",
    "CutResult": "bregmat.applications.cut.result",
    "DistributionResult": "bregmat.applications.simplex.nearest",
    "ITML": "bregmat.pairs.itml",
    "ITML_Supervised": "bregmat.pairs.itml",
    "KernelKMeans": "bregmat.estimators.cluster",
    "KernelLearner": "bregmat.estimators.kernel",
    "KernelLearnerCV": "bregmat.estimators.kernel_cv",
    "MarginResult": "bregmat.margin.result",
    "MarginSVC": "bregmat.estimators.svm",
    "MatrixExponentiatedGradient": "bregmat.online.gradient",
    "MetricLearner": "bregmat.estimators.metric",
    "MetricLearnerCV": "bregmat.estimators.metric_cv",
    "OnlineLogDet": "bregmat.online.logdet",
    "OnlinePCA": "bregmat.online.pca",
    "PairsLearner": "bregmat.pairs.learner",
    "QPResult": "bregmat.quadratic.result",
    "MatrixResult": "bregmat.run.result",
    "SemidefiniteResult": "bregmat.applications.semidefinite.result",
    "UnfoldResult": "bregmat.applications.unfolding.result",
}

# Names that classes had in earlier files.
_RENAMED = {"Result": "MatrixResult"}

_MANIFEST = "manifest.json"
_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}")
_MAX_MANIFEST_BYTES = 64 * 2**20
# Of lists and objects in a manifest: what reads them is recursive, and the state of an estimator needs about 10.
_MAX_DEPTH = 50
_MAX_EMPTY = 2**20  # product of the other dimensions of an array that has no entries
_BROKEN_ZIP = (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, struct.error, EOFError, OSError)


class ModelFileError(ValueError):
    """A model file that is no zip, cut off, altered, incomplete, of a newer format or of an unknown class.

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


def save(path: str | os.PathLike[str], obj: Any, *, info: dict[str, Any] | None = None) -> None:
    """Write a model to a file.

    Parameters
    ----------
    path : path
        Replaced in one step when everything is written; a crash leaves the old file as it was.
    obj : object
        A class listed in `bregmat.io.models.SAVABLE`, with `to_state()` that gives a dict of plain values and a dict
        of arrays, and `from_state(meta, arrays)`.
    info : dict, optional
        Plain values kept beside the model (feature names, where the data came from); `read_manifest` shows them.

    Raises
    ------
    TypeError
        A class that is not savable, a state that is not plain, or an array of Python objects.
    OSError
        The path cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import bregmat
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "iris.bm"
    ...     bregmat.save(path, bregmat.MetricLearner(random_state=0).fit(X, y))
    ...     bregmat.load(path).transform(X).shape
    (150, 4)
    """
    if not isinstance(info, dict | None):
        raise TypeError(f"info must be None or a dict; got {info!r}.")
    name = type(obj).__name__
    if SAVABLE.get(name) != type(obj).__module__:
        hint = " (save(path, model): the file comes first)" if isinstance(obj, str | os.PathLike) else ""
        if hasattr(obj, "named_steps"):
            hint = " (of a pipeline, save the step: pipeline['metriclearner']; joblib.dump keeps all of it)"
        raise TypeError(f"cannot save a {type(obj).__module__}.{name}{hint}; savable: {', '.join(sorted(SAVABLE))}")
    meta, arrays = obj.to_state()
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "bregmat": __version__,
        "class": name,
        "info": _plain(info or {}, "info", _MAX_DEPTH - 1),
        "state": _plain(meta, "state", _MAX_DEPTH - 1),
        "arrays": {},
    }
    members = {key: _array(key, value) for key, value in arrays.items()}
    with atomic_write(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for key, array in members.items():
            with archive.open(zipfile.ZipInfo(_member(key)), "w", force_zip64=array.nbytes > 2**30) as stream:
                digest = _Hashed(stream)
                np.lib.format.write_array(digest, array, allow_pickle=False)
            manifest["arrays"][key] = {"shape": array.shape, "dtype": array.dtype.str, "sha256": digest.hexdigest()}
        text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=True).encode("ascii")
        archive.writestr(zipfile.ZipInfo(_MANIFEST), text)
        archive.comment = _comment(text)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    object
        Of the class that was saved; its arrays are writable and owned by it.

    Raises
    ------
    ModelFileError
        Anything wrong with the file.
    FileNotFoundError, PermissionError
        No such file, or no permission to read it.

    Notes
    -----
    Nothing is unpickled and no code of the file is run. Peak memory is the size of the arrays plus a megabyte.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import bregmat
    >>> result = bregmat.nnqp([[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "program.bm"
    ...     bregmat.save(path, result)
    ...     bool(np.array_equal(bregmat.load(path).x, result.x))
    True
    """
    with _Reader(path) as reader:
        name = _RENAMED.get(reader.manifest["class"], reader.manifest["class"])
        arrays = {key: reader.array(key) for key in reader.manifest["arrays"]}
        state = reader.restored("state")
    cls = getattr(importlib.import_module(SAVABLE[name]), name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)  # an imaginary part where there is none
            return cls.from_state(state, arrays)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, Warning) as error:
        raise ModelFileError(f"{os.fspath(path)}: the state of this {name} is not complete ({error!r})") from error


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest alone: class, versions, info, state; shape, dtype, sha256 of every array. Raises as `load`."""
    with _Reader(path) as reader:
        return {**reader.manifest, "info": reader.restored("info"), "state": reader.restored("state")}


class _Reader:
    """An open model file whose manifest and list of members have been checked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        self._handle = self.path.open("rb")
        try:
            self._size = os.fstat(self._handle.fileno()).st_size
            self._archive = self._open_zip()
            self._infos = self._members()
            self.manifest = self._read_manifest()
        except BaseException:
            self._handle.close()
            raise

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *exc: object) -> None:
        self._handle.close()

    def _wrong(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}")

    def _open_zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._handle)
        except (*_BROKEN_ZIP, ValueError, OverflowError) as error:
            raise self._wrong(f"not a bregmat model, or cut off ({error})") from error

    def _members(self) -> dict[str, zipfile.ZipInfo]:
        infos: dict[str, zipfile.ZipInfo] = {}
        for info in self._archive.infolist():
            name = info.filename
            if name != _MANIFEST and not (
                name.startswith("arrays/") and name.endswith(".npy") and _ARRAY_NAME.fullmatch(name[7:-4])
            ):
                raise self._wrong(f"unexpected member {name!r}")
            if name in infos:
                raise self._wrong(f"member {name!r} occurs twice")
            # Stored members cannot be larger than the file: no decompression bombs, no absurd allocations.
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1 or info.file_size != info.compress_size:
                raise self._wrong(f"member {name!r} is compressed or encrypted")
            if info.file_size + info.header_offset > self._size:
                raise self._wrong(f"cut off inside member {name!r}")
            infos[name] = info
        if sum(info.file_size for info in infos.values()) > self._size:
            raise self._wrong("members overlap")
        if _MANIFEST not in infos:
            raise self._wrong(f"no {_MANIFEST}: not a bregmat model")
        if infos[_MANIFEST].file_size > _MAX_MANIFEST_BYTES:
            raise self._wrong(f"{_MANIFEST} is larger than {_MAX_MANIFEST_BYTES} bytes")
        return infos

    def _read(self, name: str) -> bytearray:
        """Content of one member; the zip's CRC is checked on the way."""
        buffer = bytearray(self._infos[name].file_size)
        view = memoryview(buffer)
        try:
            with self._archive.open(self._infos[name]) as stream:
                while len(view):
                    chunk = stream.read(min(len(view), 2**20))
                    if not chunk:
                        raise self._wrong(f"cut off inside member {name!r}")
                    view[: len(chunk)] = chunk
                    view = view[len(chunk) :]
                stream.read(1)  # the CRC is compared at the end of the member
        except (*_BROKEN_ZIP, RuntimeError) as error:
            raise self._wrong(f"member {name!r} is damaged ({error})") from error
        return buffer

    def _read_manifest(self) -> dict[str, Any]:
        text = bytes(self._read(_MANIFEST))
        try:
            manifest = json.loads(text.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"{_MANIFEST} cannot be read ({error})") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise self._wrong(f"not a bregmat model: {_MANIFEST} does not say format {FORMAT!r}")
        if _depth(manifest) > _MAX_DEPTH:
            raise self._wrong(f"{_MANIFEST} is nested more than {_MAX_DEPTH} deep")
        version = manifest.get("format_version")
        if type(version) is not int or version < 1:
            raise self._wrong(f"format_version={version!r} is not a version")
        if version > FORMAT_VERSION:
            raise self._wrong(
                f"written in format {version} by bregmat {manifest.get('bregmat')}; this is bregmat {__version__}, "
                f"which reads formats up to {FORMAT_VERSION}. Update bregmat"
            )
        if self._archive.comment != _comment(text):
            raise self._wrong(f"{_MANIFEST} was altered: its sha256 is not the recorded one")
        if str(manifest.get("class")) not in SAVABLE.keys() | _RENAMED.keys():
            raise self._wrong(
                f"unknown class {manifest.get('class')!r}; this bregmat knows {', '.join(sorted(SAVABLE))}"
            )
        if not all(isinstance(manifest.get(key), dict) for key in ("info", "state", "arrays")):
            raise self._wrong(f"{_MANIFEST} lacks info, state or arrays")
        expected = {_member(key) for key in manifest["arrays"]}
        if missing := sorted(expected - set(self._infos)):
            raise self._wrong(f"members are missing: {', '.join(missing)}")
        if extra := sorted(set(self._infos) - expected - {_MANIFEST}):
            raise self._wrong(f"members that the manifest does not name: {', '.join(extra)}")
        return manifest

    def restored(self, key: str) -> Any:
        try:
            return _restore(self.manifest[key])
        except (TypeError, ValueError, KeyError) as error:
            raise self._wrong(f"{key} of {_MANIFEST} cannot be read ({error})") from error

    def array(self, key: str) -> np.ndarray:
        """One array: sha256, then the .npy header, whose size must be that of the member."""
        record = self.manifest["arrays"][key]
        data = self._read(_member(key))
        if not isinstance(record, dict) or hashlib.sha256(data).hexdigest() != record.get("sha256"):
            raise self._wrong(f"array {key!r} was altered: its sha256 is not the recorded one")
        stream = io.BytesIO(memoryview(data)[:65536])
        try:
            version = np.lib.format.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"header version {version}")
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read_header(stream)
        except (ValueError, TypeError, EOFError) as error:
            raise self._wrong(f"array {key!r} has no valid .npy header ({error})") from error
        offset, size = stream.tell(), math.prod(shape)
        if dtype.kind not in "biufcSU" or dtype.itemsize == 0 or size * dtype.itemsize != len(data) - offset:
            raise self._wrong(f"array {key!r} does not have the size its header states, or holds objects")
        # no bytes stand behind the other dimensions
        if size == 0 and math.prod(filter(None, shape)) > max(_MAX_EMPTY, self._size):
            raise self._wrong(f"array {key!r} has no entries, but its header states the shape {shape}")
        return np.ndarray(shape, dtype, data, offset, order="F" if fortran else "C")


class _Hashed:
    """A write-only stream that hashes what passes through."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._sha256 = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        return self._stream.write(data)

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def _member(key: str) -> str:
    return f"arrays/{key}.npy"


def _comment(text: bytes) -> bytes:
    return b"sha256:" + hashlib.sha256(text).hexdigest().encode("ascii")


def _array(key: str, value: Any) -> np.ndarray:
    """A saved array: plain dtype (strings of any length are fine, objects are not), name fit for a file."""
    if not isinstance(key, str) or not _ARRAY_NAME.fullmatch(key):
        raise TypeError(f"array name {key!r} must be letters, digits, '_', '-' or '.'")
    array = np.asarray(value)
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    if array.dtype.kind not in "biufcSU":
        raise TypeError(f"array {key!r} has dtype {array.dtype}, which cannot be saved; use numbers or strings")
    return array


def _depth(value: Any) -> int:
    """How deep lists and objects are nested, level by level: a manifest may be deeper than recursion goes."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _plain(value: Any, where: str, levels: int) -> Any:
    """JSON-able copy of at most so many levels. What JSON has no word for is tagged: non-finite floats, tuples, NumPy scalars."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": repr(value)}
    if levels < 2:  # a tuple takes two
        raise TypeError(f"{where[:100]} is nested more than {_MAX_DEPTH} deep")
    if isinstance(value, list):
        return [_plain(item, f"{where}[{k}]", levels - 1) for k, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [_plain(item, f"{where}[{k}]", levels - 2) for k, item in enumerate(value)]}
    if isinstance(value, dict):
        if bad := [key for key in value if not isinstance(key, str) or key.startswith("$")]:
            raise TypeError(f"{where} has the key {bad[0]!r}; keys must be strings that do not start with '$'")
        return {key: _plain(item, f"{where}.{key}", levels - 1) for key, item in value.items()}
    raise TypeError(f"{where} is a {type(value).__name__}, which cannot be saved")


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(item) for item in value]
    if isinstance(value, dict):
        if "$float" in value:
            return float(value["$float"])
        if "$tuple" in value:
            return tuple(_restore(item) for item in value["$tuple"])
        return {key: _restore(item) for key, item in value.items()}
    return value
