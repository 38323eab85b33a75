"""The displays: what stands in the pictures, on made-up numbers and on real results."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine

from bregmat import Constraints, MetricLearner, Record, nearest_kernel, nearest_metric
from bregmat.plots import ConvergenceDisplay, EmbeddingDisplay
from drawing import in_memory, legend_texts, texts

nan, inf = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def agg():
    yield from in_memory()


# ---------------------------------------------------------------------------------------------- convergence
def history(gaps, violations=None):
    """Records whose objective falls to 1, with the given gaps."""
    return [
        Record(k, 0.1 * k, 1 + g if g == g else 2.0, 1.0 if g == g else nan, g, violations[k] if violations else 0.0)
        for k, g in enumerate(gaps)
    ]


def test_convergence_draws_the_records():
    display = ConvergenceDisplay.from_data(history([1, 0.1, 0.01]), tol=1e-3)
    assert_allclose(display.lines_["objective"].get_ydata(), [2, 1.1, 1.01])
    assert_allclose(display.lines_["dual_bound"].get_ydata(), 1.0)
    assert_allclose(display.lines_["gap"].get_xydata(), [[0, 1], [1, 0.1], [2, 0.01]])
    upper, lower = display.ax_
    assert lower.get_yscale() == "log"
    assert lower.get_xlabel() == "iteration"
    assert legend_texts(upper) == ["objective, best so far", "proven lower bound, best so far"]
    assert texts(lower) == ["tolerance 0.001"]


def test_convergence_history_of_one_record_is_visible():
    display = ConvergenceDisplay.from_data(history([0.5]))
    assert display.lines_["gap"].get_marker() == "o"
    assert_allclose(display.lines_["gap"].get_xydata(), [[0, 0.5]])
    display.figure_.canvas.draw()


def test_convergence_leaves_out_what_is_not_known():
    display = ConvergenceDisplay.from_data(history([nan, 0.1, nan, 1e-8], [nan] * 4))
    assert_allclose(display.lines_["gap"].get_xydata(), [[1, 0.1], [3, 1e-8]])
    assert "violation" not in display.lines_
    nothing = ConvergenceDisplay.from_data([Record(0, 0.0, nan, nan, nan, nan)])
    assert nothing.lines_ == {}
    assert texts(nothing.ax_[0]) == ["not recorded"]


def test_convergence_zero_gap_is_at_the_floor():
    display = ConvergenceDisplay.from_data(history([1.0, 0.0, -1e-18]))
    assert_allclose(display.lines_["gap"].get_ydata(), [1, 1e-16, 1e-16])


def test_convergence_far_bounds_do_not_flatten_the_objective():
    records = [Record(k, k, 2.0 - k, b, nan, 0.0) for k, b in enumerate([-inf, -1e9, 0.0])]
    low, high = ConvergenceDisplay.from_data(records).ax_[0].get_ylim()
    assert low > -5
    assert high < 5


def test_convergence_objective_that_falls_by_decades_is_logarithmic():
    records = [Record(k, k, 1e6 / 10**k, 100.0 - 1e5 / 10**k, nan, 0.0) for k in range(5)]
    upper = ConvergenceDisplay.from_data(records).ax_[0]
    assert upper.get_yscale() == "log"
    assert upper.get_ylim()[0] > 1
    upper.figure.canvas.draw()


def test_convergence_shows_the_best_so_far_where_a_second_solver_starts_anew():
    values = [(9.0, 1.0, 0.9), (5.0, 2.0, 0.6), (1e9, -7.0, 1.0), (4.0, 3.5, 0.1)]
    display = ConvergenceDisplay.from_data([Record(k, k, o, b, g, 0.0) for k, (o, b, g) in enumerate(values)])
    assert_allclose(display.lines_["objective"].get_ydata(), [9, 5, 5, 4])
    assert_allclose(display.lines_["dual_bound"].get_ydata(), [1, 2, 2, 3.5])
    assert_allclose(display.lines_["gap"].get_ydata(), [0.9, 0.6, 0.6, 0.1])
    low, high = display.ax_[0].get_ylim()
    assert 0 < low < 1
    assert 9 < high < 12


def test_convergence_of_a_dual_method_shows_its_bounds():
    records = [Record(k, k, nan, 41.9 * (1 - 0.8**k), nan, nan) for k in range(20)]
    display = ConvergenceDisplay.from_data([*records, Record(20, 20, 41.90001, 41.9, 1e-7, 0.0)])
    assert len(display.lines_["dual_bound"].get_xdata()) == 21
    low, high = display.ax_[0].get_ylim()
    assert low < 38
    assert high > 41.90001
    display.figure_.canvas.draw()
    assert display.ax_[0].yaxis.get_offset_text().get_text() == ""


def test_convergence_leaves_out_objectives_of_points_outside_the_hard_rows():
    objectives, bounds = [1.0, 12.0, 3.0, 10.0], [nan, nan, nan, 9.99]
    records = [Record(k, k, o, b, nan, nan) for k, (o, b) in enumerate(zip(objectives, bounds, strict=True))]
    display = ConvergenceDisplay.from_data(records)
    assert_allclose(display.lines_["objective"].get_xydata(), [[1, 12], [3, 10]])


def test_convergence_empty_history():
    with pytest.raises(ValueError, match="history is empty"):
        ConvergenceDisplay.from_data([])


# ---------------------------------------------------------------------------------------------- logarithmic axes
def ticks(low, high):
    """Ticks of a logarithmic axis and its limits."""
    display = ConvergenceDisplay.from_data(history([high / 3, 3 * low]))  # its limits are three times as wide
    display.figure_.canvas.draw()
    return display.ax_[1].get_yticklabels(), display.ax_[1].get_ylim()


def test_an_axis_within_three_decades_has_readable_ticks():
    assert {"0.5", "1", "2"} <= {t.get_text() for t in ticks(0.5, 3.0)[0]}


def test_an_axis_over_decades_has_powers_of_ten():
    labels, (low, high) = ticks(1e-8, 1e4)  # Matplotlib's versions choose other powers
    shown = [t for t in labels if low <= t.get_position()[1] <= high]
    words = {1e-2: "0.01", 1e-1: "0.1", 1.0: "1", 10.0: "10", 100.0: "100", 1000.0: "1,000"}
    words |= {
        10.0**k: "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")) for k in (*range(-9, -2), 4, 5)
    }
    assert len(shown) >= 4
    assert [t.get_text() for t in shown] == [words[round(t.get_position()[1], 12)] for t in shown]


# ---------------------------------------------------------------------------------------------- real results
@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X, y, MetricLearner(strategy="random", random_state=0).fit(X, y)


def test_every_display_of_an_estimator(wine):
    X, y, learner = wine
    result = learner.result_
    embedding = EmbeddingDisplay.from_estimator(learner, X, y)
    assert embedding.classes_ == [0, 1, 2]
    assert_allclose(
        np.abs(embedding.after), np.abs(EmbeddingDisplay.from_data(X, result.transform, y).after), rtol=1e-6
    )
    convergence = ConvergenceDisplay.from_estimator(learner)
    assert convergence.lines_["objective"].get_ydata()[-1] == pytest.approx(result.objective)
    assert convergence.lines_["gap"].get_ydata()[-1] <= learner.tol
    assert "violation" not in convergence.lines_  # all rows have slack
    assert texts(convergence.ax_[1]) == ["tolerance 1e−4"]


def test_convergence_of_a_kernel_with_hard_constraints(rng):
    G0 = rng.normal(size=(12, 12))
    result = nearest_kernel(G0 @ G0.T, Constraints.diagonal(np.ones(12)))
    assert ConvergenceDisplay.from_result(result).lines_["gap"].get_ydata()[-1] <= 1e-6


def test_displays_of_an_interrupted_run(wine):
    X, y, learner = wine
    rows = learner.constraints_
    result = nearest_metric(X, rows, slack_weight=1.0, callback=lambda record: True)
    assert ConvergenceDisplay.from_result(result).figure_ is not None
    assert EmbeddingDisplay.from_data(X, result.transform, y).figure_ is not None


# ---------------------------------------------------------------------------------------------- the package
@pytest.mark.slow
def test_matplotlib_is_imported_on_first_use():
    code = "import sys, bregmat.plots, bregmat_app.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
