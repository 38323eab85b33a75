"""The result of training: the machine, its certificate and the history of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.engine.result import Kind, Result
from bregmat.engine.status import ExitReason, Status

_ADVICE = {
    ExitReason.CERTIFICATE: "The two classes cannot be separated without error: use a finite C.",
    ExitReason.MAX_ITER: "Raise max_iter, or (a) scale the features, (b) lower C, (c) loosen tol.",
    ExitReason.TIME: "Raise max_seconds, or (a) scale the features, (b) lower C, (c) loosen tol.",
    ExitReason.STALLED: "Rounding allows no better: (a) scale the features, (b) lower C, (c) loosen tol; a kernel that is not "
    "positive semidefinite has no duality gap to close.",
    ExitReason.INTERRUPTED: "Stopped on request; the best weights so far are kept.",
    ExitReason.NONFINITE: "The kernel overflowed: scale the features.",
}
_NOTHING_SEPARATES = (
    "No hyperplane without errors was found, nor proven not to exist: use a finite C, or solver='active_set'."
)


@dataclass(eq=False, repr=False, kw_only=True)
class MarginResult(Result):
    """A trained margin machine ``f(x) = sum_i alpha_i signs_i k(x_i, x) + intercept`` with its duality gap.

    In addition to the attributes of all results (:class:`bregmat.Result`):

    Attributes
    ----------
    status : Status
        OPTIMAL: the gap is proven to be at most ``tol``. FEASIBLE: there is a machine, but its gap is larger or was not computed.
        INFEASIBLE: hard margin on classes that cannot be separated, which is proven in rational arithmetic; ``alpha`` is the
        rounded proof. For the linear kernel and a kernel matrix, the proof is about the given numbers. For other kernels it is found only
        if both classes share a point. UNKNOWN: no machine was found, and no proof that there is none.
    alpha : ndarray of shape (n,)
        Dual weights, 0 <= alpha <= upper. Under a hard margin they are divided by the smallest margin of the machine; under the
        hinge loss, too, if that reduces the gap and respects the bounds. If INFEASIBLE, they are the weights of two points of the
        classes' convex hulls that coincide (``sum alpha = 2`` with an intercept, else 1).
    intercept : float
        The best intercept for ``alpha``; 0.0 for a machine without.
    decision : ndarray of shape (n,)
        ``f`` at the training samples; only to float32 accuracy for samples so far beyond the margin that it does not matter.
    objective, dual_bound : float
        Primal objective of the machine and dual objective of ``alpha``; the optimum lies between them. Infinite if they were not
        computed.
    gap : float
        ``(objective - dual_bound) / |objective|``, dimensionless; inf if it was not computed.
    max_violation : float
        Largest violation of the optimality conditions, in units of the margin (LIBSVM's stopping quantity).
    margin_bound : float
        If INFEASIBLE: no hyperplane separates the classes by a margin (distance in feature space) larger than this; else nan.
    n_iter : int
        "active_set": coordinate steps plus steps and factorisations of the last stage. "multiplicative": passes over the kernel.
    history : list of Record
        One record per round (active set) or per checked pass; ``objective`` is the primal, ``dual_bound`` the dual value.

    Notes
    -----
    All proofs assume a positive semidefinite kernel. The gap does not account for the rounding
    of float64 in kernel values and sums, about 1e-15 of their terms. This matters if decision values are small differences of large
    numbers.
    """

    alpha: np.ndarray
    intercept: float
    decision: np.ndarray
    margin_bound: float = np.nan

    _kind: ClassVar[Kind] = Kind(
        "large margin machine",
        has_priced_errors=True,
        gap_is_ratio=False,
        shown=("objective", "dual_bound", "gap", "n_support"),
        advice=_ADVICE,
    )

    def __post_init__(self) -> None:
        if self.status is Status.INFEASIBLE and self.conflict is None:
            self.conflict = self.support

    @property
    def n_support(self) -> int:
        """Number of support vectors."""
        return len(self.support)

    @property
    def support(self) -> np.ndarray:
        """Rows with alpha > 0."""
        return np.flatnonzero(self.alpha > 0)

    @property
    def advice(self) -> str:
        """What a user may change to get a better result."""
        early = self.exit_reason in (ExitReason.MAX_ITER, ExitReason.TIME, ExitReason.STALLED)
        if early and self.status is Status.UNKNOWN:
            return _NOTHING_SEPARATES
        return super().advice
