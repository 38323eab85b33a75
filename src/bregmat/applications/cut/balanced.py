"""Minimum balanced cuts with a proven lower bound (Kulis 2009, section 6.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from numpy.typing import ArrayLike

from bregmat.applications.cut.graph import read_graph
from bregmat.applications.cut.lowrank import LowRank
from bregmat.applications.cut.path import CentralPath
from bregmat.applications.cut.result import CutResult
from bregmat.applications.cut.search import SMALL, CutSearch
from bregmat.base.checks import as_choice, check_flag, check_integer, check_limits, generator
from bregmat.base.threads import returns_result
from bregmat.engine.loop import RunLog, compose
from bregmat.engine.status import Record
from bregmat.typing import CutSolverName, Graph, RandomState

MAX_ITER = 200  # default limit on steps
FALLBACK = 1500  # vertices up to which the central path is followed if the factor form stalls


@returns_result
def balanced_cut(
    graph: Graph,
    *,
    vertex_weights: ArrayLike | None = None,
    target: float = 0.5,
    fixed: ArrayLike | None = None,
    refine: bool = True,
    random_state: RandomState = None,
    solver: CutSolverName = "auto",
    n_roundings: int = 64,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> CutResult:
    """Split a graph into two parts with a small weight between them, and prove a lower bound of that weight.

    ``minimize x'Lx / 4`` over vectors x of +1 and -1 for which the weight of side 1 differs from ``target`` times the weight of all
    vertices by at most half of the weight of the heaviest free vertex. For halves without vertex weights this is
    ``|e'x| <= n mod 2``. The bound is that of the semidefinite relaxation ``minimize tr(LX) / 4``, ``X_ii = 1``, ``a'Xa = 0``,
    ``X >= 0``, with a = e for halves; its central path is a LogDet nearness problem (Kulis 2009, section 6.4). Partitioners such as
    METIS find cuts faster and prove nothing.

    Parameters
    ----------
    graph : array-like, scipy.sparse or networkx.Graph; (n, n)
        Undirected, with nonnegative weights and no self loops. For a networkx graph the edge attribute "weight" is used (1 if it is
        missing), and the labels are in the order of ``graph.nodes``. networkx's karate club is weighted: its least cut is 23, and 10
        for ``networkx.to_numpy_array(graph, weight=None)``.
    vertex_weights : array-like of float, shape (n,), optional
        Positive; None: all are 1.
    target : float
        Share of side 1 in the weight of all vertices, between 0 and 1.
    fixed : array-like of int, shape (n,), optional
        For each vertex 0 or 1, the side on which it has to be, or -1 if it is free. Fixed vertices count in the weights of the sides.
    refine : bool
        Kernighan-Lin refinement of every rounded cut.
    random_state : None, int, Generator or RandomState
    solver : {"auto", "central_path", "low_rank"}
        "central_path" works with n x n arrays and takes n^3 operations per step; "low_rank" works with a factor of the matrix of the
        relaxation. "auto": the central path up to 400 vertices, the factor above. Up to 1,500 vertices the central path follows if the
        factor does not finish.
    n_roundings : int
        Largest number of random hyperplanes.
    tol : float
        Relative gap at which the cut is called optimal and the relaxation counts as solved; dimensionless. Above 3,000 vertices the
        relaxation is solved to 100 times this tolerance, because proofs take long.
    max_iter : int, optional
        Limit on Newton steps (200).
    max_seconds : float, optional
        Limit on wall time, tested between steps. The bound of the last point is computed after it, which takes up to about n^3 / 3
        operations.
    callback : callable, optional
        Called once per step with a Record (``objective`` is the best cut); returning True stops.

    Returns
    -------
    CutResult
        With labels, cut, lower_bound, is_optimal, and the multipliers that prove the bound.

    Raises
    ------
    ValueError, TypeError
        If the argument is not an undirected graph with nonnegative weights, or if the fixed vertices allow no balanced cut.

    Notes
    -----
    The paper works in the range of L, which is too small if the graph is not connected, and for odd n no balanced cut has
    ``e'Xe = 0``. Here the whole space orthogonal to a is used. The vector a has the weights of the free vertices, then that of a
    terminal, which stands for all fixed vertices and for the target, and then those of slack vertices without edges: one if the
    weight of a side can have two values, as for odd n, and two if it can have more. First, multipliers of which
    the best cut is a null vector are tested; for clear communities they prove it optimal without a relaxation.

    Every bound is proven in floating-point arithmetic (``applications/cut/proof.py``) by a Cholesky factorisation: of a dense matrix
    up to 1,000 vertices, and up to 8,000 if more than 2 % of all pairs are edges; otherwise after the elimination of vertices with few
    neighbours. On random graphs more than half of the vertices remain, so that the time grows with n^3. If a factorisation fails, the
    previous bound is kept, which is 0 at first. If all weights are multiples of one unit, exactly or up to rounding, the bound is
    rounded up to a weight that a cut can have.

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
    log = RunLog(callback, max_seconds)
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    check_flag("refine", refine)
    check_integer("n_roundings", n_roundings, 0, optional=False)
    as_choice("solver", solver, get_args(CutSolverName))
    work = read_graph(graph, vertex_weights, target, fixed)
    search = CutSearch(work, refine=refine, n_roundings=n_roundings, tol=tol, rng=generator(random_state))
    is_small = solver == "central_path" or (solver == "auto" and work.size <= SMALL)
    methods: list[type[CentralPath | LowRank]] = [] if is_small else [LowRank]
    if is_small or work.size <= FALLBACK:
        methods.append(CentralPath)
    run = search.run(methods, MAX_ITER if max_iter is None else int(max_iter), log)
    labels = work.balance.labels(search.best.x)
    imbalance = work.balance.imbalance(labels)
    return compose(CutResult, run, labels=labels, imbalance=imbalance, relaxation_bound=search.bound)
