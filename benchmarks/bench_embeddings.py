"""Few labels on embeddings: what MetricLearner() gains, beside other ways of using ten labelled rows a class.

    python benchmarks/bench_embeddings.py [--each 10] [--draws 10]
    BREGMAT_DATA=... python benchmarks/bench_embeddings.py       # also MNIST, 50 principal components

Sentences: load_sentences(), 100 dimensions, 20 topics. Digits: the 64 pixels of scikit-learn's digits. Each draw labels other rows; the
test rows are at most 1,000 of the others. Precision at k: the share of the k nearest test rows that have the class of the test row
that is searched for.
"own": accuracy of the method as a classifier. Means and standard errors over the draws.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import one_thread
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bregmat import MetricLearner
from bregmat_papers.datasets import load_dataset, load_mnist, load_sentences

METHODS: dict[str, Callable[[], Any]] = {
    "as given": FunctionTransformer,
    "scaled": StandardScaler,
    "`MetricLearner()`": lambda: MetricLearner(random_state=0),
    'the same, `prior="identity", slack_weight=0.3`': lambda: MetricLearner(
        prior="identity", slack_weight=0.3, random_state=0
    ),
    'the same, `prior="identity", strategy="random"`': lambda: MetricLearner(
        prior="identity", strategy="random", random_state=0
    ),
    "LDA with shrinkage": lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    "NCA": lambda: NeighborhoodComponentsAnalysis(random_state=0),
    "logistic regression": lambda: LogisticRegression(C=10.0, max_iter=1000),
}
MEASURES = ("1-NN", "5-NN", "precision at 5", "at 10", "own", "CPU s")


def draws(X: np.ndarray, y: np.ndarray, each: int, n_draws: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that are labelled, the same number of each class, and rows to test on."""
    for seed in range(n_draws):
        order = np.random.default_rng(seed).permutation(len(y))
        labelled = np.concatenate([order[y[order] == c][:each] for c in range(y.max() + 1)])
        yield labelled, order[~np.isin(order, labelled)][:1000]


def precisions(Z: np.ndarray, y: np.ndarray, *counts: int) -> list[float]:
    """Share of the k nearest of the other rows that have the class of the row, for each k."""
    near = NearestNeighbors(n_neighbors=max(counts)).fit(Z).kneighbors(return_distance=False)
    return [float((y[near[:, :k]] == y[:, None]).mean()) for k in counts]


def measured(method: Any, A: np.ndarray, y: np.ndarray, B: np.ndarray, z: np.ndarray) -> list[float]:
    """The measures of one method: NaN where it has no map, or is no classifier."""
    start = time.process_time()
    method.fit(A, y)
    seconds = time.process_time() - start
    found = [np.nan] * 4
    if hasattr(method, "transform"):
        near, far = method.transform(A), method.transform(B)
        found = [float(KNeighborsClassifier(k).fit(near, y).score(far, z)) for k in (1, 5)]
        found += precisions(far, z, 5, 10)
    own = float(method.score(B, z)) if hasattr(method, "predict") else np.nan
    return [*found, own, seconds]


def kinds() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, points and classes of every kind of features."""
    sentences = load_sentences()
    yield "sentences", sentences.X, sentences.y
    digits = load_dataset("digits")
    yield "digits, pixels", digits.X, digits.y
    if "BREGMAT_DATA" in os.environ:
        train, _ = load_mnist()
        some = train.X[:5000].astype(float)
        yield "MNIST, 50 principal components", PCA(50, random_state=0).fit_transform(some), train.y[:5000]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=10, help="labelled rows of each class")
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore", UserWarning)
    for kind, X, y in kinds():
        splits = list(draws(X, y, options.each, options.draws))
        d, classes = X.shape[1], y.max() + 1
        print(f"\n{kind}: {len(splits[0][0])} labelled and {len(splits[0][1])} test rows x {d}, {classes} classes\n")
        print(f"| | {' | '.join(MEASURES)} |\n| --- |{' --- |' * len(MEASURES)}")
        decided: list[str] = []
        for name, make in METHODS.items():
            rows = []
            for train, test in splits:
                method = make()
                rows.append(measured(method, X[train], y[train], X[test], y[test]))
                if isinstance(method, MetricLearner) and method.prior == "auto":
                    decided.append(f"{method.prior_}, {method.strategy_}")
            mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[:-1], error[:-1])]
            cells = [cell.replace("nan ± nan", "") for cell in cells] + [f"{mean[-1]:.2f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
        counted = ", ".join(f"{name} ({count})" for name, count in Counter(decided).items())
        print(f"\nMetricLearner() decided: {counted}", flush=True)


if __name__ == "__main__":
    main()
