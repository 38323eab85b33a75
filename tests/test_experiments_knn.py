"""Figure 5 and the MNIST experiment of Kulis 2009 on small bundled data: shapes of the results, and the preparation of images."""

import numpy as np
import pytest

from bregmat_papers import DataHome, experiment, reproduce
from bregmat_papers.mnist import BEST, MARGIN, NEAREST, PREPARATIONS, TOL
from bregmat_papers.mnist_images import Deskew, Points, images_of, neighbour_pairs
from bregmat_papers.random_pairs import random_pairs
from bregmat_papers.uci_knn import LEARNED


def ours(report, quantity):
    return next(row.ours for row in report.rows if row.quantity == quantity)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uci-knn", "mnist"])
def test_resumed_run_repeats_nothing(reproduced, name):
    report, steps = reproduced(name), []
    again = reproduce(experiment(name), report.csv.parent, size="small", progress=steps.append)
    assert again.findings == report.findings
    assert [step.done for step in steps] == [report.total]


# ---------------------------------------------------------------------- figure 5
@pytest.mark.slow
def test_learned_maps_repair_the_units_of_wine(reproduced):
    """Raw columns of wine differ a thousandfold: Euclidean errors are near a third, the paper's point."""
    euclidean = ours(reproduced("uci-knn"), "4-NN error, wine, raw, Euclidean")
    assert euclidean > 20
    for method in ("LogDet", "von Neumann"):
        assert ours(reproduced("uci-knn"), f"4-NN error, wine, raw, {method}") < euclidean / 2


@pytest.mark.slow
def test_every_solve_of_figure_5_is_certified(reproduced):
    for unit, found in reproduced("uci-knn").findings:
        assert found["pairs"] == 40 * 3**2 and set(found["gaps"]) == set(LEARNED)
        for method, gaps in found["gaps"].items():
            assert max(gaps) <= 1e-3, (unit, method)
            assert len(found["weights"][method]) == 2


# ---------------------------------------------------------------------- MNIST
@pytest.mark.slow
def test_every_solve_reaches_its_gap(reproduced):
    solves = [found for unit, found in reproduced("mnist").findings if unit["kind"] == "solve"]
    assert len(solves) == 12  # two preparations, two divergences, three sets of pairs
    for found in solves:
        assert max(run["gap"] for run in [found, *found["tried"]]) <= TOL


@pytest.mark.slow
def test_slack_weight_is_the_best_of_the_held_out_part(reproduced):
    for unit, found in reproduced("mnist").findings:
        if unit["kind"] == "solve":
            errors = [run["error"] for run in found["tried"]]
            chosen = found["tried"][errors.index(min(errors))]["slack_weight"]
            # rows of the whole training set to the part
            scale = 1198 / 800 if unit["divergence"] == "vonneumann" else 1
            assert found["slack_weight"] == pytest.approx(chosen * scale, rel=0.01)


@pytest.mark.slow
def test_light_pairs_leave_the_metric_nearly_as_it_was(reproduced):
    """The lightest weight of the grid moves a handful of neighbours at most: 3 of 398 held-out digits."""
    for unit, found in reproduced("mnist").findings:
        if unit["kind"] == "solve":
            assert abs(found["tried"][0]["error"] - found["held_out"]) <= 100 * 3 / unit["split"][1]


@pytest.mark.slow
def test_table_names_both_preparations_that_are_learned_on(reproduced):
    quantities = [row.quantity for row in reproduced("mnist").rows]
    for name in PREPARATIONS:
        assert f"1-NN error, Euclidean, {name}" in quantities
    for name in (BEST, NEAREST):
        assert f"solve, von Neumann, 1,000 random pairs, {name}" in quantities


# ---------------------------------------------------------------------- images
@pytest.fixture
def slanted():
    """A slanted stroke, off the middle: row y has its ink around column 10 + 0.5 (y - 14)."""
    y, x = np.mgrid[:28, :28]
    stroke = np.exp(-((x - 10 - 0.5 * (y - 14)) ** 2) / 2) * (abs(y - 14) <= 7)
    return np.where(stroke > 0.01, stroke, 0)[None]


def centre_and_slope(image):
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    row, column = (image * y).sum() / image.sum(), (image * x).sum() / image.sum()
    slope = (image * (y - row) * (x - column)).sum() / (image * (y - row) ** 2).sum()
    return row, column, slope


def test_regression_slope_stands_upright(slanted):
    row, column, slope = centre_and_slope(Deskew("regression")(slanted)[0])
    assert centre_and_slope(slanted[0])[2] == pytest.approx(0.5, abs=0.01)
    assert abs(slope) < 0.01  # of interpolation between pixels
    assert (row, column) == pytest.approx((14, 10), abs=0.05)  # the mass stays


def test_centred_mass_is_in_the_middle(slanted):
    row, column, slope = centre_and_slope(Deskew("regression", centred=True)(slanted)[0])
    assert (row, column) == pytest.approx((13.5, 13.5), abs=0.05)
    assert abs(slope) < 0.01
    row, column, slope = centre_and_slope(Deskew(centred=True)(slanted)[0])
    assert (row, column) == pytest.approx((13.5, 13.5), abs=0.05)
    assert slope == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("is_binary", [False, True])
def test_principal_axis_stands_upright(slanted, is_binary):
    """The axis is steeper than the regression line, which is drawn to the vertical by the width of the stroke."""
    straight = Deskew("principal", is_binary=is_binary)(slanted)[0]
    assert -0.1 < centre_and_slope(straight)[2] < 0.02


def test_turned_image_stands_upright(slanted):
    row, column, slope = centre_and_slope(Deskew("regression", is_rotation=True)(slanted)[0])
    assert abs(slope) < 0.05  # the ends of the stroke, cut level, are slanted now
    assert (row, column) == pytest.approx((14, 10), abs=0.05)


def test_images_are_left_alone_by_default(slanted):
    assert Deskew()(slanted) is slanted


def test_pairs_of_neighbours(rng):
    """Against all distances: every pair is among the 3 nearest of its kind of one of its points, bounded by its own distance."""
    points = Points(rng.normal(size=(60, 4)), np.arange(60) % 3)
    rows = neighbour_pairs(points, 240, 3, MARGIN, seed=0)
    pairs = rows.index[:, :2]
    squares = ((points.X[:, None] - points.X[None]) ** 2).sum(axis=2)
    same = points.y[pairs[:, 0]] == points.y[pairs[:, 1]]
    assert len(np.unique(np.sort(pairs, axis=1), axis=0)) == len(pairs)
    assert rows.bound == pytest.approx(np.where(same, 1 - MARGIN, 1 + MARGIN) * squares[pairs[:, 0], pairs[:, 1]])
    alike = points.y[:, None] == points.y[None]
    np.fill_diagonal(squares, np.inf)
    for kind, group in ((alike, pairs[same]), (~alike, pairs[~same])):
        third = np.sort(np.where(kind, squares, np.inf), axis=1)[:, 2]
        i, j = group.T
        assert ((squares[i, j] <= third[i]) | (squares[i, j] <= third[j])).all()


def test_random_pairs_are_drawn_whatever_their_class(rng):
    X, y = rng.normal(size=(200, 4)), np.arange(200) % 4
    rows = random_pairs(X, y, 2000, seed=1)
    pairs = rows.index[:, :2]
    assert rows.n_constraints == 2000 == len(np.unique(np.sort(pairs, axis=1), axis=0))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    assert 0.2 < same.mean() < 0.3  # 49 of 199 in expectation, standard deviation 0.01
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(200, 1)]
    # of 19,900 pairs, 87 % of which are drawn for the bounds: three standard errors
    near, far = np.percentile(squares, (5, 95))
    assert rows.bound == pytest.approx(np.where(same, near, far), rel=0.02)


def test_random_pairs_are_all_there_are_but_for_points_that_coincide(rng):
    X, y = np.repeat(rng.normal(size=(4, 3)), 3, axis=0), np.arange(12) % 2
    rows = random_pairs(X, y, 500, seed=0)
    assert rows.n_constraints == 12 * 11 // 2 - 4 * 3
    assert (rows.bound > 0).all()


def test_digits_have_a_split_of_their_own():
    train, test = images_of(DataHome(), "digits")
    assert train.X.shape == (1198, 8, 8) and test.X.shape == (599, 8, 8)
    assert train.X.min() >= 0 and train.X.max() == 1
