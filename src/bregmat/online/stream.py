"""Training on a stream: one pass with records of the loss, Ctrl-C, and errors that name the example."""

from __future__ import annotations

import copy
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from bregmat.base.checks import check_integer
from bregmat.base.threads import held_interrupts, take_interrupt, warns_if_interrupted
from bregmat.online.blocks import ExampleBlock, StreamError, as_block
from bregmat.online.learner import StreamLearner

MOST_RECORDS = 1024  # with more, every second record is dropped, so that memory does not grow with the stream


# ---------------------------------------------------------------------- results
class StreamExit(StrEnum):
    """Why a run ended. A stream has no tolerance and no limit but its end, so this is not a :class:`bregmat.ExitReason`."""

    END = "END"  # of the stream
    INTERRUPTED = "INTERRUPTED"  # by Ctrl-C, or by a callback that returned True


@dataclass(frozen=True)
class StreamRecord:
    """The state of a run: examples so far, seconds of work, total loss and its bound (NaN if the learner has none).

    `void` is the reason why the bound is infinite, if it is known: an assumption that fails, or no matrix that fits.
    """

    position: int
    seconds: float
    loss: float
    bound: float
    void: str | None = None


@dataclass(frozen=True, eq=False)
class StreamRun:
    """The result of a run over a stream."""

    learner: Any  # the learner that was given
    position: int  # number of examples of the stream that were learned
    history: tuple[StreamRecord, ...]  # at most about a thousand, evenly spaced; the last one is the final state
    exit_reason: StreamExit

    @property
    def loss(self) -> float:
        """Total loss so far."""
        return self.history[-1].loss

    @property
    def bound(self) -> float:
        """The bound on the total loss; NaN if the learner has none."""
        return self.history[-1].bound

    @property
    def progress(self) -> str:
        """The number of examples learned, for the warning that the run was interrupted."""
        return f"after {self.position} examples, which the learner has learned"

    @property
    def advice(self) -> str:
        """How to continue after an interrupt."""
        return "Call again with the rest of the stream to go on from there."

    def __repr__(self) -> str:
        void = "" if self.history[-1].void is None else f" ({self.history[-1].void})"
        return (
            f"StreamRun({type(self.learner).__name__}: {self.position} examples, {self.exit_reason}; "
            f"loss {self.loss:.6g}, bound {self.bound:.6g}{void}; {len(self.history)} records)"
        )


# ---------------------------------------------------------------------- the run
@warns_if_interrupted
def run_stream(
    learner: Any,
    stream: Iterable[Any],
    *,
    every: int = 1000,
    callback: Callable[[StreamRecord], Any] | None = None,
    bound: Callable[[Any], float] | None = None,
) -> StreamRun:
    """Let a learner learn every example of a stream, once and in order.

    Use it for streams larger than memory and for records of the loss. ``learner.partial_fit(X, y)`` learns the same from one array,
    without records.

    Parameters
    ----------
    learner : MatrixExponentiatedGradient, OnlineLogDet or OnlinePCA
        It is trained in place.
    stream : iterable
        Of examples (instance, label), of chunks (instances, labels) of any length, or of both. :class:`bregmat.OnlineLogDet` also takes
        ((x, x'), y, sense), for chunks with one sense or one per example. :class:`bregmat.OnlinePCA` takes rows, as ``iter(X)`` gives,
        chunks of rows, or (row, None).
    every : int
        Examples between two records.
    callback : callable, optional
        Called with every record; a true return value ends the run. ``lambda record: bregmat.save(path, learner)`` keeps the learner.
    bound : callable, optional
        From the learner to the bound of the records. By default ``learner.loss_bound()`` if that needs no comparison matrix, otherwise NaN;
        ``lambda learner: learner.loss_bound(U)`` is the bound in terms of a known matrix U.

    Returns
    -------
    StreamRun

    Raises
    ------
    StreamError
        An example is invalid; the message names it. All blocks before its block were learned. A block has at most `every` examples.
    ValueError, TypeError
        Bad arguments.

    Notes
    -----
    Ctrl-C ends the run at the end of the block; a second Ctrl-C does not wait for it. To continue an earlier run, pass its learner, or
    one that :func:`bregmat.load` returns, with the rest of the stream: ``n_seen_`` examples were learned (OnlinePCA:
    ``n_samples_seen_``).

    Examples
    --------
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.online import run_stream
    >>> stream = [((0, 1), 0.5), ((1, 2), 0.5), ((0, 2), 1.0)] * 10  # pairs and half their squared distances
    >>> run = run_stream(MatrixExponentiatedGradient(3, trace=2.0), stream)
    >>> run.loss <= run.bound
    True
    """
    _check_arguments(learner, stream, every, callback, bound)
    run, reason = _LiveRun(learner, stream, every, bound or type(learner)._claimed_bound), StreamExit.END
    try:
        for block in run.blocks():
            record = run.learn(block)
            if callback is not None and record is not None and callback(record):
                reason = StreamExit.INTERRUPTED
                break
    except KeyboardInterrupt:
        take_interrupt()
        reason = StreamExit.INTERRUPTED
    return StreamRun(learner, run.position, run.history(), reason)


def _check_arguments(learner: Any, stream: Any, every: Any, callback: Any, bound: Any) -> None:
    """Raise for a bad argument of :func:`run_stream`."""
    if not isinstance(learner, StreamLearner):
        raise TypeError(
            f"learner must be a MatrixExponentiatedGradient, an OnlineLogDet or an OnlinePCA; got {learner!r}."
        )
    if not isinstance(stream, Iterable):
        raise TypeError(f"stream must be an iterable of examples or chunks; got {stream!r}.")
    check_integer("every", every, 1, optional=False)
    for name, value in (("callback", callback), ("bound", bound)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function or None; got {value!r}.")
    learner._check_early()


@dataclass(eq=False)
class _LiveRun:
    """A run under way: `learner` has learned `position` examples of `stream`."""

    learner: Any
    stream: Iterable[Any]
    every: int
    bound: Callable[[Any], float]
    position: int = 0
    records: list[StreamRecord] = field(default_factory=list)
    stride: int = field(init=False)  # examples between two records that are kept
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.stride = self.every

    def blocks(self) -> Iterator[ExampleBlock]:
        """The examples of the stream, cut where records are due."""
        at = 0
        for item in self.stream:
            chunk = as_block(item, at, self.learner)
            first = 0
            while first < chunk.size:
                here = at + first
                stop = min(chunk.size, first + self.every - here % self.every)
                yield chunk.cut(first, stop)
                first = stop
            at += chunk.size

    def learn(self, block: ExampleBlock) -> StreamRecord | None:
        """Learn a block; the record, if one is due."""
        with held_interrupts():
            try:
                block.teach(self.learner)
            except (ValueError, TypeError, ArithmeticError) as error:
                raise self._named(block, error) from error
            self.position = block.start + block.size
            return self._record_if_due()

    def _named(self, block: ExampleBlock, error: Exception) -> StreamError:
        """The error with the place of the first example that causes it; a copy of the learner finds it by learning one by one."""
        trial = copy.deepcopy(self.learner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for t in range(block.size):
                try:
                    block.cut(t, t + 1).teach(trial)
                except (ValueError, TypeError, ArithmeticError) as first:
                    # the row within a block of one example says nothing
                    text = re.sub(r" in (row|example) 0(?=[.;,])|(?<=\bX)\[0\]", "", str(first))
                    return StreamError(f"example {block.start + t} of the stream: {text}", block.start + t)
        places = f"examples {block.start} to {block.start + block.size - 1} of the stream"
        return StreamError(f"{places}: {error}", block.start)

    # ------------------------------------------------------------------ records
    def _record(self) -> StreamRecord:
        """A record of the present state."""
        loss = float(self.learner.cumulative_loss_) if self.learner.__sklearn_is_fitted__() else 0.0
        bound = float(self.bound(self.learner)) if self.position else np.nan
        void = self.learner._why_no_bound() if bound == np.inf else None
        return StreamRecord(self.position, time.monotonic() - self.began, loss, bound, void)

    def _record_if_due(self) -> StreamRecord | None:
        """The record at a multiple of `every`; it is kept at a multiple of `stride`."""
        if self.position % self.every:
            return None
        record = self._record()
        if self.position % self.stride == 0:
            self.records.append(record)
        if len(self.records) > MOST_RECORDS:
            self.stride *= 2
            self.records = [r for r in self.records if r.position % self.stride == 0]
        return record

    def history(self) -> tuple[StreamRecord, ...]:
        """The records that were kept, and one of the present state."""
        return (*(r for r in self.records if r.position < self.position), self._record())
