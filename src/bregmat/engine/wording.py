"""Results in words: what kind of result it is, what its certificate proves, and its numbers as text and as HTML for notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bregmat.base.html import escape, listed, number, seconds
from bregmat.engine.status import ExitReason, Status

STATUS_TEXT = {
    "OPTIMAL": "proven optimal",
    "FEASIBLE": "meets the hard constraints, not proven optimal",
    "INFEASIBLE": "proven impossible",
    "UNBOUNDED": "no minimum exists",
    "UNKNOWN": "nothing proven",
}


@dataclass(frozen=True)
class Kind:
    """What distinguishes the results of one kind of problem from others, in words and checks.

    Attributes
    ----------
    noun : str
        The point in sentences; its last word is the short form.
    statuses : frozenset of Status
        Those that results of this kind can have.
    has_priced_errors : bool
        Whether violations cost instead of being forbidden.
    gap_is_ratio : bool
        False: the gap is 0 if only rounding of larger terms separates objective and bound.
    shown : tuple of str
        The attributes in the repr, apart from those that are None.
    advice : mapping from ExitReason to str
        Advice of this kind of problem in place of the general one.
    """

    noun: str = "point"
    statuses: frozenset[Status] = frozenset(Status) - {Status.UNBOUNDED}
    has_priced_errors: bool = False
    gap_is_ratio: bool = True
    shown: tuple[str, ...] = ("objective", "dual_bound", "gap", "max_violation")
    advice: Mapping[ExitReason, str] = field(default_factory=dict)


def proof_text(result: Any) -> str:
    """What the certificate proves about the point, as one or two plain sentences (not escaped).

    The noun of its kind names the unknown; its last word is the short form. If errors have a price, ``max_violation`` is that of
    the optimality conditions.
    """
    kind = result._kind
    noun, soft = kind.noun, kind.has_priced_errors
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
    soft = result._kind.has_priced_errors
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
    if result._kind.has_priced_errors and result.status == "FEASIBLE":
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
