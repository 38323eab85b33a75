"""Run families, print one table; ``--only family:seed`` runs one problem again and shows it."""

import argparse
import sys
import time
from collections import defaultdict

import numpy as np

from suite import applications, matrices, programs, semidefinite
from suite.judge import REPEATED, WORDS, judge

FAMILIES = matrices.FAMILIES | programs.FAMILIES | semidefinite.FAMILIES | applications.FAMILIES
COUNTS = matrices.COUNTS | programs.COUNTS | semidefinite.COUNTS | applications.COUNTS
COUNTS |= {f"{name}{REPEATED}": 20 if name in ("larger", "categories") else 100 for name in FAMILIES}
DEFAULT = 300  # problems of a family
UNSOLVED = 0.005  # share of problems that may be left unsolved
COLUMNS = ("problems", *WORDS, "median ms", "slowest s")


def run(families, share=1.0, first=0, tell=None):
    """Verdicts of the first seeds of families, ``share`` of the usual number of them."""
    verdicts = []
    for family in families:
        for seed in range(first, first + max(1, round(share * COUNTS.get(family, DEFAULT)))):
            verdicts.append(judge(family, seed, FAMILIES[family]))
            if tell is not None and verdicts[-1].word != "solved":
                tell(verdicts[-1].line())
    return verdicts


def table(verdicts):
    """One line a family, and all of them."""
    groups = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.family].append(verdict)
    lines = [f"{'family':<22}" + "".join(f"{name:>12}" for name in COLUMNS)]
    for name, group in [*groups.items(), ("all", verdicts)]:
        counts = [sum(v.word == word for v in group) for word in WORDS]
        seconds = np.array([v.seconds for v in group])
        figures = [len(group), *counts, f"{1e3 * np.median(seconds):.1f}", f"{seconds.max():.2f}"]
        lines.append(f"{name:<22}" + "".join(f"{figure:>12}" for figure in figures))
    return "\n".join(lines)


def is_good(verdicts):
    """No false word, and few unsolved problems."""
    unsolved = sum(v.word in ("almost", "failed") for v in verdicts)
    return not any(v.word == "false" for v in verdicts) and unsolved <= UNSOLVED * len(verdicts)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument("families", nargs="*", help=f"by default all: {', '.join(FAMILIES)}")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of problems")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", metavar="FAMILY:SEED", help="one problem")
    given = parser.parse_args(arguments)
    if given.only:
        family, seed = given.only.split(":")
        verdict = judge(family, int(seed), FAMILIES[family])
        print(verdict.line(), f"{verdict.seconds:.3g} s", verdict.status)
        return int(verdict.word == "false")
    start = time.perf_counter()
    verdicts = run(given.families or FAMILIES, given.share, given.first, tell=lambda line: print(line, flush=True))
    print(table(verdicts))
    print(f"seeds {given.first} to {given.first} + problems - 1 of every family; {time.perf_counter() - start:.0f} s")
    return int(not is_good(verdicts))


if __name__ == "__main__":
    sys.exit(main())
