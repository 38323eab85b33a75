"""KernelLearner: a kernel from labels, constraints or both, as a scikit-learn transformer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from bregmat.base.checks import check_integer
from bregmat.base.points import check_numeric
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import KernelEstimator, validated
from bregmat.estimators.learned_kernel import FactorMap, SpanMap, learn
from bregmat.estimators.learner import ConstraintLearner
from bregmat.estimators.task import Task
from bregmat.kernels import KernelFunction
from bregmat.kernels.definite import check_given
from bregmat.run.result import MatrixResult
from bregmat.typing import Points


class MethodBesideParameter:
    """Lets ``learner.kernel(X, Y)`` be a method although the constructor has a parameter ``kernel``.

    The parameter stays in the instance dictionary, where ``get_params`` finds it.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.method if instance is None else MethodType(self.method, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)["kernel"] = value


@on_one_blas_thread
class KernelOfMap(ABC):
    """Values and features of the kernel whose map a fit keeps in ``_fit_map``."""

    _fit_map: FactorMap
    n_features_in_: int

    @property
    @abstractmethod
    def _accept_sparse(self) -> str | bool:
        """Whether points may be sparse, in scikit-learn's words."""

    @MethodBesideParameter  # type: ignore[misc]  # beside the dataclass field of this name
    def kernel(self, X: Points, Y: Points | None = None) -> np.ndarray:
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
        if Y is not None and isinstance(self._fit_map, SpanMap) and self._fit_map.base.is_precomputed:
            raise ValueError(
                "Y must be None with kernel='precomputed' and full rank, where prior values are known between X and the "
                "training points only; with rank=... any Y will do."
            )
        return self._fit_map.kernel(self._points(X, "X"), None if Y is None else self._points(Y, "Y"))

    def transform(self, X: Points) -> np.ndarray:
        """Features whose inner products are the learned kernel; see Notes of :class:`KernelLearner`.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)

        Returns
        -------
        ndarray, shape (m, r)
            float32 if X is, else float64.
        """
        check_is_fitted(self)
        X = validated(self, X, accept_sparse=self._accept_sparse, dtype=[np.float64, np.float32], reset=False)
        return self._fit_map.transform(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)

    @property
    def X_fit_(self) -> Any:
        """The training points in the first form, else None."""
        return self._fit_map.train

    @property
    def kernel_(self) -> np.ndarray:
        """The learned kernel on the training points, shape (n, n)."""
        check_is_fitted(self)
        return self._fit_map.training_kernel()

    @property
    def _n_features_out(self) -> int:
        return self._fit_map.n_columns

    def _points(self, X: Any, name: str) -> Any:
        if hasattr(X, "columns"):  # a data frame: its names are compared
            return validated(self, X, name=name, reset=False)
        check_numeric(name, X)
        X = check_array(X, accept_sparse=self._accept_sparse, dtype=np.float64, input_name=name)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but the estimator was fitted with {self.n_features_in_}."
            )
        return X


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class KernelLearner(KernelOfMap, KernelEstimator, ConstraintLearner):
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
    percentiles : (float, float)
        Percentiles, 0 to 100, of the squared distances *of the kernel* k0 (of its approximation, with ``rank``):
        same-class pairs shall be nearer than the lower, different-class pairs farther than the upper one.
    strategy, passes, n_neighbors, n_impostors, form, n_constraints, unlabeled
        As in :class:`MetricLearner`; with "neighbors" every point is in a row, which the first form pays for.
    slack_weight, loss, solver, tol, max_iter, warm_start, verbose, callback, random_state
        As in :class:`MetricLearner`.

    Attributes
    ----------
    kernel_ : ndarray, shape (n, n)
        The learned kernel on the training points; computed when asked for. Pickles and files keep these points in the first
        form only; else use ``kernel(X)``.
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per row of ``constraints_``), history. It speaks of the points
        in constraints in the first form, of all points in the others: there ``result_.write_factor`` streams the
        learned factor to a file.
    captured_trace_ : float
        Share of the trace of K0 that its approximation of rank ``rank`` holds, 0 to 1; 1 without ``rank``.
    X_fit_ : array or None
        The training points, not copied, in the first form (``kernel_`` and ``transform`` read them); else None.
    constraints_, n_dropped_constraints_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MetricLearner`.

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

    rank: int | None = None

    transform = KernelOfMap.transform  # a class's own, or set_output passes it by

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor; ``kernel`` among them, which as an attribute is a method."""
        params = super().get_params(deep=deep)
        value = params["kernel"] = vars(self)["kernel"]
        if deep and hasattr(value, "get_params") and not isinstance(value, type):
            params |= {f"kernel__{name}": inner for name, inner in value.get_params().items()}
        return params

    # ------------------------------------------------------------------ fit
    def _checked_points(self, X: Any) -> Any:
        """The training points; a memory-mapped factor is not read here."""
        self._fit_base = base = self._kernel_function().given(X)
        if isinstance(X, Factor):
            if base.kernel != "linear":
                raise ValueError(f"X is a Factor, which is a kernel itself: use kernel='linear'; got {base.kernel!r}.")
            X = X.G0
        if base.kernel == "linear" and self.rank is None and isinstance(X, np.memmap):
            if X.ndim != 2 or X.dtype.kind != "f" or len(X) < 2:
                raise ValueError(
                    "a memory-mapped X must be a 2-dimensional array of floats with at least 2 rows; got shape "
                    f"{X.shape} and dtype {X.dtype}."
                )
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = X.shape[1]
            return X
        X = validated(self, X, accept_sparse=base.accept_sparse, ensure_min_samples=2)
        if base.is_precomputed:
            check_given(X)
        return X

    def _learn(self, X: Any, task: Task) -> tuple[MatrixResult, Constraints]:
        self._decide(X, task)
        self._fit_map, result, rows = learn(X, self._fit_base, task)
        self.captured_trace_: float = self._fit_map.captured
        return result, rows

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("rank", self.rank, 1)
        self._kernel_function()

    @property
    def _accept_sparse(self) -> str | bool:
        return KernelFunction(vars(self)["kernel"]).accept_sparse
