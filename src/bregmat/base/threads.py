"""Public calls: BLAS on one thread, Ctrl-C, memory maps, time limits, loops in parts that threads share, cached properties without locks.

BLAS runs on one thread because the order of its sums depends on the number of threads. The threads for loops are Python's; kernels start
no OpenMP threads, since a process forked after that can hang at its next loop.

A loop that is interrupted ends with its best point (:func:`take_interrupt`). Then the outermost running call of this library informs
its caller: a function returns its result with a warning (:func:`returns_result`); a fit keeps the result and raises
`KeyboardInterrupt`, so that its caller stops as well. A second Ctrl-C raises at once.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from functools import cache, wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])
# arguments of a call that steer the search and do not define the problem
STEERING = frozenset(["solver", "tol", "max_iter", "max_seconds", "warm_start", "start", "callback"])
STEERING |= {"executor", "block_size", "random_state"}


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


_lock = threading.RLock()  # reentrant: the garbage collector may close one limit while another one begins
_holders: dict[object, int] = {}  # thread of each limit that has begun
# (library, thread that limited it or None) -> number of threads before the limit
_before: dict[tuple[int, int | None], int] = {}


# ---------------------------------------------------------------------- one BLAS thread
@contextmanager
def single_thread_blas() -> Iterator[None]:
    """Context with one BLAS thread: results have the same bits on any number of threads, and small products do not wait.

    The limit holds for the whole process: the first thread that enters sets it, the last one that leaves restores the number before.
    A limit that an interrupt kept from ending ends when it is collected. A forked child keeps the limits of its own thread.
    """
    holder, thread = object(), threading.get_ident()
    try:
        with _lock:
            _holders[holder] = thread
            for place, library in enumerate(_libraries()):
                # with OpenMP, every thread has its own limit
                key = place, thread if getattr(library, "threading_layer", None) == "openmp" else None
                if key not in _before:
                    _before[key] = library.num_threads
                    _set_threads(library, 1)
        yield
    finally:
        with _lock:
            _holders.pop(holder, None)
            for place, owner in list(_before):
                if not (_holders if owner is None else owner in _holders.values()):  # no holder limits this library
                    _set_threads(_libraries()[place], _before.pop((place, owner)))


def single_thread_for(order: int) -> AbstractContextManager[None]:
    """:func:`single_thread_blas` for matrices of an order above 64; up to there, nothing is done, since BLAS uses one thread anyway."""
    return single_thread_blas() if order > 64 else nullcontext()


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads, also from threads that threadpoolctl (3.7 and later) would refuse."""
    let_go = getattr(library, "clear_controlling_thread", lambda force: None)
    let_go(force=True)
    library.set_num_threads(threads)
    let_go(force=True)


def on_one_blas_thread(function: C) -> C:
    """Decorator: run a function under :func:`single_thread_blas`; for a class, its public methods and properties.

    Methods whose names end in ``_one`` (one example at a time) and properties without products of matrices are left out: those whose names
    begin with ``n_`` (counts), and ``settings``.
    """
    if not isinstance(function, type):
        return single_thread_blas()(function)
    for name, member in list(vars(function).items()):
        if name.startswith(("_", "n_")) or name.endswith("_one") or name == "settings":
            continue
        if isinstance(member, property) and member.fget is not None:
            setattr(function, name, property(on_one_blas_thread(member.fget), member.fset, doc=member.__doc__))
        elif isinstance(member, FunctionType):
            setattr(function, name, on_one_blas_thread(member))
    return function


# ---------------------------------------------------------------------- Ctrl-C
@dataclass
class Call:
    """The outermost running call of this library, and whether it was interrupted."""

    is_interrupted: bool = False


_call: ContextVar[Call | None] = ContextVar("bregmat_call", default=None)


@contextmanager
def call_under_way() -> Iterator[tuple[Call, bool]]:
    """The outermost running call, and whether the block starts it; BLAS has one thread until the outermost call ends."""
    outer = _call.get()
    if outer is not None:
        yield outer, False
        return
    call = Call()
    token = _call.set(call)
    try:
        with single_thread_blas():
            yield call, True
    finally:
        _call.reset(token)


def take_interrupt() -> None:
    """Note an interrupt that was caught to keep a result; raises a second one again."""
    call = _call.get()
    if call is None:
        return
    if call.is_interrupted:
        raise
    call.is_interrupted = True


def is_interrupted() -> bool:
    """Whether the running call was interrupted, so that no new work should start."""
    call = _call.get()
    return call is not None and call.is_interrupted


def returns_result(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a function that poses and solves a problem: one BLAS thread, and a warning if Ctrl-C ended the call early.

    The attribute ``call`` of the result holds the arguments by name, except those in ``STEERING``. If the file of a memory-mapped argument
    changes during the call, ``ValueError`` is raised.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    @wraps(function)
    def public(*arguments: P.args, **named: P.kwargs) -> R:
        values = [*arguments, *named.values()]
        with call_under_way() as (call, is_outermost):
            files = _mapped_files(values)
            result: Any = function(*arguments, **named)
        changed = {*files.items()} ^ {*_mapped_files(values).items()} if files else ()
        if changed:
            name = min(changed)[0]
            raise ValueError(
                f"{name}: the file has changed during the call; what was computed holds for neither version."
            )
        if is_outermost and call.is_interrupted:
            text = f"{function.__name__} was interrupted {result.progress}. {result.advice} Continue with warm_start=result."
            warn_caller(text, InterruptWarning)
        by_name = dict(zip(names, arguments, strict=False)) | named
        result.call = {name: value for name, value in by_name.items() if name not in STEERING}
        return result

    return public


class InterruptWarning(RuntimeWarning):
    """Warning: a call was interrupted, and what it returned or kept."""


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with the line outside of this library that made the call."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("bregmat", "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


class _Stop(BaseException):
    """Ctrl-C as an exception that no solver catches."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Context in which Ctrl-C ends the whole block with `KeyboardInterrupt`, not only the current solver run.

    An interrupted function returns its best iterate, so a loop over many functions would continue with the next one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise _Stop

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except _Stop:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, previous or signal.default_int_handler)


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Context in which the first Ctrl-C waits until the block is done; a second one does not wait. Main thread only."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return
    held: list[Any] = []

    def hold(number: int, frame: Any) -> None:
        if held:
            previous(number, frame)
        held.append(frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if len(held) == 1:
            previous(signal.SIGINT, held[0])


# ---------------------------------------------------------------------- files of memory maps
def _mapped_files(arguments: Sequence[Any]) -> dict[str, tuple[int, int, int]]:
    """Size, time of the last change and inode of each file of which an argument, or a field of one, is a memory map."""
    import numpy as np  # not above: help pages of the command line import this module, and do without NumPy

    files = {}
    for argument in arguments:
        is_object = is_dataclass(argument) and hasattr(argument, "__dict__") and not isinstance(argument, type)
        for value in vars(argument).values() if is_object else (argument,):
            while isinstance(value, np.ndarray) and not isinstance(value, np.memmap):
                value = value.base
            if isinstance(value, np.memmap) and value.filename is not None:
                with suppress(OSError):
                    stat = os.stat(value.filename)
                    files[os.fspath(value.filename)] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return files


# ---------------------------------------------------------------------- time limits
_deadline: ContextVar[float] = ContextVar("bregmat_deadline", default=float("inf"))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context in which iterations inside of a step end after this wall time (:func:`seconds_left`); inf: no limit."""
    token = _deadline.set(time.perf_counter() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left() -> float:
    """Wall time until the limit of the running solver; inf without a limit, and negative after it."""
    return _deadline.get() - time.perf_counter()


# ---------------------------------------------------------------------- loops on several threads
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
    grain, max_parts = 1e6, 256  # operations in a part, about a millisecond; number of parts
    units = -(-size // unit)
    parts = min(units, int(work / grain), max_parts)
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
    if _before:
        with single_thread_blas():  # its end restores the threads of every library that no holder limits
            pass


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
