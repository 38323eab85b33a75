"""The nearest correlation matrix as a problem (P): certificates with exactly the prescribed entries, and proofs of infeasibility."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.entries import Entries, FixedBlocks, fixed_blocks
from bregmat.base.linalg import (
    cholesky,
    cholesky_inverse,
    eigh,
    eigvalsh,
    logdet_of_factor,
    symmetrize,
    triangular_solve,
)
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS, FEASIBLE
from bregmat.certificates.problem import MODEST, NearestMatrix, dual_bound
from bregmat.certificates.restoration import with_met_rows
from bregmat.engine.problem import Certificate, Proof
from bregmat.objective.divergences import Frobenius
from bregmat.objective.losses import Hard
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.linear_maps import Operator
from bregmat.solvers.base import MatrixState


class DenseState(MatrixState, ABC):
    """A state of the solvers of this folder, which know the matrix itself before its entries are restored.

    ``spectrum`` has its eigenvalues in ascending order, if they are known.
    """

    spectrum: np.ndarray | None = None

    @abstractmethod
    def matrix(self) -> np.ndarray:
        """``B M B'``, shape (n, n), as a new array."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrelationCertificate(Certificate):
    """A correlation matrix with its proof.

    Attributes
    ----------
    X : ndarray, shape (n, n)
        With exactly the prescribed entries; if the certificate is not feasible, the last iterate.
    factor : ndarray, shape (n, k), or None
        Loadings of a search with a given rank or number of factors.
    null_space : ndarray, shape (n, k), or None
        Null vectors of every matrix with these entries: the dual bound holds on their complement.
    """

    X: np.ndarray
    factor: np.ndarray | None = None
    null_space: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrelationProblem(NearestMatrix):
    """``X = B M B'`` with M near a diagonal prior, one value on the diagonal of X, and ``X_ij = C_ij`` for fixed entries.

    If the smallest eigenvalue is bounded by d, X and C are those of the caller less ``d I``.

    Attributes
    ----------
    C : ndarray, shape (n, n)
    entries : Entries
        The entries that the rows prescribe.
    basis : ndarray, shape (n, r)
        B: eigenvectors of C; for LogDet the lower Cholesky factor of C; or an orthonormal basis of the complement of null vectors.
    blocks : FixedBlocks
        Consequences of blocks of fixed entries.
    """

    C: np.ndarray
    entries: Entries
    basis: np.ndarray
    blocks: FixedBlocks = field(default_factory=FixedBlocks)
    size: ClassVar[float] = 1.0  # the unit diagonal sets the scale
    # derived from the entries
    operator: Operator = field(init=False)
    losses: RowLosses = field(init=False)
    unit: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        bound = self.entries.wanted(self.C)
        one, zero = np.ones(len(bound)), np.zeros(len(bound), np.int8)
        losses = RowLosses(bound, zero, one, one, (Hard(),), zero)
        vars(self).update(operator=self.entries.operator(self.basis), losses=losses, unit=one)
        super().__post_init__()
        # the identity is feasible if no entry beside the diagonal is prescribed
        vars(self).update(is_always_feasible=not self.entries.has_pairs)

    @classmethod
    def frobenius(cls, C: np.ndarray, entries: Entries) -> CorrelationProblem:
        """Frobenius, in the eigenvectors of C, on the complement of null vectors if there are any."""
        blocks = fixed_blocks(entries, entries.prescribed(C)) if entries.has_pairs else FixedBlocks()
        N, offset = blocks.basis, 0.0
        if N is None:
            t0, basis = eigh(C)
        else:
            t0, V = eigh(N.T @ C @ N)
            basis, offset = N @ V, 0.5 * (float((C**2).sum()) - float((t0**2).sum()))
        return cls(Frobenius(), t0, offset=offset, C=C, entries=entries, basis=basis, blocks=blocks)

    # ------------------------------------------------------------------ facts
    @property
    def is_whole(self) -> bool:
        """Whether no null vectors were eliminated: the basis is square."""
        return self.r == self.entries.n

    @property
    def rounding(self) -> float:
        """Rounding of an entry: pairs that differ by less count as met."""
        return 64.0 * EPS * max(1.0, float(self.prior.max(initial=0.0)))

    @cached_property
    def mirror(self) -> np.ndarray:
        """Mirror coordinates T0 of the prior as a matrix, shape (n, n)."""
        if self.divergence.keeps_range:
            return (self.basis * self.t0) @ self.basis.T
        return self.C

    @cached_property
    def inverse(self) -> np.ndarray:
        """``C^-1`` (LogDet)."""
        return cholesky_inverse(self.basis)

    @cached_property
    def logdet(self) -> float:
        """``logdet C`` (LogDet)."""
        return logdet_of_factor(self.basis)

    def distance(self, X: np.ndarray) -> float:
        """``D(X, C)``; inf if X has to be positive definite and is not."""
        D = self.divergence
        if not D.keeps_range:
            return 0.5 * float(np.vdot(X - self.C, X - self.C))
        if D.is_congruence_invariant:
            K, ok = cholesky(X)
            if not ok:
                return np.inf
            # |F|^2 - 2 logdet F - n with F = L^-1 K avoids the difference of large traces
            F = triangular_solve(self.basis, K)
            return float(np.vdot(F, F)) - logdet_of_factor(F) - len(X)
        x = np.maximum(eigvalsh(X), 0.0)
        return float(D.phi(x).sum()) - float(np.vdot(X, self.mirror)) + D.constant(self.t0)

    @cached_property
    def interior(self) -> tuple[np.ndarray, float] | None:
        """The matrix with the prescribed entries and 0 elsewhere, and its smallest eigenvalue; None if that is not positive."""
        X = self.entries.prescribed(self.C)
        depth = float(eigvalsh(X)[0])
        return (X, depth) if depth > 0.0 else None

    # ------------------------------------------------------------------ certificates
    def certify(self, state: Any) -> CorrelationCertificate:  # type: ignore[override]
        """The matrix with exactly its prescribed entries, from ``D^-1/2 X D^-1/2`` or by writing the entries into it.

        Writing fixed entries into X may make an eigenvalue too small. Then X is moved towards the interior, if a matrix there is
        known; otherwise the certificate is not feasible.
        """
        X = self._restored(state) if isinstance(state, DenseState) else None
        violation, is_scaled = 0.0, X is not None and not self.entries.has_pairs
        if X is None:
            X, violation = self._restored_by_rows(state)
        bound, mu = self._bound(state.dual)
        if bound == -np.inf:  # outside the domain; multipliers of 0 prove that the divergence is not negative
            bound, mu = self._bound(np.zeros_like(state.dual))
        objective = self.distance(X)
        upper = objective if is_scaled or (violation == 0.0 and shortfall(X) == 0.0) else np.inf
        return CorrelationCertificate(
            dual=mu,
            objective=objective,
            dual_bound=bound,
            upper=upper,
            max_violation=violation,
            X=X,
            null_space=self.blocks.null,
        )

    def _restored(self, state: DenseState) -> np.ndarray | None:
        """The matrix of a state with its entries restored; None if that is not possible without a change of other entries."""
        p, b, C = state.values, self.losses.bound, self.C
        if (
            not self.divergence.keeps_range
            and self.t0[0] >= 0
            and not state.dual.any()
            and (self.entries.of(C) == b).all()
        ):
            return C.copy()  # C is feasible
        if self.entries.has_pairs:
            if self.interior is None and np.abs(p - b).max() > 1e2 * self.rounding:
                return None
            X = state.matrix()
            self.entries.write_inplace(X, b)
            X = into_cone(X, self.interior)
            self.entries.write_inplace(X, b)
            return X
        if not p.min() > 0:
            return None
        X, x = state.matrix(), state.spectrum
        d = np.sqrt(b / p)
        X *= np.multiply.outer(d, d)
        if x is not None:  # move X towards b I, so that rounding does not make the smallest eigenvalue negative
            share = min(1e-6, EPS * (8.0 + 8.0 * float(x[-1] / b.min())))
            if x[0] < share:
                X *= 1.0 - share
        self.entries.write_inplace(X, b)
        return X

    def _restored_by_rows(self, state: Any) -> tuple[np.ndarray, float]:
        """The point of a state, restored to its rows by their Gram system, and its violation; 0 if the entries were written into it."""
        met = with_met_rows(self, state.iterate, state.values, state.dual)
        G = self.basis @ met.iterate.factor()
        X = symmetrize(G @ G.T)
        if not met.max_violation <= FEASIBLE:
            return X, met.max_violation
        self.entries.write_inplace(X, self.losses.bound)
        return X, 0.0

    def _bound(self, mu: np.ndarray) -> tuple[float, np.ndarray]:
        """``g(mu)`` less its rounding, and the weights that it holds for.

        For Frobenius T is formed from entries. They do not overlap, so each entry of T has one rounding however many are fixed.

        A feasible X may have a small part in the span of eliminated null vectors. The Lagrangian is convex, and the bound takes its
        minimizer X over the matrices without such a part. Along the null vectors, the gradient ``X - C + A*(mu)`` there is ``A*(mu) - C``.
        """
        D = self.divergence
        if D.keeps_range or not (self.is_whole and mu.any()):
            bound, mu = dual_bound(self, mu)
            if not self.is_whole:
                bound -= self.blocks.largest_decrease(self.entries.adjoint(mu) - self.mirror, self.blocks.excess)
            return bound, mu
        t = eigvalsh(self.mirror - self.entries.adjoint(mu))
        if not np.isfinite(t).all():
            return -np.inf, mu
        error, linear = self.rounding_share * float(np.linalg.norm(t)), mu * self.losses.bound
        constant, conjugate = D.constant(self.t0), D.conjugate(t)
        rounding = error * float(np.linalg.norm(D.inverse_link(t + error)))
        rounding += MODEST * EPS * (constant + conjugate + float(np.abs(linear).sum()))
        return float(constant - conjugate - linear.sum() - rounding), mu

    # ------------------------------------------------------------------ proofs of infeasibility
    def proof_beforehand(self) -> Proof | None:
        """A fixed block with a negative eigenvalue."""
        y = self.blocks.proof
        return super().proof_beforehand() if y is None else Proof(y, np.flatnonzero(y))

    def contradiction(self, state: Any) -> Proof | None:
        """Multipliers that prove that no matrix has these entries."""
        return self._with_null_space(super().contradiction(state))

    def last_contradiction(self, state: Any) -> Proof | None:
        """Multipliers of a few entries that no matrix has, from a search of its own."""
        return self._with_null_space(super().last_contradiction(state))

    def _with_null_space(self, proof: Proof | None) -> Proof | None:
        """A proof with the entries that imply the eliminated null vectors, which are part of it; None if their rounding refutes it."""
        if proof is None or self.is_whole:
            return proof
        if not proof.dual @ self.losses.bound < -self.blocks.largest_decrease(
            self.entries.adjoint(proof.dual), self.blocks.reach
        ):
            return None
        return replace(proof, rows=np.union1d(proof.rows, self.blocks.rows))


def into_cone(X: np.ndarray, interior: tuple[np.ndarray, float] | None) -> np.ndarray:
    """X moved towards the interior matrix by the smallest step that makes it semidefinite; X itself if no interior matrix is known."""
    missing = shortfall(X)
    if missing == 0.0 or interior is None:
        return X
    inner, depth = interior
    return X + missing / (missing + depth) * (inner - X)


def shortfall(X: np.ndarray, min_eig: float = 0.0) -> float:
    """``min_eig`` minus the smallest eigenvalue of X, if that is positive beyond rounding; otherwise 0."""
    x = eigvalsh(X)
    missing = min_eig - float(x[0])
    return missing if missing > 8.0 * EPS * len(x) * max(1.0, float(x[-1])) else 0.0
