"""Constraints from labels: random pairs bounded by percentiles of squared distances, or comparisons of neighbours.

No array grows with the square of the number of points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from bregmat.base.checks import as_choice, as_percentiles, check_integer, generator, rows_text, to_numpy
from bregmat.base.points import as_points
from bregmat.base.sampling import PairGroups, differ, sq_distance_percentiles
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import SQ_DISTANCE
from bregmat.from_labels.groups import LabelGroups, label_groups
from bregmat.from_labels.neighbors import FORMS, MOST_DEFAULT_ROWS, STRATEGIES, PointSpace, neighbor_constraints
from bregmat.typing import Form, Labels, Points, RandomState, Strategy

MOST_DEFAULT_PAIRS = 1_000_000  # 40 k^2 is above this from 159 classes on

Pairs: TypeAlias = tuple[np.ndarray, np.ndarray]  # row numbers of the two points of each pair
Wanted: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]  # which pairs (i, j) may be drawn


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

        "random"      same class:       sq_distance(i, j) <= u
                      different class:  sq_distance(i, j) >= l
                      u, l: percentiles of the squared distances of labelled points
        "neighbors"   sq_distance(i, j) + margin <= sq_distance(i, l)
                      j: one of the nearest points of i's class
                      l: one of the nearest points of other classes
                      margin: twice the largest squared distance of i and such a j

    Use "neighbors" before methods that look at near points only, such as nearest neighbours. If a class consists of several clusters,
    no linear map can bring all pairs within the class together, which random pairs demand. Bounds are *squared* distances in the
    units of X.

    Parameters
    ----------
    X : array-like or scipy.sparse, shape (n, d)
        Points, one per row; finite.
    y : array-like, shape (n,) or (n, n_labels)
        Labels of any type: strings, integers, booleans, mixed objects. Rows with the label ``unlabeled``, None, NaN or NA are not
        used. "neighbors" also takes real numbers: points belong together if they are in the same tenth of the values, and apart if
        there is a tenth between them. It also takes sets of labels as 0 and 1, shape (n, n_labels): points belong together if they
        share a label.
    n_constraints : int, optional
        Maximum number of constraints, at least 1; there are fewer if the data has no more. By default 40 k^2 pairs for k classes, at most
        1,000,000. With "neighbors" the default is 300,000 comparisons; if there are more, points are drawn at random.
    strategy : {"random", "neighbors"}
        "random" draws half of the pairs within classes, with an equal share for every class and every two classes.
    n_neighbors, n_impostors : int
        With "neighbors": number of points of the same class and of other classes that each point is compared with; at least 1.
    form : {"comparison", "sq_distance"}
        With "neighbors": the comparisons above, or bounds ``sq_distance(i, j) <= m`` and ``sq_distance(i, l) >= 2 m`` with
        the median m of the positive squared distances to neighbours of the same class.
    percentiles : (float, float)
        With "random": lower and upper percentile, 0 to 100, of the positive squared distances between labelled points.
        They are of all pairs if there are at most 20,000, otherwise of 20,000 random pairs (5,000 to 20,000 above 5,000 columns).
    unlabeled : object
        Label that means "unknown"; None if only missing values do.
    random_state : int, Generator, RandomState or None
        Seed. The same seed gives the same constraints; None gives other constraints at every call.

    Returns
    -------
    Constraints
        Constraints that name points by their row numbers in X. Pairs come within classes first and have the weight 1. Comparisons have the
        weight ``1000 / n_constraints``, so that the meaning of a slack weight does not depend on their number.

    Raises
    ------
    ValueError
        The labels are exactly {-1, 1} while ``unlabeled=-1``; y is continuous without "neighbors"; X holds NaN or infinity; fewer than
        two rows are labelled; or there is nothing to compare.

    Warns
    -----
    UserWarning
        With "neighbors": some points are alone in their class, or coincide with a point of another class.

    Notes
    -----
    With "random", rare classes get as many pairs as common ones; Davis 2007, section 5, draws all pairs with the same probability. No
    pair is drawn twice. Pairs of identical points (to 12 digits) are never drawn: no metric separates them,
    and every metric meets their upper bounds. The cost is O(n d) for the checks and O(d) per pair.

    Comparisons of neighbours follow LMNN (Weinberger and Saul 2009). The margin is measured in each point's own neighbourhood; LMNN has
    one margin for all points. The cost is O(m n d) for the neighbours of m points among n.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import constraints_from_labels
    >>> X, y = load_iris(return_X_y=True)
    >>> constraints_from_labels(X, y, strategy="random", n_constraints=200, random_state=0).n_constraints
    200
    """
    points = as_points("X", np.asarray(X) if isinstance(X, np.memmap) else X)  # also looks for NaN in a memory map
    as_choice("strategy", strategy, STRATEGIES)
    check_integer("n_constraints", n_constraints, 1)
    check_integer("n_neighbors", n_neighbors, 1, optional=False)
    check_integer("n_impostors", n_impostors, 1, optional=False)
    as_choice("form", form, FORMS)
    percentiles = as_percentiles(percentiles)
    rng = generator(random_state)
    groups = label_groups(to_numpy("y", y), points.shape[0], strategy, unlabeled=unlabeled)
    if strategy == "neighbors":
        # as many points as have n_constraints rows; all points remain possible neighbours
        max_rows = n_constraints or MOST_DEFAULT_ROWS
        per_point = n_neighbors * n_impostors if form == "comparison" else n_neighbors + n_impostors
        compared = groups.compared(-(-max_rows // per_point), rng, warn=True)
        space = PointSpace(points, groups.ordered)
        return neighbor_constraints(space, groups, compared, n_neighbors, n_impostors, max_rows, form=form)
    return random_pairs(points, groups, n_constraints, percentiles, rng)


def random_pairs(
    points: Any,
    classes: LabelGroups,
    n_constraints: int | None,
    percentiles: tuple[float, float],
    rng: np.random.Generator,
    *,
    apart: Wanted | None = None,
    P: Any = None,
) -> Constraints:
    """As many pairs within classes as between classes, bounded by percentiles of the squared distances.

    Parameters
    ----------
    points : ndarray, csr array, or points in blocks, shape (n, d)
    classes : LabelGroups
        Groups that are classes.
    n_constraints, percentiles
        As in :func:`constraints_from_labels`.
    rng : Generator
        Advanced.
    apart : callable, optional
        ``apart(i, j)`` tells which pairs of rows differ; :func:`bregmat.base.sampling.differ` by default.
    P : ndarray or scipy.sparse, shape (d, r), optional
        Map after which the squared distances are measured.
    """
    k = len(classes.sizes)
    if n_constraints is None:
        n_constraints = min(40 * k * k, MOST_DEFAULT_PAIRS)
    apart = differ(points) if apart is None else apart
    near_bound, far_bound = sq_distance_percentiles(
        points, classes.labelled, percentiles, rng, which="labelled points", apart=apart, P=P
    )
    same, different = _balanced_pairs(classes, n_constraints, rng, apart)
    index = np.concatenate([np.stack(same, axis=1), np.stack(different, axis=1)])
    is_same = np.arange(len(index)) < len(same[0])
    return Constraints.of_columns(
        SQ_DISTANCE, index, np.where(is_same, near_bound, far_bound), np.where(is_same, 1, -1), 1.0
    )


def _balanced_pairs(
    classes: LabelGroups, n_constraints: int, rng: np.random.Generator, apart: Wanted
) -> tuple[Pairs, Pairs]:
    """As many pairs within classes as between them, with equal shares for every class and for every two classes."""
    k, codes, ordered, sizes = len(classes.sizes), classes.codes, classes.ordered, classes.sizes
    within = PairGroups.within(ordered, sizes)
    across = PairGroups.across(ordered, sizes)
    n_same = min(n_constraints // 2 if k > 1 else n_constraints, within.n_pairs)
    n_same = max(n_same, n_constraints - across.n_pairs)
    same = within.draw(n_same, rng, apart)
    # with more than 1,000 classes ``across`` holds all pairs
    different = across.draw(n_constraints - len(same[0]), rng, lambda i, j: (codes[i] != codes[j]) & apart(i, j))
    if k > 1 and not len(different[0]) and n_constraints > len(same[0]):
        raise ValueError(
            "the labels y give different classes to identical points, and no two points of different classes were found that "
            f"differ: see {rows_text(ordered[np.cumsum(sizes)[:2] - 1])} of X. No metric separates them."
        )
    return same, different
