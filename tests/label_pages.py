"""A running `bregmat label`, headless Chromium, and what the tests of the page do in it; fixtures are imported by name."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from sklearn.datasets import load_digits

DIGITS = load_digits().target


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
        self.inside = None  # where the page is, known to who has used the link

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        code = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def cookie(self):
        """The cookie for the token, as a program gets it; from then on the page's address is known."""
        with urllib.request.urlopen(self.link) as answer_:
            cookie, *facts = answer_.headers["set-cookie"].split("; ")
            way = re.search(r"url=(/[^/]+)/", answer_.read().decode())[1]
        assert f"Path={way}/" in facts
        self.inside = self.origin + way
        return cookie

    def visit(self, browser):
        """Open the page in a browser: by the link the first time."""
        browser.get(f"{self.inside}/" if self.inside else self.link)
        wait(browser, lambda: "token" not in browser.current_url and at(browser, "version") is not None, "the page")
        self.inside = browser.current_url.rstrip("/")


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
    demo.visit(browser)
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
    return browser.execute_script(f"return document.body?.dataset.{name} ?? null")


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
    """Return the point of the question, and one point of each group."""
    script = "return [...document.querySelectorAll('#question [data-point], #groups [data-point]')].map(e => +e.dataset.point)"
    return browser.execute_script(script)


def answer(browser, version, click=False, y=DIGITS):
    """Answer the question truly, by key or click; the version after it is waited for."""
    wait_for(browser, "asked", version)
    point, *others = asked(browser)
    right = [k for k, other in enumerate(others) if y[other] == y[point]]
    buttons = browser.find_elements(By.CSS_SELECTOR, "#groups button")
    is_pair = text(browser, "#question-title") == "Are these the same?"
    none = buttons[-1] if is_pair else browser.find_element(By.ID, "ask-new")
    button = buttons[right[0]] if right else none
    if click:
        browser.execute_script("arguments[0].scrollIntoView()", button)
        button.click()
    else:
        press(browser, button.find_element(By.TAG_NAME, "kbd").text.lower())
    wait_for(browser, "version", version + 1)
    return point


def say(browser, event):
    """Say something through the page's own line, as a tab beside would."""
    browser.execute_script(
        "const s = new WebSocket(`ws://${location.host}${location.pathname}tab`);"
        "s.onopen = () => { s.send(arguments[0]); setTimeout(() => s.close(), 300); };",
        json.dumps({"type": "say", "event": event}),
    )


def quiet(browser):
    """What the browser complained of."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
