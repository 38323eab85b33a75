"""Constraints from labels: random pairs bounded by percentiles of squared distances, or neighbours.

No array grows with the square of the number of points (sampling.py, neighbors.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from bregmat.base.arrays import to_numpy
from bregmat.base.checks import as_choice, check_integer, rows_text
from bregmat.base.points import as_points
from bregmat.base.sampling import PairGroups, check_percentiles, differ, generator, sq_distance_percentiles
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.columns import is_missing
from bregmat.constraints.constraints import Constraints
from bregmat.from_labels.kinds import Kinds
from bregmat.from_labels.neighbors import FORMS, PointSpace, neighbor_constraints
from bregmat.typing import Form, Labels, Points, RandomState, Sense, Strategy

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
MOST_DEFAULT_PAIRS = 1_000_000  # 40 k^2 goes beyond this from 159 classes on


@on_one_blas_thread
def constraints_from_labels(
    X: Points,
    y: Labels,
    n_constraints: int | None = None,
    *,
    strategy: Strategy = "random",
    n_neighbors: int = 3,
    n_impostors: int = 10,
    form: Form = "comparison",
    percentiles: tuple[float, float] = (5, 95),
    unlabeled: Any = -1,
    random_state: RandomState = None,
) -> Constraints:
    """Constraints between labelled points: bounds for random pairs, or comparisons of nearest neighbours.

        "random",     same class:       sq_distance(i, j) <= u        u, l: lower and upper percentile of the
        "uniform"     different class:  sq_distance(i, j) >= l        squared distances between labelled points
        "neighbors"   sq_distance(i, j) + margin <= sq_distance(i, l)
                      j one of the nearest points of i's class, l of other classes; margin: twice the farthest of the first

    "random" draws as many pairs of one class as of two, "uniform" draws all pairs alike (Davis 2007, section 5).
    Use "neighbors" before methods that look at near points only. If classes have several parts, no linear map can bring all pairs of
    one class together, as random pairs ask. Bounds are *squared* distances in the units of X.

    Parameters
    ----------
    X : array-like or scipy.sparse, shape (n, d)
        Points, one per row; finite.
    y : array-like, shape (n,)
        Labels of any type: strings, integers, booleans, mixed objects. Rows labelled ``unlabeled``, None, NaN or
        NA take no part. With "neighbors" also numbers that are not whole, as of regression: points belong together if
        they are in the same tenth of the values, and apart if there is a tenth between them; and sets of labels as 0 and 1, shape
        (n, n_labels): together if they share one.
    n_constraints : int, optional
        Most rows, at least 1; fewer are returned where the data has no more. By default 40 k^2 pairs for k classes, at most
        1,000,000; with "neighbors" at most 300,000 comparisons: those of points drawn at random, where there are more.
    strategy : {"random", "uniform", "neighbors"}
        "random" draws half of the pairs within classes, with an equal share for every class and every two classes; "uniform" draws
        every pair of labelled points with the same probability.
    n_neighbors, n_impostors : int
        With "neighbors": points of its class and of others that each point is compared with; at least 1.
    form : {"comparison", "sq_distance"}
        With "neighbors": the rows above, or pairs, ``sq_distance(i, j) <= margin`` and ``sq_distance(i, l) >= 2 margin``.
    percentiles : (float, float)
        With "random" and "uniform": lower and upper percentile, 0 to 100, of the positive squared distances between labelled points: of all
        pairs up to 20,000, else of a random 20,000 of them (5,000 to 20,000 above 5,000 columns).
    unlabeled : object
        The label that means "not known"; None if only missing values do.
    random_state : int, Generator, RandomState or None
        Seed; the same seed gives the same rows. None draws anew at every call.

    Returns
    -------
    Constraints
        Rows named by the row numbers of X. Pairs with "random" and "uniform", same-class pairs first, of weight 1;
        comparisons with "neighbors", each of weight ``1000 / n_constraints``, so that slack weights mean the same whatever their
        number.

    Raises
    ------
    ValueError
        Labels exactly {-1, 1} while ``unlabeled=-1`` (which is meant?), continuous y without "neighbors", NaN or infinity in X, fewer
        than two labelled rows, or nothing at all to ask for.

    Warns
    -----
    UserWarning
        With "neighbors": points that are alone in their class, or coincide with a point of another.

    Notes
    -----
    "random" draws half of either kind, as far as there are enough; within a kind every class (every two classes) has an equal
    share, so that rare classes are not drowned by common ones. Davis 2007 draws pairs whatever their class, which is "uniform": of k
    classes of equal size, about one pair in k is then of the same class. With both, no pair occurs twice. Pairs of identical points
    are never drawn: for different classes no metric can separate them, for the same class they are met by every metric. Points that
    agree to 12 digits count as identical. Cost: O(n d) for the checks and O(d) per pair.

    Neighbours: after LMNN (Weinberger and Saul 2009), with the margin in units of each point's own neighbourhood rather than one for
    all. Cost: O(m n d) for the neighbours of m points among n.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import constraints_from_labels
    >>> X, y = load_iris(return_X_y=True)
    >>> constraints_from_labels(X, y, strategy="random", n_constraints=200, random_state=0).n_constraints
    200
    """
    points = as_points("X", np.asarray(X) if isinstance(X, np.memmap) else X)  # a memory map, too, is looked at here
    check_drawing(strategy, n_neighbors, n_impostors, form)
    check_integer("n_constraints", n_constraints, 1)
    percentiles = check_percentiles(percentiles)
    rng = generator(random_state)
    kinds = as_kinds(y, points.shape[0], strategy, unlabeled=unlabeled)
    if strategy != "neighbors":
        is_balanced = strategy == "random"
        return random_pairs(points, Classes.of(kinds.codes), n_constraints, percentiles, rng, is_balanced=is_balanced)
    return neighbor_constraints(
        PointSpace(points),
        kinds,
        n_neighbors=n_neighbors,
        n_impostors=n_impostors,
        form=form,
        n_constraints=n_constraints,
        rng=rng,
    )


def check_drawing(strategy: Any, n_neighbors: Any, n_impostors: Any, form: Any) -> None:
    """Raise for a strategy, number or form that is not valid for any data.

    Parameters
    ----------
    strategy, n_neighbors, n_impostors, form
        As in :func:`constraints_from_labels`.
    """
    as_choice("strategy", strategy, STRATEGIES)
    check_integer("n_neighbors", n_neighbors, 1, optional=False)
    check_integer("n_impostors", n_impostors, 1, optional=False)
    as_choice("form", form, FORMS)


def as_kinds(y: Any, n: int, strategy: str, *, unlabeled: Any = -1) -> Kinds:
    """Which points belong together, from class labels; with "neighbors" also from numbers and from sets of labels.

    Parameters
    ----------
    y : array-like, shape (n,) or (n, n_labels)
    n : int
        Number of points.
    strategy, unlabeled
        As in :func:`constraints_from_labels`.
    """
    y = to_numpy("y", y)
    values = np.asarray(y.toarray() if sp.issparse(y) else y)
    if strategy == "neighbors" and values.ndim == 2 and values.shape[1] > 1:
        if not np.isin(values, (0, 1)).all():
            raise ValueError("y with several columns must hold sets of labels as 0 and 1.")
        kinds = Kinds.of_sets(values.astype(bool))
    elif strategy == "neighbors" and is_continuous(values):
        kinds = Kinds.of_values(values.astype(float))
    else:
        kinds = Kinds.of_classes(label_codes(y, unlabeled=unlabeled))
    if len(kinds.codes) != n:
        raise ValueError(f"y has {len(kinds.codes)} labels but X has {n} rows.")
    check_labelled(int((kinds.codes >= 0).sum()), n, unlabeled)
    return kinds


def check_labelled(n_known: int, n: int, unlabeled: Any) -> None:
    """Raise where fewer than two of n rows are labelled."""
    if n_known < 2:
        raise ValueError(
            f"y must label at least 2 rows to make a pair; {n_known} of {n} rows are labelled "
            f"(unlabeled={unlabeled!r}, n_samples={n})."
        )


def is_continuous(values: np.ndarray) -> bool:
    """Whether these are finite numbers (or NaN) that are not all whole."""
    if values.ndim != 1 or values.dtype.kind != "f" or np.isinf(values).any():
        return False
    known = values[~np.isnan(values)]
    return bool((known != np.rint(known)).any())


@dataclass(frozen=True, eq=False)
class Classes:
    """Labelled points and their classes, from which random pairs are drawn.

    Attributes
    ----------
    sizes : ndarray of int, shape (k,)
        Points of each class.
    labelled : ndarray of int
        Row numbers of the labelled points, ascending; or what gives some of them by their places.
    ordered : ndarray of int
        The same by class.
    code_of : callable
        Classes of some rows, by their numbers.
    """

    sizes: np.ndarray
    labelled: Any
    ordered: Any
    code_of: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, codes: np.ndarray) -> Classes:
        """Classes by number, -1 unlabelled."""
        rows = np.flatnonzero(codes >= 0)
        ordered = rows[np.argsort(codes[rows], kind="stable")]
        return cls(np.bincount(codes[rows]), rows, ordered, codes.__getitem__)


def random_pairs(
    points: Any,
    classes: Classes,
    n_constraints: int | None,
    percentiles: tuple[float, float],
    rng: np.random.Generator,
    *,
    is_balanced: bool,
    apart: Wanted | None = None,
) -> Constraints:
    """Pairs of one class and of two, bounded by percentiles; the seed's generator is advanced.

    Parameters
    ----------
    points : ndarray, csr array, or points in blocks, shape (n, d)
    classes : Classes
    n_constraints, percentiles
        As in :func:`constraints_from_labels`.
    rng : Generator
    is_balanced : bool
        Whether pairs of one class are as many as those of two, and those of every class alike; else all pairs are drawn alike.
    apart : callable, optional
        ``apart(i, j)`` tells which pairs of rows differ; :func:`bregmat.base.sampling.differ` by default.
    """
    k = len(classes.sizes)
    if n_constraints is None:
        n_constraints = min(40 * k * k, MOST_DEFAULT_PAIRS)
    apart = differ(points) if apart is None else apart
    near_bound, far_bound = sq_distance_percentiles(
        points, classes.labelled, percentiles, rng, which="labelled points", apart=apart
    )
    draw = _balanced_pairs if is_balanced else _uniform_pairs
    same, different = draw(classes, n_constraints, rng, apart)
    kinds: tuple[tuple[Any, float, Sense], ...] = ((same, near_bound, "<="), (different, far_bound, ">="))
    parts = [
        Constraints.sq_distance(pairs[0], pairs[1], bound, sense) for pairs, bound, sense in kinds if len(pairs[0])
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


Pairs: TypeAlias = tuple[np.ndarray, np.ndarray]  # two arrays of row numbers
Wanted: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]  # which of some pairs may be drawn


def _uniform_pairs(
    classes: Classes, n_constraints: int, rng: np.random.Generator, apart: Wanted
) -> tuple[Pairs, Pairs]:
    """Pairs of one class and of two, drawn alike from all pairs of labelled points (Davis 2007, section 5)."""
    ordered = classes.ordered
    i, j = PairGroups.within(ordered, np.array([len(ordered)])).draw(n_constraints, rng, apart)
    is_same = classes.code_of(i) == classes.code_of(j)
    return (i[is_same], j[is_same]), (i[~is_same], j[~is_same])


def _balanced_pairs(
    classes: Classes, n_constraints: int, rng: np.random.Generator, apart: Wanted
) -> tuple[Pairs, Pairs]:
    """As many pairs of one class as of two, each class and each two classes alike."""
    k, code, ordered, sizes = len(classes.sizes), classes.code_of, classes.ordered, classes.sizes
    within = PairGroups.within(ordered, sizes)
    across = PairGroups.across(ordered, sizes)
    n_same = min(n_constraints // 2 if k > 1 else n_constraints, within.n_pairs)
    n_same = max(n_same, n_constraints - across.n_pairs)
    same = within.draw(n_same, rng, apart)
    different = across.draw(n_constraints - len(same[0]), rng, lambda i, j: (code(i) != code(j)) & apart(i, j))
    if k > 1 and not len(different[0]) and n_constraints > len(same[0]):
        raise ValueError(
            "y gives different classes to identical points, and no two points of different classes were found that "
            f"differ: see {rows_text(ordered[np.cumsum(sizes)[:2] - 1])} of X. No metric separates them."
        )
    return same, different


# ---------------------------------------------------------------------- labels
def label_codes(y: Any, *, unlabeled: Any = -1) -> np.ndarray:
    """Class numbers 0, 1, ... in order of first appearance, -1 for rows without a label; int64, shape (n,).

    Raises ``ValueError`` for labels exactly {-1, 1} with ``unlabeled=-1``, for continuous and for infinite labels.
    """
    values, missing = _label_array(y)
    known = values[~missing]
    if known.dtype.kind == "O" and len(known) and all(_is_number(v) for v in known):
        known = known.astype(float)
    if known.dtype.kind == "c":
        raise ValueError("y must hold class labels; got complex numbers.")
    if known.dtype.kind == "f":
        where = np.flatnonzero(~missing)
        bad = where[~np.isfinite(known)]
        if len(bad):
            raise ValueError(f"y contains infinity or a value too large, in {rows_text(bad)}.")
        bad = where[known != np.rint(known)]
        if len(bad):
            raise ValueError(
                f"y must hold class labels, but it is continuous (y[{bad[0]}] = {values[bad[0]]}; {rows_text(bad)}). "
                'strategy="neighbors" takes values, to be near in; for distances that are known, use Constraints.sq_distance(i, j, '
                "bound, sense)."
            )
    match = _matches(known, unlabeled)
    is_minus_one = _is_number(unlabeled) and unlabeled == -1
    if is_minus_one and known.dtype.kind in "if" and set(np.unique(known).tolist()) == {-1, 1}:
        raise ValueError(
            "y holds exactly the labels -1 and 1, and unlabeled=-1: is -1 a class or does it mean unlabelled? "
            "If it is a class, pass unlabeled=None; if it means unlabelled, replace it by NaN or None."
        )
    codes = np.full(len(values), -1, dtype=np.int64)
    rows = np.flatnonzero(~missing)[~match]
    codes[rows] = _first_appearance(known[~match])
    return codes


def _label_array(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels as a 1-D array and the mask of missing values."""
    values = np.asarray(to_numpy("y", y))
    if values.dtype.kind in "US" and isinstance(y, list | tuple):  # NumPy would write None and NaN as text
        values = np.array(y, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, one label per row; got shape {values.shape}.")
    if values.dtype.kind == "O":
        missing = np.fromiter((is_missing(v) for v in values), dtype=bool, count=len(values))
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
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _matches(labels: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Where a label equals the "not known" mark; marks of another kind match nothing."""
    if is_missing(unlabeled):
        return np.zeros(len(labels), dtype=bool)
    if labels.dtype.kind == "O":
        equal = (type(v) is type(unlabeled) or _is_number(v) and _is_number(unlabeled) for v in labels)
        return np.fromiter((same and v == unlabeled for same, v in zip(equal, labels)), dtype=bool, count=len(labels))
    kind = {"U": str, "S": bytes, "b": bool | np.bool_}.get(labels.dtype.kind)
    comparable = _is_number(unlabeled) if kind is None else isinstance(unlabeled, kind)
    return labels == unlabeled if comparable else np.zeros(len(labels), dtype=bool)


def _first_appearance(labels: np.ndarray) -> np.ndarray:
    """Codes 0, 1, ... in order of first appearance, so that pairs do not depend on the names of classes."""
    if labels.dtype.kind == "O":
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(v, len(seen)) for v in labels], dtype=np.int64)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
