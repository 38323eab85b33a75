"""The threshold on the distance of similar pairs, chosen by labelled pairs."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from bregmat.typing import Calibration

STRATEGIES = get_args(Calibration)


def check_calibration(strategy: Any = "accuracy", min_rate: Any = None, beta: Any = 1.0) -> None:
    """Raise for parameters of :func:`calibrated` that are invalid for any pairs, in the words of metric-learn.

    Parameters
    ----------
    strategy, min_rate, beta
        As in :func:`calibrated`.
    """
    if strategy not in STRATEGIES:
        raise ValueError(
            f'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". Got "{strategy}" instead.'
        )
    if strategy in ("max_tpr", "max_tnr") and not (isinstance(min_rate, int | float) and 0 <= min_rate <= 1):
        raise ValueError(f"Parameter min_rate must be a number in[0, 1]. Got {min_rate} instead.")
    if strategy == "f_beta" and not isinstance(beta, int | float):
        raise ValueError(f"Parameter beta must be a real number. Got {type(beta)} instead.")


def calibrated(
    distances: np.ndarray,
    y: np.ndarray,
    strategy: Calibration = "accuracy",
    min_rate: float | None = None,
    beta: float = 1.0,
) -> float:
    """The best threshold by a strategy; pairs whose distance is at most the threshold are predicted to be similar.

    Parameters
    ----------
    distances : ndarray, shape (m,)
        Not squared.
    y : ndarray, shape (m,)
        1 for similar pairs, -1 for dissimilar ones.
    strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
        Maximise the accuracy; the F-score; the true positive rate, or the true negative rate, with the other one at least ``min_rate``.
    min_rate : float, optional
        0 to 1.
    beta : float
        Weight of recall relative to precision in the F-score.

    Returns
    -------
    float
        One of the distances, or the smallest minus one if it is best to predict no pair to be similar. Of equally good thresholds the
        smallest is returned; for the rates, the one with the best other rate.

    Raises
    ------
    ValueError
        No threshold reaches ``min_rate``, because no pair is of the class of that rate.
    """
    order = np.argsort(distances, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(distances[order]) > 0, True))  # pairs of equal distance cannot be separated
    # number of similar pairs found, and of dissimilar pairs accepted, for each threshold
    found, wrong = (np.append(0, np.cumsum(y[order] == sign)[ends]) for sign in (1, -1))
    thresholds = np.append(distances[order[0]] - 1.0, distances[order[ends]])
    n_similar, n_dissimilar = found[-1], wrong[-1]
    refused = n_dissimilar - wrong
    if strategy == "accuracy":
        best = int(np.argmax(found + refused))
    elif strategy == "f_beta":
        # (1 + beta^2) precision recall / (beta^2 precision + recall)
        below = beta**2 * n_similar + found + wrong
        best = int(np.argmax(np.divide((1 + beta**2) * found, below, out=np.zeros(len(found)), where=below > 0)))
    else:
        shares = found / max(n_similar, 1), refused / max(n_dissimilar, 1)
        sought, other = shares if strategy == "max_tpr" else shares[::-1]
        allowed = np.flatnonzero(other >= min_rate)
        if not len(allowed):
            kind = "dissimilar" if strategy == "max_tpr" else "similar"
            raise ValueError(f"no threshold reaches min_rate={min_rate} with {strategy}: there is no {kind} pair.")
        best = int(max(allowed, key=lambda k: (sought[k], other[k])))
    return float(thresholds[best])
