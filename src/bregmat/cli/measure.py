"""Points as given, with columns scaled, and learned: constraints met, nearest neighbours on held-out folds, k-means."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from bregmat._html import SummaryRow
from bregmat.constraints import Constraints
from bregmat.estimators.mahalanobis import inverse_deviations
from bregmat.plots.pairs import share_ordered

__all__ = ["best_slack_weight", "constraints_met", "k_means_nmi", "neighbours_accuracy", "pairs_in_order", "scaled"]

MOST_CLUSTERED = 20_000  # points; k-means on more would take longer than learning


def scaled(X: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """Columns over their standard deviations, in X or in points like them (n, d): what learning has to beat."""
    return X * inverse_deviations(X if like is None else like)


def constraints_met(rows: Constraints, maps: Sequence[np.ndarray | None], *, all_soft: bool = False) -> SummaryRow:
    """How many constraints hold to a relative tolerance of 1e-3.

    Parameters
    ----------
    rows : Constraints
        In row numbers.
    maps : three ndarrays of shape (n, .), or None
        The points as given, scaled and learned; None where the bounds are in other units.
    all_soft : bool
        Whether every constraint may be violated at a price; the name of the row says so.
    """

    def text(G: np.ndarray | None) -> str | None:
        if G is None:
            return None
        met = int(rows.satisfied(G).sum())
        return f"{met:,} ({met / rows.n_constraints:.0%})"

    before, among_scaled, after = map(text, maps)
    return (f"{'soft ' if all_soft else ''}constraints met, of {rows.n_constraints:,}", before, among_scaled, after)


def pairs_in_order(rows: Constraints, maps: Sequence[np.ndarray]) -> list[SummaryRow]:
    """How often a similar pair is closer than a dissimilar one; no row without both kinds."""
    pairs = rows.where("is_sq_distance")
    if not pairs.any():
        return []
    pair_rows = rows.select(pairs)
    before, among_scaled, after = (share_ordered(pair_rows.values(G), pair_rows.sense) for G in maps)
    if not np.isfinite(before):
        return []
    return [("a similar pair is closer than a dissimilar one", before, among_scaled, after)]


def neighbours_accuracy(
    fit: Callable[[np.ndarray], Any],
    X: np.ndarray,
    labels: np.ndarray,
    *,
    n_neighbors: int = 4,
    n_folds: int = 5,
    n_repeats: int = 1,
    random_state: int = 0,
    on_fold: Callable[[int, int], Any] | None = None,
) -> SummaryRow:
    """Accuracy of k-nearest-neighbours on held-out folds: points as given, scaled as in the training part, with its metric.

    Parameters
    ----------
    fit : callable
        Gets the row numbers of the training part, gives something with `transform`.
    X : ndarray of shape (n, d)
    labels : ndarray of shape (n,)
        Class numbers; rows with -1 take part in no fold.
    on_fold : callable, optional
        Told the number of the fold that begins and how many there are.
    """
    rows = np.flatnonzero(labels >= 0)
    n_folds = min(n_folds, int(np.bincount(labels[rows]).min()))
    if n_folds < 2:
        return (f"{n_neighbors}-NN accuracy: a class has only one labelled point", None, None, None)
    folds = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=n_repeats, random_state=random_state)
    scores = []
    for k, (training, test) in enumerate(folds.split(rows, labels[rows])):
        if on_fold is not None:
            on_fold(k + 1, n_folds * n_repeats)
        training, test = rows[training], rows[test]
        nearest = KNeighborsClassifier(min(n_neighbors, len(training)))
        maps = (X, scaled(X, X[training]), fit(training).transform(X))
        scores.append([nearest.fit(G[training], labels[training]).score(G[test], labels[test]) for G in maps])
    name = f"{n_neighbors}-NN accuracy, {f'{n_repeats} x ' if n_repeats > 1 else ''}{n_folds}-fold"
    before, among_scaled, after = np.mean(scores, axis=0).tolist()
    return (name, before, among_scaled, after)


def k_means_nmi(maps: Sequence[np.ndarray], labels: np.ndarray, *, random_state: int = 0) -> SummaryRow:
    """Normalised mutual information of k-means (k classes, ten starts) with the labels, on the points learned from.

    Parameters
    ----------
    maps : three ndarrays of shape (n, .)
        The points as given, scaled and learned.
    labels : ndarray of shape (n,)
        Class numbers; rows with -1 are left out.
    random_state : int
        Seed of the starts.
    """
    rows = np.flatnonzero(labels >= 0)
    if len(rows) > MOST_CLUSTERED:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MOST_CLUSTERED, replace=False))
    k = int(labels.max()) + 1

    def nmi(G: np.ndarray) -> float:
        clusters = KMeans(k, n_init=10, random_state=random_state).fit_predict(G[rows])
        return float(normalized_mutual_info_score(labels[rows], clusters))

    before, among_scaled, after = map(nmi, maps)
    return ("k-means NMI, same points", before, among_scaled, after)


def best_slack_weight(
    learner: Any,
    X: np.ndarray,
    labels: np.ndarray,
    *,
    weights: tuple[float, ...],
    given: Constraints | None = None,
    row_numbers: np.ndarray | None = None,
    n_neighbors: int = 4,
    n_folds: int = 3,
    random_state: int = 0,
) -> float:
    """The slack weight with the best k-nearest-neighbour accuracy in a cross-validated grid search.

    With equal accuracies the smallest weight wins: it stays nearest to the prior.

    Parameters
    ----------
    learner : MetricLearner
        Cloned for every fit.
    X : ndarray of shape (n, d)
    labels : ndarray of shape (n,)
        Class numbers; rows with -1 are left out.
    weights : tuple of float
        To choose from.
    given : Constraints, optional
        Beside those of the labels; they name values of `row_numbers`.
    row_numbers : ndarray of shape (n,), optional
        By default 0, 1, 2, ...
    n_neighbors, n_folds, random_state : int
        Of the nearest-neighbour test; fewer folds where a class is smaller.
    """
    known = labels >= 0
    n_folds = max(2, min(n_folds, int(np.bincount(labels[known]).min())))
    grid = GridSearchCV(
        Pipeline([("metric", learner), ("nearest", KNeighborsClassifier(n_neighbors))]),
        {"metric__slack_weight": sorted(weights)},
        cv=StratifiedKFold(n_folds, shuffle=True, random_state=random_state),
        error_score=np.nan,
        refit=False,
    )
    extra = {}
    if given is not None:
        names = np.arange(len(X)) if row_numbers is None else row_numbers
        extra = {"metric__constraints": given, "metric__sample_id": names[known]}
    with warnings.catch_warnings():  # a weight that is too heavy to converge or to solve loses, without a word
        warnings.simplefilter("ignore")
        grid.fit(X[known], labels[known], **extra)
    return float(grid.best_params_["metric__slack_weight"])
