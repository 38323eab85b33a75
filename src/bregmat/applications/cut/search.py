"""The search for a balanced cut: cuts, bounds, and the methods for the relaxation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.lowrank import LowRank
from bregmat.applications.cut.path import CentralPath
from bregmat.applications.cut.proof import bound_of, is_above
from bregmat.applications.cut.rounding import BestCut, certifying, fiedler, smallest
from bregmat.base.threads import seconds_left, time_limit
from bregmat.engine.loop import ENDED, Run, RunLog, repeat
from bregmat.engine.problem import Certificate
from bregmat.engine.status import ExitReason, Status

SMALL = 400  # vertices up to which the central path is about as fast as the factor form, and more reliable
EACH_TIME = 8  # random hyperplanes for each point that is rounded to cuts


class CutSearch:
    """``minimize z'Lz / 4 + base`` over vectors z of +1 and -1 with ``a'z = 0``; it keeps the best cut and the best bound.

    The cuts of a random vector and of the Fiedler vector are found at once; then the solution of a relaxation is rounded to cuts.

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
        with np.errstate(all="ignore"):
            self.best.offer(rng.normal(size=graph.size))
            vector = fiedler(graph, rng)
            for sign in (1.0, -1.0)[: 1 + graph.balance.n_terminal]:
                self.best.offer(sign * vector)

    def run(self, methods: Sequence[type[CentralPath | LowRank]], max_iter: int, log: RunLog) -> Run:
        """Solve the relaxation by one method and, if that fails, by the next one, with at most ``max_iter`` steps of all together."""
        names: list[str] = []
        for make in methods:
            self.make, self.is_stalled, self.is_solved = make, False, False
            self.method: CentralPath | LowRank | None = None  # until the cuts that are known have been tested
            names.append(make.name)
            reason, n_iter = repeat(self, max_iter - log.before, log)
            log.before += n_iter
            if reason in ENDED or log.before >= max_iter:
                break
        if reason in (ExitReason.TIME, ExitReason.INTERRUPTED):
            with np.errstate(all="ignore"), time_limit(0.0 if reason is ExitReason.TIME else np.inf):
                self.measure(reason is ExitReason.TIME)
        name = " + ".join(names) if log.before else "certificate of the cut"
        return Run(log, self.certificate(), self.tol, reason, name, log.before, by_own_rule=True)

    def certificate(self) -> Certificate:
        """The best cut and the best bound; the unit of the gap is the cut, because weights have no natural size."""
        value = self.best.value
        return Certificate(dual=self.dual, objective=value, upper=value, dual_bound=self.lower, size=value or 1.0)

    # ------------------------------------------------------------------ one method
    def measure(self, is_last: bool) -> dict[str, float]:
        """Compute the bound of the method's multipliers, and round its matrix to cuts; the last call uses all hyperplanes that are left."""
        method, is_last = self.method, is_last or self.is_stalled
        if method is None:
            self.prove_by_cut()
        elif method.is_new or method.proves_every_step or is_last:
            # a proof may lose a fifth of the tolerance, in units of the sum of y
            loss = 0.2 * 4.0 * self.tol * self.best.value / self.graph.scale
            self.prove(method.y, method.level(loss, method.stalled or is_last))
            self.is_solved = self._is_solved(method.value, method.coarse)
            if self.is_solved or is_last:
                self.round(method, self.n_roundings)
                self.prove_by_cut()
            elif method.is_new:
                self.round(method, EACH_TIME)
        return self.certificate().figures

    def ended(self) -> ExitReason | None:
        """TOLERANCE if the cut is proven optimal, or the relaxation is solved."""
        if self.is_solved or self.certificate().status(self.tol) is Status.OPTIMAL:
            return ExitReason.TOLERANCE
        return ExitReason.STALLED if self.is_stalled else None

    def step(self) -> None:
        """One step of the method, which is constructed first."""
        if self.method is None:
            self.method = self.make(self.graph, self.rng)
        self.is_stalled = self.method.stalled
        if not self.is_stalled:
            self.method.step()

    # ------------------------------------------------------------------ cuts and bounds
    def round(self, method: CentralPath | LowRank, times: int) -> None:
        """Cut by up to ``times`` random hyperplanes, until the bound is reached, none are left or the time is over."""
        balance = self.graph.balance
        for _ in range(min(times, self.n_roundings)):
            if self.is_proven or (np.isfinite(self.best.value) and seconds_left() < 0):
                return
            scores = method.sample()
            is_turned = balance.n_terminal and scores[len(balance.weights)] < 0.0
            self.best.offer(-scores if is_turned else scores)  # the terminal is on side 1
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

    def _is_solved(self, value: float, coarse: float) -> bool:
        """Whether the relaxation cannot raise the bound by more than the tolerance, or to the next possible weight."""
        value = self.graph.total(value)
        if value == np.inf:
            return False
        if value - self.bound <= coarse * self.tol * self.best.value:
            return True
        return self.graph.step > 0 and self.graph.round_up(value) <= self.graph.round_up(self.bound)
