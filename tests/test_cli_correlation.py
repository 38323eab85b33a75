"""`bregmat correlation`: what is read, written and printed."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bregmat import nearest_correlation
from bregmat_app.cli.app import app

NAMES = ["rates", "credit", "equity"]
BROKEN = np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]])


@pytest.fixture
def correlation(monkeypatch, tmp_path):
    """correlation(arguments) runs the command in a folder with a broken matrix."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(BROKEN, NAMES, NAMES).to_csv("broken.csv")

    def run(*arguments):
        return CliRunner().invoke(app, ["correlation", *map(str, arguments)], catch_exceptions=False)

    return run


def read(path):
    return pd.read_csv(path, index_col=0)


def test_a_broken_matrix_is_repaired(correlation):
    done = correlation("broken.csv", "--out", "fixed.csv")
    assert done.exit_code == 0, done.output
    result = nearest_correlation(BROKEN)
    fixed = read("fixed.csv")
    assert list(fixed.index) == list(fixed.columns) == NAMES
    assert np.array_equal(fixed.to_numpy(), result.matrix)
    said = " ".join(done.stdout.split())
    for words in (
        "broken.csv: 3 x 3 correlations status OPTIMAL",
        f"distance (Frobenius norm) {np.linalg.norm(result.matrix - BROKEN):.4f}",
        f"smallest eigenvalue before −{-np.linalg.eigvalsh(BROKEN)[0]:.4f}",
        "smallest eigenvalue after 0 ",
        "at rates, credit: 0.9 to 0.7516",
        "matrix fixed.csv",
    ):
        assert words in said


def test_the_repaired_matrix_stays_as_it_is(correlation):
    correlation("broken.csv", "--out", "fixed.csv")
    assert correlation("fixed.csv", "--out", "again.csv").exit_code == 0
    assert np.abs(read("again.csv") - read("fixed.csv")).to_numpy().max() < 1e-7


@pytest.mark.parametrize("suffix", [".tsv", ".csv.gz", ".parquet"])
def test_other_formats(correlation, suffix):
    assert correlation("broken.csv", "--out", f"fixed{suffix}").exit_code == 0
    assert correlation(f"fixed{suffix}", "--out", "again.csv").exit_code == 0
    assert list(read("again.csv").columns) == NAMES


def test_a_table_without_names_of_rows(correlation, tmp_path):
    pd.DataFrame(BROKEN, columns=NAMES).to_csv("plain.csv", index=False)
    pd.DataFrame(BROKEN, columns=NAMES).to_csv("numbered.csv")
    np.savetxt("bare.csv", BROKEN, delimiter=",")
    for name in ("plain.csv", "numbered.csv", "bare.csv"):
        done = correlation(name, "--out", "out.csv")
        assert done.exit_code == 0, done.output
        assert np.array_equal(read("out.csv").to_numpy(), nearest_correlation(BROKEN).matrix)


def test_names_that_are_numbers(correlation):
    """As pandas writes a data frame whose columns were never named."""
    pd.DataFrame(BROKEN).to_csv("numbered.csv")
    done = correlation("numbered.csv", "--out", "fixed.csv")
    assert done.exit_code == 0, done.output
    fixed = read("fixed.csv")
    assert list(fixed.columns) == ["0", "1", "2"] and list(fixed.index) == [0, 1, 2]
    assert np.array_equal(fixed.to_numpy(), nearest_correlation(BROKEN).matrix)


def test_a_smallest_eigenvalue_and_a_covariance(correlation):
    assert correlation("broken.csv", "--min-eig", 0.1, "--out", "out.csv").exit_code == 0
    assert np.linalg.eigvalsh(read("out.csv"))[0] >= 0.1 - 1e-12
    deviations = np.array([2.0, 0.1, 5.0])
    pd.DataFrame(BROKEN * np.outer(deviations, deviations), NAMES, NAMES).to_csv("covariance.csv")
    done = correlation("covariance.csv")
    assert done.exit_code == 2 and "--scale" in done.stderr
    assert correlation("covariance.csv", "--scale", "--out", "scaled.csv").exit_code == 0
    assert np.allclose(read("scaled.csv"), nearest_correlation(BROKEN).matrix, atol=1e-6)


def test_a_covariance_with_its_variances(correlation):
    deviations = np.array([2.0, 0.1, 5.0])
    pd.DataFrame(BROKEN * np.outer(deviations, deviations), NAMES, NAMES).to_csv("covariance.csv")
    assert correlation("covariance.csv", "--keep-variances", "--out", "out.csv").exit_code == 0
    assert np.allclose(np.diag(read("out.csv")), deviations**2)
    assert np.allclose(
        read("out.csv") / np.outer(deviations, deviations), nearest_correlation(BROKEN).matrix, atol=1e-6
    )


def test_weights_and_bounds(correlation):
    known = BROKEN.copy()
    known[0, 1] = known[1, 0] = np.nan
    weights = np.array([[1, np.nan, 3.0], [np.nan, 1, 1.0], [3.0, 1.0, 1]])
    pd.DataFrame(known, NAMES, NAMES).to_csv("gaps.csv")
    pd.DataFrame(weights, NAMES, NAMES).to_csv("weights.csv")
    done = correlation("gaps.csv", "--weights", "weights.csv", "--lower", -0.1, "--out", "out.csv")
    assert done.exit_code == 0, done.output
    expected = nearest_correlation(known, weights=weights, bounds=(-0.1, None))
    assert np.allclose(read("out.csv").to_numpy(), expected.matrix, rtol=0, atol=1e-15)
    assert expected.matrix[1, 2] == pytest.approx(-0.1)
    assert "smallest eigenvalue before, unknown entries repaired" in done.stdout
    done = correlation("gaps.csv")
    assert done.exit_code == 2 and "an empty cell is not a number; --weights FILE says which" in done.stderr
    pd.DataFrame(np.nan_to_num(weights, nan=2.0), NAMES, NAMES).to_csv("counts.csv")
    done = correlation("gaps.csv", "--weights", "counts.csv")
    assert done.exit_code == 2, done.output
    empty = f"the entry of '{NAMES[0]}' and '{NAMES[1]}' is empty, and its weight in counts.csv is not 0"
    assert empty in done.stderr
    pd.DataFrame(weights, list("abc"), list("abc")).to_csv("others.csv")
    done = correlation("gaps.csv", "--weights", "others.csv")
    assert done.exit_code == 2 and "the columns are" in done.stderr
    done = correlation("broken.csv", "--upper", -0.6)
    assert done.exit_code == 3 and "INFEASIBLE" in done.stdout, (done.exit_code, done.output)
    pairs = "(rates, credit), (rates, equity), (credit, equity)"
    assert f"entries that contradict each other {pairs}" in " ".join(done.stdout.split())
    pd.DataFrame(-BROKEN, NAMES, NAMES).to_csv("negative.csv")
    done = correlation("broken.csv", "--weights", "negative.csv")
    assert (
        done.exit_code == 2
        and "negative.csv: the entry of 'rates' and 'rates' is negative; a weight is at least 0" in done.stderr
    )


def test_a_fixed_entry_is_known(correlation):
    pd.DataFrame(1 - np.eye(3), NAMES, NAMES).to_csv("mask.csv")
    pd.DataFrame(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]]), NAMES, NAMES).to_csv("weights.csv")
    done = correlation("broken.csv", "--fixed", "mask.csv", "--weights", "weights.csv")
    assert done.exit_code == 2
    assert "mask.csv: the entry of 'rates' and 'equity' is fixed, but its weight in weights.csv is 0" in done.stderr


def test_an_output_of_another_kind_is_refused_before_the_work(correlation):
    done = correlation("broken.csv", "--out", "out.npy")
    assert done.exit_code == 2 and "out.npy: cannot write a table to .npy" in done.stderr and not done.stdout


@pytest.mark.parametrize("kind", ["lower", "upper", "short rows"])
def test_a_triangle_is_mirrored(correlation, tmp_path, kind):
    keep = np.triu(np.ones((3, 3))) if kind == "upper" else np.tril(np.ones((3, 3)))
    pd.DataFrame(np.where(keep, BROKEN, np.nan), NAMES, NAMES).to_csv("half.csv")
    if kind == "short rows":
        lines = (tmp_path / "half.csv").read_text().splitlines()
        (tmp_path / "half.csv").write_text("\n".join(line.rstrip(",") for line in lines) + "\n")
    assert correlation("half.csv", "--out", "out.csv").exit_code == 0
    assert correlation("broken.csv", "--out", "whole.csv").exit_code == 0
    assert np.array_equal(read("out.csv"), read("whole.csv"))
    half = read("half.csv")
    half.iloc[2, 0] = half.iloc[0, 2] = np.nan  # a gap in the triangle is an unknown entry
    half.to_csv("gap.csv")
    done = correlation("gap.csv")
    assert done.exit_code == 2 and "--weights FILE says which entries are unknown" in done.stderr


def test_decimal_commas_come_back(correlation, tmp_path):
    pd.DataFrame(BROKEN, NAMES, NAMES).to_csv("comma.csv", sep=";", decimal=",")
    assert correlation("comma.csv", "--out", "out.csv").exit_code == 0
    out = pd.read_csv("out.csv", sep=";", decimal=",", index_col=0)
    assert np.array_equal(out.to_numpy(), nearest_correlation(BROKEN).matrix)
    assert correlation("comma.csv", "--out", "out.tsv").exit_code == 0
    assert "0,75" in (tmp_path / "out.tsv").read_text()


def test_a_small_matrix_is_printed_if_it_is_not_written(correlation):
    shown = correlation("broken.csv").stdout
    for value in nearest_correlation(BROKEN).matrix[np.triu_indices(3, 1)]:
        assert f"{abs(value):.4f}"[:5] in shown
    assert shown.count("credit") >= 2 and "0.5822" not in correlation("broken.csv", "--out", "out.csv").stdout
    names = [f"factor{k}" for k in range(11)]
    pd.DataFrame(0.5 * np.eye(11) + 0.5, names, names).to_csv("large.csv")
    assert "factor7" not in correlation("large.csv").stdout


def test_fixed_entries_stay(correlation):
    fixed = np.array([[1, 1, 0], [1, 1, 0], [0, 0, np.nan]])
    pd.DataFrame(fixed, NAMES, NAMES).to_csv("mask.csv")
    assert correlation("broken.csv", "--fixed", "mask.csv", "--out", "out.csv").exit_code == 0
    mask = np.zeros((3, 3), dtype=bool)
    mask[0, 1] = mask[1, 0] = True
    assert np.array_equal(read("out.csv"), nearest_correlation(BROKEN, fixed=mask).matrix)
    assert read("out.csv").iloc[0, 1] == 0.9


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a,b\n1,0.5\n0.4,1\n", "not symmetric: row 'a', column 'b' is 0.5, and its mirror image 0.4"),
        ("a,b\n1,0.5\n", "1 rows and 2 columns of numbers; a correlation matrix is square"),
        (
            "a,b\n1,2\n3,4\n5,6\n",
            "(for a table of points, give the correlations of its columns, such as pandas.DataFrame.corr",
        ),
        (
            "a,b\n4,1\n1,1\n",
            "row 'a', column 'a' is 4, where a correlation matrix has 1; if this is a covariance, --scale",
        ),
        ("a,b\n1,\n,1\n", "line 3, column 'a': an empty cell is not a number"),
        (",a,b\nb,1,0.5\na,0.5,1\n", "does not hold the names of the columns in order"),
    ],
)
def test_what_is_no_matrix(correlation, tmp_path, table, message):
    (tmp_path / "odd.csv").write_text(table)
    done = correlation("odd.csv", "--out", "out.csv")
    assert done.exit_code == 2 and message in done.stderr, done.output
    assert not (tmp_path / "out.csv").exists()
