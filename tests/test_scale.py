"""Tiny, huge, identical and missing: what is certified stays true where double precision gets thin."""

import numpy as np
import pytest

from bregmat import Constraints, Factor, nearest_kernel, nearest_metric, verify

DIVERGENCES = ("logdet", "vonneumann", "frobenius")
pair = Constraints.sq_distance


def true_violation(X, constraints, result):
    return constraints.violation(result.transform(X)).max()


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_small_units_are_not_infeasible(divergence):
    """A metric of 1e8 meets a distance of 1 between points 1e-4 apart."""
    X = np.array([[0.0], [1e-4]])
    result = nearest_metric(X, pair([0], [1], 1.0, ">="), divergence=divergence)
    assert result.status == "OPTIMAL"
    assert result.metric()[0, 0] == pytest.approx(1e8, rel=1e-6)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_real_contradiction_in_small_units(divergence):
    X = 1e-4 * np.random.default_rng(0).normal(size=(6, 3))
    rows = pair([0, 0], [1, 1], [1.0, 1.1], ["<=", ">="])
    result = nearest_metric(X, rows, divergence=divergence)
    assert result.status == "INFEASIBLE"
    assert sorted(result.conflict) == [0, 1]


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_contradictory_links(divergence):
    """d(0,1) = d(1,2) = 0 leaves no room for d(0,2) >= 1."""
    X = np.random.default_rng(0).normal(size=(6, 4))
    rows = pair([0, 1, 0], [1, 2, 2], [0, 0, 1.0], ["<=", "<=", ">="])
    result = nearest_metric(X, rows, divergence=divergence, max_iter=60)
    assert result.status == "INFEASIBLE"
    assert result.conflict.tolist() == [0, 1, 2]


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
@pytest.mark.parametrize("form", ["factor", "kernel"])
def test_link_between_identical_points_changes_nothing(divergence, form, rng):
    G = rng.normal(size=(6, 3))
    G[1] = G[0]
    prior = Factor(G) if form == "factor" else G @ G.T
    result = nearest_kernel(prior, pair([0], [1], 0.0, "<="), divergence=divergence)
    assert result.status == "OPTIMAL"
    assert np.isfinite(result.gap)
    assert np.allclose(result.kernel(), G @ G.T, atol=1e-8)


# Frobenius searches beyond the range: nothing to refuse
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
@pytest.mark.parametrize("slack_weight", [1.0, np.inf])
def test_identical_points_of_a_kernel_cannot_be_far_apart(divergence, slack_weight, rng):
    G = rng.normal(size=(6, 3))
    G[1] = G[0]
    with pytest.raises(ValueError, match="identical"):
        nearest_kernel(G @ G.T, pair([0, 2], [1, 3], 1.0, ">="), slack_weight=slack_weight, divergence=divergence)


@pytest.mark.parametrize("k", [4, 5, 6, 8])
def test_short_pairs_survive_the_span(k):
    """Seven of fourteen pairs are 10^-k apart: their bounds hold for the matrix that is returned."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 100))
    i, j = np.arange(0, 28, 2), np.arange(1, 29, 2)
    X[j[:7]] = X[i[:7]] + 10.0**-k * rng.normal(size=(7, 100))
    rows = pair(i, j, ((X[i] - X[j]) ** 2).sum(axis=1) / 2, "<=")
    result = nearest_metric(X, rows)
    assert result.coordinates.span is not None
    assert result.status == "OPTIMAL"
    assert true_violation(X, rows, result) < 1e-7


def test_missing_values_in_memory_mapped_data(tmp_path, rng):
    G = rng.normal(size=(50, 5))
    G[3, 2] = np.nan
    np.save(tmp_path / "points.npy", G)
    X = np.load(tmp_path / "points.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="row 3"):
        nearest_metric(X, pair([3, 4], [5, 6], 1.0, "<="), slack_weight=1.0)
    assert nearest_metric(X, pair([4], [6], 1.0, "<="), slack_weight=1.0).status == "OPTIMAL"  # row 3 is not read


def test_frobenius_does_not_cancel():
    s = 1e6
    K = s * np.array([[2, 1, 0], [1, 2, 1], [0, 1, 2.0]])
    result = nearest_kernel(K, pair([0, 1], [1, 2], 2 * s * (1 - 1e-9), "<="), divergence="frobenius")
    assert result.objective == pytest.approx(0.5 * ((result.kernel() - K) ** 2).sum(), abs=1e-6)
    assert abs(result.gap) <= 1e-6 or result.status != "OPTIMAL"


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_conflict_names_the_links_that_carry_it(divergence):
    """K_00 = 0 and d(0,1) >= 4 are fine; with K_01 >= .5 the zero diagonal is contradicted."""
    rows = Constraints.diagonal([0.0]) + pair([0], [1], [4.0], ">=") + Constraints.similarity([0], [1], 0.5, ">=")
    result = nearest_kernel(np.eye(3), rows, divergence=divergence)
    assert result.status in ("INFEASIBLE", "UNKNOWN")
    if result.status == "INFEASIBLE":
        assert 0 in result.conflict


def test_no_row_violated_at_the_prior():
    eye = [np.eye(3)]
    rows = Constraints.linear(eye, [5.0], "<=")
    for constraints in (rows, rows + pair([0], [1], 5.0, "<=")):
        result = nearest_kernel(np.eye(3), constraints, slack_weight=1.0)
        assert result.status == "OPTIMAL"
        assert result.objective == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_zero_matrix_is_an_answer(divergence):
    result = nearest_kernel(np.eye(2), Constraints.diagonal([0.0, 0.0]), divergence=divergence)
    assert result.status != "INFEASIBLE"
    assert np.abs(result.kernel()).max() < 1e-3


def test_numbers_too_large_to_compute_with(rng):
    with pytest.raises(ValueError, match="Scale the data"):
        nearest_metric(1e160 * rng.normal(size=(4, 2)), pair([0], [1], 1.0, "<="), slack_weight=1.0)


def test_bound_of_zero_can_be_satisfied():
    Z = np.array([[1.0, 2.0], [1.0, 2.0 + 1e-12], [5.0, 5.0]])
    assert pair([0, 0], [1, 2], 0.0, "<=").satisfied(Z).tolist() == [True, False]


def test_huge_tolerance_proves_nothing(rng):
    X = rng.normal(size=(6, 3))
    result = nearest_metric(X, pair([0], [1], 1e-3, "<="), tol=1e300, max_iter=0)
    assert result.status == "UNKNOWN"
    assert result.gap == np.inf
    with pytest.raises(ValueError, match="tol must be positive and finite; got inf"):
        nearest_metric(X, pair([0], [1], 1e-3, "<="), tol=np.inf)


def test_all_pairs_identical_in_many_dimensions(rng):
    X = np.vstack([np.zeros((2, 100)), rng.normal(size=(2, 100))])
    result = nearest_metric(X, pair([0], [1], 1.0, "<="), slack_weight=1.0)
    assert result.status == "OPTIMAL"
    assert result.objective == 0.0


def test_constraints_do_not_share_the_callers_arrays():
    V = np.ones((3, 1))
    rows = Constraints.linear([(V, np.ones(1))], 1.0, "<=")
    V[:] = 5
    assert rows.values(np.eye(3)) == pytest.approx([3.0])


# ---------------------------------------------------------------- priors far from their rows
@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("pairs", [False, True])
def test_priors_far_from_their_rows(divergence, pairs):
    """Within a few steps of the prior's best multiple; LogDet far below and Frobenius far above are nearly linear programs."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(20, 6))
    K, rows = G @ G.T + np.eye(20), Constraints.diagonal(np.ones(20))
    if pairs:
        i = rng.permutation(20).reshape(10, 2)
        rows += pair(i[:, 0], i[:, 1], np.repeat([1.0, 3.0], 5), np.repeat(["<=", ">="], 5))
    most = 25 if divergence != "frobenius" else 60
    for s in (1e-8, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e8):
        result = nearest_kernel(s * K, rows, divergence=divergence)
        assert result.status == "OPTIMAL"
        assert result.n_iter <= most


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_rows_in_any_units(divergence):
    """A row times its own number, and the bound with it, is the same row: no digit changes."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        G, H = rng.normal(size=(2, 6, 6))
        A = rng.normal(size=(8, 6, 6))
        A = A + A.transpose(0, 2, 1)
        b, sense = np.einsum("kij,ij->k", A, H @ H.T), rng.choice(["<=", ">=", "=="], size=8)
        unit = 2.0 ** rng.choice([-27, 0, 27], size=8)
        one = nearest_kernel(G @ G.T, Constraints.linear(list(A), b, sense), divergence=divergence)
        other = nearest_kernel(
            G @ G.T, Constraints.linear(list(A * unit[:, None, None]), b * unit, sense), divergence=divergence
        )
        assert (other.status, other.n_iter) == (one.status, one.n_iter)
        assert (other.kernel() == one.kernel()).all()


# ---------------------------------------------------------------- the same problem in other units
SCALES = (1e-8, 1e-4, 1e4, 1e8)
DEGREE = {"logdet": 0, "vonneumann": 1, "frobenius": 2}


def rows_of_all_kinds(K: np.ndarray, s: float) -> Constraints:
    """Every relation and every sense, bounds times s; no matrix of the prior's own values meets them."""
    C, eye = Constraints, np.eye(len(K))
    return (
        C.sq_distance([0, 1], [2, 3], s * 0.5 * np.ones(2), ["<=", "=="])
        + C.diagonal([s * 1.5], [4])
        + C.similarity([0], [5], s * -0.1, ">=")
        + C.comparison([1], [2], [3], [4], [s * 0.2])
        + C.similarity_comparison([0], [1], [2], [3], [s * 0.05])
        + C.linear([eye - 1.0 / len(K)], [s * 4.0], "<=")
        + C.trace(s * 7.0)
    )


def solve_in_units(divergence: str, slack: str, s: float, **more):
    rng = np.random.default_rng(2)
    G = rng.normal(size=(6, 6))
    K = G @ G.T / 6
    rows = rows_of_all_kinds(K, s)
    soft = {"hard": [], "soft": range(8), "mixed": [0, 3, 4]}[slack]
    weight = np.full(8, np.inf)
    weight[list(soft)] = 2.0 * s ** DEGREE[divergence]  # a dimensionless slack is worth as much as the divergence
    return nearest_kernel(s * K, rows, divergence=divergence, loss="squared_hinge", slack_weight=weight, **more)


@pytest.mark.parametrize("slack", ["hard", "soft", "mixed"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_problem_is_the_same_in_all_units(divergence, slack):
    k = DEGREE[divergence]
    one = solve_in_units(divergence, slack, 1.0)
    assert one.status == "OPTIMAL"
    assert one.objective > 1e-2
    for s in SCALES:
        result = solve_in_units(divergence, slack, s)
        assert (result.status, result.n_iter) == (one.status, one.n_iter)
        assert result.gap == pytest.approx(one.gap, abs=1e-9)
        assert result.unit == pytest.approx(s**k * one.unit, rel=1e-9)
        assert result.objective == pytest.approx(s**k * one.objective, rel=1e-7)
        assert np.allclose(result.kernel() / s, one.kernel(), rtol=0, atol=1e-6)
        assert np.allclose(result.values / s, one.values, rtol=0, atol=1e-6)
        assert np.allclose(result.dual * s ** (1 - k), one.dual, rtol=1e-3, atol=1e-3 * np.abs(one.dual).max())
        assert result.history[-1].dual_bound == pytest.approx(s**k * one.history[-1].dual_bound, rel=1e-6)
        again = solve_in_units(divergence, slack, s, warm_start=result)
        assert again.n_iter <= one.n_iter


@pytest.mark.parametrize("slack", ["hard", "soft", "mixed"])
@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_units_that_are_powers_of_two_change_no_digit(divergence, slack):
    one, other = solve_in_units(divergence, slack, 1.0), solve_in_units(divergence, slack, 2.0**-26)
    assert other.n_iter == one.n_iter
    assert (other.kernel() * 2.0**26 == one.kernel()).all()
    assert other.gap == one.gap


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_own_slack_keeps_its_weight(divergence):
    """Both divergences are homogeneous, and so is the divergence of two numbers."""
    K = np.array([[2.0, 1.0], [1.0, 2.0]])
    one = nearest_kernel(K, pair([0], [1], 0.5, "<="), divergence=divergence, slack_weight=3.0)
    small = nearest_kernel(1e-8 * K, pair([0], [1], 0.5e-8, "<="), divergence=divergence, slack_weight=3.0)
    assert np.allclose(1e8 * small.kernel(), one.kernel(), rtol=0, atol=1e-9)
    assert small.gap <= 1e-6


def test_a_prior_of_zero_is_measured_by_the_bounds():
    for s in (1e-8, 1.0, 1e8):
        result = nearest_kernel(np.zeros((3, 3)), Constraints.of("trace", bound=s, sense=">="), divergence="frobenius")
        assert result.status == "OPTIMAL"
        assert np.allclose(result.kernel(), s * np.eye(3) / 3, rtol=0, atol=1e-8 * s)
        assert result.gap <= 1e-6


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_no_dual_bound_is_above_the_optimum(divergence):
    """Diagonal problems have an optimum entry by entry: here in extended precision, at every scale."""
    rng, L = np.random.default_rng(4), np.longdouble
    for hard in 60 * [False, True]:
        n = rng.integers(1, 5)
        x0 = 10.0 ** rng.uniform(-10, 14) * np.exp(rng.normal(size=n) * rng.choice([0.0, 0.1, 3.0]))
        b = x0 * np.exp(10.0 ** rng.uniform(-13, 1) * rng.choice([-1, 1], size=n))
        weight = np.inf if hard else 10.0 ** rng.uniform(-7, 4)
        rows = Constraints.of("diagonal", np.arange(n), bound=b, sense="==")
        result = nearest_kernel(np.diag(x0), rows, divergence=divergence, slack_weight=weight)
        assert result.status == "OPTIMAL"
        x0, b, g = x0.astype(L), b.astype(L), L(1.0 if hard else weight)
        if divergence == "logdet":
            x = (1 + g) / (1 / x0 + g / b)
        elif divergence == "vonneumann":
            x = np.exp((np.log(x0) + g * np.log(b)) / (1 + g))
        else:
            x = (x0 + g * b) / (1 + g)
        x = b if hard else x
        optimum = _of_numbers(divergence, x, x0) + (0 if hard else g * _of_numbers(divergence, x, b))
        assert result.dual_bound <= optimum.sum()


def _of_numbers(divergence: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The divergence of numbers; as a series where they are close."""
    u = (x - y) / y
    near, k = np.abs(u) < 1e-3, np.arange(2, 8)
    if divergence == "frobenius":
        return (x - y) ** 2 / 2
    if divergence == "logdet":
        return np.where(near, ((-u[:, None]) ** k / k).sum(axis=1), u - np.log1p(u))
    series = ((-u[:, None]) ** k / (k * (k - 1))).sum(axis=1)
    return y * np.where(near, series, (1 + u) * np.log1p(u) - u)


def test_bounds_that_cancelled_at_large_scale():
    rows = pair([0], [1], [2e13 * (1 + 4.242385542310725e-12)], "==")
    result = nearest_kernel(1e13 * np.eye(2), rows, divergence="vonneumann", slack_weight=1.0)
    assert result.dual_bound <= 1e-4
    rows = pair([0], [1], [2.002e8], "==")
    result = nearest_kernel(1e8 * np.eye(3), rows, divergence="vonneumann", slack_weight=1e-7)
    assert result.dual_bound <= result.objective


# ---------------------------------------------------------------- rows and priors that are small beside their rounding
@pytest.mark.parametrize("form", ["dense", "vectors"])
@pytest.mark.parametrize("sense", ["==", "<=", ">="])
def test_a_row_that_is_rounding_at_the_prior_has_a_unit(rng, sense, form):
    """``e'W0e`` is rounding on centred data, and Frobenius may leave the range: "OPTIMAL" with e'We / e'W0e off by 6e-9."""
    X = rng.normal(size=(30, 4))
    X -= X.mean(axis=0)
    e = np.ones((30, 1))
    row = (e, np.ones(1)) if form == "vectors" else np.ones((30, 30))
    values = []
    for scale in (1e-8, 1.0, 1e8):
        c = pair(range(6), range(10, 16), scale * np.arange(1.0, 7.0), "==") + Constraints.linear([row], [0.0], sense)
        arguments = {"prior": scale * X @ X.T, "constraints": c, "divergence": "frobenius"}
        result = nearest_kernel(arguments["prior"], c, divergence="frobenius")
        assert result.status == "OPTIMAL"
        assert verify(result, **arguments).holds
        values.append(result.objective / scale**2)
    assert values == pytest.approx(values[:1] * 3, rel=1e-5)


@pytest.mark.parametrize("sense", ["<=", ">=", "=="])
def test_a_limit_of_dual_weights_that_overflows_gives_no_warning(rng, sense):
    constraints = Constraints.sq_distance([0, 1], [2, 3], [1e-160, 1.0], sense)
    result = nearest_metric(rng.normal(size=(10, 3)), constraints, slack_weight=1e300, max_iter=3)
    assert np.isfinite(result.metric()).all()
