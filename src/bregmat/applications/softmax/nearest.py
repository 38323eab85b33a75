"""The matrix nearest to the identity under softmax losses over groups: arguments, span, result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.softmax.newton import MirrorSteps, SemismoothNewton
from bregmat.applications.softmax.problem import SoftmaxGroups, softmax_loss
from bregmat.applications.softmax.scores import PairScores, cosine_scores
from bregmat.base.checks import check_positive, rows_text
from bregmat.base.threads import returns_result
from bregmat.certificates.result import MatrixResult
from bregmat.coordinates.priors import MAX_SHARE, MIN_COLUMNS, Coordinates
from bregmat.coordinates.spans import Span, span_of_vectors
from bregmat.engine.loop import RunLog, compose, solve
from bregmat.engine.result import Kind
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.spectral import SpectralDivergence
from bregmat.typing import DivergenceName


@dataclass(eq=False, repr=False, kw_only=True)
class SoftmaxResult(MatrixResult):
    """The certified matrix of :func:`softmax_metric`.

    In addition to the attributes of :class:`bregmat.MatrixResult`:

    Attributes
    ----------
    dual, values : ndarray, shape (n, m)
        The multipliers ``gamma_i (y_ij - P_ij)`` that prove the bound, where P_i is a distribution over the documents of query i; and the
        scores at the matrix. Model files leave them out.
    """

    _kind: ClassVar[Kind] = replace(
        MatrixResult._kind, statuses=frozenset({Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN})
    )


@returns_result
def softmax_metric(
    scores: PairScores,
    targets: np.ndarray,
    *,
    temperature: float,
    weights: np.ndarray | float = 1.0,
    allowed: np.ndarray | None = None,
    divergence: DivergenceName | SpectralDivergence = "frobenius",
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    start: np.ndarray | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> SoftmaxResult:
    """The positive semidefinite matrix nearest to the identity under softmax losses over groups of scores.

    ``minimize D(W, I) + sum_i gamma_i (temperature * logsumexp_j(v_ij / temperature) - sum_j y_ij v_ij)`` over ``W >= 0``. Use it
    to learn from queries and their answers, or from labelled rows, whose groups are the rows of the same class among all rows. For the
    prior ``kappa I`` multiply the rows of the scores by ``sqrt(kappa)``; the learned matrix is then ``kappa W``.

    Parameters
    ----------
    scores : PairScores
        Scores v of queries and documents, linear in W.
    targets : ndarray, shape (n, m)
        Distribution over the right answers of each query; each row has sum 1.
    temperature : float
        In units of the scores; positive. With a small one only the best wrong answers count.
    weights : float or ndarray, shape (n,)
        Weight gamma of each query; positive.
    allowed : ndarray of bool, shape (n, m), optional
        Which documents are in the group of a query; by default all. Labelled rows exclude themselves.
    divergence : {"frobenius", "logdet", "vonneumann"} or object
        Divergence D; "frobenius" is ``1/2 |W - I|^2``.
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Maximum number of steps; by default 200.
    max_seconds : float, optional
        Limit on wall time.
    start : ndarray, shape (d, d), optional
        First matrix, such as the solution of a similar problem.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    SoftmaxResult

    Raises
    ------
    ValueError
        If a row of targets has no right answer that is allowed.

    Notes
    -----
    Semismooth Newton steps (:class:`bregmat.applications.softmax.newton.SemismoothNewton`) for the Frobenius divergence, otherwise Newton
    steps in mirror coordinates (:class:`bregmat.applications.softmax.newton.MirrorSteps`). If the rows span few dimensions, the problem is
    solved in their span: W differs from the identity there only.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat.applications.softmax import PairScores, softmax_metric
    >>> queries, documents = np.eye(3), np.eye(3) + 0.9 * np.roll(np.eye(3), 1, axis=1)  # query i is answered by document i
    >>> scores = PairScores.inner_products(queries, documents)
    >>> result = softmax_metric(scores, np.eye(3), temperature=0.1)
    >>> print(result.status, result.values.argmax(axis=1))
    OPTIMAL [0 1 2]
    """
    log = RunLog(callback, max_seconds)
    weights = np.broadcast_to(np.asarray(weights, dtype=float), (scores.shape[0],))
    _check(scores, targets, weights, temperature, allowed)
    span = _span(scores)
    inside = scores if span is None else scores.in_basis(span.basis)
    if span is not None and start is not None:
        start = span.basis.T @ start @ span.basis
    D = DIVERGENCES.resolve(divergence)
    problem = SoftmaxGroups(inside, targets, weights, temperature, allowed, D)
    solver = SemismoothNewton() if D.takes_indefinite else MirrorSteps()
    run = solve(problem, solver, tol=tol, max_iter=max_iter, start=start, log=log)
    return compose(
        SoftmaxResult,
        run,
        last=run.state.iterate,
        coordinates=Coordinates(None, problem.t0, span=span, identity=True, is_finite=True),
        violation=np.zeros(0),
    )


def cosine_metric(
    queries: np.ndarray,
    documents: np.ndarray,
    targets: np.ndarray,
    *,
    temperature: float,
    weights: np.ndarray | float = 1.0,
    allowed: np.ndarray | None = None,
    divergence: DivergenceName | SpectralDivergence = "frobenius",
    n_passes: int = 3,
    start: np.ndarray | None = None,
    callback: Callable[[Record], Any] | None = None,
    **limits: Any,
) -> SoftmaxResult:
    """A matrix nearest to the identity under softmax losses of cosines, which are not linear in the matrix.

    Each pass solves the convex problem with the cosines linearised at the solution of the pass before. Passes end when the objective with
    the true cosines no longer falls.

    Parameters
    ----------
    queries, documents : ndarray, shapes (n, d) and (m, d)
    targets, temperature, weights, allowed, divergence
        As in :func:`softmax_metric`.
    n_passes : int
        Largest number of passes.
    start : ndarray, shape (d, d), optional
        The matrix at which cosines are linearised first; by default the identity.
    callback : callable, optional
        Called with the records of all passes; ``stage`` of a record is the number of its pass.
    **limits
        Further arguments of :func:`softmax_metric`, for each pass: tol, max_iter.

    Returns
    -------
    SoftmaxResult
        Of the last pass that lowered the objective with the true cosines (or was interrupted), with the history of all passes. Without
        ``start`` the first pass counts as lower.
    """
    D, W = DIVERGENCES.resolve(divergence), np.eye(queries.shape[1]) if start is None else start
    gamma = np.broadcast_to(np.asarray(weights, dtype=float), (len(queries),))
    history: list[Record] = []
    best: SoftmaxResult | None = None
    before: Record | None = None  # the last record of the pass before

    def loss(W: np.ndarray) -> float:
        """With the true cosines in the metric W."""
        return softmax_loss(cosine_scores(queries, documents, W), targets, gamma, temperature, allowed)[0]

    def record(row: Record) -> Any:
        if before is not None:
            row = replace(
                row,
                iteration=before.iteration + 1 + row.iteration,
                seconds=before.seconds + row.seconds,
                stage=before.stage + 1,
            )
        history.append(row)
        return None if callback is None else callback(row)

    value = np.inf if start is None else D(W, np.eye(len(W))) + loss(W)
    settings: dict[str, Any] = {"temperature": temperature, "weights": weights, "allowed": allowed}
    for _ in range(n_passes):
        before = history[-1] if history else None
        scores = PairScores.cosines(queries, documents, W)
        result = softmax_metric(scores, targets, start=W, divergence=divergence, callback=record, **settings, **limits)
        M = result.coordinates.metric(result.iterate)
        new = result.iterate.value() + loss(M)
        is_lower, is_interrupted = new < value, result.exit_reason is ExitReason.INTERRUPTED
        if best is None or is_lower or is_interrupted:
            best, W, value = result, M, new
        if not is_lower or is_interrupted:
            break
    assert best is not None
    return replace(best, history=history, n_iter=history[-1].iteration, seconds=history[-1].seconds)


def _check(scores: PairScores, targets: np.ndarray, weights: np.ndarray, temperature: float, allowed: Any) -> None:
    """Raise for arguments that define no problem."""
    if targets.shape != scores.shape:
        raise ValueError(f"targets must have shape {scores.shape}, as the scores; got {targets.shape}.")
    inside = targets if allowed is None else np.where(allowed, targets, 0.0)
    wrong = np.flatnonzero(~(np.abs(inside.sum(axis=1) - 1.0) <= 1e-9) | (targets < 0).any(axis=1))
    if len(wrong):
        raise ValueError(
            f"targets must be distributions over allowed documents; got other numbers in {rows_text(wrong)}."
        )
    check_positive("temperature", temperature, finite=True)
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("weights must be positive and finite.")


def _span(scores: PairScores) -> Span | None:
    """The span of all rows; None if it is not worth a change of coordinates."""
    (n, m), d = scores.shape, scores.queries.shape[1]
    if d < MIN_COLUMNS or n + m > MAX_SHARE * d:
        return None
    in_basis = span_of_vectors(np.vstack([scores.queries, scores.documents]))
    return None if in_basis is None else in_basis[1]
