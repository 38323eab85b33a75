"""Pieces of a stream that are learned in one go, and Ctrl-C that waits for the end of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np


class StreamError(ValueError):
    """An example that the learner cannot take; the message names its place in the stream, `position` counts from 0."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


@dataclass(frozen=True, eq=False)
class Block:
    """Examples that are learned in one go."""

    start: int
    X: Any
    y: Any
    size: int
    is_one: bool = False

    def cut(self, first: int, stop: int) -> Block:
        if self.is_one or (first == 0 and stop == self.size):
            return self
        y = None if self.y is None else self.y[first:stop]
        return Block(self.start + first, self.X[first:stop], y, stop - first)

    def teach(self, learner: Any) -> None:
        if self.is_one:
            learner.learn_one(self.X, self.y)
        elif self.y is None:
            learner.partial_fit(self.X)
        else:
            learner.partial_fit(self.X, self.y)


def as_block(item: Any, at: int) -> Block:
    """An item of a stream: (instance, label), or (instances, labels) where the second is a sequence."""
    try:
        X, y = item
    except (TypeError, ValueError) as error:
        text = (
            f"example {at} of the stream: expected (instance, label) or (instances, labels); got {type(item).__name__}."
        )
        raise StreamError(text, at) from error
    if y is not None and np.ndim(y) == 0:
        return Block(at, X, y, 1, is_one=True)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if y is not None and n != len(y):
        raise StreamError(f"example {at} of the stream begins a chunk of {n} instances and {len(y)} labels.", at)
    return Block(at, X, y, n)


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the block is done; a second one does not. Other threads never get it."""
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
