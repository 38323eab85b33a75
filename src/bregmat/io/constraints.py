"""Constraints from .csv and .parquet, and back: columns relation, i, j, k, l, bound, sense, weight."""

import os
from typing import Any

import numpy as np

from bregmat.columns import SENSES
from bregmat.constraints import Constraints
from bregmat.io import tables
from bregmat.relations import RELATIONS, SAMPLES, Relation, table_of

__all__ = ["parse_sample_ids", "read_constraints", "read_placed_constraints", "write_constraints"]

KINDS = (".csv", ".parquet")
COLUMNS = ("relation", "i", "j", "k", "l", "bound", "sense", "weight")


def parse_sample_ids(values: Any) -> np.ndarray:
    """Sample ids from text: integers if all are written as such ("7", not "007" or "7.0"), strings otherwise."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and (array == np.rint(array)).all():
        return array.astype(np.int64)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    words = array.astype(str)
    try:
        numbers = words.astype(np.int64)
    except (ValueError, OverflowError):
        return words
    return numbers if (numbers.astype(str) == words).all() else words


def read_constraints(path: str | os.PathLike, *, id_type: type | None = None) -> Constraints:
    """Read constraints from a file.

    Parameters
    ----------
    path : path
        .csv with a header line, or .parquet. Columns: `relation` (sq_distance, similarity, comparison,
        similarity_comparison, diagonal, trace, or a registered one), the samples `i`, `j`, `k`, `l` as far as it has them,
        `bound`, `sense` ("<=", ">=", "=="), and optionally `weight` (default 1; inf makes a row hard). `bound` of a
        comparison is minus its margin, sq_dist(i, j) - sq_dist(k, l) <= bound, and may be left empty (0). `sense` may
        be left empty for comparisons ("<="), diagonal and trace ("==").
    id_type : {None, int, str}
        What sample ids are. None: integers where all of them are written as such, strings otherwise.

    Returns
    -------
    Constraints
        Rows in the order of the file.

    Raises
    ------
    ValueError
        Unknown column or relation, a missing or superfluous cell, i == j, a bound no matrix can meet; with file and
        line (row for .parquet).
    """
    return read_placed_constraints(path, id_type=id_type)[0]


def read_placed_constraints(
    path: str | os.PathLike, *, id_type: type | None = None
) -> tuple[Constraints, list[str], list[tuple[str, ...]]]:
    """As `read_constraints`, with the place of every row ("line 7"; "row 6" of .parquet) and the samples it names."""
    path, _ = tables.file_kind(path, "read constraints from", KINDS)
    table = tables.read(path, has_header=True)
    header = path if table.lines is None else f"{path}, line 1"
    if unknown := [name for name in table.columns if name not in COLUMNS]:
        raise ValueError(f"{header}: unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    if missing := [name for name in ("relation", "bound", "sense") if name not in table.columns]:
        raise ValueError(f"{header}: no column {missing[0]!r}; needed: relation, bound, sense")
    cells = {name: _words(column) for name, column in table.columns.items()}
    n = len(cells["relation"])
    rows = _Rows(table, {name: cells.get(name, np.full(n, "")) for name in COLUMNS})
    samples = zip(*(rows.cells[name].tolist() for name in SAMPLES))
    return (
        rows.constraints(id_type),
        [table.where(row) for row in range(n)],
        [tuple(word for word in row if word) for row in samples],
    )


def write_constraints(path: str | os.PathLike, constraints: Constraints) -> None:
    """Write constraints where `read_constraints` reads them back to the last bit; `linear` rows raise `ValueError`."""
    path, _ = tables.file_kind(path, "write constraints to", KINDS)
    relation = np.array([known.name for known in constraints.relations])[constraints.relation]
    if (given := np.flatnonzero(constraints.where("takes_matrix"))).size:
        name = str(relation[given[0]])
        raise ValueError(
            f"constraints of the relation {name!r} have no column form; rows {given[:5].tolist()} are {name}"
        )
    symbols = {code: symbol for symbol, code in SENSES.items()}
    ids = None if constraints.ids is None else constraints.ids.tolist()
    columns: dict[str, Any] = {"relation": relation}
    for k, name in enumerate(SAMPLES):
        index = constraints.index[:, k].tolist() if k < constraints.index.shape[1] else [-1] * len(relation)
        columns[name] = ["" if i < 0 else str(i if ids is None else ids[i]) for i in index]
    columns["bound"] = constraints.bound
    columns["sense"] = [symbols[code] for code in constraints.sense.tolist()]
    columns["weight"] = constraints.weight
    tables.write(path, columns)


def _words(column: Any) -> np.ndarray:
    """A column as the words a .csv holds; missing numbers of a .parquet file become empty."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        whole = np.isfinite(column) & (column == np.rint(column)) & (np.abs(column) < 2**53)
        return np.array(["" if np.isnan(v) else str(int(v)) if w else repr(float(v)) for v, w in zip(column, whole)])
    return np.asarray(column).astype(str)


class _Rows:
    """The cells of a constraints file, checked column by column; every message names the line."""

    def __init__(self, table: tables.Table, cells: dict[str, np.ndarray]) -> None:
        self.table, self.cells = table, cells
        self.n = len(cells["relation"])

    def constraints(self, id_type: type | None) -> Constraints:
        names, code = np.unique(self.cells["relation"], return_inverse=True)
        known = {name: relation for name, relation in RELATIONS.items() if not relation.takes_matrix}
        for k, name in enumerate(names):
            if name not in known:
                extra = "; matrices cannot be given in a table" if name in RELATIONS else ""
                self._wrong(code == k, f"unknown relation {str(name)!r}; known: {', '.join(known)}{extra}")
        here = [known[str(name)] for name in names]
        index, ids = self._samples(here, code, id_type)
        bound = self._bound(np.array(["" if r.bound is None else repr(r.bound) for r in here])[code])
        self._wrong(
            np.array([r.is_psd for r in here])[code] & (bound < 0),
            "bound {bound} is negative; no positive semidefinite matrix can meet it",
        )
        relations = table_of(*here)
        return Constraints(
            relation=np.array([relations.index(r) for r in here], dtype=np.int8)[code],
            index=index,
            bound=bound,
            sense=self._sense(np.array([r.sense or "" for r in here])[code]),
            weight=self._weight(),
            ids=ids,
            relations=relations,
        )

    def _wrong(self, bad: Any, message: str) -> None:
        """Raise for the first bad row; the message may name cells of that row in braces."""
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        row = int(rows[0])
        more = f" (and {rows.size - 1} more rows)" if rows.size > 1 else ""
        for name, column in self.cells.items():
            message = message.replace(f"{{{name}}}", repr(str(column[row])))
        raise ValueError(f"{self.table.place(row)}: {message}{more}")

    def _samples(
        self, here: list[Relation], code: np.ndarray, id_type: type | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        index = np.full((self.n, 4), -1, dtype=np.int64)
        used = np.arange(4)[None, :] < np.array([relation.arity for relation in here])[code][:, None]
        for k, name in enumerate(SAMPLES):
            empty = self.cells[name] == ""
            self._wrong(used[:, k] & empty, f"{{relation}} needs a sample in column {name!r}, which is empty")
            self._wrong(~used[:, k] & ~empty, f"{{relation}} takes no sample in column {name!r}, got {{{name}}}")
        words = [self.cells[name][used[:, k]] for k, name in enumerate(SAMPLES)]
        if not used.any():
            return index, None
        ids = np.concatenate(words)
        ids = parse_sample_ids(ids) if id_type is None else self._cast(ids, used, id_type)
        table = None
        if ids.dtype.kind == "i":
            codes = ids
            if (ids < 0).any():
                negative = np.zeros_like(used)
                negative.T[used.T] = ids < 0
                self._wrong(negative.any(axis=1), "sample numbers start at 0; got i={i}, j={j}, k={k}, l={l}")
        else:
            table, codes = np.unique(ids, return_inverse=True)
        index.T[used.T] = codes
        for k, relation in enumerate(here):
            for same, demand, samples in relation.clashes(index):
                both = f", both are {{{samples}}}" if samples in SAMPLES else ""
                self._wrong((code == k) & same, f"{demand}{both}")
        return index, table

    def _cast(self, ids: np.ndarray, used: np.ndarray, id_type: type) -> np.ndarray:
        if id_type is str:
            return ids
        numbers = parse_sample_ids(ids)
        if numbers.dtype.kind != "i":
            bad = np.zeros_like(used)
            bad.T[used.T] = [parse_sample_ids([word]).dtype.kind != "i" for word in ids]
            self._wrong(bad.any(axis=1), "samples are row numbers here; got i={i}, j={j}, k={k}, l={l}")
        return numbers

    def _float(self, name: str, default: np.ndarray, message: str) -> np.ndarray:
        cells = np.where((self.cells[name] == "") & (default != ""), default, self.cells[name])
        try:
            return cells.astype(np.float64)
        except ValueError:
            self._wrong(np.array([not tables.is_number(cell) for cell in cells]), message)
            raise

    def _bound(self, default: np.ndarray) -> np.ndarray:
        bound = self._float("bound", default, "bound {bound} is not a number")
        self._wrong(~np.isfinite(bound), "bound {bound} is not finite")
        return bound

    def _weight(self) -> np.ndarray:
        weight = self._float("weight", np.full(self.n, "1"), "weight {weight} is not a number")
        self._wrong(~(weight > 0), "weight {weight} must be positive (inf makes a row hard)")
        return weight

    def _sense(self, default: np.ndarray) -> np.ndarray:
        sense = np.where(self.cells["sense"] == "", default, self.cells["sense"])
        self._wrong(~np.isin(sense, list(SENSES)), 'sense {sense} must be "<=", ">=" or "=="')
        names, code = np.unique(sense, return_inverse=True)
        return np.array([SENSES[str(name)] for name in names], dtype=np.int8)[code]
