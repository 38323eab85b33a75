"""The three forms in which a kernel is learned, and which of them suits the data. See :class:`KernelLearner`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.columns import rows_text
from bregmat.constraints import Constraints
from bregmat.coordinates import Factor
from bregmat.divergences import Divergence
from bregmat.estimators.learned import FactorMap, LowRankMap, SpanMap
from bregmat.kernels import KernelFunction
from bregmat.kernels.lowrank import PIVOT_TOL, incomplete_cholesky, pivots_of
from bregmat.labels import PERCENTILE_PAIRS, constraints_from_labels, label_codes
from bregmat.nearest import nearest_kernel, nearest_metric
from bregmat.result import MatrixResult
from bregmat.sampling import generator

Draw = Callable[[Callable[..., Constraints]], Constraints]  # all rows of a fit, given what draws pairs from labels
Solve = Callable[[Callable[..., MatrixResult], Any, Constraints], MatrixResult]  # nearest_..., prior, rows


COINCIDENT = 1e-12  # squared distance relative to k(x, x) + k(y, y) below which it is rounding


@dataclass(frozen=True, eq=False)
class Learned:
    """Result, kernel on any points, rows used, captured share of the trace, points to keep."""

    result: MatrixResult
    map: FactorMap
    rows: Constraints
    captured: float = 1.0
    points: Any = None


def factor_of(X: Any, base: KernelFunction, rank: int | None) -> tuple[Any, bool]:
    """X without the :class:`Factor` around it, and whether it is a memory-mapped factor, which is not read before solving."""
    if isinstance(X, Factor):
        if base.kernel != "linear":
            raise ValueError(f"X is a Factor, which is a kernel itself: use kernel='linear'; got {base.kernel!r}.")
        X = X.G0
    if base.kernel != "linear" or rank is not None or not isinstance(X, np.memmap):
        return X, False
    if X.ndim != 2 or X.dtype.kind != "f" or len(X) < 2:
        raise ValueError(
            f"a memory-mapped X must be a 2-dimensional array of floats with at least 2 rows; got shape {X.shape} "
            f"and dtype {X.dtype}."
        )
    return X, True


def form_of(X: Any, base: KernelFunction, rank: int | None, divergence: Divergence) -> Callable[..., Learned]:
    """``learn(X, base, draw, solve)`` for these data."""
    n, d = X.shape
    if rank is not None:
        if rank > n:
            raise ValueError(f"rank must be at most {n}, the number of training points; got {rank}.")
        return partial(learn_low_rank, rank=int(rank))
    if base.kernel != "linear":
        return learn_in_span
    if (d > n or sp.issparse(X)) and not divergence.is_congruence_invariant:
        return partial(learn_low_rank, rank=min(n, d))  # nothing of size d x d is formed
    return learn_factor


def learn_factor(X: Any, base: KernelFunction, draw: Draw, solve: Solve) -> Learned:
    """X is the factor of the prior."""
    rows = draw(partial(constraints_from_labels, X))
    result = solve(nearest_kernel, Factor(X), rows)
    return Learned(result, FactorMap(result, X.shape[1]), rows)


def learn_low_rank(X: Any, base: KernelFunction, draw: Draw, solve: Solve, *, rank: int) -> Learned:
    """The factor of the prior is computed from ``rank`` columns of it."""
    tol = max(PIVOT_TOL, base.rounding)
    G0, pivots = incomplete_cholesky(partial(base.block, X), base.diagonal(X), rank, tol=tol)
    rows = draw(partial(constraints_from_labels, G0))
    result = solve(nearest_kernel, Factor(G0), rows)
    points = base.points(X, pivots.rows)
    return Learned(result, LowRankMap(result, len(pivots.rows), base, points, pivots), rows, pivots.captured)


def learn_in_span(X: Any, base: KernelFunction, draw: Draw, solve: Solve) -> Learned:
    """The prior stays as it is outside the span of the touched points."""
    rows = draw(partial(constraints_of_kernel, X, base))
    named = rows.touched(X.shape[0])
    touched = np.arange(X.shape[0]) if named is None else named
    K = base.block(X, touched, touched)
    pivots = pivots_of(K, "kernel between the points in constraints", tol=max(PIVOT_TOL, base.rounding))
    located = rows.locate(touched)[0] if len(touched) < X.shape[0] else rows
    assert located is not None  # every point in constraints is among the touched
    result = solve(nearest_metric, pivots.coordinates(K[:, pivots.rows]), located)
    points = base.points(X, touched[pivots.rows])
    return Learned(result, SpanMap(result, len(pivots.rows), base, points, pivots), rows, points=X)


def constraints_of_kernel(
    X: Any,
    base: KernelFunction,
    y: Any,
    n_constraints: int | None,
    *,
    percentiles: tuple[float, float],
    unlabeled: Any,
    random_state: Any,
) -> Constraints:
    """Pairs as :func:`bregmat.constraints_from_labels` draws them, bounded by percentiles of the *kernel's* distances.

    Pairs that coincide in the space of the kernel are left out.
    """
    rng = generator(random_state)
    drawn = constraints_from_labels(X, y, n_constraints, unlabeled=unlabeled, random_state=rng)
    rows = np.flatnonzero(label_codes(y, unlabeled=unlabeled) >= 0)
    a, b = rng.integers(0, len(rows), (2, PERCENTILE_PAIRS))
    sq, size = base.sq_distances(X, rows[a[a != b]], rows[b[a != b]])
    apart = sq > COINCIDENT * size
    if not apart.any():
        raise ValueError(f"the kernel maps all labelled points of X to one: see {rows_text(rows)}.")
    near, far = np.percentile(sq[apart], percentiles)
    i, j = drawn.index[:, 0], drawn.index[:, 1]
    sq, size = base.sq_distances(X, i, j)
    keep, same = sq > COINCIDENT * size, drawn.sense > 0
    if not keep.any():
        raise ValueError("the kernel maps the two points of every pair drawn from y to one.")
    return Constraints.sq_distance(i[keep], j[keep], np.where(same, near, far)[keep], np.where(same, "<=", ">=")[keep])
