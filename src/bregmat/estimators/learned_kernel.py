"""The three forms in which a kernel is learned, and the values of a learned kernel on any points. See :class:`KernelLearner`.

Kulis 2009, section 6.1, and the kernelised form of Davis 2007.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import generator, rows_text
from bregmat.base.linalg import blocks
from bregmat.base.points import CheckedPoints, as_points
from bregmat.base.sampling import PERCENTILE_PAIRS, PERCENTILES, NothingToCompare
from bregmat.base.threads import cached_property, on_one_blas_thread
from bregmat.base.tolerances import RANK_TOL
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.task import Task, TrainingProblem
from bregmat.from_labels.neighbors import PointSpace, Space
from bregmat.kernels import KernelFunction
from bregmat.kernels.lowrank import Pivots, incomplete_cholesky, pivoted_cholesky
from bregmat.nearest import nearest_kernel, nearest_metric

REST_TOL = 1e-10  # squared distance to the span of the points in constraints, relative to the largest k(x, x), that may be rounding


# ---------------------------------------------------------------------- kernels on any points
@on_one_blas_thread
@dataclass(frozen=True, eq=False)
class FactorMap:
    """Points are rows of the factor: ``k(x, y) = (B'x) . (B'y)``."""

    result: MatrixResult
    width: int  # number of columns that ``result.transform`` expects
    train: Any = field(default=None, kw_only=True)  # the training points, if the map needs them

    def transform(self, X: Any) -> np.ndarray:
        """Features of the learned kernel, shape (n, r)."""
        return np.asarray(self.result.transform(X))

    def kernel(self, X: Any, Y: Any) -> np.ndarray:
        """Learned kernel, shape (n, m); Y None means X."""
        F = self.transform(X)
        return F @ (F if Y is None else self.transform(Y)).T

    def training_kernel(self) -> np.ndarray:
        """Learned kernel on the training points."""
        if self.result.coordinates.base is None:
            raise ValueError(
                "kernel_ needs the training points, which pickles and model files do not keep in this form: use "
                "learner.kernel(X) with the points at hand."
            )
        return self.result.kernel()

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return self.result.transform(np.zeros((1, self.width))).shape[1]


@on_one_blas_thread
@dataclass(frozen=True, eq=False)
class LowRankMap(FactorMap):
    """Coordinates are computed from kernel values with the pivots: ``k(x, y) = (B'g(x)) . (B'g(y))``, ``g(x) = L^-1 k0(pivots, x)``."""

    base: KernelFunction
    points: Any  # the pivots, or their column numbers
    pivots: Pivots

    def coordinates(self, X: Any) -> np.ndarray:
        """``g(x)`` as rows."""
        return self.pivots.coordinates(self.base.columns(X, self.points))

    def transform(self, X: Any) -> np.ndarray:
        return super().transform(self.coordinates(X))


@on_one_blas_thread
@dataclass(frozen=True, eq=False)
class SpanMap(LowRankMap):
    """The learned kernel within the span of the points S in constraints, and the prior kernel outside of it.

    ``k(x, y) = k0(x, y) + g(x)' (B B' - I) g(y)``, which is ``k0(x, y) + k0(x, S) C k0(S, y)``.
    """

    @cached_property
    def change(self) -> np.ndarray:
        """``B B' - I``."""
        B = self.result.B
        return B @ B.T - np.eye(len(B))

    def kernel(self, X: Any, Y: Any) -> np.ndarray:
        """Learned kernel, shape (n, m); Y None means X, for "precomputed" the training points."""
        if self.base.is_precomputed:
            return np.asarray(X, dtype=float) + self._change_between(X, self.train)
        if Y is None:
            K = self.base(X) + self._change_between(X, X)
            return (K + K.T) / 2
        return self.base(X, Y) + self._change_between(X, Y)

    def _change_between(self, X: Any, Y: Any) -> np.ndarray:
        """``k - k0``, shape (n, m). Triangular systems are solved for the smaller set only; the larger set is processed in blocks."""
        block_numbers = 10_000_000  # kernel values that are computed at a time
        if X.shape[0] > Y.shape[0]:
            return self._change_between(Y, X).T
        A = self.pivots.dual(self.coordinates(X) @ self.change)
        out = np.empty((X.shape[0], Y.shape[0]))
        for part in blocks(Y.shape[0], A.shape[1], block_numbers):
            out[:, part] = A @ self.base.columns(Y[part], self.points).T
        return out

    def training_kernel(self) -> np.ndarray:
        return self.kernel(self.train, None)

    def transform(self, X: Any) -> np.ndarray:
        """Learned features of the part within the span, and features of the prior for the part outside of it."""
        rows, rest = self._rest
        g = self.coordinates(X)
        if not len(rows):
            return np.asarray(self.result.transform(g))
        columns = self.base.columns(X, self.base.points(self.train, rows))
        h = rest.coordinates(columns - g @ self.coordinates(self.train[rows]).T)
        return np.hstack([self.result.transform(g), h])

    @property
    def n_columns(self) -> int:
        return super().n_columns + len(self._rest[0])

    @cached_property
    def _rest(self) -> tuple[np.ndarray, Pivots]:
        """Training points whose parts outside the span generate those of all others: pivots of ``k0(x, y) - g(x)'g(y)``."""
        # largest n for features of a full-rank kernel, which take 16 n^2 bytes and n^3 / 3 operations
        most_points = 10_000
        n = self.train.shape[0]
        if n > most_points:
            raise ValueError(
                f"transform of a full-rank kernel needs features of all {n} training points, which is not done above "
                f"{most_points}: pass rank=..., or use kernel(X, Y), which needs the points in constraints only."
            )
        g = self.coordinates(self.train)
        K0 = self.train if self.base.is_precomputed else self.base(self.train)
        left = K0 - g @ g.T
        scale = float(np.abs(np.diag(K0)).max())
        pivots = pivoted_cholesky((left + left.T) / 2, scale=scale, tol=max(REST_TOL, self.base.rounding))
        return pivots.rows, pivots


# ---------------------------------------------------------------------- forms of learning
def kernel_problem(task: Task, base: KernelFunction) -> FactorProblem | SpanProblem:
    """The problem in the form that the data and the parameters ask for (see :class:`KernelLearner`)."""
    X, rank = task.X, task.learner.rank
    n, d = X.shape
    if rank is None and base.kernel != "linear":
        return SpanProblem(X, base)
    if rank is None and (d > n or sp.issparse(X)) and not task.settings["divergence"].is_congruence_invariant:
        rank = min(n, d)  # nothing of size d x d is formed
    if rank is None:
        return FactorProblem(X)
    if rank > n:
        raise ValueError(f"rank must be at most {n}, the number of training points; got {rank}.")
    tol = max(RANK_TOL, base.rounding)
    G0, pivots = incomplete_cholesky(partial(base.block, X), base.diagonal(X), int(rank), tol=tol)
    return FactorProblem(G0, (base, base.points(X, pivots.rows), pivots), pivots.captured)


@dataclass(eq=False)
class KernelSpace(Space):
    """Points of a kernel: ``block`` gives the kernel values for two arrays of row numbers."""

    block: Callable[[np.ndarray, np.ndarray], np.ndarray]
    sizes: np.ndarray  # k(x, x), shape (n,)
    among: np.ndarray
    work: float = 0.0  # a user's kernel may not be called by several threads at once

    def sq_distances(self, rows: np.ndarray) -> np.ndarray:
        """``k(x, x) + k(y, y) - 2 k(x, y)``."""
        among = self.among
        return self.sizes[rows, None] + self.sizes[among] - 2.0 * np.asarray(self.block(rows, among))

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """``k(x, x) + k(y, y) - 2 k(x, y)``, and 0 if that may be rounding."""
        values, order = np.empty(len(i)), np.argsort(i, kind="stable")
        for run in np.split(order, np.flatnonzero(np.diff(i[order])) + 1) if len(i) else []:
            values[run] = np.asarray(self.block(i[run[:1]], j[run]))[0]
        size = self.sizes[i] + self.sizes[j]
        sq = size - 2.0 * values
        return np.where(sq <= RANK_TOL * size, 0.0, sq)

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows the kernel maps to one point up to rounding, shape (m,)."""
        return self.close_sq_distances(i, j) == 0.0


@dataclass(frozen=True, eq=False)
class FactorProblem(TrainingProblem):
    """G0 is a factor of the prior kernel, or of an approximation that is computed from some columns of it.

    Attributes
    ----------
    G0 : ndarray, memmap or scipy.sparse, shape (n, r)
    columns : (KernelFunction, array, Pivots) or None
        Of an approximation: the prior kernel, the pivots as points or column numbers, and their factorisation.
    captured : float
        Fraction of the trace of the prior kernel that its approximation contains.
    """

    G0: Any
    columns: tuple[KernelFunction, Any, Pivots] | None = None
    captured: float = 1.0

    def space(self, result: MatrixResult | None, among: np.ndarray) -> PointSpace:
        if result is None:
            return PointSpace(self.G0 if sp.issparse(self.G0) else np.asarray(self.G0), among)
        return PointSpace(np.asarray(result.transform(self.G0)), among)

    def pairs(self, task: Task) -> Constraints:
        G0 = self.G0
        return task.random_pairs(as_points("X", np.asarray(G0)) if isinstance(G0, np.memmap) else G0)

    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        return nearest_kernel(Factor(self.G0), rows, **settings)

    def map_of(self, result: MatrixResult) -> FactorMap:
        """The learned kernel on any points."""
        width = self.G0.shape[1]
        return FactorMap(result, width) if self.columns is None else LowRankMap(result, width, *self.columns)


@dataclass(eq=False)
class SpanProblem(TrainingProblem):
    """The problem on the span of the points in constraints, which ``solve`` determines; outside of it the prior stays as it is."""

    X: Any
    base: KernelFunction
    captured: ClassVar[float] = 1.0
    touched: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    pivots: Pivots | None = None

    def space(self, result: MatrixResult | None, among: np.ndarray) -> KernelSpace:
        X, base = self.X, self.base
        block = partial(base.block, X)
        if result is None:
            return KernelSpace(block, base.diagonal(X), among)
        learned = self.map_of(result)
        g = learned.coordinates(X)
        h = g @ learned.change
        diagonal = base.diagonal(X) + np.einsum("ij,ij->i", h, g)
        return KernelSpace(lambda a, b: block(a, b) + h[a] @ g[b].T, diagonal, among)

    def pairs(self, task: Task) -> Constraints:
        """Pairs of different points of the kernel; bounds are percentiles of its distances."""
        X, base, rng = self.X, self.base, generator(task.learner.random_state)
        drawn = task.random_pairs(X, rng=rng)
        rows = task.labels.labelled
        a, b = rng.integers(0, len(rows), (2, PERCENTILE_PAIRS))
        sq, size = base.sq_distances(X, rows[a[a != b]], rows[b[a != b]])
        apart = sq > RANK_TOL * size
        if not apart.any():
            text = f"the kernel maps all labelled points of X to one: see {rows_text(rows)}."
            raise NothingToCompare(text, tuple(rows[:2].tolist()))
        near, far = np.percentile(sq[apart], PERCENTILES)
        i, j = drawn.index[:, :2].T.astype(np.int64)
        sq, size = base.sq_distances(X, i, j)
        keep, same = sq > RANK_TOL * size, drawn.sense > 0
        if not keep.any():
            raise NothingToCompare(
                "the kernel maps the two points of every pair drawn from y to one.", (int(i[0]), int(j[0]))
            )
        bound, sense = np.where(same, near, far), np.where(same, "<=", ">=")
        return Constraints.sq_distance(i[keep], j[keep], bound[keep], sense[keep])

    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        n = self.X.shape[0]
        named = rows.touched(n)
        touched = np.arange(n) if named is None else named
        # the prior kernel between the points in constraints
        K = self.base.block(self.X, touched, touched)
        tol = max(RANK_TOL, self.base.rounding)
        pivots = pivoted_cholesky(K, "kernel between the points in constraints", tol=tol)
        self.touched, self.pivots = touched, pivots
        located = rows.locate(touched)[0] if len(touched) < n else rows
        assert located is not None  # every point in constraints is among the touched
        return nearest_metric(CheckedPoints(pivots.coordinates(K[:, pivots.rows])), located, **settings)

    def map_of(self, result: MatrixResult) -> SpanMap:
        """The learned kernel on any points."""
        pivots = self.pivots
        assert pivots is not None  # a problem has been solved
        points = self.base.points(self.X, self.touched[pivots.rows])
        return SpanMap(result, len(pivots.rows), self.base, points, pivots, train=self.X)
