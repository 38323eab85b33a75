"""Unfolding beside Isomap: share of the variance in two dimensions, trustworthiness, and how well known coordinates come back.

The Swiss roll, evenly spread, and the images of one digit (the first principal components of scikit-learn's digits). "share" of Isomap is
over the sum of the sizes of all eigenvalues of its kernel, some of which are negative. "roll" and "height" are correlations of the
roll's own coordinates with their best linear predictions from the embedding. This is the comparison that Kulis 2009, section 6.3,
leaves open: the objective "divergence" beside "variance" (maximum variance unfolding, Weinberger 2004).

    python benchmarks/bench_unfolding.py           # the digit, and a roll of 200 points: about 3 minutes
    python benchmarks/bench_unfolding.py --large   # rolls of 400 and 600 points, "variance" alone: about 10 minutes
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap, trustworthiness

from bregmat import unfold


def swiss_roll(n: int, width: float = 21.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points spread evenly over the roll, and their coordinates on the sheet: the length of the spiral, and the height."""
    many, angle = make_swiss_roll(20_000, random_state=seed)
    many[:, 1] *= width / 21.0
    rows, far = [0], ((many - many[0]) ** 2).sum(axis=1)
    while len(rows) < n:  # the farthest from all before
        rows.append(int(far.argmax()))
        far = np.minimum(far, ((many - many[rows[-1]]) ** 2).sum(axis=1))
    X, angle = many[rows], angle[rows]
    return X, np.column_stack([(angle * np.sqrt(1 + angle**2) + np.arcsinh(angle)) / 2, X[:, 1]])


def figures(X: np.ndarray, Y: np.ndarray, sheet: np.ndarray | None, k: int) -> str:
    text = f"trustworthiness {trustworthiness(X, Y, n_neighbors=k):.4f}"
    if sheet is not None:
        Y1 = np.column_stack([Y, np.ones(len(Y))])
        predicted = Y1 @ np.linalg.lstsq(Y1, sheet, rcond=None)[0]
        roll, height = (np.corrcoef(predicted[:, j], sheet[:, j])[0, 1] for j in range(2))
        text += f", roll {roll:.4f}, height {height:.4f}"
    return text


def compare(name: str, X: np.ndarray, sheet: np.ndarray | None, k: int, settings: list[dict[str, Any]]) -> None:
    print(f"{name}: {X.shape[0]} points, {k} neighbours")
    for options in settings:
        start, cpu = time.perf_counter(), time.process_time()
        result = unfold(X, n_neighbors=k, **options)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        share = result.spectrum[:2].sum() / result.spectrum.sum()
        said = ", ".join(map(str, options.values()))
        text = f"  {said:<24} {result.status} gap {result.gap:.0e}, share {share:.4f}, {figures(X, result.embedding, sheet, k)}"
        print(
            f"{text}, {len(result.pairs)} pairs, {result.n_iter} steps, {seconds:.1f} s ({cpu:.1f} s of CPU)",
            flush=True,
        )
    start = time.perf_counter()
    isomap = Isomap(n_neighbors=k, n_components=2)
    Y = isomap.fit_transform(X)
    seconds = time.perf_counter() - start
    J = np.eye(len(X)) - 1.0 / len(X)
    values = np.linalg.eigvalsh(-J @ isomap.dist_matrix_**2 @ J / 2)[::-1]
    print(
        f"  {'Isomap':<24} share {values[:2].sum() / np.abs(values).sum():.4f}, {figures(X, Y, sheet, k)}, {seconds:.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    warnings.simplefilter("always")
    variance = {"objective": "variance", "tol": 1e-5}
    if large:
        for n in (400, 600):
            compare("Swiss roll", *swiss_roll(n), 6, [variance])
        return
    digits, labels = load_digits(return_X_y=True)
    both = [variance, {"divergence": "logdet", "tol": 1e-5}]
    compare("digit 3", PCA(20, random_state=0).fit_transform(digits[labels == 3]), None, 6, both)
    compare("narrow Swiss roll", *swiss_roll(200, width=8.0), 6, both)


if __name__ == "__main__":
    main()
