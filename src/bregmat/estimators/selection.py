"""The choice of settings that are "auto": candidates are compared on held-out rows, in a race.

1. :func:`bregmat.from_labels.groups.drawn_rows` draws at most 1,500 labelled rows; whole classes if classes are small.
2. :func:`held_out` divides them into folds of a training part, and queries whose neighbours are searched in a gallery. Whole classes are
   held out if most classes have fewer than 4 rows, and whole groups if the caller gives groups.
3. :func:`race` fits the candidates quickly, fold after fold, and drops those that are clearly behind.
4. :meth:`Selection.best` is the simplest candidate whose score is within half a standard error of the best score (one for numbers). If it
   compares neighbours, it is compared once more with itself in three passes, if more than 500 rows and ten rows for each column are
   compared.

To add a candidate, add a line to the list of a learner (``MetricLearner``, ``KernelLearner``).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from bregmat.base.linalg import smallest, sq_norms
from bregmat.engine.result import SolverError
from bregmat.estimators.base import say
from bregmat.estimators.task import Candidate, Task
from bregmat.from_labels.groups import LabelGroups, drawn_rows

MOST_COMPARED = 1500  # rows in a comparison
FEWEST_COMPARED = 12  # labelled rows that a comparison needs
SMALL_CLASS = 4  # classes are held out whole if the median class has fewer rows
N_FOLDS = 3
FOLDS_OF_FEW = 5  # of at most FEW_ROWS rows: their training parts are nearer to all rows, and fits are quick
FEW_ROWS = 500
N_NEIGHBORS = 5  # nearest rows that a score looks at
# Standard errors by which a candidate must be behind to be dropped. With 1.5, a fit costs a tenth less, but with few rows in a fold good
# candidates are dropped by chance.
BEHIND = 2.0
TIE = 0.5  # standard errors within which the simpler candidate is preferred
TIE_OF_NUMBERS = 1.0  # the same for numbers, whose squared errors are dominated by a few rows
MORE_PASSES = 3  # passes that are tried beside one
# Cells of the only row of the table if nothing was compared.
NOT_COMPARED = {"score": np.nan, "standard_error": np.nan, "n_folds": 0, "seconds": 0.0, "chosen": True}
ROWS_PER_COLUMN = 10  # rows of a sample for each column that they need
MOST_CONSTRAINTS = 50_000  # of a quick fit: for 500 classes, the usual number of random pairs would take minutes
# Settings of the fits that are compared: they need less precision than the final fit.
QUICKLY: dict[str, Any] = {
    "tol": 1e-2,
    "max_iter": 60,
    "warm_start": False,
    "verbose": 0,
    "callback": None,
    "random_state": 0,
}


def matching(candidates: Sequence[Candidate], **asked: Any) -> list[Candidate]:
    """The candidates with the values that are asked for; "auto" is any value. There is at least one.

    A strategy selects candidates. A prior or a slack weight replaces those of the candidates.
    """
    fixed = {name: value for name, value in asked.items() if not (isinstance(value, str) and value == "auto")}
    replaced = {name: value for name, value in fixed.items() if name != "strategy"}
    matches = [replace(one, **replaced) for one in candidates if one.strategy == fixed.get("strategy", one.strategy)]
    return list(dict.fromkeys(matches)) or [Candidate(**fixed)]


# ---------------------------------------------------------------------- rows and folds
@dataclass(frozen=True, eq=False)
class Fold:
    """Row numbers in the sample: rows to learn from, and queries whose nearest rows in a gallery are judged.

    ``is_new`` says that the classes of the queries are not among those that are learned from.
    """

    train: np.ndarray
    gallery: np.ndarray
    queries: np.ndarray
    is_new: bool = False


def held_out(labels: LabelGroups, groups: np.ndarray | None) -> list[Fold]:
    """The folds of a sample; none if there are too few rows to compare anything."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    codes, is_class = labels.codes, labels.target_type == "class"
    sizes = labels.sizes[labels.sizes > 0]
    if len(codes) < FEWEST_COMPARED or (is_class and (len(sizes) < 2 or sizes.max() < 2)):
        return []
    if groups is None and is_class and np.median(sizes) < SMALL_CLASS:
        groups = codes
    n_units = len(codes) if groups is None else len(np.unique(groups))
    max_folds = sizes.max() if groups is None and is_class else n_units  # a class is spread over the folds
    n_folds = min(FOLDS_OF_FEW if len(codes) <= FEW_ROWS else N_FOLDS, int(max_folds))
    if n_folds < 2:
        return []
    how: dict[str, Any] = {"shuffle": True, "random_state": 0}
    if groups is None:
        splitter = (StratifiedKFold if is_class else KFold)(n_folds, **how)
    elif is_class and groups is not codes:
        splitter = StratifiedGroupKFold(n_folds, **how)
    else:
        groups = np.random.default_rng(0).permutation(int(codes.max()) + 1)[codes] if groups is codes else groups
        splitter = GroupKFold(n_folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class with fewer rows than folds
        parts = list(splitter.split(codes, codes if is_class else None, groups))
    return [_fold(labels, train, test) for train, test in parts]


def _fold(labels: LabelGroups, train: np.ndarray, test: np.ndarray) -> Fold:
    """Queries search the training rows; or, if most of their classes are not there, half of the rows of their class."""
    codes = labels.codes
    if labels.target_type != "class" or np.isin(codes[test], codes[train]).mean() >= 0.5:
        return Fold(train, train, test)
    test = np.random.default_rng(0).permutation(test)
    order = test[np.argsort(codes[test], kind="stable")]
    _, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(first, counts)
    is_known = place < np.repeat(np.maximum(1, counts // 2), counts)
    return Fold(train, order[is_known], order[~is_known], is_new=True)


def judged(labels: LabelGroups, fold: Fold, mapped: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The score of each query of a fold, shape (m,).

    Classes: the mean of 1-NN accuracy, 4-NN accuracy and the fraction of the class among the 5 nearest; of new classes the 1-NN accuracy.
    Numbers: ``1 - (mean of 5 neighbours - y)^2 / variance``, whose mean is R^2. Sets: the Jaccard similarity to the labels of most of 5.
    """
    gallery, queries = fold.gallery, fold.queries
    G = mapped(gallery)
    # products lose the fewest digits around the mean, and none overflows
    mean, size = G.mean(axis=0), np.abs(G).max() or 1.0
    G, Q = (G - mean) / size, (mapped(queries) - mean) / size
    near = gallery[smallest(sq_norms(G) - 2.0 * (Q @ G.T), N_NEIGHBORS)[1]]  # |q|^2 is left out: it changes no order
    if labels.target_type == "number":
        y = labels.values
        assert y is not None
        return 1.0 - (y[near].mean(axis=1) - y[queries]) ** 2 / (y.var() or 1.0)
    if labels.target_type == "sets":
        assert labels.values is not None
        voted, true = labels.values[near].mean(axis=1) > 0.5, labels.values[queries]
        return np.asarray((voted & true).sum(axis=1) / np.maximum(1, (voted | true).sum(axis=1)))
    predicted, true = labels.codes[near], labels.codes[queries]
    if fold.is_new:
        return np.asarray(predicted[:, 0] == true, dtype=float)
    four = predicted[:, :4]
    votes = (four[:, :, None] == four[:, None, :]).sum(axis=2)
    voted = four[np.arange(len(four)), votes.argmax(axis=1)]  # of a tie, the class of the nearer row
    return (
        np.asarray((predicted[:, 0] == true) * 1.0 + (voted == true) + (predicted == true[:, None]).mean(axis=1)) / 3.0
    )


# ---------------------------------------------------------------------- the race
class Trials:
    """Quick fits of candidates to some rows of a sample.

    Parameters
    ----------
    learner : ConstraintLearner
    sample : Task
        Points and labels of the sample, and a learner with the settings of quick fits.
    """

    def __init__(self, learner: Any, sample: Any) -> None:
        self.learner, self.sample = learner, sample
        self.is_pairwise = get_tags(learner).input_tags.pairwise

    def __call__(self, candidate: Candidate, train: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Learn from the rows ``train``; the result maps rows of the sample, shape (m,), to points, shape (m, r)."""
        X, sample = self.sample.X, self.sample
        own = X[np.ix_(train, train)] if self.is_pairwise else X[train]
        part = replace(sample, X=own, labels=sample.labels.of_rows(train), candidate=candidate)
        problem = self.learner._problem(part)
        learned = problem.map_of(part.learn(problem)[0])
        return lambda rows: learned.transform(X[np.ix_(rows, train)] if self.is_pairwise else X[rows])


@dataclass(eq=False)
class Selection:
    """Scores of candidates on folds.

    Attributes
    ----------
    candidates : list of Candidate
        Simpler ones first.
    scores : list of list of ndarray
        For each candidate the scores of the queries of each fold that it was tried on; empty if it could not be fitted.
    seconds : list of float
    tie : float
        Standard errors within which the simpler candidate is preferred.
    """

    candidates: list[Candidate]
    scores: list[list[np.ndarray]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    tie: float = TIE

    def __post_init__(self) -> None:
        self.scores, self.seconds = [[] for _ in self.candidates], [0.0] * len(self.candidates)

    def is_near(self, one: int, best: int, n_errors: float, n_folds: int) -> bool:
        """Whether a candidate is at most so many standard errors of the difference behind another one on the first folds.

        Parameters
        ----------
        one, best : int
            Indices of the candidates.
        n_errors : float
        n_folds : int

        Notes
        -----
        One more query that differs is added to the variance: otherwise a few queries that differ in one direction would count as certain.
        """
        behind = np.concatenate(self.scores[best][:n_folds]) - np.concatenate(self.scores[one][:n_folds])
        return bool(behind.mean() <= n_errors * np.sqrt(behind.var() * len(behind) + 1.0) / len(behind))

    def ahead(self, alive: list[int], n_folds: int) -> int:
        """The candidate with the best mean score on the first folds."""
        return max(alive, key=lambda one: float(np.concatenate(self.scores[one][:n_folds]).mean()))

    def add(self, candidate: Candidate) -> int:
        """The index of a further candidate."""
        self.candidates.append(candidate)
        self.scores.append([])
        self.seconds.append(0.0)
        return len(self.candidates) - 1

    @property
    def best(self) -> int:
        """Index of the first candidate whose score is within ``tie`` standard errors of the best one.

        If nothing was compared, it is the first candidate that learns.
        """
        n_folds = max(map(len, self.scores))
        if n_folds == 0:
            return next((k for k, one in enumerate(self.candidates) if one.strategy is not None), 0)
        whole = [one for one, scores in enumerate(self.scores) if len(scores) == n_folds]
        ahead = self.ahead(whole, n_folds)
        return next(one for one in whole if self.is_near(one, ahead, self.tie, n_folds))

    def tell(self, target_type: str, n: int) -> None:
        """Print the scores."""
        words = {"class": "classes", "number": "numbers", "sets": "sets of labels"}[target_type]
        say(f"y is read as {words}; {len(self.candidates)} candidates compared on {n} rows:")
        for name, score, error, n_folds, seconds, chosen in zip(*self.table().values()):
            mark = ", chosen" if chosen else ""
            say(f"  {name}: score {score:.4f} +- {error:.4f} on {n_folds} folds, {seconds:.2f} s{mark}")

    def table(self) -> dict[str, list[Any]]:
        """Columns: candidate, mean score, standard error over the queries, number of folds, seconds, chosen."""
        means, errors = [], []
        for scores in self.scores:
            values = np.concatenate(scores) if scores else np.full(1, np.nan)
            means.append(float(values.mean()))
            errors.append(float(values.std() / np.sqrt(len(values))))
        return {
            "candidate": [str(one) for one in self.candidates],
            "score": means,
            "standard_error": errors,
            "n_folds": [len(scores) for scores in self.scores],
            "seconds": list(self.seconds),
            "chosen": [k == self.best for k in range(len(self.candidates))],
        }


def race(selection: Selection, trials: Trials, folds: list[Fold], alive: list[int]) -> None:
    """Try candidates fold by fold; those that are two standard errors behind the best are dropped after each fold.

    Parameters
    ----------
    selection : Selection
        Its scores and seconds are extended.
    trials : Trials
    folds : list of Fold
    alive : list of int
        Indices of the candidates.
    """
    labels = trials.sample.labels
    for k, fold in enumerate(folds):
        for one in [one for one in alive if len(selection.scores[one]) == k]:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # identical points, or points that are alone in this part
                try:
                    selection.scores[one].append(judged(labels, fold, trials(selection.candidates[one], fold.train)))
                except (ValueError, SolverError):  # this part has nothing to learn from
                    alive.remove(one)
                    selection.scores[one].clear()
            selection.seconds[one] += time.perf_counter() - start
        if not alive:
            return
        ahead = selection.ahead(alive, k + 1)
        alive = [one for one in alive if selection.is_near(one, ahead, BEHIND, k + 1)]


def select(learner: Any, task: Any, candidates: list[Candidate], groups: np.ndarray | None = None) -> Selection:
    """Compare candidates on held-out rows of a task. If there is nothing to choose, or too few labels, nothing is fitted.

    Parameters
    ----------
    learner : ConstraintLearner
    task : Task
    candidates : list of Candidate
        Simpler ones first.
    groups : ndarray, shape (n,), optional
        Rows of one group are held out together.
    """
    n_compared = min(len(task.labels.labelled), MOST_COMPARED)
    may_repeat = n_compared > max(FEW_ROWS, ROWS_PER_COLUMN * task.X.shape[1])
    if len(candidates) == 1 and not (may_repeat and candidates[0].strategy == "neighbors"):
        return Selection(candidates)
    rows = drawn_rows(task.labels, np.random.default_rng(0), MOST_COMPARED)
    max_constraints = MOST_CONSTRAINTS if learner.n_constraints is None else learner.n_constraints
    quick = type(learner)(
        **learner.get_params(deep=False) | QUICKLY | {"n_constraints": min(max_constraints, MOST_CONSTRAINTS)}
    )
    is_pairwise = get_tags(learner).input_tags.pairwise
    X = task.X[np.ix_(rows, rows)] if is_pairwise else task.X[rows]
    if not is_pairwise:
        # in an order that depends on the rows themselves, so that the choice does not depend on the order of the caller
        w = np.random.default_rng(0).normal(size=X.shape[1])
        order = np.argsort(np.einsum("ij,j->i", X, w) if isinstance(X, np.ndarray) else np.asarray(X @ w))
        rows, X = rows[order], X[order]
    labels = task.labels.of_rows(rows)
    if groups is not None:
        groups = np.unique(groups[rows], return_inverse=True)[1]
    folds = held_out(labels, groups)
    if not folds:
        return Selection(candidates)
    settings = quick._check_parameters()
    sample = Task(quick, X, None, labels, settings)
    tie = TIE_OF_NUMBERS if labels.target_type == "number" else TIE
    selection, trials = Selection(candidates, tie=tie), learner._trials(sample, task)
    race(selection, trials, folds, list(range(len(candidates))))
    learned = [k for k, one in enumerate(candidates) if one.strategy is not None]
    if learned and not any(selection.scores[k] for k in learned):
        return Selection(candidates)  # the fit to all rows learns, or says why it cannot
    best = selection.candidates[selection.best]
    if best.strategy == "neighbors" and may_repeat:
        race(selection, trials, folds, [selection.best, selection.add(replace(best, passes=MORE_PASSES))])
    if learner.verbose:
        selection.tell(labels.target_type, len(rows))
    return selection
