"""
====================================================
Learn from ten labels a class on sentence embeddings
====================================================

Sentences of 20 topics are given as vectors, and ten sentences of each topic are labelled. The learned metric brings sentences of one
topic nearer to each other, also those without a label.
"""

# %%
# Sentences as vectors
# --------------------
# The sentences are docstrings of scikit-learn, the topic is the module that each is from. Latent semantic analysis makes a vector of
# length 1 from each; the vectors of a language model would take its place.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from bregmat import MetricLearner
from bregmat_papers.datasets import load_sentences

plt.style.use("bregmat.plots.bregmat")
data = load_sentences()
E, topic = data.X, data.y
print(f"{len(E)} sentences, {E.shape[1]} dimensions, {len(data.topics)} topics")


def ten_each(seed):
    """Ten rows of every topic, and all other rows."""
    order = np.random.default_rng(seed).permutation(len(topic))
    few = np.concatenate([order[topic[order] == k][:10] for k in range(20)])
    return few, np.setdiff1d(order, few)


# %%
# Learn, classify and search
# --------------------------
# Accuracy: the vote of the five nearest labelled sentences. Precision at k: the share of the k nearest sentences without a label that are
# of the topic of the query. Means over five draws of the labelled sentences.

COUNTS = np.array([1, 2, 5, 10, 20, 50])
accuracy = {"as given": [], "learned": []}
precision = {"as given": [], "learned": []}
for seed in range(5):
    few, rest = ten_each(seed)
    learner = MetricLearner(random_state=0).fit(E[few], topic[few])
    for name, Z in {"as given": E, "learned": learner.transform(E)}.items():
        knn = KNeighborsClassifier(5).fit(Z[few], topic[few])
        accuracy[name].append(knn.score(Z[rest], topic[rest]))
        near = NearestNeighbors(n_neighbors=COUNTS[-1]).fit(Z[rest]).kneighbors(return_distance=False)
        right = topic[rest][near] == topic[rest][:, None]
        precision[name].append([right[:, :k].mean() for k in COUNTS])
for name in accuracy:
    print(
        f"{name:9s} accuracy {np.mean(accuracy[name]):.3f}   precision at 10 {np.mean(precision[name], axis=0)[3]:.3f}"
    )
assert np.mean(accuracy["learned"]) > np.mean(accuracy["as given"]) + 0.03
assert np.mean(precision["learned"], axis=0)[3] > np.mean(precision["as given"], axis=0)[3]

# %%
# The picture
# -----------

# sphinx_gallery_thumbnail_panel = (1, 0)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), width_ratios=(1, 2))
for place, (name, color) in enumerate((("as given", "#8A8F98"), ("learned", "#0072B2"))):
    axes[0].bar(place, np.mean(accuracy[name]), color=color, width=0.6)
    axes[0].plot(np.full(5, place), accuracy[name], "o", color="0.2", markersize=3)
    axes[1].plot(COUNTS, np.mean(precision[name], axis=0), "-o", color=color, markersize=4, label=name)
axes[0].set(title="accuracy of 5 neighbours", xticks=(0, 1), xticklabels=("as given", "learned"), ylim=(0, 0.6))
axes[1].set(title="precision at k", xlabel="k", xscale="log", xticks=COUNTS, xticklabels=COUNTS, ylim=(0, None))
axes[1].minorticks_off()
axes[1].legend(frameon=False)
plt.show()
