"""
===========================================
Learn a kernel on gene sequences from pairs
===========================================

Sequences have no coordinates, but there are kernels for them, such as the inner product of their counts of words of three letters. These
counts do not say which words distinguish families. Here the kernel learns it from 150 pairs of sequences of which it is known whether they
belong to one family. The learned kernel can be computed for any two sequences.
"""

# %%
# Four families
# --------------
# The sequences are simulated: four ancestors share most of their letters, random mutations give their descendants, and a long stretch is
# random in every sequence.

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform

from bregmat import Constraints, KernelLearner

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(4)
LETTERS = np.array(list("ACGT"))


def mutated(sequence, rate):
    changed = rng.random(len(sequence)) < rate
    return np.where(changed, rng.integers(4, size=len(sequence)), sequence)


root = rng.integers(4, size=300)
ancestors = [mutated(root, 0.25) for _ in range(4)]
family = np.repeat(np.arange(4), 20)
composition = [rng.dirichlet(np.full(4, 0.9)) for _ in family]  # of the stretch that tells nothing
genes = [np.r_[mutated(ancestors[f], 0.06), rng.choice(4, 150, p=c)] for f, c in zip(family, composition)]
print("".join(LETTERS[genes[0]][:60]), "...")


def words(sequence, length=3):
    """How often each word occurs, scaled to length one."""
    code = sum(sequence[k : len(sequence) - length + 1 + k] * 4**k for k in range(length))
    count = np.bincount(code, minlength=4**length).astype(float)
    return count / np.linalg.norm(count)


X = np.array([words(gene) for gene in genes])

# %%
# From 150 pairs
# --------------
# Pairs are drawn among the first twelve of each family; the other eight are new to the kernel. Squared distances of the prior kernel
# give the bounds: their 5th and 95th percentile.

K0 = X @ X.T
sq_distances = 2 - 2 * K0[np.triu_indices(len(X), 1)]
near, far = np.percentile(sq_distances, [5, 95])
known = np.flatnonzero(np.arange(80) % 20 < 12)
i, j = rng.choice(known, size=(2, 200))
i, j = i[i != j][:150], j[i != j][:150]
same = family[i] == family[j]
constraints = Constraints.sq_distance(i, j, np.where(same, near, far), np.where(same, "<=", ">="))
learner = KernelLearner("linear", slack_weight=10.0).fit(X, constraints=constraints)
K = learner.kernel(X)
print(learner.result_.status)


def sq_distance(K):
    return np.maximum(K.diagonal()[:, None] + K.diagonal() - 2 * K, 0)


def right_neighbours(K, among):
    D = sq_distance(K) + np.diag(np.full(len(K), np.inf))
    return (family[D.argmin(1)] == family)[among].mean()


new = np.setdiff1d(np.arange(80), known)
for name, kernel in (("counts of words", K0), ("learned", K)):
    print(f"{name:16s} nearest is of the family: {right_neighbours(kernel, new):.2f} of the new sequences")
assert right_neighbours(K, new) > right_neighbours(K0, new) + 0.1

# %%
# The picture
# -----------
# Cosines in both kernels, with the sequences sorted by family, and below them the trees of average-linkage clustering.

COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]
# sphinx_gallery_thumbnail_panel = (1, 1)
figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.2), height_ratios=[2.3, 1])
for (upper, lower), kernel, title in zip(
    axes.T, (K0, K), ("counts of words of three letters", "learned from 150 pairs")
):
    centred = kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean()
    cosine = centred / np.sqrt(np.outer(centred.diagonal(), centred.diagonal()))
    image = upper.imshow(cosine, cmap="RdBu_r", vmin=-1, vmax=1)
    upper.set(
        title=f"{title}\nnearest of the family: {right_neighbours(kernel, new):.0%} of new ones", xticks=[], yticks=[]
    )
    upper.spines[:].set_visible(False)
    tree = linkage(squareform(np.sqrt(sq_distance(kernel)), checks=False), "average")
    order = dendrogram(tree, ax=lower, no_labels=True, color_threshold=0, above_threshold_color="#8A8F98")["leaves"]
    bottom = -0.07 * lower.get_ylim()[1]
    lower.scatter(5 + 10 * np.arange(80), np.full(80, bottom), c=[COLORS[family[k]] for k in order], s=12, marker="s")
    lower.set(yticks=[], ylim=(2 * bottom, None))
    lower.spines[:].set_visible(False)
figure.colorbar(image, ax=axes[0], shrink=0.8, label="cosine, centred")
plt.show()
