"""Points and constraints from files: what is read, and errors that name file, line and column."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from bregmat import Constraints
from bregmat.io import parse_sample_ids, read_constraints, read_points, write_constraints, write_points


@pytest.fixture
def text(tmp_path):
    """text(content, name="points.csv") writes a file and gives its path."""

    def write(content, name="points.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# ---------------------------------------------------------------- points


def test_points_with_header_words_and_ids(text):
    points = read_points(text("id,height,colour,width\n7,1.5,red,2\n9,2.5,blue,1e-3\n"))
    assert points.names == ("height", "width")
    assert points.X.tolist() == [[1.5, 2.0], [2.5, 1e-3]]
    assert points.columns["id"].tolist() == ["7", "9"]
    assert points.columns["colour"].tolist() == ["red", "blue"]


def test_columns_with_more_words_than_numbers_are_no_features(text):
    points = read_points(text("code,b,rare\n7,2,\nred,4,\nblue,6,x\n"))
    assert points.names == ("b",) and points.columns["code"].tolist() == ["7", "red", "blue"]
    assert points.columns["rare"].tolist() == ["", "", "x"]


def test_points_without_header(text):
    points = read_points(text("5.1,3.5,Iris-setosa\n4.9,3.0,Iris-virginica\n\n"))
    assert points.names == ("x0", "x1")
    assert points.X.shape == (2, 2)
    assert points.columns["x2"].tolist() == ["Iris-setosa", "Iris-virginica"]


@pytest.mark.parametrize(
    "content",
    [
        "a;b\n1;2\n3;4\n",
        "a\tb\r\n1\t2\r\n3\t4\r\n",
        "\ufeffa, b\n 1, 2\n3,4",
        '"a","b"\n"1","2"\n\n3,4\n',
        ",a,b\n0,1,2\n1,3,4\n",  # pandas' unnamed index
    ],
)
def test_points_dialects(text, content):
    points = read_points(text(content))
    assert points.names == ("a", "b")
    assert points.X.tolist() == [[1, 2], [3, 4]]


def test_header_of_column_numbers(text):
    points = read_points(text("label,0,1\na,1,2\nb,3,4\n"))
    assert points.X.shape == (3, 2)  # a line with a number in it is no header
    with pytest.raises(ValueError, match="line 1, column 'x0': 'key' is not a number"):
        read_points(text("key,0,1\n5,1,2\n6,3,4\n"))


def test_exclude_and_features(text):
    path = text("a,label,b\n1,0,2\n3,1,4\n")
    assert read_points(path).names == ("a", "label", "b")
    points = read_points(path, exclude=["label"])
    assert points.names == ("a", "b") and points.columns["label"].tolist() == ["0", "1"]
    assert read_points(path, features=("b", "a")).X.tolist() == [[2, 1], [4, 3]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "points.csv: the file is empty"),
        ("a,b\n", "points.csv: a header line, but no rows"),
        ("a,b\n1,2\n3\n", "points.csv, line 3: 1 cells, and the first line has 2"),
        ("a,b\n1,2\n\n3,x\n", "points.csv, line 4, column 'b': 'x' is not a number"),
        (
            "a,b\n1,2\n3,\n",
            "points.csv, line 3, column 'b': an empty cell is not a number; missing='drop' leaves out such rows",
        ),
        ("a,b\n1,\n3,1\n", "points.csv, line 2, column 'b': an empty cell is not a number"),
        ("a,b\n1,2\n3,nan\n", "points.csv, line 3, column 'b': 'nan' is not a number; missing='drop'"),
        ("a,b\n1,2\n3,-inf\n", "points.csv, line 3, column 'b': '-inf' is not finite"),
        # a typo in the first row is no column of words, and no header line
        ("a,b\n1x,2\n3,4\n5,6\n", "points.csv, line 2, column 'a': '1x' is not a number"),
        ("a,b\nNA,2\n,4\n5,6\n7,8\n", "points.csv, line 2, column 'a': 'NA' is not a number; missing="),
        ("a,b\n1,2,3\n4,5,6\n", "points.csv, line 2: 3 cells, and the first line has 2"),
        ("a,b\n1,2\n4,5,6\n", "points.csv, line 3: 3 cells, and the first line has 2"),
        ('a,b\n"1,2\n3,4\n', "points.csv: cannot be read as a table: EOF inside string starting at row 1"),
        ("a;b\n1,5;2\n2,5;3\n", "points.csv: numbers such as '1,5' have decimal commas, and are read with points"),
        ("a;b\n1;2\n" + 20 * "3;4\n" + "5;6,5\n", "line 23, column 'b': '6,5' is not a number"),
        ("1.5,x2.5\n2,3\n4,5\n", "points.csv, line 1, column 'x1': 'x2.5' is not a number"),
        ("7,x2,3\n2,3,1\n4,5,1\n", "points.csv, line 1, column 'x1': 'x2' is not a number"),
        ("a,a\n1,2\n", "points.csv: column 'a' occurs twice"),
        ("a,b\nx,y\n", "points.csv: no column of numbers to learn from; the columns are 'a', 'b'"),
        (b"a,b\n1,\xff\n", "points.csv: not a text file in UTF-8"),
    ],
)
def test_bad_points(text, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_points(text(content))


def test_unknown_columns_and_endings(text):
    path = text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no column 'label'; the columns are 'a', 'b'"):
        read_points(path, exclude=["label"])
    with pytest.raises(ValueError, match="no column 'c'"):
        read_points(path, features=["a", "c"])
    with pytest.raises(
        ValueError,
        match=r"cannot read points from \.xlsx; use \.csv, \.tsv, .*, \.npy",
    ):
        read_points(text("", "points.xlsx"))
    with pytest.raises(FileNotFoundError):
        read_points("absent.csv")


def test_npy_is_memory_mapped(tmp_path, rng):
    X = rng.standard_normal((5, 3))
    np.save(tmp_path / "points.npy", X)
    points = read_points(tmp_path / "points.npy")
    assert isinstance(points.X, np.memmap) and not points.X.flags.writeable
    assert np.array_equal(points.X, X)
    assert points.names == ("x0", "x1", "x2") and points.columns == {}
    with pytest.raises(ValueError, match="3 columns, expected 2"):
        read_points(tmp_path / "points.npy", features=["a", "b"])


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2), complex), np.array([["a"]]), np.zeros((0, 3))])
def test_bad_npy(tmp_path, array):
    np.save(tmp_path / "points.npy", array)
    with pytest.raises(ValueError, match="points must be a 2-D array of numbers"):
        read_points(tmp_path / "points.npy")


def test_npy_of_objects_is_not_unpickled(tmp_path):
    np.save(tmp_path / "points.npy", np.array([[1, None]]), allow_pickle=True)
    with pytest.raises(ValueError, match="not a .npy file of numbers"):
        read_points(tmp_path / "points.npy")
    (tmp_path / "points.npy").write_bytes(b"hello")
    with pytest.raises(ValueError, match="not a .npy file of numbers"):
        read_points(tmp_path / "points.npy")


ENDINGS = [".csv", ".tsv", ".parquet"]


@pytest.mark.parametrize("suffix", [*ENDINGS, ".npy"])
def test_points_round_trip(tmp_path, rng, suffix):
    X = rng.standard_normal((6, 2)) * 10.0 ** rng.integers(-300, 300, (6, 2))
    path = tmp_path / f"points{suffix}"
    write_points(path, X, names=["a", "b"], columns={"id": np.array(list("uvwxyz"))})
    points = read_points(path)
    assert np.array_equal(points.X, X)
    if suffix != ".npy":
        assert points.names == ("a", "b")
        assert points.columns["id"].tolist() == list("uvwxyz")


def test_parquet_from_data_frames(tmp_path):
    import pandas as pd
    import polars as pl

    columns = {"id": [3, 4], "a": [1, 2], "b": [0.5, 1.5], "flag": [True, False], "kind": ["x", "y"]}
    pd.DataFrame(columns, index=[10, 11]).to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(columns).write_parquet(tmp_path / "polars.parquet")
    for name in ("pandas", "polars"):
        points = read_points(tmp_path / f"{name}.parquet")
        assert points.names == ("a", "b", "flag")
        assert points.X.tolist() == [[1, 0.5, 1], [2, 1.5, 0]]
        assert points.columns["id"].tolist() == [3, 4]
        assert points.columns["kind"].tolist() == ["x", "y"]


@pytest.mark.parametrize("row", ["1", "1,2", "1,2,3,4"])
def test_a_row_with_too_few_cells_is_refused_like_one_with_too_many(row, tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(f"a,b,c\n0,1,2\n\n3,4,\n{row}\n")
    for read in (read_points, read_constraints):
        with pytest.raises(
            ValueError, match=f"points.csv, line 5: {row.count(',') + 1} cells, and the first line has 3"
        ):
            read(path)
    path.write_text("a,b,c\n0,1,2\n3,4,\n")
    assert np.isnan(read_points(path, missing="drop").X).sum() == 0  # an empty cell is a missing one


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_two_columns_of_one_name_are_refused(suffix, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / f"twice{suffix}"
    table = pa.table([[0.0, 1.0], [1.0, 2.0], [3.0, 5.0]], names=["a", "b", "b"])
    if suffix == ".csv":
        path.write_text("a,b,b\n0,1,3\n1,2,5\n")
    else:
        parquet.write_table(table, path)
    for read in (read_points, read_constraints):
        with pytest.raises(ValueError, match=re.escape(f"twice{suffix}: column 'b' occurs twice")):
            read(path)


def test_bad_parquet(tmp_path):
    import pandas as pd

    pd.DataFrame({"a": [1.0, None]}).to_parquet(tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match=r"gap\.parquet, row 1, column 'a': 'nan' is not a number; missing='drop'"):
        read_points(tmp_path / "gap.parquet")
    (tmp_path / "not.parquet").write_text("a,b")
    with pytest.raises(ValueError, match=r"not\.parquet: not a parquet file"):
        read_points(tmp_path / "not.parquet")


def test_damaged_files_are_named(tmp_path):
    for name in ("points.parquet",):
        write_points(tmp_path / name, np.arange(400.0).reshape(200, 2), names=["a", "b"])
        data = (tmp_path / name).read_bytes()
        for part in (b"", data[:60], data[:-20]):
            (tmp_path / name).write_bytes(part)
            with pytest.raises(ValueError, match=re.escape(name)):
                read_points(tmp_path / name)


# ---------------------------------------------------------------- missing cells, encodings


GAPS = "id,a,b,kind\np0,1,NA,x\np1,,4,NA\np2,3,6,\np3,5,?,y\np4,9,8,z\n"


def test_missing_cells_are_left_out_or_filled_up(text):
    path = text(GAPS)
    with pytest.raises(ValueError, match="line 3, column 'a': an empty cell is not a number; missing='drop'"):
        read_points(path)
    kept = read_points(path, missing="drop")
    assert kept.X.tolist() == [[3, 6], [9, 8]] and kept.rows.tolist() == [2, 4]
    assert kept.columns["id"].tolist() == ["p2", "p4"] and kept.where(1) == "line 6"
    assert kept.n_missing == {"a": 1, "b": 2} and kept.medians == {}
    full = read_points(path, missing="median")
    assert full.X.tolist() == [[1, 6], [4, 4], [3, 6], [5, 6], [9, 8]]
    assert full.medians == {"a": 4.0, "b": 6.0} and full.rows is None
    given = read_points(path, missing="median", medians={"a": -1.0, "b": -2.0})
    assert given.X[1, 0] == -1.0 and given.X[0, 1] == -2.0
    with pytest.raises(ValueError, match="missing must be one of 'error', 'drop', 'median'; got 'mean'"):
        read_points(path, missing="mean")
    assert read_points(path, features=["a"], missing="drop").X.ravel().tolist() == [1, 3, 5, 9]


def test_missing_everywhere(text, tmp_path):
    path = text("a,b\n1,\n2,NA\n3,nan\n")
    with pytest.raises(ValueError, match=r"points.csv: every row has a missing cell; columns with many: 'b' \(3\)"):
        read_points(path, missing="drop")
    with pytest.raises(ValueError, match="points.csv, column 'b': no cell holds a number, so there is no median"):
        read_points(path, missing="median")
    np.save(tmp_path / "gaps.npy", np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]]))
    assert read_points(tmp_path / "gaps.npy", missing="median").X[0].tolist() == [1.0, 4.0]
    assert len(read_points(tmp_path / "gaps.npy", missing="drop").X) == 2


def test_missing_truths(text):
    path = text("flag,a\nTrue,1\n,2\nfalse,3\nTRUE,4\n")
    assert read_points(path, missing="median").X[:, 0].tolist() == [1, 1, 0, 1]


def test_text_is_utf_8(text):
    for encoding in ("utf-8", "utf-8-sig"):
        points = read_points(text("größe;art\n1.5;süß\n2.5;herb\n".encode(encoding)))
        assert points.names == ("größe",) and points.X.ravel().tolist() == [1.5, 2.5]
        assert points.columns["art"].tolist() == ["süß", "herb"]
    for encoding in ("cp1252", "utf-16"):
        with pytest.raises(ValueError, match=r"points\.csv: not a text file in UTF-8 .*; .* save it as UTF-8"):
            read_points(text("größe;art\n1;süß\n".encode(encoding)))


def test_words_stay_as_they_are(text):
    """Labels and names of rows are no numbers, and NA may be Namibia."""
    path = text("id,a,country\n007,1,NA\n010,2, DE\n")
    points = read_points(path, exclude=["country"])
    assert points.columns["id"].tolist() == ["007", "010"] and points.columns["country"].tolist() == ["NA", "DE"]


def test_numbers_are_read_to_the_last_bit(text, rng):
    x = rng.standard_normal(3000) * 10.0 ** rng.integers(-300, 300, 3000)
    assert np.array_equal(read_points(text("a,b\n" + "".join(f"{v!r},1\n" for v in x.tolist()))).X[:, 0], x)


def test_tables_without_pandas(text, monkeypatch):
    path = text("a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'tables are read with pandas: pip install "bregmat\[cli\]"'):
        read_points(path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'pip install "bregmat\[frames\]"'):
        read_points(tmp_path / "points.parquet")


# ---------------------------------------------------------------- constraints

HEADER = "relation,i,j,k,l,bound,sense,weight\n"


def every_kind():
    return (
        Constraints.sq_distance([0, 2, 4], [1, 3, 5], [0.1, 1 / 3, 2.0], ["<=", ">=", "=="], weight=[1, 0.5, np.inf])
        + Constraints.similarity(1, 1, -0.25, ">=")
        + Constraints.comparison(0, 1, 2, 3, 0.75)
        + Constraints.similarity_comparison(0, 1, 2, 3)
        + Constraints.diagonal([1.0, 2.0], [3, 4])
        + Constraints.trace(7.5)
    )


def named():
    return Constraints.sq_distance(["wren", "kite"], ["kite", "crow"], 1.0, "<=") + Constraints.comparison(
        "owl", "kite", "wren", "owl", 2.0
    )


def assert_equal(a, b):
    for name in ("relation", "bound", "sense", "weight"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
        assert getattr(a, name).dtype == getattr(b, name).dtype
    if a.ids is None:
        assert b.ids is None and np.array_equal(a.index, b.index)
    else:
        assert np.array_equal(a.index < 0, b.index < 0)
        used = a.index >= 0
        assert np.array_equal(a.ids[a.index[used]], b.ids[b.index[used]])


@pytest.mark.parametrize("suffix", ENDINGS)
@pytest.mark.parametrize("make", [every_kind, named])
def test_constraints_round_trip(tmp_path, suffix, make):
    path = tmp_path / f"pairs{suffix}"
    write_constraints(path, make())
    assert_equal(read_constraints(path), make())


def test_infinite_weight_is_written_as_inf(tmp_path):
    write_constraints(tmp_path / "pairs.csv", every_kind())
    lines = (tmp_path / "pairs.csv").read_text().splitlines()
    assert lines[0] + "\n" == HEADER
    assert lines[3] == "sq_distance,4,5,,,2.0,==,inf"


def test_defaults_of_empty_cells(text):
    path = text("sense,bound,relation,i,j,k,l\n,,comparison,0,1,2,3\n,2,diagonal,4,,,\n,3,trace,,,,\n", "pairs.csv")
    c = read_constraints(path)
    assert c.sense.tolist() == [1, 0, 0] and c.bound.tolist() == [0, 2, 3] and c.weight.tolist() == [1, 1, 1]
    minimal = read_constraints(text("relation,i,j,bound,sense\nsq_distance,0,1,1,<=\n", "few.csv"))
    assert minimal.n_constraints == 1


def test_ids_are_integers_only_if_all_are(text):
    rows = "relation,i,j,bound,sense\nsq_distance,7,12,1,<=\nsq_distance,{},12,1,<=\n"
    assert read_constraints(text(rows.format("8"), "a.csv")).ids is None
    assert read_constraints(text(rows.format("008"), "b.csv")).ids.tolist() == ["008", "12", "7"]
    assert read_constraints(text(rows.format("8"), "c.csv"), id_type=str).ids.tolist() == ["12", "7", "8"]
    with pytest.raises(ValueError, match=r"d\.csv, line 3: samples are row numbers here; got i='x', j='12'"):
        read_constraints(text(rows.format("x"), "d.csv"), id_type=int)


def test_parse_sample_ids():
    assert parse_sample_ids(["3", "-1"]).dtype.kind == "i"
    assert parse_sample_ids(["3", "1.0"]).tolist() == ["3", "1.0"]
    assert parse_sample_ids(np.array([3.0, 4.0])).tolist() == [3, 4]
    assert parse_sample_ids(np.array([3, 4], np.int32)).dtype == np.int64


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("distance,0,1,,,1,<=,1", "line 3: unknown relation 'distance'; known: sq_distance, similarity"),
        ("sqdistance,0,1,,,1,<=,1", "line 3: unknown relation 'sqdistance'; known: .*; is it 'sq_distance'"),
        (",0,1,,,1,<=,1", "line 3: the relation is empty; known: sq_distance, similarity"),
        ("linear,0,,,,1,<=,1", "line 3: unknown relation 'linear'; .*matrices cannot be given in a table"),
        ("sq_distance,0,,,,1,<=,1", "line 3: 'sq_distance' needs a sample in column 'j', which is empty"),
        ("sq_distance,0,1,2,,1,<=,1", "line 3: 'sq_distance' takes no sample in column 'k', got '2'"),
        ("trace,0,,,,1,==,1", "line 3: 'trace' takes no sample in column 'i', got '0'"),
        ("sq_distance,4,4,,,1,<=,1", "line 3: i and j must be different samples, both are '4'"),
        ("comparison,0,1,4,4,0,<=,1", "line 3: k and l must be different samples, both are '4'"),
        ("comparison,0,1,1,0,0,<=,1", r"line 3: \(i, j\) and \(k, l\) must be different pairs"),
        ("sq_distance,0,1,,,one,<=,1", "line 3: bound 'one' is not a number"),
        (
            "sq_distance,0,1,,,,<=,1",
            "line 3: the bound is empty; 'sq_distance' needs a number; a table of pairs or triplets without",
        ),
        ("sq_distance,0,1,,,nan,<=,1", "line 3: bound 'nan' is not finite"),
        ("sq_distance,0,1,,,inf,<=,1", "line 3: bound 'inf' is not finite"),
        ("sq_distance,0,1,,,-1,<=,1", "line 3: bound '-1' is negative; no positive semidefinite matrix"),
        ("diagonal,0,,,,-1,==,1", "line 3: bound '-1' is negative"),
        ("sq_distance,0,1,,,1,<,1", 'line 3: sense \'<\' must be "<=", ">=" or "=="'),
        ("sq_distance,0,1,,,1,,1", 'line 3: the sense is empty; write "<="'),
        ("sq_distance,0,1,,,1,<=,0", "line 3: weight '0' must be positive"),
        ("sq_distance,0,1,,,1,<=,nan", "line 3: weight 'nan' must be positive"),
        ("sq_distance,0,1,,,1,<=,x", "line 3: weight 'x' is not a number"),
        ("sq_distance,-3,1,,,1,<=,1", "line 3: sample numbers start at 0; got i='-3', j='1'"),
    ],
)
def test_bad_constraints(text, row, message):
    good = "sq_distance,0,1,,,1,<=,1\n"
    path = text(HEADER + good + row + "\n" + good, "pairs.csv")
    with pytest.raises(ValueError, match=r"pairs\.csv, " + message):
        read_constraints(path)


def test_many_bad_rows_are_counted(text):
    path = text(HEADER + "sq_distance,0,1,,,-1,<=,1\n" * 3, "pairs.csv")
    with pytest.raises(ValueError, match=r"line 2: bound '-1' is negative.*\(and 2 more rows\)"):
        read_constraints(path)


def test_bad_constraint_files(text, tmp_path):
    with pytest.raises(ValueError, match=r"line 1: unknown column 'distance'; known: relation, i, j"):
        read_constraints(text("relation,i,j,distance,sense\nsq_distance,0,1,1,<=\n", "pairs.csv"))
    with pytest.raises(ValueError, match=r"line 1: no column 'bound'; needed"):
        read_constraints(text("relation,i,j,sense\nsq_distance,0,1,<=\n", "pairs.csv"))
    with pytest.raises(ValueError, match="a header line, but no rows"):
        read_constraints(text(HEADER, "pairs.csv"))
    with pytest.raises(ValueError, match=r"cannot read constraints from \.txt"):
        read_constraints(text("", "pairs.txt"))
    with pytest.raises(ValueError, match="cannot write constraints to a file without ending"):
        write_constraints(tmp_path / "pairs", every_kind())
    with pytest.raises(ValueError, match=r"'linear' have no column form; constraints \[0\]"):
        write_constraints(tmp_path / "pairs.csv", Constraints.linear(np.eye(2)[None], 1.0, "<="))


def test_bad_parquet_constraints_name_the_row(tmp_path):
    import pandas as pd

    columns = {"relation": ["sq_distance"] * 2, "i": [0, 1], "j": [1.0, None], "bound": [1.0, 2.0], "sense": ["<="] * 2}
    pd.DataFrame(columns).to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(ValueError, match=r"pairs\.parquet, row 1: 'sq_distance' needs a sample in column 'j'"):
        read_constraints(tmp_path / "pairs.parquet")


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_names_that_a_spreadsheet_would_evaluate_are_escaped(tmp_path, kind):
    """Names come back as they were; numbers stay numbers for other programs."""
    names = np.array(["=1+1", "+cmd", "-x", "@sum", "'=a", "''+b", "'quoted", "plain", "-3", "+4.5", "\ttab"])
    rows = Constraints.sq_distance(np.arange(len(names) - 1), np.arange(1, len(names)), 4.0, "<=")
    rows = replace(rows, ids=names)
    path = tmp_path / f"rows.{kind}"
    write_constraints(path, rows)
    back = read_constraints(path, id_type=str)
    assert [back.ids[i] for i in back.index[:, 0]] == names[:-1].tolist()
    assert [back.ids[i] for i in back.index[:, 1]] == names[1:].tolist()
    if kind != "parquet":
        lines = path.read_text().splitlines()[1:]
        cells = [cell for line in lines for cell in re.split("[,\t]", line)[1:3]]
        assert {cell for cell in cells if re.match(r"[=+\-@]", cell)} <= {"-3", "+4.5"}


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_names_that_a_file_would_change_are_refused(tmp_path, kind):
    """A reader of text ends a line at a carriage return and strips cells; all names that are written come back."""
    path = tmp_path / f"rows.{kind}"
    names = ["", "a\rb", "\r", "a\r\nb", " a", "a ", "\x85a", "a\nb", "a\tb", "a,b", 'a"b', "NA", "\ufeffa"]
    lost = [""] if kind == "parquet" else names[:7]
    for name in names:
        rows = Constraints.sq_distance([name], ["other"], 1.0, "<=")
        if name in lost:
            with pytest.raises(ValueError, match=re.escape(f"cannot hold the sample id {name!r}")):
                write_constraints(path, rows)
        else:
            write_constraints(path, rows)
            assert set(read_constraints(path).ids.tolist()) == {name, "other"}


# ---------------------------------------------------------------- a table with a long first line
@pytest.mark.slow
@pytest.mark.parametrize("has_header", [True, False])
def test_a_table_with_thousands_of_columns_is_read(has_header, tmp_path, rng):
    """4,000 columns with long names: the first line has more than 64 KiB."""
    X = rng.normal(size=(3, 4000))
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    if has_header:
        lines.insert(0, ",".join(f"a column with a long name {k}" for k in range(4000)))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    assert len(lines[0]) > 2**16
    points = read_points(path)
    assert np.array_equal(points.X, X)
    assert points.names[-1] == ("a column with a long name 3999" if has_header else "x3999")


def test_a_first_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("bregmat.io.texts.LONGEST", 2**18)
    path = tmp_path / "endless.csv"
    path.write_text("1," * 2**19)
    with pytest.raises(ValueError, match=r"endless\.csv: no table of text, a line has 262144 characters or more"):
        read_points(path)
