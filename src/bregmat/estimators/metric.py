"""MetricLearner: a Mahalanobis metric from labels, constraints or both, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from bregmat.base.checks import as_choice, check_integer, to_numpy
from bregmat.base.linalg import dense, eigh, unit_rows
from bregmat.base.points import CheckedPoints
from bregmat.base.threads import on_one_blas_thread, take_interrupt
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.engine.status import ExitReason, Status
from bregmat.estimators.base import validated
from bregmat.estimators.learner import ConstraintLearner
from bregmat.estimators.linear_maps import (
    MOST_FEATURES,
    MOST_NUMBERS,
    MOST_ROWS,
    PRIORS,
    components_of_many,
    factor_of,
    given_prior,
    in_span,
    inverse_within,
    points_in_prior,
    prior_factor,
    pruned,
    scatter,
)
from bregmat.estimators.mahalanobis import MahalanobisMetric
from bregmat.estimators.selection import Trials
from bregmat.estimators.softmax import learn_softmax, why_no_softmax
from bregmat.estimators.task import MANY_POINTS, Candidate, Task, TrainingProblem
from bregmat.from_labels.dimension import Neighborhood, few_components
from bregmat.from_labels.neighbors import STRATEGIES, PointSpace
from bregmat.nearest import is_for_blocks, nearest_metric
from bregmat.objective.spectral import SpectralDivergence
from bregmat.typing import DivergenceName, Labels, MetricKind, MetricPrior, Points, Table, Values

if TYPE_CHECKING:
    from bregmat.sharded.sources import LazyConstraints

LARGEST_VALUE = 1e70  # of X: fourth powers are finite
FEW_FEATURES = 200  # above, the prior "auto" of many points is restricted to their leading components
# Candidates for prior, strategy and slack weight, simpler ones first: docs/defaults.md says what each of them is for.
CANDIDATES = (
    *(Candidate(None, prior=prior) for prior in ("identity", "variance", "within")),
    *(Candidate("neighbors", weight, prior) for prior in ("variance", "identity") for weight in (0.3, 1.0)),
    Candidate("neighbors", 0.1, "within"),
    *(Candidate("softmax", 1.0, prior) for prior in ("identity", "variance", "within")),
    # only if "random" is asked for: where random pairs are better than neighbours, the softmax loss is better still
    Candidate("random", 1.0, "identity"),
    Candidate("random", 0.1, "within"),
)
# For rows of many columns and of different lengths, such as the features of a network, also cosines.
COSINES = (
    Candidate(None, prior="within", metric="cosine"),
    Candidate("neighbors", 0.1, "within", metric="cosine"),
    Candidate("softmax", 1.0, "identity", metric="cosine"),
)


@dataclass(frozen=True, eq=False)
class MetricProblem(TrainingProblem):
    """Points, and a prior metric W0 as :func:`bregmat.nearest_metric` takes it."""

    points: CheckedPoints
    prior: Any

    def space(self, result: MatrixResult | None, among: np.ndarray) -> PointSpace:
        X, prior = self.points.points, self.prior
        rows = None
        if 2 * len(among) < X.shape[0]:  # the others would only fill memory
            rows = np.sort(among)
            X = X[rows]
        if result is not None:
            X = result.coordinates.transform(X, result.iterate)
        elif prior is not None:
            X = X @ factor_of(prior)
        return PointSpace(X, among, rows)

    def pairs(self, task: Task) -> Constraints:
        """Random pairs, bounded by percentiles of the distances in the prior metric."""
        return task.random_pairs(self.points.points, P=factor_of(self.prior))

    def sampled(self, rows: np.ndarray) -> MetricProblem:
        return MetricProblem(CheckedPoints(self.points.points[rows]), self.prior)

    def solve(self, rows: Constraints, **settings: Any) -> MatrixResult:
        prior = Factor(CheckedPoints(self.prior.G0)) if isinstance(self.prior, Factor) else self.prior
        return nearest_metric(self.points, rows, prior=prior, **settings)


class MetricTrials(Trials):
    """Quick fits in coordinates in which the prior is the identity.

    The coordinates of "within" depend on the labels of the training part, the others are computed once. If there are more columns
    than rows, the points are represented in the span of the sample, which changes no distance. Of more than ``n_most`` columns, the leading
    principal components are used, as in the final fit to many points.
    """

    def __init__(self, learner: MetricLearner, sample: Task, n_most: int) -> None:
        super().__init__(learner, sample)
        self.n_most = n_most
        self.known: dict[Any, np.ndarray] = {}

    def __call__(self, candidate: Candidate, train: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        Z = self._points(candidate.prior, candidate.metric, train)
        shown = unit_rows if candidate.metric == "cosine" else (lambda Y: Y)
        if candidate.strategy is None:
            return lambda rows: shown(Z[rows])
        labels = self.sample.labels.of_rows(train)
        part = replace(self.sample, X=Z[train], labels=labels, candidate=candidate)
        if candidate.strategy == "softmax":
            result: MatrixResult = learn_softmax(part, part.X, None)
        else:
            result, _ = part.learn(MetricProblem(CheckedPoints(part.X), None))
        return lambda rows: shown(np.asarray(result.transform(Z[rows])))

    def _points(self, prior: Any, metric: MetricKind, train: np.ndarray) -> np.ndarray:
        """The sample in the coordinates of a prior, shape (n, r)."""
        key = (prior, metric, train.tobytes()) if prior == "within" else (prior,)
        if key not in self.known:
            X, labels = self.sample.X, self.sample.labels
            if prior == "within":
                Z = self._points("identity", metric, train)
                seen = unit_rows(Z[train]) if metric == "cosine" else Z[train]
                Z = Z @ inverse_within(seen, labels.codes[train], X.shape[1])
            else:
                Z = points_in_prior(X, self.learner.prior if prior == "given" else prior)
                Z = dense(Z) if Z.shape[1] <= Z.shape[0] else in_span(Z)
            Z = np.asarray(Z, dtype=float)
            if Z.shape[1] > self.n_most:
                Z = Z @ eigh(scatter(Z)[0])[1][:, ::-1][:, : self.n_most]
            self.known[key] = Z
        return self.known[key]


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class MetricLearner(MahalanobisMetric, ConstraintLearner):
    """Mahalanobis metric nearest to a prior metric that puts similar points near and dissimilar points far.

        minimize over W >= 0:   D(W, W0) + slack_weight * sum_i d(p_i, bound_i)
        with p_i = (x - y)' W (x - y), the squared distance of pair i

    Use it before any method that works with Euclidean distances, such as nearest neighbours, k-means and kernel machines. With labels, the
    learner compares combinations of the settings that are "auto" on held-out folds of at most 1,500 training rows, and not learning among
    them; ``selection_`` is the table. Then it draws constraints from the labels of all rows and learns from them.

    Parameters
    ----------
    divergence : {"auto", "logdet", "vonneumann", "frobenius"} or object
        Divergence D from the prior; "auto" is "frobenius" with the strategy "softmax", otherwise "logdet", which does not depend on the
        units of the data, keeps W positive definite, and is the fastest.
    n_components : int, optional
        Number of components of the learned map to keep, 1 to d; by default all. With the strategy "neighbors" these are the components that
        separate neighbours of the same class best from points of other classes. If truncation loses accuracy, a map of that rank is
        optimised instead, and the metric is learned again in its range ("logdet" and "vonneumann", up to 2,000 features; see
        :func:`bregmat.from_labels.dimension.few_components`). With other strategies the components of largest variance are kept.
    slack_weight : "auto" or float
        Weight of the loss of violated bounds beside the divergence; positive, dimensionless. With ``inf`` all bounds must hold (not with
        "softmax"). "auto" is chosen on held-out rows. With "neighbors" and "softmax" the chosen value is multiplied by n / 500 for n
        labelled rows, but by no less than 1 and no more than 5; with "neighbors" by less if classes are small
        (:func:`bregmat.estimators.task.growth`). With given constraints it is 1.
    loss : None, "relative_slack", "squared", "squared_hinge" or object
        Loss of violated bounds. None is the squared hinge with "neighbors", otherwise the divergence's own slack (Kulis 2009, eq. 22).
        ``RelativeSlack()`` applies the same slack to the quotient of distance and bound. ``Squared()`` is regression: it also penalises
        distances that satisfy their bound strictly.
    strategy : {"auto", "neighbors", "softmax", "random", None}
        How labels are learned from. "neighbors" asks that the nearest points of the same class are nearer than the nearest points of other
        classes; y may hold classes, real numbers, or sets of labels as 0 and 1, shape (n, n_labels). "softmax" takes classes. It minimises,
        beside the divergence, 100 ``slack_weight`` times the mean over the rows i, weighted by ``sample_weight``, of the mean over the
        other rows j of the class of i of ``-log softmax_j(-p_ij / T)``, where T is a tenth of the median squared distance in the prior;
        with the metric "cosine" of ``-log softmax_j(cos_ij / 0.1)``. It uses no constraints. If more than 2,000 rows are labelled, it
        learns from 2,000 that are drawn at random, in whole classes if these are small. "random" bounds the squared distances of random
        pairs, half of them within classes, by the 5th and the 95th percentile of the squared distances in the prior metric (see
        :func:`bregmat.constraints_from_labels`). With None nothing is learned: the metric is the prior. "auto" compares "neighbors",
        "softmax" (up to 5,000 rows, and only without a divergence, a loss or a solver of yours) and None on held-out rows, together with
        the prior and the slack weight. If not learning is best, the result is the prior, and a warning says so. With given constraints
        nothing is compared.
    n_neighbors, n_impostors : int
        With "neighbors": number of neighbours of the same class and of other classes that each point is compared with.
    n_constraints : int, optional
        Maximum number of constraints drawn from y. By default 40 k^2 random pairs for k classes, at most
        1,000,000, or 300,000 comparisons; 0 ignores y.
    target_type : {"auto", "class", "number", "sets"}
        What y holds. "auto" reads several columns as sets of labels, numbers that are not all whole as numbers, and whole numbers as
        classes, unless they look measured (:func:`bregmat.from_labels.groups.are_numbers`); ``verbose=1`` says which.
    unlabeled : object
        Label in y that means "unknown", in addition to None and NaN.
    prior : {"auto", "identity", "variance", "covariance", "within"} or array-like, shape (d, d)
        The prior metric W0. "variance" scales each column to unit variance and ignores constant columns. "covariance" is the inverse
        covariance of the rows of X, or its pseudo-inverse if it is singular (:func:`bregmat.estimators.linear_maps.inverse_covariance`).
        "within" is the inverse covariance within the classes of y, shrunk toward the identity if there are few rows
        (:func:`bregmat.estimators.linear_maps.inverse_within`). With the metric "cosine" it is that of the rows divided by their lengths.
        Numbers are grouped by deciles, and the prior is not available in blocks.
        "auto" compares "identity", "variance" and "within" on held-out rows. For given constraints it is "identity", because their bounds
        have the units of the data.
        For more than 5,000 points in memory with 201 to 2,000 features, the "auto" prior of neighbours is 0 outside of the leading
        principal components that hold 95 % of the variance, and so is the metric. A named prior keeps all dimensions.
    metric : {"auto", "euclidean", "cosine"}
        How mapped rows are compared. With "cosine", ``transform`` divides them by their lengths, so that neighbours by distance are those
        by cosine, and "softmax" learns from cosines. They are linearised at the prior, and up to two times more at the solution.
        "auto" is "cosine" if there are labels and all rows of X that are not 0 have one length, as embeddings often have. For other rows of
        200 to 2,000 columns, cosines are also among the candidates that are compared.
    solver : str or object
        As in :func:`bregmat.nearest_kernel`.
    tol : float
        Relative duality gap to reach; positive, dimensionless.
    max_iter : int, optional
        Maximum number of iterations of the solver. None is the solver's own limit.
    warm_start : bool
        Whether to start from the dual weights of the previous fit if it had as many constraints. Not with blocks.
    verbose : int
        1 prints progress whenever the number of iterations has doubled and at least every second, and how the fit ended; 2 prints every
        iteration.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every iteration. If it returns True, the fit stops.
    random_state : int, Generator, RandomState or None
        Seed for drawing constraints from labels.

    Attributes
    ----------
    components_ : ndarray, shape (r, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``. If d is large, it is computed at the first access. The rows are ordered
        by the variance of the mapped training data, largest first; for more than 2,000 features only if ``n_components`` is given.
        ``n_components`` describes the order with "neighbors". With "softmax" the metric may be of lower rank, with fewer rows than asked
        for. With the metric "cosine", ``transform`` also divides by lengths.
    constraints_ : Constraints or None
        The constraints used, drawn and given; None with "softmax". Samples are named by ``sample_id`` if it was given, otherwise by row
        numbers of X.
    n_dropped_constraints_ : int
        Number of given constraints that were left out because they name a sample that is not in ``sample_id``.
    prior_ : str
        Name of the prior in use; "given" for an array.
    metric_ : {"euclidean", "cosine"}
        How mapped rows are compared.
    strategy_ : str or None
        The strategy in use. None means that not learning was more accurate: the metric is the prior.
    slack_weight_ : float
        The slack weight in use.
    selection_ : pandas.DataFrame, or dict of lists without pandas
        The candidates that were compared, one per row: ``candidate`` (prior, strategy, slack weight), its mean ``score`` on held-out rows
        with the ``standard_error``, ``n_folds`` on which it was tried before it fell behind, ``seconds``, and ``chosen``. The score of
        classes is the mean of 1-NN accuracy, 4-NN accuracy and the fraction of the class among the 5 nearest rows, or the 1-NN accuracy of
        classes that are held out whole; of numbers R^2, and of sets the Jaccard similarity, with 5 neighbours.
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per constraint) and history. With "neighbors" it is the result of the
        last pass with the history of all passes; ``stage`` of a record is the number of its pass.
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

    With "neighbors", the learner makes one pass or three: it searches neighbours and draws constraints, from the second pass on in the
    metric learned so far. Held-out rows tell which is better if more than 500 rows and ten rows for each column are compared. Otherwise
    there is one pass, and with given constraints three. Passes end earlier if the active constraints no longer change, or if they repeat
    those of an earlier pass (``result_.exit_reason`` is then CYCLE). If there are more than 5,000 points, all passes but the last use a
    sample of 2,500 points, provided that the sample has 25 points per class. If more than 200,000 points in memory are labelled,
    neighbours are searched among 200,000 of them that are drawn at random, in whole classes if these are small. For constraints of
    another form or with other percentiles, pass those of :func:`bregmat.constraints_from_labels` to ``fit``.

    Labels and constraints can be given together and are joined. In cross-validation scikit-learn hands ``constraints``
    over whole, and X and ``sample_id`` for each fold. Constraints whose samples are not in the fold are dropped and counted.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = MetricLearner(random_state=0).fit(X, y)
    >>> print(learner.result_.status, learner.transform(X).shape[0])
    OPTIMAL 178
    """

    divergence: Literal["auto"] | DivergenceName | SpectralDivergence = field(default="auto", kw_only=False)
    n_components: int | None = None
    prior: Literal["auto"] | MetricPrior | Table = "auto"
    metric: Literal["auto"] | MetricKind = "auto"

    _strategies: ClassVar[tuple[str, ...]] = (*STRATEGIES, "softmax")
    _usual: ClassVar[dict[str, Any]] = ConstraintLearner._usual | {"prior": "identity", "metric": "euclidean"}

    transform = MahalanobisMetric.transform  # set_output wraps only methods that the class itself defines

    # ------------------------------------------------------------------ fit
    def fit(
        self,
        X: Points | Factor,
        y: Labels | None = None,
        *,
        constraints: Constraints | LazyConstraints | None = None,
        sample_id: Labels | None = None,
        sample_weight: Values | None = None,
        groups: Labels | None = None,
        executor: Any = None,
        block_size: int | None = None,
    ) -> Self:
        """Learn from labels, constraints or both.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite. Also points in files (:func:`bregmat.io.open_points`). These are processed in blocks, and so is an array if
            ``executor`` or ``block_size`` is given.
        y : array-like, shape (n,), optional
            Class labels of any type, numbers, or sets of labels as 0 and 1 (n, n_labels): see ``target_type``. Rows with the label
            ``unlabeled``, None or NaN, and sets without a label, are unknown. Blocks support classes only.
        constraints : Constraints, optional
            Their samples are values of ``sample_id``, or row numbers of X. Without y they may also be in files
            (:func:`bregmat.io.open_constraints`); then ``dual``, ``values`` and ``violation`` of ``result_`` are kept with the
            constraints and fetched on request.
        sample_id, sample_weight, groups : array-like, shape (n,), optional
            As in :meth:`bregmat.KernelLearner.fit`. Not with blocks.
        executor : None, int or dask.distributed.Client
            Where blocks are processed: one after the other, on that many threads, or on the workers of a cluster. The result has the
            same bits in all cases.
        block_size : int, optional
            Maximum number of points or constraints of a block.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            A parameter or an input is invalid, and the message names it; or there are neither labels nor constraints.
        SolverError
            The constraints contradict each other, or the computation is not finite. No fitted attributes are set.
        KeyboardInterrupt
            After Ctrl-C. If a point was reached, all fitted attributes are set, and a RuntimeWarning says so.

        Notes
        -----
        With the same ``random_state``, the same constraints are drawn in blocks and in memory, whatever the executor. Neighbours are exact:
        all blocks are searched for each point. If ``n_constraints`` (by default 300,000) does not suffice for all points, the points are
        drawn before the neighbours are searched, not afterwards.
        """
        names: dict[str, Any] = {"sample_id": sample_id, "sample_weight": sample_weight, "groups": groups}
        if is_for_blocks(executor, block_size, X, constraints):
            from bregmat.estimators.blocks import fit_in_blocks

            with self._fitting():
                fit_in_blocks(self, X, y, constraints, names, executor=executor, block_size=block_size)
            return self
        rows: Any = constraints
        return super().fit(X, y, constraints=rows, **names)

    def _checked_points(self, X: Any) -> Any:
        X = validated(self, to_numpy("X", X), accept_sparse="csr", ensure_min_samples=2)
        k, d = self.n_components, X.shape[1]
        if k is not None and k > d:
            raise ValueError(f"n_components must be at most {d}, the number of features; got {k}.")
        largest = max(float(X.max()), -float(X.min()))
        if largest > LARGEST_VALUE:
            row = int(np.argmax(dense(abs(X).max(axis=1))))
            raise ValueError(
                f"values of X must be at most {LARGEST_VALUE:.0e} in size, so that their powers are finite; "
                f"got {largest:.3g} in row {row}. Divide X by {largest:.0e}."
            )
        return X

    def _candidates(self, task: Task) -> list[Candidate]:
        candidates = list(CANDIDATES)
        is_in_memory, d = not task.is_in_blocks, task.X.shape[1]
        is_free = isinstance(self.prior, str) and self.prior == "auto"
        if is_free and not (is_in_memory and d <= MOST_FEATURES):  # no (d, d) covariance within classes
            candidates = [one for one in candidates if one.prior != "within"]
        metric = task.candidate.metric
        if self.metric == "auto" and metric == "euclidean" and is_in_memory and FEW_FEATURES <= d <= MOST_FEATURES:
            candidates += COSINES
        if metric == "cosine" and is_free:  # with cosines, the softmax loss is best from the identity
            candidates = [one for one in candidates if one.strategy != "softmax" or one.prior == "identity"]
        if self.strategy != "auto":
            return candidates
        # softmax only if nothing that is asked for belongs to other strategies, and all rows can be used
        is_plain = not why_no_softmax(task) and self.divergence == "auto" and task.labels.target_type == "class"
        may_use_softmax = is_plain and len(task.labels.labelled) <= MANY_POINTS
        left_out = {"random"} if may_use_softmax else {"random", "softmax"}
        return [one for one in candidates if one.strategy not in left_out]

    @property
    def metric_(self) -> MetricKind:
        """How mapped rows are compared: "euclidean", or "cosine" if ``transform`` gives rows of length 1."""
        check_is_fitted(self)
        return self._fit_metric

    def _trials(self, sample: Task, task: Task) -> Trials:
        return MetricTrials(self, sample, FEW_FEATURES if task.X.shape[0] > MANY_POINTS else MOST_FEATURES)

    def _problem(self, task: Task) -> MetricProblem:
        X: Any = task.X
        n, d = X.shape
        prior: Any
        name = task.candidate.prior or "identity"
        if name == "given":
            prior = given_prior(self.prior, d)
        else:
            codes = task.labels.codes if name == "within" and task.labels is not None else None
            is_of_directions = codes is not None and task.candidate.metric == "cosine"
            P = prior_factor(unit_rows(X) if is_of_directions else X, name, codes)
            prior = None if P is None else Factor(P)
        # a step costs O(n d^2): the "auto" prior of many points in many dimensions is restricted to their leading components
        is_free = isinstance(self.prior, str) and self.prior == "auto" and task.labels is not None
        is_large = n > MANY_POINTS and FEW_FEATURES < d <= MOST_FEATURES and not sp.issparse(X)
        if is_free and is_large and task.candidate.strategy == "neighbors":
            prior = Factor(pruned(X, None if prior is None else prior.G0, self.n_components or 1))
        return MetricProblem(CheckedPoints(X, task.space), prior)

    def _learn(self, problem: Any, task: Task) -> tuple[MatrixResult, Constraints | None]:
        """The result; if few components are wanted and the leading ones lose accuracy, that of a map of low rank."""
        if task.candidate.strategy == "softmax" and task.labels is not None:
            return learn_softmax(task, task.X, factor_of(problem.prior)), None
        result, rows = task.learn(problem)
        if self.n_components is None or not task.settings["divergence"].keeps_range:
            return result, rows
        if result.status is Status.INFEASIBLE or result.exit_reason is ExitReason.INTERRUPTED:
            return result, rows
        try:
            points = self._neighborhood(task, result)
            few = None if points is None else few_components(points, self.n_components)
            if few is None:
                return result, rows
            return task.learn(replace(problem, prior=Factor(result.B @ few)), after=result)
        except KeyboardInterrupt:  # no map of that rank exists yet: keep the full one
            take_interrupt()
            return replace(result, exit_reason=ExitReason.INTERRUPTED), rows

    def _keep(self, problem: Any, task: Task, result: MatrixResult) -> None:
        """Set the components of the learned map: by default the principal components of the mapped X, those of largest variance first.

        If some are selected by neighbours, they are ordered by how much farther impostors are than targets along them. With more than
        2,000 features no components are formed if all of them are kept.
        """
        X, k = task.X, self.n_components
        points = None if k is None else self._neighborhood(task, result)
        if X.shape[1] > MOST_FEATURES:
            components = None if k is None else components_of_many(result, X, k)
        elif points is not None:
            components = (result.B @ points.ordered()[:, :k]).T
        else:
            B, seen = result.coordinates.factor_map(result.iterate), X[:: -(-X.shape[0] // MOST_ROWS)]
            order = eigh(B.T @ (scatter(seen)[0] / max(1, seen.shape[0] - 1)) @ B)[1][:, ::-1]
            components = (B @ order[:, :k]).T
        if components is not None:
            # signs that do not depend on the eigenvalue routine: the largest entry of each row is positive
            largest = np.abs(components).argmax(axis=1)
            signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
            components = np.ascontiguousarray(components * signs[:, None])
        self._fit_components, self._fit_metric = components, task.candidate.metric
        self.prior_: str = task.candidate.prior or "identity"

    def _neighborhood(self, task: Task, result: MatrixResult) -> Neighborhood | None:
        """The mapped points and their neighbours; None if the components to keep do not depend on them."""
        n, d = task.X.shape
        if task.candidate.strategy != "neighbors" or task.labels is None or d > MOST_FEATURES:
            return None
        sample = slice(None, None, max(-(-n // MOST_ROWS), -(-n * d // MOST_NUMBERS)))
        labels = task.labels.of_rows(np.arange(n)[sample])
        points = Neighborhood(np.asarray(task.X[sample] @ result.B), labels, self.n_neighbors, self.n_impostors)
        return points if len(points.neighbors.points) else None

    def _check_parameters(self) -> dict[str, Any]:
        settings = super()._check_parameters()
        check_integer("n_components", self.n_components, 1)
        as_choice("metric", self.metric, ("auto", *get_args(MetricKind)))
        if isinstance(self.prior, str) and self.prior not in ("auto", *PRIORS):
            raise ValueError(
                f'prior must be "auto", "identity", "variance", "covariance", "within" or a (d, d) array; got {self.prior!r}.'
            )
        return settings
