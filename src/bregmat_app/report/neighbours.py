"""Points whose nearest neighbours changed: held-out points if classes are known, else all."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from bregmat.base.html import SUMMARY_COLUMNS
from bregmat.plots._style import sample_rows
from bregmat_app.report.data import ReportData, counted
from bregmat_app.report.held_out import HeldOut

SHOWN = 4  # points that improved, and as many that got worse
N_NEIGHBORS = 5  # compared if no classes are known
MOST_POINTS = 5000  # larger data is sampled


def neighbours_by_class(data: ReportData, held_out: HeldOut) -> dict[str, Any]:
    """Points that are classified correctly, or wrongly, only after learning, with their nearest points before and after."""
    gained, lost = held_out.changed()
    k = held_out.best_without
    word = SUMMARY_COLUMNS[k]
    lead = (
        f"{counted(len(gained), 'point')} got the right class only by the learned metric, {counted(len(lost), 'point')} only with "
        f"columns {word}: each point was held out once, and its neighbours are those among the points learned from."
    )
    rows = []
    for points in (gained, lost):
        for row in points[:SHOWN].tolist():
            cells = [f"{data.row_name(row)} ({data.class_name(held_out.labels[row])})"]
            for kind in (k, 2):
                near = int(held_out.nearest[kind, row])
                verdict = "right" if held_out.predicted[kind, row] == held_out.labels[row] else "wrong"
                cells.append(f"{data.row_name(near)} ({data.class_name(held_out.labels[near])}); {verdict}")
            rows.append(tuple(cells))
    header = ("point (class)", f"nearest, {word}", "nearest, learned")
    voted = f"right or wrong says what the {held_out.n_neighbors} nearest decide together"
    return {"lead": lead, "header": header, "rows": rows, "note": f"Nearest neighbour and its class; {voted}."}


def neighbours_by_distance(data: ReportData) -> dict[str, Any] | None:
    """How many of the nearest points change by learning, and the points for which most do; None with one point only."""
    n = len(data.mapped)
    chosen = sample_rows(n, MOST_POINTS)
    k = min(N_NEIGHBORS, len(chosen) - 1)
    if k < 1:
        return None
    before, learned = (
        NearestNeighbors(n_neighbors=k).fit(G[chosen]).kneighbors(return_distance=False)
        for G in (data.scaled, data.mapped)
    )
    kept = (before[:, :, None] == learned[:, None, :]).any(axis=2).sum(axis=1)
    lead = (
        f"Of the {k} nearest neighbours of a point with columns scaled, {kept.mean():.1f} on average are among its {k} nearest by the "
        "learned metric, too. Points with the most new ones:"
    )
    rows = [
        (
            data.row_name(int(chosen[row])),
            ", ".join(data.row_name(int(j)) for j in chosen[before[row]]),
            ", ".join(data.row_name(int(j)) for j in chosen[learned[row]]),
        )
        for row in np.argsort(kept, kind="stable")[:SHOWN].tolist()
    ]
    is_sample = len(chosen) < n
    among = f"Among {len(chosen):,} points drawn at random; nearest first." if is_sample else "Nearest first."
    return {"lead": lead, "header": ("point", "nearest, scaled", "nearest, learned"), "rows": rows, "note": among}
