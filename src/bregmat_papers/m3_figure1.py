"""Sha 2002, Figure 1: the coefficients after few updates, with training and test error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bregmat_papers.drawing import NEUTRAL, SIMILAR, tidy
from bregmat_papers.experiments import DataHome, Experiment, Finding, Outcome, Row, Size, Unit
from bregmat_papers.m3 import PREPARATION, coefficients_after, exact_machine, kernel, n_errors, train_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STOPS = (0, 1, 2, 4, 8, 16, 32, 64)
PAPER = {  # percent
    "training": (2.9, 2.4, 1.1, 0.5, 0.0, 0.0, 0.0, 0.0),
    "test": (3.6, 2.2, 4.4, 4.4, 4.4, 4.4, 4.4, 4.4),
}
SIGMA = 3.0


def units(size: Size) -> list[Unit]:
    if size is Size.SMALL:
        return [{"data": "bundled", "seed": seed} for seed in range(2)]
    return [{"data": "breast cancer", "seed": seed} for seed in range(20 if size is Size.DEFAULT else 200)]


def run(unit: Unit, data: DataHome) -> Outcome:
    part = train_test(data, unit["data"], unit["seed"])
    K = kernel("radial", SIGMA, part.X, part.X)
    K_test = kernel("radial", SIGMA, part.X_test, part.X)
    steps = coefficients_after(K, part.y, STOPS)
    outcome: Outcome = {
        "training": [n_errors(K, alpha, part.y, part.y) / len(part.y) for alpha in steps.values()],
        "test": [n_errors(K_test, alpha, part.y, part.y_test) / len(part.y_test) for alpha in steps.values()],
        "objective": [float(0.5 * (a * part.y) @ K @ (a * part.y) - a.sum()) for a in steps.values()],
    }
    if unit["seed"] == 0:  # the split that is drawn
        best = exact_machine(K, part.y)
        outcome |= {
            "coefficients": [np.round(alpha, 8).tolist() for alpha in steps.values()],
            "support": (best.alpha > 0).tolist(),
            "gap": best.gap,
        }
    return outcome


def table(findings: list[Finding]) -> list[Row]:
    rows = []
    seed, paper = findings[0][0]["seed"], findings[0][0]["data"] == "breast cancer"
    for part in ("training", "test"):
        for k, stop in enumerate(STOPS):
            percent = [100.0 * outcome[part][k] for _, outcome in findings]
            theirs = PAPER[part][k] if paper else None
            rows.append(Row.mean(f"{part} error after {stop} updates", percent, paper=theirs, unit="%", seed=seed))
    first = findings[0][1]
    note = f"of {len(first['support'])}, split {seed}; exact solution, certified gap {first['gap']:.0e}"
    rows.append(Row("support vectors", float(np.sum(first["support"])), note=note, seed=seed))
    return rows


def draw(figure: Figure, findings: list[Finding]) -> None:
    """One panel per number of updates, support vectors on the left; the first split."""
    outcome = findings[0][1]
    coefficients, support = np.array(outcome["coefficients"]), np.array(outcome["support"])
    order = np.lexsort((-coefficients[-1], ~support))
    colors = np.where(support, SIMILAR, NEUTRAL)[order]
    axes = figure.subplots(len(STOPS), 1, sharex=True)
    for panel, stop, alpha, training, test in zip(axes, STOPS, coefficients, outcome["training"], outcome["test"]):
        panel.vlines(np.arange(len(order)), 0.0, alpha[order], colors=colors, linewidth=0.6)
        panel.set_title(f"iteration {stop}", loc="left", fontsize="medium")
        panel.set_title(f"train error {training:.1%}, test error {test:.1%}", loc="right", fontsize="medium")
        panel.set_ylabel("α", rotation=0, labelpad=8, fontsize="large")
        panel.set_ylim(0.0, 1.15 * max(float(alpha.max()), 1e-12))
        tidy(panel)
    axes[0].plot([], [], color=SIMILAR, label=f"{support.sum()} support vectors")
    axes[0].plot([], [], color=NEUTRAL, label=f"{(~support).sum()} no support vectors")
    axes[0].legend(frameon=False, fontsize="small")
    axes[-1].set_xlabel("training example, support vectors first")


EXPERIMENT = Experiment(
    module=__name__,
    name="m3-figure1",
    title="Coefficients after 0 to 64 multiplicative updates",
    source="Sha, Saul and Lee 2002, Figure 1",
    verdict="reproduced, as a mean over splits; the paper's split is not published",
    headline=("test error after 64 updates",),
    protocol=f"""Breast cancer, 546 of the 683 complete rows to train on, radial kernel with sigma = 3, the updates of eq. 7.
The picture shows one random split, ordered as in the paper with the support vectors (of the exact solution) on the left; the
table has the mean over random splits. {PREPARATION}""",
    discussion="""As in the paper, one or two updates make a classifier about as good as the final one, and the coefficients of
most other examples are gone after a few. The paper's split is not published and its numbers are those of one split of 137 test
rows (one error is 0.7 %), so its test errors are compared with a mean.""",
    units=units,
    run=run,
    table=table,
    draw=draw,
    figsize=(7.0, 11.0),
)
