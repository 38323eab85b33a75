"""What a run over a stream leaves: records, why it ended, and where checkpoints go."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class StreamExit(StrEnum):
    """Why a run ended: a stream has no tolerance to meet and no limit but its end, so not an :class:`bregmat.ExitReason`."""

    END = "END"  # of the stream
    INTERRUPTED = "INTERRUPTED"  # on request, by Ctrl-C or a callback that returned True, as a solver is


@dataclass(frozen=True)
class StreamRecord:
    """Where a run stood: examples so far, seconds of work, total loss and its bound (NaN where the learner has none).

    `void` says why the bound is infinite, where that is known: an assumption that fails, or no matrix that fits.
    """

    position: int
    seconds: float
    loss: float
    bound: float
    void: str | None = None


class CheckpointFile(Protocol):
    """Where checkpoints go; :class:`bregmat.io.Checkpoint` is one."""

    def load(self) -> tuple[Any, dict[str, Any]] | None:
        """The learner and what :meth:`write` was given beside it; None where there is none yet."""
        ...

    def write(self, learner: Any, state: dict[str, Any]) -> None:
        """Keep both, in one step."""
        ...


@dataclass(frozen=True, eq=False)
class StreamRun:
    """What a run over a stream left.

    Attributes
    ----------
    learner : object
        The one given, at `position`.
    position : int
        Examples of the stream learned so far, those before a resume included.
    history : tuple of StreamRecord
        At most about a thousand, evenly spaced; the last one is the present state.
    exit_reason : StreamExit
    resumed_at : int
        Position at which this run began; 0 for a fresh start.
    """

    learner: Any
    position: int
    history: tuple[StreamRecord, ...]
    exit_reason: StreamExit
    resumed_at: int = 0

    @property
    def loss(self) -> float:
        """Total loss so far."""
        return self.history[-1].loss

    @property
    def bound(self) -> float:
        """Its bound; NaN where the learner has none."""
        return self.history[-1].bound

    @property
    def progress(self) -> str:
        """How far the run came, to go on after "interrupted"."""
        return f"after {self.position} examples, which the learner and any checkpoint hold"

    @property
    def advice(self) -> str:
        """What to do."""
        return "Call again with the checkpoint, or with the rest of the stream, to go on from there."

    def __repr__(self) -> str:
        void = "" if self.history[-1].void is None else f" ({self.history[-1].void})"
        return (
            f"StreamRun({type(self.learner).__name__}: {self.position} examples, {self.exit_reason}; "
            f"loss {self.loss:.6g}, bound {self.bound:.6g}{void}; {len(self.history)} records)"
        )
