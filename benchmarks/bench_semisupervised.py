"""Does a learned kernel cluster better than k-means that is told the pairs?

The digits 3, 8 and 9 (Kulis 2009, 7.1), wine and iris. Pairs of points drawn at random, same class: squared distance at
most 0.75 of what it is, else at least 1.25 of it, all of them hard (draws that no kernel of that rank can meet: slack weight
100); then kernel k-means on the learned kernel. Beside it k-means without pairs, and two
rivals that get the same pairs as must-link and cannot-link: COP-KMeans (Wagstaff 2001) and PCKMeans (Basu 2004, seeds from
the transitive closure), written out below after their papers. PCKMeans weighs a broken pair against squared distances: 1 is its
usual setting, "scaled" is the mean squared distance to the mean, so that a broken pair costs about as much as a bad assignment.

Normalised mutual information, mean and standard error over 20 draws of pairs: on all points, and on points in no pair.

    python benchmarks/bench_semisupervised.py                    # with BREGMAT_DATA: UCI pendigits, 317 points; else 8 x 8 images
    python benchmarks/bench_semisupervised.py --repeats 5
"""

from __future__ import annotations

import argparse

import harness
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.preprocessing import StandardScaler

PAIRS = (10, 30, 100, 200)
STARTS = 10
SOFT = 100.0  # slack weight where no kernel of that rank meets all pairs


def links(n: int, i: np.ndarray, j: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group of each point by the transitive closure of must-links, and pairs of groups that cannot be one."""
    graph = coo_array((np.ones(same.sum()), (i[same], j[same])), shape=(n, n))
    group = connected_components(graph, directed=False)[1]
    return group, np.unique(np.sort(np.stack([group[i[~same]], group[j[~same]]], axis=1), axis=1), axis=0)


def cop_kmeans(X, k, i, j, same, rng, *, max_iter=100):
    """Assign group after group to the nearest centre that breaks no cannot-link; None if a group finds none."""
    group, cannot = links(len(X), i, j, same)
    size = np.bincount(group)
    mean = np.stack([np.bincount(group, x) for x in X.T], axis=1) / size[:, None]
    foes = [[] for _ in size]
    for a, b in cannot:
        foes[a].append(b)
        foes[b].append(a)
    best, lowest, done = None, np.inf, 0
    for _ in range(10 * STARTS):  # many starts end with a group that no cluster may take
        centres, previous, order = kmeans_plusplus(X, k, random_state=rng)[0], None, rng.permutation(len(size))
        for _ in range(max_iter):
            D = ((mean[:, None] - centres) ** 2).sum(2)
            label = np.full(len(size), -1)
            for g in order:
                taken = {label[f] for f in foes[g]}
                free = [c for c in np.argsort(D[g]) if c not in taken]
                if not free:
                    break
                label[g] = free[0]
            if (label < 0).any():
                break
            if previous is not None and (label == previous).all():
                break
            previous = label
            centres = np.stack([X[label[group] == c].mean(0) if (label == c).any() else centres[c] for c in range(k)])
        if (label >= 0).all():
            inertia = ((X - centres[label[group]]) ** 2).sum()
            if inertia < lowest:
                best, lowest = label[group], inertia
            done += 1
            if done == STARTS:
                break
    return best


def pck_means(X, k, i, j, same, rng, *, weight, max_iter=100):
    """Lloyd with a price on every broken pair; seeds are the largest groups of must-linked points, then points far from them."""
    group, _ = links(len(X), i, j, same)
    size = np.bincount(group)
    large = [g for g in np.argsort(-size)[:k] if size[g] > 1]
    seeds = [X[group == g].mean(0) for g in large]
    best, lowest = None, np.inf
    pairs = [[] for _ in X]
    for a, b, s in zip(i, j, same, strict=True):
        pairs[a].append((b, s))
        pairs[b].append((a, s))
    for _ in range(STARTS):
        centres = np.array(seeds)
        while len(centres) < k:
            d = ((X[:, None] - centres) ** 2).sum(2).min(1) if len(centres) else np.ones(len(X))
            centres = np.vstack([centres.reshape(-1, X.shape[1]), X[rng.choice(len(X), p=d / d.sum())]])
        label = ((X[:, None] - centres) ** 2).sum(2).argmin(1)
        for _ in range(max_iter):
            D, before = ((X[:, None] - centres) ** 2).sum(2), label.copy()
            for x in rng.permutation(len(X)):
                cost = D[x].copy()
                for other, s in pairs[x]:
                    here = np.arange(k) == label[other]
                    cost += weight * (~here if s else here)
                label[x] = cost.argmin()
            centres = np.stack([X[label == c].mean(0) if (label == c).any() else centres[c] for c in range(k)])
            if (label == before).all():
                break
        broken = ((label[i] == label[j]) != same).sum()
        total = ((X - centres[label]) ** 2).sum() + weight * broken
        if total < lowest:
            best, lowest = label, total
    return best


def data_sets():
    """Points, classes and what they are; the last two standardised."""
    from bregmat_papers.datasets import DataNotFoundError, load_dataset

    try:
        digits = load_dataset("pendigits389")
    except DataNotFoundError:
        digits = load_dataset("digits389")
    yield str(digits), digits.X, digits.y
    for load in (load_wine, load_iris):
        X, y = load(return_X_y=True)
        yield f"{load.__name__.removeprefix('load_')}, standardised {X.shape}", StandardScaler().fit_transform(X), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--pairs", type=int, nargs="+", default=PAIRS)
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine())
    for name, X, y in data_sets():
        run(name, X, y, [m for m in args.pairs if m < len(X)], args.repeats)


def run(title, X, y, numbers, repeats) -> None:
    """One table: all methods on draws of pairs of one data set."""
    from bregmat import Constraints, nearest_kernel
    from bregmat.coordinates.priors import Factor
    from bregmat.estimators import KernelKMeans

    def rows_of(i, j, same, weight):
        b = ((X[i] - X[j]) ** 2).sum(1)
        bound, sense = np.where(same, 0.75, 1.25) * b, np.where(same, "<=", ">=")
        return Constraints.sq_distance(i, j, bound, sense, weight=weight)

    k = len(np.unique(y))
    spread = float(((X - X.mean(0)) ** 2).sum(1).mean())
    rows, short = [], []
    for n_pairs in numbers:
        score: dict[str, list[tuple[float, float]]] = {}
        failed: dict[str, int] = {}
        for seed in range(repeats):
            rng = np.random.default_rng([1, seed, n_pairs])
            i, j = rng.integers(0, len(X), (2, 2 * n_pairs))
            i, j = (side[np.any(X[i] != X[j], axis=1)][:n_pairs] for side in (i, j))
            same = y[i] == y[j]
            free = np.setdiff1d(np.arange(len(X)), np.concatenate([i, j]))
            state = np.random.RandomState(seed)
            found = {"k-means, no pairs": KMeans(k, n_init=STARTS, random_state=seed).fit_predict(X)}
            found["COP-KMeans"] = cop_kmeans(X, k, i, j, same, state)
            found["PCKMeans, weight 1"] = pck_means(X, k, i, j, same, state, weight=1.0)
            found["PCKMeans, scaled"] = pck_means(X, k, i, j, same, state, weight=spread)
            for divergence in ("logdet", "vonneumann"):
                name = f"{divergence} + kernel k-means"
                given = rows_of(i, j, same, np.inf)
                result = nearest_kernel(Factor(X), given, divergence=divergence, tol=1e-6)
                if result.status == "INFEASIBLE":
                    short.append(f"{divergence}, {n_pairs} pairs: INFEASIBLE, proven by {len(result.conflict)} pairs")
                    given = rows_of(i, j, same, 1.0)
                    result = nearest_kernel(Factor(X), given, divergence=divergence, slack_weight=SOFT, tol=1e-4)
                if result.status != "OPTIMAL":
                    short.append(f"{divergence}, {n_pairs} pairs: {result.status}, gap {result.gap:.1e}")
                found[name] = KernelKMeans(k, n_init=STARTS, random_state=seed).fit_predict(result.factor)
            for name, label in found.items():
                if label is None:
                    failed[name] = failed.get(name, 0) + 1
                else:
                    score.setdefault(name, []).append((nmi(y, label), nmi(y[free], label[free])))
        today = np.array(score["logdet + kernel k-means"])
        for name, values in score.items():
            mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
            cells = [f"{m:.3f} +- {e:.3f}" for m, e in zip(mean, error, strict=True)]
            beside = np.array(values)[:, 0] - today[:, 0] if len(values) == len(today) else np.full(2, np.nan)
            cells.append(f"{beside.mean():+.3f} +- {beside.std(ddof=1) / np.sqrt(len(beside)):.3f}")
            rows.append([n_pairs, name, *cells, failed.get(name, 0)])
    harness.print_table(
        f"{title}: NMI, mean and standard error over {repeats} draws; {STARTS} starts each; 'none found': draws without an answer",
        ["pairs", "method", "all points", "points in no pair", "beside logdet", "none found"],
        rows,
    )
    print(
        f"\nAll problems OPTIMAL, the hard ones at a gap of 1e-6, but these; INFEASIBLE ones solved with slack weight {SOFT:g}:"
    )
    print("\n".join(f"  {line}" for line in short) or "  none")


if __name__ == "__main__":
    harness.steady(main)
