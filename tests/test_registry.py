"""One place where names become classes: what may be registered, and what a refusal says."""

import subprocess
import sys
from pathlib import Path

import pytest

import bregmat
from bregmat import LogDet, SpectralDivergence
from bregmat.base.registry import _KINDS, Registry
from bregmat.io import classes
from bregmat.objective.divergences import DIVERGENCES


@pytest.fixture
def shapes():
    """A kind of its own, gone after the test."""
    registry = Registry("shape", example="Square()", needs=("area", "corners"), before="None (no shape), ")

    class Square:
        name, corners = "square", 4

        def area(self):
            return 1.0

    registry.add(Square)
    yield registry
    _KINDS.remove(registry)


def test_a_registered_class_is_found_by_its_name(shapes):
    class Circle:
        name, corners, area = "circle", 0, 3.14

    assert bregmat.register(Circle) is Circle  # so that it decorates
    assert list(shapes) == ["square", "circle"]
    assert type(shapes.resolve("circle")) is Circle
    given = Circle()
    assert shapes.resolve(given) is given


@pytest.mark.parametrize("what", ["divergence", "loss", "relation", "solver"])
def test_a_class_of_ones_own_is_registered_before_anything_else_is_loaded(what):
    """A divergence was "of no kind that can be registered", because the registry of its kind was not loaded with its base class."""
    subprocess.run([sys.executable, "-c", f"import toy_{what}"], cwd=Path(__file__).parent, check=True)


def test_a_class_takes_the_place_of_itself_only(shapes):
    def define(where):
        class Circle:
            name, corners, area = "circle", 0, 3.14

        Circle.__module__ = where
        return Circle

    first, again, other = define("notebook"), define("notebook"), define("elsewhere")
    bregmat.register(first)
    assert shapes["circle"] is first
    bregmat.register(again)
    assert shapes["circle"] is again
    with pytest.raises(ValueError, match=r"the shape 'circle' is notebook\..*already; give elsewhere\..* another name"):
        bregmat.register(other)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            "disc",
            ValueError,
            r"shape must be None \(no shape\), one of square or an object such as Square\(\); got 'disc'",
        ),
        (3, TypeError, r"shape must be .*got 3, which has no area, corners, name"),
        (LogDet, TypeError, "shape must be .*got the class LogDet itself"),
    ],
)
def test_what_is_no_shape(shapes, value, error, message):
    with pytest.raises(error, match=message):
        shapes.resolve(value)


def test_a_class_of_no_kind_is_told_what_each_kind_needs(shapes):
    with pytest.raises(
        TypeError, match="no kind.*as a divergence it has no base class SpectralDivergence.*as a shape.*area"
    ):
        bregmat.register(int)

    class Half(SpectralDivergence):
        name = "half"

        def link(self, x):
            return x

    with pytest.raises(TypeError, match="as a divergence it has no inverse_link, phi"):
        bregmat.register(Half)


@pytest.mark.parametrize("name", [3, "two words", ""])
def test_a_name_is_an_identifier(shapes, name):
    cls = type("Odd", (), {"name": name, "corners": 1, "area": 1.0})
    with pytest.raises(TypeError, match="name of a shape must be a string in snake case"):
        bregmat.register(cls)


def test_every_class_that_files_name_is_there():
    for name in [*classes.SAVABLE, *classes.PARTS]:
        cls = classes.class_named(name)
        assert cls.__name__ == name and classes.is_known(cls)
    assert not set(classes.SAVABLE) & set(classes.PARTS)


def test_a_name_of_the_library_stays(shapes):
    class Impostor(LogDet):
        pass

    with pytest.raises(ValueError, match="the divergence 'logdet' is bregmat.objective.divergences.LogDet already"):
        bregmat.register(Impostor)
    assert DIVERGENCES["logdet"] is LogDet
