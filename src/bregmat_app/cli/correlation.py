"""The work of `bregmat correlation`: read a square table, repair it, write the result and say what changed."""

from pathlib import Path
from typing import Any

import numpy as np

from bregmat.applications.correlation import (
    CorrelationResult,
    ShrinkResult,
    factor_correlation,
    nearest_correlation,
    shrink_correlation,
)
from bregmat.base.html import listed, number
from bregmat.io import check_writable, tables
from bregmat.io.sources import COLUMNAR, TEXT, source_of
from bregmat_app.cli import show
from bregmat_app.cli.messages import for_command

__all__ = ["repair_file"]

KINDS = (*TEXT, *COLUMNAR)
INDEX_NAMES = ("", "index", "Unnamed: 0", "__index_level_0__")  # what pandas calls an index without a name
IDENTITY = "identity"  # names a target that needs no file
SYMMETRIC = 1e-6  # difference between C_ij and C_ji that is taken for rounding in the file


def repair_file(
    path: Path,
    out: Path | None,
    weights: Path | None = None,
    target: Path | None = None,
    *,
    keep_variances: bool = False,
    n_factors: int | None = None,
    **settings: Any,
) -> int:
    """Repair the matrix of a file, write it, print a table of the changes; the exit code.

    Parameters
    ----------
    path, out, weights, target : Path
        Tables; all but `path` may be None, and `target` may be the word "identity".
    keep_variances : bool
        Whether to write a covariance, with the variances of the one that was read.
    n_factors : int, optional
        Number of factors that the result shall have.
    **settings
        `min_eig`, `scale` and `bounds` of :func:`bregmat.nearest_correlation`.

    Raises
    ------
    ValueError
        If a file holds no square, symmetric table of numbers, or the library refuses it.
    """
    scale = settings.pop("scale", False) or keep_variances
    names, C = read_matrix(
        path, may_be_empty=weights is not None, hint="; --weights FILE says which entries are unknown"
    )
    if weights is not None:
        settings["weights"] = _read_beside(weights, path, names, may_be_empty=True)
        _check_unknown(path, C, weights, settings["weights"], names)
    towards = None if target is None or str(target) == IDENTITY else _read_beside(target, path, names)
    if out is not None:
        check_writable(out)
    result: CorrelationResult | ShrinkResult
    if target is not None:
        result = shrink_correlation(C, towards, min_eig=settings["min_eig"], scale=scale or None)
    elif n_factors is not None:
        result = factor_correlation(C, n_factors, scale=scale or None)
    else:
        result = nearest_correlation(C, scale=scale or None, **settings)
    if scale:
        deviations = np.sqrt(np.diagonal(C))
        C = C / np.outer(deviations, deviations)
    has_matrix = result.status in ("OPTIMAL", "FEASIBLE")
    rows = [
        ("status", f"{result.status}: {for_command(result.advice)}"),
        *(_changes(names, C, result) if has_matrix else ()),
    ]
    show.stdout().print(show.name_value_table(rows, f"{path.name}: {len(C)} x {len(C)} correlations"))
    if out is not None and has_matrix:
        written = result.covariance if keep_variances else result.matrix
        tables.write(out, {"": np.array(names), **dict(zip(names, np.asarray(written).T))})
        show.wrote("matrix", out)
    return show.exit_code(result)


def _read_beside(table: Path, path: Path, names: list[str], *, may_be_empty: bool = False) -> np.ndarray:
    """Read a matrix with the names of the one in `path`."""
    others, A = read_matrix(table, may_be_empty=may_be_empty)
    if others != names:
        raise ValueError(f"{table}: the columns are {listed(others, 3)}, and those of {path} are {listed(names, 3)}")
    return A


def read_matrix(path: Path, *, may_be_empty: bool = False, hint: str = "") -> tuple[list[str], np.ndarray]:
    """Read names and a symmetric matrix; a first column of words, or without a name, holds the names of the rows.

    A cell that is empty, where cells may be, is NaN; else `hint` follows the error about it.
    """
    source = source_of(path, "read a matrix from", KINDS)
    table = tables.read(source)
    columns = dict(table.columns)
    first = next(iter(columns))
    if table.text is not None and not table.text.has_header and _has_numbered_names(table):
        table = tables.read(source, has_header=True)
        columns = dict(table.columns)
        first = next(iter(columns))
    if first in INDEX_NAMES or table.numbers(first)[1].all():
        rows = [str(name) for name in columns.pop(first)]
        if rows != list(columns) and rows != [str(k) for k in range(len(rows))]:
            raise ValueError(
                f"{path}: the first column, {listed(rows, 3)}, does not hold the names of the columns in order"
            )
    names = list(columns)
    n = len(columns[names[0]])
    if len(names) != n:
        raise ValueError(f"{path}: {n} rows and {len(names)} columns of numbers; a correlation matrix is square")
    C = np.empty((n, n))
    for j, name in enumerate(names):
        C[:, j], is_word = table.numbers(name)
        bad = np.flatnonzero(is_word | np.isinf(C[:, j]) | (np.isnan(C[:, j]) & (not may_be_empty)))
        if len(bad):
            raise table.not_a_number(int(bad[0]), name, hint if np.isnan(C[bad[0], j]) and not is_word[bad[0]] else "")
    i, j = (int(k) for k in np.unravel_index(np.argmax(np.nan_to_num(np.abs(C - C.T))), C.shape))
    if abs(C[i, j] - C[j, i]) > SYMMETRIC * max(1.0, abs(C[i, j])):
        raise ValueError(
            f"{path}: not symmetric: row {names[i]!r}, column {names[j]!r} is {C[i, j]:g}, and its mirror image {C[j, i]:g}"
        )
    return names, (C + C.T) / 2


def _check_unknown(path: Path, C: np.ndarray, weights: Path, W: np.ndarray, names: list[str]) -> None:
    """Raise `ValueError` if an entry is empty that has a weight."""
    unknown = np.argwhere(np.isnan(C) & (np.nan_to_num(W) != 0))
    if len(unknown):
        i, j = unknown[0]
        raise ValueError(
            f"{path}: the entry of {names[i]!r} and {names[j]!r} is empty, and its weight in {weights} is {W[i, j]:g}; "
            "the weight of an unknown entry is 0 or empty"
        )


def _has_numbered_names(table: tables.Table) -> bool:
    """Whether the first line and the first column are the same numbers beside an empty corner, as pandas writes default names."""
    cells = np.column_stack([table.numbers(name)[0] for name in table.columns])
    is_square = cells.shape[0] == cells.shape[1]
    return is_square and bool(np.isnan(cells[0, 0])) and np.array_equal(cells[0, 1:], cells[1:, 0])


def _changes(names: list[str], C: np.ndarray, result: CorrelationResult | ShrinkResult) -> list[tuple[str, Any]]:
    """Rows of the table that compares the matrix before and after."""
    X = np.asarray(result.matrix)
    filled = ", unknown entries repaired" if np.isnan(C).any() else ""
    C = np.where(np.isnan(C), X, C)  # what is unknown does not change
    change = np.abs(X - C)
    i, j = np.unravel_index(int(np.argmax(change)), change.shape)
    largest, old, new = (number(float(values[i, j])) for values in (change, C, X))
    before, after = (float(np.linalg.eigvalsh(matrix)[0]) for matrix in (C, X))
    return [
        ("distance (Frobenius norm)", result.residual),
        (f"smallest eigenvalue before{filled}", before),
        ("smallest eigenvalue after", 0.0 if abs(after) < 1e-14 else after),  # a rounding error of zero
        ("largest change", f"{largest} at {names[i]}, {names[j]}: {old} to {new}"),
        *([("share of the target", result.alpha)] if isinstance(result, ShrinkResult) else []),
        ("relative gap", float(result.gap)),
    ]
