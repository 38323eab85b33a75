"""Newton's method on the dual where the rows name single entries of a matrix: a unit diagonal and entries to keep.

``A*(mu)`` is then a symmetric sparse matrix Y(mu), so the operator costs nothing beside the products with eigenvectors, and
a diagonal can be restored exactly: ``D^-1/2 X D^-1/2`` is positive semidefinite with X. Frobenius: Qi and Sun (2006).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.iterates import Spectral
from bregmat.linalg import eigh
from bregmat.numerics import armijo, conjugate_gradients
from bregmat.problems import NearestMatrix
from bregmat.solve import MatrixState

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class DenseIterate:
    """A feasible matrix by its entries, with its divergence from the prior."""

    X: np.ndarray
    objective: float

    def value(self) -> float:
        """``D(X, C)``."""
        return self.objective

    def matrix(self) -> np.ndarray:
        """X."""
        return self.X


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that rows fix: every diagonal entry in order, then pairs i < j.

    Attributes
    ----------
    n : int
    i, j : ndarray of int, shape (m,)
        Pairs; the c = n + m rows are ``X_kk`` and then ``X_ij``.
    """

    n: int
    i: np.ndarray
    j: np.ndarray

    @property
    def has_pairs(self) -> bool:
        """Whether there is more than the diagonal."""
        return len(self.i) > 0

    def adjoint(self, mu: np.ndarray) -> Any:
        """``Y(mu)``: dense, with ``<Y(mu), X> = mu . values(X)``."""
        Y = np.diag(mu[: self.n])
        Y[self.i, self.j] = Y[self.j, self.i] = 0.5 * mu[self.n :]
        return Y

    def times(self, mu: np.ndarray, U: np.ndarray) -> np.ndarray:
        """``Y(mu) U``."""
        if not self.has_pairs:
            return mu[:, None] * U
        if len(self.i) > 0.05 * self.n**2:
            return self.adjoint(mu) @ U
        half = scipy.sparse.csr_array((0.5 * mu[self.n :], (self.i, self.j)), shape=(self.n, self.n))
        return mu[: self.n, None] * U + half @ U + half.T @ U

    def of_product(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``values(U V' + V U')``."""
        diagonal = 2.0 * np.einsum("ij,ij->i", U, V)
        if not self.has_pairs:
            return diagonal
        if len(self.i) > 0.05 * self.n**2:
            Z = U @ V.T
            pairs = Z[self.i, self.j] + Z[self.j, self.i]
        else:
            pairs = np.einsum("ij,ij->i", U[self.i], V[self.j]) + np.einsum("ij,ij->i", U[self.j], V[self.i])
        return np.concatenate([diagonal, pairs])


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian ``v -> values(U (Psi o U' Y(v) U) U')`` of -g through the smaller side of the spectrum.

    Psi is ``base + sign * (W + W')`` with W zero outside the rows of a few eigenvectors S: for Frobenius Psi is 1 where both
    eigenvalues are positive and 0 where both are negative, so the rarer sign is enough and a product costs ``4 n^2 |S|``.
    """

    entries: Entries
    U: np.ndarray
    S: np.ndarray
    W: np.ndarray
    base: float

    @classmethod
    def of(cls, divergence: Any, entries: Entries, t: np.ndarray, U: np.ndarray) -> Curvature:
        """At the spectrum t, U of the mirror coordinates; t ascends."""
        n = len(t)
        if divergence.keeps_range:
            return cls(entries, U, U, 0.5 * divergence.divided(t), 0.0)
        first = int(np.searchsorted(t, 0.0, side="right"))  # of the positive ones
        mixed = t[first:, None] / (t[first:, None] - t[:first])
        if n - first <= first:
            W = np.hstack([mixed, np.full((n - first, n - first), 0.5)])
            return cls(entries, U, U[:, first:], W, 0.0)
        W = np.hstack([np.full((first, first), 0.5), 1.0 - mixed.T])
        return cls(entries, U, U[:, :first], W, 1.0)

    def product(self, v: np.ndarray) -> np.ndarray:
        """Hessian times v."""
        V = self.U @ (self.W * (self.entries.times(v, self.S).T @ self.U)).T
        part = self.entries.of_product(self.S, V)
        if self.base == 0.0:
            return part
        part = -part
        n = self.entries.n
        part[:n] += v[:n]
        part[n:] += 0.5 * v[n:]
        return part

    def diagonal(self) -> np.ndarray:
        """Diagonal of the Hessian on diagonal rows, an estimate of it on pairs: the preconditioner."""
        found = self.entries.of_product(self.S * self.S, (self.U * self.U) @ self.W.T)
        found = found if self.base == 0.0 else 1.0 - found
        found[self.entries.n :] *= 0.5
        return np.maximum(found, 1e-8)


@dataclass(frozen=True, eq=False)
class _SpectralState(MatrixState):
    """A point of the dual in the eigenbasis of ``T0 - Y(mu)``."""

    solver: EntryNewton
    problem: NearestMatrix
    t: np.ndarray
    U: np.ndarray
    dual: np.ndarray
    p: np.ndarray
    cost: float  # -g(mu)
    signal: float
    stalled: bool = False
    norm: float = np.inf  # of the gradient before the last step
    idle: int = 0  # steps that gained nothing beyond rounding
    largest: float = 1.0  # multiplier when a proof of infeasibility was last looked for
    proof: np.ndarray | None = None  # weights that prove it

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """The proof of infeasibility: the general search for one, which the loop would start, takes minutes for a block."""
        return {} if self.proof is None else {"proof": self.proof}

    @property
    def objective(self) -> float:  # type: ignore[override]
        """The dual bound."""
        return -self.cost

    @property
    def residual(self) -> np.ndarray:
        """``b - p``: gradient of the cost."""
        return self.problem.losses.bound - self.p

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.p).all() and np.isfinite(self.cost))

    @cached_property
    def restored(self) -> DenseIterate | None:
        """The matrix with exact rows, or None where that would cost it its definiteness."""
        D, b, entries = self.problem.divergence, self.problem.losses.bound, self.solver.entries
        n, x, C = entries.n, D.inverse_link(self.t), self.solver.mirror
        if not D.keeps_range and self.t[0] >= 0 and not self.dual.any() and np.array_equal(np.diag(C), b[:n]):
            return DenseIterate(C, 0.0)  # there was nothing to do
        B = self.U[:, x > 0] * np.sqrt(x[x > 0])
        X = B @ B.T
        if entries.has_pairs:
            if not np.abs(self.residual).max() <= 1e2 * self.solver.exact(self.problem):
                return None
            X[entries.i, entries.j] = X[entries.j, entries.i] = b[n:]
            np.fill_diagonal(X, b[:n])
        else:
            if not self.p.min() > 0:
                return None
            # towards b I by what keeps the smallest eigenvalue positive in spite of rounding
            share = min(1e-6, EPS * (8.0 + 8.0 * float(x[-1] / b.min())))
            share = share if x[0] < share else 0.0
            d = np.sqrt(b / self.p)
            X *= (1.0 - share) * d * d[:, None]
            np.fill_diagonal(X, b)
        X = 0.5 * (X + X.T)
        return DenseIterate(X, self.solver.distance(D, self.problem.t0, X))

    @property
    def iterate(self) -> Any:
        """The restored matrix, else ``psi(T)`` in the coordinates of the problem."""
        if self.restored is not None:
            return self.restored
        return Spectral(self.problem.divergence, self.problem.t0, self.t, self.solver.frame.T @ self.U)

    @property
    def values(self) -> np.ndarray:  # type: ignore[override]
        """Values of the rows at the iterate, once that is asked for; those of the iterate before, which cost nothing."""
        asked = self.__dict__.get("restored")
        return self.p if asked is None else self.problem.losses.bound.copy()


@dataclass(frozen=True, eq=False)
class EntryNewton:
    """Dual Newton with conjugate gradients in the eigenbasis of the iterate, for Frobenius and von Neumann.

    Parameters
    ----------
    entries : Entries
        What the rows of the problem fix.
    mirror, frame : ndarray, shape (n, n)
        Mirror coordinates T0 of the prior as a matrix, and its eigenvectors, which the problem calls coordinates.
    proof : ndarray, shape (c,), optional
        Weights that are known to prove infeasibility: the run then ends at once.

    Notes
    -----
    Qi and Sun, A quadratically convergent Newton method for computing the nearest correlation matrix (2006), with fixed entries
    and with any spectral divergence beside Frobenius. A step costs one eigendecomposition a trial and a few products of
    ``4 n^2 k`` operations, k the rarer sign among the eigenvalues (von Neumann: n).
    """

    entries: Entries
    mirror: np.ndarray
    frame: np.ndarray
    proof: np.ndarray | None = None
    name: ClassVar[str] = "entry_newton"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 200

    def exact(self, problem: NearestMatrix) -> float:
        """Residual below which pairs count as met: rounding of an entry."""
        return 64.0 * EPS * max(1.0, float(problem.prior.max(initial=0.0)))

    def check(self, problem: NearestMatrix) -> None:
        """Rows must be those of ``entries``, and the divergence have a spectral form."""
        if problem.divergence.is_congruence_invariant or problem.c != self.entries.n + len(self.entries.i):
            raise TypeError(f"entry_newton cannot handle {problem.divergence.name} with {problem.c} rows.")

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> _SpectralState:
        """The prior, or the answer for a diagonal prior, ``mu = link(C_ii) - link(b)``, where its diagonal is off."""
        D, n = problem.divergence, self.entries.n
        found = self._at(problem, np.zeros(problem.c), problem.t0, self.frame)
        if self.proof is not None:
            return replace(found, proof=self.proof, stalled=True)
        size = found.p[:n] if D.keeps_range else np.diag(self.mirror)
        mu = np.zeros(problem.c)
        mu[:n] = D.link(size) - D.link(problem.losses.bound[:n])
        if np.abs(mu).max() > (0.5 if D.keeps_range else 0.0):
            t, U = eigh(self.mirror - self.entries.adjoint(mu))
            other = self._at(problem, mu, t, U)
            found = other if other.cost < found.cost else found
        rest = found.residual
        return replace(found, signal=self._signal(problem, rest, 2.0 * float(rest @ rest)))

    def step(self, problem: NearestMatrix, state: _SpectralState) -> _SpectralState:
        """One inexact Newton step with Armijo's rule."""
        q = state.residual
        H = Curvature.of(problem.divergence, self.entries, state.t, state.U)
        diagonal = H.diagonal()
        norm = float(np.sqrt(q @ (q / diagonal)))
        if norm == 0.0:
            return replace(state, signal=0.0, stalled=True)
        # a product costs a tenth of an eigendecomposition: solve well
        reduction = 0.03 if not np.isfinite(state.norm) else min(0.03, max(1e-4, (norm / state.norm) ** 1.5))
        proximal = min(1e-3, 0.1 * float(np.abs(q).max())) * diagonal
        end = conjugate_gradients(
            lambda v: H.product(v) + proximal * v,
            q,
            goal=reduction * norm,
            most=200,
            precondition=lambda r: r / diagonal,
        )
        d = -(end.x if end.steps else q / diagonal)
        slope = float(q @ d)
        rounding = 4.0 * EPS * (abs(state.cost) + 2.0 * abs(problem.divergence.constant(problem.t0)))

        def trial(alpha: float) -> tuple[_SpectralState, float] | None:
            mu = state.dual + alpha * d
            T = self.mirror - self.entries.adjoint(mu)
            if not np.isfinite(T).all():
                return None
            t, U = eigh(T)
            if not problem.divergence.in_domain(t):
                return None
            new = self._at(problem, mu, t, U)
            return new, new.cost

        found = armijo(trial, state.cost, slope, rounding=rounding, most=30)
        if found is None:
            return replace(state, signal=norm**2, stalled=True)
        new = found[0]
        rest = new.residual
        left = float(rest @ (rest / diagonal))
        size = float(np.abs(new.dual).max())
        if self.entries.has_pairs and size > 2.0 * state.largest and np.abs(rest).max() > 1e-6:
            y = self._contradiction(problem, new.dual / size)
            if y is not None:
                return replace(new, dual=np.zeros_like(q), proof=y, stalled=True)
        else:
            size = state.largest
        idle = 0 if state.cost - new.cost > rounding or left < 0.25 * norm**2 else state.idle + 1
        return replace(
            new, signal=self._signal(problem, rest, 2.0 * left), norm=norm, idle=idle, stalled=idle >= 3, largest=size
        )

    def _signal(self, problem: NearestMatrix, rest: np.ndarray, gap: float) -> float:
        """A generous estimate of the gap, which is of second order; with pairs, which no scaling can restore, only once they are met."""
        return gap if not self.entries.has_pairs or np.abs(rest).max() <= self.exact(problem) else np.inf

    def _contradiction(self, problem: NearestMatrix, y: np.ndarray) -> np.ndarray | None:
        """Weights near y, few of them, that prove infeasibility: ``Y >= 0`` by adding to its diagonal, and ``y . b < 0``; or None."""
        n, i, j, b = self.entries.n, self.entries.i, self.entries.j, problem.losses.bound
        size = np.abs(y[n:])
        for share in (0.3, 0.1, 0.03, 0.01, 1e-3, 0.0):
            kept = size > share * size.max()
            on = np.unique(np.concatenate([i[kept], j[kept]]))
            z = np.zeros_like(y)
            z[n:][kept] = y[n:][kept]
            z[on] = y[on]
            z[on] += 64.0 * EPS * n - float(np.linalg.eigvalsh(self.entries.adjoint(z)[np.ix_(on, on)])[0])
            if float(z @ b) < -1e-8 * float(np.abs(z) @ np.abs(b)):
                return z
        return None

    def _at(self, problem: NearestMatrix, mu: np.ndarray, t: np.ndarray, U: np.ndarray) -> _SpectralState:
        """The state at mu, given the spectrum of ``T0 - Y(mu)``."""
        D, x = problem.divergence, problem.divergence.inverse_link(t)
        on = slice(int(np.searchsorted(x, 0.0, side="right")), None)
        p = self.entries.of_product(U[:, on], 0.5 * U[:, on] * x[on])
        cost = D.conjugate(t) - D.constant(problem.t0) + float(problem.losses.bound @ mu)
        return _SpectralState(self, problem, t, U, mu, p, cost, np.inf)

    def distance(self, divergence: Any, t0: np.ndarray, X: np.ndarray) -> float:
        """``D(X, prior)`` of a matrix given by its entries."""
        if not divergence.keeps_range:
            return 0.5 * float(np.vdot(X - self.mirror, X - self.mirror))
        x = np.maximum(np.linalg.eigvalsh(X), 0.0)
        return float(divergence.phi(x).sum()) - float(np.vdot(X, self.mirror)) + divergence.constant(t0)
