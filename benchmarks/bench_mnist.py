"""MNIST, 60,000 training images of 784 pixels: test error of nearest neighbours before and after learning, CPU time, memory, certificate.

    BREGMAT_DATA=... python benchmarks/bench_mnist.py [--features pixels normalized upright] [--components 164] [--all-points]

The learner sees the leading principal components of the training images, `make_pipeline(PCA(164), MetricLearner())`. With its defaults,
the rows of the last pass are those of 10,000 images; with --all-points those of all images, at a heavier slack weight.
"normalized": `make_pipeline(Normalizer(), PCA(164), MetricLearner())`, so that the distance of two images does not depend on how thick
their strokes are. "upright": `make_pipeline(FunctionTransformer(upright), Normalizer(), PCA(164), MetricLearner())`, so that slanted
and upright images of a digit are near, too. Both are preprocessing and no learning. CPU seconds are of the pipeline's fit on one thread,
all steps included, without reading and the search over the test images. All 60,000 images are neighbours.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from harness import machine, one_thread, peak_memory_mb, print_table
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from bregmat import MetricLearner
from bregmat_papers.datasets import load_mnist
from bregmat_papers.mnist_images import Deskew

SIDE = 28
ALL_POINTS = {"slack_weight": 40.0, "n_constraints": 1_800_000}  # 3 x 10 comparisons of each image
QUERIES = 500  # test images at a time


def upright(images: np.ndarray) -> np.ndarray:
    """Images (n, 784), each sheared along its rows so that the regression of columns on rows is upright."""
    straight = Deskew("regression")
    return straight(images.reshape(-1, SIDE, SIDE)).reshape(len(images), -1)


# the steps before PCA; scikit-learn runs them inside of the pipeline, and they count in its CPU seconds
FIRST: dict[str, list[Any]] = {
    "pixels": [],
    "normalized": [Normalizer()],
    "upright": [FunctionTransformer(upright), Normalizer()],
}


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
    parser.add_argument("--features", nargs="+", default=list(FIRST), choices=FIRST)
    parser.add_argument("--components", type=int, default=164)
    parser.add_argument("--all-points", action="store_true")
    options = parser.parse_args()
    learner = MetricLearner(random_state=0, **(ALL_POINTS if options.all_points else {}))
    one_thread()
    train, test = load_mnist()
    rows = []
    for features in options.features:
        A, B = train.X / 255, test.X / 255
        start = time.process_time()
        pipe = make_pipeline(*FIRST[features], PCA(options.components, random_state=0), clone(learner)).fit(A, train.y)
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
