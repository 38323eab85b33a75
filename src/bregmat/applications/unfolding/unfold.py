"""Unfolding of points on a curved surface (Kulis 2009, section 6.3; Weinberger 2004)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import numpy as np

from bregmat.applications.semidefinite.path import LogDetPath
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.applications.semidefinite.program import result_of
from bregmat.applications.unfolding.graph import neighbour_pairs, warn_of_short_cuts
from bregmat.applications.unfolding.result import RTOL, UnfoldResult, distance_rows
from bregmat.base.checks import as_choice, as_matrix, check_integer, check_limits, check_positive
from bregmat.base.threads import tells_interrupts
from bregmat.coordinates.priors import Coordinates, Factor
from bregmat.nearest import nearest_kernel
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import bind
from bregmat.run.loop import RunLog, solve
from bregmat.run.result import MatrixResult, Record, Result
from bregmat.typing import DivergenceName, Table, UnfoldObjective


@tells_interrupts
def unfold(
    X: Table,
    *,
    n_neighbors: int = 6,
    n_components: int = 2,
    divergence: DivergenceName | SpectralDivergence = "logdet",
    objective: UnfoldObjective = "divergence",
    slack_weight: float = np.inf,
    rtol: float = RTOL,
    prior_scale: float | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> UnfoldResult:
    """Embed points of a curved surface by the centred kernel that keeps the distances between neighbours.

    ``minimize D(K, c (I - ee'/n))``, or maximise ``tr K``, over ``K >= 0`` with ``K e = 0`` and
    ``|K_ii + K_jj - 2 K_ij - d_ij^2| <= rtol d_ij^2`` for all neighbours i, j (Kulis 2009, section 6.3; Weinberger 2004). Use it where
    distances between neighbours must be kept, with up to about 600 points for "variance" and 200 for "divergence". Isomap takes more
    points and proves nothing.

    Parameters
    ----------
    X : array-like, shape (n, d)
        Points.
    n_neighbors : int
        Nearest points that each point keeps its distance from.
    n_components : int
        Dimensions of the embedding, 1 to n - 1.
    divergence : {"logdet", "vonneumann", "frobenius"} or object
        For the objective "divergence".
    objective : {"divergence", "variance"}
        "variance" is maximum variance unfolding. It puts most of the variance into few dimensions. LogDet spreads it over all
        dimensions that the distances leave.
    slack_weight : float
        Weight gamma of a distance that is not kept, positive; inf makes all distances hard. Noisy points need slack: exact distances
        between noisy neighbours keep the surface from unfolding. "divergence" has the divergence's own slack, "variance" the
        squared hinge, in units of the mean squared distance between neighbours times n^2.
    rtol : float
        Relative accuracy to which squared distances are kept, at least 0. With 0, points on a flat surface leave singular kernels only,
        whose dual weights are not finite; any positive value leaves definite ones.
    prior_scale : float, optional
        c, in the units of squared distances; the larger, the more the kernel unfolds. By default n^2 times the mean squared distance
        between neighbours, which is beyond the largest eigenvalue of an unfolded surface. Not used for "variance".
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on steps.
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    UnfoldResult
        With embedding, kernel(), spectrum, status, gap and dual_bound. For "variance", ``objective`` is ``-tr K``.

    Raises
    ------
    ValueError
        If the neighbourhood graph is not connected.

    Warns
    -----
    UserWarning
        If edges of the graph look like short cuts between layers of a folded surface.

    Notes
    -----
    K is sought as ``N M N'`` with an orthonormal basis N of the vectors whose entries sum to 0, so it is centred without a constraint.
    Each of the 20 to 50 steps costs about ``40 n^3 + c^2 (c + 6 n) / 3`` operations for c rows, two for each pair of neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import unfold
    >>> plane = np.random.default_rng(0).normal(size=(20, 2)) @ [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]]
    >>> result = unfold(plane, n_neighbors=6)
    >>> print(result.status, bool(result.spectrum[:2].sum() > 0.99 * result.spectrum.sum()))
    OPTIMAL True
    """
    clock = time.perf_counter()
    points: np.ndarray = as_matrix("X", X)
    n = len(points)
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    as_choice("objective", objective, get_args(UnfoldObjective))
    for name, value in (("n_neighbors", n_neighbors), ("n_components", n_components)):
        check_integer(name, value, 1, optional=False)
        if value >= n:
            raise ValueError(f"{name} must be below the number of points, {n}; got {value}.")
    check_positive("slack_weight", slack_weight)
    check_positive("rtol", rtol, finite=True, zero=True)
    pairs, sq = neighbour_pairs(points, n_neighbors)
    warn_of_short_cuts(points, n_neighbors, pairs, sq)
    rows, N = distance_rows(pairs, sq, rtol), centred_basis(n)
    largest = float(n**2 * sq.mean())  # beyond the largest eigenvalue of an unfolded surface
    scale = 0.0
    if objective == "variance":
        program = SemidefiniteProgram.build(-np.eye(n - 1), bind(rows, N), rows, slack_weight * largest)
        start = np.tile(rtol * sq, 2) if rtol > 0 else None
        log = RunLog(callback, max_seconds)
        outcome = solve(program, LogDetPath(), start=start, tol=tol, max_iter=max_iter, log=log)
        found: MatrixResult = result_of(program, outcome, Coordinates(N, np.ones(n - 1)), None, 0.0)
    else:
        scale = largest if prior_scale is None else prior_scale
        check_positive("prior_scale", scale, finite=True)
        # a narrow band around every distance leaves definite kernels, near which the path inside the cone is the shortest
        is_band = np.isinf(slack_weight) and rtol > 0
        found = nearest_kernel(
            Factor(np.sqrt(scale) * N),
            rows,
            divergence=divergence,
            slack_weight=slack_weight,
            solver="interior_point" if is_band else "auto",
            tol=tol,
            max_iter=max_iter,
            max_seconds=max_seconds,
            callback=callback,
        )
    U, sigma, _ = np.linalg.svd(found.factor, full_matrices=False)
    shared = {f.name: getattr(found, f.name) for f in fields(Result)}
    return UnfoldResult(
        **shared | {"seconds": time.perf_counter() - clock},
        factor=U * sigma,
        dual=found.dual,
        values=found.values,
        violation=found.violation,
        pairs=pairs,
        sq_distances=sq,
        prior_scale=float(scale),
        rtol=float(rtol),
        n_components=int(n_components),
    )


def centred_basis(n: int) -> np.ndarray:
    """Orthonormal basis (n, n - 1) of the vectors whose entries sum to 0: a reflection that maps e to the first axis, without that axis."""
    v = np.full(n, 1.0 / np.sqrt(n))
    v[0] += 1.0
    return np.eye(n)[:, 1:] - np.outer(v, v[1:] / v[0])
