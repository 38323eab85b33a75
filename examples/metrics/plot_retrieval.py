"""
=============================================
Find images of the same digit in uneven light
=============================================

Images of digits are photographed in uneven light, with a bright corner or a dark side. The light determines most of the Euclidean
distance between two images. A metric that is learned from labels ignores the light, also on images that it was not trained on.
"""

# %%
# Digits in uneven light
# ----------------------
# A random gradient and a random brightness are added to each image of scikit-learn's digits. The metric is learned from half of the
# images. In the other half, the ten nearest images of each image are searched.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from bregmat import MetricLearner

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(0)
digits = load_digits()
across, down = np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8))
light = (
    rng.normal(size=(len(digits.data), 3)) * [14.0, 14.0, 6.0] @ np.array([across.ravel(), down.ravel(), np.ones(64)])
)
X, y = digits.data + light, digits.target
X_train, y_train, X_new, y_new = X[::2], y[::2], X[1::2], y[1::2]

learner = MetricLearner(random_state=0).fit(X_train, y_train)
print(learner.result_.status)

# %%
# What is found
# -------------

spaces = {
    "as given": X_new,
    "scaled": StandardScaler().fit(X_train).transform(X_new),
    "learned": learner.transform(X_new),
}
found = {name: NearestNeighbors(n_neighbors=10).fit(Z).kneighbors(return_distance=False) for name, Z in spaces.items()}
precision = {name: (y_new[near] == y_new[:, None]).mean() for name, near in found.items()}
for name, share in precision.items():
    print(f"{name:9s} {share:.3f} of the ten nearest show the same digit")
assert precision["learned"] > max(precision["as given"], precision["scaled"]) + 0.1

# %%
# Six searches, before and after
# ------------------------------
# The query is on the left, and its six nearest images follow. Blue frames mark the same digit, orange frames another digit.

queries = [int(np.flatnonzero(y_new == digit)[5]) for digit in (0, 2, 3, 5, 8, 9)]
places = {"left": 0.01, "right": 0.99, "bottom": 0.01, "top": 0.93, "wspace": 0.12, "hspace": 0.12}
# sphinx_gallery_thumbnail_panel = (1, 8, 59)
figure, axes = plt.subplots(len(queries), 15, figsize=(9.6, 4.0), layout="none", gridspec_kw=places)
for row, query in zip(axes, queries):
    row[7].set_axis_off()
    for start, name in ((0, "as given"), (8, "learned")):
        for ax, image in zip(row[start:], [query, *found[name][query, :6]]):
            ax.imshow(X_new[image].reshape(8, 8), cmap="gray", interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            color = "#0072B2" if y_new[image] == y_new[query] else "#D55E00"
            ax.spines[:].set(visible=image != query, color=color, linewidth=2.4)
for start, name in ((0, "as given"), (8, "learned")):
    axes[0, start].set_title(f"{name}: {precision[name]:.0%} of ten nearest right", fontsize=10)
plt.show()
