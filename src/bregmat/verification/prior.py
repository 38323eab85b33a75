"""Decomposition of a prior: a basis of its range, eigenvalues, and their rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.base.tolerances import EPS, RANK_TOL, SUM_ROUNDING, TINY
from bregmat.coordinates.priors import Factor
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import TURNED  # part of the problem: it decides which rows are 0
from bregmat.verification.extended import eigenpairs, numbers, unit_of


class DecomposedPrior:
    """``P diag(l) P'`` with a basis P (N, r) of the prior's range whose columns are orthogonal.

    Attributes
    ----------
    P : ndarray, shape (N, r)
    l, sq_norms : ndarray, shape (r,)
        Eigenvalues (1 for divergences that do not depend on the basis), and squared lengths of the columns of P.
    vague : ndarray, shape (r,)
        Rounding error of the prior, relative to each eigenvalue.
    turned : ndarray, shape (r,)
        Errors of the entries of P if rounding of a dense singular prior rotates its range, or of the products ``G map`` of a factor; 0 if
        a dense prior has full rank, since P is then only a change of basis.
    map : ndarray, shape (d, r), or None
        For a factor G (N, d) of a kernel, ``P = G map``; else None.
    is_identity : bool
        Whether no prior was given.
    row_scale : ndarray, shape (N, 1), or float
        Factors of the rows of P that make its columns orthogonal. They are powers of 2 if the lengths of the rows of a factor differ
        by a factor of more than 1e6 and the divergence does not depend on the scale of points; otherwise 1.
    floor : ndarray, shape (r,), or None
        Rounding errors of the entries of P if its rows are points from the eigenvectors of a kernel; else None.
    """

    def __init__(
        self, prior: Any, divergence: SpectralDivergence, points: Any, constraints: Any, n_kept: int, real: Any
    ) -> None:
        """Decompose a kernel (dense or a :class:`Factor`) if ``points`` is None, else a metric; None is the identity.

        The identity is restricted to the span of the constrained points. If an eigenvalue is close to the rank tolerance, the
        rank is ``n_kept``, the one of the result.
        """
        far = 1e6  # ratio of the longest row of a factor to the shortest above which rows are scaled
        invariant = divergence.is_congruence_invariant
        self.is_identity = prior is None
        self.floor: np.ndarray | None = None
        self.map: np.ndarray | None = None
        self.row_scale: Any = 1.0
        if prior is None:
            d = points.shape[1]
            rows = constraints.touched(points.shape[0])
            touched = points if rows is None else points[rows]
            P = np.eye(d) if d <= max(300, touched.shape[0]) else _span(touched)
            self.P, self.l = P.astype(real), np.ones(P.shape[1], dtype=real)
            self.vague = self.turned = np.zeros(P.shape[1])
            self.sq_norms = np.ones(P.shape[1], dtype=real)
            return
        is_factor = isinstance(prior, Factor)
        G = numbers(prior.G0 if is_factor else prior).astype(real)
        if is_factor and invariant and points is None:
            lengths = np.abs(G).max(axis=1, initial=0.0, keepdims=True)
            lengths = np.where(lengths > 0, lengths, lengths.max(initial=0) or 1)
            if lengths.max() > far * lengths.min():
                self.row_scale = np.exp2(-np.round(np.log2(lengths)))
                G = self.row_scale * G
        if is_factor and (divergence.keeps_range or points is None):
            values, V = eigenpairs(G.T @ G)
            keep = values > RANK_TOL * values[-1]
            if invariant:  # the range of a factor is exact, but G'G has lost its short columns
                values = ((G @ V) ** 2).sum(axis=0)
                keep = values > (SUM_ROUNDING**2) * values.max(initial=0)
            values, basis = values[keep], G @ V[:, keep] / np.sqrt(values[keep])
            self.map = V[:, keep] if invariant else V[:, keep] / np.sqrt(values)
        else:
            values, basis = eigenpairs(G @ G.T if is_factor else (G + G.T) / 2)
            if divergence.keeps_range:
                keep = values > RANK_TOL * values[-1]
                share = np.maximum(values.astype(float), TINY) / (RANK_TOL * float(values[-1]))
                if keep.sum() != n_kept and (np.abs(np.log(share)) < 0.1).any():  # close to the tolerance
                    keep = np.arange(len(values)) >= len(values) - n_kept
                values, basis = values[keep], basis[:, keep]
            if is_factor or values[0] >= -1e-8 * np.abs(values).max():
                values = np.maximum(values, 0)
        self.vague = 8.0 * EPS * float(values.max(initial=0)) / np.maximum(values.astype(float), TINY)
        if invariant:
            self.P, self.l, self.sq_norms = basis * np.sqrt(values) / self.row_scale, np.ones_like(values), values
        else:
            self.P, self.l, self.sq_norms = basis, values, np.ones_like(values)
        is_whole = is_factor or len(values) == len(basis)
        self.turned = (not is_whole) * self.vague * np.sqrt(self.sq_norms.astype(float))
        if self.map is not None:  # rounding of the products of the rows of G with the map
            error = len(self.map) * unit_of(real) * float(np.sqrt((G * G).sum(axis=1).max(initial=0)))
            self.turned = error * np.sqrt((self.map**2).sum(axis=0)).astype(float)
        # Rounding of a kernel also rotates its eigenvectors.
        if points is None and not is_factor:
            turned = values.max(initial=0) / values if divergence.keeps_range else np.ones_like(values)
            self.floor = TURNED * turned * np.sqrt(self.sq_norms)


def _span(points: Any) -> np.ndarray:
    """Orthonormal basis of the span of rows, shape (d, m)."""
    dense = numbers(points)
    lengths = np.linalg.norm(dense, axis=1)
    _, sigma, Vt = np.linalg.svd(dense / np.where(lengths > 0, lengths, 1.0)[:, None], full_matrices=False)
    return Vt[sigma > 1e-13 * sigma[0]].T
