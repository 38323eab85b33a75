"""Runs of the multiplicative updates (Sha, Saul and Lee 2002): any bounds, a sum constraint, and Anderson's acceleration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.checks import check_integer, check_number
from bregmat.linalg import single_thread_blas
from bregmat.quadratic.splits import Split
from bregmat.quadratic.updates_run import UpdatesRun
from bregmat.result import ExitReason, Record

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class MultiplicativeUpdates:
    """Settings of the multiplicative updates, for ``solver=`` of :func:`bregmat.nnqp` and of the margin machines.

    Each step multiplies every variable by a factor in closed form; the objective falls at every step, with no learning
    rate and no working set. Slow to high accuracy: prefer the exact solvers, and this one to study the method, or for
    quick rough answers on matrices that are too large to factor.

    Parameters
    ----------
    anderson : int
        Depth of Anderson's acceleration in the logarithms of the variables; 0 for the updates as published, 10 is a
        good depth. An extrapolated point is kept only if the objective does not rise.
    clamp : float
        Footnote 2 of the source: a variable below this fraction of the largest (both times ``sqrt(A_ii)``) waits there
        where zero would meet the optimality conditions, and is zero at the end. Dimensionless; 0 for none. A warm
        start's zeros begin there too; with ``clamp=0`` they stay zero.
    max_iter : int
        Steps that a run may take unless told otherwise.

    Notes
    -----
    Source: Sha 2002, eq. 3 and footnote 2. The source clamps a variable for good; here it may grow again, because zero
    may meet the conditions at one step and not at the optimum. The acceleration is not in the source.
    """

    anderson: int = 0
    clamp: float = _EPS
    max_iter: int = 10_000
    name: ClassVar[str] = "multiplicative"

    def __post_init__(self) -> None:
        check_integer("anderson", self.anderson, 0, optional=False)
        check_integer("max_iter", self.max_iter, 1, optional=False)
        check_number("clamp", self.clamp)
        if not 0 <= self.clamp < 1:
            raise ValueError(f"clamp must lie in [0, 1); got {self.clamp!r}.")


@dataclass(frozen=True, eq=False)
class UpdatesEnd:
    """Where a run of the updates ended.

    Attributes
    ----------
    x : ndarray, shape (n,)
        The best point, ``0 <= x <= upper``.
    multiplier : float
        Of the sum constraint, with gradient ``A x + b + multiplier signs``: the intercept of a margin machine; else 0.
    n_iter, n_passes : int
        Steps taken, and passes over the matrix, which refused extrapolations add to.
    history : list of Record
        ``objective`` is F, ``violation`` the largest relative optimality residual (``violation`` in quadratic.updates), ``gap`` what
        ``certify`` gave, else nan.
    objective, gap : float
        F at ``x``, and the last value of ``certify``, else nan.
    violation : float
        The last relative optimality residual.
    exit_reason : ExitReason
        CERTIFICATE where the problem is unbounded.
    unbounded_row : int or None
        A variable along which F falls without end: its row of A is zero, b negative, upper inf. Under a sum constraint,
        one of a pair of such variables.
    positive, negative : ndarray, shape (n,)
        ``A+ x`` and ``A- x``.
    """

    x: np.ndarray
    multiplier: float
    n_iter: int
    n_passes: int
    history: list[Record]
    objective: float
    gap: float
    violation: float
    exit_reason: ExitReason
    unbounded_row: int | None
    positive: np.ndarray
    negative: np.ndarray


def run_updates(
    split: Split,
    b: np.ndarray,
    x0: np.ndarray | None = None,
    *,
    upper: np.ndarray | float | None = None,
    signs: np.ndarray | None = None,
    settings: MultiplicativeUpdates | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
    certify: Callable[[np.ndarray, np.ndarray, np.ndarray], float] | None = None,
) -> UpdatesEnd:
    """Minimise ``1/2 v'Av + b'v`` over ``0 <= v <= upper``, and ``signs'v = signs'x0`` if there are signs.

    Parameters
    ----------
    split : Split
        ``A``, positive semidefinite, as a difference of nonnegative matrices.
    b : ndarray, shape (n,)
    x0 : ndarray, shape (n,), optional
        Start, copied; used as it is apart from zeros (see ``clamp``). By default ones as in the source, shrunk into the
        box and to a zero sum, then scaled to the least objective.
    upper : float or ndarray, shape (n,), optional
        Bounds >= 0, in the units of the variables.
    signs : ndarray of +-1, shape (n,), optional
        The sum constraint: labels of a margin machine.
    settings : MultiplicativeUpdates, optional
    tol : float
        The run stops when ``certify`` gives at most this, or without it when the optimality residual is at most this;
        dimensionless.
    max_iter, max_seconds
        Limits on steps and on wall time.
    callback : callable, optional
        Called with each :class:`bregmat.Record`; True ends the run.
    certify : callable, optional
        ``certify(x, A+ x, A- x)``, a relative gap. The two products contain a split's ridge.

    Returns
    -------
    UpdatesEnd
        Never raises for a numerical outcome; a KeyboardInterrupt ends the run with its last point.

    Notes
    -----
    Sha 2002, eq. 3; bounds and sum constraint as Sha 2007. A step costs one pass over the matrix.
    """
    settings = MultiplicativeUpdates() if settings is None else settings
    ceiling = np.broadcast_to(np.asarray(np.inf if upper is None else upper, dtype=float), (split.n,))
    run = UpdatesRun(
        split,
        np.asarray(b, dtype=float),
        ceiling,
        None if signs is None else np.asarray(signs, dtype=float),
        settings.anderson,
        settings.clamp,
        tol,
        max_seconds,
        callback,
        certify,
    )
    # threads that BLAS keeps waiting for short sums slow the passes; what overflows is refused or reported, not warned about
    with single_thread_blas(0), np.errstate(all="ignore"):
        point, reason = run.go(x0, settings.max_iter if max_iter is None else max_iter)
        point = run.clamped(point)
    return UpdatesEnd(
        x=point.v,
        multiplier=run.multiplier,
        n_iter=max(len(run.history) - 1, 0),
        n_passes=run.n_passes,
        history=run.history,
        objective=point.F,
        gap=run.gap,
        violation=run.miss,
        exit_reason=reason,
        unbounded_row=run.unbounded_row,
        positive=point.p,
        negative=point.q,
    )
