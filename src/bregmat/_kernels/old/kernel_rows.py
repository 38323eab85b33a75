"""Blocks of a Gaussian kernel in one go: matrix product and exponential chunk by chunk, in cache; sums of its rows.

Loops take the part that they are to do as its ``start`` and ``stop``, multiples of their unit (the end excepted), and let go of the
interpreter: threads may share them (:mod:`bregmat.threads`), each with memory of its own (:func:`chunk_work`). What is written does not
depend on the parts.
"""

from typing import Any

import numpy as np

from bregmat._kernels.old.compiling import intrinsic, njit
from bregmat._kernels.old.products import as_matrix, product_inplace
from bregmat._kernels.old.vectors import add_multiple_inplace, dot

# No 'reassoc': exp_f64 rounds to an integer by adding and subtracting a large number.
EXP = {"nnan", "ninf", "nsz", "contract", "arcp"}
SUM = {"nnan", "ninf", "nsz", "reassoc", "contract", "arcp"}
CHUNK = 512  # columns of a chunk
STRIP = 512  # rows of a chunk: 1 MB of float32 stays in the second-level cache
HALF = 256  # rows or columns of a chunk in float64


def chunk_work(rows: int, columns: int, dtype: Any = np.float64) -> np.ndarray:
    """Memory of one part of a loop below over this many rows and columns: kernels that make arrays count references."""
    strip, chunk = (STRIP, CHUNK) if dtype is np.float32 else (HALF, HALF)
    return np.empty(chunk + min(rows, strip) * min(columns, chunk), dtype)


@intrinsic(lambda bits: bits.view(f"f{bits.itemsize}"))
def _float_of_bits(typing, bits):
    """An int32 or int64 read as a float of the same width."""
    from llvmlite import ir
    from numba import types

    wanted: Any = {types.int32: types.float32, types.int64: types.float64}.get(bits)
    if wanted is None:
        return None

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType() if wanted is types.float32 else ir.DoubleType())

    return wanted(bits), code


@intrinsic(lambda value: np.float64(value).view(np.int64))
def _bits_of_float(typing, value):
    """A float64 read as an int64."""
    from llvmlite import ir
    from numba import types

    if value != types.float64:
        return None

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(value), code


@njit(inline="always", fastmath=EXP)
def exp_f32(x):
    """exp of a float32 x <= 0 (a scalar), relative error below 2e-7 down to x = -87, where it stays (Cephes expf)."""
    x = max(x, np.float32(-87.0))
    k = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - k * np.float32(0.693359375)
    r = r + k * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    # np.int32 again: integer arithmetic widens to int64
    return p * _float_of_bits(np.int32((np.int32(k) + np.int32(127)) << np.int32(23)))


@njit(inline="always", fastmath=EXP)
def exp_f64(x):
    """exp of a float64 x <= 0 (a scalar), relative error below 4e-16 down to x = -708, where it stays (Taylor, degree 13)."""
    x = max(x, -708.0)
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = x - k * 0.693145751953125
    r = r - k * 1.42860682030941723212e-6
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return _float_of_bits(_bits_of_float(p) + (_bits_of_float(shifted) << np.int64(52)))


@njit(cache=True, fastmath=EXP)
def _exp_row_inplace(target, source, own, h):
    """``target = exp(min(source - own - h, 0))`` in float32; (n,)."""
    for j in range(len(target)):
        target[j] = exp_f32(min(source[j] - own - h[j], np.float32(0.0)))


@njit(cache=True)
def _gaussian_chunk_inplace(work, out, first, ZI, hI, Z, h, start, stop):
    """Columns start..stop of :func:`gaussian_rows_inplace`, out (m, n)."""
    T, hT, S = Z[start:stop].T, h[start:stop], as_matrix(work, min(STRIP, len(ZI)), stop - start)
    for top in range(0, len(ZI), STRIP):
        bottom = min(top + STRIP, len(ZI))
        product_inplace(S[: bottom - top], ZI[top:bottom], T)
        for i in range(top, bottom):
            _exp_row_inplace(out[first + i, start:stop], S[i - top], hI[i], hT)


@njit(cache=True, nogil=True)
def gaussian_rows_inplace(work, out, first, ZI, hI, Z, h, start, stop):
    """``out[first + i, j] = exp(ZI_i . Z_j - hI_i - h_j)`` in float32; with ``h = |z|^2 / 2`` that is ``exp(-|ZI_i - Z_j|^2 / 2)``.

    ZI (k, d), hI (k,), Z (n, d), h (n,); columns start..stop of out (m, n), unit CHUNK; work of ``chunk_work(k, n, np.float32)``.
    """
    for left in range(start, stop, CHUNK):
        _gaussian_chunk_inplace(work, out, first, ZI, hI, Z, h, left, min(left + CHUNK, stop))


@njit(cache=True, fastmath=EXP)
def _square_difference_inplace(target, column, own):
    """``target = (column - own)^2``; (n,)."""
    for j in range(len(target)):
        d = column[j] - own
        target[j] = d * d


@njit(cache=True, fastmath=EXP)
def _add_square_difference_inplace(target, column, own):
    """``target += (column - own)^2``; (n,)."""
    for j in range(len(target)):
        d = column[j] - own
        target[j] += d * d


@njit(cache=True, fastmath=EXP)
def _exp_half_inplace(target):
    """``target = exp(-target / 2)`` in float32; (n,)."""
    for j in range(len(target)):
        target[j] = exp_f32(np.float32(-0.5) * target[j])


@njit(cache=True)
def _near_chunk_inplace(out, first, ZI, ZT, start, stop):
    """Columns start..stop of :func:`gaussian_near_rows_inplace`, out (m, n)."""
    for i in range(len(ZI)):
        target = out[first + i, start:stop]
        _square_difference_inplace(target, ZT[0, start:stop], ZI[i, 0])
        for k in range(1, len(ZT)):
            _add_square_difference_inplace(target, ZT[k, start:stop], ZI[i, k])
        _exp_half_inplace(target)


@njit(cache=True, nogil=True)
def gaussian_near_rows_inplace(out, first, ZI, ZT, start, stop):
    """``out[first + i, j] = exp(-|ZI_i - Z_j|^2 / 2)`` in float32 from differences; few features, given as ``ZT`` (d, n).

    ZI (k, d); columns start..stop of out (m, n), unit CHUNK.
    """
    for left in range(start, stop, 4 * CHUNK):
        _near_chunk_inplace(out, first, ZI, ZT, left, min(left + 4 * CHUNK, stop))


@njit(cache=True, fastmath=EXP)
def _exp_row64_inplace(target, source, scale, own, h):
    """``target = exp(min(scale source - own - h, 0))`` in float64; (n,)."""
    for j in range(len(target)):
        target[j] = exp_f64(min(scale * source[j] - own - h[j], 0.0))


@njit(cache=True, fastmath=SUM)
def _sign_row_inplace(row, own, signs):
    """``row *= own signs``; (n,)."""
    for j in range(len(row)):
        row[j] *= own * signs[j]


@njit(cache=True)
def _gaussian64_chunk_inplace(work, out, A, hA, sA, B, hB, sB, scale, start, stop, symmetric):
    """Columns start..stop of :func:`gaussian_block_inplace`, out (m, n); of a symmetric block the rows from ``start`` on only."""
    T, hT, sT = B[start:stop].T, hB[start:stop], sB[start:stop]
    S = as_matrix(work, min(HALF, len(A)), stop - start)
    for top in range(start if symmetric else 0, len(A), HALF):
        bottom = min(top + HALF, len(A))
        product_inplace(S[: bottom - top], A[top:bottom], T)
        for i in range(top, bottom):
            target = out[i, start:stop]
            _exp_row64_inplace(target, S[i - top], scale, hA[i], hT)
            _sign_row_inplace(target, sA[i], sT)
        if symmetric:
            # 16 x 16 tiles: a row of the mirror image is written while its cache lines are still there
            for i0 in range(top, bottom, 16):
                for j0 in range(start, stop, 16):
                    for j in range(j0, min(j0 + 16, stop)):
                        for i in range(i0, min(i0 + 16, bottom)):
                            out[j, i] = out[i, j]


@njit(cache=True, nogil=True)
def gaussian_block_inplace(work, out, A, hA, sA, B, hB, sB, scale, symmetric, start, stop):
    """``out_ij = sA_i sB_j exp(scale A_i . B_j - hA_i - hB_j)`` in float64; ``symmetric`` where A is B: half the work.

    A (m, d), hA, sA (m,), B (n, d), hB, sB (n,); columns start..stop of out (m, n), unit HALF, and their mirror image; work of
    ``chunk_work(m, n)``.
    """
    for left in range(start, stop, HALF):
        _gaussian64_chunk_inplace(work, out, A, hA, sA, B, hB, sB, scale, left, min(left + HALF, stop), symmetric)


@njit(cache=True)
def _gaussian_sum_chunk_inplace(work, f, A, hA, B, hB, weight, scale, start, stop, symmetric):
    """What rows start..stop of A (m, d) contribute to the sums f (m,), where ``symmetric`` from columns up to their own."""
    row, rest = work[:HALF], work[HALF:]
    for left in range(0, stop if symmetric else len(B), HALF):
        right = min(left + HALF, stop if symmetric else len(B))
        S = as_matrix(rest, stop - start, right - left)
        product_inplace(S, A[start:stop], B[left:right].T)
        for i in range(start, stop):
            end = min(right, i + 1) if symmetric else right
            if end <= left:
                continue
            values = row[: end - left]
            _exp_row64_inplace(values, S[i - start, : end - left], scale, hA[i], hB[left:end])
            f[i] += dot(values, weight[left:end])
            if symmetric:
                last = i if end == i + 1 else end
                add_multiple_inplace(f[left:last], values[: last - left], weight[i])


@njit(cache=True, nogil=True)
def gaussian_sums_inplace(work, out, A, hA, B, hB, weight, scale, symmetric, start, stop):
    """``out_i += sum_j exp(scale A_i . B_j - hA_i - hB_j) weight_j`` in float64, no matrix kept; ``symmetric`` where A is B: half the work.

    A (m, d), hA (m,), B (n, d), hB, weight (n,); entries start..stop of ``out[0]`` (1, m), unit HALF. Symmetric: vectors
    start..stop of out (p, m), whose sum over p is wanted; vector k takes every p-th chunk of rows from the k-th on, about
    as long as any other; work of ``chunk_work(m, n)``.
    """
    # the chunk is called in one place: one copy of it
    first, last = (start, stop) if symmetric else (0, 1)
    for part in range(first, last):
        begin, end = (part * HALF, len(A)) if symmetric else (start, stop)
        for top in range(begin, end, len(out) * HALF):
            _gaussian_sum_chunk_inplace(
                work, out[part], A, hA, B, hB, weight, scale, top, min(top + HALF, end), symmetric
            )
