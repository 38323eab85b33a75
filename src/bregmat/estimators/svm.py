"""MarginSVC: support vector machines with a certificate, as a scikit-learn classifier."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bregmat.base.checks import as_choice, as_rectangular, check_flag, check_positive, to_numpy
from bregmat.base.linalg import blocks, dense
from bregmat.base.threads import held_interrupts, on_one_blas_thread
from bregmat.engine.result import check
from bregmat.estimators.base import AllOrNothing, KernelEstimator, check_run, sample_weights, validated
from bregmat.estimators.svm_pairs import Examples, PairMachine, pair_decisions, train_pairs
from bregmat.kernels import KernelFunction
from bregmat.kernels.functions import check_gamma_rule, gamma_of
from bregmat.margin import ActiveSet, MarginResult
from bregmat.margin.train import check_gap, settings_of
from bregmat.quadratic import MultiplicativeUpdates
from bregmat.typing import DecisionShape, KernelName, Labels, MarginSolverName, Points, RandomState, Values

BLOCK = 10_000_000  # kernel values at a time


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class MarginSVC(KernelEstimator, AllOrNothing, ClassifierMixin, BaseEstimator):
    """Support vector classifier whose optimality is proven by a duality gap.

        minimize over f, b:   1/2 |f|^2 + C sum_i w_i max(0, 1 - y_i (f(x_i) + b))
        with f in the space of the kernel

    It solves the same problem as :class:`sklearn.svm.SVC` and has attributes of the same names and shapes. ``tol`` is a relative
    duality gap: an upper bound of the relative distance from the optimum. The result also states for which training examples
    it is proven whether they are support vectors. Prefer scikit-learn's ``SVC`` for sparse data with very many columns,
    and its ``LinearSVC`` for linear kernels of many features and many points. For probabilities, wrap the classifier in
    :class:`sklearn.calibration.CalibratedClassifierCV`.

    Parameters
    ----------
    kernel : str or callable
        One of scikit-learn's pairwise kernels ("rbf", "linear", "poly", "laplacian", "chi2", "cosine", ...), "precomputed", or
        a function of (X, Y) that returns the (n, m) array of its values, such as ``learner.kernel`` of a :class:`KernelLearner`.
        It must be positive semidefinite: "sigmoid" seldom is and "additive_chi2" never is. The notes say what is checked.
    gamma : {"scale", "auto"} or float
        Coefficient of "rbf", "poly", "sigmoid", "laplacian" and "chi2", in 1 / (X units)^2 for "rbf". "scale" is
        1 / (n_features X.var()), "auto" 1 / n_features.
    degree, coef0, kernel_params
        As in :class:`bregmat.KernelLearner`.
    C : float
        Weight of the loss; positive, dimensionless. ``inf`` is the hard margin, which allows no errors.
    fit_intercept : bool
        Whether the decision function has an offset b. Sha 2002 has none.
    squared_hinge : bool
        Use the loss ``C/2 max(0, 1 - y f)^2`` in place of ``C max(0, 1 - y f)``.
    solver : {"active_set", "multiplicative"}, ActiveSet or MultiplicativeUpdates
        "active_set" is fast and exact. "multiplicative" applies the updates of Sha 2002, which decrease the objective at every
        step, have no parameters, and are slow to high accuracy. To change the settings of a solver, pass an object:
        ``bregmat.margin.ActiveSet`` or ``bregmat.quadratic.MultiplicativeUpdates``.
    tol : float
        Relative duality gap to reach; positive, below 1, dimensionless.
    class_weight : dict, "balanced" or None
        Factor of C for each class, positive; "balanced" is n_samples / (n_classes count), counted with the sample weights.
    max_iter : int, optional
        Maximum number of iterations for every pair of classes. None stands for the solver's own limit.
    max_seconds : float, optional
        Time limit in seconds for the whole fit. The gap of the last point is computed after it has passed.
    decision_function_shape : {"ovr", "ovo"}
        With more than two classes: one column per class (votes and confidences), or one column per pair.
    random_state : int, Generator, RandomState or None
        Seed of the first working set. The result does not depend on it, up to ``tol``.
    verbose : int
        1 prints progress at doubling iterations and at least every second, and how the fit ended; 2 prints every iteration.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every iteration; return True to stop. The fit then ends with the best machine so
        far, without a warning, and ``result_.exit_reason`` is INTERRUPTED.

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
        Dual weights, bounds, certificate and history of each pair (0, 1), (0, 2), ... of classes. The second class of a pair
        is the positive one. Arrays have one entry per training example of the two classes, in the order of X.
    gap_ : float
        Proven relative duality gap, the largest of all pairs.
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
    The machine of Sha 2002 (eq. 7, started at ones) is ``MarginSVC(C=inf, fit_intercept=False, solver="multiplicative")``; with
    ``max_iter=512`` the one of Table 1. Other machines start at ones scaled to the smallest objective.

    With ``C=inf``, and with the hinge loss if the bounds of the weights allow it, weights and offset are divided by the smallest margin
    that the solver has reached. All examples then have a margin of at least 1, as the problem requires. ``dual_coef_`` of a run
    that stopped early is therefore a multiple of the solver's own weights. Predictions are the same, and both agree at the optimum.

    With more than two classes, one machine is trained per pair. "ovr" values, and so predictions, are those of scikit-learn's
    ``OneVsOneClassifier``: votes, and confidences where votes are equal. ``SVC`` predicts the same way with ``break_ties=True``.

    Weights multiply C. An example of weight 2 counts as two examples of weight 1 and an example of weight 0 as none, also under a
    hard margin. Unlike in ``SVC``, gamma="scale" and class_weight="balanced" count examples with their weights, too.

    A gap is a proof only if the kernel is positive semidefinite up to rounding. That is known of most named kernels ("poly" needs
    coef0 >= 0 and a whole degree). It is checked on all examples for functions and for other named kernels. For "precomputed"
    it is checked on all examples if there are at most 500, otherwise for each machine on up to 1000 support vectors and 300 other examples.
    A float32 matrix may be indefinite by its rounding. The gap does not account for the rounding of float64 in kernel
    values and sums, which matters for data far from the origin, large C, or high powers ("poly"): standardise the features.
    Values k(x, x) above 1e25 or all below 1e-25 are refused.

    Memory: a kernel that is a function or not known to be positive semidefinite, and kernels of sparse X, are computed in full:
    8 n^2 bytes, and as much again while they are checked. Otherwise float32 kernel rows take up to 400 MB and a square block of
    the working set as much again (``ActiveSet(cache_mb=...)``). The exact last stage takes several times ``8 |F|^2`` bytes for the ``|F|``
    examples on or near the margin, which may be all n for noisy data and large C. "multiplicative" needs 8 n^2 bytes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bregmat.estimators import MarginSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = MarginSVC().fit(X, y)
    >>> bool(machine.gap_ <= 1e-6)
    True
    """

    kernel: KernelName | Callable[..., Any] = "rbf"
    gamma: Literal["scale", "auto"] | float = "scale"  # type: ignore[assignment]
    coef0: float = 0.0
    C: float = 1.0
    fit_intercept: bool = True
    squared_hinge: bool = False
    solver: MarginSolverName | ActiveSet | MultiplicativeUpdates = "active_set"
    tol: float = 1e-6
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None
    max_iter: int | None = None
    max_seconds: float | None = None
    decision_function_shape: DecisionShape = "ovr"
    random_state: RandomState = None
    verbose: int = 0
    callback: Callable[[Any], Any] | None = None

    _last: ClassVar[str] = "_fit_base"

    # ------------------------------------------------------------------ fit
    def fit(self, X: Points, y: Labels, sample_weight: Values | None = None) -> MarginSVC:
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
            A parameter or an input is invalid, and the message names it; or the kernel is not positive semidefinite on the examples
            that were checked.
        SolverError
            C is inf and it is proven that no machine separates the classes; or a number overflowed. No fitted attributes are set.
        KeyboardInterrupt
            After Ctrl-C. Trained machines are kept, the remaining ones stop at their first iterate, and a RuntimeWarning counts both.

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached.
        """
        begun = time.monotonic()
        with self._fitting():
            self._check_parameters()
            examples = self._checked(X, y, sample_weight)
            pairs = train_pairs(self, examples, begun)
            check(max((pair.result for pair in pairs), key=lambda result: result.gap / result.tol))
            with held_interrupts():
                self._keep(examples, pairs)
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        """Check the training examples; set ``classes_`` and ``class_weight_``."""
        base = self._kernel_function().given(X)
        kinds: Any = [np.float64, np.float32] if base.is_precomputed else np.float64
        if y is not None:
            as_rectangular("y", to_numpy("y", y))  # names y and the row where lists differ in length
        X, y = validated(self, X, y, accept_sparse=base.accept_sparse, dtype=kinds, order="C")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_: np.ndarray
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes; got 1 class, {self.classes_[0]}.")
        weights = sample_weights(sample_weight, len(y))
        self.class_weight_: np.ndarray = self._weights_of_classes(y, np.bincount(codes, weights))
        if base.takes_gamma and base.params["gamma"] is None:
            base = base.with_gamma(gamma_of(X, str(self.gamma), weights))
        return Examples(X, codes, weights * self.class_weight_[codes], base)

    def _weights_of_classes(self, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Factor of C for each class, shape (k,), from the summed weights of its examples."""
        if not (counts > 0).all():
            raise ValueError(
                f"sample_weight must not be zero for every example of class {self.classes_[counts.argmin()]}."
            )
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            weights = counts.sum() / (len(counts) * counts)
        elif self.class_weight is None:
            weights = np.ones(len(counts))
        else:
            if isinstance(self.class_weight, dict):
                for label, weight in self.class_weight.items():
                    check_positive(f"class_weight[{label!r}]", weight, finite=True)
            weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError(f"class_weight must be positive and finite; got {self.class_weight!r}.")
        return weights

    def _keep(self, examples: Examples, pairs: list[PairMachine]) -> None:
        """Set the fitted attributes: support by class, one row of coefficients per other class."""
        codes, k = examples.codes, len(self.classes_)
        table = np.zeros((k - 1, len(codes)))
        for pair in pairs:
            # as in SVC, the first class of a pair is the positive one if there are more than two classes
            coefficients = pair.coefficients if k == 2 else -pair.coefficients
            in_first = codes[pair.rows] == pair.first
            table[pair.second - 1, pair.rows[in_first]] = coefficients[in_first]
            table[pair.first, pair.rows[~in_first]] = coefficients[~in_first]
        used = np.flatnonzero(table.any(axis=0))
        support = used[np.argsort(codes[used], kind="stable")]
        intercept = np.array([pair.result.intercept for pair in pairs])
        self.support_: np.ndarray = support.astype(np.int32)
        self.dual_coef_: np.ndarray = table[:, support]
        self.n_support_: np.ndarray = np.bincount(codes[support], minlength=k).astype(np.int32)
        self.intercept_: np.ndarray = intercept if k == 2 else -intercept
        if not examples.base.is_precomputed:
            self.support_vectors_: Any = examples.X[support]
        self.shape_fit_: tuple[int, int] = examples.X.shape
        results = [pair.result for pair in pairs]
        self.result_: MarginResult | list[MarginResult] = results[0] if k == 2 else results
        self.gap_: float = float(max(result.gap for result in results))
        self.n_iter_: np.ndarray = np.array([result.n_iter for result in results], dtype=np.int32)
        self._fit_base = examples.base  # predict uses the kernel of the fit, even if parameters are changed later

    def _check_parameters(self) -> None:
        """Raise for a parameter that is invalid for any data."""
        check_positive("C", self.C)
        check_run(self, self.max_seconds)
        check_gap(self.tol)
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("squared_hinge", self.squared_hinge)
        settings_of(self.solver)
        as_choice("decision_function_shape", self.decision_function_shape, get_args(DecisionShape))
        self._kernel_function()

    def _kernel_function(self) -> KernelFunction:
        """The checked kernel of the parameters; gamma is None if the data determine it."""
        check_gamma_rule(self.gamma)
        gamma = None if isinstance(self.gamma, str) else self.gamma
        if gamma is None and not isinstance(self.gamma, str) and not callable(self.kernel):
            raise TypeError(f"gamma must be a number; got {self.gamma!r}.")
        if isinstance(self.kernel, str) and self.kernel == "additive_chi2":
            raise ValueError("kernel 'additive_chi2' is not positive semidefinite; use 'chi2', which is.")
        return KernelFunction.of(self.kernel, gamma, self.degree, self.coef0, self.kernel_params)

    # ------------------------------------------------------------------ use
    def decision_function(self, X: Points) -> np.ndarray:
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

    def predict(self, X: Points) -> np.ndarray:
        """Predict the class of each point: by the sign of the decision value, or as the class with the largest "ovr" value.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)
            As in :meth:`decision_function`.

        Returns
        -------
        ndarray, shape (m,)
        """
        pairs = self._pair_decisions(X)
        if len(self.classes_) == 2:
            codes = (pairs[:, 0] > 0).astype(int)
        else:
            codes = self._by_class(pairs).argmax(axis=1)
        return self.classes_[codes]

    def _by_class(self, pairs: np.ndarray) -> np.ndarray:
        """Votes and confidences, shape (m, k), by scikit-learn's rule."""
        return _ovr_decision_function(pairs < 0, -pairs, len(self.classes_))

    def _pair_decisions(self, X: Any) -> np.ndarray:
        """Decision values of all pairs, shape (m, k (k - 1) / 2)."""
        check_is_fitted(self)
        base = self._fit_base
        X = validated(self, X, accept_sparse=base.accept_sparse, order="C", reset=False)
        if base.kernel == "linear" and not sp.issparse(self.support_vectors_):
            return np.asarray(X @ self.coef_.T) + self.intercept_
        out = np.empty((X.shape[0], len(self.intercept_)))
        for part in blocks(len(out), len(self.support_), BLOCK):
            K = X[part][:, self.support_] if base.is_precomputed else base(X[part], self.support_vectors_)
            out[part] = pair_decisions(K, self.dual_coef_, self.n_support_) + self.intercept_
        return out

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, shape (k (k - 1) / 2, d); with kernel="linear" only."""
        check_is_fitted(self)
        if self._fit_base.kernel != "linear":
            raise AttributeError('coef_ is only there with kernel="linear".')
        V = dense(self.support_vectors_)
        # With an intercept the signed weights of a pair sum to 0, so points may be centred, which reduces rounding.
        if len(V) and self.intercept_.any():
            V = V - V.mean(axis=0)
        return pair_decisions(V.T, self.dual_coef_, self.n_support_).T
