"""The kernels of every instruction set that the machine has: how one is selected, their results, and their errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bregmat
from bregmat import _kernels
from bregmat._kernels import level, vectors

SOURCES = str(Path(bregmat.__file__).parents[1])
BEST = _kernels._best("")
AVAILABLE = _kernels.LEVELS[: _kernels.LEVELS.index(BEST) + 1]
# Every problem is solved to a gap of 1e-9, where the solutions of two processors differ by about its square root at most.
AGREEMENT = 1e-4
PROBLEMS = """
import json
import numpy as np
import bregmat
from bregmat import _kernels
from sklearn.datasets import load_wine

X, y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
rows = bregmat.Constraints.sq_distance(range(0, 60, 2), range(1, 61, 2), 5.0, "<=")
rows += bregmat.Constraints.sq_distance(range(0, 60, 2), range(100, 160, 2), 40.0, ">=")
found = {"level": _kernels.level}
for divergence in ("logdet", "vonneumann"):
    result = bregmat.nearest_metric(X, rows, divergence=divergence, solver="cyclic_projection", slack_weight=1.0, tol=1e-9)
    found[divergence] = result.metric().tolist()
found["nnqp"] = bregmat.nnqp(X.T @ X, -X.sum(axis=0) - X[0], tol=1e-9).x.tolist()
found["MarginSVC"] = bregmat.MarginSVC(tol=1e-9).fit(X, y == 1).decision_function(X).tolist()
print(json.dumps(found))
"""


def python(code, level):
    """Run code in a fresh interpreter at a level."""
    environment = os.environ | {"PYTHONPATH": SOURCES, "BREGMAT_LEVEL": level}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=150)


@pytest.fixture(scope="module")
def solutions():
    """The solutions of all problems at every level."""
    done = {level: python(PROBLEMS, level) for level in AVAILABLE}
    assert [run.stderr for run in done.values()] == [""] * len(AVAILABLE)
    return {level: json.loads(run.stdout) for level, run in done.items()}


# ---------------------------------------------------------------- selection
@pytest.mark.slow
def test_the_environment_selects_a_level(solutions):
    assert [found["level"] for found in solutions.values()] == list(AVAILABLE)


def test_without_a_word_in_the_environment_the_best_level_is_taken():
    code = "from bregmat import _kernels; print(_kernels.level)"
    assert [python(code, level).stdout.strip() for level in ("", _kernels.LEVELS[-1])] == [BEST, BEST]


def test_a_level_that_does_not_exist_is_an_import_error():
    done = python("import bregmat; bregmat.nnqp", "v2")
    assert done.returncode == 1
    message = "ImportError: the environment variable BREGMAT_LEVEL must be one of v1, v3, v4, got 'v2'."
    assert done.stderr.splitlines()[-1] == message


# ---------------------------------------------------------------- results
@pytest.mark.parametrize("problem", ["logdet", "vonneumann", "nnqp", "MarginSVC"])
@pytest.mark.slow
def test_all_levels_agree(solutions, problem):
    first, *others = (np.array(found[problem]) for found in solutions.values())
    assert np.isfinite(first).all() and first.any()
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=AGREEMENT * np.abs(first).max())


# ---------------------------------------------------------------- arguments
def test_arrays_are_taken_as_they_are_or_refused():
    """Shown with ``gather_inplace(out, A, rows, columns)``: no kernel converts an array, or writes into a read-only one."""
    A, rows, columns, out = np.arange(12.0).reshape(4, 3), np.array([2, 0]), np.array([1, 2]), np.zeros((2, 2))
    read_only, frozen = A.copy(), np.zeros((2, 2))
    read_only.flags.writeable = frozen.flags.writeable = False
    vectors.gather_inplace(out, read_only, rows, columns)
    assert (out == A[np.ix_(rows, columns)]).all()
    for wrong in (
        (out, np.asfortranarray(A), rows, columns),
        (np.asfortranarray(out), A, rows, columns),
        (out, A.astype(np.int64), rows, columns),
        (out, A, rows.astype(np.int32), columns),
        (out, A, rows.astype(float), columns),
        (out, A[0], rows, columns),
        (out, A, rows.tolist(), columns),
        (out, None, rows, columns),
        (frozen, A, rows, columns),
        (out, A, rows),
    ):
        with pytest.raises(TypeError, match="gather_inplace"):
            vectors.gather_inplace(*wrong)
    assert (frozen == 0).all()


# ---------------------------------------------------------------- how and where the tests are started
CORES = ["Nehalem", "Haswell", "SkylakeX"]  # core types of OpenBLAS with the instruction sets v1, v3 and v4


def outcome_of(test, *, before=(), **environment):
    """Whether a test passes in a process of its own, and what it printed; a variable that is None is unset."""
    kept = {name: value for name, value in os.environ.items() if name not in environment}
    command = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", Path(__file__).with_name(test)]
    done = subprocess.run(
        command,
        env=kept | {name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode == 0, done.stdout


@pytest.mark.slow
def test_tests_of_ctrl_c_pass_where_sigint_is_ignored():
    """`nohup` and many CI runners start the suite so, and a child inherits it."""
    passes, out = outcome_of(
        "test_interrupts.py::test_a_signal_cuts_a_result_short", before=("sh", "-c", 'trap "" INT; exec "$0" "$@"')
    )
    assert passes, out


@pytest.mark.slow
@pytest.mark.parametrize("core", [None, *CORES[: ["v1", "v3", "v4"].index(level) + 1]])
def test_a_proof_of_the_last_digits_is_judged_alike_on_every_processor(core):
    """With the core type that OpenBLAS chooses, and with each one that this processor can run."""
    passes, out = outcome_of(
        "test_verification.py::test_rounding_of_the_range_of_a_prior_refutes_no_proof", OPENBLAS_CORETYPE=core
    )
    assert passes, out
