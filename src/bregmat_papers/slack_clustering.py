"""Figures 3 and 4 of Kulis 2009 for one data set: clusterings and cycles with slack against constraints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bregmat.typing import DivergenceName
from bregmat_papers.clustering import (
    RULES,
    averaged,
    bregman_cycles,
    draw_pairs,
    learned_features,
    nmi,
    pair_bounds,
    stopping_cycles,
)
from bregmat_papers.drawing import COLORS, DIVERGENCES, MARKERS, NEUTRAL, STAR, log_scale, mean_line, tidy
from bregmat_papers.experiments import DataHome, Experiment, Finding, Outcome, Row, Size, Unit, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STOPS = ("movement", "movement_sum")
Matrix = NDArray[np.float64]


def as_given(X: Matrix) -> Matrix:
    """The data as they are."""
    return X


@dataclass(frozen=True)
class Study:
    """What differs between the two data sets.

    Attributes
    ----------
    data, stand_in : str
        Names for ``load_dataset``; the second for the small size, bundled with scikit-learn.
    preparations : dict
        Readings of "a linear kernel over the original data matrix".
    nmi_axis, cycles_axis : (float, float)
        The paper's.
    logarithmic : bool
        Whether cycles are drawn on a logarithmic axis.
    paper_cycles : dict, (divergence, constraints) -> cycles
    weight : float
        Slack weight of the curves, for LogDet; see :func:`weight_of`.
    other_weight : float
        One more, for the largest number of constraints; the full size has more.
    starts : int
        Of k-means.
    runs : dict, Size -> int
    notes : dict, quantity -> note
        Of rows for NMI.
    """

    data: str
    stand_in: str
    preparations: dict[str, Callable[[Matrix], Matrix]]
    nmi_axis: tuple[float, float]
    cycles_axis: tuple[float, float]
    logarithmic: bool = False
    paper_cycles: dict[tuple[DivergenceName, int], float] = field(default_factory=dict)
    weight: float = 1.0
    other_weight: float = 10.0
    starts: int = 10
    runs: dict[Size, int] = field(default_factory=lambda: {Size.SMALL: 2, Size.DEFAULT: 3, Size.FULL: 20})
    notes: dict[str, str] = field(default_factory=dict)


def slack_experiment(study: Study, **texts: Any) -> Experiment:
    """The experiment of one data set; ``texts`` are its name, title, source, protocol and discussion."""

    def run(unit: Unit, data: DataHome) -> Outcome:
        return _outcome(study, unit, data)

    return Experiment(
        units=partial(_units, study),
        run=run,
        table=partial(_table, study),
        draw=partial(_draw, study),
        figsize=(max(9.6, 3.3 * len(study.preparations)), 6.8),
        **texts,
    )


def weight_of(weight: float, divergence: str, shape: tuple[int, ...]) -> float:
    """The slack weight handed over.

    LogDet's slack is relative; von Neumann's is in units of the kernel, whose mean eigenvalue is n / (2 r) times the
    mean squared distance of two points. With that factor a constraint weighs as much against an eigenvalue as with
    LogDet.
    """
    return weight if divergence == "logdet" else weight * shape[0] / (2 * shape[1])


def _units(study: Study, size: Size) -> list[Unit]:
    """One draw of pairs, prepared one way, with one divergence: the curve, or its end with another slack weight."""
    small = size is Size.SMALL
    counts = {Size.SMALL: [0, 30, 90], Size.DEFAULT: [0, 50, 100, 200, 300, 400, 500], Size.FULL: [*range(0, 501, 50)]}
    plan = {"data": study.stand_in if small else study.data, "starts": 3 if small else study.starts}
    grid: list[tuple[float, list[int], int, int]] = [
        (study.weight, counts[size], study.runs[size], 1_000 if small else 2_000 if size is Size.DEFAULT else 6_000)
    ]
    if not small:
        others = {study.other_weight} if size is Size.DEFAULT else {0.1, 1.0, 10.0, 100.0}
        runs = 2 if size is Size.DEFAULT else 5
        grid += [(weight, counts[size][-1:], runs, 1_000) for weight in sorted(others - {study.weight})]
    return [
        {
            **plan,
            "preparation": preparation,
            "divergence": divergence,
            "weight": weight,
            "counts": each,
            "most": max_cycles,
        }
        | {"seed": seed}
        for weight, each, runs, max_cycles in grid
        for preparation in study.preparations
        for divergence in DIVERGENCES
        for seed in range(runs)
    ]


def _outcome(study: Study, unit: Unit, data: DataHome) -> Outcome:
    """Clusterings by the certified kernel, and cycles of Bregman's algorithm on the same problem."""
    table, divergence = data.table(unit["data"]), unit["divergence"]
    X, y = study.preparations[unit["preparation"]](table.X), table.y
    weight = weight_of(unit["weight"], divergence, X.shape)
    i, j = draw_pairs(X, max(unit["counts"]), unit["seed"])
    outcome: dict[str, list[Any]] = {name: [] for name in ("best", "single", "gap", *STOPS)}
    for count in unit["counts"]:
        features, gap, seen = X, 0.0, dict.fromkeys(STOPS, 0)
        if count:
            rows = pair_bounds(X, y, i[:count], j[:count])
            features, _, gap = learned_features(X, rows, divergence, weight)
            seen = stopping_cycles(bregman_cycles(X, rows, divergence, weight), unit["most"], rules=STOPS)
        best, single = nmi(features, y, unit["starts"], unit["seed"])
        values = (best, single, gap, *(seen[rule] for rule in STOPS))
        for part, value in zip(outcome.values(), values, strict=True):
            part.append(value)
    return outcome


def _table(study: Study, findings: list[Finding]) -> list[Row]:
    """Ends and middle of every curve, all cycles of the largest number of constraints."""
    rows: list[Row] = []
    for preparation in study.preparations:
        for divergence, words in DIVERGENCES.items():
            some = select(findings, preparation=preparation, divergence=divergence, weight=study.weight)
            counts, max_cycles = some[0][0]["counts"], some[0][0]["most"]
            for k in (0, len(counts) // 2, len(counts) - 1):
                if k == 0 and divergence != "logdet":
                    continue
                for part, start in (("best", "best start"), ("single", "a single start")):
                    what = f"NMI, {words}, {counts[k]} constraints" if k else "NMI, no constraints"
                    what = f"{what}, {start} of k-means; {preparation}"
                    values = [outcome[part][k] for _, outcome in some]
                    rows.append(averaged(what, values, some, note=study.notes.get(what, "")))
            rows += _cycle_rows(study, some, f"{words}", preparation, max_cycles)
    for weight in sorted({unit["weight"] for unit, _ in findings} - {study.weight}):
        for preparation in study.preparations:
            for divergence, words in DIVERGENCES.items():
                some = select(findings, preparation=preparation, divergence=divergence, weight=weight)
                end = f"{words}, slack weight {weight:g}"
                count = some[0][0]["counts"][-1]
                for part, start in (("best", "best start"), ("single", "a single start")):
                    what = f"NMI, {end}, {count} constraints, {start} of k-means; {preparation}"
                    rows.append(averaged(what, [outcome[part][-1] for _, outcome in some], some))
                rows += _cycle_rows(study, some, end, preparation, some[0][0]["most"])
    return rows


def _cycle_rows(study: Study, some: list[Finding], words: str, preparation: str, max_cycles: int) -> list[Row]:
    count = some[0][0]["counts"][-1]
    paper = study.paper_cycles.get((some[0][0]["divergence"], count))
    return [
        averaged(
            f"cycles, {words}, {count} constraints, until {RULES[rule]}; {preparation}",
            [outcome[rule][-1] for _, outcome in some],
            some,
            max_cycles=max_cycles,
            paper=paper,
            unit="cycles",
        )
        for rule in STOPS
    ]


def _draw(study: Study, figure: Figure, findings: list[Finding]) -> None:
    """A column for each preparation: Figure 3 above, Figure 4 below."""
    axes = figure.subplots(2, len(study.preparations), squeeze=False, sharex=True, sharey="row")
    for k, preparation in enumerate(study.preparations):
        top, bottom = axes[:, k]
        for divergence in DIVERGENCES:
            some = select(findings, preparation=preparation, divergence=divergence, weight=study.weight)
            _curves(top, bottom, some)
            for (name, count), value in study.paper_cycles.items():
                if name == divergence and count == some[0][0]["counts"][-1]:
                    bottom.plot(count, value, color=COLORS[name], zorder=5, **STAR)
        top.axhspan(*study.nmi_axis, color=NEUTRAL, alpha=0.12, linewidth=0)
        top.set_title(preparation, fontsize="medium")
        bottom.set_xlabel("Number of Constraints")
        for ax in (top, bottom):
            tidy(ax, grid="y")
    axes[0, 0].set_ylabel("NMI Value")
    axes[0, 0].set_ylim(0, max(study.nmi_axis[1] + 0.02, axes[0, 0].get_ylim()[1]))
    axes[1, 0].set_ylabel("Number of Cycles to Converge")
    if study.logarithmic:
        log_scale(axes[1, 0].yaxis, 1, study.cycles_axis[1])
        axes[1, 0].set_ylim(4, study.cycles_axis[1])
    else:
        axes[1, 0].set_ylim(*study.cycles_axis)
    figure.legend(handles=_legend(study), loc="outside lower center", ncols=3, frameon=False, fontsize="small")


def _legend(study: Study) -> list[Any]:
    """What colours, lines and signs mean in both rows."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [
        Line2D([], [], color=COLORS[name], marker=MARKERS[name], markersize=4, label=DIVERGENCES[name])
        for name in DIVERGENCES
    ]
    stars = [
        Line2D([], [], color=COLORS[name], label=f"{DIVERGENCES[name]}, paper: {value:g} cycles", **STAR)
        for (name, _), value in study.paper_cycles.items()
    ]
    dotted: dict[str, Any] = {"color": NEUTRAL, "linestyle": ":"}
    return [
        *lines,
        *stars,
        Patch(color=NEUTRAL, alpha=0.12, linewidth=0, label="range of the paper's axis"),
        Line2D([], [], label="NMI of a single start (solid: the best)", **dotted),
        Line2D([], [], label="stopped by the sum of changes (solid: length)", **dotted),
    ]


def _curves(top: Axes, bottom: Axes, some: list[Finding]) -> None:
    unit = some[0][0]
    counts, divergence = unit["counts"], unit["divergence"]
    style = {"color": COLORS[divergence], "marker": MARKERS[divergence]}
    for part, line in (("best", "-"), ("single", ":")):
        mean_line(top, counts, [f[part] for _, f in some], linestyle=line, **style)
    for rule, line in (("movement", "-"), ("movement_sum", ":")):
        values = [[c or unit["most"] for c in f[rule][1:]] for _, f in some]
        mean_line(bottom, counts[1:], values, linestyle=line, **style)
