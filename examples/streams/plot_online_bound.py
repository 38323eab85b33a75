"""
=================================================================
The loss bound of the online learner, in three orders of a stream
=================================================================

The total loss of the matrix exponentiated gradient learner stays below a bound at every moment, for every stream that some matrix fits, in
any order of the examples. Here the same distances come in three orders: at random, sorted by size, and chosen by an adversary, who at each
step takes the pair on which the learner has the largest error.
"""

# %%
# Distances of 24 points
# ----------------------

import matplotlib.pyplot as plt
import numpy as np

from bregmat import MatrixExponentiatedGradient

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(0)
d, steps = 24, 3000
points = rng.normal(size=(d, 2))
points -= points.mean(axis=0)
kernel = points @ points.T
kernel /= np.trace(kernel)
a, b = np.triu_indices(d, 1)
half = (kernel[a, a] + kernel[b, b] - 2 * kernel[a, b]) / 2


def predictions(W):
    return (W[a, a] + W[b, b] - 2 * W[a, b]) / 2


def at_random(step, learner):
    return rng.integers(len(half))


def from_small_to_large(step, learner):
    return order[step * len(half) // steps]


def an_enemy(step, learner):
    return np.argmax(np.abs(predictions(learner.matrix()) - half))


order = np.argsort(half)

# %%
# Learning
# --------
# The kernel of the points has trace one and fits every distance. The bound against it is that of Lemma 3.2 of Tsuda, Raetsch and
# Warmuth: it depends on how far the kernel is from the first matrix, and on nothing of the stream.

runs = {}
for name, choose in (
    ("at random", at_random),
    ("from small to large", from_small_to_large),
    ("chosen by an enemy", an_enemy),
):
    learner, losses, errors = MatrixExponentiatedGradient(d), [], []
    for step in range(steps):
        k = choose(step, learner)
        learner.learn_one((a[k], b[k]), half[k])
        losses.append(learner.cumulative_loss_)
        if step % 50 == 0:
            errors.append(np.abs(predictions(learner.matrix()) - half).mean() / half.mean())
    runs[name] = losses, errors
    print(f"{name:20s} total loss {losses[-1]:.4f}, bound {learner.loss_bound(kernel):.4f}")
    assert max(losses) <= learner.loss_bound(kernel)
bound = learner.loss_bound(kernel)

# %%
# The picture
# -----------
# Above: the total loss and the bound. Below: the relative error of the learned distances at that moment, as a mean over all pairs.

# sphinx_gallery_thumbnail_panel = (1, 0)
figure, axes = plt.subplots(2, 3, figsize=(9.6, 4.6), sharex=True, sharey="row")
for (upper, lower), (name, (losses, errors)) in zip(axes.T, runs.items()):
    upper.axhline(bound, color="#D55E00", linestyle="--", label="bound")
    upper.plot(losses, label="total loss")
    upper.set_title(name)
    lower.plot(np.arange(0, steps, 50), errors, color="#009E73")
    lower.set(xlabel="examples", ylim=(0, None))
axes[0, 0].set(ylabel="total squared loss", ylim=(0, 1.1 * bound))
axes[0, 0].legend(loc="lower right")
axes[1, 0].set_ylabel("relative error of all distances")
axes[1, 0].set_xticks([0, 1000, 2000])
plt.show()
