"""Sha 2002, Table 1: test errors of the multiplicative updates on sonar and breast cancer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bregmat_papers.experiments import DataHome, Experiment, Finding, Outcome, Row, Size, Unit, select
from bregmat_papers.m3 import PREPARATION, TrainTest, coefficients_after, exact_machine, kernel, n_errors, train_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = [("polynomial", 4.0), ("polynomial", 6.0), ("radial", 0.3), ("radial", 1.0), ("radial", 3.0)]
PAPER = {"sonar": [9.6, 9.6, 7.6, 6.7, 10.6], "breast cancer": [5.1, 3.6, 4.4, 4.4, 4.4]}  # percent
VARIANCES = [0.3, 1.0, 3.0]
STOPS = (256, 512)  # updates; the paper says 512


def units(size: Size) -> list[Unit]:
    if size is Size.SMALL:
        return [{"data": "bundled", "seed": seed} for seed in range(2)]
    splits = 20 if size is Size.DEFAULT else 200
    return [{"data": "sonar", "seed": 0}, *({"data": "breast cancer", "seed": seed} for seed in range(splits))]


def run(unit: Unit, data: DataHome) -> Outcome:
    part = train_test(data, unit["data"], unit["seed"])
    outcome: Outcome = {
        "n_test": len(part.y_test),
        "updates": {},
        "optimum": [],
        "gap": [],
        "objective": {},
        "gain": {},
    }
    for family, parameter in KERNELS:
        K = kernel(family, parameter, part.X, part.X)
        K_test = kernel(family, parameter, part.X_test, part.X)
        for stop, alpha in coefficients_after(K, part.y, STOPS).items():
            outcome["updates"].setdefault(str(stop), []).append(n_errors(K_test, alpha, part.y, part.y_test))
            outcome["objective"].setdefault(str(stop), []).append(_objective(K, part.y, alpha))
            outcome["gain"].setdefault(str(stop), []).append(_gain(K, part.y, alpha))
        best = exact_machine(K, part.y)
        outcome["optimum"].append(n_errors(K_test, best.alpha, part.y, part.y_test))
        outcome["gap"].append(best.gap)
        outcome["objective"].setdefault("optimum", []).append(_objective(K, part.y, best.alpha))
        outcome["gain"].setdefault("optimum", []).append(_gain(K, part.y, best.alpha))
    outcome["variance"] = [_errors_by_variance(part, value) for value in VARIANCES]
    return outcome


def _errors_by_variance(part: TrainTest, value: float) -> int:
    """Errors after the last stop if the paper's numbers are variances, as it calls them."""
    sigma = float(np.sqrt(value))
    alpha = coefficients_after(kernel("radial", sigma, part.X, part.X), part.y, STOPS[-1:])[STOPS[-1]]
    return n_errors(kernel("radial", sigma, part.X_test, part.X), alpha, part.y, part.y_test)


def table(findings: list[Finding]) -> list[Row]:
    rows = []
    for data in dict.fromkeys(unit["data"] for unit, _ in findings):
        chosen = select(findings, data=data)
        seed = chosen[0][0]["seed"]
        for after in (*map(str, STOPS), "optimum"):
            for k, (family, parameter) in enumerate(KERNELS):
                errors = [(f["optimum"] if after == "optimum" else f["updates"][after])[k] for _, f in chosen]
                percent = [100.0 * e / f["n_test"] for e, (_, f) in zip(errors, chosen)]
                where = f"{after} updates" if after != "optimum" else "the optimum"
                one = f"{errors[0]} of {chosen[0][1]['n_test']}"
                notes = [one if len(chosen) == 1 else f"single splits {min(percent):.1f} to {max(percent):.1f}"]
                if after == "optimum":
                    notes.append(f"gap at most {max(f['gap'][k] for _, f in chosen):.0e}")
                paper = PAPER[data][k] if data in PAPER and after == "512" else None
                quantity = f"test error, {data}, {label(family, parameter)}, {where}"
                rows.append(Row.mean(quantity, percent, paper=paper, unit="%", seed=seed, note="; ".join(notes)))
        rows += _loss_rows(data, chosen) + _variance_rows(data, chosen)
    return rows


def _loss_rows(data: str, chosen: list[Finding]) -> list[Row]:
    """How far from converged the last stop is, but for the length of the vector, on which no decision depends."""
    rows = []
    for k, (family, parameter) in enumerate(KERNELS):
        gains = [(f["gain"][str(STOPS[-1])][k], f["gain"]["optimum"][k]) for _, f in chosen]
        below = [100.0 * (1.0 - gain / best) for gain, best in gains]
        quantity = (
            f"gain at the best length, below its maximum, {data}, {label(family, parameter)}, {STOPS[-1]} updates"
        )
        rows.append(Row.mean(quantity, below, unit="%", seed=chosen[0][0]["seed"]))
    return rows


def _variance_rows(data: str, chosen: list[Finding]) -> list[Row]:
    """The other reading of the radial kernels."""
    rows = []
    for k, value in enumerate(VARIANCES):
        percent = [100.0 * f["variance"][k] / f["n_test"] for _, f in chosen]
        quantity = f"test error, {data}, sigma^2 = {value:g}, {STOPS[-1]} updates"
        rows.append(Row.mean(quantity, percent, unit="%", seed=chosen[0][0]["seed"]))
    return rows


def draw(figure: Figure, findings: list[Finding]) -> None:
    """Grouped bars: the paper, 256 updates, 512 updates, the optimum."""
    names = list(dict.fromkeys(unit["data"] for unit, _ in findings))
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for ax, data in zip(axes, names):
        chosen = [outcome for _, outcome in select(findings, data=data)]
        series = {f"{stop} updates": [outcome["updates"][str(stop)] for outcome in chosen] for stop in STOPS}
        series["optimum"] = [outcome["optimum"] for outcome in chosen]
        width, place = 0.2, np.arange(len(KERNELS), dtype=float)
        if data in PAPER:
            ax.bar(place - 1.5 * width, PAPER[data], width, label="paper, 512 updates", color="0.6")
        for k, (name, errors) in enumerate(series.items()):
            percent = 100.0 * np.array(errors, dtype=float) / chosen[0]["n_test"]
            spread = percent.std(axis=0, ddof=1) / np.sqrt(len(chosen)) if len(chosen) > 1 else None
            ax.bar(place + (k - 0.5) * width, percent.mean(axis=0), width, yerr=spread, capsize=2, label=name)
        ax.set_xticks(place, [label(*item) for item in KERNELS])
        ax.set_title(data)
    axes[0].set_ylabel("misclassification rate on the test set (%)")
    axes[-1].legend()


def label(family: str, parameter: float) -> str:
    """As the columns of the table are headed."""
    return f"k = {parameter:g}" if family == "polynomial" else f"sigma = {parameter:g}"


def _gain(K: np.ndarray, y: np.ndarray, alpha: np.ndarray) -> float:
    """What the loss of eq. 6 falls below 0 at the best multiple of alpha."""
    return float(alpha.sum() ** 2 / (2.0 * (alpha * y) @ K @ (alpha * y)))


def _objective(K: np.ndarray, y: np.ndarray, alpha: np.ndarray) -> float:
    """The loss of eq. 6."""
    return float(0.5 * (alpha * y) @ K @ (alpha * y) - alpha.sum())


EXPERIMENT = Experiment(
    module=__name__,
    name="m3-table1",
    title="Test errors of the multiplicative margin machine",
    source="Sha, Saul and Lee 2002, Table 1",
    verdict=(
        "reproduced on sonar, within two errors of 104; on breast cancer the paper's split is "
        "unknown and lies inside the range of ours"
    ),
    headline=("test error, sonar, sigma = 0.3, 512 updates",),
    protocol=f"""Hard-margin machines trained by the multiplicative updates (eq. 7). Sonar has its standard split by aspect
angle, 104 training and 104 test signals. Breast cancer is split at random, 546 of the 683 complete rows to train on; the
paper's split is not published, so ours is repeated. {PREPARATION} Beside the updates: the exact solution, with its certified
gap.""",
    discussion="""Sonar after 512 updates is within two errors of the paper in every column, and after 256 updates it is the
paper's count in every column (9.6 % of 104 is ten errors; 7.6 % is nearest to eight). That 256 was found by
looking, so it explains nothing by itself; but the polynomial kernels and sigma = 3 are far from converged at either number
(rows of the gain), so that the count matters there. The paper calls .3, 1 and 3 variances; taken as such (last rows of sonar)
they do not give its errors. The split of the breast cancer set is unknown: one split has 137
test rows, one error is 0.7 %, and the paper's numbers are those of a single split: all of them lie inside the range of our
single splits. The polynomial kernels are the ones that have not converged after 512 updates there, too.""",
    units=units,
    run=run,
    table=table,
    draw=draw,
    figsize=(10.0, 4.0),
)
