"""Checks of arguments: numbers, choices, limits, columns, matrices. Checks of points are in :mod:`bregmat.base.points`.

``check_*`` functions only raise. ``as_*`` functions return the converted argument: the given array itself if nothing had to be
converted (callers that write into it pass ``copy=True``). A message names the argument, what was expected, what was given, and the
first rows or the entry with the mistake. A wrong kind (text, complex numbers, truth values in place of numbers) is a ``TypeError``, a
wrong shape or value a ``ValueError``. Nothing is dropped or converted silently.
"""

from bregmat.base.checks.arrays import as_column, as_numbers, as_row, as_rows, check_finite
from bregmat.base.checks.matrices import (
    NEGATIVITY,
    SINGLE_SYMMETRY,
    SYMMETRY,
    as_matrix,
    asymmetry,
    check_psd,
    is_exactly_symmetric,
    largest_entry,
)
from bregmat.base.checks.messages import Labels, entry_text, rows_text
from bregmat.base.checks.scalars import (
    as_choice,
    check_flag,
    check_integer,
    check_limits,
    check_number,
    check_positive,
    check_share,
)

__all__ = [
    "Labels",
    "NEGATIVITY",
    "SINGLE_SYMMETRY",
    "SYMMETRY",
    "as_choice",
    "as_column",
    "as_matrix",
    "as_numbers",
    "as_row",
    "as_rows",
    "asymmetry",
    "check_finite",
    "check_flag",
    "check_integer",
    "check_limits",
    "check_number",
    "check_positive",
    "check_psd",
    "check_share",
    "entry_text",
    "is_exactly_symmetric",
    "largest_entry",
    "rows_text",
]
