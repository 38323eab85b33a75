"""Settings that are "auto": whether to scale the columns, how labels become constraints, and the slack weight."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.linalg import dense, smallest, sq_norms
from bregmat.estimators.linear_maps import points_in_prior
from bregmat.run.result import SolverError
from bregmat.typing import Strategy

MOST_COMPARED = 1500  # training rows in a comparison, evenly spaced
FEWEST_COMPARED = (
    40  # labelled rows, in classes of at least FEWEST_OF_CLASS, that a comparison on held-out halves needs
)
FEWEST_OF_CLASS = 4
N_NEIGHBORS = 4
USUAL_ROWS = 500  # training points up to which the slack weight is 1
MOST_USUAL = 5.0  # largest factor of that weight: on 50,000 images a factor of 20 is worse than 5
DOUBTFUL_WEIGHT = 0.3  # factor of the slack weight where learning is not clearly better than the prior
RANDOM_WEIGHT = 0.1  # slack weight of random pairs: with larger weights few rows overfit
# Settings of the learners that are compared: they need less precision than the final fit.
QUICKLY: dict[str, Any] = {
    "passes": 1,
    "tol": 1e-2,
    "max_iter": 60,
    "unlabeled": None,
    "warm_start": False,
    "verbose": 0,
    "callback": None,
}


def usual_weight(slack_weight: float, n: int) -> float:
    """The slack weight for n training points, from the weight for at most 500 points.

    The total weight of the constraints drawn from labels does not depend on their number. Without a correction, each point would therefore
    count less, relative to the prior, the more points there are. Above 500 points, for which the weight was chosen (docs/defaults.md), the
    weight grows in proportion to n, up to five times.
    """
    return slack_weight * min(max(1.0, n / USUAL_ROWS), MOST_USUAL)


def compared_rows(n: int, kinds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced rows and their classes. The class is -1 if it is unknown, and for all rows if y does not contain classes."""
    rows = np.arange(n)[:: -(-n // MOST_COMPARED)]
    some = kinds.of_rows(rows)
    return rows, some.codes if some.are_classes else np.full(len(rows), -1)


def shares_right(
    known: Any, codes: np.ndarray, asked: Any | None = None, truth: np.ndarray | None = None
) -> np.ndarray:
    """Whether the 4 nearest known points vote for the true class of each queried point: 1, 0, or a fraction if votes tie.

    Parameters
    ----------
    known : ndarray or scipy.sparse, shape (n, d)
    codes : ndarray of int, shape (n,)
        Their classes.
    asked, truth : like known and codes, optional
        The queried points and their classes. By default the known points, each of which is left out of its own neighbours.
    """
    others = known if asked is None else asked
    if not sp.issparse(known):  # centring keeps the most digits of the inner products
        mean = known.mean(axis=0)
        known, others = known - mean, others - mean
    # |x - z|^2 = |z|^2 - 2 x'z + |x|^2; the last term is the same for all neighbours z of x
    sq = dense(others @ known.T)
    sq *= -2.0
    sq += sq_norms(known)
    if asked is None:
        np.fill_diagonal(sq, np.inf)
    votes = codes[smallest(sq, min(N_NEIGHBORS, len(codes) - (asked is None)))[1]]
    truth = codes if truth is None else truth
    counts = np.zeros((len(truth), codes.max() + 1))
    np.add.at(counts, (np.arange(len(truth))[:, None], votes), 1.0)
    is_first = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(is_first[np.arange(len(truth)), truth] / is_first.sum(axis=1))


def scaled_or_not(X: Any, codes: np.ndarray) -> tuple[str, dict[str, float]]:
    """Whether to scale the columns: "variance", or "identity" if nearest neighbours are more accurate without scaling.

    Both accuracies are leave-one-out. The columns are scaled unless the difference is above 1.5 of its standard errors.

    Parameters
    ----------
    X : ndarray or scipy.sparse, shape (n, d)
    codes : ndarray of int, shape (n,)
        Classes; -1 for unknown ones.
    """
    known = codes >= 0
    if known.sum() < 3:
        return "variance", {}
    given, scaled = [shares_right(points_in_prior(X, name)[known], codes[known]) for name in ("identity", "variance")]
    accuracy = {"as given": float(given.mean()), "scaled": float(scaled.mean())}
    return "identity" if _is_better(given, scaled, 1.5) else "variance", accuracy


def best_strategy(
    mapped: Callable[[Strategy | None, np.ndarray, np.ndarray], tuple[Any, Any]], codes: np.ndarray
) -> tuple[Strategy | None, float, dict[str, float]]:
    """The strategy, the factor of its slack weight, and the accuracies on held-out halves that decide both.

    The strategy is "neighbors", unless "random" or not learning (None) is more accurate by three standard errors: the comparison underrates
    learning, because only half of the points are training points and neighbours are searched only once. The factor is 1, or
    ``DOUBTFUL_WEIGHT`` if "neighbors" is not more accurate than the prior by one standard error: then the metric stays near the prior.

    Parameters
    ----------
    mapped : callable
        ``mapped(strategy, train, test)`` learns from the rows ``train`` and returns the training points and the test points in the learned
        map.
    codes : ndarray of int, shape (n,)
        Classes; -1 for unknown ones.
    """
    from sklearn.model_selection import StratifiedKFold

    usable = np.flatnonzero(codes >= 0)
    usable = usable[np.bincount(codes[usable])[codes[usable]] >= FEWEST_OF_CLASS]
    codes = np.unique(codes[usable], return_inverse=True)[1]
    if len(usable) < FEWEST_COMPARED or codes.max() == 0:
        return "neighbors", 1.0, {}
    right: dict[Strategy | None, list[np.ndarray]] = {"neighbors": [], "random": [], None: []}
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(np.zeros(len(codes)), codes):
        for strategy, found in right.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # identical points, or no convergence, on one half
                try:
                    near, far = mapped(strategy, usable[train], usable[test])
                except (ValueError, SolverError):  # this half has nothing to learn from
                    found.append(np.zeros(len(test)))
                    continue
            found.append(shares_right(near, codes[train], far, codes[test]))
    shares = {strategy: np.concatenate(found) for strategy, found in right.items()}
    best: Strategy | None = "neighbors"
    rivals: tuple[Strategy | None, ...] = ("random", None)
    for rival in rivals:
        if _is_better(shares[rival], shares["neighbors"], 3.0) and shares[rival].mean() > shares[best].mean():
            best = rival
    is_clear = _is_better(shares["neighbors"], shares[None], 1.0)
    factor = DOUBTFUL_WEIGHT if best == "neighbors" and not is_clear else 1.0
    named = {f"{strategy or 'not learned'}, on halves": float(found.mean()) for strategy, found in shares.items()}
    return best, factor, named


def _is_better(a: np.ndarray, b: np.ndarray, n_errors: float) -> bool:
    """Whether the mean of a is above the mean of b by more than ``n_errors`` standard errors of the difference."""
    difference = a - b
    return bool(difference.mean() > n_errors * difference.std() / np.sqrt(len(difference)))
