"""What is a learned metric worth to its neighbours? 4-NN accuracy, precision at 10 and NMI beside NCA, LMNN, LDA and plain scaling.

    BREGMAT_DATA=... python benchmarks/bench_neighbors.py --save scores.json            (all sets, 5 x 2 folds)
    python benchmarks/bench_neighbors.py --show scores.json --picture ranks.png        (tables, tests, picture)
    python benchmarks/bench_neighbors.py --million                                     (1e6 comparisons in 100 dimensions)

Every method sees the same folds and the same raw units. "standardised", LDA, NCA and LMNN are given standardised columns; "NCA, scaling
chosen" chooses between raw and standardised by 3 inner folds, as MetricLearnerCV does with its own. Each fit is timed in CPU seconds of
one thread. Every pass of every fit of ours ends with a certificate; the statuses of the last passes and the largest gap are printed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine, metric_learn, one_thread, print_table, seconds, steady, timed
from labelled_sets import CHOICE, SETS, labelled_set
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bregmat import Constraints, MetricLearner, MetricLearnerCV, nearest_metric

NEIGHBOURS, RETRIEVED = 4, 10
TEN = (
    "wine", "breast-cancer-diagnostic", "digits", "sonar", "ionosphere", "balance-scale", "pendigits", "letter-recognition",
    "spambase", "nursery",
)  # fmt: skip
MEASURES = {"accuracy": "4-NN accuracy", "precision": "precision at 10", "nmi": "NMI of k-means on test points"}
OURS = ("MetricLearner()", "MetricLearnerCV()")


# ---------------------------------------------------------------- the methods: from (X, y, seed) to a fitted transformer
class Identity:
    def fit(self, X: np.ndarray, y: np.ndarray) -> Identity:
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X


def nca(seed: int) -> NeighborhoodComponentsAnalysis:
    return NeighborhoodComponentsAnalysis(random_state=seed)


class ChosenNCA:
    """NCA, its scaling chosen by neighbours on inner folds."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> ChosenNCA:
        pipe = make_pipeline(StandardScaler(), nca(self.seed), KNeighborsClassifier(NEIGHBOURS))
        grid = {"standardscaler": ["passthrough", StandardScaler()]}
        folds = StratifiedKFold(3, shuffle=True, random_state=self.seed)
        self.map = GridSearchCV(pipe, grid, cv=folds).fit(X, y).best_estimator_[:-1]
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.map.transform(X))


METHODS: dict[str, Callable[[int], Any]] = {
    "Euclidean": lambda seed: Identity(),
    "standardised": lambda seed: StandardScaler(),
    "LDA": lambda seed: make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
    "LMNN": lambda seed: make_pipeline(StandardScaler(), metric_learn().LMNN(n_neighbors=3, random_state=seed)),
    "NCA": lambda seed: make_pipeline(StandardScaler(), nca(seed)),
    "NCA, scaling chosen": ChosenNCA,
    "MetricLearner()": lambda seed: MetricLearner(random_state=seed),
    "MetricLearnerCV()": lambda seed: MetricLearnerCV(random_state=seed),
}


# ---------------------------------------------------------------- measuring
def scores(train: np.ndarray, y: np.ndarray, test: np.ndarray, z: np.ndarray, seed: int) -> dict[str, float]:
    """The three measures of one mapped fold."""
    near = NearestNeighbors(n_neighbors=RETRIEVED).fit(train).kneighbors(test, return_distance=False)
    clusters = KMeans(len(np.unique(z)), n_init=3, random_state=seed).fit_predict(test)
    return {
        "accuracy": KNeighborsClassifier(NEIGHBOURS).fit(train, y).score(test, z),
        "precision": float(np.mean(y[near] == z[:, None])),
        "nmi": float(normalized_mutual_info_score(z, clusters)),
    }


def proof(model: Any) -> list[tuple[str, float]]:
    """Status and gap of each fit of ours whose result is at hand."""
    learner = getattr(model, "best_learner_", model)
    return [(learner.result_.status.name, learner.result_.gap)] if hasattr(learner, "result_") else []


def measure(name: str, methods: list[str], most: int, repeats: int) -> dict[str, Any]:
    """All methods on all folds of a set."""
    X, y = labelled_set(name, most)
    entry: dict[str, Any] = {"shape": [*X.shape, len(np.unique(y))], "methods": {}}
    folds = RepeatedStratifiedKFold(n_splits=2, n_repeats=repeats, random_state=0)
    for seed, (a, b) in enumerate(folds.split(X, y)):
        for method in methods:
            kept = entry["methods"].setdefault(method, {"seconds": [], "proofs": [], **{m: [] for m in MEASURES}})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = timed(partial(METHODS[method](seed).fit, X[a], y[a]))
            maps = run.value.transform(X[a]), run.value.transform(X[b])
            for measure_name, value in scores(maps[0], y[a], maps[1], y[b], seed).items():
                kept[measure_name].append(value)
            kept["seconds"] += run.cpu
            kept["proofs"] += proof(run.value)
    return entry


# ---------------------------------------------------------------- tables
def mean_rows(found: dict[str, Any], methods: list[str], what: str) -> list[list[str]]:
    rows = []
    for name, entry in found.items():
        n, d, k = entry["shape"]
        mark = "" if name in CHOICE else " *"
        rows.append([f"{name}{mark}", f"{n} x {d}, {k}"])
        rows[-1] += [f"{np.mean(entry['methods'][m][what]):.3f}" for m in methods]
    means = [np.mean([np.mean(e["methods"][m][what]) for e in found.values()]) for m in methods]
    return [*rows, ["mean", "", *(f"{mean:.4f}" for mean in means)]]


def ranks(found: dict[str, Any], methods: list[str]) -> np.ndarray:
    """Rank of each method (1 is best) on each set, shape (sets, methods)."""
    from scipy.stats import rankdata

    table = [[np.mean(e["methods"][m]["accuracy"]) for m in methods] for e in found.values()]
    return rankdata(-np.array(table), axis=1)


def compared(found: dict[str, Any], ours: str, other: str) -> list[str]:
    """Mean difference, sets won and lost, those lost by more than a standard error, Wilcoxon's p over the sets; on folds that both have."""
    from scipy.stats import wilcoxon

    means, lost = [], []
    for name, entry in found.items():
        # the first of the same folds
        pairs = zip(entry["methods"][ours]["accuracy"], entry["methods"][other]["accuracy"])
        folds = np.array([a - b for a, b in pairs])
        means.append(folds.mean())
        if folds.mean() < -folds.std(ddof=1) / np.sqrt(len(folds)):
            lost.append(f"{name} ({folds.mean():+.3f})")
    won, less = sum(m > 0 for m in means), sum(m < 0 for m in means)
    p = wilcoxon(means).pvalue if np.any(means) else 1.0
    return [ours, other, f"{np.mean(means):+.4f}", f"{won} / {less}", ", ".join(lost) or "none", f"{p:.2g}"]


def show(found: dict[str, Any]) -> None:
    methods = [m for m in METHODS if all(m in e["methods"] for e in found.values())]
    for what, title in MEASURES.items():
        print_table(
            f"{title} (* not among the sets that settings were chosen on)",
            ["data", "n x d, k", *methods],
            mean_rows(found, methods, what),
        )
    rows = [[name, *(seconds(np.median(e["methods"][m]["seconds"])) for m in methods)] for name, e in found.items()]
    print_table("CPU seconds of a fit, medians", ["data", *methods], rows)
    groups = {"all sets": found, "not chosen on": {k: v for k, v in found.items() if k not in CHOICE}}
    groups["the ten"] = {k: v for k, v in found.items() if k in TEN}
    for title, some in groups.items():
        if some:
            rows = [compared(some, a, b) for a in OURS if a in methods for b in methods if b not in OURS]
            header = [
                "ours",
                "beside",
                "mean difference",
                "won / lost",
                "lost by more than a standard error",
                "Wilcoxon p",
            ]
            print_table(f"4-NN accuracy, {title} ({len(some)})", header, rows)
    proofs = [p for e in found.values() for m in methods for p in e["methods"][m]["proofs"]]
    if proofs:
        words = {word: sum(p[0] == word for p in proofs) for word in sorted({p[0] for p in proofs})}
        print(f"\nfits of ours: {words}; largest gap {max(p[1] for p in proofs):.1e}")


def picture(found: dict[str, Any], path: Path) -> None:
    """Critical differences (Demsar 2006): mean ranks, and by how much two must differ at 5 % (Nemenyi)."""
    import matplotlib.pyplot as plt
    from scipy.stats import studentized_range

    methods = [m for m in METHODS if all(m in e["methods"] for e in found.values())]
    mean = ranks(found, methods).mean(axis=0)
    k, n = len(methods), len(found)
    width = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    order = np.argsort(mean)
    figure, axes = plt.subplots(figsize=(7, 0.35 * k + 1), layout="constrained")
    for line, m in enumerate(order):
        axes.plot([mean[m], mean[m] + width], [-line, -line], color="0.8", lw=6, solid_capstyle="butt")
        axes.plot(mean[m], -line, "o", color="C0" if methods[m] in OURS else "0.35")
    axes.set(
        yticks=-np.arange(k),
        yticklabels=[methods[m] for m in order],
        xlabel=f"mean rank over {n} sets; bar: critical difference {width:.2f}",
    )
    figure.savefig(path)


# ---------------------------------------------------------------- a million comparisons
def million() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 20_000)
    X = rng.normal(size=(10, 100))[y] + rng.normal(size=(20_000, 100)) * np.linspace(0.5, 2.0, 100)
    i, j, l = rng.integers(0, 20_000, (3, 1_000_000))
    near = np.flatnonzero((y[i] == y[j]) & (i != j))
    pool = rng.choice(near, 1_000_000)
    i, j = i[pool], j[pool]
    apart = y[i] != y[l]
    while not apart.all():
        l[~apart] = rng.integers(0, 20_000, (~apart).sum())
        apart = y[i] != y[l]
    margin = float(np.median(((X[i[:5000]] - X[j[:5000]]) ** 2).sum(1)))
    rows = Constraints.comparison(i, j, i, l, margin=margin, weight=1e-3)
    few = Constraints.comparison([1], [2], [1], [3], margin=1.0)
    nearest_metric(X[:50], few, loss="squared_hinge", slack_weight=1.0)  # imports what is imported on first use
    run = timed(partial(nearest_metric, X, rows, loss="squared_hinge", slack_weight=1.0, tol=1e-4))
    result = run.value
    print(
        f"{len(i):,} comparisons, 20,000 x 100: {seconds(run.cpu[0])} CPU, {seconds(run.wall[0])}; "
        f"{result.status.name}, gap {result.gap:.1e}, {result.n_iter} steps"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--most", type=int, default=5000, help="rows of a set")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path, help="JSON; what it has already is not measured again")
    parser.add_argument("--show", type=Path, nargs="+", help="tables of files saved before")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    one_thread()
    if options.million:
        million()
        print(machine())
        return
    found: dict[str, Any] = {}
    for path in options.show or [options.save]:
        if path and path.exists():
            for name, entry in json.loads(path.read_text()).items():
                found.setdefault(name, entry)["methods"].update(entry["methods"])
    for name in () if options.show else options.sets:
        left = [m for m in options.methods if m not in found.get(name, {"methods": {}})["methods"]]
        if left:
            start = time.perf_counter()
            new = measure(name, left, options.most, options.repeats)
            found.setdefault(name, new)["methods"].update(new["methods"])
            line = ", ".join(f"{m} {np.mean(new['methods'][m]['accuracy']):.3f}" for m in left)
            print(f"{name} {new['shape']}: {line}; {time.perf_counter() - start:.0f} s", flush=True)
            if options.save:
                options.save.write_text(json.dumps(found))
    show({name: found[name] for name in SETS if name in found and (options.show or name in options.sets)})
    if options.picture:
        picture(found, options.picture)
    print(machine())


if __name__ == "__main__":
    steady(main)
