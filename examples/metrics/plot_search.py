"""
========================================================
Approximate nearest-neighbour search in a learned metric
========================================================

Learned distances are Euclidean distances of ``transform(X)``, so any index for Euclidean neighbours works on the transformed points.
This example uses a simple index of random hyperplanes (as in Jain, Kulis, Dhillon and Grauman 2008); the index of a library would be
used in the same way.
"""

# %%
# An index
# --------
# Each table divides the space by a few random hyperplanes. A query ranks only the points in its own cell of each table.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from bregmat import MetricLearner

plt.style.use("bregmat.plots.bregmat")


class Hyperplanes:
    """Cells of random hyperplanes through the mean, in several tables."""

    def __init__(self, X, planes, tables, seed=0):
        rng = np.random.default_rng(seed)
        self.X, self.mean = X, X.mean(axis=0)
        self.normals = rng.normal(size=(tables, planes, X.shape[1]))
        self.cells = [{} for _ in range(tables)]
        for cells, codes in zip(self.cells, self.codes(X)):
            for point, code in enumerate(codes):
                cells.setdefault(code, []).append(point)

    def codes(self, X):
        """The cell of each point in each table, as bytes of its sides."""
        sides = (X - self.mean) @ self.normals.transpose(0, 2, 1) > 0
        return [[side.tobytes() for side in table] for table in sides]

    def query(self, X, k):
        """For each query the k nearest among what its cells hold, and how many these were."""
        found, looked = [], []
        for x, *codes in zip(X, *self.codes(X)):
            near = np.unique(np.concatenate([cells.get(code, []) for cells, code in zip(self.cells, codes)])).astype(
                int
            )
            order = np.argsort(((self.X[near] - x) ** 2).sum(1))[:k]
            found.append(near[order])
            looked.append(len(near))
        return found, np.array(looked)


# %%
# Ten thousand points in 40 dimensions
# ------------------------------------
# Twelve dimensions separate ten classes, and the others are noise. The metric is learned from 800 of the 9,000 points that are searched.

X, y = make_classification(
    10_000, 40, n_informative=12, n_redundant=0, n_classes=10, n_clusters_per_class=1, class_sep=1.6, random_state=0
)
X, X_new, y, y_new = train_test_split(X, y, test_size=300, random_state=0)
scaler = StandardScaler().fit(X)
learner = MetricLearner(random_state=0).fit(X[:800], y[:800])
spaces = {
    "scaled": (scaler.transform(X), scaler.transform(X_new)),
    "learned": (learner.transform(X), learner.transform(X_new)),
}

curves = {}
for name, (Z, Z_new) in spaces.items():
    exact = NearestNeighbors(n_neighbors=10).fit(Z).kneighbors(Z_new, return_distance=False)
    print(f"{name:8s} exact search: {(y[exact] == y_new[:, None]).mean():.3f} of ten are of the class")
    curve = []
    for tables in (1, 2, 4, 8, 16, 32):
        found, looked = Hyperplanes(Z, 10, tables).query(Z_new, 10)
        recall = np.mean([np.isin(row, near).mean() for row, near in zip(exact, found)])
        right = np.mean([np.sum(y[near] == label) / 10 for near, label in zip(found, y_new)])
        curve.append((looked.mean() / len(X), recall, right))
    curves[name] = np.array(curve)
    print(
        f"{name:8s} 32 tables: {curve[-1][0]:.1%} of the points looked at, recall {curve[-1][1]:.3f}, {curve[-1][2]:.3f} of the class"
    )
looked, recall, right = curves["scaled"].T
assert np.interp(looked[-1], *curves["learned"].T[:2]) > recall[-1]  # among as many points looked at
assert curves["learned"][-1, 2] > right[-1] + 0.1

# %%
# The picture
# -----------
# The dots are 1, 2, 4, ..., 32 tables. In the learned space the noise is small, so that points of a class are in the same cells. The
# search finds more of the true neighbours among the same number of points.

# sphinx_gallery_thumbnail_panel = (1, 0)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), sharex=True)
for name, color in (("scaled", "#8A8F98"), ("learned", "#0072B2")):
    share, recall, right = curves[name].T
    axes[0].plot(share, recall, "-o", color=color, markersize=4, label=name)
    axes[1].plot(share, right, "-o", color=color, markersize=4, label=name)
    for ax, height in zip(axes, (recall, right)):
        ax.annotate(name, (share[-1], height[-1]), xytext=(-4, 6), textcoords="offset points", ha="right", color=color)
axes[0].set(title="recall of the ten nearest", xlabel="share of points looked at", ylim=(0, 1))
axes[1].set(title="share of ten that are of the class", xlabel="share of points looked at", ylim=(0, 1))
for ax in axes:
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
plt.show()
