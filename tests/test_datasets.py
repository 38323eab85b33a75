"""Data sets: bundled ones, files checked by sha256, clear errors. No network: tiny files stand for the archive's."""

import dataclasses
import gzip
import hashlib

import numpy as np
import pytest

from bregmat_papers import groel2
from bregmat_papers.datasets import (
    DataNotFoundError,
    catalogue,
    dataset_names,
    load_dataset,
    load_mnist,
    load_sentences,
    load_sonar_split,
)
from bregmat_papers.groel2 import load_groel2


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("BREGMAT_DATA", raising=False)


@pytest.fixture
def put(monkeypatch, tmp_path):
    """put(name, *texts) writes tiny files under the set's file names and expects their digests."""
    monkeypatch.setenv("BREGMAT_DATA", str(tmp_path))

    def write(name, *texts):
        table = catalogue.UCI[name]
        files = []
        for file, text in zip(table.files, texts, strict=True):
            (tmp_path / file.name).write_bytes(text.encode())
            files.append(dataclasses.replace(file, sha256=hashlib.sha256(text.encode()).hexdigest()))
        monkeypatch.setitem(catalogue.UCI, name, dataclasses.replace(table, files=tuple(files)))
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
    assert np.bincount(load_dataset("wine").y).tolist() == [59, 71, 48]
    digits = load_dataset("digits389")
    assert digits.target_names == ("3", "8", "9")
    assert np.bincount(digits.y).tolist() == [183, 174, 180]


def test_every_name_is_known_and_sorted():
    names = dataset_names()
    assert list(names) == sorted(names)
    assert {"wine", "sonar", "pendigits389", "breast-cancer-diagnostic"} <= set(names)


def test_digests_are_hex_and_distinct():
    tables = {file for table in catalogue.UCI.values() for file in table.files}
    images = {file for part in catalogue.MNIST.values() for file in part}
    files = tables | images | {*catalogue.SONAR_SPLIT, *groel2.GROEL2}
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
    with pytest.raises(ValueError, match=r"wine\.data: not the published file \(sha256"):
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
    assert known_hash == "sha256:" + catalogue.UCI["sonar"].files[0].sha256


# ---------------------------------------------------------------- sets that are no single table
@pytest.fixture
def publish(monkeypatch, tmp_path):
    """publish(attribute, files, contents) writes tiny files and makes the catalogue expect them."""
    monkeypatch.setenv("BREGMAT_DATA", str(tmp_path))

    def write(files, contents):
        fresh = []
        for file, content in zip(files, contents, strict=True):
            (tmp_path / file.name).write_bytes(content)
            fresh.append(dataclasses.replace(file, sha256=hashlib.sha256(content).hexdigest()))
        return tuple(fresh)

    return write


def _idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


def test_mnist_images_are_read_row_by_row(monkeypatch, publish, rng):
    parts = {}
    for part, n in (("train", 7), ("test", 3)):
        images, labels = rng.integers(0, 256, (n, 28, 28)), rng.integers(0, 10, n)
        monkeypatch.setitem(catalogue.MNIST, part, publish(catalogue.MNIST[part], [_idx(images), _idx(labels)]))
        parts[part] = (images, labels)
    for part, data in zip(parts, load_mnist()):
        images, labels = parts[part]
        assert np.array_equal(data.X, images.reshape(len(images), 784)) and data.X.dtype == np.float32
        assert data.y.tolist() == labels.tolist() and data.name == f"mnist-{part}"
        assert data.feature_names[29] == "pixel1_1" and len(data.feature_names) == 784


def test_idx_file_that_is_cut_short_is_refused(monkeypatch, publish):
    images = gzip.compress(gzip.decompress(_idx(np.zeros((2, 28, 28))))[:-1])
    monkeypatch.setitem(catalogue.MNIST, "train", publish(catalogue.MNIST["train"], [images, _idx(np.zeros(2))]))
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz: not an IDX file of bytes, or cut short"):
        load_mnist()


def test_stars_mark_the_training_half_of_sonar(monkeypatch, publish):
    from bregmat_papers.datasets import parts

    numbers = " ".join(["0.5"] * 60)
    rocks = f"header\n*CR001:\n{{{numbers}}}\nCR002:\n{{{numbers}}}\n".encode()
    mines = f"*CM001:\n{{{numbers}}}\n*CM002:\n{{{numbers}}}\n".encode()
    monkeypatch.setattr(parts, "SONAR_SPLIT", publish(catalogue.SONAR_SPLIT, [rocks, mines]))
    train, test = load_sonar_split()
    assert train.X.shape == (3, 60) and test.X.shape == (1, 60)
    assert train.y.tolist() == [1, 0, 0] and test.y.tolist() == [1]
    assert train.target_names == ("M", "R")


def test_sonar_split_is_the_whole_set(data_home):
    whole, (train, test) = load_dataset("sonar", data_dir=data_home), load_sonar_split(data_dir=data_home)
    rows = np.column_stack([np.vstack([train.X, test.X]), np.concatenate([train.y, test.y])])
    assert len(train.X) == len(test.X) == 104
    assert set(map(tuple, rows)) == set(map(tuple, np.column_stack([whole.X, whole.y])))


def test_first_clean_sequence_of_each_named_species(monkeypatch, publish):
    text = """>1 Mycobacterium avium strain a
ACGN
>2 Mycobacterium avium strain b
ACGT
AC
>3 Mycobacterium avium strain c
AAAA
>4 Mycobacterium sp. x
CCCC
>5 Mycobacterium copy
ACGTAC
>6 Mycobacterium bovis
GGGG
>7 Nocardia dubia
TTTT
"""
    packed, plain = groel2.GROEL2
    monkeypatch.setattr(groel2, "GROEL2", (*publish([packed], [gzip.compress(text.encode())]), plain))
    genes = load_groel2({"Mycobacterium": 2, "Nocardia": 1})
    assert genes.sequences == ("ACGTAC", "GGGG", "TTTT")
    assert genes.species == ("Mycobacterium avium", "Mycobacterium bovis", "Nocardia dubia")
    assert genes.y.tolist() == [0, 0, 1] and "groel2" in repr(genes)
    with pytest.raises(ValueError, match=r"sizes=.*fewer species: Nocardia 1 of 2"):
        load_groel2({"Nocardia": 2})


def test_published_plain_file_does(monkeypatch, publish):
    packed, plain = groel2.GROEL2
    monkeypatch.setattr(groel2, "GROEL2", (packed, *publish([plain], [b">1 Nocardia dubia\nTTTT\n"])))
    assert load_groel2({"Nocardia": 1}).sequences == ("TTTT",)


def test_failed_download_names_the_address(monkeypatch):
    import pooch

    def retrieve(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(DataNotFoundError, match=r"https://.*sonar\.rocks cannot be fetched: no route"):
        load_sonar_split(download=True)


@pytest.mark.parametrize("load", [load_mnist, load_sonar_split, load_groel2])
def test_absent_files_are_named(load):
    with pytest.raises(DataNotFoundError, match=r"needs .*, and BREGMAT_DATA is not set.*download=True"):
        load()


@pytest.mark.slow
def test_sentences():
    data = load_sentences(20)
    n = len(data.texts)
    assert 1000 < n == len(set(data.texts)) and data.X.shape == (n, 20) and len(data.topics) == 20
    assert np.allclose(np.linalg.norm(data.X, axis=1), 1.0)
    assert np.bincount(data.y, minlength=20).min() >= 20  # ten to label, and others to test on
    assert np.array_equal(data.X, load_sentences(20).X)
