"""Scores of queries and documents that are linear in a matrix W: inner products, squared distances, linearised cosines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bregmat.base.linalg import row_dot, symmetric_product, symmetrize

SHORTEST = 1e-9  # length of a row in a metric, relative to its Euclidean length, from which on the row has a direction


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of all pairs of a query q_i and a document d_j, and their adjoint.

        v_ij(W) = q_i' W d_j - h_ij (q_i' W q_i + d_j' W d_j) + c_ij

    ``h = 0`` gives inner products, and ``h = 1/2`` half the squared distances, with a minus. ``h = c/2``, with rows of length 1 in the
    metric W0 and their cosines c in it, gives the cosines linearised at W0.

    Attributes
    ----------
    queries : ndarray, shape (n, d)
    documents : ndarray, shape (m, d)
    share : ndarray, shape (n, m), or float
        The coefficients h.
    constant : ndarray, shape (n, m), or float
        The constants c.

    If both are the same array, as for labelled rows, some products are computed once, and the scores from half of the operations.
    """

    queries: np.ndarray
    documents: np.ndarray
    share: np.ndarray | float = 0.0
    constant: np.ndarray | float = 0.0

    @classmethod
    def inner_products(cls, queries: np.ndarray, documents: np.ndarray) -> Self:
        """``q' W d``."""
        return cls(queries, documents)

    @classmethod
    def sq_distances(cls, queries: np.ndarray, documents: np.ndarray) -> Self:
        """``-(q - d)' W (q - d) / 2``."""
        return cls(queries, documents, share=0.5)

    @classmethod
    def cosines(cls, queries: np.ndarray, documents: np.ndarray, W0: np.ndarray) -> Self:
        """``q' W d / (|q|_W |d|_W)``, linearised at W0; rows without a direction in the metric W0 have score 0.

        With ``q, d`` of length 1 in W0 and ``c = q' W0 d``:  ``c + q' W d - c/2 (q' W q + d' W d)``, exact to first order.
        """
        q = _unit_in_metric(queries, W0)
        d = q if documents is queries else _unit_in_metric(documents, W0)
        c = q @ W0 @ d.T
        return cls(q, d, share=c / 2.0, constant=c)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and of documents."""
        return len(self.queries), len(self.documents)

    def linear(self, W: np.ndarray) -> np.ndarray:
        """The scores without their constants, shape (n, m), for a symmetric W (d, d)."""
        Q, D = self.queries, self.documents
        QW = Q @ W
        V = symmetric_product(QW.T, Q.T) if D is Q else QW @ D.T
        if np.any(self.share):
            lengths = row_dot(QW, Q)
            V -= self.share * np.add.outer(lengths, lengths if D is Q else row_dot(D @ W, D))
        return V

    def adjoint(self, M: np.ndarray) -> np.ndarray:
        """``sum_ij M_ij C_ij``, shape (d, d), where ``v_ij = <C_ij, W> + c_ij``; M has shape (n, m)."""
        Q, D = self.queries, self.documents
        A = Q.T @ (M @ D)
        if np.any(self.share):
            H = M * self.share
            rows, columns = H.sum(axis=1)[:, None], H.sum(axis=0)[:, None]
            if D is Q:
                A -= symmetric_product(Q, (rows + columns) * Q)
            else:
                A -= symmetric_product(Q, rows * Q) + symmetric_product(D, columns * D)
        return symmetrize(A)

    def in_basis(self, V: np.ndarray, dtype: type = np.float64) -> Self:
        """The same scores as functions of ``V' W V``, for an orthogonal V, or a basis (d, k) of the span of all rows."""
        share: np.ndarray = np.asarray(self.share, dtype=dtype)
        constant: np.ndarray = np.asarray(self.constant, dtype=dtype)
        queries = (self.queries @ V).astype(dtype, copy=False)
        documents = queries if self.documents is self.queries else (self.documents @ V).astype(dtype, copy=False)
        return replace(self, queries=queries, documents=documents, share=share, constant=constant)


def cosine_scores(queries: np.ndarray, documents: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Cosines in the metric W, shape (n, m); 0 for rows without a direction."""
    return _unit_in_metric(queries, W) @ W @ _unit_in_metric(documents, W).T


def _unit_in_metric(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1 in the metric W; rows that it maps to 0 become 0."""
    length, natural = np.sqrt(np.maximum(row_dot(X @ W, X), 0.0)), np.sqrt(row_dot(X, X))
    has_direction = length > SHORTEST * natural
    return X * np.where(has_direction, 1.0 / np.where(has_direction, length, 1.0), 0.0)[:, None]
