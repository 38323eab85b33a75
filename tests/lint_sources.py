"""Rules about the source code that no other linter checks: which room imports which, sizes of functions, docstrings.

``python tests/lint_sources.py`` prints one line per violation and exits with 1 if there are any. ``make lint`` runs it.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

# Rooms of the library. Upper lines may import lower ones, never the other way; rooms of one line do not import each other.
TREE = """
plots
io
verification
online pairs retrieval
estimators
applications
from_labels
nearest
sharded
margin
quadratic
solvers
certificates
coordinates
operators
constraints objective kernels engine
base
typing _kernels
"""
LEVEL = {name: k for k, line in enumerate(TREE.split("\n")) for name in line.split()}
ROOMS_OF_P = dict.fromkeys(["coordinates", "operators", "certificates", "solvers", "sharded", "nearest"], "(P)")
# (kind of problem, the kind that it is built on)
BUILT_ON = {
    ("correlation", "(P)"),
    ("correlation", "semidefinite"),
    ("margin", "quadratic"),  # multiplicative updates of the dual of a machine, which is a quadratic program
    ("semidefinite", "(P)"),  # its rows are bound to points, and restored, as those of (P)
    ("simplex", "(P)"),  # settings of the same names, which users pass as objects
    ("softmax", "(P)"),  # the result is a matrix in the coordinates of a prior
    ("unfolding", "(P)"),
    ("unfolding", "semidefinite"),
}
IN_THE_ROOT = {"__init__", "__main__", "nearest", "typing"}
OPTIONAL = {"dask", "distributed", "matplotlib", "pandas", "polars", "pyarrow", "typer", "rich", "pooch"}
ARRAY_LIBRARIES = {"torch", "cupy", "array_api_compat", "array_api_strict", "jax"}
MAX_FUNCTION_LINES = 60  # of the body, without the docstring
MAX_PARAMETERS = 14
MIN_COMMENT_SHARE = 0.04  # of the lines of code
STUB = ast.parse((SRC / "bregmat" / "__init__.pyi").read_text(encoding="utf-8"))
PUBLIC_NAMES = {alias.name for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names}
PUBLIC_TEST_FILES = 63  # least number of test files that import public names only
SHAPES = re.compile(r"\(\s*[a-z0-9_ +*/.]+(,[^()]*)?\)|shape")  # such as (n,), (c, r), (k + 1,)
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
# The parameters of an estimator are its fields in scikit-learn.
MANY_PARAMETERS = {"__init__"}


def module_name(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
LIBRARY = [name for name in FILES if name.split(".")[0] == "bregmat" and name != "bregmat.__main__"]
SHIPPED = [name for name in FILES if name.split(".")[0] in ("bregmat", "bregmat_app")]


def imports(name: str) -> dict[str, int]:
    """Absolute names of all modules that a module imports, at the top or inside functions, and the line of each."""
    found = {}
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name: node.lineno for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names}
            found |= {full if full in FILES else module: node.lineno for full in inner}
    return found


IMPORTS = {name: imports(name) for name in FILES}


def room(name: str) -> str | None:
    """The room of a module of the library; None for the package itself and for modules outside of it."""
    parts = name.split(".")
    return parts[1] if parts[0] == "bregmat" and len(parts) > 1 else None


def first(name: str) -> str:
    return name.split(".")[0]


# ---------------------------------------------------------------- imports
def rooms_are_known():
    """Every module of the library is in a room of the tree, and the root holds little."""
    for name in LIBRARY:
        if room(name) is not None and room(name) not in LEVEL:
            yield name, 1, f"the room {room(name)} is not in the tree of tests/lint_sources.py"
    for path in sorted((SRC / "bregmat").glob("*.py")):
        if path.stem not in IN_THE_ROOT:
            yield f"bregmat.{path.stem}", 1, "the root of the library holds a module that belongs to a room"


def imports_go_down():
    """A room imports lower rooms only, and the package itself for its version only."""
    for name in LIBRARY:
        for other, line in IMPORTS[name].items():
            if room(name) and room(other) not in (None, room(name)) and LEVEL[room(other)] <= LEVEL[room(name)]:
                yield name, line, f"imports {other}, which is not below {room(name)}"
        if room(name):
            for match in re.finditer(r"^\s*from bregmat import (.+)$", TEXTS[name], re.M):
                if match[1] != "__version__":
                    yield name, TEXTS[name].count("\n", 0, match.start()) + 1, "imports a public name; name its module"


def kind(name: str) -> str | None:
    """The kind of problem that a module belongs to; None for modules that belong to none or to all of them."""
    parts = name.split(".")
    if len(parts) > 2 and parts[:2] == ["bregmat", "applications"]:
        return parts[2]
    return ROOMS_OF_P.get(room(name), room(name) if room(name) in ("quadratic", "margin") else None)


def problems_stay_apart():
    """The engine imports no kind of problem, and these import each other only where one is built on the other."""
    for name in LIBRARY:
        for other, line in IMPORTS[name].items():
            if room(name) == "engine" and room(other) not in (None, "engine", "base", "typing"):
                yield name, line, f"imports {other}; the engine is what every kind of problem shares"
            mine, its = kind(name), kind(other)
            if mine and its not in (None, mine) and (mine, its) not in BUILT_ON:
                yield name, line, f"imports {other}; {mine} is not built on {its}"


def results_are_composed():
    """Only ``bregmat.engine.loop.compose`` makes results; elsewhere their classes are not called."""
    for name in LIBRARY:
        for node in ast.walk(TREES[name]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Result"):
                yield name, node.lineno, f"makes a {node.func.id}; compose it from a run and its certificate"


def imports_are_absolute():
    for name in FILES:
        for node in ast.walk(TREES[name]):
            if isinstance(node, ast.ImportFrom) and node.level:
                yield name, node.lineno, "relative import"


def lines_for_annotations(name: str) -> set[int]:
    """The lines under ``if TYPE_CHECKING``, which are not run."""
    blocks = [n for n in ast.walk(TREES[name]) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return {line for block in blocks for line in range(block.lineno, (block.end_lineno or block.lineno) + 1)}


def no_cycles():
    """No module imports itself by way of others; imports for annotations do not count."""
    graph = {}
    for name in (one for one in LIBRARY if room(one)):
        unused = lines_for_annotations(name)
        graph[name] = {other for other, line in IMPORTS[name].items() if room(other) and line not in unused}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        yield error.args[1][0], 1, "imports itself: " + " -> ".join(error.args[1])


def packages_stand_beside_each_other():
    """The library imports neither of the other packages; the papers import no application and no kernels."""
    for name in FILES:
        outside = {
            other: line for other, line in IMPORTS[name].items() if first(other) in ("bregmat_app", "bregmat_papers")
        }
        for other, line in outside.items():
            mine = first(name)
            allowed = other.startswith(mine) or name == "bregmat_app.cli.papers"
            if name != "bregmat.__main__" and not allowed:
                yield name, line, f"imports {other}"
        if first(name) == "bregmat_papers":
            yield from (
                (name, line, f"imports {other}") for other, line in IMPORTS[name].items() if "._kernels" in other
            )
        if room(name) == "_kernels":
            above = {other: line for other, line in IMPORTS[name].items() if room(other) not in (None, "_kernels")}
            yield from ((name, line, f"a kernel module imports {other}") for other, line in above.items())


def optional_libraries_stay_outside():
    """Neither plotting nor tables below the estimators, and other array libraries in one file."""
    for name in LIBRARY:
        for other, line in IMPORTS[name].items():
            below = room(name) and LEVEL[room(name)] >= LEVEL["nearest"]
            if below and first(other) in OPTIONAL and room(name) != "sharded":
                yield name, line, f"imports {first(other)}, which is an optional dependency"
            if first(other) in ARRAY_LIBRARIES and name not in ARRAY_LIBRARY_USERS:
                yield (
                    name,
                    line,
                    f"imports {first(other)}; bregmat.base.arrays is where arrays of other libraries are recognised",
                )


ARRAY_LIBRARY_USERS = {"bregmat.base.arrays", "bregmat.estimators.mahalanobis"}  # the latter makes a layer of torch


# ---------------------------------------------------------------- names and sizes
def one_word_one_class():
    """No two classes share a name."""
    places = defaultdict(list)
    for name in SHIPPED:
        for node in TREES[name].body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append((name, node.lineno))
    for word, uses in places.items():
        for name, line in uses[1:]:
            yield name, line, f"class {word} is also in {uses[0][0]}"


def no_property_holds_a_lock():
    """Python 3.11's ``functools.cached_property`` holds one lock for all objects of its class, also in a forked process."""
    for name in LIBRARY:
        if name != "bregmat.base.threads" and re.search(r"functools.*\bcached_property", TEXTS[name]):
            yield name, 1, "uses functools.cached_property; use that of bregmat.base.threads"


def own_lines(function: ast.FunctionDef) -> int:
    """Lines of the body of a function, without its docstring."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return statements[-1].end_lineno - statements[0].lineno + 1 if statements else 0


def functions_fit_on_a_screen():
    for name in SHIPPED:
        for node in ast.walk(TREES[name]):
            if isinstance(node, ast.FunctionDef) and own_lines(node) > MAX_FUNCTION_LINES:
                yield name, node.lineno, f"{node.name} has {own_lines(node)} lines; at most {MAX_FUNCTION_LINES}"


def signatures_are_short():
    for name in LIBRARY:
        for node in ast.walk(TREES[name]):
            if isinstance(node, ast.FunctionDef) and node.name not in MANY_PARAMETERS:
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                count = len([a for a in given if a.arg not in ("self", "cls")])
                if count > MAX_PARAMETERS:
                    yield name, node.lineno, f"{node.name} takes {count} parameters; at most {MAX_PARAMETERS}"


# ---------------------------------------------------------------- comments and docstrings
def functions(tree):
    """(class or None, function) of everything at the top and in public classes."""
    for owner in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
        if not getattr(owner, "name", "").startswith("_"):
            yield from ((owner, node) for node in owner.body if isinstance(node, ast.FunctionDef))


def has_parameters(function) -> bool:
    return "Parameters\n" in (ast.get_docstring(function) or "")


def bases(owner):
    return [ast.unparse(base).split("[")[0].split(".")[-1] for base in getattr(owner, "bases", ())]


def documented():
    """For each class the methods that it or a class above it documents."""
    classes = [node for name in SHIPPED for node in ast.walk(TREES[name]) if isinstance(node, ast.ClassDef)]
    known = {owner.name: {f.name for o, f in functions(owner) if has_parameters(f)} for owner in classes}
    for _ in range(5):  # levels of inheritance
        for owner in classes:
            known[owner.name] |= set().union(*(known.get(base, set()) for base in bases(owner)))
    return known


def many_arguments_are_explained():
    """A public function of four arguments or more has a section Parameters, or inherits one."""
    known = documented()
    for name in LIBRARY:
        for owner, function in functions(TREES[name]):
            given = function.args
            count = len([a for a in given.posonlyargs + given.args + given.kwonlyargs if a.arg not in ("self", "cls")])
            explained = function.name.startswith("_") or has_parameters(function)
            inherited = any(function.name in known.get(base, ()) for base in bases(owner))
            if count >= 4 and not (explained or inherited):
                yield name, function.lineno, f"{function.name} takes {count} arguments; its docstring lacks Parameters"


def headers_of_kernels_say_shapes():
    for path in sorted((SRC / "bregmat" / "_kernels").rglob("*.hpp")):
        code = path.read_text(encoding="utf-8")
        takes_arrays = re.search(r"^\w[^{};]*\b(Vector|Matrix)<[^{};]*\);", code, re.M)
        if takes_arrays and not SHAPES.search("\n".join(re.findall("//(.*)", code))):
            yield str(path.relative_to(SRC)), 1, "takes arrays and gives no shapes"


def code_and_comments() -> tuple[int, int]:
    """Lines of code and comments in what is shipped, without docstrings, blank lines and directives to linters."""
    code, comments = set(), set()
    for name in SHIPPED:
        docstrings = set()
        for node in ast.walk(TREES[name]):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings |= set(range(node.lineno, node.end_lineno + 1))
        for token in tokenize.generate_tokens(io.StringIO(TEXTS[name]).readline):
            if token.type == tokenize.COMMENT and not re.match(r"# *(noqa|type:|pragma)", token.string):
                comments.add((name, token.start[0]))
            elif token.type not in NOT_CODE:
                code |= {(name, line) for line in range(token.start[0], token.end[0] + 1) if line not in docstrings}
    return len(code), len(comments)


def there_are_comments():
    code, comments = code_and_comments()
    if comments < MIN_COMMENT_SHARE * code:
        yield "bregmat", 1, f"{comments} comments for {code} lines of code: less than {MIN_COMMENT_SHARE:.0%}"


def the_page_names_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = " ".join(line.split("|")[1] for line in page.split("\n") if line.startswith("| `"))
    named = set(re.findall(r"`(\w+)`", table))
    for missing in sorted({*LEVEL, "cli", "label", "report"} - named):
        yield "docs/architecture.md", 1, f"does not name the room {missing}"
    for unknown in sorted(named - {*LEVEL, "cli", "label", "report"}):
        yield "docs/architecture.md", 1, f"names {unknown}, which is no room"


def tests_import_public_names():
    """At least so many test files import only what users import: names that a package lists in its ``__all__``."""
    files = sorted((ROOT / "tests").glob("test_*.py"))
    public = [path.name for path in files if all(map(is_public, imported_names(ast.parse(path.read_text("utf-8")))))]
    if len(public) < PUBLIC_TEST_FILES:
        yield "tests", 1, f"{len(public)} of {len(files)} test files import public names only; {PUBLIC_TEST_FILES} did"


def imported_names(tree: ast.AST) -> list[tuple[str, str]]:
    """(module, name) of everything that a test file imports from the packages here."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    found = [(node.module or "", alias.name) for node in nodes for alias in node.names]
    return [(module, name) for module, name in found if f"{module}.".startswith(("bregmat.", "bregmat_"))]


def is_public(imported: tuple[str, str]) -> bool:
    """Whether a package lists the name in ``__all__``; the command itself is public, too."""
    module, name = imported
    if module == "bregmat":
        return name in PUBLIC_NAMES
    if imported == ("bregmat_app.cli.app", "app"):
        return True
    lists = [
        node
        for node in TREES[module].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return FILES[module].name == "__init__.py" and any(name in ast.literal_eval(node.value) for node in lists)


RULES = (
    rooms_are_known,
    imports_go_down,
    problems_stay_apart,
    results_are_composed,
    imports_are_absolute,
    no_cycles,
    packages_stand_beside_each_other,
    optional_libraries_stay_outside,
    one_word_one_class,
    no_property_holds_a_lock,
    functions_fit_on_a_screen,
    signatures_are_short,
    many_arguments_are_explained,
    headers_of_kernels_say_shapes,
    there_are_comments,
    the_page_names_every_room,
    tests_import_public_names,
)


def main() -> int:
    violations = [violation for rule in RULES for violation in rule()]
    for name, line, message in violations:
        print(f"{FILES.get(name, name)}:{line}: {message}")
    print(f"{len(RULES)} rules, {len(FILES)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
