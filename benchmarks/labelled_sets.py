"""Labelled points of many kinds, for the benchmarks that ask what a metric is worth to its neighbours."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np

from bregmat_papers.datasets import load_dataset, load_mnist, load_sentences

TABLES = (
    "wine", "iris", "digits", "digits389", "breast-cancer-diagnostic", "soybean-small", "soybean-large", "balance-scale",
    "breast-cancer", "ionosphere", "sonar", "pendigits389", "pendigits", "letter-recognition", "spambase", "nursery",
)  # fmt: skip
IMAGES = ("mnist", "usps")
SETS = (*TABLES, *IMAGES, "skin", "diabetes")
# those that settings are chosen on; what is said of the settings is measured on the others
CHOICE = SETS[::2]
PIXEL_COMPONENTS = 50


def labelled_set(name: str, most: int, least: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) and class codes (n,): a seeded sample of at most ``most`` rows, without classes of fewer than ``least``."""
    X, y = whole_set(name)
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
    X, y = np.asarray(X[rows], dtype=float), np.unique(y[rows], return_inverse=True)[1]
    kept = np.bincount(y)[y] >= least
    X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    if name in IMAGES:
        from sklearn.decomposition import PCA

        X = PCA(PIXEL_COMPONENTS, random_state=0).fit_transform(X)  # looks at no class
    return X, y


def whole_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All points (n, d) and their labels (n,)."""
    if name.startswith("sentences"):  # "sentences300" has 300 dimensions
        sentences = load_sentences(int(name.removeprefix("sentences") or 100))
        return sentences.X, sentences.y
    if name == "mnist":
        train, _ = load_mnist()
        return train.X, train.y
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        return X, y > np.median(y)
    if name == "usps":
        from scipy.io import loadmat

        file = loadmat(_home() / "usps_7291_2007.mat")
        return file["Train_DAT"].T, file["trainlabels"].ravel()
    if name == "skin":
        with gzip.open(_home() / "skin_nonskin.txt.gz") as handle:
            table = np.loadtxt(handle)
        return table[:, :3], table[:, 3].astype(int)
    data = load_dataset(name)
    return data.X, data.y


def _home() -> Path:
    """The data home; these two sets are in no other place."""
    return Path(os.environ["BREGMAT_DATA"])
