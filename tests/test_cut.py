"""Balanced cuts: brute force and a conic solver as oracles, bounds recomputed from the multipliers, proofs, bad input."""

import itertools
from fractions import Fraction
from functools import cache

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bregmat import balanced_cut, verify
from bregmat._kernels import cut as cut_kernels
from bregmat._kernels import elimination
from bregmat.applications.cut import balanced as cut
from bregmat.applications.cut import lowrank as cut_lowrank
from bregmat.applications.cut import proof as cut_proof
from bregmat.applications.cut.graph import read_graph
from bregmat.applications.cut.lowrank import LowRank
from bregmat.applications.cut.path import CentralPath
from bregmat.applications.cut.proof import bound_of, is_above, projected
from bregmat.applications.cut.rounding import BestCut, certifying, fiedler, smallest
from bregmat.applications.cut.search import CutSearch
from states import saved_and_loaded

nan, inf = np.nan, np.inf
METHODS = ["central_path", "low_rank"]


def cycle(n):
    return nx.to_numpy_array(nx.cycle_graph(n))


def grid(a, b):
    return nx.to_numpy_array(nx.grid_2d_graph(a, b))


def join(A, B):
    return np.block([[A, np.zeros((len(A), len(B)))], [np.zeros((len(B), len(A))), B]])


def distances(n):
    i = np.arange(n)
    W = np.triu(1.0 / (1.0 + ((i[:, None] * 7 - i * 7) % n)), 1)
    return W + W.T


def karate():
    graph = nx.Graph(nx.karate_club_graph())
    nx.set_edge_attributes(graph, 1, "weight")
    return graph


def two_blocks(n, inside, across, seed=0):
    """Mean numbers of neighbours in the own block and in the other."""
    p, q = 2 * inside / n, 2 * across / n
    return nx.stochastic_block_model([n // 2, n - n // 2], [[p, q], [q, p]], seed=seed)


# values of tr(LX) / 4 from a conic solver (CVXPY 1.9, Clarabel, tolerances 1e-11), dummy vertex for odd n
RELAXED = {
    "cycle 9": (cycle(9), 1.039802475),
    "cycle 12": (cycle(12), 0.803847577),
    "grid 4 x 5": (grid(4, 5), 3.463433449),
    "grid 3 x 5": (grid(3, 5), 2.998160776),
    "cycles 5 and 9": (join(cycle(5), cycle(9)), 0.727861733),
    "cycles 4 and 7": (join(cycle(4), cycle(7)), 0.645446054),
    "weighted 10": (distances(10), 4.209757692),
    "weighted 13": (distances(13), 5.321159634),
}


# the same relaxations with weights, target and fixed vertices, written without terminal and slack: X of order n + 1 whose first row
# holds x, on the face of fixed entries, |w'x - c|^2 <= h^2 (== for two values). Conic solver as above.
SIDES = {
    "a quarter": (cycle(12), {"target": 0.25}, 0.602885683),
    "4 or 5 of 15": (grid(3, 5), {"target": 0.3}, 1.669079189),
    "corners": (grid(4, 5), {"fixed": [0, -1, -1, -1, 0, *[-1] * 10, 1, -1, -1, -1, 1]}, 4.527686466),
    "weights": (distances(10), {"vertex_weights": np.arange(1, 11)}, 3.845069699),
    "all three": (
        distances(10),
        {"vertex_weights": np.arange(1, 11), "target": 0.3, "fixed": [1, -1, -1, 0, *[-1] * 6]},
        3.303748235,
    ),
    "no unit": (distances(10), {"vertex_weights": np.sqrt(np.arange(1, 11)), "target": 0.4}, 3.521026608),
}


def brute_force(A):
    n = len(A)
    sides = np.array([np.isin(np.arange(n), side) for side in itertools.combinations(range(n), n // 2)])
    return np.einsum("ki,ij,kj->k", sides, A, ~sides).min()


def random_graph(rng, n, kind):
    A = np.triu(rng.random((n, n)) < rng.choice([0.2, 0.4, 0.7]), 1) * 1.0
    if kind == "weighted":
        A *= rng.integers(1, 4, (n, n))
    elif kind == "real":
        A *= rng.random((n, n))
    elif kind == "multiples":
        A *= 3.0
    return A + A.T


def assert_certified(result, A, tol=1e-6):
    """Everything a result claims, from its labels and multipliers alone."""
    A = np.asarray(A.todense() if sp.issparse(A) else A, dtype=float)
    n = len(A)
    x = result.labels
    assert x.shape == (n,)
    assert x[0] == 0
    assert set(x) <= {0, 1}
    assert result.imbalance == abs(n - 2 * x.sum()) == n % 2
    assert result.cut == pytest.approx(A[x == 0][:, x == 1].sum(), rel=1e-12)
    even = n + n % 2
    A = np.pad(A, (0, even - n))
    assert result.dual.shape == (even,)
    V = np.linalg.svd(np.ones((even, 1)))[0][:, 1:]
    M = np.diag(A.sum(axis=1) + result.dual) - A
    lowest = np.linalg.eigvalsh(V.T @ M @ V)[0]
    assert lowest >= -1e-13 * even * max(1.0, np.abs(M).max())  # rounding of the eigenvalue routine used here
    assert result.relaxation_bound == pytest.approx(-result.dual.sum() / 4, rel=1e-9, abs=1e-12 * even)
    assert result.relaxation_bound <= result.lower_bound + 1e-9 * max(1.0, result.cut)
    assert result.lower_bound <= result.cut
    assert result.gap == ((result.cut - result.lower_bound) / result.cut if result.cut else 0)
    assert result.is_optimal == (result.status == "OPTIMAL") == (result.gap <= tol)


# ---------------------------------------------------------------- oracles
@pytest.mark.parametrize("kind", ["plain", "weighted", "real", "multiples"])
@pytest.mark.parametrize("solver", METHODS)
def test_brute_force(rng, kind, solver):
    """Up to 12 vertices, odd and even, connected or not: bound <= optimum <= cut, and equal where that is claimed."""
    proven = 0
    for trial in range(25):
        n = int(rng.integers(2, 13))
        A = random_graph(rng, n, kind)
        best = brute_force(A)
        result = balanced_cut(A, solver=solver, random_state=trial)
        assert_certified(result, A)
        assert result.exit_reason == "TOLERANCE"
        assert result.lower_bound <= best * (1 + 1e-12)
        assert best <= result.cut * (1 + 1e-12)
        if result.is_optimal:
            proven += 1
            assert result.cut == pytest.approx(best, rel=1e-6)  # the tolerance
    assert proven >= 10  # most small graphs are proven; none is a sign that the bound is not what it should be


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("name", [*RELAXED, *SIDES])
def test_relaxation_is_that_of_a_conic_solver(name, solver):
    """The method alone, without the shortcuts of whole weights; odd and disconnected graphs are among them."""
    A, sides, value = SIDES[name] if name in SIDES else (RELAXED[name][0], {}, RELAXED[name][1])
    graph = read_graph(A, **sides)
    rng = np.random.default_rng(0)
    method = CentralPath(graph, rng) if solver == "central_path" else LowRank(graph, rng)
    while not method.stalled and (solver == "low_rank" or graph.total(method.value) - value > 1e-8):
        method.step()
    bound, dual = bound_of(graph, method.y, method.level(1e-7, True))
    assert_allclose(graph.total(method.value), value, atol=2e-7)  # the oracle's own accuracy
    assert value - 2e-6 <= bound <= value + 1e-8
    assert_allclose(bound, graph.base - dual.sum() / 4, rtol=1e-12)


def random_sides(rng, n):
    """Vertex weights, a target and fixed vertices."""
    kinds = (None, rng.integers(1, 6, n), rng.random(n) + 0.1)
    fixed = np.full(n, -1)
    if rng.random() < 0.6:
        some = rng.choice(n, int(rng.integers(1, n)), replace=False)
        fixed[some] = rng.integers(0, 2, len(some))
    target = float(rng.choice([0.5, 0.3, 0.25, 0.1, 0.8, rng.uniform(0.01, 0.99)]))
    return {"vertex_weights": kinds[rng.integers(3)], "target": target, "fixed": fixed}


def least_of_all(A, vertex_weights, target, fixed):
    """The weight of the lightest cut that is allowed, by trying all; inf if none is."""
    n = len(A)
    w = np.ones(n) if vertex_weights is None else vertex_weights
    sides = np.array(list(itertools.product([0, 1], repeat=n)))
    off = np.abs(sides @ w - target * w.sum())
    sides = sides[((sides == fixed) | (fixed < 0)).all(axis=1) & (off <= 0.5 * w[fixed < 0].max() * (1 + 1e-9))]
    return np.einsum("ki,ij,kj->k", sides, A, 1 - sides).min(initial=inf)


@pytest.mark.parametrize("kind", ["plain", "weighted", "real", "multiples"])
@pytest.mark.parametrize("solver", METHODS)
def test_brute_force_with_weights_target_and_fixed_vertices(rng, kind, solver):
    """Every bound is at most the least cut, every cut is allowed, what is refused has no cut, and `verify` finds the same."""
    outcomes = []
    for trial in range(40):
        n = int(rng.integers(2, 11))
        A, sides = random_graph(rng, n, kind), random_sides(rng, n)
        best = least_of_all(A, **sides)
        if best == inf:
            with pytest.raises(ValueError, match="target must leave the fixed vertices a balanced cut"):
                balanced_cut(A, solver=solver, **sides)
            continue
        result = balanced_cut(A, solver=solver, random_state=trial, **sides)
        x, fixed = result.labels, sides["fixed"]
        w = np.ones(n) if sides["vertex_weights"] is None else sides["vertex_weights"]
        assert_array_equal(x[fixed >= 0], fixed[fixed >= 0])
        off = w[x == 1].sum() - sides["target"] * w.sum()
        assert abs(off) <= 0.5 * w[fixed < 0].max() * (1 + 1e-9)
        assert result.imbalance == pytest.approx(2 * abs(off), abs=1e-12 * w.sum())
        assert result.cut == pytest.approx(A[x == 0][:, x == 1].sum(), rel=1e-12)
        assert result.exit_reason == "TOLERANCE"
        assert result.lower_bound <= best * (1 + 1e-12) <= result.cut * (1 + 2e-12)
        if result.is_optimal:
            assert result.cut == pytest.approx(best, rel=1e-6)  # the tolerance
        assert verify(result, **({"graph": A} | sides)).holds
        outcomes.append(result.is_optimal)
    assert len(outcomes) >= 20 and np.mean(outcomes) >= 0.6


def test_equal_weights_and_no_fixed_vertices_are_the_half_cut():
    """The half cut of a graph without weights is the special case, for even and odd numbers of vertices."""
    for A in (grid(9, 9), grid(4, 5), distances(13)):
        plain = balanced_cut(A, random_state=0)
        n = len(A)
        for weights in (np.ones(n), np.full(n, 3), np.full(n, 0.1)):
            same = balanced_cut(A, vertex_weights=weights, target=0.5, fixed=np.full(n, -1), random_state=0)
            assert_array_equal(same.labels, plain.labels)
            assert_allclose(same.dual, plain.dual, rtol=1e-9, atol=1e-12)
            assert same.imbalance == pytest.approx(plain.imbalance * weights[0])


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("grid 60 x 60", {"target": 0.25}),
        ("grid 60 x 60", {"vertex_weights": 1 + np.arange(3600) % 7}),
        ("grid 60 x 60", {"fixed": np.repeat([0, -1, 1], [60, 3480, 60]), "target": 0.4}),
        ("two blocks", {"target": 0.05}),
        ("two blocks", {"vertex_weights": 1 + np.arange(1002) % 7, "target": 0.3}),
    ],
)
def test_large_graphs_with_sides_are_solved(name, sides):
    """The factor form ends at the relaxation, and elimination proves its bound: multipliers differ by factors of a thousand."""
    graph = grid(60, 60) if name.startswith("grid") else nx.to_scipy_sparse_array(two_blocks(1002, 12, 4))
    result = balanced_cut(sp.csr_array(graph), random_state=0, n_roundings=4, **sides)
    assert (result.solver, result.exit_reason) == ("low rank", "TOLERANCE")
    assert 0 < result.lower_bound <= result.cut
    if name == "two blocks":
        assert verify(result, **({"graph": graph} | sides)).holds


def test_a_planted_part_is_proven_by_its_cut():
    graph = nx.stochastic_block_model([300, 700], [[0.05, 0.004], [0.004, 0.05]], seed=1)
    result = balanced_cut(graph, target=0.7, random_state=0)
    assert result.is_optimal and result.n_iter == 0
    assert_array_equal(result.labels, np.repeat([0, 1], [300, 700]))


def test_one_balanced_cut_only():
    """If all free vertices have to be on one side, nothing is solved."""
    result = balanced_cut(cycle(6), fixed=[0, 0, 0, 1, 1, -1])
    assert_array_equal(result.labels, [0, 0, 0, 1, 1, 1])
    assert (result.cut, result.lower_bound, result.status, result.imbalance) == (2, 2, "OPTIMAL", 0)
    assert verify(result, graph=cycle(6), fixed=[0, 0, 0, 1, 1, -1]).holds


def test_kulis_6_4_gap_of_the_central_path(rng):
    """On the path, X = eps S with unit diagonal, the gap is eps (n - 1) exactly."""
    graph = read_graph(grid(4, 5))
    method = CentralPath(graph, rng)
    for _ in range(8):
        method.step()
    eps = method.eps
    for _ in range(30):  # centre at this eps
        V = np.linalg.svd(np.ones((graph.size, 1)))[0][:, 1:]
        S = V @ np.linalg.inv(V.T @ (graph.dense + np.diag(method.y)) @ V) @ V.T
        dy = np.linalg.solve(S * S, np.diag(S) - 1 / eps)
        method.y = method.y + dy / (1 + np.sqrt(max(dy @ (S * S) @ dy, 0)))
    X = eps * S
    assert_allclose(np.diag(X), 1, atol=1e-8)
    assert np.trace(graph.dense @ X) + method.y.sum() == pytest.approx(eps * (graph.size - 1), rel=1e-7)


# ---------------------------------------------------------------- what the issue asks for
@pytest.mark.parametrize("solver", METHODS)
def test_karate_club_is_proven(solver):
    result = balanced_cut(karate(), solver=solver, random_state=0)
    assert (result.cut, result.lower_bound, result.status, result.exit_reason) == (10, 10, "OPTIMAL", "TOLERANCE")
    assert_certified(result, nx.to_numpy_array(karate()))
    assert result.is_optimal


@pytest.mark.parametrize("n", [200, 201])
def test_two_blocks_prove_themselves(n):
    """Clear communities: one factorisation, no relaxation."""
    graph = two_blocks(n, 20, 5)
    result = balanced_cut(graph, random_state=0)
    assert result.is_optimal
    assert result.n_iter == 0
    assert_certified(result, nx.to_numpy_array(graph))
    assert result.cut <= 5 * n / 2 + 60  # planted, up to noise


def test_low_rank_above_the_size_of_the_path():
    graph = two_blocks(600, 10, 3)
    result = balanced_cut(graph, random_state=0, n_roundings=16)
    assert result.solver == "low rank"
    assert_certified(result, nx.to_numpy_array(graph))
    assert 0.9 * result.cut < result.lower_bound <= result.cut
    assert result.relaxation_bound > result.lower_bound - 1


def test_a_run_ends_with_the_certificate_that_finishes_it(monkeypatch):
    """Without another step and another proof: no measurement is said to be the last one."""
    calls = []
    measure = CutSearch.measure
    monkeypatch.setattr(CutSearch, "measure", lambda self, is_last: calls.append(is_last) or measure(self, is_last))
    result = balanced_cut(nx.random_regular_graph(4, 300, seed=1), random_state=0)
    assert result.exit_reason == "TOLERANCE" and not result.is_optimal
    assert len(calls) == result.n_iter + 1 and not any(calls)


def test_disconnected():
    three = nx.random_regular_graph(3, 20, seed=1)
    result = balanced_cut(nx.disjoint_union(three, three))
    assert (result.cut, result.lower_bound, result.is_optimal) == (0, 0, True)
    empty = balanced_cut(np.zeros((5, 5)))
    assert (empty.cut, empty.imbalance, empty.is_optimal) == (0, 1, True)
    uneven = join(grid(4, 4), grid(2, 5))
    result = balanced_cut(uneven, random_state=0)
    assert_certified(result, uneven)
    assert result.lower_bound > 0  # the range of L would not have seen that


def test_weights_scale():
    """Bounds and cuts scale with the weights; whole weights are rounded up to what a cut can weigh."""
    A = distances(13)
    one, big, small = (balanced_cut(A * s, random_state=0) for s in (1.0, 2.0**600, 2.0**-600))
    for other, factor in ((big, 2.0**600), (small, 2.0**-600)):
        assert_array_equal(other.labels, one.labels)
        assert (other.cut, other.relaxation_bound, other.gap) == (
            one.cut * factor,
            one.relaxation_bound * factor,
            one.gap,
        )
    assert read_graph(cycle(6) * 6).step == 12  # all degrees even: a multiple of 2 * 6
    assert read_graph(nx.petersen_graph()).step == 2  # all odd, 5 on a side: odd cuts only
    assert read_graph(nx.petersen_graph()).round_up(3.2) == 5
    assert read_graph(nx.path_graph(4)).round_up(1.2) == 2
    assert read_graph(A).round_up(1.2) == 1.2


@pytest.mark.parametrize("unit", [0.5, 0.1, 1 / 3, 2.0**-1000])
def test_cuts_of_weights_with_a_common_unit_are_near_multiples_of_its_step(rng, unit):
    """Every balanced cut, in fractions, is within ``spread`` of one; and no cut is below what a bound below it is rounded up to."""
    for _ in range(20):
        n = int(rng.integers(2, 8))
        A = np.triu(unit * rng.integers(0, 7, (n, n)), 1)
        A[0, -1] = 2 * unit
        work = read_graph(A + A.T)
        assert work.step >= unit * (1 - 1e-15)
        exact = [[Fraction(x) for x in row] for row in (A + A.T).tolist()]
        step, offset, spread = (Fraction(float(x)) for x in (work.step, work.offset, work.spread))
        for side in itertools.combinations(range(n), n // 2):
            cut = sum(exact[i][j] for i in side for j in range(n) if j not in side)
            assert abs(cut - offset - round((cut - offset) / step) * step) <= spread
            for share in (1e-6, 0.3, 1 - 1e-6):
                assert work.round_up(float(cut - share * step)) <= float(cut) * (1 + 1e-15)


def test_heavy_edges_leave_a_small_unit_and_rounded_ones_do_not(rng):
    """A heavy edge ties two vertices; a unit so small that rounding of the heavy weight hides it is none."""
    A = np.triu(rng.integers(1, 4, (6, 6)), 1).astype(float)
    A[0, 1] = 1e9 + 7
    assert read_graph(A + A.T).step in (1.0, 2.0)
    A[0, 1] = 1e9 + 1 / 3
    assert read_graph(A + A.T).step == 0.0
    A = np.triu(rng.integers(1, 10**9, (6, 6)), 1) * 1e-9
    assert read_graph(A + A.T).step == 0.0


def test_parity_holds(rng):
    for _ in range(20):
        d, n = int(rng.integers(2, 5)), 10
        graph = nx.random_regular_graph(d, n, seed=int(rng.integers(1000)))
        work = read_graph(graph)
        for _ in range(20):
            cut = work.cut(work.balance.split(rng.normal(size=n)))
            assert (cut - work.offset) % work.step == 0


# ---------------------------------------------------------------- proofs
@pytest.mark.parametrize("n", [12, 13, 40])
def test_proofs_are_below_the_eigenvalue_and_close_to_it(rng, n):
    """Dense and sparse; a level above the eigenvalue is never proven."""
    for _ in range(10):
        graph = read_graph(random_graph(rng, n, "real"))
        y = -graph.degree * rng.random(graph.size)
        V = np.linalg.svd(np.ones((graph.size, 1)))[0][:, 1:]
        lam = np.linalg.eigvalsh(V.T @ (graph.dense + np.diag(y)) @ V)[0]
        assert smallest(graph, y, rng) == pytest.approx(lam, abs=1e-4)
        for sparse in (False, True):
            for below in (1e-7, 1e-2, 1.0):
                proven = is_above(graph, y, lam - below, sparse=sparse)
                if not sparse or proven > -inf:  # the sparse one may lack pivots of the right sign where M has a zero
                    assert lam - below - 1e-6 <= proven <= lam  # the errors of small pivots
            assert is_above(graph, y, lam + 1e-9, sparse=sparse) == -inf


def test_sparse_proofs_are_found(rng):
    graph = read_graph(nx.grid_2d_graph(15, 15))
    method = LowRank(graph, rng)
    while not method.stalled:
        method.step()
    assert is_above(graph, method.y, -1e-6, sparse=True) >= -1.1e-6
    assert is_above(graph, method.y, 1e-6, sparse=True) == -inf
    assert is_above(graph, np.full(graph.size, nan), 0.0) == -inf


@pytest.mark.parametrize("make", [lambda: nx.random_regular_graph(3, 60, seed=1), lambda: nx.grid_2d_graph(7, 8),
                                  lambda: nx.disjoint_union(nx.random_regular_graph(3, 10, seed=1), nx.path_graph(20))])  # fmt: skip
def test_sparse_proofs_are_as_sharp_as_dense_ones(rng, make):
    graph = read_graph(make())
    for y in (np.zeros(graph.size), rng.normal(size=graph.size), -graph.degree, 10.0 ** rng.uniform(-6, 1, graph.size)):
        V = np.linalg.svd(np.ones((graph.size, 1)))[0][:, 1:]
        lam = np.linalg.eigvalsh(V.T @ (graph.dense + np.diag(y)) @ V)[0]
        for below in (1e-1, 1e-4, 1e-8):
            assert lam - below - 1e-9 <= is_above(graph, y, lam - below, sparse=True) <= lam
        assert is_above(graph, y, lam + 1e-8, sparse=True) == -inf


@pytest.mark.parametrize("n", [30, 31])
@pytest.mark.parametrize("share", [0.0, 0.15, 0.5, 2.0])
def test_elimination_leaves_the_schur_complement(rng, n, share):
    rounding = 1e-3
    A = sp.random_array((n, n), density=0.1, rng=rng, format="csr")
    A = sp.csr_array(A + A.T)
    A.setdiag(0)
    A.eliminate_zeros()
    d, s, terms = rng.normal(3, 2, n), rng.normal(size=n), np.zeros(n, np.int64)
    found = elimination.eliminate_inplace(d.copy(), s.copy(), terms, A.indptr, A.indices, A.data, share, rounding)
    left, packed, corner, pivot, trace, total = found
    block, info = scipy.linalg.lapack.dtfttr(len(left), packed.ravel(), uplo="L")
    assert info == 0
    K = np.block([[A.toarray() + np.diag(d), s[:, None]], [s, -corner]])
    out = np.setdiff1d(np.arange(n + 1), left)
    assert len(left) == n if share == 0 else (K[left, left] < 0).sum() <= len(left) < n
    inner = np.linalg.inv(K[np.ix_(out, out)])
    want = K[np.ix_(left, left)] - K[np.ix_(left, out)] @ inner @ K[np.ix_(out, left)]
    assert_allclose(np.tril(block), np.tril(want), atol=1e-9)
    assert_allclose(total, np.trace(want), atol=1e-9)
    assert_allclose(-pivot, 1 / inner[-1, -1], rtol=1e-9)
    assert trace >= np.trace(K[np.ix_(out, out)]) + 2 * pivot - 1e-9 and terms.max() <= n


def test_products_of_the_factor_form(rng):
    graph = read_graph(random_graph(rng, 12, "real"))
    n, A = graph.size, graph.A
    D, R, y = rng.normal(size=(n, 4)), rng.normal(size=(n, 4)), rng.normal(size=n)
    U, along = np.empty((n, 4)), np.empty(n)
    cut_kernels.curved_inplace(U, along, D, R, graph.degree + y, A.indptr, A.indices, A.data)
    want = graph.laplacian_times(D) + y[:, None] * D
    assert_allclose(U, want, atol=1e-12)
    assert_allclose(along, (want * R).sum(axis=1), atol=1e-12)
    low = LowRank(graph, rng)
    U, a = low._tangent(rng.normal(size=low.R.shape), y)
    assert_allclose(U.sum(axis=0), 0.0, atol=1e-12)  # in the tangent space of balance, and of rows of length one
    assert_allclose((U * low.R).sum(axis=1), 0.0, atol=1e-12)


def test_projected(rng):
    graph = read_graph(random_graph(rng, 9, "real"))
    y = rng.normal(size=graph.size)
    B, c = projected(graph, y)
    P = np.eye(graph.size) - 1 / graph.size
    assert_allclose(B, P @ (graph.dense + np.diag(y)) @ P + c / graph.size, atol=1e-13)
    assert c == pytest.approx(np.trace(P @ (graph.dense + np.diag(y)) @ P) / (graph.size - 1))


def test_certifying_multipliers(rng):
    """The cut is a null vector up to a multiple of e, and the bound would be the cut."""
    graph = read_graph(karate())
    x = graph.balance.split(rng.normal(size=graph.size))
    y = certifying(graph, x)
    image = graph.laplacian_times(x) + y * x
    assert_allclose(image, image.mean(), atol=1e-12)
    assert -y.sum() / 4 * graph.scale == pytest.approx(graph.cut(x))


# ---------------------------------------------------------------- methods
def test_large_graphs(monkeypatch):
    """Few and sparse proofs, a coarser end: the sizes from which that is so are lowered here."""
    monkeypatch.setattr(cut_lowrank, "LARGE", 50)
    monkeypatch.setattr(cut_proof, "DENSE", 50)
    levels = []
    monkeypatch.setattr(cut_lowrank, "is_above", lambda *args: levels.append(is_above(*args)) or levels[-1])
    A = grid(8, 12) * np.sqrt(2.0)
    result = balanced_cut(A, solver="low_rank", random_state=0)
    assert_certified(result, A)
    assert result.exit_reason == "TOLERANCE"
    assert len(levels) <= 4
    exact = balanced_cut(A, solver="central_path", random_state=0)
    assert result.cut == exact.cut == pytest.approx(8 * np.sqrt(2.0))
    assert_allclose(result.lower_bound, exact.lower_bound, rtol=1e-3)  # 100 times the tolerance, of the cut


def test_central_path_takes_over(monkeypatch):
    monkeypatch.setattr(cut_lowrank, "PATIENCE", 2)
    A = distances(13)
    result = balanced_cut(A, solver="low_rank", random_state=0)
    assert result.solver == "low rank + central path"
    assert result.exit_reason == "TOLERANCE"
    assert_certified(result, A)
    monkeypatch.setattr(cut, "FALLBACK", 5)
    result = balanced_cut(A, solver="low_rank", random_state=0)
    assert (result.solver, result.exit_reason, result.status) == ("low rank", "STALLED", "FEASIBLE")
    assert_certified(result, A)


def twin_refined(x, W):
    """One swap after the other, best pair of all first: what the passes must at least reach locally."""
    x = x.copy()
    while True:
        gain = np.where(x[:, None] != x, W, -W).sum(axis=1)
        pair = gain[:, None] + gain - 2 * W
        pair[x[:, None] == x] = -inf
        i, j = np.unravel_index(pair.argmax(), pair.shape)
        if pair[i, j] <= 1e-12:
            return x
        x[i], x[j] = x[j], x[i]


def test_halves_are_those_of_a_stable_sort(rng):
    for n in range(2, 40):
        balance = read_graph(cycle(n)).balance
        for scores in (rng.normal(size=n), rng.integers(0, 3, n) * 1.0, np.zeros(n)):
            x = -np.ones(n)
            x[np.argsort(scores, kind="stable")[n // 2 :]] = 1.0
            assert_array_equal(balance.split(scores), x)


def test_networkx_graphs_are_read_as_networkx_reads_them():
    graph = nx.relabel_nodes(nx.les_miserables_graph(), lambda name: (name, 1))
    assert_array_equal(read_graph(graph).A.toarray()[:77, :77] * read_graph(graph).scale, nx.to_numpy_array(graph))
    twice = nx.MultiGraph([(0, 1, {"weight": 2}), (1, 0, {"weight": True}), (2, 3)])
    assert_array_equal(read_graph(twice).A.toarray() * read_graph(twice).scale, nx.to_numpy_array(twice))


def test_kernighan_lin(rng):
    """Balanced, never worse, what it says it gained; no single exchange of two vertices improves its result."""
    ours = greedy = 0.0
    for trial in range(30):
        graph = read_graph(random_graph(rng, 16, "real" if trial % 2 else "weighted"))
        W = graph.A.toarray()
        x = graph.balance.split(rng.normal(size=graph.size))
        before, new = graph.cut(x), x.copy()
        limits = graph.balance.weights, graph.balance.limits
        gained = cut_kernels.refine_inplace(new, *limits, graph.A.indptr, graph.A.indices, graph.A.data, 1e-12, 50, 50)
        assert new.sum() == 0
        assert before - graph.cut(new) == pytest.approx(gained * graph.scale, abs=1e-10)
        assert gained >= 0
        ours, greedy = ours + graph.cut(new), greedy + graph.cut(twin_refined(x, W))
    assert ours <= greedy


def test_kernighan_lin_keeps_the_limits(rng):
    """With vertex weights and a terminal, which never moves."""
    for _ in range(60):
        A, sides = random_graph(rng, 16, "real"), random_sides(rng, 16)
        try:
            graph = read_graph(A, **sides)
        except ValueError:
            continue
        balance = graph.balance
        x = balance.split(rng.normal(size=16))
        z, low, high = balance.completed(x), *balance.limits
        assert low <= balance.weights @ x <= high
        gained = cut_kernels.refine_inplace(
            z, balance.weights, balance.limits, graph.A.indptr, graph.A.indices, graph.A.data, 1e-12, 50, 50
        )
        assert low <= balance.weights @ z[: len(x)] <= high
        assert_array_equal(z[len(x) :], balance.completed(x)[len(x) :])
        assert graph.cut(x) - graph.cut(z[: len(x)]) == pytest.approx(gained * graph.scale, abs=1e-10)
        assert gained >= 0


def test_refine():
    graph = nx.random_regular_graph(3, 60, seed=2)
    rough = balanced_cut(graph, refine=False, random_state=0, n_roundings=8)
    fine = balanced_cut(graph, refine=True, random_state=0, n_roundings=8)
    assert fine.cut <= rough.cut
    assert rough.lower_bound == fine.lower_bound


def test_large_fiedler_vector(rng):
    """By Lanczos above 400 vertices: it finds planted blocks."""
    graph = read_graph(two_blocks(600, 20, 2))
    best = BestCut(graph, False)
    best.offer(fiedler(graph, rng))
    assert best.value <= 1.2 * graph.cut(np.repeat([1.0, -1.0], 300))


# ---------------------------------------------------------------- results
def test_repeatable_and_saved():
    graph = nx.random_regular_graph(3, 40, seed=3)
    one, two = balanced_cut(graph, random_state=7), balanced_cut(graph, random_state=7)
    assert_array_equal(one.labels, two.labels)
    assert_array_equal(one.dual, two.dual)
    back = saved_and_loaded(one)
    assert repr(back) == repr(one)
    assert back.history == one.history
    assert_array_equal(back.dual, one.dual)


def test_repr():
    proven, open_ = balanced_cut(karate()), balanced_cut(grid(9, 9), random_state=0)
    assert "OPTIMAL" in repr(proven)
    assert "lower_bound=10" in repr(proven)
    assert "proven optimal" in proven._repr_html_()
    assert "Every cut allowed in this problem has at least 10" in proven._repr_html_()
    assert "relaxation is solved" in open_._repr_html_()
    assert "40 and 41" in open_._repr_html_() or "41 and 40" in open_._repr_html_()


def test_history_and_limits():
    seen = []
    graph = nx.random_regular_graph(3, 60, seed=2)
    result = balanced_cut(graph, random_state=0, callback=seen.append)
    assert seen == result.history
    assert [r.iteration for r in seen] == list(range(result.n_iter + 1))
    assert (np.diff([r.dual_bound for r in seen]) >= 0).all()
    assert (np.diff([r.objective for r in seen]) <= 0).all()
    stopped = balanced_cut(graph, random_state=0, callback=lambda r: r.iteration == 3)
    assert (stopped.exit_reason, stopped.n_iter) == ("INTERRUPTED", 3)
    for most in (0, 2):
        short = balanced_cut(graph, random_state=0, max_iter=most)
        assert (short.exit_reason, short.n_iter, short.status) == ("MAX_ITER", most, "FEASIBLE")
        assert_certified(short, nx.to_numpy_array(graph))
    late = balanced_cut(graph, random_state=0, max_seconds=1e-9, solver="low_rank")
    assert (late.exit_reason, late.n_iter) == ("TIME", 0)
    assert_certified(late, nx.to_numpy_array(graph))

    def break_off(record):
        if record.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="balanced_cut was interrupted after"):
        assert balanced_cut(graph, random_state=0, callback=break_off).exit_reason == "INTERRUPTED"


# ---------------------------------------------------------------- balanced cuts of weights with a common unit
@pytest.mark.parametrize("unit", [1.0, 0.5, 0.1, 0.3, 1 / 7])
def test_a_balanced_cut_is_proven_in_any_unit_of_the_weights(unit, rng):
    """Cuts of whole weights differ by at least 1, so that their bound is rounded up; in tenths by at least .1."""
    solved = 0
    for seed in range(5):
        graph = nx.random_regular_graph(3, 20, seed=seed)
        A = unit * nx.to_numpy_array(graph) * 2.0
        result = balanced_cut(A, random_state=0)
        solved += result.is_optimal
        assert result.lower_bound >= result.relaxation_bound
        found = verify(result, graph=A)
        assert found.holds, found.problems
    assert solved == balanced_solved()


@cache
def balanced_solved():
    """How many of the same graphs with whole weights are solved."""
    graphs = (2.0 * nx.to_numpy_array(nx.random_regular_graph(3, 20, seed=seed)) for seed in range(5))
    return sum(balanced_cut(A, random_state=0).is_optimal for A in graphs)


def test_kinds_of_graphs():
    """The same graph in every form; labels of networkx graphs in node order."""
    A = nx.to_numpy_array(karate())
    frames = [A, A.astype(int), A > 0, sp.csr_array(A), sp.coo_matrix(A), sp.csc_array(A), karate(), A.tolist()]
    first = balanced_cut(frames[0], random_state=0)
    for graph in frames[1:]:
        assert_array_equal(balanced_cut(graph, random_state=0).labels, first.labels)
    names = nx.Graph([("d", "c"), ("a", "b")])
    assert_array_equal(balanced_cut(names).labels, [0, 0, 1, 1])
    several = nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 3)])
    assert read_graph(several).cut(np.array([1.0, -1, -1, 1])) == 3
    given = A.copy()
    balanced_cut(given)
    assert_array_equal(given, A)


def test_no_hyperplanes_after_the_time_limit(rng, monkeypatch):
    """The cuts of the first vectors are kept; the relaxation is bounded, but no longer rounded to cuts."""
    A = np.triu(rng.random((60, 60)) < 0.2, 1) * 1.0
    offered, offer = [], BestCut.offer
    monkeypatch.setattr(BestCut, "offer", lambda best, scores: offered.append(len(scores)) or offer(best, scores))
    balanced_cut(A + A.T, random_state=0)
    within = len(offered)
    monkeypatch.setattr("bregmat.applications.cut.search.seconds_left", lambda: -1.0)
    offered.clear()
    late = balanced_cut(A + A.T, random_state=0)
    assert len(offered) == 2 < within
    assert late.lower_bound <= late.objective < np.inf
