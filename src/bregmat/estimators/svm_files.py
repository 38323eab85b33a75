"""A fitted :class:`MarginSVC` as plain values and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.estimators.kernel import KernelLearner
from bregmat.estimators.state import (
    estimator_restored,
    estimator_state,
    points_restored,
    points_state,
    prefixed,
    unprefixed,
)
from bregmat.kernels import KernelFunction
from bregmat.margin import ActiveSet, MarginResult
from bregmat.quadratic import MultiplicativeUpdates

SOLVERS: dict[str, type] = {cls.name: cls for cls in (ActiveSet, MultiplicativeUpdates)}
_ARRAYS = ("classes_", "class_weight_", "support_", "n_support_", "dual_coef_", "intercept_")


def machine_state(machine: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Parameters, kernel of the fit, support, results; the learner with it if the kernel is a learned one."""
    params = machine.get_params(deep=False)
    kernel, weights = params["kernel"], params.pop("class_weight")
    learner = _learner_of(machine._fit_base.kernel)
    if learner is not None and kernel == learner.kernel:
        params["kernel"] = None
    meta, arrays = estimator_state(machine, params, solvers=SOLVERS)
    del meta["params"]["kernel"]
    if learner is None:
        base = machine._fit_base.to_state()
    else:
        base = {"rounding": machine._fit_base.rounding, "params": machine._fit_base.params}
        base["learner"], learner_arrays = learner.to_state()
        arrays |= prefixed("learner", learner_arrays)
    arrays |= {name: getattr(machine, name) for name in _ARRAYS}
    arrays |= points_state("support_vectors", getattr(machine, "support_vectors_", None))
    results = machine.result_ if isinstance(machine.result_, list) else [machine.result_]
    certified = machine.certified_ if isinstance(machine.certified_, list) else [machine.certified_]
    states = []
    for k, result in enumerate(results):
        state, result_arrays = result.to_state()
        states.append(state)
        arrays |= prefixed(f"result{k}", result_arrays)
        arrays[f"certified{k}"] = certified[k]
    meta |= {
        # an array of objects would come back as one of strings
        "labels": machine.classes_.tolist() if machine.classes_.dtype == object else None,
        "kernel": kernel if isinstance(kernel, str) else None,
        "class_weight": [list(pair) for pair in weights.items()] if isinstance(weights, dict) else weights,
        "base": base,
        "results": states,
        "shape_fit": list(machine.shape_fit_),
    }
    return meta, arrays


def machine_restored(cls: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`machine_state`."""
    base, weights = meta["base"], meta["class_weight"]
    if "learner" in base:
        learned = KernelLearner.from_state(base["learner"], unprefixed("learner", arrays)).kernel
        fit_base = KernelFunction(learned, dict(base["params"]), float(base["rounding"]))
    else:
        fit_base = KernelFunction.from_state(base)
    machine = estimator_restored(
        cls,
        meta,
        {},
        solvers=SOLVERS,
        kernel=fit_base.kernel if meta["kernel"] is None else meta["kernel"],
        class_weight=dict(map(tuple, weights)) if isinstance(weights, list) else weights,
    )
    for name in _ARRAYS:
        setattr(machine, name, arrays[name])
    if meta.get("labels") is not None:
        machine.classes_ = np.array(meta["labels"], dtype=object)
    vectors = points_restored("support_vectors", arrays)
    if vectors is not None:
        machine.support_vectors_ = vectors
    machine.shape_fit_ = tuple(int(size) for size in meta["shape_fit"])
    results = [MarginResult.from_state(one, unprefixed(f"result{k}", arrays)) for k, one in enumerate(meta["results"])]
    machine._describe(results, [arrays[f"certified{k}"] for k in range(len(results))])
    machine._fit_base = fit_base
    return machine


def _learner_of(kernel: Any) -> KernelLearner | None:
    """The learner whose ``kernel`` this is."""
    owner = getattr(kernel, "__self__", None)
    return owner if isinstance(owner, KernelLearner) and kernel == owner.kernel else None
