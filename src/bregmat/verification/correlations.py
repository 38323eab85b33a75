"""Verification of correlation matrices: entries, eigenvalues, distance, and the bound of the multipliers; and of shrunk ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from bregmat.applications.correlation.result import CorrelationResult
from bregmat.applications.correlation.shrink import ShrinkResult
from bregmat.base.checks import as_numbers
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS, RANK_TOL
from bregmat.objective.divergences import DIVERGENCES
from bregmat.verification.extended import arithmetic, eigenpairs, eigenvalues, numbers, unit_of
from bregmat.verification.report import EXACT
from bregmat.verification.verifier import Verifier
from bregmat.verification.written_losses import distance, least_of_lagrangian

DISTINCT = 1e-4  # singular value of null vectors of blocks below which their difference may be rounding


class CorrelationInput(Verifier):
    """The input C (n, n), symmetric and scaled if requested, with 0 where the weights ``h`` are 0, and checks of a result against it."""

    required = "C"

    def __init__(self, arguments: Mapping[str, Any], result: Any) -> None:
        super().__init__(arguments, result)
        C, self.h = arguments["C"], None
        has_names = hasattr(C, "columns")
        labels = (list(getattr(C, "index", C.columns)), list(C.columns)) if has_names else None
        self.asked = {"labels": labels, "frame": "polars" if has_names and not hasattr(C, "index") else None}
        matrix = as_numbers("C", C.toarray() if scipy.sparse.issparse(C) else C, booleans=True)
        self.n = n = len(matrix)
        if result.X.shape != (n, n):
            raise ValueError(f"the result has shape {result.X.shape}; C has {n} rows.")
        self.real, self.eye = arithmetic(80.0 * n**3), np.eye(n, dtype=bool)
        if self.is_weighted(matrix):
            weights = arguments.get("weights")
            self.h = np.where(np.isnan(matrix), 0.0, 1.0) if weights is None else np.nan_to_num(numbers(weights))
        self.known = True if self.h is None else (self.h != 0) | self.eye
        matrix = np.where(self.known, matrix, 0).astype(self.real)
        matrix[self.eye & np.isnan(matrix)] = 1  # unknown diagonal entries
        self.C, self.deviations = (matrix + matrix.T) / 2, None
        if arguments.get("scale"):
            d = np.sqrt(np.diag(self.C))
            by = np.where(d > 0, d, np.inf)  # correlations of constant variables are unknown, and 0 here
            self.C, self.deviations = np.where(self.eye, 1, self.C / np.multiply.outer(by, by)), d.astype(float)
        self.low, self.X = self.real(arguments.get("min_eig", 0.0)), result.X.astype(self.real)
        fixed = arguments.get("fixed")
        self.fixed = self.eye if fixed is None else np.asarray(fixed, bool) | np.asarray(fixed, bool).T | self.eye

    def is_weighted(self, C: np.ndarray) -> bool:
        """Whether the entries of C have weights."""
        return False

    def check_claims(self) -> bool:
        """Compare attributes of the result that repeat arguments."""
        for name, value in self.asked.items():
            if getattr(self.result, name) != value:
                self.report.problem(f"{name} is {value!r}; the result says {getattr(self.result, name)!r}")
        self.report.compare("min_eig", float(self.low), 0.0)
        if self.deviations is not None:
            self.report.compare("deviations", self.deviations, EXACT * self.deviations)
        elif self.result.deviations is not None:
            self.report.problem("the result has standard deviations of an input that was not scaled")
        return True

    def check_point(self) -> bool:
        """Compare the distance from the input; whether X is a finite matrix."""
        X, residual = self.X, float(np.sqrt((np.where(self.known, self.X - self.C, 0) ** 2).sum()))
        if not np.isfinite(X).all() or (X != X.T).any():
            return self.refuse("X is not a finite symmetric matrix")
        self.report.compare("residual", residual, HALF_DIGITS * max(1.0, float(np.abs(X).sum()), residual))
        return True

    def check_rows(self) -> bool:
        """Whether X has no eigenvalue below ``min_eig``."""
        values = eigenvalues(self.X)
        self.report.figures["smallest eigenvalue"] = (self.result.smallest_eigenvalue, float(values[0]))
        is_met = bool(values[0] >= self.low - 64 * EPS * self.n * max(1.0, float(values[-1])))
        return self.report.check_feasible(is_met, f"an eigenvalue is {float(values[0]):.3g}, below {float(self.low):g}")


class CorrelationVerifier(CorrelationInput):
    """``D(X, C)``, or ``|H o (X - C)|^2 / 2``, over ``lower <= X <= upper`` with the eigenvalues ``X >= min_eig I``.

    The multipliers of the entries ``rows`` form a symmetric matrix Y. With weights or bounds it is the multiplier S >= 0 of the
    eigenvalues itself. Otherwise Y belongs to the entries, and ``S = max(C - Y, min_eig) - (C - Y)``.
    """

    kind = CorrelationResult
    wanted = "the argument C of nearest_correlation"

    def __init__(self, arguments: Mapping[str, Any], result: CorrelationResult) -> None:
        super().__init__(arguments, result)
        if len(result.dual) != len(result.rows):
            raise ValueError(f"the result has {len(result.dual)} multipliers of {len(result.rows)} entries.")
        self.divergence = DIVERGENCES.resolve(arguments.get("divergence", "frobenius"))
        self.h2, bounds = np.ones((self.n, self.n), dtype=self.real), arguments.get("bounds")
        if self.h is not None:
            if self.divergence.name != "frobenius":
                raise ValueError("weights and bounds are for the Frobenius divergence.")
            self.h2 = np.where(self.eye, 0, (self.h + self.h.T).astype(self.real) / 2) ** 2
        self.rank, self.n_factors = arguments.get("rank"), arguments.get("n_factors")
        self.asked |= {"divergence": self.divergence.name, "rank": self.rank, "n_factors": self.n_factors}
        sides = zip(bounds or (None, None), (-1.0, 1.0))
        self.lower, self.upper = (self._side(least if side is None else numbers(side)) for side, least in sides)
        # the diagonal, then the fixed entries; with weights or bounds, all entries
        pairs = np.argwhere(np.triu(self.fixed & ~self.eye))
        wanted = np.concatenate([np.arange(self.n).repeat(2).reshape(-1, 2), pairs])
        self.rows = np.column_stack(np.triu_indices(self.n)) if self.h is not None else wanted

    def is_weighted(self, C: np.ndarray) -> bool:
        """Whether there are weights, bounds, or unknown entries beside fixed ones."""
        given = self.arguments.get
        return (
            given("weights") is not None
            or given("bounds") is not None
            or (given("fixed") is not None and bool(np.isnan(C).any()))
        )

    def _side(self, side: Any) -> np.ndarray:
        """Lower or upper bounds of the entries, symmetric, within [-1, 1], 1 on the diagonal, and C where entries are fixed."""
        table = np.where(self.eye, 1.0, np.clip(side, -1.0, 1.0))
        return np.where(self.fixed & ~self.eye, self.C, ((table + table.T) / 2).astype(self.real))

    @cached_property
    def Y(self) -> np.ndarray:
        """The symmetric matrix for which ``<Y, X>`` is the sum of the entries weighted by the multipliers."""
        Y = np.zeros((self.n, self.n), dtype=self.real)
        np.add.at(Y, tuple(self.rows.T), self.result.dual.astype(self.real) / 2)
        return Y + Y.T

    @cached_property
    def prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nonzero eigenvalues l and their vectors Q of C, and row scales d; for LogDet, which does not depend on them, of a scaled C."""
        d = np.sqrt(np.diag(self.C)) if self.divergence.is_congruence_invariant else np.ones(self.n, dtype=self.real)
        values, Q = eigenpairs(self.C / np.multiply.outer(d, d))
        keep = values > RANK_TOL * values[-1]
        return values[keep], Q[:, keep], d

    def check_claims(self) -> bool:
        """Compare attributes of the result that repeat arguments, and those that it may not have."""
        is_forced = len(self.rows) > self.n and self.h is None
        if self.result.null_space is not None and not is_forced:
            self.report.problem("null vectors are named, which nothing forces")
        if self.result.factor is not None and self.rank is None and self.n_factors is None:
            self.report.problem("a factor is given, which was not asked for")
        super().check_claims()
        is_same = np.array_equal(self.result.rows, self.rows)
        return is_same or self.refuse("the multipliers are not those of the entries that the problem prescribes")

    def check_contradiction(self) -> None:
        """Check that ``<S, X>`` is negative for all X in the box (for LogDet: not positive), with S = Y raised to be semidefinite."""
        real, D, conflict = self.real, self.divergence, self.result.conflict
        number = {(int(a), int(b)): k for k, (a, b) in enumerate(self.rows)}
        entries = np.empty((0, 2)) if conflict is None else np.reshape(conflict, (-1, 2))
        named = [number.get((int(a), int(b)), -1) for a, b in entries]
        self.check_conflict(named, np.flatnonzero(self.result.dual), len(number))
        # the trace of N'XN is at most `trace` for a basis N of the columns that X may have
        S, N, trace, beside = self.Y, np.eye(self.n, dtype=real), real(self.n), 0.0
        if (V := self.result.null_space) is not None:
            off, reach, _ = self.reach
            if off <= CANCELLED:
                beside = self._beside(S @ V, reach)
            else:
                text = "the proof was not recomputed: nothing shows that the null vectors are forced"
                self.report.unchecked.append(text)
            N = _complement(V).astype(real)
        elif not D.takes_indefinite:
            _, Q, d = self.prior
            N, trace = d[:, None] * Q, (1 / (d * d)).sum()
        inside = N.T @ S @ N
        raised = -float(eigenvalues((inside + inside.T) / 2).min(initial=0.0))
        size = float(np.abs(inside).max(initial=0.0))
        if self.h is None and raised > 64 * EPS * self.n * size:
            self.refuse("the weighted sum of the entries is not positive semidefinite")
        total = np.maximum(S * self.lower, S * self.upper).sum() - self.low * np.trace(S) + beside + raised * trace
        self.report.figures["largest <S, X>"] = (np.nan, float(total))
        terms = (np.abs(S) * np.maximum(np.abs(self.lower), np.abs(self.upper))).sum()
        least = 64 * EPS * max(int(np.count_nonzero(self.result.dual)), self.n) * float(terms)
        if not (total < -least or (D.keeps_rank and total <= least and size > 0)):
            self.refuse(f"the largest <S, X> is {float(total):.3g}, which is not below 0")

    def check_rows(self) -> bool:
        """Compare the prescribed entries and the eigenvalues, and the factor."""
        i, j = self.rows.T
        worst = float(np.maximum(self.X - self.upper, self.lower - self.X)[i, j].max(initial=0.0))
        allowed = 64 * EPS * max(1.0, float(np.abs(self.C).max()))
        if self.h is None:
            self.report.compare("max_violation", worst, HALF_DIGITS + allowed)
        is_met = self.report.check_feasible(worst <= allowed, f"a prescribed entry is missed by {worst:.2g}")
        self._check_factor()
        return super().check_rows() and is_met

    def _check_factor(self) -> None:
        """Check ``X = L L'``, or ``X = L L' + D`` with k columns and rows of L of length at most 1, so that ``D >= 0``; and the rank."""
        factor, k, report = self.result.factor, self.n_factors, self.report
        if k is not None and factor is None:
            self.refuse("the loadings of the factors are not given")
        if factor is not None:
            product = factor.astype(self.real) @ factor.astype(self.real).T
            if k is not None:
                if not float(np.diag(product).max()) <= 1 + 64 * EPS or factor.shape != (self.n, k):
                    self.refuse(f"factor is no matrix of {k} columns with rows of length at most 1")
                np.fill_diagonal(product, 1)
            report.compare("X", product, HALF_DIGITS * max(1.0, float(np.abs(self.X).max())))
        if self.rank is not None and self.n > self.rank:
            values = eigenvalues(self.X)
            if values[-self.rank - 1] > 1e-8 * values[-1]:
                self.refuse(f"the rank is above {self.rank}")

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare the distance from C, and the bound of the multipliers."""
        D, vague = self.divergence, 0.0
        if D.takes_indefinite:
            objective = float((self.h2 * (self.X - self.C) ** 2).sum() / 2)
        else:
            l, Q, d = self.prior
            objective = distance(D, Q.T @ (self.X / np.multiply.outer(d, d)) @ Q, l)
            vague = (
                32 * EPS * self.n * float(l[-1] / l.min())
            )  # rounding of C, which is large if C has small eigenvalues
        bound, lost = self._bound()
        if self.n_factors is not None and not self.result.dual.any():
            bound = max(bound, factor_bound(self.C.astype(float), self.n_factors))
        unit = max(float(self.h2.max(initial=0)) or 1.0, abs(objective))
        allowed = (HALF_DIGITS + vague) * unit
        self.report.conclude((objective, bound, unit), allowed, is_feasible, lost=lost)

    def _bound(self) -> tuple[float, float]:
        """The bound that the multipliers prove, and its rounding."""
        D, eps = self.divergence, unit_of(self.real) * self.n
        if not D.takes_indefinite:
            (l, Q, d), mu, b = self.prior, self.result.dual, self.upper[tuple(self.rows.T)]
            P = d[:, None] * Q * np.sqrt(l) if D.is_congruence_invariant else Q
            gain, size, _ = least_of_lagrangian(D, l, P.T @ self.Y @ P)
            return gain - float(mu.astype(self.real) @ b), eps * (float(np.abs(mu) @ np.abs(b)) + size)
        if self.result.null_space is not None and self.reach[0] > HALF_DIGITS:
            text = "the bound was not recomputed: fixed blocks are nearly singular, and what it holds on is not saved"
            self.report.unchecked.append(text)
            return float(self.result.dual_bound), 0.0
        S, Y, beside = self._multipliers()
        with np.errstate(divide="ignore", invalid="ignore"):
            X = np.where(self.h2 > 0, self.C + (S - Y) / self.h2, np.where(S > 0, self.upper, self.lower))
        if self.h is not None:  # the minimum of the Lagrangian in the box; without weights, of all matrices
            X = np.clip(X, self.lower, self.upper)
        square, linear = self.h2 * (X - self.C) ** 2 / 2, (Y * self.upper).sum()
        value = square.sum() - ((S - Y) * X).sum() - linear + self.low * np.trace(S) - beside
        return float(value), eps * float((square + np.abs((S - Y) * X) + np.abs(Y * self.upper)).sum())

    def _multipliers(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Matrices S and Y of multipliers of the eigenvalues and the entries, and a number that ``-<S, X - min_eig I>`` does not exceed."""
        if self.h is not None:
            S, used = self.Y.copy(), np.flatnonzero(self.Y.any(axis=1))
            low = min(float(eigenvalues(S[np.ix_(used, used)])[0]), 0.0) if len(used) else 0.0
            S[used, used] -= self.real(low)  # raised to be semidefinite
            return S, np.zeros_like(S), 0.0
        T, N, beside = self.C - self.low * np.eye(self.n, dtype=self.real) - self.Y, np.eye(self.n), 0.0
        if (V := self.result.null_space) is not None:
            # feasible matrices may have a part beside the complement of V, along which the gradient is -T
            N, beside = _complement(V).astype(self.real), self._beside(T @ V, self.reach[2])
        inside = N.T @ T @ N
        t, U = eigenpairs((inside + inside.T) / 2)
        U = N @ U
        return (U * np.maximum(t, 0)) @ U.T - T, self.Y, beside

    def _beside(self, R: np.ndarray, reach: float) -> float:
        """Largest ``2 <R, X V>`` with ``sqrt(tr V' X V) <= reach`` and the trace n of X."""
        return 2.0 * np.sqrt(self.n) * reach * float(np.linalg.norm(R.astype(float)))

    @cached_property
    def reach(self) -> tuple[float, float, float]:
        """Largest distance of an entry of V from the null vectors of prescribed blocks, and largest ``sqrt(tr V' X V)`` of a feasible X.

        The third number is the latter without what rounding of the entries of a singular block explains.
        """
        V, B, vectors = self.result.null_space.astype(self.real), np.where(self.eye, 1, self.C), []
        squares = excess = 0.0
        for k in range(self.n):
            block = [k]  # a prescribed block, which grows by variables in their order
            for m in np.flatnonzero(self.fixed[k]):
                if m != k and self.fixed[m, block].all():
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


def _complement(V: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the orthogonal complement of the columns of V."""
    return np.linalg.svd(V, full_matrices=True)[0][:, V.shape[1] :]


class ShrinkVerifier(CorrelationInput):
    """The smallest alpha in [0, 1] at which ``X = alpha T + (1 - alpha) A`` has no eigenvalue below ``min_eig``."""

    kind = ShrinkResult
    wanted, optional, multipliers = "arguments of shrink_correlation", "target fixed min_eig scale", "vector"

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare X with the mixture, and alpha with the bound of the vector v."""
        report, result, low, alpha = self.report, self.result, self.low, self.result.objective
        if result.vector.shape != (self.n,):
            raise ValueError(f"the result has a vector of shape {result.vector.shape}; C has {self.n} rows.")
        A = np.where(self.eye, 1, self.C)
        T = np.where(self.fixed, A, 0)
        if self.arguments.get("target") is not None:
            target = numbers(self.arguments["target"]).astype(self.real)
            T = np.where(self.eye, 1, (target + target.T) / 2)
        mixed, size = alpha * T + (1 - alpha) * A, max(1.0, float(np.abs(A).max()))
        report.compare("X", mixed, 16 * EPS * size)
        is_feasible &= 0 <= alpha <= 1 and bool(
            (np.abs(self.X - mixed) <= 16 * EPS * size).all() and (np.diag(self.X) == 1).all()
        )
        if not is_feasible:
            self.refuse(f"X is no mixture of C and the target with eigenvalues of at least {low:g}")
        # v'(alpha T + (1 - alpha) A) v >= low v'v requires alpha >= c / (c + t)
        v = result.vector.astype(self.real)
        square = v @ v
        c, t = low * square - v @ A @ v, v @ T @ v - low * square
        has_bound = c > 0 and t > 0
        bound, rounding = (float(c / (c + t)), 16 * self.n * EPS * size / float(c + t)) if has_bound else (0.0, 0.0)
        if not abs(float(np.sqrt(square)) - 1) <= HALF_DIGITS:
            report.problem(f"the vector has the length {float(np.sqrt(square)):.9g} instead of 1")
        report.bound_from_below("dual_bound", bound, 0.0, rounding, 1.0)
        report.compare("unit", 1.0, 0.0)
        report.compare("max_violation", 0.0, 0.0)
        report.judge(alpha - bound, is_feasible)
