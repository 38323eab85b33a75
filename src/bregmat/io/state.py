"""Objects as plain values and arrays, which model files hold, and back.

A *state* consists of None, truth values, integers, finite floats, strings, lists, dicts with strings as keys, and of dicts with a tag:

    {"$float": "nan"}                           a float that is not finite
    {"$tuple": [...]}                           a tuple
    {"$items": [[key, value], ...]}             a dict with other keys than strings
    {"$array": name}                            an array, by its name among the arrays
    {"$objects": [...], "shape": [...]}         an array of Python objects
    {"$masked": array, "mask": array}           a masked array
    {"$sparse": [data, indices, indptr], "shape": [n, d]}   a CSR matrix
    {"$enum": [class, value]}                   a member of an enumeration
    {"$registered": [kind, name], setting: value, ...}      a divergence, loss, relation or solver
    {"$class": name, attribute: value, ...}     an object of another class, from :mod:`bregmat.io.classes`
    {"$rows": class, "numbers": names, "whole": names, "values": array}   a list of objects whose attributes are numbers
    {"$kernel_of": learner}                     the method ``kernel`` of a learner
    {"$same": k}                                the k-th array or object of the state once more, counted by where they end
"""

from __future__ import annotations

import math
import re
from enum import Enum
from types import MethodType
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.registry import registry_of, registry_of_kind
from bregmat.io.attributes import attributes_of, is_row, object_of
from bregmat.io.classes import class_named, is_known

__all__ = ["ARRAY_NAME", "MAX_DEPTH", "depth_of", "from_state", "plain", "plain_restored", "to_state"]

# Of lists and dicts: what reads them is recursive, and an estimator needs about 10.
MAX_DEPTH = 50
ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}")
STORED_KINDS = "biufcSU"  # kinds of dtypes that .npy files hold without pickling


def to_state(obj: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The state of an object of a savable class and its arrays by name; arrays are not copied.

    Raises
    ------
    TypeError
        Something in it is of no class that files may hold; the message names the attribute.
    """
    writer = _Writer()
    return writer.fields(obj, "state", 1), writer.arrays


def from_state(cls: type, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`to_state`, which owns the arrays then; many kinds of errors where the state is not one of ``cls``."""
    reader = _Reader(arrays)
    return object_of(cls, reader.fields(state))


def plain(value: Any, where: str) -> Any:
    """The state of plain values; ``TypeError`` for anything else, arrays among it."""
    writer = _Writer()
    state = writer.write(value, where, 1)
    if writer.arrays or writer.n_objects:
        raise TypeError(f"{where} must consist of plain values; arrays and objects cannot be saved there")
    return state


def plain_restored(state: Any) -> Any:
    """Inverse of :func:`plain`."""
    return _Reader({}).read(state)


def depth_of(value: Any) -> int:
    """How deep lists and dicts are nested, level by level: a manifest may be deeper than recursion goes."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


# ---------------------------------------------------------------------- writing
class _Writer:
    """Writes values as states; what occurs twice is written once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._number: dict[int, int] = {}  # of each array and object, by its id
        self._written: list[Any] = []  # kept, so that no id is used twice

    @property
    def n_objects(self) -> int:
        """Number of arrays and objects so far."""
        return len(self._written)

    def write(self, value: Any, where: str, depth: int) -> Any:
        """The state of a value; ``where`` names it in messages, ``depth`` counts the lists and dicts around it."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{where[:100]} is nested more than {MAX_DEPTH} deep")
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, np.random.Generator | np.random.RandomState):
            return None  # a seed is kept, the state of a generator is not
        if isinstance(value, dict) or type(value) in (list, tuple):
            return self._collection(value, where, depth)
        if isinstance(value, Enum) and is_known(type(value)):
            return {"$enum": [type(value).__name__, value.value]}
        if id(value) in self._number:
            return {"$same": self._number[id(value)]}
        if not is_known(type(value)) and (registry := registry_of(value)) is not None:
            settings = registry.settings(value)
            return {"$registered": [registry.kind, value.name]} | self._values(settings, where, depth)
        state = self._object(value, where, depth)
        self._number[id(value)] = len(self._written)
        self._written.append(value)
        return state

    def fields(self, obj: Any, where: str, depth: int) -> dict[str, Any]:
        """The attributes of an object of a known class."""
        return self._values(attributes_of(obj), where, depth)

    def _values(self, values: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        return {name: self.write(value, f"{where}.{name}", depth + 1) for name, value in values.items()}

    def _collection(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return self._values(value, where, depth)
            pairs = [list(pair) for pair in value.items()]
            return {"$items": self.write(pairs, where, depth + 1)}
        if isinstance(value, tuple):
            return {"$tuple": self.write(list(value), where, depth + 1)}
        kinds = {type(item) for item in value}
        if len(kinds) == 1 and is_row(cls := kinds.pop()):
            return self._rows(cls, [attributes_of(item) for item in value], where, depth)
        return [self.write(item, f"{where}[{k}]", depth + 1) for k, item in enumerate(value)]

    def _rows(self, cls: type, rows: list[dict[str, Any]], where: str, depth: int) -> dict[str, Any]:
        """One array for all numbers, a row for each object."""
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        whole = [name for name, column in columns.items() if all(isinstance(number, int) for number in column)]
        values = self.write(np.array(list(columns.values()), dtype=float).T, where, depth + 1)
        return {"$rows": cls.__name__, "numbers": list(columns), "whole": whole, "values": values}

    def _object(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            return self._values({"$masked": value.data, "mask": mask}, where, depth)
        if isinstance(value, np.ndarray):
            return self._array(value, where, depth)
        if sp.issparse(value):
            rows = sp.csr_array(value)
            parts = [rows.data, rows.indices, rows.indptr]
            return {"$sparse": self.write(parts, where, depth + 1), "shape": list(map(int, rows.shape))}
        if is_known(type(value)):
            return {"$class": type(value).__name__} | self.fields(value, where, depth)
        if isinstance(value, MethodType) and value.__name__ == "kernel" and is_known(type(value.__self__)):
            return {"$kernel_of": self.write(value.__self__, where, depth + 1)}
        if callable(value):
            raise TypeError(f"{where} is a function, which cannot be saved: files hold no code")
        if hasattr(value, "__array__"):  # of another library
            return self._array(np.asarray(value), where, depth)
        kind = f"{type(value).__module__}.{type(value).__name__}"
        hint = "" if kind.startswith("builtins.") else "; bregmat.io.savable lets files hold a class of your own"
        raise TypeError(f"{where} is a {kind}, which cannot be saved{hint}")

    def _array(self, value: np.ndarray, where: str, depth: int) -> dict[str, Any]:
        array = np.asarray(value)
        if array.dtype == object:
            items = self.write(array.ravel().tolist(), where, depth + 1)
            return {"$objects": items, "shape": list(array.shape)}
        if array.dtype.kind not in STORED_KINDS:
            raise TypeError(f"{where} has dtype {array.dtype}, which cannot be saved; use numbers or strings")
        name = self._array_name(where)
        self.arrays[name] = array
        return {"$array": name}

    def _array_name(self, where: str) -> str:
        """The place in the state as the name of a file, different from the others."""
        start = re.sub(r"[^A-Za-z0-9_.\-]+", ".", where.removeprefix("state.")).strip(".")[:90]
        start = start if ARRAY_NAME.fullmatch(start) else f"_{start}"
        name, k = start, 1
        while name in self.arrays:
            name, k = f"{start}.{k}", k + 1
        return name


# ---------------------------------------------------------------------- reading
class _Reader:
    """Reads states as values."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._found: list[Any] = []  # arrays and objects, in the order in which they end

    def read(self, state: Any) -> Any:
        """The value of a state."""
        if isinstance(state, list):
            return [self.read(item) for item in state]
        if not isinstance(state, dict):
            return state
        tag = next(iter(state), "")
        if not tag.startswith("$"):
            return self.fields(state)
        if tag not in _READ:
            raise ValueError(f"unknown tag {tag[:20]!r}")
        return _READ[tag](self, state)

    def fields(self, state: dict[str, Any]) -> dict[str, Any]:
        """The values of a dict, but for what its tag says."""
        return {name: self.read(value) for name, value in state.items() if not name.startswith("$")}

    def _keep(self, value: Any) -> Any:
        self._found.append(value)
        return value

    def _float(self, state: dict[str, Any]) -> float:
        return float(state["$float"])

    def _tuple(self, state: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.read(state["$tuple"]))

    def _items(self, state: dict[str, Any]) -> dict[Any, Any]:
        return dict(self.read(state["$items"]))

    def _same(self, state: dict[str, Any]) -> Any:
        number = state["$same"]
        if type(number) is not int or number < 0:
            raise ValueError(f"$same must be the number of an object; got {number!r}")
        return self._found[number]

    def _enum(self, state: dict[str, Any]) -> Any:
        name, value = state["$enum"]
        cls = class_named(name)
        if not issubclass(cls, Enum):
            raise TypeError(f"{name} is no enumeration")
        return cls(value)

    def _array(self, state: dict[str, Any]) -> np.ndarray:
        return self._keep(self._arrays[state["$array"]])  # type: ignore[no-any-return]

    def _objects(self, state: dict[str, Any]) -> np.ndarray:
        items, shape = self.read(state["$objects"]), tuple(state["shape"])
        array = np.fromiter(items, dtype=object, count=len(items))
        return self._keep(array.reshape(shape))  # type: ignore[no-any-return]

    def _masked(self, state: dict[str, Any]) -> Any:
        data, mask = self.read(state["$masked"]), self.read(state["mask"])
        return self._keep(np.ma.MaskedArray(data, mask=mask))

    def _sparse(self, state: dict[str, Any]) -> Any:
        data, indices, indptr = self.read(state["$sparse"])
        n, d = (int(size) for size in state["shape"])
        if len(indptr) != n + 1:
            raise ValueError(f"a sparse matrix of {n} rows has {len(indptr)} numbers for where its rows begin")
        matrix = sp.csr_array((data, indices, indptr), shape=(n, d))
        matrix.check_format(full_check=True)  # products trust the indices
        return self._keep(matrix)

    def _registered(self, state: dict[str, Any]) -> Any:
        kind, name = state["$registered"]
        return registry_of_kind(kind).restored(name, self.fields(state))

    def _class(self, state: dict[str, Any]) -> Any:
        return self._keep(object_of(class_named(state["$class"]), self.fields(state)))

    def _rows(self, state: dict[str, Any]) -> list[Any]:
        cls, found = class_named(state["$rows"]), self.fields(state)
        columns: dict[str, Any] = dict(zip(found["numbers"], found["values"].T.tolist(), strict=True))
        columns |= {name: list(map(int, columns[name])) for name in found["whole"]}
        return [object_of(cls, dict(zip(columns, row))) for row in zip(*columns.values(), strict=True)]

    def _kernel_of(self, state: dict[str, Any]) -> Any:
        method = self.read(state["$kernel_of"]).kernel
        if not isinstance(method, MethodType):
            raise TypeError("the kernel of a learner must be a method")
        return self._keep(method)


_READ = {
    "$float": _Reader._float,
    "$tuple": _Reader._tuple,
    "$items": _Reader._items,
    "$same": _Reader._same,
    "$enum": _Reader._enum,
    "$array": _Reader._array,
    "$objects": _Reader._objects,
    "$masked": _Reader._masked,
    "$sparse": _Reader._sparse,
    "$registered": _Reader._registered,
    "$class": _Reader._class,
    "$rows": _Reader._rows,
    "$kernel_of": _Reader._kernel_of,
}
