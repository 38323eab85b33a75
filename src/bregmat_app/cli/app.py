"""The commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bregmat import __version__
from bregmat.base.html import listed
from bregmat.constraints.relations import RELATIONS
from bregmat.io import check_writable
from bregmat_app.cli import show
from bregmat_app.cli.commands import Command, Group
from bregmat_app.cli.inputs import import_terms
from bregmat_app.cli.options import (
    POINTS,
    Columns,
    Drop,
    Encoding,
    IdColumn,
    Missing,
    ModelFile,
    ModelOut,
    PointsFile,
    Quiet,
    Unlabeled,
    column,
    column_names,
    file,
    flag,
    folder,
    named,
    number,
    option,
)
from bregmat_app.cli.show import bad_input, fail, note

__all__ = ["app"]

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


def _constraints_file() -> str:
    """What a constraints file holds, with the relations that are known now."""
    relations = "\n\n".join(f"{name}: {r.help}" for name, r in RELATIONS.items() if not r.takes_matrix)
    return _paragraphs(_CONSTRAINTS_FILE.format(relations=relations))


def _paragraphs(text: str) -> str:
    """Without the line breaks inside paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


_CONSTRAINTS_FILE = """
The constraints file has one statement per row and the columns relation,i,j,k,l,bound,sense,weight. Relations:

{relations}

weight is optional: what violating this row costs beside the others (default 1; inf: it must hold). Samples are values
of the id column of POINTS, or row numbers from 0 where there is none.

Example rows: sq_distance,a,b,,,1.5,<=,1 and comparison,a,b,a,c,-1,, (a is closer to b than to c, by 1 at least).

Or pairs and triplets without bounds, which the points give then: the columns a,b (each two belong together), a,b,link (must or cannot,
same or different, 1 or -1), a,b,distance (or sq_distance), or anchor,near,far.
"""


@app.callback()
def options(
    context: typer.Context,
    modules: Annotated[
        list[str] | None,
        option(
            "MODULE",
            "Import a module, or a .py file, first: one that registers divergences, losses, relations or solvers of your own.",
            "--import",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
    for name in modules or ():
        with bad_input():
            import_terms(name)
    context.command.commands["learn"].epilog = _constraints_file()  # type: ignore[attr-defined]


@app.command(cls=Command, epilog=_constraints_file())
def learn(
    points: PointsFile,
    constraints: Annotated[
        Path | None, file("Constraints, pairs or triplets, see below: a table in a file like those of points, or -.")
    ] = None,
    labels: Annotated[str | None, column("Column with class labels (for .npy points: a .npy file).")] = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    columns: Columns = None,
    missing: Missing = "error",
    encoding: Encoding = None,
    unlabeled: Unlabeled = None,
    divergence: Annotated[str, named("logdet, vonneumann, frobenius, or a registered one.")] = "logdet",
    slack_weight: Annotated[
        str | None,
        number(
            "What a violated bound costs; inf: bounds must hold; auto: chosen by cross-validation of the labels.",
            shown="the library's",
        ),
    ] = None,
    loss: Annotated[
        str | None, named("relative_slack, squared or squared_hinge.", shown="the divergence's own slack")
    ] = None,
    solver: Annotated[str, named("auto, or the name of a solver.")] = "auto",
    prior: Annotated[
        str,
        named(
            "identity, variance (columns scaled), covariance (its inverse) or within (that within classes); auto: variance where "
            "only labels are learned from."
        ),
    ] = "auto",
    strategy: Annotated[
        str | None,
        option(
            "neighbors|random|uniform",
            "What is asked of labelled points. neighbors: that those of their class be nearer than the nearest of others; "
            "random: bounds for random pairs, half of them of one class; uniform: bounds for random pairs, all drawn alike.",
            shown="the library's",
        ),
    ] = None,
    passes: Annotated[int | None, number("Of neighbors: rounds, each in the metric of the last.", shown="3")] = None,
    n_neighbors: Annotated[int | None, number("Of neighbors: points of its class for each point.", shown="3")] = None,
    n_impostors: Annotated[
        int | None, number("Of neighbors: points of other classes for each point.", shown="10")
    ] = None,
    n_constraints: Annotated[
        int | None,
        number("Most rows drawn from the labels; 0: labels only measure.", shown="all neighbors; 40 k^2 random pairs"),
    ] = None,
    n_components: Annotated[int | None, number("Dimensions to keep.", shown="all")] = None,
    tol: Annotated[float, number("Relative duality gap to reach.")] = 1e-4,
    max_iter: Annotated[int | None, number("Most iterations.", shown="the solver's own")] = None,
    seed: Annotated[int, number("Seed of the pairs drawn from labels, and of the folds.")] = 0,
    neighbors: Annotated[int, number("k of the nearest-neighbour test.", min=1)] = 4,
    folds: Annotated[int, number("Folds of the nearest-neighbour test; 0 leaves it out.", min=0)] = 5,
    out: ModelOut = None,
    report: Annotated[Path | None, file("Write an HTML report here.")] = None,
    points_file: Annotated[
        Path | None,
        file(
            "Points (.npy, .zarr, .parquet) larger than memory; POINTS is then a folder of constraints (.parquet, or .npy columns).",
            "--points",
        ),
    ] = None,
    block_size: Annotated[
        int | None, number("With --points: constraints in memory at a time.", shown="2^25 numbers", min=1)
    ] = None,
    checkpoint: Annotated[Path | None, file("With --points: write the matrix here every five steps.")] = None,
    resume: Annotated[bool, flag("With --points: go on from the checkpoint.", "--resume")] = False,
    quiet: Quiet = False,
) -> None:
    """Learn a metric from points with labels, constraints, or both."""
    if points_file is not None:
        unused = {"--constraints": constraints, "--labels": labels, "--report": report, "--n-components": n_components}
        if given := [name for name, value in unused.items() if value is not None]:
            raise fail(f"{given[0]} cannot be given with --points, where POINTS names the constraints")
        if prior not in ("auto", "identity"):
            raise fail("--prior must be identity with --points")
        from bregmat_app.cli.sharded import learn_sharded

        code = learn_sharded(
            points,
            points_file,
            checkpoint=checkpoint,
            resume=resume,
            out=out,
            quiet=quiet,
            divergence=divergence,
            loss=loss,
            solver=solver,
            slack_weight=1.0 if slack_weight is None else _number("--slack-weight", slack_weight, "a number or inf"),
            tol=tol,
            max_iter=max_iter,
            block_size=block_size,
        )
        raise typer.Exit(code)
    if block_size is not None or checkpoint is not None or resume:
        option = "--block-size" if block_size is not None else "--checkpoint" if checkpoint is not None else "--resume"
        raise fail(f"{option} needs --points FILE: constraints and points that stay in their files")
    if constraints is None and labels is None:
        raise fail("give --constraints FILE or --labels COLUMN (or both)")
    from bregmat_app.cli.inputs import read_task
    from bregmat_app.cli.intake import Intake
    from bregmat_app.cli.learning import LearnSettings, learn_task

    with bad_input():
        outputs = _check_outputs({"--out": out, "--report": report}, [points, constraints])
        intake = Intake(labels, id_column, tuple(drop or ()), column_names(columns), unlabeled, missing, encoding)
        task = read_task(points, intake, constraints=constraints, prior=prior)
    if task.has_measured_bounds and prior == "auto":
        prior = "variance"  # in which they were measured
    note(f"features ({len(task.feature_names)}): {listed(task.feature_names, 20)}")
    parameters: dict[str, Any] = {
        "divergence": divergence,
        "loss": loss,
        "solver": solver,
        "prior": prior,
        "n_constraints": n_constraints,
        "n_components": n_components,
        "tol": tol,
        "max_iter": max_iter,
        "random_state": seed,
    }
    drawing = {"strategy": strategy, "passes": passes, "n_neighbors": n_neighbors, "n_impostors": n_impostors}
    parameters |= {name: value for name, value in drawing.items() if value is not None}
    if folds == 1:
        raise fail("--folds must be 2 at least, or 0, which leaves the test out; got 1")
    choose = slack_weight == "auto"
    if choose and labels is None:
        raise fail("--slack-weight auto needs --labels COLUMN to judge by")
    if slack_weight is not None and not choose:
        parameters["slack_weight"] = _number("--slack-weight", slack_weight, "a number, inf or auto")
    settings = LearnSettings(
        parameters,
        choose_slack_weight=choose,
        n_neighbors=neighbors,
        n_folds=folds,
        quiet=quiet,
        seed=seed,
        out=outputs["--out"],
        report=outputs["--report"],
    )
    raise typer.Exit(learn_task(task, settings))


_PAIRS_FILE = """
PAIRS is .csv or .parquet with the columns a, b (numbers of two points, from 0) and y, half their squared distance (with
--squared: their squared distance). It is read a piece at a time and may be larger than memory.

The learned matrix has a fixed trace, and the loss of a pair is the squared error of its prediction. The trace has to match
the scale of y: some matrix fits if --trace is at least the number of points less one, times the mean half squared distance
of all pairs (the trace of the centred kernel). Where none fits, no bound holds, and the table says so.

The bound is Lemma 3.2 of Tsuda 2004: what the total loss cannot exceed whatever the order of the pairs, if some matrix of
that trace has a loss within --loss-budget. For n labels with noise of standard deviation s that is about n s^2.

`bregmat transform MODEL --out FILE` writes the coordinates of the points.
"""


@app.command(cls=Command, epilog=_paragraphs(_PAIRS_FILE))
def stream(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="Pairs with distances: .csv or .parquet, see below.")],
    dim: Annotated[int, number("Number of points.")],
    eta: Annotated[
        str, number("Learning rate; bound: the one with the smallest bound on the total loss, see below.")
    ] = "bound",
    trace: Annotated[float, number("Trace of the matrix; has to match the scale of y, see below.")] = 1.0,
    loss_budget: Annotated[
        float, number("Total loss that a good matrix is expected to have; 0: one fits exactly. See below.")
    ] = 0.0,
    squared: Annotated[bool, flag("y holds squared distances, not half of them.", "--squared")] = False,
    share: Annotated[float, number("Share of the first matrix mixed in again, for moving targets.")] = 0.0,
    share_every: Annotated[int, number("Pairs between two shares.", min=1)] = 1000,
    every: Annotated[int, number("Pairs between two records of the loss.", min=1)] = 1000,
    out: ModelOut = None,
    plot: Annotated[Path | None, file("Draw the loss and its bound: .png, .svg, .pdf.")] = None,
    quiet: Quiet = False,
) -> None:
    """Learn a kernel from pairs one at a time, with a bound on the total loss."""
    from bregmat.online.stream import FixedShare
    from bregmat_app.cli.stream import StreamSettings, learn_stream

    rate = eta if eta == "bound" else _number("--eta", eta, "a number or bound")
    with bad_input():
        _check_outputs({"--out": out, "--plot": plot}, [pairs])
        drift = FixedShare(share, share_every) if share else None
    settings = StreamSettings(
        {"dim": dim, "eta": rate, "trace": trace, "loss_budget": loss_budget},
        {"every": every, "drift": drift},
        squared=squared,
        out=out,
        plot=plot,
        quiet=quiet,
    )
    raise typer.Exit(learn_stream(pairs, settings))


@app.command(cls=Command)
def transform(
    model: ModelFile,
    out: Annotated[Path, file("Where the new points go: .csv, .tsv (also .gz), .parquet, .feather or .npy.")],
    points: Annotated[
        Path | None,
        typer.Argument(
            metavar="POINTS",
            help=f"{POINTS} For a model of `stream` one column of point numbers; left out: all its points.",
            show_default=False,
        ),
    ] = None,
    missing: Missing = "error",
    encoding: Encoding = None,
) -> None:
    """Map points with a learned metric, so that Euclidean distances are the learned ones."""
    from bregmat_app.cli.models import transform_points

    with bad_input():
        _check_outputs({"--out": out}, [model, points])
        n, dims = transform_points(model, points, out, missing=missing, encoding=encoding)
    note(f"{n:,} points in {dims} dimensions written to {out}")


@app.command(cls=Command)
def inspect(model: ModelFile) -> None:
    """Show what a model file holds: what it was learned from, its settings and its certificate or loss."""
    from bregmat_app.cli.models import tables_about

    with bad_input():
        tables = tables_about(model)
    for table in tables:
        show.stdout().print(table)


@app.command(cls=Command)
def demo(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Data sets.", show_default="wine and digits")
    ] = None,
    out_dir: Annotated[Path, folder("Where models and reports go.")] = Path("bregmat-demo"),
    quiet: Quiet = False,
) -> None:
    """Learn on real data (bundled, or the UCI sets where BREGMAT_DATA points) and show what it brings."""
    from bregmat_app.cli.demo import default_names, run_demo

    with bad_input():
        code = run_demo(names or default_names(), out_dir, quiet=quiet)
    raise typer.Exit(code)


@app.command(cls=Command)
def label(
    points: Annotated[
        Path | None,
        typer.Argument(
            metavar="POINTS", help="Points: .csv, .parquet or .npy, one per row, 20,000 at most.", show_default=False
        ),
    ] = None,
    demo: Annotated[bool, flag("Handwritten digits, as pictures.", "--demo")] = False,
    images: Annotated[
        Path | None, folder("Pictures of the points, named by a column image, file, filename or path, or by ids.")
    ] = None,
    text: Annotated[str | None, column("Column with texts to show.")] = None,
    labels: Annotated[str | None, column("Column with known labels, to colour by; nothing is learned from it.")] = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    columns: Columns = None,
    missing: Missing = "error",
    encoding: Encoding = None,
    prior: Annotated[
        str, named("identity or variance (columns scaled); auto: identity for pictures, else variance.")
    ] = "auto",
    slack_weight: Annotated[float, number("What a violated answer costs.")] = 10.0,
    clusters: Annotated[
        int | None, number("Clusters to find.", shown="as many as the answers tell apart", min=2, max=30)
    ] = None,
    journal: Annotated[Path | None, file("Where answers are kept.", shown="POINTS.label.jsonl")] = None,
    resume: Annotated[bool, flag("Go on with the journal.", "--resume")] = False,
    host: Annotated[
        str, option("ADDRESS", "Address to listen on. Any other than the default can be reached from other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, number("Port; 0: any that is free.", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, flag("Only print the address of the page.", "--no-browser")] = False,
) -> None:
    """Say what belongs together on a page that learns while you point; nothing leaves this machine."""
    if (points is None) != demo:
        raise fail("give POINTS or --demo" if points is None else "--demo takes no POINTS")
    if prior not in ("auto", "identity", "variance"):
        raise fail(f"--prior must be auto, identity or variance; got {prior!r}")
    if not 0 < slack_weight < float("inf"):
        raise fail(f"--slack-weight must be positive and finite; got {slack_weight}")
    if demo and (images or text or labels or id_column or drop or columns or encoding or missing != "error"):
        raise fail("--demo brings its own pictures and labels")
    from bregmat_app.cli.intake import Intake
    from bregmat_app.cli.labelling import LabelOptions, label_points

    label_points(
        points,
        LabelOptions(
            Intake(labels, id_column, tuple(drop or ()), column_names(columns), None, missing, encoding),
            images=images,
            text=text,
            prior=prior,
            slack_weight=slack_weight,
            n_clusters=clusters,
            journal=journal,
            resume=resume,
            host=host,
            port=port,
            open_browser=not no_browser,
        ),
    )


@app.command("reproduce", cls=Command)
def reproduce_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Experiments.", show_default="all of them")
    ] = None,
    out: Annotated[Path, folder("Where tables, pictures and what is done so far go.")] = Path("bregmat-reproduction"),
    full: Annotated[bool, flag("The papers' size: hours for some.", "--full")] = False,
    small: Annotated[bool, flag("Seconds each, on bundled data: to see that it works.", "--small")] = False,
    page: Annotated[Path | None, file("Write a Markdown page of all of them here.")] = None,
    download: Annotated[bool, flag("Fetch missing data sets, checked by sha256.", "--download")] = False,
    list_names: Annotated[bool, flag("Print the names and stop.", "--list")] = False,
    quiet: Quiet = False,
) -> None:
    """Rerun figures and tables of the papers; our numbers beside theirs. Data from BREGMAT_DATA, or --download.

    Most take a minute or a few; what is done is kept in the folder, and the same command goes on after an interruption.
    """
    if full and small:
        raise fail("--full and --small exclude each other")
    from bregmat_app.cli.reproduce import list_experiments, reproduce_all

    if list_names:
        list_experiments()
        return
    size = "full" if full else "small" if small else "default"
    raise typer.Exit(reproduce_all(names, out, size=size, download=download, page=page, quiet=quiet))


def _number(option: str, text: str, known: str) -> float:
    """The value of an option that takes words as well."""
    try:
        return float(text)
    except ValueError as error:
        raise fail(f"{option} must be {known}; got {text!r}") from error


def _check_outputs(outputs: dict[str, Path | None], inputs: list[Path | None]) -> dict[str, Path | None]:
    """Absolute output paths, checked before any work: writable, distinct, and no input among them."""
    taken = {path.resolve(): str(path) for path in inputs if path is not None}
    checked: dict[str, Path | None] = {}
    for name, path in outputs.items():
        checked[name] = None if path is None else check_writable(path)
        if path is None:
            continue
        if path.resolve() in taken:
            raise ValueError(f"{name} {path} is the same file as {taken[path.resolve()]}")
        taken[path.resolve()] = name
    if outputs.get("--report") is not None:
        from bregmat.plots._style import require_matplotlib

        require_matplotlib("--report")
    return checked
