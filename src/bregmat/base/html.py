"""Numbers and tables as HTML and plain text, for notebooks and reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape as _escape
from typing import Any

#: a row of the summary table: name of a measure; its value for the points as given, with scaled columns, and with the learned metric
SummaryRow = tuple[str, Any, Any, Any]
SUMMARY_COLUMNS = ("as given", "scaled", "learned")
FEWER_MET = (
    "they ask for more than any metric can give, for example if the labels depend little on the features. Learning lowers the total "
    "cost of the violations, not their number: many small violations cost less than a few large ones"
)


def escape(text: Any) -> str:
    """Any value as escaped text, safe inside an element or an attribute."""
    return _escape(str(text), quote=True)


def number(value: Any, digits: int = 4) -> str:
    """A number as text with few digits; a dash for None and NaN; other values as they are (not escaped)."""
    if value is None:
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    if getattr(value, "ndim", 0):
        return f"array of shape {value.shape}"
    try:
        x = float(value)
    except (TypeError, ValueError):
        return str(value)
    if math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if x == int(x) and abs(x) < 1e15 and not _is_float(value):
        return f"{int(x):,}"
    if x != 0 and (abs(x) < 1e-3 or abs(x) >= 1e7):
        mantissa, exponent = f"{x:.{max(digits - 2, 1)}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−")
    decimals = max(digits - 1 - math.floor(math.log10(abs(x))), 0) if x else 0
    text = f"{x:,.{decimals}f}".replace("-", "−")
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds(value: float) -> str:
    """A duration in seconds as text, in ms, s or min."""
    if value is None or math.isnan(value):
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.1f} min"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table of cells in HTML; the first column has the names of the rows, and the others are numbers."""
    head = "".join(f'<th scope="col" class="num">{cell}</th>' for cell in header[1:])
    body = ""
    for name, *cells in rows:
        numbers = "".join(f'<td class="num">{cell}</td>' for cell in cells)
        body += f'<tr><th scope="row">{name}</th>{numbers}</tr>'
    return f'<table><thead><tr><th scope="col">{header[0]}</th>{head}</tr></thead><tbody>{body}</tbody></table>'


def measured(value: Any) -> str:
    """A measured value as text: floats from 0 to 1 (fractions and scores) with three digits, others as :func:`number`."""
    is_share = _is_float(value) and not getattr(value, "ndim", 0) and 0 <= value <= 1
    return f"{value:.3f}" if is_share else number(value)


def listed(items: Iterable[Any], max_items: int = 8) -> str:
    """The first items as text, and how many more there are."""
    names = [str(item) for item in items]
    return ", ".join(names[:max_items]) + (f" and {len(names) - max_items} more" if len(names) > max_items else "")


def _is_float(value: Any) -> bool:
    """Whether a value is a Python or NumPy float."""
    return isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f"
