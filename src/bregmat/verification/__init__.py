"""Verification of results: figures are recomputed from the point and the multipliers alone, in extended precision where possible.

Nothing here imports code that solvers or certificates compute with. A verification may lower a status but never raises it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.base.threads import STEERING
from bregmat.certificates.result import MatrixResult
from bregmat.engine.result import Result
from bregmat.nearest import is_for_blocks
from bregmat.verification.correlations import CorrelationVerifier, ShrinkVerifier
from bregmat.verification.cuts import CutVerifier
from bregmat.verification.extended import numbers
from bregmat.verification.machines import MachineVerifier
from bregmat.verification.matrices import MatrixVerifier
from bregmat.verification.programs import ProgramVerifier
from bregmat.verification.report import Verification, own_figures
from bregmat.verification.semidefinite import SemidefiniteVerifier, UnfoldVerifier
from bregmat.verification.softmax import SoftmaxVerifier
from bregmat.verification.vectors import BoostVerifier, DistributionVerifier
from bregmat.verification.verifier import MissingArguments, Verifier

KINDS: list[type[Verifier]] = [MatrixVerifier, SemidefiniteVerifier, UnfoldVerifier, SoftmaxVerifier]
KINDS += [CorrelationVerifier, ShrinkVerifier, CutVerifier]
KINDS += [DistributionVerifier, BoostVerifier, ProgramVerifier, MachineVerifier]
VERIFIERS = {verifier.kind: verifier for verifier in KINDS}

__all__ = ["Verification", "verify"]


def verify(result: Any, X: Any = None, **arguments: Any) -> Verification:
    """Recompute all claims of a result from its point and its dual weights alone.

    The code is independent of all solvers and certificates: it decomposes the prior again and writes every constraint from its formula. It
    uses the platform's long double if that takes about a second at most, else float64. ``verification.holds`` says whether all
    claims agree, ``verification.problems`` lists those that do not, and ``verification.unchecked`` those that could not be
    recomputed. A claim that is weaker than what is proven holds. A result that is INFEASIBLE or UNBOUNDED claims its proof alone.
    Attributes that describe the run (``n_iter``, ``history``, ``solver``, ...) are not verified.

    Parameters
    ----------
    result : Result or fitted learner
        The result of a call, whose arguments it remembers (``result.call``); or a learner with a ``result_``.
    X : array-like, optional
        The points. Of a learner they take the place of those of ``fit``.
    **arguments
        All arguments of the call, by name, in place of the remembered ones: ``verify(result, prior=K, constraints=c)`` for
        :func:`nearest_kernel`. A result from a model file or a pickle has no others: without them its figures are only compared with each
        other. Options that do not change the problem, such as ``tol``, are ignored. For :class:`MarginSVC` they are
        ``kernel``, the kernel matrix, and ``signs``, the labels as +1 and -1, with ``C``, ``sample_weight``, ``squared_hinge`` and
        ``intercept``.

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
    rule that assigns losses to constraints. A problem of order r with c constraints costs about ``60 r^3 + 4 c r^2`` operations. Remembered
    arguments are not copied: an array that has changed since the call makes the verification fail.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel, verify
    >>> K, constraints = np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> result = nearest_kernel(K, constraints)
    >>> report = verify(result)
    >>> print(report.holds, report.status, report.problems)
    True OPTIMAL []
    >>> verify(result, prior=2 * K, constraints=constraints).holds  # another problem than the one that was solved
    False
    """
    if X is not None:
        arguments = {"X": X} | arguments
    if not isinstance(result, Result):
        result, arguments = _of_learner(result, arguments)
    if not isinstance(getattr(result, "dual", np.zeros(0)), np.ndarray):  # columns that stay with sharded rows
        result = replace(result, dual=np.asarray(result.dual), values=np.asarray(result.values))
    report = own_figures(result)
    verifier = next((VERIFIERS[kind] for kind in type(result).__mro__ if kind in VERIFIERS), None)
    if verifier is None:
        raise TypeError(f"result must be a result of this library; got {type(result).__name__}.")
    problem = {name: value for name, value in (arguments or result.call or {}).items() if name not in STEERING}
    if is_for_blocks(None, None, *problem.values()):
        report.unchecked.append("constraints and points that are not in memory are not read: pass them as arrays")
        return report
    try:
        with np.errstate(all="ignore"):
            verifier(problem, result).run(report)
    except MissingArguments as missing:
        if arguments:
            raise
        report.unchecked.append(f"the call is not known, because model files and pickles contain no data: {missing}")
    return report


def _of_learner(learner: Any, arguments: dict[str, Any]) -> tuple[Result, dict[str, Any]]:
    """The result of a fitted learner, and the arguments to verify it with; none if only the remembered ones are."""
    results = getattr(learner, "result_", None)
    if isinstance(results, list):
        raise TypeError(
            f"a {type(learner).__name__} of {len(results)} machines has as many results: verify each of result_."
        )
    if not isinstance(results, Result):
        raise TypeError(
            f"result must be a result of this library, or a fitted learner that has one as result_; got {type(learner).__name__}."
        )
    if set(arguments) == {"X"} and results.call is not None:
        if "X" in results.call:
            return results, results.call | arguments
        # the problem was made from the labels as well, so other points give another one
        base = results.coordinates.base if isinstance(results, MatrixResult) else None
        if base is None or not np.array_equal(numbers(base), numbers(arguments["X"])):
            raise ValueError(
                f"X must be the points of fit, or left out: the problem of this {type(learner).__name__} has no X."
            )
        arguments = {}
    return results, arguments
