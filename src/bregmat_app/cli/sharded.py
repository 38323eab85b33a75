"""The work of `bregmat learn PAIRS --points FILE`: constraints and points stay in their files and are read in blocks."""

from pathlib import Path
from typing import Any

from bregmat.base.html import number
from bregmat.io import ModelCheckpoint, load, open_constraints, open_points, save
from bregmat.nearest import nearest_metric
from bregmat.run.result import MatrixResult
from bregmat_app.cli import show
from bregmat_app.cli.inputs import number_in
from bregmat_app.cli.messages import for_command
from bregmat_app.cli.options import BlockOptions, LearnOutput, MetricOptions
from bregmat_app.cli.show import ExitCode, Progress, bad_input, exit_code, fail, warn

__all__ = ["learn_sharded"]


def learn_sharded(pairs: Path, blocks: BlockOptions, metric: MetricOptions, output: LearnOutput) -> int:
    """Learn, write the model, print the certificate; the exit code.

    Parameters
    ----------
    pairs : Path
        Folder or file of constraints.
    blocks : BlockOptions
    metric : MetricOptions
    output : LearnOutput
    """
    out = output.out
    with bad_input():
        settings = _settings(metric)
        assert blocks.points_file is not None
        X, rows = open_points(blocks.points_file), open_constraints(pairs)
        before, store = None, None
        if (path := blocks.checkpoint) is not None:
            store = ModelCheckpoint(path)
            before = load(path) if blocks.resume and path.exists() else None
            if not isinstance(before, MatrixResult | None):
                raise ValueError(f"{path}: a model, but no checkpoint of constraints in blocks")
        try:
            with Progress(f"learning from {pairs.name}", quiet=output.quiet) as progress:
                result = nearest_metric(
                    X,
                    rows,
                    block_size=blocks.block_size,
                    checkpoint=store,
                    warm_start=before,
                    callback=progress,
                    **settings,
                )
        except (ValueError, TypeError) as error:
            raise fail(for_command(str(error))) from error
        if out is not None and result.status != "INFEASIBLE":
            save(out, result)
    code = exit_code(result)
    if code == ExitCode.INFEASIBLE and result.conflict is not None:
        warn(f"rows {', '.join(str(int(row)) for row in result.conflict[:10])} of {pairs} contradict each other")
    console = show.stdout()
    console.print(f"Metric learned from {rows.n_constraints:,} constraints of {pairs}", style="bold", soft_wrap=True)
    weight = [("slack weight", number(settings["slack_weight"]))]
    console.print(show.certificate_table(result, more=weight))
    if out is not None and result.status != "INFEASIBLE":
        show.wrote("model", out)
    return code


def _settings(metric: MetricOptions) -> dict[str, Any]:
    """Arguments of :func:`bregmat.nearest_metric`, which takes fewer of the options."""
    if metric.prior not in ("auto", "identity"):
        raise ValueError("--prior must be identity with --points")
    names = ("divergence", "loss", "solver", "tol", "max_iter")
    weight = 1.0 if metric.slack_weight is None else number_in("--slack-weight", metric.slack_weight, "a number or inf")
    return {name: getattr(metric, name) for name in names} | {"slack_weight": weight}
