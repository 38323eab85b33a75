"""The softmax loss over groups of scores: derivatives, conjugate, bound, Newton's method, hard inputs."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, xlogy
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from bregmat import Constraints, ExitReason, KernelLearner, MetricLearner, Status, load, save, verify
from bregmat.applications.softmax import PairScores, SoftmaxResult, cosine_metric, cosine_scores, softmax_metric
from bregmat.applications.softmax.newton import SemismoothNewton
from bregmat.applications.softmax.problem import SoftmaxGroups
from bregmat.base.linalg import dense, unit_rows
from bregmat.engine.loop import solve
from bregmat.estimators import softmax as softmax_strategy
from bregmat.estimators.linear_maps import has_unit_rows, prior_factor
from bregmat.objective.divergences import DIVERGENCES

N, M, DIM = 7, 9, 5
KINDS = ("inner_products", "sq_distances", "cosines")
H = 1e-5  # central differences: an error of about h^2


def positive(rng, d=DIM):
    A = rng.normal(size=(d, d))
    return A @ A.T / d + 0.1 * np.eye(d)


def scores_of(kind, rng, n=N, m=M, d=DIM):
    q, x = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    return PairScores.cosines(q, x, positive(rng, d)) if kind == "cosines" else getattr(PairScores, kind)(q, x)


def distributions(rng, n=N, m=M):
    return rng.dirichlet(np.full(m, 0.3), size=n)


def groups(kind, rng, temperature=0.3, **options):
    scores = scores_of(kind, rng)
    weights = rng.uniform(0.5, 2.0, size=N)
    return SoftmaxGroups(scores, distributions(rng), weights, temperature, **options)


def primal(scores, targets, weights, temperature, W, allowed=None):
    """The objective, written out for one pair after another (design: Softmax over groups)."""
    Q, D = scores.queries, scores.documents
    share, constant = (np.broadcast_to(x, scores.shape) for x in (scores.share, scores.constant))
    value = 0.5 * np.sum((W - np.eye(len(W))) ** 2)
    for i, q in enumerate(Q):
        v = np.array([q @ W @ d - h * (q @ W @ q + d @ W @ d) + c for d, h, c in zip(D, share[i], constant[i])])
        some = slice(None) if allowed is None else allowed[i]
        value += weights[i] * (temperature * logsumexp(v[some] / temperature) - targets[i] @ v)
    return value


def optimum_of_factor(problem, d):
    """The least value that L-BFGS finds over factors L, ``W = L L'``, from two starts: a judge that is not our solver."""
    Q, D, heat = problem.scores.queries, problem.scores.documents, problem.temperature
    share, constant = (
        np.broadcast_to(x, problem.scores.shape) for x in (problem.scores.share, problem.scores.constant)
    )

    def value_and_slope(flat):
        L = flat.reshape(d, d)
        W = L @ L.T
        own_q, own_d = np.einsum("ij,ij->i", Q @ W, Q), np.einsum("ij,ij->i", D @ W, D)
        V = Q @ W @ D.T - share * (own_q[:, None] + own_d) + constant
        inside = V if problem.allowed is None else np.where(problem.allowed, V, -np.inf)
        total = logsumexp(inside / heat, axis=1)
        value = 0.5 * np.sum((W - np.eye(d)) ** 2) + problem.weights @ (heat * total - (problem.targets * V).sum(1))
        G = problem.weights[:, None] * (np.exp(inside / heat - total[:, None]) - problem.targets)
        cross = Q.T @ G @ D
        S = (cross + cross.T) / 2 - (Q.T * (G * share).sum(1)) @ Q - (D.T * (G * share).sum(0)) @ D
        return value, (2 * (W - np.eye(d) + S) @ L).ravel()

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30}
    starts = (np.eye(d), np.eye(d) + 0.1 * np.random.default_rng(0).normal(size=(d, d)))
    found = [minimize(value_and_slope, L.ravel(), jac=True, method="L-BFGS-B", options=options).fun for L in starts]
    return min(found)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


# ---------------------------------------------------------------- identities
@pytest.mark.parametrize("kind", KINDS)
def test_adjoint_of_the_scores(kind, rng):
    scores, W, Y = scores_of(kind, rng), positive(rng), rng.normal(size=(N, M))
    assert np.vdot(scores.linear(W), Y) == pytest.approx(np.vdot(W, scores.adjoint(Y)), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_in_another_basis(kind, rng):
    scores, W = scores_of(kind, rng), positive(rng)
    V = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    np.testing.assert_allclose(scores.in_basis(V).linear(V.T @ W @ V), scores.linear(W), atol=1e-12)


def test_scores_are_what_they_are_called(rng):
    q, d, W = rng.normal(size=(N, DIM)), rng.normal(size=(M, DIM)), positive(rng)
    apart = q[:, None] - d
    sq = np.einsum("ijk,kl,ijl->ij", apart, W, apart)
    np.testing.assert_allclose(PairScores.sq_distances(q, d).linear(W), -sq / 2, atol=1e-12)
    np.testing.assert_allclose(PairScores.inner_products(q, d).linear(W), q @ W @ d.T, atol=1e-12)


def test_linearised_cosines_are_exact_to_first_order(rng):
    """At W0 the scores and their derivative along any E are those of the cosine (design: Softmax over groups, cosine)."""
    q, d, W0 = rng.normal(size=(N, DIM)), rng.normal(size=(M, DIM)), positive(rng)
    scores, E = PairScores.cosines(q, d, W0), positive(rng) - positive(rng)
    np.testing.assert_allclose(scores.linear(W0) + scores.constant, cosine_scores(q, d, W0), atol=1e-12)
    slope = (cosine_scores(q, d, W0 + H * E) - cosine_scores(q, d, W0 - H * E)) / (2 * H)
    np.testing.assert_allclose(scores.linear(E), slope, atol=1e-7)


def masked(rng):
    """Groups in which a quarter of the wrong answers is excluded."""
    problem = groups("cosines", rng)
    allowed = (rng.random((N, M)) < 0.75) | (np.arange(M) == problem.targets.argmax(1)[:, None])
    targets = np.where(allowed, problem.targets, 0.0)
    targets /= targets.sum(1, keepdims=True)
    return SoftmaxGroups(problem.scores, targets, problem.weights, problem.temperature, allowed)


@pytest.mark.parametrize("kind", [*KINDS, "masked"])
def test_objective_gradient_and_curvature(kind, rng):
    problem = masked(rng) if kind == "masked" else groups(kind, rng)
    W, E = positive(rng), positive(rng) - positive(rng)
    parts = problem.scores, problem.targets, problem.weights, problem.temperature

    def at(step):
        V = problem.scores.linear(W + step * E) + problem.scores.constant
        loss, P, _ = problem.loss(V)
        return loss, -problem.scores.adjoint(problem.multipliers(P)), P

    assert problem.projected(W).objective == pytest.approx(primal(*parts, W, problem.allowed), rel=1e-12)
    (ahead, slope_ahead, _), (behind, slope_behind, _), (_, gradient, P) = at(H), at(-H), at(0.0)
    assert np.vdot(gradient, E) == pytest.approx((ahead - behind) / (2 * H), rel=1e-7)
    np.testing.assert_allclose(
        problem.curvature(problem.scores, P, E), (slope_ahead - slope_behind) / (2 * H), rtol=1e-6, atol=1e-7
    )


def test_conjugate_inequality(rng):
    """``loss(v) >= -mu . v - gamma / s sum P log P`` for all v and all distributions P, with equality at the softmax of v."""
    problem = groups("inner_products", rng)

    def below(P, V):
        entropy = (problem.weights[:, None] * xlogy(P, P)).sum() * problem.temperature
        return -float((problem.multipliers(P) * V).sum()) - entropy

    for _ in range(20):
        V, P = 3 * rng.normal(size=(N, M)), distributions(rng)
        loss, softmax, _ = problem.loss(V)
        assert loss >= below(P, V)
        assert loss == pytest.approx(below(softmax, V), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_every_distribution_proves_a_bound(kind, rng):
    problem = groups(kind, rng)
    best = optimum_of_factor(problem, DIM)
    for P in (distributions(rng), np.full((N, M), 1.0 / M), problem.targets):
        assert problem.dual_bound(P).value <= best
    for W in (np.eye(DIM), positive(rng)):
        point = problem.projected(W)
        assert point.bound.value <= best <= point.objective


def test_bound_is_the_formula(rng):
    """``|I|^2 / 2 - |(I + A* mu)_+|^2 / 2 - <mu, c> - gamma / s sum P log P`` (design: Softmax over groups)."""
    problem, P = groups("cosines", rng), distributions(rng)
    mu = problem.weights[:, None] * (problem.targets - P)
    T = np.eye(DIM)
    for i, q in enumerate(problem.scores.queries):
        for j, d in enumerate(problem.scores.documents):
            C = (np.outer(q, d) + np.outer(d, q)) / 2
            C -= problem.scores.share[i, j] * (np.outer(q, q) + np.outer(d, d))
            T += mu[i, j] * C
    plus = np.maximum(np.linalg.eigvalsh(T), 0.0)
    entropy = problem.temperature * (problem.weights[:, None] * xlogy(P, P)).sum()
    wanted = DIM / 2 - plus @ plus / 2 - (mu * problem.scores.constant).sum() - entropy
    assert problem.dual_bound(P).value == pytest.approx(wanted, rel=1e-10)
    assert problem.dual_bound(P).value <= wanted


# ---------------------------------------------------------------- the solver
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.1, 3.0, 300.0])
def test_optimum_is_that_of_another_solver(kind, weight, rng):
    problem = groups(kind, rng)
    targets, weights = problem.targets, weight * problem.weights
    result = softmax_metric(problem.scores, targets, temperature=0.3, weights=weights, tol=1e-9)
    assert result.status is Status.OPTIMAL
    problem = SoftmaxGroups(problem.scores, targets, weights, 0.3)
    best = optimum_of_factor(problem, DIM)
    assert result.dual_bound <= best + 1e-9 * abs(best)  # rounding of the judge
    assert result.objective == pytest.approx(best, rel=1e-6)
    W = result.coordinates.metric(result.iterate)
    parts = problem.scores, targets, weights, 0.3
    assert result.objective == pytest.approx(primal(*parts, W), rel=1e-10)
    assert np.linalg.eigvalsh(W)[0] >= -1e-12


@pytest.mark.parametrize("weight", [1e-12, 1e-6, 1e6])
def test_small_and_large_weights(weight, rng):
    problem = groups("cosines", rng)
    result = softmax_metric(problem.scores, problem.targets, temperature=0.3, weights=weight, tol=1e-6)
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("kind", "temperature", "weight", "optimum"),
    [
        ("inner_products", 0.1, 1.0, 1.1992881026241604),
        ("inner_products", 0.5, 20.0, 58.36004821779829),
        ("sq_distances", 0.1, 1.0, 1.2230853441784804),
        ("sq_distances", 0.5, 20.0, 59.49242997739596),
    ],
)
def test_optima_of_clarabel(kind, temperature, weight, optimum):
    """Optimal values by CVXPY 1.9.3 with Clarabel at a tolerance of 1e-12, as a semidefinite and exponential cone program."""
    Q, D = np.sin(np.arange(12.0)).reshape(4, 3), np.cos(1.7 * np.arange(15.0)).reshape(5, 3)
    targets = np.eye(4, 5) + np.array([[0.0], [0.0], [0.5], [0.0]]) * (np.eye(4, 5, 1) - np.eye(4, 5))
    targets[3] = np.eye(5)[4]
    scores = getattr(PairScores, kind)(Q, D)
    result = softmax_metric(scores, targets, temperature=temperature, weights=weight, tol=1e-10)
    assert result.status is Status.OPTIMAL
    assert result.dual_bound <= optimum * (1 + 1e-10) and result.objective >= optimum * (1 - 1e-10)
    assert result.objective == pytest.approx(optimum, rel=1e-9)


def test_convergence_is_quadratic_in_the_end(rng):
    problem = groups("cosines", rng)
    outcome = solve(problem, SemismoothNewton(), tol=1e-10)
    gaps = [record.gap for record in outcome.log.history]
    assert outcome.status is Status.OPTIMAL and len(gaps) <= 12
    assert gaps[-1] < 1e-3 * gaps[-2]


def test_span_of_the_rows(rng):
    """With few rows in many dimensions the problem is solved in their span, and its solution is the same."""
    scores = PairScores.sq_distances(rng.normal(size=(6, 80)) / 9, rng.normal(size=(7, 80)) / 9)
    targets = distributions(rng, 6, 7)
    result = softmax_metric(scores, targets, temperature=0.2, weights=4.0, tol=1e-8)
    whole = solve(SoftmaxGroups(scores, targets, np.full(6, 4.0), 0.2), SemismoothNewton(), tol=1e-8)
    assert len(result.coordinates.t0) == 13 and result.status is whole.status is Status.OPTIMAL
    assert result.objective == pytest.approx(whole.certificate.objective, rel=1e-7)
    W = whole.certificate.iterate.matrix()
    np.testing.assert_allclose(result.coordinates.metric(result.iterate), W, atol=1e-4)
    X = rng.normal(size=(4, 80))
    np.testing.assert_allclose(result.transform(X) @ result.transform(X).T, X @ W @ X.T, atol=1e-3)
    again = softmax_metric(scores, targets, temperature=0.2, weights=4.0, tol=1e-6, start=W)
    assert again.status is Status.OPTIMAL and again.n_iter == 0


def test_groups_of_labelled_rows(rng):
    """Rows of the same class are the right answers among all other rows: squared distances within classes shrink."""
    y = np.repeat([0, 1, 2], 8)
    X = np.eye(3, 6)[y] + rng.normal(size=(24, 6))
    others = ~np.eye(24, dtype=bool)
    same = others & (y[:, None] == y)
    result = softmax_metric(
        PairScores.sq_distances(X, X), same / same.sum(1, keepdims=True), temperature=1.0, allowed=others
    )
    assert result.status is Status.OPTIMAL

    def ratio(Z):
        sq = ((Z[:, None] - Z) ** 2).sum(-1)
        return sq[same].mean() / sq[others].mean()

    assert ratio(result.transform(X)) < 0.9 * ratio(X)
    assert (result.dual[np.eye(24, dtype=bool)] == 0).all()  # a row is not in its own group


def test_limits_callback_and_history(rng):
    problem = groups("cosines", rng)
    run = {"temperature": 0.3, "weights": problem.weights}
    records = []
    result = softmax_metric(problem.scores, problem.targets, callback=records.append, **run)
    assert isinstance(result, SoftmaxResult) and len(records) == len(result.history) == result.n_iter + 1
    assert result.gap == records[-1].gap <= result.tol
    one = softmax_metric(problem.scores, problem.targets, max_iter=1, tol=1e-9, **run)
    assert (one.status, one.exit_reason) == (Status.FEASIBLE, ExitReason.MAX_ITER)
    assert one.dual_bound <= result.dual_bound * (1 + 1e-9) and one.objective >= result.objective - 1e-9
    stopped = softmax_metric(problem.scores, problem.targets, tol=1e-12, callback=lambda record: True, **run)
    assert stopped.exit_reason is ExitReason.INTERRUPTED and np.isfinite(stopped.gap)


def test_passes_lower_the_objective_of_the_true_cosines(rng):
    Q, D = rng.normal(size=(20, 6)), rng.normal(size=(20, 6))
    settings = {"temperature": 0.1, "weights": 1.0, "tol": 1e-8}

    def true(W):
        loss = logsumexp(cosine_scores(Q, D, W) / 0.1, axis=1) * 0.1 - np.diag(cosine_scores(Q, D, W))
        return 0.5 * ((W - np.eye(6)) ** 2).sum() + loss.sum()

    values = [true(np.eye(6))]
    for n_passes in (1, 2, 3, 5):
        result = cosine_metric(Q, D, np.eye(20), n_passes=n_passes, **settings)
        values.append(true(result.coordinates.metric(result.iterate)))
        assert result.status is Status.OPTIMAL and result.history[-1].stage <= n_passes
        iterations = [row.iteration for row in result.history]
        assert iterations == list(range(len(iterations))) and result.n_iter == iterations[-1]
    assert values[:4] == sorted(values[:4], reverse=True) and values[-1] <= values[-2]
    # a pass from a solution goes on from there
    W = cosine_metric(Q, D, np.eye(20), n_passes=2, **settings)
    again = cosine_metric(Q, D, np.eye(20), n_passes=1, start=W.coordinates.metric(W.iterate), **settings)
    assert true(again.coordinates.metric(again.iterate)) == pytest.approx(values[3], rel=1e-5)


# ---------------------------------------------------------------- other divergences
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_other_divergences_against_another_solver(kind, name, rng):
    """L-BFGS over a symmetric logarithm, ``W = exp(Z)``, is the judge."""
    problem = groups(kind, rng)
    scores, y, gamma, heat = problem.scores, problem.targets, problem.weights, problem.temperature
    result = softmax_metric(scores, y, temperature=heat, weights=gamma, divergence=name, tol=1e-9)
    assert result.status is Status.OPTIMAL and verify(result).holds, result
    W = result.iterate.matrix()
    assert np.linalg.eigvalsh(W)[0] > 0

    def value(W):
        x, U = np.linalg.eigh(W)
        phi = x - np.log(x) - 1 if name == "logdet" else x * np.log(x) - x + 1
        return phi.sum() + primal(scores, y, gamma, heat, W) - 0.5 * np.sum((W - np.eye(DIM)) ** 2)

    assert value(W) == pytest.approx(result.objective, rel=1e-10)
    upper = np.triu_indices(DIM)

    def of_logarithm(z):
        Z = np.zeros((DIM, DIM))
        Z[upper] = z
        return value(expm((Z + Z.T) / 2))

    best = minimize(of_logarithm, np.zeros(len(upper[0])), method="BFGS", options={"gtol": 1e-7}).fun
    assert result.dual_bound <= best + 1e-9 * abs(best) and best == pytest.approx(result.objective, rel=1e-6)


@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
@pytest.mark.parametrize("weight", [1e-6, 1e-3, 1.0, 1e4])
def test_bounds_of_other_divergences_hold_for_every_distribution(name, weight, rng):
    problem = replace(groups("cosines", rng), weights=np.full(N, weight), divergence=DIVERGENCES.resolve(name))
    arguments = {"temperature": 0.3, "weights": weight, "divergence": name, "tol": 1e-6}
    result = softmax_metric(problem.scores, problem.targets, **arguments)
    assert result.status is Status.OPTIMAL, result
    for _ in range(20):
        bound = problem.dual_bound(distributions(rng))
        assert bound.value <= result.objective and np.isfinite(bound.value)


def test_cosine_passes_with_logdet(rng):
    Q, D = rng.normal(size=(20, 6)), rng.normal(size=(20, 6))
    result = cosine_metric(Q, D, np.eye(20), temperature=0.1, divergence="logdet", tol=1e-6)
    assert result.status is Status.OPTIMAL and np.linalg.eigvalsh(result.iterate.matrix())[0] > 0
    assert verify(result).holds


# ---------------------------------------------------------------- verification
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [DIM, 100])
def test_verification_recomputes_every_claim(kind, d, rng):
    scores, targets, weights = scores_of(kind, rng, d=d), distributions(rng), rng.uniform(0.5, 2.0, N)
    allowed = (targets > 0.01) | (rng.random((N, M)) < 0.5)
    targets = np.where(allowed, targets, 0.0)
    targets /= targets.sum(axis=1, keepdims=True)
    result = softmax_metric(scores, targets, temperature=0.3, weights=weights, allowed=allowed, tol=1e-6)
    found = verify(result)
    assert found.holds and found.status is Status.OPTIMAL, found
    assert {"objective", "dual_bound", "unit", "gap"} <= set(found.figures)
    other = {"scores": scores, "targets": targets, "temperature": 0.3, "allowed": allowed}
    assert verify(result, **other, weights=weights).holds
    assert not verify(result, **other, weights=2 * weights).holds  # another problem


@pytest.mark.parametrize("what", ["objective", "dual_bound", "dual", "no distribution", "values", "matrix"])
def test_verification_finds_false_claims(what, rng):
    problem = groups("cosines", rng)
    result = softmax_metric(problem.scores, problem.targets, temperature=0.3, weights=problem.weights)
    changed = {
        "objective": {"objective": result.objective * (1 - 1e-3)},
        "dual_bound": {"dual_bound": result.dual_bound * (1 + 1e-3), "gap": 0.0},
        "dual": {"dual": problem.weights[:, None] * (problem.targets - np.roll(problem.targets, 1, axis=0))},
        "no distribution": {"dual": 2.0 * result.dual},
        "values": {"values": result.values + 0.01},
        "matrix": {"iterate": result.iterate.at(1.1 * result.iterate.mirror())},
    }[what]
    changed_result = replace(result, **changed)
    assert not verify(changed_result).holds


def test_verification_of_a_learner(wine, tmp_path):
    X, y = wine
    for metric in ("euclidean", "cosine"):
        learner = MetricLearner(strategy="softmax", metric=metric, prior="variance", random_state=0).fit(X, y)
        assert verify(learner).holds and verify(learner.result_).holds and verify(learner, X).holds
        assert verify(learner, pd.DataFrame(X)).holds
        with pytest.raises(ValueError, match="X must be the points of fit, or left out"):
            verify(learner, X + 1.0)
    save(tmp_path / "m.bm", learner)
    assert verify(load(tmp_path / "m.bm")).verdict == "not recomputed"


# ---------------------------------------------------------------- hard inputs
def hard_cases(rng):
    """Name, queries, documents, targets."""
    Q, D = rng.normal(size=(12, 6)), rng.normal(size=(12, 6))
    eye = np.eye(12)
    yield "repeated documents", Q, np.repeat(D[:4], 3, axis=0), eye
    yield "zero vectors", Q * (np.arange(12) > 2)[:, None], D * (np.arange(12) < 9)[:, None], eye
    yield "nothing but zeros", 0 * Q, 0 * D, eye
    yield "one query", Q[:1], D, eye[:1]
    yield "one document", Q, D[:1], np.ones((12, 1))
    yield "equal scores", np.ones((12, 6)), np.ones((12, 6)), eye
    yield "wrong answers", D, D, np.roll(eye, 1, axis=1)
    yield "opposite answers", -D, D, eye
    yield "several right answers", Q, D, (eye + np.roll(eye, 1, axis=1)) / 2
    yield "large numbers", 1e8 * Q, 1e-6 * D, eye
    yield "one dimension", Q[:, :1], D[:, :1], eye


HARD = [case[0] for case in hard_cases(np.random.default_rng(0))]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("temperature", [0.01, 0.1, 10.0])
def test_hard_inputs_are_certified(name, temperature, rng):
    Q, D, targets = next(case[1:] for case in hard_cases(rng) if case[0] == name)
    W, d = np.eye(Q.shape[1]), Q.shape[1]
    for _ in range(3):
        scores = PairScores.cosines(Q, D, W)
        result = softmax_metric(scores, targets, temperature=temperature, weights=2.0)
        assert result.status is Status.OPTIMAL, result
        problem = SoftmaxGroups(scores, targets, np.full(len(Q), 2.0), temperature)
        assert result.dual_bound <= primal(scores, targets, np.full(len(Q), 2.0), temperature, W) + 1e-12
        if d > 1 and temperature == 0.1:
            best = optimum_of_factor(problem, d)
            assert result.dual_bound <= best + 1e-8 * abs(best) + 1e-12  # rounding of the judge
        W = result.coordinates.metric(result.iterate)


def test_arguments_are_checked(rng):
    scores, targets = scores_of("cosines", rng), distributions(rng)
    with pytest.raises(ValueError, match=r"targets must have shape \(7, 9\), as the scores; got \(9, 7\)"):
        softmax_metric(scores, targets.T, temperature=1.0)
    wrong = targets.copy()
    wrong[[2, 5]] = 0.0
    with pytest.raises(ValueError, match="targets must be distributions over allowed documents; .* in rows 2, 5"):
        softmax_metric(scores, wrong, temperature=1.0)
    with pytest.raises(ValueError, match="targets must be distributions"):
        softmax_metric(scores, targets, temperature=1.0, allowed=targets < 0.5)
    with pytest.raises(ValueError, match="temperature must be positive and finite"):
        softmax_metric(scores, targets, temperature=0.0)
    with pytest.raises(ValueError, match="weights must be positive and finite"):
        softmax_metric(scores, targets, temperature=1.0, weights=0.0)


# ---------------------------------------------------------------- labels: MetricLearner(strategy="softmax")
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("prior", ["identity", "variance", "within"])
def test_learner_solves_the_problem_of_its_docstring(wine, metric, prior):
    X, y = wine[0][::4], wine[1][::4]
    learner = MetricLearner(strategy="softmax", metric=metric, prior=prior, slack_weight=0.5, tol=1e-6).fit(X, y)
    seen = unit_rows(X) if (metric, prior) == ("cosine", "within") else X  # lengths change no cosine
    P = None if prior == "identity" else dense(prior_factor(seen, prior, y))
    Z = X if P is None else X @ P
    if metric == "cosine":
        scores = PairScores.cosines(Z, Z, np.eye(Z.shape[1]))
    else:
        i, j = np.random.default_rng(0).integers(len(Z), size=(2, 10_000))
        sq = ((Z[i] - Z[j]) ** 2).sum(1)
        Z = Z * np.sqrt(2.0 / np.median(sq[sq > 0]))
        scores = PairScores.sq_distances(Z, Z)
    others = ~np.eye(len(y), dtype=bool)
    same = others & (y[:, None] == y)
    # 50 times the mean of -log softmax at the temperature 0.1
    weights = np.full(len(y), 50.0 / (0.1 * len(y)))
    M = learner.get_mahalanobis_matrix()
    W = M if P is None else np.linalg.pinv(P) @ M @ np.linalg.pinv(P).T
    value = primal(scores, same / same.sum(1, keepdims=True), weights, 0.1, W, others)
    result = learner.result_
    assert result.status is Status.OPTIMAL
    if metric == "cosine":  # further problems, linearised where the one before ended
        assert len({row.stage for row in result.history}) > 1 and value >= result.objective * (1 - 1e-12)
    else:
        assert value == pytest.approx(result.objective, rel=1e-6)
    assert learner.constraints_ is None and learner.strategy_ == "softmax" and learner.metric_ == metric


def test_cosines_compare_rows_of_length_one(wine, tmp_path):
    X, y = wine
    learner = MetricLearner(strategy="softmax", metric="cosine", random_state=0).fit(X, y)
    Z = learner.transform(X)
    assert np.linalg.norm(Z, axis=1) == pytest.approx(1.0)
    linear = X @ learner.components_.T
    assert pytest.approx(linear / np.linalg.norm(linear, axis=1, keepdims=True)) == Z
    pairs = np.stack([X[:9], X[9:18]], axis=1)
    apart = np.linalg.norm(Z[:9] - Z[9:18], axis=1)
    assert learner.pair_distance(pairs) == pytest.approx(apart)
    assert learner.get_metric()(X[0], X[9]) == pytest.approx(apart[0])
    save(tmp_path / "wine.bm", learner)
    again = load(tmp_path / "wine.bm")
    assert again.metric_ == "cosine" and again.constraints_ is None and again.transform(X) == pytest.approx(Z)
    assert learner.transform(np.zeros((1, 13))) == pytest.approx(0.0)  # a row without a direction
    euclidean = MetricLearner(strategy="softmax", random_state=0).fit(X, y)
    assert euclidean.metric_ == "euclidean"  # the rows of wine have different lengths


def test_rows_of_one_length_are_compared_by_cosine(rng):
    X, y = rng.normal(size=(60, 5)), np.repeat([0, 1], 30)
    X[:, 0] += 2 * y
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    unit[3] = 0.0  # such as an empty text
    for learner, metric in (
        (MetricLearner(prior="identity", strategy="neighbors"), "cosine"),
        (MetricLearner(prior="identity", strategy="neighbors", metric="euclidean"), "euclidean"),
    ):
        assert learner.fit(unit.astype(np.float16), y).metric_ == metric
        assert learner.fit(X, y).metric_ == "euclidean"
    rows = Constraints.sq_distance([0, 1], [2, 4], 1.0, "<=")
    assert MetricLearner().fit(unit, constraints=rows).metric_ == "euclidean"  # bounds of distances


@pytest.mark.parametrize("kind", ["inner_products", "sq_distances", "cosines"])
def test_scores_of_one_array_with_itself_are_those_of_two_arrays(kind, rng):
    """Once with so few columns that products are those of whole matrices, once with so many that they are not."""
    for d in (7, 150):
        X, G, M = rng.normal(size=(40, d)), rng.normal(size=(d, d)) / d, rng.normal(size=(40, 40))
        W = G @ G.T + np.eye(d)
        metric = (W,) if kind == "cosines" else ()
        one, two = (getattr(PairScores, kind)(X, other, *metric) for other in (X, X.copy()))
        basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
        for same, apart in ((one, two), (one.in_basis(basis), two.in_basis(basis))):
            assert same.documents is same.queries and apart.documents is not apart.queries
            np.testing.assert_allclose(same.linear(W), apart.linear(W), atol=1e-12)
            np.testing.assert_allclose(same.adjoint(M), apart.adjoint(M), atol=1e-12 * np.abs(apart.adjoint(M)).max())


def test_wide_rows_are_also_compared_by_cosine(rng):
    y = np.repeat(np.arange(4), 15)
    X = (rng.normal(size=(4, 220))[y] + 1.5 * rng.normal(size=(60, 220))) * rng.lognormal(size=(60, 1))
    learner = MetricLearner(random_state=0).fit(X, y)
    assert learner.metric_ == "cosine" and "cosine" in list(learner.selection_["candidate"])[-1]
    assert MetricLearner(metric="euclidean", random_state=0).fit(X, y).metric_ == "euclidean"


@pytest.mark.parametrize("strategy", [None, "softmax"])
def test_cosines_and_their_covariance_within_classes_do_not_depend_on_lengths_of_rows(strategy, rng):
    y = np.repeat(np.arange(4), 15)
    X = rng.normal(size=(4, 12))[y] + rng.normal(size=(60, 12))
    scaled = X * rng.lognormal(size=(60, 1))
    maps = [
        MetricLearner(strategy=strategy, prior="within", metric="cosine", tol=1e-11, random_state=0).fit(Z, y)
        for Z in (X / np.linalg.norm(X, axis=1, keepdims=True), scaled, sp.csr_array(scaled))
    ]
    cosines = [mapped @ mapped.T for mapped in (one.transform(X) for one in maps)]
    assert cosines[1] == pytest.approx(cosines[0], abs=1e-6) and cosines[2] == pytest.approx(cosines[0], abs=1e-6)


def test_softmax_of_repeated_rows_single_classes_weights_and_constant_columns(wine, rng):
    X, y = wine[0][::3].copy(), wine[1][::3].copy()
    X[5], X[40] = X[4], X[4]  # copies in the same and in another class
    X[:, 2] = 7.0
    y[10] = 99  # alone in its class: a wrong answer of others
    weight = rng.uniform(0.5, 1.5, len(y))
    weight[20] = 0.0
    with pytest.warns(UserWarning, match="alone in their class"):
        learner = MetricLearner(strategy="softmax", prior="variance", tol=1e-6).fit(X, y, sample_weight=weight)
    assert learner.result_.status is Status.OPTIMAL and np.isfinite(learner.transform(X)).all()
    assert learner.result_.dual.shape == (len(y) - 2, len(y) - 1)
    large = MetricLearner(strategy="softmax", prior="identity").fit(1e60 * X, np.where(y == 99, 0, y))
    small = MetricLearner(strategy="softmax", prior="identity").fit(1e-60 * X, np.where(y == 99, 0, y))
    assert large.result_.objective == pytest.approx(small.result_.objective, rel=1e-3)


def test_softmax_of_many_rows_uses_a_sample(wine, monkeypatch):
    X, y = wine
    monkeypatch.setattr(softmax_strategy, "MOST_POINTS", 60)
    learner = MetricLearner(strategy="softmax", prior="variance", random_state=0).fit(X, y)
    assert learner.result_.dual.shape == (60, 60) and learner.result_.status is Status.OPTIMAL
    Z = learner.transform(X)
    assert KNeighborsClassifier(3).fit(Z, y).score(Z, y) > 0.95


@pytest.mark.parametrize("prior", ["identity", "variance"])
def test_softmax_of_sparse_rows_with_many_columns(rng, prior):
    y = np.repeat([0, 1, 2], 12)
    X = sp.random_array((36, 3000), density=0.01, rng=rng, format="csr") + sp.csr_array(
        (np.full(36, 2.0), (np.arange(36), y)), shape=(36, 3000)
    )
    learner = MetricLearner(strategy="softmax", prior=prior, tol=1e-6).fit(X, y)
    assert learner.result_.status is Status.OPTIMAL and learner._fit_components is None
    dense_one = MetricLearner(strategy="softmax", prior=prior, tol=1e-6).fit(X.toarray(), y)
    assert learner.result_.objective == pytest.approx(dense_one.result_.objective, rel=1e-6)
    # distances are those of the problem in the span of the rows
    Z = (X if prior == "identity" else X @ prior_factor(X, prior)).toarray()
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    small = MetricLearner(strategy="softmax", prior="identity", tol=1e-6).fit(U * s, y)
    assert cdist(*2 * [learner.transform(X)]) == pytest.approx(cdist(*2 * [small.transform(U * s)]), rel=1e-3, abs=1e-6)


def test_softmax_of_small_classes_in_many_rows_draws_whole_classes(rng, monkeypatch):
    monkeypatch.setattr(softmax_strategy, "MOST_POINTS", 60)
    y = rng.permutation(np.repeat(np.arange(100), 2))
    learner = MetricLearner(strategy="softmax", prior="identity", random_state=0).fit(rng.normal(size=(200, 3)), y)
    assert learner.result_.dual.shape == (60, 60)  # every drawn row has its right answer


@pytest.mark.parametrize("shift", [1e4, 1e7])
def test_softmax_of_rows_far_from_the_origin(wine, shift):
    X, y = StandardScaler().fit_transform(wine[0]), wine[1]
    options = {"strategy": "softmax", "prior": "identity", "slack_weight": 1.0, "tol": 1e-6}
    near = MetricLearner(**options).fit(X, y)
    far = MetricLearner(**options).fit(X + shift, y)
    assert far.result_.status is Status.OPTIMAL
    assert far.result_.objective == pytest.approx(near.result_.objective, rel=1e-6)


def test_a_large_constant_column_makes_no_cosines(wine):
    X = StandardScaler().fit_transform(wine[0])
    assert not has_unit_rows(np.column_stack([X, np.full(len(X), 1e3)]))
    assert has_unit_rows(X / np.linalg.norm(X, axis=1, keepdims=True))
    assert not has_unit_rows(np.zeros((4, 3)))


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_huge_weights_end(wine, divergence):
    X, y = StandardScaler().fit_transform(wine[0]), wine[1]
    learner = MetricLearner(divergence, strategy="softmax", prior="identity", slack_weight=1e14, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = learner.fit(X, y).result_
    assert result.status in (Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL) and result.dual_bound <= result.objective


def test_softmax_without_labels_learns_from_constraints(wine):
    X, y = wine
    rows = Constraints.sq_distance([0, 1], [2, 4], 1.0, "<=")
    assert MetricLearner(strategy="softmax").fit(X, constraints=rows).constraints_.n_constraints == 2
    with pytest.raises(ValueError, match="no constraint is left"):
        MetricLearner(strategy="softmax", n_constraints=0).fit(X, y)
    with pytest.raises(ValueError, match="slack_weight must be finite"):
        MetricLearner(strategy="softmax", slack_weight=np.inf).fit(X, y)


def test_softmax_learner_with_logdet(wine):
    X, y = wine
    learner = MetricLearner("logdet", strategy="softmax", prior="variance", random_state=0).fit(X, y)
    assert learner.result_.status is Status.OPTIMAL and verify(learner).holds
    assert learner.components_.shape == (13, 13)  # LogDet keeps the rank
    Z = learner.transform(X)
    assert KNeighborsClassifier(3).fit(Z, y).score(Z, y) > 0.95


def test_softmax_learner_refuses_what_it_cannot_use(wine):
    X, y = wine
    for name, value in (("loss", "squared"), ("solver", "dual_newton")):
        with pytest.raises(ValueError, match=f"{name}='{value}' is not available with strategy=\"softmax\""):
            MetricLearner(strategy="softmax", **{name: value}).fit(X, y)
    rows = Constraints.sq_distance([0, 1], [2, 4], 1.0, "<=")
    with pytest.raises(ValueError, match="learns from labels only: leave out constraints"):
        MetricLearner(strategy="softmax").fit(X, y, constraints=rows)
    with pytest.raises(ValueError, match="not available where points are processed in blocks"):
        MetricLearner(strategy="softmax").fit(X, y, block_size=50)
    with pytest.raises(ValueError, match="strategy must be"):
        KernelLearner(strategy="softmax").fit(X, y)
    with pytest.raises(ValueError, match="metric must be"):
        MetricLearner(metric="angular").fit(X, y)
