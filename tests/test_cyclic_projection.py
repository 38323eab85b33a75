"""The cyclic projection as a solver: what it reaches, how it stops, what it records; its equations: test_equations_solvers.py."""

import itertools

import numpy as np
import pytest

import bregmat
from bregmat import (
    Constraints,
    CyclicProjection,
    DefiniteBoost,
    Factor,
    Squared,
    SquaredHinge,
    nearest_kernel,
    nearest_metric,
)
from cases import AGREEMENTS, pairs_case, watch

pair = Constraints.sq_distance
DIVERGENCES = ("logdet", "vonneumann")
# the gap to which solvers are driven here; D is curved by 1 / x^2 at least, so it leaves about sqrt(2e-11) x = 5e-6 x
TIGHT = 1e-11
SOLVERS = {
    "mirror_newton": "mirror_newton",
    "dual_newton": "dual_newton",
    "interior_point": "interior_point",
    "cyclic_projection": CyclicProjection(),
    **{
        f"definite_boost-{projection}-{order}": DefiniteBoost(projection=projection, order=order)
        for projection, order in itertools.product(("exact", "approximate"), ("greedy", "cyclic"))
    },
}


def distance(W, V):
    return np.linalg.norm(W - V) / np.linalg.norm(V)


# ---------------------------------------------------------------- all solvers reach the same matrix
def results(problem, **given):
    """The result of each solver that takes the problem."""
    prior, rows, settings = problem.arguments()
    found = {}
    for name, solver in SOLVERS.items():
        try:
            found[name] = nearest_kernel(prior, rows, solver=solver, **settings, **given)
        except TypeError:
            continue
    return found


@pytest.mark.parametrize("problem", AGREEMENTS, ids=repr)
def test_solvers_agree(problem):
    found = results(problem, tol=TIGHT)
    reference = found["dual_newton"].kernel()
    for name, result in found.items():
        # the dual bound of a one-row method stops growing while its rows still hold only to the square root of rounding
        assert result.gap <= 1e-8, (name, repr(result))
        assert distance(result.kernel(), reference) <= 1e-5, name
    assert len(found) >= (1 if problem.divergence == "frobenius" and problem.cost.startswith("hard") else 2)
    if problem.divergence != "frobenius":
        assert "cyclic_projection" in found
    assert any(name.startswith("definite_boost") for name in found) == (
        problem.divergence == "vonneumann" and problem.trace and problem.cost == "hard"
    )


def test_every_solver_took_its_share():
    """Of the problems on which solvers agree; each kind of cost with each of the two divergences of the papers.

    A solver that takes a problem returns its first point.
    """
    taken = dict.fromkeys(SOLVERS, 0)
    for problem in AGREEMENTS:
        for name in results(problem, max_iter=0):
            taken[name] += 1
    least = {"mirror_newton": 6, "dual_newton": 28, "interior_point": 10, "cyclic_projection": 25} | {
        name: 6 for name in SOLVERS if name.startswith("definite_boost")
    }
    assert len(AGREEMENTS) >= 20
    assert all(taken[name] >= least[name] for name in SOLVERS), taken
    costs = {(p.divergence, p.cost.split()[0]) for p in AGREEMENTS}
    assert {(d, c) for d in DIVERGENCES for c in ("hard", "own", "heavy", "relative", "squared")} <= costs
    relations = {"sq_distance", "similarity", "comparison", "similarity_comparison", "linear", "all"}
    assert {p.relation for p in AGREEMENTS} == relations


# ---------------------------------------------------------------- the record


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("slack_weight", [np.inf, 1.0])
def test_trace_adds_up(divergence, corrected, slack_weight, rng):
    X, rows = pairs_case(rng)
    solver = CyclicProjection(corrected=corrected)
    result = nearest_metric(X, rows, divergence=divergence, solver=solver, slack_weight=slack_weight, max_iter=45)
    trace = result.trace
    assert set(trace) == {"skipped", "held", "projections", "evaluations", "violation", "movement", "drift"}
    assert {len(series) for series in trace.values()} == {result.n_iter}
    assert (trace["skipped"] + trace["held"] + trace["projections"] == 60).all()
    assert (trace["movement"] >= 0).all()
    refreshed = np.arange(1, result.n_iter + 1) % solver.refresh == 0
    assert (np.isfinite(trace["drift"]) == refreshed).all()
    assert (trace["evaluations"] > 0).any() == (divergence == "vonneumann")
    assert (trace["skipped"] > 0).any() == (divergence == "logdet" and result.n_iter > 2)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_drift_is_small(name, rng):
    """The updated matrix against the one rebuilt from the multipliers after 1000 sweeps of 200 rows (2e5 projections at most)."""
    X, rows = pairs_case(rng, c=200, n=40, r=10)
    given = {"divergence": name, "slack_weight": 1.0, "tol": 1e-15, "max_iter": 1000}
    result = nearest_metric(X, rows, solver=CyclicProjection(refresh=200), **given)
    drift = result.trace["drift"]
    drift = drift[np.isfinite(drift)]
    assert result.trace["projections"].sum() > 1000
    assert len(drift) == result.n_iter // 200
    # each projection adds a few roundings; measured 3e-14
    assert (drift < 1e-11).all()


def test_drift_of_every_sweep(rng):
    X, rows = pairs_case(rng)
    for name in DIVERGENCES:
        result = nearest_metric(X, rows, solver=CyclicProjection(refresh=1), divergence=name, slack_weight=10.0)
        assert result.status == "OPTIMAL"
        assert result.trace["drift"].max() < 1e-12


# ---------------------------------------------------------------- how it stops
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_movement_rule(divergence, rng):
    """Kulis 2009, section 5.1.4: the change of the multipliers over a cycle, as a norm; relative here."""
    X, rows = pairs_case(rng, c=30)
    given = {"divergence": divergence, "slack_weight": 5.0, "tol": 1e-14}
    result = nearest_metric(X, rows, solver=CyclicProjection(movement_tol=1e-3), **given)
    moved = result.trace["movement"]
    assert result.exit_reason == "TOLERANCE"
    assert result.status == "FEASIBLE"  # the rule proves nothing
    assert 0 < result.gap < 1e-2
    assert result.n_iter == len(moved)
    before = nearest_metric(X, rows, solver=CyclicProjection(), **{**given, "max_iter": result.n_iter - 1})
    assert np.linalg.norm(result.dual - before.dual) <= 1e-3 * np.linalg.norm(result.dual) * (1 + 1e-6)
    assert moved[-1] <= 1e-3 * np.linalg.norm(result.dual) * (1 + 1e-6)
    assert moved[-2] > 1e-3 * np.linalg.norm(before.dual) * (1 - 1e-6)
    longer = nearest_metric(X, rows, solver=CyclicProjection(movement_tol=1e-6), **given)
    assert longer.n_iter > result.n_iter
    assert longer.gap < result.gap


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_movement_rule_in_units_of_the_multipliers(divergence, rng):
    """Kulis 2009, section 5.1.4, as it stands: the norm of the change itself, whatever the multipliers' length."""
    X, rows = pairs_case(rng, c=30)
    given = {"divergence": divergence, "slack_weight": 5.0, "tol": 1e-14}
    result = nearest_metric(X, rows, solver=CyclicProjection(movement_atol=1e-3), **given)
    moved = result.trace["movement"]
    assert (result.status, result.exit_reason) == ("FEASIBLE", "TOLERANCE")
    assert moved[-1] <= 1e-3 < moved[-2]
    once = CyclicProjection(movement_atol=10 * moved[-1], movement_tol=1e-9)
    # the first of the two rules that is met
    assert nearest_metric(X, rows, solver=once, **given).n_iter < result.n_iter


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_iterate_stays_within_reach(name, rng, tmp_path):
    """The certificate's matrix is restored to feasibility; Algorithm 2's and 3's own is the exponential of its multipliers."""
    X, rows = pairs_case(rng, c=25)
    K0 = X @ X.T + np.eye(len(X))
    found, result = watch(K0, rows, sweeps=4, divergence=name)
    K, mu = found[-1]
    assert np.allclose(result.kernel(result.last), K, rtol=0, atol=1e-12 * np.abs(K).max())
    assert np.linalg.norm(result.kernel() - K) > 1e-3 * np.linalg.norm(K)  # rows were still violated
    bregmat.save(tmp_path / "result", result)
    back = bregmat.load(tmp_path / "result")
    assert np.array_equal(back.kernel(back.last), result.kernel(result.last))
    assert np.array_equal(back.kernel(), result.kernel())
    solved = nearest_kernel(K0, rows, divergence=name, slack_weight=1.0)
    assert solved.last is not None
    assert np.array_equal(solved.kernel(solved.last), solved.kernel())  # nothing to restore


def test_without_corrections_it_ends_when_all_rows_hold(rng):
    """FEASIBLE and not optimal: the gap says how far away it is; with corrections the same problem is solved."""
    X, rows = pairs_case(rng, c=25)
    for name in DIVERGENCES:
        wrong = nearest_metric(X, rows, divergence=name, solver=CyclicProjection(corrected=False))
        right = nearest_metric(X, rows, divergence=name, solver=CyclicProjection())
        assert (wrong.status, wrong.exit_reason) == ("FEASIBLE", "TOLERANCE")
        assert wrong.max_violation <= 1e-9
        assert right.status == "OPTIMAL"
        assert wrong.objective > right.objective * (1 + 1e-4)
        assert wrong.dual_bound <= right.objective
        assert wrong.objective - right.objective <= wrong.gap * max(1.0, wrong.objective) + 1e-6


def test_limits(rng):
    X, rows = pairs_case(rng, c=200)
    for name in DIVERGENCES:
        given = {"divergence": name, "slack_weight": 100.0, "tol": 1e-13}
        none = nearest_metric(X, rows, solver="cyclic_projection", max_iter=0, **given)
        assert (none.n_iter, none.exit_reason, none.trace) == (0, "MAX_ITER", {})
        few = nearest_metric(X, rows, solver="cyclic_projection", max_iter=3, **given)
        assert (few.n_iter, few.exit_reason, len(few.trace["held"])) == (3, "MAX_ITER", 3)
        brief = nearest_metric(X, rows, solver="cyclic_projection", max_seconds=1e-9, **given)
        assert brief.exit_reason == "TIME"
        assert np.isfinite(brief.gap)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_callback_and_interruption(divergence, rng):
    X, rows = pairs_case(rng, c=100)
    given = {"divergence": divergence, "slack_weight": 10.0, "solver": "cyclic_projection", "tol": 1e-12}
    seen = []
    stopped = nearest_metric(X, rows, callback=lambda r: seen.append(r) or len(seen) == 4, **given)
    assert (stopped.exit_reason, stopped.n_iter) == ("INTERRUPTED", 3)
    assert [r.iteration for r in seen] == [0, 1, 2, 3]
    assert (np.diff([r.dual_bound for r in seen]) >= 0).all()  # every corrected projection raises it

    def hit(record):
        if record.iteration == 5:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="nearest_metric was interrupted after"):
        hurt = nearest_metric(X, rows, callback=hit, **given)
    assert (hurt.exit_reason, hurt.status) == ("INTERRUPTED", "FEASIBLE")
    assert np.isfinite(hurt.gap)
    assert len(hurt.trace["held"]) == hurt.n_iter == 5


# ---------------------------------------------------------------- warm start, files
@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("slack_weight", [np.inf, 3.0])
def test_warm_start(divergence, slack_weight, rng):
    X, rows = pairs_case(rng, c=40)
    given = {"divergence": divergence, "slack_weight": slack_weight, "tol": 1e-9}
    cold = nearest_metric(X, rows, solver="cyclic_projection", **given)
    dual = cold.dual.copy()
    again = nearest_metric(X, rows, solver="cyclic_projection", warm_start=cold, **given)
    assert cold.status == again.status == "OPTIMAL"
    assert again.n_iter <= 2 < cold.n_iter
    assert np.array_equal(cold.dual, dual)
    half = nearest_metric(X, rows.select(slice(0, 30)), solver="dual_newton", **given)
    more = nearest_metric(X, rows, solver="cyclic_projection", warm_start=half, **given)
    assert more.status == "OPTIMAL"
    assert distance(more.kernel(), cold.kernel()) < 1e-4


def test_saved_with_its_trace(tmp_path, rng):
    X, rows = pairs_case(rng, c=20)
    for name in DIVERGENCES:
        result = nearest_metric(X, rows, divergence=name, solver="cyclic_projection", slack_weight=1.0)
        bregmat.save(tmp_path / "result.bm", result)
        back = bregmat.load(tmp_path / "result.bm")
        assert set(back.trace) == set(result.trace)
        for key, series in result.trace.items():
            assert np.array_equal(back.trace[key], series, equal_nan=True)
        assert back.solver == "cyclic_projection"
        assert np.array_equal(back.transform(X), result.transform(X))


# ---------------------------------------------------------------- infeasible and degenerate rows
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_infeasible_among_many(divergence, corrected, rng):
    """Of 40 rows the two that contradict each other are named."""
    X, rows = pairs_case(rng, c=20)
    both = pair([3, 3], [4, 4], [1.0, 2.0], ["<=", ">="])
    far = ~((rows.index[:, 0] == 3) & (rows.index[:, 1] == 4) | (rows.index[:, 0] == 4) & (rows.index[:, 1] == 3))
    rows = rows.select(far)
    solver = CyclicProjection(corrected=corrected)
    result = nearest_metric(X, rows + both, divergence=divergence, solver=solver)
    assert result.status == "INFEASIBLE"
    assert result.conflict.tolist() == [len(rows.bound), len(rows.bound) + 1]


@pytest.mark.parametrize("sense", ["<=", "=="])
def test_must_link(sense, rng):
    """A bound of 0: von Neumann eliminates it, for LogDet only singular matrices would meet it."""
    X, rows = pairs_case(rng, c=10)
    rows = rows + pair(0, 1, 0.0, sense)
    result = nearest_metric(X, rows, divergence="vonneumann", solver="cyclic_projection")
    expected = nearest_metric(X, rows, divergence="vonneumann")
    assert result.status == expected.status == "OPTIMAL"
    assert result.values[-1] <= 1e-12
    assert result.objective == pytest.approx(expected.objective, rel=1e-5)
    refused = nearest_metric(X, rows, divergence="logdet", solver="cyclic_projection")
    assert refused.status == "INFEASIBLE"
    assert refused.conflict.tolist() == [10]


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_duplicates(divergence, rng):
    """The same rows twice, and once more with a looser bound: the same matrix."""
    X, rows = pairs_case(rng, c=12)
    looser = Constraints(
        rows.relation, rows.index, rows.bound * np.where(rows.sense > 0, 1.1, 0.9), rows.sense, rows.weight
    )
    one = nearest_metric(X, rows, divergence=divergence, solver="cyclic_projection", tol=1e-10)
    many = nearest_metric(X, rows + looser + rows, divergence=divergence, solver="cyclic_projection", tol=1e-10)
    assert one.status == many.status == "OPTIMAL"
    assert distance(many.kernel(), one.kernel()) < 1e-5
    assert (many.dual[12:24] == 0).all()


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("slack_weight", [np.inf, 0.7])
def test_one_dimension(divergence, slack_weight):
    """r = 1, rows of every rank but one that matters; the prior is 2."""
    one = Factor(np.array([[1.0], [-1.0], [0.5]]) * np.sqrt(2))
    for rows in (pair(0, 1, 3.0, "<="), Constraints.similarity(0, 1, -1.0, ">="), Constraints.diagonal([0.5], [2])):
        given = {"divergence": divergence, "slack_weight": slack_weight, "tol": 1e-11}
        found = nearest_kernel(one, rows, solver="cyclic_projection", **given)
        assert found.status == "OPTIMAL"
        assert found.n_iter <= 3
        assert distance(found.kernel(), nearest_kernel(one, rows, **given).kernel()) < 1e-5
        if np.isinf(slack_weight):
            assert found.values[0] == pytest.approx(rows.bound[0], rel=1e-9)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("loss", [None, SquaredHinge(), Squared()])
@pytest.mark.parametrize("slack_weight", [np.inf, 2.0])
def test_bounds_of_0_and_below(divergence, loss, slack_weight, rng):
    """Comparisons, similarities and general rows, which have no own slack there."""
    X = rng.normal(size=(8, 4))
    C = rng.normal(size=(8, 8))
    rows = (
        Constraints.comparison([0, 2], [1, 3], [4, 0], [5, 6], [0.0, 1.5])
        + Constraints.similarity([0, 1], [2, 3], [0.0, -0.5], ["<=", "=="])
        + Constraints.linear([C + C.T], -2.0, "<=")
        + Constraints.similarity_comparison(4, 5, 6, 7, 0.0)
    )
    given = {"divergence": divergence, "slack_weight": slack_weight, "loss": loss, "tol": 1e-9}
    found = nearest_kernel(Factor(X), rows, solver="cyclic_projection", **given)
    expected = nearest_kernel(Factor(X), rows, **given)
    assert found.gap <= 1e-8
    # the root of the gap of 1e-9, times a curvature of 10 or so
    assert distance(found.kernel(), expected.kernel()) < 2e-4


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("slack_weight", [np.inf, 2.0])
def test_rows_of_zeros_that_hold(divergence, slack_weight, rng):
    """A_i = 0 moves nothing; its multiplier stays 0."""
    X, rows = pairs_case(rng, c=8)
    zero = Constraints.linear(np.zeros((2, 20, 20)), [0.5, -0.5], ["<=", ">="])
    given = {"divergence": divergence, "slack_weight": slack_weight, "tol": 1e-10}
    alone = nearest_kernel(Factor(X), rows, solver="cyclic_projection", **given)
    found = nearest_kernel(Factor(X), zero + rows, solver="cyclic_projection", **given)
    assert found.status == alone.status == "OPTIMAL"
    assert (found.dual[:2] == 0).all()
    assert distance(found.kernel(), alone.kernel()) < 1e-12


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_rows_of_zeros_that_cannot_hold(divergence, rng):
    X, rows = pairs_case(rng, c=8)
    zero = Constraints.linear(np.zeros((1, 20, 20)), [0.5], [">="])
    with pytest.raises(ValueError, match=r"constraint 8: .* >= 0\.5 can never hold, because its value is 0"):
        nearest_kernel(Factor(X), rows + zero, divergence=divergence, solver="cyclic_projection")


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("seed", range(6))
def test_rows_that_vanish_but_for_rounding(divergence, seed):
    """K(0, 2) <= K(1, 2) for identical points 0 and 1, and for a point 0 of zeros: A_i is 1e-17 or so, and nothing to project on.

    A multiplier of 1e16 on such a row once proved that the other rows contradict each other.
    """
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(5, 3))
    near = pair(2, 3, 0.5 * ((G[2] - G[3]) ** 2).sum(), "<=")
    G[1] = G[0]
    for rows in (
        Constraints.similarity_comparison(0, 2, 1, 2) + near,
        Constraints.comparison(0, 2, 1, 2) + near,
        Constraints.similarity(4, 2, 0.0, "<=") + near,
        Constraints.similarity(4, 2, 0.0, "==") + near + Constraints.trace(0.8 * np.sum(G * G)),
    ):
        if len(rows.bound) == 3 or rows.relation[0] == 1:
            G[4] = 0
        found = nearest_kernel(Factor(G), rows, divergence=divergence, solver="cyclic_projection")
        expected = nearest_kernel(Factor(G), rows.select(slice(1, None)), divergence=divergence)
        assert found.status == expected.status == "OPTIMAL", (str(rows), repr(found))
        assert found.objective == pytest.approx(expected.objective, rel=1e-5)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_identical_points_that_shall_be_apart(divergence):
    """The squared hinge has a finite price for it, and its multiplier belongs to the proof of optimality."""
    X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    rows = pair([0, 0, 2], [1, 2, 0], [1.0, 2.0, 3.0], ">=")
    result = nearest_metric(
        X, rows, divergence=divergence, slack_weight=1.0, loss=SquaredHinge(), solver="cyclic_projection"
    )
    assert result.status == "OPTIMAL"
    assert result.violation[1:] == pytest.approx(1.0)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize(("sense", "bound"), [(">=", 1.0), ("==", 1.0), (">=", 0.5)])
def test_negative_rows_that_cannot_hold(divergence, sense, bound):
    """tr(M C) > 0 for a negative semidefinite C, of rank one, two and three."""
    for rank in (1, 2, 3):
        C = -np.diag([1.0, 2.0, 3.0]) * (np.arange(3) < rank)
        rows = Constraints.linear([C], bound, sense)
        result = nearest_kernel(np.eye(3), rows, divergence=divergence, solver="cyclic_projection")
        assert result.status == "INFEASIBLE", (rank, repr(result))
        assert result.conflict.tolist() == [0]


@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("slack_weight", [np.inf, 3.0])
def test_logdet_does_not_know_the_scale(scale, slack_weight, rng):
    """Prior and bounds times a number: the same run, the matrix times that number."""
    X, rows = pairs_case(rng, c=30)
    scaled = Constraints(rows.relation, rows.index, rows.bound * scale, rows.sense, rows.weight)
    given = {"slack_weight": slack_weight, "solver": "cyclic_projection", "tol": 1e-9}
    here = nearest_kernel(Factor(X), rows, **given)
    there = nearest_kernel(Factor(X * np.sqrt(scale)), scaled, **given)
    assert here.status == there.status == "OPTIMAL"
    assert here.n_iter == there.n_iter
    assert distance(there.kernel() / scale, here.kernel()) < 1e-10


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_vonneumann_scales(scale, rng):
    """Hard rows: the divergence is homogeneous, so the matrix is the same one times the number, and its gap in units of it."""
    X, rows = pairs_case(rng, c=10)
    scaled = Constraints(rows.relation, rows.index, rows.bound * scale, rows.sense, rows.weight)
    given = {"divergence": "vonneumann", "solver": "cyclic_projection"}
    here = nearest_kernel(Factor(X), rows, tol=1e-10, **given)
    there = nearest_kernel(Factor(X * np.sqrt(scale)), scaled, tol=1e-10 * min(1.0, scale), **given)
    assert here.status == "OPTIMAL"
    assert there.max_violation <= 1e-9
    assert distance(there.kernel() / scale, here.kernel()) < 1e-4


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_scales_of_the_prior_apart_from_the_bounds(divergence):
    """From a prior of 1/100 or 10,000 times the size that the rows want; LogDet takes 4 sweeps times the first ratio or so."""
    X, rows = pairs_case(np.random.default_rng(3), c=10)
    for scale in (1e-2, 1e4):
        given = {"divergence": divergence, "tol": 1e-7}
        result = nearest_kernel(Factor(X * np.sqrt(scale)), rows, solver="cyclic_projection", **given)
        expected = nearest_kernel(Factor(X * np.sqrt(scale)), rows, **given)
        assert result.status == expected.status == "OPTIMAL", (scale, repr(result), repr(expected))
        assert result.objective == pytest.approx(expected.objective, rel=1e-6)
