"""What training returns: the machine, the proof of how good it is, and how the run went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.run.result import ExitReason, Result, Status

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

    Beside what all results have (:class:`bregmat.Result`):

    Attributes
    ----------
    status : Status
        OPTIMAL: the gap is proven to be at most ``tol``. FEASIBLE: a machine, its gap larger or not computed. INFEASIBLE:
        hard margin on classes that cannot be separated, proven in rational arithmetic; ``alpha`` is the proof, rounded. Of the
        linear kernel and of a kernel matrix the numbers given count, of others only points that both classes share. UNKNOWN:
        no machine was found, nor a proof that there is none.
    alpha : ndarray of shape (n,)
        Dual weights, 0 <= alpha <= upper: those of the solver, divided by their smallest margin under a hard margin, and under the
        hinge where that is nearer to the optimum and within the bounds. Where INFEASIBLE, the weights of two points of the
        classes' convex hulls that coincide (``sum alpha = 2`` with an intercept, else 1).
    intercept : float
        The best one for ``alpha``; 0.0 for a machine without.
    decision : ndarray of shape (n,)
        ``f`` at the training samples, to float32 accuracy where it is proven not to matter (far beyond the margin).
    objective, dual_bound : float
        Primal objective of the machine and dual objective of ``alpha``; the optimum lies between them. Infinite where they were not
        computed.
    gap : float
        ``(objective - dual_bound) / |objective|``, dimensionless; inf where it was not computed.
    max_violation : float
        Largest violation of the optimality conditions, in units of the margin (LIBSVM's stopping quantity).
    certified : ndarray of shape (n,), bool
        Whether the sample is proven a support vector, or proven to be none, of every optimal machine. Samples exactly on the
        margin never are.
    certified_support : ndarray of shape (n,), bool
        Those of them that are proven support vectors.
    margin_bound : float
        Where INFEASIBLE: no hyperplane separates the classes by a margin (distance in feature space) larger than this; else nan.
    price : float
        Upper bound of every alpha where all have the same (C for the hinge, inf for the others); nan where they differ.
    n_iter : int
        Of "active_set": coordinate steps plus factorisations of the finish. Of "multiplicative": passes over the kernel.
    history : list of Record
        One record per round (active set) or per checked pass; ``objective`` is the primal, ``dual_bound`` the dual value.

    Notes
    -----
    What is proven is so for a positive semidefinite kernel. ``certified`` holds with all rounding; the gap but for the rounding of
    float64 in the kernel's values and in sums: about 1e-15 of the sums' terms, which matters where decision values are small
    differences of large numbers.
    """

    alpha: np.ndarray
    intercept: float
    decision: np.ndarray
    certified: np.ndarray
    certified_support: np.ndarray
    margin_bound: float = np.nan
    price: float = np.nan

    noun: ClassVar[str] = "large margin machine"
    advice_for: ClassVar[dict[ExitReason, str]] = _ADVICE
    has_priced_errors: ClassVar[bool] = True
    gap_is_ratio: ClassVar[bool] = False
    shown: ClassVar[tuple[str, ...]] = ("objective", "dual_bound", "gap", "n_support", "n_certified")

    def __post_init__(self) -> None:
        if self.status is Status.INFEASIBLE and self.conflict is None:
            self.conflict = self.support

    @property
    def n_support(self) -> int:
        """Number of support vectors."""
        return len(self.support)

    @property
    def n_certified(self) -> int:
        """Number of samples whose part is proven."""
        return int(self.certified.sum())

    @property
    def support(self) -> np.ndarray:
        """Rows with alpha > 0."""
        return np.flatnonzero(self.alpha > 0)

    @property
    def advice(self) -> str:
        """What to change."""
        early = self.exit_reason in (ExitReason.MAX_ITER, ExitReason.TIME, ExitReason.STALLED)
        if early and self.price == np.inf and self.objective == np.inf:
            return _NOTHING_SEPARATES
        return super().advice
