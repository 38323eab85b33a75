"""Checks of the functions of a divergence or a loss that a user has defined: they must belong together, as all proofs assume."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.objective.spectral import STEP, SpectralDivergence


def check_divergence(D: SpectralDivergence) -> None:
    """Raise unless link and inverse link belong to phi, which all proofs use, and unless only LogDet claims invariance."""
    x = np.array([0.03, 0.5, 1.0, 3.0, 20.0])
    h = STEP * x
    t = D.link(x)
    _check_elementwise("divergence", D.name, {"phi": D.phi(x), "link": t, "inverse_link": D.inverse_link(t)}, x)
    if not (np.diff(t) > 0).all():
        raise ValueError(f"divergence {D.name!r}: link must increase; got {t} at {x}.")
    _check_agreement("divergence", D.name, "inverse_link must be the inverse of link", x, D.inverse_link(t), x)
    slope = (D.phi(x + h) - D.phi(x - h)) / (2.0 * h)
    _check_agreement("divergence", D.name, "link must be the derivative of phi", x, slope, t)
    if D.is_congruence_invariant and not np.allclose(t, -1.0 / x, rtol=1e-12):
        raise ValueError(
            f"divergence {D.name!r}: only LogDet is invariant under congruence; is_congruence_invariant must be False."
        )


def check_loss(loss: Any) -> None:
    """Raise unless slope and its inverse belong to the cost of a scalar loss, which all proofs use; other losses are not checked."""
    if not callable(getattr(loss, "at_slope", None)):
        return
    q, c = np.array([0.2, 0.9, 1.0, 1.1, 3.0]), np.ones(5)
    h = STEP * q
    cost, m = loss.cost(q, c), loss.slope(q, c)
    _check_elementwise("loss", loss.name, {"cost": cost, "slope": m, "at_slope": loss.at_slope(m, c)}, q)
    if not (np.diff(m) > 0).all() or not np.abs([cost[2], m[2]]).max() <= 1e-12:
        raise ValueError(
            f"loss {loss.name!r}: slope must increase, and cost and slope must be 0 at the bound; got {cost}, {m}."
        )
    _check_agreement("loss", loss.name, "at_slope must be the inverse of slope", q, loss.at_slope(m, c), q)
    slope = (loss.cost(q + h, c) - loss.cost(q - h, c)) / (2.0 * h)
    _check_agreement("loss", loss.name, "slope must be the derivative of cost", q, slope, m)


def _check_elementwise(kind: str, name: str, values: dict[str, Any], x: np.ndarray) -> None:
    """Raise unless every function returned one finite value for each argument in x; ``values`` are what they returned, by name."""
    for function, value in values.items():
        if np.shape(value) != x.shape or not np.isfinite(value).all():
            raise ValueError(f"{kind} {name!r}: {function} must give one finite value for each of {x}; got {value!r}.")


def _check_agreement(
    kind: str, name: str, claim: str, x: np.ndarray, computed: np.ndarray, expected: np.ndarray
) -> None:
    """Raise if two ways to compute numbers at x (k,) differ by more than difference quotients and rounding explain."""
    bad = np.flatnonzero(~(np.abs(computed - expected) <= 1e-5 * (np.abs(expected).max() + np.abs(computed).max())))
    if len(bad):
        k = bad[0]
        raise ValueError(f"{kind} {name!r}: {claim}; at {x[k]:g} got {computed[k]:.8g} instead of {expected[k]:.8g}.")
