"""Whether every public name, argument and return value says its type: what pyright finds without one. Run by ``make types``.

What a type is made of inside the library may be inferred; base classes of scikit-learn have no types.
"""

import inspect
import json
import re
import subprocess
import sys

import bregmat
import bregmat.io
import bregmat.online
import bregmat.pairs
import bregmat.plots

MODULES = (bregmat, bregmat.io, bregmat.online, bregmat.pairs, bregmat.plots)
UNTYPED = re.compile(r"(annotation .*is missing|[Tt]ype unknown for|^Type argument .*unknown)")


def homes() -> set[str]:
    """Where the public functions, and the public classes with their bases, are defined."""
    named = [getattr(module, name) for module in MODULES for name in module.__all__]
    found = {base for thing in named for base in (inspect.getmro(thing) if inspect.isclass(thing) else (thing,))}
    return {f"{thing.__module__}.{thing.__qualname__}" for thing in found if hasattr(thing, "__qualname__")}


def main() -> int:
    command = ["pyright", "--verifytypes", "bregmat", "--ignoreexternal", "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    public = {home for home in homes() if home.startswith("bregmat.")}
    looked, untyped = 0, []
    for symbol in symbols:
        owner, _, member = symbol["name"].rpartition(".")
        if symbol["name"] not in public and (owner not in public or member.startswith("_")):
            continue
        looked += 1
        lines = [finding["message"].split("\n")[0] for finding in symbol["diagnostics"]]
        untyped += [f"{symbol['name']}: {line}" for line in lines if UNTYPED.search(line)]
    sys.stdout.write("\n".join([*untyped, f"{looked} public symbols, {len(untyped)} without a type"]) + "\n")
    return 1 if untyped or looked < len(public) / 2 else 0


if __name__ == "__main__":
    sys.exit(main())
