"""A fitted :class:`KernelLearner` as plain values and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.estimators.learned import map_restored, points_restored, points_state
from bregmat.estimators.state import (
    constraints_restored,
    constraints_state,
    parameters_restored,
    parameters_state,
    prefixed,
    unprefixed,
)
from bregmat.result import MatrixResult


def learner_state(learner: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Parameters, result, learned kernel with the prior kernel of the fit, rows; X_fit_ where there is one."""
    params = learner.get_params(deep=False)
    if callable(params["kernel"]):
        raise TypeError("a KernelLearner whose kernel is a function cannot be saved: files hold no code.")
    plain, arrays = parameters_state(params)
    result, result_arrays = learner.result_.to_state()
    learned, map_arrays = learner._map.to_state()
    arrays |= prefixed("result", result_arrays) | prefixed("map", map_arrays)
    arrays |= constraints_state(learner.constraints_) or {}
    if learner.X_fit_ is not None:
        arrays |= points_state("X_fit", learner.X_fit_)
    names = getattr(learner, "feature_names_in_", None)
    meta = {
        "params": plain,
        "result": result,
        "map": learned,
        "n_features_in": learner.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "n_dropped_constraints": learner.n_dropped_constraints_,
        "captured_trace": learner.captured_trace_,
    }
    return meta, arrays


def learner_restored(cls: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`learner_state`."""
    learner = cls(**parameters_restored(meta["params"], arrays))
    learner._check_parameters()
    learner.result_ = MatrixResult.from_state(meta["result"], unprefixed("result", arrays))
    learner._map = map_restored(meta["map"], unprefixed("map", arrays), learner.result_)
    learner.X_fit_ = points_restored("X_fit", arrays)
    learner.n_iter_ = learner.result_.n_iter
    learner.n_features_in_ = int(meta["n_features_in"])
    learner.n_dropped_constraints_ = int(meta["n_dropped_constraints"])
    learner.captured_trace_ = float(meta["captured_trace"])
    if meta["feature_names_in"] is not None:
        learner.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
    constraints = constraints_restored(arrays)
    if constraints is not None:
        learner.constraints_ = constraints
    return learner
