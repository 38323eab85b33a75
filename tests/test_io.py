"""Model files: exact round trips, and nothing but `ModelFileError` or the same data from a damaged file."""

import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

import bregmat
import fuzz_files
from bregmat import (
    Constraints,
    CyclicProjection,
    Factor,
    MatrixExponentiatedGradient,
    MetricLearner,
    QPResult,
    Record,
    Result,
    SquaredHinge,
    Status,
    VonNeumann,
    nearest_metric,
    nnqp,
)
from bregmat.io import (
    ModelFileError,
    atomic_write,
    check_writable,
    load,
    open_constraints,
    open_points,
    read_constraints,
    read_manifest,
    read_points,
    save,
)
from bregmat.margin import ActiveSet


@dataclass(eq=False)
class Toy:
    """A savable object with every kind of plain value and array."""

    meta: dict
    arrays: dict


TRACE = next(relation for relation in Constraints.trace(1.0).relations if relation.name == "trace")
META = {
    "slack_weight": float("inf"),
    "nothing": None,
    "percentiles": (5, 95),
    "nested": {"list": [1, 2.5, "three", (float("-inf"), ())], "empty": {}},
    "pi": 3.141592653589793,
    "text": 'Gewürz, 葡萄酒\n"quoted"',
    "weights": {1: 2.0, "$x": 3.0, (1, "a"): None},
    "terms": (Status.OPTIMAL, VonNeumann(), SquaredHinge(), TRACE, ActiveSet(cache_mb=7)),
    "history": [Record(0, 0.5, 1.0, -2.0, float("inf"), 0.0), Record(1, 1.5, 1.0, 1.0, 0.0, 0.0, 2)],
}


@pytest.fixture(autouse=True)
def toy_is_savable(savable_here):
    savable_here(Toy)


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
        "objects": np.array([["a", 1], [None, ("b", 2.5)]], dtype=object),
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
        assert got.tolist() == expected.tolist() if got.dtype == object else got.tobytes() == expected.tobytes()


def rewrite(path, change, *, comment=True):
    """Write the zip again with `change(members)` applied; the manifest's digest is brought up to date."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        old_comment = archive.comment
    members = change(members) or members
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        digest = hashlib.sha256(members.get("manifest.json", b"")).hexdigest()
        archive.comment = f"sha256:{digest}".encode() if comment else old_comment


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
        with archive.open("arrays/arrays.components.npy") as stream:
            assert np.array_equal(np.load(stream, allow_pickle=False), arrays["components"])


def test_same_object_gives_the_same_bytes(model, tmp_path, arrays):
    again = tmp_path / "again.bm"
    save(again, Toy(META, arrays), info={"features": ["a", "b"]})
    assert again.read_bytes() == model.read_bytes()


def test_manifest_without_arrays(model, arrays):
    manifest = read_manifest(model)
    assert manifest["class"] == "Toy" and manifest["format_version"] == 3
    assert manifest["info"] == {"features": ["a", "b"]}
    assert manifest["state"]["meta"]["pi"] == META["pi"]
    assert manifest["state"]["arrays"]["components"] == {"$array": "arrays.components"}
    assert manifest["arrays"]["arrays.components"]["shape"] == [3, 4]
    npy = zipfile.ZipFile(model).read("arrays/arrays.components.npy")
    assert manifest["arrays"]["arrays.components"]["sha256"] == hashlib.sha256(npy).hexdigest()


def test_numpy_scalars_become_plain(tmp_path):
    save(tmp_path / "m", Toy({"n": np.int64(3), "x": np.float64("inf"), "b": np.bool_(True)}, {}))
    assert load(tmp_path / "m").meta == {"n": 3, "x": float("inf"), "b": True}


def test_sparse_arrays(tmp_path):
    sparse = sp.csr_array(np.array([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]]))
    save(tmp_path / "m", Toy({}, {"sparse": sparse, "columns": sparse.tocsc()}))
    back = load(tmp_path / "m").arrays
    for name in ("sparse", "columns"):
        assert back[name].format == "csr" and (back[name].toarray() == sparse.toarray()).all()


@pytest.mark.parametrize("name", ["model.bm", "points.csv", "points.npy", "rows.parquet"])
def test_a_pipe_is_refused_and_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    reads = {"model.bm": [load, read_manifest], "points.csv": [read_points, read_constraints]}
    reads |= {"points.npy": [read_points, open_points], "rows.parquet": [read_constraints, open_constraints]}
    for read in reads[name]:
        with pytest.raises(OSError, match=f"{name}'?: it is not a regular file"):
            found = read(tmp_path / name)
            found.shards(100)  # which looks at the files


def test_what_occurs_twice_is_written_once(tmp_path):
    array, part = np.arange(3.0), Toy({}, {})
    save(tmp_path / "m", Toy({"one": part, "two": part}, {"a": array, "b": array, "c": array.copy()}))
    back = load(tmp_path / "m")
    assert back.meta["one"] is back.meta["two"] is not back
    assert back.arrays["a"] is back.arrays["b"] is not back.arrays["c"]
    assert list(read_manifest(tmp_path / "m")["arrays"]) == ["arrays.a", "arrays.c"]


def test_nested_to_itself(tmp_path):
    toy = Toy({}, {})
    toy.meta["self"] = toy
    with pytest.raises(TypeError, match="nested more than 50 deep"):
        save(tmp_path / "m", toy)


@pytest.mark.parametrize(
    ("meta", "arrays", "message"),
    [
        ({"f": print}, {}, "state.meta.f is a function, which cannot be saved: files hold no code"),
        ({"a": [1, {2}]}, {}, r"state.meta.a\[1\] is a builtins.set"),
        ({"a": fuzz_files.Fuzz}, {}, "state.meta.a is a function"),
        ({"a": Path()}, {}, "state.meta.a is a pathlib.PosixPath, which cannot be saved"),
        ({}, {"a": np.array([1, {2}])}, r"state.arrays.a\[1\] is a builtins.set"),
        ({}, {"a": np.zeros(1, "M8[s]")}, "state.arrays.a has dtype datetime64"),
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


IN_A_FRESH_PROCESS = {
    "divergence and loss": lambda: bregmat.nearest_kernel(
        np.eye(2), Constraints.diagonal([1.0, 2.0]), divergence="vonneumann", loss="squared_hinge", slack_weight=1.0
    ),
    "distribution": lambda: bregmat.nearest_distribution([0.5, 0.5], [[1.0, 0.0]], [0.3], "<="),
    "correlation": lambda: bregmat.nearest_correlation(np.array([[1.0, 2.0], [2.0, 1.0]])),
    "solver": lambda: MetricLearner(solver=CyclicProjection(), strategy="random").fit(np.eye(4), [0, 0, 1, 1]),
    "relation": lambda: bregmat.nearest_metric(np.eye(2), Constraints.trace(1.0), divergence="frobenius"),
}


@pytest.mark.parametrize("name", IN_A_FRESH_PROCESS)
def test_a_process_that_imported_nothing_else_reads_a_file(name, tmp_path):
    model = IN_A_FRESH_PROCESS[name]()
    save(tmp_path / "m.bm", model)
    reading = [sys.executable, "-c", "import bregmat; print(bregmat.load('m.bm'))"]
    done = subprocess.run(reading, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and type(model).__name__ in done.stdout, done.stderr


# ---------------------------------------------------------------- damaged files


def outcome(path):
    """The loaded object, or None for `ModelFileError`; any other error fails the test."""
    try:
        return load(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return None


@pytest.mark.slow
def test_every_truncation(model):
    data = model.read_bytes()
    for size in range(0, len(data), 7):
        model.write_bytes(data[:size])
        assert outcome(model) is None, size


@pytest.mark.slow
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


@pytest.mark.slow
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
        a, b = "arrays/arrays.components.npy", "arrays/arrays.fortran.npy"
        members[a], members[b] = members[b], members[a]

    rewrite(model, swap)
    with pytest.raises(ModelFileError, match=r"array 'arrays\.components' was altered: its sha256"):
        load(model)


def test_altered_state(model):
    rewrite(model, edit_manifest(state={"meta": {}, "arrays": {}}), comment=False)
    with pytest.raises(ModelFileError, match=r"manifest\.json was altered"):
        load(model)


TOY = {"meta": {}, "arrays": {}}
CODES = {"$array": "arrays.codes"}
WRONG_STATES = [
    {"$float": "three"},
    {"$tuple": 3},
    {"$items": [[[], 1]]},
    {"$array": "absent"},
    {"$same": 0},
    {"$same": -1},
    {"$unknown": 1},
    {"$class": "Popen"},
    {"$class": ["Toy"]},
    {"$class": "Span"},
    {"$class": "Span", "basis": CODES, "more": 1},
    {"$class": "Unknown"},
    {"$enum": ["Status", "FINE"]},
    {"$enum": ["Toy", 1]},
    {"$registered": ["divergence", "mine"]},
    {"$registered": ["colour", "red"]},
    {"$registered": ["divergence", "vonneumann"], "more": 1},
    {"$objects": [1, 2], "shape": [3]},
    {"$sparse": [CODES, CODES, CODES], "shape": [10**9, 2]},
    {"$sparse": [CODES, CODES, CODES], "shape": [1, 2]},
    {"$records": CODES},
    {"$kernel_of": {}},
    {"$class": "OnlinePCA", "fit": 1},
    {"$class": "OnlinePCA", "__class__": 1},
    {"$class": "OnlinePCA", "n_features_in_": 10**9, "_Vt": CODES, "_lam": CODES, "_m": 1},
]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("arrays/arrays.codes.npy") and None, "members are missing: arrays/arrays.codes.npy"),
        (lambda m: m.pop("manifest.json") and None, "no manifest.json: not a bregmat model"),
        (
            lambda m: m.update({"../evil.npy": b"x"}),
            r"the manifest does not name, or that occur more than once: '\.\./evil\.npy'",
        ),
        (lambda m: m.update({"/etc/passwd": b"x"}), "the manifest does not name.*/etc/passwd"),
        (lambda m: m.update({"arrays/../../evil.npy": b"x"}), "the manifest does not name.*evil"),
        (lambda m: m.update({"arrays/more.npy": b"x"}), "the manifest does not name.*arrays/more.npy"),
        (lambda m: m.update({"manifest.json": b"{"}), "manifest.json cannot be read"),
        (lambda m: m.update({"manifest.json": b"[" * 100_000}), "manifest.json cannot be read"),
        (lambda m: m.update({"manifest.json": b"[]"}), "not a bregmat model"),
        (edit_manifest(format="other"), "not a bregmat model"),
        (edit_manifest(format_version=4, bregmat="9.9"), "format 4 by bregmat 9.9.*Update bregmat"),
        (edit_manifest(format_version=2, bregmat="0.1"), "format 2 by bregmat 0.1.*Fit and save the model again"),
        (edit_manifest(format_version="3"), "format '3'"),
        (
            edit_manifest(**{"class": "Popen"}),
            "unknown class .Popen.; this bregmat knows BoostResult, ",
        ),
        (edit_manifest(**{"class": ["Toy"]}), "unknown class"),
        (edit_manifest(state=[]), "lacks info, state or arrays"),
        (edit_manifest(state={}), "state of this Toy cannot be restored"),
        (edit_manifest(state=TOY | {"more": 1}), "Toy cannot be restored.*more"),
        *[(edit_manifest(state=TOY | {"meta": bad}), "state of this Toy cannot be restored") for bad in WRONG_STATES],
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
    rewrite(model, replace_array("arrays.codes", npy))
    with pytest.raises(ModelFileError, match=r"array 'arrays\.codes'"):
        load(model)


@pytest.mark.parametrize(
    "record",
    [
        {"shape": [5], "dtype": "<f8"},
        {"shape": [10**15]},
        {"shape": [2**32, 2**32]},
        {"shape": [-2, -2]},
        {"shape": [2.0, 2]},
        {"shape": 4},
        {"shape": [2, 2], "dtype": "|O"},
        {"shape": [4], "dtype": "i1,i1"},
        {"dtype": "__import__('os').abort()"},
        {"dtype": "i4,,"},
        {"dtype": "(1e400,)f8"},
        {"dtype": "<U0"},
        {"dtype": "<S99999999999999999999"},
        {"dtype": ["<f8"]},
        {"dtype": None},
    ],
)
def test_crafted_records_of_arrays(model, record):
    def change(members):
        manifest = json.loads(members["manifest.json"])
        manifest["arrays"]["arrays.codes"] |= record
        members["manifest.json"] = json.dumps(manifest).encode()

    rewrite(model, change)
    with pytest.raises(ModelFileError, match=r"array 'arrays\.codes'"):
        load(model)


def test_compressed_member(model):
    with zipfile.ZipFile(model, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arrays/bomb.npy", b"\0" * 10**6)
    with pytest.raises(ModelFileError, match=r"'arrays/bomb\.npy' is compressed or encrypted"):
        load(model)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_member_twice(model):
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("arrays/arrays.codes.npy", b"")
    with pytest.raises(ModelFileError, match="occur more than once: 'arrays/arrays.codes.npy'"):
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


@pytest.mark.slow
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


# ---------------------------------------------------------------- files that claim more than they hold
def signed(path, change):
    """A model file whose manifest and members were changed by somebody who knows how it is signed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(manifest, members)
    for key, record in manifest["arrays"].items():
        record["sha256"] = hashlib.sha256(members[f"arrays/{key}.npy"]).hexdigest()
    text = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"manifest.json": text}).items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()


def header(kind, shape):
    """A .npy file without entries, or of entries without bytes, that claims a shape."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def check_is_refused_at_once(path, limit=2**26):
    """A ModelFileError that took neither time nor memory."""
    tracemalloc.start()
    try:
        start = time.perf_counter()
        with pytest.raises(ModelFileError):
            load(path)
        assert time.perf_counter() - start < 5  # seconds; it takes milliseconds
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [10**9, 10**18])
@pytest.mark.parametrize(("kind", "more"), [("<f8", (0,)), ("<f8", (3, 0)), ("<U0", ()), ("|S0", (10,))])
@pytest.mark.parametrize("model", ["learner", "program"])
def test_arrays_that_claim_a_shape_without_bytes_are_refused(model, kind, more, size, tmp_path, rng):
    X = rng.normal(size=(20, 3))
    obj = MetricLearner(random_state=0).fit(X, X[:, 0] > 0) if model == "learner" else nnqp(np.eye(3), -np.ones(3))
    save(tmp_path / "good", obj)
    for key in read_manifest(tmp_path / "good")["arrays"]:
        path = tmp_path / "model"
        path.write_bytes((tmp_path / "good").read_bytes())

        def claim(manifest, members, key=key):
            members[f"arrays/{key}.npy"] = header(kind, (size, *more))
            manifest["arrays"][key] |= {"shape": (size, *more), "dtype": kind}

        signed(path, claim)
        check_is_refused_at_once(path)


@pytest.mark.parametrize("size", [10**9, 10**18])
def test_a_sparse_map_that_claims_a_size_is_refused(size, tmp_path, rng):
    prior = Factor(sp.csr_array(np.eye(4, 2)))
    rows = Constraints.sq_distance(0, 1, 1.0, "<=")
    save(tmp_path / "metric", nearest_metric(rng.normal(size=(5, 4)), rows, prior=prior))
    load(tmp_path / "metric")

    def claim_rows(manifest, members):
        manifest["state"]["coordinates"]["R"]["shape"][0] = size

    signed(tmp_path / "metric", claim_rows)
    check_is_refused_at_once(tmp_path / "metric")


@pytest.mark.parametrize("key", ["_state.H", "_state.totals", "_state.tally.table"])
def test_an_online_learner_with_arrays_of_other_sizes_is_refused(key, tmp_path):
    """Compiled loops trust these sizes."""
    save(tmp_path / "online", MatrixExponentiatedGradient(4).partial_fit([[0, 1]], [0.2]))

    def shorten(manifest, members):
        array = np.load(io.BytesIO(members[f"arrays/{key}.npy"]))
        stream = io.BytesIO()
        np.save(stream, array[:-1])
        manifest["arrays"][key]["shape"] = array[:-1].shape
        members[f"arrays/{key}.npy"] = stream.getvalue()

    signed(tmp_path / "online", shorten)
    check_is_refused_at_once(tmp_path / "online")


def nested(depth):
    value = 0
    for k in range(depth):
        value = [value] if k % 2 else {"inner": value}
    return value


@pytest.mark.parametrize("depth", [60, 300, 600, 5000, 200_000])
@pytest.mark.parametrize("where", ["info", "state"])
def test_a_signed_manifest_that_is_nested_deep_is_refused(where, depth, tmp_path):
    path = tmp_path / "model"
    save(path, nnqp(np.eye(3), -np.ones(3)))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members.pop("manifest.json").decode()
    deep = '{"inner":[' * (depth // 2) + "0" + "]}" * (depth // 2)
    text = text.replace(
        f'"{where}": {{', f'"{where}": {{"more": {deep}' + ("" if where == "info" else ", "), 1
    ).encode()
    assert depth > 500 or json.loads(text)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"manifest.json": text}).items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
    for read in (load, read_manifest):
        with pytest.raises(ModelFileError, match="nested|cannot be read"):
            read(path)


def test_what_is_saved_is_not_nested_deeper_than_what_is_read(tmp_path):
    """``info`` is the caller's own: what could not be read is refused when it is saved."""
    result = nnqp(np.eye(3), -np.ones(3))
    save(tmp_path / "model", result, info={"mine": nested(40)})
    assert read_manifest(tmp_path / "model")["info"] == {"mine": nested(40)}
    endless = []
    endless.append(endless)
    for info in (nested(60), nested(5000), endless):
        with pytest.raises(TypeError, match="nested more than 50 deep"):
            save(tmp_path / "model", result, info={"mine": info})


def test_load_refuses_another_class_than_the_expected_one(tmp_path):
    path = tmp_path / "program.bm"
    save(path, nnqp([[2.0]], [-1.0]))
    assert load(path, QPResult).x[0] == load(path, Result).x[0] == 0.5
    with pytest.raises(ModelFileError, match="program.bm contains a QPResult, not a MetricLearner"):
        load(path, MetricLearner)
    with pytest.raises(TypeError, match="kind must be a class, such as MetricLearner; got .MetricLearner."):
        load(path, "MetricLearner")
