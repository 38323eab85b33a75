"""The short form of the suite (``make suite``): a few seeds of every family, without a false word."""

import pytest

from suite.run import COUNTS, DEFAULT, FAMILIES, is_good, main, run, table

SHORT = 0.02  # share of the problems of the long form, at most ten seeds a family


@pytest.mark.parametrize("family", FAMILIES)
def test_no_false_word(family):
    share = min(SHORT, 10 / COUNTS.get(family, DEFAULT))
    verdicts = run([family], share)
    assert [v.line() for v in verdicts if v.word == "false"] == []


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
