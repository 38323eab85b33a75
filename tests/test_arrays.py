"""Arrays of other libraries: torch and array-api-strict equal NumPy, on a device that is not the host, too; what is refused by name.

No GPU is needed: array-api-strict has devices that NumPy cannot read from, and torch's own CPU is taken for such a device.
"""

import copy
import pickle
import sys

import array_api_strict
import numpy as np
import pytest
from sklearn.base import clone

from bregmat import (
    Constraints,
    Factor,
    KernelKMeans,
    MetricLearner,
    OnlineLogDet,
    constraints_from_labels,
    load,
    nearest_kernel,
    nearest_metric,
    save,
)
from bregmat.base import arrays as library
from bregmat.base.arrays import array_space
from bregmat.base.checks import to_numpy
from bregmat.operators.binding import bind
from bregmat.operators.foreign import ArrayRows, on_space
from bregmat.operators.linear_maps import Operator, PairGraph
from bregmat.solvers.mirror_newton import solve_newton_system
from sharded_cases import hard_problem, soft_problem

EQUAL = {"rtol": 1e-10, "atol": 1e-10}
FAR = array_api_strict.Device("device1")  # np.asarray refuses what is there


@pytest.fixture
def torch():
    """Imported where a test needs it: that takes three seconds, and every process of a parallel run collects this file."""
    import torch

    return torch


def on_torch(x):
    import torch

    return torch.as_tensor(x)


def on_strict(x):
    return array_api_strict.asarray(x, device=FAR)


@pytest.fixture(params=[on_torch, on_strict], ids=["torch", "strict"])
def there(request, monkeypatch):
    """What puts an array where NumPy does not work on it."""
    if request.param is on_torch:
        monkeypatch.setattr(library, "_is_on_host", lambda x: False)
    return request.param


def every_relation():
    """Pairs, signed sums of pairs, and a matrix row."""
    X, C = soft_problem(n=90, d=9, c=1200)
    i, j = C.index[:, 0], C.index[:, 1]
    sums = Constraints.comparison(i[:200], j[:200], i[200:400], j[200:400], margin=0.5)
    return X, C + sums + Constraints.trace(40.0)


# ---------------------------------------------------------------------- the operator
@pytest.mark.slow
@pytest.mark.parametrize("rows", ["graph", "graph with signs", "vectors", "all relations"])
def test_an_operator_there_is_the_operator(there, rng, rows, monkeypatch):
    monkeypatch.setattr("bregmat.operators.foreign.BLOCK_NUMBERS", 10_000)  # several blocks
    X, C = every_relation() if "relation" in rows else soft_problem(n=90, d=36, c=900 if "graph" in rows else 70)
    if rows == "graph with signs":  # a similarity is a signed sum of three
        C = Constraints.similarity(*C.index.T, 1.0, "<=")
    r = X.shape[1]
    here = bind(C, X)
    assert isinstance(getattr(here, "base", here), PairGraph) == ("graph" in rows)
    away = on_space(here, array_space(there(X)))
    assert (away.c, away.r) == (here.c, here.r)
    F = rng.normal(size=(r, r)) / np.sqrt(r)
    S, w = 1.0 + (F @ F.T) ** 2, rng.normal(size=here.c)
    some = np.flatnonzero(w > 0.3)
    few, far = here.restrict(some), away.restrict(some)
    for a, b in (
        (here, away),
        (here.congruence(F), away.congruence(F)),
        (few, far),
        (few.restrict([2, 5]), far.restrict([2, 5])),
    ):
        v = w[: a.c]
        calls = {
            "values": (F + F.T,),
            "adjoint": (v,),
            "values_diagonal": (np.abs(F[0]),),
            "squared_norms": (S,),
            "extents": (np.abs(v),),
            "normal_matrix": (np.abs(v), S),
            "features": (S,),
            "gram": (S,),
            "sizes": (np.abs(F[1]),),
        }
        for name, given in calls.items():
            found = getattr(b, name)(*given)
            assert type(found) is np.ndarray, name
            np.testing.assert_allclose(found, getattr(a, name)(*given), **EQUAL, err_msg=name)
        for name in ("values_diagonal", "squared_norms", "normal_matrix", "gram"):
            given = (np.abs(v), None) if name == "normal_matrix" else (None,)
            np.testing.assert_allclose(getattr(b, name)(*given), getattr(a, name)(*given), **EQUAL, err_msg=name)
        np.testing.assert_allclose(b.norms(), a.norms(), **EQUAL)
        np.testing.assert_allclose(b.exact_norms(), a.exact_norms(), **EQUAL)
        np.testing.assert_allclose(b.weighted(v)(S), Operator.weighted(a, v)(S), **EQUAL)
        np.testing.assert_allclose(b.outer().coef, a.outer().coef, **EQUAL)
        single = b.astype(np.float32).weighted(np.abs(v).astype(np.float32))(S.astype(np.float32))
        np.testing.assert_allclose(single, a.adjoint(np.abs(v) * a.values(S)), rtol=1e-4, atol=1e-2)
    assert far.restrict(np.zeros(0, int)).adjoint(np.zeros(0)).shape == (r, r)


def test_points_stay_there_and_vectors_are_formed_where_they_are_fewer(there):
    X, C = soft_problem(n=90, d=9, c=4000)
    away = on_space(bind(C, X), array_space(there(X)))
    assert isinstance(away, ArrayRows)
    assert type(away.Z) is type(there(X))
    assert away.ends is not None
    assert away.congruence(np.eye(9)).ends is away.ends
    assert away.restrict(np.arange(50)).ends is None
    assert away.vectors(np.array([[3, 4], [7, 3]])).shape == (2, 2, 9)


@pytest.mark.parametrize(("single", "tol"), [(False, 1e-11), (True, 1e-3)])
def test_newton_systems_there(there, rng, single, tol):
    """The smallest eigenvalue is 1 at least: solutions are no further apart than their residuals."""
    X, C = soft_problem(n=120, d=16, c=3000)
    here = bind(C, X)
    away = on_space(here, array_space(there(X)))
    h, B = rng.uniform(0.5, 1.5, here.c) / here.c, rng.normal(size=(16, 16))
    settings = {"tol": tol, "direct_flops": 0.0, "single": single}  # conjugate gradients
    a, b = (solve_newton_system(op, h, None, B + B.T, **settings) for op in (here, away))
    assert 3 < a.steps < 60
    assert b.steps == pytest.approx(a.steps, abs=2)
    np.testing.assert_allclose(b.E, a.E, rtol=0, atol=3.0 * tol)
    direct = solve_newton_system(away, h, None, B + B.T, tol=tol, direct_flops=1e12)
    assert direct.steps == 0
    np.testing.assert_allclose(direct.E, a.E, rtol=0, atol=3.0 * tol)


# ---------------------------------------------------------------------- functions and learners
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("problem", [soft_problem, hard_problem])
def test_results_there_are_the_results(there, divergence, problem):
    X, C = problem()
    settings = {"divergence": divergence, "slack_weight": 1.0 if problem is soft_problem else np.inf}
    exact = {"solver": "interior_point", "tol": 1e-10, **settings}  # its systems are factorised
    here, away = nearest_metric(X, C, **exact), nearest_metric(there(X), C, **exact)
    assert away.status == "OPTIMAL"
    assert away.n_iter == here.n_iter
    for a, b in ((here.metric(), away.metric()), (here.values, away.values), (here.dual, away.dual)):
        assert type(b) is np.ndarray
        np.testing.assert_allclose(b, a, **EQUAL)
    mapped = [result.transform(X[:50]) for result in (here, away)]  # up to a rotation
    np.testing.assert_allclose(mapped[1] @ mapped[1].T, mapped[0] @ mapped[0].T, **EQUAL)
    np.testing.assert_allclose([away.objective, away.dual_bound], [here.objective, here.dual_bound], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [soft_problem, hard_problem])
def test_conjugate_gradients_in_float32_end_at_other_points_as_near(there, problem):
    X, C = problem()
    settings = {"slack_weight": 1.0 if problem is soft_problem else np.inf}
    here, away = nearest_metric(X, C, **settings), nearest_metric(there(X), C, **settings)
    assert away.status == here.status == "OPTIMAL"
    assert abs(here.objective - away.objective) <= 1e-6 * max(1.0, abs(here.objective))


def test_kernels_and_factors_there(there, rng):
    G = rng.normal(size=(40, 6))
    C = Constraints.sq_distance([0, 1, 2], [3, 4, 5], 1.0, "<=") + Constraints.diagonal(2.0, [7, 8])
    for prior, moved in ((G @ G.T + np.eye(40), there), (Factor(G), lambda prior: Factor(there(prior.G0)))):
        here, away = nearest_kernel(prior, C, tol=1e-10), nearest_kernel(moved(prior), C, tol=1e-10)
        assert away.status == "OPTIMAL"
        np.testing.assert_allclose(away.kernel(), here.kernel(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 5), (30, 200)])  # the second is solved in the span of its pairs
def test_what_is_mapped_stays_there(there, rng, shape):
    X = rng.normal(size=shape)
    result = nearest_metric(X, Constraints.sq_distance(range(10), range(10, 20), 1.0, "<="), slack_weight=1.0)
    points = rng.normal(size=(7, shape[1]))
    for dtype, tol in ((np.float64, 1e-10), (np.float32, 1e-5)):
        mapped = result.transform(there(points.astype(dtype)))
        assert type(mapped) is type(there(points))
        assert mapped.device == there(points).device
        assert to_numpy("mapped", mapped).dtype == dtype
        np.testing.assert_allclose(to_numpy("mapped", mapped), result.transform(points), rtol=tol, atol=tol)
    whole = result.transform(there(np.ones((2, shape[1]), dtype=int)))
    np.testing.assert_allclose(to_numpy("whole", whole), result.transform(np.ones((2, shape[1]))), **EQUAL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"divergence": "vonneumann", "solver": "interior_point"}, {"n_components": 2}]
)
def test_a_learner_there_is_the_learner(there, settings):
    X, _ = soft_problem(n=120)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    settings = {"random_state": 0, "tol": 1e-9, **settings}
    here = MetricLearner(**settings).fit(X, y)
    away = MetricLearner(**settings).fit(there(X), there(y), sample_weight=there(np.ones(len(X))))
    assert away.n_features_in_ == X.shape[1]
    assert type(away.components_) is np.ndarray
    np.testing.assert_allclose(away.get_mahalanobis_matrix(), here.get_mahalanobis_matrix(), **EQUAL)
    mapped = away.transform(there(X))
    assert type(mapped) is type(there(X))
    np.testing.assert_allclose(to_numpy("mapped", mapped), away.transform(X), **EQUAL)
    pairs = np.stack([X[:30], X[30:60]], axis=1)
    distance = away.pair_distance(there(pairs))
    assert type(distance) is type(there(X))
    np.testing.assert_allclose(to_numpy("distance", distance), away.pair_distance(pairs), **EQUAL)
    np.testing.assert_allclose(to_numpy("score", away.pair_score(there(pairs))), -away.pair_distance(pairs), **EQUAL)


@pytest.mark.parametrize("settings", [{"kernel": "precomputed"}, {"kernel": "rbf"}, {"kernel": "linear"}])
def test_clusters_there_are_the_clusters(there, settings):
    X = np.asarray(soft_problem(n=150)[0])
    points = X @ X.T if settings.get("kernel") == "precomputed" else X
    clusters = KernelKMeans(4, random_state=0, **settings)
    here = clone(clusters).fit(points)
    away = clone(clusters).fit(there(points), sample_weight=there(np.ones(len(X))))
    assert np.array_equal(away.labels_, here.labels_)
    assert away.inertia_ == pytest.approx(here.inertia_, rel=1e-10)
    assert np.array_equal(away.predict(there(points)), here.labels_)
    for name in ("dual_coef_", "sq_norms_", "cluster_centers_"):
        if hasattr(here, name):
            np.testing.assert_allclose(getattr(away, name), getattr(here, name), **EQUAL)
    assert ("dual_coef_" in vars(here)) == (settings.get("kernel") in ("precomputed", "rbf"))


def test_rows_and_labels_may_come_from_there(there):
    i, j = np.arange(4), np.arange(4, 8)
    rows = Constraints.sq_distance(there(i), there(j), there(np.full(4, 2.0)), "<=", weight=there(np.arange(1.0, 5.0)))
    assert rows.index.tolist() == np.stack([i, j], axis=1).tolist()
    assert rows.bound.tolist() == [2.0] * 4
    assert rows.weight.tolist() == [1.0, 2.0, 3.0, 4.0]
    pairs, same = there(np.stack([i, j], axis=1)), there(np.array([1, -1, 1, -1]))
    assert Constraints.from_pairs(pairs, same, (1.0, 9.0)).bound.tolist() == [1.0, 9.0, 1.0, 9.0]
    X, y = np.arange(24.0).reshape(12, 2) ** 2, np.arange(12) % 2
    for strategy in ("random", "neighbors"):
        drawn = [
            constraints_from_labels(*given, strategy=strategy, random_state=0)
            for given in ((X, y), (there(X), there(y)))
        ]
        assert np.array_equal(drawn[0].index, drawn[1].index)
        assert np.array_equal(drawn[0].bound, drawn[1].bound)


def test_in_host_memory_the_compiled_loops_work(torch, monkeypatch):
    """Tensors that NumPy can read give the same bits as NumPy, and are given back as tensors."""
    monkeypatch.setattr("bregmat.certificates.problem.on_space", None)
    X, C = soft_problem()
    here = nearest_metric(X, C, slack_weight=1.0)
    for x in (torch.as_tensor(X), torch.as_tensor(X).to(torch.float32).to(torch.float64), array_api_strict.asarray(X)):
        away = nearest_metric(x, C, slack_weight=1.0)
        assert away.n_iter == here.n_iter
        assert type(away.transform(x)) is type(x)
    assert np.array_equal(nearest_metric(torch.as_tensor(X), C, slack_weight=1.0).metric(), here.metric())
    half = nearest_metric(torch.as_tensor(X).to(torch.bfloat16), C, slack_weight=1.0)
    assert half.status == "OPTIMAL"


def test_small_doors_take_what_is_there(there, rng):
    from bregmat.pairs import ITML

    pairs, y = rng.normal(size=(40, 2, 3)), np.where(rng.random(40) < 0.5, 1, -1)
    for learner, labels in ((ITML(random_state=0), y), (OnlineLogDet(), np.abs(y))):
        here, away = clone(learner).fit(pairs, labels), clone(learner).fit(there(pairs), there(labels))
        assert np.array_equal(away.components_, here.components_)
    distance = MetricLearner(random_state=0).fit(pairs[:, 0], np.abs(y + 1)).get_metric()
    assert distance(there(pairs[0, 0]), there(pairs[1, 0])) == distance(pairs[0, 0], pairs[1, 0])


# ---------------------------------------------------------------------- what is refused
def test_what_was_learned_there_is_kept_as_ever(there, tmp_path):
    X, _ = soft_problem(n=60)
    y = np.arange(60) % 2
    learner = MetricLearner(random_state=0).fit(there(X), there(y))
    path = tmp_path / "model.breg"
    save(path, learner)
    for again in (pickle.loads(pickle.dumps(learner)), load(path), copy.deepcopy(learner)):
        assert np.array_equal(again.transform(X), learner.transform(X))
        mapped = again.transform(there(X))
        np.testing.assert_allclose(to_numpy("mapped", mapped), learner.transform(X), **EQUAL)


def test_bad_points_are_named(there):
    X, C = soft_problem()
    result = nearest_metric(X, C, slack_weight=1.0)
    bad = X[:6].copy()
    bad[[2, 4], 1] = np.nan
    with pytest.raises(ValueError, match="X must be finite; got NaN or infinity in rows 2, 4"):
        result.transform(there(bad))
    with pytest.raises(ValueError, match=r"X must be 2-dimensional.*got shape \(8,\)"):
        result.transform(there(X[0]))
    with pytest.raises(ValueError, match="X must have 8 columns"):
        result.transform(there(X[:, :3]))
    with pytest.raises(TypeError, match="X must be real"):
        result.transform(there(X.astype(complex)))
    with pytest.raises(ValueError, match="must be finite"):
        nearest_metric(there(bad), C.select([0]), slack_weight=1.0)


def test_what_works_on_the_host_alone_says_so():
    """array-api-strict's second device is one that NumPy cannot read from, as a GPU is."""
    from bregmat import KernelLearner, MarginSVC

    X, C = soft_problem()
    y = np.arange(len(X)) % 2
    with pytest.raises(
        TypeError, match="X must be in the host's memory where constraints are sharded; got a array_api_strict array"
    ):
        nearest_metric(on_strict(X), C, slack_weight=1.0, block_size=500)
    for estimator in (KernelLearner(), MarginSVC()):
        with pytest.raises(TypeError, match="X must be in the host's memory here; got a array_api_strict array on"):
            estimator.fit(on_strict(X), y)


def test_a_device_without_double_precision_is_refused():
    X, C = soft_problem()
    single = array_api_strict.asarray(X.astype(np.float32), device=array_api_strict.Device("no_float64"))
    with pytest.raises(
        TypeError, match=r"array_api_strict array on .*no_float64.* has no float64 there, which certificates need"
    ):
        nearest_metric(single, C, slack_weight=1.0)


def test_gradients_are_not_dropped_silently(torch):
    X, C = soft_problem()
    x = torch.as_tensor(X).requires_grad_()
    result = nearest_metric(X, C, slack_weight=1.0)
    for call in (lambda: nearest_metric(x, C, slack_weight=1.0), lambda: result.transform(x)):
        with pytest.raises(
            TypeError, match=r"X must not record gradients, which are not followed here; pass X.detach\(\)"
        ):
            call()


def test_a_tensor_that_is_not_converted_is_named(torch):
    X, C = soft_problem()
    sparse = torch.as_tensor(X).to_sparse()
    for call, said in (
        (lambda: nearest_metric(sparse, C), "X must be numeric; got Tensor"),
        (lambda: nearest_metric(X, C, prior=sparse), "prior must be numeric; got Tensor"),
        (lambda: nearest_kernel(Factor(sparse), C), "prior factor G0 must be numeric; got Tensor"),
    ):
        with pytest.raises(TypeError, match=said):
            call()


def test_what_is_no_array_of_another_library(torch):
    import dask.array
    import pandas
    import scipy.sparse

    for x in (np.eye(2), np.float64(1.0), [1.0], 3, None, "text", dask.array.ones(3), scipy.sparse.eye_array(3), torch):
        assert array_space(x) is None
    assert array_space(pandas.DataFrame({"a": [1.0]})) is None
    assert "torch array on cpu" in array_space(torch.eye(2)).words


def test_without_array_api_compat_it_says_what_to_install(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(ImportError, match=r"pip install 'bregmat\[gpu\]'"):
        array_space(torch.zeros(2, 2))
    assert array_space(np.zeros((2, 2))) is None  # NumPy's need nothing
