"""What nnqp says to bad input."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from bregmat import nearest_correlation
from bregmat.quadratic import ExactActiveSet, QuadraticProgram, nnqp

I2 = np.eye(2)
NAN = np.array([[1.0, 0.0], [0.0, np.nan]])

CASES = {
    "A not square": ({"A": np.ones((2, 3))}, ValueError, "A must be square; got shape (2, 3)."),
    "A empty": ({"A": np.ones((0, 0)), "b": []}, ValueError, "A must have at least one row and one column"),
    "A a vector": ({"A": np.ones(4)}, ValueError, "A must be square; got shape (4,)."),
    "A of words": ({"A": [["a", "b"], ["c", "d"]]}, TypeError, "A must be numeric"),
    "A ragged": ({"A": [[1.0, 0.0], [0.0]]}, TypeError, "A must have rows of one length"),
    "A sparse": (
        {"A": sparse.csr_array(I2)},
        TypeError,
        "A must be dense; got a sparse csr_array: pass its .toarray().",
    ),
    "A masked": (
        {"A": np.ma.masked_array(I2, mask=[[False, False], [False, True]])},
        ValueError,
        "A must have no masked entries; got some in row 1.",
    ),
    "b masked": (
        {"b": np.ma.masked_array([1.0, 2.0], mask=[True, False])},
        ValueError,
        "b must have no masked entries; got some in row 0.",
    ),
    "upper masked": (
        {"upper": np.ma.masked_array([1.0, 2.0], mask=[True, False])},
        ValueError,
        "upper must have no masked entries; got some in row 0.",
    ),
    "x0 masked": (
        {"x0": np.ma.masked_array([1.0, 2.0], mask=[True, False])},
        ValueError,
        "x0 must have no masked entries; got some in row 0.",
    ),
    "equality sparse": (
        {"equality": (sparse.csr_array(np.ones((1, 2))), [1.0])},
        TypeError,
        "equality[0] (E) must be dense; got a sparse csr_array",
    ),
    "equality ragged": (
        {"equality": ([[1.0, 2.0], [1.0]], [1.0, 1.0])},
        TypeError,
        "equality[0] (E) must have rows of one length",
    ),
    "callback a number": ({"callback": 3}, TypeError, "callback must be callable; got 3."),
    "A complex": ({"A": 1j * I2}, TypeError, "A must be real; got complex numbers."),
    "A with NaN": ({"A": NAN}, ValueError, "A must be finite; got NaN or infinity in row 1."),
    "A with NaN off the diagonal": (
        {"A": np.array([[1.0, np.nan], [np.nan, 1.0]])},
        ValueError,
        "A must be finite; got NaN or infinity in rows 0, 1",
    ),
    "A with infinity": ({"A": np.diag([1.0, np.inf])}, ValueError, "A must be finite; got NaN or infinity in row 1"),
    "A not symmetric": (
        {"A": np.array([[1.0, 0.5], [0.25, 1.0]])},
        ValueError,
        "A must be symmetric; got 0.25 at [1, 0] but 0.5 at [0, 1].",
    ),
    "negative diagonal": (
        {"A": np.diag([1.0, -0.5])},
        ValueError,
        "A is not positive semidefinite: A[1, 1] = -0.5 is negative.",
    ),
    "negative minor": (
        {"A": np.array([[1.0, 2.0], [2.0, 1.0]])},
        ValueError,
        "A is not positive semidefinite: rows and columns 1 and 0 alone have the eigenvalue -1",
    ),
    "b too long": ({"b": np.ones(3)}, ValueError, "b must have one entry per row of A (2); got shape (3,)."),
    "b a matrix": ({"b": np.ones((2, 1))}, ValueError, "b must have one entry per row of A (2); got shape (2, 1)."),
    "b with NaN": ({"b": [0.0, np.nan]}, ValueError, "b must be finite; got nan in row 1"),
    "upper negative": (
        {"upper": [1.0, -1.0]},
        ValueError,
        "upper must be at least 0 (inf for no bound); got -1.0 in row 1.",
    ),
    "upper NaN": ({"upper": np.nan}, ValueError, "upper must be at least 0"),
    "upper too long": (
        {"upper": np.ones(3)},
        ValueError,
        "upper must be a number or have one entry per variable (2); got shape (3,).",
    ),
    "upper of words": ({"upper": "much"}, TypeError, "upper must be numeric; got 'much'"),
    "x0 too long": ({"x0": np.ones(3)}, ValueError, "x0 must have one entry per variable (2); got shape (3,)."),
    "x0 negative": ({"x0": [0.0, -1.0]}, ValueError, "x0 must lie in [0, upper]; x0[1] = -1 with upper bound inf."),
    "x0 above": (
        {"x0": [0.0, 2.0], "upper": 1.0},
        ValueError,
        "x0 must lie in [0, upper]; x0[1] = 2 with upper bound 1.",
    ),
    "x0 NaN": ({"x0": [0.0, np.nan]}, ValueError, "x0 must be finite; got nan in row 1."),
    "x0 of words": ({"x0": ["a", "b"]}, TypeError, "x0 must be numeric"),
    "equality no pair": ({"equality": np.ones(2)}, TypeError, "equality must be a pair (E, e); got ndarray."),
    "equality E narrow": (
        {"equality": (np.ones((1, 3)), [1.0])},
        ValueError,
        "equality[0] (E) must have 2 columns; got shape (1, 3).",
    ),
    "equality e long": (
        {"equality": (np.ones((1, 2)), [1.0, 2.0])},
        ValueError,
        "equality[1] (e) must be a number or have one entry per row of E (1); got shape (2,).",
    ),
    "equality NaN": (
        {"equality": ([[1.0, np.nan]], [1.0])},
        ValueError,
        "equality[0] (E) must be finite; got NaN or infinity in row 0",
    ),
    "solver unknown": (
        {"solver": "simplex"},
        ValueError,
        "solver must be one of auto, pivoting, active_set, multiplicative; got 'simplex'.",
    ),
    "solver a number": ({"solver": 3}, TypeError, "solver must be a name or MultiplicativeUpdates; got int."),
    "tol zero": ({"tol": 0.0}, ValueError, "tol must be positive"),
    "max_iter zero": ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
    "max_iter half": ({"max_iter": 0.5}, TypeError, "max_iter must be an integer"),
    "max_seconds negative": ({"max_seconds": -1.0}, ValueError, "max_seconds must be positive"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name):
    given, error, message = CASES[name]
    with pytest.raises(error, match=re.escape(message)):
        nnqp(**{"A": I2, "b": -np.ones(2), **given})


def test_indefinite_matrix_that_no_minor_shows():
    """Correlations of -0.6 among three: all 2 x 2 minors are positive, the smallest eigenvalue is -0.2."""
    A = np.full((3, 3), -0.6) + 1.6 * np.eye(3)
    for solver in ("auto", "active_set", "multiplicative"):
        with pytest.raises(ValueError, match=r"A is not positive semidefinite: its leading 3 .* the eigenvalue -0\.2;"):
            nnqp(A, -np.ones(3), solver=solver)
    with pytest.raises(ValueError, match="A is not positive semidefinite: a step meets negative curvature"):
        ExactActiveSet().minimize(QuadraticProgram.of(A, -np.ones(3)), np.zeros(3))


@pytest.mark.parametrize(
    "stored", ["float32", "8 decimals", "strongest pair", "constant column", "beside a constant column"]
)
def test_a_rounded_covariance_is_refused_with_the_call_that_helps(rng, stored):
    """Fewer observations than variables: the covariance is singular, and rounding makes it indefinite. The call is made here."""
    S = np.cov(rng.normal(size=(30, 50)), rowvar=False)
    if stored == "float32":
        S = S.astype(np.float32)
    elif "constant" in stored:  # its variance stays 0
        S[2] = S[:, 2] = 0.0
        S[0, 2] = S[2, 0] = 0.1 * (stored != "constant column")
        S = S.astype(np.float32)
    elif stored == "8 decimals":
        S = np.round(S * 1e-4, 8)
    else:  # a correlation above 1 that a 2 x 2 block shows
        S[0, 1] = S[1, 0] = 1.001 * np.sqrt(S[0, 0] * S[1, 1])
    call = "nearest_correlation(A, scale=True).covariance"
    with pytest.raises(ValueError, match=f"A is not positive semidefinite.*{re.escape(call)}"):
        nnqp(S, -np.ones(50), upper=1.0)
    A = eval(call, {"nearest_correlation": nearest_correlation, "A": S})
    assert_allclose(np.diag(A), np.diag(S), rtol=1e-6)
    assert np.linalg.eigvalsh(A)[0] >= -1e-10 * np.diag(A).max()
    assert nnqp(A, -np.ones(50), upper=1.0).status == "OPTIMAL"
    with pytest.raises(
        ValueError, match=r"A\[1, 1\] = -0.5 is negative.$"
    ):  # a variance cannot be negative: the call would raise
        nnqp(np.diag([1.0, -0.5]), np.ones(2))


@pytest.mark.parametrize("n", [40, 300])
def test_indefinite_kernel_matrix_in_a_box(rng, n):
    """A box hides negative curvature from the search: A is looked at as a whole."""
    Z = rng.standard_normal((n, 3))
    A = np.tanh(Z @ Z.T - 1.0)
    A[np.diag_indices(n)] = np.abs(A).max() * 1.01
    assert np.linalg.eigvalsh(A)[0] < -0.1
    with pytest.raises(ValueError, match="A is not positive semidefinite"):
        nnqp(A, -np.ones(n), upper=1.0)


def test_data_are_not_changed(rng):
    X = rng.standard_normal((12, 6))
    A, b = X.T @ X, rng.standard_normal(6)
    E, e = rng.random((1, 6)), np.ones(1)
    copies = A.copy(), b.copy(), E.copy(), e.copy()
    nnqp(A, b, equality=(E, e), upper=2.0)
    for given, copy in zip((A, b, E, e), copies, strict=True):
        np.testing.assert_array_equal(given, copy)
    x = rng.random(6)
    kept = x.copy()
    ExactActiveSet().minimize(QuadraticProgram.of(A, b, np.full(6, 2.0)), x)
    np.testing.assert_array_equal(x, kept)


def test_layouts_and_types_are_read_alike(rng):
    X = rng.standard_normal((12, 6))
    A, b = X.T @ X, -rng.random(6)
    expected = nnqp(A, b).x
    np.testing.assert_array_equal(nnqp(np.asfortranarray(A), list(b)).x, expected)
    np.testing.assert_array_equal(nnqp(A.tolist(), b).x, expected)
    np.testing.assert_array_equal(nnqp(2 * np.eye(2, dtype=int), np.array([-2, 1])).x, [1.0, 0.0])
    problem = QuadraticProgram.build(A, b, equality=(np.ones(6), 1.0))
    assert problem.A is A
    assert problem.E.shape == (1, 6)
