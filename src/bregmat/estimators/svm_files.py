"""A fitted :class:`MarginSVC` as plain values and arrays, and back; with the learner whose kernel it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.estimators.kernel import KernelLearner
from bregmat.estimators.state import (
    estimator_restored,
    estimator_state,
    points_restored,
    points_state,
    store,
    unprefixed,
)
from bregmat.kernels import KernelFunction
from bregmat.margin import MarginResult


def machine_state(machine: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Of a fitted machine."""
    params = machine.get_params(deep=False)
    kernel, weights, base = params["kernel"], params.pop("class_weight"), machine._fit_base
    learner = _learner_of(base.kernel)
    if learner is not None and kernel == learner.kernel:
        params["kernel"] = None
    meta, arrays = estimator_state(machine, params)
    del meta["params"]["kernel"]
    if learner is None:
        meta["base"] = base.to_state()
    else:
        meta["base"] = {"rounding": base.rounding, "params": base.params}
        store(meta["base"], arrays, "learner", learner)
    arrays |= points_state("support_vectors", getattr(machine, "support_vectors_", None))
    results, certified = machine.result_, machine.certified_
    parts: Any = zip(results, certified) if isinstance(results, list) else [(results, certified)]
    states: dict[str, Any] = {}
    for k, (result, certified) in enumerate(parts):
        store(states, arrays, f"result{k}", result)
        arrays[f"certified{k}"] = certified
    meta["results"] = list(states.values())
    meta |= {
        # an array of objects would come back as one of strings
        "labels": machine.classes_.tolist() if machine.classes_.dtype == object else None,
        "kernel": kernel if isinstance(kernel, str) else None,
        "class_weight": [list(pair) for pair in weights.items()] if isinstance(weights, dict) else weights,
        "shape_fit": list(machine.shape_fit_),
    }
    return meta, arrays


def machine_restored(cls: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`machine_state`, for a class of machines."""
    base, weights = meta["base"], meta["class_weight"]
    if "learner" in base:
        learned = KernelLearner.from_state(base["learner"], unprefixed("learner", arrays)).kernel
        fit_base = KernelFunction(learned, dict(base["params"]), float(base["rounding"]))
    else:
        fit_base = KernelFunction.from_state(base)
    kernel = fit_base.kernel if meta["kernel"] is None else meta["kernel"]
    weights = dict(map(tuple, weights)) if isinstance(weights, list) else weights
    machine = estimator_restored(cls, meta, arrays, kernel=kernel, class_weight=weights)
    if meta.get("labels") is not None:
        machine.classes_ = np.array(meta["labels"], dtype=object)
    vectors = points_restored("support_vectors", arrays)
    if vectors is not None:
        machine.support_vectors_ = vectors
    machine.shape_fit_ = tuple(int(size) for size in meta["shape_fit"])
    results = [MarginResult.from_state(x, unprefixed(f"result{k}", arrays)) for k, x in enumerate(meta["results"])]
    machine._describe(results, [arrays[f"certified{k}"] for k in range(len(results))])
    machine._fit_base = fit_base
    return machine


def _learner_of(kernel: Any) -> KernelLearner | None:
    """The learner whose ``kernel`` this is."""
    owner = getattr(kernel, "__self__", None)
    return owner if isinstance(owner, KernelLearner) and kernel == owner.kernel else None
