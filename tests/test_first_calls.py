"""What is loaded and what is compiled, by count: numba only for kernels, each kernel for few types, nothing left after `bregmat warmup`."""

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bregmat
from bregmat import Constraints
from bregmat._kernels.compiling import Kernel, njit
from bregmat.warmup import ENTRIES, warm_up

ROOT = Path(bregmat.__file__).parent
# The smallest spectrum updates, joins and steps are for programs that take hundreds of variables to come about.
RARE = {
    "greedy_inplace",
    "row_products_inplace",
    "constrain_inplace",
    "constrained_solve_inplace",
    "join_inplace",
    "leave_inplace",
    "onto_row",
    "squared_length",
    "cap_spectrum_inplace",
}
MOST_TYPES = 4  # float32 and float64, dense rows and single ones


def child(code, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT.parent)} | variables,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


NEWER = """
import numba
numba.version_info = numba.version_info._replace(short=(99, 0))
import numpy as np
import bregmat
from bregmat._kernels import dispatchers, pipeline
assert dispatchers._PartCompiler.__mro__[1] is not pipeline.LeanCompiler
rows = bregmat.Constraints.sq_distance([0, 1], [1, 2], [1.0, 3.0], ["<=", ">="])
result = bregmat.nearest_kernel(np.eye(3) + 1.0, rows, solver=bregmat.CyclicProjection(), slack_weight=float("inf"))
assert result.status == "OPTIMAL", result
print(result.objective)
"""


def test_a_newer_numba_compiles_as_it_does_by_itself(tmp_path):
    """Its passes are not known yet: what leaves some out is not used, and the result is the same."""
    known = NEWER.replace("(99, 0)", "(0, 68)").replace("is not pipeline", "is pipeline")
    found = [float(child(code, NUMBA_CACHE_DIR=str(tmp_path / name))) for name, code in (("a", NEWER), ("b", known))]
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def called_from_python():
    """The kernels that the package's other modules name."""
    names = set()
    for path in sorted(ROOT.rglob("*.py")):
        if path.parent.name == "_kernels":
            continue
        tree, modules = ast.parse(path.read_text(encoding="utf-8")), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bregmat._kernels"):
                for item in node.names:
                    if node.module == "bregmat._kernels":
                        modules[item.asname or item.name] = f"bregmat._kernels.{item.name}"
                    else:
                        names.add((node.module, item.name))
        names |= {
            (modules[node.value.id], node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
        }
    found = {name: getattr(importlib.import_module(module), name) for module, name in sorted(names)}
    return {name: value for name, value in found.items() if isinstance(value, Kernel)}


@pytest.mark.parametrize(
    "code",
    [
        "import bregmat",
        "import bregmat.cli.app, bregmat.estimators, bregmat.online, bregmat.applications, bregmat.quadratic",
        "import bregmat, numpy; bregmat.nearest_correlation(numpy.eye(3))",
    ],
)
def test_numba_is_loaded_for_kernels_only(code):
    assert child(f"import sys; {code}; print('numba' in sys.modules)") == "False\n"


def test_every_entry_compiles_its_kernels_for_few_types():
    """In a process of its own: other tests call kernels with types that no entry has."""
    code = """
import json, test_first_calls as here
names = [step.name for step in here.warm_up()]
print(json.dumps([names, {name: len(kernel.signatures) for name, kernel in here.called_from_python().items()}]))
"""
    names, counts = json.loads(child(code, PYTHONPATH=os.pathsep.join([str(ROOT.parent), str(Path(__file__).parent)])))
    assert names == list(ENTRIES)
    assert len(counts) > 50
    assert {name for name, n in counts.items() if not n} <= RARE
    assert {name: n for name, n in counts.items() if n > MOST_TYPES} == {}


def test_arrays_of_other_layouts_compile_nothing_more():
    list(warm_up())
    kernels = called_from_python()
    before = {name: kernel.signatures for name, kernel in kernels.items()}
    rng = np.random.default_rng(5)
    X = np.asfortranarray(rng.normal(size=(80, 7)))
    X.flags.writeable = False
    y = (X[:, 0] > 0).astype(np.int32)
    rows = Constraints.sq_distance([0, 1, 2], [3, 4, 5], [1.0, 2.0, 3.0], "<=")
    for data in (X, X[::2], X.astype(np.float32), X[:, ::-1]):
        labels = y[::2] if len(data) == 40 else y
        bregmat.MarginSVC().fit(data, labels)
        bregmat.OnlinePCA(2).fit(data)
        bregmat.OnlineLogDet().partial_fit(np.stack([data[:-1], data[1:]], axis=1), np.ones(len(data) - 1, np.float32))
        bregmat.nnqp(data.T @ data, -data.sum(axis=0))
        for divergence in ("logdet", "vonneumann"):
            bregmat.nearest_metric(data, rows, divergence=divergence, solver="cyclic_projection", slack_weight=1.0)
    assert {name: kernel.signatures for name, kernel in kernels.items()} == before


def test_a_constant_is_a_number_like_any_other():
    """Numba would compile ``inner`` for 1, for 2 and for an integer."""

    @njit
    def inner(x, k):
        return x * k

    @njit
    def outer(x, n):
        return inner(x, 1) + inner(x, 2) + inner(x, n)

    assert outer(2.0, 3) == 12.0
    assert len(inner.part_signatures) == 1 and inner.signatures == []
    assert inner(2.0, 3) == 6.0 and len(inner.signatures) == 1


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_one_line_where_compiling_takes_long(seconds, monkeypatch, caplog):
    from bregmat._kernels import dispatchers

    monkeypatch.setattr(dispatchers, "PATIENCE", seconds)
    dispatchers._say.cache_clear()
    for k in range(2):
        njit(lambda x: x + 1.0)(float(k))
    said = [record.message for record in caplog.records]
    assert said == ([dispatchers.NOTICE] if seconds == 0.0 else [])


def test_what_was_warmed_up_is_not_compiled_again(tmp_path):
    """On an empty disk, in three processes: `bregmat warmup`, once more, and a user's."""
    command = (
        "import sys; sys.argv[1:] = ['warmup', '--only', 'nnqp multiplicative', '--only', 'OnlineLogDet']\n"
        "from bregmat.cli import main\nmain()"
    )
    disk = {"NUMBA_CACHE_DIR": str(tmp_path), "COLUMNS": "200"}
    first, again = child(command, **disk), child(command, **disk)
    assert "tiles.signed_pass_inplace" in first and "online.metric_trials_inplace" in first
    assert again == ""
    user = (
        "import bregmat, numpy as np; from bregmat._kernels import COMPILED\n"
        "X = np.random.default_rng(3).normal(size=(9, 4))\n"
        "bregmat.OnlineLogDet().partial_fit(np.stack([X[:-1], X[1:]], axis=1), np.ones(8)); print(COMPILED)"
    )
    assert child(user, **disk) == "[]\n"


OTHER_VERSION = """
import pickle
from pathlib import Path
import numpy as np
from bregmat._kernels.descent import inspect
index, = Path(INDEX).rglob("descent.inspect-*.nbi")
with open(index, "rb") as file:
    version = pickle.load(file)
for rest in (b"cbregmat._kernels.descent\\nGone\\n.", b"cbregmat._kernels.gone\\nGone\\n.", b""):
    with open(index, "wb") as file:
        pickle.dump(version, file)
        file.write(rest)
    inspect._run = inspect._first
    print(inspect(np.eye(3), 1e-9, 1e-9)[0], len(pickle.loads(index.read_bytes()[len(pickle.dumps(version, -1)):])))
"""


def test_a_cache_of_another_version_is_begun_anew(tmp_path):
    """Its index names classes that may be gone: that raised ``AttributeError`` in the first call after an update."""
    disk = {"NUMBA_CACHE_DIR": str(tmp_path)}
    child("import numpy as np; from bregmat._kernels.descent import inspect; inspect(np.eye(3), 1e-9, 1e-9)", **disk)
    assert child(OTHER_VERSION.replace("INDEX", repr(str(tmp_path))), **disk).split() == ["0", "2"] * 3


def test_an_unknown_entry():
    with pytest.raises(ValueError, match="only must be one of 'nearest_metric logdet'.*got 'nothing'"):
        list(warm_up(["nothing"]))
