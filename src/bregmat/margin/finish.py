"""The exact last stage: an active set in float64 on the samples near the margin, widened until no other sample violates its condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bregmat.base.linalg import add_diagonal
from bregmat.kernels.definite import IndefiniteKernelError, smallest_eigenvalue
from bregmat.margin.certificate import Machine
from bregmat.margin.problem import MarginProblem
from bregmat.margin.working_set import SupportSearch
from bregmat.quadratic.active_set import ActiveSetState, ExactActiveSet
from bregmat.quadratic.program import QuadraticProgram

VIOLATED = 1e-9  # violation from which a sample outside joins, in units of the margin


def finish(search: SupportSearch) -> None:
    """Compute the exact optimum from weights whose support is nearly right, and set it as the search's ``exact`` machine.

    Samples F near the margin are variables of a quadratic program. Samples B at their upper bound and far inside the margin keep
    their weight, so that they enter through a sum only and the program stays small.
    """
    problem, x = search.problem, search.x.copy()
    y = problem.signs
    # slope of the dual objective to float32 accuracy: |slope| is the distance from the margin
    slope = y - search.f - problem.ridge * x - search.shift
    part, band = np.zeros(problem.n, dtype=bool), search.band
    for _ in range(12):
        F, B = _split(problem, x, y * slope, part, band)
        machine, end = _solve(search, x, F, B)
        x, shift = machine.x, machine.intercept
        outside = problem.counts & ~part & (x == 0)
        machine.compute_exactly(np.flatnonzero(outside & (y * (machine.f + shift) - machine.error < 1.0)))
        rising = 1.0 - y * (machine.f + shift) - problem.ridge * np.abs(x)  # derivative of the dual objective in alpha
        violated = outside & (machine.error == 0) & (rising > VIOLATED)
        violated[B] = rising[B] < -VIOLATED
        slope = y * rising
        if not violated.any() or search.late():
            break
        part |= violated
        band *= 2.0
    search.x, search.shift, search.exact = x, shift, machine
    search.violation = max(end.violation, float(np.abs(rising[violated]).max(initial=0.0)))


def _split(
    problem: MarginProblem, x: np.ndarray, rising: np.ndarray, part: np.ndarray, band: float
) -> tuple[np.ndarray, np.ndarray]:
    """The samples F that take part, which are added to ``part``, and the samples B that stay at their upper bound."""
    y, alpha, upper, counts = problem.signs, np.abs(x), problem.upper, problem.counts
    low, high = alpha <= 0, alpha >= upper
    part |= counts & np.where(low, rising > -band, np.where(high, rising < band, True))
    if not part.any():
        # every sample is at a bound and far from the margin: the five nearest of each class tell whether that is optimal
        distance = np.where(counts, np.abs(rising), np.inf)
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(counts & (y == sign))
            part[rows[np.argsort(distance[rows])[:5]]] = True
    return np.flatnonzero(part), np.flatnonzero(high & ~part & counts)


def _solve(search: SupportSearch, x: np.ndarray, F: np.ndarray, B: np.ndarray) -> tuple[Machine, ActiveSetState]:
    """The optimal weights of the samples F with those of B fixed, as a machine with float64 values on both."""
    problem, y = search.problem, search.problem.signs
    A = problem.kernel.signed_block(F, y[F])
    add_diagonal(A, problem.ridge[F])
    # minimise 1/2 a'A a + (pull - 1)'a over 0 <= a <= upper with signs'a = -sum of x over B
    pull = y[F] * problem.kernel.sums(F, B, x[B]) if len(B) else np.zeros(len(F))
    equality = (y[F][None, :], -np.array([x[B].sum()])) if problem.intercept else None
    program = QuadraticProgram.of(A, pull - 1.0, problem.upper[F], equality)
    end = minimum_over(problem, F, program, np.abs(x)[F], search.late)
    search.steps += end.work
    x = x.copy()
    x[F] = y[F] * end.x
    machine = Machine.from_float32(problem, x, search.cache)
    machine.intercept = float(end.multiplier[0]) if problem.intercept else 0.0
    machine.f[F] = y[F] * (A @ end.x + pull - problem.ridge[F] * end.x)
    machine.error[F] = 0.0
    if len(B):
        machine.f[B] = problem.kernel.sums(B, F, x[F]) + problem.kernel.sums(B, B, x[B])
        machine.error[B] = 0.0
    return machine, end


def minimum_over(
    problem: MarginProblem, F: np.ndarray, program: QuadraticProgram, start: np.ndarray, stop: Callable[[], bool]
) -> ActiveSetState:
    """Minimise a program over the samples F by the active set; an indefinite matrix is reported as an indefinite kernel.

    Parameters
    ----------
    problem, F, program, start, stop
        ``stop`` is called between steps; True ends the run.
    """
    tol = 1e-11  # violation at which the active set stops, in units of the margin
    try:
        # the active set takes its tolerance relative to the linear term; tol is in units of the margin
        scale = max(float(np.abs(program.b).max()), 1.0)
        return ExactActiveSet(tol / scale).minimize(program, start, lambda *_: stop())
    except ValueError as error:
        lowest = smallest_eigenvalue(program.A, problem.kernel.rounding)
        raise IndefiniteKernelError(replace(lowest, rows=F[lowest.rows]), len(F)) from error
