"""NumPy twins of the kernels that project onto single rows, Algorithm 1 as printed, hard cases of them, and the step of OnlineLogDet.

Eigen-updates: test_eigen_update.py; von Neumann and DefiniteBoost: test_row_kernels_spectral.py; what a sweep does to a problem:
test_cyclic_projection.py, except what replaces a sweep.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest

from bregmat import CyclicProjection, OnlineLogDet, nearest_metric
from bregmat._kernels import eigen_update, logdet, secular, von_neumann
from bregmat._kernels import online as kernels
from bregmat._kernels import outer_rows as rows
from bregmat._kernels import vectors as vector_kernels
from bregmat._kernels.arrays import OuterRows
from bregmat.solvers.row_projections import LogDetProjected, VonNeumannProjected
from cases import pairs_case
from flat_rows import CODES, COMPILED, EXACT, SLACK, losses, outer_rows, relaxed, root, row, sweep_case, vectors

SIZES = (1, 2, 3, 7, 8, 9, 16, 21)  # around the multiples of 8 to which columns are padded


def test_every_kernel_is_tested_here():
    files = (
        Path(__file__).with_name(f"test_{name}.py") for name in ("row_kernels", "row_kernels_spectral", "eigen_update")
    )
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    for module in (rows, logdet, von_neumann, eigen_update, secular):
        for name in dir(module):
            if callable(getattr(module, name)) and not name.startswith("_"):
                assert f"{module.__name__.rsplit('.', 1)[1].removeprefix('outer_')}.{name}(" in source, name


def test_null_step():
    """A row of zeros: the quadratic loss is least at xi = 0; a hard row that 0 does not meet has no end."""
    mu = 0.3
    squared = row("squared_hinge", 2.0, sense=-1, gamma=5.0, scale=4.0, mu=mu)
    assert rows.relaxed(squared, mu + rows.null_step(squared))[0] == pytest.approx(0.0, abs=1e-15)
    for sense, b, side in ((-1, 2.0, -1), (1, -2.0, 1), (0, 2.0, -1), (0, -2.0, 1)):
        assert np.sign(rows.null_step(row("hard", b, sense=sense, unit=0.5))) == side
        assert abs(rows.null_step(row("hard", b, sense=sense, mu=side * 8.0, unit=0.5))) == 8.0
    for sense, b in ((1, 2.0), (-1, -2.0), (0, 0.0)):
        assert rows.null_step(row("hard", b, sense=sense)) == 0.0


# ---------------------------------------------------------------- cases
def packed(B):
    """B as the kernel stores it."""
    padded = -(-len(B) // 8) * 8
    Bt = np.zeros((padded, padded))
    Bt[: len(B), : len(B)] = B.T
    return Bt


def lower(rng, r):
    B = np.tril(rng.normal(size=(r, r)))
    B[np.diag_indices(r)] = rng.uniform(0.5, 2.0, r)
    return B


def long(v, padded):
    return np.concatenate([v, np.zeros(padded - len(v))])


# ---------------------------------------------------------------- rows and scalar losses
def test_load(rng):
    R = outer_rows(rng, 5, [1, 3, 2])
    for t in range(6):
        v = np.full(8, 7.0)
        rows.load_inplace(v, R, t)
        assert (v[:5] == vectors(R)[t]).all()
        assert (v[5:] == 7.0).all()  # v may be longer


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("share", [-2.0, -0.3, 0.0, 0.3, 0.9])
def test_scalar_losses_are_those_of_losses(name, share):
    """relaxed() equals its vector form in bregmat.objective.losses, which is tested against its definition."""
    b, gamma, scale = np.array([0.5, 1.0, 3.0]), np.array([0.2, 1.0, 10.0]), np.array([2.0, 1.0, 0.7])
    L = losses(name, b, gamma, scale)
    mu = share * np.minimum(L.dual_box[1], gamma)
    xi, slope = L.relaxed(mu)
    for k in range(3):
        found = rows.relaxed(row(name, b[k], gamma=gamma[k], scale=scale[k]), mu[k])
        assert found == pytest.approx((xi[k], slope[k]), rel=1e-14)


def test_corrected_step():
    """Kulis 2009, eq. 8 with alpha = -delta: alpha' = min(nu, alpha) for <=, so that nu - alpha' >= 0; mirrored for >=."""
    for delta in (-2.0, -0.5, 0.0, 3.0):
        for nu in (0.0, 0.7, 5.0):
            assert rows.corrected_step(delta, nu, 1) == -min(nu, -delta)
            assert rows.corrected_step(delta, -nu, -1) == min(nu, delta)
            assert rows.corrected_step(delta, nu, 0) == delta


# ---------------------------------------------------------------- LogDet
def chol_update_mult(alpha, x, B):
    """Kulis 2009, Algorithm 1, line by line (its indices from 1)."""
    B, r = B.copy(), len(x)
    a, h = np.zeros(r + 2), np.zeros(r + 1)
    a[1] = alpha
    for i in range(1, r + 1):
        t = 1 + a[i] * x[i - 1] ** 2
        h[i] = np.sqrt(t)
        a[i + 1] = a[i] / t
        t = B[i - 1, i - 1]
        s = 0.0
        B[i - 1, i - 1] = B[i - 1, i - 1] * h[i]
        for j in range(i - 1, 0, -1):
            s = s + t * x[j]
            t = B[i - 1, j - 1]
            B[i - 1, j - 1] = (B[i - 1, j - 1] + a[j + 1] * x[j - 1] * s) * h[j]
    return B


@pytest.mark.parametrize("r", SIZES)
def test_kulis_algorithm_1(r, rng):
    """Algorithm 1 as printed; and what it is for: B L with the Cholesky factor L of I + alpha x x'."""
    B, x, v = lower(rng, r), rng.normal(size=r), rng.normal(size=r)
    for alpha in (0.7, -0.9 / (x @ x), 0.0, 1e6):
        Bt = packed(B)
        padded = len(Bt)
        w, h, g, s = np.full((4, padded), 7.0)
        logdet.chol_update_mult_inplace(Bt, w, alpha, long(x, padded), long(v, padded), h, g, s)
        new, printed = Bt[:r, :r].T, chol_update_mult(alpha, x, B)
        size = np.abs(printed).max()
        assert np.allclose(new, printed, rtol=0, atol=1e-13 * size)
        assert (np.triu(new, 1) == 0).all()
        assert (Bt[r:] == 0).all()
        assert (Bt[:, r:] == 0).all()
        L = np.linalg.cholesky(np.eye(r) + alpha * np.outer(x, x))
        assert np.allclose(printed, B @ L, rtol=0, atol=1e-10 * size)
        assert np.allclose(w[:r], new.T @ v, rtol=0, atol=1e-13 * size * np.abs(v).sum())


@pytest.mark.parametrize("r", SIZES)
def test_products(r, rng):
    B, v = lower(rng, r), rng.normal(size=r)
    Bt = packed(B)
    w = np.full(len(Bt), 7.0)
    logdet.transposed_product_inplace(w, Bt, long(v, len(Bt)))
    assert np.allclose(w[:r], B.T @ v, **EXACT)
    assert (w[r:] == 0).all()
    assert vector_kernels.dot(w, w) == pytest.approx(np.sum((B.T @ v) ** 2), rel=1e-13)


def test_products_hand_nan_on(rng):
    """The compiler may reorder sums, but not assume that there is no NaN."""
    Bt, v = packed(lower(rng, 9)), long(rng.normal(size=9), 16)
    v[4] = np.nan
    w = np.empty(16)
    logdet.transposed_product_inplace(w, Bt, v)
    assert np.isnan(w[:5]).all()
    assert np.isfinite(w[8:]).all()  # columns 5 to 7 begin at entry 0, with zeros that meet the NaN
    assert np.isnan(vector_kernels.dot(w, w))
    clean, h, g, s = np.zeros((4, 16))
    logdet.chol_update_mult_inplace(Bt, clean, 0.3, v, np.ones(16), h, g, s)
    assert np.isnan(Bt).any()


@pytest.mark.parametrize("p", [1e-3, 0.9, 40.0])
@pytest.mark.parametrize(("name", "b"), [("hard", 0.5), *((n, b) for n, b in SLACK if n != "relative_entropy")])
def test_rank_one_step(name, b, p):
    """p / (1 + delta p) = xi(mu + delta) by Brent's method."""
    gamma, scale = 2.0, 0.8
    for mu in (0.0, 0.3, 2.0):
        delta = logdet.rank_one_step(row(name, b, gamma=gamma, scale=scale, mu=mu), p)
        high = 1e4 if name != "itakura_saito" else (gamma / b - mu) * (1 - 1e-12)

        def f(d, mu=mu):
            return p / (1 + d * p) - relaxed(name, b, gamma, scale, mu + d)

        assert delta == pytest.approx(root(f, -(1 - 1e-12) / p, high), rel=1e-9, abs=1e-12)


def test_rank_one_step_shrinks_where_no_matrix_meets_the_row():
    assert logdet.rank_one_step(row("hard", 0.0), 2.0) > 0
    assert logdet.rank_one_step(row("hard", -1.0), 2.0) > 0


@pytest.mark.parametrize("b", [-3.0, -0.1, 0.0, 0.2, 5.0])
@pytest.mark.parametrize("d", [(1.5, -0.4), (0.2, -2.0), (1e-9, -3.0), (0.7, 0.0), (2.0, 1.0), (-2.0, -1.0)])
def test_rank_two_step(d, b):
    """sum d / (1 + delta d) = b inside the cone, by Brent's method; where a root exists."""
    d = np.array(d)
    if b * d.sum() <= 0 and d.min() * d.max() >= 0:
        return  # no matrix meets the row: the next test
    low = -1 / d.max() if d.max() > 0 else -1e9
    high = -1 / d.min() if d.min() < 0 else 1e9

    def f(delta):
        return (d / (1 + delta * d)).sum() - b

    room = 1e-13 * (high - low)
    delta = logdet.rank_two_step(d[0], d[1], b)
    assert (1 + delta * d > 0).all()
    assert delta == pytest.approx(
        root(f, low + min(room, abs(low) * 1e-12), high - min(room, abs(high) * 1e-12)), rel=1e-9
    )
    assert logdet.rank_two_step(d[1], d[0], b) == pytest.approx(delta, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "b"),
    [("hard", 0.5), ("hard", -0.4), ("hard", 0.0), *((n, b) for n, b in SLACK if n != "relative_entropy")],
)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_spectral_step(name, b, k, rng):
    """sum d / (1 + delta d) = xi(mu + delta) inside the cone, by Brent's method; few evaluations."""
    gamma, scale = 2.0, 0.8
    for mu in (0.0, 0.5):
        for _ in range(20):
            d = rng.normal(size=k) * np.exp(rng.normal(size=k))
            if name == "itakura_saito":
                d = np.abs(d)
            elif k == 1 and name == "hard" and d[0] * b <= 0:
                continue
            elif k > 1 and d.min() * d.max() > 0:
                d[0] = -d[0]
            low = -1 / d.max() if d.max() > 0 else -1e8
            high = -1 / d.min() if d.min() < 0 else 1e8
            high = min(high, gamma / b - mu) if name == "itakura_saito" else high

            def f(delta, d=d, mu=mu):
                return (d / (1 + delta * d)).sum() - relaxed(name, b, gamma, scale, mu + delta)

            expected = root(f, low + 1e-12 * abs(low), high - 1e-12 * abs(high))
            delta, used = logdet.spectral_step(d, row(name, b, gamma=gamma, scale=scale, mu=mu), 1e-13)
            assert (1 + delta * d > 0).all()
            assert delta == pytest.approx(expected, rel=1e-7, abs=1e-10)
            assert used <= 60


def test_spectral_step_of_an_empty_row():
    assert logdet.spectral_step(np.zeros(2), row("hard", 1.0), 1e-10) == (0.0, 0)


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("degenerate", [False, True])
def test_spectrum_of_row(k, degenerate, rng):
    """The eigenvalues of sum coef w w' that are not 0 (those of the k x k form, 0 included)."""
    W, coef, found = rng.normal(size=(k, 8)), rng.normal(size=k), np.zeros(k)
    if degenerate:
        W[-1] = 2 * W[0]
    logdet.spectrum_of_row_inplace(found, W, coef)
    full = np.linalg.eigvalsh((W.T * coef) @ W)
    large = full[np.argsort(-np.abs(full), kind="stable")[:k]]
    assert np.allclose(np.sort(found), np.sort(large), rtol=1e-10, atol=1e-12 * np.abs(full).max())


def project_logdet(M, A, b, sense, mu, corrected):
    """Kulis 2009, eq. 16 and 8 with alpha = -delta: the projection on tr(A M) = b, the multiplier kept in its cone."""
    x, U = np.linalg.eigh(M)
    root_M = (U * np.sqrt(x)) @ U.T
    d = np.linalg.eigvalsh(root_M @ A @ root_M)
    low = -1 / d.max() * (1 - 1e-13) if d.max() > 1e-12 else -1e6
    high = -1 / d.min() * (1 - 1e-13) if d.min() < -1e-12 else 1e6

    delta = root(lambda t: (d / (1 + t * d)).sum() - b, low, high)
    if corrected:
        delta = max(delta, -mu) if sense > 0 else min(delta, -mu) if sense < 0 else delta
    return np.linalg.inv(np.linalg.inv(M) + delta * A), delta


@pytest.mark.parametrize("corrected", [True, False])
def test_logdet_sweep(corrected, rng):
    """Three sweeps against dense projections: matrix, multipliers, log det, movement, counts."""
    R, A, bounds, sense, b = sweep_case(rng)
    r, c = 9, len(b)
    Bt, M = packed(np.eye(r)), np.eye(r)
    dual, mu = np.zeros(c), np.zeros(c)
    limit = np.where(sense > 0, -np.inf, np.inf)
    totals, counts = np.zeros(5), np.zeros(4, np.int64)
    for _ in range(3):
        before = counts.copy()
        totals[3:] = 0.0
        logdet.sweep_inplace(Bt, dual, limit, totals, counts, np.empty((9, len(Bt))), R, bounds, 0, c, corrected, 1e-13)
        moved, worst = 0.0, 0.0
        for i in range(c):
            p = np.sum(A[i] * M)
            excess = abs(p - b[i]) if sense[i] == 0 else sense[i] * (p - b[i])
            worst = max(worst, excess / bounds.unit[i])
            if sense[i] != 0 and excess <= 0 and (mu[i] == 0 or not corrected):
                continue
            M, delta = project_logdet(M, A[i], b[i], sense[i], mu[i], corrected)
            mu[i] += delta
            moved += delta**2
        B = Bt[:r, :r].T
        assert np.allclose(B @ B.T, M, rtol=0, atol=1e-10 * np.abs(M).max())
        assert np.allclose(dual, mu, rtol=1e-8, atol=1e-9)
        assert totals[0] == pytest.approx(np.linalg.slogdet(M)[1], abs=1e-10)
        assert totals[4] == pytest.approx(moved, rel=1e-6)
        assert totals[3] == pytest.approx(worst, rel=1e-6) or counts[0] > before[0]
        assert (counts - before)[:3].sum() == c


def test_logdet_sweep_in_parts_is_the_same_sweep(rng):
    """Chunks, between which Ctrl-C is heard."""
    R, _, bounds, sense, b = sweep_case(rng)
    out = []
    for cuts in ((0, 8), (0, 3, 4, 8)):
        Bt, dual, limit = packed(np.eye(9)), np.zeros(8), np.where(sense > 0, -np.inf, np.inf)
        totals, counts = np.zeros(5), np.zeros(4, np.int64)
        for start, stop in zip(cuts, cuts[1:]):
            logdet.sweep_inplace(
                Bt, dual, limit, totals, counts, np.empty((9, len(Bt))), R, bounds, start, stop, True, 1e-13
            )
        out.append((Bt, dual, totals, counts))
    for x, y in zip(*out):
        assert np.allclose(x, y, rtol=1e-12, atol=1e-13)


def test_root_without_cancellation(rng):
    for p, y, eta in 10.0 ** rng.uniform(-8, 8, (500, 3)):
        error, shrink = kernels.implicit_step(p, y, eta)
        target = p / shrink
        # the quadratic equation, divided by its largest term
        terms = np.array([eta * p * target**2, target, -eta * p * y * target, -p])
        assert abs(terms.sum()) <= 1e-14 * np.abs(terms).max()
        assert shrink == pytest.approx(1.0 + eta * error * p, rel=1e-12, abs=1e-14 * (1.0 + eta * p * y))


def test_trial_inequality(rng):
    """``eta (p - y)^2 / (2 k) <= log s - eta (ybar - y) q + eta (q - y)^2 / 2`` for every q, the step of the proof."""
    for p, y, eta in 10.0 ** rng.uniform(-4, 4, (3000, 3)):
        learner = OnlineLogDet(1, eta=eta, prior=[[p]], differences=True).learn_one([1.0], y)
        k = learner.loss_bound([[p]], loss_of_U=1.0)
        error, s = kernels.implicit_step(p, y, eta)
        q = p / s  # where the right side is least
        right = np.log(s) - eta * error * q + 0.5 * eta * error**2
        left = eta * (p - y) ** 2 / (2.0 * k)
        assert left <= right + 1e-11 * (1.0 + abs(np.log(s)) + abs(eta * error * q) + eta * error**2)


@pytest.mark.parametrize("slack_weight", [np.inf, 3.0])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_skipping_is_never_wrong(slack_weight, corrected, seed, monkeypatch):
    """With the running bounds, and with bounds that are forgotten before every sweep: the same multipliers to the last bit."""
    X, rows = pairs_case(np.random.default_rng(seed), c=300, n=30, room=1.3)
    given = {"solver": CyclicProjection(corrected=corrected, violation_tol=1e-12), "max_iter": 30, "tol": 1e-14}
    given["slack_weight"] = slack_weight
    with_rule = nearest_metric(X, rows, **given)
    sweep = LogDetProjected.sweep

    def forgetful(self, dual, *rest):
        self.limit[:] = np.where(rows.sense > 0, -np.inf, np.inf)
        return sweep(self, dual, *rest)

    monkeypatch.setattr(LogDetProjected, "sweep", forgetful)
    without = nearest_metric(X, rows, **given)
    assert with_rule.n_iter == without.n_iter > 2
    assert with_rule.trace["skipped"].sum() > 300
    assert without.trace["skipped"].sum() == 0
    assert (with_rule.trace["projections"] == without.trace["projections"]).all()
    assert np.array_equal(with_rule.dual, without.dual)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_ctrl_c_during_a_sweep(divergence, rng, monkeypatch):
    """The state before the sweep is kept whole, because a sweep works on a copy."""
    X, rows = pairs_case(rng, c=50)
    kind = {"logdet": LogDetProjected, "vonneumann": VonNeumannProjected}[divergence]
    sweep, count = kind.sweep, itertools.count()

    def broken(self, dual, *rest):
        if next(count) == 4:
            dual[:] = np.nan
            raise KeyboardInterrupt
        return sweep(self, dual, *rest)

    monkeypatch.setattr(kind, "sweep", broken)
    given = {"divergence": divergence, "slack_weight": 10.0, "tol": 1e-14}
    with pytest.warns(RuntimeWarning, match="nearest_metric was interrupted after"):
        result = nearest_metric(X, rows, solver="cyclic_projection", **given)
    assert (result.exit_reason, result.n_iter) == ("INTERRUPTED", 4)
    assert np.isfinite(result.dual).all()
    assert np.isfinite(result.gap)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_rows_are_looked_at_once_and_not_in_every_part_of_a_sweep(divergence, rng, monkeypatch):
    """A sweep of many rows has many parts, and a look at all rows in each of them would take longer than the projections."""
    asked, are_single = [], OuterRows.are_single
    monkeypatch.setattr(OuterRows, "are_single", lambda self: asked.append(self) or are_single(self))
    monkeypatch.setattr(LogDetProjected, "pace", 1)
    monkeypatch.setattr(VonNeumannProjected, "pace", 1)
    how = {"divergence": divergence, "slack_weight": 1e3, "solver": CyclicProjection(), "tol": 1e-12, "max_iter": 20}
    assert nearest_metric(*pairs_case(rng, c=50), **how).n_iter > 1
    assert len(asked) == 1


def test_losses_have_codes():
    assert sorted(CODES.values()) == sorted((rows.HARD, rows.ITAKURA_SAITO, rows.RELATIVE_ENTROPY, rows.QUADRATIC))
