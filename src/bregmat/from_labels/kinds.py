"""What labels say: which points belong together, from classes, numbers, or sets of labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import rows_text, to_numpy
from bregmat.constraints.columns import is_missing

MOST_BINS = 10  # of a continuous target
ALIKE, NEITHER, APART = 1, 0, -1  # relations of two groups
_NUMBERS = (int, float, np.integer, np.floating)


@dataclass(eq=False)
class Kinds:
    """A group for each point, and which groups belong together or apart.

    Attributes
    ----------
    codes : ndarray of int64, shape (n,)
        Group of each point, -1 where it is unknown.
    relation : ndarray of int8, shape (g, g)
        1: together, -1: apart, 0: neither.
    labelled, ordered : ndarray of int
        Row numbers of the points of known groups, ascending, and group by group.
    sizes : ndarray of int, shape (g,)
        Number of points of each group.
    """

    codes: np.ndarray
    relation: np.ndarray
    labelled: np.ndarray = field(init=False)
    ordered: np.ndarray = field(init=False)
    sizes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.labelled = np.flatnonzero(self.codes >= 0)
        known = self.codes[self.labelled]
        self.ordered = self.labelled[np.argsort(known, kind="stable")]
        self.sizes = np.bincount(known, minlength=len(self.relation))

    @classmethod
    def of_classes(cls, codes: np.ndarray) -> Kinds:
        """Groups are classes: equal ones belong together, different ones apart."""
        n_groups = int(codes.max(initial=-1)) + 1
        return cls(codes, np.where(np.eye(n_groups, dtype=bool), ALIKE, APART).astype(np.int8))

    @classmethod
    def of_values(cls, y: np.ndarray) -> Kinds:
        """Groups are bins of numbers with equal counts. Bins that touch belong neither together nor apart. NaN is unknown."""
        known = np.isfinite(y)
        n_bins = int(np.clip(known.sum() // 5, 3, MOST_BINS))
        edges = np.unique(np.quantile(y[known], np.linspace(0, 1, n_bins + 1)[1:-1]))
        codes = np.where(known, np.searchsorted(edges, np.where(known, y, 0.0), side="right"), -1)
        steps = np.abs(np.subtract.outer(np.arange(len(edges) + 1), np.arange(len(edges) + 1)))
        return cls(codes, np.select([steps == 0, steps == 1], [ALIKE, NEITHER], APART).astype(np.int8))

    @classmethod
    def of_sets(cls, Y: np.ndarray) -> Kinds:
        """Groups are different rows of 0 and 1: together if they share a label, otherwise apart. A row of zeros is unknown."""
        sets, codes = np.unique(Y, axis=0, return_inverse=True)
        codes, empty = codes.reshape(-1), ~np.asarray(sets.any(axis=1))
        shared = sets.astype(np.int64) @ sets.T.astype(np.int64)
        return cls(np.where(empty[codes], -1, codes), np.where(shared > 0, ALIKE, APART).astype(np.int8))

    @property
    def are_classes(self) -> bool:
        """Whether every group is apart from all others."""
        return bool(np.array_equal(self.relation == ALIKE, np.eye(len(self.relation))) and self.relation.all())

    def of_rows(self, rows: Any) -> Kinds:
        """Groups of some of the points."""
        return replace(self, codes=self.codes[rows])

    def code_of(self, rows: np.ndarray) -> np.ndarray:
        """Group numbers of some of the points."""
        return self.codes[rows]


def as_kinds(y: Any, n: int, strategy: str | None, *, unlabeled: Any = -1) -> Kinds:
    """Which points belong together, from class labels; unless pairs are drawn at random, also from numbers and sets of labels.

    Parameters
    ----------
    y : array-like, shape (n,) or (n, n_labels)
    n : int
        Number of points.
    strategy, unlabeled
        As in :func:`bregmat.constraints_from_labels`. Only "random" and "uniform" need classes.
    """
    y = to_numpy("y", y)
    values = np.asarray(y.toarray() if sp.issparse(y) else y)
    is_drawn = strategy in ("random", "uniform")
    if not is_drawn and values.ndim == 2 and values.shape[1] > 1:
        if not np.isin(values, (0, 1)).all():
            raise ValueError("y with several columns must hold sets of labels as 0 and 1.")
        kinds = Kinds.of_sets(values.astype(bool))
    elif not is_drawn and is_continuous(values):
        kinds = Kinds.of_values(values.astype(float))
    else:
        kinds = Kinds.of_classes(label_codes(y, unlabeled=unlabeled))
    if len(kinds.codes) != n:
        raise ValueError(f"y has {len(kinds.codes)} labels but X has {n} rows.")
    if len(kinds.labelled) < 2:
        raise too_few_labelled(len(kinds.labelled), n, unlabeled)
    return kinds


def too_few_labelled(n_known: int, n: int, unlabeled: Any) -> ValueError:
    """The error if fewer than two of n rows are labelled."""
    return ValueError(
        f"y must label at least 2 rows to make a pair; {n_known} of {n} rows are labelled "
        f"(unlabeled={unlabeled!r}, n_samples={n})."
    )


def is_continuous(values: np.ndarray) -> bool:
    """Whether these are finite numbers (or NaN) that are not all whole."""
    if values.ndim != 1 or values.dtype.kind != "f" or np.isinf(values).any():
        return False
    known = values[~np.isnan(values)]
    return bool((known != np.rint(known)).any())


# ---------------------------------------------------------------------- class labels
def label_codes(y: Any, *, unlabeled: Any = -1) -> np.ndarray:
    """Class numbers 0, 1, ... in order of first appearance, -1 for rows without a label; int64, shape (n,).

    The order does not depend on the names of classes, so neither do pairs that are drawn from them. Raises ``ValueError`` for labels
    exactly {-1, 1} with ``unlabeled=-1``, for continuous and for infinite labels.
    """
    values, missing = _label_array(y)
    rows = np.flatnonzero(~missing)
    known = values[rows]
    if known.dtype.kind == "O" and len(known) and all(_is_number(v) for v in known):
        known = known.astype(float)
    if known.dtype.kind in "cf":
        _check_whole(known, rows)
    is_number = isinstance(unlabeled, _NUMBERS) and not isinstance(unlabeled, bool)
    if is_number and unlabeled == -1 and known.dtype.kind in "if" and set(np.unique(known).tolist()) == {-1, 1}:
        raise ValueError(
            "y holds exactly the labels -1 and 1, and unlabeled=-1: is -1 a class or does it mean unlabelled? "
            "If it is a class, pass unlabeled=None; if it means unlabelled, replace it by NaN or None."
        )
    # a mark of another type than the labels equals none of them: True is not 1, and "1" is not 1
    if known.dtype.kind == "O":
        is_alike = [type(v) is type(unlabeled) or (is_number and _is_number(v)) for v in known]
        is_class = np.array([not (alike and v == unlabeled) for alike, v in zip(is_alike, known)], dtype=bool)
    else:
        kind = {"U": str, "S": bytes, "b": bool | np.bool_}.get(known.dtype.kind)
        may_be = is_number if kind is None else isinstance(unlabeled, kind)
        is_class = known != unlabeled if may_be else np.ones(len(known), dtype=bool)
    codes = np.full(len(values), -1, dtype=np.int64)
    known = known[is_class]
    if known.dtype.kind == "O":
        seen: dict[Any, int] = {}
        codes[rows[is_class]] = [seen.setdefault(v, len(seen)) for v in known]
        return codes
    _, first, inverse = np.unique(known, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    codes[rows[is_class]] = rank[inverse]
    return codes


def _check_whole(labels: np.ndarray, rows: np.ndarray) -> None:
    """Raise for numbers that are no class labels: complex, infinite, or not whole; ``rows`` are their row numbers."""
    if labels.dtype.kind == "c":
        raise ValueError("y must hold class labels; got complex numbers.")
    bad = rows[~np.isfinite(labels)]
    if len(bad):
        raise ValueError(f"y contains infinity or a value too large, in {rows_text(bad)}.")
    broken = labels != np.rint(labels)
    if broken.any():
        bad = rows[broken]
        raise ValueError(
            f"y must hold class labels, but it is continuous (y[{bad[0]}] = {labels[broken][0]}; {rows_text(bad)}). "
            'strategy="neighbors" takes values, to be near in; for distances that are known, use Constraints.sq_distance(i, j, '
            "bound, sense)."
        )


def _label_array(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels as a 1-D array and the mask of missing values."""
    values = np.asarray(to_numpy("y", y))
    if values.dtype.kind in "US" and isinstance(y, list | tuple):  # NumPy would write None and NaN as text
        values = np.array(y, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, one label per row; got shape {values.shape}.")
    if values.dtype.kind == "O":
        missing = np.array([is_missing(v) for v in values], dtype=bool)
    elif values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind in "mM":
        missing = np.isnat(values)
    else:
        missing = np.zeros(len(values), dtype=bool)
    if isinstance(y, np.ma.MaskedArray):
        missing = missing | np.ma.getmaskarray(y)
    return values, missing


def _is_number(value: Any) -> bool:
    """Whether a label is a number; True and False are not."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)
