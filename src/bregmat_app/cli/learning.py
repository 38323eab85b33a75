"""The work of `bregmat learn`: fit, write the model, measure, print, report; in this order, so that an interruption loses nothing."""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.html import SummaryRow, listed, number
from bregmat.constraints.constraints import Constraints
from bregmat.engine.result import SolverError
from bregmat.estimators import MetricLearner
from bregmat.from_labels.groups import NEED_CLASSES
from bregmat.io import atomic_write, save
from bregmat.plots._style import require_matplotlib
from bregmat_app.cli import show
from bregmat_app.cli.learn_input import LearnInput, read_input
from bregmat_app.cli.measure import (
    comparisons_in_order,
    constraints_met,
    fewer_met,
    held_out_neighbours,
    k_means_nmi,
    pairs_in_order,
    scaled,
)
from bregmat_app.cli.options import ColumnOptions, LearnOutput, MetricOptions, check_outputs
from bregmat_app.cli.show import ExitCode, Progress, fail, note, warn
from bregmat_app.report import FoldScores

LONGEST_MEASUREMENT = 300.0  # seconds; folds that would take longer are left out
MOST_SHOWN = 10  # constraints of a contradiction


def settings_row(learner: Any, *, has_labels: bool) -> tuple[str, str]:
    """The row of a table with the settings in use, and whether they were chosen on held-out rows.

    Without labels, the strategy has no effect.
    """
    names = {"prior": "prior", "strategy": "strategy", "slack_weight": "slack weight", "metric": "metric"}
    values = {shown: getattr(learner, f"{name}_", None) for name, shown in names.items()}
    if learner.strategy_ is None:
        values |= {"strategy": "none: not learning is better", "slack weight": None}
    elif not has_labels:
        del values["strategy"]
    words = [f"{shown} {number(value)}" for shown, value in values.items() if value is not None]
    was_compared = len(learner.selection_["candidate"]) > 1  # a dict of columns if pandas is not installed
    return "chosen on held-out rows" if was_compared else "in use", ", ".join(words)


def learn_points(
    points: Path,
    columns: ColumnOptions,
    metric: MetricOptions,
    output: LearnOutput,
    constraints: Path | None,
    categorical: Sequence[str],
) -> int:
    """Check the options, read the files and learn; the exit code."""
    if constraints is None and columns.labels is None:
        raise ValueError("give --constraints FILE or --labels COLUMN (or both)")
    if output.folds == 1:
        raise ValueError("--folds must be 2 at least, or 0, which leaves the test out; got 1")
    check_outputs({"--out": output.out, "--report": output.report}, [points, constraints])
    if output.report is not None:
        require_matplotlib("--report")
    parameters = metric.parameters()
    task = read_input(points, columns, categorical=categorical, constraints=constraints, prior=metric.prior)
    if task.constraints is None and metric.n_constraints == 0:
        raise ValueError("no constraints: --n-constraints 0 takes none from the labels, and --constraints is not given")
    _check_task(task, metric)
    if task.has_measured_bounds and metric.prior == "auto":
        parameters["prior"] = "variance"  # the bounds were measured in it
    note(f"features ({len(task.feature_names)}): {listed(task.feature_names, 20)}")
    return learn_task(task, parameters, output)


def _check_task(task: LearnInput, metric: MetricOptions) -> None:
    """Check the settings that the data have to allow."""
    d = task.X.shape[1]
    if metric.n_components is not None and metric.n_components > d:
        raise ValueError(f"--n-components must be at most {d}, the number of features; got {metric.n_components}")
    if task.has_values and metric.strategy in NEED_CLASSES:
        raise ValueError(
            f"labels {task.label_column!r} are numbers that are not all whole, and --strategy {metric.strategy} needs classes; "
            "--strategy neighbors takes numbers as targets; if distances are known, use --constraints with the relation sq_distance"
        )


def learn_task(task: LearnInput, parameters: dict[str, Any], output: LearnOutput, n_repeats: int = 1) -> int:
    """Learn with the parameters of :class:`bregmat.MetricLearner`, write, measure, show; the exit code.

    The folds of the nearest-neighbour test are drawn `n_repeats` times.
    """
    start = time.monotonic()
    learner, is_interrupted = _fit(task, parameters, output.quiet)
    elapsed = time.monotonic() - start
    if output.out is not None:
        save(output.out, learner, info=task.info)
    code = ExitCode.INTERRUPTED if is_interrupted else show.exit_code(learner.result_)
    maps = (task.X, scaled(task.X), learner.transform(task.X))
    summary = _agreement(task, learner, maps)
    held_out = None
    if is_interrupted:
        written = f", written to {output.out}" if output.out else ""
        task.warnings.append(f"interrupted: this is the best iterate so far{written}")
    elif len(task.class_names) > 1 or task.has_values:
        try:
            if (held_out := _held_out(task, parameters, output, n_repeats, elapsed)) is not None:
                summary.append(held_out.summary_row())
            if not task.has_values:
                summary.append(k_means_nmi(maps, task.labels, random_state=parameters["random_state"]))
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
            task.warnings.append("interrupted while measuring: the model is complete, some measurements are missing")
    _print(task, learner, output.out, summary)
    if output.report is not None:
        _write_report(output.report, task, learner, summary, None if task.has_values else held_out)
        show.wrote("report", output.report)
    return code


def _fit(task: LearnInput, parameters: dict[str, Any], quiet: bool) -> tuple[Any, bool]:
    """Return the fitted learner, and whether Ctrl-C stopped it early.

    End the command without a learner: a proof of infeasibility (3), Ctrl-C before the first point (130).
    """
    learner, progress = MetricLearner(**parameters), Progress(f"learning from {task.name}", quiet)
    try:
        texts, is_interrupted = show.fit_until_interrupted(
            learner, progress, task.X, task.target, constraints=task.constraints
        )
    except SolverError as error:
        raise _failed(task, error) from error
    is_unlearned = learner.strategy_ is None
    task.warnings += [text for text in texts if not (is_unlearned and "better than not learning" in text)]
    if is_unlearned:
        task.warnings.append(_not_learned(learner))
    return learner, is_interrupted


def _not_learned(learner: Any) -> str:
    """The remark on a fit whose outcome is the prior."""
    known = {
        "variance": "scaled columns",
        "identity": "the columns as given",
        "within": "the covariance within classes",
    }
    columns = known.get(learner.prior_, f"the prior {learner.prior_!r}")
    return (
        f"nothing is gained by learning here: on held-out rows no learned metric is better than {columns}. The model is that distance; "
        "--strategy neighbors learns all the same"
    )


def _agreement(task: LearnInput, learner: Any, maps: Sequence[np.ndarray]) -> list[SummaryRow]:
    """Rows of the summary: how far the points agree with the constraints, as given, scaled and learned."""
    rows = learner.constraints_
    if learner.strategy_ in (None, "softmax") and task.constraints is None:
        return []  # no constraint was asked of the metric
    has_hard = is_any_hard(learner, rows)
    is_scaled = learner.prior_ == "variance"  # then the bounds have the units of scaled columns
    in_units = (None, *maps[1:]) if is_scaled else (maps[0], None, maps[2])
    if not has_hard and (fewer := fewer_met(rows, maps[1] if is_scaled else maps[0], maps[2])) is not None:
        task.warnings.append(fewer)
    in_order = [*pairs_in_order(rows, maps), *comparisons_in_order(rows, maps)]
    if task.has_measured_bounds and rows.where("is_comparison").all():
        return in_order  # nobody asked for these margins
    return [constraints_met(rows, in_units, all_soft=not has_hard), *in_order]


def _held_out(
    task: LearnInput, parameters: dict[str, Any], output: LearnOutput, n_repeats: int, elapsed: float
) -> FoldScores | None:
    """The nearest-neighbour test on held-out folds; None, with a remark, if it is not possible or takes too long.

    Settings that are "auto" are chosen again on every training part.
    """
    n_fits, fold = output.folds * n_repeats, 0
    if not n_fits:
        return None

    def fit_part(rows: np.ndarray) -> Any:
        nonlocal fold
        fold += 1
        say.what = f"measuring on held-out points, fold {fold}"
        # scikit-learn clones the callback, so it has to be a function
        learner = MetricLearner(**parameters, callback=lambda record: say(record))
        with warnings.catch_warnings():  # a fit that stops early is tested, too; the main fit has its own message
            warnings.simplefilter("ignore")
            return learner.fit(task.X[rows], task.target[rows], constraints=task.constraints, sample_id=rows)

    if elapsed * n_fits > LONGEST_MEASUREMENT:
        why = f"{n_fits} more runs of {elapsed:.0f} s; it can be made with fewer points"
    else:
        seed = parameters["random_state"]
        try:
            with Progress("", output.quiet, kept="the model") as say:
                found = held_out_neighbours(fit_part, task.X, task.labels, output.folds, n_repeats, random_state=seed)
            if found is not None:
                return found
            why = "there are fewer than four values" if task.has_values else "a class has only one labelled point"
        except (ValueError, SolverError) as error:
            why = str(error)
    task.warnings.append(f"no nearest-neighbour test: {why}")
    return None


def is_any_hard(learner: Any, rows: Constraints | None) -> bool:
    """Whether a constraint of a learner must hold."""
    if rows is None:
        return False
    weight = getattr(learner, "slack_weight_", learner.slack_weight)
    return bool((weight != "auto" and np.isinf(weight)) or np.isinf(rows.weight).any())


def _print(task: LearnInput, learner: Any, out: Path | None, summary: Sequence[SummaryRow]) -> None:
    """Print remarks, the summary and the certificate."""
    for text in task.warnings:
        warn(text)
    console = show.stdout()
    console.print(task.title, style="bold", markup=False, soft_wrap=True)
    if summary:
        console.print(show.summary_table(summary))
    has_hard = is_any_hard(learner, learner.constraints_)
    row = settings_row(learner, has_labels=task.labels is not None)
    console.print(show.name_value_table([*learner.result_.certificate_rows(has_hard), row]))
    if out is not None:
        show.wrote("model", out)


def _failed(task: LearnInput, error: SolverError) -> Exception:
    """Print the proof that there is no solution, or that the solver broke down; return the exception that ends the command."""
    result, rows = error.result, error.constraints
    for text in task.warnings:
        warn(text)
    if result.status != "INFEASIBLE":
        return fail(str(error), ExitCode.NOT_CONVERGED)
    conflict = [] if result.conflict is None else np.asarray(result.conflict).tolist()
    together = f"; these {len(conflict)} contradict each other:" if len(conflict) > 1 else ":"
    failure = fail(f"it is proven that no metric meets all hard constraints{together}", ExitCode.INFEASIBLE)
    # rows drawn from the labels come before those of the file
    n_drawn = rows.n_constraints - (0 if task.constraints is None else task.constraints.n_constraints)
    for row in conflict[:MOST_SHOWN]:
        place = task.place(row - n_drawn) if row >= n_drawn else f"constraint {row}, drawn from the labels"
        note(f"  {place}: {rows.describe(row, task.sample_id)}", style="")
    if len(conflict) > MOST_SHOWN:
        note(f"  ... and {len(conflict) - MOST_SHOWN} more", style="")
    note("Drop or relax one of them, or use a finite --slack-weight.", style="")
    return failure


def _write_report(
    path: Path, task: LearnInput, learner: Any, summary: Sequence[SummaryRow], held_out: FoldScores | None
) -> None:
    """Write the HTML report of a fit."""
    from bregmat_app.report import ReportData, render_report  # the template engine is loaded for a report only

    settings = {name: getattr(learner, f"{name}_", value) for name, value in learner.get_params().items()}
    if learner.strategy_ is None:
        settings["strategy"] = "none: not learning is better"
    named = np.array([*task.class_names, None], dtype=object)  # -1, no label, takes the last one
    data = ReportData(
        title=f"Metric learned from {task.name}",
        result=learner.result_,
        X=task.X,
        constraints=learner.constraints_,
        y=named[task.labels] if task.class_names else None,
        learner=learner,
        summary=summary,
        settings={name: value for name, value in settings.items() if value is not None},
        sample_id=task.sample_id,
        warnings=task.warnings,
        has_hard=is_any_hard(learner, learner.constraints_),
        held_out=held_out,
    )
    with atomic_write(path) as file:
        file.write(render_report(data).encode())
