"""Correlation matrices of a given rank: ``X = V V'`` with rows of length one. A heuristic, beside a proven bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.applications.correlation.input import Limits
from bregmat.applications.correlation.result import CorrelationResult
from bregmat.linalg import eigh
from bregmat.result import ExitReason, Record, Status

STEPS = 2000  # of the search, unless told otherwise


def of_rank(convex: CorrelationResult, A: np.ndarray, rank: int, limits: Limits) -> CorrelationResult:
    """The better of two descents, from the spectra of the nearest matrix of any rank and of C, beside the former's bound."""
    history, reason = list(convex.history), ExitReason.TOLERANCE
    bound = convex.dual_bound

    def stop(value: float) -> bool:
        nonlocal reason
        gap = (value - bound) / max(1.0, value)
        history.append(Record(len(history), limits.passed(), value, bound, gap, 0.0))
        if limits.callback is not None and limits.callback(history[-1]):
            reason = ExitReason.INTERRUPTED
        elif limits.max_seconds is not None and limits.passed() > limits.max_seconds:
            reason = ExitReason.TIME
        return reason is not ExitReason.TOLERANCE

    if convex.exit_reason in (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.NONFINITE):
        reason = convex.exit_reason
    most = STEPS if limits.max_iter is None else limits.max_iter
    best: Descent | None = None
    try:
        for start in (convex.X, A):
            V = spectral_start(start, rank)
            stopped = reason is not ExitReason.TOLERANCE
            new = descend(A, V, tol=1e-9, max_iter=0 if stopped else most, stop=stop)
            if best is None or new.value < best.value:
                best = new
            gap = (best.value - bound) / max(1.0, best.value)
            if stopped or gap <= limits.tol:
                break
    except KeyboardInterrupt:
        reason = ExitReason.INTERRUPTED
        if best is None:
            V = spectral_start(convex.X, rank)
            best = Descent(V, distance(A, V), False, 0)
    assert best is not None
    if reason is ExitReason.TOLERANCE and not (best.has_converged or gap <= limits.tol):
        reason = ExitReason.MAX_ITER
    X = best.V @ best.V.T
    np.fill_diagonal(X, 1.0)
    gap = (best.value - bound) / max(1.0, best.value)
    return replace(
        convex,
        X=X,
        factor=best.V,
        rank=rank,
        objective=best.value,
        gap=gap,
        status=Status.OPTIMAL if gap <= limits.tol else Status.FEASIBLE,
        exit_reason=reason,
        max_violation=0.0,
        residual=float(np.linalg.norm(X - A)),
        n_iter=len(history) - 1,
        solver=f"{convex.solver} + factor_descent",
        history=history,
    )


@dataclass(frozen=True, eq=False)
class Descent:
    """A factor with rows of length one, ``|V V' - C|^2 / 2``, whether the search met its own stopping rule, and its steps."""

    V: np.ndarray
    value: float
    has_converged: bool
    n_iter: int


def unit_rows(V: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths; a zero row becomes the first unit vector."""
    length = np.linalg.norm(V, axis=1)
    V = np.where(length[:, None] > 0, V, np.eye(1, V.shape[1]))
    return V / np.where(length > 0, length, 1.0)[:, None]


def spectral_start(C: np.ndarray, k: int) -> np.ndarray:
    """The k leading eigenvectors, scaled, with rows made unit vectors."""
    t, U = eigh(C)
    return unit_rows(U[:, -k:] * np.sqrt(np.maximum(t[-k:], 0.0)))


def distance(C: np.ndarray, V: np.ndarray) -> float:
    """``|V V' - C|^2 / 2``, with the diagonal of V V' taken as exactly 1."""
    E = V @ V.T - C
    np.fill_diagonal(E, 1.0 - np.diag(C))
    return 0.5 * float(np.vdot(E, E))


def descend(C: np.ndarray, V: np.ndarray, *, tol: float, max_iter: int, stop: Callable[[float], bool]) -> Descent:
    """A local minimiser of ``|V V' - C|^2 / 2`` over rows of length one.

    Limited-memory BFGS on free rows, ``V = W / |W|`` (the problem: Grubisic and Pietersz 2007). Rank one, where rows are signs,
    flips one row at a time.

    Parameters
    ----------
    tol : float
        Stops when the largest entry of the gradient is below ``tol`` times the size of C.
    stop : callable
        Called with the value after each step; True ends the search.
    """
    if V.shape[1] == 1:
        return _flip(C, V, max_iter, stop)
    from scipy.optimize import minimize

    n, k = V.shape
    size = max(1.0, float(np.abs(C).sum(axis=1).max()))
    constant = 0.5 * float(((np.diag(C) - 1.0) ** 2).sum())

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        W = w.reshape(n, k)
        length = np.linalg.norm(W, axis=1)[:, None]
        V = W / length
        E = V @ V.T - C
        np.fill_diagonal(E, 0.0)
        G = 2.0 * (E @ V)
        G -= np.einsum("ij,ij->i", G, V)[:, None] * V
        return 0.5 * float(np.vdot(E, E)) / size, (G / length).ravel() / size

    def watch(intermediate_result: Any) -> None:
        if stop(intermediate_result.fun * size + constant):
            raise StopIteration

    if max_iter == 0:
        return Descent(V, distance(C, V), False, 0)
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "gtol": tol, "ftol": 1e-15, "maxcor": 20}
    found = minimize(objective, V.ravel(), jac=True, method="L-BFGS-B", callback=watch, options=options)
    V = unit_rows(found.x.reshape(n, k))
    return Descent(V, distance(C, V), bool(found.success), int(found.nit))


def _flip(C: np.ndarray, V: np.ndarray, max_iter: int, stop: Callable[[float], bool]) -> Descent:
    """Signs: change the row that gains most until none gains; ``|v v' - C|^2`` falls with ``v' C v``."""
    v = np.where(V[:, 0] < 0, -1.0, 1.0)
    off = C - np.diag(np.diag(C))
    field = off @ v
    for step in range(max_iter):
        gain = -v * field
        row = int(np.argmax(gain))
        if not gain[row] > 1e-12 * max(1.0, float(np.abs(off).sum(axis=1).max())):
            return Descent(v[:, None], distance(C, v[:, None]), True, step)
        field -= 2.0 * v[row] * off[:, row]
        v[row] = -v[row]
        if stop(distance(C, v[:, None])):
            break
    return Descent(v[:, None], distance(C, v[:, None]), False, max_iter)
