"""
=====================================================
Nearest neighbours on wine, with and without a metric
=====================================================

The 178 wines are described by 13 measurements in different units. Proline, in mg/l, is so much larger than the others
that Euclidean neighbours hardly look at anything else. Scaling the columns repairs most of that; a metric that is learned
where neighbours are decided, the rest.

Learning does not always help. ``MetricLearnerCV`` has scaling alone among its candidates, and finds out on inner folds.
"""

# %%
# Two times five folds, three ways
# --------------------------------
# Accuracy is measured on wines that neither the metric nor any choice has seen.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bregmat import MetricLearner, MetricLearnerCV

plt.style.use("bregmat.plots.bregmat")

X, y = load_wine(return_X_y=True)
knn = KNeighborsClassifier(n_neighbors=4)
models = {
    "as given": knn,
    "scaled": make_pipeline(StandardScaler(), knn),
    "MetricLearner()": make_pipeline(MetricLearner(random_state=0), knn),
}
folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
scores = {name: cross_val_score(model, X, y, cv=folds) for name, model in models.items()}
for name, score in scores.items():
    print(f"{name:28s} {score.mean():.3f} +- {score.std():.3f}")
assert scores["MetricLearner()"].mean() > scores["scaled"].mean() > scores["as given"].mean() + 0.1

# %%
# The spread of the folds
# -----------------------
# A dot is a fold, of 35 or 36 wines; a line the mean.

COLORS = np.array(["#0072B2", "#E69F00", "#009E73"])
rng = np.random.default_rng(0)
figure, ax = plt.subplots(figsize=(7.4, 2.2))
for place, score in enumerate(scores.values()):
    color = "#0072B2" if place == 2 else "#8A8F98"
    spread = rng.uniform(-0.16, 0.16, len(score))
    ax.scatter(score, place + spread, s=16, color=color, alpha=0.8, linewidths=0, clip_on=False)
    ax.vlines(score.mean(), place - 0.3, place + 0.3, color="#1B1E23", linewidth=1.6)
    ax.text(1.015, place, f"{score.mean():.3f}", va="center")
ax.set_yticks(range(len(scores)), list(scores))
ax.set(xlim=(0.5, 1.0), xlabel="4-NN accuracy, 2 x 5-fold cross-validation", ylim=(2.5, -0.5))

# %%
# Three spaces
# ------------
# The metric is learned once on all wines, only to look at them; each of its three passes ends with a certificate, which says how far
# from optimal it can be at most. Every panel has the two components of most variance in its space.

learner = MetricLearner(random_state=0).fit(X, y)
print(learner.result_)
spaces = {"as given": X, "scaled": StandardScaler().fit_transform(X), "learned": learner.transform(X)}
# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1))
for ax, (name, Z) in zip(axes, spaces.items()):
    pca = PCA(2).fit(Z)
    ax.scatter(*(pca.transform(Z) / np.sqrt(pca.explained_variance_[0])).T, c=COLORS[y], s=14, linewidths=0)
    ax.set(
        title=f"{name}: {pca.explained_variance_ratio_.sum():.0%} of the variance", xticks=[], yticks=[], aspect="equal"
    )
    ax.set_adjustable("datalim")
    ax.spines[:].set_visible(False)

# %%
# What counts
# -----------
# How much a typical difference of each measurement adds to squared distances: its variance times the diagonal entry of the matrix.

weight = {
    "as given": X.var(axis=0),
    "scaled": np.ones(X.shape[1]),
    "learned": X.var(axis=0) * learner.get_mahalanobis_matrix().diagonal(),
}
names = load_wine().feature_names
order = np.argsort(weight["learned"])
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.3), sharey=True)
for ax, (name, share) in zip(axes, weight.items()):
    share = share / share.sum()
    ax.barh(np.arange(len(share)), share[order], color="#0072B2" if name == "learned" else "#8A8F98", height=0.7)
    ax.set(title=name, xlabel="share of squared distances")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes[0].set_yticks(np.arange(len(names)), [names[k].replace("_", " ") for k in order])

# %%
# Is it worth it?
# ---------------
# ``MetricLearnerCV`` asks on inner folds. Dashed is the best score without learning.

search = MetricLearnerCV(cv=3, random_state=0).fit(X, y)
print(search.best_params_)
assert search.best_params_["strategy"] is not None  # here it is worth it
table = search.cv_results_
score, params = table["mean_test_score"], table["params"]
figure, ax = plt.subplots(figsize=(6.4, 3.6))
ax.axhline(
    max(s for s, p in zip(score, params) if p["strategy"] is None), color="#8A8F98", ls="--", label="not learned"
)
for prior, components in dict.fromkeys((p["prior"], p["n_components"]) for p in params if p["strategy"]):
    rows = [k for k, p in enumerate(params) if p["strategy"] and (p["prior"], p["n_components"]) == (prior, components)]
    label = prior if components is None else f"{prior}, {components} components"
    ax.plot([params[k]["slack_weight"] for k in rows], score[rows], "o-", label=f"learned from {label}")
ax.set(xscale="log", xlabel="slack weight", ylabel="mean accuracy on the inner folds")
ax.legend(fontsize="small")
plt.show()
