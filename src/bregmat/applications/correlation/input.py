"""What people hand in as a correlation matrix: checked, named where it is wrong, scaled or repaired where they ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.applications.correlation.newton import Entries
from bregmat.applications.correlation.result import Repair
from bregmat.checks import (
    Labels,
    as_choice,
    as_matrix,
    check_flag,
    check_integer,
    check_limits,
    check_number,
    entry_text,
)
from bregmat.result import Record
from bregmat.spectral import SpectralDivergence

_HINT = " A pair that was never observed together may be set to 0; (C + C.T) / 2 is symmetric."
FAR_DIAGONAL = 0.1  # from 1, above which a diagonal is that of another kind of matrix, such as a covariance


@dataclass(frozen=True, eq=False)
class Limits:
    """When to stop, and who watches."""

    tol: float
    max_iter: int | None
    max_seconds: float | None
    callback: Callable[[Record], Any] | None
    clock: float

    @classmethod
    def of(cls, tol: Any, max_iter: Any, max_seconds: Any, callback: Any) -> Limits:
        """Checked; the clock starts."""
        check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
        return cls(tol, None if max_iter is None else int(max_iter), max_seconds, callback, time.perf_counter())

    def passed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.clock

    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self.max_seconds is None else max(1e-9, self.max_seconds - self.passed())


def check_options(
    D: SpectralDivergence, fixed: Any, min_eig: Any, rank: Any, repair: Any, floor: Any, scale: Any
) -> None:
    """Raise for values that make no sense, and for those that the divergence does not go with."""
    check_number("min_eig", min_eig)
    if not 0 <= min_eig < 1:
        raise ValueError(
            f"min_eig must be in [0, 1), because the eigenvalues of a correlation matrix have the mean 1; got {min_eig!r}."
        )
    check_number("floor", floor)
    if not 0 < floor < 1:
        raise ValueError(f"floor must be in (0, 1), in units of the mean eigenvalue; got {floor!r}.")
    as_choice("repair", repair, (None, "clip"))
    check_flag("scale", scale, optional=True)
    check_integer("rank", rank, 1)
    if rank is not None and (fixed is not None or min_eig > 0):
        raise ValueError("rank does not go with fixed entries or min_eig.")
    if D.keeps_range and (min_eig > 0 or rank is not None):
        name = "min_eig" if min_eig > 0 else "rank"
        raise ValueError(f'{name} needs divergence="frobenius"; got {D.name}.')
    if repair is not None and not D.keeps_range:
        raise ValueError(
            f"repair={repair!r} is for LogDet and von Neumann; {D.name} takes an indefinite matrix as it is."
        )


def read_matrix(C: Any) -> tuple[np.ndarray, Labels]:
    """A symmetric float array with a positive diagonal, and the labels of a DataFrame.

    Raises
    ------
    TypeError
        For what is not a matrix of real numbers.
    ValueError
        For shapes, NaN, infinities, asymmetry and a diagonal that is not positive; each names the first entry.
    """
    labels = None
    if hasattr(C, "index") and hasattr(C, "columns") and hasattr(C, "to_numpy"):  # a DataFrame of pandas
        labels = (list(C.index), list(C.columns))
        if labels[0] != labels[1] and len(labels[0]) == len(labels[1]) and set(labels[0]) == set(labels[1]):
            k = next(k for k, (a, b) in enumerate(zip(*labels, strict=True)) if a != b)
            raise ValueError(
                f"C has the same labels in its index and columns but in another order: {labels[0][k]!r} and {labels[1][k]!r} at {k}."
            )
        if len(labels[0]) == len(labels[1]) and set(labels[0]) != set(labels[1]):
            odd = next(a for a in labels[0] + labels[1] if (a in labels[0]) != (a in labels[1]))
            raise ValueError(f"C must have the same labels in its index and columns; {odd!r} is in one of them only.")
        C = C.to_numpy()
    A = as_matrix("C", C, symmetric=True, sparse="dense", booleans=True, labels=labels, hint=_HINT, copy=True)
    low = np.flatnonzero(~(np.diag(A) > 0))
    if len(low):
        i = low[0]
        raise ValueError(f"C must have a positive diagonal; got {A[i, i]:.6g} at {entry_text(i, i, labels)}.")
    if np.abs(A).max() > 1e100:
        i, j = np.unravel_index(int(np.abs(A).argmax()), A.shape)
        raise ValueError(f"C must be scaled towards 1; got {A[i, j]:.3g} at {entry_text(i, j, labels)}.")
    return A, labels


def scaled(A: np.ndarray, scale: bool | None, insist: bool) -> np.ndarray:
    """The matrix divided by the square roots of its diagonal, or as it is; ``insist`` on a decision where it is far from 1."""
    diagonal = np.diag(A)
    if scale:
        d = 1.0 / np.sqrt(diagonal)
        A = A * d * d[:, None]
        np.fill_diagonal(A, 1.0)
        return A
    far = np.flatnonzero(np.abs(diagonal - 1.0) > FAR_DIAGONAL)
    if scale is None and insist and len(far):
        i = far[0]
        raise ValueError(
            f"C has {diagonal[i]:.6g} at [{i}, {i}], where a correlation matrix has 1. If C is a covariance, scale=True divides rows "
            "and columns by the standard deviations; scale=False takes C as it is."
        )
    return A


def read_fixed(fixed: Any, n: int, labels: Labels) -> Entries:
    """The entries of a symmetric boolean mask."""
    none = np.zeros(0, np.int64)
    if fixed is None:
        return Entries(n, none, none)
    if hasattr(fixed, "columns") and hasattr(fixed, "to_numpy"):
        for axis, given in enumerate((fixed.index, fixed.columns)):
            if labels is not None and list(given) != labels[axis]:
                name = ("index", "columns")[axis]
                raise ValueError(f"fixed must have the {name} of C; got {list(given)[:5]} for {labels[axis][:5]}.")
        fixed = fixed.to_numpy()
    mask = np.asarray(fixed)
    if mask.dtype != bool:
        raise TypeError(f"fixed must be a boolean mask; got dtype {mask.dtype}.")
    if mask.shape != (n, n):
        raise ValueError(f"fixed must have the shape of C, {(n, n)}; got {mask.shape}.")
    uneven = np.argwhere(mask != mask.T)
    if len(uneven):
        i, j = uneven[0]
        raise ValueError(
            f"fixed must be symmetric; it is {mask[i, j]} at {entry_text(i, j, labels)} and {mask[j, i]} at {entry_text(j, i, labels)}."
        )
    if np.diag(mask).any():
        i = int(np.flatnonzero(np.diag(mask))[0])
        raise ValueError(
            f"fixed must be False on the diagonal, which is 1 anyway; it is True at {entry_text(i, i, labels)}. "
            "np.fill_diagonal(fixed, False) makes it so."
        )
    i, j = np.nonzero(np.triu(mask))
    return Entries(n, i, j)


def clipped(t: np.ndarray, floor: float) -> tuple[np.ndarray, Repair | None]:
    """Eigenvalues raised to a floor, and what that changed."""
    low = t < floor
    if not low.any():
        return t, None
    size = float(np.linalg.norm(floor - t[low]))
    return np.where(low, floor, t), Repair("clip", int(low.sum()), size, floor)
