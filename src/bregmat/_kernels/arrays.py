"""The tuples of arrays that kernels take. Kernels read the fields in their order, each with its dtype and in C order."""

from typing import NamedTuple

import numpy as np

# Arrays that loops run over are this much longer than their contents, so that the loops have no remainder.
PAD = 16


class OuterRows(NamedTuple):
    """Rows ``A_i = shift_i I + sum_t coef_t v_t v_t'``.

    Row i owns the terms ``ptr[i] ... ptr[i+1] - 1``. The vector of a term is ``Z[a] + sign Z[b]``.
    """

    ptr: np.ndarray  # (c + 1,) int64
    coef: np.ndarray  # (m,)
    Z: np.ndarray  # (n, r)
    a: np.ndarray  # (m,) int32
    b: np.ndarray  # (m,) int32
    sign: np.ndarray  # (m,) int8
    shift: np.ndarray  # (c,) multiple of the identity; such rows have no terms

    def are_single(self) -> bool:
        """Whether no row has more than one term, all of positive weight: such rows need no eigenvalues of their own."""
        return bool((np.diff(self.ptr) <= 1).all() and (self.coef > 0.0).all())

    def terms(self) -> np.ndarray:
        """The vectors of all terms, (m, r)."""
        return self.Z[self.a] + self.sign[:, None] * self.Z[self.b]


class RowBounds(NamedTuple):
    """Bound, sense and loss of each row, as in :class:`bregmat.row_losses.RowLosses`; all of shape (c,)."""

    bound: np.ndarray
    sense: np.ndarray  # int8: 1 for <=, -1 for >=, 0 for ==
    gamma: np.ndarray
    scale: np.ndarray
    loss: np.ndarray  # int8: ScalarLoss.projection_code
    unit: np.ndarray  # in which a violation is measured


class EigenWork(NamedTuple):
    """Work arrays of the eigen-update of a matrix (n, n). K of its n eigenvalues are not deflated."""

    keep: np.ndarray  # (n,) int64: positions in lam of the poles kept, ascending
    origin: np.ndarray  # (n,) int64: the pole next to each root, a position in d; until the rows are sorted
    counters: np.ndarray  # (2,) int64: solves and evaluations of the secular equation so far
    d: np.ndarray  # (n + PAD,) lam at keep
    z: np.ndarray  # (n + PAD,) w at keep
    z2: np.ndarray  # (n + PAD,) its square
    offset: np.ndarray  # (n + PAD,) root minus that pole
    theta: np.ndarray  # (n,) roots, ascending
    omega: np.ndarray  # (n,) (w'u_j)^2 of the new unit eigenvectors u_j in the old basis
    U: np.ndarray  # (n * n + PAD,) new eigenvectors in the old basis, K rows of length K
    rows: np.ndarray  # (2, n * n) rows gathered, and their product
    scratch: np.ndarray  # (16, 2 * n + PAD)
    rows_of_projections: np.ndarray  # (3, n) a row, the same in the eigenbasis, and weights; not used by the solves

    @classmethod
    def of_order(cls, n: int) -> "EigenWork":
        """Work arrays for matrices (n, n)."""
        padded = n + PAD
        shapes = (n, n, 2, padded, padded, padded, padded, n, n, n * n + PAD, (2, n * n), (16, n + padded), (3, n))
        integers = {"keep", "origin", "counters"}
        return cls(*(np.zeros(s, np.int64 if f in integers else float) for f, s in zip(cls._fields, shapes)))


class Boosted(NamedTuple):
    """What steps of DefiniteBoost do not change, and memory for them.

    The eigenvalues of ``A_j`` are between ``low[j]`` and ``high[j]``.
    """

    V: np.ndarray  # (m, r) the vectors of all terms
    usable: np.ndarray  # (c,) bool: not a multiple of the identity
    low: np.ndarray  # (c,)
    high: np.ndarray  # (c,)
    total: float  # the trace
    Y: np.ndarray  # (m, r) memory: V in the eigenbasis
    p: np.ndarray  # (c,) memory: values of the rows
