"""Rows that are refused: no matrix that can be computed meets them, or their values are lost when points are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.base.checks import rows_text
from bregmat.base.linalg import blocks, dense, sq_norms
from bregmat.base.tolerances import FEASIBLE
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import SAMPLES, Relation
from bregmat.coordinates.priors import Coordinates
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.linear_maps import Operator

MAX_SIZE = 1e150  # of eigenvalues, values and units, so that their squares do not overflow
PRODUCT_ROUNDING = 1e-9  # largest relative rounding of the value of an inner product
UNBALANCED = 1e3  # ratio of two lengths from which |z_a + z_b|^2 - |z_a - z_b|^2 loses digits of the inner product
EPS, LONG_EPS = float(np.finfo(float).eps), float(np.finfo(np.longdouble).eps)
SIGNS = {"-": -1, "+": 1}


def check_given_rows(place: Coordinates, prior: np.ndarray, constraints: Constraints, vanished: np.ndarray) -> None:
    """Raise for rows whose value at the prior is not 0 but is below the rounding of the points that it is computed from.

    Parameters
    ----------
    place : Coordinates
        Of the prior and of points that were given as data.
    prior : ndarray, shape (r,)
        Diagonal of the prior, in the user's units.
    constraints : Constraints
        In row numbers of the points.
    vanished : ndarray of int
        Ascending numbers of the rows that count as 0 for every matrix.
    """
    bound = np.abs(constraints.bound)
    root = None if place.identity else np.sqrt(prior)
    for code, relation in enumerate(constraints.relations):
        rows = vanished[constraints.relation[vanished] == code]
        if relation.is_whole or not (constraints.relation == code).any():
            continue
        for part in _parts(rows, place) if len(rows) else ():
            value, size, _ = _given_values(place, root, relation, constraints.index[part])
            unit = np.where(bound[part] > 0, bound[part], size)
            _refuse(constraints, part, np.abs(value) + 8.0 * LONG_EPS * size > FEASIBLE * unit, value)
        if place.dropped is not None:
            for part in _parts(np.flatnonzero(constraints.relation == code), place):
                value, size, is_lost = _outside(place, place.dropped, relation, constraints.index[part])
                _refuse(constraints, part, is_lost & (size > PRODUCT_ROUNDING * bound[part]), value)
        if "." in "".join(relation.form):  # an inner product
            for part in _parts(_unbalanced(place, constraints, code), place):
                value, size, squares = _given_values(place, root, relation, constraints.index[part])
                unit = np.where(bound[part] > 0, bound[part], size)
                _refuse(constraints, part, (EPS * squares > PRODUCT_ROUNDING * unit) & (size > 0), value)


def _refuse(constraints: Constraints, rows: np.ndarray, is_lost: np.ndarray, value: np.ndarray) -> None:
    """Raise if the value of a row is lost."""
    bad = rows[is_lost]
    if len(bad):
        raise ValueError(
            f"{rows_text(bad, 'constraint')}: {constraints.describe(int(bad[0]))} has the value {float(value[is_lost][0]):.3g} at the "
            "prior, which is below the rounding of its points. Centre the columns of the data (subtract the mean of each), "
            "bring points and columns to similar sizes, or make points equal that differ by rounding only."
        )


def _parts(rows: np.ndarray, place: Coordinates) -> list[np.ndarray]:
    """The rows in blocks of at most 8 MB of points."""
    return [rows[part] for part in blocks(len(rows), place.base.shape[1], 2**20)]


def _unbalanced(place: Coordinates, constraints: Constraints, code: int) -> np.ndarray:
    """Numbers of the rows of a relation with inner products of points of very different lengths."""
    relation, rows = constraints.relations[code], np.flatnonzero(constraints.relation == code)
    points, where = np.unique(constraints.index[rows, : relation.arity], return_inverse=True)
    length = np.concatenate([np.abs(_points(place, some)).max(axis=1, initial=0.0) for some in _parts(points, place)])
    ends = length[where.reshape(len(rows), -1)]
    return rows[ends.max(axis=1) > UNBALANCED * ends.min(axis=1)]


def _points(place: Coordinates, rows: np.ndarray) -> np.ndarray:
    return np.asarray(dense(place.base[rows]), dtype=float)


def _outside(
    place: Coordinates, dropped: np.ndarray, relation: Relation, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values at the identity, the sums of the sizes of their terms, and which rows have a term whose vectors leave the prior's range."""
    value, size, is_lost = np.zeros(len(index)), np.zeros(len(index)), np.zeros(len(index), dtype=bool)
    for key, coef in relation.form.items():
        a, b = (_points(place, index[:, SAMPLES.index(k)]) for k in (key[0], key[-1]))
        first, second = (a, b) if key[1:2] == "." else (a + SIGNS[key[1]] * b if key[1:2] else a,) * 2
        leaves = [sq_norms(v @ dropped) > PRODUCT_ROUNDING * sq_norms(v) for v in (first, second)]
        is_lost |= leaves[0] & leaves[1]
        value += coef * (first * second).sum(axis=1)
        size += abs(coef) * np.sqrt(sq_norms(first) * sq_norms(second))
    return value, size, is_lost


def _given_values(
    place: Coordinates, root: np.ndarray | None, relation: Relation, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values at the prior, the sums of their absolute terms, and the squared lengths of the points of inner products.

    Differences and products are formed from the points as given, before anything is mapped or scaled.
    """
    value, size, squares = (np.zeros(len(index), dtype=np.longdouble) for _ in range(3))
    for key, coef in relation.form.items():
        a, b = (_points(place, index[:, SAMPLES.index(k)]).astype(np.longdouble) for k in (key[0], key[-1]))
        if key[1:2] == ".":
            first, second = _mapped(place, root, a), _mapped(place, root, b)
            squares += abs(coef) * ((first * first).sum(axis=1) + (second * second).sum(axis=1)) / 2
        else:
            first = second = _mapped(place, root, a + SIGNS[key[1]] * b if key[1:2] else a)
        value += coef * (first * second).sum(axis=1)
        size += abs(coef) * np.abs(first * second).sum(axis=1)
    return value, size, squares


def _mapped(place: Coordinates, root: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
    """Vectors of the data in coordinates in which the prior is the identity."""
    on = np.flatnonzero(vectors.any(axis=1))
    if not len(on):
        return np.zeros((len(vectors), 1), dtype=vectors.dtype)
    R: Any = place.R
    mapped = vectors[on] if R is None else vectors[on] @ dense(R).astype(vectors.dtype)
    if root is not None:
        mapped = mapped * root
    out = np.zeros((len(vectors), mapped.shape[1]), dtype=vectors.dtype)
    out[on] = mapped
    return out


def check_reachable(operator: Operator, losses: RowLosses, constraints: Constraints, size: np.ndarray) -> None:
    """Raise for rows whose values at the identity overflow, and for rows that are 0 although their bound excludes 0.

    Parameters
    ----------
    operator : Operator
    losses : RowLosses
        With the bounds.
    constraints : Constraints
        In row numbers.
    size : ndarray, shape (c,)
        Absolute values at the identity.
    """
    bad = np.flatnonzero(~((size < MAX_SIZE) & ((size > 1.0 / MAX_SIZE) | (size == 0))))
    if len(bad):
        raise ValueError(
            f"{rows_text(bad, 'constraint')}: {constraints.describe(int(bad[0]))} has the value {size[bad[0]]:.3g} at the identity, too "
            f"{'small' if size[bad[0]] < 1 else 'large'} to compute with. Scale the data and the bounds."
        )
    too_low = (losses.bound > 0) & (losses.sense <= 0) & (losses.hard | losses.is_positive)
    too_high = (losses.bound < 0) & (losses.sense >= 0) & losses.hard
    bad = np.flatnonzero((size == 0) & (too_low | too_high))
    if len(bad):
        bad = bad[operator.restrict(bad).norms() == 0]
    if len(bad):
        first = constraints.select(bad[:1])
        why = "the points are identical" if first.where("is_sq_distance")[0] else "its value is 0 for every matrix"
        raise ValueError(
            f"{rows_text(bad, 'constraint')}: {first.describe(0)} can never hold, because {why} in the range of the prior, up to "
            "rounding (eigenvalues of a prior below 1e-12 of the largest count as 0). Drop these constraints, use "
            "loss=SquaredHinge(), or open the null space of a kernel's prior with Factor.widened."
        )
