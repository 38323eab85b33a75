"""
============================================
A balanced cut, and the proof that it is one
============================================

Partitioners find light cuts and leave open whether there is a lighter one. Here every cut comes with a lower bound that is
proven: a certificate of n numbers, which anybody can check with one eigenvalue of one matrix.
"""

# %%
# The karate club
# ---------------
# 34 members, 78 friendships. Ten friendships must be cut to halve the club, and no fewer will do. The relaxation stops a
# little below ten, and as friendships are whole, so is the bound.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from bregmat import balanced_cut

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

# %%
# Two blocks
# ----------
# 200 vertices in two planted blocks, each with about 20 neighbours in its own block and 5 in the other. The proof takes one
# factorisation: the cut is asked to certify itself. With 8 neighbours inside and 4 across, noise leaves a gap.

blocks = nx.stochastic_block_model([100, 100], [[0.2, 0.05], [0.05, 0.2]], seed=0)
clear = balanced_cut(blocks, random_state=0)
print(clear)
noisy = balanced_cut(nx.stochastic_block_model([100, 100], [[0.08, 0.04], [0.04, 0.08]], seed=0), random_state=0)
print(noisy)

# %%
# The pictures
# ------------
# Left and middle: what is cut, in orange. Right: lower bound and best cut of the noisy graph, step by step.

COLORS = np.array(["#0072B2", "#E69F00"])


def draw(ax, graph, cut, place, size):
    """Vertices by side, edges between the sides on top."""
    side = dict(zip(graph, cut.labels))
    across = [(u, v) for u, v in graph.edges if side[u] != side[v]]
    nx.draw_networkx_edges(graph, place, ax=ax, edge_color="#8A8F98", width=0.4, alpha=0.5)
    nx.draw_networkx_edges(graph, place, ax=ax, edgelist=across, edge_color="#D55E00", width=0.8, alpha=0.7)
    nx.draw_networkx_nodes(graph, place, ax=ax, node_color=COLORS[cut.labels], node_size=size, linewidths=0)
    ax.set_axis_off()
    word = "proven optimal" if cut.is_optimal else f"at least {cut.lower_bound:g}"
    ax.set_title(f"{len(cut.labels)} vertices, cut {cut.cut:g}: {word}", fontsize=10)


figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
draw(left, karate, result, nx.spring_layout(karate, seed=4), 70)
draw(middle, blocks, clear, nx.spring_layout(blocks, seed=1, iterations=100), 22)
steps = [record.iteration for record in noisy.history]
right.step(steps, [record.objective for record in noisy.history], where="post", color="#D55E00", label="best cut")
right.step(steps, [record.dual_bound for record in noisy.history], where="post", color="#0072B2", label="proven bound")
right.set(xlabel="Newton step", ylabel="weight", ylim=(0, None))
right.set_title(f"noisy blocks: {noisy.lower_bound:g} to {noisy.cut:g}", fontsize=10)
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False)
plt.show()
