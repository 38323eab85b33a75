"""NumPy twins of the kernels that project onto single rows in spectral form, and DefiniteBoost's steps and exponent (Tsuda 2004).

Eigen-updates have a file of their own (test_eigen_update.py); the kernels of LogDet: test_row_kernels.py.
"""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

from bregmat import CyclicProjection, DefiniteBoost, VonNeumann
from bregmat._kernels import von_neumann
from bregmat._kernels.arrays import EigenWork
from bregmat.certificates.problem import NearestMatrix
from bregmat.engine.loop import solve
from bregmat.objective.losses import Hard
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.compound import MatrixRows
from bregmat.solvers.definite_boost import BoostRows, BoostState, approximate_step, log_step_bound
from bregmat.solvers.row_projections import VonNeumannProjected
from cases import Watched
from flat_rows import EXACT, assembled, outer_rows, relaxed, root, row, row_bounds, sweep_case, vectors
from formulas import orthogonal

OUTER, DENSE, IDENTITY = von_neumann.FORMS


# ---------------------------------------------------------------- von Neumann
def test_dense_along(rng):
    """Spectrum of diag(lam) - delta X, and value, trace and derivative of its exponential."""
    lam, X = np.sort(rng.normal(size=5)), rng.normal(size=(5, 5))
    X = X + X.T
    work = EigenWork.of_order(5)
    p, trace, dp = von_neumann.dense_along_inplace(work, lam, X, 0.3)
    H, Qt = np.diag(lam) - 0.3 * X, work.U[:25].reshape(5, 5)
    assert np.allclose((Qt.T * work.theta) @ Qt, H, **EXACT)
    assert p == pytest.approx(np.sum(X * expm(H)), rel=1e-12)
    assert trace == pytest.approx(np.trace(expm(H)), rel=1e-12)
    h = 1e-5
    rate = (np.sum(X * expm(H + h * X)) - np.sum(X * expm(H - h * X))) / (2 * h)  # against delta
    assert dp == pytest.approx(rate, rel=1e-6)
    tied = von_neumann.dense_along_inplace(EigenWork.of_order(3), np.zeros(3), np.eye(3), 0.5)  # all eigenvalues equal
    assert tied == pytest.approx([3 * np.exp(-0.5)] * 3, rel=1e-14)


def basis(rng, n):
    return np.ascontiguousarray(np.linalg.qr(rng.normal(size=(n, n)))[0])


def whole(lam, Vt):
    return (Vt.T * lam) @ Vt


@pytest.mark.parametrize("total", [0.0, 1.0])
@pytest.mark.parametrize("form", [OUTER, DENSE, IDENTITY])
@pytest.mark.parametrize(
    ("name", "factor"),
    [("hard", 0.4), ("hard", 1.3), ("relative_entropy", 0.4), ("squared_hinge", 0.4), ("squared_hinge", -0.4)],
)
def test_project(form, name, factor, total, rng):
    """exp(H - delta A), scaled to a trace or not, with the row at xi(mu + delta): the matrix by SciPy, delta by its residual."""
    if form == IDENTITY and total:
        return  # the trace row itself, which is eliminated there
    n, mu, gamma = 6, 0.2, 3.0
    lam, Vt, X, w = np.sort(rng.normal(size=n)), basis(rng, n), np.zeros((n, n)), np.zeros(n)
    kappa = 0.0
    if form == OUTER:
        w = rng.normal(size=n) / 2
        A = Vt.T @ np.outer(w, w) @ Vt
    elif form == DENSE:
        X = rng.normal(size=(n, n)) / 3
        X = X @ X.T - 0.1 * np.eye(n)
        A = Vt.T @ X @ Vt
    else:
        kappa = 0.7
        A = kappa * np.eye(n)
    H = whole(lam, Vt)

    def matrix(delta):
        E = expm(H - delta * A)
        return total * E / np.trace(E) if total else E

    b = factor * np.sum(A * matrix(0.0))
    given = row(name, b, sense=1, gamma=gamma, mu=mu)
    work = EigenWork.of_order(n)
    work.rows_of_projections[1] = w
    delta, used = von_neumann.project_inplace(lam, Vt, work, X, form, kappa, total, given, True, 1e-12)
    assert np.allclose(whole(lam, Vt), H - delta * A, rtol=0, atol=1e-12 * max(1, abs(delta)) * np.abs(A).max() * n)
    assert np.allclose(Vt @ Vt.T, np.eye(n), atol=1e-13)
    value, xi = np.sum(A * matrix(delta)), relaxed(name, b, gamma, 1.0, mu + delta)
    if factor < 1:
        assert value == pytest.approx(xi, rel=1e-11)
    else:
        assert delta == -mu or value == pytest.approx(xi, rel=1e-11)
    assert mu + delta >= 0
    assert used <= 12


def test_project_stops_where_the_multiplier_is_0(rng):
    """Kulis 2009, eq. 8: the row holds with room; exactly the multiplier is taken off."""
    lam, Vt, w = np.sort(rng.normal(size=5)), basis(rng, 5), rng.normal(size=5)
    H, A = whole(lam, Vt), Vt.T @ np.outer(w, w) @ Vt
    work, given = EigenWork.of_order(5), row("hard", 1e6, sense=1, mu=0.25)
    work.rows_of_projections[1] = w
    delta, _ = von_neumann.project_inplace(lam, Vt, work, np.zeros((5, 5)), OUTER, 0.0, 0.0, given, True, 1e-12)
    assert delta == -0.25
    assert np.allclose(whole(lam, Vt), H + 0.25 * A, atol=1e-12)


def test_project_leaves_a_zero_row_alone():
    lam, Vt = np.array([-1.0, 2.0]), np.eye(2)
    work, given = EigenWork.of_order(2), row("hard", 1.0, sense=1)
    found = von_neumann.project_inplace(lam, Vt, work, np.zeros((2, 2)), OUTER, 0.0, 0.0, given, True, 1e-12)
    assert found == (0.0, 0)
    assert (lam == [-1.0, 2.0]).all()


def test_row_in_basis(rng):
    """The row in the eigenbasis and its value at exp(lam)."""
    R = outer_rows(rng, 5, [1, 3, 0], shift=[0, 0, 0.7])
    R.coef[0] = 2.5
    lam, Vt, X, work = rng.normal(size=5), basis(rng, 5), np.zeros((5, 5)), EigenWork.of_order(5)
    w = work.rows_of_projections[1]
    M, A = (Vt.T * np.exp(lam)) @ Vt, assembled(R)
    for i, form in enumerate((OUTER, DENSE, IDENTITY)):
        found, p = von_neumann.row_in_basis_inplace(work, X, Vt, lam, R, i)
        assert found == form
        assert p == pytest.approx(np.sum(A[i] * M), rel=1e-12)
        if i < 2:
            assert np.allclose(np.outer(w, w) if i == 0 else X, Vt @ A[i] @ Vt.T, **EXACT)
    R.coef[0] = -2.5  # no longer a square
    form, p = von_neumann.row_in_basis_inplace(work, X, Vt, lam, R, 0)
    assert form == DENSE
    assert p == pytest.approx(np.sum(assembled(R)[0] * M), rel=1e-12)


def project_vonneumann(H, A, b, sense, mu, corrected):
    """Kulis 2009, eq. 15 and 8 with alpha = -delta, by SciPy."""
    delta = root(lambda t: np.sum(A * expm(H - t * A)) - b, -30 / np.linalg.norm(A), 30 / np.linalg.norm(A))
    if corrected:
        delta = max(delta, -mu) if sense > 0 else min(delta, -mu) if sense < 0 else delta
    return H - delta * A, delta


@pytest.mark.parametrize("corrected", [True, False])
def test_vonneumann_sweep(corrected, rng):
    R, A, bounds, sense, b = sweep_case(rng, r=5)
    lam, Vt, H = np.zeros(5), np.eye(5), np.zeros((5, 5))
    dual, mu, totals, counts = np.zeros(8), np.zeros(8), np.zeros(5), np.zeros(4, np.int64)
    for _ in range(3):
        before = counts.copy()
        totals[:] = 0.0
        von_neumann.sweep_inplace(
            lam, Vt, dual, totals, counts, EigenWork.of_order(5), np.empty((5, 5)), R, bounds, 0, 8, corrected, 1e-13
        )
        moved, worst = 0.0, 0.0
        for i in range(8):
            p = np.sum(A[i] * expm(H))
            excess = abs(p - b[i]) if sense[i] == 0 else sense[i] * (p - b[i])
            worst = max(worst, excess / bounds.unit[i])
            if sense[i] != 0 and excess <= 0 and (mu[i] == 0 or not corrected):
                continue
            H, delta = project_vonneumann(H, A[i], b[i], sense[i], mu[i], corrected)
            mu[i] += delta
            moved += delta**2
        assert np.allclose(whole(lam, Vt), H, rtol=0, atol=1e-9 * np.abs(H).max())
        assert np.allclose(dual, mu, rtol=1e-8, atol=1e-9)
        assert totals[3:] == pytest.approx([worst, moved], rel=1e-6)
        assert counts[0] == 0
        assert (counts - before)[1:3].sum() == 8


# ---------------------------------------------------------------- DefiniteBoost
def boosted(R, bounds, total, low=None, high=None):
    values = np.linalg.eigvalsh(assembled(R))
    return BoostRows.of(R, bounds, values[:, 0] if low is None else low, values[:, -1] if high is None else high, total)


def test_terms(rng):
    R = outer_rows(rng, 5, [1, 3, 0, 2], shift=[0, 0, 1.5, 0])
    assert np.array_equal(R.terms(), vectors(R))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-0.2, 3.0), (-4.0, 0.1)])
@pytest.mark.parametrize("share", [-0.5, 0.0, 0.01, 0.5, 0.99])
def test_approximate_step(low, high, share):
    """The minimiser of the bound, by SciPy; the bound there is rho(r) of Theorem 4.1."""
    r = share * (high if share > 0 else -low)

    def bound(alpha):
        return ((high - r) * np.exp(-alpha * low) + (r - low) * np.exp(-alpha * high)) / (high - low)

    alpha = approximate_step(r, low, high)
    best = minimize_scalar(bound, bracket=(alpha - 1, alpha + 1), tol=1e-12)
    assert bound(alpha) <= best.fun * (1 + 1e-13)
    assert alpha == pytest.approx(best.x, abs=1e-5)  # the square root of rounding
    for a in (alpha, -0.3, 0.0, 2.0):
        assert log_step_bound(r, low, high, a) == pytest.approx(np.log(bound(a)), abs=1e-13)
    width = high - low
    rho = (1 - r / high) ** (high / width) * (1 - r / low) ** (-low / width)
    assert log_step_bound(r, low, high, alpha) == pytest.approx(np.log(rho), abs=1e-13)


def test_approximate_step_at_the_ends():
    assert 0 < approximate_step(0.5, 0.0, 1.0) < np.inf  # only singular matrices meet the row
    assert 0 < approximate_step(1.0, -1.0, 1.0) < np.inf
    assert approximate_step(-1.0, -1.0, 1.0) == -np.inf  # cut by the correction
    assert approximate_step(-0.5, -1.0, 0.0) == -np.inf
    assert log_step_bound(0.3, 0.5, 0.5, 2.0) == -0.6
    assert np.isfinite(log_step_bound(0.3, -1.0, 1.0, 1e5))


def scores(p, bounds, cone, dual, corrected):
    """NumPy twin of the choice of a row: the violation as published, or the gain of the quadratic model; and the largest violation."""
    sense, gap = bounds.sense, p - bounds.bound / cone.total
    r = np.where(sense == 0, np.abs(gap), sense * gap)
    s = np.where(sense == 0, np.sign(gap), sense)
    q = np.maximum((cone.high - cone.low) / 2, 1e-150) ** 2  # 0 for the trace
    step = s * r / q
    step = np.where(sense > 0, np.maximum(step, -dual), np.where(sense < 0, np.minimum(step, -dual), step))
    score = s * r * step - q * step**2 / 2 if corrected else r
    return np.where(cone.usable, score, -np.inf), (r * cone.total / bounds.unit)[cone.usable].max()


@pytest.mark.parametrize("corrected", [True, False])
def test_choice(corrected, rng):
    """The largest violation as published; with corrections the largest gain of the quadratic model."""
    n, c, total = 5, 30, 1.7
    for _ in range(20):
        R = outer_rows(rng, n, rng.integers(1, 3, c))
        A = assembled(R)
        lam, Vt, sense = np.sort(rng.normal(size=n)), basis(rng, n), rng.integers(-1, 2, c)
        W = (Vt.T * np.exp(lam)) @ Vt
        p = np.tensordot(A, W / np.trace(W), 2)
        bounds = row_bounds(total * (p + rng.normal(size=c)), sense)
        ends = (-rng.uniform(5, 9, c), rng.uniform(5, 9, c))
        cone, usable = boosted(R, bounds, total, *ends), rng.random(c) < 0.8
        cone = cone._replace(usable=usable, share=np.where(usable, cone.share, 0.0))
        dual = np.where(
            rng.random(c) < 0.5, 0.0, np.where(sense == 0, rng.normal(size=c), sense * rng.uniform(0, 1, c))
        )
        score, largest = scores(p, bounds, cone, dual, corrected)
        assert np.allclose(cone.values(lam, Vt), p, **EXACT)
        found = cone.choose(p, dual, corrected)
        assert found == (np.argmax(score), pytest.approx(largest, rel=1e-10))
        met = bounds._replace(bound=np.full(c, 1e3), sense=np.ones(c, np.int8))
        assert boosted(R, met, total, *ends).choose(p, np.zeros(c), corrected)[0] == -1


def random_interval(rng):
    low, high = -np.exp(rng.normal()), np.exp(rng.normal())
    return low, high, rng.uniform(0.95 * low, 0.95 * high)


def printed_13(r, low, high):
    """Eq. 13 as it stands on the page."""
    return np.log((1 + r / high) / (1 + r / low)) / (high - low)


def test_tsuda_13(rng):
    """The corrected step minimises the bound of Theorem 4.1; the page's does so only for an interval symmetric about 0."""
    worse = 0
    for _ in range(200):
        low, high, r = random_interval(rng)
        alpha = approximate_step(r, low, high)
        best = minimize_scalar(
            lambda t, args=(r, low, high): log_step_bound(*args, t),
            bracket=(alpha - 0.5, alpha + 0.7),
            options={"xtol": 1e-10},
        )
        assert alpha == pytest.approx(best.x, abs=1e-6)  # a minimum is found to the root of rounding
        h = 1e-5
        slope = (log_step_bound(r, low, high, alpha + h) - log_step_bound(r, low, high, alpha - h)) / (2 * h)
        assert abs(slope) < 1e-8  # h^2 and rounding / h
        with np.errstate(invalid="ignore"):
            printed = printed_13(r, low, high)
            worse += not log_step_bound(r, low, high, printed) <= best.fun + 1e-6  # undefined, or above the minimum
    assert worse > 150
    for r in (-0.6, 0.1, 0.9):
        assert approximate_step(r, -2.0, 2.0) == pytest.approx(printed_13(r, -2.0, 2.0), rel=1e-12)


def test_tsuda_14_rho(rng):
    """At the step the bound is rho(r) as printed, which is at most 1."""
    for _ in range(50):
        low, high, r = random_interval(rng)
        rho = (1 - r / high) ** (high / (high - low)) * (1 - r / low) ** (-low / (high - low))
        assert np.exp(log_step_bound(r, low, high, approximate_step(r, low, high))) == pytest.approx(rho, rel=1e-12)
        assert rho <= 1


def test_printed_step_breaks_the_bound(rng):
    """On diagonal matrices the page's step ends above rho(r) in many cases, the corrected one in none."""
    broken = 0
    for _ in range(300):
        a = rng.normal(size=5) + rng.normal()
        w = rng.dirichlet(np.ones(5))
        low, high, r = a.min(), a.max(), a @ w
        if not (low < 0 < high and r > 0):
            continue
        log_rho = log_step_bound(r, low, high, approximate_step(r, low, high))
        assert np.log(w @ np.exp(-approximate_step(r, low, high) * a)) <= log_rho + 1e-14
        with np.errstate(invalid="ignore"):
            broken += not np.log(w @ np.exp(-printed_13(r, low, high) * a)) <= log_rho + 1e-14
    assert broken > 20


def tiny_problem(rng, relation, d=8, c=12):
    """A prior with eigenvalues down to 1e-30, which no array could tell from 0, and rows of a matrix that is far from it."""
    values = 10.0 ** np.array([0, -0.5, -3, -8, -15, -20, -25, -30])
    t0 = np.log(values / values.sum())
    Q, v = orthogonal(rng, d), rng.normal(size=(c, d))
    A = np.concatenate([np.einsum("ij,ik->ijk", v, v), np.eye(d)[None]])
    b = np.einsum("cij,ji->c", A, Q @ np.diag([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05]) @ Q.T)
    sense = np.where(relation == "==", 0, np.where(np.einsum("cii,i->c", A, np.exp(t0)) > b, 1, -1)).astype(np.int8)
    sense[-1] = 0
    losses = RowLosses(b, sense, np.ones(c + 1), b, (Hard(),), np.zeros(c + 1, np.int8))
    return NearestMatrix(VonNeumann(), t0, MatrixRows(A), losses, b), A


@pytest.mark.parametrize("relation", ["==", "<>"])
@pytest.mark.parametrize("order", ["greedy", "cyclic"])
@pytest.mark.parametrize("projection", ["exact", "approximate"])
def test_tsuda_3_2(projection, order, relation, rng):
    """The exponent is kept, shifted so that its largest eigenvalue is 0: from 1e-30, over hundreds of steps, nothing is lost."""
    problem, A = tiny_problem(rng, relation)
    watched = Watched(DefiniteBoost(projection=projection, order=order, block=50))
    outcome = solve(problem, watched, tol=1e-30, max_iter=20 if order == "greedy" else 100)
    steps = len(outcome.trace["row"])
    assert steps >= 200
    for state in (watched.states[1], watched.states[-1]):
        H = np.diag(problem.t0) - np.tensordot(state.dual[:-1], A[:-1], 1)
        t, U = np.linalg.eigh(H)
        E = (U * np.exp(t - t[-1])) @ U.T
        F = state.iterate.factor()
        assert np.isfinite(F).all()
        # an exponent of size 1e2 or so is known to its rounding, 1e-14, times a few for each step
        assert np.allclose(F @ F.T, E / np.trace(E), rtol=0, atol=1e-14 * np.abs(H).max() * steps)
        assert np.trace(F @ F.T) == pytest.approx(1.0, abs=1e-12)
        assert state.matrix.lam.max() == 0.0
        assert np.linalg.norm(state.matrix.Vt @ state.matrix.Vt.T - np.eye(8)) < 1e-15 * 8 * steps
    assert outcome.certificate.max_violation < 0.05  # on the way: tiny eigenvalues had to grow by 28 orders


@pytest.mark.parametrize("refresh", [20, 10**6])
def test_tsuda_3_2_sweeps(refresh, rng):
    """The cyclic projection keeps the exponent as well."""
    problem, A = tiny_problem(rng, "<>")
    outcome = solve(problem, CyclicProjection(refresh=refresh), tol=1e-8, max_iter=3000)
    assert outcome.status == "OPTIMAL"
    t, U = np.linalg.eigh(np.diag(problem.t0) - np.tensordot(outcome.certificate.dual, A, 1))
    M = (U * np.exp(t)) @ U.T
    assert np.allclose(np.einsum("cij,ji->c", A, M), outcome.certificate.values, rtol=1e-3)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("greedy", [True, False])
def test_boost(exact, corrected, greedy, rng):
    """A block of steps against the page with dense matrices: rows chosen, step lengths, dual objective, bound, matrix."""
    total, n = 1.4, 5
    R = outer_rows(rng, n, [1, 1, 2, 0, 1, 3, 1], shift=[0, 0, 0, 1.0])
    A = assembled(R)
    F = np.eye(n) + 0.3 * rng.normal(size=(n, n))
    met = np.tensordot(A, F @ F.T / np.sum(F**2) * total, 2)
    sense = np.array([1, -1, 1, 0, 0, -1, -1])
    bounds = row_bounds(met, sense)
    cone = boosted(R, bounds, total)
    lam, Vt, dual = np.full(n, 0.0), np.eye(n), np.zeros(7)
    level, size = np.array([0.0, np.log(n), np.log(n)]), 12 if greedy else 6
    how = {
        "projection": "exact" if exact else "approximate",
        "order": "greedy" if greedy else "cyclic",
        "corrected": corrected,
    }
    solver = DefiniteBoost(**how, violation_tol=1e-9, root_tol=1e-13)
    matrix = VonNeumannProjected(None, lam, lam, Vt)
    state = BoostState(matrix, dual, R, bounds, None, 0.0, level=level, boost_rows=cone)
    H, mu = np.zeros((n, n)), np.zeros(7)
    log_bound, taken = np.log(n), 0
    C = A - met[:, None, None] / total * np.eye(n)
    for _ in range(2):
        series, worst = solver.project(state, size)
        done = len(series)
        queue, steps = iter(range(7)), 0
        while steps < done:
            W = expm(H) / np.trace(expm(H))
            gap = np.tensordot(C, W, 2)
            if greedy:
                i = int(series[steps, 0])
                assert i == np.argmax(scores(gap + met / total, bounds, cone, mu, corrected)[0])
            else:
                i = next(queue)
                r = abs(gap[i]) if sense[i] == 0 else sense[i] * gap[i]
                if i == 3 or (r <= 0 and sense[i] != 0 and (mu[i] == 0 or not corrected)):
                    continue
            s = float(sense[i] or np.sign(gap[i]))
            values = s * np.linalg.eigvalsh(C[i])
            r, low, high = s * gap[i], values.min(), values.max()
            model = s * np.log((1 - r / low) / (1 - r / high)) / (high - low)
            delta = model
            if exact:
                delta = root(lambda t, H=H, i=i: np.sum(C[i] * expm(H - t * C[i])), -40, 40)
            if corrected:
                cut = {1: max, -1: min}.get(int(sense[i]), lambda d, _: d)
                delta, model = cut(delta, -mu[i]), cut(model, -mu[i])
            if not greedy and delta == 0:
                continue
            H, mu[i] = H - delta * C[i], mu[i] + delta
            log_bound += np.log(
                ((high - r) * np.exp(-s * model * low) + (r - low) * np.exp(-s * model * high)) / (high - low)
            )
            assert series[steps, 0] == i
            assert series[steps, 1] == pytest.approx(delta, rel=1e-7, abs=1e-8)
            assert series[steps, 2] == pytest.approx(np.log(np.trace(expm(H))), abs=1e-9)
            assert series[steps, 3] == pytest.approx(log_bound, abs=1e-7)
            steps += 1
        taken += done
        assert np.allclose(dual, mu, rtol=1e-7, atol=1e-8)
        assert lam.max() == 0.0
        E = (Vt.T * np.exp(lam)) @ Vt
        assert np.allclose(E / np.trace(E), expm(H) / np.trace(expm(H)), atol=1e-9)
    assert taken > 2
    assert worst >= 0
