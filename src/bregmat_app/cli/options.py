"""Options of the commands, in groups: columns of a table, settings of a metric, data in files, what is measured and written.

The library is imported by the checks only, so that `bregmat --version` and `--help` start fast.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

POINTS = "Points, one per row: .csv, .tsv, .parquet or .npy."

TABLES = ".csv, .tsv or .parquet."


def option(
    metavar: str | None, help: str, *names: str, shown: bool | str = True, panel: str | None = None, **limits: Any
) -> Any:
    """Describe an option.

    Parameters
    ----------
    metavar, help, names
        The word for its value, its description, and its names.
    shown : bool or str
        Whether, or how, the help shows the default.
    panel : str, optional
        The part of the help that lists it, by default the first.
    limits
        Arguments of ``typer.Option``.
    """
    return typer.Option(*names, metavar=metavar, help=help, show_default=shown, rich_help_panel=panel, **limits)


number, named, file, column, folder = (partial(option, word) for word in ("NUMBER", "NAME", "FILE", "COLUMN", "FOLDER"))
flag = partial(option, None)  # takes no value
columns_option = partial(option, "COLUMN,...")

# parts of help pages below the common options
TABLE, LEARNING = "Columns and cells", "How to learn"

# types of options without a default
Word = str | None
Words = list[str] | None
File = Path | None

PointsFile = Annotated[Path, typer.Argument(metavar="POINTS", help=POINTS)]
Missing = Annotated[
    str,
    option("error|drop|median", "Rows with missing cells (empty, NA): an error, left out, or filled with medians."),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `learn --out`.")]
ModelOut = Annotated[File, file("Write the model here.")]
Quiet = Annotated[bool, flag("Show no progress.", "--quiet", "-q")]


def names_in(given: list[str] | None) -> tuple[str, ...]:
    """The names in the values of an option that may be repeated and whose values may contain commas."""
    return tuple(name.strip() for names in given or () for name in names.split(","))


def number_in(name: str, text: str, allowed: str) -> float:
    """Convert the value of an option that also takes words."""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{name} must be {allowed}; got {text!r}") from error


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Check output paths by option before any work: writable, distinct, and none of the inputs."""
    from bregmat.io import check_writable

    taken = {path.resolve(): str(path) for path in inputs if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        check_writable(path)
        if path.resolve() in taken:
            raise ValueError(f"{name} {path} is the same file as {taken[path.resolve()]}")
        taken[path.resolve()] = name


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """What the columns of a table of points are, and how its cells are read."""

    labels: Annotated[Word, column("Column with labels (for .npy points: a .npy file).")] = None
    id_column: Annotated[
        Word,
        column(
            "Column that names the rows. Default: id or sample_id, else an unnamed index, else row numbers.",
            "--sample-id",
        ),
    ] = None
    drop: Annotated[
        Words, column("Column that is not a feature; may be repeated.", "--drop", "--exclude", panel=TABLE)
    ] = None
    keep: Annotated[
        Words, column("Column to use although constant, an identifier or a code; may be repeated.", panel=TABLE)
    ] = None
    columns: Annotated[
        Words, columns_option("The features; may be repeated.", shown="all columns of numbers", panel=TABLE)
    ] = None
    unlabeled: Annotated[Word, option("VALUE", "Label that means 'not known', as empty cells do.", panel=TABLE)] = None
    missing: Missing = "error"


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Parameters of the metric learner."""

    divergence: Annotated[
        str,
        named(
            "logdet, vonneumann, frobenius, or a registered one.",
            shown="logdet; frobenius with softmax",
            panel=LEARNING,
        ),
    ] = "auto"
    slack_weight: Annotated[
        str,
        number("Weight of violated bounds against the distance to the prior; inf: bounds must hold.", panel=LEARNING),
    ] = "auto"
    loss: Annotated[
        Word,
        named(
            "relative_slack, squared, squared_hinge or divergence_slack.",
            shown="squared_hinge, or the divergence's own",
            panel=LEARNING,
        ),
    ] = None
    solver: Annotated[str, named("auto, or the name of a solver.", panel=LEARNING)] = "auto"
    prior: Annotated[
        str,
        named(
            "identity, variance (columns scaled), covariance (its inverse), within (that of classes) or auto.",
            panel=LEARNING,
        ),
    ] = "auto"
    strategy: Annotated[
        str,
        option(
            "neighbors|softmax|random",
            "How labels are learned from. neighbors: points of the same class are nearer than the nearest of other classes; softmax: a "
            "point is likely to be nearest to one of its class; random: bounds for random pairs, half of them of one class.",
            shown="auto: as held-out points tell",
            panel=LEARNING,
        ),
    ] = "auto"
    metric: Annotated[
        str,
        option(
            "euclidean|cosine",
            "Whether mapped points are compared by distance or by cosine.",
            shown="auto: cosine for points of one length",
            panel=LEARNING,
        ),
    ] = "auto"
    n_constraints: Annotated[
        int | None,
        number(
            "Most constraints drawn from labels; 0: none.",
            shown="all neighbors; 40 k^2 random pairs",
            panel=LEARNING,
            min=0,
        ),
    ] = None
    n_components: Annotated[int | None, number("Dimensions to keep.", shown="all", panel=LEARNING, min=1)] = None
    tol: Annotated[float, number("Relative duality gap to reach.", panel=LEARNING)] = 1e-4
    max_iter: Annotated[
        int | None, number("Largest number of iterations.", shown="the solver's own", panel=LEARNING, min=1)
    ] = None
    random_state: Annotated[
        int, number("Seed of the pairs drawn from labels, and of the folds.", panel=LEARNING, min=0)
    ] = 0

    def parameters(self) -> dict[str, Any]:
        """The parameters of :class:`bregmat.MetricLearner`; `ValueError` for a word or a number that is none."""
        from bregmat.base.checks import check_positive

        self.check_words()
        given = asdict(self)
        if self.slack_weight != "auto":
            given["slack_weight"] = number_in("--slack-weight", self.slack_weight, "a number, inf or auto")
            check_positive("--slack-weight", given["slack_weight"])
        check_positive("--tol", self.tol, finite=True)
        return given

    def check_words(self) -> None:
        """Check the options that take one of some words, with those that a module has registered."""
        from bregmat.base.checks import as_choice
        from bregmat.estimators.linear_maps import PRIORS
        from bregmat.objective.divergences import DIVERGENCES
        from bregmat.objective.losses import LOSSES
        from bregmat.solvers.base import SOLVERS
        from bregmat.typing import MetricKind, Strategy

        as_choice("--metric", self.metric, ("auto", *get_args(MetricKind)))
        as_choice("--strategy", self.strategy, ("auto", *get_args(Strategy), "softmax"))
        as_choice("--prior", self.prior, ("auto", *PRIORS))
        as_choice("--divergence", self.divergence, ("auto", *DIVERGENCES))
        as_choice("--solver", self.solver, ("auto", *SOLVERS))
        if self.loss is not None:
            as_choice("--loss", self.loss, LOSSES)


@dataclass(frozen=True, kw_only=True)
class LearnOutput:
    """What `bregmat learn` measures and writes."""

    folds: Annotated[int, number("Folds of the nearest-neighbour test; 0 leaves it out.", min=0)] = 5
    out: ModelOut = None
    report: Annotated[File, file("Write an HTML report here.")] = None
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class CorrelationOptions:
    """What `bregmat correlation` asks of the result, and where it writes it."""

    out: Annotated[File, file(f"Write the repaired matrix here: {TABLES}")] = None
    min_eig: Annotated[float, number("Smallest eigenvalue that the result may have, in [0, 1).", min=0)] = 0.0
    scale: Annotated[bool, flag("MATRIX is a covariance: scale it to a unit diagonal first.", "--scale")] = False
    keep_variances: Annotated[bool, flag("Write a covariance with the variances of MATRIX.", "--keep-variances")] = (
        False
    )
    weights: Annotated[File, file("Weights of the entries, a table like MATRIX; 0 or empty: unknown entry.")] = None
    fixed: Annotated[File, file("Entries that stay as they are, a table like MATRIX: 1; else 0 or empty.")] = None
    lower: Annotated[float | None, number("Smallest correlation that the result may have.", min=-1, max=1)] = None
    upper: Annotated[float | None, number("Largest correlation that the result may have.", min=-1, max=1)] = None
    target: Annotated[File, file("Shrink towards this table, or 'identity', as little as possible.")] = None
    n_factors: Annotated[int | None, number("The result has this many factors, L L' + D.", min=1)] = None

    def check(self, matrix: Path) -> None:
        """Check that the options can be combined and the output can be written; `ValueError` otherwise."""
        check_outputs({"--out": self.out}, [matrix, self.weights, self.target, self.fixed])
        for name, value in (("--lower", self.lower), ("--upper", self.upper)):
            if value is not None and math.isnan(value):  # older versions of typer take it for a number in the range
                raise ValueError(f"{name} must be a number from -1 to 1; got nan")
        given = {"--n-factors": self.n_factors, "--weights": self.weights, "--lower": self.lower, "--upper": self.upper}
        given |= {"--fixed": self.fixed, "--min-eig": self.min_eig or None}
        named = [name for name, value in given.items() if value is not None]
        if self.target is not None and named not in ([], ["--min-eig"]):
            raise ValueError(f"--target and {named[0]} exclude each other")
        if self.n_factors is not None and len(named) > 1:
            raise ValueError(f"--n-factors and {named[1]} exclude each other")


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """What the labelling page shows and where it is served."""

    images: Annotated[
        File,
        folder("Pictures, named by a column image, file, filename or path, or by ids; or all of them, without POINTS."),
    ] = None
    text: Annotated[
        Word, column("Column with texts to show. Without columns of numbers, features are made of them.")
    ] = None
    classes: Annotated[
        Words, option("NAME,...", "Names of the classes, in the order of their keys; more can follow.")
    ] = None
    prior: Annotated[str, named("identity, variance (columns scaled), or auto: chosen by held-out answers.")] = "auto"
    slack_weight: Annotated[float, number("Weight of answers against the distance to the prior.")] = 10.0
    clusters: Annotated[
        int | None, number("Number of clusters.", shown="as many as the answers tell apart", min=2, max=30)
    ] = None
    journal: Annotated[File, file("Where answers are kept.", shown="POINTS.label.jsonl")] = None
    resume: Annotated[bool, flag("Continue with the journal.", "--resume")] = False
    host: Annotated[str, option("ADDRESS", "Address to listen on. Other machines can reach any but the default.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, number("Port; 0: any that is free.", min=0, max=65535)] = 0
    no_browser: Annotated[bool, flag("Only print the address of the page.", "--no-browser")] = False
