"""Who works at once: BLAS on one thread, so that sums do not depend on their number; long compiled loops in parts, shared among threads;
cached properties that no thread waits for.

The threads are Python's, and kernels start none of their own (OpenMP): a process forked after such threads can hang at its next loop.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar, cast

GRAIN = 1e6  # operations in a part, about a millisecond; threads are asked from four parts on
MOST = 256  # parts of one loop
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


class cached_property(functools.cached_property[T]):
    """A property that is computed once, without a lock, as Python has it from 3.12 on.

    Python 3.11 holds one lock for all objects of a class while it computes: threads wait for each other's properties, and a process
    that is forked meanwhile waits for ever. Here two threads that ask at once may both compute, the same value.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process, as threadpoolctl controls them."""
    import scipy.linalg  # noqa: F401 - SciPy has a BLAS of its own, which must be loaded to be found
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController().select(user_api="blas").lib_controllers


_lock = threading.RLock()  # a holder may be let go by the garbage collector, in the middle of another's entry
_holders: dict[int, int] = {}  # thread of each holder, by its id
_before: dict[
    tuple[int, int | None], int
] = {}  # threads of a library while it is limited, by its place and who limited it


class single_thread_blas:
    """One BLAS thread in this block: results have the same bits on any number of threads, and small products do not wait.

    The limit is one of the whole process: the first thread in sets it, the last one out restores what was there. So does a
    holder that an interrupt kept from leaving, when it is collected. A forked child keeps what its own thread holds.

    Parameters
    ----------
    order : int, optional
        Order of the matrices inside: up to 64 nothing is done, BLAS takes one thread by itself.
    """

    def __init__(self, order: int = 1000) -> None:
        self.is_needed = order > 64

    def __enter__(self) -> None:
        if not self.is_needed:
            return
        thread = threading.get_ident()
        with _lock:
            _holders[id(self)] = thread
            for place, library in enumerate(_libraries()):
                # where BLAS runs on OpenMP every thread has a limit of its own
                key = place, thread if getattr(library, "threading_layer", None) == "openmp" else None
                if key not in _before:
                    _before[key] = library.num_threads
                    _set_threads(library, 1)

    def __exit__(self, *_: object) -> None:
        if self.is_needed:
            with _lock:
                _holders.pop(id(self), None)
                _restore()

    __del__ = __exit__


def _set_threads(library: Any, threads: int) -> None:
    """Also from threads that threadpoolctl (3.7 and later) does not let have their way: here there is one count for all."""
    let_go = getattr(library, "clear_controlling_thread", lambda force: None)
    let_go(force=True)
    library.set_num_threads(threads)
    let_go(force=True)


def _restore() -> None:
    """Give the libraries back their threads where nobody holds the limit."""
    for place, owner in list(_before):
        if not (_holders if owner is None else owner in _holders.values()):
            _set_threads(_libraries()[place], _before.pop((place, owner)))


def on_one_blas_thread(function: C) -> C:
    """The function, run under :class:`single_thread_blas`; of a class, its own public methods and properties.

    Methods of a class whose names end in ``_one`` take an example at a time and see to themselves; properties whose names begin
    with ``n_`` are counts.
    """
    if isinstance(function, type):
        for name, member in list(vars(function).items()):
            if name.startswith(("_", "n_")) or name.endswith("_one"):
                continue
            if isinstance(member, property) and member.fget is not None:
                setattr(function, name, property(on_one_blas_thread(member.fget), member.fset, doc=member.__doc__))
            elif isinstance(member, FunctionType):
                setattr(function, name, on_one_blas_thread(member))
        return function

    @wraps(function)
    def inside(*arguments: Any, **named: Any) -> Any:
        with single_thread_blas():
            return function(*arguments, **named)

    return cast(C, inside)


def n_threads() -> int:
    """Threads that share a loop now: those that BLAS may use (``OMP_NUM_THREADS``, threadpoolctl), at most one a processor."""
    with _lock:
        allowed = list(_before.values()) or [library.num_threads for library in _libraries()]
    return max(1, min([*allowed, _processors()]))


def _processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _team() -> ThreadPoolExecutor:
    """The helpers of all threads."""
    return ThreadPoolExecutor(max(1, _processors() - 1), thread_name_prefix="bregmat")


def in_parts(run: Callable[[int, int], Any], size: int, work: float, unit: int = 1) -> None:
    """``run(start, stop)`` over ``range(size)``, in parts that this thread and idle others take in turn.

    Parameters
    ----------
    run : callable
        Calls a compiled loop that lets go of the interpreter and writes what no other part writes. What it writes must not depend on
        the cuts: then a result does not depend on threads.
    size : int
        Length of the whole.
    work : float
        Operations of the whole, about a nanosecond each; a short loop runs here in one part.
    unit : int
        Cuts are at its multiples.
    """
    units = -(-size // unit)
    parts = min(units, int(work / GRAIN), MOST)
    helpers = min(n_threads(), parts) - 1 if parts >= 4 else 0
    if helpers < 1:
        run(0, size)
        return
    cuts = [unit * (units * part // parts) for part in range(parts)]
    left = deque(zip(cuts, [*cuts[1:], size]))

    def take() -> None:
        while left:
            try:
                part = left.popleft()
            except IndexError:  # another thread was quicker
                return
            run(*part)

    asked: list[Future] = []
    try:
        for _ in range(helpers):
            asked.append(_team().submit(take))
    except RuntimeError:  # no more threads: the process ends, or has too many
        pass
    try:
        take()
    finally:
        left.clear()  # after an interrupt: helpers end with the part they are at
        for future in asked:
            # who has not begun is not waited for: threads that wait for each other's helpers never lock
            if not future.cancel():
                future.result()


def _in_forked_child() -> None:
    """Only the thread that forked is here: the others' limits are gone with them, and so are the helpers."""
    global _lock
    _lock = threading.RLock()
    _team.cache_clear()
    for holder in [holder for holder, thread in _holders.items() if thread != threading.get_ident()]:
        del _holders[holder]
    _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
