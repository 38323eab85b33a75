"""The operator and the losses of rows that are spread over shards: one map, and one ordered reduction of r x r pieces and scalars."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels.arrays import OuterRows
from bregmat.operators.linear_maps import Operator, drawn_numbers
from bregmat.sharded.expressions import PART, Column, Expression, Rows, called, got
from bregmat.sharded.parts import restricted


class ShardedOperator(Operator):
    """Shards of rows, each an ordinary operator; ``values`` are columns, ``adjoint`` is the sum over all shards.

    Parameters
    ----------
    rows : Rows
    r : int
    expression : Expression, optional
        The operator of a shard; by default that of its rows as they were bound.
    """

    is_sharded: ClassVar[bool] = True

    def __init__(self, rows: Rows, r: int, expression: Expression | None = None) -> None:
        self.rows, self.r = rows, r
        self.expression = Expression(got, "operator", PART) if expression is None else expression
        self._facts: tuple[int, bool] | None = None
        self._lengths: Expression | None = None  # values_diagonal(None), once it was asked for

    def _known(self) -> tuple[int, bool]:
        if self._facts is None:
            c, is_rank_one = self.rows.reduce(Expression(_facts, self.expression), _joined_facts)
            self._facts = int(c), bool(is_rank_one)
        return self._facts

    @property
    def c(self) -> int:  # type: ignore[override]
        """Number of rows; asks the shards once."""
        return self._known()[0]

    @property
    def is_rank_one(self) -> bool:  # type: ignore[override]
        """Whether the rows of every shard are outer products."""
        return self._known()[1]

    def _column(self, method: str, *args: Any, keep: bool = False) -> Any:
        return Column(self.rows, Expression(called, method, self.expression, *args, keep=keep))

    def _sum(self, method: str, *args: Any) -> Any:
        return self.rows.reduce(Expression(called, method, self.expression, *args), operator.add)

    def _moved(self, method: str, *args: Any, keep: bool = False) -> ShardedOperator:
        return ShardedOperator(self.rows, self.r, Expression(called, method, self.expression, *args, keep=keep))

    def values(self, X: np.ndarray) -> Any:
        return self._column("values", X)

    def adjoint(self, w: Any) -> np.ndarray:
        """The sum of the shards' adjoints, in the order of the tree."""
        return self._sum("adjoint", w)

    def values_diagonal(self, x: np.ndarray | None) -> Any:
        found = self._column("values_diagonal", x, keep=True)
        if x is None:
            self._lengths = found.expression
        return found

    def congruence(self, F: np.ndarray) -> ShardedOperator:
        moved = self._moved("congruence", F, keep=True)
        moved.r, moved._facts = F.shape[1], self._facts
        return moved

    def restrict(self, rows: Any) -> ShardedOperator:
        return ShardedOperator(
            self.rows, self.r, Expression(restricted, self.expression, rows, self._lengths, keep=True)
        )

    def drawn(self, share: float) -> Any:
        """By their numbers among all rows, the same whatever the cuts, as long as they are all there; else by their places in a shard."""
        return Column(self.rows, Expression(_drawn, PART, self.expression, share, keep=True))

    def astype(self, dtype: type) -> ShardedOperator:
        moved = self._moved("astype", dtype, keep=True)
        moved._facts = self._facts
        return moved

    def norms(self) -> Any:
        return self._column("norms")

    def extents(self, w: Any) -> np.ndarray:
        """Extents of the shards add up: ``sum_a sqrt(s_ak s_al) <= sqrt(sum_a s_ak sum_a s_al)``."""
        return self._sum("extents", w)

    def normal_matrix(self, h: Any, S: np.ndarray | None) -> np.ndarray:
        return self._sum("normal_matrix", h, S)

    def features(self, S: np.ndarray | None) -> np.ndarray:
        raise _no_rows()

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        raise _no_rows()

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        raise _no_rows()

    def outer(self) -> OuterRows:
        raise _no_rows()


def _drawn(part: Any, op: Operator, share: float) -> np.ndarray:
    return drawn_numbers(part.first if op.c == part.operator.c else 0, op.c, share)


def _no_rows() -> TypeError:
    return TypeError("sharded rows give no rows of their own to the driver, which this solver asks for.")


def _facts(op: Operator) -> tuple[int, bool]:
    return op.c, op.is_rank_one or op.c == 0


def _joined_facts(a: tuple[int, bool], b: tuple[int, bool]) -> tuple[int, bool]:
    return a[0] + b[0], a[1] and b[1]


class ShardedLosses:
    """:class:`bregmat.objective.row_losses.RowLosses` of rows that are spread over shards.

    Parameters
    ----------
    rows : Rows
    groups : list of (ScalarLoss, Column)
        The different losses, each with as many places as shards have it; what a solver asks when it looks for its needs.
    expression : Expression, optional
        The losses of a shard; by default those of its rows as they were bound.
    """

    def __init__(self, rows: Rows, groups: list[tuple[Any, Any]], expression: Expression | None = None) -> None:
        self.rows, self.groups = rows, groups
        self.has_hard = any(loss.is_hard for loss, _ in groups)
        self._losses = Expression(got, "losses", PART) if expression is None else expression
        for name in ("bound", "sense", "gamma", "hard"):
            setattr(self, name, Column(rows, Expression(got, name, self._losses)))

    bound: Any
    sense: Any
    gamma: Any
    hard: Any

    def _column(self, method: str, *args: Any) -> Any:
        return Column(self.rows, Expression(called, method, self._losses, *args))

    def _sum(self, method: str, *args: Any) -> float:
        return float(self.rows.reduce(Expression(called, method, self._losses, *args), operator.add))

    def _pair(self, expression: Expression) -> tuple[Any, Any]:
        first, second = (Column(self.rows, Expression(operator.getitem, expression, k)) for k in (0, 1))
        return first, second

    def _moved(self, method: str, *args: Any) -> ShardedLosses:
        return ShardedLosses(self.rows, self.groups, Expression(called, method, self._losses, *args, keep=True))

    def restrict(self, rows: Any) -> ShardedLosses:
        """The losses of some rows, by their places in a column."""
        return self._moved("restrict", rows)

    def weighted(self, gamma: Any) -> ShardedLosses:
        """The same losses with other slack weights."""
        return self._moved("weighted", gamma)

    def value(self, p: Any) -> float:
        """Total loss."""
        return self._sum("value", p)

    def value_size(self, p: Any, error: Any) -> float:
        """What the total may be wrong by, over the rounding unit."""
        return self._sum("value_size", p, error)

    def conjugate(self, mu: Any) -> Any:
        """Conjugate of each row's loss."""
        return self._column("conjugate", mu)

    def conjugate_size(self, mu: Any) -> float:
        """Sum of the sizes of the terms of :meth:`conjugate`."""
        return self._sum("conjugate_size", mu)

    def derivatives(self, p: Any) -> tuple[Any, Any]:
        """First and second derivative of each row's loss."""
        return self._pair(Expression(called, "derivatives", self._losses, p))

    def strengths(self, unit: Any) -> Any:
        """Second derivative of each row's loss at its bound, in these units."""
        return self._column("strengths", unit)

    @property
    def dual_box(self) -> tuple[Any, Any]:
        """Lower and upper bounds of the dual weights."""
        return self._pair(Expression(got, "dual_box", self._losses))

    def outside(self, p: Any) -> np.ndarray:
        """Rows whose loss has no derivative at these values: row numbers of all data, at most a few of every shard.

        Of losses that were restricted: shards' first numbers with the places among their rows that are left.
        """
        found = self.rows.reduce(Expression(_outside, PART, self._losses, p), operator.add)
        return np.concatenate(found)


def _outside(part: Any, losses: Any, p: np.ndarray) -> list[np.ndarray]:
    return [part.first + losses.outside(p)[:8]]
