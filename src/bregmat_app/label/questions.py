"""The next question: about a point whose group is not known, or about the pair whose answer changes the metric most."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.sampling import sq_distances
from bregmat_app.label.answers import Answer, Groups, Links
from bregmat_app.label.learning import Learned, Learning

COMPARED = 20  # points without a group, of which the most uncertain one is asked about
PAIRS = 2000  # random candidate pairs
STARTS, NEAREST, AMONG = 60, 30, 3000  # further candidates: some points with their nearest points in a sample
BISECTIONS = 40
PRIOR_ANSWERS = 3.0  # weight, in answers, of the prior guess of the chance that points are the same
TINY = 1e-12  # smaller squared distances, relative to `near`, are raised to this
STEEPNESS = 2.5  # slope of that guess per factor e in the squared distance
MIDPOINT = 0.35  # between near (0) and far (1) on a log scale: where the guess is one half


@dataclass(frozen=True)
class Question:
    """The question whether two points are the same.

    Attributes
    ----------
    points : (int, int)
    chance : float
        Estimated probability that they are, from their distance and the answers so far.
    sq_distance : float
        Their squared distance in the learned metric.
    gain : float
        Expected change of the objective.
    why : {"begun", "place", "change"}
        "begun": one point is known to differ from some groups, but its own is not known. "place": one point occurs in no answer.
        "change": the answer is expected to change the metric most.
    """

    points: tuple[int, int]
    chance: float
    sq_distance: float
    gain: float
    why: str


def next_question(
    learning: Learning, learned: Learned, answers: list[Answer], rng: np.random.Generator, skipped: Any = ()
) -> Question | None:
    """Choose the next question.

    If the answers have made groups that are all different, a point is compared with the group that it most likely belongs to.
    A point that is known to differ from some of the groups is asked about again until its group is found or it is the first of a
    new group. Otherwise it is, of a few random points, the one whose nearest group is most uncertain. Once the group of a point is
    known, its relation to all other grouped points follows. Without groups, or if every point has one, the pair is chosen whose
    answer is expected to change the metric most.

    Notes
    -----
    Basu, Banerjee and Mooney (2004) consolidate groups in this way, farthest points first; Xiong, Azimi and Fern (2014) choose by
    uncertainty. Only a few random points are compared here, because the most uncertain of all points are outliers.

    Parameters
    ----------
    learning : Learning
    learned : Learned
    answers : list of Answer
    rng : numpy.random.Generator
        Draws the candidates.
    skipped : set of (int, int)
        Pairs not to ask about, the smaller number first. Other pairs of one of the points and the group of the other are not asked
        about either.
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
    """Return a point without a group and the nearest point of its nearest group; None if there is no group or no such point."""
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
    """Return for each point the positions of the classes that it is known not to belong to, or is not to be asked about."""
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
    """Return the pair with the largest expected change, among a few thousand pairs that the answers do not decide."""
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
    """Return the expected change of the objective by the answer about each pair."""
    same, different = row_value(sq, learning.near, +1), row_value(sq, learning.far, -1)
    return chance * same + (1 - chance) * different


def row_value(sq: np.ndarray, bound: float, sense: int) -> np.ndarray:
    """Return the optimum of the problem with one more row only, for each squared distance; 0 if the row is met.

    A rank-one change that moves a squared distance from d to p costs ``p / d - log(p / d) - 1`` (LogDet). The remaining violation of
    the bound b costs ``((p - b) / b)^2 / 2``. The sum is minimised over p between d and b by bisection of its increasing derivative.
    """
    low, high = np.minimum(sq, bound), np.maximum(sq, bound)
    for _ in range(BISECTIONS):
        p = 0.5 * (low + high)
        falls = 1 / sq - 1 / p + (p - bound) / bound**2 < 0
        low, high = np.where(falls, p, low), np.where(falls, high, p)
    value = p / sq - np.log(p / sq) - 1 + 0.5 * ((p - bound) / bound) ** 2
    return np.where(sense * (sq - bound) > 0, value, 0.0)


def chance_of_same(learning: Learning, Z: np.ndarray, answers: list[Answer]) -> Any:
    """Fit the probability that points at a squared distance are the same: a logistic curve in its logarithm."""
    pairs = [(a.points[0], a.points[1], a.kind == "same") for a in answers if a.kind in ("same", "different")]
    i, j, same = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    turn = np.log(learning.near) + MIDPOINT * np.log(learning.far / learning.near)
    x = np.concatenate([np.log(np.maximum(sq_distances(Z, i, j), 1e-12)) - turn, [-1.0, 1.0]])
    y = np.concatenate([same, [0.9, 0.1]])
    weight = np.concatenate([np.ones(len(same)), [PRIOR_ANSWERS, PRIOR_ANSWERS]])
    J = np.stack([np.ones_like(x), -x], axis=1)
    theta = np.array([0.0, STEEPNESS])
    for _ in range(20):  # Newton's method, within a plausible range
        p = _logistic(J @ theta)
        H = (J * (weight * p * (1 - p))[:, None]).T @ J + 1e-3 * np.eye(2)
        theta = np.clip(theta + np.linalg.solve(H, J.T @ (weight * (y - p))), [-8.0, 0.3], [8.0, 10.0])
    return lambda sq: _logistic(theta[0] - theta[1] * (np.log(np.maximum(sq, 1e-12)) - turn))


def _logistic(t: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(t, -30.0, 30.0)))


def _candidates(Z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return candidate pairs i < j: random ones, and some points with their nearest points."""
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
    """Tell for each pair whether the answers so far decide its relation."""
    size = max(int(i.max(initial=0)), int(j.max(initial=0)), max(groups.of, default=0)) + 1
    group = -1 - np.arange(size)  # a point without answers is a group of its own
    group[list(groups.of)] = list(groups.of.values())
    a, b = np.minimum(group[i], group[j]), np.maximum(group[i], group[j])
    apart = {low * size + high for low, high in groups.apart}
    return (a == b) | ((a >= 0) & np.isin(a * size + b, list(apart)))
