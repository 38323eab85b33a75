"""Certificates of problem (P): the dual bound, the objective and the violation of a matrix. Always float64, on unscaled data.

For dual weights ``mu`` of feasible signs, with ``T(mu) = T0 - A*(mu)`` in the domain of the inverse link,
``g(mu) = phi*(T0) - phi*(T(mu)) - sum loss*_i(mu_i)`` is a lower bound of (P).

Rounding is accounted for: what it may have added to the bound is subtracted, and what it may have taken from the objective is added
to ``upper``. The computed eigenvalues of a matrix T are wrong by at most ``E``, a few roundings of its norm and of the terms that it
is the sum of, which changes ``phi*`` by at most ``E |psi(T + E)|``. A sum is wrong by a few roundings of the sizes of its terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.linalg import EPS, add_diagonal, eigvalsh
from bregmat.certificates.nearness import Nearness
from bregmat.certificates.problem import FEASIBLE, Certificate
from bregmat.certificates.restoration import restore
from bregmat.coordinates.iterates import Iterate

MODEST = 8.0  # roundings of a few operations, in units of EPS
UNCERTAIN = 1e-6  # rounding of the value of a hard row, relative to its unit, from which on the row may be missed


@dataclass(frozen=True, eq=False, kw_only=True)
class MatrixCertificate(Certificate):
    """Certificate of a matrix, with the values of its rows and their signed dual weights."""

    iterate: Iterate
    values: np.ndarray

    def in_units(self, problem: Nearness) -> MatrixCertificate:
        """The certificate with all numbers in the user's units."""
        worth, scale = problem.worth, problem.scale
        return replace(
            self,
            objective=self.objective * worth,
            dual_bound=self.dual_bound * worth,
            upper=self.upper * worth,
            size=self.size * worth,
            dual=self.dual * (worth / scale),
            values=self.values * scale,
            missed=None if self.missed is None else self.missed * scale,
        )


def clip_dual(problem: Nearness, mu: np.ndarray) -> np.ndarray:
    """The nearest dual weights in their box; ends of the box that are open are kept away from by a factor of 1 - 1e-12."""
    lower, upper = problem.losses.dual_box
    inside = 1.0 - 1e-12  # leaves infinite ends infinite
    return np.minimum(np.maximum(mu, inside * lower), inside * upper)


def dual_bound(problem: Nearness, mu: np.ndarray) -> tuple[float, np.ndarray]:
    """``g(mu)`` less its rounding, and the weights that it holds for: ``theta mu`` if T(mu) is outside the domain of the inverse link."""
    D, t0 = problem.divergence, problem.t0
    on = np.flatnonzero(mu)
    if not len(on):  # g(0) is exact
        return problem.offset, mu
    rows = problem.operator.restrict(on)
    A = rows.adjoint(mu[on])
    T = add_diagonal(-A, t0)
    if not np.isfinite(T).all():
        return -np.inf, mu
    t = eigvalsh(T)
    terms = (MODEST + len(on)) * EPS * float(np.abs(mu[on]) @ rows.norms())
    error = terms + _relative_error(problem) * float(np.linalg.norm(t))
    if not D.in_domain(t + error):
        theta = _share_in_domain(problem, A)
        if theta == 0.0:
            return -np.inf, mu
        mu, A = theta * mu, theta * A
        t = eigvalsh(add_diagonal(-A, t0))
        if not D.in_domain(t + error):
            return -np.inf, mu
    # g(mu) = (phi*(T0) - phi*(T)) - sum loss*(mu), and the largest rounding of its terms
    rounding = error * float(np.linalg.norm(D.inverse_link(t + error)))
    gain, size = D.dual_gain(t0, A, t)
    rounding += MODEST * EPS * (abs(problem.offset) + size + problem.losses.conjugate_size(mu))
    bound = problem.offset + gain - float(problem.losses.conjugate(mu).sum()) - rounding
    return bound if np.isfinite(bound) else -np.inf, mu


def _share_in_domain(problem: Nearness, A: np.ndarray) -> float:
    """A theta <= 1 with ``T0 - theta A`` in the domain; 0 if none is known.

    For T0 < 0 and the domain T < 0: ``theta lambda_max(|T0|^-1/2 (-A) |T0|^-1/2) < 1``.
    """
    t0 = problem.t0
    if not (t0 < 0).all() or not problem.divergence.keeps_range:
        return 0.0
    root = 1.0 / np.sqrt(-t0)
    top = float(eigvalsh(root[:, None] * -A * root)[-1])
    return min(1.0, 0.999 / top) if top > 0 else 0.0


def _relative_error(problem: Nearness) -> float:
    """Largest error of eigenvalues of order r, and of products of that order, relative to the norm of the matrix."""
    return (MODEST + np.sqrt(problem.r)) * EPS


def value_rounding(problem: Nearness, iterate: Iterate, p: np.ndarray) -> float:
    """The largest rounding of the objective of a matrix whose rows have the values p."""
    eps = _relative_error(problem)
    error = eps * (abs(problem.offset) + iterate.value_size())
    if not problem.losses.hard.all():
        error += problem.losses.value_rounding(p, problem.operator.norms() * _norm(iterate), eps)
    return error


def _norm(iterate: Iterate) -> float:
    """The Frobenius norm of a matrix."""
    return float(np.linalg.norm(iterate.F.T @ iterate.F if iterate.x is None else iterate.x))


def _may_be_missed(problem: Nearness, iterate: Iterate, p: np.ndarray) -> bool:
    """Whether a hard row holds by less than the rounding of its value, which is not small beside its unit."""
    L, unit = problem.losses, problem.unit
    # the entries of F'a are wrong by eps |F| |a|, and the value p = |F'a|^2 by twice that times sqrt(p)
    noise = (
        2.0
        * _relative_error(problem)
        * np.sqrt(np.maximum(np.abs(p), unit) * problem.operator.norms() * _norm(iterate))
    )
    slack = np.where(L.sense == 0, 0.0, -L.sense * (p - L.bound))
    return bool((L.hard & (noise > UNCERTAIN * unit) & (slack <= noise)).any())


def certify(
    problem: Nearness, iterate: Iterate, p: np.ndarray, mu: np.ndarray, allowed: float = FEASIBLE
) -> MatrixCertificate:
    """The certificate of a matrix and dual weights; hard rows are restored to feasibility first, if that succeeds.

    Parameters
    ----------
    problem : Nearness
    iterate : Iterate
        The matrix.
    p, mu : ndarray, shape (c,)
        Values of the rows at the matrix, and signed dual weights.
    allowed : float
        Relative violation above which rows are restored; at most ``FEASIBLE``.
    """
    bound, mu = dual_bound(problem, clip_dual(problem, mu))
    objective, upper, worst, missed = np.nan, np.inf, np.inf, None
    if np.isfinite(p).all():
        L = problem.losses
        iterate, p, violation, worst = with_met_rows(problem, iterate, p, mu, allowed)
        objective = objective_value(problem, iterate, p)  # infinite if a hard row is missed
        if np.isinf(objective):
            objective = objective_value(problem, iterate, p, soft_only=True)
        elif not (L.has_hard and _may_be_missed(problem, iterate, p)):
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


def with_met_rows(
    problem: Nearness, iterate: Iterate, p: np.ndarray, mu: np.ndarray, allowed: float = FEASIBLE
) -> tuple[Iterate, np.ndarray, np.ndarray, float]:
    """The matrix, its values, their violations and the worst one of a hard row; hard rows are restored to feasibility if that succeeds.

    Parameters
    ----------
    problem : Nearness
    iterate : Iterate
        The matrix.
    p, mu : ndarray, shape (c,)
        Values of the rows at the matrix, and signed dual weights.
    allowed : float
        Relative violation above which rows are restored.
    """
    violation, hard = problem.violation(p), problem.losses.hard
    worst = float(violation[hard].max(initial=0.0))
    if allowed < worst < 0.5:
        restored = restore(problem, iterate, p, mu, goal=0.1 * allowed)
        if restored is not None:
            iterate, p = restored
            violation = problem.violation(p)
            worst = float(violation[hard].max(initial=0.0))
    return iterate, p, violation, worst


def objective_value(problem: Nearness, iterate: Iterate, p: np.ndarray, soft_only: bool = False) -> float:
    """``D(M, M0) + sum loss``; hard rows within ``FEASIBLE`` cost nothing.

    Parameters
    ----------
    problem : Nearness
    iterate : Iterate
        The matrix.
    p : ndarray, shape (c,)
        Values of the rows at the matrix.
    soft_only : bool
        Whether hard rows cost nothing whatever their values.
    """
    L = problem.losses
    if L.has_hard:
        met = L.hard & (soft_only | (problem.violation(p) <= FEASIBLE))
        p = np.where(met, L.bound, p)
    total = problem.offset + iterate.value() + L.value(p)
    return float(np.maximum(total, 0.0))  # divergences and losses are negative by rounding only
