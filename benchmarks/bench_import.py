"""What does `import bregmat` cost beyond numpy + scipy + numba, and what does the first call cost?

Fresh interpreters in turn, medians. First calls run with an empty kernel cache of their own, then in a second process.

    python benchmarks/bench_import.py [--runs 9]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import harness

TARGET = 0.15
BASELINES = {
    "numpy, scipy, numba": "import numpy, scipy, numba",
    "the same with scipy.linalg, scipy.sparse": "import numpy, scipy.linalg, scipy.sparse, numba",
}
TIMED_IMPORT = """
import time
start = time.perf_counter()
{baseline}
middle = time.perf_counter()
import bregmat
print(middle - start, time.perf_counter() - middle)
"""
FIRST_CALLS = """
import json, sys, time
start = time.perf_counter()
import bregmat
times = {"import": time.perf_counter() - start}
import harness
problem = harness.wine(True)
constraints = problem.constraints()
for name, options in (
    ("logdet, slack", dict(slack_weight=1.0)),
    ("vonneumann, slack", dict(slack_weight=1.0, divergence="vonneumann")),
    ("logdet, slack, cyclic_projection", dict(slack_weight=1.0, solver="cyclic_projection", max_iter=20)),
    ("vonneumann, slack, cyclic_projection", dict(slack_weight=1.0, divergence="vonneumann", solver="cyclic_projection", max_iter=20)),
    ("logdet, slack, 10,000 pairs", dict(slack_weight=1.0)),
):
    if "10,000" in name:
        problem = harness.digits(10_000)
        constraints = problem.constraints()
    for key in (name, name + ", again"):
        start = time.perf_counter()
        bregmat.nearest_metric(problem.X, constraints, **options)
        times[key] = time.perf_counter() - start
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)
for name, call in (
    ("MarginSVC", lambda: bregmat.MarginSVC().fit(X, y)),
    ("nnqp", lambda: bregmat.nnqp(X.T @ X, -X.sum(0))),
):
    for key in (name, name + ", again"):
        start = time.perf_counter()
        call()
        times[key] = time.perf_counter() - start
print(json.dumps(times))
"""


def python(code: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, **environment},
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
    header = ["already imported", "their time", "bregmat beyond them", "best", f"target {TARGET} s"]
    harness.print_table(f"import, median of {runs} processes", header, rows)


def heaviest(count: int = 8) -> None:
    """The packages whose own modules take the time."""
    code = "import numpy, scipy, numba; import sys; sys.stderr.write('MARK\\n'); import bregmat"
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


def first_calls() -> None:
    with tempfile.TemporaryDirectory() as cache:
        runs = [json.loads(python(FIRST_CALLS, NUMBA_CACHE_DIR=cache).stdout.splitlines()[-1]) for _ in range(2)]
    rows = [[name, harness.seconds(runs[0][name]), harness.seconds(runs[1][name])] for name in runs[0]]
    harness.print_table("first calls", ["", "empty kernel cache", "next process"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    print(harness.machine() + "; wall seconds")
    import_times(args.runs)
    heaviest()
    first_calls()


if __name__ == "__main__":
    main()
