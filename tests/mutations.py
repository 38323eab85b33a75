"""Plant one mistake at a time in solvers, certificates and losses: the quick tests must fail for each.

``python tests/mutations.py`` copies the sources, changes one expression, runs the quick tests on the copy until the first failure, and
prints which mutations survived. It exits with 1 if any did. ``--only 3`` runs one mutation. It takes about a minute for each;
``--likely`` runs only the tests that are likely to find it, in a few seconds. ``--check`` runs no test: it says which expressions
are no longer in the sources. If one has moved or changed, change its line in MUTATIONS.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import bregmat

ROOT = Path(__file__).resolve().parents[1]
KERNELS = Path(bregmat.__file__).parent / "_kernels"  # compiled, from the installed package
LIMIT = 1800  # seconds for the tests of one mutation; all quick tests take about four minutes on two cores
# The tests that are likely to find a mutation come first, because a run ends at the first failure.
LIKELY = {
    "objective/divergences.py": ("contracts",),
    "objective/losses.py": ("contracts", "oracles"),
    "objective/row_losses.py": ("contracts", "oracles"),
    "certificates/problem.py": ("dual_newton", "outcomes"),
    "certificates/infeasibility.py": ("dual_newton",),
    "engine/problem.py": ("dual_newton", "outcomes"),
    "certificates/restoration.py": ("dual_newton",),
    "solvers/mirror_newton.py": ("mirror_newton", "contracts"),
    "solvers/dual_newton.py": ("contracts",),
    "solvers/box_qp.py": ("dual_newton",),
    "solvers/definite_boost.py": ("definite_boost",),
    "solvers/path_equations.py": ("interior_point",),
}
# then those of every equation, identity and outcome, and then all
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
MUTATIONS = (
    ("objective/divergences.py", "return 1.0 / np.multiply.outer(t, t)", "return 1.0 / np.add.outer(t, t) ** 2"),
    ("objective/divergences.py", "return float(-(1.0 + np.log(-t)).sum())", "return float(-np.log(-t).sum())"),
    ("objective/divergences.py", "ratio = -np.expm1(-gap) / gap", "ratio = np.exp(-gap)"),
    (
        "objective/divergences.py",
        "return x * np.log(np.where(x > 0, x, 1.0)) - x",
        "return x * np.log(np.where(x > 0, x, 1.0))",
    ),
    (
        "objective/divergences.py",
        "return 0.5 * float((np.maximum(t, 0.0) ** 2).sum())",
        "return float((np.maximum(t, 0.0) ** 2).sum())",
    ),
    ("objective/divergences.py", "+ 0.5 * float((below * below).sum())", "- 0.5 * float((below * below).sum())"),
    ("objective/losses.py", "return m * c + 0.5 * m * m", "return m * c + m * m"),
    ("objective/losses.py", "return c + m\n", "return c - m\n"),
    ("objective/row_losses.py", "weight / (scale * scale) * loss.curvature", "weight / scale * loss.curvature"),
    (
        "objective/losses.py",
        "sense = np.where(hard, rows.sense, 0).astype(np.int8) if self.is_two_sided else rows.sense",
        "sense = rows.sense",
    ),
    ("certificates/problem.py", "if not D.in_domain(t + error):\n        theta", "if False:\n        theta"),
    (
        "certificates/problem.py",
        "return min(1.0, 0.999 / top) if top > 0 else 0.0",
        "return min(1.0, 1.5 / top) if top > 0 else 0.0",
    ),
    ("certificates/problem.py", "- float(conjugate) - rounding", "- rounding"),
    (
        "certificates/problem.py",
        "upper = self.upper_bound(met, mu, objective + rounding, norm)",
        "upper = objective",
    ),
    (
        "certificates/problem.py",
        "if met.max_violation <= FEASIBLE and not np.isinf(objective):",
        "if not np.isinf(objective):",
    ),
    (
        "certificates/problem.py",
        "self.offset + met.iterate.value() + L.value(p)",
        "self.offset + met.iterate.value()",
    ),
    (
        "engine/problem.py",
        "if np.isfinite(self.gap) and self.gap <= tol and not crossed > tol:",
        "if self.gap <= 10 * tol:",
    ),
    (
        "engine/problem.py",
        "is_proven = np.isfinite(self.upper) and not excess < -CROSSED * unit",
        "is_proven = True",
    ),
    ("certificates/infeasibility.py", "strict = problem.divergence.keeps_rank and size == 0", "strict = size == 0"),
    (
        "certificates/infeasibility.py",
        "if not strict and -total <= SAFETY_FACTOR * noise * float(problem.prior @ extents):\n        return None",
        "pass",
    ),
    (
        "certificates/restoration.py",
        "want = np.where(s == 0, L.bound - p, -s * (np.maximum(excess, 0.0) + margin))",
        "want = np.where(s == 0, p - L.bound, -s * (np.maximum(excess, 0.0) + margin))",
    ),
    (
        "certificates/problem.py",
        "return np.maximum(excess_of(p, self.losses.bound, self.losses.sense), 0.0) / self.unit",
        "return excess_of(p, self.losses.bound, self.losses.sense) / self.unit",
    ),
    ("solvers/mirror_newton.py", "B = -weighted_by(S, R)", "B = -R"),
    (
        "solvers/mirror_newton.py",
        "excess = 0.5 * float(np.linalg.norm(weighted_by(S, R))) ** 2",
        "excess = 0.0",
    ),
    (
        "solvers/dual_newton.py",
        "return iterate.conjugate() + float(problem.losses.conjugate(mu).sum())",
        "return iterate.conjugate()",
    ),
    ("solvers/dual_newton.py", "signal = L.value(p) + float((L.conjugate(mu) - mu * p).sum())", "signal = L.value(p)"),
    (
        "solvers/box_qp.py",
        "move = np.minimum(np.maximum(-q / self.diagonal, lower), upper)",
        "move = -q / self.diagonal",
    ),
    ("solvers/box_qp.py", "d, q = d + e, q + He", "d, q = d + e, q"),
    (
        "solvers/definite_boost.py",
        "return float((np.log1p(-r / low) - np.log1p(-r / high)) / (high - low))",
        "return float((np.log1p(r / high) - np.log1p(r / low)) / (high - low))",
    ),
    ("solvers/path_equations.py", "dlam = np.where(free, 0.0, sign * dm)", "dlam = np.where(free, 0.0, dm)"),
)


def places(old: str) -> list[str]:
    """The files below src/bregmat with an expression, once for each time."""
    package = ROOT / "src" / "bregmat"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    return [str(path.relative_to(package)) for path, text in texts.items() for _ in range(text.count(old))]


def missing(numbers: Iterable[int]) -> list[str]:
    """What is wrong with mutations whose expression does not occur exactly once, in the file that they name."""
    out = []
    for k in numbers:
        file, old, _ = MUTATIONS[k]
        found = places(old)
        if found != [file]:
            now = f"it occurs in {', '.join(found)}" if found else "it occurs in no file: the code has changed"
            out.append(f"mutation {k}: {file} must have {old!r} once, and no other file; {now}")
    return out


def tests_of(file: str, likely: bool) -> Iterable[list[str]]:
    """The tests of a mutated file, most likely ones first."""
    words = (LIKELY.get(file, ()),) if likely else (LIKELY.get(file, ()), FIRST)
    yield from ([f"tests/test_{word}.py" for word in group] for group in words if group)
    if not likely:
        yield ["tests"]


def finder(file: str, old: str, new: str, likely: bool) -> tuple[bool, str]:
    """Whether a quick test fails with this mutation; and which one, or how the run ended instead."""
    with tempfile.TemporaryDirectory(prefix="bregmat-mutation-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for library in KERNELS.glob("_v*"):
            shutil.copy2(library, folder / "src" / "bregmat" / "_kernels")
        path = folder / "src" / "bregmat" / file
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        options = ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "-n", "auto"]
        for chosen in tests_of(file, likely):
            command = [sys.executable, "-m", "pytest", *options, *chosen]
            try:
                done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return False, f"NO END within {LIMIT} s of {' '.join(chosen)}"
            if done.returncode not in (0, 1, 2):
                raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
            if done.returncode:
                failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return True, failed[0].split(" - ")[0] if failed else "an error of the whole run"
    return False, "SURVIVED"


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__)
    parser.add_argument("--only", type=int, metavar="K", nargs="+", help="run these mutations, counted from 0")
    parser.add_argument("--likely", action="store_true", help="run only the tests that are likely to find a mutation")
    parser.add_argument("--check", action="store_true", help="run no test, and only look for the expressions")
    given = parser.parse_args()
    numbers = range(len(MUTATIONS)) if given.only is None else given.only
    wrong = missing(numbers)
    wrong += [f"{file} in LIKELY has no mutation" for file in LIKELY if file not in {entry[0] for entry in MUTATIONS}]
    print("\n".join([*wrong, f"{len(numbers)} mutations, {len(wrong)} complaints"]), flush=True)
    if wrong or given.check:
        return 1 if wrong else 0
    survived = 0
    for k in numbers:
        file, old, new = MUTATIONS[k]
        is_found, words = finder(file, old, new, given.likely)
        survived += not is_found
        print(f"{k:3} {file}: {old} -> {new}\n    {words}", flush=True)
    print(f"{len(numbers)} mutations, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
