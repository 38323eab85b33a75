"""Numba's ``njit`` for all kernels: Ctrl-C waits until a kernel is compiled."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numba

from bregmat._interrupt import held_interrupts


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``numba.njit``, whose compiler Ctrl-C does not reach: half a compilation leaves types behind that no later one understands."""
    if function is None:
        return lambda given: njit(given, **options)
    kernel = numba.njit(**options)(function)
    if not hasattr(kernel, "_compile_for_args"):  # NUMBA_DISABLE_JIT=1
        return kernel
    compile_for_args = kernel._compile_for_args

    @wraps(compile_for_args)
    def uninterrupted(*arguments: Any, **named: Any) -> Any:
        with held_interrupts(patience=None):
            return compile_for_args(*arguments, **named)

    kernel._compile_for_args = uninterrupted
    return kernel
