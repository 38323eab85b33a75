"""The door to ``bregmat_papers.datasets`` that `bregmat demo` opens: the whole way on real data, for the eye."""

import os
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from bregmat.io import check_writable
from bregmat_app.cli import show
from bregmat_app.cli.learn_input import LearnInput
from bregmat_app.cli.learning import LearnSettings, learn_task
from bregmat_papers.datasets import Dataset, load_dataset

__all__ = ["default_names", "run_demo"]


def default_names() -> list[str]:
    """Wine and the digits 3, 8, 9: UCI's files where BREGMAT_DATA points, else what scikit-learn brings."""
    return ["wine", "pendigits389" if os.environ.get("BREGMAT_DATA") else "digits389"]


def run_demo(names: list[str], folder: Path, *, quiet: bool) -> int:
    """Learn on each data set, print the tables, write models and reports; the first exit code that is not 0."""
    data = [load_dataset(name) for name in names]
    folder.mkdir(parents=True, exist_ok=True)
    outputs = [(check_writable(folder / f"{name}.bm"), check_writable(folder / f"{name}.html")) for name in names]
    show.note(
        "A metric is learned from class labels, by the defaults. The nearest-neighbour test is on held-out folds.",
        style="",
    )
    settings = LearnSettings({"random_state": 0}, n_repeats=2, quiet=quiet)
    code = 0
    for item, (model, report) in zip(data, outputs):
        show.stdout().print()
        with threadpool_limits(1):  # many small fits: threads would wait for each other
            code = learn_task(_task(item), replace(settings, out=model, report=report)) or code
        if code == show.ExitCode.INTERRUPTED:
            break
    return code


def _task(data: Dataset) -> LearnInput:
    n, d = data.X.shape
    title = f"{data.name}: {n} points, {d} features, {len(data.target_names)} classes ({data.source})"
    return LearnInput(data.name, data.X, data.feature_names, data.y, title=title, class_names=data.target_names)
