"""From the files and options of `bregmat learn` to points, labels and constraints in row numbers."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.io import Points
from bregmat.io.sources import STANDARD_INPUT
from bregmat_app.cli.given import give_constraints
from bregmat_app.cli.intake import Intake, class_names, find_labels, find_sample_ids, label_remarks
from bregmat_app.cli.learn_input import LearnInput

__all__ = ["import_terms", "read_task"]


def import_terms(name: str) -> None:
    """Import a module by its name or from a .py file, for what it registers."""
    path = Path(name)
    if path.suffix != ".py":
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # any .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where worker processes and pickles look for its classes
    spec.loader.exec_module(module)


def read_task(path: Path, intake: Intake, *, constraints: Path | None = None, prior: str = "auto") -> LearnInput:
    """Read all inputs; `ValueError` names the file, line and column of what is wrong.

    Parameters
    ----------
    path, constraints : path
        Files of the points and, optionally, of constraints on them.
    intake : Intake
        What its columns are.
    prior : str
        Of the metric to be learned: bounds that are not given are measured in it.
    """
    if constraints is not None and str(path) == str(constraints) == STANDARD_INPUT:
        raise ValueError("standard input holds points or constraints, not both; write one of them to a file")
    points = intake.read(path)
    name = "standard input" if str(path) == STANDARD_INPUT else path.name
    task = LearnInput(name, points.X, points.names, warnings=intake.remarks(points))
    task.has_medians = intake.missing == "median"
    id_name, task.sample_id = find_sample_ids(points, intake.id_column)
    if task.sample_id is None and points.rows is not None:
        task.sample_id = points.rows  # constraints count the rows of the file
    if intake.labels is not None:
        values = intake.label_values(points)
        task.labels = find_labels(values, len(points.X), intake.labels, intake.unlabeled)
        task.label_column = intake.labels
        task.warnings += label_remarks(task.labels, intake.labels)
        if not task.has_values:
            task.class_names = class_names(values, task.labels)
    task.warnings += intake.unused(points, id_name)
    if constraints is not None:
        if task.sample_id is not None:
            _require_unique(task.name if path.name == STANDARD_INPUT else str(path), id_name, points, task.sample_id)
        give_constraints(task, constraints, id_name, prior=prior, encoding=intake.encoding)
    return task


def _require_unique(path: str, id_name: str | None, points: Points, sample_id: np.ndarray) -> None:
    """Raise for a sample id that names two rows."""
    first: dict[Any, int] = {}
    for row, name in enumerate(sample_id.tolist()):
        if (other := first.setdefault(name, row)) != row:
            kind, here = points.where(row).split(" ", 1)
            there = points.where(other).split(" ", 1)[1]
            raise ValueError(f"{path}, {kind}s {there} and {here}: {id_name} {name!r} occurs twice")
