"""Dual Newton: outcomes on problems of every kind, each proof worked out again without the operators and iterates."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

import cases
from bregmat import Constraints, ExitReason, Frobenius, LogDet, SquaredHinge, Status, VonNeumann
from bregmat.certificates import restoration
from bregmat.certificates.infeasibility import infeasibility
from bregmat.certificates.problem import build_problem, dual_bound
from bregmat.coordinates.priors import iterate_at_prior
from bregmat.engine.loop import solve
from bregmat.operators.binding import bind
from bregmat.operators.compound import SignedSums
from bregmat.operators.linear_maps import RankOneRows
from bregmat.solvers import dual_newton
from bregmat.solvers.box_qp import Model, minimize_exactly, minimize_in_box
from bregmat.solvers.dual_newton import DualNewton, _link_gradient
from verified_calls import verify_outcome

DIVERGENCES = (LogDet(), VonNeumann(), Frobenius())
SENSES = ("<=", ">=", "==")


def _pairs(rng, n, c):
    i = rng.integers(0, n, c)
    return i, (i + rng.integers(1, n, c)) % n


def _target(rng, n, r):
    """Rows Z and the factor ``Z L`` of a matrix that meets the constraints built from it."""
    Z = rng.normal(size=(n, r)) / np.sqrt(r)
    B = rng.normal(size=(r, r)) / np.sqrt(r) + 0.5 * np.eye(r)
    return Z, Z @ B


def _distances(G, i, j, sense, margin, weight=np.inf):
    side = np.array([{"<=": 1, ">=": -1, "==": 0}[s] for s in sense])
    sq = ((G[i] - G[j]) ** 2).sum(axis=1)
    return Constraints.sq_distance(i, j, sq * (1 + margin * side), list(sense), weight=weight)


def _problem(divergence, Z, constraints, prior=None, loss=None):
    t0 = divergence.link(np.ones(Z.shape[1]) if prior is None else prior)
    return build_problem(divergence, t0, bind(constraints, Z), constraints, loss, 1.0)


def _run(problem, Z, constraints, tol=1e-6, max_iter=60, loss=None, start=None):
    outcome = solve(problem, DualNewton(), tol=tol, max_iter=max_iter, start=start)
    verify_outcome(outcome, problem, Z, constraints, loss=loss, slack_weight=1.0)
    return outcome


def _name(losses, row):
    name = losses.kinds[losses.kind[row]].name
    return "squared_hinge" if name == "squared" else name


def _assert_proven(problem, outcome, Z, constraints, tol=1e-6):
    """Objective and dual bound from their definitions, in dense matrices."""
    L, D, certificate = problem.losses, problem.divergence, outcome.certificate
    M0, M, mu = np.diag(problem.prior), certificate.iterate.matrix(), certificate.dual
    p = constraints.values(Z @ certificate.iterate.factor())
    excess = np.where(L.sense == 0, np.abs(p - L.bound), L.sense * (p - L.bound))
    assert (excess[L.hard] <= 2e-9 * problem.unit[L.hard]).all()
    losses = 0.0
    for k in np.flatnonzero((excess > 0) & ~L.hard):
        value = next(f for loss, f in cases.LOSSES.items() if loss.name == _name(L, k))(p[k], L.bound[k], L.scale[k])
        losses += L.gamma[k] * value
    objective = D(M, M0) + losses

    assert (mu[L.sense > 0] >= 0).all()
    assert (mu[L.sense < 0] <= 0).all()
    A = sum(w * _matrix(problem, k) for k, w in enumerate(mu) if w)
    t = np.linalg.eigvalsh(np.diag(problem.t0) - A)
    assert D.in_domain(t)
    conjugate = np.where(L.hard, mu * L.bound, 0.0)
    for k in np.flatnonzero(~L.hard):
        b, g, m = L.bound[k], L.gamma[k], mu[k]
        conjugate[k] = {
            "itakura_saito": lambda b=b, g=g, m=m: -g * np.log(1 - m * b / g),
            "relative_entropy": lambda b=b, g=g, m=m: g * b * (np.exp(m / g) - 1),
            "squared_hinge": lambda b=b, g=g, m=m, k=k: m * b + (m * L.scale[k]) ** 2 / (2 * g),
        }[_name(L, k)]()
    bound = D.conjugate(problem.t0) - D.conjugate(t) - conjugate.sum()
    scale = max(1.0, abs(objective))
    assert objective - bound <= (tol + 1e-8) * scale
    assert objective - bound >= -1e-8 * scale
    assert objective == pytest.approx(certificate.objective, rel=1e-7, abs=1e-8)


def _matrix(problem, k):
    """A_k, from its values at the symmetric unit matrices."""
    r = problem.r
    one = problem.operator.restrict(np.array([k]))
    A = np.empty((r, r))
    for i in range(r):
        for j in range(r):
            E = np.zeros((r, r))
            E[i, j] += 0.5
            E[j, i] += 0.5
            A[i, j] = one.values(E)[0]
    return A


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_hard_rows(rng, divergence):
    Z, G = _target(rng, 14, 7)
    i, j = _pairs(rng, 14, 60)
    C = _distances(G, i, j, rng.choice(SENSES[:2], 60), 0.05)
    problem = _problem(divergence, Z, C)
    outcome = _run(problem, Z, C)
    assert outcome.status is Status.OPTIMAL
    assert outcome.n_iter <= 15
    assert (outcome.certificate.dual == 0).sum() > 10, "inactive rows have no multiplier at all"
    _assert_proven(problem, outcome, Z, C)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_equalities_have_free_multipliers(rng, divergence):
    Z, G = _target(rng, 12, 6)
    i, j = _pairs(rng, 12, 15)
    C = _distances(G, i, j, ["=="] * 15, 0.0) + Constraints.trace(float((G * G).sum()), weight=np.inf)
    problem = _problem(divergence, Z, C, prior=rng.uniform(0.3, 2.0, 6) if divergence.name != "logdet" else None)
    outcome = _run(problem, Z, C)
    assert outcome.status is Status.OPTIMAL
    assert (outcome.certificate.dual > 0).any()
    assert (outcome.certificate.dual < 0).any()
    _assert_proven(problem, outcome, Z, C)


@pytest.mark.parametrize("loss", [None, SquaredHinge()], ids=["own", "hinge"])
@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_hard_and_soft_rows_of_all_kinds_mix(rng, divergence, loss):
    Z, G = _target(rng, 16, 6)
    i, j = _pairs(rng, 16, 40)
    near, far = _pairs(rng, 16, 12), _pairs(rng, 16, 12)
    sq = [((G[a] - G[b]) ** 2).sum(axis=1) for a, b in (near, far)]
    use = sq[0] < sq[1]
    weight = np.where(rng.random(40) < 0.5, np.inf, 10.0 ** rng.uniform(-2, 3, 40))
    C = _distances(G, i, j, rng.choice(SENSES, 40), 0.02, weight)
    C = C + Constraints.comparison(near[0][use], near[1][use], far[0][use], far[1][use], 0.0, weight=np.inf)
    C = C + Constraints.similarity(
        [0, 3, 0], [1, 4, 2], [5.0, -5.0, -0.5], ["<=", ">=", "<="], weight=[3.0, np.inf, 3.0]
    )
    C = C + _distances(0.7 * G, *_pairs(rng, 16, 10), rng.choice(SENSES[:2], 10), 0.0, 2.0)
    problem = _problem(divergence, Z, C, loss=loss)
    assert {"hard", "squared_hinge"} <= {_name(problem.losses, k) for k in range(problem.c)}
    outcome = _run(problem, Z, C, loss=loss)
    assert outcome.status is Status.OPTIMAL
    _assert_proven(problem, outcome, Z, C)


@pytest.mark.parametrize("weight", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_soft_rows_of_any_weight(rng, divergence, weight):
    Z, G = _target(rng, 20, 5)
    i, j = _pairs(rng, 20, 60)
    C = Constraints.sq_distance(i, j, rng.uniform(0.2, 2.0, 60), rng.choice(SENSES[:2], 60), weight=weight)
    problem = _problem(divergence, Z, C)
    outcome = _run(problem, Z, C, max_iter=150)
    assert outcome.status is Status.OPTIMAL
    _assert_proven(problem, outcome, Z, C)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_continuation_does_not_change_the_optimum(rng, divergence, monkeypatch):
    Z, G = _target(rng, 20, 5)
    i, j = _pairs(rng, 20, 40)
    C = Constraints.sq_distance(i, j, rng.uniform(0.2, 2.0, 40), rng.choice(SENSES[:2], 40), weight=20.0)
    problem = _problem(divergence, Z, C)
    staged = _run(problem, Z, C, max_iter=300)
    monkeypatch.setattr(dual_newton, "_first_share", lambda problem: 1.0)
    direct = _run(problem, Z, C, max_iter=300)
    assert staged.status is direct.status is Status.OPTIMAL
    assert staged.certificate.objective == pytest.approx(direct.certificate.objective, rel=2e-6)


def test_nearest_correlation_matrix():
    # Higham (2002), section 4: the tridiagonal matrix of ones
    A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    t, U = np.linalg.eigh(A)
    C = Constraints.diagonal(np.ones(3), [0, 1, 2], weight=np.inf)
    problem = build_problem(Frobenius(), t, bind(C, U), C, None, 1.0)
    outcome = solve(problem, DualNewton(), tol=1e-10)  # a prior that no door takes: it has a negative eigenvalue
    W = U @ outcome.certificate.iterate.matrix() @ U.T
    assert outcome.status is Status.OPTIMAL
    np.testing.assert_allclose([W[0, 1], W[0, 2], W[1, 2]], [0.76068985, 0.15729811, 0.76068985], atol=2e-6)


def test_weights_beyond_the_domain_are_scaled_back():
    """One row v' W v >= b with |v|^2 = 2, so that ``g(mu) = log(1 + 2 mu) - mu b`` ends at mu = -1/2."""
    bound = 9.0
    problem = _problem(LogDet(), np.eye(3), Constraints.sq_distance([0], [1], bound, ">=", weight=np.inf))
    value, mu = dual_bound(problem, np.array([-10.0]))
    assert -0.5 < mu[0] < -0.49
    assert value == pytest.approx(np.log(1 + 2 * mu[0]) - mu[0] * bound, rel=1e-9)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_nothing_to_do_at_the_prior(rng, divergence):
    Z, _ = _target(rng, 8, 4)
    i, j = _pairs(rng, 8, 10)
    C = _distances(Z, i, j, rng.choice(SENSES[:2], 10), 0.5)
    outcome = _run(_problem(divergence, Z, C), Z, C)
    assert outcome.status is Status.OPTIMAL
    assert outcome.n_iter <= 1
    assert not outcome.certificate.dual.any()


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_warm_start(rng, divergence):
    Z, G = _target(rng, 14, 7)
    i, j = _pairs(rng, 14, 60)
    C = _distances(G, i, j, rng.choice(SENSES[:2], 60), 0.05)
    problem = _problem(divergence, Z, C)
    cold = _run(problem, Z, C)
    before = cold.certificate.dual.copy()
    warm = _run(problem, Z, C, start=cold.certificate.dual)
    assert warm.status is Status.OPTIMAL
    assert warm.n_iter < cold.n_iter
    np.testing.assert_array_equal(cold.certificate.dual, before)


def _contradiction(kind, G):
    sq = float(((G[0] - G[1]) ** 2).sum())
    hard = {"weight": np.inf}
    if kind == "pair":
        return Constraints.sq_distance([0, 0], [1, 1], [sq, 1.05 * sq], ["<=", ">="], **hard)
    if kind == "equalities":
        return Constraints.sq_distance([0, 0], [1, 1], [sq, 1.05 * sq], ["==", "=="], **hard)
    if kind == "triangle":
        return Constraints.sq_distance([0, 1, 0], [1, 2, 2], [sq, sq, 4.4 * sq], ["<=", "<=", ">="], **hard)
    if kind == "diagonal":
        return Constraints.diagonal(np.ones(2), [0, 1], **hard) + Constraints.similarity([0], [1], 1.05, ">=", **hard)
    return Constraints.comparison([0, 2, 4], [1, 3, 5], [2, 4, 0], [3, 5, 1], 0.1, **hard)


@pytest.mark.parametrize("kind", ["pair", "equalities", "triangle", "diagonal", "cycle"])
@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_contradictions_are_proven(rng, divergence, kind):
    Z, G = _target(rng, 20, 12)
    i, j = _pairs(rng, 20, 40)
    C = _distances(G, i, j, rng.choice(SENSES[:2], 40), 0.2) + _contradiction(kind, G)
    problem = _problem(divergence, Z, C)
    outcome = _run(problem, Z, C)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.exit_reason is ExitReason.CERTIFICATE
    assert outcome.n_iter <= 20
    y, L = outcome.certificate.dual, problem.losses
    assert (L.sense * y >= 0).all()
    assert set(np.flatnonzero(y)) == set(outcome.proof.rows)
    low = np.linalg.eigvalsh(sum(y[k] * _matrix(problem, k) for k in outcome.proof.rows))[0]
    # every matrix that meets the rows has a trace of at least this
    assert -(y @ L.bound) > 1e6 * problem.r * max(0.0, -low)


def test_must_link_is_infeasible_for_logdet_only(rng):
    Z, _ = _target(rng, 8, 4)
    C = Constraints.sq_distance([0], [1], 0.0, "<=", weight=np.inf)
    assert _run(_problem(LogDet(), Z, C), Z, C).status is Status.INFEASIBLE
    assert _run(_problem(VonNeumann(), Z, C), Z, C).status is Status.OPTIMAL
    assert _run(_problem(Frobenius(), Z, C), Z, C).status is Status.OPTIMAL


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_a_sum_that_only_singular_matrices_meet_is_a_proof_for_logdet(divergence):
    problem = _problem(divergence, np.eye(3), Constraints.sq_distance([0], [1], 0.0, "<=", weight=np.inf))
    assert (infeasibility(problem, np.ones(1)) is not None) == (divergence.name == "logdet")


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_bounds_that_rounding_outweighs_contradict_nothing(divergence):
    for size, is_proof in ((1.0, True), (1e-16, False)):  # of the bounds, beside matrices of trace 3
        rows = Constraints.sq_distance([0, 0], [1, 1], [size, 3 * size], ["<=", ">="], weight=np.inf)
        found = infeasibility(_problem(divergence, np.eye(3), rows), np.array([1.0, -1.0]))
        assert (found is not None) == is_proof


def test_parallel_rows(rng):
    Z, _ = _target(rng, 6, 4)
    # pair (0, 1): an interval, a looser and an equal upper bound; pair (2, 3): two equalities; soft rows do not count
    i, j = [0, 1, 0, 0, 1, 2, 2, 4, 4], [1, 0, 1, 1, 0, 3, 3, 5, 5]
    bound = [2.0, 1.0, 3.0, 2.0, 0.5, 1.0, 1.0, 1.0, 2.0]
    sense = ["<=", ">=", "<=", "<=", ">=", "==", "==", "<=", "<="]
    C = Constraints.sq_distance(i, j, bound, sense, weight=[np.inf] * 7 + [1.0, 1.0])
    parallel = _problem(VonNeumann(), Z, C).parallel_rows
    assert parallel.intervals.tolist() in ([[0, 1]], [[3, 1]])
    assert set(parallel.idle) == {2, 4, 3 if parallel.intervals[0, 0] == 0 else 0}


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
@pytest.mark.parametrize("factor", [0.6, 1.5])
def test_one_step_with_the_gradient_of_the_link_meets_one_row(rng, divergence, factor):
    Z = rng.normal(size=(2, 4))
    v = Z[0] - Z[1]
    problem = _problem(divergence, Z, Constraints.sq_distance([0], [1], factor * (v @ v), "==", weight=np.inf))
    start = DualNewton().init(problem, 1e-6, None)
    assert _link_gradient(problem, start) is None  # not as the first step
    force = _link_gradient(problem, replace(start, norm=1.0, first_norm=1.0))
    force = start.gradient if divergence.name == "frobenius" else force
    mu = -force / problem.operator.squared_norms(divergence.divided(problem.t0))
    there = start.iterate.at(np.diag(problem.t0) - problem.operator.adjoint(mu))
    assert np.allclose(problem.operator.values(there.matrix()), problem.losses.bound)
    plain = -start.gradient / problem.operator.squared_norms(divergence.divided(problem.t0))
    assert np.allclose(plain, mu, rtol=1e-9) == (divergence.name == "frobenius")


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_restoration_needs_one_row_of_a_matrix(rng, divergence):
    """Rows that a tighter one of the same matrix implies made its Gram matrix larger, and singular."""
    Z, G = _target(rng, 12, 6)
    i, j = _pairs(rng, 12, 10)
    rows, looser = (_distances(G, i, j, ["<="] * 10, margin) for margin in (0.0, 0.005))
    found = []
    for C in (rows, rows + rows + looser):
        problem = _problem(divergence, Z, C)
        above = iterate_at_prior(divergence, problem.t0).with_factor(np.sqrt(1.01) * np.linalg.pinv(Z) @ G)
        p = problem.operator.congruence(above.F).values_diagonal(above.x)
        assert np.allclose(problem.violation(p)[:10], 0.01)
        found.append(problem.certify(SimpleNamespace(iterate=above, values=p, dual=np.zeros(problem.c))))
    assert found[0].is_feasible and found[1].is_feasible
    assert np.allclose(found[0].iterate.matrix(), found[1].iterate.matrix(), rtol=1e-12)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_both_ways_of_restoration(rng, monkeypatch, divergence):
    """A Gram matrix of the rows where they are few, conjugate gradients where they are many: nearly one matrix."""
    Z, G = _target(rng, 12, 6)
    i, j = _pairs(rng, 12, 10)
    problem = _problem(divergence, Z, _distances(G, i, j, ["<="] * 5 + ["=="] * 5, 0.0))
    near = iterate_at_prior(divergence, problem.t0).with_factor(np.linalg.pinv(Z) @ G * np.sqrt(1.0 + 1e-5))
    p = problem.operator.congruence(near.F).values_diagonal(near.x)
    found = []
    for few in (np.inf, -1.0):
        monkeypatch.setattr(restoration, "TYPICAL_CG_STEPS", few)
        iterate, values = restoration.restore(problem, near, p, np.zeros(problem.c))
        assert problem.violation(values).max() <= 1e-9
        assert np.allclose(values, problem.losses.bound, rtol=1e-8)
        found.append(iterate.matrix())
    assert np.allclose(*found, rtol=1e-4)


def test_rows_beyond_the_range_of_a_matrix_are_restored(rng):
    """Matrices of the same range meet nine rows with six entries at best: such points were UNKNOWN."""
    Q, E = np.linalg.qr(rng.normal(size=(6, 6)))[0], rng.normal(size=(6, 6))
    start = iterate_at_prior(Frobenius(), np.ones(6)).at((Q * [2.0, 1.5, 1.0, -0.5, -0.75, -1.0]) @ Q.T)
    there = start.at(start.mirror() + 1e-3 * (E + E.T))
    i, j = np.triu_indices(6, 1)
    some = rng.permutation(len(i))[:9]
    C = _distances(there.factor(), i[some], j[some], ["=="] * 9, 0.0)
    problem = _problem(Frobenius(), np.eye(6), C)
    p = problem.operator.congruence(start.F).values_diagonal(start.x)
    certificate = problem.certify(SimpleNamespace(iterate=start, values=p, dual=np.zeros(9)))
    assert 1e-4 < problem.violation(p).max() < 0.1
    assert certificate.is_feasible
    assert np.allclose(certificate.iterate.matrix(), there.matrix(), atol=0.05)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
def test_intervals_use_one_end(rng, divergence):
    Z, G = _target(rng, 12, 6)
    i, j = _pairs(rng, 12, 40)
    C = _distances(G, i, j, ["<="] * 40, 0.01) + _distances(G, i, j, [">="] * 40, 0.01)
    problem = _problem(divergence, Z, C)
    outcome = _run(problem, Z, C)
    assert outcome.status is Status.OPTIMAL
    assert not (outcome.certificate.dual[:40] * outcome.certificate.dual[40:]).any()
    _assert_proven(problem, outcome, Z, C)


def _model(rng, c, r, slope):
    operator, Psi = RankOneRows(rng.normal(size=(c, r))), rng.uniform(0.1, 1.0, (r, r))
    Psi = Psi + Psi.T
    diagonal = operator.squared_norms(Psi)
    return Model(operator, Psi, slope * diagonal, diagonal * (1 + slope), np.float64, 1e-10)


def test_few_equality_rows_of_logdet_are_solved_exactly(rng):
    """A Gram matrix costs less than the products of conjugate gradients, which would stop at half of the gradient."""
    op, c = RankOneRows(rng.normal(size=(12, 20))), 12
    model = Model(op, None, np.full(c, 1e-9), op.squared_norms(None), np.float64, 1e-10)
    q, free, none = rng.normal(size=c), np.full(c, np.inf), np.zeros((0, 2), dtype=int)
    d, Hd, reached = minimize_in_box(model, q, -free, free, none, reduction=0.5, rounds=6, cg_steps=60)
    H = (op.V @ op.V.T) ** 2 + 1e-9 * np.eye(c)
    np.testing.assert_allclose(d, np.linalg.solve(H, -q), rtol=1e-9)
    np.testing.assert_allclose(Hd, -q, rtol=1e-9)
    assert reached


@pytest.mark.parametrize("c", [8, 40], ids=["few rows", "dependent rows"])
@pytest.mark.parametrize("slope", [1.0, 1e-6])
def test_box_quadratic(rng, c, slope):
    model = _model(rng, c, 4, slope)
    H = np.stack([model.product(e) for e in np.eye(c)])
    q = rng.normal(size=c) * np.sqrt(np.diag(H))
    lower = np.where(rng.random(c) < 0.7, 0.0, -np.inf)
    upper = np.where(rng.random(c) < 0.5, rng.uniform(0.0, 1.0, c), np.inf)
    lower[0] = upper[0] = 0.0
    d = minimize_exactly(model, q, lower, upper, np.clip(np.zeros(c), lower, upper))
    assert ((d >= lower) & (d <= upper)).all()
    # conditions of Karush, Kuhn and Tucker, in units of the diagonal
    g = (q + H @ d) / np.sqrt(np.diag(H))
    assert np.abs(g[(d > lower) & (d < upper)]).max(initial=0.0) <= 1e-6
    assert (g[(d == lower) & (lower < upper)] >= -1e-6).all()
    assert (g[(d == upper) & (lower < upper)] <= 1e-6).all()


def test_box_quadratic_by_conjugate_gradients(rng):
    c = 12
    model = _model(rng, c, 5, 0.1)
    H = np.stack([model.product(e) for e in np.eye(c)])
    q = rng.normal(size=c) * np.sqrt(np.diag(H))
    lower, upper = np.zeros(c), np.full(c, 2.0)
    none = np.zeros((0, 2), dtype=int)
    d, Hd, reached = minimize_in_box(model, q, lower, upper, none, reduction=1e-9, rounds=30, cg_steps=60)
    C = np.linalg.cholesky(H)
    reference = scipy.optimize.lsq_linear(C.T, -np.linalg.solve(C, q), (lower, upper), tol=1e-14).x
    assert reached
    np.testing.assert_allclose(Hd, H @ d, atol=1e-9 * np.abs(H).max())
    np.testing.assert_allclose(d, reference, atol=1e-6)


def test_squared_norms_are_those_of_the_features(rng):
    for make in (cases._rows, cases._pairs, cases._matrices, cases._mixed):
        operator = make(rng)
        S = rng.uniform(0.2, 1.0, (operator.r, operator.r))
        S = (S + S.T) / 2
        for weight in (None, S):
            exact = (operator.features(weight) ** 2).sum(axis=1)
            found = operator.squared_norms(None if weight is None else weight**2)
            if isinstance(operator, SignedSums):
                assert (found >= exact * (1 - 1e-12)).all(), "a bound: rows are not orthogonal"
            else:
                np.testing.assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize("proximal", [-1.0, np.nan])
def test_bad_settings(proximal):
    with pytest.raises(ValueError, match="proximal"):
        DualNewton(proximal=proximal)
