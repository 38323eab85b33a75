"""The work of `bregmat demo`: learn on data sets of ``bregmat_papers.datasets`` and show the results."""

import os
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from bregmat.io import check_writable
from bregmat_app.cli import show
from bregmat_app.cli.learn_input import LearnInput
from bregmat_app.cli.learning import LearnSettings, learn_task
from bregmat_app.cli.messages import for_command
from bregmat_app.cli.options import LearnOutput
from bregmat_papers.datasets import DataNotFoundError, Dataset, load_dataset

__all__ = ["default_names", "run_demo"]


def default_names() -> list[str]:
    """Wine and the digits 3, 8, 9: UCI's files if BREGMAT_DATA is set, else those of scikit-learn."""
    return ["wine", "pendigits389" if os.environ.get("BREGMAT_DATA") else "digits389"]


def run_demo(names: list[str], folder: Path, *, download: bool, quiet: bool) -> int:
    """Learn on each data set, print the tables, write models and reports; the last exit code that is not 0.

    Parameters
    ----------
    names : list of str
        Data sets.
    folder : Path
        Folder of the models and reports.
    download, quiet : bool
        Whether to fetch missing data; whether to show no progress.
    """
    try:
        data = [load_dataset(name, download=download) for name in names]
    except DataNotFoundError as error:
        raise show.fail(f"{for_command(str(error))}; without data, `bregmat demo wine` runs") from error
    folder.mkdir(parents=True, exist_ok=True)
    outputs = [(check_writable(folder / f"{name}.bm"), check_writable(folder / f"{name}.html")) for name in names]
    show.note(
        "A metric is learned from class labels, with the defaults. The nearest-neighbour test uses held-out folds.",
        style="",
    )
    settings = LearnSettings({"random_state": 0}, n_repeats=2)
    code = 0
    for item, (model, report) in zip(data, outputs):
        show.stdout().print()
        with threadpool_limits(1):  # threads of many small fits would wait for each other
            output = LearnOutput(out=model, report=report, quiet=quiet)
            code = learn_task(_task(item), replace(settings, output=output)) or code
        if code == show.ExitCode.INTERRUPTED:
            break
    return code


def _task(data: Dataset) -> LearnInput:
    n, d = data.X.shape
    title = f"{data.name}: {n} points, {d} features, {len(data.target_names)} classes ({data.source})"
    return LearnInput(data.name, data.X, data.feature_names, data.y, title=title, class_names=data.target_names)
