"""Damaged and hostile files of every kind, and saves that are killed: `make fuzz`; the tests run a short form.

    python tests/fuzz_files.py --cases 10000 --kills 50 --seed 0

A damaged model loads as what was saved, to the same bytes, or raises ModelFileError. One that was altered and signed again loads as
something, or raises ModelFileError. Tables are read, or raise ValueError. Anything else is wrong: another error, a warning,
a file beside those that were there, more memory than the limit, five seconds.
"""

import argparse
import functools
import hashlib
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

import bregmat
from bregmat.io import ModelFileError, load, read_constraints, read_points, save

MEMORY = 6 * 2**30  # bytes of address space; interpreter, NumPy and pyarrow map about two of them
SECONDS = 5
WORDS = [
    "nan",
    "-inf",
    "1e999",
    "",
    " ",
    "9" * 400,
    "0x10",
    "1,5",
    '"',
    "\0",
    "\r",
    "true",
    "None",
    "é",
    "\ufeff",
    "a" * 200_000,
    "-1",
    "1e308",
    "2.5",
]
VALUES = [
    None,
    True,
    -1,
    0,
    10**9,
    10**30,
    1e308,
    "",
    "x",
    [],
    {},
    [[]],
    {"$float": "nan"},
    {"$tuple": [1]},
    {"$float": []},
    {"$tuple": 3},
    {"a": {}},
    {"$same": 0},
    {"$array": "x"},
    {"$class": "OnlinePCA"},
    {"$class": "Span", "basis": {"$same": 0}},
    {"$registered": ["divergence", "logdet"]},
    {"$kernel_of": {"$same": 1}},
    {"$items": [[[1], 2]]},
    functools.reduce(lambda inner, _: [inner], range(400), 0),
]


# ---------------------------------------------------------------- good files
def models():
    """A small model of every kind that trains quickly, by name."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 3)), np.arange(24) % 2
    rows = bregmat.Constraints.sq_distance([0, 1, 2], [3, 4, 5], [1.0, 2.0, 3.0], ["<=", ">=", "=="])
    stream = bregmat.MatrixExponentiatedGradient(5, instances="pairs").partial_fit([[0, 1], [2, 3]], [0.3, 0.2])
    seen = bregmat.MatrixExponentiatedGradient(3, instances="matrices")
    return {
        "matrices": seen.partial_fit([np.diag([1.0, 0.0, 0.0]), np.ones((3, 3)) / 3], [0.3, 0.2]),
        "PairsLearner": bregmat.pairs.PairsLearner(preprocessor=X).fit([[0, 1], [2, 3], [4, 5]], [1, -1, 1]),
        "low rank": bregmat.KernelLearner(rank=4, random_state=0).fit(X, y),
        "MatrixResult": bregmat.nearest_metric(X, rows, slack_weight=1.0),
        "MetricLearner": bregmat.MetricLearner(random_state=0).fit(X, y),
        "KernelLearner": bregmat.KernelLearner(random_state=0).fit(X, y),
        "KernelKMeans": bregmat.KernelKMeans(2, kernel="rbf", random_state=0).fit(X),
        "MarginSVC": bregmat.MarginSVC(random_state=0).fit(X, y),
        "OnlinePCA": bregmat.OnlinePCA(2).fit(X),
        "OnlineLogDet": bregmat.OnlineLogDet(differences=True).fit(X, y),
        "MatrixExponentiatedGradient": stream,
        "QPResult": bregmat.nnqp(np.eye(3), -np.ones(3)),
        "CorrelationResult": bregmat.nearest_correlation(
            np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
        ),
    }


def tables(folder):
    """Good tables: path -> the function that reads it."""
    rng = np.random.default_rng(1)
    X, names = rng.normal(size=(40, 3)), ["one", "two", "three"]
    rows = bregmat.Constraints.sq_distance(np.arange(9), np.arange(9) + 1, np.linspace(1, 2, 9), "<=")
    readers = {}
    for kind in (".csv", ".parquet", ".tsv", ".csv.gz"):
        path = folder / f"points{kind}"
        bregmat.io.write_points(path, X, names=names, columns={"label": np.array(["a", "b"] * 20)})
        readers[path] = functools.partial(read_points, missing="median") if kind == ".tsv" else read_points
        if kind not in (".csv", ".parquet"):
            continue
        path = folder / f"constraints{kind}"
        bregmat.io.write_constraints(path, rows)
        readers[path] = read_constraints
    path = folder / "points.npy"
    np.save(path, X)
    readers[path] = lambda path: np.array(read_points(path).X)
    return readers


# ---------------------------------------------------------------- bad files
def damaged(data, rnd, others):
    """The bytes of a file after an accident, or after a bad will without insight."""
    data, size = bytearray(data), len(data)
    at, length = rnd.randrange(size), min(1 + int(rnd.expovariate(0.05)), size)
    kind = rnd.randrange(9)
    if kind == 0:
        for _ in range(rnd.randint(1, 4)):
            data[rnd.randrange(size)] ^= 1 << rnd.randrange(8)
    elif kind == 1:
        return bytes(data[:at])
    elif kind == 2:
        data[at : at + length] = rnd.randbytes(length)
    elif kind == 3:
        data[at:at] = rnd.randbytes(length)
    elif kind == 4:
        del data[at : at + length]
    elif kind == 5:
        data[at : at + length] = bytes([rnd.choice((0, 255))]) * min(length, size - at)
    elif kind == 6:
        data[at:at] = data[at : at + length] * rnd.randint(1, 50)
    elif kind == 7:
        other = rnd.choice(others)
        return bytes(data[:at]) + other[rnd.randrange(len(other)) :]
    else:  # the end, where zip and parquet keep their directories
        tail = max(0, size - rnd.randint(1, 400))
        data[tail] = rnd.randrange(256)
    return bytes(data)


def worded(data, rnd):
    """A table of text in which some cells are others, lines are missing or doubled, or cells are."""
    lines = data.decode().split("\n")
    for _ in range(rnd.randint(1, 3)):
        k = rnd.randrange(len(lines))
        cells = lines[k].split(",")
        kind, j = rnd.randrange(6), rnd.randrange(len(cells))
        if kind <= 2:
            cells[j] = rnd.choice(WORDS)
        elif kind == 3:
            cells.insert(j, cells[j])
        elif kind == 4:
            del cells[j]
        else:
            lines.insert(rnd.randrange(len(lines)), lines[k])
        lines[k] = rnd.choice((",", ",", ",", ";", "\t")).join(cells)
    return "\n".join(lines).encode()


def signed_again(data, rnd):
    """A model file whose state or arrays somebody changed who knows how it is signed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    for _ in range(rnd.randint(1, 2)):
        arrays = list(manifest["arrays"])
        if arrays and rnd.random() < 0.5:
            key = rnd.choice(arrays)
            member = f"arrays/{key}.npy"
            array = np.load(io.BytesIO(members[member])) if rnd.random() < 0.9 else np.zeros(0)
            stream = io.BytesIO()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.save(stream, changed_array(array, rnd), allow_pickle=False)
            members[member] = stream.getvalue()
            more = rnd.random() < 0.1  # a header that promises more than there is
            if more:
                members[member] = members[member].replace(b"'shape': (", b"'shape': (9", 1)
            manifest["arrays"][key]["sha256"] = hashlib.sha256(members[member]).hexdigest()
            if more:
                break
            if rnd.random() < 0.1:
                del manifest["arrays"][key], members[member]
        else:
            change_inside(manifest["state"], rnd)
    text = json.dumps(manifest).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in (members | {"manifest.json": text}).items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def changed_array(array, rnd):
    """Another shape, another type, or other numbers."""
    kind = rnd.randrange(7)
    if kind == 0:
        return array[..., :-1] if array.ndim else array
    if kind == 1:
        return array.astype(rnd.choice(["f4", "i8", "c16", "U7", "?"])) if array.dtype.kind in "biuf" else array[:0]
    if kind == 2:
        return np.atleast_2d(array).T
    if kind == 3 and array.size and array.dtype.kind in "iuf":
        array = array.copy()
        array.flat[rnd.randrange(array.size)] = rnd.choice([0, 1, 127] if array.dtype.kind == "u" else [0, -1, 100])
        return array
    if kind == 4 and array.dtype.kind == "f":
        return array * rnd.choice([np.nan, 0.0, -1.0])
    return (
        np.zeros(rnd.choice([(), (0,), (3, 0), (2, 2, 2), (10**9, 0)]))
        if kind == 5
        else np.concatenate([np.ravel(array)] * 2)
    )


def change_inside(state, rnd):
    """Replace, drop or rename something, anywhere in a tree of plain values."""
    here = state
    while True:
        keys = list(here) if isinstance(here, dict) else range(len(here))
        if not len(keys):
            return
        key = rnd.choice(keys)
        if isinstance(here[key], dict | list) and rnd.random() < 0.7:
            here = here[key]
            continue
        kind = rnd.randrange(4)
        if kind == 0:
            del here[key]
        elif kind == 1 and isinstance(here, dict):
            here[rnd.choice(["", "self", "__class__", "x" * 5000])] = here.pop(key)
        else:
            here[key] = rnd.choice(VALUES)
        return


def hostile(good):
    """Archives that mean harm: name -> bytes of a file that must be refused."""

    def archive(members, comment=b"", kind=zipfile.ZIP_STORED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", kind) as zipped, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name that occurs twice
            for name, content in members:
                zipped.writestr(name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name), content, kind)
            zipped.comment = comment
        return out.getvalue()

    with zipfile.ZipFile(io.BytesIO(good)) as zipped:
        members = [(name, zipped.read(name)) for name in zipped.namelist()]
        comment = zipped.comment
    link = zipfile.ZipInfo("arrays/link.npy")
    link.external_attr = 0o120777 << 16
    bomb = archive([*members, ("arrays/zeros.npy", bytes(2**27))], comment, zipfile.ZIP_DEFLATED)
    files = {
        "deflated bomb": bomb,
        "bomb in a bomb": archive([("arrays/inner.npy", bomb)], comment, zipfile.ZIP_DEFLATED),
        "bzip2": archive(members, comment, zipfile.ZIP_BZIP2),
        "lzma": archive(members, comment, zipfile.ZIP_LZMA),
        "link": archive([*members, (link, b"/etc/passwd")], comment),
        "twice": archive([*members, members[0]], comment),
        "overlapping members": overlapping(2**20, 2**13),
        "no manifest": archive(members[:-1], comment),
        "deep manifest": archive([("manifest.json", b"[" * 10**6)]),
        "wide manifest": archive([("manifest.json", b'{"format": "bregmat-model", "x": ' + b"9" * 10**6 + b"}")]),
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "empty": b"",
        "end record alone": b"PK\5\6" + bytes(18),
        "millions of members, it says": b"PK\5\6" + b"\0\0\0\0" + b"\xff" * 12 + b"\0\0",
    }
    names = [
        "../evil.npy",
        "/tmp/evil.npy",
        "arrays/../../evil.npy",
        "arrays\\..\\evil.npy",
        "C:/evil.npy",
        "arrays/.npy",
    ]
    names += [
        "arrays/a\0b.npy",
        "arrays/a/b.npy",
        "arrays/" + "a" * 200 + ".npy",
        "arrays/é.npy",
        "manifest.json/",
        "\u202e",
    ]
    return files | {f"member {name!r}": archive([*members, (name, b"x")], comment) for name in names}


def overlapping(size, count):
    """``count`` members that are all the same ``size`` bytes of the file: signed, and each no larger than the file."""
    header = b"\x93NUMPY\1\0" + (118).to_bytes(2, "little")
    content = (
        header
        + f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}".encode().ljust(117)
        + b"\n"
        + bytes(size)
    )
    digest = hashlib.sha256(content).hexdigest()
    record = {"shape": [size], "dtype": "|u1", "sha256": digest}
    manifest = {"format": "bregmat-model", "format_version": 1, "class": "QPResult", "info": {}, "state": {}}
    text = json.dumps(manifest | {"arrays": {f"a{k}": record for k in range(count)}}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("arrays/a0.npy"), content)
        archive.writestr(zipfile.ZipInfo("manifest.json"), text)
        first = archive.infolist()[0]
        for k in range(1, count):
            again = zipfile.ZipInfo(f"arrays/a{k}.npy")
            for name in ("CRC", "compress_size", "file_size", "header_offset", "compress_type", "flag_bits"):
                setattr(again, name, getattr(first, name))
            archive.filelist.append(again)
        archive.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def parquet_bomb(path, rows=40_000_000):
    """A few kilobytes that unpack to more than a gigabyte."""
    import pyarrow
    import pyarrow.parquet

    zeros = pyarrow.table({name: np.zeros(10**6) for name in "abcd"})
    with pyarrow.parquet.ParquetWriter(path, zeros.schema, compression="zstd") as writer:
        for _ in range(rows // 10**6):
            writer.write_table(zeros)


# ---------------------------------------------------------------- the run
class Fuzz:
    """Files written into a folder and read; what came of them, by kind."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.counts, self.wrong = {}, []

    def read(self, kind, path, reader, refusal, same=None):
        """Read a file; ``same`` says whether what was read is what it has to be."""
        before, start, what = set(os.listdir(self.folder)), time.perf_counter(), None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = reader(path)
            what = "read" if same is None or same(found) else "wrong"
            why = "read as something else"
        except refusal as error:
            what, why = ("refused", "") if path.name in str(error) else ("wrong", f"no file in the message: {error}")
        except Exception:  # noqa: BLE001 - that is what is looked for
            what, why = "wrong", traceback.format_exc(limit=-3)
        if (seconds := time.perf_counter() - start) > SECONDS:
            what, why = "wrong", f"{seconds:.1f} s"
        if set(os.listdir(self.folder)) != before:
            what, why = "wrong", "files appeared"
        self.counts.setdefault(kind, Counter())[what] += 1
        if what == "wrong":
            self.wrong.append((kind, path.read_bytes(), why))
        return what

    def models(self, cases):
        """Damaged models, and models signed again, half and half; hostile archives before."""
        good = {}
        for name, model in models().items():
            save(self.folder / "good", model)
            good[name] = (self.folder / "good").read_bytes()
        (self.folder / "good").unlink()
        path, again = self.folder / "model.bregmat", self.folder / "again"
        for name, data in hostile(good["OnlinePCA"]).items():
            path.write_bytes(data)
            if self.read("hostile model", path, load, ModelFileError) == "read":
                self.wrong.append((name, data, "a hostile file was read"))
        again.touch()

        def same(model, data):
            save(again, model)
            return again.read_bytes() == data

        for k in range(cases):
            data = good[self.random.choice(list(good))]
            if k % 2:
                path.write_bytes(damaged(data, self.random, list(good.values())))
                self.read("damaged model", path, load, ModelFileError, functools.partial(same, data=data))
            else:
                path.write_bytes(signed_again(data, self.random))
                self.read("model signed again", path, load, ModelFileError)

    def tables(self, cases):
        """Damaged tables; a bomb before."""
        readers = tables(self.folder)
        good = {path: path.read_bytes() for path in readers}
        bomb = self.folder / "bomb.parquet"
        parquet_bomb(bomb)
        if self.read("parquet bomb", bomb, read_points, ValueError) == "read":
            self.wrong.append(("parquet bomb", b"", "it was read"))
        bomb.unlink()
        for k in range(cases):
            path = self.random.choice(list(readers))
            is_text = path.suffix == ".csv" and k % 2
            change = (
                worded(good[path], self.random) if is_text else damaged(good[path], self.random, list(good.values()))
            )
            path.write_bytes(change)
            self.read(path.name, path, readers[path], ValueError)

    def killed_saves(self, kills):
        """A process that saves without end is killed at a random moment: the file is the old or the new one."""
        folder = self.folder / "killed"
        folder.mkdir()
        path, files = folder / "model", []
        for k in range(2):
            save(path, bregmat.nnqp(np.eye(400), -np.full(400, k + 1.0)), info={"k": k, "pad": ["x" * 100] * 3000})
            files.append(path.read_bytes())
        first = load(path)
        counts = self.counts["killed save"] = Counter()
        for _ in range(kills):
            pid = os.fork()
            if pid == 0:
                while True:
                    save(path, first, info={"k": 1, "pad": ["x" * 100] * 3000})
            time.sleep(0.02 + 0.05 * self.random.random())
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            is_whole = path.read_bytes() in files
            counts["read" if is_whole else "wrong"] += 1
            counts["left a temporary file"] += len(os.listdir(folder)) > 1
            if not is_whole:
                self.wrong.append(("killed save", path.read_bytes(), "neither the old nor the new file"))

    def report(self):
        for kind, counts in self.counts.items():
            print(f"{kind:22s}", ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
        for kind, data, why in self.wrong[:20]:
            print(f"WRONG {kind}: {why.strip()}\n      {data[:60]!r} ... ({len(data)} bytes)")
        print(f"{sum(counts.total() for counts in self.counts.values())} cases, {len(self.wrong)} wrong")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("cases", 10_000), ("kills", 50), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder), given.seed)
        fuzz.killed_saves(given.kills)
        fuzz.models(given.cases * 6 // 10)
        fuzz.tables(given.cases * 4 // 10)
        fuzz.report()
    sys.exit(bool(fuzz.wrong))


if __name__ == "__main__":
    main()
