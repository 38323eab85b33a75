"""The command `bregmat stream`: learn from a file of pairs in one pass, and report the total loss and its bound."""

import math
from pathlib import Path
from typing import Any

from bregmat.base.html import number, seconds
from bregmat.io import PairFile, save
from bregmat.online import MatrixExponentiatedGradient
from bregmat.online.blocks import StreamError
from bregmat.online.stream import StreamExit, StreamRun, run_stream
from bregmat_app.cli import show
from bregmat_app.cli.show import ExitCode, Progress, bad_input, fail, note


def learn_stream(pairs: Path, parameters: dict[str, Any], *, squared: bool, out: Path | None, quiet: bool) -> int:
    """Learn with the parameters of :class:`bregmat.MatrixExponentiatedGradient`, write the model, print the table; the exit code."""
    with (
        bad_input(),
        show.collected_warnings() as texts,
        Progress(f"learning from {pairs.name}", quiet, state=_state, kept="what was learned") as progress,
    ):
        learner, stream = MatrixExponentiatedGradient(**parameters), PairFile(pairs, squared=squared)
        try:
            run = run_stream(learner, stream, callback=progress)
        except StreamError as error:
            raise fail(str(error)) from error
    if out is not None:
        with bad_input():
            save(out, run.learner, info={"source": pairs.name, "examples": run.position})
    void = run.history[-1].void
    for text in texts:
        if void is None or not text.startswith(void):  # the table contains the reason why there is no bound
            show.warn(text)
    elapsed = run.history[-1].seconds
    rate = f", {run.position / elapsed:,.0f} pairs a second" if elapsed > 0 else ""
    rows = [
        ("total loss", f"{run.loss:.10g}"),
        *bound_rows(run.learner, run.bound),
        ("loss of the last tenth", _last_tenth(run)),
        ("learning rate", run.learner.eta_),
        ("time", seconds(elapsed) + rate),
    ]
    show.stdout().print(
        show.name_value_table(rows, f"{pairs.name}: {run.position:,} pairs of {run.learner.dim_} points")
    )
    if out is not None:
        show.wrote("model", out)
    if run.exit_reason is not StreamExit.INTERRUPTED:
        return ExitCode.SOLVED
    kept = "give --out FILE to keep what was learned" if out is None else f"what was learned is in {out}"
    note(f"interrupted after {run.position:,} examples of {pairs.name}; {kept}", style="yellow")
    return ExitCode.INTERRUPTED


def _state(record: Any) -> str:
    """A record as text for the line of progress."""
    return f"{record.position:,} pairs, loss {number(record.loss)}, bound {number(record.bound)}"


def bound_rows(learner: Any, bound: float) -> list[tuple[str, Any]]:
    """The rows of a table on the bound on the total loss, or on the reason why there is none."""
    loss, void = learner.cumulative_loss_, learner.void_
    if math.isfinite(bound):
        trace, budget = learner.settings.trace, learner.settings.loss_budget
        fits = f"of loss at most {number(budget)}" if budget else "that fits exactly"
        about = f"{number(bound)} (Lemma 3.2; comparison: any matrix of trace {number(trace)} {fits})"
        return [("bound", about), *([("bound / loss", bound / loss)] if loss > 0 else [])]
    why = "this learning rate bounds nothing here; give --loss-budget, or a smaller --eta"
    return [("bound", f"none: {why if void is None else void}")]


def _last_tenth(run: StreamRun) -> str:
    """Mean loss over about the last tenth of the examples, which shows how good the learner is at the end."""
    earlier = [r for r in run.history if r.position <= 0.9 * run.position]
    if not earlier or earlier[-1].position == run.position:
        return number(None)
    return f"{number((run.loss - earlier[-1].loss) / (run.position - earlier[-1].position))} per pair"
