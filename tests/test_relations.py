"""The table of relations: facts that follow from a form, and one of a user's own in every place where relations occur."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import bregmat
from bregmat import Constraints, Relation, nearest_kernel
from bregmat.io import load, save, write_constraints, write_points
from bregmat_app.cli.app import app
from bregmat_app.report import ReportData, render_report
from cases import REGISTERED, RELATIONS
from toy_relation import MIDPOINT


# ---------------------------------------------------------------- identities of every relation
def test_every_relation_is_tested():
    assert {*RELATIONS} == {name for name, relation in REGISTERED.items() if not relation.takes_matrix}


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


def test_imported_files_may_have_any_name(tmp_path, monkeypatch):
    """A file is loaded from its path, even if a module of Python has its name, and its folder hides no other module."""
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    for name in ("random.py", "mine.v2.py"):
        Path(name).write_text(f"from pathlib import Path\nPath('{name}.loaded').touch()\n")
        done = CliRunner().invoke(app, ["--import", name, "inspect", "nothing.bm"])
        assert done.exit_code == 2 and "nothing.bm: no such file" in done.stderr
        assert Path(f"{name}.loaded").exists()
    done = CliRunner().invoke(app, ["--import", "absent.py", "inspect", "nothing.bm"])
    assert done.exit_code == 2 and "absent.py: no such file" in done.stderr
    assert sys.path == before and hasattr(sys.modules["random"], "randrange")
    sys.modules.pop("mine.v2", None)


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
