"""The lowest versions that pyproject.toml allows, one requirement a line: constraints for pip. Run by ``make test-minimum``."""

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


def lowest(project: dict) -> list[str]:
    """``name==version`` of every dependency; one without a lowest version is an error."""
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
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
    sys.stdout.write("\n".join(lowest(tomllib.loads(page.read_text(encoding="utf-8"))["project"])) + "\n")
