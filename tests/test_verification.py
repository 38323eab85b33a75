"""``bregmat.verify``: true results hold, tampered ones are caught, and a status is never raised."""

import inspect
import pickle
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import bregmat
from bregmat import Constraints, ExitReason, Factor, Squared, Status, nearest_kernel, nearest_metric, verify
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Factored, Spectral
from bregmat.margin import MarginProblem, kernel_source, train_margin
from bregmat.pairs.base import calibrated
from bregmat.verification import VERIFIERS, Verification, Verifier, extended
from bregmat.verification.matrices import MatrixVerifier
from formulas import NAMES
from suite.matrices import objective_at


def with_status(result, status):
    return replace(result, status=status)


def kernel_problem(rng, divergence="logdet", slack_weight=np.inf):
    X = rng.normal(size=(8, 3))
    rows = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [1.0, 1.5, 9.0], ["<=", "==", ">="]) + Constraints.similarity(
        6, 7, 0.1, "<="
    )
    return {"prior": X @ X.T + np.eye(8), "constraints": rows, "divergence": divergence, "slack_weight": slack_weight}


def solved(arguments, **more):
    given = dict(arguments)
    first = given.pop("X") if "X" in given else given.pop("prior")
    return (bregmat.nearest_metric if "X" in arguments else bregmat.nearest_kernel)(first, **given, **more)


# ---------------------------------------------------------------- matrices
@pytest.mark.parametrize("solve", [bregmat.nearest_kernel, bregmat.nearest_metric])
def test_a_problem_may_hold_every_argument_of_its_call(solve):
    rng = np.random.default_rng(4)
    rows = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [1.0, 1.5, 9.0], "<=")
    given = {"constraints": rows, "slack_weight": 1.0}
    given |= (
        {"X": rng.normal(size=(8, 3)), "block_size": 2}
        if solve is bregmat.nearest_metric
        else {"prior": Factor(np.eye(8))}
    )
    assert solve(**given).status is Status.OPTIMAL
    names = dict.fromkeys(inspect.signature(solve).parameters)
    problem = {**names, "divergence": "logdet", **given}
    assert verify(solve(**given), **problem).holds
    with pytest.raises(ValueError, match="got .*'slackweight'"):
        verify(solve(**given), **problem, slackweight=1.0)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("slack_weight", [np.inf, 1.0])
def test_a_result_holds(rng, divergence, slack_weight):
    arguments = kernel_problem(rng, divergence, slack_weight)
    found = verify(solved(arguments), **arguments)
    assert found.holds
    assert found.status == "OPTIMAL"
    assert repr(found).startswith("Verification(status=OPTIMAL, claimed=OPTIMAL, holds, ")
    assert found.figures["objective"][0] == pytest.approx(found.figures["objective"][1], rel=1e-12)


@pytest.mark.parametrize("prior", [None, "dense", "factor"])
def test_metrics_and_estimators_hold(rng, prior):
    X = rng.normal(size=(12, 4))
    given = {None: None, "dense": np.diag([1.0, 2.0, 3.0, 4.0]), "factor": Factor(rng.normal(size=(4, 2)))}[prior]
    arguments = {
        "X": X,
        "constraints": Constraints.sq_distance([0, 1], [2, 3], [1.0, 20.0], ["<=", ">="], weight=[np.inf, 2.0]),
    }
    arguments |= {"divergence": "vonneumann", "prior": given, "slack_weight": 1.0, "loss": Squared()}
    assert verify(solved(arguments), **arguments).holds
    learner = bregmat.MetricLearner(slack_weight=10.0, prior="identity").fit(X, rng.integers(0, 2, 12))
    given = {"X": X, "constraints": learner.constraints_, "slack_weight": 10.0, "loss": "squared_hinge"}
    assert verify(learner.result_, **given).holds


def test_a_metric_that_leaves_the_range_of_its_prior_holds(rng):
    """Frobenius may, and the range alone would show another matrix."""
    X = rng.normal(size=(12, 5))
    rows = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [1.0, 9.0, 4.0], ["<=", ">=", "=="])
    arguments = {"X": X, "constraints": rows, "divergence": "frobenius", "prior": Factor(rng.normal(size=(5, 2)))}
    result = solved(arguments)
    assert result.status is Status.OPTIMAL
    assert verify(result, **arguments).holds


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_huge_numbers_hold(scale):
    """What ``exp`` can compute is a matter of units."""
    arguments = {"prior": scale * np.eye(4), "constraints": Constraints.sq_distance(0, 1, scale, "<=")}
    arguments |= {"divergence": "vonneumann"}
    result = solved(arguments)
    assert result.status is Status.OPTIMAL
    assert verify(result, **arguments).holds


def test_own_slack_near_its_bound_does_not_cancel():
    """``p log(p / b) - p + b`` of a value that is off by 4e-9 of itself, and the bound that tiny weights prove."""
    b = 2.0**26
    arguments = {"X": np.array([[1.0], [0.0]]) * 2**13, "divergence": "vonneumann", "slack_weight": 1e3}
    arguments["constraints"] = Constraints.sq_distance([0], [1], [b * (1.0 - 1e-9)], "<=")
    result = solved(arguments)
    assert result.status is Status.OPTIMAL
    assert verify(result, **arguments).holds
    found = MatrixVerifier(arguments | {"constraints": Constraints.sq_distance([0], [1], [b], "<=")}, result)
    value = np.array([b * (1 + 2.0**-28)]).astype(found.real)
    assert found.losses.cost(value) == pytest.approx(1e3 * b * 2.0**-57, rel=1e-6, abs=0)


@pytest.mark.parametrize("loss", [None, "relative_slack"])
def test_a_dual_weight_far_below_the_slopes_of_values_holds(loss):
    """The relaxed bound of such a weight is 0 in extended precision; entropy is finite there."""
    rows = Constraints.sq_distance([0, 1], [1, 2], [5.0, 7.0], [">=", "<="])
    hard = nearest_kernel(np.eye(3), rows, divergence="vonneumann", loss=loss)
    how = {"divergence": "vonneumann", "loss": loss, "solver": "dual_newton", "max_iter": 0}
    result = nearest_kernel(np.eye(3), rows, slack_weight=1e-6, warm_start=hard, **how)
    assert (result.dual / 1e-6).min() < -1e5
    assert result.dual_bound > -np.inf
    assert verify(result).holds


def test_rows_that_copies_make_0_hold():
    """Columns a and b of the prior are equal, so ``K_ka - K_kb`` is 0 at every matrix in its range, whose small eigenvalues hid it."""
    rng, n = np.random.default_rng(0), 38
    G = np.linalg.qr(rng.normal(size=(n, n)))[0] * np.logspace(0, -3, n)
    first = np.arange(n)
    first[[5, 9, 13]] = [1, 2, 3]
    G[20] = G[30] * (1.0 + 6e-3 * rng.normal(size=n))
    K = (G @ G.T)[first][:, first]
    K = (K + K.T) / 2
    assert (K[:, [5, 9, 13]] == K[:, [1, 2, 3]]).all()
    k, a, b = (np.array(x) for x in zip(*[(k, a, b) for k in range(16, n) for a, b in ((5, 1), (2, 9), (3, 13))]))
    i, j = rng.integers(14, 26, 20), rng.integers(26, n, 20)
    rows = Constraints.similarity_comparison(k, a, k, b, margin=0.0)
    rows += Constraints.sq_distance(i, j, 0.8 * (np.diag(K)[i] + np.diag(K)[j] - 2 * K[i, j]), "<=")
    result = nearest_kernel(K, rows, divergence="vonneumann")
    assert result.status is Status.OPTIMAL
    assert verify(result).holds


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
def test_weights_that_cancel_do_not_excuse_a_bound(rng, divergence, size):
    """Weights of a constraint and its opposite prove what their sums prove; their rounding allowed a bound of 1.5 times the objective."""
    G = rng.normal(size=(7, 3))
    R = G @ (0.8 * np.eye(3) + 0.2 * rng.normal(size=(3, 3)))
    i, j = np.array([0, 1, 2]), np.array([3, 4, 5])
    bound = ((R[i] - R[j]) ** 2).sum(axis=1)
    rows = Constraints.sq_distance(i, j, bound, "<=") + Constraints.sq_distance(i, j, bound, ">=")
    arguments = {"prior": G @ G.T, "constraints": rows, "divergence": divergence}
    result = solved(arguments)
    assert result.status is Status.OPTIMAL
    for share in (0.7, 1.0):  # of the weights, which prove less or as much
        dual = share * result.dual + size * np.repeat([1.0, -1.0], 3)
        false = replace(result, dual=dual, dual_bound=1.5 * result.objective, gap=0.0, status=Status.FEASIBLE)
        found = verify(false, **arguments)
        assert any("as dual_bound" in text for text in found.problems)


def test_weights_that_cancel_do_not_excuse_a_bound_of_a_semidefinite_program():
    """The minimum of the trace with a trace of 1 is 1, whatever the weights."""
    rows = Constraints.trace(1.0) + Constraints.linear([np.eye(3), -np.eye(3)], [1.0, -1.0], "<=")
    arguments = {"C": np.eye(3), "constraints": rows}
    result = bregmat.semidefinite_program(**arguments)
    assert result.status is Status.OPTIMAL
    dual = result.dual + np.array([0.0, 1e16, 1e16])
    false = replace(result, dual=dual, dual_bound=1.5, gap=0.0, status=Status.FEASIBLE)
    assert any("as dual_bound" in text for text in verify(false, **arguments).problems)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_sparse_factors_hold(divergence):
    arguments = {"prior": Factor(sp.csr_array(np.diag([1.0, 1e-4, 1e-5]))), "divergence": divergence}
    arguments["constraints"] = Constraints.sq_distance([0], [1], [0.5], "<=")
    assert verify(solved(arguments), **arguments).holds


def tampered_matrices(result):
    """(what was done, a result that it was done to, the word that its problem must have, the status that is left)."""
    t, U = result.iterate.t, result.iterate.F
    moved = Spectral(result.iterate.divergence, result.iterate.t0, t + 0.01 * np.arange(len(t)), U)
    flipped = -result.dual
    yield "matrix changed", replace(result, iterate=moved), "missed", Status.UNKNOWN
    yield "a sign flipped", replace(result, dual=flipped), "sign", Status.FEASIBLE
    yield "weights scaled", replace(result, dual=1.5 * result.dual), "dual_bound", Status.FEASIBLE
    yield "weights lost", replace(result, dual=np.zeros_like(result.dual)), "dual_bound", Status.FEASIBLE
    yield "objective edited", replace(result, objective=result.objective * 1.01), "objective", Status.OPTIMAL
    yield "bound edited", replace(result, dual_bound=result.dual_bound + 0.01), "dual_bound", Status.OPTIMAL
    small = 5e-8 * abs(result.objective)
    yield (
        "bound edited by less than tol",
        replace(result, dual_bound=result.dual_bound + small),
        "dual_bound",
        Status.OPTIMAL,
    )
    yield "objective edited by less", replace(result, objective=result.objective + small), "objective", Status.OPTIMAL
    yield "violation edited", replace(result, max_violation=1e-3), "max_violation", Status.UNKNOWN


@pytest.mark.parametrize("divergence", ["vonneumann", "frobenius"])
def test_tampered_matrices_are_caught(rng, divergence):
    arguments = kernel_problem(rng, divergence)
    for what, result, word, left in tampered_matrices(solved(arguments)):
        found = verify(result, **arguments)
        assert not found.holds, what
        assert any(word in text for text in found.problems), (what, found)
        assert found.status is left, (what, found)


def test_a_raised_status_is_caught(rng):
    arguments = kernel_problem(rng)
    short = solved(arguments, max_iter=1)
    assert short.status is not Status.OPTIMAL
    found = verify(with_status(short, Status.OPTIMAL), **arguments)
    assert found.status is short.status
    assert not found.holds
    assert verify(short, **arguments).status is short.status


def test_a_status_is_never_raised(rng):
    arguments = kernel_problem(rng)
    modest = with_status(solved(arguments), Status.FEASIBLE)
    assert verify(modest, **arguments).status is Status.FEASIBLE


def test_other_bounds_than_those_solved_for_are_caught(rng):
    arguments = kernel_problem(rng)
    result = solved(arguments)
    other = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [0.9, 1.5, 9.0], ["<=", "==", ">="]) + Constraints.similarity(
        6, 7, 0.1, "<="
    )
    assert verify(result, **(arguments | {"constraints": other})).status is Status.UNKNOWN


def test_a_matrix_outside_of_the_range_counts_with_its_part_inside():
    """Rows of all of it beside the divergence of a part are less than any matrix has: eigenvalues below 1e-12 of the largest are 0."""
    Q = np.eye(3) - 2.0 / 3.0
    inside, outside = np.diag([1.0, 0.1, 0.0]), np.diag([1.0, 0.1, 1e-6])
    outside[2, 0] = 1e-6
    K = Q @ np.diag([1.0, 1e-2, 0.9e-12]) @ Q
    W = Q @ outside @ outside.T @ Q
    arguments = {"prior": (K + K.T) / 2, "constraints": Constraints.similarity(0, 1, W[0, 1], "==")}
    arguments |= {"loss": Squared(), "slack_weight": 1e8}
    found = MatrixVerifier(arguments, solved(arguments))
    assert objective_at(found, Q @ outside) == pytest.approx(objective_at(found, Q @ inside), rel=1e-6)


def test_long_rows_of_a_factor_take_no_digits_from_the_others(rng):
    G0 = rng.normal(size=(12, 3))
    G0[8:] = 1e150
    rows = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [1.0, 2.0, 0.5], ["<=", ">=", "<="])
    arguments = {"prior": Factor(G0), "constraints": rows, "slack_weight": 1.0}
    assert verify(solved(arguments), **arguments).holds


def test_a_row_whose_terms_cancel_is_0(rng):
    """K(0, 2) <= K(1, 2) for a point that is there twice."""
    G = rng.normal(size=(5, 3))
    G[1] = G[0]
    rows = Constraints.similarity_comparison(0, 2, 1, 2) + Constraints.sq_distance(2, 3, 0.5, "<=")
    arguments = {"prior": Factor(G), "constraints": rows}
    result = solved(arguments, solver="cyclic_projection")
    assert verify(result, **arguments).holds
    found = verify(replace(result, dual=result.dual * [1.0, 0.5]), **arguments)
    assert found.status is Status.FEASIBLE


@pytest.mark.parametrize("noise", [0.0, 1e-16])
def test_a_point_that_is_rounding_is_0(rng, noise):
    """Other last digits of the prior have it at 0 or anywhere below them, and with it the unit of a loss around 0."""
    G = rng.normal(size=(5, 4)) * [1.0, 1.0, 1.0, 3e-3]
    G[0] = 0.0
    K = G @ G.T
    K[0] = K[:, 0] = noise * rng.normal(size=5)
    rows = (
        Constraints.diagonal([0.0], [0])
        + Constraints.sq_distance(1, 2, 1.0, "==")
        + Constraints.similarity(0, 3, 0.0, "==")
    )
    arguments = {"prior": K, "constraints": rows, "divergence": "vonneumann", "loss": Squared(), "slack_weight": 1.0}
    found = MatrixVerifier(arguments, solved(arguments))
    assert found.rows.dead.tolist() == [True, False, False, False]
    assert verify(solved(arguments), **arguments).holds


# ---------------------------------------------------------------- that there is nothing to find
def test_proofs_of_infeasibility():
    rows = Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 9.0, 1.0], ["<=", ">=", "<="])
    arguments = {"prior": np.eye(3), "constraints": rows}
    result = solved(arguments)
    assert result.status is Status.INFEASIBLE
    assert verify(result, **arguments).holds
    for change in (
        {"dual": -result.dual},
        {"dual": result.dual * [1, 1, 0]},
        {"dual": 0 * result.dual},
        {"conflict": np.array([0])},
    ):
        assert not verify(replace(result, **change), **arguments).holds
    loose = Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 3.9, 1.0], ["<=", ">=", "<="])
    assert verify(result, **(arguments | {"constraints": loose})).status is Status.UNKNOWN


def test_a_negative_direction_is_not_taken_for_rounding():
    """``diag(1, 1e15)`` meets the row: -1e-15 is what was given, and no rounding of anything."""
    rows = Constraints.linear([np.diag([1.0, -1e-15])], [-1.0], "<=")
    point = bregmat.nearest_kernel(np.eye(2), Constraints.diagonal([1.0], [0]))
    claim = replace(point, status=Status.INFEASIBLE, dual=np.ones(1), conflict=np.array([0]))
    found = verify(claim, prior=np.eye(2), constraints=rows)
    assert found.status is Status.UNKNOWN
    assert any("semidefinite" in text for text in found.problems)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_rounding_of_the_range_of_a_prior_refutes_no_proof(rng, divergence):
    """A direction that is left out by the rule of 1e-12 is known to the prior's rounding over the smallest eigenvalue that is not: 1e-7.

    A kernel of full rank is asked for, entry by entry. For a proof, the weighted sum of the rows must be positive semidefinite on the
    range of the prior; here it vanishes there up to rounding. The range turns with the rounding of the prior's entries, and the proof
    must hold all the same. One weight that changes by far more than 1e-7, to either side, makes the sum indefinite, so that no proof
    is left. The effect of a change near 1e-7 depends on the processor and is not tested.
    """
    G = np.linalg.qr(rng.normal(size=(5, 5)))[0] * np.sqrt([5e-13, 1e-9, 1e-6, 1e-3, 1.0])
    K, T = G @ G.T, G @ (np.eye(5) + 0.3 * rng.normal(size=(5, 5)))
    T, pairs = T @ T.T, np.triu_indices(5, 1)
    rows = Constraints.similarity(*pairs, T[pairs], "==") + Constraints.diagonal(np.diag(T))
    arguments = {"prior": (K + K.T) / 2, "constraints": rows, "divergence": divergence}
    result = solved(arguments)
    assert result.status is Status.INFEASIBLE
    assert verify(result, **arguments).holds
    heaviest = np.arange(len(result.dual)) == np.argmax(np.abs(result.dual))
    for change in (-1e-3, 1e-3):
        assert not verify(replace(result, dual=result.dual * (1 + change * heaviest)), **arguments).holds


def test_a_row_that_is_rounding_carries_no_proof(rng):
    """``e'Ke`` is 0 for every kernel on centred data; a weight of 1e15 on it proves nothing."""
    X = rng.normal(size=(10, 3))
    X -= X.mean(axis=0)
    rows = Constraints.sq_distance(0, 1, 1.0, "<=") + Constraints.linear([(np.ones((10, 1)), np.ones(1))], [0.5], ">=")
    point = bregmat.nearest_metric(X, Constraints.sq_distance([0, 2], [1, 3], [1.0, 9.0], "<="))
    claim = replace(point, dual=np.array([point.dual[0], -1e15]), values=np.ones(2), violation=np.zeros(2))
    assert verify(claim, X=X, constraints=rows).status is Status.UNKNOWN


# ---------------------------------------------------------------- the other kinds of results
def other_results(rng):
    """(arguments, result, what to tamper with, the status that is left)."""
    G = rng.normal(size=(6, 6))
    A, b = G @ G.T, rng.normal(size=6)
    program = bregmat.nnqp(A, b)
    yield {"A": A, "b": b}, program, {"x": program.x + 0.1}, Status.FEASIBLE
    yield {"A": A, "b": b}, program, {"x": program.x - 0.1}, Status.UNKNOWN
    boxed = {"A": A, "b": rng.normal(size=6), "upper": 0.5}
    program = bregmat.nnqp(**boxed)
    yield boxed, program, {"objective": program.objective - 0.1}, Status.OPTIMAL
    yield boxed, program, {"dual_bound": program.objective + 0.1}, Status.OPTIMAL
    C = np.corrcoef(rng.normal(size=(5, 20))) + 0.5 * (lambda E: (E + E.T) / 2)(rng.normal(size=(5, 5)))
    np.fill_diagonal(C, 1.0)
    X = bregmat.nearest_correlation(C)
    yield {"C": C}, X, {"dual": -X.dual}, Status.FEASIBLE
    yield {"C": C}, X, {"X": X.X - 0.5 * np.eye(5)}, Status.UNKNOWN
    W = np.triu(rng.random((8, 8)) < 0.5, 1) * 1.0
    W = W + W.T
    cut = bregmat.balanced_cut(W, random_state=0)
    yield {"graph": W}, cut, {"labels": 1 - np.eye(8, dtype=int)[0]}, Status.UNKNOWN
    yield {"graph": W}, cut, {"dual": cut.dual * np.arange(8)}, Status.FEASIBLE
    sides = {"graph": W, "vertex_weights": np.arange(1, 9), "target": 0.3, "fixed": [1, 0, *[-1] * 6]}
    cut = bregmat.balanced_cut(**sides, random_state=0)
    yield sides, cut, {"labels": np.append(1 - cut.labels[:1], cut.labels[1:])}, Status.UNKNOWN
    yield sides, cut, {"dual": 1e15 * cut.dual}, Status.FEASIBLE
    yield sides, cut, {"relaxation_bound": cut.relaxation_bound + 0.5}, cut.status
    rows = {"prior": np.ones(4) / 4, "A": [[1.0, 2, 3, 4]], "b": [3.0], "sense": ">="}
    vector = bregmat.nearest_distribution(**rows)
    yield rows, vector, {"x": rows["prior"]}, Status.UNKNOWN
    yield rows, vector, {"dual": -vector.dual}, Status.FEASIBLE
    H, labels = np.sign(rng.normal(size=(20, 4))), np.sign(rng.normal(size=20))
    boost = bregmat.boost_hypotheses(H, labels, n_steps=5)
    yield {"H": H, "y": labels}, boost, {"objective": 0.5 * boost.objective}, Status.FEASIBLE
    points = rng.normal(size=(20, 2))
    signs = np.where(points[:, 0] + 0.3 * rng.normal(size=20) > 0, 1.0, -1.0)
    machine = train_margin(MarginProblem.build(kernel_source(points, "linear"), signs))
    yield {"kernel": points @ points.T, "signs": signs}, machine, {"alpha": 0.5 * machine.alpha}, Status.FEASIBLE
    yield (
        {"kernel": points @ points.T, "signs": signs},
        machine,
        {"intercept": machine.intercept + 1.0},
        Status.FEASIBLE,
    )


def test_large_dual_weights_leave_no_room_for_a_false_objective(rng):
    """Tolerances do not grow with numbers that are part of the claim."""
    points = rng.normal(size=(12, 4))
    near = bregmat.Constraints.sq_distance([0, 2, 4], [1, 3, 5], [0.5, 0.7, 0.9], "<=")
    cases: list = [
        ({"X": points, "constraints": near, "divergence": name, "slack_weight": weight}, bregmat.nearest_metric)
        for name in ("logdet", "vonneumann", "frobenius")
        for weight in (np.inf, 1.0)
    ]
    C = np.corrcoef(rng.normal(size=(5, 20))) + 0.3 * (1 - np.eye(5))
    cases += [
        ({"C": C}, bregmat.nearest_correlation),
        ({"C": C, "bounds": (-0.2, 0.2)}, bregmat.nearest_correlation),
        ({"prior": np.ones(4) / 4, "A": [[1.0, 2, 3, 4]], "b": [3.0], "sense": ">="}, bregmat.nearest_distribution),
        ({"C": C, "constraints": bregmat.Constraints.linear([np.eye(5)], 1.0, "==")}, bregmat.semidefinite_program),
    ]
    for arguments, solve in cases:
        result = solve(**arguments)
        assert verify(result, **arguments).holds
        for factor in (1e12, 1e16, 1e20):
            for objective in (result.objective + result.unit, result.objective - 0.5 * result.unit):
                claim = {"status": Status.FEASIBLE, "objective": objective, "dual_bound": -np.inf, "gap": np.inf}
                found = verify(replace(result, dual=factor * result.dual, **claim), **arguments)
                assert any(text.startswith("objective is") for text in found.problems), (arguments, factor, found)


def test_other_results_hold_and_tampered_ones_are_caught(rng):
    for arguments, result, change, left in other_results(rng):
        assert verify(result, **arguments).holds, verify(result, **arguments)
        found = verify(replace(result, **change), **arguments)
        assert not found.holds, (type(result).__name__, change)
        assert found.status in (left, Status.UNKNOWN if left is Status.FEASIBLE else left), (found, change)


def test_rays_contradictions_and_hulls(rng):
    ray = bregmat.nnqp([[1.0, -1.0], [-1.0, 1.0]], [-1.0, 0.5])
    arguments = {"A": [[1.0, -1.0], [-1.0, 1.0]], "b": [-1.0, 0.5]}
    assert ray.status is Status.UNBOUNDED
    assert verify(ray, **arguments).holds
    assert verify(replace(ray, direction=np.array([1.0, 0.0])), **arguments).status is Status.UNKNOWN
    none = bregmat.nnqp(np.eye(2), np.ones(2), equality=([[1.0, 1.0]], [-1.0]))
    arguments = {"A": np.eye(2), "b": np.ones(2), "equality": ([[1.0, 1.0]], [-1.0])}
    assert verify(none, **arguments).holds
    assert verify(none, **(arguments | {"equality": ([[1.0, -1.0]], [-1.0])})).status is Status.UNKNOWN
    X, signs = np.array([[0.0], [1.0], [0.5]]), np.array([1.0, 1.0, -1.0])
    hulls = train_margin(MarginProblem.build(kernel_source(X, "linear"), signs, C=np.inf))
    assert hulls.status is Status.INFEASIBLE
    arguments = {"kernel": X @ X.T, "signs": signs, "C": np.inf}
    assert verify(hulls, **arguments).holds
    assert verify(replace(hulls, alpha=np.array([1.0, 0.0, 1.0])), **arguments).status is Status.UNKNOWN
    C = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1.0]])
    arguments = {"C": C, "fixed": ~np.eye(3, dtype=bool)}
    entries = bregmat.nearest_correlation(**arguments)
    assert entries.status is Status.INFEASIBLE
    assert verify(entries, **arguments).holds
    assert verify(replace(entries, dual=-entries.dual), **arguments).status is Status.UNKNOWN


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_null_vectors_that_are_not_finite_are_not_confirmed(value):
    """The singular value decomposition of such numbers raised a LinAlgError."""
    arguments = {"C": np.ones((3, 3)), "fixed": np.ones((3, 3), dtype=bool)}
    result = bregmat.nearest_correlation(**arguments)
    assert result.null_space is not None and verify(result).holds
    assert not verify(replace(result, null_space=np.full_like(result.null_space, value)), **arguments).holds


def test_prescribed_entries_of_another_problem_are_reported():
    """They raised a ValueError."""
    C, fixed = np.array([[1, 0.9, 0.2], [0.9, 1, 0.9], [0.2, 0.9, 1.0]]), np.eye(3, dtype=bool)
    result = bregmat.nearest_correlation(C, fixed=fixed)
    fixed[0, 1] = True
    for more in ({"fixed": fixed}, {"bounds": (-0.8, 0.95)}):
        report = verify(result, C=C, **more)
        assert report.status is Status.UNKNOWN and "that the problem prescribes" in report.problems[-1]


@pytest.mark.parametrize("objective", ["divergence", "variance"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_distances_that_no_points_have_are_reported(rng, objective, value):
    """Constraints with such bounds cannot be made; the error of making them was raised."""
    X = rng.normal(size=(9, 2))
    result = bregmat.unfold(X, n_neighbors=5, objective=objective)
    assert "rtol is" in verify(replace(result, rtol=value)).problems[0]
    wrong = np.full_like(result.sq_distances, value)
    assert "sq_distances[0] is" in verify(replace(result, sq_distances=wrong)).problems[0]


def test_every_class_of_results_has_a_verifier_for_all_of_its_statuses():
    """UNBOUNDED and INFEASIBLE are refused unless the verifier of the class checks their proofs."""
    public = {x for x in map(partial(getattr, bregmat), bregmat.__all__) if isinstance(x, type)}
    assert {x for x in public if issubclass(x, bregmat.Result)} - {bregmat.Result} <= set(VERIFIERS)
    for kind, verifier in VERIFIERS.items():
        proofs = {Status.INFEASIBLE: "check_contradiction", Status.UNBOUNDED: "check_ray"}
        for status, check in proofs.items():
            is_checked = getattr(verifier, check) is not getattr(Verifier, check) or verifier.run is not Verifier.run
            assert is_checked or status not in kind._kind.statuses, (kind, status)


# ---------------------------------------------------------------- how it is called
def test_without_the_problem_only_the_figures_are_compared(rng, tmp_path):
    result = solved(kernel_problem(rng))
    bregmat.save(tmp_path / "result.bm", result)
    for again in (bregmat.load(tmp_path / "result.bm"), pickle.loads(pickle.dumps(result))):
        assert again.call is None
        assert verify(again).verdict == "not recomputed"
        assert "verify needs the arguments of nearest_kernel (prior, constraints, ...)" in verify(again).unchecked[0]
        assert verify(replace(again, gap=1.0)).status is Status.FEASIBLE
        assert verify(replace(again, max_violation=1.0)).status is Status.UNKNOWN
        assert verify(again, **kernel_problem(np.random.default_rng(20261120))).holds


def test_a_result_remembers_its_call(rng):
    """Every kind of result verifies without its arguments; tampered ones and changed data are found out."""
    for arguments, result, _, _ in other_results(rng):
        assert verify(result).figures == verify(result, **arguments).figures
        assert verify(result).verdict == verify(result, **arguments).verdict == "holds"
    arguments = kernel_problem(rng)
    result = solved(arguments)
    assert verify(result).holds and not verify(replace(result, dual=1.5 * result.dual)).holds
    assert "solver" not in result.call and result.call["prior"] is arguments["prior"]
    arguments["prior"][0, 0] *= 1.5
    assert not verify(result).holds


@pytest.mark.parametrize("name", ["identity", "variance", "within"])
def test_a_learner_verifies(rng, name):
    X, y = rng.normal(size=(40, 4)) * [1.0, 2.0, 3.0, 4.0], np.arange(40) % 3
    learner = bregmat.MetricLearner(prior=name, strategy="neighbors", slack_weight=1.0).fit(X, y)
    assert verify(learner).holds and verify(learner, X).holds and verify(learner, X=X).holds
    assert not verify(learner, X[::-1]).holds
    given = {"constraints": learner.constraints_, "loss": "squared_hinge", "slack_weight": learner.slack_weight_}
    assert verify(learner, X, **given).holds == (name == "identity")  # which is the default of the call
    learner.result_ = replace(learner.result_, objective=0.5 * learner.result_.objective)
    assert not verify(learner).holds


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"gamma": 0.2}, {"gamma": 0.2, "rank": 12}])
def test_a_learned_kernel_verifies(rng, settings):
    learner = bregmat.KernelLearner(strategy="random", slack_weight=1.0, **settings)
    assert verify(learner.fit(rng.normal(size=(40, 4)), np.arange(40) % 3)).holds


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"kernel": "linear", "fit_intercept": False}, {"C": 10.0}])
def test_a_machine_verifies(rng, settings):
    X, y = rng.normal(size=(40, 4)) + 3.0, np.arange(40) % 2
    machine = bregmat.MarginSVC(**settings).fit(X, y)
    assert verify(machine).holds
    with pytest.raises(TypeError, match="verify each of result_"):
        verify(bregmat.MarginSVC(**settings).fit(X, np.arange(40) % 3))


def test_results_of_rows_in_blocks(rng):
    X, rows = rng.normal(size=(30, 3)), Constraints.sq_distance(np.arange(15), np.arange(15, 30), 1.0, "<=")
    result = bregmat.nearest_metric(X, rows, slack_weight=1.0, block_size=4)
    assert verify(result).holds and verify(result, X=X, constraints=rows, slack_weight=1.0).holds


@pytest.mark.parametrize(
    ("problem", "error", "text"),
    [
        ({"prior": np.eye(8)}, ValueError, "verify needs the arguments of nearest_kernel"),
        ({"constraints": Constraints.trace(1.0)}, ValueError, "verify needs the arguments of nearest_kernel"),
        ({"prior": np.eye(8), "constraints": 3}, TypeError, "constraints must be Constraints; got int"),
        (
            {"prior": np.eye(8), "constraints": Constraints.trace(1.0)},
            ValueError,
            "4 dual weights but there are 1 constraints",
        ),
        ({"prior": np.eye(8), "constraints": Constraints.trace(1.0), "K": 0}, ValueError, "'K'"),
    ],
)
def test_arguments_that_make_no_problem(rng, problem, error, text):
    with pytest.raises(error, match=text):
        verify(solved(kernel_problem(rng)), **problem)
    with pytest.raises(
        TypeError, match="a result of this library, or a fitted learner that has one as result_; got int"
    ):
        verify(3)


def test_interrupted_results_hold(rng):
    arguments = kernel_problem(rng)
    result = solved(arguments, callback=lambda record: True)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert verify(result, **arguments).holds


# ---------------------------------------------------------------- the arithmetic
def test_eigenvalues_beyond_float64(rng):
    """Small eigenvalues of a matrix of condition 1e15 to ten digits, where float64 has none."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("long double is no longer than double on this machine")
    A = rng.normal(size=(6, 6)).astype(np.longdouble)
    Q = extended.eigenpairs(A + A.T)[1]
    values = np.logspace(-15, 0, 6).astype(np.longdouble)
    found, U = extended.eigenpairs((Q * values) @ Q.T)
    np.testing.assert_allclose(found.astype(float), values.astype(float), rtol=1e-3)
    np.testing.assert_allclose((U.T @ U - np.eye(6)).astype(float), 0, atol=1e-18)


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_cholesky_and_semidefinite(rng, dtype):
    G = rng.normal(size=(5, 5)).astype(dtype)
    A = G @ G.T
    assert float(extended.log_determinant(A)) == pytest.approx(np.linalg.slogdet(A.astype(float))[1])
    assert extended.log_determinant(-A) == -np.inf
    assert extended.is_semidefinite(A, A, 0.0)
    assert not extended.is_semidefinite(A - 2 * np.eye(5, dtype=dtype) * np.trace(A), np.eye(5, dtype=dtype), 1e-9)
    assert not extended.is_semidefinite(np.diag([1.0, -1e-15]).astype(dtype), np.diag([1.0, 1e-15]).astype(dtype), 1e-9)


# ---------------------------------------------------------------- a row against its own multiple in another notation
def own_multiple(seed):
    """``<M, K> <= b`` and ``<times M, K> >= 1.2 times b`` with M of rank 1 to 5 as a matrix, sparse, or as vectors and weights."""
    rng = np.random.default_rng(seed)
    V, times, b = rng.normal(size=(8, int(rng.integers(1, 6)))), 10.0 ** rng.uniform(-3, 3) / 7, rng.uniform(0.5, 2.0)
    weights = rng.uniform(0.1, 1.0, size=V.shape[1]) * rng.choice([1.0, -1.0], V.shape[1])
    M = (V * weights) @ V.T
    M = (M + M.T) / 2
    t, U = np.linalg.eigh(times * M)
    on = np.abs(t) > 1e-12 * np.abs(t).max()
    other = [times * M, sp.csr_array(times * M), (U[:, on], t[on]), (V, times * weights)][seed % 4]
    first = M if seed % 2 == 0 else (V, weights)
    return Constraints.linear([first], [b], "<=") + Constraints.linear([other], [1.2 * times * b], ">=")


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_a_row_against_its_own_multiple_is_confirmed_to_be_infeasible(divergence):
    for seed in range(50):
        arguments = {"prior": np.eye(8) + 0.1, "constraints": own_multiple(seed), "divergence": divergence}
        result = nearest_kernel(arguments["prior"], arguments["constraints"], divergence=divergence)
        assert result.status == "INFEASIBLE"
        found = verify(result, **arguments)
        assert found.holds, (seed, found)


def test_another_row_is_no_multiple():
    """A direction in which the sum of the rows is negative by more than rounding of the entries proves nothing."""
    rows = Constraints.linear([np.diag([1.0, 1e-6])], [1.0], "<=") + Constraints.linear([np.eye(2)], [1.2], ">=")
    result = nearest_kernel(np.eye(2), rows)
    assert result.status == "OPTIMAL"
    claim = {"status": Status.INFEASIBLE, "dual": np.array([1.0, -1.0]), "conflict": np.arange(2), "gap": np.inf}
    assert not verify(replace(result, **claim), prior=np.eye(2), constraints=rows).holds


def near_copies(seed):
    """A dense kernel or points, two of which are nearly equal, and a hard row about their difference with its matrix."""
    rng = np.random.default_rng(seed)
    n, apart = int(rng.integers(4, 7)), 10.0 ** rng.uniform(-16, -6)
    X = rng.normal(size=(n, n + 2))
    X[1] = X[0] * (1.0 + apart * rng.normal(size=n + 2))
    e = np.eye(n)[0] - np.eye(n)[1]
    bound = float(((X[0] - X[1]) ** 2).sum()) * rng.uniform(0.3, 3.0)
    sense = str(rng.choice(["<=", ">=", "=="]))
    rows = [
        Constraints.sq_distance(0, 1, bound, sense),
        Constraints.linear([(e[:, None], np.ones(1))], [bound], sense),
        Constraints.linear([np.outer(e, e)], [bound], sense),
    ][int(rng.integers(3))]
    return X, (X @ X.T + (X @ X.T).T) / 2, rows, bound, sense


def exact_miss(points, bound, sense):
    """Violation of the row at the factor ``points`` (n, k) of fractions, relative to the bound."""
    over = (sum((a - b) ** 2 for a, b in zip(points[0], points[1])) - Fraction(bound)) / Fraction(bound)
    return float({"<=": over, ">=": -over, "==": abs(over)}[sense])


def near_copies_solved(divergence, seeds):
    """Results of rows about near copies that are not refused, the arguments for verify, and exact violations."""
    for seed in seeds:
        X, K, rows, bound, sense = near_copies(seed)
        is_metric = seed % 3 == 0
        given = {"X": X} if is_metric else {"prior": K}
        arguments = given | {"constraints": rows, "divergence": divergence}
        try:
            result = (nearest_metric if is_metric else nearest_kernel)(
                X if is_metric else K, rows, divergence=divergence
            )
        except ValueError as error:
            assert "row 0" in str(error) or "constraint 0" in str(error)
            continue
        factor = [[Fraction(float(x)) for x in row] for row in (result.B if is_metric else result.factor)]
        if is_metric:  # the learned metric is B B', and differences of the data are exact
            points = [[Fraction(float(x)) for x in row] for row in X[:2]]
            factor = [[sum(x * b for x, b in zip(row, column)) for column in zip(*factor)] for row in points]
        yield result, arguments, exact_miss(factor, bound, sense)


@pytest.mark.not_verified(
    "dual weights of up to 1e21 beside a dense prior: rounding of the prior moves bounds by more than `verify` allows"
)
@pytest.mark.parametrize("divergence", NAMES)
def test_rows_about_near_copies_are_met_or_not_claimed(divergence):
    """A difference of points is only as exact as the points: OPTIMAL with a violation of 0 was said of rows missed by 7e-4."""
    met = 0
    for result, arguments, missed in near_copies_solved(divergence, range(40)):
        claims = result.status in ("OPTIMAL", "FEASIBLE")
        assert not claims or missed <= 1e-6
        met += claims
        assert verify(result, **arguments).status == result.status
    assert met >= 5


@pytest.mark.not_verified("makes false claims on purpose, which `verify` refuses")
@pytest.mark.parametrize("divergence", NAMES)
def test_verify_refuses_rows_that_only_rounding_meets(divergence, monkeypatch):
    """The claims of a certificate that takes differences of points as exact."""
    monkeypatch.setattr(NearestMatrix, "_rounding_of_values", lambda self, *_: np.zeros(self.c))
    false = 0
    for result, arguments, missed in near_copies_solved(divergence, range(40)):
        if result.status in ("OPTIMAL", "FEASIBLE") and missed > 1e-6:
            false += 1
            assert verify(result, **arguments).status == "UNKNOWN"
    assert false


@pytest.mark.not_verified("a claim that is false on purpose, which `verify` refuses")
def test_large_values_that_cancel_do_not_excuse_a_missed_row():
    """``x_1^2 - x_2^2 = 1`` was confirmed of x_1 = 1e8 and the number before it: 16 roundings of 1e16 excused the 2.98 there."""
    rows = Constraints.linear([np.diag([0.0, 1.0, -1.0]), np.diag([1.0, 0.0, 0.0])], [1.0, 1.0], "==")
    arguments = {"C": np.diag([1.0, 0.0, 0.0]), "constraints": rows}
    result = bregmat.semidefinite_program(**arguments)
    assert verify(result, **arguments).holds
    for large in (1e8, 1e10):
        x = np.array([1.0, large, np.nextafter(large, 0.0)])
        value = Fraction(x[1]) ** 2 - Fraction(x[2]) ** 2
        assert value > 2
        point = replace(result.coordinates, base=np.eye(3), R=None, scale=1.0)
        met = {"values": np.ones(2), "violation": np.zeros(2), "max_violation": 0.0, "objective": 1.0}
        claim = replace(result, coordinates=point, iterate=Factored(np.diag(x), 0.0), **met)
        assert np.array_equal(claim.factor, np.diag(x))
        assert verify(claim, **arguments).status == "UNKNOWN"


@pytest.mark.not_verified("a claim that is false on purpose, which `verify` refuses")
def test_large_entries_that_cancel_do_not_excuse_a_missed_row_of_a_vector():
    """``x_1 - x_2 = 1`` was confirmed of two equal entries of 1e17, whose 8 roundings are more than 1."""
    arguments = {"prior": np.ones(2), "A": [[1.0, -1.0]], "b": [1.0], "sense": "==", "total": None}
    result = bregmat.nearest_distribution(**arguments)
    assert result.status == "OPTIMAL" and verify(result, **arguments).holds
    x = np.full(2, 1e17)
    objective = 2.0 * float(x[0] * np.log(x[0]) - x[0] + 1.0)
    met = {"values": np.ones(1), "violation": np.zeros(1), "max_violation": 0.0, "status": Status.FEASIBLE}
    figures = {"objective": objective, "unit": objective, "gap": (objective - result.dual_bound) / objective}
    claim = replace(result, x=x, **met, **figures)
    assert verify(claim, **arguments).status == "UNKNOWN"


@pytest.mark.parametrize("is_met", [True, False])
def test_a_row_is_judged_at_the_matrix_that_the_result_holds(is_met):
    """Differences of large points are exact where the points are multiples of powers of 2: they are no rounding."""
    G = np.array([[2.0**20, 0.0], [2.0**20 + 2.0**-14, 0.0], [0.0, 1.0]])
    bound = 2.0**-28 * (1.0 if is_met else 1.0 - 4e-6)  # |g_0 - g_1|^2, or a little less
    rows = Constraints.sq_distance(0, 1, bound, "<=")
    arguments = {"prior": G @ G.T, "constraints": rows, "divergence": "frobenius"}
    problem = MatrixVerifier(arguments, nearest_kernel(**arguments, max_iter=1))
    problem.claimed = G.astype(problem.real)
    _, noise = problem.rows.values(problem.lifted())
    assert noise[0] > 1e-6 * bound
    problem.report = Verification(Status.FEASIBLE, Status.FEASIBLE, result=problem.result)
    assert problem.check_rows() == is_met


@pytest.mark.parametrize(
    "how",
    [{"strategy": "accuracy"}, *({"strategy": "f_beta", "beta": b} for b in (0.0, 0.5, 2.0))]
    + [{"strategy": s, "min_rate": r} for s in ("max_tpr", "max_tnr") for r in (0.0, 0.3, 0.8, 1.0)],
)
def test_threshold_is_best(how, rng):
    distances, y = rng.integers(0, 12, 60) / 4.0, rng.choice([-1, 1], 60)

    def value(threshold):
        near = distances <= threshold
        hit, alarm = (near & (y > 0)).sum(), (near & (y < 0)).sum()
        tpr, tnr = hit / (y > 0).sum(), 1 - alarm / (y < 0).sum()
        rate = how.get("min_rate")
        if how["strategy"] == "accuracy":
            return np.mean(near == (y > 0))
        if how["strategy"] == "f_beta":
            precision, b2 = hit / max(near.sum(), 1), how["beta"] ** 2
            return 0.0 if hit == 0 else (1 + b2) * precision * tpr / (b2 * precision + tpr)
        sought, other = (tpr, tnr) if how["strategy"] == "max_tpr" else (tnr, tpr)
        return sought if other >= rate else -1.0

    best = max(value(threshold) for threshold in (-1.0, *distances))
    assert value(calibrated(distances, y, **how)) == pytest.approx(best, abs=1e-12)
