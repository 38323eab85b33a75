"""Ctrl-C, in one place: runs that keep what they have, calls that say so, fits that raise; and blocks that it waits for or ends whole.

A loop that is interrupted ends with its best point (:func:`take_interrupt`). The outermost call of this library that is under way
then tells its caller: a function returns its result with a warning (:func:`tells_interrupts`), a fit keeps the result and raises
`KeyboardInterrupt`, so that whatever called it stops, too. A second Ctrl-C keeps nothing.
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
    """The outermost call of this library that is under way: whether an interrupt was taken in it."""

    is_interrupted: bool = False


_call: ContextVar[Call | None] = ContextVar("bregmat_call", default=None)


@contextmanager
def call_under_way() -> Iterator[tuple[Call, bool]]:
    """The call under way, this one if there is none; and whether it is this one."""
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
    """To be called where a `KeyboardInterrupt` is caught because there is something to keep; a second one is raised again."""
    call = _call.get()
    if call is None:
        return
    if call.is_interrupted:
        raise
    call.is_interrupted = True


def is_interrupted() -> bool:
    """Whether an interrupt was taken in the call under way: nothing new is begun then."""
    call = _call.get()
    return call is not None and call.is_interrupted


def tells_interrupts(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a warning where Ctrl-C cut its result short; what it returns knows its ``progress`` and has ``advice``."""

    @wraps(function)
    def telling(*arguments: P.args, **named: P.kwargs) -> R:
        with call_under_way() as (call, is_outermost):
            result: Any = function(*arguments, **named)
        if is_outermost and call.is_interrupted:
            warn_of_interrupt(f"{function.__name__} was interrupted {result.progress}. {result.advice}")
        return result

    return telling


def raise_interrupt(text: str, *, is_told: bool) -> NoReturn:
    """Raise `KeyboardInterrupt`, after a warning where nobody above will tell."""
    if not is_told:
        with suppress(InterruptWarning):  # where warnings are errors, it is still an interrupt
            warn_of_interrupt(text)
    raise KeyboardInterrupt(text)


class InterruptWarning(RuntimeWarning):
    """What was interrupted, and what is kept of it."""


def warn_of_interrupt(text: str) -> None:
    """A warning at the line outside of this library that made the call."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("bregmat", "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, InterruptWarning, stacklevel=level)


# ---------------------------------------------------------------------- blocks
class _Stop(BaseException):
    """Ctrl-C, in a form that no solver takes for itself."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C inside ends the whole block with `KeyboardInterrupt`, not only the solver's run of the moment.

    A function that is interrupted gives its best iterate; a block of many would go on with the next.
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
    """The first Ctrl-C waits until the block is done; a second one does not. Other threads never get it."""
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
