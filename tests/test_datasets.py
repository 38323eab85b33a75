"""Data sets: bundled ones, files checked by sha256, clear errors. No network: tiny files stand for the archive's."""

import dataclasses
import hashlib

import numpy as np
import pytest

from bregmat import datasets
from bregmat.datasets import DataNotFoundError, dataset_names, load_dataset, load_digits389, load_wine


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("BREGMAT_DATA", raising=False)


@pytest.fixture
def put(monkeypatch, tmp_path):
    """put(name, *texts) writes tiny files under the set's file names and expects their digests."""
    monkeypatch.setenv("BREGMAT_DATA", str(tmp_path))

    def write(name, *texts):
        table = datasets._UCI[name]
        files = []
        for file, text in zip(table.files, texts, strict=True):
            (tmp_path / file.name).write_bytes(text.encode())
            files.append(dataclasses.replace(file, sha256=hashlib.sha256(text.encode()).hexdigest()))
        monkeypatch.setitem(datasets._UCI, name, dataclasses.replace(table, files=tuple(files)))
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [
        ("wine", (178, 13), 3),
        ("iris", (150, 4), 3),
        ("digits", (1797, 64), 10),
        ("digits389", (537, 64), 3),
        ("breast-cancer-diagnostic", (569, 30), 2),
    ],
)
def test_bundled(name, shape, n_classes):
    data = load_dataset(name)
    assert data.X.shape == shape and data.X.dtype == np.float64
    assert data.y.dtype == np.int64 and set(data.y) == set(range(n_classes))
    assert len(data.feature_names) == shape[1] and len(data.target_names) == n_classes
    assert name in repr(data) and "scikit-learn" in data.source


def test_short_names():
    assert np.bincount(load_wine().y).tolist() == [59, 71, 48]
    digits = load_digits389()
    assert digits.target_names == ("3", "8", "9")
    assert np.bincount(digits.y).tolist() == [183, 174, 180]


def test_every_name_is_known_and_sorted():
    names = dataset_names()
    assert list(names) == sorted(names)
    assert {"wine", "sonar", "pendigits389", "breast-cancer-diagnostic"} <= set(names)


def test_digests_are_hex_and_distinct():
    files = {file for table in datasets._UCI.values() for file in table.files}
    assert all(len(file.sha256) == 64 and int(file.sha256, 16) >= 0 for file in files)
    assert len({file.sha256 for file in files}) == len({file.name for file in files}) == len(files)


def test_label_first_and_blank_line(put):
    put("balance-scale", "B,1,1,1,1\r\nR,1,1,1,2\r\nL,5,1,1,2\r\n\r\n")
    data = load_dataset("balance-scale")
    assert data.target_names == ("B", "L", "R")
    assert data.y.tolist() == [0, 2, 1]
    assert data.X.tolist() == [[1, 1, 1, 1], [1, 1, 1, 2], [5, 1, 1, 2]]
    assert data.feature_names[0] == "left_weight"
    assert data.source == "UCI: balance-scale.data"


def test_rows_with_unknown_values_are_dropped_and_counted(put):
    put("breast-cancer", "77,5,1,1,1,2,1,3,1,1,2\n78,5,4,4,5,7,?,3,2,1,2\n79,8,10,10,8,7,10,9,7,1,4\n")
    data = load_dataset("breast-cancer")
    assert data.X.shape == (2, 9)
    assert data.target_names == ("2", "4")
    assert "1 rows with unknown values" in data.source


def test_words_become_codes_in_order_of_appearance(put):
    put(
        "nursery",
        "usual,proper,complete,1,a,b,c,d,yes\nusual,critical,complete,more,a,b,c,d,no\ngreat,proper,foster,1,a,b,c,d,no\n",
    )
    data = load_dataset("nursery")
    assert data.X[:, :4].tolist() == [[0, 0, 0, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    assert data.y.tolist() == [1, 0, 0]


def test_two_files_are_joined_and_sampled(put):
    def line(digit, value):
        return ", ".join([str(value)] * 16 + [str(digit)])

    training = "\n".join(line(digit, value) for value in range(40) for digit in range(10))
    test = "\n".join(line(digit, value) for value in range(80) for digit in range(10))
    put("pendigits389", training, test)
    data = load_dataset("pendigits389")
    assert data.X.shape == (317, 16)
    assert data.target_names == ("3", "8", "9")
    assert "seeded sample of 317 of 360 rows" in data.source
    again = load_dataset("pendigits389")
    assert np.array_equal(data.X, again.X) and np.array_equal(data.y, again.y)


def test_folder_wins_over_bundled_and_argument_over_variable(put, tmp_path_factory):
    folder = put("wine", "1," + ",".join(["2"] * 13) + "\n2," + ",".join(["3"] * 13) + "\n")
    assert load_dataset("wine").X.shape == (2, 13)
    empty = tmp_path_factory.mktemp("empty")
    assert load_dataset("wine", data_dir=empty).X.shape == (178, 13)
    assert load_dataset("wine", data_dir=folder).source == "UCI: wine.data"


def test_altered_file_is_refused(put):
    folder = put("wine", "1,2\n")
    with (folder / "wine.data").open("a") as handle:
        handle.write("2,3\n")
    with pytest.raises(ValueError, match=r"wine\.data: not the file of the UCI archive \(sha256"):
        load_dataset("wine")


def test_absent_set_says_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(DataNotFoundError, match=r"needs sonar\.all-data, and BREGMAT_DATA is not set.*download=True"):
        load_dataset("sonar")
    monkeypatch.setenv("BREGMAT_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match="not all of them are in"):
        load_dataset("soybean-large")
    with pytest.raises(DataNotFoundError, match="which is not a folder"):
        load_dataset("sonar", data_dir=tmp_path / "nowhere")


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="name='vine' is no known data set; known: balance-scale"):
        load_dataset("vine")


def test_download_asks_pooch_with_the_digest(monkeypatch, tmp_path):
    import pooch

    calls = []

    def retrieve(url, known_hash, fname, path):
        calls.append((url, known_hash))
        target = tmp_path / fname
        target.write_text("0.1,0.2,R\n0.3,0.4,M\n")
        return str(target)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    data = load_dataset("sonar", download=True)
    assert data.target_names == ("M", "R")
    ((url, known_hash),) = calls
    assert url.endswith("/sonar/sonar.all-data")
    assert known_hash == "sha256:" + datasets._UCI["sonar"].files[0].sha256
