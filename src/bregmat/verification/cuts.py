"""Verification of balanced cuts: sizes, weight, and the eigenvalue bound of the multipliers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from bregmat.applications.cut.result import CutResult
from bregmat.certificates.status import Status
from bregmat.verification.extended import arithmetic, eigenvalues, precision_text, unit_of
from bregmat.verification.figures import Verification, check_arguments, recompute

LARGEST = 3000  # number of vertices up to which the bound is recomputed, with a dense Laplacian
MOST_UNITS = 10**6  # largest weight in units, if weights are multiples of a unit only up to rounding


@recompute.register
def _(result: CutResult, problem: Any, found: Verification) -> None:
    check_arguments(problem, "the argument graph of balanced_cut", "graph")
    graph = problem["graph"]
    if hasattr(graph, "adjacency"):
        import networkx

        graph = networkx.to_scipy_sparse_array(graph, weight="weight", format="csr", dtype=float)
    A = scipy.sparse.csr_array(graph, dtype=float, copy=True)
    A.sum_duplicates()  # an edge may be given as several entries
    A = A.tocoo()
    n, labels = A.shape[0], np.asarray(result.labels)
    if len(labels) != n:
        raise ValueError(f"the result has {len(labels)} vertices; the graph has {n}.")
    if not np.isin(labels, (0, 1)).all() or abs(2 * int(labels.sum()) - n) > n % 2:
        found.problem("the sides are not of equal size", Status.UNKNOWN)
    apart = labels[A.row] != labels[A.col]
    cut = math.fsum(A.data[apart]) / 2
    total = math.fsum(A.data) / 2
    found.compare("cut", cut, 1e-13 * total)
    found.compare("imbalance", abs(2 * int(labels.sum()) - n), 0.0)
    found.compare("unit", cut or 1.0, 1e-13 * total)
    relaxed = _relaxation(A, result.dual, n, found)
    if relaxed is None:
        return
    allowed = 1e-12 * total + 1e-15 * float(np.abs(result.dual).sum())
    found.figures["relaxation_bound"] = (result.relaxation_bound, relaxed)
    if not result.relaxation_bound <= relaxed + allowed:
        found.problem(f"the dual weights prove {relaxed:.9g} and not {result.relaxation_bound:.9g} as a bound")
    bound = max(min(_rounded_up(A, relaxed - allowed), cut), 0.0)
    found.bound_from_below("lower_bound", bound, allowed + 1e-9 * cut)
    if found.claimed is Status.OPTIMAL and not cut - bound <= (result.tol * 1.001 + 1e-12) * cut + 2 * allowed:
        found.problem(f"OPTIMAL is claimed: the cut is {cut:.9g}, and {bound:.9g} is proven", Status.FEASIBLE)
    found.figures["gap"] = (result.gap, (cut - bound) / cut if cut > 0 else 0.0)


def _relaxation(A: Any, y: np.ndarray, n: int, found: Verification) -> float | None:
    """``(size min(lam, 0) - sum y) / 4`` with lam the smallest eigenvalue of ``L + diag(y)`` on vectors orthogonal to e."""
    size = n + n % 2
    if len(y) != size:
        found.problem(f"there are {len(y)} multipliers for {size} vertices", Status.FEASIBLE)
        return None
    if size > LARGEST:
        found.unchecked.append(f"the bound was not recomputed: {n} vertices are more than {LARGEST}")
        return None
    real = arithmetic(60.0 * size**3)
    found.precision = precision_text(real)
    L = np.zeros((size, size), dtype=real)
    np.subtract.at(L, (A.row, A.col), A.data)
    L = (L + L.T) / 2
    L[np.diag_indices(size)] = 0
    L[np.diag_indices(size)] = -L.sum(axis=1)
    M = L + np.diag(y.astype(real))
    top = float(np.abs(M).max()) * size
    if top == 0.0:
        return -math.fsum(y) / 4
    mean = M.mean(axis=0)
    P = M - mean - mean[:, None] + mean.mean() + real(top) / size  # e has the eigenvalue `top`
    low = float(eigenvalues((P + P.T) / 2)[0]) - unit_of(real) * size * top
    return (size * min(low, 0.0) - math.fsum(y)) / 4


def _rounded_up(A: Any, bound: float) -> float:
    """The bound, raised to the next possible weight of a cut if all weights are multiples of a unit; cuts may have a parity."""
    w = A.data[A.data != 0]
    unit = _common_unit(w)
    if unit == 0.0:
        return bound
    counts = np.rint(A.data / unit)
    spread = math.fsum(np.abs(A.data - unit * counts)) / 2  # of weights that are multiples up to rounding
    degrees = np.bincount(A.row, counts, minlength=A.shape[0])
    odd = degrees % 2 == 1
    offset, step = 0.0, unit
    if not odd.any():
        step *= 2
    elif odd.all():  # a side has half of the vertices
        offset, step = step * ((A.shape[0] // 2) % 2), 2 * step
    return max(bound, offset + step * math.ceil((bound - spread - offset) / step - 1e-9) - spread)


def _common_unit(weights: np.ndarray) -> float:
    """The largest number of which all weights are multiples, exactly or up to rounding, from ratios as fractions; 0 if none."""
    if not len(weights):
        return 0.0
    values = [Fraction(value) for value in np.unique(weights).tolist()]
    exact = (value / values[-1] for value in values)
    rounded = ((value / values[-1]).limit_denominator(MOST_UNITS) for value in values)
    for ratios, limit in ((exact, 2.0**52 * float(weights.max() / weights.sum())), (rounded, MOST_UNITS)):
        count = 1  # number of units in the largest weight
        for ratio in ratios:
            count = math.lcm(count, ratio.denominator)
            if count > limit:
                break
        else:
            unit = float(values[-1] / count)
            if math.fsum(np.abs(weights - unit * np.rint(weights / unit))) <= 0.01 * unit:
                return unit
    return 0.0
