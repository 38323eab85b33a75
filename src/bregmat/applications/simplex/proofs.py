"""What a vector and dual weights prove: gap, restoration to feasibility, infeasibility. The vector case of certificates.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from bregmat.applications.simplex.rows import LinearRows, newton_direction
from bregmat.infeasibility import CLEAR
from bregmat.proofs import FEASIBLE, Certificate

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False, kw_only=True)
class DistributionCertificate(Certificate):
    """A vector, by its logarithm, its rows' values and signed dual weights, and what they prove together."""

    logx: np.ndarray
    values: np.ndarray
    missed: np.ndarray  # by how much each row is violated, in its own units

    def joined(self, new: DistributionCertificate) -> DistributionCertificate:
        """Of two certificates of one problem the vector and the weights that prove most together.

        Weights grow without end towards a vertex, and with them what rounding is worth: the last pair need not be the best one.
        """
        pairs = [new, self, new._with_dual(self), self._with_dual(new)]
        best = min(pairs, key=lambda pair: pair.gap)
        return best if np.isfinite(best.gap) else min(pairs, key=lambda pair: (-pair.dual_bound, pair.violation))

    def _with_dual(self, other: DistributionCertificate) -> DistributionCertificate:
        """This vector with the weights of another certificate."""
        upper = self.objective + float(np.abs(other.dual) @ self.missed) if self.is_feasible else np.inf
        return replace(self, dual=other.dual, dual_bound=other.dual_bound, upper=upper)


def certify(problem: LinearRows, logx: np.ndarray, p: np.ndarray, mu: np.ndarray) -> DistributionCertificate:
    """The certificate of a vector with values p and of dual weights; the vector is moved to feasibility first if it can be."""
    if FEASIBLE < problem.violation(p).max(initial=0.0) < 0.5:
        logx, p = restored(problem, logx, p, mu) or (logx, p)
    violation = problem.violation(p)
    worst = float(violation.max(initial=0.0))
    objective = problem.divergence(logx)
    missed = violation * problem.unit
    return DistributionCertificate(
        logx=logx,
        values=p,
        dual=mu,
        objective=objective,
        dual_bound=problem.bound(mu, problem.adjoint(mu)),  # not from a sum of steps
        missed=missed,
        upper=objective + float(np.abs(mu) @ missed) if worst <= FEASIBLE else np.inf,
        violation=worst,
    )


def restored(
    problem: LinearRows, logx: np.ndarray, p: np.ndarray, mu: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Multiplicative steps ``x <- x exp(-A'd)`` of Newton's method onto the violated rows, or None.

    Rows with weight that hold by no more than others are violated are kept tight, if that is not in the way.
    """
    x, sign, equal = np.exp(logx), problem.sign, problem.sense == 0
    worst = float(problem.violation(p).max())
    near = np.abs(problem.excess(p)) <= 10.0 * worst * problem.unit
    y = np.where(near, sign * mu, 0.0)
    for _ in range(8):
        margin = np.where(equal, 0.0, 1e-6 * worst + 1e-13) * problem.unit
        q = -(problem.excess(p) + margin)
        rows = np.flatnonzero(equal | (y > 0) | (q < 0.1 * problem.unit))
        H = problem.hessian(rows, x, p)
        H[np.diag_indices_from(H)] += 1e-12 * np.diag(H) + 1e-300
        d = np.zeros_like(p)
        d[rows] = newton_direction(H, q[rows], y[rows], ~equal[rows])
        y = y + d
        logx = problem.log_point(logx - problem.adjoint(sign * d))
        x = np.exp(logx)
        p = problem.A @ x
        last, worst = worst, float(problem.violation(p).max())
        if worst <= 0.1 * FEASIBLE or not worst < 0.7 * last:
            break
    return (logx, p) if worst <= FEASIBLE else None


def proves(problem: LinearRows, y: np.ndarray, v: np.ndarray | None = None) -> bool:
    """Whether sign-feasible y shows that no vector meets the rows, in spite of rounding.

    Every x that meets them has ``y . b >= y . A x >= total * min(A'y)``; with a free sum, ``A'y >= 0`` and ``y . b < 0``.
    """
    on = np.flatnonzero(y)
    if len(on) == 0 or not np.isfinite(y).all():
        return False
    v = problem.adjoint(y) if v is None else v
    value, clear = float(y @ problem.b), CLEAR * float(np.abs(y) @ problem.unit)
    low = np.flatnonzero(v == v.min()) if problem.total is not None else np.flatnonzero(v < 0)
    noise = 8.0 * EPS * len(on) * (np.abs(y[on]) @ abs(problem.A[on][:, low]))
    if problem.total is None:
        return value < -clear and bool((v[low] >= -noise).all())
    return problem.total * float((v[low] - noise).min()) - value > clear


def separation(problem: LinearRows, mu: np.ndarray, v: np.ndarray) -> np.ndarray | None:
    """Weights that prove infeasibility, on few rows, or None: a linear program over the columns that matter.

    mu, with ``v = A'mu``, tells which columns matter first, and may be a proof itself.
    ``max total * s - b . y`` over ``A'y >= s`` (s = 0 with a free sum) and ``sum |y| unit <= 1``. It starts from a few columns
    and doubles them by those where ``A'y`` is too small: all would take a minute where A is large and dense.
    """
    rows = np.concatenate([np.flatnonzero(problem.sense == s) for s in (1, -1, 0, 0)])
    sign = problem.sign[rows]
    sign[len(problem.b) :] = -1.0  # equalities stand here twice, once with each sign
    w, fixed = sign / problem.unit[rows], problem.total is not None
    cost = np.append(w * problem.b[rows], -(problem.total or 0.0))
    bounds = [(0, None)] * len(w) + [(None, None) if fixed else (0, 0)]
    columns = np.argsort(v)[:64]
    while True:
        slack = scipy.sparse.csr_array(np.full((len(columns), 1), float(fixed)))
        table = scipy.sparse.block_array(
            [[problem.part(rows, columns).T * -w[None], slack], [np.ones((1, len(w))), None]]
        )
        found = scipy.optimize.linprog(cost, table, np.append(np.zeros(len(columns)), 1.0), bounds=bounds)
        if found.status != 0 or -found.fun <= CLEAR:
            break
        y, s = np.zeros_like(problem.b), float(found.x[-1])
        np.add.at(y, rows, w * found.x[:-1])
        y[np.abs(y) * problem.unit <= 1e-9] = 0.0
        at = problem.adjoint(y)
        if proves(problem, y, at):
            return y
        short = np.setdiff1d(np.flatnonzero(at < s - 1e-9 * np.abs(at).max()), columns)
        if len(short) == 0:
            y = mended(problem, y, at)
            if proves(problem, y):
                return y
            break
        columns = np.append(columns, short[np.argsort(at[short])[: len(columns)]])
    return mu if proves(problem, mu) else None


def mended(problem: LinearRows, y: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Weights whose ``A'y`` is zero, not nearly zero, where the linear program left a residual; 0 where signs would change."""
    on = np.flatnonzero(y)
    unit, size = problem.unit[on], np.abs(y[on]) @ abs(problem.A[on])
    tight = np.flatnonzero(np.abs(v) <= 1e-6 * size.max())[:5000]
    part = problem.part(on, tight).toarray() / unit[:, None]
    y = y.copy()
    y[on] -= np.linalg.lstsq(part.T, v[tight], rcond=None)[0] / unit
    return y if (problem.sense * y >= 0).all() else np.zeros_like(y)
