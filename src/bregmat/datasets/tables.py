"""Comma-separated files of the UCI archive."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bregmat.datasets.catalogue import Table
from bregmat.datasets.types import Dataset


def read_table(name: str, table: Table, paths: Sequence[Path]) -> Dataset:
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
