"""
=================================================
Cut a graph into halves with a proven lower bound
=================================================

Partitioners find cuts of small weight, but do not show whether a lighter cut exists. ``balanced_cut`` also returns a proven lower bound:
a certificate of n numbers, which can be checked with one eigenvalue of one matrix.
"""

# %%
# The karate club
# ---------------
# The club has 34 members and 78 friendships. A cut into halves contains at least ten friendships. The relaxation proves a little less
# than ten, and since the number of friendships is whole, the bound is rounded up.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from bregmat import balanced_cut

plt.style.use("bregmat.plots.bregmat")

karate = nx.Graph(nx.karate_club_graph())
nx.set_edge_attributes(karate, 1, "weight")
result = balanced_cut(karate, random_state=0)
print(result)

# %%
# The proof, without the library: multipliers y for which L + diag(y) has no negative eigenvalue orthogonal to the vector
# of ones. Then every balanced cut weighs at least -sum(y) / 4.

y, L = result.dual, nx.laplacian_matrix(karate).toarray()
basis = np.linalg.svd(np.ones((34, 1)))[0][:, 1:]
print("smallest eigenvalue", np.linalg.eigvalsh(basis.T @ (L + np.diag(y)) @ basis)[0])
print("bound", -y.sum() / 4)
assert result.cut == 10 and result.status == "OPTIMAL" and -y.sum() / 4 > 9
assert np.linalg.eigvalsh(basis.T @ (L + np.diag(y)) @ basis)[0] > -1e-9

# %%
# Two blocks
# ----------
# 200 vertices in two planted blocks, each with about 20 neighbours in its own block and 5 in the other. The proof takes one
# factorisation: the cut is asked to certify itself. With 8 neighbours inside and 4 across, noise leaves a gap.

blocks = nx.stochastic_block_model([100, 100], [[0.2, 0.05], [0.05, 0.2]], seed=0)
clear = balanced_cut(blocks, random_state=0)
print(clear)
noisy_blocks = nx.stochastic_block_model([100, 100], [[0.08, 0.04], [0.04, 0.08]], seed=0)
noisy = balanced_cut(noisy_blocks, random_state=0)
print(noisy)
assert clear.status == "OPTIMAL" and noisy.lower_bound < noisy.cut

# %%
# The pictures
# ------------
# The karate club, and what is cut of it in orange.

COLORS = np.array(["#0072B2", "#E69F00"])
side = dict(zip(karate, result.labels))
across = [(u, v) for u, v in karate.edges if side[u] != side[v]]
place = nx.spring_layout(karate, seed=4, iterations=200)
# sphinx_gallery_thumbnail_panel = (1, 0)
figure, ax = plt.subplots(figsize=(6, 3.6))
nx.draw_networkx_edges(karate, place, ax=ax, edge_color="#B4B8BE", width=0.8)
nx.draw_networkx_edges(karate, place, ax=ax, edgelist=across, edge_color="#D55E00", width=1.8)
nx.draw_networkx_nodes(karate, place, ax=ax, node_color=COLORS[result.labels], node_size=90, linewidths=0)
ax.set_title(f"{len(side)} members, cut {result.cut:g}: proven optimal")
ax.set_axis_off()

# %%
# The graphs of 200 vertices are shown as matrices: a dot is an edge, orange if it is cut. The first panel has the vertices in their given
# order, the next two sort them by side. Right: the lower bound and the best cut of the noisy graph at each step.

shuffled = np.random.default_rng(0).permutation(200)
figure, axes = plt.subplots(1, 4, figsize=(11.5, 3.1), width_ratios=[1, 1, 1, 1.15])
pictures = (
    (blocks, clear, shuffled, "as it comes"),
    (blocks, clear, np.argsort(clear.labels, kind="stable"), f"cut {clear.cut:g}: proven optimal"),
    (
        noisy_blocks,
        noisy,
        np.argsort(noisy.labels, kind="stable"),
        f"noisy: cut {noisy.cut:g}, at least {noisy.lower_bound:g}",
    ),
)
for ax, (graph, cut, order, title) in zip(axes, pictures):
    A, sides = nx.to_numpy_array(graph)[np.ix_(order, order)], cut.labels[order]
    u, v = np.nonzero(A)
    ax.scatter(u, v, s=1.6, c=np.where(sides[u] == sides[v], "#0072B2", "#D55E00"), linewidths=0)
    ax.set(title=title, xticks=[], yticks=[], aspect="equal", xlim=(-1, 200), ylim=(200, -1))
    ax.spines[:].set(visible=True, color="#C9CCD1")
steps = [record.iteration for record in noisy.history]
axes[3].step(steps, [record.objective for record in noisy.history], where="post", color="#D55E00")
axes[3].step(steps, [record.dual_bound for record in noisy.history], where="post", color="#0072B2")
axes[3].text(steps[-1], noisy.cut + 8, "best cut", ha="right", color="#D55E00")
axes[3].text(steps[-1], noisy.lower_bound - 28, "proven bound", ha="right", color="#0072B2")
axes[3].set(xlabel="Newton step", title="weight, noisy blocks", ylim=(0, noisy.cut * 1.15))
plt.show()
