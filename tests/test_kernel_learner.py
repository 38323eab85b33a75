"""KernelLearner: scikit-learn's own checks, kernels on new points, and what users do with them."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bregmat import Constraints, Factor, KernelLearner, SolverError, nearest_kernel, nearest_metric
from bregmat.io import load, save
from estimator_suite import LIGHT, REPEATED, run_array_api_check, sklearn_checks

AGREE = 1e-8  # of the largest entry: transductive and inductive values differ by rounding in triangular solves only
FORMS = {
    "full rank": {"kernel": "rbf"},
    "low rank": {"kernel": "rbf", "rank": 12},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2},
}


# at full rank: test_kernel_cv.py
@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(KernelLearner(rank=5, **LIGHT), unmet=REPEATED)))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_array_api_check():
    run_array_api_check(KernelLearner)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def pairs(wine):
    """Pairs among the first 60 points, bounded on the scale of rbf distances."""
    X, y = wine
    rng = np.random.default_rng(5)
    rows = np.arange(0, 178, 3)
    i, j = rng.choice(rows, (2, 40))
    i, j = i[i != j], j[i != j]
    same = y[i] == y[j]
    return Constraints.sq_distance(i, j, np.where(same, 0.4, 1.6), np.where(same, "<=", ">="))


def close(A, B, tol=AGREE):
    return np.abs(A - B).max() <= tol * np.abs(B).max()


# ---------------------------------------------------------------------- the learned kernel
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("form", FORMS)
def test_inductive_is_transductive_on_training_points(wine, form, divergence):
    X, y = wine
    learner = KernelLearner(**FORMS[form], divergence=divergence, n_constraints=60, random_state=0, tol=1e-6).fit(X, y)
    K, T = learner.kernel_, learner.transform(X)
    assert K.shape == (178, 178) and learner.result_.status == "OPTIMAL"
    assert np.allclose(K, K.T, rtol=0, atol=1e-12 * np.abs(K).max())
    assert (
        close(learner.kernel(X), K)
        and close(learner.kernel(X[:7], X), K[:7])
        and close(learner.kernel(X, X[:7]), K[:, :7])
    )
    assert close(T @ T.T, K)
    # the values that the certificate speaks of are those of the kernel
    assert close(learner.constraints_.values(T), learner.result_.values)
    assert len(learner.get_feature_names_out()) == T.shape[1]


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("form", FORMS)
def test_new_points_are_as_if_they_had_been_there(wine, form, divergence, pairs):
    """Points in no constraint change nothing: with them or without them in fit, the same kernel (6.1; Davis 2007)."""
    X, _ = wine
    kw = FORMS[form] | {"divergence": divergence, "tol": 1e-9, "slack_weight": 2.0}
    if form == "low rank" or (form == "linear" and divergence != "logdet"):
        # K0, or its pivots, depend on all points there: a known point and a copy of it are one
        learner = KernelLearner(**kw).fit(X, constraints=pairs)
        new = learner.kernel(np.vstack([X[3], X[5] + 0.1]), X)
        assert close(new[0], learner.kernel_[3]) and not close(new[1], learner.kernel_[5], 1e-3)
        return
    seen = np.arange(0, 178, 3)
    all_points = KernelLearner(**kw).fit(X, constraints=pairs)
    few = KernelLearner(**kw).fit(X[seen], constraints=pairs, sample_id=seen)
    assert close(few.kernel(X), all_points.kernel_, 1e-6)  # two solves, each to a gap of 1e-9


def test_full_rank_logdet_is_the_kernel_problem(wine, pairs):
    X, _ = wine
    K0 = rbf_kernel(X)
    learner = KernelLearner("rbf", tol=1e-9, slack_weight=3.0).fit(X, constraints=pairs)
    want = nearest_kernel(K0, pairs, slack_weight=3.0, tol=1e-9)
    assert np.isclose(learner.result_.objective, want.objective, rtol=1e-7)
    assert close(learner.kernel_, want.kernel(), 1e-6)
    again = KernelLearner("precomputed", tol=1e-9, slack_weight=3.0).fit(K0, constraints=pairs)
    assert close(again.kernel_, learner.kernel_)


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_rank_n_is_the_kernel_problem_of_the_paper(wine, pairs, divergence):
    X, _ = wine
    learner = KernelLearner("rbf", rank=178, divergence=divergence, tol=1e-8).fit(X, constraints=pairs)
    want = nearest_kernel(rbf_kernel(X), pairs, slack_weight=1.0, divergence=divergence, tol=1e-8)
    assert learner.captured_trace_ > 1 - 1e-12
    assert np.isclose(learner.result_.objective, want.objective, rtol=1e-6)
    assert close(learner.kernel_, want.kernel(), 1e-5)


def test_linear_is_the_metric_for_logdet_and_another_problem_for_von_neumann(wine, pairs):
    X, _ = wine
    given = pairs.select(np.arange(pairs.n_constraints) < 20)
    for divergence, same in (("logdet", True), ("vonneumann", False)):
        kernel = KernelLearner("linear", divergence=divergence, tol=1e-8).fit(X, constraints=given)
        metric = nearest_metric(X, given, divergence=divergence, slack_weight=1.0, tol=1e-8)
        paper = nearest_kernel(Factor(X), given, divergence=divergence, slack_weight=1.0, tol=1e-8)
        assert close(kernel.kernel_, paper.kernel())
        assert np.isclose(kernel.result_.objective, metric.objective, rtol=1e-6) == same


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_linear_with_more_columns_than_rows(rng, divergence, form):
    X, y = rng.normal(size=(20, 70)), np.arange(20) % 2
    c = Constraints.sq_distance([0, 1, 2], [2, 3, 5], [50.0, 300.0, 60.0], ["<=", ">=", "<="])
    learner = KernelLearner("linear", divergence=divergence, tol=1e-8).fit(form(X), constraints=c)
    want = nearest_kernel(X @ X.T, c, divergence=divergence, slack_weight=1.0, tol=1e-8)
    assert close(learner.kernel_, want.kernel(), 1e-5)
    assert close(learner.kernel(form(X[:4]), form(X)), learner.kernel_[:4])
    assert KernelLearner("linear", divergence=divergence, n_constraints=10, random_state=0).fit(form(X), y).n_iter_ >= 1


def test_only_points_in_constraints_are_looked_at(rng):
    seen = []

    def watched(A, B):
        seen.append(len(A) * len(B))
        return rbf_kernel(A, B, gamma=0.1)

    X = rng.normal(size=(50_000, 4))
    i = rng.choice(50_000, 100, replace=False)
    c = Constraints.sq_distance(i[:50], i[50:], 0.1, "<=")
    learner = KernelLearner(watched).fit(X, constraints=c)
    assert seen == [100 * 100] and learner.result_.gap <= 1e-4
    assert c.n_constraints == 50 and learner.kernel(X[:3], X).shape == (3, 50_000)
    with pytest.raises(ValueError, match="all 50000 training points.*pass rank="):
        learner.transform(X[:2])


def test_everything_is_touched_by_trace_and_linear_rows(wine):
    X, _ = wine
    few = X[:25]
    C = np.zeros((25, 25))
    C[0, 0] = 1.0
    rows = Constraints.trace(20.0) + Constraints.linear([C], 0.5, "<=") + Constraints.similarity(1, 2, 0.9, ">=")
    learner = KernelLearner("rbf", slack_weight=np.inf, tol=1e-8).fit(few, constraints=rows)
    assert np.isclose(np.trace(learner.kernel_), 20.0, rtol=1e-6) and learner.kernel_[0, 0] <= 0.5 + 1e-6


# ---------------------------------------------------------------------- low rank


def test_rank_ends_where_the_kernel_does(rng):
    X = np.repeat(rng.normal(size=(7, 4)), 5, axis=0)
    learner = KernelLearner("rbf", rank=30, n_constraints=20, random_state=0).fit(X, np.repeat(np.arange(7) % 2, 5))
    assert learner.transform(X).shape == (35, 7) and learner.captured_trace_ > 1 - 1e-12
    full = KernelLearner("rbf", n_constraints=20, random_state=0).fit(X, np.repeat(np.arange(7) % 2, 5))
    assert full.transform(X).shape == (35, 7) and close(full.transform(X) @ full.transform(X).T, full.kernel_)


def test_captured_trace_grows_with_rank(wine):
    X, y = wine
    share = [
        KernelLearner(rank=r, n_constraints=30, random_state=0).fit(X, y).captured_trace_ for r in (5, 20, 80, 178)
    ]
    assert np.all(np.diff(share) > 0) and share[-1] > 1 - 1e-12


# ---------------------------------------------------------------------- a factor, memory-mapped
def mapped(path, G):
    np.save(path, G)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_memory_mapped_factor(rng, tmp_path, divergence):
    G = rng.normal(size=(5000, 6))
    c = Constraints.sq_distance([0, 10, 4000], [1, 12, 4999], [1.0, 30.0, 2.0], ["<=", ">=", "<="])
    X = mapped(tmp_path / "G.npy", G)
    want = KernelLearner("linear", divergence=divergence).fit(G, constraints=c)
    for data in (X, Factor(X), Factor(G)):
        learner = KernelLearner("linear", divergence=divergence).fit(data, constraints=c)
        assert np.array_equal(learner.transform(G[:50]), want.transform(G[:50]))
    learner.result_.write_factor(tmp_path / "learned.npy", rows=700)
    assert np.array_equal(np.load(tmp_path / "learned.npy"), want.transform(G))


@pytest.mark.not_verified("a factor with rows of nan where none may be read, which `verify` reads")
def test_logdet_reads_only_touched_rows_of_a_mapped_factor(rng, tmp_path):
    """Rows in no constraint may hold anything: they are not read."""
    G = rng.normal(size=(2000, 5))
    G[1000:] = np.nan
    c = Constraints.sq_distance([0, 10], [1, 12], [1.0, 30.0], ["<=", ">="])
    learner = KernelLearner("linear").fit(mapped(tmp_path / "G.npy", G), constraints=c)
    assert np.isfinite(learner.transform(G[:1000])).all()
    bad = c + Constraints.sq_distance(3, 1500, 1.0, "<=")
    with pytest.raises(ValueError, match="NaN or infinity in row 1500"):
        KernelLearner("linear").fit(mapped(tmp_path / "G.npy", G), constraints=bad)


# ---------------------------------------------------------------------- in scikit-learn
@pytest.mark.slow
def test_drops_into_scikit_learn(wine):
    X, y = wine
    train, test = np.arange(0, 178, 2), np.arange(1, 178, 2)
    learner = KernelLearner("rbf", random_state=0).fit(X[train], y[train])
    K = learner.kernel_
    function = SVC(kernel=learner.kernel).fit(X[train], y[train])
    precomputed = SVC(kernel="precomputed").fit(K, y[train])
    assert np.array_equal(function.predict(X[test]), precomputed.predict(learner.kernel(X[test], X[train])))
    assert function.score(X[test], y[test]) > 0.9
    assert np.array_equal(pickle.loads(pickle.dumps(function)).predict(X[test]), function.predict(X[test]))
    assert clone(function).fit(X[train], y[train]).score(X[test], y[test]) == function.score(X[test], y[test])
    assert KernelPCA(3, kernel="precomputed").fit_transform(K).shape == (89, 3)
    knn = make_pipeline(KernelLearner("rbf", random_state=0), KNeighborsClassifier(4))
    assert cross_val_score(knn, X, y, cv=3).mean() > 0.9


def test_learned_kernel_as_the_kernel_of_another(wine, pairs):
    X, _ = wine
    first = KernelLearner("rbf").fit(X, constraints=pairs)
    second = KernelLearner(first.kernel).fit(X, constraints=pairs)
    third = KernelLearner("precomputed").fit(first.kernel_, constraints=pairs)
    assert close(second.kernel_, third.kernel_, 1e-6)
    assert pairs.violation(second.transform(X)).mean() < pairs.violation(first.transform(X)).mean()


def test_kernel_is_a_parameter_and_a_method(wine):
    X, y = wine
    learner = KernelLearner("poly", degree=2)
    assert learner.get_params()["kernel"] == "poly" and clone(learner).get_params() == learner.get_params()
    assert "kernel='poly'" in repr(learner) and learner.set_params(kernel="rbf").get_params()["kernel"] == "rbf"
    with pytest.raises(NotFittedError):
        learner.kernel(X)
    process = KernelLearner(RBF(2.0), n_constraints=50, random_state=0)
    assert clone(process).set_params(kernel__length_scale=3.0).get_params()["kernel__length_scale"] == 3.0
    want = KernelLearner("rbf", gamma=1 / 8, n_constraints=50, random_state=0).fit(X, y)
    assert close(process.fit(X, y).kernel_, want.kernel_, 1e-6)


def test_precomputed_slices_in_cross_validation(wine):
    """The pairwise tag makes scikit-learn cut rows and columns; scores are those of the kernel by name."""
    X, y = wine
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = {"slack_weight": [0.1, 1.0]}
    scores = []
    for kernel, data in (("precomputed", rbf_kernel(X, gamma=0.05)), ("rbf", X)):
        model = make_pipeline(KernelLearner(kernel, gamma=0.05, n_constraints=0), KNeighborsClassifier(3))
        c = Constraints.sq_distance(np.arange(170), np.arange(8, 178), 0.5, "<=")
        grid = GridSearchCV(model, {f"kernellearner__{k}": v for k, v in search.items()}, cv=folds, error_score="raise")
        grid.fit(data, y, kernellearner__constraints=c, kernellearner__sample_id=np.arange(178))
        scores.append(grid.cv_results_["mean_test_score"])
    assert np.allclose(*scores, atol=0.02)
    assert KernelLearner("precomputed").__sklearn_tags__().input_tags.pairwise
    assert not KernelLearner("rbf").__sklearn_tags__().input_tags.pairwise


def test_sample_ids_in_folds(wine, pairs):
    X, _ = wine
    ids = np.array([f"bottle {i}" for i in range(178)])
    i, j = ids[pairs.index[:, 0]], ids[pairs.index[:, 1]]
    named = Constraints.sq_distance(i, j, pairs.bound, ["<=" if s > 0 else ">=" for s in pairs.sense])
    want = KernelLearner("rbf").fit(X, constraints=pairs)
    learner = KernelLearner("rbf").fit(pd.DataFrame(X, index=ids), constraints=named)
    assert close(learner.kernel(X), want.kernel_, 1e-3) and learner.n_dropped_constraints_ == 0
    part = np.arange(178) < 120
    for form in FORMS.values():
        fold = KernelLearner(**form).fit(X[part], constraints=named, sample_id=ids[part])
        assert fold.n_dropped_constraints_ + fold.constraints_.n_constraints == pairs.n_constraints
        assert fold.n_dropped_constraints_ > 0 and set(fold.constraints_.ids) <= set(ids[part])
    gram = rbf_kernel(X)[np.ix_(part, part)]
    fold = KernelLearner("precomputed").fit(gram, constraints=named, sample_id=ids[part])
    assert close(fold.kernel_, KernelLearner("rbf").fit(X[part], constraints=named, sample_id=ids[part]).kernel_, 1e-6)


@pytest.mark.slow
def test_labels_are_bounded_by_kernel_distances(wine):
    X, y = wine
    learner = KernelLearner("rbf", gamma=0.05, n_constraints=100, random_state=0).fit(X, y)
    sq = 2 - 2 * rbf_kernel(X, gamma=0.05)[np.triu_indices(178, 1)]
    near, far = np.unique(learner.constraints_.bound)
    assert np.allclose([near, far], np.percentile(sq, [5, 95]), rtol=0.05)
    again = KernelLearner("rbf", gamma=0.05, n_constraints=100, random_state=0).fit(X, y)
    assert np.array_equal(again.kernel_, learner.kernel_)
    semi = KernelLearner("rbf", n_constraints=30, random_state=0).fit(X, np.where(np.arange(178) < 90, y + 1, -1))
    assert semi.constraints_.index.max() < 90
    both = KernelLearner("rbf", n_constraints=30, random_state=0).fit(
        X, y, constraints=Constraints.diagonal([2.0], [4])
    )
    assert both.constraints_.n_constraints == 31 == len(both.result_.dual)
    # points that the kernel does not tell apart make no pair: x and 2 x for the cosine
    doubled = np.vstack([X[:20], 2 * X[:20]])
    cosine = KernelLearner("cosine", n_constraints=300, random_state=0).fit(doubled, np.repeat([0, 1], 20))
    i, j = cosine.constraints_.index[:, :2].T
    assert (i % 20 != j % 20).all()


def test_warm_start(wine):
    X, y = wine
    learner = KernelLearner("rbf", warm_start=True, random_state=0, tol=1e-8).fit(X, y)
    cold = learner.n_iter_
    assert learner.fit(X, y).n_iter_ < cold
    learner.set_params(n_constraints=50).fit(X, y)  # another number of constraints: starts cold
    assert learner.n_iter_ == clone(learner).fit(X, y).n_iter_


def test_float32_and_frames(wine):
    X, y = wine
    learner = KernelLearner("rbf", n_constraints=50, random_state=0).fit(X, y)
    assert learner.transform(X.astype(np.float32)).dtype == np.float32
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(13)])
    by_name = KernelLearner("rbf", n_constraints=50, random_state=0).fit(frame, y)
    assert close(by_name.kernel(frame), learner.kernel_) and close(by_name.kernel(X), learner.kernel_)
    with pytest.raises(ValueError, match="feature names"):
        by_name.kernel(frame[frame.columns[::-1]])
    single = KernelLearner("precomputed", n_constraints=50, random_state=0).fit(rbf_kernel(X).astype(np.float32), y)
    assert single.result_.status == "OPTIMAL"


# ---------------------------------------------------------------------- files
@pytest.mark.parametrize("form", [*FORMS, "precomputed", "sparse"])
def test_saved_and_loaded(wine, tmp_path, form):
    X, y = wine
    data = {"precomputed": rbf_kernel(X), "sparse": sp.csr_array(X)}.get(form, X)
    kw = FORMS.get(form, {"kernel": "rbf" if form == "sparse" else form})
    learner = KernelLearner(**kw, n_constraints=40, random_state=0).fit(data, y)
    T = learner.transform(data)
    save(tmp_path / "model.bm", learner)
    again = load(tmp_path / "model.bm")
    assert close(again.kernel(data[:5]), learner.kernel(data[:5]), 1e-12) and close(again.transform(data), T, 1e-9)
    assert again.get_params() == learner.get_params() and again.captured_trace_ == learner.captured_trace_
    assert (
        np.array_equal(again.constraints_.index, learner.constraints_.index) and again.n_features_in_ == data.shape[1]
    )
    assert np.array_equal(pickle.loads(pickle.dumps(learner)).transform(data), T)
    for twin in (copy.copy(learner), copy.deepcopy(learner)):  # copies share the data
        assert np.array_equal(twin.kernel_, learner.kernel_)
    for other in (again, pickle.loads(pickle.dumps(learner))):
        if learner.X_fit_ is not None:
            assert close(other.kernel_, learner.kernel_, 1e-12)
            continue
        with pytest.raises(ValueError, match=r"use learner.kernel\(X\)"):
            other.kernel_  # noqa: B018
        with pytest.raises(ValueError, match="the data is not kept"):
            other.result_.write_factor(tmp_path / "factor.npy")
        assert close(other.kernel(data), learner.kernel_)
    if form in ("full rank", "low rank"):  # the kernel of the fit goes into files
        save(tmp_path / "model.bm", learner.set_params(gamma=50.0))
        assert close(load(tmp_path / "model.bm").kernel(data[:5]), again.kernel(data[:5]), 1e-12)


def test_a_kernel_that_is_a_function_cannot_be_saved(wine, tmp_path):
    with pytest.raises(TypeError, match="cannot be saved"):
        save(tmp_path / "f.bm", KernelLearner(rbf_kernel, n_constraints=20, random_state=0).fit(*wine))


# ---------------------------------------------------------------------- bad input
EYE = np.eye(6)
PAIR = Constraints.sq_distance(0, 1, 1.0, "<=")
POINTS = np.arange(12.0).reshape(6, 2) ** 1.5


@pytest.mark.parametrize(
    ("params", "X", "error", "message"),
    [
        ({"kernel": "gauss"}, POINTS, ValueError, "kernel must be .*rbf.*got 'gauss'"),
        ({"kernel": 3}, POINTS, TypeError, "kernel must be .*got 3"),
        ({"gamma": -1.0}, POINTS, ValueError, "gamma must be positive and finite; got -1.0"),
        ({"gamma": "scale"}, POINTS, TypeError, "gamma must be a number; got 'scale'"),
        ({"kernel": "poly", "coef0": np.nan}, POINTS, ValueError, "coef0 must be finite; got nan"),
        ({"kernel_params": {"a": 1}}, POINTS, ValueError, "kernel_params are for a kernel that is a function"),
        ({"kernel_params": [1]}, POINTS, TypeError, "kernel_params must be a dict"),
        ({"rank": 0}, POINTS, ValueError, "rank must be at least 1; got 0"),
        ({"rank": 2.5}, POINTS, TypeError, "rank must be an integer or None; got 2.5"),
        ({"rank": 7}, POINTS, ValueError, "rank must be at most 6, the number of training points; got 7"),
        ({"slack_weight": 0.0}, POINTS, ValueError, "slack_weight must be positive; got 0.0"),
        ({"tol": np.inf}, POINTS, ValueError, "tol must be positive and finite"),
        ({"loss": "hinge"}, POINTS, ValueError, "loss must be None.*got 'hinge'"),
        ({"divergence": "kl"}, POINTS, ValueError, "divergence.*'kl'"),
        ({"callback": 1}, POINTS, TypeError, "callback must be callable"),
        ({"kernel": "precomputed"}, POINTS, ValueError, r"X must be square with kernel='precomputed'.*\(6, 2\)"),
        ({"kernel": "precomputed"}, EYE + np.eye(6, k=1), ValueError, "X must be symmetric.*largest asymmetry is 1"),
        (
            {"kernel": "precomputed"},
            1 - 2 * EYE,
            ValueError,
            "positive value k.x, x. for some point|positive semidefinite",
        ),
        (
            {"kernel": "precomputed"},
            3 - 2 * EYE,
            ValueError,
            "must be positive semidefinite.*negative eigenvalues cut to 0",
        ),
        ({"kernel": "precomputed", "rank": 4}, 3 - 2 * EYE, ValueError, "semidefinite.*negative eigenvalues cut to 0"),
        ({"kernel": "precomputed", "rank": 4}, -EYE, ValueError, "must have a positive value"),
        ({}, np.where(POINTS > 20, np.nan, POINTS), ValueError, "NaN"),
        ({}, POINTS + 1j, ValueError, "Complex data not supported"),
        ({}, POINTS[0], ValueError, "Expected 2D array"),
        ({}, POINTS[:1], ValueError, "minimum of 2 is required"),
        ({"kernel": "chi2"}, -POINTS, ValueError, "[Nn]egative"),
        ({"kernel": "rbf"}, Factor(POINTS), ValueError, "X is a Factor.*use kernel='linear'; got 'rbf'"),
        (
            {"kernel": lambda A, B: 1.0},
            POINTS,
            ValueError,
            r"kernel must return an array of shape \(2, 2\).*pairwise_kernels",
        ),
        (
            {"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)},
            POINTS,
            ValueError,
            "NaN or infinite values in row",
        ),
        ({"kernel": "sigmoid", "gamma": 5.0, "coef0": -3.0}, POINTS / 9, ValueError, "positive"),
    ],
)
def test_bad_input(params, X, error, message):
    learner = KernelLearner(**params)
    with pytest.raises(error, match=message):
        learner.fit(X, constraints=PAIR)
    assert not [name for name in vars(learner) if name.endswith("_")]  # nothing half fitted stays


@pytest.mark.parametrize(("params", "bad"), [({"tol": -1.0}, 1.0), ({}, np.nan)])
def test_nothing_of_an_earlier_fit_stays(params, bad):
    learner = KernelLearner().fit(POINTS, constraints=PAIR)
    with pytest.raises(ValueError):
        learner.set_params(**params).fit(POINTS * bad, constraints=PAIR)
    assert not [name for name in vars(learner) if name.endswith("_") or name == "_map"]


def test_bad_use(wine, tmp_path):
    X, y = wine
    with pytest.raises(ValueError, match="requires y to be passed"):
        KernelLearner().fit(X)
    with pytest.raises(ValueError, match="n_constraints=0 ignores y"):
        KernelLearner(n_constraints=0).fit(X, y)
    with pytest.raises(ValueError, match="name samples up to 5 but X has 2 rows"):
        KernelLearner().fit(X[:2], constraints=Constraints.sq_distance(0, 5, 1.0, "<=") + PAIR)
    with pytest.raises(ValueError, match="sample_id must name each"):
        KernelLearner().fit(X, constraints=PAIR, sample_id=[1, 2])
    with pytest.raises(SolverError, match="INFEASIBLE"):
        KernelLearner(slack_weight=np.inf).fit(X, constraints=PAIR + Constraints.sq_distance(0, 1, 1.5, ">="))
    learner = KernelLearner("precomputed").fit(rbf_kernel(X), constraints=PAIR)
    with pytest.raises(ValueError, match="Y must be None with kernel='precomputed' and full rank"):
        learner.kernel(rbf_kernel(X), rbf_kernel(X))
    with pytest.raises(ValueError, match="X has 13 features, but"):
        learner.kernel(X)
    with pytest.raises(ValueError, match="a memory-mapped X must be a 2-dimensional array of floats"):
        KernelLearner("linear").fit(mapped(tmp_path / "a.npy", np.arange(5)), constraints=PAIR)
    with pytest.warns(UserWarning, match="maps all labelled points of X to one.* The prior is kept"):
        KernelLearner(lambda A, B: np.ones((len(A), len(B))), strategy="random").fit(X, y)
