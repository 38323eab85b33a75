"""Files to download: constraints, model, report, and the Python code that learns the same model bit for bit."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.estimators import MetricLearner
from bregmat.io import read_constraints, save, write_constraints
from bregmat_app.label.session import Session, SessionState

CONSTRAINTS, MODEL, REPORT, LINES = "constraints.csv", "model.bm", "report.html", "learn.py"
NAMES = (CONSTRAINTS, MODEL, REPORT, LINES)

_LINES = '''"""Learn the matrix of the labelling page again, bit for bit with the same versions on the same processor."""

{source}
import bregmat
from bregmat.io import read_constraints

learner = bregmat.MetricLearner({parameters})
learner.fit(X, constraints=read_constraints("constraints.csv"{id_type}), sample_id=sample_id)
print(learner.result_.status, learner.get_mahalanobis_matrix().shape)
'''


def exported(session: Session, state: SessionState, name: str) -> bytes:
    """Return the content of a file to download.

    The model is fitted to the constraints of the file without a warm start, so that it does not depend on the order of the
    answers. The metric on the page differs from it by at most its gap.

    Parameters
    ----------
    session : Session
    state : SessionState
    name : {"constraints.csv", "model.bm", "report.html", "learn.py"}

    Raises
    ------
    ValueError
        There is no answer yet, or the name is unknown.
    """
    if name not in NAMES:
        raise ValueError(f"there is no file {name!r}; there are {', '.join(NAMES)}")
    if state.learned.rows is None:
        raise ValueError("there are no answers yet, so there is nothing to download")
    if name == LINES:
        return _lines(session).encode()
    with tempfile.TemporaryDirectory(prefix="bregmat-label-") as folder:
        table = Path(folder) / CONSTRAINTS
        write_constraints(table, _named(session, state.learned.rows.constraints))
        if name == CONSTRAINTS:
            return table.read_bytes()
        learner = MetricLearner(**_parameters(session))
        rows = read_constraints(table, id_type=_id_type(session))
        learner.fit(session.points.X, constraints=rows, sample_id=session.points.sample_id)
        out = Path(folder) / name
        if name == MODEL:
            save(out, learner, info={"source": session.points.title, "feature_names": list(session.points.features)})
        else:
            _report(out, session, state, learner)
        return out.read_bytes()


def _parameters(session: Session) -> dict[str, Any]:
    return asdict(session.settings)


def _named(session: Session, rows: Constraints) -> Constraints:
    """Name the points of the rows by sample ids if there are any."""
    ids = session.points.sample_id
    if ids is None:
        return rows
    columns = {name: getattr(rows, name) for name in ("relation", "bound", "sense", "weight", "matrices", "relations")}
    if ids.dtype.kind in "iu" and (ids >= 0).all():
        return Constraints(index=rows.renumbered(ids.__getitem__), **columns)
    return Constraints(index=rows.index, ids=ids, **columns)


def _id_type(session: Session) -> type:
    ids = session.points.sample_id
    return int if ids is None or (ids.dtype.kind in "iu" and (ids >= 0).all()) else str


def _lines(session: Session) -> str:
    parameters = ", ".join(f"{name}={value!r}" for name, value in _parameters(session).items())
    return _LINES.format(
        source=session.points.source.strip(), parameters=parameters, id_type=f", id_type={_id_type(session).__name__}"
    )


def _report(path: Path, session: Session, state: SessionState, learner: MetricLearner) -> None:
    from bregmat_app.report import ReportData, write_report

    assert state.learned.rows is not None
    points = session.points
    y = None if points.classes is None else np.array([name or None for name in points.classes], dtype=object)
    write_report(
        path,
        ReportData(
            title=f"Metric learned from {len(state.answers)} answers on {points.title}",
            result=learner.result_,
            X=points.X,
            constraints=state.learned.rows.constraints,
            y=y,
            learner=learner,
            settings=_parameters(session),
            sample_id=np.array([str(name) for name in points.names]),
            feature_names=[str(name) for name in points.features],
            has_hard=False,
        ),
    )
