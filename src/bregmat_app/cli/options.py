"""Options of the commands, in groups: columns of a table, settings of a metric, data in files, what is measured and written.

The library is imported by the checks only, so that `bregmat --version` and `--help` start fast.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

POINTS = "Points, one per row: .csv, .tsv (also .gz), .parquet or .npy."

TABLES = ".csv, .tsv (also .gz) or .parquet."


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

# options in the lower parts of the help page: how a table is read, and how the metric is learned
reading, setting = (partial(option, panel=panel) for panel in ("Columns and cells", "How to learn"))

# types of options without a default
Word = str | None
Words = list[str] | None
File = Path | None

PointsFile = Annotated[Path, typer.Argument(metavar="POINTS", help=POINTS)]
Missing = Annotated[
    str,
    option("error|drop|median", "Rows with missing cells (empty, NA): an error, left out, or filled with medians."),
]
Encoding = Annotated[Word, named("Encoding of text files, such as cp1252.", shown="UTF-8")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file written by `learn --out` or `retrieve --out`.")
]
ModelOut = Annotated[File, file("Write the model here.")]
Quiet = Annotated[bool, flag("Show no progress.", "--quiet", "-q")]


def names_in(given: list[str] | None) -> tuple[str, ...]:
    """The names in the values of an option that may be repeated and whose values may contain commas."""
    return tuple(name.strip() for names in given or () for name in names.split(","))


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
        Words, reading("COLUMN", "Column that is not a feature; may be repeated.", "--drop", "--exclude")
    ] = None
    keep: Annotated[
        Words, reading("COLUMN", "Column to use although constant, an identifier or a code; may be repeated.")
    ] = None
    columns: Annotated[
        Words, reading("COLUMN,...", "The features; may be repeated.", shown="all columns of numbers")
    ] = None
    unlabeled: Annotated[Word, reading("VALUE", "Label that means 'not known', as empty cells do.")] = None
    missing: Missing = "error"
    encoding: Encoding = None


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Parameters of the metric learner."""

    divergence: Annotated[
        str,
        setting("NAME", "logdet, vonneumann, frobenius, or a registered one.", shown="logdet; frobenius with softmax"),
    ] = "auto"
    slack_weight: Annotated[
        str, setting("NUMBER", "Weight of violated bounds against the distance to the prior; inf: bounds must hold.")
    ] = "auto"
    prior: Annotated[
        str,
        setting(
            "NAME", "identity, variance (columns scaled), covariance (its inverse), within (that of classes) or auto."
        ),
    ] = "auto"
    strategy: Annotated[
        str,
        setting(
            "neighbors|softmax|random",
            "How labels are learned from. neighbors: points of the same class are nearer than the nearest of other classes; softmax: a "
            "point is likely to be nearest to one of its class; random: bounds for random pairs, half of them of one class.",
            shown="auto: as held-out points tell",
        ),
    ] = "auto"
    metric: Annotated[
        str,
        setting(
            "euclidean|cosine",
            "Whether mapped points are compared by distance or by cosine.",
            shown="auto: cosine for points of one length",
        ),
    ] = "auto"
    n_constraints: Annotated[
        int | None,
        setting(
            "NUMBER", "Most constraints drawn from labels; 0: none.", shown="all neighbors; 40 k^2 random pairs", min=0
        ),
    ] = None
    n_components: Annotated[int | None, setting("NUMBER", "Dimensions to keep.", shown="all", min=1)] = None
    tol: Annotated[float, setting("NUMBER", "Relative duality gap to reach.")] = 1e-4
    random_state: Annotated[int, setting("NUMBER", "Seed of the pairs drawn from labels, and of the folds.", min=0)] = 0

    def parameters(self) -> dict[str, Any]:
        """The parameters of :class:`bregmat.MetricLearner`; `ValueError` for a word or a number that is none.

        Words may be those that a module has registered.
        """
        from bregmat.base.checks import as_choice, check_positive
        from bregmat.constraints.columns import is_number_word
        from bregmat.estimators.linear_maps import PRIORS
        from bregmat.objective.divergences import DIVERGENCES
        from bregmat.typing import MetricKind, Strategy

        strategies = (*get_args(Strategy), "softmax")
        words = {"metric": get_args(MetricKind), "strategy": strategies, "prior": PRIORS, "divergence": DIVERGENCES}
        for name, allowed in words.items():
            as_choice(f"--{name}", getattr(self, name), ("auto", *allowed))
        given = asdict(self)
        if self.slack_weight != "auto":
            if not is_number_word(self.slack_weight):
                raise ValueError(f"--slack-weight must be a number, inf or auto; got {self.slack_weight!r}")
            given["slack_weight"] = float(self.slack_weight)
            check_positive("--slack-weight", given["slack_weight"])
        check_positive("--tol", self.tol, finite=True)
        return given


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
    fixed: Annotated[
        File, file("Entries that must not change: a table like MATRIX, 1 for these, 0 or empty for others.")
    ] = None
    lower: Annotated[float | None, number("Smallest correlation that the result may have.", min=-1, max=1)] = None
    upper: Annotated[float | None, number("Largest correlation that the result may have.", min=-1, max=1)] = None

    def check(self, matrix: Path) -> None:
        """Check the bounds, and that the output can be written; `ValueError` otherwise."""
        from bregmat.io.paths import TABLES, known_path

        check_outputs({"--out": self.out}, [matrix, self.weights, self.fixed])
        if self.out is not None:
            known_path(self.out, "write a table to", TABLES)
        for name, value in (("--lower", self.lower), ("--upper", self.upper)):
            if value is not None and math.isnan(value):  # older versions of typer take it for a number in the range
                raise ValueError(f"{name} must be a number from -1 to 1; got nan")


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """What the labelling page shows and where it is served."""

    demo: Annotated[bool, flag("Handwritten digits, as pictures.", "--demo")] = False
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
    journal: Annotated[File, file("Where answers are kept.", shown="POINTS.label.jsonl")] = None
    resume: Annotated[bool, flag("Continue with the journal.", "--resume")] = False
    port: Annotated[int, number("Port; 0: any that is free.", min=0, max=65535)] = 0
    no_browser: Annotated[bool, flag("Only print the address of the page.", "--no-browser")] = False

    def check(self, points: Path | None, columns: ColumnOptions) -> None:
        """Check that there is one source of points, and the settings; `ValueError` otherwise."""
        from bregmat.base.checks import as_choice, check_positive

        has_columns = self.text is not None or columns != ColumnOptions()
        if self.demo and (points or self.images or has_columns):
            raise ValueError("--demo brings its own pictures and labels, and takes no POINTS")
        if not (self.demo or points or self.images):
            raise ValueError("give POINTS, --images FOLDER or --demo")
        if points is None and has_columns:
            raise ValueError("a folder of pictures has no columns")
        as_choice("--prior", self.prior, ("auto", "identity", "variance"))
        check_positive("--slack-weight", self.slack_weight, finite=True)


def with_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace each parameter whose type is a dataclass by one option for every field of it.

    The fields are annotated as typer expects it of parameters. The function is called with the dataclasses.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    fields = {name: [*signature(group).parameters.values()] for name, group in groups.items()}
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        types = get_type_hints(groups[name], include_extras=True) if name in groups else hints
        for own in fields.get(name, [parameter]):
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=types[own.name]))

    @wraps(function)
    def command(**given: Any) -> Any:
        made = {
            name: group(**{own.name: given.pop(own.name) for own in fields[name]}) for name, group in groups.items()
        }
        return function(**given, **made)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
