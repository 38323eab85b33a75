"""The work of `bregmat learn`: fit, write the model, measure, print, report; in this order, so that an interruption loses nothing."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer

from bregmat.base.html import SummaryRow, listed, number
from bregmat.constraints.constraints import Constraints
from bregmat.estimators import MetricLearner, MetricLearnerCV
from bregmat.io import save
from bregmat.run.result import SolverError
from bregmat_app.cli import show
from bregmat_app.cli.inputs import check_outputs, number_in
from bregmat_app.cli.learn_input import LearnInput, read_input
from bregmat_app.cli.measure import (
    Folds,
    constraints_met,
    fewer_met,
    held_out_neighbours,
    k_means_nmi,
    pairs_in_order,
    scaled,
)
from bregmat_app.cli.messages import for_command, for_labels
from bregmat_app.cli.options import ColumnOptions, LearnOutput, MetricOptions
from bregmat_app.cli.show import ExitCode, Progress, bad_input, collected_warnings, exit_code, fail, note, warn
from bregmat_app.report import FoldScores, HeldOut, ReportData

__all__ = ["LearnSettings", "is_any_hard", "learn_points", "learn_task"]

LONGEST_MEASUREMENT = 300.0  # seconds; folds that would take longer are left out


@dataclass(frozen=True)
class LearnSettings:
    """How to learn and what to write.

    Parameters
    ----------
    parameters : dict
        Of :class:`bregmat.MetricLearner`.
    search : bool
        Whether :class:`bregmat.MetricLearnerCV` chooses some of them.
    n_repeats : int
        Repetitions of the folds.
    output : LearnOutput
    """

    parameters: dict[str, Any]
    search: bool = False
    n_repeats: int = 1
    output: LearnOutput = field(default_factory=LearnOutput)

    @property
    def seed(self) -> int:
        return int(self.parameters.get("random_state", 0))

    @property
    def slack_weight(self) -> float | None:
        """The slack weight that was asked for; None if the learner chooses it."""
        weight = self.parameters.get("slack_weight", "auto")
        return None if weight == "auto" else float(weight)

    def fit(self, X: np.ndarray, y: Any, callback: Any, **given: Any) -> Any:
        """Return a fitted :class:`bregmat.MetricLearner`; `callback` gets the records of the solver."""
        learner = MetricLearner(
            **self.parameters, callback=lambda record: callback(record)
        )  # a function: scikit-learn clones it
        if self.search:
            chosen = MetricLearnerCV(learner=learner, random_state=self.seed, verbose=0).fit(X, y)
            learner = chosen.best_learner_
        else:
            learner.fit(X, y, **given)
        return learner


def learn_points(
    points: Path,
    columns: ColumnOptions,
    metric: MetricOptions,
    output: LearnOutput,
    *,
    constraints: Path | None,
    categorical: Sequence[str],
    search: bool,
) -> int:
    """Check the options, read the files and learn; the exit code.

    Parameters
    ----------
    points, constraints : Path
        Files; `constraints` may be None if there are labels.
    columns : ColumnOptions
    metric : MetricOptions
    output : LearnOutput
    categorical : sequence of str
        Columns to encode as one feature for each category.
    search : bool
        Whether cross-validation chooses prior, strategy and slack weight.
    """
    if constraints is None and columns.labels is None:
        raise fail("give --constraints FILE or --labels COLUMN (or both)")
    if search and (constraints is not None or columns.labels is None):
        raise fail("--search needs --labels COLUMN to measure by, and takes no --constraints")
    if output.folds == 1:
        raise fail("--folds must be 2 at least, or 0, which leaves the test out; got 1")
    with bad_input():
        check_outputs({"--out": output.out, "--report": output.report}, [points, constraints])
        parameters = metric.parameters()
        if metric.slack_weight not in (None, "auto"):
            parameters["slack_weight"] = number_in("--slack-weight", str(metric.slack_weight), "a number, inf or auto")
        task = read_input(points, columns, categorical=categorical, constraints=constraints, prior=metric.prior)
        if task.given is None and metric.n_constraints == 0:
            raise ValueError(
                "no constraints: --n-constraints 0 takes none from the labels, and --constraints is not given"
            )
    if task.given is not None and task.given.has_measured_bounds and metric.prior == "auto":
        parameters["prior"] = "variance"  # the bounds were measured in it
    note(f"features ({len(task.feature_names)}): {listed(task.feature_names, 20)}")
    return learn_task(task, LearnSettings(parameters, search, output=output))


def learn_task(task: LearnInput, settings: LearnSettings) -> int:
    """Learn, write, measure, show; the exit code."""
    out = settings.output.out
    start = time.monotonic()
    learner, is_interrupted = _fit(task, settings)
    elapsed = time.monotonic() - start
    if out is not None:
        with bad_input():
            save(out, learner, info=task.info())
    code = ExitCode.INTERRUPTED if is_interrupted else exit_code(learner.result_)
    maps = (task.X, scaled(task.X), learner.transform(task.X))
    summary = _agreement(task, learner, maps)
    held_out = None
    if is_interrupted:
        task.warnings.append("interrupted: this is the best iterate so far" + (f", written to {out}" if out else ""))
    elif task.n_classes > 1 or task.has_values:
        try:
            held_out = _measure(summary, task, maps, settings, elapsed)
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
            task.warnings.append("interrupted while measuring: the model is complete, some measurements are missing")
    _print(task, learner, settings, summary)
    if settings.output.report is not None:
        _write_report(task, learner, settings, learner.constraints_, learner.result_, summary, held_out)
        show.wrote("report", settings.output.report)
    return code


def _fit(task: LearnInput, settings: LearnSettings) -> tuple[Any, bool]:
    """Return the fitted learner, and whether Ctrl-C stopped it early.

    End the command without a learner: bad parameters (2), a proof of infeasibility (3), Ctrl-C before the first point (130).
    """
    fitted: list[Any] = []
    what = "searching settings for" if settings.search else "learning from"
    try:
        with (
            collected_warnings() as texts,
            Progress(f"{what} {task.name}", quiet=settings.output.quiet) as progress,
        ):
            if settings.search:
                fitted.append(settings.fit(task.X, task.labels, progress))
            else:
                fitted.append(MetricLearner(**settings.parameters, callback=progress))
                fitted[0].fit(task.X, task.labels, constraints=task.constraints)
            is_interrupted = False
    except KeyboardInterrupt:
        is_interrupted = True
    except SolverError as error:
        raise _failed(task, settings, error) from error
    except (ValueError, TypeError) as error:
        raise fail(for_labels(str(error), task.label_column)) from error
    if not fitted or not fitted[0].__sklearn_is_fitted__():
        note("interrupted before there was anything to keep; nothing is written", style="yellow")
        raise typer.Exit(ExitCode.INTERRUPTED)
    learner = fitted[0].set_params(callback=None)
    task.warnings += [for_command(text) for text in texts]
    if learner.strategy_ is None:
        task.warnings.append(_not_learned(learner))
    return learner, is_interrupted


def _not_learned(learner: Any) -> str:
    """The remark on a fit whose outcome is the prior."""
    columns = "scaled columns" if learner.prior_ == "variance" else f"the prior {learner.prior_!r}"
    columns = "the columns as given" if learner.prior_ == "identity" else columns
    found = ", ".join(f"{name} {share:.3f}" for name, share in learner.comparison_.items() if "halves" in name)
    measured = f" (accuracy of neighbours: {found})" if found else ""
    return f"not learning is better here{measured}: the model is the distance in {columns}; --strategy neighbors learns anyway"


def _agreement(task: LearnInput, learner: Any, maps: Sequence[np.ndarray]) -> list[SummaryRow]:
    """Rows of the summary: how far the points agree with the constraints, as given, scaled and learned."""
    rows = learner.constraints_
    if learner.strategy_ is None and task.given is None:
        return []  # nothing was asked of the metric
    has_hard = is_any_hard(learner, rows)
    is_scaled = learner.prior_ == "variance"  # then the bounds have the units of scaled columns
    in_units = (None, *maps[1:]) if is_scaled else (maps[0], None, maps[2])
    if not has_hard and (fewer := fewer_met(rows, maps[1] if is_scaled else maps[0], maps[2])) is not None:
        task.warnings.append(fewer)
    return [constraints_met(rows, in_units, all_soft=not has_hard), *pairs_in_order(rows, maps)]


def _measure(
    summary: list[SummaryRow], task: LearnInput, maps: Sequence[np.ndarray], settings: LearnSettings, elapsed: float
) -> HeldOut | None:
    """Add measurements by labels to the summary, and a remark if nothing is gained."""
    held_out = _held_out(task, settings, elapsed)
    if held_out is not None:
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


def _held_out(task: LearnInput, settings: LearnSettings, elapsed: float) -> FoldScores | None:
    """The nearest-neighbour test on held-out folds; None, with a remark, if it is not possible or takes too long."""
    n_fits = settings.output.folds * settings.n_repeats
    if not n_fits:
        return None
    if elapsed * n_fits > LONGEST_MEASUREMENT:
        why = f"{n_fits} more runs of {elapsed:.0f} s; it can be made with fewer points"
    else:
        try:
            if (found := _test_neighbours(task, settings)) is not None:
                return found
            why = "there are fewer than four values" if task.has_values else "a class has only one labelled point"
        except (ValueError, SolverError) as error:
            why = str(error)
    task.warnings.append(f"no nearest-neighbour test: {why}")
    return None


def _test_neighbours(task: LearnInput, settings: LearnSettings) -> FoldScores | None:
    """Run the nearest-neighbour test. A search is repeated on every training part."""
    fold = ""

    def on_fold(k: int, n: int) -> None:
        nonlocal fold
        fold = f"fold {k} of {n}"
        say(fold)

    def fit_part(rows: np.ndarray) -> Any:
        def callback(record: Any) -> None:
            say(f"{fold}, {show.gap_and_violation(record)}")

        with warnings.catch_warnings():  # a fit that stops early is tested, too; the main fit has its own message
            warnings.simplefilter("ignore")
            given = {"constraints": task.constraints, "sample_id": rows}
            return settings.fit(task.X[rows], task.y[rows], callback, **given)

    quiet = settings.output.quiet
    with Progress("measuring on held-out points", quiet=quiet, state=str, kept="the model") as say:
        folds = Folds(settings.output.folds, settings.n_repeats, settings.seed, on_fold)
        return held_out_neighbours(fit_part, task.X, task.y, folds)


def is_any_hard(learner: Any, rows: Constraints) -> bool:
    """Whether a constraint of a fitted learner must hold."""
    weight = getattr(learner, "slack_weight_", learner.slack_weight)
    return bool((weight != "auto" and np.isinf(weight)) or np.isinf(rows.weight).any())


def _print(task: LearnInput, learner: Any, settings: LearnSettings, summary: Sequence[SummaryRow]) -> None:
    """Print remarks, the summary and the certificate."""
    for text in task.warnings:
        warn(text)
    console = show.stdout()
    console.print(task.title, style="bold", markup=False, soft_wrap=True)
    if summary:
        console.print(show.summary_table(summary))
    has_hard = is_any_hard(learner, learner.constraints_)
    more = [("slack weight", _weight_text(learner, settings))]
    if settings.search:
        more.append(("chosen by search", f"prior {learner.prior_}, strategy {learner.strategy_ or 'not learned'}"))
    console.print(show.certificate_table(learner.result_, has_hard=has_hard, more=more))
    if settings.output.out is not None:
        show.wrote("model", settings.output.out)


def _weight_text(learner: Any, settings: LearnSettings) -> str:
    """The slack weight in use, and whether it was chosen."""
    return number(learner.slack_weight_) + (", chosen by cross-validation" if settings.search else "")


def _prior_text(learner: Any, task: LearnInput) -> str:
    """The prior in use, and the number of principal components that it was reduced to, if it was."""
    R = learner.result_.coordinates.R  # (d, r), or None: the columns as they are
    is_whole = learner.prior != "auto" or R is None or learner.result_.coordinates.span is not None
    if is_whole or R.shape[1] in (len(task.feature_names), learner.n_components):
        return str(learner.prior_)
    return f"{learner.prior_}, on the {R.shape[1]} leading principal components"


def _failed(task: LearnInput, settings: LearnSettings, error: SolverError) -> Exception:
    """Print the proof that there is no solution, or that the solver broke down; return the exception that ends the command."""
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
    if settings.output.report is not None:
        _write_report(task, None, settings, rows, result, ())
        note(f"report  {settings.output.report}", style="")
    return failure


def _place(task: LearnInput, rows: Constraints, row: int) -> str:
    """Where a constraint comes from: file and line, or the labels; those drawn from labels come first."""
    places: Sequence[str] = () if task.given is None else task.given.places
    given = row - (rows.n_constraints - len(places))
    return places[given] if given >= 0 else f"row {row}, drawn from the labels"


def _write_report(
    task: LearnInput,
    learner: Any,
    settings: LearnSettings,
    rows: Constraints,
    result: Any,
    summary: Sequence[SummaryRow],
    held_out: HeldOut | None = None,
) -> None:
    """Write the HTML report.

    Parameters
    ----------
    task : LearnInput
    learner : MetricLearner or None
        None if there is no solution.
    settings : LearnSettings
    rows : Constraints
        The constraints of the problem.
    result : MatrixResult
    summary : sequence of SummaryRow
    held_out : HeldOut, optional
    """
    from bregmat_app.report import write_report  # its template engine is loaded for a report only

    parameters = MetricLearner(**settings.parameters).get_params()
    asked = {name: value for name, value in parameters.items() if value is not None}
    if learner is not None:
        asked |= {"slack_weight": _weight_text(learner, settings), "prior": _prior_text(learner, task)}
        asked["strategy"] = learner.strategy_ or "none: not learning is better"
    has_hard = settings.slack_weight == np.inf or bool(np.isinf(rows.weight).any())
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
        has_hard=has_hard,
        held_out=held_out,
        class_names=task.class_names or None,
        model_path=settings.output.out,
    )
    assert settings.output.report is not None
    with bad_input():
        write_report(settings.output.report, data)
