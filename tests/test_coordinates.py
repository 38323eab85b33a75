"""Where iterates live and the way back: iterates, coordinates of priors, the span of the touched rows, must-links.

Central differences with step h have an error of about h^2 + 1e-16 / h: 1e-8 with the factors met here.
"""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from bregmat import Constraints, Factor, LogDet, SpectralDivergence, VonNeumann, nearest_kernel, nearest_metric
from bregmat.certificates.problem import build_problem, dual_bound
from bregmat.coordinates import priors as coordinates_module
from bregmat.coordinates.elimination import eliminate
from bregmat.coordinates.priors import Factored, Spectral, iterate_at_prior, kernel_coordinates, metric_coordinates
from bregmat.coordinates.spans import orthonormal
from bregmat.nearest import ELIMINATION_GAP
from bregmat.objective.divergences import DIVERGENCES as NAMED
from cases import DIVERGENCES, all_relations, random_pairs, scalar
from formulas import positive, symmetric
from states import saved_and_loaded

H = 1e-5
EXACT = {"rtol": 1e-12, "atol": 1e-12}
TOL = 1e-9  # asked of the solver where two runs are compared
RUNS = {"rel": 1e-8, "abs": 1e-8}  # objectives of two runs, each within TOL of the optimum


def by_name(x):
    return getattr(x, "name", None) or x.__name__


# ---------------------------------------------------------------- iterates
CHARTS = [
    (D, kind) for D in DIVERGENCES for kind in (Spectral, Factored) if kind is Spectral or D.is_congruence_invariant
]


@pytest.mark.parametrize(("D", "kind"), CHARTS, ids=lambda x: by_name(x))
class TestIterate:
    r = 5

    def iterate(self, D, kind, rng):
        """An iterate at the matrix W with prior x0; both also as plain matrices."""
        x0 = np.ones(self.r) if kind is Factored else rng.uniform(0.5, 2.0, self.r)
        W = positive(rng, self.r) / self.r + 0.1 * np.eye(self.r)
        values, V = np.linalg.eigh(W)
        iterate = iterate_at_prior(D, D.link(x0)).at((V * D.link(values)) @ V.T)
        return iterate, W, x0

    def test_point(self, D, kind, rng):
        iterate, W, x0 = self.iterate(D, kind, rng)
        assert np.allclose(iterate.matrix(), W, **EXACT)
        assert np.allclose(iterate.factor() @ iterate.factor().T, W, **EXACT)
        values, V = np.linalg.eigh(W)
        assert np.allclose(iterate.mirror(), (V * D.link(values)) @ V.T, rtol=1e-9, atol=1e-9)
        assert iterate.value() == pytest.approx(D(W, np.diag(x0)), rel=1e-10)
        prior = iterate_at_prior(D, D.link(x0))
        assert type(prior) is kind
        assert prior.value() == pytest.approx(0.0, abs=1e-12)
        assert np.allclose(prior.matrix(), np.diag(x0), **EXACT)

    def test_another_matrix_by_its_factor(self, D, kind, rng):
        iterate, _, x0 = self.iterate(D, kind, rng)
        B = rng.normal(size=(self.r, self.r))
        there = iterate.with_factor(B)
        assert type(there) is kind
        assert np.allclose(there.matrix(), B @ B.T, **EXACT)
        assert there.value() == pytest.approx(D(B @ B.T, np.diag(x0)), rel=1e-9)
        singular = iterate.with_factor(np.diag([1.0, 2.0, 0.0, 1.0, 1.0]))
        assert singular is None if D.keeps_range else np.allclose(singular.matrix(), np.diag([1.0, 4.0, 0, 1, 1]))

    def test_residual_is_in_the_frame(self, D, kind, rng):
        iterate, _, x0 = self.iterate(D, kind, rng)
        A, F = symmetric(rng, self.r), iterate.F
        expected = F.T @ (iterate.mirror() - np.diag(D.link(x0)) + A) @ F
        assert np.allclose(iterate.residual(F.T @ A @ F), expected, rtol=1e-9, atol=1e-9)
        # Newton's method takes its step from this matrix: what is not symmetric in the step moves the iterate off the direction of descent
        R = iterate.residual(symmetric(rng, self.r))
        assert np.array_equal(R, R.T)

    def test_moves(self, D, kind, rng):
        """To first order a step E moves M by F (S o E) F', and T by E / S in the frame."""
        iterate, W, _ = self.iterate(D, kind, rng)
        E, S = symmetric(rng, self.r), iterate.S
        S = np.ones((self.r, self.r)) if S is None else S
        there, back = (iterate.moved(E, E / S, a).matrix() for a in (H, -H))
        assert np.allclose((there - back) / (2 * H), iterate.F @ (S * E) @ iterate.F.T, rtol=1e-6, atol=1e-6)
        assert np.allclose(iterate.moved(E, E / S, 0.0).matrix(), W, **EXACT)

    def test_steps_never_leave_the_cone(self, D, kind, rng):
        iterate, _, _ = self.iterate(D, kind, rng)
        for alpha in (0.1, 1.0, 1e2, 1e5):
            E = symmetric(rng, self.r)
            moved = iterate.moved(E, E, alpha)
            assert moved is None or np.linalg.eigvalsh(moved.matrix())[0] >= -1e-12 * np.abs(moved.matrix()).max()
        assert iterate.moved(np.full((self.r, self.r), np.nan), np.full((self.r, self.r), np.nan), 1.0) is None
        assert iterate.at(np.full((self.r, self.r), np.nan)) is None

    def test_state_round_trip(self, D, kind, rng):
        iterate, _, _ = self.iterate(D, kind, rng)
        again = saved_and_loaded(iterate)
        assert (again.matrix() == iterate.matrix()).all()
        assert again.value() == iterate.value()


def test_logdet_with_identity_prior_needs_no_eigenvectors():
    kinds = {D.name: type(iterate_at_prior(D, D.link(np.ones(3)))) for D in DIVERGENCES}
    assert kinds == {D.name: Factored if D.name == "logdet" else Spectral for D in DIVERGENCES}
    assert isinstance(iterate_at_prior(NAMED["vonneumann"](), -np.ones(3)), Spectral)


# ---------------------------------------------------------------- the way in and back
def an_iterate(D, t0, rng):
    """An iterate at some matrix near the prior."""
    r = len(t0)
    start = iterate_at_prior(D, t0)
    E = 0.1 * symmetric(rng, r)
    return start.moved(E, E, 1.0)


def coordinates_of(form, D, rng, n=9, d=5):
    """Coordinates, and what they stand for: lift (n x d) and prior W0 with K = lift W lift'."""
    X, W0 = rng.normal(size=(n, d)), positive(rng, d)
    return {
        "kernel": lambda: (kernel_coordinates(K := positive(rng, n), D), np.eye(n), K),
        "low rank kernel": lambda: (kernel_coordinates(K := positive(rng, n, 3), D), np.eye(n), K),
        "factor": lambda: (kernel_coordinates(Factor(X), D), np.eye(n), X @ X.T),
        "metric": lambda: (metric_coordinates(X, None, D), X, np.eye(d)),
        "metric with prior": lambda: (metric_coordinates(X, W0, D), X, W0),
        "metric with factor": lambda: (metric_coordinates(X, Factor(P := rng.normal(size=(d, 3))), D), X, P @ P.T),
        "sparse metric": lambda: (metric_coordinates(sp.csr_array(X), W0, D), X, W0),
    }[form]()


@pytest.mark.parametrize(
    "form",
    ["kernel", "low rank kernel", "factor", "metric", "metric with prior", "metric with factor", "sparse metric"],
)
@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
class TestCoordinates:
    def test_prior(self, form, D, rng):
        place, lift, W0 = coordinates_of(form, D, rng)
        G = place.factor(iterate_at_prior(D, place.t0))
        assert np.allclose(G @ G.T, lift @ W0 @ lift.T, rtol=1e-9, atol=1e-9)

    def test_values_divergence_and_factor_agree_on_the_way_back(self, form, D, rng):
        place, lift, W0 = coordinates_of(form, D, rng)
        iterate = an_iterate(D, place.t0, rng)
        constraints = all_relations(rng, lift @ W0 @ lift.T)
        _, operator, _ = place.bind(constraints)
        G = place.factor(iterate)
        values = place.scale * operator.values(iterate.matrix())
        assert np.allclose(constraints.values(G), values, rtol=1e-9, atol=1e-9)
        learned = place.metric(iterate) if "metric" in form else G @ G.T
        assert np.allclose(lift @ learned @ lift.T, G @ G.T, rtol=1e-9, atol=1e-9)
        worth = place.scale ** (D.degree or 0)
        assert worth * iterate.value() == pytest.approx(D(learned, W0), rel=1e-7, abs=1e-9)

    def test_new_points_are_mapped_like_the_old(self, form, D, rng):
        place, _, _ = coordinates_of(form, D, rng)
        iterate = an_iterate(D, place.t0, rng)
        assert np.allclose(place.transform(place.base[:4], iterate), place.factor(iterate)[:4], **EXACT)
        assert np.allclose(
            place.transform(place.base, iterate), place.base @ place.factor_map(iterate), rtol=1e-9, atol=1e-9
        )

    def test_state_round_trip(self, form, D, rng):
        place, _, _ = coordinates_of(form, D, rng)
        iterate = an_iterate(D, place.t0, rng)
        again = saved_and_loaded(place)
        for name in ("t0", "R", "base"):
            mine, other = getattr(place, name), getattr(again, name)
            if other is not None and not sp.issparse(mine):
                np.testing.assert_array_equal(other, mine)
        # the order of the arrays in memory may differ, and with it the order of the sums of a product
        same = {"rtol": 1e-13, "atol": 1e-13}
        assert np.allclose(again.transform(place.base, iterate), place.transform(place.base, iterate), **same)
        if again.base is not None or "kernel" in form:
            assert np.allclose(again.factor(iterate), place.factor(iterate), **same)


@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
def test_factor_prior_is_the_same_problem_as_its_kernel(D, rng):
    G0 = rng.normal(size=(12, 4))
    constraints = random_pairs(rng, G0, 10)
    given = {"divergence": D, "slack_weight": 1.0, "tol": TOL}
    dense, factor = (nearest_kernel(prior, constraints, **given) for prior in (G0 @ G0.T, Factor(G0)))
    if D.keeps_range:  # Frobenius moves out of the range space of a dense prior
        assert factor.objective == pytest.approx(dense.objective, **RUNS)
    else:
        assert factor.objective >= dense.objective - 1e-8


# ---------------------------------------------------------------- span of the touched rows
def test_touched_samples_are_among_the_points():
    rows = Constraints.sq_distance([0, 5], [1, 2], 1.0, "<=")
    assert rows.touched(6).tolist() == [0, 1, 2, 5]
    with pytest.raises(ValueError, match=r"samples up to 5 but the data has 5 rows .*constraint 1"):
        rows.touched(5)


@pytest.mark.parametrize("kind", ["few points", "few pairs", "sparse", "similarities"])
@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
def test_span_is_the_same_problem(D, kind, rng, monkeypatch):
    n, d = 60, 80
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    if kind == "sparse":
        X = sp.random_array((n, d), density=0.1, rng=rng, format="csr")
    i = np.arange(0, 20, 2) if kind == "few points" else np.array([0] * 5 + [1] * 5 + [2] * 5)
    j = i + 1 if kind == "few points" else np.tile(np.arange(3, 8), 3)
    near = np.arange(len(i)) % 2 == 0
    P = X.toarray() if sp.issparse(X) else X
    now = ((P[i] - P[j]) ** 2).sum(axis=1)
    constraints = Constraints.sq_distance(i, j, np.where(near, 0.5, 2.0) * now, np.where(near, "<=", ">="))
    if kind == "similarities":
        constraints = constraints + Constraints.similarity(i, j, (P[i] * P[j]).sum(axis=1) + 0.1, ">=")
    given = {"divergence": D, "slack_weight": 2.0, "tol": TOL}
    inside = nearest_metric(X, constraints, **given)
    assert inside.coordinates.span is not None
    assert inside.coordinates.span.basis.shape[1] == len(inside.spectrum()) <= 20
    monkeypatch.setattr(coordinates_module, "span_of", lambda *_: None)
    full = nearest_metric(X, constraints, **given)
    assert full.coordinates.span is None
    assert inside.objective == pytest.approx(full.objective, **RUNS)
    new = rng.normal(size=(5, d))
    for points in (X, new):  # new points keep their part outside the span; the error is the root of the gap
        G, F = inside.transform(points), full.transform(points)
        assert np.allclose(G @ G.T, F @ F.T, rtol=1e-3, atol=1e-3)
    assert np.allclose(inside.transform(new), new @ inside.B, rtol=1e-9, atol=1e-9)
    assert np.allclose(inside.factor, inside.transform(X), **EXACT)


def dependent_vectors(rng, kind, n=40, d=200):
    """Unit vectors that are linearly dependent, exactly or nearly, and the rank that singular values above 1e-13 have."""
    if (
        kind == "cycles"
    ):  # differences along the edges of a graph: its cycles are dependent, and its 12 points span 11 dimensions
        X, i = rng.normal(size=(12, d)), rng.integers(0, 12, n)
        V, rank = X[i] - X[(i + rng.integers(1, 12, n)) % 12], 11
    elif kind == "near copies":
        V, rank = rng.normal(size=(n, d)), n - 1
        for k, eps in enumerate(10.0 ** -np.arange(2.0, 12.0)):
            V[20 + k] = V[k] * (1.0 + eps * rng.normal(size=d))
        V[39] = V[0]
    else:
        left, right = (np.linalg.qr(rng.normal(size=(m, n)))[0] for m in (n, d))
        V, rank = (left * 10.0 ** -np.repeat([0.0, 3.0, 9.0, 15.5], 10)) @ right.T, 30
    return V / np.linalg.norm(V, axis=1, keepdims=True), rank


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["cycles", "near copies", "graded"])
def test_span_of_dependent_vectors(kind, form, rng):
    V, rank = dependent_vectors(rng, kind)
    coordinates, span = orthonormal(form(V))
    B = span.basis
    assert coordinates.shape == (40, rank)
    assert B.shape == (200, rank)
    assert np.allclose(B.T @ B, np.eye(rank), rtol=0.0, atol=1e-11)
    assert np.allclose(coordinates @ B.T, V, rtol=0.0, atol=1e-13 * np.linalg.norm(V, 2))
    a, b = np.triu_indices(40, 1)
    found, exact = (np.linalg.norm(P[a] - P[b], axis=1) for P in (coordinates, V))
    assert np.allclose(found, exact, rtol=1e-11, atol=1e-14)  # also those of near copies


# ---------------------------------------------------------------- priors that are multiples of the identity, and 0
@pytest.mark.parametrize("size", [np.e, 1.0, np.exp(-1.0), 100.0])
@pytest.mark.parametrize("d", [3, 100])
@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
def test_prior_that_is_a_multiple_of_the_identity(D, d, size):
    X = np.zeros((3, d))
    X[1, 0] = 1.0
    X[2, 1] = 2.0
    for factor, sense in ((0.3, "<="), (2.5, ">=")):
        result = nearest_metric(
            X, Constraints.sq_distance(0, 1, factor * size, sense), prior=size * np.eye(d), divergence=D
        )
        assert result.status == "OPTIMAL"
        expected = scalar(D, factor * size, size)
        assert result.objective == pytest.approx(expected, abs=1e-6 * max(1.0, expected))
        W = np.diag(np.r_[factor * size, np.full(d - 1, size)])
        assert np.allclose(result.B @ result.B.T, W, rtol=2e-3, atol=2e-3 * size)


def test_frobenius_takes_the_prior_zero():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    result = nearest_metric(X, Constraints.sq_distance(0, 1, 3.0, ">="), prior=np.zeros((2, 2)), divergence="frobenius")
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(3.0**2 / 4.0**2 / 2, rel=1e-6)  # W = b v v' / |v|^4
    assert np.allclose(result.B @ result.B.T, np.diag([0.75, 0.0]), atol=2e-3)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_other_divergences_say_that_the_prior_is_zero(divergence):
    with pytest.raises(ValueError, match="prior is zero"):
        nearest_kernel(np.zeros((2, 2)), Constraints.diagonal([1.0, 1.0]), divergence=divergence)


# ---------------------------------------------------------------- must-links
class EntropyPlusOne(SpectralDivergence):
    """The von Neumann divergence from another function, whose value at 0 is not 0."""

    name = "entropy_plus_one"

    def phi(self, x):
        return x * np.log(np.maximum(x, 1e-300)) - x + 1.0

    def link(self, x):
        return np.log(x)

    def inverse_link(self, t):
        return np.exp(t)


@pytest.mark.parametrize("D", [*(D for D in DIVERGENCES if not D.keeps_rank), EntropyPlusOne()], ids=by_name)
class TestElimination:
    def test_matrix_vanishes_exactly_and_the_rest_is_optimal(self, D, rng):
        X = rng.normal(size=(10, 5))
        links = Constraints.sq_distance([0, 1], [1, 2], 0.0, "<=")
        rest = random_pairs(rng, X[3:], 6)
        rest = Constraints.sq_distance(
            rest.index[:, 0] + 3, rest.index[:, 1] + 3, rest.bound, ["<=", ">="] * 3, weight=0.1
        )
        both = links.select([0, 1]) + rest
        weights = np.r_[np.inf, np.inf, np.full(6, 1.0)]
        result = nearest_metric(X, both, divergence=D, slack_weight=weights, tol=TOL)
        G = result.factor
        assert np.allclose(G[0], G[1], atol=1e-12)
        assert np.allclose(G[0], G[2], atol=1e-12)
        assert (
            result.gap <= ELIMINATION_GAP
        )  # what finite weights of the eliminated rows prove; the run itself went on to TOL
        assert result.dual.shape == (8,)
        # nearly the same by a bound that is only nearly 0
        nearly = Constraints.sq_distance([0, 1], [1, 2], 1e-7, "<=") + rest
        other = nearest_metric(X, nearly, divergence=D, slack_weight=weights)
        assert result.objective == pytest.approx(other.objective, rel=1e-4)
        assert result.objective >= other.dual_bound

    def test_offset_and_operator(self, D, rng):
        """The divergence of M' differs from that of M = N M' N' by the offset."""
        X = rng.normal(size=(6, 4))
        place = metric_coordinates(X, positive(rng, 4), D)
        constraints = Constraints.sq_distance([0, 2, 4], [1, 3, 5], [0.0, 1.0, 1.0], "<=")
        place, operator, _ = place.bind(constraints)
        reduced = eliminate(place, operator, np.array([0]), D, np.ones(3, bool))
        iterate = an_iterate(D, reduced.coordinates.t0, rng)
        W = reduced.coordinates.metric(iterate)
        worth = place.scale ** (D.degree or 0)
        assert worth * (iterate.value() + reduced.offset) == pytest.approx(
            D(W, place.metric(iterate_at_prior(D, place.t0))), rel=1e-9
        )
        G = reduced.coordinates.factor(iterate)
        values = place.scale * reduced.operator.values(iterate.matrix())
        assert np.allclose(values, constraints.values(G), rtol=1e-9, atol=1e-9)
        assert reduced.operator.r == 3

    def test_links_and_other_priors_stay_solvable(self, D):
        for size in (np.e, 1.0, np.exp(-1.0)):
            links = Constraints.sq_distance(0, 1, 0.0, "==")
            result = nearest_kernel(size * np.eye(3), links, divergence=D)
            assert result.status == "OPTIMAL"
            assert result.objective == pytest.approx(scalar(D, 0.0, size), rel=1e-6)


@pytest.mark.parametrize("divergence", [NAMED["vonneumann"](), NAMED["frobenius"]()])
def test_the_dual_of_must_links_proves_the_bound(rng, divergence):
    """The bound was that of the problem without the eliminated rows, which the weights handed out did not prove."""
    for _ in range(3):
        X = rng.normal(size=(12, 5)) * [1.0, 1e-2, 1.0, 1.0, 1.0]
        rows = Constraints.sq_distance([0], [1], 0.0, "==") + Constraints.sq_distance(
            [2, 4, 6], [3, 5, 7], [1.0, 2.0, 1.0], ["<=", ">=", "=="]
        )
        result = nearest_metric(X, rows, divergence=divergence)
        place, operator, _ = metric_coordinates(X, None, divergence).bind(rows, in_span=False)
        whole = build_problem(divergence, place.t0, operator, rows, None, np.inf)
        assert result.status == "OPTIMAL"
        assert result.dual_bound <= dual_bound(whole, result.dual)[0] + 1e-13 * abs(result.objective)


def test_must_link_under_logdet_is_infeasible_and_named():
    constraints = Constraints.sq_distance([2, 0], [1, 1], [5.0, 0.0], "<=")
    result = nearest_kernel(np.eye(3), constraints, divergence="logdet")
    assert result.status == "INFEASIBLE"
    assert result.conflict.tolist() == [1]


def test_frobenius_prior_zero_in_many_dimensions(rng):
    d = 100
    X = rng.normal(size=(4, d))
    b = 2.0 * ((X[0] - X[1]) ** 2).sum()
    result = nearest_metric(X, Constraints.sq_distance(0, 1, b, ">="), prior=np.zeros((d, d)), divergence="frobenius")
    v = X[0] - X[1]
    assert result.objective == pytest.approx(b**2 / (v @ v) ** 2 / 2, rel=1e-6)


def graded_prior():
    """A factor (5, 5) with entries that are exact, and the eigenvalues of its kernel, which are, too."""
    Q, P = (np.eye(5) - np.outer(v, v) / 8.0 for v in ([3.0, 2.0, 1.0, 1.0, 1.0], [1.0, 3.0, 1.0, 2.0, 1.0]))
    eigenvalues = 4.0 ** np.array([-19, -18, -11, -1, 0])
    return Q * np.sqrt(eigenvalues) @ P, eigenvalues


@pytest.mark.parametrize("form", ["dense", "factor", "metric"])
def test_small_eigenvalues_of_a_prior_are_known_to_their_own_digits(form):
    """They were wrong by the rounding of the largest: 1e-5 of themselves, by whose square an objective misses its bound."""
    G, eigenvalues = graded_prior()
    if form == "metric":
        found = metric_coordinates(np.eye(5), Factor(G), VonNeumann())
    else:
        found = kernel_coordinates(G @ G.T if form == "dense" else Factor(G), VonNeumann())
    assert np.exp(found.t0) * found.scale / eigenvalues == pytest.approx(1.0, rel=1e-9)


def test_a_graded_prior_is_its_factor_times_its_transpose(rng):
    """To 1e-10 in the unit of every two columns; vectors turned by the rounding of the largest eigenvalue left 5e-8 of it."""
    K = graded_kernel(rng)
    for Z in (kernel_coordinates(K, LogDet()).base, metric_coordinates(np.eye(5), K, LogDet()).R):
        assert relative_residual(K, Z, np.ones(5)) < 1e-10


def test_a_graded_prior_is_the_product_of_its_eigenvectors(rng):
    """To 1e-7 in the unit of every two directions: von Neumann has no factor that could be corrected."""
    K = graded_kernel(rng)
    for found, Q in [
        (kernel_coordinates(K, VonNeumann()), "base"),
        (metric_coordinates(np.eye(5), K, VonNeumann()), "R"),
    ]:
        values = found.scale * VonNeumann().inverse_link(found.t0)
        assert relative_residual(K, getattr(found, Q), values) < 1e-7


def graded_kernel(rng):
    """A kernel (5, 5) of condition 8e11."""
    root = np.linalg.qr(rng.normal(size=(5, 5)))[0] * 10.0 ** (np.array([0.0, -2.0, -4.0, -5.5, -11.9]) / 2)
    K = root @ root.T
    return (K + K.T) / 2


def relative_residual(K, Z, values):
    """The largest entry of ``K - Z diag(values) Z'``, computed exactly, in the basis of the columns of ``Z sqrt(values)``."""

    def exact(A):
        return np.array([[Fraction(float(x)) for x in row] for row in A], dtype=object)

    left = (exact(K) - exact(Z) @ exact(np.diag(values)) @ exact(Z).T).astype(float)
    columns = Z * np.sqrt(values)
    length = np.linalg.norm(columns, axis=0)
    inverse = np.linalg.inv(columns / length) / length[:, None]
    return np.abs(inverse @ left @ inverse.T).max()
