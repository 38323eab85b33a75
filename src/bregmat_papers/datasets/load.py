"""Small labelled data sets by name: scikit-learn's bundled ones, and the UCI files of the papers, checked by sha256."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bregmat_papers.datasets.catalogue import BUNDLED, UCI, Table
from bregmat_papers.datasets.files import Dataset, data_folder, find, find_or_fetch


def dataset_names() -> tuple[str, ...]:
    """Names that `load_dataset` knows, in alphabetical order."""
    return tuple(sorted({*BUNDLED, *UCI}))


def load_dataset(name: str, *, data_dir: str | os.PathLike | None = None, download: bool = False) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `dataset_names()`.
    data_dir : path, optional
        Folder with the UCI files. Default: the environment variable `BREGMAT_DATA`. A file found there is read only if
        its sha256 is that of the UCI archive.
    download : bool, default False
        Fetch missing files from the UCI archive into pooch's cache folder, checked by sha256. Never done unasked.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        Unknown name, or a file whose content is not the archive's.
    DataNotFoundError
        Neither bundled with scikit-learn nor found.

    Notes
    -----
    `wine`, `iris`, `digits`, `digits389` and `breast-cancer-diagnostic` come with scikit-learn; the first two are read
    from `data_dir` when it has them (UCI's iris differs from scikit-learn's in two rows). `pendigits389` is a seeded
    sample of 317 of the 3,165 rows of the digits 3, 8 and 9: the 317 rows of Kulis 2009 are not published.
    `soybean-large` joins the files `.data` and `.test`. Rows with an unknown value ("?") are left out, columns of words
    become codes 0, 1, 2, ... in the order of their first appearance.
    """
    if name not in BUNDLED and name not in UCI:
        raise ValueError(f"name={name!r} is no known data set; known: {', '.join(dataset_names())}")
    folder = data_folder(data_dir)
    if name in UCI:
        table = UCI[name]
        if name in BUNDLED:  # scikit-learn's copy does where the folder has none
            paths = find(table.files, folder)
        else:
            paths = find_or_fetch(name, table.files, folder, download)
        if paths is not None:
            return _read_table(name, table, paths)
    return _load_bundled(name)


def _load_bundled(name: str) -> Dataset:
    import sklearn.datasets

    loader, kept = BUNDLED[name]
    bunch = getattr(sklearn.datasets, loader)()
    X = np.asarray(bunch.data, dtype=np.float64)
    y = np.asarray(bunch.target, dtype=np.int64)
    target_names = tuple(str(target) for target in bunch.target_names)
    source = "bundled with scikit-learn"
    if kept is not None:
        mask = np.isin(y, kept)
        X, y = X[mask], np.searchsorted(kept, y[mask])
        target_names = tuple(target_names[k] for k in kept)
        source += f", digits {', '.join(target_names)} only"
    return Dataset(X, y, tuple(str(f) for f in bunch.feature_names), target_names, name, source)


def _read_table(name: str, table: Table, paths: Sequence[Path]) -> Dataset:
    """The rows of all files; rows with "?" left out, words as codes."""
    rows: list[list[str]] = []
    n_unknown = 0
    for path in paths:
        with path.open(newline="", encoding="ascii") as handle:
            for row in csv.reader(handle, skipinitialspace=True):
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if "?" in cells:
                    n_unknown += 1
                else:
                    rows.append(cells)
    label = table.label % len(rows[0])
    if table.classes:
        rows = [row for row in rows if row[label] in table.classes]
    source = "UCI: " + " + ".join(path.name for path in paths)
    if n_unknown:
        source += f"; {n_unknown} rows with unknown values left out"
    if table.sample is not None:
        source += f"; seeded sample of {table.sample} of {len(rows)} rows"
        kept = np.sort(np.random.default_rng(0).choice(len(rows), table.sample, replace=False))
        rows = [rows[i] for i in kept]
    target_names, y = np.unique([row[label] for row in rows], return_inverse=True)
    features = [c for c in range(len(rows[0])) if c != label and c not in table.drop]
    X = np.column_stack([_codes([row[c] for row in rows]) for c in features])
    names = table.feature_names or tuple(f"x{c}" for c in range(len(features)))
    return Dataset(X, y.astype(np.int64), names, tuple(target_names.tolist()), name, source)


def _codes(cells: list[str]) -> np.ndarray:
    """Numbers as they are; a column with words as codes by first appearance (the documented order in the UCI files)."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        order = {word: code for code, word in enumerate(dict.fromkeys(cells))}
        return np.array([order[cell] for cell in cells], dtype=np.float64)
