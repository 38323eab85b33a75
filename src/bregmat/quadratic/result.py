"""The result of a nonnegative quadratic program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.engine.result import Kind, Result
from bregmat.engine.status import ExitReason, Status

_ADVICE = {
    ExitReason.CERTIFICATE: "See equality_dual or direction for the proof, and change the equality or the linear term.",
    ExitReason.MAX_ITER: "Raise max_iter, or (a) scale the variables so that diag(A) is even, (b) loosen tol, (c) use another solver.",
    ExitReason.TIME: "Raise max_seconds, or continue from this result's x with x0=.",
    ExitReason.STALLED: "Rounding allows no better: (a) scale the variables so that the diagonal of A is even, (b) loosen tol.",
    ExitReason.INTERRUPTED: "Stopped on request; continue from this result's x with x0=.",
    ExitReason.NONFINITE: "A number overflowed: scale A and b towards 1.",
}


@dataclass(eq=False, repr=False, kw_only=True)
class QPResult(Result):
    """The minimiser of ``1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``, with its certificate.

    In addition to the attributes of all results (:class:`bregmat.Result`):

    Attributes
    ----------
    x : ndarray, shape (n,)
        Inside the box.
    dual : ndarray, shape (n,)
        Reduced gradient ``A x + b + E' equality_dual``. Its positive part is the multiplier of ``x >= 0``, its negative part that of
        ``x <= upper``, in units of the objective per unit of x.
    equality_dual : ndarray, shape (m,)
        Multipliers of ``E x = e``. For INFEASIBLE the proof: ``y'E x < y'e`` for every x in the box, with y = equality_dual.
    gap : float
        ``(objective - dual_bound) / max(|objective|, 1/2 x'Ax, 1e-6 (|b|'x + |equality_dual|'|E|x))``. If this maximum is 0, the gap is
        relative to 1e-4 of what single variables could gain. Dimensionless; inf if nothing is proven.
    kkt_residual : float
        Largest violation of the optimality conditions by ``dual``. Every entry is divided by sqrt(A_ii), and is relative to the
        larger of its own ``|b_i|`` and the largest relevant b in these units; a b_i that only keeps its variable at zero is not relevant.
    max_violation : float
        ``max|E x - e|`` relative to the size of its terms; a few roundings of the largest variable are allowed.
    bound_perturbation : float
        0 if ``dual_bound`` is proven for b itself. If the optima form a ray, rounded arithmetic proves no such bound. The
        bound is then proven for a b that is raised by at most this, relative to the largest relevant b, and for b itself at
        points that are no farther out than x. At most 1e-12.
    curvature_tolerance : float
        delta for which ``A + delta max(A_ii) I`` is positive semidefinite. At every feasible point w, the objective is at least
        ``dual_bound - 1/2 delta max(A_ii) r^2``, with r the larger of ``|w|`` and ``|w - x|``. A problem whose objective falls without
        bound farther out, along a direction of negative curvature by rounding, is OPTIMAL in this sense. It is at
        most a little above ``1e-10 sqrt(n)``, and 0 for least squares.
    direction : ndarray, shape (n,), or None
        For UNBOUNDED: ``direction >= 0``, ``b'direction < 0``; ``A direction = 0`` and ``E direction = 0`` up to the rounding of their
        terms, and the curvature along it is at most a quarter of a unit in the last place.
    n_iter : int
        Steps of the exact solvers, or updates. In the history, ``violation`` is the KKT residual.

    Examples
    --------
    >>> from bregmat import nnqp
    >>> result = nnqp([[1.0, 0.0], [0.0, 1.0]], [-3.0, 2.0], upper=2.0)
    >>> result.x.round(6), round(result.objective, 6), bool(result.gap <= result.tol)
    (array([2., 0.]), -4.0, True)
    """

    x: np.ndarray
    dual: np.ndarray
    equality_dual: np.ndarray
    kkt_residual: float
    bound_perturbation: float = 0.0
    curvature_tolerance: float = 0.0
    direction: np.ndarray | None = None

    _kind: ClassVar[Kind] = Kind(
        statuses=frozenset(Status),
        gap_is_ratio=False,
        shown=("objective", "dual_bound", "gap", "kkt_residual"),
        advice=_ADVICE,
    )
