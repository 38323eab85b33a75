"""Checks of arguments: what they return, and that messages name the argument, what was expected and what was given."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from bregmat import Constraints, MetricLearner, nearest_correlation
from bregmat.base import checks, points

NAN, INF = np.nan, np.inf
SKEW = [[1.0, 0.5], [0.25, 1.0]]

REFUSED = {
    "ragged": (
        lambda: checks.as_matrix("A", [[1.0], [1.0, 2.0]]),
        TypeError,
        "A must have rows of one length; got shape (1,) in row 0 and (2,) in row 1.",
    ),
    "words": (lambda: checks.as_matrix("A", [["a", "b"]]), TypeError, "A must be numeric; got ndarray with dtype <U1."),
    "a word": (lambda: checks.as_column("b", "far", 3), TypeError, "b must be numeric; got 'far'."),
    "numbers as text": (
        lambda: checks.as_matrix("A", np.array([["1", 2.0]], dtype=object)),
        TypeError,
        "A must be numeric; got ndarray with dtype object, in column 0 ('1' in row 0); the argument must be free of strings",
    ),
    "none": (lambda: checks.as_matrix("A", None), TypeError, "A must be numeric; got None."),
    "complex": (lambda: checks.as_matrix("A", 1j * np.eye(2)), TypeError, "A must be real; got complex numbers."),
    "complex, imaginary part 0": (lambda: checks.as_column("b", [1 + 0j]), TypeError, "b must be real"),
    "complex sparse": (
        lambda: points.as_points("X", sp.csr_array(1j * np.eye(2))),
        TypeError,
        "X must be real; got complex numbers.",
    ),
    "booleans": (lambda: checks.as_column("b", [True]), TypeError, "b must be numeric; got truth values."),
    "masked": (
        lambda: checks.as_matrix("A", np.ma.masked_array(np.eye(3), mask=np.diag([0, 1, 1]))),
        ValueError,
        "A must have no masked entries; got some in rows 1, 2.",
    ),
    "sparse": (lambda: checks.as_matrix("A", sp.csr_array(np.eye(2))), TypeError, "A must be dense; got a sparse"),
    "vector": (lambda: checks.as_matrix("A", [1.0, 2.0]), ValueError, "A must be 2-dimensional; got shape (2,)."),
    "empty": (
        lambda: points.as_points("X", np.ones((0, 3))),
        ValueError,
        "X must have at least one row and one column; got shape (0, 3).",
    ),
    "not square": (
        lambda: checks.as_matrix("A", np.ones((2, 3)), square=True),
        ValueError,
        "A must be square; got shape (2, 3).",
    ),
    "order": (lambda: checks.as_matrix("A", np.eye(2), order=3), ValueError, "A must have shape (3, 3); got (2, 2)."),
    "nan": (
        lambda: checks.as_matrix("A", [[NAN, INF], [0, 1], [1, NAN]]),
        ValueError,
        "A must be finite; got NaN or infinity in rows 0, 2.",
    ),
    "nan, sparse": (
        lambda: checks.as_matrix("A", sp.csc_array([[0, 1], [NAN, 1]]), sparse="csc"),
        ValueError,
        "A must be finite; got NaN or infinity in row 1.",
    ),
    "nan, labels": (
        lambda: checks.as_matrix("A", [[1, 2], [NAN, 1]], labels=(["a", "b"], ["c", "d"])),
        ValueError,
        "in row 1, the first is nan at [1, 0] ('b', 'c').",
    ),
    "asymmetric": (
        lambda: checks.as_matrix("A", SKEW, symmetric=True),
        ValueError,
        "A must be symmetric; the largest asymmetry is 0.25: 0.5 at [0, 1] but 0.25 at [1, 0].",
    ),
    "asymmetric, sparse": (
        lambda: checks.as_matrix("A", sp.csr_array(SKEW), symmetric=True, sparse="csr"),
        ValueError,
        "A must be symmetric; the largest asymmetry is 0.25: 0.5 at [0, 1]",
    ),
    "not Hermitian": (
        lambda: checks.as_matrix("A", [[1, 1j], [1j, 1]], symmetric=True, complex_too=True),
        ValueError,
        "A must be Hermitian; the largest asymmetry is 2",
    ),
    "indefinite": (
        lambda: checks.as_matrix("A", [[1, 2], [2, 1]], psd=True),
        ValueError,
        "A must be positive semidefinite; its smallest eigenvalue is -1.",
    ),
    "singular": (
        lambda: checks.check_psd("A", np.array([0.0, 1.0]), definite=True),
        ValueError,
        "A must be positive definite; its smallest eigenvalue is 0.",
    ),
    "length": (
        lambda: checks.as_column("b", [1, 2], 4, scalar=True, per="constraint"),
        ValueError,
        "b must be a number or have one entry per constraint (4); got shape (2,).",
    ),
    "column of columns": (
        lambda: checks.as_column("b", [[1, 2]]),
        ValueError,
        "b must be 1-dimensional; got shape (1,",
    ),
    "nan in a column": (lambda: checks.as_column("b", [1, NAN, INF]), ValueError, "finite; got nan in rows 1, 2."),
    "range": (
        lambda: checks.as_column("b", [1, -1, NAN], lowest=0, infinite=True, hint=" (inf for no bound)"),
        ValueError,
        "b must be at least 0 (inf for no bound); got -1.0 in rows 1, 2.",
    ),
    "positive": (
        lambda: checks.as_column("b", [0, INF], positive=True),
        ValueError,
        "b must be finite and positive; got 0.0 in rows 0, 1.",
    ),
    "choice": (
        lambda: checks.as_choice("mode", "x", ["a", None]),
        ValueError,
        "mode must be one of 'a', None; got 'x'.",
    ),
    "tol": (lambda: checks.check_limits(tol=0), ValueError, "tol must be positive and finite; got 0."),
    "zero": (
        lambda: checks.check_positive("c", -1, zero=True, finite=True),
        ValueError,
        "c must be finite and at least 0; got -1.",
    ),
    "callback": (lambda: checks.check_limits(tol=1, callback=3), TypeError, "callback must be callable; got 3."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_nothing_is_copied_that_need_not_be(rng, tmp_path):
    A = rng.normal(size=(5, 5))
    A += A.T
    assert checks.as_matrix("A", A, symmetric=True) is A
    assert points.as_points("X", A) is A
    assert checks.as_column("b", A[0], 5).base is A
    assert not np.shares_memory(checks.as_matrix("A", A, copy=True), A)
    assert not np.shares_memory(checks.as_column("b", A[0], copy=True), A)
    S = sp.csr_array(A)
    assert np.shares_memory(points.as_points("X", S).data, S.data)
    np.save(tmp_path / "X.npy", A.astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert points.as_points("X", X) is X


def test_rounding_is_averaged_and_what_is_returned_is_exactly_symmetric(rng):
    A = rng.normal(size=(1500, 1500))
    A = (A + A.T) / 2
    A[1400, 3] += 1e-9
    S = checks.as_matrix("A", A, symmetric=True)
    assert (S == S.T).all() and abs(S - A).max() <= 1e-9
    with pytest.raises(ValueError, match=r"asymmetry is 1e-09: .* at \[3, 1400\]"):
        checks.asymmetry("A", A, tol=0.0)
    A[1400, 3] += 1.0
    with pytest.raises(ValueError, match=r"asymmetry is 1: .* at \[3, 1400\]"):
        checks.as_matrix("A", A, symmetric=True)
    sparse = checks.as_matrix("A", sp.csr_array([[1.0, 1.0], [1.0 + 1e-10, 1.0]]), symmetric=True, sparse="csr")
    assert (sparse - sparse.T).count_nonzero() == 0


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_largest_asymmetry(rng, kind):
    for n in (1, 255, 256, 600):
        K = rng.standard_normal((n, n)).astype(kind)
        K = K + K.T
        assert checks.asymmetry("K", K) == 0.0
        i, j = sorted(rng.integers(0, n, 2))
        K[i, j] += 0.5
        off = np.abs(K.astype(float) - K.T.astype(float)).max()
        assert checks.asymmetry("K", K, tol=np.inf) == off
        if i != j:
            with pytest.raises(ValueError, match=rf"\[{i}, {j}\] but .* \[{j}, {i}\]"):
                checks.asymmetry("K", K)


def test_columns_matrices_and_points_of_many_kinds(rng):
    assert checks.as_column("b", 3, 2, scalar=True).tolist() == [3.0, 3.0]
    assert checks.as_column("b", np.array([1, 2], dtype=object)).dtype == float
    assert checks.as_matrix("A", [[1, 1j], [-1j, 1]], psd=True, complex_too=True).dtype == complex
    assert points.as_points("X", np.eye(2) > 0).dtype == float
    assert isinstance(checks.as_matrix("A", sp.csr_array(np.eye(2)), sparse="dense"), np.ndarray)
    pandas = pytest.importorskip("pandas")
    assert points.as_points("X", pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})).tolist() == [[1.0, 0.5], [2.0, 1.5]]


def test_constraints_keep_a_copy_of_what_they_were_given():
    bound, weight = np.ones(2), np.ones(2)
    given = Constraints.sq_distance([0, 1], [2, 3], bound, "<=", weight=weight)
    bound[0] = weight[0] = 7.0  # which a shared read-only column would refuse, or follow
    assert given.bound.tolist() == given.weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_what_is_wrong_in_a_data_frame_is_named_by_its_columns(kind):
    """Which column holds text, and which has gaps: the first mistakes with a table of one's own."""
    with pytest.raises(
        TypeError,
        match=r"X must be numeric; got DataFrame, in columns 'id' .*'town' \('Ulm' in row 0\); encode .*OneHotEncoder",
    ):
        points.check_numeric("X", kind({"id": ["p0", "p1"], "a": [1.0, 2.0], "town": ["Ulm", "Bonn"]}))
    with pytest.raises(
        ValueError, match=r"X must be finite; .* columns 'b' \(2\), 'c' \(1\): rows 0, 2, counted from 0"
    ):
        points.check_numeric("X", kind({"a": [1.0, 2.0, 3.0], "b": [NAN, 1.0, NAN], "c": [1.0, 2.0, INF]}))
    with pytest.raises(
        TypeError, match=r"numeric; got DataFrame, in columns 'c0' .*'c4' \('x' in row 0\) and 2 more; encode"
    ):
        points.check_numeric("X", kind({f"c{k}": ["x"] for k in range(7)}))


@pytest.mark.parametrize("dtype", ["Int64", "Float64", object])
def test_a_missing_number_of_pandas_is_missing_as_nan_is(dtype):
    column = pd.array([1, pd.NA], dtype=dtype)
    frame = pd.DataFrame({"a": [1, 2], "b": column})
    with pytest.raises(ValueError, match=r"X must be finite; got NaN or infinity in column 'b' \(1\): row 1, counted"):
        points.check_numeric("X", frame)
    with pytest.raises(ValueError, match="X must be finite; got NaN or infinity in row 1"):
        points.as_points("X", frame)
    with pytest.raises(ValueError, match="bound must be finite; got nan in constraint 1"):
        Constraints.sq_distance([0, 1], [1, 2], column, "<=")
    C = pd.DataFrame([[1.0, 0.5], [0.5, 1.0]]).astype("Float64" if dtype == "Int64" else dtype)
    C.iloc[0, 1] = C.iloc[1, 0] = pd.NA
    assert np.array_equal(nearest_correlation(C, weights=np.eye(2)).matrix, np.eye(2))


@pytest.mark.parametrize(
    "times",
    [
        pd.date_range("2026-01-01", periods=2),
        pd.date_range("2026-01-01", periods=2, tz="UTC"),
        pd.to_timedelta([1, 2], unit="h"),
    ],
)
@pytest.mark.parametrize("columns", [{}, {"a": [1.0, 2.0]}])
def test_times_are_refused_with_the_way_to_numbers(times, columns):
    with pytest.raises(TypeError, match=r"X must be numeric; got .*; give times as numbers, .*timedelta64") as raised:
        points.check_numeric("X", pd.DataFrame(columns | {"t": times}))
    assert "float()" not in str(raised.value) and (not columns or "in column 't' (Time" in str(raised.value))


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="X must have columns of different names; column 'a' occurs twice"):
        MetricLearner().fit(frame, [0, 1])


def test_a_check_of_a_random_state_advances_nothing():
    state, seed = np.random.RandomState(0), np.random.default_rng(0)
    checks.check_random_state(state)
    checks.check_random_state(seed)
    assert state.random_sample() == np.random.RandomState(0).random_sample()
    assert seed.random() == np.random.default_rng(0).random()
    with pytest.raises(TypeError, match="random_state must be an integer"):
        checks.check_random_state("a")
