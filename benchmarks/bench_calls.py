"""How much of the library one call runs through: source files and distinct functions that the second call in a process executes.

    python benchmarks/bench_calls.py [--list]

``sys.setprofile`` counts the Python functions of this library; ``--list`` names them. Lambdas and generator expressions are functions,
list, dict and set comprehensions are not (Python 3.12 inlines them). The goals are 15 files and 90 functions for ``nearest_kernel``
(17 and 113 now), 20 files and 110 functions for ``MetricLearner.fit`` with fixed settings on wine (25 and 177 now). The last column counts
how often a function of one room passes the constraints to a function of another room; for ``nearest_kernel`` the goal is 4.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import bregmat
from bregmat import Constraints, MetricLearner, nearest_kernel

SOURCES = str(
    Path(bregmat.__file__).parent.parent / "bregmat"
)  # also the sibling packages bregmat_app and bregmat_papers

COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}


def executed(call: Callable[[], Any]) -> tuple[Counter[tuple[str, str, int]], int]:
    """Calls of every function during the second of two calls, (file, qualified name, first line) -> number; and passed constraints."""
    found: Counter[tuple[str, str, int]] = Counter()
    passed = 0

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal passed
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCES) or code.co_name in COMPREHENSIONS:
            return
        found[code.co_filename, code.co_qualname, code.co_firstlineno] += 1
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(isinstance(frame.f_locals.get(name), Constraints) for name in arguments):
            passed += room(frame.f_back.f_code.co_filename) not in (None, room(code.co_filename))

    call()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found, passed


def room(file: str) -> str | None:
    """The room of a source file; None for files that are not ours, such as decorators of the standard library, and for ``base``."""
    if not file.startswith(SOURCES + "/"):
        return None
    name = Path(file).relative_to(SOURCES).parts[0]
    return None if name == "base" else name


def kernel_call() -> Callable[[], Any]:
    """LogDet from a dense 20 x 20 prior with 30 soft rows of distances."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(20, 20))
    i, j = np.triu_indices(20, 1)
    chosen = rng.choice(len(i), 30, replace=False)
    prior = G @ G.T
    sq_distances = np.diag(prior)[i] + np.diag(prior)[j] - 2.0 * prior[i, j]
    is_near = np.arange(30) < 15
    bound = sq_distances[chosen] * np.where(is_near, 0.5, 2.0)
    rows = Constraints.sq_distance(i[chosen], j[chosen], bound, np.where(is_near, "<=", ">="))
    return lambda: nearest_kernel(prior, rows, slack_weight=1.0)


def fit_call(**settings: Any) -> Callable[[], Any]:
    """``MetricLearner.fit`` on the standardised wine data."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return lambda: MetricLearner(**settings).fit(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--list", action="store_true", help="name the files and functions, and how often they are called"
    )
    names = parser.parse_args().list
    calls = {
        "nearest_kernel": kernel_call(),
        "MetricLearner(neighbors).fit": fit_call(strategy="neighbors", prior="variance", slack_weight=1.0),
        "MetricLearner().fit": fit_call(),
    }
    print(f"{'call':30s} {'files':>6s} {'functions':>10s} {'calls':>8s} {'passed':>8s}")
    for name, call in calls.items():
        found, passed = executed(call)
        files = {file for file, _, _ in found}
        print(f"{name:30s} {len(files):6d} {len(found):10d} {found.total():8d} {passed:8d}")
        if names:
            for file in sorted(files):
                own = {function: n for (path, function, _), n in found.items() if path == file}
                print(f"    {Path(file).relative_to(Path(SOURCES).parent)}: {len(own)}")
                print("\n".join(f"        {function} {n}" for function, n in own.items()))


if __name__ == "__main__":
    main()
