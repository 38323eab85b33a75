"""NumPy twins of the kernels of the quadratic programs."""

import numpy as np
import pytest
from numba.extending import is_jitted

from bregmat._kernels.old import descent, exchange, free_factor, vectors
from bregmat._kernels.old.free_factor import FreeSet, Quadratic

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}  # a few dozen products of order 1, condition below 1e3
HERE = {
    free_factor: "gather_upper_inplace entry_column_inplace forward_inplace "
    "backward_inplace solve_inplace squared_length join_inplace leave_inplace constrain_inplace small_cholesky_inplace "
    "is_needed small_solve_inplace constrained_solve_inplace clipped_sum onto_row",
    exchange: "reduced_gradient worst_outside first_blocked move_inplace centre_inplace exchange_inplace",
    descent: "sweep_inplace greedy_inplace row_products_inplace gather_triangle_inplace inspect",
}


@pytest.mark.parametrize("module", HERE)
def test_every_kernel_is_tested_here(module):
    own = {name for name, value in vars(module).items() if is_jitted(value) and value.__module__ == module.__name__}
    assert own == set(HERE[module].split())


class Case:
    """A positive definite A, two rows, and a free set of seven of twelve variables with its factor."""

    def __init__(self, rng, n=12, m=2, free=(7, 2, 9, 0, 4, 11, 5)):
        X = rng.standard_normal((2 * n, n))
        self.n, self.A, self.E = n, X.T @ X / n, rng.standard_normal((m, n))
        self.upper = np.full(n, 2.0)
        self.rho = 0.7
        weight = 1 / np.sqrt(self.A.diagonal())
        self.problem = Quadratic(self.A, self.upper, self.E, weight, self.rho)
        self.M = self.A + self.rho * self.E.T @ self.E
        self.free = np.array(free)
        k = len(free)
        U, order = np.zeros((n, n)), np.zeros(n, np.int64)
        U[:k, :k] = np.linalg.cholesky(self.M[np.ix_(free, free)]).T
        order[:k] = free
        position = np.full(n, -1, np.int64)
        position[self.free] = np.arange(k)
        self.state = FreeSet(U, order, position, np.array([k], np.int64), np.empty(n))
        self.rng = rng

    def check_factor(self, free):
        k = len(free)
        assert self.state.size[0] == k
        np.testing.assert_array_equal(self.state.order[:k], free)
        np.testing.assert_array_equal(np.flatnonzero(self.state.position >= 0), np.sort(free))
        U = np.triu(self.state.U[:k, :k])
        np.testing.assert_allclose(U.T @ U, self.M[np.ix_(free, free)], **TOLERANCE)

    def constrained(self):
        k, m = len(self.free), len(self.E)
        W, S = np.full((m, k), 7.0), np.full((m, m), 7.0)
        assert free_factor.constrain_inplace(W, S, self.state, self.problem)
        return W, S


@pytest.fixture
def case(rng):
    return Case(rng)


def test_sums_and_rows(case):
    a, b = case.rng.standard_normal((2, 12))
    assert vectors.dot(a, b) == pytest.approx(a @ b, rel=1e-12)
    assert np.isnan(vectors.dot(a, np.where(b == b.max(), np.nan, b)))
    out = b.copy()
    filled = np.full(9, np.nan)
    vectors.fill_inplace(filled[2:5], 1.5)
    assert np.isnan(filled[[1, 5]]).all() and (filled[2:5] == 1.5).all()
    vectors.add_multiple_inplace(out, a, 0.5)
    np.testing.assert_allclose(out, b + 0.5 * a, **TOLERANCE)
    weights = case.rng.standard_normal(7)
    out = b.copy()
    vectors.add_rows_inplace(out, case.A, case.free, weights)
    np.testing.assert_allclose(out, b + weights @ case.A[case.free], **TOLERANCE)
    out = np.full(12, 7.0)
    descent.row_products_inplace(out, case.A, case.free, a)
    expected = np.full(12, 7.0)
    expected[case.free] = case.A[case.free] @ a
    np.testing.assert_allclose(out, expected, **TOLERANCE)


def test_gathers(case):
    F = case.free
    M = np.zeros((7, 7))
    free_factor.gather_upper_inplace(M, case.A, case.E, case.rho, F)
    np.testing.assert_allclose(M, np.triu(case.M[np.ix_(F, F)]), **TOLERANCE)
    for dtype in (np.float32, np.float64):
        M = np.zeros((7, 7), dtype)
        descent.gather_triangle_inplace(M, case.A, F)
        np.testing.assert_array_equal(M, np.triu(case.A[np.ix_(F, F)]).astype(dtype))
        M = np.zeros((7, 3), dtype)
        vectors.gather_inplace(M, case.A, F, np.array([1, 8, 3]))
        np.testing.assert_array_equal(M, case.A[np.ix_(F, [1, 8, 3])].astype(dtype))
    column = np.full(7, 7.0)
    diagonal = free_factor.entry_column_inplace(column, case.problem, case.state.order, 7, 3)
    assert diagonal == pytest.approx(case.M[3, 3])
    np.testing.assert_allclose(column, case.M[F, 3], **TOLERANCE)


def test_triangular_solves(case):
    M = case.M[np.ix_(case.free, case.free)]
    U, b = case.state.U, case.rng.standard_normal(7)
    forward, backward, whole = b.copy(), b.copy(), b.copy()
    free_factor.forward_inplace(forward, U, 7)
    free_factor.backward_inplace(backward, U, 7)
    free_factor.solve_inplace(whole, U, 7)
    np.testing.assert_allclose(np.triu(U[:7, :7]).T @ forward, b, **TOLERANCE)
    np.testing.assert_allclose(np.triu(U[:7, :7]) @ backward, b, **TOLERANCE)
    np.testing.assert_allclose(M @ whole, b, **TOLERANCE)
    assert free_factor.squared_length(U, 7, b) == pytest.approx(b @ M @ b)


def test_joining_and_leaving(case):
    free = list(case.free)
    assert free_factor.join_inplace(case.state, case.problem, 3, 1e-12)
    free.append(3)
    case.check_factor(free)
    for p in (0, 6, 3, 2):  # first, last, inside
        free_factor.leave_inplace(case.state, p)
        del free[p]
        case.check_factor(free)


def test_dependent_variables_do_not_join(case):
    case.A[:, 3], case.E[:, 3] = case.A[:, 2], case.E[:, 2]
    case.A[3, :] = case.A[2, :]
    case.A[3, 3] = case.A[2, 2]
    assert not free_factor.join_inplace(case.state, case.problem, 3, 1e-12)
    case.check_factor(list(case.free))


def test_constrained_solves(case):
    F, E = case.free, case.E[:, case.free]
    M = case.M[np.ix_(F, F)]
    W, S = case.constrained()
    np.testing.assert_allclose(W, np.linalg.solve(M, E.T).T, **TOLERANCE)
    np.testing.assert_allclose(np.tril(S) @ np.tril(S).T, E @ np.linalg.solve(M, E.T), **TOLERANCE)
    b = case.rng.standard_normal(2)
    small = b.copy()
    free_factor.small_solve_inplace(small, S)
    np.testing.assert_allclose(np.tril(S) @ np.tril(S).T @ small, b, **TOLERANCE)
    rhs, residual, multiplier = case.rng.standard_normal(7), case.rng.standard_normal(2), np.zeros(2)
    d = rhs.copy()
    free_factor.constrained_solve_inplace(d, multiplier, W, S, case.state, case.problem, residual)
    np.testing.assert_allclose(M @ d + E.T @ multiplier, rhs, **TOLERANCE)
    np.testing.assert_allclose(E @ d, residual, **TOLERANCE)


def test_ranks(case):
    (W, S), rest = case.constrained(), np.empty((2, 2))
    assert not any(free_factor.is_needed(rest, W, S, case.state, p) for p in range(7))
    E = np.zeros((2, 12))
    E[0, 9] = E[1, [2, 4]] = 1.0  # variable 9, third of the free ones, alone carries row 0
    alone = Case(case.rng)
    alone.problem = alone.problem._replace(E=E)
    free_factor.gather_upper_inplace(M := np.zeros((7, 7)), alone.A, E, alone.rho, alone.free)
    alone.state.U[:7, :7] = np.linalg.cholesky(M + np.triu(M, 1).T).T
    W, S = np.empty((2, 7)), np.empty((2, 2))
    assert free_factor.constrain_inplace(W, S, alone.state, alone.problem)
    assert [p for p in range(7) if free_factor.is_needed(rest, W, S, alone.state, p)] == [2]
    assert free_factor.small_cholesky_inplace(np.array([[4.0, 0.0], [2.0, 5.0]]))
    assert not free_factor.small_cholesky_inplace(np.array([[4.0, 0.0], [2.0, 1.0]]))


def test_projection_onto_a_row(rng):
    z, row, upper = rng.standard_normal(9), rng.choice([-2.0, 0.5, 1.0], 9), np.full(9, 0.8)
    total = float(row @ np.clip(rng.standard_normal(9), 0, 0.8))
    x = free_factor.onto_row(z, row, total, upper)
    assert row @ x == pytest.approx(total, abs=1e-14)
    inside = (x > 0) & (x < 0.8)
    mu = ((z - x) / row)[inside]
    np.testing.assert_allclose(mu, mu[0], atol=1e-12)
    np.testing.assert_allclose(x, np.clip(z - mu[0] * row, 0, 0.8), atol=1e-12)


@pytest.mark.parametrize("total", [100.0, -30.0, 1e-9])
def test_projection_onto_a_row_far_away(rng, total):
    """A total that the entries of z say nothing about, with and without bounds."""
    row = rng.choice([-2.0, 0.5, 1.0], 9)
    row[:2] = [-2.0, 1.0]
    z, upper = rng.standard_normal(9), np.full(9, np.inf)
    upper[2:5] = 0.8
    x = free_factor.onto_row(z, row, total, upper)
    assert row @ x == pytest.approx(total, rel=1e-13, abs=1e-14)
    inside = (x > 0) & (x < upper)
    mu = ((z - x) / row)[inside]
    np.testing.assert_allclose(mu, mu[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(x, np.clip(z - mu[0] * row, 0, upper), rtol=1e-12, atol=1e-12)
    assert free_factor.clipped_sum(z, row, mu[0], upper) == pytest.approx(total, abs=1e-10)


def test_projection_onto_a_row_that_the_box_does_not_reach():
    np.testing.assert_array_equal(free_factor.onto_row(np.ones(3), np.ones(3), 9.0, np.full(3, 2.0)), np.full(3, 2.0))
    np.testing.assert_array_equal(free_factor.onto_row(np.ones(3), np.ones(3), -1.0, np.full(3, 2.0)), np.zeros(3))


def test_conditions_outside_the_free_set(case):
    x, g, multiplier = np.zeros(12), case.rng.standard_normal(12), case.rng.standard_normal(2)
    x[[1, 3]], x[6] = 2.0, 0.5
    h = g + multiplier @ case.E
    assert exchange.reduced_gradient(g, case.E, multiplier, 5) == pytest.approx(h[5])
    j, at = exchange.worst_outside(x, g, multiplier, case.state, case.problem)
    violation = np.where(x <= 0, -h, np.where(x >= 2, h, np.abs(h))) * case.problem.weight
    violation[case.free] = -1.0
    assert j == violation.argmax()
    assert at == pytest.approx(h[j])


def test_ratio_test(case):
    x, d = np.full(12, 0.5), np.linspace(-1.0, 1.0, 7)
    t, p = exchange.first_blocked(x, d, case.state, case.upper, 1.0)
    assert (t, p) == (0.5, 0)
    assert exchange.first_blocked(x, d, case.state, case.upper, 0.3) == (0.3, -1)
    exchange.move_inplace(x, d, 0.5, case.state, case.upper)
    np.testing.assert_allclose(x[case.free], np.clip(0.5 + 0.5 * d, 0, 2), **TOLERANCE)
    assert (np.delete(x, case.free) == 0.5).all()


def test_centre_is_the_minimum_on_the_free_set(case):
    case.upper[:] = 1e6
    x = np.zeros(12)
    x[case.free] = 1e3  # far from every bound
    b = case.rng.standard_normal(12)
    g = case.A @ x + b
    target = case.E @ x + 0.1
    multiplier, work = np.zeros(2), exchange.exchange_work(2, 12, 12)
    x[case.free] += 1.0
    g = case.A @ x + b
    b -= g  # the minimum without rows is here
    g = case.A @ x + b
    assert exchange.centre_inplace(exchange.RunPoint(x, g, multiplier, target), work, case.state, case.problem)
    np.testing.assert_allclose(case.E @ x, target, rtol=1e-10)
    np.testing.assert_allclose(g, case.A @ x + b, atol=1e-9)
    np.testing.assert_allclose((g + multiplier @ case.E)[case.free], 0.0, atol=1e-9)


def test_exchanges_reach_the_optimum(case):
    x, b = np.zeros(12), case.rng.standard_normal(12)
    x[case.free] = 0.3
    g, target = case.A @ x + b, case.E @ x
    multiplier, direction, counts = np.zeros(2), np.zeros(12), np.zeros(1, np.int64)
    place, work = exchange.RunPoint(x, g, multiplier, target), exchange.exchange_work(2, 12, 12)
    code = exchange.exchange_inplace(place, direction, counts, work, case.state, case.problem, 1e-12, 200)
    assert code == exchange.OPTIMAL
    assert 0 < counts[0] < 60
    np.testing.assert_allclose(case.E @ x, target, **TOLERANCE)
    np.testing.assert_allclose(g, case.A @ x + b, **TOLERANCE)
    h = g + multiplier @ case.E
    assert (h[x <= 0] >= -1e-10).all()
    assert (h[x >= 2] <= 1e-10).all()
    np.testing.assert_allclose(h[(x > 0) & (x < 2)], 0, atol=1e-10)


def sweep(x, g, A, upper, relaxation):
    gain, changed = 0.0, 0
    for i in range(len(x)):
        new = float(np.clip(x[i] - relaxation * g[i] / A[i, i], 0, upper[i]))
        move = new - x[i]
        gain -= move * (g[i] + 0.5 * move * A[i, i])
        changed += ((new == 0.0) != (x[i] == 0.0)) or ((new == upper[i]) != (x[i] == upper[i]))
        x[i] = new
        g += move * A[i]
    return gain, changed


def test_sweeps(case):
    b, upper = case.rng.standard_normal(12), np.full(12, 0.2)
    x, y = np.zeros(12), np.zeros(12)
    g, h = b.copy(), b.copy()
    for _ in range(4):
        before = 0.5 * x @ case.A @ x + b @ x
        gain, changed = descent.sweep_inplace(x, g, case.A, upper, 1.4)
        expected = sweep(y, h, case.A, upper, 1.4)
        assert gain == pytest.approx(expected[0], rel=1e-9)
        assert before - gain == pytest.approx(0.5 * x @ case.A @ x + b @ x, rel=1e-9)
        np.testing.assert_allclose(x, y, **TOLERANCE)
        np.testing.assert_allclose(g, case.A @ x + b, **TOLERANCE)
        assert changed == expected[1]


def test_greedy_descent_takes_the_largest_gain(case):
    b, upper = case.rng.standard_normal(12), np.full(12, 0.2)
    x, g = np.zeros(12), b.copy()
    assert descent.greedy_inplace(x, g, case.A, upper, 0.0, 1) == 1
    goal = np.clip(-b / case.A.diagonal(), 0, 0.2)
    gain = -goal * (b + 0.5 * goal * case.A.diagonal())
    expected = np.zeros(12)
    expected[gain.argmax()] = goal[gain.argmax()]
    np.testing.assert_allclose(x, expected, **TOLERANCE)
    assert descent.greedy_inplace(x, g, case.A, upper, 1e-9, 10_000) < 10_000
    np.testing.assert_allclose(g, case.A @ x + b, **TOLERANCE)
    violation = np.where(x <= 0, -g, np.where(x >= 0.2, g, np.abs(g)))
    assert violation.max() <= 1e-9


def test_inspection_finds_one_bad_entry_anywhere(rng):
    """150 rows: more than two tiles, the last of them not full."""
    X = rng.standard_normal((300, 150))
    A = X.T @ X
    assert descent.inspect(A, 1e-10, 1e-9)[0] == descent.FINE
    for i, j in ((149, 0), (70, 69), (149, 148), (63, 62), (128, 64)):
        for change, code in ((1e-3, descent.NOT_SYMMETRIC), (np.nan, descent.NOT_FINITE), (np.inf, descent.NOT_FINITE)):
            for place in ((i, j), (j, i)):
                B = A.copy()
                B[place] += change
                assert descent.inspect(B, 1e-10, 1e-9) == (code, i, j)
        B = A.copy()
        B[i, j] = B[j, i] = 1.1 * np.sqrt(A[i, i] * A[j, j])
        assert descent.inspect(B, 1e-10, 1e-9) == (descent.NOT_DEFINITE, i, j)
    A[90, 90] = -1.0
    assert descent.inspect(A, 1e-10, 1e-9) == (descent.NOT_DEFINITE, 90, 90)
