"""Figure 1, left, of Kulis 2009: clusterings of 317 digits by a learned kernel against the number of constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bregmat_papers.clustering import averaged, digits, draw_pairs, knn_accuracy, learned_features, nmi, pair_bounds
from bregmat_papers.drawing import COLORS, DIVERGENCES, MARKERS, NEUTRAL, mean_line, tidy
from bregmat_papers.experiments import DataHome, Experiment, Finding, Outcome, Row, Size, Unit, select

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# reading -> number of labelled points of which pairs are drawn (None: all), whether the data are centred first
READINGS: dict[str, tuple[int | None, bool]] = {
    "any two points": (None, False),
    "any two points, centred data": (None, True),
    "two of 25 labelled points": (25, False),
}
MAIN = "any two points"


def units(size: Size) -> list[Unit]:
    """One sample of digits with one draw of pairs each: both divergences, all numbers of constraints."""
    runs = {Size.SMALL: 2, Size.DEFAULT: 20, Size.FULL: 50}[size]
    name = "digits389" if size is Size.SMALL else "pendigits389"
    grid = {Size.SMALL: [0, 40, 120], Size.DEFAULT: list(range(0, 141, 20)), Size.FULL: list(range(0, 141, 10))}[size]
    plan = {"data": name, "counts": grid, "starts": 10}
    return [{**plan, "reading": reading, "sample": s, "seed": s} for reading in READINGS for s in range(runs)]


def run(unit: Unit, data: DataHome) -> Outcome:
    """Kernels, clusterings and neighbours of one draw."""
    X, y = digits(data, unit["data"], unit["sample"])
    labelled, centred = READINGS[unit["reading"]]
    X = X - X.mean(axis=0) if centred else X
    i, j = draw_pairs(X, max(unit["counts"]), unit["seed"], labelled=labelled)
    outcome: Outcome = {}
    for divergence in DIVERGENCES:
        parts: dict[str, list] = {name: [] for name in ("best", "single", "knn", "status", "gap")}
        for count in unit["counts"]:
            features, status, gap = X, "", 0.0
            if count:
                features, status, gap = learned_features(X, pair_bounds(X, y, i[:count], j[:count]), divergence, np.inf)
            best, single = nmi(features, y, unit["starts"], unit["seed"])
            accuracy = knn_accuracy(features, y, unit["seed"])
            for part, value in zip(parts.values(), (best, single, accuracy, status, gap), strict=True):
                part.append(value)
        outcome[divergence] = parts
    return outcome


def table(findings: list[Finding]) -> list[Row]:
    """The ends of the curves beside the paper's, and what other readings give."""
    rows: list[Row] = []
    for reading in READINGS:
        some = select(findings, reading=reading)
        counts, last = some[0][0]["counts"], some[0][0]["counts"][-1]
        whole = [0, *range(1, len(counts))] if reading == MAIN else [len(counts) - 1]
        for divergence, words in DIVERGENCES.items():
            for k in whole:
                if k == 0 and divergence != "logdet":
                    continue
                paper = {0: 0.45, 140: 0.85}.get(counts[k]) if reading == MAIN else None
                what = f"NMI, {words}, {counts[k]} constraints" if k else "NMI, no constraints"
                note = "" if paper is None else "The paper's value is read off its plot."
                values = [outcome[divergence]["best"][k] for _, outcome in some]
                rows.append(averaged(_named(what, reading), values, some, paper=paper, note=note))
    some = select(findings, reading=MAIN)
    last, original = some[0][0]["counts"][-1], [outcome["logdet"] for _, outcome in some]
    single = [outcome["single"][0] for outcome in original]
    rows.append(averaged("NMI, no constraints, a single start of k-means", single, some, paper=0.45))
    for divergence, words in DIVERGENCES.items():
        single = [outcome[divergence]["single"][-1] for _, outcome in some]
        what = f"NMI, {words}, {last} constraints, a single start of k-means"
        rows.append(averaged(what, single, some, paper=0.85 if last == 140 else None))
    start = [outcome["best"][0] for outcome in original]
    for word, value in (("lowest", min(start)), ("highest", max(start))):
        rows.append(Row(f"NMI, no constraints, {word} of the samples of digits", value, repeats=len(start)))
    accuracy = [100 * outcome["knn"][0] for outcome in original]
    rows.append(averaged("5-NN accuracy, no constraints", accuracy, some, paper=94.0, unit="%"))
    for word, value in (("lowest", min(accuracy)), ("highest", max(accuracy))):
        rows.append(Row(f"5-NN accuracy, no constraints, {word} of the samples", value, unit="%", repeats=len(start)))
    for divergence, words in DIVERGENCES.items():
        values = [100 * outcome[divergence]["knn"][-1] for _, outcome in some]
        note = "The paper does not say how many constraints its value belongs to."
        rows.append(
            averaged(f"5-NN accuracy, {words}, {last} constraints", values, some, paper=97.0, unit="%", note=note)
        )
    short = sum(outcome[d]["status"].count("INFEASIBLE") for _, outcome in findings for d in DIVERGENCES)
    total = sum(len([s for s in outcome[d]["status"] if s]) for _, outcome in findings for d in DIVERGENCES)
    note = "Proven; these were solved with slack weight 100."
    rows.append(Row("sets of constraints that no kernel of that rank meets", short, repeats=total, note=note))
    return rows


def _named(what: str, reading: str) -> str:
    return what if reading == MAIN else f"{what}; {reading}"


def draw(figure: Figure, findings: list[Finding]) -> None:
    """The paper's axes on the left, the nearest neighbours of its text on the right."""
    left, right = figure.subplots(1, 2)
    some = select(findings, reading=MAIN)
    counts = some[0][0]["counts"]
    for divergence, words in DIVERGENCES.items():
        style = {"color": COLORS[divergence], "marker": MARKERS[divergence]}
        for ax, part in ((left, "best"), (right, "knn")):
            values = np.array([outcome[divergence][part] for _, outcome in some])
            mean_line(ax, counts, 100 * values if part == "knn" else values, label=f"{words} Divergence", **style)
        other = select(findings, reading="two of 25 labelled points")
        values = np.array([outcome[divergence]["best"] for _, outcome in other])
        style["color"], style["linestyle"] = COLORS[divergence], ":"
        mean_line(left, counts, values, label=f"{words}, pairs of 25 labelled points", alpha=0.7, **style)
    left.plot(
        [0, 140], [0.45, 0.85], linestyle="none", marker="*", markersize=11, color=NEUTRAL, label="paper, read off"
    )
    left.set(xlabel="Number of Constraints", ylabel="NMI", xlim=(-4, 144))
    left.set_ylim(min(0.4, left.get_ylim()[0]), max(0.9, left.get_ylim()[1]))
    for value, name in ((94, "paper, before"), (97, "paper, after")):
        right.axhline(value, color=NEUTRAL, linestyle="--" if value == 97 else ":", label=f"{name}: {value} %")
    right.set(xlabel="Number of Constraints", ylabel="5-NN accuracy (%)", xlim=(-4, 144))
    right.set_ylim(min(93.5, right.get_ylim()[0]), None)
    left.legend(frameon=False, fontsize="small", loc="lower right")
    right.legend(frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1, 0.13))
    for ax in (left, right):
        tidy(ax, grid="y")


EXPERIMENT = Experiment(
    module=__name__,
    name="digits-nmi",
    title="Digits 3, 8, 9: clusterings by a learned kernel of rank 16",
    source="Kulis 2009, Figure 1 (left) and section 7.1",
    verdict="reproduced",
    headline=(
        "NMI, LogDet, 140 constraints",
        "5-NN accuracy, LogDet, 140 constraints",
    ),
    protocol="""317 of the 3,165 digits 3, 8 and 9 of pendigits, 16 coordinates as in the files; the prior is their
Gram matrix, of rank 16. Random pairs: `d <= 0.75 b` for two points of a class, `d >= 1.25 b` for others, d the
squared distance in the learned kernel and b that of the data. The constraints are hard and the kernels are certified
optima (relative gap 1e-4). Then kernel k-means with three clusters, and normalised mutual information (by the mean of
the two entropies, as in the paper) on all 317 points; classification by five neighbours, one half asking the other
and back.

Left open by the paper, and chosen here:

- Which 317 digits: its sample is not published. Every run has a sample and a draw of pairs of its own (run 0 the
  sample of `load_dataset("pendigits389")`), so that standard errors are over both. Fewer constraints are the first of
  more.
- Of which points pairs are drawn: of all. The text also says that labels are known for a part of the points only;
  pairs of 25 points are the dotted curves.
- Starts of k-means: the best of ten, by its own objective. Rows of "a single start" average over them.
- Whether the data are centred, which only the von Neumann divergence sees: as they are; rows of "centred data" beside
  it.
- How many constraints the 97 % of the neighbours belong to: all of the figure's, here. The neighbours' labels include
  those that the constraints were made of, as in the paper's transductive setting.""",
    discussion="""Both curves end within about a standard error of the paper's and gain most from the first
constraints, as its text says. LogDet is ahead at first, where the paper finds the two comparable: few constraints act
on all directions alike with it, and in proportion to their eigenvalues with von Neumann. The start of the curve lies
above the paper's, and so do the neighbours, before by more than after. The likely reason is the choice of the 317 digits:
from sample to sample of ours both spread by more than the difference (rows "lowest" and "highest"), and the paper's
single sample would lie inside, towards the harder end. A single start of k-means is no better reading: it begins higher
and ends lower, and at 140 constraints its third digit depends on the machine (.8037 and .8051
with two processors' kernels). Nor are pairs of a few labelled points: they end well below. Centring changes little. All draws up to
140 constraints can be met; with 300 or 420 that is no longer so, see digits-convergence.""",
    units=units,
    run=run,
    table=table,
    draw=draw,
    figsize=(10.0, 4.4),
)
