"""KernelLearner: a kernel from labels, constraints or both, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from bregmat.base.checks import check_integer
from bregmat.base.points import check_numeric
from bregmat.base.threads import on_one_blas_thread
from bregmat.certificates.result import MatrixResult
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import KernelEstimator, validated
from bregmat.estimators.learned_kernel import FactorMap, SpanMap, kernel_problem
from bregmat.estimators.learner import ConstraintLearner
from bregmat.estimators.task import Candidate, Task, TrainingProblem
from bregmat.kernels import KernelFunction
from bregmat.kernels.definite import check_given
from bregmat.typing import Points

# Candidates for strategy and slack weight, simpler ones first.
CANDIDATES = (
    Candidate(None),
    *(Candidate(strategy, weight) for strategy in ("neighbors", "random") for weight in (0.3, 1.0)),
)
# Number of points in constraints up to which a full-rank kernel, which takes n^3 operations, is learned by default.
MOST_TOUCHED = 2000


class MethodBesideParameter:
    """A method ``learner.kernel(X, Y)`` although the constructor has a parameter ``kernel``.

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
@dataclass(eq=False, repr=False, kw_only=True)
class KernelLearner(KernelEstimator, ConstraintLearner):
    """Kernel nearest to a given kernel that puts similar points near and dissimilar points far.

        minimize over K >= 0:   D(K, K0) + slack_weight * sum_i d(p_i, bound_i)
        with p_i = K_aa + K_bb - 2 K_ab, the squared distance of pair i

    Use it if a nonlinear kernel suits the data, or if the data *is* a kernel or a factor of one. If Euclidean distances suit the data,
    :class:`MetricLearner` solves the same problem with a linear map.

    There are three forms. Each of them gives kernel values for new points.

    * ``rank=None`` and any kernel except "linear": the kernel keeps its full rank, and only the points in constraints enter the problem.
      With 1,000 pairs among 100,000 points these are at most 2,000 points. The learned kernel is
      ``k(x, y) = k0(x, y) + k0(x, S) C k0(S, y)``, where S are the points in constraints (Davis 2007).
    * ``rank=r``, for large n: K0 is approximated by ``G0 G0'``, where G0 (n, r) is computed from r columns of K0 by pivoted incomplete
      Cholesky factorisation. The learned kernel is ``(B'g0(x)) . (B'g0(y))`` (Kulis 2009, section 6.1).
    * ``kernel="linear"``: X is the factor G0 itself. It may be memory-mapped or a :class:`bregmat.Factor`.

    Parameters
    ----------
    kernel : str or callable
        One of scikit-learn's pairwise kernels ("linear", "rbf", "poly", ...), "precomputed", or a function of
        (X, Y) that returns the (n, m) array of its values. It must be positive semidefinite.
    gamma : float, optional
        Coefficient of "rbf", "poly", "sigmoid", "laplacian" and "chi2", in 1 / (X units)^2 for "rbf"; by default
        1 / n_features (1 for "chi2").
    degree, coef0 : float
        Parameters of the kernel "poly"; "sigmoid" has ``coef0`` as well.
    kernel_params : dict, optional
        Keyword arguments for a kernel that is a function.
    rank : int, optional
        Number of columns of K0 to use, 1 to n. None is full rank. See ``captured_trace_``.
    divergence : {"auto", "logdet", "vonneumann", "frobenius"} or object
        Divergence D from the prior; "auto" is "logdet". Except for "logdet", the form decides what it compares: see Notes.
    strategy, n_neighbors, n_impostors, n_constraints, unlabeled, target_type
        As in :class:`MetricLearner`. "random" bounds pairs by the 5th and the 95th percentile of the squared distances in the *feature
        space* of k0, or of its approximation if ``rank`` is given. With "neighbors" every point is in a constraint, which makes the form
        with ``rank=None`` expensive: "auto" leaves it out there for more than 2,000 points.
    slack_weight, loss, solver, tol, max_iter, warm_start, verbose, callback, random_state
        As in :class:`MetricLearner`.

    Attributes
    ----------
    kernel_ : ndarray, shape (n, n)
        The learned kernel on the training points, computed at each access. Pickles and files contain the training points only if
        ``rank=None``; otherwise use ``kernel(X)``.
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per constraint) and history. With ``rank=None`` its points are those
        in constraints, in the other forms all points. There ``result_.write_factor`` writes the learned factor to a file.
    captured_trace_ : float
        Fraction of the trace of K0 that its approximation of rank ``rank`` contains, 0 to 1; 1 without ``rank``.
    X_fit_ : array or None
        With ``rank=None`` the training points, not copied, which ``kernel_`` and ``transform`` read; otherwise None.
    selection_, strategy_, slack_weight_, constraints_, n_dropped_constraints_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MetricLearner`.

    Notes
    -----
    With "logdet" the learned kernel is the same whether D compares kernels on all points, kernels on the points in constraints, or
    operators in feature space. The other divergences are not invariant. With ``rank=None`` they compare operators, D(W, I) with
    ``k(x, y) = <phi(x), W phi(y)>``, as :class:`MetricLearner` does; this needs the points in constraints only. With ``rank`` and with
    "linear" they compare kernels, D(K, G0 G0'), as Kulis 2009 does (7.1 and 7.2). For von Neumann as in the paper use
    ``kernel="linear"``, or ``rank=n`` with another kernel. If X has more columns than rows, "linear" then uses a factor of rank n.

    ``transform`` returns features whose inner products are the learned kernel. With ``rank=None`` their number is the rank of K0 on the
    training points. They are computed from all training points, at a cost of n^3 (n at most 10,000). Their inner products are those of
    ``kernel`` for training points; for new points the part outside of the span of the training points is missing. With ``rank``, the
    part of a new point outside of the span of the pivots is missing in ``kernel`` as well.

    Cost in addition to the solver: with ``rank=None`` m^2 kernel values and m^3 operations for m points in constraints; with ``rank=r``
    n r kernel values and n r^2 operations; with "linear" one pass over X, and none for "logdet".

    With "precomputed", a point is a row of kernel values with all training points, shape (n, n) in ``fit`` and (m, n) in ``kernel`` and
    ``transform``, as in :class:`sklearn.svm.SVC`.

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor, ``kernel`` included, although the attribute of this name is a method."""
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
            self.n_features_in_: int = X.shape[1]
            return X
        X = validated(self, X, accept_sparse=base.accept_sparse, ensure_min_samples=2)
        if base.is_precomputed:
            check_given(X)
        return X

    def _problem(self, task: Task) -> TrainingProblem:
        return kernel_problem(task, self._fit_base)

    def _candidates(self, task: Task) -> list[Candidate]:
        left_out = set()
        if task.labels.target_type != "class":
            left_out.add("random")
        elif self.rank is None and self._fit_base.kernel != "linear" and len(task.labels.labelled) > MOST_TOUCHED:
            left_out.add("neighbors")
        return [one for one in CANDIDATES if one.strategy not in left_out]

    def _keep(self, problem: Any, task: Task, result: MatrixResult) -> None:
        self._fit_map: FactorMap = problem.map_of(result)
        self.captured_trace_: float = problem.captured

    def _check_parameters(self) -> dict[str, Any]:
        settings = super()._check_parameters()
        check_integer("rank", self.rank, 1)
        self._kernel_function()
        return settings

    @property
    def _accept_sparse(self) -> str | bool:
        return KernelFunction(vars(self)["kernel"]).accept_sparse

    # ------------------------------------------------------------------ the learned kernel
    @MethodBesideParameter  # type: ignore[misc]  # beside the dataclass field of this name
    def kernel(self, X: Points, Y: Points | None = None) -> np.ndarray:
        """Values of the learned kernel.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)
            Points. With "precomputed": values of the *prior* kernel between the points and all training points.
        Y : array-like or scipy.sparse, shape (q, d), optional
            By default X itself. With "precomputed" and full rank Y is the training points and must be None.

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
        """Features whose inner products are the learned kernel; see Notes of the class.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)

        Returns
        -------
        ndarray, shape (m, r)
            float32 if X is float32, otherwise float64.
        """
        check_is_fitted(self)
        X = validated(self, X, accept_sparse=self._accept_sparse, dtype=[np.float64, np.float32], reset=False)
        return self._fit_map.transform(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)

    @property
    def X_fit_(self) -> Any:
        """The training points in the form with ``rank=None``, otherwise None."""
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
        if hasattr(X, "columns"):  # a data frame: compare the names of its columns
            return validated(self, X, name=name, reset=False)
        check_numeric(name, X)
        X = check_array(X, accept_sparse=self._accept_sparse, dtype=np.float64, input_name=name)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but the estimator was fitted with {self.n_features_in_}."
            )
        return X
