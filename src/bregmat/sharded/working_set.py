"""Hard sharded rows, by working sets.

The rows that are violated most are fetched to the driver, and the problem of these rows alone is solved there. Its dual bound holds for
all rows. While another row is violated, it joins the working set. At the end the set contains few rows that are not active.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.base.tolerances import FEASIBLE
from bregmat.certificates.problem import NearestMatrix
from bregmat.engine.loop import Outcome, RunLog, solve_sequence
from bregmat.engine.status import ExitReason, Status
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.compound import Stacked, with_leaves
from bregmat.operators.linear_maps import Operator, PairGraph, RankOneRows
from bregmat.sharded.expressions import SHARD, Column, Expression, Shards
from bregmat.sharded.shard_rows import ShardRows
from bregmat.solvers.base import Options, plan_of

MAX_JOINING = 500  # rows that join the working set at a time
MAX_ROWS = 20_000  # of a working set
STOPPED = (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.MAX_ITER)

Piece = tuple[Operator, RowLosses, np.ndarray]  # rows of one shard: operator, losses, unit


class WorkingSet:
    """A problem with hard sharded rows, and the rows of it that are at the driver.

    Parameters
    ----------
    problem : NearestMatrix
        With a :class:`bregmat.sharded.operators.ShardedOperator`.
    shards : Shards
    options : Options
    log : RunLog
    save : callable, optional
        ``save(iterate, step, objective, working_rows=, working_dual=)`` is called after each change of the working set.
    """

    def __init__(
        self, problem: NearestMatrix, shards: Shards, options: Options, log: RunLog, save: Callable[..., None] | None
    ) -> None:
        self.problem, self.shards, self.options, self.log, self.save = problem, shards, options, log, save
        self.numbers = np.zeros(0, np.int64)  # of the rows at the driver, ascending
        self.pieces: list[Piece] = []

    def solve(self) -> Outcome:
        """Solve, find violated rows, let them join, until no row is violated."""
        problem, steps = self.problem, 0
        mu = self._first_rows()
        while True:
            outcome = self._solve_here(mu, steps)
            steps, proof = outcome.n_iter, outcome.certificate
            p = proof.iterate.values(problem.operator)
            # Without a feasible point of the few rows there is none of all rows.
            is_over = outcome.status is Status.INFEASIBLE or not np.isfinite(proof.upper)
            violated = np.zeros(0, np.int64) if is_over else self._most_violated(p)
            is_stopped = outcome.exit_reason in STOPPED or len(self.numbers) + len(violated) > MAX_ROWS
            if not len(violated) or is_stopped:
                return self._for_all_rows(outcome, p)
            mu = self._join(violated, proof.dual)
            if self.save is not None:
                dual = mu * (problem.objective_scale / problem.scale)
                self.save(proof.iterate, steps, proof.objective, working_rows=self.numbers, working_dual=dual)

    def _first_rows(self) -> np.ndarray:
        """Fetch the rows of the warm start, or those that the prior violates most; return their dual weights."""
        problem, warm_start = self.problem, self.options.warm_start
        trace = {} if warm_start is None else warm_start.trace
        if "working_rows" in trace:
            self._join(trace["working_rows"])
            return trace["working_dual"] * (problem.scale / problem.objective_scale)
        violated = self._most_violated(problem.operator.values_diagonal(problem.prior))
        return self._join(violated if len(violated) else np.zeros(1, np.int64))

    def _most_violated(self, p: Any) -> np.ndarray:
        """Numbers of the rows that are violated most and are not in the working set."""
        worst = self.shards.reduce(Expression(_worst, SHARD, self.problem.violation(p)), _join_worst)[1]
        return worst[~np.isin(worst, self.numbers)]

    def _join(self, numbers: np.ndarray, dual: Any = 0.0) -> np.ndarray:
        """Add rows to the working set; return the dual weights of all of them, 0 for new rows.

        All rows are fetched again, in ascending order, so that the result does not depend on when a row joined.
        """
        before, self.numbers = self.numbers, np.union1d(self.numbers, numbers)
        self.pieces = self.shards.reduce(Expression(_fetch, SHARD, self.numbers), operator.add)
        mu = np.zeros(len(self.numbers))
        mu[np.searchsorted(self.numbers, before)] = dual
        return mu

    def _solve_here(self, mu: np.ndarray, steps: int) -> Outcome:
        """Solve the problem of the working set from the dual weights mu, after so many steps."""
        ends = np.cumsum([0, *(len(unit) for _, _, unit in self.pieces)])
        places = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:])]
        problem = replace(
            self.problem,
            operator=Stacked([(place, op) for place, (op, _, _) in zip(places, self.pieces)]),
            losses=_join_losses([losses for _, losses, _ in self.pieces]),
            unit=np.concatenate([unit for _, _, unit in self.pieces]),
        )
        options, limit = self.options, self.options.max_iter
        self.log.before = steps
        is_warm = bool(mu.any())
        plan = plan_of(problem, options.solver, None if limit is None else max(1, limit - steps), is_warm)
        outcome = solve_sequence(problem, plan, tol=options.tol, start=mu if is_warm else None, log=self.log)
        return replace(outcome, n_iter=steps + outcome.n_iter)

    def _for_all_rows(self, here: Outcome, p: Any) -> Outcome:
        """The outcome for all rows, whose values are p: the dual bound of the working set holds for all of them."""
        proof = here.certificate
        dual: Any = Column(self.shards, Expression(_scatter, SHARD, self.numbers, proof.dual))
        worst = max(self.problem.violation(p).max(initial=0.0), proof.max_violation)
        upper = proof.upper if worst <= FEASIBLE else np.inf
        whole = replace(proof, values=p, dual=dual, max_violation=worst, upper=upper, missed=None)
        status = here.status if here.status is Status.INFEASIBLE else whole.status(here.tol)
        conflict = None if here.conflict is None else self.numbers[here.conflict]
        return replace(here, certificate=whole, status=status, conflict=conflict)


# ---------------------------------------------------------------------- on the shards
def _worst(shard: ShardRows, violation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest violations of a shard, and the numbers of their rows."""
    rows = np.flatnonzero(~(violation <= FEASIBLE))  # NaN counts as violated
    rows = rows[np.argsort(-violation[rows], kind="stable")[:MAX_JOINING]]
    return violation[rows], shard.first + rows


def _join_worst(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    size, number = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.argsort(-size, kind="stable")[:MAX_JOINING]
    return size[order], number[order]


def _in_shard(shard: ShardRows, numbers: np.ndarray) -> np.ndarray:
    """Which of some rows belong to the shard."""
    return (numbers >= shard.first) & (numbers < shard.first + shard.operator.c)


def _fetch(shard: ShardRows, numbers: np.ndarray) -> list[Piece]:
    """Some rows of a shard, without the points that it shares."""
    rows = numbers[_in_shard(shard, numbers)] - shard.first
    if not len(rows):
        return []
    op = with_leaves(shard.operator.restrict(rows), _as_vectors)
    return [(op, shard.losses.restrict(rows), shard.unit[rows])]


def _as_vectors(op: Any) -> Operator:
    """Pairs of points as their difference vectors."""
    return RankOneRows(op.vectors(np.arange(op.c))) if isinstance(op, PairGraph) else op


def _join_losses(losses: list[RowLosses]) -> RowLosses:
    bound, sense, gamma, scale, kind = map(
        np.concatenate, zip(*[(one.bound, one.sense, one.gamma, one.scale, one.kind) for one in losses])
    )
    return RowLosses(bound, sense, gamma, scale, losses[0].kinds, kind)


def _scatter(shard: ShardRows, numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights of some rows as a column of all rows of the shard, 0 elsewhere."""
    out = np.zeros(shard.operator.c)
    mine = _in_shard(shard, numbers)
    out[numbers[mine] - shard.first] = weights[mine]
    return out
