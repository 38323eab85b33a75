"""Nonnegative quadratic programs at the edge of rounding: what is called proven is, and what is not proven is not called so."""

import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bregmat import ExitReason, Status, verify
from bregmat.quadratic import (
    QuadraticProgram,
    nnqp,
)
from suite.rational import exact_outcome

EXACT_SOLVERS = pytest.mark.parametrize("solver", ["auto", "active_set"])
EVERY_SOLVER = pytest.mark.parametrize("solver", ["auto", "active_set", "multiplicative"])


# ---------------------------------------------------------------- small integers, against rational arithmetic
@EXACT_SOLVERS
def test_against_rational_arithmetic(rng, solver):
    seen = dict.fromkeys((Status.OPTIMAL, Status.UNBOUNDED, Status.INFEASIBLE), 0)
    for _ in range(150):
        n = int(rng.integers(1, 5))
        V = rng.integers(-4, 5, (int(rng.integers(0, n + 1)), n))
        A, b = V.T @ V, rng.integers(-4, 5, n)
        upper = np.where(rng.random(n) < 0.2, rng.integers(0, 4, n), np.inf)
        m = int(rng.integers(0, min(n, 2) + 1))
        E, e = rng.integers(-2, 3, (m, n)), rng.integers(-2, 4, m)
        status, value = exact_outcome(A, b, upper, E, e)
        result = nnqp(A, b, upper=upper, equality=(E, e) if m else None, solver=solver)
        assert result.status is status
        seen[status] += 1
        if status is Status.OPTIMAL:
            assert abs(result.objective - value) <= 1e-8 * max(1, abs(value))
            # rounding of the bound itself: a few units of terms of order 1 to 1000
            assert result.bound_perturbation > 0 or result.dual_bound <= value + Fraction(1e-12) * max(1, abs(value))
            assert result.bound_perturbation <= 1e-12
            assert result.kkt_residual <= 1e-12
    assert min(seen.values()) >= 10


# ---------------------------------------------------------------- OPTIMAL is proven
def test_unbounded_problem_that_pivoting_takes_for_solved():
    """(1, 1, 1, 1, 1) has no curvature but for rounding, and is no way out: the rows close it."""
    v, b = np.array([3.0, -4, 2, -2, 1]), np.array([-2.0, 2, -1, 1, -3])
    E = np.array([[-2.0, 0, 1, 0, 1]])
    for solver in ("auto", "active_set"):
        result = nnqp(np.outer(v, v), b, equality=(E, [2.0]), solver=solver)
        assert result.status is Status.UNBOUNDED
        d = result.direction
        assert abs(v @ d) <= 1e-14 * (np.abs(v) @ d)
        assert np.abs(E @ d).max() <= 1e-14 * d.max()
        assert b @ d < -1


@pytest.mark.parametrize(("n", "small"), [(200, 1e-12), (400, 1e-11)])
def test_no_proof_where_rounding_rules(n, small):
    """One eigenvalue of 1e-12: float64 knows it to some digits only, and so the optimum."""
    A = np.eye(n) - np.full((n, n), (1 - small) / n)
    result = nnqp(A, -np.ones(n))
    exact = -0.5 * n / (1 + n * float(Fraction(A[0, 1]) - Fraction(1 - small) / n) + small - 1)
    assert result.status is Status.FEASIBLE or result.dual_bound <= exact * (1 - 1e-9)
    assert result.bound_perturbation <= 1e-12


def test_kernel_without_a_box(rng):
    """A radial kernel with random labels has a condition of 1e16: nothing is optimal there beyond doubt."""
    Z = rng.standard_normal((300, 2))
    y = rng.choice([-1.0, 1.0], 300)
    A = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2)) * y * y[:, None]
    for rows in (None, (y, 0.0)):
        result = nnqp(A, -np.ones(300), equality=rows)
        assert result.status is Status.FEASIBLE
        assert result.exit_reason is ExitReason.STALLED


# ---------------------------------------------------------------- no entry sets the scale that does not matter
@EVERY_SOLVER
@pytest.mark.parametrize("large", [1e8, 1e13, 1e16])
def test_a_large_positive_entry_sets_no_scale(solver, large):
    result = nnqp(np.eye(2), [large, -1.0], solver=solver)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(-0.5, rel=2e-8)  # twice the gap asked for
    np.testing.assert_allclose(result.x, [0.0, 1.0], atol=2e-4)  # the square root of the gap


@EVERY_SOLVER
def test_a_large_entry_among_others(rng, solver):
    X = rng.standard_normal((8, 5))
    b = -5 * X.T @ rng.random(8)
    b[2] = 1e6
    others = [0, 1, 3, 4]
    expected = nnqp((X.T @ X)[np.ix_(others, others)], b[others]).objective
    result = nnqp(X.T @ X, b, solver=solver)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(expected, rel=2e-8)


def test_unit_of_a_gradient():
    b = np.array([1e9, -2.0, 0.5])

    def unit(b, h, upper=None):
        return QuadraticProgram.of(np.eye(3), b, upper).unit(h)

    assert unit(b, b) == 2.0
    assert unit(b, b + [4.0, 0.0, 0.0]) == 4.0
    assert unit(-b, -b, np.array([3.0, 1.0, 1.0])) == 3.0
    assert unit(np.zeros(3), np.array([0.0, -3.0, 1.0])) == 3.0
    assert unit(np.zeros(3), np.zeros(3)) == 1.0


# ---------------------------------------------------------------- slack variables
@EXACT_SOLVERS
def test_inequalities_by_slacks(rng, solver):
    """``G x + s = h``: the slacks have no curvature, and the multipliers must be exactly nonnegative for them."""
    result = nnqp(np.diag([1.0, 1, 0]), [-1, -0.3, 0], equality=([0.3, 0.7, 1], 3), solver=solver)
    assert result.status is Status.OPTIMAL
    np.testing.assert_allclose(result.x, [1.0, 0.3, 2.49], rtol=1e-14)
    exactly = 0
    for _ in range(60):
        n, m = int(rng.integers(2, 8)), int(rng.integers(1, 5))
        X, G, h = rng.standard_normal((2 * n, n)), rng.standard_normal((m, n)), rng.random(m)
        A, b = np.zeros((n + m, n + m)), np.append(3 * rng.standard_normal(n), np.zeros(m))
        A[:n, :n] = X.T @ X
        result = nnqp(A, b, equality=(np.hstack([G, np.eye(m)]), h), solver=solver)
        assert result.status is Status.OPTIMAL
        exactly += result.bound_perturbation == 0
    assert exactly == 60


def test_bounds_that_rows_imply():
    problem = QuadraticProgram.build(
        np.zeros((4, 4)),
        np.zeros(4),
        upper=[np.inf, np.inf, 1.0, np.inf],
        equality=([[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, -3.0, 2.0]], [4.0, 1.0]),
    )
    np.testing.assert_allclose(problem.implied_upper, [4.0, 2.0, 1.0, 2.0], rtol=1e-14)
    assert (problem.implied_upper >= [4.0, 2.0, 1.0, 2.0]).all()
    pinned = nnqp([[0.0]], [-4.0], upper=4, equality=([2.0], 0))
    assert pinned.status is Status.OPTIMAL
    assert pinned.gap == 0


@EXACT_SOLVERS
def test_nothing_but_rounding_left_of_the_objective(solver):
    """F >= 0 with b = 0, and a point with A x = 0: no size of the objective to compare with."""
    A = np.outer([2.0, -1, -1], [2.0, -1, -1])
    result = nnqp(A, np.zeros(3), equality=([[-2, -2, 1], [-1, 1, 0]], [-1, 0]), solver=solver)
    assert result.status is Status.OPTIMAL
    assert abs(result.objective) <= 1e-30
    pinned = nnqp([[9.0, 6], [6, 4]], [0, 0], upper=[2.0, 0.0], equality=([[0, -2], [2, -1]], [0, 1]), solver=solver)
    assert pinned.status is Status.OPTIMAL
    assert pinned.kkt_residual <= 1e-15


@EXACT_SOLVERS
def test_zero_is_the_only_point(solver):
    """Rows that leave nothing but zero, with multipliers that zero leaves open."""
    A = np.array([[33.0, 18, 21, 7], [18, 21, 6, -5], [21, 6, 18, 7], [7, -5, 7, 10]])
    result = nnqp(A, [4, 4, 4, 3], equality=([1, 1, -2, 2], 0), solver=solver)
    assert result.status is Status.OPTIMAL
    assert result.objective == 0
    result = nnqp([[4.0, -6], [-6, 9]], [2, 4], equality=([[1, -1], [-1, 0]], [0, 0]), solver=solver)
    assert result.status is Status.OPTIMAL
    np.testing.assert_array_equal(result.x, 0.0)


# ---------------------------------------------------------------- rows
def test_total_far_from_the_start():
    for solver in ("auto", "active_set"):
        result = nnqp(np.eye(2), [-1.0, -1.0], equality=([1, 1], 10), solver=solver)
        assert result.status is Status.OPTIMAL
        np.testing.assert_allclose(result.x, 5.0, rtol=1e-12)


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9])
def test_rows_that_contradict_each_other_a_little(apart):
    E = np.ones((2, 3))
    result = nnqp(np.eye(3), -np.ones(3), equality=(E, [1, 1 + apart]))
    assert result.status is Status.INFEASIBLE
    y = result.equality_dual
    assert (y @ E <= 1e-15 * np.abs(y).max()).all()
    assert y @ [1, 1 + apart] > 0


def test_rows_that_differ_by_rounding():
    result = nnqp(np.eye(3), -np.ones(3), equality=(np.ones((2, 3)), [1, 1 + 1e-11]))
    assert result.status is Status.OPTIMAL
    assert 0 < result.max_violation <= 1e-11


def test_a_rounded_zero_violates_no_row():
    result = nnqp([[9.0, 6], [6, 4]], [0, 0], equality=([[-2, 0], [0, -1]], [0, -1]))
    assert result.status is Status.OPTIMAL
    assert result.max_violation == 0
    assert result.objective == pytest.approx(2.0, rel=1e-14)


# ---------------------------------------------------------------- UNBOUNDED is proven, and found
@EXACT_SOLVERS
def test_nearly_singular_is_not_unbounded(solver):
    a = 1 - 2.0**-52
    result = nnqp([[1, -a], [-a, 1]], [-1, -1], solver=solver)
    assert result.status is Status.FEASIBLE
    assert nnqp([[1, -1], [-1, 1]], [-1, -1], solver=solver).status is Status.UNBOUNDED


@EXACT_SOLVERS
def test_unbounded_along_a_row(solver):
    result = nnqp(np.zeros((2, 2)), [-1.0, 0], equality=([1, -1], 0), solver=solver)
    assert result.status is Status.UNBOUNDED
    assert result.exit_reason is ExitReason.CERTIFICATE
    np.testing.assert_array_equal(result.direction, [1.0, 1.0])


def test_unbounded_where_rounding_blocks_the_direction():
    """Rounding in the third entry of the direction stops every step at 1e15 times the last."""
    A = np.zeros((5, 5))
    A[1:4, 1:4] = np.outer([4, 2, 1], [4, 2, 1])
    E = np.array([[2, 2, -1, 2, -2], [1, 1, -1, 2, -1]])
    result = nnqp(A, [1, 2, 4, 0, -2], upper=[np.inf] * 3 + [3.0, np.inf], equality=(E, [-1, 2]))
    assert result.status is Status.UNBOUNDED
    d = result.direction
    np.testing.assert_allclose(d, [1, 0, 0, 0, 1], atol=1e-14)
    np.testing.assert_array_equal(A @ d, 0.0)


# ---------------------------------------------------------------- the range of the numbers
@EVERY_SOLVER
@pytest.mark.parametrize(("a", "c"), [(2.0**190, 2.0**190), (2.0**-190, 2.0**-190), (2.0**-190, 1.0), (1.0, 2.0**190)])
def test_sizes_far_from_one(rng, solver, a, c):
    """Powers of two, so that nothing rounds differently; warnings are errors here."""
    X = rng.standard_normal((9, 4))
    A, b, u = X.T @ X, rng.standard_normal(4), rng.random(4)
    plain = nnqp(A, b, upper=u, solver=solver)
    result = nnqp(a * A, c * b, upper=c / a * u, solver=solver)
    assert result.status is plain.status is Status.OPTIMAL
    # the updates stop at a gap of 1e-8, wherever their start takes them
    loose = 1e-4 if solver == "multiplicative" else 1e-12
    size = np.abs(plain.x).max()
    np.testing.assert_allclose(result.x, c / a * plain.x, rtol=loose, atol=c / a * loose * size)
    np.testing.assert_allclose(result.dual, c * plain.dual, rtol=loose, atol=loose * c)
    assert result.objective == pytest.approx(c * (c / a) * plain.objective, rel=max(loose**2, 1e-12))
    assert result.history[-1].objective == result.objective


@pytest.mark.parametrize(("a", "c"), [(1e61, 1.0), (1e-61, 1.0), (1.0, 1e61), (1.0, 1e-61)])
def test_sizes_whose_products_overflow_are_refused(a, c):
    words = "the largest diagonal entry of A" if a != 1.0 else r"the largest \|b\|"
    with pytest.raises(ValueError, match=f"{words} must be between 1e-60 and 1e\\+60 .*Scale the data"):
        nnqp(a * np.eye(2), -c * np.ones(2))


# ---------------------------------------------------------------- Ctrl-C, wherever it comes
def test_interrupt_before_the_second_solver(rng, monkeypatch):
    """What pivoting has found is kept."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["bregmat.quadratic.nnqp"], "rough_point", interrupt)
    X = rng.standard_normal((5, 12))
    with pytest.warns(RuntimeWarning, match="nnqp was interrupted"):
        result = nnqp(X.T @ X, -np.ones(12), equality=(np.ones(12), 1.0))
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert (result.x >= 0).all()
    assert result.max_violation <= 1e-12
    assert result.equality_dual.shape == (1,)


# ---------------------------------------------------------------- rounding of the conditions
@EXACT_SOLVERS
def test_conditions_where_the_terms_are_large(rng, solver):
    """Entries of one sign and a row of both: the terms of a gradient are hundreds of times b."""
    X = np.abs(rng.standard_normal((900, 450)))
    A, row = X.T @ X, rng.choice([-1.0, 1.0], 450)
    b = -0.01 * X.T @ rng.random(900)
    result = nnqp(A, b, equality=(row, 1.0), solver=solver)
    assert result.status is Status.OPTIMAL
    free = result.x > 0
    terms = A @ result.x + np.abs(b) + np.abs(result.equality_dual[0])
    # all terms of a sum are positive but b, and each is rounded twice
    assert (np.abs(result.dual[free]) <= 2 * free.sum() * 2.2e-16 * terms[free]).all()
    assert result.kkt_residual <= 1e-11


@EXACT_SOLVERS
@pytest.mark.parametrize("decades", [4, 5, 6])
def test_ill_conditioned_but_proven(rng, solver, decades):
    X = rng.standard_normal((80, 40))
    U, _, V = np.linalg.svd(X, full_matrices=False)
    X = (U * np.logspace(0, -decades, 40)) @ V
    t = X @ np.maximum(rng.standard_normal(40), 0) + 0.01 * rng.standard_normal(80)
    result = nnqp(X.T @ X, -X.T @ t, solver=solver)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-8
    assert result.kkt_residual <= 1e-12


# ---------------------------------------------------------------- quadratic programs whose solution is 0
def test_rows_of_a_program_are_met_where_its_solution_is_nothing():
    A = np.array([[13.0, 3, -9, 13], [3, 14, 11, 3], [-9, 11, 23, -9], [13, 3, -9, 13]])
    b, equality = np.array([3.0, -1, 2, -1]), (np.array([[2.0, 1, 0, 0], [-1, -2, -2, 1]]), np.zeros(2))
    for solver in ("auto", "active_set"):
        result = nnqp(A, b, equality=equality, solver=solver)
        assert (result.status, result.objective, result.max_violation) == ("OPTIMAL", 0.0, 0.0)
        assert not result.x.any() and -1e-12 <= result.dual_bound <= 0.0


def test_homogeneous_rows_are_met_by_their_own_size():
    """Small whole numbers, copies of variables, and rows with the value 0, which a point of rounding misses by all of its size."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(2, 6)), int(rng.integers(1, 3))
        G = rng.integers(-3, 4, size=(n, int(rng.integers(1, n + 1)))).astype(float)
        G[rng.integers(n)] = G[rng.integers(n)]
        A, b = G @ G.T, rng.integers(-1, 4, size=n).astype(float)
        E = rng.integers(-2, 3, size=(m, n)).astype(float)
        result = nnqp(A, b, equality=(E, np.zeros(m)))
        if result.status == "OPTIMAL":
            rounding = 1e-13 * result.x.max()  # of the largest variable
            assert (np.abs(E @ result.x) <= 1e-8 * np.abs(E) @ result.x + rounding).all(), seed
            assert verify(result, A=A, b=b, equality=(E, np.zeros(m))).holds, seed


@pytest.mark.parametrize("solver", ["auto", "active_set", "multiplicative"])
@pytest.mark.parametrize("tiny", [0.0, 1e-17, 1e-59])
def test_an_objective_of_rounding_is_not_called_optimal(solver, tiny):
    """No b is negative, so that the optimum is 0, at 0; along flat directions the updates go far from it."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        G = rng.normal(size=(5, 2)) * 10.0 ** rng.uniform(-20, 20)
        start = 10.0 ** rng.uniform(-5, 30, size=5) if seed % 2 else None
        result = nnqp(G @ G.T, tiny * rng.integers(0, 2, size=5), x0=start, solver=solver)
        assert result.status == "OPTIMAL" and result.objective == 0.0 == result.dual_bound


@pytest.mark.parametrize("solver", ["auto", "active_set", "multiplicative"])
def test_an_objective_of_rounding_at_5_5_is_not_called_optimal(solver):
    """``(x_1 - x_2)^2 / 2 + 1e-17 (x_1 + x_2)`` is 1e-16 at (5, 5), and 0 at 0."""
    result = nnqp([[1.0, -1.0], [-1.0, 1.0]], [1e-17, 1e-17], x0=[5.0, 5.0], solver=solver)
    assert (result.status, result.objective, result.dual_bound) == ("OPTIMAL", 0.0, 0.0) and not result.x.any()


# ---------------------------------------------------------------- quadratic programs whose matrix is indefinite by rounding
@pytest.mark.slow
@pytest.mark.parametrize("negative", [0.0, 1e-16, 1e-13, 1e-10])
@pytest.mark.parametrize("n", [2, 300])
@pytest.mark.parametrize("solver", ["auto", "active_set"])
def test_a_claim_says_how_indefinite_a_matrix_may_be(n, negative, solver, rng):
    """The objective falls without end along (1, 1, 0, ...) where the matrix is indefinite; the claim says from where on."""
    A = np.eye(n)
    A[0, 1] = A[1, 0] = -1.0 - negative
    b = np.r_[2.0, -1.0, rng.normal(size=n - 2)]
    result = nnqp(A, b, solver=solver)
    assert result.status == "OPTIMAL"
    delta = Fraction(result.curvature_tolerance)
    assert negative <= delta <= 2e-10 * n**0.5
    x, matrix, linear = ([Fraction(float(value)) for value in row] for row in (result.x, A[:2, :2].ravel(), b))
    rest = sum(z * (z / 2 + c) for z, c in zip(x[2:], linear[2:], strict=True))
    for far in (1, 10**3, 10**6, 10**9, 10**12):
        u, v = x[0] + far, x[1] + far
        value = (matrix[0] * u * u + 2 * matrix[1] * u * v + matrix[3] * v * v) / 2 + linear[0] * u + linear[1] * v
        reach = u * u + v * v + sum(z * z for z in x[2:])
        assert value + rest >= Fraction(result.dual_bound) - delta * reach / 2
    assert verify(result, A=A, b=b).holds
    claim = replace(result, status=Status.OPTIMAL, curvature_tolerance=0.0)
    assert verify(claim, A=A, b=b).holds <= (negative == 0.0)


def test_a_matrix_that_is_more_indefinite_is_refused():
    """From 256 rows on the test was one in single precision, which let eigenvalues of -1e-6 pass."""
    for n in (2, 300):
        A = np.eye(n)
        A[0, 1] = A[1, 0] = -1.0 - 1e-8 * n**0.5
        with pytest.raises(ValueError, match="A is not positive semidefinite"):
            nnqp(A, np.r_[1.0, -1.0, np.zeros(n - 2)])
