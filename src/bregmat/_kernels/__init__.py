"""Compiled loops on flat arrays, for the best instruction set that the processor has (x86-64 baseline, v3 or v4).

``BREGMAT_LEVEL=v1`` or ``v3`` in the environment selects a lower one. The kernels of one C++ file are a module here:
``from bregmat._kernels import logdet``. :mod:`bregmat._kernels.arrays` defines the tuples of arrays that they take.
"""

import os
from importlib import import_module
from typing import Any

LEVELS = ("v1", "v3", "v4")


def _best(forced: str) -> str:
    """The name of the highest level that the processor has, or of the lower one that is ``forced``."""
    if forced not in ("", *LEVELS):
        raise ImportError(f"the environment variable BREGMAT_LEVEL must be one of {', '.join(LEVELS)}, got {forced!r}.")
    return min(f"v{_oldest.highest_level()}", forced or LEVELS[-1])


_oldest = import_module("bregmat._kernels._v1")
level = _best(os.environ.get("BREGMAT_LEVEL", ""))
_compiled = import_module(f"bregmat._kernels._{level}")


def __getattr__(name: str) -> Any:
    return getattr(_compiled, name)
