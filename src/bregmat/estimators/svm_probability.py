"""Probabilities of a :class:`MarginSVC`: sigmoids of decision values (Platt 2000), fitted to those of examples left out.

Folds and sigmoids are scikit-learn's (``CalibratedClassifierCV`` without ensemble); kept is a slope and an offset per class, so
that files hold numbers, and the machine itself is trained once.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_predict

from bregmat.estimators.svm_pairs import Examples

FOLDS = 5  # as LIBSVM has; fewer where a class has fewer examples


class _DecisionValues(ClassifierMixin, BaseEstimator):
    """A classifier whose points are decision values already: what is calibrated are these, whatever the fold."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[(X > 0).astype(int)[:, 0] if X.shape[1] == 1 else X.argmax(axis=1)]

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X[:, 0] if X.shape[1] == 1 else X


def fit_sigmoids(machine: Any, examples: Examples, class_weight: np.ndarray) -> np.ndarray:
    """Slope and offset of the sigmoid of each column of decision values, shape (1, 2) for two classes, (k, 2) for k.

    Parameters
    ----------
    machine : MarginSVC
        Its parameters, checked. Each fold is trained with the kernel coefficient and the class weights of all examples.
    examples : Examples
    class_weight : ndarray, shape (k,)
    """
    base, here = examples.base, np.flatnonzero(examples.weights)
    codes, weights = examples.codes[here], examples.weights[here]
    least = int(np.bincount(codes).min())
    if least < 2:
        raise ValueError(
            "probability=True needs two examples of every class at least, for they are calibrated on examples left out; "
            f"class {machine.classes_[np.bincount(codes).argmin()]} has 1."
        )
    X = examples.X[np.ix_(here, here)] if base.is_precomputed else examples.X[here]
    settings = {"probability": False, "decision_function_shape": "ovr", "class_weight": None}
    settings |= {"callback": None, "verbose": 0, "gamma": base.params.get("gamma") or machine.gamma}
    if callable(base.kernel):  # its values once, and not a copy of the function with its data for every fold
        X, settings = base(X), settings | {"kernel": "precomputed", "gamma": "scale"}
    fold_machine = type(machine)(**machine.get_params(deep=False) | settings)
    folds = min(FOLDS, least)
    with config_context(enable_metadata_routing=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said once, of the machine itself
        decisions = cross_val_predict(
            fold_machine, X, codes, cv=folds, method="decision_function", params={"sample_weight": weights}
        ).reshape(len(codes), -1)
        calibrated = CalibratedClassifierCV(_DecisionValues(), method="sigmoid", cv=folds, ensemble=False)
        calibrated.fit(decisions, codes, sample_weight=weights / class_weight[codes])
    sigmoids = calibrated.calibrated_classifiers_[0].calibrators
    return np.array([[sigmoid.a_, sigmoid.b_] for sigmoid in sigmoids])


def probabilities(decisions: np.ndarray, sigmoids: np.ndarray) -> np.ndarray:
    """Probability of each class, shape (m, k), from decision values (m,) or (m, k): ``1 / (1 + exp(a f + b))``, with sum 1."""
    each = expit(-(decisions.reshape(len(decisions), -1) * sigmoids[:, 0] + sigmoids[:, 1]))
    if each.shape[1] == 1:
        return np.hstack([1.0 - each, each])
    total = each.sum(axis=1, keepdims=True)
    return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / each.shape[1])
