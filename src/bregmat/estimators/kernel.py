"""KernelLearner: a kernel from labels, constraints or both, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from bregmat.checks import check_integer, check_positive
from bregmat.constraints import Constraints
from bregmat.divergences import Divergence, as_divergence
from bregmat.estimators.descriptors import MethodBesideParameter
from bregmat.estimators.kernel_files import learner_restored, learner_state
from bregmat.estimators.kernel_forms import factor_of, form_of
from bregmat.estimators.learned import SpanMap
from bregmat.estimators.progress import Progress
from bregmat.estimators.rows import joined, renamed, rows_given, sample_names
from bregmat.kernels import KernelFunction
from bregmat.kernels.definite import check_given
from bregmat.labels import check_percentiles
from bregmat.result import MatrixResult, check
from bregmat.sampling import generator


class KernelLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel nearest to a given kernel that puts similar points near and dissimilar points far.

        minimize over K >= 0:   D(K, K0) + slack_weight * sum_i d(p_i, bound_i),    p_i = K_aa + K_bb - 2 K_ab

    Use it where a nonlinear kernel suits the data, or where the data *is* a kernel or a factor of one. For data that
    Euclidean distances suit, :class:`MetricLearner` gives the same with a plain linear map.

    Three forms, each with values for new points:

    * ``rank=None``, any kernel but "linear": the kernel keeps its full rank, and only points in constraints are
      looked at, so 1,000 pairs among 100,000 points cost a problem of 2,000 points at most. The learned kernel is
      ``k(x, y) = k0(x, y) + k0(x, S) C k0(S, y)``, S the points in constraints (Davis 2007).
    * ``rank=r``: K0 is replaced by ``G0 G0'`` with G0 (n, r) from r columns of K0, chosen by pivoted incomplete
      Cholesky, and the kernel becomes ``(B'g0(x)) . (B'g0(y))`` (Kulis 2009, section 6.1). For large n.
    * ``kernel="linear"``: X is the factor G0 itself, and may be memory-mapped or a :class:`bregmat.Factor`.

    Parameters
    ----------
    kernel : str or callable
        One of scikit-learn's pairwise kernels ("linear", "rbf", "poly", ...), "precomputed", or a function of
        (X, Y) that returns the (n, m) array of its values. It must be positive semidefinite.
    gamma : float, optional
        Coefficient of "rbf", "poly", "sigmoid", "laplacian" and "chi2", in 1 / (X units)^2 for "rbf"; by default
        1 / n_features (1 for "chi2").
    degree, coef0 : float
        Of "poly" and (coef0) "sigmoid".
    kernel_params : dict, optional
        Keyword arguments of a kernel that is a function.
    rank : int, optional
        Number of columns of K0 to use, 1 to n; None is full rank. See ``captured_trace_``.
    divergence : {"logdet", "vonneumann", "frobenius"} or object
        Closeness D. What it compares depends on the form, except for "logdet": see Notes.
    slack_weight : float
        What a violated bound costs, relative to the divergence; positive, dimensionless; ``inf``: bounds must hold.
    loss : None, "relative_slack", "squared", "squared_hinge" or object
        As in :class:`MetricLearner`.
    n_constraints : int, optional
        Number of pairs drawn from the labels y. By default 40 k^2 for k classes; 0 ignores y.
    percentiles : (float, float)
        Percentiles, 0 to 100, of the squared distances *of the kernel* k0 (of its approximation, with ``rank``):
        same-class pairs shall be nearer than the lower, different-class pairs farther than the upper one.
    unlabeled : object
        Label in y that means "not known", beside None and NaN.
    solver : str or object
        As in :func:`bregmat.nearest_kernel`.
    tol : float
        Relative duality gap to reach; positive, dimensionless.
    max_iter : int, optional
        Most iterations of the solver. None is the solver's own limit.
    warm_start : bool
        Start from the dual of the previous fit when it had as many constraints.
    verbose : int
        1 prints progress at most once a second, 2 every iteration.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every iteration; return True to stop.
    random_state : int, Generator, RandomState or None
        Seed of the pairs drawn from labels.

    Attributes
    ----------
    kernel_ : ndarray, shape (n, n)
        The learned kernel on the training points; computed when asked for. Pickles and files keep these points in the first
        form only; else use ``kernel(X)``.
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per row of ``constraints_``), history. It speaks of the points
        in constraints in the first form, of all points in the others: there ``result_.write_factor`` streams the
        learned factor to a file.
    constraints_ : Constraints
        The rows used, drawn and given; named by ``sample_id`` if given, else by row numbers of X.
    n_dropped_constraints_ : int
        Given constraints left out because a sample they name is not in ``sample_id``.
    captured_trace_ : float
        Share of the trace of K0 that its approximation of rank ``rank`` holds, 0 to 1; 1 without ``rank``.
    X_fit_ : array or None
        The training points, not copied, in the first form (``kernel_`` and ``transform`` read them); else None.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had them.

    Notes
    -----
    What "logdet" finds is the same whether D compares kernels on all points, on the touched ones, or operators in the
    space of the kernel: D(K, K0) is the least over all ways to extend a kernel from the touched points. The other
    divergences are not invariant. In the first form they compare operators, D(W, I) with ``k(x, y) = <phi(x), W phi(y)>``,
    which is what needs the touched points only; it is the metric form of :class:`MetricLearner`. With ``rank`` and for
    "linear" they compare kernels, D(K, G0 G0'), the form of Kulis 2009 (7.1 and 7.2): so for von Neumann as in the paper
    take ``kernel="linear"``, or ``rank=n`` for another kernel. (With more columns than rows, "linear" then goes by rank n.)

    ``transform`` gives features whose inner products are the learned kernel. In the first form they are as many as
    the rank of K0 on the training points, and computed from all of these, at a cost of n^3 (n at most 10,000); inner products
    then agree with ``kernel`` for training points, and for new ones up to the part outside the span of the training points.
    With ``rank``, what a new point has outside the span of the pivots is dropped throughout.

    Cost beside the solver: m^2 kernel values and m^3 for m touched points in the first form; n r values and n r^2 with
    ``rank``; for "linear" nothing with "logdet", one pass over X otherwise.

    With "precomputed", points are rows of kernel values with all training points, in fit (n, n) as in ``kernel`` and
    ``transform`` (m, n), as :class:`sklearn.svm.SVC` has it.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.svm import SVC
    >>> from bregmat.estimators import KernelLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = KernelLearner("rbf", gamma=1e-5, random_state=0).fit(X, y)
    >>> SVC(kernel=learner.kernel).fit(X, y).predict(X).shape
    (178,)
    """

    # Whole by default when metadata routing is enabled: no set_fit_request is needed.
    __metadata_request__fit = {"constraints": True, "sample_id": True}

    def __init__(
        self,
        kernel: str | Callable[..., Any] = "rbf",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        rank: int | None = None,
        divergence: str | Divergence = "logdet",
        slack_weight: float = 1.0,
        loss: Any = None,
        n_constraints: int | None = None,
        percentiles: tuple[float, float] = (5, 95),
        unlabeled: Any = -1,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callable[[Any], Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.rank = rank
        self.divergence = divergence
        self.slack_weight = slack_weight
        self.loss = loss
        self.n_constraints = n_constraints
        self.percentiles = percentiles
        self.unlabeled = unlabeled
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor; ``kernel`` among them, which as an attribute is a method."""
        params = super().get_params(deep=deep)
        value = params["kernel"] = vars(self)["kernel"]
        if deep and hasattr(value, "get_params") and not isinstance(value, type):
            params |= {f"kernel__{name}": inner for name, inner in value.get_params().items()}
        return params

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernel = KernelFunction(vars(self)["kernel"])
        tags.input_tags.pairwise = kernel.is_precomputed
        tags.input_tags.positive_only = kernel.is_positive_only
        tags.input_tags.sparse = kernel.takes_sparse
        tags.target_tags.required = True  # unless constraints are given
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ fit
    def fit(
        self, X: Any, y: Any = None, *, constraints: Constraints | None = None, sample_id: Any = None
    ) -> KernelLearner:
        """Learn the kernel.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d), or Factor
            Points; finite. Kernel values (n, n) with "precomputed". With "linear" a memory-mapped array or a
            :class:`bregmat.Factor` of one is read only where constraints touch it ("logdet", without y), else once.
        y : array-like, shape (n,), optional
            Class labels of any type; rows labelled ``unlabeled``, None or NaN take no part in the pairs.
        constraints : Constraints, optional
            Name values of ``sample_id``, or row numbers of X.
        sample_id : array-like, shape (n,), optional
            Name of each row of X; unique. By default the row numbers; the index of a pandas DataFrame if the
            constraints name samples by anything but numbers.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad parameter or input, named in the message; a kernel that is not positive semidefinite on the points looked
            at; neither labels nor constraints.
        SolverError
            The constraints are contradictory, or the computation is not finite. No fitted attribute is left.
        """
        previous = vars(self).get("result_") if self.warm_start else None
        self._forget()
        base = self._check_parameters()
        try:
            names = sample_names(X, constraints, sample_id)
            base = base.given(X)
            X = self._checked(X, base)
            given, self.n_dropped_constraints_ = rows_given(constraints, names, X.shape[0])
            if y is None and constraints is None:
                raise ValueError(
                    f"This {type(self).__name__} estimator requires y to be passed, but the target y is None "
                    "and so is constraints."
                )
            if y is not None and len(getattr(y, "shape", ())) == 2:
                y = column_or_1d(y, warn=True)
            if y is not None:
                check_consistent_length(X, y)
            learn = form_of(X, base, self.rank, as_divergence(self.divergence))
            learned = learn(X, base, partial(self._rows, given, y), partial(self._solve, previous))
            result = check(learned.result)
            self._map, self.captured_trace_, self.X_fit_ = learned.map, learned.captured, learned.points
            self.constraints_ = renamed(learned.rows, names)
            self.n_iter_ = result.n_iter
            self.result_ = result
        finally:
            if "result_" not in vars(self):  # whatever went wrong: nothing half fitted stays
                self._forget()
        return self

    def _rows(self, given: Any, y: Any, draw: Callable[..., Constraints]) -> Constraints:
        """Rows drawn from the labels by ``draw``, joined with those given."""
        drawn = None
        if y is not None and self.n_constraints != 0:
            labels = {"percentiles": self.percentiles, "unlabeled": self.unlabeled, "random_state": self.random_state}
            drawn = draw(y, self.n_constraints, **labels)
        return joined(drawn, given, self.n_dropped_constraints_)

    def _solve(
        self, previous: MatrixResult | None, nearest: Callable[..., MatrixResult], prior: Any, rows: Constraints
    ) -> MatrixResult:
        return nearest(
            prior,
            rows,
            divergence=self.divergence,
            loss=self.loss,
            slack_weight=float(self.slack_weight),
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=previous if previous is not None and len(previous.dual) == rows.n_constraints else None,
            callback=Progress(int(self.verbose), self.callback) if self.verbose else self.callback,
        )

    def _checked(self, X: Any, base: KernelFunction) -> Any:
        """The training points; a memory-mapped factor is not read here."""
        X, is_mapped = factor_of(X, base, self.rank)
        if is_mapped:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = X.shape[1]
            return X
        X = validate_data(
            self, X, accept_sparse="csr" if base.takes_sparse else False, dtype=np.float64, ensure_min_samples=2
        )
        if base.is_precomputed:
            check_given(X)
        return X

    def _forget(self) -> None:
        """Drop every fitted attribute."""
        for name in [name for name in vars(self) if name.endswith("_") or name == "_map"]:
            delattr(self, name)

    def _check_parameters(self) -> KernelFunction:
        """Raise for a hyper-parameter that no data could make valid."""
        check_integer("rank", self.rank, 1)
        check_integer("n_constraints", self.n_constraints, 0)
        check_integer("max_iter", self.max_iter, 1)
        check_positive("slack_weight", self.slack_weight)
        check_positive("tol", self.tol, finite=True)
        check_percentiles(self.percentiles)
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable or None; got {self.callback!r}.")
        if not isinstance(self.random_state, np.random.RandomState):  # that would advance it
            generator(self.random_state)
        return KernelFunction.of(vars(self)["kernel"], self.gamma, self.degree, self.coef0, self.kernel_params)

    # ------------------------------------------------------------------ use
    @MethodBesideParameter
    def kernel(self, X: Any, Y: Any = None) -> np.ndarray:
        """Values of the learned kernel.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)
            Points; with "precomputed", values of the *prior* kernel between them and all training points.
        Y : array-like or scipy.sparse, shape (q, d), optional
            By default X itself; with "precomputed" and full rank always the training points, and not to be given.

        Returns
        -------
        ndarray, shape (m, q)
        """
        check_is_fitted(self)
        if Y is not None and isinstance(self._map, SpanMap) and self._map.base.is_precomputed:
            raise ValueError(
                "Y must be None with kernel='precomputed' and full rank, where prior values are known between X and the "
                "training points only; with rank=... any Y will do."
            )
        return self._map.kernel(self._points(X, "X"), None if Y is None else self._points(Y, "Y"), self.X_fit_)

    def transform(self, X: Any) -> np.ndarray:
        """Features whose inner products are the learned kernel; see Notes of the class.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)

        Returns
        -------
        ndarray, shape (m, r)
            float32 if X is, else float64.
        """
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
            dtype=[np.float64, np.float32],
            reset=False,
        )
        kind = X.dtype
        return self._map.transform(X.astype(np.float64, copy=False), self.X_fit_).astype(kind, copy=False)

    @property
    def kernel_(self) -> np.ndarray:
        """The learned kernel on the training points, shape (n, n)."""
        check_is_fitted(self)
        return self._map.training_kernel(self.X_fit_)

    @property
    def _n_features_out(self) -> int:
        return self._map.n_columns(self.X_fit_)

    def __sklearn_is_fitted__(self) -> bool:
        return "result_" in vars(self)

    def _points(self, X: Any, name: str) -> Any:
        sparse = self.__sklearn_tags__().input_tags.sparse
        if hasattr(X, "columns"):  # a data frame: its names are compared
            return validate_data(self, X, dtype=np.float64, reset=False)
        X = check_array(X, accept_sparse="csr" if sparse else False, dtype=np.float64, input_name=name)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but the estimator was fitted with {self.n_features_in_}."
            )
        return X

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays that :meth:`from_state` makes the fitted learner from; for :func:`bregmat.save`."""
        check_is_fitted(self)
        return learner_state(self)

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> KernelLearner:
        """The fitted learner; without ``constraints_`` if these had matrices or names that files cannot hold."""
        return learner_restored(cls, meta, arrays)
