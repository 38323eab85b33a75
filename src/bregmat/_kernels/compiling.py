"""Numba's ``njit`` and ``intrinsic`` for all kernels: Ctrl-C waits until a kernel is compiled; everything runs without compilation, too,
and where neither the package nor a home can be written to.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numba
import numba.extending

from bregmat._interrupt import held_interrupts


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``numba.njit``, whose compiler Ctrl-C does not reach: half a compilation leaves types behind that no later one understands."""
    if function is None:
        return lambda given: njit(given, **options)
    kernel = _kernel(function, options)
    if not hasattr(kernel, "_compile_for_args"):  # NUMBA_DISABLE_JIT=1
        return kernel
    compile_for_args = kernel._compile_for_args

    @wraps(compile_for_args)
    def uninterrupted(*arguments: Any, **named: Any) -> Any:
        with held_interrupts(patience=None):
            return compile_for_args(*arguments, **named)

    kernel._compile_for_args = uninterrupted
    return kernel


def _kernel(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What numba makes of it; where it finds no place for its cache, with one in a private temporary folder, or without."""
    try:
        return numba.njit(**options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder, usual = _private_folder(), numba.config.CACHE_DIR  # type: ignore[attr-defined]  # as below
    if folder is None:
        return numba.njit(**options | {"cache": False})(function)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        return numba.njit(**options)(function)
    finally:
        numba.config.CACHE_DIR = usual  # type: ignore[attr-defined]


@cache
def _private_folder() -> Path | None:
    """A folder for compiled code that nobody else can write to; None where there is none. Says so once, at DEBUG level."""
    try:
        folder = Path(tempfile.gettempdir()) / f"bregmat-{getattr(os, 'getuid', lambda: 'cache')()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        is_mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
        is_safe = stat.S_ISDIR(found.st_mode) and is_mine  # else code of others would be run
    except OSError:
        is_safe = False
    where = f"kept in {folder}" if is_safe else "not kept: each process compiles anew"
    logging.getLogger("bregmat").debug("neither the package nor a home can be written to: compiled code is %s", where)
    return folder if is_safe else None


def intrinsic(in_python: Callable[..., Any]) -> Any:
    """``numba.extending.intrinsic``; where nothing is compiled (``NUMBA_DISABLE_JIT=1``), ``in_python`` in its place."""
    is_compiled = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]  # set by numba as it reads its variables
    return lambda code: numba.extending.intrinsic(code) if is_compiled else in_python
