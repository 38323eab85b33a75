"""``A+ v`` and ``A- v`` of a symmetric matrix in one pass (Sha 2002, eq. 2), and the compiled loop beneath."""

import numpy as np
import pytest

from bregmat._kernels import tiles
from bregmat.quadratic.updates import positive_negative
from split_runs import twin


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 40, 255, 256, 257, 300, 700])
def test_a_pass_is_the_sum_of_its_parts(rng, n):
    A = rng.normal(size=(n, n))
    A, v = A + A.T, rng.exponential(size=n)
    p, q = positive_negative(A, v)
    tolerance = 1e-14  # a few roundings per sum
    size = np.abs(A) @ v
    assert (np.abs(p - twin(A, v)[0]) <= tolerance * size).all()
    assert (np.abs(q - twin(A, v)[1]) <= tolerance * size).all() and (q >= 0).all()


def test_parts_of_a_pass(rng):
    A, v = rng.normal(size=(151, 151)), rng.exponential(size=151)
    p, q, ps, qs = np.empty((4, 151))
    tiles.signed_pass_inplace(p, q, A, v, 0, 151)
    for part in ((100, 151), (0, 4), (4, 100)):
        tiles.signed_pass_inplace(ps, qs, A, v, *part)
    assert (p == ps).all() and (q == qs).all()
    for got, wanted in zip((p, q), twin(A, v)):
        assert (np.abs(got - wanted) <= 16 * np.finfo(float).eps * (np.abs(A) @ v)).all()


@pytest.mark.parametrize("n", [3, 40, 300])
def test_missing_numbers_come_through(rng, n):
    K = rng.random((n, n))
    K += K.T
    v = rng.random(n)
    v[n // 2] = np.nan
    assert np.isnan(sum(positive_negative(K, v))).all()
    A = K.copy()
    A[1, 2] = np.nan
    p, q = positive_negative(A, np.ones(n))
    assert np.isnan(p[1]) and np.isnan(q[1]) and np.isfinite(np.delete(p, 1)).all()


def test_large_matrices_are_shared_among_threads(rng):
    n = 2100  # more numbers than the limit below which there is one part
    K = rng.random((n, n))
    y, v = np.where(rng.random(n) < 0.3, 1, -1), rng.random(n)
    wide = (K + K.T) * np.outer(y, y)
    p, q = positive_negative(wide, v)
    np.testing.assert_allclose(p, np.maximum(wide, 0) @ v, rtol=1e-12)  # sums of 2100 terms
    np.testing.assert_allclose(q, np.maximum(-wide, 0) @ v, rtol=1e-12)
