"""What became of a problem: solved, almost, failed or false; judged by ``bregmat.verify`` and by what is known of the problem."""

import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import bregmat

SECONDS = 20.0  # for one problem
ALMOST = 1e-3  # gap up to which a feasible point counts as almost solved
REPEATED = "_repeated"  # end of the name of a family whose points occur twice
WORDS = ("solved", "almost", "failed", "false")


@dataclass
class Case:
    """A problem with what is known of it.

    ``solve`` gives a result; ``arguments`` are for ``bregmat.verify``; ``feasible`` is None where it is not known, ``known`` the
    objective of some feasible point, ``optimum`` the optimal one (to ``rtol``); ``judge`` says what else is false, or None.
    ``leaves_range`` says whether what makes it feasible lies outside of the prior's range, by the rank that it has by the rule of 1e-12.
    """

    solve: Callable[[], Any]
    arguments: Any = None
    feasible: bool | None = True
    known: Callable[[Any], float] | None = None
    optimum: float | None = None
    rtol: float = 1e-5
    expected: str | tuple[str, ...] = "OPTIMAL"
    judge: Callable[[Any], str | None] | None = None
    leaves_range: Callable[[Any], bool] | None = None
    text: str = ""
    may_refuse: bool = False  # whether a ValueError that names the rows is an answer, too
    own_rule: bool = False  # whether the method has a stopping rule of its own, which may be met without a proof


def with_repeats(*families: Callable[..., Case]) -> dict[str, Callable[..., Case]]:
    """Families by name, and each a second time with points that occur twice, exactly or nearly."""
    plain = {family.__name__: family for family in families}
    return plain | {f"{name}{REPEATED}": partial(family, repeats=True) for name, family in plain.items()}


def repeat_rows(rng: np.random.Generator, X: np.ndarray, y: np.ndarray | None = None, least: float = 1e-14) -> None:
    """Put some rows, and their labels, in the place of others: exactly, or with a relative error of ``least`` (inf: none) to 0.1."""
    for _ in range(int(rng.integers(1, 1 + max(1, len(X) // 3))) if len(X) > 1 else 0):
        i, j = rng.choice(len(X), 2, replace=False)
        error = 0.0 if least == np.inf or rng.random() < 0.5 else 10.0 ** rng.uniform(np.log10(least), -1)
        X[i] = X[j] * (1.0 + error * rng.normal(size=X.shape[1]))
        if y is not None:
            y[i] = y[j]


@dataclass
class Verdict:
    """A word, why, and the seconds it took."""

    family: str
    seed: int
    word: str
    why: str = ""
    seconds: float = 0.0
    status: str = ""
    text: str = ""

    def line(self) -> str:
        return f"{self.family}:{self.seed}  {self.word:<7} {self.why}  [{self.text}]"


def judge(family: str, seed: int, make: Callable[[np.random.Generator], Case]) -> Verdict:
    """Draw the problem of a seed, solve it, and judge the result."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        case = make(np.random.default_rng([seed, *family.encode()]))
        start = time.perf_counter()
        try:
            result = case.solve()
        except ValueError as error:
            word = "solved" if case.may_refuse or case.feasible is False else "failed"
            return Verdict(family, seed, word, f"refused: {error}", time.perf_counter() - start, "refused", case.text)
        except Exception:  # noqa: BLE001 - whatever is raised is a false word
            why = f"raised: {traceback.format_exc().splitlines()[-1]}"
            return Verdict(family, seed, "false", why, time.perf_counter() - start, "raised", case.text)
        seconds = time.perf_counter() - start
        word, why = judged(case, result)
    return Verdict(family, seed, word, why, seconds, str(getattr(result, "status", "")), case.text)


def judged(case: Case, result: Any) -> tuple[str, str]:
    """The word for a result, and why."""
    if case.judge is not None and (wrong := case.judge(result)) is not None:
        return "false", wrong
    status = getattr(result, "status", None)
    if status is None:
        return "solved", ""
    if result.gap < 0:
        return "false", f"{status} with the gap {result.gap:.2g}"
    if (status == "OPTIMAL") != (result.exit_reason == "TOLERANCE") and not (case.own_rule and status == "FEASIBLE"):
        return "false", f"{status}, but the run ended with {result.exit_reason}: gap {result.gap:.2g}"
    if case.arguments is not None:
        found = bregmat.verify(result, **case.arguments)
        if found.problems:
            return "false", f"{status}; verify: {'; '.join(found.problems)}"
    feasible = case.feasible
    if status == "INFEASIBLE" and feasible is True and case.leaves_range is not None and case.leaves_range(result):
        feasible = None
    if status == "INFEASIBLE" and feasible is True:
        return "false", f"INFEASIBLE, conflict {list(np.ravel(result.conflict))}, but feasible by construction"
    if feasible is False and status in ("OPTIMAL", "FEASIBLE"):
        return "false", f"{status}, but infeasible by construction"
    if status == "UNBOUNDED" and case.optimum is not None:
        return "false", f"UNBOUNDED, but the optimum is {case.optimum:.9g}"
    best = case.optimum if case.known is None else case.known(result)
    if best is not None and np.isfinite(best) and status in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
        room = case.rtol * max(1e-300, abs(best)) + result.tol * max(1.0, result.unit, abs(best))
        if result.dual_bound > best + room:
            return "false", f"dual bound {result.dual_bound:.9g} above a feasible point's {best:.9g}"
        if status == "OPTIMAL" and result.objective > best + room:
            return "false", f"OPTIMAL at {result.objective:.9g}, but there is a point at {best:.9g}"
        if case.optimum is not None and status in ("OPTIMAL", "FEASIBLE") and result.objective < case.optimum - room:
            return "false", f"objective {result.objective:.9g} below the optimum {case.optimum:.9g}"
    wanted = "INFEASIBLE" if feasible is False else case.expected
    if status in ((wanted,) if isinstance(wanted, str) else wanted) or (
        feasible is None and status in ("OPTIMAL", "INFEASIBLE")
    ):
        return "solved", ""
    why = f"{status} ({result.exit_reason}) for {wanted}: gap {result.gap:.2g}, violation {result.max_violation:.2g}, {result.solver}"
    return ("almost" if status == "FEASIBLE" and result.gap <= ALMOST else "failed"), why
