"""What MetricLearner() decides by itself is worth: beside the data as given, scaled columns, and the same learner always on scaled columns.

    BREGMAT_DATA=... python benchmarks/bench_choice.py [--sets wine mnist:pc164 ...]

4-NN accuracy. The 20 sets of labelled_sets.py: two folds, at most 500 training rows. Images also as pixels, as principal components (of
3,000 unlabelled rows), and with few labelled rows a class: two draws, 1,000 test rows. CPU seconds: of fits on one BLAS thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
from labelled_sets import SETS, _whole, labelled_set
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from bregmat import MetricLearner

# name:features, rows or rows a class
MORE = (
    "mnist:pc164 500", "mnist:pc164 1500", "mnist:pc50 3000", "usps:pc50 3000", "usps:pixels 500", "usps:pixels 1500", "digits:pixels 200",
    "letter-recognition:pixels 3000", "pendigits:pixels 3000", "spambase:pixels 3000", "digits:pixels 10 each", "usps:pixels 10 each",
    "mnist:pc50 10 each", "mnist:pc50 40 each", "usps:pc50 40 each", "usps:pc100 5 each", "letter-recognition:pixels 10 each",
)  # fmt: skip
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def splits(name: str) -> Iterator[Split]:
    """Training points and classes, test points and classes."""
    base, _, kind = name.partition(":")
    if not kind:
        X, y = labelled_set(base, 1000)
        for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(X, y):
            yield X[train], y[train], X[test], y[test]
        return
    features, count, *each = kind.split()
    X, y = _whole(base)
    y = np.unique(y, return_inverse=True)[1]
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        test, pool = order[:1000], order[1000:]
        train = pool[: int(count)]
        if each:
            train = np.concatenate([pool[y[pool] == c][: int(count)] for c in range(y.max() + 1)])
        A, B = (np.asarray(X[rows], dtype=float) for rows in (train, test))
        if features.startswith("pc"):
            axes = PCA(int(features[2:]), random_state=0).fit(np.asarray(X[pool[:3000]], dtype=float))
            A, B = axes.transform(A), axes.transform(B)
        yield A, y[train], B, y[test]


def accuracy(A: np.ndarray, y: np.ndarray, B: np.ndarray, z: np.ndarray) -> float:
    return float(KNeighborsClassifier(4).fit(A, y).score(B, z))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=[*SETS, *MORE])
    warnings.simplefilter("ignore", UserWarning)
    print("| data | n x d | as given | scaled | always scaled | MetricLearner() | decided | CPU / fixed |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    means = []
    for name in parser.parse_args().sets:
        scores, decided, seconds = [], [], np.zeros(2)
        for A, y, B, z in splits(name):
            scale = StandardScaler().fit(A)
            row = [accuracy(A, y, B, z), accuracy(scale.transform(A), y, scale.transform(B), z)]
            old = MetricLearner(prior="variance", strategy="neighbors", slack_weight=1.0, random_state=0).fit(A, y)
            start = time.process_time()
            new = MetricLearner(random_state=0).fit(A, y)
            middle = time.process_time()
            fixed = {"prior": new.prior_, "strategy": new.strategy_ or "neighbors", "slack_weight": new.slack_weight_}
            MetricLearner(**fixed, random_state=0).fit(A, y)
            seconds += middle - start, time.process_time() - middle
            scores.append([*row, *(accuracy(m.transform(A), y, m.transform(B), z) for m in (old, new))])
            decided.append(f"{new.prior_}, {new.strategy_}, {new.slack_weight_:g}")
        mean = np.mean(scores, axis=0)
        means.append(mean)
        cells = " | ".join(f"{x:.3f}" for x in mean)
        ratio = seconds[0] / seconds[1]
        print(
            f"| {name} | {A.shape[0]} x {A.shape[1]} | {cells} | {'; '.join(dict.fromkeys(decided))} | {ratio:.1f} |",
            flush=True,
        )
    print("| mean | | " + " | ".join(f"{x:.4f}" for x in np.mean(means, axis=0)) + " | | |")


if __name__ == "__main__":
    main()
