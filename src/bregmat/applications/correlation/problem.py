"""The correlation matrix nearest to C as a problem (P): it knows the prescribed entries, restores points to them, and owns its proofs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.entries import Entries, FixedBlocks
from bregmat.applications.correlation.result import Repair
from bregmat.base.linalg import (
    EPS,
    cholesky,
    cholesky_inverse,
    eigh,
    eigvalsh,
    logdet_of_factor,
    symmetrize,
    triangular_solve,
)
from bregmat.base.threads import cached_property
from bregmat.certificates.infeasibility import irreducible
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.certificates.problem import Certificate, Proof, dual_bound
from bregmat.coordinates.priors import RANK_TOL
from bregmat.objective.divergences import Frobenius
from bregmat.objective.row_losses import RowLosses
from bregmat.objective.scalar_losses import Hard
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.linear_maps import Operator
from bregmat.solvers.needs import MatrixState


class DenseState(MatrixState, ABC):
    """What this room's own solvers add to a state: the matrix itself, a new array, before its entries are restored.

    ``spectrum`` has its eigenvalues, ascending, where they are known.
    """

    spectrum: np.ndarray | None = None
    last = None  # results of this room do not keep it

    @abstractmethod
    def matrix(self) -> np.ndarray:
        """``B M B'``, shape (n, n)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrelationCertificate(Certificate):
    """A matrix with its proof.

    Attributes
    ----------
    X : ndarray, shape (n, n)
        With exactly the prescribed entries; else, where the certificate is not feasible, what was reached.
    factor : ndarray, shape (n, k), or None
        ``X = factor factor'``, where the matrix was found in that form.
    null_space : ndarray, shape (n, k), or None
        Null vectors that every matrix with these entries has: the dual bound holds on their complement.
    """

    X: np.ndarray
    factor: np.ndarray | None = None
    null_space: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrelationProblem(NearestMatrix):
    """``X = B M B' + F`` with M near a diagonal prior, ``X_ii = 1``, and ``X_ij = C_ij`` where that is fixed.

    Attributes
    ----------
    C : ndarray, shape (n, n)
        As it was read.
    entries : Entries
        What the rows prescribe.
    basis : ndarray, shape (n, r)
        B: eigenvectors of C, for LogDet a factor of it, or an orthonormal basis of the complement of null vectors.
    fixed_part : ndarray, shape (n, n), or 0
        F: ``min_eig I``, and what fixed entries are on null vectors.
    min_eig : float
        No eigenvalue of X may be below it.
    blocks : FixedBlocks
        What blocks of fixed entries imply; their null vectors are outside of ``basis`` unless that is square.
    is_triangular : bool
        Whether the basis is the lower Cholesky factor of C (LogDet).
    repaired : Repair or None
        What was changed on the matrix that was read.
    """

    C: np.ndarray
    entries: Entries
    basis: np.ndarray
    fixed_part: np.ndarray | float = 0.0
    min_eig: float = 0.0
    blocks: FixedBlocks = field(default_factory=FixedBlocks)
    is_triangular: bool = False
    repaired: Repair | None = None
    size: ClassVar[float] = 1.0  # its diagonal says what is small
    # what the entries say in these coordinates
    operator: Operator = field(init=False)
    losses: RowLosses = field(init=False)
    unit: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        bound = self.entries.wanted(self.C)
        if isinstance(self.fixed_part, np.ndarray):
            bound -= self.entries.of(self.fixed_part)
        one, zero = np.ones(len(bound)), np.zeros(len(bound), np.int8)
        object.__setattr__(self, "operator", self.entries.operator(self.basis))
        object.__setattr__(self, "losses", RowLosses(bound, zero, one, one, (Hard(),), zero))
        object.__setattr__(self, "unit", one)
        super().__post_init__()

    # ------------------------------------------------------------------ making one
    @classmethod
    def frobenius(
        cls, C: np.ndarray, entries: Entries, F: np.ndarray | float, N: np.ndarray | None = None, **facts: Any
    ) -> CorrelationProblem:
        """Frobenius: ``X = M + F`` or ``X = N M N' + F``, by the eigenvectors of what is left of C.

        Parameters
        ----------
        C : ndarray, shape (n, n)
        entries : Entries
        F : ndarray, shape (n, n), or 0
        N : ndarray, shape (n, r), optional
            With orthonormal columns.
        **facts
            Further attributes.
        """
        if N is None:
            t0, basis = eigh(C - F)
        else:
            t0, V = eigh(N.T @ (C - F) @ N)
            basis, facts["offset"] = N @ V, 0.5 * (float(((C - F) ** 2).sum()) - float((t0**2).sum()))
        return cls(Frobenius(), t0, C=C, entries=entries, basis=basis, fixed_part=F, **facts)

    @classmethod
    def in_range(
        cls,
        divergence: SpectralDivergence,
        C: np.ndarray,
        entries: Entries,
        values: np.ndarray,
        Q: np.ndarray,
        **facts: Any,
    ) -> CorrelationProblem:
        """Near a prior ``Q diag(values) Q'`` whose range is kept.

        Parameters
        ----------
        divergence : SpectralDivergence
        C : ndarray, shape (n, n)
        entries : Entries
        values : ndarray, shape (r,)
            Eigenvalues of the prior; those that are 0 up to rounding are left out.
        Q : ndarray, shape (n, r)
            Orthonormal eigenvectors.
        **facts
            Further attributes.
        """
        keep = values > RANK_TOL * values.max()
        if not keep.all():
            values, Q = values[keep], Q[:, keep]
        if divergence.is_congruence_invariant:
            values, Q = np.ones(len(values)), Q * np.sqrt(values)
        return cls(divergence, divergence.link(values), C=C, entries=entries, basis=Q, **facts)

    def raised(self, room: float) -> CorrelationProblem:
        """Frobenius: the same with no eigenvalue of M below ``room``."""
        N = None if self.is_whole else self.blocks.basis
        F = self.fixed_part + room * (np.eye(self.entries.n) if N is None else N @ N.T)
        return self.frobenius(self.C, self.entries, F, N, min_eig=self.min_eig, blocks=self.blocks)

    def inside(self, blocks: FixedBlocks) -> CorrelationProblem:
        """Frobenius: the same on the complement of the null vectors of fixed blocks."""
        F = self.fixed_part + blocks.part
        return self.frobenius(self.C, self.entries, F, blocks.basis, min_eig=self.min_eig, blocks=blocks)

    # ------------------------------------------------------------------ facts
    @property
    def is_whole(self) -> bool:
        """Whether X may be any matrix: the basis is square."""
        return self.r == self.entries.n

    @property
    def always_has_one(self) -> bool:
        """Whether nothing can contradict anything: the range is the whole space, which has the identity."""
        regular = self.is_triangular or not self.divergence.is_congruence_invariant  # a factor need not be
        return regular and self.is_whole and not self.entries.has_pairs

    @property
    def rounding(self) -> float:
        """Rounding of an entry: below this, pairs count as met."""
        return 64.0 * EPS * max(1.0, float(self.prior.max(initial=0.0)))

    @cached_property
    def mirror(self) -> np.ndarray:
        """Mirror coordinates T0 of the prior as a matrix, on the whole space."""
        if self.divergence.keeps_range:
            return (self.basis * self.t0) @ self.basis.T
        return self.C - self.fixed_part

    @cached_property
    def inverse(self) -> np.ndarray:
        """``C^-1`` from a triangular basis."""
        return cholesky_inverse(self.basis)

    @cached_property
    def logdet(self) -> float:
        """``logdet C`` from a triangular basis."""
        return logdet_of_factor(self.basis)

    def distance(self, X: np.ndarray) -> float:
        """``D(X, C)`` of a matrix of the whole space, or for Frobenius any; inf where X is not definite and has to be."""
        if not self.divergence.keeps_range:
            return 0.5 * float(np.vdot(X - self.C, X - self.C))
        if self.is_triangular:
            K, ok = cholesky(X)
            if not ok:
                return np.inf
            # |F|^2 - 2 logdet F - n with F = L^-1 K: no difference of large traces
            F = triangular_solve(self.basis, K)
            return float(np.vdot(F, F)) - logdet_of_factor(F) - len(X)
        x = np.maximum(eigvalsh(X), 0.0)
        D = self.divergence
        return float(D.phi(x).sum()) - float(np.vdot(X, self.mirror)) + D.constant(self.t0)

    def shortfall(self, X: np.ndarray) -> float:
        """By how much the smallest eigenvalue is below what was asked for, beyond rounding; else 0."""
        x = eigvalsh(X)
        miss = self.min_eig - float(x[0])
        return miss if miss > 8.0 * EPS * len(x) * max(1.0, float(x[-1])) else 0.0

    # ------------------------------------------------------------------ certificates
    def certify(self, state: Any) -> CorrelationCertificate:  # type: ignore[override]
        """The matrix with its prescribed entries to the letter: by ``D^-1/2 X D^-1/2`` where that is at hand, else by the rows."""
        X = self._restored(state) if isinstance(state, DenseState) else None
        if X is None:
            return self._certified_by_rows(state)
        bound, mu = dual_bound(self, state.dual)
        objective = self.distance(X)
        return CorrelationCertificate(dual=mu, objective=objective, dual_bound=bound, upper=objective, X=X)

    def _restored(self, state: DenseState) -> np.ndarray | None:
        """A state's matrix with exact entries, or None where that would cost it its definiteness."""
        p, b, C = state.values, self.losses.bound, self.C
        if not self.divergence.keeps_range and self.t0[0] >= 0 and not state.dual.any() and (np.diag(C) == 1.0).all():
            return C.copy()  # there was nothing to do
        if self.entries.has_pairs:
            if not np.abs(p - b).max() <= 1e2 * self.rounding:
                return None
            X = state.matrix()
        else:
            if not p.min() > 0:
                return None
            X, x = state.matrix(), state.spectrum
            d = np.sqrt(b / p)
            X *= np.multiply.outer(d, d)
            if x is not None:  # towards b I by what keeps the smallest eigenvalue positive in spite of rounding
                share = min(1e-6, EPS * (8.0 + 8.0 * float(x[-1] / b.min())))
                if x[0] < share:
                    X *= 1.0 - share
        X += self.fixed_part
        self.entries.write_inplace(X, self.entries.wanted(C))
        return X

    def _certified_by_rows(self, state: Any) -> CorrelationCertificate:
        """A point of any solver for (P), restored to its rows by their Gram system; what rounding has left is written in."""
        proof = super().certify(state)
        G = self.basis @ proof.iterate.factor()
        if proof.is_feasible and not self.entries.has_pairs:
            G = unit_rows(G)
        X = symmetrize(G @ G.T + self.fixed_part)
        if proof.is_feasible:
            self.entries.write_inplace(X, self.entries.wanted(self.C))
        return CorrelationCertificate(
            dual=proof.dual,
            objective=proof.objective,
            dual_bound=proof.dual_bound,
            upper=proof.upper,
            violation=0.0 if proof.is_feasible else proof.violation,
            X=X,
            factor=G,
            null_space=None if self.is_whole else self.blocks.null,
        )

    # ------------------------------------------------------------------ proofs that there is none
    def proof_beforehand(self) -> Proof | None:
        """A fixed block that has a negative eigenvalue."""
        y = self.blocks.proof
        return super().proof_beforehand() if y is None else Proof(y, np.flatnonzero(y))

    def dual_size(self, state: Any) -> float:
        """Size of the weights, once they have begun to grow and entries are still missed."""
        if self.always_has_one:
            return 0.0
        size = super().dual_size(state)
        if self.is_whole and not (size > 2.0 and np.abs(state.values - self.losses.bound).max() > 1e-6):
            return 0.0
        return size

    def contradiction(self, state: Any) -> Proof | None:
        """Weights that prove that no matrix has these entries: few of them where pairs allow, else by the general search."""
        if self.always_has_one:
            return None
        proof = self._few_entries(state.dual) if self.is_whole else None
        return self._with_null_space(super().contradiction(state) if proof is None else irreducible(self, proof))

    def last_contradiction(self, state: Any) -> Proof | None:
        """A few entries that no matrix has, whatever the weights of the state say."""
        return None if self.always_has_one else self._with_null_space(super().last_contradiction(state))

    def _with_null_space(self, proof: Proof | None) -> Proof | None:
        """A proof with the null vectors that were taken out, which are part of it."""
        if proof is None or self.is_whole:
            return proof
        return replace(proof, rows=np.union1d(proof.rows, self.blocks.rows))

    def _few_entries(self, mu: np.ndarray) -> Proof | None:
        """Weights near mu, few of them: ``Y >= 0`` by adding to its diagonal, and ``y . b < 0``."""
        n, i, j, b = self.entries.n, self.entries.i, self.entries.j, self.losses.bound
        top = float(np.abs(mu).max())
        if not 0.0 < top < np.inf or not mu[n:].any():
            return None
        y, size = mu / top, np.abs(mu[n:])
        for share in (0.3, 0.1, 0.03, 0.01, 1e-3, 0.0):
            kept = size > share * size.max()
            on = np.unique(np.concatenate([i[kept], j[kept]]))
            z = np.zeros_like(y)
            z[n:][kept] = y[n:][kept]
            z[on] = y[on]
            z[on] += 64.0 * EPS * n - float(eigvalsh(self.entries.adjoint(z)[np.ix_(on, on)])[0])
            if float(z @ b) < -1e-8 * float(np.abs(z) @ np.abs(b)):
                return Proof(z, np.flatnonzero(z))
        return None


def unit_rows(V: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths; a zero row becomes the first unit vector."""
    length = np.linalg.norm(V, axis=1)
    V = np.where(length[:, None] > 0, V, np.eye(1, V.shape[1]))
    return V / np.where(length > 0, length, 1.0)[:, None]


def spectral_factor(C: np.ndarray, rank: int) -> np.ndarray:
    """The leading eigenvectors of a symmetric matrix (n, n), scaled, with rows made unit vectors; shape (n, rank)."""
    t, U = eigh(C)
    return unit_rows(U[:, -rank:] * np.sqrt(np.maximum(t[-rank:], 0.0)))
