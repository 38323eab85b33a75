"""How good are balanced cuts, and how much of that is proven?

Balanced cuts of `balanced_cut` beside networkx's Kernighan-Lin and METIS (pymetis), on the same graphs: cut, seconds, and the
lower bound that only one of them gives. A referee recomputes every bound from the multipliers alone. METIS may leave the
halves unequal; its imbalance is printed, and its cut is not comparable where that is more than the one vertex of an odd graph.

    python benchmarks/bench_cut.py            # about 2 minutes
    python benchmarks/bench_cut.py --large    # and graphs of 5,000 to 40,000 vertices, 2 minutes more
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import harness
import networkx as nx
import numpy as np
import scipy

from bregmat import balanced_cut
from bregmat.applications.cut.graph import read_graph
from bregmat.applications.cut.rounding import BestCut

SLOW = 1500  # vertices above which networkx's Kernighan-Lin is left out


def blocks(n: int, inside: float, across: float, seed: int = 0) -> nx.Graph:
    """Two blocks of n / 2 vertices; mean numbers of neighbours inside the own block and in the other one."""
    p, q = 2 * inside / n, 2 * across / n
    return nx.stochastic_block_model([n // 2, n - n // 2], [[p, q], [q, p]], seed=seed)


def karate() -> nx.Graph:
    graph = nx.Graph(nx.karate_club_graph())
    nx.set_edge_attributes(graph, 1, "weight")
    return graph


def weighted(n: int, seed: int = 0) -> nx.Graph:
    """A neighbourhood graph of random points in the square, weights exp(-distance^2 / radius^2)."""
    points = np.random.default_rng(seed).random((n, 2))
    radius = np.sqrt(8.0 / (np.pi * n))
    near = scipy.spatial.cKDTree(points).sparse_distance_matrix(scipy.spatial.cKDTree(points), radius).tocsr()
    near.data = np.exp(-((near.data / radius) ** 2))
    near.setdiag(0)
    return nx.from_scipy_sparse_array((near + near.T) / 2)


def graphs(large: bool) -> dict[str, Callable[[], nx.Graph]]:
    found: dict[str, Callable[[], nx.Graph]] = {
        "karate club": karate,
        "karate club, weighted": nx.karate_club_graph,
        "two blocks, n = 200 (20, 5)": lambda: blocks(200, 20, 5),
        "two blocks, n = 201 (20, 5)": lambda: blocks(201, 20, 5),
        "two blocks, n = 1,000 (20, 3)": lambda: blocks(1000, 20, 3),
        "two blocks, n = 1,000 (12, 4)": lambda: blocks(1000, 12, 4),
        "two blocks, n = 2,000 (20, 2)": lambda: blocks(2000, 20, 2),
        "two blocks, n = 2,000 (10, 2)": lambda: blocks(2000, 10, 2),
        "grid 9 x 9": lambda: nx.grid_2d_graph(9, 9),
        "grid 20 x 20": lambda: nx.grid_2d_graph(20, 20),
        "3-regular, n = 100": lambda: nx.random_regular_graph(3, 100, seed=1),
        "4-regular, n = 1,000": lambda: nx.random_regular_graph(4, 1000, seed=1),
        "two components, 50 and 70": lambda: nx.disjoint_union(
            nx.random_regular_graph(3, 50, seed=1), nx.random_regular_graph(3, 70, seed=1)
        ),
        "two components, 50 and 50": lambda: nx.disjoint_union(
            nx.random_regular_graph(3, 50, seed=1), nx.random_regular_graph(3, 50, seed=1)
        ),
        "points in the square, n = 300": lambda: weighted(300),
    }
    if large:
        found |= {
            "3-regular, n = 5,000": lambda: nx.random_regular_graph(3, 5000, seed=1),
            "two blocks, n = 10,000 (10, 2.5)": lambda: blocks(10_000, 10, 2.5),
            "grid 100 x 100": lambda: nx.grid_2d_graph(100, 100),
            "grid 200 x 200": lambda: nx.grid_2d_graph(200, 200),
        }
    return found


def referee(A: Any, dual: np.ndarray) -> float:
    """The bound of the multipliers, in plain NumPy: ``(n lam - sum y) / 4``, lam from an eigenvalue routine (up to 3,000)."""
    n = A.shape[0] + A.shape[0] % 2
    if n > 3000:
        return np.nan
    A = A.toarray()
    A = np.pad(A, (0, n - len(A)))
    M = np.diag(A.sum(axis=1) + dual) - A
    P = np.eye(n) - 1.0 / n
    M = P @ M @ P + np.abs(M).sum() / n
    lam = min(float(scipy.linalg.eigvalsh(M, subset_by_index=[0, 0])[0]), 0.0)
    return (n * lam - float(dual.sum())) / 4


def rival(A: Any, find: Callable[[Any], np.ndarray], given: Any) -> tuple[float, int, float]:
    """Cut, imbalance and CPU seconds."""
    start = time.process_time()
    labels = find(given)
    spent = time.process_time() - start
    A = A.tocoo()
    return (
        float(A.data[labels[A.row] != labels[A.col]].sum() / 2),
        abs(len(labels) - 2 * int(labels.sum())),
        spent,
    )


def kernighan_lin(graph: nx.Graph) -> np.ndarray:
    nodes = list(graph)
    one = nx.community.kernighan_lin_bisection(graph, weight="weight", seed=0)[0]
    return np.array([node in one for node in nodes], dtype=int)


def metis(A: Any, weights: np.ndarray | None = None, target: float = 0.5) -> np.ndarray:
    import pymetis

    whole = np.rint(A.data / A.data.max() * 1000).astype(int) if (A.data % 1).any() else A.data.astype(int)
    options = pymetis.Options(seed=0, ufactor=1)
    adjacency = pymetis.CSRAdjacency(A.indptr, A.indices)
    sides = {"vweights": weights, "tpwgts": [1.0 - target, target]}
    found = pymetis.part_graph(2, adjacency=adjacency, eweights=whole, recursive=True, options=options, **sides)
    return np.array(found[1])


def parts() -> bool:
    """Vertex weights, other sizes than halves, and fixed vertices, which METIS does not take."""
    rng, lines, sound = np.random.default_rng(0), [], True
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(60, 60))
    clear, noisy = blocks(2000, 20, 2), blocks(1000, 12, 4)
    planted = nx.stochastic_block_model([300, 700], [[0.05, 0.004], [0.004, 0.05]], seed=1)
    some = np.where(rng.random(1000) < 0.05, rng.integers(0, 2, 1000), -1)
    rows = np.repeat([0, -1, 1], [60, 3480, 60])
    cases = [
        ("two blocks, n = 2,000 (20, 2), weights 1 to 19", clear, rng.integers(1, 20, 2000), 0.5, None),
        ("two blocks, n = 1,000 (12, 4), 30 %", noisy, None, 0.3, None),
        ("the same, weights 1 to 19", noisy, rng.integers(1, 20, 1000), 0.3, None),
        ("the same, halves, 5 % of the vertices fixed", noisy, None, 0.5, some),
        ("blocks of 300 and 700, 70 %", planted, None, 0.7, None),
        ("grid 60 x 60, 25 %", grid, None, 0.25, None),
        ("grid 60 x 60, first and last row fixed, 40 %", grid, None, 0.4, rows),
    ]
    for name, graph, weights, target, fixed in cases:
        A = nx.to_scipy_sparse_array(graph, weight="weight", dtype=float, format="csr")
        start = time.process_time()
        ours = balanced_cut(A, vertex_weights=weights, target=target, fixed=fixed, random_state=0)
        spent = time.process_time() - start
        proven = "yes" if ours.is_optimal else f"gap {100 * ours.gap:.2g} %"
        line = [
            name,
            f"{ours.cut:.6g}",
            f"{ours.lower_bound:.6g}",
            proven,
            f"{ours.imbalance:.3g}",
            harness.seconds(spent),
        ]
        if fixed is not None:
            line += [""] * 3
        else:
            start = time.process_time()
            labels = metis(A, weights, target)
            seconds = time.process_time() - start
            w = np.ones(len(labels)) if weights is None else weights
            off = 2.0 * abs(w[labels == 1].sum() - target * w.sum())
            cut = float(A.tocoo().data[labels[A.tocoo().row] != labels[A.tocoo().col]].sum() / 2)
            line += [f"{cut:.6g}", f"{off:.3g}", harness.seconds(seconds)]
            sound &= not (cut < ours.lower_bound * (1 - 1e-9) and off <= w.max())
        lines.append(line)
    header = ["graph", "cut", "bound", "proven", "off by", "time", "METIS", "off by", "time"]
    harness.print_table("Weights, sizes and fixed vertices", header, lines)
    return sound


def refinement(rounds: int = 5) -> None:
    """The compiled Kernighan-Lin beside networkx's, from random starts: why there is one of our own."""
    lines = []
    for name in ("3-regular, n = 100", "grid 20 x 20", "4-regular, n = 1,000"):
        graph = graphs(False)[name]()
        work = read_graph(graph)
        ours, theirs, spent, theirs_spent = [], [], [], []
        for seed in range(rounds):
            best = BestCut(work, True)
            scores = np.random.default_rng(seed).normal(size=work.size)
            spent.append(harness.timed(lambda best=best, scores=scores: best.offer(scores)).cpu_median)
            ours.append(best.value)
            start = time.process_time()
            sides = nx.community.kernighan_lin_bisection(graph, seed=seed)
            theirs_spent.append(time.process_time() - start)
            theirs.append(nx.cut_size(graph, *sides))
        times = [float(np.median(t)) for t in (spent, theirs_spent)]
        line = [name, f"{np.mean(ours):.1f}", harness.seconds(times[0]), f"{np.mean(theirs):.1f}"]
        lines.append([*line, harness.seconds(times[1]), f"{times[1] / times[0]:.0f}"])
    header = ["graph", "compiled: mean cut", "time", "networkx: mean cut", "time", "ratio"]
    harness.print_table("Kernighan-Lin from a random cut", header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="graphs of 5,000 to 40,000 vertices, too")
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine() + "; one thread, CPU seconds, one run each")
    balanced_cut(np.ones((6, 6)) - np.eye(6))  # imports what is imported on first use
    lines, sound = [], True
    for name, make in graphs(args.large).items():
        graph = make()
        A = nx.to_scipy_sparse_array(graph, weight="weight", dtype=float, format="csr")
        start = time.process_time()
        ours = balanced_cut(graph, random_state=0)
        spent = time.process_time() - start
        again = referee(A, ours.dual)
        line = [
            name,
            graph.number_of_edges(),
            f"{ours.cut:.6g}",
            f"{ours.lower_bound:.6g}",
            f"{ours.relaxation_bound:.6g}",
        ]
        line += [
            "yes" if ours.is_optimal else f"gap {100 * ours.gap:.2g} %",
            harness.seconds(spent),
            ours.solver,
        ]
        rivals = [rival(A, metis, A)]
        rivals.append(rival(A, kernighan_lin, graph) if len(graph) <= SLOW else (np.nan, 0, np.nan))
        for cut, imbalance, seconds in rivals:
            off = f" (off by {imbalance})" if imbalance > 1 else ""
            line += ["", ""] if np.isnan(cut) else [f"{cut:.6g}{off}", harness.seconds(seconds)]
            sound &= not (cut < ours.lower_bound * (1 - 1e-9) and imbalance <= 1)
        sound &= not again < ours.relaxation_bound - 1e-6 * max(1.0, abs(ours.relaxation_bound))
        lines.append(line)
    header = ["graph", "edges", "cut", "bound", "not rounded", "proven", "time", "by", "METIS", "", "networkx KL", ""]
    harness.print_table("Minimum balanced cut", header, lines)
    refinement()
    sound &= parts()
    print(
        f"No balanced cut of any of them is below a bound; the referee finds every bound: {harness.verdict_word(sound)}."
    )


if __name__ == "__main__":
    harness.steady(main)
