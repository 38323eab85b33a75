"""The page that shows every figure beside the paper's numbers: Markdown, with the pictures in a folder of its name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from bregmat_papers.experiments import Experiment, Row, Size
from bregmat_papers.runner import Report

_HEAD = """# The papers' figures and tables, rerun

Written by `bregmat reproduce{option} --page {page}`; do not edit. Each entry names what is shown, how it was done, our number
beside the paper's, and why the two differ where they do. A standard error is over independent repeats; a row without one is a
single run. `bregmat reproduce NAME` runs one of them again{more}.

What depends on the machine: the seconds, and whatever a tie decides, since the last digit of the arithmetic differs between processors and
libraries. Errors of a kernel whose distances tie are given as ranges; single starts of k-means may end elsewhere.

{small}The papers: Tsuda, Raetsch, Warmuth (NIPS 2004); Kulis, Sustik, Dhillon (JMLR 2009); Sha, Saul, Lee (NIPS 2002).
"""
_SMALL = """**This is the small size, which only shows that the experiments run: other data, less of it. The paper's numbers
beside it are not to be compared, and the protocols describe the default size.**

"""


def write_page(path: str | os.PathLike, entries: Iterable[tuple[Experiment, Report]]) -> Path:
    """Write the page and, in a folder beside it that has its name, the pictures.

    Parameters
    ----------
    path : path
        A Markdown file.
    entries : iterable of (Experiment, Report)
        Complete reports, in the order of the page.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If a report is incomplete, or the name of the page does not end in ``.md``.
    """
    page, entries = Path(path), list(entries)
    check_page(page)
    unfinished = [report.name for _, report in entries if not report.is_complete]
    if unfinished:
        raise ValueError(f"entries: {', '.join(unfinished)} not complete; run them to the end first")
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    sizes = {report.size for _, report in entries}
    option = "".join(f" --{size}" for size in sizes) if sizes in ({Size.FULL}, {Size.SMALL}) else ""
    more = "" if sizes == {Size.FULL} else ", with `--full` in the paper's size"
    small = _SMALL if Size.SMALL in sizes else ""
    parts = [_HEAD.format(option=option, page=page.name, more=more, small=small), overview(entries)]
    for experiment, report in entries:
        assert report.picture is not None
        picture = pictures / report.picture.name
        if picture.resolve() != report.picture.resolve():  # the page may stand beside the pictures' own folder
            _copy_picture(report.picture, picture)
        parts.append(_entry(experiment, report, quote(f"{pictures.name}/{picture.name}")))
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def overview(entries: Iterable[tuple[Experiment, Report]]) -> str:
    """The table on top: each experiment with its verdict, and the rows that stand for it beside the paper's numbers."""
    lines = ["| experiment | found again? | quantity | ours | paper |", "| --- | --- | --- | --- | --- |"]
    for experiment, report in entries:
        rows: list[Row | None] = [row for row in report.rows if row.quantity in experiment.headline]
        said = (
            f"[{experiment.name}](#{_anchor(f'{experiment.name}: {experiment.title}')}): {experiment.source}",
            experiment.verdict,
        )
        for row in rows or [None]:
            cells = (
                ("", "", "")
                if row is None
                else (row.quantity, _valued(with_error(row), row), _valued(plain(row.paper), row))
            )
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in (*said, *cells))} |")
            said = "", ""
    return "\n".join([*lines, ""])


def _anchor(heading: str) -> str:
    """What a heading is called in links: GitHub's rule, and that of the documentation site."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _valued(text: str, row: Row) -> str:
    return f"{text} {row.unit}" if text and row.unit else text


def _copy_picture(source: Path, target: Path) -> None:
    """The same picture in 128 colours: line art looks alike, in a third of the bytes."""
    from PIL import Image  # comes with matplotlib

    with Image.open(source) as picture:
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


def check_page(path: str | os.PathLike) -> None:
    """Raise ``ValueError`` unless a page can have this name: its pictures go to a folder of the same name without suffix."""
    if Path(path).suffix != ".md":
        raise ValueError(f"the page must be a file that ends in .md; got {os.fspath(path)!r}")


def _entry(experiment: Experiment, report: Report, picture: str) -> str:
    """One experiment."""
    return "\n".join(
        [
            f"## {experiment.name}: {experiment.title}",
            "",
            f"*{experiment.source}.* Size: {report.size}; {report.seconds:.0f} s.",
            "",
            experiment.protocol.strip(),
            "",
            f"![{experiment.title}]({picture})",
            "",
            *_markdown(report.rows),
            "",
            experiment.discussion.strip(),
            "",
        ]
    )


def _markdown(rows: list[Row]) -> list[str]:
    """The table; a column that no row uses is left out."""
    columns = {
        "quantity": [row.quantity for row in rows],
        "ours": [with_error(row) for row in rows],
        "paper": [plain(row.paper) for row in rows],
        "difference": [plain(row.difference) for row in rows],
        "unit": [row.unit for row in rows],
        "repeats": [str(row.repeats) if row.repeats > 1 else "" for row in rows],
        "note": [row.note for row in rows],
    }
    used = {name: cells for name, cells in columns.items() if any(cells)}
    lines = [" | ".join(used), " | ".join("---" for _ in used)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in zip(*used.values())]
    return [f"| {line} |" for line in lines]


def with_error(row: Row) -> str:
    """``0.853 ± 0.012``; without an error, the number alone."""
    if math.isnan(row.standard_error):
        return plain(row.ours)
    return f"{plain(row.ours)} ± {row.standard_error:.2g}"


def plain(value: float | None) -> str:
    """Four significant digits, and all digits of a whole number; empty for no number."""
    if value is None or math.isnan(value):
        return ""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"
