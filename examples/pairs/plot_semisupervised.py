"""
==========================================
Find clusters with the help of a few pairs
==========================================

Three long bands of points lie side by side, and the table has four more columns of noise. K-means divides the bands across. Pairs of
points of which it is known whether they belong to one band teach the metric which directions matter.
"""

# %%
# Bands
# -----

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from bregmat import Constraints, MetricLearner

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(1)
y = np.repeat([0, 1, 2], 100)
along, across = rng.normal(scale=4.0, size=300), 2.2 * (y - 1) + rng.normal(scale=0.45, size=300)
turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
X = np.column_stack([np.column_stack([along, across]) @ turn, rng.normal(scale=1.5, size=(300, 4))])


def pairs(n, seed):
    """Random pairs, and whether they belong together."""
    rng = np.random.default_rng(seed)
    i = rng.integers(len(X), size=n)
    j = (i + rng.integers(1, len(X), size=n)) % len(X)
    return i, j, y[i] == y[j]


def clusters(n, seed):
    """k-means in the metric learned from n pairs: labels numbered like the bands, and the match with them."""
    Z = X
    if n:
        i, j, same = pairs(n, seed)
        constraints = Constraints.sq_distance(i, j, np.where(same, 2.0, 20.0), np.where(same, "<=", ">="))
        Z = MetricLearner(slack_weight=10.0).fit(X, constraints=constraints).transform(X)
    found = KMeans(3, n_init=10, random_state=0).fit_predict(Z)
    order = np.argsort(np.argsort([across[found == k].mean() for k in range(3)]))
    return order[found], normalized_mutual_info_score(y, found)


# %%
# More and more pairs
# -------------------
# Same band: squared distance at most 2; another band: at least 20. The panels show one draw of pairs, the curve 20 draws.

counts = [0, 5, 10, 20, 40, 80]
scores = np.array([[clusters(n, seed)[1] for seed in range(20)] for n in counts])
for n, score in zip(counts, scores):
    print(f"{n:3d} pairs: NMI {np.median(score):.2f} in the median of 20 draws")
assert np.median(scores[0]) < 0.3 and np.median(scores[-1]) > 0.9

# %%
# The picture
# -----------
# Solid: together; dotted: apart.

COLORS = np.array(["#0072B2", "#E69F00", "#009E73"])
# sphinx_gallery_thumbnail_panel = (1, 3)
figure, axes = plt.subplots(1, 5, figsize=(11, 2.6), width_ratios=[1, 1, 1, 1, 1.2])
for ax, n in zip(axes, (0, 5, 20, 80)):
    labels, score = clusters(n, 4)
    ax.scatter(*X[:, :2].T, c=COLORS[labels], s=7, linewidths=0)
    i, j, same = pairs(n, 4)
    for kind, dash in ((same, "-"), (~same, (0, (1, 2)))):
        segments = np.stack([X[i[kind], :2], X[j[kind], :2]], axis=1)
        ax.add_collection(LineCollection(segments, colors="#1B1E23", linestyles=dash, linewidths=0.7, alpha=0.8))
    ax.set(title=f"{n} pairs: NMI {score:.2f}", xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
low, middle, high = np.percentile(scores, [10, 50, 90], axis=1)
axes[-1].fill_between(counts, low, high, alpha=0.15, linewidth=0)
axes[-1].plot(counts, middle, "-o", markersize=4)
axes[-1].set(xlabel="pairs", title="NMI: median, 80 % of draws", ylim=(-0.03, 1.03))
plt.show()
