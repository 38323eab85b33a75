"""The display of a fitted learner."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine

from bregmat import MetricLearner, nearest_metric
from bregmat.plots import EmbeddingDisplay
from drawing import in_memory


@pytest.fixture(autouse=True)
def agg():
    yield from in_memory()


def test_the_display_of_an_estimator_and_of_an_interrupted_run():
    X, y = load_wine(return_X_y=True)
    learner = MetricLearner(strategy="random", random_state=0).fit(X, y)
    result = learner.result_
    embedding = EmbeddingDisplay.from_estimator(learner, X, y)
    assert embedding.classes_ == [0, 1, 2]
    assert_allclose(
        np.abs(embedding.after), np.abs(EmbeddingDisplay.from_data(X, result.transform, y).after), rtol=1e-6
    )
    result = nearest_metric(X, learner.constraints_, slack_weight=1.0, callback=lambda record: True)
    assert EmbeddingDisplay.from_data(X, result.transform, y).figure_ is not None


# ---------------------------------------------------------------------------------------------- the package
@pytest.mark.slow
def test_matplotlib_is_imported_on_first_use():
    code = "import sys, bregmat.plots, bregmat_app.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
