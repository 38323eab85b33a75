"""Run the short experiments below docs/reproduction again and compare every row with the pages: `make reproduce-check`.

    python tests/rerun_page.py [NAME ...] [--download]

The digest of the rows agrees on processors and libraries like those of the pages. Elsewhere ties may be decided differently; then every row
has to agree within the tolerance of ``differing_rows``.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bregmat_papers import DataHome, experiment, experiment_names, reproduce
from bregmat_papers.page import SHORT, differing_rows, digest, read_entry

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"


def main() -> int:
    """Print one line for each experiment, and each row that differs; the exit status is 1 if any does."""
    parser = argparse.ArgumentParser(prog="rerun_page", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments; by default all that take less than a minute"
    )
    parser.add_argument("--download", action="store_true", help="fetch data that are missing")
    given = parser.parse_args()
    differs = False
    data = DataHome(download=given.download)
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names or experiment_names():
            seconds, printed, rows = read_entry(PAGE, name)
            if not given.names and seconds >= SHORT:
                continue
            found = reproduce(experiment(name), folder, data=data).rows
            wrong = differing_rows(found, rows)
            same = "same digest" if digest(found) == printed else "another digest"
            print(
                f"{name}: {len(rows)} rows, {same}, {len(wrong)} beyond the tolerance", *wrong, sep="\n  ", flush=True
            )
            differs = differs or bool(wrong)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
