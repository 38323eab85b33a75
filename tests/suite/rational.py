"""Small quadratic programs in rational arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from bregmat import Status


def solution(K, r):
    """One solution of ``K s = r`` in fractions, None where there is none."""
    rows = [[*row, value] for row, value in zip(K, r, strict=True)]
    n, at, pivots = len(rows[0]) - 1 if rows else 0, 0, []
    for c in range(n):
        p = next((i for i in range(at, len(rows)) if rows[i][c]), None)
        if p is None:
            continue
        rows[at], rows[p] = rows[p], rows[at]
        rows[at] = [value / rows[at][c] for value in rows[at]]
        for i, row in enumerate(rows):
            if i != at and row[c]:
                rows[i] = [a - row[c] * b for a, b in zip(row, rows[at], strict=True)]
        pivots.append(c)
        at += 1
    if any(row[n] for row in rows[at:]):
        return None
    found = [Fraction(0)] * n
    for i, c in enumerate(pivots):
        found[c] = rows[i][n]
    return found


def exact_outcome(A, b, upper, E, e):
    """The status, and the least objective over all choices of zero, free, at the upper bound."""
    n, m, best = len(b), len(e), None
    for side in itertools.product(*[(0, 1, 2) if np.isfinite(u) else (0, 1) for u in upper]):
        F = [i for i in range(n) if side[i] == 1]
        x = [Fraction(int(upper[i])) if side[i] == 2 else Fraction(0) for i in range(n)]
        K = [[Fraction(int(A[i, j])) for j in F] + [Fraction(int(E[r, i])) for r in range(m)] for i in F]
        K += [[Fraction(int(E[r, j])) for j in F] + [Fraction(0)] * m for r in range(m)]
        r = [-int(b[i]) - sum(int(A[i, j]) * x[j] for j in range(n)) for i in F]
        r += [int(e[k]) - sum(int(E[k, j]) * x[j] for j in range(n)) for k in range(m)]
        s = solution(K, r)
        if s is None:
            continue
        for i, value in zip(F, s, strict=False):
            x[i] = value
        if all(x[i] >= 0 and (np.isinf(upper[i]) or x[i] <= int(upper[i])) for i in range(n)):
            curved = sum(x[i] * int(A[i, j]) * x[j] for i in range(n) for j in range(n))
            value = curved / 2 + sum(int(b[i]) * x[i] for i in range(n))
            best = value if best is None else min(best, value)
    box = [(0, None if np.isinf(u) else u) for u in upper]
    if best is None and linprog(np.zeros(n), A_eq=E, b_eq=e, bounds=box).status == 2:
        return Status.INFEASIBLE, None
    along = [(0, 1 if np.isinf(u) else 0) for u in upper]
    flat = np.vstack([A, E])
    if linprog(b, A_eq=flat, b_eq=np.zeros(len(flat)), bounds=along).fun < -1e-7:
        return Status.UNBOUNDED, None
    return Status.OPTIMAL, best
