"""What the driver asks of all shards: expressions, worked out where a shard lives, and reductions of them by a fixed tree.

An expression is a function of one shard and of small constants (a matrix, a number), so it can be worked out anew wherever the shard
is loaded again. A :class:`Column` is one that has a number for every row: solvers and certificates do arithmetic with it as with an array,
and only sums of it, largest entries and the like come to the driver.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

FAN = 8  # partial results that are put together at once
_ours, _numbers = uuid4().hex[:12], count()  # several drivers may share the workers


class Expression:
    """``function(*args)`` on every shard; arguments that are expressions are worked out first.

    Parameters
    ----------
    function : callable
        Picklable.
    *args
    keep : bool
        Whether a shard remembers the value, for later expressions that contain this one.
    """

    def __init__(self, function: Callable[..., Any], *args: Any, keep: bool = False) -> None:
        self.key = f"{_ours}-{next(_numbers)}"
        self.function, self.args, self.keep = function, tuple(_plain(x) for x in args), keep

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays that have travelled need not be aligned: they are copied to where compiled loops expect them."""
        vars(self).update(state)
        self.args = tuple(np.array(x) if isinstance(x, np.ndarray) else x for x in self.args)


class Place(Protocol):
    """A shard where it lives: the rows themselves, and what it remembers."""

    @property
    def part(self) -> Any: ...
    def remembered(self, key: str) -> Any: ...
    def remember(self, key: str, value: Any) -> None: ...


class Rows(Protocol):
    """All shards, as the driver knows them."""

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any: ...
    def handed_out(self, column: Any) -> Any: ...


def _plain(x: Any) -> Any:
    return x.expression if isinstance(x, Column) else x


def value_of(x: Any, place: Place, known: dict[str, Any]) -> Any:
    """The value of an expression, or of a constant, on one shard.

    Parameters
    ----------
    x : Expression or object
    place : Place
    known : dict
        Values of expressions that were met on the way.
    """
    if not isinstance(x, Expression):
        return x
    if x.key == PART.key:
        return place.part
    if x.key not in known:
        found = place.remembered(x.key) if x.keep else None
        if found is None:
            found = x.function(*(value_of(arg, place, known) for arg in x.args))
            if x.keep:
                place.remember(x.key, found)
        known[x.key] = found
    return known[x.key]


def called(method: str, target: Any, *args: Any) -> Any:
    """A method of what is on the shard."""
    return getattr(target, method)(*args)


def got(name: str, target: Any) -> Any:
    """An attribute of what is on the shard; names may be chained."""
    return operator.attrgetter(name)(target)


def reduced(parts: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Neighbours put together, ``FAN`` at a time, in an order that only their number decides."""
    parts = list(parts)
    while len(parts) > 1:
        parts = [folded(combine, *parts[first : first + FAN]) for first in range(0, len(parts), FAN)]
    return parts[0]


def folded(combine: Callable[[Any, Any], Any], first: Any, *others: Any) -> Any:
    """One node of the tree."""
    for other in others:
        first = combine(first, other)
    return first


PART = Expression(folded)  # stands for the rows of the shard themselves
PART.key = "part"


def _largest(x: np.ndarray, initial: float) -> float:
    return float(np.max(x, initial=initial))


def _smallest(x: np.ndarray, initial: float) -> float:
    return float(np.min(x, initial=initial))


def _dot(x: Any, y: Any) -> float:
    return float(np.dot(x, y))


def _listed(x: Any) -> list[np.ndarray]:
    return [np.asarray(x)]


class Column(NDArrayOperatorsMixin):
    """A number, or a place, for every row (c,): arithmetic stays with the shards; ``np.asarray`` brings all of it here.

    Parameters
    ----------
    rows : Rows
    expression : Expression
        Its values on a shard are an array (rows of the shard,).
    """

    def __init__(self, rows: Rows, expression: Expression) -> None:
        self.rows, self.expression = rows, expression
        self._length: int | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or named or any(np.ndim(x) for x in inputs if not isinstance(x, Column)):
            return NotImplemented  # an array has no shards
        if ufunc is np.matmul:
            return self._total(_dot, *inputs)
        return self._made(ufunc, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return NotImplemented if named or function not in (np.where, np.flatnonzero) else self._made(function, *args)

    def _made(self, function: Callable[..., Any], *args: Any) -> Column:
        return Column(self.rows, Expression(function, *args))

    def _total(
        self, function: Callable[..., Any], *args: Any, combine: Callable[[Any, Any], Any] = operator.add
    ) -> Any:
        return self.rows.reduce(Expression(function, *args), combine)

    def __getitem__(self, rows: Column) -> Column:
        return Column(self.rows, Expression(operator.getitem, self, rows, keep=True))

    def __len__(self) -> int:
        if self._length is None:
            self._length = int(self._total(len, self))
        return self._length

    @property
    def shape(self) -> tuple[int, ...]:
        """(c,)."""
        return (len(self),)

    def astype(self, dtype: Any) -> Column:
        """In another precision."""
        return Column(self.rows, Expression(called, "astype", self, dtype, keep=True))

    def sum(self) -> float:
        """Sum over all rows, by the tree."""
        return float(self._total(np.sum, self))

    def max(self, initial: float = -np.inf) -> float:
        """Largest entry."""
        return float(self._total(_largest, self, initial, combine=np.maximum))

    def min(self, initial: float = np.inf) -> float:
        """Smallest entry."""
        return float(self._total(_smallest, self, initial, combine=np.minimum))

    def all(self) -> bool:
        """Whether all entries are true."""
        return bool(self._total(np.all, self, combine=np.logical_and))

    def any(self) -> bool:
        """Whether an entry is true."""
        return bool(self._total(np.any, self, combine=np.logical_or))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.concatenate(self._total(_listed, self))
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return "<Column: one number a row, kept with the shards; numpy.asarray brings it here>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "what the rows of sharded data have stays with the shards and is not pickled: take numpy.asarray of it first, or save the "
            "result with bregmat.save, which leaves it out."
        )
