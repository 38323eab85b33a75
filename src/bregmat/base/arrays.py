"""Arrays of libraries other than NumPy (torch, CuPy, all that follow the array API standard), and copies to and from the host.

Results come back in the library of the input. Problems are solved and certified in NumPy; products with the points are computed where
the points are (:mod:`bregmat.operators.foreign`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LIBRARIES = ("torch", "cupy")  # whose arrays have no __array_namespace__ in all versions


def _compat() -> Any:
    """array-api-compat, which gives torch and CuPy the names of the standard."""
    try:
        import array_api_compat
    except ImportError as error:
        raise ImportError(
            "arrays of other libraries than NumPy need array-api-compat: pip install 'bregmat[gpu]'."
        ) from error
    return array_api_compat


@dataclass(frozen=True, eq=False)
class ArraySpace:
    """A namespace of the array API on one of its devices."""

    xp: Any  # module from array-api-compat
    device: Any
    is_host: bool  # whether NumPy can read its arrays without a copy

    def put(self, x: np.ndarray, dtype: Any = None) -> Any:
        """A copy of a NumPy array in this space; by default in its own precision."""
        name = np.dtype(x.dtype if dtype is None else dtype).name
        x = np.ascontiguousarray(x, dtype=name)
        if not x.flags.writeable:  # torch shares memory and warns if it is read-only
            x = x.copy()
        return self.xp.asarray(x, dtype=getattr(self.xp, name), device=self.device)

    def put_like(self, y: Any, x: np.ndarray) -> Any:
        """A copy in float32 if y, an array of this space, is float32, else in float64."""
        return self.put(x, np.float32 if y.dtype == self.xp.float32 else np.float64)

    def fetch(self, x: Any) -> np.ndarray:
        """One of its arrays as a NumPy array."""
        compat = _compat()
        if compat.is_torch_array(x):
            return x.detach().cpu().numpy()
        if compat.is_cupy_array(x):
            return x.get()
        # array-api-strict has devices that NumPy must not read
        if not self.is_host and hasattr(self.xp, "Device"):
            x = self.xp.asarray(x, device=self.xp.Device("CPU_DEVICE"))
        return np.asarray(x)

    @property
    def words(self) -> str:
        """Library and device, for messages."""
        library = self.xp.__name__.removeprefix("array_api_compat.")
        return f"{library} array on {self.device}"


def is_foreign(x: Any) -> bool:
    """Whether x is an array of a library other than NumPy that follows the array API; Dask and sparse arrays and frames are not."""
    kind = type(x)
    library = kind.__module__.partition(".")[0]
    if library in LIBRARIES:
        return hasattr(kind, "dtype") and hasattr(kind, "ndim")
    return library not in ("numpy", "dask") and hasattr(kind, "__array_namespace__") and not isinstance(x, np.ndarray)


def array_space(x: Any) -> ArraySpace | None:
    """The space of an array; None for NumPy arrays and for objects that follow no array API."""
    if not is_foreign(x):
        return None
    compat = _compat()
    return ArraySpace(compat.array_namespace(x), compat.device(x), _is_on_host(x))


def working_space(x: Any) -> ArraySpace | None:
    """The space in which sums over these points are computed; None for the host, where compiled loops are faster.

    Raises ``TypeError`` for a device without double precision, which certificates need.
    """
    space = array_space(x)
    if space is None or space.is_host:
        return None
    try:
        is_double = space.xp.zeros(1, dtype=space.xp.float64, device=space.device).dtype == space.xp.float64
    except (TypeError, ValueError, RuntimeError):
        is_double = False
    if not is_double:
        raise TypeError(f"a {space.words} has no float64 there, which certificates need; copy it to the host's memory.")
    return space


def _is_on_host(x: Any) -> bool:
    """Whether an array is in the memory of the host."""
    if getattr(getattr(x, "device", None), "type", None) == "cpu":  # of torch, whatever its dtype
        return True
    try:
        np.asarray(x[:0, ...] if x.ndim else x)
        return int(x.__dlpack_device__()[0]) == 1
    except (TypeError, ValueError, RuntimeError, BufferError):
        return False
