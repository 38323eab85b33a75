"""Is MetricLearner() right by default? Neighbours in its map beside the data as given, scaled columns, a covariance, and rivals.

    python benchmarks/make_embeddings.py            # once: sentence embeddings beside those of the data home
    BREGMAT_DATA=... python benchmarks/bench_choice.py [--splits 3] [--settings wine "numbers:diabetes" ...] [--methods ...]
    python benchmarks/bench_choice.py --show        # tables and verdicts of what has been measured

Every method gets the same rows in raw units. Each record (setting, method, split) is appended to `--records`, and what is there is not
measured again. Settings and scores are those of choice_settings.py. CPU seconds are of fits on one thread.

LMNN (metric-learn) gets scaled columns. NCA chooses its scaling on three inner folds. The contrastive map is one linear layer from the
identity, trained with a contrastive loss over the rows of a class in torch; its learning rate is chosen on a quarter of the training rows.
Logistic regression is no map: its accuracy is what a classifier reaches. Methods are left out where a setting exceeds LIMITS.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from choice_settings import EMBEDDINGS, SEEN, UNSEEN, Split, split_of
from harness import machine, metric_learn, one_thread, print_table, verdict_word
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bregmat import MetricLearner


class OneScale(TransformerMixin, BaseEstimator):
    """Divide all columns by one number, so that their mean variance is 1 as after StandardScaler."""

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> OneScale:
        self.scale_ = np.sqrt(X.var(axis=0).mean())
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X / self.scale_


def nca_with_chosen_scaling() -> GridSearchCV:
    """NCA with the scaling that has the best neighbours in three inner folds.

    NCA does not leave its start where all distances are large, as those of pixels are. One scale for all columns avoids that.
    """
    nca = NeighborhoodComponentsAnalysis(random_state=0)
    pipe = make_pipeline(StandardScaler(), nca, KNeighborsClassifier(4))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return GridSearchCV(pipe, {"standardscaler": ["passthrough", OneScale(), StandardScaler()]}, cv=folds)


class ContrastiveMap(TransformerMixin, BaseEstimator):
    """One linear layer, trained so that cosines within a class exceed those between classes (supervised contrastive loss)."""

    def __init__(self, temperature: float = 0.1, n_epochs: int = 60, rates: tuple[float, ...] = (1e-4, 1e-3)) -> None:
        self.temperature, self.n_epochs, self.rates = temperature, n_epochs, rates

    def fit(self, X: np.ndarray, y: np.ndarray) -> ContrastiveMap:
        A, B, a, b = train_test_split(X, y, test_size=0.25, random_state=0)
        self.mean_ = X.mean(axis=0)

        def accuracy(rate: float) -> float:
            W = self._trained(A, a, rate)
            return KNeighborsClassifier(1).fit(self._unit(A, W), a).score(self._unit(B, W), b)

        self.W_ = self._trained(X, y, max(self.rates, key=accuracy))
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self._unit(X, self.W_)

    def _unit(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        Z = X @ W.T
        return np.asarray(Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12))

    def _trained(self, X: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
        import torch

        torch.manual_seed(0)
        points, codes = torch.tensor(X, dtype=torch.float32), torch.tensor(np.unique(y, return_inverse=True)[1])
        layer = torch.nn.Linear(X.shape[1], X.shape[1], bias=False)
        torch.nn.init.eye_(layer.weight)
        optimiser = torch.optim.Adam(layer.parameters(), lr=rate)
        for _ in range(self.n_epochs):
            for rows in torch.randperm(len(points)).split(256):
                Z = torch.nn.functional.normalize(layer(points[rows]), dim=1)
                scores = (Z @ Z.T / self.temperature).fill_diagonal_(-1e9)
                same = (codes[rows][:, None] == codes[rows]).float().fill_diagonal_(0.0)
                log_p = torch.log_softmax(scores, dim=1)
                loss = -((log_p * same).sum(1) / same.sum(1).clamp(min=1))[same.sum(1) > 0].mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        return layer.weight.detach().numpy().astype(float)


class AsClassifier(BaseEstimator):
    """A classifier that answers by itself, without neighbours."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> AsClassifier:
        self.model_ = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, y)
        return self


METHODS: dict[str, Callable[[], Any]] = {
    "as given": FunctionTransformer,
    "scaled": StandardScaler,
    "within": lambda: MetricLearner(prior="within", strategy=None, metric="euclidean"),
    "MetricLearner()": lambda: MetricLearner(random_state=0),
    "LDA": lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    "NCA": nca_with_chosen_scaling,
    "LMNN": lambda: make_pipeline(StandardScaler(), metric_learn().LMNN(n_neighbors=3, random_state=0)),
    "contrastive": ContrastiveMap,
    "logistic": AsClassifier,
}
BASELINES, DEFAULT = ("as given", "scaled", "within"), "MetricLearner()"
FOR_NUMBERS = (*BASELINES, DEFAULT)  # the other methods need classes
# The most training rows and columns that a slow rival is given.
LIMITS = {"NCA": (500, 300), "LMNN": (500, 100), "contrastive": (4000, 1280), "logistic": (4000, 1280)}


def measured(method: str, split: Split) -> dict[str, Any]:
    """What one fit gives: the score of each test row, CPU seconds, and our decision and certificate."""
    model = METHODS[method]()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(split.X, split.y)
        seconds = time.process_time() - start
        if isinstance(model, AsClassifier):
            scores = (model.model_.predict(split.Z) == split.z).astype(float)
        else:
            model = getattr(model, "best_estimator_", model)
            scores = split.scores(model[:-1].transform if method == "NCA" else model.transform)
    record = {"shape": split.X.shape, "seconds": seconds, "scores": np.round(scores, 4).tolist()}
    if method == DEFAULT:
        chosen = [row["candidate"] for row in model.selection_.to_dict("records") if row["chosen"]]
        record |= {"decided": ", ".join(chosen), "status": model.result_.status.name, "gap": model.result_.gap}
    return record


class Records:
    """Records by setting, method and split, of the first so many splits, and the file that they are appended to."""

    def __init__(self, path: Path, n_splits: int) -> None:
        self.n_splits = n_splits
        self.path = path
        self.found: dict[tuple[str, str, int], dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                self._keep(json.loads(line))

    def _keep(self, record: dict[str, Any]) -> None:
        if record["split"] < self.n_splits:
            self.found[record["setting"], record["method"], record["split"]] = record

    def add(self, record: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._keep(record)

    def of(self, setting: str, method: str) -> list[dict[str, Any]]:
        """Records in the order of the splits."""
        return [self.found[key] for k in range(self.n_splits) if (key := (setting, method, k)) in self.found]

    def score(self, setting: str, method: str) -> float:
        """Mean over the splits, NaN without any."""
        found = self.of(setting, method)
        return float(np.mean([np.mean(record["scores"]) for record in found])) if found else np.nan

    def best_baseline(self, setting: str, among: Iterable[str] = BASELINES) -> str:
        return max(among, key=lambda method: self.score(setting, method))

    def difference(self, setting: str, ours: str, other: str) -> tuple[float, float]:
        """Score of ours less that of the other on the splits that both have, and its paired standard error.

        The splits may share test rows, so the error is the one of the test rows of a single split.
        """
        theirs = {record["split"]: record["scores"] for record in self.of(setting, other)}
        pairs = [np.subtract(r["scores"], theirs[r["split"]]) for r in self.of(setting, ours) if r["split"] in theirs]
        if not pairs:
            return np.nan, np.nan
        variance = float(np.mean([d.var() / len(d) for d in pairs]))
        return float(np.mean([d.mean() for d in pairs])), float(np.sqrt(variance))


def is_measured(method: str, split: Split) -> bool:
    """Whether a method can be fitted to a setting within its limits."""
    n, d = split.X.shape
    rows, columns = LIMITS.get(method, (n, d))
    return (
        n <= rows
        and d <= columns
        and (split.kind == "class" or method in FOR_NUMBERS)
        and not (method == "logistic" and split.gallery is not None)
    )


def measure(records: Records, settings: list[str], methods: list[str]) -> None:
    """Measure what is missing, split by split and setting by setting."""
    for k in range(records.n_splits):
        for setting in settings:
            missing = [method for method in methods if (setting, method, k) not in records.found]
            split = split_of(setting, k) if missing else None
            for method in missing:
                assert split is not None
                if is_measured(method, split):
                    try:
                        found = measured(method, split)
                    except np.linalg.LinAlgError as error:  # LDA of few rows in many rectified columns
                        print(f"{setting}, {method}, {k}: {error}", flush=True)
                        continue
                    record = {"setting": setting, "method": method, "split": k} | found
                    records.add(record)
                    mean = np.mean(record["scores"])
                    print(f"{setting}, {method}, {k}: {mean:.3f}, {record['seconds']:.2f} s", flush=True)


def is_embedding(setting: str) -> bool:
    """Whether the points of a setting are vectors of texts or pictures from a model."""
    return setting.startswith(EMBEDDINGS) and ":" in setting


def show(records: Records, settings: list[str]) -> None:
    """A row for each setting, and the means of the settings that constants were and were not chosen on."""
    rows = []
    for s in settings:
        ours = records.of(s, DEFAULT)
        if ours:
            n, d = ours[0]["shape"]
            cells = [f"{records.score(s, m):.3f}".replace("nan", "") for m in METHODS]
            seconds = f"{np.median([r['seconds'] for r in ours]):.1f}"
            name = s if s in SEEN else f"{s} *"
            rows.append([name, f"{n} x {d}", *cells, seconds, "; ".join(dict.fromkeys(r["decided"] for r in ours))])
    print_table("score of neighbours", ["setting", "n x d", *METHODS, "CPU s", "chosen"], rows)
    ours = [r for s in settings for r in records.of(s, DEFAULT)]
    words = {word: sum(r["status"] == word for r in ours) for word in sorted({r["status"] for r in ours})}
    print(f"\nfits of ours: {words}; largest gap {max((r['gap'] for r in ours), default=0.0):.1e}")


def verdicts(records: Records, settings: list[str]) -> None:
    """Whether the default is nowhere below the baselines, and mean differences from each method."""
    settings = [s for s in settings if all(records.of(s, m) for m in (DEFAULT, *BASELINES))]
    below = []
    for s in settings:
        difference, error = records.difference(s, DEFAULT, records.best_baseline(s))
        if difference < -error:
            below.append(f"{s} ({difference:+.3f}, standard error {error:.3f})")
    print(
        f"\n{DEFAULT} below the best of {', '.join(BASELINES)} by more than a standard error, of {len(settings)} settings:"
    )
    print(f"{', '.join(below) or 'nowhere'}: {verdict_word(not below)}")
    groups = {
        "all": settings,
        "seen": [s for s in settings if s in SEEN],
        "not seen": [s for s in settings if s in UNSEEN],
        "embeddings": [s for s in settings if is_embedding(s)],
        "tables": [s for s in settings if ":" not in s],
    }
    rows = []
    for title, group in groups.items():
        rivals = {"better of given, scaled": [], "best of the three": [], **{m: [] for m in METHODS if m != DEFAULT}}
        for s in group:
            for rival, found in rivals.items():
                some = {"better of given, scaled": BASELINES[:2], "best of the three": BASELINES}.get(rival, (rival,))
                found.append(records.difference(s, DEFAULT, records.best_baseline(s, some))[0])
        for rival, found in rivals.items():
            values = np.array(found)[np.isfinite(found)]
            if len(values):
                rows.append(
                    [title, rival, f"{values.mean():+.4f}", f"{values.std() / np.sqrt(len(values)):.4f}", len(values)]
                )
    print_table("mean of MetricLearner() less", ["settings", "method", "mean", "standard error", "number"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=[*SEEN, *UNSEEN])
    parser.add_argument("--seen", action="store_true", help="only the settings that constants are chosen on")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--records", type=Path, default=Path(__file__).parent / "results" / "choice.jsonl")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    options = parser.parse_args()
    settings = list(SEEN) if options.seen else options.settings
    one_thread()
    records = Records(options.records, options.splits)
    if not options.show:
        measure(records, settings, options.methods)
    show(records, settings)
    verdicts(records, settings)
    print(machine())


if __name__ == "__main__":
    main()
