"""The rank-one eigen-update against eigendecompositions of the assembled matrix, the exponential along the line, and capped spectra."""

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import LinearConstraint, minimize

from bregmat._kernels import eigen_update, secular
from bregmat._kernels import online as kernels
from bregmat._kernels.arrays import EigenWork
from formulas import twin_cap

EPS = np.finfo(float).eps
SIZES = (1, 2, 3, 8, 52)


def twin(H, rho, z):
    """NumPy twin of the update: eigenvalues, and eigenvectors in rows."""
    values, vectors = np.linalg.eigh(H + rho * np.outer(z, z))
    return values, vectors.T


def assemble(lam, Vt):
    return (Vt.T * lam) @ Vt


def spectrum(kind, n, rng):
    if kind == "random":
        lam = 3.0 * rng.normal(size=n)
    elif kind == "graded":
        lam = np.exp(-40.0 * rng.random(n))
    elif kind == "clustered":
        lam = rng.integers(0, 4, n) + 10.0 ** rng.uniform(-16, -6, n)
    elif kind == "repeated":
        lam = rng.integers(0, 3, n).astype(float)
    elif kind == "equal":
        lam = np.full(n, -1.5)
    elif kind == "zero":
        lam = np.zeros(n)
    return np.sort(lam)


KINDS = ("random", "graded", "clustered", "repeated", "equal", "zero")


def vector(kind, n, rng):
    z = rng.normal(size=n)
    if kind == "sparse":
        z[rng.random(n) < 0.6] = 0.0
        z[rng.integers(n)] = 1.0
    elif kind == "uneven":
        z *= 10.0 ** rng.uniform(-18, 0, n)
    return z / np.linalg.norm(z)


def basis(n, rng):
    return np.ascontiguousarray(np.linalg.qr(rng.normal(size=(n, n)))[0])


def assert_eigenpairs(lam, Vt, H, updates=1):
    """A backward stable decomposition: every error a modest multiple of eps |H|; deflation alone drops 8 eps."""
    n = len(lam)
    tol = (40.0 + 4.0 * n) * EPS * updates
    assert np.all(np.diff(lam) >= 0.0)
    assert np.linalg.norm(Vt @ Vt.T - np.eye(n)) <= tol * np.sqrt(n)
    assert np.linalg.norm(assemble(lam, Vt) - H) <= tol * max(np.linalg.norm(H), 1e-300)


@pytest.mark.parametrize("weights", ["dense", "sparse", "uneven"])
@pytest.mark.parametrize("kind", KINDS)
def test_update_equals_eigendecomposition(kind, weights, rng):
    for n in SIZES:
        work = EigenWork.of_order(n)
        for rho in (0.7, -0.7, 1e-3, -1e-3, 1e-9, -1e-12, 1e-30, 1e3, -1e3, 1e12, 0.0):
            lam, Vt, w = spectrum(kind, n, rng), basis(n, rng), vector(weights, n, rng)
            z = Vt.T @ w
            H = assemble(lam, Vt)
            values, _ = twin(H, rho, z)
            K = eigen_update.rank_one_update_inplace(lam, Vt, w, rho, work)
            assert 0 <= K <= n
            H += rho * np.outer(z, z)
            assert_eigenpairs(lam, Vt, H, 2)
            np.testing.assert_allclose(
                lam, values, rtol=0, atol=(40 + 4 * n) * 2 * EPS * max(1e-300, np.abs(values).max())
            )


def test_scale_does_not_matter(rng):
    for scale in (1e-40, 1e40):
        lam, Vt, w = scale * spectrum("random", 52, rng), basis(52, rng), vector("dense", 52, rng)
        z = Vt.T @ w
        H = assemble(lam, Vt) + 0.5 * scale * np.outer(z, z)
        eigen_update.rank_one_update_inplace(lam, Vt, w, 0.5 * scale, EigenWork.of_order(52))
        assert_eigenpairs(lam, Vt, H)


@pytest.mark.parametrize("kind", KINDS)
def test_rotation_leaves_one_pole_a_cluster(kind, rng):
    for n in SIZES:
        lam, Vt, w = spectrum(kind, n, rng), basis(n, rng), vector("dense", n, rng)
        z, H, before = Vt.T @ w, assemble(lam, Vt), lam.copy()
        count = eigen_update.rotate_ties_inplace(lam, Vt, w)
        kept = lam[w != 0.0]
        assert np.all(np.diff(kept) > 0.0)
        assert count == n - len(kept)
        np.testing.assert_array_equal(lam, before)
        np.testing.assert_allclose(Vt @ z, w, rtol=0, atol=20 * EPS)  # rotations of a unit vector
        assert_eigenpairs(lam, Vt, H)
        if kind in ("equal", "zero"):
            assert len(kept) == 1
        if kind == "random":
            assert count == 0


@pytest.mark.parametrize("rho", [1e-6, 0.3, -0.3, 50.0, -50.0])
@pytest.mark.parametrize("kind", ["random", "graded", "clustered"])
def test_roots_interlace_and_solve_the_secular_equation(kind, rho, rng):
    work = EigenWork.of_order(52)
    for weights in ("dense", "uneven"):
        lam, Vt, w = spectrum(kind, 52, rng), basis(52, rng), vector(weights, 52, rng)
        eigen_update.rotate_ties_inplace(lam, Vt, w)
        K = secular.solve_inplace(work, lam, w, rho)
        d, z2, origin, offset = work.d[:K], work.z2[:K], work.origin[:K], work.offset[:K]
        np.testing.assert_array_equal(d, lam[work.keep[:K]])
        differences = (d[:, None] - d[origin]) - offset
        # d_j < theta_j < d_(j + 1), or the other way round: read from the differences, which never vanish
        below = np.arange(K)[:, None] <= np.arange(K) if rho > 0 else np.arange(K)[:, None] < np.arange(K)
        assert np.all((differences < 0.0) == below)
        terms = z2[:, None] / differences
        slope = (terms / differences).sum(axis=0)
        residual = np.abs(1.0 / rho + terms.sum(axis=0))
        # the error bound of dlaed4, which also carries the rounding of the offset; this sum rounds as well
        bound = 1.0 / abs(rho) + np.abs(terms).sum(axis=0) + np.abs(offset) * slope
        assert np.all(residual <= 20.0 * EPS * bound)
        np.testing.assert_allclose(work.theta[:K], d[origin] + offset, rtol=0, atol=0)
        # omega by interpolation at the last step: second order in secular.STEP; noise where the root itself is bound by noise
        exact = 1.0 / (rho**2 * slope)
        noise = np.abs(residual / (slope * offset)) + 20.0 * EPS * bound / (slope * np.abs(offset))
        assert np.all(np.abs(work.omega[:K] - exact) <= (1e-12 + 8.0 * noise) * exact)
        # cosines of a unit vector with an orthonormal basis
        assert abs(work.omega[:K].sum() - z2.sum()) <= 1e-12 + (20.0 * EPS * np.abs(lam).max() / abs(rho))


def test_omega_is_the_squared_cosine_with_the_new_vectors(rng):
    for rho in (0.8, -0.8):
        lam, w = spectrum("random", 52, rng), vector("dense", 52, rng)
        work = EigenWork.of_order(52)
        K = secular.solve_inplace(work, lam, w, rho)
        assert K == 52
        values, vectors = np.linalg.eigh(np.diag(lam) + rho * np.outer(w, w))
        np.testing.assert_allclose(work.theta, values, rtol=0, atol=100 * EPS * np.abs(lam).max())
        np.testing.assert_allclose(work.omega, (vectors.T @ w) ** 2, rtol=0, atol=1e-12)  # eigh's vectors: eps / gap


def test_few_evaluations_a_root(rng):
    work = EigenWork.of_order(52)
    for kind in ("random", "graded"):
        for rho in (1e-2, 1.0, -1.0, 30.0):
            secular.solve_inplace(work, spectrum(kind, 52, rng), vector("dense", 52, rng), rho)
    solves, evaluations = work.counters
    assert solves == 8
    assert evaluations <= 4.0 * 52 * solves


def test_rows_rotate_and_are_sorted(rng):
    """Some of the eigenvectors become rotated ones of each other, with new eigenvalues: the matrix is the same, in ascending order."""
    n, keep = 6, np.array([1, 2, 4])
    lam, Vt, work = np.sort(rng.normal(size=n)), basis(n, rng), EigenWork.of_order(n)
    U, theta = basis(3, rng), rng.normal(size=3)
    work.keep[:3], work.theta[:3], work.U[:9] = keep, theta, U.ravel()
    H = assemble(np.delete(lam, keep), np.delete(Vt, keep, axis=0)) + assemble(theta, U @ Vt[keep])
    eigen_update.rotate_rows_inplace(lam, Vt, work, 3)
    assert np.all(np.diff(lam) >= 0)
    assert np.allclose(assemble(lam, Vt), H, rtol=0, atol=1e-14)


def test_nothing_moves(rng):
    lam, w, work = spectrum("random", 8, rng), vector("dense", 8, rng), EigenWork.of_order(8)
    assert secular.solve_inplace(work, lam, w, 0.0) == 0
    assert secular.solve_inplace(work, lam, w, 1e-300) == 0
    assert secular.solve_inplace(work, lam, np.zeros(8), 1.0) == 0
    assert secular.solve_inplace(work, lam, 1e-200 * w, 1.0) == 0


def test_a_solve_changes_nothing_and_may_be_repeated(rng):
    lam, Vt, w = spectrum("random", 52, rng), basis(52, rng), vector("dense", 52, rng)
    z, H, work = Vt.T @ w, assemble(lam, Vt), EigenWork.of_order(52)
    copies = lam.copy(), Vt.copy(), w.copy()
    for rho in (3.0, -1e-14, -2.0, 0.5):
        K = secular.solve_inplace(work, lam, w, rho)
        eigen_update.exp_along_inplace(work, lam, w, K)
        for a, b in zip((lam, Vt, w), copies):
            np.testing.assert_array_equal(a, b)
    eigen_update.apply_secular_inplace(lam, Vt, work, K)
    assert_eigenpairs(lam, Vt, H + 0.5 * np.outer(z, z))


def test_nan_ends():
    lam, w = np.array([0.0, 1.0, 2.0]), np.array([0.5, np.nan, 0.5])
    work = EigenWork.of_order(3)
    K = secular.solve_inplace(work, lam, w, 1.0)
    assert not np.all(np.isfinite(eigen_update.exp_along_inplace(work, lam, w, K)))


@pytest.mark.parametrize("weights", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ["random", "clustered", "repeated", "zero"])
@pytest.mark.parametrize("rotate", [True, False])
def test_exponential_along_the_line(kind, weights, rotate, rng):
    if not rotate and kind != "random":
        rho_values = (0.0,)  # without rotation only rho = 0 is defined for ties
    else:
        rho_values = (0.0, 1e-3, 0.7, -2.0, 1e-18)
    for n in SIZES:
        work = EigenWork.of_order(n)
        for rho in rho_values:
            lam, w = spectrum(kind, n, rng), vector(weights, n, rng)
            if rotate:
                eigen_update.rotate_ties_inplace(lam, basis(n, rng), w)
            K = secular.solve_inplace(work, lam, w, rho)
            p, trace, slope = eigen_update.exp_along_inplace(work, lam, w, K)
            E = np.outer(w, w)
            M, derivative = scipy.linalg.expm_frechet(np.diag(lam) + rho * E, E)
            # expm itself is good to about 1e-14 times the norm of its argument
            np.testing.assert_allclose([p, trace, slope], [w @ M @ w, np.trace(M), w @ derivative @ w], rtol=2e-13)


def test_slope_by_finite_differences(rng):
    lam, w, work = spectrum("random", 52, rng) - 5.0, vector("dense", 52, rng), EigenWork.of_order(52)

    def along(rho):
        return eigen_update.exp_along_inplace(work, lam, w, secular.solve_inplace(work, lam, w, rho))

    h = 1e-4
    for rho in (0.5, -0.5):
        p, _, slope = along(rho)
        (p_up, trace_up, _), (p_down, trace_down, _) = along(rho + h), along(rho - h)
        # central differences: h^2 / 6 of the third derivative, and 1e-16 / h
        np.testing.assert_allclose((p_up - p_down) / (2 * h), slope, rtol=1e-7)
        np.testing.assert_allclose((trace_up - trace_down) / (2 * h), p, rtol=1e-7)


def test_eigenvectors_stay_orthonormal(rng):
    d = 20
    lam, Vt, totals, m = np.full(d, -np.log(d)), np.eye(d), np.zeros(5), 15
    X = rng.normal(size=(20_000, d)) * np.exp(-0.4 * np.arange(d)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    X /= np.linalg.norm(X, axis=1).max()
    kernels.pca_trials_inplace(lam, Vt, totals, X, m, 0.3, 1.0, EigenWork.of_order(d))
    assert np.abs(Vt @ Vt.T - np.eye(d)).max() < 1e-12
    assert np.exp(lam).sum() == pytest.approx(1.0)


def cap(w, m):
    """The compiled capping, of weights instead of sorted logarithms."""
    w = np.asarray(w)
    order = np.argsort(w, kind="stable")
    lam, out = np.log(w[order]), np.empty(len(w))
    kernels.cap_spectrum_inplace(lam, np.empty(len(w)), m)
    out[order] = np.exp(lam)
    return out


@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 2), (5, 1), (5, 3), (6, 5)])
def test_capping_is_the_projection(rng, n, m):
    for power in (1, 4, 12):
        w = rng.random(n) ** power + 1e-8
        best = minimize(
            lambda v, w=w: float((v * np.log(v / w) - v).sum()),
            np.full(n, 1.0 / n),
            jac=lambda v, w=w: np.log(v / w),
            bounds=[(1e-14, 1.0 / m)] * n,
            constraints=LinearConstraint(np.ones((1, n)), 1.0, 1.0),
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        # the minimiser of a smooth objective found to 1e-15 in the value is good to its square root
        assert np.allclose(cap(w, m), best.x, atol=1e-6)


def test_capping_equals_its_twin(rng):
    for _ in range(300):
        n = int(rng.integers(2, 30))
        m = int(rng.integers(1, n))
        w = rng.random(n) ** rng.integers(1, 20) + 1e-30
        out = cap(w, m)
        assert np.allclose(out, twin_cap(w, m), rtol=1e-12, atol=0.0)
        assert out.sum() == pytest.approx(1.0, rel=1e-13)
        assert np.allclose(cap(out, m), out, rtol=1e-13)  # already there
        assert np.allclose(cap(7.0 * w, m), out, rtol=1e-12)
    assert (cap([1.0, 1.0], 2) == 0.5).all()


def test_capping_of_logarithms_far_apart():
    """Weights that underflow keep their proportions."""
    lam = np.array([-5000.0, -4000.0, -3999.0, 0.0, 1.0])
    assert kernels.cap_spectrum_inplace(lam, np.empty(5), 3) == 2
    assert np.allclose(np.exp(lam[3:]), 1 / 3)
    assert np.exp(lam[:3]).sum() == pytest.approx(1 / 3)
    assert lam[2] - lam[1] == pytest.approx(1.0)


@pytest.mark.parametrize("start", ["random", "zero"])
def test_thousands_of_updates(start, rng):
    n, updates = 20, 3000
    lam, Vt = spectrum(start, n, rng), np.eye(n)
    H, work = assemble(lam, Vt), EigenWork.of_order(n)
    for _ in range(updates):
        a, b = rng.choice(n, 2, replace=False)
        z = np.zeros(n)
        z[a], z[b] = np.sqrt(0.5), -np.sqrt(0.5)
        rho = rng.normal()
        H += rho * np.outer(z, z)
        eigen_update.rank_one_update_inplace(lam, Vt, np.ascontiguousarray(Vt @ z), rho, work)
    # errors of single steps of a few eps add up like a random walk: sqrt(3000) n eps = 2.4e-13
    assert np.all(np.diff(lam) >= 0.0)
    assert np.linalg.norm(Vt @ Vt.T - np.eye(n)) < 5e-13
    assert np.linalg.norm(assemble(lam, Vt) - H) < 5e-13 * np.linalg.norm(H)
