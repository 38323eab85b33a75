"""The dual of a margin machine: kernel, labels as signs, and what a slack may cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bregmat.base.checks import as_column, check_flag, check_positive, rows_text
from bregmat.base.threads import cached_property
from bregmat.kernels import KernelSource
from bregmat.kernels.sources import Scaled

Loss = Literal["hard", "hinge", "squared_hinge"]

RANGE = 1e25  # norms between 1 / RANGE and RANGE leave room for sums in float32
LARGEST = 1e300  # stands for a price that float64 cannot hold


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """``max sum(a) - 1/2 a'(A + diag(ridge)) a``, ``0 <= a <= upper``, ``signs'a = 0`` with an intercept; ``A = yy' * K``.

    Made by :meth:`build`, which checks what a caller can get wrong; the fields are taken as they are.

    Attributes
    ----------
    kernel : KernelSource
        Positive semidefinite on the n samples.
    signs : ndarray of shape (n,), float64
        +1 or -1.
    upper : ndarray of shape (n,), float64
        Largest weight of each sample: its C for the hinge, inf for the hard margin and the squared hinge, 0 for a sample
        that does not count.
    ridge : ndarray of shape (n,), float64
        ``1 / C_i`` for the squared hinge ``C_i / 2 * xi_i^2``, else 0.
    intercept : bool
        Whether the machine has one (not regularised).
    """

    kernel: KernelSource
    signs: np.ndarray
    upper: np.ndarray
    ridge: np.ndarray
    intercept: bool

    @classmethod
    def build(
        cls,
        kernel: KernelSource,
        signs: Any,
        *,
        C: float = 1.0,
        sample_weight: Any = None,
        squared_hinge: bool = False,
        intercept: bool = True,
    ) -> MarginProblem:
        """The usual machines.

        Parameters
        ----------
        kernel : KernelSource
            Over n samples; see :func:`~bregmat.kernels.kernel_source`.
        signs : array_like of shape (n,)
            Labels, +1 or -1.
        C : float, default 1.0
            Price of a unit of slack (hinge) or twice that of its square (squared hinge), in units of ``||w||^2 / 2``; inf is
            the hard margin.
        sample_weight : array_like of shape (n,), optional
            Multiplies C, >= 0; a sample of weight 0 does not count.
        squared_hinge : bool, default False
            ``C/2 sum xi^2`` instead of ``C sum xi``.
        intercept : bool, default True

        Raises
        ------
        TypeError, ValueError
            Shapes, NaN, labels other than +1 and -1 or of one class only, C <= 0, negative weights; with the rows.
        """
        y = as_column("signs", signs, kernel.n, per="row of the kernel", copy=True)
        odd = np.flatnonzero(np.abs(y) != 1.0)
        if len(odd):
            raise ValueError(f"signs must be +1 or -1; got {y[odd[0]]:g} in {rows_text(odd)}.")
        check_positive("C", C)
        check_flag("squared_hinge", squared_hinge)
        check_flag("intercept", intercept)
        weight = np.ones(len(y))
        if sample_weight is not None:
            weight = as_column("sample_weight", sample_weight, len(y), per="row of the kernel", lowest=0)
        counts = weight > 0
        # Without an intercept one class is a proper problem; with one it has no margin to speak of.
        if not counts.any() or (intercept and (y[counts] == y[counts][0]).all()):
            held = sorted({int(s) for s in y[counts]})
            raise ValueError(f"signs must hold two classes among the samples of positive weight; got {held}.")
        price = np.where(counts, weight, 0.0) * C if np.isfinite(C) else np.where(counts, np.inf, 0.0)
        free = np.where(counts, np.inf, 0.0)
        if not squared_hinge or not np.isfinite(C):
            return cls(kernel, y, price, np.zeros(len(y)), bool(intercept))
        return cls(kernel, y, free, np.divide(1.0, price, out=np.zeros(len(y)), where=counts), bool(intercept))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.signs)

    @cached_property
    def loss(self) -> Loss:
        """What a slack costs: nothing is allowed ("hard"), ``C_i xi`` ("hinge") or ``C_i/2 xi^2`` ("squared_hinge")."""
        if self.ridge.any():
            return "squared_hinge"
        return "hinge" if np.isfinite(self.upper).all() else "hard"

    @cached_property
    def price(self) -> float:
        """The upper bound of every weight that counts where they are all the same (inf for none), else NaN."""
        top = self.upper.max()
        return float(top) if np.array_equal(self.upper == top, self.counts) else float("nan")

    @cached_property
    def largest(self) -> float:
        """The largest ``K_ii`` of the samples that count."""
        return float(np.max(self.kernel.diagonal(), initial=-np.inf, where=self.counts))

    @cached_property
    def counts(self) -> np.ndarray:
        """Samples of positive weight, bool of shape (n,)."""
        return self.upper > 0

    @cached_property
    def lengths(self) -> np.ndarray:
        """``sqrt(K_ii)``, shape (n,)."""
        return np.sqrt(np.maximum(self.kernel.diagonal(), 0.0))

    @property
    def factor(self) -> float:
        """1.0, or the power of two that brings the largest norm near 1 where float32 would overflow or vanish."""
        if not 0 < self.largest < np.inf or 1.0 / RANGE <= self.largest <= RANGE:
            return 1.0
        return float(2.0 ** -np.round(np.log2(self.largest)))

    def multiplied(self, factor: float) -> MarginProblem:
        """The problem with ``factor`` times the kernel: its weights are those of this one divided by ``factor``."""
        with np.errstate(over="ignore"):
            upper = np.where(np.isfinite(self.upper), np.minimum(self.upper / factor, LARGEST), np.inf)
        return replace(self, kernel=Scaled(self.kernel, factor), upper=upper, ridge=self.ridge * factor)
