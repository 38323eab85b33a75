"""Continuation in the slack weights: light ones first, then heavier ones up to the given ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.certificates.problem import NearestMatrix


@dataclass(frozen=True, eq=False)
class Stage:
    """The problem with the slack weights times ``share``; the last stage is the problem itself.

    The solution of each stage is the start of the next (the path of a penalty method; Nocedal and Wright 2006, chapter 17).
    """

    problem: NearestMatrix
    decades: float  # powers of ten by which the share grows next
    share: float = 1.0
    is_last: bool = True
    steps: int = 0  # taken in this stage

    @classmethod
    def of(cls, problem: NearestMatrix, share: float, decades: float) -> Stage:
        """The stage of this share."""
        if share >= 1.0:
            return cls(problem, decades)
        L = problem.losses
        losses = L.weighted(np.where(L.hard, L.gamma, share * L.gamma))
        return cls(replace(problem, losses=losses), decades, share, is_last=False)

    def next(self, problem: NearestMatrix) -> Stage:
        """The following stage: the share grows faster if this stage took at most 3 steps, more slowly if more than 6."""
        factor = 1.5 if self.steps <= 3 else 0.6 if self.steps > 6 else 1.0
        decades = min(1.0, max(0.1, self.decades * factor))
        return Stage.of(problem, self.share * 10.0**decades, decades)
