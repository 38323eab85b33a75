"""Fixtures and options shared by all tests."""

import csv
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

import verified_calls
from bregmat import _kernels
from bregmat.base import registry
from bregmat.io import classes

# Everything else is marked `numerical`: what it computes depends on the processor.
NOT_NUMERICAL = {
    *("test_architecture", "test_registry", "test_checks", "test_bad_input", "test_cut_input", "test_nnqp_input"),
    *(
        "test_margin_svc_input",
        "test_datasets",
        "test_io",
        "test_io_tables",
        "test_constraint_tables",
        "test_interrupts",
        "test_packaging",
        "test_cli",
        "test_report",
        "test_report_browser",
        "test_label_browser",
        "test_label_map",
        "test_label_requests",
        "test_label_script",
    ),
    *("test_plots", "test_plots_points", "test_reproduce"),
}


def pytest_configure(config):
    config.addinivalue_line("markers", "numerical: computes; must hold on every processor")
    config.addinivalue_line(
        "markers", "slow: takes over two seconds, or needs a browser, a cluster or a fresh process (make test-slow)"
    )
    config.addinivalue_line(
        "markers", "not_verified(why): with --verify-results, its results are not passed to bregmat.verify"
    )
    if config.getoption("--verify-results"):
        verified_calls.install()
    # a shell starts background jobs with SIGINT ignored; tests of Ctrl-C need Python's handler
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem not in NOT_NUMERICAL:
            item.add_marker("numerical")


def pytest_runtest_setup(item):
    verified_calls.is_on = item.get_closest_marker("not_verified") is None


def pytest_report_header():
    """The instruction set of the kernels, and the processor type of each copy of OpenBLAS, which ignores one that it cannot run."""
    import scipy.linalg  # noqa: F401 - loads its copy
    from threadpoolctl import threadpool_info

    found = sorted(
        {(i["internal_api"], i.get("architecture", "?")) for i in threadpool_info() if i["user_api"] == "blas"}
    )
    asked = os.environ.get("OPENBLAS_CORETYPE")
    wanted = f"; OPENBLAS_CORETYPE={asked}" if asked else ""
    place = Path(_kernels.__file__).parents[2]
    return f"kernels: {_kernels.level}, in {place}; BLAS: {', '.join(f'{api} for {architecture}' for api, architecture in found)}{wanted}"


def pytest_addoption(parser):
    parser.addoption("--no-skips", action="store_true", help="fail the run if any test was skipped")
    parser.addoption("--verify-results", action="store_true", help="pass every result of the library to bregmat.verify")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Add the counts of a worker process of pytest-xdist when it ends."""
    for word, n in getattr(node, "workeroutput", {}).get("verified", {}).items():
        verified_calls.counts[word] += n


def pytest_terminal_summary(terminalreporter):
    """How many results were verified, and how many were not."""
    if not terminalreporter.config.getoption("--verify-results"):
        return
    n = verified_calls.counts
    left_out = f"{n['too large']} too large for it, {n['measured']} whose memory is measured, {n['of solve alone']} of the loop alone"
    terminalreporter.write_line(
        f"results of the library: {n['verified']} verified in {n['seconds']:.1f} s of processor time; not verified: {left_out}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """With --no-skips a skipped test (or module) fails the run."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["verified"] = verified_calls.counts
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--no-skips"):
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.ensure_newline()
        reporter.write_line(f"--no-skips: {len(skipped)} skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def cancer():
    """Every second row of the standardised breast cancer data."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[::2], y[::2]


@pytest.fixture(scope="session")
def iris():
    """The standardised iris data without copies, with names of the classes."""
    X, y = load_iris(return_X_y=True)
    rows = np.sort(np.unique(X, axis=0, return_index=True)[1])  # coefficients of points that coincide are not unique
    return StandardScaler().fit_transform(X)[rows], np.array(["setosa", "versicolor", "virginica"])[y[rows]]


@pytest.fixture
def savable_here(monkeypatch):
    """Called with a class, it lets model files hold objects of it for one test."""
    return lambda cls: monkeypatch.setitem(classes.SAVABLE, cls.__name__, cls.__module__)


@pytest.fixture
def registered_here(monkeypatch):
    """Classes that a test registers are forgotten afterwards."""
    for kind in registry._KINDS:
        monkeypatch.setattr(kind, "_classes", dict(kind._classes))


@pytest.fixture
def rng():
    """A generator with a fixed seed, fresh for every test."""
    return np.random.default_rng(20261120)


@pytest.fixture
def set_passes(monkeypatch):
    """set_passes(n): learners search neighbours n times in later fits, whatever held-out rows tell."""
    from bregmat.estimators.learner import ConstraintLearner

    choose = ConstraintLearner._choose

    def set_to(n):
        def chosen(learner, *arguments):
            return replace(choose(learner, *arguments), passes=n)

        monkeypatch.setattr(ConstraintLearner, "_choose", chosen)

    return set_to


@pytest.fixture
def unrendered(monkeypatch):
    """Reports with empty pictures, for tests of what a report says: five pictures take a second."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, file, **options: file.write("<svg></svg>"))


@pytest.fixture(scope="session")
def data_home():
    """The folder with the papers' data sets: BREGMAT_DATA, or shared/data beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BREGMAT_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the papers' data sets are not here: set BREGMAT_DATA to a folder that has them")
    return folder


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """reproduced(name): the report of an experiment's small size, run once, with its table and picture written."""
    from bregmat_papers import experiment, reproduce

    done = {}

    def run(name):
        if name not in done:
            report = done[name] = reproduce(experiment(name), tmp_path_factory.mktemp(name), size="small")
            assert report.is_complete and report.picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
            with report.csv.open(newline="", encoding="utf-8") as handle:
                quantities = [line["quantity"] for line in csv.DictReader(handle)]
            assert quantities == [row.quantity for row in report.rows]
            assert len(set(quantities)) == len(quantities)
            never = "examples until"  # a stream that does not settle has no such number
            assert all(np.isfinite(row.ours) or row.quantity.startswith(never) for row in report.rows)
        return done[name]

    return run
