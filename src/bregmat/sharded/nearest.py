"""The nearest matrix for rows that are spread over shards: the problem, its solution, and the result with its columns.

Soft rows go to mirror Newton, whose steps are sums over rows. Hard rows go to working sets: the few rows that are violated most come to the
driver, the problem of these alone is solved there, and its bound holds for all; as long as a row elsewhere is violated, it joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.checks import check_integer
from bregmat.certificates.certify import MatrixCertificate
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.certificates.problem import FEASIBLE
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.iterates import Factored, Iterate
from bregmat.coordinates.priors import Coordinates
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.compound import Stacked, with_leaves
from bregmat.operators.linear_maps import Operator, RankOneRows
from bregmat.operators.pair_graph import PairGraph
from bregmat.run.loop import SOLVERS, Outcome, RunLog, solve, solve_in_turn
from bregmat.run.result import ExitReason, MatrixResult, Status
from bregmat.sharded.expressions import PART, Column, Expression, Rows
from bregmat.sharded.local import LocalRows
from bregmat.sharded.operators import ShardedLosses, ShardedOperator
from bregmat.sharded.parts import Part, Setting, ShardSource
from bregmat.solvers.mirror_newton import MirrorNewton
from bregmat.solvers.plan import Options, plan_of

BLOCK = 2**25  # numbers in the vectors of a shard by default: 335,544 rows in 100 dimensions
JOINING = 500  # rows that join a working set at once
MOST = 20_000  # rows of a working set


@dataclass(frozen=True)
class Block:
    """Some rows of constraints in memory (:class:`bregmat.sharded.parts.ShardSource`)."""

    constraints: Constraints
    first: int
    count: int
    place: str

    def read(self) -> Constraints:
        """The rows."""
        return self.constraints.select(np.arange(self.first, self.first + self.count))

    def __reduce__(self) -> Any:
        """Only they are sent anywhere."""
        return Block, (self.read(), 0, self.count, self.place)


def shards_of(constraints: Any, block_size: int) -> list[ShardSource]:
    """Sources of at most so many rows each; of files, as their own ``shards`` cuts them."""
    if not isinstance(constraints, Constraints):
        return list(constraints.shards(block_size))
    c = constraints.n_constraints
    starts = range(0, c, block_size)
    return [
        Block(constraints, k, min(block_size, c - k), f"constraints {k} to {min(k + block_size, c) - 1}")
        for k in starts
    ]


def nearest_sharded(coordinates: Coordinates, constraints: Any, options: Options) -> MatrixResult:
    """The result of :func:`bregmat.nearest_metric`, with columns in place of arrays.

    Parameters
    ----------
    coordinates : Coordinates
        Of points (n, d): an array, a memory map, or what has a shape and gives slices and picked rows as arrays.
    constraints : Constraints, or what cuts itself into shards
    options : Options
    """
    block_size = options.block_size
    check_integer("block_size", block_size, 1)
    if np.ndim(options.slack_weight):
        raise TypeError("slack_weight must be one number for sharded rows; give each row its own with weight.")
    block_size = block_size or max(1, BLOCK // max(1, len(coordinates.t0)))
    setting = Setting.of(coordinates, options.divergence, options.loss, options.slack_weight, block_size)
    rows = rows_on(options.executor, setting, shards_of(constraints, block_size), coordinates.base)
    problem, span = _problem(setting, rows)
    hard = problem.losses.hard
    if not problem.losses.has_hard:
        outcome = _solve_soft(problem, options, coordinates)
    elif hard.all():
        outcome = _WorkingSet(problem, rows, options, coordinates).solved()
    else:
        raise TypeError(
            "sharded rows must be all soft or all hard: a mixture needs a solver that holds all dual weights. Give hard rows a large "
            "weight, or leave out executor and block_size."
        )
    proof = outcome.certificate.in_units(problem)
    return MatrixResult(
        **replace(outcome, certificate=proof).shared(),
        iterate=proof.iterate,
        last=outcome.last,
        coordinates=coordinates,
        dual=rows.handed_out(proof.dual),
        values=rows.handed_out(proof.values),
        violation=rows.handed_out(problem.violation(outcome.certificate.values)),
        weight_span=span,
    )


def check_executor(executor: Any) -> None:
    """Raise for what is neither None, nor a number of threads, nor a client of Dask that waits for its answers."""
    if executor is None or (isinstance(executor, int) and not isinstance(executor, bool)):
        check_integer("executor", executor, 1)
        return
    from bregmat.sharded.cluster import is_client

    if not is_client(executor):
        raise TypeError(
            f"executor must be None, a number of threads or a dask.distributed.Client; got {type(executor).__name__}."
        )
    if executor.asynchronous:
        raise TypeError("executor must be a client that waits for its answers; got one with asynchronous=True.")


def rows_on(executor: Any, setting: Any, sources: Sequence[Any], points: Any) -> Rows:
    """Shards where an executor works on them.

    Parameters
    ----------
    executor : None, int or dask.distributed.Client
    setting : Setting
        Or what else has a ``key`` and loads a shard.
    sources : sequence of ShardSource
    points : ndarray or what has its shape and its slices
    """
    if not sources:
        raise ValueError("constraints are empty; give at least one row.")
    check_executor(executor)
    if executor is None or isinstance(executor, int):
        return LocalRows(setting, sources, points, executor or 1)
    from bregmat.sharded.cluster import ClusterRows

    return ClusterRows(setting, sources, points, executor)


def _problem(setting: Setting, rows: Rows) -> tuple[NearestMatrix, float]:
    """The problem whose rows are elsewhere, and the largest over the smallest slack weight; all shards are loaded."""
    kinds, counts, low, high = rows.reduce(Expression(_part_facts, PART), _joined_part_facts)
    groups = [
        (kind, Column(rows, Expression(_rows_of_kind, PART, k)))
        for k, (kind, some) in enumerate(zip(kinds, counts))
        if some
    ]
    c, r = setting.coordinates, len(setting.coordinates.t0)
    losses: Any = ShardedLosses(rows, groups)
    unit: Any = Column(rows, Expression(_unit, PART))
    problem = NearestMatrix(setting.divergence, c.t0, ShardedOperator(rows, r), losses, unit, 0.0, c.scale)
    return problem, (high / low if high > 0 else 1.0)


def _part_facts(part: Part) -> tuple[Any, np.ndarray, float, float]:
    kinds = part.losses.kinds
    return kinds, np.bincount(part.losses.kind, minlength=len(kinds)), *part.weight_range


def _joined_part_facts(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1], min(a[2], b[2]), max(a[3], b[3])


def _unit(part: Part) -> np.ndarray:
    return part.unit


def _rows_of_kind(part: Part, kind: int) -> np.ndarray:
    return np.flatnonzero(part.losses.kind == kind)


def _log(problem: NearestMatrix, options: Options, watch: Any = None) -> RunLog:
    return RunLog(options.callback, options.max_seconds, problem.record_in_units, watch)


def _halfway(
    problem: NearestMatrix, coordinates: Coordinates, iterate: Iterate, step: int, objective: float, **trace: np.ndarray
) -> MatrixResult:
    """What a checkpoint holds: a matrix of which nothing is proven yet, and what a working set is made of."""
    none = np.zeros(0)
    return MatrixResult(
        status=Status.UNKNOWN,
        exit_reason=ExitReason.INTERRUPTED,
        objective=objective * problem.worth,
        dual_bound=-np.inf,
        gap=np.inf,
        max_violation=np.nan,
        n_iter=step,
        iterate=iterate,
        coordinates=coordinates,
        dual=none,
        values=none,
        violation=none,
        trace=trace,
    )


# ---------------------------------------------------------------------- soft rows
def _solve_soft(problem: NearestMatrix, options: Options, coordinates: Coordinates) -> Outcome:
    named = MirrorNewton() if options.solver == "auto" else SOLVERS.resolve(options.solver)
    if not isinstance(named, MirrorNewton):
        raise TypeError(f"sharded rows with slack need solver='mirror_newton' or 'auto'; got {named.name!r}.")
    try:
        named.check(problem)
    except TypeError as error:
        raise TypeError(f"sharded rows with slack are solved by mirror_newton alone: {error}") from error

    def watch(step: int, state: Any) -> None:
        if step and step % options.checkpoint.every == 0:
            options.checkpoint(_halfway(problem, coordinates, state.iterate, step, state.objective))

    start = None if options.warm_start is None else _start(problem, options.warm_start)
    log = _log(problem, options, None if options.checkpoint is None else watch)
    return solve(problem, named, tol=options.tol, max_iter=options.max_iter, start=start, log=log)


def _start(problem: NearestMatrix, before: MatrixResult) -> Iterate:
    """The matrix of an earlier result, if it is one of this problem."""
    iterate = before.last or before.iterate
    own = None if isinstance(iterate, Factored) else iterate.divergence.name
    fits = problem.divergence.is_congruence_invariant if own is None else own == problem.divergence.name
    if not fits or iterate.F.shape != (problem.r, problem.r):
        raise ValueError(
            "warm_start is a result of another divergence or of other coordinates; sharded rows start from its matrix."
        )
    return iterate


# ---------------------------------------------------------------------- hard rows
class _WorkingSet:
    """Hard rows: a few at the driver, the others where they are."""

    def __init__(self, problem: NearestMatrix, rows: Rows, options: Options, coordinates: Coordinates) -> None:
        self.problem, self.rows, self.options, self.coordinates = problem, rows, options, coordinates
        self.numbers = np.zeros(0, np.int64)  # of the rows here, among all
        self.pieces: list[tuple[Operator, RowLosses, np.ndarray]] = []
        self.log = _log(problem, options)

    def solved(self) -> Outcome:
        """Solve, look for violated rows, let them join, until there are none."""
        problem, options, mu = self.problem, self.options, np.zeros(0)
        before = options.warm_start.trace if options.warm_start is not None else {}
        steps = 0
        if "working_rows" in before:
            self._join(before["working_rows"])
            mu = before["working_dual"] * (problem.scale / problem.worth)
        else:
            found = self._violated(problem.operator.values_diagonal(problem.prior))
            mu = self._join(found if len(found) else np.zeros(1, np.int64))
        while True:
            outcome = self._solve_here(mu, steps)
            steps = outcome.n_iter
            proof = outcome.certificate
            over = outcome.status is Status.INFEASIBLE or not np.isfinite(proof.upper)
            stopped = outcome.exit_reason in (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.MAX_ITER)
            iterate = proof.iterate
            p = problem.operator.congruence(iterate.F).values_diagonal(iterate.x)
            found = np.zeros(0, np.int64) if over else self._violated(p)
            if not len(found) or stopped or len(self.numbers) + len(found) > MOST:
                return self._outcome(outcome, p)
            mu = self._join(found, proof.dual)
            if options.checkpoint is not None:
                weights = {"working_rows": self.numbers, "working_dual": mu * (problem.worth / problem.scale)}
                options.checkpoint(
                    _halfway(problem, self.coordinates, iterate, steps, proof.objective, **weights),
                )

    def _violated(self, p: Any) -> np.ndarray:
        """Numbers of the rows that are violated most and are not here yet."""
        worst = self.rows.reduce(Expression(_worst, PART, self.problem.violation(p), JOINING), _joined_worst)
        return worst[1][~np.isin(worst[1], self.numbers)]

    def _join(self, numbers: np.ndarray, dual: Any = 0.0) -> np.ndarray:
        """Fetch all rows anew, in their own order, which does not tell when they came; the dual weights of all, 0 for new ones."""
        before, self.numbers = self.numbers, np.union1d(self.numbers, numbers)
        self.pieces = self.rows.reduce(Expression(_fetched, PART, self.numbers), _listed_together)
        mu = np.zeros(len(self.numbers))
        mu[np.searchsorted(self.numbers, before)] = dual
        return mu

    def _solve_here(self, mu: np.ndarray, steps: int) -> Outcome:
        ends = np.cumsum([0, *(len(unit) for _, _, unit in self.pieces)])
        places = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:])]
        operator = Stacked([(place, op) for place, (op, _, _) in zip(places, self.pieces)])
        here = replace(
            self.problem,
            operator=operator,
            losses=_joined_losses([losses for _, losses, _ in self.pieces]),
            unit=np.concatenate([unit for _, _, unit in self.pieces]),
        )
        options, limit = self.options, self.options.max_iter
        left = None if limit is None else max(1, limit - steps)
        self.log.before = steps
        plan = plan_of(here, options.solver, left, bool(mu.any()))
        found = solve_in_turn(here, plan, tol=options.tol, start=mu if mu.any() else None, log=self.log)
        return replace(found, n_iter=steps + found.n_iter)

    def _outcome(self, here: Outcome, p: Any) -> Outcome:
        """The outcome for all rows: what was proven of a few holds for all where all are met."""
        proof: MatrixCertificate = here.certificate
        dual: Any = Column(self.rows, Expression(_scattered, PART, self.numbers, proof.dual))
        worst = max(self.problem.violation(p).max(initial=0.0), proof.violation)
        upper = proof.upper if worst <= FEASIBLE else np.inf
        whole = replace(proof, values=p, dual=dual, violation=worst, upper=upper, missed=None)
        status = here.status if here.status is Status.INFEASIBLE else whole.status(here.tol)
        conflict = None if here.conflict is None else self.numbers[here.conflict]
        return replace(here, certificate=whole, status=status, conflict=conflict)


def _worst(part: Part, violation: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest violations of a shard, and the numbers of their rows."""
    rows = np.flatnonzero(~(violation <= FEASIBLE))
    rows = rows[np.argsort(-violation[rows], kind="stable")[:most]]
    return violation[rows], part.first + rows


def _joined_worst(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    size, number = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.argsort(-size, kind="stable")[:JOINING]
    return size[order], number[order]


def _fetched(part: Part, numbers: np.ndarray) -> list[tuple[Operator, RowLosses, np.ndarray]]:
    """Some rows of a shard, free of the points that it shares; ascending numbers."""
    mine = numbers[(numbers >= part.first) & (numbers < part.first + part.operator.c)]
    if not len(mine):
        return []
    some = mine - part.first
    return [(with_leaves(part.operator.restrict(some), _alone), part.losses.restrict(some), part.unit[some])]


def _listed_together(a: list[Any], b: list[Any]) -> list[Any]:
    return a + b


def _alone(op: Any) -> Operator:
    """A leaf of an operator without points that others share."""
    return RankOneRows(op.vectors(np.arange(op.c))) if isinstance(op, PairGraph) else op


def _joined_losses(losses: list[RowLosses]) -> RowLosses:
    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(one, name) for one in losses])

    bound, sense, gamma, scale = (column(name) for name in ("bound", "sense", "gamma", "scale"))
    return RowLosses(bound, sense, gamma, scale, losses[0].kinds, column("kind"))


def _scattered(part: Part, numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights of a few rows as a column of all."""
    out = np.zeros(part.operator.c)
    mine = (numbers >= part.first) & (numbers < part.first + part.operator.c)
    out[numbers[mine] - part.first] = weights[mine]
    return out
