"""Who belongs together: groups of points from class labels, from sets of labels, or from a number per point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bregmat.base.threads import cached_property

MOST_BINS = 10  # of a continuous target
ALIKE, NEITHER, APART = 1, 0, -1


@dataclass(frozen=True, eq=False)
class Kinds:
    """A group for each point, and which groups belong together or apart.

    Attributes
    ----------
    codes : ndarray of int64, shape (n,)
        Group of each point, -1 where it is not known.
    relation : ndarray of int8, shape (g, g)
        1: alike, -1: apart, 0: neither is asked.
    """

    codes: np.ndarray
    relation: np.ndarray

    @classmethod
    def of_classes(cls, codes: np.ndarray) -> Kinds:
        """Classes by number, -1 unlabelled: alike if equal."""
        n_groups = int(codes.max(initial=-1)) + 1
        return cls(codes, np.where(np.eye(n_groups, dtype=bool), ALIKE, APART).astype(np.int8))

    @classmethod
    def of_values(cls, y: np.ndarray) -> Kinds:
        """A continuous target in bins of equal counts: alike in one bin, apart unless the bins touch. NaN is unlabelled."""
        known = np.isfinite(y)
        n_bins = int(np.clip(known.sum() // 5, 3, MOST_BINS))
        edges = np.unique(np.quantile(y[known], np.linspace(0, 1, n_bins + 1)[1:-1]))
        codes = np.where(known, np.searchsorted(edges, np.where(known, y, 0.0), side="right"), -1)
        steps = np.abs(np.subtract.outer(np.arange(len(edges) + 1), np.arange(len(edges) + 1)))
        return cls(codes, np.select([steps == 0, steps == 1], [ALIKE, NEITHER], APART).astype(np.int8))

    @classmethod
    def of_sets(cls, Y: np.ndarray) -> Kinds:
        """Sets of labels as rows of 0 and 1: alike if they share a label, apart if not. A row of zeros is unlabelled."""
        sets, codes = np.unique(Y, axis=0, return_inverse=True)
        codes, empty = codes.reshape(-1), ~np.asarray(sets.any(axis=1))
        shared = sets.astype(np.int64) @ sets.T.astype(np.int64)
        return cls(np.where(empty[codes], -1, codes), np.where(shared > 0, ALIKE, APART).astype(np.int8))

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Row numbers of each group."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.searchsorted(self.codes[order], np.arange(len(self.relation) + 1))
        return [order[a:b] for a, b in zip(starts, starts[1:])]

    @property
    def are_classes(self) -> bool:
        """Whether groups belong together with themselves alone, and apart from all others."""
        return bool(np.array_equal(self.relation, Kinds.of_classes(np.arange(len(self.relation))).relation))

    @property
    def alone(self) -> np.ndarray:
        """Which points are known, and alike to no other; shape (n,)."""
        sizes = np.array([len(rows) for rows in self.members])
        return (self.codes >= 0) & (((self.relation == ALIKE) @ sizes)[self.codes] == 1)

    def related(self, group: int, how: int) -> np.ndarray:
        """Rows whose group stands in the relation ``how`` to this one."""
        parts = [self.members[other] for other in np.flatnonzero(self.relation[group] == how)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
