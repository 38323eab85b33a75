"""Which features the distances are made of, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._html import escape, table
from bregmat.plots._style import sample_rows

MOST = 12
MOST_FEATURES = 1000  # beyond this a single feature says little, and the table is left out


def feature_table(points: Any, after: np.ndarray, names: Any) -> list[tuple[str, str, str]]:
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
