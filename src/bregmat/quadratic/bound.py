"""Lower bounds of a nonnegative quadratic program that are proofs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bregmat.quadratic.program import QuadraticProgram

UNIT = 1.2e-16  # half a unit in the last place, and a little
PERTURBATION = 1e-12  # of the linear term, relative to its unit, that counts as rounding
BLOCK = 256  # rows of A in extended precision at a time


def implied_upper(program: QuadraticProgram) -> np.ndarray:
    """Upper bounds, shape (n,), with those that single equality rows and the box imply."""
    upper = program.upper.copy()
    noise = UNIT * (program.n + 4)
    for row, total in zip(program.E, program.e, strict=True):
        for a, t in ((row, total), (-row, -total)):
            raised, lowered = a > 0.0, a < 0.0
            least = float((a[lowered] * upper[lowered]).sum())
            if least == -np.inf or not raised.any():
                continue
            room = t - least + noise * (abs(t) - least)
            upper[raised] = np.minimum(upper[raised], max(room, 0.0) * (1.0 + 4 * UNIT) / a[raised])
    return upper


def bound_at_zero(program: QuadraticProgram) -> float:
    """The bound of ``z = 0`` without multipliers, ``sum_i u_i min(0, b_i)``: 0 where no b is negative; else perhaps -inf."""
    falling = program.b < 0.0
    return float((implied_upper(program)[falling] * program.b[falling]).sum()) * (1.0 + UNIT * (program.n + 4))


def curvature(
    program: QuadraticProgram, x: np.ndarray, product: np.ndarray, *, precise: bool = False
) -> tuple[float, float]:
    """``x'Ax`` and what its rounding may be, in units of the objective.

    Parameters
    ----------
    program : QuadraticProgram
    x, product : ndarray, shape (n,)
        A point and ``A x``.
    precise : bool
        In extended precision, in place of ``x'product``.
    """
    root = program.root
    length = float(root @ np.abs(x))
    terms = length * length
    count = np.count_nonzero(x) + 4
    if not precise:
        return float(x @ product), UNIT * count * terms
    support = np.flatnonzero(x)
    u = x[support].astype(np.longdouble)
    total: Any = np.longdouble(0.0)
    for k in range(0, len(support), BLOCK):
        rows = support[k : k + BLOCK]
        total += u[k : k + BLOCK] @ (program.A[np.ix_(rows, support)].astype(np.longdouble) @ u)
    value = float(total)
    return value, float(np.finfo(np.longdouble).eps) * count * terms + UNIT * abs(value)


def lower_bound(
    program: QuadraticProgram,
    x: np.ndarray,
    multiplier: np.ndarray,
    directions: Iterable[tuple[np.ndarray, np.ndarray | None]] = (),
    *,
    product: np.ndarray | None = None,
    precise: bool = False,
) -> float:
    """A number that the objective is nowhere below, from any point and any multipliers of the equality.

    With ``h = A z + b + E' multiplier``, convexity gives for every point of the problem, and for every z,
    ``F >= -1/2 z'Az - multiplier'e + sum_i u_i min(0, h_i)``, where ``h_i >= 0`` is needed on variables without an
    upper bound. ``z = x`` has ``h_i < 0`` by rounding, if not by more; so z = x + delta w, with the smallest delta that
    makes ``h_i`` at least the rounding error of its computation on every variable that is not at its upper bound. Upper bounds
    that the rows imply count; where ``A_ii = 0``, the multipliers are moved in place of z.

    Parameters
    ----------
    program : QuadraticProgram
        A is taken to be positive semidefinite.
    x : ndarray, shape (n,)
        Any point, usually near the solution.
    multiplier : ndarray, shape (m,)
    directions : iterable of pairs of ndarray, shape (n,)
        Candidates for w, and their products A w where they are known (else None), tried in turn until one works; the best have
        ``A w > 0`` where h is too small, such as ``A_FF^-1 1`` on the free variables.
    product : ndarray, shape (n,), optional
        ``A x``, where it is known.
    precise : bool
        Extended precision for ``x'Ax`` and for h wherever it is or may be negative: for problems whose terms cancel, or with
        far bounds.

    Returns
    -------
    float
        -inf where no candidate gives a bound.

    Notes
    -----
    Rounding: ``|A| |x|`` is bounded through ``|A_ij|^2 <= A_ii A_jj``; what ``x'Ax`` may lose is taken off. Cost: n^2 for
    each candidate.
    """
    A = program.A
    upper = implied_upper(program)
    unlimited = np.isinf(upper)
    multiplier = _lifted(program, multiplier, unlimited)
    root = program.root
    Ax = A @ x if product is None else product
    h, size = _reduced(program, x, multiplier, Ax, precise=precise)
    xAx, lost = curvature(program, x, Ax, precise=precise)
    constant = _held(program, multiplier)
    cap = np.where(unlimited, 0.0, upper)
    low_terms = cap * np.minimum(h - size, 0.0)
    direct = -0.5 * (xAx + lost) - constant + float(low_terms.sum())
    need = size - h
    best = -np.inf if (unlimited & (need > 0.0)).any() else direct
    # a bound far above x costs as much as its product with rounding: then it is better not to use it
    loss = -float(low_terms[x < upper].sum())
    if best > -np.inf and loss <= 1e-12 * max(abs(direct), xAx):
        return best
    short = (x < upper) & (need > 0.0)
    length = float(root @ np.abs(x))
    for w, known in directions:
        if not np.isfinite(w).all():
            continue
        q = A @ w if known is None else known
        long = float(root @ np.abs(w))
        count = np.count_nonzero(w) + 4
        low = q - UNIT * count * root * long
        able = low > 0.0
        if (short & unlimited & ~able).any() or not (short & able).any():
            continue
        delta = float((need[short & able] / low[short & able]).max(initial=0.0)) * (1.0 + 1e-12)
        if (unlimited & (delta * low < need)).any():
            continue
        quadratic = xAx + lost + delta * (2.0 * float(w @ Ax) + delta * float(w @ q))
        quadratic += UNIT * (count + len(x)) * delta * long * (2.0 * length + delta * long)
        raised = np.minimum(h - size + delta * np.minimum(q, low), 0.0)
        best = max(best, -0.5 * quadratic - constant + float(cap @ raised))
        if not (short & ~able).any():
            return best
    return best


def _reduced(
    program: QuadraticProgram, x: np.ndarray, multiplier: np.ndarray, Ax: np.ndarray, *, precise: bool
) -> tuple[np.ndarray, np.ndarray]:
    """``A x + b + E' multiplier`` and the rounding error of every entry."""
    E = program.E
    root = program.root
    terms = root * float(root @ np.abs(x)) + np.abs(program.b)
    count = np.count_nonzero(x) + len(E) + 4  # products with zeros are exact
    h = Ax + program.b
    exact = np.zeros(len(h), dtype=bool)
    if len(E):
        h = h + multiplier @ E
        terms = terms + np.abs(multiplier) @ np.abs(E)
        # a slack: nothing but one product of a row
        exact = (root == 0.0) & (Ax == 0.0) & (program.b == 0.0) & (np.count_nonzero(E, axis=0) == 1)
    size = np.where(exact, 0.0, UNIT * count * terms)
    if precise:
        doubtful = np.flatnonzero((h < size) & ~exact)
        h[doubtful], size[doubtful] = _extended(program, x, multiplier, doubtful, terms[doubtful])
    return h, size


def _held(program: QuadraticProgram, multiplier: np.ndarray) -> float:
    """``multiplier'e`` and what its rounding may be."""
    e = program.e
    return float(multiplier @ e) + UNIT * (len(e) + 4) * float(np.abs(multiplier) @ np.abs(e))


def _lifted(program: QuadraticProgram, multiplier: np.ndarray, unlimited: np.ndarray) -> np.ndarray:
    """Multipliers near those given for which no reduced gradient of a variable with ``A_ii = 0`` is negative, if that is easy."""
    E = program.E
    flat = np.flatnonzero(unlimited & (program.diagonal <= 0.0))
    if not len(E) or not len(flat):
        return multiplier
    part, b = E[:, flat], program.b[flat]
    alone = (b == 0.0) & (np.count_nonzero(part, axis=0) == 1)
    noise = UNIT * (len(E) + 4)
    y = multiplier.copy()
    for _ in range(4):
        h = b + y @ part
        terms = np.abs(b) + np.abs(y) @ np.abs(part)
        short = h < np.where(alone, 0.0, noise * terms)
        if not short.any():
            return y
        goal = 2.0 * noise * terms[short] - h[short]
        y = y + np.linalg.lstsq(part[:, short].T, goal, rcond=None)[0]
    return multiplier


def _extended(
    program: QuadraticProgram, x: np.ndarray, multiplier: np.ndarray, rows: np.ndarray, terms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Some entries of the reduced gradient in extended precision, rounded, and their error; ``terms``: sums of absolute values."""
    long = np.longdouble
    support = np.flatnonzero(x)
    h = program.b[rows].astype(long)
    u = x[support].astype(long)
    for k in range(0, len(rows), BLOCK):
        h[k : k + BLOCK] += program.A[np.ix_(rows[k : k + BLOCK], support)].astype(long) @ u
    E = program.E
    if len(E):
        h += multiplier.astype(long) @ E[:, rows].astype(long)
    unit = float(np.finfo(long).eps) * (len(support) + len(E) + 4)
    rounded = h.astype(np.float64)
    return rounded, unit * terms + UNIT * np.abs(rounded)


def perturbed_bound(
    program: QuadraticProgram, x: np.ndarray, multiplier: np.ndarray, product: np.ndarray, unit: float
) -> tuple[float, float]:
    """A bound for b raised where the reduced gradient is too low by rounding, and by how much, relative to ``unit``.

    For problems that no direction helps, because a direction ``d >= 0`` with ``A d = 0`` and ``b'd = 0`` leads from optimum to
    optimum: the least change of b downwards makes them unbounded, so that in rounded arithmetic nothing is proven of
    b itself. What the change adds to the objective of x is taken off, so that the bound holds for b itself at every point that
    is no farther out than x. ``-inf`` where more than ``PERTURBATION`` is missing.

    Parameters
    ----------
    program : QuadraticProgram
    x, product : ndarray, shape (n,)
        A point and ``A x``.
    multiplier : ndarray, shape (m,)
    unit : float
        Size of the linear term that matters, in units of b.
    """
    multiplier = _lifted(program, multiplier, np.isinf(program.upper))
    upper = implied_upper(program)
    h, size = _reduced(program, x, multiplier, product, precise=True)
    unlimited = np.isinf(upper)
    short = np.where(unlimited, np.maximum(size - h, 0.0), 0.0)
    if not float(short.max()) <= PERTURBATION * unit:
        return -np.inf, np.inf
    cap = np.where(unlimited, 0.0, upper)
    xAx, lost = curvature(program, x, product, precise=True)
    constant = _held(program, multiplier)
    value = -0.5 * (xAx + lost) - constant + float(cap @ np.minimum(h - size, 0.0)) - float(short @ x)
    return value, float(short.max()) / unit
