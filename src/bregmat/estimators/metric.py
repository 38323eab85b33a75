"""MetricLearner: a Mahalanobis metric from labels, constraints or both, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from bregmat.base.arrays import to_numpy
from bregmat.base.checks import as_matrix, check_integer
from bregmat.base.interrupts import take_interrupt
from bregmat.base.points import CheckedPoints
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import check_at_most, validated
from bregmat.estimators.choice import scaled_or_not
from bregmat.estimators.learner import ConstraintLearner, given_constraints
from bregmat.estimators.mahalanobis import (
    MOST_FEATURES,
    MOST_NUMBERS,
    MOST_ROWS,
    MahalanobisMetric,
    principal_components,
)
from bregmat.estimators.priors import POINTS_PRIORS, PRIORS, inverse_deviations, prior_components, root_of_prior
from bregmat.estimators.task import Task, TrainingProblem, cut_short
from bregmat.from_labels.dimension import Neighborhood, few_components
from bregmat.from_labels.labels import constraints_from_labels
from bregmat.from_labels.neighbors import PointSpace
from bregmat.nearest import nearest_metric
from bregmat.objective.divergences import as_divergence
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.result import ExitReason, MatrixResult, Status
from bregmat.sharded.collections import is_for_blocks
from bregmat.typing import DivergenceName, Labels, MetricPrior, Points, Strategy, Table, Values

if TYPE_CHECKING:
    from bregmat.sharded.sources import LazyConstraints


@dataclass(frozen=True, eq=False)
class MetricProblem(TrainingProblem):
    """Points, and a prior metric W0 as :func:`bregmat.nearest_metric` takes it."""

    points: CheckedPoints
    prior: Any

    def space(self, result: MatrixResult | None) -> PointSpace:
        X = self.points.points
        if result is not None:
            return PointSpace(np.asarray(result.transform(X)))
        if self.prior is None:
            return PointSpace(X)
        if isinstance(self.prior, Factor):
            return PointSpace(X @ self.prior.G0)
        return PointSpace(np.asarray(X @ root_of_prior(self.prior)))

    def pairs(self, labels: Any, n_constraints: int | None, **options: Any) -> Constraints:
        return constraints_from_labels(self.points, labels.values, n_constraints, **options)

    def sampled(self, rows: np.ndarray) -> MetricProblem:
        return MetricProblem(CheckedPoints(self.points.points[rows]), self.prior)

    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        return nearest_metric(self.points, rows, prior=self.prior, **settings)


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class MetricLearner(MahalanobisMetric, ConstraintLearner):
    """Mahalanobis metric nearest to a prior metric that puts similar points near and dissimilar points far.

        minimize over W >= 0:   D(W, W0) + slack_weight * sum_i d(p_i, bound_i),    p_i = (x - y)' W (x - y)

    Use it before anything that works with Euclidean distances: nearest neighbours, k-means, kernel machines. From labels it first decides
    whether to scale the columns, then compares each point's neighbours, three times over, each time in the metric learned so far.
    What is "auto" is chosen on at most 1,500 of the training rows, at about the cost of the fit itself: see ``comparison_``.

    Parameters
    ----------
    divergence : {"logdet", "vonneumann", "frobenius"} or object
        Closeness D to the prior. "logdet" does not depend on the units of the data, keeps W positive definite, and is
        fastest.
    n_components : int, optional
        Number of components of the learned map to keep, 1 to d. By default all. With "neighbors": those along which others are farther
        than neighbours of one's class by most; or, where few components tell less than all of them, a map of that rank is sought, and
        the metric learned once more in its range (see :func:`bregmat.from_labels.dimension.few_components`; "logdet" and
        "vonneumann", up to 2,000 features). Else the leading ones by variance.
    slack_weight : "auto" or float
        What a violated bound costs, relative to the divergence; positive, dimensionless; ``inf``: bounds must hold. "auto" is 1; with
        "neighbors" n / 500 for more than 500 points, at most 5; 0.1 for random pairs that were chosen by ``strategy="auto"``.
    loss : None, "relative_slack", "squared", "squared_hinge" or object
        None is the squared hinge with "neighbors", else the divergence's own slack (Kulis 2009, eq. 22); ``RelativeSlack()`` is
        the same of distance over bound; else ``SquaredHinge()``, or ``Squared()``, which is regression: it pulls every distance
        to its bound, met or not.
    strategy : {"auto", "neighbors", "random", "uniform"}
        What is asked of labelled points (see :func:`bregmat.constraints_from_labels`). "neighbors": that each point's nearest of its class
        are nearer than its nearest of others; y may be classes, numbers that are not whole, or sets of labels as 0 and 1, shape
        (n, n_labels). Else bounds for random pairs: "random" draws as many pairs of one class as of two, "uniform" draws all pairs alike,
        as in the papers. "auto" is "neighbors", unless "random", or not to learn at all, is better by three standard errors of its accuracy
        on halves of the training rows that are held out in turn; that takes 40 points of known classes, 4 of each.
    passes : int
        With "neighbors": how often rows are drawn, after the first time in the metric learned so far; fewer if the rows that matter
        no longer change, or come round again (``result_.exit_reason`` is then CYCLE). Of more than 5,000 points 2,500 take part in all
        passes but the last, if that leaves 25 of each class.
    n_neighbors, n_impostors : int
        With "neighbors": points of its class and of others that each point is compared with.
    form : {"comparison", "sq_distance"}
        With "neighbors": comparisons of the two, or bounds on both.
    n_constraints : int, optional
        Most rows drawn from the labels y. By default 40 k^2 random pairs for k classes, or all comparisons; 0 ignores y.
    percentiles : (float, float)
        With "random" and "uniform": percentiles, 0 to 100, of the squared distances in the data: same-class pairs shall be nearer than the
        lower, different-class pairs farther than the upper one.
    unlabeled : object
        Label in y that means "not known", beside None and NaN.
    prior : {"auto", "identity", "variance", "covariance", "within"} or array-like, shape (d, d)
        W0. "variance" is the metric of columns scaled to unit variance (constant ones count nothing), "covariance" the inverse
        covariance of the rows of X; where that is singular, its pseudo-inverse (see
        :func:`bregmat.estimators.priors.inverse_covariance`). "within" is the inverse covariance within the classes of y (the
        tenths of numbers, equal sets of labels), shrunk toward "variance" where rows are few (see
        :func:`bregmat.estimators.priors.inverse_within`); not in blocks. "auto" is "identity" for random pairs and
        given constraints, whose bounds are in the units of the data. With neighbours it is "variance", unless the 4 nearest training rows
        are of the right class more often in X as it is, by one and a half standard errors: columns of one unit, such as pixels,
        principal components and embeddings, are often better left alone.
    solver : str or object
        As in :func:`bregmat.nearest_kernel`.
    tol : float
        Relative duality gap to reach; positive, dimensionless.
    max_iter : int, optional
        Most iterations of the solver. None is the solver's own limit.
    warm_start : bool
        Start from the dual of the previous fit when it had as many constraints. Not with blocks.
    verbose : int
        1 prints progress at doubling iterations and at least every second, and how the fit ended; 2 every iteration.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every iteration; return True to stop.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn from labels.

    Attributes
    ----------
    components_ : ndarray, shape (r, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``, formed when first asked for if d is large. Ordered
        so that the mapped training data varies most along the first (above 2,000 features only with
        ``n_components``; else in the order of the solver); with ``n_components`` and "neighbors" as said there.
    constraints_ : Constraints
        The rows used, drawn and given; named by ``sample_id`` if given, else by row numbers of X.
    n_dropped_constraints_ : int
        Given constraints left out because a sample they name is not in ``sample_id``.
    prior_ : str
        The prior in use by its name, where "auto" was asked for too; "given" for an array.
    strategy_ : str or None
        What was asked of the labels; None where not to learn was better: the metric is the prior then.
    slack_weight_ : float
        The slack weight in use.
    comparison_ : dict of str to float
        Accuracies of 4 nearest neighbours that "auto" decided by; empty where nothing was compared.
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per row of ``constraints_``), history; with "neighbors" those of the last
        pass, with the history of all: ``stage`` is the pass of a record.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had them.

    Notes
    -----
    Kulis 2009, section 3.2 and eq. 22; with divergence="logdet" this is the optimum that the ITML of Davis 2007
    approaches. Bounds are on *squared* distances. Distances that this class returns are not squared.

    Labels and constraints can be given together and are joined. In cross-validation scikit-learn hands ``constraints``
    over whole and X and ``sample_id`` as a fold: rows whose samples are not in the fold are dropped and counted.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> MetricLearner(random_state=0).fit_transform(X, y).shape
    (178, 13)
    """

    divergence: DivergenceName | SpectralDivergence = field(default="logdet", kw_only=False)
    strategy: Literal["auto"] | Strategy | None = "auto"
    slack_weight: Literal["auto"] | float = "auto"
    n_components: int | None = None
    prior: Literal["auto"] | MetricPrior | Table = "auto"

    _decided = ("strategy", "slack_weight")
    transform = MahalanobisMetric.transform  # a class's own, or set_output passes it by

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------ fit
    def fit(
        self,
        X: Points | Factor,
        y: Labels | None = None,
        *,
        constraints: Constraints | LazyConstraints | None = None,
        sample_id: Labels | None = None,
        sample_weight: Values | None = None,
        executor: Any = None,
        block_size: int | None = None,
    ) -> Self:
        """Learn from labels, constraints or both.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite. Also an array or data frame of Dask, or points in files (:func:`bregmat.io.open_points`). These are processed
            in blocks, and so is an array if ``executor`` or ``block_size`` is given.
        y : array-like, shape (n,), optional
            Class labels of any type; rows labelled ``unlabeled``, None or NaN take no part in the pairs. Dask's, too. In blocks not
            numbers that are not whole, nor sets of labels.
        constraints : Constraints, optional
            Name values of ``sample_id``, or row numbers of X. Without y also in files (:func:`bregmat.io.open_constraints`) or in a
            data frame of Dask; then ``dual``, ``values`` and ``violation`` of ``result_`` stay with the rows.
        sample_id : array-like, shape (n,), optional
            Name of each row of X; unique. By default the row numbers; the index of a pandas DataFrame if the
            constraints name samples by anything but numbers. Not with blocks.
        sample_weight : array-like, shape (n,), optional
            How much each point counts, as in :meth:`bregmat.KernelLearner.fit`. Not with blocks.
        executor : None, int or dask.distributed.Client
            Where blocks are processed: one after the other, on that many threads, or on the workers of a cluster. The result has the
            same bits in all cases.
        block_size : int, optional
            Maximum number of rows of a block of points or constraints.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad parameter or input, named in the message; neither labels nor constraints.
        SolverError
            The constraints are contradictory, or the computation is not finite. No fitted attribute is left.
        KeyboardInterrupt
            Ctrl-C. What was learned by then, if anything, is kept: ``result_`` and all else, named in a RuntimeWarning.

        Notes
        -----
        In blocks the same constraints are drawn as in memory with the same ``random_state``, whatever the executor. Neighbours are exact:
        every block is searched for each point that takes part. If ``n_constraints`` (by default 300,000) does not allow all points,
        those that take part are drawn before their neighbours are known, not after.
        """
        if is_for_blocks(executor, block_size, X, constraints):
            with self._fitting():
                self._fit_in_blocks(X, y, constraints, (sample_id, sample_weight), executor, block_size)
            return self
        rows: Any = constraints
        return super().fit(X, y, constraints=rows, sample_id=sample_id, sample_weight=sample_weight)

    def _fit_in_blocks(
        self, X: Any, y: Any, constraints: Any, others: tuple[Any, Any], executor: Any, block_size: int | None
    ) -> None:
        from bregmat.estimators.blocks import BlockLabels, BlockProblem, block_prior
        from bregmat.sharded.points import PointsInBlocks

        self._check_parameters()
        for name, value in zip(("sample_id", "sample_weight"), others):
            if value is not None:
                raise TypeError(f"{name} is not taken where points are processed in blocks.")
        if self.warm_start:
            raise ValueError("warm_start=True is not taken where points are processed in blocks: leave it False.")
        self._check_asked(y, constraints)
        points = PointsInBlocks(X, None if self.n_constraints == 0 else y, executor, block_size)
        self._checked_points(points.example)
        given: Any = constraints
        self.n_dropped_constraints_ = 0
        if constraints is None or isinstance(constraints, Constraints):
            given, self.n_dropped_constraints_ = given_constraints(constraints, None, points.shape[0])
        elif y is not None:
            raise TypeError(
                "constraints must be in memory to be joined with those drawn from y: leave out one of them."
            )
        labels = None if y is None or self.n_constraints == 0 else BlockLabels.of(points, self.unlabeled)
        task = Task(self, points.shape[0], given, labels, None)
        self._decide(points, task)
        prior = block_prior(points, self.prior_) if isinstance(self.prior, str) else self._prior(points, task)
        problem = BlockProblem(points, prior, block_size)
        result, rows = self._learn_on(problem, points, task)
        self._keep_all(points, task, result, rows)

    def _checked_points(self, X: Any) -> Any:
        X = to_numpy("X", X)
        X = validated(self, X, accept_sparse="csr", ensure_min_samples=2)
        check_at_most("n_components", self.n_components, X.shape[1], "features")
        return X

    def _learn(self, X: Any, task: Task) -> tuple[MatrixResult, Constraints]:
        self._decide(X, task)
        problem: Any = MetricProblem(CheckedPoints(X, task.space), self._prior(X, task))
        return self._learn_on(problem, X, task)

    def _learn_on(self, problem: Any, X: Any, task: Task) -> tuple[MatrixResult, Constraints]:
        result, rows = task.learn(problem)
        if result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
            return result, rows
        try:
            points = self._neighborhood(X, task, result)
            if points is None or not as_divergence(self.divergence).keeps_range:
                return result, rows
            assert self.n_components is not None
            few = few_components(points, self.n_components)
            if few is None:
                return result, rows
            return task.learn(replace(problem, prior=Factor(result.B @ few)), after=result)
        except KeyboardInterrupt:  # before there is anything of that rank
            take_interrupt()
            return cut_short(result), rows

    def _keep(self, X: Any, task: Task, result: MatrixResult) -> None:
        points = self._neighborhood(X, task, result)
        order = None if points is None else points.ordered()
        self._fit_components = principal_components(result, X, self.n_components, order)

    def _neighborhood(self, X: Any, task: Task, result: MatrixResult) -> Neighborhood | None:
        """The mapped points and their neighbours; None where these do not decide which components are kept."""
        n, d = X.shape
        if self.n_components is None or self.strategy_ != "neighbors" or task.labels is None or d > MOST_FEATURES:
            return None
        sample = slice(None, None, max(-(-n // MOST_ROWS), -(-n * d // MOST_NUMBERS)))
        kinds = task.labels.kinds_of(np.arange(n)[sample])
        points = Neighborhood(np.asarray(X[sample] @ result.B), kinds, self.n_neighbors, self.n_impostors)
        return points if len(points.compared) else None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_components", self.n_components, 1)
        if isinstance(self.prior, str) and self.prior not in ("auto", *PRIORS):
            raise ValueError(
                f'prior must be "auto", "identity", "variance", "covariance", "within" or a (d, d) array; got {self.prior!r}.'
            )

    def _decide(self, X: Any, task: Task, compared: Mapping[str, float] = MappingProxyType({})) -> None:
        """Set :attr:`prior_`, too."""
        self.prior_: str = self.prior if isinstance(self.prior, str) else "given"
        if self.prior_ == "auto":
            self.prior_ = "identity"  # bounds are in the units of the data
            if task.given is None and task.labels is not None and self.strategy in ("auto", "neighbors", None):
                rows, codes = self._sample(X, task)
                self.prior_, compared = scaled_or_not(X[rows], codes)
        super()._decide(X, task, compared)

    @property
    def _may_compare(self) -> bool:
        return self.prior_ in POINTS_PRIORS

    @property
    def _quickly(self) -> dict[str, Any]:
        return {"prior": self.prior_, "n_components": None}

    def _prior(self, X: Any, task: Task) -> np.ndarray | Factor | None:
        if isinstance(self.prior, str):
            name = self.prior_
            if name == "variance":
                return Factor(sp.diags_array(inverse_deviations(X), format="csr"))
            return None if name == "identity" else Factor(prior_components(X, name, self._codes(task)).T)
        prior = as_matrix("prior", self.prior)
        d = X.shape[1]
        if prior.shape != (d, d):
            raise ValueError(f"prior must have shape ({d}, {d}) for X with {d} features; got {prior.shape}.")
        return prior

    def _codes(self, task: Task) -> np.ndarray | None:
        """Class of each point for a prior that asks for it."""
        if self.prior != "within" or task.labels is None:
            return None
        return task.labels.kinds.codes
