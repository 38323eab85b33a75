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
    """Bound, sense and loss of each row, as in :class:`bregmat.objective.row_losses.RowLosses`; all of shape (c,)."""

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


class Quadratic(NamedTuple):
    """What does not change in a run of the active set: ``1/2 x'Ax + b'x`` in the box, on the rows of E."""

    A: np.ndarray  # (n, n)
    E: np.ndarray  # (m, n)
    upper: np.ndarray  # (n,)
    weight: np.ndarray  # (n,) 1 / sqrt(A_ii), the unit in which gradients are compared
    rho: float  # weight of E'E in the factor; E d = 0 for every step d, so that steps do not depend on it


class FreeSet(NamedTuple):
    """The k free variables F in the order of their factor ``U'U = A_FF + rho E_F' E_F = M``, with room for more."""

    U: np.ndarray  # (room, room) upper factor in the leading block
    W: np.ndarray  # (m, room) work array: the rows E_F M^-1
    S: np.ndarray  # (m, m) work array: the upper factor of E_F M^-1 E_F'
    order: np.ndarray  # (room,) int64: variables
    position: np.ndarray  # (n,) int64: place in order, -1 outside
    size: np.ndarray  # (1,) int64: k

    @classmethod
    def of(cls, U: np.ndarray, F: np.ndarray, shape: tuple[int, int]) -> "FreeSet":
        """The free variables F (k,) with the factor U (room, room) in its leading block; shape: (m, n) of E."""
        (m, n), k, room = shape, len(F), len(U)
        order, position = np.zeros(room, np.int64), np.full(n, -1, np.int64)
        order[:k], position[F] = F, np.arange(k)
        return cls(U, np.empty((m, room)), np.empty((m, m)), order, position, np.array([k], np.int64))


class RunPoint(NamedTuple):
    """Where a run of the active set is, changed in place, and where its rows should be."""

    x: np.ndarray  # (n,)
    g: np.ndarray  # (n,) A x + b
    multiplier: np.ndarray  # (m,)
    target: np.ndarray  # (m,) E x


class Learner(NamedTuple):
    """A matrix exponentiated gradient learner with ``H = log W + const``."""

    H: np.ndarray  # (n, n) float64 or complex128
    Q: np.ndarray  # (room + 5, n) memory, of the dtype of H, for a Lanczos run of at most `room` steps
    T: np.ndarray  # (6, room + 1) memory
    state: np.ndarray  # (8,) numbers that change with every trial
    settings: np.ndarray  # (4,) numbers that do not; streams.hpp names the positions in both
