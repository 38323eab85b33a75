"""What the online learners share: a block is learned as a whole or not at all, and what fixed matrices would have lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ClassVar

import numpy as np

from bregmat.checks import check_positive
from bregmat.typing import Table


class Undo:
    """What is done to a learner within is taken back if anything goes wrong, Ctrl-C included.

    Attributes that were set or deleted come back by themselves. ``marks``: what is changed in place, each object with what
    its ``go_back`` wants to hear.
    """

    def __init__(self, learner: Any, marks: list[tuple[Any, Any]]) -> None:
        self.learner, self.marks, self.before = learner, marks, dict(vars(learner))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self.learner.__dict__ = self.before
            for part, mark in self.marks:
                part.go_back(mark)


class OnlineLearner(ABC):
    """The loss so far beside that of fixed matrices.

    Subclasses keep a ``_record`` of the stream (None where nothing is recorded yet), and say whether there is one, how a
    matrix is read and what it loses on the record.
    """

    _record: Any
    _hint: ClassVar[str] = ""  # when a stream need not be kept

    def loss_of(self, U: Table) -> float:
        """Total loss of a fixed matrix U (d, d) on the stream so far; needs a record of it (``keep_examples=True``)."""
        U = self._read_comparison(U)
        self._check_recorded()
        return 0.0 if self._record is None else self._total_loss(U, self._record)

    def regret(self, U: Table | None = None, *, loss_of_U: float | None = None) -> float:
        """Total loss so far minus that of a fixed matrix U (d, d); None is the best one in hindsight, where that is known.

        ``loss_of_U`` spares the learner from knowing the stream; otherwise it needs what :meth:`loss_of` needs.
        """
        if loss_of_U is not None:
            check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        else:
            loss_of_U = self._best_loss() if U is None else self.loss_of(U)
        return self.cumulative_loss_ - float(loss_of_U)

    # ------------------------------------------------------------------ of the subclass
    @property
    @abstractmethod
    def cumulative_loss_(self) -> float:
        """Total loss of the predictions so far, each made before its label was used."""

    @abstractmethod
    def _is_recorded(self) -> bool:
        """Whether the stream is recorded, from its beginning."""

    @abstractmethod
    def _read_comparison(self, U: Table) -> np.ndarray:
        """A matrix to compare with, checked."""

    @abstractmethod
    def _total_loss(self, U: np.ndarray, record: Any) -> float:
        """Total loss of a fixed matrix on the record."""

    def _best_loss(self) -> float:
        """Total loss of the best matrix in hindsight."""
        raise ValueError(
            f"regret needs the matrix U to compare with: {type(self).__name__} does not look for the best one."
        )

    def _check_recorded(self) -> None:
        if not self._is_recorded():
            raise ValueError(
                f"the stream was not kept: make the learner with keep_examples=True, or give loss_of_U{self._hint}."
            )
