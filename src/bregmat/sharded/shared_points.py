"""Points that the shards of one process have in common, and pairs of them."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from copy import copy
from itertools import count
from typing import Any

import numpy as np

from bregmat.base.linalg import factor_product
from bregmat.operators.binding import PlacedPoints
from bregmat.operators.compound import with_leaves
from bregmat.operators.linear_maps import Operator, PairGraph

MAX_DERIVED = 4  # arrays of the size of the points that a process keeps beside the points themselves


class SharedPoints:
    """Arrays of the size of the points that several shards of a process use.

    The points are kept as long as a holder of their key lives. Arrays that are derived from them, such as their product with a matrix,
    are kept for a while. They are found by the identity of their factors: the next shard asks for the same product of the same objects.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._points: dict[Any, PlacedPoints] = {}
        self._derived: dict[Any, tuple[np.ndarray, Any, np.ndarray]] = {}
        self._latest: tuple[Any, Any, Any] = (None, None, None)
        self._numbers = count()
        self._holders: dict[str, int] = {}
        self._released: deque[str] = deque()  # keys whose holders are gone, not yet counted

    def points(self, key: tuple[str, bool], make: Callable[[], PlacedPoints]) -> PlacedPoints:
        """The points of a key with their rounding; ``make`` is called at the first use."""
        with self._lock:
            self._forget()
            if key not in self._points:
                self._points[key] = make()
            return self._points[key]

    def hold(self, holder: Any, key: str) -> None:
        """Keep the points of a key as long as the holder lives."""
        with self._lock:
            self._forget()
            self._holders[key] = self._holders.get(key, 0) + 1
        weakref.finalize(holder, self._release, key)

    def _release(self, key: str) -> None:
        """Count a holder that is gone, now or, if another thread owns the lock, at the next use.

        The garbage collector calls this in any thread, also in one that reads points for the owner of the lock: it must not wait.
        """
        self._released.append(key)
        if self._lock.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._lock.release()

    def _forget(self) -> None:
        """Forget the points of keys without a holder; called with the lock."""
        while self._released:
            key = self._released.popleft()
            self._holders[key] -= 1
            if self._holders[key]:
                continue
            del self._holders[key]
            self._points = {name: points for name, points in self._points.items() if name[0] != key}
            self._derived, self._latest = {}, (None, None, None)

    def derived(self, Z: np.ndarray, by: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """What ``make`` returns for the objects Z and ``by``; the last ``MAX_DERIVED`` arrays are kept."""
        with self._lock:
            for name, (first, second, points) in self._derived.items():
                if first is Z and second is by:
                    self._derived[name] = self._derived.pop(name)
                    return points
            while len(self._derived) >= MAX_DERIVED:
                del self._derived[next(iter(self._derived))]
            points = make()
            self._derived[next(self._numbers)] = Z, by, points
            return points

    def product(self, Z: np.ndarray, F: np.ndarray) -> np.ndarray:
        """``Z F``, one of the derived arrays."""
        return self.derived(Z, F, lambda: factor_product(Z, F))

    def latest(self, Z: np.ndarray, by: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The same for an array that only the next shards of one pass need: one array is kept."""
        with self._lock:
            first, second, points = self._latest
            if first is not Z or second is not by:
                points = make()
                self._latest = Z, by, points
            return points

    def name_of(self, array: np.ndarray) -> Any:
        """The name of a kept array, or None."""
        with self._lock:
            arrays = {name: points.Z for name, points in self._points.items()}
            arrays |= {name: points for name, (_, _, points) in self._derived.items()}
            return next((name for name, points in arrays.items() if points is array), None)

    def named(self, name: Any) -> np.ndarray | None:
        """The array of that name, or None if it is no longer kept."""
        with self._lock:
            if name in self._points:
                return self._points[name].Z
            if name not in self._derived:
                return None
            self._derived[name] = self._derived.pop(name)
            return self._derived[name][2]


SHARED_POINTS = SharedPoints()


class SharedPairs(PairGraph):
    """Pairs of points that other shards of the process use as well; products with the points are computed once for all shards."""

    points_a_vector = 4  # with four or more points for each pair, the difference vectors of the pairs take less time than shared points

    def _image(self, X: np.ndarray) -> np.ndarray:
        return SHARED_POINTS.latest(self.Z, X, lambda: super(SharedPairs, self)._image(X))

    def congruence(self, F: np.ndarray) -> Any:  # type: ignore[override]  # the product is always shared
        return super().congruence(F, SHARED_POINTS.product)

    def restrict(self, rows: np.ndarray) -> Any:
        some = super().restrict(rows)
        if isinstance(some, SharedPairs):
            # Build the graph and the order of the gathers now, so that a shard in a file contains them.
            some._graph = some.graph
            some._ordered()
        return some

    def astype(self, dtype: type) -> Any:
        made = copy(self)
        made.Z = SHARED_POINTS.derived(self.Z, dtype, lambda: self.Z.astype(dtype))
        return made


def with_shared_points(op: Operator) -> Any:
    """The operator with its pairs as :class:`SharedPairs`."""
    return with_leaves(op, _shared)


def _shared(op: Any) -> Any:
    if not isinstance(op, PairGraph):
        return op
    shared = SharedPairs(op.Z, op.a, op.b, op.sign, squares=op._squares)
    shared._order = op._ordered()
    return shared
