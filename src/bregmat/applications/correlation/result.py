"""The nearest correlation matrix with its proof, and how the run went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.base.html import number
from bregmat.base.linalg import eigvalsh
from bregmat.base.threads import cached_property, on_one_blas_thread
from bregmat.run.result import ExitReason, Result, Status


@dataclass(frozen=True)
class Repair:
    """What was changed on the input before the problem was posed.

    Attributes
    ----------
    kind : str
        "clip": eigenvalues below ``floor`` were raised to it.
    n_eigenvalues : int
        How many.
    size : float
        Frobenius norm of the change.
    floor : float
        In units of the input's eigenvalues, whose mean is 1.
    """

    kind: str
    n_eigenvalues: int
    size: float
    floor: float


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class RepairedMatrix(Result):
    """What all results have whose point is a correlation matrix: the matrix in the form of the input.

    Attributes
    ----------
    X : ndarray, shape (n, n)
    residual : float
        ``|X - C|``, Frobenius.
    min_eig : float
    labels, frame, deviations
        As in :class:`CorrelationResult`.
    """

    X: np.ndarray
    residual: float
    min_eig: float = 0.0
    labels: tuple[list[Any], list[Any]] | None = None
    frame: str | None = None
    deviations: np.ndarray | None = None

    noun: ClassVar[str] = "correlation matrix"

    @property
    def matrix(self) -> Any:
        """X, as a DataFrame with the labels of the input where that was one.

        Raises
        ------
        ValueError
            For INFEASIBLE and UNKNOWN, where X is none; the attribute X has the last iterate.
        """
        if self.status not in (Status.OPTIMAL, Status.FEASIBLE):
            raise ValueError(f"There is no correlation matrix in this {self.status} result. {self.proof_text()}")
        return self._framed(self.X)

    @property
    def covariance(self) -> Any:
        """X with the variances of the covariance that was handed in, as ``matrix`` is.

        Raises
        ------
        ValueError
            Where there is no matrix, or C was not scaled.
        """
        if self.deviations is None:
            raise ValueError("There is no covariance: scale=True takes one.")
        if self.status not in (Status.OPTIMAL, Status.FEASIBLE):
            raise ValueError(f"There is no covariance in this {self.status} result. {self.proof_text()}")
        d = self.deviations
        S = self.X * np.multiply.outer(d, d)
        np.fill_diagonal(S, d * d)
        return self._framed(S)

    def _framed(self, A: np.ndarray) -> Any:
        """A in the form of the input."""
        if self.labels is None:
            return A
        if self.frame == "polars":
            import polars as pl

            return pl.DataFrame(A, schema=self.labels[1])
        import pandas as pd

        return pd.DataFrame(A, index=self.labels[0], columns=self.labels[1])

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """Of X, as computed; rounding makes it miss ``min_eig`` by a few n eps times the largest."""
        return float(eigvalsh(self.X)[0]) if np.isfinite(self.X).all() else np.nan

    @property
    def converged(self) -> bool:
        """Whether X is a correlation matrix at which the method's own stopping rule is met."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE) and self.exit_reason is ExitReason.TOLERANCE

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.X)


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class CorrelationResult(RepairedMatrix):
    """The certified correlation matrix; ``ConvergenceDisplay.from_result`` draws its history.

    Beside what all results have (:class:`bregmat.Result`):

    Attributes
    ----------
    X : ndarray, shape (n, n)
        Symmetric, with a diagonal of exact ones; for INFEASIBLE and UNKNOWN the last iterate, which is none.
    labels : tuple of two lists, or None
        Index and columns of the DataFrame that was handed in.
    frame : {None, "polars"}
        Library of that DataFrame where it is not pandas.
    deviations : ndarray, shape (n,), or None
        Standard deviations of the covariance that was handed in with ``scale=True``.
    status, exit_reason
        What is proven about X, and why the run stopped. With ``rank`` the search is a heuristic: FEASIBLE, with the lower bound
        that the problem without the rank proves.
    objective, dual_bound : float
        Divergence of X from the (repaired) input, ``|X - C|^2 / 2`` for Frobenius, and its proven lower bound.
    max_violation : float
        Largest amount by which a unit diagonal or a fixed entry is missed.
    residual : float
        ``|X - C|``, Frobenius, to the input as it was handed in (scaled, with ``scale=True``); R's nearPD calls it normF.
    divergence : str
    min_eig : float
        Asked for; no eigenvalue of X is below it, but for rounding (``smallest_eigenvalue`` is what was reached).
    rank : int or None
        Asked for.
    n_factors : int or None
        Asked for, of :func:`factor_correlation`. FEASIBLE, as with ``rank``, unless the bound is reached.
    factor : ndarray, shape (n, k), or None
        ``X = factor factor'``, rows of length one, for ``rank`` and for a Factor as input. For ``n_factors`` the loadings: X is that
        off the diagonal, and ``1 - (factor**2).sum(axis=1)`` are the variances that belong to one variable each.
    repaired : Repair or None
    rows : ndarray of int, shape (c, 2)
        Entries (i, j) that were prescribed: the diagonal, then the fixed ones with i < j. With weights or bounds: all with i <= j.
    dual : ndarray, shape (c,)
        Their multipliers; 0 with ``n_factors`` where the bound of the factors is the larger one.
        With Y symmetric, ``Y_ii = dual`` and ``Y_ij = dual / 2``, the bound follows from ``C - Y`` alone (Notes of
        :func:`nearest_correlation`). For INFEASIBLE they are the proof: Y is positive semidefinite and ``<Y, X>`` would be negative
        (LogDet, whose X is definite: not positive).
    null_space : ndarray, shape (n, k), or None
        Orthonormal null vectors of fixed blocks that are singular: what is said of Y holds on their complement.
    conflict : ndarray of int, shape (k, 2), or None
        Entries that carry the proof of infeasibility, with those that make the null space.
    n_iter : int
        Newton steps, with ``rank`` also those of the searches.

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
    repaired: Repair | None = None
    factor: np.ndarray | None = None
    null_space: np.ndarray | None = None

    @property
    def advice(self) -> str:
        """What to change, in words."""
        if self.status is not Status.INFEASIBLE:
            if self.exit_reason is ExitReason.STALLED:
                return "No step improves the matrix: loosen tol, or free some of the fixed entries."
            return super().advice
        if self.factor is not None:
            return (
                "The range of the low-rank input carries no unit diagonal: (a) widen_range(C, eps) opens its null space, "
                "(b) nearest_kernel with Constraints.diagonal and a finite slack_weight comes near one, (c) use more columns."
            )
        return "The fixed entries or bounds contradict each other: free one of result.conflict, or lower min_eig."

    @property
    def shown(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the repr shows."""
        asked = tuple(name for name in ("rank", "n_factors", "repaired") if getattr(self, name) is not None)
        return ("n", "divergence", "residual", "objective", "dual_bound", "gap", "min_eig", *asked)

    def certificate_rows(self, has_hard: bool | None = None) -> list[tuple[str, str]]:
        """(name, value) of every number of the certificate, as text."""
        rows = super().certificate_rows(has_hard)
        rows.insert(2, ("Frobenius distance to the input", number(self.residual, 7)))
        if self.repaired is not None:
            what = f"{self.repaired.n_eigenvalues} eigenvalues raised to {number(self.repaired.floor)}"
            rows.append(("repaired", f"{what}, a change of {number(self.repaired.size)} in Frobenius norm"))
        return rows

    def proof_text(self) -> str:
        """What is proven, as a plain sentence."""
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
        bound = (
            f"every matrix allowed here is at least {number(self.dual_bound, 7)} away"
            if self.rank is None
            else f"every correlation matrix of any rank is at least {number(self.dual_bound, 7)} away"
        )
        return f"The matrix is at {number(self.objective, 7)} (in the divergence), and {bound}."

    def _name(self, axis: int, k: int) -> str:
        return str(k if self.labels is None else self.labels[axis][k])
