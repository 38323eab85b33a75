"""Which defaults should MetricLearner have? 4-NN accuracy over the UCI sets for priors, slack weights and divergences.

    BREGMAT_DATA=... python benchmarks/choose_defaults.py

Raw units, 2 x 5-fold cross-validation; pairs drawn from the labels of the training fold, 40 k^2 for k classes but at most
1,000, solved to a gap of 1e-3. Sets with more than 1,000 rows: a seeded sample of 1,000. Classes with fewer than 5 rows are
left out. The column "chosen" chooses the slack weight by 3-fold cross-validation inside each training fold.
"""

import argparse
import time
import warnings

import numpy as np
from harness import machine, one_thread, print_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from bregmat.estimators import MetricLearner
from bregmat.run.result import SolverError
from bregmat_papers.datasets import load_dataset

SETS = (
    "wine",
    "iris",
    "soybean-small",
    "soybean-large",
    "balance-scale",
    "breast-cancer",
    "ionosphere",
    "sonar",
    "pendigits389",
    "pendigits",
    "letter-recognition",
    "spambase",
    "nursery",
)
WEIGHTS = (0.1, 1.0, 10.0, 100.0)
VARIANTS = (("logdet", "identity"), ("logdet", "covariance"), ("vonneumann", "identity"), ("vonneumann", "covariance"))
MOST_ROWS = 1000
MOST_PAIRS = 1000
TOL = 1e-3
NEIGHBOURS = 4


def points(name: str) -> tuple[np.ndarray, np.ndarray]:
    """At most MOST_ROWS rows, classes of at least 5 of them."""
    data = load_dataset(name)
    rows = np.sort(np.random.default_rng(0).permutation(len(data.y))[:MOST_ROWS])
    X, y = data.X[rows], data.y[rows]
    kept = np.bincount(y)[y] >= 5
    return X[kept], y[kept]


class Scores:
    """Accuracy of each variant over the folds, and what went wrong on the way."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}
        self.gaps: list[float] = []
        self.failures: dict[str, int] = {}

    def add(self, name: str, train: tuple, test: tuple) -> None:
        """Accuracy of the neighbours of the test points among the training points."""
        self.values.setdefault(name, []).append(KNeighborsClassifier(NEIGHBOURS).fit(*train).score(*test))

    def learned(self, name: str, learner: MetricLearner, train: tuple, test: tuple) -> None:
        """The same after learning; a failure scores as the Euclidean distance and is counted."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                learner.fit(*train)
                self.gaps.append(learner.result_.gap)
                failed = any(issubclass(w.category, ConvergenceWarning) for w in caught)
            except SolverError:
                failed = True
        if failed:
            self.failures[name] = self.failures.get(name, 0) + 1
        if hasattr(learner, "components_"):
            train, test = ((learner.transform(X), y) for X, y in (train, test))
        self.add(name, train, test)


def chosen(learner: MetricLearner, seed: int) -> GridSearchCV:
    """Metric and neighbours with the slack weight chosen on the training set."""
    return GridSearchCV(
        make_pipeline(learner, KNeighborsClassifier(NEIGHBOURS)),
        {"metriclearner__slack_weight": WEIGHTS},
        cv=StratifiedKFold(3, shuffle=True, random_state=seed),
    )


def measure(name: str, repeats: int) -> tuple[Scores, np.ndarray, np.ndarray]:
    """All variants on one set."""
    X, y = points(name)
    n_pairs = min(40 * len(np.unique(y)) ** 2, MOST_PAIRS)
    scores = Scores()
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    for seed, (a, b) in enumerate(folds.split(X, y)):
        train, test = (X[a], y[a]), (X[b], y[b])
        common = {"n_constraints": n_pairs, "tol": TOL, "random_state": seed}
        scores.add("Euclidean", train, test)
        spread = X[a].std(axis=0)
        spread[spread == 0] = 1.0
        scores.add("standardised", (X[a] / spread, y[a]), (X[b] / spread, y[b]))
        for divergence, prior in VARIANTS:
            for weight in WEIGHTS:
                learner = MetricLearner(divergence, prior=prior, slack_weight=weight, **common)
                scores.learned(f"{divergence} {prior} {weight:g}", learner, train, test)
        for prior in ("identity", "covariance"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                accuracy = chosen(MetricLearner(prior=prior, **common), seed).fit(*train).score(*test)
            scores.values.setdefault(f"logdet {prior} chosen", []).append(accuracy)
    return scores, X, y


def main() -> None:
    """Print one table per variant of divergence and prior, a row per set, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    one_thread()
    table, worst = {}, {}
    for name in options.sets:
        start = time.perf_counter()
        scores, X, y = measure(name, options.repeats)
        table[name] = {key: float(np.mean(values)) for key, values in scores.values.items()}
        worst[name] = (max(scores.gaps), scores.failures)
        print(
            f"{name}: {X.shape[0]} x {X.shape[1]}, {len(np.unique(y))} classes; largest gap {worst[name][0]:.1e}; "
            f"not converged {scores.failures or 0}; {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    columns = list(next(iter(table.values())))
    base = columns[:2]
    for divergence, prior in VARIANTS:
        start = f"{divergence} {prior} "
        shown = base + [c for c in columns if c.startswith(start)]
        rows = [[name, *(f"{row[c]:.3f}" for c in shown)] for name, row in table.items()]
        rows.append(["mean", *(f"{np.mean([row[c] for row in table.values()]):.3f}" for c in shown)])
        header = ["data", *base, *(c.removeprefix(start) for c in shown[2:])]
        print_table(f"{divergence}, prior {prior}: 4-NN accuracy against slack weight", header, rows)
    print(machine())


if __name__ == "__main__":
    main()
