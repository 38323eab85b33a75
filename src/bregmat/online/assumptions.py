"""Assumptions of the loss bound of the matrix exponentiated gradient learner, checked on every block of examples.

Steps that would overflow and labels without a meaning raise an error. Instances with a larger spectral spread than promised make
the bound infinite, with one warning. So do labels that no matrix of the trace can predict with a total loss within the loss budget.
"""

from __future__ import annotations

import warnings
from typing import TypeAlias

import numpy as np

from bregmat.base.checks import rows_text
from bregmat.online.losses import BuiltInLoss
from bregmat.online.settings import GradientSettings

Extremes: TypeAlias = tuple[np.ndarray, np.ndarray]

LARGEST = 1e100  # larger steps in log W would overflow
ROUNDING = 1e-9


class SpectralSpreadWarning(UserWarning):
    """An instance has a larger spectral spread than promised; the loss bound no longer holds."""


class UnreachableLabelWarning(UserWarning):
    """A label cannot be predicted by any matrix of the learner's trace within the loss budget, or by any metric."""


def _largest_norm(extremes: Extremes) -> float:
    """The largest spectral norm of the instances, at least 1."""
    return max(1.0, -float(extremes[0].min()), float(extremes[1].max()))


def check_steps(settings: GradientSettings, extremes: Extremes, y: np.ndarray, eta: float) -> None:
    """Raise for steps that would overflow.

    Parameters
    ----------
    settings, extremes, y, eta
        ``extremes`` are the smallest and the largest eigenvalue of each instance, two arrays of shape (n,).
    """
    norm = _largest_norm(extremes)
    # |eta l'(p, y) X| with |p| <= trace |X|, for a loss whose derivative grows at most linearly
    if not eta * norm * (settings.trace * norm + float(np.abs(y).max())) < LARGEST:
        raise ValueError("X, y and eta together give steps that are too large to compute with; scale X and y.")


def check_labels(settings: GradientSettings, y: np.ndarray) -> None:
    """Raise for labels that the loss does not allow, and for negative distances."""
    if isinstance(settings.loss, BuiltInLoss):
        settings.loss.check_labels(y)
    if settings.instances == "pairs" and settings.is_measured:
        least = -1e-12 * settings.trace  # a distance of 0 between duplicates may be negative by rounding
        if y.min(initial=0.0) < least:
            bad = np.flatnonzero(y < least)
            raise ValueError(
                f"y must be at least 0: half squared distances are not negative; got {y[bad[0]]} in {rows_text(bad)}. "
                "Clip at 0 what is below it by noise."
            )


def why_too_wide(settings: GradientSettings, extremes: Extremes, seen: int) -> str | None:
    """Warn of an instance whose spectral spread is larger than promised, and return why no bound holds; ``seen``: examples before."""
    promised = settings.spectral_spread
    if settings.instances == "pairs" and promised >= 1.0:  # every pair has the spread 1; saves time for single pairs
        return None
    # Lemma 3.1 assumes lambda_max(X_t) - lambda_min(X_t) <= r
    spreads = extremes[1] - extremes[0]
    bad = np.flatnonzero(spreads > promised * (1.0 + ROUNDING))
    if not len(bad):
        return None
    text = (
        f"the spectral spread of example {seen + bad[0]} is {spreads[bad[0]]:.6g}, above "
        f"spectral_spread={promised:g}: from now on loss_bound() is inf."
    )
    warnings.warn(text, SpectralSpreadWarning, stacklevel=5)
    return text


def unavoidable_losses(settings: GradientSettings, extremes: Extremes, y: np.ndarray) -> np.ndarray | None:
    """The smallest loss of a matrix of the trace on each example, since some labels are out of reach; None if all are 0."""
    if not settings.is_measured:
        return None
    if settings.instances == "pairs" and y.max() <= settings.trace:  # within reach; saves time for single pairs
        return None
    # trace lambda_min(X) <= tr(U X) <= trace lambda_max(X)
    nearest = np.clip(y, settings.trace * extremes[0], settings.trace * extremes[1])
    is_bad = np.abs(y - nearest) > ROUNDING * settings.trace * _largest_norm(extremes)
    return np.where(is_bad, settings.loss.value(nearest, y), 0.0) if is_bad.any() else None


def why_no_fit(
    settings: GradientSettings, losses: np.ndarray, y: np.ndarray, *, before: float, seen: int
) -> str | None:
    """Warn if unavoidable losses exceed the loss budget, and return why no matrix is within it; else None.

    Parameters
    ----------
    settings, losses, y, before, seen
        The losses of these examples, their sum in the examples before, and the number of these.
    """
    total = before + np.cumsum(losses)
    over = np.flatnonzero(total > settings.loss_budget * (1.0 + ROUNDING))
    if not len(over):
        return None
    t = int(over[0])
    text = (
        f"{settings.no_matrix()}: the label {y[t]:.6g} of example {seen + t} is beyond what one of that trace can predict; "
        "raise trace, which has to match the scale of the labels, or loss_budget"
    )
    warnings.warn(f"{text}. loss_bound() is inf.", UnreachableLabelWarning, stacklevel=5)
    return text
