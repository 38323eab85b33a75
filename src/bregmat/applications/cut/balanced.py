"""Minimum balanced cuts with a proven lower bound (Kulis 2009, section 6.4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat.applications.cut.graph import Graph, read_graph
from bregmat.applications.cut.lowrank import LowRank, smallest
from bregmat.applications.cut.path import CentralPath
from bregmat.applications.cut.proof import bound_of, is_above
from bregmat.applications.cut.result import CutResult
from bregmat.applications.cut.rounding import BestCut, certifying, fiedler
from bregmat.checks import check_flag, check_integer, check_positive
from bregmat.linalg import single_thread_blas
from bregmat.result import ExitReason, Record, Status
from bregmat.sampling import generator

SMALL = 400  # vertices up to which the central path is about as quick as the factor form, and needs no luck
FALLBACK = 1500  # vertices up to which the central path takes over where the factor form stalls
MAX_ITER = 200
EACH_TIME = 8  # roundings per new point
SOLVERS = ("auto", "central_path", "low_rank")


def balanced_cut(
    graph: Any,
    *,
    refine: bool = True,
    random_state: Any = None,
    solver: str = "auto",
    n_roundings: int = 64,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> CutResult:
    """Split a graph into two halves with little weight between them, and prove how little is possible.

    ``minimize x'Lx / 4`` over x of +-1 with ``|e'x| <= n mod 2``. The bound is that of the semidefinite relaxation
    ``minimize tr(LX) / 4``, ``X_ii = 1``, ``e'Xe = 0``, ``X >= 0``, whose central path is a LogDet nearness problem (Kulis
    2009, 6.4). Partitioners find cuts faster; they prove nothing. Use it where the proof, or a reference, is worth seconds.

    Parameters
    ----------
    graph : array-like, scipy.sparse or networkx.Graph; (n, n)
        Undirected, weights >= 0, no self loops. Of a networkx graph the edge attribute "weight" counts (1 where there is
        none), and labels are in the order of ``graph.nodes``. networkx's karate club is weighted: its least cut is 23, and 10 for
        ``networkx.to_numpy_array(graph, weight=None)``.
    refine : bool
        Kernighan-Lin refinement of every rounded cut.
    random_state : None, int, Generator or RandomState
    solver : {"auto", "central_path", "low_rank"}
        "auto": the central path up to 400 vertices (n x n arrays, n^3 operations a step), above a factor of the relaxation's
        matrix and no inverse.
    n_roundings : int
        Random hyperplanes tried, unless the cut is proven optimal before.
    tol : float
        Relative gap within which the cut counts as optimal and the relaxation as solved; above 3,000 vertices the
        relaxation is solved to 100 times that, since proofs are dear. Dimensionless.
    max_iter : int, optional
        Limit on Newton steps (200).
    max_seconds : float, optional
        Limit on wall time, looked at between steps; a step or a proof that has begun is finished.
    callback : callable, optional
        Called once per step with a Record (``objective`` is the best cut); returning True stops.

    Returns
    -------
    CutResult
        With labels, cut, lower_bound, is_optimal and the multipliers that prove the bound.

    Raises
    ------
    ValueError, TypeError
        For what is not an undirected graph with nonnegative weights.

    Notes
    -----
    Different from the paper: its method works in the range of L, which loses part of the space where the graph is not
    connected, and for odd n no balanced cut meets ``e'Xe = 0``. Here all of the space orthogonal to e is used, with an
    isolated dummy vertex for odd n. First the best cut of the Fiedler vector is asked to prove itself, with multipliers
    under which it is a null vector; on clear communities no relaxation has to be solved.

    Every bound is proven in floating point (``applications/cut/proof.py``): by a dense Cholesky factorisation up to 1,000
    vertices, and up to 8,000 if more than 2 % of all pairs are edges; else by the pivots of a sparse LDL', where much fill
    costs time and memory. If it does not end well, the bound stays what it was,
    0 at first. With whole weights it is rounded up to a weight that a cut can have (divisor, parity).
    """
    clock = time.perf_counter()
    _check(refine, solver, n_roundings, tol, max_iter, max_seconds, callback)
    work = read_graph(graph)
    run = _Run(work, refine, generator(random_state), tol, callback, clock)
    if solver == "auto":
        solver = "central_path" if work.size <= SMALL else "low_rank"
    with single_thread_blas(work.size):
        reason = run.search(solver, n_roundings, MAX_ITER if max_iter is None else max_iter, max_seconds)
    return run.result(reason)


class _Run:
    """One run: the best cut, the best bound with its multipliers, clock and history."""

    def __init__(
        self,
        graph: Graph,
        refine: bool,
        rng: np.random.Generator,
        tol: float,
        callback: Callable[[Record], Any] | None,
        clock: float,
    ) -> None:
        self.graph, self.rng, self.tol, self.callback, self.clock = graph, rng, tol, callback, clock
        self.best = BestCut(graph, refine)
        self.bound, self.dual = 0.0, np.zeros(graph.size)  # L >= 0: a proof, too
        self.solver, self.n_iter = "certificate of the cut", 0
        self.history: list[Record] = []

    def search(self, solver: str, n_roundings: int, limit: int, max_seconds: float | None) -> ExitReason:
        """Look for cuts and bounds until they meet, the relaxation is solved, or a limit is reached."""
        try:
            self.best.offer(self.rng.normal(size=self.graph.size))
            self.best.offer(fiedler(self.graph, self.rng))
            self.prove_by_cut()
            if self.record():
                return ExitReason.INTERRUPTED
            if self.is_proven:
                return ExitReason.TOLERANCE
            if limit == 0:
                return ExitReason.MAX_ITER
            method: Any = CentralPath(self.graph) if solver == "central_path" else LowRank(self.graph, self.rng)
            self.solver = method.name
            while True:
                method.step()
                self.n_iter += 1
                late = max_seconds is not None and time.perf_counter() - self.clock > max_seconds
                ends = late or method.stalled or self.n_iter >= limit
                solved = False
                if ends or method.is_new or method.proves_every_step:
                    self.prove(method.y, method.level(self.loss, ends))
                    solved = self.is_solved(method.value, method.coarse)
                if method.stalled and not solved and not late and self.n_iter < limit:
                    if method.widen():
                        ends = False
                    elif self.graph.size <= FALLBACK and not method.proves_every_step:
                        method, ends = CentralPath(self.graph), False
                        self.solver += " + " + method.name
                if ends or solved:
                    self.round(method, n_roundings)
                    self.prove_by_cut()
                elif method.is_new:
                    n_roundings -= self.round(method, min(EACH_TIME, n_roundings))
                if self.record():
                    return ExitReason.INTERRUPTED
                if self.is_proven or solved:
                    return ExitReason.TOLERANCE
                if ends:
                    return ExitReason.TIME if late else ExitReason.STALLED if method.stalled else ExitReason.MAX_ITER
        except KeyboardInterrupt:
            if not np.isfinite(self.best.value):
                raise
            return ExitReason.INTERRUPTED

    def round(self, method: Any, times: int) -> int:
        """Cut by random hyperplanes; ``times``, or fewer once the bound is met."""
        for done in range(times):
            if self.is_proven:
                return done
            self.best.offer(method.sample(self.rng))
        return times

    @property
    def lower(self) -> float:
        """The bound, rounded up where weights are whole; rounding errors of the cut itself are not taken for more."""
        return min(float(self.graph.round_up(self.bound)), self.best.value)

    @property
    def gap(self) -> float:
        return (self.best.value - self.lower) / self.best.value if self.best.value > 0 else 0.0

    @property
    def is_proven(self) -> bool:
        return self.gap <= self.tol

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
        if self.graph.size <= SMALL or smallest(self.graph, y, self.rng) >= level:  # a Ritz value below refutes it
            self.prove(y, is_above(self.graph, y, level))

    def is_solved(self, value: float, coarse: float) -> bool:
        """Whether the relaxation cannot raise the bound any more: by more than the tolerance, or to the next weight."""
        value = 0.25 * value * self.graph.scale  # in this order: a quarter of the smallest number is 0
        if value == np.inf:
            return False
        if value - self.bound <= coarse * self.tol * self.best.value:
            return True
        return self.graph.step > 0 and self.graph.round_up(value) <= self.graph.round_up(self.bound)

    def record(self) -> bool:
        """Write the history, call back; whether the callback asks to stop."""
        seconds = time.perf_counter() - self.clock
        self.history.append(Record(self.n_iter, seconds, self.best.value, self.lower, self.gap, 0.0))
        return self.callback is not None and bool(self.callback(self.history[-1]))

    def result(self, reason: ExitReason) -> CutResult:
        """The best cut and the best bound."""
        labels = (self.best.x != self.best.x[0]).astype(np.int64)[: self.graph.n]
        return CutResult(
            labels=labels,
            imbalance=abs(self.graph.n - 2 * int(labels.sum())),
            relaxation_bound=self.bound,
            gap=self.gap,
            dual=self.dual,
            objective=self.best.value,
            dual_bound=self.lower,
            max_violation=0.0,  # a cut is balanced or it is not returned
            status=Status.OPTIMAL if self.is_proven else Status.FEASIBLE,
            exit_reason=reason,
            tol=self.tol,
            n_iter=self.n_iter,
            seconds=time.perf_counter() - self.clock,
            history=self.history,
            solver=self.solver,
        )


def _check(
    refine: Any, solver: Any, n_roundings: Any, tol: Any, max_iter: Any, max_seconds: Any, callback: Any
) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable or None; got {callback!r}.")
    check_flag("refine", refine)
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")
    check_integer("n_roundings", n_roundings, 0, optional=False)
    check_integer("max_iter", max_iter, 0)
    check_positive("tol", tol, finite=True)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds, finite=True)
