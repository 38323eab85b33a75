"""What is proven about a point: dual bound, gap, violation, restoration to feasibility, infeasibility. Always float64, on unscaled data.

For any sign-feasible ``mu``, with ``T(mu) = T0 - A*(mu)`` in the domain of the inverse link,
``g(mu) = phi*(T0) - phi*(T(mu)) - sum loss*_i(mu_i)`` is a lower bound of (P). What rounding may have added to it is taken off, and what
it may have taken from the objective is added to ``upper``: eigenvalues are wrong by the rounding of the matrix that they are of
(``E``, below), by which ``phi*`` grows by at most ``E |psi(T + E)|``; sums by that of the sizes of their terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.linalg import EPS, add_diagonal, cholesky, cholesky_solve, eigvalsh, symmetrize
from bregmat.base.numerics import conjugate_gradients
from bregmat.certificates.nearness import Nearness
from bregmat.certificates.problem import FEASIBLE, Certificate
from bregmat.constraints.columns import excess_of
from bregmat.coordinates.iterates import Iterate
from bregmat.operators.linear_maps import Operator

MODEST = 8.0  # roundings of a few operations
EXACT = 1e-4  # share of the largest violation by which restored rows hold with room, and to which systems are solved for them
FEW, MOST = 55.0, 1000.0  # steps of conjugate gradients that restoration takes, as measured, and may take
STEP = 3e5  # operations that the calls of a step cost beside its own


@dataclass(frozen=True, eq=False, kw_only=True)
class MatrixCertificate(Certificate):
    """A matrix, its rows' values and signed dual weights, and what they prove together."""

    iterate: Iterate
    values: np.ndarray

    def in_units(self, problem: Nearness) -> MatrixCertificate:
        """The certificate of a point of the problem in the user's units."""
        worth, scale = problem.worth, problem.scale
        numbers = {name: getattr(self, name) * worth for name in ("objective", "dual_bound", "upper", "size")}
        missed = None if self.missed is None else self.missed * scale
        return replace(self, **numbers, dual=self.dual * (worth / scale), values=self.values * scale, missed=missed)


def clip_dual(problem: Nearness, mu: np.ndarray) -> np.ndarray:
    """Nearest sign-feasible dual weights, inside the open ends of the box."""
    lower, upper = (np.where(np.isfinite(end), end * (1 - 1e-12), end) for end in problem.losses.dual_box)
    return np.minimum(np.maximum(mu, lower), upper)


def dual_bound(problem: Nearness, mu: np.ndarray) -> tuple[float, np.ndarray]:
    """``g(mu)``, less its rounding, and the weights it holds for: shrunk by theta if T(mu) leaves the domain of the inverse link."""
    D, t0 = problem.divergence, problem.t0
    on = np.flatnonzero(mu)
    if not len(on):  # nothing is computed
        return problem.offset, mu
    rows = problem.operator.restrict(on)
    A = rows.adjoint(mu[on])
    T = add_diagonal(-A, t0)
    if not np.isfinite(T).all():
        return -np.inf, mu
    t = eigvalsh(T)
    terms = (MODEST + len(on)) * EPS * float(np.abs(mu[on]) @ rows.norms())
    error = terms + _share(problem) * float(np.linalg.norm(t))
    if not D.in_domain(t + error):
        root = 1.0 / np.sqrt(-t0) if (t0 < 0).all() else None
        low = -float(eigvalsh(root[:, None] * -A * root)[-1]) if root is not None and D.keeps_range else 0.0
        if not low < 0:
            return -np.inf, mu
        theta = min(1.0, 0.999 / -low)
        mu, A = theta * mu, theta * A
        T = add_diagonal(-A, t0)
        t = eigvalsh(T)
        if not D.in_domain(t + error):
            return -np.inf, mu
    total = float(problem.losses.conjugate(mu).sum())
    rounding = error * float(np.linalg.norm(D.inverse_link(t + error)))
    rounding += MODEST * EPS * (abs(problem.offset) + D.gain_size(t0, A, t) + problem.losses.conjugate_size(mu))
    bound = problem.offset + D.dual_gain(t0, A, t) - total - rounding
    return bound if np.isfinite(bound) else -np.inf, mu


def _share(problem: Nearness) -> float:
    """Norm of the error of an eigendecomposition, relative to that of the matrix; also of forms and products of that order."""
    return (MODEST + np.sqrt(problem.r)) * EPS


def value_rounding(problem: Nearness, iterate: Iterate, p: np.ndarray) -> float:
    """What rounding may have taken from the objective of a matrix, whose rows have the values p."""
    size = abs(problem.offset) + iterate.value_size()
    if not problem.losses.hard.all():
        norm = np.linalg.norm(iterate.F.T @ iterate.F if iterate.x is None else iterate.x)
        size += problem.losses.value_size(p, problem.operator.norms() * norm)
    return _share(problem) * size


def certify(
    problem: Nearness, iterate: Iterate, p: np.ndarray, mu: np.ndarray, allowed: float = FEASIBLE
) -> MatrixCertificate:
    """The certificate of a matrix and dual weights; hard rows are restored to feasibility first, if they can be.

    Parameters
    ----------
    problem : Nearness
    iterate : Iterate
        The matrix.
    p, mu : ndarray, shape (c,)
        Values of the rows at it, and signed dual weights.
    allowed : float
        Relative violation from which rows are restored; at most ``FEASIBLE``, which suffices where their weights are moderate.
    """
    mu = clip_dual(problem, mu)
    bound, mu = dual_bound(problem, mu)
    objective, upper, worst, missed = np.nan, np.inf, np.inf, None
    if np.isfinite(p).all():
        L = problem.losses
        violation = problem.violation(p)
        worst = float(violation[L.hard].max(initial=0.0))
        if worst > allowed and worst < 0.5:
            restored = restore(problem, iterate, p, mu, goal=0.1 * allowed)
            if restored is not None:
                iterate, p = restored
                violation = problem.violation(p)
                worst = float(violation[L.hard].max(initial=0.0))
        objective = objective_value(problem, iterate, p) if worst <= FEASIBLE else np.inf
        if np.isinf(objective):
            objective = objective_value(problem, iterate, p, soft_only=True)
        else:
            missed = np.where(L.hard, violation * problem.unit, 0.0)
            upper = objective + float(np.abs(mu) @ missed) + value_rounding(problem, iterate, p)
    return MatrixCertificate(
        iterate=iterate,
        values=p,
        dual=mu,
        objective=objective,
        dual_bound=bound,
        upper=upper,
        violation=worst,
        size=problem.size,
        missed=missed,
    )


def objective_value(problem: Nearness, iterate: Iterate, p: np.ndarray, soft_only: bool = False) -> float:
    """``D(M, M0) + sum loss``; hard rows within ``FEASIBLE`` cost nothing.

    Parameters
    ----------
    problem : Nearness
    iterate : Iterate
        The matrix.
    p : ndarray, shape (c,)
        Values of the rows at it.
    soft_only : bool
        Whether hard rows cost nothing whatever their values.
    """
    L = problem.losses
    if L.has_hard:
        met = L.hard & (soft_only | (problem.violation(p) <= FEASIBLE))
        p = np.where(met, L.bound, p)
    total = problem.offset + iterate.value() + L.value(p)
    return float(np.maximum(total, 0.0))  # divergences and losses are never negative, but for rounding


Move = Callable[[Nearness, Iterate, np.ndarray, np.ndarray], Iterate | None]


def restore(
    problem: Nearness,
    iterate: Iterate,
    p: np.ndarray,
    mu: np.ndarray,
    rounds: int = 8,
    goal: float = 0.1 * FEASIBLE,
) -> tuple[Iterate, np.ndarray] | None:
    """The matrix brought to where active and violated hard rows have the values they must have; None where that fails.

    Every step stays in the cone; of two kinds of steps the one that costs less is tried first. Rows with a multiplier are brought
    onto their bounds; if that fails (without dual corrections, rows with a multiplier may hold with room), only violated rows.

    Parameters
    ----------
    problem : Nearness
    iterate : Iterate
        The matrix.
    p, mu : ndarray, shape (c,)
        Values of the rows at it, and dual weights, which say which rows are active.
    rounds : int
        Most steps.
    goal : float
        Relative violation at which there are no more of them; where they do not get there, ``FEASIBLE`` suffices.
    """
    L = problem.losses
    equal = L.hard & (L.sense == 0)
    weight = np.abs(mu) * problem.unit  # of a row and its bound, in whatever units
    heavy = L.hard & (weight > 1e-13 * max(1e-300, weight.max(initial=0.0)))
    moves = _by_congruence, _by_newton
    if _steps_of_a_factor(problem.operator, int((heavy | equal).sum())) > FEW:
        moves = _by_newton, _by_congruence
    for move in moves:
        restored = _restored(problem, iterate, p, heavy | equal, rounds, goal, move)
        if restored is not None:
            return restored
    if (problem.violation(p)[heavy] > 1e-3).any():  # far from feasible: nothing that a smaller system would change
        return None
    return _restored(problem, iterate, p, equal, rounds, goal, _by_congruence)


def _restored(
    problem: Nearness, iterate: Iterate, p: np.ndarray, active: np.ndarray, rounds: int, goal: float, move: Move
) -> tuple[Iterate, np.ndarray] | None:
    """One attempt of :func:`restore`."""
    L = problem.losses
    hard, s = L.hard, L.sense.astype(float)
    for k in range(rounds):
        excess = excess_of(p, L.bound, s)
        worst = float(np.max(excess[hard] / problem.unit[hard], initial=0.0))
        if worst <= goal:
            break
        margin = (EXACT * max(worst, 0.0) + 1e-13) * problem.unit
        on = active | (hard & (excess > -margin))
        if k == 0:
            on[problem.parallel_rows.idle] = False  # met once the tighter row of the same matrix is, but for rounding
        rows = np.flatnonzero(on)
        if not len(rows):  # rounding alone, which the next round sees to
            continue
        want = np.where(s == 0, L.bound - p, -s * (np.maximum(excess, 0.0) + margin))
        want = np.where((s != 0) & (excess <= 0), np.where(active, -s * (excess + margin), 0.0), want)[rows]
        moved = move(problem, iterate, rows, want)
        if moved is None:
            return None
        iterate, p = moved, problem.operator.congruence(moved.F).values_diagonal(moved.x)
        if not np.isfinite(p).all():
            return None
    if float(np.max(problem.violation(p)[hard], initial=0.0)) > FEASIBLE:
        return None
    return iterate, p


def _by_congruence(problem: Nearness, iterate: Iterate, rows: np.ndarray, want: np.ndarray) -> Iterate | None:
    """``M <- B (I + A_B*(c)) B'`` with ``M = B B'`` and c from the Gram matrix of the rows."""
    B = iterate.factor()
    if B.shape[1] == 0 or len(rows) > 6000:
        return None
    X = problem.operator.congruence(B).restrict(rows)
    G = X.gram()
    C, ok = cholesky(add_diagonal(G, 1e-12 * np.maximum(np.diag(G), 1e-280)), is_used_up=True)
    if not ok:
        return None
    E = symmetrize(X.adjoint(cholesky_solve(C, want)))
    C, ok = cholesky(add_diagonal(E, 1.0))
    return iterate.with_factor(B @ C) if ok else None


def _by_newton(problem: Nearness, iterate: Iterate, rows: np.ndarray, want: np.ndarray) -> Iterate | None:
    """``T <- T + A*(c)``, Newton's step to these values, by conjugate gradients: the nearest such matrix, to first order.

    Without a matrix over the rows, and where there are more of them than the range of M has entries.
    """
    X, S = problem.operator.congruence(iterate.F).restrict(rows), iterate.metric()
    Psi = None if S is None else S * S
    D = np.maximum(X.squared_norms(Psi), 1e-300)

    def product(v: np.ndarray) -> np.ndarray:
        A = X.adjoint(v)
        return X.values(A if Psi is None else Psi * A)

    goal = EXACT * float(np.sqrt(want @ (want / D)))
    most = int(min(max(2.0 * FEW, _steps_of_a_factor(problem.operator, len(rows))), MOST))
    end = conjugate_gradients(product, want, goal=goal, most=most, precondition=lambda r: r / D)
    if not end.norm <= goal:
        return None
    A = X.adjoint(end.x)
    return iterate.moved(A, A, 1.0)


def _steps_of_a_factor(op: Operator, n: int) -> float:
    """Steps of conjugate gradients on n rows that cost what their Gram matrix and its factor do."""
    return n * n * (n / 3 + op.r) / (4.0 * min(n, op.n_vectors) * op.r**2 + STEP)
