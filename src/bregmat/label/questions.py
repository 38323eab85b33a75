"""The next question: the pair of points of which the answer is expected to change most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.label.answers import Answer, Graph, Groups
from bregmat.label.learning import Learned, Learning
from bregmat.sampling import sq_distances

PAIRS = 2000  # drawn at random, as candidates
STARTS, NEAREST, AMONG = 60, 30, 3000  # and the nearest points of some, among a sample
BISECTIONS = 40
BELIEF = 3.0  # answers that the first guess of the share of the same at a distance is worth
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
    """

    points: tuple[int, int]
    chance: float
    sq_distance: float
    gain: float


def next_question(
    learning: Learning, learned: Learned, answers: list[Answer], rng: np.random.Generator, skipped: Any = ()
) -> Question | None:
    """The pair with the largest expected change, among some thousands of which the answers so far leave the relation open.

    Parameters
    ----------
    learning : Learning
    learned : Learned
    answers : list of Answer
    rng : numpy.random.Generator
        Draws the candidates.
    skipped : set of (int, int)
        Pairs not to ask, the smaller number first.
    """
    Z = learning.X @ learned.map
    i, j = _candidates(Z, rng)
    open_ = ~_decided(Graph(answers).groups(), i, j)
    if skipped:
        open_ &= np.array([pair not in skipped for pair in zip(i.tolist(), j.tolist())])
    i, j = i[open_], j[open_]
    sq = sq_distances(Z, i, j)
    i, j, sq = i[sq > 0], j[sq > 0], sq[sq > 0]
    if not len(i):
        return None
    chance = chance_of_same(learning, Z, answers)(sq)
    gain = chance * row_value(sq, learning.near, +1) + (1 - chance) * row_value(sq, learning.far, -1)
    best = int(gain.argmax())
    return Question((int(i[best]), int(j[best])), float(chance[best]), float(sq[best]), float(gain[best]))


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
