"""AdaBoost, which is DefiniteBoost for diagonal matrices (Tsuda 2004, 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.simplex.subproblems import log_sum
from bregmat.base.checks import as_column, as_matrix, check_integer, check_limits, rows_text
from bregmat.base.threads import returns_result
from bregmat.engine.loop import Run, RunLog, compose, repeat
from bregmat.engine.problem import Certificate
from bregmat.engine.result import Kind, Result
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.solvers.definite_boost import approximate_step, log_step_bound
from bregmat.typing import Labels, Points, Values


@returns_result
def boost_hypotheses(
    H: Points,
    y: Labels,
    *,
    n_steps: int = 100,
    sample_weight: Values | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> BoostResult:
    """Combine given weak hypotheses by AdaBoost with confidence-rated predictions (Tsuda 2004, 4.3).

    Each step takes the hypothesis with the largest edge ``r = sum_i w_i y_i H_ij`` with the weight
    ``log[(1 + r) / (1 - r)] / 2`` and multiplies the example weights by ``exp(-weight y_i H_ij)``.

    Parameters
    ----------
    H : array-like or scipy.sparse, shape (d, n)
        Predictions of n hypotheses on d examples, in [-1, 1]. Append the columns of ``-H`` to use hypotheses with negative edges.
    y : array-like, shape (d,)
        Labels, -1 or 1.
    n_steps : int
        Largest number of steps. The run ends early when no hypothesis has a positive edge.
    sample_weight : array-like, shape (d,), optional
        Nonnegative weights of the examples, not all 0; they are normalised. By default all are ``1 / d``.
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
        For labels other than -1 and 1, predictions outside [-1, 1], and shapes that do not match.

    Notes
    -----
    This is DefiniteBoost for diagonal matrices with the interval [-1, 1], approximate projections and no dual corrections. The weight
    of a perfect hypothesis (r = 1) is limited to about 17. A step costs d n operations. scikit-learn's ``AdaBoostClassifier`` also
    learns the weak hypotheses.

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
    used = w > 0
    log_first = np.log(w[used] / w.sum())
    log = RunLog(callback, max_seconds)
    method = AdaBoost((H * y[:, None]).T[:, used], log_first)
    reason, _ = repeat(method, int(n_steps), log)
    tol = 1e-300  # of the gap, which does not end the run
    certificate, own_rule = method.certificate(), method.is_finished
    run = Run(log, certificate, tol, reason, "definite_boost", len(method.steps), by_own_rule=own_rule)
    T = log_first - method.weights @ method.A
    sample_weights = np.zeros(len(y))
    sample_weights[used] = np.exp(T - log_sum(T))
    rows, steps, log_losses, log_bounds = np.array(method.steps).reshape(-1, 4).T
    return compose(
        BoostResult,
        run,
        weights=method.weights,
        sample_weight=sample_weights,
        rows=rows.astype(int),
        steps=steps,
        loss=np.exp(log_losses),
        bound=np.exp(log_bounds),
    )


class AdaBoost:
    """The hypothesis with the largest edge, and the step that minimises the bound of Theorem 4.1 (Tsuda 2004).

    It minimises the exponential loss ``sum_i w1_i exp(-margin_i)``, which is bounded below by 0. ``margin = A' weights`` with the rows
    ``A_ji = y_i H_ij``, shape (n, d), and ``log_first`` holds the logarithms of the first weights w1 of the examples, shape (d,).
    """

    def __init__(self, A: Any, log_first: np.ndarray) -> None:
        self.A, self.weights = A, np.zeros(A.shape[0])
        self.log_terms, self.log_loss, self.log_bound = log_first, log_sum(log_first), 0.0
        # hypothesis, step, and logarithms of the loss and its bound
        self.steps: list[tuple[int, float, float, float]] = []
        self.is_finished = False  # whether no hypothesis has a positive edge

    def certificate(self) -> Certificate:
        """The loss of the combination."""
        loss = float(np.exp(self.log_loss))
        return Certificate(dual=self.weights, objective=loss, upper=loss, dual_bound=0.0)

    def measure(self, is_last: bool) -> dict[str, float]:
        """The figures of the combination."""
        return self.certificate().figures

    def ended(self) -> ExitReason | None:
        """TOLERANCE if no edge is positive."""
        return ExitReason.TOLERANCE if self.is_finished else None

    def step(self) -> None:
        """One step, if an edge is positive."""
        edges = self.A @ np.exp(self.log_terms - self.log_loss)
        j = int(edges.argmax())
        r = min(float(edges[j]), 1.0)  # rounding may lift it above 1
        self.is_finished = not r > 0.0
        if self.is_finished:
            return
        # log[(1 + r) / (1 - r)] / 2
        alpha = approximate_step(r, -1.0, 1.0)
        row, weights = self.A[[j]], self.weights.copy()
        weights[j] += alpha
        log_terms = self.log_terms - alpha * (row if isinstance(row, np.ndarray) else row.toarray())[0]
        log_loss, log_bound = log_sum(log_terms), self.log_bound + log_step_bound(r, -1.0, 1.0, alpha)
        # all at once, so that Ctrl-C during the step leaves the last combination
        self.weights, self.log_terms, self.log_loss, self.log_bound = weights, log_terms, log_loss, log_bound
        self.steps.append((j, alpha, self.log_loss, self.log_bound))


def _predictions(H: Any) -> Any:
    """Check a dense or sparse matrix of numbers in [-1, 1]."""
    H = as_matrix("H", H, sparse="csr")
    rows, columns = (abs(H) > 1).nonzero()
    if len(rows):
        raise ValueError(f"H must lie in [-1, 1]; got {H[rows[0], columns[0]]} in {rows_text(np.unique(rows))}.")
    return H


@dataclass(eq=False, repr=False, kw_only=True)
class BoostResult(Result):
    """A weighted combination of hypotheses; ``objective`` is the exponential loss, and ``dual_bound`` is 0.

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    weights : ndarray, shape (n,)
        Nonnegative weights of the hypotheses.
    sample_weight : ndarray, shape (d,)
        Weights of the examples after the last step; they sum to 1.
    rows : ndarray of int, shape (n_steps,)
        The hypothesis of each step.
    steps : ndarray, shape (n_steps,)
        The increase of its weight.
    loss : ndarray, shape (n_steps,)
        Exponential loss ``sum_i w1_i exp(-y_i f(x_i))`` after each step; the training error is at most this.
    bound : ndarray, shape (n_steps,)
        The upper bound of the loss from Theorem 4.1: the product of the ``rho(r_t)``.

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

    _kind: ClassVar[Kind] = Kind(
        "combination of hypotheses",
        statuses=frozenset({Status.OPTIMAL, Status.FEASIBLE}),
        shown=("objective", "n_hypotheses"),
        advice={
            ExitReason.TOLERANCE: "No hypothesis has a positive edge any more.",
            ExitReason.MAX_ITER: "Raise n_steps for a smaller loss.",
            ExitReason.TIME: "Raise max_seconds for a smaller loss.",
        },
    )

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses with a positive weight."""
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
