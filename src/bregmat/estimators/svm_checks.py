"""What a :class:`MarginSVC` checks before it trains: hyper-parameters, and the price of every example."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from bregmat.checks import check_flag, check_integer, check_number, check_positive
from bregmat.estimators.svm_files import SOLVERS
from bregmat.kernels import KernelFunction
from bregmat.kernels.functions import check_gamma_rule
from bregmat.sampling import generator


def checked_kernel(machine: Any) -> KernelFunction:
    """The kernel, without gamma where data decide it.

    Raises
    ------
    TypeError, ValueError
        A hyper-parameter that no data could make valid.
    """
    check_positive("C", machine.C)
    check_positive("tol", machine.tol, finite=True)
    if not machine.tol < 1:
        raise ValueError(f"tol is a relative duality gap and must be below 1; got {machine.tol!r}.")
    check_flag("fit_intercept", machine.fit_intercept)
    check_flag("squared_hinge", machine.squared_hinge)
    check_integer("max_iter", machine.max_iter, 1)
    if machine.max_seconds is not None:
        check_positive("max_seconds", machine.max_seconds)
    if not isinstance(machine.solver, tuple(SOLVERS.values())) and machine.solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)} or settings of one; got {machine.solver!r}.")
    if machine.decision_function_shape not in ("ovr", "ovo"):
        raise ValueError(f'decision_function_shape must be "ovr" or "ovo"; got {machine.decision_function_shape!r}.')
    if machine.callback is not None and not callable(machine.callback):
        raise TypeError(f"callback must be callable or None; got {machine.callback!r}.")
    if not isinstance(machine.random_state, np.random.RandomState):  # that would advance it
        generator(machine.random_state)
    check_gamma_rule(machine.gamma)
    if not isinstance(machine.gamma, str) and not callable(machine.kernel):
        check_number("gamma", machine.gamma)
    gamma = None if isinstance(machine.gamma, str) else machine.gamma
    if isinstance(machine.kernel, str) and machine.kernel == "additive_chi2":
        raise ValueError("kernel 'additive_chi2' is not positive semidefinite; use 'chi2', which is.")
    return KernelFunction.of(machine.kernel, gamma, machine.degree, machine.coef0, machine.kernel_params)


def example_weights(
    X: Any, y: np.ndarray, codes: np.ndarray, classes: np.ndarray, sample_weight: Any, class_weight: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the examples, shape (n,), without those of the classes, which come second, shape (k,)."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    counts = np.bincount(codes, weights, minlength=len(classes))
    if not (counts > 0).all():
        raise ValueError(f"sample_weight must not be 0 for every example of class {classes[counts.argmin()]}.")
    if isinstance(class_weight, str) and class_weight == "balanced":
        by_class = counts.sum() / (len(classes) * counts)
    else:
        by_class = compute_class_weight(class_weight, classes=classes, y=y)
    if not (np.isfinite(by_class).all() and (by_class > 0).all()):
        raise ValueError(f"class_weight must be positive and finite; got {class_weight!r}.")
    return weights, by_class
