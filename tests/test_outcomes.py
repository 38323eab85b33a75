"""One short test per status and exit reason, and what remains of a run that was stopped."""

import importlib
import itertools
import pickle
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bregmat
from bregmat import Constraints, ExitReason, Result, SolverError, Status, check, nearest_kernel, nearest_metric, verify
from bregmat.applications.simplex.problem import NearestDistribution
from bregmat.applications.simplex.solvers import VectorNewton
from bregmat.base.linalg import conjugate_gradients
from bregmat.base.threads import time_limit
from bregmat.certificates import infeasibility
from bregmat.certificates.problem import build_problem
from bregmat.certificates.restoration import restore
from bregmat.coordinates.priors import iterate_at_prior, kernel_coordinates, metric_coordinates
from bregmat.engine.loop import Run, RunLog
from bregmat.engine.problem import Certificate, Proof
from bregmat.solvers.base import MatrixState
from bregmat.solvers.mirror_newton import MirrorNewton
from cases import DIVERGENCES, INFEASIBLE, PROBLEMS, SOFT_SOLVERS, random_pairs
from states import saved_and_loaded
from suite import matrices

NEVER = 1e-300  # a tolerance that no run reaches


@pytest.fixture
def points(rng):
    return rng.normal(size=(30, 5))


@pytest.fixture
def pairs(rng, points):
    return random_pairs(rng, points, 80)


class StubState(MatrixState):
    """Whatever is given."""

    def __init__(self, **values):
        vars(self).update(values)


class Stub:
    """A solver that stays at the prior, with what a test wants to happen at each step."""

    name = "stub"
    works_on = "objective"
    max_iter = 200

    def __init__(self, step=None, init=None, **changes):
        self._step, self._init, self._changes = step, init, changes

    def check(self, problem):
        self.problem = problem

    def init(self, problem, tol, start):
        if self._init:
            self._init()
        iterate = iterate_at_prior(problem.divergence, problem.t0)
        values = problem.operator.congruence(iterate.F).values_diagonal(iterate.x)
        here = {"iterate": iterate, "dual": np.zeros(problem.c), "values": values}
        return StubState(**here, objective=0.0, signal=np.inf, stalled=False)

    def step(self, problem, state):
        return StubState(**(vars(state) | (self._step(state) if self._step else {}) | self._changes))


# ---------------------------------------------------------------- statuses
@pytest.mark.parametrize("divergence", [D.name for D in DIVERGENCES])
def test_optimal(points, pairs, divergence):
    result = nearest_metric(points, pairs, divergence=divergence, slack_weight=1.0, tol=1e-7)
    assert (result.status, result.exit_reason) == (Status.OPTIMAL, ExitReason.TOLERANCE)
    assert 0 <= result.gap <= 1e-7
    assert result.dual_bound <= result.objective
    assert check(result) is result


def test_feasible(points, pairs):
    result = nearest_metric(points, pairs, slack_weight=1.0, max_iter=1, tol=1e-12)
    assert (result.status, result.exit_reason) == (Status.FEASIBLE, ExitReason.MAX_ITER)
    assert 1e-12 < result.gap < np.inf
    assert result.factor.shape == (30, 5)


def test_unknown():
    hard = Constraints.sq_distance(0, 1, 1e-4, "<=")  # violated beyond restoration at the prior
    result = nearest_kernel(np.eye(2), hard, max_iter=0)
    assert (result.status, result.exit_reason) == (Status.UNKNOWN, ExitReason.MAX_ITER)
    assert result.gap == np.inf
    assert result.max_violation == pytest.approx((2 - 1e-4) / 1e-4)


def test_missed_rows_cost_what_the_weights_of_the_bound_say():
    """The better point of two certificates beside the higher bound of the other: its gap was negative."""
    light = Certificate(dual=np.array([1.0]), objective=1.0, dual_bound=0.5, upper=1.0 + 1e-9, missed=np.array([1e-9]))
    heavy = Certificate(dual=np.array([-1e6]), objective=1.01, dual_bound=1.0005, upper=1.012, missed=np.array([2e-9]))
    for best in (light.joined(heavy), heavy.joined(light)):
        assert (best.objective, best.dual_bound) == (1.0, 1.0005)
        assert best.upper == pytest.approx(1.001, rel=1e-12)
        assert best.gap > 0


def test_a_point_with_huge_weights_keeps_its_objective_beside_others():
    """Rows missed at weights of 1e38 cost 1e27, beside which an objective of 1e11 was lost: the gap of other weights was 0."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        huge, dual = 10.0 ** rng.uniform(0, 40, 5), rng.uniform(0, 1e3, 5)
        missed, objective = 1e-11 * rng.random(5), 10.0 ** rng.uniform(-3, 12)
        point = Certificate(
            dual=huge, objective=objective, dual_bound=-1.0, upper=objective + float(huge @ missed), missed=missed
        )
        exact = Fraction(objective) + sum(Fraction(m) * Fraction(x) for m, x in zip(dual, missed))
        assert Fraction(point.with_dual(dual, 0.5).upper) >= exact
        other = Certificate(dual=dual, objective=np.nan, dual_bound=0.5, upper=np.inf, missed=missed)
        best = point.joined(other)
        assert best.gap * best.unit >= float(Fraction(objective) - Fraction(best.dual_bound)) * (1 - 1e-12)


def test_a_bound_above_the_objective_by_more_than_rounding_proves_nothing():
    rounded = Certificate(dual=np.zeros(1), objective=1.0, dual_bound=1.0 + 1e-12, upper=1.0)
    assert rounded.gap == 0 and rounded.status(1e-6) is Status.OPTIMAL
    for tol in (1e-6, 1.0):
        wrong = replace(rounded, dual_bound=1.01)
        assert wrong.gap == np.inf and wrong.status(tol) is Status.FEASIBLE
        assert replace(rounded, upper=np.inf).status(tol) is Status.UNKNOWN


@pytest.mark.parametrize("problem", INFEASIBLE, ids=repr)
def test_infeasible(problem):
    """The proof, recomputed: weights of the right signs with a PSD sum that asks for less than nothing."""
    result = problem.solve()
    assert (result.status, result.exit_reason) == (Status.INFEASIBLE, ExitReason.CERTIFICATE)
    assert sorted(result.conflict) == list(problem.conflict)
    rows, y = problem.constraints, result.dual
    assert np.flatnonzero(y).tolist() == sorted(result.conflict)
    assert (rows.sense * y >= 0).all()
    single = np.eye(3)[:, :, None]  # values at e_k e_k' and e_k + e_l span the symmetric matrices
    diagonal = np.array([y @ rows.values(e) for e in single])
    sums = np.array([[y @ rows.values(e + f) for f in single] for e in single])
    A = (sums - diagonal[:, None] - diagonal) / 2
    A[np.diag_indices(3)] = diagonal
    assert y @ rows.bound < 0
    assert np.linalg.eigvalsh(A)[0] >= y @ rows.bound / 1e7  # every feasible kernel has a trace above 1e7
    with pytest.raises(SolverError, match=f"constraints: {', '.join(map(str, result.conflict))}") as caught:
        check(result)
    assert caught.value.result is result


def test_proofs_of_infeasibility_have_room():
    """A sum that was singular to 1e-12 was indefinite in other coordinates of an ill-conditioned prior."""
    rows = Constraints.trace(1.0) + Constraints.diagonal([1.001], [0])
    result = nearest_kernel(np.eye(3), rows, divergence="vonneumann")
    assert result.status is Status.INFEASIBLE
    y = result.dual
    assert y[0] + y[1] > 1e-10 * y[0]
    assert y @ rows.bound < 0


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("apart", [1e-4, 1e-5, 1e-6])
def test_a_similarity_above_the_trace_is_contradicted_beside_a_near_copy(divergence, apart):
    """``K_00 <= tr K``: UNKNOWN at matrices of 1e17 where the sum of the points had lost the difference, or weights off by 1e-9."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5, 9))
        X[1] = X[0] * (1.0 + apart * rng.normal(size=9))
        total = float((X * X).sum()) / 3.0
        rows = Constraints.diagonal([total * (1.0 + 10.0 ** rng.uniform(-4, 0))], [0]) + Constraints.trace(total)
        result = nearest_metric(X, rows, divergence=divergence)
        assert result.status == "INFEASIBLE"
        single, trace = map(Fraction, result.dual)
        # trace (sum of all x x') + single x_0 x_0' is PSD in exact arithmetic, and y . b < 0
        assert trace > 0 and single >= -trace
        assert single * Fraction(float(rows.bound[0])) + trace * Fraction(float(rows.bound[1])) < 0
        assert verify(result, X=X, constraints=rows, divergence=divergence).holds


@pytest.mark.parametrize("apart", [0.0, 1e-16, 1e-12, 1e-9, 1e-5, 1e-3])
@pytest.mark.parametrize("divergence", DIVERGENCES, ids=repr)
def test_points_that_are_nearly_equal_contradict_nothing(divergence, apart):
    """Places 3, 2 and 5, 1 that must be near and far: impossible where they coincide; where they do not, for a large matrix it is not."""
    X = np.eye(3)[[0, 1, 2, 0, 1, 2]] + apart * np.outer(range(6), [1.0, -1.0, 0.5])
    rows = Constraints.sq_distance([3, 2, 2], [5, 3, 1], [1.5, 2.5, 1.5], ["<=", ">=", "<="])
    result = nearest_metric(X, rows, divergence=divergence)
    assert (result.status == "INFEASIBLE") == (apart <= 1e-16)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=repr)
def test_structured_conflicts_name_exactly_what_contradicts(divergence):
    """Among many rows that hold: two pairs, a triangle, one row many times; one of several minimal sets each."""
    i, j = np.triu_indices(8, 1)
    met = Constraints.sq_distance(i, j, 50.0, "<=")

    def conflict(rows):
        return nearest_kernel(np.eye(8), rows, divergence=divergence).conflict.tolist()

    pair = Constraints.sq_distance([0, 0], [1, 1], [30.0, 29.0], [">=", "<="])
    other = Constraints.sq_distance([2, 2], [3, 3], [20.0, 19.0], [">=", "<="])
    assert conflict(met + pair + other + met) in ([28, 29], [30, 31])
    triangle = Constraints.sq_distance([0, 1, 0], [1, 2, 2], [1.0, 1.0, 4.1], ["<=", "<=", ">="])
    assert conflict(met + triangle + met) == [28, 29, 30]
    said = conflict(Constraints.sq_distance([0] * 20, [1] * 20, np.repeat([1.0, 1.5], 10), "=="))
    assert len(said) == 2 and said[0] < 10 <= said[1]
    at = np.arange(7)
    chain = Constraints.sq_distance(at, at + 1, 1.0, "<=") + Constraints.sq_distance(0, 7, 49.1, ">=")
    assert conflict(chain) == list(range(8))
    assert conflict(chain + Constraints.sq_distance(0, 2, 0.5, "<=")) == list(range(2, 9))  # a shorter way


@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_contradicts_itself_is_the_whole_conflict(seed):
    """A positive semidefinite row with a negative bound, among rows that hold."""
    rng = np.random.default_rng(seed)
    R, X = rng.integers(-3, 4, size=(6, 2)).astype(float), rng.normal(size=(6, 4))  # R R' has no rounding
    negative = Constraints.linear([R @ R.T], [-rng.uniform(1e-3, 1)], "<=")
    others = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [0.5, 1.0, 2.0], ["<=", ">=", "<="])
    result = nearest_metric(X, others + negative)
    assert (result.status, result.conflict.tolist()) == ("INFEASIBLE", [3])


@pytest.mark.parametrize("seed", [24, 39, 158, 204, 296, 599, 641, 714, 1412])
def test_conflicts_are_found_and_irreducible(seed):
    """Clear contradictions whose conflicts were reducible (the first five), or that ended UNKNOWN after 300 steps."""
    given = dict(matrices.contradictions(np.random.default_rng([seed, *b"contradictions"])).arguments)
    rows = given.pop("constraints")
    prior, nearest = (given.pop("X"), nearest_metric) if "X" in given else (given.pop("prior"), nearest_kernel)
    result = nearest(prior, rows, **given)
    assert result.status == "INFEASIBLE"
    assert np.flatnonzero(result.dual).tolist() == result.conflict.tolist()
    assert not verify(
        result, **(given | {"constraints": rows, "X" if nearest is nearest_metric else "prior": prior})
    ).problems
    for row in result.conflict:
        rest = np.setdiff1d(result.conflict, [row])
        assert nearest(prior, rows.select(rest), **given).status != "INFEASIBLE"


def test_unbounded_and_nonfinite_raise(points, pairs):
    result = nearest_metric(points, pairs, slack_weight=1.0)
    for change in ({"status": Status.UNBOUNDED}, {"exit_reason": ExitReason.NONFINITE}):
        with pytest.raises(
            SolverError, match=str(next(iter(change.values())).value if "status" in change else "overflowed")
        ):
            check(replace(result, **change))


# ---------------------------------------------------------------- exit reasons
def test_max_iter(points, pairs):
    result = nearest_metric(points, pairs, slack_weight=1.0, max_iter=2, tol=NEVER)
    assert result.exit_reason is ExitReason.MAX_ITER
    assert result.n_iter == 2
    with pytest.warns(ConvergenceWarning, match="MAX_ITER after 2 iterations.*tol 1e-300.*Allow more iterations"):
        assert check(result) is result


def test_time(points, pairs):
    result = nearest_metric(points, pairs, slack_weight=1.0, max_seconds=1e-9, tol=NEVER)
    assert (result.status, result.exit_reason) == (Status.FEASIBLE, ExitReason.TIME)
    assert result.n_iter == 0
    with pytest.warns(ConvergenceWarning, match="TIME.*max_seconds"):
        check(result)


@pytest.mark.parametrize("name", ["nearest", "semidefinite", "nnqp", "factors"])
def test_time_counts_from_the_beginning_of_a_call(name, monkeypatch, points, pairs, rng):
    """Also what is done before the first step, such as the test that a matrix is positive semidefinite."""
    A = rng.normal(size=(6, 6))
    calls = {
        "nearest": ("bregmat.nearest.build_problem", lambda: nearest_metric(points, pairs, max_seconds=0.04)),
        "semidefinite": (
            "bregmat.applications.semidefinite.program.bind",
            lambda: bregmat.semidefinite_program(A @ A.T, Constraints.trace(1.0), max_seconds=0.04),
        ),
        "nnqp": ("bregmat.quadratic.nnqp.as_start", lambda: bregmat.nnqp(A @ A.T, -np.ones(6), max_seconds=0.04)),
        "factors": (
            "bregmat.applications.correlation.nearest.read_input",
            lambda: bregmat.factor_correlation(np.corrcoef(A), 1, max_seconds=0.04),
        ),
    }
    path, call = calls[name]
    module, _, attribute = path.rpartition(".")
    module = importlib.import_module(module)
    step = getattr(module, attribute)
    monkeypatch.setattr(module, attribute, lambda *given, **named: time.sleep(0.05) or step(*given, **named))
    result = call()
    assert (result.exit_reason, result.n_iter) == (ExitReason.TIME, 0)
    assert result.seconds >= 0.05


def test_proofs_are_not_improved_when_the_time_is_over():
    """A proof with rows that it does not need is returned as it is."""
    row = Constraints.sq_distance(0, 1, 1.0, "<=") + Constraints.sq_distance(0, 1, 2.0, ">=")
    rows = row + Constraints.sq_distance([0, 1, 2], [2, 3, 3], 3.0, "<=")
    logdet = bregmat.LogDet()
    place, operator, _ = kernel_coordinates(np.eye(4), logdet).bind(rows)
    problem = build_problem(logdet, place.t0, operator, rows, None, np.inf)
    weights = np.array([1.0, -1.0, 1e-2, 1e-2, 1e-2])
    proof = Proof(weights, np.arange(5))
    assert infeasibility.irreducible(problem, infeasibility._pruned(problem, proof)).rows.tolist() == [0, 1]
    with time_limit(-1.0):
        assert infeasibility.irreducible(problem, infeasibility._pruned(problem, proof)) is proof


def test_a_hessian_of_many_columns_keeps_the_time_limit(rng):
    """It is computed in blocks; without it, neither a step nor a restoration is done."""
    A = rng.random((3, 20_000))
    problem, _ = NearestDistribution.build(np.ones(20_000), A, A @ rng.dirichlet(np.ones(20_000)), "==", 1.0)
    solver = VectorNewton()
    state = solver.init(problem, 1e-9, None)
    assert state.p != pytest.approx(problem.b, rel=1e-6)
    with time_limit(-1.0):
        assert solver.step(problem, state) is state
        assert problem.certify(state).max_violation == problem.worst(state.p) > 0.0
    assert solver.step(problem, state).objective > state.objective
    assert problem.certify(state).max_violation < problem.worst(state.p)


def test_iterations_inside_of_a_step_keep_the_time_limit(rng):
    """Restoration and conjugate gradients stop after the limit, and start again without one."""
    G = rng.normal(size=(12, 12))
    b, H = rng.normal(size=12), G @ G.T

    def solved():
        return conjugate_gradients(lambda v: H @ v, b, goal=1e-8, max_iter=500)

    X = rng.normal(size=(20, 5))
    rows = Constraints.sq_distance(0, np.arange(1, 6), 1.1 * ((X[0] - X[1:6]) ** 2).sum(axis=1), "==")
    place, operator, _ = metric_coordinates(X, None, bregmat.LogDet()).bind(rows)
    problem = build_problem(bregmat.LogDet(), place.t0, operator, rows, None, np.inf)
    start = iterate_at_prior(problem.divergence, problem.t0)
    values = problem.operator.values_diagonal(problem.prior)
    with time_limit(-1.0):
        assert solved().steps == 0
        assert restore(problem, start, values, np.ones(problem.c)) is None
    assert solved().steps > 0
    assert restore(problem, start, values, np.ones(problem.c)) is not None


@pytest.mark.parametrize("name", SOFT_SOLVERS)
def test_stalled_at_an_unreachable_tolerance(points, pairs, name):
    """Rounding ends every solver: it must say so, and the certificate stays true."""
    result = nearest_metric(points, pairs, slack_weight=1.0, solver=name, tol=NEVER, max_iter=300)
    assert result.exit_reason in (ExitReason.STALLED, ExitReason.TOLERANCE)  # a gap of exactly 0 may be met
    assert result.gap <= 1e-9
    assert result.n_iter < 300


def test_stalled_by_a_solver_that_says_so(points, pairs):
    result = nearest_metric(points, pairs, slack_weight=1.0, solver=Stub(stalled=True))
    assert (result.status, result.exit_reason, result.n_iter) == (Status.FEASIBLE, ExitReason.STALLED, 1)
    with pytest.warns(ConvergenceWarning, match="STALLED.*another solver"):
        check(result)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["values", "dual"])
def test_nonfinite(points, pairs, part, bad):
    """A step that overflows ends the run; the last finite point is kept. A NaN never counts as converged."""

    def step(state):
        return {part: np.full(80, bad), "signal": np.nan, "objective": np.nan}

    result = nearest_metric(points, pairs, slack_weight=1.0, solver=Stub(step))
    assert result.exit_reason is ExitReason.NONFINITE
    assert result.status is Status.FEASIBLE
    assert np.isfinite(result.factor).all()
    assert np.isfinite([result.objective, result.dual_bound]).all()
    with pytest.raises(SolverError, match="overflowed"):
        check(result)


def test_nan_in_the_signal_alone_is_no_convergence(points, pairs):
    result = nearest_metric(points, pairs, slack_weight=1.0, solver=Stub(signal=np.nan, objective=np.nan), max_iter=3)
    assert (result.status, result.exit_reason) == (Status.FEASIBLE, ExitReason.MAX_ITER)


def test_nan_proves_nothing(points, pairs):
    found = nearest_metric(points, pairs, slack_weight=1.0)
    proof = {"dual": found.dual, "objective": found.objective, "dual_bound": found.dual_bound, "size": found.unit}
    certificate = Certificate(**proof, upper=found.objective)
    assert certificate.status(1e-6) is Status.OPTIMAL
    assert replace(certificate, upper=np.nan).status(1e6) is not Status.OPTIMAL
    assert replace(certificate, dual_bound=np.nan).status(1e6) is not Status.OPTIMAL


@pytest.mark.parametrize("name", SOFT_SOLVERS)
def test_interrupted_by_the_callback(points, pairs, name):
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 3

    result = nearest_metric(points, pairs, slack_weight=1.0, solver=name, tol=NEVER, callback=stop)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert result.n_iter == 2
    assert [replace(r, seconds=0.0) for r in seen] == [replace(r, seconds=0.0) for r in result.history]
    assert result.status is Status.FEASIBLE
    assert check(result) is result  # stopped on request: no warning


@pytest.mark.parametrize("hard", [False, True])
def test_interrupted_by_the_keyboard(points, pairs, hard):
    def press(record):
        if record.iteration == 1:
            raise KeyboardInterrupt

    given = {} if hard else {"slack_weight": 1.0}
    constraints = Constraints.sq_distance(0, 1, 0.01, "<=") if hard else pairs
    with pytest.warns(RuntimeWarning, match="nearest_metric was interrupted after"):
        result = nearest_metric(points, constraints, callback=press, **given)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert result.n_iter == 1
    assert np.isfinite(result.factor).all()
    assert np.isfinite(result.objective)


def test_interrupted_inside_a_step_keeps_the_best_point(points, pairs):
    def press(state):
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="nearest_metric was interrupted after"):
        result = nearest_metric(points, pairs, slack_weight=1.0, solver=Stub(press))
    assert (result.status, result.exit_reason) == (Status.FEASIBLE, ExitReason.INTERRUPTED)
    assert result.objective > 0


def test_interrupted_before_there_is_anything_to_keep(points, pairs):
    def press():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest_metric(points, pairs, slack_weight=1.0, solver=Stub(init=press))


def test_other_errors_of_a_callback_are_not_swallowed(points, pairs):
    def fail(record):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        nearest_metric(points, pairs, slack_weight=1.0, callback=fail)


def test_what_is_left_open_is_named_with_figures():
    missed = nearest_kernel(np.eye(3), Constraints.sq_distance([0, 0], [1, 2], [1.0, 1e-4], "<="), max_iter=0)
    assert missed.reason == "Hard constraint 1 is missed most: its value 2 is off its bound by 2e+04 of it."
    assert ("left open", missed.reason) in missed.certificate_rows()
    with pytest.warns(ConvergenceWarning, match="Hard constraint 1 is missed most.* Allow more iterations"):
        check(missed)
    rows = Constraints.sq_distance([0, 0, 1], [1, 2, 2], [0.1, 5.0, 0.3], ["<=", ">=", "<="])
    early = nearest_kernel(np.eye(3), rows, slack_weight=1.0, max_iter=0)
    assert early.reason == f"The gap is {early.gap:.2g}, which is {early.gap / 1e-6:.2g} times the tolerance."
    spread = nearest_kernel(np.eye(3), rows, slack_weight=[1e-3, 1e7, 1.0], max_iter=1)
    assert "Slack weights span a factor of 1e+10" in spread.reason
    assert saved_and_loaded(spread).reason == spread.reason
    exact = nearest_kernel(np.eye(3), rows, slack_weight=1e3, tol=1e-17)
    assert (exact.status, exact.exit_reason) == ("FEASIBLE", "STALLED")
    assert "Rounding limits it: these are" in exact.reason
    unbounded = replace(early, dual_bound=-np.inf, gap=np.inf)
    assert unbounded.reason == "No lower bound of the objective is known."
    outside = replace(missed, max_violation=0.0, objective=np.inf)
    assert outside.reason == "The objective of the matrix is inf: no finite upper bound is known."
    assert nearest_kernel(np.eye(3), rows, slack_weight=1.0).reason == ""


def test_every_reason_has_advice_and_every_status_a_meaning():
    assert all(reason.advice.endswith(".") for reason in ExitReason)
    assert all(status.meaning.endswith(".") for status in Status)
    assert [str(Status.OPTIMAL), str(ExitReason.TIME)] == ["OPTIMAL", "TIME"]


# ---------------------------------------------------------------- history
@pytest.mark.parametrize("name", SOFT_SOLVERS)
@pytest.mark.parametrize("divergence", [D.name for D in DIVERGENCES])
def test_history(points, pairs, name, divergence):
    refusals = {
        (
            "cyclic_projection",
            divergence not in ("logdet", "vonneumann"),
        ): "needs compiled projections onto one constraint .* .got '",
        ("mirror_descent", divergence == "frobenius"): "needs soft rows and a link that is one to one",
    }
    if (name, True) in refusals:
        with pytest.raises(TypeError, match=refusals[name, True]):
            nearest_metric(points, pairs, divergence=divergence, slack_weight=5.0, solver=name)
        return
    given = {"divergence": divergence, "slack_weight": 5.0, "solver": name, "callback": lambda record: False}
    result = nearest_metric(points, pairs, **given)
    records = result.history
    assert [r.iteration for r in records] == list(range(result.n_iter + 1))
    # plain numbers to print
    assert not any(isinstance(value, np.generic) for r in records for value in vars(r).values())
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(records))
    assert records[-1].seconds <= result.seconds
    bounds = [r.dual_bound for r in records]
    # every objective is above every bound: both hold for the same problem
    assert max(bounds) <= min(r.objective for r in records) + 1e-9
    assert result.dual_bound == pytest.approx(max(bounds), rel=1e-12)  # the best of all is kept
    if name == "mirror_newton":  # the others follow a path of easier problems
        assert all(b.objective <= a.objective + 1e-12 * abs(a.objective) for a, b in itertools.pairwise(records))
    assert result.gap <= 1e-6
    assert records[-1].gap <= 1e-5  # the proof may join an earlier matrix with the last bound


def test_watching_does_not_change_the_run(points, pairs):
    plain = nearest_metric(points, pairs, slack_weight=1.0)
    watched = nearest_metric(points, pairs, slack_weight=1.0, callback=lambda record: None)
    assert watched.n_iter <= plain.n_iter  # a certificate at every step may prove it earlier
    assert watched.objective == pytest.approx(plain.objective, rel=1e-6)


# ---------------------------------------------------------------- warm start
@pytest.mark.parametrize("name", ["mirror_newton", "dual_newton"])
@pytest.mark.parametrize("divergence", [D.name for D in DIVERGENCES])
def test_warm_start(points, pairs, name, divergence):
    given = {"divergence": divergence, "slack_weight": 1.0, "solver": name}
    cold = nearest_metric(points, pairs, **given)
    dual = cold.dual.copy()
    warm = nearest_metric(points, pairs, warm_start=cold, **given)
    assert warm.status is Status.OPTIMAL
    assert warm.n_iter < cold.n_iter
    assert (cold.dual == dual).all()  # copied, not used in place
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


@pytest.mark.parametrize("name", ["mirror_newton", "dual_newton"])
def test_warm_start_with_appended_rows(points, pairs, rng, name):
    more = pairs + random_pairs(rng, points, 3)
    given = {"slack_weight": 1.0, "solver": name}
    cold, first = nearest_metric(points, more, **given), nearest_metric(points, pairs, **given)
    warm = nearest_metric(points, more, warm_start=first, **given)
    assert warm.status is Status.OPTIMAL
    assert warm.n_iter < cold.n_iter
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


@pytest.mark.parametrize(
    "problem", [p for p in PROBLEMS if p.name in ("nearer", "farther", "diagonal", "trace")], ids=repr
)
def test_warm_start_with_hard_rows(problem):
    cold = problem.solve()
    warm = problem.solve(warm_start=cold)
    assert warm.status is Status.OPTIMAL
    assert warm.n_iter <= 1  # hard rows are certified after a step, not before
    assert warm.objective == pytest.approx(problem.objective, abs=1e-6 * max(1.0, problem.objective))


def test_interrupted_run_goes_on(points, pairs):
    part = nearest_metric(points, pairs, slack_weight=1.0, max_iter=3, tol=1e-9)
    rest = nearest_metric(points, pairs, slack_weight=1.0, warm_start=part, tol=1e-9)
    assert rest.status is Status.OPTIMAL


# ---------------------------------------------------------------- results as files
SAVED = [p for p in PROBLEMS if p.name in ("nearer", "slack-10.0", "must-link")] + INFEASIBLE[:1]


@pytest.mark.parametrize("problem", SAVED, ids=repr)
def test_saved_and_loaded_to_the_same_bits(problem, tmp_path):
    result = problem.solve(max_iter=40)
    bregmat.save(tmp_path / "first.bm", result)
    again = bregmat.load(tmp_path / "first.bm")
    bregmat.save(tmp_path / "second.bm", again)
    assert (tmp_path / "first.bm").read_bytes() == (tmp_path / "second.bm").read_bytes()
    assert isinstance(again, Result)
    assert repr(again) == repr(result)
    assert again.history == result.history or any(np.isnan(r.gap) for r in result.history)
    for name in ("factor", "dual", "values", "violation", "B"):
        assert getattr(again, name).tobytes() == getattr(result, name).tobytes(), name
    assert (again.conflict is None) == (result.conflict is None)
    assert pickle.loads(pickle.dumps(result)).kernel().tobytes() == again.kernel().tobytes()


def test_saved_metric_with_a_span_transforms_the_same(tmp_path, rng):
    X = rng.normal(size=(6, 200))
    result = nearest_metric(X, random_pairs(rng, X, 4), slack_weight=1.0)
    bregmat.save(tmp_path / "metric.bm", result)
    again = bregmat.load(tmp_path / "metric.bm")
    assert np.allclose(again.transform(X), result.transform(X), rtol=1e-13)
    with pytest.raises(ValueError, match="data is not kept"):
        _ = again.factor


def test_interrupted_while_the_next_solver_starts(points, pairs, monkeypatch):
    """Ctrl-C between two solvers of "auto" keeps what the first one found."""
    newton_step = MirrorNewton.step

    # gives up before rounding ends it: with luck that is at a gap of exactly 0, which is done
    def step(solver, problem, state):
        new = newton_step(solver, problem, state)
        return replace(new, stalled=new.signal <= 1e-6 * new.objective)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(MirrorNewton, "step", step)
    monkeypatch.setattr("bregmat.solvers.dual_newton.DualNewton.init", interrupt)
    with pytest.warns(RuntimeWarning, match="nearest_metric was interrupted after"):
        result = nearest_metric(points, pairs, slack_weight=1.0, tol=NEVER)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert result.gap <= 1e-6
    assert result.solver == "mirror_newton"


@pytest.mark.parametrize(("left", "steps"), [(1.0, 7), (0.8, 7), (0.7, 12), (1e-3, 12)])
def test_a_solver_keeps_its_turn_while_its_signal_falls_fast(points, pairs, monkeypatch, left, steps):
    """A million raw pairs were taken from dual Newton after 15 steps, five before its end."""
    first = Stub(step=lambda state: {"signal": min(state.signal, 1e30) * left})
    monkeypatch.setattr("bregmat.nearest.plan_of", lambda *_: [(first, 6), (Stub(stalled=True), 12)])
    result = nearest_metric(points, pairs, slack_weight=1.0, tol=NEVER)
    assert result.n_iter == steps  # its share are 6; the other one stops after its first


# ---------------------------------------------------------------- a reason that is true of what is returned
def flat_metric(seed, divergence):
    """Distances in the plane of five points in four dimensions, whose weights in the bound are as large as rounding allows."""
    rng = np.random.default_rng(seed)
    X, goal = rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    i, j = np.triu_indices(5, 1)
    rows = Constraints.sq_distance(i, j, ((goal[i] - goal[j]) ** 2).sum(axis=1), "==")
    return nearest_metric(X, rows, divergence=divergence, tol=1e-6)


def test_the_reason_of_a_run_follows_from_its_certificate():
    """A run that a limit ends is TOLERANCE only for the tolerance that its certificate proves, and keeps its own reason otherwise."""
    certificate = Certificate(dual=np.zeros(1), objective=1.0, dual_bound=1.0 - 1e-7, upper=1.0)
    for reason in (ExitReason.MAX_ITER, ExitReason.TIME, ExitReason.STALLED):
        run = Run(RunLog(), certificate, 1e-6, reason, "stub")
        assert (run.status, run.exit_reason) == (Status.OPTIMAL, ExitReason.TOLERANCE)
        further = replace(run, tol=1e-8)
        assert (further.status, further.exit_reason) == (Status.FEASIBLE, reason)
    own = Run(RunLog(), certificate, 1e-8, ExitReason.TOLERANCE, "stub", by_own_rule=True)
    assert (own.exit_reason, replace(own, by_own_rule=False).exit_reason) == (ExitReason.TOLERANCE, ExitReason.STALLED)
    proof = Proof(np.ones(1), np.arange(1))
    infeasible = replace(own, proof=proof, reason=ExitReason.CERTIFICATE)
    assert (infeasible.status, infeasible.exit_reason) == (Status.INFEASIBLE, ExitReason.CERTIFICATE)


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_the_tolerance_is_met_where_a_result_is_optimal_and_there_alone(divergence):
    results = [flat_metric(seed, divergence) for seed in range(20)]
    for result in results:
        assert (
            (result.exit_reason is ExitReason.TOLERANCE) == (result.gap <= result.tol) == (result.status == "OPTIMAL")
        )
