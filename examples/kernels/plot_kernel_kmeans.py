"""
===============================================
Cluster two rings with kernel k-means and pairs
===============================================

No line separates two rings, so k-means divides both into halves. Kernel k-means can find curved clusters, but with the rbf kernel below
the halves have a smaller objective than the rings. In a kernel that is learned from a few pairs of points ("same ring", "other ring") the
rings have the smaller objective.
"""

# %%
# Features, an rbf kernel, a learned kernel
# -----------------------------------------
# Pairs become bounds on squared distances of the rbf kernel: below the 5th percentile of all of them, or above the 95th.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from sklearn.datasets import make_circles
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import rbf_kernel

from bregmat import Constraints
from bregmat.estimators import KernelKMeans, KernelLearner

plt.style.use("bregmat.plots.bregmat")

GAMMA = 2.0
X, y = make_circles(400, factor=0.45, noise=0.08, random_state=0)
K0 = rbf_kernel(X, gamma=GAMMA)
NEAR, FAR = np.percentile(2 - 2 * K0[np.triu_indices(len(X), 1)], [5, 95])


def learned(n_pairs, seed):
    """A learner fitted to random pairs, and the pairs."""
    rng = np.random.default_rng(seed)
    i = rng.integers(0, len(X), n_pairs)
    j = (i + rng.integers(1, len(X), n_pairs)) % len(X)
    same = y[i] == y[j]
    pairs = Constraints.sq_distance(i, j, np.where(same, NEAR, FAR), np.where(same, "<=", ">="))
    learner = KernelLearner("rbf", gamma=GAMMA, slack_weight=10.0).fit(X, constraints=pairs)
    return learner, (i, j, same)


learner, (i, j, same) = learned(20, seed=0)
models = {
    "features": KernelKMeans(2, random_state=0),
    f"rbf kernel, gamma {GAMMA:g}": KernelKMeans(2, kernel="rbf", gamma=GAMMA, random_state=0),
    "kernel learned from 20 pairs": KernelKMeans(2, kernel=learner.kernel, random_state=0),
}
for name, model in models.items():
    print(f"{name}: NMI {normalized_mutual_info_score(y, model.fit(X).labels_):.3f}")
on_features, on_rbf, on_learned = (normalized_mutual_info_score(y, model.labels_) for model in models.values())
assert on_learned > 0.9 and max(on_features, on_rbf) < 0.1

# %%
# The objective shows why. It is the sum of squared distances to the means, printed for the result, for two halves and for the rings.


def objective(K, labels):
    Z = np.eye(2)[labels]
    return np.trace(K) - (np.einsum("ij,ij->j", Z, K @ Z) / Z.sum(axis=0)).sum()


for name, K in (("rbf", K0), ("learned", learner.kernel_)):
    halves, rings = objective(K, (X[:, 0] > 0).astype(int)), objective(K, y)
    found = KernelKMeans(2, kernel="precomputed", random_state=0).fit(K)
    print(f"{name} kernel: found {found.inertia_:.1f}; left and right halves {halves:.1f}, rings {rings:.1f}")
    assert (rings < halves) == (name == "learned")

# %%
# Many points
# -----------
# A kernel of 20,000 points would take 3.2 GB. A sample of them is clustered, and the others go to the nearest means.

many, ring = make_circles(20_000, factor=0.45, noise=0.08, random_state=1)
large = KernelKMeans(2, kernel=learner.kernel, random_state=0).fit(many[:1000]).predict(many)
print(f"{len(many):,} points, 1,000 of them clustered: NMI {normalized_mutual_info_score(ring, large):.3f}")

# %%
# The pictures
# ------------
# Points by cluster, and behind them the cluster that a new point would go to. Pairs: together solid, apart dotted. Right: median and
# range over ten draws of pairs.

COLORS = np.array(["#0072B2", "#E69F00"])
side = np.linspace(-1.45, 1.45, 150)
grid = np.stack(np.meshgrid(side, side), axis=-1)
# sphinx_gallery_thumbnail_panel = (1, 2)
figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), width_ratios=[1, 1, 1, 1.2])
for ax, (name, model) in zip(axes, models.items()):
    flip = model.predict([[0.0, 0.45]])[0]  # the same colour for the inner ring in all panels
    region = model.predict(grid.reshape(-1, 2)).reshape(grid.shape[:2]) ^ flip
    ax.contourf(side, side, region, levels=[-0.5, 0.5, 1.5], colors=COLORS, alpha=0.15)
    ax.scatter(*X.T, c=COLORS[model.labels_ ^ flip], s=7)
    score = normalized_mutual_info_score(y, model.labels_)
    ax.set(title=f"{name}: NMI {score:.2f}", aspect="equal", xticks=[], yticks=[])
for kind, style in ((same, "-"), (~same, ":")):
    segments = np.stack([X[i[kind]], X[j[kind]]], axis=1)
    axes[2].add_collection(LineCollection(segments, colors="black", linestyles=style, linewidths=1))

counts = [5, 10, 15, 20, 30, 40]
scores = []
for n_pairs in counts:
    labels = [
        KernelKMeans(2, kernel=learned(n_pairs, seed)[0].kernel, random_state=0).fit_predict(X) for seed in range(10)
    ]
    scores.append([normalized_mutual_info_score(y, found) for found in labels])
    print(f"{n_pairs:3d} pairs: NMI {np.median(scores[-1]):.3f} (median of 10 draws), least {min(scores[-1]):.3f}")
axes[3].fill_between(counts, np.min(scores, axis=1), np.max(scores, axis=1), color=COLORS[0], alpha=0.15, linewidth=0)
axes[3].plot(counts, np.median(scores, axis=1), "-o", color=COLORS[0])
axes[3].set(xlabel="pairs", ylabel="normalised mutual information", ylim=(-0.03, 1.03))
plt.show()
