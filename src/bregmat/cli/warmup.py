"""`bregmat warmup`: every kernel compiled before it is needed, and how long that took."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from bregmat._html import seconds
from bregmat.cli import show
from bregmat.warmup import ENTRIES, warm_up

__all__ = ["list_entries", "warm_all"]


def list_entries() -> None:
    """The names that ``--only`` takes."""
    for name in ENTRIES:
        show.stdout().print(name, markup=False)


def warm_all(only: list[str] | None, *, quiet: bool) -> None:
    """Run the entries, all of them for None; a table of what was compiled, and one line about the whole."""
    console, done = show.stderr(), []
    with (
        _without_notices(),
        Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as bar,
    ):
        task = bar.add_task("compiling", total=len(only or ENTRIES))
        for step in warm_up(only):
            done.append(step)
            bar.update(task, advance=1, description=escape(step.name))
    news = [step for step in done if step.compiled]
    if news and not quiet:
        table = Table()
        table.add_column("compiled for")
        table.add_column("CPU time", justify="right")
        table.add_column("kernels")
        for step in news:
            table.add_row(escape(step.name), seconds(step.seconds), escape(", ".join(step.compiled)))
        show.stdout().print(table)
    count, spent = sum(len(step.compiled) for step in news), seconds(sum(step.seconds for step in done))
    show.note(
        f"{count} compiled, in {spent} of CPU time" if count else f"nothing left to compile: all is on disk ({spent})"
    )


@contextmanager
def _without_notices() -> Iterator[None]:
    """That it compiles need not be said here."""
    log = logging.getLogger("bregmat")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
