"""Rank-one terms of constraint rows, and the values of rows at dense or sparse points, computed in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.linalg import blocks, row_dot, sq_norms
from bregmat.constraints.columns import LowRankMatrix
from bregmat.constraints.relations import Relation


@dataclass(frozen=True, eq=False)
class ResolvedRows:
    """Constraint rows in row numbers of n points: what is asked of them when they are bound to points.

    Attributes
    ----------
    terms : Terms
        Of the rows that name samples.
    whole : ndarray of int
        Ascending numbers of the rows that touch all points: the trace, and rows given by a matrix.
    touched : ndarray of int or None
        Ascending numbers of the points that rows name; None if a row touches all of them.
    sees_differences : bool
        Whether all rows are made of differences of points, so that moving all points changes nothing.
    """

    terms: Terms
    whole: np.ndarray
    touched: np.ndarray | None
    sees_differences: bool


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of the sparse rows: row ``row`` gains ``coef * |z_a + sign z_b|^2``."""

    row: np.ndarray
    a: np.ndarray
    b: np.ndarray
    sign: np.ndarray
    coef: np.ndarray

    @classmethod
    def of(cls, relations: Sequence[Relation], code: np.ndarray, index: np.ndarray) -> Terms:
        """Terms of rows with the relation ``relations[code]`` (c,) and the samples ``index`` (c, k), by ascending row."""
        pieces = []
        for k, relation in enumerate(relations):
            rows = np.flatnonzero(code == k)
            if not len(rows):
                continue
            # for example, a squared distance is the one term |z_i - z_j|^2
            for term in relation.terms:
                sign, coef = np.full(len(rows), term.sign, np.int8), np.full(len(rows), term.coef)
                a, b = index[rows, term.first].astype(np.int64), index[rows, term.second].astype(np.int64)
                pieces.append((rows, a, b, sign, coef))
        if not pieces:
            empty = np.zeros(0, np.int64)
            return cls(empty, empty, empty, empty.astype(np.int8), np.zeros(0))
        columns = [np.concatenate(x) for x in zip(*pieces, strict=True)]
        if (np.diff(columns[0]) < 0).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [x[order] for x in columns]
        return cls(*columns)

    def values(self, G: Any, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Values of the c rows at points G (n, r), and the sums of the squared norms of their points; 0 without terms."""
        p, size = np.zeros(c), np.zeros(c)
        lengths = sq_norms(G)
        for part in blocks(len(self.row), G.shape[1], 2**22):  # 32 MB of differences at a time
            v, sign = G[self.b[part]], self.sign[part][:, None].astype(float)
            v = G[self.a[part]] + (v.multiply(sign).tocsr() if scipy.sparse.issparse(G) else v * sign)
            # p_row += coef |z_a + sign z_b|^2
            np.add.at(p, self.row[part], self.coef[part] * sq_norms(v))
        # size of a term: |coef| (|z_a|^2 + |z_b|^2)
        both = lengths[self.a] + np.where(self.sign == 0, 0.0, lengths[self.b])
        np.add.at(size, self.row, np.abs(self.coef) * both)
        return p, size


def excess_of(p: np.ndarray, bound: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """Signed violation: how far values exceed their bounds; negative if a row holds with slack, ``|p - b|`` for "==" rows; shape (c,)."""
    return np.where(sense == 0, np.abs(p - bound), sense * (p - bound))


def whole_value(C: Any, G: Any) -> tuple[float, float]:
    """``tr(G' C G)`` and its absolute value; C dense, sparse, a LowRankMatrix, or None for the identity."""
    if C is None:
        value = float(sq_norms(G).sum())
    elif isinstance(C, LowRankMatrix):
        q = np.asarray(G.T @ C.vectors)
        value = float((q * q).sum(axis=0) @ C.weights)
    else:
        value = float(row_dot(G, scipy.sparse.csr_array(C) @ G if scipy.sparse.issparse(G) else C @ G).sum())
    return value, abs(value)
