"""Bad input ends in one clear error that names argument, value and rows - before any work, and with nothing lost.

Files with unknown columns or relations: test_io_tables.py; damaged model files: test_io.py. The matrix of every public entry and
command times bad values is at the end; its tables are in bad_inputs.py.
"""

import inspect
import pickle
import re
import shutil
import time
import traceback
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from typer.testing import CliRunner

import bregmat
from bad_inputs import COMMANDS, ENTRIES, bad_commands, write_files
from bregmat import (
    Constraints,
    CyclicProjection,
    DefiniteBoost,
    Factor,
    LogDet,
    MetricLearner,
    SquaredHinge,
    constraints_from_labels,
    nearest_kernel,
    nearest_metric,
)
from bregmat.io import check_writable, read_constraints
from bregmat_app.cli.app import app
from cases import SOLVER_CLASSES, random_pairs

EYE = np.eye(4)
X = np.arange(12.0).reshape(4, 3) ** 1.5
PAIR = Constraints.sq_distance(0, 1, 1.0, "<=")
pair, nan, inf = Constraints.sq_distance, np.nan, np.inf
kernel, metric = nearest_kernel, nearest_metric


def nan_at(A, row):
    A = np.array(A, dtype=float)
    A[row, 1] = nan
    return A


class Unfinished:
    """A solver object that lacks a name."""

    check = init = step = None


def raises(error, message):
    return pytest.raises(error, match=message)


# ---------------------------------------------------------------- constraints
@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda: pair([0, 3, 2], [1, 3, 2], 1.0, "<="),
            ValueError,
            "i and j must be different samples.*constraints 1, 2",
        ),
        (
            lambda: pair(["a", "b"], ["a", "c"], 1.0, "<="),
            ValueError,
            "i and j must be different samples.*constraint 0",
        ),
        (lambda: pair([0, 1], [1, 2], [1.0, nan], "<="), ValueError, "bound must be finite; got nan in constraint 1"),
        (lambda: pair([0, 1], [1, 2], [inf, 1.0], "<="), ValueError, "bound must be finite; got inf in constraint 0"),
        (
            lambda: pair([0] * 9, range(1, 10), -2.0, "<="),
            ValueError,
            "got -2.0 in constraints 0, 1, 2, 3, 4 and 4 more",
        ),
        (
            lambda: Constraints.diagonal([1.0, -3.0]),
            ValueError,
            "diagonal must be at least 0.*got -3.0 in constraint 1",
        ),
        (lambda: Constraints.trace(-1.0), ValueError, "trace must be at least 0.*got -1.0 in constraint 0"),
        (lambda: pair([], [], 1.0, "<="), ValueError, "constraints are empty"),
        (lambda: pair([0, 1], [1, 2, 3], 1.0, "<="), ValueError, "i, j must have the same length; got i: 2, j: 3"),
        (lambda: pair([[0, 1]], [1, 2], 1.0, "<="), ValueError, r"i must be 1-dimensional.*\(1, 2\)"),
        (lambda: pair([0, -1], [1, 2], 1.0, "<="), ValueError, "i must be at least 0.*got -1 in constraint 1"),
        (lambda: pair([0, 1.5], [1, 2], 1.0, "<="), ValueError, "i must hold row numbers.*got 1.5 in constraint 1"),
        (lambda: pair([0.0, nan], [1, 2], 1.0, "<="), ValueError, "i must hold row numbers.*got nan in constraint 1"),
        (lambda: pair([True], [False], 1.0, "<="), TypeError, "i must hold row numbers or sample names, not booleans"),
        (lambda: pair(["a"], [1], 1.0, "<="), TypeError, "i, j must all be numbers or all be names"),
        (lambda: pair([0, 1], [1, 2], [1.0, 2.0, 3.0], "<="), ValueError, r"bound must be.*\(2\); got shape \(3,\)"),
        (lambda: pair(0, 1, "far", "<="), TypeError, "bound must be numeric; got 'far'"),
        (lambda: pair([0, 1], [1, 2], 1.0, ["<=", "<"]), ValueError, "sense must be.*got '<' in constraint 1"),
        (lambda: pair([0, 1], [1, 2], 1.0, ["<="] * 3), ValueError, r"sense must be one.*\(2\); got 3"),
        (
            lambda: pair([0, 1], [1, 2], 1.0, "<=", weight=[1.0, 0.0]),
            ValueError,
            "weight must be positive.*0.0 in constraint 1",
        ),
        (lambda: pair(0, 1, 1.0, "<=", weight=nan), ValueError, "weight must be positive.*got nan in constraint 0"),
        (lambda: Constraints.comparison(0, 1, 2, 2), ValueError, "k and l must be different samples.*constraint 0"),
        (lambda: Constraints.comparison(0, 1, 1, 0), ValueError, r"\(i, j\) and \(k, l\) must be diff.*constraint 0"),
        (lambda: Constraints.comparison(0, 1, 2, 3, nan), ValueError, "must be finite; got nan in constraint 0"),
        (lambda: Constraints.similarity_comparison(0, 1, 1, 0), ValueError, r"\(j, k\) and \(l, m\) must be diff"),
        (
            lambda: Constraints.linear([np.ones((2, 3))], 1.0, "<="),
            ValueError,
            r"matrices\[0\] must be square.*\(2, 3\)",
        ),
        (
            lambda: Constraints.linear([EYE, EYE + np.eye(4, k=1)], 1.0, "<="),
            ValueError,
            r"matrices\[1\] must be symmetric",
        ),
        (lambda: Constraints.linear([nan_at(EYE, 2)], 1.0, "<="), ValueError, r"matrices\[0\] must be finite; got NaN"),
        (
            lambda: Constraints.linear([sp.csr_array(nan_at(EYE, 2))], 1.0, "<="),
            ValueError,
            r"matrices\[0\] must be finite; got NaN",
        ),
        (lambda: Constraints.linear([EYE, np.eye(3)], 1.0, "<="), ValueError, r"same size; got \[3, 4\]"),
        (
            lambda: Constraints.linear([(np.ones((4, 2)), np.ones(3))], 1.0, "<="),
            ValueError,
            r"matrices\[0\]: weights must have one entry per vector \(2\); got shape \(3,\)",
        ),
        (lambda: PAIR.select([False]), ValueError, "no constraint is left"),
        (
            lambda: PAIR.select([0, 5]),
            ValueError,
            r"mask must be below the number of constraints \(1\); got 5 at place 1",
        ),
        (
            lambda: PAIR.select(2**70),
            ValueError,
            "mask must be below the number of constraints.*; got 1180591620717411303424",
        ),
        (lambda: PAIR.select([True, False]), ValueError, r"mask must have one truth value per constraint \(1\)"),
        (lambda: PAIR.select(0.5), TypeError, "mask must be a mask, a slice or numbers of constraints; got 0.5"),
        (lambda: pair([0, 2**70], [1, 2], 1.0, "<="), ValueError, r"i must be below 2\^63; got 118.* in constraint 1"),
        (lambda: pair([0j], [1], 1.0, "<="), TypeError, "i must hold row numbers or sample names, not complex"),
        (lambda: PAIR.values(1j * EYE), TypeError, "G must be real; got complex"),
        (lambda: PAIR + pair("a", "b", 1.0, "<="), TypeError, "cannot join constraints that name samples by numbers"),
        (lambda: PAIR.values(np.ones(3)), ValueError, r"G must be 2-dimensional.*\(3,\)"),
        (lambda: PAIR.values(np.ones((1, 3))), ValueError, r"up to 1 but the data has 1 rows \(0 to 0\): constraint 0"),
        (
            lambda: pair("a", "b", 1.0, "<=").values(EYE),
            ValueError,
            "name samples such as a; translate them to row numbers",
        ),
        (
            lambda: PAIR.locate(["a", "a"]),
            ValueError,
            "sample_id must be unique; a occurs more than once, in rows 0, 1",
        ),
    ],
)
def test_constraints(build, error, message):
    with raises(error, message):
        build()


def test_rows_without_samples_join_those_with_names():
    named = Constraints.sq_distance(["a", "b"], ["c", "d"], 1.0, "<=")
    trace = (named + Constraints.trace(1.0)).select([2])  # it still holds the names
    joined = trace + Constraints.sq_distance(["x"], ["y"], 2.0, ">=") + named
    said = [joined.describe(row) for row in range(4)]
    assert said == ["tr K == 1", "sq_dist(x, y) >= 2", "sq_dist(a, c) <= 1", "sq_dist(b, d) <= 1"]


def test_joining_with_something_else():
    with raises(TypeError, "unsupported operand"):
        PAIR + 1


def test_constraints_cannot_be_changed_afterwards():
    with raises(ValueError, "read-only"):
        PAIR.bound[0] = -1.0
    with raises(AttributeError, "bound"):
        PAIR.bound = np.array([-1.0])


# ---------------------------------------------------------------- problems
@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: kernel(nan_at(EYE, 2), PAIR), ValueError, "prior must be finite; got NaN or infinity in row 2"),
        (lambda: kernel(np.ones((2, 3)), PAIR), ValueError, r"prior must be square; got shape \(2, 3\)"),
        (lambda: kernel(EYE + np.eye(4, k=1), PAIR), ValueError, "prior must be symmetric; the largest asymmetry is 1"),
        (lambda: kernel(np.diag([1.0, -2, 1, 1]), PAIR), ValueError, "smallest eigenvalue is -2"),
        (lambda: kernel([["a", "b"], ["c", "d"]], PAIR), TypeError, "prior must be numeric"),
        (lambda: kernel(0 * EYE, PAIR), ValueError, "prior is zero"),
        (
            lambda: kernel(Factor(nan_at(X, 1)), PAIR),
            ValueError,
            "the data must be finite; got NaN or infinity in row 1",
        ),
        (
            lambda: kernel(Factor(nan_at(X, 3)), PAIR, divergence="vonneumann"),
            ValueError,
            "G0 must be finite; got NaN.* row 3",
        ),
        (lambda: kernel(Factor([1.0, 2.0]), PAIR), ValueError, r"G0 must be a 2-dimensional array.*\(2,\)"),
        (lambda: metric(nan_at(X, 1), PAIR), ValueError, "X must be finite; got NaN or infinity in row 1"),
        (lambda: metric(sp.csr_array(nan_at(X, 1)), PAIR), ValueError, "X must be finite; got NaN or infinity"),
        (lambda: metric(X[0], PAIR), ValueError, r"X must be 2-dimensional; got shape \(3,\)"),
        (lambda: metric(np.ones((0, 3)), PAIR), ValueError, r"at least one row and one column; got shape \(0, 3\)"),
        (lambda: metric(np.char.add(X.astype(str), "x"), PAIR), TypeError, "X must be numeric"),
        (lambda: metric(X, PAIR, prior=EYE), ValueError, r"prior must have shape \(3, 3\).*\(4, 4\)"),
        (lambda: metric(X, PAIR, prior=nan_at(np.eye(3), 0)), ValueError, "prior must be finite; got NaN.* row 0"),
        (
            lambda: metric(X, pair([0, 1], [1, 7], 1.0, "<=")),
            ValueError,
            r"up to 7 but.*4 rows \(0 to 3\): constraint 1",
        ),
        (lambda: metric(X, pair("a", "b", 1.0, "<=")), ValueError, "name samples such as a; .*sample_id"),
        (lambda: metric(X, Constraints.linear([np.eye(3)], 1.0, "<=")), ValueError, "3 x 3 matrix but.* 4 rows"),
        (lambda: metric(X, [(0, 1)]), TypeError, "constraints must be Constraints.*got list"),
        (lambda: metric(X, PAIR, slack_weight=0), ValueError, r"slack_weight must be positive \(inf = hard\); got 0.0"),
        (lambda: metric(X, PAIR, slack_weight=-1.0), ValueError, "slack_weight must be positive.*got -1.0"),
        (
            lambda: metric(X, PAIR + PAIR, slack_weight=[1, nan]),
            ValueError,
            "slack_weight must be pos.*got nan in constraint 1",
        ),
        (lambda: metric(X, PAIR, slack_weight=[1, 2]), ValueError, r"one entry per constraint \(1\); got shape \(2,\)"),
        (lambda: metric(X, PAIR, slack_weight="heavy"), TypeError, "slack_weight must be numeric; got 'heavy'"),
        (lambda: metric(X, PAIR, divergence="burg"), ValueError, "divergence must be one of logdet.*'burg'"),
        (lambda: metric(X, PAIR, divergence=LogDet), TypeError, "divergence must be.*such as LogDet"),
        (lambda: metric(X, PAIR, loss="hinge", slack_weight=1), ValueError, r"loss must be None.*'hinge'"),
        (lambda: metric(X, PAIR, loss=1.0, slack_weight=1), TypeError, r"loss must be None.*got 1.0"),
        (
            lambda: metric(X, PAIR, solver=DefiniteBoost),
            TypeError,
            r"such as CyclicProjection\(\); got the class DefiniteBoost",
        ),
        (lambda: kernel(1e152 * EYE, PAIR, divergence="vonneumann"), ValueError, "prior has eigenvalues.*Scale"),
        (
            lambda: kernel(
                EYE,
                Constraints.sq_distance(0, 1, 1e-160, "<="),
                divergence="frobenius",
                slack_weight=1.0,
                loss="relative_slack",
            ),
            ValueError,
            "weight of.*over its bound overflows",
        ),
        (lambda: metric(X, PAIR, loss=SquaredHinge, slack_weight=1), TypeError, "loss must be None"),
        (lambda: metric(X, PAIR, solver="simplex"), ValueError, "solver must be 'auto' or one of.*'simplex'"),
        (lambda: metric(X, PAIR, solver=3), TypeError, "solver must be .* or an object such as .*got 3"),
        (
            lambda: metric(X, PAIR, solver=Unfinished()),
            TypeError,
            "solver must be.*which has no max_iter, name, works_on",
        ),
        (lambda: metric(X, PAIR, solver="mirror_newton"), TypeError, "needs a finite slack_weight.*1 constraints"),
        (lambda: metric(X, PAIR, tol=0), ValueError, "tol must be positive and finite; got 0"),
        (lambda: metric(X, PAIR, tol=nan), ValueError, "tol must be positive and finite; got nan"),
        (lambda: metric(X, PAIR, max_iter=-1), ValueError, "max_iter must be at least 0; got -1"),
        (lambda: metric(X, PAIR, max_iter=2.5), TypeError, "max_iter must be an integer or None; got 2.5"),
        (lambda: metric(X, PAIR, max_seconds=0), ValueError, "max_seconds must be positive; got 0"),
        (lambda: metric(X, PAIR, warm_start=np.zeros(1)), TypeError, "warm_start must be an.*Result; got ndarray"),
        (
            lambda: metric(X, PAIR, warm_start=metric(X, PAIR + PAIR)),
            ValueError,
            "warm_start has 2 constraints but there are 1",
        ),
        (
            lambda: SOLVER_CLASSES["dual_newton"](proximal=nan),
            ValueError,
            "DualNewton: proximal must be finite and at least 0; got nan",
        ),
        (
            lambda: SOLVER_CLASSES["interior_point"](ahead=-1.0),
            ValueError,
            "InteriorPoint: ahead must be positive and finite; got -1",
        ),
        (lambda: LogDet()(nan_at(EYE, 0), EYE), ValueError, "logdet: X must be finite; got NaN or infinity in row 0"),
        (lambda: LogDet()(EYE, np.eye(3)), ValueError, r"Y must have shape \(4, 4\); got \(3, 3\)"),
        (lambda: LogDet()(EYE, -EYE), ValueError, "logdet: Y must be positive semi.*is -1"),
    ],
)
def test_problems(build, error, message):
    with raises(error, message):
        build()


# ---------------------------------------------------------------- the papers' solvers
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CyclicProjection(root_tol=0.0), "CyclicProjection: root_tol must be positive and finite; got 0.0"),
        (lambda: CyclicProjection(root_tol=nan), "CyclicProjection: root_tol must be positive and finite; got nan"),
        (
            lambda: CyclicProjection(violation_tol=-1.0),
            "CyclicProjection: violation_tol must be positive and finite; got -1.0",
        ),
        (lambda: CyclicProjection(movement_tol=0.0), "movement_tol must be positive and finite; got 0.0"),
        (lambda: CyclicProjection(movement_tol=nan), "movement_tol must be positive and finite; got nan"),
        (lambda: CyclicProjection(refresh=0), "CyclicProjection: refresh must be.* at least 1; got 0"),
        (lambda: CyclicProjection(refresh=2.5), "CyclicProjection: refresh must be.*; got 2.5"),
        (lambda: CyclicProjection(refresh=nan), "CyclicProjection: refresh must be.*; got nan"),
        (lambda: CyclicProjection(root_tol=inf), "root_tol must be positive and finite; got inf"),
        (lambda: CyclicProjection(root_tol="x"), "CyclicProjection: root_tol must be a number; got 'x'"),
        (lambda: CyclicProjection(corrected="no"), "CyclicProjection: corrected must be True or False; got 'no'"),
        (
            lambda: DefiniteBoost(projection="inexact"),
            "projection must be one of 'exact', 'approximate'; got 'inexact'",
        ),
        (lambda: DefiniteBoost(projection=None), "projection must be one of 'exact', 'approximate'; got None"),
        (lambda: DefiniteBoost(order="random"), "DefiniteBoost: order must be one of 'greedy', 'cyclic'; got 'random'"),
        (lambda: DefiniteBoost(violation_tol=0.0), "DefiniteBoost: violation_tol must be positive and finite; got 0.0"),
        (lambda: DefiniteBoost(root_tol=nan), "DefiniteBoost: root_tol must be positive and finite; got nan"),
        (lambda: DefiniteBoost(block=0), "DefiniteBoost: block must be at least 1; got 0"),
        (lambda: DefiniteBoost(block=1.5), "DefiniteBoost: block must be an integer or None; got 1.5"),
        (lambda: DefiniteBoost(spectrum=(0.0, 1.0)), "spectrum must be two numbers around 0; got .0.0, 1.0"),
        (lambda: DefiniteBoost(spectrum=(1.0, -1.0)), "spectrum must be two numbers around 0"),
        (lambda: DefiniteBoost(spectrum=(-1.0, nan)), "spectrum must be two numbers around 0"),
        (lambda: DefiniteBoost(spectrum=(-1.0, inf)), "spectrum must be"),
        (lambda: DefiniteBoost(spectrum=(-1.0,)), "spectrum must be"),
        (lambda: DefiniteBoost(spectrum=(-1.0, 0.5, 1.0)), "spectrum must be"),
        (lambda: DefiniteBoost(spectrum=1.0), "DefiniteBoost: spectrum must be"),
    ],
)
def test_settings_of_the_papers_solvers(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


TRACE = Constraints.trace(1.0)


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (PAIR, {"solver": "cyclic_projection", "divergence": "frobenius"}, "'logdet' and 'vonneumann' .got 'frobenius'.*dual"),
        (PAIR + TRACE, {"solver": "definite_boost", "divergence": "logdet"}, "needs.*'vonneumann' .got 'logdet'.*cyclic"),
        (PAIR + TRACE, {"solver": "definite_boost", "divergence": "frobenius"}, "needs.*'vonneumann' .got 'frobenius'"),
        (PAIR + TRACE, {"solver": "definite_boost", "slack_weight": 1.0}, "needs hard constraints .2 .* a finite.*and the trace.*cyclic"),
        (PAIR + TRACE, {"solver": "definite_boost", "slack_weight": [1.0, inf]}, "needs hard constraints .1 constraints"),
        (PAIR, {"solver": "definite_boost"}, "needs the trace.*hard equality.*Constraints.trace.*cyclic_projection"),
        (PAIR + Constraints.trace(0.0), {"solver": "definite_boost"}, "needs the trace"),
        (PAIR + Constraints.linear([EYE], 1.0, "<="), {"solver": "definite_boost"}, "needs the trace"),
    ],
)  # fmt: skip
def test_refusals_of_the_papers_solvers(rows, given, message):
    """Before any work: what is missing, and what to use instead."""
    seen = []
    with raises(TypeError, f"{given['solver']}.*{message}"):
        nearest_kernel(EYE, rows, **({"divergence": "vonneumann"} | given), callback=seen.append)
    assert seen == []
    assert nearest_kernel(EYE, rows, **({"divergence": "vonneumann"} | given | {"solver": "auto"})).status in (
        "OPTIMAL",
        "INFEASIBLE",
    )


def test_trace_of_the_kernel_is_not_that_of_a_metric():
    with raises(TypeError, "definite_boost needs the trace.*nearest_metric a trace constraint is about the kernel"):
        nearest_metric(X, PAIR + TRACE, divergence="vonneumann", solver="definite_boost")
    # data that are orthonormal make it one
    assert nearest_metric(np.eye(4), PAIR + TRACE, divergence="vonneumann", solver="definite_boost").status == "OPTIMAL"


@pytest.mark.parametrize("corrected", [True, False])
def test_spectrum_must_hold_all_rows(corrected):
    """Otherwise the bound of Theorem 4.1 is none, and the steps are those of another problem."""
    solver = DefiniteBoost(spectrum=(-0.01, 0.01), projection="approximate", corrected=corrected)
    with pytest.raises((ValueError, TypeError), match="spectrum.*constraint 0"):
        nearest_kernel(EYE, PAIR + TRACE, divergence="vonneumann", solver=solver)


# ---------------------------------------------------------------- points that coincide
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
@pytest.mark.parametrize("slack_weight", [1.0, inf])
def test_identical_points_that_shall_be_apart(divergence, slack_weight):
    """Even with slack this costs infinity; the squared hinge alone has a finite price for it."""
    points = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    rows = pair([0, 0, 2], [1, 2, 0], [1.0, 2.0, 3.0], ">=")
    with raises(ValueError, r"constraints 1, 2: sq_dist\(0, 2\) >= 2 can never hold, because the points are identical"):
        nearest_metric(points, rows, divergence=divergence, slack_weight=slack_weight)
    result = nearest_metric(points, rows, divergence=divergence, slack_weight=1.0, loss=SquaredHinge())
    assert result.status == "OPTIMAL"
    assert result.violation[1:] == pytest.approx(1.0)


def test_points_that_differ_only_where_the_prior_counts_as_0():
    """The points are not identical: an eigenvalue of 1e-12 is left out, and the message says so."""
    rows = Constraints.diagonal([1.0], [1])
    with raises(ValueError, r"0 for every matrix in the range of the prior.*below 1e-12 .* count as 0.*Factor.widened"):
        nearest_kernel(np.diag([1.0, 1e-12]), rows)


def test_identical_points_with_other_senses():
    points = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    with raises(ValueError, r"constraint 0: sq_dist\(0, 1\) == 2 can never hold"):
        nearest_metric(points, pair(0, 1, 2.0, "=="))
    assert nearest_metric(points, pair(0, 1, 0.0, ">=")).status == "OPTIMAL"
    assert nearest_metric(points, pair(0, 1, 2.0, "<=")).objective == 0.0


def test_different_classes_of_identical_points():
    with raises(ValueError, "no two labelled points of X were found to differ: see rows 0, 1, 3"):
        constraints_from_labels([[1.0], [1.0], [2.0], [1.0]], ["a", "a", None, "b"])


# ---------------------------------------------------------------- labels
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1, 1, -1, 1], "y holds exactly the labels -1 and 1, and unlabeled=-1.*pass unlabeled=None"),
        ([0.0, 0.5, 1.0, 1.0], r"continuous \(y\[1\] = 0.5; row 1\)"),
        ([0, 1, inf, 1], "y contains infinity.*row 2"),
        ([-1, -1, -1, 2], "y must label at least 2 rows to make a pair; 1 of 4"),
        ([0, 1, 1], "y has 3 labels but X has 4 rows"),
        ([[0, 1], [1, 0], [1, 1], [0, 0]], r"y should be a 1d array.*\(4, 2\)"),
    ],
)
def test_labels(y, message):
    with raises(ValueError, message):
        constraints_from_labels(X, y)
    with raises(ValueError, "y|inconsistent numbers of samples"):  # scikit-learn words some of them itself
        MetricLearner(strategy="random").fit(X, np.array(y))


@pytest.mark.parametrize("sample_id", [[1, 2], [1, 2, 3, 4, 5], [1, 2, 3, 3]])
def test_names_of_rows(sample_id):
    with raises(ValueError, "sample_id must (name each of the 4 rows of X; got [25]|be unique; .*3.* occurs more)"):
        MetricLearner().fit(X, [0, 1, 0, 1], sample_id=sample_id)


# ---------------------------------------------------------------- contradictions
def test_contradiction_is_a_result_with_its_proof(rng):
    """Not an exception: of 40 rows the two that contradict each other are named."""
    points = rng.normal(size=(30, 5))
    i = rng.integers(5, 30, 38)
    j = (i - 4) % 25
    now = ((points[i] - points[j]) ** 2).sum(axis=1)
    met = pair(i, j, now * np.where(i % 2, 1.2, 0.8), np.where(i % 2, "<=", ">="))
    both = pair([3, 3], [4, 4], [1.0, 2.0], ["<=", ">="])
    result = nearest_metric(points, met.select(slice(0, 20)) + both + met.select(slice(20, None)))
    assert result.status == "INFEASIBLE"
    assert result.conflict.tolist() == [20, 21]


# ---------------------------------------------------------------- infinities
@pytest.mark.parametrize(
    "weight", [float("inf"), np.inf, pickle.loads(pickle.dumps(np.inf)), np.float32("inf"), [inf], 1e400]
)
def test_every_infinity_is_hard(weight):
    by_problem = nearest_metric(X, PAIR, slack_weight=weight)
    by_row = nearest_metric(X, pair(0, 1, 1.0, "<=", weight=weight), slack_weight=1.0)
    for result in (by_problem, by_row):
        assert result.status == "OPTIMAL"
        assert result.values[0] == pytest.approx(1.0, rel=1e-6)


# ---------------------------------------------------------------- files
def test_model_files(tmp_path):
    path = tmp_path / "model.bm"
    bregmat.save(path, nearest_metric(X, PAIR))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:500] + b"?" + whole[501:], b"", b"PK"):
        path.write_bytes(damaged)
        with raises(bregmat.ModelFileError, "model.bm"):
            bregmat.load(path)


def test_output_paths_are_checked_before_the_work(tmp_path):
    with raises(FileNotFoundError, "cannot write.*absent.*does not exist"):
        check_writable(tmp_path / "absent" / "model.bm")
    with raises(IsADirectoryError, "cannot write.*it is a folder"):
        check_writable(tmp_path)


def test_constraint_files_name_the_line(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("relation,i,j,bound,sense\nsq_distance,0,1,1,<=\ndistance,0,1,1,<=\n", encoding="utf-8")
    with raises(ValueError, "pairs.csv, line 3: unknown relation 'distance'"):
        read_constraints(path)


# ---------------------------------------------------------------- nothing is changed
def test_arguments_are_left_as_they_were(rng):
    points, prior = rng.normal(size=(20, 4)), np.eye(4) * 2
    rows = random_pairs(rng, points, 30)
    before = [points.copy(), prior.copy(), rows.bound.copy(), rows.index.copy()]
    for divergence in ("logdet", "vonneumann", "frobenius"):
        nearest_metric(points, rows, prior=prior, divergence=divergence, slack_weight=1.0)
        nearest_kernel(Factor(points), rows, divergence=divergence, slack_weight=1.0)
    for old, new in zip(before, [points, prior, rows.bound, rows.index]):
        assert np.array_equal(old, new)


# ---------------------------------------------------------------- every public entry, every bad value
LEARNERS = (
    "MetricLearner",
    "KernelLearner",
    "KernelKMeans",
    "MarginSVC",
    "RetrievalLearner",
    "MatrixExponentiatedGradient",
    "OnlineLogDet",
    "OnlinePCA",
)
# made by the library, not by users; classes to derive from; and what has no parameters
MADE_HERE = (
    "BoostResult",
    "CorrelationResult",
    "CutResult",
    "DistributionResult",
    "MatrixResult",
    "QPResult",
    "Result",
    "Record",
    "SemidefiniteResult",
    "ShrinkResult",
    "SolverError",
    "UnfoldResult",
    "Verification",
)
ABSTRACT = ("ScalarLoss", "SpectralDivergence", "ExitReason", "Status", "ModelFileError")
PLAIN = ("RelativeSlack", "Squared", "SquaredHinge")
# scikit-learn's own words, which its users know and its checks ask for
THEIRS = "Expected 2D array|Found array with|inconsistent numbers of samples|Unknown label type"


def parameters(callable_):
    given = inspect.signature(callable_).parameters.values()
    return {p.name for p in given if p.kind not in (p.VAR_KEYWORD,) and p.name != "self"}


def public_calls():
    """Name and callable of everything that users call: functions, constructors, constructors of constraints, methods of learners."""
    for name in bregmat.__all__:
        if name not in (*MADE_HERE, *ABSTRACT, *PLAIN, "Constraints"):
            given = getattr(bregmat, name)
            yield name, given.__call__ if name in ("LogDet", "VonNeumann", "Frobenius") else given
    inside = (
        "check_range",
        "factors",
        "of_columns",
        "renumbered",
        "touched",
        "usual_slack_weight",
        "where",
    )  # for operators and estimators
    for owner in ("Constraints", "Factor", *LEARNERS):
        for name, method in inspect.getmembers(getattr(bregmat, owner), callable):
            own = (getattr(method, "__module__", None) or "").startswith("bregmat") and name not in (*inside,)
            if own and not name.startswith(("_", "set_", "get_")) and parameters(method):
                yield f"{owner}.{name}", method


def test_every_public_call_has_its_bad_values():
    """A new public name, method or parameter has to say of what kind it is."""
    for name in PLAIN:
        assert not parameters(getattr(bregmat, name))
    calls = dict(public_calls())
    assert sorted(calls) == sorted(set(ENTRIES) - {"MatrixResult.transform", "verify with arguments"})
    for name, call in calls.items():
        assert parameters(call) == set(ENTRIES[name].bad) | set(ENTRIES[name].free), name
    assert sum(len(values) for entry in ENTRIES.values() for values in entry.bad.values()) > 2000


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.good is not None])
def test_good_values_are_taken(name, tmp_path, monkeypatch):
    """Without an error or a warning: what is refused below is refused for its one bad value."""
    monkeypatch.chdir(tmp_path)
    ENTRIES[name].call(**ENTRIES[name].good)


@pytest.mark.parametrize(("name", "parameter"), [(name, p) for name, entry in ENTRIES.items() for p in entry.bad])
def test_bad_values_are_refused_by_name(name, parameter, tmp_path, monkeypatch):
    """Each ends in a TypeError or ValueError that names the argument (OSError for files), soon, and raised by a check."""
    monkeypatch.chdir(tmp_path)
    entry = ENTRIES[name]
    word = rf"(?<!\w)({entry.called.get(parameter, parameter)})(?!\w)|{THEIRS}"
    for kind, value in entry.bad[parameter].items():
        start = time.process_time()
        with pytest.raises((TypeError, ValueError, OSError)) as caught, warnings.catch_warnings():
            warnings.simplefilter("error")
            entry.call(**(entry.good or {}) | {parameter: value})
        assert re.search(word, str(caught.value)), (kind, caught.value)
        deepest = traceback.extract_tb(caught.tb)[-1].filename
        assert "bregmat" in deepest or "sklearn" in deepest or isinstance(caught.value, OSError), (
            kind,
            caught.value,
            deepest,
        )
        assert time.process_time() - start < 10.0, kind


# ---------------------------------------------------------------- every command, every bad option
def test_every_option_of_every_command_has_its_bad_values():
    commands = typer.main.get_command(app).commands
    assert sorted(commands) == sorted(COMMANDS)
    for name, command in commands.items():
        known = {option.opts[0] for option in command.params}
        assert known == set(COMMANDS[name].bad) | set(COMMANDS[name].free), name
    assert sum(1 for _ in bad_commands()) > 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what the commands are given."""
    folder = tmp_path_factory.mktemp("commands")
    write_files(folder)
    return folder


@pytest.fixture
def files(folder):
    """That folder; what a command leaves there is removed."""
    before = set(folder.iterdir())
    yield folder
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("arguments", "named"), list(bad_commands()), ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_commands_end_in_one_error(arguments, named, files, monkeypatch):
    """Exit code 2 and a message that names the file or the option, which is an argument of the library, before any work."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "300")
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 2 and (run.exception is None or isinstance(run.exception, SystemExit)), (
        run.output,
        run.exception,
    )
    named = re.sub(r"--([a-z-]+)", lambda option: "(--)?" + option[1].replace("-", "[-_]"), named)
    assert re.search(named, re.sub(r"\s+", " ", run.output)), run.output
    assert "Traceback" not in run.output
    assert not list(files.glob("out*"))
