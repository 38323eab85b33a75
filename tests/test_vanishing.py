"""Rows that vanish on the prior's range, or nearly: every form says the same, and none says what is false."""

from fractions import Fraction

import numpy as np
import pytest
import scipy
import scipy.sparse as sp

from bregmat import Constraints, Factor, KernelLearner, MetricLearner, nearest_kernel, nearest_metric, verify
from cases import DIVERGENCES

NAMES = [d.name for d in DIVERGENCES[:3]]


def centred(seed, n=40, d=5, spread=1.0):
    """Centred points, distance rows that can be met, and vectors that vanish on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-spread, spread, d)
    X -= X.mean(axis=0)
    i = rng.permutation(n)[:6]
    j = (i + 1 + rng.integers(0, n - 1, 6)) % n
    distance = ((X[i] - X[j]) ** 2).sum(axis=1)
    rows = Constraints.sq_distance(i, j, distance * np.tile([0.7, 1.3], 3), ["<=", ">="] * 3)
    outside = np.linalg.qr(X, mode="complete")[0][:, d:]
    a = rng.normal(size=n)
    vanishing = {
        "centre": (np.ones((n, 1)), np.ones(1)),
        "two in the null space": (outside @ rng.normal(size=(n - d, 2)), np.array([1.0, -1.0])),
        "equal on the range": (np.c_[a, a + outside @ rng.normal(size=n - d)], np.array([1.0, -1.0])),
    }
    return X, rows, vanishing


@pytest.mark.parametrize("divergence", NAMES)
@pytest.mark.parametrize("slack_weight", [np.inf, 1.0])
@pytest.mark.parametrize("kind", ["centre", "two in the null space", "equal on the range"])
def test_every_form_of_a_row_that_vanishes_says_the_same(divergence, slack_weight, kind):
    """As vectors and weights such a row was about 1e-17, and was taken for a real one."""
    for seed, (bound, sense) in enumerate([(0.0, "<="), (0.0, "=="), (0.5, ">="), (-0.5, "<=")]):
        X, rows, vanishing = centred(seed)
        V, weights = vanishing[kind]
        C = (V * weights) @ V.T
        C = (C + C.T) / 2
        held = bound == 0
        alone = nearest_metric(X, rows, divergence=divergence, slack_weight=slack_weight)
        for solve, data in ((nearest_metric, X), (nearest_kernel, Factor(X)), (nearest_kernel, X @ X.T)):
            if divergence == "frobenius" and data is not X and not isinstance(data, Factor):
                continue  # there is no range to vanish on
            for matrix in (C, scipy.sparse.csr_array(C), (V, weights)):
                all_rows = rows + Constraints.linear([matrix], [bound], sense)
                if not held and (np.isinf(slack_weight) or (bound > 0 and divergence != "frobenius")):
                    with pytest.raises(ValueError, match="constraint 6: .* its value is 0 for every matrix"):
                        solve(data, all_rows, divergence=divergence, slack_weight=slack_weight)
                    continue
                result = solve(data, all_rows, divergence=divergence, slack_weight=slack_weight)
                assert result.status == "OPTIMAL"
                if held and solve is nearest_metric:
                    assert result.objective == pytest.approx(alone.objective, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("divergence", NAMES)
def test_a_point_that_is_rounding(divergence):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4, 3))
    K = Z @ Z.T
    K[3] = K[:, 3] = 1e-17 * rng.normal(size=4)
    K[3, 3] = 1e-17
    result = nearest_kernel(K, Constraints.diagonal([0.0], [3]), divergence=divergence)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(0.0, abs=1e-14)
    assert np.allclose(result.kernel()[:3, :3], K[:3, :3])


@pytest.mark.parametrize("divergence", NAMES)
@pytest.mark.parametrize(
    "attempt",
    [
        lambda **kw: nearest_metric(
            np.array([[0, 0], [1.0, 0], [0, 0], [0, 3e-8]]), Constraints.comparison([0], [1], [2], [3], [1.0]), **kw
        ),
        lambda **kw: nearest_kernel(np.eye(2), Constraints.linear([np.diag([1, -1e-15])], [-1.0], "<="), **kw),
        lambda **kw: nearest_metric(
            np.array([[0.0, 0], [1, 0], [1, 1e-6]]) @ np.eye(2, 100),
            Constraints.sq_distance([0, 0], [1, 2], [1.0, 4.0], "=="),
            **kw,
        ),
    ],
)
def test_a_small_column_is_no_contradiction(attempt, divergence):
    """A matrix with one huge entry meets these rows: the allowance for rounding counts in each column's own unit."""
    assert attempt(divergence=divergence, max_iter=40).status != "INFEASIBLE"


def test_real_contradictions_are_still_proven(rng):
    """In any unit of the columns."""
    X = rng.normal(size=(8, 4)) * [1e-6, 1.0, 1e6, 1e-3]
    rows = Constraints.comparison([0, 2, 4], [1, 3, 5], [2, 4, 0], [3, 5, 1], [1e9, 1e9, 1e9])
    assert nearest_metric(X, rows).status == "INFEASIBLE"
    rows = Constraints.sq_distance([0, 0], [1, 1], [1.0, 2e9], ["<=", ">="])
    assert nearest_metric(X, rows).status == "INFEASIBLE"


def test_nearly_parallel_must_links_are_both_met():
    """Squares of 1e-7 hid the second one, which then counted as met and was not."""
    X = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1e-7, 0], [0, 0, 1]])
    rows = Constraints.sq_distance([0, 0, 0], [1, 2, 3], [0.0, 0.0, 2.0], ["==", "==", ">="])
    result = nearest_metric(X, rows, divergence="frobenius")
    M = result.metric()
    assert result.status in ("OPTIMAL", "FEASIBLE")
    assert np.allclose(M, np.diag([0.0, 0.0, 2.0]), atol=1e-9)


def test_differences_are_exact_after_centring():
    """The mean is taken off only where that rounds nothing."""
    X = np.array([[1000.0, 1e-9], [1000.0 + 2**-40, 3e-9], [-500.0, 0.0], [1.0, 5.0]])
    rows = Constraints.sq_distance([0, 2], [1, 3], 1.0, "<=")
    result = nearest_metric(X, rows + Constraints.sq_distance([0], [3], 1e6, "<="), slack_weight=1.0, max_iter=1)
    exact = 2.0**-80 + (3e-9 - 1e-9) ** 2
    _, operator, _ = result.coordinates.bind(rows)
    assert operator.norms()[0] == pytest.approx(exact, rel=1e-12)


# ---------------------------------------------------------------- rows that only singular matrices meet
def planar_cliques(seed, n=12, k=4):
    """All distances among every point and its k neighbours in the plane, for a kernel of full rank."""
    rng = np.random.default_rng(seed)
    points, X = rng.normal(size=(n, 2)), rng.normal(size=(n, n))
    D = ((points[:, None] - points) ** 2).sum(axis=2)
    near = np.argsort(D, axis=1)[:, : k + 1]
    i, j = np.array(sorted({(a, b) for clique in near for a in clique for b in clique if a < b})).T
    return X @ X.T / n, Constraints.sq_distance(i, j, D[i, j], "==")


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
@pytest.mark.parametrize("seed", range(3))
def test_planar_cliques_are_solved_on_their_face(divergence, seed):
    """All multipliers are infinite there; finite ones prove the bound for the whole problem, as far as their rounding lets them."""
    K, rows = planar_cliques(seed)
    result = nearest_kernel(K, rows, divergence=divergence)
    assert result.status in ("OPTIMAL", "FEASIBLE")
    assert result.gap <= 1e-5
    assert rows.violation(result.factor).max() <= 1e-9
    assert verify(result, prior=K, constraints=rows, divergence=divergence).holds


def test_logdet_says_that_only_singular_matrices_fit():
    K, rows = planar_cliques(0)
    result = nearest_kernel(K, rows, max_iter=20)
    assert result.status == "UNKNOWN"
    assert "only" in result.advice and "singular" in result.advice
    assert len(result.singular) > 20


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
@pytest.mark.parametrize("sense", ["<=", "=="])
def test_rows_that_vanish_with_a_must_link(divergence, sense):
    """No finite weights contradict ``K_00 = 0`` and ``K_01 >= 1/2``; where the row holds at 0 it is exactly 0."""
    link = Constraints.of("diagonal", [0], bound=0.0, sense=sense)
    rows = link + Constraints.diagonal([2.0], [2])
    result = nearest_kernel(np.eye(3), rows + Constraints.similarity([0], [1], 0.5, ">="), divergence=divergence)
    assert result.status == "INFEASIBLE" and result.conflict.tolist() == [0, 2]
    impossible = rows + Constraints.similarity([0], [1], 0.5, ">=")
    assert verify(result, prior=np.eye(3), constraints=impossible, divergence=divergence).holds
    for bound, its in ((0.5, "<="), (0.0, "==")):
        result = nearest_kernel(np.eye(3), rows + Constraints.similarity([0], [1], bound, its), divergence=divergence)
        assert result.status == "OPTIMAL"
        assert np.allclose(result.kernel(), np.diag([0.0, 1.0, 2.0]), atol=1e-6)


# ---------------------------------------------------------------- all rows of one kind are eliminated
POINTS = np.array([[0.0, 1.0, 0.0], [1.0, 0.3, 0.2], [0.2, 2.0, 1.0], [1.5, 0.7, -1.0]])
LINE = Constraints.sq_distance([0, 1, 0], [1, 2, 2], [1.0, 1.0, 4.0], "==")
OTHER_ROWS = {
    "similarity": Constraints.similarity(0, 3, 0.3, ">="),
    "comparison": Constraints.comparison(0, 1, 0, 3, margin=0.1),
    "trace": Constraints.trace(20.0),
    "linear": Constraints.linear([np.diag([1.0, 2.0, 0.0, 1.0])], [30.0], "<="),
}


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
@pytest.mark.parametrize("kind", OTHER_ROWS)
def test_distances_on_a_line_beside_any_other_row(kind, divergence):
    for rows in (LINE + OTHER_ROWS[kind], OTHER_ROWS[kind] + LINE):
        result = nearest_kernel(np.eye(4) + 0.1, rows, divergence=divergence)
        assert result.status == "OPTIMAL"
        D = np.add.outer(np.diag(K := result.kernel()), np.diag(K)) - 2 * K
        assert D[[0, 1, 0], [1, 2, 2]] == pytest.approx([1.0, 1.0, 4.0], rel=1e-8)
        assert nearest_metric(POINTS, rows, divergence=divergence).status == "OPTIMAL"
        given = {"divergence": divergence, "slack_weight": np.inf, "tol": 1e-6}
        assert MetricLearner(**given).fit(POINTS, constraints=rows).result_.status == "OPTIMAL"
        assert KernelLearner(kernel="linear", **given).fit(POINTS, constraints=rows).result_.status == "OPTIMAL"


# ---------------------------------------------------------------- rows that vanish and may not
@pytest.mark.parametrize("divergence", NAMES)
def test_every_relation_that_vanishes_and_may_not_is_refused_by_name(divergence):
    X = POINTS.copy()
    X[1], X[2] = X[0], 0.0
    difference, product, point = np.zeros((4, 4)), np.zeros((4, 4)), sp.csr_array(([1.0], ([2], [2])), shape=(4, 4))
    difference[:2, :2] = [[1.0, -1.0], [-1.0, 1.0]]
    product[2, 3] = product[3, 2] = 0.5
    impossible = [Constraints.sq_distance(0, 1, 2.0, sense) for sense in (">=", "==")]
    impossible += [
        Constraints.comparison(0, 3, 1, 3, margin=2.0),
        Constraints.similarity_comparison(0, 3, 1, 3, margin=2.0),
    ]
    for bound, sense in ((2.0, ">="), (2.0, "=="), (-2.0, "=="), (-2.0, "<=")):
        impossible.append(Constraints.similarity(2, 3, bound, sense))
        impossible += [Constraints.linear([A], [bound], sense) for A in (difference, product, point)]
        impossible.append(Constraints.linear([(np.array([[1.0, -1.0, 0.0, 0.0]]).T, np.ones(1))], [bound], sense))
    for row in impossible:
        with pytest.raises(ValueError, match="constraint 1: .* can never hold"):
            nearest_metric(X, Constraints.sq_distance(0, 3, 1.0, "<=") + row, divergence=divergence)


@pytest.mark.parametrize("divergence", ["frobenius", "vonneumann"])
def test_dual_weights_of_rows_that_a_must_link_meets_have_their_signs(divergence, rng):
    """A distance of 0 that is also asked to be at least 0 had the weight that it had with the bound and sense of the smaller problem."""
    X = rng.normal(size=(7, 5))
    merged = X[[0, 0, 2, 2, 4, 5, 6]]
    i, j = np.triu_indices(7, 1)
    apart = ((merged[i] - merged[j]) ** 2).sum(axis=1)
    some = np.flatnonzero(apart)[[1, 4, 9, 12]]
    rows = Constraints.sq_distance([0, 2], [1, 3], 0.0, "<=") + Constraints.sq_distance([0, 2], [1, 3], 0.0, ">=")
    rows += Constraints.sq_distance(i[some], j[some], apart[some] * [0.6, 1.2, 0.8, 1.4], "==")
    weight = np.array([np.inf, np.inf, 1.0, np.inf, 1.0, np.inf, 1.0, 1.0])
    result = nearest_metric(X, rows, divergence=divergence, slack_weight=weight, solver="interior_point")
    assert result.dual_bound > -np.inf
    assert (rows.sense * result.dual >= 0).all()
    assert verify(result).holds


# ---------------------------------------------------------------- data that is mapped to coordinates of very different scales
def graded(seed):
    """A factor whose rows have lengths from 1e-4 to 1e4, and a hard comparison of a long point with two others, which are short."""
    rng = np.random.default_rng(seed)
    n, d = 9, 7
    G = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4.0, 4.0, size=(n, 1))
    R = G @ (np.eye(d) * rng.uniform(0.5, 1.2) + 0.5 * rng.normal(size=(d, d)) / np.sqrt(d))
    order = np.argsort(-(G * G).sum(axis=1))
    i, j, k = order[0], *rng.choice(order[3:], 2, replace=False)
    near, far = (((R[i] - R[a]) ** 2).sum() for a in (j, k))
    if near > far:
        j, k, near, far = k, j, far, near
    a, b = rng.choice(n, 2, replace=False)
    rows = Constraints.comparison(i, j, i, k, margin=far - near)
    return G, rows + Constraints.sq_distance(a, b, 0.5 * ((R[a] - R[b]) ** 2).sum(), "<="), (i, j, k)


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_rows_of_mapped_data_are_met_or_not_claimed(divergence):
    """Rounding of ``x R`` is one of ``|x| |R|``: OPTIMAL with a violation of 0 was said of a row missed by 3.6e-6 of its bound."""
    met = 0
    for seed in [*range(12), 20, 37, 55, 58, 82]:
        G, rows, (i, j, k) = graded(seed)
        try:
            result = nearest_kernel(Factor(G), rows, divergence=divergence)
        except ValueError as error:
            assert "which is below the rounding of its points" in str(error)
            continue
        points = [[Fraction(float(x)) for x in row] for row in result.factor]
        near, far = (sum((x - y) ** 2 for x, y in zip(points[i], points[b])) for b in (j, k))
        bound = Fraction(float(rows.bound[0]))
        claims = result.status in ("OPTIMAL", "FEASIBLE")
        assert not claims or near - far - bound <= Fraction(1, 10**6) * abs(bound)
        assert verify(result).status == result.status
        met += claims
    assert met >= 10


@pytest.mark.parametrize("divergence", NAMES)
def test_a_distance_of_almost_0_has_an_unknown_end(divergence):
    """Multipliers in its unit overflow, so that nothing is proven."""
    rows = Constraints.sq_distance(0, 1, 1e-320, "<=")
    assert nearest_kernel(np.eye(3), rows, divergence=divergence).status == "UNKNOWN"
