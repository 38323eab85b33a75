"""A session of the page: journal, answers, metric, map, downloads. Every change goes through :meth:`Session.say`; the rest is data."""

import json
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.estimators import MetricLearner
from bregmat.io import save, write_constraints
from bregmat.io.texts import pandas_package
from bregmat_app.label.answers import Answer, Answers, rows_of
from bregmat_app.label.clusters import Clusters, agreement, find_clusters
from bregmat_app.label.groups import MOST_CLASSES, Groups, Links
from bregmat_app.label.journal import Journal
from bregmat_app.label.learning import MET, NEARLY_MET, LabelSettings, Learned, Learning, plane
from bregmat_app.label.points import LabelPoints
from bregmat_app.label.questions import next_question

MOST_SHOWN = 60  # points of one answer that the page marks
MOST_NEIGHBOURS = 6  # of a chosen point
FEATURES = 6  # shown with the largest gains, and as many with the largest losses
DOWNLOADS = ("labels.csv", "labels.json", "constraints.csv", "model.bm", "report.html", "learn.py")
RECENT = 10  # answers whose effect on the labels is shown
# When it is time to stop: share of the labels that the last answers change, and share of the labels that are clear.
FEW_CHANGED, MOST_DECIDED = 0.01, 0.9
LEARN_AGAIN = '''"""Learn the model of the labelling page from constraints.csv, bit for bit with the same versions on the same processor."""

import bregmat
from bregmat.io import read_constraints
{source}
constraints = read_constraints("constraints.csv", id_type={id_type})
learner = bregmat.{learner}
learner.fit(points.X, constraints=constraints, sample_id={ids})
print(learner.result_.status, learner.get_mahalanobis_matrix().shape)
'''


@dataclass(frozen=True, eq=False)
class SessionState:
    """The state after an answer. It is never changed, so that longer computations on it can overlap with the next answer."""

    version: int
    answers: list[Answer]
    groups: Groups
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
        classes: Sequence[str] = (),
    ) -> None:
        if len(set(classes)) < len(classes) or len(classes) > MOST_CLASSES:
            raise ValueError(f"--classes takes at most {MOST_CLASSES} different names; got {', '.join(classes)}")
        self.points, self.settings, self.names = points, settings, classes
        self.learning = Learning(points.X, settings, points.first_prior)
        self.journal = Journal(journal, {"points": points.digest, **asdict(settings)}, resume=resume)
        self.answers = Answers(points.n)
        self.groups = Links([]).groups(classes)
        for number, event in enumerate(self.journal.events, 2):
            try:
                self._apply(self.answers.check(event))
            except ValueError as error:
                self.journal.close()
                raise ValueError(f"{journal}, line {number}: {error}") from error
        self._lock = threading.Lock()  # answers come while others are learned
        self._skipped: set[int] = set()
        self.version = 0
        self.n_resumed = len(self.answers.active())
        prior = self.learning.learn(None)
        self.state = SessionState(0, [], self.groups, prior, plane(self.learning.covariance, prior.map, None), 0.0)
        self.learn()

    def say(self, event: Any) -> None:
        """Write an answer, an undo or a redo to the journal. ValueError if it is not valid. Call :meth:`learn` afterwards."""
        event = self.answers.check(event)
        self.journal.append(event)
        with self._lock:
            self._apply(event)
            self.version += 1

    def _apply(self, event: dict[str, Any]) -> None:
        """Apply a checked event; classes keep their keys."""
        self.answers.apply(event)
        self.groups = Links(self.answers.active()).groups(self.names, self.groups)

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
            version, active, groups = self.version, self.answers.active(), self.groups
        space = self.learning.chosen(groups)
        learned = self.learning.learn(rows_of(active, space.near, space.far), last.learned, space)
        turned = plane(self.learning.covariance, learned.map, last.plane)
        self.state = SessionState(version, active, groups, learned, turned, time.perf_counter() - start)
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
            "made": points.made,
            "n_resumed": self.n_resumed,
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
                    "violation": violations.get(answer.number),
                    "met": _met(violations.get(answer.number, 0.0)),
                }
                for answer in state.answers
            ],
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
        with self._lock:
            groups, last = self.groups, self.state.learned
        rng = np.random.default_rng([self.version, len(self._skipped)])
        found = next_question(self.learning.X @ last.map, last.space.first, groups, rng, self._skipped)
        if found is None:
            return None
        offered = []
        for one, members in zip(found.classes, found.groups):
            whole = members if one.group is None else groups.members[one.group]
            picture = whole[0] if whole else None  # the first point of a class stands for it as long as it exists
            about = {"key": one.key, "name": one.name, "is_known": one.group is not None}
            offered.append({**about, "size": len(whole), "picture": picture, "members": members})
        return {"point": found.point, "classes": offered, "guess": found.guess}

    def details(self, state: SessionState, clusters: Clusters) -> dict[str, Any]:
        """Return what takes longer than the map: clusters, progress, agreement with known labels, and contradictions."""
        labels = None if len(state.groups.all_apart()) < 2 else self.points.classes
        return {
            "clusters": self.cluster_list(state, clusters),
            "progress": self.progress(state, clusters),
            "agreement": None if labels is None else agreement(clusters.key, labels),
            "contradictions": Links(state.answers).contradictions(),
        }

    def unmeetable(self, state: SessionState) -> list[int]:
        """Return answers that no metric of these features meets exactly, by proof, although they do not contradict each other."""
        return self.learning.unmeetable(state.learned, set().union(*Links(state.answers).contradictions()))

    def cluster_list(self, state: SessionState, clusters: Clusters) -> list[dict[str, Any]]:
        """Return key, name, size and number of answered points of the cluster of each class."""
        found = []
        for one in state.groups.classes:
            given, size = state.groups.points(one), int((clusters.key == one.key).sum())
            found.append({"key": one.key, "name": one.name, "size": size, "given": len(given), "first": given[:1]})
        return found

    def clusters(self, state: SessionState, groups: Groups | None = None) -> Clusters:
        """Return the cluster of each point, by the groups of the state or by others."""
        mapped, first = self.learning.X @ state.learned.map, state.learned.space.first
        return find_clusters(mapped, first, groups or state.groups)

    def progress(self, state: SessionState, clusters: Clusters) -> dict[str, Any]:
        """Return how many points are decided, which share of the labels the last answers changed, and whether it is time to stop."""
        decided, changed, is_enough = float(clusters.is_clear.mean()), None, False
        if len(state.answers) > RECENT:
            earlier = Links(state.answers[:-RECENT]).groups(self.names, state.groups)
            changed = float(np.mean(self.clusters(state, earlier).key != clusters.key))
            is_settled = len(earlier.all_apart()) == len(state.groups.all_apart()) > 1  # no class has just begun
            is_enough = is_settled and changed <= FEW_CHANGED and decided >= MOST_DECIDED
        return {"decided": decided, "changed": changed, "recent": RECENT, "is_enough": is_enough}

    def labels(self, state: SessionState) -> list[dict[str, Any]]:
        """Return id, label, source ("given" by an answer or "inferred") and clearness of each point; ValueError without two classes."""
        if len(state.groups.all_apart()) < 2:
            raise ValueError("two classes at least are needed for labels: answer a few questions first")
        names = {one.key: one.name or f"group {one.key}" for one in state.groups.classes}
        named = {i: answer.name for answer in state.answers for i in answer.named()}  # the last name counts
        of = {one.group: names[one.key] for one in state.groups.all_apart()} | state.groups.names
        found, clusters = [], self.clusters(state)
        for i, (key, is_clear) in enumerate(zip(clusters.key.tolist(), clusters.is_clear.tolist())):
            given = named.get(i) or of.get(state.groups.of.get(i, -1))
            source = "given" if given else "inferred"
            found.append(
                {"id": self.points.names[i], "label": given or names[key], "source": source, "clear": is_clear}
            )
        return found

    def neighbours(self, state: SessionState, point: Any) -> dict[str, Any]:
        """Return the nearest neighbours of a point in the prior and in the learned metric."""
        i, found = self._checked(point), {}
        for name, mapped in (("before", state.learned.space.first), ("now", self.learning.X @ state.learned.map)):
            sq = ((mapped - mapped[i]) ** 2).sum(axis=1)
            sq[i] = np.inf
            found[name] = np.argsort(sq, kind="stable")[: min(MOST_NEIGHBOURS, self.points.n - 1)].tolist()
        return {"point": i, **found}


def _met(violation: float) -> str:
    """Return "yes", "nearly" or "no"."""
    return "yes" if violation <= MET else "nearly" if violation <= NEARLY_MET else "no"


def exported(session: Session, state: SessionState, name: str) -> bytes:
    """Return the content of a file to download; ValueError if there is no answer yet or no such file.

    The model is fitted to the constraints of the file without a warm start, so that it does not depend on the order of the
    answers. The metric on the page differs from it by at most its gap.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"there is no file {name!r}; there are {', '.join(DOWNLOADS)}")
    if name == "labels.json":
        return json.dumps(session.labels(state), indent=1, ensure_ascii=False).encode()
    if name == "labels.csv":
        return pandas_package().DataFrame(session.labels(state)).to_csv(index=False, lineterminator="\n").encode()
    if state.learned.rows is None:
        raise ValueError("there are no answers yet, so there is nothing to download")
    points, rows = session.points, state.learned.rows.constraints
    learner = MetricLearner(**asdict(session.settings) | {"prior": state.learned.space.name})
    if name == "learn.py":
        id_type, ids = ("int", None) if points.sample_id is None else ("str", "points.names")
        return LEARN_AGAIN.format(source=points.source, learner=learner, id_type=id_type, ids=ids).encode()
    if name == "report.html":
        return _report(points, rows, learner, len(state.answers)).encode()
    with tempfile.TemporaryDirectory(prefix="bregmat-label-") as folder:
        out = Path(folder) / name
        if name == "model.bm":
            learner.fit(points.X, constraints=rows)
            save(
                out, learner, info={"source": points.title, "feature_names": list(points.features), "has_labels": False}
            )
        else:
            write_constraints(out, rows if points.sample_id is None else replace(rows, ids=np.array(points.names)))
        return out.read_bytes()


def _report(points: LabelPoints, rows: Constraints, learner: MetricLearner, n_answers: int) -> str:
    """Fit the learner and return its report."""
    from bregmat_app.report import ReportData, render_report

    data = ReportData(
        title=f"Metric learned from {n_answers} answers on {points.title}",
        result=learner.fit(points.X, constraints=rows).result_,
        X=points.X,
        constraints=rows,
        y=None if points.classes is None else np.array([name or None for name in points.classes], dtype=object),
        learner=learner,
        settings=learner.get_params(),
        sample_id=points.names,
        has_hard=False,
    )
    return render_report(data)
