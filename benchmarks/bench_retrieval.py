"""Queries and documents: RetrievalLearner() beside the vectors as given, ridge regression, and the torch map with InfoNCE.

    python benchmarks/make_embeddings.py           # names, errors, terms and sources, from local texts
    BREGMAT_DATA=... python benchmarks/bench_retrieval.py [--draws 3] [--first 0] [--only WORD] [--embeddings FOLDER]

Sets: names of functions and their docstrings (docstrings384.npz of the data home, and names.npz of other packages), messages of exceptions
and docstrings, German terms and English ones, descriptions of packages of one source (the first is the query); with 500 training queries,
or 50, or 20 % wrong answers. Packages of one class (packages384.npz): one half of each class are queries, the other half documents,
relevant if of the same class, but only three of about 75 right answers of a training query are known.

All documents are known, but only the answers of training queries are learned from. Test queries are those that were not learned
from; they are ranked among all documents. Every method chooses its settings on folds of the training queries; its CPU seconds contain
the choice. The map of torch is that of OpenAI's "Customizing embeddings" and of LlamaIndex's adapter: a linear layer from the identity,
for queries or both sides, AdamW, batches of 64, temperature 1/20.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from harness import machine, one_thread, print_table

from bregmat import RetrievalLearner
from bregmat.retrieval.relevance import MEASURES, ranking_measures

Map = Callable[[np.ndarray], np.ndarray]


def unit(X: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(length > 0, length, 1.0)


@dataclass(frozen=True)
class Split:
    """Training queries and documents with their right answers, and test queries among all documents."""

    queries: np.ndarray
    documents: np.ndarray
    relevant: sp.csr_array
    test: np.ndarray
    pool: np.ndarray
    truth: sp.csr_array

    def measures(self, of_queries: Map, of_documents: Map) -> np.ndarray:
        return ranking_measures(unit(of_queries(self.test)), unit(of_documents(self.pool)), self.truth).mean(axis=0)

    def folds(self, k: int = 3) -> Iterator[Split]:
        part = np.random.default_rng(0).permutation(len(self.queries)) % k
        for held in range(k):
            rest, out = part != held, part == held
            used = np.flatnonzero(self.relevant[rest].sum(axis=0))
            relevant = sp.csr_array(self.relevant[rest][:, used])
            truth = sp.csr_array(self.relevant[out])
            yield Split(self.queries[rest], self.documents[used], relevant, self.queries[out], self.documents, truth)


# ---------------------------------------------------------------------- sets
def of_file(path: Path, n: int, wrong: float, seed: int) -> Split:
    """``n`` training queries of a file, a share of which has the answer of another one.

    The file holds Q and D with pairs of rows, or row i to row i; or X with classes y, of which the first row is the query.
    """
    file = np.load(path)
    if "X" in file:
        X, y = file["X"].astype(float), file["y"]
        first = np.unique(y, return_index=True)[1]
        rest = np.setdiff1d(np.arange(len(y)), first)
        Q, D, pairs = X[first], X[rest], np.column_stack([y[rest], np.arange(len(rest))])
    else:
        Q, D = (file[name].astype(float) for name in "QD")
        pairs = file["pairs"] if "pairs" in file else np.column_stack([np.arange(len(Q))] * 2)
    relevant = sp.csr_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(len(Q), len(D)))
    order = np.random.default_rng(seed).permutation(len(Q))
    train, test = order[:n], order[n:]
    answers, k = np.arange(n), int(wrong * n)
    answers[:k] = np.roll(answers[:k], 1)
    return Split(Q[train], D, sp.csr_array(relevant[train][answers]), Q[test], D, sp.csr_array(relevant[test]))


def of_classes(X: np.ndarray, y: np.ndarray, n: int, seed: int) -> Split:
    """One half of each class are queries, the other half documents; a training query has three known answers."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    queries, documents = order[::2], order[1::2]
    train, test = queries[:n], queries[n : n + 1000]
    same = y[queries][:, None] == y[documents]
    truth = sp.csr_array(same[n : n + 1000].astype(float))
    known = sp.lil_array((n, len(documents)))
    for i in range(n):
        known[i, rng.choice(np.flatnonzero(same[i]), 3, replace=False)] = 1.0
    known = sp.csr_array(known)
    return Split(X[train], X[documents], known, X[test], X[documents], truth)


def sets(own: Path) -> Iterator[tuple[str, Callable[[int], Split]]]:
    """Name and maker of each set; the names of those that count for the mean end in the number of queries."""
    home = Path(os.environ["BREGMAT_DATA"]) / "embeddings"
    places = {
        "names to docstrings": home / "docstrings384.npz",
        "names to docstrings, other packages": own / "names.npz",
        "messages to docstrings": own / "errors.npz",
        "German to English terms": own / "terms.npz",
        "packages of one source": own / "sources.npz",
    }
    for name, path in places.items():
        n = 400 if path.name == "sources.npz" else 500
        yield f"{name}, {n}", partial(of_file, path, n, 0.0)
        if path.name in ("docstrings384.npz", "errors.npz"):
            yield f"{name}, {n}, 20 % wrong", partial(of_file, path, n, 0.2)
        yield f"{name}, 50, 20 % wrong", partial(of_file, path, 50, 0.2)
    packages = np.load(home / "packages384.npz")
    yield (
        "packages by class, 500, few answers known",
        partial(of_classes, packages["X"].astype(float), packages["y"], 500),
    )


# ---------------------------------------------------------------------- methods: a split to two maps
def as_given(split: Split) -> tuple[Map, Map]:
    return (lambda X: X), (lambda X: X)


def ridge(split: Split, penalty: float) -> tuple[Map, Map]:
    """Queries to their answers, with a penalty on the distance from the identity."""
    Q, D = unit(split.queries), unit(split.documents)
    answers = unit(split.relevant @ D)
    eye = np.eye(Q.shape[1])
    W = np.linalg.solve(Q.T @ Q + penalty * eye, Q.T @ answers + penalty * eye)
    return (lambda X: unit(X) @ W), (lambda X: X)


def torch_map(split: Split, side: str, epochs: int) -> tuple[Map, Map]:
    """InfoNCE in batches; an answer of each query is drawn in each epoch."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    Q, D = (torch.tensor(unit(X), dtype=torch.float32) for X in (split.queries, split.documents))
    layer = torch.nn.Linear(Q.shape[1], Q.shape[1], bias=False)
    layer.weight.data = torch.eye(Q.shape[1])
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.01)
    normalize = torch.nn.functional.normalize
    for _ in range(epochs):
        answer = [rng.choice(split.relevant.indices[slice(*split.relevant.indptr[i : i + 2])]) for i in range(len(Q))]
        answers = D[torch.tensor(np.array(answer))]
        for rows in torch.randperm(len(Q)).split(64):
            a, b = normalize(layer(Q[rows])), answers[rows]
            b = b if side == "query" else normalize(layer(b))
            loss = torch.nn.functional.cross_entropy(20 * a @ b.T, torch.arange(len(rows)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    L = layer.weight.detach().numpy().astype(float).T
    return (lambda X: unit(X) @ L), (lambda X: X) if side == "query" else (lambda X: unit(X) @ L)


def learner(split: Split) -> tuple[Map, Map]:
    found = RetrievalLearner(random_state=0).fit(split.queries, split.documents, split.relevant)
    said = f"{found.result_.status}, gap {found.result_.gap:.0e}, {found.selection_['candidate'][found.selection_['chosen'].index(True)]}"
    learner.said = said  # type: ignore[attr-defined]
    return found.transform, found.transform


METHODS: dict[str, tuple[Callable[..., tuple[Map, Map]], list[tuple]]] = {
    "as given": (as_given, [()]),
    "ridge to the identity": (ridge, [(0.1,), (1.0,), (10.0,), (100.0,)]),
    "torch, linear, InfoNCE": (torch_map, list(product(("query", "both"), (10, 50)))),
    "`RetrievalLearner()`": (learner, [()]),
}


def measured(method: Callable[..., tuple[Map, Map]], settings: list[tuple], split: Split) -> np.ndarray:
    """The measures of the setting that is best on the folds, and CPU seconds with the choice."""
    start = time.process_time()
    if len(settings) > 1:
        folds = list(split.folds())
        means = [np.mean([fold.measures(*method(fold, *s))[MEASURES.index("MRR")] for fold in folds]) for s in settings]
        settings = [settings[int(np.argmax(means))]]
    maps = method(split, *settings[0])
    seconds = time.process_time() - start
    return np.append(split.measures(*maps), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--only", default="", help="part of the name of a set")
    parser.add_argument("--embeddings", type=Path, default=Path(__file__).parent / "results" / "embeddings")
    options = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore", UserWarning)
    print(machine())
    overall, worst = [], 0.0
    for name, make in sets(options.embeddings):
        if options.only not in name:
            continue
        splits = [make(options.first + draw) for draw in range(options.draws)]
        found = {method: np.array([measured(*how, split) for split in splits]) for method, how in METHODS.items()}
        rows = [
            [method, *(f"{x:.3f}" for x in F.mean(axis=0)[:-1]), f"{F.mean(axis=0)[-1]:.1f}"]
            for method, F in found.items()
        ]
        print_table(f"{name} ({learner.said} in the last draw)", ["", *MEASURES, "CPU s"], rows)  # type: ignore[attr-defined]
        ranks = {method: F[:, MEASURES.index("MRR")] for method, F in found.items()}
        gain = ranks["`RetrievalLearner()`"] - ranks["torch, linear, InfoNCE"]
        worst = min(worst, float((ranks["`RetrievalLearner()`"] - ranks["as given"]).min()))
        if name.split(", ")[-1].isdigit():
            overall.append(gain.mean())
        print(
            f"\nMRR above the torch map: {gain.mean():+.4f} (by draws: {', '.join(f'{g:+.4f}' for g in gain)})",
            flush=True,
        )
    if overall:
        print(
            f"\nMean over {len(overall)} sets of 400 or 500 right answers: {np.mean(overall):+.4f} above the torch map."
        )
    print(f"The worst draw of all sets is {worst:+.4f} from as given.")


if __name__ == "__main__":
    main()
