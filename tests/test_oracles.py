"""The library against stored optima of an independent solver, and its certificates against plain NumPy.

The problems lie in ``oracles/*.json`` with the script that made them (CVXPY and Clarabel). Each answer is judged
twice: its objective against the stored one, and then from the returned matrix and multipliers alone, with the
formulas written out again below - objective, dual bound, gap, violation, or the proof that nothing is feasible.
"""

import json
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from bregmat import Constraints, Factor, Squared, SquaredHinge, nearest_kernel, nearest_metric

ORACLES = Path(__file__).parent / "oracles"
GROUPS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(ORACLES.glob("*.json"))}
FEASIBLE = [p for group in ("hard", "slack", "losses", "structured") for p in GROUPS[group]]
INFEASIBLE = GROUPS["infeasible"]
LOSSES = {None: None, "squared": Squared(), "squared_hinge": SquaredHinge()}
TOL = 1e-6  # asked of the solver, as a relative gap
OBJECTIVE_TOL = 1e-5  # against the stored objective, whose own gap is at most 1e-6
VIOLATION_TOL = 1e-8  # hard rows of the certified matrix, relative to the bound
ROUNDING = 1e-9  # between two ways to compute one number, relative to the larger of 1 and the objective
TRACE_FACTOR = 1e9  # a proof of infeasibility is one in floating point if it asks for a trace so much above the prior's


def by_name(problem):
    return problem["name"]


def number(value):
    """A JSON number, or list of them, in which "inf" stands for infinity."""
    return np.array(value, dtype=float) if isinstance(value, list) else float(value)


# ---------------------------------------------------------------- the problem in the words of the library
def constraint(row):
    """One stored row as Constraints."""
    relation, points, bound, sense = row["relation"], row["points"], row["bound"], row["sense"]
    weight = number(row["weight"])
    if relation in ("comparison", "similarity_comparison"):
        return getattr(Constraints, relation)(*points, margin=-bound, weight=weight)
    if relation == "diagonal":
        return Constraints.diagonal([bound], points, weight=weight)
    if relation == "trace":
        return Constraints.trace(bound, weight=weight)
    if relation == "linear":
        return Constraints.linear([given_matrix(row["matrix"])], bound, sense, weight=weight)
    return getattr(Constraints, relation)(*points, bound, sense, weight=weight)


def given_matrix(matrix):
    if "dense" in matrix:
        return np.array(matrix["dense"])
    if "sparse" in matrix:
        i, j, values = zip(*matrix["sparse"], strict=True)
        size = matrix["size"]
        return sp.csr_array((values, (i, j)), shape=(size, size))
    return np.array(matrix["vectors"]), np.array(matrix["weights"])


def all_constraints(problem):
    return reduce(add, [constraint(row) for row in problem["rows"]])


def solve(problem, **settings):
    constraints = all_constraints(problem)
    settings = {
        "divergence": problem["divergence"],
        "loss": LOSSES[problem["loss"]],
        "slack_weight": number(problem["slack_weight"]),
        "tol": TOL,
    } | settings
    prior = problem["prior"]
    if problem["form"] == "metric":
        prior = None if prior is None else np.array(prior["dense"])
        return nearest_metric(np.array(problem["points"]), constraints, prior=prior, **settings)
    given = Factor(np.array(prior["factor"])) if "factor" in prior else np.array(prior["dense"])
    return nearest_kernel(given, constraints, **settings)


SOLVED = {}  # name of a problem -> result


def solved(problem):
    """The library's answer to a stored problem, worked out once for all tests of it."""
    if problem["name"] not in SOLVED:
        SOLVED[problem["name"]] = solve(problem)
    return SOLVED[problem["name"]]


# ---------------------------------------------------------------- the problem in plain NumPy
def row_matrix(row, n):
    """Symmetric C (n x n) with the row's value = tr(K C)."""
    eye = np.eye(n)
    relation = row["relation"]
    e = [eye[i] for i in row["points"]]

    def distance(a, b):
        return np.outer(a - b, a - b)

    def similarity(a, b):
        return (np.outer(a, b) + np.outer(b, a)) / 2

    if relation == "linear":
        given = given_matrix(row["matrix"])
        if isinstance(given, tuple):
            return given[0] @ np.diag(given[1]) @ given[0].T
        return given.toarray() if sp.issparse(given) else given
    if relation == "trace":
        return eye
    if relation == "diagonal":
        return np.outer(e[0], e[0])
    if relation in ("sq_distance", "similarity"):
        return (distance if relation == "sq_distance" else similarity)(*e)
    of = distance if relation == "comparison" else similarity
    return of(*e[:2]) - of(*e[2:])


class Plain:
    """A stored problem with prior W0 = Q diag(w) Q', rows A_i on the learned matrix, and their losses."""

    def __init__(self, problem):
        prior, self.divergence = problem["prior"], problem["divergence"]
        if problem["form"] == "metric":
            lift = np.array(problem["points"])
            W0 = np.eye(lift.shape[1]) if prior is None else np.array(prior["dense"])
        else:
            given = np.array(prior["dense"] if "dense" in prior else prior["factor"])
            W0 = given if "dense" in prior else given @ given.T
            lift = np.eye(len(W0))
        w, Q = np.linalg.eigh(W0)
        keep = w > 1e-9 * w[-1]
        if self.divergence == "frobenius" and "factor" not in (prior or {}):  # finite outside of the range, too
            w, keep = np.where(keep, w, 0.0), np.full(len(w), True)
        self.w, self.Q = w[keep], Q[:, keep]
        self.A = np.array([lift.T @ row_matrix(row, len(lift)) @ lift for row in problem["rows"]])
        self.bound = np.array([row["bound"] for row in problem["rows"]])
        self.sense = np.array([{"<=": 1, ">=": -1, "==": 0}[row["sense"]] for row in problem["rows"]])
        weights = np.array([number(row["weight"]) for row in problem["rows"]])
        self.gamma = number(problem["slack_weight"]) * weights
        root = self.Q * np.sqrt(self.w)
        self.spectra = [np.linalg.eigvalsh(root.T @ A @ root) for A in self.A]
        self.hard = np.isinf(self.gamma)
        self.two_sided = (self.sense == 0) | (~self.hard & (problem["loss"] == "squared"))
        default = problem["loss"] is None
        self.scaled = (problem["loss"] is not None) | (default & ~(self.bound > 0))
        self.own = default & ~self.scaled & (self.divergence != "frobenius")
        self.scale = np.array([self.scale_of(i) for i in range(len(self.A))])
        self.unit = np.where(self.scaled, self.scale, 1.0)

    def scale_of(self, i):
        """|b_i|, or tr(|A_i| W0) in the coordinates of the divergence where b_i = 0."""
        if self.bound[i]:
            return abs(self.bound[i])
        if self.divergence == "logdet":
            return np.abs(self.spectra[i]).sum()
        values, vectors = np.linalg.eigh(self.Q.T @ self.A[i] @ self.Q)
        return np.trace((vectors * np.abs(values)) @ vectors.T @ np.diag(self.w))

    def coordinates(self, W):
        """W inside the range of the prior: against diag(w), for LogDet against the identity."""
        M = self.Q.T @ W @ self.Q
        assert np.abs(self.Q @ M @ self.Q.T - W).max() <= 1e-10 * np.abs(W).max()  # W stays in the range of the prior
        return M / np.sqrt(np.outer(self.w, self.w)) if self.divergence == "logdet" else M

    def divergence_of(self, W):
        M = self.coordinates(W)
        m = np.linalg.eigvalsh(M)
        if self.divergence == "logdet":
            assert m[0] > 0
            return np.sum(m - np.log(m) - 1)
        assert m[0] >= -1e-12 * m[-1]  # positive semidefinite up to rounding of the product
        if self.divergence == "frobenius":
            return np.sum((M - np.diag(self.w)) ** 2) / 2
        m = m[m > 0]
        return m @ np.log(m) - np.diag(M) @ np.log(self.w) - np.sum(m) + np.sum(self.w)

    def excess(self, W):
        p = self.values(W)
        return np.where(self.two_sided, np.abs(p - self.bound), np.maximum(self.sense * (p - self.bound), 0.0))

    def values(self, W):
        return np.einsum("ijk,jk->i", self.A, W)

    def objective(self, W):
        """Divergence plus the loss of every violated soft row."""
        p, excess, total = self.values(W), self.excess(W), self.divergence_of(W)
        for i in np.flatnonzero(~self.hard & (excess > 0)):
            ratio = p[i] / self.bound[i] if self.own[i] else np.nan
            if not self.own[i]:
                total += self.gamma[i] / 2 * (excess[i] / self.unit[i]) ** 2
            elif self.divergence == "logdet":
                total += self.gamma[i] * (ratio - np.log(ratio) - 1)
            else:
                total += self.gamma[i] * (p[i] * np.log(ratio) - p[i] + self.bound[i])
        return total

    def dual_bound(self, mu):
        """The lower bound on the objective that the multipliers prove; -inf outside of the domain."""
        adjoint = np.tensordot(mu, self.A, 1)
        S = self.Q.T @ adjoint @ self.Q
        if self.divergence == "logdet":
            s = np.linalg.eigvalsh(np.eye(len(self.w)) + S * np.sqrt(np.outer(self.w, self.w)))
            total = np.sum(np.log(s)) if s[0] > 0 else -np.inf
        elif self.divergence == "vonneumann":
            total = np.sum(self.w) - np.exp(np.linalg.eigvalsh(np.diag(np.log(self.w)) - S)).sum()
        else:
            kept = np.maximum(np.linalg.eigvalsh(np.diag(self.w) - S), 0)
            total = (self.w @ self.w - kept @ kept) / 2
        for i, m in enumerate(mu):
            if self.hard[i]:
                total -= m * self.bound[i]
            elif not self.own[i]:
                total -= m * self.bound[i] + (m * self.unit[i]) ** 2 / (2 * self.gamma[i])
            elif self.divergence == "logdet":
                slope = 1 - m * self.bound[i] / self.gamma[i]
                total += self.gamma[i] * np.log(slope) if slope > 0 else -np.inf
            else:
                total -= self.gamma[i] * self.bound[i] * np.expm1(m / self.gamma[i])
        return total

    def rounding_of_bound(self, W, mu):
        """What rounding may do to the dual bound: it leaves each eigenvalue of T(mu) uncertain by eps times the largest, and the
        bound falls by tr(W) times what they rise. About 1e-8 of the bound where the weight of an eliminated row, infinite in
        theory, is 1e8 times the others (a tenth of that weight would cost the bound itself ten times as much)."""
        largest = np.abs(np.linalg.eigvalsh(self.Q.T @ np.tensordot(mu, self.A, 1) @ self.Q)).max()
        return np.finfo(float).eps * largest * np.trace(W)

    def violation(self, W):
        unit = np.where(self.bound == 0, 1.0, np.abs(self.bound))
        return np.max(np.where(self.hard, self.excess(W) / unit, 0.0))


def learned_matrix(problem, result):
    """The learned kernel, or the learned metric."""
    return result.B @ result.B.T if problem["form"] == "metric" else result.kernel()


# ---------------------------------------------------------------- tests
def test_enough_problems_of_every_kind():
    kinds = {(p["divergence"], row["relation"]) for p in FEASIBLE for row in p["rows"]}
    assert len(FEASIBLE) + len(INFEASIBLE) >= 120
    assert len(INFEASIBLE) >= 20
    assert len(kinds) == 3 * 7


@pytest.mark.parametrize("problem", FEASIBLE, ids=by_name)
def test_constraint_values_agree_with_row_matrices(problem, rng):
    n = len(problem["points"] if problem["form"] == "metric" else next(iter(problem["prior"].values())))
    G = rng.normal(size=(n, 3))
    expected = [np.sum(row_matrix(row, n) * (G @ G.T)) for row in problem["rows"]]
    assert all_constraints(problem).values(G) == pytest.approx(np.array(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("problem", FEASIBLE, ids=by_name)
def test_objective_agrees_with_independent_solver(problem):
    result = solved(problem)
    assert result.status == "OPTIMAL", (result.status, result.exit_reason, result.gap, result.max_violation)
    assert result.objective == pytest.approx(problem["objective"], rel=OBJECTIVE_TOL, abs=OBJECTIVE_TOL)


@pytest.mark.parametrize("problem", FEASIBLE, ids=by_name)
def test_certificate_holds_from_matrix_and_duals_alone(problem):
    result, plain = solved(problem), Plain(problem)
    W, mu = learned_matrix(problem, result), result.dual
    objective, bound = plain.objective(W), plain.dual_bound(mu)
    unit = max(result.unit, abs(objective))
    one_sided = ~plain.two_sided
    assert np.all(plain.sense[one_sided] * mu[one_sided] >= 0)
    assert plain.violation(W) <= VIOLATION_TOL
    assert abs(objective - bound) <= (TOL + ROUNDING) * unit
    rounding = ROUNDING + plain.rounding_of_bound(W, mu) / unit
    # weak duality, exactly: a hard row that is missed by a little may save its price times the excess, no more
    assert bound - objective <= np.abs(mu * plain.excess(W))[plain.hard].sum() + rounding * unit
    assert bound <= problem["objective"] + unit * max(ROUNDING, problem["accuracy"]["gap"])
    # and what the result says of itself is the same
    assert abs(result.objective - objective) <= ROUNDING * unit
    # but for what rounding may have added, which is taken off: never above, and below by less than the tolerance
    assert -TOL * unit <= result.dual_bound - bound <= rounding * unit
    assert -rounding <= result.gap - (objective - bound) / unit <= TOL
    assert abs(result.max_violation - plain.violation(W)) <= ROUNDING


@pytest.mark.parametrize("problem", FEASIBLE, ids=by_name)
def test_factor_and_dual_belong_to_the_matrix(problem):
    result = solved(problem)
    W = learned_matrix(problem, result)
    K = np.array(problem["points"]) @ W @ np.array(problem["points"]).T if problem["form"] == "metric" else W
    assert np.allclose(result.factor @ result.factor.T, K, rtol=0, atol=1e-12 * np.abs(K).max())
    assert result.dual.shape == (len(problem["rows"]),)


@pytest.mark.parametrize("problem", INFEASIBLE, ids=by_name)
def test_infeasible_rows_are_proven_so(problem):
    result, plain = solved(problem), Plain(problem)
    assert result.status == "INFEASIBLE", (result.status, result.exit_reason, result.gap, result.max_violation)
    mu, S = result.dual, plain.Q.T @ np.tensordot(result.dual, plain.A, 1) @ plain.Q
    one_sided = ~plain.two_sided
    assert np.all(plain.sense[one_sided] * mu[one_sided] >= 0)
    assert np.all(mu[~plain.hard] == 0)
    smallest, largest = np.linalg.eigvalsh(S)[[0, -1]]
    if problem.get("only_singular"):  # tr(S W) <= 0 with S >= 0: W is singular, where LogDet is infinite
        assert mu @ plain.bound <= 0
        assert largest > 0
        assert smallest >= -1e-12 * largest
    else:  # every feasible W has a trace of at least -mu.b / -smallest
        assert mu @ plain.bound < 0
        assert -mu @ plain.bound >= TRACE_FACTOR * np.sum(plain.w) * max(0.0, -smallest)
    assert set(np.flatnonzero(mu)) <= set(result.conflict)


@pytest.mark.parametrize("problem", INFEASIBLE, ids=by_name)
def test_conflict_names_no_row_that_does_not_belong(problem):
    conflict = solved(problem).conflict
    assert conflict is not None
    assert sorted(conflict) == problem["conflict"]
