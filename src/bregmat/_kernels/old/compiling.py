"""The decorators of all kernels: ``numba.njit`` and ``numba.extending.intrinsic`` with the options that kernels share.

A kernel is compiled in its first call, for the types of its arguments. Numba keeps the code on disk for later processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.extending


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function as ``numba.njit`` does, with NumPy's rules for division by zero."""

    options = {"error_model": "numpy"} | options

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except RuntimeError as error:  # no folder for the cache can be written to: every process compiles anew
            if "no locator available" not in str(error):
                raise
            return numba.njit(**options | {"cache": False})(function)

    return compiled


def intrinsic(in_python: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes an intrinsic, or returns ``in_python`` if compilation is disabled (``NUMBA_DISABLE_JIT=1``)."""
    is_off = numba.config.DISABLE_JIT  # type: ignore[attr-defined]  # numba sets it from its environment variables
    return lambda code: in_python if is_off else numba.extending.intrinsic(code)
