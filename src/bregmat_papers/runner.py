"""Runs an experiment unit by unit, keeps what is done, and writes the table and the picture."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bregmat import __version__
from bregmat.base.threads import interruptible
from bregmat_papers.experiments import DataHome, Experiment, Finding, Row, Size, Unit

COLUMNS = ("quantity", "unit", "ours", "paper", "difference", "standard_error", "repeats", "seed", "note")
_IMPORT = re.compile(r"^from bregmat_papers\.([\w.]+) import", re.MULTILINE)
_ABOUT_NO_OUTCOME = ("experiments", "drawing")  # modules that all experiments import
_SENTENCES = ("title", "source", "protocol", "discussion", "verdict", "headline", "figsize")


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
        CPU time of all units, over all sittings.
    csv, picture : Path or None
        What was written.
    commits : tuple of str
        Versions of the code that found the outcomes, see :func:`code_version`.
    """

    name: str
    size: Size
    findings: list[Finding]
    total: int
    rows: list[Row]
    seconds: float
    csv: Path | None = None
    picture: Path | None = None
    commits: tuple[str, ...] = ()

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
    """Run an experiment, or what is left of it, and write ``NAME.csv`` and ``NAME.png`` (``NAME.SIZE.*`` if not the default).

    Each unit's outcome is appended to ``NAME.SIZE.jsonl`` when it is done; a later call with the same folder takes it
    from there. A file that an older form of the experiment wrote is set aside as ``.old1.jsonl`` and so on.

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
    ImportError
        Without pandas or matplotlib.
    ValueError
        If the file of what is done holds something else.
    """
    require_packages()
    size, data, out = Size(size), data or DataHome(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    units = experiment.units(size)
    log = _Log(out / f"{experiment.name}.{size}.jsonl", _fingerprint(experiment, size, units, data))
    done = log.read()
    try:
        for unit in units:
            if _key(unit) in done:
                continue
            if progress is not None:
                progress(Step(len(done), len(units), unit))
            clock = time.process_time()
            with interruptible():  # the solvers inside would end their own run only
                outcome = experiment.run(unit, data)
            done[_key(unit)] = log.append(unit, outcome, time.process_time() - clock)
    except KeyboardInterrupt:
        pass
    kept = [done[_key(unit)] for unit in units if _key(unit) in done]
    findings = [(entry["unit"], entry["outcome"]) for entry in kept]
    seconds = sum(entry["seconds"] for entry in kept)
    commits = tuple(dict.fromkeys(entry.get("commit", "unknown") for entry in kept))
    report = Report(experiment.name, size, findings, len(units), [], seconds, commits=commits)
    if not report.is_complete:
        return report
    if progress is not None:
        progress(Step(len(units), len(units), None))
    rows = experiment.table(findings)
    stem = experiment.name if size is Size.DEFAULT else f"{experiment.name}.{size}"
    table, picture = out / f"{stem}.csv", out / f"{stem}.png"
    table_frame(rows).to_csv(table, index=False, float_format="%.6g")
    write_picture(picture, experiment, findings)
    return Report(experiment.name, size, findings, len(units), rows, seconds, table, picture, commits)


def require_packages() -> None:
    """Raise ``ImportError`` unless tables and pictures can be written; before the work, not after it."""
    for name, what in (("pandas", "a table"), ("matplotlib", "a figure")):
        if find_spec(name) is None:
            raise ImportError(f'reproducing {what} needs {name}: pip install "bregmat[reproduce]"')


@functools.cache
def code_version() -> str:
    """The commit of the clone in which the package is installed, with ``-dirty`` if files differ; else the version."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here)]
    try:
        top = subprocess.run(
            [*command, "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True
        ).stdout
        if not Path(top.strip(), "src", "bregmat_papers", Path(__file__).name).is_file():
            return f"version {__version__}"  # a repository of somebody else
        words = [*command, "describe", "--always", "--dirty", "--exclude=*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"version {__version__}"


def table_frame(rows: list[Row]) -> Any:
    """The table as a pandas.DataFrame; NaN where there is no number."""
    import pandas as pd

    frame = pd.DataFrame([{**asdict(row), "difference": row.difference} for row in rows], columns=COLUMNS)
    return frame.astype({"seed": "Int64"})


def write_picture(path: Path, experiment: Experiment, findings: list[Finding]) -> None:
    """Draw without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=experiment.figsize, layout="constrained")
    experiment.draw(figure, findings)
    figure.savefig(path, dpi=100)


def _fingerprint(experiment: Experiment, size: Size, units: list[Unit], data: DataHome) -> str:
    """Changes with the version, the code of the experiment, its units, or whether it has a data folder: older outcomes
    are then not mixed in."""
    known = [__version__, size, units, data.has_folder]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    module = sys.modules[experiment.module].__file__
    assert module is not None
    for path in sorted(_sources(Path(module), set())):
        digest.update(_code(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def _code(text: str) -> str:
    """A module without what only people read: comments, docstrings, and the sentences of its experiment."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "protocol" in {keyword.arg for keyword in node.keywords}:
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _SENTENCES]
        elif isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _sources(path: Path, seen: set[Path]) -> set[Path]:
    """A module and the other modules of experiments that it imports; not what runs, draws and prints them."""
    if path not in seen:
        seen.add(path)
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            if name not in _ABOUT_NO_OUTCOME:
                place = Path(__file__).parent.joinpath(*name.split("."))
                for other in place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]:
                    _sources(other, seen)
    return seen


class _Log:
    """Outcomes, one JSON line each, below a line that says what they belong to."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = path, fingerprint

    def read(self) -> dict[str, dict[str, Any]]:
        """What is done already, by unit; starts the file where there is none that fits."""
        text = self.path.read_bytes().decode("utf-8", errors="replace") if self.path.is_file() else ""
        lines = text.split("\n")
        entries = [self._entry(k, line) for k, line in enumerate(lines[:-1])]  # the last is empty, or was cut short
        if not entries or entries[0].get("fingerprint") != self.fingerprint:
            if len(entries) > 1:
                self._set_aside()
            self._write([{"fingerprint": self.fingerprint}])
            return {}
        if lines[-1]:
            self._write(entries)
        return {_key(entry["unit"]): entry for entry in entries[1:]}

    def append(self, unit: Unit, outcome: Any, seconds: float) -> dict[str, Any]:
        """Keep one outcome; returns it as it will be read again."""
        line = json.dumps({"unit": unit, "outcome": outcome, "seconds": seconds, "commit": code_version()})
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")
            handle.flush()
        return json.loads(line)

    def _entry(self, k: int, line: str) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or not (k == 0 or {"unit", "outcome", "seconds"} <= entry.keys()):
            raise ValueError(
                f"{self.path}: line {k + 1} is not what a run wrote; mend or remove the file to start again"
            )
        return entry

    def _set_aside(self) -> None:
        """Nothing is lost: older outcomes stay beside the new ones."""
        k = 1
        while (old := self.path.with_suffix(f".old{k}.jsonl")).exists():
            k += 1
        self.path.replace(old)

    def _write(self, entries: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        fresh = self.path.with_suffix(".jsonl.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.path)


def _key(unit: Unit) -> str:
    return json.dumps(unit, sort_keys=True)
