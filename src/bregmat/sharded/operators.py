"""The operator and the losses of sharded rows: each call is one expression on every shard and one reduction of matrices or numbers."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from bregmat.operators.linear_maps import Operator, PairGraph, drawn_numbers
from bregmat.sharded.expressions import SHARD, Column, Expression, Shards, call_method, get_attribute


class OnShards:
    """What calls the methods of one object of every shard, such as its operator: ``expression`` gives that object."""

    shards: Shards
    expression: Expression

    def _call(self, method: str, *args: Any, keep: bool = False) -> Expression:
        return Expression(call_method, method, self.expression, *args, keep=keep)

    def _column(self, method: str, *args: Any, keep: bool = False) -> Any:
        return Column(self.shards, self._call(method, *args, keep=keep))

    def _sum(self, method: str, *args: Any) -> Any:
        return self.shards.reduce(self._call(method, *args), operator.add)


class ShardedOperator(OnShards, Operator):
    """Operator of sharded rows: ``values`` are columns, and ``adjoint`` is the sum of the adjoints of all shards.

    Parameters
    ----------
    shards : Shards
    r : int
    expression : Expression, optional
        The operator of a shard; by default that of all its rows.
    """

    is_sharded: ClassVar[bool] = True

    def __init__(self, shards: Shards, r: int, expression: Expression | None = None) -> None:
        self.shards, self.r = shards, r
        self.expression = Expression(get_attribute, "operator", SHARD) if expression is None else expression
        self._facts: tuple[int, bool] | None = None
        self._squares: Expression | None = None  # values_diagonal(None), once it was evaluated

    def _row_facts(self) -> tuple[int, bool]:
        if self._facts is None:
            c, is_rank_one = self.shards.reduce(Expression(_facts, self.expression), _join_facts)
            self._facts = int(c), bool(is_rank_one)
        return self._facts

    @property
    def c(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return self._row_facts()[0]

    @property
    def is_rank_one(self) -> bool:  # type: ignore[override]
        """Whether the rows of every shard are outer products."""
        return self._row_facts()[1]

    def _moved(self, method: str, *args: Any, keep: bool = False) -> ShardedOperator:
        return ShardedOperator(self.shards, self.r, self._call(method, *args, keep=keep))

    def values(self, X: np.ndarray) -> Any:
        return self._column("values", X)

    def adjoint(self, w: Any) -> np.ndarray:
        """The sum of the shards' adjoints, in the order of the tree."""
        return self._sum("adjoint", w)

    def values_diagonal(self, x: np.ndarray | None) -> Any:
        column = self._column("values_diagonal", x, keep=True)
        if x is None:
            self._squares = column.expression
        return column

    def congruence(self, F: np.ndarray) -> ShardedOperator:
        moved = self._moved("congruence", F, keep=True)
        moved.r, moved._facts = F.shape[1], self._facts
        return moved

    def restrict(self, rows: Any) -> ShardedOperator:
        return ShardedOperator(
            self.shards, self.r, Expression(_restrict, self.expression, rows, self._squares, keep=True)
        )

    def drawn(self, share: float) -> Any:
        """A random sample of the rows, drawn by row number.

        All rows are numbered through, so the sample does not depend on the shards. Rows that were restricted before are numbered in
        each shard.
        """
        return Column(self.shards, Expression(_drawn, SHARD, self.expression, share, keep=True))

    def astype(self, dtype: type) -> ShardedOperator:
        moved = self._moved("astype", dtype, keep=True)
        moved._facts = self._facts
        return moved

    def absolute(self) -> ShardedOperator:
        return self._moved("absolute")

    def norms(self) -> Any:
        return self._column("norms")

    def extents(self, w: Any) -> np.ndarray:
        """The sum of the shards' extents, which is enough: ``sum_a sqrt(s_ak s_al) <= sqrt(sum_a s_ak sum_a s_al)``."""
        return self._sum("extents", w)

    def normal_matrix(self, h: Any, S: np.ndarray | None) -> np.ndarray:
        return self._sum("normal_matrix", h, S)

    def _refuse(self, *_: Any) -> NoReturn:
        """The driver has no rows: what would return them is refused."""
        raise TypeError(
            "this solver needs single constraints at the driver, and sharded constraints stay with their shards."
        )

    features = sizes = squared_norms = outer = _refuse  # type: ignore[assignment]


def _drawn(part: Any, op: Operator, share: float) -> np.ndarray:
    return drawn_numbers(part.first if op.c == part.operator.c else 0, op.c, share)


def _restrict(op: Operator, rows: np.ndarray, squares: np.ndarray | None) -> Operator:
    """Some of the rows, with their ``values_diagonal(None)`` if these are known."""
    if squares is not None and isinstance(op, PairGraph):
        op._squares = squares
    return op.restrict(rows)


def _facts(op: Operator) -> tuple[int, bool]:
    return op.c, op.is_rank_one or op.c == 0


def _join_facts(a: tuple[int, bool], b: tuple[int, bool]) -> tuple[int, bool]:
    return a[0] + b[0], a[1] and b[1]


class ShardedLosses(OnShards):
    """Losses of sharded rows, with the attributes and methods of :class:`bregmat.objective.row_losses.RowLosses`.

    Parameters
    ----------
    shards : Shards
    groups : list of (ScalarLoss, Column)
        The different losses with the rows that have them; a solver checks these before the first step.
    expression : Expression, optional
        The losses of a shard; by default those of all its rows.
    """

    def __init__(self, shards: Shards, groups: list[tuple[Any, Any]], expression: Expression | None = None) -> None:
        self.shards, self.groups = shards, groups
        self.has_hard = any(loss.is_hard for loss, _ in groups)
        self.expression = losses = Expression(get_attribute, "losses", SHARD) if expression is None else expression
        self.bound, self.sense, self.gamma, self.hard, self.curvature_at_bound = (
            Column(shards, Expression(get_attribute, name, losses))
            for name in ("bound", "sense", "gamma", "hard", "curvature_at_bound")
        )
        # sums over all rows
        self.value, self.value_rounding, self.conjugate_sum = (
            partial(self._sum, name) for name in ("value", "value_rounding", "conjugate_sum")
        )

    def _pair(self, expression: Expression) -> tuple[Any, Any]:
        first, second = (Column(self.shards, Expression(operator.getitem, expression, k)) for k in (0, 1))
        return first, second

    def restrict(self, rows: Any) -> ShardedLosses:
        """The losses of some rows, selected by a column of row numbers within each shard."""
        return ShardedLosses(self.shards, self.groups, self._call("restrict", rows, keep=True))

    def weighted(self, gamma: Any) -> ShardedLosses:
        """The same losses with other slack weights."""
        return ShardedLosses(self.shards, self.groups, self._call("weighted", gamma, keep=True))

    def derivatives(self, p: Any) -> tuple[Any, Any]:
        """First and second derivative of each row's loss."""
        return self._pair(self._call("derivatives", p))

    @property
    def dual_box(self) -> tuple[Any, Any]:
        """Lower and upper bounds of the dual weights."""
        return self._pair(Expression(get_attribute, "dual_box", self.expression))

    def outside(self, p: Any) -> np.ndarray:
        """Numbers of rows whose loss has no derivative at these values, at most eight of each shard.

        After :meth:`restrict` a number counts from the first row of its shard among the rows that are left.
        """
        return np.concatenate(self.shards.reduce(Expression(_outside, SHARD, self.expression, p), operator.add))


def _outside(part: Any, losses: Any, p: np.ndarray) -> list[np.ndarray]:
    return [part.first + losses.outside(p)[:8]]
