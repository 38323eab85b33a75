"""NumPy twins of the kernels of the quadratic programs, and their bounds at any point."""

from fractions import Fraction

import numpy as np
import pytest

from bregmat import Status
from bregmat._kernels import descent, exchange, free_factor, vectors
from bregmat._kernels.arrays import FreeSet, Quadratic, RunPoint
from bregmat.quadratic import nnqp
from bregmat.quadratic.certificate import Evidence
from bregmat.quadratic.program import QuadraticProgram
from cases import random_program
from formulas import least_over_supports

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}  # a few dozen products of order 1, condition below 1e3
HERE = {
    free_factor: "gather_upper_inplace join_inplace leave_inplace constrain_inplace is_needed "
    "constrained_solve_inplace",
    exchange: "run_inplace",
    descent: "sweep_inplace inspect",
}


@pytest.mark.parametrize("module", HERE)
def test_every_kernel_is_tested_here(module):
    assert {name for name in dir(module) if callable(getattr(module, name)) and name[0] != "_"} == set(
        HERE[module].split()
    )


class Case:
    """A positive definite A, two rows, and a free set of seven of twelve variables with its factor."""

    def __init__(self, rng, n=12, m=2, free=(7, 2, 9, 0, 4, 11, 5)):
        X = rng.standard_normal((2 * n, n))
        self.n, self.A, self.E = n, X.T @ X / n, rng.standard_normal((m, n))
        self.upper = np.full(n, 2.0)
        self.rho = 0.7
        weight = 1 / np.sqrt(self.A.diagonal())
        self.problem = Quadratic(self.A, self.E, self.upper, weight, self.rho)
        self.M = self.A + self.rho * self.E.T @ self.E
        self.free = np.array(free, np.int64)
        k = len(free)
        U = np.zeros((n, n))
        U[:k, :k] = np.linalg.cholesky(self.M[np.ix_(self.free, self.free)]).T
        self.state = FreeSet.of(U, self.free, (m, n))
        self.rng = rng

    def check_factor(self, free):
        k = len(free)
        assert self.state.size[0] == k
        np.testing.assert_array_equal(self.state.order[:k], free)
        np.testing.assert_array_equal(np.flatnonzero(self.state.position >= 0), np.sort(free))
        U = np.triu(self.state.U[:k, :k])
        np.testing.assert_allclose(U.T @ U, self.M[np.ix_(free, free)], **TOLERANCE)


@pytest.fixture
def case(rng):
    return Case(rng)


@pytest.mark.parametrize("n", [0, 1, 3, 31, 32, 33, 64, 100])
def test_dot(rng, n):
    a, b = rng.standard_normal((2, n))
    assert vectors.dot(a, b) == pytest.approx(a @ b, abs=1e-13)


def test_sums_and_rows(case):
    a, b = case.rng.standard_normal((2, 12))
    assert vectors.dot(a, b) == pytest.approx(a @ b, rel=1e-12)
    assert np.isnan(vectors.dot(a, np.where(b == b.max(), np.nan, b)))
    out = b.copy()
    weights = case.rng.standard_normal(7)
    vectors.add_rows_inplace(out, case.A, case.free, weights)
    np.testing.assert_allclose(out, b + weights @ case.A[case.free], **TOLERANCE)


def test_gathers(case):
    F = case.free
    M = np.zeros((7, 7))
    free_factor.gather_upper_inplace(M, F, case.problem)
    np.testing.assert_allclose(M, np.triu(case.M[np.ix_(F, F)]), **TOLERANCE)
    for dtype in (np.float32, np.float64):
        M = np.zeros((7, 3), dtype)
        vectors.gather_inplace(M, case.A, F, np.array([1, 8, 3]))
        np.testing.assert_array_equal(M, case.A[np.ix_(F, [1, 8, 3])].astype(dtype))


def test_solves_without_rows(rng):
    case = Case(rng, m=0)
    M, b, none = case.A[np.ix_(case.free, case.free)], rng.standard_normal(7), np.zeros(0)
    assert free_factor.constrain_inplace(case.state, case.problem)
    free_factor.constrained_solve_inplace(d := b.copy(), none, none, case.state, case.problem)
    np.testing.assert_allclose(M @ d, b, **TOLERANCE)


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
    assert free_factor.constrain_inplace(case.state, case.problem)
    S = np.triu(case.state.S)
    np.testing.assert_allclose(case.state.W[:, :7], np.linalg.solve(M, E.T).T, **TOLERANCE)
    np.testing.assert_allclose(S.T @ S, E @ np.linalg.solve(M, E.T), **TOLERANCE)
    rhs, residual, multiplier = case.rng.standard_normal(7), case.rng.standard_normal(2), np.zeros(2)
    d = rhs.copy()
    free_factor.constrained_solve_inplace(d, multiplier, residual, case.state, case.problem)
    np.testing.assert_allclose(M @ d + E.T @ multiplier, rhs, **TOLERANCE)
    np.testing.assert_allclose(E @ d, residual, **TOLERANCE)


def test_ranks(case):
    assert free_factor.constrain_inplace(case.state, case.problem)
    assert not any(free_factor.is_needed(case.state, p) for p in range(7))
    E = np.zeros((2, 12))
    E[0, 9] = E[1, [2, 4]] = 1.0  # variable 9, third of the free ones, alone carries row 0
    problem = case.problem._replace(E=E)
    free_factor.gather_upper_inplace(M := np.zeros((7, 7)), case.free, problem)
    case.state.U[:7, :7] = np.linalg.cholesky(M + np.triu(M, 1).T).T
    assert free_factor.constrain_inplace(case.state, problem)
    assert [p for p in range(7) if free_factor.is_needed(case.state, p)] == [2]
    E[0] = 2.0 * E[1]
    assert not free_factor.constrain_inplace(case.state, problem)


# ---------------------------------------------------------------- single exchanges
def run(case, x, b, tol, most):
    """Where a run of at most so many steps ends: the outcome, its point, its direction and the steps taken."""
    place = RunPoint(x, case.A @ x + b, np.zeros(len(case.E)), case.E @ x)
    direction, counts = np.zeros(12), np.zeros(1, np.int64)
    code = exchange.run_inplace(place, direction, counts, case.state, case.problem, tol, most)
    np.testing.assert_allclose(place.g, case.A @ x + b, atol=1e-9 * (1.0 + np.abs(x).max()))
    return code, place, direction, counts[0]


def test_a_run_begins_at_the_minimum_on_the_free_set(case):
    """With an infinite tolerance nothing is violated there, and nothing more happens."""
    case.upper[:] = 1e6
    x = np.zeros(12)
    x[case.free] = 1e3  # far from every bound
    b = case.rng.standard_normal(12) - case.A @ x
    x[case.free] += 1.0
    place = RunPoint(x, case.A @ x + b, np.zeros(2), case.E @ x + 0.1)
    code = exchange.run_inplace(place, np.zeros(12), np.zeros(1, np.int64), case.state, case.problem, np.inf, 9)
    assert code == exchange.OPTIMAL
    np.testing.assert_allclose(case.E @ x, place.target, rtol=1e-10)
    np.testing.assert_allclose(place.g, case.A @ x + b, atol=1e-9)
    np.testing.assert_allclose((place.g + place.multiplier @ case.E)[case.free], 0.0, atol=1e-9)
    case.check_factor(list(case.free))


def stationary(case, x, b):
    """Gradient at the minimum on the free set, reduced by the rows, from the conditions as one linear system."""
    F, E = case.free, case.E[:, case.free]
    corner = np.block([[case.A[np.ix_(F, F)], E.T], [E, np.zeros((2, 2))]])
    fixed = x.copy()
    fixed[F] = 0.0
    solution = np.linalg.solve(corner, np.concatenate([-(case.A @ fixed + b)[F], E @ x[F]]))
    x[F] = solution[:7]
    return case.A @ x + b + solution[7:] @ case.E


def test_the_variable_that_enters_violates_its_condition_most(case):
    case.upper[case.free] = 1e6
    x, b = np.zeros(12), case.rng.standard_normal(12)
    x[case.free], x[[1, 3]], x[6] = 1e3, 2.0, 0.5
    b -= case.A @ x
    h = stationary(case, x.copy(), b)
    violation = np.where(x <= 0, -h, np.where(x >= 2, h, np.abs(h))) * case.problem.weight
    violation[case.free] = -1.0
    j = violation.argmax()
    before = x.copy()
    code, *_, steps = run(case, x, b, 1e-9, 1)
    assert (code, steps) == (exchange.PAUSED, 1)
    outside = np.setdiff1d(np.arange(12), [*case.free, j])
    np.testing.assert_array_equal(x[outside], before[outside])
    assert x[j] != before[j] and np.sign(x[j] - before[j]) == -np.sign(h[j])
    case.check_factor([*case.free, j] if 0.0 < x[j] < 2.0 else list(case.free))


def test_the_variable_that_a_bound_stops_leaves(rng):
    """The minimum on the free set lies outside the box: the points on the way there are inside, and what stops them is no longer free."""
    case = Case(rng, m=0)
    x = np.zeros(12)
    x[case.free] = 1.0
    goal = x.copy()
    goal[case.free] += np.linspace(-1.5, 0.2, 7)
    code, *_ = run(case, x, -case.A @ goal, np.inf, 1)
    assert code == exchange.OPTIMAL
    left = case.state.order[: case.state.size[0]]
    assert case.free[0] not in left and x[case.free[0]] == 0.0
    np.testing.assert_allclose((case.A @ (x - goal))[left], 0.0, atol=1e-12)
    assert (x >= 0.0).all() and (x <= 2.0).all()
    case.check_factor(list(left))


def test_exchanges_reach_the_optimum(case):
    x, b = np.zeros(12), case.rng.standard_normal(12)
    x[case.free] = 0.3
    target = case.E @ x
    code, place, direction, steps = run(case, x, b, 1e-12, 200)
    assert code == exchange.OPTIMAL and not direction.any()
    assert 0 < steps < 60
    np.testing.assert_allclose(case.E @ x, target, **TOLERANCE)
    h = place.g + place.multiplier @ case.E
    assert (h[x <= 0] >= -1e-10).all()
    assert (h[x >= 2] <= 1e-10).all()
    np.testing.assert_allclose(h[(x > 0) & (x < 2)], 0, atol=1e-10)


@pytest.mark.parametrize(
    ("room", "A33", "A23", "code", "direction"),
    [
        (12, 0.0, 0.0, exchange.UNBOUNDED, {3: 1.0}),
        (12, 1.0, -2.0, exchange.INDEFINITE, {2: 1.0, 3: 2.0}),
        (0, 1.0, 0.0, exchange.FULL, {}),
    ],
)
def test_runs_that_end_without_a_minimum(rng, room, A33, A23, code, direction):
    """Variables 2 and 3 fall, 3 first, from an empty free set."""
    case = Case(rng, m=0, free=())
    case.upper[:] = np.inf
    case.A[:], case.problem.weight[:] = np.eye(12), 1.0
    case.A[3, 3], case.A[2, 3], case.A[3, 2] = A33, A23, A23
    b, x = np.ones(12), np.zeros(12)
    b[2], b[3] = -1.0, -5.0
    case.state = FreeSet.of(np.zeros((room, room)), case.free, (0, 12))
    found, _, along, _ = run(case, x, b, 1e-12, 50)
    assert found == code
    assert {int(i): along[i] for i in np.flatnonzero(along)} == direction


def test_too_few_free_variables_for_the_rows(case):
    case.E[1] = 3.0 * case.E[0]
    assert run(case, np.full(12, 0.5), np.ones(12), 1e-9, 1)[0] == exchange.DEFICIENT


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


def test_inspection_finds_one_bad_entry_anywhere(rng):
    """150 rows: more than two tiles, the last of them not full."""
    X = rng.standard_normal((300, 150))
    A = X.T @ X
    assert descent.inspect(A, 1e-10, 1e-9)[0] == 0
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


def test_bound_holds_for_any_point_and_multiplier(rng):
    """With A^-1 1 for a shift there is a bound wherever A is positive definite; with anything else, perhaps."""
    finite = 0
    for k in range(80):
        A, b, upper, E, e, inside = random_program(rng)
        if k % 2:
            A = A + np.eye(len(b))
        problem = QuadraticProgram.build(A, b, upper=upper, equality=(E, e) if len(E) else None)
        best = least_over_supports(A, b, upper, E, e)
        z, multiplier = rng.standard_normal(len(b)), rng.standard_normal(len(E))
        shift = np.linalg.solve(A, np.sqrt(A.diagonal())) if k % 2 else rng.standard_normal(len(b))
        bound = Evidence(problem, z, multiplier).bound([(shift, None), (np.ones(len(b)), None)])
        assert bound <= best + 1e-9 * (1 + abs(best))
        assert bound > -np.inf or not k % 2
        finite += bound > -np.inf
    assert finite >= 50


def test_bound_is_repaired_by_a_shift():
    """At the solution rounded down the reduced gradient is negative: only a shift proves anything."""
    A, b = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([-1.0, -1.0])
    problem = QuadraticProgram.build(A, b)
    x = np.full(2, 1 / 3 - 1e-9)
    assert Evidence(problem, x, np.zeros(0)).bound() == -np.inf
    bound = Evidence(problem, x, np.zeros(0)).bound([(np.ones(2), None)])
    assert -1 / 3 - 1e-8 <= bound <= -1 / 3


def test_bound_in_extended_precision(rng):
    """A low-rank kernel in a far box: what rounding may do to the gradient, times the bounds, would hide the optimum."""
    Z = rng.standard_normal((300, 2))
    y = rng.choice([-1.0, 1.0], 300)
    A = np.exp(-0.3 * ((Z[:, None] - Z) ** 2).sum(axis=2)) * y * y[:, None]
    result = nnqp(A, -np.ones(300), upper=1e3, equality=(y, 0.0))
    assert result.status is Status.OPTIMAL
    problem = QuadraticProgram.build(A, -np.ones(300), upper=1e3, equality=(y, 0.0))
    plain = Evidence(problem, result.x, result.equality_dual).bound()
    precise = Evidence(problem, result.x, result.equality_dual, precise=True).bound()
    assert plain < precise <= result.objective + 1e-12 * abs(result.objective)


def test_bound_pays_for_the_rounding_of_the_curvature():
    """x'Ax = 1 is what is left of terms of 1e16: the bound says so unless it is computed in extended precision."""
    A = np.array([[1.0, -1.0], [-1.0, 1.0]]) + 1e-3 * np.eye(2)
    problem = QuadraticProgram.build(A, -np.ones(2), upper=1e9)
    x = np.full(2, 1e8)
    exact = float(sum(Fraction(A[i, j]) for i in range(2) for j in range(2))) * 0.5e16
    plain = Evidence(problem, x, np.zeros(0)).bound()
    precise = Evidence(problem, x, np.zeros(0), precise=True).bound()
    assert plain < precise < -exact  # the box may be used for h > 0 only
    assert plain <= precise - 1.0
