"""The command: exit codes, what is written and when, messages that name what is wrong."""

import inspect
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bregmat import Constraints, KernelKMeans, MarginSVC, MetricLearner
from bregmat.base.threads import interruptible
from bregmat.estimators.task import Candidate
from bregmat.io import load, read_manifest, read_points, save, write_constraints, write_points
from bregmat.online import MatrixExponentiatedGradient, OnlineLogDet, OnlinePCA
from bregmat.quadratic import nnqp
from bregmat_app.cli import learning, main, measure, show
from bregmat_app.cli.app import app
from bregmat_app.cli.points import class_names, find_labels, why_not_used

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def bregmat(monkeypatch, tmp_path):
    """bregmat("learn", ...) runs the command in a fresh folder with wide output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("BREGMAT_DATA", raising=False)

    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)

    return run


def two_classes(rng):
    y = np.repeat([0, 1], 30)
    X = rng.standard_normal((60, 4)) * [0.3, 3.0, 3.0, 3.0]
    X[:, 0] += y
    return X, y


def write_classes(folder, X, y):
    columns = {"id": np.array([f"p{k:02d}" for k in range(60)]), "kind": np.where(y == 1, "yes", "no")}
    write_points(folder / "points.csv", X, names=["a", "b", "c", "d"], columns=columns)
    return folder / "points.csv"


@pytest.fixture
def data(rng):
    """60 points in two classes that the first column tells apart; the other three are louder noise."""
    return two_classes(rng)


@pytest.fixture
def points(tmp_path, data):
    return write_classes(tmp_path, *data)


@pytest.fixture
def pairs(tmp_path, rng, data):
    """30 pairs of the same class that shall be near, 30 of different classes that shall be far; named by id."""
    y = data[1]
    same = np.array([rng.choice(np.flatnonzero(y == k % 2), 2, replace=False) for k in range(30)])
    other = np.column_stack([rng.choice(30, 30), 30 + rng.choice(30, 30)])
    names = np.array([f"p{k:02d}" for k in range(60)])
    rows = Constraints.sq_distance(names[same[:, 0]], names[same[:, 1]], 1.0, "<=")
    rows = rows + Constraints.sq_distance(names[other[:, 0]], names[other[:, 1]], 4.0, ">=")
    write_constraints(tmp_path / "pairs.csv", rows)
    return tmp_path / "pairs.csv"


# ---------------------------------------------------------------- learn


def write(tmp_path, name, *lines):
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / name


@pytest.mark.slow
def test_learn_from_labels(bregmat, points, tmp_path):
    options = ("--strategy", "random", "--out", "model.bm", "--report", "report.html")
    done = bregmat("learn", points, "--labels", "kind", *options)
    assert done.exit_code == 0, done.output
    for text in (
        "points.csv: 60 points, 4 features",
        "soft constraints met, of 160",
        "a similar pair is closer than a dissimilar one",
        "no hard constraints",
        "slack weight",
        "mirror_newton",
        "4-NN accuracy, 5-fold",
        "k-means NMI",
    ):
        assert text in done.stdout
    for text in ("OPTIMAL", "objective", "dual bound", "relative gap", "time", "model.bm", "report.html"):
        assert text in done.stdout
    learner = load("model.bm")
    X = read_points(points).X
    assert learner.transform(X).shape == (60, 4)
    assert learner.constraints_.n_constraints == 160
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>") and "4-NN accuracy" in html
    legend = html[: html.index('id="violations"')]
    assert "</span> yes</li>" in legend and "</span> no</li>" in legend


@pytest.mark.slow
def test_learn_where_neighbours_are_decided(bregmat, points, pairs):
    options = ("--strategy", "neighbors", "--n-constraints", "120")
    done = bregmat(
        "learn", points, "--labels", "kind", "--constraints", pairs, *options, "--out", "m", "--report", "r.html"
    )
    assert done.exit_code == 0, done.output
    learner = load("m")
    assert f"soft constraints met, of {learner.constraints_.n_constraints}" in done.stdout
    assert learner.strategy_ == "neighbors" and learner.constraints_.n_constraints <= 180  # 60 pairs are given
    done = bregmat("learn", points, "--labels", "kind", "--strategy", "neighbors", "--slack-weight", "inf")
    assert done.exit_code == 3, done.output
    assert "drawn from the labels: sq_dist(p" in done.stderr


def test_learning_helps_on_held_out_folds(bregmat, tmp_path, data, rng):
    X = np.column_stack([data[0], rng.normal(size=(60, 6))])
    write_points(tmp_path / "noisy.csv", X, names=list("abcdefghij"), columns={"kind": data[1]})
    done = bregmat("learn", tmp_path / "noisy.csv", "--labels", "kind")
    (line,) = [line for line in done.stdout.splitlines() if "4-NN" in line]
    before, scaled, after = (float(cell.split("±")[0]) for cell in line.split("│")[-4:-1])
    assert before < 0.75 and after > 0.85 and after > scaled


def test_where_learning_gains_nothing_it_says_so(bregmat, tmp_path):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=(40, 2)) + 50 * (np.arange(40) % 2)[:, None], np.arange(40) % 2])
    np.savetxt(tmp_path / "far.csv", table, delimiter=",", header="a,b,kind", comments="")
    done = bregmat("learn", tmp_path / "far.csv", "--labels", "kind")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert (
        "nothing is gained by learning here: on held-out rows no learned metric is better than the columns as given"
        in said
    )


@pytest.mark.usefixtures("unrendered")
def test_that_fewer_constraints_are_met_is_explained(bregmat, tmp_path):
    """Forty pairs are far enough apart, and ten others should be a sixth of their distance: the compromise breaks the forty."""
    write_points(tmp_path / "line.csv", np.arange(60.0)[:, None] + 0.5, names=["place"], columns={})
    i, j = np.arange(40), np.arange(10)
    rows = Constraints.sq_distance(i, i + 1, 0.9, ">=") + Constraints.sq_distance(j, j + 6, 1.0, "<=")
    write_constraints(tmp_path / "pairs.csv", rows)
    done = bregmat("learn", "line.csv", "--constraints", "pairs.csv", "--report", "r.html")
    assert done.exit_code == 0, done.output
    after, before, price, now = re.search(
        r"fewer soft constraints are met after learning \(([\d,]+)\) than before it \(([\d,]+)\): they ask for more than any metric can "
        r"give, .* fell from ([\d.]+) to ([\d.]+)\)", done.stderr
    ).groups()  # fmt: skip
    numbers = [int(text.replace(",", "")) for text in (after, before)]
    assert numbers[0] < numbers[1] and float(now) < float(price)
    assert f" {before} (" in done.stdout and f" {after} (" in done.stdout
    page = (tmp_path / "r.html").read_text("utf-8")
    assert (
        "Where fewer are met than before learning, they ask" in page and "fewer soft constraints are met after" in page
    )


def test_where_more_are_met_nothing_is_explained(bregmat, points):
    assert "fewer soft constraints" not in bregmat("learn", points, "--labels", "kind", "--folds", "0").stderr


@pytest.mark.slow
def test_labels_that_are_values(bregmat, tmp_path):
    """As MetricLearner: numbers that are not all whole are targets of regression; the test is one of regression."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4)) * [1.0, 3.0, 3.0, 3.0]
    target = np.where(np.arange(90) % 9 == 0, np.nan, 2.5 * X[:, 0])
    write_points(tmp_path / "t.csv", X, names=list("abcd"), columns={"target": target})
    done = bregmat("learn", "t.csv", "--labels", "target", "--out", "m", "--report", "r.html", "--random-state", "3")
    assert done.exit_code == 0, done.output
    assert "labels 'target' are numbers that are not all whole: values, not classes" in done.stderr
    assert "10 of 90 rows have no label" in done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "4-NN R², 5-fold" in line]
    before, scaled, after = (float(cell.split("±")[0]) for cell in line.split("│")[-4:-1])
    assert after > scaled > before and "NMI" not in done.stdout
    again = MetricLearner(random_state=3).fit(X, target)
    assert np.allclose(load("m").get_mahalanobis_matrix(), again.get_mahalanobis_matrix(), rtol=1e-6)
    assert "4-NN R²" in (tmp_path / "r.html").read_text("utf-8")


def test_a_report_that_cannot_be_written_leaves_the_old_file(bregmat, points, tmp_path, monkeypatch):
    given = ("learn", points, "--labels", "kind", "--folds", "0", "--report", "report.html")
    (tmp_path / "report.html").write_text("old")

    def fail(*_):
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        done = bregmat(*given)
    assert done.exit_code == 2 and "no space" in done.stderr
    assert (tmp_path / "report.html").read_text() == "old"
    assert bregmat(*given).exit_code == 0
    assert (tmp_path / "report.html").read_text("utf-8").rstrip().endswith("</html>")
    assert not [path for path in tmp_path.iterdir() if "tmp" in path.suffix]


def test_values_with_decimal_commas(bregmat, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f};{y:.3f};{x + 0.5:.3f}".replace(".", ",") for x, y in rng.normal(size=(40, 2))]
    write(tmp_path, "t.csv", "a;b;target", *lines, "1,5;2,5;NA")
    done = bregmat("learn", "t.csv", "--labels", "target", "--folds", "2")
    assert done.exit_code == 0, done.output
    assert "values, not classes" in done.stderr and "1 of 41 rows have no label" in done.stderr
    assert "4-NN R², 2-fold" in done.stdout


def test_whole_numbers_with_many_values_are_told(bregmat, data, tmp_path):
    write_points(tmp_path / "t.csv", data[0], names=list("abcd"), columns={"age": np.arange(60) // 2})
    done = bregmat("learn", "t.csv", "--labels", "age", "--folds", "0")
    assert "labels 'age' are 30 classes of 60 points; whole numbers are classes. If they are values" in done.stderr


def test_learn_from_constraints_named_by_id(bregmat, points, pairs, tmp_path):
    done = bregmat("learn", points, "--constraints", pairs, "--exclude", "kind", "--out", "model.bm")
    assert done.exit_code == 0, done.output
    assert "constraints met, of 60" in done.stdout and "NN accuracy" not in done.stdout
    X = read_points(points).X
    W = load("model.bm").get_mahalanobis_matrix()
    assert W[0, 0] > 5 * W[1, 1]  # the column that tells the classes apart
    for said in (done, bregmat("inspect", "model.bm")):  # without labels there is no strategy
        assert "slack weight 1" in said.stdout and "strategy neighbors" not in said.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert X.shape == (60, 4)


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_other_formats_and_row_numbers(bregmat, data, tmp_path, suffix):
    X, y = data
    write_points(tmp_path / f"points{suffix}", X, names=["a", "b", "c", "d"])
    np.save(tmp_path / "y.npy", y)
    rows = Constraints.sq_distance(np.arange(29), np.arange(1, 30), 1.0, "<=")
    write_constraints(tmp_path / "pairs.parquet", rows)
    given = ("--constraints", "pairs.parquet", "--labels", "y.npy", "--strategy", "random")
    done = bregmat("learn", f"points{suffix}", *given, "--folds", "2")
    assert done.exit_code == 0, done.output
    assert "constraints met, of 189" in done.stdout and "4-NN accuracy, 2-fold" in done.stdout


@pytest.mark.usefixtures("unrendered")
def test_points_absent_from_the_file_are_reported(bregmat, points, pairs, tmp_path):
    with pairs.open("a") as handle:
        handle.write("sq_distance,p00,stranger,,,1,<=,1\n")
    done = bregmat("learn", points, "--constraints", pairs, "--report", "report.html")
    assert done.exit_code == 0, done.output
    assert (
        "1 of 61 constraints of pairs.csv were left out, because they name points that are not in points.csv: "
        in done.stderr
    )
    assert "'stranger' (line 62); column 'id' names the points" in done.stderr
    assert "1 of 61 constraints" in (tmp_path / "report.html").read_text("utf-8")


def test_pairs_without_bounds(bregmat, points, tmp_path):
    """Bounds are percentiles in scaled columns, where learning starts."""
    must = write(
        tmp_path, "must.csv", "one,other,link", "p00,p01,must", "p02,p03,must", "p00,p40,cannot", "p01,p50,cannot"
    )
    done = bregmat("learn", points, "--constraints", must, "--out", "m")
    assert done.exit_code == 0, done.output
    assert (
        "must.csv was read as pairs of one and other; by link 2 belong together and 2 do not; bounds are" in done.stderr
    )
    assert "soft constraints met, of 4" in done.stdout
    learner, X, index = load("m"), read_points(points).X, [[0, 1], [2, 3], [0, 40], [1, 50]]
    rows = Constraints.from_pairs(index, [1, 1, -1, -1], X=X / X.std(axis=0), random_state=0)
    assert learner.prior_ == "variance" and np.allclose(learner.constraints_.bound, rows.bound)
    done = bregmat("learn", points, "--constraints", must, "--out", "n", "--prior", "identity")
    rows = Constraints.from_pairs(index, [1, 1, -1, -1], X=X, random_state=0)
    assert np.allclose(load("n").constraints_.bound, rows.bound) and load("n").prior_ == "identity"
    done = bregmat("learn", points, "--constraints", must, "--prior", "within")
    assert done.exit_code == 2 and "must.csv has no bounds, and --prior within has no scale" in done.stderr


def test_pairs_alone_belong_together(bregmat, points, tmp_path):
    write(tmp_path, "same.tsv", "a\tb", "p00\tp01", "p02\tp03")
    done = bregmat("learn", points, "--constraints", "same.tsv", "--out", "m")
    assert done.exit_code == 0, done.output
    assert "same.tsv was read as pairs of a and b, each of which belong together" in done.stderr
    assert load("m").constraints_.sense.tolist() == [1, 1]


def test_triplets(bregmat, points, tmp_path):
    write(tmp_path, "judged.csv", "far;anchor;near", "p40;p00;p01", "p50;p02;p03")
    done = bregmat("learn", points, "--constraints", "judged.csv", "--out", "m")
    assert done.exit_code == 0, done.output
    assert "read as triplets: anchor is nearer to near than to far; the margin is the median" in done.stderr
    first = next(iter(load("m").constraints_))
    assert str(first).startswith("sq_dist(0, 1) + ") and str(first).endswith("<= sq_dist(0, 40)") and first.bound < 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--prior", "varience"), "--prior must be one of 'auto', 'identity', .*; got 'varience'; is it 'variance'?"),
        (("--divergence", "logdt"), "--divergence must be one of 'auto', 'logdet', .*; got 'logdt'; is it 'logdet'?"),
        (("--strategy", "neighbor"), "--strategy must be .*; got 'neighbor'; is it 'neighbors'?"),
        (("--missing", "medain"), "--missing must be .*; got 'medain'; is it 'median'?"),
        (("--labels", "Kind"), "points.csv: no column 'Kind'; is it 'kind'? The columns are"),
    ],
)
def test_words_that_are_not_known_are_told_with_what_is_like_them(bregmat, points, option, message):
    done = bregmat("learn", points, *(() if option[0] == "--labels" else ("--labels", "kind")), *option)
    assert done.exit_code == 2 and re.search(message.replace("?", r"\?"), done.stderr), done.output
    assert "object such as" not in done.stderr and "array" not in done.stderr  # which a command line cannot pass


def test_names_with_blanks_are_quoted_in_advice(bregmat, data, tmp_path):
    names = [f"p {k}" for k in range(60)]
    columns = {"Listing ID": names, "the maker": np.where(data[1] == 1, "yes", "no")}
    X = np.column_stack([data[0], np.arange(60.0)])
    write_points(tmp_path / "points.csv", X, names=[*"abcd", "row key"], columns=columns)
    done = bregmat("learn", "points.csv", "--labels", "the maker", "--folds", "0")
    assert done.exit_code == 0, done.output
    assert "--sample-id 'Listing ID'" in done.stderr and "--keep 'row key'" in done.stderr


@pytest.mark.parametrize("command", ["learn", "label"])
def test_help_names_all_formats_and_common_options_first(bregmat, command):
    shown = bregmat(command, "--help").stdout
    # from the declaration of the argument: the oldest typer does not print it
    (function,) = [one.callback for one in app.registered_commands if (one.name or one.callback.__name__) == command]
    help_of_points = inspect.signature(function).parameters["points"].annotation.__metadata__[0].help
    assert all(ending in help_of_points for ending in (".csv", ".tsv", ".gz", ".parquet", ".npy"))
    common = [shown.index(f"--{name} ") for name in ("labels", "sample-id")]
    assert max(common) < min(shown.index(f"--{name} ") for name in ("drop,--exclude", "keep", "columns", "unlabeled"))
    if command == "learn":
        common += [shown.index(f"--{name} ") for name in ("constraints", "out", "report")]
        assert max(common) < min(shown.index(f"--{name} ") for name in ("divergence", "prior", "tol"))


def test_triplets_are_judged_by_their_order(bregmat, tmp_path):
    """The margins of such a table are measured: more of them may be missed where more triplets are in order."""
    rng = np.random.default_rng(0)
    X, scale = rng.normal(size=(80, 6)), np.array([3.0, 2.0, 1.0, 0.2, 0.2, 0.2])
    a, b, c = np.array([rng.choice(80, 3, replace=False) for _ in range(400)]).T
    first, second = (np.linalg.norm((X[a] - X[other]) * scale, axis=1) for other in (b, c))
    near, far = np.where(first < second, b, c), np.where(first < second, c, b)
    write_points(tmp_path / "points.csv", X, names=list("uvwxyz"))
    write(tmp_path, "judged.csv", "head,winner,loser", *(f"{i},{j},{k}" for i, j, k in zip(a, near, far)), "5,5,6")
    done = bregmat("learn", "points.csv", "--constraints", "judged.csv", "--out", "m")
    assert done.exit_code == 0, done.output
    assert "1 of 401 rows name a point twice, as attention checks do, and are left out" in done.stderr
    line = next(line for line in done.stdout.splitlines() if "the near point is closer than the far one" in line)
    before, scaled, after = (float(cell) for cell in re.findall(r"\d\.\d+|\b1\b", line))
    Z = load("m").transform(X)
    order = np.linalg.norm(Z[a] - Z[near], axis=1) < np.linalg.norm(Z[a] - Z[far], axis=1)
    assert after == pytest.approx(order.mean(), abs=1e-3) and after > before + 0.1 and after > scaled
    assert "constraints met" not in done.stdout and "more than any metric can give" not in done.stderr


def test_a_missed_margin_is_not_a_lost_order():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 3.0], [0.0, 1.0]])
    rows = Constraints.from_triplets([(0, 1, 2), (0, 3, 2)], 5.0)
    assert rows.satisfied(X).all() and not rows.satisfied(X / 2).any()
    assert measure.fewer_met(rows, X, X / 2) is None and measure.fewer_met(rows, X, X[[0, 2, 1, 3]]) is not None
    name, *shares = measure.comparisons_in_order(rows, (X, X / 2, X * [0.0, 1.0]))[0]
    assert name == "the near point is closer than the far one" and shares == [1.0, 1.0, 1.0]
    assert measure.comparisons_in_order(Constraints.sq_distance(0, 1, 1.0, "<="), (X, X, X)) == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_without_a_name_names_the_rows(suffix, bregmat, data, tmp_path):
    """As `DataFrame.to_csv` and `to_parquet` write an index."""
    pd = pytest.importorskip("pandas")
    X = data[0][:6]
    frame = pd.DataFrame(X, columns=list("abcd"), index=["u", "v", "w", "x", "y", "z"])
    path = tmp_path / f"points{suffix}"
    frame.to_csv(path) if suffix == ".csv" else frame.to_parquet(path)
    write(tmp_path, "pairs.csv", "a,b,match", "u,v,match", "w,z,distinct")
    for option in ([], ["--sample-id", ""], ["--sample-id", "index"]):
        done = bregmat("learn", path.name, "--constraints", "pairs.csv", "--out", "m", *option)
        assert done.exit_code == 0, done.output
        assert [str(row).partition(" ")[0] for row in load("m").constraints_] == ["sq_dist(0,", "sq_dist(2,"]
    write(tmp_path, "odd.csv", "a,b", "0,1")
    done = bregmat("learn", path.name, "--constraints", "odd.csv")
    assert done.exit_code == 2 and "column 'index' names the points" in done.stderr
    filtered = pd.DataFrame(X, columns=list("abcd"), index=[3, 5, 8, 9, 20, 30])
    filtered.to_csv(path) if suffix == ".csv" else filtered.to_parquet(path)
    write(tmp_path, "pairs.csv", "a,b", "5,8")
    assert bregmat("learn", path.name, "--constraints", "pairs.csv", "--out", "m").exit_code == 0
    assert load("m").constraints_.index[:, :2].tolist() == [[1, 2]]


def test_distances_of_pairs(bregmat, data, tmp_path):
    write_points(tmp_path / "points.npy", data[0], names=list("abcd"))
    write(tmp_path, "far.csv", "relation,i,j,bound,sense", "sq_distance,0,1,4,==", "sq_distance,2,3,0.25,==")
    done = bregmat("learn", "points.npy", "--constraints", "far.csv", "--out", "m", "--slack-weight", "inf")
    assert done.exit_code == 0, done.output
    assert np.allclose(load("m").pair_distance(data[0][[[0, 1], [2, 3]]]), [2.0, 0.5], rtol=1e-3)


def test_names_that_no_point_has_are_told_with_what_is_like_them(bregmat, points, tmp_path):
    write(tmp_path, "odd.csv", "a,b", "p00,p01", "P02,p03", "p04,p05x", "p06,zebra", "p07,quagga")
    done = bregmat("learn", points, "--constraints", "odd.csv")
    assert done.exit_code == 0, done.output
    assert "4 of 5 constraints of odd.csv were left out" in done.stderr
    assert (
        "not in points.csv: 'P02' (line 3; is it 'p02'?), 'p05x' (line 4; is it 'p05'?), 'zebra' (line 5) and 1 more"
        in done.stderr
    )
    write(tmp_path, "none.csv", "a,b", "P02,P03")
    done = bregmat("learn", points, "--constraints", "none.csv")
    assert done.exit_code == 2
    assert (
        "none.csv: no constraint has all its points in points.csv; not there: 'P02' (line 2; is it 'p02'?)"
        in done.stderr
    )
    assert "(it was read as pairs of a and b, each of which" in done.stderr


def test_a_table_of_pairs_without_a_header_loses_no_pair(bregmat, points, tmp_path):
    write(tmp_path, "bare.csv", "p00,p01", "p02,p03")
    done = bregmat("learn", points, "--constraints", "bare.csv")
    assert (
        done.exit_code == 2
        and "bare.csv, line 1: 'p00' is a point; give the table a first line of names" in done.stderr
    )


def test_labels_can_only_measure(bregmat, points, pairs):
    done = bregmat("learn", points, "--constraints", pairs, "--labels", "kind", "--n-constraints", "0")
    assert done.exit_code == 0, done.output
    assert "constraints met, of 60" in done.stdout and "4-NN accuracy" in done.stdout


def test_ids_that_occur_twice_are_named_with_their_lines(bregmat, points, pairs):
    points.write_text(points.read_text().replace("p05", "p00"))
    done = bregmat("learn", points, "--constraints", pairs)
    assert done.exit_code == 2
    assert "points.csv, lines 2 and 7: id 'p00' occurs twice" in done.stderr


def test_columns_of_words_are_named_and_columns_of_truths_are_features(bregmat, tmp_path, data):
    X, y = data
    columns = {"maker": np.full(60, "someone"), "organic": np.where(X[:, 1] > 0, "True", "False"), "y": y}
    write_points(tmp_path / "points.csv", X, names=["a", "b", "c", "d"], columns=columns)
    done = bregmat("learn", "points.csv", "--labels", "y", "--folds", "0")
    assert done.exit_code == 0, done.output
    assert "note: not used: maker (not numeric); one-hot encoded with --categorical maker" in done.stderr
    assert "60 points, 5 features" in done.stdout
    done = bregmat("learn", "points.csv", "--labels", "y", "--categorical", "maker,y")
    assert done.exit_code == 2 and "--categorical y: the column of labels, or of names of rows, cannot" in done.stderr


def test_columns_of_words_are_categories_or_names_of_rows(bregmat, tmp_path, data):
    X, y = data
    columns = {
        "listing": np.array([f"H-{k}" for k in range(60)]),
        "remark": np.array([f"text {k // 2}" for k in range(60)]),
        "heating": np.where(X[:, 1] > 0, "gas", "oil"),
        "y": y,
    }
    write_points(tmp_path / "points.csv", X, names=["a", "b", "c", "d"], columns=columns)
    done = bregmat("learn", "points.csv", "--labels", "y", "--folds", "0")
    assert done.exit_code == 0, done.output
    assert (
        "not used: listing, remark, heating (not numeric); one-hot encoded with --categorical heating;" in done.stderr
    )
    assert "rows are named by their number, or by a column with --sample-id listing\n" in done.stderr
    done = bregmat("learn", "points.csv", "--labels", "y", "--folds", "0", "--sample-id", "listing")
    assert "--sample-id" not in done.stderr


@pytest.fixture
def shop(tmp_path, data):
    """The points with a number of a customer, a gap, decimal commas and another encoding."""
    X, y = data
    rows = [f"{1000 + 7 * k};{x};{'süß' if t else 'herb'}" for k, (x, t) in enumerate(zip(X.tolist(), y))]
    rows = [row.replace("[", "").replace("]", "").replace(", ", ";").replace(".", ",") for row in rows]
    rows[3] = rows[3].replace(rows[3].split(";")[2], "NA", 1)
    path = tmp_path / "shop.csv"
    path.write_bytes(("customer_id;a;b;c;d;art\n" + "\n".join(rows)).encode("cp1252"))
    return path


def test_what_became_features_is_said(bregmat, shop, data):
    """Identifiers are left out by name; gaps and decimal commas are mentioned."""
    given = ("learn", shop, "--labels", "art", "--folds", "0")
    done = bregmat(*given)
    assert (
        done.exit_code == 2
        and "if it is in another encoding, such as cp1252, give its name as the encoding" in done.stderr
    )
    given += ("--encoding", "cp1252")
    done = bregmat(*given)
    assert done.exit_code == 2
    assert "shop.csv, line 5, column 'b': 'NA' is not a number; --missing drop leaves out such rows" in done.stderr
    done = bregmat(*given, "--missing", "drop")
    assert done.exit_code == 0, done.output
    assert "features (4): a, b, c, d" in done.stderr and "59 points, 4 features" in done.stdout
    assert (
        "left out: customer_id (looks like the name of a row); to use them as features: --keep customer_id"
        in done.stderr
    )
    assert "numbers are read with decimal commas" in done.stderr
    assert "missing cells in b (1): 59 rows are left" in done.stderr
    done = bregmat(*given, "--missing", "drop", "--keep", "customer_id")
    assert "features (5): customer_id, a, b, c, d" in done.stderr
    done = bregmat(*given, "--missing", "median", "--drop", "customer_id", "--out", "m")
    assert "features (4): a, b, c, d" in done.stderr and "looks like" not in done.stderr
    kept = np.delete(data[0], 3, axis=0)
    assert read_manifest("m")["info"]["medians"]["b"] == np.median(kept[:, 1])
    done = bregmat("transform", "m", shop, "--encoding", "cp1252", "--missing", "median", "--out", "new.csv")
    assert done.exit_code == 0, done.output
    assert "missing cells in b: filled with medians" in done.stderr
    filled = data[0].copy()
    filled[3, 1] = np.median(kept[:, 1])
    assert np.array_equal(read_points("new.csv").X[:, -4:], load("m").transform(filled))
    done = bregmat(*given, "--columns", "d,a", "--missing", "drop")
    assert "features (2): d, a" in done.stderr and "60 points, 2 features" in done.stdout


def test_what_cannot_be_a_feature(bregmat, points):
    done = bregmat("learn", points, "--labels", "kind", "--columns", "a,kind")
    assert done.exit_code == 2 and "column 'kind' cannot be a feature (--columns) and something else" in done.stderr
    done = bregmat("learn", points, "--labels", "kind", "--columns", "a,e")
    assert done.exit_code == 2 and "no column 'e'" in done.stderr
    done = bregmat("learn", points, "--labels", "kind", "--missing", "zero")
    assert done.exit_code == 2 and "missing must be one of 'error', 'drop', 'median'" in done.stderr


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("customer_id", [4, 9, 9], "looks like the name of a row"),
        ("customerId", [4, 9, 2], "looks like the name of a row"),
        ("row", [7, 3, 1], "looks like the name of a row"),
        ("glycemic_index", [50, 60, 50], None),
        ("n", [3, 2, 4], "looks like the name of a row"),  # consecutive
        ("zip", [10115, 10117, 10115], "looks like a code"),
        ("paid", [4, 9, 9], None),
        ("weight_kg", [4, 9, 2], None),
        ("id", [0.5, 1.5, 2.0], None),
        ("a", [0.5, 0.5, 0.5], "constant"),
    ],
)
def test_columns_that_are_no_features(name, values, expected):
    assert why_not_used(name, np.array(values, dtype=float)) == expected


def test_constant_columns_are_left_out(bregmat, tmp_path, data):
    X = np.column_stack([data[0], np.full(60, 2.0)])
    write_points(tmp_path / "p.csv", X, names=[*"abcd", "version"], columns={"kind": data[1]})
    done = bregmat("learn", "p.csv", "--labels", "kind", "--folds", "0", "--out", "m")
    assert "left out: version (constant)" in done.stderr and "60 points, 4 features" in done.stdout
    assert bregmat("transform", "m", "p.csv", "--out", "new.csv").exit_code == 0
    assert np.array_equal(read_points("new.csv", exclude=["kind", "version"]).X, load("m").transform(data[0]))
    done = bregmat("learn", "p.csv", "--labels", "kind", "--folds", "0", "--keep", "version")
    assert "60 points, 5 features" in done.stdout
    done = bregmat("learn", "p.csv", "--labels", "kind", "--keep", "nobody")
    assert done.exit_code == 2 and "no column 'nobody'" in done.stderr


def test_columns_of_words_as_features(bregmat, tmp_path, data):
    X, y = data
    maker = np.array(["acme", "bolt", ""])[np.arange(60) % 3]
    write_points(tmp_path / "p.csv", X, names=list("abcd"), columns={"maker": maker, "kind": y})
    given = ("learn", "p.csv", "--labels", "kind", "--folds", "0")
    done = bregmat(*given, "--categorical", "maker", "--out", "m")
    assert done.exit_code == 0, done.output
    assert "features (6): a, b, c, d, maker=acme, maker=bolt" in done.stderr and "not used" not in done.stderr
    assert bregmat("transform", "m", "p.csv", "--out", "new.npy").exit_code == 0
    encoded = np.column_stack([X, maker == "acme", maker == "bolt"])
    assert np.allclose(np.load("new.npy"), load("m").transform(encoded))
    done = bregmat(*given, "--columns", "a,maker")
    assert done.exit_code == 2 and "give it to --categorical maker" in done.stderr
    write_points(tmp_path / "q.csv", X, names=list("abcd"), columns={"maker": np.arange(60).astype(str)})
    done = bregmat("learn", "p.csv", "--labels", "kind", "--categorical", "nobody")
    assert done.exit_code == 2 and "no column 'nobody'" in done.stderr
    np.save("p.npy", X)
    assert bregmat("learn", "p.npy", "--labels", "kind", "--categorical", "a").exit_code == 2


def test_columns_of_words_alone_can_be_features(bregmat, tmp_path):
    """Two colours are one class; models read new points by their words."""
    colours = np.array(["red", "pink", "blue", "navy"])[np.arange(40) % 4]
    size = np.array(["S", "M", "L", "L", "M"])[np.arange(40) % 5]
    kind = np.where(np.isin(colours, ["red", "pink"]), "warm", "cold")
    texts = [f"the number {k} is a {c} car" for k, c in enumerate(colours)]
    lines = [",".join(row) for row in zip(colours, size, texts, kind)]
    (tmp_path / "w.csv").write_text("colour,size,remark,kind\n" + "\n".join(lines) + "\n")
    given = ("learn", "w.csv", "--labels", "kind", "--folds", "0")
    done = bregmat(*given)
    assert (
        done.exit_code == 2
        and "columns of words can be encoded with --categorical COLUMN,...; texts need" in done.stderr
    )
    done = bregmat(*given, "--categorical", "colour,size", "--out", "m")
    assert done.exit_code == 0 and "features (7): colour=blue, colour=navy, " in done.stderr, done.output
    assert "not used: remark (texts); they need numbers first, such as their embeddings" in done.stderr
    assert bregmat("transform", "m", "w.csv", "--out", "new.npy").exit_code == 0
    encoded = np.column_stack([x == value for x in (colours, size) for value in np.unique(x)]).astype(float)
    assert np.allclose(np.load("new.npy"), load("m").transform(encoded))


@pytest.mark.parametrize(("cell", "plain"), [("26.405,56", "26405,56"), ("1.234.567", "1234567")])
def test_separators_between_thousands_are_refused_with_advice(bregmat, tmp_path, cell, plain):
    rows = [f"{k},5;{k % 7};{cell if k % 3 else 12};{k % 2}" for k in range(30)]
    write(tmp_path, "p.csv", "a;b;price;kind", *rows)
    done = bregmat("learn", "p.csv", "--labels", "kind", "--folds", "0")
    assert done.exit_code == 2 and f"'{cell}'" in done.stderr and f"write {plain}" in done.stderr
    done = bregmat("learn", "p.csv", "--labels", "kind", "--folds", "0", "--drop", "price")
    assert done.exit_code == 0, done.output


@pytest.mark.usefixtures("unrendered")
def test_not_learning_is_an_outcome(bregmat, points, data, monkeypatch, tmp_path):
    monkeypatch.setattr("bregmat.estimators.metric.CANDIDATES", [Candidate(None, prior="variance")])
    done = bregmat("learn", points, "--labels", "kind", "--folds", "2", "--out", "m", "--report", "r.html")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert (
        "nothing is gained by learning here: on held-out rows no learned metric is better than scaled columns." in said
    )
    assert (
        "The model is that distance; --strategy neighbors learns all the same" in said
        and "constraints met" not in done.stdout
    )
    assert load("m").strategy_ is None
    assert np.allclose(load("m").get_mahalanobis_matrix(), np.diag(1 / data[0].var(axis=0)))
    assert "none: not learning is better" in (tmp_path / "r.html").read_text("utf-8")


def test_rows_left_out_do_not_shift_constraints(bregmat, tmp_path, data):
    """Constraints and label files count the rows of the file, also where some of these are left out."""
    X, y = data
    lines = [",".join(map(repr, x)) for x in X.tolist()]
    lines[2] = ",".join(["", *lines[2].split(",")[1:]])
    (tmp_path / "points.csv").write_text("a,b,c,d\n" + "\n".join(lines))
    np.save(tmp_path / "y.npy", y)
    write_constraints(tmp_path / "pairs.csv", Constraints.sq_distance([0, 2, 40], [1, 5, 59], 1.0, "<="))
    given = ("--constraints", "pairs.csv", "--labels", "y.npy", "--n-constraints", "0", "--folds", "0")
    done = bregmat("learn", "points.csv", *given, "--missing", "drop", "--out", "m")
    assert done.exit_code == 0, done.output
    assert "1 of 3 constraints of pairs.csv were left out" in done.stderr
    assert "not in points.csv: '2' (line 3); numbers of their rows name the points" in " ".join(done.stderr.split())
    located = load("m").constraints_
    assert located.index[:, :2].tolist() == [[0, 1], [39, 58]]


def test_rows_without_a_label_are_counted(bregmat, points):
    points.write_text(points.read_text().replace("yes", "NA", 3))
    done = bregmat("learn", points, "--labels", "kind", "--folds", "0")
    assert done.exit_code == 0, done.output
    assert "3 of 60 rows have no label" in done.stderr


def test_medians_come_from_the_model(bregmat, model, points):
    done = bregmat("transform", model, points, "--missing", "median", "--out", "new.csv")
    assert done.exit_code == 2 and "no medians to fill missing cells with" in done.stderr


def test_help_describes_the_constraints_file(bregmat):
    text = " ".join(bregmat("learn", "--help").stdout.split())
    assert "relation,i,j,k,l,bound,sense,weight" in text and "sq_dist(i, j) - sq_dist(k, l) <= bound" in text


@pytest.mark.parametrize(
    "command",
    ["learn", "retrieve", "label", "transform", "inspect", "correlation", "demo", "reproduce", None],
)
def test_help_says_what_goes_where(bregmat, command):
    """No type in the words of a programming language, no brackets twice, no word for a value that there is none of.

    (typer 0.16 says PATH and TEXT beside the names of arguments, whatever it is told.)
    """
    done = bregmat(*[command] * (command is not None), "--help")
    assert done.exit_code == 0 and "--help" in done.stdout
    assert not re.search(r"<[a-z]|\[\[|INTEGER|BOOLEAN|FLOAT", done.stdout), done.stdout


def test_lines_end_where_they_end_if_nobody_reads_along(bregmat, data, tmp_path, monkeypatch):
    """Piped output is as wide as what it says, whatever COLUMNS holds."""
    monkeypatch.setenv("COLUMNS", "40")
    names = [f"a feature with a long name, number {k}" for k in range(4)]
    write_points(tmp_path / "p.csv", data[0], names=names, columns={"kind": np.repeat(["yes", "no"], 30)})
    done = bregmat("learn", "p.csv", "--labels", "kind", "--folds", "2", "--out", "m")
    assert done.exit_code == 0 and f"features (4): {', '.join(names)}\n" in done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "4-NN accuracy" in line]
    assert line.count("│") == 5
    about = bregmat("inspect", "m").stdout
    assert any(", ".join(names) in line for line in about.splitlines())


def test_infinite_slack_weight_is_hard(bregmat, points, tmp_path):
    rows = Constraints.sq_distance(["p00", "p02"], ["p01", "p03"], 0.5, "<=")
    write_constraints(tmp_path / "pairs.csv", rows)
    done = bregmat("learn", points, "--constraints", "pairs.csv", "--slack-weight", "inf", "--out", "m")
    assert done.exit_code == 0, done.output
    assert load("m").slack_weight == np.inf
    assert "2 (100%)" in done.stdout and "soft" not in done.stdout and "no hard constraints" not in done.stdout


def test_contradiction_exits_with_3_and_names_the_rows(bregmat, points, tmp_path):
    rows = Constraints.sq_distance(["p05", "p00", "p00"], ["p06", "p01", "p01"], [1, 1, 2], ["<=", "<=", ">="])
    write_constraints(tmp_path / "pairs.csv", rows)
    given = ("--slack-weight", "inf", "--out", "m", "--report", "r.html")
    done = bregmat("learn", points, "--constraints", "pairs.csv", *given)
    assert done.exit_code == 3, done.output
    assert "no metric meets all hard constraints; these 2 contradict each other:" in done.stderr
    assert "pairs.csv, line 3: sq_dist(p00, p01) <= 1" in done.stderr
    assert "pairs.csv, line 4: sq_dist(p00, p01) >= 2" in done.stderr
    assert "line 2" not in done.stderr and "slack_weight" not in done.stderr
    assert not (tmp_path / "m").exists() and not (tmp_path / "r.html").exists()


def test_not_converged_exits_with_4_and_writes_the_model(bregmat, points, monkeypatch):
    monkeypatch.setattr(learning, "MetricLearner", partial(MetricLearner, max_iter=1))
    done = bregmat("learn", points, "--labels", "kind", "--tol", "1e-12", "--folds", "0", "--out", "m")
    assert done.exit_code == 4, done.output
    assert "note: " in done.stderr and "Allow more iterations" in done.stderr and "max_iter" not in done.output
    assert load("m").n_iter_ <= 1


@pytest.mark.slow
@pytest.mark.usefixtures("unrendered")
def test_interrupt_keeps_the_best_iterate(bregmat, points, monkeypatch, tmp_path):
    """Ctrl-C arrives as a real signal in the second iteration."""

    def interrupt(self, record):
        if record.iteration >= 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(show.Progress, "__call__", interrupt)
    done = bregmat("learn", points, "--labels", "kind", "--tol", "1e-13", "--out", "m", "--report", "report.html")
    assert done.exit_code == 130, done.output
    assert "interrupted: this is the best iterate so far, written to" in done.stderr
    assert "INTERRUPTED" in done.stdout
    assert load("m").transform(np.eye(4)).shape == (4, 4)
    assert (tmp_path / "report.html").exists()


def test_interrupt_while_measuring_keeps_the_model(bregmat, points, monkeypatch):
    def interrupt(*arguments, **keywords):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(learning, "held_out_neighbours", interrupt)
    done = bregmat("learn", points, "--labels", "kind", "--out", "m")
    assert done.exit_code == 130, done.output
    assert "interrupted while measuring: the model is complete" in done.stderr
    assert load("m").n_features_in_ == 4


def test_interrupt_ends_a_search_although_the_solver_would_keep_its_iterate():
    def solver():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return "best iterate"

    before = signal.getsignal(signal.SIGINT)
    assert solver() == "best iterate"
    with pytest.raises(KeyboardInterrupt), interruptible():
        solver()
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupt_while_reading_exits_with_130(bregmat, points, monkeypatch):
    monkeypatch.setattr("bregmat_app.cli.points.read_points", lambda *a, **k: signal.raise_signal(signal.SIGINT))
    assert bregmat("learn", points, "--labels", "kind").exit_code == 130


# ---------------------------------------------------------------- bad input: exit code 2, before any work


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --constraints FILE or --labels COLUMN"),
        (["--labels", "sort"], "points.csv: no column 'sort'; the columns are 'id', 'kind', 'a'"),
        (
            ["--labels", "a", "--strategy", "random"],
            "labels 'a' are numbers that are not all whole, and --strategy random needs classes",
        ),
        (["--labels", "a", "--strategy", "random"], "--strategy neighbors takes numbers as targets; if distances"),
        (["--labels", "kind", "--sample-id", "name"], "no column 'name'"),
        (["--labels", "kind", "--out", "no/such/model"], "cannot write 'no/such/model': the folder"),
        (["--labels", "kind", "--report", "."], "cannot write '.': it is a folder"),
        (["--labels", "kind", "--out", "points.csv"], "--out points.csv is the same file as"),
        (["--labels", "kind", "--out", "same", "--report", "same"], "--report same is the same file as --out"),
        (["--labels", "kind", "--slack-weight", "0"], "--slack-weight must be positive"),
        (["--labels", "kind", "--slack-weight", "heavy"], "--slack-weight must be a number, inf or auto; got 'heavy'"),
        (["--labels", "kind", "--divergence", "euclid"], "euclid"),
        (["--labels", "kind", "--prior", "flat"], "prior must be"),
        (["--labels", "kind", "--n-components", "9"], "--n-components must be at most"),
        (["--labels", "kind", "--n-constraints", "0"], "no constraints: --n-constraints 0"),
        (["--labels", "kind", "--strategy", "nearest"], "--strategy must be"),
        (["--labels", "y.npy"], "y.npy"),
        (["--constraints", "absent.csv"], "error: absent.csv: no such file\n"),
        (["--constraints", "points.csv"], "line 1: unknown columns 'id', 'a', 'b', 'c', 'd' make no table of pairs"),
    ],
)
def test_bad_arguments(bregmat, points, pairs, arguments, message):
    done = bregmat("learn", points, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output and done.stdout == ""


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 60, "the labels y must tell at least two classes apart: every labelled point"),
        (["a"] + [""] * 59, "labels 'kind': rows with a label: 1 of 60; at least 2 are needed"),
        (["inf"] + ["2"] * 59, "labels 'kind' must be finite; see row 0"),
        ([f"n{k}" for k in range(60)], "the labels y put no two points together: every labelled point"),
    ],
)
def test_labels_that_nothing_can_be_learned_from(bregmat, data, tmp_path, labels, message):
    write_points(tmp_path / "p.csv", data[0], names=list("abcd"), columns={"kind": labels})
    done = bregmat("learn", "p.csv", "--labels", "kind")
    assert done.exit_code == 2 and message in done.stderr, done.output


def test_labels_minus_one_are_a_class_and_said_to_be(bregmat, data, tmp_path):
    X, y = data
    remark = "labels 'kind': -1 is a class; if it means 'not known', give --unlabeled -1"
    write_points(tmp_path / "p.csv", X, names=list("abcd"), columns={"kind": np.where(y == y[0], "-1", "1")})
    given = ("learn", "p.csv", "--labels", "kind", "--folds", "0")
    assert remark in bregmat(*given).stderr
    write_points(tmp_path / "p.csv", X, names=list("abcd"), columns={"kind": (np.arange(60) % 3 - 1).astype(str)})
    done = bregmat(*given, "--unlabeled", "-1")
    assert done.exit_code == 0 and remark not in done.stderr and "20 of 60 rows have no label" in done.stderr
    assert "unlabeled=" not in done.output  # the learner does not take the codes for labels of the file


@pytest.mark.parametrize(("cell", "shown"), [("inf", "'inf'"), ("1e999", "'1e999'")])
def test_an_infinite_cell_is_told_with_the_way_out(bregmat, points, cell, shown):
    lines = points.read_text().splitlines()
    lines[7] = lines[7].rsplit(",", 1)[0] + f",{cell}"
    points.write_text("\n".join(lines))
    done = bregmat("learn", points, "--labels", "kind")
    advice = "write a finite number, or leave the cell empty and give --missing drop or --missing median"
    assert done.exit_code == 2 and f"line 8, column 'd': {shown} is not finite; {advice}" in done.stderr, done.output


def test_outputs_are_checked_before_inputs_are_read(bregmat):
    done = bregmat("learn", "absent.csv", "--labels", "kind", "--out", "no/model")
    assert done.exit_code == 2 and "cannot write 'no/model'" in done.stderr


def test_bad_cell_names_file_line_and_column(bregmat, points):
    lines = points.read_text().splitlines()
    lines[7] = lines[7].rsplit(",", 1)[0] + ",oops"
    points.write_text("\n".join(lines))
    done = bregmat("learn", points, "--labels", "kind")
    assert done.exit_code == 2
    assert "points.csv, line 8, column 'd': 'oops' is not a number" in done.stderr


def test_no_constraint_applies(bregmat, points, tmp_path):
    write_constraints(tmp_path / "pairs.csv", Constraints.sq_distance(["x"], ["y"], 1.0, "<="))
    done = bregmat("learn", points, "--constraints", "pairs.csv")
    assert (
        done.exit_code == 2 and "no constraint has all its points in points.csv; not there: 'x' (line 2)" in done.stderr
    )


def test_usage_error(bregmat):
    assert bregmat("learn").exit_code == 2
    assert bregmat("learn", "points.csv", "--folds", "-1").exit_code == 2


def test_report_without_matplotlib(bregmat, points, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = bregmat("learn", points, "--labels", "kind", "--report", "report.html")
    assert done.exit_code == 2 and 'pip install "bregmat[plot]"' in done.stderr


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_command_without_its_extra(monkeypatch, capsys, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == f'the command bregmat needs {name}: pip install "bregmat[cli,plot]"\n'


def test_labels():
    words = np.array(["b", "", "a", "b", "?"])
    assert find_labels(words, 5, "y", None).tolist() == [0, -1, 1, 0, 2]
    assert find_labels(words, 5, "y", "?").tolist() == [0, -1, 1, 0, -1]
    assert find_labels(np.array(["1", "-1", "1.0"]), 3, "y", None).tolist() == [0, 1, 0]
    assert find_labels(np.array([4, -1, 7]), 3, "y", "-1").tolist() == [0, -1, 1]
    assert class_names(words, np.array([0, -1, 1, 0, -1])) == ("b", "a")
    assert class_names(np.array(["10", "", "2.0"]), np.array([0, -1, 1])) == (10, 2)
    with pytest.raises(ValueError, match="no row has a label"):
        find_labels(np.array(["", ""]), 2, "y", None)
    with pytest.raises(ValueError, match=r"have shape \(2,\), but there are 3 points"):
        find_labels(np.zeros(2), 3, "y", None)


# ---------------------------------------------------------------- transform, inspect, demo


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The file of a model that is learned from such points."""
    folder = tmp_path_factory.mktemp("model")
    points = write_classes(folder, *two_classes(np.random.default_rng(20261120)))
    learn = ["learn", str(points), "--labels", "kind", "--folds", "0", "--out", str(folder / "model.bm")]
    assert CliRunner().invoke(app, learn, catch_exceptions=False).exit_code == 0
    return folder / "model.bm"


@pytest.fixture
def model(bregmat, learned, tmp_path):
    shutil.copy(learned, tmp_path)
    return "model.bm"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_transform(bregmat, model, points, suffix):
    done = bregmat("transform", model, points, "--out", f"new{suffix}")
    assert done.exit_code == 0, done.output
    assert "60 points in 4 dimensions written to new" in done.stderr
    new = read_points(f"new{suffix}")
    assert np.array_equal(new.X, load(model).transform(read_points(points).X))
    if suffix != ".npy":
        assert new.names == ("c0", "c1", "c2", "c3")
        assert new.columns["id"][3] == "p03" and new.columns["kind"][59] == "yes"


def test_transform_takes_columns_by_name(bregmat, model, points, tmp_path):
    data = read_points(points)
    shuffled = np.column_stack([data.X[:, [2, 0]], np.zeros(60), data.X[:, [1, 3]]])
    write_points(tmp_path / "other.csv", shuffled, names=["c", "a", "extra", "b", "d"])
    assert bregmat("transform", model, "other.csv", "--out", "new.npy").exit_code == 0
    assert np.array_equal(np.load("new.npy"), load(model).transform(data.X))
    np.save("bare.npy", data.X)  # no names at all: as many columns as the model has
    assert bregmat("transform", model, "bare.npy", "--out", "bare_new.npy").exit_code == 0
    assert np.array_equal(np.load("bare_new.npy"), np.load("new.npy"))


def test_transform_writes_decimal_commas_where_they_were_read(bregmat, model, points, tmp_path):
    """In features and in numbers beside them, with separators that are no commas."""
    data = read_points(points)
    frame = pd.DataFrame(data.X, columns=list("abcd")).assign(id=data.columns["id"])
    for name, separator in (("comma.csv", ";"), ("comma.tsv", "\t")):
        frame.to_csv(name, sep=separator, decimal=",", index=False)
        assert bregmat("transform", model, name, "--out", f"new_{name}").exit_code == 0
        new = pd.read_csv(f"new_{name}", sep=separator, decimal=",")
        assert list(new.columns) == ["id", "c0", "c1", "c2", "c3"]
        # older versions of pandas round numbers with a decimal comma
        np.testing.assert_allclose(new[["c0", "c1", "c2", "c3"]], load(model).transform(data.X), rtol=1e-14)
        assert np.array_equal(read_points(f"new_{name}").X, load(model).transform(data.X))


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a", "b", "c", "e"], "other.csv: no column 'd'"), (["a", "b"], "other.csv: no column 'c'")],
)
def test_transform_without_the_columns(bregmat, model, tmp_path, names, message):
    write_points(tmp_path / "other.csv", np.zeros((2, len(names))), names=names)
    done = bregmat("transform", model, "other.csv", "--out", "new.csv")
    assert done.exit_code == 2 and message in done.stderr


def test_inspect(bregmat, model):
    done = bregmat("inspect", model)
    assert done.exit_code == 0, done.output
    for text in (
        "MetricLearner",
        "points.csv",
        "a, b, c, d",
        "chosen on held-out rows",
        "strategy neighbors",
        "OPTIMAL",
        "relative gap",
        "eigenvalues",
    ):
        assert text in done.stdout
    again = " ".join(done.stdout.split())
    assert "verified status OPTIMAL (not recomputed)" in again and "problem" not in again
    assert read_manifest(model)["info"] == {"source": "points.csv", "feature_names": ["a", "b", "c", "d"]}


def test_inspect_what_is_no_metric(bregmat, data):
    """Results, machines of several classes, models without a certificate: what there is of them."""
    X, y = data
    save("qp.bm", nnqp(np.eye(2), np.array([-1.0, 1.0])))
    save("svm.bm", MarginSVC().fit(X, np.r_[y[:40], [2] * 20]))
    save("clusters.bm", KernelKMeans(2, random_state=0).fit(X))
    for name, shown, n_certificates in (
        ("qp.bm", "QPResult", 1),
        ("svm.bm", "4 without names", 3),
        ("clusters.bm", "KernelKMeans", 0),
    ):
        done = bregmat("inspect", name)
        assert done.exit_code == 0 and shown in done.stdout, done.output
        assert done.stdout.count("relative gap") == n_certificates


def test_transform_by_online_learners(bregmat, rng):
    V = rng.standard_normal((5, 3)) / 4
    np.save("v.npy", V)
    for learner in (MatrixExponentiatedGradient(3, instances="vectors").learn_one(V[0], 0.01), OnlinePCA(1).fit(V)):
        save("m", learner)
        assert bregmat("transform", "m", "v.npy", "--out", "new.npy").exit_code == 0
        assert np.array_equal(np.load("new.npy"), learner.transform(V))
    save("p", MatrixExponentiatedGradient(4))
    done = bregmat("transform", "p", "v.npy", "--out", "new.npy")
    assert done.exit_code == 2 and "p: a MatrixExponentiatedGradient, which maps no tables of points" in done.stderr


def test_inspect_online_learners(bregmat, rng):
    Z = rng.standard_normal((20, 3))
    for learner in (
        OnlineLogDet(differences=True).fit(Z, np.ones(20)),
        OnlinePCA(1).fit(Z),
        MatrixExponentiatedGradient(4),
    ):
        save("m", learner)
        done = bregmat("inspect", "m")
        assert done.exit_code == 0, done.output
        assert type(learner).__name__ in done.stdout and "total loss" in done.stdout


@pytest.mark.parametrize("command", [["inspect", "m"], ["transform", "m", "points.csv", "--out", "new.csv"]])
def test_damaged_model(bregmat, model, tmp_path, command):
    data = bytearray((tmp_path / model).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "m").write_bytes(data)
    done = bregmat(*command)
    assert done.exit_code == 2 and done.stderr.startswith("error: m: ") and "Traceback" not in done.output


@pytest.mark.slow
def test_demo(bregmat, monkeypatch, tmp_path):
    done = bregmat("demo", "wine", "--out-dir", "shown")
    assert done.exit_code == 0, done.output
    assert "wine: 178 points, 13 features, 3 classes (bundled with scikit-learn)" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "4-NN accuracy, 2 x 5-fold" in line]
    before, scaled, after = (float(cell.split("±")[0]) for cell in line.split("│")[-4:-1])
    assert 0.65 < before < 0.70 and 0.94 < scaled < after
    for name in ("4-NN accuracy, 2 x 5-fold", "k-means NMI, same points"):  # README shows what is printed
        shown, printed = (
            re.search(f"{name}[^\\n]*", text)[0] for text in (README.read_text(encoding="utf-8"), done.stdout)
        )
        shown, printed = (re.findall(r"(?<!± )0\.\d{3}", line) for line in (shown, printed))
        assert [float(x) for x in shown] == pytest.approx([float(x) for x in printed], abs=0.006)  # one of 178 wines
    assert sorted(path.name for path in (tmp_path / "shown").iterdir()) == ["wine.bm", "wine.html"]


def test_demo_of_an_unknown_or_absent_set(bregmat):
    done = bregmat("demo", "vine")
    assert done.exit_code == 2 and "name='vine' is no known data set" in done.stderr
    done = bregmat("demo", "sonar")
    assert done.exit_code == 2 and "Set BREGMAT_DATA to a folder" in done.stderr
    assert (
        "or have them fetched (download=True; on the command line --download); without data, `bregmat demo wine` runs"
        in done.stderr
    )


def test_version(bregmat):
    from bregmat import __version__

    assert bregmat("--version").stdout == f"bregmat {__version__}\n"
    done = subprocess.run([sys.executable, "-m", "bregmat", "--version"], capture_output=True, text=True)
    assert done.stdout == f"bregmat {__version__}\n"


def test_version_and_help_load_no_numbers():
    heavy = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
    code = f"import sys, bregmat_app.cli.app; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_is_light():
    heavy = ("typer", "rich", "matplotlib", "pandas", "polars", "bregmat_app.cli")
    code = f"import sys, bregmat; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- parts


class Seconds:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("terminal", [False, True])
def test_progress(monkeypatch, capsys, terminal):
    from bregmat import Record

    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    clock = Seconds()
    record = Record(iteration=12, seconds=0.5, objective=3.0, dual_bound=2.0, gap=3.25e-4, violation=0.0125)
    with show.Progress("learning", clock=clock) as progress:
        clock.now = 0.9
        assert progress(record) is None
        clock.now = 20.0
        progress(record)
    shown = capsys.readouterr().err
    assert (
        "learning: step 12, at most 0.033 % from the optimum, largest violation of a constraint 0.0125, 20 s" in shown
    )
    assert ("Ctrl-C keeps the best so far" in shown) is terminal


def test_quick_runs_show_no_progress(capsys):
    from bregmat import Record

    with show.Progress("learning") as progress:
        progress(Record(iteration=1, seconds=0.0, objective=3.0, dual_bound=2.0, gap=0.3, violation=0.0))
    assert capsys.readouterr().err == ""


class Same:
    """A map that changes nothing."""

    @staticmethod
    def transform(X):
        return X


def test_measurements_of_the_identity(data):
    X, y = data
    seen = []

    def fit(rows):
        seen.append(rows)
        return Same

    labels = y.copy()
    labels[[0, 40]] = -1
    held_out = measure.held_out_neighbours(fit, X, labels, 4, 2)
    name, before, _, after = held_out.summary_row()
    assert name == "4-NN accuracy, 2 x 4-fold" and before == after
    assert before == f"{held_out.accuracy[0]:.3f} ± {held_out.scores[:, 0].std(ddof=1):.3f}"
    assert held_out.best_without == 1 or held_out.compared() == (0, 8, 0)
    assert len(seen) == 8 and not any(np.isin([0, 40], rows).any() for rows in seen)
    _, before, _, after = measure.k_means_nmi((X, measure.scaled(X), X), labels)
    assert before == after
    rows = Constraints.sq_distance([0, 1], [1, 2], [1e9, 1e-9], "<=")
    assert measure.constraints_met(rows, (X, None, X)) == ("constraints met, of 2", "1 (50%)", None, "1 (50%)")


def test_class_of_one_point_has_no_folds(data):
    labels = np.r_[np.zeros(59, int), 1]
    assert measure.held_out_neighbours(lambda rows: Same, data[0], labels) is None
