"""The short film of `bregmat label` at the top of the README: the digits, questions answered truly by key, as an animated GIF.

python benchmarks/film_label.py docs/label.gif           # needs chromium and chromedriver
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time

from bench_label import answer, chromium, wait
from PIL import Image
from sklearn.datasets import load_digits

WIDTH, HEIGHT, SHOWN = 1060, 660, 636  # of the window, and the width of the film, in pixels
SHOTS = ((0, 1200), *((k, 800) for k in (1, 2, 3, 4, 6, 8, 12, 16, 22, 30)), (40, 2600))  # answers, ms
COLOURS = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    options = parser.parse_args()
    y, frames = load_digits().target, []
    browser = chromium()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bregmat", "label", "--demo", "--no-browser"]
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as page:
            try:
                size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                browser.get(page.stdout.readline().split()[-1])
                wait(browser, "details", 0)
                for version in range(SHOTS[-1][0] + 1):
                    wait(browser, "details", version)
                    if version in dict(SHOTS):
                        time.sleep(0.4)
                        frames.append(Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB"))
                    answer(browser, y)
            finally:
                browser.quit()
                page.terminate()
    small = [frame.resize((SHOWN, SHOWN * HEIGHT // WIDTH), Image.Resampling.LANCZOS) for frame in frames]
    palette = small[-1].quantize(COLOURS, method=Image.Quantize.FASTOCTREE)
    film = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small]
    film[0].save(
        options.out, save_all=True, append_images=film[1:], duration=[ms for _, ms in SHOTS], loop=0, optimize=True
    )


if __name__ == "__main__":
    main()
