"""Nearness problems: build problem (P), solve it, and return the certified result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.checks import check_integer
from bregmat.base.interrupts import tells_interrupts
from bregmat.base.points import handed_in
from bregmat.base.threads import on_one_blas_thread
from bregmat.certificates.nearest_matrix import NearestMatrix, PosedProblem, pose_problem, singular_rows_of
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates, Factor, kernel_coordinates, metric_coordinates, sharded_coordinates
from bregmat.objective.divergences import as_divergence
from bregmat.objective.scalar_losses import Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import Outcome, RunLog, Solver, solve_in_turn
from bregmat.run.result import MatrixResult, Record, Status
from bregmat.solvers.plan import Options, plan_of
from bregmat.typing import DivergenceName, LossName, Points, SolverName, Table, Values

if TYPE_CHECKING:
    from bregmat.sharded.parts import RowFiles

ELIMINATION_GAP = 8e-7  # largest gap that the finite multipliers of eliminated rows cause, as measured

__all__ = ["Factor", "nearest_kernel", "nearest_metric"]


@tells_interrupts
@on_one_blas_thread
def nearest_kernel(
    prior: Table | Factor,
    constraints: Constraints | RowFiles,
    *,
    divergence: DivergenceName | SpectralDivergence = "logdet",
    loss: LossName | Loss | None = None,
    slack_weight: Values = np.inf,
    solver: SolverName | Solver = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    warm_start: MatrixResult | None = None,
    callback: Callable[[Record], Any] | None = None,
    executor: Any = None,
    block_size: int | None = None,
    checkpoint: Any = None,
) -> MatrixResult:
    """The positive semidefinite kernel nearest to a prior that meets bounds on its entries.

    ``minimize D(K, K0) + sum_i loss_i(<A_i, K>)`` over ``K >= 0`` (Kulis 2009, sections 3 and 6).

    Parameters
    ----------
    prior : array-like, shape (n, n), or Factor
        PSD kernel ``K0``, or ``Factor(G0)`` for ``G0 G0'``, which is never formed. The learned kernel keeps the range space of the
        prior, except with Frobenius and a dense ``K0``, where the whole cone is searched. :func:`widen_range` enlarges the range.
        Eigenvalues below 1e-12 of the largest count as zero: if the range is kept, all proofs are about the prior without them.
    constraints : Constraints
        Rows on samples 0 ... n-1. Distances are squared.
    divergence : {"logdet", "vonneumann", "frobenius"} or object
    loss : None, RelativeSlack(), Squared(), SquaredHinge() or the name of one in snake case
        The cost of a violated bound. None is the slack of the divergence itself (Kulis 2009, eq. 22), ``RelativeSlack()`` is that slack of
        value over bound against 1 (end of 6.2.1). ``Squared()`` is regression: it makes every soft row an equality.
        Eq. 22 needs a positive bound. Rows with a bound <= 0 (a comparison with margin 0 or more, a similarity of at most 0) get the
        squared hinge instead, ``gamma / 2 ((p - b) / |b|)^2``, with ``tr(|A| W0)`` in place of ``|b|`` if b is 0.
        For a row with a positive bound whose value may be negative (similarities, comparisons), the slack of LogDet is infinite for
        values <= 0, and that of von Neumann for values < 0: a soft ">=" or "==" row keeps its value above 0 at any slack weight. Rows
        that cannot all be positive have no solution with LogDet, but one with ``SquaredHinge()``.
    slack_weight : float or array-like, shape (c,)
        The papers' gamma; positive, dimensionless; inf makes rows hard.
    solver : {"auto", "mirror_newton", "dual_newton", "interior_point", "cyclic_projection", "definite_boost"} or object
        The last two are the papers' own algorithms; their classes have settings (:class:`CyclicProjection`,
        :class:`DefiniteBoost`).
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on steps: 300 Newton steps, unless the solver that is asked for has its own default.
    max_seconds : float, optional
        Limit on wall time.
    warm_start : MatrixResult, optional
        An earlier result. Its dual weights are reused; new rows at the end start with weight 0.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.
    executor, block_size, checkpoint
        As in :func:`nearest_metric`, for a prior that is a Factor: with LogDet a kernel ``G0 M G0'`` is as far from ``G0 G0'`` as M is
        from the identity. G0 is an array, points in files (:func:`bregmat.io.open_points`), or an array or data frame of Dask.

    Returns
    -------
    MatrixResult
        Its status, gap and violation are those of the returned matrix.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments; numerical outcomes never raise.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> rows = Constraints.diagonal([1.0, 1.0, 1.0]) + Constraints.similarity(0, 1, 0.5, ">=")
    >>> result = nearest_kernel(np.eye(3), rows)
    >>> print(result.status)
    OPTIMAL
    >>> result.kernel().round(3)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    D = as_divergence(divergence)
    solving = (solver, tol, max_iter, max_seconds, warm_start, callback)
    options = Options(D, loss, slack_weight, *solving, executor, block_size, checkpoint)
    if isinstance(prior, Factor) or hasattr(constraints, "shards") or executor is not None or block_size is not None:
        from bregmat.sharded.nearest import check_executor

        check_executor(executor)
        check_integer("block_size", block_size, 1)
        given = prior.G0 if isinstance(prior, Factor) else prior
        G0, rows, executor = _stored(given, constraints, executor)
        if executor is not None or block_size is not None or hasattr(rows, "shards") or hasattr(G0, "read_rows"):
            if not isinstance(prior, Factor):
                raise TypeError(
                    f"sharded rows need a kernel prior as its factor, Factor(G0) with G0 (n, r); got {type(prior).__name__}."
                )
            if not D.is_congruence_invariant:
                raise TypeError(
                    f"sharded rows of a kernel need divergence='logdet', which does not see the factor's own axes; got {D.name!r}. "
                    "nearest_metric takes it, and measures the matrix in place of the kernel."
                )
            return _metric(G0, rows, None, replace(options, executor=executor))
    options.check_whole()
    if isinstance(prior, Factor):
        G0, space = handed_in("prior factor G0", prior.G0)
        prior = Factor(G0)
    else:
        prior, space = handed_in("prior", prior)
    return _nearest(kernel_coordinates(prior, D), constraints, space, options)


@tells_interrupts
@on_one_blas_thread
def nearest_metric(
    X: Points,
    constraints: Constraints | RowFiles,
    *,
    prior: Table | Factor | None = None,
    divergence: DivergenceName | SpectralDivergence = "logdet",
    loss: LossName | Loss | None = None,
    slack_weight: Values = np.inf,
    solver: SolverName | Solver = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    warm_start: MatrixResult | None = None,
    callback: Callable[[Record], Any] | None = None,
    executor: Any = None,
    block_size: int | None = None,
    checkpoint: Any = None,
) -> MatrixResult:
    """The Mahalanobis matrix nearest to a prior that meets bounds on squared distances of data.

    ``minimize D(W, W0) + sum_i loss_i(<A_i, X W X'>)`` over ``W >= 0`` (Davis 2007).

    Parameters
    ----------
    X : array-like or scipy.sparse, shape (n, d)
        Data, one sample per row. A tensor on a GPU (torch, CuPy, any library of the array API standard) stays there for sums over rows;
        the result is in NumPy.
    constraints : Constraints
        Rows on samples 0 ... n-1. Distances are squared.
    prior : array-like, shape (d, d), or Factor, optional
        PSD matrix ``W0``, or ``Factor(P)`` with P (d, r) for ``P P'``; None is the identity. A d x d matrix is never
        formed for the identity when the touched points span fewer dimensions.
    divergence, loss, slack_weight, solver, tol, max_iter, max_seconds, warm_start, callback
        As in :func:`nearest_kernel`. Von Neumann and Frobenius measure W itself here, not the kernel.
    executor : None, int or dask.distributed.Client
        Where the rows are worked on once they are sharded: block by block in this process, on so many threads, or on the workers of a
        cluster. The result has the same bits on all of them.
    block_size : int, optional
        Rows of a shard, which memory is in proportion to; by default as many as have 2^25 numbers in their vectors. Given, or with
        an executor, or with rows in files (:func:`bregmat.io.open_constraints`), rows are sharded, which must be all soft or all
        hard. Then ``dual``, ``values`` and ``violation`` of the result stay where the rows are; ``numpy.asarray`` brings them here.
    checkpoint : callable, optional
        With sharded rows, called with a result so far at every ``checkpoint.every``-th step (:class:`bregmat.io.ModelCheckpoint`);
        given as ``warm_start``, that result is gone on from to the same matrix.

    Returns
    -------
    MatrixResult
        ``result.transform(X)`` maps data so that squared Euclidean distances are the learned ones.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_metric
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> rows = Constraints.sq_distance([0, 0], [1, 2], bound=[0.25, 4.0], sense=["<=", ">="])
    >>> result = nearest_metric(X, rows)
    >>> print(result.status)
    OPTIMAL
    >>> result.metric().round(2) + 0.0  # distances along the first axis halved, along the second doubled
    array([[0.25, 0.  ],
           [0.  , 4.  ]])
    """
    solving = (solver, tol, max_iter, max_seconds, warm_start, callback)
    options = Options(as_divergence(divergence), loss, slack_weight, *solving, executor, block_size, checkpoint)
    return _metric(X, constraints, prior, options)


def _metric(X: Any, constraints: Any, prior: Any, options: Options) -> MatrixResult:
    """A metric on points in memory, or whose rows are sharded."""
    X, constraints, executor = _stored(X, constraints, options.executor)
    X, space = handed_in("X", X)
    is_sharded = executor is not None or options.block_size is not None or hasattr(constraints, "shards")
    if is_sharded or hasattr(X, "read_rows"):
        if space is not None:
            raise TypeError(f"X must be in the host's memory where rows are sharded; got a {space.words}.")
        from bregmat.sharded.nearest import nearest_sharded

        if not hasattr(constraints, "shards"):
            _check_constraints(constraints)
        options.check()
        coordinates = sharded_coordinates(X, prior, options.divergence)
        return nearest_sharded(coordinates, constraints, replace(options, executor=executor))
    options.check_whole()
    return _nearest(metric_coordinates(X, prior, options.divergence), constraints, space, options)


def _stored(X: Any, constraints: Any, executor: Any) -> tuple[Any, Any, Any]:
    """Arrays and frames of Dask as what shards are read from; and the executor, their cluster where they are in its memory."""
    if any(type(x).__module__.startswith("dask") for x in (X, constraints)):
        from bregmat.sharded import collections, tables

        if collections.is_collection(X):
            X = collections.DaskPoints.of(X)
        if collections.is_collection(constraints):
            constraints = collections.DaskRows(constraints, tables.constraints_of_frame)
    if executor is None:
        clients = (getattr(x, "client", None) for x in (X, constraints))
        executor = next((client for client in clients if client is not None), None)
    return X, constraints, executor


def _nearest(coordinates: Coordinates, constraints: Any, space: ArraySpace | None, options: Options) -> MatrixResult:
    """The certified result; ``space`` is where the points are, if that is not the host's memory."""
    clock = time.perf_counter()
    _check_constraints(constraints)
    options.check(len(constraints.bound))
    posed = pose_problem(coordinates, constraints, options.divergence, options.loss, options.slack_weight, space)
    posed, outcome = _solve_posed(posed, options)
    found = outcome.certificate
    proof = found.in_units(posed.whole)
    is_open = outcome.status in (Status.FEASIBLE, Status.UNKNOWN)
    return MatrixResult(
        **replace(outcome, certificate=proof).shared() | {"seconds": time.perf_counter() - clock},
        iterate=proof.iterate,
        last=outcome.last,
        coordinates=posed.coordinates,
        dual=proof.dual,
        values=proof.values,
        violation=posed.problem.violation(found.values),
        weight_span=posed.weight_span,
        singular=singular_rows_of(posed.whole, constraints) if is_open and options.divergence.keeps_rank else None,
    )


def _solve_posed(posed: PosedProblem, options: Options) -> tuple[PosedProblem, Outcome]:
    """The outcome for all rows, and the problem that it is of: without the elimination if its rows are in the proof."""
    tol = options.tol
    if posed.elimination is not None:
        outcome = _solve(posed.problem, options, max(tol - ELIMINATION_GAP, 0.2 * tol))
        if outcome.conflict is None:
            certificate = posed.certificate(outcome.certificate, tol)
            return posed, replace(outcome, certificate=certificate, status=certificate.status(tol), tol=tol)
        posed = posed.unreduced()  # a proof of infeasibility must name the eliminated rows, too
    return posed, _solve(posed.problem, options, tol)


def _solve(problem: NearestMatrix, options: Options, tol: float) -> Outcome:
    """The outcome of the solvers that the options name, one after the other."""
    start = None
    if options.warm_start is not None:
        dual = options.warm_start.dual
        start = np.zeros(problem.c)
        start[: len(dual)] = dual * (problem.scale / problem.worth)
    log = RunLog(options.callback, options.max_seconds, problem.record_in_units)
    plan = plan_of(problem, options.solver, options.max_iter, start is not None)
    return solve_in_turn(problem, plan, tol=tol, start=start, log=log)


def _check_constraints(constraints: Any) -> None:
    if not isinstance(constraints, Constraints):
        raise TypeError(
            f"constraints must be Constraints, such as Constraints.sq_distance(i, j, bound, sense); got {type(constraints).__name__}."
        )
