"""Kernels of pairs agree with NumPy in both precisions and propagate NaN."""

import numpy as np
import pytest

from bregmat import Constraints
from bregmat._kernels import pairs as kernels
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import PairGraph

# sums of r = 9 products in any order; a few units in the last place of terms of about 30
TOLERANCE = {np.float64: {"rtol": 1e-12, "atol": 1e-12}, np.float32: {"rtol": 1e-5, "atol": 1e-4}}


def vectors(Z, a, b, sign):
    return Z[a] + sign[:, None] * Z[b]


def sq_norms(Z, a, b, sign):
    return (vectors(Z, a, b, sign) ** 2).sum(axis=1)


def bilinear(Z, Y, a, b, sign):
    return (vectors(Z, a, b, sign) * vectors(Y, a, b, sign)).sum(axis=1)


def laplacian(a, b, sign, w, n):
    """Sum of w_e u u' with u = e_a + s e_b, as a dense matrix."""
    u = vectors(np.eye(n), a, b, sign)
    return (u.T * w) @ u


def neighbours(a, b, sign, n):
    """For each point the (edge, other end) pairs in the order of the edges."""
    ends = [[] for _ in range(n)]
    for e in range(len(a)):
        ends[a[e]].append((e, b[e]))
        if sign[e] != 0:
            ends[b[e]].append((e, a[e]))
    return ends


class Case:
    """Pairs of every sign, twice the same pair, points alone, and a point (the last) that occurs nowhere."""

    def __init__(self, rng, dtype=np.float64, c=200, n=12, r=9):
        self.n, self.c = n, c
        self.a = rng.integers(0, n - 1, c).astype(np.int32)
        self.b = ((self.a + rng.integers(1, n - 1, c)) % (n - 1)).astype(np.int32)
        self.sign = rng.integers(-1, 2, c).astype(np.int8)
        self.b[self.sign == 0] = self.a[self.sign == 0]
        self.a[1], self.b[1], self.sign[1] = self.a[0], self.b[0], self.sign[0]
        self.Z, self.Y = rng.normal(size=(2, n, r)).astype(dtype)
        self.w = rng.normal(size=c).astype(dtype)
        self.w[:20] = 0.0

    @property
    def pairs(self):
        return self.a, self.b, self.sign

    def sq_norms(self, dtype=np.float64):
        out = np.full(self.c, 7, dtype)
        kernels.sq_norms_inplace(out, self.Z, *self.pairs)
        return out

    def bilinear(self):
        out = np.full(self.c, 7, self.Z.dtype)
        kernels.bilinear_inplace(out, self.Z, self.Y, *self.pairs)
        return out

    def laplacian(self):
        out = np.full_like(self.Z, 7)
        for part in ((5, self.n), (0, 5)):
            kernels.laplacian_product_inplace(out, *self.graph(), self.Z, *part)
        return out

    def graph(self):
        """Adjacency, with signs and weights in its order."""
        ptr, edge, other, sign = PairGraph(self.Z, *self.pairs).graph
        return ptr, other, sign, self.w[edge]


def test_every_kernel_is_tested_here():
    compiled = {name for name in dir(kernels) if not name.startswith("_")}
    assert compiled == {"sq_norms_inplace", "bilinear_inplace", "laplacian_product_inplace", "adjacency_inplace"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
class TestTwins:
    def test_sq_norms(self, rng, dtype):
        case = Case(rng, dtype)
        assert np.allclose(case.sq_norms(), sq_norms(case.Z, *case.pairs), **TOLERANCE[dtype])

    def test_bilinear(self, rng, dtype):
        case = Case(rng, dtype)
        expected = bilinear(case.Z, case.Y, *case.pairs)
        assert np.allclose(case.bilinear(), expected, **TOLERANCE[dtype])

    def test_laplacian_product(self, rng, dtype):
        case = Case(rng, dtype)
        expected = laplacian(*case.pairs, case.w, case.n) @ case.Z
        assert np.allclose(case.laplacian(), expected, **TOLERANCE[dtype])
        assert (case.laplacian()[-1] == 0).all()  # a point without pairs

    def test_what_was_in_the_output_does_not_matter(self, rng, dtype):
        case = Case(rng, dtype)
        out = np.full_like(case.Z, np.nan)
        kernels.laplacian_product_inplace(out, *case.graph(), case.Z, 0, case.n)
        assert (out == case.laplacian()).all()


def test_adjacency(rng):
    case = Case(rng)
    ptr, edge, other, sign = PairGraph(case.Z, *case.pairs).graph
    assert (sign == case.sign[edge]).all()
    assert (ptr[0], ptr[-1]) == (0, len(edge))
    for u, expected in enumerate(neighbours(*case.pairs, case.n)):
        span = slice(ptr[u], ptr[u + 1])
        assert list(zip(edge[span].tolist(), other[span].tolist())) == expected


def test_results_repeat_bit_for_bit(rng):
    case = Case(rng, c=5000)
    assert (case.laplacian() == case.laplacian()).all()
    assert (case.bilinear() == case.bilinear()).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
class TestNaN:
    """The kernels sum in any order: a NaN must come through all the same, and stay where it belongs."""

    def test_of_a_point_reaches_its_pairs_only(self, rng, dtype):
        case = Case(rng, dtype)
        case.Z[3, 4] = np.nan
        hit = (case.a == 3) | ((case.b == 3) & (case.sign != 0))
        assert np.isnan(case.sq_norms()[hit]).all()
        assert np.isfinite(case.sq_norms()[~hit]).all()
        assert np.isnan(case.bilinear()[hit]).all()
        assert np.isfinite(case.bilinear()[~hit]).all()

    def test_of_a_point_reaches_its_neighbours(self, rng, dtype):
        case = Case(rng, dtype)
        case.Z[3, 4] = np.nan
        on = case.w != 0
        ends = {3} | set(case.b[on & (case.a == 3)]) | set(case.a[on & (case.b == 3)])
        assert np.isnan(case.laplacian()[sorted(ends), 4]).all()
        assert np.isfinite(np.delete(case.laplacian(), 4, axis=1)).all()

    def test_of_a_weight_reaches_both_ends(self, rng, dtype):
        case = Case(rng, dtype)
        e = int(np.flatnonzero(case.sign == -1)[-1])
        case.w[e] = np.nan
        out = case.laplacian()
        assert np.isnan(out[[case.a[e], case.b[e]]]).all()
        assert np.isfinite(np.delete(out, [case.a[e], case.b[e]], axis=0)).all()

    def test_infinity_is_not_lost(self, rng, dtype):
        case = Case(rng, dtype)
        case.Z[3, 4] = np.inf
        hit = (case.a == 3) & (case.sign != 0)
        assert not np.isfinite(case.sq_norms()[hit]).any()
        assert not np.isfinite(case.bilinear()[hit]).any()


def test_operator_hands_nan_on(rng):
    """From constraints to values and adjoint, in the form that uses the kernels."""
    i = rng.integers(0, 50, 2000)
    op = bind(
        Constraints.sq_distance(i, (i + 1 + rng.integers(0, 49, 2000)) % 50, 1.0, "<="), rng.normal(size=(50, 20))
    )
    assert type(op).__name__ == "PairGraph"
    X = np.eye(20)
    X[2, 3] = X[3, 2] = np.nan
    assert np.isnan(op.values(X)).all()
    w = np.ones(2000)
    w[7] = np.nan
    assert np.isnan(op.adjoint(w)).any()
