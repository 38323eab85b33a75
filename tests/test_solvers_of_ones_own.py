"""A solver of a user's own (toy_solver.py) beyond the contract suite: estimators, files, report, command line."""

from pathlib import Path

import numpy as np
import pytest

import bregmat
from bregmat import MetricLearner, load, save
from bregmat_app.report import ReportData, render_report
from cases import SOLVER_CLASSES, random_pairs

TOY = Path(__file__).with_name("toy_solver.py")


@pytest.fixture
def data(rng):
    X = rng.normal(size=(30, 4))
    return X, random_pairs(rng, X, 40)


def test_toy_is_short():
    assert len(TOY.read_text().splitlines()) <= 40


@pytest.mark.usefixtures("unrendered")
def test_estimator_file_and_report(data, tmp_path):
    X, rows = data
    learner = MetricLearner(solver="mirror_descent", slack_weight=1.0, tol=1e-6).fit(X, constraints=rows)
    assert (learner.result_.status, learner.result_.solver) == ("OPTIMAL", "mirror_descent")
    other = MetricLearner(slack_weight=1.0, tol=1e-9).fit(X, constraints=rows)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), other.get_mahalanobis_matrix(), rtol=2e-3, atol=2e-3)
    save(tmp_path / "model.bm", learner)
    again = load(tmp_path / "model.bm")
    assert again.solver == "mirror_descent" and again.result_.solver == "mirror_descent"
    np.testing.assert_array_equal(again.transform(X), learner.transform(X))
    assert "mirror_descent" in render_report(ReportData("pairs", learner.result_, X, rows, learner=learner))


def test_solver_object_in_a_file(data, tmp_path):
    X, rows = data
    learner = MetricLearner(solver=SOLVER_CLASSES["mirror_descent"](), slack_weight=1.0).fit(X, constraints=rows)
    save(tmp_path / "model.bm", learner)
    assert load(tmp_path / "model.bm").solver == learner.solver


def test_what_is_no_solver_is_refused():
    class Half:
        name = "half"

        def init(self, problem, tol, start): ...

    with pytest.raises(TypeError, match="as a solver it has no check, max_iter, step, works_on"):
        bregmat.register(Half)
