"""Files to download: labels, constraints, model, report, and the Python code that learns the same model bit for bit."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.estimators import MetricLearner
from bregmat.io import read_constraints, save, write_constraints
from bregmat_app.label.session import PointLabel, Session, SessionState

LABELS, LABELS_JSON = "labels.csv", "labels.json"
CONSTRAINTS, MODEL, REPORT, LINES = "constraints.csv", "model.bm", "report.html", "learn.py"
NAMES = (LABELS, LABELS_JSON, CONSTRAINTS, MODEL, REPORT, LINES)

_LINES = '''"""Learn the matrix of the labelling page again, bit for bit with the same versions on the same processor."""

{source}
import bregmat
from bregmat.io import read_constraints

learner = bregmat.MetricLearner({parameters})
learner.fit(X, constraints=read_constraints("constraints.csv", id_type={id_type}), sample_id=sample_id)
print(learner.result_.status, learner.get_mahalanobis_matrix().shape)
'''


def exported(session: Session, state: SessionState, name: str) -> bytes:
    """Return the content of a file to download; ValueError if there is no answer yet or no such file.

    The model is fitted to the constraints of the file without a warm start, so that it does not depend on the order of the
    answers. The metric on the page differs from it by at most its gap.
    """
    if name not in NAMES:
        raise ValueError(f"there is no file {name!r}; there are {', '.join(NAMES)}")
    if name in (LABELS, LABELS_JSON):
        return _labels(session.labels(state), name)
    if state.learned.rows is None:
        raise ValueError("there are no answers yet, so there is nothing to download")
    points, parameters = session.points, asdict(session.settings) | {"prior": state.learned.space.name}
    ids, rows = points.sample_id, state.learned.rows.constraints
    id_type: type = int
    if ids is not None and ids.dtype.kind in "iu" and (ids >= 0).all():
        rows = replace(rows, index=rows.renumbered(ids.__getitem__))
    elif ids is not None:
        rows, id_type = replace(rows, ids=ids), str
    if name == LINES:
        given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        return _LINES.format(source=points.source.strip(), parameters=given, id_type=id_type.__name__).encode()
    with tempfile.TemporaryDirectory(prefix="bregmat-label-") as folder:
        table = Path(folder) / CONSTRAINTS
        write_constraints(table, rows)
        if name == CONSTRAINTS:
            return table.read_bytes()
        learner = MetricLearner(**parameters)
        learner.fit(points.X, constraints=read_constraints(table, id_type=id_type), sample_id=ids)
        out = Path(folder) / name
        if name == MODEL:
            save(out, learner, info={"source": points.title, "feature_names": list(points.features)})
        else:
            _report(out, session, state.learned.rows.constraints, learner, parameters, len(state.answers))
        return out.read_bytes()


def _labels(labels: list[PointLabel], name: str) -> bytes:
    """The labels of all points as a table or as JSON."""
    records = [asdict(label) for label in labels]
    if name == LABELS_JSON:
        return json.dumps(records, indent=1, ensure_ascii=False).encode()
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(records)
    return text.getvalue().encode()


def _report(
    path: Path, session: Session, rows: Constraints, learner: MetricLearner, settings: dict[str, Any], n_answers: int
) -> None:
    """Write the report of the model."""
    from bregmat_app.report import ReportData, write_report

    points = session.points
    y = None if points.classes is None else np.array([name or None for name in points.classes], dtype=object)
    data = ReportData(
        title=f"Metric learned from {n_answers} answers on {points.title}",
        result=learner.result_,
        X=points.X,
        constraints=rows,
        y=y,
        learner=learner,
        settings=settings,
        sample_id=points.names,
        has_hard=False,
    )
    write_report(path, data)
