"""Balanced cuts: every kind of graph, and what is no graph."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from bregmat import balanced_cut, verify
from test_cut import cycle, distances

nan, inf = np.nan, np.inf


def changed(i, j, value):
    A = cycle(6)
    A[i, j] = value
    return A


BAD = {
    "asymmetric": (changed(0, 1, 2.0), ValueError, r"symmetric.* 2 at \[0, 1\] but 1 at \[1, 0\].*A \+ A.T"),
    "negative": (changed(0, 1, -1.0) * (cycle(6) > 0), ValueError, "at least 0; got -1.0 in row 0"),
    "self loop": (changed(2, 2, 1.0), ValueError, "self loops.*row 2"),
    "nan": (changed(1, 2, nan), ValueError, "finite; got NaN or infinity in row 1"),
    "infinite": (changed(1, 2, inf), ValueError, "finite; got NaN or infinity in row 1"),
    "overflow": (cycle(6) * 1.7e308, ValueError, "sum of the weights"),
    "complex": (cycle(6) * 1j, TypeError, "graph must be real; got complex numbers"),
    "objects": (np.array([["a", "b"], ["c", "d"]]), TypeError, "graph must be numeric"),
    "not square": (np.zeros((3, 4)), ValueError, r"square.*\(3, 4\)"),
    "vector": (np.zeros(4), ValueError, r"square.*\(4,\)"),
    "empty": (np.zeros((0, 0)), ValueError, "at least one row and one column"),
    "one vertex": (np.zeros((1, 1)), ValueError, "at least 2 vertices; got 1"),
    "no nodes": (nx.Graph(), ValueError, "at least 2 vertices; got 0"),
    "directed": (nx.DiGraph([(0, 1), (1, 2)]), ValueError, "undirected"),
    "complex edges": (nx.Graph([(0, 1, {"weight": 1j})]), TypeError, "real weights"),
    "no weight": (nx.Graph([("a", "b", {"weight": None})]), TypeError, "got None on the edge between 'a' and 'b'"),
    "text": ("karate", TypeError, "got str"),
    "none": (None, TypeError, "got NoneType"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_graphs(name):
    graph, error, text = BAD[name]
    with pytest.raises(error, match=text):
        balanced_cut(graph)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"refine": 1}, TypeError, "refine"),
        ({"solver": "metis"}, ValueError, "solver must be one of"),
        ({"n_roundings": -1}, ValueError, "n_roundings"),
        ({"n_roundings": 1.5}, TypeError, "n_roundings"),
        ({"max_iter": True}, TypeError, "max_iter"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"tol": "small"}, TypeError, "tol must be a number"),
        ({"max_seconds": nan}, ValueError, "max_seconds"),
        ({"callback": 3}, TypeError, "callback must be callable; got 3"),
        ({"random_state": "x"}, TypeError, "random_state"),
        ({"target": 0.0}, ValueError, r"target must be in \(0, 1\); got 0.0"),
        ({"target": "half"}, TypeError, "target must be a number"),
        ({"vertex_weights": [1.0, 2.0]}, ValueError, r"vertex_weights must have one entry per vertex \(6\)"),
        (
            {"vertex_weights": [1, 1, 1, 0, 1, 1]},
            ValueError,
            "vertex_weights must be finite and positive; got 0.0 in row 3",
        ),
        ({"vertex_weights": np.full(6, 1e300)}, ValueError, "vertex_weights must have a sum below 1e300"),
        ({"fixed": [0, 1, 2, -1, -1, -1]}, ValueError, r"fixed must hold -1 \(free\), 0 or 1.*got 2 in row 2"),
        ({"fixed": [0, 0, 0, 1, 1, 1]}, ValueError, "fixed must leave at least one vertex free"),
        (
            {"fixed": [0, 0, 0, 0, 0, -1]},
            ValueError,
            "side 1 would have the weight 3, and the fixed vertices allow 0 to 1",
        ),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        balanced_cut(cycle(6), **options)


def test_rounding_noise_is_not_asymmetry(rng):
    A = distances(8)
    noise = A * (1 + 1e-15 * rng.normal(size=A.shape))
    np.fill_diagonal(noise, 0)
    assert balanced_cut(noise, random_state=0).cut == pytest.approx(balanced_cut(A, random_state=0).cut, rel=1e-12)


def test_smallest_weight():
    """A quarter or a half of the smallest number is 0; cuts and bounds are not."""
    found = balanced_cut(np.array([[0.0, 5e-324], [5e-324, 0.0]]))
    assert found.cut == 5e-324 and 0 <= found.lower_bound <= found.cut
    four = balanced_cut(5e-324 * cycle(4))  # its least cut is two edges
    assert four.cut == 1e-323 and 0 <= four.lower_bound <= four.cut


def test_karate_club_of_networkx_is_weighted():
    graph = nx.karate_club_graph()
    assert balanced_cut(graph, random_state=0).cut == 23
    assert balanced_cut(nx.to_numpy_array(graph, weight=None), random_state=0).cut == 10


# ---------------------------------------------------------------- a graph whose edges are given in parts
@pytest.mark.parametrize("form", [sp.coo_array, sp.coo_matrix])
def test_a_cut_of_a_graph_with_duplicate_entries_is_confirmed(form):
    """Parts of 1 that sum to 2: their greatest common divisor is 1, that of the weights is 2."""
    cycle = np.array([(i, (i + 1) % 6) for i in range(6)])
    rows, columns = np.concatenate([cycle, cycle[:, ::-1]] * 2).T
    graph = form((np.ones(len(rows)), (rows, columns)), shape=(6, 6))
    kept = graph.copy()
    result = balanced_cut(graph, random_state=0)
    assert (str(result.status), result.cut, result.lower_bound) == ("OPTIMAL", 4.0, 4.0)
    found = verify(result, graph=graph)
    assert found.holds, found.problems
    assert (graph.data == kept.data).all() and graph.nnz == kept.nnz
