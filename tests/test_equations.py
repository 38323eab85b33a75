"""Slack, rows and dual bounds against the page: one test per numbered equation.

Kulis 2009: JMLR 10, section 6.2 and appendix B; "design" is the project's own derivation of dual bounds. Values of the
divergences are in test_equations_divergences.py, projections in test_equations_projections.py.
"""

import numpy as np
import pytest
from scipy.linalg import expm, logm
from scipy.optimize import minimize, minimize_scalar

from bregmat import (
    Constraints,
    DivergenceSlack,
    Factor,
    MetricLearner,
    RelativeSlack,
    SquaredHinge,
    load,
    nearest_kernel,
    nearest_metric,
    save,
    verify,
)
from cases import BY_NAME, DIVERGENCES
from formulas import CLOSE, NAMES, close, matrix_divergence, positive, vector_divergence, well_conditioned


# ---------------------------------------------------------------- Kulis 2009, section 6.2: slack and other rows
@pytest.mark.parametrize("sense", ["<=", ">="])
@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("slack", [None, "logdet", "vonneumann", "frobenius"])
def test_kulis_22(name, slack, sense, rng):
    """min over X and b of D(X, X0) + gamma d(b, b0) with <A_i, X> <= b_i, by a general-purpose optimiser over both.

    d belongs to D, or to another divergence: "other choices of constraint penalty are possible".
    """
    z, gamma = rng.normal(size=(2, 2)) + np.eye(2), np.array([0.7, 3.0])
    now = (z**2).sum(axis=1)
    b0 = now * (0.4 if sense == "<=" else 2.5)
    result = nearest_metric(
        np.vstack([np.zeros(2), z]),
        Constraints.sq_distance([0, 0], [1, 2], b0, sense),
        divergence=name,
        loss=None if slack is None else DivergenceSlack(slack),
        slack_weight=gamma,
    )
    D, s = BY_NAME[name], 1.0 if sense == "<=" else -1.0

    def matrix(u):
        L = np.array([[np.exp(u[0]), 0.0], [u[1], np.exp(u[2])]])
        return L @ L.T

    def total(u):
        b = b0 * np.exp(u[3:])
        return D(matrix(u), np.eye(2)) + gamma @ vector_divergence(slack or name, b, b0)

    def room(u):
        return s * (b0 * np.exp(u[3:]) - np.einsum("ij,jk,ik->i", z, matrix(u), z))

    start = np.r_[0.0, 0.0, 0.0, np.log(now / b0) + 0.1 * s]
    given = {
        "constraints": {"type": "ineq", "fun": room},
        "bounds": [(-4, 4)] * 5,
        "options": {"ftol": 1e-12, "maxiter": 500},
    }
    other = minimize(total, start, method="SLSQP", **given)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(other.fun, rel=1e-5)


K0_INDEFINITE = np.array([[1.0, 0.2, 0.1], [0.2, 1.2, -0.3], [0.1, -0.3, 0.9]])
INDEFINITE_ROWS = {  # broken by K0_INDEFINITE, whose value is negative in the last two
    "more similar": Constraints.similarity(0, 1, 0.5, ">="),
    "less similar": Constraints.similarity(0, 1, 0.05, "<="),
    "exactly so similar": Constraints.similarity(0, 1, 0.6, "=="),
    "nearer": Constraints.comparison(1, 2, 0, 1, -0.1),
    "linear": Constraints.linear([np.diag([1.0, -0.5, 0.2])], 0.1, "<="),
    "negative": Constraints.similarity(1, 2, 0.1, ">="),
    "negative comparison": Constraints.of("comparison", 0, 2, 1, 2, bound=0.2, sense=">="),
}


@pytest.mark.parametrize("solver", ["auto", "mirror_newton", "dual_newton", "interior_point", "cyclic_projection"])
@pytest.mark.parametrize("row", list(INDEFINITE_ROWS))
@pytest.mark.parametrize("name", NAMES)
def test_kulis_22_of_indefinite_rows(name, row, solver):
    """Eq. 22 asks for positive bounds, not for semidefinite rows: D(X, X0) + gamma d(p, b) is least, by the dual in one variable."""
    gamma, rows = 0.7, INDEFINITE_ROWS[row]
    K0, b, s = K0_INDEFINITE, float(rows.bound[0]), float(rows.sense[0])
    given = {"divergence": name, "slack_weight": gamma, "solver": solver, "tol": 1e-9}
    if solver == "mirror_newton" and "negative" in row and name != "frobenius":
        with pytest.raises(TypeError, match=r"(?s)positive values at the prior.*dual_newton"):
            nearest_kernel(K0, rows, **given)
        return
    if (solver, name) == ("cyclic_projection", "frobenius") or (solver == "interior_point" and s == 0):
        return
    result = nearest_kernel(K0, rows, **given)
    assert result.status == "OPTIMAL"
    K = result.kernel()
    A = dense_row(rows, 3)
    p = np.sum(A * K)
    assert p > 0 or name == "frobenius"
    primal = matrix_divergence(name, K, K0) + gamma * vector_divergence(name, p, b)

    def minus_dual(mu):
        conjugate = {
            "logdet": lambda: -gamma * np.log(1 - mu * b / gamma) if mu * b < gamma else np.inf,
            "vonneumann": lambda: gamma * b * np.expm1(mu / gamma),
            "frobenius": lambda: mu * b + mu**2 / (2 * gamma),
        }[name]()
        return conjugate - smooth_part(name, K0, mu * A)

    mu = float(result.dual[0])
    ends = sorted((0.2 * mu, 3.0 * mu if name != "logdet" else 1.2 * mu))
    best = -minimize_scalar(minus_dual, bounds=ends, method="bounded", options={"xatol": 1e-10}).fun
    assert s * mu > 0 or s == 0
    assert result.objective == pytest.approx(primal, rel=1e-7)
    assert primal == pytest.approx(best, rel=1e-6)


def test_kulis_22_of_rows_that_cannot_all_be_positive():
    """K_01 = -|z|^2 for z and -z, and two comparisons that contradict each other: eq. 22 is infinite (LogDet) or least at 0."""
    opposite = Factor(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])), Constraints.similarity(0, 1, 0.5, ">=")
    cycle = Constraints.of("comparison", [0, 2], [1, 3], [2, 0], [3, 1], bound=0.5, sense=">=")
    for prior, rows in (opposite, (np.eye(4), cycle)):
        result = nearest_kernel(prior, rows, slack_weight=1.0)
        assert (result.status, result.objective) == ("UNKNOWN", np.inf)
        assert "SquaredHinge" in result.proof_text()
        least = nearest_kernel(prior, rows, slack_weight=1.0, divergence="vonneumann")
        assert least.status == "OPTIMAL"
        assert least.values == pytest.approx(0.0, abs=1e-6)
        assert least.gap >= -1e-10
        assert nearest_kernel(prior, rows, slack_weight=1.0, loss=SquaredHinge()).status == "OPTIMAL"


def dense_row(rows, n):
    """The matrix of a single row, from its values at the matrices of a basis."""
    if rows.relations[rows.relation[0]].takes_matrix:
        return np.asarray(rows.matrix(0))
    value = lambda G: float(rows.values(G)[0])  # noqa: E731
    eye = np.eye(n)
    A = np.array(
        [[value((eye[i] + eye[j])[:, None]) - value((eye[i] - eye[j])[:, None]) for j in range(n)] for i in range(n)]
    )
    return A / 4


def test_kulis_22_where_the_bound_has_no_divergence(rng):
    """Rows with b <= 0: gamma / 2 ((p - b)_+ / |b|)^2 (design, section 1)."""
    K0, gamma, b = np.array([[1.0, 0.5], [0.5, 1.0]]), 2.0, -0.4
    result = nearest_kernel(K0, Constraints.similarity(0, 1, b, "<="), divergence="frobenius", slack_weight=gamma)
    best = minimize_scalar(
        lambda k: (k - 0.5) ** 2 + gamma / 2 * (max(k - b, 0.0) / abs(b)) ** 2, bounds=(-1, 1), method="bounded"
    )
    assert result.objective == pytest.approx(best.fun, rel=1e-5)
    assert result.kernel()[0, 1] == pytest.approx(best.x, abs=1e-3)


@pytest.mark.parametrize("sense", ["<=", ">="])
@pytest.mark.parametrize("name", NAMES)
def test_kulis_6_2_1_relative_penalty(name, sense, rng):
    """D(b / b0, 1) as the penalty: nothing new for LogDet, own slack of weight gamma / b for von Neumann, / b^2 for Frobenius.

    By definition: the objective is D(X, X0) + gamma d(p / b, 1) over the violated rows, at the matrix that is returned.
    """
    K0 = well_conditioned(rng, 5)
    z = rng.normal(size=(6, 5))
    p0 = np.einsum("ij,jk,ik->i", z, K0, z)
    b, gamma = p0 * (0.3 if sense == "<=" else 3.0) * rng.uniform(0.5, 1.5, 6), rng.uniform(0.5, 5.0, 6)
    rows = Constraints.linear(np.einsum("ij,ik->ijk", z, z), b, sense)
    given = {"divergence": name, "tol": 1e-9}
    result = nearest_kernel(K0, rows, loss=RelativeSlack(), slack_weight=gamma, **given)
    assert result.status == "OPTIMAL"
    K = result.kernel()
    q = np.einsum("ij,jk,ik->i", z, K, z) / b
    hit = q > 1 if sense == "<=" else q < 1
    penalty = gamma[hit] @ vector_divergence(name, q[hit], 1.0)
    assert hit.any()
    assert result.objective == pytest.approx(matrix_divergence(name, K, K0) + penalty, rel=1e-6)
    weight = gamma / b ** {"logdet": 0, "vonneumann": 1, "frobenius": 2}[name]
    own = nearest_kernel(K0, rows, slack_weight=weight, **given)
    assert result.objective == pytest.approx(own.objective, rel=1e-8)
    assert close(K, own.kernel())


@pytest.mark.parametrize("name", NAMES)
def test_kulis_6_2_1_relative_penalty_and_units(name, rng):
    """Rows in other units (A_i and b_i times s_i) change nothing; prior and bounds times c with gamma times c^k give c K.

    k = 0, 1, 2 is the degree of the divergence. The default penalty scales with gamma fixed, but not with single rows.
    """
    K0, gamma, c = well_conditioned(rng, 5), 2.0, 10.0
    z, s = rng.normal(size=(4, 5)), np.array([1.0, 100.0, 0.01, 5.0])
    b = np.einsum("ij,jk,ik->i", z, K0, z) * np.array([0.3, 0.5, 0.4, 2.0])

    def learned(K0, z, b, gamma, loss):
        rows = Constraints.linear(np.einsum("ij,ik->ijk", z, z), b, ["<=", "<=", "<=", ">="])
        result = nearest_kernel(K0, rows, divergence=name, loss=loss, slack_weight=gamma, tol=1e-9)
        assert result.status == "OPTIMAL"
        return result.kernel()

    degree = {"logdet": 0, "vonneumann": 1, "frobenius": 2}[name]
    for loss, scaled_gamma, is_free_of_units in (
        (RelativeSlack(), c**degree * gamma, True),
        (None, gamma, degree == 0),
    ):
        K = learned(K0, z, b, gamma, loss)
        assert close(learned(c * K0, z, c * b, scaled_gamma, loss), c * K)
        other_units = learned(K0, np.sqrt(s)[:, None] * z, s * b, gamma, loss)
        assert close(other_units, K) == is_free_of_units
        assert close(learned(c * K0, z, c * b, scaled_gamma / 2, loss), c * K) is False


@pytest.mark.parametrize("name", NAMES)
def test_kulis_6_2_1_the_slack_of_another_divergence_by_every_solver(name, rng, tmp_path):
    """One objective, by definition and of all solvers; a file keeps the slack, and `verify` recomputes the result."""
    K0 = well_conditioned(rng, 5)
    i, j = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 4])
    b = (K0[i, i] + K0[j, j] - 2 * K0[i, j]) * np.array([0.4, 0.6, 1.7, 2.5])
    given = {"prior": K0, "constraints": Constraints.sq_distance(i, j, b, ["<=", "==", ">=", "=="]), "divergence": name}
    for slack in NAMES:
        loss = DivergenceSlack(slack)
        found = []
        for solver in ("dual_newton", "mirror_newton", "interior_point", "cyclic_projection"):
            call = {**given, "loss": loss, "slack_weight": 2.0}
            if solver == "cyclic_projection" and (name == "frobenius" or (name, slack) == ("logdet", "vonneumann")):
                with pytest.raises(TypeError, match="cyclic_projection needs"):
                    nearest_kernel(**call, solver=solver)
                continue
            result = nearest_kernel(**call, solver=solver, tol=1e-8)
            K = result.kernel()
            q = K[i, i] + K[j, j] - 2 * K[i, j]
            hit = (q > b) & [True, True, False, True] | (q < b) & [False, True, True, True]
            total = matrix_divergence(name, K, K0) + 2.0 * vector_divergence(slack, q[hit], b[hit]).sum()
            assert result.status == "OPTIMAL" and result.objective == pytest.approx(total, rel=1e-7)
            assert verify(result).holds
            found.append(result.objective)
        assert found == pytest.approx([found[0]] * len(found), rel=1e-7)
    learner = MetricLearner(loss=loss, strategy="random", slack_weight=1.0, random_state=0).fit(K0, [0, 0, 1, 1, 1])
    save(tmp_path / "m.bm", learner)
    assert load(tmp_path / "m.bm").loss == loss
    with pytest.raises(ValueError, match="divergence must be one of 'logdet', .*; got 'log_det'; is it 'logdet'"):
        DivergenceSlack("log_det")


def test_kulis_6_2_1_relative_penalty_where_the_bound_has_no_divergence(rng):
    """b <= 0 and hard rows: what they are without it, and a zero bound divides nothing."""
    K0 = well_conditioned(rng, 4)
    rows = Constraints.similarity([0, 1], [1, 2], [-0.4, -0.1], ["<=", ">="])
    rows = rows + Constraints.comparison(0, 1, 2, 3) + Constraints.sq_distance(0, 2, 0.0, "<=")
    rows = rows + Constraints.sq_distance(1, 3, 1.0, "<=", weight=np.inf)
    for D in DIVERGENCES:
        given = {"divergence": D, "slack_weight": 2.0, "tol": 1e-9}
        both = [nearest_kernel(K0, rows, loss=loss, **given) for loss in (None, RelativeSlack())]
        assert both[0].objective == both[1].objective


def test_kulis_3_2_and_6_2_2_rows(rng):
    """A_i of distances (e_i - e_j)(e_i - e_j)', of similarities (e_i e_j' + e_j e_i') / 2, and their differences."""
    K = positive(rng, 5)
    G = np.linalg.cholesky(K)
    distance = {(i, j): K[i, i] + K[j, j] - 2 * K[i, j] for i in range(5) for j in range(5)}
    c = Constraints.sq_distance(0, 1, 1.0, "<=") + Constraints.similarity(1, 2, 0.0, "<=")
    c = c + Constraints.comparison(0, 1, 2, 3, 0.5) + Constraints.similarity_comparison(3, 4, 1, 1, 0.25)
    expected = [distance[0, 1], K[1, 2], distance[0, 1] - distance[2, 3], K[3, 4] - K[1, 1]]
    assert np.allclose(c.values(G), expected)
    assert c.bound.tolist() == [1.0, 0.0, -0.5, -0.25]
    assert (c.sense == 1).all()


def test_kulis_appendix_b_needs_no_correction():
    """X_11 + X_22 - 2 X_12 >= 1 holds at the identity, so the identity is the answer; projecting onto the equality leaves it."""
    row = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for D in DIVERGENCES:
        result = nearest_kernel(np.eye(2), Constraints.linear([row], 1.0, ">="), divergence=D)
        assert result.objective == 0.0
        assert np.allclose(result.kernel(), np.eye(2))
        assert result.dual.tolist() == [0.0]
        projected = nearest_kernel(np.eye(2), Constraints.linear([row], 1.0, "=="), divergence=D)
        assert projected.objective > 0.1
        assert np.sum(row * projected.kernel()) == pytest.approx(1.0, abs=1e-6)


# ---------------------------------------------------------------- design, section 4: closed forms of the dual bound
def dual_case(rng, name, slack_weight, **given):
    """A small solved problem: result, prior and dense row matrices."""
    K0 = positive(rng, 4) + 0.5 * np.eye(4)
    C = np.array([np.outer(v, v) for v in rng.normal(size=(3, 4))])
    b = np.einsum("ijk,jk->i", C, K0) * np.array([0.5, 0.6, 1.8])
    constraints = Constraints.linear(C, b, ["<=", "<=", ">="])
    result = nearest_kernel(K0, constraints, divergence=name, slack_weight=slack_weight, **given)
    assert result.status == "OPTIMAL"
    return result, K0, np.tensordot(result.dual, C, 1), b


def smooth_part(name, K0, A):
    """Infimum of D(K, K0) + <A, K>."""
    if name == "logdet":
        return np.linalg.slogdet(np.eye(len(K0)) + K0 @ A)[1]
    if name == "vonneumann":
        return np.trace(K0) - np.trace(expm(logm(K0) - A))
    t = np.linalg.eigvalsh(K0 - A)
    return np.sum(K0 * K0) / 2 - np.sum(np.maximum(t, 0) ** 2) / 2


@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
def test_design_dual_bound_hard(name, rng):
    result, K0, A, b = dual_case(rng, name, np.inf)
    assert result.dual_bound == pytest.approx(smooth_part(name, K0, A) - result.dual @ b, **CLOSE)


@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_design_dual_bound_own_slack(name, rng):
    gamma = 1.5
    result, K0, A, b = dual_case(rng, name, gamma)
    mu = result.dual
    loss = -gamma * np.log(1 - mu * b / gamma) if name == "logdet" else gamma * b * (np.exp(mu / gamma) - 1)
    assert result.dual_bound == pytest.approx(smooth_part(name, K0, A) - loss.sum(), **CLOSE)


@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
def test_design_dual_bound_squared_hinge(name, rng):
    gamma = 1.5
    result, K0, A, b = dual_case(rng, name, gamma, loss=SquaredHinge())
    mu = result.dual
    loss = mu * b + mu**2 * b**2 / (2 * gamma)
    assert result.dual_bound == pytest.approx(smooth_part(name, K0, A) - loss.sum(), **CLOSE)


def test_design_trace_eliminated(rng):
    """Tsuda 2004, eq. 8-9: the best weight of a trace row has a closed form, which the solver's bound attains."""
    K0, tau = positive(rng, 4), 1.0
    K0 = K0 / np.trace(K0)
    C = np.array([np.outer(v, v) for v in rng.normal(size=(2, 4))])
    b = 0.5 * np.einsum("ijk,jk->i", C, K0)
    result = nearest_kernel(
        K0, Constraints.trace(tau) + Constraints.linear(C, b, "<="), divergence="vonneumann", tol=1e-9
    )
    A = np.tensordot(result.dual[1:], C, 1)
    g = np.trace(K0) - tau - tau * np.log(np.trace(expm(logm(K0) - A)) / tau) - result.dual[1:] @ b
    assert result.dual_bound == pytest.approx(g, abs=1e-8)
    assert g >= result.dual_bound - 1e-12
    assert np.trace(result.kernel()) == pytest.approx(1.0, abs=1e-8)
