"""The sections of a report, each a short function from the data to HTML."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat._html import SUMMARY_COLUMNS, escape, measured, number, table, verdict
from bregmat.estimators.mahalanobis import inverse_deviations
from bregmat.plots import ConvergenceDisplay, EmbeddingDisplay, PairDistanceDisplay, SpectrumDisplay
from bregmat.plots._style import sample_rows
from bregmat.plots.violation import worst_violated
from bregmat.report.data import ReportData
from bregmat.report.pictures import picture

Section = tuple[str, str, str]  # id, heading, HTML
WORST = 20
MOST = 12  # features listed
MOST_FEATURES = 1000  # beyond this a single feature says little, and the table is left out
TOLERANCE = 1e-3  # relative violation up to which a row counts as met, as in Constraints.satisfied

_SENSE_TEXT = ((1, "“at most” (similar pairs)"), (-1, "“at least” (dissimilar pairs)"), (0, "“exactly”"))


def sections(data: ReportData) -> list[Section]:
    """All sections in reading order; without a usable matrix only those that say why."""
    opening = [_learned(data), *_summary(data), _certificate(data)]
    if data.result.status in ("INFEASIBLE", "UNBOUNDED"):
        return [*opening, *_conflict(data)]
    points, after = data.points(), data.mapped()
    if not np.isfinite(after).all():
        return [*opening, _convergence(data)]
    return [
        *opening,
        _embedding(data, points, after),
        *_distances(data, points, after),
        _convergence(data),
        _spectrum(data),
        *_features(points, after, data.feature_names),
        _violations(data, points, after),
    ]


def _learned(data: ReportData) -> Section:
    n, d = data.X.shape
    c = data.constraints
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
    found = data.result.status not in ("INFEASIBLE", "UNBOUNDED")
    lead = (
        f"From {n:,} points with {d:,} features and {_statements(c.n_constraints)} about them, a positive semidefinite "
        "matrix was learned: a linear map of the points after which ordinary Euclidean distances agree with the "
        "statements as far as possible, while the matrix stays as close to where it started as they permit."
        if found
        else f"{_statements(c.n_constraints)} {'was' if c.n_constraints == 1 else 'were'} made about {n:,} points with {d:,} features. "
        "No matrix could be learned from them."
    )
    items = "".join(f"<li>{escape(kind)}</li>" for kind in kinds)
    html = f'<p class="lead">{escape(lead)}</p><p>The statements:</p><ul>{items}</ul>'
    if data.settings:
        rows = [(escape(name), escape(number(value))) for name, value in data.settings.items()]
        html += table(("setting", "value"), rows, name="settings")
    return "learned", "What was learned", html


def _statements(count: int) -> str:
    return "1 statement" if count == 1 else f"{count:,} statements"


def _summary(data: ReportData) -> list[Section]:
    if not len(data.summary):
        return []
    rows = [(escape(name), *(escape(measured(value)) for value in values)) for name, *values in data.summary]
    html = f'<div class="scroll">{table(("", *SUMMARY_COLUMNS), rows, numeric=(1, 2, 3), name="summary")}</div>'
    return [("summary", "Before and after", html)]


def _certificate(data: ReportData) -> Section:
    status = data.result.status
    kind = "good" if status == "OPTIMAL" else "bad"
    rows = [(escape(name), escape(value)) for name, value in data.result.certificate_rows(data.has_hard)]
    html = (
        f'<p><span class="verdict {kind}">{escape(verdict(data.result))}</span></p>'
        f"<p>{escape(data.result.proof_text())}</p>{table(('', ''), rows, name='certificate')}"
    )
    if status == "OPTIMAL" and np.max(data.result.violation, initial=0.0) > TOLERANCE:  # so these rows have slack
        html += (
            '<p class="note">A constraint with slack may be violated at a price, and the price is part of the '
            "objective: violations that remain are the best compromise, not an error.</p>"
        )
    return "certificate", "Certificate", html


def _embedding(data: ReportData, points: Any, after: Any) -> Section:
    svg, display = picture(
        lambda ax: EmbeddingDisplay.from_data(points, after, data.y, unlabeled=data.unlabeled, ax=ax),
        name="embedding", size=(10.0, 4.6), alt="The points in two dimensions before and after the learned map",
    )  # fmt: skip
    m, n = len(display.rows), display.n_points
    sampled = f" {m:,} of the {n:,} points are drawn." if m < n else ""
    caption = (
        "The first two principal components of the points as given and after the learned map. Units are equal on both "
        "axes, so what looks near is near in these two dimensions; the axis labels say how much of the variance they "
        f"hold.{sampled}"
    )
    return "embedding", "Embedding before and after", _figure(svg, caption)


def _distances(data: ReportData, points: Any, after: Any) -> list[Section]:
    is_pair = data.constraints.where("is_sq_distance")
    if not is_pair.any():
        return []
    svg, _ = picture(
        lambda ax: PairDistanceDisplay.from_data(points, after, data.constraints, tol=TOLERANCE, ax=ax),
        name="distances", size=(8.6, 5.6), alt="Squared distances of similar and dissimilar pairs before and after",
    )  # fmt: skip
    caption = (
        "Squared distances of the pairs that were spoken about. Similar pairs (≤) should lie left of their bound, "
        "dissimilar pairs (≥) right of theirs. “Before” is the Euclidean distance of the points as given."
    )
    return [("distances", "Distances before and after", _figure(svg, caption))]


def _convergence(data: ReportData) -> Section:
    history = data.result.history
    if not len(history):
        return "convergence", "Convergence", "<p>The solver kept no history.</p>"
    svg, display = picture(
        lambda ax: ConvergenceDisplay.from_data(history, tol=data.result.tol, ax=ax),
        name="convergence", size=(8.6, 5.4), alt="Objective, proven lower bound, gap and violation by iteration",
    )  # fmt: skip
    caption = (
        "The best objective found so far and the best lower bound proven so far: where they meet, no better matrix is "
        "possible. Below, the relative distance between the two"
        + (", and the largest relative violation of hard constraints." if "violation" in display.lines_ else ".")
    )
    return "convergence", "Convergence", _figure(svg, caption)


def _spectrum(data: ReportData) -> Section:
    svg, display = picture(
        lambda ax: SpectrumDisplay.from_result(data.result, ax=ax),
        name="spectrum", size=(8.6, 4.0), alt="Eigenvalues of the learned matrix and of the prior",
    )  # fmt: skip
    caption = (
        f"Eigenvalues of the learned matrix in its {len(display.learned):,} directions. Above the prior, differences "
        "count more than before; below it, less."
    )
    return "spectrum", "Spectrum of the learned matrix", _figure(svg, caption)


def _features(points: Any, after: np.ndarray, names: Any) -> list[Section]:
    """Share of each feature in the mean squared distance between two points; the largest of both kinds."""
    n, d = points.shape
    if hasattr(points, "tocsr") or not 2 <= d <= MOST_FEATURES:
        return []
    rows = sample_rows(n, 5 * MOST_FEATURES, 0)
    before, learned = feature_shares(points[rows], after[rows])
    if not (np.isfinite(before).all() and np.isfinite(learned).all()):
        return []
    order = np.argsort(-np.maximum(before, learned), kind="stable")
    shown = order[: MOST if d > MOST + 1 else d]
    names = [f"column {k}" for k in range(d)] if names is None else names
    cells = [(escape(names[k]), _percent(before[k]), _percent(learned[k])) for k in shown]
    others = ""
    if d > len(shown):
        rest = [_percent(1 - share[shown].sum()) for share in (before, learned)]
        others = f" The other {d - len(shown):,} features together: {rest[0]} before, {rest[1]} after."
    html = (
        f'<div class="scroll">{table(("feature", "before", "after"), cells, numeric=(1, 2), name="features")}</div>'
        '<p class="note">Share of each feature in the mean squared distance between two points. Before learning, one '
        "feature with large numbers can drown all others. A share below zero means that a feature mostly corrects "
        f"others.{others}</p>"
    )
    return [("features", "What distances are made of", html)]


def feature_shares(X: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the columns of `X` in the mean squared distance, before and after a linear map; each sums to 1.

    With ``after = X B``, ``W = B B'`` and C the covariance of `X`, the mean squared distance after is ``2 tr(W C)``;
    feature f has the diagonal entry f of ``W C`` in it, which is ``sum_k B_fk cov(X_f, after_k)``.
    """
    centred, mapped = X - X.mean(axis=0), after - after.mean(axis=0)
    B = np.linalg.lstsq(centred, mapped, rcond=None)[0]
    # diag(W C) with C read off the points
    learned = (B * (centred.T @ mapped)).sum(axis=1)
    spread = (centred**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # all points equal: no distance to share
        return spread / spread.sum(), learned / learned.sum()


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("-", "−").replace("−0.0%", "0.0%")


def _violations(data: ReportData, points: Any, after: Any) -> Section:
    c = data.constraints
    is_scaled = getattr(data.learner, "prior_", None) == "variance"  # then bounds are in units of scaled columns
    start = points @ sp.diags_array(inverse_deviations(points)) if is_scaled else points
    before, violation = c.violation(start), c.violation(after)
    worst, broken = worst_violated(violation, WORST, TOLERANCE)
    heading = "Worst violated constraints"
    if not broken:
        all_rows = "The constraint is" if c.n_constraints == 1 else f"All {c.n_constraints:,} constraints are"
        return "violations", heading, f"<p>{all_rows} met (to a relative {TOLERANCE:g}).</p>"
    value = c.select(worst).values(after)
    rows = [
        (
            str(int(row)), f"<code>{_describe(data, int(row))}</code>", escape(number(float(value[k]))),
            escape(number(float(before[row]), 3)), escape(number(float(violation[row]), 3)),
        )
        for k, row in enumerate(worst)
    ]  # fmt: skip
    html = (
        f"<p>{broken:,} of {c.n_constraints:,} constraints are violated by more than a relative {TOLERANCE:g}; "
        f"the {len(worst)} worst, by row of the constraints:</p>"
        '<div class="scroll">'
        + table(
            ("row", "constraint", "learned value", "violation before", "after"),
            rows,
            numeric=(2, 3, 4),
            name="violations",
        )
        + '</div><p class="note">Violations are relative: the excess divided by the bound. Points are named by '
        + ("their sample ids" if data.sample_id is not None else "their row in the data, counted from 0")
        + "; <code>sq_dist</code> is a squared distance.</p>"
    )
    return "violations", heading, html


def _conflict(data: ReportData) -> list[Section]:
    rows = data.result.conflict
    if rows is None or not len(rows):
        return []
    cells = [(str(int(row)), f"<code>{_describe(data, int(row))}</code>") for row in rows]
    html = f"<p>No matrix meets these rows together:</p>{table(('row', 'constraint'), cells, name='conflict')}"
    return [("conflict", "Constraints that contradict each other", html)]


def _describe(data: ReportData, row: int) -> str:
    """A constraint row in words, points by their names."""
    return escape(data.constraints.describe(row, data.sample_id))


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
