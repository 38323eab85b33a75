"""Files to download: labels, constraints and the model."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bregmat.estimators import MetricLearner
from bregmat.io import save, write_constraints
from bregmat_app.label.session import Session, SessionState

NAMES = ("labels.csv", "labels.json", "constraints.csv", "model.bm")


def exported(session: Session, state: SessionState, name: str) -> bytes:
    """Return the content of a file to download; ValueError if there is no answer yet or no such file.

    The model is fitted to the constraints of the file without a warm start, so that it does not depend on the order of the
    answers. The metric on the page differs from it by at most its gap.
    """
    if name not in NAMES:
        raise ValueError(f"there is no file {name!r}; there are {', '.join(NAMES)}")
    if name == "labels.json":
        return json.dumps(session.labels(state), indent=1, ensure_ascii=False).encode()
    if name == "labels.csv":
        labels, text = session.labels(state), io.StringIO(newline="")
        table = csv.DictWriter(text, list(labels[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(labels)
        return text.getvalue().encode()
    if state.learned.rows is None:
        raise ValueError("there are no answers yet, so there is nothing to download")
    points, rows = session.points, state.learned.rows.constraints
    with tempfile.TemporaryDirectory(prefix="bregmat-label-") as folder:
        out = Path(folder) / name
        if name == "model.bm":
            learner = MetricLearner(**asdict(session.settings) | {"prior": state.learned.space.name})
            learner.fit(points.X, constraints=rows)
            save(out, learner, info={"source": points.title, "feature_names": list(points.features)})
        else:
            write_constraints(out, rows if points.sample_id is None else replace(rows, ids=np.array(points.names)))
        return out.read_bytes()
