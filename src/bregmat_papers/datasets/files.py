"""What a loader returns, and its files: found in a folder, checked by sha256, or fetched where that was asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bregmat_papers.datasets.catalogue import File


class DataNotFoundError(FileNotFoundError):
    """The files of a data set are neither bundled nor where `BREGMAT_DATA` points; the message says what to do."""


@dataclass(frozen=True)
class Dataset:
    """Points with class labels.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64 (MNIST: float32)
        Points, in the file's own units; nothing is scaled.
    y : ndarray of shape (n,), int64
        Class of every row, a position in `target_names`.
    feature_names, target_names : tuple of str
    name : str
        The name it was loaded by.
    source : str
        Where the rows come from, and what was left out.
    """

    X: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    name: str
    source: str

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Dataset({self.name!r}, {n} x {d}, {len(self.target_names)} classes, {self.source})"


def data_folder(data_dir: str | os.PathLike | None) -> Path | None:
    """The folder that the caller names, else the one of `BREGMAT_DATA`, else None."""
    folder = data_dir if data_dir is not None else os.environ.get("BREGMAT_DATA")
    if folder is None:
        return None
    if not Path(folder).is_dir():
        raise DataNotFoundError(f"BREGMAT_DATA (or data_dir) is {os.fspath(folder)!r}, which is not a folder")
    return Path(folder)


def find(files: Sequence[File], folder: Path | None) -> tuple[Path, ...] | None:
    """Paths of all files in `folder`, verified; None if one is absent."""
    if folder is None:
        return None
    paths = tuple(folder / file.name for file in files)
    if not all(path.is_file() for path in paths):
        return None
    for path, file in zip(paths, files):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != file.sha256:
            raise ValueError(f"{path}: not the published file (sha256 is {digest}, expected {file.sha256}); replace it")
    return paths


def find_or_fetch(name: str, files: Sequence[File], folder: Path | None, download: bool) -> tuple[Path, ...]:
    """Paths of all files of the set ``name``.

    Raises
    ------
    DataNotFoundError
        If one is absent and ``download`` is not set.
    """
    paths = find(files, folder)
    if paths is None and download:
        paths = tuple(fetch(file) for file in files)
    if paths is None:
        raise DataNotFoundError(_advice(name, files, folder))
    return paths


def fetch(file: File) -> Path:
    """Download one file through pooch, which checks its sha256."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError('download=True needs pooch: pip install "bregmat[data]"') from error
    try:
        path = pooch.retrieve(
            file.url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=pooch.os_cache("bregmat")
        )
    except OSError as error:
        raise DataNotFoundError(f"{file.url} cannot be fetched: {error}") from error
    return Path(path)


def _advice(name: str, files: Sequence[File], folder: Path | None) -> str:
    listed = ", ".join(file.name for file in files)
    where = "BREGMAT_DATA is not set" if folder is None else f"not all of them are in {os.fspath(folder)!r}"
    return (
        f"data set {name!r} needs {listed}, and {where}. Set BREGMAT_DATA to a folder with these files "
        f"(from {files[0].url.rsplit('/', 1)[0]}/), or have them fetched (download=True; on the command line --download)"
    )
