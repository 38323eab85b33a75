"""What does MetricLearner() cost beside one fit with fixed settings, and MetricLearnerCV()? CPU seconds of one thread.

"Chosen": a fit with the settings that the default came to. "Neighbors": the same with the strategy "neighbors".

python benchmarks/bench_learner_cost.py                      (searches: wine, 500 x 768, 10,000 x 10)
BREGMAT_DATA=... python benchmarks/bench_learner_cost.py --large     (fits: MNIST's components, 10,000 x 768 and 50,000 x 100)
python benchmarks/bench_learner_cost.py --classes            (200 classes while every core is busy, with the default threads)
python benchmarks/bench_learner_cost.py --copies             (points that occur twice, exactly or nearly; the prior "variance")
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from typing import Any

import numpy as np
from bench_mnist import errors
from harness import clusters, machine, one_thread, print_table
from sklearn.datasets import load_wine

from bregmat import MetricLearner, MetricLearnerCV
from bregmat_papers.datasets import load_mnist, load_sentences


def clustered(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten overlapping Gaussian classes, and their numbers."""
    problem = clusters(100, n, d, is_raw=True)
    rng = np.random.default_rng(0)
    return problem.X, rng.integers(0, 10, n)  # the first draw of `clusters` is the classes


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """The model after its fit, and the CPU seconds of that."""
    start = time.process_time()
    return model.fit(X, y), time.process_time() - start


def searches() -> None:
    rows = []
    for name, (X, y) in (
        ("wine, 178 x 13", load_wine(return_X_y=True)),
        ("500 x 768", clustered(500, 768)),
        ("10,000 x 10", clustered(10_000, 10)),
    ):
        learner, default = fitted(MetricLearner(random_state=0), X, y)
        names = {
            "prior": learner.prior_,
            "strategy": learner.strategy_ or "neighbors",
            "slack_weight": learner.slack_weight_,
        }
        _, chosen = fitted(MetricLearner(random_state=0, **names), X, y)
        _, neighbors = fitted(MetricLearner(random_state=0, **names | {"strategy": "neighbors"}), X, y)
        search, whole = fitted(MetricLearnerCV(random_state=0), X, y)
        first = search.cv_results_["mean_test_score"][0]
        score = f"{search.best_score_:.4f} ({first:.4f})"
        cells = [f"{seconds:.2f}" for seconds in (chosen, neighbors, default)]
        rows.append([name, *cells, f"{whole:.1f}", score])
        print(*rows[-1], flush=True)
    header = ["data", "chosen", "neighbors", "MetricLearner()", "MetricLearnerCV()", "score (of the default)"]
    print_table("CPU seconds of a fit", header, rows)


def large() -> None:
    from sklearn.decomposition import PCA

    train, test = load_mnist()
    axes = PCA(768, random_state=0, svd_solver="covariance_eigh").fit(train.X / 255)
    order, rows = np.random.default_rng(0).permutation(60_000), []
    for n, d in ((10_000, 768), (50_000, 100)):
        A, B = (axes.transform(X / 255)[:, :d].astype(float) for X in (train.X[order[:n]], test.X))
        y = train.y[order[:n]]
        learner, seconds = fitted(MetricLearner(random_state=0), A, y)
        result, found = learner.result_, errors(learner.transform(A), y, learner.transform(B), test.y)
        rows.append(
            [
                f"{n:,} x {d}",
                f"{seconds:.0f} s",
                *(f"{error:.2f} %" for error in found),
                result.status.name,
                f"{result.gap:.1e}",
            ]
        )
        print(*rows[-1], flush=True)
    print_table("One default fit", ["rows x columns", "CPU", "1-NN error", "3-NN error", "status", "gap"], rows)


def _spin() -> None:
    while True:
        pass


def many_classes() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 200
    X = rng.normal(size=(200, 50))[y] + rng.normal(size=(2000, 50))
    busy = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in busy:
        process.start()
    _, seconds = fitted(MetricLearner(random_state=0), X, y)
    for process in busy:
        process.kill()
    print(f"2,000 x 50, 200 classes, every core busy, default threads: {seconds:.1f} CPU s")


def with_copies(X: np.ndarray, y: np.ndarray, n_copies: int, error: float) -> np.ndarray:
    """The points, with the second point of some classes in the place of the first, up to a relative error."""
    X, rng = X.copy(), np.random.default_rng(0)
    for k in np.unique(y)[:n_copies]:
        first, second = np.flatnonzero(y == k)[:2]
        X[second] = X[first] * (1.0 + error * rng.normal(size=X.shape[1]))
    return X


def copies() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(380) % 38
    X = rng.normal(size=(38, 384))[y] + 2.0 * rng.normal(size=(380, 384))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    sentences = load_sentences()
    data = [("380 x 384, unit length", X, y), ("1,596 sentences x 100", np.asarray(sentences.X, float), sentences.y)]
    rows = []
    for name, Z, labels in data:
        fits = [(0, 0.0), (1, 0.0), (1, 1e-12), (1, 1e-5), (19, 1e-9)]
        found = []
        for n_copies, error in fits:
            model = MetricLearner(random_state=0, strategy="neighbors", prior="variance", slack_weight=0.3)
            model, seconds = fitted(model, with_copies(Z, labels, n_copies, error), labels)
            found.append(f"{seconds:.2f} s, {model.result_.status.name}")
        rows.append([name, *found])
        print(*rows[-1], flush=True)
    header = ["data", "as it is", "1 copy", "1 copy, 1e-12", "1 copy, 1e-5", "19 copies, 1e-9"]
    print_table("CPU seconds of a fit, with copies of points", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--copies", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if options.classes:
        many_classes()
    else:
        one_thread()
        (large if options.large else copies if options.copies else searches)()
    print(machine())


if __name__ == "__main__":
    main()
