"""The library as another user finds it in a locked-down container: installed by root, read-only, no home. ``make locked-down``.

A wheel is built and installed in an environment of its own that borrows what it depends on from the one that runs this
script. Then a user who may write to neither of them, and who has no home, imports it, solves a problem that needs
compiled kernels, and calls the command; whatever is printed that does not belong there is an error. Without root's rights, which
changing the user takes, the script starts itself again by ``sudo``.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

ROOT = Path(__file__).parents[1]
NOBODY = 65534  # the user and the group who own nothing
SOLVE = """
import numpy as np
import bregmat
from bregmat import Constraints, CyclicProjection, nearest_kernel

K = np.eye(4) + 1.0
rows = Constraints.sq_distance([0, 1, 2], [1, 2, 3], [1.0, 1.5, 3.0], ["<=", "<=", ">="])
result = nearest_kernel(K, rows, solver=CyclicProjection(), slack_weight=float("inf"), tol=1e-9)
assert result.status == "OPTIMAL", result
W = result.kernel()
assert np.allclose([W[i, i] + W[j, j] - 2 * W[i, j] for i, j in ((0, 1), (1, 2), (2, 3))], [1.0, 1.5, 3.0], atol=1e-6)
print(result.status)
"""


def install(place: Path) -> Path:
    """An environment in `place` that has a wheel of this tree and nobody but its owner may write to; its Python."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", place,
         f"--config-settings=build-dir={Path(sys.prefix, 'kernels')}", ROOT],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )  # fmt: skip
    base = within_reach(Path(sys.base_prefix), place / "base", leave_out=("site-packages", "test"))
    subprocess.run([base / "bin" / Path(sys.executable).name, "-m", "venv", "--without-pip", place / "env"], check=True)
    python = place / "env" / "bin" / "python"
    (wheel,) = place.glob("bregmat-*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel],
        check=True,
    )
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place / "env")}))
    # folders that a .pth file names come after its own, so that bregmat is the wheel's
    borrowed = within_reach(Path(sysconfig.get_path("purelib")), place / "borrowed")
    (packages / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")
    subprocess.run(["chmod", "-R", "a-w,a+rX", place / "env"], check=True)
    return python


def within_reach(folder: Path, copy: Path, *, leave_out: tuple[str, ...] = ()) -> Path:
    """The folder, if others may look into it and all above it (not if it is below /root); else links to its files."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # on another disk
            shutil.copy(source, target)

    if all(part.stat().st_mode & 0o005 == 0o005 for part in (folder, *folder.parents)):
        return folder
    shutil.copytree(
        folder, copy, symlinks=True, copy_function=link, ignore=shutil.ignore_patterns(*leave_out, "__pycache__")
    )
    return copy


def as_nobody(*command: object, room: Path) -> tuple[str, str]:
    """What a command prints to stdout and stderr, run in `room` by a user without a home; it must not fail."""
    done = subprocess.run(
        [str(part) for part in command],
        user=NOBODY, group=NOBODY, extra_groups=[], cwd=room, capture_output=True, text=True, timeout=300,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TMPDIR": str(room), "COLUMNS": "120", "LANG": "C.UTF-8",
             "LD_LIBRARY_PATH": str(room.parent / "base" / "lib")},  # of a copied Python, which would look where it was
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command[1:]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout, done.stderr


def expect(holds: bool, what: str, *shown: object) -> None:
    """End with what was found where it is not what is right."""
    if not holds:
        raise SystemExit("\n".join([f"not so: {what}", *map(str, shown)]))
    print("ok:", what, flush=True)


def main() -> None:
    if os.geteuid():
        os.execvp("sudo", ["sudo", "--non-interactive", sys.executable, *sys.argv])
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="bregmat-locked-") as folder:
        place, room = Path(folder), Path(folder) / "room"
        place.chmod(0o755)
        room.mkdir()
        os.chown(room, NOBODY, NOBODY)
        look(install(place), room)


def look(python: Path, room: Path) -> None:
    """All that is looked at, as nobody."""
    out, _ = as_nobody(
        python, "-c",
        "import os, bregmat\n"
        "from pathlib import Path\n"
        "package = Path(bregmat.__file__).parent\n"
        "print([str(p) for p in (package, package / '_kernels', Path.home()) if os.access(p, os.W_OK)], package)",
        room=room,
    )  # fmt: skip
    expect(
        out.startswith("[] ") and str(python.parents[1]) in out,
        "the package is the wheel's, nothing of it, and no home, is open",
        out,
    )

    out, err = as_nobody(python, "-c", SOLVE, room=room)
    expect(
        out.split()[-1] == "OPTIMAL" and err == "",
        "solving succeeds and prints nothing to stderr",
        out,
        err,
    )

    command = [python.with_name("bregmat")]
    out, err = as_nobody(*command, "--help", room=room)
    expect("learn" in out and err == "", "bregmat --help", out, err)
    points = room / "wine.csv"
    load_wine(as_frame=True).frame.to_csv(points, index=False)
    out, err = as_nobody(
        *command, "learn", points, "--labels", "target", "--strategy", "random", "--n-constraints", 200, "--folds", 2,
        "--out", room / "wine.bregmat", "--report", room / "wine.html", room=room,
    )  # fmt: skip
    strange = [line for line in err.splitlines() if not line.startswith(("features (13): alcohol,", "note: "))]
    expect(
        "OPTIMAL" in out and strange == [], "bregmat learn: proven, and no word of what it cannot write to", out, err
    )
    page = (room / "wine.html").read_text(encoding="utf-8")
    expect("OPTIMAL" in page and (room / "wine.bregmat").stat().st_size > 0, "it has written the model and the report")
    out, err = as_nobody(*command, "inspect", room / "wine.bregmat", room=room)
    expect("OPTIMAL" in out and err == "", "bregmat inspect reads the model", out, err)


if __name__ == "__main__":
    main()
