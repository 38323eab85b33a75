"""Online learners in river: its own checks of them, as regressors of river and as they are. It asks for a newer NumPy than bregmat does."""

import numpy as np
import pytest
from river import checks, compat, compose, evaluate, metrics
from river.checks import common

from bregmat import MatrixExponentiatedGradient, OnlineLogDet, OnlinePCA

LABELS = pytest.mark.filterwarnings(
    "ignore::bregmat.online.UnreachableLabelWarning", "ignore::bregmat.online.SpectralSpreadWarning"
)
LEARNERS = [
    MatrixExponentiatedGradient(),
    MatrixExponentiatedGradient(instances="vectors", eta=0.1, mode="eigh", loss="absolute"),
    OnlineLogDet(),
    OnlineLogDet(differences=True, eta=1e-4),
    OnlinePCA(),
    OnlinePCA(2, center=True),
]
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


@LABELS
@pytest.mark.parametrize(("model", "check"), list(river_checks(*STREAMS)))
def test_river_checks(model, check):
    check(model.clone())


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize(
    "check",
    [
        common.check_repr,
        common.check_str,
        common.check_doc,
        common.check_clone_same_class,
        common.check_clone_changes_memory_addresses,
        common.check_repr_roundtrips_clone,
        common.check_clone_with_new_params_applies,
        common.check_init_default_params_are_not_mutable,
        common.check_pickling_supports_roundtrip,
    ],
)
def test_river_checks_of_the_learners_themselves(learner, check):
    check(learner)


@LABELS
def test_a_river_pipeline_learns(rng):
    X = rng.normal(size=(400, 3)) / 3
    y = (X @ [1.0, 0.5, 0.0]) ** 2
    stream = [(dict(zip("abc", x)), float(target)) for x, target in zip(X.tolist(), y)]
    model = compose.Select("a", "b", "c") | compat.convert_sklearn_to_river(OnlineLogDet(differences=True, eta=0.3))
    score = evaluate.progressive_val_score(stream, model, metrics.MAE())
    assert score.get() < np.abs(y - y.mean()).mean()
