"""Which documents answer which queries, with grades; and how well a ranking finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import check_finite, rows_text, to_numpy
from bregmat.base.linalg import blocks

MEASURES = ("recall@1", "recall@10", "MRR", "nDCG@10")
TIED = 1e-9  # difference of two cosines that is rounding
CHUNK = 4_000_000  # scores that are compared at a time


def as_relevance(relevant: Any, n_queries: int, n_documents: int) -> sp.csr_array:
    """Grades (n_queries, n_documents) of the right answers, all positive.

    Parameters
    ----------
    relevant : array-like of int, shape (m, 2); scipy.sparse, shape (n_queries, n_documents); or None
        Pairs of a query row and a document row, with grade 1; or grades; or None for row i to row i.
    n_queries, n_documents : int
    """
    shape = (n_queries, n_documents)
    if relevant is None:
        if n_queries != n_documents:
            raise ValueError(
                "relevant=None says that document i answers query i, for as many documents as queries; "
                f"got {n_queries} queries and {n_documents} documents."
            )
        return sp.eye_array(n_queries, format="csr")
    if sp.issparse(relevant):
        grades = sp.csr_array(relevant, dtype=float)
        if grades.shape != shape:
            raise ValueError(
                f"relevant must have shape {shape}, one row per query and one column per document; got {grades.shape}."
            )
        check_finite("relevant", grades)
        grades.sum_duplicates()
        entries = grades.tocoo()
        if (entries.data < 0).any():
            raise ValueError(
                f"relevant must hold grades of at least 0; got negative ones in {rows_text(np.unique(entries.row[entries.data < 0]))}."
            )
        grades.eliminate_zeros()
    else:
        pairs = np.asarray(to_numpy("relevant", relevant))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(
                "relevant must be None, a sparse matrix of grades, or integers of shape (m, 2), pairs of a query row and a document row; "
                f"got shape {pairs.shape}, dtype {pairs.dtype}."
            )
        wrong = np.flatnonzero(((pairs < 0) | (pairs >= shape)).any(axis=1))
        if len(wrong):
            q, d = pairs[wrong[0]]
            raise ValueError(
                f"relevant must name rows of {n_queries} queries and {n_documents} documents, counted from 0; got query {q}, "
                f"document {d} in {rows_text(wrong)}."
            )
        grades = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=shape)
        grades.sum_duplicates()
        grades.data[:] = 1.0  # a pair that is given twice counts once
    if not grades.nnz:
        raise ValueError("relevant must have at least one right answer; got none.")
    return grades


def ranking_measures(queries: np.ndarray, documents: np.ndarray, grades: sp.csr_array) -> np.ndarray:
    """Recall@1, recall@10, reciprocal rank and nDCG@10 of each query, shape (n, 4).

    Documents are ranked by the inner products with the query. Among equal ones a document has the middle rank, so that a map to 0 gains
    nothing.

    Parameters
    ----------
    queries, documents : ndarray, shapes (n, d), (m, d)
        Rows of length 1, or 0.
    grades : scipy.sparse csr array, shape (n, m)
        At least one right answer for each query.
    """
    n, m = grades.shape
    measures = np.empty((n, len(MEASURES)))
    largest = int(np.diff(grades.indptr).max())
    for part in blocks(n, m * largest, CHUNK):
        some = grades[part]
        S = queries[part] @ documents.T
        row = np.repeat(np.arange(len(S)), np.diff(some.indptr))
        own = S[row, some.indices][:, None]
        ahead, level = (S[row] > own + TIED).sum(axis=1), (np.abs(S[row] - own) <= TIED).sum(axis=1)
        rank = 1.0 + ahead + (level - 1) / 2.0

        def per_query(values: np.ndarray, row: np.ndarray = row, n: int = len(S)) -> np.ndarray:
            return np.bincount(row, weights=values, minlength=n)

        count = per_query(np.ones(len(row)))
        measures[part, 0], measures[part, 1] = (per_query(rank <= k) / count for k in (1, 10))
        best = np.full(len(S), np.inf)
        np.minimum.at(best, row, rank)
        measures[part, 2] = 1.0 / best
        # the ideal ranking has the largest grades first
        place = np.empty(len(row))
        order = np.lexsort((-some.data, row))
        place[order] = 1.0 + np.arange(len(row)) - some.indptr[row]
        gain, ideal = (per_query(np.where(at <= 10, some.data / np.log2(1.0 + at), 0.0)) for at in (rank, place))
        measures[part, 3] = gain / ideal
    return measures
