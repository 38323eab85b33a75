"""The work of `bregmat correlation`: read a square table, repair it, write the result and say what changed."""

from pathlib import Path
from typing import Any

import numpy as np

from bregmat.applications.correlation import CorrelationResult, nearest_correlation
from bregmat.applications.correlation.input import FAR_DIAGONAL
from bregmat.base.html import listed, number
from bregmat.io import tables
from bregmat.io.paths import TABLES, known_path
from bregmat_app.cli import show
from bregmat_app.cli.options import CorrelationOptions

INDEX_NAMES = ("", "index", "Unnamed: 0", "__index_level_0__")  # what pandas calls an index without a name
MOST_PRINTED = 10  # variables of a matrix that is printed if it is not written
SYMMETRIC = 1e-6  # difference between C_ij and C_ji that is taken for rounding in the file


def repair_file(path: Path, options: CorrelationOptions) -> int:
    """Repair the matrix of a file, write it, print a table of the changes; the exit code.

    Files that hold no square, symmetric table of numbers raise `ValueError`.
    """
    options.check(path)
    weights, out = options.weights, options.out
    names, C, has_decimal_commas = read_matrix(
        path, hint=None if weights else "; --weights FILE says which entries are unknown"
    )
    F = None if options.fixed is None else np.nan_to_num(_read_beside(options.fixed, path, names)) != 0
    if F is not None:
        np.fill_diagonal(F, False)  # which is 1 in any case
    W = None if weights is None else _read_beside(weights, path, names)
    if W is not None:
        _check_weights(path, names, C, W, F, options)
    scaled: Any = options.scale or options.keep_variances or None
    if scaled is None and len(far := np.flatnonzero(np.abs(np.diagonal(C) - 1.0) > FAR_DIAGONAL)):
        name = names[far[0]]
        raise ValueError(
            f"{path}: row {name!r}, column {name!r} is {C[far[0], far[0]]:g}, where a correlation matrix has 1; if this is a covariance, "
            "--scale divides rows and columns by the standard deviations"
        )
    bounds = None if options.lower is None and options.upper is None else (options.lower, options.upper)
    result = nearest_correlation(C, fixed=F, weights=W, bounds=bounds, min_eig=options.min_eig, scale=scaled)
    if scaled:
        deviations = np.sqrt(np.diagonal(C))
        C = C / np.outer(deviations, deviations)
    has_matrix = result.status in ("OPTIMAL", "FEASIBLE")
    rows = [("status", f"{result.status}: {result.advice}")]
    rows += _changes(names, C, result) if has_matrix else []
    if result.conflict is not None:
        pairs = [f"({names[i]}, {names[j]})" for i, j in result.conflict.tolist() if i != j]
        rows.append(("entries that contradict each other", listed(pairs)))
    show.stdout().print(show.name_value_table(rows, f"{path.name}: {len(C)} x {len(C)} correlations"))
    repaired = np.asarray(result.covariance if options.keep_variances else result.matrix) if has_matrix else None
    if repaired is not None and out is not None:
        columns = {"": np.array(names), **dict(zip(names, repaired.T))}
        tables.write(out, columns, has_decimal_commas=has_decimal_commas)
        show.wrote("matrix", out)
    elif repaired is not None and len(names) <= MOST_PRINTED:
        cells = ((name, *(number(float(value), 4) for value in row)) for name, row in zip(names, repaired))
        show.stdout().print(show.grid(("", *names), cells))
    return show.exit_code(result)


def _check_weights(
    path: Path, names: list[str], C: np.ndarray, W: np.ndarray, F: np.ndarray | None, options: CorrelationOptions
) -> None:
    """Check that weights are not negative, and 0 where entries are empty only; `ValueError` names the entry."""
    is_zero, weights = np.nan_to_num(W) == 0, options.weights
    for is_wrong, where, what in (
        (W < 0, weights, "negative; a weight is at least 0"),
        (
            np.isnan(C) & ~is_zero,
            path,
            f"empty, and its weight in {weights} is not 0; the weight of an unknown entry is 0 or empty",
        ),
        (
            is_zero & (F is not None and F),
            options.fixed,
            f"fixed, but its weight in {weights} is 0, which says that it is unknown",
        ),
    ):
        if is_wrong.any():
            i, j = np.argwhere(is_wrong)[0]
            raise ValueError(f"{where}: the entry of {names[i]!r} and {names[j]!r} is {what}")


def _read_beside(table: Path, path: Path, names: list[str]) -> np.ndarray:
    """Read a matrix with the names of the one in `path`."""
    others, A, _ = read_matrix(table)
    if others != names:
        raise ValueError(f"{table}: the columns are {listed(others, 3)}, and those of {path} are {listed(names, 3)}")
    return A


def read_matrix(path: Path, hint: str | None = None) -> tuple[list[str], np.ndarray, bool]:
    """Read names and a symmetric matrix, and say whether its numbers have decimal commas.

    A first column of words, or without a name, holds the names of the rows. An empty cell is NaN; with a hint, it is an error that
    ends with the hint. If all entries above or below the diagonal are empty, they are the mirror image of the others.
    """
    table = tables.read(known_path(path, "read a matrix from", TABLES), may_be_short=True)
    if table.text is not None and not table.text.has_header and _has_numbered_names(table):
        table = tables.read(path, has_header=True, may_be_short=True)
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
        raise ValueError(
            f"{path}: {n:,} rows and {len(names):,} columns of numbers; a correlation matrix is square (for a table of points, give the "
            "correlations of its columns, such as pandas.DataFrame.corr computes)"
        )
    C, is_word = np.empty((n, n)), np.empty((n, n), dtype=bool)
    for j, name in enumerate(names):
        C[:, j], is_word[:, j] = table.numbers(name)
    is_empty = np.isnan(C) & ~is_word
    for triangle in (np.triu_indices(n, 1), np.tril_indices(n, -1)):
        if n > 1 and is_empty[triangle].all() and not is_empty.T[triangle].all():
            C[triangle], is_empty[triangle] = C.T[triangle], is_empty.T[triangle]
    bad = np.argwhere((is_word | np.isinf(C) | (is_empty & (hint is not None))).T)
    if len(bad):
        j, i = map(int, bad[0])
        raise table.bad_cell(i, names[j], "is not a number" + ((hint or "") if is_empty[i, j] else ""))
    i, j = (int(k) for k in np.unravel_index(np.argmax(np.nan_to_num(np.abs(C - C.T))), C.shape))
    if abs(C[i, j] - C[j, i]) > SYMMETRIC * max(1.0, abs(C[i, j])):
        raise ValueError(
            f"{path}: not symmetric: row {names[i]!r}, column {names[j]!r} is {C[i, j]:g}, and its mirror image {C[j, i]:g}"
        )
    return names, (C + C.T) / 2, table.has_decimal_commas


def _has_numbered_names(table: tables.Table) -> bool:
    """Whether the first line and the first column are the same numbers beside an empty corner, as pandas writes default names."""
    cells = np.column_stack([table.numbers(name)[0] for name in table.columns])
    is_square = cells.shape[0] == cells.shape[1]
    return is_square and bool(np.isnan(cells[0, 0])) and np.array_equal(cells[0, 1:], cells[1:, 0])


def _changes(names: list[str], C: np.ndarray, result: CorrelationResult) -> list[tuple[str, Any]]:
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
        ("relative gap", float(result.gap)),
    ]
