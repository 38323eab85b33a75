"""Semidefinite programs whose ray, optimum or slack is planted in whole numbers, so that it is known exactly; unfoldings."""

import numpy as np

import bregmat
from bregmat import Constraints
from suite.judge import SECONDS, Case


def _symmetric(rng, n, size=3):
    B = rng.integers(-size, size + 1, size=(n, n))
    return np.triu(B) + np.triu(B, 1).T


def _orthogonal(B, *others):
    """A multiple of B in whole numbers, made orthogonal to matrices that are orthogonal to each other."""
    for R in others:
        B = (R * R).sum() * B - (B * R).sum() * R
        B = B // max(1, int(np.gcd.reduce(B, axis=None)))
    return B


def _axes(rng, n):
    """Orthogonal vectors of whole numbers, in random order: the columns of a reflection."""
    v = rng.integers(-2, 3, size=n)
    v[rng.integers(n)] = 1
    return ((v @ v) * np.eye(n, dtype=int) - 2 * np.outer(v, v))[:, rng.permutation(n)]


def _solved(C, rows, weight=np.inf, **known):
    C = np.asarray(C, dtype=float)
    arguments = {"C": C, "constraints": rows, "slack_weight": weight}
    return Case(
        solve=lambda: bregmat.semidefinite_program(**arguments, max_seconds=SECONDS), arguments=arguments, **known
    )


def unbounded_rays(rng):
    """The objective falls along a planted matrix, definite or singular, while rows stay or become looser; bounds are met by another one."""
    n = int(rng.integers(2, 9))
    kind = str(rng.choice(["identity", "definite", "singular", "vanishing"]))
    V = _axes(rng, n)
    rank = n if kind in ("identity", "definite") else int(rng.integers(1, n))
    G = np.eye(n, dtype=int) if kind == "identity" else V[:, :rank] @ np.diag(rng.integers(1, 3, rank))
    R = G @ G.T
    c = int(rng.integers(1, max(2, min(12, n * (n + 1) // 2 - 1))))
    A, sense = [_orthogonal(_symmetric(rng, n), R) for _ in range(c)], rng.choice(["==", "==", "<=", ">="], c)
    for k in range(c):
        if sense[k] != "==" and rng.random() < 0.5:  # looser along the ray
            A[k] = A[k] - (1 if sense[k] == "<=" else -1) * R
    if kind == "vanishing":  # a semidefinite row that is 0 at all rays
        W = V[:, rank:]
        A, sense = [*A, W @ W.T], np.append(sense, rng.choice(["==", "<="]))
    C = _orthogonal(_symmetric(rng, n), R) - int(rng.integers(1, 4)) * R
    H = rng.integers(-2, 3, size=(n, n)) + 3 * np.eye(n, dtype=int)
    p = np.array([float((a * (H @ H.T)).sum()) for a in A])
    room = rng.integers(0, 5, len(A))
    b = np.where(sense == "<=", p + room, np.where(sense == ">=", p - room, p))
    scale = 10.0 ** rng.choice([0, 0, 0, -6, 6])
    rows = Constraints.linear(np.array(A, dtype=float), scale * b, list(sense))

    def wrong(result):
        if result.status in ("OPTIMAL", "INFEASIBLE") or result.dual_bound > -np.inf:
            return f"{result.status} with the bound {result.dual_bound:.3g}, but unbounded by construction"
        return None

    return _solved(C, rows, feasible=None, expected="UNBOUNDED", judge=wrong, text=f"{kind} n {n} rank {rank} c {c}")


def _planted(rng, n, c, flat):
    """C, rows, senses, optimal X and mu of a program; rows and objective are constant along the sum of the first ``flat`` axes."""
    V = _axes(rng, n)
    rank = int(rng.integers(max(1, flat), n)) if n > 1 else 1
    N, K = V[:, :rank], V[:, rank:]
    K = K[:, : int(rng.integers(1, K.shape[1] + 1))] if K.shape[1] else K
    X, Z = N @ np.diag(rng.integers(1, 4, rank)) @ N.T, K @ K.T
    R = V[:, :flat] @ V[:, :flat].T
    E = rng.integers(-1, 2, size=(n, n)) + 3 * np.eye(n, dtype=int)
    T = E @ E.T - X  # X + T is definite and meets the rows
    others = [R, _orthogonal(T, R)] if flat else [T]
    A = [_orthogonal(_symmetric(rng, n, 2), *others) for _ in range(c)]
    A = [a.astype(float) / max(1.0, float(2.0 ** np.floor(np.log2(max(1, np.abs(a).max()))))) for a in A]
    sense = rng.choice([-1, 0, 0, 1], c)
    mu = np.where(sense == 0, rng.integers(-2, 3, c), sense * rng.integers(0, 3, c)).astype(float)
    C = Z - sum(m * a for m, a in zip(mu, A))
    return C, np.array(A), sense, X.astype(float), mu


def flat_directions(rng):
    """Programs whose objective and rows are constant along a direction: projections, Laplacians, planted optima."""
    n = int(rng.integers(2, 9))
    kind = str(rng.choice(["ones", "laplacian", "planted", "planted", "nearly"]))
    if kind == "nearly":  # bounded, but only just: not flat
        d = np.ones(n)
        d[-1] = 10.0 ** -rng.integers(3, 13)
        rows = Constraints.linear([np.diag(d)], 1.0, "<=")
        return _solved(-np.eye(n), rows, expected=("OPTIMAL", "FEASIBLE", "UNKNOWN"), optimum=-1.0 / d[-1], text=kind)
    if kind == "planted":
        flat, c = int(rng.integers(1, n)), int(rng.integers(1, max(2, n)))
        C, A, sense, X, mu = _planted(rng, n, c, flat)
        p = np.array([(a * X).sum() for a in A])
        rows = Constraints.linear(A, p - sense * (mu == 0) * -1.0, [{1: "<=", 0: "==", -1: ">="}[s] for s in sense])
        return _solved(C, rows, optimum=float((C * X).sum()), text=f"{kind} n {n} flat {flat} c {c}")
    n = n + 1
    C = np.ones((n, n))
    if kind == "laplacian":
        W = np.triu(rng.integers(0, 3, size=(n, n)), 1)
        W[np.arange(n - 1), np.arange(1, n)] += 1  # connected
        C = np.diag((W + W.T).sum(axis=1)) - W - W.T
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(int(rng.integers(1, 5)))])
    b = rng.integers(1, 5, len(pairs)) * 1.0
    sense = ">=" if kind == "ones" or rng.random() < 0.5 else "=="
    if sense == "==":
        pairs, b = pairs[:1], b[:1]
    rows = Constraints.sq_distance(*pairs.T, b, sense)
    optimum = 0.0 if kind == "ones" else None  # a centred matrix of any size
    return _solved(C, rows, optimum=optimum, text=f"{kind} n {n} {sense} {len(pairs)}")


def soft_programs(rng):
    """Planted optima of soft and hard rows: a soft row exceeds its bound by what its multiplier says."""
    n, c = int(rng.integers(2, 8)), int(rng.integers(1, 8))
    C, A, sense, X, mu = _planted(rng, n, c, 0)
    p = np.array([(a * X).sum() for a in A])
    hard, free = rng.random(c) < 0.4, (mu == 0) & (sense != 0)
    excess = np.where(hard | (mu == 0), 0.0, np.sign(mu) * rng.uniform(0.01, 2.0, c) * (1.0 + np.abs(p)))
    b = p - excess + np.where(free, sense * 1.0, 0.0)
    unit = np.where(b != 0, np.abs(b), np.abs(np.linalg.eigvalsh(A)).sum(axis=1))
    unit = np.where(unit > 0, unit, 1.0)
    gamma = np.where(excess == 0, 10.0 ** rng.uniform(-2, 2, c), mu * unit**2 / np.where(excess == 0, 1.0, excess))
    gamma = np.where(hard, np.inf, gamma)
    optimum = float((C * X).sum() + (0.5 * np.where(hard, 0.0, gamma) * (excess / unit) ** 2).sum())
    rows = Constraints.linear(A, b, [{1: "<=", 0: "==", -1: ">="}[s] for s in sense])
    if rng.random() < 0.5:  # a trace that does not bind
        rows, gamma = rows + Constraints.linear([np.eye(n)], 2.0 * np.trace(X), "<="), np.append(gamma, np.inf)
    return _solved(C, rows, gamma, optimum=optimum, text=f"n {n} c {c} hard {int(hard.sum())}")


def unfoldings(rng):
    """Points of a plane, some of them repeated, exactly or nearly: the flat points themselves meet the rows."""
    n, k = int(rng.integers(6, 20)), int(rng.integers(3, 6))
    X = rng.normal(size=(n, 2)) @ np.linalg.qr(rng.normal(size=(4, 2)))[0].T * 10.0 ** rng.choice([0, 0, -4, 4])
    again = X[rng.integers(n, size=int(rng.integers(0, 4)))]
    X = rng.permutation(np.concatenate([X, again * (1.0 + rng.choice([0.0, 1e-12, 1e-9]))]))
    options = [{"objective": "variance"}, {"divergence": "frobenius"}, {"divergence": "vonneumann"}][rng.integers(3)]
    arguments = {"X": X, "n_neighbors": k} | options
    known = -float(((X - X.mean(axis=0)) ** 2).sum()) if "objective" in options else None
    return Case(
        solve=lambda: bregmat.unfold(**arguments, max_seconds=SECONDS),
        arguments=arguments,
        known=None if known is None else lambda result: known,
        may_refuse=True,  # a graph that falls apart
        text=f"n {n} again {len(again)} k {k} {options}",
    )


FAMILIES = {f.__name__: f for f in (unbounded_rays, flat_directions, soft_programs, unfoldings)}
COUNTS = {"unbounded_rays": 300, "flat_directions": 300, "soft_programs": 300, "unfoldings": 150}
