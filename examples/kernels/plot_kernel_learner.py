"""
===========================================
Learn a kernel from pairs and cluster in it
===========================================

Of 537 images of the digits 3, 8 and 9, one half is clustered, and the other half is new. No labels are known. For some pairs of images it
is known whether they show the same digit. A kernel is learned from these pairs. K-means in the space of this kernel finds the digits
better, also for images that are in no pair, and for new images.
"""

# %%
# Pairs become bounds on squared distances of an rbf kernel, which lie between 0 and 2.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import rbf_kernel

from bregmat import Constraints
from bregmat.estimators import KernelKMeans, KernelLearner
from bregmat_papers.datasets import load_dataset

plt.style.use("bregmat.plots.bregmat")

GAMMA = 0.05
digits = load_dataset("digits389")
X, y = digits.X[::2] / 16, digits.y[::2]
X_new, y_new = digits.X[1::2] / 16, digits.y[1::2]
K0 = rbf_kernel(X, gamma=GAMMA)
NEAR, FAR = np.percentile(2 - 2 * K0[np.triu_indices(len(X), 1)], [5, 95])


def pairs(n_pairs, rng):
    """Random pairs: same digit nearer than the 5th percentile of all distances, else farther than the 95th."""
    i, j = rng.integers(0, len(X), (2, 2 * n_pairs))
    i, j = i[i != j][:n_pairs], j[i != j][:n_pairs]
    same = y[i] == y[j]
    return Constraints.sq_distance(i, j, np.where(same, NEAR, FAR), np.where(same, "<=", ">="))


# %%
# Learning and clustering
# -----------------------
# The kernel keeps its full rank: it differs from the rbf kernel in the span of the images that occur in pairs. It is a function
# of any two images, so the clusters have a place for new ones.

counts = [0, 25, 50, 100, 200, 400]
scores = {"clustered images": [], "of these, in no pair": [], "new images": []}
for n_pairs in counts:
    rows = []
    for seed in range(5):
        kernel, free = "rbf", np.arange(len(X))
        if n_pairs:
            constraints = pairs(n_pairs, np.random.default_rng(seed))
            learner = KernelLearner("rbf", gamma=GAMMA, slack_weight=10.0).fit(X, constraints=constraints)
            kernel, free = learner.kernel, np.setdiff1d(free, constraints.index)
        model = KernelKMeans(3, kernel=kernel, gamma=GAMMA, random_state=seed).fit(X)
        found = [(y, model.labels_), (y[free], model.labels_[free]), (y_new, model.predict(X_new))]
        rows.append([normalized_mutual_info_score(*pair) for pair in found])
    for name, score in zip(scores, np.mean(rows, axis=0)):
        scores[name].append(score)
    print(f"{n_pairs:4d} pairs: " + ", ".join(f"{name} {score[-1]:.3f}" for name, score in scores.items()))
assert all(score[-1] > score[0] + 0.05 for score in scores.values())

# %%
# The last kernel was learned from 400 pairs, and comes with a certificate.

print(learner.result_)

# %%
# Pictures
# --------
# Both kernels with the images sorted by digit, and how well the clusters match the digits.

order = np.argsort(y, kind="stable")
# sphinx_gallery_thumbnail_panel = (1, 2)
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), width_ratios=[1, 1, 1.25])
for ax, K, title in zip(axes, (K0, learner.kernel_), ("rbf kernel", "learned from 400 pairs")):
    shown = K[np.ix_(order, order)] / np.sqrt(np.outer(np.diag(K), np.diag(K))[np.ix_(order, order)])
    image = ax.imshow(shown, vmin=-0.5, vmax=1, cmap="RdBu_r")
    edges = np.cumsum(np.bincount(y))
    ax.set(title=title, xticks=edges - np.bincount(y) / 2, xticklabels=digits.target_names, yticks=[])
figure.colorbar(image, ax=axes[:2], label="cosine of the angle between two images", shrink=0.8)
for (name, score), style in zip(scores.items(), ("-o", "--s", ":^")):
    axes[2].plot(counts, score, style, label=name)
axes[2].set(xlabel="pairs", ylabel="normalised mutual information", ylim=(0.5, 1))
axes[2].legend(loc="lower right")
plt.show()
