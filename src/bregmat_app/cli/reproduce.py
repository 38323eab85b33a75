"""The work of `bregmat reproduce`: run experiments of ``bregmat_papers`` and print their tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from bregmat.base.html import seconds
from bregmat.io import check_writable
from bregmat_app.cli import show
from bregmat_app.cli.messages import for_command
from bregmat_app.cli.show import ExitCode, Progress, bad_input, fail, note
from bregmat_papers import DataHome, Experiment, Report, experiment, experiment_names, reproduce
from bregmat_papers.datasets import DataNotFoundError
from bregmat_papers.page import check_page, plain, with_error, write_page
from bregmat_papers.runner import require_packages

__all__ = ["list_experiments", "reproduce_all"]

_WIDE = 120  # columns of a terminal that is wide enough for notes


def list_experiments() -> None:
    """Print names and titles."""
    rows = [(name, f"{experiment(name).title} ({experiment(name).source})") for name in experiment_names()]
    show.stdout().print(show.name_value_table(rows))


def reproduce_all(
    names: Sequence[str] | None, out: Path, *, size: str, download: bool, page: Path | None, quiet: bool
) -> int:
    """Run the experiments or what is left of them, print the tables, write the page; the exit code.

    Parameters
    ----------
    names : sequence of str or None
        Experiments; None: all of them.
    out : path
        Folder of tables, pictures and unfinished runs.
    size : {"default", "small", "full"}
    download, quiet : bool
        Whether missing data may be fetched; whether to show no progress.
    page : path or None
        Where a Markdown page of all of them goes.
    """
    data = DataHome(download=download)
    with bad_input():
        chosen = [experiment(name) for name in dict.fromkeys(names or experiment_names())]
        out.mkdir(parents=True, exist_ok=True)  # the page may go there
        if page is not None:
            check_page(page)
            page = check_writable(page)
        require_packages()
    lacking: list[str] = []
    entries: list[tuple[Experiment, Report]] = []
    for item in chosen:
        with (
            bad_input(),
            Progress(item.name, quiet=quiet, state=_state, kept="what is done") as say,
        ):
            try:
                report = reproduce(item, out, size=size, data=data, progress=say)
            except DataNotFoundError as error:  # the data of other experiments may be there
                note(f"{item.name}: {for_command(str(error))}", style="yellow")
                lacking.append(item.name)
                continue
        if not report.is_complete:
            done = f"{len(report.findings)} of {report.total} pieces of {item.name} are done"
            note(f"interrupted: {done} and kept in {out}; the same command goes on from there", style="yellow")
            return ExitCode.INTERRUPTED
        entries.append((item, report))
        _print(item, report)
    if lacking:
        kept = "" if page is None else f"; {page} is not written, since they would be missing there"
        raise fail(f"not run for lack of data: {', '.join(lacking)}{kept}")
    if page is not None:
        with bad_input():
            write_page(page, entries)
        show.wrote("page", page)
    return ExitCode.SOLVED


def _state(step: Any) -> str:
    """Describe a step of a run."""
    what = "" if step.unit is None else ", ".join(f"{key} {value}" for key, value in step.unit.items())
    return f"{step.done} of {step.total} done" + (f", now {what}" if what else "")


def _print(item: Experiment, report: Report) -> None:
    table = Table(title=escape(f"{item.name}: {item.title}"), title_justify="left", caption_justify="left")
    table.caption = escape(f"{item.source}; size {report.size}, {seconds(report.seconds)}")
    console = show.stdout()
    has_notes = console.width >= _WIDE  # the file has them, too
    table.add_column("")
    for column in ("ours", "paper", "difference"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    if has_notes:
        table.add_column("note")
    for row in report.rows:
        cells = [row.quantity, with_error(row), plain(row.paper), plain(row.difference), row.unit]
        table.add_row(*map(escape, [*cells, row.note] if has_notes else cells))
    console.print(table)
    show.wrote("table", report.csv)
    show.wrote("picture", report.picture)
    console.print()
