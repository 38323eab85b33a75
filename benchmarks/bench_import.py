"""What does `import bregmat` cost, in all and beyond numpy and scipy?

Fresh interpreters in turn, medians.

    python benchmarks/bench_import.py [--runs 9]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import harness

TARGET = 0.25
BASELINES = {
    "nothing": "pass",
    "numpy, scipy": "import numpy, scipy",
    "the same with scipy.linalg, scipy.sparse": "import numpy, scipy.linalg, scipy.sparse",
}
TIMED_IMPORT = """
import time
start = time.perf_counter()
{baseline}
middle = time.perf_counter()
import bregmat
print(middle - start, time.perf_counter() - middle)
"""


def python(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )


def import_times(runs: int) -> None:
    samples: dict[str, list[list[float]]] = {name: [] for name in BASELINES}
    for _ in range(runs + 1):
        for name, baseline in BASELINES.items():
            output = python(TIMED_IMPORT.format(baseline=baseline)).stdout.split()
            samples[name].append([float(word) for word in output])
    rows = []
    for name, pairs in samples.items():
        before, beyond = (statistics.median(column) for column in zip(*pairs[1:], strict=True))
        best = min(pair[1] for pair in pairs[1:])
        word = harness.verdict_word(beyond <= TARGET)
        rows.append([name, harness.seconds(before), harness.seconds(beyond), harness.seconds(best), word])
    header = ["already imported", "its time", "bregmat beyond it", "best", f"target {TARGET} s"]
    harness.print_table(f"import, median of {runs} processes", header, rows)


def heaviest(count: int = 8) -> None:
    """The packages whose own modules take the time."""
    code = "import numpy, scipy; import sys; sys.stderr.write('MARK\\n'); import bregmat"
    text = python(code, "-X", "importtime")
    lines = text.stderr.split("MARK\n")[1].splitlines()
    own: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for line in lines:
        found = re.match(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", line)
        if found:
            package = ".".join(found[2].split(".")[:2])
            own[package] += int(found[1])
            modules[package] += 1
    rows = [[package, f"{spent / 1000:.1f} ms", modules[package]] for package, spent in own.most_common(count)]
    harness.print_table("where the import goes (with the cost of tracing)", ["package", "own time", "modules"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    print(harness.machine() + "; wall seconds")
    import_times(args.runs)
    heaviest()


if __name__ == "__main__":
    main()
