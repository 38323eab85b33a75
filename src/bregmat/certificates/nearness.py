"""The data of problem (P), the nearest matrix to a prior under weighted bounds, and facts derived from them.

``minimize over M >= 0:  D(M, M0) + sum_i loss_i(p_i),  p = A(M)``, in coordinates where the prior is diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.constraints.rows import excess_of
from bregmat.objective.row_losses import RowLosses
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.linear_maps import Operator
from bregmat.operators.parallel_rows import ParallelRows, find_parallel_rows

FAR = 100.0  # multiple of the prior beyond which the divergence is nearly linear; dimensionless
N = TypeVar("N", bound="Nearness")
SIZE = 1e-3  # smallest unit of the gap, in units of the prior: smaller objectives are not told apart


@dataclass(frozen=True, eq=False)
class Nearness:
    """Problem (P) in coordinates in which the prior is diagonal.

    Attributes
    ----------
    divergence : SpectralDivergence
    t0 : ndarray, shape (r,)
        Mirror coordinates of the prior, which is diagonal.
    operator : Operator
        Constraints bound to the rows of the touched points.
    losses : RowLosses
        Bounds, senses, weights and scalar losses of the rows.
    unit : ndarray, shape (c,)
        Unit in which the violation of each row is measured.
    offset : float
        Constant of the objective, from eliminated directions.
    scale : float
        Size of 1 in M, bounds and values, in the user's units. If the divergence is homogeneous, the prior has mean eigenvalue 1.
    linked : ndarray of int or None
        Rows that force directions of M to vanish; None if there are none, they are eliminated, or the divergence excludes them.
    """

    divergence: SpectralDivergence
    t0: np.ndarray
    operator: Operator
    losses: RowLosses
    unit: np.ndarray
    offset: float = 0.0
    scale: float = 1.0
    linked: np.ndarray | None = None
    size: ClassVar[float] = SIZE

    @property
    def worth(self) -> float:
        """Size of 1 in the objective, in the user's units: ``scale^degree``."""
        return self.scale ** (self.divergence.degree or 0)

    @property
    def c(self) -> int:
        """Number of rows."""
        return self.operator.c

    @property
    def r(self) -> int:
        """Order of M."""
        return self.operator.r

    @cached_property
    def prior(self) -> np.ndarray:
        """Diagonal of M0."""
        return self.divergence.inverse_link(self.t0)

    @cached_property
    def parallel_rows(self) -> ParallelRows:
        """Hard rows whose matrices are multiples of each other."""
        return find_parallel_rows(self.operator, self.losses)

    @cached_property
    def trace_row(self) -> tuple[int, float] | None:
        """A hard equality with ``A_i = kappa I``, which fixes the trace, and kappa."""
        L = self.losses
        rows = np.flatnonzero(L.hard & (L.sense == 0) & (L.bound > 0))
        if not len(rows):
            return None
        some = self.operator.restrict(rows)
        kappa = some.values_diagonal(None) / self.r
        same = kappa > 0
        for seed in range(2):  # <kappa I, M> = kappa tr M for every M, here for two random ones
            X = np.random.default_rng(seed).normal(size=(self.r, self.r))
            same &= np.abs(some.values(X @ X.T) - kappa * np.vdot(X, X)) <= 1e-6 * kappa * np.vdot(X, X)
        found = np.flatnonzero(same)
        return (int(rows[found[0]]), float(kappa[found[0]])) if len(found) else None

    @cached_property
    def stretch(self) -> float:
        """Geometric mean of bound over value at the prior, over the hard rows that the prior violates; 1 if there are none."""
        L = self.losses
        if not L.has_hard:
            return 1.0
        p = self.operator.values_diagonal(self.prior)
        rows = L.hard & L.violated(p) & (p > 0) & (L.bound > 0)
        with np.errstate(over="ignore"):
            return float(np.exp(np.log(L.bound[rows] / p[rows]).mean())) if rows.any() else 1.0

    @property
    def is_nearly_linear(self) -> bool:
        """Whether the solution is so far from the prior that the divergence is nearly a linear function ``<C, M>`` there.

        This is so if values must grow by a large factor (LogDet) or shrink by one (Frobenius). The solution is then nearly
        singular, and the interior point finds it in fewer steps than the other solvers.
        """
        D = self.divergence
        return (D.keeps_rank and self.stretch > FAR) or (not D.keeps_range and self.stretch < 1.0 / FAR)

    def sampled(self: N, share: float) -> N:
        """The problem of about this share of its soft rows, whose slack weights are divided by the share."""
        rows = self.operator.drawn(share)
        losses = self.losses.restrict(rows)
        return replace(
            self,
            operator=self.operator.restrict(rows),
            losses=losses.weighted(losses.gamma / share),
            unit=self.unit[rows],
        )

    def violation(self, p: np.ndarray) -> np.ndarray:
        """Relative violation of each row."""
        return np.maximum(excess_of(p, self.losses.bound, self.losses.sense), 0.0) / self.unit
