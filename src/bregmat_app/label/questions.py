"""The next question: which of the groups does a point belong to?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from bregmat.base.sampling import sq_distances
from bregmat_app.label.clusters import TINY, has_many, scores
from bregmat_app.label.groups import Groups

COMPARED = 20  # points without a group, of which the most uncertain one is asked about
MOST_COMPARED = 3000  # the same, once the groups have many points; bounds the time of a question
MOST_OFFERED = 9  # groups of one question: one digit key each
MOST_MEMBERS = 3  # points that a group is shown by


@dataclass(frozen=True)
class Question:
    """The question which of some groups a point belongs to.

    The groups are in the order of their first answers, so that a group keeps its key while the same groups are offered.
    """

    point: int
    groups: list[list[int]]  # the members of each offered group that are nearest to the point, the nearest first
    guess: int  # place of the nearest group in `groups`


def next_question(
    mapped: np.ndarray, first: np.ndarray, groups: Groups, rng: np.random.Generator, skipped: Set[int] = frozenset()
) -> Question | None:
    """Choose a point that is not skipped, and the groups that are offered for it; None if every point has its group.

    The classes seen so far are groups that are known to be all different. A point that is known to differ from some of them is asked
    about until its group is found or it is the first point of a new group. Otherwise the point is, of a few random points, the one
    whose nearest group is least clearly the nearest. Once the groups have many points, it is the one of all points whose two largest
    scores of :func:`bregmat_app.label.clusters.scores` differ least. The first question is about two random points.

    The points are mapped to where Euclidean distances are those of the learned metric, (n, r), and of the `first` one, (n, d).

    Notes
    -----
    Basu, Banerjee and Mooney (2004) consolidate groups in this way, farthest points first; Xiong, Azimi and Fern (2014) choose by
    uncertainty. Only a few random points are compared while answers are few, because the most uncertain of all are outliers.
    """
    classes = groups.all_apart()
    if not classes:
        open_ = np.setdiff1d(np.arange(len(mapped)), list(skipped))
        if len(open_) < 2:
            return None
        i, j = rng.choice(open_, 2, replace=False).tolist()
        return Question(i, [[j]], 0)
    closed = _closed(groups, classes)
    begun = [p for p, g in groups.of.items() if g not in classes and p not in skipped and len(closed[g]) < len(classes)]
    free = np.setdiff1d(np.arange(len(mapped)), [*groups.of, *skipped])
    if begun:
        point = max(begun, key=lambda p: len(closed[groups.of[p]]))
    elif len(free):
        point = _least_certain(mapped, first, [groups.members[g] for g in classes], free, rng)
    else:
        return None
    sq = [sq_to_members(mapped, np.array([point]), groups.members[g])[0] for g in classes]
    nearest = np.array([distances.min() for distances in sq])
    nearest[list(closed[groups.of.get(point, -1)])] = np.inf
    order = [int(k) for k in np.argsort(nearest, kind="stable")[:MOST_OFFERED] if nearest[k] < np.inf]
    offered = sorted(order, key=lambda k: classes[k])
    members = [
        [groups.members[classes[k]][m] for m in np.argsort(sq[k], kind="stable")[:MOST_MEMBERS]] for k in offered
    ]
    return Question(point, members, offered.index(order[0]))


def _least_certain(
    mapped: np.ndarray, first: np.ndarray, chosen: list[list[int]], free: np.ndarray, rng: np.random.Generator
) -> int:
    """Return the free point whose group among the chosen ones is least certain."""
    if has_many(chosen):
        some = rng.choice(free, min(MOST_COMPARED, len(free)), replace=False)
        largest = np.partition(scores(first, chosen, some), -2, axis=1)
        return int(some[(largest[:, -1] - largest[:, -2]).argmin()])
    some = rng.choice(free, min(COMPARED, len(free)), replace=False)
    nearest = np.stack([sq_to_members(mapped, some, members).min(axis=1) for members in chosen], axis=1)
    if len(chosen) == 1:
        return int(some[nearest[:, 0].argmax()])
    least = np.partition(nearest, 1, axis=1)
    return int(some[(least[:, 0] / np.maximum(least[:, 1], TINY)).argmax()])


def sq_to_members(mapped: np.ndarray, some: np.ndarray, members: list[int]) -> np.ndarray:
    """Return the squared distances of some points (rows) to the members of a group (columns)."""
    sq = sq_distances(mapped, np.repeat(some, len(members)), np.tile(members, len(some)))
    return sq.reshape(len(some), len(members))


def _closed(groups: Groups, classes: list[int]) -> dict[int, set[int]]:
    """Return for each group the places of the classes that it is known to differ from."""
    place = {g: k for k, g in enumerate(classes)}
    closed: dict[int, set[int]] = defaultdict(set)
    for pair in groups.apart:
        for g, h in (pair, pair[::-1]):
            if h in place:
                closed[g].add(place[h])
    return closed
