"""Pieces of a stream that are learned in one go, and the checksum by which a stream is known again."""

from __future__ import annotations

import inspect
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick


class StreamError(ValueError):
    """An example that the learner cannot take; the message names its place in the stream, `position` counts from 0."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


@dataclass(frozen=True, eq=False)
class ExampleBlock:
    """Examples that are learned in one go."""

    start: int
    X: Any
    y: Any
    size: int
    is_one: bool = False
    sense: Any = None

    def cut(self, first: int, stop: int) -> ExampleBlock:
        if self.is_one or (first == 0 and stop == self.size):
            return self
        y = None if self.y is None else self.y[first:stop]
        sense = self.sense if self.sense is None or isinstance(self.sense, str) else self.sense[first:stop]
        return ExampleBlock(self.start + first, self.X[first:stop], y, stop - first, sense=sense)

    def teach(self, learner: Any) -> None:
        labels = () if self.y is None else (self.y,)
        words = {} if self.sense is None else {"sense": self.sense}
        (learner.learn_one if self.is_one else learner.partial_fit)(self.X, *labels, **words)


@dataclass(frozen=True)
class Form:
    """What a learner takes beside instances, as the signature of its `learn_one` says."""

    labels: bool
    sense: bool

    @classmethod
    def of(cls, learner: Any) -> Form:
        """Of a learner."""
        names = list(inspect.signature(learner.learn_one).parameters)
        return cls(len(names) > 1, "sense" in names)

    def __str__(self) -> str:
        if not self.labels:
            return "rows, chunks of rows, or (row, None)"
        text = "(instance, label) or (instances, labels)"
        return f"{text}, with sense as a third where it is not '=='" if self.sense else text


def as_block(item: Any, at: int, form: Form) -> ExampleBlock:
    """An item of a stream: an example, or a chunk of them where the labels are a sequence."""
    if not form.labels:
        X = item[0] if isinstance(item, tuple) and len(item) == 2 and np.ndim(item[0]) else item
        if np.ndim(X) == 1:
            return ExampleBlock(at, X, None, 1, is_one=True)
        if np.ndim(X) != 2:
            raise _no_example(item, at, form)
        return ExampleBlock(at, X, None, len(X))
    try:
        X, y, *more = item
    except (TypeError, ValueError) as error:
        raise _no_example(item, at, form) from error
    if y is None or len(more) > form.sense:
        raise _no_example(item, at, form)
    sense = more[0] if more else None
    if np.ndim(y) == 0:
        return ExampleBlock(at, X, y, 1, is_one=True, sense=sense)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    for word, column in (("labels", y), ("senses", None if isinstance(sense, str) else sense)):
        if column is not None and n != len(column):
            text = f"example {at} of the stream begins a chunk of {n} instances and {len(column)} {word}."
            raise StreamError(text, at)
    return ExampleBlock(at, X, y, n, sense=sense)


def _no_example(item: Any, at: int, form: Form) -> StreamError:
    word = type(item).__name__ + (f" of {len(item)}" if isinstance(item, tuple) else "")
    return StreamError(f"example {at} of the stream: this learner takes {form}; got {word}.", at)


class Checksum:
    """CRC-32 of the instances, of the labels and of the senses so far; against mistakes, not against malice.

    It does not depend on how the examples come in chunks.
    """

    def __init__(self) -> None:
        self.values = [0, 0, 0]

    def add(self, block: ExampleBlock) -> None:
        """Take the next examples in."""
        X = [block.X] if block.is_one and scipy.sparse.issparse(block.X) else block.X
        senses = [block.sense] * block.size if isinstance(block.sense, str) else block.sense
        for k, column in enumerate((X, block.y, senses)):
            if column is not None:
                self.values[k] = _crc(column, self.values[k])


def _crc(values: Any, crc: int) -> int:
    if scipy.sparse.issparse(values):
        rows = values.tocsr()
        for part in (np.diff(rows.indptr), rows.indices, rows.data):
            crc = _crc(part, crc)
        return crc
    if isinstance(values, list | tuple) and any(scipy.sparse.issparse(value) for value in values):
        for value in values:
            crc = _crc(value, crc)
        return crc
    array = np.asarray(values)
    if array.dtype.kind in "biufc":
        return zlib.crc32(np.ascontiguousarray(array, dtype=complex if array.dtype.kind == "c" else float).data, crc)
    return zlib.crc32("\n".join([*map(str, array.ravel().tolist()), ""]).encode(), crc)
