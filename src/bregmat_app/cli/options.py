"""Options that several commands have, once: which table of points, which of its columns are what, what becomes of missing cells."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer


def option(metavar: str | None, help: str, *names: str, shown: bool | str = True, **limits: Any) -> Any:
    """An option: what stands for its value in the help, its sentence, its names (by default the parameter's), the default that is shown."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=shown, **limits)


number, named, file, column, folder = (partial(option, word) for word in ("NUMBER", "NAME", "FILE", "COLUMN", "FOLDER"))
flag = partial(option, None)  # which takes no value

POINTS = "Points, one per row: .csv, .tsv (also .gz), .parquet, .feather or .npy; - is standard input."
PointsFile = Annotated[Path, typer.Argument(metavar="POINTS", help=POINTS)]
Missing = Annotated[
    str,
    option(
        "error|drop|median",
        "Rows with missing cells (empty, NA): an error, left out, or filled up with the medians of their columns.",
    ),
]
Encoding = Annotated[str | None, named("Of files of text, such as cp1252.", shown="UTF-8")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file written by `bregmat learn --out` or `stream`.")
]
ModelOut = Annotated[Path | None, file("Write the model here.")]
Quiet = Annotated[bool, flag("No progress.", "--quiet", "-q")]
IdColumn = Annotated[
    str | None,
    column("Column that names the rows. Default: id or sample_id, else row numbers.", "--id"),
]
Drop = Annotated[
    list[str] | None,
    column("Numeric column that is no feature; may be repeated.", "--drop", "--exclude"),
]
Columns = Annotated[
    list[str] | None,
    option("COLUMNS", "The columns that are features, separated by commas; may be repeated.", shown="all of numbers"),
]
Unlabeled = Annotated[str | None, option("VALUE", "Label that means 'not known', beside empty cells.")]


def column_names(given: list[str] | None) -> tuple[str, ...]:
    """The columns that ``--columns`` names."""
    return tuple(name.strip() for names in given or () for name in names.split(","))
