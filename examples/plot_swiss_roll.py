"""
=======================================
Unrolling the Swiss roll by von Neumann
=======================================

Maximum variance unfolding looks for the kernel of largest trace that is centred and keeps the distances between neighbours: a
semidefinite program over distance constraints, a neighbour of those in section 6.3 of Kulis 2009. The von Neumann divergence gives
the same as a limit. With the prior ``K0 = c (I - ee'/n)``,

    D(K, K0) = tr(K log K) - (1 + log c) tr K + const,

so for large c the trace is what counts, and a smaller c asks for entropy too, that is for more dimensions. The learned kernel
keeps the range of the prior, so it is centred without any constraint. Distances between neighbours may shrink but not grow
(``<=``), which does as well when the whole pulls outwards.
"""

# %%
# 150 points spread evenly over the roll, each joined with its five nearest.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.neighbors import kneighbors_graph

from bregmat import Constraints, nearest_kernel

plt.style.use("bregmat.plots.bregmat")

N = 150
many, place = make_swiss_roll(6000, random_state=0)
rows, far = [0], ((many - many[0]) ** 2).sum(1)
while len(rows) < N:  # the farthest from all before
    rows.append(int(far.argmax()))
    far = np.minimum(far, ((many - many[rows[-1]]) ** 2).sum(1))
X, place = many[rows], place[rows]
graph = kneighbors_graph(X, 5).toarray()
i, j = np.nonzero(np.triu(graph + graph.T))
sq = ((X[i] - X[j]) ** 2).sum(1)
unit = sq.mean()
neighbours = Constraints.sq_distance(i, j, sq / unit, "<=")

# %%
# The kernels
# -----------
# The first two principal components of each kernel are where its points lie. Hard constraints, and a certificate each.

centred = np.eye(N) - 1 / N
scales = [1e2, 1e4, 1e6]
embeddings, shares = [], []
for c in scales:
    result = nearest_kernel(c * centred, neighbours, divergence="vonneumann")
    values, vectors = np.linalg.eigh(result.kernel())
    embeddings.append(vectors[:, :-3:-1] * np.sqrt(values[:-3:-1]))
    shares.append(values[:-3:-1].sum() / values.sum())
    along = abs(np.corrcoef(embeddings[-1][:, 0], place)[0, 1])
    print(
        f"c = {c:.0e}: {result.status} in {result.n_iter} steps, largest relative violation {result.max_violation:.0e}, "
        f"variance in two dimensions {shares[-1]:.1%}, correlation with the place along the roll {along:.3f}"
    )

# %%
# The picture
# -----------

figure = plt.figure(figsize=(12, 3.4))
axis = figure.add_subplot(1, 4, 1, projection="3d")
axis.scatter(*X.T, c=place, s=8)
axis.view_init(8, -75)
axis.set(title=f"{N} points, {len(i)} distances", xticks=[], yticks=[], zticks=[])
for k, (c, Y, share) in enumerate(zip(scales, embeddings, shares)):
    axis = figure.add_subplot(1, 4, k + 2)
    axis.plot(Y[[*zip(i, j)], 0].T, Y[[*zip(i, j)], 1].T, color="#cccccc", linewidth=0.6, zorder=0)
    axis.scatter(*Y.T, c=place, s=8)
    axis.set(title=f"$c = 10^{{{np.log10(c):.0f}}}$: {share:.0%} of the variance", xticks=[], yticks=[], aspect="equal")
    axis.spines[:].set_visible(False)
plt.show()
