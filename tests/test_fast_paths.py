"""The fast paths keep their promises in structure - forms, shapes, memory - and give the same answers. No clocks."""

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear

from bregmat import Constraints, Factor, Frobenius, LogDet, MetricLearner, VonNeumann, nearest_kernel, nearest_metric
from bregmat.certificates.faces import clique_weights
from bregmat.coordinates.priors import metric_coordinates
from bregmat.operators import binding
from bregmat.operators.binding import bind, distinct_terms
from bregmat.operators.compound import MatrixRows, SignedSums
from bregmat.operators.linear_maps import PairGraph, RankOneRows
from bregmat.pairs import PairsLearner
from bregmat.solvers import mirror_newton, newton_system
from bregmat.solvers.box_qp import Model, minimize_exactly, minimize_in_box
from bregmat.solvers.mirror_newton import solve_newton_system
from bregmat.solvers.preconditioners import fourth_moment, heavy_block
from cases import OPERATORS, random_pairs

SOFT = {"logdet": "mirror_newton", "vonneumann": "mirror_newton", "frobenius": "dual_newton"}


def peak_of(call):
    """Result of a call and the most bytes that it held at once."""
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- the pair-graph form
def test_form_follows_from_the_counts(rng):
    X = rng.normal(size=(60, 30))
    many, few = random_pairs(rng, X, 3000), random_pairs(rng, X, 50)
    assert isinstance(bind(many, X), PairGraph)
    assert isinstance(bind(few, X), RankOneRows)
    i, j, k, l = np.array([rng.permutation(60)[:4] for _ in range(2000)]).T
    mixed = bind(Constraints.comparison(i, j, k, l), X)
    assert isinstance(mixed, SignedSums)
    assert isinstance(mixed.base, PairGraph)
    stack = bind(many + Constraints.trace(1.0), X)
    assert [type(op) for _, op in stack.parts] == [PairGraph, MatrixRows]


@pytest.mark.parametrize("divergence", SOFT)
def test_pairs_are_never_multiplied_out(divergence, rng, monkeypatch):
    """c = 60,000 pairs of n = 250 points in r = 200: the differences alone would be 96 MB."""
    n, r, c = 250, 200, 60_000
    X = rng.normal(size=(n, r)) / np.sqrt(r)
    constraints = random_pairs(rng, X, c)
    largest = []
    make = RankOneRows.__init__

    def watched(self, V):
        largest.append(V.shape[0])
        make(self, V)

    given = {"divergence": divergence, "slack_weight": 1e-3, "solver": SOFT[divergence], "tol": 1e-4}
    nearest_metric(X, constraints, max_iter=2, **given)  # loads the compiled code
    monkeypatch.setattr(RankOneRows, "__init__", watched)
    result, peak = peak_of(lambda: nearest_metric(X, constraints, **given))
    assert result.status == "OPTIMAL"
    assert max(largest, default=0) <= (4096 if SOFT[divergence] == "dual_newton" else n)  # that one goes block by block
    assert peak < 0.5 * c * r * 8


def test_pair_graph_gives_the_same_as_rows(rng, monkeypatch):
    X = rng.normal(size=(40, 30))
    constraints = random_pairs(rng, X, 2000)
    given = {"slack_weight": 1.0, "tol": 1e-10}
    graph = nearest_metric(X, constraints, **given)
    monkeypatch.setattr(binding, "PairGraph", lambda Z, a, b, sign: RankOneRows(Z[a] + Z[b] * sign[:, None]))
    rows = nearest_metric(X, constraints, **given)
    assert graph.objective == pytest.approx(rows.objective, rel=1e-9)
    assert np.allclose(graph.dual, rows.dual, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("points", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("form", ["pairs", "comparisons"])
@pytest.mark.parametrize("D", [LogDet(), VonNeumann(), Frobenius()], ids=lambda D: D.name)
def test_a_few_repeated_points_leave_a_pair_graph(D, form, points, rng):
    """Vectors of all rows made such a fit 17 times slower. Differences of near copies keep the digits of the data."""
    X, C = rng.normal(size=(60, 30)), rng.normal(size=(30, 30))
    for copy, eps in enumerate((0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5)):
        X[50 + copy] = X[copy] * (1.0 + eps * rng.normal(size=30))
    i, j = np.tile([np.arange(6), np.arange(50, 56)], 2)
    rows = Constraints.sq_distance(i, j, 1.0, "<=") + random_pairs(rng, X, 3000)
    if form == "comparisons":
        a, i, j = rng.integers(50, size=3000), np.tile(i, 250), np.tile(j, 250)
        rows = Constraints.comparison(a, (a + rng.integers(1, 50, 3000)) % 50, i, j)
    place, op, _ = metric_coordinates(points(X), C @ C.T, D).bind(rows)
    graph = op.base if form == "comparisons" else op
    assert isinstance(graph, PairGraph)
    assert len(graph.Z) <= 60 + 12  # each near copy once in each direction, however many rows name it
    exact = np.asarray(X, np.longdouble)
    t = rows.terms()
    first = distinct_terms(t)[0] if form == "comparisons" else slice(None)
    V = (exact[t.a[first]] - exact[t.b[first]]) @ np.asarray(place.R, np.longdouble)
    found, lengths = graph.vectors(slice(None)), np.linalg.norm(V.astype(float), axis=1)
    kept = lengths > 1e-11 * np.linalg.norm(exact @ place.R, axis=1).max()  # shorter ones may be rounding
    assert np.all(np.linalg.norm(found - V, axis=1)[kept] <= 1e-9 * lengths[kept])
    assert not found[lengths == 0].any()
    w = rng.normal(size=len(V))
    assert np.allclose(graph.adjoint(w), (found.T * w) @ found, rtol=1e-10, atol=1e-10 * lengths.max() ** 2)


def test_comparisons_of_neighbours_share_their_pairs(rng, monkeypatch):
    """3 targets and 10 impostors of each point make 30 comparisons of 13 pairs. Few rows need their vectors when they are bound."""
    X = rng.normal(size=(200, 40))
    i, near, far = np.arange(200)[:, None, None], np.arange(1, 4)[:, None], np.arange(20, 30)
    i, j, l = (column.ravel() for column in np.broadcast_arrays(i, (i + near) % 200, (i - far) % 200))
    formed, vectors = [], PairGraph.vectors
    monkeypatch.setattr(PairGraph, "vectors", lambda self, rows: formed.append(np.size(rows)) or vectors(self, rows))
    op = bind(Constraints.comparison(i, j, i, l), X)
    assert sum(formed) < 20  # of 12,000
    assert (op.c, op.base.c) == (6000, 200 * 13)
    W = (G := rng.normal(size=(40, 40))) @ G.T
    sq = lambda a, b: np.einsum("ij,jk,ik->i", X[a] - X[b], W, X[a] - X[b])  # noqa: E731
    assert np.allclose(op.values(W), sq(i, j) - sq(i, l))
    assert distinct_terms(Constraints.comparison([0, 1], [1, 0], [0, 1], [2, 2]).terms())[1].tolist() == [0, 1, 0, 2]


def test_graph_is_built_once_for_all_frames(rng):
    op = bind(random_pairs(rng, rng.normal(size=(30, 40)), 3000), rng.normal(size=(30, 40)))
    graph = op.graph
    assert op.congruence(np.eye(40)).graph is graph
    assert op.astype(np.float32).graph is graph


def test_only_rows_with_curvature_take_part(rng):
    X = rng.normal(size=(50, 6))
    i = rng.integers(0, 50, 400)
    j = (i + 1 + rng.integers(0, 49, 400)) % 50
    now = ((X[i] - X[j]) ** 2).sum(axis=1)
    bound = now * np.where(np.arange(400) < 20, 0.8, 10.0)  # 20 rows of 400 are violated at the prior
    seen = []

    class Watched(mirror_newton.MirrorNewton):
        def step(self, problem, state):
            violated = problem.losses.violated(state.values)
            seen.append((state.active.c, violated.sum(), len(state.curvature)))
            return super().step(problem, state)

    result = nearest_metric(X, Constraints.sq_distance(i, j, bound, "<="), slack_weight=1.0, solver=Watched())
    assert result.status == "OPTIMAL"
    assert seen[0][0] == 20
    assert all(active == violated == curvature for active, violated, curvature in seen)


# ---------------------------------------------------------------- many columns
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("divergence", SOFT)
def test_many_columns_cost_no_square_matrix(divergence, form, rng):
    """60 pairs in d = 3,000: a d x d matrix would be 72 MB, the touched rows are at most 2.9 MB."""
    n, d, c = 200, 3000, 60
    X = sp.random_array((n, d), density=0.02, rng=rng, format="csr")
    X = X if form == "sparse" else X.toarray()
    i = rng.integers(0, 100, c)
    constraints = Constraints.sq_distance(i, i + 1 + rng.integers(0, 99, c), 10.0, "<=") + Constraints.sq_distance(
        i, (i + 100) % n, 60.0, ">="
    )
    result, peak = peak_of(lambda: nearest_metric(X, constraints, divergence=divergence, slack_weight=1.0))
    assert result.status == "OPTIMAL"
    assert len(result.spectrum()) <= 2 * c
    assert peak < d * d * 8 / 4
    out, peak = peak_of(lambda: result.transform(X))
    assert out.shape == (n, d)
    assert peak < d * d * 8 / 2  # the answer itself is 4.8 MB


def test_few_touched_points_of_many(rng):
    """Rows that occur in no constraint are not looked at: here they would spoil everything."""
    G0 = rng.normal(size=(1000, 5))
    constraints = random_pairs(rng, G0[:20], 30)
    clean = nearest_kernel(Factor(G0), constraints, slack_weight=1.0)
    G0[20:] = 1e150
    assert nearest_kernel(Factor(G0), constraints, slack_weight=1.0).objective == clean.objective


def test_factor_is_streamed(rng, tmp_path):
    X = rng.normal(size=(500, 4))
    result = nearest_metric(X, random_pairs(rng, X, 40), slack_weight=1.0)
    result.write_factor(tmp_path / "blocks.npy", rows=64)
    result.write_factor(tmp_path / "whole.npy")
    assert np.array_equal(np.load(tmp_path / "whole.npy"), result.factor)
    assert np.allclose(np.load(tmp_path / "blocks.npy"), result.factor, rtol=1e-14)


# ---------------------------------------------------------------- the linear system
def system(rng, name, with_metric):
    op = OPERATORS[name](rng)
    h, B = rng.uniform(0.1, 5.0, op.c), rng.normal(size=(op.r, op.r))
    S = np.exp(B + B.T) if with_metric else None
    return op, h, S, B + B.T


def applied(op, h, S, E):
    one = 1.0 if S is None else S
    return E + one * op.adjoint(h * op.values(one * E))


def residual(op, h, S, B, E):
    return np.linalg.norm(applied(op, h, S, E) - B) / np.linalg.norm(B)


def rounding(op, h, S):
    """What a direct solution may leave: up to 39 roundings of the largest entry of the system in 600 random ones."""
    units = np.eye(op.r * op.r).reshape(-1, op.r, op.r)
    system = np.array([applied(op, h, S, unit).ravel() for unit in units])
    return 100 * np.finfo(float).eps * np.linalg.norm(system, 2)


@pytest.mark.parametrize("with_metric", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
class TestNewtonSystem:
    def test_factorisation(self, name, with_metric, rng):
        op, h, S, B = system(rng, name, with_metric)
        solution = solve_newton_system(op, h, S, B, tol=0.0, direct_flops=np.inf)
        assert solution.steps == 0
        assert residual(op, h, S, B, solution.E) < rounding(op, h, S)
        few = op.restrict(np.arange(4)), h[:4]  # fewer rows than r (r + 1) / 2 = 10: the other formula
        assert residual(*few, S, B, solve_newton_system(*few, S, B, tol=0.0).E) < rounding(*few, S)

    @pytest.mark.parametrize("single", [False, True])
    def test_conjugate_gradients_give_the_same(self, name, with_metric, single, rng):
        op, h, S, B = system(rng, name, with_metric)
        direct = solve_newton_system(op, h, S, B, tol=0.0, direct_flops=np.inf)
        tol = 1e-10 * np.linalg.norm(B)
        solution = solve_newton_system(op, h, S, B, tol=tol, direct_flops=0.0, single=single)
        assert solution.steps > 0
        assert solution.residual <= tol
        assert residual(op, h, S, B, solution.E) < 1e-8
        assert np.allclose(solution.E, direct.E, rtol=1e-6, atol=1e-7 * np.linalg.norm(B))


def test_single_precision_products_reach_their_tolerance(rng):
    op = bind(random_pairs(rng, rng.normal(size=(60, 30)), 2000), rng.normal(size=(60, 30)))
    h, B = rng.uniform(0.1, 2.0, op.c), rng.normal(size=(30, 30))
    B = B + B.T
    for tol in (1e-2, 1e-4):
        single = solve_newton_system(op, h, None, B, tol=tol * np.linalg.norm(B), direct_flops=0.0, single=True)
        double = solve_newton_system(op, h, None, B, tol=tol * np.linalg.norm(B), direct_flops=0.0, single=False)
        assert residual(op, h, None, B, single.E) < 2 * tol + 1e-6
        assert single.steps <= double.steps + 2
        assert single.E.dtype == np.float64


@pytest.mark.parametrize("with_metric", [False, True])
def test_preconditioner_is_exact_for_its_model(with_metric, rng):
    """It inverts E + s N (2 C E C + tr(C E) C) with s fitted so that the model has the trace of A* h A."""
    V = rng.normal(size=(300, 5))
    h, R = rng.uniform(0.5, 2.0, 300), rng.normal(size=(5, 5))
    S = np.exp(np.add.outer(V[0], V[0])) if with_metric else None
    R = R + R.T
    E = fourth_moment(RankOneRows(V), h, S)(R)
    v = V if S is None else V * np.sqrt(np.diag(S))
    C = (v.T * h) @ v / h.sum()
    s = np.sum(h * (v**2).sum(axis=1) ** 2) / (np.trace(C) ** 2 + 2 * np.sum(C * C))
    assert np.allclose(E + s * (2 * C @ E @ C + np.sum(C * E) * C), R, rtol=1e-10, atol=1e-10)


def test_preconditioner_saves_steps(rng, monkeypatch):
    X = rng.normal(size=(200, 40)) * np.geomspace(1.0, 0.03, 40)
    op = bind(random_pairs(rng, X, 4000), X)
    h, B = rng.uniform(0.5, 2.0, op.c), np.diag(rng.normal(size=40))
    given = {"tol": 1e-8, "direct_flops": 0.0, "single": False, "max_steps": 5000}
    with_it = solve_newton_system(op, h, None, B, **given)
    monkeypatch.setattr(newton_system, "fourth_moment", lambda *_: None)
    without = solve_newton_system(op, h, None, B, **given)
    assert with_it.steps < 0.7 * without.steps
    assert np.allclose(with_it.E, without.E, atol=1e-7)


def test_block_of_heavy_entries_saves_steps(rng, monkeypatch):
    """A metric over many decades and heavy rows: a few entries hold the condition of the system, and a sample of the rows their block."""
    op = RankOneRows(rng.normal(size=(2000, 20)) * np.geomspace(1.0, 0.1, 20))
    S = np.sqrt(np.multiply.outer(np.geomspace(10.0, 1e-4, 20), np.geomspace(10.0, 1e-4, 20)))
    h, B = 10.0 ** rng.uniform(-6, 1, op.c), np.diag(rng.normal(size=20))
    given = {"tol": 1e-8, "direct_flops": 0.0, "single": False, "max_steps": 5000}
    assert heavy_block(op, 1e-9 * h, S) is None
    monkeypatch.setattr(newton_system, "FEW", 0)
    with_it = solve_newton_system(op, h, S, B, **given)
    assert residual(op, h, S, B, with_it.E) < 1e-7
    monkeypatch.setattr(newton_system, "heavy_block", lambda *_: None)
    assert with_it.steps < 0.5 * solve_newton_system(op, h, S, B, **given).steps


def test_block_of_heavy_entries_waits_until_conjugate_gradients_are_long(rng, monkeypatch):
    """Far from the solution a step of Newton is solved to a tenth, in fewer steps than the block costs."""
    op = RankOneRows(rng.normal(size=(2000, 20)) * np.geomspace(1.0, 0.1, 20))
    S = np.sqrt(np.multiply.outer(np.geomspace(10.0, 1e-4, 20), np.geomspace(10.0, 1e-4, 20)))
    monkeypatch.setattr(newton_system, "heavy_block", None)
    B = np.diag(rng.normal(size=20))
    found = solve_newton_system(op, np.full(op.c, 1e-3), S, B, tol=0.1 * float(np.linalg.norm(B)), direct_flops=0.0)
    assert 0 < found.steps < newton_system.FEW


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_whole_solve_is_the_same_by_either_way(divergence, rng, monkeypatch):
    X = rng.normal(size=(60, 12))
    constraints = random_pairs(rng, X, 2500)  # enough rows for float32 products
    given = {"divergence": divergence, "slack_weight": 1.0, "solver": "mirror_newton"}
    results = {}
    for way, changes in {"direct": {"direct_flops": np.inf}, "cg": {"direct_flops": 0.0}}.items():
        monkeypatch.setattr(mirror_newton, "solve_newton_system", partial(solve_newton_system, **changes))
        results[way] = nearest_metric(X, constraints, **given)
        assert results[way].status == "OPTIMAL"
    a, b = results.values()
    unit = max(1.0, abs(a.objective))
    assert abs(a.objective - b.objective) <= 1e-6 * unit  # each is within its gap of the optimum
    assert max(a.dual_bound, b.dual_bound) <= min(a.objective, b.objective) + 1e-12 * unit


def test_certificate_is_in_double_precision(rng):
    X = rng.normal(size=(60, 12)).astype(np.float32)
    result = nearest_metric(X, random_pairs(rng, X, 2500), slack_weight=1.0)
    assert {result.factor.dtype, result.dual.dtype, result.values.dtype, result.B.dtype} == {np.dtype(np.float64)}
    assert 0 <= result.gap <= 1e-6


# ---------------------------------------------------------------- the quadratic programs of the dual Newton
def box_problem(rng, c=25, r=5, *, weighted=True):
    op = RankOneRows(rng.normal(size=(c, r)))
    weight = np.exp(np.add.outer(*rng.normal(size=(2, r)) * 0)) + np.ones((r, r)) if weighted else None
    slope = rng.uniform(0.01, 0.1, c)
    norms = np.diag(op.gram()) * (1.0 if weight is None else 2.0)
    model = Model(op, weight, slope, norms + slope, np.float64, 1e-10)
    lower = np.where(rng.random(c) < 0.3, -np.inf, -rng.random(c))
    upper = np.where(rng.random(c) < 0.3, np.inf, rng.random(c))
    return model, rng.normal(size=c), lower, upper


def exact_minimiser(model, gradient, lower, upper):
    c = len(gradient)
    H = np.array([model.product(e) for e in np.eye(c)])
    L = np.linalg.cholesky(H)
    return lsq_linear(L.T, -np.linalg.solve(L, gradient), bounds=(lower, upper), tol=1e-14, method="bvls").x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("r", [3, 8])
def test_box_quadratic_programs(weighted, r, rng):
    """Both methods against bounded least squares; r = 3 has fewer unknowns in svec than free rows, r = 8 more."""
    model, q, lower, upper = box_problem(rng, r=r, weighted=weighted)
    best = exact_minimiser(model, q, lower, upper)

    def value(d):
        return q @ d + d @ model.product(d) / 2

    exact = minimize_exactly(model, q, lower, upper, np.zeros_like(q))
    assert np.allclose(exact, best, rtol=1e-6, atol=1e-7)
    assert ((lower <= exact) & (exact <= upper)).all()
    none = np.zeros((0, 2), dtype=int)
    d, Hd, reached = minimize_in_box(model, q, lower, upper, none, reduction=1e-8, rounds=50, cg_steps=100)
    assert reached
    assert ((lower <= d) & (d <= upper)).all()
    assert np.allclose(Hd, model.product(d), rtol=1e-8, atol=1e-8)
    assert value(d) <= value(best) + 1e-10 * abs(value(best))


@pytest.mark.parametrize("name", OPERATORS)
def test_gram_of_every_operator(name, rng):
    op = OPERATORS[name](rng)
    Phi = op.features(None)
    assert np.allclose(op.gram(), Phi @ Phi.T, rtol=1e-10, atol=1e-10)


# ---------------------------------------------------------------- many dimensions
def test_dependent_differences_need_no_large_singular_vectors(rng, monkeypatch):
    """One cycle of pairs was enough for a decomposition of all differences: 1.2 s and 170 MB of 500 in 20,000 columns."""
    X = rng.normal(size=(100, 20_000)) / 100.0
    i = np.arange(3, 97, 2)
    rows = Constraints.sq_distance([0, 1, 2, *i], [1, 2, 0, *(i + 1)], 1.0, "<=")  # three sides of a triangle
    widest, svd = [], np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda A, **given: widest.append(max(A.shape)) or svd(A, **given))
    result, peak = peak_of(lambda: nearest_metric(X, rows))
    assert result.status == "OPTIMAL"
    assert result.coordinates.span.basis.shape[1] == 49
    assert max(widest, default=0) <= 50
    assert peak < 275 * 20_000 * 8  # about 250 vectors; 300 with singular vectors


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("D", SOFT)
def test_distances_in_many_dimensions_form_no_square_matrix(D, kind, rng):
    """Five pairs in 8,000 dimensions took 17 s and 1.8 GB, and 50,000 sparse columns raised a MemoryError."""
    d = 2500
    X = rng.normal(size=(30, d)) if kind == "dense" else sp.random_array((30, d), density=0.02, rng=rng, format="csr")
    index, y = np.arange(10).reshape(5, 2), np.array([1, 1, -1, -1, 1])
    learner = PairsLearner(divergence=D, prior="identity", preprocessor=X)

    def learned():
        learner.fit(index, y)
        return learner.pair_distance(index), learner.predict(index), learner.pair_score(index)

    learned()  # loads what is loaded on first use
    (distance, labels, score), peak = peak_of(learned)
    assert peak < 0.2 * 8 * d * d
    P = X.toarray() if sp.issparse(X) else X
    v = P[index[:, 0]] - P[index[:, 1]]
    W = learner.result_.metric()
    assert np.allclose(distance**2, np.einsum("ij,jk,ik->i", v, W, v), rtol=1e-9)
    assert np.array_equal(score, -distance)
    assert np.array_equal(labels, np.where(distance <= learner.threshold_, 1, -1))


def test_metric_of_many_dimensions_is_a_small_pickle(rng):
    d = 2500
    X, y = rng.normal(size=(20, d)), np.arange(20) % 2
    learner = MetricLearner(strategy="random", prior="identity", n_constraints=10, random_state=0).fit(X, y)
    pairs = X[[[0, 1], [2, 5]]]
    (metric, distance), peak = peak_of(lambda: (learner.get_metric(), learner.pair_distance(pairs)))
    data = pickle.dumps(metric)
    assert max(peak, len(data)) < 0.2 * 8 * d * d
    again = pickle.loads(data)
    assert [again(*pair) for pair in pairs] == pytest.approx(distance, rel=1e-12)
    assert distance == pytest.approx(np.linalg.norm((pairs[:, 0] - pairs[:, 1]) @ learner.components_.T, axis=1))


def test_gram_matrix_of_rows_of_all_kinds(rng):
    """Block by block the same as from the rows written out."""
    M = rng.normal(size=(60, 6, 6))
    rows = Constraints.trace(1.0) + Constraints.similarity([0, 1], [2, 3], 0.0, "==") + Constraints.diagonal(np.ones(6))
    for given in (M[:2], M):
        mixed = rows + Constraints.linear(given + given.transpose(0, 2, 1), np.zeros(len(given)), "<=")
        operator = bind(mixed, np.eye(6)).congruence(rng.normal(size=(6, 6)))
        features = operator.features(None)
        np.testing.assert_allclose(operator.gram(), features @ features.T, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_of_a_column_changes_no_judgement(rng, unit):
    """A small column is not the rounding of a large one; duplicates up to rounding are one point in any unit."""
    X = rng.normal(size=(6, 3)) * [1.0, unit, 1.0]
    X[1] = X[0] * (1 + 1e-16 * rng.normal(size=3))
    X[2] = X[3] + [0.0, 1e-3 * unit, 0.0]
    rows = Constraints.sq_distance([0, 2], [1, 3], 1.0, "<=") + Constraints.comparison([0], [1], [2], [3])
    norms = bind(rows, X).norms()
    assert norms[0] == 0
    assert np.allclose(norms[1:], (1e-3 * unit) ** 2, rtol=1e-6)
    vector = np.r_[1.0, -1.0, np.zeros(4)][:, None]
    assert bind(Constraints.linear([(vector, [1.0])], [0.0], "<="), X).norms() == 0


def test_cliques_in_as_many_dimensions_as_they_fill_are_left_alone(rng):
    """A tetrahedron is no planar clique, and a range without the direction has nothing to give up."""
    points = rng.normal(size=(4, 3))
    i, j = np.triu_indices(4, 1)
    rows = Constraints.sq_distance(i, j, ((points[i] - points[j]) ** 2).sum(axis=1), "==")
    assert clique_weights(rows, np.ones(6, bool)) == []
    result = nearest_kernel(np.eye(4), rows)
    assert result.status == "OPTIMAL" and result.singular is None
    flat = np.c_[rng.normal(size=(5, 2)), np.zeros((5, 1))]
    i, j = np.triu_indices(5, 1)
    rows = Constraints.sq_distance(i, j, 2.0 * ((flat[i] - flat[j]) ** 2).sum(axis=1), "==")
    result = nearest_metric(flat[:, :2], rows)
    assert result.status == "OPTIMAL" and result.singular is None


def test_norms_of_sums_of_squares_are_those_of_their_matrices(rng):
    """From inner products of vectors; of points of very different lengths and near copies, whose terms cancel, from matrices."""
    Z = rng.normal(size=(30, 6)) * 10.0 ** rng.uniform(-8, 3, (30, 1))
    Z[3] = Z[4] * (1.0 + 1e-9)
    i, j, k = rng.permutation(30), rng.permutation(30), rng.permutation(30)
    on = (i != j) & (j != k) & (k != i)
    rows = Constraints.similarity(i, j, 1.0, "<=") + Constraints.comparison(i[on], j[on], i[on], k[on])
    op = bind(rows + Constraints.similarity_comparison([3], [1], [4], [1]) + Constraints.trace(3.0), Z)
    exact = [np.linalg.norm(op.restrict(np.array([row])).adjoint(np.ones(1))) for row in range(op.c)]
    assert np.allclose(op.exact_norms(), exact, rtol=1e-3, atol=0.0)
