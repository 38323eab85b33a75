"""Numba's ``njit`` and ``intrinsic`` for all kernels: Ctrl-C waits until a kernel is compiled; everything runs without compilation, too."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numba
import numba.extending

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


def intrinsic(in_python: Callable[..., Any]) -> Any:
    """``numba.extending.intrinsic``; where nothing is compiled (``NUMBA_DISABLE_JIT=1``), ``in_python`` in its place."""
    is_compiled = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]  # set by numba as it reads its variables
    return lambda code: numba.extending.intrinsic(code) if is_compiled else in_python
