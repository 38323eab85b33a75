"""What a learner decides from its labelled points: whether to scale, what to ask of the labels, how much it counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.linalg import dense, sq_norms
from bregmat.estimators.priors import points_in_prior
from bregmat.from_labels.neighbors import smallest
from bregmat.run.result import SolverError
from bregmat.typing import Strategy

MOST_COMPARED = 1500  # training rows that are looked at
FEWEST_COMPARED = 40  # labelled rows, in classes of at least FEWEST_OF_CLASS, below which nothing is held out
FEWEST_OF_CLASS = 4
N_NEIGHBORS = 4
USUAL_ROWS = 500  # training points up to which a slack weight of 1 is the usual one
MOST_USUAL = 5.0  # times that weight at most: on 50,000 images 20 is worse than 5
RANDOM_WEIGHT = 0.1  # of random pairs: with heavier ones few rows overfit
# Settings of the learners that are compared.
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
    """The slack weight for n training points, from the one for few.

    Rows drawn from labels weigh as much together whatever their number. So each point counts the less against the prior the more there
    are. Above 500 points, which the weight was chosen on (docs/defaults.md), it grows in proportion, up to five times.
    """
    return slack_weight * min(max(1.0, n / USUAL_ROWS), MOST_USUAL)


def shares_right(
    known: Any, codes: np.ndarray, asked: Any | None = None, truth: np.ndarray | None = None
) -> np.ndarray:
    """How far the 4 nearest of the known points vote for the true class of each point asked: 1, 0, or a share where votes tie.

    Parameters
    ----------
    known : ndarray or scipy.sparse, shape (n, d)
    codes : ndarray of int, shape (n,)
        Their classes.
    asked, truth : like known and codes, optional
        By default the known points, each without itself.
    """
    others = known if asked is None else asked
    if not sp.issparse(known):  # inner products lose the fewest digits around the mean
        mean = known.mean(axis=0)
        known, others = known - mean, others - mean
    sq = sq_norms(known) - 2.0 * dense(others @ known.T)  # but for the lengths of the others
    if asked is None:
        np.fill_diagonal(sq, np.inf)
    votes = codes[smallest(sq, min(N_NEIGHBORS, len(codes) - (asked is None)))[1]]
    truth = codes if truth is None else truth
    counts = np.zeros((len(truth), codes.max() + 1))
    np.add.at(counts, (np.arange(len(truth))[:, None], votes), 1.0)
    is_first = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(is_first[np.arange(len(truth)), truth] / is_first.sum(axis=1))


def scaled_or_not(X: Any, codes: np.ndarray) -> tuple[str, dict[str, float]]:
    """Whether columns are scaled: "variance", or "identity" where neighbours are right more often in the data as they are.

    Accuracies leave one out; columns are scaled unless the difference is above one and a half of its standard errors.

    Parameters
    ----------
    X : ndarray or scipy.sparse, shape (n, d)
    codes : ndarray of int, shape (n,)
        Classes; -1 where not known.
    """
    known = codes >= 0
    if known.sum() < 3:
        return "variance", {}
    given, scaled = (shares_right(points_in_prior(X, name)[known], codes[known]) for name in ("identity", "variance"))
    accuracy = {"as given": float(given.mean()), "scaled": float(scaled.mean())}
    return "identity" if _is_better(given, scaled, 1.5) else "variance", accuracy


def best_strategy(
    mapped: Callable[[Strategy | None, np.ndarray, np.ndarray], tuple[Any, Any]], codes: np.ndarray
) -> tuple[Strategy | None, dict[str, float]]:
    """What to ask of labels: "neighbors", unless "random" or not to learn (None) is better by three standard errors on halves held out.

    Half of the points learn and vote, which is hard on what learns, and neighbours are compared once only: hence the three errors.

    Parameters
    ----------
    mapped : callable
        A strategy, and the rows that learn and that are held out -> these points as the learned map has them.
    codes : ndarray of int, shape (n,)
        Classes; -1 where not known.
    """
    from sklearn.model_selection import StratifiedKFold

    usable = np.flatnonzero(codes >= 0)
    usable = usable[np.bincount(codes[usable])[codes[usable]] >= FEWEST_OF_CLASS]
    codes = np.unique(codes[usable], return_inverse=True)[1]
    if len(usable) < FEWEST_COMPARED or codes.max() == 0:
        return "neighbors", {}
    right: dict[Strategy | None, list[np.ndarray]] = {"neighbors": [], "random": [], None: []}
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(np.zeros(len(codes)), codes):
        for strategy, found in right.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a half: copies of points, not converged
                try:
                    near, far = mapped(strategy, usable[train], usable[test])
                except (ValueError, SolverError):  # nothing in this half that could be learned from
                    found.append(np.zeros(len(test)))
                    continue
            found.append(shares_right(near, codes[train], far, codes[test]))
    shares = {strategy: np.concatenate(found) for strategy, found in right.items()}
    best: Strategy | None = "neighbors"
    rivals: tuple[Strategy | None, ...] = ("random", None)
    for rival in rivals:
        if _is_better(shares[rival], shares["neighbors"], 3.0) and shares[rival].mean() > shares[best].mean():
            best = rival
    named = {f"{strategy or 'not learned'}, on halves": float(found.mean()) for strategy, found in shares.items()}
    return best, named


def _is_better(a: np.ndarray, b: np.ndarray, n_errors: float) -> bool:
    """Whether a is above b in the mean by more than so many standard errors of the difference."""
    difference = a - b
    return bool(difference.mean() > n_errors * difference.std() / np.sqrt(len(difference)))
