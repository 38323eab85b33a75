"""Online learners in river: its own checks of them, as regressors of river. It asks for a newer NumPy than bregmat does."""

import numpy as np
import pytest
from river import checks, compat, compose, evaluate, metrics

from bregmat import MatrixExponentiatedGradient, OnlineLogDet

LABELS = pytest.mark.filterwarnings(
    "ignore::bregmat.online.UnreachableLabelWarning", "ignore::bregmat.online.SpectralSpreadWarning"
)
STREAMS = [
    # dates are numbers of days there
    MatrixExponentiatedGradient(instances="vectors", spectral_spread=1e13, eta=1e-26),
    OnlineLogDet(differences=True),
]


def river_checks(*estimators):
    for estimator in estimators:
        model = compat.convert_sklearn_to_river(estimator)
        for check in checks.yield_checks(model):
            if check.__name__ not in model._unit_test_skips():
                yield pytest.param(model, check, id=f"{type(estimator).__name__}-{check.__name__}")


@pytest.mark.slow
@LABELS
@pytest.mark.parametrize(("model", "check"), list(river_checks(*STREAMS)))
def test_river_checks(model, check):
    check(model.clone())


@LABELS
def test_a_river_pipeline_learns(rng):
    X = rng.normal(size=(400, 3)) / 3
    y = (X @ [1.0, 0.5, 0.0]) ** 2
    stream = [(dict(zip("abc", x)), float(target)) for x, target in zip(X.tolist(), y)]
    model = compose.Select("a", "b", "c") | compat.convert_sklearn_to_river(OnlineLogDet(differences=True, eta=0.3))
    score = evaluate.progressive_val_score(stream, model, metrics.MAE())
    assert score.get() < np.abs(y - y.mean()).mean()
