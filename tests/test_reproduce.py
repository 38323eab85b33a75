"""The frame of the experiments: resuming, tables, pictures, the page and the command."""

import csv
import dataclasses
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import bregmat_papers
from bregmat_app.cli import papers as command
from bregmat_app.cli.app import app
from bregmat_papers import DataHome, Experiment, Row, Size, experiment, experiment_names, reproduce, runner
from bregmat_papers.datasets import DataNotFoundError
from bregmat_papers.drawing import log_scale
from bregmat_papers.experiments import mean_and_error, select
from bregmat_papers.page import differing_rows, digest, plain, read_entry, with_error, write_page

pytestmark = pytest.mark.slow

CALLS: list[int] = []


def run(unit, data):
    CALLS.append(unit["k"])
    return {"square": unit["k"] ** 2, "missing": float("nan")}


def units(size):
    return [{"k": k} for k in range({Size.SMALL: 2, Size.DEFAULT: 4, Size.FULL: 6}[size])]


def table(findings):
    mean, error = mean_and_error([found["square"] for _, found in findings])
    return [Row("mean | square", mean, 2.5, "cm", error, len(findings), 0, "a note"), Row("count", len(findings))]


def draw(figure, findings):
    figure.subplots().plot([unit["k"] for unit, _ in findings], [found["square"] for _, found in findings])


TOY = Experiment(
    module=__name__,
    name="toy",
    title="Squares",
    source="Nobody 1999, Figure 0",
    protocol="Squares are taken.",
    discussion="No difference.",
    units=units,
    run=run,
    table=table,
    draw=draw,
)


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def test_table_and_picture_are_written(tmp_path):
    steps = []
    report = reproduce(TOY, tmp_path / "new" / "folder", progress=steps.append)
    assert report.is_complete and report.size is Size.DEFAULT and CALLS == [0, 1, 2, 3]
    assert [(step.done, step.total) for step in steps] == [(k, 4) for k in range(5)]
    assert steps[2].unit == {"k": 2} and steps[4].unit is None
    with report.csv.open() as handle:
        first, second = csv.DictReader(handle)
    assert first["quantity"] == "mean | square" and float(first["ours"]) == 3.5 and float(first["difference"]) == 1.0
    assert float(first["standard_error"]) == pytest.approx(np.std([0, 1, 4, 9], ddof=1) / 2, rel=1e-5)  # six digits
    assert second["paper"] == second["difference"] == second["standard_error"] == ""
    assert report.picture.read_bytes().startswith(b"\x89PNG")


def test_what_is_done_is_not_done_again(tmp_path):
    first = reproduce(TOY, tmp_path)
    again = reproduce(TOY, tmp_path)
    assert CALLS == [0, 1, 2, 3]
    assert json.dumps(again.findings) == json.dumps(first.findings) and again.seconds == first.seconds
    assert reproduce(TOY, tmp_path, size="small").total == 2  # another size has a file of its own
    assert CALLS == [0, 1, 2, 3, 0, 1]


def test_interrupt_keeps_what_is_done_although_a_solver_would_swallow_it(tmp_path):
    def interrupted(unit, data):
        if unit["k"] == 2:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:  # what a solver does with it
                return {"square": -1.0}
        return run(unit, data)

    broken = dataclasses.replace(TOY, run=interrupted)
    report = reproduce(broken, tmp_path)
    assert not report.is_complete and len(report.findings) == 2 and report.rows == [] and report.csv is None
    assert not (tmp_path / "toy.csv").exists()
    report = reproduce(TOY, tmp_path)  # the same file, so the same code
    assert report.is_complete and CALLS == [0, 1, 2, 3]
    assert [found["square"] for _, found in report.findings] == [0, 1, 4, 9]


def test_last_line_that_was_cut_short_is_done_again(tmp_path):
    reproduce(TOY, tmp_path)
    log = tmp_path / "toy.default.jsonl"
    log.write_text(log.read_text()[:-5])
    assert reproduce(TOY, tmp_path).is_complete
    assert CALLS == [0, 1, 2, 3, 3]
    assert len(log.read_text().splitlines()) == 5


def test_other_units_set_the_old_file_aside(tmp_path):
    reproduce(TOY, tmp_path)
    log, texts = tmp_path / "toy.default.jsonl", []
    for k in (7, 8):
        texts.append(log.read_text())
        changed = dataclasses.replace(TOY, units=lambda size, k=k: [{"k": k}])
        assert reproduce(changed, tmp_path).findings[0][1]["square"] == k**2
    assert [(tmp_path / f"toy.default.old{k}.jsonl").read_text() for k in (1, 2)] == texts


def test_bundled_data_do_not_pass_for_published_files(tmp_path, monkeypatch):
    monkeypatch.delenv("BREGMAT_DATA", raising=False)
    reproduce(TOY, tmp_path)
    reproduce(TOY, tmp_path, data=DataHome(tmp_path))
    assert CALLS == [0, 1, 2, 3, 0, 1, 2, 3]


def test_two_processes_in_one_folder_only_do_some_work_twice(tmp_path):
    reproduce(TOY, tmp_path)
    log = tmp_path / "toy.default.jsonl"
    head, *lines = log.read_text().splitlines()
    log.write_text("\n".join([head, lines[2], lines[0], lines[0], lines[1]]) + "\n")
    report = reproduce(TOY, tmp_path)
    assert CALLS == [0, 1, 2, 3, 3] and [unit["k"] for unit, _ in report.findings] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", [b"[1]\n", b"garbage\n", b"\xff\xfe\x00\n", b"7\n"])
@pytest.mark.parametrize("line", [0, 2])
def test_file_of_something_else_is_named(tmp_path, text, line):
    reproduce(TOY, tmp_path)
    log = tmp_path / "toy.default.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[line] = text
    log.write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=rf"toy\.default\.jsonl: line {line + 1} is not what a run wrote"):
        reproduce(TOY, tmp_path)
    assert log.read_bytes() == b"".join(lines)


def test_sizes_do_not_overwrite_each_other(tmp_path):
    names = [reproduce(TOY, tmp_path, size=size).csv.name for size in Size]
    assert names == ["toy.small.csv", "toy.csv", "toy.full.csv"]


def test_large_seeds_stay_whole(tmp_path):
    seeded = dataclasses.replace(TOY, table=lambda findings: [Row("a", 1.0, seed=20090302), Row("b", 2.0)])
    with reproduce(seeded, tmp_path).csv.open() as handle:
        assert [row["seed"] for row in csv.DictReader(handle)] == ["20090302", ""]


def test_fingerprint_covers_the_modules_that_experiments_share():
    from bregmat_papers import gyrb, spambase
    from bregmat_papers.runner import _sources

    assert {path.name for path in _sources(Path(gyrb.__file__), set())} == {"gyrb.py", "gyrb_targets.py"}
    assert {path.name for path in _sources(Path(spambase.__file__), set())} == {
        "spambase.py",
        "slack_clustering.py",
        "clustering.py",
    }
    assert all(experiment(name).module.startswith("bregmat_papers.") for name in experiment_names())


def test_fingerprint_ignores_words_and_minds_code():
    from bregmat_papers.runner import _code

    text = '"""Doc."""\nX = Experiment(protocol="Words.", units=lambda size: [{"k": 2}])  # said\n'
    assert _code(text) == _code(text.replace("Doc", "Other").replace("Words", "More").replace("said", "else"))
    assert _code(text) != _code(text.replace("2", "3"))


def test_select_and_numbers():
    findings = [({"a": 1, "b": 2}, {}), ({"a": 1, "b": 3}, {}), ({"a": 2, "b": 3}, {})]
    assert select(findings, a=1) == findings[:2] and select(findings, a=1, b=3) == findings[1:2]
    mean, error = mean_and_error([4.0])
    assert mean == 4.0 and np.isnan(error)
    assert plain(None) == plain(float("nan")) == "" and plain(3220.0) == "3,220" and plain(0.12345) == "0.1235"
    assert with_error(Row("x", 0.5, standard_error=0.012345)) == "0.5 ± 0.012"


def paper_of(page):
    """The page of TOY's paper beside an overview."""
    return page.with_suffix("") / "nobody-1999.md"


def test_page_shows_table_and_picture(tmp_path):
    report = reproduce(TOY, tmp_path / "out", size="full")
    page = write_page(tmp_path / "reproduction.md", [(TOY, report)])
    assert "`bregmat reproduce --page reproduction.md`" in page.read_text()
    text = paper_of(page).read_text()
    assert text.startswith("# Nobody 1999:") and "](../reproduction.md)" in text
    assert "## toy: Squares" in text and "*Nobody 1999, Figure 0.* Size: full" in text
    assert f"s at {runner.code_version()}; 2 rows, digest {digest(report.rows)}." in text
    assert "| quantity | ours | paper | unit | repeats | note |" in text
    assert "| mean \\| square | 9.167 ± " in text and "1 rows without a number of the paper" in text
    assert "| count | 6 |\n\n</details>" in text
    assert "![Squares](toy.full.png)" in text and (tmp_path / "reproduction" / "toy.full.png").is_file()
    assert "No difference." in text
    assert "**This is the small size" not in text
    small = paper_of(write_page(tmp_path / "out.md", [(TOY, reproduce(TOY, tmp_path / "out", size="small"))]))
    assert "Size: small" in small.read_text() and "**This is the small size" in small.read_text()
    assert "![Squares](toy.small.png)" in small.read_text()  # the folder of the run is that of the page
    with pytest.raises(ValueError, match=r"must be a file that ends in \.md; got 'report'"):
        write_page("report", [(TOY, report)])
    unfinished = dataclasses.replace(report, findings=[])
    with pytest.raises(ValueError, match="entries: toy not complete"):
        write_page(page, [(TOY, unfinished)])


def test_names_are_those_of_the_modules():
    assert len(set(experiment_names())) == len(experiment_names())
    for name in experiment_names():
        item = experiment(name)
        assert item.name == name and item.title and item.source and len(item.protocol) > 100
        for size in Size:
            work = item.units(size)
            assert work and json.loads(json.dumps(work)) == work
    with pytest.raises(ValueError, match="name='figure-7' is no known experiment; known: meg-online"):
        experiment("figure-7")


def test_every_set_is_read_once(data_home):
    home = DataHome(data_home)
    assert home.table("wine") is home.table("wine")
    assert home.sonar_split is home.sonar_split and home.groel2 is home.groel2
    with pytest.raises(DataNotFoundError):
        DataHome(data_home / "nowhere").table("sonar")


# ---------------------------------------------------------------- the command
@pytest.fixture
def bregmat(monkeypatch, tmp_path):
    """bregmat("reproduce", ...) in a fresh folder, where "toy" is the only experiment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for module in (command, bregmat_papers):
        monkeypatch.setattr(module, "experiment_names", lambda: ("toy",))
        monkeypatch.setattr(
            module, "experiment", lambda name: {"toy": TOY}[name] if name == "toy" else experiment(name)
        )

    def call(*arguments):
        return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], catch_exceptions=False)

    return call


def test_command_prints_the_table_and_writes_the_page(bregmat, tmp_path):
    done = bregmat("--page", "page.md")
    assert done.exit_code == 0, done.output
    assert "mean | square" in done.stdout and "3.5 ± " in done.stdout and "2.5" in done.stdout
    assert (tmp_path / "bregmat-reproduction" / "toy.csv").is_file()
    assert "## toy" in paper_of(tmp_path / "page.md").read_text()


def test_page_may_go_to_the_new_folder(bregmat, tmp_path):
    done = bregmat("--out", "new", "--page", "new/page.md")
    assert done.exit_code == 0 and (tmp_path / "new" / "page.md").is_file(), done.output


def test_command_lists(bregmat):
    done = bregmat("--list")
    assert done.exit_code == 0 and "Squares (Nobody 1999, Figure 0)" in done.stdout and CALLS == []


def test_interrupted_command_says_how_to_go_on(bregmat, monkeypatch):
    monkeypatch.setattr(
        command, "experiment", lambda name: dataclasses.replace(TOY, run=lambda *_: signal.raise_signal(signal.SIGINT))
    )
    done = bregmat("toy")
    assert done.exit_code == 130
    assert "0 of 4 pieces of toy are done and kept in bregmat-reproduction" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure-7"], "no known experiment"),
        (["--full", "--small"], "exclude each other"),
        (["--page", "report"], "ends in .md"),
        (["--page", "no/such/page.md"], "page.md"),
    ],
)
def test_bad_arguments(bregmat, arguments, message):
    done = bregmat(*arguments)
    assert done.exit_code == 2 and message in done.stderr
    assert CALLS == []


@pytest.mark.parametrize("absent", ["pandas", "matplotlib"])
def test_absent_package_is_named_with_the_extra_before_any_work(bregmat, monkeypatch, absent):
    monkeypatch.setattr(runner, "find_spec", lambda name: None if name == absent else name)
    done = bregmat("toy")
    assert done.exit_code == 2 and absent in done.stderr and 'pip install "bregmat[reproduce]"' in done.stderr
    assert CALLS == []


def test_absent_data_is_one_line(bregmat, monkeypatch):
    monkeypatch.delenv("BREGMAT_DATA", raising=False)
    lacking = dataclasses.replace(TOY, run=lambda unit, data: {"square": len(data.table("sonar").X)})
    monkeypatch.setattr(command, "experiment", lambda name: lacking)
    done = bregmat("toy", "toy")
    assert done.exit_code == 2 and done.stderr.count("BREGMAT_DATA is not set") == 1
    assert "--download" in done.stderr and "not run for lack of data: toy" in done.stderr
    Path("page.md").write_text("an older page")  # one that a partial page must not replace
    done = bregmat("toy", "--page", "page.md")
    assert done.exit_code == 2 and "page.md is not written" in done.stderr
    assert Path("page.md").read_text() == "an older page"


def test_notes_are_left_to_the_file(bregmat, tmp_path):
    done = bregmat("toy")
    assert "mean | square" in done.stdout and "a note" not in done.stdout
    assert "a note" in Path("bregmat-reproduction/toy.csv").read_text()


def test_overview_is_a_table_of_verdicts(tmp_path):
    toy = dataclasses.replace(TOY, verdict="found | again", headline=("mean | square",))
    text = write_page(tmp_path / "page.md", [(toy, reproduce(toy, tmp_path))]).read_text()
    entry = "[toy](page/nobody-1999.md#toy-squares): Nobody 1999, Figure 0"
    assert f"| {entry} | found \\| again | mean \\| square | 3.5 ± 2 cm | 2.5 cm |" in text


def test_entries_of_other_experiments_are_kept(tmp_path):
    page = tmp_path / "page.md"
    other = dataclasses.replace(TOY, name="other", headline=("mean | square", "count"), verdict="found again")
    elsewhere = dataclasses.replace(TOY, name="elsewhere", source="A, B and C 2001, Table 2")
    items = (TOY, other, elsewhere)
    for item in items:
        write_page(page, [(item, reproduce(item, tmp_path / "out"))])
    files = (page, paper_of(page), page.with_suffix("") / "a-2001.md")
    texts = [file.read_text() for file in files]
    assert [texts[0].count(f"| [{item.name}](") for item in items] == [1, 1, 1] and "|  |  | count | 4 |" in texts[0]
    assert texts[0].index("| [toy](") < texts[0].index("| [other](") < texts[0].index("| [elsewhere](page/a-2001.md")
    assert texts[1].index("## toy:") < texts[1].index("## other:") and "## elsewhere:" not in texts[1]
    for item in items:
        write_page(page, [(item, reproduce(item, tmp_path / "out"))])
        assert [file.read_text() for file in files] == texts


def test_a_page_is_compared_with_a_rerun(tmp_path):
    report = reproduce(TOY, tmp_path)
    page = write_page(tmp_path / "page.md", [(TOY, report)])
    _, printed, rows = read_entry(page, "toy")
    assert printed == digest(rows) == digest(report.rows) and differing_rows(report.rows, rows) == []
    mean, count = report.rows
    within = dataclasses.replace(mean, ours=mean.ours + 1.9 * mean.standard_error)
    beyond = dataclasses.replace(mean, ours=mean.ours + 2.1 * mean.standard_error)
    assert differing_rows([within, count], rows) == [] and digest([within, count]) != printed
    assert [line.split(":")[0] for line in differing_rows([beyond], rows)] == ["count", "mean | square"]
    assert differing_rows([mean, Row("count", 4.2)], rows) == ["count: 4.2, on the page 4"]
    assert differing_rows([mean, count, Row("new", 1.0)], rows) == ["new: not on the page"]
    with pytest.raises(ValueError, match="name='other': the page has no entry"):
        read_entry(page, "other")


def test_digest_leaves_out_seconds_and_noise():
    rows = [Row("a", 0.12345), Row("gap", 2e-14), Row("solve", 3.0, unit="s")]
    same = [Row("gap", -5e-15), Row("a", 0.12349), Row("solve", 9.0, unit="s")]
    assert digest(rows) == digest(same) != digest([Row("a", 0.125), *rows[1:]])


def test_the_version_is_the_commit_of_this_clone_or_of_the_package(monkeypatch):
    runner.code_version.cache_clear()
    root = Path(__file__).parents[1]
    is_clone = (root / ".git").exists() and Path(runner.__file__).is_relative_to(root)
    pattern = r"[0-9a-f]{7,40}(-dirty)?" if is_clone else r"version \d.*"
    assert re.fullmatch(pattern, runner.code_version())
    monkeypatch.setenv("PATH", "")
    runner.code_version.cache_clear()
    assert runner.code_version() == f"version {runner.__version__}"
    runner.code_version.cache_clear()


PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"


@pytest.mark.parametrize("name", experiment_names())
def test_digests_of_the_committed_pages_are_those_of_their_rows(name):
    _, printed, rows = read_entry(PAGE, name)
    assert digest(rows) == printed


def test_verdicts_of_the_committed_pages():
    overview = PAGE.read_text(encoding="utf-8")
    parts = [
        part for paper in PAGE.with_suffix("").glob("*.md") for part in paper.read_text("utf-8").split("\n## ")[1:]
    ]
    assert sorted(part.split(":")[0] for part in parts) == sorted(bregmat_papers.experiment_names())
    for part in parts:
        known = experiment(part.split(":")[0])
        assert f"{known.source} | {known.verdict} |" in overview and known.verdict and known.headline
        assert f"*{known.source}.*" in part and re.search(r"s at [0-9a-f]{7,40}(, [0-9a-f]{7,40})*;", part)
        for quantity in known.headline:
            (row,) = re.findall(rf"^\| {re.escape(quantity)} \| ([^|]*) \|", part, re.M)
            assert f"| {quantity} | {row}" in overview


# ---------------------------------------------------------------------------------------------- logarithmic axes
def ticks(low, high):
    """Ticks of a logarithmic axis and its limits."""
    ax = Figure().subplots()
    ax.plot([0, 1], [low, high])
    log_scale(ax.yaxis, low, high)
    ax.set_ylim(low, high)
    ax.figure.canvas.draw()
    return ax.get_yticklabels(), ax.get_ylim()


def test_an_axis_within_three_decades_has_readable_ticks():
    assert {"0.5", "1", "2"} <= {t.get_text() for t in ticks(0.5, 3.0)[0]}


def test_an_axis_over_decades_has_powers_of_ten():
    labels, (low, high) = ticks(1e-8, 1e4)  # Matplotlib's versions choose other powers
    shown = [t for t in labels if low <= t.get_position()[1] <= high]
    words = {1e-2: "0.01", 1e-1: "0.1", 1.0: "1", 10.0: "10", 100.0: "100", 1000.0: "1,000"}
    words |= {
        10.0**k: "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")) for k in (*range(-9, -2), 4, 5)
    }
    assert len(shown) >= 4
    assert [t.get_text() for t in shown] == [words[round(t.get_position()[1], 12)] for t in shown]
