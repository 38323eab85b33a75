"""What the experiments of Sha 2002 share: the data, the kernels, and the machine after so many updates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from bregmat import MultiplicativeUpdates
from bregmat.margin import MarginProblem, MarginResult, kernel_source, train_margin
from bregmat.quadratic import QuadraticProgram, run_updates
from bregmat_papers.experiments import DataHome

PREPARATION = """Features as they are in the file; polynomial kernel `(x.y + 1)^k`, radial kernel
`exp(-|x - y|^2 / (2 sigma^2))`; every coefficient starts at one; the hyperplane passes through the origin of the feature
space. The paper states neither scaling nor the form of the kernels."""


@dataclass(frozen=True)
class TrainTest:
    """A training and a test set, labels +-1."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def sonar(home: DataHome) -> TrainTest:
    """The split by aspect angle, 104 and 104; metal cylinders are +1."""
    train, test = home.sonar_split
    return TrainTest(train.X, _signs(train.y == 0), test.X, _signs(test.y == 0))


def breast_cancer(home: DataHome, seed: int) -> TrainTest:
    """A random 546 of the 683 complete rows to train on; malignant is +1."""
    data = home.table("breast-cancer")
    order = np.random.default_rng(seed).permutation(len(data.X))
    train, test = order[:546], order[546:]
    y = _signs(data.y == 1)
    return TrainTest(data.X[train], y[train], data.X[test], y[test])


def bundled(home: DataHome, seed: int, n: int = 120) -> TrainTest:
    """Standardised cells from scikit-learn's copy of the diagnostic set: for the tests, which have no data folder."""
    data = home.table("breast-cancer-diagnostic")
    order = np.random.default_rng(seed).permutation(len(data.X))[: n + n // 2]
    X = ((data.X - data.X.mean(0)) / data.X.std(0))[order]
    y = _signs(data.y[order] == 0)
    return TrainTest(X[:n], y[:n], X[n:], y[n:])


def train_test(home: DataHome, data: str, seed: int = 0) -> TrainTest:
    """By the name that a unit of work uses."""
    if data == "sonar":
        return sonar(home)
    return breast_cancer(home, seed) if data == "breast cancer" else bundled(home, seed)


def kernel(family: str, parameter: float, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """``(x.y + 1)^parameter`` or ``exp(-|x - y|^2 / (2 parameter^2))``, shape (n, m)."""
    if family == "polynomial":
        return polynomial_kernel(X, Y, degree=parameter, gamma=1.0, coef0=1.0)
    return rbf_kernel(X, Y, gamma=0.5 / parameter**2)


def coefficients_after(K: np.ndarray, y: np.ndarray, stops: Iterable[int]) -> dict[int, np.ndarray]:
    """Coefficients of the hard-margin machine after each of so many updates (eq. 7), from ones, without clamping."""
    program, settings = QuadraticProgram.of(K * np.outer(y, y), -np.ones(len(y))), MultiplicativeUpdates(clamp=0.0)
    coefficients, x, done = {}, np.ones(len(y)), 0
    for stop in stops:
        if stop > done:
            x = run_updates(program, settings, x, tol=0.0, max_iter=stop - done).x
        coefficients[stop], done = x.copy(), stop
    return coefficients


def exact_machine(K: np.ndarray, y: np.ndarray, *, tol: float = 1e-8) -> MarginResult:
    """The certified hard-margin machine whose plane passes through the origin; its coefficients are ``alpha``."""
    problem = MarginProblem.build(kernel_source(K, "precomputed"), y, C=np.inf, intercept=False)
    return train_margin(problem, tol=tol)


def n_errors(K: np.ndarray, coefficients: np.ndarray, y: np.ndarray, y_test: np.ndarray) -> int:
    """How many of the test examples are on the wrong side; K has shape (tests, training)."""
    return int(np.sum(np.sign(K @ (coefficients * y)) != y_test))


def _signs(positive: np.ndarray) -> np.ndarray:
    return np.where(positive, 1.0, -1.0)
