"""Checks and help that several commands share: modules to import, numbers in options, output files, the file of constraints."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bregmat.constraints.relations import RELATIONS
from bregmat.io import check_writable

__all__ = ["check_outputs", "constraints_help", "import_terms", "number_in"]

_CONSTRAINTS_FILE = """
The constraints file has one constraint per row and the columns relation,i,j,k,l,bound,sense,weight. Relations:

{relations}

weight is optional: the cost of violating this row compared with others (default 1; inf: it must hold). Points are named by values
of the id column of POINTS, or by row numbers from 0 if there is none.

Example rows: sq_distance,a,b,,,1.5,<=,1 and comparison,a,b,a,c,-1,, (a is closer to b than to c, by at least 1).

Pairs and triplets need no bounds, which are then derived from the points: the columns a,b (each two belong together), a,b,link (must or
cannot, same or different, 1 or -1), a,b,distance (or sq_distance), or anchor,near,far.
"""


def import_terms(name: str) -> None:
    """Import a module, by its name or from a .py file, because it registers divergences, losses, relations or solvers."""
    path = Path(name)
    if path.suffix != ".py":
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # any .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # worker processes and pickles look for its classes here
    spec.loader.exec_module(module)


def constraints_help() -> str:
    """Describe the file of constraints, with the relations that are registered now."""
    relations = "\n\n".join(f"{name}: {r.help}" for name, r in RELATIONS.items() if not r.takes_matrix)
    paragraphs = _CONSTRAINTS_FILE.format(relations=relations).split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs)


def number_in(option: str, text: str, allowed: str) -> float:
    """Convert the value of an option that also takes words."""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{option} must be {allowed}; got {text!r}") from error


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> dict[str, Path | None]:
    """Return absolute output paths by option, checked before any work: writable, distinct, and none of the inputs."""
    taken = {path.resolve(): str(path) for path in inputs if path is not None}
    checked: dict[str, Path | None] = {}
    for name, path in outputs.items():
        checked[name] = None if path is None else check_writable(path)
        if path is None:
            continue
        if path.resolve() in taken:
            raise ValueError(f"{name} {path} is the same file as {taken[path.resolve()]}")
        taken[path.resolve()] = name
    if outputs.get("--report") is not None:
        from bregmat.plots._style import require_matplotlib

        require_matplotlib("--report")
    return checked
