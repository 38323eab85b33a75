"""The map of `bregmat label` with as many points as it takes: drawn, looked into, pointed at, and what the panel says of one."""

# ruff: noqa: F401, F811 - fixtures are imported by name

import csv

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from label_pages import Page, answer, browser, press, quiet, text, wait, wait_for

pytestmark = pytest.mark.slow

N = 20_000
FEATURES = ["length", "height", "noise"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A page of 20,000 points: two clouds far apart in `length` and `height`, with a label and a sentence each."""
    folder, rng = tmp_path_factory.mktemp("crowd"), np.random.default_rng(0)
    y = np.arange(N) % 2
    X = rng.normal(size=(N, 3)) + np.outer(y, [12.0, 12.0, 0.0])
    with (folder / "crowd.csv").open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle)
        table.writerow(["kind", "words", *FEATURES])
        table.writerows([["left", "right"][k], f"sentence {i}", *x] for i, (k, x) in enumerate(zip(y, X.tolist())))
    page = Page(folder, "crowd.csv", "--labels", "kind", "--text", "words")
    yield page
    page.stop()


def drawn(browser):
    """Where the canvas has ink, of the colours of points: (rows, columns) of pixels."""
    script = """
        const canvas = document.getElementById("map"), { width, height } = canvas;
        const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer), at = [];
        for (let k = 0; k < pixels.length; k++) if (pixels[k]) at.push(k);
        return [width, at];
    """
    width, at = browser.execute_script(script)
    return np.divmod(np.array(at), width)


def opened(page, browser):
    page.visit(browser)
    wait(
        browser, lambda: browser.execute_script("return document.body.dataset.details ?? null") is not None, "the page"
    )
    quiet(browser)


def test_twenty_thousand_points_are_drawn_and_looked_into(crowd, browser):
    opened(crowd, browser)
    rows, columns = drawn(browser)
    assert len(rows) > 3000
    inside = np.histogram(columns, bins=3, range=(columns.min(), columns.max() + 1))[0]
    assert inside[1] < 0.2 * min(inside[0], inside[2])  # two clouds
    canvas = browser.find_element(By.ID, "map")
    whole = len(rows)
    ActionChains(browser).scroll_from_origin(ScrollOrigin.from_element(canvas), 0, -2000).perform()
    wait(browser, lambda: len(drawn(browser)[0]) < 0.5 * whole, "zoomed in between the clouds, where little is")
    browser.find_element(By.ID, "zoom-fit").click()
    wait(browser, lambda: len(drawn(browser)[0]) == whole, "all of it again")
    browser.find_element(By.ID, "zoom-in").click()
    wait(browser, lambda: len(drawn(browser)[0]) != whole, "zoomed in by the button")
    press(browser, "f")
    wait(browser, lambda: len(drawn(browser)[0]) == whole, "all of it again")
    assert quiet(browser) == []


def test_hovering_and_picking_show_name_text_and_neighbours(crowd, browser):
    opened(crowd, browser)
    press(browser, "m", Keys.ARROW_RIGHT)  # to the point in the middle of the map
    tip = browser.find_element(By.ID, "tip")
    wait(browser, lambda: "sentence " in tip.text, "its text")
    name = tip.text.split()[0].rstrip(",")
    assert f"sentence {name}" in tip.text
    press(browser, Keys.ENTER)
    wait(browser, lambda: f"sentence {name}" in text(browser, "#neighbours .card"), "its text and neighbours")
    assert {
        len(ol.find_elements(By.TAG_NAME, "li")) for ol in browser.find_elements(By.CSS_SELECTOR, "#neighbours ol")
    } == {6}
    press(browser, Keys.ESCAPE)
    canvas = browser.find_element(By.ID, "map")
    rows, columns = drawn(browser)
    box = canvas.size
    # in the thick of a cloud
    k = int(np.argmin(np.abs(columns - np.percentile(columns, 15)) + np.abs(rows - np.median(rows))))
    offset = int(columns[k] - box["width"] / 2), int(rows[k] - box["height"] / 2)
    ActionChains(browser).move_to_element_with_offset(canvas, *offset).perform()
    wait(browser, lambda: tip.is_displayed() and "sentence " in tip.text, "what is under the mouse")
    ActionChains(browser).click().perform()
    wait(browser, lambda: text(browser, "#picked-count") == "1 point", "picked")
    press(browser, Keys.ESCAPE)
    assert quiet(browser) == []


def test_answers_say_which_feature_counts(crowd, browser):
    """What is different differs in `length` and `height`: `noise` comes to count least."""
    opened(crowd, browser)
    for k in range(12):
        answer(browser, k, y=np.arange(N) % 2)
    wait_for(browser, "details", 12)
    script = "return [...document.querySelectorAll('#features .feature')].map(e => [...e.querySelectorAll('span')].map(s => s.innerText))"
    gains = {name: float(times.removeprefix("× ")) for name, times in browser.execute_script(script)}
    assert gains and set(gains) <= set(FEATURES)
    weight = {name: gains.get(name, 1.0) for name in FEATURES}
    assert min(weight, key=weight.get) == "noise" and weight["noise"] < 1
    assert text(browser, "#clusters").count("points") == 2
    assert quiet(browser) == []
