"""``A+ v`` and ``A- v`` in one pass: general matrices, class blocks of a kernel, low rank, and the compiled loops beneath."""

import numpy as np
import pytest

from bregmat._kernels import tiles
from bregmat.quadratic.splits import ClassBlocks, DenseSplit, margin_split, tile_size
from split_runs import machine, twin

SIZES = [1, 2, 3, 5, 17, 40, 255, 256, 257, 300, 700]


@pytest.mark.parametrize("n", SIZES)
def test_dense_split(rng, n):
    A = rng.normal(size=(n, n))
    A, v = A + A.T, rng.exponential(size=n)
    split = DenseSplit(A)
    p, q = split.positive_negative(v)
    tolerance = 1e-14  # a few roundings per sum
    size = np.abs(A) @ v
    assert (np.abs(p - twin(A, v)[0]) <= tolerance * size).all()
    assert (np.abs(q - twin(A, v)[1]) <= tolerance * size).all() and (q >= 0).all()
    assert np.array_equal(split.diagonal, A.diagonal()) and split.n == n


@pytest.mark.parametrize("n", SIZES)
def test_class_blocks(rng, n):
    K = rng.random((n, n))
    K, v = (K + K.T) / 2, rng.exponential(size=n)
    y, ridge = np.where(rng.random(n) < 0.4, 1, -1), rng.random(n)
    wide = K * np.outer(y, y) + np.diag(ridge)
    tolerance = 1e-14

    class Rows:
        """A kernel that gives blocks only."""

        def block(self, I, J):
            return K[np.ix_(I, J)]

    for split in (ClassBlocks(K, y, ridge=ridge), ClassBlocks(Rows(), y, ridge=ridge)):
        p, q = split.positive_negative(v)
        np.testing.assert_allclose(p, twin(wide, v)[0], rtol=tolerance)
        np.testing.assert_allclose(q, twin(wide, v)[1], rtol=tolerance)
        np.testing.assert_allclose(split.diagonal, wide.diagonal(), rtol=tolerance)
        assert split.n == n


def test_class_blocks_take_half_the_memory():
    n = 2600
    split = ClassBlocks(np.ones((n, n)), np.where(np.arange(n) < 1280, 1, -1))
    across = 5 + 6  # tiles of 256: the classes have 1280 and 1320 rows
    assert split.nbytes == 8 * 256**2 * across * (across + 1) // 2
    assert split.nbytes < (0.5 * across * 256 / n + 0.12) * 8 * n**2  # half of it, and half a row of tiles


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_of_a_pass(rng, dtype):
    A = rng.normal(size=(151, 151)).astype(dtype)
    v = rng.exponential(size=151).astype(dtype)
    p, q, ps, qs = np.empty((4, 151), dtype)
    tiles.signed_pass_inplace(p, q, A, v, 0, 151)
    for part in ((100, 151), (0, 4), (4, 100)):
        tiles.signed_pass_inplace(ps, qs, A, v, *part)
    assert (p == ps).all() and (q == qs).all()
    for got, wanted in zip((p, q), twin(A.astype(float), v.astype(float))):
        assert (np.abs(got - wanted) <= 16 * np.finfo(dtype).eps * (np.abs(A) @ v)).all()
    K = rng.random((6, 32, 32)).astype(dtype)
    for k in (0, 2, 5):
        K[k] += K[k].T
    row, column = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 0, 1, 2])
    same = np.array([True, True, True, False, False, True])
    x = rng.random(96).astype(dtype)
    P, Q = np.full((2, 3, 96), np.nan, dtype)  # the kernels clear what they write
    packed = K.reshape(-1, 32), np.array([row, column, same]), x
    tiles.packed_pass_inplace(P, Q, *packed, 2, 3)
    tiles.packed_pass_inplace(P, Q, *packed, 0, 2)
    alone = np.full((2, 1, 96), np.nan, dtype)
    tiles.packed_pass_inplace(*alone, *packed, 0, 1)
    whole = np.zeros((96, 96))
    sign = np.where(np.arange(96) < 64, 1, -1)
    for k in range(6):
        i, j = 32 * row[k], 32 * column[k]
        whole[i : i + 32, j : j + 32] = K[k]
        whole[j : j + 32, i : i + 32] = K[k].T
    expected = twin(whole * np.outer(sign, sign), x.astype(float))
    for got, wanted in zip((P.sum(0), Q.sum(0), alone[0, 0], alone[1, 0]), (*expected, *expected)):
        np.testing.assert_allclose(got, wanted, rtol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("n", [3, 40, 300])
def test_missing_numbers_come_through(rng, n):
    K = rng.random((n, n))
    K += K.T
    y, v = np.where(np.arange(n) % 2 == 0, 1, -1), rng.random(n)
    v[n // 2] = np.nan
    for split in (DenseSplit(K), ClassBlocks(K, y)):
        p, q = split.positive_negative(v)
        assert np.isnan(p + q).all()
    A = K.copy()
    A[1, 2] = np.nan
    p, q = DenseSplit(A).positive_negative(np.ones(n))
    assert np.isnan(p[1]) and np.isnan(q[1]) and np.isfinite(np.delete(p, 1)).all()


def test_large_matrices_are_shared_among_threads(rng):
    n = 2100  # more numbers than the limit below which there is one part
    K = rng.random((n, n))
    K += K.T
    y, v = np.where(rng.random(n) < 0.3, 1, -1), rng.random(n)
    wide = K * np.outer(y, y)
    for split in (ClassBlocks(K, y), DenseSplit(wide)):
        p, q = split.positive_negative(v)
        np.testing.assert_allclose(p, np.maximum(wide, 0) @ v, rtol=1e-12)  # sums of 2100 terms
        np.testing.assert_allclose(q, np.maximum(-wide, 0) @ v, rtol=1e-12)
    assert tile_size(n) == 256 and tile_size(300) == 64 and tile_size(20) == 16


def test_margin_split_chooses_by_the_sign_of_the_kernel(rng):
    K, y, A = machine(rng, ridge=0.3)
    assert isinstance(margin_split(K, y, ridge=0.3), ClassBlocks)
    K = K - 0.05
    for layout in (np.ascontiguousarray, np.asfortranarray):
        general = margin_split(layout(K), y, ridge=0.3)
        assert isinstance(general, DenseSplit)
        v = rng.random(len(y))
        p, q = general.positive_negative(v)
        np.testing.assert_allclose(p - q, (K * np.outer(y, y)) @ v + 0.3 * v, atol=1e-13 * p.max())


def test_splits_check_what_they_get(rng):
    K = np.ones((3, 3))
    with pytest.raises(ValueError, match=r"A must be square; got shape \(2, 3\)"):
        DenseSplit(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"K must be of shape \(4, 4\); got shape \(3, 3\)"):
        ClassBlocks(K, np.ones(4))
    with pytest.raises(ValueError, match=r"y must hold -1 and 1 only; got \[0.0, 1.0\]"):
        ClassBlocks(K, np.array([0.0, 1.0, 1.0]))
    K[2, 1] = K[1, 2] = -0.5
    with pytest.raises(ValueError, match=r"K\[1, 2\] = -0.5\. Use DenseSplit"):
        ClassBlocks(K, np.array([1, -1, -1]))
    K[2, 1] = K[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"K\[1, 2\] = nan"):
        ClassBlocks(K, np.array([1, -1, -1]))
