"""DefiniteBoost: projections onto the most violated row at a fixed trace (Tsuda 2004, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from bregmat._kernels.boost import Boosted, all_terms, boost_inplace
from bregmat._kernels.rows import OuterRows, RowBounds
from bregmat.certificates import Certificate, clip_dual, dual_bound
from bregmat.charts import Chart
from bregmat.operators import Operator
from bregmat.problems import NearestMatrix
from bregmat.solve import State
from bregmat.solvers.iterates import VonNeumannIterate, row_bounds

SERIES = ("row", "step", "log_dual_objective", "log_bound", "evaluations")


@dataclass(eq=False)
class BoostState(State):
    """A matrix with its multipliers after a number of steps; the multiplier of the trace follows from the others."""

    iterate: VonNeumannIterate  # lam without the level, whose largest entry is 0
    level: np.ndarray  # what was taken off lam, log dual objective, log of the bound of Theorem 4.1
    dual: np.ndarray
    rows: OuterRows
    bounds: RowBounds
    cone: Boosted
    operator: Operator
    objective: float
    signal: float = np.inf
    stalled: bool = False
    finished: bool = False
    idle: int = 0  # blocks in a row that raised the bound by no more than rounding
    series: list[np.ndarray] = field(default_factory=list)

    @cached_property
    def chart(self) -> Chart:
        """The matrix, with its trace."""
        it = self.iterate
        t = it.lam - np.log(np.exp(it.lam).sum() / self.cone.total)
        return VonNeumannIterate(it.divergence, it.t0, t, it.Vt).chart()

    def is_finite(self) -> bool:
        """Whether no number has overflowed; the values are left for the certificate."""
        return bool(np.isfinite(self.objective) and np.isfinite(self.dual).all())

    @cached_property
    def values(self) -> np.ndarray:
        """Values of all rows at the matrix; only certificates ask for them."""
        return self.operator.congruence(self.chart.F).values_diagonal(self.chart.x)

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """One entry a step."""
        series = np.concatenate([*self.series, np.zeros((0, len(SERIES)))])
        return {name: series[:, k].astype(int if k in (0, 4) else float) for k, name in enumerate(SERIES)}


@dataclass(frozen=True, kw_only=True)
class DefiniteBoost:
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
    """

    name: ClassVar[str] = "definite_boost"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 10_000
    projection: Literal["exact", "approximate"] = "exact"
    corrected: bool = True
    order: Literal["greedy", "cyclic"] = "greedy"
    spectrum: tuple[float, float] | None = None
    violation_tol: float = 1e-6
    root_tol: float = 1e-10
    block: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("projection", ("exact", "approximate")), ("order", ("greedy", "cyclic"))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"DefiniteBoost: {name} must be {' or '.join(map(repr, allowed))}; got {getattr(self, name)!r}."
                )
        for name in ("violation_tol", "root_tol"):
            if not getattr(self, name) > 0:
                raise ValueError(f"DefiniteBoost: {name} must be positive; got {getattr(self, name)}.")
        if self.spectrum is not None and not self.spectrum[0] < 0 < self.spectrum[1]:
            raise ValueError(f"DefiniteBoost: spectrum must be an interval around 0; got {self.spectrum}.")
        if self.block is not None and self.block < 1:
            raise ValueError(f"DefiniteBoost: block must be None or at least 1; got {self.block}.")

    def check(self, problem: NearestMatrix) -> None:
        """Von Neumann, hard rows, one of them the trace."""
        if problem.divergence.name != "vonneumann":
            raise TypeError(
                f"definite_boost is a method for the divergence 'vonneumann'; got {problem.divergence.name!r}. "
                'Use solver="cyclic_projection" or "auto".'
            )
        soft = int((~problem.losses.hard).sum())
        if soft:
            raise TypeError(
                f"definite_boost needs hard rows; {soft} rows have a finite slack_weight. "
                'Use solver="cyclic_projection" or "auto".'
            )
        if _trace_row(problem, problem.operator.outer()) is None:
            raise TypeError(
                "definite_boost needs the trace of the matrix fixed by a hard equality, such as Constraints.trace(1.0); there is none "
                '(in nearest_metric, a trace row is about the kernel of the data). Use solver="cyclic_projection" or "auto".'
            )

    def init(self, problem: NearestMatrix, tol: float, start: Certificate | None) -> BoostState:
        """The prior scaled to the trace, or the matrix of the given dual weights."""
        rows, bounds = problem.operator.outer(), row_bounds(problem)
        at = _trace_row(problem, rows)
        assert at is not None
        total = bounds.bound[at] / rows.shift[at]
        mu = np.zeros(problem.c)
        if start is not None:
            value, warm = dual_bound(problem, clip_dual(problem, start.dual))
            if np.isfinite(value):
                mu = warm.copy()
        usable = rows.shift == 0.0
        iterate = VonNeumannIterate.at(problem, np.where(usable, mu, 0.0))
        low, high = self._intervals(problem, rows, total)
        cone = Boosted(all_terms(rows), usable, low, high, float(total))
        # at the prior the dual objective tr exp(log W1) is 1
        lam = iterate.lam
        log_dual = float(np.log(np.exp(lam - lam[-1]).sum()) + lam[-1] - np.log(problem.prior.sum()))
        log_dual += float(mu[usable] @ bounds.bound[usable]) / total
        level = np.array([lam[-1], log_dual, log_dual])
        iterate.lam = lam - lam[-1]
        return _placed(problem, iterate, level, mu, rows, bounds, cone, at)

    def _intervals(self, problem: NearestMatrix, rows: OuterRows, total: float) -> tuple[np.ndarray, np.ndarray]:
        """For each row, numbers below and above all eigenvalues of A_j."""
        if self.spectrum is not None:
            bottom, top = self.spectrum
            b, other = problem.losses.bound / total, problem.losses.sense < 0
            return b + np.where(other, -top, bottom), b + np.where(other, -bottom, top)
        low, high = np.zeros(problem.c), np.zeros(problem.c)
        counts = np.diff(rows.ptr)
        single = np.flatnonzero(counts == 1)
        V = all_terms(rows)
        size = rows.coef * np.einsum("ij,ij->i", V, V)
        ends = size[rows.ptr[single]]
        low[single], high[single] = np.minimum(ends, 0.0), np.maximum(ends, 0.0)
        if problem.r == 1:
            low[single] = high[single] = ends
        for j in np.flatnonzero(counts > 1):
            t = slice(rows.ptr[j], rows.ptr[j + 1])
            values = np.linalg.eigvalsh((V[t].T * rows.coef[t]) @ V[t])
            low[j], high[j] = values[0], values[-1]
        return low, high

    def step(self, problem: NearestMatrix, state: BoostState) -> BoostState:
        """A block of projections."""
        iterate, level, mu = state.iterate.copy(), state.level.copy(), state.dual.copy()
        cone = state.cone
        greedy = self.order == "greedy"
        size = self.block if self.block is not None and greedy else max(1, int(cone.usable.sum()))
        series = np.zeros((size, len(SERIES)))
        done, worst = boost_inplace(
            iterate.lam,
            iterate.Vt,
            mu,
            level,
            series,
            iterate.work,
            state.rows,
            state.bounds,
            cone,
            self.projection == "exact",
            greedy,
            self.corrected,
            self.violation_tol,
            self.root_tol,
        )
        state.series.append(series[:done])
        at = _trace_row(problem, state.rows)
        assert at is not None
        new = _placed(problem, iterate, level, mu, state.rows, state.bounds, cone, at)
        new.series = state.series
        new.finished = not self.corrected and worst <= self.violation_tol
        gained = new.objective - state.objective > 1e-15 * max(1.0, abs(new.objective))
        new.idle = 0 if gained or not self.corrected else state.idle + 1
        new.stalled = (done == 0 or new.idle >= 5) and not new.finished
        if self.corrected:
            new.signal = abs(new.objective - state.objective)
        return new


def _trace_row(problem: NearestMatrix, rows: OuterRows) -> int | None:
    """The first hard equality that fixes the trace."""
    L = problem.losses
    found = np.flatnonzero((rows.shift > 0) & L.hard & (L.sense == 0) & (L.bound > 0))
    return int(found[0]) if len(found) else None


def _placed(
    problem: NearestMatrix,
    iterate: VonNeumannIterate,
    level: np.ndarray,
    mu: np.ndarray,
    rows: OuterRows,
    bounds: RowBounds,
    cone: Boosted,
    at: int,
) -> BoostState:
    """The state with the multiplier of the trace and the dual bound."""
    mu[~cone.usable] = 0.0
    # exp(H - kappa mu I) has the trace tau
    mu[at] = (np.log(np.exp(iterate.lam).sum() / cone.total) + level[0]) / rows.shift[at]
    D = problem.divergence
    bound = problem.offset + D.constant(problem.t0) - cone.total - float(mu @ bounds.bound)
    return BoostState(iterate, level, mu, rows, bounds, cone, problem.operator, bound)
