"""The HTML report as text and as a file: complete in itself, safe, written whole or not at all."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest
import scipy.sparse as sp

from bregmat import Constraints, ExitReason, MetricLearner, Status, nearest_metric
from bregmat.base.html import number, seconds
from bregmat_app.report import ReportData, render_report
from reporting import PICTURES, wine_learned

nan, inf = float("nan"), float("inf")
SECTIONS = ["summary", "embedding", "violations", "certificate", "learned"]


@pytest.fixture
def wine():
    return wine_learned()


@pytest.fixture(scope="module")
def wine_html():
    return render_report(wine_learned())


class Page(HTMLParser):
    """What a test wants to know of a page: ids, headings, text, references, elements that run or load."""

    def __init__(self, html):
        super().__init__()
        self.ids, self.references, self.tags, self.text, self.headings = [], [], [], [], []
        self.table, self._in = {}, None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"):
                self.references.append(value)
            assert not name.startswith("on"), f"{tag} runs a script: {name}={value}"
            if name == "style":
                self.references += re.findall(r"url\(([^)]*)\)", value)
        if tag in ("h1", "h2"):
            self.headings.append("")
            self._in = tag

    def handle_endtag(self, tag):
        if tag == self._in:
            self._in = None

    def handle_data(self, data):
        self.text.append(data)
        if self._in:
            self.headings[-1] += data


# ---------------------------------------------------------------------------------------------- the page as text
@pytest.mark.slow
def test_report_has_every_section_in_order(wine_html):
    page = Page(wine_html)
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS
    assert page.headings == [
        "Metric learned from wine",
        "Before and after",
        "The points in two dimensions",
        "Worst violated constraints",
        "Certificate",
        "What was learned",
    ]
    assert page.tags.count("svg") == len(PICTURES)


def test_report_loads_nothing(wine_html):
    page = Page(wine_html)
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references), page.references[:5]
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert "://" not in re.sub(r'xmlns="[^"]*"', "", wine_html)
    assert "@import" not in wine_html
    assert len(wine_html) < 1_000_000


def test_report_ids_are_unique_and_references_resolve(wine_html):
    page = Page(wine_html)
    assert len(page.ids) == len(set(page.ids))
    assert {ref[1:] for ref in page.references if ref.startswith("#")} <= set(page.ids)


def test_report_says_what_was_measured(wine, wine_html):
    text = " ".join(Page(wine_html).text)
    for words in ("0.672 0.944 0.966", "10 of 300 – 250 of 300", "300 –", "logdet", "array of shape (13, 13)", "∞"):
        assert words in text
    assert f"Every matrix allowed in this problem has at least {number(wine.result.dual_bound, 7)}" in text
    assert "proven optimal" in text
    assert "Constraints with slack may be violated at a cost" in text
    assert seconds(wine.result.seconds) in text
    assert "A constraint with slack may be violated at a cost" in text
    before, among_scaled, after = (f"{share:.1%}" for share in wine.held_out.accuracy)
    assert (
        f"{after} get the right class from their 4 nearest neighbours: {before} with columns as given, {among_scaled} with"
        in text
    )
    better, _, worse = wine.held_out.compared()
    assert f"beats scaled columns in {better} of 5 folds" in text and f"loses in {worse}" in text
    same = wine.constraints.sense == 1
    assert f"{same.sum()} “at most” (similar pairs), {(~same).sum()} “at least” (dissimilar pairs)" in text


def test_report_lists_the_worst_rows(wine, wine_html):
    violation = wine.constraints.violation(wine.learner.transform(wine.X))
    np.testing.assert_allclose(violation, wine.result.violation, rtol=1e-6, atol=1e-9)
    worst = int(np.argmax(violation))
    shown = wine.constraints.describe(worst).replace("<", "&lt;").replace(">", "&gt;")
    rows = wine_html[wine_html.index('<table class="violations">') :]
    first = rows[rows.index("<tbody>") :]
    assert first.startswith(f'<tbody><tr><th scope="row">{worst}</th><td><code>{shown}</code></td>')
    assert wine_html.count("<code>sq_dist(") == 10
    assert f"{int((violation > 1e-3).sum())} of 360 constraints are violated" in wine_html


@pytest.mark.usefixtures("unrendered")
def test_report_without_violations_says_so(wine):
    generous = Constraints.sq_distance([0, 1], [2, 3], 1e9, "<=")
    html = render_report(replace(wine, constraints=generous))
    assert "All 2 constraints are met" in html
    assert '<table class="violations">' not in html


@pytest.mark.usefixtures("unrendered")
def test_report_says_when_nothing_is_gained(wine):
    scores = np.repeat([[0.9, 0.95, 0.95]], 5, axis=0)
    text = " ".join(Page(render_report(replace(wine, held_out=replace(wine.held_out, scores=scores)))).text)
    assert "On these folds the learned metric is not better than scaled columns." in text
    scores[:, 0] = 0.96
    text = " ".join(Page(render_report(replace(wine, held_out=replace(wine.held_out, scores=scores)))).text)
    assert "is not better than the points as given." in text


def test_report_without_classes(wine):
    """It says the names of samples."""
    X, n, learner = wine.X, len(wine.X), MetricLearner(strategy="neighbors", random_state=0).fit(wine.X, wine.y)
    rows, names = learner.constraints_, np.array([f"bottle-{k}" for k in range(n)])
    html = render_report(ReportData("wine", learner.result_, X, rows, learner=learner, sample_id=names))
    with pytest.raises(ValueError, match=f"sample_id must have one entry per row of X, {n}; got 3"):
        ReportData("wine", learner.result_, X, rows, sample_id=names[:3])
    page = Page(html)
    text = " ".join(page.text)
    assert re.search(rf"The learned metric agrees with [\d,]+ of {rows.n_constraints:,} statements", text)
    scaled, transformed = X / X.std(axis=0), learner.transform(X)
    worst = int(np.argmax(rows.violation(transformed)))
    first = html[html.index('<table class="violations">') :].split("<tbody>")[1].split("</tr>")[0]
    assert f">{number(rows.violation(scaled)[worst], 3)}<" in first
    assert re.search(r"<code>sq_dist\(bottle-\d+, bottle-\d+\)", html)
    assert "sample ids" in html


@pytest.mark.parametrize("row", [("accuracy", 0.9, 0.95), ("accuracy", 0.9, 0.95, 0.96, 0.97), ()])
def test_a_row_of_the_summary_has_a_name_and_three_values(wine, row):
    with pytest.raises(ValueError, match=r"a row of summary must have 4 entries, a name and 3 values; got \("):
        replace(wine, summary=[("NMI", 0.1, 0.2, 0.3), row])


def test_report_escapes_every_word_of_the_user(wine):
    evil = '<script>alert("x")</script>&\'$_'
    n = len(wine.X)
    data = replace(
        wine,
        title=evil,
        y=np.array([evil, evil + "2"])[np.arange(n) % 2],
        sample_id=[f"{evil}{k}" for k in range(n)],
        summary=[(evil, evil, evil, evil)],
        settings={evil: evil},
        warnings=[evil],
    )
    html = render_report(data)
    page = Page(html)
    assert "script" not in page.tags
    assert page.headings[0] == evil
    text = "".join(page.text)
    assert f"sq_dist({evil}" in text


@pytest.mark.slow
def test_report_of_other_relations(wine):
    constraints = Constraints.comparison([0, 1], [2, 3], [4, 5], [6, 7], 1.0) + Constraints.trace(5.0)
    assert "violations" in Page(render_report(replace(wine, constraints=constraints))).ids


@pytest.mark.slow
def test_report_of_sparse_points(wine):
    X = sp.csr_array(wine.X)
    result = nearest_metric(X, wine.constraints, slack_weight=1.0)
    page = Page(render_report(replace(wine, X=X, result=result, learner=None)))
    assert "embedding" in page.ids


def test_there_is_no_report_of_an_impossible_problem(wine):
    pairs = Constraints.sq_distance([0, 5, 0], [1, 6, 1], [1.0, 1.0, 4.0], ["<=", "<=", ">="])
    with pytest.raises(ValueError, match="no matrix was learned, so there is nothing to report: "):
        replace(wine, result=nearest_metric(wine.X, pairs), constraints=pairs)


def test_report_of_a_broken_run_shows_how_it_went(wine):
    broken = replace(wine.result, status=Status.UNKNOWN, exit_reason=ExitReason.NONFINITE)
    overflow = SimpleNamespace(transform=lambda X: np.full(X.shape, nan))
    page = Page(render_report(replace(wine, result=broken, learner=overflow)))
    assert [name for name in page.ids if "-" not in name] == ["summary", "certificate", "learned"]
    assert f"NONFINITE: {ExitReason.NONFINITE.advice}" in page.text


@pytest.mark.slow
def test_report_is_reproducible_and_leaves_matplotlib_as_it_was(wine):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    settings = dict(mpl.rcParams)
    first = render_report(wine)
    with mpl.rc_context({"axes.grid": True, "font.size": 30}):
        assert render_report(wine) == first
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == []


# ---------------------------------------------------------------------------------------------- numbers and words
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (nan, "–"), (inf, "∞"), (-inf, "−∞"), (0.0, "0"), (1.0, "1"), (0.05, "0.05"), (12.5, "12.5"),
        (1234.5678, "1,235"), (1e-6, "1e−6"), (-3.14159, "−3.142"), (1.5e12, "1.5e12"), (1234567, "1,234,567"),
        (np.int64(7), "7"),
        (np.float64(0.25), "0.25"), ("as it is", "as it is"), (True, "True"), ((5, 95), "(5, 95)"),
    ],
)  # fmt: skip
def test_number(value, text):
    assert number(value) == text


def test_seconds():
    assert [seconds(s) for s in (nan, 0.00123, 12.345, 600.0)] == ["–", "1.23 ms", "12.3 s", "10.0 min"]


@pytest.mark.parametrize("status", Status)
def test_result_html_says_what_is_proven(wine, status):
    result = replace(wine.result, status=status)
    html = result._repr_html_()
    page = Page(html)
    text = " ".join(page.text)
    assert result.proof_text() in text
    for name, value in result.certificate_rows():
        assert name in text
        assert value in text
    promise = f"So no other matrix is better by more than {number(max(result.gap, 1e-15), 2)} of the objective"
    assert (promise in text) == (status is Status.OPTIMAL)
    assert page.references == []


def test_proof_never_promises_more_than_rounding_allows(wine):
    def with_numbers(status, **numbers):
        return replace(wine.result, status=status, **numbers).proof_text()

    assert "1e−15 of the objective" in with_numbers(Status.OPTIMAL, gap=-3e-17)
    assert with_numbers(Status.UNKNOWN, dual_bound=-inf).endswith("No lower bound is known.")
    assert "by up to 0.25 of their bounds" in with_numbers(Status.UNKNOWN, max_violation=0.25)


@pytest.mark.slow
def test_reporting_without_jinja_says_how_to_install_it():
    code = "import sys; sys.modules['jinja2'] = None; from bregmat_app.report.page import _templates; _templates()"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "bregmat[plot]"' in failed.stderr


@pytest.mark.slow
def test_reporting_without_matplotlib_says_how_to_install_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None; from bregmat_app.report.pictures import picture; "
        "picture(None, name='x', size=(1, 1), alt='')"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "bregmat[plot]"' in failed.stderr


def test_report_of_a_metric_without_constraints(wine):
    learner = MetricLearner(strategy="softmax", prior="variance", random_state=0).fit(wine.X, wine.y)
    page = Page(render_report(ReportData("wine", learner.result_, wine.X, None, y=wine.y, learner=learner)))
    text = " ".join(page.text)
    assert "The metric was learned from classes, without constraints." in text
    assert "certificate" in page.ids and "learned" in page.ids
    assert "violations" not in page.ids
