"""The constraints of a fitted estimator, found among the rows at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bregmat.constraints import Constraints


def constraints_among(estimator: Any, X: Any, constraints: Any, sample_id: Any) -> tuple[Constraints, Any]:
    """Constraints in row numbers of X (by default those the estimator was fitted on), and the names of the rows.

    Rows that name a sample which is not in X are left out, as in ``fit``.
    """
    from bregmat.estimators.learner import (  # here, so that pictures of plain data load less
        given_constraints,
        row_names,
    )

    constraints = estimator.constraints_ if constraints is None else constraints
    names = row_names(X, constraints, sample_id)
    located, n_dropped = given_constraints(constraints, names, X.shape[0])
    if located is None:
        raise ValueError(f"constraints: none of the {n_dropped} rows has all its samples in X.")
    return located, names
