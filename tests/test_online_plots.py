"""Commands on the models of online learners."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from bregmat.io import save
from bregmat.online import MatrixExponentiatedGradient, OnlineLogDet, OnlinePCA, UnreachableLabelWarning
from bregmat_app.cli.app import app

D, N = 12, 2000


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
    """bregmat("inspect", ...) runs the command in a fresh folder with wide output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)

    return run


def test_inspect_shows_the_loss_and_its_bound(bregmat, data):
    save("m.bm", MatrixExponentiatedGradient(D).partial_fit(*data[1:]))
    done = bregmat("inspect", "m.bm")
    assert done.exit_code == 0, done.output
    for text in (
        "MatrixExponentiatedGradient",
        "total loss",
        "Lemma 3.2; comparison: any matrix of trace 1",
        "eigenvalues",
    ):
        assert text in done.stdout
    with pytest.warns(UnreachableLabelWarning):
        save("big.bm", MatrixExponentiatedGradient(D).partial_fit(data[1], 1e3 * data[2]))
    said = " ".join(bregmat("inspect", "big.bm").stdout.split())
    assert "none: no matrix of trace 1 fits this stream exactly" in said
    assert "allow a larger trace" in said and "larger loss budget" in said


def test_transform_by_other_online_learners(bregmat, rng):
    V = rng.standard_normal((5, 3)) / 4
    np.save("v.npy", V)
    pca = OnlinePCA(1).fit(V)
    save("p", pca)
    assert bregmat("transform", "p", "v.npy", "--out", "new.npy").exit_code == 0
    assert_array_equal(np.load("new.npy"), pca.transform(V))
    vectors = MatrixExponentiatedGradient(3, instances="vectors").learn_one(V[0], 0.01)
    save("g", vectors)
    assert bregmat("transform", "g", "v.npy", "--out", "new.npy").exit_code == 0
    assert_array_equal(np.load("new.npy"), vectors.transform(V))
    done = bregmat("transform", "g", "--out", "new.npy")
    assert done.exit_code == 2 and "Missing argument 'POINTS'" in done.stderr


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
