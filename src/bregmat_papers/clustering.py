"""What the experiments of Kulis 2009, section 7.1 share: pairs and bounds, clusterings, cycles of its method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from bregmat import Constraints, CyclicProjection, Factor, KernelKMeans, nearest_kernel
from bregmat.certificates.problem import build_problem
from bregmat.coordinates.priors import kernel_coordinates
from bregmat.objective.divergences import DIVERGENCES
from bregmat.typing import DivergenceName
from bregmat_papers.experiments import DataHome, Finding, Row

EPSILON = 0.25  # the paper's epsilon: bounds are (1 -/+ EPSILON) times the distance that a pair has
TOLERANCE = 1e-3  # the paper's convergence tolerance


def standardized(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean 0 and variance 1 in every column; constant columns become 0."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def digits(data: DataHome, name: str, sample: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points and labels of a sample; 0 is the one that ``load_dataset`` gives, others are drawn like it."""
    size = 317  # digits in the paper's sample
    if name != "pendigits389":
        table = data.table(name)
        rows = np.sort(np.random.default_rng(sample).choice(len(table.X), min(size, len(table.X)), replace=False))
        return table.X[rows], table.y[rows]
    table = data.table("pendigits389")
    if sample == 0:
        return table.X, table.y
    whole = data.table("pendigits")
    codes = [whole.target_names.index(label) for label in table.target_names]
    where = np.flatnonzero(np.isin(whole.y, codes))
    rows = where[np.sort(np.random.default_rng(sample).choice(len(where), len(table.X), replace=False))]
    return whole.X[rows], np.searchsorted(codes, whole.y[rows])


def draw_pairs(
    X: NDArray[np.float64], count: int, seed: int, *, labelled: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random pairs of points that differ, shape (count,) each; fewer of them are the first of more.

    ``labelled``: of that many points only, drawn at random; None: of all.
    """
    rng = np.random.default_rng([seed, 1])
    pool = np.arange(len(X)) if labelled is None else rng.choice(len(X), labelled, replace=False)
    i, j = pool[rng.integers(0, len(pool), (5_000, 2))].T
    apart = (X[i] != X[j]).any(axis=1)
    return i[apart][:count], j[apart][:count]


def pair_bounds(
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    *,
    margin: float = EPSILON,
) -> Constraints:
    """``d <= (1 - margin) b`` for pairs of a class, ``d >= (1 + margin) b`` for others; b is their d in X."""
    same = y[i] == y[j]
    b = ((X[i] - X[j]) ** 2).sum(axis=1)
    return Constraints.sq_distance(i, j, np.where(same, 1 - margin, 1 + margin) * b, np.where(same, "<=", ">="))


def learned_features(
    X: NDArray[np.float64], rows: Constraints, divergence: DivergenceName, slack_weight: float
) -> tuple[Any, str, float]:
    """Features of the certified nearest kernel, what is proven of it, its gap; slack weight 100 if infeasible."""
    solve = partial(nearest_kernel, Factor(X), rows, divergence=divergence, tol=1e-4)
    result = solve(slack_weight=slack_weight)
    status = str(result.status)
    if status == "INFEASIBLE":
        result = solve(slack_weight=100.0)
    return result.factor, status, result.gap


def nmi(features: NDArray[np.float64], y: NDArray[np.int64], starts: int, seed: int) -> tuple[float, float]:
    """Normalised mutual information of kernel k-means with the classes: the best start, and the mean of single ones."""
    k = len(np.unique(y))
    runs = [KernelKMeans(k, n_init=1, random_state=100 * seed + s).fit(features) for s in range(starts)]
    scores = [float(normalized_mutual_info_score(y, run.labels_)) for run in runs]
    best = min(range(starts), key=lambda s: runs[s].inertia_)
    return scores[best], float(np.mean(scores))


def knn_accuracy(features: NDArray[np.float64], y: NDArray[np.int64], seed: int, *, neighbors: int = 5) -> float:
    """Share of right answers of the nearest neighbours, one half of the points asked about by the other, both ways."""
    halves = StratifiedKFold(2, shuffle=True, random_state=seed)
    return float(cross_val_score(KNeighborsClassifier(neighbors), features, y, cv=halves).mean())


@dataclass(frozen=True)
class Cycle:
    """One pass of Bregman's algorithm over all constraints.

    Attributes
    ----------
    met : float
        Share of the constraints that hold up to TOLERANCE of their bound.
    movement : float
        Length of the change of the multipliers over their length (Kulis 2009, 5.1.4, with the Euclidean norm).
    movement_sum : float
        Sum of the sizes of the changes over the lengths before and after: the rule of the authors' program for the
        sister paper (Davis 2007), which metric-learn has kept.
    """

    met: float
    movement: float
    movement_sum: float


def bregman_cycles(
    X: NDArray[np.float64], rows: Constraints, divergence: DivergenceName, slack_weight: float = np.inf
) -> Iterator[Cycle]:
    """The paper's algorithm from the linear kernel of X, cycle by cycle, for as long as the caller asks."""
    D = DIVERGENCES.resolve(divergence)
    coordinates, operator, _ = kernel_coordinates(Factor(X), D).bind(rows)
    problem = build_problem(D, coordinates.t0, operator, rows, None, slack_weight, scale=coordinates.scale)
    solver = CyclicProjection()
    with np.errstate(all="ignore"):  # without a solution the multipliers grow for ever
        state = solver.init(problem, TOLERANCE, None)
        while state.is_finite():
            before, state = state.dual, solver.step(problem, state)
            change, lengths = state.dual - before, [float(np.linalg.norm(mu)) for mu in (state.dual, before)]
            met = float((problem.violation(state.values) <= TOLERANCE).mean())
            one, two = float(np.abs(change).sum()), float(np.linalg.norm(change))
            yield Cycle(met, two / max(lengths[0], 1e-300), one / max(sum(lengths), 1e-300))


RULES = {
    "movement": "the multipliers' change over a cycle, in length, is 1e-3 of their length",
    "movement_sum": "the same with the sum of the changes (the rule of Davis 2007's program)",
    "met": "every constraint holds to 1e-3",
}


def stopping_cycles(
    run: Iterator[Cycle], max_cycles: int, *, rules: Sequence[str] = tuple(RULES), least: int = 0
) -> dict[str, Any]:
    """The cycle at which each rule stops the run, None if not within ``max_cycles``, and the share met after every cycle.

    It goes on until all rules have, and for at least ``least`` cycles.
    """
    stops: dict[str, Any] = dict.fromkeys(rules)
    share: list[float] = []
    for k, cycle in enumerate(run, start=1):
        share.append(round(cycle.met, 4))
        for rule in rules:
            reached = cycle.met == 1.0 if rule == "met" else getattr(cycle, rule) <= TOLERANCE
            if reached and stops[rule] is None:
                stops[rule] = k
        if k >= max_cycles or (k >= least and None not in stops.values()):
            break
    return stops | {"share": share}


def averaged(
    quantity: str,
    values: Sequence[float | None],
    some: Sequence[Finding],
    *,
    max_cycles: int | None = None,
    paper: float | None = None,
    unit: str = "",
    note: str = "",
) -> Row:
    """A row of the mean over runs. Given ``max_cycles``, None counts as that; then the note says how many, and the median."""
    numbers = [
        float("nan" if max_cycles is None else max_cycles) if value is None else float(value) for value in values
    ]
    if max_cycles is not None:
        short = sum(value is None for value in values)
        note = f"Median {np.median(numbers):,.0f}. {note}".strip()
        note += (
            f" {short} of {len(values)} runs had not stopped after {max_cycles:,} cycles and count as that."
            if short
            else ""
        )
    return Row.mean(quantity, numbers, paper=paper, unit=unit, seed=some[0][0]["seed"], note=note)
