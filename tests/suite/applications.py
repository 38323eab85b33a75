"""Correlation matrices, balanced cuts, distributions, boosting and streams, with what is known of them by construction."""

import itertools

import numpy as np
import scipy.sparse as sp
from scipy.special import kl_div

import bregmat
from suite.judge import SECONDS, Case, repeat_rows, with_repeats


def correlations(rng, repeats=False):
    """Noisy, indefinite, low-rank, nearly singular input; fixed entries, smallest eigenvalues, ranks; entries that contradict."""
    n = int(rng.integers(2, 14))
    G = rng.normal(size=(n, int(rng.integers(1, n + 2))))
    if repeats:
        repeat_rows(rng, G)
    G /= np.linalg.norm(G, axis=1)[:, None]
    truth = G @ G.T
    np.fill_diagonal(truth, 1.0)
    noise = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-8, 0)
    C = truth + (noise + noise.T) / 2
    np.fill_diagonal(C, 1.0)
    arguments = {"C": C, "divergence": str(rng.choice(["frobenius", "frobenius", "logdet", "vonneumann"]))}
    kind, feasible = str(rng.choice(["plain", "min_eig", "fixed", "impossible", "rank", "scale"])), True
    if arguments["divergence"] != "frobenius":
        R = rng.normal(size=(n, 2 * n))
        if repeats:
            repeat_rows(rng, R)
        C = R @ R.T / (2 * n) * 10.0 ** rng.choice([0, 0, -4, 4]) + 1e-3 * np.eye(n)
        arguments["C"], truth = (C + C.T) / 2, np.eye(n)
        kind = "plain" if kind != "scale" else kind
        if kind == "scale":
            arguments["scale"] = True
    elif kind == "min_eig":
        arguments["min_eig"] = float(rng.choice([1e-8, 0.01, 0.3]))
        truth = np.eye(n)
    elif kind in ("fixed", "impossible"):
        mask = np.triu(rng.random((n, n)) < rng.uniform(0.05, 0.6), 1)
        C[mask] = truth[mask]
        if kind == "impossible" and n >= 3:
            i, j, k = np.sort(rng.choice(n, 3, replace=False))
            C[i, j], C[j, k], C[i, k] = 0.9, 0.9, float(rng.uniform(-1, 0.6))  # at least 2 * .81 - 1 = .62
            mask[i, j] = mask[j, k] = mask[i, k] = True
            feasible = False
        arguments |= {"C": np.triu(C) + np.triu(C, 1).T, "fixed": mask | mask.T}
    elif kind == "rank":
        arguments["rank"] = int(rng.integers(1, n + 1))
    given = {name: x for name, x in arguments.items() if name != "C"}

    def far(result):
        if (
            kind in ("rank", "scale")
            or not feasible
            or arguments["divergence"] != "frobenius"
            or result.status == "INFEASIBLE"
        ):
            return None
        known = 0.5 * float(((truth - arguments["C"]) ** 2).sum())
        room = 1e-7 * max(1.0, known)
        return (
            f"dual bound {result.dual_bound:.9g} above a feasible point's {known:.9g}"
            if result.dual_bound > known + room
            else None
        )

    return Case(
        solve=lambda: bregmat.nearest_correlation(arguments["C"], max_seconds=SECONDS, **given),
        arguments=arguments,
        feasible=feasible,
        expected=("OPTIMAL", "FEASIBLE") if kind == "rank" else "OPTIMAL",  # a rank is proven where it does not bind
        judge=far,
        own_rule=kind == "rank",
        text=f"{arguments['divergence']} {kind} n {n}",
    )


def banded(rng):
    """Sample correlations of ordered variables; entries beyond a lag are fixed at 0, or at those of a definite matrix."""
    n, lag = int(rng.integers(4, 60)), int(rng.integers(1, 8))
    kind = str(rng.choice(["autoregressive", "moving", "common", "planted"]))
    phi = float(rng.uniform(0.3, 0.98))
    E = rng.normal(size=(int(rng.integers(3, 60)), n + 8))
    X = E[:, :n].copy()
    if kind in ("autoregressive", "planted"):
        for k in range(1, n):
            X[:, k] += phi * X[:, k - 1]
    elif kind == "moving":
        X = sum(E[:, k : k + n] for k in range(9))
    else:
        X += phi * E[:, -1:]
    C = np.corrcoef(X.T)
    far = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    truth = phi**far if kind == "planted" else np.eye(n)  # definite, with the fixed entries
    C = np.where(far > lag, truth, (C + C.T) / 2)
    np.fill_diagonal(C, 1.0)
    low = float(rng.choice([0.0, 0.0, 0.01 * np.linalg.eigvalsh(truth)[0]]))
    arguments = {"C": C, "fixed": far > lag, "min_eig": low}

    def wrong(result):
        if result.status == "UNKNOWN" and kind != "planted":
            return "no matrix, though the identity has the fixed entries"
        return None

    return Case(
        solve=lambda: bregmat.nearest_correlation(**arguments, max_seconds=SECONDS),
        arguments=arguments,
        known=lambda result: 0.5 * float(((truth - C) ** 2).sum()) if result.status != "OPTIMAL" else None,
        judge=wrong,
        text=f"{kind} n {n} lag {lag} phi {phi:.2f} min_eig {low:g}",
    )


def cuts(rng):
    """Graphs of 2 to 14 vertices, all of whose cuts are tried: whole, real and rounded weights, paths, stars, empty ones, any scale."""
    n = int(rng.integers(2, 15))
    A = np.triu(rng.random((n, n)) < rng.uniform(0.1, 1.0), 1) * 1.0
    kind = rng.integers(7)
    if kind == 1:
        A *= rng.integers(1, 6, size=(n, n))
    elif kind == 2:
        A *= rng.random((n, n))
    elif kind == 3:
        A *= 10.0 ** rng.uniform(-6, 6, size=(n, n))
    elif kind == 4:
        A = np.triu(np.eye(n, k=1) if rng.random() < 0.5 else np.outer(np.arange(n) == 0, np.arange(n) > 0)) * 1.0
    elif kind >= 5:
        A *= rng.choice([0.1, 0.3, 0.25, 1 / 7, 1e-3]) * rng.integers(1, 10 ** rng.integers(1, 7), size=(n, n))
    A = (A + A.T) * 10.0 ** rng.choice([0, 0, 0, -100, 100])
    smaller = np.array(list(itertools.combinations(range(n), n // 2)))
    x = np.zeros((len(smaller), n))
    x[np.arange(len(smaller))[:, None], smaller] = 1.0
    graph = A
    if kind == 6:  # edges in parts
        parts = sp.coo_array(A)
        graph = sp.coo_array((np.repeat(parts.data / 2, 2), np.repeat(parts.coords, 2, axis=1)), shape=(n, n))
    best = float(((x @ A) * (1 - x)).sum(axis=1).min())

    def wrong(result):
        room = 1e-9 * best + 1e-13 * float(A.sum())
        if result.lower_bound > best + room:
            return f"bound {result.lower_bound:.9g} above the best cut {best:.9g}"
        if result.status == "OPTIMAL" and result.cut > best * (1 + result.tol) + room:
            return f"OPTIMAL at {result.cut:.9g}, the best cut is {best:.9g}"
        return None

    seed = int(rng.integers(1000))
    return Case(
        solve=lambda: bregmat.balanced_cut(graph, random_state=seed, max_seconds=SECONDS),
        arguments={"graph": graph},
        judge=wrong,
        expected=("OPTIMAL", "FEASIBLE"),  # the relaxation may have a gap of its own
        own_rule=True,
        text=f"n {n} kind {kind}",
    )


def cuts_with_sides(rng):
    """Graphs of 2 to 10 vertices with vertex weights, targets and fixed vertices, all of whose cuts are tried."""
    n = int(rng.integers(2, 11))
    A = np.triu(rng.random((n, n)) < rng.uniform(0.2, 1.0), 1) * rng.choice([1.0, rng.random()])
    A = (A * (rng.integers(1, 5, size=(n, n)) if rng.random() < 0.5 else rng.random((n, n)))) * 10.0 ** rng.choice(
        [0, 0, -100, 100]
    )
    A = A + A.T
    kind = rng.integers(4)
    weights = (np.ones(n), rng.integers(1, 6, n), rng.random(n) + 0.1, 10.0 ** rng.uniform(-3, 3, n))[kind]
    every, sides = np.array(list(itertools.product([0, 1], repeat=n))), np.empty((0, n))
    while not len(sides):  # until some cut is balanced
        fixed = np.where(rng.random(n) < rng.choice([0.0, 0.3]), rng.integers(0, 2, n), -1)
        fixed[rng.integers(n)] = -1
        target = float(
            np.clip(every[rng.integers(len(every))] @ weights / weights.sum() + 1e-3 * rng.normal(), 0.01, 0.99)
        )
        off = np.abs(every @ weights - target * weights.sum())
        sides = every[
            ((every == fixed) | (fixed < 0)).all(axis=1) & (off <= 0.5 * weights[fixed < 0].max() * (1 + 1e-9))
        ]
    best = float(np.einsum("ki,ij,kj->k", sides, A, 1 - sides).min())
    arguments = {"graph": A, "vertex_weights": weights, "target": target, "fixed": fixed}

    def wrong(result):
        room = 1e-9 * best + 1e-13 * float(A.sum())
        if result.lower_bound > best + room:
            return f"bound {result.lower_bound:.9g} above the best cut {best:.9g}"
        if not (sides == result.labels).all(axis=1).any():
            return "the cut is not balanced"
        if result.status == "OPTIMAL" and result.cut > best * (1 + result.tol) + room:
            return f"OPTIMAL at {result.cut:.9g}, the best cut is {best:.9g}"
        return None

    seed = int(rng.integers(1000))
    return Case(
        solve=lambda: bregmat.balanced_cut(**arguments, random_state=seed, max_seconds=SECONDS),
        arguments=arguments,
        judge=wrong,
        expected=("OPTIMAL", "FEASIBLE"),  # the relaxation may have a gap of its own
        own_rule=True,
        text=f"n {n} kind {kind}",
    )


def distributions(rng):
    """Rows that a planted vector meets, of any scale, said twice, summing up, over 12 orders; or two that contradict each other."""
    n, c = int(rng.integers(2, 40)), int(rng.integers(1, 12))
    x0 = rng.random(n) ** rng.integers(1, 6) + 1e-12
    x0[rng.random(n) < 0.1] = 0.0
    x0[rng.integers(n)] = 1.0
    total = [1.0, None, 1e-3, 1e4][rng.integers(4)]
    x = x0 * np.exp(rng.normal(size=n))
    x = x if total is None else x * (total / x.sum())
    A = rng.normal(size=(c, n)) * (rng.random((c, n)) < rng.uniform(0.2, 1))
    kind = str(rng.choice(["plain", "scaled", "duplicate", "empty", "impossible"]))
    if kind == "scaled":
        A *= 10.0 ** rng.uniform(-6, 6, size=(c, 1))
    if kind == "duplicate":
        A = np.vstack([A, A[:1], 2 * A[:1], A.sum(axis=0)])
    if kind == "empty":
        A[0] = 0.0
    p, sense = A @ x, rng.choice(["<=", ">=", "=="], len(A))
    room = rng.random(len(A)) * np.abs(A @ x0 - p) * (rng.random(len(A)) < 0.8)
    b = np.where(sense == "<=", p + room, np.where(sense == ">=", p - room, p))
    feasible = True
    if kind == "impossible":
        a = A[0] + (np.abs(A[0]).max() + 1.0) * 0.5
        q = float(a @ x)
        A, b, sense = (
            np.vstack([A, a, a]),
            np.append(b, [q, q + (abs(q) + 0.1) * 10.0 ** rng.uniform(-5, 0)]),
            np.append(sense, ["<=", ">="]),
        )
        feasible = False
    arguments = {"prior": x0, "A": A, "b": b, "sense": list(sense), "total": total}
    known = float(kl_div(x, x0).sum())
    return Case(
        solve=lambda: bregmat.nearest_distribution(x0, A, b, list(sense), total=total, max_seconds=SECONDS),
        arguments=arguments,
        feasible=feasible,
        known=(lambda result: known) if feasible else None,
        rtol=1e-9,
        text=f"{kind} n {n} c {len(A)} total {total}",
    )


def vertices(rng):
    """Distributions that equalities fix at a vertex or a face of the simplex, or that supporting rows touch there; a sum said twice."""
    n = int(rng.integers(2, 16))
    x0 = rng.random(n) ** rng.integers(1, 4) + 1e-6
    total = [1.0, 1.0, None, 1e-3, 1e4][rng.integers(5)]
    on = rng.random(n) < rng.uniform(0, 0.7)
    on[rng.integers(n)] = True
    x = np.where(on, x0 * np.exp(rng.normal(size=n)), 0.0) if rng.random() < 0.5 else np.eye(n)[rng.integers(n)]
    x *= 1.0 if total is None else total / x.sum()
    kind = str(rng.choice(["equalities", "supports", "both", "coordinates"]))
    A, sense = np.zeros((0, n)), []
    if kind in ("equalities", "both"):
        A = np.round(rng.normal(size=(int(rng.integers(1, n + 2)), n)), 1)
        sense = ["=="] * len(A)
    if kind in ("supports", "both"):
        a = np.where(x > 0, 0.0, rng.random((int(rng.integers(1, 3)), n)) + 0.01)
        A = np.vstack([A, a if total is None else a + rng.integers(-2, 3, size=(len(a), 1))])
        sense += ["<="] * len(a)
    if kind == "coordinates":
        A, sense = np.eye(n), ["=="] * n
    if total is not None and rng.random() < 0.4:
        A, sense = (
            np.vstack([A, np.full(n, rng.choice([1.0, -3.0, 0.3]))]),
            [*sense, str(rng.choice(["==", "<=", ">="]))],
        )
    b = A @ x
    known = float(kl_div(x, x0).sum())
    fixed = A[np.array(sense) == "=="] if total is None else np.vstack([A[np.array(sense) == "=="], np.ones(n)])
    is_fixed = np.linalg.matrix_rank(fixed) == n

    def far(result):
        error = np.abs(result.x - x).max() / (x0.sum() if total is None else total)
        return f"x is {error:.2g} from the one vector that meets the rows" if is_fixed and not error <= 1e-6 else None

    arguments = {"prior": x0, "A": A, "b": b, "sense": sense, "total": total}
    return Case(
        solve=lambda: bregmat.nearest_distribution(**arguments, max_seconds=SECONDS),
        arguments=arguments,
        known=lambda result: known,
        rtol=1e-9,
        judge=lambda result: far(result) if result.status in ("OPTIMAL", "FEASIBLE") else None,
        text=f"{kind} n {n} c {len(A)} total {total} on {np.count_nonzero(x)}{' fixed' if is_fixed else ''}",
    )


def boosting(rng, repeats=False):
    """AdaBoost on stumps, some perfect, some constant, some said twice."""
    d, n = int(rng.integers(2, 40)), int(rng.integers(1, 20))
    y = rng.choice([-1.0, 1.0], d)
    H = np.sign(rng.normal(size=(d, n)) + 0.5 * y[:, None] * rng.random(n)) * rng.choice([1.0, 0.5])
    kind = rng.integers(4)
    if kind == 0:
        H[:, 0] = y
    elif kind == 1:
        H[:, 0] = 1.0
    elif kind == 2:
        H[:, -1] = H[:, 0]
    if repeats:  # examples and hypotheses
        repeat_rows(rng, H, y, least=np.inf)
        repeat_rows(rng, H.T, least=np.inf)
    weight = rng.random(d) + 1e-3 if rng.random() < 0.5 else None
    steps = int(rng.integers(0, 60))
    return Case(
        solve=lambda: bregmat.boost_hypotheses(H, y, n_steps=steps, sample_weight=weight),
        arguments={"H": H, "y": y, "sample_weight": weight},
        expected=("FEASIBLE", "OPTIMAL"),  # the latter where the loss falls to 0
        own_rule=True,
        text=f"{d} x {n} kind {kind} steps {steps}",
    )


def streams(rng, repeats=False):
    """The total loss of an online learner is at most the bound it names, for matrices drawn beforehand and the best in hindsight."""
    kind = str(rng.choice(["meg", "logdet", "pca"]))
    d, steps = int(rng.integers(2, 9)), int(rng.integers(1, 200))
    scale = 10.0 ** rng.choice([0, 0, -4, 4])

    def meg():
        R = rng.normal(size=(d, d))
        U = R @ R.T * 10.0 ** rng.uniform(-3, 0)
        U = scale * U / np.trace(U)
        pairs = np.array([rng.choice(d, 2, replace=False) for _ in range(steps)])
        y = np.array([0.5 * (U[a, a] + U[b, b] - 2 * U[a, b]) for a, b in pairs])
        y = np.maximum(y + scale * rng.choice([0.0, 0.05]) * rng.normal(size=steps), 0.0)
        learner = bregmat.MatrixExponentiatedGradient(d, trace=scale)
        for pair, label in zip(pairs, y):
            learner.learn_one(tuple(int(k) for k in pair), float(label))
        return learner.cumulative_loss_, learner.loss_bound(U)

    def logdet():
        R = rng.normal(size=(d, d))
        U = R @ R.T / d + 0.05 * np.eye(d)
        Z = rng.normal(size=(steps, d)) * scale
        if repeats:
            repeat_rows(rng, Z)
        y = np.einsum("ti,ij,tj->t", Z, U, Z) * np.exp(rng.choice([0.0, 0.1]) * rng.normal(size=steps))
        learner = bregmat.OnlineLogDet(d, differences=True)
        for z, label in zip(Z, y):
            learner.learn_one(z, float(label))
        return learner.cumulative_loss_, learner.loss_bound(
            U, float((0.5 * (np.einsum("ti,ij,tj->t", Z, U, Z) - y) ** 2).sum())
        )

    def pca():
        Z = rng.normal(size=(steps, d)) * scale * np.linspace(1, 0.05, d)
        if repeats:
            repeat_rows(rng, Z)
        learner = bregmat.OnlinePCA(int(rng.integers(1, d)), random_state=0)
        learner.partial_fit(Z)
        return learner.cumulative_loss_, learner.loss_bound()

    def wrong(sides):
        loss, bound = sides
        return None if loss <= bound * (1 + 1e-9) + 1e-300 else f"loss {loss:.9g} above the bound {bound:.9g}"

    return Case(
        solve={"meg": meg, "logdet": logdet, "pca": pca}[kind],
        judge=wrong,
        text=f"{kind} d {d} steps {steps} scale {scale:g}",
    )


def categories(rng, repeats=False):
    """Estimators on one-hot columns and other repeated points, whose copies may have different labels."""
    n = int(rng.integers(4, 60))
    X = np.hstack([np.eye(k)[rng.integers(k, size=n)] for k in rng.integers(1, 6, size=rng.integers(1, 4))])
    if rng.random() < 0.3:
        X = np.hstack([X, rng.normal(size=(3, 2))[rng.integers(3, size=n)]])
    if repeats:  # the one-hot columns repeat points exactly; these differ by rounding and more
        repeat_rows(rng, X)
    y = rng.integers(0, rng.integers(2, 5), size=n)
    y[:4] = [0, 0, 1, 1]
    options = {
        "strategy": str(rng.choice(["neighbors", "random"])),
        "divergence": str(rng.choice(["logdet", "vonneumann"])),
    }
    if rng.random() < 0.3 and n > 4:  # labels of two classes are left
        options["unlabeled"], y = 0, np.append(y[:-2], [2, 2])
    learner = (bregmat.MetricLearner if rng.random() < 0.7 else bregmat.KernelLearner)(random_state=0, **options)

    def wrong(result):
        return None if np.isfinite(learner.transform(X)).all() else "points are mapped to numbers that are not finite"

    text = f"{type(learner).__name__} {n} x {X.shape[1]} {options}"
    return Case(solve=lambda: learner.fit(X, y).result_, expected=("OPTIMAL", "FEASIBLE"), judge=wrong, text=text)


FAMILIES = {f.__name__: f for f in (banded, cuts, cuts_with_sides, distributions, vertices)}
FAMILIES |= with_repeats(correlations, boosting, streams, categories)
COUNTS = {
    "categories": 60,
    "correlations": 400,
    "cuts": 300,
    "cuts_with_sides": 300,
    "distributions": 500,
    "vertices": 300,
    "boosting": 60,
    "streams": 120,
}
