"""Numbers, tables and certificates of results as HTML and plain text, for notebooks and reports."""

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
STATUS_TEXT = {
    "OPTIMAL": "proven optimal",
    "FEASIBLE": "meets the hard constraints, not proven optimal",
    "INFEASIBLE": "proven impossible",
    "UNBOUNDED": "no minimum exists",
    "UNKNOWN": "nothing proven",
}


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


def listed(items: Iterable[Any], most: int = 8) -> str:
    """The first items as text, and how many more there are."""
    names = [str(item) for item in items]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def proof_text(result: Any) -> str:
    """What the certificate proves about the point, as one or two plain sentences (not escaped).

    ``result.noun`` names the unknown; its last word is the short form. With ``result.has_priced_errors``, errors have a cost instead of
    being forbidden, and ``max_violation`` is that of the optimality conditions.
    """
    noun, soft = result.noun, result.has_priced_errors
    short = noun.split()[-1]
    status = result.status
    if status == "INFEASIBLE":
        rows = result.conflict
        which = f" Constraints {listed(rows)} contradict each other." if rows is not None and len(rows) else ""
        if soft:
            return f"No {noun} without errors exists: this is proven, not a failure of the search."
        return f"No {noun} meets all hard constraints: this is proven, not a failure of the search.{which}"
    if status == "UNBOUNDED":
        return f"The objective can be made as small as one likes, so no best {short} exists."
    objective, bound = number(result.objective, 7), number(result.dual_bound, 7)
    bounded = math.isfinite(result.dual_bound)
    if status == "OPTIMAL":
        return (
            f"The {short} found has objective {objective}. Every {short} allowed in this problem has at least {bound}: "
            "that lower bound is computed from the multipliers alone, whatever the search did. So no other "
            f"{short} is better by more than {number(max(float(result.gap), 1e-15), 2)} of the objective."
        )
    known = f" No {short} can be below {bound}; this one is at {objective}." if bounded else " No lower bound is known."
    if soft:
        return f"That the {short} is the best one is not proven to the tolerance asked for.{known}"
    if status == "FEASIBLE":
        return (
            f"The {short} meets the hard constraints; that it is the best one is not proven to the tolerance asked for."
            f"{known}"
        )
    if result.max_violation == 0 and result.objective == math.inf:
        return (
            "The search stopped before anything was proven: soft constraints have values at which their loss is infinite. A positive bound "
            f'with ">=" or "==" asks for a positive value; where constraints contradict each other in this, use loss=SquaredHinge().{known}'
        )
    return (
        "The search stopped before anything was proven: hard constraints are still violated, by up to "
        f"{number(result.max_violation, 2)} of their bounds.{known}"
    )


def certificate_rows(result: Any, has_hard: bool | None = None) -> list[tuple[str, str]]:
    """(name, value) of every number of the certificate, as text (not escaped); `has_hard`: whether there are hard constraints."""
    soft = result.has_priced_errors
    violation = "violation of optimality" if soft else "violation of hard constraints"
    amount = "none"
    if has_hard is False:
        amount = "no hard constraints"
    elif result.max_violation != 0:
        amount = number(result.max_violation, 3) + ("" if soft else " (largest, relative)")
    return [
        ("status", f"{result.status}: {verdict(result)}"),
        *([("left open", result.reason)] if result.reason else []),
        ("exit reason", f"{result.exit_reason}: {result.advice}"),
        ("objective", number(result.objective, 7)),
        ("dual bound", number(result.dual_bound, 7)),
        ("relative gap", number(result.gap, 3)),
        (violation, amount),
        ("solver", result.solver or "–"),
        ("iterations", number(int(result.n_iter))),
        ("time", seconds(float(result.seconds))),
    ]


def verdict(result: Any) -> str:
    """The status in a few words."""
    if result.has_priced_errors and result.status == "FEASIBLE":
        return "not proven optimal"
    return STATUS_TEXT[result.status]


def result_html(result: Any) -> str:
    """A result as an HTML fragment for notebooks: its certificate and what it proves. Colours are inherited from the notebook."""
    left = "text-align:left;padding:1px 14px 1px 0"
    rows = "".join(
        f'<tr><th scope="row" style="{left};font-weight:normal;opacity:.75">{escape(name)}</th>'
        f'<td style="{left}">{escape(value)}</td></tr>'
        for name, value in result.certificate_rows()
    )
    return (
        f'<div class="bregmat-result" style="max-width:46em"><strong>{escape(type(result).__name__)}: '
        f"{escape(verdict(result))}</strong>"
        f'<table style="border-collapse:collapse;margin:.4em 0;color:inherit;background:none">{rows}</table>'
        f'<div style="opacity:.85">{escape(result.proof_text())}</div></div>'
    )


def _is_float(value: Any) -> bool:
    """Whether a value is a Python or NumPy float."""
    return isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f"
