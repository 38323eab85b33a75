"""DefiniteBoost as a solver: as published it ends FEASIBLE, with corrections at the projection; its record, limits, odd rows.

Its equations and the bound of Theorem 4.1: test_equations_solvers.py. That it agrees with the others: test_cyclic_projection.py.
"""

import itertools

import numpy as np
import pytest

import bregmat
from bregmat import Constraints, CyclicProjection, DefiniteBoost, Factor, nearest_kernel
from cases import AGREEMENTS

pair, trace = Constraints.sq_distance, Constraints.trace
KINDS = [
    DefiniteBoost(projection=projection, order=order, corrected=corrected)
    for projection, order, corrected in itertools.product(("exact", "approximate"), ("greedy", "cyclic"), (True, False))
]
RIGHT = [kind for kind in KINDS if kind.corrected]
HARD = [p for p in AGREEMENTS if p.divergence == "vonneumann" and p.trace and p.cost == "hard"]


def by_kind(kind):
    return f"{kind.projection}-{kind.order}-{'corrected' if kind.corrected else 'published'}"


def boosted(prior, rows, solver, **settings):
    return nearest_kernel(prior, rows, divergence="vonneumann", solver=solver, **settings)


def distance(W, V):
    return np.linalg.norm(W - V) / np.linalg.norm(V)


def case(rng, c=30, n=12, room=1.05):
    """A prior of trace 1 and distances, with some room, of another matrix of trace 1: feasible, half of them active or so."""
    F = np.eye(n) + 0.3 * rng.normal(size=(n, n))
    K = F @ F.T / np.sum(F * F)
    i = rng.integers(0, n, c)
    j = (i + rng.integers(1, n, c)) % n
    after = K[i, i] + K[j, j] - 2 * K[i, j]
    near = after < 2 / n
    rows = pair(i, j, after * np.where(near, room, 1 / room), np.where(near, "<=", ">="))
    return np.eye(n) / n, trace(1.0) + rows


# ---------------------------------------------------------------- as published: feasible, not nearest
def appendix_b():
    """Kulis 2009, appendix B, eq. 24, as diagonal matrices."""
    rows = Constraints.linear(
        [np.diag([0.0912, 0.9385, -0.4377]), np.diag([0.6020, 0.6020, -0.4377])], [0.0238, 0.2554], ">="
    )
    return np.diag([0.1, 0.1, 0.8]), rows + trace(1.0)


@pytest.mark.parametrize("projection", ["exact", "approximate"])
@pytest.mark.parametrize("order", ["greedy", "cyclic"])
def test_appendix_b_with_corrections(projection, order):
    """The maximum entropy vector, to about 1e-3 with the printed constants."""
    result = boosted(*appendix_b(), DefiniteBoost(projection=projection, order=order))
    assert result.status == "OPTIMAL"
    assert np.allclose(result.kernel(), np.eye(3) / 3, atol=1e-3)


def test_appendix_b_without_corrections():
    """In the printed order two projections end at (1/5, 7/15, 1/3), which meets all rows; the second row first: the optimum."""
    prior, rows = appendix_b()
    result = boosted(prior, rows, DefiniteBoost(order="cyclic", corrected=False))
    assert np.allclose(result.kernel(), np.diag([1 / 5, 7 / 15, 1 / 3]), atol=2e-3)
    assert (result.status, result.exit_reason) == ("FEASIBLE", "TOLERANCE")
    assert result.trace["row"].tolist() == [0, 1]
    assert result.max_violation <= 1e-9
    best = boosted(prior, rows, DefiniteBoost())
    assert result.objective > best.objective * 1.1
    assert result.dual_bound <= best.objective
    swapped = boosted(prior, rows.select([1, 0, 2]), DefiniteBoost(order="cyclic", corrected=False))
    assert np.allclose(swapped.kernel(), np.eye(3) / 3, atol=1e-3)
    cyclic = boosted(prior, rows, CyclicProjection(corrected=False))  # here the trace is one of the rows
    assert cyclic.status == "FEASIBLE"
    assert cyclic.objective > best.objective * 1.1


# Small numbers, so that all is said here: v'Wv <= b for three vectors, the nearest matrix to a diagonal one of trace 1.
VECTORS, BOUNDS = np.array([[1.0, 2.0, 2.0], [1.0, 1.0, 1.0], [1.0, 0.0, -2.0]]), [3.4, 0.9, 1.5]
STORED = (
    np.diag([0.1, 0.2, 0.7]),
    trace(1.0) + Constraints.linear(np.einsum("ij,ik->ijk", VECTORS, VECTORS), BOUNDS, "<="),
)


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.corrected], ids=by_kind)
def test_as_published_it_ends_feasible_and_not_at_the_projection(kind):
    """Every order and projection: all rows hold, the gap is honest, and the matrix is not the nearest one."""
    best = boosted(*STORED, "dual_newton", tol=1e-10)
    result = boosted(*STORED, kind)
    assert best.status == "OPTIMAL"
    assert (result.status, result.exit_reason) == ("FEASIBLE", "TOLERANCE")
    assert result.max_violation <= 1e-9
    assert result.objective > best.objective * 1.1
    assert distance(result.kernel(), best.kernel()) > 0.1
    assert result.dual_bound <= best.objective <= result.objective
    assert result.gap == pytest.approx((result.objective - result.dual_bound) / result.unit, rel=1e-6)
    right = boosted(*STORED, DefiniteBoost(projection=kind.projection, order=kind.order), tol=1e-10)
    assert right.status == "OPTIMAL"
    assert distance(right.kernel(), best.kernel()) < 1e-4


@pytest.mark.parametrize("problem", HARD, ids=repr)
def test_as_published_ends_feasible(problem):
    """Never OPTIMAL by mistake, on rows of every relation."""
    prior, rows, settings = problem.arguments()
    best = nearest_kernel(prior, rows, **settings, tol=1e-10)
    for kind in KINDS:
        if kind.corrected:
            continue
        result = nearest_kernel(prior, rows, **settings, solver=kind)
        assert result.status in ("FEASIBLE", "OPTIMAL"), by_kind(kind)
        assert result.exit_reason == "TOLERANCE"
        assert result.objective >= best.objective - 1e-7
        assert result.dual_bound <= best.objective + 1e-9
        assert (result.status == "OPTIMAL") == (result.gap <= 1e-6)


# ---------------------------------------------------------------- the record
@pytest.mark.parametrize("kind", KINDS, ids=by_kind)
def test_trace(kind, rng):
    """The multipliers are the sums of the steps; a correction never leaves its cone; exact projections count evaluations."""
    prior, rows = case(rng)
    result = boosted(prior, rows, kind, max_iter=20, tol=1e-12)
    found = result.trace
    assert set(found) == {"row", "step", "log_dual_objective", "log_bound", "evaluations"}
    steps = len(found["row"])
    assert {len(series) for series in found.values()} == {steps}
    assert 0 < steps <= 30 * result.n_iter
    assert found["row"].dtype.kind == found["evaluations"].dtype.kind == "i"
    assert ((found["evaluations"] > 0) == (kind.projection == "exact")).all()
    total = np.zeros(31)
    for row, step in zip(found["row"], found["step"]):
        total[row] += step
        if kind.corrected:
            assert total[row] * rows.sense[row] >= 0
    assert (found["row"] != 0).all()  # the trace is not a row to project on
    if kind.order == "cyclic":
        ahead = np.diff(found["row"])
        assert (ahead <= 0).sum() <= result.n_iter - 1
    # the record ends at the log of the dual objective, which is the dual bound of a prior of trace 1
    assert -found["log_dual_objective"][-1] == pytest.approx(result.history[-1].dual_bound, abs=1e-9)


def test_steps_in_blocks(rng):
    """block=1 records every step; the steps are those of a longer block."""
    prior, rows = case(rng)
    one = boosted(prior, rows, DefiniteBoost(block=1), max_iter=25, tol=1e-14)
    ten = boosted(prior, rows, DefiniteBoost(block=5), max_iter=5, tol=1e-14)
    assert (one.n_iter, ten.n_iter, len(one.history)) == (25, 5, 26)
    assert np.allclose(one.trace["step"], ten.trace["step"], rtol=1e-12, atol=1e-15)
    bounds = np.array([r.dual_bound for r in one.history])
    assert (np.diff(bounds[np.isfinite(bounds)]) >= -1e-12).all()


def test_exact_steps_are_fewer():
    """Kulis 2009, section 7.1, in the small: not 11 cycles against 3220, but fewer; one row after the other, as there."""
    cycles = np.zeros((5, 2), int)
    for seed in range(5):
        prior, rows = case(np.random.default_rng(seed), c=60)
        for k, projection in enumerate(("exact", "approximate")):
            result = boosted(prior, rows, DefiniteBoost(order="cyclic", projection=projection))
            assert result.status == "OPTIMAL"
            cycles[seed, k] = result.n_iter
    assert cycles[:, 0].sum() < cycles[:, 1].sum()


# ---------------------------------------------------------------- how it stops
@pytest.mark.parametrize("kind", KINDS, ids=by_kind)
def test_limits(kind, rng):
    prior, rows = case(rng)
    none = boosted(prior, rows, kind, max_iter=0)
    assert (none.n_iter, none.exit_reason) == (0, "MAX_ITER")
    assert none.trace["row"].shape == (0,)
    brief = boosted(prior, rows, kind, max_seconds=1e-9, tol=1e-14)
    assert brief.exit_reason in ("TIME", "TOLERANCE")
    seen = []
    stopped = boosted(prior, rows, kind, callback=lambda r: seen.append(r) or len(seen) == 2, tol=1e-14)
    assert (stopped.exit_reason, stopped.n_iter) == ("INTERRUPTED", 1)

    def hit(record):
        if record.iteration == 1:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="nearest_kernel was interrupted after"):
        hurt = boosted(prior, rows, kind, callback=hit, tol=1e-14)
    assert hurt.exit_reason == "INTERRUPTED"
    assert len(hurt.trace["row"]) > 0


@pytest.mark.parametrize("kind", RIGHT, ids=by_kind)
def test_warm_start(kind, rng):
    prior, rows = case(rng)
    cold = boosted(prior, rows, kind, tol=1e-9)
    again = boosted(prior, rows, kind, warm_start=cold, tol=1e-9)
    assert cold.status == again.status == "OPTIMAL"
    assert again.n_iter <= 1 < cold.n_iter
    fewer = boosted(prior, rows.select(slice(0, 20)), "dual_newton", tol=1e-9)
    more = boosted(prior, rows, kind, warm_start=fewer, tol=1e-9)
    assert more.status == "OPTIMAL"
    assert distance(more.kernel(), cold.kernel()) < 1e-3
    # the record starts at the dual objective of the multipliers given, log tr exp(log W1 - sum gamma C)
    first = again.trace["log_dual_objective"][:1]
    assert np.allclose(first, -cold.objective, atol=1e-6)


def test_saved_with_its_trace(tmp_path, rng):
    prior, rows = case(rng)
    result = boosted(prior, rows, DefiniteBoost())
    bregmat.save(tmp_path / "result.bm", result)
    back = bregmat.load(tmp_path / "result.bm")
    for key, series in result.trace.items():
        assert np.array_equal(back.trace[key], series)
        assert back.trace[key].dtype == series.dtype
    assert back.solver == "definite_boost"


# ---------------------------------------------------------------- infeasible and degenerate rows
@pytest.mark.parametrize("kind", KINDS, ids=by_kind)
def test_infeasible(kind, rng):
    """Two rows that contradict each other among 30, and a distance that the trace forbids: both are proven."""
    prior, rows = case(rng)
    rows = rows.select((rows.index[:, :2] != 0).all(axis=1))
    both = pair([0, 0], [1, 1], [0.1, 0.3], ["<=", ">="])
    result = boosted(prior, rows + both, kind)
    assert result.status == "INFEASIBLE"
    assert result.conflict.tolist() == [len(rows.bound), len(rows.bound) + 1]
    far = boosted(np.eye(3), trace(1.0) + pair(0, 1, 2.1, ">="), kind)
    assert far.status == "INFEASIBLE"
    assert far.conflict.tolist() == [0, 1]


@pytest.mark.parametrize("kind", KINDS, ids=by_kind)
@pytest.mark.parametrize("sense", ["<=", "=="])
def test_must_link(kind, sense):
    rows = trace(1.0) + pair(0, 1, 0.0, sense) + pair(1, 2, 0.5, "<=")
    result = boosted(np.eye(3), rows, kind)
    assert result.status == "OPTIMAL"
    assert result.values[1] <= 1e-12
    assert result.objective == pytest.approx(boosted(np.eye(3), rows, "dual_newton").objective, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=by_kind)
def test_duplicates(kind):
    rows = trace(1.0) + pair([0, 0, 1], [1, 1, 0], [0.3, 0.4, 0.3], "<=") + pair(0, 1, 0.3, "==")
    result = boosted(np.eye(3), rows, kind)
    assert result.status == "OPTIMAL"
    assert result.values[1] == pytest.approx(0.3, rel=1e-6)
    # the nearest of trace 1: the rest of the trace is shared by the two other directions
    v = np.array([1.0, -1.0, 0.0])
    expected = 0.15 * np.outer(v, v) / 2 + 0.425 * (np.eye(3) - np.outer(v, v) / 2)
    assert np.allclose(result.kernel(), expected, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS, ids=by_kind)
def test_nothing_to_do(kind):
    """The trace alone, rows that hold at the prior, and a prior of order 1."""
    for prior, rows in (
        (np.eye(3), trace(1.0)),
        (np.eye(3) / 3, trace(1.0) + pair([0, 1], [1, 2], 1.0, "<=")),
        (np.eye(1) * 2, trace(1.0)),
        (np.eye(1) * 2, trace(1.0) + Constraints.diagonal([1.0])),
    ):
        result = boosted(prior, rows, kind)
        assert result.status == "OPTIMAL"
        assert len(result.trace["row"]) == 0
        assert result.kernel() == pytest.approx(prior / np.trace(prior), abs=1e-12)


@pytest.mark.parametrize("kind", RIGHT, ids=by_kind)
def test_odd_rows(kind, rng):
    """Bounds of 0 and below, similarities, comparisons, rank-two rows, rows of zeros, a loose bound on the trace."""
    X = rng.normal(size=(7, 5))
    rows = (
        Constraints.linear([np.zeros((7, 7)), np.eye(7)], [0.5, 3.0], "<=")
        + Constraints.comparison([0, 2], [1, 3], [4, 0], [5, 6], [0.0, 0.1])
        + trace(1.0)
        + Constraints.similarity([0, 1], [2, 3], [0.0, -0.02], ["<=", "=="])
        + Constraints.linear([np.diag([1.0, 0, 0, -1, 0, 0, 0])], 0.0, "==")
    )
    result = boosted(Factor(X), rows, kind, tol=1e-8)
    best = boosted(Factor(X), rows, "dual_newton", tol=1e-8)
    assert result.status == best.status == "OPTIMAL"
    assert distance(result.kernel(), best.kernel()) < 1e-3
    assert (result.dual[:2] == 0).all()


@pytest.mark.parametrize("scale", [2.0**-27, 2.0**27])  # no rounding, which would decide between rows alike
@pytest.mark.parametrize("kind", RIGHT, ids=by_kind)
def test_scales(kind, scale, rng):
    """Prior, trace and bounds times a number: the same steps on C_j, since they refer to trace one."""
    prior, rows = case(rng)
    scaled = Constraints(rows.relation, rows.index, rows.bound * scale, rows.sense, rows.weight)
    here = boosted(prior, rows, kind, max_iter=3, tol=1e-16)
    there = boosted(prior * scale, scaled, kind, max_iter=3, tol=1e-16 * min(scale, 1.0))
    assert here.n_iter == there.n_iter == 3
    assert np.array_equal(there.trace["row"], here.trace["row"])
    assert np.allclose(there.trace["log_bound"], here.trace["log_bound"], atol=1e-9)
    assert np.allclose(there.trace["log_dual_objective"], here.trace["log_dual_objective"], atol=1e-9)


def test_a_copy_of_a_row_that_was_just_met_takes_no_step(rng):
    """What is left of its violation is rounding, of either sign: no decision may hang on it."""
    for _ in range(20):
        prior, rows = case(rng, c=15)
        order = np.r_[0, np.repeat(np.arange(1, rows.n_constraints), 2)]
        solver = DefiniteBoost(order="cyclic", projection="exact", root_tol=1e-14)
        steps = boosted(prior, rows.select(order), solver, max_iter=1, tol=1e-16).trace["row"]
        assert len(steps) and not np.isin(steps[steps > 0], np.arange(2, len(order), 2)).any()


@pytest.mark.parametrize("kind", RIGHT, ids=by_kind)
def test_prior_far_from_the_trace(kind, rng):
    """The prior is scaled to the trace first, which costs no step: the same run, whatever its size."""
    prior, rows = case(rng)
    here = boosted(prior, rows, kind, max_iter=3, tol=1e-30)
    for scale in (1e-8, 1e8):
        there = boosted(prior * scale, rows, kind, max_iter=3, tol=1e-30)
        assert np.allclose(there.trace["step"], here.trace["step"], rtol=1e-6, atol=1e-9)
        assert distance(there.kernel(), here.kernel()) < 1e-6


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e3, 1e5])
def test_trace_of_a_factor_is_recognised(condition, rng):
    """In the coordinates of a factor the trace is the identity up to rounding, which grows with the condition of the factor."""
    for _ in range(5):
        U, V = (np.linalg.qr(rng.normal(size=(n, 5)))[0] for n in (9, 5))
        G = U @ np.diag(np.geomspace(1.0, 1 / condition, 5)) @ V.T
        d = ((G[0] - G[1]) ** 2).sum()
        result = boosted(Factor(G), trace(np.sum(G * G)) + pair(0, 1, 0.7 * d, "<="), DefiniteBoost())
        assert result.status == "OPTIMAL"
