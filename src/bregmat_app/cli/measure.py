"""Measurements of points as given, with scaled columns and learned: constraints met, nearest neighbours, k-means.

`maps` are the points (n, .) in these three ways, and each measurement is a row of the summary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import accuracy_score, normalized_mutual_info_score, r2_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from bregmat.base.html import FEWER_MET, SummaryRow, number
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.linear_maps import inverse_deviations
from bregmat_app.report import FoldScores
from bregmat_app.report.data import TOLERANCE

N_NEIGHBORS = 4  # as in the papers
MOST_CLUSTERED = 20_000  # k-means on more points would take longer than learning


def scaled(X: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """Divide the columns of X by their standard deviations, or by those of the points `like`, shape (n, d)."""
    return X * inverse_deviations(X if like is None else like)


def _row(name: str, value: Callable[[np.ndarray], Any], maps: Sequence[np.ndarray | None]) -> SummaryRow:
    """The row of a measurement; no value for None in `maps`."""
    before, among_scaled, after = (None if G is None else value(G) for G in maps)
    return name, before, among_scaled, after


def constraints_met(rows: Constraints, maps: Sequence[np.ndarray | None], *, all_soft: bool = False) -> SummaryRow:
    """Count the constraints that hold; no count for None in `maps`, where the bounds have other units."""

    def text(G: np.ndarray) -> str:
        met = int(rows.satisfied(G).sum())
        return f"{met:,} ({met / rows.n_constraints:.0%})"

    return _row(f"{'soft ' if all_soft else ''}constraints met, of {rows.n_constraints:,}", text, maps)


def fewer_met(rows: Constraints, start: np.ndarray, learned: np.ndarray) -> str | None:
    """Explain why fewer soft constraints are met by the learned points than by those of the prior; None if that is not so.

    Comparisons are not counted by their margins, which only set a scale, but by their order.
    """
    missing = [rows.violation(G) for G in (start, learned)]
    comparisons = rows.where("is_comparison")
    before, after = (
        int(np.where(comparisons, _in_order(rows, G), v <= TOLERANCE).sum()) for G, v in zip((start, learned), missing)
    )
    if after >= before:
        return None
    weight = np.where(np.isinf(rows.weight), 1.0, rows.weight)
    cost, now = (float(np.average(v * v, weights=weight)) for v in missing)
    text = f"fewer soft constraints are met after learning ({after:,}) than before it ({before:,}): {FEWER_MET}"
    fell = f" (the mean squared relative violation fell from {number(cost, 3)} to {number(now, 3)})"
    return text + (fell if now < cost else "")


def _in_order(rows: Constraints, G: np.ndarray) -> np.ndarray:
    """Which comparisons hold without their margins; bool, shape (c,)."""
    return np.asarray(rows.values(G) * np.where(rows.sense < 0, -1.0, 1.0) < 0.0)


def comparisons_in_order(rows: Constraints, maps: Sequence[np.ndarray]) -> list[SummaryRow]:
    """Measure how often the two that are to be closer are so, whatever the margin; no row without comparisons."""
    if not (is_comparison := rows.where("is_comparison") & (rows.sense != 0)).any():
        return []
    comparisons = rows.select(is_comparison)
    name = "the near point is closer than the far one"
    return [_row(name, lambda G: float(_in_order(comparisons, G).mean()), maps)]


def pairs_in_order(rows: Constraints, maps: Sequence[np.ndarray]) -> list[SummaryRow]:
    """Measure how often a similar pair is closer than a dissimilar one; no row without both kinds."""
    is_pair = rows.where("is_sq_distance") & (rows.sense != 0)
    if len(np.unique(rows.sense[is_pair])) < 2:
        return []
    pairs = rows.select(is_pair)
    name = "a similar pair is closer than a dissimilar one"
    return [_row(name, lambda G: float(roc_auc_score(pairs.sense < 0, pairs.values(G))), maps)]


def held_out_neighbours(
    fit: Callable[[np.ndarray], Any],
    X: np.ndarray,
    y: np.ndarray,
    n_folds: int = 5,
    n_repeats: int = 1,
    *,
    random_state: int = 0,
) -> FoldScores | None:
    """Test nearest neighbours on held-out folds: points as given, scaled by the training part, and mapped by its metric.

    `fit` takes the row numbers of the training part and returns an object with `transform`. The labels are class numbers, or values;
    rows with -1 or NaN are in no fold. There are fewer folds if a class has fewer points, or if there are fewer than two values per
    fold. The result is None if that leaves less than two folds.
    """
    has_values = y.dtype.kind == "f"
    rows = np.flatnonzero(np.isfinite(y) if has_values else y >= 0)
    n_folds = min(n_folds, len(rows) // 2 if has_values else int(np.bincount(y[rows]).min()))
    if n_folds < 2:
        return None
    kind, neighbors_of = (
        (RepeatedKFold, KNeighborsRegressor) if has_values else (RepeatedStratifiedKFold, KNeighborsClassifier)
    )
    split: Any = kind(n_splits=n_folds, n_repeats=n_repeats, random_state=random_state)
    score = r2_score if has_values else accuracy_score
    scores = np.empty((n_folds * n_repeats, 3))
    for fold, (training, test) in enumerate(split.split(rows, y[rows])):
        training, test = rows[training], rows[test]
        neighbors = neighbors_of(min(N_NEIGHBORS, len(training)))
        for k, G in enumerate((X, scaled(X, X[training]), fit(training).transform(X))):
            answer = neighbors.fit(G[training], y[training]).predict(G[test])
            scores[fold, k] = score(y[test], answer)
    folds = {"n_neighbors": N_NEIGHBORS, "n_folds": n_folds, "n_repeats": n_repeats}
    return FoldScores(**folds, scores=scores, has_values=has_values)


def k_means_nmi(maps: Sequence[np.ndarray], labels: np.ndarray, *, random_state: int = 0) -> SummaryRow:
    """Normalised mutual information of k-means (k classes, ten starts) with class numbers; rows with -1 are left out."""
    rows = np.flatnonzero(labels >= 0)
    if len(rows) > MOST_CLUSTERED:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MOST_CLUSTERED, replace=False))
    k_means = KMeans(int(labels.max()) + 1, n_init=10, random_state=random_state)

    def nmi(G: np.ndarray) -> float:
        return float(normalized_mutual_info_score(labels[rows], k_means.fit_predict(G[rows])))

    return _row("k-means NMI, same points", nmi, maps)
