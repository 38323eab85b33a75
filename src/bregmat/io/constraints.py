"""Constraints from tables, and back: columns relation, i, j, k, l, bound, sense, weight."""

import os
from collections.abc import Callable

from bregmat.constraints import Constraints
from bregmat.frames import arguments, columns_of, parse_sample_ids
from bregmat.io import tables
from bregmat.io.sources import COLUMNAR, TEXT, file_kind, source_of
from bregmat.relations import SAMPLES

__all__ = ["parse_sample_ids", "read_constraints", "read_placed_constraints", "write_constraints"]

KINDS = (*TEXT, *COLUMNAR)


def read_constraints(
    path: str | os.PathLike[str], *, id_type: type | None = None, encoding: str | None = None
) -> Constraints:
    """Read constraints from a file.

    Parameters
    ----------
    path : path
        .csv or .tsv (also .gz) with a header line, .parquet or .feather; "-" is standard input. Columns: `relation`
        (sq_distance, similarity, comparison, similarity_comparison, diagonal, trace, or a registered one), the samples `i`, `j`,
        `k`, `l` as far as it has them, `bound`, `sense` ("<=", ">=", "=="), and optionally `weight` (default 1; inf makes a row
        hard). `bound` of a comparison is minus its margin, sq_dist(i, j) - sq_dist(k, l) <= bound, and may be left empty (0).
        `sense` may be left empty for comparisons ("<="), diagonal and trace ("==").
    id_type : {None, int, str}
        What sample ids are. None: integers where all of them are written as such, strings otherwise.
    encoding : str, optional
        As in :func:`read_points`.

    Returns
    -------
    Constraints
        Rows in the order of the file.

    Raises
    ------
    ValueError
        Unknown column or relation, a missing or superfluous cell, i == j, a bound no matrix can meet; with file and
        line (row for .parquet).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bregmat.io import read_constraints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pairs.csv"
    ...     _ = path.write_text("relation,i,j,bound,sense\\nsq_distance,a,b,4,<=\\nsq_distance,a,c,9,>=\\n")
    ...     read_constraints(path).n_constraints
    2
    """
    return read_placed_constraints(path, id_type=id_type, encoding=encoding)[0]


def read_placed_constraints(
    path: str | os.PathLike[str], *, id_type: type | None = None, encoding: str | None = None
) -> tuple[Constraints, Callable[[int], str], list[tuple[str, ...]]]:
    """As `read_constraints`, with what tells the place of a row ("line 7"; "row 6" of .parquet), and the samples of each."""
    source = source_of(path, "read constraints from", KINDS)
    table = tables.read(source, has_header=True, is_word=lambda name: True, encoding=encoding)
    header = f"{source.path}" if table.text is None else f"{source.path}, line 1"
    found, samples = arguments(table.columns, table.place, header=header, id_type=id_type)
    return Constraints(**found), table.where, samples


def write_constraints(path: str | os.PathLike[str], constraints: Constraints) -> None:
    """Write constraints where `read_constraints` reads them back to the last bit; `linear` rows raise `ValueError`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bregmat import Constraints
    >>> from bregmat.io import write_constraints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pairs.csv"
    ...     write_constraints(path, Constraints.sq_distance([0], [1], 4.0, "<="))
    ...     path.read_text().splitlines()[0].split(",")[:3]
    ['relation', 'i', 'j']
    """
    path, _ = file_kind(path, "write constraints to", KINDS)
    columns = columns_of(constraints)
    for name in SAMPLES:
        columns[name] = ["" if sample is None else str(sample) for sample in columns[name]]
    tables.write(path, columns)
