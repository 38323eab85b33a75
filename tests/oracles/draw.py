"""Random small problems as plain JSON values; used by ``make_oracles.py`` only.

A row is ``{"relation", "points", "bound", "sense", "weight"}`` and, for ``linear``, ``"matrix"``. The bound of a
comparison is minus its margin. A problem has ``"form"`` "kernel" (prior: the n x n kernel, dense or as a factor) or
"metric" (prior: d x d or None for the identity; ``"points"``: n x d). ``"inf"`` stands for infinity.
"""

import numpy as np

RELATIONS = ("sq_distance", "similarity", "comparison", "similarity_comparison", "diagonal", "trace", "linear")


def number(value):
    """A JSON number, or numbers, in which "inf" stands for infinity."""
    return np.array(value, dtype=float) if isinstance(value, list) else float(value)


def base_and_lift(problem):
    """The prior matrix P and the lift L, so that the kernel of W is L W L'."""
    if problem["form"] == "metric":
        X = np.array(problem["points"])
        prior = problem["prior"]
        return (np.eye(X.shape[1]) if prior is None else np.array(prior["dense"])), X
    if "factor" in problem["prior"]:
        factor = np.array(problem["prior"]["factor"])
        return factor @ factor.T, np.eye(len(factor))
    dense = np.array(problem["prior"]["dense"])
    return dense, np.eye(len(dense))


def row_matrix(row, n):
    """Symmetric C (n x n) with value of the row = tr(K C)."""
    C = np.zeros((n, n))
    relation, points = row["relation"], row["points"]

    def add_distance(i, j, sign):
        C[i, i] += sign
        C[j, j] += sign
        C[i, j] -= sign
        C[j, i] -= sign

    def add_similarity(i, j, sign):
        C[i, j] += sign / 2
        C[j, i] += sign / 2

    if relation == "sq_distance":
        add_distance(*points, 1.0)
    elif relation == "similarity":
        add_similarity(*points, 1.0)
    elif relation == "comparison":
        add_distance(*points[:2], 1.0)
        add_distance(*points[2:], -1.0)
    elif relation == "similarity_comparison":
        add_similarity(*points[:2], 1.0)
        add_similarity(*points[2:], -1.0)
    elif relation == "diagonal":
        C[points[0], points[0]] = 1.0
    elif relation == "trace":
        C += np.eye(n)
    else:
        matrix = row["matrix"]
        if "dense" in matrix:
            C += np.array(matrix["dense"])
        elif "sparse" in matrix:
            for i, j, value in matrix["sparse"]:
                C[i, j] += value
        else:
            vectors, weights = np.array(matrix["vectors"]), np.array(matrix["weights"])
            C += (vectors * weights) @ vectors.T
    return C


def make_row(relation, points=(), bound=0.0, sense="<=", weight=1.0, matrix=None):
    """One row as a dictionary of JSON values."""
    row = {
        "relation": relation,
        "points": [int(i) for i in points],
        "bound": float(bound),
        "sense": sense,
        "weight": "inf" if weight == np.inf else float(weight),
    }
    return row | ({"matrix": matrix} if matrix else {})


def draw_linear(rng, n):
    """A random matrix of a linear row in one of its three notations, positive semidefinite half of the time."""
    kind = rng.integers(4)
    if kind == 0:
        root = np.round(rng.normal(size=(n, 2)), 1)
        return {"dense": np.round(root @ root.T, 2).tolist()}
    if kind == 1:
        full = np.round(rng.normal(size=(n, n)), 1)
        return {"dense": np.round((full + full.T) / 2, 2).tolist()}
    if kind == 2:
        i, j = (int(k) for k in rng.choice(n, 2, replace=False))
        return {"sparse": [[i, i, 1.0], [i, j, -1.5], [j, i, -1.5], [j, j, 0.5]], "size": n}
    vectors = np.round(rng.normal(size=(n, 2)), 1)
    return {"vectors": vectors.tolist(), "weights": [1.0, 0.5]}


def draw_shape(rng, relation, n):
    """Points, and the matrix of a linear row."""
    if relation == "similarity_self":
        return np.repeat(rng.choice(n, 1), 2), None
    if relation == "sq_distance" or relation == "similarity":
        return rng.choice(n, 2, replace=False), None
    if relation in ("comparison", "similarity_comparison"):
        first = rng.choice(n, 2, replace=False)
        second = rng.choice(n, 2, replace=False)
        while set(first) == set(second):
            second = rng.choice(n, 2, replace=False)
        return np.concatenate([first, second]), None
    if relation == "diagonal":
        return rng.choice(n, 1), None
    return (), (draw_linear(rng, n) if relation == "linear" else None)


def draw_rows(rng, relations, prior, truth, *, hard):
    """One row per entry of ``relations``; ``truth`` meets the hard ones strictly, ``prior`` violates most."""
    n = len(prior)
    rows, seen = [], set()
    for entry in relations:
        relation, _, sense = entry.partition(" ")
        while True:
            points, matrix = draw_shape(rng, relation, n)
            key = (relation, tuple(sorted(points)) if len(points) == 2 else tuple(points))
            if relation == "linear" or key not in seen:
                break
        seen.add(key)
        row = make_row(relation.removesuffix("_self"), points, matrix=matrix)
        C = row_matrix(row, n)
        p0, p1 = float(np.sum(C * prior)), float(np.sum(C * truth))
        if relation in ("comparison", "similarity_comparison") and p1 > 0:
            row["points"] = row["points"][2:] + row["points"][:2]
            p0, p1 = -p0, -p1
        if relation in ("diagonal", "trace") or sense == "==":
            row |= {"sense": "==", "bound": round(p1, 6)}
        elif relation in ("comparison", "similarity_comparison"):
            row["bound"] = round(p1 * (rng.uniform(0.3, 0.9) if hard else rng.uniform(0.5, 1.5)), 4)
        else:
            share = rng.uniform(0.05, 0.6) if hard else rng.uniform(-0.2, 0.6)
            row |= {"sense": "<=" if p0 > p1 else ">=", "bound": round(p1 + share * (p0 - p1), 4)}
            if rng.uniform() < 0.15:
                slack = 0.3 * abs(p0) + 0.1
                bound = max(p0, p1) + slack if row["sense"] == "<=" else min(p0, p1) - slack
                if bound > 0:
                    row["bound"] = round(bound, 4)
        rows.append(row)
    return rows


def draw_problem(
    name,
    seed,
    *,
    divergence,
    form,
    size,
    n=None,
    rank=None,
    dense=False,
    rows=(),
    hard=True,
    loss=None,
    slack_weight=1.0,
    weights=None,
    spread=1.0,
    zero=(),
):
    """A random problem. ``size`` is n (kernel) or d (metric); ``weights`` are given to the first rows."""
    rng = np.random.default_rng(seed)
    rank = rank or size
    factor = np.round(spread * (rng.normal(size=(size, rank)) + (0.7 * np.eye(size, rank))), 2)
    if form == "metric":
        X = np.round(spread * rng.normal(size=(n, size)), 2)
        factor = np.round(factor / spread, 2) if dense else np.eye(size)
    elif rank == size:
        factor = np.round(factor + spread * np.eye(size), 2)
    lift = X if form == "metric" else np.eye(size)
    root = rng.normal(size=(rank, rank)) / np.sqrt(rank)
    inner = root @ root.T + 0.15 * np.eye(rank)
    prior, truth = (lift @ factor @ middle @ factor.T @ lift.T for middle in (np.eye(rank), inner))
    drawn = draw_rows(rng, rows, prior, truth, hard=hard)
    for position in zero:
        drawn[position]["bound"] = 0.0
    for row, weight in zip(drawn, weights or (), strict=False):
        row["weight"] = "inf" if weight == np.inf else weight
    problem = {
        "name": f"{divergence}-{name}",
        "form": form,
        "divergence": divergence,
        "loss": loss,
        "slack_weight": "inf" if hard else slack_weight,
    }
    if form == "metric":
        problem["points"] = X.tolist()
    given = {"dense": np.round(factor @ factor.T, 4).tolist()}
    if not dense and form == "metric":
        given = None
    elif not dense and rank < size:
        given = {"factor": factor.tolist()}
    return problem | {"prior": given, "rows": drawn}
