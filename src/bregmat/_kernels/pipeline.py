"""Numba's compiler with what these kernels do not need left out: most of its time goes into its own Python, not into LLVM."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any

from numba import version_info
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import NativeLowering, NopythonRewrites

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
            self.state.library = _Unoptimised(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
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
    return any(isinstance(call.return_type, types.Array) for call in state.calltypes.values() if call is not None)


class _Flags(Flags):  # type: ignore[misc]
    """Compared by what the functions of numpy and Python inherit, which are compiled once for each such set of flags.

    Numba looks at all forty options by name, thousands of times, a sixth of its time, and compiles ``max`` anew for kernels
    that differ in whether Python may call them.
    """

    __slots__ = ()

    def _inherited(self) -> tuple[Any, ...]:
        return self.nrt, self.fastmath, self.error_model, self.forceinline, self.boundscheck

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self._inherited() == other._inherited()

    def __hash__(self) -> int:
        return hash((self.nrt, self.error_model))


class _Unoptimised(JITCodeLibrary):
    """What Python calls is optimised with all that it calls, and not before.

    Parts are, beforehand: without that von Neumann's projections took a sixth longer.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


if TYPE_CHECKING or version_info.short <= KNOWN:
    KernelCompiler = LeanCompiler
else:  # its passes may be others: it compiles as it does by itself, which takes longer
    KernelCompiler = Compiler
