"""Coordinates in which a prior is diagonal, the matrices of the solvers in these coordinates, and the way back to the data.

The learned matrix is ``W = scale base R M R' base'`` (kernels) or ``W = scale R M R'`` (metrics on data ``base``): rows of the
points are ``z_i = base_i R``, and the prior of M is diagonal. With LogDet ``M0 = I``. With other divergences R is a rotation; if they are
homogeneous, the scale is the mean eigenvalue of the prior, so that the result does not depend on the units of the data. If the prior
is the identity and the touched points span fewer dimensions, M differs from the identity on their span only.

An iterate is a matrix ``M = F diag(x) F'`` inside the cone, with a local frame F for Newton's method. In the frame a step E in the
local metric moves ``M`` by ``F (S o E) F'`` to first order, where S is the square root of the divided differences of the inverse link.
There are two kinds with the same methods:

* ``Spectral``: mirror coordinates ``T = U diag(t) U'``, ``M = psi(T)``, ``F = U``; for any divergence.
* ``Factored``: ``M = L L'``, ``F = L``, ``S = 1``; for LogDet, which is invariant under congruence. Needs no eigenvectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_matrix, as_numbers, check_finite, check_psd, rows_text
from bregmat.base.linalg import (
    GRADED,
    add_diagonal,
    cholesky,
    dense,
    eigh,
    factor_svd,
    graded_eigh,
    graded_factor,
    logdet_of_factor,
    product,
    sq_norms,
    symmetrize,
    triangular_inverse,
)
from bregmat.base.points import CheckedPoints, as_points, check_dense_size
from bregmat.base.threads import cached_property, on_one_blas_thread
from bregmat.base.tolerances import HALF_DIGITS, RANK_TOL, TINY
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.spans import Span, span_of
from bregmat.coordinates.widen import with_new_directions
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import TURNED, PlacedPoints, RowErrors, bind, row_errors
from bregmat.operators.linear_maps import Operator
from bregmat.typing import Table

MIN_COLUMNS, MAX_SHARE = 64, 0.75  # columns from which the span is used, and its dimensions over theirs


@dataclass(frozen=True, eq=False)
class Factor:
    """A prior ``K0 = G0 G0'`` given by its factor; the product is never formed.

    Parameters
    ----------
    G0 : ndarray or memmap, shape (n, r)
        The factor. With LogDet, the solvers read only the rows that occur in constraints.

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
        if isinstance(self.G0, CheckedPoints):
            return
        if isinstance(self.G0, list | tuple):
            object.__setattr__(self, "G0", as_numbers("Factor: G0", self.G0))
        if getattr(self.G0, "ndim", None) != 2:
            shape = getattr(self.G0, "shape", type(self.G0).__name__)
            raise ValueError(f"Factor: G0 must be a 2-dimensional array, one row per point; got {shape}.")

    @on_one_blas_thread
    def widened(self, eps: float, *, directions: Table | Constraints | None = None) -> Factor:
        """The prior plus ``eps`` times the projector onto (a part of) its null space.

        ``K0 + eps N N'`` with N an orthonormal basis of what ``directions`` add to range(K0) (Kulis 2009, section 6.5). Use it when a
        low-rank prior cannot meet hard constraints (status INFEASIBLE), or to allow new directions at a cost.

        Parameters
        ----------
        eps : float
            Positive, in units of the prior's eigenvalues: the eigenvalue of the new directions. The smaller it is, the more they cost.
        directions : array-like, shape (n, k), or Constraints, optional
            Columns that the range shall contain. Constraints in row numbers stand for the unit vectors of the points that they name
            (of all points, if there are linear or trace rows). None: the whole null space.

        Returns
        -------
        Factor
            With m columns ``sqrt(eps) N`` after those of this factor, where m is the dimension that ``directions`` add, n - r for None.
            Every later step then costs as much as with a kernel of rank r + m. This factor itself, if nothing is added.

        Raises
        ------
        ValueError
            ``eps`` is not positive, not finite, or so small that the new directions would count as zero; shapes do not fit; an entry
            is NaN; or constraints name samples that the prior does not have.
        TypeError
            ``eps`` is no number, or the factor is sparse.

        Notes
        -----
        Directions from Constraints give the same result as the whole null space: A*(mu) acts on the touched points only, so the other
        new directions keep the eigenvalue eps, at no cost (LogDet and von Neumann).

        As eps falls, the objective of an infeasible low-rank problem grows: its derivative with respect to log(eps) is
        ``m eps - tr(N N' K)`` for von Neumann and ``m - tr(N N' K) / eps`` for LogDet, where K is the learned kernel. With t the least
        ``tr(N N' K)`` of a feasible K, it behaves like ``t log(1 / eps)`` and ``t / eps``.

        Time O(n^2 (n - r)) for None, O(n k (r + min(n, k))) for directions; a memory-mapped factor is read into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from bregmat import Constraints, Factor, nearest_kernel
        >>> line = Factor(np.array([[1.0], [2.0]]))  # two points on a line, whose range LogDet keeps
        >>> rows = Constraints.diagonal([1.0, 1.0])
        >>> print(nearest_kernel(line, rows).status)
        INFEASIBLE
        >>> print(nearest_kernel(line.widened(0.01), rows).status)
        OPTIMAL
        """
        G = with_new_directions(self.G0, eps, directions)
        return self if G is None else Factor(G)


# ---------------------------------------------------------------------- matrices in the coordinates
class Spectral:
    """Mirror coordinates ``T = U diag(t) U'`` of ``M = psi(T)``."""

    def __init__(self, divergence: SpectralDivergence, t0: np.ndarray, t: np.ndarray, U: np.ndarray) -> None:
        self.divergence, self.t0, self.t, self.F = divergence, t0, t, U
        self.x = divergence.inverse_link(t)

    def at(self, T: np.ndarray) -> Spectral | None:
        """The iterate at mirror coordinates T, or None outside the domain."""
        if not np.isfinite(T).all():
            return None
        t, U = eigh(T)
        return Spectral(self.divergence, self.t0, t, U) if self.divergence.in_domain(t) else None

    def with_factor(self, B: np.ndarray) -> Spectral | None:
        """The iterate with ``M = B B'``, or None outside the domain."""
        D = self.divergence
        x, U = eigh(B @ B.T)
        if D.keeps_range and x[0] <= 0:
            return None
        t = D.link(x if D.keeps_range else np.maximum(x, 0.0))
        return Spectral(D, self.t0, t, U) if np.isfinite(t).all() and D.in_domain(t) else None

    @property
    def Psi(self) -> np.ndarray:
        """Divided differences of the inverse link."""
        return self.divergence.divided(self.t)

    @property
    def S(self) -> np.ndarray:
        """Their square roots."""
        return np.sqrt(self.Psi)

    def spectrum(self) -> np.ndarray:
        """Ascending eigenvalues of M."""
        return np.sort(self.x)

    def values(self, rows: Operator) -> np.ndarray:
        """Values of rows at M."""
        return rows.congruence(self.F).values_diagonal(self.x)

    def residual(self, A: np.ndarray) -> np.ndarray:
        """``T - T0 + A`` in the frame, for an adjoint A given in the frame."""
        return add_diagonal(symmetrize(A - (self.F.T * self.t0) @ self.F), self.t)

    def mirror(self) -> np.ndarray:
        """T in coordinates."""
        return (self.F * self.t) @ self.F.T

    def moved(self, E: np.ndarray, dT: np.ndarray, alpha: float) -> Spectral | None:
        """The iterate after the step ``T + alpha dT`` with dT in the frame, or None outside the domain."""
        B = add_diagonal(alpha * dT, self.t)
        if not np.isfinite(B).all():
            return None
        t, Q = eigh(B)
        return Spectral(self.divergence, self.t0, t, self.F @ Q) if self.divergence.in_domain(t) else None

    def conjugate(self) -> float:
        """``phi*(T) - phi*(T0)``."""
        return self.divergence.conjugate(self.t) - self.divergence.constant(self.t0)

    def value(self) -> float:
        """``D(M, M0)``."""
        return self.divergence.from_diagonal(self.x, self.F, self.t0)

    def sizes(self) -> tuple[float, float]:
        """Frobenius norm of M, and the sum of the sizes of the terms of :meth:`value`: 0 at the prior, whose value is exact."""
        norm = float(np.linalg.norm(self.x))
        at_prior = np.array_equal(self.t, self.t0) and np.array_equal(self.F, np.eye(len(self.t)))
        return norm, 0.0 if at_prior else self.divergence.value_size(self.x, self.F, self.t0)

    @cached_property
    def root_minus_one(self) -> np.ndarray:
        """``M^(1/2) - I``."""
        return (self.F * (np.sqrt(self.x) - 1.0)) @ self.F.T

    def factor(self) -> np.ndarray:
        """B with ``M = B B'``."""
        keep = self.x > 0
        return self.F[:, keep] * np.sqrt(self.x[keep])

    def matrix(self) -> np.ndarray:
        """M."""
        return symmetrize((self.F * self.x) @ self.F.T)


@dataclass(eq=False)
class Factored:
    """``M = L L'`` for LogDet with the identity as prior."""

    F: np.ndarray  # L
    logdet: float
    # 1 everywhere
    x: ClassVar[None] = None
    S: ClassVar[None] = None
    Psi: ClassVar[None] = None

    def at(self, T: np.ndarray) -> Factored | None:
        """The iterate at mirror coordinates ``T = -M^-1``, or None outside the domain."""
        C, ok = cholesky(-T)
        if not ok:
            return None
        L = triangular_inverse(C).T
        return Factored(L, -logdet_of_factor(C))

    def with_factor(self, B: np.ndarray) -> Factored | None:
        """The iterate with ``M = B B'``, or None outside the cone."""
        logdet = 2.0 * float(np.linalg.slogdet(B).logabsdet)
        return Factored(B, logdet) if np.isfinite(logdet) else None

    def spectrum(self) -> np.ndarray:
        """Ascending eigenvalues of M."""
        return np.linalg.svd(self.F, compute_uv=False)[::-1] ** 2

    def values(self, rows: Operator) -> np.ndarray:
        """Values of rows at M."""
        return rows.congruence(self.F).values_diagonal(None)

    def residual(self, A: np.ndarray) -> np.ndarray:
        """``L' (T - T0 + A*) L`` for an adjoint A given in the frame."""
        return add_diagonal(A + self.F.T @ self.F, -1.0)

    def mirror(self) -> np.ndarray:
        """T in coordinates."""
        inverse = np.linalg.inv(self.F)
        return -(inverse.T @ inverse)

    def moved(self, E: np.ndarray, dT: np.ndarray, alpha: float) -> Factored | None:
        """The iterate at ``L (I + alpha E) L'``, or None outside the cone."""
        C, ok = cholesky(add_diagonal(alpha * E, 1.0))
        if not ok:
            return None
        return Factored(self.F @ C, self.logdet + logdet_of_factor(C))

    def conjugate(self) -> float:
        """``phi*(T) - phi*(T0) = logdet M``."""
        return self.logdet

    def value(self) -> float:
        """``tr M - logdet M - r``."""
        return float(np.vdot(self.F, self.F)) - self.logdet - len(self.F)

    def sizes(self) -> tuple[float, float]:
        """Frobenius norm of M, and the sum of the sizes of the terms of :meth:`value`: 0 at the prior, whose value is exact."""
        norm, at_prior = float(np.linalg.norm(self.F.T @ self.F)), np.array_equal(self.F, np.eye(len(self.F)))
        return norm, 0.0 if at_prior else float(np.vdot(self.F, self.F)) + abs(self.logdet) + len(self.F)

    @cached_property
    def root_minus_one(self) -> np.ndarray:
        """``M^(1/2) - I``."""
        U, sigma, _ = np.linalg.svd(self.F)
        return (U * (sigma - 1.0)) @ U.T

    def factor(self) -> np.ndarray:
        """B with ``M = B B'``."""
        return self.F

    def matrix(self) -> np.ndarray:
        """M."""
        return self.F @ self.F.T


Iterate = Spectral | Factored


def iterate_at_prior(divergence: SpectralDivergence, t0: np.ndarray) -> Iterate:
    """The iterate at the prior: ``Factored`` for LogDet, otherwise ``Spectral``."""
    if divergence.is_congruence_invariant and (t0 == -1.0).all():
        return Factored(np.eye(len(t0)), 0.0)
    return Spectral(divergence, t0, np.array(t0, dtype=float), np.eye(len(t0)))


# ---------------------------------------------------------------------- coordinates
@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of a problem: points ``base @ R``, a diagonal prior with mirror coordinates ``t0``, and optionally a span."""

    base: Any
    t0: np.ndarray
    R: Any = None  # ndarray or sparse array (d, r)
    span: Span | None = None
    identity: bool = False  # whether the prior of M is the identity
    owns_base: bool = False  # whether ``base`` was computed from the prior instead of given as data
    # whether ``base`` is known to be finite; otherwise :meth:`bind` checks the rows that it reads
    is_finite: bool = False
    scale: float = 1.0  # learned matrix over M; 0 if the prior is 0, until :meth:`bind` derives it from the bounds
    dropped: np.ndarray | None = None  # columns (d, k) that span what of a factor's range counts as 0
    floor: np.ndarray | None = None  # error of each coordinate of a point of length 1, from the eigenvectors of a prior

    # ------------------------------------------------------------------ from M to the data
    def factor_map(self, iterate: Iterate) -> np.ndarray:
        """B with ``factor = base @ B``; a square matrix if a span is used."""
        F = np.sqrt(self.scale) * iterate.factor()
        if self.span is not None:
            V = self.span.basis
            F = np.eye(len(V)) + V @ iterate.root_minus_one @ V.T
        return F if self.R is None else self.R @ F

    def transform(self, X: Any, iterate: Iterate) -> np.ndarray:
        """``X @ B`` for rows X in the coordinates of ``base``; dense, in the library and on the device of X."""
        first: Any = self.R
        if first is None:
            first = iterate.factor() if self.span is None else self.span.vectors.T
        if X.shape[1] != first.shape[0]:
            raise ValueError(f"X must have {first.shape[0]} columns, as what was learned from; got shape {X.shape}.")
        Z = X if self.R is None else product(X, self.R)
        F = np.sqrt(self.scale) * iterate.factor() if self.span is None else None
        if scipy.sparse.issparse(Z):
            check_dense_size("transform of sparse X", Z.shape[0], Z.shape[1] if F is None else F.shape[1])
        if self.span is None:
            return dense(product(Z, F))
        V = self.span.basis
        # points z and their part V'z in the span: z + V (M^(1/2) - I) V'z
        return dense(Z) + product(product(dense(product(Z, V)), iterate.root_minus_one), V.T)

    def factor(self, iterate: Iterate) -> np.ndarray:
        """Factor of the learned matrix on the rows of ``base``."""
        X = self.data
        return self.transform(X[0 : X.shape[0]], iterate)  # reads all rows of points in a file

    @property
    def data(self) -> Any:
        """``base``; raises if it was not kept."""
        if self.base is None:
            raise ValueError("the data is not kept in model files; use result.transform(X) with the data.")
        return self.base

    def metric(self, iterate: Iterate) -> np.ndarray:
        """``scale R M R'``."""
        B = self.factor_map(iterate)
        return B @ B.T

    def __getstate__(self) -> dict[str, Any]:
        """Pickles leave out data that was given, as model files do."""
        return {**self.__dict__, "base": self.base if self.owns_base else None}

    def __copy__(self) -> Coordinates:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Coordinates:
        """Copies share the data, which is never written to and may be larger than memory."""
        return replace(self, t0=self.t0.copy())

    # ------------------------------------------------------------------ from the data to M
    def bind(self, constraints: Constraints, *, in_span: bool = True) -> tuple[Coordinates, Operator, RowErrors | None]:
        """Bind constraints in row numbers to the touched points, in the span of these where it is smaller and ``in_span`` allows it.

        Returns the coordinates, the operator, and the errors of its rows.
        """
        n = self.base.shape[0]
        touched, terms = constraints.touched(n), constraints.terms()
        if touched is not None:  # positions among the touched points
            place = np.empty(int(touched[-1]) + 1, dtype=np.int32)
            place[touched] = np.arange(len(touched), dtype=np.int32)
            terms = replace(terms, a=place[terms.a], b=place[terms.b])
        # whether only differences of points matter: a shift of all points changes nothing
        invariant = not constraints.is_whole.any() and bool((terms.sign == -1).all())
        points = self.base if touched is None or len(touched) == n else self.base[touched]
        if not self.is_finite:
            _check_data(points, touched)
        Z = points if self.R is None else product(points, self.R)
        if self.identity and in_span and touched is not None and Z.shape[1] >= MIN_COLUMNS:
            n_vectors = min(len(touched), len(terms.row)) if invariant else len(touched)
            is_small = n_vectors <= MAX_SHARE * Z.shape[1]
            in_basis = span_of(Z, terms if invariant else None) if is_small else None
            if in_basis is not None:
                inside, span, are_terms = in_basis
                here = replace(self, t0=self.t0[: inside.shape[1]], span=span)
                return here, bind(constraints, inside, terms=terms, are_terms=are_terms), None
        placed = self._placed(points, Z, invariant)
        operator = bind(constraints, placed, terms=terms)
        errors = row_errors(operator, constraints, terms, placed)
        if self.scale:
            return self, operator, errors
        # the prior is 0: the largest |b_i| / |A_i| is the size of a matrix that meets the bounds
        norms = operator.norms()
        largest = float((np.abs(constraints.bound) / np.where(norms > 0, norms, np.inf)).max(initial=0.0))
        return replace(self, scale=largest or 1.0), operator, errors

    def place(self, invariant: bool) -> PlacedPoints:
        """Coordinates of all points, with their largest errors but without the data."""
        if not self.is_finite:
            _check_data(self.base, None)
        placed = self._placed(self.base, self.base if self.R is None else product(self.base, self.R), invariant)
        placed.source = None
        return placed

    def _placed(self, X: Any, Z: Any, invariant: bool) -> PlacedPoints:
        """Coordinates ``Z = X R`` of points as an array, with their largest errors; centred if only differences of points matter."""
        Z = Z.toarray() if scipy.sparse.issparse(Z) else np.array(Z, dtype=float)
        if self.owns_base or self.R is None:
            errors: dict[str, Any] = {"made": np.abs(Z), "floor": self.floor if self.owns_base else None}
        else:
            floor = np.zeros(self.R.shape[1]) if self.floor is None else self.floor
            made = dense(abs(X) @ np.abs(self.R))
            errors = {"made": made, "floor": floor, "reach": np.sqrt(sq_norms(X)), "source": (X, self.R)}
        if invariant:
            # centring makes products more accurate; it is exact in columns in which all points are near the mean
            mean = Z.mean(axis=0)
            near = (np.abs(Z - mean) <= 0.5 * np.abs(mean)).all(axis=0)
            Z -= np.where(near, mean, 0.0)
        return PlacedPoints(Z, **errors)


def _check_data(touched: Any, rows: np.ndarray | None) -> None:
    """Raise for NaN and infinities in the touched points, such as rows of a memory map, which are not checked when they are given."""
    if scipy.sparse.issparse(touched):
        return
    bad = np.flatnonzero(~np.isfinite(touched).all(axis=1))
    if len(bad):
        named = rows_text(bad if rows is None else rows[bad])
        raise ValueError(f"the data must be finite; got NaN or infinity in {named}.")


# ---------------------------------------------------------------------- from a prior
def kernel_coordinates(prior: Any, divergence: SpectralDivergence) -> Coordinates:
    """Coordinates of a kernel prior: an array (n, n), PSD unless the divergence takes an indefinite one, or a :class:`Factor`."""
    if isinstance(prior, Factor):
        # the touched rows are checked when constraints are bound
        G0 = as_points("prior factor G0", prior.G0, look=False)
        if divergence.is_congruence_invariant:
            return Coordinates(G0, divergence.link(np.ones(G0.shape[1])), identity=True)
        gram = dense(G0.T @ G0)
        if not np.isfinite(gram).all():
            check_finite("prior factor G0", G0)  # names the rows
        values, Q = eigh(gram)
        keep = values > RANK_TOL * values[-1]
        if (keep & (values < GRADED * values[-1])).any():  # G0'G0 has lost digits of the small eigenvalues
            values, Q = factor_svd(G0)
            values = values**2
            keep = values > RANK_TOL * values[-1]
        dropped = None if keep.all() else Q[:, ~keep]
        values, Q, _ = _in_range("prior G0'G0", values[keep], Q[:, keep], divergence)
        return _in_units(divergence, values, G0.shape[0], G0, R=Q / np.sqrt(values), dropped=dropped)
    prior = as_matrix("prior", prior, symmetric=True)
    values, Q = graded_eigh(prior, RANK_TOL)
    if not divergence.takes_indefinite:
        check_psd("prior", values)
    values, Q, floor = _in_range("prior", values, Q, divergence)
    if divergence.keeps_range:
        Q[~prior.any(axis=1)] = 0.0  # a point at the origin, where the decomposition leaves rounding
    if divergence.is_congruence_invariant:
        base, t0 = graded_factor(prior, values, Q), divergence.link(np.ones(len(values)))
        is_finite = bool(np.isfinite(base).all())
        return Coordinates(base, t0, identity=True, owns_base=True, is_finite=is_finite, floor=floor)
    return _in_units(divergence, values, len(Q), Q, owns_base=True, floor=floor)


def metric_coordinates(X: Any, prior: Any, divergence: SpectralDivergence) -> Coordinates:
    """Coordinates of a Mahalanobis metric on checked points X (n, d); prior None is the identity, else PSD (d, d) or its Factor (d, r)."""
    d = X.shape[1]
    is_finite = not isinstance(X, np.memmap)
    if prior is None:
        return Coordinates(X, divergence.link(np.ones(d)), identity=True, is_finite=is_finite)
    if isinstance(prior, Factor):
        P = prior.G0.points if isinstance(prior.G0, CheckedPoints) else as_points("prior factor G0", prior.G0)
        if P.shape[0] != d:
            raise ValueError(f"prior factor must have one row per column of X ({d}); got shape {P.shape}.")
        if divergence.is_congruence_invariant:
            return Coordinates(X, divergence.link(np.ones(P.shape[1])), R=P, identity=True, is_finite=is_finite)
        Q, sigma, _ = np.linalg.svd(dense(P), full_matrices=not divergence.keeps_range)
        values = np.zeros(Q.shape[1])
        values[: len(sigma)] = sigma**2
        values, Q = values[::-1], Q[:, ::-1]
    else:
        prior = as_matrix("prior", prior, symmetric=True)
        values, Q = graded_eigh(prior, RANK_TOL)
        check_psd("prior", values)
    values, Q, floor = _in_range("prior", values, Q, divergence)
    if len(Q) != d:
        raise ValueError(f"prior must have shape ({d}, {d}), one row per column of X; got ({len(Q)}, {len(Q)}).")
    if divergence.is_congruence_invariant:
        t0, R = divergence.link(np.ones(len(values))), graded_factor(prior, values, Q)
        return Coordinates(X, t0, R=R, identity=True, is_finite=is_finite, floor=floor)
    return _in_units(divergence, values, d, X, R=Q, is_finite=is_finite, floor=floor)


def _in_range(
    name: str, values: np.ndarray, Q: np.ndarray, divergence: SpectralDivergence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenpairs of a prior, without its null space if the divergence keeps the range; and the error of each coordinate."""
    floor = np.full(len(values), TURNED)
    if divergence.keeps_range:
        keep = values > RANK_TOL * values.max(initial=TINY)
        values, Q = values[keep], Q[:, keep]
        if len(values) == 0:
            raise ValueError(f"{name} is zero; a prior must have positive eigenvalues.")
        # rounding mixes eigenvectors with those of the null space, which are left out
        floor = TURNED * values[-1] / values
    # rounding; only divergences for which 0 is no boundary take others
    if values[0] >= -HALF_DIGITS * np.abs(values).max():
        values = np.maximum(values, 0.0)
    if divergence.is_congruence_invariant:
        floor *= np.sqrt(values)
    return values, Q, floor


def _in_units(divergence: SpectralDivergence, values: np.ndarray, order: int, base: Any, **facts: Any) -> Coordinates:
    """Coordinates in which the prior, with ``order`` eigenvalues, has mean absolute eigenvalue 1 if the divergence is homogeneous.

    ``values`` (r,) are the eigenvalues that are not left out; ``facts`` are further fields.
    """
    scale = 1.0 if divergence.degree is None else float(np.abs(values).sum()) / order
    return Coordinates(base, divergence.link(values / (scale or 1.0)), scale=scale, **facts)
