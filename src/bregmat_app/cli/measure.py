"""Measurements of points as given, with scaled columns and learned: constraints met, nearest neighbours, k-means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix, normalized_mutual_info_score, r2_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from bregmat.base.html import FEWER_MET, SummaryRow, number
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.linear_maps import inverse_deviations
from bregmat.plots.pairs import share_ordered
from bregmat_app.report import FoldScores, HeldOut

N_NEIGHBORS = 4  # as in the papers
MOST_CLUSTERED = 20_000  # k-means on more points would take longer than learning


def scaled(X: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """Divide the columns of X by their standard deviations, or by those of the points `like`, shape (n, d)."""
    return X * inverse_deviations(X if like is None else like)


def constraints_met(rows: Constraints, maps: Sequence[np.ndarray | None], *, all_soft: bool = False) -> SummaryRow:
    """Count the constraints that hold up to a relative violation of 1e-3.

    Parameters
    ----------
    rows : Constraints
        In row numbers.
    maps : three ndarrays of shape (n, .), or None
        The points as given, scaled and learned; None if the bounds have other units.
    all_soft : bool
        Whether every constraint has slack; the name of the row says so.
    """

    def text(G: np.ndarray | None) -> str | None:
        if G is None:
            return None
        met = int(rows.satisfied(G).sum())
        return f"{met:,} ({met / rows.n_constraints:.0%})"

    before, among_scaled, after = map(text, maps)
    return (f"{'soft ' if all_soft else ''}constraints met, of {rows.n_constraints:,}", before, among_scaled, after)


def fewer_met(rows: Constraints, start: np.ndarray, learned: np.ndarray) -> str | None:
    """Explain why fewer constraints, all with slack, are met after learning than before; None if that is not so.

    Parameters
    ----------
    rows : Constraints
        In row numbers.
    start, learned : ndarray of shape (n, .)
        The points mapped by the prior, and learned.
    """
    missing = [rows.violation(G) for G in (start, learned)]
    before, after = (int((v <= 1e-3).sum()) for v in missing)
    if after >= before:
        return None
    weight = np.where(np.isinf(rows.weight), 1.0, rows.weight)
    cost, now = (float(np.average(v * v, weights=weight)) for v in missing)
    fell = f" (the mean squared relative violation fell from {number(cost, 3)} to {number(now, 3)})"
    return f"fewer soft constraints are met after learning ({after:,}) than before it ({before:,}): {FEWER_MET}" + (
        fell if now < cost else ""
    )


def pairs_in_order(rows: Constraints, maps: Sequence[np.ndarray]) -> list[SummaryRow]:
    """Measure how often a similar pair is closer than a dissimilar one; no row without both kinds."""
    pairs = rows.where("is_sq_distance")
    if not pairs.any():
        return []
    pair_rows = rows.select(pairs)
    before, among_scaled, after = (share_ordered(pair_rows.values(G), pair_rows.sense) for G in maps)
    if not np.isfinite(before):
        return []
    return [("a similar pair is closer than a dissimilar one", before, among_scaled, after)]


@dataclass(frozen=True)
class Folds:
    """The folds that are held out.

    Attributes
    ----------
    n_folds, n_repeats, random_state : int
        There are fewer folds if a class has fewer points, or if there are fewer than two values per fold.
    on_fold : callable, optional
        Called with the number of the fold that begins and the number of folds.
    """

    n_folds: int = 5
    n_repeats: int = 1
    random_state: int = 0
    on_fold: Callable[[int, int], Any] | None = None


def held_out_neighbours(
    fit: Callable[[np.ndarray], Any], X: np.ndarray, y: np.ndarray, folds: Folds = Folds()
) -> FoldScores | None:
    """Test nearest neighbours on held-out folds: points as given, scaled by the training part, and mapped by its metric.

    Parameters
    ----------
    fit : callable
        Takes the row numbers of the training part, returns an object with `transform`.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Class numbers, or values; rows with -1 or NaN are in no fold.
    folds : Folds

    Returns
    -------
    HeldOut of classes, FoldScores of values, or None
        None if a class has only one labelled point, or fewer than four points have a value: then there are no two folds.
    """
    has_values, rows, most = _labelled(y)
    n_folds = min(folds.n_folds, most)
    if n_folds < 2:
        return None
    kind = RepeatedKFold if has_values else RepeatedStratifiedKFold
    split: Any = kind(n_splits=n_folds, n_repeats=folds.n_repeats, random_state=folds.random_state)
    classes = np.arange(0 if has_values else int(y.max()) + 1)
    scores = np.empty((n_folds * folds.n_repeats, 3))
    confusion = np.zeros((3, len(classes), len(classes)), dtype=np.int64)
    predicted, nearest = np.full((2, 3, len(y)), -1)
    for fold, (training, test) in enumerate(split.split(rows, y[rows])):
        if folds.on_fold is not None:
            folds.on_fold(fold + 1, split.get_n_splits())
        training, test = rows[training], rows[test]
        neighbors = _neighbours_of(has_values, min(N_NEIGHBORS, len(training)))
        for k, G in enumerate((X, scaled(X, X[training]), fit(training).transform(X))):
            answer = neighbors.fit(G[training], y[training]).predict(G[test])
            if has_values:
                scores[fold, k] = r2_score(y[test], answer)
                continue
            scores[fold, k] = np.mean(answer == y[test])
            confusion[k] += confusion_matrix(y[test], answer, labels=classes)
            if fold < n_folds:  # the first repeat, in which each point is held out once
                predicted[k, test] = answer
                nearest[k, test] = training[neighbors.kneighbors(G[test], 1, return_distance=False)[:, 0]]
    found: Any = {"n_neighbors": N_NEIGHBORS, "n_folds": n_folds, "n_repeats": folds.n_repeats, "scores": scores}
    if has_values:
        return FoldScores(**found)
    return HeldOut(**found, labels=y, confusion=confusion, predicted=predicted, nearest=nearest)


def _labelled(y: np.ndarray) -> tuple[bool, np.ndarray, int]:
    """Whether labels are values rather than classes, the rows that have one, and the largest number of folds."""
    if y.dtype.kind == "f":
        rows = np.flatnonzero(np.isfinite(y))
        return True, rows, len(rows) // 2
    rows = np.flatnonzero(y >= 0)
    return False, rows, int(np.bincount(y[rows]).min())


def _neighbours_of(has_values: bool, k: int) -> Any:
    return (KNeighborsRegressor if has_values else KNeighborsClassifier)(k)


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
