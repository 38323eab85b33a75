"""Conversion of objects to plain values and arrays for model files, and back.

A *state* consists of None, booleans, integers, finite floats, strings, lists, dicts with string keys, and dicts with a tag:

    {"$float": "nan"}                           a float that is not finite
    {"$tuple": [...]}                           a tuple
    {"$items": [[key, value], ...]}             a dict with keys that are not strings
    {"$array": name}                            an array, by name
    {"$objects": [...], "shape": [...]}         an array of Python objects
    {"$sparse": [data, indices, indptr], "shape": [n, d]}   a CSR matrix
    {"$enum": [class, value]}                   a member of an enumeration
    {"$registered": [kind, name], setting: value, ...}      a divergence, loss, relation or solver
    {"$class": name, attribute: value, ...}     an object of another class, from :mod:`bregmat.io.classes`
    {"$records": array}                         the history of a run, one row per record
    {"$kernel_of": learner}                     the method ``kernel`` of a learner
    {"$same": k}                                another reference to the k-th array or object, counted in post-order
"""

from __future__ import annotations

import math
import re
from dataclasses import astuple
from enum import Enum
from importlib import import_module
from types import MethodType
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.registry import registry_of
from bregmat.engine.status import Record
from bregmat.io.attributes import attributes_of, object_of
from bregmat.io.classes import class_named, is_known

__all__ = ["ARRAY_NAME", "MAX_DEPTH", "depth_of", "from_state", "plain", "plain_restored", "to_state"]

REGISTRIES = {  # of each kind, and the module that fills it, which nothing may have imported when a file is read
    "divergence": ("bregmat.objective.divergences", "DIVERGENCES"),
    "loss": ("bregmat.objective.losses", "LOSSES"),
    "relation": ("bregmat.constraints.relations", "RELATIONS"),
    "solver": ("bregmat.solvers", "SOLVERS"),
}
MAX_DEPTH = 50  # of nested lists and dicts, which are read recursively; an estimator needs about 10
ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}")
NOT_COUNTED = ("$float", "$tuple", "$items", "$same", "$enum", "$records", "$registered")  # by "$same"
STORED_KINDS = "biufcSU"  # kinds of dtypes that .npy files store without pickling


def to_state(obj: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The state of an object of a savable class, and its arrays by name, which are not copied.

    Raises
    ------
    TypeError
        If a value cannot be saved; the message names the attribute.
    """
    writer = _Writer()
    return writer.fields(obj, "state", 1), writer.arrays


def from_state(cls: type, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`to_state`, which uses the arrays without copying; raises errors of any kind for an invalid state."""
    return object_of(cls, _Reader(arrays).fields(state))


def plain(value: Any, where: str) -> Any:
    """The state of plain values; ``TypeError`` if they contain arrays or objects."""
    writer = _Writer()
    state = writer.write(value, where, 1)
    if writer.written:
        raise TypeError(f"{where} must consist of plain values; arrays and objects cannot be saved there")
    return state


def plain_restored(state: Any) -> Any:
    """Inverse of :func:`plain`."""
    return _Reader({}).read(state)


def depth_of(value: Any) -> int:
    """Nesting depth of lists and dicts, computed without recursion, since a damaged manifest may exceed the recursion limit."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


# ---------------------------------------------------------------------- writing
class _Writer:
    """Converts values to states; an object that occurs twice is written once."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.written: list[Any] = []  # arrays and objects; kept, so that no id is reused
        self._number: dict[int, int] = {}  # their positions in the list, by id

    def write(self, value: Any, where: str, depth: int) -> Any:
        """The state of a value; ``where`` names it in messages, ``depth`` is the number of enclosing lists and dicts."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{where[:100]} is nested more than {MAX_DEPTH} deep")
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, np.random.Generator | np.random.RandomState):
            return None  # the state of a generator is not saved
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
        self._number[id(value)] = len(self.written)
        self.written.append(value)
        return state

    def fields(self, obj: Any, where: str, depth: int) -> dict[str, Any]:
        """The state of the attributes of an object of a known class."""
        return self._values(attributes_of(obj), where, depth)

    def _values(self, values: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        return {name: self.write(value, f"{where}.{name}", depth + 1) for name, value in values.items()}

    def _collection(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return self._values(value, where, depth)
            return {"$items": self.write([list(pair) for pair in value.items()], where, depth + 1)}
        if isinstance(value, tuple):
            return {"$tuple": self.write(list(value), where, depth + 1)}
        if value and all(type(item) is Record for item in value):
            return {"$records": self.write(np.array([astuple(item) for item in value]), where, depth + 1)}
        return [self.write(item, f"{where}[{k}]", depth + 1) for k, item in enumerate(value)]

    def _object(self, value: Any, where: str, depth: int) -> dict[str, Any]:
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
        if hasattr(value, "__array__"):  # an array of another library
            return self._array(np.asarray(value), where, depth)
        raise TypeError(f"{where} is a {type(value).__module__}.{type(value).__name__}, which cannot be saved")

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
        """A unique file name for an array, from its place in the state."""
        start = re.sub(r"[^A-Za-z0-9_.\-]+", ".", where.removeprefix("state.")).strip(".")[:90]
        start = start if ARRAY_NAME.fullmatch(start) else f"_{start}"
        name, k = start, 1
        while name in self.arrays:
            name, k = f"{start}.{k}", k + 1
        return name


# ---------------------------------------------------------------------- reading
class _Reader:
    """Converts states to values."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._found: list[Any] = []  # arrays and objects in post-order

    def read(self, state: Any) -> Any:
        """The value of a state."""
        if isinstance(state, list):
            return [self.read(item) for item in state]
        if not isinstance(state, dict):
            return state
        tag = next(iter(state), "")
        if not tag.startswith("$"):
            return self.fields(state)
        value = self._tagged(tag, state[tag], state)
        if tag not in NOT_COUNTED:
            self._found.append(value)
        return value

    def fields(self, state: dict[str, Any]) -> dict[str, Any]:
        """The values of a dict, without its tag."""
        return {name: self.read(value) for name, value in state.items() if not name.startswith("$")}

    def _tagged(self, tag: str, content: Any, state: dict[str, Any]) -> Any:
        """The value of a state with a tag."""
        match tag:
            case "$float":
                return float(content)
            case "$tuple":
                return tuple(self.read(content))
            case "$items":
                return dict(self.read(content))
            case "$records":
                rows = self.read(content).tolist()
                return [Record(int(k), *more, int(stage)) for k, *more, stage in rows]  # type: ignore[call-arg]
            case "$registered":
                kind, name = content
                module, registry = REGISTRIES[kind]
                return getattr(import_module(module), registry).restored(name, self.fields(state))
            case "$enum":
                cls = class_named(content[0])
                if not issubclass(cls, Enum):
                    raise TypeError(f"{content[0]} is no enumeration")
                return cls(content[1])
            case "$same":
                if type(content) is not int or content < 0:
                    raise ValueError(f"$same must be the number of an object; got {content!r}")
                return self._found[content]
            case "$array":
                return self._arrays[content]
            case "$class":
                return object_of(class_named(content), self.fields(state))
            case "$objects":
                items = self.read(content)
                return np.fromiter(items, dtype=object, count=len(items)).reshape(state["shape"])
            case "$sparse":
                return _csr(*self.read(content), *map(int, state["shape"]))
            case "$kernel_of":
                method = self.read(content).kernel
                if not isinstance(method, MethodType):
                    raise TypeError("the kernel of a learner must be a method")
                return method
        raise ValueError(f"unknown tag {tag[:20]!r}")


def _csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n: int, d: int) -> Any:
    """A sparse matrix with checked indices, which products rely on."""
    if len(indptr) != n + 1:
        raise ValueError(f"a sparse matrix of {n} rows has {len(indptr)} numbers for where its rows begin")
    matrix = sp.csr_array((data, indices, indptr), shape=(n, d))
    matrix.check_format(full_check=True)
    return matrix
