"""Semidefinite programs: known optima, proofs of infeasible and unbounded programs, files, verification."""

from dataclasses import replace

import numpy as np
import pytest

import bregmat
from bregmat import Constraints, Status, semidefinite_program, verify
from bregmat.operators.binding import bind


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
        assert verify({"C": -L / 4, "constraints": rows}, result).holds


def test_theta_of_cycles():
    """``n cos(pi / n) / (1 + cos(pi / n))`` for odd n (Lovasz 1979)."""
    for n in (5, 9):
        A = np.roll(np.eye(n), 1, axis=0)
        rows, result = theta(A + A.T, tol=1e-8)
        assert result.status is Status.OPTIMAL
        np.testing.assert_allclose(-result.objective, n * np.cos(np.pi / n) / (1 + np.cos(np.pi / n)), rtol=1e-7)
        assert verify({"C": -np.ones((n, n)), "constraints": rows}, result).holds


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
    assert verify({"C": C, "constraints": rows}, result).holds


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
    assert verify(arguments, result).holds
    arguments = {
        "C": [[-1.0]],
        "constraints": Constraints.trace(1.0) + Constraints.trace(2.0),
        "slack_weight": [10.0, 1e3],
    }
    result = semidefinite_program(**arguments)
    assert result.weight_span == 100.0
    assert verify(arguments, result).holds


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
    assert verify({"C": C, "constraints": INFEASIBLE[name]}, result).holds


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
    found = verify({"C": C, "constraints": rows}, result)
    assert found.holds, found
    for ray in (None, np.zeros((4, 1)), np.full((4, 1), np.nan), np.ones((3, 1)), np.eye(4) + np.eye(4)[[1, 0, 3, 2]]):
        assert not verify({"C": C, "constraints": rows}, replace(result, ray=ray)).holds


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
    assert verify(arguments, result).holds
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
        assert not verify(arguments, replace(result, **{name: value})).holds, name
    assert not verify(arguments, replace(result, status=Status.INFEASIBLE, conflict=np.arange(10), gap=np.inf)).holds
    assert verify(None, result).verdict == "not recomputed"


def test_files(rng, tmp_path):
    C, rows = UNBOUNDED["distances"]
    for arguments in ({"C": C, "constraints": rows}, {"C": np.eye(4), "constraints": rows}):
        result = semidefinite_program(**arguments)
        bregmat.save(tmp_path / "program.bm", result)
        again = bregmat.load(tmp_path / "program.bm")
        assert (again.status, again.objective) == (result.status, result.objective)
        np.testing.assert_array_equal(again.kernel(), result.kernel())
        assert verify(arguments, again).holds


def test_gram_matrix_of_rows_of_all_kinds(rng):
    """Block by block the same as from the rows written out."""
    M = rng.normal(size=(60, 6, 6))
    rows = Constraints.trace(1.0) + Constraints.similarity([0, 1], [2, 3], 0.0, "==") + Constraints.diagonal(np.ones(6))
    for given in (M[:2], M):
        mixed = rows + Constraints.linear(given + given.transpose(0, 2, 1), np.zeros(len(given)), "<=")
        operator = bind(mixed, np.eye(6)).congruence(rng.normal(size=(6, 6)))
        features = operator.features(None)
        np.testing.assert_allclose(operator.gram(), features @ features.T, rtol=1e-10, atol=1e-8)


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
