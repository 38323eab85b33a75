"""The nearest distribution: Kulis 2009, Appendix B; SciPy as an oracle; certificates, proofs, bad input, interruption."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog, minimize
from scipy.special import xlogy

from bregmat import CyclicProjection, DefiniteBoost, nearest_distribution
from bregmat.io import load, save

nan, inf = np.nan, np.inf


def divergence(x, x0):
    return float((xlogy(x, x) - xlogy(x, x0) - x + x0).sum())


def feasible(rng, n, c, *, total=1.0, senses=("<=", ">=", "=="), slack=0.03):
    """A prior and rows that a random vector meets."""
    A, z = rng.normal(size=(c, n)), rng.random(n)
    z *= (total or 2.0) / z.sum()
    sense = rng.permutation(np.resize(senses, c))
    shift = slack * rng.random(c) * np.select([sense == "<=", sense == ">="], [1, -1], 0)
    return rng.random(n), A, A @ z + shift, sense


def assert_certified(result, x0, A, b, sense, total=1.0, tol=1e-9):
    """Everything a result claims, computed again from the definitions."""
    x, mu = result.x, result.dual
    p = A @ x
    sign = np.select([sense == "<=", sense == ">="], [1, -1], 0)
    unit = np.where(b == 0, np.abs(A) @ x0 * (1.0 if total is None else total / x0.sum()), np.abs(b))
    miss = np.where(sign == 0, np.abs(p - b), np.maximum(sign * (p - b), 0)) / unit
    assert (result.status, result.exit_reason) == ("OPTIMAL", "TOLERANCE")
    assert miss.max() <= 2e-9
    assert_allclose(result.violation, miss, atol=1e-12)  # rounding of A x
    assert_allclose(result.values, p, rtol=1e-12, atol=1e-12)
    assert result.max_violation == result.violation.max() <= 1e-9
    assert (sign * mu >= 0).all()
    assert result.objective == pytest.approx(divergence(x, x0), rel=1e-9, abs=1e-11)
    v = A.T @ mu
    if total is None:
        bound = x0.sum() - x0 @ np.exp(-v) - mu @ b
    else:
        assert x.sum() == pytest.approx(total, rel=1e-13)
        bound = x0.sum() - total - total * np.log(x0 @ np.exp(-v) / total) - mu @ b
    assert result.dual_bound == pytest.approx(bound, rel=1e-10, abs=1e-11)
    assert abs(result.gap) <= tol


# ---------------------------------------------------------------- Kulis 2009, Appendix B
ROWS_24 = np.array([[0.0912, 0.9385, -0.4377], [0.6020, 0.6020, -0.4377]])
BOUND_24 = np.array([0.0238, 0.2554])
PRIOR_24 = np.array([0.1, 0.1, 0.8])


@pytest.mark.parametrize("solver", ["auto", "cyclic_projection"])
def test_kulis_24(solver):
    """From (.1, .1, .8) to the uniform distribution, up to the four digits of the printed constants."""
    result = nearest_distribution(PRIOR_24, ROWS_24, BOUND_24, ">=", solver=solver)
    assert_allclose(result.x, 1 / 3, atol=1e-3)
    assert_certified(result, PRIOR_24, ROWS_24, BOUND_24, np.array([">="] * 2))


def test_kulis_24_without_corrections():
    """Two projections in the printed order end at (1/5, 7/15, 1/3): feasible, not optimal, and the result says so."""
    trap = CyclicProjection(corrected=False)
    result = nearest_distribution(PRIOR_24, ROWS_24, BOUND_24, ">=", solver=trap)
    assert_allclose(result.x, [1 / 5, 7 / 15, 1 / 3], atol=2e-3)
    assert (result.status, result.exit_reason) == ("FEASIBLE", "TOLERANCE")
    assert result.n_iter <= 2
    assert result.gap > 0.1
    other = nearest_distribution(PRIOR_24, ROWS_24[::-1], BOUND_24[::-1], ">=", solver=trap)
    assert other.status == "OPTIMAL"  # the second row first: the optimum at once
    assert_allclose(other.x, 1 / 3, atol=1e-3)


# ---------------------------------------------------------------- steps onto a row


def test_a_row_whose_projection_overflows():
    """The steps towards a bound that only exponents beyond float64 attain are limited, and prove nothing."""
    result = nearest_distribution(
        [1.0, 1e100], [[1.0, 1e-305]], [1e-308], "<=", total=None, solver="cyclic_projection", max_iter=20
    )
    assert result.status == "UNKNOWN"


# ---------------------------------------------------------------- against others
@pytest.mark.parametrize("total", [1.0, 2.5, None])
def test_against_scipy(rng, total):
    for _ in range(6):
        x0, A, b, sense = feasible(rng, int(rng.integers(5, 12)), int(rng.integers(1, 4)), total=total)
        result = nearest_distribution(x0, A, b, sense, total=total)
        assert_certified(result, x0, A, b, sense, total)
        rows = [
            {
                "type": "eq" if s == "==" else "ineq",
                "fun": lambda x, a=a, k=k, s=s: (k - a @ x) * (-1 if s == ">=" else 1),
                "jac": lambda x, a=a, s=s: -a * (-1 if s == ">=" else 1),
            }
            for a, k, s in zip(A, b, sense)
        ]
        if total is not None:
            rows.append({"type": "eq", "fun": lambda x: x.sum() - total, "jac": np.ones_like})
        peer = minimize(
            divergence,
            x0,
            (x0,),
            jac=lambda x, x0: np.log(np.maximum(x, 1e-12) / x0),
            bounds=[(1e-12, None)] * len(x0),
            constraints=rows,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert result.objective == pytest.approx(peer.fun, rel=1e-6, abs=1e-8)
        assert_allclose(result.x, peer.x, atol=2e-5)  # the root of SLSQP's accuracy in the objective


@pytest.mark.parametrize("total", [1.0, 5.0, None])
@pytest.mark.parametrize("senses", [("<=",), (">=",), ("<=", ">="), ("<=", ">=", "==")], ids="".join)
def test_solvers_agree(rng, senses, total):
    for _ in range(4):
        x0, A, b, sense = feasible(rng, int(rng.integers(5, 15)), int(rng.integers(1, 7)), total=total, senses=senses)
        best = nearest_distribution(x0, A, b, sense, total=total)
        assert_certified(best, x0, A, b, sense, total)
        result = nearest_distribution(x0, A, b, sense, total=total, solver="cyclic_projection")
        assert_certified(result, x0, A, b, sense, total)
        # a gap of 1e-9 holds the distance to its root (Pinsker), times the scale
        assert_allclose(result.x, best.x, atol=1e-4 * (total or 1.0))


def test_random_problems_of_every_kind(rng):
    """Duplicate and opposite rows, no room, rows of all sizes, steep priors: all solved, none in more than 60 steps."""
    for _ in range(150):
        n, c = rng.integers(2, 40), rng.integers(2, 30)
        total = rng.choice([1.0, 7.3, 0.0]) or None
        slack = rng.choice([0.0, 1e-3, 1.0])
        x0, A, b, sense = feasible(rng, n, c, total=total, senses=("<=", ">="), slack=slack)
        size = np.exp(rng.normal(scale=rng.choice([0, 2]), size=c))
        A, b, x0 = A * size[:, None], b * size, x0 ** rng.choice([1, 40])
        A[1], b[1], sense[1] = -A[0], -b[0], ">=" if sense[0] == "<=" else "<="  # the same row
        result = nearest_distribution(x0, A, b, sense, total=total)
        assert_certified(result, x0, A, b, sense, total)
        assert result.n_iter <= 60


# ---------------------------------------------------------------- infeasible sets
def assert_proof(result, A, b, sense, total):
    y = result.dual
    assert (result.status, result.exit_reason, result.gap) == ("INFEASIBLE", "CERTIFICATE", inf)
    assert (np.select([sense == "<=", sense == ">="], [1, -1], 0) * y >= 0).all()
    assert (np.flatnonzero(y) == result.conflict).all()
    low = (A.T @ y).min()
    if total is None:
        assert low >= -1e-12 * np.abs(A * y[:, None]).sum(0).max()
        assert y @ b < 0
    else:
        assert total * low > y @ b


@pytest.mark.slow
@pytest.mark.parametrize("total", [1.0, 4.0, None])
def test_infeasible_sets_are_proven_and_no_others(rng, total):
    """The same verdict as a linear program, on sets on either side of feasibility."""
    verdicts = []
    for _ in range(60):
        n, c = int(rng.integers(3, 20)), int(rng.integers(2, 12))
        x0, A, b, sense = feasible(rng, n, c, total=total, senses=("<=", ">=", "<=", "=="))
        b = b + rng.normal(scale=rng.choice([0.05, 0.5]), size=c)
        result = nearest_distribution(x0, A, b, sense, total=total)
        sign = np.select([sense == "<=", sense == ">="], [1, -1], 0)
        E, e = A[sign == 0], b[sign == 0]
        if total is not None:
            E, e = np.vstack([E, np.ones(n)]), np.append(e, total)
        ub = sign != 0
        peer = linprog(
            np.zeros(n), sign[ub, None] * A[ub], (sign * b)[ub], E if len(e) else None, e if len(e) else None
        )
        assert (result.status == "INFEASIBLE") == (peer.status == 2)
        verdicts.append(str(result.status))
        if result.status == "INFEASIBLE":
            assert_proof(result, A, b, sense, total)
        else:
            assert_certified(result, x0, A, b, sense, total)
    assert set(verdicts) == {"OPTIMAL", "INFEASIBLE"}


@pytest.mark.parametrize("solver", ["auto", "cyclic_projection"])
@pytest.mark.parametrize("total", [1.0, None])
def test_conflict_names_the_rows(rng, solver, total):
    """Two equalities that contradict each other by 5 %, rows of mixed signs: A'y is exactly zero in the proof."""
    x0, A, b, sense = feasible(rng, 15, 6, total=total, senses=("<=", ">="))
    A[4], sense[[2, 4]] = 2 * A[2], "=="
    b[4] = 2.1 * b[2]
    result = nearest_distribution(x0, A, b, sense, total=total, solver=solver)
    assert_proof(result, A, b, sense, total)
    assert list(result.conflict) == [2, 4]


def test_conflict_in_a_large_set(rng):
    """No few columns show the contradiction of two equalities: the program has to grow to most of them."""
    A = rng.random((40, 20_000)) * (rng.random((40, 20_000)) < 1e-2)
    A = np.vstack([A, 2 * A[[7]]])
    b = A @ rng.dirichlet(np.ones(20_000))
    b[40] *= 1.05
    for total in (1.0, None):
        result = nearest_distribution(np.full(20_000, 1 / 20_000), A, b, "==", total=total)
        assert_proof(result, A, b, np.array(["=="] * 41), total)
        assert list(result.conflict) == [7, 40]


def test_rows_out_of_reach():
    prior = np.full(4, 0.25)
    for row, bound, sense, total in (
        ([1.0, 2, 3, 4], 4.1, ">=", 1.0),
        ([1.0, 2, 3, 4], -0.1, "<=", None),
        ([0.0, 0, 0, 0], 0.1, ">=", None),
        ([0.0, 0, 0, 0], 0.1, "==", 1.0),
    ):
        result = nearest_distribution(prior, [row], bound, sense, total=total)
        assert_proof(result, np.array([row]), np.array([bound]), np.array([sense]), total)
    # the support of the prior counts: mass on the last entry alone would meet the row
    blocked = nearest_distribution([0.5, 0.5, 0.0], [[1.0, 2, 9]], 3.0, ">=")
    assert (blocked.status, list(blocked.conflict)) == ("INFEASIBLE", [0])


def test_feasible_up_to_rounding_is_feasible(rng):
    x0, A, b, sense = feasible(rng, 8, 3, senses=("==",), slack=0.0)
    A, b, sense = np.vstack([A, A]), np.append(b, b * (1 + 1e-10)), np.append(sense, sense)
    assert nearest_distribution(x0, A, b, sense).status == "OPTIMAL"


# ---------------------------------------------------------------- the ends of the scale
def test_zeros_and_tiny_entries():
    """Zeros stay; half of the mass has to move to entries of 1e-300."""
    result = nearest_distribution([1e-300, 1e-300, 1.0, 0.0], [[1.0, 2, 0, 5]], 0.5, ">=")
    assert result.status == "OPTIMAL"
    assert result.x[3] == 0.0
    assert result.x @ [1, 2, 0, 0] == pytest.approx(0.5, rel=1e-9)
    # all but e^-690 of it goes to the second entry: log(.25 / 1e-300) / 4 + .75 log .75, an end of two atoms
    expected = 0.25 * np.log(0.25 / 1e-300) + 0.75 * np.log(0.75)
    assert result.objective == pytest.approx(expected, rel=1e-9)
    free = nearest_distribution([1e-300, 1e-200, 1e-100], [[1.0, 2, 3]], 1.5, ">=", total=None)
    assert free.status == "OPTIMAL"
    assert free.x[2] == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize("total", [1.0, None])
def test_rows_that_only_a_border_meets(total):
    """A mass of zero has an infinite weight in theory; the result is within rounding of it."""
    for sense in ("<=", "=="):
        result = nearest_distribution(np.full(4, 0.25), [[1.0, 1, 0, 0]], 0.0, sense, total=total)
        assert result.status == "OPTIMAL"
        assert_allclose(result.x, [0, 0, 0.5, 0.5] if total else [0, 0, 0.25, 0.25], atol=1e-8)
    if total:
        for solver in ("auto", "cyclic_projection"):
            vertex = nearest_distribution(np.full(4, 0.25), [[1.0, 2, 3, 4]], 4.0, ">=", solver=solver)
            assert vertex.status == "OPTIMAL"
            assert_allclose(vertex.x, [0, 0, 0, 1], atol=1e-8)


def assert_is_the_vertex(result, A, b, x, total=1.0):
    """The sum and the rows in fractions: the vector is as near to the only one that meets the rows as these allow."""
    got = [Fraction(value) for value in result.x]
    assert (result.status, result.exit_reason) == ("OPTIMAL", "TOLERANCE")
    assert abs(sum(got) - Fraction(total)) <= Fraction(1, 10**12) * Fraction(total)
    for a, value in zip(A, b, strict=True):
        miss = abs(sum(Fraction(w) * z for w, z in zip(a, got, strict=True)) - Fraction(value))
        assert miss <= Fraction(1, 10**9) * abs(Fraction(value))
    assert_allclose(result.x, x, atol=1e-8 * total)


def test_equalities_that_fix_a_vertex():
    A, b = [[1.4, 0.2], [-1.0, 0.9]], [0.2, 0.9]
    assert_is_the_vertex(nearest_distribution([0.65, 0.56], A, b, "=="), A, b, [0, 1])


@pytest.mark.parametrize("total", [1.0, 1e-3, 1e4])
def test_equalities_that_fix_planted_vertices(rng, total):
    """No dual weights attain the bound there, and the steps that restore the rows are long."""
    for _ in range(40):
        n = int(rng.integers(2, 12))
        A, x = 0.5 + rng.random((n, n)), np.zeros(n)
        x[rng.integers(n)] = total
        result = nearest_distribution(rng.random(n), A, A @ x, "==", total=total)
        assert_is_the_vertex(result, A, A @ x, x, total)


@pytest.mark.parametrize("at", [0.0, 0.05])
def test_the_sum_as_a_row(rng, at):
    """A row of one number repeated says the sum once more. Its variance is rounding, of which no step may be made."""
    for _ in range(40):
        n = int(rng.integers(2, 12))
        a = np.append(0.0, 0.3 + rng.random(n - 1))  # a . x = 0 at the first vertex only
        A, b, x0 = np.vstack([a, np.full(n, 0.3), np.full(n, -2.0)]), np.array([at, 0.3, -2.0]), rng.random(n)
        result = nearest_distribution(x0, A, b, ["<=", "==", ">="])
        alone = nearest_distribution(x0, A[:1], b[:1], "<=")
        assert result.status == alone.status == "OPTIMAL"
        assert_allclose(result.x, alone.x, atol=1e-6)


def test_long_steps_do_not_spoil_the_bound():
    """The first step of the row of 1e-6 would be 1e6 long, though one of 40 takes the other entries to the rounding of 1."""
    x0 = np.append(1e-6, np.linspace(0.01, 1.0, 10))
    result = nearest_distribution(x0, np.eye(11), np.eye(11)[0], "==")
    assert (result.status, result.exit_reason) == ("OPTIMAL", "TOLERANCE")
    assert result.objective == pytest.approx(np.log(1e6) - 1 + x0.sum(), rel=1e-9)


def test_large_numbers_and_none():
    big = nearest_distribution(np.full(4, 1e8), [[1.0, 2, 3, 4]], 9e8, "<=", total=None)
    assert (big.status, big.n_iter > 0) == ("OPTIMAL", True)
    free = nearest_distribution([1.0, 3.0], np.zeros((0, 2)), [], "<=")
    assert (free.status, free.n_iter) == ("OPTIMAL", 0)
    assert_allclose(free.x, [0.25, 0.75])
    assert free.objective == pytest.approx(divergence(free.x, np.array([1.0, 3.0])))
    single = nearest_distribution([0.3], [[1.0]], 0.5, ">=", total=None)
    assert single.x[0] == pytest.approx(0.5, rel=1e-9)


def test_large(rng):
    """100,000 entries and 50 rows with few nonzero entries, within a few steps."""
    n, c = 100_000, 50
    A = rng.random((c, n)) * (rng.random((c, n)) < 1e-3)
    z = rng.random(n) ** 3
    z /= z.sum()
    sense = np.resize(["<=", ">="], c)
    b = A @ z * np.where(sense == "<=", 1.001, 0.999)
    x0 = rng.random(n)
    for total in (1.0, None):
        prior = x0 if total else x0 / x0.sum()
        result = nearest_distribution(prior, A, b, sense, total=total)
        assert_certified(result, prior, A, b, sense, total)
        assert result.n_iter <= 15
    cyclic = nearest_distribution(x0, A[:5], b[:5], sense[:5], solver="cyclic_projection")
    assert_allclose(cyclic.x, nearest_distribution(x0, A[:5], b[:5], sense[:5]).x, rtol=1e-3)


# ---------------------------------------------------------------- the run
@pytest.mark.parametrize("solver", ["auto", "cyclic_projection"])
def test_history_and_bounds(rng, solver):
    x0, A, b, sense = feasible(rng, 10, 5)
    seen = []
    result = nearest_distribution(x0, A, b, sense, solver=solver, callback=seen.append)
    assert seen == result.history
    assert [r.iteration for r in seen] == list(range(result.n_iter + 1))
    bounds = np.array([r.dual_bound for r in seen])
    assert (np.diff(bounds) >= -1e-12).all()  # every corrected step raises the dual
    assert bounds.max() <= result.objective + 1e-9
    assert result.solver == ("dual_newton" if solver == "auto" else solver)
    assert result.gap <= seen[-1].gap + 1e-15


@pytest.mark.parametrize("solver", ["auto", "cyclic_projection"])
def test_interruption_keeps_the_best(rng, solver):
    x0, A, b, sense = feasible(rng, 12, 8)

    def interrupt(record):
        if record.iteration == 1:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="nearest_distribution was interrupted after"):
        by_key = nearest_distribution(x0, A, b, sense, solver=solver, callback=interrupt)
    by_word = nearest_distribution(x0, A, b, sense, solver=solver, callback=lambda record: record.iteration == 1)
    for result in (by_key, by_word):
        assert (result.exit_reason, result.n_iter, len(result.history)) == ("INTERRUPTED", 1, 2)
        assert result.status in ("FEASIBLE", "UNKNOWN", "OPTIMAL")
        assert result.x.sum() == pytest.approx(1.0)
        assert np.isfinite(result.dual_bound)


def test_limits(rng):
    x0, A, b, sense = feasible(rng, 12, 6)
    stopped = nearest_distribution(x0, A, b, sense, max_iter=0)
    assert (stopped.status, stopped.exit_reason, stopped.gap) == ("UNKNOWN", "MAX_ITER", inf)
    assert_allclose(stopped.x, x0 / x0.sum())
    late = nearest_distribution(x0, A, b, sense, solver="cyclic_projection", max_seconds=1e-9)
    assert (late.exit_reason, late.n_iter) == ("TIME", 0)
    loose = nearest_distribution(x0, A, b, sense, tol=1e-2)
    assert loose.status == "OPTIMAL"
    moved = nearest_distribution(x0, A, b, sense, solver=CyclicProjection(movement_tol=1e-2), tol=1e-13)
    assert moved.exit_reason == "TOLERANCE"  # the paper's own rule
    assert moved.n_iter < nearest_distribution(x0, A, b, sense, solver="cyclic_projection").n_iter


@pytest.mark.parametrize("sense", ["<=", "=="])
def test_save_and_load(rng, sense, tmp_path):
    x0, A, b, _ = feasible(rng, 6, 3, senses=(sense,))
    A[2], b[2] = (A[1], b[1] + 1.0) if sense == "==" else (A[2], b[2])
    result = nearest_distribution(x0, A, b, sense, solver="cyclic_projection", max_iter=300)
    save(tmp_path / "x.bm", result)
    again = load(tmp_path / "x.bm")
    assert repr(again) == repr(result)
    for name in ("x", "dual", "values", "violation", "conflict"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name))
    np.testing.assert_equal([vars(r) for r in again.history], [vars(r) for r in result.history])
    assert (again.status, again.exit_reason) == (result.status, result.exit_reason)


def test_how_it_looks(rng):
    x0, A, b, sense = feasible(rng, 6, 3)
    result = nearest_distribution(x0, A, b, sense)
    assert repr(result).startswith("DistributionResult(status=OPTIMAL, exit_reason=TOLERANCE, objective=")
    text = result._repr_html_()
    assert "DistributionResult: proven optimal" in text
    assert "matrix" not in text


# ---------------------------------------------------------------- bad input
ROW = [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"prior": [0.2, -0.1, 0.9]}, ValueError, "prior must be finite and at least 0; got -0.1 in row 1"),
        ({"prior": [0.2, nan, nan]}, ValueError, "prior must be finite and at least 0; got nan in rows 1, 2"),
        ({"prior": [0.2, inf, 0.1]}, ValueError, "got inf in row 1"),
        ({"prior": [0.0, 0.0, 0.0]}, ValueError, "prior must have a positive entry; all 3 are 0"),
        ({"prior": [[0.2, 0.3, 0.5]]}, ValueError, r"prior must be 1-dimensional; got shape \(1, 3\)"),
        ({"prior": ["a", "b", "c"]}, TypeError, "prior must be numeric"),
        ({"A": [1.0, 2.0, 3.0]}, ValueError, r"A must be 2-dimensional; got shape \(3,\)"),
        ({"A": [[1.0, 2.0]]}, ValueError, r"A must have one column per entry of prior \(3\); got shape \(1, 2\)"),
        ({"A": [[1.0, nan, 2.0]]}, ValueError, "A must be finite; got NaN or infinity in row 0"),
        ({"b": nan}, ValueError, "b must be finite; got nan in row 0"),
        ({"b": [1.0, 2.0]}, ValueError, r"b must be a number or have one entry per row \(1\); got shape \(2,\)"),
        ({"b": "one"}, TypeError, "b must be numeric"),
        ({"sense": "<"}, ValueError, 'sense must be "<=", ">=" or "=="; got \'<\' in constraint 0'),
        ({"sense": ["<=", ">="]}, ValueError, r"sense must be one string or one per constraint \(1\); got 2"),
        ({"sense": 1}, TypeError, "sense must be"),
        ({"total": 0.0}, ValueError, "total must be positive and finite; got 0.0"),
        ({"total": inf}, ValueError, "total must be positive and finite; got inf"),
        ({"total": "one"}, TypeError, "total must be a number; got 'one'"),
        ({"total": True}, TypeError, "total must be a number; got True"),
        ({"tol": -1e-9}, ValueError, "tol must be positive and finite"),
        ({"tol": None}, TypeError, "tol must be a number; got None"),
        ({"max_seconds": 0}, ValueError, "max_seconds must be positive"),
        ({"max_iter": -1}, ValueError, "max_iter must be at least 0; got -1"),
        ({"max_iter": 2.5}, TypeError, "max_iter must be an integer or None; got 2.5"),
        ({"solver": "simplex"}, ValueError, "solver must be one of .auto., .dual_newton., .*got .simplex."),
        ({"solver": DefiniteBoost()}, TypeError, "solver must be a string or a CyclicProjection; got Def"),
        ({"solver": 3}, TypeError, "solver must be a string or a CyclicProjection; got 3"),
    ],
)
def test_bad_input(change, error, message):
    given = {"prior": [0.2, 0.3, 0.5], "A": ROW, "b": 2.0, "sense": "<="} | change
    with pytest.raises(error, match=message):
        nearest_distribution(given.pop("prior"), given.pop("A"), given.pop("b"), given.pop("sense"), **given)


@pytest.mark.parametrize("solver", ["dual_newton", "cyclic_projection"])
def test_input_is_left_as_it_was(rng, solver):
    x0, A, b, sense = feasible(rng, 6, 3)
    copies = x0.copy(), A.copy(), b.copy(), sense.copy()
    nearest_distribution(x0, A, b, sense, solver=solver)
    for given, copy in zip((x0, A, b, sense), copies):
        np.testing.assert_array_equal(given, copy)


@pytest.mark.parametrize("total", [1.0, None])
def test_rows_in_other_units_are_the_same_rows(total):
    """Each row and its bound times a power of ten, from 1e-8 to 1e8; values and weights come back in those units."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x0, y, A = rng.dirichlet(np.ones(20)), rng.dirichlet(np.ones(20)), rng.normal(size=(6, 20))
        b = A @ y + 0.05 * np.array([1, 1, -1, -1, 0, 0])
        sense = ["<=", "<=", ">=", ">=", "==", "=="]
        units = 10.0 ** rng.integers(-8, 9, size=6)
        one = nearest_distribution(x0, A, b, sense, total=total)
        other = nearest_distribution(x0, units[:, None] * A, units * b, sense, total=total)
        assert one.status == other.status == "OPTIMAL"
        assert other.n_iter == pytest.approx(one.n_iter, abs=2)
        assert_allclose(other.x, one.x, atol=1e-7)
        assert_allclose(other.values, units * one.values, rtol=1e-7, atol=1e-9 * units.max())
        assert_allclose(other.dual * units, one.dual, rtol=1e-4, atol=1e-4 * np.abs(one.dual).max())


@pytest.mark.parametrize("total", [1.0, None])
def test_no_bound_is_above_the_dual_function(total):
    """In extended precision, at the weights that are handed out."""
    L = np.longdouble
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, c = rng.integers(3, 30), rng.integers(1, 8)
        x0, y, A = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n)), rng.normal(size=(c, n))
        b = A @ y
        result = nearest_distribution(x0, A, b, "==", total=total)
        mu, prior = result.dual.astype(L), x0.astype(L)
        v = mu @ A.astype(L)
        linear = -(mu @ b.astype(L))
        if total is None:
            bound = linear - prior @ np.expm1(-v)
        else:
            bound = linear + prior.sum() - 1 - np.log(prior @ np.exp(-v))
        assert result.dual_bound <= bound
        assert result.gap <= 1e-9
