"""AdaBoost as DefiniteBoost for diagonal matrices (Tsuda 2004, 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from bregmat.applications.simplex.problem import DistributionCertificate, DistributionState, NearestDistribution
from bregmat.applications.simplex.solvers import VectorBoost
from bregmat.base.checks import as_column, as_matrix, check_integer, check_limits, rows_text
from bregmat.base.threads import tells_interrupts
from bregmat.certificates.status import Status
from bregmat.run.loop import solve
from bregmat.run.result import ExitReason, Record, Result
from bregmat.solvers.definite_boost import DefiniteBoost
from bregmat.typing import Labels, Points, Values

TOL = 1e-300  # of the gap to 0: the run ends by its steps, or where no edge is left


@tells_interrupts
def boost_hypotheses(
    H: Points,
    y: Labels,
    *,
    n_steps: int = 100,
    sample_weight: Values | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> BoostResult:
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
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per step with a Record, whose objective is the exponential loss; returning True stops.

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

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import boost_hypotheses
    >>> H = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]])  # three hypotheses, each wrong once
    >>> y = np.array([1, 1, 1, -1])
    >>> result = boost_hypotheses(H, y, n_steps=10)
    >>> bool((np.sign(H @ result.weights) == y).all())
    True
    """
    y = as_column("y", y)
    bad = np.flatnonzero(np.abs(y) != 1)
    if len(bad):
        raise ValueError(f"y must be -1 or 1; got {y[bad[0]]} in {rows_text(bad)}.")
    H = _predictions(H)
    if H.shape[0] != len(y):
        raise ValueError(f"H must have one row per label ({len(y)}); got shape {H.shape}.")
    check_integer("n_steps", n_steps, 0, optional=False)
    check_limits(tol=1.0, max_seconds=max_seconds, callback=callback)
    w = np.ones(len(y))
    if sample_weight is not None:
        w = as_column("sample_weight", sample_weight, len(y), per="label", lowest=0.0)
        if not w.any():
            raise ValueError("sample_weight must be somewhere positive; all are 0.")
    problem, support = _Boosting.build(w / w.sum(), (H * y[:, None]).T, 0.0, "<=", 1.0)
    settings = DefiniteBoost(projection="approximate", corrected=False, spectrum=(-1.0, 1.0), violation_tol=1e-300)
    limits: dict[str, Any] = {"max_iter": int(n_steps), "max_seconds": max_seconds, "callback": callback}
    outcome = solve(problem, VectorBoost(settings), tol=TOL, **limits)
    weights, trace = np.zeros(len(y)), outcome.trace
    weights[support] = np.exp(outcome.certificate.logx)
    return BoostResult(
        **outcome.shared() | {"trace": {}, "n_iter": len(trace["row"])},
        weights=outcome.certificate.dual / problem.factor,
        sample_weight=weights,
        rows=trace["row"],
        steps=trace["step"],
        loss=np.exp(trace["log_dual_objective"]),
        bound=np.exp(trace["log_bound"]),
    )


class _Boosting(NearestDistribution):
    """AdaBoost's problem: the exponential loss, bounded below by 0; it goes on whatever is proven of the rows."""

    def certify(self, state: DistributionState) -> DistributionCertificate:
        """The loss is what the weights of the hypotheses have reached."""
        return DistributionCertificate(
            logx=state.logx,
            missed=np.zeros(0),
            values=state.p,
            dual=state.mu,
            dual_bound=0.0,
            **dict.fromkeys(("objective", "upper"), self._loss(state)),
        )

    def is_due(self, state: DistributionState, tol: float) -> bool:
        """At the end only."""
        return False

    def estimate(self, state: DistributionState, works_on: str) -> dict[str, float]:
        """The loss of every step."""
        return {"objective": self._loss(state), "dual_bound": 0.0, "violation": 0.0}

    def contradiction(self, state: DistributionState) -> None:
        """Where a combination separates the sample no distribution meets the rows: what AdaBoost looks for."""
        return

    def _loss(self, state: DistributionState) -> float:
        """``sum_i w1_i exp(-y_i f(x_i))``: the normaliser that the dual objective is minus the logarithm of."""
        return float(np.exp(-state.objective))


def _predictions(H: Any) -> Any:
    """A matrix of numbers in [-1, 1], dense or sparse."""
    sparse = scipy.sparse.issparse(H)
    H = scipy.sparse.csr_array(H, dtype=float) if sparse else as_matrix("H", H)
    entries = H.data if sparse else H.ravel()
    at = np.flatnonzero(~(np.abs(entries) <= 1))
    if len(at):
        rows = np.searchsorted(H.indptr, at, side="right") - 1 if sparse else at // H.shape[1]
        raise ValueError(f"H must lie in [-1, 1]; got {entries[at[0]]} in {rows_text(np.unique(rows))}.")
    return H


@dataclass(eq=False, repr=False, kw_only=True)
class BoostResult(Result):
    """What AdaBoost found; ``objective`` is the exponential loss, which nothing but 0 is known to bound from below.

    Beside what all results have (:class:`bregmat.Result`):

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

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import boost_hypotheses
    >>> result = boost_hypotheses(np.array([[1.0], [1.0], [-1.0]]), [1, -1, -1], n_steps=5)
    >>> round(result.objective, 4)  # the exponential loss: 2 sqrt(2) / 3
    0.9428
    """

    weights: np.ndarray
    sample_weight: np.ndarray
    rows: np.ndarray
    steps: np.ndarray
    loss: np.ndarray
    bound: np.ndarray

    noun: ClassVar[str] = "combination of hypotheses"
    statuses: ClassVar[frozenset[Status]] = frozenset({Status.OPTIMAL, Status.FEASIBLE})
    shown: ClassVar[tuple[str, ...]] = ("objective", "n_hypotheses")
    advice_for: ClassVar[dict[ExitReason, str]] = {
        ExitReason.TOLERANCE: "No hypothesis has a positive edge any more.",
        ExitReason.MAX_ITER: "Raise n_steps for a smaller loss.",
        ExitReason.TIME: "Raise max_seconds for a smaller loss.",
    }

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses with a weight."""
        return int(np.count_nonzero(self.weights))

    def decision_function(self, H: Points) -> np.ndarray:
        """Weighted votes ``H @ weights``, shape (d,), from predictions (d, n) on any examples."""
        H = _predictions(H)
        if H.shape[1] != len(self.weights):
            raise ValueError(f"H must have one column per hypothesis ({len(self.weights)}); got shape {H.shape}.")
        return H @ self.weights

    def predict(self, H: Points) -> np.ndarray:
        """Labels -1 or 1, shape (d,); a tied vote is 1."""
        return np.where(self.decision_function(H) >= 0, 1, -1)
