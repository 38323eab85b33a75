"""What the documentation shows is run: the example in every public docstring, and the code on the pages."""

import ast
import doctest
import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import bregmat
from bregmat.plots import EmbeddingDisplay
from test_report_browser import chromium

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LISTED = {  # the full name of everything in the reference
    f"{package}.{name}"
    for package, section in re.findall(
        r"^\.\. currentmodule:: (\w+)$(.*?)(?=^\.\. currentmodule|\Z)",
        (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8"),
        re.M | re.S,
    )
    for name in re.findall(r"^   (\w[\w.]*)$", section, re.M)
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guide").glob("*.md"))]
# code, and what it prints if a block of text follows
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.M | re.S)
CODE = {str(page.relative_to(ROOT)): blocks for page in PAGES if (blocks := BLOCK.findall(page.read_text("utf-8")))}


@pytest.fixture
def scratch(tmp_path, monkeypatch, registered_here):
    """A folder to write to, figures that no window shows, and names that are forgotten afterwards."""
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


def test_the_reference_lists_every_public_name():
    modules = {name: importlib.import_module(f"bregmat.{name}") for name in ("pairs", "plots")}
    inside = {f"{name}.{public}" for name, module in modules.items() for public in module.__all__}
    assert {f"bregmat.{name}" for name in {*bregmat.__all__, *inside}} <= LISTED


@pytest.mark.parametrize("name", sorted(LISTED))
def test_example_in_docstring(name, scratch):
    module, _, attribute = name.rpartition(".")
    text = getattr(importlib.import_module(module), attribute).__doc__
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    runner, said = doctest.DocTestRunner(verbose=False), []
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 0, f"{name} has no example"


WIDEST = 80  # letters of a formula that the reference shows at 1280 pixels without scrolling


@pytest.mark.parametrize("name", sorted(LISTED))
def test_formulas_of_the_reference_are_not_cut(name):
    module, _, attribute = name.rpartition(".")
    text = inspect.getdoc(getattr(importlib.import_module(module), attribute)) or ""
    summary = text.split("\n---")[0]  # indented lines above the first section are shown as they stand
    assert [line for line in summary.splitlines() if line.startswith("    ") and len(line) > WIDEST] == []


NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")  # whole numbers have to be as printed


def is_same_output(printed, found):
    """Whether the words are the same, and decimal numbers within 0.02 or 2 %: they depend on processors and versions."""
    if "..." in printed:
        return doctest.OutputChecker().check_output(printed, found, doctest.ELLIPSIS)
    words = (NUMBER.sub("#", text).split() for text in (printed, found))
    numbers = ([float(x) for x in NUMBER.findall(text)] for text in (printed, found))
    return next(words) == next(words) and next(numbers) == pytest.approx(next(numbers), rel=0.02, abs=0.02)


def test_outputs_are_compared_with_a_tolerance():
    assert is_same_output("as given 0.448\nrows 12\n", "as given 0.451\nrows  12\n")
    assert not is_same_output("as given 0.448\n", "as given 0.548\n")
    assert not is_same_output("rows 12\n", "rows 13\n") and not is_same_output("OPTIMAL 0.1\n", "UNKNOWN 0.1\n")


@pytest.mark.parametrize("page", sorted(CODE))
def test_code_on_the_page(page, scratch):
    """In one namespace, from top to bottom, as a reader would."""
    names = {"__name__": "__main__"}
    for code, printed in CODE[page]:
        with redirect_stdout(StringIO()) as out:
            exec(compile(code, page, "exec"), names)
        assert not printed or is_same_output(printed, out.getvalue())


def tables(page):
    """Every table of a page as its header and its rows, each a list of cells."""
    lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    ]
    starts = [k for k, line in enumerate(lines[1:], 1) if line and set("".join(line)) <= {"-", ":"}]
    for start in starts:
        end = next((k for k in range(start, len(lines)) if not lines[k]), len(lines))
        yield lines[start - 1], lines[start + 1 : end]


ALSO_CALLED = {
    "NCA": ("NCA, scaling chosen", "NCA"),
    "scaled": ("scaled", "standardised"),
    "as given": ("as given", "Euclidean"),
}


def accuracies(setting, *methods):
    """The accuracies of the methods in every row of that name that has all of them; a mean may be of a part of the settings."""
    for page in ("defaults.md", "dimension_reduction.md"):
        for header, rows in tables(page):
            columns = [
                next((header.index(name) for name in ALSO_CALLED.get(m, (m,)) if name in header), -1) for m in methods
            ]
            for row in rows:
                if min(columns) >= 0 and row[0].rstrip(" *").split(" (")[0].split(",")[0] == setting:
                    numbers = [re.match(r"0?\.\d+", row[k]) if k < len(row) else None for k in columns]
                    if all(numbers):
                        yield [float(number[0]) for number in numbers]


# what docs/guide/which.md says in words: on this data set the first method is better than the second
STATEMENTS = [
    ("wine", "scaled", "as given"),
    ("mnist", "as given", "scaled"),
    ("usps", "as given", "scaled"),
    ("mean", "MetricLearner()", "NCA"),
    ("mean", "MetricLearner()", "LDA"),
    ("diabetes", "NCA", "MetricLearner()"),
    ("diabetes", "LDA", "MetricLearner()"),
    ("wine", "LDA", "MetricLearner()"),
    ("breast-cancer", "as given", "MetricLearner()"),
    ("soybean-large", "n_components", "NCA"),
    ("spambase", "NCA", "LDA"),
]


@pytest.mark.parametrize(("setting", "better", "worse"), STATEMENTS)
def test_which_method_is_better_is_what_the_tables_say(setting, better, worse):
    text = (ROOT / "docs" / "guide" / "which.md").read_text(encoding="utf-8")
    assert re.search(rf"\b{setting}\b", text)
    found = list(accuracies(setting, better, worse))
    assert found and all(above > below for above, below in found), found


def test_accuracies_are_read_from_rows_that_have_all_methods():
    assert list(accuracies("wine", "as given", "scaled")) and not list(accuracies("wine", "as given", "no such method"))


def test_which_names_parameters_that_are_there():
    text = (ROOT / "docs" / "guide" / "which.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if "nearest_correlation" in line)
    named = set(re.findall(r"`(\w+)=`", row))
    assert {"fixed", "min_eig", "rank"} <= named <= set(inspect.signature(bregmat.nearest_correlation).parameters)


EXAMPLES = sorted((ROOT / "examples").rglob("plot_*.py"))


def test_the_gallery_has_every_example():
    """At least 16, each by itself what the site's settings take into the gallery, run."""
    settings = next(
        node.value
        for node in ast.parse((ROOT / "docs" / "conf.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "sphinx_gallery_conf"
    )
    gallery = {ast.literal_eval(key): value for key, value in zip(settings.keys, settings.values)}
    (folder,) = ast.literal_eval(gallery["examples_dirs"])
    assert (ROOT / "docs" / folder).resolve() == ROOT / "examples"
    scripts = sorted((ROOT / "examples").rglob("*.py"))
    assert len(scripts) >= 16
    pattern = ast.literal_eval(gallery["filename_pattern"])
    assert all(re.search(pattern, str(script)) for script in scripts)  # others are shown, but not run
    assert not set(gallery) & {"ignore_pattern", "plot_gallery"} and ast.literal_eval(gallery["abort_on_example_error"])
    assert {"sphinx_gallery.gen_gallery"} <= set(
        re.findall(r'"([\w.]+)"', (ROOT / "docs" / "conf.py").read_text("utf-8"))
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_asserts_what_it_shows(example):
    """An assertion on a number or a status, not on a constant: an example that fails its purpose fails the build."""
    found = [node.test for node in ast.walk(ast.parse(example.read_text("utf-8"))) if isinstance(node, ast.Assert)]
    assert any(isinstance(node, ast.Compare | ast.Call) for test in found for node in ast.walk(test)), example.name
    assert not any(isinstance(test, ast.Constant) for test in found)


def test_the_gallery_has_one_style():

    with plt.style.context("bregmat.plots.bregmat"):
        colors = tuple(f"#{color}".replace("##", "#") for color in plt.rcParams["axes.prop_cycle"].by_key()["color"])
    display = EmbeddingDisplay.from_data(np.eye(7), np.eye(7), y=list("abcdefg"), draw=False)
    assert colors == tuple(color for _, color, _ in display.legend_entries())
    assert len(EXAMPLES) >= 16
    for example in EXAMPLES:
        text = example.read_text(encoding="utf-8")
        assert 'plt.style.use("bregmat.plots.bregmat")' in text, example.name
        assert text.rstrip().endswith("plt.show()"), example.name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_thumbnail_shows_one_panel(example):
    """A comment names the figure, and the axes whose rectangle docs/_ext/panel.py saves."""
    (panel,) = re.findall(
        r"^ *# sphinx_gallery_thumbnail_panel = (\(\d+, \d+(?:, \d+)?\))\n.*plt\.", example.read_text("utf-8"), re.M
    )
    figure, first, *last = ast.literal_eval(panel)
    assert figure >= 1 and all(first < axes for axes in last)
    assert not re.search("thumbnail_(number|path)", example.read_text("utf-8"))


FIGURE = re.compile(r"^```\{figure\} (?:\.\./)?gallery/(\w+)/images/sphx_glr_(\w+)_(\d{3})\.png\n:alt: \w.*$", re.M)
WITH_PICTURES = [
    "tutorial",
    *(
        f"guide/{name}"
        for name in (
            "labels",
            "embeddings",
            "pairs",
            "triplets",
            "stream",
            "kernel",
            "correlation",
            "problems",
            "recipes",
        )
    ),
]


@pytest.mark.parametrize("page", WITH_PICTURES)
def test_a_page_has_pictures_that_the_gallery_draws(page):
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    found = FIGURE.findall(text)
    assert found and len(found) == text.count("```{figure}")
    for section, name, number in found:
        code = (ROOT / "examples" / section / f"{name}.py").read_text("utf-8")
        assert 1 <= int(number) <= len(re.findall(r"^ *[^#\n]*plt\.(?:subplots|figure)\(", code, re.M))


def test_the_page_of_scaling_has_a_picture_that_is_there():
    (name,) = re.findall(r"^!\[[^]]{40,}\]\((\S+\.png)\)$", (ROOT / "docs/scaling.md").read_text("utf-8"), re.M)
    assert (ROOT / "docs" / name).exists()


def test_pages_link_to_files_that_a_clone_has():
    """Also to examples, which the site shows in its gallery: docs/conf.py changes these links."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)", page.read_text("utf-8"))
        if not link.endswith(".html")
    ]
    assert len(links) > 100 and sum("/examples/" in link for _, link in links) > 15
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []
    ours = "https://github.com/bregmat/bregmat/"
    named = re.findall(rf"{ours}(?:blob|tree)/main/([^)#\s]+)", (ROOT / "README.md").read_text("utf-8"))
    assert len(named) > 15 and all((ROOT / name).exists() for name in named)


NARROW = """<!DOCTYPE html><link rel="stylesheet" href="{css}"><body style="width: 368px"><article class="bd-article">
<table class="table"><thead><tr><th>you have</th><th>take</th><th>because</th></tr></thead>
<tbody><tr><td>columns in different units, and more words</td><td><code>sklearn.preprocessing.StandardScaler</code></td>
<td>scaling is most of the gain on many data sets, more than can stand beside the other two cells</td></tr></tbody></table>
<script>const t = document.querySelector("table"), cells = [...t.querySelectorAll("td")].map(e => e.getBoundingClientRect());
document.title = [t.scrollWidth - t.clientWidth, ...cells.map(r => Math.round(r.left)), ...cells.map(r => Math.round(r.width))].join(" ");
</script></article></body>"""


@pytest.mark.parametrize(("width", "is_stacked"), [(400, True), (1280, False)])
def test_tables_of_words_need_no_scrolling_on_a_telephone(width, is_stacked, tmp_path):
    page, css = tmp_path / "page.html", (ROOT / "docs" / "_static" / "site.css").as_uri()
    page.write_text(NARROW.replace("{css}", css), encoding="utf-8")
    frame = tmp_path / "frame.html"  # a window is at least 500 pixels wide
    frame.write_text(
        f'<iframe src="page.html" style="width:{width}px"></iframe><script>addEventListener("load", () => '
        "document.title = document.querySelector('iframe').contentDocument.title)</script>",
        encoding="utf-8",
    )
    dom = chromium(
        frame, tmp_path / "profile", "--dump-dom", "--allow-file-access-from-files", "--window-size=1400,900"
    )
    overflow, *places = map(int, re.search("<title>(.*?)</title>", dom)[1].split())
    left, wide = places[:3], places[3:]
    assert (len(set(left)) == 1) == is_stacked
    assert not is_stacked or overflow <= 0 and min(wide) > 300


PICTURE = """<!DOCTYPE html><link rel="stylesheet" href="{css}"><style>img {{ max-width: 100%; }}</style>
<body style="width: 368px"><article class="bd-article"><figure style="margin: 0">
<img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='1200' height='350'/>">
<figcaption>three panels</figcaption></figure>
<script>addEventListener("load", () => {{ const f = document.querySelector("figure"), i = document.querySelector("img");
document.title = [i.clientHeight, f.clientWidth, getComputedStyle(f).overflowX].join(" "); }});</script></article></body>"""


def test_pictures_of_several_panels_are_legible_on_a_telephone(tmp_path):
    """They keep a height, and scroll in a box of their own."""
    page = tmp_path / "page.html"
    page.write_text(PICTURE.format(css=(ROOT / "docs" / "_static" / "site.css").as_uri()), encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(
        '<iframe src="page.html" style="width:400px"></iframe><script>addEventListener("load", () => setTimeout(() => '
        "document.title = document.querySelector('iframe').contentDocument.title))</script>",
        encoding="utf-8",
    )
    dom = chromium(
        frame, tmp_path / "profile", "--dump-dom", "--allow-file-access-from-files", "--window-size=1400,900"
    )
    height, width, overflow = re.search("<title>(.*?)</title>", dom)[1].split()
    assert int(height) > 200 and int(width) == 368 and overflow == "auto"


def test_the_commands_of_the_readme_run_in_an_empty_folder(tmp_path):
    """All but the last one, which opens a page. They make their own files."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    (block,) = [block for block in blocks if "bregmat learn" in block]
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    assert lines[-1] == "bregmat label points.csv"
    folder = tmp_path / "empty"
    folder.mkdir()
    started = {"python": [sys.executable], "bregmat": [sys.executable, "-m", "bregmat"]}
    for line in lines[:-1]:
        command, _, target = line.partition(" > ")
        name, *arguments = shlex.split(command)
        done = subprocess.run(
            [*started.get(name, [name]), *arguments], cwd=folder, check=True, capture_output=True, timeout=240
        )
        if target:
            (folder / target).write_bytes(done.stdout)
    assert {path.name for path in folder.iterdir()} >= {"model.bm", "report.html", "mapped.csv", "repaired.csv"}


def tool_of_the_site(name):
    """The module docs/NAME.py, which `make docs` runs on the built site."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.mark.parametrize(("word", "page"), tool_of_the_site("check_search").ANSWERS.items())
def test_a_word_is_in_a_heading_of_the_page_that_answers(word, page):
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / f"{page}.md").read_text("utf-8"), re.M)
    assert any(word.lower() in heading.lower() for heading in headings)


def test_the_search_index_is_checked(tmp_path):
    tool = tool_of_the_site("check_search")
    titles = {word: [[k, None]] for k, word in enumerate(tool.ANSWERS)}
    index = {
        "docnames": list(tool.ANSWERS.values()),
        "alltitles": {f"About {word}s": at for word, at in titles.items()},
    }
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})", encoding="utf-8")
    assert tool.not_found(tmp_path) == []
    index["alltitles"].pop("About LMNNs")
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})", encoding="utf-8")
    assert tool.not_found(tmp_path) == ["LMNN: migration is not found, but []"]


def test_links_of_a_page_are_checked(tmp_path):
    tool = tool_of_the_site("check_links")
    (tmp_path / "a.html").write_text('<h1 id="here"></h1><a href="b.html#there">', encoding="utf-8")
    (tmp_path / "b.html").write_text(
        '<a href="a.html#here"><a href="https://x.org/y"><img src="c.png">', encoding="utf-8"
    )
    broken, inside, outside = tool.broken_links(tmp_path)
    assert broken == ["a.html: b.html#there: no such place in the page", "b.html: c.png: no such file"]
    assert (inside, outside) == (3, 1)
