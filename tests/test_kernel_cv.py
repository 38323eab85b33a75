"""KernelLearnerCV: kernels learned and as they are, in every form; the search itself is tested with MetricLearnerCV."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import bregmat as bm
from estimator_suite import REPEATED, sklearn_checks

LIGHT = bm.KernelLearner(passes=1, n_neighbors=1, n_impostors=3)
QUICK = {"learner": LIGHT, "slack_weights": (1.0,), "cv": 3, "random_state": 0}


@pytest.fixture(scope="module")
def noisy():
    """Three classes beside six columns of noise."""
    X, y = load_wine(return_X_y=True)
    return np.hstack([StandardScaler().fit_transform(X), 2 * np.random.default_rng(0).normal(size=(len(X), 6))]), y


@pytest.fixture(scope="module")
def fitted(noisy):
    return bm.KernelLearnerCV(**QUICK | {"slack_weights": (1.0, 10.0)}, gammas=("scale", 0.02), rank=(20, None)).fit(
        *noisy
    )


@pytest.mark.slow
def test_the_table_has_every_candidate(fitted):
    table = fitted.cv_results_
    starts = [("rbf", g, r) for g in ("scale", 0.02) for r in (20, None)] + [("linear", None, r) for r in (20, None)]
    plain = [(p["kernel"], p["gamma"], p["rank"]) for p in table["params"] if p["strategy"] is None]
    assert plain == starts and len(table["params"]) == 2 * len(starts) + 1  # the second weight for the best alone
    assert table["params"][fitted.best_index_] == fitted.best_params_
    assert fitted.best_score_ >= table["mean_test_score"][: len(starts)].max()


def test_scores_are_those_of_kernel_distances_by_hand(noisy, fitted):
    X, y = noisy
    table = fitted.cv_results_
    plain = {"kernel": "rbf", "gamma": 0.02, "rank": None, "strategy": None}
    learned = plain | {"strategy": "neighbors", "slack_weight": 1.0}
    places = [table["params"].index(p) for p in (plain, learned)]
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        learner = bm.KernelLearner(
            "rbf", gamma=0.02, strategy="neighbors", passes=1, n_neighbors=1, n_impostors=3, tol=1e-3
        )
        learner.fit(X[train], y[train])
        for place, kernel in zip(places, (lambda A, B: rbf_kernel(A, B, gamma=0.02), learner.kernel)):
            own = np.diag(kernel(X[train], X[train]))
            near = np.argsort(own - 2 * kernel(X[test], X[train]), axis=1)[:, :4]  # but for k(x, x) of the test points
            votes = np.stack([(y[train][near] == c).sum(axis=1) for c in range(3)], axis=1)
            score = table[f"split{fold}_test_score"][place]
            assert fold > 0 and np.isnan(score) or score == np.mean(votes.argmax(axis=1) == y[test])


def test_what_is_learned_is_what_the_learner_learns(noisy, fitted):
    X, y = noisy
    assert fitted.best_params_["strategy"] == "neighbors" and fitted.best_learner_.result_.status == "OPTIMAL"
    assert np.array_equal(fitted.kernel(X[:9], X), fitted.best_learner_.kernel(X[:9], X))
    assert np.allclose(fitted.transform(X) @ fitted.transform(X).T, fitted.kernel_, atol=1e-9)
    assert len(fitted.get_feature_names_out()) == fitted.transform(X).shape[1]


FORMS = {"full": {"rank": None}, "low rank": {"rank": 40}, "linear": {"kernels": ("linear",), "rank": None}}


@pytest.mark.parametrize("form", FORMS)
def test_a_kernel_that_is_not_learned(rng, form, tmp_path):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 4)) + 20.0 * y[:, None]  # neighbours are right as they are
    chooser = bm.KernelLearnerCV(**QUICK | {"kernels": ("rbf",), "gammas": (0.2,)} | FORMS[form]).fit(X, y)
    assert chooser.best_params_["strategy"] is None and chooser.best_learner_.result_.gap == 0
    K = X @ X.T if form == "linear" else rbf_kernel(X, gamma=0.2)
    new = rng.normal(size=(5, 4))
    K_new = new @ X.T if form == "linear" else rbf_kernel(new, X, gamma=0.2)
    F = chooser.transform(X)
    if form == "low rank":
        assert F.shape[1] <= 40 and 0.9 < chooser.captured_trace_ < 1
        assert np.trace(F @ F.T) / np.trace(K) == pytest.approx(chooser.captured_trace_)
    else:
        assert np.allclose(F @ F.T, K, atol=1e-8) and np.allclose(chooser.kernel_, K, atol=1e-12)
        assert np.allclose(chooser.kernel(new, X), K_new, atol=1e-12)
    assert np.allclose(chooser.transform(new) @ F.T, chooser.kernel(new, X), atol=1e-8)
    bm.save(tmp_path / "chosen.bm", chooser)
    again = bm.load(tmp_path / "chosen.bm")
    assert np.array_equal(again.transform(new), chooser.transform(new))


def test_precomputed_kernels_are_those_of_the_points(noisy):
    X, y = noisy
    K = rbf_kernel(X, gamma=0.02)
    a = bm.KernelLearnerCV(kernels=("precomputed",), rank=None, **QUICK).fit(K, y)
    b = bm.KernelLearnerCV(kernels=("rbf",), gammas=(0.02,), rank=None, **QUICK).fit(X, y)
    assert a.best_params_["strategy"] == b.best_params_["strategy"] and a.best_score_ == b.best_score_
    assert np.allclose(a.kernel(K), b.kernel(X, X), rtol=1e-3, atol=1e-3)  # both are within tol=1e-4 of one optimum


def test_a_rank_beyond_the_points_is_all_of_them(noisy):
    X, y = (part[::4] for part in noisy)
    chooser = bm.KernelLearnerCV(kernels=("rbf", "linear"), **QUICK).fit(X, y)  # rank 100 of 45 points
    assert (chooser.cv_results_["n_folds"] > 0).all()


def test_files(fitted, noisy, tmp_path):
    bm.save(tmp_path / "chosen.bm", fitted)
    again = bm.load(tmp_path / "chosen.bm")
    assert again.best_params_ == fitted.best_params_
    assert np.array_equal(again.transform(noisy[0]), fitted.transform(noisy[0]))
    chooser = bm.KernelLearnerCV(**QUICK | {"kernels": (rbf_kernel,), "rank": 20}).fit(*noisy)
    with pytest.raises(TypeError, match="function"):
        bm.save(tmp_path / "function.bm", chooser)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize(
    "estimator, check", list(sklearn_checks(bm.KernelLearnerCV(**QUICK | {"cv": 2}), unmet=REPEATED))
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "options",
    [
        {"kernels": "rbf"},
        {"kernels": ("precomputed", "rbf")},
        {"gammas": 1.0},
        {"gammas": ()},
        {"rank": (0,)},
        {"learner": KNeighborsClassifier()},
    ],
)
def test_bad_parameters_are_named(noisy, options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        bm.KernelLearnerCV(**options).fit(*noisy)
