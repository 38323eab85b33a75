"""What the documentation shows is run: the example in every public docstring, and the code on the pages."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import bregmat
from bregmat.relations import RELATIONS

ROOT = Path(__file__).parents[1]
LISTED = re.findall(r"^   (\w[\w.]*)$", (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8"), re.M)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^(```+|:::+)(?:python|\{code-block\} python)\n(.*?)^\1", re.M | re.S)
CODE = {str(page.relative_to(ROOT)): blocks for page in PAGES if (blocks := BLOCK.findall(page.read_text("utf-8")))}
NOT_RUN = {"docs/architecture.md"}  # its classes are those of tests/toy_*.py, tested there


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A folder to write to, figures that no window shows, and names that are forgotten afterwards."""
    plt = importlib.import_module("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RELATIONS, "_classes", dict(RELATIONS._classes))
    yield tmp_path
    plt.close("all")


def test_the_reference_lists_every_public_name():
    assert set(bregmat.__all__) <= set(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_example_in_docstring(name, scratch):
    module, _, attribute = f"bregmat.{name}".rpartition(".")
    text = getattr(importlib.import_module(module), attribute).__doc__
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    runner, said = doctest.DocTestRunner(verbose=False), []
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 0, f"{name} has no example"


@pytest.mark.parametrize("page", sorted(set(CODE) - NOT_RUN))
def test_code_on_the_page(page, scratch):
    """In one namespace, from top to bottom, as a reader would."""
    names = {"__name__": "__main__"}
    for _, block in CODE[page]:
        exec(compile(block, page, "exec"), names)
