"""From an answer to the next question and to the new map on the page of `bregmat label`: milliseconds in the browser.

Points of ten classes are written to a file, the command serves them, headless Chromium shows the page, and questions are answered by
key. The page's own clock runs from the key to the next question on the page, and to the end of drawing the new map on its canvas
("answer to question" and "answer to map" among its performance entries). The map includes the journal with fsync, the metric with its
certificate, and the drawing. Motion is reduced, so that the first picture is the final one. "Computing" is the part of rows, metric
and map, as the page shows it. "Load" is the mean load of the machine over the last minute. Each question is answered when the page
has shown everything about the last answer, or, with --hasty, at once, while the page is still learning.

    python benchmarks/bench_label.py                         # needs chromium and chromedriver
    python benchmarks/bench_label.py --sizes 10000x50 --answers 20
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

SIZES = ("1000x20", "2000x64", "10000x50", "20000x50", "10000x200")


def classes(n, d, seed=0):
    """(n, d) points of ten classes that overlap in most columns, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    centres = rng.normal(size=(10, d)) * np.where(np.arange(d) < d // 3, 2.0, 0.2)
    return centres[y] + rng.normal(size=(n, d)), y


def chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,900", "--force-prefers-reduced-motion"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def wait(browser, name, value, seconds=60):
    end = time.monotonic() + seconds
    while browser.execute_script(f"return document.body.dataset.{name}") != str(value):
        if time.monotonic() > end:
            raise TimeoutError(f"the page did not come to {name} {value}")
        time.sleep(0.005)


def answer(browser, y):
    """Answer the question by key, as the classes say."""
    point, *others = browser.execute_script(
        "return [...document.querySelectorAll('#question-box [data-point]')].map(e => +e.dataset.point)"
    )
    right = [key for key, other in zip("123456789abehijkoptwyz", others) if y[other] == y[point]]
    ActionChains(browser).send_keys(right[0] if right else "0").perform()


def session(browser, folder, size, n_answers, is_hasty):
    """(milliseconds to the question, milliseconds to the map, milliseconds of computing) of each answer."""
    n, d = map(int, size.split("x"))
    X, y = classes(n, d)
    np.save(folder / f"{size}.npy", X)
    command = [sys.executable, "-m", "bregmat", "label", f"{size}.npy", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as page:
        try:
            browser.get(page.stdout.readline().split()[-1])
            wait(browser, "details", 0)
            compute = []
            for version in range(n_answers):
                wait(browser, "asked" if is_hasty else "details", version)
                answer(browser, y)
                if is_hasty:
                    continue
                wait(browser, "version", version + 1)
                shown = browser.execute_script("return document.querySelector('#status dd:last-child').textContent")
                compute.append(float(shown.split()[0]))
            wait(browser, "details", n_answers)
            entries = "return performance.getEntriesByName(arguments[0]).map(e => e.duration)"
            times = (np.array(browser.execute_script(entries, f"answer to {what}")) for what in ("question", "map"))
            return *times, np.array(compute)
        finally:
            page.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="*", default=SIZES)
    parser.add_argument("--answers", type=int, default=30)
    parser.add_argument("--hasty", action="store_true", help="answer as soon as asked")
    options = parser.parse_args()
    heads = ("points", "answers", "to the question: median", "90 %", "longest", "to the map: median", "90 %", "longest")
    print(f"| {' | '.join(heads)} | computing, median | load |\n|{' --- |' * 10}")
    browser = chromium()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for size in options.sizes:
                question, total, compute = session(browser, Path(folder), size, options.answers, options.hasty)
                times = [f"{t:.0f} ms" for found in (question, total) for t in np.percentile(found, [50, 90, 100])]
                computing = f"{np.median(compute):.0f} ms" if len(compute) else "-"
                cells = (size, len(question), *times, computing, f"{os.getloadavg()[0]:.0f}")
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
