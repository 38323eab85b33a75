"""The balanced cut as a problem with proofs, and the solvers of its relaxation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.lowrank import LowRank
from bregmat.applications.cut.path import CentralPath
from bregmat.applications.cut.proof import bound_of, is_above
from bregmat.applications.cut.rounding import BestCut, certifying, fiedler, smallest
from bregmat.base.threads import seconds_left
from bregmat.engine.loop import State
from bregmat.engine.problem import Certificate, Problem

SMALL = 400  # vertices up to which the central path is about as fast as the factor form, and more reliable
EACH_TIME = 8  # random hyperplanes for each point that is rounded to cuts


@dataclass(frozen=True, eq=False, kw_only=True)
class CutCertificate(Certificate):
    """The best cut and the best bound so far; ``relaxation_bound`` is the bound before it is rounded up."""

    x: np.ndarray
    relaxation_bound: float

    def joined(self, new: CutCertificate) -> CutCertificate:
        """The later certificate, because the problem itself keeps the best cut and the best bound."""
        return new


@dataclass(eq=False)
class CutState(State):
    """The method of a relaxation, which is None before the first step; cuts and bounds are in the problem."""

    method: CentralPath | LowRank | None = None
    objective: float = np.nan
    signal: float = 0.0  # so that certify is called at every step, which decides whether a proof is computed
    stalled: bool = False
    finished: bool = False
    is_last: bool = False

    def is_finite(self) -> bool:
        """The methods themselves reject steps that overflow."""
        return True


class BalancedCut(Problem):
    """``minimize z'Lz / 4 + base`` over vectors z of +1 and -1 with ``a'z = 0``; it keeps the best cut and the best bound.

    Parameters
    ----------
    graph : Graph
    refine : bool
        Kernighan-Lin refinement of every rounded cut.
    n_roundings : int
        Number of random hyperplanes that are left.
    tol : float
        Relative gap at which a cut is called optimal.
    rng : Generator
    """

    def __init__(self, graph: Graph, *, refine: bool, n_roundings: int, tol: float, rng: np.random.Generator) -> None:
        self.graph, self.n_roundings, self.tol, self.rng = graph, n_roundings, tol, rng
        self.best = BestCut(graph, refine)
        # L + diag(y) is diagonally dominant, which proves what each free vertex costs on the better side; 0 if none is fixed
        self.bound, self.dual = bound_of(graph, graph.size_of_row - graph.degree, 0.0)
        self.bound = max(self.bound, 0.0)

    def certify(self, state: CutState) -> CutCertificate:
        """Compute the bound of the method's multipliers, and round its matrix to cuts."""
        method, is_last = state.method, state.is_last
        if method is None:
            self.prove_by_cut()
        elif method.is_new or method.proves_every_step or is_last:
            # a proof may lose a fifth of the tolerance, in units of the sum of y
            loss = 0.2 * 4.0 * self.tol * self.best.value / self.graph.scale
            self.prove(method.y, method.level(loss, method.stalled or is_last))
            state.finished = self.is_solved(method.value, method.coarse)
            if state.finished or is_last:
                self.round(method, self.n_roundings)
                self.prove_by_cut()
            elif method.is_new:
                self.round(method, EACH_TIME)
        value = self.best.value
        return CutCertificate(
            x=self.best.x,
            dual=self.dual,
            objective=value,
            upper=value,
            dual_bound=self.lower,
            relaxation_bound=self.bound,
            size=value if value > 0 else 1.0,  # the unit of the gap is the cut, because weights have no natural size
        )

    def conclude(self, state: CutState) -> None:
        """Let the next certificate compute the best bound, and use all hyperplanes that are left."""
        state.is_last = True

    def round(self, method: CentralPath | LowRank, times: int) -> None:
        """Cut by up to ``times`` random hyperplanes, until the bound is reached, none are left or the time is over."""
        for _ in range(min(times, self.n_roundings)):
            if self.is_proven or (np.isfinite(self.best.value) and seconds_left() < 0):
                return
            self.best.offer(self.graph.balance.oriented(method.sample()))
            self.n_roundings -= 1

    @property
    def lower(self) -> float:
        """The bound, rounded up if weights have a common unit; at most the best cut, which may be smaller by rounding."""
        return min(float(self.graph.round_up(self.bound)), self.best.value)

    @property
    def is_proven(self) -> bool:
        """Whether the best cut meets the bound."""
        return self.best.value - self.lower <= self.tol * self.best.value

    def prove(self, y: np.ndarray, level: float) -> None:
        """Keep the bound of the multipliers if it is the best one so far."""
        if level > -np.inf:
            bound, dual = bound_of(self.graph, y, level)
            if bound > self.bound:
                self.bound, self.dual = bound, dual

    def prove_by_cut(self) -> None:
        """Test multipliers of which the best cut is a null vector, with an allowance of half a step, or half the tolerance."""
        if self.is_proven:
            return
        spare = 0.5 * max(self.graph.step, self.tol * self.best.value) / self.graph.scale
        y, level = certifying(self.graph, self.best.x), -4.0 * spare / self.graph.size
        # a Ritz value below the level disproves the bound
        if self.graph.size <= SMALL or smallest(self.graph, y, self.rng, lambda ritz: ritz < level) >= level:
            self.prove(y, is_above(self.graph, y, level))

    def is_solved(self, value: float, coarse: float) -> bool:
        """Whether the relaxation cannot raise the bound by more than the tolerance, or to the next possible weight."""
        value = self.graph.total(value)
        if value == np.inf:
            return False
        if value - self.bound <= coarse * self.tol * self.best.value:
            return True
        return self.graph.step > 0 and self.graph.round_up(value) <= self.graph.round_up(self.bound)


@dataclass(frozen=True)
class RelaxationSolver:
    """A method for the semidefinite relaxation, after the cuts of a random vector and of the Fiedler vector.

    Parameters
    ----------
    name : str
    method : type
        :class:`CentralPath` or :class:`LowRank`, which starts at its first point.
    """

    name: str
    method: type[CentralPath | LowRank]
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = 200

    def check(self, problem: BalancedCut) -> None:
        """Accept every balanced cut."""

    def init(self, problem: BalancedCut, tol: float, start: Any) -> CutState:
        """The cuts of a random vector and of the Fiedler vector, unless an earlier run has found them; the method is constructed later."""
        if problem.best.value == np.inf:
            problem.best.offer(problem.rng.normal(size=problem.graph.size))
            vector = fiedler(problem.graph, problem.rng)
            for sign in (1.0, -1.0)[: 1 + problem.graph.balance.n_terminal]:
                problem.best.offer(sign * vector)
        return CutState()

    def step(self, problem: BalancedCut, state: CutState) -> CutState:
        """One step of the method."""
        if state.method is None:
            state.method = self.method(problem.graph, problem.rng)
        elif state.method.stalled:
            state.stalled = True
            return state
        state.method.step()
        return state


CENTRAL_PATH = RelaxationSolver("central path", CentralPath)
LOW_RANK = RelaxationSolver("low rank", LowRank)
