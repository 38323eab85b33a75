"""The experiments of Kulis 2009, section 7.1 and Appendix B, on small data: what must hold whatever the data."""

from pathlib import Path

import numpy as np
import pytest

from bregmat import CyclicProjection, Factor, nearest_kernel
from bregmat_papers import DataHome, spambase
from bregmat_papers.clustering import (
    RULES,
    Cycle,
    bregman_cycles,
    digits,
    draw_pairs,
    nmi,
    pair_bounds,
    stopping_cycles,
)
from bregmat_papers.digits_convergence import AXIS, VARIANTS, _infeasible
from bregmat_papers.digits_nmi import READINGS
from bregmat_papers.drawing import DIVERGENCES
from bregmat_papers.experiments import select
from bregmat_papers.slack_clustering import weight_of


def value(report, quantity):
    """Our number in the row of that name."""
    (row,) = [row for row in report.rows if row.quantity == quantity]
    return row.ours


@pytest.mark.slow
def test_digits_cluster_better_with_constraints(reproduced):
    report = reproduced("digits-nmi")
    for reading in READINGS:
        for divergence in DIVERGENCES:
            found = [outcome[divergence] for _, outcome in select(report.findings, reading=reading)]
            rise = np.mean([f["best"] for f in found], axis=0)
            assert rise[-1] > rise[0]
            assert all(0 <= s <= 1 for f in found for s in [*f["best"], *f["single"], *f["knn"]])
            assert all(f["gap"][k] <= 1e-4 for f in found for k in range(len(rise)))  # certified, as asked for
    # LogDet of distances does not see where the origin is
    plain, centred = (select(report.findings, reading=name) for name in [*READINGS][:2])
    for (_, one), (_, two) in zip(plain, centred, strict=True):
        assert one["logdet"]["best"] == pytest.approx(two["logdet"]["best"], abs=1e-3)


@pytest.mark.slow
def test_digits_share_met_rises_to_all(reproduced):
    report = reproduced("digits-convergence")
    runs = select(report.findings, part="cycles")
    for _, found in runs:
        assert len(found["curve"]) == AXIS and found["curve"][-1] == 1.0 > found["curve"][0]
        assert set(found["status"]) == {"OPTIMAL"}
        assert all(found[rule][1] > found[rule][0] > 0 for rule in RULES)  # more constraints, more cycles
    cycles_of = {name: [f["movement"] for _, f in select(runs, divergence=name)] for name in DIVERGENCES}
    assert (np.mean(cycles_of["logdet"], axis=0) > np.mean(cycles_of["vonneumann"], axis=0)).all()  # as in the paper
    shares = [
        row for row in report.rows if row.quantity.startswith("share of 60 constraints of any two points met after")
    ]
    assert len(shares) == 2 * 4 and all(0 < row.ours <= 100 for row in shares)
    ((_, found), *_) = select(report.findings, part="feasible")
    assert found == dict.fromkeys(VARIANTS, False)  # 60 rows are few for a kernel of that rank


def test_contradictions_are_found_infeasible():
    """Three places that must come closer to each other and may not; asked of one class only, they can."""
    X, y = np.eye(3)[[0, 1, 2, 0, 1, 2]], np.array([0, 0, 0, 1, 1, 1])
    unit = {"counts": [200], "seed": 0}
    assert _infeasible(X, y, 0.25, unit) and not _infeasible(X, np.zeros(6, int), 0.25, unit)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spambase", "nursery"])
def test_slack_raises_nmi_and_is_certified(reproduced, name):
    report = reproduced(name)
    for unit, found in report.findings:
        assert found["movement"][0] == 0 and max(found["gap"]) <= 1e-4
        assert all(0 < c < unit["most"] for c in found["movement"][1:])
    starts, ends = (np.mean([found["best"][k] for _, found in report.findings]) for k in (0, -1))
    assert ends > starts
    preparations = {unit["preparation"] for unit, _ in report.findings}
    for preparation in preparations:
        cycles_of = {n: select(report.findings, preparation=preparation, divergence=n) for n in DIVERGENCES}
        mean = {n: np.mean([f["movement"][-1] for _, f in some]) for n, some in cycles_of.items()}
        assert mean["logdet"] > mean["vonneumann"]  # as in the paper


def test_rows_that_differ_between_processors_say_so_on_the_page():
    page = (Path(__file__).parents[1] / "docs" / "reproduction" / "kulis-2009.md").read_text(encoding="utf-8")
    assert spambase.STUDY.notes
    for quantity, note in spambase.STUDY.notes.items():
        (line,) = (line for line in page.splitlines() if line.startswith(f"| {quantity} |"))
        assert line.endswith(f"| {note} |")


def test_appendix_b_stops_where_the_paper_says(reproduced):
    report = reproduced("appendix-b")
    for k, (wrong, right) in enumerate(zip((1 / 5, 7 / 15, 1 / 3), (1 / 3,) * 3, strict=True), start=1):
        # the paper prints its coefficients with four digits
        assert value(report, f"x_{k} at the end, without corrections") == pytest.approx(wrong, abs=2e-3)
        assert value(report, f"x_{k} at the end, with corrections") == pytest.approx(right, abs=2e-3)
    ((_, vector),) = select(report.findings, part="vector")
    objective = vector["objective"]
    assert objective["corrected"] == pytest.approx(objective["optimum"], rel=1e-8)  # both certified to about 1e-9
    assert objective["uncorrected"] > 1.05 * objective["optimum"]
    assert max(vector["violation"].values()) <= 1e-6
    ((_, matrix),) = select(report.findings, part="matrix")
    for name in DIVERGENCES:
        assert matrix[name]["corrected"] == 0.0 < matrix[name]["projected"]
        assert matrix[name]["matrix"] == [[1.0, 0.0], [0.0, 1.0]]
    for _, found in select(report.findings, part="digits"):
        assert all(found[name]["uncorrected"] > found[name]["optimum"] > 0 for name in DIVERGENCES)


def test_bounds_are_a_quarter_off_the_distances(rng):
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 2, 30)
    i, j = draw_pairs(X, 50, 3)
    rows = pair_bounds(X, y, i, j)
    ratio = rows.bound / ((X[i] - X[j]) ** 2).sum(axis=1)
    assert ratio == pytest.approx(np.where(y[i] == y[j], 0.75, 1.25))
    assert not rows.satisfied(X).any()  # every one is violated by the data
    assert len(np.unique(draw_pairs(X, 50, 3, labelled=5))) == 5
    first, second = draw_pairs(X, 20, 3)
    assert (first == i[:20]).all() and (second == j[:20]).all()  # fewer are the first of more


def test_pairs_of_equal_points_are_not_drawn():
    X = np.zeros((20, 2))
    X[::2] = 1.0
    i, j = draw_pairs(X, 200, 0)
    assert len(i) == 200 and (i % 2 != j % 2).all()


def test_cycles_are_the_sweeps_of_the_solver(data_free_digits):
    """Same cycle at which the solver's own stopping rule ends a run."""
    X, y = data_free_digits
    rows = pair_bounds(X, y, *draw_pairs(X, 30, 1))
    for name in DIVERGENCES:
        seen = stopping_cycles(bregman_cycles(X, rows, name), 200)
        solver = CyclicProjection(movement_tol=1e-3)
        run = nearest_kernel(Factor(X), rows, divergence=name, solver=solver, tol=1e-15)
        assert run.n_iter == seen["movement"]
        assert seen["share"][seen["met"] - 1] == 1.0 > max(seen["share"][: seen["met"] - 1])


def test_stops_goes_on_until_every_rule_has():
    run = [
        Cycle(0.5, 1.0, 1.0),
        Cycle(1.0, 0.5, 1.0),
        Cycle(1.0, 1e-4, 1.0),
        Cycle(1.0, 1e-4, 1e-4),
        Cycle(0.0, 0.0, 0.0),
    ]
    found = stopping_cycles(iter(run), 10)
    assert (found["met"], found["movement"], found["movement_sum"]) == (2, 3, 4)
    assert found["share"] == [0.5, 1.0, 1.0, 1.0]
    assert stopping_cycles(iter(run), 2)["movement"] is None
    assert len(stopping_cycles(iter(run), 10, least=5)["share"]) == 5


def test_nmi_of_groups_that_are_far_apart(rng):
    y = np.repeat([0, 1, 2], 10)
    best, single = nmi(100.0 * np.eye(3)[y] + rng.normal(size=(30, 3)), y, 5, 0)
    assert best == pytest.approx(1.0) and single <= best


def test_von_neumann_weighs_slack_in_units_of_the_kernel():
    assert weight_of(2.0, "logdet", (100, 5)) == 2.0
    assert weight_of(2.0, "vonneumann", (100, 5)) == 20.0


@pytest.fixture
def data_free_digits():
    """317 of scikit-learn's digits 3, 8 and 9."""
    return digits(DataHome(), "digits389", 0)


def test_samples_of_pendigits(data_home):
    data = DataHome(data_home)
    (X, _), (other, labels) = digits(data, "pendigits389", 0), digits(data, "pendigits389", 1)
    assert X.shape == other.shape == (317, 16) and set(labels) == {0, 1, 2}
    assert (other != X).any()
    whole = data.table("pendigits")
    where = {tuple(row): whole.target_names[label] for row, label in zip(whole.X, whole.y, strict=True)}
    assert all(where[tuple(row)] == "389"[label] for row, label in zip(other, labels, strict=True))
