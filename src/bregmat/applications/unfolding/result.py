"""The result of an unfolding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.engine.result import Kind, Result

RTOL = 1e-3  # relative accuracy of squared distances, by default


@dataclass(eq=False, repr=False, kw_only=True)
class UnfoldResult(Result):
    """A centred kernel that keeps the distances between neighbours, with its certificate (:func:`unfold`).

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    factor : ndarray, shape (n, r)
        ``K = factor factor'``; columns are the principal axes of K, the longest first.
    dual, values, violation : ndarray, shape (c,)
        Dual weight, value and relative violation of each of the :attr:`constraints`.
    pairs : ndarray of int, shape (m, 2)
        Pairs of neighbours, with the smaller number first.
    sq_distances : ndarray, shape (m,)
        Their squared distances in the data.
    prior_scale : float
        The prior is this number times the projection onto the vectors whose entries sum to 0; 0 for the objective "variance".
    rtol : float
        Relative accuracy to which squared distances are kept.
    n_components : int
        Dimensions of :attr:`embedding`.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import unfold
    >>> angle = np.linspace(0.0, 3.0, 12)
    >>> arc = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> result = unfold(arc, n_neighbors=2, n_components=1, objective="variance")
    >>> steps = np.abs(np.diff(result.embedding[:, 0]))
    >>> print(result.status, bool(steps.std() < 0.01 * steps.mean()))
    OPTIMAL True
    """

    factor: np.ndarray
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray
    pairs: np.ndarray
    sq_distances: np.ndarray
    prior_scale: float
    rtol: float
    n_components: int

    _kind: ClassVar[Kind] = Kind("kernel")

    @property
    def embedding(self) -> np.ndarray:
        """Coordinates of the points on the first principal axes of the kernel, shape (n, n_components)."""
        return self.factor[:, : self.n_components]

    @property
    def spectrum(self) -> np.ndarray:
        """Eigenvalues of the kernel, descending, shape (r,): the variance along each axis times n."""
        return (self.factor * self.factor).sum(axis=0)

    @property
    def constraints(self) -> Constraints:
        """The constraints on the distances of neighbours: an equality, or an upper and a lower bound for each pair."""
        return distance_rows(self.pairs, self.sq_distances, self.rtol)

    def kernel(self) -> np.ndarray:
        """``K``, shape (n, n); its rows sum to 0."""
        return self.factor @ self.factor.T


def distance_rows(pairs: np.ndarray, sq: np.ndarray, rtol: float) -> Constraints:
    """Squared distances of pairs (m, 2), kept to a relative accuracy: upper bounds, then lower bounds; or equalities for 0."""
    i, j = pairs.T
    if rtol == 0:
        return Constraints.sq_distance(i, j, sq, "==")
    upper = Constraints.sq_distance(i, j, sq * (1.0 + rtol), "<=")
    return upper + Constraints.sq_distance(i, j, sq * (1.0 - rtol), ">=")
