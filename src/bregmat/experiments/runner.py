"""Runs an experiment unit by unit, keeps what is done, and writes the table and the picture."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bregmat import __version__
from bregmat._interrupt import interruptible
from bregmat.experiments.frame import DataHome, Experiment, Finding, Row, Size, Unit

COLUMNS = ("quantity", "unit", "ours", "paper", "difference", "standard_error", "repeats", "seed", "note")
_IMPORT = re.compile(r"^from bregmat\.experiments\.(\w+) import", re.MULTILINE)
_SENTENCES = ("title", "source", "protocol", "discussion", "figsize")
_ADVICE = 'reproducing {} needs {}: pip install "bregmat[reproduce]"'


@dataclass(frozen=True)
class Step:
    """Progress: so many units of so many are done; ``unit`` is the next one, None at the end."""

    done: int
    total: int
    unit: Unit | None


@dataclass(frozen=True)
class Report:
    """What a run has found so far.

    Attributes
    ----------
    name : str
    size : Size
    findings : list of (unit, outcome)
    total : int
        Units of the whole experiment; complete when all are found.
    rows : list of Row
        The table; empty while incomplete.
    seconds : float
        Wall time of all units, over all sittings.
    csv, picture : Path or None
        What was written.
    """

    name: str
    size: Size
    findings: list[Finding]
    total: int
    rows: list[Row]
    seconds: float
    csv: Path | None = None
    picture: Path | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every unit is done."""
        return len(self.findings) == self.total


def reproduce(
    experiment: Experiment,
    out: str | os.PathLike,
    *,
    size: Size | str = Size.DEFAULT,
    data: DataHome | None = None,
    progress: Callable[[Step], Any] | None = None,
) -> Report:
    """Run an experiment, or what is left of it, and write ``NAME.csv`` and ``NAME.png``.

    Each unit's outcome is appended to ``NAME.SIZE.jsonl`` when it is done; a later call with the same folder takes it
    from there. A file that an older form of the experiment wrote is set aside as ``.old``.

    Parameters
    ----------
    experiment : Experiment
    out : path
        Folder; made if it is not there.
    size : Size or str
    data : DataHome, optional
        Default: ``BREGMAT_DATA``, no download.
    progress : callable, optional
        Called with a :class:`Step` before each unit and at the end; ending the run by KeyboardInterrupt keeps what is
        done and returns an incomplete report.

    Returns
    -------
    Report

    Raises
    ------
    DataNotFoundError
        If a data set is neither there nor fetched.
    """
    size, data, out = Size(size), data or DataHome(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    units = experiment.units(size)
    log = _Log(out / f"{experiment.name}.{size}.jsonl", _fingerprint(experiment, size, units))
    kept = log.read(units)
    try:
        for k in range(len(kept), len(units)):
            if progress is not None:
                progress(Step(k, len(units), units[k]))
            clock = time.perf_counter()
            with interruptible():  # the solvers inside would end their own run only
                outcome = experiment.run(units[k], data)
            kept.append(log.append(units[k], outcome, time.perf_counter() - clock))
    except KeyboardInterrupt:
        pass
    findings = [(entry["unit"], entry["outcome"]) for entry in kept]
    seconds = sum(entry["seconds"] for entry in kept)
    report = Report(experiment.name, size, findings, len(units), [], seconds)
    if not report.is_complete:
        return report
    if progress is not None:
        progress(Step(len(units), len(units), None))
    rows = experiment.table(findings)
    table, picture = out / f"{experiment.name}.csv", out / f"{experiment.name}.png"
    table_frame(rows).to_csv(table, index=False, float_format="%.6g")
    write_picture(picture, experiment, findings)
    return Report(experiment.name, size, findings, len(units), rows, seconds, table, picture)


def table_frame(rows: list[Row]) -> Any:
    """The table as a pandas.DataFrame; NaN where there is no number."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(_ADVICE.format("a table", "pandas")) from error
    return pd.DataFrame([{**asdict(row), "difference": row.difference} for row in rows], columns=COLUMNS)


def write_picture(path: Path, experiment: Experiment, findings: list[Finding]) -> None:
    """Draw without a display; needs matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(_ADVICE.format("a figure", "matplotlib")) from error
    figure = Figure(figsize=experiment.figsize, layout="constrained")
    experiment.draw(figure, findings)
    figure.savefig(path, dpi=100)


def _fingerprint(experiment: Experiment, size: Size, units: list[Unit]) -> str:
    """Changes with the version, the code of the experiment, or its units: older outcomes are then not mixed in."""
    digest = hashlib.sha256(json.dumps([__version__, size, units], sort_keys=True).encode())
    for path in sorted(_sources(Path(experiment.run.__code__.co_filename), set())):
        digest.update(_code(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def _code(text: str) -> str:
    """A module without what only people read: comments, docstrings, and the sentences of its experiment."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Experiment":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _SENTENCES]
        elif isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _sources(path: Path, seen: set[Path]) -> set[Path]:
    """A module and the other modules of experiments that it imports; not what runs and prints them."""
    if path not in seen:
        seen.add(path)
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            if name != "frame":
                _sources(Path(__file__).with_name(f"{name}.py"), seen)
    return seen


class _Log:
    """Outcomes, one JSON line each, below a line that says what they belong to."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = path, fingerprint

    def read(self, units: list[Unit]) -> list[dict[str, Any]]:
        """What is done already; starts the file where there is none that fits."""
        lines = self.path.read_text(encoding="utf-8").split("\n") if self.path.is_file() else []
        entries = [json.loads(line) for line in lines[:-1]]  # the last is empty, or was cut short
        fits = bool(entries) and entries[0].get("fingerprint") == self.fingerprint
        done = entries[1:] if fits and [entry["unit"] for entry in entries[1:]] == units[: len(entries) - 1] else []
        if not done:
            if len(entries) > 1:
                self.path.replace(self.path.with_suffix(".jsonl.old"))
            self._write([{"fingerprint": self.fingerprint}])
        elif lines[-1]:
            self._write(entries)
        return done

    def append(self, unit: Unit, outcome: Any, seconds: float) -> dict[str, Any]:
        """Keep one outcome; returns it as it will be read again."""
        line = json.dumps({"unit": unit, "outcome": outcome, "seconds": seconds})
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")
            handle.flush()
        return json.loads(line)

    def _write(self, entries: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        fresh = self.path.with_suffix(".jsonl.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.path)
