"""Every figure and table of the three papers, rerun on real data; ``bregmat reproduce`` is the door."""

from __future__ import annotations

import importlib

from bregmat_papers.experiments import DataHome, Experiment, Row, Size
from bregmat_papers.runner import Report, reproduce

__all__ = ["DataHome", "Experiment", "Report", "Row", "Size", "experiment", "experiment_names", "reproduce"]

# name -> module; imported when it is asked for
_MODULES = {
    "meg-online": "meg_online",
    "definiteboost": "definiteboost",
    "digits-nmi": "digits_nmi",
    "digits-convergence": "digits_convergence",
    "gyrb": "gyrb",
    "spambase": "spambase",
    "nursery": "nursery",
    "uci-knn": "uci_knn",
    "mnist": "mnist",
    "m3-table1": "m3_table1",
    "m3-figure1": "m3_figure1",
    "m3-theorem2": "m3_theorem2",
    "appendix-b": "appendix_b",
}


def experiment_names() -> tuple[str, ...]:
    """Names of all experiments, in the order of the page."""
    return tuple(_MODULES)


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises
    ------
    ValueError
        Unknown name.
    """
    if name not in _MODULES:
        raise ValueError(f"name={name!r} is no known experiment; known: {', '.join(_MODULES)}")
    return importlib.import_module(f"bregmat_papers.{_MODULES[name]}").EXPERIMENT
