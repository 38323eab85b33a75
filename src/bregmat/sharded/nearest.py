"""The nearest matrix for sharded rows: build the problem, solve it, and return the result with columns in place of arrays.

The rows are soft, and solved by mirror Newton, whose steps are sums over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from bregmat.base.checks import check_integer, check_limits
from bregmat.base.points import as_points, copied_to_host
from bregmat.certificates.problem import NearestMatrix
from bregmat.certificates.result import MatrixResult
from bregmat.coordinates.priors import Coordinates, Factored, Iterate, metric_coordinates
from bregmat.engine.loop import Run, RunLog, solve
from bregmat.objective.spectral import SpectralDivergence
from bregmat.sharded.cluster import ClusterShards, is_client
from bregmat.sharded.expressions import SHARD, Column, Expression, Shards, get_attribute
from bregmat.sharded.local import LocalShards
from bregmat.sharded.operators import ShardedLosses, ShardedOperator
from bregmat.sharded.shard_rows import ShardRows, ShardSettings
from bregmat.sharded.sources import LazyPoints, ShardSource, constraint_sources
from bregmat.solvers.base import SOLVERS, Options
from bregmat.solvers.sampled_newton import SampledNewton

BLOCK = 2**25  # numbers in the difference vectors of a shard by default, 256 MB: 335,544 rows in 100 dimensions


def nearest_sharded(X: Any, constraints: Any, prior: Any, options: Options) -> MatrixResult:
    """The result of :func:`bregmat.nearest_metric` for sharded rows, with columns in place of arrays.

    Parameters
    ----------
    X : array-like or LazyPoints
    constraints : Constraints or LazyConstraints
    prior
        As in :func:`bregmat.nearest_metric`.
    options : Options
    """
    X, space = copied_to_host("X", X)
    if space is not None:
        raise TypeError(f"X must be in the host's memory where constraints are sharded; got a {space.words}.")
    check_limits(tol=options.tol, max_iter=options.max_iter, max_seconds=options.max_seconds, callback=options.callback)
    check_integer("block_size", options.block_size, 1)
    if np.ndim(options.slack_weight):
        raise TypeError("slack_weight must be one number for sharded constraints; give each its own with weight.")
    check_executor(options.executor)
    coordinates = sharded_coordinates(X, prior, options.divergence)
    block_size = options.block_size or max(1, BLOCK // max(1, len(coordinates.t0)))
    settings = ShardSettings.of(coordinates, options.divergence, options.loss, options.slack_weight, block_size)
    shards = shards_on(options.executor, settings, constraint_sources(constraints, block_size), coordinates.base)
    problem = _problem(settings, shards)
    if problem.losses.has_hard:
        raise TypeError(
            "sharded constraints must be soft, since hard ones need a solver that holds all dual weights: give a finite slack_weight and "
            "weight, large where constraints have to hold nearly, or leave out executor and block_size."
        )
    return problem.result(MatrixResult, _run(problem, options), coordinates)


def sharded_coordinates(X: Any, prior: Any, divergence: SpectralDivergence) -> Coordinates:
    """Coordinates of a metric on dense points; those of :class:`LazyPoints` are not read here."""
    if scipy.sparse.issparse(X):
        raise TypeError("X must be dense where constraints are sharded; got a sparse matrix.")
    is_lazy = isinstance(X, LazyPoints)
    if not is_lazy:
        return metric_coordinates(as_points("X", X), prior, divergence)
    one_point = np.ones((1, X.shape[1]))
    return replace(metric_coordinates(one_point, prior, divergence), base=X, is_finite=False)


def check_executor(executor: Any) -> None:
    """Raise unless it is None, a number of threads, or a synchronous client of Dask."""
    if executor is None or (isinstance(executor, int) and not isinstance(executor, bool)):
        check_integer("executor", executor, 1)
    elif not is_client(executor):
        raise TypeError(
            f"executor must be None, a number of threads or a dask.distributed.Client; got {type(executor).__name__}."
        )
    elif executor.asynchronous:
        raise TypeError("executor must be a synchronous client; got one with asynchronous=True.")


def shards_on(executor: Any, settings: Any, sources: Sequence[ShardSource], points: Any) -> Shards:
    """Shards where an executor processes them.

    Parameters
    ----------
    executor : None, int or dask.distributed.Client
        As :func:`check_executor` accepts it.
    settings : ShardSettings or BlockSettings
        Has a ``key`` and loads a shard.
    sources : sequence of ShardSource
    points : ndarray, LazyPoints or None
    """
    if not sources:
        raise ValueError("constraints are empty; give at least one.")
    if executor is None or isinstance(executor, int):
        return LocalShards(settings, sources, points, executor or 1)
    return ClusterShards(settings, sources, points, executor)


# ---------------------------------------------------------------------- the problem
def _problem(settings: ShardSettings, shards: Shards) -> NearestMatrix:
    """The problem of all shards, all of which are loaded."""
    kinds, counts, low, high = shards.reduce(Expression(_facts, SHARD), _join_facts)
    groups = [
        (kind, Column(shards, Expression(_rows_of_kind, SHARD, k)))
        for k, (kind, some) in enumerate(zip(kinds, counts))
        if some
    ]
    c = settings.coordinates
    operator: Any = ShardedOperator(shards, len(c.t0))
    losses: Any = ShardedLosses(shards, groups)
    unit: Any = Column(shards, Expression(get_attribute, "unit", SHARD))
    span = high / low if high > 0 else 1.0
    return NearestMatrix(settings.divergence, c.t0, operator, losses, unit, scale=c.scale, weight_span=span)


def _facts(shard: ShardRows) -> tuple[Any, np.ndarray, float, float]:
    kinds = shard.losses.kinds
    return kinds, np.bincount(shard.losses.kind, minlength=len(kinds)), *shard.weight_range


def _join_facts(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1], min(a[2], b[2]), max(a[3], b[3])


def _rows_of_kind(shard: ShardRows, kind: int) -> np.ndarray:
    return np.flatnonzero(shard.losses.kind == kind)


def _run(problem: NearestMatrix, options: Options) -> Run:
    solver = SampledNewton() if options.solver == "auto" else SOLVERS.resolve(options.solver)
    if solver.name != SampledNewton.name:
        raise TypeError(f"sharded constraints need solver='mirror_newton' or 'auto'; got {solver.name!r}.")
    try:
        solver.check(problem)
    except TypeError as error:
        raise TypeError(f"sharded constraints are solved by mirror_newton alone: {error}") from error
    log = RunLog(options.callback, options.max_seconds, problem.record_in_units)
    start = None if options.warm_start is None else _start(problem, options.warm_start)
    return solve(problem, solver, tol=options.tol, max_iter=options.max_iter, start=start, log=log)


def _start(problem: NearestMatrix, before: MatrixResult) -> Iterate:
    """The matrix of an earlier result of the same problem."""
    iterate = before.last or before.iterate
    own = None if isinstance(iterate, Factored) else iterate.divergence.name
    fits = problem.divergence.is_congruence_invariant if own is None else own == problem.divergence.name
    if not fits or iterate.F.shape != (problem.r, problem.r):
        raise ValueError(
            "warm_start is a result of another divergence or of other coordinates; sharded constraints start from its matrix."
        )
    return iterate
