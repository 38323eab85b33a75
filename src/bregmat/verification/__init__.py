"""Results verified: recomputed from point and multipliers alone, in another order and in extended precision where it decides.

Nothing here imports what solvers or certificates compute with. A verification may lower a status, never raise it.
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
    """Recompute what a result claims, from its point and its dual weights alone; the status can only fall.

    Written apart from all solvers and certificates: the prior is decomposed again, every row is written out from its formula, and
    sums are taken in the platform's long double wherever that takes about a second at most, else in float64. Worth a call where
    much depends on a result; ``verification.holds`` says whether everything agrees, ``verification.problems`` what does not, and
    ``verification.unchecked`` which claims could not be recomputed. A claim that is weaker than what is proven holds. Of INFEASIBLE
    and UNBOUNDED the proof alone is a claim; what describes the run (``n_iter``, ``history``, ``solver``, ...) is none.

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
        Options that do not change the problem (``tol``, ``solver``) are ignored. None: only the figures of the result
        itself are compared, which is all that is left of a model file without its data.
    result : Result
        What was returned.

    Returns
    -------
    Verification

    Raises
    ------
    ValueError, TypeError
        For arguments that are missing, and results of another size.

    Notes
    -----
    What is shared with the solvers is what defines the problem: ``phi``, its link and the inverse of that, the losses, and the
    rule which row has which loss. A problem of order r with c rows costs about ``60 r^3 + 4 c r^2`` operations.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel, verify
    >>> K, rows = np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> found = verify({"prior": K, "constraints": rows}, nearest_kernel(K, rows))
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
