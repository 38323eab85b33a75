"""What is compiled how: which calls are said in place, what LLVM optimises where, for speed or for size, and what is not worth it.

Three quarters of LLVM's time go into the code around loops and into the wrappers that take Python's arguments apart, not into loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary

WRAPPER = "wrapper"  # the module of what Python calls, as numba names it


def is_compact(function: Callable[..., Any]) -> bool:
    """Whether ``njit`` was told so."""
    return bool(getattr(function, "is_compact", False))


def is_extreme(kind: Any, arguments: Any) -> bool:
    """Whether it is ``max`` or ``min`` of two numbers or more."""
    return (
        getattr(kind, "typing_key", None) in (max, min)
        and len(arguments) > 1
        and all(isinstance(one, types.Integer | types.Float) for one in arguments)
    )


class _Library(JITCodeLibrary):
    """Numba's, in which functions may be marked before LLVM sees them."""

    is_compact = False  # optimised for size: what is called in loops is neither copied to each call, nor loops unrolled

    def add_ir_module(self, ir_module: Any) -> None:
        if self.is_compact:  # the wrapper runs once a call, which is long where the code is: it is not optimised at all
            _mark(ir_module, ("noinline", "optnone") if ir_module.name == WRAPPER else ("optsize",))
        super().add_ir_module(ir_module)


def _mark(ir_module: Any, attributes: Iterable[str]) -> None:
    for function in ir_module.functions:
        if not function.is_declaration:
            for one in attributes:
                function.attributes.add(one)


def _passes(make: Callable[[], Any]) -> tuple[Any, Any] | None:
    """Passes and what they are run with; None where an older numba makes them in another way."""
    try:
        passes, builder = make()
    except TypeError:
        return None
    return passes, builder


class Whole(_Library):
    """What Python calls is optimised with all that it calls, and not before.

    Parts are, beforehand: without that von Neumann's projections took a sixth longer.
    """

    are_references_counted = True

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Numba's first, cheap round is there to bring counted references together, of which most kernels have none."""
        made = None if self.are_references_counted else _passes(self._codegen._module_pass_manager)
        if made is None:
            super()._optimize_final_module()
        else:
            made[0].run(self._final_module, made[1])


class Loop(_Library):
    """One that is only linked into others."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """What is defined in it; numba makes passes for each name of another function, too."""
        ll_module.data_layout = self._codegen._data_layout
        if self.is_compact:  # whoever links it does the same once more
            return
        made = _passes(self._codegen._function_pass_manager)
        if made is None:
            super()._optimize_functions(ll_module)
            return
        for function in ll_module.functions:
            if not function.is_declaration:
                made[0].run(function, made[1])

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class SourceLoop(Loop):
    """One that is not worth optimising as a whole before."""

    def _optimize_final_module(self) -> None:
        """Left to who links it."""
