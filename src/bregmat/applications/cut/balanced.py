"""Minimum balanced cuts with a proven lower bound (Kulis 2009, section 6.4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from bregmat.applications.cut.graph import read_graph
from bregmat.applications.cut.problem import CENTRAL_PATH, LOW_RANK, SMALL, BalancedCut
from bregmat.applications.cut.result import CutResult
from bregmat.base.checks import as_choice, check_flag, check_integer, check_limits
from bregmat.base.interrupts import tells_interrupts
from bregmat.base.sampling import generator
from bregmat.base.threads import on_one_blas_thread
from bregmat.run.loop import RunLog, solve_in_turn
from bregmat.run.result import Record
from bregmat.typing import CutSolverName, Graph, RandomState

FALLBACK = 1500  # vertices up to which the central path takes over where the factor form stalls


@tells_interrupts
@on_one_blas_thread
def balanced_cut(
    graph: Graph,
    *,
    refine: bool = True,
    random_state: RandomState = None,
    solver: CutSolverName = "auto",
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
    vertices, and up to 8,000 if more than 2 % of all pairs are edges; else of those that are left when the vertices of few
    neighbours are eliminated: few on planar graphs, more than half of them on random ones, where the time grows with n^3.
    If it does not end well, the bound stays what it was, 0 at first. Where all weights are multiples of one unit,
    exactly or up to rounding, it is rounded up to a weight that a cut can have (unit, parity).

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import balanced_cut
    >>> triangles = np.kron(np.eye(2), 1 - np.eye(3))  # two triangles
    >>> triangles[2, 3] = triangles[3, 2] = 1  # and one edge between them
    >>> result = balanced_cut(triangles, random_state=0)
    >>> result.cut, result.lower_bound, result.is_optimal
    (1.0, 1.0, True)
    """
    clock = time.perf_counter()
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    check_flag("refine", refine)
    check_integer("n_roundings", n_roundings, 0, optional=False)
    as_choice("solver", solver, get_args(CutSolverName))
    work = read_graph(graph)
    problem = BalancedCut(work, refine=refine, n_roundings=n_roundings, tol=tol, rng=generator(random_state))
    is_small = solver == "central_path" or (solver == "auto" and work.size <= SMALL)
    methods: list[Any] = [] if is_small else [LOW_RANK]
    if is_small or work.size <= FALLBACK:
        methods.append(CENTRAL_PATH)
    plan = [(method, method.max_iter if max_iter is None else int(max_iter)) for method in methods]
    outcome = solve_in_turn(problem, plan, tol=tol, log=RunLog(callback, max_seconds))
    proof = outcome.certificate
    labels = (proof.x != proof.x[0]).astype(np.int64)[: work.n]
    return CutResult(
        **outcome.shared()
        | {
            "seconds": time.perf_counter() - clock,
            "solver": outcome.solver if outcome.n_iter else "certificate of the cut",
        },
        labels=labels,
        imbalance=abs(work.n - 2 * int(labels.sum())),
        relaxation_bound=proof.relaxation_bound,
        dual=proof.dual,
    )
