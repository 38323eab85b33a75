"""The page: its sections, each a function that returns the values of its template."""

from __future__ import annotations

from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat import __version__
from bregmat.base.html import FEWER_MET, SUMMARY_COLUMNS, measured, number
from bregmat.engine.result import verdict
from bregmat.plots import EmbeddingDisplay
from bregmat.plots._style import MARKERS
from bregmat_app.report.data import TOLERANCE, ReportData, counted
from bregmat_app.report.pictures import picture

if TYPE_CHECKING:
    from jinja2 import Environment


WORST = 10

_SENSE_TEXT = ((1, "“at most” (similar pairs)"), (-1, "“at least” (dissimilar pairs)"), (0, "“exactly”"))
_MARKERS = dict(zip((*MARKERS, "."), "●■▲◆▼✚✖◀▶⬟•"))


def render_report(data: ReportData) -> str:
    """Render the report as one HTML document, which loads nothing from elsewhere and opens offline.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_metric
    >>> from bregmat_app.report import ReportData, render_report
    >>> X, rows = np.eye(3), Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> render_report(ReportData("Three points", nearest_metric(X, rows), X, rows)).splitlines()[0]
    '<!DOCTYPE html>'
    """
    page = _templates().get_template("page.html")
    return page.render(
        data=data,
        headline=headline(data),
        verdict=verdict(data.result),
        sections=sections(data),
        version=__version__,
    )


@cache
def _templates() -> Environment:
    """Return the templates; they escape every value."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('a report needs Jinja2: pip install "bregmat[plot]"') from error
    return Environment(
        loader=PackageLoader("bregmat_app.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def headline(data: ReportData) -> list[str]:
    """State the outcome in one or two sentences."""
    held_out = data.held_out
    if held_out is None and data.constraints is None:
        return ["The metric was learned from classes, without constraints."]
    if held_out is None:
        n_met = int((np.asarray(data.result.violation) <= TOLERANCE).sum()) if data.result.violation is not None else 0
        assert data.constraints is not None
        count = data.constraints.n_constraints
        return [f"The learned metric agrees with {n_met:,} of {counted(count, 'statement')} ({n_met / count:.0%})."]
    before, among_scaled, after = (f"{value:.1%}" for value in held_out.accuracy)
    better, equal, worse = held_out.compared()
    known = ("the points as given", "scaled columns")[held_out.best_without]
    first = (
        f"Of points that took no part in learning, {after} get the right class from their {held_out.n_neighbors} nearest neighbours: "
        f"{before} with columns as given, {among_scaled} with columns scaled."
    )
    if not held_out.accuracy[2] > max(held_out.accuracy[:2]):
        return [first, f"On these folds the learned metric is not better than {known}."]
    tied = f", is as good in {equal}" if equal else ""
    return [
        first,
        f"The learned metric beats {known} in {better} of {len(held_out.scores)} folds{tied} and loses in {worse}.",
    ]


def sections(data: ReportData) -> list[SimpleNamespace]:
    """Return all sections in order; without a usable matrix none that shows points."""
    is_usable = np.isfinite(data.mapped).all()
    chosen: tuple[Any, ...] = (_summary, *((_embedding, _violations) if is_usable else ()), _certificate, _learned)
    return [section for make in chosen if (section := make(data)) is not None]


def _summary(data: ReportData) -> SimpleNamespace | None:
    if not len(data.summary):
        return None
    soft = ""
    if data.has_hard is False:
        soft = (
            "Constraints with slack may be violated at a cost. Many ask for more than any metric can give, so a low share of them met is "
            "no failure; what counts is the gain on held-out points. Where fewer are met than before learning, "
            f"{FEWER_MET}. “Proven optimal” says that no other matrix has a smaller sum of the cost of violated constraints and the "
            "distance to the prior."
        )
    compared = "" if data.held_out is None else " ± is the standard deviation over folds."
    rows = [(name, *map(measured, values)) for name, *values in data.summary]
    return _section(
        "summary", "Before and after", header=("", *SUMMARY_COLUMNS), rows=rows, soft=soft, compared=compared
    )


def _embedding(data: ReportData) -> SimpleNamespace:
    display = EmbeddingDisplay.from_data(data.points, data.mapped, data.y, scaled=data.scaled, draw=False)
    pictures = [
        picture(partial(display.plot_view, view), name=f"embedding-{k}", size=(3.6, 3.5), alt=f"The points, {view}")
        for k, view in enumerate(SUMMARY_COLUMNS)
    ]
    m, n = len(display.before), data.X.shape[0]
    sampled = f" {m:,} of the {n:,} points are drawn." if m < n else ""
    caption = (
        "The first two principal components of the points as given, with columns scaled, and after the learned map. Units are equal on "
        f"both axes. The axis labels contain their share of the variance.{sampled}"
    )
    legend = [(name, color, _MARKERS[marker]) for name, color, marker in display.legend_entries()]
    return _section("embedding", "The points in two dimensions", pictures=pictures, caption=caption, legend=legend)


def _violations(data: ReportData) -> SimpleNamespace | None:
    c = data.constraints
    if c is None:
        return None
    # if the prior scales columns, bounds drawn from labels have the units of scaled columns
    start = data.scaled if getattr(data.learner, "prior_", None) == "variance" else data.points
    before, violation = c.violation(start), c.violation(data.mapped)
    broken = int((~(violation <= TOLERANCE)).sum())  # counts NaN, too
    rows: list[tuple[Any, ...]] = []
    if broken:
        worst = np.argsort(-violation, kind="stable")[: min(WORST, broken)]
        value = c.select(worst).values(data.mapped).tolist()
        for row, x in zip(worst.tolist(), value):
            texts = number(x), number(float(before[row]), 3), number(float(violation[row]), 3)
            rows.append((row, c.describe(row, data.sample_id), *texts))
        cost = " A constraint with slack may be violated at a cost, which is part of the objective."
        lead = (
            f"{broken:,} of {c.n_constraints:,} constraints are violated by more than a relative {TOLERANCE:g}."
            f"{'' if data.has_hard else cost} The {len(rows)} worst, by number of the constraint:"
        )
    else:
        all_rows = "The constraint is" if c.n_constraints == 1 else f"All {c.n_constraints:,} constraints are"
        lead = f"{all_rows} met (to a relative {TOLERANCE:g})."
    named_by = "their sample ids" if data.sample_id is not None else "their row in the data, counted from 0"
    return _section("violations", "Worst violated constraints", lead=lead, rows=rows, named_by=named_by)


def _certificate(data: ReportData) -> SimpleNamespace:
    rows = data.result.certificate_rows(data.has_hard)
    return _section("certificate", "Certificate", proof=data.result.proof_text(), rows=rows)


def _learned(data: ReportData) -> SimpleNamespace:
    n, d = data.X.shape
    c = data.constraints
    settings = [(name, number(value)) for name, value in data.settings.items()]
    if c is None:
        lead = (
            f"From the classes of {n:,} points with {d:,} features, a positive semidefinite matrix was learned: a linear map of the points "
            "after which a point is likely to be nearest to one of its own class, while the matrix stays close to where it started."
        )
        return _section("learned", "What was learned", lead=lead, kinds=[], settings=settings)
    counts = np.bincount(c.relation, minlength=len(c.relations))
    kinds = []
    for relation, count in zip(c.relations, counts):
        if not count:
            continue
        text = f"{count:,} {relation.one if count == 1 else relation.many}"
        if relation.is_sq_distance:
            senses = c.sense[c.where("is_sq_distance")]
            parts = [
                f"{int((senses == sense).sum()):,} {name}" for sense, name in _SENSE_TEXT if (senses == sense).any()
            ]
            text += f": {', '.join(parts)}"
        kinds.append(text)
    lead = (
        f"From {n:,} points with {d:,} features and {counted(c.n_constraints, 'statement')} about them, a positive semidefinite matrix "
        "was learned: a linear map of the points after which ordinary Euclidean distances agree with the statements as far as possible, "
        "while the matrix stays as close to where it started as they permit."
    )
    return _section("learned", "What was learned", lead=lead, kinds=kinds, settings=settings)


def _section(name: str, heading: str, **content: Any) -> SimpleNamespace:
    """The name, heading and values of a section; the template has its name."""
    return SimpleNamespace(name=name, heading=heading, template=f"{name}.html", **content)
