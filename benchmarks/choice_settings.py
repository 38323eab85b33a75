"""The settings of bench_choice.py: training rows, test rows, and how a map is scored on them.

A setting is named "set:features rows". The 20 sets of labelled_sets.py alone have at most 1,000 rows, of which one half trains. Features
are raw columns (raw), principal components (pc), or the rectified random projections of a network that is not trained (relu); rows are a
number, or "10 each" for 10 rows of each class. Other kinds: "numbers:NAME", "sets:NAME", "tiny:NAME" (classes of 2 to 4 rows, scored on
classes that did not train), and "turns:NAME" (rows of two classes in turn).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import SETS, labelled_set, whole_set
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.metrics import jaccard_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

MOST_TEST = 1000
UNLABELED = 3000  # rows that principal components are computed from
OWN_EMBEDDINGS = Path(__file__).parent / "results" / "embeddings"  # of make_embeddings.py

# Settings that were looked at while constants of the choice were set.
SEEN = (
    *SETS[::2], "mnist:pc164 500", "usps:pc50 3000", "digits:raw 200", "spambase:raw 3000", "usps:raw 10 each", "mnist:pc50 40 each",
    "letter-recognition:raw 10 each", "sentences:raw 500", "mnist:relu256 500", "usps:relu256 500", "mnist:raw 500", "digits:pc20 500",
    "pendigits:raw 10 each", "spambase:raw 100", "packages:raw 5 each", "packages:raw 40 each", "mnist1280:raw 10 each",
    "docs:raw 10 each", "numbers:diabetes", "numbers:shared unit", "numbers:size of packages", "numbers:proline", "sets:shared unit",
    "sets:tags of packages", "tiny:400 x 4", "tiny:sources", "turns:two classes",
)  # fmt: skip
# Settings that were not.
UNSEEN = (
    *SETS[1::2], "mnist:pc164 1500", "usps:raw 500", "letter-recognition:raw 3000", "digits:raw 10 each", "mnist:pc50 10 each",
    "usps:pc100 5 each", "sentences:raw 10 each", "sentences300:raw 10 each", "mnist:relu256 10 each", "digits:relu100 10 each",
    "mnist:raw 10 each", "mnist:pc50 10000", "usps:pc30 10 each", "pendigits:raw 100", "nursery:raw 200", "packages:raw 10 each",
    "mnist1280:raw 5 each", "mnist1280:raw 40 each", "docs:raw 5 each", "docs:raw 40 each", "numbers:friedman", "numbers:torque",
    "numbers:concavity", "numbers:ink of digits", "sets:digits", "tiny:800 x 3", "tiny:docstrings", "turns:spambase",
)  # fmt: skip
EMBEDDINGS = ("packages", "mnist1280", "docs", "sentences")


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows X, y; test rows Z, z; and the rows that test rows search, by default the training rows."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    z: np.ndarray
    gallery: tuple[np.ndarray, np.ndarray] | None = None
    kind: str = field(default="class")

    def scores(self, transform: Callable[[Any], Any]) -> np.ndarray:
        """The score of each test row: a mean over the rows is what the tables show.

        Classes: mean of 1-NN and 4-NN accuracy, or 1-NN accuracy in a gallery. Numbers: the row's part of R2 with 5 neighbours. Sets:
        the Jaccard similarity to the labels that most of 5 neighbours have.
        """
        A, b = (self.X, self.y) if self.gallery is None else self.gallery
        A, B = np.asarray(transform(A)), np.asarray(transform(self.Z))
        if self.kind == "number":
            predicted = KNeighborsRegressor(5).fit(A, b).predict(B)
            return 1.0 - (predicted - self.z) ** 2 / self.z.var()
        if self.kind == "sets":
            predicted = KNeighborsClassifier(5).fit(A, b).predict(B)
            return np.array(
                [jaccard_score(t[None], p[None], average="samples", zero_division=1) for t, p in zip(self.z, predicted)]
            )
        right = [KNeighborsClassifier(k).fit(A, b).predict(B) == self.z for k in ((1,) if self.gallery else (1, 4))]
        return np.mean(right, axis=0)


def split_of(setting: str, split: int) -> Split:
    """The training and test rows of a setting, drawn with the seed ``split``."""
    base, _, what = setting.partition(":")
    kinds = {"numbers": numbers, "sets": label_sets, "tiny": tiny_classes, "turns": in_turn}
    if base in kinds:
        return kinds[base](what, np.random.default_rng(split))
    if not what:
        X, y = labelled_set(base, 1000)
        halves = list(StratifiedKFold(2, shuffle=True, random_state=split).split(X, y))
        train, test = halves[split % 2]
        return Split(X[train], y[train], X[test], y[test])
    features, count, *each = what.split()
    X, y = points(base)
    order = np.random.default_rng(split).permutation(len(y))
    test, pool = np.split(order, [min(MOST_TEST, len(y) // 2)])
    train = pool[: int(count)]
    if each:
        train = np.concatenate([pool[y[pool] == c][: int(count)] for c in range(y.max() + 1)])
    A, B = (np.asarray(X[rows], dtype=float) for rows in (train, test))
    if features.startswith("pc"):
        axes = PCA(int(features[2:]), random_state=0).fit(np.asarray(X[pool[:UNLABELED]], dtype=float))
        A, B = axes.transform(A), axes.transform(B)
    if features.startswith("relu"):
        R = np.random.default_rng(0).normal(size=(A.shape[1], int(features[4:])))
        A, B = np.maximum(A @ R, 0.0), np.maximum(B @ R, 0.0)
    return Split(A, y[train], B, y[test])


@cache
def points(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a set and their class codes."""
    files = {"packages": "packages384", "mnist1280": "mnist1280", "docs": "docs"}
    if name in files:
        X, y = vectors(files[name], "X", "y")
    else:
        X, y = whole_set(name)
    return X, np.unique(y, return_inverse=True)[1]


@cache
def vectors(name: str, *columns: str) -> tuple[np.ndarray, ...]:
    """Columns of a file of embeddings, of the data home or of make_embeddings.py."""
    there = Path(os.environ["BREGMAT_DATA"]) / "embeddings" / f"{name}.npz"
    file = np.load(there if there.exists() else OWN_EMBEDDINGS / f"{name}.npz")
    return tuple(
        np.asarray(file[column], dtype=float if file[column].dtype.kind == "f" else None) for column in columns
    )


def parted(X: np.ndarray, y: np.ndarray, rng: np.random.Generator, n_train: int, kind: str) -> Split:
    """Random training rows, and at most MOST_TEST others."""
    order = rng.permutation(len(X))
    train, test = order[:n_train], order[n_train : n_train + MOST_TEST]
    return Split(X[train], y[train], X[test], y[test], kind=kind)


def numbers(name: str, rng: np.random.Generator) -> Split:
    """Targets that are numbers."""
    if name == "shared unit":  # 5 of 100 columns have most of the variance and the target
        X = rng.normal(size=(1300, 100)) * np.where(np.arange(100) < 5, 3.0, 0.3)
        y = X[:, :5].sum(axis=1) + 0.3 * rng.normal(size=len(X))
        return parted(X, y, rng, 300, "number")
    if name == "friedman":
        return parted(*datasets.make_friedman1(1500, n_features=20, noise=1.0, random_state=1), rng, 500, "number")
    if name == "diabetes":
        return parted(*datasets.load_diabetes(return_X_y=True), rng, 221, "number")
    if name == "proline":
        X, _ = datasets.load_wine(return_X_y=True)
        return parted(X[:, :-1], X[:, -1], rng, 89, "number")
    if name == "concavity":
        X, _ = datasets.load_breast_cancer(return_X_y=True)
        return parted(np.delete(X, [6, 7, 26, 27], axis=1), X[:, 6], rng, 284, "number")
    if name == "torque":
        X, _ = whole_set("balance-scale")
        return parted(X, X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3], rng, 312, "number")
    if name == "ink of digits":  # how much of the right half is inked, from the left half
        X, _ = datasets.load_digits(return_X_y=True)
        left = np.tile(np.arange(8) < 4, 8)
        return parted(X[:, left], X[:, ~left].sum(axis=1), rng, 500, "number")
    if name == "size of packages":
        X, size = vectors("tags", "X", "size")
        return parted(X, size, rng, 1000, "number")
    raise KeyError(name)


def label_sets(name: str, rng: np.random.Generator) -> Split:
    """Targets that are sets of labels."""
    if (
        name == "shared unit"
    ):  # 6 labels, each one half of the space along a direction of large variance; 40 columns of noise
        signal, noise = rng.normal(size=(1400, 6)), rng.normal(size=(1400, 40))
        X = np.hstack([3.0 * signal, 0.5 * noise])
        return parted(X, (signal > 0.5).astype(np.int8), rng, 400, "sets")
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        facts = [y % 2 == 0, y >= 5, np.isin(y, (0, 6, 8, 9)), np.isin(y, (1, 4, 7)), np.isin(y, (2, 3, 5, 7))]
        return parted(X, np.stack(facts, axis=1).astype(np.int8), rng, 400, "sets")
    if name == "tags of packages":
        X, Y = vectors("tags", "X", "Y")
        return parted(X, Y, rng, 1000, "sets")
    raise KeyError(name)


def tiny_classes(name: str, rng: np.random.Generator) -> Split:
    """Classes of 2 to 4 rows. Test classes did not train; one row of each is the gallery, and the others search it."""
    if name in ("400 x 4", "800 x 3"):
        n_classes, size = (int(part) for part in name.split(" x "))
        codes = np.repeat(np.arange(n_classes + 300), size)
        center = rng.normal(size=(n_classes + 300, 64)) * np.where(np.arange(64) < 16, 1.0, 0.4)
        X = center[codes] + rng.normal(size=(len(codes), 64)) * np.where(np.arange(64) < 16, 0.45, 0.6)
    elif name == "sources":
        X, codes = vectors("sources", "X", "y")
    elif name == "docstrings":
        Q, D = vectors("docstrings384", "Q", "D")
        X, codes = np.concatenate([Q, D]), np.tile(np.arange(len(Q)), 2)
    else:
        raise KeyError(name)
    n_classes = codes.max() + 1
    held = rng.permutation(n_classes)[: min(300, n_classes // 3)]
    is_test = np.isin(codes, held)
    rows = rng.permutation(np.flatnonzero(is_test))
    _, first = np.unique(codes[rows], return_index=True)
    gallery, asking = rows[first], np.delete(rows, first)
    train = rng.permutation(np.flatnonzero(~is_test))
    return Split(X[train], codes[train], X[asking], codes[asking], (X[gallery], codes[gallery]))


def in_turn(name: str, rng: np.random.Generator) -> Split:
    """Two classes whose rows alternate."""
    if name == "two classes":
        y = np.arange(2600) % 2
        X = rng.normal(size=(len(y), 20))
        X[:, :2] += 1.3 * y[:, None]
        X *= np.where(np.arange(20) < 2, 1.0, 1.5)
        return Split(X[:1600], y[:1600], X[1600:], y[1600:])
    if name == "spambase":
        X, y = points("spambase")
        rows = [rng.permutation(np.flatnonzero(y == c)) for c in (0, 1)]
        train = np.stack([some[:800] for some in rows], axis=1).ravel()
        test = np.concatenate([some[800:1300] for some in rows])
        return Split(X[train], y[train], X[test], y[test])
    raise KeyError(name)
