"""The interior-point solver on heavy slack weights: its certificate, computed again from scratch."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from bregmat import Constraints, Squared, SquaredHinge, Status, nearest_kernel, nearest_metric
from bregmat.certificates.problem import build_problem
from bregmat.engine.loop import solve
from bregmat.objective.divergences import DIVERGENCES
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import PairGraph, RankOneRows
from bregmat.solvers import interior_point, newton_system, preconditioners
from bregmat.solvers.cone_scalings import HIGHEST, LOWEST, LogDetScaling, SlackScaling, corrections
from bregmat.solvers.interior_point import InteriorPoint
from bregmat.solvers.path_equations import RelaxedBounds
from verified_calls import verify_outcome

NAMES = ("logdet", "vonneumann", "frobenius")


def wine_pairs(scaled, n_pairs=60):
    """Pairs of wines with an upper bound for one class and a lower bound for two, and their vectors of differences."""
    rng = np.random.default_rng(5)
    X, y = load_wine(return_X_y=True)
    if scaled:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    i = rng.integers(0, len(X), n_pairs)
    j = (i + rng.integers(1, len(X), n_pairs)) % len(X)
    sq = ((X[i] - X[j]) ** 2).sum(axis=1)
    low, high = np.percentile(sq, [5, 95])
    same = y[i] == y[j]
    sense = np.where(same, "<=", ">=")
    return X, Constraints.sq_distance(i, j, np.where(same, low, high), list(sense)), X[i] - X[j], same


def problem_of(divergence, X, constraints, slack_weight, loss=None):
    """The problem in Mahalanobis form with the identity as prior."""
    D = DIVERGENCES.resolve(divergence)
    return build_problem(D, D.link(np.ones(X.shape[1])), bind(constraints, X), constraints, loss, slack_weight)


def solved(divergence, X, constraints, slack_weight, loss=None, tol=1e-6):
    """The outcome of that problem, verified."""
    problem = problem_of(divergence, X, constraints, slack_weight, loss)
    outcome = solve(problem, InteriorPoint(), tol=tol)
    verify_outcome(outcome, problem, X, constraints, slack_weight=slack_weight, loss=loss)
    return outcome


def spectral(f, A):
    """f of the eigenvalues of a symmetric matrix, summed."""
    return float(f(np.linalg.eigvalsh(A)).sum())


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("gamma", [0.1, 10.0, 1e4])
def test_certificate_from_scratch_logdet(scaled, gamma):
    X, C, V, same = wine_pairs(scaled)
    outcome = solved("logdet", X, C, gamma)
    assert outcome.status is Status.OPTIMAL
    B = outcome.certificate.iterate.factor()
    p, b, mu = ((V @ B) ** 2).sum(axis=1), C.bound, outcome.certificate.dual
    q = np.where(same, p > b, p < b)
    loss = gamma * (p / b - np.log(p / b) - 1.0)[q].sum()
    primal = float((B * B).sum()) - 2.0 * np.linalg.slogdet(B)[1] - X.shape[1] + loss
    assert np.all(np.where(same, mu, -mu) >= 0)
    dual = spectral(np.log, np.eye(X.shape[1]) + (V.T * mu) @ V) + gamma * np.log1p(-mu * b / gamma).sum()
    assert dual <= primal * (1 + 1e-9)
    assert primal - dual <= 2e-6 * max(1.0, primal)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("gamma", [0.1, 10.0, 1e4])
def test_certificate_from_scratch_vonneumann(scaled, gamma):
    X, C, V, same = wine_pairs(scaled)
    outcome = solved("vonneumann", X, C, gamma)
    assert outcome.status is Status.OPTIMAL
    B = outcome.certificate.iterate.factor()
    x = np.linalg.svd(B, compute_uv=False) ** 2
    p, b, mu = ((V @ B) ** 2).sum(axis=1), C.bound, outcome.certificate.dual
    q = np.where(same, p > b, p < b)
    loss = gamma * (p * np.log(p / b) - p + b)[q].sum()
    primal = float((x * np.log(x) - x).sum()) + X.shape[1] + loss
    assert np.all(np.where(same, mu, -mu) >= 0)
    dual = X.shape[1] - spectral(np.exp, -(V.T * mu) @ V) - gamma * (b * np.expm1(mu / gamma)).sum()
    assert dual <= primal * (1 + 1e-9)
    assert primal - dual <= 2e-6 * max(1.0, primal)


@pytest.mark.parametrize("divergence", NAMES)
@pytest.mark.parametrize("loss", [None, SquaredHinge()])
def test_losses(divergence, loss):
    X, C, _, _ = wine_pairs(True)
    outcome = solved(divergence, X, C, 100.0, loss)
    assert outcome.status is Status.OPTIMAL
    assert outcome.n_iter < 60


@pytest.mark.parametrize("divergence", NAMES)
def test_mixed_families(divergence):
    X, C, _, _ = wine_pairs(True)
    C = C + Constraints.comparison([0, 3, 70], [1, 5, 80], [100, 150, 20], [20, 60, 140], margin=2.0)
    C = C + Constraints.sq_distance([2, 9], [11, 130], [4.0, 9.0], "==")
    outcome = solved(divergence, X, C, 50.0)
    assert outcome.status is Status.OPTIMAL


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_hard_inequalities(divergence):
    """Down to rounding: a multiplier may not lose the digits that the slack of its row has lost."""
    X, C, V, _ = wine_pairs(True, n_pairs=12)
    outcome = solved(divergence, X, C, np.inf, tol=1e-11)
    assert outcome.status is Status.OPTIMAL
    assert outcome.certificate.max_violation <= 1e-9


@pytest.mark.parametrize(
    ("sense", "loss", "slack_weight"),
    [
        (["==", "<="], None, np.inf),
        (["==", "=="], None, np.inf),
        (["<=", ">="], None, np.inf),
        (["==", "<="], SquaredHinge(), [np.inf, 1e6]),
        (["<=", ">="], Squared(), 1e6),
    ],
)
@pytest.mark.parametrize("scale", [1e-2, 1.0])
@pytest.mark.parametrize("divergence", NAMES)
def test_hard_equalities_and_rows_that_are_all_equalities(divergence, scale, sense, loss, slack_weight):
    """Each was refused or stalled after a step once: exp overflowed where the path begins."""
    K0 = scale * np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]])
    C = Constraints.sq_distance([0, 1], [1, 2], scale * np.array([1.0, 3.0]), sense)
    given = {"divergence": divergence, "loss": loss, "slack_weight": slack_weight}
    result = nearest_kernel(K0, C, solver="interior_point", tol=1e-8, **given)
    other = nearest_kernel(K0, C, solver="dual_newton", tol=1e-8, **given)
    assert (result.status, other.status) == ("OPTIMAL", "OPTIMAL")
    assert result.max_violation <= 1e-9
    assert result.objective == pytest.approx(other.objective, abs=2e-8)


@pytest.mark.parametrize("near", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("divergence", NAMES)
def test_nearly_parallel_hard_rows(divergence, near):
    """The dual crawls there: 241 steps at .01, none in 5,000 at .001."""
    C = Constraints.sq_distance([0, 0], [1, 2], [1.0, 4.0], ["<=", ">="])
    result = nearest_metric(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, near]]), C, divergence=divergence)
    assert result.status == "OPTIMAL", repr(result)


def test_heavy_slack_on_unscaled_data_takes_few_steps():
    """10; 13 without correctors for centrality, 40 with the second-order terms of as much as the predictor could go."""
    X, C, _, _ = wine_pairs(False, n_pairs=360)
    result = nearest_metric(X, C, slack_weight=100.0, solver="interior_point")
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= 11


def test_scalars_that_overflow_are_part_of_the_search():
    """``float ** -2`` raised an OverflowError there, where an array gives inf."""
    C = Constraints.similarity_comparison([1], [1], [0], [1], [9.999999999999999e-06]) + Constraints.trace(1e4)
    result = nearest_kernel(np.diag([1e-3, 1e-3]), C, divergence="vonneumann", slack_weight=1.0)
    assert result.status == "OPTIMAL"


@pytest.mark.parametrize("divergence", NAMES)
@pytest.mark.parametrize("tau", [1e-8, 1e-2, 1e6])
def test_barrier_inverse(divergence, tau):
    D = DIVERGENCES.resolve(divergence)
    x = np.logspace(-8, 2, 21)
    t = D.link(x) - tau / x
    assert np.allclose(D.barrier_inverse(t, tau), x, rtol=1e-6)  # Frobenius: x - tau / x cancels


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_relaxed_bounds(divergence):
    X, C, _, _ = wine_pairs(True)
    problem = problem_of(divergence, X, C, 10.0)
    bounds = RelaxedBounds(problem.losses, problem.unit)
    rng = np.random.default_rng(0)
    xi, m = rng.uniform(0.1, 5.0, C.n_constraints), rng.uniform(-5.0, 5.0, C.n_constraints)
    tau = 0.3
    assert np.allclose(bounds.at(bounds.weights(xi, tau), tau), xi)
    chord = bounds.chord(xi, m, tau)
    assert np.allclose(xi - bounds.at(m, tau), chord * (bounds.weights(xi, tau) - m))


def test_congruence_frame_is_an_exact_chord():
    rng = np.random.default_rng(1)
    L = rng.normal(size=(4, 4))
    A = rng.normal(size=(4, 4))
    t, V = np.linalg.eigh(-(A @ A.T) - np.eye(4))
    frame = LogDetScaling(L, t, V)
    assert np.allclose((frame.F * frame.sigma) @ frame.F.T, L @ L.T)
    assert np.allclose(frame.F @ frame.defect(0.0) @ frame.F.T, (V / -t) @ V.T - L @ L.T)


def test_rows_of_six_decades_are_solved_over_rows_not_only_over_entries(monkeypatch):
    """Conjugate gradients meet their residual over entries of the matrix; over rows it was 0.7 of the right-hand side."""
    monkeypatch.setattr(newton_system, "BLOCK_FLOPS", 0.0)  # no factorisation
    rng = np.random.default_rng(0)
    rows = RankOneRows(rng.normal(size=(200, 6)))
    d, root = 10.0 ** rng.uniform(-6, 0, 200), 10.0 ** rng.uniform(-1, 1, 6)
    S, rhs = np.sqrt(np.multiply.outer(root, root)), rng.normal(size=200)
    y, T, steps = newton_system.row_system(rows, d, np.ones(200), S, 1e-8)(rhs)
    assert steps > 0
    assert np.abs(T + rows.adjoint(y)).max() <= 1e-12 * np.abs(T).max()
    assert np.abs(d * y - rows.values(S * S * T) - rhs).max() <= 1e-2 * np.abs(rhs).max()


@pytest.mark.parametrize("slack_weight", [1.0, 1e4])
def test_soft_rows_begin_at_half_of_their_strength(slack_weight):
    """9 and 11 steps; 20 and 15 where ">=" rows were scaled down so far that none moved the prior."""
    X, C, _, _ = wine_pairs(False, n_pairs=360)
    result = nearest_metric(X, C, divergence="vonneumann", slack_weight=slack_weight, solver="interior_point")
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= 12


def test_columns_of_many_units_take_few_steps():
    """11; 14 where the first M was as if rows had no weight, grew and fell by decades, and without correctors for centrality."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    X = (rng.normal(size=(4, 20))[y] + rng.normal(size=(300, 20))) * np.geomspace(1.0, 100.0, 20)
    i, j = rng.integers(0, 300, (2, 1500))
    i, j = i[i != j], j[i != j]
    low, high = np.percentile(((X[i] - X[j]) ** 2).sum(axis=1), [5, 95])
    same = y[i] == y[j]
    C = Constraints.sq_distance(i, j, np.where(same, low, high), list(np.where(same, "<=", ">=")))
    result = nearest_metric(X, C, divergence="vonneumann", slack_weight=100.0, solver="interior_point")
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= 12


def split_point(divergence, on_path):
    """A scaling at factors of M and Z with T, and these three; on the path of tau .3, or anywhere."""
    D, rng, tau = DIVERGENCES.resolve(divergence), np.random.default_rng(4), 0.3
    L = rng.normal(size=(5, 5)) + 3.0 * np.eye(5)
    U, size, _ = np.linalg.svd(L)
    x = size**2
    Z = U * np.sqrt(tau / x) if on_path else rng.normal(size=(5, 5))
    A = rng.normal(size=(5, 5))
    T = (U * (D.link(x) - tau / x)) @ U.T if on_path else A + A.T
    return SlackScaling(D, L, Z, *np.linalg.eigh(T)), L @ L.T, Z @ Z.T, T, tau


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
@pytest.mark.parametrize("on_path", [False, True])
def test_slack_scaling_brings_both_to_one_diagonal(divergence, on_path):
    scaling, M, Z, _, _ = split_point(divergence, on_path)
    assert np.allclose((scaling.B * scaling.sigma) @ scaling.B.T, M)
    assert np.allclose((scaling.inverse * scaling.sigma) @ scaling.inverse.T, Z)
    assert np.allclose(scaling.inverse.T @ scaling.B, np.eye(5), atol=1e-10)
    rng = np.random.default_rng(5)
    dM, dT = (A + A.T for A in rng.normal(size=(2, 5, 5)))
    factor, slack = scaling.moved(dM, 0.0), scaling.moved_slack(dM, dT, 0.0)
    assert np.allclose(factor @ factor.T, M)
    assert np.allclose(slack @ slack.T, Z)
    assert np.isclose(scaling.product(dM, dT, (0.0, 0.0)), np.vdot(M, Z))


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_slack_scaling_moves_in_the_frame(divergence):
    """Steps within the limits move M by ``F dM F'``; at the limit the factor is gone."""
    scaling, M, Z, _, _ = split_point(divergence, False)
    rng = np.random.default_rng(6)
    dM, dT = (A + A.T for A in rng.normal(size=(2, 5, 5)))
    ap, ad = 0.5 * scaling.primal_limit(dM), 0.5 * scaling.dual_limit(dM, dT)
    factor, slack = scaling.moved(dM, ap), scaling.moved_slack(dM, dT, ad)
    assert np.allclose(factor @ factor.T, M + ap * scaling.F @ dM @ scaling.F.T)
    assert np.isclose(scaling.product(dM, dT, (ap, ad)), np.vdot(factor @ factor.T, slack @ slack.T))
    assert scaling.moved(dM, 2.02 * ap) is None
    assert scaling.moved_slack(dM, dT, 2.02 * ad) is None


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_slack_scaling_has_no_defect_on_the_path(divergence):
    scaling, M, _, _, tau = split_point(divergence, True)
    size = np.abs(np.linalg.inv(scaling.F) @ M @ np.linalg.inv(scaling.F).T).max()
    assert np.abs(scaling.residual).max() <= 1e-10
    assert np.abs(scaling.defect(tau)).max() <= 1e-10 * size
    assert np.abs(scaling.defect(0.1 * tau)).max() > 1e-3


def test_a_step_that_cannot_be_computed_stalls(monkeypatch):
    X, C, _, _ = wine_pairs(True)
    problem = problem_of("vonneumann", X, C, 10.0)
    solver = InteriorPoint()
    state = solver.init(problem, 1e-6, None)

    def broken(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(interior_point, "PathEquations", broken)
    assert solver.step(problem, state).stalled


def test_a_step_takes_one_direction_after_the_time_limit(monkeypatch):
    X, C, _, _ = wine_pairs(True)
    problem, directions = problem_of("logdet", X, C, 10.0), []
    step = interior_point.PathEquations.step
    monkeypatch.setattr(interior_point.PathEquations, "step", lambda *args: directions.append(0) or step(*args))
    counts = []
    for left in (np.inf, -1.0):
        monkeypatch.setattr(interior_point, "seconds_left", lambda left=left: left)
        state = InteriorPoint().init(problem, 1e-6, None)
        directions.clear()
        assert not InteriorPoint().step(problem, state).stalled
        counts.append(len(directions))
    assert counts[0] >= 2 > counts[1] == 1


@pytest.mark.parametrize(("slack_weight", "limit"), [(1.0, 20), (1e4, 20)])
def test_the_link_is_met_before_the_barrier_vanishes(slack_weight, limit):
    """25 steps on average, and no end at all for some, where tau fell faster than the residual of the link."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(10, 5))
    i = rng.integers(0, 10, 60)
    j = (i + rng.integers(1, 10, 60)) % 10
    b = ((X[i] - X[j]) ** 2).sum(axis=1) * np.exp(0.7 * rng.normal(size=60))
    C = Constraints.sq_distance(i, j, b, list(np.where(rng.random(60) < 0.5, "<=", ">=")))
    result = nearest_metric(X, C, divergence="vonneumann", slack_weight=slack_weight, solver=InteriorPoint(), tol=1e-8)
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= limit


def test_a_rough_block_is_enough_where_conjugate_gradients_end_by_its_norm(monkeypatch):
    """Heavy entries fill the Frobenius norm of a residual: by it the rows were left with 74 times their right-hand side."""
    monkeypatch.setattr(newton_system, "BLOCK_FLOPS", 0.0)
    monkeypatch.setattr(preconditioners, "SAMPLE_FLOPS", 0.0)
    monkeypatch.setattr(preconditioners, "ROWS", 2)
    rng = np.random.default_rng(0)
    rows = RankOneRows(rng.normal(size=(4000, 24)))
    d, root = 10.0 ** rng.uniform(-6, 1, 4000), np.geomspace(10.0, 0.01, 24)
    S, rhs = np.sqrt(np.multiply.outer(root, root)), rng.normal(size=4000)
    y, T, _ = newton_system.row_system(rows, d, np.ones(4000), S, 1e-8)(rhs)
    assert np.abs(d * y - rows.values(S * S * T) - rhs).max() <= 1e-3 * np.abs(rhs).max()


def heavy_system(n_heavy):
    """Rows of which so many are heavy, each over all entries of the matrix, and the right-hand side of a system of them."""
    rng = np.random.default_rng(0)
    rows = RankOneRows(rng.normal(size=(4000, 24)))
    d = np.where(np.arange(4000) < n_heavy, 1.0, 1e7) * 10.0 ** rng.uniform(-1, 1, 4000)
    return rows, d, np.ones((24, 24)), rng.normal(size=4000)


def test_few_heavy_rows_are_preconditioned_as_they_are(monkeypatch):
    """8 steps; 1143 with a block of the heaviest entries, of which none is light."""
    monkeypatch.setattr(newton_system, "BLOCK_FLOPS", 0.0)
    monkeypatch.setattr(preconditioners, "BLOCK", 100)
    rows, d, S, rhs = heavy_system(60)
    y, T, steps = newton_system.row_system(rows, d, np.ones(4000), S, 1e-8)(rhs)
    assert np.abs(d * y - rows.values(S * S * T) - rhs).max() <= 1e-3 * np.abs(rhs).max()
    assert steps <= 10


def test_heavy_rows_that_are_too_many_are_left_to_others(monkeypatch):
    monkeypatch.setattr(preconditioners, "BLOCK", 100)
    rows, d, S, _ = heavy_system(150)
    assert preconditioners.heavy_rows(rows, 1.0 / d, S) is None
    assert preconditioners.heavy_rows(rows, 1.0 / d, None) is None
    assert preconditioners.heavy_rows(rows, np.full(4000, 1e-9), S) is None


def test_correctors_pull_products_toward_their_goal():
    """Those out of bounds into them, large ones by no more than the upper bound; those inside stay."""
    moves = corrections(np.array([0.01, 0.5, 2.0, 4.0, 100.0]), 1.0)
    assert np.allclose(moves, [LOWEST - 0.01, 0.0, 0.0, HIGHEST - 4.0, -HIGHEST])


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_a_corrector_solves_for_the_products_that_are_corrections(divergence):
    """``B^-1 dM B'^-1 sigma + sigma B' dZ B`` is twice what the eigenvalues of the product are to move by."""
    scaling, _, _, _, tau = split_point(divergence, False)
    zero = np.zeros((5, 5))
    dM = scaling.centring(zero, zero, (0.0, 0.0), tau)
    moved, slack = scaling._matrix(dM), scaling._slack(dM, zero) - scaling._slack(zero, zero)
    total = (moved + slack) * scaling.sigma
    assert np.allclose(
        total + total.T, np.diag(2.0 * corrections(scaling.sigma**2, tau)), atol=1e-8 * scaling.sigma[0] ** 2
    )


def test_products_of_a_pair_graph_cost_less_than_those_of_its_vectors():
    """Or a factorisation takes the place of conjugate gradients that are cheaper."""
    a, b = np.arange(1000) % 100, np.arange(1000) % 99
    graph = PairGraph(np.ones((100, 50)), a, b, np.full(1000, -1, np.int8))
    assert graph.product_flops() < RankOneRows(np.ones((1000, 50))).product_flops() == 4.0 * 1000 * 50**2
