"""What the matrix exponentiated gradient learner assumes of a stream, and what becomes of its bound where that fails.

Steps that can be computed and labels that mean something, else an error; instances no wider than promised and labels that a
matrix of the trace can predict, else no bound, with a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bregmat.base.checks import rows_text
from bregmat.online.losses import BuiltInLoss
from bregmat.online.settings import GradientSettings

LARGEST = 1e100  # steps in log W above it are no use and would overflow
ROUNDING = 1e-9


class SpectralSpreadWarning(UserWarning):
    """An instance has a larger spectral spread than promised; the loss bound no longer holds."""


class UnreachableLabelWarning(UserWarning):
    """A label is beyond what any matrix can predict: of the trace, so that none fits the stream within the loss budget; or at all."""


def check_steps(settings: GradientSettings, block: Any, y: np.ndarray, eta: float) -> None:
    """Raise for steps that would overflow.

    Parameters
    ----------
    settings : GradientSettings
    block : instances that the learner has read, n of them
    y : ndarray, shape (n,)
    eta : float
        The learning rate; positive.
    """
    norm = max(1.0, settings.kind.largest_norm(block))
    if not eta * norm * (settings.trace * norm + float(np.abs(y).max())) < LARGEST:
        raise ValueError("X, y and eta together give steps that are too large to compute with; scale X and y.")


def check_labels(settings: GradientSettings, y: np.ndarray) -> None:
    """Raise for labels that the loss or the instances have no meaning for."""
    if isinstance(settings.loss, BuiltInLoss):
        settings.loss.check_labels(y)
    if settings.instances == "pairs" and settings.is_measured:
        least = -1e-12 * settings.trace  # zeros of duplicates may be off by rounding
        if y.min(initial=0.0) < least:
            bad = np.flatnonzero(y < least)
            raise ValueError(
                f"y must be at least 0: half squared distances are not negative; got {y[bad[0]]} in {rows_text(bad)}. "
                "Clip at 0 what is below it by noise."
            )


def why_spread(settings: GradientSettings, block: Any, dim: int, seen: int) -> str | None:
    """Why the instances void the bound, if one has a larger spread than promised: with a warning.

    Parameters
    ----------
    settings, block
        As in :func:`check_steps`.
    dim : int
        Order of the matrices.
    seen : int
        Examples before this block.
    """
    promised = settings.spectral_spread
    spreads = settings.kind.spreads(block, dim, promised)
    bad = np.flatnonzero(spreads > promised * (1.0 + ROUNDING))
    if not len(bad):
        return None
    text = (
        f"the spectral spread of example {seen + bad[0]} is {spreads[bad[0]]:.6g}, above "
        f"spectral_spread={promised:g}: from now on loss_bound() is inf."
    )
    warnings.warn(text, SpectralSpreadWarning, stacklevel=5)
    return text


def unavoidable(settings: GradientSettings, block: Any, y: np.ndarray, dim: int) -> np.ndarray | None:
    """What every matrix of the trace loses on each example, because the label is beyond its eigenvalues; None for nothing.

    Parameters
    ----------
    settings, block, y, dim
        As in :func:`check_steps` and :func:`why_spread`.

    Returns
    -------
    ndarray, shape (n,), or None
        In units of the loss.
    """
    if not settings.is_measured:
        return None
    if settings.instances == "pairs" and y.max() <= settings.trace:  # the rule, and for single pairs no time to lose
        return None
    beyond = settings.kind.beyond(block, dim, y / settings.trace)
    bad = np.abs(beyond) > ROUNDING * max(1.0, settings.kind.largest_norm(block))
    if not bad.any():
        return None
    return np.where(bad, settings.loss.value(y - settings.trace * beyond, y), 0.0)


def why_no_fit(
    settings: GradientSettings, losses: np.ndarray, y: np.ndarray, *, before: float, seen: int
) -> str | None:
    """Why no matrix stays within the loss budget, if these unavoidable losses prove it: with a warning.

    Parameters
    ----------
    settings, y, seen
        As in :func:`check_steps` and :func:`why_spread`.
    losses : ndarray, shape (n,)
        What :func:`unavoidable` gave; units of the loss.
    before : float
        The sum of those of the blocks before; units of the loss.
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
