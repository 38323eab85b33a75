"""Ctrl-C: real signals to a process that fits, solves or searches; and at chosen places, by a callback that raises.

Estimators keep what they have and raise, functions return what they have; both say so in a warning.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import bregmat
from bregmat import KernelKMeans, KernelLearner, MarginSVC, MetricLearner, Record
from bregmat.base.threads import is_interrupted

# data on which every fit takes long enough to be hit in its middle
PREAMBLE = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("always")
import numpy as np, bregmat
from sklearn.datasets import load_digits, load_wine
X, y = load_wine(return_X_y=True)

def write(path, X, y):
    names = [*(f"p{k}" for k in range(X.shape[1])), "label"]
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=",".join(names), comments="")

def press(record):
    "Slow, so that the signal, which comes from outside, meets a run under way."
    if record.iteration >= 1:
        print("running", flush=True)
        time.sleep(30)
"""


def pressed(code):
    """Standard output, standard error and exit code of a process that got SIGINT once it had said that it runs."""
    child = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [child.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("running"):
            lines.append(child.stdout.readline())
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    return "".join(lines) + out, err, child.returncode


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


class Press:
    """A callback that presses Ctrl-C, as an exception, when it is called for the n-th time."""

    def __init__(self, n=3):
        self.n = n

    def __call__(self, record):
        self.n -= 1
        if self.n == 0:
            raise KeyboardInterrupt

    def __sklearn_clone__(self):
        return self


# ---------------------------------------------------------------- signals
@pytest.mark.slow
def test_a_signal_ends_a_fit_that_keeps_what_it_has():
    out, err, code = pressed("""
        learner = bregmat.MetricLearner(random_state=0, callback=press)
        try:
            learner.fit(X, y)
        except KeyboardInterrupt as error:
            print("raised", error)
        print(learner.result_.exit_reason, learner.transform(X).shape, learner.n_iter_ >= 1)
    """)
    assert code == 0, err
    assert "raised MetricLearner was interrupted after 1 iterations with status FEASIBLE" in out
    assert re.search(r"INTERRUPTED \(178, \d+\) True", out)
    assert "InterruptWarning: MetricLearner was interrupted after 1 iterations" in err


@pytest.mark.slow
def test_a_signal_ends_a_grid_search():
    """The first of 36 fits is hit; nothing else begins, and no score is kept."""
    out, err, code = pressed("""
        from sklearn.model_selection import GridSearchCV
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        grid = GridSearchCV(
            make_pipeline(bregmat.MetricLearner(random_state=0, callback=press), KNeighborsClassifier()),
            {"metriclearner__slack_weight": [0.1, 1.0, 10.0]}, cv=12,
        )
        start = time.monotonic()
        try:
            grid.fit(X, y)
        except KeyboardInterrupt:
            print("raised", hasattr(grid, "cv_results_"), time.monotonic() - start < 30)
    """)
    assert code == 0, err
    assert out.count("running") == 1 and "raised False True" in out


@pytest.mark.slow
def test_a_signal_cuts_a_result_short():
    out, err, code = pressed("""
        K = X @ X.T / 1e6 + np.eye(len(X))
        rows = bregmat.Constraints.sq_distance(np.arange(50), np.arange(50) + 60, 1.0, "<=")
        result = bregmat.nearest_kernel(K, rows, slack_weight=1.0, tol=1e-14, callback=press)
        print(result.exit_reason, np.isfinite(result.objective))
    """)
    assert code == 0, err
    assert "INTERRUPTED True" in out
    assert "<string>" in err and "InterruptWarning: nearest_kernel was interrupted after 1 iterations" in err


@pytest.mark.slow
def test_a_signal_to_the_command_writes_the_model(tmp_path):
    out, err, code = pressed(f"""
        os.chdir({str(tmp_path)!r})
        write("wine.csv", X, y)
        from bregmat_app.cli import show
        from bregmat_app.cli.app import app
        show.Progress.__call__ = lambda self, record: press(record)
        app(["learn", "wine.csv", "--labels", "label", "--out", "m"])
    """)
    assert code == 130, err
    assert "interrupted: this is the best iterate so far, written to" in " ".join(err.split())
    assert "InterruptWarning" not in err  # said in the command's own words
    assert bregmat.load(tmp_path / "m").result_.exit_reason == "INTERRUPTED"


# ---------------------------------------------------------------- estimators
@pytest.mark.parametrize(
    "make",
    [
        lambda press: MetricLearner(random_state=0, callback=press),
        lambda press: MetricLearner(random_state=0, callback=press, strategy="random"),
        lambda press: MetricLearner(random_state=0, callback=press, n_components=2),
        lambda press: KernelLearner("rbf", gamma=1e-5, random_state=0, callback=press),
        lambda press: KernelLearner("linear", random_state=0, callback=press),
        lambda press: MarginSVC(callback=press),
        lambda press: MarginSVC(solver="multiplicative", fit_intercept=False, callback=press),
    ],
)
def test_fits_keep_what_they_have_and_raise(wine, make):
    X, y = wine
    estimator = make(Press(2))
    with (
        pytest.warns(RuntimeWarning, match=f"{type(estimator).__name__} was interrupted .* result_ and the other"),
        pytest.raises(KeyboardInterrupt, match="was interrupted"),
    ):
        estimator.fit(X, y)
    used = estimator.predict(X) if isinstance(estimator, MarginSVC) else estimator.transform(X)
    assert len(used) == len(X)
    result = estimator.result_ if not isinstance(estimator.result_, list) else estimator.result_[0]
    assert result.exit_reason == "INTERRUPTED"
    assert not is_interrupted()


def test_an_interrupt_stops_where_warnings_are_errors(wine):
    """GridSearchCV takes other errors for a failed fit and goes on."""
    grid = GridSearchCV(
        make_pipeline(MetricLearner(random_state=0, callback=Press()), KNeighborsClassifier()),
        {"metriclearner__slack_weight": [0.1, 1.0]},
    )
    with warnings.catch_warnings(), pytest.raises(KeyboardInterrupt):
        warnings.simplefilter("error")
        grid.fit(*wine)
    assert not hasattr(grid, "cv_results_")


def test_before_there_is_anything_nothing_is_kept(wine, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("bregmat.estimators.task.neighbor_constraints", interrupt)
    learner = MetricLearner()
    with pytest.raises(KeyboardInterrupt):
        learner.fit(*wine)
    assert not [name for name in vars(learner) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        learner.transform(wine[0])


def test_between_two_passes_the_last_one_is_kept(wine, monkeypatch, set_passes):
    from bregmat.estimators import task as fitting

    draw, calls = fitting.neighbor_constraints, []

    def second(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return draw(*arguments, **options)

    monkeypatch.setattr(fitting, "neighbor_constraints", second)
    set_passes(3)
    learner = MetricLearner(strategy="neighbors", prior="variance", slack_weight=1.0, random_state=0)
    with pytest.warns(RuntimeWarning, match="was interrupted after"), pytest.raises(KeyboardInterrupt):
        learner.fit(*wine)
    assert learner.result_.exit_reason == "INTERRUPTED" and learner.result_.gap <= 1e-4
    assert {record.stage for record in learner.result_.history} == {1}


def test_a_callback_that_asks_to_stop_is_no_interrupt(wine):
    """It is the caller's own decision: fit returns, and nothing warns."""
    learner = MetricLearner(random_state=0, callback=lambda record: record.iteration == 2).fit(*wine)
    assert learner.result_.exit_reason == "INTERRUPTED"


def test_a_second_interrupt_keeps_nothing(wine):
    """The first one waits for the machines that have not begun to stop at their first point."""
    from bregmat.estimators import svm_pairs

    def hasty(training, record):
        raise KeyboardInterrupt

    machine = MarginSVC()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(svm_pairs._PairTraining, "_stop", hasty)
        machine.set_params(callback=print).fit(*wine)
    assert not [name for name in vars(machine) if name.endswith("_")]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_clusters_of_the_starts_that_had_ended(wine, monkeypatch, kernel):
    from bregmat.estimators import cluster, lloyd

    X, _ = wine
    calls = []

    def third(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    if kernel == "linear":
        whole = cluster.KMeans.fit
        monkeypatch.setattr(cluster.KMeans, "fit", third)
    else:
        whole = lloyd._fill_empty_inplace
        monkeypatch.setattr(lloyd, "_fill_empty_inplace", third)
    model = KernelKMeans(3, kernel=kernel, gamma=1e-5, n_init=2 if kernel == "rbf" else 5, random_state=0)
    with pytest.warns(RuntimeWarning, match="KernelKMeans was interrupted before"), pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert np.array_equal(model.predict(X), model.labels_)
    assert len(np.unique(model.labels_)) == 3


def test_components_of_an_interrupted_call(monkeypatch, rng):
    """A call that is interrupted between two blocks of its rows changes nothing."""
    from bregmat.online import pca

    X, trials, calls = rng.normal(size=(50, 4)) + 1.0, pca.kernels.pca_trials_inplace, []

    def third(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return trials(*arguments)

    monkeypatch.setattr(pca, "BLOCK", 64 * 10)
    monkeypatch.setattr(pca.kernels, "pca_trials_inplace", third)
    learner = bregmat.OnlinePCA(2)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(X)
    assert not hasattr(learner, "n_samples_seen_")
    learner.fit(X[:20])
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(X[20:])
    assert learner.n_samples_seen_ == 20
    whole = bregmat.OnlinePCA(2).fit(X)
    assert np.array_equal(learner.partial_fit(X[20:]).matrix(), whole.matrix())


# ---------------------------------------------------------------- the choice of settings
def test_interrupted_while_candidates_are_compared(monkeypatch, wine):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("bregmat.estimators.selection.judged", interrupt)
    learner = MetricLearner()
    with pytest.raises(KeyboardInterrupt):
        learner.fit(*wine)
    assert not [name for name in vars(learner) if name.endswith("_")]


# ---------------------------------------------------------------- verbose
def test_lines_at_doubling_iterations(wine, capsys):
    """In less than a second: iterations 0, 1, 2, 4, 8, ..., and how it ended."""
    K = wine[0] @ wine[0].T / 1e6 + np.eye(178)
    learner = KernelLearner(
        "precomputed",
        solver="cyclic_projection",
        strategy="random",
        slack_weight=1.0,
        tol=1e-9,
        max_iter=70,
        verbose=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(K, wine[1])
    *lines, end = capsys.readouterr().out.splitlines()
    result = learner.result_
    shown = [int(line.split()[2].rstrip(":")) for line in lines]
    doubling = [0, *(2**k for k in range(8) if 2**k <= result.n_iter)]
    assert set(doubling) <= set(shown) and len(shown) <= len(doubling) + int(result.seconds) + 1
    assert end == f"[bregmat] KernelLearner: {result.ending}"
    assert f"{result.status} after {result.n_iter} iterations" in end and f"gap {result.gap:.1e}" in end


def test_lines_every_second(capsys, monkeypatch):
    from bregmat.estimators.base import VerboseCallback

    now = [0.0]
    monkeypatch.setattr("bregmat.estimators.base.time.monotonic", lambda: now[0])
    records = [Record(count, 0.0, 1.0, 0.0, 1.0, 0.0) for count in range(40)]
    tell = VerboseCallback(1)
    for record in records:
        now[0] += 0.3
        tell(record)
    due = [int(count) for count in re.findall(r"iteration (\d+)", capsys.readouterr().out)]
    assert {0, 1, 2, 4, 8, 16, 32} <= set(due) and max(np.diff(due)) <= 4
    tell = VerboseCallback(2)
    for _ in range(3):
        tell(records[0])
    assert capsys.readouterr().out.count("iteration 0") == 3


def test_other_verbose_estimators(wine, capsys):
    MarginSVC(verbose=1).fit(*wine)
    *lines, end = capsys.readouterr().out.splitlines()
    assert lines and end.startswith("[bregmat] MarginSVC: 3 machines, ")
    learner = MetricLearner(verbose=1, random_state=0).fit(*wine)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "[bregmat] y is read as classes; 11 candidates compared on 178 rows:"
    table = learner.selection_
    assert lines[0].startswith(f"[bregmat]   identity, not learned: score {table['score'][0]:.4f} +- ")
    assert sum(line.endswith(", chosen") for line in lines) == 1
    assert lines[-1] == f"[bregmat] MetricLearner: {learner.result_.ending}"
