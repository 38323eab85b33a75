"""
=====================
Unfold the Swiss roll
=====================

The points lie on a rolled-up sheet. Maximum variance unfolding (Weinberger 2004) looks for the centred kernel of largest trace that keeps
the distances between neighbours, which is a semidefinite program. ``unfold`` solves it and proves the optimum.
"""

# %%
# 320 points spread evenly over the roll, each joined with its five nearest. Fewer points leave gaps between them as wide as
# the gap between the layers of the roll; then edges take short cuts from layer to layer, and ``unfold`` warns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import Isomap

from bregmat import unfold

plt.style.use("bregmat.plots.bregmat")

N = 320
many, angle = make_swiss_roll(8000, random_state=0)
rows, far = [0], ((many - many[0]) ** 2).sum(1)
while len(rows) < N:  # the farthest from all before
    rows.append(int(far.argmax()))
    far = np.minimum(far, ((many - many[rows[-1]]) ** 2).sum(1))
X, angle = many[rows], angle[rows]
result = unfold(X, n_neighbors=5, objective="variance", tol=1e-4)
print(result)

# %%
# Compare with the sheet
# ----------------------
# The sheet has two coordinates: the length of the spiral up to the point, and the height. The best linear map of the embedding
# to both has correlations near 1 with them. Isomap, which adds lengths of edges along shortest paths, is shown for comparison.

spiral = (angle * np.sqrt(1 + angle**2) + np.arcsinh(angle)) / 2
sheet = np.column_stack([spiral, X[:, 1]])


def correlations(Y):
    """Of the two coordinates of the sheet with their best linear predictions."""
    Y1 = np.column_stack([Y, np.ones(N)])
    predicted = Y1 @ np.linalg.lstsq(Y1, sheet, rcond=None)[0]
    return [np.corrcoef(predicted[:, k], sheet[:, k])[0, 1] for k in range(2)]


isomap = Isomap(n_neighbors=5, n_components=2).fit_transform(X)
share = result.spectrum[:2].sum() / result.spectrum.sum()
print(f"share of the variance in two dimensions: {share:.2%}")
for name, Y in (("unfold", result.embedding), ("Isomap", isomap)):
    print(
        f"{name}: correlation with the place along the roll {correlations(Y)[0]:.4f}, with the height {correlations(Y)[1]:.4f}"
    )
assert share > 0.99
assert min(correlations(result.embedding)) > 0.99

# %%
# The picture
# -----------

# sphinx_gallery_thumbnail_panel = (1, 0)
figure = plt.figure(figsize=(11, 3.2))
axis = figure.add_subplot(1, 3, 1, projection="3d")
axis.scatter(*X.T, c=angle, s=8)
axis.view_init(8, -75)
axis.set(title=f"{N} points", xticks=[], yticks=[], zticks=[])
for k, (name, Y) in enumerate((("unfold", result.embedding), ("Isomap", isomap))):
    axis = figure.add_subplot(1, 3, k + 2)
    axis.plot(Y[result.pairs.T, 0], Y[result.pairs.T, 1], color="#cccccc", linewidth=0.6, zorder=0)
    axis.scatter(*Y.T, c=angle, s=8)
    axis.set(title=name, xticks=[], yticks=[], aspect="equal")
    axis.spines[:].set_visible(False)
plt.show()
