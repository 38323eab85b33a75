"""MarginSVC: support vector machines with a certificate, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from bregmat.checks import as_choice, check_flag, check_positive
from bregmat.estimators.base import AllOrNothing, KernelEstimator, callback_of, check_run
from bregmat.estimators.svm_files import SOLVERS, machine_restored, machine_state
from bregmat.estimators.svm_pairs import (
    PairMachine,
    SupportLayout,
    TrainingSettings,
    example_weights,
    pair_decisions,
    solved_machines,
    train_pairs,
)
from bregmat.kernels import KernelFunction
from bregmat.kernels.functions import check_gamma_rule, gamma_of
from bregmat.margin import MarginResult
from bregmat.result import check
from bregmat.sampling import generator

BLOCK = 10_000_000  # kernel values at a time


class MarginSVC(KernelEstimator, AllOrNothing, ClassifierMixin, BaseEstimator):
    """Support vector classifier whose optimality is proven by a duality gap.

        minimize over f in the space of the kernel, b:   1/2 |f|^2 + C sum_i w_i max(0, 1 - y_i (f(x_i) + b))

    The same machine as :class:`sklearn.svm.SVC`, whose names and layout of attributes it keeps. ``tol`` is a relative
    duality gap, that is, a proven distance from the optimum; the result says of how many training examples it is proven
    whether they are support vectors. Prefer scikit-learn's for sparse data of very many columns, for probabilities, and its
    ``LinearSVC`` for linear kernels and many points.

    Parameters
    ----------
    kernel : str or callable
        One of scikit-learn's pairwise kernels ("rbf", "linear", "poly", "laplacian", "chi2", "cosine", ...), "precomputed", or
        a function of (X, Y) that returns the (n, m) array of its values: ``kernel=learner.kernel`` for a learned one. It
        must be positive semidefinite, which "sigmoid" seldom is and "additive_chi2" never; see the notes for what is checked.
    gamma : {"scale", "auto"} or float
        Coefficient of "rbf", "poly", "sigmoid", "laplacian" and "chi2", in 1 / (X units)^2 for "rbf". "scale" is
        1 / (n_features X.var()), "auto" 1 / n_features.
    degree, coef0 : float
        Of "poly" and (coef0) "sigmoid".
    kernel_params : dict, optional
        Keyword arguments of a kernel that is a function.
    C : float
        What a margin below 1 costs; positive, dimensionless; ``inf`` is the hard margin, all examples on their side.
    fit_intercept : bool
        Whether there is an offset b. Without it the kernel alone decides (Sha 2002).
    squared_hinge : bool
        Cost ``C/2 max(0, 1 - y f)^2`` in place of ``C max(0, 1 - y f)``.
    solver : {"active_set", "multiplicative"}, ActiveSet or MultiplicativeUpdates
        "active_set" is fast and exact. "multiplicative" are the updates of Sha 2002: monotone, no parameters, and slow to
        high accuracy. The classes hold their settings: ``from bregmat.margin import ActiveSet``, ``from bregmat.quadratic
        import MultiplicativeUpdates``.
    tol : float
        Relative duality gap to reach; positive, below 1, dimensionless.
    class_weight : dict, "balanced" or None
        Factor of C by class, positive; "balanced" is n_samples / (n_classes count), counted with the sample weights.
    max_iter : int, optional
        Most iterations of the solver, for every pair of classes. None is the solver's own limit.
    max_seconds : float, optional
        Time limit in seconds, for all pairs together; the gap of what has been reached is computed after it.
    decision_function_shape : {"ovr", "ovo"}
        With more than two classes: one column per class (votes and confidences), or one per pair.
    random_state : int, Generator, RandomState or None
        Seed of the first working set. It does not change what the result is, up to ``tol``.
    verbose : int
        1 prints progress at most once a second, 2 every iteration.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every iteration; return True to stop. That, and Ctrl-C, end fit with the best
        machine so far and no warning, as in all estimators here: ``result_.exit_reason`` is INTERRUPTED.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Labels; with two, decision values are positive for the second.
    support_ : ndarray of int32, shape (s,)
        Row numbers of the support vectors, by class.
    support_vectors_ : array or sparse matrix, shape (s, d)
        These rows of X; not with "precomputed".
    n_support_ : ndarray of int32, shape (k,)
        Support vectors of each class.
    dual_coef_ : ndarray, shape (k - 1, s)
        ``y_i alpha_i``, with more than two classes a row for each of the other classes, as in ``SVC``.
    intercept_ : ndarray, shape (k (k - 1) / 2,)
        Offsets, 0 without ``fit_intercept``; with more than two classes the first of a pair is the positive one.
    coef_ : ndarray, shape (k (k - 1) / 2, d)
        Weights of the features, with kernel="linear" only.
    result_ : MarginResult, or list of them for more than two classes
        Coefficients, bounds, certificate, history; in the order of the pairs (0, 1), (0, 2), ... of classes, the second
        of a pair positive, and in the order of their training examples.
    gap_ : float
        Relative duality gap that is proven; of the worst pair.
    certified_ : ndarray of int8, or list of them for more than two classes
        Of each training example in ``result_``: 1 if it is proven to be a support vector of every optimal machine, -1 if it is
        proven to be none, 0 if neither is. An example exactly on the margin cannot be proven by a gap.
    n_certified_ : ndarray of int, shape (k (k - 1) / 2,)
        How many of them are not 0.
    n_iter_ : ndarray of int32, shape (k (k - 1) / 2,)
        Iterations of the solver.
    class_weight_ : ndarray, shape (k,)
    shape_fit_ : tuple of int
        Shape of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns, if X had them.

    Notes
    -----
    The paper's machine (Sha 2002, eq. 7) is ``MarginSVC(C=inf, fit_intercept=False, solver="multiplicative")``.

    More than two classes: one machine per pair. "ovr" values, and so predictions, are those of scikit-learn's
    ``OneVsOneClassifier``: votes, and confidences where votes are equal; ``SVC`` predicts the same way with
    ``break_ties=True``.

    Weights multiply C, so an example of weight 2 is the same as two of weight 1, and of weight 0 as none, under a hard margin,
    too. Unlike in ``SVC`` that holds for gamma="scale" and class_weight="balanced" as well, which count with the weights.

    A gap proves something only if the kernel is positive semidefinite. Up to rounding, that is known of the named kernels ("poly"
    with coef0 >= 0 and a whole degree); it is checked on all examples for functions and other named kernels, for
    "precomputed" on all of up to 500 examples, else on up to 1000 support vectors and 300 others of each machine. A matrix in
    float32 may be indefinite by its rounding. Rounding of float64 in kernel values and sums is no part of the proof: it matters
    for data far from the origin, with large C, or for powers ("poly"); standardise them.

    Memory: a kernel that is a function or not known to be positive semidefinite, and kernels of sparse X, are computed in full,
    8 n^2 bytes, and as much again while they are checked. Otherwise kernel rows in float32 take up to 400 MB
    and a square block of them as much (``ActiveSet(cache_mb=...)``), and the exact finish several times 8 |F|^2 bytes for |F|
    examples on or near the margin, which for noise and a large C may be all n; "multiplicative" keeps 4 to 16 n^2 bytes.
    Up to 600 MB stay with the thread for its next fit.

    The first fit in a fresh installation compiles its loops, which takes some ten seconds; they are kept on disk.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bregmat.estimators import MarginSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = MarginSVC().fit(X, y)
    >>> bool(machine.gap_ <= 1e-6)
    True
    """

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        C: float = 1.0,
        fit_intercept: bool = True,
        squared_hinge: bool = False,
        solver: Any = "active_set",
        tol: float = 1e-6,
        class_weight: Any = None,
        max_iter: int | None = None,
        max_seconds: float | None = None,
        decision_function_shape: str = "ovr",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.C = C
        self.fit_intercept = fit_intercept
        self.squared_hinge = squared_hinge
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.decision_function_shape = decision_function_shape
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MarginSVC:
        """Train the machine, or one for every pair of classes.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite. Kernel values (n, n) with "precomputed".
        y : array-like, shape (n,)
            Class labels of any type; at least two classes.
        sample_weight : array-like, shape (n,), optional
            Nonnegative, dimensionless, multiplies C; not all 0 in any class.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad parameter or input, named in the message; a kernel that is not positive semidefinite on the examples checked.
        SolverError
            C is inf and nothing separates the classes, which is proven; or a number overflowed. No fitted attribute is left.

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached.
        """
        with self._fitting():
            self._check_parameters()
            X, codes, weights, base = self._checked(X, y, sample_weight, self._kernel_function())
            pairs = solved_machines(train_pairs(X, base, codes, weights, self._settings()), self.classes_)
            check(max((pair.result for pair in pairs), key=lambda result: result.gap / result.tol))
            self._keep(X, base, codes, pairs)
        return self

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, base: KernelFunction
    ) -> tuple[Any, np.ndarray, np.ndarray, Any]:
        """Points, positions of the labels in ``classes_``, weights of the examples, kernel with its coefficient."""
        base = base.given(X)
        sparse = "csr" if base.takes_sparse else False
        kinds: Any = [np.float64, np.float32] if base.is_precomputed else np.float64
        X, y = validate_data(self, X, y, accept_sparse=sparse, dtype=kinds, order="C")
        if base.is_precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X must be square with kernel='precomputed': training points x training points; got {X.shape}."
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        k = len(self.classes_)
        if k < 2:
            raise ValueError(f"y must have at least two classes; got {k} class, {self.classes_[0]}.")
        weights, self.class_weight_ = example_weights(X, y, codes, self.classes_, sample_weight, self.class_weight)
        if base.takes_gamma and base.params["gamma"] is None:
            base = base.with_gamma(gamma_of(X, str(self.gamma), weights))
        return X, codes, weights * self.class_weight_[codes], base

    def _settings(self) -> TrainingSettings:
        return TrainingSettings(
            C=float(self.C),
            squared_hinge=bool(self.squared_hinge),
            fit_intercept=bool(self.fit_intercept),
            solver=self.solver,
            tol=float(self.tol),
            max_iter=self.max_iter,
            max_seconds=self.max_seconds,
            callback=callback_of(self),
            random_state=generator(self.random_state),
        )

    def _keep(self, X: Any, base: KernelFunction, codes: np.ndarray, pairs: list[PairMachine]) -> None:
        """Set the fitted attributes."""
        layout = SupportLayout.of(pairs, codes)
        self.support_, self.n_support_ = layout.support, layout.n_support
        self.dual_coef_, self.intercept_ = layout.dual_coef, layout.intercept
        if not base.is_precomputed:
            self.support_vectors_ = X[layout.support]
        self.shape_fit_ = X.shape
        self._describe([pair.result for pair in pairs], [pair.certified for pair in pairs])
        self._fit_base = base  # predict goes by the kernel of the fit, whatever parameters are set later

    def _describe(self, results: list[MarginResult], certified: list[np.ndarray]) -> None:
        """Set what the results say."""
        is_binary = len(self.classes_) == 2
        self.result_ = results[0] if is_binary else results
        self.certified_ = certified[0] if is_binary else certified
        self.n_certified_ = np.array([np.count_nonzero(one) for one in certified])
        self.gap_ = float(max(result.gap for result in results))
        self.n_iter_ = np.array([result.n_iter for result in results], dtype=np.int32)

    def _check_parameters(self) -> None:
        """Raise for a hyper-parameter that no data could make valid."""
        check_positive("C", self.C)
        check_run(self)
        if not self.tol < 1:
            raise ValueError(f"tol is a relative duality gap and must be below 1; got {self.tol!r}.")
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("squared_hinge", self.squared_hinge)
        if not isinstance(self.solver, tuple(SOLVERS.values())) and self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)} or settings of one; got {self.solver!r}.")
        as_choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        self._kernel_function()

    def _kernel_function(self) -> KernelFunction:
        """The kernel of the parameters, checked, without gamma where the data decide it."""
        check_gamma_rule(self.gamma)
        gamma = None if isinstance(self.gamma, str) else self.gamma
        if gamma is None and not isinstance(self.gamma, str) and not callable(self.kernel):
            raise TypeError(f"gamma must be a number; got {self.gamma!r}.")
        if isinstance(self.kernel, str) and self.kernel == "additive_chi2":
            raise ValueError("kernel 'additive_chi2' is not positive semidefinite; use 'chi2', which is.")
        return KernelFunction.of(self.kernel, gamma, self.degree, self.coef0, self.kernel_params)

    # ------------------------------------------------------------------ use
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)
            Points; with "precomputed" kernel values between them and all training points, shape (m, n).

        Returns
        -------
        ndarray, shape (m,), (m, k) or (m, k (k - 1) / 2)
            Two classes: ``f(x) + b``, positive for the second, 1 or more outside its margin. More: see
            ``decision_function_shape``; the values of pairs are positive for the first class of the pair.
        """
        pairs = self._pair_decisions(X)
        if len(self.classes_) == 2:
            return pairs[:, 0]
        return pairs if self.decision_function_shape == "ovo" else self._by_class(pairs)

    def predict(self, X: Any) -> np.ndarray:
        """Class of each point: the sign of the decision value, or the class of largest "ovr" value.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)
            As in :meth:`decision_function`.

        Returns
        -------
        ndarray, shape (m,)
        """
        pairs = self._pair_decisions(X)
        codes = (pairs[:, 0] > 0).astype(int) if len(self.classes_) == 2 else self._by_class(pairs).argmax(axis=1)
        return self.classes_[codes]

    def _by_class(self, pairs: np.ndarray) -> np.ndarray:
        """Votes and confidences, shape (m, k), by scikit-learn's rule."""
        return _ovr_decision_function(pairs < 0, -pairs, len(self.classes_))

    def _pair_decisions(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        base = self._fit_base
        sparse = "csr" if base.takes_sparse else False
        X = validate_data(self, X, accept_sparse=sparse, dtype=np.float64, order="C", reset=False)
        if base.kernel == "linear" and not sp.issparse(self.support_vectors_):
            return np.asarray(X @ self.coef_.T) + self.intercept_
        out = np.empty((X.shape[0], len(self.intercept_)))
        step = max(1, BLOCK // max(1, len(self.support_)))
        for start in range(0, len(out), step):
            part = slice(start, start + step)
            K = X[part][:, self.support_] if base.is_precomputed else base(X[part], self.support_vectors_)
            out[part] = pair_decisions(K, self.n_support_, self.dual_coef_, self.intercept_)
        return out

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, shape (k (k - 1) / 2, d); with kernel="linear" only."""
        check_is_fitted(self)
        if self._fit_base.kernel != "linear":
            raise AttributeError('coef_ is only there with kernel="linear".')
        V = self.support_vectors_.toarray() if sp.issparse(self.support_vectors_) else self.support_vectors_
        if self.intercept_.any():  # the coefficients of a pair sum to 0: far from the origin, centred points round less
            V = V - V.mean(axis=0)
        return pair_decisions(V.T, self.n_support_, self.dual_coef_, np.zeros(len(self.intercept_))).T

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays that :meth:`from_state` makes the fitted machine from; for :func:`bregmat.save`."""
        check_is_fitted(self)
        return machine_state(self)

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> MarginSVC:
        """The fitted machine."""
        return machine_restored(cls, meta, arrays)
