"""The command `bregmat stream`, and other commands on the models of online learners."""

import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from bregmat.io import load, save, tables
from bregmat.online import MatrixExponentiatedGradient, OnlineLogDet, OnlinePCA, StreamRecord
from bregmat_app.cli import show
from bregmat_app.cli.app import app

D, N = 12, 2000
inf = float("inf")


@pytest.fixture
def data(rng):
    """A matrix of trace one, pairs, and half their squared distances."""
    G = rng.standard_normal((D, 4))
    U = G @ G.T / (G * G).sum()
    a = rng.integers(0, D, N)
    b = (a + rng.integers(1, D, N)) % D
    return U, np.column_stack([a, b]), 0.5 * (U[a, a] + U[b, b] - 2.0 * U[a, b])


@pytest.fixture
def bregmat(monkeypatch, tmp_path):
    """bregmat("stream", ...) runs the command in a fresh folder with wide output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)

    return run


@pytest.fixture
def pairs(tmp_path, data):
    _, X, y = data
    tables.write(tmp_path / "pairs.csv", {"a": X[:, 0], "b": X[:, 1], "y": y})
    return tmp_path / "pairs.csv"


def test_stream_learns_and_reports_the_loss_against_its_bound(bregmat, pairs, data, tmp_path):
    _, X, y = data
    done = bregmat("stream", "pairs.csv", "--dim", D, "--out", "m.bm")
    assert done.exit_code == 0, done.output
    plain = MatrixExponentiatedGradient(D).partial_fit(X, y)
    assert "pairs.csv: 2,000 pairs of 12 points" in done.stdout
    assert f"{plain.cumulative_loss_:.10g}" in done.stdout
    for text in (
        "bound / loss",
        "Lemma 3.2; comparison: any matrix of trace 1",
        "learning rate",
        "pairs a second",
        "model   m.bm",
    ):
        assert text in done.stdout
    assert_array_equal(load("m.bm").matrix(), plain.matrix())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_stream_of_squared_distances(bregmat, pairs, data, tmp_path):
    _, X, y = data
    tables.write(tmp_path / "squared.csv", {"a": X[:, 0], "b": X[:, 1], "y": (2.0 * y)})
    assert bregmat("stream", "pairs.csv", "--dim", D, "--out", "m").exit_code == 0
    assert bregmat("stream", "squared.csv", "--squared", "--dim", D, "--out", "s").exit_code == 0
    assert_array_equal(load("m").matrix(), load("s").matrix())


def test_stream_with_other_settings(bregmat, pairs):
    done = bregmat("stream", "pairs.csv", "--dim", D, "--eta", 0.5, "--trace", 2, "--out", "m")
    assert done.exit_code == 0, done.output
    learner = load("m")
    assert learner.eta_ == 0.5 and abs(np.trace(learner.matrix()) - 2.0) < 1e-12
    done = bregmat("stream", "pairs.csv", "--dim", D, "--eta", 5)
    assert done.exit_code == 0 and "none: this learning rate bounds nothing here" in done.stdout


def test_stream_that_nothing_fits(bregmat, tmp_path, data):
    """Squared distances at another scale: no bound below the loss, but what to change."""
    _, X, y = data
    tables.write(tmp_path / "big.csv", {"a": X[:, 0], "b": X[:, 1], "y": (1e3 * y)})
    done = bregmat("stream", "big.csv", "--dim", D, "--out", "m")
    assert done.exit_code == 0, done.output
    for output in (done.stdout, bregmat("inspect", "m").stdout):
        said = " ".join(output.split())
        assert "none: no matrix of trace 1 fits this stream exactly" in said and "bound / loss" not in said
        assert "allow a larger trace" in said and "larger loss budget" in said
    assert (
        "comparison: any matrix of trace 1,000 that fits"
        in bregmat("stream", "big.csv", "--dim", D, "--trace", 1000).stdout
    )


def test_stream_interrupted_writes_what_it_has(bregmat, pairs, monkeypatch):
    def interrupt(self, record):
        if record.position == 1000:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(show.Progress, "__call__", interrupt)
    command = ("stream", "pairs.csv", "--dim", D)
    done = bregmat(*command, "--out", "m")
    assert done.exit_code == 130, done.output
    assert "interrupted after 1,000 examples of pairs.csv; what was learned is in m" in done.stderr
    assert load("m").n_seen_ == 1000
    done = bregmat(*command)
    assert done.exit_code == 130 and "give --out FILE" in done.stderr


def test_stream_with_a_bad_row(bregmat, pairs, tmp_path):
    lines = pairs.read_text().splitlines()
    lines[1500] = "3,3,0.1"
    pairs.write_text("\n".join(lines))
    done = bregmat("stream", "pairs.csv", "--dim", D, "--out", "m")
    assert done.exit_code == 2
    assert "pairs.csv, line 1501: X must hold pairs of different points; got (3, 3)." in done.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.csv"], "absent.csv: no such file"),
        (["pairs.csv", "--eta", "fast"], "--eta must be a number or bound; got 'fast'"),
        (["pairs.csv", "--eta", "0"], "eta must be 'bound' or positive and finite; got 0.0"),
        (["pairs.csv", "--out", "no/m"], "cannot write 'no/m'"),
    ],
)
def test_stream_with_bad_arguments(bregmat, pairs, arguments, message):
    done = bregmat("stream", *arguments, "--dim", D)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output and done.stdout == ""


def test_inspect_shows_the_loss_and_its_bound(bregmat, pairs):
    bregmat("stream", "pairs.csv", "--dim", D, "--out", "m.bm")
    done = bregmat("inspect", "m.bm")
    assert done.exit_code == 0, done.output
    for text in ("MatrixExponentiatedGradient", "pairs.csv", "2,000", "total loss", "bound / loss", "eigenvalues"):
        assert text in done.stdout


def test_transform_writes_the_coordinates(bregmat, pairs, tmp_path):
    bregmat("stream", "pairs.csv", "--dim", D, "--out", "m.bm")
    learner = load("m.bm")
    done = bregmat("transform", "m.bm", "--out", "all.csv")
    assert done.exit_code == 0 and "12 points in 12 dimensions written to all.csv" in done.stderr, done.output
    table = np.loadtxt("all.csv", delimiter=",", skiprows=1)
    assert_array_equal(table[:, 0], np.arange(D))
    assert_array_equal(table[:, 1:], learner.transform())
    (tmp_path / "some.csv").write_text("kind,number\nx,3\ny,0\n")
    assert bregmat("transform", "m.bm", "some.csv", "--out", "some.npy").exit_code == 0
    assert_array_equal(np.load("some.npy"), learner.transform([3, 0]))
    for text, message in (
        ("number\n3\n12\n", "12 in row 1 is no point number; they go from 0 to 11"),
        ("number\n0.5\n", "0.5 in row 0 is no point number"),
        ("a,b\n1,2\n", "2 columns of numbers; the model needs one, of point numbers"),
    ):
        (tmp_path / "some.csv").write_text(text)
        done = bregmat("transform", "m.bm", "some.csv", "--out", "new.csv")
        assert done.exit_code == 2 and message in done.stderr


def test_transform_by_other_online_learners(bregmat, rng):
    V = rng.standard_normal((5, 3)) / 4
    np.save("v.npy", V)
    vectors = MatrixExponentiatedGradient(3, instances="vectors").learn_one(V[0], 0.01)
    save("v", vectors)
    assert bregmat("transform", "v", "v.npy", "--out", "new.npy").exit_code == 0
    assert_array_equal(np.load("new.npy"), vectors.transform(V))
    save("c", MatrixExponentiatedGradient(3, instances="vectors").learn_one(1j * V[0] + V[1], 0.01))
    done = bregmat("transform", "c", "--out", "new.npy")
    assert done.exit_code == 2 and "the coordinates are complex" in done.stderr
    save("p", OnlinePCA(1).fit(V))
    done = bregmat("transform", "p", "--out", "new.npy")
    assert done.exit_code == 2 and "p: give POINTS to map with this OnlinePCA" in done.stderr


def test_inspect_other_online_learners(bregmat, rng):
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


def test_progress_in_the_words_of_a_stream(bregmat, pairs, monkeypatch, capsys):
    from bregmat_app.cli.stream import _state

    with show.Progress("learning", clock=iter([0.0, 11.0]).__next__, state=_state) as progress:
        progress(StreamRecord(5000, 1.0, 0.25, inf))
    assert "learning: 5,000 pairs, loss 0.25, bound ∞, 11 s" in capsys.readouterr().err
