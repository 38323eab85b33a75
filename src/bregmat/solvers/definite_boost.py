"""DefiniteBoost: projections onto the most violated row at a fixed trace (Tsuda 2004, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat._kernels import eigen_update, outer_rows, von_neumann
from bregmat._kernels.arrays import OuterRows, RowBounds
from bregmat.base.checks import as_choice, check_flag, check_integer, check_positive, rows_text
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import TINY
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Iterate
from bregmat.solvers.base import SolverWithNeeds
from bregmat.solvers.row_projections import ProjectionState, VonNeumannProjected, first_dual, row_bounds

SERIES = ("row", "step", "log_dual_objective", "log_bound", "evaluations")
OUTER, DENSE, _ = von_neumann.FORMS


class BoostRows(NamedTuple):
    """The rows ``A_j``, their bounds, and an interval that holds the eigenvalues of each; arrays have shape (c,) unless noted."""

    V: np.ndarray  # (m, r) the vectors of all terms
    sums: Any  # sparse (c, m): the coefficients of each row's terms
    usable: np.ndarray  # bool: not a multiple of the identity
    low: np.ndarray
    high: np.ndarray
    total: float  # the trace
    b: np.ndarray  # bounds at trace one
    sense: np.ndarray  # int8: 1 for <=, -1 for >=, 0 for ==
    share: np.ndarray  # factor that makes a violation relative; 0 if not usable
    curvature: np.ndarray  # largest second derivative of the dual objective along the row: (high - low)^2 / 4

    @classmethod
    def of(cls, rows: OuterRows, bounds: RowBounds, low: np.ndarray, high: np.ndarray, total: float) -> BoostRows:
        """From flat rows, their bounds, the ends of their intervals, and the trace.

        Parameters
        ----------
        rows, bounds, low, high, total
            The last three as in the attributes.
        """
        V, usable = rows.terms(), rows.shift == 0.0
        places = np.arange(len(rows.coef))
        sums = scipy.sparse.csr_array((rows.coef, places, rows.ptr), shape=(len(usable), len(V)))
        share = np.where(usable, total / bounds.unit, 0.0)
        curvature = np.where(usable, np.maximum(0.25 * (high - low) ** 2, TINY), 1.0)
        return cls(V, sums, usable, low, high, total, bounds.bound / total, bounds.sense, share, curvature)

    def values(self, lam: np.ndarray, Vt: np.ndarray) -> np.ndarray:
        """``tr(W A_j)`` of all usable rows for ``W = exp(H) / tr exp(H)``, shape (c,)."""
        e = np.exp(lam)
        Y = self.V @ Vt.T
        return np.asarray(self.sums @ (np.square(Y, out=Y) @ (e / e.sum())))

    def side(self, value: float, j: int) -> tuple[float, float, float, float]:
        """Sign s, violation r and spectrum (low, high) of ``C_j = s (A_j - b_j / total I)``; s of an equality is that of its violation."""
        b, sense, low, high = float(self.b[j]), self.sense[j], float(self.low[j]), float(self.high[j])
        gap = value - b
        if sense < 0 or (sense == 0 and gap < 0.0):
            return -1.0, -gap, b - high, b - low
        return 1.0, gap, low - b, high - b

    def choose(self, p: np.ndarray, dual: np.ndarray, corrected: bool) -> tuple[int, float]:
        """The row to project onto (-1 if none is violated) and the largest relative violation.

        As published, it is the most violated row. With corrections, it is the row with the largest gain in the quadratic model
        ``gap step - q step^2 / 2``, where q is the largest curvature.
        """
        gap = p - self.b
        r = np.where(self.sense == 0, np.abs(gap), self.sense * gap)
        worst = float((r * self.share).max(initial=0.0))
        score = np.where(self.usable, r, 0.0)
        if corrected:
            # maximiser of the model; a multiplier shrinks at most to 0 (Kulis 2009, eq. 8)
            step = gap / self.curvature
            step = np.where(self.sense * (step + dual) < 0.0, -dual, step)
            score = np.where(self.usable, step * (gap - 0.5 * self.curvature * step), 0.0)
        best = int(score.argmax())
        return best if score[best] > 0.0 else -1, worst


def approximate_step(r: float, low: float, high: float) -> float:
    """The minimiser of the bound of Theorem 4.1 for ``low <= r <= high``. Eq. 13 is misprinted: it holds only for ``high = -low``."""
    if r == 0.0:
        return 0.0
    if not low < 0.0:  # only singular matrices satisfy the row: a long step
        return 10.0 / max(high - low, TINY)
    if not high > 0.0 or r <= low:
        return -np.inf
    r = min(r, high * (1.0 - 1e-15))  # a finite step, which leaves nothing on the other eigenvalues
    # alpha = log((1 - r / low) / (1 - r / high)) / (high - low)
    return float((np.log1p(-r / low) - np.log1p(-r / high)) / (high - low))


def log_step_bound(r: float, low: float, high: float, alpha: float) -> float:
    """Logarithm of ``((high - r) e^(-alpha low) + (r - low) e^(-alpha high)) / (high - low)``, which bounds ``tr(W e^(-alpha C))``.

    At the approximate step it is ``log rho(r)`` of Theorem 4.1.

    Parameters
    ----------
    r : float
        Violation ``tr(W C)``.
    low, high : float
        Numbers below and above all eigenvalues of C.
    alpha : float
        Length of the step.
    """
    if not high > low:
        return -alpha * r
    a, b = -alpha * low, -alpha * high
    top = max(a, b)
    return float(top + np.log(((high - r) * np.exp(a - top) + (r - low) * np.exp(b - top)) / (high - low)))


@dataclass(eq=False, kw_only=True)
class BoostState(ProjectionState):
    """The state after a number of steps; lam of the matrix is shifted so that its largest entry is 0."""

    level: np.ndarray  # shift of lam, log of the dual objective, log of the bound of Theorem 4.1
    boost_rows: BoostRows
    worst: float = np.nan  # largest relative violation met last
    series: list[np.ndarray] = field(default_factory=list)

    @cached_property
    def iterate(self) -> Iterate:
        """The matrix, scaled to its trace."""
        it = self.matrix
        t = it.lam - np.log(np.exp(it.lam).sum() / self.boost_rows.total)
        return VonNeumannProjected(it.divergence, it.t0, t, it.Vt).iterate()

    def violation(self, problem: NearestMatrix) -> float:
        """The largest relative violation that the last step met."""
        return self.worst

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """One entry per step."""
        series = np.concatenate([*self.series, np.zeros((0, len(SERIES)))])
        return {name: series[:, k].astype(int if k in (0, 4) else float) for k, name in enumerate(SERIES)}


@dataclass(frozen=True, kw_only=True)
class DefiniteBoost(SolverWithNeeds):
    """Tsuda's algorithm: choose the most violated constraint, project onto it at a fixed trace, repeat.

    For the von Neumann divergence with a trace constraint and hard constraints. Prefer it if few of very many will be active, or to
    reproduce the paper. With ``projection="approximate", corrected=False`` it is the algorithm as published. That ends at *a*
    matrix that meets all constraints, in general not at the nearest one (Kulis 2009, Appendix B): its result is FEASIBLE, and the gap
    says how far from the optimum it is.

    Parameters
    ----------
    projection : {"exact", "approximate"}
        Exact: eq. 10-12, the zero of a monotone function. Approximate: the step that minimises the bound of Theorem 4.1, in
        closed form.
    corrected : bool
        Whether multipliers may shrink again, down to 0 (Kulis 2009, eq. 8); then the limit is the projection.
    order : {"greedy", "cyclic"}
        The most violated constraint (with corrections: the one with the largest predicted gain), or one after the other.
    spectrum : (float, float), optional
        Interval that holds the eigenvalues of all ``C_j = +-(A_j - b_j / tau I)``; by default that of each constraint. With (-1, 1) the
        approximate step is that of AdaBoost.
    violation_tol : float
        Relative violation at which a run without corrections ends; dimensionless.
    root_tol : float
        Relative accuracy of an exact projection; dimensionless.
    block : int, optional
        Steps between two records of the history; by default the number of constraints (a cycle). Cyclic order: always a cycle.

    Attributes
    ----------
    Result.trace
        Per step: ``row`` (the number of the constraint), ``step`` (change of its multiplier), ``log_dual_objective`` (logarithm of
        tr exp(log W1 - sum gamma_j C_j), W1 the prior at trace one), ``log_bound`` (logarithm of the product of rho(r_t), Theorem 4.1; a
        step that a correction shortened enters with the bound at its length), ``evaluations`` (of the zero finder).

    Notes
    -----
    Tsuda 2004, section 4; the exponent is stored as in section 3.2. Eq. 13 is misprinted (right only for
    ``lambda_max = -lambda_min``); here ``alpha = log((1 - r / lambda_min) / (1 - r / lambda_max)) / (lambda_max - lambda_min)``.
    In addition to the paper, any trace tau, ``>=`` constraints (C_j with the other sign) and equalities are taken. A step costs the values
    of all constraints (m r^2 for m terms) and one rank-one eigen-update; constraints of higher rank need an eigendecomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, DefiniteBoost, nearest_kernel
    >>> constraints = Constraints.sq_distance([0, 1], [1, 2], [0.3, 0.9], ["<=", ">="]) + Constraints.trace(1.0)
    >>> result = nearest_kernel(np.eye(3) / 3, constraints, divergence="vonneumann", solver=DefiniteBoost())
    >>> print(result.status)
    OPTIMAL
    """

    name = "definite_boost"
    works_on = "dual_bound"
    max_iter = 10_000
    needs_divergence = ("keeps_trace",)
    needs_loss = ("is_hard",)
    projection: Literal["exact", "approximate"] = "exact"
    corrected: bool = True
    order: Literal["greedy", "cyclic"] = "greedy"
    spectrum: tuple[float, float] | None = None
    violation_tol: float = 1e-6
    root_tol: float = 1e-10
    block: int | None = None

    def __post_init__(self) -> None:
        check_flag("DefiniteBoost: corrected", self.corrected)
        for name in ("violation_tol", "root_tol"):
            check_positive(f"DefiniteBoost: {name}", getattr(self, name), finite=True)
        for name, allowed in (("projection", ("exact", "approximate")), ("order", ("greedy", "cyclic"))):
            as_choice(f"DefiniteBoost: {name}", getattr(self, name), allowed)
        if self.spectrum is not None:
            ends = np.asarray(self.spectrum)
            if ends.shape != (2,) or ends.dtype.kind not in "iuf" or not -np.inf < ends[0] < 0 < ends[1] < np.inf:
                raise ValueError(f"DefiniteBoost: spectrum must be two numbers around 0; got {self.spectrum!r}.")
            object.__setattr__(self, "spectrum", (float(ends[0]), float(ends[1])))
        check_integer("DefiniteBoost: block", self.block, 1)

    def check(self, problem: NearestMatrix) -> None:  # type: ignore[override]  # callers give the problem alone
        """Raise ``TypeError`` unless the divergence is von Neumann's, all constraints are hard and one of them is the trace."""
        trace = (
            "the trace of the matrix fixed by a hard equality such as Constraints.trace(1.0) "
            "(in nearest_metric a trace constraint is about the kernel of the data)"
        )
        super().check(problem, further=[trace] if problem.trace_row is None else [], instead="cyclic_projection")

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> BoostState:
        """The prior scaled to the trace, or the matrix of the given dual weights."""
        assert problem.trace_row is not None
        at, kappa = problem.trace_row
        rows, bounds = _rows_but(problem, at, kappa), row_bounds(problem)
        total = float(bounds.bound[at] / kappa)
        mu = first_dual(problem, start)
        usable = rows.shift == 0.0
        matrix = VonNeumannProjected.at(problem, np.where(usable, mu, 0.0))
        low, high = self._intervals(problem, rows, total)
        boost_rows = BoostRows.of(rows, bounds, low, high, total)
        # at the prior the dual objective tr exp(log W1) is 1
        lam = matrix.lam
        log_dual = float(np.log(np.exp(lam - lam[-1]).sum()) + lam[-1] - np.log(problem.prior.sum()))
        log_dual += float(mu[usable] @ bounds.bound[usable]) / total
        level = np.array([lam[-1], log_dual, log_dual])
        matrix.lam = lam - lam[-1]
        state = BoostState(matrix, mu, rows, bounds, problem.operator, 0.0, level=level, boost_rows=boost_rows)
        state.objective = _set_trace_row(problem, state)
        return state

    def _intervals(self, problem: NearestMatrix, rows: OuterRows, total: float) -> tuple[np.ndarray, np.ndarray]:
        """For each row, numbers below and above all eigenvalues of A_j: the given interval, or the smallest one."""
        low, high = np.zeros(problem.c), np.zeros(problem.c)
        counts = np.diff(rows.ptr)
        single = np.flatnonzero(counts == 1)
        V = rows.terms()
        # coef v v' has the eigenvalue coef |v|^2, and 0
        size = rows.coef * np.einsum("ij,ij->i", V, V)
        ends = size[rows.ptr[single]]
        low[single], high[single] = np.minimum(ends, 0.0), np.maximum(ends, 0.0)
        if problem.r == 1:
            low[single] = high[single] = ends
        for j in np.flatnonzero(counts > 1):
            t = slice(rows.ptr[j], rows.ptr[j + 1])
            values = np.linalg.eigvalsh((V[t].T * rows.coef[t]) @ V[t])
            low[j], high[j] = values[0], values[-1]
        if self.spectrum is None:
            return low, high
        (bottom, top), b, other = self.spectrum, problem.losses.bound / total, problem.losses.sense < 0
        below, above = b + np.where(other, -top, bottom), b + np.where(other, -bottom, top)
        slip = 1e-9 * (top - bottom)
        bad = np.flatnonzero(((low < below - slip) | (high > above + slip)) & (rows.shift == 0.0))
        if len(bad):
            j = bad[0]
            raise ValueError(
                f"DefiniteBoost: spectrum must hold the eigenvalues of every +-(A_j - b_j / tau I); got {self.spectrum}, but they run from "
                f"{low[j] - b[j]:.6g} to {high[j] - b[j]:.6g} before the sign in {rows_text(bad, 'constraint')}."
            )
        return below, above

    def step(self, problem: NearestMatrix, state: BoostState) -> BoostState:
        """A block of projections."""
        # copies, since projections change them in place
        new = replace(state, matrix=state.matrix.copy(), dual=state.dual.copy(), level=state.level.copy())
        cycle = max(1, int(state.boost_rows.usable.sum()))
        size = cycle if self.block is None or self.order == "cyclic" else self.block
        series, new.worst = self.project(new, size)
        new.series.append(series)
        new = replace(new, **state.progress(_set_trace_row(problem, new), self.corrected))
        new.finished = not self.corrected and new.worst <= self.violation_tol
        new.stalled = (not len(series) or new.idle >= 20) and not new.finished
        return new

    def project(self, state: BoostState, size: int) -> tuple[np.ndarray, float]:
        """Up to so many projections, which change the state; the entries of the trace, (steps, 5), and the largest violation met last."""
        matrix, rows, dual, level = state.matrix, state.boost_rows, state.dual, state.level
        lam, Vt = matrix.lam, matrix.Vt
        X = matrix.square(state.rows)  # memory for a row
        is_greedy = self.order == "greedy"
        # log dual = log tr exp(H) + rest with rest = sum mu_j b_j / total + constant
        rest, worst = level[1] - np.log(np.exp(lam).sum()) - level[0], 0.0
        series: list[tuple[float, ...]] = []
        for i in repeat(-1, size) if is_greedy else np.flatnonzero(rows.usable).tolist():
            value = np.nan
            if is_greedy:
                p = rows.values(lam, Vt)
                i, worst = rows.choose(p, dual, self.corrected)
                if i < 0 or (not self.corrected and worst <= self.violation_tol):
                    break
                value = p[i]
            form, raw = von_neumann.row_in_basis_inplace(matrix.work, X, Vt, lam, state.rows, i)
            s, r, low, high = rows.side(float(value if is_greedy else raw / np.exp(lam).sum()), i)
            if not is_greedy:
                worst = max(worst, r * float(rows.share[i]))
                # a copy of a row that was just projected onto is violated by rounding; its multiplier may have to be corrected
                holds = r <= 1e-15 * (2.0 * abs(float(rows.b[i])) + abs(r)) and rows.sense[i] != 0
                if holds and (dual[i] == 0.0 or not self.corrected):
                    continue
            # step alpha of the bound of Theorem 4.1, in the sense of the row; a correction may shorten it
            model = s * approximate_step(r, low, high)
            if self.corrected:
                model = outer_rows.corrected_step(model, float(dual[i]), int(rows.sense[i]))
            delta, evaluations = self._move(state, X, form, i, model)
            if delta == 0.0 and is_greedy:  # nothing left to gain beyond the accuracy of a projection
                break
            if delta == 0.0:
                continue
            dual[i] = 0.0 if delta == -dual[i] else dual[i] + delta
            rest += delta * float(rows.b[i])
            level[0] += lam[-1]
            lam -= lam[-1]
            level[1] = np.log(np.exp(lam).sum()) + level[0] + rest
            level[2] += log_step_bound(r, low, high, s * model)
            series.append((i, delta, level[1], level[2], evaluations))
        return np.array(series).reshape(-1, len(SERIES)), worst

    def _move(self, state: BoostState, X: np.ndarray, form: int, i: int, model: float) -> tuple[float, int]:
        """Project onto row i, which is in the eigenbasis; the change of its multiplier, and evaluations of the zero finder."""
        lam, Vt, work, B = state.matrix.lam, state.matrix.Vt, state.matrix.work, state.bounds
        if self.projection == "exact":
            row = (outer_rows.HARD, B.sense[i], B.bound[i], B.gamma[i], B.scale[i], state.dual[i], B.unit[i])
            how = (0.0, state.boost_rows.total, row, self.corrected, self.root_tol)
            return von_neumann.project_inplace(lam, Vt, work, X, form, *how)
        if form == OUTER:
            eigen_update.rank_one_update_inplace(lam, Vt, work.rows_of_projections[1], -model, work)
        elif form == DENSE:
            von_neumann.dense_along_inplace(work, lam, X, model)
            eigen_update.rotate_rows_inplace(lam, Vt, work, len(lam))
        return model, 0


def _rows_but(problem: NearestMatrix, at: int, kappa: float) -> OuterRows:
    """All rows as outer products, but the trace row as kappa I exactly, since Z'Z of a factor has rounding errors."""
    others = np.delete(np.arange(problem.c), at)
    if not len(others):
        rows = problem.operator.outer()
        return rows._replace(ptr=np.zeros(2, np.int64), coef=np.zeros(0), shift=np.array([kappa]))
    rows = problem.operator.restrict(others).outer()
    return rows._replace(ptr=np.insert(rows.ptr, at, rows.ptr[at]), shift=np.insert(rows.shift, at, kappa))


def _set_trace_row(problem: NearestMatrix, state: BoostState) -> float:
    """Set the multiplier of the trace, and those of other multiples of the identity to 0; returns the dual bound."""
    assert problem.trace_row is not None
    (at, kappa), mu, total = problem.trace_row, state.dual, state.boost_rows.total
    mu[~state.boost_rows.usable] = 0.0
    # exp(H - kappa mu I) has the trace tau
    mu[at] = (np.log(np.exp(state.matrix.lam).sum() / total) + state.level[0]) / kappa
    D = problem.divergence
    return problem.offset + D.constant(problem.t0) - total - float(mu @ problem.losses.bound)
