"""What do the compiled pieces of the papers' algorithms cost, and how accurate do they stay?

Sweeps of LogDet over 10,000 pairs (what is skipped, what is looked at, what is projected), one projection of each
divergence, one rank-one eigen-update, the secular equation beside LAPACK's dlaed4 on the same poles (the routine comes
with SciPy), and the drift after many updates. One thread, CPU time.

    python benchmarks/bench_cyclic.py                  # about 1 minute
    python benchmarks/bench_cyclic.py --updates 20000  # a shorter drift
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import harness
import numpy as np

from bregmat import Constraints, CyclicProjection, nearest_kernel, nearest_metric
from bregmat._kernels import eigen_update
from bregmat._kernels import secular as secular_kernels
from bregmat._kernels.arrays import EigenWork
from bregmat.certificates.problem import NearestMatrix, build_problem
from bregmat.coordinates.priors import kernel_coordinates, metric_coordinates
from bregmat.objective.divergences import DIVERGENCES

SWEEP_TARGET = {"digits 10,000": 5.5, "synthetic 10,000": 15.0}  # ms
LOGDET_TARGET = {52: 2.0, 100: 6.0}  # microseconds a projection
NEUMANN_TARGET = {52: 85.0, 100: 190.0}
UPDATE_TARGET = {52: 25.0, 100: 95.0}
EPS = np.finfo(float).eps


def against(figure: float, target: float | None, unit: str) -> list[str]:
    """Cells: target, figure, verdict."""
    if target is None:
        return ["", f"{figure:.3g} {unit}", ""]
    return [f"{target:g} {unit}", f"{figure:.3g} {unit}", harness.verdict_word(figure <= target)]


def metric_problem(pairs: harness.PairProblem, sense: Any = None, scale: Any = 1.0) -> NearestMatrix:
    """LogDet with slack weight 1 and the identity as prior."""
    sense = np.where(pairs.similar, "<=", ">=") if sense is None else sense
    constraints = Constraints.sq_distance(pairs.i, pairs.j, pairs.bound * scale, sense)
    divergence = DIVERGENCES.resolve("logdet")
    coordinates, operator, _ = metric_coordinates(pairs.X, None, divergence).bind(constraints)
    return build_problem(divergence, coordinates.t0, operator, constraints, None, 1.0)


def kernel_rows(n: int, rows: int, seed: int = 1) -> tuple[np.ndarray, Constraints, Constraints]:
    """The recipe of `bench_hard` at any size: prior, the rows as inequalities, and the same as equalities."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) * 3 // n
    points = 1.2 * rng.normal(size=(3, 10))[y] + rng.normal(size=(n, 10))
    target = np.exp(-((points[:, None] - points[None]) ** 2).sum(2) / 26.0)
    target /= np.trace(target)
    i = rng.integers(0, n, rows)
    j = (i + rng.integers(1, n, rows)) % n
    bound = target[i, i] + target[j, j] - 2 * target[i, j]
    unequal = Constraints.sq_distance(i, j, bound, np.where(y[i] == y[j], "<=", ">="))
    return np.eye(n) / n, unequal, Constraints.sq_distance(i, j, bound, "==")


def neumann_problem(prior: np.ndarray, constraints: Constraints) -> NearestMatrix:
    divergence = DIVERGENCES.resolve("vonneumann")
    coordinates, operator, _ = kernel_coordinates(prior, divergence).bind(constraints)
    return build_problem(divergence, coordinates.t0, operator, constraints, None, np.inf, scale=coordinates.scale)


def swept(problem: NearestMatrix, stops: Sequence[int]) -> list[tuple[float, dict[str, int]]]:
    """CPU seconds and counts up to each number of sweeps."""
    solver = CyclicProjection()
    state = solver.init(problem, 1e-6, None)
    solver.step(problem, solver.init(problem, 1e-6, None))  # warms up
    spent, done, out = 0.0, 0, []
    for stop in stops:
        start = time.process_time()
        while done < stop:
            state = solver.step(problem, state)
            done += 1
        spent += time.process_time() - start
        counts = {name: int(state.trace[name].sum()) for name in ("skipped", "held", "projections", "evaluations")}
        out.append((spent, counts))
    return out


def sweeps(rounds: int) -> None:
    lines = []
    for pairs in (harness.digits(10_000), harness.clusters(10_000)):
        problem = metric_problem(pairs)
        long = swept(problem, (100, 1000))
        short = [swept(problem, (100,))[0][0] for _ in range(rounds)] + [long[0][0]]
        for stop, cpu, counts in ((100, statistics.median(short), long[0][1]), (1000, *long[1])):
            total = stop * problem.c
            shares = [f"{100 * counts[name] / total:.1f} %" for name in ("skipped", "held", "projections")]
            cells = against(1e3 * cpu / stop, SWEEP_TARGET[pairs.name], "ms")
            lines.append([pairs.name, problem.r, f"{problem.c:,}", f"{stop:,}", *cells, *shares])
    header = ["problem", "r", "rows", "first sweeps", "target", "one sweep", "", "skipped", "held", "projected"]
    harness.print_table("LogDet, slack weight 1: a sweep (with its share of rebuilding the matrix)", header, lines)


def logdet_projections(rounds: int) -> None:
    """Equalities, so that every row is projected onto in every sweep."""
    rng = np.random.default_rng(0)
    lines = []
    A = rng.normal(size=(512, 512))
    product = harness.timed(lambda: A @ A, repeats=5, at_least=0.3)
    peak = 2 * 512**3 / product.cpu_median / 1e9
    for r in (52, 64, 100):
        pairs = harness.clusters(2000, n_points=500, dim=r)
        problem = metric_problem(pairs, "==", np.exp(0.3 * rng.normal(size=pairs.n_pairs)))
        runs = [swept(problem, (20,))[0] for _ in range(rounds)]
        each = statistics.median(cpu / counts["projections"] for cpu, counts in runs)
        done = 3.5 * r * r
        speed = f"{done / each / 1e9:.1f} GF/s, {100 * done / each / 1e9 / peak:.0f} %"
        cells = against(1e6 * each, LOGDET_TARGET.get(r), "us")
        lines.append([r, *cells, f"{3 * r * r + 2 * r:,}", speed, f"{8 * r * r / each / 1e9:.1f} GB/s"])
    header = ["r", "target", "projection", "", "operations (paper)", "speed, of dgemm's", "traffic"]
    harness.print_table("LogDet, one projection: the row's value, its step, CHOLUPDATEMULT", header, lines)
    print(
        f"3.5 r^2 floating point operations are done (2.5 for CHOLUPDATEMULT, 1 for the next row's value), 8 r^2 bytes pass; "
        f"dgemm of order 512 reaches {peak:.0f} GF/s."
    )


def neumann_projections(rounds: int) -> None:
    lines = []
    for n in (52, 100):
        prior, unequal, equal = kernel_rows(n, 300)
        for kind, constraints, sweeps in (
            ("==, every row moves", equal, 5),
            ("<= and >=, with rows that hold", unequal, 20),
        ):
            problem = neumann_problem(prior, constraints)
            runs = [swept(problem, (sweeps,))[0] for _ in range(rounds)]
            each = statistics.median(cpu / counts["projections"] for cpu, counts in runs)
            counts = runs[0][1]
            cells = against(1e6 * each, NEUMANN_TARGET[n], "us")
            share = counts["held"] / (sweeps * problem.c)
            evaluations = f"{counts['evaluations'] / counts['projections']:.2f}"
            lines.append([n, kind, *cells, evaluations, f"{100 * share:.0f} %"])
    header = ["r", "rows", "target", "CPU a projection", "", "evaluations (paper: about 6)", "held"]
    harness.print_table("Von Neumann, 300 hard rows, to a relative 1e-10: sweeps over projections", header, lines)


class Walk:
    """Random updates of a matrix with the spectrum of a logarithm of a kernel (spread about 10)."""

    def __init__(self, n: int, count: int) -> None:
        rng = np.random.default_rng(2)
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        H = (Q * np.linspace(-12.0, -2.0, n)) @ Q.T
        self.n, self.H = n, (H + H.T) / 2
        self.lam, U = np.linalg.eigh(self.H)
        self.Vt = np.ascontiguousarray(U.T)
        self.I = rng.integers(
            0, n, count
        )  # updates along e_i - e_j that pull H towards G, with noise: the spectrum stays
        self.J = (self.I + rng.integers(1, n, count)) % n
        self.G = H[self.I, self.I] + H[self.J, self.J] - 2 * H[self.I, self.J]
        self.noise = 0.1 * rng.normal(size=count)
        self.work = EigenWork.of_order(n)

    def go(self, start: int, stop: int, follow: bool = False) -> tuple[float, float]:
        """CPU seconds of an update, poles that moved."""
        H, lam, Vt, spent, moved = self.H, self.lam, self.Vt, 0.0, 0
        for k in range(start, stop):
            i, j = self.I[k], self.J[k]
            w = Vt[:, i] - Vt[:, j]
            rho = 0.2 * (self.G[k] - lam @ w**2) + self.noise[k]
            before = time.process_time()
            moved += eigen_update.rank_one_update_inplace(lam, Vt, w, rho, self.work)
            spent += time.process_time() - before
            if follow:
                H[[i, j], [i, j]] += rho
                H[[i, j], [j, i]] -= rho
        return spent / (stop - start), moved / (stop - start)

    def errors(self) -> tuple[float, float]:
        """||V'V - I|| and the residual relative to ||H||, Frobenius."""
        V = self.Vt
        residual = np.linalg.norm((V.T * self.lam) @ V - self.H) / np.linalg.norm(self.H)
        return float(np.linalg.norm(V @ V.T - np.eye(self.n))), float(residual)


def one_residual(n: int) -> float:
    """Largest residual of single updates of a fresh decomposition, beside the decomposition's own."""
    worst = 0.0
    for k in range(20):
        walk = Walk(n, 20)
        walk.go(k, k + 1, True)
        worst = max(worst, walk.errors()[1])
    return worst


def eigen_updates(rounds: int, count: int) -> None:
    lines = []
    for n in (52, 100):
        walk = Walk(n, count)
        single = one_residual(n)
        walk.go(0, 100, True)
        chunk = min(2000, count // (rounds + 1))
        each = [walk.go(100 + k * chunk, 100 + (k + 1) * chunk, True) for k in range(rounds)]
        walk.go(100 + rounds * chunk, count, True)
        loss, residual = walk.errors()
        cells = against(1e6 * statistics.median(cpu for cpu, _ in each), UPDATE_TARGET[n], "us")
        moved = statistics.median(k for _, k in each)
        lines.append([n, *cells, f"{moved:.1f}", f"{single:.1e}", f"{count:,}", f"{loss:.1e}", f"{residual:.1e}"])
    header = ["r", "target", "update", "", "poles moved", "residual of one", "updates", "norm(V'V - I)", "residual"]
    harness.print_table("Rank-one eigen-update, never rebuilt", header, lines)


def lapack_secular() -> Callable[..., Any]:
    """LAPACK's dlaed4: one root of ``1/rho + sum z_i^2 / (d_i - x)``."""
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__["dlaed4"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 8)(pointer(capsule, name(capsule)))


def dlaed4_seconds(repeats: int, d: np.ndarray, z: np.ndarray, rho: float, delta: np.ndarray) -> float:
    """CPU seconds for all roots, whose distances from the poles go into delta, without the time of as many calls with one pole."""
    dlaed4, K = lapack_secular(), len(d)
    i, n, info, weight, root = (
        np.arange(1, K + 1, dtype=np.int32),
        *np.zeros((2, 1), np.int32),
        np.array([rho]),
        np.zeros(1),
    )
    spent = []
    for n[0] in (1, K):  # dlaed4 returns at once where there is one pole
        calls = [
            [x.ctypes.data for x in (n, i[k * (n[0] > 1) :], d, z, delta[k], weight, root, info)] for k in range(K)
        ]
        start = time.process_time()
        for _ in range(repeats):
            for call in calls:
                dlaed4(*call)
        spent.append((time.process_time() - start) / repeats)
    return spent[1] - spent[0]


def our_seconds(repeats: int, work: EigenWork, lam: np.ndarray, w: np.ndarray, rho: float) -> float:
    """The same for `secular.solve_inplace`, which returns the weights of the derivative, too; it returns at once where rho is 0."""
    spent = []
    for weight in (0.0, rho):
        start = time.process_time()
        for _ in range(repeats):
            secular_kernels.solve_inplace(work, lam, w, weight)
        spent.append((time.process_time() - start) / repeats)
    return spent[1] - spent[0]


def exact_distances(d: np.ndarray, z: np.ndarray, rho: float) -> np.ndarray:
    """Distance of every root from the nearer of its two poles, signed, by bisection in extended precision."""
    d, z2 = d.astype(np.longdouble), z.astype(np.longdouble) ** 2
    gap = np.append(np.diff(d), np.longdouble(rho) * z2.sum())

    def f(origin: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 1 / np.longdouble(rho) + (z2 / ((d[None] - origin[:, None]) - y[:, None])).sum(1)

    right = (f(d, gap / 2) < 0) & (np.arange(len(d)) < len(d) - 1)
    origin = np.where(right, np.append(d[1:], d[-1]), d)
    sign = np.where(right, -1, 1).astype(np.longdouble)
    low, high = np.zeros_like(gap), np.where(np.arange(len(d)) < len(d) - 1, gap / 2, gap)
    for _ in range(200):
        middle = (low + high) / 2
        above = sign * f(origin, sign * middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(sign * (low + high) / 2)


def secular(rounds: int) -> None:
    lines = []
    for n in (52, 100):
        walk = Walk(n, 40_000)
        ours, theirs, errors, poles = [], [], ([], []), []
        for k in range(20):
            walk.go(500 * k, 500 * k + 500)
            i, j = walk.I[k], walk.J[k]
            w, rho = walk.Vt[:, i] - walk.Vt[:, j], float(0.05 + abs(walk.noise[k]))
            lam, work, repeats = walk.lam.copy(), EigenWork.of_order(n), 20
            K = secular_kernels.solve_inplace(work, lam, w, rho)
            d, z = work.d[:K].copy(), work.z[:K].copy()
            size = float(np.linalg.norm(z))
            unit, weight = z / size, rho * size * size
            delta = np.empty((K, K))
            for _ in range(rounds):
                ours.append(our_seconds(repeats, work, lam, w, rho))
                theirs.append(dlaed4_seconds(repeats, d, unit, weight, delta))
            poles.append(K)
            exact = exact_distances(d, z, rho)
            nearest = np.abs(exact)
            errors[0].append(np.abs(np.abs(work.offset[:K]) - nearest) / nearest)
            errors[1].append(np.abs(np.abs(delta).min(axis=1) - nearest) / nearest)
        for who, cpu, error in (("bregmat", ours, errors[0]), ("dlaed4", theirs, errors[1])):
            all_errors = np.concatenate(error).astype(float) / EPS
            lines.append(
                [n, f"{statistics.mean(poles):.1f}", who, f"{1e6 * statistics.median(cpu):.3g} us"]
                + [f"{np.median(all_errors):.2g} eps", f"{all_errors.max():.3g} eps"]
            )
        lines[-2].append(f"{statistics.median(theirs) / statistics.median(ours):.1f} x")
        lines[-1].append("")
    header = ["r", "poles", "solver", "all roots", "error, median", "largest", "dlaed4 over ours"]
    harness.print_table(
        "Secular equation, same poles; error of the distance from a root to its nearest pole", header, lines
    )


def drift() -> None:
    """What the iterates have drifted from the matrix of their multipliers, at each rebuilding (every 20 sweeps)."""
    prior, unequal, _ = kernel_rows(52, 1000)
    pairs = harness.digits(1000)
    solver = CyclicProjection()
    runs = {
        "von Neumann, 52 x 52, 1,000 hard rows": nearest_kernel(
            prior, unequal, divergence="vonneumann", solver=solver, tol=1e-11, max_iter=400
        ),
        "LogDet, digits 1,000 pairs, slack": nearest_metric(
            pairs.X, pairs.constraints(), slack_weight=1.0, solver=solver, tol=1e-13, max_iter=400
        ),
    }
    lines = []
    for name, result in runs.items():
        series = result.trace["drift"]
        seen = series[~np.isnan(series)]
        made = result.trace["projections"].sum() / result.n_iter
        cells = [result.n_iter, f"{solver.refresh * made:,.0f}", f"{np.median(seen):.1e}", f"{seen.max():.1e}"]
        lines.append([name, *cells, f"{result.gap:.0e}"])
    header = ["run", "sweeps", "projections between", "drift, median", "largest", "gap at the end"]
    harness.print_table('Result.trace["drift"]: relative distance from the matrix of the multipliers', header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="repetitions of which the median is taken")
    parser.add_argument("--updates", type=int, default=200_000, help="eigen-updates after which the drift is measured")
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine() + "; one thread, CPU time, medians")
    logdet_projections(args.rounds)
    neumann_projections(args.rounds)
    eigen_updates(args.rounds, args.updates)
    secular(args.rounds)
    drift()
    sweeps(args.rounds)
    print("The sweeps of a C++ library with the same method, elsewhere: 5.45 ms (digits), 15.6 ms (synthetic).")


if __name__ == "__main__":
    harness.steady(main)
