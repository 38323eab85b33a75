"""The work of `bregmat learn`: fit, write the model, measure, print, report; in this order, so that nothing is lost."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from bregmat.base.html import SummaryRow, number
from bregmat.constraints.constraints import Constraints
from bregmat.estimators import MetricLearner
from bregmat.io import save
from bregmat.run.result import SolverError
from bregmat_app.cli import show
from bregmat_app.cli.learn_input import LearnInput
from bregmat_app.cli.measure import (
    Folds,
    SlackWeightSearch,
    constraints_met,
    fewer_met,
    held_out_neighbours,
    k_means_nmi,
    pairs_in_order,
    scaled,
)
from bregmat_app.cli.messages import for_command, for_labels
from bregmat_app.cli.show import ExitCode, Progress, bad_input, collected_warnings, exit_code, fail, note, warn
from bregmat_app.report import FoldScores, HeldOut, ReportData

__all__ = ["LearnSettings", "is_any_hard", "learn_task"]

LONGEST_MEASUREMENT = 300.0  # seconds; folds that would take longer are left out
SLACK_WEIGHTS = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class LearnSettings:
    """What was asked for on the command line.

    `measuring` changes parameters of the runs that only measure: searches and folds, not the model itself.
    """

    parameters: dict[str, Any]
    choose_slack_weight: bool = False
    n_neighbors: int = 4
    n_folds: int = 5
    n_repeats: int = 1
    quiet: bool = False
    seed: int = 0
    slack_weights: tuple[float, ...] = field(default_factory=lambda: SLACK_WEIGHTS)
    measuring: dict[str, Any] = field(default_factory=dict)
    out: Path | None = None
    report: Path | None = None


def learn_task(task: LearnInput, settings: LearnSettings) -> int:
    """Learn, write, measure, show; the exit code."""
    out = settings.out
    with bad_input():
        if task.given is None and settings.parameters.get("n_constraints") == 0:
            raise ValueError(
                "no constraints: --n-constraints 0 takes none from the labels, and --constraints is not given"
            )
        if settings.choose_slack_weight:
            what = f"choosing the slack weight for {task.name}"
            with Progress(what, quiet=settings.quiet, state=str, kept="what is known of the weights") as say:
                settings = _with_slack_weight(task, settings, SlackWeightSearch(settings.slack_weights), say)
    start = time.monotonic()
    learner, is_interrupted = _fit(task, settings)
    elapsed = time.monotonic() - start
    rows = learner.constraints_
    code = ExitCode.INTERRUPTED if is_interrupted else exit_code(learner.result_)
    if out is not None:
        with bad_input():
            info = {"source": task.name, "feature_names": list(task.feature_names)}
            save(out, learner, info=info if task.medians is None else info | {"medians": task.medians})
    maps = (task.X, scaled(task.X), learner.transform(task.X))
    has_hard = is_any_hard(learner, rows)
    is_scaled = learner.prior_ == "variance"  # the units of what was drawn
    in_units = (None, *maps[1:]) if is_scaled else (maps[0], None, maps[2])
    summary = [constraints_met(rows, in_units, all_soft=not has_hard), *pairs_in_order(rows, maps)]
    if not has_hard and (fewer := fewer_met(rows, maps[1] if is_scaled else maps[0], maps[2])) is not None:
        task.warnings.append(fewer)
    held_out = None
    if code == ExitCode.INTERRUPTED:
        task.warnings.append("interrupted: this is the best iterate so far" + (f", written to {out}" if out else ""))
    elif task.n_classes > 1 or task.has_values:
        try:
            held_out = _measure(summary, task, maps, settings, elapsed)
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
            task.warnings.append("interrupted while measuring: the model is complete, some measurements are missing")
    for text in task.warnings:
        warn(text)
    console = show.stdout()
    console.print(task.title, style="bold", markup=False, soft_wrap=True)
    console.print(show.summary_table(summary))
    weight = [("slack weight", _weight_text(learner, settings))]
    console.print(show.certificate_table(learner.result_, has_hard=has_hard, more=weight))
    if out is not None:
        show.wrote("model", out)
    if settings.report is not None:
        _write_report(task, rows, learner, settings, learner.result_, summary, held_out)
        show.wrote("report", settings.report)
    return code


def _with_slack_weight(
    task: LearnInput, settings: LearnSettings, search: SlackWeightSearch, say: Callable[[str], Any]
) -> LearnSettings:
    """Settings with the slack weight that serves nearest neighbours best on the labelled rows of the task.

    Ctrl-C ends the command, with what the search has found by then.
    """
    names = np.arange(len(task.X)) if task.row_numbers is None else task.row_numbers
    place = ""

    def on_fit(text: str) -> None:
        nonlocal place
        place = text
        say(text)

    def fit(weight: float, rows: np.ndarray) -> Any:
        learner = MetricLearner(**{**settings.parameters, **settings.measuring, "slack_weight": weight})
        learner.set_params(callback=lambda record: say(f"{place}, {show.gap_and_violation(record)}"))
        with warnings.catch_warnings():  # a weight that is too heavy to converge loses, without a word
            warnings.simplefilter("ignore")
            return learner.fit(task.X[rows], task.y[rows], constraints=task.given, sample_id=names[rows])

    try:
        weight = search.run(
            fit,
            task.X,
            task.y,
            n_neighbors=settings.n_neighbors,
            random_state=settings.seed,
            on_fit=on_fit,
        )
    except KeyboardInterrupt:
        if task.row_numbers is not None:  # of a part of the data, whose measurement is cut short
            raise
        known = ", ".join(f"{number(mean)} with {number(weight)}" for weight, mean in search.means.items())
        found = (
            f"{settings.n_neighbors}-NN {'R²' if task.has_values else 'accuracy'} {known}; "
            f"--slack-weight {search.best:g} learns with the best of them"
            if search.best is not None
            else "no weight has been tried on all folds"
        )
        note(f"interrupted while choosing the slack weight: {found}. Nothing is written.", style="yellow")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    return replace(settings, parameters={**settings.parameters, "slack_weight": weight})


def _slack_weight(learner: Any) -> float:
    """The slack weight in use, also where nothing could be learned."""
    weight = getattr(learner, "slack_weight_", learner.slack_weight)
    return 1.0 if weight == "auto" else float(weight)


def _weight_text(learner: Any, settings: LearnSettings) -> str:
    """The slack weight in use, and how it came about."""
    weight = number(_slack_weight(learner))
    if not settings.choose_slack_weight:
        return weight
    among = ", ".join(number(float(w)) for w in sorted(settings.slack_weights))
    return f"{weight}, chosen among {among} by cross-validated {settings.n_neighbors}-NN"


def _fit(task: LearnInput, settings: LearnSettings) -> tuple[Any, bool]:
    """The fitted learner, and whether Ctrl-C cut it short.

    Ends the command where there is none: bad parameters (2), a proof of infeasibility (3), Ctrl-C before the first point (130).

    Contradictory rows are shown on the terminal and in the report.
    """
    learner, is_interrupted = MetricLearner(**settings.parameters), False
    try:
        with collected_warnings() as texts, Progress(f"learning from {task.name}", quiet=settings.quiet) as progress:
            learner.set_params(callback=progress)
            try:
                learner.fit(task.X, task.labels, constraints=task.given)
            except KeyboardInterrupt:
                is_interrupted = True
    except SolverError as error:
        raise _failed(task, learner, settings, error) from error
    except (ValueError, TypeError) as error:
        raise fail(for_labels(str(error), task.label_column)) from error
    finally:
        learner.set_params(callback=None)
    if is_interrupted and not hasattr(learner, "result_"):
        note("interrupted before there was anything to keep; nothing is written", style="yellow")
        raise typer.Exit(ExitCode.INTERRUPTED)
    task.warnings += [for_command(text) for text in texts]
    return learner, is_interrupted


def is_any_hard(learner: Any, rows: Constraints) -> bool:
    """Whether a row must hold, rather than cost."""
    return bool(np.isinf(_slack_weight(learner)) or np.isinf(rows.weight).any())


def _failed(task: LearnInput, learner: Any, settings: LearnSettings, error: SolverError) -> Exception:
    """What to say when the solver proved that there is no solution, or broke down."""
    result, rows = error.result, error.constraints
    for text in task.warnings:
        warn(text)
    if result.status != "INFEASIBLE":
        return fail(for_command(str(error)), ExitCode.NOT_CONVERGED)
    conflict = [] if result.conflict is None else np.asarray(result.conflict).tolist()
    together = f"; these {len(conflict)} contradict each other:" if len(conflict) > 1 else ":"
    failure = fail(f"it is proven that no metric meets all hard constraints{together}", ExitCode.INFEASIBLE)
    for row in conflict[:10]:
        note(f"  {_place(task, rows, row)}: {rows.describe(row, task.sample_id)}", style="")
    if len(conflict) > 10:
        note(f"  ... and {len(conflict) - 10} more", style="")
    note("Drop or relax one of them, or use a finite --slack-weight.", style="")
    if settings.report is not None:
        _write_report(task, rows, learner, settings, result, ())
        note(f"report  {settings.report}", style="")
    return failure


def _place(task: LearnInput, rows: Constraints, row: int) -> str:
    """Where a constraint comes from: the file and line that gave it, or the labels; drawn rows come first."""
    given = row - (rows.n_constraints - len(task.places))
    return task.places[given] if task.places and given >= 0 else f"row {row}, drawn from the labels"


def _measure(
    summary: list[SummaryRow], task: LearnInput, maps: Sequence[np.ndarray], settings: LearnSettings, elapsed: float
) -> HeldOut | None:
    """Add what can be measured with labels to the table "before and after", and say so where nothing is gained."""
    held_out: FoldScores | None = None
    n_fits = settings.n_folds * settings.n_repeats
    if elapsed * n_fits > LONGEST_MEASUREMENT:
        task.warnings.append(
            f"no nearest-neighbour test: {n_fits} more runs of {elapsed:.0f} s; have it on fewer points"
        )
    elif n_fits:
        try:
            held_out = _neighbours(task, settings)
        except (ValueError, SolverError) as error:
            task.warnings.append(f"no nearest-neighbour test: {error}")
        else:
            if held_out is None:
                few = "there are fewer than four values" if task.has_values else "a class has only one labelled point"
                task.warnings.append(f"no nearest-neighbour test: {few}")
            else:
                summary.append(held_out.summary_row())
                if not held_out.is_gained:
                    task.warnings.append(
                        "neighbours in the learned metric are no better than with columns "
                        + ("as given", "scaled")[held_out.best_without]
                        + ": here nothing is gained by learning"
                    )
    if not task.has_values:
        summary.append(k_means_nmi(maps, task.y, random_state=settings.seed))
    return held_out if isinstance(held_out, HeldOut) else None


def _neighbours(task: LearnInput, settings: LearnSettings) -> FoldScores | None:
    """The nearest-neighbour test. A slack weight that was chosen is chosen again on every training part."""

    fold = ""

    def on_fold(k: int, n: int) -> None:
        nonlocal fold
        fold = f"fold {k} of {n}"
        say(fold)

    def fit_part(rows: np.ndarray) -> Any:
        X, y = task.X[rows], task.y[rows]
        chosen = settings
        if settings.choose_slack_weight:
            part = replace(task, X=X, labels=y, row_numbers=rows)
            search = SlackWeightSearch(settings.slack_weights)
            chosen = _with_slack_weight(part, settings, search, lambda text: say(f"{fold}, slack weight {text}"))
        learner = MetricLearner(**{**chosen.parameters, **chosen.measuring})
        learner.set_params(callback=lambda record: say(f"{fold}, {show.gap_and_violation(record)}"))
        with warnings.catch_warnings():  # a fold that stops early is still a fold; the main run has its own message
            warnings.simplefilter("ignore")
            return learner.fit(X, y, constraints=task.given, sample_id=rows)

    with Progress("measuring on held-out points", quiet=settings.quiet, state=str, kept="the model") as say:
        folds = Folds(settings.n_neighbors, settings.n_folds, settings.n_repeats, settings.seed, on_fold)
        return held_out_neighbours(fit_part, task.X, task.y, folds)


def _write_report(
    task: LearnInput,
    rows: Constraints,
    learner: Any,
    settings: LearnSettings,
    result: Any,
    summary: Sequence[SummaryRow],
    held_out: HeldOut | None = None,
) -> None:
    """The HTML report, where one was asked for.

    Parameters
    ----------
    task : LearnInput
    rows : Constraints
        That were learned from.
    learner : MetricLearner
        Not fitted where there is no solution.
    settings : LearnSettings
    result : MatrixResult
    summary : sequence of SummaryRow
    held_out : HeldOut, optional
    """
    if settings.report is None:
        return
    from bregmat_app.report import write_report  # here: its template engine is loaded for a report only

    asked = {name: value for name, value in learner.get_params().items() if value is not None and name != "callback"}
    asked["slack_weight"] = _weight_text(learner, settings)
    if learner.prior == "auto" and hasattr(learner, "prior_"):
        asked["prior"] = f"{learner.prior_}, by auto"
    data = ReportData(
        title=f"Metric learned from {task.name}",
        result=result,
        X=task.X,
        constraints=rows,
        y=task.named_labels,
        learner=learner,
        summary=summary,
        settings=asked,
        sample_id=task.sample_id,
        feature_names=task.feature_names,
        warnings=task.warnings,
        has_hard=is_any_hard(learner, rows),
        held_out=held_out,
        class_names=task.class_names or None,
        model_path=settings.out,
    )
    with bad_input():
        write_report(settings.report, data)
