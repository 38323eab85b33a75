"""What solvers need of divergences and losses, looked at before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from bregmat.base.checks import check_integer, check_positive
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.objective.divergences import DIVERGENCES

Settings = dict[Callable[[str, Any], None], tuple[str, ...]]  # names of settings by what looks at them

# what messages call the needs that not every divergence or loss meets
WORDS = {
    "row_projections": "compiled projections onto one row",
    "keeps_trace": "projections that keep the trace",
    "projection_code": "a compiled projection",
    "is_smooth": "a finite slack_weight on every row",
    "is_hard": "hard rows",
}


class SolverWithNeeds:
    """A solver that says what it needs: names of methods, or of attributes that are neither None nor False."""

    name: ClassVar[str]
    works_on: ClassVar[str]
    max_iter: ClassVar[int]
    needs_divergence: ClassVar[tuple[str, ...]]
    needs_loss: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Raise for settings that make no sense: each by the check of its kind, under the name of the class."""
        for check, names in self._settings().items():
            for name in names:
                check(f"{type(self).__name__}: {name}", getattr(self, name))

    def _settings(self) -> Settings:
        """Names of settings by what looks at each."""
        return {}

    def check(self, problem: NearestMatrix) -> None:
        """Raise ``TypeError`` naming what the problem lacks for this solver."""
        check_needs(self, problem)


def not_negative(name: str, value: Any) -> None:
    """Raise unless a setting is a number that is not below 0."""
    check_positive(name, value, finite=True, zero=True)


def positive(name: str, value: Any) -> None:
    """Raise unless a setting is a positive number."""
    check_positive(name, value, finite=True)


def count(name: str, value: Any) -> None:
    """Raise unless a setting is a positive whole number."""
    check_integer(name, value, 1, optional=False)


def check_needs(
    solver: SolverWithNeeds, problem: NearestMatrix, *, further: Iterable[str] = (), instead: str = "dual_newton"
) -> None:
    """Raise ``TypeError`` naming what the problem's divergence or the losses of its rows lack for a solver.

    Parameters
    ----------
    further : iterable of str
        What else the solver needs and the problem lacks.
    instead : str
        Name of a solver that takes more.
    """
    missing = []
    D = problem.divergence
    for need in _lacking(D, solver.needs_divergence):
        have = [name for name, cls in DIVERGENCES.items() if not list(_lacking(cls, (need,)))]
        known = f", as of {' and '.join(map(repr, have))}" if have else ""
        missing.append(f"{WORDS.get(need, need)} of the divergence{known} (got {D.name!r})")
    for loss, rows in problem.losses.groups:
        for need in _lacking(loss, solver.needs_loss):
            count = len(problem.losses.bound[rows])
            slack = "a finite slack_weight" if need == "is_hard" else f"the loss {loss.name!r}"
            what = "are hard" if loss.is_hard else f"have {slack}"
            missing.append(f"{WORDS.get(need, need)} ({count} rows {what})")
    missing += further
    if missing:
        raise TypeError(f'{solver.name} needs {", and ".join(missing)}. Use solver="{instead}" or "auto".')


def _lacking(term: Any, needs: Iterable[str]) -> Iterable[str]:
    """The needs that a term does not meet."""
    return (need for need in needs if getattr(term, need, None) is None or getattr(term, need) is False)
