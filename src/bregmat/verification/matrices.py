"""Nearest kernels and metrics: objective, dual bound, violation, signs, definiteness, proofs of infeasibility, from the matrix alone.

The prior is decomposed again, every row is written out from the formula of its relation, and sums are taken in extended
precision. What is shared with the solver is what defines the problem: ``phi``, its link and the inverse of that, the losses,
and the rule which row has which loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from bregmat.checks import as_points
from bregmat.constraints import Constraints
from bregmat.coordinates import RANK_TOL, Factor
from bregmat.divergences import as_divergence
from bregmat.losses import OwnSlack, as_loss
from bregmat.proofs import FEASIBLE
from bregmat.relations import SAMPLES
from bregmat.result import MatrixResult
from bregmat.row_losses import RowLosses, WeightedBounds
from bregmat.status import Status
from bregmat.verification.extended import (
    LONG,
    arithmetic,
    eigenpairs,
    eigenvalues,
    evaluate,
    is_semidefinite,
    log_determinant,
    precision_text,
    unit_of,
)
from bregmat.verification.figures import CLOSE, Verification, recompute

ROUNDING = float(np.finfo(float).eps)
VANISHING = 1e-13  # share of the size of what it is made of, below which a vector is rounding
UNCERTAIN = 1e-6  # rounding of the value of a row, relative to its unit, from which nothing is said of it
NOISE = 32.0  # roundings that a proof of infeasibility may owe to the last digits of its weights
OPTIONS = ("divergence", "loss", "slack_weight")
IGNORED = ("solver", "tol", "max_iter", "max_seconds", "warm_start", "callback")


@recompute.register
def _(result: MatrixResult, problem: Any, found: Verification) -> None:
    Recomputation(problem, result).report(found)


class Recomputation:
    """A problem (P) from the arguments of :func:`bregmat.nearest_kernel` or :func:`bregmat.nearest_metric`, in coordinates of its own.

    With a basis P (N, r) of the prior's range whose columns are orthogonal, rows of points are ``z = lift P`` and the learned
    matrix is ``P F F' P'``; the prior is ``P diag(l) P'``.

    Parameters
    ----------
    arguments : mapping
        ``prior`` and ``constraints`` for a kernel; ``X``, ``constraints`` and perhaps ``prior`` for a metric; divergence, loss
        and slack_weight where they are not the defaults.
    result : MatrixResult
    """

    def __init__(self, arguments: Mapping[str, Any], result: MatrixResult) -> None:
        known = {"prior", "X", "constraints", *OPTIONS, *IGNORED}
        unknown = sorted(set(arguments) - known)
        if unknown or "constraints" not in arguments or not {"prior", "X"} & set(arguments):
            raise ValueError(
                "problem must hold the arguments of nearest_kernel (prior, constraints, ...) or nearest_metric (X, constraints, "
                f"...); got {', '.join(map(repr, arguments))}."
            )
        self.result, self.constraints = result, arguments["constraints"]
        if not isinstance(self.constraints, Constraints):
            raise TypeError(f"problem: constraints must be Constraints; got {type(self.constraints).__name__}.")
        self.divergence = as_divergence(arguments.get("divergence", "logdet"))
        self.is_metric = "X" in arguments
        if len(result.dual) != self.constraints.n_constraints:
            raise ValueError(
                f"the result has {len(result.dual)} dual weights but there are {self.constraints.n_constraints} constraints."
            )
        self.points: Any = as_points("X", arguments["X"]) if self.is_metric else None
        order, c = len(result.coordinates.t0), self.constraints.n_constraints
        self.real = arithmetic(60.0 * order**3 + 4.0 * c * order**2)
        self.eps = unit_of(self.real)
        self._decompose(arguments.get("prior"))
        self._bind()
        weights = np.asarray(arguments.get("slack_weight", np.inf), dtype=float) * self.constraints.weight
        self._lose(arguments.get("loss"), np.broadcast_to(weights, (c,)))

    # ------------------------------------------------------------------ the prior
    def _decompose(self, prior: Any) -> None:
        """Basis P, prior l, and what the prior's own rounding is relative to each eigenvalue."""
        D, real = self.divergence, self.real
        invariant = D.is_congruence_invariant
        self.is_identity = prior is None
        self.is_decomposed = not self.is_metric and not isinstance(
            prior, Factor
        )  # points are known to the prior's rounding
        if prior is None:
            d = self.points.shape[1]
            rows = self.constraints.touched(self.points.shape[0])
            touched = self.points if rows is None else self.points[rows]
            P = np.eye(d) if d <= max(300, touched.shape[0]) else _span(touched)
            self.P, self.l = P.astype(real), np.ones(P.shape[1], dtype=real)
            self.vague = np.zeros(P.shape[1])
            self.sq_norms = np.ones(P.shape[1], dtype=real)
            return
        if isinstance(prior, Factor):
            G = np.asarray(prior.G0, dtype=float).astype(real)
            values, V = eigenpairs(G.T @ G)
            keep = values > (100.0 * self.eps if invariant else RANK_TOL) * values[-1]
            values, basis = values[keep], G @ V[:, keep] / np.sqrt(values[keep])
        else:
            W0 = np.asarray(prior, dtype=float)
            values, basis = eigenpairs(((W0 + W0.T) / 2).astype(real))
            if D.keeps_range:
                keep = values > RANK_TOL * values[-1]
                at_the_edge = (
                    np.abs(np.log(np.maximum(values.astype(float), 1e-300) / (RANK_TOL * float(values[-1])))) < 0.1
                )
                if keep.sum() != len(self.result.coordinates.t0) and at_the_edge.any():
                    keep = np.arange(len(values)) >= len(values) - len(self.result.coordinates.t0)
                values, basis = values[keep], basis[:, keep]
            values = np.maximum(values, 0)
        self.vague = 8.0 * ROUNDING * float(values[-1]) / np.maximum(values.astype(float), 1e-300)
        if invariant:
            self.P, self.l, self.sq_norms = basis * np.sqrt(values), np.ones_like(values), values
        else:
            self.P, self.l, self.sq_norms = basis, values, np.ones_like(values)

    @cached_property
    def F(self) -> np.ndarray:
        """The learned matrix in the basis, as a factor (r, k)."""
        if self.is_metric and self.P.shape[0] != self.P.shape[1] and self.P.shape[0] > 300:
            return np.asarray(self.result.transform(self.P.T.astype(float))).astype(self.real)
        return self.P.T @ self.given / self.sq_norms[:, None]

    @cached_property
    def given(self) -> np.ndarray:
        """The factor that the result hands out."""
        return np.asarray(self.result.B if self.is_metric else self.result.factor).astype(self.real)

    def outside(self) -> float:
        """Share of the learned matrix outside of the prior's range, beyond what the prior's last digits are worth; else 0."""
        if self.is_metric and self.P.shape[0] > 300:
            return 0.0
        size = float(np.abs(self.given).max(initial=0.0)) or 1.0
        lengths = np.sqrt(self.sq_norms * (self.F * self.F).sum(axis=1)).astype(float)
        off = float(np.abs(self.given - self.P @ self.F).max(initial=0.0))
        return off / size if off > CLOSE * size + float((np.minimum(self.vague, 1.0) * lengths).sum()) else 0.0

    # ------------------------------------------------------------------ the rows
    def _bind(self) -> None:
        """Terms ``coef |V_t M V_t'|`` of the rows that name samples, and matrices of the others."""
        constraints, real = self.constraints, self.real
        n = self.points.shape[0] if self.is_metric else self.P.shape[0]
        rows = constraints.touched(n)
        rows = np.arange(n) if rows is None else rows
        if not self.is_metric:
            Z = self.P[rows]
        elif scipy.sparse.issparse(self.points):
            Z = np.asarray(self.points[rows] @ self.P.astype(float)).astype(real)
        else:
            Z = self.points[rows].astype(real) @ self.P
        place = np.full(n, -1)
        place[rows] = np.arange(len(rows))
        lengths = np.sqrt((Z * Z).sum(axis=1))
        self.dead = (
            lengths <= VANISHING * lengths.max(initial=0) if self.is_decomposed else np.zeros(len(Z), dtype=bool)
        )
        Z[self.dead] = 0
        owner, vectors, coefs, sizes, firsts, seconds, signs = [], [], [], [], [], [], []
        for code, relation in enumerate(constraints.relations):
            on = np.flatnonzero(constraints.relation == code)
            if not len(on) or not relation.form:
                continue
            for key, coef in relation.form.items():
                a = place[constraints.index[on, SAMPLES.index(key[0])]]
                b = place[constraints.index[on, SAMPLES.index(key[-1])]]
                for sign, part in _SQUARES[key[1:2]]:
                    owner.append(on)
                    firsts.append(a)
                    seconds.append(b)
                    signs.append(np.full(len(on), sign))
                    vectors.append(Z[a] + sign * Z[b] if sign else Z[a])
                    coefs.append(np.full(len(on), coef * part))
                    sizes.append(lengths[a] + abs(sign) * lengths[b])
        r = Z.shape[1]
        self.owner = np.concatenate(owner) if owner else np.zeros(0, int)
        self.V = np.concatenate(vectors) if vectors else np.zeros((0, r), dtype=real)
        self.coef = np.concatenate(coefs).astype(real) if coefs else np.zeros(0, dtype=real)
        self.size = np.concatenate(sizes) if sizes else np.zeros(0, dtype=real)
        self.terms = tuple(np.concatenate(x) if x else np.zeros(0, int) for x in (firsts, seconds, signs))
        if len(self.V):  # what is nothing but rounding of what it is made of is 0
            size = np.maximum(self.size, float(lengths.max()) if self.is_decomposed else 0.0)
            self.vanished = np.sqrt((self.V * self.V).sum(axis=1)) <= VANISHING * size
            self.V[self.vanished] = 0.0
        self.touched, self.matrices = rows, {}
        for row in np.flatnonzero(constraints.where("is_whole")):
            self.matrices[int(row)] = _whole(constraints.matrix(row), Z)

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Value of each row, and what rounding of the matrix's factor may change it by."""
        c = self.constraints.n_constraints
        p, noise = np.zeros(c, dtype=self.real), np.zeros(c)
        G = np.where(self.dead[:, None], 0, self.lifted())
        if len(self.V):
            first, second, sign = self.terms
            size = np.sqrt((G * G).sum(axis=1))
            Y = G[first] + sign[:, None] * G[second]
            Y[self.vanished] = 0.0
            lengths, blur = np.sqrt((Y * Y).sum(axis=1)), ROUNDING * (size[first] + np.abs(sign) * size[second])
            np.add.at(p, self.owner, self.coef * lengths**2)
            np.add.at(noise, self.owner, (np.abs(self.coef) * blur * (2.0 * lengths + blur)).astype(float))
        for row, (A, _) in self.matrices.items():
            p[row], noise[row] = _value(self.constraints.matrix(row), G) if A.any() else (0.0, 0.0)
        return p, noise

    def lifted(self) -> np.ndarray:
        """Rows of the factor of the learned kernel at the touched points, as the result has them."""
        if not self.is_metric:
            return self.given[self.touched]
        if scipy.sparse.issparse(self.points) or self.P.shape[0] > 300:
            return np.asarray(self.result.transform(self.points[self.touched])).astype(self.real)
        return self.points[self.touched].astype(self.real) @ self.given

    def adjoint(self, y: np.ndarray, *, absolute: bool = False) -> np.ndarray:
        """``sum_i y_i A_i``; with ``absolute`` of the absolute values of weights and terms."""
        of = np.abs if absolute else (lambda x: x)
        w = of(y.astype(self.real)[self.owner] * self.coef)
        on = np.flatnonzero(w)
        A = (self.V[on] * w[on, None]).T @ self.V[on]
        for row, (C, _) in self.matrices.items():
            if y[row]:
                A = A + of(self.real(y[row])) * (_absolute(C) if absolute else C)
        return (A + A.T) / 2

    def blur(self, y: np.ndarray, M: np.ndarray) -> float:
        """What rounding of the points may change of ``<sum_i y_i A_i, M>``."""
        w = np.abs(y[self.owner] * self.coef.astype(float))
        turned, M = ROUNDING * self.size.astype(float), np.abs(M)
        pulled = np.linalg.norm(self.V.astype(float) @ M, axis=1) if len(w) else w
        vague = float((w * turned * (2.0 * pulled + turned * float(M.max(initial=0.0)))).sum())
        return vague + sum(
            ROUNDING * abs(float(y[row])) * float((N * M).sum()) for row, (_, N) in self.matrices.items() if y[row]
        )

    def _sizes_at_prior(self, rows: np.ndarray) -> np.ndarray:
        """``tr(|A_i| M0)``."""
        out = np.zeros(len(rows))
        for k, row in enumerate(rows):
            y = np.zeros(self.constraints.n_constraints)
            y[row] = 1.0
            t, U = np.linalg.eigh(self.adjoint(y).astype(float))
            out[k] = float(np.abs(t) @ ((U * U).T @ self.l.astype(float)))
        return out

    def _lose(self, loss: Any, gamma: np.ndarray) -> None:
        """Units of the rows, and their losses by the library's rule."""
        c = self.constraints
        self.unit = np.abs(c.bound)
        zero = np.flatnonzero(c.bound == 0)
        if len(zero):
            size = self._sizes_at_prior(zero)
            self.unit[zero] = np.where(size > 0, size, 1.0)
        self.hard = np.isinf(gamma)
        given = WeightedBounds(self.divergence, c.bound, c.sense, gamma, self.unit)
        self.losses: RowLosses = (as_loss(loss) or OwnSlack(self.divergence)).bind(given)

    # ------------------------------------------------------------------ the figures
    def excess(self, p: np.ndarray) -> np.ndarray:
        """By how much each row is on the wrong side of its bound."""
        gone, sense = p - self.losses.bound, self.losses.sense
        return np.where(sense == 0, np.abs(gone), np.maximum(sense * gone, 0))

    def distance(self) -> float:
        """``D(M, diag(l))``."""
        D, M, l = self.divergence, self.F @ self.F.T, self.l
        if D.takes_indefinite:
            return float(((M - np.diag(l)) ** 2).sum()) / 2
        if D.keeps_rank:
            if D.is_congruence_invariant:
                return float(np.trace(M) - log_determinant(M) - len(M))
            phi = evaluate(D.phi, eigenvalues(M))
        else:
            x = np.maximum(eigenvalues(M), 0)
            phi = np.where(x > 0, evaluate(D.phi, np.where(x > 0, x, 1)), self.real(D.phi_at_zero()))
        t0 = evaluate(D.link, l)
        return float(phi.sum() - evaluate(D.phi, l).sum() - (t0 * (np.diag(M) - l)).sum())

    def cost(self, p: np.ndarray) -> float:
        """Losses of the soft rows that are violated."""
        total, L = self.real(0), self.losses
        on = ~self.hard & ((self.excess(p) > 0) | (L.sense == 0))
        for kind, loss in enumerate(L.kinds):
            rows = np.flatnonzero(on & (L.kind == kind))
            if len(rows):
                scale = L.scale[rows].astype(self.real)
                if loss.is_positive and loss.is_outside(p[rows].astype(float), L.bound[rows]).any():
                    return np.inf
                q = p[rows] / scale
                q = np.maximum(q, 1e-300) if loss.is_positive else q
                total += (L.gamma[rows] * evaluate(loss.cost, q, L.bound[rows] / scale)).sum()
        return float(total)

    def conjugates(self, mu: np.ndarray) -> tuple[float, float]:
        """``sum loss_i^*(mu_i)``, and the sum of the sizes of its terms."""
        total, terms, L = self.real(0), 0.0, self.losses
        for kind, loss in enumerate(L.kinds):
            rows = np.flatnonzero((L.kind == kind) & (mu != 0))
            if not len(rows):
                continue
            w, b = mu[rows].astype(self.real), L.bound[rows].astype(self.real)
            terms += float(np.abs(w * b).sum())
            if loss.is_hard:
                total += (w * b).sum()
                continue
            scale, gamma = L.scale[rows].astype(self.real), L.gamma[rows].astype(self.real)
            m, c = w * scale / gamma, b / scale
            low, high = loss.slopes(c.astype(float))
            if not ((m > low) & (m < high)).all():
                return np.inf, terms
            q = evaluate(loss.at_slope, m, c)
            total += (gamma * (m * q - evaluate(loss.cost, q, c))).sum()
        return float(total), terms

    def dual_bound(self, mu: np.ndarray) -> tuple[float, float]:
        """The bound that signed weights prove, and what rounding, of the arithmetic and of the data, may take from it."""
        D, l = self.divergence, self.l
        lost, terms = self.conjugates(mu)
        if not np.isfinite(lost):
            return -np.inf, 0.0
        A, n = self.adjoint(mu), len(l)
        if D.is_congruence_invariant:
            T = np.eye(n, dtype=self.real) + A
            gain, size = log_determinant(T), float(np.abs(np.diag(A)).sum()) + n
            if not np.isfinite(gain):
                return -np.inf, 0.0
            M = np.linalg.inv(T.astype(float))
            return float(gain) - lost, self.eps * n * (size + terms) + self.blur(mu, M)
        t0 = evaluate(D.link, l)
        t, U = eigenpairs(np.diag(t0) - A)
        if not D.in_domain(t.astype(float)):
            return -np.inf, 0.0
        x = evaluate(D.inverse_link, t)
        if D.takes_indefinite:
            squares, below = float((A * A).sum()), np.minimum(t, 0)
            if squares < float((l * l).sum()):  # the formula that cancels less
                gain = (np.diag(A) * l).sum() - (A * A).sum() / 2 + (below * below).sum() / 2
                size = float(np.abs(np.diag(A) * l).sum()) + squares + float(np.abs(below).sum() * np.abs(t).max())
            else:
                gain = ((l * l).sum() - (x * x).sum()) / 2
                size = float((l * l).sum() + (x * x).sum() + 2 / n * x.sum() * np.abs(t).max())
        else:
            phi = np.where(
                x > 0, evaluate(D.phi, np.where(x > 0, x, 1)), self.real(0.0 if D.keeps_rank else D.phi_at_zero())
            )
            gain = (t0 * l - evaluate(D.phi, l)).sum() - (np.where(x > 0, t * x, 0) - phi).sum()
            size = float((np.abs(t0 * l) + l).sum() + (np.abs(t * x) + x).sum() + 2 / n * x.sum() * np.abs(t).max())
        M = ((U * x) @ U.T).astype(float)
        return float(gain) - lost, self.eps * n * (size + terms) + self.blur(mu, M)

    def gap_unit(self, objective: float) -> float:
        """What the gap is measured in: the objective, or a thousandth of the prior's mean eigenvalue to the divergence's degree."""
        degree = self.divergence.degree or 0
        mean = float(self.l.sum()) / self.P.shape[0] if degree and not self.is_identity else 1.0
        own = 1e-3 * mean**degree if mean > 0 else self.result.unit
        return max(own, abs(objective))

    def from_the_prior(self) -> float:
        """What the last digits of the prior are worth in the objective."""
        M = (self.F * self.F).sum(axis=1)
        if self.divergence.takes_indefinite:
            return float(8.0 * ROUNDING * float(self.l[-1]) * (np.abs(M - self.l)).sum())
        return float((np.minimum(self.vague, 1.0) * np.abs(M - self.l).astype(float)).sum())

    def objective_at(self, factor: np.ndarray) -> float:
        """The objective of another matrix, given by a factor as the result gives its own; inf where a hard row is missed."""
        other = copy(self)
        other.__dict__.pop("F", None)
        other.given = factor.astype(self.real)
        p, _ = other.values()
        if (other.excess(p) > FEASIBLE * self.unit)[self.hard].any():
            return np.inf
        return other.distance() + other.cost(p)

    # ------------------------------------------------------------------ the report
    def report(self, found: Verification) -> None:
        """Everything that can be said of the result."""
        result = self.result
        found.precision = precision_text(self.real)
        mu = np.asarray(result.dual, dtype=float)
        if not np.isfinite(mu).all():
            found.problem("the dual weights are not finite", Status.UNKNOWN)
            return
        if ((self.losses.sense > 0) & (mu < 0) | (self.losses.sense < 0) & (mu > 0)).any():
            bad = np.flatnonzero((self.losses.sense > 0) & (mu < 0) | (self.losses.sense < 0) & (mu > 0))
            found.problem(f"the dual weight of row {bad[0]} has the wrong sign: {mu[bad[0]]:.3g}")
            mu = np.where(self.losses.sense * mu < 0, 0.0, mu)
        if found.claimed is Status.INFEASIBLE:
            self.report_infeasible(mu, found)
            return
        if not np.isfinite(self.given).all():
            found.problem("the matrix is not finite", Status.UNKNOWN)
            return
        p, noise = self.values()
        excess = self.excess(p)
        worst = float((excess / self.unit)[self.hard].max(initial=0.0))
        allowed = float((noise / self.unit)[self.hard].max(initial=0.0))
        found.compare("max_violation", result.max_violation, worst, CLOSE + 16.0 * allowed)
        missed = np.flatnonzero(
            self.hard & ~(excess <= FEASIBLE * self.unit + 16.0 * np.minimum(noise, UNCERTAIN * self.unit))
        )
        is_feasible = not len(missed)
        if len(missed) and found.claimed is not Status.UNKNOWN:
            row = missed[0]
            found.problem(f"row {row} is missed by {float(excess[row] / self.unit[row]):.2g}")
        vague = np.flatnonzero(self.hard & (noise > UNCERTAIN * self.unit))
        if len(vague) and found.claimed is not Status.UNKNOWN:
            is_feasible = False
            found.problem(f"row {vague[0]}: its value is nothing but rounding of what it is made of")
        if self.divergence.keeps_range and (off := self.outside()) > 0:
            is_feasible = False
            found.problem(f"the matrix leaves the range of the prior by {off:.2g} of its size")
        bound, lost = self.dual_bound(mu)
        distance = self.distance()
        objective = distance + self.cost(p)
        upper = objective + float((np.abs(mu) * self.excess(p))[self.hard].sum())
        prior, size = self.from_the_prior(), self.gap_unit(objective)
        gap = (upper - bound + lost) / size if is_feasible and np.isfinite(bound) else np.inf
        allowed = max(CLOSE, 0.1 * result.tol) * size + lost + prior + self.eps * float((self.l * self.l).sum())
        if is_feasible:
            found.compare(
                "objective", result.objective, objective, allowed + (np.abs(mu) * self.unit * FEASIBLE)[self.hard].sum()
            )
        if np.isfinite(result.dual_bound):
            found.bound_from_below("dual_bound", result.dual_bound, bound, allowed)
        if prior > result.tol * size:
            found.notes.append(f"the last digits of the prior are worth {prior:.2g} in the objective")
        found.judge(result, gap, is_feasible)

    def report_infeasible(self, y: np.ndarray, found: Verification) -> None:
        """Whether ``S = sum y_i A_i`` is semidefinite and ``y . b`` negative: then ``0 <= <S, M> <= y . b < 0``."""
        b = self.constraints.bound
        found.figures["y . b"] = (np.nan, float(y.astype(LONG) @ b.astype(LONG)))
        if y[~self.hard].any():
            found.problem("the proof uses soft rows", Status.UNKNOWN)
        conflict = self.result.conflict
        if conflict is None or not set(np.flatnonzero(y)) <= {int(k) for k in conflict}:
            found.problem("the conflict does not name all rows that carry the proof")
        total = float(y.astype(LONG) @ b.astype(LONG))
        size = float(np.abs(y) @ np.abs(b))
        S, N = self.adjoint(y), self.adjoint(y, absolute=True)
        rows = np.count_nonzero(y)
        semidefinite = is_semidefinite(S, N, NOISE * rows * ROUNDING)
        singular = (
            self.divergence.keeps_rank
            and size == 0.0
            and float(np.trace(S)) > 1e3 * NOISE * ROUNDING * rows * float(np.trace(N))
        )
        if not semidefinite:
            found.problem("the weighted sum of the rows is not positive semidefinite", Status.UNKNOWN)
        if not (total < -NOISE * rows * ROUNDING * size or singular):
            found.problem(f"the weighted sum of the bounds is {total:.3g}, which is not below 0", Status.UNKNOWN)


_SQUARES = {"": ((0, 1.0),), "-": ((-1, 1.0),), "+": ((1, 1.0),), ".": ((1, 0.25), (-1, -0.25))}  # of a form's entry


def _span(points: Any) -> np.ndarray:
    """Orthonormal basis of the span of rows, shape (d, m)."""
    dense = points.toarray() if scipy.sparse.issparse(points) else points
    lengths = np.linalg.norm(dense, axis=1)
    _, sigma, Vt = np.linalg.svd(dense / np.where(lengths > 0, lengths, 1.0)[:, None], full_matrices=False)
    return Vt[sigma > 1e-13 * sigma[0]].T


def _dense(C: Any) -> np.ndarray:
    """A row's matrix as an array."""
    if hasattr(C, "weights"):
        return (C.vectors * C.weights) @ C.vectors.T
    return np.asarray(C.toarray() if scipy.sparse.issparse(C) else C, dtype=float)


def _whole(C: Any, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``Z' C Z``, 0 where it is rounding, and the same of absolute values; None stands for the identity."""
    if C is None:
        return Z.T @ Z, np.abs(Z).T @ np.abs(Z)
    if hasattr(C, "weights"):
        Y, N = C.vectors.T.astype(Z.dtype) @ Z, np.abs(C.vectors.T) @ np.abs(Z)
        Y[np.sqrt((Y * Y).sum(axis=1)) <= VANISHING * np.sqrt((N * N).sum(axis=1))] = 0.0
        return (Y.T * C.weights) @ Y, (N.T * np.abs(C.weights)) @ N
    A = _dense(C).astype(Z.dtype)
    B, N = Z.T @ A @ Z, np.abs(Z).T @ np.abs(A) @ np.abs(Z)
    lengths = np.sqrt((Z * Z).sum(axis=1))
    return (B if np.abs(B).max(initial=0) > VANISHING * (lengths @ np.abs(A) @ lengths) else np.zeros_like(B)), N


def _value(C: Any, G: np.ndarray) -> tuple[Any, float]:
    """``<C, G G'>``, and what rounding of the factor G may change it by."""
    if C is None:
        return (G * G).sum(), ROUNDING * float((G * G).sum())
    if hasattr(C, "weights"):
        V, w, size = C.vectors, C.weights, np.sqrt((G * G).sum(axis=1)).astype(float)
        Y = V.T.astype(G.dtype) @ G
        lengths, blur = np.sqrt((Y * Y).sum(axis=1)).astype(float), ROUNDING * (np.abs(V).T @ size)
        return (w * (Y * Y).sum(axis=1)).sum(), float(np.abs(w) @ (blur * (2.0 * lengths + blur)))
    A = _dense(C).astype(G.dtype)
    return ((A @ G) * G).sum(), 4.0 * ROUNDING * float(((np.abs(A) @ np.abs(G)) * np.abs(G)).sum())


def _absolute(A: np.ndarray) -> np.ndarray:
    """``|A|``, the positive semidefinite absolute value."""
    t, U = eigenpairs(A)
    return (U * np.abs(t)) @ U.T
