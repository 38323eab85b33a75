"""Hard rows whose matrices are multiples of each other: duplicates and intervals, which make the Hessian of the dual singular."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bregmat.objective.row_losses import RowLosses
from bregmat.operators.linear_maps import Operator


@dataclass(frozen=True, eq=False)
class ParallelRows:
    """Hard rows with proportional matrices, along whose differences the dual is linear.

    ``idle`` rows are implied by a tighter one of the same matrix; ``intervals`` are the tightest "<=" and ">=" row of one matrix.
    """

    idle: np.ndarray
    intervals: np.ndarray


def find_parallel_rows(op: Operator, L: RowLosses) -> ParallelRows:
    """Hard rows whose matrices are positive multiples of each other, recognised by their values at three random vectors."""
    rows = np.flatnonzero(L.hard)
    nothing = ParallelRows(np.zeros(0, dtype=int), np.zeros((0, 2), dtype=int))
    if len(rows) < 2:
        return nothing
    some = op.congruence(np.random.default_rng(0).standard_normal((op.r, 3)))
    prints = np.stack([some.values_diagonal(x)[rows] for x in np.eye(3)], axis=1)  # f' A_i f for three vectors f
    size = np.linalg.norm(prints, axis=1)
    keep = size > 0
    rows, prints, size = rows[keep], prints[keep], size[keep]
    prints = np.round(prints / size[:, None], 9)
    order = np.lexsort(prints.T)
    group = np.empty(len(rows), dtype=int)
    group[order] = np.concatenate([[0], (np.diff(prints[order], axis=0) != 0).any(axis=1).cumsum()])
    if group.max(initial=-1) + 1 == len(rows):
        return nothing
    # bounds are relative to the norm of the matrix; groups with equalities are skipped
    bound, sense = L.bound[rows] / size, L.sense[rows]
    plain = np.ones(group.max() + 1, dtype=bool)
    plain[group[sense == 0]] = False
    tight = {}
    for side in (1, -1):
        members = np.flatnonzero(sense == side)
        members = members[np.lexsort((side * bound[members], group[members]))]
        groups, first = np.unique(group[members], return_index=True)
        tight[side] = np.full(len(plain), -1)
        tight[side][groups] = members[first]
    above, below = tight[1], tight[-1]
    idle = plain[group] & (np.arange(len(rows)) != above[group]) & (np.arange(len(rows)) != below[group])
    both = np.flatnonzero(plain & (above >= 0) & (below >= 0))
    both = both[bound[above[both]] >= bound[below[both]]]
    return ParallelRows(rows[idle], np.stack([rows[above[both]], rows[below[both]]], axis=1))


def without_opposing_pairs(parallel: ParallelRows, mu: np.ndarray) -> np.ndarray:
    """Dual weights without the part in which the two ends of an interval cancel each other."""
    mu = mu.copy()
    mu[parallel.idle] = 0.0
    above, below = parallel.intervals.T
    mu[below[mu[above] > 0]] = 0.0
    return mu
