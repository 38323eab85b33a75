"""Nearness problems: build problem (P), solve it, and return the certified result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.base.arrays import ArraySpace, working_space
from bregmat.base.checks import check_limits
from bregmat.base.points import CheckedPoints, as_points, copied_to_host
from bregmat.base.threads import returns_result
from bregmat.certificates.faces import ReducedProblem, hard_faces, reduced_problem, singular_rows_of
from bregmat.certificates.problem import build_problem
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates, Factor, kernel_coordinates, metric_coordinates
from bregmat.engine.loop import RunLog, Solver, solve_sequence
from bregmat.engine.status import Record, Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.losses import Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.sharded.sources import LazyConstraints, LazyPoints
from bregmat.solvers.base import Options, plan_of
from bregmat.typing import DivergenceName, LossName, Points, SolverName, Table, Values

ELIMINATION_GAP = 8e-7  # largest gap that the finite multipliers of eliminated rows cause, as measured

__all__ = ["Factor", "nearest_kernel", "nearest_metric"]


@returns_result
def nearest_kernel(
    prior: Table | Factor,
    constraints: Constraints,
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
) -> MatrixResult:
    """The positive semidefinite kernel nearest to a prior that meets bounds on its entries.

    ``minimize D(K, K0) + sum_i loss_i(<A_i, K>)`` over ``K >= 0`` (Kulis 2009, sections 3 and 6).

    Parameters
    ----------
    prior : array-like, shape (n, n), or Factor
        PSD kernel ``K0``, or ``Factor(G0)`` for ``G0 G0'``, which is never formed. The learned kernel keeps the range space of the
        prior, except with Frobenius and a dense ``K0``, where the whole cone is searched. :meth:`Factor.widened` enlarges the range.
        With Frobenius a dense ``K0`` may be indefinite: the result is the nearest semidefinite matrix that meets the constraints.
        Eigenvalues below 1e-12 of the largest count as zero: if the range is kept, all proofs are about the prior without them.
    constraints : Constraints
        Constraints on samples 0 ... n-1. Distances are squared.
    divergence : {"logdet", "vonneumann", "frobenius"} or object
    loss : None, DivergenceSlack(), RelativeSlack(), Squared(), SquaredHinge() or the name of one in snake case
        The cost of a violated bound. None is the slack of the divergence itself (Kulis 2009, eq. 22), ``DivergenceSlack("frobenius")`` that
        of another divergence, ``RelativeSlack()`` the slack of value over bound against 1 (end of 6.2.1). ``Squared()`` is regression: it
        makes every soft constraint an equality.
        Eq. 22 needs a positive bound. Constraints with a bound <= 0 (a comparison with margin 0 or more, a similarity of at most 0) get the
        squared hinge instead, ``gamma / 2 ((p - b) / |b|)^2``, with ``tr(|A| W0)`` in place of ``|b|`` if b is 0.
        For a constraint with a positive bound whose value may be negative (similarities, comparisons), the slack of LogDet is infinite for
        values <= 0, and that of von Neumann for values < 0: a soft ">=" or "==" constraint keeps its value above 0 at any slack weight.
        Constraints that cannot all be positive have no solution with LogDet, but one with ``SquaredHinge()``.
    slack_weight : float or array-like, shape (c,)
        The papers' gamma; positive, dimensionless; inf makes constraints hard.
    solver : {"auto", "mirror_newton", "dual_newton", "interior_point", "cyclic_projection", "definite_boost"} or object
        The last two are the papers' own algorithms; their classes have settings (:class:`CyclicProjection`,
        :class:`DefiniteBoost`).
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on steps: 300 Newton steps, unless the solver that is asked for has its own default.
    max_seconds : float, optional
        Limit on wall time, checked between steps and within long ones. A single factorisation, product of matrices or eigenproblem is
        not interrupted, and the last point is certified after the limit.
    warm_start : MatrixResult, optional
        An earlier result. Its dual weights are reused; new constraints at the end start with weight 0.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops the run.

    Returns
    -------
    MatrixResult
        Its status, gap and violation are those of the returned matrix.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments; numerical outcomes never raise.

    Notes
    -----
    With LogDet a kernel ``G0 M G0'`` is as far from ``G0 G0'`` as M is from the identity: for more constraints or points than fit into
    memory, ``nearest_metric(G0, constraints, block_size=...)`` solves the same problem.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> constraints = Constraints.diagonal([1.0, 1.0, 1.0]) + Constraints.similarity(0, 1, 0.5, ">=")
    >>> result = nearest_kernel(np.eye(3), constraints)
    >>> print(result.status)
    OPTIMAL
    >>> result.kernel().round(3)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    D = DIVERGENCES.resolve(divergence)
    options = Options(
        divergence=D,
        loss=loss,
        slack_weight=slack_weight,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        max_seconds=max_seconds,
        warm_start=warm_start,
        callback=callback,
    )
    data = prior.G0 if isinstance(prior, Factor) else prior
    if isinstance(data, LazyPoints) or isinstance(constraints, LazyConstraints):
        raise TypeError(
            "nearest_kernel takes points and constraints in memory. With LogDet, nearest_metric(G0, constraints) solves the "
            "same problem for those in files."
        )
    space = None if isinstance(data, np.ndarray) else working_space(data)
    return _nearest(kernel_coordinates(prior, D), constraints, space, options)


@returns_result
def nearest_metric(
    X: Points,
    constraints: Constraints | LazyConstraints,
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
) -> MatrixResult:
    """The Mahalanobis matrix nearest to a prior that meets bounds on squared distances of data.

    ``minimize D(W, W0) + sum_i loss_i(<A_i, X W X'>)`` over ``W >= 0`` (Davis 2007).

    Parameters
    ----------
    X : array-like or scipy.sparse, shape (n, d)
        Data, one sample per row. A tensor on a GPU (torch, CuPy, any library of the array API standard) stays there for sums over points;
        the result is in NumPy.
    constraints : Constraints
        Constraints on samples 0 ... n-1. Distances are squared.
    prior : array-like, shape (d, d), or Factor, optional
        PSD matrix ``W0``, or ``Factor(P)`` with P (d, r) for ``P P'``; None is the identity. A d x d matrix is never
        formed for the identity when the touched points span fewer dimensions.
    divergence, loss, slack_weight, solver, tol, max_iter, max_seconds, warm_start, callback
        As in :func:`nearest_kernel`. Von Neumann and Frobenius measure W itself here, not the kernel.
    executor : None, int or dask.distributed.Client
        Where shards are processed: one after the other in this process, on that many threads, or on the workers of a cluster. The
        result has the same bits in all cases.
    block_size : int, optional
        Maximum number of constraints of a shard; memory is proportional to it. By default its difference vectors have 2^25 entries.
        Constraints are sharded if ``block_size`` or ``executor`` is given, or if constraints or points are in files
        (:func:`bregmat.io.open_constraints`, :func:`bregmat.io.open_points`). Sharded constraints are soft.
        Then ``dual``, ``values`` and ``violation`` of the result stay with the shards; ``numpy.asarray`` fetches them.

    Returns
    -------
    MatrixResult
        ``result.transform(X)`` maps data so that squared Euclidean distances are the learned ones.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_metric
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> constraints = Constraints.sq_distance([0, 0], [1, 2], bound=[0.25, 4.0], sense=["<=", ">="])
    >>> result = nearest_metric(X, constraints)
    >>> print(result.status)
    OPTIMAL
    >>> result.metric().round(2) + 0.0  # distances along the first axis halved, along the second doubled
    array([[0.25, 0.  ],
           [0.  , 4.  ]])
    """
    options = Options(
        divergence=DIVERGENCES.resolve(divergence),
        loss=loss,
        slack_weight=slack_weight,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        max_seconds=max_seconds,
        warm_start=warm_start,
        callback=callback,
        executor=executor,
        block_size=block_size,
    )
    if is_for_blocks(executor, block_size, X, constraints):
        from bregmat.sharded.nearest import nearest_sharded

        return nearest_sharded(X, constraints, prior, options)
    if isinstance(X, CheckedPoints):
        points, space = X.points, X.space
    else:
        X, space = copied_to_host("X", X)
        points = as_points("X", X)
    return _nearest(metric_coordinates(points, prior, options.divergence), constraints, space, options)


def is_for_blocks(executor: Any, block_size: int | None, *data: Any) -> bool:
    """Whether data are processed in blocks: an argument asks for it, or the data are not in memory."""
    in_files = [x for x in data if isinstance(x, (LazyPoints, LazyConstraints))]
    return executor is not None or block_size is not None or bool(in_files)


def _nearest(coordinates: Coordinates, constraints: Any, space: ArraySpace | None, options: Options) -> MatrixResult:
    """The certified result; ``space`` is where the points are, if that is not the host's memory."""
    clock = time.perf_counter()
    if not isinstance(constraints, Constraints):
        raise TypeError(
            f"constraints must be Constraints, such as Constraints.sq_distance(i, j, bound, sense); got {type(constraints).__name__}."
        )
    D, tol, warm_start, c = options.divergence, options.tol, options.warm_start, len(constraints.bound)
    check_limits(tol=tol, max_iter=options.max_iter, max_seconds=options.max_seconds, callback=options.callback)
    if not isinstance(warm_start, MatrixResult | None):
        raise TypeError(f"warm_start must be an earlier MatrixResult; got {type(warm_start).__name__}.")
    n_warm = 0 if warm_start is None else len(warm_start.dual)
    if n_warm > c:
        raise ValueError(f"warm_start has {n_warm} constraints but there are {c}; new ones go to the end.")
    settings = constraints, options.loss, options.slack_weight
    place, operator, errors = coordinates.bind(constraints)
    whole = build_problem(D, place.t0, operator, *settings, scale=place.scale, place=place, errors=errors, space=space)
    reduced = ReducedProblem(whole, whole, place)
    if not (D.keeps_rank or whole.is_always_feasible):
        linked, cliques = hard_faces(constraints, whole.losses.hard)
        if place.span is not None and (len(linked) or cliques):  # directions are eliminated in the columns of the data
            place, operator, errors = coordinates.bind(constraints, in_span=False)
            how: dict[str, Any] = {"scale": place.scale, "place": place, "errors": errors, "space": space}
            whole = build_problem(D, place.t0, operator, *settings, **how)
        reduced = reduced_problem(whole, place, constraints, linked, cliques)
    while True:  # the smaller problem first, if directions were eliminated
        problem, start, aim = reduced.problem, None, tol
        if reduced.elimination is not None:
            aim = max(tol - ELIMINATION_GAP, 0.2 * tol)
        if warm_start is not None:
            start = np.zeros(c)
            start[:n_warm] = warm_start.dual * (problem.scale / problem.objective_scale)
        units = None if problem.objective_scale == 1.0 else problem.record_in_units
        log = RunLog(options.callback, options.max_seconds, units, clock=clock)
        plan = plan_of(problem, options.solver, options.max_iter, start is not None)
        run = solve_sequence(problem, plan, tol=aim, start=start, log=log)
        if reduced.elimination is None or run.proof is None:
            break
        reduced = ReducedProblem(reduced.whole, reduced.whole, place)  # a proof must name the eliminated rows, too
    is_incomplete = reduced.elimination is not None or run.status is Status.FEASIBLE
    if is_incomplete and run.proof is None:
        run = replace(run, certificate=reduced.certificate(run.certificate, tol), tol=tol)
    is_open = run.status in (Status.FEASIBLE, Status.UNKNOWN)
    singular = singular_rows_of(reduced.whole, constraints) if is_open and D.keeps_rank else None
    return problem.result(MatrixResult, run, reduced.coordinates, singular=singular)
