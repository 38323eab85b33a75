"""Conjugate gradients, line search and block pivoting, which every room shares, against direct methods."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import lsq_linear

from bregmat.base.linalg import armijo, cholesky, conjugate_gradients
from bregmat.base.pivoting import Exchanges, pivot_in_box


def positive_definite(rng, n, spread=10.0):
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (Q * np.geomspace(1.0, spread, n)) @ Q.T


@pytest.mark.parametrize("is_euclidean", [False, True])
def test_conjugate_gradients(is_euclidean, rng):
    A, b = positive_definite(rng, 30, 1e3), rng.normal(size=30)
    d = A.diagonal()
    end = conjugate_gradients(
        lambda v: A @ v, b, goal=1e-10, most=200, precondition=lambda r: r / d, is_euclidean=is_euclidean
    )
    r = b - A @ end.x
    assert_allclose(end.x, np.linalg.solve(A, b), rtol=1e-8)
    assert end.norm <= 1e-10 and end.direction is None and 0 < end.steps < 100
    assert_allclose(r, end.residual, atol=1e-12)
    assert_allclose(end.norm, np.linalg.norm(r if is_euclidean else r / np.sqrt(d)), atol=1e-12)


def test_cholesky_in_the_place_of_its_matrix(rng):
    A = positive_definite(rng, 9)
    C, ok = cholesky(A)
    assert ok and not np.triu(C, 1).any()
    used = A.copy()
    D, ok = cholesky(used, is_used_up=True)
    assert ok and np.shares_memory(D, used)
    assert_allclose(np.tril(D), C, rtol=1e-12)
    for k, bad in ((0, np.nan), (4, np.inf), (4, -1.0)):
        broken = A.copy()
        broken[8, k] = broken[k, 8] = bad
        broken[k, k] = bad
        assert not cholesky(broken)[1] and not cholesky(broken, is_used_up=True)[1]


def test_conjugate_gradients_over_matrices_change_no_argument(rng):
    A, B = positive_definite(rng, 8), rng.normal(size=(8, 3))
    kept = B.copy()
    end = conjugate_gradients(lambda V: A @ V, B, goal=1e-12, most=100)
    assert_allclose(A @ end.x, B, atol=1e-11)
    assert (kept == B).all()
    assert conjugate_gradients(lambda V: A @ V, B, goal=0.0, most=3).steps == 3
    assert conjugate_gradients(lambda V: A @ V, 0 * B, goal=0.0, most=3).steps == 0


def test_conjugate_gradients_stop_where_there_is_no_curvature_or_the_caller_says_so(rng):
    A, b = np.diag([2.0, 1.0, -1.0]), np.ones(3)
    end = conjugate_gradients(lambda v: A @ v, b, goal=1e-12, most=100)
    assert end.direction is not None and not end.curvature > 0
    assert_allclose(end.direction @ A @ end.direction, end.curvature, rtol=1e-12)
    A = positive_definite(rng, 20)
    b = rng.normal(size=20)
    far = conjugate_gradients(lambda v: A @ v, b, goal=1e-12, most=100)
    radius = 0.5 * np.linalg.norm(far.x)
    end = conjugate_gradients(
        lambda v: A @ v,
        b,
        goal=1e-12,
        most=100,
        blocked=lambda steps, x, d, curvature, rho: bool(np.linalg.norm(x + rho / curvature * d) > radius),
    )
    assert np.linalg.norm(end.x) <= radius < np.linalg.norm(end.x + end.rho / end.curvature * end.direction)


def test_armijo():
    def cost(alpha):
        return ("point", (alpha - 0.1) ** 2)

    for options in ({}, {"is_parabolic": True}):
        point, alpha = armijo(cost, 0.01, -0.2, rounding=0.0, **options)
        assert point == "point" and 0 < alpha < 0.2
    assert_allclose(alpha, 0.1)  # the parabola's own minimiser
    assert armijo(lambda alpha: None if alpha > 0.1 else cost(alpha), 0.01, -0.2, rounding=0.0, outside=0.1)[1] == 0.1
    assert armijo(lambda alpha: (0, np.nan), 0.01, -0.2, rounding=0.0) is None
    assert armijo(lambda alpha: (0, 1.0), 1.0, -1.0, rounding=0.0, most=5) is None
    # where nothing falls, rounding decides in the end
    assert armijo(lambda alpha: (0, 0.0), 0.0, -1.0, rounding=1e-7)[1] == 2.0**-10


def test_exchanges_take_all_while_that_helps_then_single_ones():
    exchanges = Exchanges(patience=1, singles=1)
    many = np.arange(5)
    assert exchanges.choose(many).tolist() == [0, 1, 2, 3, 4]
    assert exchanges.choose(many).tolist() == [0, 1, 2, 3, 4]
    assert exchanges.choose(many).tolist() == [4]
    assert exchanges.choose(many) is None
    assert exchanges.choose(many[:3]).tolist() == [0, 1, 2]
    exchanges.restart()
    assert exchanges.choose(many).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [1, 6, 40])
def test_pivot_in_box(n, rng):
    A = rng.normal(size=(n + 10, n))
    H, q = A.T @ A, rng.normal(size=n) * 5
    lower, upper = -rng.uniform(0, 0.2, n), rng.uniform(0, 0.2, n)
    lower[::3], upper[1::4] = -np.inf, np.inf
    seen = []
    d = pivot_in_box(
        lambda free, b: np.linalg.solve(H[np.ix_(free, free)], b),
        lambda v: H @ v,
        q,
        lower,
        upper,
        np.zeros(n, int),
        Exchanges(patience=3),
        watch=lambda d, Hd: seen.append(d.copy()),
    )
    other = lsq_linear(A, -np.linalg.lstsq(A.T, q, rcond=None)[0], (lower, upper), method="bvls", tol=1e-14).x
    assert_allclose(d, other, atol=1e-9)
    assert len(seen) >= 1 and (seen[-1] == d).all()
    nothing = pivot_in_box(lambda free, b: None, lambda v: H @ v, q, lower, upper, np.zeros(n, int), Exchanges(3))
    assert nothing is None
