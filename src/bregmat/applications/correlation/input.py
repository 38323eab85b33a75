"""Checked input of the functions on correlation matrices: matrices, data frames, masks of fixed entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.applications.correlation.entries import Entries
from bregmat.base.checks import Labels, as_matrix, as_numbers, check_flag, check_share, entry_text
from bregmat.coordinates.priors import Factor

_HINT = " Where an entry is unknown, nearest_correlation takes a weight of 0 or NaN in weights=; (C + C.T) / 2 is symmetric."
ROUNDED_ONE = 1e-12  # difference from 1 of a diagonal that was computed as 1
FAR_DIAGONAL = 0.1  # difference from 1 above which a diagonal probably is that of a covariance


@dataclass(frozen=True, eq=False)
class MatrixInput:
    """A symmetric matrix as it was read, and the form in which the result is returned.

    Attributes
    ----------
    C : ndarray, shape (n, n)
        Symmetric with a positive diagonal; divided by the standard deviations if ``scale=True``.
    form : dict
        The attributes ``labels``, ``frame`` and ``deviations`` of the result.
    """

    C: np.ndarray
    form: dict[str, Any]

    @property
    def labels(self) -> Labels:
        """Names of the rows and columns, if C has them."""
        return self.form["labels"]


def read_input(
    C: Any, scale: Any, min_eig: Any = 0.0, *, unknown: np.ndarray | None = None, insist: bool = True
) -> MatrixInput:
    """Check a symmetric matrix with a positive diagonal, and scale it if that is asked for.

    Parameters
    ----------
    C, scale, min_eig
        As in :func:`bregmat.nearest_correlation`.
    unknown : ndarray of bool, shape (n, n), optional
        Entries that are read as 0, and may be NaN. Then a diagonal entry may be NaN, too, and is read as 1.
    insist : bool
        Whether to raise without `scale` if the diagonal is far from 1.
    """
    largest = 1e100  # entry whose square does not overflow
    check_share("min_eig", min_eig, zero=True, why=", because the eigenvalues of a correlation matrix have the mean 1")
    check_flag("scale", scale, optional=True)
    if isinstance(C, Factor):
        raise TypeError(
            "C must be a matrix; got a Factor, whose range nearest_kernel(C, Constraints.diagonal(np.ones(n))) keeps."
        )
    labels, is_polars = _labels_of(C), hasattr(C, "columns") and not hasattr(C, "index")
    if labels is not None:
        C = C.to_numpy()
    if unknown is not None and np.shape(C) == unknown.shape:
        C = np.where(unknown, 0.0, as_numbers("C", C, booleans=True))
        missing = np.flatnonzero(np.isnan(np.diag(C)))
        if scale and len(missing):
            raise ValueError(
                f"C has no variance at {entry_text(missing[0], missing[0], labels)}, which scale=True divides by. Fill it in, or leave the "
                "variable out."
            )
        C[missing, missing] = 1.0
    A: np.ndarray = as_matrix("C", C, symmetric=True, sparse="dense", booleans=True, labels=labels, hint=_HINT)
    diagonal = np.diag(A)
    low = np.flatnonzero(~(diagonal >= 0) if scale else ~(diagonal > 0))
    if len(low):
        i = low[0]
        hint = " scale=True keeps variances of 0 of constant columns." if A[i, i] == 0 else ""
        raise ValueError(f"C must have a positive diagonal; got {A[i, i]:.6g} at {entry_text(i, i, labels)}.{hint}")
    if np.abs(A).max() > largest:
        i, j = np.unravel_index(int(np.abs(A).argmax()), A.shape)
        raise ValueError(f"C must be scaled towards 1; got {A[i, j]:.3g} at {entry_text(i, j, labels)}.")
    far = np.flatnonzero(np.abs(diagonal - 1.0) > FAR_DIAGONAL)
    if scale is None and insist and len(far):
        i = far[0]
        raise ValueError(
            f"C has {diagonal[i]:.6g} at [{i}, {i}], where a correlation matrix has 1. If C is a covariance, scale=True divides rows "
            "and columns by the standard deviations; scale=False takes C as it is."
        )
    deviations = None
    if scale:
        deviations = np.sqrt(diagonal)
        # Correlations of a constant variable are unknown. The nearest matrix has any value there, and 0 costs nothing.
        inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
        A = A * np.multiply.outer(inverse, inverse)  # symmetric to the last digit
        np.fill_diagonal(A, 1.0)
    form = {"labels": labels, "frame": "polars" if labels is not None and is_polars else None, "deviations": deviations}
    return MatrixInput(A, form)


def _labels_of(C: Any) -> Labels:
    """Names of rows and columns of a data frame of pandas, or of polars, whose rows have the names of its columns."""
    if not (hasattr(C, "columns") and hasattr(C, "to_numpy")):
        return None
    columns = list(C.columns)
    rows = list(C.index) if hasattr(C, "index") else columns
    if rows == columns or len(rows) != len(columns):  # a table that is not square is refused by its shape
        return rows, columns
    if set(rows) == set(columns):
        k = next(k for k, (a, b) in enumerate(zip(rows, columns, strict=True)) if a != b)
        raise ValueError(
            f"C has the same labels in its index and columns but in another order: {rows[k]!r} and {columns[k]!r} at {k}."
        )
    odd = next(a for a in rows + columns if (a in rows) != (a in columns))
    raise ValueError(f"C must have the same labels in its index and columns; {odd!r} is in one of them only.")


def weights_of_known(C: Any) -> np.ndarray | None:
    """Weights of 1, and of 0 where a table has NaN; None if it has none."""
    A = np.asarray(C.to_numpy() if hasattr(C, "to_numpy") else C)
    if A.dtype.kind != "f" or A.ndim != 2 or A.shape[0] != A.shape[1] or not np.isnan(A).any():
        return None
    return np.where(np.isnan(A) | np.isnan(A.T), 0.0, 1.0)


def aligned(name: str, table: Any, labels: Labels) -> np.ndarray:
    """An array-like as an array; a data frame must have the labels of C."""
    if labels is not None and hasattr(table, "columns"):
        own_labels = (list(getattr(table, "index", labels[0])), list(table.columns))
        for names, wanted, where in zip(own_labels, labels, ("index", "columns"), strict=True):
            if names != wanted:
                raise ValueError(f"{name} must have the {where} of C; got {names[:5]} for {wanted[:5]}.")
    return np.asarray(table.to_numpy() if hasattr(table, "columns") else table)


def read_fixed(fixed: Any, matrix: MatrixInput, one: float = 1.0) -> Entries:
    """The entries of a symmetric boolean mask, with a diagonal of ``one``; a fixed diagonal entry must be 1."""
    C, labels = matrix.C, matrix.labels
    n = len(C)
    if fixed is None:
        return Entries.of_diagonal(n, one)
    mask = aligned("fixed", fixed, labels)
    if mask.dtype != bool:
        raise TypeError(f"fixed must be a boolean mask; got dtype {mask.dtype}.")
    as_matrix("fixed", mask, symmetric=True, order=n, booleans=True, labels=labels)
    off = np.flatnonzero(np.diag(mask) & (np.abs(np.diag(C) - 1.0) > ROUNDED_ONE))
    if len(off):
        i = off[0]
        raise ValueError(
            f"fixed is True at {entry_text(i, i, labels)}, where C has {C[i, i]:.6g} and a correlation matrix has 1; scale=True "
            "divides by the standard deviations."
        )
    pairs = np.argwhere(np.triu(mask, 1))
    return Entries(n, pairs[:, 0], pairs[:, 1], one)
