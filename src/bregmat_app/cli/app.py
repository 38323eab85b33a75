"""The commands and their options. The library is imported when a command runs, so that help and version appear at once."""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from bregmat import __version__
from bregmat_app.cli import show
from bregmat_app.cli.options import (
    POINTS,
    TABLES,
    ColumnOptions,
    CorrelationOptions,
    Encoding,
    File,
    LearnOutput,
    MetricOptions,
    Missing,
    ModelFile,
    ModelOut,
    PageOptions,
    PointsFile,
    Quiet,
    Words,
    check_outputs,
    file,
    flag,
    folder,
    named,
    names_in,
    number,
    option,
    reading,
    with_option_groups,
)
from bregmat_app.cli.show import ExitCode, bad_input, note

_CONSTRAINTS_FILE = """
The constraints file has one constraint per line and the columns relation,i,j,k,l,bound,sense,weight. Relations:

{relations}

weight is optional: the cost of violating this constraint compared with others (default 1; inf: it must hold). Points are named by values
of the id column of POINTS, or by row numbers from 0 if there is none.

Example rows: sq_distance,a,b,,,1.5,<=,1 and comparison,a,b,a,c,-1,, (a is closer to b than to c, by at least 1).

Pairs and triplets need no bounds, which are then derived from the points: the columns a,b (each two belong together), a,b,link (must or
cannot, same or different, 1 or -1), a,b,similarity (or dissimilarity; scores such as ratings), or anchor,near,far.
"""


def paragraphs(text: str) -> str:
    """A text for a help page, which wraps its lines itself."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


class _PlainParameters:
    """Mixin that hides types of arguments and flags on help pages."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None
        return params


class Command(_PlainParameters, TyperCommand):
    """A command."""


class Group(_PlainParameters, TyperGroup):
    """The command that holds all others. What a command returns is its exit code."""

    def invoke(self, ctx: Any) -> Any:
        with bad_input():
            code = super().invoke(ctx)
        raise typer.Exit(code or ExitCode.SOLVED)


class LearnCommand(Command):
    """`bregmat learn`, whose help page lists the relations that are registered when it is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from bregmat.constraints.relations import RELATIONS  # loads the library

        relations = "\n\n".join(f"{name}: {r.help}" for name, r in RELATIONS.items() if not r.takes_matrix)
        self.epilog = paragraphs(_CONSTRAINTS_FILE.format(relations=relations))
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn a metric from labels or constraints, with a certificate of how good it is.",
    epilog="Exit codes: 0 solved, 2 bad input, 3 infeasible, 4 not converged, 130 interrupted (best iterate written).",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"bregmat {__version__}")
        raise typer.Exit


@app.callback()
def options(
    modules: Annotated[
        Words,
        option(
            "MODULE", "Import a module or .py file, which registers divergences or relations of your own.", "--import"
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
    for name in modules or ():
        if Path(name).suffix != ".py":
            importlib.import_module(name)
            continue
        # loaded from its path, since its name may be that of a module of Python, such as random
        spec = importlib.util.spec_from_file_location(Path(name).stem, name)
        assert spec is not None and spec.loader is not None  # any .py file has both
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(module.__name__, module)  # pickles look for its classes here
        spec.loader.exec_module(module)


@app.command(cls=LearnCommand)
@with_option_groups
def learn(
    *,
    points: PointsFile,
    constraints: Annotated[File, file("Table of constraints, pairs or triplets, see below.")] = None,
    columns: ColumnOptions,
    output: LearnOutput,
    metric: MetricOptions,
    categorical: Annotated[
        Words,
        reading("COLUMN,...", "Columns of words or codes to encode as one feature per category; may be repeated."),
    ] = None,
) -> int:
    """Learn a metric from points with labels, constraints, or both."""
    from bregmat_app.cli.learning import learn_points

    return learn_points(points, columns, metric, output, constraints, names_in(categorical))


@app.command(cls=Command)
def transform(
    *,
    model: ModelFile,
    points: PointsFile,
    out: Annotated[
        Path,
        file(
            "Where the new points go: .csv, .tsv (also .gz), .parquet or .npy. A table keeps the columns of POINTS that "
            "are no features: ids, labels, and those that were left out."
        ),
    ],
    missing: Missing = "error",
    encoding: Encoding = None,
) -> None:
    """Map points with a learned metric, so that Euclidean distances are the learned ones."""
    from bregmat_app.cli.models import transform_points

    check_outputs({"--out": out}, [model, points])
    n, dims = transform_points(model, points, out, missing=missing, encoding=encoding)
    note(f"{n:,} points in {dims} dimensions written to {out}")


_RELEVANT_FILE = """
RELEVANT is a table with the columns query and document: a document that answers a query. A column grade holds how well (1 by default).
Both are named by the column id of their files, or by row numbers from 0. Without RELEVANT, row i of DOCUMENTS answers row i of QUERIES.

`bregmat transform MODEL FILE --out FILE` maps queries and documents alike; rank them by the cosine of the mapped vectors.
"""


@app.command(cls=Command, epilog=paragraphs(_RELEVANT_FILE))
def retrieve(
    queries: Annotated[Path, typer.Argument(metavar="QUERIES", help=POINTS.replace("Points", "Vectors of queries"))],
    documents: Annotated[Path, typer.Argument(metavar="DOCUMENTS", help="Vectors of documents, of as many columns.")],
    relevant: Annotated[
        File,
        typer.Argument(metavar="RELEVANT", help=f"Right answers, see below: {TABLES}", show_default=False),
    ] = None,
    out: ModelOut = None,
    prior: Annotated[
        str, named("identity, covariance (both sides whitened by its inverse), or auto: chosen by held-out queries.")
    ] = "auto",
    random_state: Annotated[int, number("Seed of the held-out queries.", min=0)] = 0,
    quiet: Quiet = False,
) -> int:
    """Learn a map for the embeddings of queries and documents from right answers."""
    from bregmat_app.cli.retrieving import learn_retrieval

    check_outputs({"--out": out}, [queries, documents, relevant])
    return learn_retrieval(queries, documents, relevant, out, prior=prior, seed=random_state, quiet=quiet)


@app.command(cls=Command)
def inspect(model: ModelFile) -> None:
    """Show what a model file holds: what it was learned from, its settings and its certificate or loss."""
    from bregmat_app.cli.models import tables_about

    for table in tables_about(model):
        show.stdout().print(table)


@app.command(cls=Command)
@with_option_groups
def correlation(
    matrix: Annotated[
        Path, typer.Argument(metavar="MATRIX", help=f"A square table: {TABLES} It may have names of rows.")
    ],
    options: CorrelationOptions,
) -> int:
    """Replace a broken correlation matrix by the nearest valid one."""
    from bregmat_app.cli.correlation import repair_file

    return repair_file(matrix, options)


@app.command(cls=Command)
def demo(
    names: Annotated[Words, typer.Argument(metavar="NAME", help="Data sets.", show_default="wine and digits")] = None,
    out_dir: Annotated[Path, folder("Where models and reports go.")] = Path("bregmat-demo"),
    download: Annotated[bool, flag("Fetch missing data sets, checked by sha256.", "--download")] = False,
    quiet: Quiet = False,
) -> int:
    """Learn on real data (bundled, or the UCI sets in the folder BREGMAT_DATA) and show what it brings."""
    from bregmat_app.cli.papers import run_demo

    return run_demo(names, out_dir, download=download, quiet=quiet)


@app.command(cls=Command)
@with_option_groups
def label(
    columns: ColumnOptions,
    page: PageOptions,
    points: Annotated[
        File,
        typer.Argument(metavar="POINTS", help=f"{POINTS} 20,000 at most.", show_default=False),
    ] = None,
) -> None:
    """Answer questions about points on a page that learns from the answers; nothing leaves this machine.

    Known labels (--labels) colour the points and are compared with the clusters; nothing is learned from them.
    """
    page.check(points, columns)
    from bregmat_app.cli.labelling import label_points

    label_points(points, columns, page)


@app.command("reproduce", cls=Command)
def reproduce_command(
    names: Annotated[Words, typer.Argument(metavar="NAME", help="Experiments.", show_default="all of them")] = None,
    out: Annotated[Path, folder("Where tables, pictures and unfinished runs go.")] = Path("bregmat-reproduction"),
    full: Annotated[bool, flag("The papers' size: hours for some.", "--full")] = False,
    small: Annotated[bool, flag("Seconds each, on bundled data: to see that it works.", "--small")] = False,
    page: Annotated[File, file("Write a Markdown page here, and one for each paper in a folder of its name.")] = None,
    download: Annotated[bool, flag("Fetch missing data sets, checked by sha256.", "--download")] = False,
    list_names: Annotated[bool, flag("Print the names and stop.", "--list")] = False,
    quiet: Quiet = False,
) -> int:
    """Rerun figures and tables of the papers and compare the numbers. Data from BREGMAT_DATA, or --download.

    Most take a minute or a few. Finished parts are kept in the folder, and the same command continues after an interruption.
    """
    if full and small:
        raise ValueError("--full and --small exclude each other")
    from bregmat_app.cli.papers import list_experiments, reproduce_all

    if list_names:
        return list_experiments()
    size = "full" if full else "small" if small else "default"
    return reproduce_all(names, out, size=size, download=download, page=page, quiet=quiet)
