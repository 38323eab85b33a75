"""Input of a fit besides points and labels: constraints that name samples, and weights of points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from bregmat.base.checks import rows_text, similar_name
from bregmat.base.html import listed
from bregmat.constraints.columns import check_unique
from bregmat.constraints.constraints import Constraints
from bregmat.estimators.base import sample_weights


def point_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Weights of points: those that are not 0 have mean 1."""
    weight = sample_weights(sample_weight, n)
    if not weight.any():
        raise ValueError("sample_weight must not be zero for every row of X: no point with a weight is left.")
    top = weight.max()  # so that the sum does not overflow
    return weight / top / (weight[weight > 0] / top).mean()


def present(estimator: Any, X: Any, weight: np.ndarray) -> np.ndarray:
    """Numbers of the rows whose weight is not 0."""
    here = np.flatnonzero(weight)
    if len(here) < 2:
        raise ValueError(f"sample_weight must be positive for at least 2 points; got {len(here)} of {len(weight)}.")
    is_mapped = isinstance(X, np.memmap)
    if len(here) < len(weight) and (is_mapped or get_tags(estimator).input_tags.pairwise):
        rows = rows_text(np.flatnonzero(weight == 0))
        which = "a memory-mapped X" if is_mapped else "a precomputed kernel"
        raise ValueError(f"sample_weight must be positive for {which}; got 0 in {rows}: leave these points out of X.")
    return here


def point_groups(groups: Any, n: int) -> np.ndarray:
    """The group of each point, as an array."""
    values = np.asarray(groups)
    if values.shape != (n,):
        raise ValueError(f"groups must name the group of each of the {n} rows of X; got shape {values.shape}.")
    return values


def nothing_given(learner: Any) -> ValueError:
    """The error if there are neither labels nor constraints."""
    return ValueError(
        f"This {type(learner).__name__} estimator requires y to be passed, but the target y is None "
        "and so is constraints."
    )


def given_constraints(constraints: Any, names: np.ndarray | None, n: int) -> tuple[Constraints | None, int]:
    """Constraints in row numbers (None if none is left), and how many were dropped because they name a sample that is not there.

    Without names, a number beyond the rows of X is an error, because the numbers can then not be those of these rows.
    """
    if names is not None:
        if len(names) != n:
            raise ValueError(f"sample_id must name each of the {n} rows of X; got {len(names)}.")
        check_unique(names)
    if constraints is None:
        return None, 0
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be a bregmat.Constraints object; got {type(constraints).__name__}.")
    if names is None and constraints.ids is None:
        hint = "In cross-validation, or if these are not row numbers of X, pass sample_id."
        constraints.check_range(n, "X", hint)
    located, kept = constraints.locate(names, n)
    return located, int((~kept).sum())


def none_is_left(constraints: Constraints, names: Any) -> ValueError:
    """The error if every constraint names an unknown sample; it names the first of these, and known samples of similar names."""
    used = constraints.index[~constraints.where("is_whole")]
    used = used[used >= 0]
    asked = dict.fromkeys((used if constraints.ids is None else constraints.ids[used]).tolist())
    known = [] if names is None else names.tolist()
    there = set(known)
    strangers = [name for name in asked if name not in there]
    said = [f"{name!r}{similar_name(name, known)}" for name in strangers[:3]] + strangers[3:]
    more = f" ({listed(said, 3)}; it has {listed(map(repr, known), 3)})" if strangers else ""
    return ValueError(
        f"no constraint is left: {constraints.n_constraints} name a sample that is not in sample_id{more}, and no labels are used."
    )


def weighted(rows: Constraints, weight: np.ndarray, is_drawn: bool = False) -> Constraints:
    """Rows whose weights are multiplied by those of their points; drawn rows keep the sum of their weights."""
    factor = rows.factors(weight)
    product = rows.weight * (factor / factor.mean() if is_drawn else factor)
    return replace(rows, weight=np.maximum(product, np.finfo(float).tiny))
