"""One shard: its rows bound to their points, with their losses; and points that the shards of one process have in common."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, Protocol
from uuid import uuid4

import numpy as np

from bregmat.certificates.nearest_matrix import build_problem, slack_weights
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.binding import bind
from bregmat.operators.compound import with_leaves
from bregmat.operators.linear_maps import Operator
from bregmat.operators.pair_graph import PairGraph, is_identity

FEW = 4  # pairs fewer than points over this are better off as vectors of their own
DERIVED = 4  # arrays of the size of the points that a process keeps, beside the points themselves


class ShardSource(Protocol):
    """Where the rows of one shard come from; picklable, and read again wherever the shard has to be loaded again.

    Attributes
    ----------
    place : str
        Of the rows, for messages: a file with its row group, or rows of an argument.
    count : int
        How many rows it has.
    """

    @property
    def place(self) -> str: ...
    @property
    def count(self) -> int: ...
    def read(self) -> Constraints: ...


class RowFiles(Protocol):
    """Constraints that are read a shard at a time (:func:`bregmat.io.open_constraints`)."""

    def shards(self, block_size: int) -> list[Any]: ...


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one shard.

    Attributes
    ----------
    operator, losses, unit
        As in :class:`bregmat.certificates.nearness.Nearness`.
    number, first : int
        Place of the shard among all, and of its first row among all rows.
    weight_range : (float, float)
        Smallest and largest finite slack weight.
    """

    operator: Operator
    losses: RowLosses
    unit: np.ndarray
    number: int
    first: int
    weight_range: tuple[float, float]
    is_light: ClassVar[bool] = False  # worth putting away where it was made


@dataclass(frozen=True, eq=False)
class Setting:
    """What all shards are bound with.

    Attributes
    ----------
    coordinates : Coordinates
        Without the points.
    divergence, loss, slack_weight
        As in :func:`bregmat.nearest_metric`.
    is_shared : bool
        Whether every process keeps all points in memory, once for all its shards; else a shard keeps those that it touches.
    key : str
        Of the points.
    """

    coordinates: Coordinates
    divergence: Any
    loss: Any
    slack_weight: float
    is_shared: bool
    key: str

    @classmethod
    def of(cls, coordinates: Coordinates, divergence: Any, loss: Any, slack_weight: float, block_size: int) -> Setting:
        """Points are shared where a shard may touch as many anyway.

        Parameters
        ----------
        coordinates : Coordinates
            With the points.
        divergence, loss, slack_weight
            As in the class.
        block_size : int
            Rows of a shard.
        """
        n = coordinates.base.shape[0]
        bare = replace(coordinates, base=None)
        return cls(bare, divergence, loss, slack_weight, n <= 2 * block_size, uuid4().hex)

    def load(self, source: ShardSource, points: Any, number: int, first: int) -> Part:
        """Read the rows of a shard, check them and bind them.

        Parameters
        ----------
        source : ShardSource
        points : ndarray or what has its shape and its slices
        number, first : int
            As in :class:`Part`.
        """
        try:
            rows = source.read()
            rows.locate(None, n=points.shape[0])
            gamma = slack_weights(self.slack_weight, rows)
            if not self.divergence.keeps_rank:
                _refuse_links(rows, np.isinf(gamma))
            operator = self._bound(rows, points)
            problem = build_problem(
                self.divergence,
                self.coordinates.t0,
                operator,
                rows,
                self.loss,
                self.slack_weight,
                scale=self.coordinates.scale,
            )
        except (ValueError, TypeError, OSError) as error:
            raise type(error)(f"{source.place}: {error}") from error
        soft = gamma[np.isfinite(gamma)]
        ends = (float(soft.min(initial=np.inf)), float(soft.max(initial=0.0)))
        return Part(problem.operator, problem.losses, problem.unit, number, first, ends)

    def _bound(self, rows: Constraints, points: Any) -> Operator:
        if not self.is_shared:
            return replace(self.coordinates, base=points).bind(rows, in_span=False)[1]
        invariant = bool(rows.where("is_difference").all())

        def place() -> Any:
            return replace(self.coordinates, base=np.asarray(points[0 : points.shape[0]])).place(invariant)

        Z, rounding = POINTS.kept((self.key, invariant), place)
        return with_shared_points(bind(rows, Z, None, rounding))


def _refuse_links(rows: Constraints, hard: np.ndarray) -> None:
    """Hard rows whose value must be 0: their directions would have to be taken out of all shards at once."""
    zero = np.flatnonzero(hard & (rows.bound == 0) & (rows.sense >= 0))
    if len(zero):
        raise ValueError(
            f"constraint {zero[0]} is hard and has the bound 0, which sharded rows do not take with this divergence: give it a "
            "positive bound or a finite weight, or divergence='logdet'."
        )


# ---------------------------------------------------------------------- points in common
class SharedPoints:
    """Arrays of the size of the points that several shards of a process use: the points for good, what is made of them for a while.

    A product with a matrix that the same process has just made for another shard is found by the identity of its factors.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._points: dict[Any, Any] = {}
        self._made: dict[Any, tuple[np.ndarray, Any, np.ndarray]] = {}
        self._passing: tuple[Any, Any, Any] = (None, None, None)
        self._numbers = count()
        self._holders: dict[str, int] = {}

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made once."""
        with self._lock:
            if key not in self._points:
                self._points[key] = make()
            return self._points[key]

    def hold(self, holder: Any, key: str) -> None:
        """Keep points as long as a holder lives, and let go of them with the last."""
        with self._lock:
            self._holders[key] = self._holders.get(key, 0) + 1
        weakref.finalize(holder, self._release, key)

    def _release(self, key: str) -> None:
        with self._lock:
            self._holders[key] -= 1
            if self._holders[key]:
                return
            del self._holders[key]
            self._points = {name: found for name, found in self._points.items() if name[0] != key}
            self._made, self._passing = {}, (None, None, None)

    def made(self, Z: np.ndarray, by: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """What ``make`` gives for an array Z and something else, both the very same objects."""
        with self._lock:
            for name, (first, second, found) in self._made.items():
                if first is Z and second is by:
                    self._made[name] = self._made.pop(name)
                    return found
            while len(self._made) >= DERIVED:
                del self._made[next(iter(self._made))]
            found = make()
            self._made[next(self._numbers)] = Z, by, found
            return found

    def passing(self, Z: np.ndarray, by: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The same for what the next shard needs and nobody later."""
        with self._lock:
            first, second, found = self._passing
            if first is not Z or second is not by:
                found = make()
                self._passing = Z, by, found
            return found

    def name_of(self, array: np.ndarray) -> Any:
        """What an array is called among those that are kept; None where it is none of them."""
        with self._lock:
            kept = {name: pair[0] for name, pair in self._points.items()}
            made = {name: found for name, (_, _, found) in self._made.items()}
            return next((name for name, found in (kept | made).items() if found is array), None)

    def named(self, name: Any) -> np.ndarray | None:
        """The array of that name, unless it has been let go."""
        with self._lock:
            if name in self._points:
                return self._points[name][0]
            if name not in self._made:
                return None
            self._made[name] = self._made.pop(name)
            return self._made[name][2]


POINTS = SharedPoints()


class SharedPairs(PairGraph):
    """Pairs of points that other shards of the process use as well: products with the points are made once for all of them."""

    points_a_vector = FEW

    def _image(self, X: np.ndarray) -> np.ndarray:
        return POINTS.passing(self.Z, X, lambda: self.Z @ X)

    def congruence(self, F: np.ndarray) -> SharedPairs:
        if is_identity(F):
            return self
        made: Any = self._with(POINTS.made(self.Z, F, lambda: self.Z @ F))
        return made  # type: ignore[no-any-return]

    def restrict(self, rows: np.ndarray) -> Any:
        some = super().restrict(rows)
        if isinstance(some, SharedPairs):
            some._graph = some.graph  # built now: a shard that is put away keeps it, and the order of its gathers
            some._ordered()
        return some

    def astype(self, dtype: type) -> SharedPairs:
        made: Any = self._with(POINTS.made(self.Z, dtype, lambda: self.Z.astype(dtype)))
        made._squares = self._squares
        return made  # type: ignore[no-any-return]


def restricted(op: Operator, rows: np.ndarray, values: np.ndarray | None) -> Operator:
    """Some of the rows, with their ``values_diagonal(None)`` where those are known."""
    if values is not None and isinstance(op, PairGraph):
        op._squares = values
    return op.restrict(rows)


def with_shared_points(op: Any) -> Any:
    """The operator, its pairs as :class:`SharedPairs`."""
    return with_leaves(op, _shared)


def _shared(op: Any) -> Any:
    if not isinstance(op, PairGraph):
        return op
    shared = SharedPairs(op.Z, op.a, op.b, op.sign, squares=op._squares)
    shared._order = op._ordered()
    return shared
