"""The strategy "softmax": every labelled row is a query, and the other rows of its class are its right answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.applications.softmax import PairScores, SoftmaxResult, cosine_metric, softmax_metric
from bregmat.base.checks import generator
from bregmat.base.linalg import dense, product, sq_norms
from bregmat.coordinates.priors import MAX_SHARE, MIN_COLUMNS
from bregmat.coordinates.spans import span_of_vectors
from bregmat.estimators.base import callback_of
from bregmat.from_labels.groups import drawn_rows

# Temperature of distances, in units of half their median square, and of cosines. From 0.1 to 0.2, and for weights from 50 to 300, accuracy
# hardly changes (docs/defaults.md).
TEMPERATURE = 0.1
WEIGHT = 100.0  # of the mean loss of a query for a slack weight of 1
COSINE_PASSES = 3  # how often cosines are linearised, also where candidates are compared
# Largest number of rows of a problem, which has a score for each pair of rows. Of more rows, a sample is drawn.
MOST_POINTS = 2000
N_PAIRS = 10_000  # from which the median squared distance is estimated


def why_no_softmax(task: Any) -> str:
    """Why nothing can be learned with the softmax loss, as the text of an error; empty if it can."""
    learner = task.learner
    if task.constraints is not None:
        return 'strategy="softmax" learns from labels only: leave out constraints, or choose "neighbors".'
    if task.is_in_blocks:
        return 'strategy="softmax" is not available where points are processed in blocks.'
    if learner.slack_weight == np.inf:
        return 'slack_weight must be finite with strategy="softmax", whose loss is never 0; got inf.'
    for name, value, usual in (("loss", learner.loss, None), ("solver", learner.solver, "auto")):
        if value != usual:
            return f'{name}={value!r} is not available with strategy="softmax": leave it out.'
    return ""


def learn_softmax(task: Any, X: Any, P: np.ndarray | None) -> SoftmaxResult:
    """The metric ``P W P'`` of which W minimises the softmax loss of labelled rows beside ``1/2 |W - I|^2``.

    Parameters
    ----------
    task : Task
        With labels; its candidate has the metric, "euclidean" or "cosine".
    X : ndarray or scipy.sparse, shape (n, d)
    P : ndarray, shape (d, r), or None
        Factor of the prior metric; None for the identity.
    """
    learner, labels, is_cosine = task.learner, task.labels, task.candidate.metric == "cosine"
    labels.compared(warn=True)  # raises if there is nothing to compare
    documents = drawn_rows(labels, generator(learner.random_state), MOST_POINTS)
    Z = X[documents] if P is None else product(X[documents], P)
    if not is_cosine and not sp.issparse(Z):
        Z = Z - Z.mean(axis=0)  # distances keep their digits where all rows are far from the origin
    # if rows are much fewer than columns, their coordinates in their span
    in_basis = span_of_vectors(Z) if Z.shape[1] >= MIN_COLUMNS and len(documents) <= MAX_SHARE * Z.shape[1] else None
    Z, span = (np.ascontiguousarray(dense(Z), dtype=float), None) if in_basis is None else in_basis
    codes = labels.codes[documents]
    is_other = ~np.eye(len(documents), dtype=bool)
    is_right = (codes[:, None] == codes) & is_other
    asking = np.flatnonzero(is_right.any(axis=1))  # the class of the others has no other row
    is_other, is_right = is_other[asking], is_right[asking]
    Z /= np.abs(Z).max() or 1.0  # squares stay finite, and neither kind of score depends on the unit
    weights = np.ones(len(asking)) if task.weight is None else task.weight[documents[asking]]
    targets = is_right / is_right.sum(axis=1, keepdims=True)
    settings: dict[str, Any] = {
        "temperature": TEMPERATURE,
        "weights": weights * (WEIGHT * task.slack_weight() / (TEMPERATURE * weights.sum())),
        "allowed": is_other,
        "divergence": "frobenius" if learner.divergence == "auto" else learner.divergence,
        "tol": learner.tol,
        "max_iter": learner.max_iter,
        "callback": callback_of(learner),
    }
    if not is_cosine:
        # the median of squared distances between rows drawn at random, without those that are 0
        i, j = np.random.default_rng(0).integers(len(Z), size=(2, N_PAIRS))
        squares = sq_norms(Z[i] - Z[j])
        Z /= np.sqrt((np.median(squares[squares > 0]) if squares.any() else 1.0) / 2.0)
    queries = Z if len(asking) == len(Z) else Z[asking]  # products of one array with itself take less time
    if is_cosine:
        result = cosine_metric(queries, Z, targets, n_passes=COSINE_PASSES, **settings)
    else:
        result = softmax_metric(PairScores.sq_distances(queries, Z), targets, **settings)
    place = replace(result.coordinates, base=X, R=P)
    return replace(result, coordinates=place if span is None else replace(place, span=span))
