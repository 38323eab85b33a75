"""
======================================
Approximate the maximum cut of a graph
======================================

The vertices of a graph are divided so that the edges between the two sides have as much weight as possible. The semidefinite relaxation of
Goemans and Williamson (1995) gives a proven upper bound, and random hyperplanes through its solution give cuts that have on average at
least .878 of this weight.
"""

# %%
# The relaxation: ``maximize tr(L X) / 4`` over ``X >= 0`` with a diagonal of ones.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from bregmat import Constraints, semidefinite_program, verify

plt.style.use("bregmat.plots.bregmat")

graph = nx.random_geometric_graph(40, 0.28, seed=1)
L = nx.laplacian_matrix(graph).toarray().astype(float)
result = semidefinite_program(-L / 4, Constraints.diagonal(np.ones(40)))
print(result)
print("recomputed:", verify(result).verdict)
assert result.status == "OPTIMAL"

# %%
# Cuts from random hyperplanes. A cut is a whole number, so the bound is rounded down.

rng = np.random.default_rng(0)
signs = np.sign(result.factor @ rng.normal(size=(result.factor.shape[1], 500)))
cuts = (signs * (L @ signs)).sum(axis=0) / 4
bound = int(np.floor(-result.dual_bound + 1e-6))
best = signs[:, cuts.argmax()]
print(f"best cut {cuts.max():.0f} of {graph.number_of_edges()} edges, and none is above {bound}")
assert 0.878 * bound <= cuts.max() <= bound

# %%
# The picture
# -----------

place = nx.get_node_attributes(graph, "pos")
# sphinx_gallery_thumbnail_panel = (1, 0)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
is_cut = ["#D55E00" if best[i] != best[j] else "#cccccc" for i, j in graph.edges]
nx.draw(graph, place, ax=axes[0], node_size=40, node_color=best, cmap="coolwarm", edge_color=is_cut)
axes[0].set_title(f"{cuts.max():.0f} edges are cut")
axes[1].hist(cuts, bins=np.arange(cuts.min(), bound + 2) - 0.5)
axes[1].axvline(bound, color="#D55E00")
axes[1].set(title="500 hyperplanes, and the bound", xlabel="edges cut")
plt.show()
