"""Verification of nearest correlation matrices: entries, eigenvalues, distance, and the dual bound of the multipliers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.correlation.result import CorrelationResult
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS, RANK_TOL
from bregmat.engine.status import Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.verification.correlation_input import EntryProof
from bregmat.verification.extended import eigenpairs, eigenvalues, is_semidefinite, numbers, unit_of
from bregmat.verification.figures import Verification, check_arguments, recompute
from bregmat.verification.weighted_correlations import WeightedCorrelation
from bregmat.verification.written_losses import distance, least_of_lagrangian

DISTINCT = 1e-4  # singular value of null vectors of blocks below which their difference may be rounding


@recompute.register
def _(result: CorrelationResult, problem: Any, report: Verification) -> None:
    check_arguments(problem, "the argument C of nearest_correlation", "C")
    has_gaps = problem.get("fixed") is not None and bool(np.isnan(numbers(problem["C"])).any())
    is_weighted = has_gaps or any(problem.get(name) is not None for name in ("weights", "bounds"))
    (WeightedCorrelation if is_weighted else Correlation)(problem, result).report(report)


def factor_bound(C: np.ndarray, k: int) -> float:
    """A lower bound of ``|L L' + D - C|^2 / 2`` with k factors, from eigenvalues and from singular values of blocks of C.

    The variables are halved recursively. The bound of a set is the larger of two: that of its eigenvalues, and the sum of the bounds
    of its halves and of the block between them.
    """
    t = np.sort(np.linalg.eigvalsh(C))
    far = np.where(t < 0, t * t, 0.0)  # squared distance from [0, 1], the range of D
    far[: max(len(t) - k, 0)] += np.maximum(t[: max(len(t) - k, 0)] - 1, 0) ** 2
    whole, m = float(far.sum()) / 2, len(C) // 2
    if m <= k:
        return whole
    square = np.linalg.svd(C[m:, :m], compute_uv=False)[k:] ** 2
    return max(whole, float(square.sum()) + factor_bound(C[:m, :m], k) + factor_bound(C[m:, m:], k))


class Correlation(EntryProof):
    """The problem of :func:`bregmat.nearest_correlation` without weights and bounds, from its arguments."""

    def __init__(self, arguments: Mapping[str, Any], result: CorrelationResult) -> None:
        super().__init__(arguments, result)
        self.divergence = DIVERGENCES.resolve(arguments.get("divergence", "frobenius"))
        self.rank, self.n_factors = arguments.get("rank"), arguments.get("n_factors")
        self.fixed, n = arguments.get("fixed"), self.n
        if not ((result.rows >= 0) & (result.rows < n)).all():
            raise ValueError(f"the result prescribes entries of a larger matrix; C has {n} rows.")
        if len(result.dual) != len(result.rows):
            raise ValueError(f"the result has {len(result.dual)} multipliers of {len(result.rows)} entries.")
        self.i, self.j = result.rows.T
        self.b = np.where(self.i == self.j, 1 - self.low, self.C[self.i, self.j]).astype(self.real)

    def report(self, report: Verification) -> None:
        """Compare all figures of the result."""
        result = self.result
        asked = {"divergence": self.divergence.name, "rank": self.rank, "n_factors": self.n_factors}
        self.check_asked(report, **asked)
        self._entries(report)
        if report.claimed is Status.INFEASIBLE:
            self._contradiction(report)
            return
        is_feasible, X = self.check_matrix(report), result.X.astype(self.real)
        if not np.isfinite(result.X).all():
            return
        missed = np.abs(X[self.i, self.j] - np.where(self.i == self.j, 1, self.b))
        worst, allowed = float(missed.max(initial=0.0)), 16 * EPS * max(1.0, float(np.abs(self.C).max()))
        report.compare("max_violation", worst, HALF_DIGITS + allowed)
        is_feasible &= report.check_feasible(worst <= 16 * allowed, f"a prescribed entry is missed by {worst:.2g}")
        self._factors(X, report)
        objective, (bound, lost) = self._distance(X), self._bound(result.dual)
        if bound is None:
            said = "the bound was not recomputed: fixed blocks are nearly singular, and what it holds on is not saved"
            report.unchecked.append(said)
            bound = result.dual_bound
        elif self.n_factors is not None and not result.dual.any():
            bound = max(bound, factor_bound(self.C.astype(float), self.n_factors))
        size = max(1.0, abs(objective))
        allowed = HALF_DIGITS * size + self._vague(size)
        report.conclude((objective, bound, size, (objective - bound + lost) / size), allowed, is_feasible, lost)

    def _entries(self, report: Verification) -> None:
        """Check that the prescribed entries are the unit diagonal and the fixed entries."""
        pairs = {(int(a), int(b)) for a, b in self.result.rows}
        wanted = {(k, k) for k in range(self.n)}
        if self.fixed is not None:
            mask = np.asarray(self.fixed, dtype=bool)
            wanted |= {(int(a), int(b)) for a, b in np.argwhere(mask | mask.T) if a <= b}
        if pairs != wanted:
            report.problem("the prescribed entries are not the unit diagonal and what was fixed", Status.UNKNOWN)
        is_forced = len(self.i) > self.n and self.divergence.takes_indefinite
        if self.result.null_space is not None and not is_forced:
            report.problem("null vectors are named, which nothing forces")

    def _factors(self, X: np.ndarray, report: Verification) -> None:
        """Check ``X = L L'``, or ``X = L L' + D`` with k columns and rows of L of length at most 1, so that ``D >= 0``; and the rank."""
        factor, k = self.result.factor, self.n_factors
        if k is not None and factor is None:
            report.problem("the loadings of the factors are not given", Status.UNKNOWN)
        if factor is not None:
            product = factor.astype(self.real) @ factor.astype(self.real).T
            if k is not None:
                if not float(np.diag(product).max()) <= 1 + 64 * EPS or factor.shape != (self.n, k):
                    what = f"factor is no matrix of {k} columns with rows of length at most 1"
                    report.problem(what, Status.UNKNOWN)
                np.fill_diagonal(product, 1)
            report.compare_all("X", product, HALF_DIGITS * max(1.0, float(np.abs(X).max())))
        if self.rank is not None and self.n > self.rank:
            values = eigenvalues(X)
            if values[-self.rank - 1] > 1e-8 * values[-1]:
                report.problem(f"the rank is above {self.rank}", Status.UNKNOWN)

    def _vague(self, size: float) -> float:
        """Change of the objective due to rounding of C, which is large if C has small eigenvalues."""
        if self.divergence.takes_indefinite:
            return 16 * EPS * float(np.abs(self.C).max()) * float(np.abs(self.result.X - self.C).sum())
        kept = self._prior[0].astype(float)
        return 32 * EPS * self.n * float((kept[-1] / kept).max()) * size

    @cached_property
    def _prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nonzero eigenvalues l and their vectors Q of C, and row scales d; for LogDet, which does not depend on them, of a scaled C."""
        d = np.sqrt(np.diag(self.C)) if self.divergence.is_congruence_invariant else np.ones(self.n, dtype=self.real)
        values, Q = eigenpairs(self.C / np.multiply.outer(d, d))
        keep = values > RANK_TOL * values[-1]
        return values[keep], Q[:, keep], d

    def _distance(self, X: np.ndarray) -> float:
        if self.divergence.takes_indefinite:
            return float(((X - self.C) ** 2).sum()) / 2
        l, Q, d = self._prior
        return distance(self.divergence, Q.T @ (X / np.multiply.outer(d, d)) @ Q, l)

    def _bound(self, mu: np.ndarray) -> tuple[float | None, float]:
        """The bound that the multipliers prove, and its rounding; None if it cannot be recomputed."""
        D, Y, eps = self.divergence, self.sum(mu), unit_of(self.real) * self.n
        linear, terms = float(mu.astype(self.real) @ self.b), float(np.abs(mu) @ np.abs(self.b))
        if D.takes_indefinite:
            C0 = self.C - self.low * np.eye(self.n, dtype=self.real)
            T, beside = C0 - Y, 0.0
            if (V := self.result.null_space) is not None:
                off, _, excess = self._reach(V.astype(self.real))
                if off > HALF_DIGITS:
                    return None, 0.0
                # feasible matrices may have a part beside the complement of V, along which the gradient is -T
                beside = self._beside(T @ V, excess)
                N = _complement(V).astype(self.real)
                T = N.T @ T @ N
            above = np.maximum(eigenvalues((T + T.T) / 2), 0)
            whole, kept = (C0 * C0).sum(), (above * above).sum()
            lost = eps * float(whole + kept + terms + np.abs(T).max() * above.sum())
            return float((whole - kept) / 2) - linear - beside, lost
        l, Q, d = self._prior
        P = d[:, None] * Q * np.sqrt(l) if D.is_congruence_invariant else Q
        gain, size, _ = least_of_lagrangian(D, l, P.T @ Y @ P)
        return gain - linear, eps * (terms + size)

    def _beside(self, R: np.ndarray, reach: float) -> float:
        """Largest ``2 <R, X V>`` with ``sqrt(tr V' X V) <= reach`` and the trace n of X."""
        return 2.0 * np.sqrt(self.n) * reach * float(np.linalg.norm(R.astype(float)))

    def _reach(self, V: np.ndarray) -> tuple[float, float, float]:
        """Largest distance of an entry of V from the null vectors of prescribed blocks, and largest ``sqrt(tr V' X V)`` of a feasible X.

        The third number is the latter without what rounding of the entries of a singular block explains.
        """
        known = np.zeros((self.n, self.n), dtype=bool)
        known[self.i, self.j] = known[self.j, self.i] = True
        B, vectors, squares, excess = np.where(self.eye, 1, self.C), [], 0.0, 0.0
        for k in range(self.n):
            block = [k]  # a prescribed block, which grows by variables in their order
            for m in np.flatnonzero(known[k]):
                if m != k and known[m, block].all():
                    block.append(int(m))
            t, U = eigenpairs(B[np.ix_(block, block)].astype(self.real))
            is_null = t <= 16 * EPS * len(block) * max(1.0, float(t[-1]))
            squares += float((np.abs(t[is_null]) + 16 * unit_of(self.real) * len(block)).sum())
            excess += float(np.maximum(t[is_null] - 2 * EPS * len(block), 0).sum())
            for u in U[:, is_null].T:
                vectors.append(np.zeros(self.n))
                vectors[-1][block] = u
        if not vectors:
            return np.inf, np.inf, np.inf
        U, sigma, _ = np.linalg.svd(np.array(vectors).T, full_matrices=False)
        is_distinct = sigma > DISTINCT
        folded = U[:, is_distinct].astype(self.real)
        off = float(np.abs(V - folded @ (folded.T @ V)).max())
        # V moved by `off` reaches further by sqrt(tr X) times the norm of that
        reach, excess = (float(np.sqrt(x * (sigma[is_distinct] ** -2.0).sum())) for x in (squares, excess))
        return off, reach + off * self.n * np.sqrt(V.shape[1]), excess

    def _contradiction(self, report: Verification) -> None:
        """Check that ``Y`` is semidefinite and ``<Y, X> = mu . b`` negative (for LogDet: not positive)."""
        mu, real = self.result.dual, self.real
        self.check_conflict(report)
        Y, rows = self.sum(mu), np.count_nonzero(mu)
        b = np.where(self.i == self.j, 1, self.b).astype(real)
        total, weight = float(mu.astype(real) @ b), float(np.abs(mu) @ np.abs(b.astype(float)))
        report.figures["y . b"] = (np.nan, total)
        total -= float(self.low * np.trace(Y))
        if (V := self.result.null_space) is not None:
            off, reach, _ = self._reach(V.astype(real))
            if off <= CANCELLED:
                total += self._beside(Y @ V, reach)
            else:
                report.unchecked.append("the proof was not recomputed: nothing shows that the null vectors are forced")
            N = _complement(V).astype(real)
            Y = N.T @ Y @ N
        if not self.divergence.takes_indefinite:
            _, Q, d = self._prior
            Y = Q.T @ (Y * np.multiply.outer(d, d)) @ Q
        size = float(np.abs(Y).max()) * np.eye(len(Y), dtype=real)
        if not is_semidefinite(Y, size, 64.0 * self.n * EPS):
            report.problem("the weighted sum of the entries is not positive semidefinite", Status.UNKNOWN)
        limit = 64 * EPS * rows * weight
        if not (total < -limit or (self.divergence.keeps_rank and total <= limit and float(np.abs(Y).max()) > 0)):
            report.problem(f"the weighted sum of the entries is {total:.3g}, which is not below 0", Status.UNKNOWN)


def _complement(V: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the orthogonal complement of the columns of V."""
    return np.linalg.svd(V, full_matrices=True)[0][:, V.shape[1] :]
