"""The result of problem (P): the certified matrix, which converts to a kernel, a metric, a factor and a map of points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from bregmat.base.arrays import is_foreign
from bregmat.base.linalg import blocks
from bregmat.base.points import as_array_points, as_points
from bregmat.base.threads import on_one_blas_thread
from bregmat.coordinates.priors import Coordinates, Iterate
from bregmat.engine.result import Kind, Result
from bregmat.typing import Points

BOUND_ROUNDINGS = 1e3  # a gap of fewer roundings of the terms of the bound is attributed to rounding


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class MatrixResult(Result):
    """The certified matrix of :func:`nearest_kernel` and :func:`nearest_metric`.

    In addition to the attributes of :class:`Result`:

    Attributes
    ----------
    iterate, coordinates
        The matrix in the coordinates of the solver; :attr:`factor`, :meth:`kernel`, :meth:`metric` and :meth:`transform` convert it.
    last
        The last iterate of the solver: ``result.kernel(result.last)``. It differs from ``iterate`` if the certificate restored hard
        constraints to feasibility, or if an earlier matrix was better. The certificate is not about it.
    dual, values, violation : ndarray, shape (c,)
        Signed dual weight (>= 0 for "<=", <= 0 for ">=", free for "=="), value and relative violation of each constraint; for
        INFEASIBLE, ``dual`` is the proof. ``max_violation`` is over the hard constraints, ``violation.max()`` over all. For sharded
        constraints these are columns that stay with the constraints; ``numpy.asarray`` fetches them, and model files leave them out.
    singular : ndarray of int or None
        Hard constraints that, up to rounding, only singular matrices meet, at which the divergence is infinite (LogDet). Only computed if
        the status is FEASIBLE or UNKNOWN.
    weight_span : float
        Largest over smallest finite slack weight, each times the weight of its constraint; dimensionless, 1 if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> result = nearest_kernel(np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<="))
    >>> result.kernel().round(3)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> bool(np.allclose(result.factor @ result.factor.T, result.kernel()))
    True
    """

    iterate: Iterate
    coordinates: Coordinates
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray
    last: Iterate | None = None
    singular: np.ndarray | None = None
    weight_span: float = 1.0

    _kind: ClassVar[Kind] = Kind("positive semidefinite matrix")

    @property
    def advice(self) -> str:
        """What to change so that a further run succeeds."""
        if self.singular is None:
            return super().advice
        rows = ", ".join(str(int(k)) for k in self.singular[:8]) + (", ..." if len(self.singular) > 8 else "")
        return (
            f"Up to rounding, constraints {rows} are met by singular matrices only (their distances fit into fewer dimensions than "
            "there are points), where this divergence is infinite: (a) use vonneumann or frobenius, (b) give these constraints slack."
        )

    def _why_unknown(self) -> str:
        if not isinstance(self.violation, np.ndarray):  # a column of sharded rows
            return super()._why_unknown()
        missed = np.flatnonzero(self.violation == self.max_violation)
        if not self.max_violation > 0 or not len(missed):
            return super()._why_unknown()
        k = int(missed[0])
        return f"Hard constraint {k} is missed most: its value {self.values[k]:.6g} is off its bound by {self.max_violation:.2g} of it."

    def _why_not_optimal(self) -> str:
        wide = 1e8  # ratio of slack weights whose square is below rounding relative to 1
        text = super()._why_not_optimal()
        terms = abs(self.objective) + float(np.abs(self.dual * self.values).sum())
        roundings = self.gap * self.unit / (np.finfo(float).eps * terms) if terms > 0 else np.inf
        if roundings <= BOUND_ROUNDINGS:
            text += f" Rounding limits it: these are {roundings:.2g} roundings of the terms of the bound, {terms:.2g} in sum."
        if self.weight_span > wide:
            text += (
                f" Slack weights span a factor of {self.weight_span:.2g}: squares of their ratios are below rounding."
            )
        return text

    @property
    def B(self) -> np.ndarray:
        """Factor of the learned matrix in the coordinates of the data: ``factor = G0 @ B``, shape (r, k)."""
        return self.coordinates.factor_map(self.iterate)

    @property
    def factor(self) -> np.ndarray:
        """``G`` with ``W = G G'``, shape (n, k); computed on demand."""
        return self.coordinates.factor(self.iterate)

    def transform(self, X: Points) -> np.ndarray:
        """``X @ B``, shape (n, k), without forming B if the data has many columns; for a tensor X, a tensor on its device."""
        points = as_array_points("X", X) if is_foreign(X) else as_points("X", X)
        return self.coordinates.transform(points, self.iterate)

    def kernel(self, iterate: Iterate | None = None) -> np.ndarray:
        """``W``, shape (n, n), of the certified matrix or of another iterate such as :attr:`last`."""
        G = self.coordinates.factor(self.iterate if iterate is None else iterate)
        return G @ G.T

    def metric(self, iterate: Iterate | None = None) -> np.ndarray:
        """``B B'``, shape (r, r), the Mahalanobis matrix of a metric; of the certified matrix or of another iterate."""
        return self.coordinates.metric(self.iterate if iterate is None else iterate)

    def spectrum(self) -> np.ndarray:
        """Ascending eigenvalues of the learned matrix in the coordinates of the solver; shape (k,)."""
        return self.coordinates.scale * self.iterate.spectrum()

    def write_factor(self, path: str | Path, *, rows: int = 65536) -> None:
        """Write ``factor`` to a .npy file, ``rows`` rows at a time, without a memory map, whose pages would stay in memory."""
        place, points = self.coordinates, self.coordinates.data
        k = place.transform(points[:1], self.iterate).shape[1]
        header = {"descr": "<f8", "fortran_order": False, "shape": (points.shape[0], k)}
        with open(path, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for part in blocks(points.shape[0], 1, rows):
                block = place.transform(points[part], self.iterate)
                file.write(np.ascontiguousarray(block, dtype="<f8").data)
