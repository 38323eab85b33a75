"""Options that several commands have, once: which table of points, which of its columns are what, what becomes of missing cells."""

from pathlib import Path
from typing import Annotated

import typer

POINTS = "Points, one per row: .csv, .tsv (also .gz), .parquet, .feather or .npy; - is standard input."
PointsFile = Annotated[Path, typer.Argument(metavar="POINTS", help=POINTS)]
Missing = Annotated[
    str,
    typer.Option(
        metavar="error|drop|median",
        help="Rows with missing cells (empty, NA): an error, left out, or filled up with the medians of their columns.",
    ),
]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of files of text, such as cp1252.", show_default="UTF-8")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file written by `bregmat learn --out` or `stream`.")
]
ModelOut = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model here.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="Column that names the rows. Default: id or sample_id, else row numbers."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", "--exclude", metavar="COLUMN", help="Numeric column that is no feature; may be repeated."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="The columns that are features, separated by commas; may be repeated.",
        show_default="all of numbers",
    ),
]
Unlabeled = Annotated[
    str | None, typer.Option(metavar="VALUE", help="Label that means 'not known', beside empty cells.")
]


def column_names(given: list[str] | None) -> tuple[str, ...]:
    """The columns that ``--columns`` names."""
    return tuple(name.strip() for names in given or () for name in names.split(","))
