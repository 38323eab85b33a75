"""Constraints as tables with the columns relation, i, j, k, l, bound, sense, weight, in files and data frames.

Tables of pairs and triplets are converted to these columns first (:mod:`bregmat.constraints.tuples`). A reader of files or frames
passes the columns and a function that names the place of a row. It gets the arguments of :class:`bregmat.Constraints`, or an
error that names the place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bregmat.base.checks import as_choice, as_rectangular, generator, is_missing, similar_name
from bregmat.base.points import as_points
from bregmat.base.sampling import sq_distance_percentiles
from bregmat.base.threads import warn_caller
from bregmat.constraints.columns import SENSES, SYMBOLS, is_number_word
from bregmat.constraints.relations import RELATIONS, SAMPLES, Relation, table_of
from bregmat.constraints.tuples import TupleTable, read_tuples

COLUMNS = ("relation", *SAMPLES, "bound", "sense", "weight")
NEEDED = ("relation", "bound", "sense")
WITHOUT_BOUNDS = "a table of pairs or triplets without bounds has none of the columns relation, bound and sense"
# Percentiles of the distances between points that bound the nearest and the farthest graded pairs, as for other pairs.
PERCENTILES = (5.0, 95.0)
INTEGERS, NUMBERS = int | np.integer, int | float | np.integer | np.floating


@dataclass(frozen=True, slots=True)
class Row:
    """One constraint for people: its columns as attributes, and ``str(row)`` in words.

    Attributes
    ----------
    relation : str
    i, j, k, l : int, sample id or None
        The samples, None if the relation has no such sample; for a linear row, ``i`` is the number of its matrix.
    bound : float
    sense : {"<=", ">=", "=="}
    weight : float
    """

    relation: str
    i: Any
    j: Any
    k: Any
    l: Any
    bound: float
    sense: str
    weight: float
    kind: Relation = field(repr=False, compare=False)

    def __str__(self) -> str:
        said = self.kind.sentence((self.i, self.j, self.k, self.l), self.sense, self.bound)
        return said + {1.0: "", np.inf: " (hard)"}.get(self.weight, f" (weight {self.weight:g})")


# ---------------------------------------------------------------------- from columns
@dataclass(frozen=True, slots=True)
class TableRows:
    """The constraints of a table, or of one of pairs or triplets, and the locations of their rows."""

    name: Any  # of the table, for messages
    rows: Any  # Constraints; if there are ``tuples``, their bounds follow from the points
    where: Callable[[int], str]  # the location of a constraint, such as "line 7" or "row 6"
    tuples: TupleTable | None = None  # how the table was read, if it is one of pairs or triplets

    def bounded(self, X: Any, sample_id: Any, random_state: Any) -> Any:
        """The constraints, with bounds from the points if the table has none; warns of rows of triplets that were left out."""
        if self.tuples is None:
            return self.rows
        if self.tuples.rows is not None:
            warn_caller(f"{self.name} was read as {self.tuples.said}")
        if X is None:
            raise TypeError(
                f"{self.name}: pairs and triplets without bounds need X=, the points whose squared distances give the bounds."
            )
        return self.measured(X, sample_id, random_state)

    def measured(self, X: Any, sample_id: Any = None, random_state: Any = 0) -> Any:
        """The constraints of pairs or triplets, with bounds from the points."""
        assert self.tuples is not None
        if not self.tuples.is_graded:
            return self.rows.with_bounds_from(X, sample_id=sample_id, random_state=random_state)
        points = as_points("X", X)
        near, far = sq_distance_percentiles(points, np.arange(points.shape[0]), PERCENTILES, generator(random_state))
        near, far = np.sqrt(near), np.sqrt(far)
        return replace(self.rows, bound=np.square(near + self.rows.bound * (far - near)))


def table_rows(
    make: Callable[..., Any],
    columns: Mapping[str, Any],
    where: Callable[[int], str],
    *,
    header: str,
    path: Any = None,
    id_type: type | None = None,
    scores: str | None = None,
) -> TableRows:
    """Read a table with the column ``relation``, or one of pairs or triplets (:mod:`bregmat.constraints.tuples`).

    Parameters
    ----------
    make : callable
        :class:`bregmat.Constraints`.
    columns : mapping of str to array-like, shape (c,)
        Missing cells are empty words, None, NaN or NA.
    where : callable
        Gives the location of a row, for messages.
    header : str
        The place of the names of the columns, for messages.
    path : Path, optional
        The file of the table, for messages.
    id_type : {None, int, str, object}
        Type of the sample ids. None: integers if all of them are written as integers, otherwise strings; object: unchanged.
    scores : {None, "similarity", "distance"}
        The meaning of the last column of a table of pairs, if it holds scores.
    """
    as_choice("scores", scores, (None, "similarity", "distance"))
    place = where if path is None else lambda row: f"{path}, {where(row)}"
    names = [str(name) for name in columns]
    if not names or not len(next(iter(columns.values()))):
        raise ValueError(f"{header}: no rows")
    cells, tuples = {name: words(column) for name, column in columns.items()}, None
    if "relation" not in names:
        tuples = read_tuples(cells, columns, place, header, scores)
        columns = tuples.columns
        cells = {name: words(column) for name, column in columns.items()}
    elif scores is not None:
        raise ValueError(f"{header}: scores= is for a table of pairs, and this one has a column 'relation'")
    elif unknown := [name for name in names if name not in COLUMNS]:
        raise ValueError(f"{header}: unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    elif missing := [name for name in NEEDED if name not in names]:
        raise ValueError(f"{header}: no column {missing[0]!r}; needed: {', '.join(NEEDED)}; {WITHOUT_BOUNDS}")
    kept = None if tuples is None else tuples.rows
    n = len(cells["relation"])
    cells = {name: cells.get(name, np.full(n, "")) for name in COLUMNS}
    at = where if kept is None else lambda row: where(int(kept[row]))  # some rows of triplets are left out
    place = at if path is None else lambda row: f"{path}, {at(row)}"
    rows = _Rows(cells, columns, place, {} if tuples is None else tuples.called)
    return TableRows(header if path is None else path, make(**rows.arguments(id_type)), at, tuples)


def words(column: Any) -> np.ndarray:
    """A column as the words of a .csv file; a missing cell is empty, a whole number has no decimal point."""
    array = np.asarray(column)
    if array.dtype.kind not in "fOmM":
        return array.astype(str)
    return np.array([_word(value) for value in (array.tolist() if array.dtype.kind == "f" else array)], dtype=str)


def _word(value: Any) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, float | np.floating) and value.is_integer() and abs(float(value)) < 2**53:
        return str(int(value))
    return str(value)


def parse_sample_ids(values: Any) -> np.ndarray:
    """Sample ids from text: integers if all are written as integers ("7", not "007" or "7.0"), otherwise strings."""
    array = np.asarray(values)
    if array.dtype.kind in "iu" or (array.dtype.kind == "f" and (array == np.rint(array)).all()):
        return array.astype(np.int64)
    text = array.astype(str)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if (numbers.astype(str) == text).all() else text


@dataclass(frozen=True, eq=False)
class _Rows:
    """The cells of a table of constraints, which are checked column by column; every message names the place."""

    cells: dict[str, np.ndarray]  # as words, empty where they are missing
    raw: Mapping[str, Any]  # the same columns as they were given
    place: Callable[[int], str]
    called: Mapping[str, str]  # names of the columns of samples in the table

    def arguments(self, id_type: type | None) -> dict[str, Any]:
        names, code = np.unique(self.cells["relation"], return_inverse=True)
        known = {name: relation for name, relation in RELATIONS.items() if not relation.takes_matrix}
        for k, name in enumerate(names):
            if name not in known:
                extra = "; matrices cannot be given in a table" if name in RELATIONS else ""
                unknown = f"unknown relation {str(name)!r}" if name else "the relation is empty"
                like = similar_name(str(name), known)
                self._wrong(code == k, f"{unknown}; known: {', '.join(known)}{extra}{like}")
        here = [known[str(name)] for name in names]
        index, ids = self._samples(here, code, id_type)
        bound = self._numbers("bound", np.array(["" if r.bound is None else repr(r.bound) for r in here])[code])
        self._wrong(~np.isfinite(bound), "bound {bound} is not finite")
        is_negative = np.array([r.is_psd for r in here])[code] & (bound < 0)
        self._wrong(is_negative, "bound {bound} is negative; no positive semidefinite matrix can meet it")
        sense = self._filled("sense", np.array([r.sense or "" for r in here])[code])
        self._wrong(sense == "", 'the sense is empty; write "<=" (at most), ">=" (at least) or "==" (equal)')
        self._wrong(~np.isin(sense, list(SENSES)), 'sense {sense} must be "<=", ">=" or "=="')
        weight = self._numbers("weight", "1")
        self._wrong(~(weight > 0), "weight {weight} must be positive (inf makes a constraint hard)")
        relations = table_of(*here)
        return {
            "relation": np.array([relations.index(r) for r in here], dtype=np.int8)[code],
            "index": index,
            "bound": bound,
            "sense": np.select([sense == symbol for symbol in SENSES], list(SENSES.values())).astype(np.int8),
            "weight": weight,
            "ids": ids,
            "relations": relations,
        }

    def _filled(self, name: str, default: Any) -> np.ndarray:
        """The words of a column, with the default in empty cells."""
        return np.where(self.cells[name] == "", default, self.cells[name])

    def _numbers(self, name: str, default: Any) -> np.ndarray:
        cells = self._filled(name, default)
        self._wrong(cells == "", f"the {name} is empty; {{relation}} needs a number; {WITHOUT_BOUNDS}")
        try:
            return cells.astype(np.float64)
        except ValueError:
            self._wrong([not is_number_word(cell) for cell in cells], f"{name} {{{name}}} is not a number")
            raise

    def _wrong(self, bad: Any, message: str) -> None:
        """Raise for the first bad row; the message may name cells of that row in braces."""
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        row = int(rows[0])
        more = f" (and {rows.size - 1} more rows)" if rows.size > 1 else ""
        for name, column in self.cells.items():
            message = message.replace(f"{{{name}}}", repr(str(column[row])))
        raise ValueError(f"{self.place(row)}: {message}{more}")

    def _samples(
        self, here: list[Relation], code: np.ndarray, id_type: type | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        index = np.full((len(code), 4), -1, dtype=np.int64)
        used = np.arange(4)[None, :] < np.array([relation.arity for relation in here])[code][:, None]
        for k, name in enumerate(SAMPLES):
            empty = self.cells[name] == ""
            column = self.called.get(name, name)
            self._wrong(used[:, k] & empty, f"{{relation}} needs a sample in column {column!r}, which is empty")
            self._wrong(~used[:, k] & ~empty, f"{{relation}} takes no sample in column {name!r}, got {{{name}}}")
        if not used.any():
            return index, None
        if id_type is object:
            ids = self._as_they_are(used)
        else:
            text = np.concatenate([self.cells[name][used[:, k]] for k, name in enumerate(SAMPLES)])
            ids = parse_sample_ids(text) if id_type is None else self._cast(text, used, id_type)
        table = None
        if ids.dtype.kind == "i":
            codes = ids
            self._wrong(_where(used, ids < 0), "sample numbers start at 0; got i={i}, j={j}, k={k}, l={l}")
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
            bad = [parse_sample_ids([word]).dtype.kind != "i" for word in ids]
            self._wrong(
                _where(used, bad),
                "samples are row numbers here; got i={i}, j={j}, k={k}, l={l}: for names, say which column of the points has them "
                "(--sample-id, sample_id=)",
            )
        return numbers

    def _as_they_are(self, used: np.ndarray) -> np.ndarray:
        """Samples as they were given: whole numbers, strings, or other names that can be ordered; all of one kind."""
        columns = [np.asarray(self.raw[name]) for k, name in enumerate(SAMPLES) if used[:, k].any()]
        named = np.concatenate([column[used[:, k]] for k, column in enumerate(columns)])
        if named.dtype.kind in "mM":
            return named
        values = named.tolist()
        truths = [isinstance(value, bool | np.bool_) for value in values]
        self._wrong(_where(used, truths), "samples are numbers or names, not booleans; got i={i}, j={j}, k={k}, l={l}")
        if all(isinstance(value, NUMBERS) for value in values):
            bad = [not isinstance(value, INTEGERS) and value != np.rint(value) for value in values]
            self._wrong(_where(used, bad), "sample numbers must be whole; got i={i}, j={j}, k={k}, l={l}")
            far = [not -(2**63) <= value < 2**63 for value in values]
            self._wrong(_where(used, far), "sample numbers must be below 2^63; got i={i}, j={j}, k={k}, l={l}")
            return np.array([int(value) for value in values], dtype=np.int64)
        if len({isinstance(value, NUMBERS) for value in values}) > 1:
            odd = [isinstance(value, NUMBERS) for value in values]
            self._wrong(_where(used, odd), "samples are numbers here and names elsewhere: i={i}, j={j}, k={k}, l={l}")
        if all(isinstance(value, str) for value in values):
            return np.array(values, dtype=str)
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out


def _where(used: np.ndarray, bad: Any) -> np.ndarray:
    """Mask of the rows with a bad sample; ``bad`` has one entry for each used cell, column by column."""
    mask = np.zeros_like(used)
    mask.T[used.T] = bad
    return np.asarray(mask.any(axis=1))


# ---------------------------------------------------------------------- to columns
def columns_of(constraints: Any) -> dict[str, Any]:
    """The columns of constraints; a sample that a row does not name is None. ``ValueError`` for rows given by matrices."""
    relation = np.array([known.name for known in constraints.relations])[constraints.relation]
    if (of_matrices := np.flatnonzero(constraints.where("takes_matrix"))).size:
        name = str(relation[of_matrices[0]])
        raise ValueError(
            f"constraints of the relation {name!r} have no column form; constraints {of_matrices[:5].tolist()} are {name}"
        )
    ids = None if constraints.ids is None else constraints.ids.tolist()
    columns: dict[str, Any] = {"relation": relation.tolist()}
    for k, name in enumerate(SAMPLES):
        index = constraints.index[:, k].tolist() if k < constraints.index.shape[1] else [-1] * len(relation)
        columns[name] = [None if i < 0 else i if ids is None else ids[i] for i in index]
    columns["bound"] = constraints.bound.copy()
    columns["sense"] = [SYMBOLS[code] for code in constraints.sense.tolist()]
    columns["weight"] = constraints.weight.copy()
    return columns


# ---------------------------------------------------------------------- data frames
def data_frame(columns: Mapping[str, Any], *, numbered: Iterable[str] = ()) -> Any:
    """A data frame of pandas; ``numbered`` columns hold integers or None."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError('to_frame needs pandas: pip install "bregmat[frames]"') from error
    return pandas.DataFrame(dict(columns) | {name: pandas.array(columns[name], dtype="Int64") for name in numbered})


def frame_columns(frame: Any) -> dict[str, Any]:
    """The columns of a data frame of pandas, polars or pyarrow, or of a mapping, by name."""
    names = next((getattr(frame, name) for name in ("column_names", "columns") if hasattr(frame, name)), None)
    if names is None and isinstance(frame, Mapping):
        names = list(frame)
    if names is None or callable(names) or isinstance(frame, type):
        raise TypeError(
            f"frame must be a data frame of pandas or polars, or a mapping of names to columns; got {type(frame).__name__}."
        )
    words = [str(name) for name in names]
    if len(set(words)) < len(words):
        raise ValueError(f"frame: column {next(name for name in words if words.count(name) > 1)!r} occurs twice")
    columns = {str(name): as_rectangular(f"frame: column {name!r}", frame[name]) for name in names}
    lengths = {name: column.shape for name, column in columns.items()}
    if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
        raise ValueError(f"frame must have columns of one length; got shapes {lengths}")
    return columns
