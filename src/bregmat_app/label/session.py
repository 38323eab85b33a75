"""A session of the page: journal, answers, metric, map. Every change goes through :meth:`Session.say`; the rest is plain data."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bregmat_app.label.answers import Answer, Answers, rows_of
from bregmat_app.label.clusters import Agreement, find_clusters
from bregmat_app.label.groups import Links
from bregmat_app.label.journal import Journal
from bregmat_app.label.learning import MET, NEARLY_MET, LabelSettings, Learned, Learning, plane
from bregmat_app.label.points import LabelPoints
from bregmat_app.label.questions import next_question

MOST_SHOWN = 60  # points of one answer that the page marks
MOST_NEIGHBOURS = 6  # of a chosen point
FEATURES = 6  # shown with the largest gains, and as many with the largest losses


@dataclass(frozen=True, eq=False)
class SessionState:
    """The state after an answer. It is never changed, so that longer computations on it can overlap with the next answer."""

    version: int
    answers: list[Answer]
    learned: Learned
    plane: np.ndarray
    seconds: float


class Session:
    """The answers and the metric of the page, without the web. The answers are in the file `journal`, which `resume` continues."""

    def __init__(
        self,
        points: LabelPoints,
        settings: LabelSettings,
        journal: Path,
        *,
        resume: bool = False,
        n_clusters: int | None = None,
    ) -> None:
        self.points, self.settings, self.n_clusters = points, settings, n_clusters
        self.learning = Learning(points.X, settings)
        self.journal = Journal(journal, {"points": points.digest, **asdict(settings)}, resume=resume)
        self.answers = Answers(points.n)
        for number, event in enumerate(self.journal.events, 2):
            try:
                self.answers.apply(self.answers.check(event))
            except ValueError as error:
                self.journal.close()
                raise ValueError(f"{journal}, line {number}: {error}") from error
        self._lock = threading.Lock()  # answers come while others are learned
        self._skipped: set[int] = set()
        self.version = 0
        prior = self.learning.learn(None)
        self.state = SessionState(0, [], prior, plane(self.learning.covariance, prior.map, None), 0.0)
        self.learn()
        self.agreement = None if points.classes is None else Agreement(self.learning, points.classes)

    def say(self, event: Any) -> None:
        """Write an answer, an undo or a redo to the journal. ValueError if it is not valid. Call :meth:`learn` afterwards."""
        event = self.answers.check(event)
        self.journal.append(event)
        with self._lock:
            self.answers.apply(event)
            self.version += 1

    def skip(self, point: Any) -> None:
        """Do not ask about this point again."""
        self._skipped.add(self._checked(point))

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()

    def learn(self) -> SessionState:
        """Learn from all answers, starting from the last metric, and rotate the map to match the last one."""
        start, last = time.perf_counter(), self.state
        with self._lock:
            version, active = self.version, self.answers.active()
        rows = rows_of(active, self.learning.near, self.learning.far)
        learned = self.learning.learn(rows, last.learned)
        turned = plane(self.learning.covariance, learned.map, last.plane)
        self.state = SessionState(version, active, learned, turned, time.perf_counter() - start)
        return self.state

    def _checked(self, point: Any) -> int:
        """The number of a point, as a tab sends it."""
        if type(point) is not int or not 0 <= point < self.points.n:
            raise ValueError(f"a point is a number from 0 to {self.points.n - 1}")
        return point

    # ------------------------------------------------------------------ what is shown
    def about(self) -> dict[str, Any]:
        """Return the data of the page that never change."""
        points = self.points
        return {
            "title": points.title,
            "names": list(points.names),
            "features": list(points.features),
            "classes": points.classes,
            "has_pictures": points.pictures is not None,
            "has_texts": points.texts is not None,
            "n": points.n,
            "d": points.X.shape[1],
        }

    def positions(self, state: SessionState) -> np.ndarray:
        """Return the positions of the points on the map, shape (n, 2), float32."""
        X = self.learning.X
        return ((X @ state.plane) - self.learning.mean @ state.plane).astype(np.float32)

    def shown(self, state: SessionState) -> dict[str, Any]:
        """Return what is known immediately after an answer."""
        violations, result = state.learned.violations(), state.learned.result
        gains = self.learning.gains(state.learned)
        order = np.argsort(gains, kind="stable")
        picked = [k for k in (*order[::-1][:FEATURES], *order[:FEATURES][::-1]) if abs(gains[k]) > 0.005]
        return {
            "version": state.version,
            "answers": [
                {
                    "number": answer.number,
                    "kind": answer.kind,
                    "sentence": answer.sentence(self.points.names),
                    "points": list(answer.points[:MOST_SHOWN]),
                    "weight": answer.weight,
                    "violation": violations.get(answer.number),
                    "met": _met(violations.get(answer.number, 0.0)),
                }
                for answer in state.answers
            ],
            "named": [{"point": i, "name": name} for i, name in _named(state.answers).items()],
            "can_undo": bool(self.answers.done),
            "can_redo": bool(self.answers.undone),
            "status": None if result is None else str(result.status),
            "gap": None if result is None or not np.isfinite(result.gap) else result.gap,
            "tol": self.settings.tol,
            "n_rows": 0 if state.learned.rows is None else len(state.learned.rows.keys),
            "seconds": state.seconds,
            "features": [
                {"name": str(self.points.features[k]), "gain": float(gains[k])} for k in dict.fromkeys(picked)
            ],
        }

    def question(self) -> dict[str, Any] | None:
        """Return the next question; None if there is none.

        The groups are those of all answers. Distances are those of the last metric learned, so that nobody waits for the next one.
        """
        answers = self.answers.active()
        groups, named = Links(answers).groups(), _named(answers)
        rng = np.random.default_rng([self.version, len(self._skipped)])
        found = next_question(self.learning.X @ self.state.learned.map, self.learning.first, groups, rng, self._skipped)
        if found is None:
            return None
        offered = []
        for members in found.groups:
            whole = groups.members[groups.of[members[0]]] if members[0] in groups.of else members
            name = next((named[i] for i in whole if i in named), None)
            offered.append({"members": members, "size": len(whole), "name": name})
        return {"point": found.point, "groups": offered, "guess": found.guess}

    def contradictions(self, state: SessionState) -> list[list[int]]:
        """Return the numbers of answers that provably contradict each other; stop early if another answer arrives."""
        softened = {answer.number for answer in state.answers if answer.weight < 1}
        return self.learning.contradictions(state.learned, softened, lambda: self.is_current(state))

    def is_current(self, state: SessionState) -> bool:
        """Tell whether no answer has come since this state."""
        return state.version == self.version

    def clusters(self, state: SessionState) -> np.ndarray:
        """Return the cluster of each point, shape (n,)."""
        groups = Links(state.answers).groups()
        return find_clusters(self.learning.X @ state.learned.map, self.learning.first, groups, self.n_clusters)

    def compared(self, clusters: np.ndarray, state: SessionState) -> dict[str, dict[str, float]] | None:
        """Return how well the clusters agree with the known labels; None without labels or answers. See :class:`Agreement`."""
        if self.agreement is None or not state.answers:
            return None
        return self.agreement.of(clusters, len(state.answers))

    def neighbours(self, state: SessionState, point: Any) -> dict[str, Any]:
        """Return the nearest neighbours of a point in the prior and in the learned metric."""
        i, found = self._checked(point), {}
        for name, mapped in (("before", self.learning.first), ("now", self.learning.X @ state.learned.map)):
            sq = ((mapped - mapped[i]) ** 2).sum(axis=1)
            sq[i] = np.inf
            found[name] = np.argsort(sq, kind="stable")[: min(MOST_NEIGHBOURS, self.points.n - 1)].tolist()
        return {"point": i, **found}


def _met(violation: float) -> str:
    """Return "yes", "nearly" or "no"."""
    return "yes" if violation <= MET else "nearly" if violation <= NEARLY_MET else "no"


def _named(answers: list[Answer]) -> dict[int, str]:
    """Return the class name of each point that has one; the last name counts."""
    named: dict[int, str] = {}
    for answer in answers:
        if answer.kind == "name":
            named |= dict.fromkeys(answer.points, answer.name)
    return named
