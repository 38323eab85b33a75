"""Numba's compiler, told what not to do twice, where to keep what it made, and to let Ctrl-C wait; only :mod:`compiling` imports this."""

import gc
import logging
import os
import pickle
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numba
import numba.extending
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from bregmat._interrupt import held_interrupts
from bregmat._kernels import COMPILED
from bregmat._kernels.libraries import Loop, SourceLoop, is_compact
from bregmat._kernels.pipeline import KernelCompiler, shortcuts

NOTICE = "compiling, once after installation; `bregmat warmup` does all of it beforehand"
PATIENCE = 1.0  # seconds of compilation that nobody is told about
log = logging.getLogger("bregmat")


# ---------------------------------------------------------------- what Python calls
def whole(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """The compiled function; the function itself where nothing is to be compiled."""
    dispatcher = _kept(function, options | {"no_cfunc_wrapper": True, "pipeline_class": KernelCompiler})
    if not hasattr(dispatcher, "_compile_for_args"):  # NUMBA_DISABLE_JIT=1
        return function
    compile_for_args = dispatcher._compile_for_args

    @wraps(compile_for_args)
    def compiled(*arguments: Any, **named: Any) -> Any:
        # half a compilation would leave types behind that no later one understands
        with held_interrupts(patience=None):
            found = None if named else _from_disk(dispatcher, arguments)
            if found is None:
                COMPILED.append(f"{function.__module__.rpartition('.')[2]}.{function.__name__}")
                with _noticed(), _no_collection(), shortcuts():
                    found = compile_for_args(*arguments, **named)
        return found

    dispatcher._compile_for_args = compiled
    return dispatcher  # type: ignore[no-any-return]


def _from_disk(dispatcher: Any, arguments: tuple[Any, ...]) -> Any:
    """The code that is kept for these arguments, or None: what numba does, but for its preparations to compile (0.3 s)."""
    load = getattr(dispatcher._cache, "_load_overload", None)
    if load is None or any(isinstance(value, numba.core.dispatcher.OmittedArg) for value in arguments):
        return None
    with global_compiler_lock:
        types_of = tuple(dispatcher.typeof_pyval(value) for value in arguments)
        rtsys.initialize(dispatcher.targetctx)
        with dispatcher._cache._guard_against_spurious_io_errors():
            found = load(types_of, dispatcher.targetctx)
            if found is not None:
                dispatcher.add_overload(found)
                return found.entry_point
    return None


def _kept(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What numba makes of it; where it finds no place for its cache, with one in a private temporary folder, or without."""
    try:
        return _forgiving(numba.njit(**options)(function))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder, usual = _private_folder(), numba.config.CACHE_DIR  # type: ignore[attr-defined]  # set by numba from its variables
    if folder is None:
        return numba.njit(**options | {"cache": False})(function)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        return _forgiving(numba.njit(**options)(function))
    finally:
        numba.config.CACHE_DIR = usual  # type: ignore[attr-defined]


def _forgiving(dispatcher: Any) -> Any:
    """The dispatcher, to which an index on disk that names classes of another version, or is cut off, is an empty one."""
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if file is not None:
        load = file._load_index

        def load_index() -> Any:
            # numba unpickles the types of arguments before it looks at the stamp that says for which source they were
            try:
                return load()
            except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
                return {}

        file._load_index = load_index
    return dispatcher


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
    log.debug("neither the package nor a home can be written to: compiled code is %s", where)
    return folder if is_safe else None


@contextmanager
def _noticed() -> Iterator[None]:
    """Says so, once a process, where compiling takes more than a second."""
    timer = threading.Timer(PATIENCE, _say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@cache
def _say() -> None:
    log.warning(NOTICE)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A compiler makes millions of small objects and few cycles: a sixth of its time goes into looking for them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# ---------------------------------------------------------------- what kernels call
def part(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """A dispatcher for use in other kernels only, which become its home: no code of its own, none on disk, no calls from Python."""
    options = {name: value for name, value in options.items() if name not in ("cache", "nogil")}
    dispatcher = numba.njit(**options, pipeline_class=_PartCompiler)(function)

    def compile_part(given: Any) -> None:
        """Without looking at a disk, and without clocks that count every call of LLVM once for each caller."""
        if given not in dispatcher.overloads:
            dispatcher.overloads[given] = dispatcher._compiler.compile(given, None)

    template = dispatcher.get_call_template

    def without_literals(arguments: Any, named: Any) -> Any:
        """A constant is a number like any other: one kernel for all of them."""
        return template(tuple(types.unliteral(kind) for kind in arguments), named)

    dispatcher.compile, dispatcher.get_call_template = compile_part, without_literals
    return dispatcher


class _PartCompiler(KernelCompiler):
    """Ends with LLVM's language, as it comes from numba: whoever links it optimises it with the rest."""

    def _compile_core(self) -> Any:
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        # sums that may be reordered are short loops, which vectorise as long as nothing else is around them
        kind = Loop if flags.fastmath else SourceLoop
        self.state.library = kind(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.is_compact = is_compact(self.state.func_id.func)
        result = super()._compile_core()._replace(entry_point=object())  # the key by which it is found
        self.state.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        return result


def intrinsic_type(code: Callable[..., Any]) -> Any:
    """The type of an intrinsic."""
    made = numba.extending.intrinsic(code)
    cpu_target.typing_context.refresh()
    return cpu_target.typing_context.resolve_value_type(made)
