"""Shrinking towards a target: the smallest share of the target that makes a correlation matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy  # scipy.linalg loads on first use, which keeps `import bregmat` quick

from bregmat.applications.correlation.input import MatrixInput, aligned, read_fixed, read_input
from bregmat.applications.correlation.problem import shortfall
from bregmat.applications.correlation.result import RepairedMatrix
from bregmat.base.checks import as_matrix, entry_text
from bregmat.base.html import number
from bregmat.base.linalg import eigvalsh
from bregmat.base.threads import returns_result
from bregmat.base.tolerances import EPS
from bregmat.engine.loop import Run, RunLog, compose
from bregmat.engine.problem import Certificate
from bregmat.engine.result import Kind
from bregmat.engine.status import ExitReason, Status
from bregmat.typing import Labels, Table


@dataclass(eq=False, repr=False, kw_only=True)
class ShrinkResult(RepairedMatrix):
    """A matrix shrunk towards a target, with a proof that a smaller share of the target is not enough.

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    X : ndarray, shape (n, n)
        ``alpha T + (1 - alpha) C``, with a diagonal of exact ones.
    objective, dual_bound : float
        alpha, and its proven lower bound.
    vector : ndarray, shape (n,)
        A unit vector v with ``v' ((a T + (1 - a) C) - min_eig I) v < 0`` for every a below the bound.
    residual, min_eig, labels, frame, deviations
        As in :class:`CorrelationResult`.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import shrink_correlation
    >>> result = shrink_correlation(np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]]))
    >>> bool(result.dual_bound <= result.alpha <= result.dual_bound + 1e-8)
    True
    """

    vector: np.ndarray

    _kind: ClassVar[Kind] = Kind(
        "correlation matrix",
        statuses=frozenset({Status.OPTIMAL, Status.FEASIBLE}),
        shown=("n", "alpha", "residual", "dual_bound", "gap", "min_eig"),
    )

    @property
    def alpha(self) -> float:
        """The share of the target in X, in [0, 1]."""
        return self.objective

    def proof_text(self) -> str:
        """What is proven, as a plain sentence."""
        return (
            f"The share of the target is {number(self.alpha, 7)}; with any share below {number(self.dual_bound, 7)} "
            "an eigenvalue is too small."
        )


@returns_result
def shrink_correlation(
    C: Table,
    target: Table | None = None,
    *,
    fixed: Labels | None = None,
    min_eig: float = 0.0,
    scale: bool | None = None,
) -> ShrinkResult:
    """Shrink a symmetric matrix towards a target, no further than needed to make it a correlation matrix.

    ``X = alpha T + (1 - alpha) C`` with the smallest alpha in [0, 1] for which X is positive semidefinite. All entries move by the
    same share of their distance to the target. If this is the identity, the signs and the order of the correlations do not change.
    The distance to C is larger than that of :func:`nearest_correlation`.

    Parameters
    ----------
    C : array-like or DataFrame (pandas, polars), shape (n, n)
        Symmetric with a positive diagonal, which is set to 1. It may be indefinite, and entries may exceed 1.
    target : array-like or DataFrame, shape (n, n), optional
        T: a correlation matrix whose eigenvalues exceed `min_eig`; by default the identity. Entries that are equal in C and T do
        not change.
    fixed : array-like of bool, shape (n, n), optional
        Symmetric mask of entries that stay exactly as in C: T is C there and 0 elsewhere. It does not go with `target`.
    min_eig : float
        Lower bound of the eigenvalues of X, in [0, 1).
    scale : bool, optional
        As in :func:`nearest_correlation`: True for a covariance.

    Returns
    -------
    ShrinkResult
        With ``matrix`` in the form of C, ``alpha``, and a vector that proves that no smaller alpha is enough.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, with the first offending entry; for a target without eigenvalues above `min_eig`.

    Notes
    -----
    Higham, Strabic and Sego (Restoring definiteness via shrinking, with an application to correlation matrices with a fixed block,
    SIAM Review 58, 2016). With ``d = min_eig`` and -m the smallest eigenvalue of ``(C - d I) v = -m (T - d I) v``, ``alpha = m / (1 + m)``,
    or 0 if m is negative. The eigenvector v proves the bound ``c / (c + t)`` with ``c = -v' (C - d I) v`` and
    ``t = v' (T - d I) v``. It costs a few eigendecompositions.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import shrink_correlation
    >>> broken = np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]])
    >>> result = shrink_correlation(broken)
    >>> print(result.status, round(result.alpha, 4))
    OPTIMAL 0.1949
    >>> result.matrix.round(2)
    array([[ 1.  ,  0.72,  0.56],
           [ 0.72,  1.  , -0.16],
           [ 0.56, -0.16,  1.  ]])
    """
    close = 1e-8  # largest difference of alpha and its lower bound at which alpha is called the smallest
    log = RunLog()
    if target is not None and fixed is not None:
        raise ValueError(
            "target and fixed exclude each other: a target that agrees with C in the fixed entries keeps them."
        )
    matrix = read_input(C, scale, min_eig)
    A, low = matrix.C.copy(), float(min_eig)
    np.fill_diagonal(A, 1.0)
    with_ones = MatrixInput(A, matrix.form)
    T = read_fixed(fixed, with_ones).prescribed(A) if target is None else _read_target(target, with_ones)
    spectrum = eigvalsh(T)
    distance = float(spectrum[0]) - low
    if not distance > 64.0 * EPS * len(T) * float(spectrum[-1]):
        name = "target" if fixed is None else "fixed: the matrix of the fixed entries, and 0 elsewhere,"
        raise ValueError(f"{name} must have eigenvalues above min_eig = {low:g}; the smallest is {spectrum[0]:.6g}.")
    X, alpha, v = _shrunk(A, T, low, distance)
    # v' (a T + (1 - a) A - low I) v < 0 for every a below c / (c + t)
    square = float(v @ v)
    c, t = low * square - float(v @ A @ v), float(v @ T @ v) - low * square
    bound = min(c / (c + t) if c > 0.0 < t else 0.0, alpha)  # rounding may lift the bound above alpha
    proof = Certificate(dual=np.zeros(0), objective=alpha, dual_bound=bound, upper=alpha)
    run = Run(log, proof, close, ExitReason.TOLERANCE, "shrinking", n_iter=1)
    residual = float(np.linalg.norm(X - matrix.C))
    return compose(ShrinkResult, run, X=X, residual=residual, vector=v, min_eig=low, **matrix.form)


def _read_target(target: Any, matrix: MatrixInput) -> np.ndarray:
    """The target as a symmetric array with a unit diagonal."""
    n, labels = len(matrix.C), matrix.labels
    table = aligned("target", target, labels)
    T: np.ndarray = as_matrix("target", table, symmetric=True, order=n, labels=labels, copy=True)
    off = np.flatnonzero(np.abs(np.diag(T) - 1.0) > n * EPS)
    if len(off):
        i = off[0]
        raise ValueError(f"target must have a unit diagonal; got {T[i, i]:.6g} at {entry_text(i, i, labels)}.")
    np.fill_diagonal(T, 1.0)
    return T


def _shrunk(A: np.ndarray, T: np.ndarray, low: float, distance: float) -> tuple[np.ndarray, float, np.ndarray]:
    """X, alpha and v; ``distance`` is the smallest eigenvalue of ``T - low I``. alpha is 0 if X = A is allowed up to rounding."""
    shift = low * np.eye(len(A))
    # smallest t with (A - low I) v = t (T - low I) v
    t, V = scipy.linalg.eigh(A - shift, T - shift, subset_by_index=(0, 0))
    X, alpha, m = A, 0.0, -float(t[0])
    if m > 0.0 and shortfall(A, low) > 0.0:
        alpha = m / (1.0 + m)
        X = _mixed(A, T, alpha)
        missing = max(low - float(eigvalsh(X)[0]), 0.0)
        if missing > 0.0:
            # a step s towards T leaves eigenvalues of at least low - (1 - s) missing + s distance; twice the step, for its rounding
            alpha += (1.0 - alpha) * min(1.0, 2.0 * missing / (missing + distance))
            X = _mixed(A, T, alpha)
    return X, alpha, V[:, 0] / np.linalg.norm(V)


def _mixed(A: np.ndarray, T: np.ndarray, alpha: float) -> np.ndarray:
    """``alpha T + (1 - alpha) A``; entries that are equal in both do not change."""
    X = np.where(A == T, A, alpha * T + (1.0 - alpha) * A)
    return (X + X.T) / 2
