"""The dual problem of a margin machine: kernel, labels as signs, bounds of the weights and ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bregmat.base.checks import as_column, check_flag, check_positive, rows_text
from bregmat.base.threads import cached_property
from bregmat.kernels import KernelSource

Loss = Literal["hard", "hinge", "squared_hinge"]


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """``max sum(a) - 1/2 a'(A + diag(ridge)) a``, ``0 <= a <= upper``, ``signs'a = 0`` with an intercept; ``A = yy' * K``.

    Use :meth:`build`, which checks its arguments; the constructor does not. Arrays are float64 of shape (n,).
    """

    kernel: KernelSource  # positive semidefinite on the n samples
    signs: np.ndarray  # labels, +1 or -1
    # largest weight: C_i for the hinge, inf for the hard margin and the squared hinge, 0 for a sample that is ignored
    upper: np.ndarray
    ridge: np.ndarray  # 1 / C_i for the squared hinge C_i / 2 xi_i^2, else 0
    intercept: bool  # whether the machine has an intercept, which is not regularised

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
        """Check the arguments and build the problem of a hard margin, hinge or squared hinge machine.

        Parameters
        ----------
        kernel : KernelSource
            Over n samples; see :func:`~bregmat.kernels.kernel_source`.
        signs : array_like of shape (n,)
            Labels, +1 or -1.
        C : float
            Weight of the loss beside ``||w||^2 / 2``; inf is the hard margin.
        sample_weight : array_like of shape (n,), optional
            Multiplies C, >= 0; a sample of weight 0 is ignored.
        squared_hinge : bool
            The loss is ``C/2 sum xi^2`` instead of ``C sum xi``.
        intercept : bool
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
        # Without an intercept one class is a proper problem; with an intercept its optimum is w = 0.
        if not counts.any() or (intercept and (y[counts] == y[counts][0]).all()):
            held = sorted({int(s) for s in y[counts]})
            raise ValueError(f"signs must hold two classes among the samples of positive weight; got {held}.")
        return cls(kernel, y, *bounds_and_ridge(C, weight, squared_hinge), bool(intercept))

    def check_range(self) -> None:
        """Raise for kernel values that float32 sums cannot hold."""
        range = 1e25  # the largest K_ii must lie between 1 / RANGE and RANGE, so that sums of float32 products cannot overflow
        if self.largest != 0 and not 1.0 / range <= self.largest <= range:
            raise ValueError(
                f"the largest kernel value k(x, x) must be between {1 / range:g} and {range:g}; got {self.largest:.3g}. "
                "Scale the features."
            )

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.signs)

    @cached_property
    def loss(self) -> Loss:
        """Loss of a slack xi: not allowed ("hard"), ``C_i xi`` ("hinge") or ``C_i/2 xi^2`` ("squared_hinge")."""
        if self.ridge.any():
            return "squared_hinge"
        return "hinge" if np.isfinite(self.upper).all() else "hard"

    @cached_property
    def largest(self) -> float:
        """The largest ``K_ii`` of the samples that count."""
        return float(np.max(self.kernel.diagonal(), initial=-np.inf, where=self.counts))

    @cached_property
    def counts(self) -> np.ndarray:
        """Whether a sample has positive weight, bool of shape (n,)."""
        return self.upper > 0

    @cached_property
    def lengths(self) -> np.ndarray:
        """Norms in feature space, ``sqrt(K_ii)``, shape (n,)."""
        return np.sqrt(np.maximum(self.kernel.diagonal(), 0.0))


def bounds_and_ridge(C: float, weight: np.ndarray, squared_hinge: bool) -> tuple[np.ndarray, np.ndarray]:
    """The arrays ``upper`` and ``ridge`` of a problem, from C and the factor of each sample."""
    C_i = np.where(weight > 0, C, 0.0) * np.where(np.isfinite(C), weight, 1.0)
    if not squared_hinge or not np.isfinite(C):
        return C_i, np.zeros(len(C_i))
    return np.where(C_i > 0, np.inf, 0.0), np.divide(1.0, C_i, out=np.zeros(len(C_i)), where=C_i > 0)
