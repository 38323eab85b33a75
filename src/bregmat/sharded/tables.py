"""Constraints from the columns of a large table, column by column.

The columns are those of :mod:`bregmat.constraints.tables`, which reads cells of any kind one by one. Here samples are row numbers of the
data, numbers are used as they are stored, and each different word is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from bregmat.constraints.columns import SENSES
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import RELATIONS, SAMPLES, Relation, table_of
from bregmat.constraints.tables import COLUMNS

Words = tuple[np.ndarray, list[str]]  # for each row the position of its word in the list; -1 if the cell is empty


def constraints_of(
    columns: Collection[str], numbers: Callable[[str], np.ndarray], words: Callable[[str], Words]
) -> Constraints:
    """Constraints from a table. Error messages count rows from 0.

    Parameters
    ----------
    columns : collection of str
        Names of the columns; without "relation" all rows are squared distances.
    numbers : callable
        Name -> float64 or integers (c,), nan where a cell is empty.
    words : callable
        Name -> positions (c,) and words.
    """
    if unknown := [name for name in columns if name not in COLUMNS]:
        raise ValueError(f"unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    if missing := [name for name in ("bound", "sense") if name not in columns]:
        raise ValueError(f"no column {missing[0]!r}; needed: bound, sense and samples")
    bound = numbers("bound")
    c = len(bound)
    code, names = words("relation") if "relation" in columns else (np.zeros(c, np.int8), ["sq_distance"])
    _check(code < 0, "the relation is empty")
    known = {name: relation for name, relation in RELATIONS.items() if not relation.takes_matrix}
    for k, name in enumerate(names):
        if name not in known:
            _check(code == k, f"unknown relation {name!r}; known: {', '.join(known)}")
    here = [known.get(name, RELATIONS["trace"]) for name in names]
    index = _samples(columns, numbers, code, here, c)
    for k, relation in enumerate(here):
        for same, demand, _ in relation.clashes(index):
            _check((code == k) & same, demand)
    bound = _filled(bound, np.array([np.nan if r.bound is None else r.bound for r in here]), code)
    _check(~np.isfinite(bound), "the bound is not finite", bound)
    psd = np.array([r.is_psd for r in here])[code]
    _check(psd & (bound < 0), "the bound is negative, which no positive semidefinite matrix can meet", bound)
    weight = _filled(numbers("weight"), np.ones(len(here)), code) if "weight" in columns else np.ones(c)
    _check(~(weight > 0), "the weight must be positive (inf makes a constraint hard)", weight)
    relations = table_of(*here)
    relation = np.array([relations.index(r) for r in here], dtype=np.int8)[code]
    return Constraints(relation, index, bound, _senses(words, code, here), weight, relations=relations)


def _check(bad: np.ndarray, message: str, values: np.ndarray | None = None) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        got = "" if values is None else f"; got {values[rows[0]]}"
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        raise ValueError(f"row {rows[0]}: {message}{got}{more}")


def _filled(values: np.ndarray, default: np.ndarray, code: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    gaps = np.isnan(values)
    return np.where(gaps, default[code], values) if gaps.any() else values.copy()


def _samples(
    columns: Any, numbers: Callable[[str], np.ndarray], code: np.ndarray, here: list[Relation], c: int
) -> np.ndarray:
    arity = np.array([relation.arity for relation in here])[code]
    index = np.full((c, max(1, int(arity.max(initial=0)))), -1, dtype=np.int64)
    for k, name in enumerate(SAMPLES):
        used = arity > k
        if name not in columns:
            _check(used, f"there is no column {name!r}, which the relation needs")
            continue
        values = numbers(name)
        empty = np.isnan(values) if values.dtype.kind == "f" else np.zeros(c, bool)
        _check(used & empty, f"the relation needs a sample in column {name!r}, which is empty")
        _check(~used & ~empty, f"the relation takes no sample in column {name!r}")
        if values.dtype.kind == "f":
            _check(used & (values != np.rint(values)), f"column {name!r} must hold row numbers", values)
        _check(used & (values < 0), f"column {name!r} must hold row numbers from 0 on", values)
        if k < index.shape[1]:
            index[used, k] = values[used]
    return index


def _senses(words: Callable[[str], Words], code: np.ndarray, here: list[Relation]) -> np.ndarray:
    codes, said = words("sense")
    for k, word in enumerate(said):
        if word and word not in SENSES:
            _check(codes == k, f'the sense must be "<=", ">=" or "=="; got {word!r}')
    default = np.array([SENSES.get(relation.sense or "", 2) for relation in here], dtype=np.int8)
    table = np.array([SENSES.get(word, 2) for word in said] + [2], dtype=np.int8)
    sense = table[codes]
    sense = np.where(sense == 2, default[code], sense)
    _check(sense == 2, "the sense is empty")
    return sense
