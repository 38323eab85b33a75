"""RetrievalLearner: a linear map for queries and documents, learned from right answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bregmat.applications.softmax import SoftmaxResult
from bregmat.base.checks import as_choice, as_matrix, check_integer, check_positive, generator
from bregmat.base.linalg import unit_rows
from bregmat.base.threads import on_one_blas_thread
from bregmat.engine.result import check
from bregmat.estimators.base import AllOrNothing, callback_of, check_run, say, validated
from bregmat.estimators.mahalanobis import MahalanobisMetric
from bregmat.retrieval.passes import (
    MIN_COMPARED,
    Comparison,
    Corpus,
    Prior,
    RetrievalPasses,
    Setting,
    compare,
    priors,
    root_of,
    unlearned,
)
from bregmat.retrieval.relevance import MEASURES, as_relevance, ranking_measures
from bregmat.typing import RandomState, Table


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class RetrievalLearner(AllOrNothing, BaseEstimator):
    """Linear map for the embeddings of queries and documents, after which the cosine ranks right answers first.

        minimize over W >= 0:   1/2 |W - I|^2 + slack_weight * mean_i loss_i
        loss_i = -log softmax_j(cos_W(q_i, d_j) / temperature)[right answer of i]

    With the prior "covariance", q and d are the vectors multiplied by the inverse root of their second moments.

    Use it for semantic search with the vectors of a model that cannot be trained further, if some queries are known with a document
    that answers each: clicks, question and answer, title and text. A few dozen queries suffice, and some of them may be wrong.
    Settings are chosen on held-out queries. If no setting is better there than the vectors as given, nothing is learned.

    Parameters
    ----------
    prior : {"auto", "identity", "covariance"}
        Metric from which the map is learned. "covariance" is the inverse of the second moments of queries and documents, with a ridge of
        at least three times their mean eigenvalue. It uses no answers, and reduces the few directions that all vectors share. "auto"
        takes it if it ranks the right answers of the queries higher than the vectors as given. If the temperature is a number, "auto"
        is "identity".
    temperature : "auto" or float
        Difference of two cosines that counts as large; positive. "auto" is the standard deviation of the cosines. With the prior
        "identity", half of it is compared, too.
    slack_weight : "auto" or float
        Weight of the loss beside the distance from the prior; positive, dimensionless. "auto" compares 30, 100 and 300 in this order, as
        long as the ranks of held-out queries improve. With the prior "identity", it compares 30 and 300 with the lower temperature, and
        300 with the higher one. If the temperature is given, it compares 10, 30, 100 and 300. If temperature and slack weight are both
        numbers, nothing is chosen.
    n_negatives : int
        Number of documents that answer no query of the problem, but are compared with the right answers. Half of them are nearest to the
        queries, half are drawn. By default the wrong answers of a query are the documents of the other queries.
    n_passes : int
        Number of convex problems. Each linearises the cosines at the solution of the one before.
    random_state : int, Generator, RandomState or None
        Seed of the held-out queries, of negatives, and of the sample of queries where there are very many.
    tol : float
        Relative duality gap of each pass; positive, dimensionless.
    max_iter : int, optional
        Maximum number of Newton steps of a pass.
    verbose : int
        1 prints each candidate, and progress at doubled steps and every second; 2 every step.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every step of the last fit; ``stage`` is the number of the pass. If it returns True, the
        fit stops.

    Attributes
    ----------
    components_ : ndarray, shape (d, d)
        The learned map, for queries and documents alike: ``transform(X)`` is ``X @ components_.T``. It is symmetric.
    result_ : SoftmaxResult
        Status, gap and dual variables of the last pass, with the history of all. With the prior
        "covariance", its W acts on the vectors after the map of the prior.
    prior_ : str
        The prior in use, "identity" or "covariance". If no setting is better than the prior alone, ``components_`` is the map of the prior.
    temperature_, slack_weight_ : float or None
        The settings in use; None if nothing was learned from answers.
    selection_ : dict of lists
        A table of the candidates: ``candidate``, ``mean_score`` (mean reciprocal rank of held-out queries), ``standard_error``,
        ``seconds`` of CPU time, ``chosen``. Not learning is the first, and then the prior. Empty with fewer than 10 queries.
    report_ : dict of dict
        Recall@1, recall@10, MRR and nDCG@10 of at most 600 held-out queries, "as given" and "learned". They are ranked among all documents,
        or 5,000 beside the right answers. The setting was chosen by the same queries, which flatters it a little.
    n_iter_, n_features_in_, feature_names_in_
        As in :class:`bregmat.MetricLearner`.

    Notes
    -----
    The choice compares reciprocal ranks and losses of held-out queries, each in standard errors of their paired differences. The sum of
    the two has to be larger than one for a larger slack weight, the higher temperature, or the prior "covariance", and positive for the
    first setting that is learned. If the mean reciprocal rank is below 0.2 as given, the first documents may be right answers that are
    not known: then only ranks count, and every candidate has to be better by two standard errors
    (:func:`bregmat.retrieval.passes.compare`). Right answers that are not known count as wrong: give all that are known.

    The cosine is not convex in W. In each pass it is replaced by its linearisation at the last W, which leaves a convex problem with a
    dual bound (:mod:`bregmat.applications.softmax.problem`); the duals are distributions over the documents of a query. Passes end
    early if the objective with the true cosines does not decrease. Queries without a right answer are left out. Equal documents count
    as one. One problem has at most 4,000,000 pairs of a query and a document: beyond that, a sample of the queries takes part.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import RetrievalLearner
    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(200, 20))
    >>> queries = documents + rng.normal(size=(200, 20)) * np.linspace(0, 4, 20)  # the last columns are noise
    >>> learner = RetrievalLearner(random_state=0).fit(queries[:100], documents[:100])
    >>> print(learner.result_.status)
    OPTIMAL
    >>> pairs = np.column_stack([np.arange(100), np.arange(100, 200)])
    >>> learner.score(queries[100:], documents, pairs) > 0.5
    True
    """

    prior: Literal["auto", "identity", "covariance"] = "auto"
    temperature: Literal["auto"] | float = "auto"
    slack_weight: Literal["auto"] | float = "auto"
    n_negatives: int = 0
    n_passes: int = 3
    random_state: RandomState = None
    tol: float = 1e-4
    max_iter: int | None = None
    verbose: int = 0
    callback: Callable[[Any], Any] | None = None

    transform = MahalanobisMetric.transform
    _mapped = MahalanobisMetric._mapped
    _fit_metric = MahalanobisMetric._fit_metric
    components_ = MahalanobisMetric.components_
    to_torch = MahalanobisMetric.to_torch

    def fit(self, queries: Table, documents: Table, relevant: Any = None) -> Self:
        """Learn the map from queries and their right answers.

        Parameters
        ----------
        queries : array-like, shape (n, d)
        documents : array-like, shape (m, d)
            All documents that are known, also those that answer no query: held-out queries are ranked among all.
        relevant : array-like of int, shape (k, 2); scipy.sparse, shape (n, m); or None
            Pairs of a query row and a document row, counted from 0; or grades, positive for right answers; or None: document i
            answers query i.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            A parameter or an input is invalid; the message names it.
        KeyboardInterrupt
            After Ctrl-C. If it came after the choice, all fitted attributes are set, and a RuntimeWarning says so.

        Warns
        -----
        UserWarning
            No candidate was better than the vectors as given on held-out queries: the map is the identity. Or there were fewer than 10
            queries to compare with, or the given setting is worse than the vectors as given.
        ConvergenceWarning
            The last pass did not reach the tolerance.
        """
        with self._fitting():
            self._check_parameters()
            corpus = self._corpus(queries, documents, relevant)
            rng = generator(self.random_state)
            compared = priors(corpus, self.prior, self.temperature, self.slack_weight)
            setting, comparison = self._choose(corpus, compared, rng)
            root = next((prior.root for prior in compared if setting and prior.name == setting.prior), None)
            if setting is None or not setting.slack_weight:
                result = unlearned(corpus.queries.shape[1], self.tol)
            else:
                group = corpus.mapped(root).group(self.n_negatives, rng)
                passes = RetrievalPasses(group, self.tol, self.max_iter, callback_of(self))
                passes.learn(setting, self.n_passes)
                assert passes.result is not None
                result = check(passes.result)
            self._keep(result, root, setting, comparison)
        text = self._warning_text(setting, comparison)
        if text is not None:
            warnings.warn(text, UserWarning, stacklevel=2)
        return self

    def score(self, queries: Table, documents: Table, relevant: Any = None) -> float:
        """Mean reciprocal rank of the first right answer among all documents, 0 to 1.

        Parameters
        ----------
        queries, documents, relevant
            As in :meth:`fit`. Queries without a right answer are left out.
        """
        check_is_fitted(self)
        rows = [
            unit_rows(self._rows(name, X) @ self.components_.T)
            for name, X in (("queries", queries), ("documents", documents))
        ]
        grades = as_relevance(relevant, *map(len, rows))
        answered = np.flatnonzero(np.diff(grades.indptr))
        measures = ranking_measures(rows[0][answered], rows[1], grades[answered])
        return float(measures[:, MEASURES.index("MRR")].mean())

    # ------------------------------------------------------------------ parts of fit
    def _choose(
        self, corpus: Corpus, compared: list[Prior], rng: np.random.Generator
    ) -> tuple[Setting | None, Comparison | None]:
        """The setting to learn with, None for not learning; and the comparison, None if there are too few queries for one."""
        if len(corpus.queries) < MIN_COMPARED:
            return compared[0].settings[0][0], None
        progress = (lambda line: say(f"{type(self).__name__}: {line}")) if self.verbose else None
        comparison = compare(corpus, compared, self.n_negatives, rng, progress)
        if "auto" not in (self.temperature, self.slack_weight):
            comparison.best = len(comparison.settings) - 1
        return comparison.settings[comparison.best], comparison

    def _warning_text(self, setting: Setting | None, comparison: Comparison | None) -> str | None:
        """The text of a warning if the map is not better on held-out queries, or if there are too few of them; otherwise None."""
        if setting is None:
            return (
                "no setting ranks the right answers of held-out queries clearly higher than the vectors as given: nothing is learned, and "
                "the map is the identity. See selection_."
            )
        is_given = "auto" not in (self.temperature, self.slack_weight)
        if comparison is None:
            if is_given:
                return None
            return (
                f"fewer than {MIN_COMPARED} queries have a right answer: whether learning helps was not tested, and the most cautious "
                f"setting is used ({setting}). Give more queries, or both settings."
            )
        unlearned, learned = (float(comparison.ranks(k).mean()) for k in (0, comparison.best))
        # a choice may be due to the losses of held-out queries, although their ranks are slightly lower: that needs no warning
        if is_given and learned < unlearned:
            return (
                f"held-out queries rank right answers lower with {setting} than as given: MRR {learned:.3f}, as given {unlearned:.3f}. "
                'Use a smaller slack_weight, or "auto". See report_.'
            )
        return None

    def _keep(
        self, result: SoftmaxResult, root: np.ndarray | None, setting: Setting | None, comparison: Comparison | None
    ) -> None:
        """Set the fitted attributes."""
        learned = setting if setting is not None and setting.slack_weight else None
        self.temperature_: float | None = None if learned is None else learned.temperature
        self.slack_weight_: float | None = None if learned is None else learned.slack_weight
        self.prior_ = "identity" if setting is None else setting.prior
        self.selection_ = {} if comparison is None else comparison.table()
        self.report_ = {} if comparison is None else comparison.report()
        self.n_iter_ = result.n_iter
        W = result.coordinates.metric(result.iterate)
        self._fit_components = root_of(W if root is None else root @ W @ root)
        self.result_ = result

    def _corpus(self, queries: Any, documents: Any, relevant: Any) -> Corpus:
        """The checked inputs; sets the number and the names of the columns."""
        Q: np.ndarray = as_matrix("queries", queries)
        validated(self, queries)
        D = self._rows("documents", documents)
        return Corpus.of(Q, D, as_relevance(relevant, len(Q), len(D)))

    def _rows(self, name: str, X: Any) -> np.ndarray:
        """Rows with as many columns as the queries of fit."""
        rows: np.ndarray = as_matrix(name, X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} must have {self.n_features_in_} columns, as queries in fit; got shape {rows.shape}."
            )
        return rows

    def _check_parameters(self) -> None:
        as_choice("prior", self.prior, ("auto", "identity", "covariance"))
        for name in ("temperature", "slack_weight"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(f'{name} must be "auto" or a number; got {value!r}.')
            if value != "auto":
                check_positive(name, value, finite=True, hint='"auto" or ')
        check_integer("n_negatives", self.n_negatives, 0, optional=False)
        check_integer("n_passes", self.n_passes, 1, optional=False)
        check_run(self)
