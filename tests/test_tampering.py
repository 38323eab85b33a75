"""``bregmat.verify`` beside results that were changed: no field of any kind of result may say more than is proven."""

from copy import copy
from dataclasses import fields, replace
from itertools import combinations

import numpy as np
import pytest

import bregmat
from bregmat import Constraints, Factor, Status, verify
from bregmat.applications.softmax import PairScores, softmax_metric
from bregmat.margin import MarginProblem, kernel_source, train_margin
from test_verification import kernel_problem, other_results, solved

# What describes the run, what was asked for, and names of rows that are no claim about the problem.
DESCRIPTIONS = {"n_iter", "seconds", "history", "solver", "trace", "last", "exit_reason", "tol", "call"}
PROVEN = (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN)
# Where nothing is optimal, only the proof is a claim.
PROOFS = {
    "MatrixResult": {"status", "conflict", "dual"},
    "QPResult": {"status", "conflict", "equality_dual", "direction"},
    "DistributionResult": {"status", "conflict", "dual"},
    "CorrelationResult": {
        "status",
        "conflict",
        "dual",
        "null_space",
        "rows",
        "divergence",
        "min_eig",
        "rank",
    },
    "MarginResult": {"status", "conflict", "alpha", "margin_bound"},
    "SemidefiniteResult": {"status", "conflict", "dual", "ray"},
}
NOT_USED = {"dual"}  # by the proof of UNBOUNDED of a SemidefiniteResult
# Larger or smaller values of these claim less.
LARGER_IS_WEAKER = {
    "gap",
    "bound",
    "kkt_residual",
    "bound_perturbation",
    "curvature_tolerance",
    "margin_bound",
    "max_violation of MarginResult",
}
SMALLER_IS_WEAKER = {"dual_bound", "relaxation_bound"}


def other_statuses(rng):
    """(arguments, result) of statuses and of arguments that the plain problems do not have."""
    arguments = kernel_problem(rng)
    yield arguments, solved(arguments, max_iter=1)
    rows = Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 9.0, 1.0], ["<=", ">=", "<="])
    arguments = {"prior": np.eye(3), "constraints": rows}
    yield arguments, solved(arguments)
    arguments = {"A": np.eye(3) + 1, "b": -np.ones(3), "equality": ([[1.0, 1.0, 0]], [1.0]), "upper": [0.6, np.inf, 1]}
    yield arguments, bregmat.nnqp(**arguments)
    yield {"A": np.eye(3), "b": np.ones(3)}, bregmat.nnqp(np.eye(3), np.ones(3))
    arguments = {"A": [[1.0, -1.0], [-1.0, 1.0]], "b": [-1.0, 0.5]}
    yield arguments, bregmat.nnqp(**arguments)
    arguments = {"A": np.eye(2), "b": np.ones(2), "equality": ([[1.0, 1.0]], [-1.0])}
    yield arguments, bregmat.nnqp(**arguments)
    X, signs = np.array([[0.0], [1.0], [0.5]]), np.array([1.0, 1.0, -1.0])
    machine = train_margin(MarginProblem.build(kernel_source(X, "linear"), signs, C=np.inf))
    yield {"kernel": X @ X.T, "signs": signs, "C": np.inf}, machine
    C = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1.0]])
    arguments = {"C": C, "fixed": ~np.eye(3, dtype=bool)}
    yield arguments, bregmat.nearest_correlation(**arguments)
    for more in (
        {"rank": 2},
        {"min_eig": 0.1, "scale": True},
        {"weights": 1 + C**2, "bounds": (-0.8, 0.8)},
        {"bounds": (None, -0.6)},
    ):
        yield {"C": C} | more, bregmat.nearest_correlation(C, **more)
    arguments = {"C": np.diag([1.0, 2.0, 3.0]) + 0.5, "divergence": "logdet"}
    yield arguments, bregmat.nearest_correlation(**arguments)
    for more in ({"target": np.eye(3) + 0.3 - 0.3 * np.eye(3)}, {"min_eig": 0.1, "scale": True}):
        yield {"C": C} | more, bregmat.shrink_correlation(C, **more)
    for k in (1, 2):
        yield {"C": C, "n_factors": k}, bregmat.factor_correlation(C, k)
    arguments = {"prior": np.ones(3), "A": [[1.0, 0, 0], [1.0, 0, 0]], "b": [0.1, 0.5], "sense": ["<=", ">="]}
    yield arguments, bregmat.nearest_distribution(**arguments)
    C, trace = np.diag([1.0, -1.0, 2.0]), Constraints.trace(1.0)
    for rows in (trace, Constraints.diagonal([1.0], [0]), trace + Constraints.diagonal([2.0], [0])):
        arguments = {"C": C, "constraints": rows}
        yield arguments, bregmat.semidefinite_program(**arguments)
    plane = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 3))
    for more in ({}, {"objective": "variance"}, {"slack_weight": 1.0}):
        arguments = {"X": plane, "n_neighbors": 5} | more
        yield arguments, bregmat.unfold(**arguments)
    scores = PairScores.sq_distances(rng.normal(size=(6, 3)), rng.normal(size=(4, 3)))
    arguments = {"scores": scores, "targets": rng.dirichlet(np.ones(4), size=6), "temperature": 0.5}
    yield arguments, softmax_metric(**arguments)


@pytest.fixture(scope="module")
def results():
    """(arguments, result) of every kind and status."""
    rng, found = np.random.default_rng(20261120), []
    for divergence in ("logdet", "vonneumann", "frobenius"):
        for weight in (np.inf, 1.0):
            arguments = kernel_problem(rng, divergence, weight)
            found.append((arguments, solved(arguments)))
    for arguments, result, _, _ in other_results(rng):
        if not any(result is other for _, other in found):
            found.append((arguments, result))
    return [*found, *other_statuses(rng)]


def changes(result):
    """(name, value) of everything that says something else, or more, than a result does."""
    for field in fields(result):
        name, value = field.name, getattr(result, field.name)
        if name in DESCRIPTIONS or (result.status not in PROVEN and name not in proof_of(result)):
            continue
        yield from ((name, new) for new in changed(name, value, result) if not same(value, new))


def proof_of(result):
    """Names of the fields that prove that a problem has no optimum."""
    names = PROOFS[type(result).__name__]
    is_ray = isinstance(result, bregmat.SemidefiniteResult) and result.status is Status.UNBOUNDED
    return names - NOT_USED if is_ray else names


def _with_frame(iterate, times):
    """A copy of an iterate whose frame is changed."""
    other = copy(iterate)
    other.F = times * iterate.F
    return other


def changed(name, value, result):
    """Other values of a field."""
    if name == "status":
        return [s for s in Status if s is not value and not (value in PROVEN and s in PROVEN[PROVEN.index(value) :])]
    if name == "iterate":
        return [_with_frame(value, times) for times in (np.nan, 1.1, 9.0)]
    if name == "coordinates":
        return [replace(value, scale=2.0 * value.scale)]
    if value is None:
        return {
            "conflict": [np.array([0])],
            "direction": [np.ones(len(getattr(result, "x", [0])))],
            "ray": [np.eye(3)],
            "rank": [1],
            "n_factors": [1],
            "factor": [np.eye(len(getattr(result, "X", [0])))],
            "null_space": [np.eye(len(getattr(result, "X", [0])))[:, :1]],
            "labels": [(["a"], ["a"])],
            "frame": ["polars"],
            "deviations": [np.ones(len(getattr(result, "X", [0])))],
            "singular": [np.array([0])],
        }[name]
    if isinstance(value, str):
        return [value + "x"]
    weaker = {name, f"{name} of {type(result).__name__}"} & LARGER_IS_WEAKER
    if isinstance(value, float | int | np.number):
        larger = [] if weaker else [np.inf, value + 1.0, 9.0 * value + 1e-3]
        return [np.nan, *larger, *([] if name in SMALLER_IS_WEAKER else [-np.inf, value - 1.0])]
    assert isinstance(value, np.ndarray), name
    if value.dtype == bool:
        return [~value, np.ones_like(value)]
    if value.dtype.kind in "iu":
        return [value + 1, value[:-1]]
    # a multiple of a proof is another proof
    larger = [] if weaker or result.status not in PROVEN else [value + 1.0, 9.0 * value + 1e-3]
    return [np.full_like(value, np.nan), np.full_like(value, -np.inf), value[:-1], -3.0 * value - 1.0, *larger]


def same(one, other):
    """Whether a change is none."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one is not None and np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
    return one is other or (isinstance(one, float) and (one == other or (np.isnan(one) and np.isnan(other))))


def confirmed(arguments, result, **changed):
    """Whether `verify` confirms a changed result; results of other problems are refused with a ValueError."""
    try:
        return verify(replace(result, **changed), **arguments).holds
    except ValueError:
        return False


def text(result, changes):
    """What was changed in which result, for messages."""
    return f"{type(result).__name__} {result.status}: {changes}, before {[getattr(result, name) for name in changes]}"


@pytest.mark.slow
def test_no_changed_field_is_confirmed(results):
    seen, wrong = set(), []
    for arguments, result in results:
        assert verify(result, **arguments).holds, verify(result, **arguments)
        seen.add((type(result).__name__, str(result.status)))
        for name, value in changes(result):
            if confirmed(arguments, result, **{name: value}):
                wrong.append(text(result, {name: value}))
    assert not wrong, "\n".join(wrong)
    assert len({kind for kind, _ in seen}) == 11
    assert {status for _, status in seen} == {"OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNBOUNDED"}


@pytest.mark.slow
def test_no_two_changed_fields_are_confirmed(results):
    """Two changes of each of two fields: not a number, infinite, or other finite values, in turn."""
    wrong = []
    for arguments, result in results:
        by_field = {}
        for name, value in changes(result):
            by_field.setdefault(name, []).append(value)
        for k, (one, other) in enumerate(combinations(by_field, 2)):
            for i, j in ((k, k), (k + 1, k), (k, k + 1), (k + 1, k + 1)):
                first, second = by_field[one], by_field[other]
                both = {one: first[i % len(first)], other: second[j % len(second)]}
                if confirmed(arguments, result, **both):
                    wrong.append(text(result, both))
    assert not wrong, "\n".join(wrong)


def that_fit(result):
    """Changes of several fields that explain each other: bounds and gaps, objectives, units, statuses, values and violations."""
    objective, bound, unit = result.objective, result.dual_bound, result.unit
    up = bound + 0.1 * unit
    yield {"dual_bound": objective + 1.0, "gap": 0.0}
    yield {"dual_bound": np.inf, "gap": 0.0}
    yield {"objective": objective + unit, "dual_bound": bound + unit}
    yield {"objective": objective - unit, "dual_bound": bound - unit}
    yield {"dual_bound": up, "objective": up, "gap": 0.0}
    yield {"objective": np.inf, "gap": np.inf}
    yield {"objective": np.inf, "gap": np.inf, "unit": np.inf}
    yield {"objective": -np.inf, "dual_bound": -np.inf}
    yield {"unit": 1e3 * unit, "gap": 1e-3 * result.gap}
    yield {"unit": np.inf, "gap": 0.0}
    yield {"status": Status.INFEASIBLE, "conflict": np.array([0]), "gap": np.inf}
    yield {"status": Status.UNBOUNDED, "gap": np.inf}
    yield {"status": Status.OPTIMAL, "gap": 0.0, "tol": 1e-8, "objective": up, "dual_bound": up}
    if hasattr(result, "values"):
        yield {"values": 9.0 * result.values + 1.0, "violation": np.zeros_like(result.violation)}
    if hasattr(result, "residual"):
        yield {"residual": 2 * result.residual + 1, "objective": (2 * result.residual + 1) ** 2 / 2}


def test_no_changed_fields_that_fit_each_other_are_confirmed(results):
    wrong = []
    for arguments, result in results:
        if result.status not in PROVEN:
            continue
        for changed in that_fit(result):
            if confirmed(arguments, result, **changed):
                wrong.append(text(result, changed))
    assert not wrong, "\n".join(wrong)


# ---------------------------------------------------------------- claims that once were confirmed
def test_the_identity_is_not_the_nearest_correlation_matrix():
    """Also where null vectors are named that nothing forces: what cannot be recomputed is not confirmed."""
    C = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.84], [0.9, 0.84, 1.0]])
    result = bregmat.nearest_correlation(C)
    far = float(((np.eye(3) - C) ** 2).sum()) / 2
    claim = replace(result, X=np.eye(3), objective=far, dual_bound=far, gap=0.0, residual=np.sqrt(2 * far), unit=far)
    assert far > 2.3 > 1.0 > result.objective
    for null_space in (None, np.eye(3)[:, :1]):
        assert verify(replace(claim, null_space=null_space), C=C).verdict == "does not hold"
    fixed = np.zeros((3, 3), dtype=bool)
    fixed[0, 1] = fixed[1, 0] = True
    result = bregmat.nearest_correlation(C, fixed=fixed)
    claim = replace(result, null_space=np.eye(3)[:, :1])
    assert verify(result, C=C, fixed=fixed).holds
    assert verify(claim, C=C, fixed=fixed).verdict == "not recomputed"


def test_null_vectors_that_nothing_forces_prove_no_contradiction():
    C, fixed = np.eye(3), ~np.eye(3, dtype=bool)
    result = bregmat.nearest_correlation(C, fixed=fixed)
    weights = np.where(result.rows[:, 0] == result.rows[:, 1], -1.0, 0.0)
    claim = {"status": Status.INFEASIBLE, "dual": weights, "null_space": np.eye(3), "conflict": result.rows[:3]}
    assert not confirmed({"C": C, "fixed": fixed}, result, gap=np.inf, **claim)


def test_a_kernel_outside_of_the_range_of_the_prior_is_refused():
    """The Frobenius divergence of the part in the range says nothing of the rest."""
    rows = Constraints.diagonal([1.0], [0])
    result = solved({"prior": Factor([[1.0], [0.0], [0.0]]), "constraints": rows, "divergence": "frobenius"})
    assert result.status is Status.OPTIMAL
    assert result.objective == 0.0
    for prior in (Factor(np.array([[1.0], [1.0], [0.0]])), Factor(np.array([[0.0], [1.0], [1.0]]))):
        arguments = {"prior": prior, "constraints": rows, "divergence": "frobenius"}
        assert not confirmed(arguments, result)


@pytest.mark.parametrize("b", [-np.sqrt(2.0), -1.0])
def test_a_bound_that_nothing_reaches_is_not_confirmed(b):
    """At x = 0 the optimum is ``-b^2 / 2``, and -1e-9 bounds nothing."""
    arguments = {"A": np.eye(1), "b": [b]}
    result = bregmat.nnqp(**arguments)
    claim = {"x": np.zeros(1), "objective": 0.0, "dual_bound": -1e-9, "dual": np.array([b]), "kkt_residual": 1.0}
    claim["unit"] = 1e-4 * b**2
    claim["gap"] = 1e-9 / claim["unit"]
    for status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN):
        found = verify(replace(result, status=status, **claim), **arguments)
        assert found.verdict == ("does not hold" if status is Status.OPTIMAL else "not recomputed"), found


def test_statuses_that_a_kind_of_result_never_has(results):
    """Combinations of hypotheses and balanced cuts always exist, and the objectives of matrices are bounded."""
    never = {"BoostResult": (Status.INFEASIBLE, Status.UNKNOWN), "CutResult": (Status.INFEASIBLE, Status.UNKNOWN)}
    never["MatrixResult"] = (Status.UNBOUNDED,)
    for arguments, result in results:
        for status in never.get(type(result).__name__, ()):
            found = verify(replace(result, status=status, conflict=np.array([0]), gap=np.inf), **arguments)
            assert found.status is Status.UNKNOWN
            assert found.problems[0] == f"a result of this kind is never {status}"


def test_boosting_is_optimal_only_where_its_loss_is_next_to_nothing():
    H, y = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]), np.array([1.0, 1.0, -1.0])
    perfect = bregmat.boost_hypotheses(H, y, n_steps=60)
    assert perfect.status is Status.OPTIMAL
    assert perfect.objective <= perfect.tol
    assert verify(perfect, H=H, y=y).holds
    short = bregmat.boost_hypotheses(H[:, 1:], y, n_steps=3)
    assert short.status is Status.FEASIBLE
    assert not verify(replace(short, status=Status.OPTIMAL), H=H[:, 1:], y=y).holds


def test_without_the_problem_nothing_is_confirmed(results):
    for _, result in results:
        forgotten = replace(result, call=None)
        assert verify(forgotten).verdict == "not recomputed"
        assert "NOT RECOMPUTED" in repr(verify(forgotten))
        assert verify(replace(forgotten, dual_bound=np.nan)).verdict == "does not hold"
