"""What the commands print: tables, progress, messages. Results go to standard output, all else to standard error."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bregmat.base.html import SUMMARY_COLUMNS, SummaryRow, measured, number, seconds
from bregmat.base.threads import InterruptWarning

LARGEST_GAP = 10.0  # relative gap above which the line of progress says that there is no useful bound
UNWRAPPED = 100_000  # characters of a line that is not written to a terminal


class ExitCode:
    """Exit codes of every command."""

    SOLVED = 0
    BAD_INPUT = 2
    INFEASIBLE = 3
    NOT_CONVERGED = 4
    INTERRUPTED = 130


def stdout(*, stderr: bool = False) -> Console:
    """Return a console for the present standard output or error; it wraps lines on a terminal only."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = UNWRAPPED
    return console


def stderr() -> Console:
    """Return a console for everything that is not a result."""
    return stdout(stderr=True)


def note(text: str, *, style: str = "dim") -> None:
    """Print one line on standard error."""
    stderr().print(escape(text), style=style, soft_wrap=True)


def warn(text: str) -> None:
    """Print a remark on standard error."""
    note(f"note: {text}", style="yellow")


def wrote(kind: str, path: Any) -> None:
    """Print the path of a file that was written on standard output."""
    stdout().print(f"{kind:<8}{path}", soft_wrap=True, markup=False)


def fail(text: str, code: int = ExitCode.BAD_INPUT) -> typer.Exit:
    """Print an error and give the exception that ends the command: ``raise fail(...)``."""
    stderr().print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True)
    return typer.Exit(code)


@contextmanager
def bad_input() -> Iterator[None]:
    """Turn the library's errors about arguments and files into one line and exit code 2."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads along
    except OSError as error:
        if error.filename is None:
            raise fail(str(error)) from error
        missing = isinstance(error, FileNotFoundError)
        why = "no such file" if missing else (error.strerror or "cannot be opened").lower()
        raise fail(f"{error.filename}: {why}") from error
    except (ValueError, TypeError, ImportError) as error:
        from bregmat.io.tables import CellError  # needs NumPy, which help pages do without

        raise fail(error.problem if isinstance(error, CellError) else str(error)) from error


def fit_until_interrupted(learner: Any, progress: "Progress", *data: Any, **more: Any) -> tuple[list[str], bool]:
    """Fit a learner; return the texts of the warnings, each once, and whether Ctrl-C stopped it early.

    End the command if there is nothing to keep.
    """
    is_interrupted = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with progress:
                learner.set_params(callback=progress).fit(*data, **more)
        except KeyboardInterrupt:
            is_interrupted = True
    if not learner.__sklearn_is_fitted__():
        note("interrupted before there was anything to keep; nothing is written", style="yellow")
        raise typer.Exit(ExitCode.INTERRUPTED)
    learner.set_params(callback=None)
    texts = (str(warning.message) for warning in caught if warning.category is not InterruptWarning)
    return list(dict.fromkeys(texts)), is_interrupted


def exit_code(result: Any) -> int:
    """The exit code that the status and the exit reason of a result stand for."""
    status, reason = result.status, result.exit_reason
    if status == "INFEASIBLE":
        return ExitCode.INFEASIBLE
    if reason == "INTERRUPTED":
        return ExitCode.INTERRUPTED
    if status == "OPTIMAL" or (status == "FEASIBLE" and reason in ("TOLERANCE", "CERTIFICATE")):
        return ExitCode.SOLVED
    return ExitCode.NOT_CONVERGED


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], **options: Any) -> Table:
    """A table of texts; all columns but the first hold numbers, which are aligned right."""
    table = Table(**options)
    for k, name in enumerate(header):
        table.add_column(escape(name), justify="right" if k else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def summary_table(rows: Iterable[SummaryRow]) -> Table:
    """The table of measurements of the points as given, with columns scaled, and learned."""
    table = grid(("", *SUMMARY_COLUMNS), ((name, *map(measured, values)) for name, *values in rows))
    table.columns[-1].style = "bold"
    return table


def name_value_table(rows: Sequence[tuple[str, Any]], title: str = "") -> Table:
    """A table of names and values."""
    table = Table(
        title=escape(title), title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2, 0, 0)
    )
    table.add_column(style="dim")
    for name, value in rows:
        table.add_row(escape(name), escape(number(value)))
    return table


def gap_and_violation(record: Any) -> str:
    """The text of a record of a solver in the line of progress."""
    near = (
        f"at most {100 * record.gap:.2g} % from the optimum" if record.gap < LARGEST_GAP else "no useful bound so far"
    )
    return f"step {record.iteration:,}, {near}, largest violation of a constraint {number(record.violation, 3)}"


@dataclass(eq=False)
class Progress:
    """Callback that shows the progress of a run that takes more than a second.

    On a terminal one line is kept up to date; elsewhere a line appears every ten seconds.
    """

    what: str  # the work that is done, in words
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    state: Callable[[Any], str] = gap_and_violation  # the text of a record
    kept: str = "the best so far"  # what remains after an interruption

    def __enter__(self) -> "Progress":
        self._console, self._start = stderr(), self.clock()
        self._status: Any = None
        self._next = 1.0 if self._console.is_terminal else 10.0
        return self

    def __exit__(self, *exc: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, record: Any) -> None:
        elapsed = self.clock() - self._start
        if self.quiet or elapsed < self._next:
            return
        text = escape(f"{self.what}: {self.state(record)}, {seconds(elapsed)}")
        if not self._console.is_terminal:
            self._next = elapsed + 10.0
            self._console.print(text, soft_wrap=True)
            return
        self._next = elapsed + 0.1
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(f"{text}  [dim](Ctrl-C keeps {self.kept})[/]")
