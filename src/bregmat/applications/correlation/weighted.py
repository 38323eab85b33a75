"""Weights and bounds for single entries: the correlation matrix nearest in ``1/2 sum (h_ij (X_ij - C_ij))^2`` inside a box.

The multiplier of ``X >= min_eig I`` is a matrix S >= 0. For any such S the Lagrangian falls into single entries, so that

    g(S) = sum_ij min over l_ij <= x <= u_ij of (h_ij (x - C_ij))^2 / 2 - S_ij x,  plus min_eig tr S

is a lower bound that needs no further argument. A weight of 0 costs nothing here, because every correlation lies in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.entries import Entries
from bregmat.applications.correlation.input import aligned, read_fixed, read_matrix, scaled
from bregmat.applications.correlation.problem import CorrelationCertificate
from bregmat.base.checks import Labels, as_matrix, check_flag, check_share, entry_text
from bregmat.base.linalg import EPS, eigh, eigvalsh
from bregmat.certificates.problem import Certificate, Problem, Proof
from bregmat.run.loop import State

Memory = tuple[tuple[np.ndarray, np.ndarray], ...]
MEMORY = 8  # differences that Anderson's method combines; more gain nothing at n = 100 to 1,000
BALANCE = (
    3,
    6,
    12,
)  # steps after which the penalty is balanced; later, it would cost what the acceleration has learned


@dataclass(frozen=True, eq=False)
class WeightedProblem(Problem):
    """``minimize 1/2 sum h2_ij (X_ij - C_ij)^2`` over ``lower <= X <= upper`` and ``X >= min_eig I``.

    Attributes
    ----------
    C, h2, lower, upper : ndarray, shape (n, n)
        Symmetric; ``lower = upper = 1`` on the diagonal. h2 holds squares of weights, at most 1.
    unit : float
        Largest squared weight, which objective, bound and S are multiplied with.
    min_eig : float
    """

    C: np.ndarray
    h2: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    unit: float
    min_eig: float

    @property
    def has_identity(self) -> bool:
        """Whether the bounds allow the identity, so that a matrix may move towards it."""
        return bool((self.lower <= np.eye(len(self.C))).all() and (self.upper >= np.eye(len(self.C))).all())

    def value(self, X: np.ndarray) -> float:
        """The objective, in units of the largest squared weight."""
        return 0.5 * float(np.vdot(self.h2, (X - self.C) ** 2))

    def bound(self, S: np.ndarray) -> float:
        """The dual function g(S), in the same units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            X = np.where(self.h2 > 0, self.C + S / self.h2, np.where(S > 0, self.upper, self.lower))
        X = np.clip(X, self.lower, self.upper)
        return self.value(X) - float(np.vdot(S, X)) + self.min_eig * float(np.trace(S))

    def most(self, S: np.ndarray) -> float:
        """The largest ``<S, X - min_eig I>`` in the box: negative for no S >= 0 unless the problem is infeasible."""
        return float(np.maximum(S * self.lower, S * self.upper).sum()) - self.min_eig * float(np.trace(S))

    def shortfall(self, X: np.ndarray) -> float:
        """By how much the smallest eigenvalue is below ``min_eig``, beyond rounding; else 0."""
        x = eigvalsh(X)
        miss = self.min_eig - float(x[0])
        return miss if miss > 8.0 * EPS * len(x) * max(1.0, float(x[-1])) else 0.0

    # ------------------------------------------------------------------ certificates
    def certify(self, state: _SplitState) -> CorrelationCertificate:
        """A matrix that has its entries to the letter, beside the bound of the state's multiplier."""
        S = _semidefinite(state.penalty * state.N)
        bound = self.unit * self.bound(S)
        found = self._scaled(state.Z)
        found = self._moved(state.X) if found is None else found
        X = state.X if found is None else found
        value = self.unit * self.value(X)
        upper = np.inf if found is None else value
        return CorrelationCertificate(
            dual=self.unit * S, objective=value, dual_bound=bound, upper=upper, size=self.unit, X=X
        )

    def _scaled(self, Z: np.ndarray) -> np.ndarray | None:
        """``D^-1/2 Z D^-1/2``, where that meets the bounds and the smallest eigenvalue."""
        d = np.diag(Z)
        if not d.min() > 0:
            return None
        X = Z / np.sqrt(np.multiply.outer(d, d))
        X = (1.0 - 8.0 * EPS * len(X)) * X  # towards I, by what rounding may cost
        np.fill_diagonal(X, 1.0)
        is_inside = not np.maximum(X - self.upper, self.lower - X).max() > 0.0
        return X if is_inside and self.shortfall(X) == 0.0 else None

    def _moved(self, X: np.ndarray) -> np.ndarray | None:
        """A matrix of the box, moved towards the identity until no eigenvalue is too small; None where the box forbids that."""
        miss = self.shortfall(X)
        if miss == 0.0:
            return X
        if not self.has_identity:
            return None
        X = (1.0 - miss / (miss + 1.0 - self.min_eig)) * X
        np.fill_diagonal(X, 1.0)
        return X if self.shortfall(X) == 0.0 else None

    def retry_below(self, certificate: Certificate, state: _SplitState) -> float:  # type: ignore[override]
        """A certificate costs two steps, in five of which the estimate falls to this share."""
        return state.signal / 30.0

    # ------------------------------------------------------------------ proofs that there is none
    def dual_size(self, state: _SplitState) -> float:
        """Size of S, which grows without end if there is no matrix."""
        return float(np.linalg.norm(state.N))

    def contradiction(self, state: _SplitState) -> Proof | None:
        """``S >= 0`` with ``<S, X - min_eig I> < 0`` everywhere in the box."""
        top = float(np.abs(state.N).max())
        return self._small_proof(state.N / top) if 0.0 < top < np.inf else None

    last_contradiction = contradiction

    def _small_proof(self, S: np.ndarray) -> Proof | None:
        """A proof from S, with as few variables as a deletion filter leaves where one vector v proves it by ``S = v v'``."""
        if not self._is_proof(_semidefinite(S)):
            return None
        order, best = np.argsort(-np.diag(S), kind="stable"), None
        for size in (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, len(S)):
            kept = order[:size]
            block = S[np.ix_(kept, kept)]
            if best is None:
                best = self._vector(kept, np.linalg.eigh(block)[1][:, -1])
        if best is not None:
            kept = np.flatnonzero(best)
            for k in kept[np.argsort(np.abs(best[kept]))]:
                rest = kept[kept != k]
                found = self._vector(rest, best[rest]) if len(rest) > 1 else None
                if found is not None:
                    kept, best = rest, found
            S = np.outer(best, best)
        S = _semidefinite(S)
        return Proof(S, np.flatnonzero(S[np.triu_indices(len(S))]))

    def _vector(self, kept: np.ndarray, v: np.ndarray) -> np.ndarray | None:
        """A vector v on the kept variables whose ``v v'`` is a proof, from a first guess; None where ten steps find none."""
        box = np.ix_(kept, kept)
        for _ in range(10):
            # the matrix of the box with the largest v' X v, and its own worst vector
            worst = np.where(np.outer(v, v) > 0, self.upper[box], self.lower[box])
            v = np.linalg.eigh(worst)[1][:, 0]
            w = np.zeros(len(self.C))
            w[kept] = v
            if self._is_proof(_semidefinite(np.outer(w, w)), least=1e-6):
                return w
        return None

    def _is_proof(self, S: np.ndarray, least: float = 1e-9) -> bool:
        """Whether the largest value is negative, clearly beyond rounding."""
        return self.most(S) < -least * float(np.abs(S).sum())


def _semidefinite(S: np.ndarray) -> np.ndarray:
    """S with the rounding of its eigenvalues added to the diagonal, where that is not 0."""
    S = (S + S.T) / 2
    shift = 4.0 * EPS * len(S) * float(np.abs(S).max(initial=0.0))
    S[np.diag_indices(len(S))] += np.where(np.diag(S) > 0, shift, 0.0)
    return S


# ---------------------------------------------------------------------- posing
def pose_weighted(
    C: Any, weights: Any, bounds: Any, fixed: Any, min_eig: Any, scale: Any
) -> tuple[WeightedProblem, Entries]:
    """Check what was handed in and pose the problem, with the entries that are fixed.

    Parameters
    ----------
    C, weights, bounds, fixed, min_eig, scale
        As in :func:`bregmat.nearest_correlation`.

    Raises
    ------
    TypeError, ValueError
        For arguments that make no problem, each named by its first entry.
    """
    check_share("min_eig", min_eig, zero=True, why=", because the eigenvalues of a correlation matrix have the mean 1")
    check_flag("scale", scale, optional=True)
    h, unknown = None, None
    if weights is not None:
        h = as_matrix("weights", weights, square=True, finite=False, sparse="dense", booleans=True, copy=True)
        h[np.isnan(h)] = 0.0
        unknown = (h == 0.0) & ~np.eye(len(h), dtype=bool)  # C_ii is needed to tell a covariance
    A, labels = read_matrix(C, unknown)
    n = len(A)
    if h is None:
        h = np.ones((n, n))
    else:
        aligned("weights", weights, labels)
        h = as_matrix("weights", h, symmetric=True, order=n, labels=labels)
    if h.min() < 0:
        i, j = np.unravel_index(int(h.argmin()), h.shape)
        raise ValueError(f"weights must not be negative; got {h[i, j]:.6g} at {entry_text(i, j, labels)}.")
    np.fill_diagonal(h, 0.0)
    A = scaled(A, scale, True)
    entries = read_fixed(fixed, A, labels)
    lower, upper = _read_bounds(bounds, n, labels)
    rows, columns = entries.i, entries.j
    value = A[rows, columns]
    is_outside = (value < lower[rows, columns]) | (value > upper[rows, columns])
    if bounds is not None and is_outside.any():
        k = int(np.flatnonzero(is_outside)[0])
        where = entry_text(rows[k], columns[k], labels)
        raise ValueError(f"fixed and bounds disagree: C has {value[k]:.6g} at {where}.")
    if unknown is not None and unknown[rows, columns].any():
        k = int(np.flatnonzero(unknown[rows, columns])[0])
        where = entry_text(rows[k], columns[k], labels)
        raise ValueError(f"fixed has {where}, but its weight in weights is 0: it is unknown.")
    for side in (lower, upper):
        side[rows, columns] = side[columns, rows] = value
    unit = float(h.max()) ** 2 or 1.0
    return WeightedProblem(A, h**2 / unit, lower, upper, unit, float(min_eig)), entries


def _read_bounds(bounds: Any, n: int, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of every entry, at most those of any correlation; 1 on the diagonal."""
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
    """The point V = Z - N with Z >= min_eig I and ``S = penalty N >= 0``, and the matrix X of the box."""

    V: np.ndarray
    Z: np.ndarray
    N: np.ndarray
    X: np.ndarray
    penalty: float
    objective: float
    signal: float
    step: int = 0
    room: float = 0.0  # added to the smallest eigenvalue so that X, too, has it
    before: tuple[np.ndarray, np.ndarray] | None = None  # R and V + R of the last point, with R = X - Z
    memory: Memory = ()  # their last changes
    stalled: bool = False


@dataclass(frozen=True)
class SplitBox:
    """Douglas-Rachford splitting between the box and the cone, with Anderson's acceleration.

    Notes
    -----
    A step costs one eigendecomposition. ``V + X - Z`` is the plain step; Anderson's method combines the last ones (Higham and
    Strabic, Anderson acceleration of the alternating projections method, 2016, do so for alternating projections).
    """

    name: ClassVar[str] = "split_box"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 1000

    def check(self, problem: WeightedProblem) -> None:
        """It takes every weighted problem."""

    def init(self, problem: WeightedProblem, tol: float, start: Any) -> _SplitState:
        """C itself, with five times the mean squared weight as penalty."""
        V = np.clip(problem.C, problem.lower, problem.upper)
        return _at(problem, V, max(5.0 * float(problem.h2.mean()), 1e-3), room=0.0 if problem.has_identity else 1e-3)

    def step(self, problem: WeightedProblem, state: _SplitState) -> _SplitState:
        """One accelerated step, or a plain one after the penalty was balanced."""
        k, penalty, room, memory = state.step + 1, state.penalty, state.room, state.memory
        R = state.X - state.Z
        plain = state.V + R
        here: tuple[np.ndarray, np.ndarray] | None = (R, plain)
        if state.before is not None:
            memory = (*memory, (R - state.before[0], plain - state.before[1]))[-MEMORY:]
        V = _combined(R, plain, memory)
        if room and k % 10 == 0:
            new_room = min(room, 4.0 * float(np.linalg.norm(R)))
            if new_room < 0.5 * room:
                room, V, memory, here = new_room, plain, (), None
        new = _at(problem, V, penalty, room)
        if k in BALANCE:
            primal = float(np.linalg.norm(new.X - new.Z))
            dual = float(np.linalg.norm(new.Z - state.Z))
            factor = float(np.clip(np.sqrt(primal / dual), 0.2, 5.0)) if dual > 0 and primal > 0 else 1.0
            # S = penalty N stays
            new, memory = _at(problem, new.Z - new.N / factor, penalty * factor, room), ()
            here = None
        return replace(new, step=k, before=here, memory=memory)


def _at(problem: WeightedProblem, V: np.ndarray, penalty: float, room: float) -> _SplitState:
    """The state at V."""
    low = problem.min_eig + room
    t, U = eigh(V)
    below, above = t < low, t > low
    if 2 * int(below.sum()) < len(t):
        B = U[:, below] * np.sqrt(low - t[below])
        N = B @ B.T
        Z = V + N
    else:
        B = U[:, above] * np.sqrt(t[above] - low)
        Z = B @ B.T
        Z[np.diag_indices(len(V))] += low
        N = Z - V
    # the box's point nearest to Z + N, with the weights
    X = (problem.h2 * problem.C + penalty * (Z + N)) / (problem.h2 + penalty)
    X = np.clip((X + X.T) / 2, problem.lower, problem.upper)
    bound = problem.bound(penalty * N)
    # Z restored costs an amount of second order in X - Z, up to small bounds
    signal = problem.unit * penalty * float(np.vdot(X - Z, X - Z))
    return _SplitState(V, Z, N, X, penalty, problem.unit * bound, signal, room=room)


def _combined(R: np.ndarray, plain: np.ndarray, memory: Memory) -> np.ndarray:
    """Anderson's step: the plain step less the combination of its last changes whose changes of R cancel R best."""
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
