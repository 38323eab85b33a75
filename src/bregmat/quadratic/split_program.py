"""Nonnegative quadratic programs as the multiplicative updates need them: by products with the parts A+ and A- of the matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bregmat.base.linalg import cholesky, cholesky_solve
from bregmat.base.tolerances import EPS
from bregmat.quadratic.certificate import Evidence, QPCertificate
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.states import QPState
from bregmat.quadratic.updates import positive_negative, spread


@dataclass(frozen=True, eq=False)
class Point:
    """A point v with its products p = ``A+ v`` and q = ``A- v``, shapes (n,), and its objective F."""

    v: np.ndarray
    p: np.ndarray
    q: np.ndarray
    F: float


@dataclass(frozen=True, eq=False, kw_only=True)
class UpdatesState:
    """A point, its update, the multiplier of the sum constraint, and the relative optimality residual."""

    point: Point
    following: np.ndarray
    # of the sum constraint, with the gradient A x + b + multiplier signs: the intercept of a margin machine
    multiplier: float
    residual: float  # of `SplitProgram.violation`
    total: float = 0.0  # of the sum constraint

    @property
    def is_stalled(self) -> bool:
        """Whether the update is the point itself."""
        return np.array_equal(self.following, self.point.v)


class SplitProgram:
    """``minimize F(v) = 1/2 v'Av + b'v`` over ``0 <= v <= upper``, ``signs'v = total``.

    Parameters
    ----------
    A : ndarray, shape (n, n)
        Positive semidefinite; not copied if it is float64 and C-contiguous.
    b : ndarray, shape (n,)
    upper : float or ndarray, shape (n,), optional
        Bounds >= 0, in the units of the variables.
    signs : ndarray, shape (n,), optional
        Coefficients of the sum constraint, +-1 for a margin machine; ``total`` is the sum of the start.
    """

    def __init__(
        self,
        A: np.ndarray,
        b: np.ndarray,
        *,
        upper: np.ndarray | float | None = None,
        signs: np.ndarray | None = None,
    ) -> None:
        self.A, self.b = np.ascontiguousarray(A, dtype=float), np.asarray(b, dtype=float)
        self.n = len(self.b)
        if self.A.shape != (self.n, self.n):
            raise ValueError(f"A must have shape {(self.n, self.n)}, one row per entry of b; got {self.A.shape}.")
        self.upper = np.broadcast_to(np.asarray(np.inf if upper is None else upper, dtype=float), (self.n,))
        self.signs = None if signs is None else np.asarray(signs, dtype=float)
        self.diagonal = np.maximum(self.A.diagonal(), 0.0)
        self.is_flat = self.diagonal == 0
        self.length = np.sqrt(self.diagonal)
        self.unit = float(np.abs(self.b).max(initial=0.0)) or 1.0
        # If the optimum is 0, variables count as zero relative to the minima along single variables, |b_i| / A_ii.
        with np.errstate(all="ignore"):
            alone = np.where(self.diagonal > 0, np.abs(self.b) / self.diagonal, 0.0)
        self.least = EPS * float((alone * self.length).max(initial=0.0))
        self.least_alone = EPS * float(alone.max(initial=0.0))

    def ray(self) -> np.ndarray | None:
        """A direction, shape (n,), of one or two variables without curvature and upper bound, along which F falls; None if none exists."""
        free = (self.diagonal == 0) & np.isinf(self.upper)
        if self.signs is None:
            rows = np.flatnonzero(free & (self.b < 0))[:1]
        else:
            size = np.where(self.signs == 0, 1.0, np.abs(self.signs))
            sides = [np.flatnonzero(free & (np.sign(self.signs) == s)) for s in (1, -1)]
            rows = np.array([side[np.argmin((self.b / size)[side])] for side in sides if len(side)], dtype=np.int64)
            if len(rows) < 2 or (self.b / size)[rows].sum() >= 0:
                rows = np.flatnonzero(free & (self.signs == 0) & (self.b < 0))[:1]
        if len(rows) == 0:
            return None
        ray = np.zeros(self.n)
        ray[rows] = 1.0 if self.signs is None else 1.0 / size[rows]
        return ray

    def at(self, v: np.ndarray) -> Point:
        """The point v with its products, by one pass over the matrix."""
        p, q = positive_negative(self.A, v)
        # F(v) = 1/2 v'(A+ v - A- v) + b'v (eq. 1)
        return Point(v, p, q, float(v @ (0.5 * (p - q) + self.b)))

    def slope(self, point: Point, multiplier: float) -> np.ndarray:
        """Gradient ``A+ v - A- v + b`` (eq. 4), plus ``multiplier signs``."""
        g = point.p - point.q + self.b
        return g if self.signs is None else g + multiplier * self.signs

    def violation(self, v: np.ndarray, g: np.ndarray, scale: np.ndarray) -> float:
        """Largest ``|v - clip(v - g / A_ii, 0, upper)| A_ii / scale``: 0 if the conditions hold; g alone if ``A_ii = 0``."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            size = np.abs(self.diagonal * (v - np.minimum(np.maximum(v - g / self.diagonal, 0.0), self.upper)))
            if self.is_flat.any():
                edge = np.where(v > 0, np.maximum(g, 0.0), 0.0) + np.where(v < self.upper, np.maximum(-g, 0.0), 0.0)
                size = np.where(self.is_flat, edge, size)
            return float(np.where(size == 0, 0.0, size / scale).max(initial=0.0))

    def vanishing(self, v: np.ndarray, clamp: float) -> np.ndarray:
        """Size below which variables are not reduced further, shape (n,): ``clamp`` times the largest variable, times sqrt(A_ii)."""
        floor = max(float((v * self.length).max(initial=0.0)), self.least) / self.length
        return clamp * np.where(self.length > 0, floor, max(float(v.max(initial=0.0)), self.least_alone))

    def on_constraint(self, v: np.ndarray, total: float) -> np.ndarray:
        """``v``, whose entries are multiplied by factors such that ``signs'v = total``."""
        return v if self.signs is None else spread(v, signs=self.signs, total=total, upper=self.upper)

    def keeps_total(self, v: np.ndarray, total: float) -> bool:
        """Whether the sum constraint holds up to rounding."""
        return self.signs is None or bool(abs(self.signs @ v - total) <= 64.0 * EPS * float(np.abs(self.signs) @ v))


class ProgramProofs:
    """Proofs of points of a quadratic program with at most one equality row, for the updates.

    A point is certified with more effort if its gap is above ``tol`` and its residual is small. ``is_rough`` skips the factorisation for
    directions that improve the bound, because the time is over.
    """

    def __init__(self, problem: QuadraticProgram, tol: float, *, is_rough: bool) -> None:
        self.problem, self.tol, root = problem, tol, problem.root
        self.tried = np.inf  # residual at which a proof was last sought with more effort
        self.directions: list[np.ndarray] = []
        if (root > 0).all() and not is_rough:
            if (problem.A >= 0).all():
                self.directions.append(1.0 / root)
            factor, definite = cholesky(problem.A)
            if definite:
                self.directions.append(cholesky_solve(factor, root))

    def __call__(self, state: UpdatesState) -> QPCertificate:
        """The proof of a state. A costlier proof is tried where rounding may hide it, each time the residual has fallen to a fourth."""
        close = 1e-6  # optimality residual below which rounding may hide the proof
        multiplier = np.full(self.problem.m, state.multiplier)
        proof = self.proof(state.point, multiplier)
        if not proof.gap <= self.tol and state.residual <= min(close, 0.25 * self.tried):
            self.tried = state.residual
            end = QPState(state.point.v, multiplier, tol=self.tol, directions=[state.point.v, *self.directions])
            proof = min(proof, self.problem.certify(end), key=lambda proof: proof.gap)
        return proof

    def proof(self, point: Point, multiplier: np.ndarray) -> QPCertificate:
        """The certificate of a point and a multiplier of the row."""
        x, product = point.v, point.p - point.q
        directions = [(x, product), *((w, None) for w in self.directions)]
        return Evidence(self.problem, x, multiplier, product=product).certificate(directions)
