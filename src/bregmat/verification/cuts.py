"""Balanced cuts: sizes, weight, and the smallest eigenvalue that the multipliers claim."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from bregmat.applications.cut.result import CutResult
from bregmat.status import Status
from bregmat.verification.extended import arithmetic, eigenvalues, precision_text, unit_of
from bregmat.verification.figures import Verification, check_arguments, recompute

LARGEST = 3000  # vertices up to which the Laplacian is looked at as a dense matrix


@recompute.register
def _(result: CutResult, problem: Any, found: Verification) -> None:
    check_arguments(problem, "the argument graph of balanced_cut", "graph")
    graph = problem["graph"]
    if hasattr(graph, "adjacency"):
        import networkx

        graph = networkx.to_scipy_sparse_array(graph, weight="weight", format="csr", dtype=float)
    A = scipy.sparse.csr_array(graph, dtype=float, copy=True)
    A.sum_duplicates()  # an edge may be given in parts
    A = A.tocoo()
    n, labels = A.shape[0], np.asarray(result.labels)
    if len(labels) != n:
        raise ValueError(f"the result has {len(labels)} vertices; the graph has {n}.")
    if not np.isin(labels, (0, 1)).all() or abs(2 * int(labels.sum()) - n) > n % 2:
        found.problem("the sides are not of equal size", Status.UNKNOWN)
    apart = labels[A.row] != labels[A.col]
    cut = math.fsum(A.data[apart]) / 2
    total = math.fsum(A.data) / 2
    found.compare("cut", result.cut, cut, 1e-13 * total)
    relaxed = _relaxation(A, result.dual, n, found)
    if relaxed is None:
        return
    allowed = 1e-12 * total + 1e-15 * float(np.abs(result.dual).sum())
    found.figures["relaxation_bound"] = (result.relaxation_bound, relaxed)
    if not result.relaxation_bound <= relaxed + allowed:
        found.problem(f"the dual weights prove {relaxed:.9g} and not {result.relaxation_bound:.9g} as a bound")
    bound = max(min(_rounded_up(A, relaxed - allowed), cut), 0.0)
    found.bound_from_below("lower_bound", result.lower_bound, bound, allowed + 1e-9 * cut)
    if found.claimed is Status.OPTIMAL and not cut - bound <= (result.tol * 1.001 + 1e-12) * cut + 2 * allowed:
        found.problem(f"OPTIMAL is claimed: the cut is {cut:.9g}, and {bound:.9g} is proven", Status.FEASIBLE)
    found.figures["gap"] = (result.gap, (cut - bound) / cut if cut > 0 else 0.0)


def _relaxation(A: Any, y: np.ndarray, n: int, found: Verification) -> float | None:
    """``(size lam - sum y) / 4`` with lam the smallest eigenvalue of ``L + diag(y)`` orthogonal to e, or 0 where it is positive."""
    size = n + n % 2
    if len(y) != size:
        found.problem(f"there are {len(y)} multipliers for {size} vertices", Status.FEASIBLE)
        return None
    if size > LARGEST:
        found.notes.append(f"the bound was not recomputed: {n} vertices are more than {LARGEST}")
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
    """The least weight of a balanced cut that is not below the bound: whole weights have a common divisor, and cuts a parity."""
    w = A.data[A.data != 0]
    if not len(w) or (w != np.rint(w)).any() or w.sum() >= 2.0**52:
        return bound
    step = int(np.gcd.reduce(w.astype(np.int64)))
    degrees = np.bincount(A.row, A.data, minlength=A.shape[0]) / step
    odd = degrees % 2 == 1
    offset = 0
    if not odd.any():
        step *= 2
    elif odd.all():  # a side has half of the vertices
        offset, step = step * ((A.shape[0] // 2) % 2), 2 * step
    return offset + step * math.ceil((bound - offset) / step - 1e-9)
