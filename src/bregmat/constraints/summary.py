"""Constraints in a small table, as text and for notebooks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bregmat.base.html import escape
from bregmat.base.html import table as html_table
from bregmat.constraints.columns import SENSES

SUMMARY = ("relation", "rows", *SENSES, "hard", "bound", "weight")


def _summary(constraints: Any) -> tuple[str, list[list[str]]]:
    """A headline, and for each relation its name, its numbers of rows, in all and of each kind, and the range of bounds and weights."""
    used = constraints.index[~constraints.where("is_whole")]
    n = len(np.unique(used[used >= 0]))
    c = constraints.n_constraints
    head = f"{c:,} row{'s' * (c != 1)}" + (f" between {n:,} samples" if n else "")
    table = []
    for code, relation in enumerate(constraints.relations):
        here = constraints.relation == code
        if here.any():
            sense, weight = constraints.sense[here], constraints.weight[here]
            counts = [here.sum(), *((sense == known) for known in SENSES.values()), np.isinf(weight)]
            shown = [f"{int(np.sum(count)):,}" for count in counts]
            ranges = [_range(constraints.bound[here]), _range(weight[np.isfinite(weight)])]
            table.append([relation.name, *shown, *ranges])
    return head, table


def _range(values: np.ndarray) -> str:
    if not len(values):
        return "-"
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def summary_text(constraints: Any) -> str:
    """The number of rows of each relation and the range of their bounds and weights, as text."""
    head, table = _summary(constraints)
    widths = [max(map(len, column)) for column in zip(SUMMARY, *table)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
        for row in (list(SUMMARY), *table)
    ]
    return "\n  ".join([f"Constraints: {head}", *lines])


def summary_html(constraints: Any, max_rows: int = 10) -> str:
    """The same as HTML, with the first constraints in words."""
    head, table = _summary(constraints)
    cells = [[escape(cell) for cell in row] for row in table]
    header = [escape(name) for name in SUMMARY]
    first = "".join(f"<li>{escape(row)}</li>" for row in itertools.islice(constraints, max_rows))
    more = constraints.n_constraints - max_rows
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return (
        f"<div><p><b>Constraints</b>: {head}</p>{html_table(header, cells)}"
        f'<details><summary>First constraints</summary><ol start="0">{first}</ol>{rest}</details></div>'
    )
