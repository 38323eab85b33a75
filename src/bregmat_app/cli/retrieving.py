"""The work of `bregmat retrieve`: read queries, documents and right answers, learn a map, write it and say what it gains."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import as_choice
from bregmat.constraints.tables import parse_sample_ids
from bregmat.io import Points, read_points, save, tables
from bregmat.io.paths import TABLES, known_path
from bregmat.retrieval import RetrievalLearner
from bregmat_app.cli import show
from bregmat_app.cli.points import find_sample_ids


def learn_retrieval(
    queries: Path, documents: Path, relevant: Path | None, out: Path | None, *, prior: Any, seed: int, quiet: bool
) -> int:
    """Learn a map from three files, write it, and print the measures of held-out queries as given and learned; the exit code."""
    as_choice("--prior", prior, ("auto", "identity", "covariance"))
    Q, D = read_points(queries), read_points(documents)
    grades = None if relevant is None else read_relevance(relevant, Q, D)
    learner, progress = RetrievalLearner(prior=prior, random_state=seed), show.Progress("learning", quiet, state=_state)
    texts, is_interrupted = show.fit_until_interrupted(learner, progress, Q.X, D.X, grades)
    if out is not None:
        save(out, learner, info={"feature_names": list(Q.names)})
    for text in texts:
        show.warn(text)
    if learner.report_:
        rows = [
            (f"{name}, as given and learned", f"{x['as given']:.3f}  {x['learned']:.3f}")
            for name, x in learner.report_.items()
        ]
        title = f"held-out queries among {len(D.X):,} documents"
        show.stdout().print(show.name_value_table(rows, title))
    show.stdout().print(show.name_value_table(learner.result_.certificate_rows(None)))
    if out is not None:
        show.wrote("model", out)
    return show.ExitCode.INTERRUPTED if is_interrupted else show.exit_code(learner.result_)


def read_relevance(path: Path, queries: Points, documents: Points) -> sp.csr_array:
    """Grades (n_queries, n_documents) from a table with the columns query, document and, if there is one, grade (by default 1)."""
    table = tables.read(known_path(path, "read right answers from", TABLES), is_word=lambda name: name != "grade")
    tables.require_columns(path, ("query", "document"), table.columns)
    row, column = (
        _numbers(path, name, table.columns[name], points)
        for name, points in (("query", queries), ("document", documents))
    )
    grade = np.ones(len(row))
    if "grade" in table.columns:
        grade, is_word = table.numbers("grade")
        if len(bad := np.flatnonzero(is_word | ~(grade >= 0))):
            raise table.bad_cell(int(bad[0]), "grade", "is not a grade, which is a number of at least 0")
    shape = len(queries.X), len(documents.X)
    return sp.csr_array((grade, (row, column)), shape=shape)


def _numbers(path: Path, name: str, cells: np.ndarray, points: Points) -> np.ndarray:
    """Row numbers of points that are named by their column of ids, or else by their numbers."""
    n, (_, ids) = len(points.X), find_sample_ids(points, None)
    known = {str(key): k for k, key in enumerate(np.arange(n) if ids is None else ids)}
    found = np.array([known.get(str(cell), -1) for cell in parse_sample_ids(cells)], dtype=int)
    if len(bad := np.flatnonzero(found < 0)):
        what = f"row numbers from 0 to {n - 1}" if len(known) == n and "0" in known else "the column id"
        raise ValueError(f"{path}: no {name} {str(cells[bad[0]])!r} in its file, whose rows are named by {what}")
    return found


def _state(record: Any) -> str:
    """The text of a record in the line of progress."""
    return f"pass {record.stage}, step {record.iteration}, relative gap {record.gap:.1e}"
