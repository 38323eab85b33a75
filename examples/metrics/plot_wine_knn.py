"""
=============================================================
Nearest neighbours on wine, with and without a learned metric
=============================================================

The 178 wines are described by 13 measurements in different units. Proline, in mg/l, has so large a variance that it determines the
Euclidean neighbours. Scaling the columns gives most of the possible gain, and a learned metric gives the rest.

Learning does not always help. ``MetricLearner`` compares it on held-out rows with scaling alone, and ``selection_`` shows the scores.
"""

# %%
# Five folds, twice
# -----------------
# Accuracy is measured on wines that neither the metric nor any choice has seen. If nothing is gained by learning on the training wines of a
# fold, a warning says so, and the metric of that fold is the prior.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bregmat import MetricLearner

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
# A dot is a fold of 35 or 36 wines, and a line is the mean.

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
# The metric is learned once on all wines, only to look at them. The fit ends with a certificate, which says how far
# from optimal the metric can be at most. Every panel has the two components of most variance in its space.

learner = MetricLearner(random_state=0).fit(X, y)
print(learner.result_)
spaces = {"as given": X, "scaled": StandardScaler().fit_transform(X), "learned": learner.transform(X)}
# sphinx_gallery_thumbnail_panel = (2, 2)
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
# Which measurements matter
# -------------------------
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
# ``fit`` compared its candidates on held-out rows before it learned. Bars are standard errors over these rows. Candidates that were
# clearly behind on the first folds are not tried on the others. Grey candidates do not learn.

table = learner.selection_
print(table.round(3).to_string(index=False))
assert learner.strategy_ is not None  # here it is worth it
figure, ax = plt.subplots(figsize=(7.4, 3.4))
for place, row in enumerate(table.itertuples()):
    color = "#8A8F98" if "not learned" in row.candidate else "#0072B2"
    ax.errorbar(row.score, place, xerr=row.standard_error, fmt="D" if row.chosen else "o", color=color)
    ax.text(1.01, place, f"{row.n_folds} of 5 folds{', chosen' if row.chosen else ''}", va="center", fontsize="small")
ax.set_yticks(range(len(table)), table["candidate"])
ax.set(xlim=(None, 1.0), xlabel="score on held-out rows", ylim=(len(table) - 0.5, -0.5))
plt.show()
