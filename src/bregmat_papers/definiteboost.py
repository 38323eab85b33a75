"""Figure 3 of Tsuda 2004: DefiniteBoost on all pairs closer than a bound."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bregmat import Constraints, DefiniteBoost, MatrixResult, nearest_kernel
from bregmat_papers.drawing import DISSIMILAR, NEUTRAL, SIMILAR, tidy
from bregmat_papers.experiments import DataHome, Experiment, Finding, Outcome, Row, Size, Unit, mean_and_error, select
from bregmat_papers.gyrb_targets import (
    ABOUT,
    CLOSE,
    GENES,
    NOT_PUBLIC,
    SMALL_SIZES,
    TITLES,
    Target,
    gene_target,
    kernel_units,
    neighbour_errors,
    random_halves,
    sq_distances,
    target_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
PROJECTIONS = {"approximate": SIMILAR, "exact": DISSIMILAR}
CROWD = 45  # objects; 980 of their 990 pairs
WORDS = (1, 2, 3, 4, 5, 6, 7, 8)


def units(size: Size) -> list[Unit]:
    """What is known of each target, its runs, the pairs of a crowd, and the gene kernel at other word lengths."""
    small = size is Size.SMALL
    plan = {"iterations": 100, "every": 20} if small else {"iterations": 300, "every": 10}
    plan["divisions"] = 10
    repeats = {Size.SMALL: 2, Size.DEFAULT: 5, Size.FULL: 20}[size]
    runs: list[Unit] = []
    for kernel in kernel_units(SMALL_SIZES if small else None):
        runs.append({"part": "facts", **kernel, "divisions": 10, "seeds": list(range(1, repeats + 1))})
        for projection in PROJECTIONS:
            boost = {"part": "boost", **kernel, "projection": projection, **plan}
            runs += [{**boost, "order": "random", "seed": seed} for seed in range(1, repeats + 1)]
            runs.append({**boost, "order": "by class", "seed": 1})
    if small:
        return runs
    crowd = {"part": "crowd", "projection": "approximate", "iterations": 300}
    return [*runs, crowd, {"part": "words", "kernel": GENES, "words": list(WORDS)}]


def run(unit: Unit, data: DataHome) -> Outcome:
    """One of the four kinds of work."""
    if unit["part"] == "words":
        targets = [gene_target(data, word=word) for word in unit["words"]]
        return {"close": [len(t.close_pairs(0.4 / t.d)[0]) for t in targets]}
    if unit["part"] == "crowd":
        i, j = np.array(list(combinations(range(CROWD), 2)))[:CLOSE].T
        course = _dual_and_bound(boosted(52, (i, j), unit["projection"], unit["iterations"]), 52)
        return {**course, "limit": smallest_dual_objective(52, (i, j))[0]}
    goal = target_of(unit, data)
    pairs = goal.close_pairs(0.4 / goal.d)
    return _facts(goal, pairs, unit) if unit["part"] == "facts" else _boost(goal, pairs, unit)


def _facts(goal: Target, pairs: Pairs, unit: Unit) -> Outcome:
    """What does not depend on DefiniteBoost."""
    lowest, nearest = smallest_dual_objective(goal.d, pairs)
    kernel = nearest.kernel()
    return {
        "d": goal.d,
        "pairs": len(pairs[0]),
        "all_pairs": goal.d * (goal.d - 1) // 2,
        "pairs_half": len(goal.close_pairs(0.2 / goal.d)[0]),
        "alone": goal.d - len(np.unique(np.concatenate(pairs))),
        "target_errors": [_error(goal.K, goal, unit["divisions"], seed) for seed in unit["seeds"]],
        "limit": lowest,
        "limit_error": _tied_error(kernel, goal, unit),
    }


def _tied_error(K: NDArray[np.float64], goal: Target, unit: Unit) -> float:
    """Error of the nearest kernel, whose active rows tie at the bound: the mean over all ways to choose between neighbours that tie."""
    tied = 1e-6  # relative difference below which distances tie: far above the accuracy of the nearest kernel
    distances, errors = sq_distances(K), []
    for seed in unit["seeds"]:
        for k in range(unit["divisions"]):
            training, test = random_halves(len(K), seed, k)
            near = distances[np.ix_(test, training)]
            ties = near <= (1.0 + tied) * near.min(axis=1, keepdims=True)
            wrong = ties & (goal.y[test][:, None] != goal.y[training])
            errors.append(np.mean(wrong.sum(axis=1) / ties.sum(axis=1)))
    return float(np.mean(errors))


def _boost(goal: Target, pairs: Pairs, unit: Unit) -> Outcome:
    """One run, and the errors of its kernels on the way: those of the same run stopped earlier."""
    if unit["order"] == "random":  # of equally violated pairs the first is chosen
        order = np.random.default_rng(unit["seed"]).permutation(len(pairs[0]))
        pairs = pairs[0][order], pairs[1][order]
    positions, errors = list(range(0, unit["iterations"] + 1, unit["every"])), []
    for steps in positions:
        kernel = boosted(goal.d, pairs, unit["projection"], steps).kernel() if steps else np.eye(goal.d) / goal.d
        errors.append(_error(kernel, goal, unit["divisions"], unit["seed"]))
    course = _dual_and_bound(boosted(goal.d, pairs, unit["projection"], unit["iterations"]), goal.d)
    return {**course, "position": positions, "error": errors}


def _problem(d: int, pairs: Pairs) -> Constraints:
    """``tr(W X_j) <= 0.2 / d``, where X_j carries 1/2, at trace one."""
    return Constraints.sq_distance(*pairs, 0.4 / d, "<=") + Constraints.trace(1.0)


def boosted(d: int, pairs: Pairs, projection: str, steps: int) -> MatrixResult:
    """DefiniteBoost as published: the most violated row, no corrections; so many steps, or fewer where all rows hold."""
    settings = DefiniteBoost(projection=projection, corrected=False, block=steps)  # type: ignore[arg-type]
    return nearest_kernel(
        np.eye(d) / d, _problem(d, pairs), divergence="vonneumann", solver=settings, tol=1e-12, max_iter=1
    )


def smallest_dual_objective(d: int, pairs: Pairs) -> tuple[float, MatrixResult]:
    """The smallest value that ``d tr exp`` can have, from the proven dual bound, and the nearest matrix."""
    nearest = nearest_kernel(np.eye(d) / d, _problem(d, pairs), divergence="vonneumann", tol=1e-8)
    return d * float(np.exp(-nearest.dual_bound)), nearest


def _dual_and_bound(result: MatrixResult, d: int) -> Outcome:
    """The dual objective after 0, 1, 2 ... steps, and the bound of Theorem 4.1."""
    dual, bound = result.trace["log_dual_objective"], result.trace["log_bound"]
    return {"dual": [d, *(d * np.exp(dual)).tolist()], "bound": [d, *(d * np.exp(bound)).tolist()]}


def _error(K: NDArray[np.float64], goal: Target, divisions: int, seed: int) -> float:
    return float(np.mean(neighbour_errors(K, goal.y, n_neighbors=1, divisions=divisions, seed=seed)))


def table(findings: list[Finding]) -> list[Row]:
    """A block of rows for each target, then the checks."""
    rows: list[Row] = []
    for unit, facts in select(findings, part="facts"):
        rows += _fact_rows(unit, facts)
        for projection in PROJECTIONS:
            rows += _end_rows(select(findings, part="boost", kernel=unit["kernel"], projection=projection))
        where = f"nearest kernel (with corrections); {TITLES[unit['kernel']]}"
        note = "Proven by a duality gap."
        rows.append(Row(f"smallest possible dual objective, {where}", facts["limit"], note=note))
        note = "Its close pairs tie at the bound: the mean over all ways to choose between neighbours that tie."
        rows.append(Row(f"1-NN error, {where}", facts["limit_error"], note=note))
    for _, outcome in select(findings, part="crowd"):
        what, steps = f"{CLOSE} pairs among {CROWD} of 52 objects, no kernel", len(outcome["dual"]) - 1
        note = "The paper's axis begins at 15."
        rows.append(Row(f"dual objective after {steps} iterations, {what}", outcome["dual"][-1], note=note))
        rows.append(Row(f"smallest possible dual objective, {what}", outcome["limit"], note="Proven by a duality gap."))
    for unit, outcome in select(findings, part="words"):
        for word, close in zip(unit["words"], outcome["close"], strict=True):
            what = f"pairs with sq_distance <= 0.4/d, words of {word} letters; {TITLES[GENES]}"
            rows.append(Row(what, close, float(CLOSE), "pairs", note=NOT_PUBLIC))
    return rows


def _fact_rows(unit: Unit, facts: Outcome) -> list[Row]:
    """What is known before anything is learned."""
    title, of = TITLES[unit["kernel"]], f"Of {facts['all_pairs']:,}."
    paper, warning = (float(CLOSE), NOT_PUBLIC) if facts["d"] == 52 else (None, "")
    calibrated = "" if unit["kernel"] == GENES else "Calibrated to this."
    other = "The other reading of the bound."
    return [
        Row(
            f"pairs with sq_distance <= 0.4/d; {title}",
            facts["pairs"],
            paper,
            "pairs",
            note=f"{warning} {of} {calibrated}".strip(),
        ),
        Row(
            f"pairs with sq_distance <= 0.2/d; {title}",
            facts["pairs_half"],
            paper,
            "pairs",
            note=f"{warning} {of} {other}".strip(),
        ),
        Row(f"objects in no pair with sq_distance <= 0.4/d; {title}", facts["alone"], unit="objects"),
        Row(f"dual objective at the start; {title}", facts["d"], 52.0 if paper else None, note="d tr exp(log W1)."),
        Row.mean(f"1-NN error of the target kernel; {title}", facts["target_errors"], seed=unit["seeds"][0]),
    ]


def _end_rows(some: list[Finding]) -> list[Row]:
    """Where the runs with one kind of projection ended."""
    unit = some[0][0]
    where = f"after {unit['iterations']} iterations, {unit['projection']} projections"
    title, runs = TITLES[unit["kernel"]], [outcome for _, outcome in select(some, order="random")]
    lengths = [len(outcome["dual"]) - 1 for outcome in runs]
    all_met = "" if max(lengths) == unit["iterations"] else f"All constraints were met after {max(lengths)} at most."
    above = "In the paper, too, above the target's; its axis is 0 to .8."
    rows = [
        Row.mean(f"{quantity} {where}; {title}", [outcome[key][-1] for outcome in runs], seed=unit["seed"], note=note)
        for quantity, key, note in (
            ("dual objective", "dual", all_met),
            ("bound of Theorem 4.1", "bound", ""),
            ("1-NN error", "error", above),
        )
    ]
    for _, outcome in select(some, order="by class"):
        note = "A check: ties between violated pairs then tell classes."
        rows.append(Row(f"1-NN error {where}, pairs in order of the classes; {title}", outcome["error"][-1], note=note))
    return rows


def draw(figure: Figure, findings: list[Finding]) -> None:
    """Dual objective of the first run and mean error against iterations; a row for each target."""
    known = select(findings, part="facts")
    axes = figure.subplots(len(known), 2, squeeze=False)
    for (left, right), (unit, facts) in zip(axes, known, strict=True):
        for projection, color in PROJECTIONS.items():
            chosen = {"part": "boost", "kernel": unit["kernel"], "projection": projection, "order": "random"}
            runs = [outcome for _, outcome in select(findings, **chosen)]
            label, dual, bound = f"{projection} projections", runs[0]["dual"], runs[0]["bound"]
            left.plot(np.arange(len(dual)), dual, color=color, label=label)
            if projection == "approximate":
                left.plot(np.arange(len(bound)), bound, color=color, linestyle=":", label="its bound")
            mean, error = np.array(
                [mean_and_error(at) for at in zip(*(outcome["error"] for outcome in runs), strict=True)]
            ).T
            position = runs[0]["position"]
            right.plot(position, mean, color=color, label=label)
            right.fill_between(position, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
        for _, outcome in select(findings, part="crowd"):
            label = f"{CLOSE} pairs among {CROWD} objects"
            left.plot(np.arange(len(outcome["dual"])), outcome["dual"], color=NEUTRAL, linestyle="-.", label=label)
        right.axhline(float(np.mean(facts["target_errors"])), color=NEUTRAL, linestyle="--", label="target kernel")
        left.set(ylabel="Dual Obj", ylim=(0.0, 55.0 / 52.0 * facts["d"]))
        right.set(ylabel="Classification Error", ylim=(0.0, 0.8))
        for ax in (left, right):
            ax.set(title=TITLES[unit["kernel"]], xlabel="Iterations", xlim=(0, position[-1]))
            ax.legend(frameon=False)
            tidy(ax, grid="y")


EXPERIMENT = Experiment(
    module=__name__,
    name="definiteboost",
    title="DefiniteBoost: dual objective and nearest-neighbour error",
    source="Tsuda 2004, Figure 3",
    verdict=(
        "in part, on substitutes for a kernel that is not public: under its bound and above the "
        "target's error, as in the paper, but lower than its axis goes"
    ),
    headline=("dual objective after 300 iterations, approximate projections; groEL2 genes (substitute for gyrB)",),
    protocol=(
        "`W1 = I/52`, trace one; the constraints are all pairs with `tr(X_j K) <= 0.2/52` in the target kernel K, and say the "
        "same of W. The paper's X_j carries 1/2, so in squared distances the bound is `0.4/52`. DefiniteBoost as "
        "published: the constraint that is violated most, no corrections, 300 iterations, approximate projections (beside them "
        "exact ones); the misprint in eq. 13 is mended. Drawn is `52 tr exp(log W1 - sum gamma_j C_j)`, which starts at "
        "52 and fits the paper's axis, and the bound of Theorem 4.1, which it has to stay below. Error of one nearest "
        "neighbour every 10 iterations, mean over 10 random divisions into halves. At the start all constraints are violated "
        "alike, and the first of them is chosen: their order is random, with several seeds (means, bands of one standard "
        f"error; the objective is that of the first seed). {ABOUT}"
    ),
    discussion=(
        "The objective falls at every iteration, stays below its bound, and has come down within about 150 iterations. It "
        "ends lower than the paper's axis goes (15), on both substitutes. How low it can get depends on which pairs there "
        "are and on nothing else of the kernel; the table has this value with its proof. So the paper's 980 pairs may be "
        "arranged differently: if they crowd among 45 of the 52 objects and the other seven have none, the same run ends "
        "inside the paper's axis (grey). Our synthetic kernel has 980 pairs by design, but spread over all objects. "
        "Shorter steps, which would not have arrived after 300 iterations, would be another explanation; without the "
        "kernel it cannot be decided. Words of the length that is usual for such kernels (2 or 3) make all 1,326 pairs "
        "close, so that nothing would be left to tell apart; this is why 6 was taken.\n\n"
        "The error stays above the target's, as in the paper; on the genes it does not fall at all beyond its standard "
        "error, so that these constraints teach the kernel nothing about the genera, and on the synthetic kernel it falls by a "
        "part of the way. Which of several equally violated constraints is taken first "
        "matters: with the pairs in the order of the classes, as a file often has them, early steps pull together members "
        "of one class, and with approximate projections the error comes out lower on both substitutes, for no good "
        "reason. The paper does not tell its order. The nearest kernel under the same constraints, which DefiniteBoost without "
        "corrections does not reach (Kulis 2009, Appendix B), is given beside; its error is the mean over all ways to choose between "
        "neighbours that tie, because all close pairs of an object tie at their bound there."
    ),
    units=units,
    run=run,
    table=table,
    draw=draw,
    figsize=(9.0, 7.0),
)
