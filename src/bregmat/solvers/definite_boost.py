"""DefiniteBoost: projections onto the most violated row at a fixed trace (Tsuda 2004, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from bregmat._kernels import boost
from bregmat._kernels.arrays import Boosted, OuterRows
from bregmat.checks import as_choice, check_flag, check_integer, rows_text
from bregmat.iterates import Iterate
from bregmat.nearness import Nearness
from bregmat.problems import NearestMatrix
from bregmat.solvers.needs import Settings, SolverWithNeeds, check_needs, positive
from bregmat.solvers.row_projections import ProjectionState, VonNeumannProjected, first_dual, row_bounds
from bregmat.threads import cached_property

SERIES = ("row", "step", "log_dual_objective", "log_bound", "evaluations")


@dataclass(eq=False, kw_only=True)
class BoostState(ProjectionState):
    """After a number of steps; lam of the matrix is without the level, so that its largest entry is 0."""

    level: np.ndarray  # what was taken off lam, log dual objective, log of the bound of Theorem 4.1
    cone: Boosted
    worst: float = np.nan  # largest relative violation met last
    series: list[np.ndarray] = field(default_factory=list)

    @cached_property
    def iterate(self) -> Iterate:
        """The matrix, with its trace."""
        it = self.matrix
        t = it.lam - np.log(np.exp(it.lam).sum() / self.cone.total)
        return VonNeumannProjected(it.divergence, it.t0, t, it.Vt).iterate()

    def violation(self, problem: Nearness) -> float:
        """The largest one that the last step met."""
        return self.worst

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """One entry a step."""
        series = np.concatenate([*self.series, np.zeros((0, len(SERIES)))])
        return {name: series[:, k].astype(int if k in (0, 4) else float) for k, name in enumerate(SERIES)}


@dataclass(frozen=True, kw_only=True)
class DefiniteBoost(SolverWithNeeds):
    """Tsuda's algorithm: choose the row that is violated most, project, keep the trace.

    For the von Neumann divergence with a trace constraint and hard rows. Prefer it where few of very many rows will matter, or to
    reproduce the paper; with ``projection="approximate", corrected=False`` it is the algorithm as published, which ends at *a*
    matrix that meets all rows, in general not at the nearest one (Kulis 2009, Appendix B): its result is FEASIBLE, and the gap
    says how far away it is.

    Parameters
    ----------
    projection : {"exact", "approximate"}
        Exact: eq. 10-12, the zero of a monotone function. Approximate: the step that minimises the bound of Theorem 4.1, in
        closed form.
    corrected : bool
        Whether multipliers may shrink again, down to 0 (Kulis 2009, eq. 8); then the limit is the projection.
    order : {"greedy", "cyclic"}
        The most violated row (with corrections: the one that promises the largest gain), or one after the other.
    spectrum : (float, float), optional
        Interval that holds the eigenvalues of all ``C_j = +-(A_j - b_j / tau I)``; by default each one's own. (-1, 1) makes the
        approximate step AdaBoost's.
    violation_tol : float
        Relative violation at which a run without corrections ends; dimensionless.
    root_tol : float
        Relative accuracy of an exact projection; dimensionless.
    block : int, optional
        Steps between two records of the history; by default as many as there are rows (a cycle). Cyclic order: always a cycle.

    Attributes
    ----------
    Result.trace
        Per step: ``row``, ``step`` (change of its multiplier), ``log_dual_objective`` (logarithm of tr exp(log W1 - sum gamma_j
        C_j), W1 the prior at trace one), ``log_bound`` (that of the product of rho(r_t), Theorem 4.1; steps that a correction cut
        short enter with the same bound at their length), ``evaluations`` (of the zero finder).

    Notes
    -----
    Tsuda 2004, section 4; the exponent is kept as in 3.2. Differs from the page: eq. 13 is misprinted (right only for
    ``lambda_max = -lambda_min``); here ``alpha = log((1 - r / lambda_min) / (1 - r / lambda_max)) / (lambda_max - lambda_min)``.
    Any trace tau, ``>=`` rows (C_j with the other sign) and equalities are taken. A step costs the values of all rows (m r^2 for m
    terms) and one rank-one eigen-update; rows of higher rank need an eigendecomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, DefiniteBoost, nearest_kernel
    >>> rows = Constraints.sq_distance([0, 1], [1, 2], [0.3, 0.9], ["<=", ">="]) + Constraints.trace(1.0)
    >>> result = nearest_kernel(np.eye(3) / 3, rows, divergence="vonneumann", solver=DefiniteBoost())
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

    def _settings(self) -> Settings:
        return {check_flag: ("corrected",), positive: ("violation_tol", "root_tol")}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, allowed in (("projection", ("exact", "approximate")), ("order", ("greedy", "cyclic"))):
            as_choice(f"DefiniteBoost: {name}", getattr(self, name), allowed)
        if self.spectrum is not None:
            ends = np.asarray(self.spectrum)
            if ends.shape != (2,) or ends.dtype.kind not in "iuf" or not -np.inf < ends[0] < 0 < ends[1] < np.inf:
                raise ValueError(f"DefiniteBoost: spectrum must be two numbers around 0; got {self.spectrum!r}.")
            object.__setattr__(self, "spectrum", (float(ends[0]), float(ends[1])))
        check_integer("DefiniteBoost: block", self.block, 1)

    def check(self, problem: NearestMatrix) -> None:
        """Von Neumann, hard rows, one of them the trace."""
        trace = (
            "the trace of the matrix fixed by a hard equality such as Constraints.trace(1.0) "
            "(in nearest_metric a trace row is about the kernel of the data)"
        )
        check_needs(self, problem, further=[trace] if problem.trace_row is None else [], instead="cyclic_projection")

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
        V = rows.terms()
        cone = Boosted(V, usable, low, high, total, np.empty(V.shape), np.empty(problem.c))
        # at the prior the dual objective tr exp(log W1) is 1
        lam = matrix.lam
        log_dual = float(np.log(np.exp(lam - lam[-1]).sum()) + lam[-1] - np.log(problem.prior.sum()))
        log_dual += float(mu[usable] @ bounds.bound[usable]) / total
        level = np.array([lam[-1], log_dual, log_dual])
        matrix.lam = lam - lam[-1]
        bound = _set_trace_row(problem, matrix, level, mu, cone)
        return BoostState(matrix, mu, rows, bounds, problem.operator, bound, level=level, cone=cone)

    def _intervals(self, problem: NearestMatrix, rows: OuterRows, total: float) -> tuple[np.ndarray, np.ndarray]:
        """For each row, numbers below and above all eigenvalues of A_j."""
        low, high = np.zeros(problem.c), np.zeros(problem.c)
        counts = np.diff(rows.ptr)
        single = np.flatnonzero(counts == 1)
        V = rows.terms()
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
                f"{low[j] - b[j]:.6g} to {high[j] - b[j]:.6g} before the sign in {rows_text(bad)}."
            )
        return below, above

    def step(self, problem: NearestMatrix, state: BoostState) -> BoostState:
        """A block of projections."""
        matrix, level, mu = state.matrix.copy(), state.level.copy(), state.dual.copy()
        cone = state.cone
        greedy = self.order == "greedy"
        size = self.block if self.block is not None and greedy else max(1, int(cone.usable.sum()))
        series = np.zeros((size, len(SERIES)))
        moving = (matrix.lam, matrix.Vt, mu, level, series, matrix.work, matrix.square(state.rows))
        how = (self.projection == "exact", greedy, bool(self.corrected), self.violation_tol, self.root_tol)
        done, worst = boost.steps_inplace(*moving, state.rows, state.bounds, cone, *how)
        state.series.append(series[:done])
        bound = _set_trace_row(problem, matrix, level, mu, cone)
        new = replace(state, matrix=matrix, dual=mu, level=level, worst=worst, **state.progress(bound, self.corrected))
        new.finished = not self.corrected and worst <= self.violation_tol
        new.stalled = (done == 0 or new.idle >= 20) and not new.finished
        return new


def _rows_but(problem: NearestMatrix, at: int, kappa: float) -> OuterRows:
    """All rows as outer products but the trace, which is kappa I also where rounding hides it (Z'Z of a factor)."""
    others = np.delete(np.arange(problem.c), at)
    if not len(others):
        rows = problem.operator.outer()
        return rows._replace(ptr=np.zeros(2, np.int64), coef=np.zeros(0), shift=np.array([kappa]))
    rows = problem.operator.restrict(others).outer()
    return rows._replace(ptr=np.insert(rows.ptr, at, rows.ptr[at]), shift=np.insert(rows.shift, at, kappa))


def _set_trace_row(problem: NearestMatrix, matrix: Any, level: np.ndarray, mu: np.ndarray, cone: Boosted) -> float:
    """Write the multiplier of the trace, and 0 for rows that are idle, into mu; returns the dual bound."""
    assert problem.trace_row is not None
    at, kappa = problem.trace_row
    mu[~cone.usable] = 0.0
    # exp(H - kappa mu I) has the trace tau
    mu[at] = (np.log(np.exp(matrix.lam).sum() / cone.total) + level[0]) / kappa
    D = problem.divergence
    return problem.offset + D.constant(problem.t0) - cone.total - float(mu @ problem.losses.bound)
