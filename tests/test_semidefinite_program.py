"""Semidefinite programs: known optima, proofs of infeasible and unbounded programs, files, verification."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import bregmat
from bregmat import Constraints, Status, semidefinite_program, verify


def graph(rng, n, share):
    A = np.triu(rng.random((n, n)) < share, 1).astype(float)
    return A + A.T


def theta(A, **options):
    i, j = np.nonzero(np.triu(A))
    rows = Constraints.trace(1.0) + Constraints.similarity(i, j, 0.0, "==")
    return rows, semidefinite_program(-np.ones_like(A), rows, **options)


def test_max_cut_of_odd_cycles():
    """The relaxation of a cycle of n vertices is ``n (1 + cos(pi / n)) / 2`` for odd n (Goemans and Williamson 1995)."""
    for n in (5, 7, 11):
        A = np.roll(np.eye(n), 1, axis=0)
        L = 2 * np.eye(n) - A - A.T
        rows = Constraints.diagonal(np.ones(n))
        result = semidefinite_program(-L / 4, rows, tol=1e-8)
        assert result.status is Status.OPTIMAL
        np.testing.assert_allclose(-result.objective, n * (1 + np.cos(np.pi / n)) / 2, rtol=1e-7)
        np.testing.assert_allclose(np.diag(result.kernel()), 1.0, atol=1e-8)
        assert verify(result, C=-L / 4, constraints=rows).holds


def test_theta_of_cycles():
    """``n cos(pi / n) / (1 + cos(pi / n))`` for odd n (Lovasz 1979)."""
    for n in (5, 9):
        A = np.roll(np.eye(n), 1, axis=0)
        rows, result = theta(A + A.T, tol=1e-8)
        assert result.status is Status.OPTIMAL
        np.testing.assert_allclose(-result.objective, n * np.cos(np.pi / n) / (1 + np.cos(np.pi / n)), rtol=1e-7)
        assert verify(result, C=-np.ones((n, n)), constraints=rows).holds


@pytest.mark.parametrize("kind", ["cut", "theta", "mixed"])
def test_bounds_hold_for_the_program_itself(rng, kind):
    """The slack ``C + A*(dual)`` is positive semidefinite and the bound is ``-b . dual``, with dense algebra of this test."""
    n = 9
    A = graph(rng, n, 0.4)
    rows, C = Constraints.diagonal(np.ones(n)), A
    if kind == "theta":
        (rows, _), C = theta(A, max_iter=1), -np.ones_like(A)
    if kind == "mixed":
        rows += Constraints.sq_distance([0, 1], [2, 3], [0.5, 3.0], ["<=", ">="])
        rows += Constraints.comparison(4, 5, 4, 6) + Constraints.linear([np.ones((n, n))], 2.0, "<=")
    result = semidefinite_program(C, rows)
    assert result.status is Status.OPTIMAL
    S, e = C.copy(), np.eye(n)
    for i in range(n):
        for j in range(n):  # <A_k, (e_i + e_j)(e_i + e_j)'> - <A_k, (e_i - e_j)(e_i - e_j)'> is four entries of A_k
            S[i, j] += result.dual @ (rows.values((e[i] + e[j])[:, None]) - rows.values((e[i] - e[j])[:, None])) / 4
    assert np.linalg.eigvalsh(S)[0] >= -1e-10 * np.abs(S).max()
    assert (rows.sense * result.dual >= 0).all()
    np.testing.assert_allclose(result.dual_bound, -rows.bound @ result.dual, rtol=1e-9, atol=1e-9)
    assert result.dual_bound <= result.objective + 1e-9 * abs(result.objective)
    assert verify(result, C=C, constraints=rows).holds


def test_linear_program_on_the_diagonal(rng):
    """A diagonal objective and rows on the diagonal: the simplex, whose vertices are known."""
    c = rng.normal(size=6)
    result = semidefinite_program(np.diag(c), Constraints.trace(2.0))
    np.testing.assert_allclose(result.objective, 2 * c.min(), rtol=1e-5)


def test_soft_rows():
    """``minimize -x + 5 (x - 1)_+^2`` over x >= 0: x = 1.1, -1.05."""
    arguments = {"C": [[-1.0]], "constraints": Constraints.trace(1.0), "slack_weight": 10.0}
    result = semidefinite_program(**arguments)
    assert result.status is Status.OPTIMAL
    np.testing.assert_allclose([result.objective, result.dual_bound], -1.05, rtol=1e-6)
    assert verify(result, **arguments).holds
    arguments = {
        "C": [[-1.0]],
        "constraints": Constraints.trace(1.0) + Constraints.trace(2.0),
        "slack_weight": [10.0, 1e3],
    }
    result = semidefinite_program(**arguments)
    assert result.weight_span == 100.0
    assert verify(result, **arguments).holds


def test_soft_indefinite_rows_beside_a_hard_trace(rng):
    """Planted optima: a soft row exceeds its bound by ``mu unit^2 / gamma``."""
    for n, c in [(4, 1), (4, 3), (4, 5), (7, 4)] * 3:
        A, mu, excess = drawn(rng, n, c), rng.normal(size=c), rng.uniform(0.1, 1.0, c)
        X, Z = np.diag(np.r_[np.ones(n - 1), 0.0]), np.diag(np.r_[np.zeros(n - 1), 1.0])
        b = np.tensordot(A, X, 2) - np.sign(mu) * excess
        gamma = np.append(np.abs(mu) * b**2 / excess, np.inf)
        C = Z - np.tensordot(mu, A, 1) - 0.5 * np.eye(n)
        rows = Constraints.linear([*A, np.eye(n)], [*b, n - 1.0], "==")
        arguments = {"C": C, "constraints": rows, "slack_weight": gamma}
        result = semidefinite_program(**arguments)
        assert result.status is Status.OPTIMAL
        optimum = np.vdot(C, X) + 0.5 * np.abs(mu) @ excess
        np.testing.assert_allclose([result.objective, result.dual_bound], optimum, rtol=2e-6, atol=2e-6 * result.unit)
        assert verify(result, **arguments).holds


def test_a_position_from_noisy_ranges(rng):
    """``[[I, x], [x', y]]`` with squared distances to four anchors as soft rows, against the best point by a search over x and y."""
    anchors, x = 2.0 * rng.normal(size=(4, 2)), rng.normal(size=2)
    d = ((anchors - x) ** 2).sum(axis=1) * (1.0 + 0.05 * rng.normal(size=4))
    V = np.c_[anchors, -np.ones(4)]
    rows = Constraints.diagonal([1.0, 1.0], index=[0, 1]) + Constraints.similarity(0, 1, 0.0, "==")
    rows += Constraints.linear(V[:, :, None] * V[:, None], d, "==")
    gamma = np.r_[[np.inf] * 3, np.ones(4)]
    C = np.diag([0.0, 0.0, 1e-6])
    result = semidefinite_program(C, rows, slack_weight=gamma)
    assert result.status is Status.OPTIMAL

    def value(at):  # y = |x|^2 + s^2
        y = at[:2] @ at[:2] + at[2] ** 2
        apart = (anchors**2).sum(axis=1) - 2 * anchors @ at[:2] + y
        return 1e-6 * y + 0.5 * ((apart / d - 1.0) ** 2).sum()

    best = minimize(
        value, np.r_[x, 0.1], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-16, "maxiter": 9999}
    )
    np.testing.assert_allclose(result.objective, best.fun, rtol=1e-4)
    assert result.dual_bound <= best.fun
    assert verify(result, C=C, constraints=rows, slack_weight=gamma).holds


def test_scales(rng):
    """Units of C and of the bounds change nothing but the units of the result."""
    A, rows = graph(rng, 12, 0.4), Constraints.diagonal(np.ones(12))
    one = semidefinite_program(A, rows)
    for size, reach in ((1e6, 1e-5), (1e-7, 1e4)):
        other = semidefinite_program(size * A, Constraints.diagonal(np.full(12, reach)))
        assert other.status is Status.OPTIMAL
        np.testing.assert_allclose(other.objective, size * reach * one.objective, rtol=2e-6)


# -------------------------------------------------------------------- nothing to find
INFEASIBLE = {
    "two bounds": Constraints.trace(1.0) + Constraints.linear([np.eye(4)], 2.0, ">="),
    "Cauchy-Schwarz": Constraints.diagonal(np.ones(4)) + Constraints.similarity(0, 1, 2.0, ">="),
    "triangle": Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 9.0, 1.0], ["<=", ">=", "<="]),
    "negative": Constraints.linear([np.diag([1.0, 1.0, 0, 0])], -1.0, "<="),
}


@pytest.mark.parametrize("name", INFEASIBLE)
def test_infeasible(rng, name):
    C = graph(rng, 4, 0.5) + np.eye(4)
    result = semidefinite_program(C, INFEASIBLE[name])
    assert result.status is Status.INFEASIBLE
    assert len(result.conflict)
    assert verify(result, C=C, constraints=INFEASIBLE[name]).holds


UNBOUNDED = {
    "a free direction": (np.diag([1.0, 1, 1, -1]), Constraints.diagonal(np.ones(3), index=[0, 1, 2])),
    "distances": (-np.eye(4), Constraints.sq_distance([0, 1], [1, 2], 1.0, "==")),
    "similarity": (-np.eye(4), Constraints.similarity(0, 1, 1.0, "==")),
    "inequality": (
        np.diag([1.0, -1, 0, 0]),
        Constraints.diagonal([1.0], index=[0]) + Constraints.comparison(0, 2, 1, 2),
    ),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded(name):
    C, rows = UNBOUNDED[name]
    result = semidefinite_program(C, rows)
    assert result.status is Status.UNBOUNDED
    assert np.vdot(C, result.ray @ result.ray.T) < 0
    assert rows.satisfied(result.factor, 1e-8).all()
    found = verify(result, C=C, constraints=rows)
    assert found.holds, found
    for ray in (None, np.zeros((4, 1)), np.full((4, 1), np.nan), np.ones((3, 1)), np.eye(4) + np.eye(4)[[1, 0, 3, 2]]):
        assert not verify(replace(result, ray=ray), C=C, constraints=rows).holds


def drawn(rng, n, c):
    """Symmetric matrices (c, n, n)."""
    A = rng.normal(size=(c, n, n))
    return A + A.transpose(0, 2, 1)


def test_unbounded_where_the_best_ray_is_singular(rng):
    """The identity is a ray by construction; the ray of the result is checked with dense algebra of this test."""
    programs = [(np.array([[0, 0.1], [0.1, -1]]), np.diag([1.0, -1.0])[None], np.ones(1))]
    for n, c in [(3, 2), (5, 4), (8, 10)] * 5:
        A, C = drawn(rng, n, c), drawn(rng, n, 1)[0]
        A -= np.trace(A, axis1=1, axis2=2)[:, None, None] / n * np.eye(n)
        programs.append((C - (np.trace(C) + 0.5) / n * np.eye(n), A, A[:, 0, 0] + A[:, 1, 1]))
    for C, A, b in programs:
        rows = Constraints.linear(A, b, "==")
        result = semidefinite_program(C, rows)
        assert result.status is Status.UNBOUNDED
        R, X = result.ray @ result.ray.T, result.kernel()
        assert np.vdot(C, R) < -1e-3 * np.trace(R)
        np.testing.assert_allclose(np.tensordot(A, R, 2), 0.0, atol=1e-13 * np.abs(A).max() * np.trace(R))
        np.testing.assert_allclose(np.tensordot(A, X, 2), b, rtol=1e-8)
        assert np.trace(X) < 1e6
        assert verify(result, C=C, constraints=rows).holds


def test_a_ray_on_a_face():
    """A semidefinite row leaves the plane of the vectors whose entries sum to 0 in the first three; the ray is there."""
    face = np.outer([1.0, 1, 1, 0], [1, 1, 1, 0])
    A = np.array([face, np.diag([1.0, -1.0, 0, 0])])
    C = -np.outer([1.0, -1, 0, 0], [1, -1, 0, 0]) + np.diag([0, 0, 0, 1.0])
    rows = Constraints.linear(A, [4.0, 1.0], ["<=", "=="])
    result = semidefinite_program(C, rows)
    assert result.status is Status.UNBOUNDED
    np.testing.assert_allclose(result.ray[:3].sum(axis=0), 0.0, atol=1e-12 * np.abs(result.ray).max())
    assert verify(result, C=C, constraints=rows).holds


def rows_that_nearly_cancel(share):
    """``<B, X> <= 1`` and ``<share I - B, X> <= 1``, which bound the trace by ``2 / share``."""
    B = np.array([[1.0, 2.0], [2.0, -1.0]])
    return Constraints.linear(np.array([B, share * np.eye(2) - B]), 1.0, "<=")


@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9, 1e-11, 3e-12, 1e-12, 1e-13])
def test_rows_whose_sum_bounds_the_trace_by_little_allow_no_ray(share):
    result = semidefinite_program(-np.eye(2), rows_that_nearly_cancel(share))
    assert result.status is not Status.UNBOUNDED
    assert not result.dual_bound > -2.0 / share * (1 - 1e-4)
    assert verify(result).holds  # nothing is claimed where the values of the rows are rounding
    if share > 1e-7:
        assert result.status is Status.OPTIMAL


def test_rows_that_nearly_cancel_are_solved():
    """The entries of the second matrix have lost up to eight digits of the share, and single programs may fail by rounding."""
    results = {s: semidefinite_program(-np.eye(2), rows_that_nearly_cancel(s)) for s in np.logspace(-7.5, -5.0, 40)}
    optimal = {share: result for share, result in results.items() if result.status is Status.OPTIMAL}
    assert len(optimal) >= 36
    for share, result in optimal.items():
        assert result.objective == pytest.approx(-2.0 / share, rel=1e-5)


def test_unbounded_along_a_coordinate_in_which_the_objective_is_small():
    """The slack is semidefinite up to rounding of its norm, but not up to rounding of its entries."""
    C, rows = np.diag([1.0, -1e-15]), Constraints.diagonal([1.0], index=[0])
    result = semidefinite_program(C, rows)
    assert result.status is Status.UNBOUNDED
    claim = replace(semidefinite_program(np.diag([1.0, 0.0]), rows), dual_bound=1.0, objective=1.0, gap=0.0)
    assert not verify(claim, C=C, constraints=rows).holds


# -------------------------------------------------------------------- flat directions
FLAT = {
    "ones": (np.ones((3, 3)), Constraints.sq_distance(0, 1, 1.0, ">="), 0.0),
    "two rows": (np.ones((5, 5)), Constraints.sq_distance([0, 2], [1, 3], 1.0, ">="), 0.0),
    # the path of 0, 1, 2, 3, 4 with distances of ends at least 1: four steps of 1 / 4
    "Laplacian": (
        np.diag([1.0, 2, 2, 2, 1]) - np.eye(5, k=1) - np.eye(5, k=-1),
        Constraints.sq_distance(0, 4, 1.0, ">="),
        0.25,
    ),
    "nothing to gain": (np.zeros((3, 3)), Constraints.similarity(0, 1, 1.0, ">="), 0.0),
}


@pytest.mark.parametrize("name", FLAT)
def test_an_objective_that_is_constant_along_a_direction(name):
    """The iterates may go as far as they like, but the result has moderate entries, and a bound."""
    C, rows, optimum = FLAT[name]
    result = semidefinite_program(C, rows)
    assert result.status is Status.OPTIMAL
    np.testing.assert_allclose([result.objective, result.dual_bound], optimum, rtol=1e-6, atol=1e-7)
    assert result.objective >= result.dual_bound
    assert np.trace(result.kernel()) < 1e3
    assert verify(result, C=C, constraints=rows).holds


def test_planted_optima_beside_flat_directions(rng):
    """``C = Z - A*(mu)`` with ``Z`` of rank 1, ``Z X = 0``, and directions along which neither rows nor objective change."""
    for n, c in [(4, 2), (6, 3), (8, 5)] * 4:
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        flat, z = Q[:, : n // 2] @ Q[:, : n // 2].T, np.outer(Q[:, -1], Q[:, -1])
        X = Q[:, :-1] @ np.diag(rng.uniform(1, 2, n - 1)) @ Q[:, :-1].T
        A, mu = drawn(rng, n, c), rng.normal(size=c)
        for other in (flat, z - np.vdot(z, flat) * flat):  # X + t z is definite and feasible for every t
            A -= (np.tensordot(A, other, 2) / np.vdot(other, other))[:, None, None] * other
        C, rows = z - np.tensordot(mu, A, 1), Constraints.linear(A, np.tensordot(A, X, 2), "==")
        result = semidefinite_program((C + C.T) / 2, rows)
        assert result.status is Status.OPTIMAL
        optimum = np.vdot(C, X)
        assert abs(result.objective - optimum) <= 2e-6 * max(result.unit, abs(optimum))
        assert result.dual_bound <= optimum + 1e-9 * max(result.unit, abs(optimum))


def test_the_objective_of_an_unproven_point_is_no_cancellation(rng):
    """The value -2 sqrt(t) has no lower bound and no ray. Whatever point is returned, its objective is that of its entries."""
    C, rows = np.array([[0.0, -1.0], [-1.0, 0.0]]), Constraints.diagonal([1.0], index=[0])
    result = semidefinite_program(C, rows)
    assert result.status is Status.FEASIBLE
    F = result.factor.astype(np.longdouble)
    np.testing.assert_allclose(float((C * (F @ F.T)).sum()), result.objective, rtol=1e-6)
    wrong = replace(result, iterate=replace_factor(result, 1e12))
    assert not verify(wrong, C=C, constraints=rows).holds


def replace_factor(result, by):
    """The point with its factor multiplied."""
    return type(result.iterate)(by * result.iterate.F, 0.0)


def test_a_direction_of_little_growth_is_no_proof():
    """``tr X <= 1`` in units in which one direction nearly does not count."""
    rows = Constraints.linear([np.diag([1.0, 1e-12])], 1.0, "<=")
    result = semidefinite_program(-np.eye(2), rows)
    assert result.status is not Status.UNBOUNDED
    assert result.dual_bound <= -1e12 * (1 - 1e-3) or result.status is Status.UNKNOWN


def test_an_optimum_that_is_not_attained():
    """``x_11`` over ``x_12 = 1`` comes near 0 and never reaches it: the bound cannot be proven, and nothing is claimed."""
    result = semidefinite_program(np.diag([1.0, 0.0]), Constraints.similarity(0, 1, 1.0, "=="))
    assert result.status in (Status.FEASIBLE, Status.UNKNOWN)


# -------------------------------------------------------------------- results
def test_tampering(rng):
    A, rows = graph(rng, 10, 0.5), Constraints.diagonal(np.ones(10))
    arguments, result = {"C": A, "constraints": rows}, semidefinite_program(A, rows)
    assert verify(result, **arguments).holds
    for name, value in {
        "objective": result.objective - 1.0,
        "dual_bound": result.dual_bound + 1.0,
        "dual": 0.9 * result.dual,
        "values": 1.1 * result.values,
        "violation": result.violation + 0.1,
        "unit": 2.0 * result.unit,
        "gap": -1.0,
        "status": Status.UNBOUNDED,
        "ray": np.eye(10),
        "coordinates": replace(result.coordinates, scale=2.0),
    }.items():
        assert not verify(replace(result, **{name: value}), **arguments).holds, name
    assert not verify(replace(result, status=Status.INFEASIBLE, conflict=np.arange(10), gap=np.inf), **arguments).holds
    assert verify(replace(result, call=None)).verdict == "not recomputed"


def test_files(rng, tmp_path):
    C, rows = UNBOUNDED["distances"]
    for arguments in ({"C": C, "constraints": rows}, {"C": np.eye(4), "constraints": rows}):
        result = semidefinite_program(**arguments)
        bregmat.save(tmp_path / "program.bm", result)
        again = bregmat.load(tmp_path / "program.bm")
        assert (again.status, again.objective) == (result.status, result.objective)
        np.testing.assert_array_equal(again.kernel(), result.kernel())
        assert verify(again, **arguments).holds


def test_bad_arguments():
    rows = Constraints.trace(1.0)
    with pytest.raises(ValueError, match="C must be"):
        semidefinite_program([[0.0, 1.0], [0.0, 0.0]], rows)
    with pytest.raises(TypeError, match="constraints must be Constraints"):
        semidefinite_program(np.eye(2), [1.0])
    with pytest.raises(ValueError, match="constraints name samples up to 5"):
        semidefinite_program(np.eye(2), Constraints.sq_distance(0, 5, 1.0, "<="))
    with pytest.raises(ValueError, match="slack_weight"):
        semidefinite_program(np.eye(2), rows, slack_weight=-1.0)


def test_limits(rng):
    A, rows = graph(rng, 10, 0.5), Constraints.diagonal(np.ones(10))
    assert semidefinite_program(A, rows, max_iter=2).status is not Status.OPTIMAL
    stopped = semidefinite_program(A, rows, callback=lambda record: record.iteration == 3)
    assert stopped.exit_reason is bregmat.ExitReason.INTERRUPTED
