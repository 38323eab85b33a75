"""Weights and bounds for single entries: the nearest correlation matrix in ``1/2 sum (h_ij (X_ij - C_ij))^2`` within bounds.

The multiplier of ``X >= 0`` is a matrix S >= 0. For every such S the Lagrangian is a sum over entries, so that

    g(S) = sum_ij min over l_ij <= x <= u_ij of (h_ij (x - C_ij))^2 / 2 - S_ij x

is a lower bound. It is finite for entries of weight 0, because every correlation lies in [-1, 1]. If the smallest eigenvalue is bounded
by d, X is the correlation matrix less ``d I``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.input import MatrixInput, aligned, read_fixed, read_input
from bregmat.applications.correlation.problem import CorrelationCertificate, into_cone, shortfall
from bregmat.base.checks import Labels, as_matrix, entry_text
from bregmat.base.linalg import add_diagonal, eigh
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS
from bregmat.engine.loop import State
from bregmat.engine.problem import Problem, Proof

Memory = tuple[tuple[np.ndarray, np.ndarray], ...]
ANDERSON_MEMORY = 8  # differences of the acceleration; more do not help at n = 100 to 1,000
BALANCE = (3, 6, 12)  # steps after which the penalty is balanced, which restarts the acceleration
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)  # numbers of variables among which a small proof of infeasibility is sought


@dataclass(frozen=True, eq=False)
class WeightedProblem(Problem):
    """``minimize 1/2 sum h2_ij (X_ij - C_ij)^2`` over ``lower <= X <= upper`` and ``X >= 0``.

    Attributes
    ----------
    C, h2, lower, upper : ndarray, shape (n, n)
        Symmetric; ``lower = upper`` on the diagonal, one value. h2 holds squares of weights, at most 1.
    unit : float
        Largest squared weight: the factor of objective, bound and S in the user's units.
    """

    C: np.ndarray
    h2: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    unit: float
    # a certificate costs two steps, and the signal falls by this factor in about five steps
    retry_divisor: ClassVar[float] = 30.0
    retries_feasible: ClassVar[bool] = False
    certifies_cheaply = True  # no row is restored

    @cached_property
    def interior(self) -> tuple[np.ndarray, float] | None:
        """The multiple of the identity with the prescribed diagonal, and its eigenvalue; None if the bounds exclude it."""
        I = np.diag(np.diag(self.lower))
        return (I, float(I[0, 0])) if (self.lower <= I).all() and (self.upper >= I).all() else None

    def value(self, X: np.ndarray) -> float:
        """The objective, in units of the largest squared weight."""
        return 0.5 * float(np.vdot(self.h2, (X - self.C) ** 2))

    def bound(self, S: np.ndarray) -> float:
        """The dual function g(S), in the same units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            X = np.where(self.h2 > 0, self.C + S / self.h2, np.where(S > 0, self.upper, self.lower))
        X = np.clip(X, self.lower, self.upper)
        return self.value(X) - float(np.vdot(S, X))

    # ------------------------------------------------------------------ certificates
    def certify(self, state: _SplitState) -> CorrelationCertificate:
        """A matrix that meets all constraints, with the bound of the state's multiplier."""
        S = _semidefinite(state.penalty * state.N)
        X = self._scaled(state.Z)
        is_feasible = X is not None
        if X is None:
            X = into_cone(state.X, self.interior)
            is_feasible = shortfall(X) == 0.0
        value, bound = self.unit * self.value(X), self.unit * self.bound(S)
        upper = value if is_feasible else np.inf
        return CorrelationCertificate(
            dual=self.unit * S, objective=value, dual_bound=bound, upper=upper, size=self.unit, X=X
        )

    def _scaled(self, Z: np.ndarray) -> np.ndarray | None:
        """Z with the prescribed diagonal by scaling; None if it misses the bounds or is not semidefinite."""
        d = np.diag(Z)
        if not d.min() > 0:
            return None
        d = np.sqrt(np.diag(self.lower) / d)
        X = (1.0 - 8.0 * EPS * len(Z)) * Z  # towards I, by the largest rounding of an eigenvalue
        X *= np.multiply.outer(d, d)
        np.fill_diagonal(X, np.diag(self.lower))
        is_inside = not np.maximum(X - self.upper, self.lower - X).max() > 0.0
        return X if is_inside and shortfall(X) == 0.0 else None

    # ------------------------------------------------------------------ proofs of infeasibility
    def dual_size(self, state: _SplitState) -> float:
        """Size of S, which diverges if the problem is infeasible."""
        return float(np.linalg.norm(state.N))

    def contradiction(self, state: _SplitState) -> Proof | None:
        """A matrix ``S >= 0`` with ``<S, X> < 0`` for every X within the bounds, of few variables if possible."""
        top = float(np.abs(state.N).max())
        if not 0.0 < top < np.inf or not self._is_proof(_semidefinite(state.N / top)):
            return None
        S = state.N / top
        order = np.argsort(-np.diag(S), kind="stable")
        for size in (*SIZES, len(S)):
            v = self._vector(order[:size], S)
            if v is not None:
                S = np.outer(v, v)
                break
        S = _semidefinite(S)
        return Proof(S, np.flatnonzero(S[np.triu_indices(len(S))]))

    last_contradiction = contradiction

    def _vector(self, kept: np.ndarray, S: np.ndarray) -> np.ndarray | None:
        """A vector v on few variables whose ``v v'`` is a proof, from the leading eigenvector of S there; None if ten steps fail."""
        block = np.ix_(kept, kept)
        v = np.linalg.eigh(S[block])[1][:, -1]
        for _ in range(10):
            # the matrix within the bounds with the largest v' X v, and the eigenvector of its smallest eigenvalue
            v = np.linalg.eigh(np.where(np.outer(v, v) > 0, self.upper[block], self.lower[block]))[1][:, 0]
            w = np.zeros(len(self.C))
            w[kept] = v
            if self._is_proof(_semidefinite(np.outer(w, w)), least=1e-6):
                return w
        return None

    def _is_proof(self, S: np.ndarray, least: float = 1e-9) -> bool:
        """Whether ``<S, X>`` is negative for every X within the bounds, clearly beyond rounding."""
        return float(np.maximum(S * self.lower, S * self.upper).sum()) < -least * float(np.abs(S).sum())


def _semidefinite(S: np.ndarray) -> np.ndarray:
    """S plus the rounding of its eigenvalues on the positive diagonal entries, so that it is positive semidefinite."""
    S = (S + S.T) / 2
    shift = 4.0 * EPS * len(S) * float(np.abs(S).max(initial=0.0))
    S[np.diag_indices(len(S))] += np.where(np.diag(S) > 0, shift, 0.0)
    return S


# ---------------------------------------------------------------------- reading the arguments
def pose_weighted(
    C: Any, weights: Any, bounds: Any, fixed: Any, min_eig: Any, scale: Any
) -> tuple[MatrixInput, WeightedProblem]:
    """Check the arguments and build the problem, in which fixed entries have equal bounds.

    Parameters
    ----------
    C, weights, bounds, fixed, min_eig, scale
        As in :func:`bregmat.nearest_correlation`.
    """
    h, unknown = None, None
    if weights is not None:
        h = as_matrix("weights", weights, square=True, finite=False, sparse="dense", booleans=True, copy=True)
        h[np.isnan(h)] = 0.0
        unknown = (h == 0.0) & ~np.eye(len(h), dtype=bool)  # the diagonal tells whether C is a covariance
    matrix = read_input(C, scale, min_eig, unknown=unknown)
    A, labels, n = matrix.C, matrix.labels, len(matrix.C)
    if h is None:
        h = np.ones((n, n))
    else:
        aligned("weights", weights, labels)
        h = as_matrix("weights", h, symmetric=True, order=n, labels=labels)
    if h.min() < 0:
        i, j = np.unravel_index(int(h.argmin()), h.shape)
        raise ValueError(f"weights must not be negative; got {h[i, j]:.6g} at {entry_text(i, j, labels)}.")
    np.fill_diagonal(h, 0.0)
    entries = read_fixed(fixed, matrix)
    lower, upper = _read_bounds(bounds, n, labels)
    rows, columns = entries.i, entries.j
    value = A[rows, columns]
    outside = np.flatnonzero((value < lower[rows, columns]) | (value > upper[rows, columns]))
    if bounds is not None and len(outside):
        k = outside[0]
        where = entry_text(rows[k], columns[k], labels)
        raise ValueError(f"fixed and bounds disagree: C has {value[k]:.6g} at {where}.")
    if unknown is not None and unknown[rows, columns].any():
        k = int(np.flatnonzero(unknown[rows, columns])[0])
        where = entry_text(rows[k], columns[k], labels)
        raise ValueError(f"fixed has {where}, but its weight in weights is 0: it is unknown.")
    for side in (lower, upper):
        side[rows, columns] = side[columns, rows] = value
        np.fill_diagonal(side, 1.0 - min_eig)
    unit = float(h.max()) ** 2 or 1.0
    return matrix, WeightedProblem(A, h**2 / unit, lower, upper, unit)


def _read_bounds(bounds: Any, n: int, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of every entry within [-1, 1]; 1 on the diagonal."""
    if bounds is None:
        bounds = (None, None)
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TypeError("bounds must be a pair (lower, upper), each a number, a matrix or None.")
    sides = []
    for name, side, least in zip(("lower", "upper"), bounds, (-1.0, 1.0), strict=True):
        name = f"bounds: {name}"
        table = np.asarray(least) if side is None else aligned(name, side, labels)
        if table.ndim == 0:
            if table.dtype.kind not in "iuf":
                raise TypeError(f"{name} must be a number, a matrix or None; got {side!r}.")
            table = np.full((n, n), float(table))
        table = as_matrix(name, table, symmetric=True, order=n, labels=labels, copy=True)
        np.fill_diagonal(table, 1.0)
        sides.append(table)
    lower, upper = np.maximum(sides[0], -1.0), np.minimum(sides[1], 1.0)
    if (lower > upper).any():
        i, j = (int(k) for k in np.argwhere(lower > upper)[0])
        got = f"{sides[0][i, j]:.6g} and {sides[1][i, j]:.6g} at {entry_text(i, j, labels)}"
        raise ValueError(f"bounds must have lower <= upper, and meet [-1, 1]; got {got}.")
    return lower, upper


# ---------------------------------------------------------------------- the solver
@dataclass(frozen=True, eq=False)
class _SplitState(State):
    """The point V = Z - N with Z >= 0 and ``S = penalty N >= 0``, and the matrix X within the bounds."""

    V: np.ndarray
    Z: np.ndarray
    N: np.ndarray
    X: np.ndarray
    penalty: float
    objective: float
    signal: float
    step: int = 0
    margin: float = 0.0  # least eigenvalue of Z, so that X reaches the cone after finitely many steps
    before: tuple[np.ndarray, np.ndarray] | None = None  # R = X - Z and V + R of the last point
    memory: Memory = ()  # their last changes
    stalled: bool = False


@dataclass(frozen=True)
class SplitBox:
    """Douglas-Rachford splitting between the bounds and the cone, with Anderson acceleration.

    Notes
    -----
    A step costs one eigendecomposition. The plain step is ``V + X - Z``; the acceleration combines the last ones, as Higham and
    Strabic (Anderson acceleration of the alternating projections method, 2016) do for alternating projections.
    """

    name: ClassVar[str] = "split_box"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 1000

    def check(self, problem: WeightedProblem) -> None:
        """Accept every weighted problem."""

    def init(self, problem: WeightedProblem, tol: float, start: Any) -> _SplitState:
        """Start at C, with five times the mean squared weight as penalty."""
        V = np.clip(problem.C, problem.lower, problem.upper)
        margin = 0.0 if problem.interior is not None else 1e-3  # without it X cannot be moved into the cone
        return _at(problem, V, max(5.0 * float(problem.h2.mean()), 1e-3), margin)

    def step(self, problem: WeightedProblem, state: _SplitState) -> _SplitState:
        """One accelerated step; if the penalty or the margin changes, the acceleration restarts."""
        k, penalty, margin, memory = state.step + 1, state.penalty, state.margin, state.memory
        R = state.X - state.Z
        plain = state.V + R
        here: tuple[np.ndarray, np.ndarray] | None = (R, plain)
        if state.before is not None:
            memory = (*memory, (R - state.before[0], plain - state.before[1]))[-ANDERSON_MEMORY:]
        V = _combined(R, plain, memory)
        if margin and k % 10 == 0:
            smaller = min(margin, 4.0 * float(np.linalg.norm(R)))
            if smaller < 0.5 * margin:
                margin, V, memory, here = smaller, plain, (), None
        new = _at(problem, V, penalty, margin)
        if k in BALANCE:
            primal = float(np.linalg.norm(new.X - new.Z))
            dual = float(np.linalg.norm(new.Z - state.Z))
            factor = float(np.clip(np.sqrt(primal / dual), 0.2, 5.0)) if dual > 0 and primal > 0 else 1.0
            # S = penalty N stays
            new, memory, here = _at(problem, new.Z - new.N / factor, penalty * factor, margin), (), None
        return replace(new, step=k, before=here, memory=memory)


def _at(problem: WeightedProblem, V: np.ndarray, penalty: float, margin: float) -> _SplitState:
    """The state at V."""
    t, U = eigh(V)
    below, above = t < margin, t > margin
    if 2 * int(below.sum()) < len(t):
        B = U[:, below] * np.sqrt(margin - t[below])
        N = B @ B.T
        Z = V + N
    else:
        B = U[:, above] * np.sqrt(t[above] - margin)
        Z = add_diagonal(B @ B.T, margin)
        N = Z - V
    # the minimiser of the objective plus penalty |X - Z - N|^2 / 2 within the bounds
    X = (problem.h2 * problem.C + penalty * (Z + N)) / (problem.h2 + penalty)
    X = np.clip((X + X.T) / 2, problem.lower, problem.upper)
    bound = problem.bound(penalty * N)
    # the restoration of Z changes the objective by an amount of second order in X - Z
    signal = problem.unit * penalty * float(np.vdot(X - Z, X - Z))
    return _SplitState(V, Z, N, X, penalty, problem.unit * bound, signal, margin=margin)


def _combined(R: np.ndarray, plain: np.ndarray, memory: Memory) -> np.ndarray:
    """The accelerated step: the plain step minus the combination of its last changes whose changes of R fit R best."""
    if not memory:
        return plain
    G = np.zeros((len(memory), len(memory)))
    for i, (a, _) in enumerate(memory):
        for j in range(i + 1):
            G[i, j] = G[j, i] = np.vdot(a, memory[j][0])
    G[np.diag_indices(len(G))] += 1e-10 * max(float(np.trace(G)), 1e-300)
    weights = np.linalg.solve(G, np.array([np.vdot(a, R) for a, _ in memory]))
    new = plain.copy()
    for w, (_, change) in zip(weights, memory, strict=True):
        new -= w * change
    return (new + new.T) / 2
