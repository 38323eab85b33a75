"""Texts for messages: row numbers, entries, and the given value."""

from __future__ import annotations

from numbers import Number, Real
from typing import Any

import numpy as np

Labels = tuple[list[Any], list[Any]] | None  # of rows and columns, from a DataFrame


def rows_text(rows: np.ndarray, most: int = 5) -> str:
    """The first few of the given row numbers: "rows 0, 3 and 2 more"."""
    head = ", ".join(str(int(r)) for r in rows[:most])
    return f"row{'s' if len(rows) > 1 else ''} {head}" + (f" and {len(rows) - most} more" if len(rows) > most else "")


def entry_text(i: Any, j: Any, labels: Labels = None) -> str:
    """An entry by its indices, and by its labels if there are any."""
    place = f"[{int(i)}, {int(j)}]"
    return place if labels is None else f"{place} ({labels[0][int(i)]!r}, {labels[1][int(j)]!r})"


def given_text(value: Any) -> str:
    """The given value, or its type."""
    if value is None or isinstance(value, str | bytes | Real):
        return repr(value)
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ + (f" with dtype {dtype}" if dtype is not None else "")


def not_numbers_text(values: Any, array: np.ndarray, most: int = 5) -> str:
    """The first columns of a table with an entry that is no number, with the first such entry of each."""
    if array.ndim != 2:
        return ""
    names, found = list(getattr(values, "columns", range(array.shape[1]))), []
    hint = ""
    for name, column in zip(names, array.T):
        for row, value in enumerate(column):
            if value is not None and not isinstance(value, Number | np.bool_):
                found.append(f"{name!r} ({value!r} in row {row})")
                if isinstance(value, str) and hasattr(values, "columns"):
                    hint = "; encode columns of words, for example with sklearn.preprocessing.OneHotEncoder"
                break
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f", in column{'s' if len(found) > 1 else ''} {', '.join(found[:most])}{more}{hint}" if found else ""
