"""What the public names are, and what ``import bregmat`` loads. Rules about the sources are in lint_sources.py."""

import contextlib
import importlib.util
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import bregmat
from bregmat.margin import MarginResult
from conftest import NOT_NUMERICAL

# The part of the planned public surface that exists; what is added to it is added here.
PUBLIC = {
    "constraints": {"Constraints", "constraints_from_labels"},
    "divergences": {"LogDet", "VonNeumann", "Frobenius", "SpectralDivergence"},
    "terms of your own": {"register", "Relation"},
    "losses": {"Squared", "SquaredHinge", "DivergenceSlack", "RelativeSlack", "ScalarLoss"},
    "nearness problems": {"nearest_kernel", "nearest_metric", "Factor"},
    "the papers' solvers": {"CyclicProjection", "DefiniteBoost"},
    "applications": {"nearest_distribution", "DistributionResult", "boost_hypotheses", "BoostResult"}
    | {"nearest_correlation", "factor_correlation", "CorrelationResult", "shrink_correlation", "ShrinkResult"}
    | {"balanced_cut", "CutResult"}
    | {"semidefinite_program", "SemidefiniteResult", "unfold", "UnfoldResult"},
    "quadratic programs": {"nnqp", "QPResult", "MultiplicativeUpdates"},
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
    "estimators": {"MetricLearner", "KernelLearner", "KernelKMeans", "MarginSVC", "RetrievalLearner"},
    "online learners": {"MatrixExponentiatedGradient", "OnlineLogDet", "OnlinePCA"},
    "files": {"save", "load", "ModelFileError"},
}
RESULT = (
    "status exit_reason factor write_factor B kernel dual objective dual_bound gap max_violation conflict n_iter seconds "
    "history _repr_html_ transform spectrum values"
)
CONSTRUCTORS = "sq_distance similarity comparison similarity_comparison diagonal trace linear of from_pairs from_triplets from_frame"


# ---------------------------------------------------------------- problems
def test_few_problem_classes():
    """(P), correlation matrices without and with weights, quadratic and semidefinite programs, softmax losses, distributions."""
    for module in pkgutil.walk_packages(bregmat.__path__, "bregmat."):
        if "_kernels._" not in module.name:
            importlib.import_module(module.name)
    classes, left = set(), [importlib.import_module("bregmat.engine.problem").Problem]
    while left:
        classes.update(new := left.pop().__subclasses__())
        left += new
    classes = {cls.__name__ for cls in classes if cls.__module__.startswith("bregmat.")}
    assert len(classes) <= 7, classes


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
    known = {*dir(bregmat.MatrixResult), *(f.name for f in fields(bregmat.MatrixResult))}
    assert [name for name in RESULT.split() if name not in known] == []
    members = f"{CONSTRUCTORS} select n_constraints values satisfied locate __add__ to_frame __iter__ _repr_html_"
    assert [name for name in members.split() if not hasattr(bregmat.Constraints, name)] == []
    # scikit-learn's cross-validation slices whatever has the length of X
    assert not {"__len__", "shape", "__array__", "__getitem__"} & set(dir(bregmat.Constraints))


def result_classes():
    public = [getattr(bregmat, name) for name in bregmat.__all__] + [MarginResult]
    return [cls for cls in public if isinstance(cls, type) and issubclass(cls, bregmat.Result)]


@pytest.mark.parametrize("cls", result_classes(), ids=lambda cls: cls.__name__)
def test_results_hold_documented_names_only(cls):
    """Each public name is a field in a section Attributes, or a property or method with a docstring."""
    sections = [re.split(r"\nAttributes\n-+\n", inspect.getdoc(base) or "")[1:] for base in cls.__mro__]
    lines = [line for section in sections for part in section for line in re.findall(r"^\w.*", part, re.M)]
    listed = {name for line in lines for name in re.split(r", ", line.split(" :")[0])}
    public = [name for name in {*dir(cls), *(f.name for f in fields(cls))} if not name.startswith("_")]
    for name in set(public) - listed:
        member = inspect.getattr_static(cls, name)
        assert not isinstance(member, str | int | float | bool | frozenset | dict | tuple | None), name
        assert len(inspect.getdoc(member)) > 15, name


def public_parameters():
    """(name, parameter) of every public function, class and method that users call."""
    for name in bregmat.__all__:
        value = getattr(bregmat, name)
        methods = [
            getattr(value, member)
            for member in dir(value)
            if isinstance(value, type) and not member.startswith(("_", "set_"))
        ]
        for function in [value, *methods]:
            with contextlib.suppress(ValueError, TypeError):  # functions of C, and what is none
                yield from ((name, parameter) for parameter in inspect.signature(function).parameters.values())


def test_words_have_one_default():
    """What is drawn, where a solver starts and how long it runs mean the same everywhere."""
    defaults = {"random_state": None, "x0": None, "max_seconds": None, "sample_id": None, "callback": None}
    seen = [(name, p) for name, p in public_parameters() if p.name in defaults and p.default is not p.empty]
    assert len(seen) >= 40
    assert [(name, p.name) for name, p in seen if p.default is not defaults[p.name]] == []


def test_signatures():
    """Keyword-only after two arguments; the same words in the same order for both problems."""
    words = ["divergence", "loss", "slack_weight", "solver", "tol", "max_iter", "max_seconds", "warm_start", "callback"]
    for function, first, more, sharding in (
        (bregmat.nearest_kernel, "prior", [], []),
        (bregmat.nearest_metric, "X", ["prior"], ["executor", "block_size"]),
    ):
        parameters = inspect.signature(function).parameters
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
    heavy = {"numpy", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow", "typer", "rich", "joblib"}
    assert loaded_after("import bregmat") & heavy == set()


@pytest.mark.parametrize(
    ("call", "rooms"),
    [
        ("bregmat.balanced_cut(1 - np.eye(4), random_state=0)", {"cut"}),
        ("bregmat.nearest_distribution([0.2, 0.8], [[1, 0]], 0.5, '==')", {"simplex"}),
        ("bregmat.semidefinite_program(np.eye(2), bregmat.Constraints.diagonal(np.ones(2)))", {"semidefinite"}),
        ("bregmat.nearest_correlation(2 * np.eye(2), divergence='logdet')", {"correlation", "semidefinite"}),
    ],
)
def test_a_special_problem_loads_no_other(call, rooms):
    """The solvers of (P) that correlations need are there, too."""
    names = "{m.split('.')[2] for m in sys.modules if m.startswith('bregmat.applications.')}"
    code = f"import sys, numpy as np, bregmat; {call}; print(sorted({names}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted(rooms))


def test_other_array_libraries_come_with_their_arrays():
    own = {"torch", "cupy", "array_api_compat", "array_api_strict", "jax"}
    solve = "bregmat.nearest_metric(np.eye(2), bregmat.Constraints.sq_distance(0, 1, 1.0, '<='))"
    assert loaded_after(f"import numpy as np, bregmat; {solve}") & own == set()


def test_the_command_loads_the_papers_only_when_they_are_asked_for():
    assert loaded_after("import bregmat, bregmat_app.cli.app") & {"bregmat_papers"} == set()


@pytest.mark.not_verified("counts the files of the calls alone")
def test_calls_run_through_few_files():
    """The second call in a process; the numbers of functions differ between versions of Python."""
    path = Path(__file__).parents[1] / "benchmarks" / "bench_calls.py"
    spec = importlib.util.spec_from_file_location("bench_calls", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    fixed = {"strategy": "neighbors", "prior": "variance", "slack_weight": 1.0}
    for call, most in ((bench.kernel_call(), 17), (bench.fit_call(**fixed), 25)):
        assert len({file for file, _, _ in bench.executed(call)[0]}) <= most


def test_solving_is_light_too():
    code = (
        "import numpy as np, bregmat; r = bregmat.nearest_kernel(np.eye(2), bregmat.Constraints.diagonal([1.0, 2.0])); "
        "assert r.status == 'OPTIMAL'; bregmat.check(r); repr(r); r._repr_html_()"
    )
    assert loaded_after(code) & {"sklearn", "matplotlib", "pandas", "polars", "typer", "rich"} == set()


@pytest.mark.slow
def test_estimators_come_when_they_are_asked_for():
    assert "sklearn" in loaded_after("import bregmat; bregmat.MetricLearner")


def test_what_is_not_numerical_is_a_test_file():
    here = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert here >= NOT_NUMERICAL
