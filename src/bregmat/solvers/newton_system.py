"""The linear systems of the Newton and interior-point solvers, over symmetric matrices and over rows.

Both are an identity or a diagonal plus a positive semidefinite map: ``E + S o A*(h . A(S o E)) = B`` and
``d . y + A(S o S o A*(y)) = rhs``. Small ones are factorised; large ones go to conjugate gradients, with products in float32
where that is accurate enough and a preconditioner: the heaviest rows where they are few, the heaviest entries of the system itself
where they reach far beyond the others, else the Gaussian fourth moment when there are many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve, eigh, symmetrize
from bregmat.base.numerics import conjugate_gradients
from bregmat.operators.linear_maps import Operator, smat, svec

DIRECT_FLOPS = 3e7  # below this a factorisation is cheaper than the overhead of conjugate gradients
SHARED_FLOPS = 2e10  # the same where several right-hand sides share it
BLOCK_FLOPS = 3e9  # and where a block of the system takes the place of the whole
FINER = 1e-3  # of the tolerance on the rows, where conjugate gradients end: one long run of them costs less than two
REFINEMENTS = 4  # of a solution over rows, whose residual is far larger than that over entries where h is large
HEAVY = 100.0  # largest diagonal entry, beside the identity's 1, from where a block of the heaviest pays
HEAVY_ROW = 10.0  # largest row, <A, S o S o A> times its h, from where they are taken as they are
FEW = 60  # conjugate gradient steps without it, where the whole system need not be solved well
LIGHT, BLOCK = 0.1, 1400  # entries, and rows, of at most that stay outside; the order of the block at most
MODERATE = 1e6  # up to where it is formed in float32
SAMPLED, ROWS = 0.1, 4  # size from which every row is taken, and how many rows at most for each entry of the block
SAMPLE_FLOPS = 4e9  # or more where they cost no more than this
MOST_FLOPS = 2e11  # below this it is shared, too, where conjugate gradients took longer the last time


@dataclass(frozen=True)
class LinearSolution:
    """Solution, number of conjugate gradient steps (0 for a factorisation) and norm of the residual."""

    E: np.ndarray
    steps: int
    residual: float


def solve_newton_system(
    op: Operator,
    h: np.ndarray,
    S: np.ndarray | None,
    B: np.ndarray,
    *,
    tol: float,
    max_steps: int = 500,
    direct_flops: float = DIRECT_FLOPS,
    single: bool = True,
    rough: tuple[Operator, np.ndarray] | None = None,
) -> LinearSolution:
    """Solve ``E + S o A*(h . A(S o E)) = B``.

    Parameters
    ----------
    op : Operator
        Rows that take part, in the frame of the iterate.
    h : ndarray, shape (c,)
        Their curvatures, positive.
    S : ndarray, shape (r, r), or None
        Local metric; None is 1 everywhere.
    B : ndarray, shape (r, r)
    tol : float
        Absolute tolerance on the Frobenius norm of the residual.
    single : bool
        Products in float32 where the system is large; the residual is recursive, so keep ``tol`` above 1e-6 |B|.
    rough : (Operator, ndarray), optional
        Fewer rows with weights that make up for the others: the preconditioner is made of them.
    """
    if op.c == 0:
        return LinearSolution(B, 0, 0.0)
    is_small = factor_flops(op) <= direct_flops and not (op.is_sharded and op.c < op.r * (op.r + 1) // 2)
    solve = _by_factor(op, h, S) if is_small else None
    solve = solve or _by_conjugate_gradients(op, h, S, max_steps, single and op.c * op.r > 20_000, rough)
    return solve(B, tol)


def row_system(
    op: Operator, d: np.ndarray, unit: np.ndarray, S: np.ndarray | None, tol: float, effort: int = 0
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, int]]:
    """What solves ``d . y + A_u(S o S o A_u*(y)) = rhs``, ``A_u = A / u``: (y, ``-A_u*(y)``, conjugate gradient steps) of rhs.

    Fewer rows than entries of a matrix: factorised as it is. More: ``E + S o A*(h . A(S o E)) = S o A*(h . rhs)``,
    ``y = h (rhs - A(S o E))``, ``h = 1 / d``. With fewer rows that would cost y as many digits as h has, and h of an active hard
    row passes 1e9.

    Parameters
    ----------
    op : Operator
        Rows in the frame of the iterate.
    d, unit : ndarray, shape (c,)
        Positive.
    S : ndarray, shape (r, r), or None
        Local metric; None is 1 everywhere.
    tol : float
        Relative residual of conjugate gradients.
    effort : int
        How many steps of them the last system took.
    """
    h = 1.0 / d
    m = op.r * (op.r + 1) // 2
    flops = factor_flops(op)
    has_block = op.c >= m and S is not None and op.is_rank_one and not op.is_sharded
    is_small = flops <= max(BLOCK_FLOPS if has_block else SHARED_FLOPS, min(MOST_FLOPS, effort * op.product_flops()))
    if is_small and op.c < m:
        root = np.sqrt(h)
        scale = root / unit
        C, ok = cholesky(add_diagonal(scale[:, None] * op.gram(S) * scale, 1.0))
        if ok:

            def solve_rows(rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
                y = root * cholesky_solve(C, root * rhs)
                return y, -op.adjoint(y / unit), 0

            return solve_rows
    weight = h / (unit * unit)
    inverse = _by_factor(op, weight, S) if is_small and op.c >= m else None
    inverse = inverse or _by_conjugate_gradients(op, weight, S, 2000, False, is_relative=True)

    def solve(rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        y, left, steps, worst = np.zeros(op.c), rhs, 0, np.inf
        for k in range(REFINEMENTS):
            B = op.adjoint(h * left / unit)
            found = inverse(B if S is None else S * B, FINER * tol)
            steps += found.steps
            new = y + h * (left - op.values(found.E if S is None else S * found.E) / unit)
            T = op.adjoint(new / unit)
            left = rhs - d * new - op.values(T if S is None else S * (S * T)) / unit
            residual = float(np.abs(left).max(initial=0.0))
            if k > 0 and not residual < worst:
                break
            y, worst = new, residual
            if not worst > tol * float(np.abs(rhs).max(initial=0.0)):
                break
        return y, -op.adjoint(y / unit), steps

    return solve


def factor_flops(op: Operator) -> float:
    """Operations of a factorisation, over rows or over entries of a matrix."""
    m = op.r * (op.r + 1) // 2
    return float(min(op.c, m)) ** 2 * max(op.c, m)


# right-hand side, tolerance on the norm of the residual -> solution of E + S o A*(h . A(S o E)) = B
Inverse = Callable[[np.ndarray, float], LinearSolution]


def _by_factor(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Inverse | None:
    """Over entries of a matrix or, where there are fewer rows, over them; None where rounding spoils the factor."""
    m = op.r * (op.r + 1) // 2
    if op.c < m:
        few = op.features(S)
        C, ok = cholesky(add_diagonal(few @ few.T, 1.0 / h))  # Woodbury: a c x c system
        if not ok:
            return None
        return lambda B, tol: LinearSolution(smat(svec(B) - few.T @ cholesky_solve(C, few @ svec(B)), op.r), 0, 0.0)
    C, ok = cholesky(add_diagonal(op.normal_matrix(h, S), 1.0))
    return (lambda B, tol: LinearSolution(smat(cholesky_solve(C, svec(B)), op.r), 0, 0.0)) if ok else None


def _by_conjugate_gradients(
    op: Operator,
    h: np.ndarray,
    S: np.ndarray | None,
    most: int,
    single: bool,
    rough: tuple[Operator, np.ndarray] | None = None,
    *,
    is_relative: bool = False,
) -> Inverse:
    """At most so many steps; products in float32 if ``single``; a preconditioner of fewer rows if these are given.

    The tolerance is absolute, on the Frobenius norm of the residual, or relative, on the norm of the preconditioner: near that of the
    system's inverse, in which an entry of the residual counts for what it does to the solution, however heavy the others are.
    """
    whole = (op, h, S)
    heavy = (heavy_rows(*whole) or heavy_block(*whole)) if is_relative else None
    if single:
        op, h = op.astype(np.float32), h.astype(np.float32)
    light = None if heavy is not None else fourth_moment(*(rough or (op, h)), S)
    weighted = op.weighted(h)

    def product(Q: np.ndarray) -> np.ndarray:
        X = Q if S is None else S * Q
        if single:
            size = float(np.abs(X).max())
            W = size * weighted((X / size).astype(np.float32)).astype(np.float64)
        else:
            W = weighted(X)
        return Q + (W if S is None else S * W)

    def solve(B: np.ndarray, tol: float) -> LinearSolution:
        if is_relative:
            precondition = heavy or light
            near = B if precondition is None else precondition(B)
            tol *= float(np.sqrt(max(np.vdot(B, near), 0.0)))
            end = conjugate_gradients(product, B, goal=tol, most=most, precondition=precondition)
            return LinearSolution(symmetrize(end.x), end.steps, end.norm)
        first = most if S is None else min(FEW, most)  # without a metric there is no such block
        end = conjugate_gradients(product, B, goal=tol, most=first, precondition=light, is_euclidean=True)
        if end.norm <= tol or most <= first:
            return LinearSolution(symmetrize(end.x), end.steps, end.norm)
        precondition = heavy_block(*whole) or light  # costs about as much as that many steps
        more = conjugate_gradients(
            product, end.residual, goal=tol, most=most - end.steps, precondition=precondition, is_euclidean=True
        )
        return LinearSolution(symmetrize(end.x + more.x), end.steps + more.steps, more.norm)

    return solve


def heavy_rows(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Preconditioner: all rows of a size above LIGHT as they are, by Woodbury's formula, and the diagonal of the others.

    Late on a path the rows that are active, some hundreds, have all of the condition, spread over more entries than a block has.
    Of more rows than BLOCK the heaviest; None where others would reach beyond the identity, where no row is heavy, without a metric,
    and where rows are not of rank one or sharded.
    """
    if S is None or not op.is_rank_one or op.is_sharded:
        return None
    size = h * op.squared_norms(S * S)
    level = LIGHT
    while level < 1.0 and (size > level).sum() > BLOCK:
        level *= 2.0
    rows = np.flatnonzero(size > level)
    if len(rows) > BLOCK or not size.max(initial=0.0) > HEAVY_ROW:
        return None
    diagonal = 1.0 + S * S * _squares(op, np.where(size > level, 0.0, h))
    heavy, root = op.restrict(rows), np.sqrt(h[rows])
    few: np.ndarray = heavy.features(S / np.sqrt(diagonal)).astype(_dtype(size.max()))
    few *= root[:, None]
    C, ok = cholesky(add_diagonal((few @ few.T).astype(np.float64), 1.0))
    if not ok:
        return None
    back = S / diagonal

    def inverse(R: np.ndarray) -> np.ndarray:
        return R / diagonal - back * heavy.adjoint(root * cholesky_solve(C, root * heavy.values(back * R)))

    return inverse


def _squares(op: Operator, h: np.ndarray) -> np.ndarray:
    """``sum_i h_i A_i o A_i``, for rows of rank one."""
    root, squares = np.sqrt(h), np.zeros((op.r, op.r))
    for first in range(0, op.c, 4096):
        rows = np.arange(first, min(first + 4096, op.c))
        V = op.vectors(rows) * np.sqrt(root[rows])[:, None]
        V *= V
        squares += V.T @ V
    return squares


def _dtype(largest: float) -> type[np.floating]:
    """Of a system whose smallest eigenvalues are 1: half the digits are enough where that is far above their rounding."""
    return np.float32 if largest < MODERATE else np.float64


def heavy_block(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Preconditioner: the block of the heaviest entries of the matrix E from a sample of the rows, and the diagonal of the others.

    Heavy slack and a metric S that falls over many decades leave some entries, and some rows, with all of the condition of the system.
    A row of size q, ``h <A, S o S o A>`` beside the identity's 1, is taken with probability ``q / SAMPLED`` and its weight is
    divided by that: light rows by the thousand count in the mean (q bounds a leverage score: Cohen et al. 2015, "Uniform sampling for
    matrix approximation"). None without a metric, where most entries are heavy; where rows are not of rank one or sharded; and where
    no entry is heavy.
    """
    if S is None or not op.is_rank_one or op.is_sharded:
        return None
    k, l = np.triu_indices(op.r)
    root = np.sqrt(h)
    squares = _squares(op, h)
    weight = np.where(k == l, 1.0, np.sqrt(2.0)) * S[k, l]
    diagonal = weight * weight * squares[k, l]
    if not diagonal.max(initial=0.0) > HEAVY:
        return None
    top = np.argsort(-diagonal, kind="stable")[:BLOCK]
    top = top[diagonal[top] > LIGHT]
    rows, share = _systematic_sample(
        h * op.squared_norms(S * S), max(ROWS * len(top), int(SAMPLE_FLOPS / len(top) ** 2))
    )
    unit = np.sqrt(1.0 + diagonal[top])
    scale = (weight[top] / unit)[:, None]
    dtype = _dtype(diagonal.max())
    columns = np.ascontiguousarray((op.vectors(rows) * np.sqrt(root[rows] / np.sqrt(share))[:, None]).T.astype(dtype))
    scale = scale.astype(dtype)
    H: np.ndarray = np.zeros((len(top), len(top)), dtype)
    for first in range(0, len(rows), 4096):
        part = columns[:, first : first + 4096]
        Phi = part[k[top]]
        Phi *= part[l[top]]
        Phi *= scale
        H += Phi @ Phi.T
    C, ok = cholesky(add_diagonal(H.astype(np.float64), 1.0 / (unit * unit)))
    if not ok:
        return None

    def inverse(R: np.ndarray) -> np.ndarray:
        x = svec(R)
        y = x / (1.0 + diagonal)
        y[top] = cholesky_solve(C, x[top] / unit) / unit
        return smat(y, op.r)

    return inverse


def _systematic_sample(size: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, each taken with probability ``min(1, size / level)``, and their probabilities; about ``most`` at most.

    Evenly spaced places on the sum of the probabilities: no random numbers, and the same rows every time.
    """
    level = SAMPLED
    while (chance := np.minimum(1.0, size / level)).sum() > most:
        level *= 2.0
    places = np.floor(np.cumsum(chance) + 0.5)
    rows = np.flatnonzero(np.diff(places, prepend=0.0) > 0)
    return rows, chance[rows]


def fourth_moment(op: Operator, h: np.ndarray, S: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Preconditioner: rows as if drawn from a Gaussian with their own second moment (Isserlis); None where rows are few or not of rank one.

    With ``C = sum h v v' / N``, ``N = sum h``, the map ``A* h A`` becomes ``s N (2 C E C + tr(C E) C)``, s fitted to the
    trace: diagonal plus rank one in the eigenbasis of C, so its inverse costs four products of order r. A metric S other
    than 1 enters through its diagonal.
    """
    if not op.is_rank_one or op.c < 10 * op.r:
        return None
    N = float(h.sum())
    C = op.adjoint(h) / N
    p = op.values_diagonal(None if S is None else np.diag(S))
    if S is not None:
        root = np.sqrt(np.diag(S))
        root[root < 1e-5 * root.max()] = 0.0  # left alone: mixing them would spoil the relative accuracy of E / S
        C = C * np.multiply.outer(root, root)
    c, V = eigh(symmetrize(C))
    c = np.maximum(c, 0.0)
    s = float((h * p * p).sum()) / max(N * (c.sum() ** 2 + 2.0 * float(c @ c)), 1e-300)
    D = 1.0 + 2.0 * s * N * np.multiply.outer(c, c)
    u = c / np.diag(D)
    bend = s * N / (1.0 + s * N * float((c * u).sum()))

    def inverse(R: np.ndarray) -> np.ndarray:
        X = V.T @ R @ V
        Y = X / D
        add_diagonal(Y, -bend * float(u @ np.diag(X)) * u)
        return V @ Y @ V.T

    return inverse
