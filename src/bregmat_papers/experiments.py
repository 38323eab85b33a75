"""What every experiment is: units of work, a table beside the paper's numbers, a picture in the paper's axes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.threads import cached_property
from bregmat_papers.datasets import Dataset, load_dataset, load_mnist, load_sonar_split
from bregmat_papers.groel2 import Sequences, load_groel2

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Size(StrEnum):
    """How much of an experiment is run."""

    SMALL = "small"  # seconds, on data that needs no download: for the tests
    DEFAULT = "default"  # minutes
    FULL = "full"  # the paper's size


@dataclass(frozen=True)
class Row:
    """One line of the table: our number beside the paper's.

    Attributes
    ----------
    quantity : str
        What is measured, with the setting: "NMI, LogDet, 100 constraints".
    ours : float
    paper : float, optional
        None where the paper prints none.
    unit : str
        "%", "cycles", "s"; empty for dimensionless.
    standard_error : float
        Of ``ours``, over ``repeats`` independent runs; nan for a single run or a number without chance.
    repeats : int
    seed : int, optional
        Of the first run; the others follow it.
    note : str
        What differs from the paper, or how its number was read ("read off the plot").
    """

    quantity: str
    ours: float
    paper: float | None = None
    unit: str = ""
    standard_error: float = math.nan
    repeats: int = 1
    seed: int | None = None
    note: str = ""

    @classmethod
    def mean(
        cls,
        quantity: str,
        values: Sequence[float],
        *,
        paper: float | None = None,
        unit: str = "",
        seed: int | None = None,
        note: str = "",
    ) -> Row:
        """The mean of independent repeats, with its standard error."""
        mean, error = mean_and_error(values)
        return cls(quantity, mean, paper, unit, error, len(values), seed, note)

    @property
    def difference(self) -> float:
        """Ours minus the paper's; nan where it has none."""
        return math.nan if self.paper is None else self.ours - self.paper


@dataclass(frozen=True)
class DataHome:
    """Where the data of an experiment comes from; every set is read once."""

    folder: Path | None = None
    download: bool = False

    @property
    def has_folder(self) -> bool:
        """Whether files are looked for in a folder: two bundled sets differ from the published files."""
        return self.folder is not None or "BREGMAT_DATA" in os.environ

    def table(self, name: str) -> Dataset:
        """``load_dataset(name)``."""
        if name not in self._tables:
            self._tables[name] = load_dataset(name, data_dir=self.folder, download=self.download)
        return self._tables[name]

    @cached_property
    def mnist(self) -> tuple[Dataset, Dataset]:
        """Training and test images."""
        return load_mnist(data_dir=self.folder, download=self.download)

    @cached_property
    def sonar_split(self) -> tuple[Dataset, Dataset]:
        """Training and test signals by aspect angle."""
        return load_sonar_split(data_dir=self.folder, download=self.download)

    @cached_property
    def groel2(self) -> Sequences:
        """The 52 genes that stand in for gyrB."""
        return load_groel2(data_dir=self.folder, download=self.download)

    @cached_property
    def _tables(self) -> dict[str, Dataset]:
        return {}


Unit = dict[str, Any]  # what one piece of work is told; values that JSON can hold
Outcome = dict[str, Any]  # what it found; values that JSON can hold
Finding = tuple[Unit, Outcome]


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper. No algorithm lives here: data, protocol, calls of the library, drawing.

    Attributes
    ----------
    module : str
        ``__name__`` of the module that defines it: outcomes that its older code found are not mixed in.
    name : str
        What the command line calls it.
    title, source : str
        What it shows; the paper with its year, figure and section.
    protocol : str
        What is done, and every choice that the paper leaves open; Markdown.
    discussion : str
        Why our numbers differ where they do, as far as could be found out; Markdown.
    units : callable, Size -> list of dict
        Independent pieces of work in a fixed order, seconds to a minute each: an interrupted run loses one at most.
    run : callable, (unit, DataHome) -> dict
        Does one of them. Same unit, same outcome: seeds are in the unit.
    table : callable, list of (unit, outcome) -> list of Row
    draw : callable, (Figure, list of (unit, outcome)) -> None
        Draws on an empty figure, in the paper's axes.
    verdict : str
        Whether the paper's finding was found again, in one line.
    headline : tuple of str
        Quantities of the table that stand for it in the overview.
    figsize : (float, float)
        Inches.
    """

    module: str
    name: str
    title: str
    source: str
    protocol: str
    discussion: str
    units: Callable[[Size], list[Unit]]
    run: Callable[[Unit, DataHome], Outcome]
    table: Callable[[list[Finding]], list[Row]]
    draw: Callable[[Figure, list[Finding]], None]
    verdict: str = ""
    headline: tuple[str, ...] = ()
    figsize: tuple[float, float] = (9.0, 4.0)

    @property
    def paper(self) -> str:
        """Authors and year of the paper, which the source begins with."""
        authors, year, _ = re.split(r"(\b\d{4}\b)", self.source, maxsplit=1)
        return authors + year


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of independent repeats; the error of a single one is nan."""
    x = np.asarray(values, dtype=float)
    error = float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else math.nan
    return float(x.mean()), error


def select(findings: Sequence[Finding], **wanted: Any) -> list[Finding]:
    """The findings whose unit has these values, in order."""
    return [
        (unit, outcome) for unit, outcome in findings if all(unit.get(key) == value for key, value in wanted.items())
    ]
