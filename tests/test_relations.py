"""The table of relations: facts that follow from a form, and one of a user's own in every place where relations occur."""

import pickle
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import bregmat
from bregmat import Constraints, Relation, nearest_kernel, register
from bregmat.constraints.relations import BUILT_IN
from bregmat.constraints.relations import RELATIONS as REGISTERED
from bregmat.io import load, read_constraints, save, write_constraints, write_points
from bregmat.operators.binding import bind
from bregmat_app.cli.app import app
from bregmat_app.report import ReportData, render_report
from cases import DIVERGENCES, RELATIONS, SOLVERS
from toy_relation import MIDPOINT

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


# ---------------------------------------------------------------- identities of every relation
def test_every_relation_is_tested():
    assert {*RELATIONS} == {name for name, relation in REGISTERED.items() if not relation.takes_matrix}


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
            assert result.status == "OPTIMAL" or result.exit_reason == "MAX_ITER", repr(result)
            if result.status == "OPTIMAL":
                assert result.objective == pytest.approx(best.objective, rel=3e-6, abs=3e-6)


def relations_of(rows):
    return [rows.relations[code] for code in rows.relation]


# ---------------------------------------------------------------- a relation of one's own
@pytest.fixture
def midpoints(rng):
    """30 points, and rows that each of 20 lies near the midpoint of two others."""
    X = rng.normal(size=(30, 3))
    i, j, k = np.array([rng.permutation(30)[:3] for _ in range(20)]).T
    return X, Constraints.of("midpoint", i, j, k, bound=0.5, sense="<=")


def test_toy_is_short():
    assert len(Path(__file__).with_name("toy_relation.py").read_text().splitlines()) <= 40


def test_samples_that_must_differ():
    with pytest.raises(ValueError, match=r"i and k must be different samples; they are equal in constraint 1"):
        Constraints.of("midpoint", [0, 1], [1, 2], [2, 1], bound=1.0, sense="<=")
    with pytest.raises(TypeError, match=r"midpoint names 3 samples; got 2"):
        Constraints.of("midpoint", 0, 1, bound=1.0, sense="<=")
    with pytest.raises(ValueError, match="relation must be .*midpoint.* got 'centre'"):
        Constraints.of("centre", 0, 1, 2, bound=1.0, sense="<=")
    with pytest.raises(TypeError, match=r"use Constraints\.linear"):
        Constraints.of("linear", bound=1.0, sense="<=")


def test_joined_selected_and_pickled(midpoints):
    X, rows = midpoints
    both = Constraints.diagonal([1.0]) + rows + Constraints.trace(3.0) + rows
    assert [line.split()[:2] for line in repr(both).splitlines()[2:]] == [
        ["diagonal", "1"],
        ["trace", "1"],
        ["midpoint", "40"],
    ]
    again = pickle.loads(pickle.dumps(both.select(slice(0, 5))))
    assert np.array_equal(again.values(X), both.values(X)[:5])
    assert again.describe(1) == rows.describe(0)
    named, kept = both.locate(np.arange(30)[::-1])
    assert kept.all()
    assert np.allclose(named.values(X[::-1]), both.values(X))


def test_must_link_of_a_form_that_is_psd(rng):
    """A hard bound of 0 makes one direction vanish, as it does for a distance: not those in which terms cancel but for rounding."""
    v = np.array([1.0, -0.5, -0.5, 0.0])
    for _ in range(20):
        K0 = np.cov(rng.normal(size=(4, 20)))
        result = nearest_kernel(K0, Constraints.of(MIDPOINT, 0, 1, 2, bound=0.0, sense="<="), divergence="vonneumann")
        assert result.status == "OPTIMAL"
        assert abs(v @ result.kernel() @ v) < 1e-12
        assert np.linalg.matrix_rank(result.kernel(), tol=1e-9) == 3


def test_no_false_claim_that_points_are_identical(rng):
    """A form whose value at the identity happens to be 0 is not 0: only for PSD forms would that follow."""
    level = Relation("level", {"i": 1.0, "j": -1.0}, left="level of {i} over {j}")
    rows = Constraints.of(level, 0, 1, bound=1.0, sense=">=")
    assert not rows.psd_rows().any()
    assert nearest_kernel(np.eye(3), rows).status == "OPTIMAL"
    same = np.ones((3, 3))  # here the midpoint is the point itself
    with pytest.raises(
        ValueError, match=r"midpoint of 1 and 2\) >= 2 can never hold, because its value is 0 for every"
    ):
        nearest_kernel(same, Constraints.of(MIDPOINT, 0, 1, 2, bound=2.0, sense=">="))


def test_sum_of_plain_terms(rng):
    """Two terms with coefficient 1 are one row."""
    both = Relation("both", {"i-j": 1.0, "k-l": 1.0})
    rows, Z = rows_of(both, rng), rng.normal(size=(9, 4))
    assert bind(rows, Z).c == rows.n_constraints
    assert np.allclose(bind(rows, Z).values(np.eye(4)), rows.values(Z))


def test_model_report_and_command_line(midpoints, tmp_path, monkeypatch):
    X, rows = midpoints
    learner = bregmat.MetricLearner(slack_weight=1.0).fit(X, constraints=rows)
    save(tmp_path / "model.bm", learner)
    again = load(tmp_path / "model.bm")
    assert again.constraints_.describe(0) == rows.describe(0)
    assert np.array_equal(again.constraints_.values(X), rows.values(X))
    monkeypatch.delitem(REGISTERED._classes, "midpoint")
    with pytest.raises(ValueError, match="has the relation 'midpoint', which is not known here; import the module"):
        load(tmp_path / "model.bm")


@pytest.mark.usefixtures("unrendered")
def test_report(midpoints):
    X, rows = midpoints
    learner = bregmat.MetricLearner(slack_weight=1.0).fit(X, constraints=rows)
    page = render_report(ReportData("midpoints", learner.result_, X, rows, learner=learner))
    assert "20 squared distances to midpoints" in page
    assert "midpoint of " in page


@pytest.mark.usefixtures("unrendered")
def test_command_line(midpoints, tmp_path, monkeypatch):
    X, rows = midpoints
    monkeypatch.chdir(tmp_path)
    write_points(tmp_path / "points.csv", X, names=["a", "b", "c"])
    write_constraints(tmp_path / "rows.csv", rows)
    toy = Path(__file__).with_name("toy_relation.py")
    (tmp_path / "mine.py").write_text(toy.read_text().replace("midpoint", "middle"))
    (tmp_path / "rows.csv").write_text((tmp_path / "rows.csv").read_text().replace("midpoint", "middle"))
    try:
        learn = ["learn", "points.csv", "--constraints", "rows.csv", "--report", "page.html"]
        done = CliRunner().invoke(app, learn)
        assert done.exit_code == 2 and "unknown relation 'middle'" in done.stderr
        done = CliRunner().invoke(app, ["--import", "mine.py", *learn], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert "constraints met, of 20" in done.stdout
        assert "squared distances to middles" in (tmp_path / "page.html").read_text()
        done = CliRunner().invoke(app, ["--import", "mine.py", "learn", "--help"])
        assert "middle: samples i, j and k" in " ".join(done.stdout.split())
    finally:
        REGISTERED._classes.pop("middle", None)
    done = CliRunner().invoke(app, ["--import", "nothing_of_this_name", *learn])
    assert done.exit_code == 2 and "nothing_of_this_name" in done.stderr


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": {"i*j": 1.0}}, r"form must be made of .*; got 'i\*j'"),
        ({"form": {"i-k": 1.0}}, "form must use the samples i, j, k, l in this order; got i, k"),
        ({"form": {"i": 1.0}, "takes_matrix": True}, "a form, or takes a matrix for each constraint; not both"),
    ],
)
def test_bad_relations(settings, message):
    with pytest.raises(ValueError, match=message):
        Relation("bad", **settings)


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="'similarity'"):
        register(Relation("similarity", {"i-j": 1.0}))
    assert REGISTERED["similarity"] is BUILT_IN[1]
    with pytest.raises(TypeError, match="snake case"):
        register(Relation("my relation", {"i-j": 1.0}))


def test_rows_keep_no_columns_that_they_do_not_use(tmp_path):
    pairs = Constraints.sq_distance([0, 1], [2, 3], 1.0, "<=")
    fours = Constraints.comparison([0], [1], [2], [3], 0.5)
    assert pairs.index.dtype == np.int32 and pairs.index.nbytes == 16 and Constraints.trace(1.0).index.shape == (1, 1)
    both = fours + pairs + Constraints.trace(2.0)
    assert both.index.tolist() == [[0, 1, 2, 3], [0, 2, -1, -1], [1, 3, -1, -1], [-1, -1, -1, -1]]
    assert np.array_equal(both.select([1, 2]).index, pairs.index)
    assert [both.describe(k) for k in (0, 1)] == [fours.describe(0), pairs.describe(0)]
    write_constraints(tmp_path / "rows.csv", pairs)
    assert (tmp_path / "rows.csv").read_text().splitlines()[1] == "sq_distance,0,2,,,1.0,<=,1.0"
    far = Constraints.sq_distance([0], [2**40], 1.0, "<=")  # a number of more than 32 bits
    assert far.index.tolist() == [[0, 2**40]] and (pairs + far).index.tolist()[2] == [0, 2**40]


@pytest.mark.parametrize("kind", ["dense", "sparse", "low rank"])
def test_a_given_matrix_with_bound_0_is_met_up_to_rounding_of_its_terms(rng, kind):
    """The unit of a violation is the sum of the sizes of the terms, not their sum, which is rounding."""
    G = rng.normal(size=(4, 3))
    v, w = G[0] + G[1], G[2] - G[3]
    A = np.zeros((4, 4))
    A[:2, :2], A[2:, 2:] = 1.0 / (v @ v), np.array([[-1.0, 1.0], [1.0, -1.0]]) / (w @ w)
    vectors = np.array([[1.0, 1, 0, 0], [0, 0, 1, -1]]).T
    given = {"dense": A, "sparse": sp.csr_array(A), "low rank": (vectors, np.array([1 / (v @ v), -1 / (w @ w)]))}[kind]
    rows = Constraints.linear([given], 0.0, "==")
    assert rows.satisfied(G, 1e-14).all()
    assert rows.violation(np.diag([1.0, 2.0, 1.0, 1.0]) @ G)[0] > 1e-2
