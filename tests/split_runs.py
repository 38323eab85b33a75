"""A run of the multiplicative updates without a gap, with what the tests ask of its end in one place."""

from types import SimpleNamespace

import numpy as np

from bregmat.engine.loop import RunLog
from bregmat.quadratic import SplitProgram, run_updates


def updated(split, b, x0=None, *, upper=None, signs=None, settings=None, callback=None, max_seconds=None, **limits):
    """Minimise ``1/2 v'Av + b'v`` over ``0 <= v <= upper``, and ``signs'v = signs'x0`` if there are signs."""
    problem = SplitProgram(split, b, upper=upper, signs=signs)
    outcome = run_updates(problem, settings, x0, log=RunLog(callback, max_seconds), **limits)
    state, rows = outcome.certificate.state, outcome.conflict
    return SimpleNamespace(
        x=outcome.certificate.x,
        positive=state.point.p,
        negative=state.point.q,
        objective=state.point.F,
        multiplier=state.multiplier,
        violation=state.residual,
        n_iter=outcome.n_iter,
        history=outcome.history,
        exit_reason=outcome.exit_reason,
        unbounded_row=None if rows is None else int(rows[np.argmin(problem.b[rows])]),
    )
