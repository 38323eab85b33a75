"""Bounds on the total loss of the matrix exponentiated gradient update (Tsuda 2004, Lemmas 3.1 and 3.2).

The paper has matrices of trace one. Matrices of trace tau are reduced to these by ``W / tau``, ``tau X`` and the learning rate
``eta / tau``, which gives the factors tau below. The spectral spread r is an upper bound of the largest minus the smallest
eigenvalue of every instance. Losses are in units of the loss, spreads in units of an instance, divergences in units of the trace;
c is dimensionless.
"""

from __future__ import annotations

import math

import numpy as np

from bregmat.base.linalg import eigh


def relative_entropy(U: np.ndarray, log_W: np.ndarray) -> float:
    """``Delta(U, W) = tr(U log U - U log W)``, the von Neumann divergence of matrices of equal trace; U may be singular."""
    u = np.maximum(eigh(U)[0], 0.0)
    # 0 log 0 = 0
    return float((u * np.log(np.where(u > 0, u, 1.0))).sum() - np.real(np.vdot(U, log_W)))


def largest_divergence(log_W: np.ndarray, *, trace: float = 1.0) -> float:
    """The largest ``Delta(U, W)`` over U of the trace tau of W: ``tau log(tau / lambda_min(W))``, which is log d for ``W = I / d``."""
    return trace * (math.log(trace) - float(eigh(log_W)[0][0]))


def balance(spread: float, divergence: float, *, loss_budget: float, trace: float = 1.0) -> float:
    """The c for which the bound of Lemma 3.2 is tightest: ``r sqrt(2 tau Delta / l_max)``; inf for a loss budget of 0.

    Parameters
    ----------
    spread, divergence, loss_budget, trace : float
        r, ``Delta(U, W_1)``, l_max and tau; r and tau are positive.
    """
    if loss_budget == 0.0:
        return math.inf
    return spread * math.sqrt(2.0 * trace * divergence / loss_budget)


def learning_rate(c: float, spread: float, *, trace: float = 1.0) -> float:
    """The learning rate of Lemma 3.2, ``eta = 2 c / (tau r^2 (2 + c))``; ``2 / (tau r^2)`` for c = inf."""
    return (2.0 if math.isinf(c) else 2.0 * c / (2.0 + c)) / (trace * spread * spread)


def balance_of_rate(eta: float, spread: float, *, trace: float = 1.0) -> float:
    """The c whose learning rate in Lemma 3.2 is ``eta``, the inverse of :func:`learning_rate`; NaN if eta is too large for any c."""
    # q = 2 c / (2 + c), which is below 2; equality is c = inf, up to rounding
    q = eta * trace * spread * spread
    if q > 2.0 * (1.0 + 1e-12):
        return math.nan
    return math.inf if q >= 2.0 * (1.0 - 1e-12) else 2.0 * q / (2.0 - q)


def total_loss_bound(c: float, divergence: float, *, loss_of_U: float, spread: float, trace: float = 1.0) -> float:
    """The bound ``(1 + c/2) L_U + (1/2 + 1/c) tau r^2 Delta(U, W_1)`` of Lemma 3.2 (Tsuda 2004, eq. 6); inf for c = NaN.

    Parameters
    ----------
    c, divergence, loss_of_U, spread, trace : float
        c, ``Delta(U, W_1)``, L_U, r and tau; c may be inf.
    """
    if math.isnan(c):
        return math.inf
    of_U = 0.0 if loss_of_U == 0.0 else (1.0 + c / 2.0) * loss_of_U  # inf * 0 would be NaN
    return of_U + (0.5 + 1.0 / c) * trace * spread * spread * divergence


def convex_loss_bound(
    divergence: float, slopes: float, *, loss_of_U: float, eta: float, spread: float, trace: float = 1.0
) -> float:
    """The bound ``L_U + Delta(U, W_1) / eta + eta tau r^2 / 8 sum_t g_t^2`` for any convex loss with derivatives g_t.

    It is not in the paper. The proof is that of Lemma 3.1 with the loss replaced by its tangent: the Golden-Thompson inequality,
    Lemma A.1 and ``log(1 - q (1 - e^p)) <= p q + p^2 / 8``. It is known only after the run.

    Parameters
    ----------
    divergence, slopes, loss_of_U, eta, spread, trace : float
        ``Delta(U, W_1)``, ``sum_t g_t^2``, L_U, the learning rate, r and tau.
    """
    return loss_of_U + divergence / eta + 0.125 * eta * trace * spread * spread * slopes
