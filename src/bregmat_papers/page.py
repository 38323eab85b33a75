"""The pages that show every figure beside the paper's numbers: an overview, and a page for each paper in a folder of its name."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from bregmat_papers.experiments import Experiment, Row, Size
from bregmat_papers.runner import Report

_HEAD = """# The papers' figures and tables, rerun

`bregmat reproduce --page {page}` writes this page and a page for each paper; do not edit them. An entry says how an
experiment was done, shows our number beside the paper's, and gives the reasons for differences. A standard error is over independent
repeats; a row without one is a single run. `bregmat reproduce NAME` runs one experiment again, with `--full` in the paper's size.

Each entry names the commit of its run and a digest of all its rows, rounded to {digits} digits and without seconds. Other processors and
libraries change the last digit of the arithmetic, and this decides ties: single starts of k-means may end elsewhere, and errors of
a kernel whose distances tie are means over all ways to choose. `make reproduce-check` runs the experiments that take less than
{short} s again and compares every row.

The papers: Tsuda, Raetsch, Warmuth (NIPS 2004); Kulis, Sustik, Dhillon (JMLR 2009); Sha, Saul, Lee (NIPS 2002).
"""
_PAPER_HEAD = """# {paper}: figures and tables, rerun

[Overview of all experiments](../{page}), which also says how to read an entry.
"""
_SMALL = """**This is the small size, which only shows that the experiment runs on less data, and on other data. Do not compare it
with the paper's numbers. The text describes the default size.**

"""
_DIGITS = 3  # significant digits of the digest
_NOISE = 1e-9  # smaller numbers are rounding errors, and zero in the digest
_RELATIVE = 0.02  # difference of a rerun that a tie or the last digits can make
_ERRORS = 2.0  # the same in standard errors of a mean
SHORT = 60.0  # seconds; shorter experiments are run again by `make reproduce-check`


def write_page(path: str | os.PathLike, entries: Iterable[tuple[Experiment, Report]]) -> Path:
    """Write the overview and, in a folder beside it that has its name, a page for each paper and the pictures.

    Entries of other experiments on older pages are kept.

    Parameters
    ----------
    path : path
        A Markdown file.
    entries : iterable of (Experiment, Report)
        Complete reports, in the order of the page.

    Returns
    -------
    Path
        The overview.

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
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    lines = _overview(page)
    for experiment, report in entries:
        assert report.picture is not None
        picture = folder / report.picture.name
        if picture.resolve() != report.picture.resolve():  # the folder may be that of the run
            _copy_picture(report.picture, picture)
        paper = folder / f"{_paper(experiment)}.md"
        parts = _parts(paper) | {experiment.name: _entry(experiment, report, quote(picture.name))}
        paper.write_text(
            "\n".join([_PAPER_HEAD.format(paper=experiment.paper, page=page.name), *parts.values()]), encoding="utf-8"
        )
        lines[experiment.name] = overview_lines(experiment, report, f"{quote(folder.name)}/{paper.name}")
    table = ["| experiment | found again? | quantity | ours | paper |", "| --- | --- | --- | --- | --- |"]
    table += [line for group in lines.values() for line in group]
    head = _HEAD.format(page=page.name, digits=_DIGITS, short=int(SHORT))
    page.write_text("\n".join([head, *table, ""]), encoding="utf-8")
    return page


def _paper(experiment: Experiment) -> str:
    """The name of a paper's page: its first author and its year."""
    return f"{experiment.paper.split()[0].strip(',').lower()}-{experiment.paper.split()[-1]}"


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _overview(page: Path) -> dict[str, list[str]]:
    """Of an older page: the lines of its table by the name of the experiment."""
    groups = re.findall(r"^\| \[.*\n(?:\|  \|.*\n)*", _text(page), re.M)
    return {group[3:].partition("]")[0]: group.splitlines() for group in groups}


def _parts(paper: Path) -> dict[str, str]:
    """The entries on the page of a paper, by the name of the experiment."""
    parts = re.split(r"^(?=## )", _text(paper), flags=re.M)[1:]
    return {part[3:].partition(":")[0]: part.rstrip() + "\n" for part in parts}


def overview_lines(experiment: Experiment, report: Report, link: str) -> list[str]:
    """The lines of one experiment in the overview: its verdict, and the rows that stand for it beside the paper's numbers."""
    lines = []
    rows: list[Row | None] = [row for row in report.rows if row.quantity in experiment.headline]
    said = (
        f"[{experiment.name}]({link}#{_anchor(f'{experiment.name}: {experiment.title}')}): {experiment.source}",
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
    return lines


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
    run = (
        f"{report.seconds:.0f} s at {', '.join(report.commits)}; {len(report.rows)} rows, digest {digest(report.rows)}"
    )
    ours = [row for row in report.rows if row.paper is None and row.quantity not in experiment.headline]
    beside = [row for row in report.rows if row not in ours]
    return "\n".join(
        [
            f"## {experiment.name}: {experiment.title}",
            "",
            f"*{experiment.source}.* Size: {report.size}; {run}.",
            "",
            *([_SMALL] if report.size is Size.SMALL else []),
            experiment.protocol.strip(),
            "",
            f"![{experiment.title}]({picture})",
            "",
            *_markdown(beside),
            "",
            *(_folded(f"{len(ours)} rows without a number of the paper", ours) if ours else []),
            experiment.discussion.strip(),
            "",
        ]
    )


def _folded(title: str, rows: list[Row]) -> list[str]:
    """A table that opens by a click on its title."""
    return [f"<details><summary>{title}</summary>", "", *_markdown(rows), "", "</details>", ""]


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "quantity": lambda row: row.quantity,
    "ours": lambda row: with_error(row),
    "paper": lambda row: plain(row.paper),
    "unit": lambda row: row.unit,
    "repeats": lambda row: str(row.repeats) if row.repeats > 1 else "",
    "note": lambda row: row.note,
}


def _markdown(rows: list[Row]) -> list[str]:
    """The table; a column that no row uses is left out."""
    columns = {name: [cell(row) for row in rows] for name, cell in _COLUMNS.items()}
    used = {name: cells for name, cells in columns.items() if any(cells)}
    if not used:
        return []
    lines = [" | ".join(used), " | ".join("---" for _ in used)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in zip(*used.values())]
    return [f"| {line} |" for line in lines]


def read_entry(page: Path, name: str) -> tuple[float, str, list[Row]]:
    """The seconds, the digest and the rows of one experiment on the pages that :func:`write_page` wrote, as printed there.

    Raises
    ------
    ValueError
        If the page has no such entry, or one in another form.
    """
    part = next((parts[name] for file in page.with_suffix("").glob("*.md") if name in (parts := _parts(file))), "")
    head = re.search(r"^\*.*; (\d+) s at .*, digest (\w+)\.$", part, re.M)
    if head is None:
        raise ValueError(f"name={name!r}: the page has no entry of this name with a digest")
    rows, columns = [], []
    for line in re.findall(r"^\| (.*) \|$", part, re.M):
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
        if cells[0] == "quantity":
            columns = cells
        elif set(line) - set("- |"):
            by_column = dict(zip(columns, cells))
            ours, _, error = by_column["ours"].replace(",", "").partition(" ± ")
            values = float(ours or "nan"), None, by_column.get("unit", ""), float(error or "nan")
            rows.append(Row(by_column["quantity"], *values))
    return float(head[1]), head[2], rows


def digest(rows: Iterable[Row]) -> str:
    """A digest of the quantities and of the rounded numbers, in the order of their names; rows in seconds are left out."""
    values = {row.quantity: 0.0 if abs(row.ours) < _NOISE else row.ours for row in rows if row.unit != "s"}
    printed = {quantity: float(plain(value).replace(",", "") or "nan") for quantity, value in values.items()}
    lines = [f"{quantity}: {value:.{_DIGITS}g}" for quantity, value in sorted(printed.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def differing_rows(computed: Iterable[Row], printed: Iterable[Row]) -> list[str]:
    """One line for each row of a rerun that is not what a page says: another name, or a number beyond the tolerance.

    The tolerance is two percent or two standard errors of the mean, whichever is larger. Rows in seconds need the name alone.
    """
    new, old = ({row.quantity: row for row in rows} for rows in (computed, printed))
    lines = [f"{quantity}: only on the page" for quantity in old if quantity not in new]
    for quantity, row in new.items():
        if quantity not in old:
            lines.append(f"{quantity}: not on the page")
        elif row.unit != "s":
            value, error = old[quantity].ours, old[quantity].standard_error
            room = max(_NOISE, _RELATIVE * abs(value), 0.0 if math.isnan(error) else _ERRORS * error)
            if not (abs(row.ours - value) <= room or math.isnan(row.ours) and math.isnan(value)):
                lines.append(f"{quantity}: {plain(row.ours)}, on the page {plain(value)}")
    return lines


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
