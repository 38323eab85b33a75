"""AdaBoost as DefiniteBoost for diagonal matrices (Tsuda 2004, 4.3)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy

from bregmat.applications.simplex.rows import build, floats
from bregmat.applications.simplex.steppers import Booster
from bregmat.columns import rows_text
from bregmat.solvers.definite_boost import DefiniteBoost


def boost_hypotheses(H: Any, y: Any, *, n_steps: int = 100, sample_weight: Any = None) -> BoostResult:
    """AdaBoost over given weak hypotheses that predict with confidence (Tsuda 2004, 4.3).

    Each step takes the hypothesis of largest edge ``r = sum_i w_i y_i H_ij`` with the weight
    ``log[(1 + r) / (1 - r)] / 2`` and multiplies the example weights by ``exp(-weight y_i H_ij)``.

    Parameters
    ----------
    H : array-like or scipy.sparse, shape (d, n)
        Predictions of n hypotheses on d examples, in [-1, 1]. Add ``-H`` as further columns where negative edges are to count.
    y : array-like, shape (d,)
        Labels, -1 or 1.
    n_steps : int
        Steps; fewer where no hypothesis has a positive edge any more.
    sample_weight : array-like, shape (d,), optional
        First example weights, > 0 somewhere; normalised. None is ``1 / d``.

    Returns
    -------
    BoostResult

    Raises
    ------
    ValueError, TypeError
        For labels other than -1 and 1, predictions outside [-1, 1], shapes that do not fit.

    Notes
    -----
    DefiniteBoost(projection="approximate", corrected=False, spectrum=(-1, 1)) with ``A = (y H)'`` and the rows ``A w <= 0``,
    run on whatever is proven: where a combination separates the sample no w meets the rows, and AdaBoost goes on. A
    perfect hypothesis (r = 1) has a finite weight of about 17. For learning weak hypotheses too: scikit-learn's
    ``AdaBoostClassifier``. A step costs d n operations.
    """
    y = floats("y", y, 1)
    bad = np.flatnonzero(np.abs(y) != 1)
    if len(bad):
        raise ValueError(f"y must be -1 or 1; got {y[bad[0]]} in {rows_text(bad)}.")
    H = _predictions(H)
    if H.shape[0] != len(y):
        raise ValueError(f"H must have one row per label ({len(y)}); got shape {H.shape}.")
    if isinstance(n_steps, bool) or not (isinstance(n_steps, int | np.integer) and n_steps >= 0):
        raise ValueError(f"n_steps must be an integer of at least 0; got {n_steps!r}.")
    w = np.ones(len(y)) if sample_weight is None else floats("sample_weight", sample_weight, 1)
    if len(w) != len(y):
        raise ValueError(f"sample_weight must have one entry per label ({len(y)}); got {len(w)}.")
    bad = np.flatnonzero(~((w >= 0) & (w < np.inf)))
    if len(bad) or not w.any():
        what = f"got {w[bad[0]]} in {rows_text(bad)}" if len(bad) else "all are 0"
        raise ValueError(f"sample_weight must be finite, not negative and somewhere positive; {what}.")
    problem, support = build(w / w.sum(), (H * y[:, None]).T, 0.0, "<=", 1.0)
    settings = DefiniteBoost(projection="approximate", corrected=False, spectrum=(-1.0, 1.0), violation_tol=1e-300)
    step = Booster(settings, problem)
    at = problem.point(np.zeros(H.shape[1]))
    while len(step.trace["row"]) < n_steps and not at.done:
        at = step(at)
    weights = np.zeros(len(y))
    weights[support] = at.x
    trace = {name: np.array(column) for name, column in step.trace.items()}
    return BoostResult(
        at.mu,
        weights,
        trace["row"].astype(int),
        trace["step"],
        np.exp(trace["log_dual_objective"]),
        np.exp(trace["log_bound"]),
    )


def _predictions(H: Any) -> Any:
    """A matrix of numbers in [-1, 1], dense or sparse."""
    sparse = scipy.sparse.issparse(H)
    H = scipy.sparse.csr_array(H, dtype=float) if sparse else floats("H", H, 2)
    at = np.flatnonzero(~(np.abs(H.data if sparse else H.ravel()) <= 1))
    if len(at):
        rows = np.searchsorted(H.indptr, at, side="right") - 1 if sparse else at // H.shape[1]
        first = (H.data if sparse else H.ravel())[at[0]]
        raise ValueError(f"H must lie in [-1, 1]; got {first} in {rows_text(np.unique(rows))}.")
    return H


@dataclass(frozen=True, eq=False)
class BoostResult:
    """What AdaBoost found.

    Attributes
    ----------
    weights : ndarray, shape (n,)
        Of the hypotheses, >= 0.
    sample_weight : ndarray, shape (d,)
        Of the examples after the last step; they sum to 1.
    rows : ndarray of int, shape (n_steps,)
        Hypothesis taken in each step.
    steps : ndarray, shape (n_steps,)
        What its weight grew by.
    loss : ndarray, shape (n_steps,)
        Exponential loss ``sum_i w1_i exp(-y_i f(x_i))`` after each step; the training error is at most this.
    bound : ndarray, shape (n_steps,)
        Product of the ``rho(r_t)`` of Theorem 4.1, which the loss stays below.
    """

    weights: np.ndarray
    sample_weight: np.ndarray
    rows: np.ndarray
    steps: np.ndarray
    loss: np.ndarray
    bound: np.ndarray

    def decision_function(self, H: Any) -> np.ndarray:
        """Weighted votes ``H @ weights``, shape (d,), from predictions (d, n) on any examples."""
        H = _predictions(H)
        if H.shape[1] != len(self.weights):
            raise ValueError(f"H must have one column per hypothesis ({len(self.weights)}); got shape {H.shape}.")
        return H @ self.weights

    def predict(self, H: Any) -> np.ndarray:
        """Labels -1 or 1, shape (d,); a tied vote is 1."""
        return np.where(self.decision_function(H) >= 0, 1, -1)

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`."""
        return {}, {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> BoostResult:
        """Inverse of :meth:`to_state`."""
        return cls(**{f.name: arrays[f.name] for f in fields(cls)})

    def __repr__(self) -> str:
        loss = f"{self.loss[-1]:.3g}" if len(self.loss) else "1"
        return (
            f"BoostResult({len(self.rows)} steps, {np.count_nonzero(self.weights)} hypotheses, exponential loss {loss})"
        )
