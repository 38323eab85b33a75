"""Verification of results: figures are recomputed from the point and the multipliers alone, in extended precision where possible.

Nothing here imports code that solvers or certificates compute with. A verification may lower a status but never raises it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.margin.problem import MarginProblem
from bregmat.verification import (  # noqa: F401 - each registers its kinds of result
    correlation_input,
    correlations,
    cuts,
    machines,
    matrices,
    programs,
    semidefinite,
    vectors,
)
from bregmat.verification.figures import Verification, own_figures, recompute

__all__ = ["Verification", "verify"]


def verify(problem: Any, result: Any) -> Verification:
    """Recompute all claims of a result from its point and its dual weights alone.

    The code is independent of all solvers and certificates: it decomposes the prior again and writes every constraint from its formula. It
    uses the platform's long double if that takes about a second at most, else float64. ``verification.holds`` says whether all
    claims agree, ``verification.problems`` lists those that do not, and ``verification.unchecked`` those that could not be
    recomputed. A claim that is weaker than what is proven holds. A result that is INFEASIBLE or UNBOUNDED claims its proof alone.
    Attributes that describe the run (``n_iter``, ``history``, ``solver``, ...) are not verified.

    Parameters
    ----------
    problem : mapping or None
        The arguments of the call that made the result, by name: ``{"prior": K, "constraints": c, "divergence": "logdet"}`` for
        :func:`nearest_kernel`, with ``X`` for :func:`nearest_metric` and the ``result_`` of estimators; ``{"A": A, "b": b}`` for
        :func:`nnqp`, ``{"X": X, "y": y}`` for :func:`nonnegative_least_squares`, ``{"C": C}`` for :func:`nearest_correlation`
        and :func:`shrink_correlation`, ``{"C": C, "n_factors": k}`` for :func:`factor_correlation`,
        ``{"C": C, "constraints": c}`` for :func:`semidefinite_program`, ``{"X": X, "n_neighbors": k}`` for :func:`unfold`,
        ``{"graph": graph}`` for :func:`balanced_cut`, ``{"x0", "A", "b", "sense"}`` for :func:`nearest_distribution`, ``{"H",
        "y"}`` for :func:`boost_hypotheses`, and ``{"kernel": K, "signs": y}`` with the kernel matrix for :class:`MarginSVC`.
        Options that do not change the problem (``tol``, ``solver``) are ignored. If None, the figures of the result are only
        compared with each other, as for a model file without its data.
    result : Result
        The result of that call.

    Returns
    -------
    Verification

    Raises
    ------
    ValueError, TypeError
        If arguments are missing, or the result has another size than the problem.

    Notes
    -----
    The definition of the problem is shared with the solvers: ``phi``, its link and the inverse of the link, the losses, and the
    rule that assigns losses to constraints. A problem of order r with c constraints costs about ``60 r^3 + 4 c r^2`` operations.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel, verify
    >>> K, constraints = np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> found = verify({"prior": K, "constraints": constraints}, nearest_kernel(K, constraints))
    >>> print(found.holds, found.status, found.problems)
    True OPTIMAL []
    """
    found = own_figures(result)
    if problem is None:
        found.unchecked.append(
            "the problem is not at hand: only the result's own figures were compared with each other"
        )
        return found
    if not isinstance(problem, Mapping | MarginProblem):
        raise TypeError(f"problem must be a mapping of arguments, or None; got {type(problem).__name__}.")
    with np.errstate(all="ignore"):
        recompute(result, problem, found)
    return found
