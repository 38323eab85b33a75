"""
=============================================
Decide whether two images show the same digit
=============================================

The digits of the images are unknown, but for some pairs it is known whether both show the same digit. From these pairs a metric is
learned, and a distance above which two images are called different.
"""

# %%
# Pairs to learn from, to choose a threshold, to be tested on
# -----------------------------------------------------------
# No image is in two of the three sets. Images are named by their row numbers, which ``preprocessor`` turns into points.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from bregmat.pairs import PairsLearner

plt.style.use("bregmat.plots.bregmat")

images, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)


def some_pairs(rows, n=1000):
    """Pairs of some images, half of them of the same digit."""
    drawn = rng.choice(rows, (40 * n, 2))
    same = (digit[drawn[:, 0]] == digit[drawn[:, 1]]) & (drawn[:, 0] != drawn[:, 1])
    different = digit[drawn[:, 0]] != digit[drawn[:, 1]]
    return np.concatenate([drawn[same][: n // 2], drawn[different][: n // 2]]), np.repeat([1, -1], n // 2)


parts = np.split(rng.permutation(len(images)), 3)
(train, y_train), (valid, y_valid), (test, y_test) = (some_pairs(rows) for rows in parts)
learner = PairsLearner(preprocessor=images).fit(train, y_train)
print(learner.result_)

# %%
# Images that it has not seen
# ---------------------------
# The area under the ROC curve depends only on the order of the distances. It is .5 for guessing, and 1 if all pairs of the same digit are
# nearer than all others.

deviations = images.std(axis=0)
scaled = images / np.where(deviations > 0, deviations, 1)
distances = {
    "as given": lambda pairs: np.linalg.norm(images[pairs[:, 0]] - images[pairs[:, 1]], axis=1),
    "scaled": lambda pairs: np.linalg.norm(scaled[pairs[:, 0]] - scaled[pairs[:, 1]], axis=1),
    "learned": learner.pair_distance,
}
for name, distance in distances.items():
    area = [roc_auc_score(y, -distance(pairs)) for pairs, y in ((train, y_train), (test, y_test))]
    print(f"{name:10s} pairs learned from {area[0]:.3f}   others {area[1]:.3f}")
areas = {name: roc_auc_score(y_test, -distance(test)) for name, distance in distances.items()}
assert areas["learned"] > max(areas["as given"], areas["scaled"])

# %%
# Choose the threshold
# --------------------
# ``fit`` chooses the threshold on the training pairs, which are better separated than others. Other pairs give a better threshold: here it
# finds as many pairs of the same digit as possible, while at most one in twenty other pairs is called the same.

learner.calibrate_threshold(valid, y_valid, strategy="max_tpr", min_rate=0.95)
predicted = learner.predict(test)
found, refused = np.mean(predicted[y_test > 0] > 0), np.mean(predicted[y_test < 0] < 0)
print(f"of the same digit {found:.0%} are found, of different ones {refused:.0%} refused")
assert found > 0.6 and refused > 0.9

# sphinx_gallery_thumbnail_panel = (1, 2)
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
panels = {
    "scaled": (distances["scaled"](test), y_test),
    "learned, pairs learned from": (learner.pair_distance(train), y_train),
    "learned, others": (learner.pair_distance(test), y_test),
}
for ax, (title, (distance, y)) in zip(axes, panels.items()):
    bins = np.linspace(0, np.quantile(distance, 0.99), 40)
    ax.hist(distance[y < 0], bins, color="0.6", alpha=0.8, label="different digits")
    ax.hist(distance[y > 0], bins, color="C0", alpha=0.7, label="the same digit")
    ax.set(title=title, xlabel="distance of the two images")
for ax in axes[1:]:
    ax.axvline(learner.threshold_, color="C1", label="threshold")
axes[0].set_ylabel("pairs")
axes[2].legend(frameon=False)

# %%
# What one threshold costs
# ------------------------
# Every threshold has its two shares; strategies pick one of them.

figure, ax = plt.subplots(figsize=(5, 3.6))
distance = learner.pair_distance(valid)
levels = np.sort(distance)
same, different = np.sort(distance[y_valid > 0]), np.sort(distance[y_valid < 0])
ax.plot(levels, np.searchsorted(same, levels, side="right") / len(same), color="C0", label="same digit, found")
ax.plot(
    levels,
    1 - np.searchsorted(different, levels, side="right") / len(different),
    color="0.6",
    label="others, refused",
)
for strategy, style, how in (
    ("accuracy", ":", {}),
    ("max_tpr", "-", {"min_rate": 0.95}),
    ("max_tnr", "--", {"min_rate": 0.95}),
):
    cut = learner.calibrate_threshold(valid, y_valid, strategy=strategy, **how).threshold_
    ax.axvline(cut, color="C1", linestyle=style, linewidth=1, label=strategy)
ax.set(xlabel="threshold", ylabel="share of the pairs", xlim=(0, np.quantile(levels, 0.99)), ylim=(0, 1.02))
ax.legend(frameon=False, fontsize="small")
plt.show()
