"""The lowest versions that pyproject.toml allows, of dependencies and build tools: constraints for pip. Run by ``make test-minimum``."""

import re
import sys
import tomllib
from pathlib import Path

# of users; tools for tests may be newer
EXTRAS = (
    "cli",
    "plot",
    "data",
    "graph",
    "frames",
    "label",
    "dask",
    "reproduce",
)


def lowest(pyproject: dict) -> list[str]:
    """``name==version`` of every dependency and build tool; one without a lowest version is an error."""
    project = pyproject["project"]
    lines = [*pyproject["build-system"]["requires"], *project["dependencies"]]
    lines += [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    found = set()
    for line in lines:
        if line.startswith(project["name"]):
            continue
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", line)
        if match is None:
            raise ValueError(f"pyproject.toml: {line!r} has no lowest version")
        found.add(f"{match[1]}=={match[2]}")
    return sorted(found)


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "pyproject.toml"
    sys.stdout.write("\n".join(lowest(tomllib.loads(page.read_text(encoding="utf-8")))) + "\n")
