"""Expressions that the driver evaluates on all shards, and the tree that combines their values.

An expression is a function of one shard and of small constants, such as a matrix or a number. It can be evaluated again wherever the
shard is loaded again. A :class:`Column` is an expression with one number for every row: solvers and certificates compute with it as with
an array, and only its sums, largest entries and the like are sent to the driver.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

FAN_IN = 8  # partial results that one node of the tree combines; a larger number means fewer messages, but longer sums at one place
# Several drivers may share the workers: the keys of expressions begin with a name of the driver.
_driver, _numbers = uuid4().hex[:12], count()


class Expression:
    """``function(*args)`` on every shard; arguments that are expressions are evaluated first.

    Parameters
    ----------
    function : callable
        Picklable.
    *args
    keep : bool
        Whether a shard caches the value for later expressions that contain this one.
    """

    def __init__(self, function: Callable[..., Any], *args: Any, keep: bool = False) -> None:
        self.key = f"{_driver}-{next(_numbers)}"
        self.function, self.keep = function, keep
        self.args = tuple(x.expression if isinstance(x, Column) else x for x in args)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays from a message need not be aligned, and compiled loops may add unaligned numbers in another order: copy them.
        vars(self).update(state)
        self.args = tuple(np.array(x) if isinstance(x, np.ndarray) else x for x in self.args)


class Shards(Protocol):
    """All shards, as the driver sees them."""

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any: ...


def value_of(x: Any, shard: Any, known: dict[str, Any]) -> Any:
    """The value of an expression, or of a constant, on one shard; ``known`` has those that the same call evaluated before."""
    if not isinstance(x, Expression):
        return x
    if x.key == SHARD.key:
        return shard.rows
    if x.key not in known:
        value = shard.cached(x.key) if x.keep else None
        if value is None:
            value = x.function(*(value_of(arg, shard, known) for arg in x.args))
            if x.keep:
                shard.cache(x.key, value)
        known[x.key] = value
    return known[x.key]


def call_method(name: str, target: Any, *args: Any) -> Any:
    """Call a method of an object of the shard."""
    return operator.methodcaller(name, *args)(target)


def get_attribute(name: str, target: Any) -> Any:
    """An attribute of an object of the shard; dots lead to attributes of attributes."""
    return operator.attrgetter(name)(target)


def tree_reduce(parts: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine neighbours, ``FAN_IN`` at a time, until one value is left.

    The order of the operations depends on the number of parts only, so sums have the same bits wherever the parts were computed.
    """
    parts = list(parts)
    while len(parts) > 1:
        parts = [fold(combine, *parts[k : k + FAN_IN]) for k in range(0, len(parts), FAN_IN)]
    return parts[0]


def fold(combine: Callable[[Any, Any], Any], first: Any, *others: Any) -> Any:
    """One node of the tree: combine from left to right."""
    for other in others:
        first = combine(first, other)
    return first


SHARD = Expression(fold)  # stands for the rows of the shard themselves; the function is never called
SHARD.key = "shard"


def _in_list(x: Any) -> list[np.ndarray]:
    return [np.asarray(x)]


class Column(NDArrayOperatorsMixin):
    """One entry for every row, shape (c,), kept with the shards. Arithmetic is done there; ``numpy.asarray`` fetches all entries.

    Parameters
    ----------
    shards : Shards
    expression : Expression
        Its value on a shard is an array with one entry for every row of the shard.
    """

    def __init__(self, shards: Shards, expression: Expression) -> None:
        self.shards, self.expression = shards, expression
        self._length: int | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or named or any(np.ndim(x) for x in inputs if not isinstance(x, Column)):
            return NotImplemented  # an array at the driver is not cut into shards
        if ufunc is np.matmul:
            return float(self._reduce(np.dot, *inputs))
        return self._apply(ufunc, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return NotImplemented if named or function not in (np.where, np.flatnonzero) else self._apply(function, *args)

    def _apply(self, function: Callable[..., Any], *args: Any) -> Column:
        return Column(self.shards, Expression(function, *args))

    def _reduce(
        self, function: Callable[..., Any], *args: Any, combine: Callable[[Any, Any], Any] = operator.add
    ) -> Any:
        return self.shards.reduce(Expression(function, *args), combine)

    def __getitem__(self, rows: Column) -> Column:
        return Column(self.shards, Expression(operator.getitem, self, rows, keep=True))

    def __len__(self) -> int:
        if self._length is None:
            self._length = int(self._reduce(len, self))
        return self._length

    @property
    def shape(self) -> tuple[int, ...]:
        """(c,)."""
        return (len(self),)

    def astype(self, dtype: Any) -> Column:
        """The entries in another precision."""
        return Column(self.shards, Expression(call_method, "astype", self, dtype, keep=True))

    def sum(self) -> float:
        """Sum of all entries."""
        return float(self._reduce(np.sum, self))

    def max(self, initial: float = -np.inf) -> float:
        """Largest entry."""
        return float(self._reduce(partial(np.max, initial=initial), self, combine=np.maximum))

    def min(self, initial: float = np.inf) -> float:
        """Smallest entry."""
        return float(self._reduce(partial(np.min, initial=initial), self, combine=np.minimum))

    def all(self) -> bool:
        """Whether all entries are true."""
        return bool(self._reduce(np.all, self, combine=np.logical_and))

    def any(self) -> bool:
        """Whether an entry is true."""
        return bool(self._reduce(np.any, self, combine=np.logical_or))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.concatenate(self._reduce(_in_list, self))
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        return "<Column: one number for each constraint, kept with the shards; numpy.asarray fetches them>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a column of sharded constraints is kept with the shards and cannot be pickled: take numpy.asarray of it first, or save the "
            "result with bregmat.save, which leaves such columns out."
        )
