"""Failures that audits found, each by its own reproduction: crashes, untrue words, claims that rounding cannot support."""

import hashlib
import io
import json
import os
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bregmat import (
    Constraints,
    ExitReason,
    Factor,
    KernelKMeans,
    KernelLearner,
    MarginSVC,
    MatrixExponentiatedGradient,
    MetricLearner,
    MultiplicativeUpdates,
    Status,
    balanced_cut,
    constraints_from_labels,
    load,
    nearest_kernel,
    nearest_metric,
    nnqp,
    save,
    verify,
)
from bregmat._kernels import level
from bregmat.io import ModelFileError, read_manifest, read_points, texts
from bregmat.kernels import kernel_source
from bregmat.margin import MarginProblem, train_margin
from bregmat.quadratic.multiplicative import run_updates
from bregmat.quadratic.split_program import SplitProgram
from bregmat.quadratic.splits import margin_split

POINTS = np.array([[0.0, 1.0, 0.0], [1.0, 0.3, 0.2], [0.2, 2.0, 1.0], [1.5, 0.7, -1.0]])
LINE = Constraints.sq_distance([0, 1, 0], [1, 2, 2], [1.0, 1.0, 4.0], "==")  # three points on a line
OTHER_ROWS = {
    "similarity": Constraints.similarity(0, 3, 0.3, ">="),
    "comparison": Constraints.comparison(0, 1, 0, 3, margin=0.1),
    "trace": Constraints.trace(20.0),
    "linear": Constraints.linear([np.diag([1.0, 2.0, 0.0, 1.0])], [30.0], "<="),
}


# ---------------------------------------------------------------- all rows of one kind are eliminated
@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
@pytest.mark.parametrize("kind", OTHER_ROWS)
def test_distances_on_a_line_beside_any_other_row(kind, divergence):
    for rows in (LINE + OTHER_ROWS[kind], OTHER_ROWS[kind] + LINE):
        result = nearest_kernel(np.eye(4) + 0.1, rows, divergence=divergence)
        assert result.status == "OPTIMAL"
        D = np.add.outer(np.diag(K := result.kernel()), np.diag(K)) - 2 * K
        assert D[[0, 1, 0], [1, 2, 2]] == pytest.approx([1.0, 1.0, 4.0], rel=1e-8)
        assert nearest_metric(POINTS, rows, divergence=divergence).status == "OPTIMAL"
        given = {"divergence": divergence, "slack_weight": np.inf, "tol": 1e-6}
        assert MetricLearner(**given).fit(POINTS, constraints=rows).result_.status == "OPTIMAL"
        assert KernelLearner(kernel="linear", **given).fit(POINTS, constraints=rows).result_.status == "OPTIMAL"


# ---------------------------------------------------------------- a reason that is true of what is returned
def flat_metric(seed, divergence):
    """Distances in the plane of five points in four dimensions, whose weights in the bound are as large as rounding allows."""
    rng = np.random.default_rng(seed)
    X, goal = rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    i, j = np.triu_indices(5, 1)
    rows = Constraints.sq_distance(i, j, ((goal[i] - goal[j]) ** 2).sum(axis=1), "==")
    return nearest_metric(X, rows, divergence=divergence, tol=1e-6)


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_the_tolerance_is_met_where_a_result_is_optimal_and_there_alone(divergence):
    results = [flat_metric(seed, divergence) for seed in range(20)]
    for result in results:
        assert (
            (result.exit_reason is ExitReason.TOLERANCE) == (result.gap <= result.tol) == (result.status == "OPTIMAL")
        )


# ---------------------------------------------------------------- rows that vanish and may not
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_every_relation_that_vanishes_and_may_not_is_refused_by_name(divergence):
    X = POINTS.copy()
    X[1], X[2] = X[0], 0.0
    difference, product, point = np.zeros((4, 4)), np.zeros((4, 4)), sp.csr_array(([1.0], ([2], [2])), shape=(4, 4))
    difference[:2, :2] = [[1.0, -1.0], [-1.0, 1.0]]
    product[2, 3] = product[3, 2] = 0.5
    impossible = [Constraints.sq_distance(0, 1, 2.0, sense) for sense in (">=", "==")]
    impossible += [
        Constraints.comparison(0, 3, 1, 3, margin=2.0),
        Constraints.similarity_comparison(0, 3, 1, 3, margin=2.0),
    ]
    for bound, sense in ((2.0, ">="), (2.0, "=="), (-2.0, "=="), (-2.0, "<=")):
        impossible.append(Constraints.similarity(2, 3, bound, sense))
        impossible += [Constraints.linear([A], [bound], sense) for A in (difference, product, point)]
        impossible.append(Constraints.linear([(np.array([[1.0, -1.0, 0.0, 0.0]]).T, np.ones(1))], [bound], sense))
    for row in impossible:
        with pytest.raises(ValueError, match="constraint 1: .* can never hold"):
            nearest_metric(X, Constraints.sq_distance(0, 3, 1.0, "<=") + row, divergence=divergence)


# ---------------------------------------------------------------- gaps
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_no_gap_is_negative_at_the_prior(divergence):
    """Where all rows hold at the prior the objective is 0, but for rounding."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        G = rng.normal(size=(6, 4)) * 10.0 ** rng.uniform(-3, 3)
        D = ((G[0] - G[1]) ** 2).sum()
        result = nearest_kernel(G @ G.T, Constraints.sq_distance(0, 1, 2 * D, "<="), divergence=divergence)
        assert result.status == "OPTIMAL"
        assert result.objective >= 0 and result.gap >= 0


# ---------------------------------------------------------------- kernel functions with complex values
@pytest.mark.parametrize(
    "estimator", [KernelLearner(), MarginSVC(), KernelKMeans(2, random_state=0)], ids=lambda e: type(e).__name__
)
def test_a_complex_kernel_function_is_refused_by_name(estimator, rng):
    def phased(X, Y):
        """Hermitian and positive definite: a Gaussian kernel with a phase."""
        distances = ((X[:, None] - Y[None]) ** 2).sum(axis=2)
        return np.exp(-distances + 1j * (X.sum(axis=1)[:, None] - Y.sum(axis=1)))

    X = rng.normal(size=(30, 3))
    with pytest.raises(TypeError, match="kernel phased must be real; got complex numbers"):
        estimator.set_params(kernel=phased).fit(X, X[:, 0] > 0)


def test_a_complex_precomputed_kernel_source_is_refused():
    with pytest.raises(TypeError, match="X must be real; got complex numbers"):
        kernel_source(np.eye(3) * (1 + 0j), "precomputed")


# ---------------------------------------------------------------- the random draw of Davis 2007, beside the balanced one
def test_uniform_draws_every_pair_with_the_same_probability(rng):
    """Classes of 2, 8 and 20 points: balanced pairs are of one class half of the time, all pairs alike 219 times in 435."""
    y = np.repeat(["rare", "some", "common"], [2, 8, 20])
    X = rng.normal(size=(30, 3))
    counts = np.zeros((30, 30))
    for seed in range(400):
        drawn = constraints_from_labels(X, y, 40, strategy="uniform", random_state=seed)
        i, j = drawn.index[:, 0], drawn.index[:, 1]
        assert drawn.n_constraints == 40
        assert np.array_equal(drawn.sense == 1, y[i] == y[j])
        np.add.at(counts, (np.maximum(i, j), np.minimum(i, j)), 1)
    pairs = counts[np.tril_indices(30, -1)]
    expected = 400 * 40 / 435
    # a pair is drawn or not: standard deviation sqrt(36.8 * .908) = 5.8; five of these for the worst of 435
    assert np.abs(pairs - expected).max() < 29
    assert pairs.var() == pytest.approx(expected * (1 - 40 / 435), rel=0.35)


def test_uniform_has_all_pairs_where_more_are_asked_for_and_the_bounds_of_random(rng):
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 4
    every = constraints_from_labels(X, y, 1000, strategy="uniform", random_state=0)
    assert len({frozenset(pair) for pair in every.index[:, :2].tolist()}) == every.n_constraints == 66
    balanced = constraints_from_labels(X, y, 1000, random_state=0)
    assert set(every.bound) == set(balanced.bound)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_estimators_learn_from_uniform_pairs(kernel, rng):
    """With 30 classes of 2 points, hardly any pair drawn alike is of one class; half of the balanced ones are, as far as there are any."""
    y = np.repeat(np.arange(30), 2)
    X = rng.normal(size=(60, 4)) + rng.normal(size=(30, 4))[y] * 3
    settings = {"n_constraints": 60, "random_state": 0}
    same = {}
    for strategy in ("random", "uniform"):
        for learner in (
            MetricLearner(strategy=strategy, **settings),
            KernelLearner(kernel, strategy=strategy, **settings),
        ):
            found = learner.fit(X, y).constraints_
            assert found.n_constraints == 60
            same.setdefault(strategy, []).append(int((found.sense == 1).sum()))
    assert same["random"] == [30, 30]
    assert max(same["uniform"]) < 8
    in_blocks = MetricLearner(strategy="uniform", **settings).fit(X, y, block_size=20)
    assert (in_blocks.constraints_.sense == 1).sum() == same["uniform"][0]


# ---------------------------------------------------------------- categorical data and other repeated points
def one_hot(seed, n=60):
    rng = np.random.default_rng(seed)
    return np.eye(5)[rng.integers(5, size=n)], rng.integers(2, size=n)


@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize("seed", range(3))
def test_one_hot_points_with_labels_that_differ(seed):
    X, y = one_hot(seed)
    for options in ({}, {"form": "sq_distance"}, {"divergence": "vonneumann"}, {"strategy": "random"}):
        learner = MetricLearner(random_state=0, **options).fit(X, y)
        assert learner.result_.status == "OPTIMAL" and np.isfinite(learner.transform(X)).all()
    assert np.isfinite(KernelLearner(strategy="neighbors", random_state=0).fit(X, y).transform(X)).all()


def test_no_margin_is_nothing_where_the_nearest_impostors_are_copies():
    X, y = one_hot(0)
    with pytest.warns(UserWarning, match="60 points coincide with points of another class.*left out"):
        rows = constraints_from_labels(X, y, strategy="neighbors", random_state=0)
    i, j, _, l = rows.index.T
    assert (rows.bound < 0).all() and (X[i] != X[l]).any(axis=1).all() and (X[j] != X[l]).any(axis=1).all()


@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_many_copies_do_not_hide_the_points_that_can_be_compared(is_sparse):
    """Each point has about 60 copies of the other class, and the 10 nearest impostors are looked for."""
    X, y = one_hot(0, n=600)
    learner = MetricLearner(strategy="neighbors", random_state=0).fit(sp.csr_array(X) if is_sparse else X, y)
    assert learner.result_.status == "OPTIMAL" and learner.result_.objective > 0
    i, _, _, l = learner.constraints_.index.T
    assert len(np.unique(i)) == 600 and (X[i] != X[l]).any(axis=1).all()


@pytest.mark.parametrize("strategy", ["neighbors", "random"])
@pytest.mark.parametrize("options", [{}, {"prior": "covariance"}, {"n_components": 2}, {"slack_weight": np.inf}])
def test_identical_points_leave_the_prior_and_a_warning(strategy, options):
    X, y = np.ones((20, 3)), np.arange(20) % 2
    with pytest.warns(UserWarning, match="rows 0, 1, 2.* The prior is kept"):
        learner = MetricLearner(strategy=strategy, random_state=0, **options).fit(X, y)
    assert learner.result_.status == "OPTIMAL" and learner.result_.objective == 0.0
    if not options and strategy == "random":
        assert learner.get_mahalanobis_matrix() == pytest.approx(np.eye(3))
    with pytest.warns(UserWarning, match="The prior is kept"):
        KernelLearner(strategy=strategy, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="Only the constraints given are learned from"):
        given = Constraints.sq_distance(0, 20, 0.5, "==")
        learner = MetricLearner(strategy=strategy, prior="identity", slack_weight=np.inf)
        learner.fit(np.vstack([X, np.zeros((1, 3))]), np.append(1 + y, -1), constraints=given)
    assert learner.constraints_.n_constraints == 1


# ---------------------------------------------------------------- quadratic programs whose solution is 0
def test_rows_of_a_program_are_met_where_its_solution_is_nothing():
    A = np.array([[13.0, 3, -9, 13], [3, 14, 11, 3], [-9, 11, 23, -9], [13, 3, -9, 13]])
    b, equality = np.array([3.0, -1, 2, -1]), (np.array([[2.0, 1, 0, 0], [-1, -2, -2, 1]]), np.zeros(2))
    for solver in ("auto", "active_set"):
        result = nnqp(A, b, equality=equality, solver=solver)
        assert (result.status, result.objective, result.max_violation) == ("OPTIMAL", 0.0, 0.0)
        assert not result.x.any() and -1e-12 <= result.dual_bound <= 0.0


def test_homogeneous_rows_are_met_by_their_own_size():
    """Small whole numbers, copies of variables, and rows with the value 0, which a point of rounding misses by all of its size."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(2, 6)), int(rng.integers(1, 3))
        G = rng.integers(-3, 4, size=(n, int(rng.integers(1, n + 1)))).astype(float)
        G[rng.integers(n)] = G[rng.integers(n)]
        A, b = G @ G.T, rng.integers(-1, 4, size=n).astype(float)
        E = rng.integers(-2, 3, size=(m, n)).astype(float)
        result = nnqp(A, b, equality=(E, np.zeros(m)))
        if result.status == "OPTIMAL":
            rounding = 1e-13 * result.x.max()  # of the largest variable
            assert (np.abs(E @ result.x) <= 1e-8 * np.abs(E) @ result.x + rounding).all(), seed
            assert verify(result, A=A, b=b, equality=(E, np.zeros(m))).holds, seed


@pytest.mark.parametrize("solver", ["auto", "active_set", "multiplicative", MultiplicativeUpdates(anderson=0)])
@pytest.mark.parametrize("tiny", [0.0, 1e-17, 1e-59])
def test_an_objective_of_rounding_is_not_called_optimal(solver, tiny):
    """No b is negative, so that the optimum is 0, at 0; along flat directions the updates go far from it."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        G = rng.normal(size=(5, 2)) * 10.0 ** rng.uniform(-20, 20)
        start = 10.0 ** rng.uniform(-5, 30, size=5) if seed % 2 else None
        result = nnqp(G @ G.T, tiny * rng.integers(0, 2, size=5), x0=start, solver=solver)
        assert result.status == "OPTIMAL" and result.objective == 0.0 == result.dual_bound


@pytest.mark.parametrize("solver", ["auto", "active_set", "multiplicative"])
def test_an_objective_of_rounding_at_5_5_is_not_called_optimal(solver):
    """``(x_1 - x_2)^2 / 2 + 1e-17 (x_1 + x_2)`` is 1e-16 at (5, 5), and 0 at 0."""
    result = nnqp([[1.0, -1.0], [-1.0, 1.0]], [1e-17, 1e-17], x0=[5.0, 5.0], solver=solver)
    assert (result.status, result.objective, result.dual_bound) == ("OPTIMAL", 0.0, 0.0) and not result.x.any()


# ---------------------------------------------------------------- a graph whose edges are given in parts
@pytest.mark.parametrize("form", [sp.coo_array, sp.coo_matrix])
def test_a_cut_of_a_graph_with_duplicate_entries_is_confirmed(form):
    """Parts of 1 that sum to 2: their greatest common divisor is 1, that of the weights is 2."""
    cycle = np.array([(i, (i + 1) % 6) for i in range(6)])
    rows, columns = np.concatenate([cycle, cycle[:, ::-1]] * 2).T
    graph = form((np.ones(len(rows)), (rows, columns)), shape=(6, 6))
    kept = graph.copy()
    result = balanced_cut(graph, random_state=0)
    assert (str(result.status), result.cut, result.lower_bound) == ("OPTIMAL", 4.0, 4.0)
    found = verify(result, graph=graph)
    assert found.holds, found.problems
    assert (graph.data == kept.data).all() and graph.nnz == kept.nnz


# ---------------------------------------------------------------- a row against its own multiple in another notation
def own_multiple(seed):
    """``<M, K> <= b`` and ``<times M, K> >= 1.2 times b`` with M of rank 1 to 5 as a matrix, sparse, or as vectors and weights."""
    rng = np.random.default_rng(seed)
    V, times, b = rng.normal(size=(8, int(rng.integers(1, 6)))), 10.0 ** rng.uniform(-3, 3) / 7, rng.uniform(0.5, 2.0)
    weights = rng.uniform(0.1, 1.0, size=V.shape[1]) * rng.choice([1.0, -1.0], V.shape[1])
    M = (V * weights) @ V.T
    M = (M + M.T) / 2
    t, U = np.linalg.eigh(times * M)
    on = np.abs(t) > 1e-12 * np.abs(t).max()
    other = [times * M, sp.csr_array(times * M), (U[:, on], t[on]), (V, times * weights)][seed % 4]
    first = M if seed % 2 == 0 else (V, weights)
    return Constraints.linear([first], [b], "<=") + Constraints.linear([other], [1.2 * times * b], ">=")


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_a_row_against_its_own_multiple_is_confirmed_to_be_infeasible(divergence):
    for seed in range(50):
        arguments = {"prior": np.eye(8) + 0.1, "constraints": own_multiple(seed), "divergence": divergence}
        result = nearest_kernel(arguments["prior"], arguments["constraints"], divergence=divergence)
        assert result.status == "INFEASIBLE"
        found = verify(result, **arguments)
        assert found.holds, (seed, found)


def test_another_row_is_no_multiple():
    """A direction in which the sum of the rows is negative by more than rounding of the entries proves nothing."""
    rows = Constraints.linear([np.diag([1.0, 1e-6])], [1.0], "<=") + Constraints.linear([np.eye(2)], [1.2], ">=")
    result = nearest_kernel(np.eye(2), rows)
    assert result.status == "OPTIMAL"
    claim = {"status": Status.INFEASIBLE, "dual": np.array([1.0, -1.0]), "conflict": np.arange(2), "gap": np.inf}
    assert not verify(replace(result, **claim), prior=np.eye(2), constraints=rows).holds


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


# ---------------------------------------------------------------- coefficients of the multiplicative updates
@pytest.mark.parametrize("n_updates", [3, 30, 300])
def test_hard_margin_coefficients_are_those_of_the_updates_over_the_smallest_margin(n_updates, rng):
    """As the documentation says: of the paper's own run, stopped early, the machine is the multiple with the smallest margin 1."""
    X = np.vstack([rng.normal(size=(15, 2)) + 3, rng.normal(size=(15, 2)) - 3])
    y = np.repeat([1.0, -1.0], 15)
    K = (X @ X.T + 1) ** 2
    updates = MultiplicativeUpdates(clamp=0.0)
    bare = run_updates(
        SplitProgram(margin_split(K, y), -np.ones(30)), updates, np.ones(30), tol=0.0, max_iter=n_updates
    )
    v = bare.certificate.x
    settings = {"C": np.inf, "fit_intercept": False, "solver": updates, "tol": 1e-15, "max_iter": n_updates}
    with pytest.warns(ConvergenceWarning):
        machine = MarginSVC(kernel="precomputed", **settings).fit(K, y)
    smallest = (y * (K @ (v * y))).min()
    alpha = machine.result_.alpha
    assert alpha == pytest.approx(v / smallest, rel=1e-9)
    assert (y * (K @ (alpha * y))).min() == pytest.approx(1.0, rel=1e-9)


# ---------------------------------------------------------------- files that claim more than they hold
def signed(path, change):
    """A model file whose manifest and members were changed by somebody who knows how it is signed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(manifest, members)
    for key, record in manifest["arrays"].items():
        record["sha256"] = hashlib.sha256(members[f"arrays/{key}.npy"]).hexdigest()
    text = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"manifest.json": text}).items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()


def header(kind, shape):
    """A .npy file without entries, or of entries without bytes, that claims a shape."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def check_is_refused_at_once(path, limit=2**26):
    """A ModelFileError that took neither time nor memory."""
    tracemalloc.start()
    try:
        start = time.perf_counter()
        with pytest.raises(ModelFileError):
            load(path)
        assert time.perf_counter() - start < 5  # seconds; it takes milliseconds
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [10**9, 10**18])
@pytest.mark.parametrize(("kind", "more"), [("<f8", (0,)), ("<f8", (3, 0)), ("<U0", ()), ("|S0", (10,))])
@pytest.mark.parametrize("model", ["learner", "program"])
def test_arrays_that_claim_a_shape_without_bytes_are_refused(model, kind, more, size, tmp_path, rng):
    X = rng.normal(size=(20, 3))
    obj = MetricLearner(random_state=0).fit(X, X[:, 0] > 0) if model == "learner" else nnqp(np.eye(3), -np.ones(3))
    save(tmp_path / "good", obj)
    for key in read_manifest(tmp_path / "good")["arrays"]:
        path = tmp_path / "model"
        path.write_bytes((tmp_path / "good").read_bytes())

        def claim(manifest, members, key=key):
            members[f"arrays/{key}.npy"] = header(kind, (size, *more))

        signed(path, claim)
        check_is_refused_at_once(path)


@pytest.mark.parametrize("size", [10**9, 10**18])
def test_a_sparse_map_that_claims_a_size_is_refused(size, tmp_path, rng):
    prior = Factor(sp.csr_array(np.eye(4, 2)))
    rows = Constraints.sq_distance(0, 1, 1.0, "<=")
    save(tmp_path / "metric", nearest_metric(rng.normal(size=(5, 4)), rows, prior=prior))
    load(tmp_path / "metric")

    def claim_rows(manifest, members):
        manifest["state"]["coordinates"]["R"]["shape"][0] = size

    signed(tmp_path / "metric", claim_rows)
    check_is_refused_at_once(tmp_path / "metric")


@pytest.mark.parametrize("key", ["_state.H", "_state.totals", "_state.record.table"])
def test_an_online_learner_with_arrays_of_other_sizes_is_refused(key, tmp_path):
    """Compiled loops trust these sizes."""
    save(tmp_path / "online", MatrixExponentiatedGradient(4).partial_fit([[0, 1]], [0.2]))

    def shorten(manifest, members):
        array = np.load(io.BytesIO(members[f"arrays/{key}.npy"]))
        stream = io.BytesIO()
        np.save(stream, array[:-1])
        members[f"arrays/{key}.npy"] = stream.getvalue()

    signed(tmp_path / "online", shorten)
    check_is_refused_at_once(tmp_path / "online")


def nested(depth):
    value = 0
    for k in range(depth):
        value = [value] if k % 2 else {"inner": value}
    return value


@pytest.mark.parametrize("depth", [60, 300, 600, 5000, 200_000])
@pytest.mark.parametrize("where", ["info", "state"])
def test_a_signed_manifest_that_is_nested_deep_is_refused(where, depth, tmp_path):
    path = tmp_path / "model"
    save(path, nnqp(np.eye(3), -np.ones(3)))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members.pop("manifest.json").decode()
    deep = '{"inner":[' * (depth // 2) + "0" + "]}" * (depth // 2)
    text = text.replace(
        f'"{where}": {{', f'"{where}": {{"more": {deep}' + ("" if where == "info" else ", "), 1
    ).encode()
    assert depth > 500 or json.loads(text)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"manifest.json": text}).items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
    for read in (load, read_manifest):
        with pytest.raises(ModelFileError, match="nested|cannot be read"):
            read(path)


def test_what_is_saved_is_not_nested_deeper_than_what_is_read(tmp_path):
    """``info`` is the caller's own: what could not be read is refused when it is saved."""
    result = nnqp(np.eye(3), -np.ones(3))
    save(tmp_path / "model", result, info={"mine": nested(40)})
    assert read_manifest(tmp_path / "model")["info"] == {"mine": nested(40)}
    endless = []
    endless.append(endless)
    for info in (nested(60), nested(5000), endless):
        with pytest.raises(TypeError, match="nested more than 50 deep"):
            save(tmp_path / "model", result, info={"mine": info})


# ---------------------------------------------------------------- a table with a long first line
@pytest.mark.slow
@pytest.mark.parametrize("has_header", [True, False])
def test_a_table_with_thousands_of_columns_is_read(has_header, tmp_path, rng):
    """4,000 columns with long names: the first line has more than 64 KiB."""
    X = rng.normal(size=(3, 4000))
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    if has_header:
        lines.insert(0, ",".join(f"a column with a long name {k}" for k in range(4000)))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    assert len(lines[0]) > 2**16
    points = read_points(path)
    assert np.array_equal(points.X, X)
    assert points.names[-1] == ("a column with a long name 3999" if has_header else "x3999")


def test_a_first_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "LONGEST", 2**18)
    path = tmp_path / "endless.csv"
    path.write_text("1," * 2**19)
    with pytest.raises(ValueError, match=r"endless\.csv: no table of text, a line has 262144 characters or more"):
        read_points(path)


# ---------------------------------------------------------------- how and where the tests are started
CORES = ["Nehalem", "Haswell", "SkylakeX"]  # core types of OpenBLAS with the instruction sets v1, v3 and v4


def outcome_of(test, *, before=(), **environment):
    """Whether a test passes in a process of its own, and what it printed; a variable that is None is unset."""
    kept = {name: value for name, value in os.environ.items() if name not in environment}
    command = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", Path(__file__).with_name(test)]
    done = subprocess.run(
        command,
        env=kept | {name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode == 0, done.stdout


@pytest.mark.slow
def test_tests_of_ctrl_c_pass_where_sigint_is_ignored():
    """`nohup` and many CI runners start the suite so, and a child inherits it."""
    passes, out = outcome_of(
        "test_interrupts.py::test_a_signal_cuts_a_result_short", before=("sh", "-c", 'trap "" INT; exec "$0" "$@"')
    )
    assert passes, out


@pytest.mark.slow
@pytest.mark.parametrize("core", [None, *CORES[: ["v1", "v3", "v4"].index(level) + 1]])
def test_a_proof_of_the_last_digits_is_judged_alike_on_every_processor(core):
    """With the core type that OpenBLAS chooses, and with each one that this processor can run."""
    passes, out = outcome_of(
        "test_verification.py::test_rounding_of_the_range_of_a_prior_refutes_no_proof", OPENBLAS_CORETYPE=core
    )
    assert passes, out


# ---------------------------------------------------------------- quadratic programs whose matrix is indefinite by rounding
@pytest.mark.slow
@pytest.mark.parametrize("negative", [0.0, 1e-16, 1e-13, 1e-10])
@pytest.mark.parametrize("n", [2, 300])
@pytest.mark.parametrize("solver", ["auto", "active_set"])
def test_a_claim_says_how_indefinite_a_matrix_may_be(n, negative, solver, rng):
    """The objective falls without end along (1, 1, 0, ...) where the matrix is indefinite; the claim says from where on."""
    A = np.eye(n)
    A[0, 1] = A[1, 0] = -1.0 - negative
    b = np.r_[2.0, -1.0, rng.normal(size=n - 2)]
    result = nnqp(A, b, solver=solver)
    assert result.status == "OPTIMAL"
    delta = Fraction(result.curvature_tolerance)
    assert negative <= delta <= 2e-10 * n**0.5
    x, matrix, linear = ([Fraction(float(value)) for value in row] for row in (result.x, A[:2, :2].ravel(), b))
    rest = sum(z * (z / 2 + c) for z, c in zip(x[2:], linear[2:], strict=True))
    for far in (1, 10**3, 10**6, 10**9, 10**12):
        u, v = x[0] + far, x[1] + far
        value = (matrix[0] * u * u + 2 * matrix[1] * u * v + matrix[3] * v * v) / 2 + linear[0] * u + linear[1] * v
        reach = u * u + v * v + sum(z * z for z in x[2:])
        assert value + rest >= Fraction(result.dual_bound) - delta * reach / 2
    assert verify(result, A=A, b=b).holds
    claim = replace(result, status=Status.OPTIMAL, curvature_tolerance=0.0)
    assert verify(claim, A=A, b=b).holds <= (negative == 0.0)


def test_a_matrix_that_is_more_indefinite_is_refused():
    """From 256 rows on the test was one in single precision, which let eigenvalues of -1e-6 pass."""
    for n in (2, 300):
        A = np.eye(n)
        A[0, 1] = A[1, 0] = -1.0 - 1e-8 * n**0.5
        with pytest.raises(ValueError, match="A is not positive semidefinite"):
            nnqp(A, np.r_[1.0, -1.0, np.zeros(n - 2)])


# ---------------------------------------------------------------- hard margins that rounding of the kernel hides
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("solver", ["active_set", "multiplicative"])
@pytest.mark.parametrize("points", [[[1.0], [1.0 + 3e-8]], [[0.0], [3e-8], [1.0]], [[1e3, 2.0], [1e3 + 3e-8, 2.0]]])
def test_points_close_together_are_never_proven_inseparable(points, solver, kernel):
    """w = 1 / 3e-8 separates them; a kernel in double precision need not show it."""
    X, y = np.array(points), np.array([-1.0, 1.0, 1.0])[: len(points)]
    problem = MarginProblem.build(kernel_source(X, kernel, gamma=1.0), y, C=np.inf)
    result = train_margin(problem, solver=solver, max_iter=200)
    assert result.status != "INFEASIBLE"
    claim = replace(result, status=Status.INFEASIBLE, alpha=np.r_[1.0, 1.0, np.zeros(len(y) - 2)], margin_bound=1e-7)
    assert not verify(claim, problem=problem).holds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MarginSVC(kernel=kernel, gamma=1.0, C=np.inf, solver=solver, max_iter=200).fit(X, y)


def test_centring_makes_no_two_points_equal():
    """The machine sees centred points, of which 0 and 3e-8 are one; the proof is about those given."""
    X, y = np.array([[0.0], [3e-8], [4e9]]), np.array([-1, 1, 1])
    assert len(np.unique(X - X.mean())) == 2
    with pytest.warns(ConvergenceWarning):
        machine = MarginSVC(kernel="linear", C=np.inf).fit(X, y)
    assert machine.result_.status == "UNKNOWN"


@pytest.mark.parametrize("intercept", [True, False])
def test_hulls_that_meet_are_proven_so_exactly(intercept, rng):
    """Three points of one line, in two columns that say the same; decimals; a matrix whose entries are whole numbers."""
    line = np.repeat([[1.0], [3.0], [2.0]], 2, axis=1)
    decimals = np.round(rng.normal(size=(60, 5)), 1)
    for source, signs in (
        (kernel_source(line, "linear"), [1, 1, -1]),
        (kernel_source(decimals, "linear"), np.sign(rng.normal(size=60))),
        (kernel_source(line @ line.T, "precomputed"), [1, 1, -1]),
        (kernel_source(np.vstack([decimals, -0.0 * decimals[:1], 0.0 * decimals[:1]]), "rbf"), np.r_[np.ones(61), -1]),
    ):
        problem = MarginProblem.build(source, signs, C=np.inf, intercept=intercept)
        result = train_margin(problem)
        assert result.status == "INFEASIBLE"
        assert verify(result, problem=problem).holds


# ---------------------------------------------------------------- differences and products of the data as given
def exact_metric_objective(X, result, bound, loss):
    """Frobenius distance of ``B B'`` from the identity plus a loss of the squared distance of points 0 and 1, in fractions."""
    B = [[Fraction(float(x)) for x in row] for row in result.B]
    d = range(len(B))
    W = [[sum(x * y for x, y in zip(B[i], B[j], strict=True)) for j in d] for i in d]
    v = [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(X[0], X[1], strict=True)]
    p = sum(v[i] * W[i][j] * v[j] for i in d for j in d)
    return sum((W[i][j] - (i == j)) ** 2 for i in d for j in d) / 2 + loss(p / Fraction(bound))


def exact_sq_distance(x, y):
    return sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_values_below_the_rounding_of_their_points_are_refused_by_name(divergence):
    times = np.array([[1.7e12], [1.7e12 + 0.125]])  # .0156 apart, which is not 0 and not at most .001
    assert exact_sq_distance(*times) == Fraction(1, 64)
    near = Constraints.sq_distance(0, 1, 0.001, "<=")
    with pytest.raises(ValueError, match=r"constraint 0: .* has the value 0.0156 at the prior.* Centre the columns"):
        nearest_metric(times, near, divergence=divergence)
    centred = nearest_metric(times - times[0], near, divergence=divergence)
    assert centred.status == "OPTIMAL" and centred.values == pytest.approx([0.001], rel=1e-2)
    assert centred.objective > 0.1
    lengths = np.array([[1e8], [1e-8]])  # the inner product is 1
    for bound, sense in ((2.0, ">="), (0.5, "<=")):
        row = Constraints.similarity(0, 1, bound, sense)
        with pytest.raises(ValueError, match="constraint 0: .* has the value 1 at the prior"):
            nearest_metric(lengths, row, divergence=divergence)
        with pytest.raises(ValueError, match="constraint 0: .* has the value 1 at the prior"):
            nearest_kernel(Factor(lengths), row, divergence=divergence)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_identical_points_and_points_at_the_origin_are_not_refused(divergence):
    X = np.array([[0.1, 0.3], [0.1, 0.3], [0.0, 0.0], [1.0, 2.0], [0.1, 0.1 + 0.2]])
    rows = Constraints.sq_distance([0, 0, 0], [1, 3, 4], [1.0, 2.0, 1.0], "<=") + Constraints.similarity(
        2, 3, 1.0, "<="
    )
    assert nearest_metric(X, rows, divergence=divergence).status == "OPTIMAL"
    assert nearest_kernel(Factor(X), rows, divergence=divergence).status == "OPTIMAL"


@pytest.mark.parametrize("gap", [1e-9, 1e-10])
@pytest.mark.parametrize("seed", range(3))
def test_nearly_equal_rows_of_a_factor(seed, gap):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(5, 3))
    G[1] = G[0] + gap * rng.normal(size=3)
    rows = Constraints.sq_distance([0, 2], [1, 3], [0.3 * gap**2, 1.0], "<=")
    result = nearest_kernel(Factor(G), rows, divergence="frobenius")
    assert result.status == "OPTIMAL"
    # |(g_0 - g_1) B|^2 in fractions
    v = [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(G[0], G[1], strict=True)]
    image = [sum(x * Fraction(float(b)) for x, b in zip(v, column, strict=True)) for column in result.B.T]
    assert float(sum(x * x for x in image) / Fraction(float(rows.bound[0]))) <= 1 + 1e-8
    assert verify(result, prior=Factor(G), constraints=rows, divergence="frobenius").holds


@pytest.mark.parametrize("size", [1e7, 1e8, 1e9])
@pytest.mark.parametrize("sense", ["<=", "=="])
def test_the_objective_of_large_features_is_that_of_the_returned_map(sense, size):
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(6, 3)) * size
        rows = Constraints.sq_distance(0, 1, 1.0, sense)
        result = nearest_metric(X, rows, divergence="frobenius", slack_weight=1.0)

        def slack(q, is_equality=sense == "=="):
            return (q - 1) ** 2 / 2 if is_equality or q > 1 else Fraction(0)

        true = float(exact_metric_objective(X, result, 1.0, slack))
        assert result.objective == pytest.approx(true, rel=1e-6)
        assert result.status in ("OPTIMAL", "FEASIBLE")


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("size", [1e-20, 1e-25, 1e-30])
def test_a_squared_loss_beside_a_tiny_prior_is_part_of_the_objective(size, divergence):
    for seed in range(4):
        G = np.random.default_rng(seed).normal(size=(5, 5)) * size
        rows = Constraints.sq_distance([0, 1], [2, 3], [1.0, 2.0], "==")
        result = nearest_kernel(G @ G.T, rows, divergence=divergence, loss="squared", slack_weight=1.0)
        Y = result.factor
        missed = [exact_sq_distance(Y[i], Y[j]) / b - 1 for i, j, b in ((0, 2, 1), (1, 3, 2))]
        assert float(sum(x * x for x in missed) / 2) <= result.objective * (1 + 1e-6)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_an_infinite_loss_is_an_infinite_objective(divergence):
    seen = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        i, j = np.array([rng.choice(5, 2, replace=False) for _ in range(6)]).T
        rows = Constraints.similarity(i, j, rng.uniform(0.1, 3.0, 6), ">=")
        prior = Factor(rng.normal(size=(5, 3)))
        result = nearest_kernel(prior, rows, divergence=divergence, slack_weight=1.0, max_iter=2)
        if (result.values < -1e-6).any():
            seen += 1
            assert result.objective == np.inf and result.status == "UNKNOWN"
    assert seen > 5
