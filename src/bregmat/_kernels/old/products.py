"""Matrix products by BLAS, and matrices in flat memory.

Numba's own ``np.dot`` and ``reshape`` come with checks, messages and counted references: more code than most kernels here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._kernels.old.compiling import intrinsic


def _product(out: np.ndarray, A: np.ndarray, B: np.ndarray) -> None:
    np.dot(A, B, out)


@intrinsic(_product)
def product_inplace(typing: Any, out: Any, A: Any, B: Any) -> Any:
    """``out = A B`` without a look at shapes; called as ``product_inplace(out, A, B)``.

    Parameters
    ----------
    typing : numba's
    out : ndarray, shape (m, n) or (m,), in C order
    A : ndarray, shape (m, k), in C or F order
    B : ndarray, shape (k, n) in C or F order, or (k,)
    """
    from numba import types
    from numba.core import cgutils
    from numba.np.arrayobj import make_array

    kinds = (out, A, B)
    if not all(isinstance(kind, types.Array) and kind.dtype == out.dtype and kind.layout in "CF" for kind in kinds):
        return None
    if not (A.ndim == 2 and B.ndim == out.ndim and out.layout == "C"):
        return None
    try:
        from numba.np.linalg import call_xxgemm, call_xxgemv, ensure_blas
    except ImportError:  # another version of numba: longer to compile, the same product

        def plain(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.compile_internal(builder, _product, signature, arguments)

        return types.none(*kinds), plain
    ensure_blas()

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, left, right = (
            make_array(kind)(context, builder, value) for kind, value in zip(kinds, arguments, strict=True)
        )
        shape, other, made = (cgutils.unpack_tuple(builder, array.shape) for array in (left, right, target))
        if B.ndim == 1:
            call_xxgemv(context, builder, A.layout == "C", A, shape, left.data, right.data, target.data)
        else:
            call_xxgemm(context, builder, A, shape, left.data, B, other, right.data, out, made, target.data)
        return context.get_dummy_value()

    return types.none(*kinds), code


@intrinsic(lambda flat, m, n: flat[: m * n].reshape(m, n))
def as_matrix(typing: Any, flat: Any, m: Any, n: Any) -> Any:
    """The first m n entries of a contiguous vector as a matrix, with no copy; called as ``as_matrix(flat, m, n)``.

    Parameters
    ----------
    typing : numba's
    flat : ndarray, shape (at least m n,)
    m, n : int
        Shape of the matrix.
    """
    from numba import types
    from numba.core.imputils import impl_ret_borrowed
    from numba.np.arrayobj import make_array, populate_array

    if not (isinstance(flat, types.Array) and flat.ndim == 1 and flat.layout == "C"):
        return None
    kind = types.Array(flat.dtype, 2, "C")

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, made = make_array(flat)(context, builder, arguments[0]), make_array(kind)(context, builder)
        size = source.itemsize
        populate_array(
            made,
            data=source.data,
            shape=arguments[1:],
            strides=[builder.mul(arguments[2], size), size],
            itemsize=size,
            meminfo=source.meminfo,
            parent=source.parent,
        )
        return impl_ret_borrowed(context, builder, kind, made._getvalue())

    return kind(flat, types.intp, types.intp), code
