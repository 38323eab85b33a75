"""The figures of a result: reduced gradient, objective, proven bound, gap and residual of the conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bregmat._kernels.free_factor import Quadratic
from bregmat.quadratic.active_set import active_set
from bregmat.quadratic.bound import bound_at_zero, curvature, lower_bound, perturbed_bound
from bregmat.quadratic.free_set import Factor
from bregmat.quadratic.pivoting import PivotingEnd
from bregmat.quadratic.problem import NonnegativeQP, conditions, weights_of
from bregmat.quadratic.scale import gradient_unit

Candidate = tuple[np.ndarray, "np.ndarray | None"]
CANCELLED = 1e-6  # of the terms of the objective: where it is smaller than this, the gap is relative to this
ALONE = 1e-4  # of what single variables could gain: where x = 0, the gap is relative to this
PROVEN = 1e-9  # residual of the conditions up to which a bound for a perturbed b counts


@dataclass(frozen=True, eq=False)
class Verdict:
    """Reduced gradient, objective, proven bound, relative gap, relative residual, and perturbation of b in the proof."""

    dual: np.ndarray
    objective: float
    bound: float
    gap: float
    residual: float
    perturbation: float = 0.0


def residual_of(problem: NonnegativeQP, x: np.ndarray, h: np.ndarray) -> float:
    """Largest violation of the optimality conditions by the reduced gradient h, as ``QPResult.kkt_residual``."""
    weight = weights_of(problem.A)
    unit = gradient_unit(problem.b, h, diagonal=problem.A.diagonal(), upper=problem.bounds, weight=weight)
    v = conditions(x, h, problem.bounds) * weight
    return float((v / np.maximum(np.abs(problem.b) * weight, unit)).max())


def judge(
    problem: NonnegativeQP,
    x: np.ndarray,
    multiplier: np.ndarray,
    candidates: Iterable[Candidate] = (),
    *,
    product: np.ndarray | None = None,
    tolerant: bool = False,
    precise: bool = False,
) -> Verdict:
    """Everything that is known about a point in the box and multipliers of the equality."""
    Ax = problem.A @ x if product is None else product
    E = problem.rows[0]
    h = Ax + problem.b + (multiplier @ E if len(E) else 0.0)
    xAx, lost = curvature(problem, x, Ax, precise=precise)
    curved = 0.5 * xAx
    long = np.longdouble if precise else np.float64
    objective = curved + float(problem.b.astype(long) @ x.astype(long))
    residual = residual_of(problem, x, h)
    bound, perturbation = lower_bound(problem, x, multiplier, candidates, product=Ax, precise=precise), 0.0
    if bound == -np.inf and tolerant and residual <= PROVEN:
        unit = gradient_unit(problem.b, h, diagonal=problem.A.diagonal(), upper=problem.bounds)
        bound, perturbation = perturbed_bound(problem, x, multiplier, Ax, unit)
        perturbation = perturbation if bound > -np.inf else 0.0
    if (simple := bound_at_zero(problem)) > bound:
        bound, perturbation = simple, 0.0
    bound = min(bound, objective)
    terms = float(np.abs(problem.b) @ x) + (float(np.abs(multiplier) @ (np.abs(E) @ x)) if len(E) else 0.0)
    size = max(abs(objective), curved, CANCELLED * terms)
    if size == 0.0:  # x = 0: beside what single variables could gain
        weight = weights_of(problem.A)
        unit = gradient_unit(problem.b, h, diagonal=problem.A.diagonal(), upper=problem.bounds, weight=weight)
        size = ALONE * unit * unit
    gap = relative_gap(objective, bound, size)
    if bound == 0.0 and float(problem.b.min()) >= 0.0 and objective <= lost:
        gap = 0.0  # F >= 0 everywhere, and nothing but rounding is left of it here
    return Verdict(h, objective, bound, gap, residual, perturbation)


def relative_gap(objective: float, bound: float, size: float) -> float:
    """``(objective - bound) / size``; 0 where both vanish, inf where nothing is known."""
    gap = objective - bound
    gap = gap / size if size > 0 else (0.0 if gap <= 0 else np.inf)
    return float(gap) if np.isfinite(gap) else np.inf


def shifts(problem: NonnegativeQP, run: PivotingEnd | None, x: np.ndarray) -> Iterator[Candidate]:
    """Directions that raise a reduced gradient which is too low by rounding: ``A_FF^-1`` of ``sqrt(A_ii)``, then others."""
    n = problem.n
    root = np.sqrt(np.maximum(problem.A.diagonal(), 0.0))
    if run is not None and run.factor is not None and len(run.free):
        solved = run.factor.solve(root[run.free])
        if solved is not None:
            w = np.zeros(n)
            w[run.free] = solved
            yield w, None
    yield x, None
    yield 1.0 / np.where(root > 0.0, root, np.inf), None
    # the free set and whatever has (almost) no reduced gradient
    reduced = problem.gradient(x)
    unit = gradient_unit(problem.b, reduced, diagonal=problem.A.diagonal(), upper=problem.bounds)
    wide = np.flatnonzero((root > 0.0) & (x < problem.bounds) & ((x > 0.0) | (np.abs(reduced) <= 1e-8 * unit)))
    if not len(wide):
        return
    factor = Factor(Quadratic(problem.A, problem.bounds, np.zeros((0, n)), problem.weights, 0.0), n)
    factor.rebuild(wide)
    w = np.zeros(n)
    w[factor.free] = factor.solve(root[factor.free], np.zeros(0))[0]
    yield w, None
    # the minimum of 1/2 w'Aw - sum sqrt(A_ii) w_i over w >= 0 has A w >= sqrt(A_ii); there is none where no w at all will do
    part = np.ascontiguousarray(problem.A[np.ix_(wide, wide)])
    begin = 1.0 / (root[wide] * len(wide))
    end = active_set(part, -root[wide], begin, upper=np.full(len(wide), np.inf), tol=0.1)
    w = np.zeros(n)
    w[wide] = end.x
    yield w, None
