"""Results of the functions on correlation matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.base.html import number
from bregmat.base.linalg import eigvalsh
from bregmat.base.threads import cached_property, on_one_blas_thread
from bregmat.engine.result import Kind, Result
from bregmat.engine.status import ExitReason, Status
from bregmat.typing import Array, Frame


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class RepairedMatrix(Result):
    """A correlation matrix in the form of the input; the attributes are those of :class:`CorrelationResult`."""

    X: np.ndarray
    residual: float
    min_eig: float = 0.0
    labels: tuple[list[Any], list[Any]] | None = None
    frame: str | None = None
    deviations: np.ndarray | None = None

    _kind: ClassVar[Kind] = Kind("correlation matrix")

    @property
    def matrix(self) -> Array | Frame:
        """X, an array; a DataFrame with the labels of the input if that is one.

        Raises
        ------
        ValueError
            If the status is INFEASIBLE or UNKNOWN: X is the last iterate then, and no correlation matrix.
        """
        return self._framed(self.X, "correlation matrix")

    @property
    def covariance(self) -> Array | Frame:
        """X with the variances of the input; a DataFrame if that is one.

        Raises
        ------
        ValueError
            As for ``matrix``; or if C was not scaled.
        """
        d = self.deviations
        if d is None:
            raise ValueError("There is no covariance: scale=True takes one.")
        S = self.X * np.multiply.outer(d, d)
        np.fill_diagonal(S, d * d)
        return self._framed(S, "covariance")

    def _framed(self, A: np.ndarray, noun: str) -> Array | Frame:
        """A matrix in the form of the input."""
        if self.status not in (Status.OPTIMAL, Status.FEASIBLE):
            raise ValueError(f"There is no {noun} in this {self.status} result. {self.proof_text()}")
        if self.labels is None:
            return A
        if self.frame == "polars":
            import polars as pl

            return pl.DataFrame(A, schema=self.labels[1])
        import pandas as pd

        return pd.DataFrame(A, index=self.labels[0], columns=self.labels[1])

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """The smallest computed eigenvalue of X; rounding may put it below ``min_eig``."""
        return float(eigvalsh(self.X)[0]) if np.isfinite(self.X).all() else np.nan

    @property
    def converged(self) -> bool:
        """Whether X is a correlation matrix and the stopping rule of the method was met."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE) and self.exit_reason is ExitReason.TOLERANCE

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.X)

    def certificate_rows(self, has_hard: bool | None = None) -> list[tuple[str, str]]:
        """(name, value) of every number of the certificate, as text."""
        rows = super().certificate_rows(has_hard)
        rows.insert(2, ("Frobenius distance to the input", number(self.residual, 7)))
        return rows


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class CorrelationResult(RepairedMatrix):
    """The certified correlation matrix.

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    X : ndarray, shape (n, n)
        Symmetric, with a diagonal of exact ones; for INFEASIBLE and UNKNOWN the last iterate, which is no correlation matrix.
    labels : tuple of two lists, or None
        Index and columns of C, if it is a DataFrame.
    frame : {None, "polars"}
        "polars" if C is a DataFrame of polars.
    deviations : ndarray, shape (n,), or None
        Standard deviations of the covariance, with ``scale=True``.
    status, exit_reason
        What is proven about X, and why the run stopped. With `rank` or `n_factors` the status is FEASIBLE unless the bound is reached.
    objective, dual_bound : float
        Divergence of X from the input, ``|X - C|^2 / 2`` for Frobenius (weighted, with `weights`), and its proven lower
        bound. With `rank`, that of the problem without a rank.
    max_violation : float
        Largest difference from a unit diagonal or a fixed entry.
    residual : float
        ``|X - C|``, Frobenius, from the input (scaled, with ``scale=True``); normF of R's nearPD. Unknown entries
        do not count.
    divergence : str
    min_eig : float
        The bound that was asked for; ``smallest_eigenvalue`` is the computed value.
    rank : int or None
        The rank that was asked for.
    n_factors : int or None
        The number of factors that :func:`factor_correlation` was asked for.
    factor : ndarray, shape (n, k), or None
        With `rank`: ``X = factor factor'``, with unit rows. With `n_factors`, the loadings: X equals ``factor factor'`` off the
        diagonal, and ``1 - (factor**2).sum(axis=1)`` are the variances of the single variables.
    rows : ndarray of int, shape (c, 2)
        Entries (i, j) that were prescribed: the diagonal, then the fixed ones with i < j. With weights or bounds: all with i <= j.
    dual : ndarray, shape (c,)
        Their multipliers; 0 with `n_factors` if the bound for factors is the larger one. They define a symmetric matrix Y by
        ``Y_ii = dual`` and ``Y_ij = dual / 2``, which proves the bound (Notes of :func:`nearest_correlation`). For INFEASIBLE they
        are the proof: Y is positive semidefinite, and ``<Y, X>`` would be negative.
    null_space : ndarray, shape (n, k), or None
        Orthonormal null vectors of singular fixed blocks: statements about Y hold on their complement.
    conflict : ndarray of int, shape (k, 2), or None
        Entries that carry the proof of infeasibility, with those that imply the null space.
    n_iter : int
        Newton steps, splitting steps with `weights` or `bounds`, and steps of the searches with `rank` or `n_factors`.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nearest_correlation
    >>> result = nearest_correlation(np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]]))
    >>> result.matrix.diagonal()
    array([1., 1., 1.])
    >>> bool(result.gap <= result.tol)
    True
    """

    divergence: str
    rows: np.ndarray
    dual: np.ndarray
    rank: int | None = None
    n_factors: int | None = None
    factor: np.ndarray | None = None
    null_space: np.ndarray | None = None

    _kind: ClassVar[Kind] = Kind(
        "correlation matrix",
        shown=("n", "divergence", "residual", "objective", "dual_bound", "gap", "min_eig", "rank", "n_factors"),
    )

    @property
    def advice(self) -> str:
        """What to change so that a further run succeeds."""
        if self.status is Status.INFEASIBLE:
            return "The fixed entries or bounds contradict each other: free one of those named, or ask for a lower smallest eigenvalue."
        if self.exit_reason is ExitReason.STALLED:
            return "No step improves the matrix: loosen the tolerance, or free some of the fixed entries."
        return super().advice

    def proof_text(self) -> str:
        """What is proven, in one sentence."""
        if self.status is Status.INFEASIBLE:
            pairs = [] if self.conflict is None else self.conflict.tolist()
            named = ", ".join(f"({self._name(0, i)}, {self._name(1, j)})" for i, j in pairs[:8])
            more = f" and {len(pairs) - 8} more" if len(pairs) > 8 else ""
            return f"No correlation matrix has the prescribed entries {named}{more}: this is proven. {self.advice}"
        if self.status is Status.UNKNOWN:
            return (
                f"The search stopped with entries missed by up to {number(self.max_violation, 2)} and a smallest eigenvalue of "
                f"{number(self.smallest_eigenvalue, 2)}; nothing is proven."
            )
        others = "every matrix allowed here" if self.rank is None else "every correlation matrix of any rank"
        return (
            f"The matrix is at {number(self.objective, 7)} (in the divergence), and {others} is at least "
            f"{number(self.dual_bound, 7)} away."
        )

    def _name(self, axis: int, k: int) -> str:
        """The label of a row (axis 0) or column."""
        return str(k if self.labels is None else self.labels[axis][k])
