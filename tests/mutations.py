"""Plant one mistake at a time in solvers, certificates and losses: the quick tests must fail for each.

``python tests/mutations.py`` copies the sources, changes one expression, runs the quick tests on the copy until the first failure, and
prints which mutations survived. It exits with 1 if any did. ``--only 3`` runs one mutation. It takes about a minute for each.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import bregmat

ROOT = Path(__file__).resolve().parents[1]
KERNELS = Path(bregmat.__file__).parent / "_kernels"  # compiled, from the installed package
# The tests of what is mutated come first, because a run ends at the first failure.
FIRST = (
    "equations",
    "equations_divergences",
    "equations_projections",
    "equations_solvers",
    "contracts",
    "outcomes",
    "oracles",
)

# file below src/bregmat, expression, what takes its place
MUTATIONS = ()


def mutate(folder: Path, file: str, old: str, new: str) -> None:
    """Change one expression in a copy of the sources; it must occur exactly once."""
    path = folder / "bregmat" / file
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(
            f"{file}: {old!r} occurs {text.count(old)} times; a mutation needs an expression that occurs once"
        )
    path.write_text(text.replace(old, new), encoding="utf-8")


def is_found(file: str, old: str, new: str) -> bool:
    """Whether the quick tests fail with this mutation."""
    with tempfile.TemporaryDirectory(prefix="bregmat-mutation-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for library in KERNELS.glob("_v*"):
            shutil.copy2(library, folder / "src" / "bregmat" / "_kernels")
        mutate(folder / "src", file, old, new)
        tests = [f"tests/test_{word}.py" for word in FIRST]
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        for chosen in (tests, ["tests"]):
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-m",
                "not slow",
                "-p",
                "no:cacheprovider",
                "-n",
                "auto",
                *chosen,
            ]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            if done.returncode not in (0, 1, 2):
                raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
            if done.returncode:
                return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__)
    parser.add_argument("--only", type=int, metavar="K", help="run one mutation, counted from 0")
    given = parser.parse_args()
    numbers = range(len(MUTATIONS)) if given.only is None else [given.only]
    survived = 0
    for k in numbers:
        file, old, new = MUTATIONS[k]
        found = is_found(file, old, new)
        survived += not found
        print(f"{k:3} {'found' if found else 'SURVIVED':9} {file}: {old} -> {new}", flush=True)
    print(f"{len(numbers)} mutations, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
