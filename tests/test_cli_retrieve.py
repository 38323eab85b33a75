"""`bregmat retrieve`: what is read, written and printed."""

import numpy as np
import pytest
from typer.testing import CliRunner

from bregmat import RetrievalLearner, load
from bregmat.io import read_points, write_points
from bregmat_app.cli.app import app
from test_retrieval import noisy_pairs


@pytest.fixture
def retrieve(monkeypatch, tmp_path, rng):
    """retrieve(arguments) runs the command in a folder with 40 named queries, 60 documents, and their right answers."""
    monkeypatch.chdir(tmp_path)
    Q, D = noisy_pairs(rng, 60, d=6)
    names = np.array([f"q{k}" for k in range(40)])
    write_points("queries.csv", Q[:40], names=[f"c{k}" for k in range(6)], columns={"id": names})
    np.save("documents.npy", D)
    rows = "".join(f"q{k},{k},{1 + k % 2}\n" for k in range(40))
    (tmp_path / "relevant.csv").write_text("query,document,grade\n" + rows)
    return lambda *arguments: CliRunner().invoke(app, ["retrieve", *arguments], catch_exceptions=False)


def test_a_map_is_learned_and_written(retrieve):
    done = retrieve("queries.csv", "documents.npy", "relevant.csv", "--out", "model.bm", "--quiet")
    assert done.exit_code == 0, done.output
    Q, D = read_points("queries.csv").X, np.load("documents.npy")
    grades = np.zeros((40, 60))
    grades[np.arange(40), np.arange(40)] = 1 + np.arange(40) % 2
    pairs = np.column_stack([np.arange(40)] * 2)
    learner = load("model.bm")
    assert "MRR, as given and learned" in done.output and f"{learner.report_['MRR']['learned']:.3f}" in done.output
    assert learner.score(Q, D, pairs) > RetrievalLearner(temperature=1.0, slack_weight=1e-9).fit(Q, D, pairs).score(
        Q, D, pairs
    )
    done = CliRunner().invoke(app, ["transform", "model.bm", "queries.csv", "--out", "z.csv"], catch_exceptions=False)
    assert done.exit_code == 0
    np.testing.assert_allclose(read_points("z.csv").X, learner.transform(Q))


def test_row_i_answers_row_i_without_a_third_file(retrieve):
    np.save("answers.npy", np.load("documents.npy")[:40])
    assert retrieve("queries.csv", "answers.npy", "-q").exit_code == 0


def test_the_prior_is_an_option(retrieve):
    np.save("answers.npy", np.load("documents.npy")[:40])
    for prior in ("identity", "covariance"):
        done = retrieve("queries.csv", "answers.npy", "-q", "--prior", prior, "--out", f"{prior}.bm")
        assert done.exit_code == 0 and load(f"{prior}.bm").prior == prior
    done = retrieve("queries.csv", "answers.npy", "--prior", "variance")
    assert (
        done.exit_code == 2 and "--prior must be one of 'auto', 'identity', 'covariance'; got 'variance'" in done.output
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("zz,1,1", "no query 'zz' in its file, whose rows are named by the column id"),
        ("q1,60,1", "no document '60' in its file, whose rows are named by row numbers from 0 to 59"),
        ("q1,1,-1", "'-1' is not a grade, which is a number of at least 0"),
        ("q1,1,good", "'good' is not a grade"),
    ],
)
def test_wrong_answers_are_named(retrieve, tmp_path, row, message):
    with open(tmp_path / "relevant.csv", "a") as file:
        file.write(row + "\n")
    done = retrieve("queries.csv", "documents.npy", "relevant.csv")
    assert done.exit_code == 2 and message in done.output, done.output


def test_missing_columns_are_named(retrieve, tmp_path):
    (tmp_path / "relevant.csv").write_text("question,document\nq1,1\n")
    done = retrieve("queries.csv", "documents.npy", "relevant.csv")
    assert done.exit_code == 2 and "no column 'query'" in done.output
