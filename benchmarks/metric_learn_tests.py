"""metric-learn's own ITML tests, run against `bregmat.pairs` in the place of its classes.

Downloads metric-learn's source distribution with pip (nothing of it is kept), puts `bregmat.pairs.ITML` and `ITML_Supervised`
where its modules have theirs, and runs the tests that concern ITML. Exit code 1 if one fails.

    python benchmarks/metric_learn_tests.py                  # ours: about a minute
    python benchmarks/metric_learn_tests.py --theirs         # its own classes on today's scikit-learn
    python benchmarks/metric_learn_tests.py --more FILE      # more test files of its repository beside those it distributes
    python benchmarks/metric_learn_tests.py --compare        # no tests: both ITMLs on the same pairs and bounds

The distribution has 195 of the 205 cases. The other ten are in `test/metric_learn_test.py` of its repository, which is not in the
distribution: get it there and pass it with --more. tests/test_pairs.py asks the same ten questions.

What is done to the tests' own surroundings, none of it to what they assert:

- `test/__init__.py`, which the distribution lacks: without it `import test.test_utils` finds Python's own package `test`.
- `pytest.warns(None)`, which meant "no warning is expected" and is gone since pytest 8: it records warnings again.
- Both classes are registered as pairs classifier and Mahalanobis learner of metric-learn, which is how its tests tell what to leave out.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

VERSION = "0.7.0"
SELECTED = "ITML or itml or bounds"


def sources(folder: Path) -> Path:
    """metric-learn's source distribution, unpacked."""
    command = [
        "download",
        "--quiet",
        "--no-binary",
        ":all:",
        "--no-deps",
        "--dest",
        str(folder),
        f"metric-learn=={VERSION}",
    ]
    subprocess.run([sys.executable, "-m", "pip", *command], check=True)
    (archive,) = folder.glob("metric*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@contextlib.contextmanager
def recorded() -> Iterator[Any]:
    """What `pytest.warns(None)` was."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        yield record


def repair(root: Path) -> None:
    """Make the tests importable and `pytest.warns(None)` callable."""
    (root / "test" / "__init__.py").touch()
    warns = pytest.warns
    pytest.warns = lambda expected=Warning, *args, **kwargs: (  # type: ignore[assignment]
        recorded() if expected is None else warns(expected, *args, **kwargs)
    )


def substitute() -> None:
    """Our classes in the place of metric-learn's."""
    import metric_learn
    from metric_learn.base_metric import MahalanobisMixin, _PairsClassifierMixin

    from bregmat.pairs import ITML, ITML_Supervised

    for module in (metric_learn, metric_learn.itml):
        module.ITML, module.ITML_Supervised = ITML, ITML_Supervised
    _PairsClassifierMixin.register(ITML)
    for cls in (ITML, ITML_Supervised):
        MahalanobisMixin.register(cls)


class Count:
    """A pytest plugin: cases by how they ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome].append(report.nodeid)


def compared(problem: harness.PairProblem) -> list[str]:
    """Both classes on one problem, with the bounds that metric-learn takes by default: their matrices, their time."""
    from bregmat.pairs import ITML

    tuples, labels = np.stack([problem.X[problem.i], problem.X[problem.j]], axis=1), np.where(problem.similar, 1, -1)
    points = np.unique(tuples.reshape(-1, problem.X.shape[1]), axis=0)
    bounds = np.percentile(pairwise_distances(points), (5, 95))
    theirs = harness.timed(lambda: harness.metric_learn().ITML(tol=1e-8, max_iter=5000).fit(tuples, labels))
    ITML(tol=1e-8).fit(tuples, labels, bounds=bounds)  # imports what is imported on first use
    ours = harness.timed(lambda: ITML(tol=1e-8).fit(tuples, labels, bounds=bounds), repeats=3)
    A, B = (found.value.get_mahalanobis_matrix() for found in (theirs, ours))
    apart = np.linalg.norm(A - B) / np.linalg.norm(B)
    times = [harness.seconds(found.cpu_median) for found in (ours, theirs)]
    gap = f"{ours.value.result_.gap:.1e}"
    return [problem.name, problem.size, f"{apart:.1e}", gap, *times, str(theirs.value.n_iter_ + 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--theirs", action="store_true", help="test metric-learn's own classes")
    parser.add_argument("--more", metavar="FILE", nargs="*", default=[], help="more test files of its repository")
    parser.add_argument("--compare", action="store_true", help="compare both on data, run no test")
    parser.add_argument(
        "--sources", metavar="DIR", type=Path, help="an unpacked source distribution, not downloaded again"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = (
            sources(Path(folder))
            if args.sources is None
            else Path(shutil.copytree(args.sources, Path(folder) / "sources"))
        )
        for file in args.more:
            shutil.copy(file, root / "test")
        sys.path.insert(0, str(root))
        if args.compare:
            warnings.simplefilter("ignore", FutureWarning)  # metric-learn's
            harness.one_thread()
            header = ["problem", "size", "matrices apart", "our gap", "our CPU", "their CPU", "their sweeps"]
            rows = [compared(harness.wine(True)), compared(harness.digits(1000))]
            harness.print_table("ITML, gamma 1, bounds of metric-learn's default", header, rows)
            return 0
        repair(root)
        if not args.theirs:
            substitute()
        count = Count()
        files = sorted(map(str, (root / "test").glob("*test*.py")))
        options = [
            "-q",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore",
            f"--rootdir={root}",
            "--import-mode=importlib",
        ]
        pytest.main([*options, "-k", SELECTED, *files], plugins=[count])
    ended = {name: len(cases) for name, cases in count.outcomes.items()}
    whose = "metric-learn's own" if args.theirs else "bregmat.pairs"
    print(
        f"\n{whose}: {sum(ended.values())} cases of metric-learn {VERSION}: "
        + ", ".join(f"{n} {k}" for k, n in ended.items())
    )
    return int(ended["passed"] == 0 or ended["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
