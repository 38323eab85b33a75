"""MNIST, 60,000 training images of 784 pixels: test error of nearest neighbours before and after learning, CPU time, memory, certificate.

    BREGMAT_DATA=... python benchmarks/bench_mnist.py [--features pixels normalized deskewed] [--components 164] [--all-points]

The learner sees the leading principal components of the training images, `make_pipeline(PCA(164), MetricLearner())`. With its defaults,
the rows of the last pass are those of 10,000 images; with --all-points those of all images, at a heavier slack weight.
"normalized": `make_pipeline(Normalizer(), PCA(164), MetricLearner())`, so that the distance of two images does not depend on how thick
their strokes are. "deskewed": each image is sheared first so that its principal axis is upright. Both are preprocessing and no learning.
CPU seconds are of the pipeline's fit on one thread, without reading, deskewing and the search over the test images. All 60,000 images
are neighbours.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from harness import machine, one_thread, peak_memory_mb, print_table
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from bregmat import MetricLearner
from bregmat_papers.datasets import load_mnist

SIDE = 28
ALL_POINTS = {"slack_weight": 40.0, "n_constraints": 1_800_000}  # 3 x 10 comparisons of each image
FEATURES = ("pixels", "normalized", "deskewed")
QUERIES = 500  # test images at a time


def deskewed(images: np.ndarray) -> np.ndarray:
    """Images (n, 784) sheared along their rows so that the principal axis of the grey values is upright, and centred along them."""
    I = images.reshape(-1, SIDE, SIDE)
    place = np.arange(float(SIDE))
    mass = I.sum(axis=(1, 2))
    row_mean, column_mean = (I.sum(axis=2) @ place) / mass, (I.sum(axis=1) @ place) / mass
    rows, columns = place - row_mean[:, None], place - column_mean[:, None]
    shear = np.einsum("nij,ni,nj->n", I, rows, columns) / np.einsum("nij,ni->n", I, rows**2)
    out, n = np.empty_like(I), len(I)
    for row in range(SIDE):
        source = place + (shear * rows[:, row] + column_mean - (SIDE - 1) / 2)[:, None]
        left = np.floor(source).astype(int)
        padded = np.zeros((n, SIDE + 2), I.dtype)
        padded[:, 1:-1] = I[:, row]
        a, b = (np.take_along_axis(padded, np.clip(left + k, 0, SIDE + 1), axis=1) for k in (1, 2))
        out[:, row] = a + (source - left) * (b - a)
    return out.reshape(n, -1)


def errors(A: np.ndarray, y: np.ndarray, B: np.ndarray, z: np.ndarray) -> list[float]:
    """Percentages of test images whose 1 nearest, and whose 3 nearest training images (ties: the nearest) vote for a wrong digit."""
    A, B = np.asarray(A, np.float32), np.asarray(B, np.float32)
    size, wrong = (A * A).sum(axis=1), np.zeros(2)
    for first in range(0, len(B), QUERIES):
        sq = size - 2.0 * (B[first : first + QUERIES] @ A.T)
        near = np.argpartition(sq, 2, axis=1)[:, :3]
        order = np.argsort(np.take_along_axis(sq, near, axis=1), axis=1)
        labels = y[np.take_along_axis(near, order, axis=1)]
        voted = np.where(labels[:, 1] == labels[:, 2], labels[:, 1], labels[:, 0])
        truth = z[first : first + QUERIES]
        wrong += (labels[:, 0] != truth).sum(), (voted != truth).sum()
    return (100.0 * wrong / len(B)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", nargs="+", default=FEATURES, choices=FEATURES)
    parser.add_argument("--components", type=int, default=164)
    parser.add_argument("--all-points", action="store_true")
    options = parser.parse_args()
    learner = MetricLearner(random_state=0, **(ALL_POINTS if options.all_points else {}))
    one_thread()
    train, test = load_mnist()
    rows = []
    for features in options.features:
        A, B = (deskewed(X / 255) if features == "deskewed" else X / 255 for X in (train.X, test.X))
        start = time.process_time()
        first = [Normalizer()] if features == "normalized" else []
        pipe = make_pipeline(*first, PCA(options.components, random_state=0), clone(learner)).fit(A, train.y)
        seconds = time.process_time() - start
        plain = errors(pipe[:-1].transform(A), train.y, pipe[:-1].transform(B), test.y)
        learned = errors(pipe.transform(A), train.y, pipe.transform(B), test.y)
        result = pipe[-1].result_
        cells = [f"{one:.2f} / {three:.2f} %" for one, three in (plain, learned)]
        rows.append(
            [
                features,
                *cells,
                f"{seconds:.0f} s",
                f"{peak_memory_mb():.0f} MB",
                result.status.name,
                f"{result.gap:.1e}",
            ]
        )
        print(*rows[-1], flush=True)
    header = ["features", "1-NN / 3-NN error, not learned", "learned", "CPU", "peak memory", "status", "gap"]
    print_table(f"60,000 x 784, {options.components} principal components", header, rows)
    print(machine())


if __name__ == "__main__":
    main()
