"""Quadratic programs, least squares and margin machines whose optimum, ray or contradiction is planted."""

import numpy as np

import bregmat
from bregmat.margin.problem import MarginProblem
from bregmat.margin.train import train_margin
from suite.judge import SECONDS, Case, repeat_rows, with_repeats
from suite.rational import exact_outcome


def planted(rng, n, *, rank=None, equality=False, bounded=False):
    """A, b, upper, equality and a point that meets the conditions of optimality: its objective is the optimum."""
    rank = n if rank is None else rank
    G = rng.normal(size=(n, rank))
    kind = rng.integers(4)
    if kind == 0 and n > 2:  # columns said twice
        G[rng.integers(n)] = G[rng.integers(n)]
    elif kind == 1:
        G = G * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    elif kind == 2:
        G = G * np.logspace(0, -5, rank)
    A = G @ G.T
    A = (A + A.T) / 2
    size = np.sqrt(np.maximum(np.diag(A), 1e-30))
    state = rng.random(n)
    upper = np.where(rng.random(n) < 0.5, np.inf, rng.uniform(0.5, 2, n) / size) if bounded else np.full(n, np.inf)
    x = np.where(state < 0.5, rng.uniform(0.1, 1, n) / size, 0.0)
    h = np.where(state >= 0.5, rng.uniform(0, 1, n) * size, 0.0) * (rng.random(n) < 0.8)
    at_top = np.isfinite(upper) & (rng.random(n) < 0.3)
    x, h = np.where(at_top, upper, np.minimum(x, upper)), np.where(at_top, -rng.uniform(0, 1, n) * size, h)
    h = np.where((x > 0) & (x < upper), 0.0, h)
    E, y = (np.sign(rng.normal(size=(1, n))), rng.normal(size=1)) if equality else (np.zeros((0, n)), np.zeros(0))
    b = h - A @ x - y @ E
    return A, b, upper, ((E, E @ x) if equality else None), x


def quadratic(rng):
    """Planted optima: scales, bounds, duplicates, singular matrices, equalities."""
    n = int(rng.integers(1, 25))
    A, b, upper, equality, x = planted(
        rng,
        n,
        rank=int(rng.integers(1, n + 1)) if rng.random() < 0.4 else None,
        equality=rng.random() < 0.3,
        bounded=rng.random() < 0.5,
    )
    scale = 10.0 ** rng.choice([0, 0, 0, -8, 8])
    A, b = scale * A, scale * b
    arguments = {"A": A, "b": b, "upper": upper, "equality": equality}
    optimum = float(0.5 * x @ A @ x + b @ x)
    solver = str(rng.choice(["auto", "active_set"]))
    return Case(
        solve=lambda: bregmat.nnqp(A, b, upper=upper, equality=equality, solver=solver, max_seconds=SECONDS),
        arguments=arguments,
        judge=lambda result: _far(result, optimum, float(x @ A @ x) + float(np.abs(b) @ x)),
        text=f"n {n} scale {scale:g} equality {equality is not None} {solver}",
    )


def _far(result, optimum, terms):
    """Whether an objective or a bound is on the wrong side of the optimum."""
    room = 1e-7 * max(abs(optimum), 1e-4 * terms)
    if result.status in ("INFEASIBLE", "UNBOUNDED"):
        return f"{result.status}, but the optimum is {optimum:.9g}"
    if result.dual_bound > optimum + room:
        return f"dual bound {result.dual_bound:.9g} above the optimum {optimum:.9g}"
    if result.status == "OPTIMAL" and abs(result.objective - optimum) > room:
        return f"OPTIMAL at {result.objective:.9g}, but the optimum is {optimum:.9g}"
    return None


def unbounded(rng):
    """A falls along a planted ray; or, with equalities, the rows contradict the box."""
    n = int(rng.integers(2, 15))
    G = rng.normal(size=(n, int(rng.integers(1, n))))
    d = np.where(rng.random(n) < 0.5, rng.integers(1, 4, n), 0).astype(float)
    d[rng.integers(n)] = 1.0
    if rng.random() < 0.5:
        G = G - np.outer(d, d @ G) / (d @ d)
        G[d == 0] = np.round(G[d == 0], 3)
        A = G @ G.T
        b = rng.normal(size=n)
        b -= d * (b @ d + rng.uniform(0.1, 1)) / (d @ d)
        arguments, wanted = {"A": (A + A.T) / 2, "b": b}, "UNBOUNDED"
    else:
        A, b = G @ G.T, rng.normal(size=n)
        E = np.abs(rng.normal(size=(1, n))) * (rng.random(n) < 0.7)
        E[0, 0] = 1.0
        arguments, wanted = (
            {"A": (A + A.T) / 2, "b": b, "equality": (E, np.array([-rng.uniform(1e-3, 1)]))},
            "INFEASIBLE",
        )

    def wrong(result):
        return f"{result.status}, but {wanted} by construction" if result.status == "OPTIMAL" else None

    given = {k: v for k, v in arguments.items() if k not in ("A", "b")}
    return Case(
        solve=lambda: bregmat.nnqp(arguments["A"], arguments["b"], max_seconds=SECONDS, **given),
        arguments=arguments,
        feasible=None,
        expected=wanted,
        judge=wrong,
        text=wanted,
    )


def least_squares(rng, repeats=False):
    """Any shape and rank; columns said twice, of very different lengths; against SciPy's own method."""
    import scipy.optimize

    m, n = int(rng.integers(1, 30)), int(rng.integers(1, 20))
    X = rng.normal(size=(m, n))
    kind = rng.integers(4)
    if kind == 0 and n > 1:
        X[:, 0] = X[:, 1]
    elif kind == 1:
        X *= 10.0 ** rng.uniform(-4, 4, size=n)
    elif kind == 2:
        X = np.abs(X)
    if repeats:
        repeat_rows(
            rng, X.T, least=1e-3
        )  # the Gram matrix has the squares of smaller singular values only up to rounding
        repeat_rows(rng, X, least=1e-3)
    y = X @ np.maximum(rng.normal(size=n), 0) + rng.choice([0.0, 1e-6, 1.0]) * rng.normal(size=m)
    scale = 10.0 ** rng.choice([0, 0, -8, 8])
    X, y = X * scale, y * scale
    A, b = X.T @ X, -X.T @ y
    best = 0.5 * (scipy.optimize.nnls(X, y, maxiter=1000)[1] ** 2 - y @ y)

    def wrong(result):
        room = 1e-9 * (y @ y)
        if result.dual_bound > best + room:
            return f"dual bound {result.dual_bound:.9g} above SciPy's {best:.9g}"
        if result.status == "OPTIMAL" and result.objective > best + room:
            return f"OPTIMAL at {result.objective:.9g}, SciPy has {best:.9g}"
        return None

    return Case(
        solve=lambda: bregmat.nnqp(A, b, max_seconds=SECONDS),
        arguments={"A": A, "b": b},
        judge=wrong,
        text=f"{m} x {n} kind {kind} scale {scale:g}",
    )


def machines(rng, repeats=False):
    """Margin machines: hinge, squared hinge and hard margin, samples said twice, tiny and large C, classes that coincide."""
    from bregmat.kernels import kernel_source

    n, d = int(rng.integers(4, 50)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[0], y[1] = 1.0, -1.0
    loss = str(rng.choice(["hinge", "squared", "hard", "impossible"]))
    C = 10.0 ** rng.uniform(-3, 4) if loss in ("hinge", "squared") else np.inf
    if loss == "hard":  # separated by construction
        X[:, 0] = np.where(y > 0, np.abs(X[:, 0]) + 0.1, -np.abs(X[:, 0]) - 0.1)
    if loss == "impossible":
        X[1] = X[0]
    if rng.random() < 0.3 and loss != "impossible":
        k = int(rng.integers(2, n)) if n > 2 else 0
        X[k], y[k] = X[2 % n], y[2 % n]
    if repeats and loss != "impossible":
        repeat_rows(rng, X[2:], y[2:])  # both classes stay
    X *= 10.0 ** rng.choice([0, 0, 0, -3, 3])
    gamma = float(rng.choice([0.1, 1.0])) / max(1e-300, float(X.var()))
    kernel = "linear" if loss == "hard" or rng.random() < 0.5 else "rbf"
    intercept = bool(rng.random() < 0.7)
    if not intercept and loss == "impossible":
        intercept = True
    problem = MarginProblem.build(
        kernel_source(X, kernel=kernel, **({"gamma": gamma} if kernel == "rbf" else {})),
        y,
        C=C,
        squared_hinge=loss == "squared",
        intercept=intercept,
    )
    return Case(
        solve=lambda: train_margin(problem, tol=1e-6, max_seconds=SECONDS),
        arguments={"problem": problem},
        feasible=loss != "impossible",
        text=f"{loss} {kernel} n {n} C {C:.3g} intercept {intercept}",
    )


def integers(rng):
    """Small integers times powers of two, judged in rational arithmetic: copies of variables, rows with the value 0, b of 0 or tiny."""
    n, m = int(rng.integers(1, 6)), int(rng.integers(0, 3))
    G = rng.integers(-3, 4, size=(n, int(rng.integers(1, n + 1))))
    G[rng.integers(n)] = G[rng.integers(n)]
    A, b = G @ G.T, rng.integers(-1, 4, size=n) * int(rng.random() < 0.8)
    upper = np.where(rng.random(n) < 0.2, rng.integers(0, 4, n), np.inf)
    E, e = rng.integers(-2, 3, (m, n)), rng.integers(-2, 4, m) * int(rng.random() < 0.4)
    status, value = exact_outcome(A, b, upper, E, e)
    # x = unit z, with z the solution for the integers
    scale, unit = 2.0 ** rng.choice([0, 0, -100, 100]), 2.0 ** rng.choice([0, 0, -60, 60])
    solver = str(
        rng.choice(["auto", "active_set"] if m or status == "UNBOUNDED" else ["auto", "active_set", "multiplicative"])
    )
    equality = (E.astype(float), unit * e) if m else None
    arguments = {"A": scale * A, "b": scale * unit * b, "upper": unit * upper, "equality": equality}

    def wrong(result):
        if result.status in ("FEASIBLE", "UNKNOWN"):
            return None
        if result.status != status:
            return f"{result.status} for {status}"
        if status != "OPTIMAL":
            return None
        x, last = result.x / unit, 1e-13 * result.x.max() / unit  # what rounding may change a variable by
        terms = x @ np.abs(A) @ x + np.abs(b) @ x
        room = scale * unit**2 * (1e-5 * abs(float(value)) + 1e-13 * terms + last**2 * np.abs(A).sum())
        if abs(result.objective - scale * unit**2 * float(value)) > room:
            return f"OPTIMAL at {result.objective:.9g}, but the optimum is {scale * unit**2 * float(value):.9g}"
        missed = (
            np.abs(E @ result.x - unit * e) > 1e-8 * (np.abs(E) @ result.x + np.abs(unit * e)) + 1e-13 * result.x.max()
        )
        return f"rows {np.flatnonzero(missed)} are missed by their own size" if missed.any() else None

    return Case(
        solve=lambda: bregmat.nnqp(**arguments, solver=solver, max_seconds=SECONDS),
        arguments=arguments,
        feasible=status != "INFEASIBLE",
        expected=str(status) if solver != "multiplicative" else ("OPTIMAL", "FEASIBLE"),
        judge=wrong,
        text=f"n {n} m {m} scale {scale:g} unit {unit:g} {solver}",
    )


def indefinite(rng):
    """A nearly singular matrix, most often with a negative eigenvalue: the objective falls without end along a nonnegative direction."""
    n = int(rng.integers(2, 8))
    Q = np.linalg.qr(np.column_stack([rng.uniform(0.1, 1, n), rng.normal(size=(n, n - 1))]))[0]
    values = np.r_[-(10.0 ** rng.uniform(-17, -8)) * rng.choice([1, 1, 1, -1]), rng.uniform(0.1, 1, n - 1)]
    A = (Q * values) @ Q.T
    A, direction = (A + A.T) / 2, np.abs(Q[:, 0])
    b = rng.normal(size=n)
    b -= direction * (direction @ b)
    solver = str(rng.choice(["auto", "active_set"]))

    def wrong(result):
        largest, delta = float(A.diagonal().max()), result.curvature_tolerance
        if np.linalg.eigvalsh(A)[0] < -delta * largest:
            return f"the smallest eigenvalue is {np.linalg.eigvalsh(A)[0]:.3g}, not -{delta * largest:.3g} at the least"
        for far in 10.0 ** np.arange(0, 12):
            w = (result.x + far * direction).astype(np.longdouble)
            value, reach = w @ A @ w / 2 + b @ w, max(np.linalg.norm(w), far)
            less = delta * largest * reach**2 / 2 + result.bound_perturbation * np.abs(b).max() * w.sum()
            if value < result.dual_bound - less - 1e-14 * abs(result.dual_bound):
                return f"at {far:g} from x the objective is {float(value):.9g}, below what the bound allows"
        return None

    return Case(
        solve=lambda: bregmat.nnqp(A, b, solver=solver, max_seconds=SECONDS),
        arguments={"A": A, "b": b},
        judge=wrong,
        expected=("OPTIMAL", "FEASIBLE"),
        may_refuse=True,
        own_rule=True,
        text=f"n {n} eigenvalue {values[0]:.2g} {solver}",
    )


def close_classes(rng):
    """Hard margins far below the rounding of the kernel's values, and classes whose hulls meet in one point of small binary fractions."""
    from bregmat.kernels import kernel_source

    n, d = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    X, y = rng.normal(size=(n, d)) * rng.choice([1.0, 1e-3]) + rng.choice([0.0, 1.0, 1e3]), np.ones(n)
    y[: max(1, n // 2)] = -1.0
    kernel, meets = str(rng.choice(["linear", "linear", "rbf"])), bool(rng.random() < 0.3)
    if meets:  # a point between two of the other class; under a Gaussian kernel a point of both
        X, step = np.round(8 * X) / 8, np.round(8 * rng.normal(size=d)) / 8 * (kernel == "linear")
        X[-1] = X[0]
        X, y = np.vstack([X, X[0] + step, X[0] - step]), np.r_[y, -1.0, -1.0]
    else:
        apart = 10.0 ** rng.uniform(-14, -5) * (1.0 + np.abs(X[:, 0]).max())
        X[:, 0] = X[0, 0] + np.where(y > 0, apart * rng.integers(1, 3, n), -apart * rng.integers(0, 3, n))
    problem = MarginProblem.build(
        kernel_source(X, kernel=kernel, **({"gamma": 1.0} if kernel == "rbf" else {})), y, C=np.inf
    )
    return Case(
        solve=lambda: train_margin(problem, tol=1e-6, max_seconds=SECONDS),
        arguments={"problem": problem},
        feasible=not meets,
        expected=("OPTIMAL", "FEASIBLE", "UNKNOWN"),
        own_rule=True,
        text=f"{kernel} {n} x {d} meets {meets}",
    )


FAMILIES = {f.__name__: f for f in (quadratic, integers, unbounded, indefinite, close_classes)}
FAMILIES |= with_repeats(least_squares, machines)
COUNTS = {
    "quadratic": 500,
    "integers": 500,
    "unbounded": 150,
    "indefinite": 300,
    "least_squares": 300,
    "machines": 300,
    "close_classes": 300,
}
