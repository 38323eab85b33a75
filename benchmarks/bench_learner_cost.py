"""What does MetricLearner() cost beside one fit with fixed settings? CPU seconds of one thread, beside the goals of this library.

"Fixed": ``MetricLearner(prior="identity", strategy="neighbors", slack_weight=0.3)``. Nothing is compared for it: there are fewer than
ten rows for each column, or at most 500.

python benchmarks/bench_learner_cost.py                      (wine, and made data)
BREGMAT_DATA=... python benchmarks/bench_learner_cost.py     (also sentence embeddings, and MNIST's components with their test errors)
python benchmarks/bench_learner_cost.py --classes            (200 classes while every core is busy, with the default threads)
python benchmarks/bench_learner_cost.py --many               (100,000 rows of 768 columns and of length 1, with peak memory)
python benchmarks/bench_learner_cost.py --million            (1,000,000 rows of 384 columns: neighbours are searched in a sample)
python benchmarks/bench_learner_cost.py --copies             (points that occur twice, exactly or nearly; the prior "variance")
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_mnist import errors
from harness import machine, one_thread, print_table
from sklearn.datasets import load_wine

from bregmat import MetricLearner
from bregmat_papers.datasets import load_mnist, load_sentences

FIXED = {"prior": "identity", "strategy": "neighbors", "slack_weight": 0.3}


def clustered(n: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping Gaussian classes whose means lie in a space of 20 dimensions."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    means = rng.normal(size=(n_classes, 20)) @ rng.normal(size=(20, d)) / np.sqrt(20)
    return 0.2 * means[y] + rng.normal(size=(n, d)), y


def embeddings(each: int) -> tuple[np.ndarray, np.ndarray]:
    """Sentence embeddings of 384 dimensions: so many rows of each of 39 classes."""
    file = np.load(Path(os.environ["BREGMAT_DATA"]) / "embeddings" / "packages384.npz")
    X, y = np.asarray(file["X"], dtype=float), np.unique(file["y"], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    rows = np.concatenate([order[y[order] == c][:each] for c in range(y.max() + 1)])
    return X[rows], y[rows]


def mnist(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Leading principal components of images and their digits: training and test rows."""
    from sklearn.decomposition import PCA

    train, test = load_mnist()
    axes = PCA(d, random_state=0, svd_solver="covariance_eigh").fit(train.X / 255)
    order = np.random.default_rng(0).permutation(60_000)[:n]
    A, B = (axes.transform(X / 255).astype(float) for X in (train.X[order], test.X))
    return A, train.y[order], B, test.y


def tasks() -> Iterator[tuple[str, float, tuple[np.ndarray, ...]]]:
    """Name, goal in CPU seconds, and the rows with their labels; test rows may follow."""
    yield "wine, 178 x 13", 0.3, load_wine(return_X_y=True)
    if "BREGMAT_DATA" in os.environ:
        yield "embeddings, 390 x 384, 39 classes", 8, embeddings(10)
        yield "embeddings, 1,560 x 384, 39 classes", 15, embeddings(40)
    yield "20,000 x 384, 50 classes", 14, clustered(20_000, 384, 50)
    yield "6,000 x 600, 10 classes", 12, clustered(6_000, 600, 10)
    if "BREGMAT_DATA" in os.environ:
        yield "MNIST, 10,000 x 768", 15, mnist(10_000, 768)


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """The model after its fit, and the CPU seconds of that."""
    start = time.process_time()
    return model.fit(X, y), time.process_time() - start


def costs() -> None:
    rows = []
    for name, goal, (X, y, *test) in tasks():
        _, fixed = fitted(MetricLearner(random_state=0, **FIXED), X, y)
        learner, default = fitted(MetricLearner(random_state=0), X, y)
        chosen = next(one for one, it in zip(learner.selection_["candidate"], learner.selection_["chosen"]) if it)
        rows.append([name, f"{fixed:.2f}", f"{default:.2f}", f"{goal:g}", chosen, f"{learner.result_.gap:.1e}"])
        print(*rows[-1], flush=True)
        if test:
            found = errors(learner.transform(X), y, learner.transform(test[0]), test[1])
            print("test errors of 1 and 3 neighbours, %:", *(f"{error:.2f}" for error in found), flush=True)
    header = ["rows x columns", "fixed settings", "MetricLearner()", "goal", "chosen", "gap"]
    print_table("CPU seconds of a fit", header, rows)


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


def many_rows(n: int, d: int, n_classes: int = 200) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    means = 0.12 * rng.normal(size=(n_classes, 60)) @ rng.normal(size=(60, d)) / np.sqrt(60)
    X = np.empty((n, d), dtype=np.float32)
    for rows in np.split(np.arange(n), n // 10_000):  # columns of noise of different sizes
        X[rows] = means[y[rows]] + rng.normal(size=(len(rows), d)) * np.linspace(2.0, 0.3, d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    learner, seconds = fitted(MetricLearner(random_state=0), X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result = learner.result_
    print(
        f"{n:,} x {d}, {n_classes} classes: {seconds:.0f} CPU s, peak {peak:.1f} GiB, {result.status.name}, gap {result.gap:.1e}"
    )


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
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--million", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if options.classes:
        many_classes()
    else:
        one_thread()
        if options.many or options.million:
            many_rows(*((100_000, 768) if options.many else (1_000_000, 384)))
        else:
            (copies if options.copies else costs)()
    print(machine())


if __name__ == "__main__":
    main()
