"""Bounds on the total loss of the matrix exponentiated gradient update (Tsuda 2004, Lemmas 3.1 and 3.2).

The paper has matrices of trace one. Matrices of trace tau are reduced to these by ``W / tau``, ``tau X`` and the learning rate
``eta / tau``, which gives the factors tau below. The spectral spread r is an upper bound of the largest minus the smallest
eigenvalue of every instance. Losses are in units of the loss, spreads in units of an instance, divergences in units of the trace;
c and q are dimensionless.
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


def tightest_rate(divergence: float, *, loss_budget: float, spread: float, trace: float = 1.0) -> float:
    """The learning rate for which the bound of Lemma 3.2 is tightest: ``2 c / (tau r^2 (2 + c))`` with ``c = r sqrt(2 tau Delta / l_max)``.

    Parameters
    ----------
    divergence, loss_budget, spread, trace : float
        ``Delta(U, W_1)``, l_max, r and tau. If the divergence or the loss budget is 0, c is infinite.
    """
    largest = 2.0 / (trace * spread * spread)
    if loss_budget == 0.0 or divergence == 0.0:
        return largest
    c = spread * math.sqrt(2.0 * trace * divergence / loss_budget)
    return largest * c / (2.0 + c)


def squared_loss_bound(divergence: float, *, loss_of_U: float, eta: float, spread: float, trace: float = 1.0) -> float:
    """The bound ``(1 + c/2) L_U + (1/2 + 1/c) tau r^2 Delta(U, W_1)`` of Lemma 3.2 (Tsuda 2004, eq. 6), with the c of the learning rate.

    In terms of ``q = eta tau r^2 = 2 c / (2 + c)`` it is ``2 L_U / (2 - q) + Delta(U, W_1) / eta``; inf for q > 2, which belongs to no c.

    Parameters
    ----------
    divergence, loss_of_U, eta, spread, trace : float
        ``Delta(U, W_1)``, L_U, the learning rate, r and tau.
    """
    q = eta * trace * spread * spread
    if q > 2.0 * (1.0 + 1e-12):
        return math.inf
    if loss_of_U == 0.0:
        return divergence / eta
    # q = 2, up to rounding, is c = inf
    return math.inf if q >= 2.0 * (1.0 - 1e-12) else 2.0 * loss_of_U / (2.0 - q) + divergence / eta


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
