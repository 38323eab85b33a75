"""Every public entry on small data: what compiles the kernels before they are needed, and what first calls are measured by."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import bregmat.applications as applications
import bregmat.estimators as estimators
import bregmat.online as online
import bregmat.quadratic as quadratic
from bregmat._kernels import COMPILED
from bregmat.checks import as_choice
from bregmat.constraints import Constraints
from bregmat.nearest import nearest_kernel, nearest_metric
from bregmat.solvers.definite_boost import DefiniteBoost

__all__ = ["ENTRIES", "Warmed", "warm_up"]

ENTRIES: dict[str, Callable[[], Any]] = {}


@dataclass(frozen=True)
class Warmed:
    """What one entry took.

    Attributes
    ----------
    name : str
    seconds : float
        CPU time of its call.
    compiled : tuple of str
        What was compiled for it, and not found on disk.
    """

    name: str
    seconds: float
    compiled: tuple[str, ...]


def warm_up(only: Iterable[str] | None = None) -> Iterator[Warmed]:
    """Run entries, all of them by default, one at a time; where nothing is compiled yet, that compiles what they need.

    Parameters
    ----------
    only : iterable of str, optional
        Names of :data:`ENTRIES`.

    Yields
    ------
    Warmed

    Raises
    ------
    ValueError
        A name that is none.

    Examples
    --------
    >>> from bregmat.warmup import warm_up
    >>> [step.name for step in warm_up(only=["KernelKMeans"])]
    ['KernelKMeans']
    """
    names = list(ENTRIES) if only is None else list(only)
    for name in names:
        as_choice("only", name, ENTRIES)
    for name in names:
        start, before = time.process_time(), len(COMPILED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of these problems are stopped early, or odd
            ENTRIES[name]()
        yield Warmed(name, time.process_time() - start, tuple(COMPILED[before:]))


# ---------------------------------------------------------------- data
def _points(n: int = 60, d: int = 5) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def _labels(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] * X[:, 1] > 0).astype(int)


def _pairs(n: int = 12) -> Constraints:
    near = Constraints.sq_distance(np.arange(0, n, 3), np.arange(1, n, 3), 2.0, "<=")
    return near + Constraints.sq_distance(np.arange(0, n, 3), np.arange(2, n, 3), 4.0, ">=")


def _metric(divergence: Any, solver: Any = "auto") -> Any:
    return nearest_metric(_points(), _pairs(), divergence=divergence, solver=solver, slack_weight=1.0)


def _program(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    X = _points(2 * n, n)
    return X.T @ X, -X.sum(axis=0)


# ---------------------------------------------------------------- entries
def _entry(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(call: Callable[[], Any]) -> Callable[[], Any]:
        ENTRIES[name] = call
        return call

    return keep


for _divergence in ("logdet", "vonneumann", "frobenius"):
    ENTRIES[f"nearest_metric {_divergence}"] = lambda name=_divergence: _metric(name)  # type: ignore[misc]
    ENTRIES[f"nearest_kernel {_divergence}"] = lambda name=_divergence: nearest_kernel(  # type: ignore[misc]
        np.eye(12) + 0.1, _pairs(), divergence=name, slack_weight=1.0
    )
for _solver in ("mirror_newton", "dual_newton", "interior_point", "cyclic_projection"):
    ENTRIES[f"{_solver} logdet"] = lambda solver=_solver: _metric("logdet", solver)  # type: ignore[misc]


@_entry("cyclic_projection vonneumann")
def _() -> Any:
    return _metric("vonneumann", "cyclic_projection")


@_entry("definite_boost vonneumann")
def _() -> Any:
    rows = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [0.1, 0.4, 0.6], ["<=", ">=", ">="]) + Constraints.trace(1.0)
    for solver in (DefiniteBoost(), DefiniteBoost(projection="approximate", corrected=False)):
        nearest_kernel(np.eye(6) / 6, rows, divergence="vonneumann", solver=solver)


@_entry("nearest_metric, many pairs")
def _() -> Any:
    X, rng = _points(400, 40), np.random.default_rng(1)
    i, j = rng.integers(0, 200, (2, 6000))
    return nearest_metric(X, Constraints.sq_distance(i, j + 200, 60.0, "<="), slack_weight=1.0)


@_entry("MetricLearner")
def _() -> Any:
    X = _points()
    return estimators.MetricLearner(random_state=0).fit(X, _labels(X)).transform(X)


@_entry("KernelLearner")
def _() -> Any:
    X = _points(30)
    return estimators.KernelLearner(random_state=0).fit(X, _labels(X)).kernel(X[:5], X)


@_entry("KernelKMeans")
def _() -> Any:
    return estimators.KernelKMeans(2, random_state=0).fit(_points())


@_entry("MarginSVC")
def _() -> Any:
    X = _points()
    return estimators.MarginSVC().fit(X, _labels(X)).predict(X)


@_entry("MarginSVC, no intercept")
def _() -> Any:
    X = _points(60, 20)
    return estimators.MarginSVC(fit_intercept=False).fit(X, _labels(X)).predict(X)


@_entry("MarginSVC, precomputed")
def _() -> Any:
    X = _points()
    return estimators.MarginSVC(kernel="precomputed").fit(X @ X.T, _labels(X)).predict(X @ X.T)


@_entry("MarginSVC, many samples")
def _() -> Any:
    X = _points(1200, 40)
    return estimators.MarginSVC(max_iter=3000, tol=1e-2).fit(X, _labels(X)).predict(X[:5])


@_entry("MarginSVC multiplicative")
def _() -> Any:
    X = _points()
    machine = estimators.MarginSVC(fit_intercept=False, solver="multiplicative", tol=1e-2)
    return machine.fit(X, _labels(X)).predict(X)


@_entry("nnqp")
def _() -> Any:
    return quadratic.nnqp(*_program())


@_entry("nnqp, equality")
def _() -> Any:
    A, b = _program()
    rows = np.vstack([np.ones(len(b)), np.arange(len(b)) % 3])
    quadratic.nnqp(A, b, upper=0.5, equality=(rows[:1], np.ones(1)))
    return quadratic.nnqp(A - A.min() * 0, b, equality=(rows, np.array([1.0, 1.2])))


@_entry("nnqp, singular")
def _() -> Any:
    X = _points(12, 40)
    quadratic.nnqp(X.T @ X, -np.abs(X).sum(axis=0), upper=1.0)
    return quadratic.nnqp(X.T @ X, X.T @ X[:, 0], upper=1.0, equality=(np.ones((1, 40)), np.ones(1)))


@_entry("nnqp multiplicative")
def _() -> Any:
    return quadratic.nnqp(*_program(), solver="multiplicative")


@_entry("nonnegative_least_squares")
def _() -> Any:
    X = _points()
    return quadratic.nonnegative_least_squares(X, X[:, 0] + 1)


@_entry("nearest_correlation")
def _() -> Any:
    return applications.nearest_correlation(np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]]))


@_entry("balanced_cut")
def _() -> Any:
    A = np.triu(np.random.default_rng(0).random((40, 40)) < 0.15, 1).astype(float)
    return applications.balanced_cut(A + A.T, random_state=0)


@_entry("balanced_cut, large")
def _() -> Any:
    import scipy.sparse as sparse

    path = sparse.diags_array(np.ones(1199), offsets=1, shape=(1200, 1200))
    return applications.balanced_cut((path + path.T).tocsr(), random_state=0, max_iter=20)


@_entry("nearest_distribution")
def _() -> Any:
    A = np.array([[1.0, 0.0, 0.3, 1.0], [0.2, 0.9, 0.1, 0.0]])
    for solver in ("auto", "cyclic_projection"):
        applications.nearest_distribution(np.full(4, 0.25), A, [0.7, 0.2], [">=", ">="], solver=solver)


@_entry("boost_hypotheses")
def _() -> Any:
    H = np.sign(np.random.default_rng(0).normal(size=(30, 8)))
    return applications.boost_hypotheses(H, np.sign(H.sum(axis=1) + 0.5))


@_entry("MatrixExponentiatedGradient")
def _() -> Any:
    model = online.MatrixExponentiatedGradient(12)
    model.partial_fit(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.1, 0.2, 0.3]))
    return model.loss_bound(), model.predict(np.array([[0, 1]]))


@_entry("MatrixExponentiatedGradient, rank one")
def _() -> Any:
    model = online.MatrixExponentiatedGradient(12, mode="rank_one")
    return model.partial_fit(np.array([[0, 1], [2, 3]]), np.array([0.1, 0.2])).matrix()


@_entry("MatrixExponentiatedGradient, vectors")
def _() -> Any:
    X = _points(3, 12) / 8
    model = online.MatrixExponentiatedGradient(12, instances="vectors", mode="lanczos", keep_examples=True)
    model.partial_fit(X, np.array([0.1, 0.2, 0.3]))
    online.MatrixExponentiatedGradient(12, instances="vectors", mode="rank_one").partial_fit(
        X, np.array([0.1, 0.2, 0.3])
    )
    return model.predict(X), model.best_in_hindsight()


@_entry("MatrixExponentiatedGradient, matrices")
def _() -> Any:
    X = np.array([np.outer(x, x) for x in _points(3, 12) / 8])
    return online.MatrixExponentiatedGradient(12, instances="matrices", mode="lanczos").partial_fit(X, np.full(3, 0.1))


@_entry("OnlineLogDet")
def _() -> Any:
    X = _points()
    return online.OnlineLogDet().partial_fit(np.stack([X[:-1], X[1:]], axis=1), np.ones(59))


@_entry("OnlinePCA")
def _() -> Any:
    return online.OnlinePCA(2).fit(_points())
