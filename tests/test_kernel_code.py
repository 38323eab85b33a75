"""What our own lowering makes of arrays and variables is what Python makes of them, and short; passes left out are not missed."""

from types import FunctionType

import numpy as np
import pytest

from bregmat._kernels.compiling import njit
from bregmat._kernels.products import as_matrix, product_inplace


def _indexed(A, x, flags, k):
    total, last = 0.0, 0.0
    for i in range(len(A)):
        row = A[i]
        last = row[-1] + A[i, -2]
        total += last * x[k] + x[len(x) - 1 - i] * flags[i]
        row[0] = total
        A[i, k] += 1
    part = A[1:, 1 : k + 1]
    for i in range(part.shape[0]):
        for j in range(part.shape[1]):
            part[i, j] *= 2.0
    tail = x[k:]
    head = x[:-3]
    flags[0] = flags[1]
    return total + last + len(tail) + 10 * len(head) + tail[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_elements_rows_and_slices(rng, dtype, order, kind):
    A = rng.normal(size=(5, 7)).astype(dtype)
    A = np.repeat(A, 2, axis=1)[:, ::2] if order == "strided" else np.array(A, order=order)
    x, flags = rng.normal(size=6), np.array([True, False, True, True, False])
    ours, theirs = [A.copy("K"), x.copy(), flags.copy()], [A.copy("K"), x.copy(), flags.copy()]
    if order == "strided":
        ours[0] = np.repeat(A, 2, axis=1)[:, ::2]
    value = njit(_indexed)(*ours, kind(2))
    assert value == pytest.approx(_indexed(*theirs, 2), rel=1e-5 if dtype == np.float32 else 1e-14)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == np.float32 else 1e-14)


def test_a_variable_that_some_paths_set():
    """One assignment, and uses that it does not come before."""

    def last_above(x, least):
        found = False
        where = -1
        for i in range(len(x)):
            if x[i] > least:
                where = i
                value = 2.0 * x[i]
                found = True
        return (where, value) if found else (where, 0.0)

    for least in (-1.0, 0.5, 9.0):
        assert njit(last_above)(np.array([0.0, 1.0, 0.7]), least) == last_above(np.array([0.0, 1.0, 0.7]), least)


def test_division_by_zero_is_that_of_numpy():
    assert njit(lambda a, b: a / b)(1.0, 0.0) == np.inf


def test_arrays_that_are_made_inside_are_freed():
    """References are counted where arrays are made, rows of them included."""
    from numba.core.runtime import _nrt_python, rtsys

    @njit
    def inner(row):
        return row[0] + row[-1]

    @njit
    def outer(n):
        made = np.empty((n, 3))
        total = 0.0
        for i in range(n):
            row = made[i]
            row[0], row[2] = i, 1.0
            total += inner(row)
        return total

    assert outer(4) == 10.0
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(50):
            outer(4)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free >= 50


def test_what_numpy_and_python_bring_is_compiled_once():
    """``max`` in a kernel and in a part of it; numba makes it twice, as their flags differ."""
    from numba.core.compiler import Compiler

    @njit
    def part(x, y):
        return max(x, y)

    @njit
    def whole(x, y):
        return part(x, y) + max(x, -y)

    names, usual = [], Compiler._compile_core

    def counted(self):
        names.append(self.state.func_id.func_qualname)
        return usual(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiler, "_compile_core", counted)
        assert whole(1.25, 3.5) == 4.75
    assert sum("max" in name for name in names) <= 1


def test_expressions_of_arrays_and_lists():
    """Kernels have none; numba's rewriting of them as one loop is left out only where there is nothing to rewrite."""

    @njit
    def mixed(x):
        made = np.empty(len(x))
        made[0] = 1.0
        pair = np.array([x[0], x[1]])
        return np.sqrt(x * x + 3.0) + x[0] * pair[1], made[:1]

    x = np.array([1.0, 2.0, 5.0])
    root, first = mixed(x)
    np.testing.assert_allclose(root, np.sqrt(x * x + 3.0) + 2.0, rtol=1e-15)
    assert first[0] == 1.0


def test_what_is_kept_for_our_kernels_is_not_numbas_afterwards():
    """A call's type is found once for all kernels, by arguments and flags; numba itself works as it does otherwise."""
    from numba.core.errors import TypingError
    from numba.core.postproc import PostProcessor
    from numba.core.typing.context import BaseContext

    before, asked = (BaseContext.resolve_function_type, PostProcessor.run), []

    class Asking:
        def __init__(self, usual):
            self.usual = usual

        def __call__(self, context, func, args, kws):
            asked.append((func, args))
            return self.usual(context, func, args, kws)

    from bregmat._kernels import pipeline

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_resolve", Asking(pipeline._resolve))
        assert njit(lambda a, b: a + b + a)(np.uint16(2), np.float32(1.5)) == 5.5
        first = len(asked)
        assert njit(lambda a, b: a + b + a)(np.uint16(2), np.float32(2.5)) == 6.5
        with pytest.raises(TypingError, match="No implementation of function"):
            njit(lambda a, b: a + b)(np.uint16(2), np.zeros(1, dtype="M8[s]"))
    assert first > 0 and not [one for one in asked[first:] if one in asked[:first]]
    assert (BaseContext.resolve_function_type, PostProcessor.run) == before


def _extremes(x, k, i):
    return max(x, k), min(k, x, i), max(1, i), min(x, -0.5), max(i, k)


@pytest.mark.parametrize("x", [0.3, -2.5, np.nan, np.inf])
@pytest.mark.parametrize("kind", [float, np.float32])
def test_extremes_of_numbers_of_several_kinds(x, kind):
    """As Python has them, where NaN is neither larger nor smaller."""
    for k, i in ((2.0, 1), (-3.5, -4)):
        assert njit(_extremes)(kind(x), k, i) == pytest.approx(_extremes(float(kind(x)), k, i), nan_ok=True)


def _products(out, A, B, v, w, flat):
    product_inplace(out, A, B)
    product_inplace(w, A, v)
    product_inplace(as_matrix(flat, out.shape[0], out.shape[1]), A, B)


@pytest.mark.parametrize("left", "CF")
@pytest.mark.parametrize("right", "CF")
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("m", [0, 1, 4])
def test_products(rng, left, right, kind, m):
    A, B, v = rng.normal(size=(m, 3)), rng.normal(size=(3, 5)), rng.normal(size=3).astype(kind)
    A, B = np.array(A, kind, order=left), np.array(B, kind, order=right)
    out, w, flat = np.full((m, 5), 7, kind), np.full(m, 7, kind), np.full(5 * m + 2, 7, kind)
    njit(_products)(out, A, B, v, w, flat)
    tol = 20 * np.finfo(kind).eps
    np.testing.assert_allclose(out, A @ B, rtol=tol, atol=tol)
    np.testing.assert_allclose(w, A @ v, rtol=tol, atol=tol)
    assert np.array_equal(flat[: 5 * m].reshape(m, 5), out) and (flat[5 * m :] == 7).all()


def _norms(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return total


def test_compact_code_is_marked_and_gives_the_same(rng):
    """For size: the loop is there once, and no longer unrolled or vectorised."""
    x = rng.normal(size=101)
    plain, compact = (njit(FunctionType(_norms.__code__, globals()), compact=mark) for mark in (False, True))
    assert compact(x) == pytest.approx(plain(x), rel=1e-14)
    assert "optsize" in next(iter(compact._run.inspect_llvm().values()))
    assert "optsize" not in next(iter(plain._run.inspect_llvm().values()))
