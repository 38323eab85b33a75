"""The work of `bregmat learn PAIRS --points FILE`: constraints and points stay in their files and are read in blocks."""

from pathlib import Path
from typing import Any

from bregmat.base.html import number
from bregmat.io import ModelCheckpoint, load, open_constraints, open_points, save
from bregmat.nearest import nearest_metric
from bregmat.run.result import MatrixResult
from bregmat_app.cli import show
from bregmat_app.cli.options import BlockOptions, LearnOutput, MetricOptions, number_in
from bregmat_app.cli.show import ExitCode, Progress, bad_input

__all__ = ["learn_sharded"]


def learn_sharded(pairs: Path, blocks: BlockOptions, metric: MetricOptions, output: LearnOutput) -> int:
    """Learn, write the model, print the certificate; the exit code. `pairs` is a file of constraints, or a folder of them."""
    out, before, store = output.out, None, None
    with bad_input():
        if metric.prior not in ("auto", "identity"):
            raise ValueError("--prior must be identity with --points")
        given = "1" if metric.slack_weight == "auto" else metric.slack_weight
        names = ("divergence", "loss", "solver", "tol", "max_iter")
        settings: dict[str, Any] = {name: getattr(metric, name) for name in names}
        settings["slack_weight"] = number_in("--slack-weight", given, "a number or inf")
        assert blocks.points_file is not None
        X, rows = open_points(blocks.points_file), open_constraints(pairs)
        if (path := blocks.checkpoint) is not None:
            store = ModelCheckpoint(path)
            before = load(path) if blocks.resume and path.exists() else None
            if not isinstance(before, MatrixResult | None):
                raise ValueError(f"{path}: a model, but no checkpoint of constraints in blocks")
        with Progress(f"learning from {pairs.name}", output.quiet) as progress:
            settings |= {"block_size": blocks.block_size, "checkpoint": store, "warm_start": before}
            result = nearest_metric(X, rows, callback=progress, **settings)
        if out is not None and result.status != "INFEASIBLE":
            save(out, result)
    code = show.exit_code(result)
    if code == ExitCode.INFEASIBLE and result.conflict is not None:
        show.warn(f"rows {', '.join(str(int(row)) for row in result.conflict[:10])} of {pairs} contradict each other")
    console = show.stdout()
    console.print(f"Metric learned from {rows.n_constraints:,} constraints of {pairs}", style="bold", soft_wrap=True)
    console.print(show.certificate_table(result, more=[("slack weight", number(settings["slack_weight"]))]))
    if out is not None and result.status != "INFEASIBLE":
        show.wrote("model", out)
    return code
