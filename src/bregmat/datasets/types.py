"""What a loader returns, and the error of one that finds nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
