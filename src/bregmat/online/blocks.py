"""The items of a stream: single examples and chunks of them, as blocks that a learner learns in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.online.learner import StreamLearner


class StreamError(ValueError):
    """An example that the learner refuses; the message names it, and `position` is its number, counted from 0."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


@dataclass(frozen=True, eq=False)
class ExampleBlock:
    """Consecutive examples of a stream; for a single one, `X` and `y` are its instance and label themselves."""

    start: int
    X: Any
    y: Any
    size: int
    is_one: bool = False
    sense: Any = None

    def cut(self, first: int, stop: int) -> ExampleBlock:
        """The examples from `first` to `stop`, counted within the block."""
        if self.is_one or (first == 0 and stop == self.size):
            return self
        y = None if self.y is None else self.y[first:stop]
        sense = self.sense if self.sense is None or isinstance(self.sense, str) else self.sense[first:stop]
        return ExampleBlock(self.start + first, self.X[first:stop], y, stop - first, sense=sense)

    def teach(self, learner: Any) -> None:
        """Let a learner learn the block."""
        labels = () if self.y is None else (self.y,)
        named = {} if self.sense is None else {"sense": self.sense}
        (learner.learn_one if self.is_one else learner.partial_fit)(self.X, *labels, **named)


def as_block(item: Any, at: int, learner: StreamLearner) -> ExampleBlock:
    """An item of a stream as a block that begins with example `at`: a chunk if its labels are a sequence, else a single example."""
    if not learner._takes_labels:
        X = item[0] if isinstance(item, tuple) and len(item) == 2 and np.ndim(item[0]) else item
        if np.ndim(X) not in (1, 2):
            raise _no_example(item, at, learner)
        is_one = np.ndim(X) == 1
        return ExampleBlock(at, X, None, 1 if is_one else len(X), is_one=is_one)
    try:
        X, y, *more = item
    except (TypeError, ValueError) as error:
        raise _no_example(item, at, learner) from error
    if y is None or len(more) > learner._takes_senses:
        raise _no_example(item, at, learner)
    sense = more[0] if more else None
    if np.ndim(y) == 0:
        return ExampleBlock(at, X, y, 1, is_one=True, sense=sense)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    for name, column in (("labels", y), ("senses", None if isinstance(sense, str) else sense)):
        if column is not None and n != len(column):
            text = f"example {at} of the stream begins a chunk of {n} instances and {len(column)} {name}."
            raise StreamError(text, at)
    return ExampleBlock(at, X, y, n, sense=sense)


def _no_example(item: Any, at: int, learner: StreamLearner) -> StreamError:
    """The error that an item of a stream is none of the forms that the learner takes."""
    forms = "rows, chunks of rows, or (row, None)"
    if learner._takes_labels:
        forms = "(instance, label) or (instances, labels)"
    if learner._takes_senses:
        forms += ", with sense as a third where it is not '=='"
    got = type(item).__name__ + (f" of {len(item)}" if isinstance(item, tuple) else "")
    return StreamError(f"example {at} of the stream: this learner takes {forms}; got {got}.", at)
