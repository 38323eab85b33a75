"""Relative loss bounds of the matrix exponentiated gradient update, as numbers (Tsuda 2004, Lemmas 3.1 and 3.2).

For matrices of trace tau the lemmas hold for ``W / tau``, ``tau X`` and the learning rate ``eta / tau``; that is where tau
comes from below. r is the spectral spread: largest minus smallest eigenvalue of every instance. Losses are in units of the loss,
spreads in those of an instance, divergences in those of the trace, and c is dimensionless.
"""

from __future__ import annotations

import math

import numpy as np

from bregmat.base.linalg import eigh


def relative_entropy(U: np.ndarray, log_W: np.ndarray) -> float:
    """``tr(U log U - U log W)``: the divergence of Tsuda 2004 for Hermitian matrices of equal trace; U may be singular."""
    u = np.maximum(eigh(U)[0], 0.0)
    return float((u * np.log(np.where(u > 0, u, 1.0))).sum() - np.real(np.vdot(U, log_W)))


def largest_divergence(log_W: np.ndarray, *, trace: float = 1.0) -> float:
    """Most that ``tr(U log U - U log W)`` can be for U of the same trace: ``tau log(tau / lambda_min(W))``; log d at I / d."""
    return trace * (math.log(trace) - float(eigh(log_W)[0][0]))


def balance(spread: float, divergence: float, *, loss_budget: float, trace: float = 1.0) -> float:
    """``c = r sqrt(2 Delta / l_max)``, for which the bound of Lemma 3.2 is tightest; inf where the budget is 0.

    Parameters
    ----------
    spread : float
        r, positive.
    divergence : float
        Delta, of the comparison matrix from W_1; at least 0.
    loss_budget : float
        l_max, total loss that a good matrix is expected to have; at least 0.
    trace : float
        tau, positive.
    """
    if loss_budget == 0.0:
        return math.inf
    return spread * math.sqrt(2.0 * trace * divergence / loss_budget)


def learning_rate(c: float, spread: float, *, trace: float = 1.0) -> float:
    """``eta = 2 c / (r^2 (2 + c))`` of Lemma 3.2, over tau; ``2 / r^2`` for c = inf."""
    return (2.0 if math.isinf(c) else 2.0 * c / (2.0 + c)) / (trace * spread * spread)


def balance_of_rate(eta: float, spread: float, *, trace: float = 1.0) -> float:
    """The c for which ``eta`` is the learning rate of Lemma 3.2; NaN where eta is too large for any."""
    q = eta * trace * spread * spread
    if q > 2.0 * (1.0 + 1e-12):
        return math.nan
    return math.inf if q >= 2.0 * (1.0 - 1e-12) else 2.0 * q / (2.0 - q)


def total_loss_bound(c: float, divergence: float, *, loss_of_U: float, spread: float, trace: float = 1.0) -> float:
    """``(1 + c/2) L_U + (1/2 + 1/c) r^2 Delta(U, W1)`` (Tsuda 2004, eq. 6); inf for c = NaN.

    Parameters
    ----------
    c : float
        Positive, inf included; NaN where the learning rate has none.
    divergence, loss_of_U, spread, trace : float
        Delta, L_U, r and tau; the first two at least 0, the others positive.
    """
    if math.isnan(c):
        return math.inf
    ours = loss_of_U if loss_of_U == 0.0 else (1.0 + c / 2.0) * loss_of_U
    return ours + (0.5 + 1.0 / c) * trace * spread * spread * divergence


def convex_loss_bound(
    divergence: float, slopes: float, *, loss_of_U: float, eta: float, spread: float, trace: float = 1.0
) -> float:
    """``L_U + Delta(U, W1) / eta + eta r^2 / 8 sum_t g_t^2`` for any convex loss with derivatives g_t.

    The argument of Lemma 3.1 with the loss replaced by its tangent: Golden-Thompson, Lemma A.1 and
    ``log(1 - q (1 - e^p)) <= p q + p^2 / 8``. Not in the paper; known only after the run, since it needs ``slopes``, the sum
    of ``g_t^2``.

    Parameters
    ----------
    divergence, loss_of_U, spread, trace : float
        As in :func:`total_loss_bound`.
    slopes : float
        Sum of the squared derivatives; units of the loss over those of the prediction, squared.
    eta : float
        The learning rate, positive.
    """
    return loss_of_U + divergence / eta + 0.125 * eta * trace * spread * spread * slopes
