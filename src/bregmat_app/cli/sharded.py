"""The work of `bregmat learn PAIRS --points FILE`: constraints and points stay in their files and are read block by block."""

from pathlib import Path
from typing import Any

from bregmat.base.html import number
from bregmat.io import ModelCheckpoint, load, open_constraints, open_points, save
from bregmat.nearest import nearest_metric
from bregmat.run.result import MatrixResult
from bregmat_app.cli import show
from bregmat_app.cli.messages import for_command
from bregmat_app.cli.show import ExitCode, Progress, bad_input, exit_code, fail, warn

__all__ = ["learn_sharded"]


def learn_sharded(
    pairs: Path, points: Path, *, checkpoint: Path | None, resume: bool, out: Path | None, quiet: bool, **settings: Any
) -> int:
    """Learn, write the model, print the certificate; the exit code.

    Parameters
    ----------
    pairs, points : Path
        As :func:`bregmat.io.open_constraints` and :func:`bregmat.io.open_points` take them.
    checkpoint : Path or None
        Model file of the run so far.
    resume : bool
        Whether to go on from it.
    out : Path or None
        Model file of the result.
    quiet : bool
    **settings
        Of :func:`bregmat.nearest_metric`.
    """
    with bad_input():
        X, rows = open_points(points), open_constraints(pairs)
        store = None if checkpoint is None else ModelCheckpoint(checkpoint)
        before = None
        if resume and checkpoint is not None and checkpoint.exists():
            before = load(checkpoint)
            if not isinstance(before, MatrixResult):
                raise ValueError(f"{checkpoint}: a model, but no checkpoint of constraints in blocks")
        try:
            with Progress(f"learning from {pairs.name}", quiet=quiet) as progress:
                result = nearest_metric(X, rows, checkpoint=store, warm_start=before, callback=progress, **settings)
        except (ValueError, TypeError) as error:
            raise fail(for_command(str(error))) from error
        if out is not None and result.status != "INFEASIBLE":
            save(out, result)
    code = exit_code(result)
    if code == ExitCode.INFEASIBLE and result.conflict is not None:
        warn(f"rows {', '.join(str(int(row)) for row in result.conflict[:10])} of {pairs} contradict each other")
    console = show.stdout()
    console.print(f"Metric learned from {rows.n_constraints:,} constraints of {pairs}", style="bold", soft_wrap=True)
    weight = [("slack weight", number(float(settings["slack_weight"])))]
    console.print(show.certificate_table(result, more=weight))
    if out is not None and result.status != "INFEASIBLE":
        show.wrote("model", out)
    return code
