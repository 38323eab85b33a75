"""The coordinates in which the problem is solved, and the way back.

The learned matrix is ``W = scale base R M R' base'`` (kernels) or ``W = scale R M R'`` (metrics on data ``base``): rows of the
points are ``z_i = base_i R``, and the prior of M is diagonal. LogDet takes ``M0 = I``; the others rotate, and where they are
homogeneous the scale is the mean eigenvalue of the prior, so that nothing depends on the units of the data. Where the prior is
the identity and the touched points span fewer dimensions, M differs from the identity on their span only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_numbers
from bregmat.base.linalg import blocks, dense, product, sq_norms
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.iterates import Iterate
from bregmat.coordinates.spans import Span, span_of
from bregmat.operators.binding import Rounding, bind
from bregmat.operators.operators import Operator

# Rows of a sparse map in a file, beside 1,000 for each of its entries: their index takes 8 bytes a row.
MOST_EMPTY_ROWS = 2**24
RANK_TOL = 1e-12  # eigenvalues of a prior below this share of the largest count as zero


@dataclass(frozen=True, eq=False)
class Factor:
    """A prior given by its factor, ``K0 = G0 G0'``, never multiplied out.

    Parameters
    ----------
    G0 : ndarray or memmap, shape (n, r)
        Rows of the factor; only the rows that occur in constraints are read while solving with LogDet.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, Factor, nearest_kernel
    >>> G = np.random.default_rng(0).normal(size=(5000, 3))  # a kernel of 5,000 points that is never formed
    >>> result = nearest_kernel(Factor(G), Constraints.sq_distance(0, 4999, bound=0.5, sense="<="))
    >>> result.factor.shape
    (5000, 3)
    >>> near = result.factor[0] - result.factor[4999]
    >>> round(float(near @ near), 3)
    0.5
    """

    G0: Any

    def __post_init__(self) -> None:
        if isinstance(self.G0, list | tuple):
            object.__setattr__(self, "G0", as_numbers("Factor: G0", self.G0))
        if getattr(self.G0, "ndim", None) != 2:
            shape = getattr(self.G0, "shape", type(self.G0).__name__)
            raise ValueError(f"Factor: G0 must be a 2-dimensional array, one row per point; got {shape}.")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of a problem: rows ``base @ R``, diagonal prior with mirror coordinates ``t0``, optional span."""

    base: Any
    t0: np.ndarray
    R: Any = None  # ndarray or sparse array (d, r)
    span: Span | None = None
    identity: bool = False  # whether the prior of M is the identity
    owns_base: bool = False  # whether ``base`` was derived from the prior, not handed in as data
    is_finite: bool = False  # whether ``base`` is known to be; else :meth:`bind` looks at the rows it touches
    scale: float = 1.0  # of the learned matrix over M; 0 where the prior is, until :meth:`bind` reads it off the bounds
    floor: np.ndarray | None = None  # error of the coordinates of a point of length 1, of a prior's eigenvectors

    # ------------------------------------------------------------------ the way back
    def _map(self, X: Any) -> Any:
        return X if self.R is None else product(X, self.R)

    def factor_map(self, iterate: Iterate) -> np.ndarray:
        """B with ``factor = base @ B``; forms a square matrix where a span is in use."""
        F = self._factor_of(iterate)
        if self.span is not None:
            V = self.span.basis
            F = np.eye(len(V)) + V @ _root_minus_one(iterate) @ V.T
        return F if self.R is None else self.R @ F

    def _factor_of(self, iterate: Iterate) -> np.ndarray:
        F = iterate.factor()
        return F if self.scale == 1.0 else np.sqrt(self.scale) * F

    def transform(self, X: Any, iterate: Iterate) -> np.ndarray:
        """``X @ B`` for rows X in the coordinates of ``base``; dense, in the library and on the device of X."""
        first: Any = self.R
        if first is None:
            first = self._factor_of(iterate) if self.span is None else self.span.vectors.T
        if X.shape[1] != first.shape[0]:
            raise ValueError(f"X must have {first.shape[0]} columns, as what was learned from; got shape {X.shape}.")
        Z = self._map(X)
        if self.span is None:
            return dense(product(Z, self._factor_of(iterate)))
        V = self.span.basis
        return dense(Z) + product(dense(product(Z, V)), _root_minus_one(iterate) @ V.T)

    def factor(self, iterate: Iterate) -> np.ndarray:
        """Factor of the learned matrix on the rows of ``base``."""
        X = self._data
        return self.transform(X[0 : X.shape[0]], iterate)  # reads all rows of points in a file

    @property
    def _data(self) -> Any:
        if self.base is None:
            raise ValueError("the data is not kept in model files; use result.transform(X) with the data at hand.")
        return self.base

    def metric(self, iterate: Iterate) -> np.ndarray:
        """``scale R M R'``."""
        B = self.factor_map(iterate)
        return B @ B.T

    def spectrum(self, iterate: Iterate) -> np.ndarray:
        """Ascending eigenvalues of ``scale M`` on the coordinates it was solved in."""
        if iterate.x is not None:
            return self.scale * np.sort(iterate.x)
        return np.linalg.svd(iterate.F, compute_uv=False)[::-1] ** 2

    def write_factor(self, path: str | Path, iterate: Iterate, rows: int = 65536) -> None:
        """Stream the factor to a .npy file block by block; plain writes, since the pages of a mapped file would stay in memory."""
        n = self._data.shape[0]
        k = self.transform(self.base[:1], iterate).shape[1]
        header = {"descr": "<f8", "fortran_order": False, "shape": (n, k)}
        with open(path, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for part in blocks(n, 1, rows):
                block = self.transform(self.base[part], iterate)
                file.write(np.ascontiguousarray(block, dtype="<f8").data)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles leave out data that was handed in, as files do."""
        return {**self.__dict__, "base": self.base if self.owns_base else None}

    def __copy__(self) -> Coordinates:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Coordinates:
        """Copies share the data: it is never written to, and may be larger than memory."""
        return replace(self, t0=self.t0.copy())

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays; data that was handed in is left out, a base derived from a prior is kept."""
        arrays = {"t0": self.t0}
        meta: dict[str, Any] = {"identity": self.identity, "owns_base": self.owns_base, "scale": self.scale}
        if scipy.sparse.issparse(self.R):
            R = self.R.tocoo()
            meta["R_shape"], arrays["R"], arrays["R_places"] = list(R.shape), R.data, np.stack(R.coords)
        elif self.R is not None:
            arrays["R"] = self.R
        if self.span is not None:
            arrays["span"] = self.span.basis
        if self.owns_base:
            arrays["base"] = np.asarray(self.base)
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Coordinates:
        """Inverse of :meth:`to_state`."""
        span = Span.of_basis(arrays["span"]) if "span" in arrays else None
        facts, R = dict(meta), arrays.get("R")
        if "R_places" in arrays:
            shape = tuple(int(size) for size in facts.pop("R_shape"))
            if max(shape) > MOST_EMPTY_ROWS + 1000 * len(arrays["R"]):
                raise ValueError(f"R has {len(arrays['R'])} entries, but the shape {shape}")
            R = scipy.sparse.coo_array((R, tuple(arrays["R_places"])), shape=shape).tocsr()
        return cls(arrays.get("base"), arrays["t0"], R, span, **facts)

    # ------------------------------------------------------------------ the way in
    def bind(self, constraints: Constraints, *, in_span: bool = True) -> tuple[Coordinates, Operator]:
        """Bind constraints to the touched rows, in their span where that is smaller (and ``in_span`` allows it)."""
        n = self.base.shape[0]
        rows = constraints.touched(n)
        touched = self.base if rows is None or len(rows) == n else self.base[rows]
        self._check_finite(touched, rows)
        Z = self._map(touched)
        invariant = bool(constraints.where("is_difference").all())
        if self.identity and in_span and rows is not None:
            reduced = span_of(Z, constraints, rows, invariant)
            if reduced is not None:
                inside, span, are_terms = reduced
                here = replace(self, t0=self.t0[: inside.shape[1]], span=span)
                if are_terms:
                    return here, bind(constraints, None, rows, vectors=inside)
                return here, bind(constraints, inside, rows)
        Z, rounding = self._placed(touched, Z, invariant)
        operator = bind(constraints, Z, rows, rounding)
        if self.scale:
            return self, operator
        norms = operator.norms()
        sizes = np.abs(constraints.bound) / np.where(norms > 0, norms, np.inf)
        return replace(self, scale=float(sizes.max(initial=0.0)) or 1.0), operator

    def place(self, invariant: bool) -> tuple[np.ndarray, Rounding]:
        """Coordinates of all points, and their rounding; about their mean where what is asked of them does not see it."""
        self._check_finite(self.base, None)
        return self._placed(self.base, self._map(self.base), invariant)

    def _check_finite(self, touched: Any, rows: np.ndarray | None) -> None:
        if not self.is_finite and not scipy.sparse.issparse(touched):  # memory-mapped data is not looked at before
            bad = np.flatnonzero(~np.isfinite(touched).all(axis=1))
            if len(bad):
                row, more = bad[0] if rows is None else rows[bad[0]], len(bad) - 1
                found = f"row {row} and {more} more rows" if more else f"row {row}"
                raise ValueError(f"the data has NaN or infinite entries in {found}.")

    def _placed(self, touched: Any, Z: Any, invariant: bool) -> tuple[np.ndarray, Rounding]:
        Z = Z.toarray() if scipy.sparse.issparse(Z) else np.array(Z, dtype=float)
        rounding = self._rounding(touched, Z)
        if invariant:  # distances do not see the mean, float32 products do; nothing is rounded where all are near it
            mean = Z.mean(axis=0)
            near = (np.abs(Z - mean) <= 0.5 * np.abs(mean)).all(axis=0)
            Z -= np.where(near, mean, 0.0)
        return Z, rounding

    def _rounding(self, touched: Any, Z: np.ndarray) -> Rounding:
        """By how much the coordinates Z of points may be off."""
        if self.owns_base:  # eigenvectors of a prior
            return Rounding.of(np.abs(Z), self.floor)
        if self.R is None:
            return Rounding.of(np.abs(Z))
        made = dense(abs(touched) @ np.abs(self.R))
        floor = np.zeros(self.R.shape[1]) if self.floor is None else self.floor
        return Rounding.of(made, floor, np.sqrt(sq_norms(touched)))


def _root_minus_one(iterate: Iterate) -> np.ndarray:
    """``M^(1/2) - I``."""
    if iterate.x is not None:
        return (iterate.F * (np.sqrt(iterate.x) - 1.0)) @ iterate.F.T
    U, sigma, _ = np.linalg.svd(iterate.F)
    return (U * (sigma - 1.0)) @ U.T
