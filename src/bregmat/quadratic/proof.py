"""The figures of a result: reduced gradient, objective, proven bound, gap and residual of the conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bregmat._kernels.free_factor import Quadratic
from bregmat.quadratic.active_set import active_set
from bregmat.quadratic.bound import lower_bound, perturbed_bound
from bregmat.quadratic.free_set import Factor
from bregmat.quadratic.pivoting import PivotingEnd
from bregmat.quadratic.problem import NonnegativeQP

Candidate = tuple[np.ndarray, "np.ndarray | None"]


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
    """Largest violation of the optimality conditions by the reduced gradient h, relative to max|b|."""
    low, high = x <= 0.0, x >= problem.bounds
    v = np.where(low & high, 0.0, np.where(low, -h, np.where(high, h, np.abs(h))))
    scale = float(np.abs(problem.b).max()) or float(np.abs(problem.A @ x).max()) or 1.0
    return max(float(v.max()), 0.0) / scale


def unit_of_gradient(problem: NonnegativeQP) -> float:
    """Size of the gradient's terms: max|b|, or 1 where b = 0."""
    return float(np.abs(problem.b).max()) or 1.0


def unit_of_objective(problem: NonnegativeQP) -> float:
    """``max|b|^2 / max A_ii``: what an objective of this problem may be called small beside."""
    largest = float(problem.A.diagonal().max())
    return float(np.abs(problem.b).max()) ** 2 / largest if largest > 0 else 0.0


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
    curved = 0.5 * float(x @ Ax)
    objective = curved + float(problem.b @ x)
    bound, perturbation = lower_bound(problem, x, multiplier, candidates, product=Ax, precise=precise), 0.0
    if bound == -np.inf and tolerant:
        bound, perturbation = perturbed_bound(problem, x, multiplier, Ax)
    bound = min(bound, objective)
    size = max(abs(objective), curved, 1e-2 * unit_of_objective(problem))
    gap = objective - bound
    gap = gap / size if size > 0 else (0.0 if gap <= 0 else np.inf)
    return Verdict(h, objective, bound, float(gap), residual_of(problem, x, h), perturbation)


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
    if (root > 0).all():
        yield 1.0 / root, None
    # the free set and whatever has (almost) no reduced gradient
    reduced = problem.gradient(x)
    wide = np.flatnonzero((x < problem.bounds) & ((x > 0.0) | (np.abs(reduced) <= 1e-8 * unit_of_gradient(problem))))
    if not len(wide) or not (root[wide] > 0).all():
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
