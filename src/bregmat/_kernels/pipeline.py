"""Numba's compiler with what these kernels do not need left out, and what it works out again and again kept.

Half of its time goes into its own Python, and not into LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import version_info
from numba.core import ir, postproc, targetconfig, transforms, types, typing
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.typing.context import BaseContext

from bregmat._kernels.libraries import Whole, is_compact, is_extreme

KNOWN = (0, 68)  # the newest numba that this was written for and tested with
# what kernels never contain: with-blocks, raise, literally and literal_unroll, parallel loops; and notes that are for people
UNUSED = {"WithLifting", "FindLiterallyCalls", "LiteralUnroll", "LiteralPropagationSubPipelinePass"}
UNUSED |= {"AnnotateTypes", "DumpParforDiagnostics", "RewriteDynamicRaises"}
FOR_CLOSURES = {"InlineClosureLikes", "MakeFunctionToJitFunction"}


class LeanCompiler(Compiler):
    """Numba's, with fewer passes, flags that are compared faster, and no analysis repeated after every pass."""

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ):
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def _compile_core(self) -> Any:
        if self.state.library is None:
            self.state.library = Whole(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.is_compact = is_compact(self.state.func_id.func)
            self.state.library.are_references_counted = self.state.flags.nrt
            self.state.library.enable_object_caching()
        return super()._compile_core()

    def define_pipelines(self) -> Any:
        from bregmat._kernels.lowering import ShortLowering  # loads numba's arrays, which code from disk does without

        (usual,) = super().define_pipelines()
        left_out = set(UNUSED)
        if not any(isinstance(value, CodeType) for value in self.state.func_id.func.__code__.co_consts):
            left_out |= FOR_CLOSURES
        lean = _Passes(usual.pipeline_name)
        lean.passes = [
            (ShortLowering if kind is NativeLowering else kind, words)
            for kind, words in usual.passes
            if kind.__name__ not in left_out
        ]
        lean.finalize()
        return [lean]


class _Passes(PassManager):  # type: ignore[misc]
    """Passes that are run, and nothing beside."""

    def _runPass(self, index: int, pss: Any, state: Any) -> None:
        if type(pss) is NopythonRewrites and not _has_array_arithmetic(state):
            return
        pss.analysis = self._analysis
        pss.run_initialization(state)
        pss.run_pass(state)
        pss.run_finalizer(state)


def _has_array_arithmetic(state: Any) -> bool:
    """Whether something may be an expression of arrays, which numba rewrites as one loop, or an array made of a list."""
    return any(
        isinstance(getattr(call, "return_type", None), types.Array) and _may_be_rewritten(expression, state.typemap)
        for expression, call in state.calltypes.items()
    )


def _may_be_rewritten(expression: Any, kinds: dict[str, Any]) -> bool:
    """Parts of an array and new ones without values are as they are."""
    if not isinstance(expression, ir.Expr) or expression.op in ("getitem", "static_getitem"):
        return False
    if expression.op != "call":
        return True
    called = getattr(kinds[expression.func.name], "typing_key", None)
    return called is np.array or isinstance(called, np.ufunc)


def _inherited(flags: Any) -> tuple[Any, ...]:
    return flags.nrt, frozenset(flags.fastmath.flags), flags.error_model, flags.forceinline, flags.boundscheck


class _Flags(Flags):  # type: ignore[misc]
    """Compared by what the functions of numpy and Python inherit, which are compiled once for each such set of flags.

    Numba looks at all forty options by name, thousands of times, a sixth of its time, and compiles ``max`` anew for kernels
    that differ in whether Python may call them.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and _inherited(self) == _inherited(other)

    def __hash__(self) -> int:
        return hash(_inherited(self))


# ---------------------------------------------------------------- what numba works out again and again
_found: dict[Any, Any] = {}  # signatures of operators and functions, by the types of their arguments
_resolve = BaseContext.resolve_function_type


def _resolve_once(self: Any, func: Any, args: Any, kws: Any) -> Any:
    """The signature of a call; numba asks every definition of ``+`` anew at every sum, a fifth of its time.

    Of ``max`` and ``min`` of numbers, which :mod:`lowering` says in place: numba compiles a function for each combination of types.
    """
    kind = self._lookup_global(func) or func
    if kws or type(kind) is not types.Function:
        return _resolve(self, func, args, kws)
    flags = targetconfig.ConfigStack.top_or_none()
    if type(flags) is _Flags and is_extreme(kind, args):
        kinds = [types.unliteral(one) for one in args]
        return typing.signature(self.unify_types(*kinds), *kinds)
    key = self, kind, tuple(args), flags and _inherited(flags)
    if key not in _found:
        signature = _resolve(self, func, args, kws)
        if signature is None:
            return None
        _found[key] = signature
    return _found[key]


def _look_through(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """``PostProcessor.run`` without which variables each block starts with, which only generators and object mode ask for.

    All else is found out when it is asked for; numba does this seven times a function.
    """
    if self.func_ir.is_generator:
        _run(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


_run = postproc.PostProcessor.run


@contextmanager
def _shortcuts() -> Iterator[None]:
    """For kernels and for what they take from numpy; nothing else is compiled meanwhile, and numba is as it was afterwards."""
    with global_compiler_lock:
        shorter = (BaseContext, "resolve_function_type", _resolve_once), (postproc.PostProcessor, "run", _look_through)
        usual = [(kind, name, getattr(kind, name)) for kind, name, _ in shorter]
        for kind, name, function in shorter:
            setattr(kind, name, function)
        try:
            yield
        finally:
            for kind, name, function in usual:
                setattr(kind, name, function)


if TYPE_CHECKING or version_info.short <= KNOWN:
    KernelCompiler = LeanCompiler
    shortcuts = _shortcuts
else:  # its passes may be others: it compiles as it does by itself, which takes longer
    KernelCompiler = Compiler
    shortcuts = nullcontext
