"""What does kernel k-means cost beside scikit-learn's KMeans and tslearn's KernelKMeans?

Features: 50,000 points in 50 dimensions, 10 clusters, both with ten starts; the target is at most twice KMeans' time.
Kernel: a precomputed 5,000 x 5,000 rbf kernel, both with the same number of starts and the same limit of 50 iterations; the
target is less time than tslearn's, at an objective that is not larger. `pip install tslearn` brings the rival; without it only
bregmat is timed.

    python benchmarks/bench_kmeans.py
    python benchmarks/bench_kmeans.py --quick      # a fifth of the points
"""

from __future__ import annotations

import argparse
import warnings

import harness
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.metrics.pairwise import rbf_kernel

K = 10


def blobs(n: int, d: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(K, d))[y] + spread * rng.normal(size=(n, d)), y


def objective(kernel: np.ndarray, labels: np.ndarray) -> float:
    """Squared distances to the means, from the kernel and the labels alone."""
    Z = np.eye(K)[labels]
    return float(np.trace(kernel) - (np.einsum("ij,ij->j", Z, kernel @ Z) / np.maximum(Z.sum(0), 1)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the points")
    args = parser.parse_args()
    from bregmat.estimators import KernelKMeans

    harness.one_thread()
    print(harness.machine() + "; one thread, CPU seconds, medians")
    shrink = 5 if args.quick else 1
    X, y = blobs(50_000 // shrink, 50, 1.5)
    rows = []
    ours, theirs = None, None
    for _ in range(3):  # in turn, because the machine is shared
        mine = harness.timed(lambda: KernelKMeans(K, n_init=10, random_state=0).fit(X))
        rival = harness.timed(lambda: KMeans(K, n_init=10, random_state=0).fit(X))
        ours, theirs = (mine if ours is None else ours.more(mine)), (rival if theirs is None else theirs.more(rival))
    ratio = ours.cpu_median / theirs.cpu_median
    for name, run in (("bregmat, linear", ours), ("scikit-learn KMeans", theirs)):
        score = nmi(y, run.value.labels_)
        rows.append(
            [name, harness.seconds(run.cpu_median), f"{run.value.inertia_:.8g}", run.value.n_iter_, f"{score:.3f}"]
        )
    header = ["", "CPU", "inertia", "iterations of the best start", "NMI"]
    harness.print_table(f"{len(X):,} x 50 features, {K} clusters, 10 starts", header, rows)
    print(f"bregmat / scikit-learn: {ratio:.2f}, target 2: {harness.verdict_word(ratio <= 2)}")

    X, y = blobs(5000 // shrink, 10, 0.8)
    kernel = rbf_kernel(X, gamma=0.05)
    for n_init in (1, 10):
        mine = harness.timed(
            lambda n=n_init: KernelKMeans(K, kernel="precomputed", n_init=n, max_iter=50, random_state=0).fit(kernel),
            repeats=3,
        )
        rows = [["bregmat", mine]]
        try:
            from tslearn.clustering import KernelKMeans as Rival
        except ImportError:
            print("\ntslearn is not installed: no comparison")
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                settings = {"kernel": "precomputed", "n_init": n_init, "max_iter": 50, "random_state": 0}
                rows.append(["tslearn", harness.timed(lambda s=settings: Rival(K, **s).fit(kernel), repeats=1)])
        cells = [
            [
                name,
                harness.seconds(run.cpu_median),
                f"{objective(kernel, run.value.labels_):.8g}",
                f"{nmi(y, run.value.labels_):.3f}",
            ]
            for name, run in rows
        ]
        harness.print_table(
            f"precomputed {len(X):,} x {len(X):,}, {K} clusters, {n_init} starts",
            ["", "CPU", "objective", "NMI"],
            cells,
        )
        if len(rows) == 2:
            ratio = rows[1][1].cpu_median / mine.cpu_median
            better = objective(kernel, mine.value.labels_) <= objective(kernel, rows[1][1].value.labels_) * (1 + 1e-3)
            print(f"tslearn / bregmat: {ratio:.1f}, target 1: {harness.verdict_word(ratio > 1 and better)}")


if __name__ == "__main__":
    harness.steady(main)
