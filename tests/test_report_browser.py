"""The HTML report in a real browser, without any network."""

import json
import re
import shutil
import subprocess
from html import escape

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest
from sklearn.datasets import load_digits

from bregmat_app.report import render_report
from reporting import PICTURES, learned, wine_learned

pytestmark = pytest.mark.slow


@pytest.fixture
def wine():
    return wine_learned()


PROBE = """<script>addEventListener("load", () => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.width, r.height]; };
  const size = e => [e.viewBox.baseVal.width, e.viewBox.baseVal.height];
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify({
    headings: [...document.querySelectorAll("h1, h2")].map(e => e.textContent),
    pictures: [...document.querySelectorAll("figure svg")].map(e => ({shown: box(e), natural: size(e)})),
    images: [...document.querySelectorAll("svg image")].map(e => box(e)),
    loaded: performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:")),
    width: document.documentElement.clientWidth,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    outside: [...document.querySelectorAll("figure svg text")].filter(e => {
      const t = e.getBoundingClientRect(), s = e.closest("svg").getBoundingClientRect();
      return t.left < s.left - 2 || t.right > s.right + 2 || t.top < s.top - 2 || t.bottom > s.bottom + 2;
    }).map(e => e.textContent),
    words: [...document.querySelectorAll("figure svg text")].map(e => e.textContent),
    letters: [...document.querySelectorAll("figure svg text")].map(e =>
      parseFloat(getComputedStyle(e).fontSize) * e.closest("svg").getBoundingClientRect().width / e.closest("svg").viewBox.baseVal.width),
    ink: getComputedStyle(document.querySelector("figure svg text")).fill,
    paper: getComputedStyle(document.body).backgroundColor,
  });
  document.body.append(pre);
});</script>"""


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.fail("no browser to open the report in; install one: apt-get update && apt-get install -y chromium")


def chromium(path, profile, *options):
    """Run headless Chromium on a file without any network."""
    command = [
        browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *options, path.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def look(path, tmp_path, *options, width=None):
    """What the browser made of the page: a copy with a measuring script is opened; in a frame of a width no window may have."""
    probed = tmp_path / "probed.html"
    html = path.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>")
    if width is not None:
        copy = "document.body.append(document.querySelector('iframe').contentDocument.querySelector('#probe'))"
        frame = f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{escape(html)}"></iframe>'
        html = f'<!DOCTYPE html><body>{frame}<script>addEventListener("load", () => {copy});</script></body>'
    probed.write_text(html, encoding="utf-8")
    dom = chromium(probed, tmp_path / "profile", "--dump-dom", *options)
    found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)
    return json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def written_report(folder, data):
    """The path of a report."""
    path = folder / "report.html"
    path.write_text(render_report(data), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["wine", "digits"])
def test_report_opens_in_a_browser(name, wine, tmp_path):
    digits = load_digits(return_X_y=True)
    data = wine if name == "wine" else learned(*digits, "Metric learned from digits", slack_weight=1.0)
    path = written_report(tmp_path, data)
    seen = look(path, tmp_path, "--window-size=1100,900")
    assert seen["headings"][0] == f"Metric learned from {name}"
    assert "Certificate" in seen["headings"]
    assert len(seen["pictures"]) == len(PICTURES)
    for picture in seen["pictures"]:
        assert min(picture["natural"]) > 100
        assert picture["shown"][0] > 250
        assert picture["shown"][1] / picture["shown"][0] == pytest.approx(
            picture["natural"][1] / picture["natural"][0], rel=0.01
        )
    assert all(min(image) > 5 for image in seen["images"])
    points = [image for image in seen["images"] if image[0] > 150]
    assert len(points) == (3 if name == "digits" else 0)  # many points are drawn as an image
    assert seen["loaded"] == []
    assert seen["overflow"] <= 0
    assert not seen["outside"], seen["outside"]  # no label is cut off
    assert (seen["ink"], seen["paper"]) == ("rgb(28, 33, 38)", "rgb(255, 255, 255)")


def test_report_on_a_narrow_dark_screen(wine, tmp_path):
    path = written_report(tmp_path, wine)
    seen = look(path, tmp_path, "--window-size=900,900", "--force-dark-mode", width=400)
    assert seen["width"] == 400
    assert seen["overflow"] <= 0
    assert not seen["outside"], seen["outside"]
    assert min(seen["letters"]) > 8  # pixels: small, and still read
    assert (seen["ink"], seen["paper"]) == ("rgb(231, 234, 238)", "rgb(22, 25, 29)")


def test_report_screenshot_is_not_blank(wine, tmp_path):
    path = written_report(tmp_path, wine)
    shot = tmp_path / "shot.png"
    chromium(path, tmp_path / "profile", "--window-size=1100,4000", f"--screenshot={shot}")
    pixels = mpl.image.imread(shot)[:, :, :3]
    assert pixels.shape == (4000, 1100, 3)
    for color in ("#0072B2", "#E69F00", "#009E73"):  # the classes
        distance = np.abs(pixels - np.array(mpl.colors.to_rgb(color))).max(axis=2)
        assert (distance < 0.25).sum() > 100, color
