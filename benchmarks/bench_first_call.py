"""What does the first call of every public entry cost: with nothing compiled, with everything on disk, and the second call?

Each entry of `bregmat.warmup` in fresh processes, in CPU seconds beyond the import of what it needs (numba included, which
the import of bregmat alone leaves out), so that other work on the machine counts less. The last row is all of them in one process.

    python benchmarks/bench_first_call.py [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

import harness

from bregmat.warmup import ENTRIES

COLD, WARM, ALL = 4.0, 0.15, 30.0  # CPU seconds that are aimed at
ONE = """
import json, sys, time
start = time.process_time()
import bregmat
bare = time.process_time() - start
import bregmat.warmup, numba
loaded = time.process_time() - start
names = json.loads(sys.argv[1])
steps = [list(bregmat.warmup.warm_up(names)) for _ in range(2)]
first, again = (sum(step.seconds for step in run) for run in steps)
print(json.dumps([bare, loaded, first, again, sum(len(step.compiled) for step in steps[0])]))
"""


def measured(names: list[str], folder: str) -> list[float]:
    """Import of bregmat, of all it needs, first call, second call, kernels compiled."""
    done = subprocess.run(
        [sys.executable, "-c", ONE, json.dumps(names)],
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(value) for value in json.loads(done.stdout)]


def row(title: str, names: list[str], goal: float) -> list[str]:
    """Cold and warm, on a disk of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (_, _, cold, again, count), (_, _, warm, _, _) = measured(names, folder), measured(names, folder)
    beyond = warm - again if len(names) == 1 else warm
    words = harness.verdict_word(cold <= goal), harness.verdict_word(beyond <= WARM) if len(names) == 1 else ""
    return [title, f"{count:.0f}", *map(harness.seconds, (cold, warm, again)), *words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(ENTRIES), metavar="NAME")
    args = parser.parse_args()
    print(harness.machine() + "; CPU seconds")
    header = ["entry", "kernels", "nothing on disk", "all on disk", "second call", f"{COLD:g} s", f"{WARM} s more"]
    rows = [row(name, [name], COLD) for name in args.only or ENTRIES]
    if not args.only:
        rows.append(row("all, in one process", list(ENTRIES), ALL))
    harness.print_table("first calls", header, rows)
    with tempfile.TemporaryDirectory() as folder:
        runs = sorted(measured(["KernelKMeans"], folder)[:2] for _ in range(5))
    bare, loaded = runs[2]
    print(
        f"\nimport bregmat {harness.seconds(bare)}; with numba, scikit-learn and all else that some entry needs {harness.seconds(loaded)}"
    )


if __name__ == "__main__":
    main()
