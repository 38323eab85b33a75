"""
=========================================
Learn a kernel from a stream of distances
=========================================

The distances between 52 points of three classes arrive one at a time. The matrix exponentiated gradient learner (Tsuda, Raetsch and
Warmuth, 2004) predicts each distance before it sees it, and then updates its matrix. A bound on its total loss is known before the first
distance arrives, and the learned kernel separates the classes better and better.

The setting is that of Figure 2 of the paper, with a simulated kernel of the same size as its gyrB kernel, which is not public.
"""

# %%
# The stream
# ----------
# A target kernel of trace one, and 200,000 random pairs with *half* their squared distance, which is what
# ``instances="pairs"`` means by a label. Distances on another
# scale need another trace, or nothing fits them: ``MatrixExponentiatedGradient(d, trace=(d - 1) * half.mean())``.

import matplotlib.pyplot as plt
import numpy as np

from bregmat.online import MatrixExponentiatedGradient

plt.style.use("bregmat.plots.bregmat")

rng = np.random.default_rng(0)
d, n = 52, 200_000
classes = np.arange(d) % 3
X = rng.standard_normal((3, 8))[classes] + 0.7 * rng.standard_normal((d, 8))
target = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / (2 * 2.5**2))
target /= np.trace(target)


def squared_distances(K):
    """Of all points, in the feature space of a kernel."""
    return np.diag(K)[:, None] + np.diag(K) - 2 * K


a = rng.integers(0, d, n)
b = (a + rng.integers(1, d, n)) % d
half = squared_distances(target)[a, b] / 2

# %%
# One pass
# --------
# After every 500 examples, nearest neighbours are measured with the kernel of the moment: 26 points name the class of the
# other 26, averaged over 10 divisions. ``learner.loss_bound(target)`` is the bound of Lemma 3.2 for a comparison matrix that
# fits every distance; without a matrix the bound holds for any, and is larger.

halves = [np.array_split(rng.permutation(d), 2) for _ in range(10)]


def neighbours_error(K):
    """Share of wrong classes."""
    D = squared_distances(K)
    return np.mean([np.mean(classes[known[D[np.ix_(new, known)].argmin(1)]] != classes[new]) for known, new in halves])


learner, pairs = MatrixExponentiatedGradient(d), np.column_stack([a, b])
positions, losses, bounds, errors = [], [], [], []
for start in range(0, n, 500):
    learner.partial_fit(pairs[start : start + 500], half[start : start + 500])
    positions.append(learner.n_seen_)
    losses.append(learner.cumulative_loss_)
    bounds.append(learner.loss_bound(target))
    errors.append(neighbours_error(learner.matrix()))
print(f"total loss {losses[-1]:.4f}, bound {bounds[-1]:.4f}: {bounds[-1] / losses[-1]:.2f} times the loss")
print(
    f"neighbours' error {errors[0]:.3f} after 500 examples, {errors[-1]:.3f} at the end, {neighbours_error(target):.3f} with the target"
)
assert losses[-1] <= bounds[-1] and errors[-1] < errors[0] / 2

# %%
# Both panels of the figure
# -------------------------

# sphinx_gallery_thumbnail_panel = (1, 0)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
left.plot(positions, bounds, color="#D55E00", linestyle="--", label="bound")
left.plot(positions, losses, color="#0072B2", label="total loss")
left.set(xlabel="examples", ylabel="total loss", ylim=(0, None), xlim=(0, n))
left.legend()
right.plot(positions, errors, color="#0072B2", label="learned kernel")
right.axhline(neighbours_error(target), color="#D55E00", linestyle="--", label="target kernel")
right.set(xlabel="examples", ylabel="error of the nearest neighbour", ylim=(0, None), xlim=(0, n))
for panel in (left, right):
    panel.xaxis.set_major_locator(plt.MaxNLocator(5))
    panel.xaxis.set_major_formatter("{x:,.0f}")
right.legend()
plt.show()
