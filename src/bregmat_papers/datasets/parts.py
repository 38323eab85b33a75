"""Data sets that come in two parts, training and test."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import numpy as np

from bregmat_papers.datasets.catalogue import MNIST, SONAR_SPLIT
from bregmat_papers.datasets.files import Dataset, data_folder, find_or_fetch

_RECORD = re.compile(r"(\*?)(C[MR]\d+):\s*\{([^}]*)\}")  # *CM078: {60 numbers}


def load_sonar_split(*, data_dir: str | os.PathLike | None = None, download: bool = False) -> tuple[Dataset, Dataset]:
    """Sonar, split by aspect angle as in Gorman and Sejnowski (1988): 104 training and 104 test signals.

    Parameters
    ----------
    data_dir, download
        As for :func:`load_dataset`; the files are ``sonar.rocks`` and ``sonar.mines``.

    Returns
    -------
    train, test : Dataset
        104 x 60 each, values in [0, 1]; classes M (metal cylinder, 0) and R (rock, 1), rocks first. Together the rows
        of ``load_dataset("sonar")``.

    Raises
    ------
    ValueError, DataNotFoundError
        As :func:`load_dataset`.
    """
    rows, labels, training = [], [], []
    paths = find_or_fetch("sonar-split", SONAR_SPLIT, data_folder(data_dir), download)
    for path, label in zip(paths, (1, 0)):
        for star, _, numbers in _RECORD.findall(path.read_text(encoding="ascii")):
            rows.append([float(x) for x in numbers.split()])
            labels.append(label)
            training.append(star == "*")
    X, y, mask = np.array(rows), np.array(labels, dtype=np.int64), np.array(training)
    names = tuple(f"x{c}" for c in range(X.shape[1]))
    source = "UCI: sonar.rocks + sonar.mines, aspect-angle split"
    train, test = (
        Dataset(X[part], y[part], names, ("M", "R"), name, source)
        for part, name in ((mask, "sonar-train"), (~mask, "sonar-test"))
    )
    return train, test


def load_mnist(*, data_dir: str | os.PathLike | None = None, download: bool = False) -> tuple[Dataset, Dataset]:
    """MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28 pixels.

    Parameters
    ----------
    data_dir, download
        As for :func:`load_dataset`; the files are the four published ``*-ubyte.gz``.

    Returns
    -------
    train, test : Dataset
        ``X`` of shape (60000, 784) and (10000, 784), float32, grey values 0 ... 255, row by row.

    Raises
    ------
    ValueError, DataNotFoundError
        As :func:`load_dataset`.
    """
    folder, parts = data_folder(data_dir), []
    names = tuple(f"pixel{row}_{column}" for row in range(28) for column in range(28))
    for part, files in MNIST.items():
        images, labels = (_read_idx(path) for path in find_or_fetch("mnist", files, folder, download))
        X = images.reshape(len(images), -1).astype(np.float32)
        digits = tuple(str(k) for k in range(10))
        source = " + ".join(file.name for file in files)
        parts.append(Dataset(X, labels.astype(np.int64), names, digits, f"mnist-{part}", source))
    return parts[0], parts[1]


def _read_idx(path: Path) -> np.ndarray:
    """Bytes of an IDX file (LeCun): two zero bytes, type 8, number of axes, big-endian lengths, values."""
    with gzip.open(path) as handle:
        data = handle.read()
    axes = data[3]
    shape = np.frombuffer(data, ">i4", axes, 4)
    if data[:3] != b"\0\0\x08" or len(data) != 4 + 4 * axes + int(shape.prod()):
        raise ValueError(f"{path}: not an IDX file of bytes, or cut short")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
