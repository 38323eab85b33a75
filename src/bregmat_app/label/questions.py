"""The next question: which of the groups does a point belong to?"""

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from bregmat_app.label.clusters import TINY, has_many, margins, scores
from bregmat_app.label.groups import Groups, LabelClass

COMPARED = 20  # points without a group, of which the most uncertain one is asked about
MOST_COMPARED = 3000  # the same, once the groups have many points; bounds the time of a question
MOST_MEMBERS = 3  # points that a group is shown by


@dataclass(frozen=True)
class Question:
    """The question which class a point belongs to."""

    point: int
    classes: list[LabelClass]  # those that are offered, by key
    groups: list[list[int]]  # of each class the members that are nearest to the point, the nearest first
    guess: int | None  # place of the class with the nearest point; None if no class has points


def next_question(
    mapped: np.ndarray, first: np.ndarray, groups: Groups, rng: np.random.Generator, skipped: Set[int] = frozenset()
) -> Question | None:
    """Choose a point that is not skipped, and the classes that are offered for it; None if every point has its class.

    A point that is known to differ from some classes is asked about until its class is found or it is the first point of a new one.
    Otherwise the point is, of a few random points, the one whose nearest class is least clearly the nearest. Once the classes have
    many points, it is the one of all points whose two largest scores of :func:`bregmat_app.label.clusters.scores` differ least. The
    first question is about two random points, or about one if classes were given.

    The points are mapped to where Euclidean distances are those of the learned metric, (n, r), and of the `first` one, (n, d).

    Notes
    -----
    Basu, Banerjee and Mooney (2004) consolidate groups in this way, farthest points first; Xiong, Azimi and Fern (2014) choose by
    uncertainty. Only a few random points are compared while answers are few, because the most uncertain of all are outliers.
    """
    classes = groups.classes
    filled = [one.group for one in classes if one.group is not None]
    free = np.setdiff1d(np.arange(len(mapped)), [*groups.of, *skipped])
    if not classes:
        open_ = np.setdiff1d(np.arange(len(mapped)), list(skipped))
        if len(open_) < 2:
            return None
        i, j = rng.choice(open_, 2, replace=False).tolist()
        return Question(i, [LabelClass(1)], [[j]], 0)
    closed = _closed(groups, filled)
    begun = [p for p, g in groups.of.items() if g not in filled and p not in skipped and len(closed[g]) < len(filled)]
    if begun:
        point = max(begun, key=lambda p: len(closed[groups.of[p]]))
    elif len(free):
        point = _least_certain(mapped, first, [groups.members[g] for g in filled], free, rng)
    else:
        return None
    offered, members, nearest = [], [], []
    for one in classes:
        if one.group in closed[groups.of.get(point, -1)]:
            continue
        some = groups.points(one)
        sq = cdist(mapped[[point]], mapped[some], "sqeuclidean")[0]
        offered.append(one)
        members.append([some[m] for m in np.argsort(sq, kind="stable")[:MOST_MEMBERS]])
        nearest.append(sq.min(initial=np.inf))
    return Question(point, offered, members, int(np.argmin(nearest)) if np.isfinite(nearest).any() else None)


def _least_certain(
    mapped: np.ndarray, first: np.ndarray, chosen: list[list[int]], free: np.ndarray, rng: np.random.Generator
) -> int:
    """Return the free point whose group among the chosen ones is least certain."""
    if has_many(chosen):
        some = rng.choice(free, min(MOST_COMPARED, len(free)), replace=False)
        return int(some[margins(scores(first, chosen, some)).argmin()])
    some = rng.choice(free, min(COMPARED, len(free)), replace=False)
    if not chosen:
        return int(some[0])
    nearest = np.stack([cdist(mapped[some], mapped[members], "sqeuclidean").min(axis=1) for members in chosen], axis=1)
    if len(chosen) == 1:
        return int(some[nearest[:, 0].argmax()])
    least = np.partition(nearest, 1, axis=1)
    return int(some[(least[:, 0] / np.maximum(least[:, 1], TINY)).argmax()])


def _closed(groups: Groups, classes: list[int]) -> dict[int, set[int]]:
    """Return for each group the groups of classes that it is known to differ from."""
    closed: dict[int, set[int]] = defaultdict(set)
    for g, h in groups.apart:
        closed[g] |= {h} & {*classes}
        closed[h] |= {g} & {*classes}
    return closed
