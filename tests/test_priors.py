"""Priors with a wider range: what is added, what it makes possible, and what it costs as eps falls (Kulis 2009, section 6.5)."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.linalg import null_space, subspace_angles

from bregmat import Constraints, ExitReason, Factor, LogDet, Status, VonNeumann, nearest_kernel, nearest_metric, verify

BOTH = pytest.mark.parametrize("D", [LogDet(), VonNeumann()], ids=lambda D: D.name)

LINE = np.array([[0.5], [1.5], [3.0], [-1.0]])  # points on a line: the distances of the first three are 1, 1.5, 2.5
EQUAL = Constraints.sq_distance([0, 1, 0], [1, 2, 2], 1.0, "==")  # an equilateral triangle needs a plane


def kernel(prior):
    return prior.G0 @ prior.G0.T


def projector(A):
    Q = np.linalg.qr(A)[0]
    return Q @ Q.T


# ---------------------------------------------------------------- what is added
@pytest.mark.parametrize("k", [1, 3, None])
def test_adds_eps_on_what_is_new(k, rng):
    """Orthogonal to the range, eigenvalue eps, and together with the range it holds the directions."""
    G0, eps = rng.normal(size=(8, 3)), 0.01
    V = None if k is None else rng.normal(size=(8, k))
    wide = Factor(G0).widened(eps, directions=V)
    added = kernel(wide) - G0 @ G0.T
    outside = null_space(G0.T)
    expected = eps * (outside @ outside.T if V is None else projector(outside @ (outside.T @ V)))
    assert np.allclose(added, expected, atol=1e-12)
    values = np.linalg.eigvalsh(added)
    assert np.allclose(values[-(k or 5) :], eps, rtol=1e-9)
    assert np.abs(values[: -(k or 5)]).max() < 1e-12
    assert wide.G0.shape == (8, 3 + (k or 5))
    assert (wide.G0[:, :3] == G0).all()
    if V is not None:
        assert np.linalg.matrix_rank(np.hstack([kernel(wide), V]), tol=1e-8) == 3 + k


def test_dependent_and_inner_directions_count_once(rng):
    G0, v = rng.normal(size=(7, 2)), rng.normal(size=(7, 1))
    V = np.hstack([v, G0 @ rng.normal(size=(2, 3)), 1e-150 * v, 1e150 * (v + G0[:, :1]), np.zeros((7, 1))])
    wide = Factor(G0).widened(1.0, directions=V)
    assert wide.G0.shape == (7, 3)
    assert np.allclose(subspace_angles(wide.G0, np.hstack([G0, v])), 0, atol=1e-7)
    assert np.abs(G0.T @ wide.G0[:, 2]).max() < 1e-14 * np.linalg.norm(G0)


def test_nearly_inner_direction_is_orthogonal_all_the_same(rng):
    """1e-6 of its length is outside: division by that must not bring rounding back."""
    G0 = rng.normal(size=(30, 4))
    v = G0 @ rng.normal(size=(4, 1)) + 1e-6 * rng.normal(size=(30, 1))
    new = Factor(G0).widened(1.0, directions=v).G0[:, 4]
    assert np.abs(projector(G0) @ new).max() < 1e-14
    assert np.linalg.norm(new) == pytest.approx(1.0, rel=1e-14)


def test_ill_conditioned_range(rng):
    """Singular values down to 1e-5 of the largest belong to the range; below 1e-6 (eigenvalues below 1e-12) they do not."""
    Q = np.linalg.qr(rng.normal(size=(9, 3)))[0]
    wide = Factor(Q * [1.0, 1e-2, 1e-5]).widened(0.1)
    assert wide.G0.shape == (9, 9)
    assert np.abs(Q.T @ wide.G0[:, 3:]).max() < 1e-9  # rounding of 1e-16 over 1e-5, with some room
    assert Factor(Q * [1.0, 1e-2, 1e-8]).widened(0.1).G0.shape == (9, 3 + 7)


def test_full_rank_and_inner_directions_change_nothing(rng):
    full, low = Factor(rng.normal(size=(5, 5))), Factor(rng.normal(size=(5, 2)))
    assert full.widened(0.1) is full
    assert full.widened(0.1, directions=np.ones((5, 1))) is full
    inner = kernel(low) @ rng.normal(size=(5, 2))
    assert low.widened(0.1, directions=inner) is low
    assert low.widened(0.1, directions=np.zeros((5, 2))) is low


def test_constraints_stand_for_the_points_they_touch(rng):
    G0 = rng.normal(size=(9, 2))
    rows = Constraints.sq_distance([0, 4], [4, 7], 1.0, "<=") + Constraints.diagonal([1.0], [2])
    wide = Factor(G0).widened(0.1, directions=rows)
    assert np.allclose(wide.G0, Factor(G0).widened(0.1, directions=np.eye(9)[:, [0, 2, 4, 7]]).G0)
    for other in (Constraints.trace(1.0), Constraints.linear([np.eye(9)], 1.0, "<=")):
        assert Factor(G0).widened(0.1, directions=rows + other).G0.shape == (9, 9)


@BOTH
def test_directions_of_the_constraints_are_enough(D, rng):
    """Against the whole null space: the same objective; the other directions keep the eigenvalue eps, at no cost."""
    G0, eps = rng.normal(size=(8, 2)), 0.05
    rows = Constraints.sq_distance([0, 1, 2], [1, 2, 0], [0.5, 3.0, 2.0], ["<=", ">=", "=="])
    part, whole = (
        nearest_kernel(Factor(G0).widened(eps, directions=V), rows, divergence=D, tol=1e-10) for V in (rows, None)
    )
    assert part.status == whole.status == "OPTIMAL"
    assert part.objective == pytest.approx(whole.objective, rel=1e-8)
    left_out = np.eye(8) - projector(np.hstack([G0, np.eye(8)[:, :3]]))
    assert np.allclose(whole.kernel() - part.kernel(), eps * left_out, atol=1e-5)  # root of the gap


# ---------------------------------------------------------------- what it makes possible
@BOTH
@pytest.mark.parametrize("directions", [None, EQUAL], ids=["whole", "touched"])
def test_infeasible_becomes_optimal(D, directions):
    prior = Factor(LINE)
    result = nearest_kernel(prior, EQUAL, divergence=D)
    assert (result.status, result.exit_reason) == (Status.INFEASIBLE, ExitReason.CERTIFICATE)
    # the proof, recomputed in the coordinates of the line: sum y_i (x_i - x_j)^2 >= 0 but sum y_i b_i < 0
    assert result.dual @ EQUAL.values(LINE) >= -1e-9 * np.abs(result.dual) @ EQUAL.values(LINE)
    assert result.dual @ EQUAL.bound < 0
    wide = nearest_kernel(prior.widened(0.1, directions=directions), EQUAL, divergence=D)
    assert wide.status == Status.OPTIMAL
    K = wide.kernel()
    assert np.allclose([K[i, i] + K[j, j] - 2 * K[i, j] for i, j in ((0, 1), (1, 2), (0, 2))], 1.0, atol=1e-8)
    assert np.linalg.matrix_rank(K, tol=1e-9) == 4  # three points and the line, which has a part in the fourth


@BOTH
def test_metric_with_a_low_rank_prior(D, rng):
    """A metric prior of rank 1 sees one feature only; directions are columns of features, such as the points themselves."""
    X = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    far = Constraints.sq_distance([0, 0], [1, 2], [3.0, 2.0], "==")
    prior = Factor(np.array([[1.0], [0.0]]))
    with pytest.raises(ValueError, match="constraint 0.*can never hold"):
        nearest_metric(X, far, prior=prior, divergence=D)
    result = nearest_metric(X, far, prior=prior.widened(0.1, directions=X.T), divergence=D)
    assert result.status == Status.OPTIMAL
    T = result.transform(X)
    assert ((T[1] - T[0]) ** 2).sum() == pytest.approx(3.0, rel=1e-8)


# ---------------------------------------------------------------- what it costs
def closed_form(D, b, eps):
    """D(diag(1, b), diag(1, eps)): the second point has no part in the range, and its squared length shall be b."""
    return b / eps - np.log(b / eps) - 1 if D.name == "logdet" else b * np.log(b / eps) - b + eps


@BOTH
@pytest.mark.parametrize("eps", [1e-1, 1e-4, 1e-8])
def test_cost_of_a_point_outside_the_range(D, eps):
    prior = Factor(np.array([[1.0], [0.0]])).widened(eps)
    result = nearest_kernel(prior, Constraints.diagonal([0.5], [1]), divergence=D)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(closed_form(D, 0.5, eps), rel=1e-6)


@BOTH
def test_slope_in_log_eps(D):
    """Envelope theorem: d objective / d log eps = m eps - tr(N N' K), or m - tr(N N' K) / eps (LogDet)."""
    outside = null_space(LINE.T)

    def solved(eps):
        return nearest_kernel(Factor(LINE).widened(eps), EQUAL, divergence=D, tol=1e-10)

    for eps in (0.3, 0.01):
        h = 1e-3
        slope = (solved(eps * np.exp(h)).objective - solved(eps * np.exp(-h)).objective) / (2 * h)
        mass = np.trace(outside.T @ solved(eps).kernel() @ outside)
        expected = 3 - mass / eps if D.name == "logdet" else 3 * eps - mass
        assert slope == pytest.approx(expected, rel=1e-4)  # h^2 and the root of the gap


def test_growth_as_eps_falls():
    """eps * objective (LogDet) and objective / log(1/eps) (von Neumann) tend to the least mass outside the range.

    Three points 1, 0, -1 on a line (rank 1), a triangle with sides^2 1: the part of the Gram matrix in the line is at most
    1/2, the eigenvalue of the centred triangle, whose trace is 1; the mean of the points is free and stays 0.
    """
    G0 = np.array([[1.0], [0.0], [-1.0]])
    found = {}
    for D, eps in ((LogDet(), 1e-5), (VonNeumann(), 1e-30)):
        if D.name == "vonneumann":  # 1 / log(1/eps) converges slowly: take the slope, which has no constant
            one, two = (nearest_kernel(Factor(G0).widened(e), EQUAL, divergence=D).objective for e in (1e-5, 1e-7))
            found[D.name] = (two - one) / np.log(1e2)
        else:
            found[D.name] = eps * nearest_kernel(Factor(G0).widened(eps), EQUAL, divergence=D).objective
    assert found == pytest.approx({"logdet": 0.5, "vonneumann": 0.5}, rel=2e-3)


def test_tends_to_the_low_rank_optimum(rng):
    """Where the low-rank problem has a solution. LogDet's bound is smooth in eps: the difference is of order eps. For von
    Neumann the eigenvalues of log K0 - A*(mu) are log(eps) apart, and by second-order perturbation the difference is
    tr(K A*(mu) N N' A*(mu)) / (log(1/eps) + s) with a constant s, which the slope of its reciprocal does not have.
    """
    G0 = rng.normal(size=(6, 2))
    rows = Constraints.sq_distance(2, 3, 0.9 * ((G0[2] - G0[3]) ** 2).sum(), "<=")

    def objective(D, eps=None):
        return nearest_kernel(Factor(G0).widened(eps) if eps else Factor(G0), rows, divergence=D, tol=1e-10)

    low = objective(LogDet()).objective
    differences = [abs(objective(LogDet(), eps).objective - low) for eps in (1e-3, 1e-4, 1e-5)]
    assert differences[1] == pytest.approx(0.1 * differences[0], rel=0.05)
    assert differences[2] == pytest.approx(0.1 * differences[1], rel=0.05)

    low = objective(VonNeumann())
    v = np.eye(6)[2] - np.eye(6)[3]
    A = low.dual * np.outer(v, v)
    outside = null_space(G0.T)
    expected = np.trace(outside.T @ A @ low.kernel() @ A @ outside)
    one, two = (1 / (low.objective - objective(VonNeumann(), eps).objective) for eps in (1e-6, 1e-10))
    assert np.log(1e4) / (two - one) == pytest.approx(expected, rel=0.02)


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Factor(LINE).widened(0.0), ValueError, "eps must be positive and finite; got 0.0"),
        (lambda: Factor(LINE).widened(-1), ValueError, "eps must be positive and finite; got -1"),
        (lambda: Factor(LINE).widened(np.nan), ValueError, "eps must be positive and finite; got nan"),
        (lambda: Factor(LINE).widened(np.inf), ValueError, "eps must be positive and finite; got inf"),
        (lambda: Factor(LINE).widened("small"), TypeError, "eps must be a number; got 'small'"),
        (lambda: Factor(LINE).widened(True), TypeError, "eps must be a number; got True"),
        (
            lambda: Factor(np.array([[1e3], [0.0]])).widened(1e-7),
            ValueError,
            "eps must be above 1e-12 times.*got 1e-07",
        ),
        (lambda: Factor(LINE * np.nan).widened(0.1), ValueError, "prior factor G0 must be finite; got NaN"),
        (lambda: Factor(sp.csr_array(LINE)).widened(0.1), TypeError, "needs a dense factor"),
        (
            lambda: Factor(LINE).widened(0.1, directions=np.eye(3)),
            ValueError,
            r"directions must have shape \(n, k\) with n = 4 rows.*got shape \(3, 3\)",
        ),
        (lambda: Factor(LINE).widened(0.1, directions=np.ones(4)), ValueError, r"directions.*got shape \(4,\)"),
        (
            lambda: Factor(LINE).widened(0.1, directions=[[1.0], [0], [np.nan], [0]]),
            ValueError,
            "must be finite; got NaN or infinity in row 2",
        ),
        (
            lambda: Factor(LINE).widened(0.1, directions="all"),
            TypeError,
            r"directions \(a matrix or Constraints\) must be numeric",
        ),
        (
            lambda: Factor(LINE).widened(0.1, directions=Constraints.sq_distance(0, 7, 1.0, "<=")),
            ValueError,
            "constraints name samples up to 7 but the data has 4 rows",
        ),
        (
            lambda: Factor(LINE).widened(0.1, directions=Constraints.sq_distance("a", "b", 1.0, "<=")),
            ValueError,
            "constraints name samples such as a",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---------------------------------------------------------------- indefinite priors
def on_simplex(t, total):
    """The nearest nonnegative vector with this sum (Held, Wolfe and Crowder 1974)."""
    u = np.sort(t)[::-1]
    shift = (np.cumsum(u) - total) / np.arange(1, len(u) + 1)
    return np.maximum(t - shift[np.flatnonzero(u > shift)[-1]], 0.0)


@pytest.mark.parametrize("shift", [-6.0, 0.0, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_the_nearest_matrix_of_a_trace_to_an_indefinite_one(rng, n, shift):
    """Frobenius: the eigenvalues are projected onto the simplex; without an active row, negative ones become 0."""
    A = rng.normal(size=(n, n))
    A = (A + A.T) / 2 + shift * np.eye(n)
    t, U = np.linalg.eigh(A)
    for rows, x in (
        (Constraints.trace(1.0), on_simplex(t, 1.0)),
        (Constraints.linear([np.eye(n)], 1e4, "<="), np.maximum(t, 0.0)),
    ):
        result = nearest_kernel(A, rows, divergence="frobenius", tol=1e-9)
        assert result.status == "OPTIMAL"
        assert_allclose(result.kernel(), (U * x) @ U.T, atol=1e-4)
        assert_allclose(result.objective, ((x - t) ** 2).sum() / 2, rtol=1e-7)
        assert not verify(result, prior=A, constraints=rows, divergence="frobenius").problems


def test_the_nearest_density_matrix_under_a_linear_row(rng):
    """A complex Hermitian matrix as a real one of twice the size; the optimality conditions, from the multipliers alone."""

    def real(H):
        return np.block([[H.real, -H.imag], [H.imag, H.real]])

    n = 6
    H, O = (G + G.conj().T for G in rng.normal(size=(2, n, n)) + 1j * rng.normal(size=(2, n, n)))
    rows = Constraints.trace(2.0) + Constraints.linear([real(O)], 2 * 0.3, "==")
    result = nearest_kernel(real(H), rows, divergence="frobenius", tol=1e-10)
    K = result.kernel()
    X = K[:n, :n] + 1j * K[n:, :n]
    assert result.status == "OPTIMAL"
    assert_allclose(K, real(X), atol=1e-6)
    assert_allclose([np.trace(X).real, np.trace(X @ O).real], [1.0, 0.3], atol=1e-7)
    t, U = np.linalg.eigh(H - result.dual[0] * np.eye(n) - result.dual[1] * O)
    assert_allclose(X, (U * np.maximum(t, 0.0)) @ U.conj().T, atol=1e-5)


def test_other_divergences_refuse_an_indefinite_prior(rng):
    for divergence in ("logdet", "vonneumann"):
        with pytest.raises(ValueError, match="smallest eigenvalue is -1"):
            nearest_kernel(np.diag([1.0, -1.0]), Constraints.trace(1.0), divergence=divergence)
