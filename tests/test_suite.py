"""The short form of the suite (``make suite``): a few seeds of every family, without a false word."""

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest

import bregmat
import formulas
from suite.judge import judge
from suite.matrices import Draw
from suite.run import COUNTS, DEFAULT, FAMILIES, is_good, main, run, table

pytestmark = pytest.mark.not_verified("its own judge asks `verify` of every result")

SHORT = 0.02  # share of the problems of the long form, at most ten seeds a family


@pytest.mark.parametrize("family", FAMILIES)
def test_no_false_word(family):
    share = min(SHORT, 10 / COUNTS.get(family, DEFAULT))
    verdicts = run([family], share)
    assert [v.line() for v in verdicts if v.word == "false"] == []


@pytest.mark.parametrize(
    "name",
    [
        "redundant:198",  # a matrix that leaves the range of the prior, whose rank is 2 by the rule of 1e-12
        "redundant:25",  # a bound of heavier weights beside an objective that missed rows at the price of lighter ones
        "redundant:2052",  # rows that the range of a prior of condition 1e12 cannot meet, on which rounding turns their sum
        "redundant:2108",  # weights of rows that were eliminated, and rows missed at the price of the others
        "redundant:11278",  # a bound that the last digits of a prior of condition 1e12 are worth 3e-6 in
        "wide_bounds:10785",  # a row whose value is rounding of its bound, and holds by far
        "must_links:20012",  # the weight 4e10 of a row whose vector the matrix takes to 0
        "vanishing_point:171",  # a point that the prior's rounding made, as the unit of a loss
        "far_away:20216",  # a similarity of two points that leave the range of a factor was INFEASIBLE
        "far_away:5670",  # the objective is the square of the rounding of a distance
        "far_away:6296",  # so were differences that leave it by the rule of 1e-12
        "far_away:6682",
        "far_away:6706",
        "quadratic:95387",  # a bound that raises the linear term by 6e-16 and says so, beside one that is 5e6 lower
        "close_classes:120341",  # no machine was found, so that only the rounding of the bound itself is known
        "vanishing_point_repeated:130294",  # a product with a point at the origin, which the decomposition of the prior had moved
        "quadratic:95524",  # a bound that only directions through variables with almost no reduced gradient prove
        "far_away_repeated:110969",  # the difference of mapped points far from the origin has the rounding of both
        "wide_bounds_repeated:97166",  # a product with a difference of points that a must-link joins, which is exactly 0
        "cliques_repeated:110170",  # on a line, a near copy was so near that the planted distance had lost eight digits
        "wide_bounds_repeated:110484",  # a row that the part of the matrix in the prior's rounded range misses by 1.3e-7
        "quadratic:480",  # multipliers that must move by less than their last digit
        "vanishing:294",  # a row that is rounding, and weights beyond all numbers (UNKNOWN for INFEASIBLE)
        "unfoldings:20171",  # two points so near to each other that the slack of their distance was too small to start from
        "contradictions_repeated:20692",  # a proof whose rows `verify` mapped with fewer digits than it counted
        "contradictions_repeated:20069",  # a trace minus a point that has a near copy: UNKNOWN at a matrix of 1e17
        "contradictions_repeated:40159",  # a proof whose weights were off by 2e-9
        "contradictions_repeated:40171",
        "duplicates_repeated:61842",  # a difference of equal points as a vector, which is rounding of the prior's eigenvectors
        "wide_bounds_repeated:61017",  # a point whose part in the prior's range misses a row by 0.7 of its bound
        "wide_bounds_repeated:61595",
        "larger_repeated:80680",  # a difference of two equal columns of the prior, which `verify` did not count as 0
        "machines:282",  # weights of two classes whose sums differ by 1e-10
    ],
)
def test_seeds_that_were_false_words_or_failed_are_solved(name):
    family, seed = name.split(":")
    assert judge(family, int(seed), FAMILIES[family]).word == "solved"


@pytest.mark.parametrize(
    "name",
    [
        "contradictions_repeated:50606",  # a matrix of 6e14 and a row's matrix, whose product has lost its digits
        "contradictions_repeated:61834",
        "correlations_repeated:72356",  # two null vectors of fixed blocks, whose difference is rounding
    ],
)
def test_seeds_that_were_false_words_are_none(name):
    family, seed = name.split(":")
    verdict = judge(family, int(seed), FAMILIES[family])
    assert (verdict.word, verdict.status) in {("failed", "UNKNOWN"), ("solved", "INFEASIBLE")}


def test_a_loss_that_rounding_makes_infinite_is_no_false_claim():
    """An own slack at the value 0: if rounding takes it below 0, the objective is infinite and the status UNKNOWN."""
    verdict = judge("wide_bounds", 246, FAMILIES["wide_bounds"])
    assert (verdict.word, verdict.status) in {("solved", "OPTIMAL"), ("failed", "UNKNOWN")}


def test_the_long_form_has_enough_problems():
    assert sum(COUNTS.get(family, DEFAULT) for family in FAMILIES) >= 5000


def test_one_problem_again(capsys):
    assert main(["--only", "plain:3"]) == 0
    assert capsys.readouterr().out.startswith("plain:3  solved")


def test_a_false_word_is_reported(monkeypatch):
    """A judge that cannot say "false" would be no judge."""
    from suite.judge import Case

    lying = lambda rng: Case(solve=lambda: None, judge=lambda result: "a lie")  # noqa: E731
    monkeypatch.setitem(FAMILIES, "lying", lying)
    verdicts = run(["lying"], 0.01)
    assert not is_good(verdicts)
    assert table(verdicts).splitlines()[1].split()[:6] == ["lying", "3", "0", "0", "0", "3"]


@pytest.mark.parametrize("divergence", formulas.OWN_SLACK)
def test_the_independent_judge_refutes_claims(divergence, rng):
    """Another objective, a bound above what the weights prove, a point that misses its row, a contradiction that is none."""
    X = rng.normal(size=(6, 3))
    hard = bregmat.Constraints.sq_distance([0, 2], [1, 3], [0.5, 9.0], ["<=", ">="])
    for more in ({"slack_weight": np.inf}, {"slack_weight": 2.0}, {"slack_weight": 2.0, "loss": bregmat.Squared()}):
        arguments = {"X": X, "constraints": hard, "divergence": divergence} | more
        result = bregmat.nearest_metric(**arguments, tol=1e-8)
        assert formulas.MatrixProblem(arguments).is_judged and formulas.what_is_wrong(arguments, result) is None
        above = max(result.unit, result.objective)
        lies = [
            {"objective": result.objective + 1e-4 * above},
            {"dual_bound": result.dual_bound + 1e-4 * above},
            {"dual": -result.dual},
            {"dual": 0.0 * result.dual},
            {"status": bregmat.Status.INFEASIBLE},
        ]
        for lie in lies:
            assert formulas.what_is_wrong(arguments, replace(result, **lie)) is not None, lie
    easier = {"X": X, "constraints": hard.select([0]), "divergence": divergence, "slack_weight": np.inf}
    result = bregmat.nearest_metric(**easier)
    claim = replace(result, dual=np.append(result.dual, 0.0))
    assert formulas.what_is_wrong(arguments | {"slack_weight": np.inf, "loss": None}, claim) is not None


@pytest.mark.parametrize("kind", ["kernel", "factor", "metric"])
def test_the_independent_judge_has_digits_for_small_eigenvalues(kind, rng):
    """LogDet priors with eigenvalues of 1e-10 of the largest were judged by nobody: of these, the objective is a sum of ratios."""
    G = np.linalg.qr(rng.normal(size=(6, 6)))[0] * np.logspace(0, -5, 6)
    i, j = np.array([0, 2, 1]), np.array([1, 3, 5])
    X = (
        G if kind != "metric" else rng.normal(size=(6, 6)) @ np.linalg.inv(G).T
    )  # in the metric G G', points of length 1
    near = ((X[i] - X[j]) @ (G if kind == "metric" else np.eye(6))) ** 2
    rows = bregmat.Constraints.sq_distance(i, j, near.sum(axis=1) * [0.5, 2.0, 0.7], ["<=", ">=", "<="])
    prior = bregmat.Factor(G) if kind == "factor" else (G @ G.T + (G @ G.T).T) / 2
    arguments = {"prior": prior, "constraints": rows, "divergence": "logdet", "slack_weight": np.inf}
    arguments |= {"X": X} if kind == "metric" else {}
    solve = bregmat.nearest_metric if kind == "metric" else bregmat.nearest_kernel
    result = solve(**arguments)
    assert formulas.MatrixProblem(arguments).is_judged
    assert result.status == "OPTIMAL" and formulas.what_is_wrong(arguments, result) is None
    larger = 1e-3 * result.objective
    for lie in (
        {"objective": result.objective + larger},
        {"dual_bound": result.dual_bound + larger},
        {"dual": 0 * result.dual},
    ):
        assert formulas.what_is_wrong(arguments, replace(result, **lie)) is not None, lie


def test_the_independent_judge_confirms_contradictions_alone():
    rows = bregmat.Constraints.sq_distance([1, 0, 0], [2, 1, 1], [9.0, 1.0, 4.0], ["<=", "<=", ">="])
    arguments = {"prior": np.eye(3), "constraints": rows, "divergence": "logdet", "slack_weight": np.inf}
    result = bregmat.nearest_kernel(np.eye(3), rows)
    assert result.status == "INFEASIBLE" and formulas.what_is_wrong(arguments, result) is None
    assert formulas.what_is_wrong(arguments, replace(result, dual=np.array([1.0, 0.0, 0.0]))) is not None


@pytest.mark.parametrize("kind", ["metric", "wide", "factor"])
def test_the_planted_matrix_meets_comparisons_of_copies(kind):
    """A pair that is nearly equal was asked to be at most as far apart as one that is equal, which no LogDet metric meets."""
    seen = 0
    for seed in range(16):
        draw = Draw(np.random.default_rng(seed), priors=(kind,), sizes=(20, 26), repeats=True)
        draw.draw_rows(40)
        truth = [[Fraction(float(x)) for x in row] for row in draw.truth]
        rows = reduce(add, draw.rows)
        comparisons = [rows.relations[code].name == "comparison" for code in rows.relation]
        for where, bound in zip(rows.index[comparisons], rows.bound[comparisons]):
            near, far = (sum((x - y) ** 2 for x, y in zip(truth[i], truth[j])) for i, j in (where[:2], where[2:]))
            assert float(near - far - Fraction(float(bound))) <= 1e-9 * abs(bound) + 1e-11 * float(near)
            seen += near == 0 < far
    assert seen


def test_the_rounding_of_large_values_is_no_false_word():
    """Equalities with values of 1e12 are met up to 1e-3; in 60 digits the objective is 6e-6 from the one that the result says."""
    verdict = judge("scaled_repeated", 95104, FAMILIES["scaled_repeated"])
    assert verdict.word != "false", verdict.line()
