"""Nearest correlation matrices: entries, eigenvalues, distance, and the bound that the multipliers of the entries prove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.correlation.result import CorrelationResult, RepairedMatrix
from bregmat.certificates.status import Status
from bregmat.coordinates.priors import RANK_TOL
from bregmat.objective.divergences import as_divergence
from bregmat.verification.extended import (
    arithmetic,
    eigenpairs,
    eigenvalues,
    evaluate,
    is_semidefinite,
    log_determinant,
    numbers,
    precision_text,
    unit_of,
)
from bregmat.verification.figures import CLOSE, EXACT, ROUNDING, Verification, check_arguments, recompute
from bregmat.verification.matrices import distance
from bregmat.verification.weighted_correlations import WeightedCorrelation


@recompute.register
def _(result: CorrelationResult, problem: Any, found: Verification) -> None:
    is_weighted = any(problem.get(name) is not None for name in ("weights", "bounds"))
    (WeightedCorrelation if is_weighted else Correlation)(problem, result).report(found)
    check_origin(problem, result, found)


def check_origin(arguments: Mapping[str, Any], result: RepairedMatrix, found: Verification) -> None:
    """The form and the standard deviations of the input, which ``matrix`` and ``covariance`` go by."""
    C = arguments["C"]
    frame = "polars" if hasattr(C, "columns") and not hasattr(C, "index") else None
    if result.frame != frame:
        found.problem(f"frame is {frame!r}; the result says {result.frame!r}")
    if not arguments.get("scale"):
        if result.deviations is not None:
            found.problem("the result has standard deviations of an input that was not scaled")
        return
    d = np.sqrt(np.diag(numbers(C)))
    found.compare_all("deviations", np.nan if result.deviations is None else result.deviations, d, EXACT * d)


def factor_bound(C: np.ndarray, k: int) -> float:
    """A lower bound of ``|L L' + D - C|^2 / 2`` with k factors, by the singular values of blocks and the eigenvalues of C.

    Halves of halves of the variables: each set of them costs what its eigenvalues say, or what its two halves and the block between
    them cost together.
    """
    t = np.sort(np.linalg.eigvalsh(C))
    far = np.where(t < 0, t * t, 0.0)  # from the interval of what remains after D in [0, 1] is taken away
    far[: max(len(t) - k, 0)] += np.maximum(t[: max(len(t) - k, 0)] - 1, 0) ** 2
    whole, m = float(far.sum()) / 2, len(C) // 2
    if m <= k:
        return whole
    square = np.linalg.svd(C[m:, :m], compute_uv=False)[k:] ** 2
    return max(whole, float(square.sum()) + factor_bound(C[:m, :m], k) + factor_bound(C[m:, m:], k))


class Correlation:
    """The problem from the arguments of :func:`bregmat.nearest_correlation`; its entries are compared with those of the result."""

    def __init__(self, arguments: Mapping[str, Any], result: CorrelationResult) -> None:
        check_arguments(arguments, "the argument C of nearest_correlation", "C")
        self.result, self.divergence = result, as_divergence(arguments.get("divergence", "frobenius"))
        C = arguments["C"]
        self.rank, self.n_factors = arguments.get("rank"), arguments.get("n_factors")
        self.labels = (list(getattr(C, "index", C.columns)), list(C.columns)) if hasattr(C, "columns") else None
        C = numbers(C)
        n = len(C)
        self.real = arithmetic(80.0 * n**3)
        C = C.astype(self.real)
        C = (C + C.T) / 2
        if arguments.get("scale"):
            d = np.sqrt(np.diag(C))
            C = C / np.multiply.outer(d, d)
            C[np.diag_indices(n)] = 1
        self.handed_in, self.fixed = C, arguments.get("fixed")
        self.low = self.real(arguments.get("min_eig", 0.0))
        self.floor = float(arguments.get("floor", 1e-6)) if arguments.get("repair") == "clip" else None
        if self.floor is not None:
            self.values, U = eigenpairs(C)
            if self.values[0] < self.floor:
                C = (U * np.maximum(self.values, self.floor)) @ U.T
        self.C, self.n = C, n
        i, j = result.rows.T
        if not ((result.rows >= 0) & (result.rows < n)).all():
            raise ValueError(f"the result prescribes entries of a larger matrix; C has {n} rows.")
        if len(result.dual) != len(result.rows):
            raise ValueError(f"the result has {len(result.dual)} multipliers of {len(result.rows)} entries.")
        self.i, self.j = i, j
        self.b = np.where(i == j, 1 - self.low, C[i, j]).astype(self.real)

    def sum(self, mu: np.ndarray) -> np.ndarray:
        """``Y`` with ``<Y, X>`` the weighted sum of the entries."""
        Y = np.zeros((self.n, self.n), dtype=self.real)
        np.add.at(Y, (self.i, self.j), mu.astype(self.real) / 2)
        return Y + Y.T

    def report(self, found: Verification) -> None:
        """Everything that can be said of the result."""
        result, real = self.result, self.real
        found.precision = precision_text(real)
        if result.X.shape != (self.n, self.n):
            raise ValueError(f"the result has shape {result.X.shape}; C has {self.n} rows.")
        self._entries(found)
        self._asked(found)
        if found.claimed is Status.INFEASIBLE:
            self._contradiction(found)
            return
        X = result.X.astype(real)
        if not np.isfinite(result.X).all() or (result.X != result.X.T).any():
            found.problem("X is not a finite symmetric matrix", Status.UNKNOWN)
            return
        missed = np.abs(X[self.i, self.j] - np.where(self.i == self.j, 1, self.b))
        worst, allowed = float(missed.max(initial=0.0)), 16 * ROUNDING * max(1.0, float(np.abs(self.C).max()))
        found.compare("max_violation", result.max_violation, worst, CLOSE + allowed)
        is_feasible = worst <= 16 * allowed
        values = eigenvalues(X)
        found.figures["smallest eigenvalue"] = (result.smallest_eigenvalue, float(values[0]))
        found.compare("residual", result.residual, self._residual(X), CLOSE * max(1.0, float(np.abs(X).sum())))
        if not values[0] >= self.low - 64 * ROUNDING * self.n * max(1.0, float(values[-1])):
            is_feasible = False
            if found.claimed is not Status.UNKNOWN:
                found.problem(f"an eigenvalue is {float(values[0]):.3g}, below {float(self.low):g}")
        if self.n_factors is not None and result.factor is None:
            found.problem("the loadings of the factors are not given", Status.UNKNOWN)
        if result.factor is not None:
            product = result.factor.astype(real) @ result.factor.astype(real).T
            if self.n_factors is not None:
                self._loadings(result.factor.shape, product, found)
            found.compare_all("factor factor'", X, product, CLOSE * max(1.0, float(np.abs(X).max())))
        if self.rank is not None and self.n > self.rank and values[-self.rank - 1] > 1e-8 * values[-1]:
            found.problem(f"the rank is above {self.rank}", Status.UNKNOWN)
        if not is_feasible and found.claimed is not Status.UNKNOWN and worst > 16 * allowed:
            found.problem(f"a prescribed entry is missed by {worst:.2g}")
        objective, bound, lost = self._distance(X), *self._bound(result.dual)
        if self.n_factors is not None and bound is not None and not result.dual.any():
            bound = max(bound, factor_bound(self.C.astype(float), self.n_factors))
        size = max(1.0, abs(objective))
        room = CLOSE * size + lost + self._vague(size)
        if is_feasible:
            found.compare("objective", result.objective, objective, room)
        if np.isfinite(result.dual_bound) and bound is not None:
            found.bound_from_below("dual_bound", result.dual_bound, bound, room)
        if bound is None:
            found.unchecked.append(
                "the bound was not recomputed: fixed blocks are nearly singular, and what it holds on is not saved"
            )
            bound = result.dual_bound
        found.compare("unit", result.unit, size, EXACT * size + room)
        found.judge(result, (objective - bound + lost) / size if is_feasible else np.inf, is_feasible)

    def _entries(self, found: Verification) -> None:
        """The entries of the result are those that were asked for."""
        pairs = {(int(a), int(b)) for a, b in zip(self.i, self.j)}
        wanted = {(k, k) for k in range(self.n)}
        if self.fixed is not None:
            mask = np.asarray(self.fixed, dtype=bool)
            wanted |= {(int(a), int(b)) for a, b in np.argwhere(mask | mask.T) if a <= b}
        if pairs != wanted:
            found.problem("the prescribed entries are not the unit diagonal and what was fixed", Status.UNKNOWN)

    def _asked(self, found: Verification) -> None:
        """What the result says of its problem, and of the repair of the input."""
        result, repaired = self.result, self.result.repaired
        is_forced = len(self.i) > self.n and self.divergence.takes_indefinite
        if result.null_space is not None and not is_forced:
            found.problem("null vectors are named, which nothing forces")
        for name, asked in (
            ("divergence", self.divergence.name),
            ("rank", self.rank),
            ("labels", self.labels),
            ("n_factors", self.n_factors),
        ):
            if getattr(result, name) != asked:
                found.problem(f"{name} is {asked!r}; the result says {getattr(result, name)!r}")
        found.compare("min_eig", result.min_eig, float(self.low), 0.0)
        if self.floor is None or not self.values[0] < self.floor:
            near = self.floor is not None and self.values[0] < self.floor * (1 + CLOSE)
            if repaired is not None and not near:
                found.problem("the result says that the input was repaired, which needs no repair", Status.UNKNOWN)
            return
        low = self.values[self.values < self.floor]
        rounding = 64 * ROUNDING * self.n * float(np.abs(self.values).max())
        if repaired is None:
            if low[0] < self.floor - rounding:
                found.problem(f"{len(low)} eigenvalues of the input are below the floor; the result does not say so")
            return
        found.compare("floor", repaired.floor, self.floor, 0.0)
        found.compare("size of the repair", repaired.size, float(np.sqrt(((self.floor - low) ** 2).sum())), rounding)
        fewest, most = ((self.values < self.floor + way * rounding).sum() for way in (-1, 1))
        if repaired.kind != "clip" or not fewest <= repaired.n_eigenvalues <= most:
            found.problem(f"{len(low)} eigenvalues are raised; the result says {repaired.n_eigenvalues}")

    def _loadings(self, shape: tuple[int, ...], product: np.ndarray, found: Verification) -> None:
        """The rows of L are no longer than 1, so that D is not negative; ``L L'`` with D added."""
        longest = float(np.diag(product).max())
        if not longest <= 1 + 64 * ROUNDING or shape != (self.n, self.n_factors):
            found.problem(
                f"factor is no matrix of {self.n_factors} columns with rows of length at most 1", Status.UNKNOWN
            )
        np.fill_diagonal(product, 1)

    def _residual(self, X: np.ndarray) -> float:
        """Frobenius distance from the input as it was handed in, scaled if that was asked for."""
        return float(np.sqrt(((X - self.handed_in) ** 2).sum()))

    def _vague(self, size: float) -> float:
        """What the last digits of C are worth where small eigenvalues of it matter."""
        if self.divergence.takes_indefinite:
            return 16 * ROUNDING * float(np.abs(self.C).max()) * float(np.abs(self.result.X - self.C).sum())
        kept = self._prior()[0].astype(float)
        return 32 * ROUNDING * self.n * float((kept[-1] / kept).max()) * size

    def _prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues l and vectors Q of C in its range, and the units of its rows: LogDet does not depend on those."""
        d = np.sqrt(np.diag(self.C)) if self.divergence.is_congruence_invariant else np.ones(self.n, dtype=self.real)
        values, Q = eigenpairs(self.C / np.multiply.outer(d, d))
        keep = values > RANK_TOL * values[-1]
        return values[keep], Q[:, keep], d

    def _distance(self, X: np.ndarray) -> float:
        if self.divergence.takes_indefinite:
            return float(((X - self.C) ** 2).sum()) / 2
        l, Q, d = self._prior()
        return distance(self.divergence, Q.T @ (X / np.multiply.outer(d, d)) @ Q, l)

    def _bound(self, mu: np.ndarray) -> tuple[float | None, float]:
        """The bound that the multipliers prove, and its rounding; None where it cannot be told."""
        D, eye = self.divergence, np.eye(self.n, dtype=self.real)
        Y = self.sum(mu)
        linear = float(mu.astype(self.real) @ self.b)
        terms = float(np.abs(mu) @ np.abs(self.b))
        eps = unit_of(self.real) * self.n
        if D.takes_indefinite:
            T, C0 = self.C - self.low * eye - Y, self.C - self.low * eye
            if self.result.null_space is not None:
                V = self.result.null_space.astype(self.real)
                if not self._are_null(V):
                    return None, 0.0
                N = np.linalg.svd(V.astype(float), full_matrices=True)[0][:, V.shape[1] :].astype(self.real)
                T = N.T @ T @ N
            above = np.maximum(eigenvalues((T + T.T) / 2), 0)
            value = ((C0 * C0).sum() - (above * above).sum()) / 2
            return float(value) - linear, eps * float(
                (C0 * C0).sum() + (above * above).sum() + terms + np.abs(T).max() * above.sum()
            )
        l, Q, d = self._prior()
        if D.is_congruence_invariant:
            P = d[:, None] * Q * np.sqrt(l)
            value = log_determinant(np.eye(len(l), dtype=self.real) + P.T @ Y @ P)
            return float(value) - linear, eps * (terms + len(l) + float(np.abs(P.T @ Y @ P).sum()))
        t0 = evaluate(D.link, l)
        t = eigenvalues(np.diag(t0) - Q.T @ Y @ Q)
        x = evaluate(D.inverse_link, t)
        value = (t0 * l - evaluate(D.phi, l)).sum() - (t * x - evaluate(D.phi, x)).sum()
        return float(value) - linear, eps * (terms + float((np.abs(t0 * l) + l).sum() + (np.abs(t * x) + x).sum()))

    def _are_null(self, V: np.ndarray) -> bool:
        """Whether every matrix with these entries has these null vectors: their block is prescribed, and singular along them."""
        known = np.zeros((self.n, self.n), dtype=bool)
        known[self.i, self.j] = known[self.j, self.i] = True
        B = np.where(known, np.where(np.eye(self.n, dtype=bool), 1, self.C), 0)
        folded = self._null_vectors(known, B)
        if folded is None:
            return False
        inside = V - folded @ (folded.T @ V)
        return bool(np.abs(inside).max() <= 1e-8)

    def _null_vectors(self, known: np.ndarray, B: np.ndarray) -> np.ndarray | None:
        """Orthonormal basis of the null vectors of prescribed blocks, found from each row of entries."""
        vectors = []
        for k in range(self.n):
            near = np.flatnonzero(known[k])
            block = [k]
            for m in near:
                if m != k and known[m, block].all():
                    block.append(int(m))
            t, U = eigenpairs(B[np.ix_(block, block)].astype(self.real))
            for u in U[:, t <= 16 * ROUNDING * len(block) * max(1.0, float(t[-1]))].T:
                v = np.zeros(self.n)
                v[block] = u
                vectors.append(v)
        if not vectors:
            return None
        U, sigma, _ = np.linalg.svd(np.array(vectors).T, full_matrices=False)
        return U[:, sigma > 1e-8].astype(self.real)

    def _contradiction(self, found: Verification) -> None:
        """``Y`` semidefinite and ``<Y, X> = mu . b`` negative (LogDet: not positive)."""
        mu, real = self.result.dual, self.real
        conflict = np.empty((0, 2), dtype=int) if self.result.conflict is None else self.result.conflict
        prescribed = [(int(a), int(b)) for a, b in self.result.rows]
        named = {(int(a), int(b)) for a, b in np.reshape(conflict, (-1, 2))}
        if not {prescribed[k] for k in np.flatnonzero(mu)} <= named <= set(prescribed):
            found.problem("the conflict does not name all entries that carry the proof, or entries that are free")
        Y, rows = self.sum(mu), np.count_nonzero(mu)
        b = np.where(self.i == self.j, 1, self.b).astype(real)
        total, weight = float(mu.astype(real) @ b), float(np.abs(mu) @ np.abs(b.astype(float)))
        found.figures["y . b"] = (np.nan, total)
        if self.result.null_space is not None or self.low > 0:
            V = self.result.null_space
            if V is not None:
                if not self._are_null(V.astype(real)):
                    found.unchecked.append(
                        "the proof was not recomputed: nothing shows that the null vectors are forced"
                    )
                N = np.linalg.svd(V, full_matrices=True)[0][:, V.shape[1] :].astype(real)
                Y = N.T @ Y @ N
            total -= float(self.low * np.trace(self.sum(mu)))
        if not self.divergence.takes_indefinite:
            _, Q, d = self._prior()
            Y = Q.T @ (Y * np.multiply.outer(d, d)) @ Q
        size = float(np.abs(Y).max()) * np.eye(len(Y), dtype=real)
        if not is_semidefinite(Y, size, 64.0 * self.n * ROUNDING):
            found.problem("the weighted sum of the entries is not positive semidefinite", Status.UNKNOWN)
        limit = 64 * ROUNDING * rows * weight
        if not (total < -limit or (self.divergence.keeps_rank and total <= limit and float(np.abs(Y).max()) > 0)):
            found.problem(f"the weighted sum of the entries is {total:.3g}, which is not below 0", Status.UNKNOWN)
