"""The balanced cut as a problem that owns its proofs, and the solvers of its relaxation in the words of the one loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.lowrank import LowRank
from bregmat.applications.cut.path import CentralPath
from bregmat.applications.cut.proof import bound_of, is_above
from bregmat.applications.cut.rounding import BestCut, certifying, fiedler, smallest
from bregmat.certificates.problem import Certificate, Problem
from bregmat.run.loop import State

SMALL = 400  # vertices up to which the central path is about as quick as the factor form, and needs no luck
EACH_TIME = 8  # roundings per new point


@dataclass(frozen=True, eq=False, kw_only=True)
class CutCertificate(Certificate):
    """The best cut so far beside the best bound; ``relaxation_bound`` is that before rounding up to a possible weight."""

    x: np.ndarray
    relaxation_bound: float

    @property
    def unit(self) -> float:
        """The cut itself: weights have no natural size, and small ones would prove anything in units of 1."""
        return self.objective if self.objective > 0 else 1.0

    def joined(self, new: CutCertificate) -> CutCertificate:
        """The later one: a problem keeps the best of both itself."""
        return new


@dataclass(eq=False)
class CutState(State):
    """A relaxation's method on its way, None before the first step; the cuts and bounds found are the problem's."""

    method: Any = None
    objective: float = np.nan
    signal: float = 0.0
    stalled: bool = False
    finished: bool = False
    is_concluded: bool = False

    def is_finite(self) -> bool:
        """A method takes back the steps that overflow."""
        return True


class BalancedCut(Problem):
    """``minimize x'Lx / 4`` over x of +-1 with ``e'x = 0``; what is found and proven on the way is kept here.

    Parameters
    ----------
    graph : Graph
    refine : bool
        Kernighan-Lin refinement of every rounded cut.
    n_roundings : int
        Random hyperplanes tried in all.
    tol : float
        Relative gap, to which proofs need not be sharper.
    rng : Generator
    """

    def __init__(self, graph: Graph, *, refine: bool, n_roundings: int, tol: float, rng: np.random.Generator) -> None:
        self.graph, self.n_roundings, self.tol, self.rng = graph, n_roundings, tol, rng
        self.best = BestCut(graph, refine)
        self.bound, self.dual = 0.0, np.zeros(graph.size)  # L >= 0: a proof, too

    def is_due(self, state: CutState, tol: float) -> bool:
        """At every step; proofs and roundings, which cost, are left to those that are worth them."""
        return True

    def certify(self, state: CutState) -> CutCertificate:
        """Prove what the method's multipliers prove, and round its matrix to cuts."""
        method = state.method
        if method is None:
            self.prove_by_cut()
        elif not state.is_concluded:
            if method.is_new or method.proves_every_step:
                self.prove(method.y, method.level(self.loss, method.stalled))
                state.finished = self.is_solved(method.value, method.coarse)
            if state.finished:
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
        )

    def conclude(self, state: CutState) -> None:
        """The best bound of the method, and all roundings that are left."""
        method = state.method
        if method is not None:
            self.prove(method.y, method.level(self.loss, True))
            state.finished = self.is_solved(method.value, method.coarse)
            self.round(method, self.n_roundings)
            self.prove_by_cut()
            state.is_concluded = True

    def round(self, method: Any, times: int) -> None:
        """Cut by random hyperplanes; ``times``, or fewer once the bound is met or none are left."""
        for _ in range(min(times, self.n_roundings)):
            if self.is_proven:
                return
            self.best.offer(method.sample(self.rng))
            self.n_roundings -= 1

    @property
    def lower(self) -> float:
        """The bound, rounded up where weights have a common unit; rounding errors of the cut itself are not taken for more."""
        return min(float(self.graph.round_up(self.bound)), self.best.value)

    @property
    def is_proven(self) -> bool:
        """Whether the best cut meets the bound."""
        return self.best.value - self.lower <= self.tol * self.best.value

    @property
    def loss(self) -> float:
        """What a proof may give away, in units of ``sum y``: a fifth of the tolerance."""
        return 0.2 * 4.0 * self.tol * self.best.value / self.graph.scale

    def prove(self, y: np.ndarray, level: float) -> None:
        """Keep the bound of the multipliers if it is the best."""
        if level > -np.inf:
            bound, dual = bound_of(self.graph, y, level)
            if bound > self.bound:
                self.bound, self.dual = bound, dual

    def prove_by_cut(self) -> None:
        """Ask the best cut to prove itself; its null vector is given half a step of the weights, or half the tolerance."""
        if self.is_proven:
            return
        spare = 0.5 * max(self.graph.step, self.tol * self.best.value) / self.graph.scale
        y, level = certifying(self.graph, self.best.x), -4.0 * spare / self.graph.size
        # a Ritz value below refutes it
        if self.graph.size <= SMALL or smallest(self.graph, y, self.rng, lambda ritz: ritz < level) >= level:
            self.prove(y, is_above(self.graph, y, level))

    def is_solved(self, value: float, coarse: float) -> bool:
        """Whether the relaxation cannot raise the bound any more: by more than the tolerance, or to the next weight."""
        value = 0.25 * value * self.graph.scale  # in this order: a quarter of the smallest number is 0
        if value == np.inf:
            return False
        if value - self.bound <= coarse * self.tol * self.best.value:
            return True
        return self.graph.step > 0 and self.graph.round_up(value) <= self.graph.round_up(self.bound)


@dataclass(frozen=True)
class RelaxationSolver:
    """The semidefinite relaxation, by a method that moves by itself; first the cuts of two vectors, which may prove themselves.

    Parameters
    ----------
    name : str
    method : callable
        Sets up a :class:`CentralPath` or :class:`LowRank` for a :class:`BalancedCut`, at its first point.
    """

    name: str
    method: Callable[[BalancedCut], Any]
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = 200

    def check(self, problem: BalancedCut) -> None:
        """Every balanced cut is taken."""

    def init(self, problem: BalancedCut, tol: float, start: Any) -> CutState:
        """The cuts of a random and of the Fiedler vector, unless there is one already; the method is set up when it is needed."""
        if problem.best.value == np.inf:
            problem.best.offer(problem.rng.normal(size=problem.graph.size))
            problem.best.offer(fiedler(problem.graph, problem.rng))
        return CutState()

    def step(self, problem: BalancedCut, state: CutState) -> CutState:
        """A step of the method; one that has stalled short of the bound is widened first, if it can be."""
        if state.method is None:
            state.method = self.method(problem)
        elif state.method.stalled and not state.method.widen():
            state.stalled = True
            return state
        state.method.step()
        return state


CENTRAL_PATH = RelaxationSolver("central path", lambda problem: CentralPath(problem.graph))  # with n x n arrays
# a factor, random at first
LOW_RANK = RelaxationSolver("low rank", lambda problem: LowRank(problem.graph, problem.rng))
