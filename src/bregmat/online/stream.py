"""Learn from a stream: records on the way, checkpoints, Ctrl-C, and resuming to the same bits."""

from __future__ import annotations

import copy
import inspect
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bregmat.base.checks import check_integer, check_positive, check_share
from bregmat.base.interrupts import held_interrupts, take_interrupt, tells_interrupts
from bregmat.online.blocks import Checksum, ExampleBlock, Form, StreamError, as_block
from bregmat.online.stream_run import CheckpointFile, StreamExit, StreamRecord, StreamRun

MOST_RECORDS = 1024  # above it every second record is dropped, so that memory stays flat


@dataclass(frozen=True)
class FixedShare:
    """For targets that move: every so many examples, replace W by ``(1 - share) W + share W_1``.

    No eigenvalue can then die out beyond return (fixed share, after Herbster and Warmuth 1998). The loss bound is given up:
    :meth:`loss_bound` is inf from the first share on. Needs a learner with ``mix_with_prior``.

    Parameters
    ----------
    share : float
        In (0, 1); dimensionless.
    every : int
        Examples between two shares, counted along the stream. A share costs an eigendecomposition.

    Examples
    --------
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.online import FixedShare, run_stream
    >>> stream = [((0, 1), 0.5)] * 50 + [((0, 1), 1.5)] * 50  # the distance changes
    >>> learner = MatrixExponentiatedGradient(3, trace=2.0, eta=0.5)
    >>> run = run_stream(learner, stream, drift=FixedShare(0.01, every=10))
    >>> abs(learner.predict_one((0, 1)) - 1.5) < 0.1
    True
    """

    share: float
    every: int = 1000

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_integer("every", self.every, 1, optional=False)


@dataclass(frozen=True, eq=False)
class _Against:
    """The bound in terms of a known matrix."""

    U: Any

    def __call__(self, learner: Any) -> float:
        return float(learner.loss_bound(self.U))

    def check(self, learner: Any) -> None:
        """Raise before anything is learned, where the bound could not be told afterwards."""
        if not (hasattr(learner, "loss_of") and hasattr(learner, "loss_bound")):
            raise TypeError(
                f"bound_against needs a learner with loss_of(U) and loss_bound(U, loss); {type(learner).__name__} has its own "
                "comparison: leave `bound` out."
            )
        learner.loss_of(self.U)


def bound_against(U: Any) -> Callable[[Any], float]:
    """A `bound` for :func:`run_stream`: in terms of a known matrix U and what it would have lost on the stream so far.

    ``learner.loss_bound(U)``. The learner has to know the stream (``keep_examples=True``, except for pairs with the squared
    loss): checked at the start.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.online import bound_against, run_stream
    >>> kernel = np.array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0]])  # three points on a line
    >>> stream = [((0, 1), 0.5), ((1, 2), 0.5), ((0, 2), 2.0)] * 10
    >>> learner = MatrixExponentiatedGradient(3, trace=2.0)
    >>> run = run_stream(learner, stream, bound=bound_against(kernel))
    >>> run.loss <= run.bound
    True
    """
    return _Against(U)


@tells_interrupts
def run_stream(
    learner: Any,
    stream: Iterable[Any],
    *,
    every: int = 1000,
    checkpoint: CheckpointFile | None = None,
    checkpoint_seconds: float = 10.0,
    resume: bool = True,
    callback: Callable[[StreamRecord], Any] | None = None,
    bound: Callable[[Any], float] | None = None,
    drift: FixedShare | None = None,
) -> StreamRun:
    """Show a learner every example of a stream, once and in order.

    For streams larger than memory, and for runs that may be stopped. With all examples in one array,
    ``learner.partial_fit(X, y)`` does the same without records.

    Parameters
    ----------
    learner : object
        With ``learn_one``, ``partial_fit``, ``cumulative_loss_`` and ``get_params``; an error must leave it as it was. It is
        trained in place, after a resume too.
    stream : iterable
        Of examples (instance, label), or of chunks (instances, labels) of any length, or of both. Where the learner takes a
        ``sense``, it may be the third: ((x, x'), y, sense), or for chunks one or one per example. Where it takes no
        labels: of rows, as ``iter(X)`` gives, or of chunks of rows; or of (row, None). Also a
        :class:`bregmat.io.PairFile`. Chunks are cut, never joined: every example is learned when it arrives.
    every : int
        Examples between two records.
    checkpoint : bregmat.io.Checkpoint, optional
        Where the learner and its position go: from time to time between two blocks, and whenever the run ends, be it by an
        error or by Ctrl-C.
    checkpoint_seconds : float
        Seconds of work between two checkpoints, at least; 0 for one after every block, inf for none before the end.
    resume : bool
        Continue from the checkpoint, if there is one; what `learner` has learned is replaced. The stream must be the same
        from its beginning: what was learned is read again and compared by a checksum, but not learned. False starts anew,
        from the learner as it is, and replaces the checkpoint.
    callback : callable, optional
        Called with every record; a true return value ends the run.
    bound : callable, optional
        Of the learner, for the records. By default ``learner.loss_bound()``, which needs no comparison matrix; or
        :func:`bound_against` a known one. Records from before a resume keep the bound they were made with.
    drift : FixedShare, optional
        Follow a target that moves.

    Returns
    -------
    StreamRun

    Raises
    ------
    StreamError
        The learner refused an example: a bad index or label, a step that cannot be computed. The message names the example; the
        learner, the checkpoint with it, is at the start of its block of at most `every` examples. Mend the stream and
        call again.
    ValueError, TypeError
        A checkpoint of another stream, of a learner with other settings, or with another `every` or `drift`; bad arguments.

    Notes
    -----
    A run that was stopped (by Ctrl-C, an error, or the power) and resumed gives the same bits as one that was not, if the
    stream is the same: checkpoints are written only where a block ends anyway. Ctrl-C waits for the end of the block;
    a second one does not. Memory: that of the learner, one chunk, and about a thousand records.

    Examples
    --------
    >>> from bregmat import MatrixExponentiatedGradient
    >>> from bregmat.online import run_stream
    >>> stream = [((0, 1), 0.5), ((1, 2), 0.5), ((0, 2), 1.0)] * 10  # pairs and half their squared distances
    >>> run = run_stream(MatrixExponentiatedGradient(3, trace=2.0), stream)
    >>> run.loss <= run.bound
    True
    """
    if not callable(getattr(learner, "learn_one", None)):
        raise TypeError(f"learner must have learn_one; got {learner!r}.")
    if not isinstance(stream, Iterable):
        raise TypeError(f"stream must be an iterable of examples or chunks; got {stream!r}.")
    check_integer("every", every, 1, optional=False)
    check_positive("checkpoint_seconds", checkpoint_seconds, zero=True)
    if checkpoint is not None and not (hasattr(checkpoint, "load") and hasattr(checkpoint, "write")):
        raise TypeError(f"checkpoint must be a bregmat.io.Checkpoint(path); got {checkpoint!r}.")
    for name, value in (("callback", callback), ("bound", bound)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function or None; got {value!r}.")
    if drift is not None and not isinstance(drift, FixedShare):
        raise TypeError(f"drift must be a FixedShare(share) or None; got {drift!r}.")
    if drift is not None and not hasattr(learner, "mix_with_prior"):
        raise TypeError(f"drift needs a learner with mix_with_prior; got {type(learner).__name__}.")
    if isinstance(bound, _Against):
        bound.check(learner)
    run = _LiveRun(learner, stream, every, checkpoint, checkpoint_seconds, bound or _own_bound, drift)
    if resume and checkpoint is not None and (found := checkpoint.load()) is not None:
        run.resume(*found)
    resumed_at, reason = run.position, StreamExit.END
    try:
        for block in run.blocks():
            record = run.learn(block)
            if callback is not None and record is not None and callback(record):
                reason = StreamExit.INTERRUPTED
                break
            run.write_if_due()
    except KeyboardInterrupt:
        take_interrupt()
        reason = StreamExit.INTERRUPTED
    finally:
        run.write()
    return StreamRun(run.learner, run.position, run.history(), reason, resumed_at)


@dataclass(eq=False)
class _LiveRun:
    """A run on its way; `position` and the learner belong together whenever `is_whole`."""

    learner: Any
    stream: Iterable[Any]
    every: int
    checkpoint: CheckpointFile | None
    checkpoint_seconds: float
    bound: Callable[[Any], float]
    drift: FixedShare | None
    position: int = 0
    before: float = 0.0  # seconds of the runs before this one
    stride: int = 0
    records: list[StreamRecord] = field(default_factory=list)
    is_whole: bool = True
    checksum: Checksum = field(default_factory=Checksum)
    expected: list[int] | None = None  # checksum of what a checkpoint has learned, until it is found in the stream
    given: dict[str, Any] = field(default_factory=dict)  # the learner's attributes before it took the checkpoint's

    def __post_init__(self) -> None:
        getattr(self.learner, "settings", None)  # parameters are checked before the first example is read
        self.form = Form.of(self.learner)
        self.stride = self.every
        self.began = self.written_at = time.monotonic()
        self.written = -1

    # ------------------------------------------------------------------ the stream
    def blocks(self) -> Iterator[ExampleBlock]:
        """What is left of the stream, cut where records and shares are due."""
        steps = [self.every] if self.drift is None else [self.every, self.drift.every]
        at = 0
        for item in self.stream:
            chunk = as_block(item, at, self.form)
            first = min(chunk.size, max(0, self.position - at))
            if first:
                self._recognise(chunk.cut(0, first))
            while first < chunk.size:
                here = at + first
                stop = min(chunk.size, first + min(step - here % step for step in steps))
                yield chunk.cut(first, stop)
                first = stop
            at += chunk.size
        if at < self.position:
            self._give_back()
            raise StreamError(f"the stream ends at {at} examples, but the checkpoint is at {self.position}.", at)

    def _recognise(self, block: ExampleBlock) -> None:
        """Examples that the checkpoint has learned, or should have."""
        self.checksum.add(block)
        if block.start + block.size < self.position:
            return
        self.began = time.monotonic()
        if self.checksum.values != self.expected:
            self._give_back()
            raise ValueError(
                f"this is another stream: it differs from the checkpoint's within the first {self.position} examples; "
                "use the same, or resume=False to start anew."
            )

    def _give_back(self) -> None:
        """The learner as it was given."""
        vars(self.learner).clear()
        vars(self.learner).update(self.given)

    def learn(self, block: ExampleBlock) -> StreamRecord | None:
        """Learn a block, and share; the position moves with it. The record, where one is due."""
        with held_interrupts():
            self.is_whole = False
            try:
                block.teach(self.learner)
            except (ValueError, TypeError, ArithmeticError) as error:
                self.is_whole = True  # the learner took its part of the block back
                raise self._named(block, error) from error
            stop = block.start + block.size
            if self.drift is not None and stop % self.drift.every == 0:
                self.learner.mix_with_prior(self.drift.share)
            if self.checkpoint is not None:
                self.checksum.add(block)
            self.position, self.is_whole = stop, True
            return self._record_if_due()

    def _named(self, block: ExampleBlock, error: Exception) -> StreamError:
        """The error with the place of the first example that causes it, found by a copy that learns one by one."""
        trial = copy.deepcopy(self.learner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for t in range(block.size):
                try:
                    block.cut(t, t + 1).teach(trial)
                except (ValueError, TypeError, ArithmeticError) as first:
                    text = re.sub(r" in (row|example) 0(?=[.;,])|(?<=\bX)\[0\]", "", str(first))
                    text = getattr(self.stream, "in_its_words", str)(text)
                    return StreamError(f"{self._place(block.start + t)}: {text}", block.start + t)
        places = f"{self._place(block.start)} to {self._place(block.start + block.size - 1)}"
        return StreamError(f"{places}: {error}", block.start)

    def _place(self, row: int) -> str:
        place = getattr(self.stream, "place", None)
        return f"example {row} of the stream" if place is None else place(row)

    # ------------------------------------------------------------------ records
    def _record(self) -> StreamRecord:
        """Where the run stands."""
        loss = float(getattr(self.learner, "cumulative_loss_", 0.0))  # of one that has seen nothing, perhaps not there
        bound = float(self.bound(self.learner)) if self.position else float("nan")
        void = getattr(self.learner, "void_", None) if bound == float("inf") else None
        return StreamRecord(self.position, self._elapsed(), loss, bound, void)

    def _elapsed(self) -> float:
        return self.before + time.monotonic() - self.began

    def _record_if_due(self) -> StreamRecord | None:
        """The record of a multiple of `every`."""
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
        """Those kept, and the present one, made anew: `bound` may be another one than before a resume."""
        return (*(r for r in self.records if r.position < self.position), self._record())

    # ------------------------------------------------------------------ checkpoints
    def write_if_due(self) -> None:
        """A checkpoint, if the last one is old enough."""
        if self.checkpoint is not None and time.monotonic() - self.written_at >= self.checkpoint_seconds:
            self.write()

    def write(self) -> None:
        """A checkpoint of the present state, unless it is there already."""
        if self.checkpoint is None or not self.is_whole or self.written == self.position:
            return
        state = {
            "position": self.position,
            "seconds": self._elapsed(),
            "source": getattr(self.stream, "name", None),
            "stride": self.stride,
            "records": [list(asdict(r).values()) for r in self.records],
            "checksum": self.checksum.values,
            **self._terms(),
        }
        with held_interrupts():
            self.checkpoint.write(self.learner, state)
            self.written, self.written_at = self.position, time.monotonic()

    def resume(self, learner: Any, state: dict[str, Any]) -> None:
        """Go on from a checkpoint of the same stream and the same settings."""
        theirs = {**_settings(learner), **{name: state[name] for name in self._terms()}}
        mine = {**_settings(self.learner), **self._terms()}
        for name in dict.fromkeys([*mine, *theirs]):
            pair: tuple[Any, Any] = theirs.get(name), mine.get(name)
            if name == "dim" and None in pair:  # it comes with the first example
                continue
            if not np.array_equal(*pair):
                raise ValueError(
                    f"the checkpoint was written with {name}={_short(pair[0])}, this run has {_short(pair[1])}; "
                    "use the same, or resume=False to start anew."
                )
        self.given = dict(vars(self.learner))
        params = self.learner.get_params(deep=False)
        kept = {name: value for name, value in self.given.items() if name in params}  # as they were given
        vars(self.learner).clear()
        vars(self.learner).update(vars(learner) | kept)
        self.position, self.before, self.expected = int(state["position"]), float(state["seconds"]), state["checksum"]
        self.stride, self.records = int(state["stride"]), [StreamRecord(*values) for values in state["records"]]
        self.written = self.position

    def _terms(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        return {
            "every": self.every,
            "drift": None if self.drift is None else asdict(self.drift),
        }


def _own_bound(learner: Any) -> float:
    """The learner's bound that needs no comparison matrix; NaN where it has none."""
    method = getattr(learner, "loss_bound", None)
    if method is None or any(p.default is p.empty for p in inspect.signature(method).parameters.values()):
        return float("nan")
    return float(method())


def _settings(learner: Any) -> dict[str, Any]:
    """The class of a learner and its parameters; files hold the seed of a generator, not its state, so it is not compared."""
    params = {name: value for name, value in learner.get_params(deep=False).items() if name != "random_state"}
    return {"learner": type(learner).__name__, **params}


def _short(value: Any) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
