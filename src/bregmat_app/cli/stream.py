"""The work of `bregmat stream`: pairs from a file, one after the other, and the loss beside its bound."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.html import number, seconds
from bregmat.io import Checkpoint, PairFile, atomic_write, save, tables
from bregmat.online import MatrixExponentiatedGradient
from bregmat.online.blocks import StreamError
from bregmat.online.stream import StreamExit, StreamRun, bound_against, run_stream
from bregmat.plots._style import require_matplotlib
from bregmat_app.cli import show
from bregmat_app.cli.messages import for_command
from bregmat_app.cli.show import ExitCode, Progress, bad_input, collected_warnings, fail, note, warn

__all__ = ["StreamSettings", "bound_rows", "learn_stream"]


@dataclass(frozen=True)
class StreamSettings:
    """What was asked for on the command line: `parameters` are the learner's, `running` those of `run_stream`."""

    parameters: dict[str, Any]
    running: dict[str, Any] = field(default_factory=dict)
    squared: bool = False
    target: Path | None = None
    out: Path | None = None
    checkpoint: Path | None = None
    plot: Path | None = None
    quiet: bool = False


def learn_stream(pairs: Path, settings: StreamSettings) -> int:
    """Learn, write the model and the picture, print the table; the exit code."""
    target, out, checkpoint, plot = settings.target, settings.out, settings.checkpoint, settings.plot
    with bad_input():
        learner = MatrixExponentiatedGradient(**settings.parameters)
        stream = PairFile(pairs, squared=settings.squared)
        U = None if target is None else _read_target(target, learner)
        store = None if checkpoint is None else Checkpoint(checkpoint)
        write_picture = None if plot is None else _picture_writer(plot)
        with (
            collected_warnings() as texts,
            Progress(f"learning from {pairs.name}", quiet=settings.quiet, state=_state, kept="what was learned") as say,
        ):
            try:
                bound = None if U is None else bound_against(U)
                run = run_stream(learner, stream, checkpoint=store, callback=say, bound=bound, **settings.running)
            except StreamError as error:
                kept = f"; what was learned before is in {checkpoint}, mend the file and call again"
                raise fail(f"{error}{kept if checkpoint else ''}") from error
            except (ValueError, TypeError) as error:
                raise fail(for_command(str(error))) from error
    if out is not None:
        with bad_input():
            save(out, run.learner, info={"source": pairs.name, "examples": run.position})
    void = run.history[-1].void
    for text in texts:
        if void is not None and text.startswith(void):  # the table says it
            continue
        warn(text)
    code = _say_end(run, pairs, settings)
    title = f"{pairs.name}: {run.position:,} pairs of {run.learner.dim_} points"
    show.stdout().print(show.name_value_table(_rows(run, "" if U is None else "target"), title))
    if out is not None:
        show.wrote("model", out)
    if write_picture is not None:
        with bad_input():
            write_picture(run)
        show.wrote("plot", plot)
    return code


def _say_end(run: StreamRun, pairs: Path, settings: StreamSettings) -> int:
    """Say where a run began and why it ended, where that is not from the first row to the last; the exit code."""
    if run.resumed_at:
        note(f"resumed after {run.resumed_at:,} examples, from {settings.checkpoint}")
    if run.exit_reason is not StreamExit.INTERRUPTED:
        return ExitCode.SOLVED
    places = " and ".join(str(path) for path in (settings.checkpoint, settings.out) if path is not None)
    kept = f"what was learned is in {places}" if places else "give --checkpoint FILE to go on from there next time"
    note(f"interrupted after {run.position:,} examples of {pairs.name}; {kept}", style="yellow")
    return ExitCode.INTERRUPTED


def _state(record: Any) -> str:
    """What a record says on the line of progress."""
    return f"{record.position:,} pairs, loss {number(record.loss)}, bound {number(record.bound)}"


def _rows(run: StreamRun, comparison: str) -> list[tuple[str, Any]]:
    """What the table says."""
    learner, elapsed = run.learner, run.history[-1].seconds
    rows: list[tuple[str, Any]] = []
    if run.resumed_at:
        new = run.position - run.resumed_at
        rows.append(("resumed after", f"{run.resumed_at:,} pairs; {f'{new:,} new' if new else 'nothing new to learn'}"))
    per = f", {run.position / elapsed:,.0f} pairs a second" if elapsed > 0 and run.position > run.resumed_at else ""
    return [
        *rows,
        ("total loss", f"{run.loss:.10g}"),
        *bound_rows(learner, run.bound, comparison),
        ("loss of the last tenth", _last_tenth(run)),
        ("learning rate", learner.eta_),
        ("time", seconds(elapsed) + (" in all" if run.resumed_at else "") + per),
    ]


def bound_rows(learner: Any, bound: float, comparison: str = "") -> list[tuple[str, Any]]:
    """What a table says of the bound on the total loss, or why there is none; `comparison` is the matrix it starts from."""
    loss, void = learner.cumulative_loss_, learner.void_
    if math.isfinite(bound):
        trace, budget = learner.settings.trace, learner.settings.loss_budget
        fits = f"of loss at most {number(budget)}" if budget else "that fits exactly"
        words = comparison or f"any matrix of trace {number(trace)} {fits}"
        ratio = [("bound / loss", bound / loss)] if loss > 0 else []
        return [("bound", f"{number(bound)} (Lemma 3.2; comparison: {words})"), *ratio]
    if void is not None:
        return [("bound", f"none: {for_command(void)}")]
    return [("bound", "none: this learning rate bounds nothing here; give --loss-budget, or a smaller --eta")]


def _last_tenth(run: StreamRun) -> str:
    """Mean loss over about the last tenth of the examples: where the learner is now."""
    earlier = [r for r in run.history if r.position <= 0.9 * run.position]
    if not earlier or earlier[-1].position == run.position:
        return number(None)
    return f"{number((run.loss - earlier[-1].loss) / (run.position - earlier[-1].position))} per pair"


def _read_target(path: Path, learner: Any) -> np.ndarray:
    """The matrix to compare with, from .npy; its bound is asked for once, which checks it."""
    U = tables.read_npy(path)
    try:
        learner.loss_of(U)
    except (ValueError, TypeError) as error:
        raise type(error)(f"--target {path}: {error}") from error
    return U


def _picture_writer(path: Path) -> Callable[[StreamRun], None]:
    """What draws at the end; whether it can is found out before the work."""
    require_matplotlib("--plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    known = FigureCanvasAgg(figure).get_supported_filetypes()
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in known:
        raise ValueError(
            f"--plot {path}: cannot draw {suffix or 'a file without ending'}; use one of {', '.join(known)}"
        )

    def write(run: StreamRun) -> None:
        from bregmat.plots import OnlineLossDisplay

        OnlineLossDisplay.from_run(run, ax=figure.subplots())
        with atomic_write(path) as handle:
            figure.savefig(handle, format=suffix, dpi=150)

    return write
