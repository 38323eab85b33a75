"""Who may import whom, what the public names are, and what ``import bregmat`` brings along."""

import ast
import inspect
import json
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import bregmat
from conftest import NOT_NUMERICAL

ROOT = Path(bregmat.__file__).parent

# Rooms of the library: upper lines may import lower ones, never the other way; rooms of one line do not import each other.
TREE = """
plots
io
verification
online pairs
estimators
applications
from_labels
nearest
sharded
margin
quadratic
solvers
run
certificates
coordinates
operators
constraints objective kernels
base
typing _kernels
"""
LEVEL = {name: k for k, line in enumerate(TREE.split("\n")) for name in line.split()}

# The part of the planned public surface that exists; what is added to it is added here.
PUBLIC = {
    "constraints": {"Constraints", "constraints_from_labels", "spread_pairs"},
    "divergences": {"LogDet", "VonNeumann", "Frobenius", "SpectralDivergence"},
    "terms of your own": {"register", "Relation"},
    "losses": {"Squared", "SquaredHinge", "RelativeSlack", "ScalarLoss"},
    "nearness problems": {"nearest_kernel", "nearest_metric", "Factor", "widen_range"},
    "the papers' solvers": {"CyclicProjection", "DefiniteBoost"},
    "applications": {"nearest_distribution", "DistributionResult", "boost_hypotheses", "BoostResult"}
    | {"nearest_correlation", "CorrelationResult", "balanced_cut", "CutResult"},
    "quadratic programs": {"nnqp", "nonnegative_least_squares", "QPResult", "MultiplicativeUpdates"},
    "results": {
        "Result",
        "MatrixResult",
        "Status",
        "ExitReason",
        "Record",
        "SolverError",
        "check",
        "verify",
        "Verification",
    },
    "estimators": {"MetricLearner", "MetricLearnerCV", "KernelLearner", "KernelLearnerCV", "KernelKMeans", "MarginSVC"},
    "online learners": {"MatrixExponentiatedGradient", "OnlineLogDet", "OnlinePCA"},
    "files": {"save", "load", "ModelFileError"},
}
RESULT = (
    "status exit_reason factor write_factor B kernel dual objective dual_bound gap max_violation conflict n_iter seconds "
    "history _repr_html_ transform spectrum values"
)
CONSTRUCTORS = "sq_distance similarity comparison similarity_comparison diagonal trace linear of from_pairs from_triplets from_frame"


def module_name(path):
    parts = ("bregmat", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# `python -m bregmat` is the one file of the library that opens the application
MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py")) if path.name != "__main__.py"}
APP = sorted((ROOT.parent / "bregmat_app").rglob("*.py"))


def imports(name):
    """Absolute names of all modules that a module imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import in line {node.lineno}"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full if full in MODULES else node.module for full in inner}
    return found


def unit(name):
    """The file or package of the tree that a module belongs to; None for the package itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


INSIDE = {name: {other for other in imports(name) if other.split(".")[0] == "bregmat"} for name in MODULES}


# ---------------------------------------------------------------- import direction
def test_every_unit_is_in_the_tree():
    assert {unit(name) for name in MODULES} - {None} == set(LEVEL)


@pytest.mark.parametrize("name", [name for name in MODULES if unit(name)])
def test_imports_go_down_the_tree(name):
    mine = unit(name)
    others = {unit(other) for other in INSIDE[name]} - {mine, None}
    assert {other for other in others if LEVEL[other] <= LEVEL[mine]} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if unit(name)])
def test_only_the_version_is_taken_from_the_package_itself(name):
    text = MODULES[name].read_text(encoding="utf-8")
    assert set(re.findall(r"^\s*from bregmat import (.+)$", text, re.M)) <= {"__version__"}


def test_no_cycles():
    graph = {name: {other for other in INSIDE[name] if unit(other)} for name in MODULES if unit(name)}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_one_word_one_class():
    """No two classes share a name, and no two files of rows: ``Rows``, ``Block``, ``Settings`` once meant three things each."""
    places = {}
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert len(places) > 100
    assert {word: names for word, names in places.items() if len(names) > 1} == {}
    assert [name for name in MODULES if name.rpartition(".")[2] == "rows"] == []


def test_kernels_import_only_kernels():
    kernels = [name for name in MODULES if unit(name) == "_kernels"]
    assert {other for name in kernels for other in INSIDE[name] if unit(other) != "_kernels"} == set()


def test_no_property_holds_a_lock():
    """Python 3.11's own ``cached_property`` holds one for all objects of its class, also in a forked process."""
    own = re.compile(r"functools\.cached_property|from functools import .*cached_property")
    users = {name for name in MODULES if own.search(MODULES[name].read_text(encoding="utf-8"))}
    assert users == {"bregmat.base.threads"}


def imported(path):
    """Absolute names of all modules that a file imports, at the top or inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return whole | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}


def test_the_library_imports_neither_the_application_nor_the_papers():
    beside = {"bregmat_app", "bregmat_papers"}
    assert [name for name in MODULES if beside & {other.split(".")[0] for other in imports(name)}] == []
    assert loaded_after("import bregmat, bregmat_app.cli.app") & {"bregmat_papers"} == set()


def test_the_papers_import_the_public_rooms_and_no_application():
    users = {path.stem for path in APP if any(other.split(".")[0] == "bregmat_papers" for other in imported(path))}
    assert users == {"demo", "reproduce"}
    papers = {path.name: imported(path) for path in sorted((ROOT.parent / "bregmat_papers").glob("*.py"))}
    used = {
        name: {other for other in others if other.startswith(("bregmat._kernels", "bregmat_app"))}
        for name, others in papers.items()
    }
    assert {name: others for name, others in used.items() if others} == {}


def test_the_root_holds_little():
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "nearest.py", "typing.py"}


def test_core_needs_neither_estimators_nor_drawing():
    optional = {"dask", "distributed", "zarr", "matplotlib", "pandas", "polars", "pyarrow", "typer", "rich", "pooch"}
    core = [name for name in MODULES if unit(name) and LEVEL[unit(name)] >= LEVEL["nearest"]]
    users = {name for name in core if optional & {other.split(".")[0] for other in imports(name)}}
    assert users == {"bregmat.sharded.cluster"}  # Dask, once somebody hands in a client or a collection


def test_other_array_libraries_come_with_their_arrays():
    """No file names one of them but the one that asks what an array is; none is loaded until somebody hands one in."""
    own = {"torch", "cupy", "array_api_compat", "array_api_strict", "jax"}
    users = {name for name in MODULES if own & {other.split(".")[0] for other in imports(name)}}
    assert users == {"bregmat.base.arrays", "bregmat.estimators.mahalanobis"}  # the latter makes a layer of torch
    solve = "bregmat.nearest_metric(np.eye(2), bregmat.Constraints.sq_distance(0, 1, 1.0, '<='))"
    assert loaded_after(f"import numpy as np, bregmat; {solve}") & own == set()


# ---------------------------------------------------------------- public names
def test_public_names():
    wanted = set().union(*PUBLIC.values())
    assert set(bregmat.__all__) == wanted
    assert wanted <= set(dir(bregmat))
    assert all(getattr(bregmat, name) is not None for name in wanted)
    with pytest.raises(AttributeError, match="No bregmat attribute nearest_tensor"):
        _ = bregmat.nearest_tensor
    with pytest.raises(AttributeError, match="No bregmat attribute PairsLearner; it is in bregmat.pairs"):
        _ = bregmat.PairsLearner


@pytest.mark.parametrize("name", sorted(set().union(*PUBLIC.values())))
def test_public_names_are_documented(name):
    assert len(inspect.getdoc(getattr(bregmat, name))) > 15


def test_members_of_constraints_and_results():
    known = {*dir(bregmat.MatrixResult), *bregmat.MatrixResult.__annotations__, *bregmat.Result.__annotations__}
    assert [name for name in RESULT.split() if name not in known] == []
    members = f"{CONSTRUCTORS} select n_constraints values satisfied locate __add__ to_frame __iter__ _repr_html_"
    assert [name for name in members.split() if not hasattr(bregmat.Constraints, name)] == []
    # scikit-learn's cross-validation slices whatever has the length of X
    assert not {"__len__", "shape", "__array__", "__getitem__"} & set(dir(bregmat.Constraints))


def test_signatures():
    """Keyword-only after two arguments; the same words in the same order for both problems."""
    words = ["divergence", "loss", "slack_weight", "solver", "tol", "max_iter", "max_seconds", "warm_start", "callback"]
    for function, first, more in (
        (bregmat.nearest_kernel, "prior", []),
        (bregmat.nearest_metric, "X", ["prior"]),
    ):
        parameters = inspect.signature(function).parameters
        sharding = ["executor", "block_size", "checkpoint"]
        assert list(parameters) == [first, "constraints", *more, *words, *sharding]
        assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in [*more, *words, *sharding])
        assert parameters["divergence"].default == "logdet"
        assert parameters["solver"].default == "auto"
        assert parameters["tol"].default == 1e-6
    drawing = ["strategy", "n_neighbors", "n_impostors", "form"]
    given = inspect.signature(bregmat.constraints_from_labels).parameters
    assert list(given) == ["X", "y", "n_constraints", *drawing, "percentiles", "unlabeled", "random_state"]


def test_statuses_and_reasons():
    assert [s.name for s in bregmat.Status] == ["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNBOUNDED", "UNKNOWN"]
    reasons = "TOLERANCE CERTIFICATE MAX_ITER TIME STALLED INTERRUPTED NONFINITE CYCLE"
    assert [r.name for r in bregmat.ExitReason] == reasons.split()


# ---------------------------------------------------------------- import bregmat
def loaded_after(code):
    """Top-level modules in a fresh interpreter after some code."""
    report = "; import sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + report], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_import_is_light():
    heavy = {"sklearn", "matplotlib", "pandas", "polars", "pyarrow", "typer", "rich", "joblib"}
    assert loaded_after("import bregmat") & heavy == set()


def test_solving_is_light_too():
    code = (
        "import numpy as np, bregmat; r = bregmat.nearest_kernel(np.eye(2), bregmat.Constraints.diagonal([1.0, 2.0])); "
        "assert r.status == 'OPTIMAL'; bregmat.check(r); repr(r); r._repr_html_()"
    )
    assert loaded_after(code) & {"sklearn", "matplotlib", "pandas", "polars", "typer", "rich"} == set()


def test_estimators_come_when_they_are_asked_for():
    assert "sklearn" in loaded_after("import bregmat; bregmat.MetricLearner")


def test_what_is_not_numerical_is_a_test_file():
    here = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert here >= NOT_NUMERICAL


# ---------------------------------------------------------------- the page about all this
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_page_names_every_room():
    table = " ".join(line.split("|")[1] for line in PAGE.split("\n") if line.startswith("| `"))
    rooms = set(re.findall(r"`(\w+)`", table))
    assert rooms == {*LEVEL, "cli", "label", "report"}
