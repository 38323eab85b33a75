"""What docstrings promise a reader: parameters of everything that takes four or more, shapes in the headers of kernels."""

import ast
import re
from pathlib import Path

import pytest

import bregmat

ROOT = Path(bregmat.__file__).parent
TREES = {
    str(path.relative_to(ROOT.parent)): ast.parse(path.read_text(encoding="utf-8"))
    for folder in (ROOT, ROOT.parent / "bregmat_app")
    for path in sorted(folder.rglob("*.py"))
}
HEADERS = sorted((Path(__file__).parents[1] / "src" / "bregmat" / "_kernels").rglob("*.hpp"))
SHAPES = re.compile(r"\(\s*[a-z0-9_ +*/.]+(,[^()]*)?\)|shape")  # such as (n,), (c, r), (k + 1,)


def functions(tree):
    """(class or None, function) of everything at the top and in public classes."""
    for owner in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
        if not getattr(owner, "name", "").startswith("_"):
            yield from ((owner, node) for node in owner.body if isinstance(node, ast.FunctionDef))


def text(function):
    return ast.get_docstring(function) or ""


def decorated(function, word):
    return any(word in ast.unparse(decorator) for decorator in function.decorator_list)


def bases(owner):
    return [ast.unparse(base).split("[")[0].split(".")[-1] for base in getattr(owner, "bases", ())]


def documented():
    """For each class the methods that it or a class above it documents."""
    classes = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {owner.name: {f.name for o, f in functions(owner) if "Parameters\n" in text(f)} for owner in classes}
    for _ in range(5):  # levels of inheritance
        for owner in classes:
            known[owner.name] |= set().union(*(known.get(base, set()) for base in bases(owner)))
    return known


DOCUMENTED = documented()


@pytest.mark.parametrize("name", TREES)
def test_four_arguments_are_explained(name):
    missing = []
    for owner, function in functions(TREES[name]):
        given = function.args
        count = len([a for a in given.posonlyargs + given.args + given.kwonlyargs if a.arg not in ("self", "cls")])
        own = function.name.startswith("_") or "Parameters\n" in text(function)
        inherited = any(function.name in DOCUMENTED.get(base, ()) for base in bases(owner))
        # the docstring of a command is its help page, which explains options by themselves
        if count >= 4 and not (own or inherited or decorated(function, "command")):
            missing.append(f"{function.name}:{function.lineno}")
    assert missing == []


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_headers_of_kernels_say_shapes(header):
    code = header.read_text(encoding="utf-8")
    takes_arrays = re.search(r"^\w[^{};]*\b(Vector|Matrix)<[^{};]*\);", code, re.M)
    assert not takes_arrays or SHAPES.search("\n".join(re.findall("//(.*)", code)))
