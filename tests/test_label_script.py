"""A labeller that knows only the visible text of the page, and its keys, labels all points and takes the labels away."""

# ruff: noqa: F401, F811 - fixtures are imported by name

import csv
import re

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from sklearn.metrics import normalized_mutual_info_score

from label_pages import DIGITS, Page, browser, own_demo, press, quiet, wait
from test_label import TOPICS, sentences

pytestmark = pytest.mark.slow

VISIBLE = "return document.body?.innerText ?? ''"  # empty while the page is loading


class Labeller:
    """Reads the page as it is displayed, and judges a point by its name and its text."""

    def __init__(self, browser, judge):
        self.browser, self.judge = browser, judge

    def seen(self):
        return self.browser.execute_script(VISIBLE)

    def question(self):
        """The lines about the point, and the key of each class that is offered by its name."""
        words = self.seen()
        start = re.search(r"^(Which group does it belong to|Are these the same)\?$", words, re.MULTILINE)
        end = re.search(r"^(Compared with the known labels|Learned)$", words, re.MULTILINE)
        lines = [line for line in words[start.end() : end.start()].splitlines() if line]
        buttons = next(k for k, line in enumerate(lines) if line.startswith(("New one", "By name")))
        offered = "\n".join(lines[buttons:])
        named = re.findall(r"^([0-9a-z]) (.+)\n(?:\d+ given|\d+, nearest|none given)$", offered, re.MULTILINE)
        return lines[:buttons], {name: key for key, name in named}

    def judged(self):
        """The class of the point, and the key of each class that is offered; None while the question is being drawn."""
        try:
            about, offered = self.question()
            return self.judge(about), offered
        except (AttributeError, IndexError, KeyError, StopIteration):
            return None

    def n_answers(self):
        return int(re.search(r"^(\d+) answers?$", self.seen(), re.MULTILINE)[1])

    def answer(self):
        """By the key of the class, or by its name if that is not offered yet."""
        wait(self.browser, lambda: self.judged() is not None, "the whole question")
        before = self.n_answers(), self.question()[0]
        name, offered = self.judged()
        if name in offered:
            press(self.browser, offered[name])
        else:
            press(self.browser, "n", name, Keys.ENTER)
        wait(
            self.browser, lambda: self.n_answers() > before[0] and self.question()[0] != before[1], "the next question"
        )

    def until_told_to_stop(self, most):
        """Answer until the page says that more answers will change little."""
        while self.n_answers() < most:
            self.answer()
            if self.n_answers() % 10 == 0:
                wait(self.browser, lambda: "of the points decided" in self.seen(), "progress")
                if "you can stop" in self.seen():
                    return

    def labels(self, folder):
        """The labels, downloaded by the link that says so."""
        folder.mkdir()
        self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        self.browser.find_element(By.LINK_TEXT, "Labels of all points").click()
        wait(self.browser, lambda: (folder / "labels.csv").exists(), "the labels")
        with (folder / "labels.csv").open(newline="") as handle:
            return list(csv.DictReader(handle))


def agreement(rows, truth):
    return normalized_mutual_info_score([truth(row["id"]) for row in rows], [row["label"] for row in rows])


def test_digits_by_what_is_seen(own_demo, browser, tmp_path):
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

    def word(name):
        return words[DIGITS[int(name.removeprefix("digit "))]]

    browser.get(own_demo.link)
    wait(browser, lambda: "Are these the same?" in browser.execute_script(VISIBLE), "the page")
    labeller = Labeller(browser, lambda lines: word(lines[0]))  # the first line is the name below the picture
    labeller.until_told_to_stop(100)
    rows = labeller.labels(tmp_path / "downloads")
    assert {row["label"] for row in rows} == {*words} and len(rows) == len(DIGITS)
    given = [row for row in rows if row["source"] == "given"]
    assert 20 <= len(given) <= 100 and all(row["label"] == word(row["id"]) for row in given)
    assert agreement(rows, word) > 0.9
    assert quiet(browser) == []


def test_texts_without_numbers_by_what_is_seen(browser, tmp_path, rng):
    texts, y = sentences(300, rng)
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    topic_of = {word: topic for topic, words in TOPICS.items() for word in words.split()}
    page = Page(tmp_path, "texts.csv", "--text", "text", "--classes", "music,kitchen")
    try:
        browser.get(page.link)
        wait(browser, lambda: "Which group" in browser.execute_script(VISIBLE), "the page")
        labeller = Labeller(
            browser, lambda lines: next(topic_of[word] for word in lines[1].split() if word in topic_of)
        )
        quiet(browser)  # what the page of the other test said when its server ended
        assert "TF-IDF" in labeller.seen()
        assert labeller.question()[1] == {"music": "1", "kitchen": "2"}
        labeller.until_told_to_stop(60)
        rows = labeller.labels(tmp_path / "downloads")
        assert agreement(rows, lambda name: y[int(name)]) > 0.9
        assert {row["label"] for row in rows} == {*TOPICS}
        assert quiet(browser) == []
    finally:
        page.stop()
