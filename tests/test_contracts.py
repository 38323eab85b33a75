"""Identities that hold for every class of a kind: divergences, losses, operators, solvers (iterates: test_coordinates.py).

Central differences with step h have an error of about h^2 + 1e-16 / h: 1e-10 at h = 1e-5, 1e-8 with the factors met here.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from bregmat import Constraints, Relation, ScalarLoss, SpectralDivergence, SquaredHinge, nearest_kernel, register
from bregmat.constraints.relations import BUILT_IN
from bregmat.constraints.relations import RELATIONS as REGISTERED
from bregmat.io import read_constraints, write_constraints
from bregmat.objective.claims import check_loss
from bregmat.objective.divergences import DIVERGENCES as NAMED
from bregmat.objective.losses import EXPLICIT_SLACKS, Hard, Loss, OwnSlack
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.binding import bind
from bregmat.operators.compound import MatrixRows, SignedSums, Stacked
from bregmat.operators.linear_maps import smat, svec
from bregmat.solvers.base import SOLVERS as SOLVER_CLASSES
from cases import (
    DIVERGENCES,
    INFEASIBLE,
    LOSSES,
    OPERATORS,
    PROBLEMS,
    RELATIONS,
    SOFT_SOLVERS,
    SOLVERS,
    dense,
    equalities,
    random_pairs,
    scalar,
)
from formulas import positive, symmetric

H = 1e-5
DIFFERENCE = {"rtol": 1e-7, "atol": 1e-8}
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def by_name(x):
    return getattr(x, "name", getattr(x, "__name__", None)) or repr(x)


def mirror_points(D, rng, r=6):
    """Mirror eigenvalues in the domain of D, with both signs where it has both."""
    t = rng.normal(size=r)
    return -np.exp(t) if not D.in_domain(np.ones(1)) else t


def slope(f, x):
    return (f(x + H) - f(x - H)) / (2 * H)


def test_registries_are_complete():
    assert {type(D) for D in DIVERGENCES} == set(NAMED.values())
    assert {type(loss) for loss in EXPLICIT_SLACKS.values()} <= {type(loss) for loss in LOSSES}
    assert set(SOLVERS) == set(SOLVER_CLASSES)


# ---------------------------------------------------------------- divergences
@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
class TestDivergence:
    def test_link_is_the_derivative_of_phi_and_inverse_link_its_inverse(self, D, rng):
        x = rng.uniform(0.1, 5.0, 8)
        assert np.allclose([slope(lambda s: float(D.phi(np.array([s]))[0]), v) for v in x], D.link(x), **DIFFERENCE)
        assert np.allclose(D.inverse_link(D.link(x)), x, **EXACT)
        assert D.in_domain(D.link(x))

    def test_conjugate(self, D, rng):
        x, t = rng.uniform(0.1, 5.0, 8), mirror_points(D, rng, 8)
        assert D.phi(x).sum() + D.conjugate(D.link(x)) == pytest.approx(x @ D.link(x), rel=1e-12)  # Fenchel, equality
        assert D.phi(x).sum() + D.conjugate(t) >= x @ t
        gradient = [slope(lambda s: D.conjugate(np.array([s])), v) for v in t]
        assert np.allclose(gradient, D.inverse_link(t), **DIFFERENCE)
        assert D.constant(D.link(x)) == pytest.approx(D.conjugate(D.link(x)), rel=1e-12)
        assert np.allclose([slope(lambda s: D.link(np.array([s]))[0], v) for v in x], D.curvature(x), **DIFFERENCE)

    def test_divided_differences(self, D, rng):
        t = mirror_points(D, rng)
        psi, P = D.inverse_link(t), D.divided(t)
        off = ~np.eye(len(t), dtype=bool)
        quotient = np.subtract.outer(psi, psi)[off] / np.subtract.outer(t, t)[off]
        assert np.allclose(P[off], quotient, rtol=1e-10, atol=1e-14)
        assert np.allclose(np.diag(P), [slope(lambda s: D.inverse_link(np.array([s]))[0], v) for v in t], **DIFFERENCE)

    @pytest.mark.parametrize("gap", [0.0, 1e-15, 1e-13, 1e-11, 1e-8, 1e-5])
    @pytest.mark.parametrize("t", [-3.0, -0.5, 2.0])
    def test_divided_differences_of_close_arguments(self, D, t, gap):
        t = -t if not D.in_domain(np.array([t])) else t
        P = D.divided(np.array([t, t + gap]))
        expected = slope(lambda s: D.inverse_link(np.array([s]))[0], t + gap / 2)
        assert np.allclose(P, expected, rtol=2e-5, atol=1e-8)  # the argument differs by up to gap
        assert (P == P.T).all()

    def test_derivative_of_the_matrix_function(self, D, rng):
        """Daleckii and Krein: psi'(T)[X] = U (Psi o U'XU) U'."""
        t, U = mirror_points(D, rng), np.linalg.qr(rng.normal(size=(6, 6)))[0]
        X = symmetric(rng, 6)

        def psi(s):
            values, V = np.linalg.eigh((U * t) @ U.T + s * X)
            return (V * D.inverse_link(values)) @ V.T

        expected = U @ (D.divided(t) * (U.T @ X @ U)) @ U.T
        assert np.allclose(slope(psi, 0.0), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())

    def test_matrix_form_is_a_bregman_divergence(self, D, rng):
        X, Y = positive(rng, 5), positive(rng, 5)
        (x, _), (y, U) = np.linalg.eigh(X), np.linalg.eigh(Y)
        expected = D.phi(x).sum() - D.phi(y).sum() - np.sum((U * D.link(y)) @ U.T * (X - Y))
        assert D(X, Y) == pytest.approx(expected, rel=1e-10)
        assert D(X, Y) > 0
        assert D(X, X) == pytest.approx(0.0, abs=1e-10)
        one = np.eye(1)
        assert D(2.0 * one, 3.0 * one) == pytest.approx(scalar(D, 2.0, 3.0), rel=1e-12)

    def test_facts_about_it_are_true(self, D, rng):
        X, Y, C = positive(rng, 4), positive(rng, 4), rng.normal(size=(4, 4))
        Q = np.linalg.qr(C)[0]
        assert D(Q @ X @ Q.T, Q @ Y @ Q.T) == pytest.approx(D(X, Y), rel=1e-9)
        invariant = D(C @ X @ C.T, C @ Y @ C.T) == pytest.approx(D(X, Y), rel=1e-6)
        assert invariant == D.is_congruence_invariant
        assert np.isinf(D(positive(rng, 4), positive(rng, 4, 2))) == D.keeps_range

    def test_named_by_string(self, D):
        assert NAMED.resolve(D.name) == D
        assert NAMED.resolve(D) is D


def only_three(D):
    """The divergence with nothing but its link, the inverse of it, and phi."""

    class Derived(SpectralDivergence):
        name = D.name
        link, inverse_link, phi = (staticmethod(getattr(D, name)) for name in ("link", "inverse_link", "phi"))

    return Derived()


@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
class TestDerivedFormulas:
    """What follows from link, inverse link and phi equals the formulas written out; derivatives to ten digits."""

    def test_facts(self, D, rng):
        derived, t = only_three(D), mirror_points(D, rng)
        assert derived.keeps_range == D.keeps_range
        assert derived.in_domain(t)
        for outside in (np.nan, np.inf, -np.inf, *{"logdet": (0.0, 1e-9, 3.0), "vonneumann": (800.0,)}.get(D.name, ())):
            assert not derived.in_domain(np.append(t, outside))

    def test_values(self, D, rng):
        derived, t, t0 = only_three(D), mirror_points(D, rng), D.link(rng.uniform(0.1, 5.0, 6))
        assert derived.conjugate(t) == pytest.approx(D.conjugate(t), rel=1e-12)
        assert derived.constant(t0) == pytest.approx(D.constant(t0), rel=1e-12)
        U, x = np.linalg.qr(rng.normal(size=(6, 6)))[0], D.inverse_link(t)
        assert derived.from_diagonal(x, U, t0) == pytest.approx(D.from_diagonal(x, U, t0), rel=1e-11)
        A = np.diag(t0) - (U * t) @ U.T
        assert derived.dual_gain(t0, A, t)[0] == pytest.approx(D.dual_gain(t0, A, t)[0], rel=1e-10, abs=1e-11)

    @pytest.mark.parametrize("ranks", [(5, 5), (3, 5), (5, 3), (3, 3)])
    def test_matrices_of_any_rank(self, D, ranks, rng):
        X, Y = positive(rng, 5, ranks[0]), positive(rng, 5, ranks[1])
        assert only_three(D)(X, Y) == pytest.approx(D(X, Y), rel=1e-10)
        inside = Y @ positive(rng, 5, 2) @ Y if ranks[1] > 2 else Y
        assert only_three(D)(inside, Y) == pytest.approx(D(inside, Y), rel=1e-9)

    @pytest.mark.parametrize("gap", [0.0, 1e-14, 1e-9, 1e-5, 1e-4, 0.9])
    def test_divided_differences(self, D, gap, rng):
        t = mirror_points(D, rng)
        t[1] = t[0] * (1.0 - gap)
        assert np.allclose(only_three(D).divided(t), D.divided(t), rtol=1e-9, atol=1e-12)

    def test_barrier_inverse(self, D, rng):
        t, tau = mirror_points(D, rng, 40), 10.0 ** rng.uniform(-12, 8, 40)
        x = only_three(D).barrier_inverse(t, tau)
        assert np.allclose(x, D.barrier_inverse(t, tau), rtol=1e-10)
        assert np.allclose(D.link(x) - tau / x, t, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------- losses
@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
class TestLoss:
    b, g = np.array([0.5, 1.0, 3.0]), np.array([0.2, 1.0, 10.0])

    def scale(self, loss):
        return np.ones(3) if loss.is_positive else np.array([2.0, 1.0, 0.7])

    def all_rows(self, loss):
        return equalities(loss, self.b, self.g, self.scale(loss))

    @pytest.mark.parametrize("factor", [0.3, 0.9, 1.0, 1.2, 20.0])
    def test_value_and_derivatives(self, loss, factor):
        p, L = factor * self.b, self.all_rows(loss)
        total = sum(self.g * LOSSES[loss](p, self.b, self.scale(loss)))
        assert L.value(p) == pytest.approx(total, rel=1e-12, abs=1e-14)
        first, second = L.derivatives(p)
        for k in range(3):
            one = L.restrict([k])
            assert first[k] == pytest.approx(slope(lambda s, L=one: L.value(np.array([s])), p[k]), rel=1e-6, abs=1e-8)
            assert second[k] == pytest.approx(
                slope(lambda s, L=one: L.derivatives(np.array([s]))[0][0], p[k]), rel=1e-6
            )
        assert np.allclose(L.curvature_at_bound, L.derivatives(self.b)[1], **EXACT)

    @pytest.mark.parametrize("share", [-2.0, -0.3, 0.0, 0.3, 0.9])
    def test_conjugate_and_relaxed_bound(self, loss, share):
        """xi(mu) is where the loss has slope mu, so the conjugate is mu xi - loss(xi) and its derivative is xi."""
        L = self.all_rows(loss)
        low, high = L.dual_box
        mu = np.maximum(share * np.minimum(high, self.g), 0.95 * low)
        xi, rate = L.relaxed(mu)
        first, second = L.derivatives(xi)
        assert np.allclose(first, mu, rtol=1e-10, atol=1e-12)
        assert np.allclose(rate * second, 1.0, rtol=1e-10)
        each = [L.restrict([k]).value(xi[[k]]) for k in range(3)]
        assert np.allclose(L.conjugate(mu), mu * xi - each, rtol=1e-10, atol=1e-12)

    def test_ceiling_is_the_supremum_of_the_slope(self, loss):
        L = self.all_rows(loss)
        ceiling, far = L.dual_box[1], L.derivatives(1e9 * self.b)[0]
        assert np.allclose(far, ceiling, rtol=1e-8) if np.isfinite(ceiling).all() else (far > 10 * self.g).all()
        if np.isfinite(ceiling).all():
            assert np.isinf(L.conjugate(ceiling)).all()


class OnlyThree(ScalarLoss):
    """The square with nothing but its cost, its slope, and the inverse of that."""

    name = "only_three"

    def cost(self, q, c):
        return 0.5 * (q - c) ** 2

    def slope(self, q, c):
        return q - c

    def at_slope(self, m, c):
        return c + m


class Priced(Loss):
    """A loss that binds itself, with a setting of the name of a method of ScalarLoss."""

    name, cost = "priced", 2.0

    def bind(self, rows):
        return SquaredHinge().bind(rows)


def test_a_loss_that_binds_itself_may_have_any_settings():
    check_loss(Priced())


DERIVED = [(OwnSlack(D), EXPLICIT_SLACKS.get(type(D)) or OwnSlack(D)) for D in DIVERGENCES] + [
    (OnlyThree(), SquaredHinge())
]


@pytest.mark.parametrize(("derived", "written"), DERIVED, ids=lambda x: x.name)
class TestDerivedLosses:
    """What follows from the functions of a divergence or a loss equals the formulas written out."""

    def test_row_functions(self, derived, written, rng):
        b, g, tau = rng.uniform(0.5, 3.0, 12), 10.0 ** rng.uniform(-1, 1, 12), 10.0 ** rng.uniform(-6, 1, 12)
        scale = np.ones(12) if derived.is_positive else rng.uniform(0.5, 3.0, 12)
        p, mu = b * rng.uniform(0.2, 4.0, 12), rng.uniform(-0.9, 0.9, 12) * g * np.minimum(b, 1 / b)
        one, other = (equalities(loss, b, g, scale) for loss in (derived, written))
        assert one.value(p) == pytest.approx(other.value(p), rel=1e-11)
        for name, at in (("derivatives", p), ("relaxed", mu)):
            for found, expected in zip(getattr(one, name)(at), getattr(other, name)(at)):
                assert np.allclose(found, expected, rtol=1e-9, atol=1e-10)
        assert np.allclose(one.conjugate(mu), other.conjugate(mu), rtol=1e-9, atol=1e-12)
        assert np.allclose(one.curvature_at_bound, other.curvature_at_bound, rtol=1e-9)
        for found, expected in zip(one.dual_box, other.dual_box):
            assert np.allclose(found, expected, rtol=1e-12)
        q, m, c = p / scale, mu * scale / g, b / scale
        path, chord = derived.on_path(m, c, tau), derived.chord(q, m, c, tau)
        barrier = tau / q if derived.is_positive else 0.0
        assert np.allclose(path, ScalarLoss.on_path(derived, m, c, tau), rtol=1e-9)
        assert np.allclose(chord * (derived.slope(q, c) - barrier - m), q - path, rtol=1e-7)
        if written.is_positive == derived.is_positive:
            assert np.allclose(path, written.on_path(m, c, tau), rtol=1e-9)
            assert np.allclose(chord, written.chord(q, m, c, tau), rtol=1e-6)

    def test_outside_the_domain_it_is_infinite(self, derived, written, rng):
        L = equalities(derived, rng.uniform(0.5, 3.0, 5), np.ones(5), np.ones(5))
        top = L.dual_box[1]
        assert np.isinf(L.conjugate(np.where(np.isfinite(top), 1.5 * top, np.inf))).all()


def test_hard_loss():
    b, mu = np.array([2.0, 3.0]), np.array([0.5, -4.0])
    L = equalities(Hard(), b, np.ones(2), np.ones(2))
    assert (L.conjugate(mu) == mu * b).all()
    assert (L.relaxed(mu)[0] == b).all()
    assert (L.relaxed(mu)[1] == 0).all()
    assert np.isinf(L.curvature_at_bound).all()
    assert np.isinf(L.value(np.nextafter(b, 9.0)))
    assert L.value(b) == 0
    with pytest.raises(TypeError, match="hard constraint"):
        L.derivatives(b)


@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
def test_the_slack_of_a_value_of_zero_is_finite_where_phi_is_so(D):
    """Rounding may have made such a value slightly negative; beyond that, the loss is infinite."""
    b = np.array([2.0])
    L = equalities(OwnSlack(D), b, np.ones(1), np.ones(1))
    at_zero = np.inf if D.keeps_rank else pytest.approx(D.phi_at_zero() - D.phi(b)[0] + D.link(b)[0] * b[0], rel=1e-9)
    assert L.value(np.zeros(1)) == at_zero
    assert L.value(-1e-13 * b) == at_zero
    assert np.isinf(L.value(-1e-11 * b))


def test_ends_of_the_dual_box_are_infinite_for_tiny_weights_and_large_scales():
    L = equalities(SquaredHinge(), np.array([1e200]), np.array([1e-200]), np.array([1e200]))
    assert [end[0] for end in L.dual_box] == [-np.inf, np.inf]


@pytest.mark.parametrize("mixed", [True, False])
def test_losses_of_all_rows_count_violated_rows_only(rng, mixed):
    c = 60
    kinds = tuple(LOSSES)
    kind = rng.integers(0, len(kinds), c).astype(np.int8) if mixed else np.zeros(c, np.int8)
    b, g, scale = rng.uniform(0.5, 2.0, (3, c))
    scale[np.array([loss.is_positive for loss in kinds])[kind]] = 1.0
    sense = rng.integers(-1, 2, c).astype(np.int8)
    L, p = RowLosses(b, sense, g, scale, kinds, kind), rng.uniform(0.1, 4.0, c)
    each = np.array([g[k] * LOSSES[kinds[kind[k]]](p[k], b[k], scale[k]) for k in range(c)])
    violated = np.where(sense == 0, True, sense * (p - b) > 0)
    assert (L.violated(p) == violated).all()
    met = b * (1 - 1e-12 * sense)  # at the bound, to rounding: costs nothing on its own side
    assert (L.violated(met) == (sense == 0)).all()
    assert (L.derivatives(met)[1][sense != 0] == 0).all()
    assert L.value(p) == pytest.approx(each[violated].sum(), rel=1e-12)
    first, second = L.derivatives(p)
    assert (first[~violated] == 0).all()
    assert (second[~violated] == 0).all()
    assert (second[violated] > 0).all()
    assert (sense[violated & (sense != 0)] * first[violated & (sense != 0)] > 0).all()
    lower, upper = L.dual_box
    assert ((lower <= first) & (first < upper + (upper == 0))).all()
    # Fenchel: loss(p) + loss*(mu) = mu p at the slope mu of a violated row, >= elsewhere
    total = np.where(violated, each, 0.0) + L.conjugate(first)
    assert np.allclose(total[violated], (first * p)[violated], rtol=1e-9, atol=1e-10)
    assert np.allclose(L.relaxed(first)[0][violated], p[violated], rtol=1e-9)


# ---------------------------------------------------------------- operators
@pytest.mark.parametrize("name", OPERATORS)
class TestOperator:
    def test_values_and_adjoint(self, name, rng):
        op = OPERATORS[name](rng)
        A, X, w = dense(op), symmetric(rng, op.r), rng.normal(size=op.c)
        assert np.allclose(op.values(X), np.tensordot(A, X, 2), **EXACT)
        assert np.allclose(op.adjoint(w), np.tensordot(w, A, 1), **EXACT)
        assert op.values(X) @ w == pytest.approx(np.sum(X * op.adjoint(w)), rel=1e-11)
        x = rng.uniform(0.0, 2.0, op.r)
        assert np.allclose(op.values_diagonal(x), op.values(np.diag(x)), **EXACT)
        assert np.allclose(op.values_diagonal(None), op.values(np.eye(op.r)), **EXACT)

    def test_all_forms_of_the_same_rows_agree(self, name, rng):
        op = OPERATORS[name](rng)
        plain, X, w = MatrixRows(dense(op)), symmetric(rng, op.r), rng.normal(size=op.c)
        both = Stacked([(np.arange(op.c), op), (np.arange(op.c, 2 * op.c), plain)])
        assert np.allclose(both.values(X)[: op.c], both.values(X)[op.c :], **EXACT)
        assert np.allclose(op.adjoint(w), plain.adjoint(w), **EXACT)
        assert np.allclose(op.features(None), plain.features(None), **EXACT)

    @pytest.mark.parametrize("columns", [4, 2])
    def test_congruence(self, name, rng, columns):
        op, F = OPERATORS[name](rng), rng.normal(size=(4, columns))
        X = symmetric(rng, columns)
        assert np.allclose(op.congruence(F).values(X), op.values(F @ X @ F.T), **EXACT)
        assert op.congruence(F).r == columns

    @pytest.mark.parametrize("pick", ["few", "mask", "all", "one"])
    def test_restrict(self, name, rng, pick):
        op = OPERATORS[name](rng)
        rows = {
            "few": np.sort(rng.permutation(op.c)[:4]),
            "mask": rng.random(op.c) < 0.6,
            "all": np.arange(op.c),
            "one": np.array([op.c - 1]),
        }[pick]
        part = op.restrict(rows)
        assert part.c == len(np.arange(op.c)[rows])
        assert np.allclose(dense(part), dense(op)[rows], **EXACT)
        X = symmetric(rng, op.r)
        assert np.allclose(part.values(X), op.values(X)[rows], **EXACT)

    def test_single_precision(self, name, rng):
        op = OPERATORS[name](rng)
        single, X, w = op.astype(np.float32), symmetric(rng, op.r), rng.normal(size=op.c)
        p, A = single.values(X.astype(np.float32)), single.adjoint(w.astype(np.float32))
        assert (p.dtype, A.dtype) == (np.float32, np.float32)
        assert np.allclose(p, op.values(X), rtol=1e-4, atol=1e-4)  # 6e-8 times terms of up to 100
        assert np.allclose(A, op.adjoint(w), rtol=1e-4, atol=1e-4)

    def test_features_are_isometric(self, name, rng):
        op = OPERATORS[name](rng)
        S, X = np.exp(symmetric(rng, op.r) / 4), symmetric(rng, op.r)
        assert np.allclose(op.features(S) @ svec(X), op.values(S * X), **EXACT)
        assert np.allclose(
            op.features(None) @ op.features(None).T, np.tensordot(dense(op), dense(op), ((1, 2), (1, 2)))
        )
        assert np.allclose(smat(svec(X), op.r), X, **EXACT)

    def test_sizes(self, name, rng):
        """tr(|A_i| diag(x)), the unit of a row whose bound is 0."""
        op, x = OPERATORS[name](rng), rng.uniform(0.5, 2.0, 4)
        values, V = np.linalg.eigh(dense(op))
        expected = np.einsum("ikl,il,ikl,k->i", V, np.abs(values), V, x)
        assert np.allclose(op.sizes(x), expected, rtol=1e-8, atol=1e-10)

    def test_outer(self, name, rng):
        """The sum of outer products, or the multiple of the identity, is the row; vectors beyond r would be waste."""
        op = OPERATORS[name](rng)
        assert np.allclose(assembled(op.outer()), dense(op), **EXACT)
        assert np.diff(op.outer().ptr).max() <= op.r

    def test_no_rows(self, name, rng):
        """Rows may all be eliminated or left out: what is left is an operator, too."""
        none = OPERATORS[name](rng).restrict(np.zeros(0, np.int64))
        assert none.values(np.eye(4)).shape == none.norms().shape == none.exact_norms().shape == (0,)
        assert none.vanishing(np.eye(4)[:, :2]).shape == none.congruence(np.eye(4)[:, :2]).norms().shape == (0,)
        assert none.sizes(np.ones(4)).shape == none.squared_norms(np.ones((4, 4))).shape == (0,)
        assert none.features(None).shape == (0, 10) and none.gram().shape == (0, 0)
        assert not none.adjoint(np.zeros(0)).any() and not none.normal_matrix(np.zeros(0), None).any()
        assert len(none.outer().shift) == 0

    def test_outer_of_some_rows(self, name, rng):
        op = OPERATORS[name](rng)
        rows = np.sort(rng.permutation(op.c)[: op.c // 2])
        assert np.allclose(assembled(op.restrict(rows).outer()), dense(op)[rows], **EXACT)


def assembled(rows):
    """The matrices A_i that flat rows stand for."""
    c, m = len(rows.shift), len(rows.coef)
    assert (len(rows.ptr), rows.ptr[-1]) == (c + 1, m)
    V = rows.Z[rows.a[:m]] + rows.sign[:m, None] * rows.Z[rows.b[:m]]
    parts = [slice(rows.ptr[i], rows.ptr[i + 1]) for i in range(c)]
    sums = [(V[t].T * rows.coef[t]) @ V[t] for t in parts]
    return np.array(sums) + rows.shift[:, None, None] * np.eye(rows.Z.shape[1])


def test_outer_of_special_matrices():
    """Multiples of the identity stay whole, 0 has no terms, and a low rank has no more terms than that."""
    low = np.outer([1.0, 2, 3], [1.0, 2, 3])
    op = MatrixRows(
        np.array([2.5 * np.eye(3), 0 * np.eye(3), -np.eye(3), low, low - np.eye(3), np.diag([1.0, 1, 1 + 1e-9])])
    )
    found = op.outer()
    assert found.shift.tolist() == [2.5, 0, -1, 0, 0, 0]
    assert np.diff(found.ptr).tolist() == [0, 0, 0, 1, 3, 3]
    assert np.allclose(assembled(found), op.A, **EXACT)
    one = MatrixRows(np.array([[[2.0]], [[0.0]]])).outer()  # of order 1 every matrix is a multiple of the identity
    assert np.allclose(assembled(one), [[[2.0]], [[0.0]]])


def test_outer_of_mixed_rows_with_more_terms_than_dimensions(rng):
    """Such rows become eigenvectors, the others keep their pairs; the order of the rows stays."""
    base = OPERATORS["pairs"](rng)
    P = sp.csr_array(np.where(rng.random((8, base.c)) < 0.05, 1.0, 0.0))
    P = sp.csr_array(P + sp.csr_array((np.ones(20), ([3] * 10 + [6] * 10, list(range(20)))), shape=P.shape))
    op = SignedSums(base, P)
    assert np.diff(op.P.indptr).max() > op.r
    found = op.outer()
    assert np.diff(found.ptr).max() <= op.r
    assert np.allclose(assembled(found), dense(op), **EXACT)
    every = SignedSums(base, sp.csr_array(rng.normal(size=(3, base.c))))  # all of them wide
    assert np.allclose(assembled(every.outer()), dense(every), **EXACT)


def test_outer_of_stacks_keeps_the_order(rng):
    """Parts in any order, stacks in stacks, and rows without terms between others."""
    inner = Stacked(
        [
            (np.array([1, 2]), OPERATORS["rows"](rng).restrict(np.arange(2))),
            (np.array([0]), MatrixRows(3 * np.eye(4)[None])),
        ]
    )
    outer = Stacked(
        [(np.array([4, 0, 2]), inner), (np.array([3, 1]), OPERATORS["mixed"](rng).restrict(np.array([0, 5])))]
    )
    assert np.allclose(assembled(outer.outer()), dense(outer), **EXACT)
    assert np.count_nonzero(outer.outer().shift) == 1


# ---------------------------------------------------------------- solvers
def takes(solver, problem):
    """Whether a solver takes a problem; the refusal must say what is missing."""
    try:
        return problem.solve(solver=solver)
    except TypeError as error:
        assert solver.name in str(error)
        assert "solver=" in str(error)
        return None


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("name", SOLVERS)
def test_known_optimum(name, problem):
    result = takes(SOLVERS[name], problem)
    if result is None:
        assert name != "dual_newton"  # it takes everything
        return
    assert result.status == "OPTIMAL", repr(result)
    assert result.objective == pytest.approx(problem.objective, abs=1e-6 * max(1.0, problem.objective))
    assert result.dual_bound <= problem.objective + 1e-9 * max(1.0, problem.objective)
    # D is curved by 1 / x^2 at least, so a gap of 1e-6 leaves about sqrt(2e-6) x
    assert np.allclose(result.kernel(), problem.kernel, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_auto_chooses_a_solver_that_fits(problem):
    result = problem.solve()
    assert result.status == "OPTIMAL"
    assert set(result.solver.split(" + ")) <= set(SOLVERS)
    assert result.objective == pytest.approx(problem.objective, abs=1e-6 * max(1.0, problem.objective))


@pytest.mark.parametrize("problem", INFEASIBLE, ids=repr)
@pytest.mark.parametrize("name", ["auto", *SOLVERS])
def test_infeasible_by_every_solver(name, problem):
    result = takes(SOLVERS[name], problem) if name in SOLVERS else problem.solve()
    if result is None:
        assert name != "dual_newton"  # it takes everything
        return
    assert result.status == "INFEASIBLE", repr(result)
    assert sorted(result.conflict) == list(problem.conflict)


@pytest.mark.parametrize("D", DIVERGENCES, ids=by_name)
@pytest.mark.parametrize(
    "name", [name for name in SOFT_SOLVERS if name != "cyclic_projection"]
)  # whose value is the dual's
def test_soft_objective_of_a_state_is_that_of_its_certificate(name, D, rng):
    """A step is certified if the solver's own estimate of the gap is small, and every step is if there is a callback."""
    X = rng.normal(size=(8, 5))
    rows = random_pairs(rng, X, 12)
    given = {"divergence": D, "slack_weight": 1.0, "solver": name, "tol": 1e-4}
    try:
        estimated = nearest_kernel(X @ X.T, rows, **given).history
    except TypeError:
        assert name != "dual_newton"  # it takes everything
        return
    certified = nearest_kernel(X @ X.T, rows, callback=lambda record: False, **given).history
    assert np.isnan(estimated[0].gap)
    assert not np.isnan(certified[0].gap)
    pairs = [(a.objective, b.objective) for a, b in zip(estimated, certified)]
    assert np.allclose(*np.transpose(pairs), rtol=1e-10)  # rounding


def test_solver_settings_are_frozen_and_compare():
    for solver in SOLVERS.values():
        assert solver == type(solver)()
        with pytest.raises(AttributeError):
            solver.max_iter = 3


KNOWN = {name: REGISTERED[name] for name in RELATIONS}


def rows_of(relation, rng, n=9, c=7, **columns):
    """c rows between different samples, with bounds that every relation may have."""
    samples = np.array([rng.permutation(n)[: relation.arity] for _ in range(c)]).T
    return Constraints.of(relation, *samples, **{"bound": 1.0, "sense": "<="} | columns)


def form_matrix(name, k):
    """The matrix of a form on k samples, from its value at every pair of unit vectors."""
    E = np.eye(k)
    units = [[(np.outer(E[a], E[b]) + np.outer(E[b], E[a])) / 2 for b in range(k)] for a in range(k)]
    return np.array([[RELATIONS[name](K, *range(k)) for K in row] for row in units])


@pytest.mark.parametrize("name", RELATIONS)
class TestRelation:
    def test_values(self, name, rng):
        rows, G = rows_of(KNOWN[name], rng), rng.normal(size=(9, 4))
        K = G @ G.T
        written_out = [RELATIONS[name](K, *index[index >= 0]) for index in rows.index]
        assert np.allclose(rows.values(G), written_out, rtol=1e-12, atol=1e-12)

    def test_bound_to_points(self, name, rng):
        """Alone, and among rows of the other relations."""
        own = rows_of(KNOWN[name], rng)
        others = [rows_of(relation, rng, c=2) for relation in KNOWN.values()]
        Z, A = rng.normal(size=(9, 4)), rng.normal(size=(4, 4))
        K = Z @ (A + A.T) @ Z.T
        for rows in (own, sum(others, own)):
            written_out = [RELATIONS[r.name](K, *i[i >= 0]) for r, i in zip(relations_of(rows), rows.index)]
            operator = bind(rows, Z)
            assert np.allclose(operator.values(A + A.T), written_out, rtol=1e-11, atol=1e-11)
            w = rng.normal(size=rows.n_constraints)
            assert operator.values(A + A.T) @ w == pytest.approx(np.sum((A + A.T) * operator.adjoint(w)), rel=1e-10)

    def test_psd(self, name):
        """For every way in which samples may be one another."""
        relation = KNOWN[name]
        k = relation.arity
        if relation.is_whole:
            assert relation.is_psd
            return
        Q = form_matrix(name, k)
        assert relation.is_psd == (np.linalg.eigvalsh(Q)[0] > -1e-12)
        places = np.array(list(product(range(k), repeat=k)))
        index = np.full((len(places), 4), -1)
        index[:, :k] = places
        merged = [np.eye(k)[place].T @ Q @ np.eye(k)[place] for place in places]
        assert relation.is_psd_for(index).tolist() == [np.linalg.eigvalsh(M)[0] > -1e-12 for M in merged]

    def test_differences(self, name, rng):
        """Whether moving all points changes the value."""
        rows, G = rows_of(KNOWN[name], rng), rng.normal(size=(9, 4))
        moved = np.allclose(rows.values(G), rows.values(G + 10.0), rtol=1e-9, atol=1e-9)
        assert KNOWN[name].is_difference == moved

    def test_bounds(self, name, rng):
        if KNOWN[name].is_psd:
            with pytest.raises(ValueError, match=f"bound of a {name} must be at least 0"):
                rows_of(KNOWN[name], rng, bound=-1.0)
        else:
            assert rows_of(KNOWN[name], rng, bound=-1.0).bound[0] == -1.0

    @pytest.mark.parametrize("ids", [False, True])
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_files(self, name, ids, suffix, rng, tmp_path):
        rows = rows_of(KNOWN[name], rng, sense=">=", weight=np.inf)
        if ids:
            rows = Constraints.of(name, *(np.array([f"p{k}" for k in rows.index[:, a]]) for a in range(KNOWN[name].arity)),
                                  bound=1.0, sense=">=", weight=np.inf)  # fmt: skip
        path = tmp_path / f"rows{suffix}"
        write_constraints(path, rows)
        again = read_constraints(path)
        assert repr(again) == repr(rows)
        assert [again.describe(k) for k in range(rows.n_constraints)] == [
            rows.describe(k) for k in range(rows.n_constraints)
        ]

    def test_descriptions_carry_sense_and_bound(self, name, rng):
        text = rows_of(KNOWN[name], rng, bound=0.25, sense=">=").describe(0)
        assert ">=" in text and "0.25" in text

    @pytest.mark.parametrize("slack_weight", [np.inf, 1.0])
    @pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda D: D.name)
    def test_every_solver_solves_or_refuses(self, name, divergence, slack_weight, rng):
        """The values of a kernel near the prior, hard and soft: every solver ends at the same objective."""
        G = rng.normal(size=(6, 6))
        K0 = G @ G.T
        K = K0 + np.diag(rng.uniform(0.0, 1.0, 6))
        rows = rows_of(KNOWN[name], rng, n=6, c=3)
        value = np.array([RELATIONS[name](K, *index[index >= 0]) for index in rows.index])
        rows = replace(rows, bound=value, sense=np.zeros(len(value), np.int8))
        given = {"divergence": divergence, "slack_weight": slack_weight}
        best = nearest_kernel(K0, rows, **given)
        assert best.status == "OPTIMAL", repr(best)
        for solver in SOLVERS:
            try:
                result = nearest_kernel(K0, rows, solver=solver, **given)
            except TypeError as error:
                assert solver in str(error)
                continue
            # the interior point takes the derivative of the link as diagonal, and may not reach the optimum of a divergence of a user
            if (solver, divergence.name) == ("interior_point", "entropy_with_barrier") and result.status != "OPTIMAL":
                assert result.exit_reason in ("MAX_ITER", "STALLED") and not result.dual_bound > best.objective * (
                    1 + 1e-6
                )
                continue
            assert result.status == "OPTIMAL", repr(result)
            assert result.objective == pytest.approx(best.objective, rel=3e-6, abs=3e-6)


def relations_of(rows):
    return [rows.relations[code] for code in rows.relation]


def test_sum_of_plain_terms(rng):
    """Two terms with coefficient 1 are one row."""
    both = Relation("both", {"i-j": 1.0, "k-l": 1.0})
    rows, Z = rows_of(both, rng), rng.normal(size=(9, 4))
    assert bind(rows, Z).c == rows.n_constraints
    assert np.allclose(bind(rows, Z).values(np.eye(4)), rows.values(Z))


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="'similarity'"):
        register(Relation("similarity", {"i-j": 1.0}))
    assert REGISTERED["similarity"] is BUILT_IN[1]
    with pytest.raises(TypeError, match="snake case"):
        register(Relation("my relation", {"i-j": 1.0}))
