"""What is published: metadata, extras, links, the version, the lowest versions."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import metadata, version
from pathlib import Path

import mesonpy
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import bregmat
from lowest_versions import lowest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOME = "https://github.com/bregmat/bregmat"
RAW = "https://raw.githubusercontent.com/bregmat/bregmat"
IMPORTED_AS = {"scikit-learn": "sklearn", "lazy-loader": "lazy_loader"}


def installed_with(*extras):
    """Names of the packages that come with the library and extras of it, as they are imported."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    found = set()
    for line in lines:
        needed = Requirement(line)
        found |= installed_with(*needed.extras) if needed.name == "bregmat" else {needed.name}
    return {IMPORTED_AS.get(name, name) for name in found}


def test_metadata_are_those_of_the_project():
    about = metadata("bregmat")
    assert about["Name"] == "bregmat"
    assert about["License-Expression"] == "BSD-3-Clause"
    assert about["Requires-Python"] == PROJECT["requires-python"]
    assert set(about.get_all("Provides-Extra")) == set(EXTRAS)
    assert dict(line.split(", ") for line in about.get_all("Project-URL")) == PROJECT["urls"]
    needed = {str(Requirement(line)) for line in PROJECT["dependencies"]}
    assert needed <= {str(Requirement(line)) for line in about.get_all("Requires-Dist")}


def test_version_is_that_of_the_build():
    """Only meson.build has the number."""
    (stated,) = re.findall(r"version: '([^']+)', license", (ROOT / "meson.build").read_text(encoding="utf-8"))
    assert bregmat.__version__ == version("bregmat") == str(Version(stated))
    assert "version" in PROJECT["dynamic"]
    assert not re.search(r"__version__\s*=", (ROOT / "src" / "bregmat" / "__init__.py").read_text(encoding="utf-8"))


def test_urls_are_one_place():
    assert {"Homepage", "Source", "Documentation", "Changelog", "Issues"} == set(PROJECT["urls"])
    assert all(url == HOME or url.startswith(f"{HOME}/") for url in PROJECT["urls"].values())
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'url: "{HOME}"' in citation
    assert f"license: {PROJECT['license']}" in citation


def test_links_of_the_readme_are_absolute_and_lead_somewhere():
    """On a package index a relative link leads nowhere."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    places = rf"({HOME}/(blob|tree)|{RAW})/main/"
    inside = [re.sub(places, "", re.sub(r"#.*", "", link)) for link in links if re.match(places, link)]
    assert inside
    assert [path for path in inside if not (ROOT / path).exists()] == []


def test_the_readme_is_short_and_leads_to_the_documentation():
    assert len(README.splitlines()) <= 150
    for page in ("tutorial", "guide/index", "theory", "glossary", "faq", "migration", "performance"):
        assert f"]({HOME}/blob/main/docs/{page}.md)" in README
    assert f"]({HOME}/tree/main/examples)" in README and "make docs" in README
    top = README.partition("\n## Use")[0]
    assert "pip install bregmat" in top and "make demo" in top and "make test" in top


def test_snippets_of_the_readme_need_no_more_than_the_extras():
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.S))
    imported = {name.split(".")[0] for name in re.findall(r"^(?:import|from) ([\w.]+)", code, re.M)}
    assert {"bregmat", "sklearn"} <= imported
    assert imported - {"bregmat", "bregmat_papers"} - set(sys.stdlib_module_names) <= installed_with("all")
    assert set(re.findall(r"pip install '\.\[(\w+)\]'", README)) <= set(EXTRAS)


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"all", "gpu", "test", "docs", "dev", "bench", "oracle"}))
def test_all_has_every_extra_of_users(extra):
    """But torch: gigabytes, of which there is one build for every kind of GPU."""
    assert installed_with(extra) <= installed_with("all")


def test_every_dependency_has_a_lowest_version():
    pins = dict(line.split("==") for line in lowest(PYPROJECT))
    tools = {Requirement(line).name for line in PYPROJECT["build-system"]["requires"]}
    assert {IMPORTED_AS.get(name, name) for name in pins} == installed_with("all") | tools
    with pytest.raises(ValueError, match="has no lowest version"):
        lowest({**PYPROJECT, "build-system": {"requires": ["meson"]}})


@pytest.fixture
def build(tmp_path, monkeypatch):
    """build(hook): the path of what a hook of the build backend makes, with the object files that `make test` keeps."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    kept = Path(sys.prefix, "kernels")
    settings = {"build-dir": str(kept)} if kept.exists() else {}
    return lambda hook: tmp_path / hook(str(tmp_path), settings)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an sdist is made from what is committed")
def test_sdist_has_what_is_committed(build):
    with tarfile.open(build(mesonpy.build_sdist)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True, check=True)
    assert names == {*listed.stdout.split(), "PKG-INFO"}
    assert {"LICENSE", "Makefile", "tests/quick.txt", "src/bregmat/_kernels/base/bind.hpp"} <= names


def test_wheel_has_the_packages_and_no_more(build):
    source = ROOT / "src"
    unwanted = {".cpp", ".hpp", ".build", ".pyc", ".so", ".pyd"}
    files = {path.relative_to(source).as_posix() for path in source.rglob("*.*") if path.suffix not in unwanted}
    assert {"bregmat/py.typed", "bregmat/__init__.pyi", "bregmat_app/report/templates/page.html"} <= files
    with zipfile.ZipFile(build(mesonpy.build_wheel)) as archive:
        names = set(archive.namelist())
    about = {name for name in names if name.partition("/")[0].endswith(".dist-info")}
    compiled = {name for name in names if re.fullmatch(r"bregmat/_kernels/_v\d\..*(so|pyd)", name)}
    assert compiled
    assert names - about - compiled == files
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in about)
