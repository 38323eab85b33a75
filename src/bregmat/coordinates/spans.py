"""The span of the touched points, or of their differences in the rows, for data with more columns than these need.

With the identity as prior, the learned matrix differs from the identity on this span only, so the problem is solved there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.linalg import dense, eigh, sq_norms
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import VANISHING
from bregmat.constraints.terms import Terms
from bregmat.operators.binding import PlacedPoints

# Smallest eigenvalue of a Gram matrix, relative to the largest, for which ``Q / sqrt(values)`` is orthonormal to about twelve digits.
# What is shorter is orthogonalised once more, and has a Gram matrix of its own.
INDEPENDENT = 1e-4


@dataclass(frozen=True, eq=False)
class Span:
    """Orthonormal basis ``vectors' @ coefficients`` of the span; formed when first needed."""

    vectors: Any
    coefficients: np.ndarray | None  # None: the identity

    @classmethod
    def of_basis(cls, basis: Any) -> Span:
        """A span given by its orthonormal basis (d, m)."""
        return cls(basis.T, None)

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal basis, shape (d, m)."""
        return dense(self.vectors.T if self.coefficients is None else self.vectors.T @ self.coefficients)


def span_of(Z: Any, terms: Terms | None) -> tuple[np.ndarray, Span, bool] | None:
    """Coordinates of vectors in an orthonormal basis of their span, the span, and whether the vectors are those of the terms.

    The vectors are the touched points Z (n, d), or the differences of these in the terms if those are fewer. ``terms`` is None unless
    only differences of points matter. The result is None if all vectors are 0.
    """
    vectors, are_terms = Z, False
    if terms is not None and len(terms.row) < Z.shape[0]:
        are_terms = True
        vectors = _differences(Z, terms.a, terms.b)
    in_basis = span_of_vectors(vectors)
    return None if in_basis is None else (*in_basis, are_terms)


def span_of_vectors(vectors: Any) -> tuple[np.ndarray, Span] | None:
    """Coordinates (n, m) of vectors (n, d), dense or sparse, in an orthonormal basis of their span, and the span; None if all are 0."""
    length = np.sqrt(sq_norms(vectors))
    some = np.flatnonzero(length > 0)
    if not len(some):
        return None
    # unit vectors: a short difference counts as much as a long one when dependence is judged
    coordinates, span = orthonormal(scipy.sparse.diags_array(1.0 / length[some]).tocsr() @ vectors[some])
    inside = np.zeros((len(length), coordinates.shape[1]))
    inside[some] = length[some, None] * coordinates
    return inside, span


def orthonormal(unit: Any) -> tuple[np.ndarray, Span]:
    """Coordinates (n, m) of unit vectors (n, d) in an orthonormal basis of their span, and the span."""
    # V V' = Q diag(values) Q': the rows of values^(-1/2) Q' V are orthonormal, and V has the coordinates Q values^(1/2) in them
    values, Q = eigh(np.asarray(dense(unit @ unit.T), dtype=float))
    if values[0] >= INDEPENDENT * values[-1]:
        return Q * np.sqrt(values), Span(unit, Q / np.sqrt(values))
    used = np.unique(unit.indices) if scipy.sparse.issparse(unit) else slice(None)
    rest, floor, vectors = unit[:, used].T, VANISHING**2 * values[-1], []
    while (
        values[-1] > floor
    ):  # at most seven times, since each pass leaves singular values below 1e-2 times its largest
        large = values >= max(INDEPENDENT * values[-1], floor)
        vectors.append(np.asarray(rest @ (Q[:, large] / np.sqrt(values[large]))))
        rest = np.asarray(rest @ Q[:, ~large])
        for part in vectors:  # the rest is short, and the rounding of the long vectors is not orthogonal to them
            rest -= part @ (part.T @ rest)
        values, Q = eigh(rest.T @ rest) if rest.shape[1] else (np.zeros(1), Q)
    basis = vectors[0] if len(vectors) == 1 else np.hstack(vectors)
    coordinates = np.asarray(unit[:, used] @ basis)
    if isinstance(used, slice):
        return coordinates, Span.of_basis(basis)
    return coordinates, Span(scipy.sparse.eye_array(unit.shape[1], format="csr")[used], basis)


def _differences(Z: Any, a: np.ndarray, b: np.ndarray) -> Any:
    """``z_a - z_b`` of data, dense or sparse; exactly 0 where rounding may be all that is left."""
    vectors = Z[a] - Z[b]
    zero = PlacedPoints(Z).vanishing(lambda part: dense(vectors[part]), sq_norms(vectors), a, b)
    if not len(zero):
        return vectors
    kept = np.ones(len(a))
    kept[zero] = 0.0
    return scipy.sparse.diags_array(kept).tocsr() @ vectors if scipy.sparse.issparse(Z) else vectors * kept[:, None]
