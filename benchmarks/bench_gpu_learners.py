"""Learners beside a GPU, in at most four minutes: MetricLearner() on tensors of the card and on the host, RetrievalLearner() on the host.

    python benchmarks/bench_gpu_learners.py [--device cuda] [--seconds 200]

MetricLearner: classes of Gaussian vectors of length 1 in 384 and 768 dimensions. RetrievalLearner reads tensors of the card, but learns on
the host; `transform` of its result runs where the vectors are. Each line is printed when it is measured; no line is begun after
``--seconds``. "host" is NumPy on all cores.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import harness
import numpy as np

from bregmat import MetricLearner, RetrievalLearner
from bregmat.base.linalg import unit_rows


def classes(n: int, d: int, n_classes: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of length 1 around the means of their classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    return unit_rows(rng.normal(size=(n_classes, d))[y] + 1.5 * rng.normal(size=(n, d))), y


def pairs(n: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries that are documents with noise in the last columns, more documents, and which document answers which query."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(m, d))
    Q = D[:n] + rng.normal(size=(n, d)) * np.linspace(0, 7, d)
    return unit_rows(Q), unit_rows(D), np.column_stack([np.arange(n)] * 2)


def cases(put: Callable[[np.ndarray], Any], place: str) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Name, place, and the call that returns a fitted learner."""
    for n, d in ((20_000, 384), (20_000, 768), (100_000, 768)):
        X, y = classes(n, d)
        for where, Z in ((place, put(X)), ("host", X)):
            yield f"MetricLearner {n:,} x {d}", where, lambda Z=Z, y=y: MetricLearner(random_state=0).fit(Z, y)
    for n, m in ((500, 5_000), (20_000, 100_000)):
        Q, D, relevant = pairs(n, m, 384)
        yield (
            f"RetrievalLearner {n:,} queries, {m:,} documents x 384",
            "host",
            lambda Q=Q, D=D, relevant=relevant: RetrievalLearner(random_state=0).fit(Q, D, relevant),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=200.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(harness.machine(), flush=True)
    import torch

    start = time.perf_counter()
    for name, where, fit in cases(lambda X: torch.as_tensor(X, device=options.device), options.device):
        if time.perf_counter() - start > options.seconds:
            print("out of time")
            return
        before = time.perf_counter()
        learner = fit()
        took = time.perf_counter() - before
        print(
            f"| {name} | {where} | {took:.1f} s | {learner.result_.status}, gap {learner.result_.gap:.0e} |", flush=True
        )
        if isinstance(learner, RetrievalLearner):
            X = torch.as_tensor(np.ones((1_000_000, learner.n_features_in_)), device=options.device)
            before = time.perf_counter()
            float(learner.transform(X)[0, 0])  # waits for the card
            print(f"| transform of 1,000,000 | {options.device} | {time.perf_counter() - before:.2f} s | |", flush=True)


if __name__ == "__main__":
    main()
