"""A certified vector and how the run went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.result import Result


@dataclass(eq=False, repr=False, kw_only=True)
class DistributionResult(Result):
    """The certified vector and its proof; ``ConvergenceDisplay.from_result`` draws it.

    Attributes
    ----------
    x : ndarray, shape (n,)
    dual, values, violation : ndarray, shape (c,)
        Signed dual weight (>= 0 for "<=", <= 0 for ">="), value ``A x`` and relative violation (over ``|b|``; over the
        size of the row at the prior where b = 0) of each row. For INFEASIBLE, ``dual`` is the proof.
    objective, dual_bound : float
        KL(x, x0) and its proven lower bound.
    gap : float
        ``(objective - dual_bound) / max(1, |objective|)``; inf where nothing is proven.
    max_violation : float
        Largest relative violation.
    status, exit_reason
        What is proven, and why the run stopped; DefiniteBoost and cyclic projection without corrections end FEASIBLE.
    tol : float
    n_iter : int
    seconds : float
    history : list of Record
    solver : str
    conflict : ndarray of int or None
        Rows that carry the proof of infeasibility.
    trace : dict of ndarray
        DefiniteBoost, per step: ``row``, ``step`` (change of its dual weight) and, where the total is fixed,
        ``log_dual_objective`` (logarithm of ``sum (x0 / |x0|) exp(-sum gamma_j C_j)``; Tsuda 2004, eq. 9) and ``log_bound``
        (that of its bound, Theorem 4.1). Empty for other solvers.
    """

    x: np.ndarray
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray

    noun: ClassVar[str] = "nonnegative vector"
