"""What people hand in as a correlation matrix: checked, named where it is wrong, scaled or repaired where they ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.applications.correlation.newton import Entries
from bregmat.applications.correlation.result import Repair
from bregmat.checks import check_number
from bregmat.divergences import Divergence
from bregmat.result import Record

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
        for name, value in {"tol": tol, "max_seconds": max_seconds}.items():
            if name == "tol" or value is not None:
                check_number(name, value)
                if not 0 < value < np.inf:
                    raise ValueError(f"{name} must be positive and finite; got {value!r}.")
        if max_iter is not None and (
            isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0
        ):
            raise ValueError(f"max_iter must be None or an integer of at least 0; got {max_iter!r}.")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable; got {callback!r}.")
        return cls(tol, None if max_iter is None else int(max_iter), max_seconds, callback, time.perf_counter())

    def passed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.clock

    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self.max_seconds is None else max(1e-9, self.max_seconds - self.passed())


def check_options(D: Divergence, fixed: Any, min_eig: Any, rank: Any, repair: Any, floor: Any, scale: Any) -> None:
    """Raise for values that make no sense, and for those that the divergence does not go with."""
    check_number("min_eig", min_eig)
    if not 0 <= min_eig < 1:
        raise ValueError(
            f"min_eig must be in [0, 1), because the eigenvalues of a correlation matrix have the mean 1; got {min_eig!r}."
        )
    check_number("floor", floor)
    if not 0 < floor < 1:
        raise ValueError(f"floor must be in (0, 1), in units of the mean eigenvalue; got {floor!r}.")
    if repair not in (None, "clip"):
        raise ValueError(f'repair must be None or "clip"; got {repair!r}.')
    if scale is not None and not isinstance(scale, bool | np.bool_):
        raise TypeError(f"scale must be None, True or False; got {scale!r}.")
    if rank is not None:
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer):
            raise TypeError(f"rank must be None or an integer; got {rank!r}.")
        if rank < 1:
            raise ValueError(f"rank must be at least 1; got {rank}.")
        if fixed is not None or min_eig > 0:
            raise ValueError("rank does not go with fixed entries or min_eig.")
    if D.keeps_range and (min_eig > 0 or rank is not None):
        name = "min_eig" if min_eig > 0 else "rank"
        raise ValueError(f'{name} needs divergence="frobenius"; got {D.name}.')
    if repair is not None and not D.keeps_range:
        raise ValueError(
            f"repair={repair!r} is for LogDet and von Neumann; {D.name} takes an indefinite matrix as it is."
        )


def read_matrix(C: Any) -> tuple[np.ndarray, tuple[list[Any], list[Any]] | None]:
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
    if scipy.sparse.issparse(C):
        C = C.toarray()
    given = np.asarray(C)
    if given.dtype.kind == "c":
        raise TypeError(f"C must be real; got dtype {given.dtype}.")
    if given.dtype.kind not in "biufO" or C is None:
        raise TypeError(f"C must be a matrix of numbers; got {_kind(C, given)}.")
    try:
        A = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"C must be a matrix of numbers; got {_kind(C, given)}.") from error
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"C must be a square matrix with at least one row; got shape {A.shape}.")
    bad = np.argwhere(~np.isfinite(A))
    if len(bad):
        i, j = bad[0]
        raise ValueError(
            f"C must be finite; got {A[i, j]} at {_at(i, j, labels)}, and {len(bad) - 1} more such entries. A pair that was never "
            "observed together may be set to 0."
        )
    skew = np.abs(A - A.T)
    if skew.max() > 1e-8 * max(1e-300, np.abs(A).max()):
        i, j = np.unravel_index(int(skew.argmax()), skew.shape)
        raise ValueError(
            f"C must be symmetric; it has {A[i, j]:.6g} at {_at(i, j, labels)} and {A[j, i]:.6g} at {_at(j, i, labels)}. "
            "(C + C.T) / 2 is."
        )
    A = 0.5 * (A + A.T)
    low = np.flatnonzero(~(np.diag(A) > 0))
    if len(low):
        i = low[0]
        raise ValueError(f"C must have a positive diagonal; got {A[i, i]:.6g} at {_at(i, i, labels)}.")
    if np.abs(A).max() > 1e100:
        i, j = np.unravel_index(int(np.abs(A).argmax()), A.shape)
        raise ValueError(f"C must be scaled towards 1; got {A[i, j]:.3g} at {_at(i, j, labels)}.")
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


def read_fixed(fixed: Any, n: int, labels: tuple[list[Any], list[Any]] | None) -> Entries:
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
            f"fixed must be symmetric; it is {mask[i, j]} at {_at(i, j, labels)} and {mask[j, i]} at {_at(j, i, labels)}."
        )
    if np.diag(mask).any():
        i = int(np.flatnonzero(np.diag(mask))[0])
        raise ValueError(
            f"fixed must be False on the diagonal, which is 1 anyway; it is True at {_at(i, i, labels)}. "
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


def _at(i: Any, j: Any, labels: tuple[list[Any], list[Any]] | None) -> str:
    """An entry by its numbers, and by its labels where there are any."""
    place = f"[{int(i)}, {int(j)}]"
    return place if labels is None else f"{place} ({labels[0][int(i)]!r}, {labels[1][int(j)]!r})"


def _kind(C: Any, array: np.ndarray) -> str:
    return f"{type(C).__name__} with dtype {array.dtype}"
