"""Model files: exact round trips, and nothing but `ModelFileError` or the same data from a damaged file."""

import hashlib
import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import fuzz_files
from bregmat import MetricLearner
from bregmat.io import ModelFileError, atomic_write, check_writable, load, models, read_manifest, save


class Toy:
    """A savable object with every kind of plain value and array."""

    def __init__(self, meta, arrays):
        self.meta, self.arrays = meta, arrays

    def to_state(self):
        return self.meta, self.arrays

    @classmethod
    def from_state(cls, meta, arrays):
        meta["needed"]
        return cls(meta, arrays)


META = {
    "needed": True,
    "slack_weight": float("inf"),
    "nothing": None,
    "percentiles": (5, 95),
    "nested": {"list": [1, 2.5, "three", (float("-inf"), ())], "empty": {}},
    "pi": 3.141592653589793,
    "text": 'Gewürz, 葡萄酒\n"quoted"',
}


@pytest.fixture(autouse=True)
def toy_is_savable(monkeypatch):
    monkeypatch.setitem(models.SAVABLE, "Toy", Toy.__module__)


@pytest.fixture
def arrays(rng):
    return {
        "components": rng.standard_normal((3, 4)),
        "fortran": np.asfortranarray(rng.standard_normal((4, 3))),
        "float32": rng.standard_normal(7).astype(np.float32),
        "codes": np.array([[-1, 0], [1, 2]], dtype=np.int8),
        "empty": np.zeros((0, 4)),
        "scalar": np.array(2.5),
        "special": np.array([np.inf, -np.inf, np.nan, -0.0]),
        "names": np.array(["alcohol", "Säure", ""]),
        "flags": np.array([True, False]),
    }


@pytest.fixture
def model(tmp_path, arrays):
    path = tmp_path / "toy.bm"
    save(path, Toy(META, arrays), info={"features": ["a", "b"]})
    return path


def assert_same(obj, arrays):
    assert type(obj) is Toy
    assert obj.meta == META
    assert list(obj.arrays) == list(arrays)
    for key, expected in arrays.items():
        got = obj.arrays[key]
        assert got.dtype == expected.dtype and got.shape == expected.shape
        assert got.tobytes() == expected.tobytes()


def rewrite(path, change, *, comment=True):
    """Write the zip again with `change(members)` applied; the manifest's digest is brought up to date."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        old_comment = archive.comment
    members = change(members) or members
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = models._comment(members.get("manifest.json", b"")) if comment else old_comment


def edit_manifest(**changes):
    def change(members):
        manifest = json.loads(members["manifest.json"]) | changes
        members["manifest.json"] = json.dumps(manifest).encode()

    return change


# ---------------------------------------------------------------- round trips


def test_round_trip(model, arrays):
    obj = load(model)
    assert_same(obj, arrays)
    assert obj.arrays["fortran"].flags.f_contiguous
    assert type(obj.meta["percentiles"]) is tuple
    obj.arrays["components"][0, 0] = 1.0  # owned and writable


def test_members_are_stored_npy_that_numpy_reads(model, arrays):
    with zipfile.ZipFile(model) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        with archive.open("arrays/components.npy") as stream:
            assert np.array_equal(np.load(stream, allow_pickle=False), arrays["components"])


def test_same_object_gives_the_same_bytes(model, tmp_path, arrays):
    again = tmp_path / "again.bm"
    save(again, Toy(META, arrays), info={"features": ["a", "b"]})
    assert again.read_bytes() == model.read_bytes()


def test_manifest_without_arrays(model, arrays):
    manifest = read_manifest(model)
    assert manifest["class"] == "Toy" and manifest["format_version"] == 1
    assert manifest["info"] == {"features": ["a", "b"]}
    assert manifest["state"] == META
    assert manifest["arrays"]["components"]["shape"] == [3, 4]
    npy = zipfile.ZipFile(model).read("arrays/components.npy")
    assert manifest["arrays"]["components"]["sha256"] == hashlib.sha256(npy).hexdigest()


def test_numpy_scalars_become_plain(tmp_path):
    save(tmp_path / "m", Toy({"needed": np.int64(3), "x": np.float64("inf"), "b": np.bool_(True)}, {}))
    assert load(tmp_path / "m").meta == {"needed": 3, "x": float("inf"), "b": True}


def test_object_array_of_strings_is_saved_as_strings(tmp_path):
    save(tmp_path / "m", Toy({"needed": 1}, {"names": np.array(["a", "bcd"], dtype=object)}))
    assert load(tmp_path / "m").arrays["names"].tolist() == ["a", "bcd"]


@pytest.mark.parametrize(
    ("meta", "arrays", "message"),
    [
        ({"f": print}, {}, "state.f is a builtin_function_or_method"),
        ({"a": [1, {2}]}, {}, r"state.a\[1\] is a set"),
        ({"$x": 1}, {}, "key '\\$x'"),
        ({}, {"a": np.array([1, None])}, "array 'a' has dtype object"),
        ({}, {"../a": np.zeros(1)}, "array name '../a'"),
    ],
)
def test_what_cannot_be_saved(tmp_path, meta, arrays, message):
    with pytest.raises(TypeError, match=message):
        save(tmp_path / "m", Toy(meta, arrays))
    assert list(tmp_path.iterdir()) == []


def test_only_known_classes_are_saved(tmp_path):
    with pytest.raises(TypeError, match=r"cannot save a builtins\.dict"):
        save(tmp_path / "m", {})
    with pytest.raises(TypeError, match=r"cannot save a builtins\.str \(save\(path, model\): the file comes first\)"):
        save({}, str(tmp_path / "m"))
    with pytest.raises(TypeError, match=r"Pipeline \(of a pipeline, save the step: pipeline\['metriclearner'\]"):
        save(tmp_path / "m", make_pipeline(MetricLearner()))
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- damaged files


def outcome(path):
    """The loaded object, or None for `ModelFileError`; any other error fails the test."""
    try:
        return load(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return None


def test_every_truncation(model):
    data = model.read_bytes()
    for size in range(0, len(data), 7):
        model.write_bytes(data[:size])
        assert outcome(model) is None, size


def test_flipped_bytes(model, arrays, rng):
    """Every fifth byte, and every one of the last thousand, where the zip keeps its records."""
    data = model.read_bytes()
    refused = 0
    positions = sorted({*range(0, len(data), 5), *range(len(data) - 1000, len(data))})
    for position in positions:
        damaged = bytearray(data)
        damaged[position] ^= int(rng.integers(1, 256))
        model.write_bytes(damaged)
        obj = outcome(model)
        if obj is None:
            refused += 1
        else:
            assert_same(obj, arrays)
    assert refused > 0.8 * len(positions)  # what is left are dates and attributes of the zip


def test_flipped_blocks_and_insertions(model, arrays, rng):
    data = model.read_bytes()
    for _ in range(300):
        start, size = int(rng.integers(len(data))), int(rng.integers(1, 200))
        noise = rng.bytes(size)
        kind = rng.integers(3)
        if kind == 0:
            damaged = data[:start] + noise + data[start + size :]
        elif kind == 1:
            damaged = data[:start] + noise + data[start:]
        else:
            damaged = data[:start] + data[start + size :]
        model.write_bytes(damaged)
        obj = outcome(model)
        if obj is not None:
            assert_same(obj, arrays)


def test_swapped_arrays(model):
    def swap(members):
        a, b = "arrays/components.npy", "arrays/fortran.npy"
        members[a], members[b] = members[b], members[a]

    rewrite(model, swap)
    with pytest.raises(ModelFileError, match="array 'components' was altered: its sha256"):
        load(model)


def test_altered_state(model):
    rewrite(model, edit_manifest(state={"needed": False}), comment=False)
    with pytest.raises(ModelFileError, match=r"manifest\.json was altered"):
        load(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("arrays/codes.npy") and None, "members are missing: arrays/codes.npy"),
        (lambda m: m.pop("manifest.json") and None, "no manifest.json: not a bregmat model"),
        (lambda m: m.update({"../evil.npy": b"x"}), r"unexpected member '\.\./evil\.npy'"),
        (lambda m: m.update({"/etc/passwd": b"x"}), "unexpected member"),
        (lambda m: m.update({"arrays/../../evil.npy": b"x"}), "unexpected member"),
        (lambda m: m.update({"arrays/more.npy": b"x"}), "the manifest does not name: arrays/more.npy"),
        (lambda m: m.update({"manifest.json": b"{"}), "manifest.json cannot be read"),
        (lambda m: m.update({"manifest.json": b"[" * 100_000}), "manifest.json cannot be read"),
        (lambda m: m.update({"manifest.json": b"[]"}), "not a bregmat model"),
        (edit_manifest(format="other"), "not a bregmat model"),
        (edit_manifest(format_version=2, bregmat="9.9"), "format 2 by bregmat 9.9.*Update bregmat"),
        (edit_manifest(format_version="1"), "format_version='1'"),
        (
            edit_manifest(**{"class": "Popen"}),
            "unknown class .Popen.; this bregmat knows BoostResult, CorrelationResult, CutResult, Distri",
        ),
        (edit_manifest(**{"class": ["Toy"]}), "unknown class"),
        (edit_manifest(state=[]), "lacks info, state or arrays"),
        (edit_manifest(state={}), "state of this Toy is not complete"),
        (edit_manifest(state={"x": {"$float": "three"}}), "state of manifest.json cannot be read"),
        (edit_manifest(arrays={}), "the manifest does not name"),
    ],
)
def test_wrong_content(model, change, message):
    rewrite(model, change)
    with pytest.raises(ModelFileError, match=message):
        load(model)


def replace_array(key, npy):
    """Members with a crafted array whose sha256 is right."""

    def change(members):
        manifest = json.loads(members["manifest.json"])
        manifest["arrays"][key]["sha256"] = hashlib.sha256(npy).hexdigest()
        members["manifest.json"] = json.dumps(manifest).encode()
        members[f"arrays/{key}.npy"] = npy

    return change


def crafted_npy(header, payload=b"\0" * 32):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + payload


@pytest.mark.parametrize(
    "npy",
    [
        crafted_npy("{'descr': '|O', 'fortran_order': False, 'shape': (4,), }\n"),
        crafted_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }\n"),
        crafted_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n"),
        crafted_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }\n"),
        crafted_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-4,), }\n"),
        crafted_npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }\n"),
        crafted_npy("__import__('os').abort()\n"),
        b"\x93NUMPY\x07\x00" + b"\0" * 100,
        b"not an array",
        b"",
    ],
)
def test_crafted_arrays(model, npy):
    rewrite(model, replace_array("codes", npy))
    with pytest.raises(ModelFileError, match="array 'codes'"):
        load(model)


def test_compressed_member(model):
    with zipfile.ZipFile(model, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arrays/bomb.npy", b"\0" * 10**6)
    with pytest.raises(ModelFileError, match=r"'arrays/bomb\.npy' is compressed or encrypted"):
        load(model)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_member_twice(model):
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("arrays/codes.npy", b"")
    with pytest.raises(ModelFileError, match="occurs twice"):
        load(model)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04K\x01.", b"PK\x05\x06" + b"\0" * 18, b"\0" * 10_000])
def test_not_a_model(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        load(path)


def test_absent_file_stays_a_file_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.bm")


def test_damaged_and_hostile_files_and_killed_saves():
    """The short form of `make fuzz`."""
    script = Path(__file__).with_name("fuzz_files.py")
    command = [sys.executable, str(script), "--cases", "300", "--kills", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.endswith(" 0 wrong\n"), done.stdout + done.stderr


def test_members_that_overlap(tmp_path):
    """Each is as large as the file and no larger: together they would take gigabytes."""
    path = tmp_path / "m"
    path.write_bytes(fuzz_files.overlapping(2**12, 100))
    with pytest.raises(ModelFileError, match="members overlap"):
        load(path)


# ---------------------------------------------------------------- output paths


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="halfway"), atomic_write(path) as handle:
        handle.write(b"new, but")
        raise RuntimeError("halfway")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_goes_at_the_next_write(tmp_path):
    left, mine = tmp_path / ".model.0123456789ab.bregmat-tmp", tmp_path / ".other.tmp"
    for path in (left, mine):
        path.write_bytes(b"half")
    with atomic_write(tmp_path / "first") as first, atomic_write(tmp_path / "second") as second:
        assert not left.exists() and mine.exists()
        first.write(b"1")  # the file of one that lives is not taken away
        second.write(b"2")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path != mine} == {
        "first": b"1",
        "second": b"2",
    }


def test_write_keeps_mode_and_follows_links(tmp_path):
    path, link = tmp_path / "model", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with atomic_write(link) as handle:
        handle.write(b"new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_check_writable(tmp_path, monkeypatch):
    assert check_writable(tmp_path / "a") == (tmp_path / "a").resolve()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"cannot write '.*b/a': the folder '.*b' does not exist"):
        check_writable(tmp_path / "b" / "a")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is no folder"):
        check_writable(tmp_path / "file" / "a")
    with pytest.raises(OSError, match="not a regular file"):
        check_writable(os.devnull)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # chmod does not stop root
    with pytest.raises(PermissionError, match="the file is read-only"):
        check_writable(tmp_path / "file")

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match=r"cannot write '.*new': Permission denied"):
        check_writable(tmp_path / "new")
