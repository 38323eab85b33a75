"""Fixtures and options shared by all tests."""

import os
from pathlib import Path

import numpy as np
import pytest


def pytest_addoption(parser):
    parser.addoption("--no-skips", action="store_true", help="fail the run if any test was skipped")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """With --no-skips a skipped test (or module) fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--no-skips"):
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.ensure_newline()
        reporter.write_line(f"--no-skips: {len(skipped)} skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def rng():
    """A generator with a fixed seed, fresh for every test."""
    return np.random.default_rng(20261120)


@pytest.fixture(scope="session")
def data_home():
    """The folder with the papers' data sets: BREGMAT_DATA, or shared/data beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BREGMAT_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the papers' data sets are not here: set BREGMAT_DATA to a folder that has them")
    return folder
