"""The base class of spectral Bregman divergences: everything that follows from ``phi``, its link ``phi'`` and the inverse link.

``D(W, W0) = phi(W) - phi(W0) - <phi'(W0), W - W0>`` with ``phi`` applied to the eigenvalues.
Kulis 2009, eq. 1-3; Tsuda 2004, eq. 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import as_matrix, check_positive, check_psd
from bregmat.base.linalg import eigh

STEP = 6e-6  # relative step of central differences: the cube root of the rounding unit balances truncation and rounding
LARGEST = 700.0  # largest exponent for which exp does not overflow
FAR = 1e300  # stands for infinity, and its inverse for 0, where a function cannot compute its limit


class SpectralDivergence(ABC):
    """A divergence of your own: ``name``, :meth:`link`, :meth:`inverse_link` and :meth:`phi` are enough.

    Every solver without further needs accepts it, with its own slack (:class:`bregmat.objective.losses.OwnSlack`). The derived
    methods are as accurate as these three functions. Override a method if you have a more accurate formula, as
    :class:`bregmat.Frobenius` does. In a frozen dataclass, the fields are settings. :func:`bregmat.register` makes the name usable
    as a string and in files.

    Attributes
    ----------
    name : str
        In snake case.
    is_congruence_invariant : bool
        ``D(A W A', A W0 A') = D(W, W0)`` for invertible A. True for LogDet alone; solvers then use its formulas.
    keeps_range : bool
        Finite only for matrices whose range space lies in that of the prior: ``phi'(0) = -inf``. By default it is found from the link.
    keeps_rank : bool
        Finite only for matrices with the same range space: ``phi(0) = inf``. By default it is found from phi.
    degree : int or None
        ``D(c X, c Y) = c^degree D(X, Y)``, None if there is no such number; otherwise problems are solved in units of their prior.

    Notes
    -----
    ``phi`` must be strictly convex and smooth for x > 0. If ``phi'(0)`` is finite, the inverse link must be 0 below it, which keeps
    the cone; with ``phi'(0) = -inf`` it never leaves it.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import SpectralDivergence, VonNeumann
    >>> isinstance(VonNeumann(), SpectralDivergence)
    True
    >>> VonNeumann().link(np.array([1.0, np.e])), VonNeumann().inverse_link(np.array([0.0]))
    (array([0., 1.]), array([1.]))
    """

    name: ClassVar[str]
    is_congruence_invariant: ClassVar[bool] = False
    row_projections: ClassVar[str | None] = None  # name of the compiled projections onto one row; None: there are none
    takes_indefinite: ClassVar[bool] = False  # whether the prior may be indefinite; only |X - Y|^2 / 2 allows it
    keeps_trace: ClassVar[bool] = False  # whether row projections can keep a fixed trace
    degree: ClassVar[int | None] = None

    @abstractmethod
    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x)`` of each eigenvalue x > 0; increasing."""

    @abstractmethod
    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t)``, the x with ``phi'(x) = t``."""

    @abstractmethod
    def phi(self, x: np.ndarray) -> np.ndarray:
        """``phi(x)`` of each eigenvalue."""

    # ------------------------------------------------------------------ facts
    @property
    def keeps_range(self) -> bool:
        """Whether the link is unbounded at 0."""
        return is_unbounded(lambda x: -self.link(1.0 / x))

    @property
    def keeps_rank(self) -> bool:
        """Whether phi is unbounded at 0."""
        one = np.ones(1)
        return is_unbounded(lambda x: self.phi(1.0 / x) - self.phi(one) - self.link(one) * (1.0 / x - 1.0))

    def phi_at_zero(self) -> float:
        """``phi(0)`` as a limit, if it is finite."""
        return float(self.phi(np.array([1.0 / FAR]))[0])

    def in_domain(self, t: np.ndarray) -> bool:
        """Whether every mirror eigenvalue t has a finite x with ``phi'(x) = t``, or x = 0 for t below ``phi'(0)``."""
        t = np.asarray(t, dtype=float)
        with np.errstate(all="ignore"):
            x = self.inverse_link(t)
            back = self.link(np.maximum(x, 1.0 / FAR))
            inside = np.where(
                x > 1.0 / FAR, np.abs(back - t) <= 1e-6 * np.abs(t) + 1e-13, (x >= 0) & (t <= back + 1e-13)
            )
        return bool((inside & np.isfinite(t) & np.isfinite(x)).all())

    # ------------------------------------------------------------------ derivatives
    def curvature(self, x: np.ndarray) -> np.ndarray:
        """``phi''(x)`` for x > 0, by central differences of the link: about ten digits, enough for Newton's method."""
        return (self.link(x * (1.0 + STEP)) - self.link(x * (1.0 - STEP))) / (2.0 * STEP * x)

    def divided(self, t: np.ndarray) -> np.ndarray:
        """Divided differences of psi: the mean slope ``1 / phi''`` for close eigenvalues, the difference quotient otherwise."""
        close = 1e-5  # relative distance below which the quotient has a larger error than the slope
        x = self.inverse_link(t)
        slope, plus = np.zeros_like(x), x > 0
        slope[plus] = 1.0 / self.curvature(x[plus])
        rise = np.subtract.outer(x, x)
        near = np.abs(rise) <= close * np.maximum.outer(x, x)
        return np.where(near, 0.5 * np.add.outer(slope, slope), rise / np.where(near, 1.0, np.subtract.outer(t, t)))

    # ------------------------------------------------------------------ values
    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t)``, the sum of ``t psi(t) - phi(psi(t))``."""
        x = self.inverse_link(t)
        return float((t * x - self.phi(x)).sum())

    def constant(self, t0: np.ndarray) -> float:
        """``phi*(T0)``, the constant with which the divergence is 0 at the prior."""
        return self.conjugate(t0)

    def from_diagonal(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """``D(U diag(x) U', M0)`` with ``M0 = psi(diag(t0))``."""
        return float(self.phi(x).sum()) - float(((U * U) @ x) @ t0) + self.constant(t0)

    def dual_gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> tuple[float, float]:
        """``phi*(T0) - phi*(T)`` for ``T = T0 - A`` with eigenvalues t, the dual bound without the losses; and its size.

        The size is the sum of the absolute terms; the rounding error is at most a multiple of EPS times it.
        """
        size = 0.0
        for mirror in (t0, t):
            x = self.inverse_link(mirror)
            size += float((np.abs(mirror * x) + np.abs(self.phi(x))).sum())
        return self.conjugate(t0) - self.conjugate(t), size

    def value_size(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """Sum of the absolute terms of :meth:`from_diagonal`."""
        x0 = self.inverse_link(t0)
        constant = float((np.abs(t0 * x0) + np.abs(self.phi(x0))).sum())
        return float(np.abs(self.phi(x)).sum()) + float(((U * U) @ x) @ np.abs(t0)) + constant

    def __call__(self, X: Any, Y: Any, *, rtol: float = 1e-10) -> float:
        """Divergence of two PSD matrices of any rank; ``inf`` where their range spaces do not permit it.

        With ``phi'(0) = -inf`` the range of X must lie in that of Y (Kulis 2009, Theorem 6); with ``phi(0) = inf`` they must be
        the same (Theorem 7).

        Parameters
        ----------
        X, Y : array-like, shape (n, n)
            Symmetric, or Hermitian (density matrices), as no solver takes them.
        rtol : float
            Eigenvalues below ``rtol`` times the largest count as zero; dimensionless.
        """
        check_positive("rtol", rtol, finite=True, zero=True)
        x, V, y, U = eigenpairs(self.name, X, Y)
        px, py = _positive(self.name, "X", x, rtol), _positive(self.name, "Y", y, rtol)
        zeros = 0  # zero eigenvalues of X in the range of Y
        if self.keeps_range:
            # the ranges are compared by the squared cosines of their vectors
            overlap, tol = np.abs(V[:, px].conj().T @ U[:, py]) ** 2, max(np.sqrt(rtol), 1e-8)
            is_inside = (np.abs(overlap.sum(axis=1) - 1.0) < tol).all()
            if not is_inside or (self.keeps_rank and px.sum() != py.sum()):
                return np.inf
            if self.keeps_rank and not (np.abs(overlap.sum(axis=0) - 1.0) < tol).all():
                return np.inf
            x, y = x[px], y[py]
            zeros = len(y) - len(x)
        else:
            overlap = np.abs(V.conj().T @ U) ** 2
            x, y = np.where(px, x, 0.0), np.where(py, y, 0.0)
        # sum phi(x) - <phi'(Y), X> + phi*(phi'(y)), with squared cosines of the eigenvectors
        t = self.link(y)
        cross = float((overlap * np.multiply.outer(x, t)).sum())
        rest = zeros * self.phi_at_zero() if zeros else 0.0
        return float(self.phi(x).sum()) + rest - cross + float((t * y - self.phi(y)).sum())

    # ------------------------------------------------------------------ the central path
    def barrier_inverse(self, t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
        """The x > 0 with ``phi'(x) - tau / x = t``, the central path of the interior-point method."""
        with np.errstate(all="ignore"):
            start = self.inverse_link(np.asarray(t, dtype=float))
        return barrier_root(self.link, self.curvature, start, t, tau)


def is_unbounded(f: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether an increasing function of positive numbers has no limit: its increase does not slow down up to 1e300."""
    with np.errstate(all="ignore"):
        start, middle, end = f(np.array([1.0, 1e150, FAR]))
        return not np.isfinite(end) or bool(end - middle >= 0.5 * (middle - start))


def barrier_root(
    slope: Callable[[np.ndarray], np.ndarray],
    curvature: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    t: np.ndarray,
    tau: np.ndarray | float,
) -> np.ndarray:
    """The x > 0 with ``slope(x) - tau / x = t`` for an increasing slope: Newton's method on log x between bounds.

    Parameters
    ----------
    slope, curvature : callable
        An increasing function of positive numbers, elementwise, and its derivative.
    start : ndarray
        First guess, where ``slope(x) = t``; numbers that are not finite or not positive are replaced.
    t, tau : ndarray or float
        Right-hand sides, and the weight of the barrier, positive.
    """
    start, t, tau = np.broadcast_arrays(start, t, tau)
    low, high = np.full(t.shape, -LARGEST), np.full(t.shape, LARGEST)
    with np.errstate(all="ignore"):
        z = np.log(np.maximum(np.nan_to_num(start, nan=0.0, posinf=FAR), 0.0) + np.sqrt(tau))
        z = np.clip(np.nan_to_num(z), low, high)
        for k in range(200):
            x = np.exp(z)
            f = slope(x) - tau / x - t
            high, low = np.where(f >= 0, z, high), np.where(f <= 0, z, low)
            new = z - f / (x * curvature(x) + tau / x)
            # every fourth step halves the interval, since Newton's steps are short where tau / x dominates
            new = np.where((new > low) & (new < high) & (k % 4 != 3), new, 0.5 * (low + high))
            moved, z = np.abs(new - z), np.where(low < high, new, z)
            if (moved <= 1e-15 * (1.0 + np.abs(z)))[low < high].all():
                break
    return np.exp(z)


def eigenpairs(name: str, X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Checked eigenpairs of the two arguments of a divergence."""
    X = as_matrix(f"{name}: X", X, symmetric=True, complex_too=True)
    Y = as_matrix(f"{name}: Y", Y, symmetric=True, order=len(X), complex_too=True)
    return *eigh(X), *eigh(Y)


def _positive(name: str, label: str, x: np.ndarray, rtol: float) -> np.ndarray:
    """Mask of eigenvalues that count as positive; raises for negative ones beyond rounding."""
    check_psd(f"{name}: {label}", x, tol=rtol)
    return x > rtol * np.abs(x).max(initial=0.0)
