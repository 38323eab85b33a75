"""
========================================================
Bound the independence number of a graph: Lovasz's theta
========================================================

How many vertices of a graph can be chosen such that no two of them are neighbours? This number is hard to compute. Lovasz's theta (1979),
the optimum of a semidefinite program, lies between it and the number of colours that the complement of the graph needs.
"""

# %%
# ``theta = maximize sum_ij X_ij`` over ``X >= 0`` with trace 1 and ``X_ij = 0`` for all edges. The pentagon has ``sqrt(5)``.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from bregmat import Constraints, semidefinite_program

plt.style.use("bregmat.plots.bregmat")


def theta(graph):
    """Upper bound, proven, and the result."""
    n = graph.number_of_nodes()
    i, j = np.array(graph.edges).T
    constraints = Constraints.trace(1.0) + Constraints.similarity(i, j, 0.0, "==")
    result = semidefinite_program(-np.ones((n, n)), constraints)
    return -result.dual_bound, result


bound, result = theta(nx.cycle_graph(5))
print(f"pentagon: {bound:.6f}, sqrt(5) is {np.sqrt(5):.6f}: {result.status}")
assert abs(bound - np.sqrt(5)) < 1e-5

# %%
# Cycles and random graphs
# ------------------------
# For odd cycles theta is ``n cos(pi / n) / (1 + cos(pi / n))``. For random graphs the largest independent set, found by an exact
# search, is a little below theta.

sizes = np.arange(5, 20, 2)
cycles = [theta(nx.cycle_graph(int(n)))[0] for n in sizes]
formula = sizes * np.cos(np.pi / sizes) / (1 + np.cos(np.pi / sizes))
assert np.allclose(cycles, formula, rtol=1e-5)
shares = np.linspace(0.1, 0.8, 8)
random = [nx.gnp_random_graph(24, p, seed=3) for p in shares]
bounds = [theta(graph)[0] for graph in random]
exact = [max(len(clique) for clique in nx.find_cliques(nx.complement(graph))) for graph in random]
print("theta            ", np.round(bounds, 3))
print("independent set  ", exact)
assert all(size <= value + 1e-6 for size, value in zip(exact, bounds))

# %%
# The picture
# -----------

# sphinx_gallery_thumbnail_panel = (1, 1)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
axes[0].plot(sizes, formula, label="formula")
axes[0].plot(sizes, cycles, "o", label="theta")
axes[0].set(title="odd cycles", xlabel="vertices")
axes[1].plot(shares, bounds, "o-", label="theta, proven")
axes[1].step(shares, exact, where="mid", label="largest independent set")
axes[1].set(title="random graphs of 24 vertices", xlabel="share of edges")
for axis in axes:
    axis.legend()
plt.show()
