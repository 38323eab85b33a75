"""From an answer to the new map on the page of `bregmat label`: milliseconds in the browser, picture included.

Points of ten classes are written to a file, the command serves them, headless Chromium shows the page, and questions are answered by
key. The page's own clock runs from the key to the end of drawing the new map on its canvas ("answer to map" among its
performance entries): line, journal with fsync, metric with certificate, map, line, drawing. Motion is reduced, so that the first
picture is the final one. "Computing" is the share of rows, metric and map, as the page shows it. "Load" is that of the machine
(a mean over the last minute): what others run beside is in the times. Answered when the page has told all of the answer before, or,
with --hasty, as soon as it asks, while clusters and contradictions are being looked for.

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

SIZES = ("1000x20", "10000x50", "20000x50", "10000x200")


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


def session(browser, folder, size, n_answers, is_hasty):
    """(milliseconds to the map, milliseconds of computing) of each answer."""
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
                cards = browser.execute_script(
                    "return [...document.querySelectorAll('#question .card span')].map(e => +e.textContent)"
                )
                ActionChains(browser).send_keys("s" if y[cards[0]] == y[cards[1]] else "d").perform()
                wait(browser, "version", version + 1)
                shown = browser.execute_script("return document.querySelector('#status dd:last-child').textContent")
                compute.append(float(shown.split()[0]))
            entries = "return performance.getEntriesByName('answer to map').map(e => e.duration)"
            return np.array(browser.execute_script(entries)), np.array(compute)
        finally:
            page.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="*", default=SIZES)
    parser.add_argument("--answers", type=int, default=30)
    parser.add_argument("--hasty", action="store_true", help="answer as soon as asked")
    options = parser.parse_args()
    print("| points | answers | to the new map: median | 90 % | 99 % | longest | computing, median | load |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    browser = chromium()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for size in options.sizes:
                total, compute = session(browser, Path(folder), size, options.answers, options.hasty)
                times = " | ".join(f"{t:.0f} ms" for t in (*np.percentile(total, [50, 90, 99]), total.max()))
                load = os.getloadavg()[0]
                print(f"| {size} | {len(total)} | {times} | {np.median(compute):.0f} ms | {load:.0f} |", flush=True)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
