"""`bregmat label` in a real browser, with real clicks and keys, and without one: requests that other pages might send."""

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import axe_core_python
import numpy as np
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from sklearn.datasets import load_digits
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import bregmat
from bregmat.io import read_constraints

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
DIGITS = load_digits().target
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"'`&amp;{{7*7}}",
    "‮abc​",
    "=cmd|' /C calc'!A0",
]


class Page:
    """A running `bregmat label` with its link."""

    def __init__(self, folder, *arguments):
        self.folder, self.arguments = folder, arguments
        self.start()

    def start(self, *more):
        command = [sys.executable, "-m", "bregmat", "label", *self.arguments, "--no-browser", *more]
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.link = self.process.stdout.readline().split()[-1]
        self.origin = self.link.split("/?")[0]
        self.host = self.origin.removeprefix("http://")

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        code = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def cookie(self):
        """The cookie for the token, as a program gets it."""
        opener = urllib.request.build_opener(NoRedirect)
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(self.link)
        with caught.value as answer_:
            assert answer_.code == 303
            return answer_.headers["set-cookie"].split(";")[0]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def served(folder):
    page = Page(folder, "--demo")
    yield page
    if page.process.poll() is None:
        page.stop()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One page for all tests that leave it as any other may find it."""
    yield from served(tmp_path_factory.mktemp("demo"))


@pytest.fixture
def own_demo(tmp_path):
    yield from served(tmp_path)


@pytest.fixture
def version(demo, browser):
    """The page is open, nothing is said in it, and the version is this one."""
    browser.get(demo.origin)
    if "works once" in browser.page_source:
        browser.get(demo.link)
    wait(browser, lambda: at(browser, "details") is not None, "the page")
    while browser.find_element(By.ID, "undo").is_enabled():
        now = int(at(browser, "version"))
        press(browser, "u")
        wait_for(browser, "version", now + 1)
    wait_for(browser, "details", now := int(at(browser, "version")))
    quiet(browser)
    return now


@pytest.fixture(scope="module")
def browser():
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.fail(f"{missing} needed: apt-get install -y chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ):
        options.add_argument(argument)
    for argument in (
        *("--disable-background-networking", "--disable-component-update", "--window-size=1280,900"),
        *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--force-prefers-reduced-motion"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found["chromedriver"]))
    yield driver
    driver.quit()


def wait(browser, condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: {browser.execute_script('return document.body.innerText')}"
        time.sleep(0.01)


def at(browser, name):
    return browser.execute_script(f"return document.body.dataset.{name} ?? null")


def wait_for(browser, name, value):
    """Until the page has drawn (version), asked (asked) or told all (details) of a version."""
    wait(browser, lambda: at(browser, name) == str(value), f"{name} {value}")


def text(browser, css):
    """Read in one go: what the page replaces in between is not asked for."""
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim()).join(' ')"
    return browser.execute_script(script, css)


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def asked(browser):
    return [int(number) for number in re.findall(r"digit (\d+)", text(browser, "#question .card span"))]


def answer(browser, version, click=False):
    """Answer the question truly, by key or click; the version after it is waited for."""
    wait_for(browser, "asked", version)
    i, j = asked(browser)
    is_same = DIGITS[i] == DIGITS[j]
    if click:
        browser.find_element(By.ID, "ask-same" if is_same else "ask-different").click()
    else:
        press(browser, "s" if is_same else "d")
    wait_for(browser, "version", version + 1)
    return i, j, is_same


def say(browser, event):
    """Say something through the page's own line, as a tab beside would."""
    browser.execute_script(
        "const s = new WebSocket(`ws://${location.host}/tab`);"
        "s.onopen = () => { s.send(arguments[0]); setTimeout(() => s.close(), 300); };",
        json.dumps({"type": "say", "event": event}),
    )


def quiet(browser):
    """What the browser complained of."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_thirty_answers_undo_contradiction_export(own_demo, browser, tmp_path):
    """The life of one session, by keys and clicks; killed in the middle and taken up again."""
    browser.get(own_demo.link)
    wait_for(browser, "details", 0)
    assert "token" not in browser.current_url and browser.title.startswith("Handwritten digits")
    given = [answer(browser, k, click=k % 5 == 0) for k in range(30)]
    wait_for(browser, "details", 30)
    assert len({pair[:2] for pair in given}) == 30
    assert "(30)" in text(browser, "#answers-title") and "OPTIMAL" in text(browser, "#status")
    assert text(browser, "#features").count("×") >= 5

    press(browser, "u")  # undo by key, redo by click
    wait_for(browser, "version", 31)
    assert "(29)" in text(browser, "#answers-title")
    browser.find_element(By.ID, "redo").click()
    wait_for(browser, "version", 32)
    assert "(30)" in text(browser, "#answers-title")

    # a contradiction: shown by name, resolved by softening one, and another by dropping
    say(browser, {"kind": "same", "points": [0, 1]})
    wait_for(browser, "version", 33)
    say(browser, {"kind": "different", "points": [0, 1]})
    wait_for(browser, "details", 34)
    box = browser.find_element(By.ID, "contradictions-box")
    assert box.is_displayed()
    for words in ("digit 0 and digit 1 are the same", "digit 0 and digit 1 are different"):
        assert words in box.text
    box.find_element(By.CSS_SELECTOR, "button.what").click()
    assert "marked on the map" in text(browser, "#announce")
    box.find_element(By.CSS_SELECTOR, "button[aria-label^='Soften']").click()
    wait_for(browser, "details", 35)
    assert not box.is_displayed() and "softened" in text(browser, "#answers")
    press(browser, "u")
    wait_for(browser, "details", 36)
    assert box.is_displayed()
    box.find_element(By.CSS_SELECTOR, "button[aria-label^='Drop']").click()
    wait_for(browser, "details", 37)
    assert not box.is_displayed() and "(31)" in text(browser, "#answers-title")

    own_demo.stop(signal.SIGKILL)
    wait(browser, lambda: browser.find_element(By.ID, "gone").is_displayed(), "told that the line is gone")
    own_demo.start("--resume")
    browser.get(own_demo.link)
    wait_for(browser, "details", 0)
    assert "(31)" in text(browser, "#answers-title")

    downloads = tmp_path / "downloads"
    downloads.mkdir()
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    names = {"constraints.csv", "model.bm", "report.html", "learn.py"}
    for link in browser.find_elements(By.CSS_SELECTOR, ".take a"):
        link.click()
    wait(browser, lambda: {p.name for p in downloads.iterdir()} == names, "downloads")
    with zipfile.ZipFile(downloads / "model.bm") as archive:
        assert {Path(name).suffix for name in archive.namelist()} <= {".npy", ".json"}  # no code
    learner = bregmat.load(downloads / "model.bm")
    again = bregmat.MetricLearner(**{name: getattr(learner, name) for name in ("prior", "slack_weight", "loss", "tol")})
    again.fit(load_digits().data, constraints=read_constraints(downloads / "constraints.csv"))
    assert np.array_equal(again.get_mahalanobis_matrix(), learner.get_mahalanobis_matrix())
    assert own_demo.stop() == 0
    assert [line for line in quiet(browser) if "WebSocket" not in line and "ERR_CONNECTION_REFUSED" not in line] == []


def test_keyboard_alone(version, browser):
    press(browser, "m", Keys.ARROW_RIGHT, Keys.ENTER)  # to the map, the point in the middle, picked
    assert text(browser, "#picked-count") == "1 point"
    press(browser, Keys.ARROW_RIGHT, Keys.ENTER)
    press(browser, Keys.ARROW_UP, " ")
    assert text(browser, "#picked-count") == "3 points"
    wait(browser, lambda: "now" in text(browser, "#neighbours"), "neighbours")
    press(browser, "c")
    wait_for(browser, "version", version + 1)
    assert "is closer to" in text(browser, "#answers") and text(browser, "#picked-count") == "nothing"
    for key in (Keys.ARROW_LEFT, Keys.ARROW_DOWN):
        press(browser, key, Keys.ENTER)
    press(browser, "g")
    wait_for(browser, "version", version + 2)
    press(browser, Keys.ENTER, "n", "one <b>", Keys.ENTER)
    wait_for(browser, "version", version + 3)
    assert "named 'one <b>'" in text(browser, "#answers")
    wait_for(browser, "asked", version + 3)  # it changes with every answer
    press(browser, "q", Keys.ENTER, "q", Keys.ENTER, "d")  # the question's own points
    wait_for(browser, "version", version + 4)
    wait_for(browser, "asked", version + 4)
    before = asked(browser)
    press(browser, "x")
    wait(
        browser,
        lambda: asked(browser) != before and browser.find_element(By.ID, "ask-same").is_enabled(),
        "another question",
    )
    press(browser, "u", "u", "r")
    wait_for(browser, "version", version + 7)
    assert "(3)" in text(browser, "#answers-title")
    browser.execute_script("document.activeElement.blur()")
    reached = set()  # by Tab alone: everything that can be done
    for _ in range(60):
        press(browser, Keys.TAB)
        reached.add(
            browser.execute_script(
                "const a = document.activeElement; return a.id || a.dataset.key || a.getAttribute('href')"
            )
        )
    assert {key.split("-")[0] for key in reached if key and key[-1].isdigit()} == {"show", "soften", "drop"}
    assert reached >= {"map", "undo", "redo", "help", "lasso", "colour", "ask-same", "ask-skip", "/take/model.bm"}
    press(browser, "?")
    assert browser.find_element(By.ID, "help-dialog").is_displayed()
    press(browser, Keys.ESCAPE)
    assert not browser.find_element(By.ID, "help-dialog").is_displayed()
    assert quiet(browser) == []


def test_mouse_picks_and_lasso(version, browser):
    canvas = browser.find_element(By.ID, "map")
    ActionChains(browser).move_to_element(canvas).pause(0.1).perform()
    browser.find_element(By.ID, "lasso").click()
    chain = ActionChains(browser).move_to_element_with_offset(canvas, -60, -60).click_and_hold()
    for dx, dy in ((120, 0), (0, 120), (-120, 0), (0, -110)):
        chain.move_by_offset(dx, dy)
    chain.release().perform()
    n = int(text(browser, "#picked-count").split()[0])
    assert n > 20
    browser.find_element(By.ID, "group").click()
    if n <= 500:
        wait_for(browser, "version", version + 1)
        assert f"Group of {n}" in text(browser, "#announce") and f"and {n - 3} more: one group" in text(
            browser, "#answers"
        )
    browser.find_element(By.ID, "lasso").click()
    assert browser.find_element(By.ID, "lasso").get_attribute("aria-pressed") == "false"
    assert quiet(browser) == []


def test_points_move_to_the_new_map_and_rest(version, browser):
    """With motion allowed; everywhere else it is reduced, so that the first picture is the last."""
    motion = lambda value: browser.execute_cdp_cmd(  # noqa: E731
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": value}]}
    )
    film = (
        "window.film = []; const shot = () => { const now = document.getElementById('map').toDataURL();"
        "if (now !== window.film.at(-1)) window.film.push(now); requestAnimationFrame(shot); }; shot();"
    )
    size = {
        "width": 400,
        "height": 400,
        "deviceScaleFactor": 1,
        "mobile": False,
    }  # small: pictures are taken at every frame
    motion("no-preference")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.execute_script(film)
        press(browser, "s")  # of two points farther apart than that: the metric changes
        wait_for(browser, "version", version + 1)
        wait_for(browser, "details", version + 1)
        seen = [0]

        def rests():
            time.sleep(0.5)
            seen.append(browser.execute_script("return window.film.length"))
            return seen[-1] == seen[-2]

        wait(browser, rests, "rest")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        motion("reduce")
    assert seen[-1] >= 5  # before, on the way, there
    assert quiet(browser) == []


def test_two_tabs_stay_consistent(demo, version, browser):
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    try:
        browser.get(demo.origin)
        second = browser.current_window_handle
        for k in range(6):
            browser.switch_to.window((first, second)[k % 2])
            answer(browser, version + k)
        seen = []
        for handle in (first, second):
            browser.switch_to.window(handle)
            wait_for(browser, "details", version + 6)
            seen.append((text(browser, "#answers"), text(browser, "#question"), text(browser, "#clusters")))
        assert seen[0] == seen[1]
    finally:
        browser.close()
        browser.switch_to.window(first)


def axe(browser):
    """Violations of axe-core's rules, WCAG 2.1 AA among them."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(done)")
    assert len(found["passes"]) > 15
    return [(v["id"], [n["target"] for n in v["nodes"]][:5]) for v in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_names_contrast_and_width(version, browser, scheme):
    reduced = {"name": "prefers-reduced-motion", "value": "reduce"}
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}, reduced]}
    )
    try:
        assert axe(browser) == []
        for k, kind in enumerate(("same", "different"), 1):
            say(browser, {"kind": kind, "points": [0, 1]})
            wait_for(browser, "details", version + k)
        press(browser, "m", Keys.ARROW_UP, Keys.ENTER)
        wait(browser, lambda: "now" in text(browser, "#neighbours"), "neighbours")
        for width in (1280, 400):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            assert axe(browser) == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            press(browser, "?")
            assert axe(browser) == []
            press(browser, Keys.ESCAPE)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [reduced]})


def test_hostile_names_and_texts_are_text(tmp_path, browser, rng):
    """Names of points, files, columns and classes, and texts, that would be markup anywhere else."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    n = 40
    files = [f"{k} <img src=x onerror=alert(1)>.png".replace("/", "") for k in range(n)]
    for k, name in enumerate(files):
        if k:
            Image.fromarray(rng.integers(0, 255, (12, 12), dtype=np.uint8)).save(pictures / name)
    (pictures / files[0]).write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")  # no picture
    with (tmp_path / "<b>points.csv").open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle)
        table.writerow(["id", "file", "words", "kind", "<i>a</i>", "b"])
        for k in range(n):
            hostile = HOSTILE[k % len(HOSTILE)]
            table.writerow(
                [f"{k} {hostile}", files[k], hostile * (1 if k else 500), hostile, *rng.normal(size=2) + 4 * (k % 2)]
            )
    page = Page(tmp_path, "<b>points.csv", "--images", "pictures", "--text", "words", "--labels", "kind")
    try:
        browser.get(page.link)
        wait_for(browser, "details", 0)
        say(browser, {"kind": "name", "points": [0, 1], "name": HOSTILE[0]})
        wait_for(browser, "version", 1)
        say(browser, {"kind": "different", "points": [0, 2]})
        wait_for(browser, "details", 2)
        press(browser, "m", Keys.ARROW_UP, Keys.ENTER)
        wait(browser, lambda: "now" in text(browser, "#neighbours"), "neighbours")
        for css in ("#answers", "#legend", "#title", "#features, #neighbours, #picked-list"):
            assert "<" in text(browser, css)
        assert (
            browser.execute_script(
                "return document.querySelectorAll('body script, body b, body i, img[onerror]').length"
            )
            == 0
        )
        assert [line for line in quiet(browser) if "404" not in line] == []  # the file that is no picture
        cookie = "; ".join(f"{c['name']}={c['value']}" for c in browser.get_cookies())
        with urllib.request.urlopen(
            urllib.request.Request(f"{page.origin}/points/0", headers={"cookie": cookie})
        ) as answer_:
            assert len(json.loads(answer_.read())["text"]) < 700
    finally:
        page.stop()


# ---------------------------------------------------------------- without a browser
def status(page, path, method="GET", data=None, **headers):
    """(status, headers) of one request."""
    request = urllib.request.Request(page.origin + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=10) as answer_:
            return answer_.status, dict(answer_.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


def raw(page, data):
    """What the server says to raw bytes; empty if it hangs up."""
    with socket.create_connection(page.host.split(":"), timeout=10) as line:
        try:
            line.sendall(data)
            return line.recv(100)
        except ConnectionError:
            return b""


def test_hostile_requests(own_demo):
    demo = own_demo
    assert status(demo, "/")[0] == status(demo, "/?token=wrong")[0] == status(demo, "/about.json")[0] == 403
    assert status(demo, demo.link.removeprefix(demo.origin), host="evil.example")[0] == 403  # DNS rebinding
    cookie = demo.cookie()
    assert status(demo, demo.link.removeprefix(demo.origin))[0] == 403  # once only
    fresh = [demo.process.stdout.readline() for _ in range(2)][-1]  # the journal's line, then a new link
    assert fresh.startswith(demo.origin) and fresh.strip() != demo.link
    code, headers = status(demo, "/", cookie=cookie)
    assert (
        code == 200
        and "default-src 'none'" in headers["content-security-policy"]
        and "access-control-allow-origin" not in headers
    )
    for more in (
        {"host": "evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
    ):
        for path in ("/", "/about.json", "/pictures/0", "/take/constraints.csv", "/static/main.js"):
            assert status(demo, path, cookie=cookie, **more)[0] == 403
    for path in (
        *(
            "/static/../server.py",
            "/static/..%2f..%2fserver.py",
            "/static/%2e%2e/server.py",
            "/static/nothing",
            "/take/x",
        ),
        *("/pictures/999999", "/pictures/-1", "/points/1797", "/pictures/..%2f", "/points/9999999999999999999999999"),
    ):
        assert status(demo, path, cookie=cookie)[0] == 404
    assert status(demo, "/take/model.bm", cookie=cookie)[0] == 409  # nothing was said yet
    for method in ("POST", "PUT", "DELETE"):
        assert status(demo, "/", method=method, data=b"x" * 100_000, cookie=cookie)[0] == 405
    assert raw(demo, b"GET / HTTP/1.1\r\nHost: " + b"a" * 100_000 + b"\r\n\r\n")[:12] in (
        b"",
        b"HTTP/1.1 400",
        b"HTTP/1.1 403",
    )
    assert raw(demo, b"\x00\xff\xfe\r\n\r\n")[:12] in (b"", b"HTTP/1.1 400")
    address = f"ws://{demo.host}/tab"
    for headers in ({"Cookie": cookie}, {"Cookie": cookie, "Origin": "http://evil.example"}, {"Origin": demo.origin}):
        with pytest.raises(InvalidStatus), connect(address, additional_headers=headers, origin=None):
            pass
    with connect(address, additional_headers={"Cookie": cookie}, origin=demo.origin, max_size=None) as line:
        bad = [
            *(
                "",
                "x",
                "[]",
                "null",
                "{}",
                '{"type":"say"}',
                '{"type":"say","event":{"kind":"same","points":[0,1e9]}}',
                "[" * 60_000,
            ),
            *(
                '{"type":"neighbours","point":-1}',
                '{"type":"neighbours","point":true}',
                '{"type":"skip","points":[[],{}]}',
            ),
            '{"type":"say","event":{"kind":"same","points":' + json.dumps(list(range(3000))) + "}}",
        ]
        for message in bad:
            line.send(message)
            reply = b""
            while not (isinstance(reply, str) and '"error"' in reply):
                reply = line.recv(timeout=20)
        line.send("{" + " " * 70_000)  # longer than any message
        with pytest.raises(Exception):  # noqa: B017 - the line is closed, in one of several ways
            while True:
                line.recv(timeout=20)
    assert status(demo, "/", cookie=cookie)[0] == 200  # and all is well
    assert len((demo.folder / "bregmat-label-demo.jsonl").read_text().splitlines()) == 1  # nothing got into the journal


def test_only_the_loopback_address_listens(demo):
    port = int(demo.host.split(":")[1])
    for address, is_open in (("127.0.0.1", True), ("127.0.0.2", False)):  # what listens everywhere has both
        with socket.socket() as line:
            line.settimeout(5)
            assert (line.connect_ex((address, port)) == 0) is is_open


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "POINTS or --demo"),
        (["--demo", "points.csv"], "takes no POINTS"),
        (["none.csv"], "none.csv"),
        (["points.csv", "--text", "nothing"], "nothing"),
        (["points.csv", "--images", "nowhere"], "--images"),
        (["points.csv", "--resume"], "no journal"),
        (["--demo", "--host", "300.1.1.1"], "300.1.1.1"),
        (["--demo", "--host", "0.0.0.0"], "give the one that others use"),
        (["--demo", "--slack-weight", "inf"], "finite"),
        (["--demo", "--prior", "covariance"], "covariance"),
    ],
)
def test_bad_arguments(arguments, words, tmp_path, rng):
    from typer.testing import CliRunner

    from bregmat.cli.app import app

    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        Path("points.csv").write_text(
            "a,b\n" + "\n".join(f"{x},{y}" for x, y in rng.normal(size=(10, 2))), encoding="utf-8"
        )
        done = CliRunner().invoke(app, ["label", *arguments, "--no-browser"])
    finally:
        os.chdir(before)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
