"""Ctrl-C that ends a whole block of many runs, where a single solver would take it for itself; and Ctrl-C that waits for a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Stop(BaseException):
    """Ctrl-C, in a form that no solver takes for itself."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C inside ends the whole block with `KeyboardInterrupt`, not only the solver's run of the moment.

    A solver that is interrupted gives its best iterate; a search over many runs would go on with the next.
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
def held_interrupts(patience: int | None = 1) -> Iterator[None]:
    """Ctrl-C waits until the block is done; one more than ``patience`` does not. Other threads never get it."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return
    held: list[Any] = []

    def hold(number: int, frame: Any) -> None:
        if patience is not None and len(held) >= patience:
            previous(number, frame)
        held.append(frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if held and (patience is None or len(held) <= patience):
            previous(signal.SIGINT, held[0])
