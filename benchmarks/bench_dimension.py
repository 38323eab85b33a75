"""How good are 2, 5 and 10 dimensions for neighbours? 4-NN accuracy of MetricLearner(n_components=...) beside NCA, LDA and PCA.

    BREGMAT_DATA=... python benchmarks/bench_dimension.py

Every method sees the same folds and the same columns, standardised on the training fold. "cut" is what a metric learned without
n_components keeps along its directions of most variance. LDA has no more dimensions than classes, less one. Mean and standard
error over the folds; what was settled by looking at accuracies was settled on the first group of sets. Seconds are CPU time of a fit.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import machine, one_thread, print_table, steady, timed
from labelled_sets import CHOICE, labelled_set
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from bregmat import MetricLearner

NEIGHBOURS = 4
DIMENSIONS = (2, 5, 10)
SETS = (
    "wine", "digits", "breast-cancer-diagnostic", "soybean-large", "sonar", "pendigits", "spambase",
    "digits389", "ionosphere", "pendigits389", "letter-recognition", "nursery", "usps", "diabetes",
)  # fmt: skip


class Cut:
    """The leading components, by variance, of a metric learned without thought of how many are kept."""

    def __init__(self, r: int, seed: int) -> None:
        self.r, self.learner = r, MetricLearner(strategy="neighbors", random_state=seed)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Cut:
        self.learner.fit(X, y)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self.learner.transform(X)[:, : self.r]


METHODS: dict[str, Callable[[int, int, int], Any]] = {
    "PCA": lambda r, seed, k: PCA(r, random_state=seed),
    "LDA": lambda r, seed, k: LinearDiscriminantAnalysis(n_components=min(r, k - 1)),
    "NCA": lambda r, seed, k: NeighborhoodComponentsAnalysis(r, random_state=seed),
    "cut": lambda r, seed, k: Cut(r, seed),
    "n_components": lambda r, seed, k: MetricLearner(strategy="neighbors", n_components=r, random_state=seed),
}


def measure(name: str, most: int, repeats: int) -> dict[tuple[int, str], list[tuple[float, float]]]:
    """Accuracy and seconds of each fold, by dimension and method."""
    X, y = labelled_set(name, most)
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=repeats, random_state=0)
    for seed, (train, test) in enumerate(folds.split(X, y)):
        scaler = StandardScaler().fit(X[train])
        A, B = (scaler.transform(X[part])[:, scaler.var_ > 0] for part in (train, test))
        for r in (r for r in DIMENSIONS if r < A.shape[1]):
            for method, make in METHODS.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    run = timed(lambda: make(r, seed, len(np.unique(y))).fit(A, y[train]))  # noqa: B023
                near = KNeighborsClassifier(NEIGHBOURS).fit(run.value.transform(A), y[train])
                found.setdefault((r, method), []).append((near.score(run.value.transform(B), y[test]), run.cpu[0]))
    return found


def shown(values: list[float]) -> str:
    """Mean and standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def main() -> None:
    """Print one table a dimension."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--most", type=int, default=1000, help="rows of a set, a seeded sample")
    options = parser.parse_args()
    one_thread()
    found = {name: measure(name, options.most, options.repeats) for name in options.sets}
    for r in DIMENSIONS:
        rows, means = [], {}
        for is_choice, group in ((True, "chosen on"), (False, "reported on")):
            names = [name for name in found if (name in CHOICE) is is_choice and (r, "PCA") in found[name]]
            if not names:
                continue
            means[group] = {m: np.array([np.mean(found[name][r, m], axis=0) for name in names]) for m in METHODS}
            rows += [[name, *(shown([a for a, _ in found[name][r, m]]) for m in METHODS)] for name in names]
            rows.append([f"mean ({group})", *(f"{means[group][m][:, 0].mean():.3f}" for m in METHODS)])
        every = [np.concatenate([part[m] for part in means.values()]) for m in METHODS]
        rows.append(["seconds of a fit, mean", *(f"{part[:, 1].mean():.2f}" for part in every)])
        print_table(f"{r} dimensions: {NEIGHBOURS}-NN accuracy", ["data", *METHODS], rows)
    print(f"\n{machine()}; {3 * options.repeats} folds, at most {options.most:,} rows")


if __name__ == "__main__":
    steady(main)
