"""What a nonnegative quadratic program returns."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields
from typing import Any

import numpy as np

from bregmat.result import ExitReason, Record, Status

_ARRAYS = ("x", "dual", "equality_dual")
_NUMBERS = ("objective", "dual_bound", "gap", "kkt_residual", "max_violation", "bound_perturbation", "tol", "seconds")
_ADVICE = {
    ExitReason.CERTIFICATE: "See equality_dual or direction for the proof, and change the equality or the linear term.",
    ExitReason.MAX_ITER: "Raise max_iter, or (a) scale the variables so that diag(A) is even, (b) loosen tol, (c) use another solver.",
    ExitReason.TIME: "Raise max_seconds, or continue from this result's x with x0=.",
    ExitReason.STALLED: "Rounding allows no better: (a) scale the variables so that the diagonal of A is even, (b) loosen tol.",
    ExitReason.INTERRUPTED: "Stopped on request; continue from this result's x with x0=.",
    ExitReason.NONFINITE: "A number overflowed: scale A and b towards 1.",
}


@dataclass(eq=False)
class QPResult:
    """The minimiser of ``1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``, and its proof.

    Attributes
    ----------
    status : Status
        OPTIMAL: ``gap <= tol``. INFEASIBLE and UNBOUNDED are proven, too.
    exit_reason : ExitReason
        Why the run stopped.
    x : ndarray, shape (n,)
        Inside the box.
    dual : ndarray, shape (n,)
        Reduced gradient ``A x + b + E' equality_dual``: its positive part is the multiplier of ``x >= 0``, its negative part that of
        ``x <= upper``, in units of the objective per unit of x.
    equality_dual : ndarray, shape (m,)
        Multipliers of ``E x = e``. For INFEASIBLE the proof: ``y'E x < y'e`` for every x in the box, with y = equality_dual.
    objective, dual_bound : float
        Objective of x and the proven lower bound.
    gap : float
        ``(objective - dual_bound) / max(|objective|, 1/2 x'Ax, 1e-6 (|b|'x + |equality_dual|'|E|x))``, and where
        all these vanish 1e-4 of what single variables could gain; dimensionless; inf where nothing is proven.
    kkt_residual : float
        Largest violation of the optimality conditions by ``dual``, every gradient in units of sqrt(A_ii) and relative to the
        larger of its own ``|b_i|`` and the largest b that matters; an entry whose variable it keeps at zero does not.
    max_violation : float
        ``max|E x - e|`` relative to the size of its terms; a few roundings of the largest variable are allowed for.
    bound_perturbation : float
        0 where ``dual_bound`` is proven for b itself. Where optima lie on a ray, nothing can be in rounded arithmetic; then the
        bound is proven for b raised somewhere by at most this, relative to the largest b that matters, and for b itself at
        points that are no farther out than x. Never more than 1e-12.
    tol : float
        The relative gap that was asked for.
    direction : ndarray, shape (n,), or None
        For UNBOUNDED: ``direction >= 0``, ``b'direction < 0``; ``A direction = 0`` and ``E direction = 0`` to the rounding of their
        terms, and no curvature along it beyond a quarter of a unit in the last place.
    n_iter : int
        Free sets tried, exchanges, or updates, as the solver counts.
    seconds : float
    history : list of Record
    solver : str
        Name of the solver, or several joined by " + ".
    """

    status: Status
    exit_reason: ExitReason
    x: np.ndarray
    dual: np.ndarray
    equality_dual: np.ndarray
    objective: float
    dual_bound: float
    gap: float
    kkt_residual: float
    max_violation: float = 0.0
    bound_perturbation: float = 0.0
    tol: float = np.nan
    direction: np.ndarray | None = None
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""

    @property
    def advice(self) -> str:
        """What to change."""
        return _ADVICE.get(self.exit_reason, self.exit_reason.advice)

    @property
    def conflict(self) -> np.ndarray | None:
        """Rows of E that carry the proof of infeasibility; None unless INFEASIBLE."""
        return np.flatnonzero(self.equality_dual) if self.status is Status.INFEASIBLE else None

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`."""
        meta: dict[str, Any] = {name: float(getattr(self, name)) for name in _NUMBERS}
        meta |= {"status": self.status.value, "exit_reason": self.exit_reason.value}
        meta |= {"n_iter": int(self.n_iter), "solver": self.solver}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if self.direction is not None:
            arrays["direction"] = self.direction
        arrays["history"] = np.array([astuple(r) for r in self.history], dtype=float).reshape(-1, len(fields(Record)))
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> QPResult:
        """Inverse of :meth:`to_state`."""
        figures = {name: float(meta[name]) for name in _NUMBERS}
        return cls(
            Status(meta["status"]),
            ExitReason(meta["exit_reason"]),
            arrays["x"],
            arrays["dual"],
            arrays["equality_dual"],
            **figures,
            direction=arrays.get("direction"),
            n_iter=int(meta["n_iter"]),
            history=[Record(int(row[0]), *map(float, row[1:])) for row in arrays["history"]],
            solver=meta["solver"],
        )

    def __repr__(self) -> str:
        return (
            f"QPResult(status={self.status}, exit_reason={self.exit_reason}, objective={self.objective:.8g}, "
            f"dual_bound={self.dual_bound:.8g}, gap={self.gap:.1e}, kkt_residual={self.kkt_residual:.1e}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def _repr_html_(self) -> str:
        from bregmat._html import result_html

        return result_html(self, noun="point")
