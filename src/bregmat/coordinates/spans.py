"""The span of the touched points, or of the vectors of rows between them, where it has clearly fewer dimensions than the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.linalg import cholesky, dense, eigh, sq_norms, triangular_inverse
from bregmat.base.threads import cached_property
from bregmat.constraints.constraints import Constraints
from bregmat.operators.binding import Rounding
from bregmat.operators.linear_maps import VANISHING

# eigenvalue of the Gram matrix of unit vectors, relative to the largest, above which they are independent
INDEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class Span:
    """Basis of the touched rows: ``vectors' @ coefficients`` (columns orthonormal), formed when first needed."""

    vectors: Any
    coefficients: np.ndarray

    @classmethod
    def of_basis(cls, basis: np.ndarray) -> Span:
        """A span given by its orthonormal basis (d, m)."""
        return cls(basis.T, np.eye(basis.shape[1]))

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal basis, shape (d, m)."""
        return dense(self.vectors.T @ self.coefficients)


def span_of(
    Z: Any, constraints: Constraints, rows: np.ndarray, differences: bool
) -> tuple[np.ndarray, Span, bool] | None:
    """Touched points, or the vectors of the terms if those are fewer (the flag), in an orthonormal basis of their span.

    None where the span has not clearly fewer dimensions than the data.

    Parameters
    ----------
    Z : ndarray or scipy.sparse, shape (n, d)
        The touched points.
    constraints : Constraints
    rows : ndarray of int, shape (n,)
        Their numbers.
    differences : bool
        Whether all rows are sums of squared distances.
    """
    n, d = Z.shape
    if d < 64:
        return None
    t = constraints.terms() if differences else None
    pairs = t if t is not None and len(t.row) < n else None
    if (n if pairs is None else len(pairs.row)) > 0.75 * d:
        return None
    vectors = Z
    if pairs is not None:
        a, b = np.searchsorted(rows, pairs.a), np.searchsorted(rows, pairs.b)
        vectors = _differences(Z, a, b)
    length = np.sqrt(sq_norms(vectors))
    some = np.flatnonzero(length > 0)
    if not len(some):  # every pair is one point twice
        return None
    # unit vectors: a short pair counts as much as a long one
    unit = scipy.sparse.diags_array(1.0 / length[some]).tocsr() @ vectors[some]
    found = _orthonormal(unit)
    if found is None:
        return None
    inside = np.zeros((len(length), found[0].shape[1]))
    inside[some] = length[some, None] * found[0]
    return inside, found[1], pairs is not None


def _orthonormal(unit: Any) -> tuple[np.ndarray, Span] | None:
    """Unit vectors in an orthonormal basis of their span, and the span; None where rounding allows no basis."""
    values, Q = eigh(np.asarray(dense(unit @ unit.T), dtype=float))
    if values[0] >= INDEPENDENT * values[-1]:
        coefficients, inside = Q / np.sqrt(values), Q * np.sqrt(values)
        if values[0] < 1e-6 * values[-1]:  # nearly dependent: make the basis orthonormal once more
            basis = dense(unit.T @ coefficients)
            C, ok = cholesky(basis.T @ basis)
            if not ok:
                return None
            turn = triangular_inverse(C).T
            coefficients, inside = coefficients @ turn, inside @ C
        return inside, Span(unit, coefficients)
    # squares do not tell what is small from rounding: singular vectors do
    used = np.unique(unit.indices) if scipy.sparse.issparse(unit) else np.arange(unit.shape[1])
    U, sigma, basis = np.linalg.svd(dense(unit[:, used]), full_matrices=False)
    k = int(np.count_nonzero(sigma > VANISHING * sigma[0]))
    basis = basis[:k]
    if len(used) < unit.shape[1]:
        place = np.repeat(np.arange(k), len(used)), np.tile(used, k)
        basis = scipy.sparse.csr_array((basis.ravel(), place), shape=(k, unit.shape[1]))
    return U[:, :k] * sigma[:k], Span(basis, np.eye(k))


def _differences(Z: Any, a: np.ndarray, b: np.ndarray) -> Any:
    """``z_a - z_b`` of data, dense or sparse; exactly 0 where it is rounding."""
    vectors = Z[a] - Z[b]
    made = abs(Z)
    length, column = np.sqrt(sq_norms(made)), np.asarray(dense(made.max(axis=0))).ravel()
    rounding = Rounding(column, length, np.ones(len(length)), np.zeros(len(column)), True)
    zero = rounding.vanishing(lambda part: dense(vectors[part]), sq_norms(vectors), a, b)
    if len(zero):
        kept = np.ones(len(a))
        kept[zero] = 0.0
        vectors = (
            scipy.sparse.diags_array(kept).tocsr() @ vectors if scipy.sparse.issparse(Z) else vectors * kept[:, None]
        )
    return vectors
