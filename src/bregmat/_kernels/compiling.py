"""``njit`` and ``intrinsic`` for all kernels; numba itself is loaded when the first kernel runs (:mod:`bregmat._kernels.dispatchers`).

A kernel that Python calls is compiled for itself and kept on disk. One that a kernel calls becomes a part of that kernel: it is not
optimised and assembled for its own sake, which is most of the work. Everything runs without compilation, too (``NUMBA_DISABLE_JIT=1``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from bregmat._interrupt import held_interrupts

# where one of these names is, arrays are made; elsewhere no references are counted, and no code for that is compiled
ALLOCATING = {"empty", "zeros", "ones", "copy", "reshape", "maximum", "heapify", "heappop", "heappush"}


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``numba.njit``, as a :class:`Kernel`; ``compact=True`` for the code around loops, which is then optimised for size."""
    return Kernel(function, options) if function is not None else lambda given: Kernel(given, options)


def intrinsic(in_python: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """``numba.extending.intrinsic``; where nothing is compiled (``NUMBA_DISABLE_JIT=1``), ``in_python`` in its place."""
    return lambda code: Intrinsic(code, in_python)


class Kernel:
    """A function that numba compiles, for each combination of types that it is called with."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        function.is_compact = options.pop("compact", False)  # type: ignore[attr-defined]
        update_wrapper(self, function)
        allocates = not ALLOCATING.isdisjoint(function.__code__.co_names)
        options = {"error_model": "numpy", "_nrt": allocates} | options
        self.py_func, self.targetoptions = function, options  # the names under which numba looks for what to inline
        self._run: Callable[..., Any] = self._first
        self._part: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Compiled for Python."""
        return self._run(*arguments, **named)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def _first(self, *arguments: Any, **named: Any) -> Any:
        """The first call of a process: what the next ones go to is made here, as it takes numba."""
        with held_interrupts(patience=None):
            from bregmat._kernels.dispatchers import whole

            self._run = whole(self.py_func, self.targetoptions)
        return self._run(*arguments, **named)

    @property
    def _numba_type_(self) -> Any:
        """By which numba knows what it is, when a kernel calls it."""
        if self._part is None:
            from bregmat._kernels.dispatchers import part

            self._part = part(self.py_func, self.targetoptions)
        return self._part._numba_type_

    @property
    def signatures(self) -> list[Any]:
        """The types that it is compiled for, or loaded, as what Python calls."""
        return list(getattr(self._run, "signatures", ()))

    @property
    def part_signatures(self) -> list[Any]:
        """The types that it is compiled for as a part of others."""
        return list(getattr(self._part, "signatures", ()))


class Intrinsic:
    """Code for LLVM, registered where a kernel asks for it."""

    def __init__(self, code: Callable[..., Any], in_python: Callable[..., Any]) -> None:
        self._code, self._in_python, self._type = code, in_python, None

    def __call__(self, *arguments: Any) -> Any:
        return self._in_python(*arguments)

    @property
    def _numba_type_(self) -> Any:
        if self._type is None:
            from bregmat._kernels.dispatchers import intrinsic_type

            self._type = intrinsic_type(self._code)
        return self._type
