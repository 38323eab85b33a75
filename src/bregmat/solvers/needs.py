"""What a solver needs of the divergence and the losses, checked before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from bregmat.base.checks import check_integer, check_positive
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.objective.divergences import DIVERGENCES

Settings = dict[Callable[[str, Any], None], tuple[str, ...]]  # check -> names of the settings that it checks

# words for the needs that not every divergence or loss meets, in messages
WORDS = {
    "row_projections": "compiled projections onto one row",
    "keeps_trace": "projections that keep the trace",
    "projection_code": "a compiled projection",
    "is_smooth": "a finite slack_weight on every row",
    "is_hard": "hard rows",
}


class SolverWithNeeds:
    """A solver that lists what it needs: names of attributes that must be neither None nor False."""

    name: ClassVar[str]
    works_on: ClassVar[str]
    max_iter: ClassVar[int]
    needs_divergence: ClassVar[tuple[str, ...]]
    needs_loss: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Raise for settings out of range, naming class and setting."""
        for check, names in self._settings().items():
            for name in names:
                check(f"{type(self).__name__}: {name}", getattr(self, name))

    def _settings(self) -> Settings:
        """The checks of the settings."""
        return {}

    def check(self, problem: NearestMatrix) -> None:
        """Raise ``TypeError`` naming what the problem lacks for this solver."""
        check_needs(self, problem)


def not_negative(name: str, value: Any) -> None:
    """Raise unless a setting is a finite number of at least 0."""
    check_positive(name, value, finite=True, zero=True)


def positive(name: str, value: Any) -> None:
    """Raise unless a setting is a finite positive number."""
    check_positive(name, value, finite=True)


def count(name: str, value: Any) -> None:
    """Raise unless a setting is a positive integer."""
    check_integer(name, value, 1, optional=False)


def check_needs(
    solver: SolverWithNeeds, problem: NearestMatrix, *, further: Iterable[str] = (), instead: str = "dual_newton"
) -> None:
    """Raise ``TypeError`` naming what the divergence or the losses of a problem lack for a solver.

    Parameters
    ----------
    further : iterable of str
        Other needs that the problem does not meet.
    instead : str
        Name of a solver that takes more problems.
    """
    missing = []
    D = problem.divergence
    for need in _lacking(D, solver.needs_divergence):
        have = [name for name, cls in DIVERGENCES.items() if not _lacking(cls, (need,))]
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


def _lacking(term: Any, needs: Iterable[str]) -> list[str]:
    """The needs that a term does not meet; divergences and losses of users may lack the attribute."""
    return [need for need in needs if getattr(term, need, None) is None or getattr(term, need) is False]
