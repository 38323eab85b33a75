"""What the tests of the multiplicative updates share: products, a machine, and a run without a gap."""

from types import SimpleNamespace

import numpy as np

from bregmat.engine.loop import RunLog
from bregmat.quadratic import QuadraticProgram, run_updates


def twin(A, v):
    """A+ v and A- v entry by entry."""
    return np.maximum(A, 0) @ v, np.maximum(-A, 0) @ v


def machine(rng, n=60, ridge=0.0):
    """A radial kernel of two overlapping classes, labels, and the matrix of the margin machine."""
    y = np.where(np.arange(n) < n // 3, 1.0, -1.0)
    rng.shuffle(y)
    X = rng.normal(size=(n, 2)) + 0.8 * y[:, None]
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))
    return K, y, K * np.outer(y, y) + ridge * np.eye(n)


def updated(A, b, x0=None, *, upper=None, signs=None, settings=None, callback=None, max_seconds=None, **limits):
    """Minimise ``1/2 v'Av + b'v`` over ``0 <= v <= upper``, and ``signs'v = signs'x0`` if there are signs."""
    upper = None if upper is None else np.full(len(b), upper, dtype=float)
    total = 0.0 if signs is None or x0 is None else float(np.dot(signs, x0))
    equality = None if signs is None else (np.atleast_2d(signs), np.array([total]))
    problem = QuadraticProgram.of(A, b, upper, equality)
    run = run_updates(problem, settings, x0, log=RunLog(callback, max_seconds), **limits)
    state, rows = run.state, None if run.ray is None else np.flatnonzero(run.ray)
    return SimpleNamespace(
        x=run.x,
        positive=state.point.p,
        negative=state.point.q,
        objective=state.point.F,
        multiplier=float(state.multiplier.sum()),
        violation=state.residual,
        n_iter=run.n_iter,
        history=run.log.history,
        exit_reason=run.exit_reason,
        unbounded_row=None if rows is None else int(rows[np.argmin(problem.b[rows])]),
    )
