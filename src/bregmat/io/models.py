"""Model files, written by :func:`save` and read by :func:`load`. They contain no code, and nothing is pickled or unpickled.

A damaged file raises `ModelFileError`.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, TypeVar, overload

import numpy as np

from bregmat.io.archive import ModelFileError, read_archive, write_archive
from bregmat.io.classes import SAVABLE, class_named, is_known
from bregmat.io.state import from_state, plain, plain_restored, to_state

__all__ = ["ModelFileError", "load", "read_manifest", "save"]

T = TypeVar("T")
# Errors that occur when a state does not fit its class.
_WRONG_STATE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, Warning)


def save(path: str | os.PathLike[str], obj: Any, *, info: dict[str, Any] | None = None) -> None:
    """Write a result or a fitted estimator to a file.

    Parameters
    ----------
    path : path
        The file is replaced after everything has been written; a crash leaves the old file unchanged.
    obj : object
        A result, an estimator or a learner of this library.
        Callbacks, preprocessors, random generators and input data are not saved.
    info : dict, optional
        Plain values that are saved with the model, such as feature names; `read_manifest` returns them.

    Raises
    ------
    TypeError
        If the class is not savable, or the object contains a value that cannot be saved, such as a function; the message names it.
    OSError
        If the path cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import bregmat
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "iris.bm"
    ...     bregmat.save(path, bregmat.MetricLearner(random_state=0).fit(X, y))
    ...     bregmat.load(path).transform(X).shape[0]
    150
    """
    if not isinstance(info, dict | None):
        raise TypeError(f"info must be None or a dict; got {info!r}.")
    name = type(obj).__name__
    if name not in SAVABLE or not is_known(type(obj)):
        hint = " (save(path, model): the file comes first)" if isinstance(obj, str | os.PathLike) else ""
        if hasattr(obj, "named_steps"):
            hint = " (of a pipeline, save the step: pipeline['metriclearner']; joblib.dump keeps all of it)"
        raise TypeError(f"cannot save a {type(obj).__module__}.{name}{hint}; savable: {', '.join(sorted(SAVABLE))}")
    kept = plain(info or {}, "info")
    state, arrays = to_state(obj)
    write_archive(path, {"class": name, "info": kept, "state": state}, arrays)


@overload
def load(path: str | os.PathLike[str]) -> Any: ...
@overload
def load(path: str | os.PathLike[str], kind: type[T]) -> T: ...
def load(path: str | os.PathLike[str], kind: type[Any] = object) -> Any:
    """Read a model that :func:`save` wrote.

    Parameters
    ----------
    path : path
    kind : type, optional
        The class that is expected, such as ``MetricLearner``, or a base class of it. Type checkers then know what is returned.

    Returns
    -------
    object
        An object of the saved class, whose arrays are writable.

    Raises
    ------
    ModelFileError
        If the file is not a valid model file, or contains an object of another class.
    FileNotFoundError, PermissionError
        If the file does not exist or cannot be read.
    TypeError
        If ``kind`` is no class.

    Notes
    -----
    Nothing is unpickled, and no code from the file is executed. Peak memory is the size of the arrays plus a megabyte.

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
    if not isinstance(kind, type):
        raise TypeError(f"kind must be a class, such as MetricLearner; got {kind!r}.")
    manifest, arrays = _read(path)
    name, state = manifest["class"], manifest["state"]
    try:
        if issubclass(cls := class_named(name), kind):
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)  # a complex array in place of a real one
                return from_state(cls, state, arrays)
    except _WRONG_STATE as error:
        raise ModelFileError(f"{path}: the state of this {name} cannot be restored ({error!r})") from error
    raise ModelFileError(f"{path} contains a {name}, not a {kind.__name__}")


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the manifest alone: class, versions, info, the state in its stored form; shape, dtype and sha256 of every array.

    Raises the same errors as :func:`load`.
    """
    manifest, _ = _read(path, has_arrays=False)
    try:
        return manifest | {"info": plain_restored(manifest["info"])}
    except _WRONG_STATE as error:
        raise ModelFileError(f"{path}: info cannot be read ({error!r})") from error


def _read(path: str | os.PathLike[str], *, has_arrays: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The manifest and the arrays of a model file; its class must be savable."""
    manifest, arrays = read_archive(path, has_arrays=has_arrays)
    name = manifest.get("class")
    if not isinstance(name, str) or name not in SAVABLE:
        raise ModelFileError(f"{path}: unknown class {name!r}; this bregmat knows {', '.join(sorted(SAVABLE))}")
    return manifest, arrays
