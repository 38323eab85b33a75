"""Reading and writing of constraints: tables with columns relation, i, j, k, l, bound, sense, weight, or of pairs and triplets."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import SAMPLES
from bregmat.constraints.tables import TableRows, columns_of, parse_sample_ids, table_rows
from bregmat.constraints.tuples import holds_numbers
from bregmat.io import tables
from bregmat.io.paths import TABLES, TEXT, kind_of, known_path
from bregmat.typing import Labels, Points, RandomState

__all__ = ["parse_sample_ids", "read_constraints", "read_placed_constraints", "write_constraints"]


def read_constraints(
    path: str | os.PathLike[str],
    *,
    id_type: type | None = None,
    encoding: str | None = None,
    scores: str | None = None,
    X: Points | None = None,
    sample_id: Labels | None = None,
    random_state: RandomState = None,
) -> Constraints:
    """Read constraints from a file.

    Parameters
    ----------
    path : path
        .csv or .tsv (also .gz) with a header line, or .parquet. Columns: `relation`
        (sq_distance, similarity, comparison, similarity_comparison, diagonal, trace, or a registered one), the samples `i`, `j`,
        `k`, `l` that the relation needs, `bound`, `sense` ("<=", ">=", "=="), and optionally `weight` (default 1; inf makes a constraint
        hard). `bound` of a comparison is minus its margin, sq_dist(i, j) - sq_dist(k, l) <= bound, and may be left empty (0).
        `sense` may be left empty for comparisons ("<="), diagonal and trace ("=="). A table without `relation` is one of pairs or
        triplets, as in :meth:`bregmat.Constraints.from_frame`.
    id_type : {None, int, str}
        Type of the sample ids. None: integers if all of them are written as integers, otherwise strings.
    encoding : str, optional
        As in :func:`read_points`.
    scores : {None, "similarity", "distance"}
        The last column holds scores of pairs; as in :meth:`bregmat.Constraints.from_frame`.
    X, sample_id, random_state
        The points, their names and a seed, for pairs and triplets without bounds: see :meth:`bregmat.Constraints.with_bounds_from`.

    Returns
    -------
    Constraints
        Constraints in the order of the file.

    Raises
    ------
    ValueError
        Unknown column or relation, a missing or superfluous cell, i == j, a bound that no matrix can meet; the message names
        file and line (row for .parquet).
    TypeError
        The table has no bounds, and X is not given.

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
    table = read_placed_constraints(path, id_type=id_type, encoding=encoding, scores=scores)
    return table.bounded(X, sample_id, random_state)


def read_placed_constraints(
    path: str | os.PathLike[str],
    *,
    id_type: type | None = None,
    encoding: str | None = None,
    scores: str | None = None,
) -> TableRows:
    """Read constraints with the locations of their rows; the table may have no bounds.

    Parameters
    ----------
    path, id_type, encoding, scores
        As in :func:`read_constraints`.
    """
    path = known_path(path, "read constraints from", TABLES)
    table = tables.read(path, has_header=True, is_word=lambda name: True, encoding=encoding)
    header = f"{path}" if table.text is None else f"{path}, line 1"
    columns = dict(table.columns)
    if table.text is not None:
        columns |= {name: np.array([*map(_unescaped, columns[name])]) for name in SAMPLES if name in columns}
    if table.has_decimal_commas:
        columns |= {name: np.char.replace(columns[name], ",", ".") for name in columns if holds_numbers(name)}
    how: Any = {"header": header, "path": path, "id_type": id_type, "scores": scores}
    return table_rows(Constraints, columns, table.where, **how)


# What spreadsheets take for a formula; numbers are none. Quotes before it come from earlier escapes, or are part of the name.
FORMULA = re.compile(r"'*[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def _escaped(name: str) -> str:
    """The name of a sample with a quote before what a spreadsheet would evaluate."""
    return f"'{name}" if FORMULA.match(name) and not NUMBER.fullmatch(name) else name


def _unescaped(name: str) -> str:
    """The name that :func:`_escaped` was given."""
    return name[1:] if name.startswith("'") and FORMULA.match(name) else name


def write_constraints(path: str | os.PathLike[str], constraints: Constraints) -> None:
    """Write constraints so that `read_constraints` returns exactly the same; `linear` constraints raise `ValueError`.

    In files of text, a name of a sample that begins with ``=``, ``+``, ``-`` or ``@`` and is no number gets a quote before it, so
    that a spreadsheet does not evaluate it; `read_constraints` takes it away.

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
    path = known_path(path, "write constraints to", TABLES)
    kind = kind_of(path)
    columns, as_cell = columns_of(constraints), _escaped if kind in TEXT else str
    for name in map(str, () if constraints.ids is None else constraints.ids):
        # an empty cell holds no sample; readers of text strip cells, and may end a line at "\r"
        if not name or (kind in TEXT and ("\r" in name or as_cell(name) != as_cell(name).strip())):
            raise ValueError(f"{path}: a {kind} file cannot hold the sample id {name!r}; give the sample another id")
    for name in SAMPLES:
        if kind not in TEXT and constraints.ids is None:  # row numbers as numbers, which `open_constraints` needs
            if not any(sample is not None for sample in columns[name]):
                del columns[name]
            continue
        columns[name] = ["" if sample is None else as_cell(str(sample)) for sample in columns[name]]
    tables.write(path, columns)
