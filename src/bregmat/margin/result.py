"""What training returns: the machine, the proof of how good it is, and how the run went."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import numpy as np

from bregmat.result import ExitReason, Record, Status

_SCALARS = ("intercept", "objective", "bound", "gap", "max_violation", "margin_bound", "price", "tol", "seconds")
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


@dataclass(eq=False)
class MarginResult:
    """A trained margin machine ``f(x) = sum_i alpha_i signs_i k(x_i, x) + intercept`` with its duality gap.

    Attributes
    ----------
    status : Status
        OPTIMAL: the gap is proven to be at most ``tol``. FEASIBLE: a machine, its gap larger or not computed. INFEASIBLE:
        hard margin on classes that cannot be separated; ``alpha`` is the proof.
    exit_reason : ExitReason
    alpha : ndarray of shape (n,)
        Dual weights, 0 <= alpha <= upper. Where INFEASIBLE, the weights of two points of the classes' convex hulls that
        coincide (``sum alpha = 2`` with an intercept, else 1).
    intercept : float
        The best one for ``alpha``; 0.0 for a machine without.
    decision : ndarray of shape (n,)
        ``f`` at the training samples, to float32 accuracy where it is proven not to matter (far beyond the margin).
    objective, bound : float
        Dual objective of ``alpha`` and primal objective of the machine; the optimum lies between them.
    gap : float
        ``(bound - objective) / |bound|``, dimensionless; inf where it was not computed.
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
    seconds : float
    history : list of Record
        One record per round (active set) or per checked pass; ``objective`` is the primal, ``dual_bound`` the dual value.
    solver : str
    tol : float

    Notes
    -----
    What is proven is so for a positive semidefinite kernel, and but for the rounding of float64 in the kernel's values and in sums:
    about 1e-15 of the sums' terms, which matters where decision values are small differences of large numbers.
    """

    status: Status
    exit_reason: ExitReason
    alpha: np.ndarray
    intercept: float
    decision: np.ndarray
    objective: float
    bound: float
    gap: float
    certified: np.ndarray
    certified_support: np.ndarray
    max_violation: float = np.nan
    margin_bound: float = np.nan
    price: float = np.nan
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = "active_set"
    tol: float = np.nan

    @property
    def n_certified(self) -> int:
        """Number of samples whose part is proven."""
        return int(self.certified.sum())

    @property
    def support(self) -> np.ndarray:
        """Rows with alpha > 0."""
        return np.flatnonzero(self.alpha > 0)

    @property
    def conflict(self) -> np.ndarray | None:
        """Where INFEASIBLE, the rows that carry the proof; else None."""
        return self.support if self.status is Status.INFEASIBLE else None

    @property
    def advice(self) -> str:
        """What to change, as one sentence; empty where nothing has to."""
        early = self.exit_reason in (ExitReason.MAX_ITER, ExitReason.TIME, ExitReason.STALLED)
        if early and self.price == np.inf and self.bound == np.inf:
            return _NOTHING_SEPARATES
        return _ADVICE.get(self.exit_reason, "")

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`."""
        meta: dict[str, Any] = {name: float(getattr(self, name)) for name in _SCALARS}
        meta |= {
            "status": self.status.value,
            "exit_reason": self.exit_reason.value,
            "n_iter": self.n_iter,
            "solver": self.solver,
        }
        history = np.array([astuple(r) for r in self.history], dtype=float).reshape(-1, len(fields(Record)))
        return meta, {
            "alpha": self.alpha,
            "decision": self.decision,
            "certified": self.certified,
            "certified_support": self.certified_support,
            "history": history,
        }

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> MarginResult:
        """Inverse of :meth:`to_state`."""
        given = {name: float(meta[name]) for name in _SCALARS}
        return cls(
            status=Status(meta["status"]),
            exit_reason=ExitReason(meta["exit_reason"]),
            alpha=arrays["alpha"],
            decision=arrays["decision"],
            certified=arrays["certified"].astype(bool),
            certified_support=arrays["certified_support"].astype(bool),
            n_iter=int(meta["n_iter"]),
            history=[Record(int(row[0]), *map(float, row[1:])) for row in arrays["history"]],
            solver=meta["solver"],
            **given,
        )

    def __repr__(self) -> str:
        return (
            f"MarginResult(status={self.status}, exit_reason={self.exit_reason}, objective={self.objective:.8g}, "
            f"bound={self.bound:.8g}, gap={self.gap:.1e}, n_support={len(self.support)}, n_certified={self.n_certified}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def _repr_html_(self) -> str:
        from bregmat._html import result_html

        # The machine is the primal point: its value is the objective there, and the dual value bounds it from below.
        shown = type("MarginResult", (SimpleNamespace,), {})(
            status=self.status,
            exit_reason=SimpleNamespace(name=self.exit_reason.name, advice=self.advice or self.exit_reason.advice),
            objective=self.bound,
            dual_bound=self.objective,
            gap=self.gap,
            max_violation=self.max_violation,
            conflict=self.conflict,
            n_iter=self.n_iter,
            seconds=self.seconds,
            solver=self.solver,
        )
        return result_html(shown, noun="large margin machine", soft=True)
