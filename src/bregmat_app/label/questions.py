"""The next question: a point whose place among the groups that the answers made is open, or a pair whose answer changes most."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.sampling import sq_distances
from bregmat_app.label.answers import Answer, Groups, Links
from bregmat_app.label.learning import Learned, Learning

COMPARED = 20  # points without a place, of which the most doubtful is asked about
PAIRS = 2000  # drawn at random, as candidates
STARTS, NEAREST, AMONG = 60, 30, 3000  # and the nearest points of some, among a sample
BISECTIONS = 40
BELIEF = 3.0  # answers that the first guess of the share of the same at a distance is worth
TINY = 1e-12  # squared distances relative to `near` that are looked at
STEEP = 2.5  # of that guess, per factor e in the squared distance
TURN = 0.35  # where between near (0) and far (1), on a log scale, half of the pairs are guessed to be the same


@dataclass(frozen=True)
class Question:
    """Are these two the same?

    Attributes
    ----------
    points : (int, int)
    chance : float
        That they are, as guessed from their distance and the answers so far.
    sq_distance : float
        In the learned metric.
    gain : float
        Expected change of the objective.
    why : {"begun", "place", "change"}
        One of the points was apart from groups and has no place yet; has no group at all; the answer is expected to change most.
    """

    points: tuple[int, int]
    chance: float
    sq_distance: float
    gain: float
    why: str


def next_question(
    learning: Learning, learned: Learned, answers: list[Answer], rng: np.random.Generator, skipped: Any = ()
) -> Question | None:
    """A point against the group that it most likely belongs to; while there are no groups, or all are placed, the pair that changes most.

    Groups are what the answers made of points, those of which all pairs are apart. A point that is known to be apart from some of
    them, but not where it belongs, is asked on until it has its place or is the first of a new group; else it is, of a few at
    random, the one whose nearest group is least clearly the nearest. With its place its relation to every point of every
    group follows. (Basu, Banerjee & Mooney 2004 consolidate so, farthest points first; Xiong, Azimi & Fern 2014 by uncertainty.
    Here only a few are compared: the most uncertain of all points are outliers.)

    Parameters
    ----------
    learning : Learning
    learned : Learned
    answers : list of Answer
    rng : numpy.random.Generator
        Draws the candidates.
    skipped : set of (int, int)
        Pairs not to ask, the smaller number first; nor other pairs of the one point and the group of the other.
    """
    Z, groups = learning.X @ learned.map, Links(answers).groups()
    found = _placing(Z, groups, rng, skipped) or _most_changing(learning, Z, groups, answers, rng, skipped)
    if found is None:
        return None
    i, j, why = found
    sq = np.maximum(sq_distances(Z, np.array([i]), np.array([j])), TINY * learning.near)
    chance = chance_of_same(learning, Z, answers)(sq)
    gain = _expected_change(learning, sq, chance)
    return Question((min(i, j), max(i, j)), float(chance[0]), float(sq[0]), float(gain[0]), why)


def _placing(Z: np.ndarray, groups: Groups, rng: np.random.Generator, skipped: Any) -> tuple[int, int, str] | None:
    """A point without a place and the nearest point of the group nearest to it; None where there is no group or no such point."""
    classes = groups.all_apart()
    closed = _closed(groups, classes, skipped)
    begun = [p for p, g in groups.of.items() if g not in classes and len(closed[p]) < len(classes)]
    if begun:
        some = np.array([max(begun, key=lambda p: len(closed[p]))])
    else:
        free = np.setdiff1d(np.arange(len(Z)), list(groups.of))
        drawn = rng.choice(free, min(COMPARED, len(free)), replace=False).tolist()
        some = np.array([p for p in drawn if len(closed[p]) < len(classes)], dtype=np.int64)
    if not len(some):
        return None
    named = np.concatenate([groups.members[g] for g in classes])
    sizes = [len(groups.members[g]) for g in classes]
    start = np.cumsum([0, *sizes[:-1]])
    sq = sq_distances(Z, np.repeat(some, len(named)), np.tile(named, len(some))).reshape(len(some), -1)
    nearest = np.minimum.reduceat(sq, start, axis=1)
    for row, point in enumerate(some.tolist()):
        nearest[row, list(closed[point])] = np.inf
    least = np.partition(nearest, min(1, len(classes) - 1), axis=1)
    doubt = least[:, 0] / np.maximum(least[:, 1], TINY) if len(classes) > 1 else least[:, 0]
    row = int(doubt.argmax())
    k = int(nearest[row].argmin())
    nearby = slice(start[k], start[k] + sizes[k])
    return int(some[row]), int(named[nearby][sq[row, nearby].argmin()]), "begun" if begun else "place"


def _closed(groups: Groups, classes: list[int], skipped: Any) -> dict[int, set[int]]:
    """Of points: which of the classes, by their places, they are known not to be of, or are not to be asked about."""
    place = {g: k for k, g in enumerate(classes)}
    beside: dict[int, set[int]] = defaultdict(set)
    for g, h in groups.apart:
        if h in place:
            beside[g].add(place[h])
        if g in place:
            beside[h].add(place[g])
    closed: dict[int, set[int]] = defaultdict(set)
    for point, g in groups.of.items():
        closed[point] |= beside[g]
    for i, j in skipped:
        for point, other in ((i, j), (j, i)):
            if (g := groups.of.get(other, -1)) in place:
                closed[point].add(place[g])
    return closed


def _most_changing(
    learning: Learning, Z: np.ndarray, groups: Groups, answers: list[Answer], rng: np.random.Generator, skipped: Any
) -> tuple[int, int, str] | None:
    """The pair with the largest expected change, among some thousands of which the answers so far leave the relation open."""
    i, j = _candidates(Z, rng)
    open_ = ~_decided(groups, i, j)
    if skipped:
        open_ &= np.array([pair not in skipped for pair in zip(i.tolist(), j.tolist())])
    i, j = i[open_], j[open_]
    sq = sq_distances(Z, i, j)
    i, j, sq = i[sq > 0], j[sq > 0], sq[sq > 0]
    if not len(i):
        return None
    best = int(_expected_change(learning, sq, chance_of_same(learning, Z, answers)(sq)).argmax())
    return int(i[best]), int(j[best]), "change"


def _expected_change(learning: Learning, sq: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Of the objective, by the answer about a pair."""
    same, different = row_value(sq, learning.near, +1), row_value(sq, learning.far, -1)
    return chance * same + (1 - chance) * different


def row_value(sq: np.ndarray, bound: float, sense: int) -> np.ndarray:
    """What one more row costs where it is violated: the optimum of the problem of that row alone; shape of `sq`.

    A rank-one change that moves a squared distance from d to p costs ``p / d - log(p / d) - 1`` (LogDet), what is left of the
    violation ``((p - b) / b)^2 / 2``; the minimum over p between d and b, by bisection of its increasing derivative.
    """
    low, high = np.minimum(sq, bound), np.maximum(sq, bound)
    for _ in range(BISECTIONS):
        p = 0.5 * (low + high)
        falls = 1 / sq - 1 / p + (p - bound) / bound**2 < 0
        low, high = np.where(falls, p, low), np.where(falls, high, p)
    value = p / sq - np.log(p / sq) - 1 + 0.5 * ((p - bound) / bound) ** 2
    return np.where(sense * (sq - bound) > 0, value, 0.0)


def chance_of_same(learning: Learning, Z: np.ndarray, answers: list[Answer]) -> Any:
    """Share of the same at a squared distance, a logistic curve in its logarithm, fitted to the answers so far and a first guess."""
    pairs = [(a.points[0], a.points[1], a.kind == "same") for a in answers if a.kind in ("same", "different")]
    i, j, same = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    turn = np.log(learning.near) + TURN * np.log(learning.far / learning.near)
    x = np.concatenate([np.log(np.maximum(sq_distances(Z, i, j), 1e-12)) - turn, [-1.0, 1.0]])
    y = np.concatenate([same, [0.9, 0.1]])
    weight = np.concatenate([np.ones(len(same)), [BELIEF, BELIEF]])
    J = np.stack([np.ones_like(x), -x], axis=1)
    theta = np.array([0.0, STEEP])
    for _ in range(20):  # Newton's method, kept in a range of sense
        p = _logistic(J @ theta)
        H = (J * (weight * p * (1 - p))[:, None]).T @ J + 1e-3 * np.eye(2)
        theta = np.clip(theta + np.linalg.solve(H, J.T @ (weight * (y - p))), [-8.0, 0.3], [8.0, 10.0])
    return lambda sq: _logistic(theta[0] - theta[1] * (np.log(np.maximum(sq, 1e-12)) - turn))


def _logistic(t: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(t, -30.0, 30.0)))


def _candidates(Z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i < j: some at random, and some points with their nearest."""
    n = len(Z)
    i, j = rng.integers(0, n, (2, PAIRS))
    start = rng.choice(n, min(STARTS, n), replace=False)
    among = rng.choice(n, min(AMONG, n), replace=False)
    sq = (Z[start] ** 2).sum(axis=1)[:, None] - 2 * Z[start] @ Z[among].T + (Z[among] ** 2).sum(axis=1)
    k = min(NEAREST, len(among))
    near = among[np.argpartition(sq, k - 1, axis=1)[:, :k]]
    i, j = np.concatenate([i, np.repeat(start, k)]), np.concatenate([j, near.ravel()])
    i, j = np.minimum(i, j), np.maximum(i, j)
    return i[i < j], j[i < j]


def _decided(groups: Groups, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Whether the answers so far decide the relation of each pair; boolean."""
    size = max(int(i.max(initial=0)), int(j.max(initial=0)), max(groups.of, default=0)) + 1
    group = -1 - np.arange(size)  # a point that no answer names is a group of its own
    group[list(groups.of)] = list(groups.of.values())
    a, b = np.minimum(group[i], group[j]), np.maximum(group[i], group[j])
    apart = {low * size + high for low, high in groups.apart}
    return (a == b) | ((a >= 0) & np.isin(a * size + b, list(apart)))
