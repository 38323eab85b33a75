"""Handling of Ctrl-C.

A loop that is interrupted ends with its best point (:func:`take_interrupt`). Then the outermost running call of this library informs
its caller: a function returns its result with a warning (:func:`tells_interrupts`); a fit keeps the result and raises
`KeyboardInterrupt`, so that its caller stops as well. A second Ctrl-C raises at once.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Call:
    """The outermost running call of this library, and whether it was interrupted."""

    is_interrupted: bool = False


_call: ContextVar[Call | None] = ContextVar("bregmat_call", default=None)


@contextmanager
def call_under_way() -> Iterator[tuple[Call, bool]]:
    """The outermost running call, and whether the block starts it."""
    outer = _call.get()
    if outer is not None:
        yield outer, False
        return
    call = Call()
    token = _call.set(call)
    try:
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


def tells_interrupts(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: warn if Ctrl-C ended the function early. Its result must have ``progress`` and ``advice``."""

    @wraps(function)
    def telling(*arguments: P.args, **named: P.kwargs) -> R:
        with call_under_way() as (call, is_outermost):
            result: Any = function(*arguments, **named)
        if is_outermost and call.is_interrupted:
            warn_of_interrupt(f"{function.__name__} was interrupted {result.progress}. {result.advice}")
        return result

    return telling


def raise_interrupt(text: str, *, is_told: bool) -> NoReturn:
    """Raise `KeyboardInterrupt`, after a warning unless the caller informs the user (``is_told``)."""
    if not is_told:
        with suppress(InterruptWarning):  # if warnings are errors, the interrupt is raised all the same
            warn_of_interrupt(text)
    raise KeyboardInterrupt(text)


class InterruptWarning(RuntimeWarning):
    """Warning: a call was interrupted, and what it returned or kept."""


def warn_of_interrupt(text: str) -> None:
    """Warn, with the line outside of this library that made the call."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("bregmat", "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, InterruptWarning, stacklevel=level)


# ---------------------------------------------------------------------- blocks
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
