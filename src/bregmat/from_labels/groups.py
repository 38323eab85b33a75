"""Which points belong together: groups of points from labels that are classes, numbers, or sets of labels."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import as_rectangular, is_missing, rows_text
from bregmat.base.threads import warn_caller
from bregmat.typing import TargetType

TARGET_TYPES: tuple[str, ...] = ("auto", *get_args(TargetType))
FEW_OF_CLASS = 10  # mean number of drawn rows of a class below which whole classes are drawn
ALIKE, NEITHER, APART = 1, 0, -1  # relations of two groups
NEED_CLASSES = ("random", "softmax")  # strategies
ALONE = "are alone in their class: they serve as neighbours of others only"
MOST_BINS = 10  # of a target that is a number
MANY_VALUES = 30  # different whole numbers above which they may be numbers rather than classes
SINGLE_VALUES = 0.25  # fraction of the different whole numbers that occur once from which they are numbers
SEVERAL = (
    "Several labels of a row are columns of 0 and 1: sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y)."
)
_NUMBERS = (int, float, np.integer, np.floating)


# ---------------------------------------------------------------------- which points belong together
class LabelGroups:
    """A group for each point, and which groups belong together or apart.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Group of each point, -1 where it is unknown.
    relation : ndarray of int8, shape (g, g), optional
        1: together, -1: apart, 0: neither. By default groups are classes: equal ones belong together, different ones apart.
    values : ndarray, shape (n,) or (n, n_labels), optional
        The targets if they are numbers or sets of labels; None for classes.

    Attributes
    ----------
    target_type : {"class", "number", "sets"}
        What the targets are.
    labelled, ordered : ndarray of int
        Row numbers of the points of known groups, ascending, and group by group.
    sizes : ndarray of int, shape (g,)
        Number of points of each group.
    """

    def __init__(self, codes: np.ndarray, relation: np.ndarray | None = None, values: np.ndarray | None = None) -> None:
        if relation is None:
            relation = np.where(np.eye(int(codes.max(initial=-1)) + 1, dtype=bool), ALIKE, APART).astype(np.int8)
        self.codes, self.relation, self.values = codes, relation, values
        self.target_type: TargetType = "class" if values is None else ("number" if values.ndim == 1 else "sets")
        self.labelled = np.flatnonzero(codes >= 0)
        known = codes[self.labelled]
        self.ordered = self.labelled[np.argsort(known, kind="stable")]
        self.sizes = np.bincount(known, minlength=len(relation))

    @classmethod
    def of_numbers(cls, y: np.ndarray) -> LabelGroups:
        """Groups are bins of numbers with equal counts. Bins that touch belong neither together nor apart. NaN is unknown."""
        known = np.isfinite(y)
        n_bins = int(np.clip(known.sum() // 5, 3, MOST_BINS))
        edges = np.unique(np.quantile(y[known], np.linspace(0, 1, n_bins + 1)[1:-1])) if known.any() else np.zeros(0)
        codes = np.where(known, np.searchsorted(edges, np.where(known, y, 0.0), side="right"), -1)
        steps = np.abs(np.subtract.outer(np.arange(len(edges) + 1), np.arange(len(edges) + 1)))
        return cls(codes, np.select([steps == 0, steps == 1], [ALIKE, NEITHER], APART).astype(np.int8), y)

    @classmethod
    def of_sets(cls, Y: np.ndarray) -> LabelGroups:
        """Groups are different rows of 0 and 1: together if they share a label, otherwise apart.

        Rows of zeros and rows of NaN are unknown. A row that is NaN only in part is an error.
        """
        missing = Y != Y
        rows = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
        if len(rows):
            raise ValueError(f"y must not mix NaN with labels in a row of a set of labels; see {rows_text(rows)}.")
        Y = np.where(missing, 0, Y)
        if not np.isin(Y, (0, 1)).all():
            raise ValueError("y with several columns must hold sets of labels as 0 and 1.")
        Y = Y.astype(bool)
        sets, codes = np.unique(Y, axis=0, return_inverse=True)
        codes, empty = codes.reshape(-1), ~np.asarray(sets.any(axis=1))
        shared = sets.astype(np.int64) @ sets.T.astype(np.int64)
        relation = np.where(shared > 0, ALIKE, APART).astype(np.int8)
        return cls(np.where(empty[codes], -1, codes), relation, Y)

    def of_rows(self, rows: Any) -> LabelGroups:
        """Groups of some of the points."""
        return LabelGroups(self.codes[rows], self.relation, None if self.values is None else self.values[rows])

    def compared(self, max_points: float = np.inf, rng: Any = None, *, warn: bool = False) -> np.ndarray:
        """Points that have both points of their group and points apart, ascending; raises if there are none.

        If there are more than ``max_points``, ``rng`` draws as many. ``warn``: warn of points that are alone in their group.
        """
        n_alike, n_apart = [(self.relation == sort) @ self.sizes for sort in (ALIKE, APART)]
        group = self.codes[self.labelled]
        able = self.labelled[((n_alike > 1) & (n_apart > 0))[group]]
        if not len(able):
            where = rows_text(self.labelled)
            if not (n_apart[group] > 0).any():
                raise ValueError(
                    f"the labels y must tell at least two classes apart: every labelled point ({where}) belongs to the same, so there is "
                    'nothing to compare. Use the strategy "random", or give constraints.'
                )
            if not (n_alike[group] > 1).any():
                raise ValueError(
                    f"the labels y put no two points together: every labelled point ({where}) is alone in its class."
                )
            raise ValueError(
                f"no labelled point of y ({where}) has both a point of its class and one of another to compare."
            )
        alone = self.labelled[n_alike[group] == 1]
        if warn and len(alone):
            warn_of_points(alone, ALONE)
        return able if len(able) <= max_points else able[np.sort(rng.choice(len(able), size=max_points, replace=False))]


def drawn_rows(labels: LabelGroups, rng: np.random.Generator, max_rows: int) -> np.ndarray:
    """Row numbers of at most ``max_rows`` labelled rows, drawn at random; whole classes are drawn if each would have few rows."""
    n, sizes = len(labels.labelled), labels.sizes
    if n <= max_rows:
        return np.asarray(labels.labelled[:])
    if labels.target_type != "class" or FEW_OF_CLASS * np.count_nonzero(sizes) <= max_rows:
        return np.asarray(labels.labelled[np.sort(rng.choice(n, max_rows, replace=False))])
    order = rng.permutation(len(sizes))
    drawn = order[: max(2, int(np.searchsorted(np.cumsum(sizes[order]), max_rows, side="right")))]
    first = np.cumsum(sizes) - sizes  # ``ordered`` has the rows class by class
    return np.asarray(
        labels.ordered[np.concatenate([np.arange(first[c], first[c] + sizes[c]) for c in np.sort(drawn)])]
    )


def label_groups(
    y: Any, n: int, strategy: str | None, *, unlabeled: Any = -1, target_type: str = "auto"
) -> LabelGroups:
    """Which points belong together, from class labels; unless pairs are drawn at random, also from numbers and sets of labels.

    Parameters
    ----------
    y : array-like, shape (n,) or (n, n_labels)
    n : int
        Number of points.
    strategy, unlabeled
        As in :func:`bregmat.constraints_from_labels`. Only "random" and "softmax" need classes.
    target_type : {"auto", "class", "number", "sets"}
        "auto" reads several columns as sets of labels, and one column as :func:`are_numbers` says.
    """
    try:
        values = as_rectangular("y", y.toarray() if sp.issparse(y) else y)
    except TypeError as error:
        raise TypeError(f"{error} {SEVERAL}") from error
    if target_type == "auto":
        target_type = "class"
        if strategy not in NEED_CLASSES:
            target_type = "sets" if values.ndim == 2 and values.shape[1] > 1 else "class"
            if are_numbers(values):
                target_type = "number"
    elif target_type != "class" and strategy in NEED_CLASSES:
        raise ValueError(
            f"strategy={strategy!r} draws pairs within classes, so target_type must be 'class'; got {target_type!r}."
        )
    if target_type == "sets":
        if values.ndim != 2:
            raise ValueError(f"y must have shape (n, n_labels) for target_type='sets'; got {values.shape}.")
        groups = LabelGroups.of_sets(as_floats(values))
    elif target_type == "number":
        if values.ndim != 1:
            raise ValueError(f"y must have shape (n,) for target_type='number'; got {values.shape}.")
        numbers = as_floats(values)
        if np.isinf(numbers).any():
            raise ValueError(
                f"y contains infinity or a value too large, in {rows_text(np.flatnonzero(np.isinf(numbers)))}."
            )
        groups = LabelGroups.of_numbers(numbers)
    else:
        groups = LabelGroups(label_codes(y, unlabeled=unlabeled))
    if len(groups.codes) != n:
        raise ValueError(f"y has {len(groups.codes)} labels but X has {n} rows.")
    if len(groups.labelled) < 2:
        raise too_few_labelled(len(groups.labelled), n, unlabeled)
    return groups


def as_floats(values: np.ndarray) -> np.ndarray:
    """Targets as numbers; missing entries become NaN."""
    if values.dtype.kind == "O":
        values = np.array([np.nan if is_missing(v) else v for v in values.ravel()], dtype=object).reshape(values.shape)
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        bad = next(v for v in values.ravel().tolist() if not _is_number(v) and not isinstance(v, bool))
        raise ValueError(f"y must hold numbers; got {bad!r}.") from None


def too_few_labelled(n_known: int, n: int, unlabeled: Any) -> ValueError:
    """The error if fewer than two of n rows are labelled."""
    return ValueError(
        f"y must label at least 2 rows to make a pair; {n_known} of {n} rows are labelled "
        f"(unlabeled={unlabeled!r}, n_samples={n})."
    )


def are_numbers(values: np.ndarray) -> bool:
    """Whether targets are numbers rather than class labels.

    They are if they are finite (or NaN) in one dimension, and either some are not whole, or they look like measured whole numbers:
    more than 30 different values occur, and either some are below -1, or some between the smallest and the largest do not occur and at
    least a quarter of the different values occur once. Codes of classes, which are consecutive or occur several times each, are classes.
    """
    if values.ndim != 1 or values.dtype.kind not in "fiu" or np.isinf(values).any():
        return False
    known = values[values == values]
    if (known != np.rint(known)).any():
        return True
    different, counts = np.unique(known, return_counts=True)
    n_values = len(different)
    if n_values <= MANY_VALUES:
        return False
    if different[0] < -1:
        return True
    if float(different[-1]) - float(different[0]) + 1 == n_values:
        return False
    return bool((counts == 1).sum() >= SINGLE_VALUES * n_values)


# ---------------------------------------------------------------------- class labels
def label_codes(y: Any, *, unlabeled: Any = -1) -> np.ndarray:
    """Class numbers 0, 1, ... in order of first appearance, -1 for rows without a label; int64, shape (n,).

    The order does not depend on the names of classes, so neither do pairs that are drawn from them. Raises ``ValueError`` for labels
    exactly {-1, 1} with ``unlabeled=-1``, for continuous and for infinite labels. Labels exactly {-1, 0, 1} get a warning.
    """
    values = np.asarray(y)
    if values.dtype.kind in "US" and isinstance(y, list | tuple):  # NumPy would write None and NaN as text
        values = np.array(y, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, one label per row; got shape {values.shape}.")
    is_object = values.dtype.kind == "O"
    missing = np.array([is_missing(v) for v in values], dtype=bool) if is_object else values != values  # NaN and NaT
    if isinstance(y, np.ma.MaskedArray):
        missing = missing | np.ma.getmaskarray(y)
    rows = np.flatnonzero(~missing)
    known = values[rows]
    if known.dtype.kind == "O" and len(known) and all(_is_number(v) for v in known):
        known = known.astype(float)
    if known.dtype.kind in "cf":
        _check_whole(known, rows)
    is_number = isinstance(unlabeled, _NUMBERS) and not isinstance(unlabeled, bool)
    if is_number and unlabeled == -1 and known.dtype.kind in "if":
        different = set(np.unique(known).tolist())
        advice = "If it is a class, pass unlabeled=None; if it means unlabelled, replace it by NaN or None."
        if different == {-1, 1}:
            raise ValueError(
                f"y holds exactly the labels -1 and 1, and unlabeled=-1: is -1 a class or does it mean unlabelled? {advice}"
            )
        if different == {-1, 0, 1}:
            text = "y holds the labels -1, 0 and 1, and unlabeled=-1: rows of label -1 are not used."
            warn_caller(f"{text} {advice}")
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
        several = next((k for k, label in enumerate(known) if isinstance(label, set | list | dict | np.ndarray)), None)
        if several is not None:
            raise TypeError(
                f"y must hold one label per row; got {known[several]!r} in row {rows[is_class][several]}. {SEVERAL}"
            )
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
            'The strategy "neighbors" takes continuous targets. If distances are known, use Constraints.sq_distance(i, j, bound, sense).'
        )


def _is_number(value: Any) -> bool:
    """Whether a label is a number; True and False are not."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def warn_of_points(rows: np.ndarray, why: str) -> None:
    """Warn of points that are left out of comparisons; ``why`` is ALONE or COPIES."""
    warn_caller(f"{len(rows)} points {why} ({rows_text(rows)}).")
