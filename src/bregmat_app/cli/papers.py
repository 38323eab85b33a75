"""The work of `bregmat demo` and `bregmat reproduce`, which use the data and the experiments of ``bregmat_papers``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from threadpoolctl import threadpool_limits

from bregmat.base.html import seconds
from bregmat.io import check_writable
from bregmat_app.cli import show
from bregmat_app.cli.learn_input import LearnInput
from bregmat_app.cli.learning import learn_task
from bregmat_app.cli.options import LearnOutput
from bregmat_app.cli.show import ExitCode, Progress, note
from bregmat_papers import DataHome, Experiment, Report, experiment, experiment_names, reproduce
from bregmat_papers.datasets import DataNotFoundError, load_dataset
from bregmat_papers.page import check_page, plain, with_error, write_page
from bregmat_papers.runner import require_packages


def run_demo(names: Sequence[str] | None, folder: Path, *, download: bool, quiet: bool) -> int:
    """Learn on each data set, print the tables, write models and reports to the folder; the last exit code that is not 0.

    The default is wine and the digits 3, 8, 9: UCI's files if BREGMAT_DATA is set, else those of scikit-learn.
    """
    names = names or ["wine", "pendigits389" if os.environ.get("BREGMAT_DATA") else "digits389"]
    try:
        data = [load_dataset(name, download=download) for name in names]
    except DataNotFoundError as error:
        raise ValueError(f"{error}; without data, `bregmat demo wine` runs") from error
    folder.mkdir(parents=True, exist_ok=True)
    files = [(check_writable(folder / f"{name}.bm"), check_writable(folder / f"{name}.html")) for name in names]
    about = "A metric is learned from class labels, with the defaults. The nearest-neighbour test uses held-out folds."
    note(about, style="")
    code = ExitCode.SOLVED
    for item, (out, report) in zip(data, files):
        show.stdout().print()
        (n, d), classes = item.X.shape, item.target_names
        title = f"{item.name}: {n} points, {d} features, {len(classes)} classes ({item.source})"
        task = LearnInput(item.name, item.X, item.feature_names, item.y, title, classes)
        output = LearnOutput(out=out, report=report, quiet=quiet)
        with threadpool_limits(1):  # threads of many small fits would wait for each other
            code = learn_task(task, {"random_state": 0}, output, n_repeats=2) or code
        if code == ExitCode.INTERRUPTED:
            break
    return code


def list_experiments() -> int:
    """Print names and titles; the exit code."""
    rows = [(name, f"{experiment(name).title} ({experiment(name).source})") for name in experiment_names()]
    show.stdout().print(show.name_value_table(rows))
    return ExitCode.SOLVED


def reproduce_all(
    names: Sequence[str] | None, out: Path, *, size: str, download: bool, page: Path | None, quiet: bool
) -> int:
    """Run the experiments (by default all) or what is left of them, print the tables, write the Markdown pages; the exit code.

    The folder `out` holds tables, pictures and unfinished runs.
    """
    data = DataHome(download=download)
    chosen = [experiment(name) for name in dict.fromkeys(names or experiment_names())]
    out.mkdir(parents=True, exist_ok=True)  # the page may go there
    if page is not None:
        check_page(page)
        page = check_writable(page)
    require_packages()
    lacking: list[str] = []
    entries: list[tuple[Experiment, Report]] = []
    for item in chosen:
        with Progress(item.name, quiet, state=_state, kept="what is done") as say:
            try:
                report = reproduce(item, out, size=size, data=data, progress=say)
            except DataNotFoundError as error:  # the data of other experiments may be there
                note(f"{item.name}: {error}", style="yellow")
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
        raise ValueError(f"not run for lack of data: {', '.join(lacking)}{kept}")
    if page is not None:
        write_page(page, entries)
        show.wrote("page", page)
    return ExitCode.SOLVED


def _state(step: Any) -> str:
    """Describe a step of a run."""
    what = "" if step.unit is None else ", ".join(f"{key} {value}" for key, value in step.unit.items())
    return f"{step.done} of {step.total} done" + (f", now {what}" if what else "")


def _print(item: Experiment, report: Report) -> None:
    """Print the table of an experiment; the file has notes, too."""
    rows = [(row.quantity, with_error(row), plain(row.paper), plain(row.difference), row.unit) for row in report.rows]
    table = show.grid(("", "ours", "paper", "difference", "unit"), rows, title_justify="left", caption_justify="left")
    table.title = escape(f"{item.name}: {item.title}")
    table.caption = escape(f"{item.source}; size {report.size}, {seconds(report.seconds)}")
    table.columns[-1].justify = "left"
    console = show.stdout()
    console.print(table)
    show.wrote("table", report.csv)
    show.wrote("picture", report.picture)
    console.print()
