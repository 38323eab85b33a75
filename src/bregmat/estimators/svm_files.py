"""A fitted :class:`MarginSVC` as plain values and arrays, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from bregmat.estimators.kernel import KernelLearner
from bregmat.estimators.learned import points_restored, points_state
from bregmat.estimators.state import parameters_restored, parameters_state, prefixed, unprefixed
from bregmat.kernels import KernelFunction
from bregmat.margin import ActiveSet, MarginResult
from bregmat.quadratic import MultiplicativeUpdates

SOLVERS: dict[str, type] = {cls.name: cls for cls in (ActiveSet, MultiplicativeUpdates)}
_ARRAYS = ("classes_", "class_weight_", "support_", "n_support_", "dual_coef_", "intercept_")


def machine_state(machine: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Parameters, kernel of the fit, support, results; the learner with it if the kernel is a learned one."""
    params = machine.get_params(deep=False)
    learner = _learner_of(machine._fit_base.kernel)
    functions = {params["kernel"], machine._fit_base.kernel} - {getattr(learner, "kernel", None)}
    if any(callable(kernel) for kernel in functions):
        raise TypeError("a MarginSVC whose kernel is a function cannot be saved: files hold no code.")
    base = {"rounding": machine._fit_base.rounding, "params": machine._fit_base.params}
    arrays: dict[str, np.ndarray] = {}
    if learner is None:
        base = machine._fit_base.to_state()
    else:
        base["learner"], inner = learner.to_state()
        arrays |= prefixed("learner", inner)
    kernel = params.pop("kernel")
    if not isinstance(params["solver"], str):
        params["solver"] = {"name": params["solver"].name, **asdict(params["solver"])}
    weights = params.pop("class_weight")
    plain, _ = parameters_state(params)
    arrays |= {name: getattr(machine, name) for name in _ARRAYS}
    if "support_vectors_" in vars(machine):
        arrays |= points_state("support_vectors", machine.support_vectors_)
    results = machine.result_ if isinstance(machine.result_, list) else [machine.result_]
    certified = machine.certified_ if isinstance(machine.certified_, list) else [machine.certified_]
    states = []
    for k, result in enumerate(results):
        meta, inner = result.to_state()
        states.append(meta)
        arrays |= prefixed(f"result{k}", inner)
        arrays[f"certified{k}"] = certified[k]
    names = getattr(machine, "feature_names_in_", None)
    # an array of objects would come back as one of strings
    labels = machine.classes_.tolist() if machine.classes_.dtype == object else None
    return {
        "params": plain,
        "labels": labels,
        "kernel": kernel if isinstance(kernel, str) else None,
        "class_weight": [list(pair) for pair in weights.items()] if isinstance(weights, dict) else weights,
        "base": base,
        "results": states,
        "shape_fit": list(machine.shape_fit_),
        "n_features_in": machine.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
    }, arrays


def machine_restored(cls: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`machine_state`."""
    base, params = meta["base"], dict(meta["params"])
    if "learner" in base:
        learned = KernelLearner.from_state(base["learner"], unprefixed("learner", arrays)).kernel
        fit_base = KernelFunction(learned, dict(base["params"]), float(base["rounding"]))
    else:
        fit_base = KernelFunction.from_state(base)
    if isinstance(params["solver"], dict):
        settings = dict(params["solver"])
        params["solver"] = SOLVERS[settings.pop("name")](**settings)
    weights = meta["class_weight"]
    machine = cls(
        **parameters_restored(params, {}),
        kernel=fit_base.kernel if meta["kernel"] is None else meta["kernel"],
        class_weight=dict(map(tuple, weights)) if isinstance(weights, list) else weights,
    )
    machine._check_parameters()
    for name in _ARRAYS:
        setattr(machine, name, arrays[name])
    if meta.get("labels") is not None:
        machine.classes_ = np.array(meta["labels"], dtype=object)
    vectors = points_restored("support_vectors", arrays)
    if vectors is not None:
        machine.support_vectors_ = vectors
    machine.shape_fit_ = tuple(int(size) for size in meta["shape_fit"])
    machine.n_features_in_ = int(meta["n_features_in"])
    if meta["feature_names_in"] is not None:
        machine.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
    results = [MarginResult.from_state(one, unprefixed(f"result{k}", arrays)) for k, one in enumerate(meta["results"])]
    machine._describe(results, [arrays[f"certified{k}"] for k in range(len(results))])
    machine._fit_base = fit_base
    return machine


def _learner_of(kernel: Any) -> KernelLearner | None:
    """The learner whose ``kernel`` this is."""
    owner = getattr(kernel, "__self__", None)
    return owner if isinstance(owner, KernelLearner) and kernel == owner.kernel else None
