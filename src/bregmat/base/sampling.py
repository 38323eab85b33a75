"""Random pairs of rows, without a list of all pairs.

A pair is a number in ``[0, n_pairs)``. Numbers are drawn without repetition, in equal shares from groups of pairs, and only the
chosen ones are converted to two row numbers. Memory grows with the number of drawn pairs, not with n^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.checks import rows_text
from bregmat.base.linalg import blocks, sq_norms
from bregmat.base.tolerances import IDENTICAL

PERCENTILES = 5.0, 95.0  # of squared distances, that bound pairs alike and apart (Davis 2007)
PERCENTILE_PAIRS = 20_000  # pairs for percentiles of distances: the standard error of a 5 % percentile is 0.15 %
MOST_CLASSES_PAIRED = 1000  # with more classes, pairs of classes are not listed (there are k^2 / 2)


class NothingToCompare(ValueError):
    """No two points differ, so there is nothing that a metric could change.

    Attributes
    ----------
    pair : (int, int)
        Two identical points.
    """

    def __init__(self, text: str, pair: tuple[int, int]) -> None:
        super().__init__(text)
        self.pair = pair


def differ(points: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Which pairs of rows are not identical, as a function of their row numbers."""
    size = sq_norms(points)
    return lambda i, j: sq_distances(points, i, j) > IDENTICAL * (size[i] + size[j])


def sq_distances(points: Any, i: np.ndarray, j: np.ndarray, P: Any = None) -> np.ndarray:
    """Squared distances of pairs of rows, computed in blocks of a few megabytes.

    Parameters
    ----------
    points : ndarray, csr array, or points in blocks, shape (n, d)
    i, j : ndarray of int, shape (m,)
    P : ndarray or scipy.sparse, shape (d, r), optional
        Map after which distances are measured.
    """
    out = np.empty(len(i))
    for part in blocks(len(i), points.shape[1], 500_000):
        difference = points[i[part]] - points[j[part]]
        out[part] = sq_norms(difference if P is None else difference @ P)
    return out


@dataclass(frozen=True)
class PairGroups:
    """All pairs of rows in groups, within one class or across two; a pair has a number ``key`` in [0, n_pairs)."""

    ordered: np.ndarray  # rows sorted by class
    start_a: np.ndarray  # per group: where its first class begins in `ordered`
    start_b: np.ndarray
    size_b: np.ndarray  # number of rows of the second class; 0: the pairs are within the first class
    offset: np.ndarray  # per group and one past the end: number of its first pair

    @classmethod
    def within(cls, ordered: np.ndarray, sizes: np.ndarray) -> PairGroups:
        """Pairs inside each class; ``sizes`` are the class sizes, in the order of ``ordered``."""
        sizes = sizes.astype(np.int64)
        start = _offsets(sizes)[:-1]
        return cls(ordered, start, start, np.zeros(len(sizes), np.int64), _offsets(sizes * (sizes - 1) // 2))

    @classmethod
    def across(cls, ordered: np.ndarray, sizes: np.ndarray) -> PairGroups:
        """Pairs across every two classes; with more than 1,000 classes all pairs, of which most are across."""
        if len(sizes) > MOST_CLASSES_PAIRED:
            return cls.within(ordered, np.array([len(ordered)]))
        sizes = sizes.astype(np.int64)
        start = _offsets(sizes)[:-1]
        a, b = np.triu_indices(len(sizes), 1)
        return cls(ordered, start[a], start[b], sizes[b], _offsets(sizes[a] * sizes[b]))

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return int(self.offset[-1])

    def group(self, keys: np.ndarray) -> np.ndarray:
        """The group of each pair."""
        return np.searchsorted(self.offset, keys, side="right") - 1

    def rows(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two row numbers of each pair."""
        g = self.group(keys)
        t = keys - self.offset[g]
        size_b = self.size_b[g]
        within = size_b == 0
        # pairs within a class are listed as (0,1), (0,2), (1,2), (0,3), ...: t = b (b - 1) / 2 + a, a < b
        b = ((1 + np.sqrt(1 + 8 * t.astype(float))) / 2).astype(np.int64)
        b -= b * (b - 1) // 2 > t
        b += b * (b + 1) // 2 <= t
        a = np.where(within, t - b * (b - 1) // 2, t // np.maximum(size_b, 1))
        b = np.where(within, b, t % np.maximum(size_b, 1))
        return self.ordered[self.start_a[g] + a], self.ordered[self.start_b[g] + b]

    def draw(
        self, size: int, rng: np.random.Generator, wanted: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """``size`` different pairs with ``wanted(i, j)`` (fewer if there are no more), as two arrays of row numbers."""
        seen = chosen = np.zeros(0, np.int64)
        sizes = np.diff(self.offset)
        for turn in range(40):
            need = size - len(chosen)
            unseen = sizes - np.bincount(self.group(seen), minlength=len(sizes))
            if need <= 0 or not unseen.any():
                break
            keys = self._distinct(_shares(max(need, min(2**turn, 10_000)), unseen, rng), seen, rng)
            good = wanted(*self.rows(keys))
            chosen = np.concatenate([chosen, rng.permutation(keys[good])[:need]])
            seen = np.union1d(seen, keys)
        return self.rows(np.sort(chosen))

    def _distinct(self, counts: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """``counts[g]`` different pair numbers of every group g, none of them in ``seen`` (sorted)."""
        sizes = np.diff(self.offset)
        used = np.bincount(self.group(seen), minlength=len(sizes))
        dense = (counts > 0) & (2 * (counts + used) >= sizes)
        chosen = []
        if dense.any():  # all pairs of these groups are listed: at most twice the number that is wanted or was seen
            g = np.repeat(np.flatnonzero(dense), sizes[dense])
            free = self.offset[g] + _within_run(g)
            unseen = ~np.isin(free, seen)
            free, g = free[unseen], g[unseen]
            shuffled = np.lexsort((rng.random(len(g)), g))
            chosen.append(free[shuffled][_within_run(g) < counts[g]])
        want = np.where(dense, 0, counts)
        taken = seen
        while want.any():  # at least half of each group is free, so a few rounds suffice
            g = np.repeat(np.arange(len(sizes)), want)
            new = np.unique(self.offset[g] + rng.integers(0, sizes[g]))
            new = new[~np.isin(new, taken)]
            chosen.append(new)
            taken = np.concatenate([taken, new])
            want = want - np.bincount(self.group(new), minlength=len(sizes))
        return np.concatenate(chosen) if chosen else np.zeros(0, np.int64)


def sq_distance_percentiles(
    points: Any,
    rows: np.ndarray,
    percentiles: tuple[float, float],
    rng: np.random.Generator,
    which: str = "points",
    apart: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    P: Any = None,
) -> tuple[float, float]:
    """Percentiles of the positive squared distances between some rows: of all pairs up to 20,000, else of a random sample.

    Parameters
    ----------
    points : ndarray or csr array, shape (n, d)
    rows : ndarray of int
    percentiles : (float, float)
        Lower and upper, 0 to 100.
    rng : Generator
        Advanced.
    which : str
        Name of the rows in messages.
    apart : callable, optional
        ``apart(i, j)`` tells which pairs of rows differ; :func:`differ` by default.
    P : ndarray or scipy.sparse, shape (d, r), optional
        Map after which distances are measured.
    """
    pairs = PairGroups.within(rows, np.array([len(rows)]))
    # fewer above 5,000 columns, but at least 5,000: a standard error of 0.3 %
    enough = max(5_000, min(PERCENTILE_PAIRS, 100_000_000 // max(1, points.shape[1])))
    i, j = pairs.draw(min(pairs.n_pairs, enough), rng, differ(points) if apart is None else apart)
    if len(i) == 0:
        raise NothingToCompare(
            f"no two {which} of X were found to differ: see {rows_text(rows)}.", tuple(rows[:2].tolist())
        )
    # of pairs that differ, since a row with bound 0 has no slack
    near, far = np.percentile(sq_distances(points, i, j, P), percentiles)
    return float(near), float(far)


def _offsets(counts: np.ndarray) -> np.ndarray:
    """0 and the cumulated counts."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _shares(total: int, limits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Split ``total`` into shares as equal as ``limits`` allow; the remainder goes to random groups."""
    total = min(total, int(limits.sum()))
    low, high = 0, int(limits.max(initial=0))
    while low < high:  # the largest level with sum(min(most, level)) <= total
        level = (low + high + 1) // 2
        if int(np.minimum(limits, level).sum()) <= total:
            low = level
        else:
            high = level - 1
    share = np.minimum(limits, low)
    left = total - int(share.sum())
    share[rng.permutation(np.flatnonzero(limits > low))[:left]] += 1
    return share


def _within_run(sorted_values: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal values."""
    starts = np.flatnonzero(np.diff(sorted_values, prepend=-1))
    lengths = np.diff(starts, append=len(sorted_values))
    return np.arange(len(sorted_values)) - np.repeat(starts, lengths)
