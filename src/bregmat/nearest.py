"""Nearness problems: build the problem, have it solved, return the certified result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.arrays import ArraySpace
from bregmat.base.interrupts import tells_interrupts
from bregmat.base.points import handed_in
from bregmat.base.threads import on_one_blas_thread
from bregmat.certificates.certify import MatrixCertificate, certify, dual_bound
from bregmat.certificates.faces import clique_weights, exposed
from bregmat.certificates.nearest_matrix import NearestMatrix, build_problem, must_link_rows, slack_weights
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.coordinates import Coordinates, Factor
from bregmat.coordinates.elimination import eliminate
from bregmat.coordinates.priors import kernel_coordinates, metric_coordinates
from bregmat.objective.divergences import as_divergence
from bregmat.objective.scalar_losses import Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.foreign import on_space
from bregmat.run.loop import Outcome, RunLog, Solver, solve_in_turn
from bregmat.run.result import ExitReason, MatrixResult, Record, Status
from bregmat.sharded.collections import is_for_blocks
from bregmat.solvers.plan import Options, plan_of
from bregmat.typing import DivergenceName, LossName, Points, SolverName, Table, Values

if TYPE_CHECKING:
    from bregmat.sharded.sources import LazyConstraints

LINKED = 8e-7  # gap that the weights of eliminated rows cost at most, by truncation and rounding, as measured
ROUNDED = 1e-14  # relative violation of rows that nothing but rounding is left of

__all__ = ["Factor", "nearest_kernel", "nearest_metric"]


@tells_interrupts
@on_one_blas_thread
def nearest_kernel(
    prior: Table | Factor,
    constraints: Constraints | LazyConstraints,
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
        PSD kernel ``K0``, or ``Factor(G0)`` for ``G0 G0'``, which is never multiplied out. The learned kernel keeps the
        prior's range space, except with Frobenius and a dense ``K0``, where all of the cone is searched;
        :func:`widen_range` opens its null space. Eigenvalues below 1e-12 of the largest count as zero: where the range is kept,
        everything that is proven is proven of the prior without them.
    constraints : Constraints
        Rows on samples 0 ... n-1. Distances are squared.
    divergence : {"logdet", "vonneumann", "frobenius"} or object
    loss : None, RelativeSlack(), Squared(), SquaredHinge() or the name of one in snake case
        What a violated bound costs; None is the divergence's own slack (Kulis 2009, eq. 22), ``RelativeSlack()`` that slack of
        value over bound against 1 (end of 6.2.1). ``Squared()`` is regression: it makes every soft row an equality.
        Eq. 22 needs a positive bound. Rows with a bound <= 0 (a comparison with margin 0 or more, a similarity of at most 0) get the
        squared hinge in its place, ``gamma / 2 ((p - b) / |b|)^2``, in units of ``tr(|A| W0)`` where b is 0.
        Where the bound is positive and the value of the row may be negative (similarities, comparisons), LogDet's slack is infinite for
        values <= 0 and von Neumann's for values < 0: a soft ">=" or "==" row keeps its value above 0 at any slack weight. Rows that
        cannot all be positive have no solution under LogDet; ``SquaredHinge()`` has one.
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
        An earlier result; its dual weights are reused, new rows at the end start at 0.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.
    executor, block_size, checkpoint
        As in :func:`nearest_metric`, for a prior that is a Factor: with LogDet a kernel ``G0 M G0'`` is as far from ``G0 G0'`` as M is
        from the identity. G0 is an array, points in files (:func:`bregmat.io.open_points`), or an array or data frame of Dask.

    Returns
    -------
    MatrixResult
        With status, gap and violation that hold for the returned matrix.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no problem; numerical outcomes never raise.

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
    if is_for_blocks(executor, block_size, constraints, prior.G0 if isinstance(prior, Factor) else prior):
        from bregmat.sharded.nearest import nearest_kernel_sharded

        return nearest_kernel_sharded(prior, constraints, options)
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
    checkpoint: Any = None,
) -> MatrixResult:
    """The Mahalanobis matrix nearest to a prior that meets bounds on squared distances of data.

    ``minimize D(W, W0) + sum_i loss_i(<A_i, X W X'>)`` over ``W >= 0`` (Davis 2007).

    Parameters
    ----------
    X : array-like or scipy.sparse, shape (n, d)
        Data, one sample per row. A tensor on a GPU (torch, CuPy, any library of the array API standard) stays there for the long sums
        over rows; the result is in NumPy.
    constraints : Constraints
        Rows on samples 0 ... n-1. Distances are squared.
    prior : array-like, shape (d, d), or Factor, optional
        PSD matrix ``W0``, or ``Factor(P)`` with P (d, r) for ``P P'``; None is the identity. A d x d matrix is never
        formed for the identity when the touched points span fewer dimensions.
    divergence, loss, slack_weight, solver, tol, max_iter, max_seconds, warm_start, callback
        As in :func:`nearest_kernel`. Von Neumann and Frobenius measure W itself here, not the kernel.
    executor : None, int or dask.distributed.Client
        Where shards are processed: one after the other in this process, on that many threads, or on the workers of a cluster. The
        result has the same bits in all cases.
    block_size : int, optional
        Maximum number of rows of a shard; memory is proportional to it. By default the difference vectors of a shard have 2^25 entries.
        Rows are sharded if ``block_size`` or ``executor`` is given, or if rows or points are in files
        (:func:`bregmat.io.open_constraints`, :func:`bregmat.io.open_points`) or collections of Dask. Sharded rows must be all soft or
        all hard. Then ``dual``, ``values`` and ``violation`` of the result stay with the shards; ``numpy.asarray`` fetches them.
    checkpoint : callable, optional
        With sharded rows, called with an intermediate result at every ``checkpoint.every``-th step (:class:`bregmat.io.ModelCheckpoint`).
        If that result is given as ``warm_start``, the run continues from it to the same matrix.

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
    if is_for_blocks(executor, block_size, X, constraints):
        from bregmat.sharded.nearest import nearest_sharded

        return nearest_sharded(X, constraints, prior, options)
    options.check_whole()
    X, space = handed_in("X", X)
    return _nearest(metric_coordinates(X, prior, options.divergence), constraints, space, options)


def _nearest(coordinates: Coordinates, constraints: Any, space: ArraySpace | None, options: Options) -> MatrixResult:
    """The result for rows in memory; ``space``: where the points are, if that is not the host."""
    clock = time.perf_counter()
    _check_constraints(constraints)
    options.check(constraints.n_constraints)
    divergence, loss, slack_weight = options.divergence, options.loss, options.slack_weight
    solver, tol, max_iter, warm_start = options.solver, options.tol, options.max_iter, options.warm_start
    constraints.locate(None, n=coordinates.base.shape[0])  # raises for names and for numbers out of range
    gamma = slack_weights(slack_weight, constraints)
    hard = np.isinf(gamma)
    linked = np.zeros(0, np.int64) if divergence.keeps_rank else must_link_rows(constraints, hard)
    cliques = clique_weights(constraints, hard)
    coordinates, operator = coordinates.bind(constraints, in_span=divergence.keeps_rank or not (len(linked) or cliques))
    if space is not None:
        operator = on_space(operator, space)
    faces = list(exposed(operator, cliques))
    holds = constraints.sense * constraints.bound >= np.where(constraints.sense == 0, np.abs(constraints.bound), 0.0)
    is_reducible = bool(len(linked) or faces) and not divergence.keeps_rank
    scale = coordinates.scale
    whole = problem = build_problem(divergence, coordinates.t0, operator, constraints, loss, slack_weight, scale=scale)
    reduced = eliminate(coordinates, operator, linked, divergence, holds, faces) if is_reducible else None
    if reduced is not None:
        problem = build_problem(
            divergence,
            reduced.coordinates.t0,
            reduced.operator,
            constraints,
            loss,
            slack_weight,
            met=reduced.met,
            offset=reduced.offset,
            scale=scale,
        )
    elif len(linked):
        problem = whole = replace(whole, linked=linked)
    start = None
    if warm_start is not None:
        start = np.zeros(problem.c)
        start[: len(warm_start.dual)] = warm_start.dual * (scale / problem.worth)

    def run(problem: NearestMatrix, tol: float) -> Outcome:
        log = RunLog(options.callback, options.max_seconds, problem.record_in_units)
        outcome = solve_in_turn(
            problem, plan_of(problem, solver, max_iter, start is not None), tol=tol, start=start, log=log
        )
        missed = outcome.status is Status.UNKNOWN and outcome.exit_reason is not ExitReason.INTERRUPTED
        is_mixed = problem.losses.has_hard and not problem.losses.hard.all()
        may_go_on = isinstance(solver, str) and solver == "auto" and max_iter is None and not log.is_late()
        return _with_hard_rows_alone(problem, outcome, log) if missed and is_mixed and may_go_on else outcome

    # the weights of rows that are eliminated cost the bound a little, which the run must make up for
    outcome = run(problem, tol if reduced is None else max(tol - LINKED, 0.2 * tol))
    if reduced is not None and outcome.conflict is not None:  # the proof must name the eliminated rows, too
        reduced, problem = None, whole
        outcome = run(problem, tol)
    if reduced is not None:
        coordinates = reduced.coordinates
        first = outcome.certificate
        certificate = _with_weights(whole, first, reduced.weights)
        if (
            not certificate.proves(tol) and certificate.is_feasible
        ):  # at such prices rows have to be met to the last digits
            exact = certify(problem, first.iterate, first.values, first.dual, allowed=ROUNDED)
            certificate = certificate.joined(_with_weights(whole, exact, reduced.weights))
        outcome = replace(outcome, certificate=certificate, status=certificate.status(tol), tol=tol)
    violation = problem.violation(outcome.certificate.values)
    proof = outcome.certificate.in_units(whole)
    return MatrixResult(
        **replace(outcome, certificate=proof).shared() | {"seconds": time.perf_counter() - clock},
        iterate=proof.iterate,
        last=outcome.last,
        coordinates=coordinates,
        dual=proof.dual,
        values=proof.values,
        violation=violation,
        weight_span=_span(gamma),
        singular=np.unique(np.concatenate([rows for rows, _, _ in faces])) if faces and divergence.keeps_rank else None,
    )


def _span(gamma: np.ndarray) -> float:
    """Largest over smallest finite slack weight."""
    soft = gamma[np.isfinite(gamma)]
    return float(soft.max() / soft.min()) if len(soft) else 1.0


def _with_hard_rows_alone(problem: NearestMatrix, outcome: Outcome, log: RunLog) -> Outcome:
    """An outcome without a feasible point: the hard rows alone may lead to one, or contradict each other.

    Their dual bound holds for the problem, too: no loss is negative.
    """
    rows = np.flatnonzero(problem.losses.hard)
    alone = replace(
        problem,
        operator=problem.operator.restrict(rows),
        losses=problem.losses.restrict(rows),
        unit=problem.unit[rows],
        linked=None,  # row numbers of the whole problem
    )
    found = solve_in_turn(alone, plan_of(alone, "auto", None), tol=outcome.tol, log=log.beside(is_quiet=True))
    mu = np.zeros(problem.c)
    mu[rows] = found.certificate.dual
    if found.conflict is not None:
        proven = replace(outcome.certificate, dual=mu, upper=np.inf)
        conflict = rows[found.conflict]
        return replace(
            outcome, certificate=proven, status=found.status, exit_reason=found.exit_reason, conflict=conflict
        )
    if not found.certificate.is_feasible:
        return outcome
    iterate = found.certificate.iterate
    with np.errstate(all="ignore"):
        values = problem.operator.congruence(iterate.F).values_diagonal(iterate.x)
        best = outcome.certificate.joined(certify(problem, iterate, values, mu))
    return replace(outcome, certificate=best, status=best.status(outcome.tol))


def _with_weights(whole: NearestMatrix, certificate: MatrixCertificate, weights: np.ndarray) -> MatrixCertificate:
    """The certificate for all rows, with the bound that its own weights prove.

    Weights of eliminated rows are infinite in theory. Here they are as large as pays: the larger, the less is truncated, and the more
    is lost to rounding, which the bound is less by, and to rows that are missed by rounding, which have these weights for prices.
    """
    size = max(1.0, float(np.abs(whole.operator.adjoint(certificate.dual)).max()))
    found = []
    for factor in 10.0 ** np.arange(3.0, 12.0, 0.25):
        bound, dual = dual_bound(whole, certificate.dual + factor * size * weights)
        found.append(certificate.with_dual(dual, min(bound, certificate.dual_bound)))
    return max(found, key=lambda one: one.dual_bound - (one.upper if one.is_feasible else 0.0))


def _check_constraints(constraints: Any) -> None:
    if not isinstance(constraints, Constraints):
        raise TypeError(
            f"constraints must be Constraints, such as Constraints.sq_distance(i, j, bound, sense); got {type(constraints).__name__}."
        )
