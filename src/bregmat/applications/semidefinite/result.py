"""The result of a semidefinite program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.run.result import MatrixResult, Status


@dataclass(eq=False, repr=False, kw_only=True)
class SemidefiniteResult(MatrixResult):
    """The certified solution of a semidefinite program (:func:`semidefinite_program`).

    Beside what all matrix results have (:class:`bregmat.MatrixResult`):

    Attributes
    ----------
    objective, dual_bound : float
        ``tr(C X)`` plus the losses of soft rows, and the proven lower bound: ``-b . dual`` where all rows are hard, since
        ``C + sum_i dual_i A_i`` is positive semidefinite.
    unit : float
        What the gap is measured in: the objective, or a thousandth of the norm of C times the largest ``|b_i| / |A_i|`` if that is
        larger. ``|A_i|`` is the sum of the norms of the terms of a row.
    ray : ndarray, shape (n, k), or None
        The proof of UNBOUNDED: ``X + t ray ray'`` meets the rows for every t >= 0, and ``tr(C ray ray') < 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, semidefinite_program
    >>> result = semidefinite_program(np.diag([1.0, -1.0]), Constraints.diagonal([1.0], index=[0]))
    >>> print(result.status, abs(result.ray[:, 0]).round(3))
    UNBOUNDED [0. 1.]
    """

    ray: np.ndarray | None = None

    statuses: ClassVar[frozenset[Status]] = frozenset(Status)
