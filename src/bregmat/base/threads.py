"""Threads: BLAS on one thread, long compiled loops in parts that several threads share, cached properties without locks.

BLAS runs on one thread because the order of its sums depends on the number of threads. The threads for loops are Python's; kernels start
no OpenMP threads, since a process forked after that can hang at its next loop.
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

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


class cached_property(functools.cached_property[T]):
    """A property that is computed once, without a lock, like that of Python 3.12.

    That of Python 3.11 holds one lock for all objects of a class: threads wait for each other, and a process that is forked meanwhile
    waits for ever. Here, two threads may compute the same value twice.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


@cache
def _libraries() -> list[Any]:
    """The controllers of the BLAS libraries of this process, from threadpoolctl."""
    import scipy.linalg  # noqa: F401 - loads the BLAS of SciPy, so that it is found
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController().select(user_api="blas").lib_controllers


_lock = threading.RLock()  # reentrant: the garbage collector may release a holder while another one enters
_holders: dict[int, int] = {}  # thread of each holder, by its id
# (library, thread that limited it or None) -> number of threads before the limit
_before: dict[tuple[int, int | None], int] = {}


class single_thread_blas:
    """Context with one BLAS thread: results have the same bits on any number of threads, and small products do not wait.

    The limit holds for the whole process: the first thread that enters sets it, the last one that leaves restores the number before.
    A holder that an interrupt kept from leaving restores it when it is collected. A forked child keeps the limits of its own thread.

    Parameters
    ----------
    order : int, optional
        Order of the matrices inside. Up to 64, nothing is done, since BLAS uses one thread anyway.
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
                # with OpenMP, every thread has its own limit
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
    """Set the number of threads, also from threads that threadpoolctl (3.7 and later) would refuse."""
    let_go = getattr(library, "clear_controlling_thread", lambda force: None)
    let_go(force=True)
    library.set_num_threads(threads)
    let_go(force=True)


def _restore() -> None:
    """Restore the number of threads of the libraries that no holder limits."""
    for place, owner in list(_before):
        if not (_holders if owner is None else owner in _holders.values()):
            _set_threads(_libraries()[place], _before.pop((place, owner)))


def on_one_blas_thread(function: C) -> C:
    """Decorator: run a function under :class:`single_thread_blas`; for a class, its public methods and properties.

    Methods whose names end in ``_one`` (one example at a time) and properties whose names begin with ``n_`` (counts) are left out.
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
    """Number of threads for a loop: as many as BLAS may use (``OMP_NUM_THREADS``, threadpoolctl), at most one per processor."""
    with _lock:
        allowed = list(_before.values()) or [library.num_threads for library in _libraries()]
    return max(1, min([*allowed, _processors()]))


def _processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _team() -> ThreadPoolExecutor:
    """The pool of helper threads."""
    return ThreadPoolExecutor(max(1, _processors() - 1), thread_name_prefix="bregmat")


def in_parts(run: Callable[[int, int], Any], size: int, work: float, unit: int = 1) -> None:
    """Call ``run(start, stop)`` over ``range(size)``, in parts that this thread and idle helpers take in turn.

    Parameters
    ----------
    run : callable
        Calls a compiled loop that releases the interpreter lock and writes entries that no other part writes. The entries must not
        depend on where the parts are cut; then results do not depend on the number of threads.
    size : int
        Length of the range.
    work : float
        Operations of the whole loop, about a nanosecond each. A short loop runs in one part in this thread.
    unit : int
        Parts are cut at multiples of this.
    """
    grain, most = 1e6, 256  # operations in a part, about a millisecond; number of parts
    units = -(-size // unit)
    parts = min(units, int(work / grain), most)
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
            except IndexError:  # another thread took the last part
                return
            run(*part)

    asked: list[Future] = []
    try:
        for _ in range(helpers):
            asked.append(_team().submit(take))
    except RuntimeError:  # no thread can start: the interpreter is shutting down, or there are too many threads
        pass
    try:
        take()
    finally:
        left.clear()  # after an interrupt, helpers finish their current part only
        for future in asked:
            # helpers that have not started are cancelled: waiting for them could deadlock
            if not future.cancel():
                future.result()


def _in_forked_child() -> None:
    """In a forked child only the forking thread exists: drop the limits of other threads, and the helpers."""
    global _lock
    _lock = threading.RLock()
    _team.cache_clear()
    for holder in [holder for holder, thread in _holders.items() if thread != threading.get_ident()]:
        del _holders[holder]
    _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
