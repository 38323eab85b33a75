"""`bregmat label` in a real browser, with real clicks and keys."""

# ruff: noqa: F401, F811 - fixtures are imported by name

import csv
import json
import signal
import time
import urllib.request
import zipfile
from pathlib import Path

import axe_core_python
import numpy as np
import pytest
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from sklearn.datasets import load_digits

import bregmat
from bregmat.io import read_constraints
from label_pages import (
    Page,
    answer,
    asked,
    browser,
    demo,
    own_demo,
    press,
    quiet,
    say,
    text,
    version,
    wait,
    wait_for,
)

pytestmark = pytest.mark.slow

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"'`&amp;{{7*7}}",
    "‮abc​",
    "=cmd|' /C calc'!A0",
]


def test_thirty_answers_undo_contradiction_export(own_demo, browser, tmp_path):
    """The life of one session, by keys and clicks; killed in the middle and taken up again."""
    browser.get(own_demo.link)
    wait_for(browser, "details", 0)
    assert "token" not in browser.current_url and browser.title.startswith("Handwritten digits")
    assert not browser.find_element(By.ID, "agreement-box").is_displayed()  # nothing to compare before the first answer
    buttons = browser.find_elements(By.CSS_SELECTOR, "#groups button")
    assert [button.text.split()[0] for button in buttons] == ["Same", "Different"]
    assert buttons[0].size == buttons[1].size and buttons[0].size["height"] >= 48
    assert browser.find_element(By.ID, "colour").get_attribute("value") == "group"  # not the truth
    given = [answer(browser, k, click=k % 5 == 0) for k in range(30)]
    wait_for(browser, "details", 30)
    assert len(set(given)) >= 28  # one answer a point, but for those of more groups than keys
    assert text(browser, "#clusters").count("group") == 10 == len(browser.find_elements(By.CSS_SELECTOR, "#groups li"))
    assert "the last 10 answers changed" in text(browser, "#progress") and "points decided" in text(
        browser, "#progress"
    )
    words = text(browser, "#agreement").split()
    assert float(words[-1]) > 0.8  # NMI
    assert "(30)" in text(browser, "#answers-title") and "OPTIMAL" in text(browser, "#status")
    assert text(browser, "#features").count("×") >= 5

    press(browser, "u")  # undo by key, redo by click
    wait_for(browser, "version", 31)
    assert "(29)" in text(browser, "#answers-title")
    browser.find_element(By.ID, "redo").click()
    wait_for(browser, "version", 32)
    assert "(30)" in text(browser, "#answers-title")

    # a contradiction: shown by name, resolved by dropping one of the two, taken back, and by dropping the other
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
    box.find_elements(By.CSS_SELECTOR, "button[aria-label^='Drop']")[1].click()
    wait_for(browser, "details", 35)
    assert not box.is_displayed() and "(31)" in text(browser, "#answers-title")
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
    assert "Resumed: 31 answers" in text(browser, "#announce")
    assert "(31)" in text(browser, "#answers-title")

    downloads = tmp_path / "downloads"
    downloads.mkdir()
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    names = {"labels.csv", "labels.json", "constraints.csv", "model.bm", "report.html", "learn.py"}
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
    browser.execute_script("document.activeElement.blur()")
    press(browser, "q", Keys.ENTER, "q", Keys.ENTER, "d")  # points of the question, without going to the map first
    wait_for(browser, "version", version + 4)
    wait_for(browser, "asked", version + 4)
    before = asked(browser)[0]
    press(browser, "x")
    wait(browser, lambda: asked(browser)[0] != before, "another question")
    press(browser, "u", "u", "r")
    wait_for(browser, "details", version + 7)
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
    assert {key.split("-")[0] for key in reached if key and key[-1].isdigit()} == {
        "group",
        "show",
        "drop",
        "name",
    }
    assert reached >= {
        "map",
        "undo",
        "redo",
        "help",
        "lasso",
        "colour",
        "ask-new",
        "ask-name",
        "ask-skip",
        "enlarge",
        "take/labels.csv",
        "take/model.bm",
    }
    press(browser, "?")
    assert browser.find_element(By.ID, "help-dialog").is_displayed()
    press(browser, Keys.ESCAPE)
    assert not browser.find_element(By.ID, "help-dialog").is_displayed()
    assert quiet(browser) == []


def test_the_map_does_not_move(version, browser):
    """What is below it changes its content, but not its height; a second click would miss otherwise."""
    script = "const { x, y, width, height } = document.getElementById('map').getBoundingClientRect(); return [x, y, width, height]"
    box = lambda: browser.execute_script(script)  # noqa: E731
    before = box()
    press(browser, "m")
    for arrow in (Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_RIGHT, Keys.ARROW_UP) * 3:
        press(browser, arrow, Keys.ENTER)
        assert box() == before
    press(browser, "l", "c")  # two messages
    assert box() == before
    press(browser, "l", Keys.ESCAPE)
    for k in range(4):
        answer(browser, version + k)
        assert box() == before
    browser.execute_script(
        "const s = document.getElementById('colour'); s.value = 'none'; s.dispatchEvent(new Event('change'))"
    )
    assert box() == before


def test_the_next_question_comes_before_the_map_and_is_fast(version, browser):
    for k in range(12):
        answer(browser, version + k)
    script = "return performance.getEntriesByName(arguments[0]).slice(-12).map(entry => entry.duration)"
    times = [browser.execute_script(script, f"answer to {what}") for what in ("question", "map")]
    assert [len(found) for found in times] == [12, 12]
    assert np.median(times[0]) < np.median(times[1])
    assert np.median(times[0]) < 300  # milliseconds, at 1,797 points; 31 on two cores


def resized(browser, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def boxes(browser, *css):
    """(left, top, right, bottom) of the first element of each selector."""
    script = """
        const box = (css) => document.querySelector(css).getBoundingClientRect();
        return arguments[0].map(box).map((r) => [r.left, r.top, r.right, r.bottom]);
    """
    return browser.execute_script(script, css)


def test_the_question_can_be_enlarged_and_covers_nothing(version, browser):
    size = lambda: browser.find_element(By.CSS_SELECTOR, "#question img").size["height"]  # noqa: E731
    resized(browser, 1280, 800)
    try:
        small = size()
        assert small >= 150
        for k in range(12):
            answer(browser, version + k)
        press(browser, "v")
        assert size() > 2 * small
        around = ("header", ".frame", "#question-box")
        found = boxes(browser, *around)
        for k, (left, top, right, bottom) in enumerate(found):
            assert right > left and bottom > top and right <= 1280
            for other in found[:k]:
                assert left >= other[2] - 1 or right <= other[0] + 1 or top >= other[3] - 1 or bottom <= other[1] + 1
        assert max(box[3] for box in boxes(browser, "#question", "#groups li:last-child")) <= 800
        wait_for(browser, "details", version + 12)
        legend, last = boxes(browser, "#legend", "#legend li:last-child")
        assert last[2] <= legend[2] + 1 and last[3] <= legend[3] + 1  # no name of a group is cut
        answer(browser, version + 12)  # while it is large
        assert size() > 2 * small
        press(browser, Keys.ESCAPE)
        assert size() == small
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert quiet(browser) == []


def test_the_colours_of_groups_follow_the_scheme(version, browser):
    """The list of groups has the colours of the map, too, when the scheme changes while the page is open."""
    answer(browser, version)
    answer(browser, version + 1)
    wait_for(browser, "details", version + 2)
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute('fill'))"
    colours = lambda css: browser.execute_script(script, f"{css} .swatch circle")  # noqa: E731
    seen = []
    try:
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            wait(browser, lambda: colours("#legend") not in seen, "other colours")
            assert len(colours("#legend")) >= 2 and colours("#clusters") == colours("#legend")
            seen.append(colours("#legend"))
    finally:
        reduced = {"name": "prefers-reduced-motion", "value": "reduce"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [reduced]})


def test_question_and_choices_fit_on_a_small_screen(version, browser):
    """At 400 x 800, with all ten digits begun: the question above, the map below."""
    for k in range(25):
        answer(browser, version + k)
    resized(browser, 400, 800)
    try:
        assert len(browser.find_elements(By.CSS_SELECTOR, "#groups li")) == 10
        browser.execute_script("scrollTo(0, 0)")
        question, last, frame = boxes(browser, "#question", "#groups li:last-child", ".frame")
        assert 0 <= question[1] < last[3] <= 800 and frame[1] > last[3]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_class_keeps_its_key_and_gets_a_name_when_it_begins(own_demo, browser):
    browser.get(own_demo.link)
    wait_for(browser, "details", 0)

    def shown():
        """Key -> point of the picture, of the classes that are offered."""
        script = "return [...document.querySelectorAll('#groups li')].map(e => [e.querySelector('kbd').innerText, e.dataset.point])"
        return dict(browser.execute_script(script))

    seen = {}
    for k in range(25):
        answer(browser, k)
        wait_for(browser, "asked", k + 1)
        if text(browser, "#question-title") != "Are these the same?":
            now = shown()
            assert all(now[key] == point for key, point in seen.items())
            seen = now
    assert len(seen) == 10 and "a" in seen
    wait_for(browser, "details", 25)
    point = asked(browser)[0]
    press(browser, "n", "odd one", Keys.ENTER)  # a class that begins with its name: it differs from the others
    wait_for(browser, "details", 26)
    assert "odd one" in text(browser, "#groups") and shown() == seen | {"b": str(point)}
    press(browser, "n", "odd one", Keys.ENTER)  # one that exists
    wait_for(browser, "details", 27)
    assert "b odd one 2 given" in " ".join(text(browser, "#groups").split())
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
        press(browser, "1")  # of two points farther apart than that: the metric changes
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
        demo.visit(browser)
        second = browser.current_window_handle
        for k in range(6):
            browser.switch_to.window((first, second)[k % 2])
            answer(browser, version + k)
        seen = []
        for handle in (first, second):
            browser.switch_to.window(handle)
            wait_for(browser, "details", version + 6)
            seen.append((text(browser, "#answers"), asked(browser), text(browser, "#clusters")))
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
                [f"{k} {hostile}", files[k], hostile * (1 if k else 1000), hostile, *rng.normal(size=2) + 4 * (k % 2)]
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
        wait(browser, lambda: any(words in text(browser, "#neighbours p, #groups p") for words in HOSTILE), "a text")
        for css in ("#answers", "#clusters", "#title", "#features, #neighbours, #picked-list"):
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
            urllib.request.Request(f"{browser.current_url}points/0", headers={"cookie": cookie})
        ) as answer_:
            assert len(json.loads(answer_.read())["text"]) < 21_000
    finally:
        page.stop()


def test_what_the_features_cannot_meet_is_counted(tmp_path, browser):
    """Classes in turns along a line: both answers are true, and no multiple of the one feature meets both bounds."""
    np.save(tmp_path / "line.npy", np.linspace(0, 1, 40)[:, None])
    page = Page(tmp_path, "line.npy")
    try:
        browser.get(page.link)
        wait_for(browser, "details", 0)
        for k, event in enumerate(({"kind": "same", "points": [0, 10]}, {"kind": "different", "points": [0, 5]}), 1):
            assert not browser.find_element(By.ID, "unmeetable").is_displayed()
            say(browser, event)
            wait_for(browser, "details", k)
        assert "this is proven for 2 of them" in text(browser, "#unmeetable")
        assert not browser.find_element(By.ID, "contradictions-box").is_displayed()
    finally:
        page.stop()
