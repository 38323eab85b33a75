"""The multiplicative updates against the page: Sha, Saul and Lee 2002, NIPS 15, one test per numbered equation.

Runs, bounds, the sum constraint and the kernels are in test_multiplicative.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from bregmat.quadratic import MultiplicativeUpdates, QuadraticProgram
from bregmat.quadratic.multiplicative import Point
from bregmat.quadratic.updates import factors, positive_negative, step
from bregmat_papers.m3_theory import decay_bounds
from split_runs import updated

EXACT = 1e-12  # relative: a few dozen roundings
SOLVED = 1e-9  # relative to the largest term: what the non-negative least squares routine leaves


# ---------------------------------------------------------------- the page, in plain NumPy
def auxiliary(u, v, *, b, positive, negative):
    """``G(u, v) >= F(u)``, with equality at ``u = v``, which a step of the updates minimises over ``u`` (eq. 12)."""
    on = v > 0
    u, v, b, p, q = u[on], v[on], b[on], positive[on], negative[on]
    # the double sum over A-_ij v_i v_j (1 + log(u_i u_j / (v_i v_j))) is v'A-v + 2 sum v_i (A-v)_i log(u_i / v_i)
    weight = v * q
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(weight > 0, weight * np.log(u / v), 0.0)
    return float(0.5 * (p @ (u**2 / v)) - 0.5 * (v @ q) - logs.sum() + b @ u)


def parts(A):
    """Eq. 2."""
    return np.where(A > 0, A, 0.0), np.where(A < 0, -A, 0.0)


def page_F(A, b, v):
    """Eq. 1."""
    return 0.5 * v @ A @ v + b @ v


def page_factor(A, b, v):
    """Eq. 5."""
    up, down = parts(A)
    return (-b + np.sqrt(b**2 + 4 * (up @ v) * (down @ v))) / (2 * (up @ v))


def page_G(A, b, u, v):
    """Eq. 12, with its double sums."""
    up, down = parts(A)
    logs = np.log(np.outer(u, u) / np.outer(v, v))
    return 0.5 * ((up @ v) / v) @ u**2 - 0.5 * (down * np.outer(v, v) * (1 + logs)).sum() + b @ u


def least(A, b):
    """The minimiser of a positive definite problem, by a non-negative least squares routine."""
    R = np.linalg.cholesky(A).T
    return nnls(R, -np.linalg.solve(R.T, b), maxiter=100 * len(b))[0]


def case(rng, n=9, rank=None):
    """A random problem with both signs in A and b, and a positive point."""
    F = rng.normal(size=(n, rank or n + 3))
    return F @ F.T, rng.normal(size=n), rng.exponential(size=n) + 0.01


def products(A, v):
    p, q = positive_negative(A, v)
    return {"positive": p, "negative": q}


# ---------------------------------------------------------------- sections 2.1 and 2.2: updates and fixed points
def test_sha_2(rng):
    A, _, v = case(rng)
    up, down = parts(A)
    known = products(A, v)
    np.testing.assert_allclose(known["positive"], up @ v, rtol=EXACT)
    np.testing.assert_allclose(known["negative"], down @ v, rtol=EXACT)


def test_sha_3(rng):
    A, b, v = case(rng)
    up, down = parts(A)
    expected = v * (-b + np.sqrt(b**2 + 4 * (up @ v) * (down @ v))) / (2 * (up @ v))
    np.testing.assert_allclose(step(v, b, **products(A, v)), expected, rtol=EXACT)


def test_sha_3_in_parallel_or_on_any_subset(rng):
    A, b, v = case(rng)
    whole = step(v, b, **products(A, v))
    subset = rng.random(len(v)) < 0.5
    assert page_F(A, b, whole) < page_F(A, b, v)
    assert page_F(A, b, np.where(subset, whole, v)) < page_F(A, b, v)


def test_sha_4(rng):
    A, b, v = case(rng)
    program = QuadraticProgram.of(A, b)
    slope = Point.of(program, v).slope(program, np.zeros(0))
    np.testing.assert_allclose(slope, A @ v + b, rtol=0, atol=EXACT * np.abs(A @ v).max())


def test_sha_5(rng):
    A, b, v = case(rng)
    eta = factors(b, **products(A, v))
    np.testing.assert_allclose(eta, page_factor(A, b, v), rtol=EXACT)
    # each element moves against its derivative; the factor is one exactly where that is zero
    assert np.array_equal(np.sign(1 - eta), np.sign(A @ v + b))
    level = -(A @ v)
    np.testing.assert_allclose(factors(level, **products(A, v)), 1.0, rtol=EXACT)


def test_sha_5_keeps_its_digits_where_the_page_cancels():
    # b = 1, (A+v)(A-v) = 1e-20: the root minus b is 2e-20, which 1 + 4e-20 cannot show
    eta = factors(np.ones(1), positive=np.full(1, 1e-10), negative=np.full(1, 1e-10))
    assert eta[0] == pytest.approx(1e-10, rel=EXACT)


# ---------------------------------------------------------------- section 2.3: fixed points and Theorem 1
def test_fixed_points_are_where_the_conditions_hold(rng):
    for _ in range(10):
        A, b, _ = case(rng)
        v = least(A, b)
        g, size = A @ v + b, np.abs(A) @ v + np.abs(b)
        assert (g >= -SOLVED * size).all() and (np.abs(g[v > 0]) <= SOLVED * size[v > 0]).all()  # eq. 4
        np.testing.assert_allclose(step(v, b, **products(A, v)), v, rtol=SOLVED)


def test_where_the_conditions_fail_nothing_positive_is_fixed(rng):
    for _ in range(10):
        A, b, v = case(rng)
        moved = step(v, b, **products(A, v)) != v
        assert np.array_equal(moved, A @ v + b != 0)
        held = v * (rng.random(len(v)) < 0.5)  # condition (ii): zeros are fixed whatever the derivative
        assert (step(held, b, **products(A, held))[held == 0] == 0).all()


@pytest.mark.slow
@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    rank=st.integers(1, 14),
    size=st.floats(-6, 6),
    signs=st.sampled_from(["both", "minus", "plus"]),
)
def test_sha_theorem_1(seed, n, rank, size, signs):
    """F falls at every step, whatever the rank of A and the scale of the start, up to its own rounding."""
    rng = np.random.default_rng(seed)
    A, b, v = case(rng, n, rank)
    b = {"both": b, "minus": -np.abs(b), "plus": np.abs(b)}[signs]
    v = v * 10.0**size
    for _ in range(15):
        new = step(v, b, **products(A, v))
        rounding = 4 * n * np.finfo(float).eps * (0.5 * v @ np.abs(A) @ v + np.abs(b) @ v)
        assert np.isfinite(new).all() and (new >= 0).all()
        assert page_F(A, b, new) <= page_F(A, b, v) + rounding
        v = new


def test_sha_theorem_1_to_the_global_minimum(rng):
    for _ in range(5):
        A, b, v = case(rng, 6, 12)
        end = updated(A, b, v, tol=1e-12, max_iter=20_000)
        best = page_F(A, b, least(A, b))
        assert page_F(A, b, end.x) <= best + 1e-10 * abs(best)  # a residual of 1e-12 and condition numbers below 100


# ---------------------------------------------------------------- section 3: the hard-margin machine
def machine(rng, kernel):
    """Separable points, their labels, the kernel matrix and the optimum, by Lawson and Hanson's least-distance programming."""
    X = rng.normal(size=(40, 2))
    direction = np.array([1.0, -2.0])
    X, y = X[np.abs(X @ direction) > 0.3], np.sign(X @ direction)[np.abs(X @ direction) > 0.3]
    sq = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = {"linear": X @ X.T, "polynomial": (X @ X.T + 1) ** 4, "radial": np.exp(-sq / 2)}[kernel]
    w, U = np.linalg.eigh(K)
    kept = w > 1e-14 * w[-1]
    rows = y[:, None] * U[:, kept] * np.sqrt(w[kept])  # y_i phi(x_i)
    # min |w| with rows w >= 1: the residual of E u = f, E = [rows'; 1'], f = [0; 1], is w up to a factor
    E = np.vstack([rows.T, np.ones(len(y))])
    u, _ = nnls(E, np.r_[np.zeros(kept.sum()), 1.0], maxiter=100 * len(y))
    alpha = u / (1.0 - u.sum())
    return K, y, alpha


KERNELS = pytest.mark.parametrize("kernel", ["linear", "polynomial", "radial"])


def test_sha_6(rng):
    K, y, alpha = machine(rng, "radial")
    loss = -alpha.sum() + 0.5 * sum(
        alpha[i] * alpha[j] * y[i] * y[j] * K[i, j] for i in range(len(y)) for j in range(len(y))
    )
    assert (
        pytest.approx(loss, rel=1e-10) == Point.of(QuadraticProgram.of(K * np.outer(y, y), -np.ones(len(y))), alpha).F
    )


def test_sha_7(rng):
    K, y, _ = machine(rng, "radial")
    A = K * np.outer(y, y)
    up, down = parts(A)
    alpha = np.ones(len(y))
    for n_steps in range(1, 6):
        alpha = alpha * (1 + np.sqrt(1 + 4 * (up @ alpha) * (down @ alpha))) / (2 * (up @ alpha))
        end = updated(A, -np.ones(len(y)), np.ones(len(y)), max_iter=n_steps, settings=MultiplicativeUpdates(clamp=0))
        np.testing.assert_allclose(end.x, alpha, rtol=EXACT)
        assert end.n_iter == n_steps


@pytest.mark.parametrize("size", [4, 9, 40])
def test_sha_31_subsets_of_the_variables(rng, size):
    """Section 3.1: eq. 3 adjusts any subset of the variables, here blocks in turn; the objective falls with each of them."""
    A, b, v = case(rng, 14)
    up, down = parts(A)
    start = v.copy()
    for n_steps in range(1, 4):
        for first in range(0, 14, size):
            S, T = np.arange(14)[first : first + size], np.delete(np.arange(14), np.s_[first : first + size])
            before, shift = page_F(A, b, v), b[S] + A[np.ix_(S, T)] @ v[T]
            a, c = up[np.ix_(S, S)] @ v[S], down[np.ix_(S, S)] @ v[S]
            root = np.sqrt(shift**2 + 4 * a * c)
            with np.errstate(invalid="ignore"):  # 0 / 0 in the form that is not taken
                v[S] *= np.where(
                    shift > 0, 2 * c / (shift + root), (root - shift) / (2 * a)
                )  # eq. 3 of the program in v_S
            assert page_F(A, b, v) <= before + EXACT * (abs(before) + v @ up @ v)
        settings = MultiplicativeUpdates(clamp=0, block=size)
        end = updated(A, b, start, max_iter=n_steps, settings=settings)
        np.testing.assert_allclose(
            end.x, v, rtol=1e-9, atol=1e-12 * v.max()
        )  # differences of like numbers in single variables
        assert end.n_iter == n_steps


@KERNELS
def test_machines_of_these_tests_are_solved(rng, kernel):
    K, y, alpha = machine(rng, kernel)
    f = y * (K @ (alpha * y))
    assert 2 <= (alpha > 0).sum() < len(y) - 10
    assert (f >= 1 - 1e-7).all() and np.abs(f[alpha > 0] - 1).max() < 1e-7  # SOLVED, and the kernel's condition


# ---------------------------------------------------------------- section 3.3 and Appendix B: Theorem 2
LOOSE = 1e-6  # relative: what is left of the optimality of `machine`, in the quantities of Theorem 2


@KERNELS
def test_sha_8(rng, kernel):
    """A small coefficient of a non-support vector is multiplied by gamma_i when its update is applied alone."""
    K, y, alpha = machine(rng, kernel)
    A = K * np.outer(y, y)
    found = decay_bounds(K, y, alpha)
    up, down = parts(A)
    np.testing.assert_allclose(found.rate, (1 + np.sqrt(1 + 4 * (up @ alpha) * (down @ alpha))) / (2 * (up @ alpha)))
    for i in np.flatnonzero(found.non_support)[:5]:
        v = alpha.copy()
        v[i] = 1e-9 * alpha.max()
        new = step(v, -np.ones(len(y)), **products(A, v))
        assert new[i] / v[i] == pytest.approx(found.rate[i], rel=1e-6)  # the displacement is 1e-9


@KERNELS
def test_sha_9(rng, kernel):
    K, y, alpha = machine(rng, kernel)
    found = decay_bounds(K, y, alpha)
    w2 = (alpha * y) @ K @ (alpha * y)
    d_i, d, l_i = np.abs(K @ (alpha * y)) / np.sqrt(w2), 1 / np.sqrt(w2), np.sqrt(K.diagonal())
    np.testing.assert_allclose(found.bound, 1 / (1 + 0.5 * (d_i - d) * d / (l_i * l_i.max())), rtol=EXACT)
    np.testing.assert_allclose(found.distance, d_i, rtol=1e-9)
    assert found.margin == pytest.approx(d) and found.margin == pytest.approx(d_i.min(), rel=LOOSE)
    off = found.non_support
    assert off.sum() > 10 and (found.rate[off] <= found.bound[off] * (1 + LOOSE)).all()
    assert (found.bound[off] <= 1 + LOOSE).all() and found.bound[off].min() < 0.999
    scaled = decay_bounds(7.0 * K, y, alpha / 7.0)  # insensitive to the scale of the inputs
    np.testing.assert_allclose(scaled.bound, found.bound, rtol=1e-9)


def test_decay_needs_a_hyperplane(rng):
    K, y, alpha = machine(rng, "radial")
    with pytest.raises(ValueError, match="alpha must describe a hyperplane"):
        decay_bounds(K, y, np.zeros(len(y)))
    assert decay_bounds(K, y, alpha + 1e-9).non_support.sum() == 0
    assert decay_bounds(K, y, alpha + 1e-9, threshold=1e-8).non_support.sum() == (alpha == 0).sum()


@pytest.fixture(params=["linear", "polynomial", "radial"])
def shorthand(request, rng):
    """z+, z-, gamma, K(x_i, w) and the lengths, as the package computes them, for the non-support vectors of a solved machine."""
    K, y, alpha = machine(rng, request.param)
    up, _ = parts(K * np.outer(y, y))
    found, known = decay_bounds(K, y, alpha), products(K * np.outer(y, y), alpha)
    off = found.non_support
    return {
        "more": known["positive"][off],
        "less": known["negative"][off],
        "inverse": 1 / found.rate[off],
        "f": (found.distance / found.margin)[off],  # its size: both are in units of |w|
        "signed": (y * (K @ (alpha * y)))[off],
        "up": up[off],
        "K": K[off],
        "alpha": alpha,
        "own": found.length[off],
        "largest": found.length.max(),
        "w2": 1 / found.margin**2,
    }


def at_least(a, b):
    """a >= b up to what is left of optimality."""
    return bool((a >= b - LOOSE * np.maximum(np.abs(a), np.abs(b))).all())


def test_sha_13(shorthand):
    z, x = shorthand["more"], shorthand["less"]
    np.testing.assert_allclose(shorthand["inverse"], 2 * z / (1 + np.sqrt(1 + 4 * z * x)), rtol=EXACT)
    assert at_least(z - x, np.ones(len(z)))  # the optimality condition that the next line uses


def test_sha_14(shorthand):
    z, x = shorthand["more"], shorthand["less"]
    assert at_least(shorthand["inverse"], 2 * z / (1 + np.sqrt((z - x) ** 2 + 4 * z * x)))


def test_sha_15(shorthand):
    z, x = shorthand["more"], shorthand["less"]
    square_root = 2 * z / (1 + np.sqrt((z - x) ** 2 + 4 * z * x))
    assert at_least(shorthand["inverse"], square_root)
    np.testing.assert_allclose(square_root, 2 * z / (1 + z + x), rtol=EXACT)
    np.testing.assert_allclose(square_root, 1 + (z - x - 1) / (z + x + 1), rtol=EXACT)


def test_sha_16(shorthand):
    z, x = shorthand["more"], shorthand["less"]
    assert at_least(1 + (z - x - 1) / (z + x + 1), 1 + (z - x - 1) / (2 * z))
    assert at_least(shorthand["inverse"], 1 + (z - x - 1) / (2 * z))


def test_sha_17(shorthand):
    difference = shorthand["more"] - shorthand["less"]
    atol = EXACT * shorthand["more"].max()
    np.testing.assert_allclose(difference, shorthand["signed"], rtol=0, atol=atol)
    np.testing.assert_allclose(difference, np.abs(shorthand["f"]), rtol=0, atol=atol)


def test_sha_18(shorthand):
    np.testing.assert_allclose(shorthand["more"], shorthand["up"] @ shorthand["alpha"], rtol=EXACT)


def test_sha_19(shorthand):
    assert at_least(shorthand["up"].max(axis=1) * shorthand["alpha"].sum(), shorthand["more"])


def test_sha_20(shorthand):
    largest = np.abs(shorthand["K"]).max(axis=1)
    assert at_least(largest, shorthand["up"].max(axis=1))
    assert at_least(largest * shorthand["alpha"].sum(), shorthand["more"])


def test_sha_21(shorthand):
    assert at_least(shorthand["own"] * shorthand["largest"], np.abs(shorthand["K"]).max(axis=1))


def test_sha_22(shorthand):
    s = shorthand
    by_sum, by_norm = (s["own"] * s["largest"] * total for total in (s["alpha"].sum(), s["w2"]))
    np.testing.assert_allclose(by_sum, by_norm, rtol=LOOSE)
    assert at_least(by_norm, s["more"])


def test_sha_23(shorthand):
    assert shorthand["w2"] == pytest.approx(shorthand["alpha"].sum(), rel=LOOSE)


def test_sha_24(shorthand):
    s = shorthand
    assert at_least(s["inverse"], 1 + 0.5 * (np.abs(s["f"]) - 1) / (s["own"] * s["largest"] * s["w2"]))


# ---------------------------------------------------------------- Appendix A: the auxiliary function
def test_sha_10(rng):
    for _ in range(20):
        A, b, v = case(rng)
        new = step(v, b, **products(A, v))
        chain = [
            page_F(A, b, new),
            auxiliary(new, v, b=b, **products(A, v)),
            auxiliary(v, v, b=b, **products(A, v)),
            page_F(A, b, v),
        ]
        assert chain[0] <= chain[1] < chain[2] and chain[2] == pytest.approx(chain[3], rel=EXACT)


def test_sha_11(rng):
    A, b, v = case(rng)
    up, down = parts(A)
    terms = 0.5 * v @ up @ v - 0.5 * v @ down @ v + b @ v
    assert pytest.approx(terms, rel=EXACT) == Point.of(QuadraticProgram.of(A, b), v).F
    assert terms == pytest.approx(page_F(A, b, v), rel=EXACT)


def test_sha_12(rng):
    for _ in range(20):
        A, b, v = case(rng)
        known = products(A, v)
        u = v * np.exp(rng.normal(size=len(v)))
        G = auxiliary(u, v, b=b, **known)
        assert pytest.approx(page_G(A, b, u, v), rel=1e-10) == G
        assert page_F(A, b, u) <= G + EXACT * abs(G)
        assert auxiliary(v, v, b=b, **known) == pytest.approx(page_F(A, b, v), rel=1e-11)
        # the update is where all derivatives of G vanish, one variable at a time
        new = step(v, b, **known)
        up, down = known["positive"], known["negative"]
        slope = up / v * new - down * v / new + b
        assert (np.abs(slope) <= 1e-10 * (up / v * new + down * v / new + np.abs(b))).all()
        assert auxiliary(new, v, b=b, **known) <= G


def test_sha_12_bounds_any_split_into_nonnegative_matrices(rng):
    """The proof needs no more of A+ and A- than that: |F||F|' stands for |A| in a low-rank split."""
    for _ in range(10):
        F, b = rng.normal(size=(9, 3)), rng.normal(size=9)
        v = rng.exponential(size=9)
        A, size = F @ F.T, np.abs(F) @ np.abs(F.T)
        made = {"positive": (size + A) / 2 @ v, "negative": (size - A) / 2 @ v}
        u = v * np.exp(rng.normal(size=9))
        G = auxiliary(u, v, b=b, **made)
        assert page_F(A, b, u) <= G + EXACT * abs(G)
        assert page_F(A, b, step(v, b, **made)) < page_F(A, b, v)
